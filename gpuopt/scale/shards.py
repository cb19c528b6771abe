"""Calls on lists of arrays, one per device: slices of one array along its first axis.

A list in, a list out: concatenated along the first axis, it is the result for the whole array. The
work is queued on the devices' default streams; only whole reductions wait for their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress, pairwise
from typing import Any

import numpy as np

from gpuopt.arrays import inout
from gpuopt.arrays.device_array import DeviceArray, Library, empty, make
from gpuopt.arrays.libraries import View, view_of
from gpuopt.families.axis_plan import PLACES
from gpuopt.families.device_axes import compact, strides_of
from gpuopt.families.device_calls import asarray
from gpuopt.families.engines import is_shards
from gpuopt.families.matmul import matmul
from gpuopt.families.reduce import reduce
from gpuopt.families.stencil1d import stencil1d, stencil1d_dtype, stencil_axis, window_of
from gpuopt.families.transpose import permutation, transpose, transpose_problem
from gpuopt.families.vectors import add, saxpy
from gpuopt.scale.halo import beyond, radius_of
from gpuopt.scale.links import Move, exchange, flat, rows
from gpuopt.scale.partials import Part, Reduction
from gpuopt.scale.threads import on_each


@dataclass(frozen=True)
class Shards:
    """Slices of one array along its first axis.

    Attributes
    ----------
    name : str
        The argument's.
    views : list of View
        The caller's arrays, whose libraries allocate the results.
    arrays : list of DeviceArray
        The same in C order.
    """

    name: str
    views: list[View]
    arrays: list[DeviceArray]

    @property
    def devices(self) -> list[str]:
        """Return the arrays' devices."""
        return [each.device for each in self.arrays]

    @property
    def ends(self) -> list[int]:
        """Return the bounds of the slices: 0 and the ends."""
        return [0, *accumulate(each.shape[0] for each in self.arrays)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the whole array's shape."""
        return (self.ends[-1], *self.arrays[0].shape[1:])

    @property
    def dtype(self) -> np.dtype:
        """Return the elements' dtype."""
        return self.arrays[0].dtype

    def empty(self, k: int, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, DeviceArray]:
        """Return a new array of the caller's library on device k, and the same as gpuopt's."""
        made = self.views[k].library.empty(self.views[k], shape, dtype)[0]
        return made, made if isinstance(made, DeviceArray) else asarray(made)

    def finished(self, k: int, made: Any) -> Any:
        """Return an array for the caller once the work on it is queued: JAX's do not change."""
        return self.views[k].library.finish(made)


def shards_of(value: Any, name: str, devices: Sequence[str] | None) -> Shards:
    """Return a list's arrays.

    Raises
    ------
    TypeError, ValueError
        An array on the host or on a device that `devices` does not name; arrays that differ in
        dtype or beyond the first axis.
    """
    views = [view_of(each, f"{name}[{k}]") for k, each in enumerate(value)]
    found = []
    first = next(view for view in views if view is not None)
    for k, view in enumerate(views):
        if view is None:
            raise TypeError(
                f"{name}[{k}]: is on the host, but others are on devices; copy it there "
                f"(gpuopt.asarray({name}[{k}], {first.device!r}))"
            )
        if not view.shape:
            raise ValueError(f"{name}[{k}]: has no axis; reshape it to (1,)")
        if view.dtype != first.dtype or view.shape[1:] != first.shape[1:]:
            raise ValueError(
                f"{name}[{k}]: has shape {view.shape} and dtype {view.dtype}, but {name}[0] has "
                f"{first.shape} and {first.dtype}: all but the first axis must agree"
            )
        if view.device.partition(":")[0] != first.device.partition(":")[0]:
            raise ValueError(
                f"{name}[{k}]: is on {view.device}, but {name}[0] is on {first.device}; use "
                "devices of one kind"
            )
        if devices is not None and view.device not in devices:
            raise ValueError(
                f"{name}[{k}]: is on {view.device}, which `device` does not name: {[*devices]}"
            )
        found.append(view)
    return Shards(
        name, found, [each if type(each) is DeviceArray else asarray(each) for each in value]
    )


def serve(family: str, arguments: dict[str, Any], devices: Sequence[str] | None) -> list[Any] | Any:
    """Return the results of a call on a list of arrays."""
    if arguments.pop("out") is not None:
        raise ValueError("out: is not for lists of arrays, whose results are a new list; leave it")
    return _FAMILIES[family](**arguments, devices=devices)


def _cut(n: int, count: int) -> list[int]:
    """Return the bounds of `count` even slices of n elements."""
    return [n * k // count for k in range(count + 1)]


# --- reductions


def _reduce(
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    initial: Any,
    block: Any,
    devices: Sequence[str] | None,
) -> Any:
    how: dict[str, Any] = {"variant": variant, "block": block}
    if isinstance(block, tuple):  # as `gpuopt.reduce` passes both
        how["block"], how["blocks"] = block
    shards = shards_of(array, "array", devices)
    whole = (shards.shape, shards.dtype, op, axis, bool(keepdims), dtype, initial, how)
    planned = Reduction.of(*whole)
    if 0 not in planned.axes:
        given = {"initial": initial} if initial is not ... else {}
        how |= {"axis": axis, "keepdims": keepdims, "dtype": dtype, **given}
        return [_result(shards, k, reduce(each, op, **how)) for k, each in enumerate(shards.arrays)]
    shape = planned.squeezed(planned.kept_shape)
    if not shape or not planned.joins_on_devices or not all(shards.shape):
        return _joined_on_host(planned, shards, shape)
    return _joined_on_devices(planned, shards, shape)


def _result(shards: Shards, k: int, found: DeviceArray) -> Any:
    """Return an array of gpuopt as one of the caller's library."""
    if type(shards.views[k].library).empty is Library.empty:  # its arrays begin as ours
        return shards.finished(k, found)
    made, target = shards.empty(k, found.shape, found.dtype)
    exchange([Move(found, target)])
    return shards.finished(k, made)


def _joined_on_host(planned: Reduction, shards: Shards, shape: tuple[int, ...]) -> Any:
    """Join parts on the host: a number, or a list of slices of the results."""
    arrays = shards.arrays
    if planned.op in PLACES:
        starts = [[start, *(0 for _ in shards.shape[1:])] for start in shards.ends[:-1]]
        parts = on_each(lambda k, name: planned.part(arrays[k], starts[k], name), shards.devices)
    else:  # all devices compute before the first one is waited for
        full = [all(each.shape[k] for k in planned.axes) for each in arrays]
        made = [planned.part_on_device(each) for each in compress(arrays, full)]
        if not shape:  # numbers cost the host less than arrays
            return planned.total(Part(each.dtype.type(each.item())) for each in made)
        parts = [Part(each.get().reshape(planned.kept_shape)) for each in made]
    found = planned.total(parts)
    if not shape:
        return found
    slices = pairwise(_cut(shape[0], len(arrays)))
    return [
        _result(shards, k, asarray(np.ascontiguousarray(found[begin:end]), shards.devices[k]))
        for k, (begin, end) in enumerate(slices)
    ]


def _joined_on_devices(planned: Reduction, shards: Shards, shape: tuple[int, ...]) -> list[Any]:
    """Let each device join a slice of the results from all devices' parts."""
    parts = [planned.part_on_device(each) for each in shards.arrays if each.shape[0]]
    count, row = len(parts), math.prod(shape[1:])
    bounds = [row * each for each in _cut(shape[0], len(shards.arrays))]
    gathered, moves = [], []
    for device, (begin, end) in zip(shards.devices, pairwise(bounds), strict=True):
        room = empty((count, end - begin), parts[0].dtype, device)
        gathered.append(room)
        for k, part in enumerate(parts):
            piece = rows(flat(part), begin, end)
            moves.append(Move(piece, rows(room, k, k + 1)))
    exchange(moves)
    found = []
    for k, room in enumerate(gathered):
        some = (room.shape[1] // max(1, row), *shape[1:])
        made, target = shards.empty(k, some, planned.result)
        if target.nbytes:
            planned.finish_on_device(planned.joined_on_device(room), target)
        found.append(shards.finished(k, made))
    return found


# --- transposes


def _transpose(
    a: Any,
    axes: Any,
    variant: Any,
    block: Any,
    devices: Sequence[str] | None,
    by_nccl: bool = True,
) -> list[Any]:
    """Send each device the elements of its rows of the result, and permute them there."""
    shards = shards_of(a, "a", devices)
    order = permutation(axes, len(shards.shape))
    transpose_problem(np.empty((1,) * len(order), shards.dtype), order)
    how = {"variant": variant, "block": block}
    first, count = order[0], len(shards.arrays)
    if first == 0:
        return [
            _result(shards, k, transpose(each, order, **how))
            for k, each in enumerate(shards.arrays)
        ]
    shape, bounds, ends = shards.shape, _cut(shards.shape[first], count), shards.ends
    received = [
        empty((shape[0], *shape[1:first], end - begin, *shape[first + 1 :]), shards.dtype, device)
        for device, (begin, end) in zip(shards.devices, pairwise(bounds), strict=True)
    ]
    moves = []
    for turn in range(count):  # each device receives from another one at a time
        for j, room in enumerate(received):
            k = (j + turn) % count
            piece = _packed(shards.arrays[k], first, bounds[j], bounds[j + 1])
            moves.append(Move(piece, rows(room, ends[k], ends[k + 1])))
    exchange(moves, by_nccl=by_nccl)
    return [_result(shards, k, transpose(each, order, **how)) for k, each in enumerate(received)]


def _packed(array: DeviceArray, axis: int, begin: int, end: int) -> DeviceArray:
    """Return a copy of a slice along an axis, in C order."""
    view, shape = array._view, array.shape
    steps = strides_of(view)
    cut = (*shape[:axis], end - begin, *shape[axis + 1 :])
    if not math.prod(cut):
        return empty(cut, array.dtype, array.device)
    slab = view.replace(shape=cut, strides=steps, address=view.address + begin * steps[axis])
    made = compact(slab)
    return make(made.address, cut, made.dtype, made.device, (made.holder, view.holder))


# --- stencils


@dataclass
class _Halo:
    """Slabs of rows that devices need for outputs near the ends of their arrays.

    Attributes
    ----------
    moves : list of Move
        Fill the slabs that `slab` has returned.
    """

    shards: Shards
    radius: int
    mode: str
    moves: list[Move] = field(default_factory=list)

    def outputs(self, k: int) -> tuple[int, int]:
        """Return the rows at which device k's outputs are centred."""
        begin, end = self.shards.ends[k : k + 2]
        if self.mode != "valid":
            return begin, end
        begin = max(begin, self.radius)
        return begin, max(begin, min(end, self.shards.shape[0] - self.radius))

    def pieces(self, k: int) -> list[tuple[int, int]]:
        """Return the outputs for which device k needs other rows than its own."""
        begin, end = self.shards.ends[k : k + 2]
        first, last = self.outputs(k)
        if end - begin < 4 * self.radius:
            return [(first, last)] if last > first else []
        inner, n = (begin + self.radius, end - self.radius), self.shards.shape[0]
        wraps = self.mode == "wrap"
        left = [(first, inner[0])] if wraps or (begin and first < inner[0]) else []
        return left + ([(inner[1], last)] if wraps or (end < n and last > inner[1]) else [])

    def slab(self, k: int, begin: int, end: int) -> tuple[DeviceArray, str, int]:
        """Return the inputs of some outputs on device k, a mode, and the first row of its result.

        Beyond the array's ends, mode "constant" has no rows.
        """
        shards, n = self.shards, self.shards.shape[0]
        low, high = begin - self.radius, end + self.radius
        inside = low >= 0 and high <= n
        if self.mode == "constant":
            low, high = max(low, 0), min(high, n)
        places = np.arange(low, high)
        if not inside and self.mode != "constant":
            places = beyond(places, n, self.mode)
        room = empty((len(places), *shards.shape[1:]), shards.dtype, shards.devices[k])
        owners = np.searchsorted(shards.ends, places, "right") - 1
        breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(owners) != 0)) + 1
        for first, last in pairwise([0, *breaks.tolist(), len(places)]):
            owner, place = int(owners[first]), int(places[first])
            row = place - shards.ends[owner]
            source = rows(shards.arrays[owner], row, row + last - first)
            self.moves.append(Move(source, rows(room, first, last)))
        cut = self.mode == "constant" and not inside
        return room, "constant" if cut else "valid", begin - low if cut else 0


def _stencil1d(
    a: Any,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    origin: Any,
    variant: Any,
    block: Any,
    devices: Sequence[str] | None,
) -> list[Any]:
    """Run the stencil on each array, and near its ends again on slabs with the others' rows."""
    shards = shards_of(a, "a", devices)
    axis = stencil_axis(axis, len(shards.shape))
    one = np.ones((1,) * len(shards.shape), shards.dtype)
    dtype = stencil1d_dtype(one, radius, weights, mode, cval, origin)
    radius = radius_of(window_of(radius, weights, mode, origin), "lists of arrays")
    how = {"weights": weights, "cval": cval, "axis": axis, "variant": variant, "block": block}
    if axis or not radius or len(shards.arrays) == 1 or not all(shards.shape):
        return [
            _result(shards, k, stencil1d(each, radius, mode=mode, **how))
            for k, each in enumerate(shards.arrays)
        ]
    halo = _Halo(shards, radius, mode)
    slabs = [
        [(*piece, *halo.slab(k, *piece)) for piece in halo.pieces(k)]
        for k in range(len(shards.arrays))
    ]
    exchange(halo.moves)
    found = []
    for k, each in enumerate(shards.arrays):
        first, last = halo.outputs(k)
        made, target = shards.empty(k, (last - first, *shards.shape[1:]), dtype)
        if each.shape[0] >= 4 * radius:
            lost = radius if mode == "valid" else 0
            begin = shards.ends[k] + lost - first
            inside = rows(target, begin, begin + each.shape[0] - 2 * lost)
            here = "nearest" if mode == "wrap" else mode  # all its ends are computed again
            stencil1d(each, radius, mode=here, out=inside, **how)
        for begin, end, slab, here, skipped in slabs[k]:
            to = rows(target, begin - first, end - first)
            if here == "valid":
                stencil1d(slab, radius, mode=here, out=to, **how)
            else:
                wide = stencil1d(slab, radius, mode=here, **how)
                exchange([Move(rows(wide, skipped, skipped + end - begin), to)])
        found.append(shards.finished(k, made))
    return found


# --- vectors


def _alike(x: Any, y: Any, devices: Sequence[str] | None) -> tuple[Shards, list[tuple[Any, Any]]]:
    """Return the first list, and the operands of each device; numbers are for all of them."""
    found = [
        each if type(each) in (int, float) else _listed(each, name, devices)
        for name, each in (("x", x), ("y", y))
    ]
    first, *others = [each for each in found if isinstance(each, Shards)]
    for other in others:
        same = other.devices == first.devices and other.ends == first.ends
        if not same or len(other.shape) != len(first.shape):
            raise ValueError(
                f"{other.name}: has slices of {[each.shape for each in other.arrays]} on "
                f"{other.devices}, but {first.name} has {[each.shape for each in first.arrays]} on "
                f"{first.devices}; cut both alike"
            )
    count = len(first.arrays)
    columns = [each.arrays if isinstance(each, Shards) else [each] * count for each in found]
    return first, [*zip(*columns, strict=True)]


def _listed(value: Any, name: str, devices: Sequence[str] | None) -> Shards:
    if not is_shards(value):
        raise TypeError(
            f"{name}: must be a list of arrays, one per device, or a number, not "
            f"{type(value).__name__}; cut it as the other operand"
        )
    return shards_of(value, name, devices)


def _add(x: Any, y: Any, variant: Any, block: Any, devices: Sequence[str] | None) -> list[Any]:
    shards, operands = _alike(x, y, devices)
    how = {"variant": variant, "block": block}
    return [_result(shards, k, add(*each, **how)) for k, each in enumerate(operands)]


def _saxpy(
    a: Any, x: Any, y: Any, variant: Any, block: Any, devices: Sequence[str] | None
) -> list[Any]:
    shards, operands = _alike(x, y, devices)
    how = {"variant": variant, "block": block}
    return [_result(shards, k, saxpy(a, *each, **how)) for k, each in enumerate(operands)]


# --- products


def _matmul(a: Any, b: Any, variant: Any, devices: Sequence[str] | None) -> list[Any]:
    """Multiply each slice of a's rows by the whole b; of stacks, the slices of both."""
    if not is_shards(a):
        raise TypeError(
            f"a: must be a list of arrays, one per device, as b is, not {type(a).__name__}"
        )
    shards = shards_of(a, "a", devices)
    if len(shards.shape) < 2:
        raise ValueError("a: is a list of vectors; reshape each to rows of a matrix")
    if len(shards.shape) > 2:
        _, pairs = _alike(a, b, devices)
    else:
        pairs = [*zip(shards.arrays, _whole(b, shards, devices), strict=True)]
    return [
        _result(shards, k, matmul(one, other, variant=variant))
        for k, (one, other) in enumerate(pairs)
    ]


def _whole(b: Any, shards: Shards, devices: Sequence[str] | None) -> list[DeviceArray]:
    """Return b on each device of the other operand: gathered, or copied from the host."""
    if not is_shards(b):
        if view_of(b, "b") is not None:
            raise TypeError("b: is on one device; pass a list of its slices, or a host array")
        host = inout.array_in(b, "b")
        _check_columns(shards, host.shape)
        copies = {device: asarray(host, device) for device in dict.fromkeys(shards.devices)}
        return [copies[device] for device in shards.devices]
    others = shards_of(b, "b", devices)
    _check_columns(shards, others.shape)
    rooms = {
        device: empty(others.shape, others.dtype, device)
        for device in dict.fromkeys(shards.devices)
    }
    exchange(
        [
            Move(each, rows(room, begin, begin + each.shape[0]))
            for room in rooms.values()
            for each, begin in zip(others.arrays, others.ends, strict=False)
        ]
    )
    return [rooms[device] for device in shards.devices]


def _check_columns(shards: Shards, shape: tuple[int, ...]) -> None:
    if not 1 <= len(shape) <= 2 or shape[0] != shards.shape[1]:
        raise ValueError(
            f"b: has shape {shape}, but a has {shards.shape}: b's rows must equal a's columns"
        )


_FAMILIES: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "transpose": _transpose,
    "stencil1d": _stencil1d,
    "add": _add,
    "saxpy": _saxpy,
    "matmul": _matmul,
}
