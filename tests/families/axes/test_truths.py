"""Truths, extremes and places of bools along axes: early decisions, and narrow types."""

import numpy as np
import pytest
from conftest import kinds

import gpuopt

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]
OPS = {"any": np.any, "all": np.all, "max": np.max, "min": np.min, "prod": np.prod}


def check(array, op, axis, device="cpu"):
    got, want = gpuopt.reduce(array, op, axis=axis, device=device), OPS[op](array, axis=axis)
    assert got.dtype == want.dtype
    assert np.array_equal(got, want), (op, array.shape, array.dtype, axis)


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("dtype", ["?", "i2", "f4"])
def test_all_of_separate_axes(device, dtype):
    """The last of several passes decides by the first one's truths."""
    for shape in ((300, 2, 20), (20, 2, 300), (257, 3, 257)) if device != "sim" else ((300, 2, 3),):
        array = np.ones(shape, dtype)
        for op in ("all", "any", *("min", "prod") * (dtype == "?")):
            check(array, op, (0, 2), device)
        array[-1, -1, -1] = 0
        check(array, "all", (0, 2), device)


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_slices_that_one_element_decides(device, dtype):
    """Negative zeros are false, and NaN is true, wherever it is."""
    shape = (40, 300, 15) if device == "cpu" else (5, 40, 3)
    whole = np.ones(shape, dtype)
    view = whole[:, 4:-3]
    for common in (0, 1):
        for at in ((0, 0, 0), (2, 17, 1), (-1, -1, -1)):
            view[...] = common
            if dtype[0] in "fc":
                view *= -1
            whole[:, :4] = whole[:, -3:] = 1 - common
            for decides in (False, True):
                if decides:
                    view[at] = 0 if common else np.nan if dtype[0] in "fc" else 1
                for op in ("any", "all", *("max", "min", "prod") * (dtype == "?")):
                    check(view, op, None, device)
                    check(view, op, (0, 1), device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [15, 16, 17, 255, 256, 257, 300, 2047, 2049, 33_000])
def test_rows_that_the_first_elements_do_not_decide(dtype, n, rng):
    """Undecided rows stand alone, side by side, first and last."""
    for rows in (1, 2, 7, 600 if n < 3000 else 9):
        for common in (0, 1):
            array = np.full((rows, n), 1 - common, dtype)
            late = rng.random(rows) < rng.choice([0.1, 0.5, 0.9])
            array[late] = common
            array[late, rng.integers(0, n, rows)[late]] = rng.integers(0, 2, late.sum())
            for op in ("any", "all", *("max", "min", "prod") * (dtype == "?")):
                for view, axis in ((array, 1), (array[:, ::-1], 1), (array.T, 0)):
                    check(view, op, axis)
                check(np.repeat(array, 2, 1)[:, ::2], op, 1)
                check(np.repeat(array, 2, 0)[::2], op, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_truths_of_few_rows_of_many_columns(dtype, rng):
    """Elements of any bits are true unless they are 0, of either sign."""
    for rows in (1, 2, 3, 4, 5, 8, 9, 33):
        for columns in (1, 15, 64, 1000, 9000):
            for few in (1 / rows, 0.5, 1 - 1 / rows):
                array = np.zeros((rows, columns), dtype)
                if dtype[0] in "fc":
                    array *= -1
                chosen = rng.random(array.shape) < few
                some = np.array([1, -1, 2, 128, 2.0**-14]).astype(dtype)
                array[chosen] = rng.choice(some, int(chosen.sum()))
                for op in ("any", "all"):
                    check(array, op, 0)
                    check(array.T, op, 1)


def test_bools_of_other_bytes_are_true():
    """A view may make bools of any bytes."""
    array = np.array([[0, 2, 255, 128], [0, 0, 4, 1]], np.uint8).view(bool)
    for many in (array, np.tile(array, (1, 100)), np.tile(array, (100, 1))):
        for op in ("any", "all"):
            for axis in (0, 1):
                check(many, op, axis)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "i8"])
@pytest.mark.parametrize("columns", [65, 255, 256, 257, 1025, 8200])
def test_slabs_that_are_prefetched(dtype, columns, rng):
    """Slabs of any number of rows, adjacent, with small gaps and with large ones."""
    for rows in (1, 2, 3, 4, 5, 6, 7, 8, 9, 130):
        slabs = (1 << 20) // (rows * columns * np.dtype(dtype).itemsize) + 2
        whole = rng.integers(0, 9, (slabs, rows + 2, columns + 3)).astype(dtype)
        packed = np.ascontiguousarray(whole[:, :rows, :columns])
        for array in (packed, whole[:, 1:-1, 2:-1], whole[:, :rows, :columns], whole[::2, :rows]):
            for op in (np.sum, np.max, np.any):
                got = gpuopt.reduce(array, op.__name__, axis=1, device="cpu")
                assert np.array_equal(got, op(array, axis=1)), (op, array.shape, array.strides)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1"])
@pytest.mark.parametrize("columns", [7, 8, 9, 12, 16, 20, 31, 32])
def test_places_of_narrow_columns_of_bytes(dtype, columns, rng):
    """Columns of many slabs are brought together, contiguous ones and every second one."""
    for slabs, rows in ((2, 15), (9, 63), (91, 15), (60, 64)):
        base = rng.integers(0, 3, (slabs, rows, 2 * columns + 1)).astype(dtype)
        for view in (base[..., :columns].copy(), base[..., 1:-columns], base[::-1, ::-1, 1::2]):
            for op in (np.argmax, np.argmin):
                got = gpuopt.reduce(view, op.__name__, axis=1, device="cpu")
                np.testing.assert_array_equal(got, op(view, axis=1))
