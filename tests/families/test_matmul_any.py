"""Products of any shape, layout and dtype: stacks, vectors, narrow matrices, strided operands.

Bound, with u of the sums' dtype: (K + 4) * u * (|a| @ |b|), and one rounding to the result's dtype.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from conftest import KINDS, kinds
from test_strided import strided, there

import gpuopt
from gpuopt import _core
from gpuopt.arrays.libraries import view_of
from gpuopt.families import matmul
from gpuopt.families.cases import with_output

DTYPES = ["float32", "float64", "float16"]
ROUNDING = {"float16": (2.0**-11, 2.0**-25), "float32": (0, 0), "float64": (0, 0)}
needs_sim = pytest.mark.skipif("sim" not in KINDS or bool(KINDS["sim"]), reason="needs the sim")


def check(got, a, b):
    dtype = a.dtype.name
    wide = np.longdouble if dtype == "float64" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    want, size = np.matmul(a, b), np.matmul(abs(a), abs(b))
    relative, absolute = ROUNDING[dtype]
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    assert got.dtype == dtype and got.shape == want.shape
    bound = (a.shape[-1] + 4) * unit * size + relative * abs(want) + absolute
    assert (abs(got - want) <= bound).all(), (a.shape, b.shape)


def shapes_of(rng, axes, most):
    """Draw the shapes of two operands that broadcast."""
    m, k, n = (int(rng.choice([1, 2, 3, 5, 8, 17, most])) for _ in range(3))
    stack = [int(n) for n in rng.choice([1, 2, 3], axes)]
    one, other = ([each if rng.random() < 0.7 else 1 for each in stack] for _ in range(2))
    a, b = (*one, m, k), (*other[int(rng.integers(0, axes + 1)) :], k, n)
    return (a[-1:] if axes == 0 and rng.random() < 0.2 else a), (
        b[:1] if n == 1 and len(b) == 2 else b
    )


@pytest.mark.parametrize("device", kinds()[1:])
def test_a_device_repeats_stacks_of_too_many_axes(device, rng):
    """Seven axes that do not merge; ten are more than a copy on a device takes."""
    a = rng.random((2, 1, 3, 1, 2, 1, 2, 3, 4), dtype=np.float32)
    b = rng.random((1, 2, 1, 2, 1, 3, 1, 4, 5), dtype=np.float32)
    there = [gpuopt.asarray(each, device) for each in (a, b)]
    check(gpuopt.matmul(*there).get(), a, b)
    with pytest.raises(ValueError, match="has 10 axes that cannot be merged"):
        gpuopt.matmul(*(gpuopt.empty((*axes * 5, 1, 1), "f4", device) for axes in ((2, 1), (1, 2))))


@needs_sim
@pytest.mark.parametrize("variant", [None, 11, 12, 13])
@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_of_any_layout_match_numpy(dtype, variant, rng):
    for _ in range(40):
        pair = []
        for shape in shapes_of(rng, int(rng.integers(0, 4)), 40):
            room, array = strided(rng, shape, dtype)
            room /= 500
            pair.append((array, *there(room, array)))
        (a, keep_a, view_a), (b, keep_b, view_b) = pair
        plan = matmul._there(view_a, view_b, variant, None)
        check(plan.run(view_a, view_b, None, None).get(), a, b)
        assert keep_a.size and keep_b.size


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("dtype", DTYPES)
def test_stacks_broadcast_as_numpys(device, dtype, rng):
    for a, b in (
        ((3, 4, 5), (5, 2)), ((4, 5), (3, 5, 2)), ((2, 1, 3, 4), (5, 4, 3)), ((6,), (2, 6, 3)),
        ((2, 3, 6), (6,)), ((7, 1, 9), (9, 40)), ((2, 0, 3), (3, 4)), ((2, 3, 0), (0, 4)),
        ((0, 3, 4), (4, 5)), ((2, 1, 2, 1, 2, 1, 2, 3, 4), (3, 1, 2, 1, 2, 1, 4, 2)),
    ):  # fmt: skip
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in (a, b))
        got = gpuopt.matmul(a, b, device=device)
        check(got, a, b)
        out = np.empty_like(got)
        assert gpuopt.matmul(a, b, out=out, device=device) is out
        check(out, a, b)
        if device != "cpu":
            check(gpuopt.matmul(*(gpuopt.asarray(x, device) for x in (a, b))).get(), a, b)


@pytest.mark.parametrize("device", [kind for kind in kinds() if "cpu" not in str(kind)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_a_deep_product_have_the_same_bits_in_every_run(device, dtype, rng):
    for a, b in (
        ((3, 9000), (9000, 2)), ((20000,), (20000,)), ((5, 20001), (20001,)),
        ((7001,), (7001, 70)), ((33, 4099), (4099, 35)), ((2, 3000, 8), (8, 5)),
    ):  # fmt: skip
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in (a, b))
        on = [gpuopt.asarray(each, device) for each in (a, b)]
        got = gpuopt.matmul(*on).get()
        check(got, a, b)
        assert gpuopt.matmul(*on).get().tobytes() == got.tobytes()


@pytest.mark.parametrize("device", [kind for kind in kinds() if "cpu" not in str(kind)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_shape_of_a_tile_matches_numpy(device, dtype, rng):
    """Words fit the second case alone; edges cut tiles, layers and slices of the others."""
    tried = {row["name"]: row["tried"] for row in _core.tunings("matmul")}
    sweeps = ((11, "tiling", "tile_slices"), (12, "patch_shape", "slices"))
    for (m, k, n), a_turned, b_turned in itertools.product(
        ((130, 70, 36), (128, 64, 64), (257, 9, 17)), (False, True), (False, True)
    ):
        operands = [rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n))]
        stored, views = [], []
        for each, turned in zip(operands, (a_turned, b_turned), strict=True):
            stored.append(np.ascontiguousarray(each.T) if turned else each)
            views.append(stored[-1].T if turned else each)
        numbers = matmul._numbers(*(x for v in views for x in (v.shape, matmul._in_items(v))))
        problem = replace(matmul.matmul_problem(*operands), inputs=tuple(stored), numbers=numbers)
        bench = _core.Workbench(with_output(problem), device=device)
        for rung, shape, slices in sweeps:
            for at, count in itertools.product(tried[shape][1:], (1, 4)):
                got = bench.run(rung, tuning={shape: at, slices: count})
                check(np.asarray(got).reshape(m, n), *views)


DOT_MODES = {row["name"]: row["tried"] for row in _core.tunings("matmul")}["dot_mode"][1:]


def in_stack(device, rng, dtype, count, m, k, n, turned):
    """Return a stack of products, and its operands, transposed in memory if `turned`."""
    stored = [rng.standard_normal((count, *shape)).astype(dtype) for shape in ((m, k), (k, n))]
    if turned:
        stored = [np.ascontiguousarray(each.swapaxes(1, 2)) for each in stored]
    views = [each.swapaxes(1, 2) if turned else each for each in stored]
    numbers = matmul._numbers(*(x for v in views for x in (v.shape, matmul._in_items(v))))
    problem = replace(
        matmul.matmul_problem(*(v[0] for v in views)),
        inputs=tuple(stored), numbers=numbers, shape=(count, m, n),
    )  # fmt: skip
    return _core.Workbench(with_output(problem), device=device), views


@pytest.mark.parametrize("device", [kind for kind in kinds() if "cpu" not in str(kind)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quads_and_columns_of_any_shape_match_numpy(device, dtype, rng):
    warps, blocks, columns = *DOT_MODES[6:8], (DOT_MODES[0], *DOT_MODES[9:])
    quads = ((4, 64, 4), (1, 513, 1), (33, 63, 1), (2, 700, 9), (7, 1, 5))
    # b's rows are contiguous
    wide = ((1, 70, 259), (2, 67, 1031), (3, 9, 514), (4, 270, 256), (11, 13, 387))
    for (m, k, n), turned in itertools.product(quads + wide, (False, True)):
        bench, views = in_stack(device, rng, dtype, 2, m, k, n, turned)
        teams = columns if m > 1 else columns[:1]  # one column has one team
        modes = teams if n >= 256 and not turned else (warps, blocks)
        for mode, slices in itertools.product(modes, (1, 4)):
            got = bench.run(13, tuning={"dot_mode": mode, "dot_slices": slices})
            check(np.asarray(got).reshape(2, m, n), *views)


@pytest.mark.parametrize("device", [kind for kind in kinds() if "cpu" not in str(kind)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_few_steps_match_numpy(device, dtype, rng):
    """Cover few columns, few rows, columns of several tiles, and products shorter than a thread."""
    rows = DOT_MODES[8]
    shapes = ((1, 300, 1, 5), (1, 2100, 7, 1), (1, 3, 6, 700), (1, 9, 33, 257), (5, 2, 3, 4),
              (300, 1, 2, 3), (3, 70, 5, 31), (1, 1, 1, 1))  # fmt: skip
    for shape, turned in itertools.product(shapes, (False, True)):
        bench, views = in_stack(device, rng, dtype, *shape, turned)
        got = bench.run(13, tuning={"dot_mode": rows})
        check(np.asarray(got).reshape(shape[0], shape[1], shape[3]), *views)


@needs_sim
def test_slices_are_added_without_a_race(rng):
    for a, b in (((33, 4099), (4099, 35)), ((7001,), (7001, 70)), ((20000,), (20000,))):
        a, b = (rng.standard_normal(shape).astype("f4") for shape in (a, b))
        assert gpuopt.check(gpuopt.matmul, a, b, device="sim:h200") == []


@needs_sim
@pytest.mark.parametrize("variant", [11, 12, 13])
def test_nan_and_infinity_stay_in_their_row_and_column(variant, rng):
    a, b = rng.random((3, 37, 21)), rng.random((3, 21, 30))
    clean = gpuopt.matmul(a, b, variant=variant, device="sim")
    a[1, 36, 20], b[1, 20, 29] = np.nan, np.inf
    got = gpuopt.matmul(a, b, variant=variant, device="sim")
    assert np.isnan(got[1, 36]).all() and np.isinf(got[1, :36, 29]).all()
    got[1, 36], got[1, :, 29] = clean[1, 36], clean[1, :, 29]
    assert got.tobytes() == clean.tobytes()


@needs_sim
def test_a_transposed_operand_costs_no_copy(rng):
    a, b = (rng.standard_normal(shape).astype("f4") for shape in ((40, 70), (40, 30)))
    (memory, view), other = there(a, a.T), view_of(gpuopt.asarray(b, "sim"), "b")
    with gpuopt.profile(device="sim") as profile:
        got = matmul._there(view, other, None, None).run(view, other, None, None)
    check(got.get(), a.T, b)
    assert memory.size and len(profile.launches) == 1


@needs_sim
def test_an_output_that_overlaps_an_operand_is_refused():
    x = gpuopt.asarray(np.ones((2, 4, 4)), "sim")
    with pytest.raises(ValueError, match="out: overlaps a"):
        gpuopt.matmul(x, gpuopt.asarray(np.ones((4, 4)), "sim"), out=x)


@needs_sim
def test_bfloat16_products_are_rounded_once(rng):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = (rng.standard_normal(shape).astype(bfloat16) for shape in ((30, 90), (90, 20)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    bound = 2.0**-8 * abs(want) + 94 * 2.0**-24 * (abs(a.astype("d")) @ abs(b.astype("d")))
    for device in ("sim", "cpu"):
        got = gpuopt.matmul(a, b, device=device)
        assert got.dtype == bfloat16 and (abs(got.astype(np.float64) - want) <= bound).all()
