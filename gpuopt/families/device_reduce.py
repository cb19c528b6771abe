"""`gpuopt.reduce` of arrays on a device: the whole array on the ladder, or along axes.

All other cases (axes, gaps, small dtypes, operations without a ufunc) use the family reduce_axis:
a cached plan from shape and strides, and its passes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays.dtypes import TYPES, is_bfloat16, kind_of, name_of, named_dtype, supported
from gpuopt.arrays.libraries import View, check_device, is_run, run_offset, run_start, view_of
from gpuopt.families import reduce_axis
from gpuopt.families.axis_plan import Pass, scheme_of
from gpuopt.families.device_axes import (
    PassQueue,
    compact,
    copy,
    in_c_order,
    on_items,
    strides_of,
)
from gpuopt.families.device_calls import (
    Layout,
    asarray,
    check_apart,
    check_target,
    copy_step,
    layout_of,
    reach_of,
    same_device,
    target_of,
    there_plan,
)
from gpuopt.families.reduce_axis import IDENTITIES, OTHERS, UFUNCS, on_ladder

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def _target(out: Any) -> View | None:
    """Describe an `out` on the device; None for a new array or an `out` on the host."""
    if out is None or type(out) is np.ndarray:
        return None
    view = target_of(out)
    if view is not None:
        return view
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"out: return arrays must be of ArrayType, not {type(out)!r}")
    return None


def _is_whole(op: object, axis: object, keepdims: bool) -> bool:
    """Return whether a call is one of the reduction ladder's."""
    return axis is None and not keepdims and isinstance(op, str) and op not in OTHERS


def reduce(
    view: View,
    op: str,
    axis: object,
    keepdims: bool,
    variant: int | str | None,
    dtype: DTypeLike | None,
    out: Any,
    initial: Any,
    block: int | None,
    device: str | None,
) -> Any:
    """Reduce an array on a device; see `gpuopt.reduce`."""
    if device is not None:
        check_device(view, device)
    if dtype is not None:
        dtype = named_dtype(dtype).newbyteorder("=")
    target = _target(out)
    if target is not None and dtype is None and isinstance(op, str) and op in UFUNCS:
        dtype = target.dtype  # a result on the device is never cast
    how, ladder = (variant, block), None
    if initial is ... and (out is None or isinstance(out, np.ndarray) or target is not None):
        to = out if target is None else target
        planned = plan(view, op, axis, bool(keepdims), dtype, to, how, None)
        found = planned and planned.run(view, *(None,) * 5, to)
        if found is not None:
            return found if out is None else out
    if _is_whole(op, axis, keepdims):
        named, start, computed = _named(how), run_start(view), dtype
        if dtype is None and out is not None and op in UFUNCS:
            computed = reduce_axis.result_dtype(op, view.dtype, None, out.dtype)
        # The family reduce_axis has `initial` as the starting value.
        first = (op == "prod" and initial is not ... and initial is not None) or (
            op == "sum" and reduce_axis.keeps_sign(initial)
        )
        if named or (not first and start is not None and on_ladder(view.dtype, op, computed)):
            how, ladder = (None, None), how
            view = compact(view) if start is None else view
    return _along(view, op, axis, keepdims, how, ladder, dtype, out, target, initial)


def _named(how: tuple[Any, Any]) -> bool:
    """Return whether the caller names a rung or a block; arrays are refused later."""
    variant, block = how
    return variant is not None or block is not None


def plan(
    view: View,
    op: Any,
    axis: Any,
    keepdims: bool,
    dtype: Any,
    out: View | np.ndarray | None,
    how: tuple[Any, Any],
    device: Any,
) -> _core.Plan | None:
    """Plan a reduction; None for calls of `reduce`."""
    if device is not None:
        check_device(view, device)
    if not isinstance(op, str) or (isinstance(out, View) and out.read_only):
        return None
    if dtype is not None:
        dtype = named_dtype(dtype)
    elif isinstance(out, View) and op in UFUNCS:
        dtype = out.dtype  # a result on the device is never cast
    found = None
    if _is_whole(op, axis, keepdims):
        found = _plan_whole(view, op, dtype, out, how)
    if found is None and _named(how) and _is_whole(op, axis, keepdims):
        return None  # a rung of the ladder
    return found or _plan_along(view, op, axis, keepdims, dtype, out, how)


# --- on the ladder


