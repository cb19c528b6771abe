"""The public calls on Dask arrays: lazy results, whose chunks gpuopt computes.

Nothing depends on the order in which chunks arrive: parts are joined in the order of their chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from gpuopt.arrays.inout import FLOATS, common
from gpuopt.families.axis_plan import PLACES
from gpuopt.families.matmul import matmul
from gpuopt.families.stencil1d import stencil1d, stencil1d_dtype, stencil_axis, window_of
from gpuopt.families.transpose import permutation, transpose, transpose_problem
from gpuopt.families.vectors import add, saxpy
from gpuopt.scale.halo import radius_of
from gpuopt.scale.kinds import is_dask
from gpuopt.scale.partials import PART_BYTES, Part, Reduction

KINDS = ("cpu", "cuda", "sim")


def serve(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the lazy result of a call with a Dask array."""
    for name in options:
        if name != "split_every":
            raise ValueError(f"{name}: is not for Dask arrays; Dask's scheduler decides that")
    if arguments.pop("out") is not None:
        raise ValueError(
            "out: a Dask array's result is lazy; leave it out, and write the result with "
            "dask.array.store"
        )
    device = arguments["device"]
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device: must be a string for Dask arrays, not {device!r}")
    if device is not None and (device.partition(":")[0] not in KINDS or device.endswith(":*")):
        raise ValueError(
            f"device: {device!r} is not one device of a worker; use 'cpu', 'cuda', 'cuda:1', "
            "'sim' or a preset, and one worker per GPU"
        )
    return _FAMILIES[family](**arguments, **options)


def _checked(x: Any, name: str, device: str | None) -> Any:
    """Raise for chunks that no call can use; return the array."""
    for axis, sizes in enumerate(x.chunks):
        for k, size in enumerate(sizes):
            if math.isnan(size):
                raise ValueError(
                    f"{name}: chunk {k} of axis {axis} has an unknown size; call "
                    f"{name}.compute_chunk_sizes() first"
                )
    if x.dtype.hasobject:
        raise TypeError(
            f"{name}: dtype {x.dtype} is not supported: its elements are Python objects; convert "
            f"it with {name}.astype(numpy.float64)"
        )
    library = _library(x)
    if library not in ("numpy", "cupy") or isinstance(x._meta, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: its chunks are of {type(x._meta).__module__}.{type(x._meta).__name__}; "
            f"convert them with {name}.map_blocks(numpy.asarray)"
        )
    if library == "cupy" and device is not None and device.partition(":")[0] != "cuda":
        raise ValueError(
            f"device: the chunks of {name} are CuPy's, on a GPU, not on {device}; leave device "
            f"out, or copy them with {name}.map_blocks(cupy.asnumpy)"
        )
    return x


def _library(x: Any) -> str:
    return type(x._meta).__module__.partition(".")[0]


def _operands(device: str | None, **given: Any) -> list[Any]:
    """Return operands as Dask arrays, all with chunks of one library; Python numbers stay."""
    found = []
    for name, value in given.items():
        if is_dask(value):
            found.append(_checked(value, name, device))
        elif type(value) in (int, float):
            found.append(value)
        else:
            found.append(da.asarray(value))
    arrays = [(name, x) for name, x in zip(given, found, strict=True) if is_dask(x)]
    (first, one), *others = arrays
    for name, each in others:
        if _library(each) != _library(one):
            raise ValueError(
                f"{name}: its chunks are of {_library(each)}, but those of {first} are of "
                f"{_library(one)}; convert one with .map_blocks(cupy.asarray) or "
                ".map_blocks(cupy.asnumpy)"
            )
    return found


def _meta(x: Any, ndim: int, dtype: Any) -> Any:
    """Return an empty array of x's library."""
    return np.empty_like(x._meta, shape=(0,) * ndim, dtype=dtype)


def _like(x: Any) -> Any:
    """Return one host element for x, to find out dtypes and errors."""
    return np.ones((1,) * x.ndim, x.dtype) if is_dask(x) else x


# --- reductions


def _indexed(chunk: Any, reduction: Reduction, starts: Any, block_id: Any = None) -> Part:
    return reduction.part(chunk, [starts[axis][k] for axis, k in enumerate(block_id)])


