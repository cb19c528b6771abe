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
_SECTOR = 32  # bytes: adjacent threads that read elements farther apart read a sector for each


def in_order(
    shape: tuple[int, ...],
    every: list[Any],
    made: tuple[int, ...],
    dtype: np.dtype,
    turned: int,
) -> list[Step]:
    """Return passes that bring operands which are read across their rows into the result's order.

    Not those that the sum turns in tiles, the bits of `turned`, nor others of 8 bytes (TUNING.md
    V8, V10). `every` receives the new strides.
    """
    passes: list[Step] = []
    order = sorted((k for k, n in enumerate(shape) if n > 1), key=lambda k: -made[k])
    if dtype.itemsize > 4 or not 2 <= len(order) <= AXES:
        return passes
    for k, steps in enumerate(every):
        extents = tuple(shape[axis] if steps[axis] else 1 for axis in order)
        across = steps[order[-1]] > _SECTOR and dtype.itemsize in steps and min(steps) >= 0
        if across and not turned >> k & 1 and math.prod(extents) >= _ACROSS:
            layout = extents, tuple(steps[axis] for axis in order), dtype
            passes.append(copy_step(layout, dtype, k))
            copied = dict(zip(order, in_c_order(extents, dtype), strict=True))
            every[k] = tuple(copied[axis] if step else 0 for axis, step in enumerate(steps))
    return passes


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
