"""The problems that ladders measure: random data, the correct result, and its error bound.

A case holds its family's call and its check, so that measure/ladder.py times any family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from gpuopt import _core
from gpuopt.arrays.dtypes import named_dtype
from gpuopt.arrays.inout import NUMBERS, Problem
from gpuopt.catalog.rungs import Rung, rungs
from gpuopt.families import oracle, registry
from gpuopt.families.reduce import reduce
from gpuopt.families.reduce_axis import UFUNCS
from gpuopt.util.checks import whole
from gpuopt.util.names import unknown_name

# Title, number of elements, arguments, problem, and the check of a rung's result.
_Made = tuple[str, int, tuple[object, ...], Problem, Callable[[Rung, np.ndarray], str]]


@dataclass
class Case:
    """A problem to measure a family's rungs on.

    Attributes
    ----------
    title : str
        The operation and its operands.
    n : int
        The number of elements, after rounding.
    dtype : str
        The elements' dtype.
    bench : callable
        From a device's name to a bench with the data on it.
    call : callable
        From a rung, a block and a device to the rung's result.
    error : callable
        From a rung and its result to a description of the error, or "".
    flops : int
        Operations, if the rate is in FLOP/s; 0 if it is in bytes per second.
    deck : tuple of (str, float) or None
        The deck's GPU, and the bytes or operations of its times; 0 if it states rates.
    operations : int
        The algorithm's additions and multiplications, for the roofline.
    arguments : tuple
        The arguments of the family's call, also passed to the peers.
    """

    title: str
    n: int
    dtype: str
    bench: Callable[[str], _core.Workbench]
    call: Callable[[Rung, int | None, str], object]
    error: Callable[[Rung, object], str]
    flops: int = 0
    deck: tuple[str, float] | None = None
    operations: int = 0
    arguments: tuple[object, ...] = ()


def _side(n: int) -> int:
    return max(1, math.isqrt(n))


def _matrix(n: int, dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    side = _side(n)
    return oracle.draw(side * side, dtype, rng).reshape(side, side)


def _transpose(n: int, dtype: np.dtype, rng: np.random.Generator) -> _Made:
    a = _matrix(n, dtype, rng)
    turned = oracle.transposed(a)

    def check(rung: Rung, got: np.ndarray) -> str:
        if rung.ceiling:  # a copy
            return oracle.wrong(got, a.ravel())
        return turned(got.reshape(a.shape))

    title = f"transpose of {len(a):,} x {len(a):,} {dtype}"
    return title, a.size, (a,), registry.transpose_problem(a), check


def _stencil1d(n: int, dtype: np.dtype, rng: np.random.Generator, radius: int = 3) -> _Made:
    a = oracle.draw(n, dtype, rng)
    right, problem = oracle.stencilled(a, radius), registry.stencil1d_problem(a, radius)
    title = f"stencil of radius {radius} on {n:,} {dtype}"
    given = (a,) if radius == 3 else (a, radius)
    return title, n, given, problem, lambda _, got: right(got)


def _add(n: int, dtype: np.dtype, rng: np.random.Generator) -> _Made:
    x, y = oracle.draw(n, dtype, rng), oracle.draw(n, dtype, rng)
    right, title = oracle.combined(x, y), f"sum of two vectors of {n:,} {dtype}"
    return title, n, (x, y), registry.add_problem(x, y), lambda _, got: right(got)


def _saxpy(n: int, dtype: np.dtype, rng: np.random.Generator) -> _Made:
    x, y = oracle.draw(n, dtype, rng), oracle.draw(n, dtype, rng)
    right, title = oracle.combined(x, y, 2.5), f"2.5 * x + y, vectors of {n:,} {dtype}"
    return title, n, (2.5, x, y), registry.saxpy_problem(2.5, x, y), lambda _, got: right(got)


def _matmul(n: int, dtype: np.dtype, rng: np.random.Generator) -> _Made:
    a, b = _matrix(n, dtype, rng), _matrix(n, dtype, rng)
    right, title = oracle.product(a, b), f"matrix product of {len(a):,} x {len(a):,} {dtype}"
    problem = registry.matmul_problem(a, b)
    return title, a.size, (a, b), problem, lambda _, got: right(got.reshape(a.shape))


def _expected(array: np.ndarray, op: str, result: np.dtype) -> tuple[np.ndarray, float]:
    """Return NumPy's result and the error bound of a rung."""
    ufunc = UFUNCS[op]
    if op in ("sum", "prod") and array.dtype.kind == "f":
        # A thread adds at most n / 2^10 elements; the tree over its sums has at most 32 levels. All
        # additions are in the result's type.
        unit = (array.size / 1024 + 64) * np.finfo(result).eps / 2
        exact = ufunc.reduce(array, dtype=np.float64)
        scale = np.abs(array).sum(dtype=np.float64) if op == "sum" else 2 * abs(exact)
        return np.asarray(exact), float(unit * scale)
    return np.asarray(ufunc.reduce(array, dtype=result)), 0.0


