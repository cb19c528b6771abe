"""`gpuopt.stencil1d`: sums of neighbourhoods along an axis."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.inout import NUMBERS, Problem, check_out, is_run, takes_result
from gpuopt.arrays.libraries import View, quick_view
from gpuopt.families import device_calls, engines, stencil_dtypes
from gpuopt.families.device_axes import in_c_order, strides_of
from gpuopt.families.plans import kernel_plan, run
from gpuopt.families.transpose import transpose
from gpuopt.util.checks import whole
from gpuopt.util.errors import AxisError
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.literals import DeviceName, Mode, StencilRung
from gpuopt.util.names import misspelt, suggests, unknown_name
from gpuopt.util.rooms import room

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
            f"{name}: dtype {array.dtype} is not supported; use {', '.join(dtypes)} or "
            f"{', '.join(stencil_dtypes.CARRIED)} ({name}.astype(...))"
        )
    return np.dtype(dtype.newbyteorder("=").name)  # not the other of two C types with the same size


class Window(NamedTuple):
    """A stencil's weights, if it has some, and its inputs before and after an output's."""

    weights: np.ndarray | None
    before: int
    after: int

    @property
    def width(self) -> int:
        """Its inputs."""
        return self.before + 1 + self.after


def _sides(radius: int | Sequence[int]) -> tuple[int, int]:
    """Return the neighbours before and after an element."""
    if not isinstance(radius, (tuple, list)):
        return (whole(radius, "radius", 0, RADIUS_MOST),) * 2
    if len(radius) != 2:
        raise ValueError(f"radius: must be a number or a pair (before, after), not {radius!r:.60}")
    before, after = (whole(each, "radius", 0, RADIUS_MOST) for each in radius)
    return before, after


def window_of(
    radius: int | Sequence[int], weights: ArrayLike | None, mode: str, origin: int
) -> Window:
    """Check a window's arguments. Weights determine its size; `origin` shifts it."""
    before, after = _sides(radius)
    if weights is not None:
        weights = inout.array_in(weights, "weights")
        if weights.dtype.kind not in "biuf":
            raise TypeError(f"weights: must be real numbers, not {weights.dtype}")
        if weights.ndim != 1 or not weights.size:
            raise ValueError(
                f"weights: must have shape (window,), with one or more; "
                f"their shape is {weights.shape}"
            )
        size = weights.size
        own = size // 2, (size - 1) // 2
        if (before, after) not in ((3, 3), own):
            raise ValueError(
                f"radius: is {radius}, but {size} weights have a radius of "
                f"{own[0] if own[0] == own[1] else own}; leave radius out"
            )
        before, after = own
    origin = whole(origin, "origin", -before, after)
    if isinstance(mode, str) and mode == "valid" and origin:
        raise ValueError("origin: shifts nothing in mode 'valid'; leave it out")
    return Window(weights, before + origin, after - origin)


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
    radius: int | Sequence[int] = 3,
    weights: ArrayLike | None = None,
    mode: str = "constant",
    cval: float = 0,
    origin: int = 0,
) -> Problem:
    """Describe a stencil along the last axis."""
    dtype = _native(a, "a", NUMBERS)
    window = window_of(radius, weights, mode, origin)
    weights = window.weights
    head, given, beyond = _head(dtype, weights, mode, cval)
    if weights is not None and dtype.kind == "i" and not np.isfinite(weights).all():
        raise ValueError("weights: must be finite where a has integers")
    weights = np.empty(0, given) if weights is None else weights.astype(given, casting="unsafe")
    outputs, numbers = _numbers(a.shape, window, mode, beyond)
    inputs = (inout.contiguous(a, dtype), np.ascontiguousarray(weights))
    return Problem(*head, inputs, (*a.shape[:-1], outputs), dtype, numbers)


def stencil1d_dtype(
    one: np.ndarray, radius: Any, weights: Any, mode: str, cval: Any, origin: int
) -> np.dtype:
    """Check the arguments for an array of one element, and return the result's dtype."""
    if stencil_dtypes.is_carried(one.dtype):
        taps = window_of(radius, weights, mode, origin).weights
        carrier, _, cval = stencil_dtypes.carrier_of(one.dtype, taps, cval)
        cval = cval.real if isinstance(cval, (complex, np.complexfloating)) else cval
        stencil1d_problem(one.real.astype(carrier), radius, weights, mode, cval, origin)
        return np.dtype(one.dtype.newbyteorder("=").name)
    return stencil1d_problem(one, radius, weights, mode, cval, origin).dtype


