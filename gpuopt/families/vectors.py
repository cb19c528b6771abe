"""`gpuopt.add` and `gpuopt.saxpy`, on vectors and on arrays that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.dtypes import by_name, is_bfloat16, kind_of, name_of
from gpuopt.arrays.inout import NUMBERS, Problem, apart, check_out
from gpuopt.arrays.libraries import View, check_device, quick_view, view_of
from gpuopt.families import device_calls, engines, vector_passes
from gpuopt.families.device_axes import broadcast_strides, compact, in_c_order, strides_of
from gpuopt.families.device_calls import Layout, asarray, reach_of, there_plan
from gpuopt.families.plans import kernel_plan, run, weak_numbers
from gpuopt.families.vector_passes import AXES
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.literals import DeviceName, VectorRung
from gpuopt.util.names import misspelt, suggests

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_ADDED = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64",
)  # fmt: skip
_SCALED = ("float16", "bfloat16", "float32", "float64")


def _head(family: str, name: str) -> tuple[str, str, str, str]:
    """Return the kernel of a dtype: unsigned elements are added as signed ones."""
    name = name.removeprefix("u")
    return (family, family, name, name)


def _kind_of_call(family: str, name: str, variant: Any, block: Any, device: Any) -> str:
    """Return the kind of device of a call; the cpu's rungs have some of the dtypes only."""
    known = name if name in NUMBERS else "float32"
    return _core.call_kind(_head(family, known), variant, block, device)


def _once(array: np.ndarray) -> np.ndarray:
    """Return the array with its broadcast axes cut to length 1."""
    if 0 not in array.strides:
        return array
    return array[tuple(slice(None) if step else slice(1) for step in array.strides)]


