"""Calls on plain arrays of the host, by the shortest way.

An array is plain if it is a NumPy array itself, aligned, in C order and of a native dtype that the
family takes. Then everything about a call but its addresses follows from dtypes and shapes: it is
described once and kept. Each function returns None where an argument is anything else; the family's
own function then does the work, or tells what is wrong.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gpuopt import _arrays as arrays
from gpuopt import _core

_NAMES = {np.dtype(name): name for name in ("int32", "int64", "float32", "float64")}
_FLOATS = {np.dtype(name): name for name in ("float32", "float64")}
_MOVED = frozenset("?bBhHiIlLqQefdD")  # dtypes that are aligned as the words that they move as
_KEPT = 512  # descriptions of a family

Numbers = tuple[int, ...]
How = tuple[Any, Any, Any]  # variant, block, device


def is_plain(array: object) -> bool:
    """Tell whether an array is NumPy's own, aligned and in C order."""
    if type(array) is not np.ndarray:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def _run(
    head: tuple[str, str, str, str],
    inputs: tuple[np.ndarray, ...],
    shape: tuple[int, ...],
    dtype: np.dtype,
    numbers: Numbers,
    out: object,
    how: How,
) -> np.ndarray | None:
    if out is None:
        out = np.empty(shape, dtype)
    elif not receives(out, shape, dtype, inputs):
        return None
    _core.call((*head, inputs, out, numbers), *how)
    return out


def receives(
    out: object, shape: tuple[int, ...], dtype: np.dtype, inputs: tuple[np.ndarray, ...]
) -> bool:
    """Tell whether a result can be written to `out` as it is."""
    return (
        is_plain(out)
        and out.shape == shape
        and out.flags.writeable
        and arrays.takes_in_place(out, dtype, inputs)
    )


def vectors(family: str, a: object, x: object, y: object, out: object, how: How) -> Any:
    """Run `add` (a is 0) or `saxpy` on two vectors of one shape and dtype."""
    if not (is_plain(x) and is_plain(y)) or type(a) not in (int, float):
        return None
    dtype, shape = x.dtype, x.shape
    name = (_NAMES if family == "add" else _FLOATS).get(dtype)
    if name is None or y.dtype != dtype or y.shape != shape:
        return None
    numbers = (x.size, arrays.bits(a, dtype) if a else 0)
    return _run((family, family, name, name), (x, y), shape, dtype, numbers, out, how)


def matmul(a: object, b: object, out: object, how: How) -> Any:
    """Run `matmul` on two matrices of one dtype."""
    if not (is_plain(a) and is_plain(b)) or a.ndim != 2 or b.ndim != 2:
        return None
    dtype, (m, k), (rows, n) = a.dtype, a.shape, b.shape
    name = _FLOATS.get(dtype)
    if name is None or b.dtype != dtype or k != rows:
        return None
    return _run(("matmul", "matmul", name, name), (a, b), (m, n), dtype, (m, n, k), out, how)


@lru_cache(_KEPT)
def _transposed(
    dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...] | None
) -> tuple[tuple[str, str, str, str], tuple[int, ...], Numbers]:
    from gpuopt._families import WORDS, permutation

    order = permutation(axes, len(shape))
    word = WORDS[dtype.itemsize]
    numbers = (len(shape), *shape, *order)
    return ("transpose", "move", word, word), tuple(shape[k] for k in order), numbers


def transpose(a: object, axes: object, out: object, how: How) -> Any:
    """Run `transpose` on the best rung."""
    known = axes is None or (type(axes) is tuple and all(type(each) is int for each in axes))
    if how[0] is not None or not known or not is_plain(a) or a.dtype.char not in _MOVED:
        return None
    if not a.dtype.isnative:
        return None
    head, shape, numbers = _transposed(a.dtype, a.shape, axes)
    return _run(head, (a,), shape, a.dtype, numbers, out, how)


@lru_cache(_KEPT)
def _stencil(
    dtype: np.dtype, shape: tuple[int, ...], radius: int, mode: str
) -> tuple[tuple[str, str, str, str], tuple[int, ...], Numbers, np.ndarray]:
    from gpuopt._families import stencil1d_numbers

    outputs, numbers = stencil1d_numbers(shape, radius, mode, 0)
    name = _NAMES[dtype]
    return ("stencil1d", "sum", name, name), (*shape[:-1], outputs), numbers, np.empty(0, dtype)


def stencil1d(
    a: object, radius: object, mode: object, cval: object, axis: object, out: object, how: How
) -> Any:
    """Run `stencil1d` without weights along the last axis, with nothing but 0 beyond the ends."""
    if not is_plain(a) or type(radius) is not int or type(cval) is not int or type(axis) is not int:
        return None
    last = axis in (-1, a.ndim - 1)
    if radius < 0 or cval or not last or not a.ndim or a.dtype not in _NAMES:
        return None
    from gpuopt._families import MODES

    if type(mode) is not str or mode not in MODES:
        return None
    head, shape, numbers, weights = _stencil(a.dtype, a.shape, radius, mode)
    return _run(head, (a, weights), shape, a.dtype, numbers, out, how)


# --- reductions along axes


