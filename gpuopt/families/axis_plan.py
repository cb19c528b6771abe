"""Plan reductions along axes: split an operation on a layout into passes over memory.

A pass reduces outer x reduced x inner elements to outer x inner results. "Reduced" is one axis;
"outer" and "inner" are up to `AXES` axes each that cannot be merged. A GPU's pass may reduce two
axes that cannot be merged. Axes are sorted by stride, largest first, and reversed axes are flipped;
neighbouring axes of one kind (kept or reduced) are merged. Every pass reduces the longest axis,
which leaves the fewest results. A few kernels serve many operations and dtypes: `AxisKernel` maps
an operation to a kernel and its keys (see reduce_axis.cu).

A plan depends on shapes, strides and dtypes only, not on arrays or devices.
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
AXES = 4  # the most axes of a pass on either side of the reduced one
# A pass reduces two axes, element by element, if the inner one has gaps or is this short.
FUSED_SHORT = 64
TURNED_MOST = 1 << 16  # elements of an array that a GPU reads out of order to save a second launch
_FUSED_MOST = 1 << 31  # the elements' numbers have 31 bits
_GAPS_LEAST = 12 << 20  # bytes of an array whose short gaps are read with the elements
_SECTOR = 32  # bytes: memory delivers no fewer

# The epilogues of a result, numbered as in reduce_axis.cu.
RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 = range(12)
_OF_SIZE = {1: INT8, 2: INT16, 4: INT32, 8: INT64}
_OF_FLOAT = {"float16": FLOAT16, "bfloat16": BFLOAT16, "float32": FLOAT32, "complex64": FLOAT32}


@dataclass(frozen=True)
class AxisKernel:
    """A pass's kernel: operation, types, settings and the dtype of its results."""

    op: str
    items: str  # the elements are viewed as this dtype
    accumulator: str
    stored: str  # the dtype of the results
    key: int = -1
    mask: int = 0
    finish: int = RAW
    divisor: float = 0.0

    def numbers(self, n: int) -> tuple[int, ...]:
        """Return the settings that the kernel receives for n elements per result."""
        found = float(n) if self.op == "count" and self.finish == ALL else self.divisor
        return self.key, self.mask, self.finish, inout.bits(found, np.dtype(np.float64))

    def backwards(self, n: int) -> AxisKernel:
        """Return the work of argmin on n elements in reverse order of memory."""
        return replace(self, mask=-1, divisor=float(n))

    def raw(self) -> AxisKernel:
        """Return the work for a further pass: with raw results, or truths, which decide early."""
        if self.finish in (ANY, ALL):
            return self
        numbers = self.op in ("sum", "prod", "count")
        stored = self.accumulator if numbers else self.items
        return replace(self, stored=stored, finish=RAW, divisor=0.0)

    def next(self) -> AxisKernel:
        """Return the work that reduces the results of `raw`."""
        raw = self.raw()
        op = "sum" if self.op == "count" and raw.finish == RAW else self.op
        key = -1 if op in ("sum", "count") else self.key
        return replace(self, op=op, items=raw.stored, key=key)


def _ordered_key(dtype: np.dtype, *, largest: bool) -> int:
    """Return the bits that map the order to that of signed integers, smallest first."""
    top = 1 << (8 * dtype.itemsize - 1)
    if kind_of(dtype) == "f":
        return top if largest else 0
    key = top if dtype.kind in "ub" else 0
    return key ^ (2 * top - 1) if largest else key


def _number_finish(result: np.dtype) -> tuple[str, int]:
    """Return the dtype that stores a numeric result, and the epilogue."""
    if result.kind in "iu":
        return f"int{8 * result.itemsize}", _OF_SIZE[result.itemsize]
    finish = _OF_FLOAT.get(name_of(result), FLOAT64)
    names = {FLOAT16: "float16", BFLOAT16: "bfloat16", FLOAT32: "float32", FLOAT64: "float64"}
    return names[finish], finish


