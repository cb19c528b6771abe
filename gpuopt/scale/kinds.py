"""Recognises arrays of other engines without importing them."""

from __future__ import annotations

from typing import Any


def is_dask(value: Any) -> bool:
    """Return whether a value is a Dask array; Dask's other collections are not."""
    kind = type(value)
    return hasattr(kind, "__dask_graph__") and hasattr(kind, "map_blocks") and hasattr(kind, "dask")
