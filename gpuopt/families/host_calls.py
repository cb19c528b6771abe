"""The fast path of calls on plain host arrays.

An array is plain if it is a NumPy array (no subclass), aligned, in C order and of a native dtype
that the family accepts. A call on plain arrays depends on dtypes and shapes only, apart from
addresses: its description is made once and cached. Each family's fast path returns None if an
argument is not plain; the general path then does the work, or raises the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout

NUMBER_NAMES = {np.dtype(name): name for name in inout.NUMBERS}
FLOAT_NAMES = {np.dtype(name): name for name in inout.FLOATS}
KEPT = 512  # cached descriptions per family

Numbers = tuple[int, ...]


def is_plain(array: object) -> bool:
    """Return whether an array is NumPy's own, aligned and in C order."""
    if type(array) is not np.ndarray:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def run_plain(
    head: tuple[str, str, str, str],
    inputs: tuple[np.ndarray, ...],
    shape: tuple[int, ...],
    dtype: np.dtype,
    numbers: Numbers,
    out: object,
    variant: Any,
    block: Any,
    device: Any,
) -> np.ndarray | None:
    """Run a call; return None if its result cannot be written to `out` directly."""
    if out is None:
        out = np.empty(shape, dtype)
    elif not receives(out, shape, dtype, inputs):
        return None
    _core.call((*head, inputs, out, numbers), variant, block, device)
    return out


def receives(
    out: object, shape: tuple[int, ...], dtype: np.dtype, inputs: tuple[np.ndarray, ...]
) -> bool:
    """Return whether a result can be written to `out` directly."""
    return (
        is_plain(out)
        and out.shape == shape
        and out.flags.writeable
        and inout.takes_in_place(out, dtype, inputs)
    )
