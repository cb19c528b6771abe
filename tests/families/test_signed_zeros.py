"""Signs of zeros: extremes, `initial` and products, the same on every device."""

import itertools

import numpy as np
import pytest
from conftest import kinds

import gpuopt

DEVICES = kinds()
FLOATS = ("float16", "float32", "float64")


def ieee_extreme(x, op, axis):
    """Return IEEE 754-2019's maximum or minimum of numbers without NaN: -0 is less than +0."""
    y = x if op == "max" else -x
    most = np.max(y, axis=axis)
    positive = ((y == 0) & ~np.signbit(y)).any(axis=axis)
    found = np.where(most == 0, np.where(positive, 0.0, -0.0).astype(x.dtype), most)
    return found if op == "max" else -found


def assert_same_numbers(got, want):
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got) & numbers, np.signbit(want) & numbers)


SHAPES = [((n,), None) for n in (1, 2, 17, 64, 65, 500, 5000)] + [((n,), 0) for n in (2, 33, 500)]
SHAPES += [((5, n), 1) for n in (2, 17, 33, 70, 300)] + [((n, 20), 0) for n in (2, 5, 40)]
SHAPES += [((3, 9, 5), 1), ((3, 9, 5), (0, 2)), ((2, 3, 4, 5), (1, 3))]
LARGE = [((50_000,), None), ((3, 40_000), 1)]


@pytest.mark.parametrize("device", [*DEVICES, "sim:t4"])
@pytest.mark.parametrize("dtype", [*FLOATS, "bfloat16"])
def test_zeros_of_extremes_have_ieee_754s_sign(device, dtype, rng):
    """NumPy's depends on its vectors' width; ours is the same on every device, in any layout."""
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    shapes = SHAPES + LARGE * (device == "cpu")
    for (shape, axis), op, zero in itertools.product(shapes, ("max", "min"), (0.0, -0.0)):
        for share, others in ((0, 0), (1, 0), (0.5, 0), (0.5, 0.5)):
            x = np.full(shape, zero, dtype)
            if share == 1:
                x.reshape(-1)[rng.integers(x.size)] = -zero
            else:
                x[rng.random(shape) < share] = -zero
            x[rng.random(shape) < others] = -2 if op == "max" else 2
            want = ieee_extreme(x, op, axis)
            for each in (x, np.repeat(x, 2, axis=-1)[..., ::2]):
                assert_same_numbers(gpuopt.reduce(each, op, axis=axis, device=device), want)
            backwards = ieee_extreme(x[::-1], op, axis)
            assert_same_numbers(gpuopt.reduce(x[::-1], op, axis=axis, device=device), backwards)
            if device != "cpu" and dtype in FLOATS:
                there = gpuopt.asarray(x, device)
                assert_same_numbers(gpuopt.reduce(there, op, axis=axis).get(), want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rung", [1, 3, 6, 8, 11, 13])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_every_rung_agree(device, rung, dtype, rng):
    if device == "cpu":
        rung = ("serial", "openmp", "simd")[rung % 3]
    for op, n in itertools.product(("max", "min"), (2, 33, 1000)):
        x = np.where(rng.random(n) < 0.5, 0.0, -0.0).astype(dtype)
        for row in (x, np.r_[x, 1, -1].astype(dtype)):
            got = gpuopt.reduce(row, op, variant=rung, device=device)
            assert_same_numbers(got, ieee_extreme(row, op, None))
        for at in (0, n // 2, n):
            row = np.insert(x, at, np.nan)
            assert np.isnan(gpuopt.reduce(row, op, variant=rung, device=device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["max", "min"])
def test_initial_zero_of_extremes_counts_as_an_element(device, dtype, op):
    for row in ([0.0], [-0.0], [-0.0, 0.0], [-1.0], [1.0, 2.0]):
        for initial in (0.0, -0.0, 0, np.float32(-0.0)):
            for shape, axis in (((-1,), None), ((-1,), 0), ((-1, 1), 0)):
                x = np.array(row, dtype).reshape(shape)
                first = np.full_like(x[:1], initial)
                want = ieee_extreme(np.concatenate([first, x]), op, axis)
                got = gpuopt.reduce(x, op, axis=axis, initial=initial, device=device)
                assert_same_numbers(got, want)


@pytest.mark.parametrize("device", DEVICES)
def test_initial_of_a_product_is_rounded_like_the_elements(device):
    """1e300 is infinite as a float32; elements are rounded to `dtype` first."""
    places = [lambda x: x] + [lambda x: gpuopt.asarray(x, device)] * (device != "cpu")
    for dtype, place in itertools.product(FLOATS, places):
        for shape, axis in (((3,), None), ((3,), 0), ((3, 2), 0), ((0,), None), ((0, 3), 0)):
            for initial in (1e300, np.float64(-1e300), -0.0):
                x = np.zeros(shape, dtype)
                with np.errstate(all="ignore"):
                    want = np.multiply.reduce(x, axis, initial=initial)
                got = gpuopt.reduce(place(x), "prod", axis=axis, initial=initial, device=device)
                assert_same_numbers(got.get() if hasattr(got, "get") else got, want)
    x = np.array([[5e-324, -np.inf], [1e200, 0.0], [1e-200, 1e300]])
    with np.errstate(all="ignore"):
        want = np.multiply.reduce(x, 1, dtype="f4", initial=2)
    got = gpuopt.reduce(x, "prod", axis=1, dtype="f4", initial=2, device=device)
    assert_same_numbers(got, want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*FLOATS, "bfloat16"])
def test_zeros_of_products_keep_their_sign_in_any_dtype(device, dtype, rng):
    """Elements that are converted first keep it, too."""
    small = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    places = [lambda x: x] + [lambda x: gpuopt.asarray(x, device)] * (device != "cpu")
    for shape, axis in [((9,), None), ((70, 2), 0), ((70, 2), 1), ((3, 5, 67), (0, 2))]:
        x = rng.choice([-0.0, -1.0, 1.0], shape, p=(0.1, 0.4, 0.5)).astype(small)
        for wanted, place in itertools.product((*FLOATS, None), places):
            got = gpuopt.reduce(place(x), "prod", axis=axis, dtype=wanted, device=device)
            got = got.get() if hasattr(got, "get") else got
            assert_same_numbers(np.asarray(got, "f8"), np.multiply.reduce(x.astype("f8"), axis))


@pytest.mark.parametrize("device", DEVICES)
def test_initial_of_nothing_is_the_result(device):
    for dtype, initial in (("?", -0.0), ("f4", -0.0), ("i4", 5), ("f8", np.float32(2.5))):
        x = np.zeros((0, 3), dtype)
        options = {"dtype": "f4"} if dtype == "?" else {}
        for axis in (None, 0):
            want = np.add.reduce(x, axis, initial=initial, **options)
            got = gpuopt.reduce(x, axis=axis, initial=initial, device=device, **options)
            assert_same_numbers(got, want)
            if device != "cpu" and dtype != "?":
                out = np.full_like(np.asarray(want), 9)
                gpuopt.reduce(gpuopt.asarray(x, device), axis=axis, initial=initial, out=out)
                assert_same_numbers(out, want)
    for wrong, error in (((2,), ValueError), (-2, OverflowError), (np.ma.masked, TypeError)):
        with pytest.raises(error, match=r"^initial: "):  # although there is no result
            gpuopt.reduce(np.zeros((0, 3), "u8"), axis=1, initial=wrong, device=device)
