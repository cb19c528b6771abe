"""Input and output arrays of the families whose result is an array.

A family describes its call as a `Problem`: inputs and output as aligned runs of memory in C order,
and the family's numbers. The rules of `out=` on the host are here: `check_out` raises before
anything runs; where `takes_result` is false, a temporary receives the result.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays.dtypes import TYPES, by_name, is_bfloat16, kind_of, name_of

NUMBERS = ("int32", "int64", "float32", "float64")
FLOATS = ("float32", "float64")


@dataclass
class Problem:
    """A family's call: its kernel, arrays and numbers.

    Attributes
    ----------
    family, op : str
        Keys of the registry.
    items, result : str
        The signature: the dtype of the elements, and the accumulator's dtype.
    inputs : tuple of ndarray
        Contiguous, in C order. On the cpu an operand of `add` or `saxpy` may be a broadcast view,
        which `numbers` describe.
    shape : tuple of int
        The result's.
    dtype : dtype
        The result's.
    numbers : tuple of int
        The family's; floating-point numbers by their bits (`bits`).
    """

    family: str
    op: str
    items: str
    result: str
    inputs: tuple[np.ndarray, ...] = field(repr=False)  # perhaps a device's: never read them
    shape: tuple[int, ...]
    dtype: np.dtype
    numbers: tuple[int, ...] = field(default=())

    @property
    def head(self) -> tuple[str, str, str, str]:
        """Return the kernel: family, operation, dtypes of the elements and the accumulator."""
        return self.family, self.op, self.items, self.result

    def on(self, output: np.ndarray) -> tuple[object, ...]:
        """Return the tuple that `_core.Workbench` accepts."""
        return (*self.head, self.inputs, output, tuple(number % 2**64 for number in self.numbers))


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def bits(value: object, dtype: np.dtype) -> int:
    """Return a number's bits, as a kernel's argument of that dtype holds them."""
    if type(value) is float:  # faster than by a NumPy array
        if dtype == _FLOAT64:
            return int.from_bytes(struct.pack("<d", value), "little")
        if dtype == _FLOAT32:
            try:
                return _core.float32_bits(value)
            except OverflowError:  # NumPy makes it infinite
                return bits(np.float64(value), dtype)
    return int.from_bytes(
        np.array(value, dtype).astype(dtype.newbyteorder("<")).tobytes(), "little"
    )


def is_masked(array: np.ndarray) -> bool:
    """Tell whether an array is masked, without an import of numpy.ma for plain arrays."""
    return type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray)


def array_in(value: object, name: str) -> np.ndarray:
    """Return an argument as a NumPy array; masked arrays are refused."""
    if isinstance(value, np.ndarray) and is_masked(value):
        raise TypeError(
            f"{name}: masked arrays are not supported; pass {name}.compressed(), or "
            f"{name}.filled(value)"
        )
    if isinstance(value, np.matrix):
        raise TypeError(
            f"{name}: numpy.matrix is not supported, since its results have two dimensions; pass "
            f"numpy.asarray({name})"
        )
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    if type(value).__module__.partition(".")[0] == "pandas":
        _check_missing(value, name)
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:  # a ragged list
        raise type(error)(f"{name}: {error}") from None


def _check_missing(value: Any, name: str) -> None:
    """Raise ValueError for missing values of pandas' nullable types, which NumPy makes NaN."""
    dtypes = value.dtypes if hasattr(value, "dtypes") else getattr(value, "dtype", None)
    nullable = [each for each in np.atleast_1d(np.array(dtypes, object)) if _has_na(each)]
    if nullable and np.any(value.isna()):
        raise ValueError(
            f"{name}: has missing values of pandas' {nullable[0]}; pass {name}.dropna(), or "
            f"{name}.fillna(value)"
        )


def _has_na(dtype: Any) -> bool:
    return type(getattr(dtype, "na_value", None)).__name__ == "NAType"


