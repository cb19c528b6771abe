"""Reductions along axes, and operations without a ufunc: mean, any, all, count, arg*.

Every reduction is one or more passes in the order of memory (axis_plan.py). This module holds
NumPy's rules and the calls on host arrays; device_reduce.py has those on a device.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.dtypes import TYPES, is_bfloat16, kind_of, name_of, named_dtype, supported
from gpuopt.families.axis_plan import (
    PLACES,
    TRUTHS,
    memory_order,
    scheme_of,
)
from gpuopt.families.plans import kernel_plan
from gpuopt.util.errors import AxisError
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.names import unknown_name

RULES = {rule["name"]: rule for rule in _core.rules()}  # numpy_rules.def
UFUNCS = {op: getattr(np, rule["ufunc"]) for op, rule in RULES.items() if rule["ufunc"]}
IDENTITIES = {op: int(rule["identity"]) for op, rule in RULES.items() if rule["identity"]}
OTHERS = tuple(op for op in RULES if op not in UFUNCS)  # operations of this module only
_ON_LADDER = frozenset("?ilqfd")  # the kernels' dtypes by character: comparing names costs more


def once(array: object) -> object:
    """Convert an array_like to an array: its dtype must be known before it is read."""
    if isinstance(array, np.ndarray):
        return array
    try:
        return np.asarray(array)
    except Exception:  # the next reader raises
        return array


@lru_cache(512)
def on_ladder(given: np.dtype, op: str, result: np.dtype | None) -> bool:
    """Return whether the ladder has kernels from a dtype to the result's (None: NumPy's)."""
    if given.char not in _ON_LADDER or op not in UFUNCS:
        return False
    if result is None:
        return given.kind != "f" or op not in ("and", "or", "xor")
    if op not in ("sum", "prod"):
        return result == given
    if given.kind == "f":
        return result.kind == "f" and given.itemsize <= result.itemsize <= 8
    return result.kind in "iu"


def on_cpu(variant: Any, block: Any, device: str | None) -> bool:
    """Return whether a call of the family reduce_axis runs on the cpu."""
    head = ("reduce_axis", "sum", "float32", "float64")
    return _core.call_kind(head, variant, block, device) == "cpu"


def serves_whole(
    array: object,
    op: object,
    variant: object,
    dtype: object,
    out: object,
    block: object,
    device: str | None,
) -> bool:
    """Return whether the dtypes of a reduction of a whole array require this family.

    The ladder's kernels cover bool, int32, int64, float32 and float64; on the cpu all but bfloat16.
    """
    if variant is not None or block is not None or not isinstance(array, np.ndarray):
        return False
    given, result = array.dtype, None
    if dtype is None and out is None and given.char in _ON_LADDER:  # most calls
        return False
    if not isinstance(op, str) or op not in UFUNCS or not supported(given):
        return False
    if dtype is not None:
        result = named_dtype(dtype)
    elif isinstance(out, np.ndarray):
        result = result_dtype(op, given, None, out.dtype)
    if is_bfloat16(given) or (result is not None and is_bfloat16(result)):
        return True
    if on_ladder(given, op, result) or (result is not None and on_ladder(result, op, result)):
        return False  # the ladder reads them as the result's dtype
    return not on_cpu(None, None, device)


def plan_whole(
    array: np.ndarray, op: str, variant: Any, dtype: object, out: Any, block: Any, device: Any
) -> _core.Plan:
    """Plan a reduction of a whole host array on the ladder; raise for unsupported arguments."""
    check_op(op)
    check_dtype(array.dtype)
    given = array.dtype.newbyteorder("=")
    result = result_dtype(op, given, dtype, out.dtype if isinstance(out, np.ndarray) else None)
    if out is not None:
        check_out(out, (), op, dtype, result)
    head = ("reduce", op, name_of(given), name_of(result))
    converts = dtype is not None or out is not None
    return _core.Plan("whole", (head, converts, variant, block, device))


def check_op(op: object) -> None:
    """Raise for an unknown operation."""
    if not isinstance(op, str):
        raise TypeError(f"op: must be a string, not {op!r}")
    if op not in UFUNCS and op not in OTHERS:
        raise ValueError(unknown_name("op", op, "an operation", (*UFUNCS, *OTHERS)))


def check_dtype(dtype: np.dtype) -> None:
    """Raise TypeError for elements that no kernel reads."""
    if not supported(dtype):
        raise TypeError(f"array: dtype {dtype} is not supported; {TYPES} (array.astype(...))")


def axes_of(axis: object, ndim: int, op: str) -> tuple[int, ...]:
    """Return the reduced axes, from 0; errors are NumPy's."""
    if axis is None:
        return tuple(range(ndim))
    if op in PLACES and isinstance(axis, tuple):
        raise TypeError(f"axis: op={op!r} takes one axis or None, not {axis!r}")
    found = []
    for each in axis if isinstance(axis, tuple) else (axis,):
        try:
            if isinstance(each, bool):
                raise TypeError
            number = operator.index(each)
        except TypeError:
            raise TypeError(
                f"axis: must be an integer, a tuple of integers or None, not {axis!r}"
            ) from None
        if not ndim and number in (0, -1) and each is axis and op != "mean":  # NumPy accepts it
            break
        if not -ndim <= number < ndim:
            raise AxisError(number, ndim, "axis")
        found.append(number % ndim)
    if len(set(found)) != len(found):
        raise ValueError(f"axis: duplicate value in {axis!r}")
    return tuple(found)


