"""Dask arrays in, lazy Dask arrays out: NumPy's results, whatever the chunks and the workers."""

import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import gpuopt

da = pytest.importorskip("dask.array")

OPS = ["sum", "prod", "min", "max", "mean", "any", "all", "count", "argmin", "argmax"]
BITS = ["and", "or", "xor"]


def chunked(rng, x):
    """Return a Dask array with random chunks, some of one element."""
    chunks = []
    for n in x.shape:
        cuts = np.unique(rng.integers(0, n + 1, rng.integers(0, 5)))
        sizes = np.diff([0, *cuts, n])
        chunks.append(tuple(int(each) for each in sizes if each) or (0,))
    return da.from_array(x, chunks=tuple(chunks))


def values(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 9, shape).astype(dtype)
    found = rng.standard_normal(shape)
    if dtype.kind == "c":
        return (found + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.where(rng.random(shape) < 0.02, np.nan, np.round(found, 1)).astype(dtype)


@pytest.mark.parametrize("seed", range(60))
def test_random_reductions_equal_those_of_one_array(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 14, rng.integers(0, 4)))
    dtype = rng.choice(["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8"])
    x = values(rng, shape, dtype)
    op = str(rng.choice(["sum", "mean", "any", "all", "count"] if dtype == "c8" else OPS))
    if x.dtype.kind in "biu" and rng.random() < 0.2:
        op = str(rng.choice(BITS))
    axes = [None, *range(-len(shape), len(shape))]
    axis = axes[rng.integers(len(axes))]
    if axis is None and shape and not op.startswith("arg") and rng.random() < 0.3:
        axis = tuple(range(0, len(shape), 2))
    options = {"axis": axis, "keepdims": bool(rng.random() < 0.5)}
    if op in ("sum", "prod", "min", "max") and rng.random() < 0.3:
        options["initial"] = 3
    split = [None, 2, 3][rng.integers(3)]
    lazy = gpuopt.reduce(chunked(rng, x), op, split_every=split, **options)
    wanted = gpuopt.reduce(x, op, device="cpu", **options)
    got = lazy.compute(scheduler="sync")
    assert type(got) is type(wanted)
    assert (lazy.shape, lazy.dtype) == (np.shape(wanted), wanted.dtype)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert type(lazy._meta) is np.ndarray and lazy._meta.dtype == lazy.dtype
    tolerance = {"f2": 1e-3, "f4": 1e-6, "c8": 1e-6}.get(dtype, 1e-13)
    if wanted.dtype.kind in "fc":
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, wanted)


def test_float32_sum_is_within_1_ulp_of_fsum_whatever_the_chunks(rng):
    x = (rng.standard_normal(100_003) * 10.0 ** rng.integers(-6, 6, 100_003)).astype(np.float32)
    exact = np.float32(math.fsum(x.astype(float)))
    found = {
        gpuopt.reduce(da.from_array(x, chunks=n), split_every=split).compute()
        for n in (7001, 32768, 100_003)
        for split in (2, 16)
    }
    assert len(found) == 1
    assert abs(found.pop() - exact) <= np.spacing(abs(exact))


