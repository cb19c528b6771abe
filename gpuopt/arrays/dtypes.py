"""The dtypes that kernels accept: NumPy's own, and bfloat16, which is recognised by its name.

ml_dtypes adds bfloat16 to NumPy. gpuopt does not require it: without it, bfloat16 elements of
another library are handled as an opaque dtype of two bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_STAND_IN = np.dtype([("bfloat16", "<u2")])


def is_bfloat16(dtype: np.dtype) -> bool:
    """Return whether a dtype is ml_dtypes' bfloat16, or the opaque dtype in its place."""
    return dtype.kind == "V" and (dtype.name == "bfloat16" or dtype == _STAND_IN)


@cache
def bfloat16() -> np.dtype:
    """Return ml_dtypes' bfloat16 where it is installed, else the opaque dtype."""
    try:
        import ml_dtypes
    except ImportError:
        return _STAND_IN
    return np.dtype(ml_dtypes.bfloat16)


_WIDEST = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}  # bytes
TYPES = "use bool, an integer type, float16, bfloat16, float32, float64, complex64 or complex128"


def supported(dtype: np.dtype) -> bool:
    """Return whether kernels accept elements of a dtype."""
    ordinary = dtype.isbuiltin in (0, 1) and 0 < dtype.itemsize <= _WIDEST.get(dtype.kind, 0)
    return ordinary or is_bfloat16(dtype)


def named_dtype(dtype: DTypeLike) -> np.dtype:
    """Return the dtype that a `dtype=` argument names."""
    if isinstance(dtype, str) and dtype == "bfloat16":  # NumPy's only once ml_dtypes is imported
        return bfloat16()
    try:
        found = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"dtype: {dtype!r} is not a dtype; use a name, as 'float32'") from None
    if not found.isnative:
        raise TypeError(
            f"dtype: {dtype!r} is in a foreign byte order, but results are in the machine's; pass "
            f"{found.name!r}, and convert the result"
        )
    return found


def kind_of(dtype: np.dtype) -> str:
    """Return a dtype's kind; bfloat16 is a floating-point type."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def name_of(dtype: np.dtype) -> str:
    """Return the name by which kernels and other libraries know a dtype."""
    return "bfloat16" if is_bfloat16(dtype) else dtype.name


def by_name(name: str) -> np.dtype:
    """Return the dtype of a name."""
    return bfloat16() if name == "bfloat16" else np.dtype(name)
