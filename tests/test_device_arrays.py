"""Arrays on a device: ours, and those of other libraries.

Ours run on the simulated GPU everywhere. Streams, capsules, devices and errors are tested on a
driver that is no GPU (fake_cuda.c), with producers made here; the libraries themselves are in
test_libraries.py.
"""

import textwrap
import types

import numpy as np
import pytest
from fake_driver import FAKE_LIBRARIES, with_producers

import gpuopt
from gpuopt import _core, _device_arrays, _device_memory

pytestmark = pytest.mark.timeout(180)


# --- ours, on the simulated GPU


def simulated(values, dtype=None):
    return gpuopt.asarray(np.asarray(values, dtype), device="sim")


def test_there_and_back(rng):
    for shape in ((), (0,), (7,), (3, 0, 2), (4, 5, 6)):
        for dtype in ("?", "i1", "u8", "f2", "f4", "f8", "c16"):
            host = (rng.random(shape) * 100).astype(dtype)
            array = simulated(host)
            assert (array.shape, array.dtype, array.device) == (shape, host.dtype, "sim:h200")
            assert (array.nbytes, array.ndim, array.size) == (host.nbytes, host.ndim, host.size)
            np.testing.assert_array_equal(array.get(), host)
    out = np.zeros((4, 5, 6), "c16")
    assert array.get(out) is out
    np.testing.assert_array_equal(out, host)
    strided = np.arange(24).reshape(4, 6)[::-1, ::2]
    np.testing.assert_array_equal(simulated(strided).get(), strided)
    np.testing.assert_array_equal(simulated(strided.astype(">i4")).get(), strided)


def test_reduce_stays_on_the_device(rng):
    for dtype in ("int32", "int64", "float32", "float64", "bool"):
        host = (rng.random((30, 70)) * 100 - 30).astype(dtype)
        array = simulated(host)
        for op, ufunc in (("sum", np.add), ("max", np.maximum), ("min", np.minimum)):
            found = gpuopt.reduce(array, op)
            expected = ufunc.reduce(host, axis=None)
            assert type(found) is gpuopt.DeviceArray and found.shape == ()
            assert (found.dtype, found.device) == (expected.dtype, array.device)
            np.testing.assert_allclose(found.get(), expected, rtol=1e-6)
        prod = gpuopt.reduce(array, "prod", dtype=None if dtype == "bool" else dtype)
        assert prod.dtype == (np.int64 if dtype == "bool" else dtype)
        if host.dtype.kind != "f":
            assert prod.item() == np.multiply.reduce(host, axis=None, dtype=prod.dtype)


def test_a_float32_result_is_rounded_once():
    items = np.full(3000, np.float32(0.1))
    items[0] = 2.0**24
    found = gpuopt.reduce(simulated(items))
    assert found.dtype == np.float32
    assert found.item() == np.float32(items.sum(dtype=np.float64))
    for rung in gpuopt.rungs("reduce"):
        if not (rung.host or rung.historical):
            found = gpuopt.reduce(simulated(np.arange(3000, dtype="f4")), variant=rung.variant)
            assert found.item() == np.arange(3000).sum(), rung


def test_a_dtype_in_the_other_byte_order_is_the_machines():
    array = simulated([[1, 2], [3, 4]], np.int32)
    for options in ({}, {"variant": 7}, {"initial": 0}, {"axis": (0, 1)}):
        found = gpuopt.reduce(array, dtype=">i8", **options)
        assert found.dtype == np.int64 and found.dtype.isnative and found.item() == 10
    assert gpuopt.reduce(simulated([1.5, 2]), dtype=">f4").item() == 3.5


def test_nothing_at_all_has_every_identity():
    for dtype in ("?", "i1", "u1", "u2", "u4", "u8", "i8"):
        host = np.zeros((0, 3), dtype)
        for op, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("sum", np.add)):
            for axis in (None, 0):
                found = gpuopt.reduce(simulated(host), op, axis=axis)
                expected = ufunc.reduce(host, axis=axis)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found.get(), expected)


@pytest.mark.parametrize("dtype", ["F", "D"])
def test_truth_of_complex_numbers(dtype, rng):
    host = rng.integers(0, 2, (5, 6, 4)) * (rng.integers(0, 2, (5, 6, 4)) + 1j)
    host[0, 0, 0] = 1j * np.nan
    host = host.astype(dtype)
    for view, array in ((host, simulated(host)), (host * 0, simulated(host * 0))):
        for axis in (None, 0, 1, (0, 2)):
            for op, theirs in (("any", np.any), ("all", np.all), ("count", np.count_nonzero)):
                found = gpuopt.reduce(array, op, axis=axis)
                np.testing.assert_array_equal(found.get(), theirs(view, axis=axis), f"{op} {axis}")


def test_out_dtype_initial():
    host = np.arange(1000, dtype=np.int32)
    array = simulated(host)
    out = gpuopt.empty((), np.int64, "sim")
    assert gpuopt.reduce(array, out=out) is out and out.item() == host.sum()
    assert gpuopt.reduce(array, dtype=np.int32).dtype == np.int32
    value = np.array(0)
    assert gpuopt.reduce(array, out=value) is value and value == host.sum()
    assert gpuopt.reduce(array, initial=5, out=out).item() == host.sum() + 5
    assert gpuopt.reduce(array, "max", initial=10**6).item() == 10**6
    nothing = simulated([], np.int32)
    assert gpuopt.reduce(nothing).item() == 0
    assert gpuopt.reduce(nothing, "prod").item() == 1
    assert gpuopt.reduce(nothing, "max", initial=3).item() == 3
    with pytest.raises(ValueError, match="initial="):
        gpuopt.reduce(nothing, "max")


