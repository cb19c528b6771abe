"""Our own arrays on a device, on the simulated GPU; other libraries' are in test_producers.py."""

import types

import numpy as np
import pytest
from conftest import kinds, random_items, strided

import gpuopt
from gpuopt import _core
from gpuopt.arrays import device_array
from gpuopt.families import device_calls
from gpuopt.families.device_axes import copy_of

pytestmark = pytest.mark.timeout(180)


def simulated(values, dtype=None):
    return gpuopt.asarray(np.asarray(values, dtype), device="sim")


def test_copy_to_device_and_back_is_identical(rng):
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


def test_a_dtype_in_the_other_byte_order_is_refused():
    array = simulated([[1, 2], [3, 4]], np.int32)
    for options in ({}, {"variant": 7}, {"initial": 0}, {"axis": (0, 1)}):
        for each in (array, array.get()):
            with pytest.raises(TypeError, match=r"^dtype: '>i8' is in a foreign byte order"):
                gpuopt.reduce(each, dtype=">i8", **options)


def test_empty_reduction_returns_identity():
    for dtype in ("?", "i1", "u1", "u2", "u4", "u8", "i8"):
        host = np.zeros((0, 3), dtype)
        for op, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("sum", np.add)):
            for axis in (None, 0):
                found = gpuopt.reduce(simulated(host), op, axis=axis)
                expected = ufunc.reduce(host, axis=axis)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found.get(), expected)


@pytest.mark.parametrize("dtype", ["F", "D"])
def test_complex_elements_are_true_unless_zero(dtype, rng):
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


def test_narrow_result_overwrites_no_neighbours(rng):
    for items, result in (("f4", "f4"), ("i8", "i4"), ("i4", "u4"), ("i4", "i2"), ("i4", "i8")):
        host = rng.integers(-(2**31), 2**31, 5000).astype(items)
        room = simulated(np.full(4, 77, result))
        address = room.address + room.dtype.itemsize
        out = device_array.make(address, (), room.dtype, room.device, room)
        assert gpuopt.reduce(simulated(host), out=out) is out
        want = host.sum(dtype="f8" if items == "f4" else "i8").astype(result)
        assert room.get().tolist() == [77, want, 77, 77]


def test_cached_calls_distinguish_equal_parameters():
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
        device_calls.check_apart(run(4096 + apart), "a", run(4096))
    for apart in (-396, 396, 0):
        with pytest.raises(ValueError, match="out: overlaps a"):
            device_calls.check_apart(run(4096 + apart), "a", run(4096))


def test_a_plan_serves_all_factors_and_addresses(rng, monkeypatch):
    real, made = _core.Plan, []

    def planned(*given):
        if given[0] == "resident":
            made.append(given)
        return real(*given)

    monkeypatch.setattr(_core, "Plan", planned)
    x, y = rng.random(37).astype("f4"), rng.random(37).astype("f4")
    for factor in (0, 1.5, -2, 7, 1e300, 2**70):
        with np.errstate(over="ignore"):
            want = np.float32(factor) * x + y
        got = gpuopt.saxpy(factor, simulated(x), simulated(y)).get()
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert len(made) == 2  # for integers and for floats
    weights = np.array([1.0, 2.0, 3.0])
    for scale in (1.0, 2.0, 1.0):  # their values are constants of a plan
        got = gpuopt.stencil1d(simulated(x), weights=scale * weights).get()
        want = gpuopt.stencil1d(x, weights=scale * weights, device="cpu")
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert len(made) == 4
    for name in ("bool", "int8", "uint16", "uint32", "uint64", "float16"):  # converted by passes
        for _ in range(2):
            z = (10 * rng.random((5, 37))).astype(name)
            got = gpuopt.stencil1d(simulated(z), 2, axis=0, mode="wrap").get()
            np.testing.assert_array_equal(got, gpuopt.stencil1d(z, 2, axis=0, mode="wrap"), name)
    assert len(made) == 10


def test_cached_calls_hold_no_array(rng):
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


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "u8", "c8"])
def test_dtypes_that_need_conversion_raise(dtype):
    """The elements are on the device: only those dtypes are taken that need no conversion."""
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


