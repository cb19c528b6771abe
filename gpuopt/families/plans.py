"""Plans of calls on host arrays, which `_core.Entry` caches by layouts and options.

A planner receives the arguments of a call. It returns a plan for all calls with these layouts and
options, or None: the family's general function then runs the call, or raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuopt import _core

_BY_VALUE = int(np.__version__.partition(".")[0]) < 2  # NumPy 1 promotes numbers by their value

Head = tuple[str, str, str, str]  # family, operation, the elements' and the accumulator's dtype
Pass = tuple[Head, tuple[int, ...], tuple[int, ...], int]  # numbers, bytes of inputs and of output


def weak_numbers(values: Sequence[object]) -> bool:
    """Return whether some values are Python numbers that this NumPy promotes by their value."""
    return _BY_VALUE and any(type(each) in (int, float) for each in values)


def named_like(out: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Return whether `out` can receive a result."""
    return out.shape == shape and out.flags.writeable and np.can_cast(dtype, out.dtype, "same_kind")


def is_run(array: np.ndarray) -> bool:
    """Return whether a kernel can read an array in place, in C order."""
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def apart(out: np.ndarray, array: np.ndarray, in_place: bool) -> bool:
    """Return whether a kernel may write `out` while it reads an array.

    With `in_place` the array may be `out` itself.
    """
    if not np.may_share_memory(out, array):
        return True
    same = out.ctypes.data == array.ctypes.data and out.strides == array.strides
    return in_place and same and out.shape == array.shape and out.dtype == array.dtype


def kernel_plan(
    passes: Sequence[Pass],
    inputs: tuple[Any, ...],
    result: tuple[Any, ...],
    how: tuple[Any, Any, Any],
    *,
    out: int = -1,
    direct: bool = True,
    factor: int = -1,
    factor_dtype: str | None = None,
) -> _core.Plan:
    """Return the plan of some passes; `how` is (variant, block, device), see `_core.Plan`."""
    direct = direct and out >= 0
    fields = (tuple(passes), inputs, result, out, direct, factor, factor_dtype, *how)
    return _core.Plan("kernel", fields)