def test_a_result_of_half_the_bytes_overwrites_nothing_else(rng):
    for items, result in (("f4", "f4"), ("i8", "i4"), ("i4", "u4"), ("i4", "i2"), ("i4", "i8")):
        host = rng.integers(-(2**31), 2**31, 5000).astype(items)
        room = simulated(np.full(4, 77, result))
        address = room.address + room.dtype.itemsize
        out = _device_memory.make(address, (), room.dtype, room.device, room)
        assert gpuopt.reduce(simulated(host), out=out) is out
        want = host.sum(dtype="f8" if items == "f4" else "i8").astype(result)
        assert room.get().tolist() == [77, want, 77, 77]


def test_what_is_remembered_of_a_call_tells_apart_what_is_equal():
    """Descriptions are kept by shapes, dtypes and parameters; 0.0 == -0.0, 1 == 1.0 == True."""
    x = simulated([-0.0, -0.0, -0.0], np.float32)
    y = simulated([1.0, 2.0, 3.0], np.float32)
    for factor in (2, 2.0, np.float32(2), 0.5, -0.0, 0.0):
        want = np.float32(factor) * np.float32([1, 2, 3]) + np.float32(-0.0)
        got = gpuopt.saxpy(factor, y, x).get()
        assert got.tobytes() == want.tobytes(), factor
    for axes in ((1, 0), [1, 0], (np.int64(1), 0), None):
        assert gpuopt.transpose(simulated([[1, 2], [3, 4]]), axes).get().tolist() == [
            [1, 3],
            [2, 4],
        ]
    for _ in range(2):
        with pytest.raises(TypeError, match="radius"):
            gpuopt.stencil1d(x, 1.0)
        with pytest.raises(TypeError, match="axis"):
            gpuopt.reduce(x, axis=0.0)
        assert gpuopt.stencil1d(x, 1).shape == (3,)
        assert gpuopt.reduce(x, axis=0, keepdims=True).shape == (1,)


def test_an_out_may_begin_where_an_input_ends():
    def run(address):
        return types.SimpleNamespace(
            address=address, shape=(100,), strides=None, dtype=np.dtype("f4")
        )

    for apart in (-400, 400):
        _device_arrays.check_apart(run(4096 + apart), "a", run(4096))
    for apart in (-396, 396, 0):
        with pytest.raises(ValueError, match="out: overlaps a"):
            _device_arrays.check_apart(run(4096 + apart), "a", run(4096))


def test_a_description_is_prepared_for_so_many_calls(rng, monkeypatch):
    real, made = _core.Prepared, []

    def prepared(*given):
        made.append(given)
        return real(*given)

    monkeypatch.setattr(_core, "Prepared", prepared)
    x, y = simulated(rng.random(37).astype("f4")), simulated(rng.random(37).astype("f4"))
    most = _device_arrays._PREPARED_MOST
    for count in (most + 4, 4):  # the second time around the first are there
        made.clear()
        for factor in range(most + 4):
            gpuopt.saxpy(factor, x, y)
        assert len(made) == count


def test_what_is_remembered_of_a_call_is_no_array(rng):
    """The same layouts again, of other memory; then with an `out` that will not do."""

    def once():
        a, b = (rng.random((40, 40)).astype("f4") for _ in range(2))
        x, y, out = simulated(a), simulated(b), gpuopt.empty((40, 40), "f4", "sim")
        for factor in (*range(20), 0.5, np.float32(3)):  # more than are prepared
            assert gpuopt.saxpy(factor, x, y, out=out) is out
            np.testing.assert_allclose(out.get(), np.float32(factor) * a + b, rtol=1e-6)
        np.testing.assert_array_equal(gpuopt.add(x, y, out=out).get(), a + b)
        np.testing.assert_allclose(gpuopt.matmul(x, y, out=out).get(), a @ b, rtol=1e-5)
        np.testing.assert_array_equal(gpuopt.transpose(x, out=out).get(), a.T)
        for options in ({"radius": 2}, {"weights": [1.0, 2, -1]}, {"radius": 0, "mode": "wrap"}):
            expected = gpuopt.stencil1d(a, device="cpu", **options)
            np.testing.assert_allclose(gpuopt.stencil1d(x, **options).get(), expected, rtol=1e-5)
        np.testing.assert_allclose(gpuopt.reduce(x, axis=1).get(), a.sum(1), rtol=1e-5)
        np.testing.assert_allclose(gpuopt.reduce(x).item(), a.sum(dtype="f8"), rtol=1e-6)
        for call, text in (
            (lambda: gpuopt.matmul(x, y, out=y), "overlaps b"),
            (lambda: gpuopt.stencil1d(x, 2, out=x), "overlaps a"),
            (lambda: gpuopt.add(x, y, out=gpuopt.empty((40, 39), "f4", "sim")), "has shape"),
            (lambda: gpuopt.transpose(x, out=gpuopt.empty((40, 40), "f4", "sim:g80")), "sim:g80"),
        ):
            with pytest.raises(ValueError, match=f"out: .*{text}"):
                call()
        with pytest.raises(TypeError, match="out: must be of"):
            gpuopt.add(x, y, out=gpuopt.empty((40, 40), "i4", "sim"))
        gpuopt.add(x, y, out=y)
        np.testing.assert_array_equal(y.get(), a + b)
        gpuopt.transpose(x, out=x)  # square: in place
        np.testing.assert_array_equal(x.get(), a.T)

    for _ in range(3):
        once()


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "u8", "f2", "c8"])
def test_nothing_is_converted(dtype):
    """The items are on the device: only those dtypes are taken that need no conversion."""
    x = simulated([1, 2, 3], dtype)
    for call in (
        lambda: gpuopt.saxpy(2, x, x),
        lambda: gpuopt.saxpy(2.5, x, x),
        lambda: gpuopt.saxpy(np.float64(2.5), x, x),
        lambda: gpuopt.matmul(simulated([[1]], dtype), simulated([[1]], dtype)),
    ):
        with pytest.raises(TypeError, match=r"supported|float"):
            call()