def result_dtype(op: str, given: np.dtype, dtype: object, out: np.dtype | None) -> np.dtype:
    """Return the dtype that the operation computes in and returns, by NumPy's rules.

    `out` is the dtype of an array that receives the result.
    """
    named = None if dtype is None else named_dtype(dtype).newbyteorder("=")
    if out is not None and named is None and RULES[op]["dtype"]:
        if not supported(out):
            raise TypeError(
                f"out: dtype {out} is not supported; name another to compute in with dtype="
            )
        out = out.newbyteorder("=")
    result = _core.result_dtype(op, given, named, out)
    if not supported(result):
        raise TypeError(f"dtype: {result} is not supported; {TYPES}")
    # Not the other of two C types with the same size.
    return result if named is not None or result.kind == "V" else np.dtype(result.str)


def check_kind(op: str, dtype: np.dtype) -> None:
    """Raise TypeError if an operation does not accept elements of a dtype."""
    if kind_of(dtype) not in RULES[op]["kinds"]:
        raise TypeError(f"array: op={op!r} does not support dtype {name_of(dtype)}")


def computed_on(op: str, given: np.dtype, result: np.dtype, *, on_cpu: bool = False) -> np.dtype:
    """Return the dtype that the elements must have for the operation, usually their own.

    The cpu multiplies small integers and complex64 without conversion.
    """
    if op in PLACES:
        return given
    if op in TRUTHS:
        return np.dtype(bool) if given.kind == "c" and given.itemsize == 16 else given
    narrow = not on_cpu and given.itemsize == 2 and kind_of(given) == "f"  # adds up float32
    if op == "mean":
        if result.kind == "c" or given.kind == "c" or (narrow and result.itemsize == 8):
            return result
        floats = kind_of(given) == "f" and kind_of(result) == "f"
        return result if floats and result.itemsize < given.itemsize else given
    if op not in ("sum", "prod"):
        return result
    whole = given.kind in "biu" and result.kind in "iu"
    wider = kind_of(given) == kind_of(result) and result.itemsize >= given.itemsize
    wider = wider and not (narrow and result.itemsize == 8)
    wanted = given if whole or wider else result
    if on_cpu and wanted.kind in "iuc":
        return wanted
    if op == "prod" and wanted.kind == "c":
        return np.dtype(np.complex128)
    if op == "prod" and wanted.kind in "iu":
        return np.dtype(np.uint64 if wanted.kind == "u" else np.int64)
    if op == "prod" and wanted.itemsize == 2:
        return np.dtype(np.float32)
    return wanted


