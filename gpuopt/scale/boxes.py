"""Boxes: the blocks in which an array that does not fit into memory is read and written."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from typing import Any

import numpy as np

Box = tuple[slice, ...]
Progress = Callable[[str, float], None]

MEMORY_LIMIT = 512 << 20  # bytes, unless the caller names another
LEAST = 1 << 20
BLOCK_MOST = 64 << 20  # larger blocks are read no faster
_UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def bytes_of(limit: Any) -> int:
    """Return `memory_limit` in bytes; None is the default."""
    found: float | None = None
    if limit is None:
        return MEMORY_LIMIT
    if isinstance(limit, str):
        number = limit.strip().rstrip("BbGgIiKkMm ")
        unit = _UNITS.get(limit.strip()[len(number) :].strip().upper())
        try:
            found = None if unit is None else float(number) * unit
        except ValueError:
            found = None
    elif isinstance(limit, (int, float, np.integer)) and not isinstance(limit, bool):
        found = float(limit)
    if found is None or not math.isfinite(found):
        raise ValueError(
            f"memory_limit: must be a number of bytes or text as '512MiB', not {limit!r}"
        )
    if found < LEAST:
        raise ValueError(f"memory_limit: {limit!r} is less than 1 MiB, the least that is useful")
    return int(found)


def extents(
    shape: tuple[int, ...], chunks: Sequence[int], most: int, order: Sequence[int]
) -> list[int]:
    """Return the extents of boxes of at most `most` elements, one at least.

    Parameters
    ----------
    chunks : sequence of int
        The storage's chunks: boxes are whole ones where they fit.
    order : sequence of int
        The axes, the first to be extended first; an axis may occur again with less room.
    """
    made = [1] * len(shape)
    for axis in reversed(range(len(shape))):
        room = most // math.prod(made[axis + 1 :])
        made[axis] = max(1, min(shape[axis], chunks[axis], room))
    for axis in order:
        room = most // max(1, math.prod(made) // made[axis])
        wanted = min(shape[axis], room)
        if wanted < shape[axis]:
            wanted -= wanted % made[axis]
        made[axis] = max(made[axis], wanted)
    return made


def even(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    others: tuple[int, ...],
    order: tuple[int, ...],
    most: int,
) -> list[int]:
    """Return the extents of boxes that are long in the last axes of both arrays."""
    if not shape:
        return []
    ends = dict.fromkeys((len(shape) - 1, order[-1]))  # one axis if the last one stays
    made = [1] * len(shape)
    for k, axis in enumerate(order):
        made[axis] = min(shape[axis], math.lcm(chunks[axis], others[k]))
    if math.prod(made) > most:  # no whole chunks fit
        made = [1] * len(shape)
    grows = True
    while grows:
        grows = False
        for axis in ends:
            if made[axis] < shape[axis] and 2 * math.prod(made) <= most:
                made[axis] *= 2
                grows = True
    made = [min(n, size) for n, size in zip(shape, made, strict=True)]
    rest = [axis for axis in (*ends, *reversed(range(len(shape)))) if made[axis] < shape[axis]]
    return extents(shape, made, most, rest)


def split(shape: tuple[int, ...], extent: Sequence[int], order: Sequence[int]) -> Iterator[Box]:
    """Yield the boxes of an array; the last axis in `order` runs fastest."""
    counts = [range(0, shape[axis], extent[axis]) for axis in order]
    for starts in product(*counts):
        box = [slice(0)] * len(shape)
        for axis, start in zip(order, starts, strict=True):
            box[axis] = slice(start, min(start + extent[axis], shape[axis]))
        yield tuple(box)


def count(shape: tuple[int, ...], extent: Sequence[int]) -> int:
    """Return the number of boxes."""
    return math.prod(-(-n // size) for n, size in zip(shape, extent, strict=True))


def ahead(
    read: Callable[[Any], Any],
    tasks: Iterator[Any],
    total: int,
    progress: Progress | None,
    text: str,
) -> Iterator[tuple[Any, Any]]:
    """Yield (task, what `read` returns for it); a thread reads the next one meanwhile."""
    pool = ThreadPoolExecutor(1, "gpuopt-reader")
    try:
        coming = [(task, pool.submit(read, task)) for task in islice(tasks, 1)]
        done = 0
        while coming:
            task, future = coming.pop()
            block = future.result()
            coming = [(each, pool.submit(read, each)) for each in islice(tasks, 1)]
            if progress is not None:
                progress(text, done / total)
            yield task, block
            done += 1
            del block, future
        if progress is not None:
            progress(text, 1.0)
    finally:
        pool.shutdown(cancel_futures=True)


def store(
    function: Callable[..., Any], target: Any, box: Box, dtype: np.dtype, *given: Any, **how: Any
) -> None:
    """Store a call's results in a box of an array, in place where its memory allows that."""
    place = target[box] if isinstance(target, np.ndarray) and target.dtype == dtype else None
    if place is not None and place.ndim and place.flags.c_contiguous and place.flags.aligned:
        function(*given, **how, out=place)
    else:
        target[box] = function(*given, **how)


class StoredArray:
    """An array in a file, read box by box.

    A mapped file's boxes are views of the mapping: the reading thread asks the kernel for their
    pages, and `release` unmaps them again.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(int(n) for n in array.shape)
        self.dtype = np.dtype(array.dtype)
        self.chunks = chunks_of(array)
        self._mapping = mapping_of(array) if isinstance(array, np.ndarray) else None

    def read(self, box: Box) -> np.ndarray:
        """Return the elements of a box."""
        found = self.array[box]
        self._advise(found, mmap.MADV_WILLNEED)
        return np.asarray(found)

    def release(self, block: np.ndarray) -> None:
        """Unmap the pages of a box that has been used; the page cache keeps them."""
        self._advise(block, mmap.MADV_DONTNEED)

    def _advise(self, block: np.ndarray, advice: int) -> None:
        if self._mapping is None or not block.size:
            return
        if not block.flags.c_contiguous:
            return
        # Whole pages only: those at the ends belong to other boxes, too.
        mapping, address = self._mapping
        first = block.__array_interface__["data"][0] - address
        begin = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
        size = (first + block.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - begin
        if size > 0:
            mapping.madvise(advice, begin, size)


def mapping_of(array: np.ndarray) -> tuple[mmap.mmap, int] | None:
    """Return the file mapping below a NumPy array, and its address; None for a private one."""
    if getattr(array, "mode", "c") == "c":  # a private page would lose its changes
        return None
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, mmap.mmap):
        return None
    return base, np.frombuffer(base, np.uint8).__array_interface__["data"][0]


def chunks_of(array: Any) -> tuple[int, ...]:
    """Return the storage's chunks; elements where there are none."""
    chunks = getattr(array, "chunks", None)
    plain = isinstance(chunks, tuple) and len(chunks) == len(array.shape)
    if not plain or not all(isinstance(n, (int, np.integer)) and n > 0 for n in chunks):
        return (1,) * len(array.shape)
    shards = getattr(array, "shards", None)  # Zarr's files hold several chunks
    return tuple(int(n) for n in (shards or chunks))
