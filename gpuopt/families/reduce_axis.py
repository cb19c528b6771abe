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
from gpuopt.families.plans import apart, is_run, kernel_plan
from gpuopt.util.errors import AxisError
from gpuopt.util.float_state import in_default_float_state

UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
IDENTITIES = {"sum": 0, "prod": 1, "and": -1, "or": 0, "xor": 0, "any": 0, "all": 1, "count": 0}
OTHERS = ("mean", "any", "all", "count", "argmin", "argmax")  # operations of this module only
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
    if type(op) is not str or op not in UFUNCS or not supported(given):
        return False
    if dtype is not None:
        result = named_dtype(dtype)
    elif isinstance(out, np.ndarray):
        result = _for_out(op, given, out.dtype)
    if is_bfloat16(given) or (result is not None and is_bfloat16(result)):
        return True
    if on_ladder(given, op, result) or (result is not None and on_ladder(result, op, result)):
        return False  # the ladder reads them as the result's dtype
    return not on_cpu(None, None, device)


def check_op(op: object) -> None:
    """Raise for an unknown operation."""
    if not isinstance(op, str):
        raise TypeError(f"op: must be a string, not {op!r}")
    if op not in UFUNCS and op not in OTHERS:
        known = ", ".join(map(repr, (*UFUNCS, *OTHERS)))
        raise ValueError(f"op: {op!r} is not an operation; use one of {known}")


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


def _for_out(op: str, given: np.dtype, out: np.dtype) -> np.dtype:
    """Return the dtype to compute in if an array of dtype `out` receives the result.

    Sums and products of integers use `out`; other operations use NumPy's promotion of both.
    """
    if not supported(out):
        raise TypeError(
            f"out: dtype {out} is not supported; name another to compute in with dtype="
        )
    if given.kind in "biu" and out.kind in "iu":
        return out if op in ("sum", "prod") else given
    if given == out:
        return given
    wide = [np.dtype(np.float32) if is_bfloat16(each) else each for each in (given, out)]
    return np.result_type(*wide)


def result_dtype(op: str, given: np.dtype, dtype: object, out: np.dtype | None) -> np.dtype:
    """Return the dtype that the operation computes in and returns, by NumPy's rules.

    `out` is the dtype of an array that receives the result.
    """
    if op in PLACES or op in TRUTHS:
        if dtype is not None:
            raise ValueError(f"dtype: op={op!r} has a result of its own; leave dtype out")
        return np.dtype(bool if op in ("any", "all") else np.int64)
    if dtype is not None:
        result = named_dtype(dtype).newbyteorder("=")
    elif out is not None or op == "mean":
        if op == "mean" and given.kind in "biu":
            given = np.dtype(np.float64)
        result = given if out is None else _for_out(op, given, out.newbyteorder("="))
    elif op in ("sum", "prod") and given.kind in "biu":
        return np.dtype(np.uint64 if given.kind == "u" else np.int64)
    else:  # not the other of two C types with the same size
        return given if given.kind == "V" else np.dtype(given.str)
    if not supported(result):
        raise TypeError(f"dtype: {result} is not supported; {TYPES}")
    return result


def check_kind(op: str, dtype: np.dtype) -> None:
    """Raise TypeError if an operation does not accept elements of a dtype."""
    kind = kind_of(dtype)
    if (kind == "c" and op not in ("sum", "prod", "mean", *TRUTHS)) or (
        kind not in "biu" and op in ("and", "or", "xor")
    ):
        raise TypeError(f"array: op={op!r} does not support dtype {name_of(dtype)}")


def computed_on(op: str, given: np.dtype, result: np.dtype, *, on_cpu: bool = False) -> np.dtype:
    """Return the dtype that the elements must have for the operation, usually their own.

    The cpu multiplies small integers and complex64 without conversion.
    """
    if op in PLACES:
        return given
    if op in TRUTHS:
        return np.dtype(bool) if given.kind == "c" and given.itemsize == 16 else given
    if op == "mean":
        return result if result.kind == "c" or given.kind == "c" else given
    if op not in ("sum", "prod"):
        return result
    whole = given.kind in "biu" and result.kind in "iu"
    wider = kind_of(given) == kind_of(result) and result.itemsize >= given.itemsize
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


def _cast(array: np.ndarray, op: str, result: np.dtype, on_cpu: bool) -> np.ndarray:
    """Return the array in a dtype that the operation accepts; usually without a copy."""
    wanted = computed_on(op, array.dtype, result, on_cpu=on_cpu)
    if array.dtype.kind == "c" and wanted.kind == "b":
        return array != 0
    return array.astype(wanted, copy=False)