def test_array_attributes_are_read_only():
    array = simulated(np.arange(6))
    for name in ("shape", "dtype", "device", "address", "read_only"):
        with pytest.raises(AttributeError):
            setattr(array, name, getattr(array, name))


def test_every_family_computes_on_the_device(rng):
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


def test_invalid_device_arguments_raise():
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
        (ValueError, "y: is on sim:g80, but x", lambda: gpuopt.add(x, other)),
        (
            ValueError,
            "x, y: operands could not be",
            lambda: gpuopt.add(simulated([1.0] * 3), square),
        ),
        (TypeError, "y: makes the result float64, but x is int64", lambda: gpuopt.add(y, 0.5)),
        (OverflowError, "x: .*use arrays of a dtype", lambda: gpuopt.add(2**70, y)),
        (TypeError, "x: dtype complex128 is not", lambda: gpuopt.add(simulated([1j]), 3)),
        (TypeError, "x: dtype int64 is not", lambda: gpuopt.saxpy(2, y, 3)),
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
        (ValueError, "one element", lambda: float(x)),
        (ValueError, "variant", lambda: gpuopt.reduce(x, variant="serial")),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()
    assert not hasattr(x, "__cuda_array_interface__")
    assert gpuopt.reduce(x, device="sim").item() == 3.0
    assert gpuopt.asarray(x) is x


def test_device_calls_are_profiled_and_checked():
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


@pytest.mark.parametrize("shape", [(), (0,), (1,), (1001,), (3, 70)])
def test_low_words_wrap_integers(shape):
    items = np.arange(np.prod(shape, dtype=int)).reshape(shape) * (2**31 + 7) - 2**40
    for dtype in ("int64", "uint64"):
        given = items.astype(dtype)
        words = device_array.low_words(simulated(given))
        assert words.shape == shape and words.device == "sim:h200"
        sums = gpuopt.add(words, simulated(np.zeros(shape, words.dtype)))
        np.testing.assert_array_equal(sums.get(), given.astype(words.dtype))


@pytest.mark.parametrize("device", kinds()[1:])
@pytest.mark.parametrize("dtype", ["u1", "<i2", "<f4", "f8", "c16"])
def test_elements_with_gaps_on_a_device(device, dtype, rng):
    """Near elements are moved by the transpose: one by one if they are few, else by its tiles."""
    for shape, axes in (((160, 301), (1, 0)), ((9, 7, 1201), (1, 0, 2)), ((9, 40, 33), (2, 0, 1)),
                        ((9, 40, 33), (0, 2, 1)), ((5, 3, 2, 50), (3, 1, 2, 0)), ((1, 90), (1, 0)),
                        ((7, 60), (0, 1)), ((400, 9, 3), (1, 2, 0)), ((8, 6, 90, 5), (1, 0, 3, 2)),
                        ((6, 5, 4, 3, 2), (4, 3, 2, 1, 0))):  # fmt: skip
        for step in range(1, 6):
            whole = random_items(rng, dtype, (*shape[:-1], 3 + shape[-1] * step))
            part = whole[..., 1:-2:step]
            there, holder = strided(part, device)
            want = part.transpose(axes).tobytes()
            assert gpuopt.transpose(there, axes).get().tobytes() == want, (shape, axes, step)
            turned = there._view.replace(
                shape=tuple(part.shape[k] for k in axes),
                strides=tuple(part.strides[k] for k in axes),
            )
            one = copy_of(turned.shape, turned.strides, part.dtype, part.dtype, turned.address)
            if step <= max(4, 16 // part.itemsize):
                assert one.kernel[0] == "transpose"
            if one.kernel[0] == "transpose":
                made = gpuopt.asarray(np.zeros(turned.shape, dtype), device)
                problem = (*one.kernel, ((turned.address, one.bytes),),
                           (made._view.address, one.result_bytes), one.numbers)  # fmt: skip
                _core.call(problem, "vector", None, turned.device, (turned.stream,))
                assert made.get().tobytes() == want, (shape, axes, step)
            del holder