def _same(part: Part, axis: Any, keepdims: bool) -> Part:
    return part


class _Parts:
    """Reduces chunks to parts that do not depend on their position."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction

    def __call__(self, chunk: Any, axis: Any, keepdims: bool, computing_meta: bool = False) -> Any:
        return chunk if computing_meta else self.reduction.part(chunk, (0,) * chunk.ndim)


def _flat(parts: Any) -> list[Part]:
    return [each for part in parts for each in _flat(part)] if isinstance(parts, list) else [parts]


class _Joined:
    """Combines nested lists of parts, in C order of their chunks."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction

    def __call__(self, parts: Any, axis: Any, keepdims: bool) -> Any:
        return self.reduction.join(_flat(parts))


class _Finished(_Joined):
    def __call__(self, parts: Any, axis: Any, keepdims: bool) -> Any:
        return self.reduction.total(_flat(parts))


def reduce(
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    initial: Any,
    block: Any,
    device: Any,
    split_every: Any = None,
) -> Any:
    """Reduce a Dask array in a tree over its chunks."""
    x = _checked(array, "array", device)
    _check_split(split_every)
    how = {"variant": variant, "device": device}
    if isinstance(block, tuple):  # as `gpuopt.reduce` passes both
        how["block"], how["blocks"] = block
    elif block is not None:
        how["block"] = block
    planned = Reduction.of(x.shape, x.dtype, op, axis, bool(keepdims), dtype, initial, how)
    first: Any = _Parts(planned)
    if planned.op in PLACES:
        starts = [np.cumsum((0, *sizes[:-1])).tolist() for sizes in x.chunks]
        ones = tuple(
            (1,) * len(sizes) if k in planned.axes else sizes for k, sizes in enumerate(x.chunks)
        )
        x = da.map_blocks(
            _indexed, x, reduction=planned, starts=starts, chunks=ones, dtype=x.dtype, meta=x._meta
        )
        first = _same
    return da.reduction(
        x,
        first,
        _Finished(planned),
        axis=planned.axes,
        keepdims=planned.keepdims,
        dtype=planned.result,
        split_every=split_every or _split(x, planned),
        combine=_Joined(planned),
        name=f"gpuopt-{op}",
        concatenate=False,
        meta=_meta(x, len(planned.squeezed(planned.shape)), planned.result),
    )


def _check_split(split_every: Any) -> None:
    """Raise unless it is None, the parts of a join, or a mapping from axes to parts."""
    given = split_every.values() if isinstance(split_every, dict) else (split_every,)
    for each in given:
        whole = isinstance(each, (int, np.integer)) and not isinstance(each, bool)
        if split_every is not None and not (whole and each > 1):
            raise ValueError(
                "split_every: must be a number of parts, 2 or more, or a dict of them by axis, "
                f"not {split_every!r}"
            )


