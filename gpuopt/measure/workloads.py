"""The workloads of `gpuopt.bench`, and the project's bars for them.

A work is a task (`peer_libraries.Task`) with the shapes and the dtype of its arrays. Its data is
random, its result known from NumPy, in float64 where elements are floating-point numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gpuopt.families import oracle
from gpuopt.measure.peer_libraries import LeftOutError, Task, view_of
from gpuopt.util import parts

GROUPS = {
    "sum": "sums of whole arrays, 2^10 to 2^30 elements",
    "axis": "sum, max and argmax along every axis of many shapes, in eight dtypes",
    "layout": "the same of arrays in other layouts, read in place",
    "transpose": "transposes of matrices, elements of 1 to 16 bytes",
    "permute": "transposes of more axes",
    "stencil": "stencils of radius 3, 16 and 64",
    "matmul": "matrix products in float32",
    "vector": "x + y and a * x + y",
    "call": "a small sum, from the call to the number in Python",
    "host": "a sum of a pageable NumPy array, on the GPU",
}
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "bool")
OPS = ("sum", "max", "argmax")
SECTOR = 32  # bytes that a GPU reads at once
M = 1 << 20
SHAPES = (
    (8192, 8192), (4 * M, 64), (64, 4 * M), (M, 16), (16, M), (4096, 4096, 4), (3, 16 * M),
    (16 * M, 3), (256 * M,),
)  # fmt: skip
LAYOUTS = (  # the array without gaps, how it is viewed, and along which axis
    ((256 * M,), "[::2]", 0),
    ((8192, 8192), "[:, ::3]", 0),
    ((8192, 8192), "[:, ::3]", 1),
    ((8192, 8192), "Fortran order", 0),
    ((8192, 8192), "Fortran order", 1),
    ((64 * M,), "reversed", 0),
)
# Among them: an image's channels moved from last to first and back, rotated images, views at odd
# offsets, small matrices.
PERMUTED = (
    ((64, 2048, 2048), (0, 2, 1), "float32"),
    ((256, 1024, 1024), (2, 0, 1), "float32"),
    ((32, 128, 512, 64), (0, 2, 1, 3), "float32"),
    ((1024, 224, 224, 3), (0, 3, 1, 2), "uint8"),
    ((1024, 3, 224, 224), (0, 2, 3, 1), "uint8"),
    ((1024, 224, 224, 3), (0, 3, 1, 2), "float16"),
    ((1024, 3, 224, 224), (0, 2, 3, 1), "float32"),
    ((16, 2160, 3840, 3), (0, 2, 1, 3), "uint8"),
    ((1000000, 100), (1, 0), "float32"),
    ((100001, 1001), (1, 0), "float32"),
    ((16383, 16381), (1, 0), "float16"),
    ((1024, 225, 223, 3), (0, 3, 1, 2), "uint8"),
    ((1024, 225, 223, 3), (0, 2, 1, 3), "uint8"),
    ((1024, 225, 223, 3), (1, 0, 2, 3), "uint8"),
    ((4096, 255, 257), (0, 2, 1), "uint8"),
    ((16777216, 4, 4), (0, 2, 1), "uint8"),
)
# Most bytes and operations of a workload, so that a bench takes minutes.
BYTES_MOST = {("cuda", False): 1 << 40, ("cuda", True): 32 << 20,
              ("cpu", False): 128 << 20, ("cpu", True): 1 << 20}  # fmt: skip
OPERATIONS_MOST = {("cuda", False): 1 << 60, ("cuda", True): 1 << 33,
                   ("cpu", False): 1 << 34, ("cpu", True): 1 << 27}  # fmt: skip


# --- bars


@dataclass(frozen=True)
class Bar:
    """The target of a workload on a kind of device.

    Attributes
    ----------
    device : str
        "cuda" or "cpu".
    works : str
        A regular expression for their titles, from the beginning.
    what : {"x", "of copy", "GB/s", "us"}
        Times as fast as the fastest of `against`; the share of a copy's speed; bytes per second;
        microseconds at most.
    value : float
    against : tuple of str
        The libraries.
    gpu : str
        The GPU that an absolute number is for.
    least_bytes : int
        Workloads with fewer bytes have no target.
    """

    device: str
    works: str
    what: str
    value: float
    against: tuple[str, ...] = ()
    gpu: str = ""
    least_bytes: int = 0

    def __str__(self) -> str:
        """Return the bar as the table has it."""
        against = "/".join(self.against)
        return {
            "x": f"{self.value:g}x {against}",
            "of copy": f"{self.value:g} of copy",
            "GB/s": f"{self.value:,.0f} GB/s",
            "us": f"{self.value:g} us",
        }[self.what]


_BOTH = ("PyTorch", "CuPy")
BARS = (
    Bar("cuda", r"sum of 2\^16 float32$", "x", 1.6, ("CuPy",)),
    Bar("cuda", r"sum of 2\^20 float32$", "x", 1.3, ("CuPy",)),
    Bar("cuda", r"sum of 2\^22 float32$", "x", 1.2, ("CuPy",)),
    Bar("cuda", r"sum of 2\^25 float32$", "x", 1.07, ("CuPy",)),
    Bar("cuda", r"sum of 2\^28 float32$", "x", 1.01, ("CuPy",)),
    Bar("cuda", r"sum of 2\^30 float32$", "x", 1.01, ("CuPy",)),
    Bar("cuda", r"sum of 2\^30 float32$", "GB/s", 4550, gpu="H200"),
    Bar("cuda", r"\w+ along axis .* \(8192, 8192\) \w+$", "GB/s", 4100, (), "H200", 256 * M),
    Bar("cuda", r"\w+ along axis ", "GB/s", 3000, (), "H200", 256 * M),
    Bar("cuda", r"\w+ along axis ", "x", 0.97, _BOTH),
    Bar("cuda", r"permute \((0, 2, 1|2, 0, 1|0, 2, 1, 3)\) of .* float32$", "of copy", 0.9),
    Bar("cuda", r"transpose of ", "of copy", 0.97),
    Bar("cuda", r"transpose of .* float32$", "x", 3.3, _BOTH),
    Bar("cuda", r"stencil of radius 3 on 2\^28 ", "of copy", 0.97),
    Bar("cuda", r"stencil of radius 16 on 2\^28 ", "of copy", 0.95),
    Bar("cuda", r"stencil of radius 64 on 2\^28 ", "of copy", 0.9),
    Bar("cuda", r"stencil of radius \d+ on 2\^28 ", "x", 3, ("CuPy",)),
    Bar("cuda", r"stencil of radius \d+ on 2\^28 ", "x", 5, ("PyTorch",)),
    Bar("cuda", r"matrix product of 1024 ", "x", 0.9, _BOTH),
    Bar("cuda", r"matrix product of (4096|8192) ", "x", 0.95, _BOTH),
    Bar("cuda", r"sum of 2\^10 float32, as a number$", "us", 9.5, gpu="H200"),
    Bar("cuda", r"sum of 2\^28 float32, .*from the host$", "GB/s", 45, gpu="H200"),
    Bar("cuda", r"sum of 2\^28 float32, .*from the host$", "x", 4, _BOTH),
    Bar("cpu", r"sum of 2\^25 float32$", "x", 1.9, ("NumPy",)),
    Bar("cpu", r"transpose of 4096 x 4096 float32$", "x", 3, ("NumPy",)),
    Bar("cpu", r"stencil of radius 3 on 2\^24 float32$", "x", 3, ("SciPy",)),
)


def bars(title: str, kind: str, description: str, touched: int) -> list[Bar]:
    """Return a work's bars on a device; of several for the same, the first one."""
    found: dict[tuple[str, tuple[str, ...]], Bar] = {}
    for bar in BARS:
        fits = bar.device == kind and bar.gpu in description and touched >= bar.least_bytes
        if fits and re.match(bar.works, title):
            found.setdefault((bar.what, bar.against), bar)
    return list(found.values())


