"""Stencils of the dtypes that are computed in another one: results as SciPy's, on every device."""

import numpy as np
import pytest
from conftest import kinds, strided

import gpuopt
from gpuopt.families.stencil_dtypes import CARRIED

ndimage = pytest.importorskip("scipy.ndimage")

MODES = ["constant", "nearest", "reflect", "mirror", "wrap"]
SCIPY = [name for name in CARRIED if name not in ("bool", "float16")]


def draw(rng, name, shape):
    dtype = np.dtype(name)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    return rng.integers(-9 if dtype.kind == "i" else 0, 9, shape).astype(dtype)


def placed(x, device):
    return x if device == "cpu" else gpuopt.asarray(x, device)


def host(x):
    return x if isinstance(x, np.ndarray) else x.get()


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("name", SCIPY)
def test_results_equal_scipy_s(name, device, rng):
    for mode in MODES:
        shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 4)))
        x, axis = draw(rng, name, shape), int(rng.integers(len(shape)))
        for weights in (np.ones(5, int), rng.integers(0, 3, 3), rng.random(3) / 3):
            if name == "uint64" and device != "cpu" and weights.dtype.kind == "f":
                continue  # refused, as below
            got = host(
                gpuopt.stencil1d(
                    placed(x, device), weights=weights, mode=mode, axis=axis, device=device
                )
            )
            want = ndimage.correlate1d(x, weights.astype(float), axis, mode=mode)
            assert got.dtype == want.dtype == np.dtype(name)
            if x.dtype.kind == "c":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            elif weights.dtype.kind == "i":  # a negative sum wraps in unsigned dtypes, too
                np.testing.assert_array_equal(got, want)
            else:  # truncated: sums near an integer may differ by 1
                assert (np.abs(got.astype(float) - want.astype(float)) <= 1).all()


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "float16"])
def test_kernels_convert_narrow_elements(name, rng):
    """In one launch: tiles within a row, rows that share them, columns; windows on any side."""
    rows = (((4500,), 7), ((70, 45), 6), ((300, 3), 3), ((2, 2000), 40))
    columns = (((70, 9, 2), 5), ((2, 9, 70), 4), ((1, 100, 3), 5))
    for shape, size in (*rows, *columns):
        x = draw(rng, name, shape)
        array = gpuopt.asarray(x, "sim")
        for mode in MODES:
            for origin in (0, size // 2 - 1):
                taps = (rng.integers(-2, 3, size), rng.random(size), None)[MODES.index(mode) % 3]
                window = {"radius": (size // 2, (size - 1) // 2)}
                how = window if taps is None else {"weights": taps}
                how |= {"mode": mode, "origin": origin, "cval": 3, "axis": min(1, x.ndim - 1)}
                got = gpuopt.profile(gpuopt.stencil1d, array, **how)
                assert [each.kernel[:11] for each in got.launches] == ["stencil1d_5"]
                want = gpuopt.stencil1d(x, device="cpu", **how)
                np.testing.assert_array_equal(got.result.get(), want)
    got = gpuopt.stencil1d(array, 2, cval=0.25).get()  # no integer: by passes
    np.testing.assert_array_equal(got, gpuopt.stencil1d(x, 2, cval=0.25, device="cpu"))


@pytest.mark.parametrize("device", kinds())
def test_bools_any_and_halves_are_rounded_once(device, rng):
    x = draw(rng, "bool", (7, 40))
    got = host(gpuopt.stencil1d(placed(x, device), 2, device=device))
    assert got.dtype == bool
    np.testing.assert_array_equal(got, ndimage.maximum_filter1d(x, 5, mode="constant"))
    half = rng.standard_normal((3, 50)).astype(np.float16)
    got = host(gpuopt.stencil1d(placed(half, device), 2, device=device))
    want = gpuopt.stencil1d(half.astype(np.float64), 2, device="cpu")
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, want, rtol=2**-11 + 2**-20, atol=1e-7)


@pytest.mark.parametrize("device", kinds()[1:])
def test_strided_arrays_along_any_axis(device, rng):
    """Read in place, copied or converted by a pass, or with the axis moved to the end."""
    for case in range(60):
        name = ("float32", "int8", "float64", "uint32", "float16", "int32")[case % 6]
        shape = tuple(rng.integers(2, 20, rng.integers(1, 4)))
        order, step = rng.permutation(len(shape)), (1, 2)[case // 6 % 2]
        whole = rng.integers(0, 3, [step * shape[k] for k in order]).astype(name)
        x = whole.transpose(np.argsort(order))[(slice(None, None, step),) * len(shape)]
        axis, radius = int(rng.integers(len(shape))), int(rng.integers(0, 5))
        call = {"radius": radius, "axis": axis, "mode": ("wrap", "nearest", "constant")[case % 3]}
        there, holder = strided(x, device)
        got, want = gpuopt.stencil1d(there, **call), gpuopt.stencil1d(x, device="cpu", **call)
        np.testing.assert_array_equal(got.get(), want, str((name, x.strides, call)))
        del holder


def test_unsigned_integers_wrap_and_keep_all_bits():
    for name in ("uint8", "uint16", "uint32", "uint64"):
        most = np.iinfo(name).max
        x = np.array([most, 1, most, most - 1], name)
        got = gpuopt.stencil1d(x, 1, cval=int(most), device="cpu")
        want = [int(most) + int(most) + 1, 2 * int(most) + 1, 2 * int(most), 3 * int(most) - 1]
        assert got.dtype == name and got.tolist() == [each % (int(most) + 1) for each in want]
    halves = gpuopt.stencil1d(np.full(9, 2**32 - 2, np.uint32), weights=[0.5], device="cpu")
    assert (halves == 2**31 - 1).all()


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_out_receives_the_results(device, rng):
    for name in CARRIED:
        x = draw(rng, name, (4, 30))
        out = np.empty_like(x) if device == "cpu" else gpuopt.empty(x.shape, name, device)
        assert gpuopt.stencil1d(placed(x, device), 3, out=out, axis=0) is out
        np.testing.assert_array_equal(host(out), gpuopt.stencil1d(x, 3, axis=0, device="cpu"))


def test_complex_cval_and_byte_order():
    x = np.array([1 + 2j, 3 - 1j], ">c8")
    got = gpuopt.stencil1d(x, 1, cval=1 - 1j, device="cpu")
    assert got.dtype == np.complex64
    np.testing.assert_array_equal(
        got, ndimage.correlate1d(x, [1, 1, 1], mode="constant", cval=1 - 1j)
    )


def test_engines_accept_these_dtypes(rng, tmp_path):
    two = ["sim", "sim"]
    for name in ("uint8", "uint32", "complex64", "float16"):
        x = draw(rng, name, (40, 9))
        want = gpuopt.stencil1d(x, 2, axis=0, mode="mirror", device="cpu")
        got = gpuopt.stencil1d(x, 2, axis=0, mode="mirror", device=two)
        np.testing.assert_array_equal(got, want)
        halves = [gpuopt.asarray(x[:15], "sim"), gpuopt.asarray(x[15:], "sim")]
        got = gpuopt.stencil1d(halves, 2, axis=0, mode="mirror")
        np.testing.assert_array_equal(np.concatenate([each.get() for each in got]), want)
        got = gpuopt.stencil1d(x, 2, axis=0, mode="mirror", memory_limit="1MiB", device="cpu")
        np.testing.assert_array_equal(got, want)


def test_refused_dtypes_and_arguments():
    with pytest.raises(
        TypeError, match=r"a: dtype object is not supported; use int32, .*, complex"
    ):
        gpuopt.stencil1d(np.ones(3, object), device="cpu")
    with pytest.raises(TypeError, match="cval: must be a real number"):
        gpuopt.stencil1d(np.ones(3, np.uint8), cval=1j, device="cpu")
    with pytest.raises(ValueError, match="cval: must be finite"):
        gpuopt.stencil1d(np.ones(3, np.uint8), cval=np.nan, device="cpu")
    with pytest.raises(TypeError, match="uint64 on a device"):
        gpuopt.stencil1d(gpuopt.asarray(np.ones(3, np.uint64), "sim"), weights=[0.5])
    with pytest.raises(ValueError, match="cval: must be 0 for complex arrays on a device"):
        gpuopt.stencil1d(gpuopt.asarray(np.ones(3, complex), "sim"), 1, cval=1)
    with pytest.raises(ValueError, match="radius"):
        gpuopt.stencil1d(np.ones(3, np.uint8), -1, device="cpu")