@pytest.mark.parametrize("op", ["sum", "mean", "prod", "max"])
def test_bits_do_not_depend_on_the_layout_of_chunks(op, rng):
    """Chunks of one array are views, until a process or a spill copies them."""
    for shape in ((301, 1700), (90, 40), (17, 5, 1100), (40, 3, 7)):
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4, shape)
        for dtype in (np.float32, np.float64):
            views = da.from_array(x.astype(dtype), chunks=tuple(n // 2 + 1 for n in shape))
            copies = views.map_blocks(np.ascontiguousarray)
            for axis in (None, *range(len(shape))):
                one, other = (gpuopt.reduce(each, op, axis=axis) for each in (views, copies))
                assert one.compute().tobytes() == other.compute().tobytes(), (shape, dtype, axis)


def test_float64_sum_keeps_what_cancels_between_chunks():
    x = np.array([1e300, 1.0, -1e300, 2**-60])
    assert gpuopt.reduce(da.from_array(x, chunks=1)).compute() == math.fsum(x)


def test_infinite_and_negative_zero_sums():
    x = da.from_array(np.array([np.inf, 1.0, -np.inf]), chunks=1)
    assert np.isnan(gpuopt.reduce(x).compute())
    assert gpuopt.reduce(x[:2]).compute() == np.inf
    zeros = da.full(4, -0.0, chunks=2)
    assert np.signbit(gpuopt.reduce(zeros, initial=None).compute())


def test_index_of_the_first_nan_and_of_the_first_of_equal_elements(rng):
    x = np.zeros((6, 9))
    assert gpuopt.reduce(da.from_array(x, chunks=2), "argmax").compute() == 0
    x[4, 1] = x[2, 7] = np.nan
    for op in ("argmin", "argmax"):
        assert gpuopt.reduce(da.from_array(x, chunks=(3, 2)), op).compute() == 2 * 9 + 7


def test_results_of_no_elements_have_their_chunks_shapes():
    x = da.zeros((0, 8), chunks=(1, (4, 3, 1)))
    np.testing.assert_array_equal(gpuopt.reduce(x, axis=0).compute(), np.zeros(8))
    np.testing.assert_array_equal(gpuopt.reduce(x, "all", axis=0).compute(), np.ones(8, bool))


@pytest.mark.parametrize("size", [4, 12])
def test_foreign_byte_order_does_not_show(size):
    x = np.arange(12, dtype=">f4")
    lazy = gpuopt.stencil1d(da.from_array(x, chunks=size), 2)
    assert lazy.dtype == lazy.compute().dtype == np.dtype("=f4")


def test_dtype_is_that_of_the_arithmetic():
    x = np.array([2**24 + 1, 1, 1], np.int64)
    lazy = gpuopt.reduce(da.from_array(x, chunks=1), dtype=np.float32)
    assert lazy.compute() == gpuopt.reduce(x, dtype=np.float32, device="cpu")
    assert gpuopt.reduce(da.full(300, 1, dtype=np.int8), dtype=np.int8).compute() == 44


@pytest.mark.parametrize("device", ["cpu", "sim:h200"])
def test_a_worker_s_device_is_the_one_named(device, rng):
    x = rng.standard_normal((40, 30)).astype(np.float32)
    y = da.from_array(x, chunks=(17, 11))
    np.testing.assert_array_equal(gpuopt.transpose(y, device=device).compute(), x.T)
    assert gpuopt.reduce(y, device=device).compute() == gpuopt.reduce(x, device="cpu")
    assert gpuopt.reduce(y, variant=3, block=64, device="sim").compute() == pytest.approx(
        x.sum(dtype=float), rel=1e-5
    )


@pytest.mark.parametrize("mode", ["constant", "nearest", "reflect", "mirror", "wrap", "valid"])
def test_stencils_at_the_ends_and_over_short_chunks(mode, rng):
    for dtype in (np.float32, np.int32):
        x = values(rng, (11, 43), dtype)
        y = da.from_array(x, chunks=((4, 1, 6), (20, 3, 1, 19)))
        for radius in (0, 1, 2, 4, 19, 20, 21, 50):
            for axis in (0, -1):
                how = {"mode": mode, "cval": 2.5, "axis": axis}
                lazy = gpuopt.stencil1d(y, radius, **how)
                wanted = gpuopt.stencil1d(x, radius, device="cpu", **how)
                assert lazy.shape == wanted.shape and lazy.dtype == dtype
                np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)
                if mode != "valid":
                    assert lazy.chunks == y.chunks


def test_stencil_with_weights(rng):
    x, weights = rng.standard_normal(200), rng.standard_normal(9)
    got = gpuopt.stencil1d(da.from_array(x, chunks=30), weights=weights, mode="mirror")
    wanted = gpuopt.stencil1d(x, weights=weights, mode="mirror", device="cpu")
    np.testing.assert_array_equal(got.compute(), wanted)


def test_transposes_sums_and_products(rng):
    x = rng.standard_normal((20, 30, 7))
    y = da.from_array(x, chunks=(6, 11, 3))
    np.testing.assert_array_equal(gpuopt.transpose(y, (2, 0, 1)).compute(), x.transpose(2, 0, 1))
    z = rng.standard_normal((30, 1))
    lazy = gpuopt.add(y, da.from_array(z, chunks=7))
    np.testing.assert_array_equal(lazy.compute(), x + z)
    np.testing.assert_array_equal(gpuopt.add(y, z).compute(), x + z)
    np.testing.assert_array_equal(gpuopt.add(1, y).compute(), x + 1)
    np.testing.assert_array_equal(gpuopt.saxpy(2, y, y).compute(), 2 * x + x)
    assert gpuopt.saxpy(np.float32(2), y.astype("f4"), 1.0).dtype == np.float32


def test_matrix_products_add_up_along_k(rng):
    a, b = rng.standard_normal((9, 40)), rng.standard_normal((40, 13))
    one, other = da.from_array(a, chunks=(4, 13)), da.from_array(b, chunks=(9, 6))
    for lazy, wanted in (
        (gpuopt.matmul(one, other), a @ b),
        (gpuopt.matmul(one, other[:, 0]), a @ b[:, 0]),
        (gpuopt.matmul(one[0], other), a[0] @ b),
        (gpuopt.matmul(one[0], other[:, 0]), a[0] @ b[:, 0]),
    ):
        got = lazy.compute()
        assert got.shape == lazy.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: gpuopt.reduce(x[x > 0]), ValueError, "chunk 0 of axis 0 has an unknown size"),
        (lambda x: gpuopt.reduce(x.astype(object)), TypeError, "Python objects"),
        (lambda x: gpuopt.transpose(x.astype(object)), TypeError, "Python objects"),
        (lambda x: gpuopt.reduce(x, out=np.empty(())), ValueError, "dask.array.store"),
        (lambda x: gpuopt.reduce(x, device="cuda:*"), ValueError, "one worker per GPU"),
        (lambda x: gpuopt.reduce(x, device=["sim", "sim"]), TypeError, "device: must be a string"),
        (lambda x: gpuopt.reduce(x, "argmix"), ValueError, "did you mean 'argmin'"),
        (lambda x: gpuopt.reduce(x[:0], "max"), ValueError, "no identity"),
        (lambda x: gpuopt.reduce(x, "max", axis=3), IndexError, "axis 3 is out of bounds"),
        (lambda x: gpuopt.reduce(x, "and"), TypeError, "does not support dtype float64"),
        (lambda x: gpuopt.stencil1d(x, -1), ValueError, "radius"),
        (lambda x: gpuopt.stencil1d(x, mode="edge"), ValueError, "mode"),
        (lambda x: gpuopt.stencil1d(x, origin=1), ValueError, "on Dask arrays a window must"),
        (lambda x: gpuopt.stencil1d(x, weights=[1, 2]), ValueError, "an odd number of weights"),
        (lambda x: gpuopt.matmul(x, x[:2]), ValueError, "b's rows must equal a's columns"),
        (lambda x: gpuopt.add(x, x[:3]), ValueError, "do not broadcast together"),
        (lambda x: gpuopt.saxpy(x[0, 0], x, x), ValueError, "a: must be a number"),
        (lambda x: gpuopt.reduce(x.compute(), split_every=2), ValueError, "Dask arrays only"),
        (lambda x: gpuopt.reduce(x, split_every=-1), ValueError, "split_every: .*2 or more"),
        (
            lambda x: gpuopt.reduce(x, split_every={0: "a"}),
            ValueError,
            "split_every: .*not {0: 'a'}",
        ),
        (
            lambda x: gpuopt.reduce(x.map_blocks(np.ma.masked_array, meta=np.ma.array([[1.0]]))),
            TypeError,
            "map_blocks",
        ),
    ],
)
def test_wrong_use_fails_before_anything_is_computed(call, kind, text):
    with pytest.raises(kind, match=text):
        call(da.ones((8, 8), chunks=3))


