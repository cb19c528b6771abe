"""Every strategy of the planner of reductions along an axis, forced on layouts, against NumPy."""

import numpy as np
import pytest
from conftest import KINDS, on

import gpuopt
from gpuopt import _core
from gpuopt.arrays.inout import Problem
from gpuopt.families import axis_plan
from gpuopt.families.cases import with_output

(ROW,) = [row for row in _core.tunings("reduce_axis") if row["name"] == "strategy"]
GPUS = [on(kind, kind, id=kind) for kind in KINDS if kind != "cpu"]
LAYOUTS = [  # shape, view, axis
    ((700, 3), np.s_[:], 1),  # rows of a word or of three elements
    ((700, 4), np.s_[:], 1),
    ((301, 7), np.s_[:], 1),  # of two words
    ((90, 64), np.s_[:], 1),  # rows of whole vectors
    ((500, 41), np.s_[:], 1),  # of vectors that begin anywhere
    ((50, 333), np.s_[:], 1),  # unaligned rows
    ((40, 520), np.s_[:, 2:-1], 1),  # rows with gaps beside them
    ((40, 600), np.s_[:, ::2], 1),  # every second element
    ((3, 20_000), np.s_[:], 1),  # few long rows
    ((130, 256), np.s_[:], 0),  # columns by vectors
    ((130, 77), np.s_[:], 0),  # unaligned columns
    ((2000, 34), np.s_[:, 2:-1], 0),
    ((6, 3001), np.s_[:], 0),
    ((2, 5, 4999), np.s_[:, :, 1:], 1),
    ((3, 2, 2100), np.s_[:, :, 1:], 0),  # columns of rows with gaps beside them
    ((130, 2100), np.s_[:], 0),  # chunks of such columns
    ((30_000, 3), np.s_[:], 0),  # chunks of a tall slab
    ((1, 9001), np.s_[:, 13:-5], 0),  # a copy from any address
    ((3, 41, 90), np.s_[:, :, 1::3], 1),  # every third column
    ((2, 300, 57), np.s_[:, 1:-1, :55], 1),
    ((60, 40, 5), np.s_[:], 1),  # slabs of few inner elements
    ((24, 26, 328), np.s_[:], 1),  # slabs of bytes that fewer threads take than are planned
    ((5, 64, 16), np.s_[:, :, ::3], 1),
    ((300, 4, 64), np.s_[:], 1),  # columns of many slabs side by side
    ((20, 3, 15, 32), np.s_[::2], 1),
    ((20, 3, 16, 2, 32), np.s_[:, :, ::2], 1),
]


