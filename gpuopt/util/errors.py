"""The exceptions: those of csrc/status.def, with examples, and NumPy's AxisError."""

from __future__ import annotations

import numpy as np

from gpuopt._core import DeviceError, DeviceLost, DeviceMemoryError, PTXError, SimError, UnfitError

AxisError = getattr(np, "exceptions", np).AxisError  # where NumPy 1.24 has it, too

_EXAMPLES: dict[type[Exception], str] = {
    DeviceError: """
    >>> try:
    ...     gpuopt.reduce([1, 2], device="cuda:99")
    ... except (gpuopt.DeviceError, ValueError):  # no driver, or fewer GPUs
    ...     print(gpuopt.reduce([1, 2], device="cpu"))
    3
    """,
    DeviceLost: """
    >>> issubclass(gpuopt.DeviceLost, gpuopt.DeviceError)  # every later call raises it
    True
    """,
    DeviceMemoryError: """
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> try:
    ...     gpuopt.load_ptx(ptx, device="sim").empty(1 << 60)
    ... except gpuopt.DeviceMemoryError as error:
    ...     print(error.bytes_asked > error.bytes_free)
    True
    """,
    PTXError: """
    >>> try:
    ...     gpuopt.load_ptx(".version 8.0\\n.target sm_75\\n.visible .entry k( {", device="sim")
    ... except gpuopt.PTXError as error:
    ...     print(error.line)
    3
    """,
    UnfitError: """
    >>> import numpy as np
    >>> try:
    ...     gpuopt.add(np.ones(2000), np.ones(2000), variant=3, device="sim")
    ... except gpuopt.UnfitError as error:  # a ValueError
    ...     print(str(error).split(";")[0])
    variant: rung 'threads' has one block, of at most 1024 threads, and cannot process 2000 elements
    """,
    SimError: """
    >>> import numpy as np
    >>> try:
    ...     gpuopt.reduce(np.arange(1000.0), variant="5-historical", device="sim")
    ... except gpuopt.SimError as error:
    ...     print("race" in str(error))
    True
    """,
}

for _kind, _example in _EXAMPLES.items():
    _kind.__doc__ = (
        f"{_kind.__doc__}\n\n    Examples\n    --------\n    >>> import gpuopt{_example}"
    )
