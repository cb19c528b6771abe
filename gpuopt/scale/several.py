"""Calls on several devices of one machine: host arrays, cut into slices (lists: see shards.py).

A thread per device calls it. Results of reductions are joined on the host, from unrounded parts in
the order of the slices, so that the number of devices hardly ever shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from gpuopt.arrays import inout
from gpuopt.arrays.libraries import view_of
from gpuopt.catalog.devices import available, device as describe_device
from gpuopt.families.device_calls import asarray
from gpuopt.families.matmul import matmul, matmul_problem
from gpuopt.families.reduce_axis import check_out
from gpuopt.families.transpose import permutation, transpose, transpose_problem
from gpuopt.families.vectors import add, add_problem, in_k_order, saxpy, saxpy_problem
from gpuopt.scale import shards
from gpuopt.scale.boxes import Box, StoredArray, even, split, store
from gpuopt.scale.halo import BoxedStencil
from gpuopt.scale.partials import Reduction
from gpuopt.scale.threads import on_each
from gpuopt.util.errors import DeviceError, DeviceMemoryError

_TILED = 1 << 28  # bytes from which on devices transpose tiles, of
_TILE = 8 << 20  # bytes, by
_THREADS = 8  # threads of each


def serve(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a call on host arrays with several devices."""
    _check(options)
    devices = devices_of(arguments.pop("device"))
    return _FAMILIES[family](**arguments, devices=devices)


