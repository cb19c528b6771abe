"""Reductions along axes, and the operations that are no ufunc's: mean, any, all, count, arg*.

Whatever the shape, the layout and the axes, a reduction is one or more passes over memory in its
own order: the axes are sorted by their strides, neighbours of one kind (kept or reduced) are
merged, and each pass takes outer x reduced x inner items to outer x inner results. Few kernels
serve many operations and dtypes: `Work` says which, with which keys (see reduce_axis.cu). Here are
arrays of the host; those of a device are in _device_reduce.py.
"""

from __future__ import annotations

import math
import operator
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuopt import _arrays as arrays
from gpuopt import _direct
from gpuopt._arrays import Problem
from gpuopt._devices import available
from gpuopt._dtypes import by_name, is_bfloat16, kind_of, name_of

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
OTHERS = ("mean", "any", "all", "count", "argmin", "argmax")  # that only this module has
TRUTHS = ("any", "all", "count")
PLACES = ("argmin", "argmax")

# What becomes of a result, as reduce_axis.cu numbers them.
RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 = range(12)
_SMALL = "bhBHILQe"  # dtypes by their characters: names take a microsecond
_OF_SIZE = {1: INT8, 2: INT16, 4: INT32, 8: INT64}
_OF_FLOAT = {"float16": FLOAT16, "bfloat16": BFLOAT16, "float32": FLOAT32, "complex64": FLOAT32}

AxisError = getattr(np, "exceptions", np).AxisError


@dataclass(frozen=True)
class Work:
    """What a pass runs: the kernel's operation and types, its settings, and what it stores."""

    op: str
    items: str  # the dtype that the items are viewed as
    accumulator: str
    stored: str  # the dtype of the results
    key: int = -1
    mask: int = 0
    finish: int = RAW
    divisor: float = 0.0

    def numbers(self) -> tuple[int, ...]:
        """Return what it tells a kernel."""
        divisor = arrays.bits(self.divisor, np.dtype(np.float64))
        return self.key, self.mask, self.finish, divisor

    def backwards(self, n: int) -> Work:
        """Return the work of argmin on n items that lie in memory from the last to the first."""
        return replace(self, mask=-1, divisor=float(n))

    def raw(self) -> Work:
        """Return the work whose results a further pass can take."""
        numbers = self.op in ("sum", "prod", "count")
        stored = self.accumulator if numbers else self.items
        return replace(self, stored=stored, finish=RAW, divisor=0.0)

    def next(self) -> Work:
        """Return the work on raw results of this one."""
        op = "sum" if self.op == "count" else self.op
        return replace(self, op=op, items=self.raw().stored, key=-1 if op == "sum" else self.key)


def serves_whole(
    array: object, variant: object, dtype: object, block: object, device: str | None
) -> bool:
    """Tell whether a reduction of a whole array needs this family, for its small dtypes.

    The ladder has kernels for the decks' types and their likes, and on the cpu all but bfloat16.
    """
    if variant is not None or block is not None or not isinstance(array, np.ndarray):
        return False
    if array.dtype.kind == "V":
        return is_bfloat16(array.dtype)
    if dtype is not None or array.dtype.char not in _SMALL:
        return False
    name = device or os.environ.get("GPUOPT_DEVICE") or ""
    if not isinstance(name, str):
        return False
    return name.startswith(("cuda", "sim")) or (not name and bool(available("cuda")))


def check_op(op: object) -> None:
    """Raise ValueError for what is no operation."""
    if op not in UFUNCS and op not in OTHERS:
        known = ", ".join(map(repr, (*UFUNCS, *OTHERS)))
        raise ValueError(f"op: {op!r} is not an operation; use one of {known}")


def axes_of(axis: object, ndim: int, op: str) -> tuple[int, ...]:
    """Return the reduced axes, from 0; errors are NumPy's."""
    if axis is None:
        return tuple(range(ndim))
    if op in PLACES and isinstance(axis, (tuple, list)):
        raise TypeError(f"axis: op={op!r} takes one axis or None, not {axis!r}")
    found = []
    for each in axis if isinstance(axis, (tuple, list)) else (axis,):
        try:
            number = operator.index(each)
        except TypeError:
            raise TypeError(
                f"axis: must be an integer, a tuple of integers or None, not {axis!r}"
            ) from None
        if not -ndim <= number < ndim:
            raise AxisError(number, ndim, "axis")
        found.append(number % ndim)
    if len(set(found)) != len(found):
        raise ValueError(f"axis: duplicate value in {axis!r}")
    return tuple(found)


