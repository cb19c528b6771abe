"""Describe the arrays of a launch, so that findings can name them."""

from __future__ import annotations

from typing import Any

import numpy as np

# argument, bytes, bytes of an element, label, fields, made for the launch: `_core` reads these
Described = tuple[int, int, int, str, "bytes | None", bool]


def _mark(dtype: np.dtype, offset: int, held: bytearray) -> None:
    """Set the bytes of an element that a field holds."""
    if dtype.fields is not None:
        for field in dtype.fields.values():
            _mark(field[0], offset + field[1], held)
    elif dtype.subdtype is not None:
        each, shape = dtype.subdtype
        for i in range(int(np.prod(shape))):
            _mark(each, offset + i * each.itemsize, held)
    elif dtype.kind != "V":
        held[offset : offset + dtype.itemsize] = b"\x01" * dtype.itemsize


def _fields(dtype: np.dtype) -> bytes | None:
    """Return a byte for each byte of an element, 0 for padding; None: no padding."""
    if dtype.fields is None and dtype.subdtype is None and dtype.kind != "V":
        return None
    held = bytearray(dtype.itemsize)
    _mark(dtype, 0, held)
    return bytes(held)


def described(argument: int, array: Any, dtype: np.dtype, is_copy: bool) -> Described:
    """Describe an array, given its argument's index.

    Parameters
    ----------
    array
        Anything with a `shape`.
    is_copy : bool
        Whether its memory is made for the launch.
    """
    count = int(np.prod(array.shape, dtype=np.int64))
    name = f"structure of {dtype.itemsize} bytes" if dtype.kind == "V" else dtype.name
    label = f"{name}[{', '.join(map(str, array.shape))}]"
    return argument, count * dtype.itemsize, dtype.itemsize, label, _fields(dtype), is_copy