def test_a_parameter_that_changes_is_read_again():
    class Weights:
        def __init__(self, *values):
            self.values = list(values)

        def __array__(self, dtype=None, copy=None):
            return np.array(self.values, dtype)

    x, weights = simulated([1.0, 2.0, 4.0]), Weights(0, 1, 0)
    assert gpuopt.stencil1d(x, weights=weights).get().tolist() == [1, 2, 4]
    weights.values[1] = 3
    assert gpuopt.stencil1d(x, weights=weights).get().tolist() == [3, 6, 12]


def test_what_an_array_is_does_not_change():
    array = simulated(np.arange(6))
    for name in ("shape", "dtype", "device", "address", "read_only"):
        with pytest.raises(AttributeError):
            setattr(array, name, getattr(array, name))


def test_families(rng):
    a = rng.random((33, 65)).astype(np.float32)
    b = rng.random((65, 20)).astype(np.float32)
    x = simulated(a)
    np.testing.assert_array_equal(gpuopt.transpose(x).get(), a.T)
    np.testing.assert_array_equal(gpuopt.add(x, x).get(), a + a)
    np.testing.assert_allclose(gpuopt.saxpy(2.5, x, x).get(), 3.5 * a, rtol=1e-6)
    np.testing.assert_allclose(gpuopt.matmul(x, simulated(b)).get(), a @ b, rtol=1e-5)
    row = simulated(a[0])
    for options in ({"radius": 2}, {"weights": [1.0, 2, -1], "mode": "wrap"}, {"mode": "valid"}):
        expected = gpuopt.stencil1d(a[0], device="cpu", **options)
        np.testing.assert_allclose(gpuopt.stencil1d(row, **options).get(), expected, rtol=1e-5)
    complex_ = simulated(a + 1j * a)
    np.testing.assert_array_equal(gpuopt.transpose(complex_).get(), (a + 1j * a).T)
    out = gpuopt.empty((65, 33), np.float32, "sim")
    assert gpuopt.transpose(x, out=out) is out
    np.testing.assert_array_equal(out.get(), a.T)
    address = x.address
    assert gpuopt.saxpy(1.0, x, x, out=x) is x and x.address == address
    np.testing.assert_array_equal(x.get(), a + a)
    empty = gpuopt.empty((0, 5), np.float32, "sim")
    assert gpuopt.transpose(empty).shape == (5, 0)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_vectors_broadcast(dtype, rng):
    shapes = [((3, 4), (4,)), ((5, 1, 3), (1, 6, 1)), ((), (7,)), ((0, 3), (3,)), ((1,), ()),
              ((2, 1), (2, 3))]  # fmt: skip
    for shape, other in shapes:
        for one, two in ((shape, other), (other, shape)):
            x, y = ((rng.random(each) * 100).astype(dtype) for each in (one, two))
            found = gpuopt.add(simulated(x), simulated(y))
            assert (found.shape, found.dtype) == ((x + y).shape, x.dtype)
            np.testing.assert_array_equal(found.get(), x + y)
            if x.dtype.kind == "f":
                found = gpuopt.saxpy(0.5, simulated(x), simulated(y)).get()
                np.testing.assert_allclose(found, x.dtype.type(0.5) * x + y, rtol=1e-6)
    host = np.arange(6, dtype=dtype).reshape(2, 3)
    x, row = simulated(host), simulated(host[1])
    np.testing.assert_array_equal(gpuopt.add(x, 2).get(), host + 2)
    np.testing.assert_array_equal(gpuopt.add(-3, x).get(), host - 3)
    assert gpuopt.add(x, row, out=x) is x
    np.testing.assert_array_equal(x.get(), host + host[1])
    with pytest.raises(ValueError, match="out: has shape"):
        gpuopt.add(row, row, out=x)
    if host.dtype.kind == "f":
        np.testing.assert_array_equal(gpuopt.saxpy(2, row, 0.25).get(), 2 * host[1] + 0.25)


def test_what_cannot_be():
    x, y = simulated([1.0, 2.0]), simulated([1, 2])
    other = gpuopt.asarray([1.0, 2.0], device="sim:g80")
    square = simulated(np.eye(2))
    cases = [
        (TypeError, r"\.get\(\)", lambda: np.asarray(x)),
        (TypeError, r"\.get\(\)", lambda: np.add(x, 1)),
        (BufferError, r"\.get\(\)", lambda: np.from_dlpack(x)),
        (TypeError, "x, y: have dtypes", lambda: gpuopt.add(x, y)),
        (TypeError, "y: is on the host", lambda: gpuopt.add(x, np.ones(2))),
        (TypeError, "x: is on the host", lambda: gpuopt.saxpy(2, [1.0, 2.0], x)),
        (TypeError, "x: is on the host", lambda: gpuopt.saxpy(2, 1.0, x)),
        (ValueError, "y: is on sim:g80, but x", lambda: gpuopt.add(x, other)),
        (
            ValueError,
            "x, y: operands could not be",
            lambda: gpuopt.add(simulated([1.0] * 3), square),
        ),
        (TypeError, "y: makes the result float64, but x is int64", lambda: gpuopt.add(y, 0.5)),
        (OverflowError, "x: .*use arrays of a dtype", lambda: gpuopt.add(2**70, y)),
        (
            TypeError,
            "float",
            lambda: gpuopt.saxpy(np.float64(2), simulated([1], "f4"), simulated([1], "f4")),
        ),
        (TypeError, r"\.get\(\)", lambda: gpuopt.saxpy(x, x, x)),
        (ValueError, "device: the array is on sim:h200", lambda: gpuopt.reduce(x, device="cpu")),
        (
            ValueError,
            "device: the array is on sim:h200",
            lambda: gpuopt.add(x, x, device="sim:g80"),
        ),
        (ValueError, "device: the array is on", lambda: gpuopt.asarray(x, "sim:g80")),
        (ValueError, "numpy.asarray", lambda: gpuopt.asarray([1], device="cpu")),
        (ValueError, "device", lambda: gpuopt.asarray([1], device="vulkan")),
        (ValueError, "shape", lambda: gpuopt.empty(-1, device="sim")),
        (TypeError, "dtype", lambda: gpuopt.empty(1, "U3", device="sim")),
        (TypeError, "dtype", lambda: gpuopt.asarray(["a"], device="sim")),
        (TypeError, "filled", lambda: gpuopt.asarray(np.ma.ones(3), device="sim")),
        (TypeError, "complex128", lambda: gpuopt.reduce(simulated([1j]), "prod")),
        (ValueError, "out: has shape", lambda: gpuopt.reduce(x, out=x)),
        (TypeError, "out: must be of the result's dtype", lambda: gpuopt.add(x, x, out=y)),
        (TypeError, "out: is on the host", lambda: gpuopt.add(x, x, out=np.ones(2))),
        (ValueError, "out: is on sim:g80", lambda: gpuopt.add(x, x, out=other)),
        (ValueError, "out: overlaps a", lambda: gpuopt.transpose(square, (0, 1), out=square)),
        (TypeError, "asarray", gpuopt.DeviceArray),
        (ValueError, "one item", lambda: float(x)),
        (ValueError, "variant", lambda: gpuopt.reduce(x, variant="serial")),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()
    assert not hasattr(x, "__cuda_array_interface__")
    assert gpuopt.reduce(x, device="sim").item() == 3.0
    assert gpuopt.asarray(x) is x


def test_counted_and_checked_as_any_call():
    array = simulated(np.arange(5000, dtype=np.int32))
    found = gpuopt.profile(gpuopt.reduce, array, variant=2)
    assert found.result.item() == 5000 * 4999 // 2
    assert found.counters.bank_conflicts > 0


def test_threads_share_the_simulated_gpu():
    from concurrent.futures import ThreadPoolExecutor

    def work(seed):
        host = np.random.default_rng(seed).integers(0, 100, 2000)
        return gpuopt.reduce(simulated(host)).item() == host.sum()

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(24)))