def _axes(shape: tuple[int, ...], item: int, *strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the axes of some arrays, the result last: size, and the arrays' steps in elements.

    The axis of the result's smallest stride comes first. Neighbouring axes are merged where all
    arrays allow it.
    """
    axes: list[tuple[int, ...]] = []
    for size, *strided in reversed(
        sorted(zip(shape, *strides, strict=True), key=lambda axis: -abs(axis[-1]))
    ):
        if size == 1:
            continue
        steps = tuple(step // item for step in strided)
        if axes and steps == tuple(axes[-1][0] * step for step in axes[-1][1:]):
            axes[-1] = (axes[-1][0] * size, *axes[-1][1:])
        else:
            axes.append((size, *steps))
    return axes


def _together(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that two shapes broadcast to."""
    shape = inout.broadcast(x, y)
    if shape is None:
        raise ValueError(f"x, y: operands could not be broadcast together with shapes {x} {y}")
    return shape


def _vector_problem(
    family: str, a: float, x: np.ndarray, y: np.ndarray, dtype: np.dtype
) -> Problem:
    shape = _together(x.shape, y.shape)
    runs = [inout.contiguous(_once(each), dtype) for each in (x, y)]
    inputs = tuple(run if run.shape == shape else np.broadcast_to(run, shape) for run in runs)
    numbers = [math.prod(shape), inout.bits(a, dtype)]
    if not all(each.flags.c_contiguous for each in inputs):
        result = in_c_order(shape, dtype)
        axes = _axes(shape, dtype.itemsize, *(each.strides for each in inputs), result)
        if len(axes) <= AXES:
            numbers += [len(axes), *(number for axis in axes for number in axis)]
        else:
            inputs = tuple(np.ascontiguousarray(each) for each in inputs)
    head = _head(family, name_of(dtype))
    return Problem(*head, inputs, shape, dtype, tuple(numbers))


def _number(
    name: str, value: float, other: str, dtype: np.dtype, dtypes: tuple[str, ...]
) -> np.ndarray:
    """Return a Python number as a value of the other operand's dtype."""
    if name_of(dtype) not in dtypes:
        raise TypeError(f"{other}: dtype {dtype} is not supported; use {', '.join(dtypes)}")
    found = dtype if is_bfloat16(dtype) else np.result_type(dtype, value)
    if found != dtype:
        raise TypeError(
            f"{name}: makes the result {found}, but {other} is {dtype}, and nothing is converted "
            f"on a device; convert {other} there"
        )
    return inout.item(value, dtype, name)


def _on_device(
    dtypes: tuple[str, ...], device: str | None, ordered: bool, **given: object
) -> tuple[dict[str, View] | None, tuple[int, ...] | None]:
    """Return two arrays on a device, of one shape and dtype; None if both are on the host.

    A Python number must be second; it takes the other's dtype. An operand that broadcasts is copied
    to the full shape. If `ordered`, the axes have the result's order in memory, whose inverse is
    returned, too; None: C order.
    """
    (other, array), (name, value) = given.items()
    there = view_of(array, other) if type(value) in (int, float) else None
    if there is not None:
        item = _number(name, value, other, there.dtype, dtypes)
        views = device_calls.inputs(device, any_order=True, **{other: array})
        views[name] = view_of(asarray(item, views[other].device), name)
    else:
        views = device_calls.inputs(device, any_order=True, **given)
    if not views:
        return None, None
    x, y = views.values()
    if x.dtype != y.dtype:
        device_calls.alike(views)
    shape = _together(x.shape, y.shape)
    order = None
    if ordered and x.library.turns:
        order = _k_order(shape, [broadcast_strides(each, shape) for each in (x, y)])
    turned = {}
    for name, view in views.items():
        steps = _in_order(order, broadcast_strides(view, shape))
        turned[name] = compact(view.replace(shape=_in_order(order, shape), strides=steps))
    return turned, _inverse(order)


@in_default_float_state
def add_problem(x: ArrayLike, y: ArrayLike) -> Problem:
    """Describe a sum of vectors."""
    dtype, (x, y) = inout.common((("x", x), ("y", y)), _ADDED)
    return _vector_problem("add", 0, x, y, dtype)


@in_default_float_state
def saxpy_problem(a: float, x: ArrayLike, y: ArrayLike) -> Problem:
    """Describe a * x + y."""
    dtype, (factor, x, y) = inout.common((("a", a), ("x", x), ("y", y)), _SCALED)
    if factor.ndim:
        raise ValueError(f"a: must be a number, not an array of shape {factor.shape}")
    return _vector_problem("saxpy", factor[()], x, y, dtype)


def _saxpy_of(x: np.ndarray, y: np.ndarray) -> Problem:
    """Describe a * x + y on a device for a Python number; nothing is converted."""
    if name_of(x.dtype) not in _SCALED:
        raise TypeError(f"x, y: dtype {x.dtype} is not supported; use {', '.join(_SCALED)}")
    return _vector_problem("saxpy", 0.0, x, y, x.dtype)


def _saxpy_by(x: np.ndarray, y: np.ndarray, a: object) -> Problem:
    """Describe a * x + y on a device for a factor with a dtype."""
    dtype, _ = inout.common((("a", a), ("x", x), ("y", y)), _SCALED)
    if dtype != x.dtype:
        raise TypeError(f"a: makes the result {dtype}, but x and y are {x.dtype}; pass float(a)")
    return saxpy_problem(a, x, y)


# --- plans of calls on host arrays


def _k_order(shape: tuple[int, ...], steps: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the result's axes by their order in memory as NumPy's order "K"; None for C order.

    `steps` are the operands' strides. An axis moves inside of a later one if its stride is smaller
    in every operand where neither is 0 (npyiter_find_best_axis_ordering of nditer_constr.c).
    """
    if not math.prod(shape):
        return None
    order: list[int] = []  # the innermost axis first
    for axis in reversed(range(len(shape))):
        place = len(order)
        for at in reversed(range(len(order))):
            pairs = [(abs(each[axis]), abs(each[order[at]])) for each in steps]
            pairs = [pair for pair in pairs if all(pair)]
            if pairs and any(inner <= own for own, inner in pairs):
                break
            place = at if pairs else place
        order.insert(place, axis)
    order.reverse()
    return None if order == sorted(order) else tuple(order)


def _inverse(order: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if order is None else tuple(sorted(range(len(order)), key=order.__getitem__))


def _made_in(order: tuple[int, ...] | None, shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    """Return the strides of a result without gaps whose axes have this order in memory."""
    steps, step = [0] * len(shape), item
    for axis in reversed(order or range(len(shape))):
        steps[axis] = step
        step *= shape[axis]
    return tuple(steps)


def _in_order(order: tuple[int, ...] | None, values: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape or strides with the axes in this order; None: C order."""
    return values if order is None else tuple(values[axis] for axis in order)


def _turned(value: Any, shape: tuple[int, ...], order: tuple[int, ...] | None) -> Any:
    """Return an array of the host with all of a shape's axes, in this order; None: C order."""
    if order is None or not isinstance(value, np.ndarray):
        return value
    return value.reshape((1,) * (len(shape) - value.ndim) + value.shape).transpose(order)


def _steps_of(value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an operand that is broadcast to a shape; 0 where it repeats."""
    strides = value.strides if isinstance(value, np.ndarray) else ()
    extents = value.shape if isinstance(value, np.ndarray) else ()
    steps = (0 if n == 1 else step for n, step in zip(extents, strides, strict=True))
    return (*(0,) * (len(shape) - len(strides)), *steps)


def in_k_order(call: Callable[[Any, Any], np.ndarray], x: Any, y: Any, out: Any) -> np.ndarray:
    """Call on operands of the host so that the result's axes have NumPy's order in memory.

    The operands' axes then have that order; with an `out`, they are passed as they are.
    """
    if out is not None:
        return call(x, y)
    given = (("x", x), ("y", y))
    x, y = (v if type(v) in (int, float) else inout.array_in(v, name) for name, v in given)
    shape = inout.broadcast(np.shape(x), np.shape(y))
    order = None if shape is None else _k_order(shape, [_steps_of(each, shape) for each in (x, y)])
    if shape is None or order is None:
        return call(x, y)
    return call(_turned(x, shape, order), _turned(y, shape, order)).transpose(_inverse(order))


_SHORT, _NEAR = 16, 1 << 20  # elements of a short row; bytes that stay in a core's cache
_PACKED = 128  # bytes of rows that the cpu brings together if they adjoin in the result


def _long_rows(axes: list[tuple[int, ...]], item: int, on_cpu: bool) -> list[tuple[int, ...]]:
    """Return merged axes, the last first, with a long axis in place of a short innermost one.

    The short one is kept where the arrays do not stay in the cache.
    """
    if len(axes) < 2 or axes[0][0] >= _SHORT:
        return axes
    if on_cpu and axes[0][0] * item <= _PACKED and axes[1][-1] == axes[0][0]:
        return axes
    if math.prod(axis[0] for axis in axes) * item > _NEAR:
        return axes
    longest = max(axes, key=lambda axis: axis[0])
    if longest[0] <= 4 * axes[0][0]:
        return axes
    return [longest, *(axis for axis in axes if axis is not longest)]


def _common(every: list[Any], dtypes: tuple[str, ...]) -> np.dtype | None:
    """Return NumPy's type of a sum of arrays and numbers, if it is one of `dtypes`."""
    typed = [each for each in every if isinstance(each, (np.ndarray, np.generic))]
    if any(kind_of(each.dtype) not in "biuf" for each in typed):
        return None
    if any(isinstance(each, np.bool_) for each in typed):  # is no index
        return None
    try:
        found = inout.promoted(
            type(each)(0) if type(each) in (int, float) else each.dtype for each in every
        )
    except TypeError:  # no common type, as of bfloat16 and int64
        return None
    name = name_of(found.newbyteorder("="))
    return by_name(name) if name in dtypes else None


def _by_numpy(
    every: list[Any], dtype: np.dtype, scaled: bool, out: int, reuses: bool
) -> _core.Plan:
    """Plan a sum by NumPy's functions; `out` is an argument or -1."""
    # NumPy adds bfloat16 and a Python float as float32.
    narrow = any(is_bfloat16(np.asarray(each).dtype) for each in every)
    add = partial(np.add, dtype=dtype) if narrow else np.add
    multiply = np.multiply if scaled else None
    places = (0, scaled, scaled + 1, out)
    return _core.Plan("numpy", (add, multiply, {"dtype": dtype}, *places, False, reuses))


def _planned_vector(
    family: str,
    dtypes: tuple[str, ...],
    operands: list[Any],
    factor: object,
    variant: Any,
    out: np.ndarray | None,
    block: Any,
    device: Any,
) -> _core.Plan | None:
    """Plan a sum of two operands, arrays or numbers; None for calls of the general function.

    The first operand is argument 1 of the call if there is a factor, else argument 0.
    """
    first = 0 if factor is None else 1
    every = operands if factor is None else [factor, *operands]
    arrays = [each for each in operands if isinstance(each, np.ndarray)]
    if not arrays or any(each is None for each in operands) or weak_numbers(every):
        return None
    dtype = None if isinstance(factor, np.ndarray) else _common(every, dtypes)
    if dtype is None or (is_bfloat16(dtype) and any(type(each) is int for each in every)):
        return None  # ml_dtypes refuses integers beyond 64 bits
    shape = _together(*map(np.shape, operands))
    if out is not None:
        check_out(out, shape, dtype)
    head = _head(family, name_of(dtype))
    on_cpu = _kind_of_call(family, name_of(dtype), variant, block, device) == "cpu"
    item, touched = dtype.itemsize, arrays if out is None else [*arrays, out]
    ready = (name_of(dtype) in NUMBERS or not on_cpu) and all(
        each.dtype == dtype and each.flags.aligned for each in touched
    )
    at = len(every) + 1  # of `out` among the arguments
    steps = [_steps_of(each, shape) for each in operands]
    order = _k_order(shape, steps) if out is None else None
    made = _made_in(order, shape, item) if out is None else out.strides
    if out is not None and not all(apart(out, each, in_place=on_cpu) for each in arrays):
        ready = False
    axes = _long_rows(_axes(shape, item, *steps, made), item, on_cpu)
    whole = all(_turned(each, shape, order).flags.c_contiguous for each in touched)
    contiguous = whole and len(arrays) == 2 and all(each.shape == shape for each in arrays)
    typed = len(arrays) == len(operands) or name_of(dtype) in NUMBERS
    readable = typed and (on_cpu or contiguous or (whole and variant in _STRIDED))
    if not ready or len(axes) > AXES or not readable:
        if not on_cpu or variant is not None or block is not None:
            return None
        reuses = out is None and factor is not None and np.shape(operands[0]) == shape != ()
        return _by_numpy(every, dtype, factor is not None, -1 if out is None else at, reuses)
    numbers = [math.prod(shape), 0]
    if not contiguous and axes != [(numbers[0], 1, 1, 1)]:
        numbers += [len(axes), *(number for axis in axes for number in axis)]
    inputs = tuple(
        (first + k, 0, *(() if isinstance(each, np.ndarray) else (dtype, None, True)))
        for k, each in enumerate(operands)
    )
    sizes = tuple(each.nbytes if isinstance(each, np.ndarray) else item for each in operands)
    return kernel_plan(
        [(head, tuple(numbers), sizes, numbers[0] * item)],
        inputs,
        (dtype, shape, None if order is None else made, None, False, False),
        (variant, block, device),
        out=-1 if out is None else at,
        factor=-1 if factor is None else 0,
        factor_dtype=name_of(dtype),
    )


_STRIDED = (None, 8, "strided")  # variants that read any layout on a device


def _read(argument: int, each: Any, result: Layout) -> tuple[Any, ...]:
    """Return an operand of a sum on a device as an input of its plan."""
    shape, strides, dtype = result
    if not isinstance(each, View):
        return argument, name_of(dtype)
    own = (each.shape, strides_of(each)) == (shape, strides)
    return argument, 0, math.prod(each.shape) * dtype.itemsize, reach_of(each, in_place=own)


def _receives(out: View, shape: tuple[int, ...], like: View) -> bool:
    """Return whether a kernel may write a sum there: no two elements share memory."""
    fits = (out.shape, out.dtype, out.device) == (shape, like.dtype, like.device)
    if not fits or out.read_only:
        return False
    item, axes = out.dtype.itemsize, zip(shape, strides_of(out), strict=True)
    for step, extent in sorted((abs(step), extent) for extent, step in axes if extent > 1):
        if step < item:
            return False
        item = step * extent
    return True


def _widened(dtype: np.dtype, numbers: list[Any]) -> bool:
    """Return whether NumPy's type of an array's sum with numbers is another one."""
    return weak_numbers(numbers) or (
        name_of(dtype) != "bfloat16" and any(np.result_type(dtype, k) != dtype for k in numbers)
    )


def _settings(n: int, axes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the numbers of a sum's kernel."""
    steps = (number % 2**64 for axis in axes for number in axis)
    return (n, 0, len(axes), *steps) if axes else (n, 0)


def _there(
    family: str,
    dtypes: tuple[str, ...],
    operands: list[Any],
    factor: Any,
    variant: Any,
    out: Any,
    block: Any,
    device: Any,
) -> _core.Plan | None:
    """Plan a sum of arrays on a device of any layouts, and of numbers; None for other calls."""
    views = [each for each in operands if isinstance(each, View)]
    first, *others = views
    if out is not None and not isinstance(out, View):
        return None
    if device is not None:
        check_device(first, device)
    numbers = [each for each in operands if not isinstance(each, View)]
    dtype, item, name = first.dtype, first.dtype.itemsize, name_of(first.dtype)
    weak = all(type(each) in (int, float) for each in (*numbers, 0 if factor is None else factor))
    alike = all(each.dtype == dtype and each.device == first.device for each in others)
    if not weak or not alike or name not in dtypes or _widened(dtype, numbers):
        return None
    shape = _together(*(each.shape if isinstance(each, View) else () for each in operands))
    steps = [broadcast_strides(each, shape) for each in views]
    order = _k_order(shape, steps) if out is None and first.library.turns else None
    n = math.prod(shape)
    made = _made_in(order, shape, item) if out is None else strides_of(out)
    if out is not None and not _receives(out, shape, first):
        return None
    if not n or any(step % item for each in (*steps, made) for step in each):
        return None
    by_view = {id(view): each for view, each in zip(views, steps, strict=True)}
    every = [by_view.get(id(each), (0,) * len(shape)) for each in operands]
    axes, before, after = _axes(shape, item, *every, made), [], []
    if variant is None and len(axes) <= AXES:
        turned = 0 if block else _core.turned(item, _settings(n, axes))
        before, after, written = vector_passes.in_one_order(shape, every, made, dtype, turned)
        axes = _axes(shape, item, *every, written)
    if variant is None and not before and axes and not numbers:
        before, axes = vector_passes.with_long_row(axes, n, dtype)
    straight = not numbers and axes in ([], [(n, 1, 1, 1)])
    if len(axes) > AXES or not (straight or variant in _STRIDED):
        return None
    at = 0 if factor is None else 1  # the first operand among the arguments
    result = shape, made, dtype
    return there_plan(
        first.device,
        _head(family, name),
        _settings(n, [] if straight else axes),
        tuple(_read(at + k, each, result) for k, each in enumerate(operands)),
        (n * item, reach_of(result), _in_order(order, shape), dtype),
        out=-1 if out is None else at + 3,
        back=_inverse(order),
        before=before,
        after=after,
        factor=-1 if factor is None else 0,
        factor_dtype=name,
        how=(variant, block),
    )


def _plan_add(x: Any, y: Any, variant: Any, out: Any, block: Any, device: Any) -> _core.Plan | None:
    if isinstance(x, View) or isinstance(y, View):
        return _there("add", _ADDED, [x, y], None, variant, out, block, device)
    return _planned_vector("add", _ADDED, [x, y], None, variant, out, block, device)


def _plan_saxpy(
    a: Any, x: Any, y: Any, variant: Any, out: Any, block: Any, device: Any
) -> _core.Plan | None:
    if a is None:  # would be a sum's plan; the general function raises
        return None
    if isinstance(x, View) or isinstance(y, View):
        return _there("saxpy", _SCALED, [x, y], a, variant, out, block, device)
    return _planned_vector("saxpy", _SCALED, [x, y], a, variant, out, block, device)


def _add(x: Any, y: Any, variant: Any, out: Any, block: Any, device: Any) -> Any:
    """Add any operands: lists, subclasses, arrays on a device."""
    # The result's library is that of the first array.
    given = {"y": y, "x": x} if type(x) in (int, float) else {"x": x, "y": y}
    views, back = _on_device(_ADDED, device, out is None, **given)
    if views:
        call = device_calls.described(add_problem, views)
        return device_calls.run(call, views, variant, block, out, in_place=True, back=back)

    def run_on_host(x: Any, y: Any) -> np.ndarray:
        return _on_host(add_problem(x, y), None, variant, block, device, out)

    return in_k_order(run_on_host, x, y, out)


def _on_host(
    problem: Problem, factor: Any, variant: Any, block: Any, device: Any, out: Any
) -> np.ndarray:
    """Run a sum of host arrays: by NumPy where it is the cpu's, which has no rung for the dtype."""
    family, name = problem.family, name_of(problem.dtype)
    named = variant is not None or block is not None
    if name in NUMBERS or named or _kind_of_call(family, name, None, None, device) != "cpu":
        return run(problem, (variant, block, device), out)
    if out is not None:
        check_out(out, problem.shape, problem.dtype)
    x, y = problem.inputs
    with np.errstate(all="ignore"):
        found = np.add(x if factor is None else problem.dtype.type(factor) * x, y)
        if out is not None:
            np.copyto(out, found, casting="same_kind")
    return np.asarray(found) if out is None else out


def _saxpy(a: Any, x: Any, y: Any, variant: Any, out: Any, block: Any, device: Any) -> Any:
    views, back = _on_device(_SCALED, device, out is None, x=x, y=y)
    if views:
        if type(a) in (int, float):
            call = device_calls.described(_saxpy_of, views)
            size, _ = call.numbers
            call = call._replace(numbers=(size, inout.bits(a, call.dtype)))
        else:
            call = device_calls.described(_saxpy_by, views, a)
        return device_calls.run(call, views, variant, block, out, in_place=True, back=back)

    def run_on_host(x: Any, y: Any) -> np.ndarray:
        return _on_host(saxpy_problem(a, x, y), a, variant, block, device, out)

    return in_k_order(run_on_host, x, y, out)


_OTHERS = ("variant", "out", "block", "device")
_ADD, _SAXPY = ("x", "y", *_OTHERS), ("a", "x", "y", *_OTHERS)
_entry_add = _core.Entry("aakokd", _ADD, *engines.entry("add", _ADD, _plan_add, _add), quick_view)
_entry_saxpy = _core.Entry(
    "aaakokd", _SAXPY, *engines.entry("saxpy", _SAXPY, _plan_saxpy, _saxpy), quick_view
)
_run_add, _run_saxpy = _entry_add.run, _entry_saxpy.run


@_entry_add.front
@suggests
def add(
    x: ArrayLike,
    y: ArrayLike,
    *,
    variant: VectorRung | int | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    **unknown: Any,
) -> np.ndarray:
    """Add two arrays, on a rung of the decks' first ladder.

    Parameters
    ----------
    x, y : array_like
        Arrays of bool, an integer type, float16, bfloat16, float32 or float64 whose shapes
        broadcast together. Or two arrays of one dtype on a device, or one and a Python number.
        Operands of any layout are read in place: only rungs 1 to 7, if named, require contiguous
        arrays of one shape, and other operands are copied for them; they have int32, int64, float32
        and float64. The result is on that device, of x's library (of y's if x is a number), and the
        call does not wait.
    variant : int or str, optional
        The rung, by number or by name: 1 "one-thread", 2 "blocks" (of one thread), 3 "threads" (of
        one block: at most 1,024 elements), 4 "blocks-threads" (a multiple of the block), 5
        "bounds", 6 "grid-stride", 7 "vector" and 8 "strided" are CUDA kernels, "serial", "openmp"
        and "simd" run on the cpu. Default: the best for the device and the layouts.
    out : ndarray, optional
        Receives the result and is returned. On the host it may overlap `x` and `y`; on a device it
        may be `x` or `y`, but must not overlap them in part; it may have gaps.
    block : int, optional
        Threads per block, a power of two from 32 to 1024 (rungs 4 to 8). Default: the deck's 512;
        for rungs 7 and 8, 128.
    device : str or list of str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray
        x + y, bit for bit as NumPy's; integers wrap. A new array's axes have NumPy's order in
        memory, "K": that of the operands' strides. Arrays of gpuopt, JAX and Numba have C order.

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
    from a multiple of 16 bytes, else single elements. Rung 8 stores 16 bytes where the result is
    one aligned run, and loads them from operands that are adjacent and aligned there; rows of
    elements of 1 and 2 bytes that begin anywhere are read by words of 4 bytes.

    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), vector addition; rung 7's
    loads of float4, deck D2 (CUDA Deep Dive, Georgia Tech 2013).

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.add([1, 2, 3], [10, 20, 30], device="cpu")
    array([11, 22, 33])
    """
    if unknown:
        raise misspelt(add, unknown)
    return _run_add(x, y, variant, out, block, device)


@_entry_saxpy.front
@suggests
def saxpy(
    a: float,
    x: ArrayLike,
    y: ArrayLike,
    *,
    variant: VectorRung | int | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    **unknown: Any,
) -> np.ndarray:
    """Return a * x + y, on the rungs of `gpuopt.add`.

    Parameters
    ----------
    a : float
        The factor. A NumPy scalar takes part in the promotion of dtypes, a Python number does not.
    x, y : array_like
        Arrays whose shapes broadcast together; the common dtype must be float32, float64, float16
        or bfloat16. Or arrays on a device, as for `gpuopt.add`, where x or y may be a number.
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
    if unknown:
        raise misspelt(saxpy, unknown)
    if type(a) is int and a.bit_length() > 63:  # NumPy has no integer of this size
        try:
            a = float(a)
        except OverflowError:
            raise OverflowError("a: is too large for float64") from None
    return _run_saxpy(a, x, y, variant, out, block, device)
