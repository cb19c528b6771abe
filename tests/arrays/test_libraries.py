"""Arrays of CuPy, PyTorch, JAX, Numba and our own on a GPU, where they are installed."""

import gc
import importlib
import sys

import numpy as np
import pytest
from conftest import KINDS, run_python
from ptx_texts import ADD

import gpuopt
from gpuopt.arrays import libraries
from gpuopt.measure import peer_libraries

pytestmark = pytest.mark.timeout(300)


def installed(name):
    """Return a library that can use the GPU here; skip the test where there is none."""
    if KINDS["cuda"]:
        pytest.skip(KINDS["cuda"])
    try:
        return importlib.import_module(name)
    except Exception as error:  # not installed, or not made for another library's version
        pytest.skip(f"{name} cannot be imported: {type(error).__name__}: {error}")


def gpus():
    return gpuopt.available("cuda").count


@pytest.fixture
def cupy():
    cupy = installed("cupy")
    cupy.cuda.Device(0).use()  # JAX changes the current GPU
    return cupy


@pytest.fixture
def torch():
    torch = installed("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    torch.cuda.set_device(0)
    return torch


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
    assert view.holder is x and view.library is libraries.TORCH
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
    swift, slow = libraries.TORCH.borrow(torch.Tensor), libraries.TORCH.view
    assert swift != slow
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


def folded(a):
    """Return half of a matrix's columns as two axes."""
    wide = -(-a.shape[1] // 20)
    return a[:, : 10 * wide].reshape(-1, 10, wide)


# Along axes, of any layout, one per plan: slabs, rows, vectorized and scalar columns, chunks with
# few results, several axes that cannot be merged.
VIEWS = {
    "C": lambda a: a,
    "transposed": lambda a: a.T,
    "gaps in rows": lambda a: a[:, ::3],
    "gaps between rows": lambda a: a[::2],
    "gaps in both": lambda a: a[1::2, 5::7],
    "a part of rows": lambda a: a[3:, 8:],
    "reversed": lambda a: a[::-1],
    "all reversed": lambda a: a[::-1, ::-1],
    "three axes": lambda a: folded(a)[::2, :, ::3],
    "three axes, permuted": lambda a: folded(a).transpose(2, 0, 1),
}
FORWARDS = [name for name in VIEWS if "reversed" not in name and "permuted" not in name]
ALONG = ("sum", "mean", "prod", "min", "max", "any", "all", "count", "argmin", "argmax")


def along(host, op, axis, keepdims=False):
    """Return NumPy's answer, of floats from float64 and rounded once."""
    functions = {"count": np.count_nonzero, "any": np.any, "all": np.all, "mean": np.mean}
    function = functions.get(op) or getattr(np, op)
    if host.dtype.kind == "f" and op in ("sum", "mean", "prod"):
        with np.errstate(over="ignore"):
            return function(host, axis=axis, keepdims=keepdims, dtype="f8").astype(host.dtype)
    return function(host, axis=axis, keepdims=keepdims)


def agree(found, want):
    assert (found.shape, found.dtype) == (np.shape(want), np.asarray(want).dtype)
    if found.dtype.kind == "f":
        rtol = (64 if found.dtype.itemsize == 8 else 4) * float(np.finfo(found.dtype).eps)
        np.testing.assert_allclose(found, want, rtol=rtol, atol=1e3 * rtol)
    else:
        np.testing.assert_array_equal(found, want)


def layouts_along_axes(put, get, kind, dtype, names, rng):
    """Compare every operation along every axis of views that a library makes itself."""
    host = (rng.random((600, 1999)) * 200 - 50).astype(dtype)
    host[rng.random(host.shape) < 0.1] = 0
    x = put(host)
    for name in names:
        theirs, ours = VIEWS[name](x), VIEWS[name](host)
        for op in ALONG:
            if op == "prod" and host.dtype.kind == "f":
                theirs_now, ours_now = theirs[:40] / 60, ours[:40] / host.dtype.type(60)
            else:
                theirs_now, ours_now = theirs, ours
            for axis in (None, *range(ours.ndim)):
                found = gpuopt.reduce(theirs_now, op, axis=axis, keepdims=axis == 1)
                assert type(found) is kind, (name, op, axis)
                try:
                    agree(get(found), along(ours_now, op, axis, keepdims=axis == 1))
                except AssertionError as error:
                    raise AssertionError(f"{name} {op} {axis} {dtype}") from error
        turned = gpuopt.reduce(theirs, "sum", axis=(0, ours.ndim - 1))
        agree(get(turned), along(ours, "sum", (0, ours.ndim - 1)))


SMALL_AND_LARGE = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "f4", "f8"]


@pytest.mark.parametrize("dtype", SMALL_AND_LARGE)
def test_cupy_along_axes(cupy, rng, dtype):
    layouts_along_axes(cupy.asarray, cupy.asnumpy, cupy.ndarray, dtype, VIEWS, rng)
    x = cupy.asarray((rng.random((500, 300)) * 100).astype(dtype))
    out = cupy.empty(300, gpuopt.reduce(x, axis=0).dtype)
    assert gpuopt.reduce(x[::2], axis=0, out=out) is out
    agree(out.get(), along(x.get()[::2], "sum", 0))
    host = np.empty(250, out.dtype)
    assert gpuopt.reduce(x[::2], axis=1, out=host[:]).base is host
    agree(host, along(x.get()[::2], "sum", 1))
    if dtype != "bool":
        found = gpuopt.reduce(x[:, ::2], axis=1, initial=7)
        agree(found.get(), along(x.get()[:, ::2], "sum", 1) + found.dtype.type(7))


def test_cupy_reads_in_place(cupy):
    x = cupy.ones((8192, 8193), np.float32)
    pool = cupy.get_default_memory_pool()
    for view in (x, x.T, x[:, ::3], x[::2], x[::-1, ::-1], x[:, 1:]):
        for op in ("sum", "max", "argmax"):
            for axis in (0, 1) if op == "argmax" else (None, 0, 1):
                pool.free_all_blocks()
                before = pool.total_bytes()
                gpuopt.reduce(view, op, axis=axis)
                assert pool.total_bytes() - before < x.nbytes // 32, (op, axis)


def test_cupy_along_axes_on_its_stream(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.zeros((1 << 13, 1 << 13), np.float32)
        gpuopt.reduce(x, axis=0), gpuopt.transpose(x[::2]), gpuopt.add(x[:, ::2], x[:, ::2])
        stream.synchronize()
        for _ in range(200):
            x += 1
        found = gpuopt.reduce(x[:, ::2], "mean", axis=1)
        turned = gpuopt.transpose(x[::2])
        doubled = gpuopt.add(x[:, ::2], x[:, ::2])
        assert not stream.done  # nobody waited
        x += 1
        assert float(found.min()) == float(found.max()) == 200
        assert float(turned.min()) == float(turned.max()) == 200
        assert float(doubled.min()) == float(doubled.max()) == 400


def test_cupy_layouts_in_other_families(cupy, rng):
    host = rng.random((301, 502)).astype("f4")
    x = cupy.asarray(host)
    for view in VIEWS.values():
        theirs, ours = view(x), view(host)
        np.testing.assert_array_equal(gpuopt.add(theirs, theirs).get(), ours + ours)
        np.testing.assert_array_equal(gpuopt.asarray(theirs).get(), ours)
        if ours.ndim == 2:
            np.testing.assert_array_equal(gpuopt.transpose(theirs).get(), ours.T)
            product = gpuopt.matmul(theirs, theirs.T).get()
            np.testing.assert_allclose(product, ours @ ours.T, rtol=1e-4)
            row = gpuopt.stencil1d(theirs[:, 0], 2).get()
            expected = gpuopt.stencil1d(ours[:, 0], 2, device="cpu")
            np.testing.assert_allclose(row, expected, rtol=1e-5)
    for kind in ("i1", "f2", "f8", "c8", "c16"):
        y = (x * 100).astype(kind).T[::2]
        np.testing.assert_array_equal(gpuopt.transpose(y).get(), y.get().T)


def test_cupy_complex_along_axes(cupy, rng):
    host = (rng.random((300, 500)) + 1j * rng.random((300, 500))).astype("c8")
    x = cupy.asarray(host)
    for op in ("sum", "mean"):
        for axis in (0, 1, None):
            found = gpuopt.reduce(x[:, ::3], op, axis=axis)
            expected = getattr(np, op)(host[:, ::3], axis=axis)
            np.testing.assert_allclose(found.get(), expected, rtol=1e-5)
    assert int(gpuopt.reduce(x, "count")) == host.size


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "float16", "f4", "f8"]
)
def test_torch_along_axes(torch, rng, dtype):
    layouts_along_axes(
        lambda host: torch.from_numpy(host).cuda(),
        lambda found: found.cpu().numpy(),
        torch.Tensor,
        dtype,
        FORWARDS,
        rng,
    )
    x = torch.from_numpy((rng.random((40, 30, 20)) * 100).astype(dtype)).cuda()
    for view in (x.permute(2, 0, 1), x.expand(5, 40, 30, 20), x[:, :1].expand(40, 9, 20)):
        host = view.cpu().numpy()
        for op in ("sum", "max", "argmax"):
            for axis in range(host.ndim):
                agree(gpuopt.reduce(view, op, axis=axis).cpu().numpy(), along(host, op, axis))