# --- other people's, on a driver that is no GPU


def test_the_producers_stream(fake_cuda):
    with_producers(
        fake_cuda,
        """
        x = Interface(items, stream=0x7700)
        host = np.array(0)
        gpuopt.reduce(x, out=host)  # the first call opens a queue
        forget()
        assert gpuopt.reduce(x, out=host) is host and host == total
        assert "launch 7700;" in story() and "copy" not in story(), story()
        out = np.array(0)
        forget()
        gpuopt.reduce(x, out=Interface(out, stream=0x7700))
        assert out == total and story() == "launch 7700;", story()
        # another stream's `out` is ordered before and after
        forget()
        gpuopt.reduce(x, out=Interface(out, stream=0x8800))
        assert story() == "wait 7700;launch 7700;wait 8800;", story()
        # what names no stream is on the legacy default one, and its result there
        forget()
        found = gpuopt.reduce(Interface(items))
        assert type(found) is gpuopt.DeviceArray and found.device == "cuda:0"
        assert story() == "launch 1;", story()
        # a float32 sum, which is added up in float64, is rounded by the same launch
        forget()
        gpuopt.reduce(Interface(np.ones(9, np.float32)))
        assert story() == "launch 1;", story()
        assert found.get() == total and found.__cuda_array_interface__["stream"] == 1
        # along axes, with gaps, and what is copied first: all of it there too
        rows = items[:90_000].reshape(300, 300)
        gaps = Interface(rows[:, ::3], stream=0x7700, strides=(1200, 12))
        there = Interface(np.empty(300, np.int32), stream=0x7700)
        for call in (
            lambda: gpuopt.reduce(gaps, axis=1, out=there, dtype=np.int32),
            lambda: gpuopt.reduce(gaps, "max", axis=1, out=there),
        ):
            call()
            forget()
            call()
            assert set(story().split(";")) == {"launch 7700", ""}, story()
        forget()
        found = gpuopt.reduce(gaps, "mean", axis=0)
        assert (found.shape, found.dtype) == ((100,), np.float64)
        # the result, and what is kept between the launches, is ours: on the default stream
        assert story().startswith("wait 7700;launch 7700;"), story()
        assert story().endswith("launch 7700;wait 1;") and "launch 1;" not in story(), story()
        # made contiguous in memory of ours on the producer's stream; from there on it is ours
        forget()
        gpuopt.transpose(gaps, out=Interface(np.empty((100, 300), np.int32), stream=0x7700))
        copied = "wait 7700;launch 7700;wait 1;"
        assert story() == copied + "wait 1;launch 1;wait 7700;", story()
        # nobody waits: neither for a result on the device, nor longer than for its word
        fake.fake_cuda_set(b"busy", 1)
        gpuopt.reduce(x, out=Interface(out, stream=0x7700))
        assert gpuopt.reduce(Interface(items), out=host) == total
        gpuopt.reduce(Interface(items), dtype=np.int32)
        gpuopt.reduce(gaps, "argmax", axis=0)
        gpuopt.reduce(gaps, out=Interface(np.array(0), stream=0x7700))
        fake.fake_cuda_set(b"busy", 0)
        assert get("depth") == 0
        """,
    )


def test_memory_between_passes_is_given_back_after_them(fake_cuda):
    """It is ours, on the default stream: that waits for the caller's before anything is freed."""
    with_producers(
        fake_cuda,
        """
        rows = items[:90_000].reshape(300, 300)
        gaps = Interface(rows[:, ::3], stream=0x7700, strides=(1200, 12))
        odd = Interface(rows[:, ::3], stream=0x7700, strides=(1200, 10))  # must be copied first
        out = Interface(np.empty((), "i8"), stream=0x7700)
        columns = Interface(np.empty(100, "i8"), stream=0x7700)
        fake.fake_cuda_set(b"frees", 1)
        for call in (
            lambda: gpuopt.reduce(gaps, axis=0, initial=7, out=columns),
            lambda: gpuopt.reduce(odd, "argmax", out=out),
            lambda: gpuopt.reduce(gaps, "mean", axis=1),
            lambda: gpuopt.add(gaps, gaps),
        ):
            forget()
            call()
            gc.collect()
            told = story().split(";")
            assert "free 1" in told, told
            for at in (at for at, each in enumerate(told) if each == "free 1"):
                last = max(k for k in range(at) if told[k] == "launch 7700")
                assert "wait 1" in told[last:at], told
        """,
    )


