"""Arrays of CuPy, PyTorch, JAX, Numba and our own on a GPU, where they are installed."""

import gc
import sys

import numpy as np
import pytest
from conftest import KINDS
from gpu_libraries import along, gpus, installed

import gpuopt
from gpuopt import _core
from gpuopt.arrays import libraries
from gpuopt.measure import peer_libraries

pytestmark = pytest.mark.timeout(300)


def test_own_arrays_on_a_gpu(rng):
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
def test_cupy_arrays_reduce_to_cupy_arrays(cupy, rng, dtype):
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
    for first in range(1, 4):  # addresses that suit an element and no more
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


def test_torch_tensors_reduce_to_torch_tensors(torch, rng):
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
    assert torch.equal(gpuopt.transpose(x.T), x)
    with pytest.raises(TypeError, match="detach"):
        gpuopt.reduce(x.clone().requires_grad_())
    with pytest.raises(TypeError, match="float8"):
        gpuopt.reduce(x.to(torch.float8_e4m3fn))
    with pytest.raises(TypeError, match="y: is on the host"):
        gpuopt.add(x, host)
    assert gpuopt.reduce(x.cpu()) == pytest.approx(host.sum())
    a = torch.rand(300, 200, device="cuda")
    torch.testing.assert_close(gpuopt.matmul(a, a.T), a @ a.T, rtol=1e-3, atol=1e-3)


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


def test_our_arrays_reach_another_gpu(cupy, torch):
    """Libraries copy memory of a pool only where its pool lets the other GPU in."""
    if gpus() < 2:
        pytest.skip("there is one GPU")
    n = 1 << 24
    ours = gpuopt.asarray(np.arange(n) % 100, device="cuda:1")
    total = int(ours.get().sum())
    with cupy.cuda.Device(0):
        for _ in range(10):  # CuPy copies it here, after the work that is queued there
            doubled = gpuopt.add(ours, ours)
            assert int(cupy.asarray(doubled).sum()) == 2 * total
    assert torch.from_dlpack(ours).to("cuda:0").sum().item() == total
    torch.from_dlpack(ours).copy_(torch.ones(n, device="cuda:0"))
    assert int(gpuopt.reduce(ours)) == n
    numba = installed("numba.cuda")
    with numba.gpus[1]:
        x = numba.to_device(np.arange(1000))
    found = gpuopt.reduce(x)
    with numba.gpus[1]:
        numba.synchronize()
    assert found.copy_to_host() == 499500


PACKAGES = {"CuPy": "cupy", "cuBLAS": "cupy", "PyTorch": "torch", "JAX": "jax"}


@pytest.mark.parametrize("library", PACKAGES)
@pytest.mark.parametrize("gpu", [0, 1])
def test_a_library_is_timed_on_the_gpu_that_is_measured(library, gpu, rng):
    package = installed(PACKAGES[library])
    if gpus() < 2:
        pytest.skip("there is one GPU")
    if library == "PyTorch" and not package.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    current = {
        "cupy": lambda: package.cuda.Device().id,
        "torch": lambda: package.cuda.current_device(),
        "jax": lambda: package.config.jax_default_device,
    }[PACKAGES[library]]
    before = current()
    given = peer_libraries.Arguments([rng.random((700, 900), np.float32)])
    peers, refused = peer_libraries.find(peer_libraries.Task("transpose"), given, gpu, [library])
    if refused and "backend here" in refused[0][1]:
        pytest.skip(f"{library} {refused[0][1]}")
    assert not refused and current() == before
    (peer,) = peers
    np.testing.assert_array_equal(peer.run(), given[0].T)
    assert all(peer.time(3, cold) > 0 for cold in (False, True))
    with peer._current():
        result = peer._calls[0]()
    for array in (given.copies[library][0][0], given.copies[library][-1][0], result):
        assert libraries.view_of(array, "array").device == f"cuda:{gpu}"
    assert current() == before
    peer_libraries.release(gpu)
    assert current() == before


def told(describe, x):
    """Return all that is said of a tensor, or the error."""
    try:
        view = describe(x, "array")
    except Exception as error:
        return type(error), str(error)
    if view is None:
        return None
    assert view.holder is x and isinstance(view.library, libraries._Torch)
    where = view.address, view.shape, view.strides, view.dtype, view.device, view.stream
    return *where, view.read_only, view.waits


