"""The families whose result is an array: transpose, stencil1d, add, saxpy, matmul."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpuopt import _arrays as arrays
from gpuopt import _core, _direct
from gpuopt import _device_arrays as device_arrays
from gpuopt._arrays import Problem
from gpuopt._axis import AxisError
from gpuopt._dtypes import is_bfloat16

# What the transpose moves an item as, by its bytes.
WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}

# Variants that turn square matrices where they are, beside rung 7.
IN_PLACE = (None, "serial", "openmp", "simd")

# As stencil1d.cu numbers them. "valid" reads nothing beyond the ends, so any will do for it.
MODES = {"constant": 0, "nearest": 1, "reflect": 2, "mirror": 3, "wrap": 4, "valid": 1}
NUMBERS = ("int32", "int64", "float32", "float64")
FLOATS = ("float32", "float64")


def _native(array: np.ndarray, name: str, dtypes: tuple[str, ...]) -> np.dtype:
    """Return the array's dtype in native byte order; it must be one of some."""
    dtype = array.dtype.newbyteorder("=")
    if dtype.name not in dtypes or dtype.kind not in "if":
        raise TypeError(
            f"{name}: dtype {array.dtype} is not supported; use {', '.join(dtypes)} "
            f"({name}.astype(...))"
        )
    return np.dtype(dtype.name)  # not the other of two C types with the same size


def _names_rung(variant: object, number: int, name: str) -> bool:
    """Tell whether `variant` means a rung; what is no variant at all is found out later."""
    try:
        return variant == name if isinstance(variant, str) else operator.index(variant) == number
    except TypeError:
        return False


