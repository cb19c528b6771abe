"""Calls on plain arrays of the host, by the shortest way.

An array is plain if it is a NumPy array itself, aligned, in C order and of a native dtype that the
family takes. Then everything about a call but its addresses follows from dtypes and shapes: it is
described once and kept. Each function returns None where an argument is anything else; the family's
own function then does the work, or tells what is wrong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout

_NAMES = {np.dtype(name): name for name in inout.NUMBERS}
_FLOATS = {np.dtype(name): name for name in inout.FLOATS}
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
        and inout.takes_in_place(out, dtype, inputs)
    )


def vectors(family: str, a: object, x: object, y: object, out: object, how: How) -> Any:
    """Run `add`, which takes no a, or `saxpy` on two arrays of one shape and dtype."""
    if not (is_plain(x) and is_plain(y)) or type(a) not in (int, float):
        return None
    dtype, shape = x.dtype, x.shape
    name = (_NAMES if family == "add" else _FLOATS).get(dtype)
    if name is None or y.dtype != dtype or y.shape != shape:
        return None
    numbers = (x.size, inout.bits(a, dtype) if family == "saxpy" else 0)
    return _run((family, family, name, name), (x, y), shape, dtype, numbers, out, how)


def matmul(a: object, b: object, out: object, how: How) -> Any:
    """Run `matmul` on two matrices or vectors of one dtype."""
    if not (is_plain(a) and is_plain(b)) or a.ndim not in (1, 2) or b.ndim not in (1, 2):
        return None
    dtype, (*rows, k), (depth, *columns) = a.dtype, a.shape, b.shape
    name = _FLOATS.get(dtype)
    if name is None or b.dtype != dtype or k != depth:
        return None
    numbers = (rows[0] if rows else 1, columns[0] if columns else 1, k)
    head, shape = ("matmul", "matmul", name, name), (*rows, *columns)
    found = _run(head, (a, b), shape, dtype, numbers, out, how)
    return found if shape or out is not None or found is None else found[()]


@lru_cache(_KEPT)
def _transposed(
    dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...] | None
) -> tuple[tuple[str, str, str, str], tuple[int, ...], Numbers]:
    from gpuopt.families.transpose import WORDS, permutation

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
) -> tuple[tuple[str, str, str, str], tuple[int, ...], Numbers, np.ndarray] | None:
    from gpuopt.families.stencil1d import MODES, stencil1d_numbers

    if mode not in MODES:
        return None
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
    if not 0 <= radius < 2**31 or cval or not last or not a.ndim or a.dtype not in _NAMES:
        return None
    known = _stencil(a.dtype, a.shape, radius, mode) if type(mode) is str else None
    if known is None:
        return None
    head, shape, numbers, weights = known
    return _run(head, (a, weights), shape, a.dtype, numbers, out, how)