def _reduce(n: int, op: str, items: np.dtype, rng: np.random.Generator) -> Case:
    result = np.dtype(np.int64) if items.kind == "b" and op in ("sum", "prod") else items
    array = oracle.draw(n, items, rng)
    if op == "prod" and items.kind == "f":
        array = 1 + array / items.type(1024)

    @cache
    def right() -> tuple[np.ndarray, float]:
        return _expected(array, op, result)

    def error(_: Rung | None, got: object) -> str:
        return oracle.wrong(np.asarray(got), *right())

    return Case(
        f"{op} of {n:,} {items.name}",
        n,
        items.name,
        lambda device: _core.Workbench("reduce", array, op, dtype=result, device=device),
        lambda rung, block, device: reduce(
            array, op, variant=rung.variant, dtype=result, block=block, device=device
        ),
        error,
        deck=(FAMILIES["reduce"].deck, FAMILIES["reduce"].deck_amount) if op == "sum" else None,
        operations=n,
        arguments=(array,),
    )


class Family(NamedTuple):
    """A family's functions and sizes, to measure and to show it. Sizes are elements of 4 bytes.

    Attributes
    ----------
    function : callable
    maker : callable or None
        Makes a case; None: `_reduce` does, which has operations.
    operations : int
        The algorithm's operations per element.
    arrays : int
        Arrays on the device, of n elements each.
    items : (int, int)
        Elements of a ladder: on a device that is timed, and on one that executes lane by lane.
    traced : (int, int or None)
        Small enough for a picture: elements, and threads per block where a rung leaves the choice.
    quick : (int, int, int)
        Elements of a quick report: on a GPU, on the cpu, and where they are counted.
    swept : (tuple of int, tuple of int)
        Elements of a sweep: on a GPU, on the cpu.
    deck : str
        The GPU of the deck's times.
    deck_amount : float
        The bytes or operations of those times; 0 if the deck states rates.
    """

    function: Callable[..., object]
    maker: Callable[..., _Made] | None
    operations: int
    arrays: int
    items: tuple[int, int]
    traced: tuple[int, int | None]
    quick: tuple[int, int, int]
    swept: tuple[tuple[int, ...], tuple[int, ...]]
    deck: str = ""
    deck_amount: float = 0.0


_VECTOR_SIZES = (
    (2048 * 2048, 1024),
    (64, 32),
    (1 << 22, 1 << 18, 1024),
    ((1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 26), (1 << 12, 1 << 20)),
)
FAMILIES: dict[str, Family] = {
    "reduce": Family(
        reduce, None, 1, 1,
        (1 << 22, 1 << 20),
        (128, 64),  # two warps, so that one can rest
        (1 << 22, 1 << 20, 1 << 16),
        ((1 << 10, 1 << 16, 1 << 20, 1 << 22, 1 << 25, 1 << 28), (1 << 10, 1 << 16, 1 << 22)),
        "G80", 4.0 * (1 << 22),
    ),
    "transpose": Family(
        registry.transpose, _transpose, 0, 2,
        (8192**2, 512**2),
        (32 * 32, None),
        (4096**2, 1024**2, 128**2),
        ((1 << 16, 1 << 20, 1 << 24, 1 << 26), (1 << 12, 1 << 20)),
        "K40",
    ),
    "stencil1d": Family(
        registry.stencil1d, _stencil1d, 6, 2,  # of radius 3: the sum of seven
        (1 << 26, 1 << 16),
        (64, 32),
        (1 << 24, 1 << 20, 1 << 13),
        ((1 << 16, 1 << 20, 1 << 24, 1 << 28), (1 << 12, 1 << 20)),
    ),
    "add": Family(registry.add, _add, 1, 3, *_VECTOR_SIZES),
    "saxpy": Family(registry.saxpy, _saxpy, 2, 3, *_VECTOR_SIZES),
    "matmul": Family(
        registry.matmul, _matmul, 0, 3,  # 2 side**3 in all
        (1024**2, 128**2),
        (32 * 32, None),
        (1024**2, 256**2, 64**2),
        ((256**2, 512**2, 1024**2, 2048**2, 4096**2), (64**2, 256**2)),
        "M2090", 2.0 * 1024**3,
    ),
}  # fmt: skip


