"""Plans reductions along axes: from an operation, dtypes and a layout to passes over memory.

A pass takes outer x reduced x inner items to outer x inner results, each of the three one axis or,
the outer and the inner ones, up to `AXES` that cannot be merged. Axes are taken in the order of
memory, from the largest stride to the smallest and none backwards; neighbours of one kind (kept or
reduced) are merged; every pass reduces the longest, which leaves least. Few kernels serve many
operations and dtypes: `Work` says which, with which keys (see reduce_axis.cu).

All of this follows from shapes, strides and dtypes; nothing here knows an array or a device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gpuopt.arrays import inout
from gpuopt.arrays.dtypes import by_name, kind_of, name_of

TRUTHS = ("any", "all", "count")
PLACES = ("argmin", "argmax")
AXES = 4  # that a pass takes on either side of the reduced one

# What becomes of a result, as reduce_axis.cu numbers them.
RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 = range(12)
_OF_SIZE = {1: INT8, 2: INT16, 4: INT32, 8: INT64}
_OF_FLOAT = {"float16": FLOAT16, "bfloat16": BFLOAT16, "float32": FLOAT32, "complex64": FLOAT32}


@dataclass(frozen=True)
class Work:
    """What a pass runs: the kernel's operation and types, its settings, and what it stores."""

    op: str
    items: str  # the dtype that the items are viewed as
    accumulator: str
    stored: str  # the dtype of the results
    key: int = -1
    mask: int = 0
    finish: int = RAW
    divisor: float = 0.0

    def numbers(self) -> tuple[int, ...]:
        """Return what it tells a kernel."""
        divisor = inout.bits(self.divisor, np.dtype(np.float64))
        return self.key, self.mask, self.finish, divisor

    def backwards(self, n: int) -> Work:
        """Return the work of argmin on n items that lie in memory from the last to the first."""
        return replace(self, mask=-1, divisor=float(n))

    def raw(self) -> Work:
        """Return the work whose results a further pass can take."""
        numbers = self.op in ("sum", "prod", "count")
        stored = self.accumulator if numbers else self.items
        return replace(self, stored=stored, finish=RAW, divisor=0.0)

    def next(self) -> Work:
        """Return the work on raw results of this one."""
        op = "sum" if self.op == "count" else self.op
        return replace(self, op=op, items=self.raw().stored, key=-1 if op == "sum" else self.key)


def _ordered_key(dtype: np.dtype, *, largest: bool) -> int:
    """Return the bits that turn the order into that of signed items, smallest first."""
    top = 1 << (8 * dtype.itemsize - 1)
    if kind_of(dtype) == "f":
        return top if largest else 0
    if dtype.kind == "b":  # what is looked for becomes the least item: nothing can be less
        return top | largest
    key = top if dtype.kind == "u" else 0
    return key ^ (2 * top - 1) if largest else key


def _number_finish(result: np.dtype) -> tuple[str, int]:
    """Return how a number is stored, and what `result` is then made of."""
    if result.kind in "iu":
        return f"int{8 * result.itemsize}", _OF_SIZE[result.itemsize]
    finish = _OF_FLOAT.get(name_of(result), FLOAT64)
    names = {FLOAT16: "float16", BFLOAT16: "bfloat16", FLOAT32: "float32", FLOAT64: "float64"}
    return names[finish], finish


def work_of(op: str, items: np.dtype, result: np.dtype, n: int) -> Work:
    """Return the pass that gives `op` of items, n to a result."""
    kind = kind_of(items)
    signed = f"int{8 * items.itemsize}"
    plain = name_of(items) if kind == "f" else signed
    if op in TRUTHS or (kind == "b" and op in ("sum", "prod", "mean", "xor")):
        top = {"f": 1 << (8 * items.itemsize - 1), "c": 0x8000000080000000}.get(kind, 0)
        stored, finish, divisor = {
            "any": ("int8", ANY, 0),
            "all": ("int8", ALL, n),
            "prod": ("int8", ALL, n),
            "xor": ("int8", ODD, 0),
            "mean": (*_number_finish(np.dtype(float) if result.kind in "biu" else result), n),
            "sum": (*_number_finish(np.dtype(int) if result.kind == "b" else result), 0),
        }.get(op, ("int64", INT64, 0))
        return Work("count", signed, "int64", stored, ~top, 0, finish, divisor)
    if op in PLACES or op in ("min", "max"):
        key = _ordered_key(items, largest=op in ("max", "argmax"))
        if op in PLACES:
            return Work("argmin", plain, "int64", "int64", key, 0, INT64)
        small = kind == "f" and items.itemsize == 2
        return Work("min", plain, "float32" if small else plain, plain, key)
    if op in ("and", "or", "xor"):
        return Work("bits", signed, signed, signed, -(op == "and"), -(op != "xor"))
    if op == "prod" and items.kind == "c":
        return Work("prod", items.name, "complex128", "complex128")
    divisor = n if op == "mean" else 0
    whole = op == "mean" and result.kind in "biu"  # cut off later
    stored, finish = _number_finish(np.dtype(float) if whole else result)
    op = "sum" if op == "mean" else op
    if items.kind in "iu":
        key = (1 << 8 * items.itemsize) - 1 if items.kind == "u" else -1
        wide = "int64"
        if divisor and items.itemsize == 8:  # may be more than 64 bits hold
            key, wide = 0 if items.kind == "u" else -1, "float64"
        return Work(op, signed, wide, stored, key, 0, finish, divisor)
    plain = "float" + str(4 * items.itemsize) if items.kind == "c" else plain
    return Work(op, plain, "float64", stored, -1, 0, finish, divisor)