def axis_kernel(op: str, items: np.dtype, result: np.dtype, n: int) -> AxisKernel:
    """Return the work of `op` on n elements per result."""
    kind = kind_of(items)
    signed = f"int{8 * items.itemsize}"
    plain = name_of(items) if kind == "f" else signed
    if op in TRUTHS or (kind == "b" and op in ("sum", "prod", "mean", "xor")):
        top = {"f": 1 << (8 * items.itemsize - 1), "c": 0x8000000080000000}.get(kind, 0)
        stored, finish, divisor = {
            "any": ("int8", ANY, 0),
            "all": ("int8", ALL, 0),
            "prod": ("int8", ALL, 0),
            "xor": ("int8", ODD, 0),
            "mean": (*_number_finish(np.dtype(float) if result.kind in "biu" else result), n),
            "sum": (*_number_finish(np.dtype(int) if result.kind == "b" else result), 0),
        }.get(op, ("int64", INT64, 0))
        return AxisKernel("count", signed, "int64", stored, ~top, 0, finish, divisor)
    if op in PLACES or op in ("min", "max"):
        key = _ordered_key(items, largest=op in ("max", "argmax"))
        if op in PLACES:
            if kind == "b":  # the value searched for becomes the minimum
                key = 1 << 7 | (op == "argmax")
            return AxisKernel("argmin", plain, "int64", "int64", key, 0, INT64)
        small = kind == "f" and items.itemsize == 2
        finish = (ANY if op == "max" else ALL) if kind == "b" else RAW  # the cpu stops early
        return AxisKernel("min", plain, "float32" if small else plain, plain, key, 0, finish)
    if op in ("and", "or", "xor"):
        return AxisKernel("bits", signed, signed, signed, -(op == "and"), -(op != "xor"))
    if op == "prod" and items.kind == "c":
        return AxisKernel("prod", items.name, "complex128", "complex128")
    divisor = n if op == "mean" else 0
    whole = op == "mean" and result.kind in "biu"  # cut off later
    stored, finish = _number_finish(np.dtype(float) if whole else result)
    op = "sum" if op == "mean" else op
    if items.kind in "iu":
        key = (1 << 8 * items.itemsize) - 1 if items.kind == "u" else -1
        wide = "int64"
        if divisor and items.itemsize == 8:  # may exceed 64 bits
            key, wide = 0 if items.kind == "u" else -1, "float64"
        return AxisKernel(op, signed, wide, stored, key, 0, finish, divisor)
    plain = "float" + str(4 * items.itemsize) if items.kind == "c" else plain
    key = 0 if items.itemsize == 2 else -1  # the sum of nothing
    return AxisKernel(op, plain, "float64", stored, key, 0, finish, divisor)


# --- layouts

Group = tuple[int, int, bool]  # size, step, whether it is reduced


def merge(axes: Iterable[Group]) -> list[Group]:
    """Return the axes, outermost first, with mergeable neighbours merged."""
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
    """Return the axes from the largest stride to the smallest, and the reversed ones."""
    turned = [k for k in range(len(shape)) if strides[k] < 0 and shape[k] > 1]
    order = sorted(range(len(shape)), key=lambda k: (shape[k] > 1, -abs(strides[k])))
    return order, turned


class Layout(NamedTuple):
    """A layout to reduce along axes, in the order of memory.

    Attributes
    ----------
    start : int
        Bytes from the array's first element to the lowest address.
    groups : tuple
        The merged axes, in that order; steps are bytes.
    order : list of int
        The axes, mostly in the order of memory; the passes' results keep this order.
    turned : list of int
        The axes with negative strides.
    result : int
        The index of the result's first element in the passes' results.
    steps : tuple of int
        The result's strides in elements, in the caller's order of axes.
    straight : bool
        Whether the result is in C order already.
    """

    start: int
    groups: tuple[Group, ...]
    order: list[int]
    turned: list[int]
    result: int
    steps: tuple[int, ...]
    straight: bool