class _Plan:
    """A reduction along axes of a layout that is read in place.

    Attributes
    ----------
    turned : tuple of slice or None
        The slices that make all strides positive.
    before : list of Pass
        Passes before the last; `head` and `numbers` describe the last.
    head : tuple of str
    numbers : tuple of int
    dtype : dtype
        The results'.
    made : tuple of int
        The results' shape, with the axes in the order of memory.
    order : tuple or None
        The slices and then the permutation that restore the caller's axes; None: not needed.
    shape : tuple of int
        The shape of the caller's result.
    """

    __slots__ = ("before", "dtype", "head", "made", "numbers", "order", "shape", "turned")

    def run(self, array: np.ndarray, out: object, variant: Any, block: Any, device: Any) -> Any:
        """Return the result; None if the device or `out` does not support this path."""
        if self.turned is not None:
            array = array[self.turned]
        if out is not None:
            raise NotImplementedError
        else:
            made = np.empty(self.made, self.dtype)
        if self.before:
            array = self.halfway(array, variant, block, device)
            if array is None:
                return None
        problem = (*self.head, ((array,),), made, self.numbers)
        if _core.call(problem, variant, block, device) is False:
            return None
        if out is not None:
            return out
        if self.order is not None:
            made = made[self.order[0]].transpose(self.order[1]).reshape(self.shape)
        return made if made.ndim else made[()]

    def halfway(
        self, array: np.ndarray, variant: Any, block: Any, device: Any
    ) -> np.ndarray | None:
        """Return the results of the passes before the last; None as `run`."""
        for one in self.before:
            between = np.empty(one.results, one.dtype)
            problem = (*one.kernel, ((array,),), between, one.numbers)
            if _core.call(problem, variant, block, device) is False:
                return None
            array = between
        return array


def _backwards(axes: list[int], turned: list[int]) -> tuple[slice, ...]:
    return tuple(slice(None, None, -1 if k in turned else None) for k in axes)


def _plan(
    op: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    axes: tuple[int, ...],
    keepdims: bool,
    result: np.dtype,
) -> _Plan | None:
    """Plan a reduction of a non-empty array; None if it cannot be read in place."""
    layout, passes, between, _ = scheme_of(shape, strides, dtype, op, axes, result)
    if not passes:
        return None
    plan = _Plan()
    *plan.before, last = passes
    plan.head, plan.numbers = last.kernel, last.numbers
    # Equal dtypes may have two characters, NumPy's l and q: keep the result's.
    plan.dtype = result if between == result else between
    plan.turned = _backwards(range(len(shape)), layout.turned) if layout.turned else None
    left = tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)
    plan.shape, plan.made, plan.order = left, left, None
    if not layout.straight:
        there = [k for k in layout.order if k not in axes]
        plan.made = tuple(shape[k] for k in there)
        plan.order = _backwards(there, layout.turned), tuple(there.index(k) for k in sorted(there))
    return plan


def _without_gaps(array: np.ndarray) -> np.ndarray:
    """Return the array aligned and without gaps, in its own order of axes; usually no copy."""
    order, turned = memory_order(array.shape, array.strides)
    back = (*_backwards(range(array.ndim), turned), ...)
    run = np.require(array[back].transpose(order), requirements=["C_CONTIGUOUS", "ALIGNED"])
    return run.transpose(np.argsort(order))[back]


def _reduced(
    array: np.ndarray,
    op: str,
    axes: tuple[int, ...],
    result: np.dtype,
    wide: np.dtype,
    variant: Any,
    block: Any,
    device: Any,
) -> np.ndarray:
    """Return the reduction of a non-empty array, as an array over the kept axes.

    Its dtype is `wide`: the result's, or one that the caller rounds to it.
    """
    for on_cpu in (True, False):  # the device is not chosen yet
        items = _cast(array, op, result, on_cpu)
        items = items.astype(items.dtype.newbyteorder("="), copy=False)
        if op in PLACES and len(axes) > 1:
            items = np.ascontiguousarray(items)  # indices count in C order
        items = _without_gaps(items)
        plan = _plan(op, items.dtype, items.shape, items.strides, axes, False, wide)
        found = plan.run(items, None, variant, block, device)
        if found is not None:
            break
    found = np.asarray(found)
    if found.dtype != wide:
        with np.errstate(over="ignore", invalid="ignore"):
            found = found.astype(wide)
    return found


def with_initial(op: str, result: np.dtype) -> np.dtype:
    """Return the dtype in which results are combined with `initial`, before rounding."""
    if op not in ("sum", "prod") or kind_of(result) not in "fc":
        return result
    return np.dtype(np.complex128 if result.kind == "c" else np.float64)


