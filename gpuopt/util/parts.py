"""Large arrays of the host, in parts and by all cores: NumPy's loops let other threads run.

Only NumPy works here: what kernels give is held against these results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, TypeVar

import numpy as np

from gpuopt import _core

PART = 1 << 18  # items: temporaries of one chunk stay in a core's cache
PARTIAL_SHARE = 1 / 16  # of an array's items, that the results of its parts may be
SIDE = 256  # of a tile: read by rows and written by columns, both from a core's cache

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return how many threads this process may use."""
    return _core.host_threads()


def each(function: Callable[[Item], Result], tasks: Iterable[Item]) -> list[Result]:
    """Return the function's results for all tasks, in order; threads share the work."""
    tasks = list(tasks)
    threads = min(cores(), len(tasks))
    if threads < 2:
        return [function(task) for task in tasks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, tasks))


def spans(n: int, part: int | None = None) -> list[slice]:
    """Return slices that together are 0 to n, each of `part` but the last; default: PART."""
    part = part or PART
    return [slice(at, min(n, at + part)) for at in range(0, n, part)]


_kept = threading.local()


def scratch(name: str, n: int, dtype: Any = np.float64) -> np.ndarray:
    """Return n items of this thread's, whatever is in them: memory that is there costs nothing."""
    found = getattr(_kept, name, None)
    if found is None or found.size < n or found.dtype != dtype:
        found = np.empty(n, dtype)
        setattr(_kept, name, found)
    return found[:n]


def raw(array: np.ndarray) -> np.ndarray:
    """Return an array of another library's dtype as one of words: its copies hold no lock."""
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def plain(array: np.ndarray) -> np.ndarray:
    """Return floating-point items of two bytes, which few loops take, as float32: exactly."""
    if array.dtype.name == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def fill(array: np.ndarray, byte: int) -> None:
    """Set every byte of an array in C order."""
    items = array.reshape(-1).view(np.uint8)

    def one(part: slice) -> None:
        items[part] = byte

    each(one, spans(items.size, 8 * PART))


