"""Calls that one device does not serve: on Dask arrays, stored arrays, several devices, groups.

The layer `scale` serves them. It is above this one: it registers its engine when gpuopt is
imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuopt.arrays.device_array import DeviceArray
from gpuopt.catalog.devices import device_name

Engine = Callable[[str, dict[str, Any], dict[str, Any]], Any]

_engine: list[Engine] = []
_LISTED = 64  # elements that are looked at: a list of numbers may be long
BLOCKS_LEAST = 1 << 30  # bytes of a host array that is computed in blocks if the device is full


def register(engine: Engine) -> None:
    """Set the engine: ``engine(family, arguments, options)``, or NotImplemented for other calls.

    `options` are the parameters that only engines have; those that are None are left out.
    """
    _engine[:] = [engine]


def is_several(device: Any) -> bool:
    """Return whether `device` names several devices: a list, or as "cuda:*"."""
    return isinstance(device, (list, tuple)) or (isinstance(device, str) and device.endswith(":*"))


def is_shards(value: Any) -> bool:
    """Return whether a value is a list or tuple with an array on a device."""
    return isinstance(value, (list, tuple)) and any(
        isinstance(each, DeviceArray) or hasattr(type(each), "__cuda_array_interface__")
        for each in value[:_LISTED]
    )


def entry(
    family: str, names: tuple[str, ...], planner: Callable[..., Any], general: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a family's planner, without plans for several devices, and its general function.

    The general function offers its calls to the engine first. `device` is the last of `names`.
    """

    def plan(*arguments: Any) -> Any:
        several = is_several(arguments[-1]) or any(map(is_shards, arguments[:3]))
        return None if several else planner(*arguments)

    def call(*arguments: Any) -> Any:
        found = NotImplemented
        if _engine:
            found = _engine[0](family, dict(zip(names, arguments, strict=True)), {})
        return general(*arguments) if found is NotImplemented else found

    return plan, call


def run(family: str, names: tuple[str, ...], arguments: tuple[Any, ...], **options: Any) -> Any:
    """Run a call with options that only an engine has.

    Raises
    ------
    ValueError
        No engine serves arrays of this kind with these options.
    """
    given = {name: value for name, value in options.items() if value is not None}
    found = _engine[0](family, dict(zip(names, arguments, strict=True)), given)
    if found is NotImplemented:
        raise ValueError(f"{next(iter(given))}: {_SERVED[next(iter(given))]}")
    return found


def run_in_blocks(
    family: str, names: tuple[str, ...], arguments: tuple[Any, ...], error: Exception
) -> Any:
    """Run a call again, in blocks, after it ran out of device memory; else raise `error`.

    The cpu device works in place: blocks would need more memory, not less.
    """
    array, given = arguments[0], dict(zip(names, arguments, strict=True))
    large = isinstance(array, np.ndarray) and array.nbytes >= BLOCKS_LEAST
    if not large or device_name(given["device"], "cpu") == "cpu":
        raise error
    try:
        # The blocks themselves are slices of the array: only their number costs time.
        return _engine[0](family, given, {"memory_limit": 3 * BLOCKS_LEAST})
    except (MemoryError, ValueError):  # not even a block fits, or `out` overlaps the array
        raise error from None


_SERVED = {
    "split_every": "is for Dask arrays only; leave it out",
    "memory_limit": "is for arrays in files (numpy.memmap, HDF5, Zarr); leave it out",
    "progress": "is for arrays in files (numpy.memmap, HDF5, Zarr); leave it out",
    "timeout": "is for a group of ranks; pass group=, or leave it out",
}
