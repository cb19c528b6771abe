"""Stencils of boxes: each is read with its halo, by stencil1d's modes beyond the ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuopt.families.stencil1d import (
    Window,
    outputs_of,
    stencil1d,
    stencil1d_dtype,
    stencil_axis,
    window_of,
)
from gpuopt.scale.boxes import Box, StoredArray, store


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


def radius_of(window: Window, arrays: str) -> int:
    """Return the radius of a window that reaches as far before an element as after it."""
    if window.before != window.after:
        raise ValueError(
            f"radius, weights, origin: on {arrays} a window must reach as far before an element as "
            f"after it, not {window.before} and {window.after}; pass an odd number of weights and "
            f"no origin"
        )
    return window.before


class Strip(NamedTuple):
    """Outputs of a box, and their inputs.

    Attributes
    ----------
    box : Box
        That of the outputs in the result.
    mode : str
        The mode with which the inputs are computed.
    skipped : int or None
        The results before the outputs, in mode "constant"; None: all results are outputs.
    """

    box: Box
    inputs: np.ndarray
    mode: str
    skipped: int | None = None


@dataclass(frozen=True)
class BoxedStencil:
    """A stencil along an axis of a source, to be run box by box.

    Attributes
    ----------
    source : StoredArray
    axis, mode, origin
        As `gpuopt.stencil1d`.
    window : Window
    shape, dtype
        Those of the result, to which boxes belong.
    how : dict
        The other arguments of the calls.
    """

    source: StoredArray
    axis: int
    window: Window
    mode: str
    origin: int
    shape: tuple[int, ...]
    dtype: np.dtype
    how: dict[str, Any]

    @classmethod
    def of(
        cls,
        source: StoredArray,
        radius: Any,
        weights: Any,
        mode: Any,
        cval: Any,
        axis: Any,
        origin: Any,
        how: dict[str, Any],
    ) -> BoxedStencil:
        """Describe a stencil; errors are those of `gpuopt.stencil1d`."""
        axis = stencil_axis(axis, len(source.shape))
        one = np.ones((1,) * len(source.shape), source.dtype)
        dtype = stencil1d_dtype(one, radius, weights, mode, cval, origin)
        window = window_of(radius, weights, mode, origin)
        outputs = outputs_of(source.shape[axis], window, mode)
        shape = (*source.shape[:axis], outputs, *source.shape[axis + 1 :])
        how = {**how, "radius": radius, "weights": weights, "cval": cval, "axis": axis}
        return cls(source, axis, window, mode, origin, shape, dtype, how)

    def read(self, box: Box) -> list[Strip]:
        """Read the inputs of a box of the result.

        Outputs whose inputs all exist use them in place; only those near the array's ends need a
        copy, with the elements that the mode sets beyond.
        """
        n, (_, before, after) = self.source.shape[self.axis], self.window
        begin, end = box[self.axis].start, box[self.axis].stop
        if self.mode == "valid":
            return [Strip(box, self._slab(box, begin, end + before + after), self.mode)]
        if (begin, end) == (0, n):
            return [Strip(box, self._slab(box, 0, n), self.mode)]
        first, last = max(begin, before), min(end, n - after)
        if first >= last:
            return [self._edge(box, begin, end)]
        inside = self._slab(box, first - before, last + after)
        edges = [each for each in ((begin, first), (last, end)) if each[0] < each[1]]
        return [
            Strip(self._part(box, first, last), inside, "valid"),
            *(self._edge(box, *each) for each in edges),
        ]

    def _edge(self, box: Box, begin: int, end: int) -> Strip:
        """Read the inputs of outputs some of whose inputs are beyond the array's ends."""
        n, (_, before, after) = self.source.shape[self.axis], self.window
        low, high = begin - before, end + after
        part = self._part(box, begin, end)
        inside = self._slab(box, max(low, 0), min(high, n))
        if self.mode == "constant":
            return Strip(part, inside, self.mode, begin - max(low, 0))
        sides = []
        for places in (np.arange(low, min(0, high)), np.arange(max(n, low), high)):
            there = beyond(places, n, self.mode)
            least = int(there.min()) if there.size else 0
            most = int(there.max()) + 1 if there.size else 0
            sides.append(np.take(self._slab(box, least, most), there - least, self.axis))
        return Strip(part, np.concatenate([sides[0], inside, sides[1]], self.axis), "valid")

    def _part(self, box: Box, begin: int, end: int) -> Box:
        return (*box[: self.axis], slice(begin, end), *box[self.axis + 1 :])

    def _slab(self, box: Box, begin: int, end: int) -> np.ndarray:
        return self.source.read(self._part(box, begin, end))

    def run(self, strips: list[Strip], target: Any, device: str | None = None) -> None:
        """Compute the strips of a box, and store their results in the target."""
        how = self.how if device is None else {**self.how, "device": device}
        for box, inputs, mode, skipped in strips:
            how = {**how, "mode": mode, "origin": 0 if mode == "valid" else self.origin}
            if skipped is None:
                store(stencil1d, target, box, self.dtype, inputs, **how)
                continue
            outputs = box[self.axis].stop - box[self.axis].start
            found = stencil1d(inputs, **how)
            target[box] = found[self._part((slice(None),) * found.ndim, skipped, skipped + outputs)]
