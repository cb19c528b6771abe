"""What a ladder is measured on: random data, the right result, and how far one may be off.

A case knows its family's call and its check; `_ladder.py` runs and times it without knowing either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuopt import _core, _families
from gpuopt._arrays import NUMBERS, Problem
from gpuopt._rungs import Rung

# Items where none are named: on a device that is timed, and on one that executes lane by lane.
ITEMS = {
    "transpose": (8192**2, 512**2),
    "stencil1d": (1 << 26, 1 << 16),
    "add": (2048 * 2048, 1024),
    "saxpy": (2048 * 2048, 1024),
    "matmul": (1024**2, 128**2),
}
# Operations for each item, matmul's aside: the stencil of radius 3 adds up seven.
OPERATIONS = {"transpose": 0, "stencil1d": 6, "add": 1, "saxpy": 2}
DTYPES = NUMBERS


@dataclass
class Case:
    """A problem to measure a family's rungs on.

    Attributes
    ----------
    title : str
        What is done to what.
    n : int
        Items, as they came to be.
    bench : callable
        From a device's name to data on it.
    call : callable
        From a rung, a block and a device to the rung's result.
    error : callable
        From a rung and its result to what is wrong with it, or "".
    flops : int
        Operations, where the rate is to be told in them; else 0, and bytes are.
    deck : tuple of (str, float) or None
        The deck's GPU, and how many bytes or operations its times are for.
    operations : int
        What the algorithm computes, for the roofline: additions and multiplications.
    arguments : tuple
        Of the family's call: the peers' too.
    """

    title: str
    n: int
    bench: Callable[[str], _core.Bench]
    call: Callable[[Rung, int | None, str], object]
    error: Callable[[Rung, object], str]
    flops: int = 0
    deck: tuple[str, float] | None = None
    operations: int = 0
    arguments: tuple[object, ...] = ()


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.random(shape, dtype) * dtype.type(2) - dtype.type(1)


def _worst(got: np.ndarray, want: np.ndarray, bound: np.ndarray | float) -> str:
    """Tell where an array is off by more than a bound; written so that NaN fails."""
    wrong = ~(np.abs(got.astype(want.dtype) - want) <= bound)
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    return (
        f"{np.count_nonzero(wrong):,} items, the first of them number {at:,}: "
        f"{got.flat[at]!r} instead of {want.flat[at]!r}"
    )


def _side(n: int) -> int:
    return max(1, math.isqrt(n))


def _transpose(n: int, dtype: np.dtype, rng: np.random.Generator) -> tuple[object, ...]:
    side = _side(n)
    a = _draw(rng, (side, side), dtype)
    copy, turned = a.ravel(), np.ascontiguousarray(a.T).ravel()

    def check(rung: Rung, got: np.ndarray) -> str:
        want = copy if rung.ceiling else turned
        return "" if got.tobytes() == want.tobytes() else "it is not the transpose"

    return f"transpose of {side:,} x {side:,}", a.size, (a,), _families.transpose_problem(a), check


def _stencil1d(
    n: int, dtype: np.dtype, rng: np.random.Generator, radius: int = 3
) -> tuple[object, ...]:
    a = _draw(rng, (n,), dtype)
    width = 2 * radius + 1
    wide = np.pad(a.astype(np.float64) if dtype.kind == "f" else a, radius)
    want = sum(wide[k : k + n] for k in range(width))
    bound = 8 * width * float(np.finfo(dtype).eps) if dtype.kind == "f" else 0
    return (
        f"stencil of radius {radius} on",
        n,
        (a,) if radius == 3 else (a, radius),
        _families.stencil1d_problem(a, radius),
        lambda _, got: _worst(got, want, bound),
    )


def _add(n: int, dtype: np.dtype, rng: np.random.Generator) -> tuple[object, ...]:
    x, y = _draw(rng, (n,), dtype), _draw(rng, (n,), dtype)
    want = x + y
    return "sum of two vectors of", n, (x, y), _families.add_problem(x, y), (
        lambda _, got: "" if got.tobytes() == want.tobytes() else "it is not NumPy's sum"
    )  # fmt: skip


def _saxpy(n: int, dtype: np.dtype, rng: np.random.Generator) -> tuple[object, ...]:
    x, y = _draw(rng, (n,), dtype), _draw(rng, (n,), dtype)
    want = 2.5 * x.astype(np.float64) + y
    bound = 4 * float(np.finfo(dtype).eps)
    return "2.5 * x + y, vectors of", n, (2.5, x, y), _families.saxpy_problem(2.5, x, y), (
        lambda _, got: _worst(got, want, bound)
    )  # fmt: skip


def _matmul(n: int, dtype: np.dtype, rng: np.random.Generator) -> tuple[object, ...]:
    side = _side(n)
    a, b = _draw(rng, (side, side), dtype), _draw(rng, (side, side), dtype)
    want = (a.astype(np.float64) @ b.astype(np.float64)).ravel()
    # Items are at most 1: each sum has at most `side` roundings of numbers up to `side`.
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    bound = (side + 2) * float(np.finfo(dtype).eps) * size.ravel()
    return f"matrix product of {side:,} x {side:,}", n, (a, b), _families.matmul_problem(a, b), (
        lambda _, got: _worst(got, want, bound)
    )  # fmt: skip


_MAKERS = {
    "transpose": (_transpose, _families.transpose),
    "stencil1d": (_stencil1d, _families.stencil1d),
    "add": (_add, _families.add),
    "saxpy": (_saxpy, _families.saxpy),
    "matmul": (_matmul, _families.matmul),
}


def make(
    family: str, n: int | None, dtype: str, seed: int, *, timed: bool, radius: int | None = None
) -> Case:
    """Make the case of a family whose result is an array; `radius` is a stencil's, by default 3."""
    if dtype not in DTYPES:
        raise TypeError(f"dtype: {dtype!r} is not measured; use {', '.join(DTYPES)}")
    n = n or ITEMS[family][0 if timed else 1]
    maker, function = _MAKERS[family]
    more = () if radius is None else (radius,)
    title, n, arguments, problem, check = maker(
        n, np.dtype(dtype), np.random.default_rng(seed), *more
    )

    def bench(device: str) -> _core.Bench:
        return _core.Bench(_with_output(problem), device=device)

    def call(rung: Rung, block: int | None, device: str) -> object:
        blocks = {} if family == "matmul" else {"block": block}
        return function(*arguments, variant=rung.variant, device=device, **blocks)

    def error(rung: Rung, got: np.ndarray) -> str:
        return check(rung, np.asarray(got).ravel().view(np.dtype(dtype)))

    flops, deck = 0, None
    if family == "matmul":
        side = _side(n)
        flops, deck = 2 * side**3, ("M2090", 2.0 * 1024**3)
        title, n = f"{title}", side * side
    plural = f"{title} {dtype}" if "x" in title.split("of")[-1] else f"{title} {n:,} {dtype}"
    operations = flops or (OPERATIONS[family] if radius is None else 2 * radius) * n
    return Case(plural, n, bench, call, error, flops, deck, operations, arguments)


def _with_output(problem: Problem) -> tuple[object, ...]:
    return problem.on(np.empty(problem.shape, problem.dtype))