def _plan_whole(
    view: View,
    op: str,
    dtype: np.dtype | None,
    out: View | np.ndarray | None,
    how: tuple[Any, Any],
) -> _core.Plan | None:
    """Plan a call of the ladder; None if it has no such kernel, or for unusual arrays."""
    given, n = view.dtype, math.prod(view.shape)
    start = run_offset(view.shape, view.strides, given.itemsize)
    ladder = on_ladder(given, op, dtype)
    if not n or not ladder or (start is None and not _named(how)):
        return None
    before = [copy_step(layout_of(view), given, 0)] if start is None else []
    host = isinstance(out, np.ndarray)
    result = reduce_axis.result_dtype(op, given, dtype, None)
    if out is not None and (out.shape, out.dtype) != ((), result):
        return None
    if not result.isnative or (host and not out.flags.writeable):
        return None
    extent = reach_of(((), None, result))
    return there_plan(
        view.device,
        ("reduce", op, given.name, result.name),
        (n,),
        ((0, start or 0, n * given.itemsize, reach_of(view)),),
        (result.itemsize, extent, (), result),
        out=-1 if out is None else 6,
        to_host=host,
        how=how,
        before=before,
    )


# --- along axes


def _passes(queue: PassQueue, passes: tuple[Pass, ...], source: int, to: int) -> None:
    *before, last = passes
    for one in before:
        between = queue.empty((one.results,), one.dtype)
        queue.call(one, source, between.address)
        keep, source = between, between.address  # noqa: F841 (the memory is read yet)
    queue.call(last, source, to)


def _on_ladder(queue: PassQueue, view: View, op: str, target: View) -> None:
    """Queue a reduction of a whole array without gaps on the ladder."""
    n, start = math.prod(view.shape), run_start(view)
    items, to = (start, n * view.dtype.itemsize), (target.address, target.dtype.itemsize)
    problem = ("reduce", op, name_of(view.dtype), name_of(target.dtype), (items,), to, (n,))
    _core.call(problem, *(queue.ladder or ()), queue.view.device, tuple(queue.streams))


def _readable(queue: PassQueue, view: View, op: str, result: np.dtype) -> View:
    """Return the view, or a copy with aligned elements of a dtype that `op` accepts."""
    wanted = reduce_axis.computed_on(op, view.dtype, result)
    if not on_items(view):
        view = queue.join(compact(view))
    if wanted == view.dtype:
        return view
    cast = queue.empty(view.shape, wanted)
    if view.dtype.kind == "c" and wanted.kind == "b":  # true if one of its two parts is
        number = np.dtype(f"f{view.dtype.itemsize // 2}")
        shape, strides = (*view.shape, 2), (*strides_of(view), number.itemsize)
        numbers = view.replace(shape=shape, strides=strides, dtype=number)
        _reduced(queue, numbers, "any", (len(view.shape),), cast)
    else:
        copy(queue, view, cast)
    return cast


def _reduced(queue: PassQueue, view: View, op: str, axes: tuple[int, ...], target: View) -> None:
    """Queue the reduction of a readable, non-empty array to `target`, which is in C order."""
    result = target.dtype
    if queue.ladder is not None and axes == tuple(range(len(view.shape))):
        _on_ladder(queue, view, op, target)
        return
    scheme = scheme_of(view.shape, strides_of(view), view.dtype, op, axes, result)
    if not scheme.passes:
        view = queue.join(compact(view))
        scheme = scheme_of(view.shape, strides_of(view), view.dtype, op, axes, result)
    source = view.address + scheme.layout.start
    if scheme.straight:
        _passes(queue, scheme.passes, source, target.address)
        return
    kept = tuple(size for k, size in enumerate(view.shape) if k not in axes)
    flat = queue.empty((math.prod(kept),), scheme.between)
    _passes(queue, scheme.passes, source, flat.address)
    size = scheme.between.itemsize
    turned = flat.replace(
        address=flat.address + scheme.layout.result * size,
        shape=kept,
        strides=tuple(step * size for step in scheme.layout.steps),
    )
    copy(queue, turned, target.replace(shape=kept, strides=None))


def _fill(queue: PassQueue, target: View, value: Any, dtype: np.dtype) -> None:
    """Fill an array with a value, which is rounded to a dtype first."""
    small = is_bfloat16(dtype)
    first = reduce_axis.first_of(value, np.dtype(float) if small else dtype)
    with np.errstate(all="ignore"):
        first = first if small else first.astype(target.dtype)
    one = queue.join(view_of(asarray(first, queue.view.device), "initial"))
    if small:  # NumPy may lack the dtype
        rounded = queue.empty((), dtype)
        copy(queue, one, rounded)
        one = rounded
    spread = one.replace(shape=target.shape, strides=(0,) * len(target.shape))
    copy(queue, spread, target.replace(strides=None))