def _plan_of(
    array: np.ndarray,
    op: str,
    axes: tuple[int, ...],
    keepdims: bool,
    result: np.dtype,
    wide: np.dtype,
    how: tuple[Any, Any, Any],
    out: np.ndarray | None = None,
) -> tuple[_core.Plan, np.dtype]:
    """Plan a reduction of a non-empty array, which is argument 0 of the call; `out` is argument 6.

    Return the plan and the dtype that it returns: `wide` (the result's dtype, or one that is
    rounded to it), or one that the caller converts. `how` is (variant, block, device).
    """
    cpu = on_cpu(*how)
    wanted = computed_on(op, array.dtype.newbyteorder("="), result, on_cpu=cpu)
    convert, order, items = None, None, array
    # The cpu reads strided elements; a GPU gets a copy of them.
    if wanted != array.dtype or not array.flags.aligned or not (cpu or _is_dense(array)):
        convert, items = wanted, np.empty_like(array, wanted, subok=False)
    scheme = scheme_of(items.shape, items.strides, items.dtype, op, axes, wide, not cpu)
    if not scheme.passes:
        convert, order, items = wanted, tuple(range(array.ndim)), np.empty(array.shape, wanted)
        scheme = scheme_of(items.shape, items.strides, items.dtype, op, axes, wide, not cpu)
    # Equal dtypes may have two characters, NumPy's l and q: keep the result's.
    dtype, layout = wide if scheme.between == wide else scheme.between, scheme.layout
    left = [k for k in range(array.ndim) if keepdims or k not in axes]
    shape = tuple(1 if k in axes else array.shape[k] for k in left)
    made, view = shape, None
    if not layout.straight:
        made = tuple(array.shape[k] for k in layout.order if k not in axes)
        kept = [k for k in range(array.ndim) if k not in axes]
        steps = dict(zip(kept, layout.steps, strict=True))
        strides = tuple(steps.get(k, 1) * dtype.itemsize for k in left)
        view = (shape, strides, layout.result * dtype.itemsize)
    read = (array,) if convert is None else ()
    direct = out is not None and view is None and inout.takes_result(out, dtype, read)
    plan = kernel_plan(
        [(one.kernel, one.numbers, (one.bytes,), one.result_bytes) for one in scheme.passes],
        ((0, layout.start) if convert is None else (0, layout.start, convert, order),),
        (dtype, made, None, view, False, True),
        how,
        out=-1 if out is None else 6,
        direct=direct,
    )
    return plan, dtype


def _is_dense(array: np.ndarray) -> bool:
    """Return whether the elements fill one run of memory, in any order of axes and directions."""
    order, _ = memory_order(array.shape, array.strides)
    size = array.itemsize
    for k in reversed(order):
        if array.shape[k] > 1 and abs(array.strides[k]) != size:
            return False
        size *= array.shape[k]
    return True


def _reduced(
    array: np.ndarray,
    op: str,
    axes: tuple[int, ...],
    result: np.dtype,
    wide: np.dtype,
    how: tuple[Any, Any, Any],
) -> np.ndarray:
    """Return the reduction of a non-empty array, as an array over the kept axes.

    Its dtype is `wide`: the result's, or one that the caller rounds to it.
    """
    plan, _ = _plan_of(array, op, axes, False, result, wide, how)
    return np.asarray(plan.run(array)).astype(wide, copy=False)


def with_initial(op: str, result: np.dtype) -> np.dtype:
    """Return the dtype in which results are combined with `initial`, before rounding."""
    if op not in ("sum", "prod") or kind_of(result) not in "fc":
        return result
    return np.dtype(np.complex128 if result.kind == "c" else np.float64)