# --- layouts

Group = tuple[int, int, bool]  # size, step, whether it is reduced


def merge(axes: Iterable[Group]) -> list[Group]:
    """Return axes, outermost first, with those merged that are one."""
    found: list[Group] = []
    for size, step, kind in axes:
        if size == 1:
            continue
        if found and found[-1][2] == kind and found[-1][1] == size * step:
            found[-1] = (found[-1][0] * size, step, kind)
        else:
            found.append((size, step, kind))
    return found


def memory_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the axes from the largest stride to the smallest, and those that lie backwards."""
    turned = [k for k in range(len(shape)) if strides[k] < 0 and shape[k] > 1]
    order = sorted(range(len(shape)), key=lambda k: (shape[k] > 1, -abs(strides[k])))
    return order, turned


class Layout(NamedTuple):
    """A layout that is reduced along axes, in the order of memory.

    Attributes
    ----------
    start : int
        Bytes from the array's first item to the first in memory.
    groups : tuple
        The merged axes, largest step first; steps are bytes.
    order : list of int
        The axes in the order of memory; those that are left lie so in the passes' results.
    turned : list of int
        The axes that lie backwards.
    result : int
        The result's first item, from the first of the passes' results.
    steps : tuple of int
        The steps between the results along the axes that are left, as the caller counts them.
    straight : bool
        Whether that is C order already.
    """

    start: int
    groups: tuple[Group, ...]
    order: list[int]
    turned: list[int]
    result: int
    steps: tuple[int, ...]
    straight: bool


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], axes: tuple[int, ...]) -> Layout:
    """Return the layout of an array whose `axes` are reduced; strides are bytes."""
    order, turned = memory_order(shape, strides)
    start = sum(strides[k] * (shape[k] - 1) for k in turned)
    groups = merge((shape[k], abs(strides[k]), k in axes) for k in order)
    apart, step = {}, 1
    for k in reversed(order):
        if k not in axes:
            apart[k] = step
            step *= shape[k]
    kept = [k for k in range(len(shape)) if k not in axes]
    first = sum(apart[k] * (shape[k] - 1) for k in kept if k in turned)
    results = tuple(-apart[k] if k in turned else apart[k] for k in kept)
    in_c_order, step = [], 1
    for k in reversed(kept):
        in_c_order.append(shape[k] == 1 or apart[k] == step)
        step *= shape[k]
    straight = all(in_c_order) and not any(k in turned for k in kept)
    return Layout(start, tuple(groups), order, turned, first, results, straight)


# --- passes


class Pass(NamedTuple):
    """A launch but for its addresses.

    Attributes
    ----------
    kernel : tuple of str
        Family, operation, the items' dtype and the accumulator's.
    bytes, result_bytes : int
        Of all items, of all results.
    results : int
    dtype : dtype
        The results'.
    numbers : tuple of int
        The kernel's.
    """

    kernel: tuple[str, str, str, str]
    bytes: int
    result_bytes: int
    results: int
    dtype: np.dtype
    numbers: tuple[int, ...]


def _side(groups: Sequence[Group]) -> tuple[int, ...]:
    """Return the axes on one side of the reduced one as a kernel takes them.

    The last axis' step, then up to three periods, then as many further steps (reduce_axis.cu).
    """
    sizes = [size for size, _, _ in reversed(groups)][:-1]
    steps = [step for _, step, _ in reversed(groups)] or [0]
    fill = [0] * (AXES - len(steps))
    return (steps[0], *sizes, *fill, *steps[1:], *fill)


def _side_axes(groups: Iterable[Group]) -> list[Group]:
    """Return the axes beside the reduced one, which a pass keeps whatever comes later."""
    return merge((size, step, False) for size, step, _ in groups)


def pass_of(
    work: Work, outer: Iterable[Group], reduced: tuple[int, int], inner: Iterable[Group]
) -> Pass:
    """Return the pass over axes in this order; `reduced` is a size and a step, steps are items."""
    count, step = reduced
    sides = [_side_axes(outer), _side_axes(inner)]
    sizes = [math.prod(size for size, _, _ in each) for each in sides]
    results, dtype = sizes[0] * sizes[1], by_name(work.stored)
    return Pass(
        ("reduce_axis", work.op, work.items, work.accumulator),
        results * count * by_name(work.items).itemsize,
        results * dtype.itemsize,
        results,
        dtype,
        (sizes[0], count, sizes[1], step, *_side(sides[0]), *_side(sides[1]), *work.numbers()),
    )


@lru_cache(512)
def passes(work: Work, groups: tuple[Group, ...]) -> tuple[Pass, ...]:
    """Return the passes over groups, whose steps are items.

    There are none where more than `AXES` axes beside the reduced one cannot be merged.
    """
    found: list[Pass] = []
    while True:
        reduced = [k for k, group in enumerate(groups) if group[2]]
        if reduced:
            k = max(reduced, key=[size for size, _, _ in groups].__getitem__)
            outer, count, inner = groups[:k], groups[k][:2], groups[k + 1 :]
        else:
            outer, count, inner = groups[:-AXES], (1, 0), groups[-AXES:]
        if max(len(_side_axes(outer)), len(_side_axes(inner))) > AXES:
            return ()
        last = len(reduced) < 2
        found.append(pass_of(work if last else work.raw(), outer, count, inner))
        if last:
            return tuple(found)
        left, step = [], 1
        for size, _, kind in reversed((*outer, *inner)):
            left.append((size, step, kind))
            step *= size
        groups, work = tuple(merge(reversed(left))), work.next()


# --- both


class Scheme(NamedTuple):
    """What is to be done to a layout of items that a kernel can read.

    Attributes
    ----------
    layout : Layout
    passes : tuple of Pass
        Empty where the items cannot be read where they are: they do not lie whole numbers of them
        apart, too many axes cannot be merged, or places are counted along several axes that are
        no run of memory in C order, forwards or backwards. A copy in C order has passes.
    between : dtype
        Of the passes' results.
    straight : bool
        Whether those are the caller's: of the result's dtype, and in C order.
    """

    layout: Layout
    passes: tuple[Pass, ...]
    between: np.dtype
    straight: bool


def _way(layout: Layout, shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """Return which way places are counted as the items lie: 1, -1 (backwards) or 0 (neither)."""
    reduced = [k for k in layout.order if k in axes and shape[k] > 1]
    turned = sum(k in layout.turned for k in reduced)
    if sum(kind for _, _, kind in layout.groups) > 1 or reduced != sorted(reduced):
        return 0
    return 1 if not turned else -1 if turned == len(reduced) else 0


@lru_cache(512)
def scheme_of(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    given: np.dtype,
    op: str,
    axes: tuple[int, ...],
    result: np.dtype,
) -> Scheme:
    """Plan a reduction of a layout, whose strides are bytes, to items of dtype `result`."""
    n = math.prod(shape[k] for k in axes)
    work, layout = work_of(op, given, result, n), layout_of(shape, strides, axes)
    pair = 2 if given.kind == "c" and op in ("sum", "mean") else 1  # numbers, an axis more
    unit = by_name(work.items).itemsize
    groups = [(size, step // unit, kind) for size, step, kind in layout.groups]
    way = _way(layout, shape, axes) if op in PLACES else 1
    if way < 0:
        work = work.backwards(n)
    found: tuple[Pass, ...] = ()
    if way and not any(step % unit for _, step, _ in layout.groups):
        found = passes(work, tuple(merge([*groups, (pair, 1, False)])))
    stored = by_name(work.stored)
    same = stored == result or (
        stored.itemsize * pair == result.itemsize
        and (kind_of(stored) == "f") == (kind_of(result) in "fc")
    )
    between = result if same else np.dtype(bool) if work.finish == ALL else stored
    return Scheme(layout, found, between, same and layout.straight)