def test_torch_bfloat16(torch):
    torch.manual_seed(7)
    x = torch.randn(600, 1999, device="cuda").bfloat16()
    for view in (x, x.T, x[:, ::3], x[::2], x[3:, 8:]):
        wide = view.double()
        for axis in (None, 0, 1):
            axes = {} if axis is None else {"dim": axis}
            for op in ("sum", "mean", "amin", "amax", "argmin", "argmax"):
                found = gpuopt.reduce(view, op.replace("am", "m"), axis=axis)
                want = getattr(wide, op)(**axes)
                assert type(found) is torch.Tensor and found.shape == want.shape
                if op.startswith("arg"):  # of equals torch may take any: the values tell
                    at = found if axis is None else found.unsqueeze(axis)
                    values = wide.flatten() if axis is None else wide
                    best = wide.amin(**axes) if op == "argmin" else wide.amax(**axes)
                    got = values[at] if axis is None else values.gather(axis, at).squeeze(axis)
                    assert torch.equal(got, best), (op, axis)
                    continue
                assert found.dtype == torch.bfloat16
                error = (found.double() - want).abs()
                if op[0] == "a":
                    assert not error.any(), (op, axis)
                else:  # rounded once; eight elements at a time are added up in float32
                    bound = 2**-8 * want.abs() + 1e-6 * wide.abs().sum(**axes)
                    assert bool((error <= bound).all()), (op, axis)
    some = (x[:20, :30].float() / 4 + 1).bfloat16()
    found = gpuopt.reduce(some, "prod", axis=0)
    want = some.double().prod(0)
    assert bool(((found.double() - want).abs() <= 2**-8 * want.abs()).all())
    assert torch.equal(gpuopt.transpose(x), x.T) and torch.equal(gpuopt.transpose(x.T), x)
    out = torch.empty(600, device="cuda", dtype=torch.bfloat16)
    assert gpuopt.reduce(x, "max", axis=1, out=out) is out
    assert torch.equal(out, x.amax(1))
    assert gpuopt.reduce(x, dtype="f4").dtype == torch.float32
    big = torch.full((1 << 20,), 3e38, device="cuda").bfloat16()
    big[1::2] *= -1
    assert gpuopt.reduce(big).item() == 0