def outputs_of(n: int, window: Window, mode: str) -> int:
    """Return the outputs of a row of n elements."""
    return max(0, n - window.width + 1) if mode == "valid" else n


def _numbers(
    shape: tuple[int, ...], window: Window, mode: str, beyond: int
) -> tuple[int, tuple[int, ...]]:
    """Return a row's number of outputs, and the family's numbers; `beyond` is cval's bits."""
    *others, n = shape
    outputs, rows, width = outputs_of(n, window, mode), math.prod(others), window.width
    middle = width // 2  # of the window; the kernels prefer it at the output's own index
    first = middle - (0 if mode == "valid" else window.before)
    return outputs, (n, outputs, first, middle, MODES[mode], beyond, rows, width, n, 1, 1)


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


def _turned(a: np.ndarray, axes: tuple[int, ...], rooms: ExitStack | None = None) -> np.ndarray:
    """Return a host array with its axes in this order, contiguous; in a room of `rooms`."""
    turned = a.transpose(axes)
    if turned.flags.c_contiguous:
        return turned
    out = rooms.enter_context(room(turned.shape, a.dtype)) if rooms else None
    return transpose(a, axes, out=out, device="cpu")


STEP_MOST = 128  # bytes between a row's elements that a kernel reads in place
PARTS_LEAST = 64  # extent of an axis of which a thread takes outputs of parts, as the planner's
NARROW_MOST = 41  # inputs of a window of narrow columns read in place
EXACT = 1 << 24  # up to which int32 and float32 have all whole numbers
COLUMN_MOST = 513  # inputs of a window of columns read in place: their weights fit every GPU