def _nothing(queue: PassQueue, op: str, target: View, initial: Any) -> None:
    """Fill the results of an empty reduction."""
    one = reduce_axis.of_nothing(op, (), np.dtype(float), initial)
    if initial is not ... and op != "mean":
        value = initial
    elif op in IDENTITIES:
        value = np.array(IDENTITIES[op])  # -1 is all bits, of any dtype
        value = value if is_bfloat16(target.dtype) else value.astype(target.dtype)
    else:
        value = one
    if math.prod(target.shape):
        _fill(queue, target, value, target.dtype)


def _with_initial(
    queue: PassQueue, view: View, op: str, axes: tuple[int, ...], initial: Any, target: View
) -> None:
    """Queue the reduction of a readable array with `initial`, as a second row of two."""
    wide = target.dtype if queue.ladder else reduce_axis.with_initial(op, target.dtype)
    n = math.prod(target.shape)
    rows = queue.empty((2, n), wide)
    row = rows.replace(shape=(n,))
    _reduced(queue, view, op, axes, row)
    _fill(queue, row.replace(address=row.address + n * wide.itemsize), initial, target.dtype)
    _reduced(queue, rows, op, (0,), target.replace(shape=(n,), strides=None))


def _product(
    queue: PassQueue, view: View, axes: tuple[int, ...], initial: Any, target: View
) -> None:
    """Queue a product of floats from `initial` on: it meets the first element of each axis first.

    So a product overflows where that of all elements alone would, but no earlier.
    """
    wide, n = reduce_axis.with_initial("prod", target.dtype), math.prod(target.shape)
    steps, rest, parts = strides_of(view), view.replace(strides=strides_of(view)), []
    for k in axes:
        extent = rest.shape[k]
        if extent > 1:
            others = rest.shape[:k], rest.shape[k + 1 :]
            shape = (*others[0], extent - 1, *others[1])
            parts.append(rest.replace(address=rest.address + steps[k], shape=shape))
            rest = rest.replace(shape=(*others[0], 1, *others[1]))
    rows = queue.empty((2, n), wide)
    _fill(queue, rows.replace(shape=(n,)), initial, target.dtype)
    for number, part in enumerate((rest, *reversed(parts))):
        if number:
            following = queue.empty((2, n), wide)
            _reduced(queue, rows, "prod", (0,), following.replace(shape=(n,)))
            rows = following
        second = rows.replace(address=rows.address + n * wide.itemsize, shape=(n,))
        _reduced(queue, part, "prod", axes, second)
    _reduced(queue, rows, "prod", (0,), target.replace(shape=(n,), strides=None))


def _signed(queue: PassQueue, view: View, axes: tuple[int, ...], target: View) -> None:
    """Make a sum of negative zeros a negative zero: all its elements have the sign."""
    n, kind = math.prod(target.shape), np.dtype(f"i{view.dtype.itemsize}")
    whole = target.replace(shape=(n,), strides=None, dtype=kind)
    signs, both = queue.empty((2, n), kind), queue.empty((2, n), kind)
    for rows, fill in ((signs, np.iinfo(kind).min), (both, None)):
        second = rows.replace(address=rows.address + n * kind.itemsize, shape=(n,))
        if fill is None:
            copy(queue, whole, second)
        else:
            _fill(queue, second, fill, kind)
    _reduced(queue, view.replace(dtype=kind), "and", axes, signs.replace(shape=(n,)))
    _reduced(queue, signs, "and", (0,), both.replace(shape=(n,)))
    _reduced(queue, both, "or", (0,), whole)


def _compute(
    queue: PassQueue, view: View, op: str, axes: tuple[int, ...], target: View, initial: Any
) -> None:
    kept = tuple(size for k, size in enumerate(view.shape) if k not in axes)
    if math.prod(view.shape[k] for k in axes) == 0:
        _nothing(queue, op, target.replace(shape=kept, strides=None), initial)
        return
    if math.prod(view.shape) == 0:
        return
    if queue.ladder is None:
        view = _readable(queue, view, op, target.dtype)
    floats = kind_of(target.dtype) == "f" and queue.ladder is None
    if initial is ... or initial is None:
        _reduced(queue, view, op, axes, target)
    elif op == "prod" and floats:
        _product(queue, view, axes, initial, target)
    else:
        _with_initial(queue, view, op, axes, initial, target)
    if op == "sum" and floats and view.dtype == target.dtype and reduce_axis.keeps_sign(initial):
        _signed(queue, view, axes, target)


