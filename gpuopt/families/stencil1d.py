"""`gpuopt.stencil1d`: sums of neighbourhoods along an axis."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.inout import NUMBERS, Problem, check_out, is_run, takes_result
from gpuopt.arrays.libraries import View, quick_view
from gpuopt.families import device_calls, engines
from gpuopt.families.device_axes import in_c_order, strides_of
from gpuopt.families.plans import kernel_plan, run
from gpuopt.families.transpose import transpose
from gpuopt.util.checks import whole
from gpuopt.util.errors import AxisError
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.literals import DeviceName, Mode, StencilRung
from gpuopt.util.names import misspelt, suggests, unknown_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Numbered as in stencil1d.cu. "valid" reads nothing beyond the ends, so any number serves.
RADIUS_MOST = 2**31 - 1
MODES = {"constant": 0, "nearest": 1, "reflect": 2, "mirror": 3, "wrap": 4, "valid": 1}


def _native(array: np.ndarray, name: str, dtypes: tuple[str, ...]) -> np.dtype:
    """Return the array's dtype in native byte order; raise for an unsupported one."""
    dtype = array.dtype
    if dtype.kind not in "if" or dtype.newbyteorder("=").name not in dtypes:
        raise TypeError(
            f"{name}: dtype {array.dtype} is not supported; use {', '.join(dtypes)} "
            f"({name}.astype(...))"
        )
    return np.dtype(dtype.newbyteorder("=").name)  # not the other of two C types with the same size