def _items(family: str, op: str, dtype: DTypeLike | None) -> np.dtype:
    """Return the dtype of a family's elements: the decks' if None."""
    if dtype is None:
        return np.dtype(np.int32 if family == "reduce" else np.float32)
    name = named_dtype(dtype).name
    compiled = {
        items
        for rung in rungs(family)
        if not rung.host
        for operation, items, _ in rung.signatures
        if family != "reduce" or operation == op
    }
    # a transpose moves elements by their size alone
    taken = [each for each in ("bool", *NUMBERS) if each in compiled] or list(NUMBERS)
    if name not in taken:
        what = f"op={op!r}" if family == "reduce" else family
        raise TypeError(f"dtype: {what} does not support {name}; use {', '.join(taken)}")
    return np.dtype(name)


def _check_room(family: str, n: int, items: np.dtype, device: str) -> None:
    """Raise DeviceMemoryError if a case does not fit, before its data are drawn."""
    arrays = FAMILIES[family].arrays
    asked, free = arrays * n * items.itemsize, _core.device_info(device)["memory_free"]
    if asked > free:
        error = _core.DeviceMemoryError(
            f"n: {arrays} arrays of {n:,} {items.name} take {asked:,} bytes, but {device} "
            f"has {free:,} free; use fewer elements"
        )
        error.bytes_asked, error.bytes_free = asked, free
        raise error


def make(
    family: str,
    n: int | None = None,
    dtype: DTypeLike | None = None,
    seed: int = 0,
    *,
    timed: bool = False,
    op: str | None = None,
    radius: int | None = None,
    device: str | None = None,
) -> Case:
    """Make a family's case.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    n : int, optional
        Elements; a square matrix has about this number.
    dtype : dtype, optional
        Default: int32 for "reduce" (the decks' 32-bit arithmetic), else float32.
    seed : int
        The seed of the random elements.
    timed : bool
        Whether the device is timed; the default of n is smaller for one that counts.
    op : str, optional
        The reduction's, by default "sum"; other families have none.
    radius : int, optional
        A stencil's, by default 3.
    device : str, optional
        The device that will run it, which must have the memory.

    Raises
    ------
    DeviceMemoryError
        The device has too little memory for n elements.
    ValueError, TypeError
        A wrong argument, which the message names.
    """
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(unknown_name("family", family, "a ladder", FAMILIES))
    if op is not None and family != "reduce":
        raise ValueError(f"op: {family} has no operations, only reduce has; leave op out")
    if op is not None and (not isinstance(op, str) or op not in UFUNCS):
        raise ValueError(unknown_name("op", op, "an operation that is measured", UFUNCS))
    items = _items(family, op or "sum", dtype)
    row = FAMILIES[family]
    n = row.items[0 if timed else 1] if n is None else whole(n, "n", 1, 1 << 40)
    seed = whole(seed, "seed", 0)
    if device:
        _check_room(family, n, items, device)
    rng = np.random.default_rng(seed)
    if row.maker is None:
        return _reduce(n, op or "sum", items, rng)
    more = () if radius is None else (radius,)
    title, n, arguments, problem, check = row.maker(n, items, rng, *more)

    def bench(device: str) -> _core.Workbench:
        return _core.Workbench(with_output(problem), device=device)

    def call(rung: Rung, block: int | None, device: str) -> object:
        blocks = {} if family == "matmul" else {"block": block}
        return row.function(*arguments, variant=rung.variant, device=device, **blocks)

    def error(rung: Rung, got: np.ndarray) -> str:
        return check(rung, np.asarray(got).ravel().view(items))

    flops = 2 * _side(n) ** 3 if family == "matmul" else 0
    deck = (row.deck, row.deck_amount) if row.deck else None
    operations = flops or (row.operations if radius is None else 2 * radius) * n
    return Case(title, n, items.name, bench, call, error, flops, deck, operations, arguments)


def with_output(problem: Problem) -> tuple[object, ...]:
    """Return a problem as `_core` accepts it, with a new output."""
    return problem.on(np.empty(problem.shape, problem.dtype))