def _asked(
    layout: Layout,
    op: str,
    axis: object,
    keepdims: bool,
    dtype: np.dtype | None,
    out: np.dtype | None,
) -> tuple[np.dtype, tuple[int, ...], tuple[int, ...]]:
    """Check the arguments; return the result's dtype and shape, and the axes.

    `out` is the dtype of the array that receives the result.
    """
    shape, _, given = layout
    reduce_axis.check_op(op)
    axes = reduce_axis.axes_of(axis, len(shape), op)
    if not supported(given):
        raise TypeError(
            f"array: dtype {given} is not supported; {TYPES} (convert the array on its device)"
        )
    result = reduce_axis.result_dtype(op, given, dtype, out)
    reduce_axis.check_kind(op, reduce_axis.computed_on(op, given, result))
    left = tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)
    return result, left, axes


def _plan_along(
    view: View,
    op: str,
    axis: object,
    keepdims: bool,
    dtype: np.dtype | None,
    out: View | np.ndarray | None,
    how: tuple[Any, Any],
) -> _core.Plan | None:
    """Plan a reduction along axes; None for an empty array, or a result on the host."""
    layout = layout_of(view)
    given = None if out is None else out.dtype
    result, left, axes = _asked(layout, op, axis, keepdims, dtype, given)
    to = (left, None, result)
    if isinstance(out, np.ndarray) or not math.prod(view.shape):
        return None
    if out is not None:
        to = layout_of(out)
        if (out.shape, out.dtype) != (left, result) or not is_run(*to[:2], result.itemsize):
            return None
    wanted, before, kind = reduce_axis.computed_on(op, view.dtype, result), [], view.dtype.kind
    if kind == "c" and wanted.kind == "b":
        return None
    given, strides, start = view.dtype, strides_of(view), 0
    scheme = scheme_of(view.shape, strides, given, op, axes, result)
    exact = op in ("min", "max", "any", "all") or (op in ("sum", "prod") and kind in "biu")
    copies = exact and not _named(how) and math.prod(view.shape[k] for k in axes) == 1
    if copies and not scheme.straight:  # one pass, in the order of the result
        kernel, numbers, read, written, *_ = copy_step(layout, result, 0)
        inputs = ((0, 0, read, reach_of(view)),)
        made = (written, reach_of(to), left, result)
        return there_plan(view.device, kernel, numbers, inputs, made, out=-1 if out is None else 6)
    if wanted != given or not scheme.passes:
        before.append(copy_step(layout, wanted, 0))
        given, strides = wanted, in_c_order(view.shape, wanted)
        scheme = scheme_of(view.shape, strides, given, op, axes, result)
    else:
        start = scheme.layout.start
    first, *others = scheme.passes
    after = [(one.kernel, one.numbers, one.bytes, one.result_bytes, *how, 0) for one in others]
    if not scheme.straight:
        size = scheme.between.itemsize
        kept = tuple(extent for k, extent in enumerate(view.shape) if k not in axes)
        steps = tuple(step * size for step in scheme.layout.steps)
        made = (kept, steps, scheme.between)
        after.append(copy_step(made, result, scheme.layout.result * size))
    return there_plan(
        view.device,
        first.kernel,
        first.numbers,
        ((0, start, first.bytes, reach_of(view)),),
        (first.result_bytes, reach_of(to), left, result),
        out=-1 if out is None else 6,
        how=how,
        before=before,
        after=after,
    )


def _along(
    view: View,
    op: str,
    axis: object,
    keepdims: bool,
    how: tuple[Any, Any],
    ladder: tuple[Any, Any] | None,
    dtype: np.dtype | None,
    out: Any,
    target: View | None,
    initial: Any,
) -> Any:
    host = out if target is None else None
    given = (out if target is None else target).dtype if out is not None else None
    result, shape, axes = _asked(layout_of(view), op, axis, bool(keepdims), dtype, given)
    if op in OTHERS and initial is not ...:
        raise ValueError(f"initial: op={op!r} takes none")
    if isinstance(initial, list | tuple) or np.ndim(initial):
        raise ValueError(f"initial: must be a scalar, not {initial!r:.60}")
    if host is not None:
        reduce_axis.check_out(host, shape, op, dtype, result)
    if host is not None and not math.prod(view.shape[k] for k in axes):
        np.copyto(host, reduce_axis.of_nothing(op, shape, result, initial), casting="unsafe")
        return host
    made = None
    if target is None:
        made, target = view.library.empty(view, shape, result)
    else:
        check_target(target, shape, result)
        if target.device != view.device:
            same_device([("array", view), ("out", target)])
        if ladder is None:  # one element is written when all have been read
            check_apart(target, "array", view)
    try:
        queue = PassQueue(view, *how, ladder)
        queue.join(target)
        _compute(queue, view, op, axes, target, initial)
    finally:
        view.library.settle([view, target])
    if host is not None:
        np.copyto(host, asarray(made).get(), casting="unsafe")
        return host
    return out if made is None else view.library.finish(made)
