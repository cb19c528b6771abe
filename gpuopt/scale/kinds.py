"""Recognises arrays of other engines without importing them."""

from __future__ import annotations

from typing import Any

import numpy as np

MAPPED = 1 << 30  # bytes from which on a mapped file is read block by block


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array; Dask's other collections are not."""
    kind = type(value)
    return hasattr(kind, "__dask_graph__") and hasattr(kind, "map_blocks") and hasattr(kind, "dask")


def has_slices(value: Any) -> bool:
    """Return whether a value has `shape`, `dtype` and slicing."""
    kind = type(value)
    named = all(hasattr(value, name) for name in ("shape", "dtype"))
    return named and hasattr(kind, "__getitem__") and not hasattr(value, "__cuda_array_interface__")


def is_stored(value: Any) -> bool:
    """Return whether a value is an array in a file: HDF5's, Zarr's, or a large mapped one."""
    if isinstance(value, np.ndarray):
        return isinstance(value, np.memmap) and value.nbytes >= MAPPED
    root = type(value).__module__.partition(".")[0]
    return root != "xarray" and hasattr(value, "chunks") and has_slices(value)