def layout_of(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    axes: tuple[int, ...],
    of_result: bool = False,
) -> Layout:
    """Return the layout of an array whose `axes` are reduced; strides are bytes.

    With `of_result` its order is the result's, followed by the reduced axes, instead of memory's.
    """
    order, turned = memory_order(shape, strides)
    if of_result:
        order = [*(k for k in range(len(shape)) if k not in axes), *(k for k in order if k in axes)]
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
    """A launch without its addresses.

    Attributes
    ----------
    kernel : tuple of str
        Family, operation, the elements' dtype and the accumulator's.
    bytes, result_bytes : int
        Total bytes of the elements and of the results.
    results : int
    dtype : dtype
        The results'.
    numbers : tuple of int
        The kernel's numbers.
    """

    kernel: tuple[str, str, str, str]
    bytes: int
    result_bytes: int
    results: int
    dtype: np.dtype
    numbers: tuple[int, ...]


def _side(groups: Sequence[Group]) -> tuple[int, ...]:
    """Encode the axes on one side of the reduced one for a kernel.

    The last axis' step, then up to three periods, then as many further steps (reduce_axis.cu).
    """
    sizes = [size for size, _, _ in reversed(groups)][:-1]
    steps = [step for _, step, _ in reversed(groups)] or [0]
    fill = [0] * (AXES - len(steps))
    return (steps[0], *sizes, *fill, *steps[1:], *fill)


def _side_axes(groups: Iterable[Group]) -> list[Group]:
    """Return the kept axes beside the reduced one."""
    return merge((size, step, False) for size, step, _ in groups)


def pass_of(
    work: AxisKernel,
    outer: Iterable[Group],
    reduced: tuple[int, int],
    inner: Iterable[Group],
    around: tuple[int, int] = (1, 0),
) -> Pass:
    """Return the pass over axes in this order.

    `reduced` is (size, step), as is `around`, a second reduced axis with a larger step; steps are
    in elements.
    """
    count, step = reduced
    period = count if around[0] > 1 else 0
    count *= around[0]
    sides = [_side_axes(outer), _side_axes(inner)]
    sizes = [math.prod(size for size, _, _ in each) for each in sides]
    results, dtype = sizes[0] * sizes[1], by_name(work.stored)
    return Pass(
        ("reduce_axis", work.op, work.items, work.accumulator),
        results * count * by_name(work.items).itemsize,
        results * dtype.itemsize,
        results,
        dtype,
        (sizes[0], count, sizes[1], step, *_side(sides[0]), *_side(sides[1]), *work.numbers(count),
         period, around[1] if period else 0),
    )  # fmt: skip


def _fused(work: AxisKernel, groups: Sequence[Group], reduced: Sequence[int]) -> Pass | None:
    """Return one pass over groups of which two are reduced, if that is faster than two passes."""
    first, last = reduced
    size, step, _ = groups[last]
    outer, inner = groups[:first], [each for each in groups[first + 1 :] if not each[2]]
    if (
        groups[first][0] * size >= _FUSED_MOST
        or (step == 1 and size > FUSED_SHORT)
        or (step == 1 and last + 1 == len(groups) and _joins_gaps(work, groups, first, size))
        or max(len(_side_axes(outer)), len(_side_axes(inner))) > AXES
    ):
        return None
    return pass_of(work, outer, (size, step), inner, groups[first][:2])


def _joins_gaps(work: AxisKernel, groups: Sequence[Group], at: int, kept: int) -> bool:
    """Return whether rows, group `at`, are better read with the gaps beside their `kept` elements.

    One by one, narrow elements take longer than vectors of them and of gaps: of less than a sector
    within reduced rows, else of a quarter of rows of bytes, an eighth of halves (TUNING.md A33).
    """
    item, (_, pitch, reduced) = by_name(work.items).itemsize, groups[at]
    large = math.prod(size for size, _, _ in groups) * item >= _GAPS_LEAST
    short = (pitch - kept) * item < _SECTOR if reduced else 8 * (pitch - kept) <= pitch * (3 - item)
    return item <= 2 and work.op != "argmin" and large and pitch > kept and short