def odd_tensors(torch, x):
    """Return tensors on the GPU that are refused, or described in another way."""
    c = torch.randn(6, 8, dtype=torch.complex64, device="cuda")
    found = {
        "gradient": x.clone().requires_grad_(),
        "conjugated": c.conj(),
        "negated": c.conj().imag,
        "negated integers": torch._neg_view(x.to(torch.int32)),
        "real part": c.conj().real,
        "resolved": c.conj().imag.resolve_neg(),
        "host": x.cpu(),
        "pinned": x.cpu().pin_memory(),
        "meta": x.to("meta"),
        "sparse": x.to_sparse(),
        "parameter": torch.nn.Parameter(x, requires_grad=False),
        "parameter with gradient": torch.nn.Parameter(x),
        "bytes": x.view(torch.uint8),
    }
    for name in ("float8_e4m3fn", "float8_e5m2", "complex32", "float4_e2m1fn_x2", "float8_e8m0fnu"):
        if hasattr(torch, name):
            found[name] = torch.empty(8, dtype=getattr(torch, name), device="cuda")
    return found


def test_torch_exchange_api_agrees_with_attributes(torch):
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this PyTorch has no C exchange API")
    slow = next(each for each in libraries.LIBRARIES if isinstance(each, libraries._Torch)).view
    libraries.view_of(torch.zeros(1, device="cuda"), "x")  # makes the type known
    assert _core.borrow(torch.zeros(1, device="cuda"))

    def swift(value, name):
        return _core.borrow(value) or slow(value, name)

    names = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64"
    for name in (*names.split(), "complex128", "uint16", "uint32", "uint64"):
        x = torch.zeros(6, 8, dtype=getattr(torch, name), device="cuda")
        views = (x, x.T, x[::2], x[:, 1::3], x[1:, 2:], x[0], x[0, 0], x[:0], x[:, :0].T, x[:1].T)
        more = (x.expand(3, 6, 8), x[:, :1].expand(6, 8), x.view(2, 3, 2, 4).permute(3, 0, 2, 1))
        for view in (*views, *more, torch.zeros((), dtype=x.dtype, device="cuda")):
            said = told(swift, view)
            assert said == told(slow, view), (name, view.shape, view.stride())
            assert said[0] == view.data_ptr() and said[5] == 1
            assert (said[2] is None) == view.is_contiguous()
    x = torch.ones(6, 8, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert told(swift, x) == told(slow, x)
        assert told(swift, x)[5] == stream.cuda_stream
    for name, odd in odd_tensors(torch, x).items():
        assert told(swift, odd) == told(slow, odd), name
        assert told(libraries.view_of, odd) == told(slow, odd), name
    if gpus() > 1:
        there = x.to("cuda:1")
        assert told(swift, there) == told(slow, there)

    class Mine(torch.Tensor):
        pass

    mine = x.as_subclass(Mine)
    assert told(libraries.view_of, mine) == told(slow, mine)
    swiftly = []
    torch.vmap(lambda row: swiftly.append((told(swift, row), told(slow, row))) or row)(x)
    assert swiftly[0][0] == swiftly[0][1]


def test_torch_refuses_unsupported_tensors(torch):
    x = torch.ones(6, 8, device="cuda")
    out = torch.empty(8, device="cuda")
    refused = {
        "gradient": (TypeError, "detach"),
        "conjugated": (TypeError, "resolve_conj"),
        "negated": (TypeError, "resolve_neg"),
        "negated integers": (TypeError, "resolve_neg"),
        "parameter with gradient": (TypeError, "detach"),
        "float8_e4m3fn": (TypeError, "float8_e4m3fn is not supported"),
        "float8_e5m2": (TypeError, "float8_e5m2 is not supported"),
        "complex32": (TypeError, "complex32 is not supported"),
    }
    odd = odd_tensors(torch, x)
    for _ in range(2):
        for name, (kind, text) in refused.items():
            with pytest.raises(kind, match="array: .*" + text):
                gpuopt.reduce(odd[name], axis=0)
            with pytest.raises(kind, match="out: .*" + text):
                gpuopt.reduce(x, axis=0, out=odd[name])
        for text, wrong in (
            ("has shape", out[:7]),
            ("has shape", out[None]),
            ("contiguous", torch.empty(16, device="cuda")[::2]),
            ("overlaps array", x[2]),
        ):
            with pytest.raises(ValueError, match="out: .*" + text):
                gpuopt.reduce(x, axis=0, out=wrong)
        with pytest.raises(TypeError, match="out: must be of"):
            gpuopt.reduce(x, axis=0, dtype="f8", out=out)
        with pytest.raises(TypeError, match="out: return arrays"):
            gpuopt.reduce(x, axis=0, out=out.cpu())
        with pytest.raises(ValueError, match="device: the array is on cuda:0"):
            gpuopt.reduce(x, axis=0, out=out, device="sim")
        assert gpuopt.reduce(odd["host"], axis=0).tolist() == [6] * 8
        assert gpuopt.reduce(odd["real part"], axis=0).shape == (8,)
        assert gpuopt.reduce(odd["parameter"], axis=0, out=out) is out
        assert out.tolist() == [6] * 8
        assert gpuopt.reduce(x[:0], axis=0, out=out) is out and out.tolist() == [0] * 8


def test_torch_repeated_calls_see_new_memory(torch):
    """A cached call depends on the layout only, not on the memory."""
    torch.manual_seed(7)
    stream = torch.cuda.Stream()
    for dtype in (torch.float32, torch.int32, torch.bfloat16):
        for k in range(20):
            with torch.cuda.stream(stream if k % 2 else torch.cuda.default_stream()):
                x = (torch.randn(130, 257, device="cuda") * 9).to(dtype)
                for view in (x, x.T, x[::2], x[:, 1::3]):
                    for axis in (0, 1, None):
                        want = view.sum() if axis is None else view.sum(axis)
                        kept = want.dtype
                        wide = view.double().sum() if axis is None else view.double().sum(axis)
                        out = torch.full_like(want, 77)
                        assert gpuopt.reduce(view, axis=axis, out=out) is out
                        error = (out.double() - wide).abs()
                        bound = 1e-2 if dtype == torch.bfloat16 else 1e-6
                        assert bool((error <= bound * wide.abs() + 1e-2).all()), (dtype, axis)
                        made = gpuopt.reduce(view, axis=axis)
                        assert type(made) is torch.Tensor and made.dtype == kept
                        assert torch.equal(made, out)
                        torch.cuda.current_stream().synchronize()


def test_torch_calls_keep_nothing(torch):
    x, out = torch.ones(64, 64, device="cuda"), torch.empty(64, device="cuda")
    one = torch.empty((), device="cuda")
    gc.collect()  # of the tests before
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    references = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(one)
    for _ in range(1000):
        gpuopt.reduce(x, axis=0, out=out)
        gpuopt.reduce(x, out=one)
        gpuopt.reduce(x, axis=0)
    assert (sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(one)) == references
    torch.cuda.synchronize()
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_jax_arrays_reduce_on_their_gpu():
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
    host = np.asarray(x)
    for op in ("sum", "mean", "max", "argmax", "any", "count"):
        for axis in (0, 1, None):
            found = gpuopt.reduce(x, op, axis=axis, keepdims=True)
            assert isinstance(found, jax.Array)
            want = along(host, op, axis, keepdims=True)
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-6)
    small = (jax.numpy.arange(1200.0).reshape(30, 40) / 7).astype("bfloat16")
    wide = np.asarray(small).astype("f8")
    for op in ("sum", "mean", "min", "max", "argmax"):
        for axis in (0, 1, None):
            found = gpuopt.reduce(small, op, axis=axis)
            assert isinstance(found, jax.Array)
            want = along(wide, op, axis)
            if op != "argmax":
                assert found.dtype == small.dtype
                want = np.asarray(want).astype(small.dtype)
            assert np.asarray(found).astype("f8").tolist() == np.asarray(want).astype("f8").tolist()