def _split(x: Any, planned: Reduction) -> int:
    """Return how many parts a task joins: up to 8 MiB, since a task costs Dask a millisecond."""
    sizes = (1 if k in planned.axes else max(sizes) for k, sizes in enumerate(x.chunks))
    return min(64, max(4, (8 << 20) // max(1, 2 * PART_BYTES * math.prod(sizes))))


# --- arrays of the same size


def _transpose_chunks(a: Any, axes: Any, variant: Any, block: Any, device: Any) -> Any:
    """Permute the axes of a Dask array: each chunk by a kernel, the chunks by Dask's graph."""
    x = _checked(a, "a", device)
    order = permutation(axes, x.ndim)
    transpose_problem(_like(x), order)
    return da.blockwise(
        transpose,
        order,
        x,
        tuple(range(x.ndim)),
        axes=order,
        variant=variant,
        block=block,
        device=device,
        dtype=x.dtype,
        meta=_meta(x, x.ndim, x.dtype),
    )


def _vectors(function: Callable[..., Any], dtype: np.dtype, operands: list[Any], how: Any) -> Any:
    """Apply a function to chunks of operands that broadcast."""
    try:
        ndim = len(np.broadcast_shapes(*(x.shape for x in operands if is_dask(x))))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in operands)
        raise ValueError(f"x, y: shapes {shapes} do not broadcast together") from None
    pairs: list[Any] = []
    for x in operands:
        pairs += [x, tuple(range(ndim - x.ndim, ndim)) if is_dask(x) else None]
    first = next(x for x in operands if is_dask(x))
    meta = _meta(first, ndim, dtype)
    return da.blockwise(function, tuple(range(ndim)), *pairs, dtype=dtype, meta=meta, **how)


def _add_chunks(x: Any, y: Any, variant: Any, block: Any, device: Any) -> Any:
    operands = _operands(device, x=x, y=y)
    dtype = add(*map(_like, operands), device="cpu").dtype
    return _vectors(add, dtype, operands, {"variant": variant, "block": block, "device": device})


class _Saxpy:
    """`gpuopt.saxpy` with its factor, which Dask must not take for an array."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x: Any, y: Any, **how: Any) -> Any:
        return saxpy(self.factor, x, y, **how)

    def __dask_tokenize__(self) -> Any:
        return "gpuopt.saxpy", type(self.factor).__name__, repr(self.factor)


def _saxpy_chunks(a: Any, x: Any, y: Any, variant: Any, block: Any, device: Any) -> Any:
    if is_dask(a):
        raise ValueError("a: must be a number, not a Dask array; compute it first: float(a)")
    operands = _operands(device, x=x, y=y)
    dtype = saxpy(a, *map(_like, operands), device="cpu").dtype
    how = {"variant": variant, "block": block, "device": device}
    return _vectors(_Saxpy(a), dtype, operands, how)


# --- products


def _product(a: Any, b: Any, kept: tuple[int, int], **how: Any) -> Any:
    """Return the product of two chunks, with the axis along which products are added, of size 1."""
    # A chunk that comes from another worker has lost its layout, on which a BLAS's bits depend.
    a, b = (np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in (a, b))
    found = matmul(a, b, **how)
    if not hasattr(found, "reshape"):
        found = np.asarray(found)
    rows, columns = found.shape[: kept[0]], found.shape[kept[0] :]
    return found.reshape((*rows, 1, *columns))


def _matmul_chunks(a: Any, b: Any, variant: Any, device: Any) -> Any:
    """Multiply chunk by chunk, and add up the products along K."""
    a, b = _operands(device, a=a, b=b)
    common((("a", _like(a)), ("b", _like(b))), FLOATS)
    dtype = np.result_type(a, b).newbyteorder("=")
    for name, x in (("a", a), ("b", b)):
        if not is_dask(x) or x.ndim not in (1, 2):
            raise ValueError(f"{name}: must be a matrix or a vector; multiply stacks one by one")
    if a.shape[-1] != b.shape[0]:
        raise ValueError(
            f"b: has shape {b.shape}, but a has {a.shape}: b's rows must equal a's columns"
        )
    rows, columns = (0,) * (a.ndim - 1), (2,) * (b.ndim - 1)
    products = da.blockwise(
        _product,
        (*rows, 1, *columns),
        a,
        (*rows, 1),
        b,
        (1, *columns),
        kept=(len(rows), len(columns)),
        variant=variant,
        device=device,
        adjust_chunks={1: lambda size: 1},
        dtype=dtype,
        meta=_meta(a, len(rows) + 1 + len(columns), dtype),
    )
    return reduce(products, "sum", len(rows), False, None, None, ..., None, device)


# --- stencils


def _rechunked(sizes: tuple[int, ...], least: int) -> tuple[int, ...]:
    """Return chunks of at least `least` elements, by joining small ones with their neighbours."""
    made: list[int] = []
    for size in sizes:
        if made and made[-1] < least:
            made[-1] += size
        else:
            made.append(size)
    if len(made) > 1 and made[-1] < least:
        last = made.pop()
        made[-1] += last
    return tuple(made)


def _cut(chunk: Any, axis: int, begin: int | None, end: int | None) -> Any:
    return chunk[(*(slice(None),) * axis, slice(begin, end))]


def _edge(chunk: Any, axis: int, begin: int | None, end: int | None) -> Any:
    return _cut(chunk, axis, begin, end).copy()  # not a view, which would keep the chunk


def _stencil_of(
    chunk: Any,
    left: Any,
    right: Any,
    place: Any,
    axis: int,
    radius: int,
    last: int,
    mode: str,
    how: dict[str, Any],
) -> Any:
    """Run the stencil on a chunk with its neighbours' edges; `mode` is for the array's ends.

    The chunk is not copied: the outputs near its edges are computed again with the neighbours.
    """
    before = mode == "wrap" or bool(place[0] > 0)
    after = mode == "wrap" or bool(place[0] < last)
    how = {**how, "axis": axis}
    if mode == "valid" or chunk.shape[axis] < 4 * radius:
        whole = np.concatenate([left] * before + [chunk] + [right] * after, axis)
        if mode == "valid" or (before and after):
            return stencil1d(whole, radius, mode="valid", **how)
        found = stencil1d(whole, radius, mode=mode, **how)
        return _cut(found, axis, radius * before, whole.shape[axis] - radius * after)
    found = stencil1d(chunk, radius, mode="nearest" if mode == "wrap" else mode, **how)
    for needed, parts, to in (
        (before, (left, _cut(chunk, axis, None, 2 * radius)), (None, radius)),
        (after, (_cut(chunk, axis, -2 * radius, None), right), (-radius, None)),
    ):
        if needed:
            edge = stencil1d(np.concatenate(parts, axis), radius, mode="valid", **how)
            _cut(found, axis, *to)[...] = edge
    return found


def _stencil_chunks(
    a: Any,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    origin: Any,
    variant: Any,
    block: Any,
    device: Any,
) -> Any:
    """Run a stencil on overlapping chunks; chunks shorter than the radius are joined for it."""
    x = _checked(a, "a", device)
    if is_dask(weights):
        raise ValueError("weights: must be on the host, not a Dask array; pass weights.compute()")
    axis = stencil_axis(axis, x.ndim)
    dtype = stencil1d_dtype(_like(x), radius, weights, mode, cval, origin)
    radius = radius_of(window_of(radius, weights, mode, origin), "Dask arrays")
    how = {"weights": weights, "cval": cval, "variant": variant, "block": block, "device": device}
    sizes = _rechunked(x.chunks[axis], radius)
    joined, last = x.rechunk({axis: sizes}), len(sizes) - 1
    meta = _meta(x, x.ndim, dtype)
    if not last or not radius:
        n = sum(sizes)
        made = [*joined.chunks]
        made[axis] = (max(0, n - 2 * radius),) if mode == "valid" and radius else sizes
        found = joined.map_blocks(
            stencil1d, radius, axis=axis, mode=mode, chunks=tuple(made),
            dtype=dtype, meta=meta, **how,
        )  # fmt: skip
    else:
        count = last + 1
        edges = []
        for begin, end, step in ((-radius, None, -1), (None, radius, 1)):
            thin = [*joined.chunks]
            thin[axis] = (radius,) * count
            edge = joined.map_blocks(_edge, axis, begin, end, chunks=tuple(thin), meta=meta)
            order = [(k + step) % count for k in range(count)]
            edges.append(edge.blocks[(*(slice(None),) * axis, order)])
        every = tuple(range(x.ndim))
        if mode == "valid":
            sizes = (sizes[0] - radius, *sizes[1:-1], sizes[-1] - radius)
        found = da.blockwise(
            _stencil_of, every, joined, every, edges[0], every, edges[1], every,
            da.arange(count, chunks=1), (axis,), axis=axis, radius=radius, last=last, mode=mode,
            how=how, align_arrays=False, adjust_chunks={axis: sizes}, dtype=dtype,
            meta=meta,
        )  # fmt: skip
    return found if mode == "valid" else found.rechunk({axis: x.chunks[axis]})


_FAMILIES: dict[str, Callable[..., Any]] = {
    "reduce": reduce,
    "transpose": _transpose_chunks,
    "add": _add_chunks,
    "saxpy": _saxpy_chunks,
    "matmul": _matmul_chunks,
    "stencil1d": _stencil_chunks,
}
