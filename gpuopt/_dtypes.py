"""bfloat16 beside NumPy's own types: recognised by its name, wherever it comes from.

NumPy has it only through ml_dtypes, which gpuopt does not need: without it, bfloat16 items of
another library are carried as a stand-in of their two bytes.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_STAND_IN = np.dtype([("bfloat16", "<u2")])


def is_bfloat16(dtype: np.dtype) -> bool:
    """Tell whether a dtype is ml_dtypes' bfloat16, or the stand-in for it."""
    return dtype.kind == "V" and (dtype.name == "bfloat16" or dtype == _STAND_IN)


@cache
def bfloat16() -> np.dtype:
    """Return ml_dtypes' bfloat16 where it is installed, else the stand-in."""
    try:
        import ml_dtypes
    except ImportError:
        return _STAND_IN
    return np.dtype(ml_dtypes.bfloat16)


def kind_of(dtype: np.dtype) -> str:
    """Return a dtype's kind; bfloat16 is a floating-point type."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def name_of(dtype: np.dtype) -> str:
    """Return the name by which kernels and other libraries know a dtype."""
    return "bfloat16" if is_bfloat16(dtype) else dtype.name


def by_name(name: str) -> np.dtype:
    """Return the dtype of a name."""
    return bfloat16() if name == "bfloat16" else np.dtype(name)