def first_of(initial: Any, result: np.dtype) -> np.ndarray:
    """Return `initial` as a value of the result's dtype, by NumPy's rules."""
    if is_bfloat16(result):
        return _core.initial(initial, np.dtype(np.float64)).astype(result)
    return _core.initial(initial, result)


def join(op: str, first: Any, other: Any) -> Any:
    """Combine results of an operation with a ufunc; -0 is less than +0, as on every device."""
    found = UFUNCS[op](first, other)
    if op not in ("min", "max") or kind_of(found.dtype) != "f":
        return found
    zero = first + other if op == "max" else -(-first - other)
    return np.where((first == 0) & (other == 0), zero, found)


def keeps_sign(initial: Any) -> bool:
    """Return whether a sum with this `initial` of negative zeros is a negative zero."""
    if initial is None:
        return True
    return isinstance(initial, (float, np.floating)) and initial == 0 and bool(np.signbit(initial))


def from_the_start(
    found: Any, array: np.ndarray, op: str, axis: object, keepdims: bool, initial: Any
) -> Any:
    """Return results with `initial` as the starting value where its place among the others counts.

    It does for a product that overflows or underflows, and for a sum of zeros that are all
    negative. `found` is changed if it is an array.
    """
    results = np.asarray(found)
    if initial is ... or op not in ("sum", "prod") or kind_of(results.dtype) not in "fc":
        return found
    axes = axes_of(axis, array.ndim, op)
    if op == "prod" and initial is not None:
        some = (results == 0) | ~np.isfinite(results)
        if not some.any() or not array.size:
            return found
        # In order, as NumPy does, and from values of the result's dtype.
        wide, narrow = with_initial(op, results.dtype), array.astype(results.dtype, copy=False)
        first = first_of(initial, results.dtype).astype(wide)[()]
        again = np.multiply.reduce(
            narrow.astype(wide, copy=False), axes, keepdims=keepdims, initial=first
        ).astype(results.dtype)
    elif op == "sum" and results.dtype.kind == array.dtype.kind == "f":
        if not keeps_sign(initial):
            return found
        some = results == 0
        if not some.any():
            return found
        some &= np.signbit(array).all(axes, keepdims=keepdims)
        again = np.negative(np.zeros_like(results))
    else:
        return found
    if isinstance(found, np.ndarray):
        np.copyto(found, again, where=some, casting="unsafe")
        return found
    return again[()] if some else found


def of_nothing(op: str, shape: tuple[int, ...], result: np.dtype, initial: Any) -> np.ndarray:
    """Return the reduction of an empty array."""
    if op in PLACES:
        raise ValueError(f"array: attempt to get {op} of an empty sequence")
    if op == "mean":
        return np.full(shape, np.nan if kind_of(result) in "fc" else 0, result)
    if initial is not ... and initial is not None:
        return np.full(shape, first_of(initial, result), result)
    if op not in IDENTITIES or initial is None:
        raise ValueError(
            f"zero-size array to reduction operation {UFUNCS[op].__name__} which has no "
            "identity; pass initial="
        )
    return np.full(shape, np.array(IDENTITIES[op]).astype(result), result)


def check_out(out: Any, shape: tuple[int, ...], op: str, dtype: object, result: np.dtype) -> None:
    """Raise NumPy's errors for an unusable `out`; indices go to any integer type."""
    free = dtype is None and (op in UFUNCS or op == "mean")  # NumPy casts to anything then
    if op in PLACES and isinstance(out, np.ndarray):
        if out.dtype.kind not in "iu":
            raise TypeError(f"out: must be of an integer type for op={op!r}, not {out.dtype}")
        free = True
    inout.check_out(out, shape, out.dtype if free and isinstance(out, np.ndarray) else result)


