"""Passes over the operands of sums on a device that are faster than to read them in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuopt.arrays.dtypes import is_bfloat16
from gpuopt.families.device_axes import in_c_order
from gpuopt.families.device_calls import Step, copy_step

AXES = 8  # that add and saxpy walk along: DEVICE_AXES
_ACROSS = 1 << 20  # elements of an operand that is brought into the result's order first
_LONG = 4 << 20  # bytes of a result for which a row is repeated first, if it has a vector's
_LONGER = 24 << 20  # and if it has fewer, all of one byte or bfloat16
_NEAR = {1: 3, 2: 8, 4: 32}  # bytes between elements that adjacent threads read, at most
_FEW = 32, 8192  # and if all are within as many bytes
_SHORT = 32  # elements of a row at most, beside which those of the next row are
_GAP = 16  # bytes between an operand's nearest elements, at most, for a pass by tiles
_GROUP = 16  # bytes that a thread writes


def _order(steps: tuple[int, ...], axes: list[int]) -> list[int]:
    """Return axes by their order in memory, the innermost last."""
    return sorted(axes, key=lambda axis: -steps[axis])


def _is_across(extents: list[int], steps: list[int], item: int) -> bool:
    """Return whether an operand is read across its rows, and a pass pays; the last axis first."""
    nearest = min((step for step in steps if step), default=0)
    if not 0 < nearest <= _GAP or steps[0] <= max(_NEAR[item], nearest):
        return False
    run, k = extents[0], 1
    while k < len(steps) and steps[k] == run * steps[0]:
        run *= extents[k]
        k += 1
    if steps[0] <= _FEW[0] and run * steps[0] <= _FEW[1]:
        return False
    return run > _SHORT or k == len(steps) or steps[k] != nearest


def _in_order(
    shape: tuple[int, ...],
    every: list[Any],
    made: tuple[int, ...],
    dtype: np.dtype,
    turned: int,
) -> list[Step]:
    """Return passes that bring operands which are read across their rows into the result's order.

    Not those that the sum turns in tiles, the bits of `turned`. `every` receives the new strides.
    """
    passes: list[Step] = []
    order = _order(made, [k for k, n in enumerate(shape) if n > 1])
    for k, steps in enumerate(every):
        extents = [shape[axis] if steps[axis] else 1 for axis in order]
        own = [steps[axis] for axis in order]
        across = _is_across(extents[::-1], own[::-1], dtype.itemsize)
        if across and not turned >> k & 1 and math.prod(extents) >= _ACROSS:
            passes.append(copy_step((tuple(extents), tuple(own), dtype), dtype, k))
            copied = dict(zip(order, in_c_order(tuple(extents), dtype), strict=True))
            every[k] = tuple(copied[axis] if step else 0 for axis, step in enumerate(steps))
    return passes


def in_one_order(
    shape: tuple[int, ...],
    every: list[Any],
    made: tuple[int, ...],
    dtype: np.dtype,
    turned: int,
) -> tuple[list[Step], list[Step], tuple[int, ...]]:
    """Return passes that let a sum read no operand across its rows, and the strides it writes.

    They come before it, or after it where the sum keeps an operand's order and is turned itself
    (TUNING.md V8, V10, V11). Operands of 8 bytes are read as they lie. `every` receives the new
    strides.
    """
    axes = [k for k, n in enumerate(shape) if n > 1]
    if dtype.itemsize > 4 or not 2 <= len(axes) <= AXES:
        return [], [], made
    given, nbytes = every.copy(), math.prod(shape) * dtype.itemsize
    before = _in_order(shape, every, made, dtype, turned)
    like = [given[k] for *_, written, _, _, k in before if written == nbytes]
    if turned or not like or made != in_c_order(shape, dtype):
        return before, [], made
    order = _order(like[0], axes)
    dense = dict(zip(order, in_c_order(tuple(shape[k] for k in order), dtype), strict=True))
    own = tuple(dense.get(k, dtype.itemsize) for k in range(len(shape)))
    first = _in_order(shape, given, own, dtype, 0)
    moved, moved_after = (sum(step[3] for step in steps) for steps in (before, first))
    # A row that is repeated in runs costs less than one that is read again and again.
    inner = order[-1]
    repeats = shape[inner] * dtype.itemsize >= _GROUP and any(
        steps[axes[-1]] and not steps[inner] for steps in every
    )
    if moved_after + nbytes - repeats >= moved:
        return before, [], made
    every[:] = given
    return first, [copy_step((shape, own, dtype), dtype, 0)], own


def with_long_row(
    axes: list[tuple[int, ...]], n: int, dtype: np.dtype
) -> tuple[list[Step], list[tuple[int, ...]]]:
    """Return a pass that repeats a row until vectors of it are aligned, and the new axes.

    Its narrow elements would be picked one by one (TUNING.md V9).
    """
    row, item = axes[0][0], dtype.itemsize
    times = 16 // math.gcd(row * item, 16)
    slow = item == 1 or is_bfloat16(dtype)
    least = _LONG if row * item >= 16 else _LONGER if slow else math.inf
    if item > 2 or n * item < least or times == 1 or times * row * 8 > n:
        return [], axes
    for k, steps in enumerate(((0, row, row), (row, 0, row))):
        if axes == [(row, 1, 1, 1), (n // row, *steps)]:
            step = copy_step(((times, row), (0, item), dtype), dtype, k)
            long = times * row
            rows = -(-n // long)
            return [step], [(long, 1, 1, 1), (rows, *(long if each else 0 for each in steps))]
    return [], axes