def test_a_result_that_looks_like_none_yet(fake_cuda):
    with_producers(
        fake_cuda,
        """
        odd = np.array([0xfff1d1e5a5a5d00d], np.uint64).view(np.int64)
        host = np.array(0)
        for _ in range(3):
            assert gpuopt.reduce(Interface(odd), out=host) == odd[0]
        """,
    )


def test_a_number_comes_by_one_launch(fake_cuda):
    """And small memory is kept: neither a copy, nor the stream's end, nor the allocator."""
    with_producers(
        fake_cuda,
        """
        array = gpuopt.asarray(items, device="cuda")
        assert gpuopt.reduce(array).item() == total
        fake.fake_cuda_set(b"frees", 1)
        fake.fake_cuda_set(b"busy", 1)
        forget()
        live, used = get("live"), get("used")
        assert float(gpuopt.reduce(array)) == total
        assert story() == "launch 1;launch 1;" and (get("live"), get("used")) == (live, used)
        fake.fake_cuda_set(b"busy", 0)
        for value in (
            np.array(True), np.int8(-3), np.float16(1.5), np.uint32(2**32 - 1), np.float32(0.1),
            np.float64(0.1), np.complex64(1 - 2j), np.complex128(3j), np.uint64(0xfff1d1e5a5a5d00d),
        ):
            assert gpuopt.asarray(value, device="cuda").item() == value.item()
        kept = [gpuopt.empty(n, "u1", "cuda") for n in (0, 1, 256) for _ in range(40)]
        many = [array.address for array in kept]
        assert len(set(many)) == 120 and not any(address % 16 for address in many)
        del kept, array
        gc.collect()
        before = get("live")
        gpuopt._core.close_idle()
        assert get("live") < before and get("used") == 0
        """,
    )


def test_ctrl_c_while_a_number_is_awaited(fake_cuda):
    code = """
        one = gpuopt.asarray(np.int64(41), device="cuda")
        fake.fake_cuda_set(b"lose", 1)
        ctrl_c(one.item, 0.3)
        fake.fake_cuda_set(b"lose", 0)
        assert one.item() == 41
    """
    with_producers(fake_cuda, code)


def test_streams_of_strangers_do_not_wait_for_each_other(fake_cuda):
    """Each has a queue of its own, up to 16 of them; what one had, another waits for."""
    with_producers(
        fake_cuda,
        """
        out = Interface(np.array(0), stream=0x7700)
        def on(stream):
            x = Interface(items, stream=stream)
            forget()
            gpuopt.reduce(x, out=Interface(np.array(0), stream=stream))
            return story()
        fake.fake_cuda_set(b"busy", 1)
        streams = [0x7000 + 16 * k for k in range(16)]
        for stream in (*streams, *streams[::-1], *streams):
            told = on(stream).split(";")
            assert f"launch {stream:x}" in told and told.count(f"wait {stream:x}") <= 1, told
            others = {f"wait {each:x}" for each in streams if each != stream}
            assert not others & {*told}, (stream, told)
        forget()
        assert gpuopt.reduce(Interface(items, stream=streams[3]), out=np.array(0)) == total
        live = get("live")
        on(0x9900)
        assert get("live") == live  # in the queue that waited longest
        fake.fake_cuda_set(b"busy", 0)
        """,
    )


def test_a_borrowed_arrays_stream_waits_before_it_goes(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        out = gpuopt.empty((), np.int64, "cuda")
        for kind, stream in ((cupy_ndarray, "5500"), (tensor, "6600")):
            x = kind(items)
            gone = weakref.ref(x)
            ours = gpuopt.asarray(x)
            del x
            gpuopt.reduce(ours, out=out)
            forget()
            if kind is tensor:  # what the caller does with his does not matter
                assert gone() is None
            view = ours._view
            del ours
            assert story() == ""
            del view
            gc.collect()
            assert story() == f"wait {stream};" and gone() is None, story()
        # on the default stream there is nothing to wait for
        ours = gpuopt.asarray(Interface(items))
        gpuopt.reduce(ours, out=out)
        forget()
        del ours
        gc.collect()
        assert story() == ""
        """),
    )


def test_autograd_is_told_of_what_is_written(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        x, one, row = tensor(items[:12]), tensor(np.array(0)), tensor(np.zeros(4, np.int64))
        for write in (
            lambda: gpuopt.reduce(x, out=one),
            lambda: gpuopt.reduce(x, initial=3, out=one),
            lambda: gpuopt.reduce(tensor(items[:12].reshape(3, 4)), axis=0, out=row),
            lambda: gpuopt.add(x, x, out=x),
        ):
            before = graph.writes
            write()
            assert graph.writes == before + 1
        gpuopt.reduce(x), gpuopt.add(x, x), gpuopt.reduce(x, out=np.array(0))
        assert graph.writes == before + 1
        from gpuopt import _views
        _views._increment_version.cache_clear()
        del graph.increment_version  # PyTorch before 2.2
        gpuopt.reduce(x, out=one)
        """),
    )


def test_a_graph_that_is_given_up_is_not_waited_for(fake_cuda):
    with_producers(
        fake_cuda,
        """
        import time
        x, y = Interface(items), Interface(items[:7])
        out = np.array(0)
        for _ in range(20):
            gpuopt.reduce(x, out=out)
        fake.fake_cuda_set(b"busy", 1)
        begin = time.monotonic()
        gpuopt.reduce(y, out=out)
        assert out == 21 and time.monotonic() - begin < 1
        fake.fake_cuda_set(b"busy", 0)
        """,
    )