def _whole_mean(
    array: np.ndarray,
    axis: object,
    axes: tuple[int, ...],
    keepdims: bool,
    variant: Any,
    result: np.dtype,
    out: np.ndarray | None,
    block: Any,
    device: Any,
) -> Any:
    """Return a mean in an integer dtype: the elements are converted first, as in NumPy."""
    items = array.astype(result, casting="unsafe")
    total = reduce_axis(items, "sum", axis, keepdims, variant, result, None, ..., block, device)
    count = math.prod(array.shape[k] for k in axes)
    found = np.true_divide(total, count).astype(result, casting="unsafe")
    if out is None:
        return found if found.ndim else found[()]
    check_out(out, found.shape, "mean", result, result)
    np.copyto(out, found, casting="unsafe")
    return out


@in_default_float_state
def reduce_axis(
    array: object,
    op: str,
    axis: object,
    keepdims: bool,
    variant: int | str | None,
    dtype: object,
    out: np.ndarray | None,
    initial: Any,
    block: int | None,
    device: str | None,
) -> Any:
    """Reduce an array along axes; the arguments are `gpuopt.reduce`'s."""
    check_op(op)
    array = inout.array_in(array, "array")
    check_dtype(array.dtype)
    axes = axes_of(axis, array.ndim, op)
    if op in OTHERS and initial is not ...:
        raise ValueError(f"initial: op={op!r} takes none")
    given = out.dtype if isinstance(out, np.ndarray) else None
    result = result_dtype(op, array.dtype.newbyteorder("="), dtype, given)
    if op == "mean" and dtype is not None and result.kind in "biu":
        return _whole_mean(array, axis, axes, keepdims, variant, result, out, block, device)
    kept = tuple(size for k, size in enumerate(array.shape) if k not in axes)
    shape = tuple(1 if k in axes else s for k, s in enumerate(array.shape)) if keepdims else kept
    if out is not None:
        check_out(out, shape, op, dtype, result)
    check_kind(op, computed_on(op, array.dtype, result))
    starts = initial is not ... and initial is not None
    first = first_of(initial, result) if starts else None
    if array.size == 0:
        empty = math.prod(array.shape[k] for k in axes) == 0
        found = of_nothing(op, kept, result, initial) if empty else np.empty(kept, result)
    else:
        wide = with_initial(op, result) if starts else result
        found = _reduced(array, op, axes, result, wide, (variant, block, device))
        if first is not None:
            found = join(op, first.astype(wide), found).astype(result, copy=False)
    found = np.asarray(found).reshape(shape)
    if out is None:
        return found if found.ndim else found[()]
    np.copyto(out, found, casting="unsafe")
    return out


def plan_axis(
    array: np.ndarray,
    op: str,
    axis: object,
    keepdims: bool,
    variant: Any,
    dtype: object,
    out: np.ndarray | None,
    block: Any,
    device: Any,
) -> _core.Plan | None:
    """Plan a reduction of a host array; None for calls of the general function."""
    check_op(op)
    if not supported(array.dtype) or not array.size:
        return None
    axes = axes_of(axis, array.ndim, op)
    native = array.dtype.newbyteorder("=")
    result = result_dtype(op, native, dtype, None if out is None else out.dtype)
    if op == "mean" and dtype is not None and result.kind in "biu":
        return None
    how = (variant, block, device)
    check_kind(op, computed_on(op, native, result, on_cpu=on_cpu(*how)))
    left = [k for k in range(array.ndim) if keepdims or k not in axes]
    shape = tuple(1 if k in axes else array.shape[k] for k in left)
    if out is not None:
        check_out(out, shape, op, dtype, result)
    converts = op not in PLACES and (op != "count" or native.kind == "b")
    zero = op in ("sum", "mean") and kind_of(result) in "fc"  # sums begin with it
    converts = converts and not (zero and result.itemsize == 2)  # NumPy adds to halves slowly
    if converts and math.prod(array.shape[k] for k in axes) == 1:
        plain = variant is None and block is None and on_cpu(*how)
        if plain and (out is None or (out.dtype == result and inout.apart(out, array))):
            return _core.Plan("cast", (0, shape, result, -1 if out is None else 6, zero))
    plan, made = _plan_of(array, op, axes, keepdims, result, result, how, out)
    return plan if made == result else None