TYPES = "use bool, an integer type, float16, bfloat16, float32, float64, complex64 or complex128"


def supported(dtype: np.dtype) -> bool:
    """Tell whether items of a dtype can be reduced."""
    kinds = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}
    ordinary = dtype.isbuiltin in (0, 1) and dtype.itemsize <= kinds.get(dtype.kind, 0)
    return ordinary or is_bfloat16(dtype)


def result_dtype(op: str, given: np.dtype, dtype: object, out: np.dtype | None) -> np.dtype:
    """Return what the operation computes in and returns, by NumPy's rules.

    `out` is the dtype of an array that receives the result.
    """
    if op in PLACES or op in TRUTHS:
        if dtype is not None:
            raise ValueError(f"dtype: op={op!r} has a result of its own; leave dtype out")
        return np.dtype(bool if op in ("any", "all") else np.int64)
    if dtype is not None:
        result = np.dtype(dtype).newbyteorder("=")
    elif out is not None and op != "mean":
        result = out.newbyteorder("=")
    elif op == "mean":
        return np.dtype(np.float64) if given.kind in "biu" else given
    elif op in ("sum", "prod") and given.kind in "biu":
        return np.dtype(np.uint64 if given.kind == "u" else np.int64)
    else:
        return given
    if not supported(result):
        raise TypeError(f"dtype: {result} is not supported; {TYPES}")
    return result


def check_kind(op: str, dtype: np.dtype) -> None:
    """Raise TypeError where an operation does not take items of a dtype."""
    kind = kind_of(dtype)
    if (kind == "c" and op not in ("sum", "prod", "mean", *TRUTHS)) or (
        kind not in "biu" and op in ("and", "or", "xor")
    ):
        raise TypeError(f"array: op={op!r} does not take {name_of(dtype)} items")


def computed_on(op: str, given: np.dtype, result: np.dtype) -> np.dtype:
    """Return the dtype of items that the operation can be computed on; mostly what is given."""
    if op in PLACES:
        return given
    if op in TRUTHS:
        return np.dtype(bool) if given == np.complex128 else given
    if op == "mean":
        return result if result.kind == "c" or given.kind == "c" else given
    if op not in ("sum", "prod"):
        return result
    whole = given.kind in "biu" and result.kind in "iu"
    wider = kind_of(given) == kind_of(result) and result.itemsize >= given.itemsize
    wanted = given if whole or wider else result
    if op == "prod" and wanted.kind == "c":
        return np.dtype(np.complex128)
    if op == "prod" and wanted.kind in "iu":
        return np.dtype(np.uint64 if wanted.kind == "u" else np.int64)
    if op == "prod" and wanted.itemsize == 2:
        return np.dtype(np.float32)
    return wanted


def _cast(array: np.ndarray, op: str, result: np.dtype) -> np.ndarray:
    """Return the array with items that the operation can be computed on; mostly as it is."""
    wanted = computed_on(op, array.dtype, result)
    if array.dtype.kind == "c" and wanted.kind == "b":
        return array != 0
    if array.dtype.kind == "c" and wanted.kind != "c":
        return array.real.astype(wanted)
    return array.astype(wanted, copy=False)


def _ordered_key(dtype: np.dtype, *, largest: bool) -> int:
    """Return the bits that turn the order into that of signed items, smallest first."""
    top = 1 << (8 * dtype.itemsize - 1)
    if kind_of(dtype) == "f":
        return top if largest else 0
    if dtype.kind == "b":  # what is looked for becomes the least item: nothing can be less
        return top | largest
    key = top if dtype.kind == "u" else 0
    return key ^ (2 * top - 1) if largest else key


def _number_finish(result: np.dtype) -> tuple[str, int]:
    """Return how a number is stored, and what `result` is then made of."""
    if result.kind in "iu":
        return f"int{8 * result.itemsize}", _OF_SIZE[result.itemsize]
    finish = _OF_FLOAT.get(name_of(result), FLOAT64)
    names = {FLOAT16: "float16", BFLOAT16: "bfloat16", FLOAT32: "float32", FLOAT64: "float64"}
    return names[finish], finish