def test_chunks_on_different_devices_are_refused():
    class Array(np.ndarray):
        __module__ = "cupy.stand_in"

    x = da.ones(8, chunks=3)
    there = x.map_blocks(lambda a: a, meta=np.empty(0).view(Array))
    with pytest.raises(ValueError, match="y: its chunks are of cupy, but those of x are of numpy"):
        gpuopt.add(x, there)
    with pytest.raises(ValueError, match="device: the chunks of array are CuPy's"):
        gpuopt.reduce(there, device="cpu")


def test_dask_is_not_imported_by_us():
    code = "import sys, gpuopt; gpuopt.reduce([1]); assert 'dask' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- schedulers


def work():
    x = da.from_array(np.random.default_rng(3).standard_normal((200, 900)), chunks=(30, 200))
    return [
        gpuopt.reduce(x),
        gpuopt.reduce(x.astype("f4"), axis=0),
        gpuopt.reduce(x, "argmax"),
        gpuopt.stencil1d(x, 5, axis=0, mode="wrap"),
        gpuopt.transpose(x),
        gpuopt.matmul(x, x.T),
    ]


def bits(results):
    return [np.asarray(each).tobytes() for each in results]


def test_threads_and_processes_have_the_same_bits():
    import dask

    wanted = bits(dask.compute(*work(), scheduler="sync"))
    assert bits(dask.compute(*work(), scheduler="threads")) == wanted
    assert bits(dask.compute(*work(), scheduler="processes", num_workers=2)) == wanted


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_cluster_s_bits_do_not_depend_on_its_workers(workers):
    distributed = pytest.importorskip("distributed")
    import dask

    wanted = bits(dask.compute(*work(), scheduler="sync"))
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        futures = client.compute(work())
        if workers == 2:  # Dask computes again what the killed worker had
            distributed.wait(futures[0])
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert bits(client.gather(futures)) == wanted