def first_of(initial: Any, result: np.dtype) -> np.ndarray:
    """Return `initial` as a value of the result's dtype, by NumPy's rules."""
    try:
        first = np.array(initial, result)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"initial: {error}") from None
    if first.ndim:
        raise ValueError(f"initial: must be a scalar, not an array of {first.ndim} dimensions")
    return first


def of_nothing(op: str, shape: tuple[int, ...], result: np.dtype, initial: Any) -> np.ndarray:
    """Return the reduction of an empty array."""
    if op in PLACES:
        raise ValueError(f"array: attempt to get {op} of an empty sequence")
    if op == "mean":
        return np.full(shape, np.nan if kind_of(result) in "fc" else 0, result)
    if op not in IDENTITIES or initial is None:
        if initial is ... or initial is None:
            raise ValueError(
                f"zero-size array to reduction operation {UFUNCS[op].__name__} which has no "
                "identity; pass initial="
            )
        return np.full(shape, first_of(initial, result), result)
    return np.full(shape, np.array(IDENTITIES[op]).astype(result), result)


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
    if not supported(array.dtype):
        raise TypeError(f"array: dtype {array.dtype} is not supported; {TYPES} (array.astype(...))")
    axes = axes_of(axis, array.ndim, op)
    if op in OTHERS and initial is not ...:
        raise ValueError(f"initial: op={op!r} takes none")
    given = out.dtype if isinstance(out, np.ndarray) else None
    result = result_dtype(op, array.dtype.newbyteorder("="), dtype, given)
    kept = tuple(size for k, size in enumerate(array.shape) if k not in axes)
    shape = tuple(1 if k in axes else s for k, s in enumerate(array.shape)) if keepdims else kept
    if out is not None:
        free = dtype is None and (op in UFUNCS or op == "mean")  # NumPy casts to anything then
        inout.check_out(out, shape, given if free and given is not None else result)
    check_kind(op, computed_on(op, array.dtype, result))
    if array.size == 0:
        empty = math.prod(array.shape[k] for k in axes) == 0
        found = of_nothing(op, kept, result, initial) if empty else np.empty(kept, result)
    else:
        wide = result if initial is ... or initial is None else with_initial(op, result)
        found = _reduced(array, op, axes, result, wide, variant, block, device)
    if initial is not ... and initial is not None:
        with np.errstate(all="ignore"):
            first = first_of(initial, result).astype(found.dtype)
            found = UFUNCS[op](first, found).astype(result, copy=False)
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
    cpu = on_cpu(variant, block, device)
    wanted = computed_on(op, native, result, on_cpu=cpu)
    check_kind(op, wanted)
    convert, order = None, None
    items = array
    dense = cpu or _without_gaps(array) is array or array.flags.c_contiguous
    if wanted != array.dtype or not array.flags.aligned or not dense:
        convert, items = wanted, np.empty_like(array, wanted)
    scheme = scheme_of(items.shape, items.strides, items.dtype, op, axes, result)
    if not scheme.passes:
        convert, order = wanted, tuple(range(array.ndim))
        items = np.empty(array.shape, wanted)
        scheme = scheme_of(items.shape, items.strides, items.dtype, op, axes, result)
    if scheme.between != result:
        return None
    left = tuple(
        1 if k in axes else n for k, n in enumerate(array.shape) if keepdims or k not in axes
    )
    if out is not None:
        free = dtype is None and (op in UFUNCS or op == "mean")
        inout.check_out(out, left, out.dtype if free else result)
    kept = [k for k in range(array.ndim) if k not in axes]
    layout, view = scheme.layout, None
    made = left
    if not layout.straight:
        made = tuple(array.shape[k] for k in layout.order if k not in axes)
        steps = dict(zip(kept, layout.steps, strict=True))
        apart_by = tuple(
            steps.get(k, 1) * result.itemsize
            for k in range(array.ndim)
            if keepdims or k not in axes
        )
        view = (left, apart_by, layout.result * result.itemsize)
    direct = out is not None and view is None and is_run(out) and out.dtype == result
    direct = direct and (convert is not None or apart(out, array, False))
    return kernel_plan(
        [(one.kernel, one.numbers, (one.bytes,), one.result_bytes) for one in scheme.passes],
        ((0, layout.start) if convert is None else (0, layout.start, convert, order),),
        (result, made, None, view, False, True),
        (variant, block, device),
        out=-1 if out is None else 6,
        direct=direct,
    )
