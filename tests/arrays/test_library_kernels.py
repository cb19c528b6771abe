"""Kernels of a user's on arrays of CuPy, PyTorch, JAX and Numba, and on their streams."""

import gc
import sys

import numpy as np
import pytest
from gpu_libraries import gpus, installed
from ptx_texts import ADD

import gpuopt

pytestmark = pytest.mark.timeout(300)


SLOW = 2**26  # elements: to add a number to them takes more than 0.1 ms


def blocks(n):
    return -(-n // 256), 256


def test_kernels_on_cupy_arrays(cupy, rng):
    module = gpuopt.load_ptx(ADD, "cuda:0")
    host = rng.random((300, 400), np.float32)
    x, y, out = cupy.asarray(host), cupy.asarray(2 * host), cupy.zeros((300, 400), np.float32)
    address = out.data.ptr
    module["add"](*blocks(x.size), x, y, out, x.size)
    assert out.data.ptr == address
    np.testing.assert_array_equal(out.get(), host + 2 * host)
    near = np.zeros((300, 400), np.float32)
    module["add"](*blocks(x.size), x, host, near, x.size)  # NumPy's beside them, and ours
    np.testing.assert_array_equal(near, host + host)
    ours = gpuopt.asarray(host, device="cuda:0")
    module["add"](*blocks(x.size), ours, ours, out[100:], 200 * 400)
    np.testing.assert_array_equal(out[100:].get(), 2 * host[:200])
    for gaps in (x.T, x[:, ::2], x[::-1]):
        with pytest.raises(ValueError, match="argument 2 is not C-contiguous"):
            module["add"](1, 32, x, gaps, out, 0)
    with pytest.raises(TypeError, match="module is on sim:h200; pass a copy on the host"):
        gpuopt.load_ptx(ADD, "sim")["add"](1, 32, x, x, x, 0)
    module["add"](1, 32, x[:0], x[:0], out[:0], 0)


def test_kernels_are_in_the_order_of_cupy_streams(cupy):
    module = gpuopt.load_ptx(ADD, "cuda:0")
    one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    with other:
        y = cupy.zeros(SLOW, np.float32)
    with one:
        x, out = cupy.zeros(SLOW, np.float32), cupy.zeros(SLOW, np.float32)
    for stream in (one, other):
        stream.synchronize()
    for current in (one, other, cupy.cuda.Stream.null):
        with one:
            x.fill(0)
            for _ in range(100):
                x += 1
            ours = gpuopt.asarray(x)  # is ordered after this stream, whichever is current
        with current:
            module["add"](*blocks(SLOW), ours, ours, out, SLOW)
            out *= 2
            assert float(out.min()) == float(out.max()) == 400
    with other:
        for _ in range(100):
            y += 1
        lent = gpuopt.asarray(y)
    with one:
        for _ in range(50):
            x += 1
        module["add"](*blocks(SLOW), x, lent, out, SLOW)  # of two streams
        assert one.done
    assert float(out.min()) == float(out.max()) == 250


def test_a_bound_launch_on_cupy_arrays(cupy):
    module = gpuopt.load_ptx(ADD, "cuda:0")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.zeros(SLOW, np.float32)
        one = cupy.ones(SLOW, np.float32)
        bound = module["add"].bind(*blocks(SLOW), x, one, x, SLOW)
        for _ in range(100):
            x += 1
    added = 100
    for how, rounds in (("queue", 6), ("sync", 6), ("host", 6), ("graph", 7)):
        seconds = module.time(bound, 5, how)
        assert 3 * x.nbytes / 1e13 < seconds < 1 or how == "host"
        added += rounds
        assert float(x.min()) == float(x.max()) == added
    assert gpuopt.reduce(x).item() == added * SLOW
    del x, one, stream  # the launch keeps its arrays alive
    gc.collect()
    assert module.time(bound) > 0


def test_kernels_on_torch_tensors(torch):
    module = gpuopt.load_ptx(ADD, "cuda:0")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(SLOW, device="cuda:0")
        y, out = torch.ones_like(x), torch.empty_like(x)
        for _ in range(100):
            x += 1
        module["add"](*blocks(SLOW), x, y, out, SLOW)
        assert stream.query()  # it was waited for
        out += 1
        assert out.min().item() == out.max().item() == 102
    half = torch.ones(4, device="cuda:0").bfloat16()  # dtypes are the kernel's business
    module["add"](1, 32, half, half, half, 2)
    for wrong, kind, text in (
        (x.view(-1, 2)[:, 0], ValueError, "not C-contiguous"),
        (x.clone().requires_grad_(), TypeError, "detach"),
        (x.cpu(), TypeError, "argument 2 is Tensor"),
    ):
        with pytest.raises(kind, match=text):
            module["add"](1, 32, x, wrong, out, 0)


def test_autograd_detects_a_kernels_arrays(torch):
    module = gpuopt.load_ptx(ADD, "cuda:0")
    weight = torch.ones(4, device="cuda:0", requires_grad=True)
    kept = torch.ones(4, device="cuda:0")
    loss = (weight * kept).sum()
    before = kept._version
    module["add"](1, 32, kept, kept, kept, 4)
    assert kept._version > before and kept.tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    bound = module["add"].bind(1, 32, kept, kept, kept, 4)
    before = kept._version
    module.time(bound)
    assert kept._version > before


def test_kernels_and_jax():
    jax = installed("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    module = gpuopt.load_ptx(ADD, "cuda:0")
    x = jax.numpy.arange(1000, dtype="float32")
    out = gpuopt.empty(1000, "float32", "cuda:0")
    with pytest.raises(ValueError, match=r"argument 1 is read-only.*address"):
        module["add"](*blocks(1000), x, x, out, 1000)
    address = jax.block_until_ready(x).unsafe_buffer_pointer()
    module["add"](*blocks(1000), address, address, out, 1000)
    np.testing.assert_array_equal(out.get(), 2 * np.arange(1000))


def test_kernels_on_numba_arrays():
    cuda = installed("numba.cuda")
    module = gpuopt.load_ptx(ADD, "cuda:0")
    host = np.arange(1000, dtype=np.float32)
    stream = cuda.stream()
    x, out = cuda.to_device(host, stream=stream), cuda.device_array_like(host)
    module["add"](*blocks(1000), x, x, out, 1000)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * host)
    for given in (stream, cuda.default_stream(), cuda.legacy_default_stream()):
        module.use_stream(given)
        module["add"](*blocks(1000), host, out, out, 1000)
    np.testing.assert_array_equal(out.copy_to_host(), 5 * host)
    del given, stream
    gc.collect()
    module.use_stream(cuda.stream())
    near = module.pinned(1000, np.float32)
    module.time(module.transfer(near, module.copy(host)))
    np.testing.assert_array_equal(near, host)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_streams_of_a_library(library, request):
    """The module keeps them, and so does its pinned memory."""
    module = request.getfixturevalue(library)
    ours = gpuopt.load_ptx(ADD, "cuda:0")
    stream = module.cuda.Stream()
    ours.use_stream(stream)
    references = sys.getrefcount(stream)
    near, there = ours.pinned(1000, np.float32), ours.copy(np.arange(1000, dtype=np.float32))
    ours.time(ours.transfer(near, there))
    np.testing.assert_array_equal(near, np.arange(1000))
    ours.use_stream(0)
    assert sys.getrefcount(stream) == references - 1
    ours.use_stream(stream)
    del stream
    gc.collect()
    ours["add"](*blocks(1000), there, there, there, 1000)
    del ours, there
    gc.collect()
    np.testing.assert_array_equal(near, np.arange(1000))
    del near
    null = module.cuda.Stream.null if library == "cupy" else module.cuda.default_stream(0)
    ours = gpuopt.load_ptx(ADD, "cuda:0")
    ours.use_stream(null)  # its number is 0, the module's own is another
    if library == "cupy":
        x = module.zeros(SLOW, np.float32)
        for _ in range(100):
            x += 1
        out = np.zeros(4, np.float32)
        ours["add"](1, 32, x.data.ptr, x.data.ptr, out, 4)
        assert out.tolist() == [200] * 4
    else:
        event = module.cuda.Event()
        with pytest.raises(TypeError, match="stream: must be"):
            ours.use_stream(event)


def test_kernels_and_streams_of_another_gpu(cupy):
    if gpus() < 2:
        pytest.skip("there is one GPU")
    modules = [gpuopt.load_ptx(ADD, f"cuda:{k}") for k in range(2)]
    arrays, streams = [], []
    for k in range(2):
        with cupy.cuda.Device(k):
            arrays.append(cupy.ones(1000, np.float32))
            streams.append(cupy.cuda.Stream(non_blocking=True))
    for here, there in ((0, 1), (1, 0)):
        add, x, y = modules[here]["add"], arrays[here], arrays[there]
        with pytest.raises(ValueError, match=f"argument 2 .* cuda:{there}, .* on cuda:{here}"):
            add(*blocks(1000), x, y, x, 1000)
        add(*blocks(1000), x, x, x, 1000)
        for array, want in ((x, 2000), (y, 1000 if here == 0 else 2000)):
            with array.device:
                assert float(array.sum()) == want
        for stream in (streams[there], streams[there].ptr):
            with pytest.raises(ValueError, match=f"stream of cuda:{there}, .* on cuda:{here}"):
                modules[here].use_stream(stream)
        modules[here].use_stream(streams[here])
        near = modules[here].pinned(4000)
        modules[here].time(modules[here].transfer(near, modules[here].copy(near)))
    del streams, stream, near, add, modules
    gc.collect()  # pinned memory and the streams go in order


def test_tensors_and_streams_of_another_gpu(torch):
    if gpus() < 2:
        pytest.skip("there is one GPU")
    module = gpuopt.load_ptx(ADD, "cuda:1")
    x = torch.ones(1000, device="cuda:1")
    module["add"](*blocks(1000), x, x, x, 1000)
    assert x.sum().item() == 2000 and torch.cuda.current_device() == 0
    with pytest.raises(ValueError, match=r"argument 1 .* cuda:0, .* on cuda:1"):
        module["add"](*blocks(1000), x.to("cuda:0"), x, x, 1000)
    for stream in (torch.cuda.Stream(0), torch.cuda.default_stream(0)):
        with pytest.raises(ValueError, match=r"stream of cuda:0, .* on cuda:1"):
            module.use_stream(stream)
    module.use_stream(torch.cuda.Stream(1))
    module.use_stream(torch.cuda.default_stream(1))
    module["add"](*blocks(1000), x, x, x, 1000)
    assert x.sum().item() == 4000