def _one_axis(axes: Iterable[tuple[int, int]], unit: int) -> tuple[int, int] | None:
    """Return the extent and the step, in elements, of the one axis that these axes are."""
    axes = [(extent, step) for extent, step in axes if extent > 1]
    if any(step != rest * extent for (_, step), (extent, rest) in pairwise(axes)):
        return None
    step = axes[-1][1] if axes else 0
    return None if step % unit else (math.prod(extent for extent, _ in axes), step // unit)


def _most_beyond(numbers: tuple[int, ...]) -> int:
    """Return how many inputs of a window are on one side of its output's own, at most."""
    before = (numbers[3] - numbers[2]) % 2**64  # a call's numbers are unsigned
    return max(before, numbers[7] - 1 - before)


def _layout(view: View, axis: int, numbers: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """Return rows, and the steps between them and between inputs, and columns: if read in place."""
    axes, item = list(zip(view.shape, strides_of(view), strict=True)), view.dtype.itemsize
    outer, inner = _one_axis(axes[:axis], item), _one_axis(axes[axis + 1 :], item)
    (n, step), width = axes[axis], numbers[7]
    step = step if n > 1 else item
    if outer is None or inner is None or step % item or view.address % item:
        return None
    rows, pitch, step = outer[0], outer[1], step // item
    pitch = pitch if rows > 1 else n * step
    if inner[0] == 1:
        gaps = 1 <= step <= STEP_MOST // item and pitch > (n - 1) * step
        return (rows, pitch, step, 1) if gaps else None
    served = _most_beyond(numbers) < n < 1 << 28 and width <= COLUMN_MOST
    return (rows, pitch, step, inner[0]) if inner[1] == 1 and served else None


def _narrow(
    call: device_calls.Call,
    a: View,
    carrier: np.dtype | None,
    cval: float,
    layout: tuple[int, int, int, int] | None,
) -> tuple[device_calls.Call, np.dtype | None]:
    """Return the call and its carrier: none if rung 5 itself widens the elements."""
    n, mode, width = call.numbers[0], call.numbers[4], call.numbers[7]
    bits = stencil_dtypes.NARROW.get(a.dtype.name)
    if carrier is None or layout is None or bits is None:
        return call, carrier
    rows, _, _, columns = layout
    by_parts = max(rows, columns, call.numbers[1]) >= PARTS_LEAST
    most = COLUMN_MOST if columns == 1 else NARROW_MOST * by_parts
    whole = mode != MODES["constant"] or (abs(cval) < EXACT and int(cval) == cval)
    if width > most or not whole or not _most_beyond(call.numbers) < n < 1 << 28:
        return call, carrier
    numbers = (*call.numbers[:4], mode | bits << 48, *call.numbers[5:])
    (number, size), *others = call.inputs
    inputs = ((number, size // carrier.itemsize * a.dtype.itemsize), *others)
    return call._replace(numbers=numbers, inputs=inputs), None


def _resident(
    a: View,
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
) -> _core.Plan | None:
    """Plan a stencil on a device, with constant weights there; passes move its axis to the end."""
    if isinstance(weights, View):
        return None
    device_calls.views_in(device, a=a)
    ndim, back, result, carrier = len(a.shape), None, a.dtype, None
    if stencil_dtypes.is_carried(result):
        if result.kind == "c":
            return None
        taps = window_of(radius, weights, mode, origin).weights
        kind, same_bits, cval = stencil_dtypes.carrier_of(result, taps, cval)
        if not same_bits and kind.kind == "f" and result.kind == "u":
            return None
        if same_bits:
            a = a.replace(dtype=kind)
        else:
            carrier = kind
    axis = stencil_axis(axis, ndim)
    there, returned = _to_the_end(axis, ndim)
    views, steps = {"a": a}, strides_of(a)
    shape = tuple(a.shape[k] for k in there)
    moved = {"a": a.replace(shape=shape, strides=tuple(steps[k] for k in there))}
    dtype = a.dtype if carrier is None else carrier
    items = {"a": moved["a"].replace(dtype=dtype)}
    call = device_calls.described(stencil1d_problem, items, radius, weights, mode, cval, origin)
    # Read in place, or after a pass that brings it into C order.
    copied = a.replace(dtype=dtype, strides=None, address=0)
    with_gaps = (
        None if variant is not None or carrier is not None else _layout(a, axis, call.numbers)
    )
    found = with_gaps or (_layout(copied, axis, call.numbers) if variant is None else None)
    call, carrier = _narrow(call, a, carrier, cval, found)
    if found is not None:
        rows, *layout = found
        made = tuple(call.shape[k] for k in returned)
        call = call._replace(
            numbers=(*call.numbers[:6], rows, call.numbers[7], *layout), shape=made
        )
    elif axis != ndim - 1:
        views, back = moved, returned
    try:
        places = {"a": 0, "out": 8}
        how = (variant, block)
        return device_calls.resident_plan(
            call, views, places, out, dtype=result, how=how, back=back,
            with_gaps=with_gaps is not None, carrier=carrier,
        )  # fmt: skip
    except _core.DeviceError:  # while a stream is captured nothing is allocated
        return None


def _reached(window: Window, n: int, mode: str, beyond: int) -> Window:
    """Return the part of a window that meets elements of a row, without weights."""
    most = max(1, n - 1) if mode == "constant" and beyond == 0 else RADIUS_MOST
    return Window(None, min(window.before, most), min(window.after, most))


MOVED = 1 << 18  # bytes from which on an axis is moved by the transpose ladder


def _types(a: np.ndarray, weights: Any, cval: Any) -> tuple[np.dtype, np.dtype, Any] | None:
    """Return the dtypes of the result and of the computation, and cval in the latter's terms.

    None: no plan has the dtype, or none copies an array of this size.
    """
    if not stencil_dtypes.is_carried(a.dtype):
        dtype = _native(a, "a", NUMBERS)
        return dtype, dtype, cval
    if a.dtype.kind == "c" or a.nbytes > MOVED:
        return None
    result = np.dtype(a.dtype.newbyteorder("=").name)
    dtype, _, cval = stencil_dtypes.carrier_of(result, weights, cval)
    return result, dtype, cval


def _plan(
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
) -> _core.Plan | None:
    """Plan a stencil on a host array; another axis than the last is copied to the end."""
    if isinstance(a, View):
        return _resident(a, radius, weights, mode, cval, axis, origin, variant, out, block, device)
    if not isinstance(a, np.ndarray) or not (weights is None or isinstance(weights, np.ndarray)):
        return None
    window = window_of(radius, weights, mode, origin)
    weights = window.weights
    if (types := _types(a, weights, cval)) is None:
        return None
    result, dtype, cval = types
    carried = result != dtype
    axis = stencil_axis(axis, a.ndim)
    head, given, beyond = _head(dtype, weights, mode, cval)
    there, back = _to_the_end(axis, a.ndim)
    moved = axis != a.ndim - 1
    turned = tuple(a.shape[k] for k in there)
    reached = _reached(window, turned[-1], mode, beyond)
    outputs, numbers = _numbers(turned, reached, mode, beyond)
    made = (*turned[:-1], outputs)
    shape, steps = (tuple(each[k] for k in back) for each in (made, in_c_order(made, dtype)))
    if out is not None:
        check_out(out, shape, result)
    if moved and a.nbytes > MOVED:
        return None
    _core.call_kind(head, variant, block, device)
    in_place = not moved and is_run(a) and a.dtype == dtype
    items = (0, 0) if in_place else (0, 0, dtype, there)
    taps: Any = np.empty(0, given)
    if weights is not None:
        finite = weights.dtype.kind == "f" and (dtype.kind == "i" or reached.width < window.width)
        ready = is_run(weights) and weights.dtype == given and not finite
        first = (window.before - reached.before) * given.itemsize
        taps = (2, first) if ready else (2, first, given, None, False, finite)
    size = 0 if weights is None else reached.width
    read = [a] * in_place + ([] if weights is None else [weights])
    direct = out is not None and not moved and not carried and takes_result(out, dtype, read)
    view = (shape, steps, 0) if moved else None
    read_bytes = (math.prod(turned) * dtype.itemsize, size * given.itemsize)
    return kernel_plan(
        [(head, numbers, read_bytes, math.prod(made) * dtype.itemsize)],
        (items, taps),
        (dtype, made, None, view, result if carried else moved, False),
        (variant, block, device),
        out=-1 if out is None else 8,
        direct=direct,
    )


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
) -> Any:
    """Run a stencil on anything: lists, subclasses, arrays on a device."""
    views = device_calls.inputs(device, a=a)
    how = {"radius": radius, "mode": mode, "origin": origin, "variant": variant, "block": block}
    if views:
        ndim = len(views["a"].shape)
        axis = stencil_axis(axis, ndim)
        if stencil_dtypes.is_carried(views["a"].dtype):
            window, shape = window_of(radius, weights, mode, origin), list(views["a"].shape)
            shape[axis] = outputs_of(shape[axis], window, mode)
            given = a, views["a"], tuple(shape), window.weights, cval, out
            return stencil_dtypes.on_device(stencil1d, *given, axis=axis, **how)
        if axis != ndim - 1:
            there, back = _to_the_end(axis, ndim)
            moved = stencil1d(
                transpose(a, there, device=device), radius, weights=weights, mode=mode, cval=cval,
                origin=origin, variant=variant, block=block,
            )  # fmt: skip
            return transpose(moved, back, out=out)
        call = device_calls.described(stencil1d_problem, views, radius, weights, mode, cval, origin)
        return device_calls.run(call, views, variant, block, out)
    a = inout.array_in(a, "a")
    if stencil_dtypes.is_carried(a.dtype):
        taps = window_of(radius, weights, mode, origin).weights
        axis = stencil_axis(axis, a.ndim)
        return stencil_dtypes.on_host(stencil1d, a, taps, cval, axis, out, device=device, **how)
    _native(a, "a", NUMBERS)
    axis = stencil_axis(axis, a.ndim)
    there, back = _to_the_end(axis, a.ndim)
    moved = axis != a.ndim - 1
    with ExitStack() as rooms:
        given = _turned(a, there, None if moved and out is None else rooms)
        problem = stencil1d_problem(given, radius, weights, mode, cval, origin)
        made = tuple(problem.shape[k] for k in back)
        how = (variant, block, device)
        if out is not None:
            check_out(out, made, problem.dtype)
            run(problem, how, np.moveaxis(out, axis, -1))
            return out
        between = rooms.enter_context(room(problem.shape, problem.dtype)) if moved else None
        if between is None or between.transpose(back).flags.c_contiguous:
            return _turned(run(problem, how), back)
        run(problem, how, between)
        # The result takes the memory of the turned input, if that is a copy.
        alike = given.shape == problem.shape and given.dtype == problem.dtype
        final = given.reshape(made) if given.flags.owndata and alike else None
        return transpose(between, back, out=final, device="cpu")


_NAMES = (
    "a", "radius", "weights", "mode", "cval", "axis", "origin", "variant", "out", "block", "device",
)  # fmt: skip
_planner, _general = engines.entry("stencil1d", _NAMES, _plan, _stencil1d)
_entry = _core.Entry("akwkkkkkokd", _NAMES, _planner, _general, quick_view)
_run = _entry.run


@_entry.front
@suggests
def stencil1d(
    a: ArrayLike,
    radius: int | Sequence[int] = 3,
    *,
    weights: ArrayLike | None = None,
    mode: Mode = "constant",
    cval: float = 0,
    axis: int = -1,
    origin: int = 0,
    variant: StencilRung | int | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    memory_limit: int | str | None = None,
    progress: Callable[[str, float], None] | None = None,
    **unknown: Any,
) -> np.ndarray:
    """Add up the neighbourhood of every element, on a rung of the stencil ladder.

    Output i is the sum of the inputs from i - radius to i + radius, each times its weight, as
    `scipy.ndimage.correlate1d` computes it. An array with more dimensions is processed row by row
    along `axis`.

    Parameters
    ----------
    a : array_like, shape (..., N)
        bool, an integer, floating-point or complex type, of any layout and byte order, with one
        dimension or more. int32, int64, float32 and float64 have kernels, which widen narrower
        elements of most rows as they read them; others are converted first and back afterwards, or
        computed part by part.
        Or an array on a device (copied there by a kernel if it has gaps): the result is an array of
        the same library there, and the call does not wait.
    radius : int or (int, int)
        Neighbours on each side, or before and after an element: an even window of 2 r elements has
        (r, r - 1), as `scipy.ndimage.uniform_filter1d`. At most 2^31 - 1; it may be larger than the
        array.
    weights : array_like, shape (2 * radius + 1,), optional
        Real numbers, from the leftmost neighbour's to the rightmost's; the radius follows from
        them, that of an even number 2 r is (r, r - 1). Default: all 1.
    mode : {"constant", "nearest", "reflect", "mirror", "wrap", "valid"}
        The values beyond the ends, as in `scipy.ndimage`: `cval`; the last element; the array
        mirrored about the last element's edge, or about its centre; the array repeated. "valid":
        only the N - window + 1 outputs whose neighbourhood is inside.
    cval : float
        The constant of that mode; for complex arrays on the host it may be complex.
    axis : int
        The stencil's axis. On a device another than the last is read in place where the axes before
        it and those after it are one axis each, in C order, and no end reads a whole row's length
        beyond it; else it is moved there first and back afterwards, which copies the array twice.
    origin : int
        Elements by which the window is moved to the left, as in `scipy.ndimage`: from -before to
        after, so that it still contains the output's own element.
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
        It has a's dtype and shape; for "valid" the axis has max(0, N - window + 1) elements.

    Raises
    ------
    TypeError
        Another dtype; a radius or an axis that is no integer; masked arrays; an `out` of a dtype
        that cannot take the result.
    ValueError
        `a` has no dimension; a radius that is negative or too large; no weights; an `origin` that
        moves the window off its element, or one in mode "valid"; an unknown mode, variant, block or
        device; `out` has another shape, is read-only, or on a device shares memory with `a`.
    AxisError
        `a` has no such axis (NumPy's; a ValueError and an IndexError).
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Each output is the sum of its own inputs: a NaN or a spike reaches no other
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
        given = (a, radius, weights, mode, cval, axis, origin, variant, out, block, device)
        return engines.run("stencil1d", _NAMES, given, memory_limit=memory_limit, progress=progress)
    try:
        return _run(a, radius, weights, mode, cval, axis, origin, variant, out, block, device)
    except _core.DeviceMemoryError as error:
        return engines.run_in_blocks(
            "stencil1d",
            _NAMES,
            (a, radius, weights, mode, cval, axis, origin, variant, out, block, device),
            error,
        )