def test_the_interface_and_its_errors(fake_cuda):
    with_producers(
        fake_cuda,
        """
        def refuse(kind, text, x, **options):
            caught(kind, lambda: gpuopt.reduce(x, **options), text)
        out = np.array(0)
        x = Interface(items)
        refuse(ValueError, "ambiguous", Interface(items, stream=0))
        refuse(TypeError, "masked", Interface(items, mask=x))
        refuse(ValueError, "read-only", x, out=Interface(out, read_only=True))
        refuse(TypeError, "float32", x, out=Interface(np.array(0, np.float32)), dtype=np.int64)
        refuse(TypeError, "byte order", Interface(items.astype(">i4")))
        refuse(TypeError, "complex128", Interface(items[:9].astype(complex)), op="prod")
        refuse(TypeError, "not supported", Interface(np.zeros(3, "V2")))
        crooked = Interface(out)
        crooked.__cuda_array_interface__["data"] = (out.ctypes.data + 2, False)
        refuse(ValueError, "aligned", x, out=crooked)
        refuse(ValueError, "overlaps", Interface(items[:12].reshape(3, 4)), axis=0, dtype="i4",
               out=Interface(items[4:8]))
        # any order of axes, forwards or backwards, is one run
        grid = items[:60].reshape(3, 4, 5)
        host = np.array(0)
        for view in (grid.T, grid[::-1], grid.transpose(1, 2, 0)[:, ::-1]):
            y = Interface(view, strides=view.strides)
            assert gpuopt.reduce(y, out=host) == grid.sum()
        turned = Interface(grid[0].T, strides=(4, 20))
        assert gpuopt.transpose(turned).shape == (4, 5)
        assert gpuopt.transpose(Interface(grid[0])).shape == (5, 4)
        # nothing to do
        nothing = Interface(items[:0])
        nothing.__cuda_array_interface__["data"] = (0, False)
        assert gpuopt.reduce(nothing, out=host) == 0
        # a lent array becomes ours without a copy
        ours = gpuopt.asarray(x)
        assert ours.address == items.ctypes.data and ours.nbytes == items.nbytes
        """,
    )


def test_capsules(fake_cuda):
    with_producers(
        fake_cuda,
        """
        for versioned in (True, False):
            array = gpuopt.asarray(items, device="cuda")
            x = Capsules(array, versioned)
            host = np.array(0)
            assert gpuopt.reduce(x, out=host) == total
            assert x.asked[0] == {"stream": 1, "max_version": (1, 0)}
            name = "used_dltensor_versioned" if versioned else "used_dltensor"
            assert f'"{name}"' in repr(x.capsules[0]), repr(x.capsules)
            used, gone = get("used"), weakref.ref(array)
            x.array = array = None
            assert gone() is None  # the deleter was called
            assert get("used") < used
        # consumed once
        array = gpuopt.asarray(items, device="cuda")
        class Again(Capsules):
            def __dlpack__(self, **options):
                self.capsules = self.capsules or [self.array.__dlpack__(**options)]
                return self.capsules[0]
        x = Again(array)
        gpuopt.reduce(x)
        caught(ValueError, lambda: gpuopt.reduce(x), "consumed")
        # never consumed: the capsule itself lets go
        capsule, gone = array.__dlpack__(), weakref.ref(array)
        del x, array
        assert gone() is not None
        del capsule
        assert gone() is None
        # read-only, told by the versioned protocol alone
        lent = gpuopt.asarray(Interface(np.array(0), read_only=True))
        caught(ValueError, lambda: gpuopt.reduce(Interface(items), out=Capsules(lent)), "read-only")
        caught(BufferError, lambda: lent.__dlpack__(), "read-only")
        # the consumer's stream waits for ours
        array = gpuopt.asarray(items, device="cuda")
        forget()
        array.__dlpack__(stream=0x9900)
        assert story() == "wait 9900;", story()
        forget()
        for stream in (None, 1, -1):
            array.__dlpack__(stream=stream)
        assert story() == "", story()
        caught(ValueError, lambda: array.__dlpack__(stream=0), "ambiguous")
        caught(BufferError, lambda: array.__dlpack__(copy=True), "get")
        caught(BufferError, lambda: array.__dlpack__(dl_device=(1, 0)), "get")
        class Odd:
            def __dlpack_device__(self):
                return 2, 0
            def __dlpack__(self, **options):
                return 7
        caught(TypeError, lambda: gpuopt.reduce(Odd()), "capsule")
        # a host's array is NumPy's business
        class Host:
            __dlpack__ = items.__dlpack__
            __dlpack_device__ = items.__dlpack_device__
            __array__ = items.__array__
        assert gpuopt.reduce(Host()) == total
        """,
    )


def test_bfloat16_capsules(fake_cuda):
    pytest.importorskip("ml_dtypes")
    with_producers(
        fake_cuda,
        """
        import ml_dtypes
        host = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
        array = gpuopt.asarray(host, device="cuda")
        assert not hasattr(array, "__cuda_array_interface__")  # which has no bfloat16
        for versioned in (True, False):
            ours = gpuopt.asarray(Capsules(array, versioned))
            assert ours.address == array.address and ours.dtype == host.dtype
            assert (array.get() == host).all()
            found = gpuopt.reduce(Capsules(array, versioned), "max", axis=0)
            assert (found.shape, found.dtype) == ((4,), host.dtype)

        class Interface:  # as PyTorch writes it, and others after it
            __cuda_array_interface__ = {
                "shape": (4, 3), "strides": (2, 8), "typestr": host.dtype.str,
                "data": (array.address, False), "version": 3, "stream": 1,
            }
        assert host.dtype.str == "<V2"
        found = gpuopt.reduce(Interface(), "max", axis=0)
        assert (found.shape, found.dtype) == ((3,), host.dtype)
        """,
    )


