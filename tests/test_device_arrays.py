"""Arrays on a device: ours, and those of other libraries.

Ours run on the simulated GPU everywhere. Streams, capsules, devices and errors are tested on a
driver that is no GPU (fake_cuda.c), with producers made here; CuPy, PyTorch, JAX and Numba on a
GPU, where they are installed.
"""

import gc
import textwrap

import numpy as np
import pytest
from conftest import KINDS, run_python
from test_driver import PREAMBLE, library, needs_compiler  # noqa: F401

import gpuopt

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
        (ValueError, "y: is on sim:g80, but x", lambda: gpuopt.add(x, other)),
        (ValueError, "x, y: have shapes", lambda: gpuopt.add(x, square)),
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
        (TypeError, "on its device", lambda: gpuopt.reduce(simulated([1], "f2"))),
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

PRODUCERS = """
import gc, types, sys, weakref
fake.fake_cuda_story.restype = ctypes.c_char_p
def story():
    return fake.fake_cuda_story().decode()
def forget():
    fake.fake_cuda_forget()
class Interface:  # host memory, which is what the driver takes for a GPU's
    def __init__(self, host, stream=None, read_only=False, strides=None, **more):
        self.host = host
        self.__cuda_array_interface__ = dict(
            shape=host.shape, typestr=host.dtype.str, data=(host.ctypes.data, read_only),
            version=3, strides=strides, stream=stream, **more)
class Capsules:
    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.asked, self.capsules = array, versioned, [], []
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
    def __dlpack__(self, **options):
        self.asked.append(options)
        if not self.versioned and "max_version" in options:
            raise TypeError("unexpected keyword argument")
        self.capsules.append(self.array.__dlpack__(**options))
        return self.capsules[-1]
"""


def with_producers(library, code):  # noqa: F811
    return run_python(
        PREAMBLE + PRODUCERS + textwrap.dedent(code),
        GPUOPT_CUDA_DRIVER=library(),
        GPUOPT_DEVICE=None,
    )


