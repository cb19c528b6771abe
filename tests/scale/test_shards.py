"""Lists of arrays, one per device: concatenated, they are the result for the whole array."""

from itertools import pairwise

import numpy as np
import pytest
from conftest import kinds, several

import gpuopt

DEVICES = kinds()[1:]  # without the cpu
CUTS = [(0, 23), (0, 12, 23), (0, 9, 10, 23), (0, 1, 1, 2, 5, 8, 13, 22, 23)]
OPS = ["sum", "prod", "min", "max", "mean", "any", "all", "count", "argmin", "argmax"]
MODES = ["constant", "nearest", "reflect", "mirror", "wrap", "valid"]


def cut(x, bounds, device):
    names = several(device, len(bounds) - 1)
    return [
        gpuopt.asarray(x[a:b], name) for (a, b), name in zip(pairwise(bounds), names, strict=True)
    ]


def whole(found, count):
    assert isinstance(found, list) and len(found) == count
    return np.concatenate([each.get() for each in found])


def alike(got, wanted, rtol=1e-6):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    if wanted.dtype.kind in "fc":
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-30)
    else:
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("bounds", CUTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", OPS)
def test_reductions(op, device, bounds, rng):
    x = np.round(rng.standard_normal((23, 7, 3)), 1).astype(np.float32)
    x[17, 2, 1] = np.nan
    count, array = len(bounds) - 1, cut(x, bounds, device)
    axes = [None, 0, 1, -1] + ([] if op.startswith("arg") else [(0, 1), (0, 1, 2)])
    for axis in axes:
        for keepdims in (False, True):
            got = gpuopt.reduce(array, op, axis=axis, keepdims=keepdims)
            wanted = gpuopt.reduce(x, op, axis=axis, keepdims=keepdims, device="cpu")
            alike(whole(got, count) if np.ndim(wanted) and isinstance(got, list) else got, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex64"])
def test_reductions_of_other_dtypes(dtype, device, rng):
    x = rng.integers(0, 5, (23, 6)).astype(dtype)
    array = cut(x, (0, 9, 10, 23), device)
    for op in ("sum", "mean", "prod")[: 2 if dtype == "complex64" else 3]:  # no complex products
        got = whole(gpuopt.reduce(array, op, axis=0), 3)
        alike(got, gpuopt.reduce(x, op, axis=0, device="cpu"))
    wider = {"complex64": "complex64", "float16": "float32"}.get(dtype, "float64")
    got = whole(gpuopt.reduce(array, axis=0, initial=3, dtype=wider), 3)
    alike(got, x.sum(0, initial=3, dtype=wider))


@pytest.mark.parametrize("device", DEVICES)
def test_float32_sums_along_the_first_axis_are_rounded_once(device, rng):
    x = (rng.standard_normal((64, 500)) * 10.0 ** rng.integers(-4, 5, (64, 500))).astype("f4")
    got = whole(gpuopt.reduce(cut(x, (0, 13, 40, 64), device), axis=0), 3)
    exact = x.sum(0, dtype=np.longdouble)
    assert (np.abs(got - exact) <= np.spacing(np.abs(exact).astype("f4"))).all()


@pytest.mark.parametrize("bounds", CUTS)
@pytest.mark.parametrize("device", DEVICES)
def test_transposes(device, bounds, rng):
    x = rng.integers(0, 255, (23, 5, 4)).astype(np.uint8)
    array = cut(x, bounds, device)
    for axes in (None, (0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0)):
        got = whole(gpuopt.transpose(array, axes), len(array))
        np.testing.assert_array_equal(got, x.transpose(axes))
    flat = cut(x[:, 0, 0], bounds, device)
    np.testing.assert_array_equal(whole(gpuopt.transpose(flat), len(flat)), x[:, 0, 0])


@pytest.mark.parametrize("bounds", CUTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
def test_stencils(mode, device, bounds, rng):
    x = rng.integers(-50, 50, (23, 4)).astype(np.int32)
    for array in (x, x[:, 0]):
        for radius in (0, 1, 3, 11, 30):
            for axis in range(array.ndim):
                how = {"mode": mode, "axis": axis, "cval": 7}
                got = gpuopt.stencil1d(cut(array, bounds, device), radius, **how)
                wanted = gpuopt.stencil1d(array, radius, device="cpu", **how)
                np.testing.assert_array_equal(whole(got, len(got)), wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_stencils_of_long_slices(device, rng):
    x, weights = rng.standard_normal(3001).astype(np.float32), rng.standard_normal(9)
    for mode in MODES:
        got = gpuopt.stencil1d(cut(x, (0, 1000, 1001, 3001), device), weights=weights, mode=mode)
        wanted = gpuopt.stencil1d(x, weights=weights, mode=mode, device="cpu")
        np.testing.assert_allclose(whole(got, 3), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bounds", CUTS)
@pytest.mark.parametrize("device", DEVICES)
def test_vectors_and_products(device, bounds, rng):
    x, y = rng.standard_normal((2, 23, 6)).astype(np.float32)
    a, b, n = cut(x, bounds, device), cut(y, bounds, device), len(bounds) - 1
    alike(whole(gpuopt.add(a, b), n), x + y)
    alike(whole(gpuopt.add(2, a), n), x + 2)
    alike(whole(gpuopt.saxpy(2, a, b), n), 2 * x + y, 1e-5)
    z = rng.standard_normal((6, 23)).astype(np.float32)
    rows = [0, *(min(k, 6) for k in bounds[1:-1]), 6]
    tall = cut(z, rows, device)
    for got, wanted in (
        (gpuopt.matmul(tall, a), z @ x),
        (gpuopt.matmul(a, tall), x @ z),
        (gpuopt.matmul(a, z), x @ z),
        (gpuopt.matmul(a, z[:, 0].copy()), x @ z[:, 0]),
        (gpuopt.matmul(tall, cut(x[:, 0], bounds, device)), z @ x[:, 0]),
    ):
        np.testing.assert_allclose(whole(got, n), wanted, rtol=1e-4, atol=1e-4)
    stacks = [cut(np.stack([each] * 3, 1), bounds, device) for each in (x, y)]
    turned = gpuopt.transpose(stacks[1], (0, 2, 1))
    got = whole(gpuopt.matmul(stacks[0], turned), n)
    np.testing.assert_allclose(got[:, 1, 2], (x * y).sum(1), rtol=1e-4, atol=1e-4)


def test_simulated_gpus_of_different_kinds(rng):
    x = rng.standard_normal((9, 40)).astype(np.float32)
    array = [gpuopt.asarray(x[:4], "sim:t4"), gpuopt.asarray(x[4:], "sim:h200")]
    turned = gpuopt.transpose(array, device=["sim:t4", "sim:h200"])
    assert [each.device for each in turned] == ["sim:t4", "sim:h200"]
    np.testing.assert_array_equal(whole(turned, 2), x.T)
    got = whole(gpuopt.stencil1d(array, 2, axis=0, mode="wrap"), 2)
    wanted = gpuopt.stencil1d(x, 2, axis=0, mode="wrap", device="cpu")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_wrong_lists():
    x = np.ones((4, 3), np.float32)
    there = gpuopt.asarray(x, "sim")
    for call, kind, text in (
        (lambda: gpuopt.transpose([there, x]), TypeError, r"a\[1\]: is on the host"),
        (
            lambda: gpuopt.add([there], [gpuopt.asarray(x[:2], "sim")] * 2),
            ValueError,
            "y: has slices of .* cut both alike",
        ),
        (lambda: gpuopt.add([there], x), TypeError, "y: must be a list of arrays"),
        (
            lambda: gpuopt.stencil1d([there, gpuopt.asarray(x[:, :2], "sim")]),
            ValueError,
            r"a\[1\]: has shape \(4, 2\)",
        ),
        (lambda: gpuopt.stencil1d([there, there], origin=1), ValueError, "on lists of arrays"),
        (
            lambda: gpuopt.reduce([there, gpuopt.asarray(x[0, 0], "sim")]),
            ValueError,
            r"array\[1\]: has no axis",
        ),
        (lambda: gpuopt.matmul([there], [there]), ValueError, "b's rows must equal a's columns"),
        (lambda: gpuopt.matmul(x, [there]), TypeError, "a: must be a list"),
        (lambda: gpuopt.matmul([there], there), TypeError, "b: is on one device"),
        (lambda: gpuopt.transpose([there], out=there), ValueError, "out: is not for lists"),
        (
            lambda: gpuopt.transpose([there], device=["sim:g80"]),
            ValueError,
            "which `device` does not name",
        ),
        (
            lambda: gpuopt.reduce([there], device="cpu"),
            ValueError,
            "which `device` does not name",
        ),
    ):
        with pytest.raises(kind, match=text):
            call()
