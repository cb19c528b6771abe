"""`gpuopt.add` and `gpuopt.saxpy`, on vectors and on arrays that broadcast."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpuopt.arrays import inout
from gpuopt.arrays.inout import FLOATS, NUMBERS, Problem
from gpuopt.arrays.libraries import View, view_of
from gpuopt.families import device_calls
from gpuopt.families.device_axes import put, spread
from gpuopt.families.host_calls import FLOAT_NAMES, NUMBER_NAMES, is_plain, run_plain
from gpuopt.util.float_state import in_default_float_state

_AXES = 8  # that the cpu walks along: DEVICE_AXES


def _once(array: np.ndarray) -> np.ndarray:
    """Return the array with its broadcast axes cut to length 1."""
    if 0 not in array.strides:
        return array
    return array[tuple(slice(None) if step else slice(1) for step in array.strides)]


def _axes(shape: tuple[int, ...], views: tuple[np.ndarray, ...]) -> list[tuple[int, ...]]:
    """Return the axes of views, the last first: size, and the views' steps in elements.

    Neighbouring axes are merged where all views allow it.
    """
    axes: list[tuple[int, ...]] = []
    strides = zip(*(each.strides for each in views), strict=True)
    for size, apart in reversed([*zip(shape, strides, strict=True)]):
        if size == 1:
            continue
        steps = tuple(step // each.itemsize for step, each in zip(apart, views, strict=True))
        if axes and steps == tuple(axes[-1][0] * step for step in axes[-1][1:]):
            axes[-1] = (axes[-1][0] * size, *axes[-1][1:])
        else:
            axes.append((size, *steps))
    return axes


def _together(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that two shapes broadcast to."""
    try:
        return np.broadcast_shapes(x, y)
    except ValueError:
        raise ValueError(
            f"x, y: operands could not be broadcast together with shapes {x} {y}"
        ) from None


def _vector_problem(
    family: str, a: float, x: np.ndarray, y: np.ndarray, dtype: np.dtype
) -> Problem:
    shape = _together(x.shape, y.shape)
    runs = [inout.contiguous(_once(each), dtype) for each in (x, y)]
    inputs = tuple(run if run.shape == shape else np.broadcast_to(run, shape) for run in runs)
    numbers = [math.prod(shape), inout.bits(a, dtype)]
    if not all(each.flags.c_contiguous for each in inputs):
        axes = _axes(shape, inputs)
        if len(axes) <= _AXES:
            numbers += [len(axes), *(number for axis in axes for number in axis)]
        else:
            inputs = tuple(np.ascontiguousarray(each) for each in inputs)
    return Problem(family, family, dtype.name, dtype.name, inputs, shape, dtype, tuple(numbers))


def _number(
    name: str, value: float, other: str, dtype: np.dtype, dtypes: tuple[str, ...]
) -> np.ndarray:
    """Return a Python number as a value of the other operand's dtype."""
    if dtype.name not in dtypes:
        raise TypeError(f"{other}: dtype {dtype} is not supported; use {', '.join(dtypes)}")
    found = np.result_type(dtype, value)
    if found != dtype:
        raise TypeError(
            f"{name}: makes the result {found}, but {other} is {dtype}, and nothing is converted "
            f"on a device; convert {other} there"
        )
    return inout.item(value, dtype, name)


def _on_device(
    dtypes: tuple[str, ...], device: str | None, **given: object
) -> dict[str, View] | None:
    """Return two arrays on a device, of one shape and dtype; None if both are on the host.

    A Python number must be second; it takes the other's dtype. An operand that broadcasts is copied
    to the full shape.
    """
    (other, array), (name, value) = given.items()
    there = view_of(array, other) if type(value) in (int, float) else None
    if there is not None:
        item = _number(name, value, other, there.dtype, dtypes)
        views = device_calls.inputs(device, **{other: array})
        views[name] = put(views[other], item)
    else:
        views = device_calls.inputs(device, **given)
    if not views:
        return None
    x, y = views.values()
    if x.dtype != y.dtype:
        device_calls.alike(views)
    if x.shape == y.shape:
        return views
    shape = _together(x.shape, y.shape)
    return {name: spread(view, shape) for name, view in views.items()}


@in_default_float_state
def add_problem(x: ArrayLike, y: ArrayLike) -> Problem:
    """Describe a sum of vectors."""
    dtype, (x, y) = inout.common((("x", x), ("y", y)), NUMBERS)
    return _vector_problem("add", 0, x, y, dtype)


@in_default_float_state
def saxpy_problem(a: float, x: ArrayLike, y: ArrayLike) -> Problem:
    """Describe a * x + y."""
    dtype, (factor, x, y) = inout.common((("a", a), ("x", x), ("y", y)), FLOATS)
    if factor.ndim:
        raise ValueError(f"a: must be a number, not an array of shape {factor.shape}")
    return _vector_problem("saxpy", factor[()], x, y, dtype)