def serve_lists(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a call on lists of arrays, one per device."""
    _check(options)
    device = arguments.pop("device")
    if isinstance(device, str) and not device.endswith(":*"):
        device = [device]
    devices = None if device is None else devices_of(device)
    return shards.serve(family, arguments, devices)


def _check(options: dict[str, Any]) -> None:
    for name in options:
        raise ValueError(f"{name}: is not for several devices; leave it out, or name one device")


@lru_cache(256)
def _name_of(given: str) -> str:
    """Return a device's full name; all that is known of a GPU costs milliseconds."""
    return describe_device(given).name


def devices_of(given: Any) -> list[str]:
    """Return the names of several devices, all of one kind."""
    if isinstance(given, str):
        kind = given.partition(":")[0]
        if kind != "cuda":
            raise ValueError(
                f"device: {given!r} has no fixed number of devices; list them, as "
                "['sim:h200', 'sim:h200']"
            )
        found = available("cuda")
        if not found:
            raise DeviceError(f"device: {given!r}: {found.reason}")
        return [f"cuda:{number}" for number in range(found.count)]
    names = []
    for each in given:
        if not isinstance(each, str):
            raise TypeError(f"device: must list names as 'cuda:1', not {each!r}")
        names.append(_name_of(each))
    if not names:
        raise ValueError("device: the list is empty; name one device or more")
    kinds = sorted({name.partition(":")[0] for name in names})
    if len(kinds) > 1:
        raise ValueError(
            f"device: the list has devices of different kinds, {' and '.join(kinds)}; use one kind"
        )
    return names


def _host(value: Any, name: str) -> np.ndarray:
    """Return a host array; one on a device is refused."""
    view = view_of(value, name)
    if view is not None:
        raise ValueError(
            f"{name}: is on {view.device}, and `device` names several; pass an array on the host, "
            "or a list with one array per device"
        )
    return inout.array_in(value, name)


def _slices(shape: tuple[int, ...], n: int) -> list[Box]:
    """Return at most `n` even slices along the first axis that has as many, else the longest."""
    if not shape or not math.prod(shape):
        return [tuple(slice(0, size) for size in shape)]
    long = [axis for axis, size in enumerate(shape) if size >= n]
    axis = long[0] if long else shape.index(max(shape))
    n = min(n, shape[axis])
    bounds = [shape[axis] * k // n for k in range(n + 1)]
    whole = [slice(0, size) for size in shape]
    return [
        (*whole[:axis], slice(begin, end), *whole[axis + 1 :]) for begin, end in pairwise(bounds)
    ]


def _filled(
    out: Any, shape: tuple[int, ...], dtype: np.dtype, inputs: Sequence[np.ndarray]
) -> tuple[np.ndarray, Callable[[], Any]]:
    """Return an array for the results, and what returns them when it is filled."""
    if out is None:
        made = np.empty(shape, dtype)
        return made, lambda: made
    inout.check_out(out, shape, dtype)
    if out.dtype == dtype and not any(np.may_share_memory(out, each) for each in inputs):
        return out, lambda: out
    made = np.empty(shape, dtype)

    def copied() -> Any:
        np.copyto(out, made, casting="same_kind")
        return out

    return made, copied


# --- reductions


def _reduce(
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    out: Any,
    initial: Any,
    block: Any,
    devices: list[str],
) -> Any:
    """Reduce slices of a host array."""
    how: dict[str, Any] = {"variant": variant, "block": block}
    if isinstance(block, tuple):  # as `gpuopt.reduce` passes both
        how["block"], how["blocks"] = block
    x = _host(array, "array")
    boxes = _slices(x.shape, len(devices))
    starts = [[each.start for each in box] for box in boxes]
    shape = x.shape
    planned = Reduction.of(shape, x.dtype, op, axis, bool(keepdims), dtype, initial, how)
    parts = on_each(
        lambda k, name: planned.part(x[boxes[k]], starts[k], name), devices[: len(boxes)]
    )
    cut = [k for k in range(len(shape)) if len({start[k] for start in starts}) > 1]
    if cut and cut[0] not in planned.axes:
        found = np.concatenate([planned.finish(part, keep=True) for part in parts], cut[0])
        found = found.reshape(planned.squeezed(found.shape))
    else:
        found = planned.total(parts)
    if out is None:
        return found
    check_out(out, np.shape(found), planned.op, dtype, planned.result)
    np.copyto(out, found, casting="unsafe")
    return out


# --- results of the size of the input


def _transpose(a: Any, axes: Any, variant: Any, out: Any, block: Any, devices: list[str]) -> Any:
    x = _host(a, "a")
    order = permutation(axes, x.ndim)
    transpose_problem(np.empty((1,) * x.ndim, x.dtype), order)
    shape = tuple(x.shape[k] for k in order)
    target, result = _filled(out, shape, x.dtype, [x])
    how = {"variant": variant, "block": block}
    boxes = _slices(shape, len(devices))
    used = devices[: len(boxes)]
    if order and order[0] and x.nbytes >= _TILED:
        if _exchanged(x, order, target, how, devices):
            return result()
        # A slice of the result's rows is one of x's columns: strided, which one thread copies at a
        # few GB/s. Tiles have long rows on both sides.
        ones = (1,) * x.ndim
        size = even(x.shape, ones, ones, order, _TILE // x.dtype.itemsize)
        tiles = split(x.shape, size, range(x.ndim))
        boxes = [tuple(tile[axis] for axis in order) for tile in tiles]
        used = devices * _THREADS
    coming, lock = iter(boxes), Lock()

    def work(_: int, device: str) -> None:
        while True:
            with lock:
                box = next(coming, None)
            if box is None:
                return
            there = tuple(box[order.index(axis)] for axis in range(x.ndim))
            store(transpose, target, box, x.dtype, x[there], order, **how, device=device)

    on_each(work, used)
    return result()


def _exchanged(
    x: np.ndarray, order: tuple[int, ...], target: np.ndarray, how: Any, devices: list[str]
) -> bool:
    """Transpose slices that the devices exchange: copies from and to the host are contiguous.

    Returns False if an array has gaps, is too short, or if a device lacks memory for four times its
    slice.
    """
    n = len(devices)
    if min(x.shape[0], target.shape[0]) < n or devices[0].startswith("cpu"):
        return False
    if not (x.flags.c_contiguous and target.flags.c_contiguous):
        return False
    inputs, outputs = ([size * k // n for k in range(n + 1)] for size in (len(x), len(target)))
    given = {"axes": order, **how, "by_nccl": False, "out": None}
    try:
        found = on_each(lambda k, name: asarray(x[inputs[k] : inputs[k + 1]], name), devices)
        found = shards.serve("transpose", {"a": found, **given}, None)
    except DeviceMemoryError:
        return False
    on_each(lambda k, _: found[k].get(target[outputs[k] : outputs[k + 1]]), devices)
    return True


def _stencil1d(
    a: Any,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    origin: Any,
    variant: Any,
    out: Any,
    block: Any,
    devices: list[str],
) -> Any:
    x = _host(a, "a")
    how = {"variant": variant, "block": block}
    stencil = BoxedStencil.of(StoredArray(x), radius, weights, mode, cval, axis, origin, how)
    target, result = _filled(out, stencil.shape, stencil.dtype, [x])
    boxes = _slices(stencil.shape, len(devices))

    def work(k: int, device: str) -> None:
        stencil.run(stencil.read(boxes[k]), target, device)

    on_each(work, devices[: len(boxes)])
    return result()


def _vectors(
    function: Callable[..., Any], problem: Any, x: Any, y: Any, how: Any, devices: list[str]
) -> Any:
    operands = [each if type(each) in (int, float) else _host(each, "x, y") for each in (x, y)]
    out = how.pop("out")
    arrays = [each for each in operands if isinstance(each, np.ndarray)]
    target, result = _filled(out, problem.shape, problem.dtype, arrays)
    boxes = _slices(problem.shape, len(devices))
    wide = [
        np.broadcast_to(each, problem.shape) if isinstance(each, np.ndarray) else each
        for each in operands
    ]

    def work(k: int, device: str) -> None:
        cut = [each[boxes[k]] if isinstance(each, np.ndarray) else each for each in wide]
        store(function, target, boxes[k], problem.dtype, *cut, **how, device=device)

    on_each(work, devices[: len(boxes)])
    return result()


def _add(x: Any, y: Any, variant: Any, out: Any, block: Any, devices: list[str]) -> Any:
    def work(x: Any, y: Any) -> Any:
        how = {"variant": variant, "block": block, "out": out}
        return _vectors(add, add_problem(x, y), x, y, how, devices)

    return in_k_order(work, x, y, out)


def _saxpy(a: Any, x: Any, y: Any, variant: Any, out: Any, block: Any, devices: list[str]) -> Any:
    def scaled(x: Any, y: Any, **how: Any) -> Any:
        return saxpy(a, x, y, **how)

    def work(x: Any, y: Any) -> Any:
        how = {"variant": variant, "block": block, "out": out}
        return _vectors(scaled, saxpy_problem(a, x, y), x, y, how, devices)

    return in_k_order(work, x, y, out)


def _matmul(a: Any, b: Any, variant: Any, out: Any, devices: list[str]) -> Any:
    """Multiply slices of a's rows by b, or a by slices of b's columns."""
    x, y = _host(a, "a"), _host(b, "b")
    problem = matmul_problem(x, y)
    target, result = _filled(out, problem.shape, problem.dtype, [x, y])
    boxes = _slices(problem.shape, len(devices))

    def work(k: int, device: str) -> None:
        rows = boxes[k][: x.ndim - 1]
        columns = boxes[k][x.ndim - 1 :]
        operands = x[rows], y[(slice(None), *columns)]
        how = {"variant": variant, "device": device}
        store(matmul, target, boxes[k], problem.dtype, *operands, **how)

    on_each(work, devices[: len(boxes)])
    found = result()
    return found if out is not None or found.ndim else found[()]


_FAMILIES: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "transpose": _transpose,
    "stencil1d": _stencil1d,
    "add": _add,
    "saxpy": _saxpy,
    "matmul": _matmul,
}
