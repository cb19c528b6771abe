"""`gpuopt.reduce` of arrays on a device: the whole array on the ladder, or along axes.

All other cases (axes, gaps, small dtypes, operations without a ufunc) use the family reduce_axis:
a cached plan from shape and strides, and its passes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from gpuopt import _core
from gpuopt.arrays.dtypes import TYPES, is_bfloat16, kind_of, named_dtype, supported
from gpuopt.arrays.inout import check_out
from gpuopt.arrays.libraries import View, check_device, is_run, run_offset, run_start, view_of
from gpuopt.families import reduce_axis
from gpuopt.families.axis_plan import Pass, scheme_of
from gpuopt.families.device_axes import PassQueue, compact, copy, in_c_order, on_items, strides_of
from gpuopt.families.device_calls import (
    asarray,
    check_apart,
    check_target,
    reach,
    same_device,
    settle,
    target_of,
)
from gpuopt.families.reduce_axis import IDENTITIES, OTHERS, UFUNCS, on_ladder


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
    if target is not None and dtype is None and type(op) is str and op in UFUNCS:
        dtype = target.dtype  # a result on the device is never cast
    if axis is None and not keepdims and type(op) is str and op not in OTHERS:
        named = variant is not None or block is not None
        if not named and initial is ...:
            found = None if out is None or target is not None else _value(view, op, dtype, out)
            if found is not None:
                return found
        start = run_start(view)
        in_turn = op == "prod" and initial is not ... and initial is not None
        if not named and (in_turn or (op == "sum" and reduce_axis.keeps_sign(initial))):
            start = None  # the family reduce_axis has `initial` as the starting value
        if named and start is None:
            view = compact(view)
            start = view.address
        computed = dtype
        if out is not None and dtype is None and op in UFUNCS:
            computed = reduce_axis.result_dtype(op, view.dtype, None, out.dtype)
        if named or (start is not None and on_ladder(view.dtype, op, computed)):
            if target is None and out is not None:
                check_out(out, (), out.dtype if dtype is None else dtype)
            return _whole(view, start, op, variant, computed, out, target, initial, block)
    return _along(view, op, axis, keepdims, (variant, block), dtype, out, target, initial)


def plan(
    view: View, op: Any, axis: Any, keepdims: bool, dtype: Any, out: View | None, device: Any
) -> _core.Plan | None:
    """Plan a reduction that is one launch; None for calls of `reduce`."""
    if device is not None:
        check_device(view, device)
    if not isinstance(op, str) or (out is not None and out.read_only):
        return None
    if dtype is not None:
        dtype = named_dtype(dtype)
    elif out is not None and op in UFUNCS:
        dtype = out.dtype  # a result on the device is never cast
    layout, to = (view.shape, view.strides, view.dtype), None
    if out is not None:
        to = out.shape, out.strides, out.dtype
    call, shape = None, ()
    if axis is None and not keepdims and op not in OTHERS:
        call, result = _whole_call(layout, view.device, op, dtype, to)
    if call is None:
        axes = reduce_axis.axes_of(axis, len(view.shape), op)
        given = None if out is None else out.dtype
        asked = _asked(layout, view.device, op, axes, keepdims, dtype, given, to and to[:2])
        call, shape, result = asked.call, asked.shape, asked.result
    if call is None:
        return None
    return _core.Plan("resident", (call, (0,), -1 if out is None else 6, shape, result, -1, None))


_Layout = tuple[tuple[int, ...], tuple[int, ...] | None, np.dtype]  # shape, strides, dtype


def _reaches(*layouts: _Layout) -> tuple[tuple[int, int, int, bool], ...]:
    """Return the extents of a prepared call's arrays, which the result must not overlap."""
    found = []
    for shape, strides, dtype in layouts:
        low, high = reach(shape, strides, dtype.itemsize)
        found.append((low, high, dtype.itemsize, False))
    return tuple(found)


# --- on the ladder


def _default(op: str, given: np.dtype) -> np.dtype:
    """Return NumPy's dtype of the result, for a caller who names none."""
    if op in ("sum", "prod") and given.kind in "biu":
        return np.dtype(np.uint64 if given.kind == "u" else np.int64)
    return given


@lru_cache(512)
def _whole_call(
    layout: _Layout, device: str, op: str, dtype: np.dtype | None, to: _Layout | None
) -> tuple[_core.Prepared | None, np.dtype]:
    """Return the ladder's call for an array and an `out` of these layouts, and the result's dtype.

    None if the ladder has no such kernel, the array has gaps, or `out` is unusable.
    """
    shape, strides, given = layout
    start = run_offset(shape, strides, given.itemsize)
    result = _default(op, given) if dtype is None else dtype
    fits = to is None or (to[0] == () and to[2] == result)
    n = math.prod(shape)
    ladder = on_ladder(given, op, dtype)
    if not (fits and n and ladder and result.isnative) or start is None:
        return None, result
    items = (start, n * given.itemsize), (0, result.itemsize)
    problem = ("reduce", op, given.name, result.name, items[:1], items[1], (n,))
    return _core.Prepared(device, problem, _reaches(layout, ((), None, result))), result


def _value(view: View, op: str, dtype: np.dtype | None, out: np.ndarray) -> np.ndarray | None:
    """Set an `out` on the host to the ladder's result; None for other cases."""
    layout = view.shape, view.strides, view.dtype
    call, result = _whole_call(layout, view.device, op, dtype, None)
    if call is None or out.shape or out.dtype != result or not out.flags.writeable:
        return None
    value = call.value(view)
    if value is None:
        return None
    out[()] = value
    return out