def _saxpy_of(x: np.ndarray, y: np.ndarray) -> Problem:
    """Describe a * x + y on a device for a Python number; nothing is converted."""
    if x.dtype.name not in FLOATS:
        raise TypeError(f"x, y: dtype {x.dtype} is not supported; use {', '.join(FLOATS)}")
    return saxpy_problem(0.0, x, y)


def _saxpy_by(x: np.ndarray, y: np.ndarray, a: object) -> Problem:
    """Describe a * x + y on a device for a factor with a dtype."""
    dtype, _ = inout.common((("a", a), ("x", x), ("y", y)), FLOATS)
    if dtype != x.dtype:
        raise TypeError(f"a: makes the result {dtype}, but x and y are {x.dtype}; pass float(a)")
    return saxpy_problem(a, x, y)


def _plain(
    family: str,
    a: object,
    x: object,
    y: object,
    out: object,
    variant: object,
    block: object,
    device: object,
) -> Any:
    """Run `add`, which ignores a, or `saxpy` on two arrays of one shape and dtype."""
    if not (is_plain(x) and is_plain(y)) or type(a) not in (int, float):
        return None
    dtype, shape = x.dtype, x.shape
    name = (NUMBER_NAMES if family == "add" else FLOAT_NAMES).get(dtype)
    if name is None or y.dtype != dtype or y.shape != shape:
        return None
    numbers = (x.size, inout.bits(a, dtype) if family == "saxpy" else 0)
    head = (family, family, name, name)
    return run_plain(head, (x, y), shape, dtype, numbers, out, variant, block, device)


def add(
    x: ArrayLike,
    y: ArrayLike,
    *,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Add two arrays, on a rung of the decks' first ladder.

    Parameters
    ----------
    x, y : array_like
        Arrays whose shapes broadcast together (without a copy on the cpu); their common dtype must
        be int32, int64, float32 or float64. Or two arrays of one dtype on a device, or one and a
        Python number: a kernel copies operands that broadcast or are not in C order. The result is
        on that device, of x's library (of y's if x is a number), and the call does not wait.
    variant : int or str, optional
        The rung, by number or by name: 1 "one-thread", 2 "blocks" (of one thread), 3 "threads" (of
        one block: at most 1,024 elements), 4 "blocks-threads" (a multiple of the block), 5
        "bounds", 6 "grid-stride" and 7 "vector" are CUDA kernels, "serial", "openmp" and "simd" run
        on the cpu. Default: the best for the device.
    out : ndarray, optional
        Receives the result and is returned. On the host it may overlap `x` and `y`; on a device it
        may be `x` or `y`, but must not overlap them in part.
    block : int, optional
        Threads per block, a power of two from 32 to 1024 (rungs 4 to 7). Default: the deck's 512;
        for rung 7, 128.
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
        Shapes that do not broadcast; too many elements for the rung (an `UnfitError`); `out` has
        another shape, is read-only, or on a device shares a part of x's or y's memory; an unknown
        variant, block or device.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Rung 7 loads and stores 16 bytes per instruction if x, y and the result have the same offset
    from a multiple of 16 bytes, else single elements. Arrays larger than the L2 cache use streaming
    (evict-first) loads and stores.

    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), vector addition; rung 7's
    loads of float4, deck D2 (CUDA Deep Dive, Georgia Tech 2013).

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.add([1, 2, 3], [10, 20, 30], device="cpu")
    array([11, 22, 33])
    """
    direct = _plain("add", 0, x, y, out, variant, block, device)
    if direct is not None:
        return direct
    # The result's library is that of the first array.
    given = {"y": y, "x": x} if type(x) in (int, float) else {"x": x, "y": y}
    views = _on_device(NUMBERS, device, **given)
    if views:
        call = device_calls.described(add_problem, views)
        return device_calls.run(call, views, variant, block, out, in_place=True)
    return inout.run(add_problem(x, y), variant, block, device, out)


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
        The factor. A NumPy scalar takes part in the promotion of dtypes, a Python number does not.
    x, y : array_like
        Arrays whose shapes broadcast together; the common dtype must be float32 or float64. Or
        arrays on a device, as for `gpuopt.add`, where y may be a number.
    variant, block, device
        As `gpuopt.add`.
    out : ndarray, optional
        Receives the result and is returned; ``out=y`` updates y, as BLAS does.

    Returns
    -------
    ndarray
        Rounded twice on the cpu, as in NumPy; once on a GPU, which fuses the two operations.

    Raises
    ------
    OverflowError
        An integer `a` beyond the range of float64.
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
    direct = _plain("saxpy", a, x, y, out, variant, block, device)
    if direct is not None:
        return direct
    views = _on_device(FLOATS, device, x=x, y=y)
    if views:
        if type(a) in (int, float):
            call = device_calls.described(_saxpy_of, views)
            size, _ = call.numbers
            call = call.with_numbers((size, inout.bits(a, call.dtype)))
        else:
            call = device_calls.described(_saxpy_by, views, a)
        return device_calls.run(call, views, variant, block, out, in_place=True)
    return inout.run(saxpy_problem(a, x, y), variant, block, device, out)