def promoted(kinds: Iterable[Any]) -> np.dtype:
    """Return the dtype in which NumPy's functions combine dtypes and Python numbers.

    `numpy.result_type` makes float64 of bfloat16 and a Python float, but they are added as float32.
    """
    listed = list(kinds)
    if any(isinstance(each, np.dtype) and is_bfloat16(each) for each in listed):
        listed = [np.dtype(np.float32) if type(each) is float else each for each in listed]
    return np.result_type(*listed)


def common(
    values: tuple[tuple[str, object], ...], dtypes: tuple[str, ...]
) -> tuple[np.dtype, list[np.ndarray]]:
    """Return the dtype in which NumPy would combine some arguments, and them as arrays.

    Raises
    ------
    TypeError
        An argument's dtype, or the common one, is not in `dtypes`.
    OverflowError
        A Python integer that the common dtype does not hold.
    """
    # A Python number does not take part in the promotion (NEP 50).
    found = [value if type(value) is int else array_in(value, name) for name, value in values]
    weak = []
    for each, (name, value) in zip(found, values, strict=True):
        weak.append(value if type(value) in (int, float) else each.dtype)
        if type(value) is not int and kind_of(each.dtype) not in "biuf":
            raise TypeError(f"{name}: dtype {each.dtype} is not supported; use {', '.join(dtypes)}")
    try:
        dtype = promoted(weak).newbyteorder("=")
    except TypeError:  # no common type, as of bfloat16 and int64
        dtype = np.dtype(object)
    if name_of(dtype) not in dtypes:
        raise TypeError(
            f"{', '.join(name for name, _ in values)}: their common dtype {dtype} is not "
            f"supported; use {', '.join(dtypes)}"
        )
    for k, (name, value) in enumerate(values):
        if type(value) is int:
            found[k] = item(value, dtype, name)
    return by_name(name_of(dtype)), found


def item(value: float, dtype: np.dtype, name: str) -> np.ndarray:
    """Return a Python number as an element; OverflowError if the dtype cannot hold it."""
    try:
        return np.array(float(value) if is_bfloat16(dtype) else value, dtype)
    except OverflowError as error:
        raise OverflowError(f"{name}: {error}; use arrays of a dtype that holds it") from None


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two shapes broadcast to, or None."""
    axes = max(len(a), len(b))  # NumPy's own function ends at 32
    shape = []
    for one, other in zip((1,) * (axes - len(a)) + a, (1,) * (axes - len(b)) + b, strict=True):
        if one != other and 1 not in (one, other):
            return None
        shape.append(one if other == 1 else other)
    return tuple(shape)


def contiguous(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the array aligned, contiguous and of native byte order; copy it if need be."""
    return np.require(array, dtype.newbyteorder("="), ["C_CONTIGUOUS", "ALIGNED"])


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise NumPy's errors for an unusable `out`."""
    if not isinstance(out, np.ndarray) or is_masked(out):
        raise TypeError(f"out: return arrays must be of ArrayType, not {type(out)!r}")
    if out.shape != shape:
        raise ValueError(f"out: has shape {out.shape}, but the result has {shape}")
    if not out.flags.writeable:
        raise ValueError("out: output array is read-only")
    if kind_of(out.dtype) not in ("b", "i", "u", "f", "c", kind_of(dtype)):
        raise TypeError(f"out: dtype {out.dtype} is not supported; {TYPES}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(
            f"out: cannot cast the result from {dtype} to {out.dtype} with casting rule 'same_kind'"
        )


def apart(out: np.ndarray, array: np.ndarray, *, in_place: bool = False) -> bool:
    """Return whether a kernel may write `out` while it reads an array.

    With `in_place` the array may be `out` itself.
    """
    if not np.may_share_memory(out, array):
        return True
    same = out.ctypes.data == array.ctypes.data and out.strides == array.strides
    return in_place and same and out.shape == array.shape and out.dtype == array.dtype


def is_run(array: np.ndarray) -> bool:
    """Return whether a kernel can read or write an array in place, in C order."""
    return array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative


def takes_result(out: np.ndarray, dtype: np.dtype, inputs: Sequence[np.ndarray]) -> bool:
    """Return whether a kernel can write its result to `out` directly."""
    return out.dtype == dtype and is_run(out) and all(apart(out, each) for each in inputs)