def _whole(
    view: View,
    start: int,
    op: str,
    variant: int | str | None,
    dtype: np.dtype | None,
    out: Any,
    target: View | None,
    initial: Any,
    block: int | None,
) -> Any:
    made, queues, address = None, (view.stream,), 0
    if out is None:
        result = dtype if dtype is not None else _default(op, view.dtype)
        made, target = view.library.empty(view, (), result)
    else:
        result = dtype
    if made is None and target is not None:
        check_target(target, (), result)
        if target.device != view.device:
            same_device([("array", view), ("out", target)])
    if target is not None:  # else the host's: the one way to have the value there at once
        address = target.address
        if target.stream != view.stream:
            queues = (view.stream, target.stream)
    n = math.prod(view.shape)
    try:
        value = _core.reduce_resident(
            view.device, queues, start, n, view.dtype, op, variant, result, initial, block, address
        )
    finally:  # some of it may be queued where it failed
        if target is not None and (view.waits or target.waits):
            settle([view, target])
    if target is None:
        out[()] = value
    return out if made is None else view.library.finish(made)


# --- along axes


def _passes(queue: PassQueue, passes: tuple[Pass, ...], source: int, to: int) -> None:
    *before, last = passes
    for one in before:
        between = queue.empty((one.results,), one.dtype)
        queue.call(one, source, between.address)
        keep, source = between, between.address  # noqa: F841 (the memory is read yet)
    queue.call(last, source, to)


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
    wide = reduce_axis.with_initial(op, target.dtype)
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
    view = _readable(queue, view, op, target.dtype)
    floats = kind_of(target.dtype) == "f"
    if initial is ... or initial is None:
        _reduced(queue, view, op, axes, target)
    elif op == "prod" and floats:
        _product(queue, view, axes, initial, target)
    else:
        _with_initial(queue, view, op, axes, initial, target)
    if op == "sum" and floats and view.dtype == target.dtype and reduce_axis.keeps_sign(initial):
        _signed(queue, view, axes, target)


class _Asked(NamedTuple):
    """A reduction of a layout, and its prepared call if that is one pass.

    Attributes
    ----------
    result : dtype
    shape : tuple of int
        The result's.
    axes : tuple of int
    call : Prepared or None
        The call for an array and an `out` of these layouts.
    """

    result: np.dtype
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    call: _core.Prepared | None


def _in_one_pass(
    layout: _Layout, to: _Layout, device: str, op: str, axes: tuple[int, ...]
) -> _core.Prepared | None:
    """Return the prepared call if one pass gives the result in its dtype and layout."""
    (shape, strides, given), (left, steps, result) = layout, to
    scheme = scheme_of(shape, strides or in_c_order(shape, given), given, op, axes, result)
    if not scheme.straight or len(scheme.passes) != 1 or not is_run(left, steps, result.itemsize):
        return None
    one = scheme.passes[0]
    problem = (
        *one.kernel,
        ((scheme.layout.start, one.bytes),),
        (0, one.result_bytes),
        one.numbers,
    )
    return _core.Prepared(device, problem, _reaches(layout, to))


@lru_cache(512)
def _asked(
    layout: _Layout,
    device: str,
    op: str,
    axis: int | tuple[int, ...],
    keepdims: bool,
    dtype: np.dtype | None,
    out: np.dtype | None,
    to: tuple[tuple[int, ...], tuple[int, ...] | None] | None,
) -> _Asked:
    """Check the arguments; `out` is its dtype, `to` the shape and strides of one on the device."""
    shape, _, given = layout
    reduce_axis.check_op(op)
    axes = reduce_axis.axes_of(axis, len(shape), op) if type(axis) is int else axis
    if not supported(given):
        raise TypeError(
            f"array: dtype {given} is not supported; {TYPES} (convert the array on its device)"
        )
    result = reduce_axis.result_dtype(op, given, dtype, out)
    reduce_axis.check_kind(op, reduce_axis.computed_on(op, given, result))
    left = tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)
    as_asked = to is None or (to[0] == left and out == result)
    call = None
    if math.prod(shape) and reduce_axis.computed_on(op, given, result) == given and as_asked:
        call = _in_one_pass(layout, (*(to or (left, None)), result), device, op, axes)
    return _Asked(result, left, axes, call)


def _along(
    view: View,
    op: str,
    axis: object,
    keepdims: bool,
    how: tuple[int | str | None, int | None],
    dtype: np.dtype | None,
    out: Any,
    target: View | None,
    initial: Any,
) -> Any:
    if type(op) is not str:
        reduce_axis.check_op(op)
    if type(axis) is not int:  # that is looked at with the rest, once
        axis = reduce_axis.axes_of(axis, len(view.shape), op)
    host = out if target is None else None
    layout = (view.shape, view.strides, view.dtype)
    if target is not None:
        given, to = target.dtype, (target.shape, target.strides)
    else:
        given, to = None if out is None else out.dtype, None
    asked = _asked(layout, view.device, op, axis, bool(keepdims), dtype, given, to)
    if op in OTHERS and initial is not ...:
        raise ValueError(f"initial: op={op!r} takes none")
    if initial is not ... and initial is not None and np.ndim(initial):
        raise ValueError(
            f"initial: must be a scalar, not an array of {np.ndim(initial)} dimensions"
        )
    if host is not None:
        reduce_axis.check_out(host, asked.shape, op, dtype, asked.result)
    made = None
    if target is None:
        made, target = view.library.empty(view, asked.shape, asked.result)
    else:
        check_target(target, asked.shape, asked.result)
        if target.device != view.device:
            same_device([("array", view), ("out", target)])
        check_apart(target, "array", view)
    try:
        queue = PassQueue(view, *how)
        queue.join(target)
        _compute(queue, view, op, asked.axes, target, initial)
    finally:
        settle([view, target])
    if host is not None:
        np.copyto(host, asarray(made).get(), casting="unsafe")
        return host
    return out if made is None else view.library.finish(made)
