"""The fast path of plain host arrays: the same results as the general path, or None."""

import numpy as np
import pytest

import gpuopt
from gpuopt.arrays import inout


class Other(np.ndarray):
    """A subclass of numpy.ndarray, which takes the general path."""


CALLS = {
    "add": (lambda x, **how: gpuopt.add(x, x, **how), (7, 9)),
    "saxpy": (lambda x, **how: gpuopt.saxpy(2.5, x, x, **how), (7, 9)),
    "matmul": (lambda x, **how: gpuopt.matmul(x, x, **how), (9, 9)),
    "transpose": (lambda x, **how: gpuopt.transpose(x, (2, 0, 1), **how), (3, 4, 5)),
    "stencil1d": (lambda x, **how: gpuopt.stencil1d(x, 2, mode="wrap", **how), (4, 30)),
    "sum": (lambda x, **how: gpuopt.reduce(x, axis=1, **how), (4, 30, 3)),
    "two axes": (lambda x, **how: gpuopt.reduce(x, axis=(0, 2), **how), (4, 30, 3)),
    "argmax": (lambda x, **how: gpuopt.reduce(x, "argmax", axis=0, **how), (4, 30, 3)),
    "mean": (lambda x, **how: gpuopt.reduce(x, "mean", axis=2, keepdims=True, **how), (4, 30, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_fast_path_gives_the_same_bits(name, rng, monkeypatch):
    call, shape = CALLS[name]
    for dtype in (np.float32, np.float64):
        x = rng.standard_normal(shape).astype(dtype)
        want = np.asarray(call(x.view(Other), device="cpu"))
        x.flags.writeable = False
        out = np.full_like(want, 3)
        with monkeypatch.context() as patch:
            patch.setattr(inout, "array_in", lambda *a: pytest.fail("the general way"))
            got = call(x, device="cpu")
            assert call(x, out=out, device="cpu") is out
        for each in (got, out):
            assert each.dtype == want.dtype and each.shape == want.shape
            assert each.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", CALLS)
def test_other_arrays_take_the_general_path(name, rng):
    """Byte-swapped, strided, misaligned and overlapping arrays give the result of a copy.

    The elements are whole numbers: their sums do not depend on the order.
    """
    call, shape = CALLS[name]
    x = rng.integers(-999, 1000, shape).astype(np.float64)
    want = call(x, device="cpu")
    n = x.size
    swapped = x.astype(">f8")
    gaps = np.repeat(x, 2, -1)[..., ::2]
    odd = np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(shape)
    for each in (swapped, gaps, odd, np.asfortranarray(x), x[::-1][::-1]):
        np.testing.assert_array_equal(call(each, device="cpu"), want)
    room = np.empty(2 * n)
    room[:n] = x.ravel()
    if want.dtype == np.float64:  # it overlaps the input
        out = room[1 : 1 + want.size].reshape(want.shape)
        np.testing.assert_array_equal(call(room[:n].reshape(shape), out=out, device="cpu"), want)
    wrong = np.empty((*want.shape, 2), want.dtype)
    with pytest.raises(ValueError, match=r"^out: has shape"):
        call(x, out=wrong, device="cpu")
    fixed = np.empty_like(want)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"^out: output array is read-only"):
        call(x, out=fixed, device="cpu")
