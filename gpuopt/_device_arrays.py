"""Calls on arrays that are on a device (_views.py), ours among them.

Work goes to the stream of the first array; those of the others are ordered before and after it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpuopt import _core
from gpuopt._arrays import Problem
from gpuopt._device_axes import compact, strides_of
from gpuopt._device_memory import LEGACY, DeviceArray, checked_dtype, empty, make
from gpuopt._views import View, check_device, in_order, view_of


def asarray(x: ArrayLike, device: str | None = None) -> DeviceArray:
    """Return an array on a device: a copy of the host's, or another library's where it is.

    Parameters
    ----------
    x : array_like
        Anything that `numpy.asarray` takes, of bool, an integer, floating-point or complex type;
        or an array on a device (CuPy, PyTorch, JAX, Numba, ...): one in C order is not copied,
        another is copied there.
    device : str, optional
        As `gpuopt.empty`; for an array on a device, where it is.

    Returns
    -------
    DeviceArray

    Raises
    ------
    TypeError
        A dtype that no kernel takes; masked arrays.
    ValueError
        An array on another device.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.reduce(gpuopt.asarray([1, 2, 3], device="sim")).get()
    array(6)
    """
    view = view_of(x, "x")
    if view is None:
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError("x: masked arrays are not supported; pass x.filled(value)")
        host = np.asarray(x)
        # 0-d stays 0-d: ascontiguousarray would make it 1-d.
        host = np.require(host, checked_dtype(host.dtype), ["C_CONTIGUOUS", "ALIGNED"])
        made = empty(host.shape, host.dtype, device)
        if host.size:
            made._holder.copy_in(host)
        return made
    check_device(view, device)
    if isinstance(x, DeviceArray):
        return x
    dtype = checked_dtype(view.dtype)
    view = compact(view)
    if view.stream != LEGACY:
        _core.order(view.device, (LEGACY, view.stream))
    return make(view.address, view.shape, dtype, view.device, view.holder, view.read_only)


# --- calls


def streams(views: list[View]) -> tuple[int, ...]:
    """Return the streams of some arrays, each once: where the work goes first."""
    return tuple(dict.fromkeys(view.stream for view in views))


def same_device(views: list[tuple[str, View]]) -> None:
    """Raise ValueError where arrays are on different devices."""
    first, where = views[0]
    for name, view in views[1:]:
        if view.device != where.device:
            raise ValueError(
                f"{name}: is on {view.device}, but {first} is on {where.device}; copy one of them"
            )


def settle(views: list[View]) -> None:
    """Wait where an array may be let go only after the work."""
    for view in views:
        if view.waits:
            _core.wait(view.device, view.stream)
            return


def check_target(target: View, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise where an `out` on a device cannot take a result as it is."""
    if target.shape != shape:
        raise ValueError(f"out: has shape {target.shape}, but the result has {shape}")
    if target.read_only:
        raise ValueError("out: output array is read-only")
    if target.dtype != dtype:
        raise TypeError(f"out: must be of the result's dtype {dtype}, not {target.dtype}")
    if not in_order(target):
        raise ValueError("out: is not C-contiguous and aligned; pass an array that is")


def inputs(device: str | None, **given: Any) -> dict[str, View] | None:
    """Return the views of a family's arrays, all on one device; None where all are the host's.

    One that is not in C order is copied on its device to memory that is.

    Raises
    ------
    TypeError
        Some are on a device and others on the host.
    ValueError
        They are on different devices, or on another than `device`.
    """
    views = {name: view_of(value, name) for name, value in given.items()}
    found = {name: view for name, view in views.items() if view is not None}
    if not found:
        return None
    for name in given:
        if name not in found:
            other, view = next(iter(found.items()))
            raise TypeError(
                f"{name}: is on the host, but {other} is on {view.device}; copy one of them "
                f"(gpuopt.asarray({name}, {view.device!r}))"
            )
    same_device(list(found.items()))
    for view in found.values():
        check_device(view, device)
    return {name: compact(view) for name, view in found.items()}


def alike(views: dict[str, View]) -> None:
    """Raise where arrays that are combined differ in dtype: nothing is converted on a device."""
    (first, one), *others = views.items()
    for name, view in others:
        if view.dtype != one.dtype:
            raise TypeError(
                f"{first}, {name}: have dtypes {one.dtype} and {view.dtype}; convert one of them"
            )


def run(
    problem: Problem,
    views: dict[str, View],
    variant: int | str | None,
    block: int | None,
    out: Any,
    *,
    dtype: np.dtype | None = None,
    in_place: bool = False,
) -> Any:
    """Run a problem whose inputs are stand-ins of views; return `out`, or a new array.

    Parameters
    ----------
    dtype : dtype, optional
        The result's, where it is not the problem's.
    in_place : bool
        Whether `out` may be one of the inputs.
    """
    dtype = problem.dtype if dtype is None else dtype
    first = next(iter(views.values()))
    if out is None:
        made, target = first.library.empty(first, problem.shape, dtype)
    else:
        made, target = None, view_of(out, "out")
        if target is None:
            raise TypeError(
                f"out: is on the host, but the result is on {first.device}; pass an array there"
            )
        check_target(target, problem.shape, dtype)
        name = next(iter(views))
        same_device([(name, first), ("out", target)])
        check_overlap(target, views, in_place)
    places = {view.address for view in views.values()}
    arguments = []
    for each in problem.inputs:
        address = each.__array_interface__["data"][0]
        resident = address in places or not each.size
        arguments.append((address if each.size else 0, each.nbytes) if resident else each)
    family = (problem.family, problem.op, problem.items, problem.result)
    numbers = tuple(number % 2**64 for number in problem.numbers)
    size = math.prod(problem.shape) * dtype.itemsize
    call = (*family, tuple(arguments), (target.address, size), numbers)
    every = [*views.values(), target]
    _core.call_resident(first.device, streams(every), call, variant, block)
    settle(every)
    return first.library.finish(made) if out is None else out


def _bounds(view: View) -> tuple[int, int]:
    """Return where the items begin and end in memory."""
    low = high = view.address
    for extent, step in zip(view.shape, strides_of(view), strict=True):
        if extent == 0:
            return 0, 0
        low += min(0, step * (extent - 1))
        high += max(0, step * (extent - 1))
    return low, high + view.dtype.itemsize


def check_overlap(target: View, views: dict[str, View], in_place: bool) -> None:
    """Raise ValueError where an `out` shares memory with an input, but for the whole of it."""
    low, high = _bounds(target)
    for name, view in views.items():
        if in_place and view.address == target.address and view.shape == target.shape:
            continue
        begin, end = _bounds(view)
        if max(low, begin) < min(high, end):
            raise ValueError(f"out: overlaps {name}; on a device it must have memory of its own")