def work_of(op: str, items: np.dtype, result: np.dtype, n: int) -> Work:
    """Return the pass that gives `op` of items, n to a result."""
    kind = kind_of(items)
    signed = f"int{8 * items.itemsize}"
    plain = name_of(items) if kind == "f" else signed
    if op in TRUTHS or (kind == "b" and op in ("sum", "prod", "mean", "xor")):
        top = {"f": 1 << (8 * items.itemsize - 1), "c": 0x8000000080000000}.get(kind, 0)
        stored, finish, divisor = {
            "any": ("int8", ANY, 0),
            "all": ("int8", ALL, n),
            "prod": ("int8", ALL, n),
            "xor": ("int8", ODD, 0),
            "mean": (*_number_finish(np.dtype(float) if result.kind in "biu" else result), n),
            "sum": (*_number_finish(np.dtype(int) if result.kind == "b" else result), 0),
        }.get(op, ("int64", INT64, 0))
        return Work("count", signed, "int64", stored, ~top, 0, finish, divisor)
    if op in PLACES or op in ("min", "max"):
        key = _ordered_key(items, largest=op in ("max", "argmax"))
        if op in PLACES:
            return Work("argmin", plain, "int64", "int64", key, 0, INT64)
        small = kind == "f" and items.itemsize == 2
        return Work("min", plain, "float32" if small else plain, plain, key)
    if op in ("and", "or", "xor"):
        return Work("bits", signed, signed, signed, -(op == "and"), -(op != "xor"))
    if op == "prod" and items.kind == "c":
        return Work("prod", "complex128", "complex128", "complex128")
    divisor = n if op == "mean" else 0
    whole = op == "mean" and result.kind in "biu"  # cut off later
    stored, finish = _number_finish(np.dtype(float) if whole else result)
    op = "sum" if op == "mean" else op
    if items.kind in "iu":
        key = (1 << 8 * items.itemsize) - 1 if items.kind == "u" else -1
        wide = "int64"
        if divisor and items.itemsize == 8:  # may be more than 64 bits hold
            key, wide = 0 if items.kind == "u" else -1, "float64"
        return Work(op, signed, wide, stored, key, 0, finish, divisor)
    plain = "float" + str(4 * items.itemsize) if items.kind == "c" else plain
    return Work(op, plain, "float64", stored, -1, 0, finish, divisor)


def merged(shape: list[int], reduced: list[bool]) -> list[tuple[int, bool]]:
    """Return the sizes with neighbours of one kind merged."""
    found: list[tuple[int, bool]] = []
    for size, kind in zip(shape, reduced, strict=True):
        if found and found[-1][1] == kind:
            found[-1] = (found[-1][0] * size, kind)
        elif size != 1:
            found.append((size, kind))
    return found


def _in_memory_order(
    array: np.ndarray,
) -> tuple[np.ndarray, list[int], list[int]]:
    """Return the array with axes from the largest stride to the smallest, and none negative.

    Also: which axis each of them was, and those that were turned round.
    """
    turned = [k for k in range(array.ndim) if array.strides[k] < 0 and array.shape[k] > 1]
    if turned:
        array = np.flip(array, turned)
    order = sorted(
        range(array.ndim),
        key=lambda k: -abs(array.strides[k]) if array.shape[k] > 1 else -math.inf,
    )
    return array.transpose(order), order, turned


AXES = 4  # that a kernel takes on either side of the reduced one


def side(groups: list[tuple[int, int]]) -> tuple[int, ...]:
    """Return the axes on one side of the reduced one, (size, step) each, as a kernel takes them.

    The last axis' step, then up to three periods, then as many further steps (reduce_axis.cu).
    """
    sizes = [size for size, _ in reversed(groups)][:-1]
    steps = [step for _, step in reversed(groups)] or [0]
    fill = [0] * (AXES - len(steps))
    return (steps[0], *sizes, *fill, *steps[1:], *fill)


def one_pass(run: np.ndarray, outer: int, count: int, inner: int, work: Work) -> Problem:
    """Describe a pass over a run of outer x count x inner items."""
    sides = (*side([(outer, count * inner)]), *side([(inner, 1)]))
    return Problem(
        "reduce_axis",
        work.op,
        work.items,
        work.accumulator,
        (run,),
        (outer * inner,),
        by_name(work.stored),
        (outer, count, inner, inner, *sides, *work.numbers()),
    )