def test_tensors_without_storage_raise(torch):
    """They are refused before anything is launched: that would lose the GPU for the process."""
    plain = torch.ones(1000, device="cuda")
    freed = plain.clone()
    freed.untyped_storage().resize_(0)
    sparse = torch.eye(4, device="cuda").to_sparse()
    nested = torch.nested.nested_tensor([plain[:3], plain[:5]])
    for tensor, text in ((freed, "no memory"), (sparse, "no plain"), (nested, "no plain")):
        with pytest.raises(TypeError, match=f"x: .*{text}"):
            gpuopt.add(tensor, tensor)
    with pytest.raises(TypeError, match="array: "):
        torch.vmap(gpuopt.reduce)(plain)
    assert gpuopt.reduce(plain).item() == 1000


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_vectors_broadcast_and_numbers(library, request, rng):
    module = request.getfixturevalue(library)
    host = rng.random((300, 400), np.float32)
    x = module.asarray(host) if library == "cupy" else module.asarray(host, device="cuda")
    for found, want in (
        (gpuopt.add(x, 2.5), host + np.float32(2.5)),
        (gpuopt.add(2, x), 2 + host),
        (gpuopt.add(x, x[7]), host + host[7]),
        (gpuopt.add(x[:, :1], x), host[:, :1] + host),
        (gpuopt.matmul(x, x[7]), host @ host[7]),
        (gpuopt.matmul(x[:, 7], x), host[:, 7] @ host),
    ):
        assert type(found) is type(x) and tuple(found.shape) == want.shape
        np.testing.assert_allclose(gpuopt.asarray(found).get(), want, rtol=1e-4)