def test_jax_arrays_without_data_raise():
    jax = installed("jax")
    x = jax.numpy.ones((3, 4))
    for trace in (jax.jit, jax.grad, jax.vmap):
        with pytest.raises(TypeError, match="array: is traced by JAX"):
            trace(lambda x: jax.numpy.sum(gpuopt.reduce(x)))(x)
    with pytest.raises(TypeError, match="y: PRNGKeyArray of JAX is not an array of numbers"):
        gpuopt.add(x, jax.random.key(0))
    x.delete()
    with pytest.raises(ValueError, match="array: its memory was given back"):
        gpuopt.reduce(x)
    if gpus() < 2:
        return
    sharding = jax.sharding
    both = sharding.Mesh(np.array(jax.devices()[:2]), ("gpus",))
    for parts in (("gpus",), ()):
        where = sharding.NamedSharding(both, sharding.PartitionSpec(*parts))
        x = jax.device_put(np.arange(12.0, dtype="f4"), where)
        with pytest.raises(ValueError, match="array: is on 2 devices"):
            gpuopt.reduce(x)
        assert gpuopt.reduce(x.addressable_shards[1].data).devices() == {jax.devices()[1]}


def test_numba_arrays_reduce_on_their_gpu():
    cuda = installed("numba.cuda")
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
    turned = np.asfortranarray(host)  # Numba's own x.T is a copy, by a kernel that it compiles
    columns = cuda.to_device(turned)
    assert columns.strides == turned.strides
    for theirs, ours in (
        (x, host),
        (x[::2], host[::2]),
        (x[:, ::3], host[:, ::3]),
        (columns, host),
    ):
        for op in ("sum", "mean", "max", "argmin"):
            for axis in (0, 1):
                found = gpuopt.reduce(theirs, op, axis=axis)
                assert type(found) is type(x)
                np.testing.assert_allclose(found.copy_to_host(), along(ours, op, axis), rtol=1e-6)
        np.testing.assert_array_equal(gpuopt.transpose(theirs).copy_to_host(), ours.T)