def permutation(axes: Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return `axes` as numbers from 0 on, each of them once; None reverses."""
    if axes is None:
        return tuple(range(ndim))[::-1]
    try:
        numbers = tuple(map(operator.index, axes))
    except TypeError:
        raise TypeError(f"axes: must be a sequence of integers, not {axes!r}") from None
    for number in numbers:
        if not -ndim <= number < ndim:
            raise AxisError(number, ndim, "axes")
    order = tuple(number % ndim for number in numbers)
    if len(order) != ndim or len(set(order)) != ndim:
        raise ValueError(
            f"axes: {numbers} must name each of the {ndim} axes of a once; leave it out to "
            "reverse them"
        )
    return order


def transpose_problem(
    a: np.ndarray, axes: Sequence[int] | None = None, *, copy: bool = False
) -> Problem:
    """Describe a transpose, or the copy that is its ceiling."""
    order = permutation(axes, a.ndim)
    # Items with references, and those of dtypes from elsewhere, are more than their bytes.
    if (
        a.dtype.hasobject
        or a.dtype.char == "T"
        or not (a.dtype.isbuiltin in (0, 1) or is_bfloat16(a.dtype))
    ):
        raise TypeError(f"a: dtype {a.dtype} is not supported: its items are more than their bytes")
    word = WORDS.get(a.dtype.itemsize)
    if word is None:
        raise TypeError(
            f"a: dtype {a.dtype} has items of {a.dtype.itemsize} bytes; "
            "1, 2, 4, 8 and 16 are supported"
        )
    run = np.require(a, requirements=["C_CONTIGUOUS"])
    run = np.require(run.view(word), requirements=["ALIGNED"])
    shape = a.shape if copy else tuple(a.shape[axis] for axis in order)
    numbers = (a.ndim, *a.shape, *order)
    return Problem("transpose", "move", word, word, (run,), shape, run.dtype, numbers)


def _transpose_of(a: np.ndarray, axes: Sequence[int] | None, copy: bool) -> Problem:
    return transpose_problem(a, axes, copy=copy)


def _turns_in_place(numbers: tuple[int, ...], variant: int | str | None) -> bool:
    """Tell whether a rung can turn an array where it is: square matrices, one after the other."""
    ndim, rest = numbers[0], numbers[1:]
    shape, order = rest[:ndim], rest[ndim:]
    straight = tuple(range(ndim))
    return (
        ndim >= 2
        and order == (*straight[:-2], ndim - 1, ndim - 2)
        and shape[-1] == shape[-2]
        and (variant in IN_PLACE or _names_rung(variant, 7, "vector"))
    )


def transpose(
    a: ArrayLike,
    axes: Sequence[int] | None = None,
    *,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Permute an array's axes in memory, on a rung of the transpose ladder.

    Parameters
    ----------
    a : array_like
        Any shape, layout and byte order; any dtype with items of 1, 2, 4, 8 or 16 bytes (also
        datetime, text and structured ones) that holds no Python objects. Or an array on a device
        (one that is not in C order is made so by a kernel there): the result is one there, of the
        same library (see `gpuopt.reduce`), and nobody waits.
    axes : sequence of int, optional
        Which axis of `a` each axis of the result is, as in `numpy.transpose`; negative ones count
        from the last. Default: the axes reversed.
    variant : int or str, optional
        The rung, by the deck's number or by name: 1 "1d", 2 "2d", 3 "tex", 4 "shared", 5 "padded",
        6 "multi" and 7 "vector" are CUDA kernels, "serial", "openmp" and "simd" run on the cpu.
        1 to 6 turn matrices, and batches of matrices; the others take any axes. 0 "copy" is the
        ladder's ceiling: it moves as many bytes and transposes nothing. Default: the best for the
        device.
    out : ndarray, optional
        Of the result's shape; receives the result and is returned. It may overlap `a`. Where it is
        `a`, and square matrices are turned (the last two axes swapped), they are turned in place by
        rung 7 and those of the cpu, without memory for a second array.
    block : int, optional
        Threads a block, a power of two; which ones, `gpuopt.rungs` tells.
    device : str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray
        In C order, of a's dtype: what ``numpy.transpose(a, axes).copy()`` gives. Of rung 0, a copy.

    Raises
    ------
    TypeError
        A dtype whose items are of another size or hold objects; `axes` that are no integers; masked
        arrays; an `out` of a dtype that cannot take a's.
    ValueError
        `axes` with one axis twice or missing; `out` has another shape or is read-only; an unknown
        variant, block or device; axes that a variant does not take.
    numpy.exceptions.AxisError
        An axis that `a` has not (a ValueError, too).
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Axes that stay neighbours count as one. What is left is, for rung 7, one of: a batch of
    matrices, turned tile by tile; rows of up to 16 bytes, which are turned as items are; and for
    longer rows, and matrices that are too small or narrow for tiles, tiles over as many axes as
    make runs of memory on both sides.

    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), the transpose ladder; for any
    axes, A. Hynninen and D. Lyakh, "cuTT: A High-Performance Tensor Transpose Library for CUDA
    Compatible GPUs", 2017.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.transpose([[1, 2, 3], [4, 5, 6]], device="cpu")
    array([[1, 4],
           [2, 5],
           [3, 6]])
    >>> pictures = np.zeros((10, 48, 64, 3), np.uint8)
    >>> gpuopt.transpose(pictures, (0, 3, 1, 2), device="cpu").shape
    (10, 3, 48, 64)
    """
    direct = _direct.transpose(a, axes, out, (variant, block, device))
    if direct is not None:
        return direct
    copy = _names_rung(variant, 0, "copy")
    views = device_arrays.inputs(device, a=a)
    if views:
        call = device_arrays.described(_transpose_of, views, axes, copy)
        in_place = out is not None and _turns_in_place(call.numbers, variant)
        return device_arrays.run(
            call, views, variant, block, out, dtype=views["a"].dtype, in_place=in_place
        )
    a = arrays.array_in(a, "a")
    problem = transpose_problem(a, axes, copy=copy)
    if out is None:
        result = np.empty(problem.shape, a.dtype)
        arrays.run(problem, variant, block, device, result.view(problem.dtype))
        return result
    arrays.check_out(out, problem.shape, a.dtype)
    (run,) = problem.inputs
    moved = out.flags.c_contiguous and out.dtype == a.dtype and out.ctypes.data == run.ctypes.data
    if moved and run.size and _turns_in_place(problem.numbers, variant):
        _core.call(problem.on(out.view(problem.dtype)), variant, block, device)
        return out
    in_place = arrays.takes_in_place(out, a.dtype, problem.inputs)
    if in_place and out.view(problem.dtype).flags.aligned:
        arrays.run(problem, variant, block, device, out.view(problem.dtype))
    else:
        result = arrays.run(problem, variant, block, device)
        np.copyto(out, result.view(a.dtype), casting="same_kind")
    return out


def _stencil_weights(weights: ArrayLike | None, radius: int) -> tuple[np.ndarray | None, int]:
    """Check `weights` and `radius`; return both: weights, where given, have the radius."""
    try:
        radius = operator.index(radius)
    except TypeError:
        raise TypeError(f"radius: must be an integer, not {radius!r}") from None
    if radius < 0:
        raise ValueError(f"radius: must not be negative, as {radius} is")
    if weights is None:
        return None, radius
    weights = arrays.array_in(weights, "weights")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights: must be real numbers, not {weights.dtype}")
    if weights.ndim != 1 or weights.size % 2 == 0:
        raise ValueError(
            f"weights: must be 2 * radius + 1 of them in one dimension, an odd number; "
            f"their shape is {weights.shape}"
        )
    if radius not in (3, weights.size // 2):
        raise ValueError(
            f"radius: is {radius}, but {weights.size} weights have a radius of "
            f"{weights.size // 2}; leave radius out"
        )
    return weights, weights.size // 2


def stencil1d_problem(
    a: np.ndarray,
    radius: int = 3,
    weights: ArrayLike | None = None,
    mode: str = "constant",
    cval: float = 0,
) -> Problem:
    """Describe a stencil along the last axis."""
    dtype = _native(a, "a", NUMBERS)
    weights, radius = _stencil_weights(weights, radius)
    if not isinstance(mode, str):
        raise TypeError(f"mode: must be a string, not {mode!r}")
    if mode not in MODES:
        raise ValueError(f"mode: {mode!r} is not a mode; use one of {', '.join(map(repr, MODES))}")
    if not isinstance(cval, (int, float, np.integer, np.floating, np.bool_)):
        raise TypeError(f"cval: must be a real number, not {cval!r}")
    # Integers stay integers while everything is one; else float64, as SciPy has it.
    accumulator = given = dtype
    if dtype.kind == "i":
        if not (math.isfinite(cval) and (weights is None or np.isfinite(weights).all())):
            raise ValueError("weights, cval: must be finite where a has integers")
        limits = np.iinfo(dtype)
        whole = int(cval) == cval and limits.min <= cval <= limits.max
        if not whole or (weights is not None and weights.dtype.kind == "f"):
            accumulator = given = np.dtype(np.float64)
    else:
        given = np.dtype(np.float64)
    op = "sum" if weights is None else "weighted"
    weights = np.empty(0, given) if weights is None else weights.astype(given, casting="unsafe")
    beyond = arrays.bits(int(cval) if given.kind == "i" else cval, given)
    outputs, numbers = stencil1d_numbers(a.shape, radius, mode, beyond)
    return Problem(
        "stencil1d",
        op,
        dtype.name,
        accumulator.name,
        (arrays.contiguous(a, dtype), np.ascontiguousarray(weights)),
        (*a.shape[:-1], outputs),
        dtype,
        numbers,
    )


def stencil1d_numbers(
    shape: tuple[int, ...], radius: int, mode: str, beyond: int
) -> tuple[int, tuple[int, ...]]:
    """Return a row's outputs, and the family's numbers; `beyond` is cval, by its bits."""
    *others, n = shape
    valid = mode == "valid"
    outputs = max(0, n - 2 * radius) if valid else n
    first = radius if valid else 0
    return outputs, (n, outputs, first, radius, MODES[mode], beyond, math.prod(others))


def _axis(axis: int, ndim: int) -> int:
    """Return the axis, from 0."""
    if ndim == 0:
        raise ValueError("a: must have at least 1 dimension, not 0; pass numpy.atleast_1d(a)")
    try:
        number = operator.index(axis)
    except TypeError:
        raise TypeError(f"axis: must be an integer, not {axis!r}") from None
    if not -ndim <= number < ndim:
        raise AxisError(number, ndim, "axis")
    return number % ndim


def stencil1d(
    a: ArrayLike,
    radius: int = 3,
    *,
    weights: ArrayLike | None = None,
    mode: str = "constant",
    cval: float = 0,
    axis: int = -1,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Add up every item's neighbourhood, on a rung of the stencil ladder.

    Output i is the sum of the inputs from i - radius to i + radius, each times its weight. Of an
    array with more dimensions every row along `axis` is a stencil of its own.

    Parameters
    ----------
    a : array_like, shape (..., N)
        int32, int64, float32 or float64, of any layout and byte order, with any number of
        dimensions from 1 on. Or an array on a device (copied there by a kernel if it has gaps): the
        result is one there, of the same library, and nobody waits.
    radius : int
        Neighbours on each side; it may be larger than the array.
    weights : array_like, shape (2 * radius + 1,), optional
        Real numbers, from the leftmost neighbour's to the rightmost's; the radius follows from
        them. Default: all 1.
    mode : {"constant", "nearest", "reflect", "mirror", "wrap", "valid"}
        What lies beyond the ends, as in `scipy.ndimage`: `cval`; the last item; the items mirrored
        about the edge of the last; mirrored about the last's middle; the array again. "valid": no
        output whose neighbourhood is not inside, so N - 2 * radius of them.
    cval : float
        The constant of that mode.
    axis : int
        Along which the stencil lies. The last is the fast one: another is moved there first and
        back after, which copies the array twice.
    variant : int or str, optional
        The rung, by number or by name: 1 "global", 2 "shared", 3 "registers", 4 "vector" and
        5 "shared-sums" are CUDA kernels, "serial", "openmp" and "simd" run on the cpu.
        "2-historical", the deck's data race, only if named. Default: the best for the device.
    out : ndarray, optional
        Receives the result and is returned. It may overlap `a`.
    block : int, optional
        Threads a block, a power of two from 32 to 1024.
    device : str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray
        Of a's dtype and shape; for "valid" the axis has max(0, N - 2 * radius) items.

    Raises
    ------
    TypeError
        Another dtype; a radius or an axis that is no integer; masked arrays; an `out` of a dtype
        that cannot take the result.
    ValueError
        `a` has no dimension; a negative radius; an even number of weights; an unknown mode,
        variant, block or device; `out` has another shape or is read-only.
    AxisError
        `a` has no such axis (NumPy's; a ValueError and an IndexError).
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    An output is added up from its own 2 * radius + 1 inputs: a NaN or a spike reaches no other
    output, unlike in a running sum. Integers with integer weights wrap; with other weights they are
    weighted in float64 and cut off towards zero, as SciPy does. float32 is added up in float64 by
    the cpu and from rung 3 on, and in float32 by rungs 1 and 2, as in the deck: there the error is
    at most (2 * radius + 2) * 2^-24 * sum(abs(weights * inputs)).

    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), the 1-D stencil.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.stencil1d([1, 2, 3, 4, 5], 1, device="cpu")
    array([ 3,  6,  9, 12,  9])
    >>> gpuopt.stencil1d([1.0, 2.0, 4.0], weights=[1, 0, -1], mode="nearest", device="cpu")
    array([-1., -3., -2.])
    >>> gpuopt.stencil1d([[1, 2, 3], [10, 20, 30]], 1, device="cpu")
    array([[ 3,  6,  5],
           [30, 60, 50]])
    """
    if weights is None:
        direct = _direct.stencil1d(a, radius, mode, cval, axis, out, (variant, block, device))
        if direct is not None:
            return direct
    views = device_arrays.inputs(device, a=a)
    if views:
        ndim = len(views["a"].shape)
        axis = _axis(axis, ndim)
        if axis != ndim - 1:
            there = (*range(axis), *range(axis + 1, ndim), axis)
            back = (*range(axis), ndim - 1, *range(axis, ndim - 1))
            moved = stencil1d(
                transpose(a, there, device=device), radius, weights=weights, mode=mode, cval=cval,
                variant=variant, block=block,
            )  # fmt: skip
            return transpose(moved, back, out=out)
        call = device_arrays.described(stencil1d_problem, views, radius, weights, mode, cval)
        return device_arrays.run(call, views, variant, block, out)
    a = arrays.array_in(a, "a")
    axis = _axis(axis, a.ndim)
    if out is not None and isinstance(out, np.ndarray) and out.ndim == a.ndim:
        moved_out = np.moveaxis(out, axis, -1)
    else:
        moved_out = out
    problem = stencil1d_problem(np.moveaxis(a, axis, -1), radius, weights, mode, cval)
    result = arrays.run(problem, variant, block, device, moved_out)
    if out is not None:
        return out
    return np.ascontiguousarray(np.moveaxis(result, -1, axis))


def _common(
    values: tuple[tuple[str, object], ...], dtypes: tuple[str, ...]
) -> tuple[np.dtype, list[np.ndarray]]:
    """Return the dtype in which NumPy would combine some arguments, and them as arrays."""
    found = [arrays.array_in(value, name) for name, value in values]
    for each, (name, _) in zip(found, values, strict=True):
        if each.dtype.kind not in "biuf":
            raise TypeError(f"{name}: dtype {each.dtype} is not supported; use {', '.join(dtypes)}")
    # A Python number has no dtype of its own to bring in.
    weak = [
        value if type(value) in (int, float) else each.dtype
        for each, (_, value) in zip(found, values, strict=True)
    ]
    dtype = np.result_type(*weak).newbyteorder("=")
    if dtype.name not in dtypes:
        raise TypeError(
            f"{', '.join(name for name, _ in values)}: their common dtype {dtype} is not "
            f"supported; use {', '.join(dtypes)}"
        )
    return np.dtype(dtype.name), found


def _vector_problem(
    family: str, a: float, x: np.ndarray, y: np.ndarray, dtype: np.dtype
) -> Problem:
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise ValueError(
            f"x, y: operands could not be broadcast together with shapes {x.shape} {y.shape}"
        ) from None
    inputs = tuple(arrays.contiguous(np.broadcast_to(each, shape), dtype) for each in (x, y))
    numbers = (inputs[0].size, arrays.bits(a, dtype))
    return Problem(family, family, dtype.name, dtype.name, inputs, shape, dtype, numbers)


def _check_alike(views: dict[str, device_arrays.View]) -> None:
    """Raise where two vectors on a device cannot be combined as they are."""
    device_arrays.alike(views)
    x, y = views.values()
    if x.shape != y.shape:
        raise ValueError(
            f"x, y: have shapes {x.shape} and {y.shape}; on a device they must be the same"
        )


def add_problem(x: ArrayLike, y: ArrayLike) -> Problem:
    """Describe a sum of vectors."""
    dtype, (x, y) = _common((("x", x), ("y", y)), NUMBERS)
    return _vector_problem("add", 0, x, y, dtype)


def saxpy_problem(a: float, x: ArrayLike, y: ArrayLike) -> Problem:
    """Describe a * x + y."""
    dtype, (factor, x, y) = _common((("a", a), ("x", x), ("y", y)), FLOATS)
    if factor.ndim:
        raise ValueError(f"a: must be a number, not an array of shape {factor.shape}")
    return _vector_problem("saxpy", factor[()], x, y, dtype)


def _saxpy_of(x: np.ndarray, y: np.ndarray) -> Problem:
    return saxpy_problem(0.0, x, y)


def _saxpy_by(x: np.ndarray, y: np.ndarray, a: object) -> Problem:
    """Describe a * x + y on a device, where nothing is converted."""
    dtype, _ = _common((("a", a), ("x", x), ("y", y)), FLOATS)
    if dtype != x.dtype:
        raise TypeError(f"a: makes the result {dtype}, but x and y are {x.dtype}; pass float(a)")
    return saxpy_problem(a, x, y)


def add(
    x: ArrayLike,
    y: ArrayLike,
    *,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Add two arrays, on a rung of the first ladder of them all.

    Parameters
    ----------
    x, y : array_like
        Of shapes that broadcast together; their common dtype must be int32, int64, float32 or
        float64. Or both on a device, of one shape and dtype (one that is not in C order is made
        so by a kernel there): the result is one there, of x's library, and nobody waits.
    variant : int or str, optional
        The rung, by number or by name: 1 "one-thread", 2 "blocks" (of one thread), 3 "threads" (of
        one block: at most 1,024 items), 4 "blocks-threads" (a multiple of the block), 5 "bounds",
        6 "grid-stride" and 7 "vector" are CUDA kernels, "serial", "openmp" and "simd" run on the
        cpu. Default: the best for the device.
    out : ndarray, optional
        Receives the result and is returned. It may overlap `x` and `y`.
    block : int, optional
        Threads a block, a power of two from 32 to 1024, of rungs 4 to 7. Default: the deck's 512;
        of rung 7, 128.
    device : str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray
        x + y, bit for bit as NumPy's; integers wrap.

    Raises
    ------
    TypeError
        Another dtype; masked arrays; an `out` of a dtype that cannot take the result.
    ValueError
        Shapes that do not broadcast; more items than the rung takes; `out` has another shape or is
        read-only; an unknown variant, block or device.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Rung 7 moves 16 bytes an instruction where x, y and the result all begin at the same distance
    from a multiple of 16 bytes, and single items, as many at once, where they do not. More bytes
    than the GPU's last cache holds go past it.

    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), vector addition; rung 7's
    loads of float4, deck D2 (CUDA Deep Dive, Georgia Tech 2013).

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.add([1, 2, 3], [10, 20, 30], device="cpu")
    array([11, 22, 33])
    """
    direct = _direct.vectors("add", 0, x, y, out, (variant, block, device))
    if direct is not None:
        return direct
    views = device_arrays.inputs(device, x=x, y=y)
    if views:
        _check_alike(views)
        call = device_arrays.described(add_problem, views)
        return device_arrays.run(call, views, variant, block, out, in_place=True)
    return arrays.run(add_problem(x, y), variant, block, device, out)


def saxpy(
    a: float,
    x: ArrayLike,
    y: ArrayLike,
    *,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Return a * x + y, on the rungs of `gpuopt.add`.

    Parameters
    ----------
    a : float
        The factor. A NumPy scalar brings in its dtype, a Python number none.
    x, y : array_like
        Of shapes that broadcast together; the common dtype must be float32 or float64. Or arrays on
        a device, as for `gpuopt.add`.
    variant, block, device
        As `gpuopt.add`.
    out : ndarray, optional
        Receives the result and is returned; ``out=y`` updates y, as BLAS does.

    Returns
    -------
    ndarray
        Rounded twice on the cpu, as NumPy does; once on a GPU, which fuses the two operations.

    Raises
    ------
    OverflowError
        An integer `a` that no float64 holds.
    TypeError, ValueError, DeviceMemoryError, DeviceError
        As `gpuopt.add`.

    Notes
    -----
    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), saxpy.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.saxpy(2, [1.0, 2.0], [0.5, 0.25], device="cpu")
    array([2.5 , 4.25])
    """
    if type(a) is int and a.bit_length() > 63:  # NumPy has no integer of this size
        try:
            a = float(a)
        except OverflowError:
            raise OverflowError("a: is too large for float64") from None
    direct = _direct.vectors("saxpy", a, x, y, out, (variant, block, device))
    if direct is not None:
        return direct
    views = device_arrays.inputs(device, x=x, y=y)
    if views:
        _check_alike(views)
        if type(a) in (int, float):
            call = device_arrays.described(_saxpy_of, views)
            size, _ = call.numbers
            call = call._replace(numbers=(size, arrays.bits(a, call.dtype)))
        else:
            call = device_arrays.described(_saxpy_by, views, a)
        return device_arrays.run(call, views, variant, block, out, in_place=True)
    return arrays.run(saxpy_problem(a, x, y), variant, block, device, out)


def matmul_problem(a: ArrayLike, b: ArrayLike) -> Problem:
    """Describe a matrix product."""
    dtype, (a, b) = _common((("a", a), ("b", b)), FLOATS)
    for name, each in (("a", a), ("b", b)):
        if each.ndim != 2:
            raise ValueError(f"{name}: must have 2 dimensions, not {each.ndim}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"b: must have as many rows as a has columns: shapes {a.shape} and {b.shape}"
        )
    inputs = (arrays.contiguous(a, dtype), arrays.contiguous(b, dtype))
    shape = (a.shape[0], b.shape[1])
    numbers = (*shape, a.shape[1])
    return Problem("matmul", "matmul", dtype.name, dtype.name, inputs, shape, dtype, numbers)


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Multiply two matrices, on a rung of the matrix product ladder.

    Parameters
    ----------
    a : array_like, shape (M, K)
    b : array_like, shape (K, N)
        Any layout (one that is not in C order is copied); their common dtype must be float32 or
        float64. Or both on a device, of one dtype (one that is not in C order is made so by a
        kernel there): the result is one there, of a's library, and nobody waits.
    variant : int or str, optional
        The rung, by number or by name: 1 "naive", 2 "shared", 3 "2-targets", 4 "4-targets",
        5 "8-targets", 6 "2d-targets", 7 "words", 8 "async", 9 "warp-tiles" and 10 "tuned" are CUDA
        kernels, "serial", "openmp" and "simd" run on the cpu. Default: the best for the device,
        which is the highest that its shared memory holds.
    out : ndarray, shape (M, N), optional
        Receives the result and is returned. It may overlap `a` and `b`.
    device : str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray, shape (M, N)
        In C order.

    Raises
    ------
    TypeError
        Another dtype; masked arrays; an `out` of a dtype that cannot take the result.
    ValueError
        Not two dimensions; shapes that do not fit; `out` has another shape or is read-only; an
        unknown variant or device.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    With u the unit roundoff of the dtype, the error of an item is at most about K * u * (abs(a) @
    abs(b)) on a GPU, in true float32 or float64 arithmetic, the same bits in every run. The cpu
    adds up in float64, float32 too: at most half the rate of a BLAS that does not.

    Source: deck D2 (CUDA Deep Dive: Performance, Georgia Tech 2013), the matmul ladder; from rung 6
    on, NVIDIA's CUTLASS, "Efficient GEMM in CUDA".

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.matmul([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]], device="cpu")
    array([[2., 1.],
           [4., 3.]])
    """
    direct = _direct.matmul(a, b, out, (variant, None, device))
    if direct is not None:
        return direct
    views = device_arrays.inputs(device, a=a, b=b)
    if views:
        device_arrays.alike(views)
        call = device_arrays.described(matmul_problem, views)
        return device_arrays.run(call, views, variant, None, out)
    return arrays.run(matmul_problem(a, b), variant, None, device, out)
