"""Arguments of reductions along axes: dtype, out, initial, axes of any number, and bad ones."""

import itertools

import numpy as np
import pytest
from conftest import UFUNCS, kinds
from test_reduce_axis import OTHERS, check, items_of, of_numpy

import gpuopt
from gpuopt.families import reduce_axis


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("axis", [None, 0])
def test_initial_is_combined_before_the_result_is_rounded(device, axis):
    cases = [
        ("float32", [1e30, 1e30], "prod", 1e-30, 1e30),
        ("float32", [1e30] * 3, "prod", 0, 0),
        ("float32", [3e38, 3e38], "sum", -3e38, 3e38),
        ("float16", [60000, 60000], "sum", -60000, 60000),
        ("complex64", [3e38j, 3e38j], "sum", -3e38j, 3e38j),
        ("float32", [1.5], "sum", 1e39, np.inf),  # as NumPy rounds it
    ]
    for dtype, items, op, initial, want in cases:
        with np.errstate(over="ignore"):
            array, want = np.array(items, dtype), np.array(want, dtype)
            got = gpuopt.reduce(array, op, axis=axis, initial=initial, device=device)
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=f"{op} of {items}")
        assert got.dtype == want.dtype


def test_the_axis_of_a_single_item():
    item = np.float32(3)
    for op in (*UFUNCS, *OTHERS):
        if op in ("and", "or", "xor"):
            continue
        for axis in (0, -1, 1, (0,), ()):
            try:
                want = of_numpy(np.array(item), op, axis=axis)
            except (TypeError, ValueError) as error:  # AxisError is one; NumPy's mean takes no 0
                with pytest.raises(type(error)):
                    gpuopt.reduce(item, op, axis=axis, device="cpu")
            else:
                got = gpuopt.reduce(item, op, axis=axis, device="cpu")
                assert got == want and got.shape == want.shape, (op, axis)


def test_mean_is_cast_to_out_as_numpys(rng):
    array = rng.random((5, 4), np.float32) * 99
    for dtype in ("int32", "int8", "float16", "float32", "float64"):
        for items in (array, array.astype("int32")):
            got, want = np.zeros(4, dtype), np.zeros(4, dtype)
            assert gpuopt.reduce(items, "mean", axis=0, out=got, device="cpu") is got
            want[...] = items.mean(axis=0, dtype=np.float64)
            np.testing.assert_array_equal(got, want)
    with pytest.raises(TypeError, match=r"^out: cannot cast"):
        out = np.zeros(4, np.int32)
        gpuopt.reduce(array, "mean", axis=0, dtype="float32", out=out, device="cpu")


def test_dtype_out_and_initial(rng):
    array = items_of(rng, "int8", (6, 7))
    for dtype in ("int16", "float32", "uint8", "complex64", "bool", "int64"):
        for op in ("sum", "prod", "max")[: 2 + (dtype != "complex64")]:
            want = UFUNCS[op].reduce(array, axis=1, dtype=dtype)
            got = gpuopt.reduce(array, op, axis=1, dtype=dtype, device="cpu")
            np.testing.assert_allclose(got, want, rtol=1e-5)
            assert got.dtype == want.dtype
    out = np.zeros((2, 7)[::-1])[:, ::-1][:, 0]
    assert gpuopt.reduce(array, axis=0, out=out, device="cpu") is out
    assert (out == array.sum(axis=0)).all()
    got = gpuopt.reduce(array, "max", axis=0, initial=100, device="cpu")
    assert (got == array.max(axis=0, initial=100)).all() and got.dtype == np.int8
    floats = rng.random((3, 4), np.float32)
    np.testing.assert_allclose(
        gpuopt.reduce(floats, "mean", axis=1, dtype="float64", device="cpu"),
        floats.mean(axis=1, dtype="float64"),
    )
    assert gpuopt.reduce(np.arange(8), "mean", device="cpu") == 3.5
    with pytest.raises(ValueError, match=r"^out: has shape"):
        gpuopt.reduce(array, axis=0, out=np.zeros(6), device="cpu")
    with pytest.raises(TypeError, match=r"^out: cannot cast"):
        gpuopt.reduce(floats, axis=0, out=np.zeros(4, int), dtype=float, device="cpu")


@pytest.mark.parametrize("first", ["l", "q"])
def test_equal_dtypes_of_different_names(first):
    """The result's dtype is NumPy's among equal C types, whatever an earlier call returned."""
    for code in (first, "l", "q"):
        array = np.arange(12, dtype=code).reshape(3, 4)
        for keepdims in (False, True):
            for axis in (0, (0, 1)):
                got = gpuopt.reduce(array, "max", axis=axis, keepdims=keepdims, device="cpu")
                assert np.asarray(got).dtype.char == np.dtype(np.int64).char


def test_empty_axes_and_empty_arrays():
    array = np.arange(6.0).reshape(2, 3)
    check(array, "sum", "cpu", axis=())
    check(array, "count", "cpu", axis=())
    for shape in ((0, 3), (3, 0), (0, 0), (2, 0, 4)):
        for dtype, op in itertools.product(("int8", "float32"), (*UFUNCS, "any", "all", "count")):
            if dtype == "float32" and op in ("and", "or", "xor"):
                continue
            for axis in range(len(shape)):
                empty = np.empty(shape, dtype)
                try:
                    want = of_numpy(empty, op, axis=axis)
                except ValueError as error:
                    with pytest.raises(ValueError, match=str(error)[:40]):
                        gpuopt.reduce(empty, op, axis=axis, device="cpu")
                else:
                    got = gpuopt.reduce(empty, op, axis=axis, device="cpu")
                    np.testing.assert_array_equal(got, want)
                    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.isnan(gpuopt.reduce(np.empty((2, 0)), "mean", axis=1, device="cpu")).all()
    with pytest.raises(ValueError, match="initial"):
        gpuopt.reduce(np.empty((2, 0)), axis=1, initial=None, device="cpu")
    with pytest.raises(ValueError, match="attempt to get argmin of an empty sequence"):
        gpuopt.reduce(np.empty((2, 0)), "argmin", axis=1, device="cpu")


@pytest.mark.parametrize(
    "error, text, arguments",
    [
        (reduce_axis.AxisError, "axis 2 is out of bounds", {"axis": 2}),
        (reduce_axis.AxisError, "axis -3 is out of bounds", {"axis": (0, -3)}),
        (ValueError, "axis: duplicate", {"axis": (0, -2)}),
        (TypeError, "axis: must be", {"axis": 1.5}),
        (TypeError, "axis: op='argmin' takes one", {"op": "argmin", "axis": (0, 1)}),
        (ValueError, "op: 'median'", {"op": "median", "axis": 0}),
        (ValueError, "dtype: op='any'", {"op": "any", "dtype": int}),
        (ValueError, "initial: op='mean'", {"op": "mean", "initial": 3}),
        (ValueError, "7 is not a rung of a reduction along", {"axis": 0, "variant": 7}),
        (ValueError, "block:", {"axis": 0, "device": "sim", "block": 64}),
        (ValueError, "device:", {"axis": 0, "device": "tpu"}),
        (TypeError, "dtype: object", {"axis": 0, "dtype": object}),
        (TypeError, "array: op='or' does not support dtype float64", {"axis": 0, "op": "or"}),
    ],
)
def test_bad_arguments(error, text, arguments):
    with pytest.raises(error) as caught:
        gpuopt.reduce(np.ones((2, 3)), **arguments)
    assert text in str(caught.value)