def _stencil_weights(weights: ArrayLike | None, radius: int) -> tuple[np.ndarray | None, int]:
    """Check `weights` and `radius`; return both. Weights determine the radius."""
    radius = whole(radius, "radius", 0, RADIUS_MOST)
    if weights is None:
        return None, radius
    weights = inout.array_in(weights, "weights")
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights: must be real numbers, not {weights.dtype}")
    if weights.ndim != 1 or weights.size % 2 == 0:
        raise ValueError(
            f"weights: must have shape (2 * radius + 1,), an odd number; "
            f"their shape is {weights.shape}"
        )
    if radius not in (3, weights.size // 2):
        raise ValueError(
            f"radius: is {radius}, but {weights.size} weights have a radius of "
            f"{weights.size // 2}; leave radius out"
        )
    return weights, weights.size // 2


def _head(
    dtype: np.dtype, weights: np.ndarray | None, mode: str, cval: float
) -> tuple[tuple[str, str, str, str], np.dtype, int]:
    """Check mode and cval; return the kernel, the weights' dtype and the bits of cval."""
    if not isinstance(mode, str):
        raise TypeError(f"mode: must be a string, not {mode!r}")
    if mode not in MODES:
        raise ValueError(unknown_name("mode", mode, "a mode", MODES))
    if not isinstance(cval, (int, float, np.integer, np.floating, np.bool_)):
        raise TypeError(f"cval: must be a real number, not {cval!r}")
    if isinstance(cval, int) and abs(cval) >= 2**1024:
        raise ValueError("cval: must be in float64's range")
    # Integers with integer weights and cval stay integers; else float64, as in SciPy.
    accumulator = given = dtype
    if dtype.kind == "i":
        if not np.isfinite(float(cval)):
            raise ValueError("cval: must be finite where a has integers")
        limits = np.iinfo(dtype)
        fits = int(cval) == cval and limits.min <= cval <= limits.max
        if not fits or (weights is not None and weights.dtype.kind == "f"):
            accumulator = given = np.dtype(np.float64)
    else:
        given = np.dtype(np.float64)
    op = "sum" if weights is None else "weighted"
    beyond = inout.bits(int(cval) if given.kind == "i" else float(cval), given)
    return ("stencil1d", op, dtype.name, accumulator.name), given, beyond


@in_default_float_state
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
    head, given, beyond = _head(dtype, weights, mode, cval)
    if weights is not None and dtype.kind == "i" and not np.isfinite(weights).all():
        raise ValueError("weights: must be finite where a has integers")
    weights = np.empty(0, given) if weights is None else weights.astype(given, casting="unsafe")
    outputs, numbers = stencil1d_numbers(a.shape, radius, mode, beyond)
    inputs = (inout.contiguous(a, dtype), np.ascontiguousarray(weights))
    return Problem(*head, inputs, (*a.shape[:-1], outputs), dtype, numbers)


def stencil1d_numbers(
    shape: tuple[int, ...], radius: int, mode: str, beyond: int
) -> tuple[int, tuple[int, ...]]:
    """Return a row's number of outputs, and the family's numbers; `beyond` is cval's bits."""
    *others, n = shape
    valid = mode == "valid"
    outputs = max(0, n - 2 * radius) if valid else n
    first = radius if valid else 0
    return outputs, (n, outputs, first, radius, MODES[mode], beyond, math.prod(others))


def stencil_axis(axis: int, ndim: int) -> int:
    """Return the axis, from 0."""
    if ndim == 0:
        raise ValueError("a: must have at least 1 dimension, not 0; pass numpy.atleast_1d(a)")
    try:
        if isinstance(axis, bool):
            raise TypeError
        number = operator.index(axis)
    except TypeError:
        raise TypeError(f"axis: must be an integer, not {axis!r}") from None
    if not -ndim <= number < ndim:
        raise AxisError(number, ndim, "axis")
    return number % ndim


def _to_the_end(axis: int, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the permutation that moves an axis to the end, and its inverse."""
    there = (*range(axis), *range(axis + 1, ndim), axis)
    return there, (*range(axis), ndim - 1, *range(axis, ndim - 1))


def _turned(a: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return a host array with its axes in this order, contiguous."""
    turned = a.transpose(axes)
    return turned if turned.flags.c_contiguous else transpose(a, axes, device="cpu")


def _resident(
    a: View,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    variant: Any,
    out: Any,
    block: Any,
    device: Any,
) -> _core.Plan | None:
    """Plan a stencil on a device, with constant weights there; passes move its axis to the end."""
    if isinstance(weights, View):
        return None
    views = device_calls.views_in(device, a=a) or {}
    ndim, back = len(a.shape), None
    axis = stencil_axis(axis, ndim)
    if axis != ndim - 1:
        there, back = _to_the_end(axis, ndim)
        steps = strides_of(a)
        shape = tuple(a.shape[k] for k in there)
        views = {"a": a.replace(shape=shape, strides=tuple(steps[k] for k in there))}
    call = device_calls.described(stencil1d_problem, views, radius, weights, mode, cval)
    try:
        places = {"a": 0, "out": 7}
        how = (variant, block)
        return device_calls.resident_plan(call, views, places, out, how=how, back=back)
    except _core.DeviceError:  # while a stream is captured nothing is allocated
        return None


def _reached(radius: int, n: int, mode: str, beyond: int) -> int:
    """Return the radius whose weights meet elements of a row, or zeros beyond it."""
    return min(radius, max(1, n - 1)) if mode == "constant" and beyond == 0 else radius


MOVED = 1 << 18  # bytes from which on an axis is moved by the transpose ladder


def _plan(
    a: Any,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    variant: Any,
    out: Any,
    block: Any,
    device: Any,
) -> _core.Plan | None:
    """Plan a stencil on a host array; another axis than the last is copied to the end."""
    if isinstance(a, View):
        return _resident(a, radius, weights, mode, cval, axis, variant, out, block, device)
    if not isinstance(a, np.ndarray) or not (weights is None or isinstance(weights, np.ndarray)):
        return None
    dtype = _native(a, "a", NUMBERS)
    axis = stencil_axis(axis, a.ndim)
    weights, radius = _stencil_weights(weights, radius)
    head, given, beyond = _head(dtype, weights, mode, cval)
    there, back = _to_the_end(axis, a.ndim)
    moved = axis != a.ndim - 1
    turned = tuple(a.shape[k] for k in there)
    reached = _reached(radius, turned[-1], mode, beyond)
    outputs, numbers = stencil1d_numbers(turned, reached, mode, beyond)
    made = (*turned[:-1], outputs)
    shape = tuple(made[k] for k in back)
    if out is not None:
        check_out(out, shape, dtype)
    if moved and a.nbytes > MOVED:
        return None
    _core.call_kind(head, variant, block, device)
    in_place = not moved and is_run(a) and a.dtype == dtype
    items = (0, 0) if in_place else (0, 0, dtype, there)
    taps: Any = np.empty(0, given)
    if weights is not None:
        finite = weights.dtype.kind == "f" and (dtype.kind == "i" or reached < radius)
        ready = is_run(weights) and weights.dtype == given and not finite
        first = (radius - reached) * given.itemsize
        taps = (2, first) if ready else (2, first, given, None, False, finite)
    size = 0 if weights is None else 2 * reached + 1
    read = ([a] if in_place else []) + ([] if weights is None else [weights])
    direct = out is not None and not moved and takes_result(out, dtype, read)
    steps = tuple(in_c_order(made, dtype)[k] for k in back)
    return kernel_plan(
        [
            (
                head,
                numbers,
                (math.prod(turned) * dtype.itemsize, size * given.itemsize),
                math.prod(made) * dtype.itemsize,
            )
        ],
        (items, taps),
        (dtype, made, None, (shape, steps, 0) if moved else None, moved, False),
        (variant, block, device),
        out=-1 if out is None else 7,
        direct=direct,
    )


def _stencil1d(
    a: Any,
    radius: Any,
    weights: Any,
    mode: Any,
    cval: Any,
    axis: Any,
    variant: Any,
    out: Any,
    block: Any,
    device: Any,
) -> Any:
    """Run a stencil on anything: lists, subclasses, arrays on a device."""
    views = device_calls.inputs(device, a=a)
    if views:
        ndim = len(views["a"].shape)
        axis = stencil_axis(axis, ndim)
        if axis != ndim - 1:
            there, back = _to_the_end(axis, ndim)
            moved = stencil1d(
                transpose(a, there, device=device), radius, weights=weights, mode=mode, cval=cval,
                variant=variant, block=block,
            )  # fmt: skip
            return transpose(moved, back, out=out)
        call = device_calls.described(stencil1d_problem, views, radius, weights, mode, cval)
        return device_calls.run(call, views, variant, block, out)
    a = inout.array_in(a, "a")
    _native(a, "a", NUMBERS)
    axis = stencil_axis(axis, a.ndim)
    there, back = _to_the_end(axis, a.ndim)
    problem = stencil1d_problem(_turned(a, there), radius, weights, mode, cval)
    moved_out = None
    if out is not None:
        check_out(out, tuple(problem.shape[k] for k in back), problem.dtype)
        moved_out = np.moveaxis(out, axis, -1)
    result = run(problem, (variant, block, device), moved_out)
    return out if out is not None else _turned(result, back)


_NAMES = (
    "a", "radius", "weights", "mode", "cval", "axis", "variant", "out", "block", "device",
)  # fmt: skip
_planner, _general = engines.entry("stencil1d", _NAMES, _plan, _stencil1d)
_entry = _core.Entry("akwkkkkokd", _NAMES, _planner, _general, quick_view)
_run = _entry.run


@_entry.front
@suggests
def stencil1d(
    a: ArrayLike,
    radius: int = 3,
    *,
    weights: ArrayLike | None = None,
    mode: Mode = "constant",
    cval: float = 0,
    axis: int = -1,
    variant: StencilRung | int | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    memory_limit: int | str | None = None,
    progress: Callable[[str, float], None] | None = None,
    **unknown: Any,
) -> np.ndarray:
    """Add up the neighbourhood of every element, on a rung of the stencil ladder.

    Output i is the sum of the inputs from i - radius to i + radius, each times its weight. An array
    with more dimensions is processed row by row along `axis`.

    Parameters
    ----------
    a : array_like, shape (..., N)
        int32, int64, float32 or float64, of any layout and byte order, with one dimension or more.
        Or an array on a device (copied there by a kernel if it has gaps): the result is an array of
        the same library there, and the call does not wait.
    radius : int
        Neighbours on each side, at most 2^31 - 1; it may be larger than the array.
    weights : array_like, shape (2 * radius + 1,), optional
        Real numbers, from the leftmost neighbour's to the rightmost's; the radius follows from
        them. Default: all 1.
    mode : {"constant", "nearest", "reflect", "mirror", "wrap", "valid"}
        The values beyond the ends, as in `scipy.ndimage`: `cval`; the last element; the array
        mirrored about the last element's edge, or about its centre; the array repeated. "valid":
        only the N - 2 * radius outputs whose neighbourhood is inside.
    cval : float
        The constant of that mode.
    axis : int
        The stencil's axis. The last is the fast one: another is moved there first and
        back afterwards, which copies the array twice.
    variant : int or str, optional
        The rung, by number or by name: 1 "global", 2 "shared", 3 "registers", 4 "vector" and
        5 "shared-sums" are CUDA kernels, "serial", "openmp" and "simd" run on the cpu.
        "2-historical", the deck's data race, only if named. Default: the best for the device.
    out : ndarray, optional
        Receives the result and is returned. On the host it may overlap `a`; on a device it must
        have memory of its own.
    block : int, optional
        Threads per block, a power of two from 32 to 1024, where the rung leaves a choice
        (`gpuopt.rungs`: 1 to 4 do).
    device : str or list of str, optional
        As `gpuopt.reduce`.
    memory_limit, progress
        For an array in a file, as `gpuopt.reduce`.

    Returns
    -------
    ndarray
        It has a's dtype and shape; for "valid" the axis has max(0, N - 2 * radius) elements.

    Raises
    ------
    TypeError
        Another dtype; a radius or an axis that is no integer; masked arrays; an `out` of a dtype
        that cannot take the result.
    ValueError
        `a` has no dimension; a radius that is negative or too large; an even number of weights; an
        unknown mode, variant, block or device; `out` has another shape, is read-only, or on a
        device shares memory with `a`.
    AxisError
        `a` has no such axis (NumPy's; a ValueError and an IndexError).
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Each output is the sum of its own 2 * radius + 1 inputs: a NaN or a spike reaches no other
    output, unlike in a running sum. Integers with integer weights wrap; other weights are applied
    in float64, and the result is truncated towards zero, as in SciPy. The cpu and rungs from 3 on
    accumulate float32 in float64. Rungs 1 and 2 accumulate it in float32, as in the deck: their
    error is at most (2 * radius + 2) * 2^-24 * sum(abs(weights * inputs)).

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
    if unknown:
        raise misspelt(stencil1d, unknown)
    if not (memory_limit is progress is None):
        given = (a, radius, weights, mode, cval, axis, variant, out, block, device)
        return engines.run("stencil1d", _NAMES, given, memory_limit=memory_limit, progress=progress)
    try:
        return _run(a, radius, weights, mode, cval, axis, variant, out, block, device)
    except _core.DeviceMemoryError as error:
        return engines.run_in_blocks(
            "stencil1d",
            _NAMES,
            (a, radius, weights, mode, cval, axis, variant, out, block, device),
            error,
        )