def repeated(tile: np.ndarray, n: int) -> np.ndarray:
    """Return n items: a flat array's, over and over again."""
    made = np.empty(n, tile.dtype)
    to, of = raw(made), raw(tile)

    def one(part: slice) -> None:
        at = part.start
        while at < part.stop:
            begin = at % of.size
            count = min(of.size - begin, part.stop - at)
            to[at : at + count] = of[begin : begin + count]
            at += count

    each(one, spans(n))
    return made


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two flat arrays have the same items."""
    if one.shape != other.shape:
        return False
    parts = spans(one.size)
    return all(each(lambda part: np.array_equal(one[part], other[part]), parts))


# --- transposes


def _tile(shape: Sequence[int], first: Sequence[int]) -> list[int]:
    """Return how long a tile of some SIDE * SIDE items is along each axis: `first` before others.

    The other axes share the rest, the last of them most.
    """
    tile, left = [1] * len(shape), SIDE * SIDE
    others = [k for k in reversed(range(len(shape))) if k not in first]
    for k in (*first, *others):
        most = SIDE if k in first and len(first) > 1 else left
        tile[k] = max(1, min(shape[k], most, left))
        left //= tile[k]
    return tile


def _words(array: np.ndarray) -> np.ndarray:
    """Return an array in C order as its bytes in words; an item's are along one more axis."""
    word = min(array.itemsize, 8)
    return array.view(f"u{word}").reshape(*array.shape, array.itemsize // word)


def not_transposed(got: np.ndarray, array: np.ndarray, axes: Sequence[int] | None) -> int | None:
    """Return the number of the first item that is wrong, in any of its bytes, or None.

    Allocates nothing of the arrays' size: right elements are made tile by tile.

    Parameters
    ----------
    got : ndarray
        Is said to be ``numpy.transpose(array, axes)``; of its shape and dtype.
    array : ndarray
        In C order.
    axes : sequence of int or None
    """
    last = array.ndim - 1
    axes = tuple(range(array.ndim))[::-1] if axes is None else tuple(axes)
    there, back = (*axes, array.ndim), (*np.argsort(axes), array.ndim)
    right, result = _words(array).transpose(there), _words(np.ascontiguousarray(got))
    # Along one axis the result's items are neighbours, along the other the array's.
    tile = _tile(got.shape, list(dict.fromkeys((last, axes.index(last)))))
    every = list(product(*(spans(n, length) for n, length in zip(got.shape, tile, strict=True))))

    def first(at: tuple[slice, ...]) -> int | None:
        # The copy brings the rows together: rows that lie a power of two apart compete for few sets
        # of a cache.
        near = np.ascontiguousarray(right[at].transpose(back)).transpose(there)
        here = result[at]
        off = here[..., 0] != near[..., 0]
        for word in range(1, here.shape[-1]):
            off |= here[..., word] != near[..., word]
        if not off.any():
            return None
        inside = np.unravel_index(int(off.argmax()), off.shape)
        where = [part.start + int(k) for part, k in zip(at, inside, strict=True)]
        return int(np.ravel_multi_index(where, got.shape))

    def firsts(part: slice) -> list[int]:
        return [found for at in every[part] if (found := first(at)) is not None]

    share = max(1, len(every) // (8 * cores()))
    return min((n for found in each(firsts, spans(len(every), share)) for n in found), default=None)


# --- reductions


def _split(view: np.ndarray, axis: int) -> tuple[int, int]:
    """Return an axis to split a view along, and how long its parts are.

    The parts are far apart in memory, where there are enough of them; those along the axis of the
    reduction have little results in sum.
    """
    far = sorted(range(view.ndim), key=lambda k: -abs(view.strides[k]))
    results = view.size // max(1, view.shape[axis])
    for k in (*far, int(np.argmax(view.shape))):
        length = max(1, PART * view.shape[k] // max(1, view.size))
        count = -(-view.shape[k] // length)
        if count * PART >= view.size / 2 and (
            k != axis or count * results <= view.size * PARTIAL_SHARE
        ):
            break
    return k, length


def _reduced(
    view: np.ndarray,
    axis: int,
    one: Callable[[np.ndarray, int], Any],
    combined: Callable[[list[Any]], Any],
) -> np.ndarray:
    """Return what `one` gives of the parts, joined or combined.

    `one` takes a part, and where along the axis it begins.
    """
    k, length = _split(view, axis)
    before = (slice(None),) * k

    def partial(part: slice) -> np.ndarray:
        return one(view[(*before, part)], part.start if k == axis else 0)

    found = each(partial, spans(view.shape[k], length))
    if len(found) == 1:
        return np.asarray(found[0])
    return np.asarray(combined(found) if k == axis else np.concatenate(found, k - (k > axis)))


def total(view: np.ndarray, axis: int, dtype: type) -> np.ndarray:
    """Return the sums along an axis, added in a dtype."""
    return _reduced(
        view, axis, lambda part, begin: plain(part).sum(axis, dtype), lambda found: sum(found)
    )


_COMBINING = {"max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and}


def combined(view: np.ndarray, axis: int, op: str) -> np.ndarray:
    """Return "max", "min", "any" or "all" along an axis; items of two bytes as float32."""
    ufunc = _COMBINING[op]
    return _reduced(view, axis, lambda part, begin: ufunc.reduce(plain(part), axis), ufunc.reduce)


def place(view: np.ndarray, axis: int, op: str = "argmax") -> np.ndarray:
    """Return where the largest items along an axis are ("argmin": the smallest), the first ones."""
    function, better = (np.argmax, np.greater) if op == "argmax" else (np.argmin, np.less)

    def first(found: list[np.ndarray]) -> np.ndarray:
        best, most = found[0], at_places(view, axis, found[0])
        for other in found[1:]:
            items = at_places(view, axis, other)
            best = np.where(better(items, most), other, best)
            most = np.where(better(items, most), items, most)
        return best

    return _reduced(view, axis, lambda part, begin: function(plain(part), axis) + begin, first)


def at_places(view: np.ndarray, axis: int, places: np.ndarray) -> np.ndarray:
    """Return the items at places along an axis; those of two bytes as float32."""
    found = np.take_along_axis(view, np.expand_dims(places, axis), axis)
    return plain(found).squeeze(axis)


def same_at(view: np.ndarray, axis: int, places: np.ndarray, others: np.ndarray) -> bool:
    """Tell whether the items at places along an axis equal those at others."""
    lines = np.moveaxis(view, axis, -1)[None]  # with one axis more there always is a result's
    one, two = places.reshape(-1), others.reshape(-1)

    def same(part: slice) -> bool:
        where = np.unravel_index(np.arange(part.start, part.stop), lines.shape[:-1])
        return bool(np.all(lines[(*where, one[part])] == lines[(*where, two[part])]))

    return all(each(same, spans(one.size)))