def test_autograd_detects_writes(torch):
    weight = torch.ones(4, device="cuda", requires_grad=True)
    kept = torch.ones(4, device="cuda")
    loss = (weight * kept).sum()
    gpuopt.add(kept, kept, out=kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_foreign_streams_do_not_wait_for_each_other(torch):
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.ones(1000, device="cuda")
    for stream in (one, other):
        with torch.cuda.stream(stream):
            gpuopt.reduce(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(one):
        torch.cuda._sleep(2_000_000_000)  # cycles: about a second
        gpuopt.reduce(x)
    with torch.cuda.stream(other):
        found = gpuopt.reduce(x)
        other.synchronize()
        assert not one.query() and found.item() == 1000
    torch.cuda.synchronize()


# Each takes matrices a and b, a vector, and what the result goes to; all of it in one graph.
CAPTURED = {
    "sum": lambda a, b, v, out: gpuopt.reduce(a, out=out),
    "long sum": lambda a, b, v, out: gpuopt.reduce(v, out=out),
    "sum after a copy": lambda a, b, v, out: gpuopt.reduce(v.clone(), out=out),
    "argmin": lambda a, b, v, out: gpuopt.reduce(v, "argmin", out=out),
    "deck's sum": lambda a, b, v, out: gpuopt.reduce(v, variant=7, out=out),
    "rows": lambda a, b, v, out: gpuopt.reduce(a, axis=1, out=out),
    "few rows": lambda a, b, v, out: gpuopt.reduce(v.view(4, -1), "max", axis=1, out=out),
    "columns": lambda a, b, v, out: gpuopt.reduce(a, "mean", axis=0, out=out),
    "a view's": lambda a, b, v, out: gpuopt.reduce(a[::2, 5::7], axis=0, out=out),
    "halves": lambda a, b, v, out: gpuopt.reduce(a.half(), axis=(0, 1), out=out),
    "transpose": lambda a, b, v, out: gpuopt.transpose(a, out=out),
    "permutation": lambda a, b, v, out: gpuopt.transpose(v.view(64, -1, 64), (2, 0, 1), out=out),
    "stencil": lambda a, b, v, out: gpuopt.stencil1d(v, 5, mode="wrap", out=out),
    "product": lambda a, b, v, out: gpuopt.matmul(a, b, out=out),
    "deep product": lambda a, b, v, out: gpuopt.matmul(a, a.T, out=out),
    "vector product": lambda a, b, v, out: gpuopt.matmul(a, b[:, 3], out=out),
    "add": lambda a, b, v, out: gpuopt.add(a, a[7], out=out),
    "add 2": lambda a, b, v, out: gpuopt.add(a, 2.0, out=out),
    "saxpy": lambda a, b, v, out: gpuopt.saxpy(3.0, v, v, out=out),
}


def drawn(torch, seed):
    torch.manual_seed(seed)
    shapes = (300, 70_001), (70_001, 257), (1 << 24,)
    return [torch.rand(shape, device="cuda") - 0.3 for shape in shapes]


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_calls_become_parts_of_a_graph(torch, mode):
    """Two graphs that run at the same time, and calls between their runs: none uses another's."""
    wanted = {}
    for seed in range(4):
        given = drawn(torch, seed)
        wanted[seed] = {name: call(*given, None) for name, call in CAPTURED.items()}
    given = [drawn(torch, 0), drawn(torch, 1)]
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    graphs, outs, mades = [], [], []
    for k in range(2):
        outs.append({name: torch.empty_like(each) for name, each in wanted[0].items()})
        graphs.append(torch.cuda.CUDAGraph())
        torch.cuda.synchronize()
        with torch.cuda.graph(graphs[k], stream=streams[k], capture_error_mode=mode):
            for name, call in CAPTURED.items():
                call(*given[k], outs[k][name])
            mades.append({name: call(*given[k], None) for name, call in CAPTURED.items()})
    for round in range(6):
        seeds = [(round + k) % 4 for k in range(2)]
        for k in range(2):
            for old, new in zip(given[k], drawn(torch, seeds[k]), strict=True):
                old.copy_(new)
        for out in (*outs[0].values(), *outs[1].values()):
            out.zero_()
        torch.cuda.synchronize()
        for k in range(2):
            with torch.cuda.stream(streams[k]):
                graphs[k].replay()
        between = {name: call(*given[0], None) for name, call in CAPTURED.items()}
        torch.cuda.synchronize()
        for k in range(2):
            for name, want in wanted[seeds[k]].items():
                assert torch.equal(outs[k][name], want), (round, k, name)
                assert torch.equal(mades[k][name], want), (round, k, name)
        assert all(torch.equal(between[name], wanted[seeds[0]][name]) for name in between)


def test_uncapturable_calls_leave_the_graph_intact(torch):
    x, out = torch.ones(1 << 20, device="cuda"), torch.empty((), device="cuda")
    ours = gpuopt.asarray(np.ones(1 << 20, np.float32), "cuda")
    value = np.zeros((), np.float32)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for call in (
            lambda: gpuopt.reduce(x, out=value),
            lambda: gpuopt.reduce(x, variant=7, out=value),
            lambda: gpuopt.reduce(x, out=out, initial=3),
            lambda: gpuopt.stencil1d(x, weights=np.arange(9.0)),
            lambda: gpuopt.add(x, ours),
            lambda: gpuopt.asarray(x),
        ):
            with pytest.raises(gpuopt.DeviceError, match="is being captured into a graph"):
                call()
        gpuopt.reduce(x, out=out)
    x.fill_(3)
    graph.replay()
    assert out.item() == 3 << 20 and value == 0
    assert gpuopt.reduce(x, out=value) == 3 << 20


@pytest.mark.parametrize("non_blocking", [True, False])
def test_cupys_graphs(cupy, non_blocking):
    x, out = cupy.arange(1 << 20, dtype="f4"), cupy.empty((), "f4")
    gpuopt.reduce(x, out=out)
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        gpuopt.add(x, x, out=x)
        gpuopt.reduce(x, out=out)
        graph = stream.end_capture()
        for doubled in range(1, 6):
            graph.launch(stream)
            want = cupy.arange(1 << 20, dtype="f8").sum() * 2**doubled
            assert abs(float(out) / float(want) - 1) < 1e-7


def test_the_first_call_may_be_in_a_graph(torch):
    code = """
        import torch, gpuopt
        x, out = torch.ones(1 << 22, device="cuda"), torch.empty((), device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gpuopt.reduce(x, out=out)
        graph.replay()
        assert out.item() == 1 << 22
    """
    run_python(code)


def test_our_arrays_may_go_while_a_graph_is_captured(torch):
    ours = [gpuopt.asarray(np.ones(1000), "cuda") for _ in range(3)]
    x = torch.ones(1000, device="cuda")
    y = torch.zeros_like(x)
    for mode in ("relaxed", "thread_local", "global"):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            torch.add(x, 1, out=y)
            ours.pop()
            torch.add(y, 1, out=y)
        graph.replay()
        assert y[0].item() == 3


def test_memory_borrowed_by_asarray_is_kept_alive(torch):
    stream, n = torch.cuda.Stream(), 2**24
    with torch.cuda.stream(stream):
        x = torch.ones(n, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)  # on the default stream, where our arrays are
    with torch.cuda.stream(stream):
        ours = gpuopt.asarray(x)
        del x
        found = gpuopt.reduce(ours)
        del ours
        torch.full((n,), 5.0, device="cuda")  # perhaps in the same memory
    assert found.item() == n
    x = torch.ones(n, device="cuda")
    ours = gpuopt.asarray(x)
    x.data = torch.zeros(1, device="cuda")
    torch.full((n,), 5.0, device="cuda")
    assert gpuopt.reduce(ours).item() == n


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
    with pytest.raises(TypeError, match="y: PRNGKeyArray of JAX is no array of numbers"):
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


def test_numba():
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


# --- kernels of a user's on their arrays, and their streams

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