def _passes(
    run: np.ndarray,
    groups: list[tuple[int, bool]],
    work: Work,
    how: tuple[int | str | None, int | None, str | None],
) -> np.ndarray:
    """Reduce a contiguous array's groups, those first that leave least."""
    while True:
        reduced = [k for k, (_, kind) in enumerate(groups) if kind]
        k = max(reduced, key=lambda k: groups[k][0], default=len(groups))
        sizes = [size for size, _ in groups]
        outer, inner = math.prod(sizes[:k]), math.prod(sizes[k + 1 :])
        count = sizes[k] if reduced else 1
        this = work.raw() if len(reduced) > 1 else work
        run = arrays.run(one_pass(run, outer, count, inner, this), *how)
        if len(reduced) <= 1:
            return run
        groups = merged([*sizes[:k], *sizes[k + 1 :]], [g[1] for g in groups[:k] + groups[k + 1 :]])
        work = work.next()


def _reduced(
    array: np.ndarray,
    op: str,
    axes: tuple[int, ...],
    result: np.dtype,
    how: tuple[int | str | None, int | None, str | None],
) -> np.ndarray:
    """Return the reduction of an array with items, as an array over the kept axes."""
    kept = [k for k in range(array.ndim) if k not in axes]
    n = math.prod(array.shape[k] for k in axes)
    array = _cast(array, op, result)
    check_kind(op, array.dtype)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if op in PLACES and len(axes) > 1:
        array = np.ascontiguousarray(array)  # places count in C order
    ordered, order, turned = _in_memory_order(array)
    ordered = np.require(ordered, requirements=["C_CONTIGUOUS", "ALIGNED"])
    groups = merged(list(ordered.shape), [k in axes for k in order])
    work = work_of(op, array.dtype, result, n)
    if op in PLACES and any(k in axes for k in turned):
        work = work.backwards(n)
    turned = [kept.index(k) for k in turned if k in kept]
    if array.dtype.kind == "c" and op in ("sum", "mean"):
        groups.append((2, False))
    flat = _passes(ordered.reshape(-1).view(by_name(work.items)), groups, work, how)
    if array.dtype.kind == "c" and op in ("sum", "mean"):
        flat = flat.view(np.complex64 if flat.dtype == np.float32 else np.complex128)
    elif result.itemsize == flat.dtype.itemsize and result.kind in "biuf":
        flat = flat.view(result) if (result.kind == "f") == (flat.dtype.kind == "f") else flat
    if flat.dtype != result:
        with np.errstate(over="ignore", invalid="ignore"):
            flat = flat.astype(result)
    order = [k for k in order if k in kept]
    there = flat.reshape([array.shape[k] for k in order])
    there = there.transpose([order.index(k) for k in kept])
    return np.flip(there, turned) if turned else there


def of_nothing(op: str, shape: tuple[int, ...], result: np.dtype, initial: Any) -> np.ndarray:
    """Return the reduction of no items at all."""
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
        return np.full(shape, initial, result)
    return np.full(shape, np.array(IDENTITIES[op]).astype(result), result)


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
    if dtype is None and initial is ...:
        found = _direct.reduce_axis(array, op, axis, keepdims, out, (variant, block, device))
        if found is not None:
            return found
    check_op(op)
    array = arrays.array_in(array, "array")
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
        arrays.check_out(out, shape, result)
    if array.size == 0:
        empty = math.prod(array.shape[k] for k in axes) == 0
        found = of_nothing(op, kept, result, initial) if empty else np.empty(kept, result)
    else:
        found = _reduced(array, op, axes, result, (variant, block, device))
    if initial is not ... and initial is not None:
        first = np.asarray(initial)
        if first.ndim:
            raise ValueError(f"initial: must be a scalar, not an array of {first.ndim} dimensions")
        with np.errstate(all="ignore"):
            found = UFUNCS[op](first.astype(result), found).astype(result, copy=False)
    found = np.asarray(found).reshape(shape)
    if out is None:
        return found if found.ndim else found[()]
    np.copyto(out, found, casting="same_kind")
    return out
