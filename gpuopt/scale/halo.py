"""Stencils of boxes: each is read with its halo, by stencil1d's modes beyond the ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuopt.families.stencil1d import stencil1d, stencil1d_numbers, stencil1d_problem, stencil_axis
from gpuopt.scale.boxes import Box, Source, store


def beyond(places: np.ndarray, n: int, mode: str) -> np.ndarray:
    """Return the indices of the elements that stand for those at `places`, which may be outside.

    Parameters
    ----------
    n : int
        Elements of the array, at least 1.
    mode : {"nearest", "reflect", "mirror", "wrap"}
    """
    if mode == "nearest":
        return np.clip(places, 0, n - 1)
    if mode == "wrap":
        return places % n
    period = 2 * n if mode == "reflect" else max(1, 2 * n - 2)
    there = places % period
    return np.minimum(there, period - 1 - there if mode == "reflect" else period - there) % n


@dataclass(frozen=True)
class BoxedStencil:
    """A stencil along an axis of a source, to be run box by box.

    Attributes
    ----------
    source : Source
    axis, radius, mode, cval
        As `gpuopt.stencil1d`.
    shape, dtype
        Those of the result, to which boxes belong.
    how : dict
        The other arguments of the calls.
    """

    source: Source
    axis: int
    radius: int
    mode: str
    cval: Any
    shape: tuple[int, ...]
    dtype: np.dtype
    how: dict[str, Any]

    @classmethod
    def of(
        cls,
        source: Source,
        radius: Any,
        weights: Any,
        mode: Any,
        cval: Any,
        axis: Any,
        how: dict[str, Any],
    ) -> BoxedStencil:
        """Describe a stencil; errors are those of `gpuopt.stencil1d`."""
        axis = stencil_axis(axis, len(source.shape))
        one = np.ones((1,) * len(source.shape), source.dtype)
        problem = stencil1d_problem(one, radius, weights, mode, cval)
        radius = problem.numbers[3]
        outputs, _ = stencil1d_numbers((source.shape[axis],), radius, mode, 0)
        shape = (*source.shape[:axis], outputs, *source.shape[axis + 1 :])
        how = {**how, "weights": weights, "axis": axis}
        return cls(source, axis, radius, mode, cval, shape, problem.dtype, how)

    def read(self, box: Box) -> np.ndarray:
        """Read a box of the result with its halo; "constant" has none beyond the ends."""
        n = self.source.shape[self.axis]
        first = box[self.axis].start - (0 if self.mode == "valid" else self.radius)
        end = first + box[self.axis].stop - box[self.axis].start + 2 * self.radius
        inside = self._slab(box, max(first, 0), min(end, n))
        if self.mode in ("constant", "valid") or (first >= 0 and end <= n):
            return inside
        sides = []
        for places in (np.arange(first, min(0, end)), np.arange(max(n, first), end)):
            there = beyond(places, n, self.mode)
            low = int(there.min()) if there.size else 0
            high = int(there.max()) + 1 if there.size else 0
            sides.append(np.take(self._slab(box, low, high), there - low, self.axis))
        return np.concatenate([sides[0], inside, sides[1]], self.axis)

    def _slab(self, box: Box, begin: int, end: int) -> np.ndarray:
        return self.source.read((*box[: self.axis], slice(begin, end), *box[self.axis + 1 :]))

    def run(self, block: np.ndarray, box: Box, target: Any, device: str | None = None) -> None:
        """Compute a box that `read` has read, and store its results in the target's box."""
        how = self.how if device is None else {**self.how, "device": device}
        outputs = box[self.axis].stop - box[self.axis].start
        if self.mode != "constant" or block.shape[self.axis] == outputs + 2 * self.radius:
            store(stencil1d, target, box, self.dtype, block, self.radius, mode="valid", **how)
            return
        left = min(self.radius, box[self.axis].start)  # elements of the halo that exist
        whole = [slice(None)] * len(self.shape)
        whole[self.axis] = slice(left, left + outputs)
        found = stencil1d(block, self.radius, mode=self.mode, cval=self.cval, **how)
        target[box] = found[tuple(whole)]
