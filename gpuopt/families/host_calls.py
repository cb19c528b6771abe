"""Calls on plain arrays of the host, by the shortest way.

An array is plain if it is a NumPy array itself, aligned, in C order and of a native dtype that the
family takes. Then everything about a call but its addresses follows from dtypes and shapes: it is
described once and kept. Each family has a function that tries this way, and returns None where an
argument is anything else; the family's general way then does the work, or raises the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout

NUMBER_NAMES = {np.dtype(name): name for name in inout.NUMBERS}
FLOAT_NAMES = {np.dtype(name): name for name in inout.FLOATS}
KEPT = 512  # descriptions of a family

Numbers = tuple[int, ...]
How = tuple[Any, Any, Any]  # variant, block, device


def is_plain(array: object) -> bool:
    """Tell whether an array is NumPy's own, aligned and in C order."""
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
    how: How,
) -> np.ndarray | None:
    """Run a call, or return None where its result cannot be written to `out` as it is."""
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
