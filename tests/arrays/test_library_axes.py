"""Reductions along axes, other families and vectors on arrays of CuPy and PyTorch."""

import numpy as np
import pytest
from gpu_libraries import along

import gpuopt

pytestmark = pytest.mark.timeout(300)


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
