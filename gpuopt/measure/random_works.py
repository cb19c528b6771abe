"""Works that nobody chose: shapes, layouts, axes, dtypes and sizes from a seed, for `gpuopt.bench`.

Work k of a seed depends on the seed, k and the kind alone: fewer works are the first ones of more.
Sizes are spread evenly over their logarithm, from 10 elements to what a kind of device is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gpuopt.measure.peer_libraries import Task
from gpuopt.measure.workloads import Workload, result_dtype
from gpuopt.util.checks import names, whole
from gpuopt.util.names import unknown_name

KINDS = {  # and how many of 20 works are of the kind
    "axes": 8,
    "permutes": 5,
    "stencils": 2,
    "matmul": 3,
    "vectors": 2,
}
APART = "matmul64/16"  # products of float64 and float16: their peers run on tensor cores
PEERS = {"cuda": ("CuPy", "PyTorch"), "cpu": ("NumPy", "SciPy")}
CASES = 100
CASES_MOST = 10_000
COPIED_BYTES = 128 << 20  # least result of a permute that is compared with a copy
LEAST = 10  # elements
ELEMENTS_MOST = 1 << 28
BYTES_MOST = {"cuda": 1 << 30, "cpu": 64 << 20}  # of an operand
# Most multiplications of a stencil or a product: NumPy checks each result in a second or so.
STEPS_MOST = {"cuda": 1 << 32, "cpu": 1 << 28}
HALVES_LESS = {"cuda": 1, "cpu": 64}  # NumPy has no fast product of float16
OPS = ("sum", "sum", "max", "min", "argmax", "argmin", "any", "all")
REDUCED = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")
MOVED = ("uint8", "int16", "float32", "float32", "float64", "complex128")
ADDED = ("float32", "float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8")
MODES = ("constant", "constant", "nearest", "reflect", "mirror", "wrap")

Shape = tuple[int, ...]


def _item_bytes(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


class _Draw:
    """One work's random choices."""

    def __init__(self, seed: int, at: int, device: str) -> None:
        self.rng = np.random.default_rng((seed, at))
        self.device = device

    def one(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def even(self, low: float, high: float) -> int:
        """Return a whole number whose logarithm is evenly spread."""
        return round(math.exp(self.rng.uniform(math.log(low), math.log(high))))

    def elements(self, dtype: str) -> int:
        most = min(ELEMENTS_MOST, BYTES_MOST[self.device] // _item_bytes(dtype))
        return self.even(LEAST, most)

    def shape(self, ndim: int, n: int) -> Shape:
        """Return a shape of about n elements, never more; some axes are short or powers of two."""
        shares = self.rng.dirichlet(np.full(ndim, 0.8))
        found = [max(1, int(n**share)) for share in shares]
        if ndim > 1 and self.chance(0.3):  # a short axis; the longest takes the others' elements
            found[int(self.rng.integers(ndim))] = int(self.rng.integers(2, 17))
        if self.chance(0.25):
            k = int(self.rng.integers(ndim))
            found[k] = 1 << (found[k].bit_length() - 1)
        longest = found.index(max(found))
        others = math.prod(found) // found[longest]
        found[longest] = max(1, min(found[longest], n // others) if others > 1 else n)
        return tuple(found)

    def view(
        self, shape: Shape, dtype: str, whole: float, turned: bool = False
    ) -> tuple[Shape, str]:
        """Return a contiguous array's shape, and its view of the shape that is wanted.

        The view is the whole array with the probability `whole`; else a slice, every second or
        third element along an axis, or, with `turned`, other axes' order. It is whole where its
        array would be too large.
        """
        if self.chance(whole) or not shape:
            return shape, ""
        turned = turned and len(shape) > 1
        kind = self.one(("slice", "step", "turned") if turned else ("slice", "step"))
        k = int(self.rng.integers(len(shape)))
        base, index = [*shape], [":"] * len(shape)
        if kind == "turned":
            axes = tuple(map(int, self.rng.permutation(len(shape))))
            base = [shape[axes.index(j)] for j in range(len(shape))]
            return tuple(base), f".transpose({', '.join(map(str, axes))})"
        if kind == "step":
            step = int(self.rng.integers(2, 4))
            base[k] = shape[k] * step
            index[k] = f"::{step}"
        else:
            before, after = map(int, self.rng.integers(1, 20, 2))
            base[k] = shape[k] + before + after
            index[k] = f"{before}:{before + shape[k]}"
        if math.prod(base) * _item_bytes(dtype) > BYTES_MOST[self.device]:
            return shape, ""
        return tuple(base), f"[{', '.join(index[: k + 1])}]"


def _text(shape: Shape, view: str, dtype: str = "") -> str:
    return f"({', '.join(map(str, shape))}){view} {dtype}".rstrip()


def _axes(draw: _Draw) -> Workload:
    op, dtype = draw.one(OPS), draw.one(REDUCED)
    ndim = draw.one((1, 2, 2, 2, 3, 3, 4))
    base, view = draw.view(draw.shape(ndim, draw.elements(dtype)), dtype, 0.5, True)
    axis: Any = None
    if draw.chance(0.85) and ndim > 1:
        axis = int(draw.rng.integers(ndim))
        if not op.startswith("arg") and draw.chance(0.25):
            count = int(draw.rng.integers(1, ndim))
            axis = tuple(sorted(map(int, draw.rng.permutation(ndim)[:count])))
    where = "" if axis is None else f" along {axis}"
    task = Task("reduce", op, result_dtype(op, dtype), axis, views=(view,))
    label = f"{op}{where} of {_text(base, view, dtype)}"
    return Workload("axes", task, (base,), dtype, label)


def _order(shape: Shape, axes: Shape) -> list[int]:
    """Return the axes of a permutation that hold more than one element."""
    return [k for k in axes if shape[k] > 1]


def _permutes(draw: _Draw) -> Workload:
    while True:
        dtype, ndim = draw.one(MOVED), draw.one((2, 2, 2, 3, 3, 4, 5))
        shape = draw.shape(ndim, draw.elements(dtype))
        axes = tuple(map(int, draw.rng.permutation(ndim)))
        if _order(shape, axes) != sorted(_order(shape, axes)):  # else nothing moves
            break
    base, view = draw.view(shape, dtype, 0.75)
    task = Task("transpose", dtype=dtype, axes=axes, views=(view,))
    return Workload(
        "permutes", task, (base,), dtype, f"permute {axes} of {_text(base, view, dtype)}"
    )


def _stencils(draw: _Draw) -> Workload:
    dtype, radius = draw.one(("float32", "float32", "float64")), draw.even(1, 100)
    width, ndim = 2 * radius + 1, draw.one((1, 1, 2, 2, 3))
    n = min(draw.elements(dtype), max(LEAST, STEPS_MOST[draw.device] // width))
    shape = draw.shape(ndim, n)
    if ndim > 1 and draw.chance(0.15):  # rows shorter than the window
        row = draw.even(1, width)
        shape = (max(1, n // math.prod(shape[1:-1]) // row), *shape[1:-1], row)
    base, view = draw.view(shape, dtype, 0.85)
    axis = len(shape) - 1 if draw.chance(0.7) else int(draw.rng.integers(len(shape)))
    weighted, mode, even = draw.chance(0.5), draw.one(MODES), draw.chance(0.15)
    origin = int(draw.rng.integers(-radius, radius + 1 - even)) if draw.chance(0.15) else 0
    task = Task("stencil1d", dtype=dtype, axis=axis, radius=radius, weighted=weighted, mode=mode,
                origin=origin, even=even, views=(view,))  # fmt: skip
    size = f"an even window, {width - 1}" if even else f"radius {radius}"
    what = (f"stencil of {size}, {mode}{', weights' * weighted}"
            f"{f', origin {origin}' * (origin != 0)}, along {axis}")  # fmt: skip
    return Workload("stencils", task, (base,), dtype, f"{what} of {_text(base, view, dtype)}")


def _matmul(draw: _Draw) -> Workload:
    dtype = draw.one(("float32",) * 8 + ("float64", "float16"))
    most = STEPS_MOST[draw.device] // (HALVES_LESS[draw.device] if dtype == "float16" else 1)
    elements = BYTES_MOST[draw.device] // 4 // np.dtype(dtype).itemsize
    form = draw.one(("matrices",) * 5 + ("stack", "stacks", "row", "column"))
    while True:
        m, k, n, count = (draw.even(1, high) for high in (1 << 14, 1 << 17, 1 << 14, 256))
        m, n = (1 if form == "row" else m), (1 if form == "column" else n)
        count = count if form.startswith("stack") else 1
        if draw.chance(0.3):
            m = k = n = 1 << (m.bit_length() - 1) if form == "matrices" else m
        if draw.chance(0.3):
            k = max(1, min(m, k))
        largest = count * max(m * k, k * n, m * n)
        if m * k * n * count <= most and LEAST <= largest <= elements:
            break
    stack = (count,) if form.startswith("stack") else ()
    a: Shape = (k,) if form == "row" else (*stack, m, k)
    b: Shape = (k,) if form == "column" else (*stack * (form == "stacks"), k, n)
    shapes, views = [], []
    for shape in (a, b):
        turn = len(shape) == 2 and draw.chance(0.25)
        base, view = (shape[::-1], ".transpose(1, 0)") if turn else draw.view(shape, dtype, 0.9)
        shapes.append(base)
        views.append(view)
    task = Task("matmul", dtype=dtype, views=tuple(views))
    both = " @ ".join(map(_text, shapes, views))
    return Workload("matmul" if dtype == "float32" else APART, task, tuple(shapes), dtype,
                    f"{both} {dtype}")  # fmt: skip


def _vectors(draw: _Draw) -> Workload:
    family, dtype = draw.one(("add", "add", "saxpy")), draw.one(ADDED)
    if family == "saxpy" and not dtype.startswith(("float", "bfloat")):
        family = "add"
    ndim = draw.one((1, 2, 2, 3))
    n = draw.elements(dtype) // 2
    shape = draw.shape(ndim, max(LEAST, n))
    other = draw.one(("array", "array", "row", "column") + ("number",) * (family == "add"))
    base, view = draw.view(shape, dtype, 0.75, True)
    first = _text(base, view)
    if other == "number":
        task = Task(family, dtype=dtype, views=(view,), number=True)
        return Workload("vectors", task, (base,), dtype, f"{first} + number, {dtype}")
    second = {"array": shape, "row": shape[-1:], "column": (*shape[:-1], 1)}[other]
    base2, view2 = draw.view(second, dtype, 0.85)
    task = Task(family, dtype=dtype, views=(view, view2))
    factor = "2.5 * " if family == "saxpy" else ""
    label = f"{factor}{first} + {_text(base2, view2)} {dtype}"
    return Workload("vectors", task, (base, base2), dtype, label)


_MAKERS = {
    "axes": _axes,
    "permutes": _permutes,
    "stencils": _stencils,
    "matmul": _matmul,
    "vectors": _vectors,
}


def _turns(kinds: Iterable[str]) -> Iterator[str]:
    """Yield kinds in turns, each as often as its share, spread evenly."""
    due = dict.fromkeys(kinds, 0.0)
    whole = sum(KINDS[kind] for kind in due)
    while True:
        for kind in due:
            due[kind] += KINDS[kind] / whole
        kind = max(due, key=lambda each: due[each])
        due[kind] -= 1
        yield kind


def works(device: str, seed: int, cases: int, kinds: list[str]) -> list[Workload]:
    """Return the works of a seed, for "cuda" or "cpu": the cpu's are smaller."""
    found = []
    for at, kind in zip(range(cases), _turns(kinds), strict=False):
        work = _MAKERS[kind](_Draw(seed, at, device))
        found.append(replace(work, label=f"{work.group} #{at} {work.label}"))
    return found


def checked(
    seed: int | None, cases: int | None, kinds: Iterable[str] | None
) -> tuple[int, int, list[str]]:
    """Return seed, cases and kinds of a draw; raise for other values, and for a draw without seed.

    Raises
    ------
    TypeError, ValueError
    """
    if seed is None:
        for name, value in (("cases", cases), ("kinds", kinds)):
            if value is not None:
                raise ValueError(f"{name}: belongs to a random draw; pass random=SEED as well")
        return 0, 0, []
    seed = whole(seed, "random", 0, 2**63 - 1)
    cases = whole(CASES if cases is None else cases, "cases", 1, CASES_MOST)
    chosen = list(dict.fromkeys(KINDS if kinds is None else names(kinds, "kinds")))
    for kind in chosen:
        if kind not in KINDS:
            raise ValueError(unknown_name("kinds", kind, "a kind of works", KINDS))
    if not chosen:
        raise ValueError(f"kinds: is empty; use some of {', '.join(map(repr, KINDS))}")
    return seed, cases, [kind for kind in KINDS if kind in chosen]