@lru_cache(512)
def passes(work: AxisKernel, groups: tuple[Group, ...], fuses: bool = False) -> tuple[Pass, ...]:
    """Return the passes over groups, whose steps are in elements; `fuses` allows two reduced axes.

    The result is empty if more than `AXES` axes beside the reduced one cannot be merged.
    """
    found: list[Pass] = []
    while True:
        reduced = [k for k, group in enumerate(groups) if group[2]]
        one = _fused(work, groups, reduced) if fuses and len(reduced) == 2 else None
        if one:
            return (*found, one)
        if reduced:
            k = max(reduced, key=[size for size, _, _ in groups].__getitem__)
            outer, count, inner = groups[:k], groups[k][:2], groups[k + 1 :]
        else:
            outer, count, inner = groups[:-AXES], (1, 0), groups[-AXES:]
        if max(len(_side_axes(outer)), len(_side_axes(inner))) > AXES:
            return ()
        left, step, rest = [], 1, (*outer, *inner)
        if (
            (fuses and len(reduced) == 1 and len(inner) == 2 and inner[1][1] == 1)
            and count[0] >= _SECTOR
            and _joins_gaps(work, groups, k + 1, inner[1][0])
        ):  # reduces the gaps' columns too; a copy leaves them out
            left, rest = [*reversed(inner)], outer
            step = (inner[0][0] - 1) * inner[0][1] + inner[1][0]
            inner = ((step, 1, False),)
        last = len(reduced) < 2 and not left
        found.append(pass_of(work if last else work.raw(), outer, count, inner))
        if last:
            return tuple(found)
        for size, _, kind in reversed(rest):
            left.append((size, step, kind))
            step *= size
        groups, work = tuple(merge(reversed(left))), work.next()


# --- both


class Scheme(NamedTuple):
    """The plan for a layout of elements that a kernel can read.

    Attributes
    ----------
    layout : Layout
    passes : tuple of Pass
        Empty if the elements cannot be read in place: a stride is no multiple of the element size,
        too many axes cannot be merged, or an index runs over several axes that are not contiguous
        in C order, forwards or backwards. A copy in C order always has passes.
    between : dtype
        The dtype of the passes' results.
    straight : bool
        Whether those results are the caller's: in C order and of the result's dtype.
    """

    layout: Layout
    passes: tuple[Pass, ...]
    between: np.dtype
    straight: bool


def _way(layout: Layout, shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """Return the direction of indices in memory: 1, -1 (backwards) or 0 (neither)."""
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
    fuses: bool = True,
) -> Scheme:
    """Plan a reduction of a layout, whose strides are in bytes, to elements of dtype `result`.

    `fuses` allows passes over two reduced axes, which the cpu does not have.
    """
    n = math.prod(shape[k] for k in axes)
    if n == 1 and op in PLACES:
        strides = (0,) * len(shape)  # any element's index is 0
    work, layout = axis_kernel(op, given, result, n), layout_of(shape, strides, axes)
    pair = 2 if given.kind == "c" and op in ("sum", "mean") else 1  # numbers, an axis more
    unit = by_name(work.items).itemsize
    groups = [(size, step // unit, kind) for size, step, kind in layout.groups]
    if fuses and not layout.straight and math.prod(shape) <= TURNED_MOST:
        other = layout_of(shape, strides, axes, of_result=True)
        if other.straight and len(other.groups) <= AXES + 1:
            layout, groups = (
                other,
                [(size, step // unit, kind) for size, step, kind in other.groups],
            )
    way = _way(layout, shape, axes) if op in PLACES else 1
    if way < 0:
        work = work.backwards(n)
    found: tuple[Pass, ...] = ()
    if way and not any(step % unit for _, step, _ in layout.groups):
        found = passes(work, tuple(merge([*groups, (pair, 1, False)])), fuses)
    stored = by_name(work.stored)
    same = stored == result or (
        stored.itemsize * pair == result.itemsize
        and (kind_of(stored) == "f") == (kind_of(result) in "fc")
    )
    between = result if same else np.dtype(bool) if work.finish == ALL else stored
    return Scheme(layout, found, between, same and layout.straight)
