"""The elements beyond an array's ends, by stencil1d's boundary modes."""

from __future__ import annotations

import numpy as np


def outside(n: int, radius: int, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the elements that stand before the first and after the last.

    Parameters
    ----------
    n : int
        Elements of the array, at least 1.
    radius : int
        Elements on each side; it may be larger than `n`.
    mode : {"nearest", "reflect", "mirror", "wrap"}
    """
    return beyond(np.arange(-radius, 0), n, mode), beyond(np.arange(n, n + radius), n, mode)


def beyond(places: np.ndarray, n: int, mode: str) -> np.ndarray:
    """Return the indices of the elements that stand for those at `places`, which may be outside."""
    if mode == "nearest":
        return np.clip(places, 0, n - 1)
    if mode == "wrap":
        return places % n
    period = 2 * n if mode == "reflect" else max(1, 2 * n - 2)
    there = places % period
    return np.minimum(there, period - 1 - there if mode == "reflect" else period - there) % n