class Plan:
    """A reduction along axes that is one pass over memory.

    Attributes
    ----------
    head : tuple of str
    numbers : tuple of int
        Of the kernel.
    turned : tuple of slice or None
        What makes all strides positive.
    made : tuple of int
        The result's shape, its axes in the order in which they lie in memory.
    order : tuple of int or None
        The axes as the caller wants them; None: as they are.
    shape : tuple of int
        What the caller gets.
    dtype : dtype
    """

    __slots__ = ("dtype", "head", "made", "numbers", "order", "shape", "turned")

    def run(self, array: np.ndarray, how: How, out: object) -> Any:
        """Return the result; None where the device or `out` cannot take it this way."""
        if self.turned is not None:
            array = array[self.turned]
        if out is not None:
            if self.order is not None or not receives(out, self.shape, self.dtype, (array,)):
                return None
            made = out
        else:
            made = np.empty(self.made, self.dtype)
        if _core.call((*self.head, ((array,),), made, self.numbers), *how) is False:
            return None
        if out is not None:
            return out
        if self.order is not None:
            made = made[self.order[0]].transpose(self.order[1]).reshape(self.shape)
        return made if made.ndim else made[()]


@lru_cache(2 * _KEPT)
def _planned(
    op: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    axis: int | tuple[int, ...] | None,
    keepdims: bool,
) -> Plan | None:
    """Return the plan; None where there is none, or an argument is wrong."""
    from gpuopt import _axis

    try:
        _axis.check_op(op)
        axes = _axis.axes_of(axis, len(shape), op)
        if not _axis.supported(dtype) or not dtype.isnative:
            return None
        result = _axis.result_dtype(op, dtype, None, None)
        _axis.check_kind(op, dtype)
    except (TypeError, ValueError):
        return None
    if not math.prod(shape) or _axis.computed_on(op, dtype, result) != dtype:
        return None
    n = math.prod(shape[k] for k in axes)
    work = _axis.work_of(op, dtype, result, n)
    pairs = dtype.kind == "c" and op in ("sum", "mean")
    stored = _axis.by_name(work.stored).itemsize * (2 if pairs else 1)
    if stored != result.itemsize or (op == "mean" and result.kind in "biu"):
        return None
    size = _axis.by_name(work.items).itemsize
    order = sorted(range(len(shape)), key=lambda k: (shape[k] > 1, -abs(strides[k])))
    groups: list[tuple[int, int, bool]] = []  # items, their step, whether they are reduced
    for k in order:
        step, rest = divmod(abs(strides[k]), size)
        if shape[k] == 1:
            continue
        if rest:
            return None
        if groups and groups[-1][2] == (k in axes) and groups[-1][1] == shape[k] * step:
            groups[-1] = (groups[-1][0] * shape[k], step, k in axes)
        else:
            groups.append((shape[k], step, k in axes))
    if pairs:
        groups.append((2, 1, False))
    kinds = [reduced for _, _, reduced in groups]
    if kinds not in _ONE_PASS:
        return None
    turned = [k for k in range(len(shape)) if strides[k] < 0 and shape[k] > 1]
    if op in _axis.PLACES:
        reduced = [k for k in order if k in axes and shape[k] > 1]
        if reduced != sorted(reduced) or (len(reduced) > 1 and set(reduced) & set(turned)):
            return None  # places count in C order
        if set(reduced) & set(turned):
            work = work.backwards(n)
    before = kinds.index(True) if True in kinds else len(kinds)
    outer = groups[0] if before else (1, 0, False)
    count = groups[before] if True in kinds else (1, 0, True)
    inner = groups[-1] if before < len(kinds) - 1 else (1, 1, False)
    plan = Plan()
    plan.head = ("reduce_axis", work.op, work.items, work.accumulator)
    plan.numbers = tuple(
        number % 2**64
        for number in (
            outer[0], count[0], inner[0], count[1], *_axis.side([outer[:2]]),
            *_axis.side([inner[:2]]), *work.numbers(),
        )
    )  # fmt: skip
    plan.turned = (
        tuple(slice(None, None, -1 if k in turned else None) for k in range(len(shape)))
        if turned
        else None
    )
    kept = [k for k in range(len(shape)) if k not in axes]
    there = [k for k in order if k in kept]
    plan.dtype = result
    plan.shape = tuple(
        1 if k in axes else shape[k] for k in range(len(shape)) if keepdims or k not in axes
    )
    flipped = [k for k in there if k in turned]
    long = [k for k in there if shape[k] > 1]
    if long == sorted(long) and not flipped:
        plan.made, plan.order = plan.shape, None
    else:
        plan.made = tuple(shape[k] for k in there)
        plan.order = (
            tuple(slice(None, None, -1 if k in flipped else None) for k in there),
            tuple(there.index(k) for k in kept),
        )
    return plan


_ONE_PASS = ([], [False], [True], [False, True], [True, False], [False, True, False])


def reduce_axis(
    array: object, op: object, axis: object, keepdims: object, out: object, how: How
) -> Any:
    """Run a reduction along axes in one pass, in place whatever the strides."""
    if type(array) is not np.ndarray or type(op) is not str:
        return None
    if not (
        axis is None
        or type(axis) is int
        or (type(axis) is tuple and all(type(each) is int for each in axis))
    ):
        return None
    if not array.flags.aligned:
        return None
    plan = _planned(op, array.dtype, array.shape, array.strides, axis, bool(keepdims))
    return plan and plan.run(array, how, out)