def test_the_arrays_own_gpu(fake_cuda):
    with_producers(
        fake_cuda,
        """
        fake.fake_cuda_set(b"devices", 2)
        one = gpuopt.asarray(items, device="cuda:1")
        zero = gpuopt.asarray(items, device="cuda:0")
        assert (one.device, zero.device) == ("cuda:1", "cuda:0")
        assert one.__dlpack_device__() == (2, 1)
        found = gpuopt.reduce(Capsules(one))
        assert found.device == "cuda:1" and found.item() == total
        fake.fake_cuda_set(b"owner", 1)
        assert gpuopt.reduce(Interface(items), device="cuda").device == "cuda:1"
        caught(ValueError, lambda: gpuopt.reduce(Interface(items), device="cuda:0"), "cuda:1")
        caught(ValueError, lambda: gpuopt.add(zero, one), "y: is on cuda:1, but x is on cuda:0")
        out = gpuopt.empty((), np.int64, "cuda:1")
        caught(ValueError, lambda: gpuopt.reduce(zero, out=out), "out: is on cuda:1")
        """,
    )


def test_memory_is_given_back(fake_cuda):
    with_producers(
        fake_cuda,
        """
        array = gpuopt.asarray(items, device="cuda")
        def work():
            gpuopt.reduce(array)
            gpuopt.transpose(array_2d)
            gpuopt.reduce(array_2d, axis=0)
            gpuopt.reduce(Interface(items[::2], strides=(8,)), "max", initial=3)
            gpuopt.transpose(Interface(items[:12].reshape(3, 4).T, strides=(4, 16)))
            gpuopt.reduce(Capsules(array))
            capsule = array.__dlpack__()
        array_2d = gpuopt.asarray(items[:1200].reshape(30, 40), device="cuda")
        work()
        gc.collect()
        used, live = get("used"), get("live")
        for _ in range(20):
            work()
        gc.collect()
        assert (get("used"), get("live")) == (used, live)
        del array, array_2d
        gc.collect()
        assert used - get("used") == items.nbytes + 4800
        """,
    )


def test_a_repeated_launch_becomes_a_graph(fake_cuda):
    with_producers(
        fake_cuda,
        """
        x, y = Interface(items, stream=0x7700), Interface(items + 1, stream=0x7700)
        host = np.array(0)
        def told(array, total):
            forget()
            assert gpuopt.reduce(array, out=host) == total
            return story()
        first = [told(x, total) for _ in range(30)]
        assert first == ["launch 7700;"] * 15 + ["graph 7700;"] * 15, first
        items[7] += 5  # the same memory
        assert told(x, total + 5) == "graph 7700;"
        live = get("live")
        other = total + len(items)
        assert told(y, other) == "launch 7700;"  # another launch: the graph is given back
        assert get("live") == live - 1
        assert [told(y, other) for _ in range(15)][-1] == "graph 7700;"
        fake.fake_cuda_fail(b"cuGraphLaunch", 999, 1)
        caught(gpuopt.DeviceError, lambda: gpuopt.reduce(y, out=host), "cuGraphLaunch")
        assert gpuopt.reduce(y, out=host) == other
        """,
    )


def test_every_failing_driver_call(fake_cuda):
    with_producers(
        fake_cuda,
        """
        array = gpuopt.asarray(items, device="cuda")
        out = gpuopt.empty((), np.int64, "cuda")
        host = np.array(0)
        x = Interface(items, stream=0x7700)
        def work():
            gpuopt.reduce(x, out=host)
            gpuopt.reduce(array, out=out)
            gpuopt.reduce(array)
            gpuopt.add(array, array)
            gpuopt.add(turned, turned)
            gpuopt.reduce(turned, "mean", axis=1)
        turned = Interface(items[:90_000].reshape(300, 300)[::2].T, strides=(4, 2400))
        work()
        for nth in range(1, 200):
            fake.fake_cuda_fail(b"*", 999, nth)
            try:
                work()
            except gpuopt.DeviceError:
                pass
            fake.fake_cuda_fail(b"*", 0, 0)
            assert get("depth") == 0, nth
        gc.collect()
        for _ in range(20):  # what is repeated becomes a graph
            work()
        live = get("live")
        for _ in range(20):
            work()
        assert get("live") == live
        assert host == total and out.item() == total
        """,
    )