def problem_of(base, view, axis, op, result):
    """Return a view's first pass, as `_core.Workbench` accepts it, and whether it is the last.

    The elements before the view's first are cut off: a Workbench's input begins at a vector.
    """
    seen = base[view]
    start = (seen.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // (
        base.itemsize
    )
    scheme = axis_plan.scheme_of(seen.shape, seen.strides, base.dtype, op, (axis,), result)
    (one,) = scheme.passes
    run = base.reshape(-1)[start:].view(one.kernel[2])
    return with_output(Problem(*one.kernel, (run,), (one.results,), one.dtype, one.numbers)), one


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("strategy", ROW["tried"])
@pytest.mark.parametrize(
    ("op", "dtype", "result"),
    [
        ("sum", "float32", "float32"),
        ("sum", "int8", "int64"),
        ("argmax", "int16", "int64"),
        ("any", "int32", "bool"),
        ("argmin", "float64", "int64"),
        ("max", "float16", "float16"),
    ],
)
def test_each_strategy_returns_numpys_results(device, strategy, op, dtype, result, rng):
    reduce = getattr(np, op)
    for shape, view, axis in LAYOUTS:
        base = rng.integers(-99, 99, shape).astype(dtype)
        if op == "any":
            base *= rng.random(shape) < 0.01
        problem, one = problem_of(base, view, axis, op, np.dtype(result))
        bench = _core.Workbench(problem, device=device)
        got = bench.run(1, tuning={"strategy": strategy}).view(one.dtype).astype(result)
        want = reduce(base[view], axis=axis)  # whole numbers: every order of addition is exact
        np.testing.assert_array_equal(got, want.reshape(-1), str((shape, view, axis)))


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("strategy", [0, 3, 7, 8, 9])
@pytest.mark.parametrize(
    ("op", "dtype", "result"),
    [("sum", "int16", "int64"), ("any", "int8", "bool"), ("argmin", "uint8", "int64")],
)
def test_chunks_of_many_results_are_joined(device, strategy, op, dtype, result, rng):
    """The last block of some results joins chunks in several rounds."""
    base = rng.integers(0, 99, (6007, 250)).astype(dtype)
    problem, one = problem_of(base, np.s_[:], 0, op, np.dtype(result))
    bench = _core.Workbench(problem, device=device)
    got = bench.run(1, tuning={"strategy": strategy}).view(one.dtype).astype(result)
    np.testing.assert_array_equal(got, getattr(np, op)(base, axis=0))


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("op", ["sum", "max", "all", "argmin"])
def test_small_turned_arrays_are_reduced_in_the_order_of_the_result(device, op, rng):
    """One pass: the result of memory's order would have to be turned by a second launch."""
    base = rng.integers(0, 3, (1, 5, 13, 40)).astype(np.int16)
    for turned, axis in (
        ((2, 0, 1, 3), 1),
        ((3, 2, 1, 0), 2),
        ((2, 3, 0, 1), 3),
        ((3, 0, 2, 1), 0),
    ):
        seen = base.transpose(turned)
        want = getattr(np, op)(seen, axis=axis)
        scheme = axis_plan.scheme_of(seen.shape, seen.strides, base.dtype, op, (axis,), want.dtype)
        assert scheme.straight and len(scheme.passes) == 1
        np.testing.assert_array_equal(gpuopt.reduce(seen, op, axis=axis, device=device), want)
    large = np.empty((300, 40, 30), np.int16).transpose(2, 1, 0)
    assert not axis_plan.scheme_of(
        large.shape, large.strides, large.dtype, "max", (1,), large.dtype
    ).straight
    one = rng.random((300, 1, 40, 30)).transpose(3, 2, 1, 0)  # argmin reads one element of it
    scheme = axis_plan.scheme_of(one.shape, one.strides, one.dtype, "argmin", (2,), np.dtype(int))
    assert scheme.straight and len(scheme.passes) == 1
    got = gpuopt.reduce(one, "argmin", axis=2, device=device)
    np.testing.assert_array_equal(got, np.zeros((30, 40, 300), int))


@pytest.mark.parametrize(
    ("dtype", "shape", "axis"),
    [
        ("int8", (24_709, 1358), 0),  # rows of the least length that are added one by one
        ("uint16", (33_000, 511), 0),
        ("float32", (700, 9, 1686), 1),
        ("float32", (5, 1_700_001), 0),  # rows of many tiles
        ("float64", (3, 1_400_003), 0),  # few rows
        ("float64", (16_500, 257), 0),
        ("bool", (66_000, 513), 0),
        ("complex64", (8200, 513), 0),
    ],
)
def test_columns_beyond_the_caches_on_the_cpu(dtype, shape, axis, rng):
    array = (rng.integers(0, 100, shape) % 97 % 50).astype(dtype)
    places = ("max", "min", "argmax", "argmin") * (array.dtype.kind != "c")
    for op in ("sum", "any", "all", *places):
        got = gpuopt.reduce(array, op, axis=axis, device="cpu")
        want = getattr(np, op)(array, axis=axis)  # whole numbers: sums are exact
        np.testing.assert_array_equal(got, want, err_msg=op)
        assert got.dtype == want.dtype
