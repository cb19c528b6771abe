"""Predict a call's time on a GPU that nobody has at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuopt.observe.prediction import Prediction
from gpuopt.observe.profile import profile
from gpuopt.util.literals import DeviceName
from gpuopt.util.names import suggests


@suggests
def predict(
    call: Callable[..., Any],
    *arguments: Any,
    device: DeviceName | str = "sim",
    cold: bool = False,
    how: str = "queue",
    clock: float | None = None,
    bandwidth: float | None = None,
    multiprocessors: int | None = None,
    **options: Any,
) -> Prediction:
    """Predict the time of a call's kernels on a GPU, from a run on the simulated one.

    Parameters
    ----------
    call : callable
        A function of gpuopt, a kernel of `load_ptx`, or a function that launches kernels.
    *arguments, **options
        Passed to it.
    device : str
        "sim" or a preset, "sim:g80": the device of a call that names none, and the GPU to predict
        for. A kernel of `load_ptx` runs on its module's device.
    cold : bool
        Whether L2 holds nothing at first. By default it holds what fits, as in a loop of calls.
    how : {"queue", "graph"}
        Whether the launches follow each other in a stream, or in a CUDA graph, where each costs
        about a microsecond less.
    clock, bandwidth : float, optional
        What if the multiprocessors had this clock, in Hz, or DRAM this peak, in bytes per second?
    multiprocessors : int, optional
        What if there were this many? The call itself sees the preset's number.

    Returns
    -------
    Prediction

    Raises
    ------
    TypeError, ValueError
        As `profile`; a figure that is no positive number; an unknown `how`; nothing was launched.

    Notes
    -----
    The time is that of the kernels; copies between host and device are left out.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.ones((256, 256), np.float32)
    >>> slow, fast = (
    ...     gpuopt.predict(gpuopt.transpose, x, variant=each, device="sim:k40").seconds
    ...     for each in ("2d", "padded")
    ... )
    >>> slow > fast
    True
    """
    if not callable(call):
        raise TypeError(f"call: must be callable, not {call!r:.60}")
    return profile(call, *arguments, device=device, caches=True, **options).predicted(
        cold=cold, how=how, clock=clock, bandwidth=bandwidth, multiprocessors=multiprocessors
    )
