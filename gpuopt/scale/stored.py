"""Reductions, transposes and stencils of stored arrays, in bounded memory.

A stored array is anything with `shape`, `dtype` and slicing: numpy.memmap, HDF5, Zarr. A block of
it is read while the block before is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuopt.catalog.devices import device_name
from gpuopt.families.transpose import permutation, transpose, transpose_problem
from gpuopt.scale.boxes import (
    BLOCK_MOST,
    StoredArray,
    ahead,
    bytes_of,
    chunks_of,
    count,
    even,
    extents,
    split,
    store,
)
from gpuopt.scale.halo import BoxedStencil
from gpuopt.scale.partials import Part, Reduction
from gpuopt.scale.threads import overlapped

_WIDEST = 8  # bytes of an element of a part


def serve(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a call on a stored array."""
    for name in options:
        if name not in ("memory_limit", "progress"):
            raise ValueError(f"{name}: is not for arrays in files; leave it out")
    device = arguments["device"]
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device: must be a string for arrays in files, not {device!r}")
    progress = options.get("progress")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress: must be a function of a text and a share, not {progress!r}")
    limit = bytes_of(options.get("memory_limit"))
    return _FAMILIES[family](**arguments, limit=limit, progress=progress)


def _checked(array: Any, name: str) -> StoredArray:
    source = StoredArray(array)
    if source.dtype.hasobject:
        raise TypeError(
            f"{name}: dtype {source.dtype} is not supported: its elements are Python objects"
        )
    return source


def _block_most(device: str | None) -> int:
    """Return the bytes of a block at most: a GPU's copies take time to get going."""
    return (4 if device_name(device, "cpu").startswith("cuda") else 1) * BLOCK_MOST


def target_of(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return the array for the results: a new one, or `out` after a check."""
    if out is None:
        return np.empty(shape, dtype)
    if not all(hasattr(out, name) for name in ("shape", "dtype", "__setitem__")):
        raise TypeError(f"out: must have shape, dtype and assignment to slices, not {type(out)!r}")
    if tuple(out.shape) != shape:
        raise ValueError(f"out: has shape {tuple(out.shape)}, but the result has {shape}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out: output array is read-only")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(
            f"out: cannot cast the result from {dtype} to {out.dtype} with casting rule 'same_kind'"
        )
    return out


def _apart(out: Any, source: StoredArray, name: str) -> None:
    """Raise if `out` is in the same mapped file or dataset as the input."""
    one = source.array
    arrays = isinstance(out, np.ndarray) and isinstance(one, np.ndarray)
    same = np.may_share_memory(out, one) if arrays else out is one or _file(out) == _file(one)
    if same and out is not None:
        raise ValueError(f"out: shares memory with {name}; pass another array")


def _file(array: Any) -> Any:
    """Return what identifies a stored array: its file and name; else the object."""
    file, name = getattr(array, "file", None), getattr(array, "name", None)
    return (getattr(file, "filename", id(array)), name) if file is not None else id(array)


def reduce(
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    out: Any,
    initial: Any,
    block: Any,
    device: Any,
    limit: int,
    progress: Any,
) -> Any:
    """Reduce a stored array block by block, in the order of the file."""
    source = _checked(array, "array")
    how = {"variant": variant, "device": device, "block": block}
    if isinstance(block, tuple):  # as `gpuopt.reduce` passes both
        how["block"], how["blocks"] = block
    shape = source.shape
    planned = Reduction.of(shape, source.dtype, op, axis, bool(keepdims), dtype, initial, how)
    kept = [k for k in range(len(shape)) if k not in planned.axes]
    order = [*kept, *planned.axes]  # all blocks of a result in succession
    most = min(limit // 8, _block_most(device)) // max(_WIDEST, source.dtype.itemsize)
    size = extents(shape, source.chunks, max(1, most), [*reversed(range(len(shape)))])
    result = planned.squeezed(planned.kept_shape)
    target = target_of(out, result, planned.result)
    last = [shape[k] for k in planned.axes]
    found = Part(None)
    if not all(last):
        values = planned.finish(found)
        target[...] = values
    blocks = ahead(
        source.read, split(shape, size, order), count(shape, size), progress, f"reading for {op}"
    )
    for box, read in blocks:
        part = planned.part(read, [each.start for each in box])
        source.release(read)
        found = planned.join((found, part))
        if [box[k].stop for k in planned.axes] == last:
            there = tuple(
                slice(None) if k in planned.axes else box[k]
                for k in range(len(shape))
                if planned.keepdims or k not in planned.axes
            )
            target[there] = planned.finish(found)
            found = Part(None)
    return target if out is not None or target.ndim else target[()]


def _transpose(
    a: Any, axes: Any, variant: Any, out: Any, block: Any, device: Any, limit: int, progress: Any
) -> Any:
    """Transpose from file to file, in boxes with long rows on both sides."""
    source = _checked(a, "a")
    order = permutation(axes, len(source.shape))
    transpose_problem(np.empty((1,) * len(order), source.dtype), order)
    shape = tuple(source.shape[k] for k in order)
    target = target_of(out, shape, source.dtype)
    _apart(out, source, "a")
    how = {"variant": variant, "block": block, "device": device}
    most = max(1, min(limit // 6, _block_most(device)) // source.dtype.itemsize)
    size = even(source.shape, source.chunks, chunks_of(target), order, most)
    boxes = split(source.shape, size, range(len(shape)))
    total = count(source.shape, size)
    for box, read in ahead(source.read, boxes, total, progress, "transposing"):
        there = tuple(box[k] for k in order)
        store(transpose, target, there, source.dtype, read, order, **how)
        source.release(read)
    return target


def _stencil1d(
    a: Any,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    origin: Any,
    variant: Any,
    out: Any,
    block: Any,
    device: Any,
    limit: int,
    progress: Any,
) -> Any:
    """Run a stencil on boxes with a halo."""
    source = _checked(a, "a")
    how = {"variant": variant, "block": block, "device": device}
    work = BoxedStencil.of(source, radius, weights, mode, cval, axis, origin, how)
    target = target_of(out, work.shape, work.dtype)
    _apart(out, source, "a")
    most = max(1, min(limit // 12, _block_most(device)) // source.dtype.itemsize)
    chunks = [*source.chunks]
    # The halo is read twice.
    chunks[work.axis] = max(
        chunks[work.axis], min(work.shape[work.axis], 4 * (work.window.width - 1))
    )
    order = range(len(work.shape))
    size = extents(work.shape, chunks, most, [*reversed(order)])
    boxes, total = split(work.shape, size, order), count(work.shape, size)
    with overlapped(device) as run:
        for _, read in ahead(work.read, boxes, total, progress, "stencil"):
            run(work.run, read, target)
    return target


_FAMILIES = {"reduce": reduce, "transpose": _transpose, "stencil1d": _stencil1d}