# --- works


@dataclass(frozen=True)
class Workload:
    """One line of a bench.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    task : Task
    shapes : tuple of tuple of int
        Shapes of the contiguous arrays.
    dtype : str
        Dtype of their elements.
    label : str
        The title, where the shapes of the arrays and the operation do not say all.
    """

    group: str
    task: Task
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    label: str = ""

    @property
    def title(self) -> str:
        """The operation and its operands."""
        if self.label:
            return self.label
        task, shape = self.task, self.shapes[0]
        items = f"{_count(shape)} {self.dtype}"
        if task.family == "reduce":
            view = f", {task.views[0]}" if task.views else ""
            if task.axis is not None:
                return f"{task.op} along axis {task.axis} of {items}{view}"
            end = ", as a number" * task.as_number + ", from the host" * task.from_host
            return f"{task.op} of {items}{end}"
        return {
            "transpose": f"permute {task.axes} of {items}"
            if task.axes
            else f"transpose of {shape[0]} x {shape[-1]} {self.dtype}",
            "stencil1d": f"stencil of radius {task.radius} on {items}",
            "add": f"x + y of {items}",
            "saxpy": f"2.5 * x + y of {items}",
            "matmul": f"matrix product of {shape[0]} x {shape[-1]} {self.dtype}",
        }[task.family]

    @property
    def words(self) -> set[str]:
        """The title's words, by which it can be asked for."""
        return set(self.title.replace(",", "").split())

    @property
    def input_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(map(math.prod, self.shapes)) * np.dtype(_numpy_name(self.dtype)).itemsize

    @property
    def operands(self) -> list[np.ndarray]:
        """The viewed operands, with shapes, strides and no memory of their own."""
        item = np.dtype(_numpy_name(self.dtype))
        whole = [as_strided(np.empty(1, item), shape, _strides(shape, item.itemsize))
                 for shape in self.shapes]  # fmt: skip
        return self.task.viewed(whole)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The result's shape."""
        task, shapes = self.task, [each.shape for each in self.operands]
        first = shapes[0]
        if task.family == "reduce":
            axes = range(len(first)) if task.axis is None else np.atleast_1d(task.axis)
            return tuple(n for k, n in enumerate(first) if k not in axes)
        if task.family == "transpose":
            return tuple(first[k] for k in task.axes or (1, 0))
        if task.family == "matmul":
            a, b = first, shapes[1]
            rows = a[-2:-1] if len(a) > 1 else ()
            columns = b[-1:] if len(b) > 1 else ()
            return (*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns)
        return np.broadcast_shapes(*shapes)

    @property
    def output_bytes(self) -> int:
        """Bytes of the result; of a single value left out, as few."""
        task = self.task
        if task.family == "reduce" and task.axis is None:
            return 0
        name = task.dtype if task.family == "reduce" else self.dtype
        return math.prod(self.result_shape) * np.dtype(_numpy_name(name)).itemsize

    @property
    def touched(self) -> int:
        """Bytes that the algorithm reads and writes, each once; also those in a view's gaps.

        A drawn view counts with its elements and the sectors' gaps between them, no more.
        """
        if not self.label:
            return self.input_bytes + self.output_bytes
        return self.output_bytes + sum(map(_reached, self.operands))

    @property
    def flops(self) -> int:
        """Operations, if the rate counts them; else 0."""
        if self.task.family != "matmul":
            return 0
        return 2 * math.prod(self.result_shape) * self.operands[0].shape[-1]

    def has_arguments_of(self, other: Workload) -> bool:
        """Tell whether another work's arguments are the same, at the same place."""
        mine, others = (
            (each.task.family, each.task.from_host, each.shapes, each.dtype)
            for each in (self, other)
        )
        return mine == others

    def shrunk(self, bytes_most: int, operations_most: int) -> Workload:
        """Return the work on arrays whose longest axes are halved until it is small enough."""
        work = self
        while work.input_bytes > bytes_most or work.flops > operations_most:
            longest = max(work.shapes[0])
            every = work.task.family == "matmul"
            halved = [n // 2 if n == longest else n for n in work.shapes[0]]
            if not every and halved.count(longest // 2) > 1:  # one axis at a time
                halved = [*work.shapes[0]]
                halved[halved.index(longest)] //= 2
            work = replace(work, shapes=(tuple(halved),) * len(work.shapes))
        return work


def _strides(shape: tuple[int, ...], item: int) -> list[int]:
    return [item * math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _reached(view: np.ndarray) -> int:
    """Return the bytes of a view's elements, and of the gaps between them that share a sector."""
    axes = sorted((abs(s), n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1)
    run, count = view.itemsize, 1  # bytes of a run without larger gaps, and how many there are
    for step, extent in axes:
        if step <= run + SECTOR and count == 1:
            run += (extent - 1) * step
        else:
            count *= extent
    return min(run * count, view.size * max(view.itemsize, SECTOR))


def _count(shape: tuple[int, ...]) -> str:
    if len(shape) > 1:
        return f"({', '.join(map(str, shape))})"
    n = shape[0]
    return f"2^{n.bit_length() - 1}" if n & (n - 1) == 0 else f"{n:,}"


def _numpy_name(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype  # for its size alone


def _reductions() -> Iterator[Workload]:
    for n in (10, 16, 20, 22, 25, 28, 30):
        yield Workload("sum", Task("reduce"), ((1 << n,),))
    for dtype in DTYPES:
        # One after the other, what has the same arrays: nothing is moved anew.
        for shape in SHAPES:
            for axis, op in product(range(len(shape)), OPS):
                task = Task("reduce", op, result_dtype(op, dtype), axis)
                yield Workload("axis", task, (shape,), dtype)
        for (shape, view, axis), op in product(LAYOUTS, OPS):
            task = Task("reduce", op, result_dtype(op, dtype), axis, views=(view,))
            yield Workload("layout", task, (shape,), dtype)


def _others() -> Iterator[Workload]:
    for side in (4096, 8192, 16384):
        yield Workload("transpose", Task("transpose"), ((side, side),))
    yield Workload("transpose", Task("transpose"), ((5000, 7001),))
    for dtype in ("int8", "float16", "float64", "complex128"):
        yield Workload("transpose", Task("transpose", dtype=dtype), ((8192, 8192),), dtype)
    for shape, axes, dtype in PERMUTED:
        yield Workload("permute", Task("transpose", axes=axes, dtype=dtype), (shape,), dtype)
    for radius in (3, 16, 64):
        yield Workload("stencil", Task("stencil1d", radius=radius), ((256 * M,),))
    for side in (1024, 4096, 8192):
        yield Workload("matmul", Task("matmul"), ((side, side),) * 2)
    for family in ("add", "saxpy"):
        for n in (4 * M, 64 * M):
            yield Workload("vector", Task(family), ((n,),) * 2)
    yield Workload("call", Task("reduce", as_number=True), ((1024,),))
    yield Workload("host", Task("reduce", as_number=True, from_host=True), ((256 * M,),))


def works(kind: str, *, quick: bool) -> list[Workload]:
    """Return what a kind of device is measured by: on the cpu and for a quick look, less of it."""
    limits = BYTES_MOST[kind, quick], OPERATIONS_MOST[kind, quick]
    found: dict[str, Workload] = {}
    for each in (*_reductions(), *_others()):
        if each.task.from_host and kind == "cpu":
            continue  # there it is a sum as any other
        work = each.shrunk(*limits)
        found.setdefault(work.title, work)
    # The bars of the cpu are for smaller arrays than a GPU's.
    if kind == "cpu" and not quick:
        stencil = Workload("stencil", Task("stencil1d"), ((16 * M,),))
        found[stencil.title] = stencil
    order = list(GROUPS)
    return sorted(found.values(), key=lambda work: order.index(work.group))


# --- data and right results


def result_dtype(op: str, dtype: str) -> str:
    """Return the dtype of a reduction's result: NumPy's."""
    if op in ("any", "all"):
        return "bool"
    if op == "sum" and dtype.startswith("uint"):
        return "uint64"
    if op.startswith("arg") or (op == "sum" and not dtype.startswith(("float", "bfloat"))):
        return "int64"
    return dtype


def numpy_dtype(name: str) -> np.dtype:
    """Return a dtype by name; bfloat16 is ml_dtypes'.

    Raises
    ------
    LeftOutError
        ml_dtypes is not installed.
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise LeftOutError("needs ml_dtypes (pip install ml_dtypes)") from None
    return np.dtype(ml_dtypes.bfloat16)


_drawn: dict[str, np.ndarray] = {}  # of the last dtype, as many items as any work asked for


def _items(name: str, n: int) -> np.ndarray:
    if name not in _drawn or _drawn[name].size < n:
        _drawn.clear()  # before the others are made: memory
        _drawn[name] = oracle.draw(n, numpy_dtype(name), np.random.default_rng(7))
    return _drawn[name][:n]


def forget() -> None:
    """Free the memory of the random data."""
    _drawn.clear()


def draw(work: Workload) -> tuple[Any, ...]:
    """Return the arguments of a work: contiguous arrays, saxpy's factor before them, a number."""
    sizes = [math.prod(shape) for shape in work.shapes]
    flat, arrays, at = _items(work.dtype, sum(sizes)), [], 0
    for shape, size in zip(work.shapes, sizes, strict=True):
        arrays.append(flat[at : at + size].reshape(shape))
        at += size
    if work.task.number:
        arrays.append(2.5 if work.dtype.startswith(("float", "bfloat")) else 3)
    return (2.5, *arrays) if work.task.family == "saxpy" else tuple(arrays)


Check = Callable[[np.ndarray, bool], str]


def _check_sum(view: np.ndarray, axes: tuple[int, ...]) -> Check:
    wide = np.float64 if view.dtype.kind not in "biu" else np.int64
    exact = view
    for axis in axes:  # from the last one to the first
        exact = parts.total(exact, axis, wide)
    if view.dtype.kind in "biu":
        return lambda got, strict: oracle.wrong(got, exact)
    count = math.prod(view.shape[axis] for axis in axes)
    item = oracle.eps_of(view.dtype)

    def check(got: np.ndarray, strict: bool) -> str:
        # Ours is rounded once, from float64. Others may lose a bit per element, up to a quarter of
        # the size of a random sum, sqrt(count / 3): a wrong sum would pass beyond.
        lost = 0.0 if strict else min(4 * item * count, 0.25 * math.sqrt(count))
        return oracle.wrong(got, exact, count * 2.0**-52 + lost, item)

    return check


def _check_places(view: np.ndarray, axis: int, op: str) -> Check:
    right = parts.place(view, axis, op)

    def check(got: np.ndarray, strict: bool) -> str:
        error = oracle.wrong(got, right)
        if strict or not error or got.shape != right.shape:
            return error
        if got.min() < 0 or got.max() >= view.shape[axis]:
            return error
        # NumPy's is the first of several equal items; others return any of them.
        return "" if parts.same_at(view, axis, got, right) else error

    return check


def _check_reduction(work: Workload, array: np.ndarray) -> Check:
    task, view = work.task, view_of((*work.task.views, "")[0])(array)
    every = range(view.ndim) if task.axis is None else np.atleast_1d(task.axis)
    axes = tuple(sorted(map(int, every), reverse=True))
    if task.op == "sum":
        return _check_sum(view, axes)
    if task.op.startswith("arg"):
        flat = task.axis is None and view.ndim > 1
        return _check_places(view.reshape(-1) if flat else view, 0 if flat else axes[0], task.op)
    right = view
    for axis in axes:
        right = parts.combined(right, axis, task.op)
    return lambda got, strict: oracle.wrong(got, right)


def _check_of_one(work: Workload, arguments: tuple[Any, ...]) -> oracle.Check:
    task = work.task
    arguments = tuple(task.viewed(arguments))
    if task.family == "transpose":
        return oracle.transposed(np.ascontiguousarray(arguments[0]), task.axes)
    if task.family == "stencil1d":
        axis = -1 if task.axis is None else task.axis
        before = task.width // 2 + task.origin
        sides = before, task.width - 1 - before
        return oracle.stencilled(arguments[0], sides, task.weights, task.mode, axis)
    if task.family == "matmul":
        return oracle.product(*arguments)
    *factor, x, y = arguments
    return oracle.combined(x, y, *factor)


def check_of(work: Workload, arguments: tuple[Any, ...]) -> Check:
    """Return what tells the error of a result, or "".

    It takes the result and whether it is ours, and so has to be as exact as we promise.
    """
    if work.task.family == "reduce":
        return _check_reduction(work, *arguments)
    check = _check_of_one(work, arguments)
    return lambda got, strict: check(got)