@needs_compiler
def test_the_producers_stream(library):  # noqa: F811
    with_producers(
        library,
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
        assert found.get() == total and found.__cuda_array_interface__["stream"] == 1
        # nobody waits: neither for a result on the device, nor longer than for its word
        fake.fake_cuda_set(b"busy", 1)
        gpuopt.reduce(x, out=Interface(out, stream=0x7700))
        assert gpuopt.reduce(Interface(items), out=host) == total
        gpuopt.reduce(Interface(items), dtype=np.int32)
        fake.fake_cuda_set(b"busy", 0)
        assert get("depth") == 0
        """,
    )


@needs_compiler
def test_a_result_that_looks_like_none_yet(library):  # noqa: F811
    with_producers(
        library,
        """
        odd = np.array([0xfff1d1e5a5a5d00d], np.uint64).view(np.int64)
        host = np.array(0)
        for _ in range(3):
            assert gpuopt.reduce(Interface(odd), out=host) == odd[0]
        """,
    )


@needs_compiler
def test_the_interface_and_its_errors(library):  # noqa: F811
    with_producers(
        library,
        """
        def refuse(kind, text, x, **options):
            caught(kind, lambda: gpuopt.reduce(x, **options), text)
        out = np.array(0)
        x = Interface(items)
        refuse(ValueError, "ambiguous", Interface(items, stream=0))
        refuse(TypeError, "masked", Interface(items, mask=x))
        refuse(ValueError, "read-only", x, out=Interface(out, read_only=True))
        refuse(TypeError, "float32", x, out=Interface(np.array(0, np.float32)), dtype=np.int64)
        refuse(ValueError, "gaps", Interface(items[:100], strides=(8,)))
        refuse(TypeError, "byte order", Interface(items.astype(">i4")))
        refuse(TypeError, "on its device", Interface(items.astype(np.int16)))
        crooked = Interface(items[:4])
        crooked.__cuda_array_interface__["data"] = (items.ctypes.data + 2, False)
        refuse(ValueError, "multiple", crooked)
        # any order of axes, forwards or backwards, is one run
        grid = items[:60].reshape(3, 4, 5)
        host = np.array(0)
        for view in (grid.T, grid[::-1], grid.transpose(1, 2, 0)[:, ::-1]):
            y = Interface(view, strides=view.strides)
            assert gpuopt.reduce(y, out=host) == grid.sum()
        caught(ValueError, lambda: gpuopt.transpose(Interface(grid[0].T, strides=(4, 20))), "a: ")
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


@needs_compiler
def test_capsules(library):  # noqa: F811
    with_producers(
        library,
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


@needs_compiler
def test_the_arrays_own_gpu(library):  # noqa: F811
    with_producers(
        library,
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


@needs_compiler
def test_memory_is_given_back(library):  # noqa: F811
    with_producers(
        library,
        """
        array = gpuopt.asarray(items, device="cuda")
        def work():
            gpuopt.reduce(array)
            gpuopt.transpose(array_2d)
            gpuopt.reduce(Capsules(array))
            capsule = array.__dlpack__()
        array_2d = gpuopt.asarray(items[:12].reshape(3, 4), device="cuda")
        work()
        gc.collect()
        used, live = get("used"), get("live")
        for _ in range(20):
            work()
        gc.collect()
        assert (get("used"), get("live")) == (used, live)
        del array, array_2d
        gc.collect()
        assert used - get("used") == items.nbytes + 48
        """,
    )


@needs_compiler
def test_every_failing_driver_call(library):  # noqa: F811
    with_producers(
        library,
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
        work()
        for nth in range(1, 80):
            fake.fake_cuda_fail(b"*", 999, nth)
            try:
                work()
            except gpuopt.DeviceError:
                pass
            fake.fake_cuda_fail(b"*", 0, 0)
            assert get("depth") == 0, nth
        gc.collect()
        work()
        live = get("live")
        for _ in range(20):
            work()
        assert get("live") == live
        assert host == total and out.item() == total
        """,
    )


FAKE_LIBRARIES = """
class Stream:
    ptr = 0x5500
class Array:
    def __init__(self, host, index=0):
        self.host, self.shape, self.dtype, self.strides = host, host.shape, host.dtype, host.strides
        self.device = types.SimpleNamespace(id=index)
        self.data = types.SimpleNamespace(ptr=host.ctypes.data)
        self.flags = types.SimpleNamespace(c_contiguous=host.flags.c_contiguous)
cupy_ndarray = type("ndarray", (Array,), {"__module__": "cupy"})
class On:
    def __init__(self, index): pass
    def __enter__(self): pass
    def __exit__(self, *error): pass
cupy = types.ModuleType("cupy")
cupy.cuda = types.ModuleType("cupy.cuda")
cupy.cuda.get_current_stream = lambda index: Stream
cupy.cuda.Device = On
cupy.empty = lambda shape, dtype: cupy_ndarray(np.empty(shape, dtype))
cupy.ndarray = cupy_ndarray
sys.modules |= {"cupy": cupy, "cupy.cuda": cupy.cuda}

class Tensor:
    requires_grad = False
    def __init__(self, host, is_cuda=True):
        self.host, self.is_cuda, self.shape = host, is_cuda, host.shape
        self.dtype = "torch." + host.dtype.name
        self.device = "cuda:0"
    def get_device(self): return 0
    def is_neg(self): return False
    def is_conj(self): return False
    def is_contiguous(self): return self.host.flags.c_contiguous
    def stride(self): return tuple(s // self.host.itemsize for s in self.host.strides)
    def data_ptr(self): return self.host.ctypes.data
    def __array__(self, dtype=None, copy=None): return self.host
tensor = type("Tensor", (Tensor,), {"__module__": "torch"})
torch = types.ModuleType("torch")
torch.empty = lambda shape, dtype, device: tensor(np.empty(shape, dtype))
torch.int64, torch.int32 = np.int64, np.int32
torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0x6600)
sys.modules["torch"] = torch
"""


@needs_compiler
def test_a_librarys_current_stream_and_its_own_type_back(library):  # noqa: F811
    with_producers(
        library,
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
            caught(ValueError, lambda: gpuopt.transpose(turned), "contiguous")
            caught(ValueError, lambda: gpuopt.reduce(kind(items[::2])), "contiguous")
        # of two libraries: on the first one's stream, ordered with the other's
        forget()
        assert type(gpuopt.add(cupy_ndarray(items), tensor(items))) is cupy_ndarray
        assert story() == "wait 5500;launch 5500;wait 6600;", story()
        assert gpuopt.reduce(tensor(items, is_cuda=False)) == total
        strange = tensor(items)
        strange.requires_grad = True
        caught(TypeError, lambda: gpuopt.reduce(strange), "detach")
        strange = tensor(items)
        strange.dtype = "torch.bfloat16"
        caught(TypeError, lambda: gpuopt.reduce(strange), "bfloat16")
        """),
    )


# --- other people's, on a GPU


def installed(name):
    """Return a library that can use the GPU here; skip the test where there is none."""
    if KINDS["cuda"]:
        pytest.skip(KINDS["cuda"])
    return pytest.importorskip(name)


def gpus():
    return gpuopt.available("cuda").count


@pytest.fixture
def cupy():
    return installed("cupy")


@pytest.fixture
def torch():
    torch = installed("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return torch


def test_ours_on_a_gpu(rng):
    if KINDS["cuda"]:
        pytest.skip(KINDS["cuda"])
    for dtype in ("int32", "int64", "float32", "float64"):
        host = (rng.random((1000, 777)) * 100).astype(dtype)
        array = gpuopt.asarray(host, device="cuda")
        np.testing.assert_array_equal(array.get(), host)
        np.testing.assert_array_equal(gpuopt.transpose(array).get(), host.T)
        np.testing.assert_array_equal(gpuopt.add(array, array).get(), host + host)
        expected = host.sum(dtype="f8" if host.dtype.kind == "f" else "i8")
        assert gpuopt.reduce(array).item() == pytest.approx(expected, rel=1e-6)
        value = np.empty((), gpuopt.reduce(array).dtype)
        for _ in range(200):  # the word is polled: every call anew
            value[...] = 0
            assert gpuopt.reduce(array, out=value) == pytest.approx(expected, rel=1e-6)
    square = gpuopt.asarray(rng.random((300, 300)), device="cuda")
    found = gpuopt.matmul(square, square).get()
    np.testing.assert_allclose(found, square.get() @ square.get(), rtol=1e-10)
    line = gpuopt.asarray(rng.random(100_001).astype("f4"), device="cuda")
    for rung in gpuopt.rungs("stencil1d"):
        if not (rung.host or rung.historical):
            found = gpuopt.stencil1d(line, 5, variant=rung.variant).get()
            expected = gpuopt.stencil1d(line.get(), 5, device="cpu")
            np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_polled_word_is_never_the_last_calls():
    if KINDS["cuda"]:
        pytest.skip(KINDS["cuda"])
    value = np.empty((), np.int64)
    arrays = [gpuopt.asarray(np.full(1000, i), device="cuda") for i in range(100)]
    for _ in range(20):
        for i, array in enumerate(arrays):
            assert gpuopt.reduce(array, out=value) == 1000 * i
    odd = np.array([0xFFF1D1E5A5A5D00D], np.uint64).view(np.int64)
    assert gpuopt.reduce(gpuopt.asarray(odd, device="cuda"), out=value) == odd[0]


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64"])
def test_cupy(cupy, rng, dtype):
    host = (rng.random((257, 1023)) * 100).astype(dtype)
    x = cupy.asarray(host)
    for op in ("sum", "min", "max"):
        found = gpuopt.reduce(x, op)
        assert type(found) is cupy.ndarray and found.shape == ()
        expected = getattr(host, op)()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.get(), expected, rtol=1e-6)
        np.testing.assert_allclose(gpuopt.reduce(x.T[::-1], op).get(), expected, rtol=1e-6)
    value = np.empty((), host.sum().dtype)
    assert gpuopt.reduce(x, out=value) is value
    np.testing.assert_allclose(value, host.sum(), rtol=1e-6)
    turned = gpuopt.transpose(x)
    assert type(turned) is cupy.ndarray
    np.testing.assert_array_equal(turned.get(), host.T)
    for first in range(1, 4):  # addresses that suit an item and no more
        row = x.ravel()[first : first + 1000]
        np.testing.assert_allclose(
            gpuopt.reduce(row).get(), host.ravel()[first : first + 1000].sum(), rtol=1e-6
        )
        block = x.ravel()[first : first + 999].reshape(27, 37)
        for rung in gpuopt.rungs("transpose"):
            if not (rung.host or rung.historical or rung.ceiling):
                found = gpuopt.transpose(block, variant=rung.variant)
                np.testing.assert_array_equal(found.get(), block.get().T)
    if dtype != "bool":
        out = cupy.empty_like(x)
        assert gpuopt.add(x, x, out=out) is out
        np.testing.assert_array_equal(out.get(), host + host)
    with pytest.raises(ValueError, match="ascontiguousarray"):
        gpuopt.reduce(x[:, ::2])
    with pytest.raises(ValueError, match="ascontiguousarray"):
        gpuopt.transpose(x.T)
    assert gpuopt.reduce(x[:0]).get() == 0


def test_cupy_streams(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.zeros(1 << 26, np.float32)
        value = np.empty((), np.float32)
        gpuopt.reduce(x, out=value)
        out = cupy.empty((), np.float32)
        total = np.empty_like(value)
        for _ in range(200):
            x += 1
        gpuopt.reduce(x, out=out)
        assert not stream.done  # nobody waited
        made = gpuopt.reduce(x)
        gpuopt.saxpy(1.0, x, x, out=x)
        gpuopt.reduce(x, out=total)  # waits for all of it
        assert float(out) == float(made) == 200.0 * x.size
        assert total == 400.0 * x.size
    # arrays of two streams
    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        y = cupy.zeros(1 << 26, np.float32)
        for _ in range(100):
            y += 1
        ours = gpuopt.asarray(y)
    with stream:
        found = gpuopt.add(x, ours)
        assert type(found) is cupy.ndarray
        assert float(found.min()) == float(found.max()) == 500.0


def test_cupy_in_place_and_no_copies(cupy):
    x, y = cupy.ones(1 << 20, np.float32), cupy.ones(1 << 20, np.float32)
    address = y.data.ptr
    assert gpuopt.saxpy(2.0, x, y, out=y) is y and y.data.ptr == address
    assert float(y.sum()) == 3.0 * y.size
    ours = gpuopt.asarray(x)
    assert ours.address == x.data.ptr
    assert cupy.asarray(ours).data.ptr == x.data.ptr
    assert cupy.from_dlpack(ours).data.ptr == x.data.ptr
    mine = gpuopt.asarray(np.arange(10), device="cuda")
    theirs = cupy.from_dlpack(mine)
    theirs += 1
    cupy.cuda.runtime.deviceSynchronize()
    np.testing.assert_array_equal(mine.get(), np.arange(1, 11))
    del mine
    gc.collect()
    np.testing.assert_array_equal(theirs.get(), np.arange(1, 11))


def test_a_cupy_arrays_own_gpu(cupy):
    if gpus() < 2:
        pytest.skip("there is one GPU")
    with cupy.cuda.Device(1):
        x = cupy.arange(1000)
    found = gpuopt.reduce(x)
    assert found.device.id == 1 and int(found) == 499500
    assert gpuopt.transpose(x.reshape(10, 100)).device.id == 1
    with pytest.raises(ValueError, match="cuda:1"):
        gpuopt.reduce(x, device="cuda:0")
    with pytest.raises(ValueError, match="y: is on cuda:0"):
        gpuopt.add(x, cupy.arange(1000))


def test_torch(torch, rng):
    for name in ("bool", "int32", "int64", "float32", "float64"):
        host = (rng.random((257, 1023)) * 100).astype(name)
        x = torch.from_numpy(host).cuda()
        for op in ("sum", "min", "max"):
            found = gpuopt.reduce(x, op)
            assert type(found) is torch.Tensor and found.is_cuda and found.shape == ()
            expected = getattr(host, op)()
            assert str(found.dtype) == f"torch.{expected.dtype}"
            np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-6)
            np.testing.assert_allclose(gpuopt.reduce(x.T, op).item(), expected, rtol=1e-6)
        turned = gpuopt.transpose(x)
        assert type(turned) is torch.Tensor
        assert torch.equal(turned, x.T)
    with pytest.raises(ValueError, match="contiguous"):
        gpuopt.transpose(x.T)
    with pytest.raises(ValueError, match="contiguous"):
        gpuopt.reduce(x[:, ::2])
    with pytest.raises(TypeError, match="detach"):
        gpuopt.reduce(x.clone().requires_grad_())
    with pytest.raises(TypeError, match="bfloat16"):
        gpuopt.reduce(x.bfloat16())
    with pytest.raises(TypeError, match="y: is on the host"):
        gpuopt.add(x, host)
    assert gpuopt.reduce(x.cpu()) == pytest.approx(host.sum())
    a = torch.rand(300, 200, device="cuda")
    torch.testing.assert_close(gpuopt.matmul(a, a.T.contiguous()), a @ a.T, rtol=1e-3, atol=1e-3)


def test_torch_streams_and_in_place(torch):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 26, device="cuda")
        out = torch.empty((), device="cuda")
        gpuopt.reduce(x, out=out)
        for _ in range(200):
            x += 1
        gpuopt.reduce(x, out=out)
        assert not stream.query()  # nobody waited
        address = x.data_ptr()
        assert gpuopt.saxpy(1.0, x, x, out=x) is x and x.data_ptr() == address
        value = np.empty((), np.float32)
        gpuopt.reduce(x, out=value)
        assert out.item() == 200.0 * x.numel() and value == 400.0 * x.numel()
    ours = gpuopt.asarray(np.arange(10, dtype=np.float32), device="cuda")
    theirs = torch.from_dlpack(ours)
    assert theirs.data_ptr() == ours.address
    theirs += 1
    torch.cuda.synchronize()
    np.testing.assert_array_equal(ours.get(), np.arange(1, 11))
    assert torch.as_tensor(ours, device="cuda").data_ptr() == ours.address
    if gpus() > 1:
        there = torch.arange(1000, device="cuda:1")
        assert gpuopt.reduce(there).device.index == 1
        assert gpuopt.reduce(there).item() == 499500


def test_jax():
    jax = installed("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    x = jax.numpy.arange(12000, dtype="float32").reshape(100, 120)
    found = gpuopt.reduce(x)
    assert isinstance(found, jax.Array) and found.shape == ()
    assert float(found) == pytest.approx(12000 * 11999 / 2)
    turned = gpuopt.transpose(x)
    assert isinstance(turned, jax.Array)
    np.testing.assert_array_equal(np.asarray(turned), np.asarray(x).T)
    with pytest.raises(ValueError, match="read-only"):
        gpuopt.add(x, x, out=jax.numpy.zeros_like(x))


def test_numba():
    cuda = pytest.importorskip("numba.cuda") if not KINDS["cuda"] else installed("numba")
    host = np.arange(12000, dtype=np.float32).reshape(100, 120)
    x = cuda.to_device(host)
    found = gpuopt.reduce(x)
    assert type(found) is type(x)
    assert found.copy_to_host() == pytest.approx(host.sum())
    turned = gpuopt.transpose(x)
    assert type(turned) is type(x)
    np.testing.assert_array_equal(turned.copy_to_host(), host.T)
    out = cuda.device_array_like(host)
    assert gpuopt.add(x, x, out=out) is out
    cuda.synchronize()
    np.testing.assert_array_equal(out.copy_to_host(), 2 * host)
    stream = cuda.stream()
    y = cuda.to_device(host, stream=stream)
    assert gpuopt.reduce(y).copy_to_host() == pytest.approx(host.sum())