def test_a_librarys_current_stream_and_its_own_type_back(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        for kind, stream in ((cupy_ndarray, "5500"), (tensor, "6600")):
            forget()
            found = gpuopt.reduce(kind(items))
            assert type(found) is kind and found.host.shape == () and found.host == total
            assert story() == f"launch {stream};", story()
            out = kind(np.array(0))
            assert gpuopt.reduce(kind(items), out=out) is out and out.host == total
            grid = kind(items[:12].reshape(3, 4))
            assert gpuopt.transpose(grid).shape == (4, 3)
            turned = kind(items[:12].reshape(3, 4).T)
            host = np.array(0)
            assert gpuopt.reduce(turned, out=host) == 66
            forget()
            assert type(gpuopt.transpose(turned)) is kind
            assert story() == f"launch {stream};" * 2, story()  # one makes it contiguous
            forget()
            assert type(gpuopt.reduce(kind(items[::2]))) is kind
            found = gpuopt.reduce(turned, "argmin", axis=1, keepdims=True)
            assert type(found) is kind and found.shape == (4, 1) and found.host.dtype == np.int64
            assert set(story().split(";")) == {f"launch {stream}", ""}, story()
        # of two libraries: on the first one's stream, ordered with the other's
        forget()
        assert type(gpuopt.add(cupy_ndarray(items), tensor(items))) is cupy_ndarray
        assert story() == "wait 5500;launch 5500;wait 6600;", story()
        for kind in (cupy_ndarray, tensor):  # a number's result is the array's library's
            assert type(gpuopt.add(kind(items), 2)) is type(gpuopt.add(2, kind(items))) is kind
        assert gpuopt.reduce(tensor(items, is_cuda=False)) == total
        strange = tensor(items)
        strange.requires_grad = True
        caught(TypeError, lambda: gpuopt.reduce(strange), "detach")
        strange = tensor(items)
        strange.dtype = "torch.float8_e4m3fn"
        caught(TypeError, lambda: gpuopt.reduce(strange), "float8_e4m3fn")
        class Two(tensor):  # two bytes of a dtype that NumPy has not
            def __init__(self, host):
                super().__init__(host)
                self.dtype = "torch.bfloat16"
            def new_empty(self, shape): return Two(np.empty(shape, self.host.dtype))
        torch.bfloat16 = np.uint16
        torch.empty = lambda shape, dtype, device: Two(np.empty(shape, dtype))
        small = Two(np.zeros((4, 6), np.uint16))
        found = gpuopt.reduce(small, axis=0)
        assert type(found) is Two and found.shape == (6,)
        assert type(gpuopt.transpose(small)) is Two
        """),
    )


# --- streams of a call that does not end well, or that are not what their number says


def test_a_call_that_fails_half_way_is_before_the_other_streams(fake_cuda):
    """What it queued may still use memory that its owner gives back on a stream of its own."""
    code = """
        array, out = np.arange(1 << 20, dtype=np.int64), np.zeros((), np.int64)
        def call():
            return gpuopt.reduce(Interface(array, 0x5500), variant=7, out=Interface(out, 0x6600))
        call()
        forget()
        fake.fake_cuda_fail(b"cuLaunchKernel", 2, 2)
        caught(gpuopt.DeviceError, call, "cuLaunchKernel")
        assert story().endswith("launch 5500;wait 6600;"), story()
    """
    with_producers(fake_cuda, code)


def test_the_per_thread_default_stream_is_another_in_each_thread(fake_cuda):
    """Its queue goes back to its own stream, and is ordered after the thread's."""
    code = """
        import threading
        array = np.arange(100, dtype=np.int64)
        def call():
            gpuopt.reduce(Interface(array, 2), out=Interface(np.zeros((), np.int64), 2))
        fake.fake_cuda_set(b"busy", 1)  # its work is not done when the next thread comes
        call()
        before = story()
        forget()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert before.count("launch 2;") == story().count("launch 2;") == 1
        assert "wait 2;" in story(), story()
    """
    with_producers(fake_cuda, code)


def test_asarray_remembers_that_its_memory_may_go_only_after_the_work(fake_cuda):
    code = """
        own = gpuopt.asarray(np.arange(100), device="cuda")
        held = gpuopt.asarray(Capsules(own))
        for call in (lambda: gpuopt.reduce(held, out=gpuopt.empty((), np.int64, "cuda")),
                     lambda: gpuopt.add(held, held)):
            ctrl_c(call, 0.3)  # it waits, as it does for the capsule itself
        gpuopt.reduce(own, out=gpuopt.empty((), np.int64, "cuda"))
    """
    with_producers(fake_cuda, code)


def test_what_ctrl_c_left_unfinished_is_kept(fake_cuda):
    """The GPU may still read an array whose wait was interrupted: it goes after the next wait."""
    code = """
        out = gpuopt.empty((), np.int64, "cuda")
        lent = []
        def work():
            gpuopt.reduce(Capsules(lent.pop()), out=out)
        def used():
            gc.collect()
            return get("used")
        for interrupted in (False, True, False):
            lent.append(gpuopt.asarray(np.arange(1000), device="cuda"))
            if not interrupted:
                work()
                settled = used()
            else:
                ctrl_c(work, 0.3)
                assert used() == settled + 8000, used() - settled
                before = settled
        assert settled == before, settled - before
    """
    with_producers(fake_cuda, code)


def test_a_stream_that_is_being_captured(fake_cuda):
    """A graph would keep addresses of memory that the next call uses too."""
    code = """
        x, out = Interface(items, stream=0x7700), Interface(np.array(0), stream=0x8800)
        legacy = Interface(items)
        use = lambda: gpuopt.reduce(x, out=out)
        use()
        kernels = gpuopt.load_ptx(
            ".version 8.0 .target sm_75 .address_size 64 .entry reduce_k() { ret; }", "cuda")
        live = []
        for captured in (0x7700, 0x8800, 0x7700, 0x8800):
            fake.fake_cuda_set(b"captured", captured)
            forget()
            caught(gpuopt.DeviceError, use, "cuda:0: the current stream is being captured")
            assert "launch" not in story(), story()
            gpuopt.reduce(legacy)
            caught(gpuopt.DeviceError, lambda: kernels.use_stream(captured), "captured")
            live.append(get("live"))
        assert live[1] == live[3] and get("depth") == 0, live
        fake.fake_cuda_set(b"captured", 0)
        use()
    """
    with_producers(fake_cuda, code)


def test_extents_that_are_none(fake_cuda):
    code = """
        array = np.arange(20)
        for told in (dict(shape=(-4, -5)), dict(shape=(-4,)), dict(shape=(2.5,)),
                     dict(shape=(4, 5), strides=(8,))):
            wrong = Interface(array)
            wrong.__cuda_array_interface__ |= told
            caught(TypeError, lambda: gpuopt.reduce(wrong), "array: its CUDA array interface")
            caught(TypeError, lambda: gpuopt.asarray(wrong), "x: its CUDA array interface")
        listed = Interface(array, strides=[8])
        gpuopt.reduce(listed, out=np.zeros((), np.int64))
        nothing = Interface(array)  # one past the end of its memory
        nothing.__cuda_array_interface__ |= dict(shape=(0,), data=(array.ctypes.data + 160, False))
        assert gpuopt.asarray(nothing).shape == (0,)
    """
    with_producers(fake_cuda, code)
