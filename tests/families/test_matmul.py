"""The matrix product on every rung of every device, against NumPy in a wider type.

Bound, with u the unit roundoff that a rung adds up in: (K + 2) * u * (|a| @ |b|).
"""

import dataclasses
import itertools
import os

import numpy as np
import pytest
from conftest import KINDS, compiled_for, device_rungs, kinds, on, run_python, rungs_of

import gpuopt
from gpuopt import _core
from gpuopt.families import cases, matmul, registry

SHAPES = [(1, 1, 1), (2, 3, 4), (31, 33, 32), (32, 32, 32), (33, 31, 65), (64, 96, 128),
          (1, 200, 1), (200, 1, 200), (5, 1000, 3), (100, 70, 131),
          (127, 7, 129), (128, 8, 256), (129, 25, 132), (130, 16, 126), (257, 9, 5)]  # fmt: skip
FAMILY = "matmul"


def check(rung, got, a, b):
    dtype = np.result_type(a, b)
    wide = np.float64 if dtype == np.float32 else np.longdouble
    want = a.astype(wide) @ b.astype(wide)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert got.dtype == dtype and got.shape == want.shape and got.flags.c_contiguous
    unit = float(np.finfo(dtype).eps) / 2
    narrow = dtype == np.float32 and rung is not None and rung.host
    bound = (a.shape[1] + 2) * (2.0**-53 if narrow else unit) * size + narrow * unit * abs(want)
    assert (np.abs(got - want) <= bound).all(), (a.shape, b.shape)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_rung_dtype_and_shape(device, rung, dtype, rng):
    for m, k, n in SHAPES:
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        check(rung, gpuopt.matmul(a, b, variant=rung.variant, device=device), a, b)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_small_integers_are_exact(device, rung, rng):
    for m, k, n in SHAPES:
        a, b = (rng.integers(-9, 10, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        got = gpuopt.matmul(a, b, variant=rung.variant, device=device)
        assert np.array_equal(got, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_nan_and_infinity_stay_in_their_row_and_column(device, rung, rng):
    a, b = rng.random((70, 45)), rng.random((45, 50))
    call = {"variant": rung.variant, "device": device}
    clean = gpuopt.matmul(a, b, **call)
    a[66, 44] = np.nan  # in the tile that is filled up with zeros
    b[44, 49] = np.inf
    got = gpuopt.matmul(a, b, **call)
    assert np.isnan(got[66]).all() and np.isinf(np.delete(got[:, 49], 66)).all()
    kept = np.ones_like(got, bool)
    kept[66] = kept[:, 49] = False
    assert got[kept].tobytes() == clean[kept].tobytes()


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_empty_products_are_zero(device, rung):
    for m, k, n in ((3, 0, 4), (0, 3, 4), (3, 4, 0), (0, 0, 0)):
        got = gpuopt.matmul(np.ones((m, k)), np.ones((k, n)), variant=rung.variant, device=device)
        assert got.shape == (m, n) and not got.any()


@pytest.mark.parametrize("device", kinds())
def test_vectors(device, rng):
    matrix, left, right = (rng.integers(-9, 10, shape) / 8 for shape in ((7, 5), 7, 5))
    for a, b in (
        (matrix, right),
        (left, matrix),
        (left, left),
        (matrix[0], right),
        (left[:0],) * 2,
    ):
        want = np.matmul(a, b)
        found = gpuopt.matmul(a, b, device=device)
        assert type(found) is type(want) and found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)
        out = np.empty(want.shape)
        assert gpuopt.matmul(a, b, device=device, out=out) is out
        np.testing.assert_array_equal(out, want)
        if device != "cpu":
            there = gpuopt.matmul(*(gpuopt.asarray(each, device) for each in (a, b)))
            assert there.shape == want.shape
            np.testing.assert_array_equal(there.get(), want)
    with pytest.raises(ValueError, match="b: has shape"):
        gpuopt.matmul(matrix, left, device=device)
    with pytest.raises(ValueError, match="out: has shape"):
        gpuopt.matmul(matrix, right, device=device, out=np.empty((7, 1)))


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_large(device, rung, rng):
    if device == "sim":
        pytest.skip("executes lane by lane")
    side = 1024 if device == "cuda" else 400
    a, b = (rng.standard_normal((side, side), np.float32) for _ in range(2))
    got = gpuopt.matmul(a, b, variant=rung.variant, device=device)
    check(rung, got, a, b)
    again = gpuopt.matmul(a.copy(), b.copy(), variant=rung.variant, device=device)
    assert got.tobytes() == again.tobytes()


@pytest.mark.parametrize("rung", [on("cuda", rung, id=rung.name)
                                  for rung in rungs_of("cuda", family=FAMILY)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_odd_sizes(rung, dtype, rng):
    """Sizes one element and one word past a tile, K no multiple of a depth, more tiles than SMs."""
    shapes = ((2049, 1001, 2052), (4100, 777, 1027), (33, 100_003, 65), (1, 4099, 5000),
              (2047, 333, 2045))  # fmt: skip  # the last: large tiles on rung 10, of an H200
    for m, k, n in shapes:
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        check(rung, gpuopt.matmul(a, b, variant=rung.variant, device="cuda"), a, b)


@pytest.mark.parametrize("device", kinds())
def test_layouts_dtypes_and_out(device, rng):
    a, b = rng.standard_normal((40, 50)), rng.standard_normal((50, 60))
    for left, right in ((np.asfortranarray(a), b), (a, np.asfortranarray(b)), (a[::-1], b[:, ::-1]),
                        (b.T, a.T), (a.astype(">f8"), b), (a.astype("f4"), b), (a[::2], b[:, 1::3]),
                        (a.astype("f4"), b.astype("f4")), (np.ones((2, 50), int), b),
                        (a.tolist(), b.tolist())):  # fmt: skip
        check(None, gpuopt.matmul(left, right, device=device), np.array(left), np.array(right))
    want = gpuopt.matmul(a, b, device=device)
    for out in (np.empty((40, 60)), np.empty((40, 60), order="F"), np.empty((80, 60))[::-2],
                np.empty((40, 60), np.float32)):  # fmt: skip
        assert gpuopt.matmul(a, b, out=out, device=device) is out
        assert np.array_equal(out, want.astype(out.dtype))
    square = rng.standard_normal((40, 40))
    want = gpuopt.matmul(square.copy(), square.copy(), device=device)
    gpuopt.matmul(square, square, out=square, device=device)
    assert np.array_equal(square, want)


def test_wrong_arguments():
    a, b = np.zeros((2, 3)), np.zeros((3, 4))
    for error, match, arguments in (
        (ValueError, "a: must be a vector, a matrix or a stack, not of 0", {"a": np.float64(3)}),
        (
            ValueError,
            r"a, b: the stacks of shapes \(2, 2, 3\) and \(3, 3, 4\) do not",
            {"a": np.zeros((2, 2, 3)), "b": np.zeros((3, 3, 4))},
        ),
        (ValueError, r"b: has shape \(4, 3\), but a has \(2, 3\)", {"b": np.zeros((4, 3))}),
        (TypeError, "a, b: their common dtype int64", {"a": a.astype(int), "b": b.astype(int)}),
        (TypeError, "b: dtype complex128", {"b": b.astype(complex)}),
        (TypeError, "b: dtype object", {"b": b.astype(object)}),
        (
            ValueError,
            "variant: rung 'tuned' multiplies two matrices",
            {"a": np.zeros((2, 2, 3)), "b": np.zeros((2, 3, 4)), "variant": 10, "device": "sim"},
        ),
        (ValueError, "out: has shape", {"out": np.zeros((4, 2))}),
        (TypeError, "out: cannot cast", {"out": np.zeros((2, 4), int)}),
        (ValueError, "variant: 99 is not a rung of matmul", {"variant": 99}),
        (TypeError, "block", {"block": 32}),
    ):
        with pytest.raises(error, match=match):
            gpuopt.matmul(**{"a": a, "b": b, **arguments})


def test_asynchronous_copies_on_the_simulated_gpu(tmp_path, rng):
    """The PTX for compute_75 has no asynchronous copies: compile the kernels for sm_80."""
    ptx = compiled_for("compute_80", "matmul.cu", tmp_path)
    assert "cp.async.cg.shared.global" in ptx.read_text()
    module = gpuopt.load_ptx(ptx, "sim")
    for rung, block, depth, side, dtype in (
        ("8", "", 8, 128, "float32"), ("9", "", 16, 128, "float32"), ("9", "", 16, 128, "float64"),
        ("10", "_b128", 32, 64, "float32"), ("10", "_b128", 16, 64, "float64"),
    ):  # fmt: skip
        name, dtype = f"matmul_{rung}_matmul_{dtype}_{dtype}{block}", np.dtype(dtype)
        ring = 2 * depth * ((side + 16 // dtype.itemsize) + side) * dtype.itemsize
        for m, k, n in ((1, 1, 1), (130, 19, 140), (129, 24, 131), (64, 8, 260), (3, 0, 5)):
            a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
            c = np.full((m, n), np.nan, dtype)
            grid = 8 * -(-n // side), -(-m // (8 * side))
            sizes = (np.uint64(size) for size in (m, n, k))
            module[name](grid, int(block[2:] or 256), a, b, c, *sizes, shared=ring)
            check(None, c, a, b)


@pytest.mark.skipif("sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU")
@pytest.mark.parametrize("gpu, m, n, threads", [
    ("h200", 1024, 1024, 128),  # 64 tiles of 128 x 128 for 132 multiprocessors, of two blocks each
    ("h200", 2048, 2048, 256),  # 256: one round, 97% full
    ("m2090", 4096, 128, 256),  # 32 for 16
    ("m2090", 4224, 128, 128),  # 33
])  # fmt: skip
def test_small_tiles_where_large_ones_leave_multiprocessors_idle(gpu, m, n, threads, rng):
    a, b = rng.standard_normal((m, 1), np.float32), rng.standard_normal((1, n), np.float32)
    profile = gpuopt.profile(gpuopt.matmul, a, b, variant=10, device=f"sim:{gpu}")
    (launch,) = profile.launches
    assert launch.kernel == f"matmul_10_matmul_float32_float32_b{threads}"
    assert launch.block == (threads, 1, 1)
    check(None, profile.result, a, b)


def products(device, a, b, *tunings):
    """Rung 11's tiling, with other constants of its planner."""
    bench = _core.Workbench(cases.with_output(registry.matmul_problem(a, b)), device=device)
    return [bench.run(11, tuning=tuning).reshape(a.shape[0], b.shape[1]) for tuning in tunings]


NEVER = {"join_layers": 1 << 30}


@pytest.mark.parametrize("device", [on("sim", "sim"), on("sim", "sim:m2090"), on("cuda", "cuda")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tiling", [1, 2, 3])
def test_tiles_that_are_cut_make_the_same_products(device, dtype, tiling, rng):
    """Cover one tile and more than a round, chunks of one and of two tiles, a partial first layer
    and rows at any offset.
    """
    if (device, dtype) == ("sim:m2090", "float64") and tiling != 2:
        pytest.skip("50 and 64 KiB of shared memory: more than a block has there")
    shapes = [(130, 200, 140), (128, 64, 128), (64, 1000, 64), (33, 500, 65), (257, 33, 300),
              (400, 24, 520)]  # fmt: skip
    if device == "cuda":
        shapes += [(2049, 1001, 2052), (64, 100_003, 60), (2300, 515, 2304), (1, 4099, 5000)]
    cut = {"join_layers": 0, "tiling": tiling, "tile_slices": 1}
    for m, k, n in shapes:
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        got, again, whole = products(device, a, b, cut, cut, {**NEVER, "tiling": tiling})
        rung = next(each for each in gpuopt.rungs(FAMILY) if each.name == "stream-k")
        check(rung, got, a, b)
        check(rung, whole, a, b)
        assert got.tobytes() == again.tobytes()


@pytest.mark.parametrize("device", [on("sim", "sim"), on("cuda", "cuda")])
def test_large_tiles_of_float64_read_rows_at_any_distance(device, rng):
    """Rows aligned for words have a loader of their own; it may read nothing beyond the last."""
    rung = next(each for each in gpuopt.rungs(FAMILY) if each.name == "stream-k")
    for m, k, n, gap in ((140, 33, 130, 0), (129, 40, 132, 4), (131, 16, 131, 1), (257, 70, 64, 3),
                         (1, 50, 300, 0)):  # fmt: skip
        left, right = (rng.standard_normal(size) for size in (m * (k + 1) - 1, k * (n + gap) - gap))
        a = np.lib.stride_tricks.as_strided(left, (m, k), (8 * (k + 1), 8))
        b = np.lib.stride_tricks.as_strided(right, (k, n), (8 * (n + gap), 8))
        numbers = matmul._numbers((m, k), (k + 1, 1), (k, n), (n + gap, 1))
        problem = dataclasses.replace(
            registry.matmul_problem(a, b), inputs=(left, right), numbers=numbers
        )
        bench = _core.Workbench(cases.with_output(problem), device=device)
        for join_layers in (0, 1 << 30):
            got = bench.run(11, tuning={"tiling": 1, "join_layers": join_layers})
            check(rung, got.reshape(m, n), a, b)


@pytest.mark.parametrize("device", [on("sim", "sim"), on("cuda", "cuda")])
def test_nan_and_infinity_stay_in_the_tile_that_is_cut(device, rng):
    a, b = rng.random((70, 900), np.float32), rng.random((900, 200), np.float32)
    a[66, 899], b[0, 199] = np.nan, np.inf
    got, want = products(device, a, b, {"join_layers": 0, "tile_slices": 1}, NEVER)
    assert np.isnan(got[66]).all() and np.isinf(np.delete(got[:, 199], 66)).all()
    assert np.array_equal(np.isfinite(got), np.isfinite(want))


@pytest.mark.skipif("sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU")
def test_few_tiles_of_a_deep_product_are_sliced_and_the_sums_added_without_a_race(rng):
    a, b = rng.standard_normal((128, 2000), np.float32), rng.standard_normal((2000, 64), np.float32)
    profile = gpuopt.profile(gpuopt.matmul, a, b, variant=11, device="sim:h200")
    launch, join = profile.launches
    assert launch.kernel.startswith("matmul_11_") and launch.grid[0] > 60
    assert join.kernel.startswith("matmul_13_")
    check(None, profile.result, a, b)
    assert gpuopt.check(gpuopt.matmul, a, b, variant=11, device="sim:h200") == []


@pytest.mark.skipif("sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU")
@pytest.mark.parametrize("gpu", ["g80", "gt200"])
def test_the_default_fits_into_the_shared_memory(gpu, rng):
    """With 16 KiB per block the default avoids rungs 8 to 12; naming one of them raises."""
    a, b = rng.standard_normal((70, 45), np.float32), rng.standard_normal((45, 50), np.float32)
    profile = gpuopt.profile(gpuopt.matmul, a, b, device=f"sim:{gpu}")
    assert [launch.kernel for launch in profile.launches] == ["matmul_7_matmul_float32_float32"]
    check(None, profile.result, a, b)
    for variant in (8, 9, 10, 11, 12):
        kernel = f"matmul_{variant}"
        with pytest.raises(ValueError, match=rf"{kernel}_.* bytes of shared memory.* 16384 "):
            gpuopt.matmul(a, b, variant=variant, device=f"sim:{gpu}")
    check(None, gpuopt.matmul(a, b, variant=13, device=f"sim:{gpu}"), a, b)
    a, b = a.astype(float), b.astype(float)
    check(None, gpuopt.matmul(a, b, device=f"sim:{gpu}"), a, b)  # by dot products
    with pytest.raises(ValueError, match=r"matmul_7_.*float64: 16512 bytes of shared memory"):
        gpuopt.matmul(a, b, variant=7, device=f"sim:{gpu}")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_cpu_bits_do_not_depend_on_the_threads():
    code = """
        import numpy as np, gpuopt
        rng = np.random.default_rng(1)
        for m, k, n in ((203, 77, 1029), (8, 40_001, 8), (1, 30_000, 77), (300, 20_000, 1)):
            a = rng.standard_normal((m, k), np.float32)
            b = rng.standard_normal((k, n), np.float32)
            one = gpuopt.matmul(a, b, variant="serial")
            for variant in ("openmp", "simd"):
                assert one.tobytes() == gpuopt.matmul(a, b, variant=variant).tobytes()
            print(hash(one.tobytes()))
    """
    outputs = {run_python(code, OMP_NUM_THREADS=threads, PYTHONHASHSEED="0").stdout
               for threads in ("1", "2", "5")}  # fmt: skip
    assert len(outputs) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_or_columns_on_the_cpu(dtype, rng):
    """The row loop, the transposed loop and the tiles give the same bits."""
    for few in (1, 2, 3, 4, 5, 11, 12, 13):
        for m, k, n in ((few, 700, 1100), (1100, 700, few), (few, 40_001, few), (300, few, 20)):
            a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
            want = gpuopt.matmul(a, b, variant="serial", device="cpu")
            for left in (a, a.T.copy().T):
                got = gpuopt.matmul(left, b, variant="simd", device="cpu")
                assert got.tobytes() == want.tobytes(), (m, k, n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_results_of_long_sums_on_the_cpu(dtype, rng):
    """Up to 4 rows and 12 columns, and what lies around; 2^25 + 3 of k are more than one poll's."""
    shapes = [(m, 3001, n) for m in (1, 2, 4, 5) for n in (1, 2, 5, 12, 13)]
    for m, k, n in [*shapes, (1, (1 << 25) + 3, 1), (2, 1 << 20, 3)]:
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        found = {}
        for variant in ("simd", "openmp", "serial"):
            found[variant] = gpuopt.matmul(a, b, variant=variant, device="cpu")
            assert found[variant].tobytes() == found["simd"].tobytes(), (m, k, n)
        check(gpuopt.rungs(FAMILY)[-1], found["simd"], a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_ways_through_the_cpu_add_up_in_one_order(dtype, rng):
    """Partial slices and spans of K; vectors, few results, tiles."""
    depths = (1, 31, 33, 255, 257, 8191, 8193, 20_001)
    shapes = (
        (1, 1),
        (37, 1),
        (1, 2),
        (1, 530),
        (3, 5),
        (4, 2),
        (5, 16),
        (16, 9),
        (17, 2),
        (70, 40),
    )
    for (m, n), k in itertools.product(shapes, depths):
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
        want = gpuopt.matmul(a, b, variant="serial", device="cpu")
        for variant in ("openmp", "simd"):
            got = gpuopt.matmul(a, b, variant=variant, device="cpu")
            assert got.tobytes() == want.tobytes(), (variant, m, k, n)
        check(gpuopt.rungs(FAMILY)[-1], want, a, b)


@pytest.mark.parametrize("rung", rungs_of("cpu", family=FAMILY), ids=lambda rung: rung.name)
@pytest.mark.parametrize("m, n", [(6, 7), (2, 3), (3, 1), (1, 20)])
def test_long_sums_on_the_cpu_are_as_exact_as_numpys(rung, m, n, rng):
    """200,000 positive products: sequential summation would be off by 100 u and more."""
    a, b = rng.random((m, 200_000)), rng.random((200_000, n))
    want = a.astype(np.longdouble) @ b.astype(np.longdouble)
    got = gpuopt.matmul(a, b, variant=rung.variant, device="cpu")
    assert (np.abs(got - want) <= 16 * 2.0**-53 * want).all()
