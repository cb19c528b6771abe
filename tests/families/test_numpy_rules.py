"""NumPy's rules of reductions and of the other functions: each class of cases on every device."""

import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import kinds

import gpuopt
from gpuopt import _core

DEVICES = kinds()
FLOATS = ("float16", "float32", "float64")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_initial_of_a_product_is_its_starting_value(device, axis):
    """A product that overflows or underflows on the way is NumPy's, in order."""
    for items, initial in (
        ([[1e200, 1e200], [1e200, 1.0]], 1e-300),
        ([[1e-200, 1e-200], [1.0, 2.0]], 1e300),
        ([[3.0, 4.0], [5.0, 6.0]], 2),
        ([[0.0, np.inf], [1.0, 1.0]], 2.0),
    ):
        x = np.array(items)
        with np.errstate(all="ignore"):
            want = np.multiply.reduce(x, axis, initial=initial)
        got = gpuopt.reduce(x, "prod", axis=axis, initial=initial, device=device)
        np.testing.assert_allclose(got, want, rtol=1e-14)
        out = np.empty_like(np.asarray(want))
        gpuopt.reduce(x, "prod", axis=axis, initial=initial, device=device, out=out)
        np.testing.assert_allclose(out, want, rtol=1e-14)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sign_of_a_zero_sum_is_numpys(device, dtype):
    zeros = np.array([[-0.0, -0.0], [0.0, -0.0], [1.0, -1.0]], dtype)
    for initial in (None, -0.0, 0.0, 0):
        for axis in (0, 1, None):
            for x in (zeros, zeros[:1]):
                want = np.add.reduce(x, axis, initial=initial)
                got = gpuopt.reduce(x, axis=axis, initial=initial, device=device)
                np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_initial_of_arrays_on_a_device(device, dtype):
    if device == "cpu":
        pytest.skip("its arrays are NumPy's")
    there = lambda x: gpuopt.asarray(x, device)  # noqa: E731
    zeros = np.array([[-0.0, -0.0], [0.0, -0.0], [1.0, -1.0], [-2.0, -0.0]], dtype)
    for initial in (None, -0.0, 0.0):
        for axis in (0, 1, None):
            for x in (zeros, zeros[:1]):
                want = np.add.reduce(x, axis, initial=initial)
                got = gpuopt.reduce(there(x), axis=axis, initial=initial).get()
                np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
                np.testing.assert_array_equal(got, want)
    big = np.array([[4.0, 5.0, 0.5], [2.0, 3.0, 8.0]], dtype)
    for axis in (0, 1, None, (0, 1)):
        got = gpuopt.reduce(there(big), "prod", axis=axis, initial=0.25).get()
        np.testing.assert_allclose(got, np.multiply.reduce(big, axis, initial=0.25), rtol=1e-3)
    for x, initial in (([1e200, 1e200], 1e-300), ([1e-200, 1e-200], 1e300)):
        got = gpuopt.reduce(there(np.array(x)), "prod", initial=initial).get()
        np.testing.assert_allclose(got, np.prod(x, initial=initial), rtol=1e-14)
    halves = np.full((4, 3000), 2.0**-11, dtype)
    halves[:, ::8] = 60000
    for op in ("sum", "mean"):
        got = gpuopt.reduce(there(halves), op, axis=1, dtype="float64").get()
        want = getattr(np, op)(halves, axis=1, dtype="f8")
        np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("device", DEVICES)
def test_dtype_is_the_type_to_compute_in(device, rng):
    assert gpuopt.reduce([1.7, 2.9], "mean", dtype="i8", device=device) == 1
    x = np.array([100, 100], np.int8)
    want = np.mean(x, dtype="i1")
    assert gpuopt.reduce(x, "mean", dtype="i1", device=device) == want
    rows = np.array([[1.7, 2.9], [-1.5, -1.9]])
    np.testing.assert_array_equal(
        gpuopt.reduce(rows, "mean", axis=1, dtype="i4", device=device), rows.mean(1, dtype="i4")
    )
    # Sums of float16 in float32 would lose the small ones.
    halves = np.full((4, 3000), 2.0**-11, np.float16)
    halves[:, ::8] = 60000
    for op, want in (("sum", halves.sum(1, dtype="f8")), ("mean", halves.mean(1, dtype="f8"))):
        got = gpuopt.reduce(halves, op, axis=1, dtype="float64", device=device)
        np.testing.assert_allclose(got, want, rtol=1e-15)
    with np.errstate(all="ignore"):
        want = np.mean(np.array([1e300, -1e300]), dtype="f4")
    got = gpuopt.reduce(np.array([1e300, -1e300]), "mean", dtype="f4", device=device)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("device", DEVICES)
def test_no_call_issues_a_warning(device):
    big, one = np.array([3e38, 3e38], "f4"), np.array([1e300])
    swapped = big.astype(">f4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(gpuopt.reduce(big, device=device))
        assert np.isinf(gpuopt.add(big, big, device=device)).all()
        assert np.isinf(gpuopt.add(swapped, big, device=device)).all()
        assert np.isinf(gpuopt.saxpy(2.0, swapped, big, device=device)).all()
        assert np.isinf(gpuopt.reduce(one, out=np.empty((), "f4"), device=device))
        assert np.isinf(gpuopt.reduce(one, axis=0, out=np.empty((), "f4"), device=device))
        assert np.isinf(gpuopt.reduce(big, initial=3e38, device=device))
        assert np.isinf(gpuopt.reduce(one, axis=0, dtype="f2", device=device))
        assert np.isnan(gpuopt.reduce(one[:0], "mean", device=device))
        assert np.isinf(gpuopt.matmul(big, big, device=device))
        gpuopt.reduce(np.array([np.nan]), axis=0, out=np.empty((), "i4"), device=device)
        assert np.isinf(gpuopt.stencil1d(big, 1, device=device)).all()
        small, narrow = np.ones(3, "f4"), np.zeros((3, 2), "f2")
        for initial in (1e300, np.float64(1e300)):
            assert np.isinf(gpuopt.reduce(small, initial=initial, device=device))
            assert np.isinf(gpuopt.reduce(small[:0], initial=initial, device=device))
            assert np.isinf(gpuopt.reduce(small, axis=0, initial=initial, device=device))
            assert np.isinf(gpuopt.reduce([1.0], initial=initial, dtype="f4", device=device))
        assert np.isinf(gpuopt.reduce(small.astype("f2"), "max", initial=10**6, device=device))
        gpuopt.reduce(np.array(np.nan), "max", dtype="i2", device=device)
        assert np.isinf(gpuopt.transpose(np.full((2, 3), 1e300), out=narrow, device=device)).all()
        gpuopt.stencil1d(np.full((3, 2), 2**40, "u8"), 1, out=narrow, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "dtype, initial",
    [
        ("int32", np.float64(1e300)),
        ("int8", np.uint8(200)),
        ("int8", np.array(200)),
        ("int8", 200),
        ("uint16", -1),
        ("uint64", np.int8(-1)),
        ("int64", np.float32(np.inf)),
        ("int32", 2.0**31),
    ],
)
def test_initial_beyond_the_type_raises(device, dtype, initial):
    x = np.array([[1, 2]], dtype)
    for axis in (None, 1):
        with pytest.raises(OverflowError, match=r"^initial: "):
            gpuopt.reduce(x, "max", axis=axis, initial=initial, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_indices_go_to_any_integer_type_only(device):
    x = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    for op in ("argmin", "argmax"):
        want = getattr(np, op)(x, axis=1)
        for name in ("i1", "i4", "i8", "u1", "u4", "u8"):
            out = np.full(2, 99, name)
            assert gpuopt.reduce(x, op, axis=1, out=out, device=device) is out
            np.testing.assert_array_equal(out, want)
        for name in (*FLOATS, "bool", "complex64"):
            out = np.full(2, 1, name)
            with pytest.raises(TypeError, match=r"^out: must be of an integer type"):
                gpuopt.reduce(x, op, axis=1, out=out, device=device)
            np.testing.assert_array_equal(out, 1)
        half = x.astype("f2")
        np.testing.assert_array_equal(gpuopt.reduce(half, op, axis=1, device=device), want)


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_that_numpy_refuses_are_refused(device):
    x = np.ones((2, 3))
    for name in (">f8", np.dtype(">i4")):
        for axis in (None, 0):
            with pytest.raises(TypeError, match=r"^dtype: .*byte order"):
                gpuopt.reduce(x, axis=axis, dtype=name, device=device)
    with pytest.raises(TypeError, match=r"^axes: "):
        gpuopt.transpose(x, (True, False), device=device)
    with pytest.raises(ValueError, match=r"^out: has shape \(2, 3\), but the result has \(3, 2\)"):
        gpuopt.stencil1d(x.T.copy(), 1, axis=0, out=np.empty((2, 3)), device=device)
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(x)
    for call in (
        lambda: gpuopt.reduce(matrix, axis=0, device=device),
        lambda: gpuopt.transpose(matrix, device=device),
        lambda: gpuopt.matmul(matrix, matrix.T, device=device),
        lambda: gpuopt.add(matrix, matrix, device=device),
        lambda: gpuopt.stencil1d(matrix, 1, device=device),
    ):
        with pytest.raises(TypeError, match=r"numpy\.matrix is not supported"):
            call()


HOSTILE = {  # calls on ones of shape (3, 4), and the start of the error
    "saxpy_none": (lambda x, to: gpuopt.saxpy(None, x, x, **to), "a: "),
    "saxpy_none_strided": (lambda x, to: gpuopt.saxpy(None, x.T, x.T, **to), "a: "),
    "saxpy_text": (lambda x, to: gpuopt.saxpy("2", x, x, **to), "a: "),
    "add_none": (lambda x, to: gpuopt.add(x, None, **to), "y: "),
    "matmul_number": (lambda x, to: gpuopt.matmul(x, 2**70, **to), "b: "),
    "matmul_stacks": (lambda x, to: gpuopt.matmul([x, x], [x.T] * 3, **to), "a, b: "),
    "axes_dict": (lambda x, to: gpuopt.transpose(x, {0: 1, 1: 0}, **to), "axes: "),
    "axes_set": (lambda x, to: gpuopt.transpose(x, {0, 1}, **to), "axes: "),
    "text": (lambda x, to: gpuopt.reduce(x, "any", out=np.zeros((), "S3"), **to), "out: "),
    "objects": (lambda x, to: gpuopt.reduce(x, "count", out=np.zeros((), "O"), **to), "out: "),
    "void": (lambda x, to: gpuopt.reduce(x, "all", axis=0, out=np.zeros(4, "V4"), **to), "out: "),
    "times": (
        lambda x, to: gpuopt.reduce(x, "min", dtype="i1", out=np.zeros((), "m8[s]"), **to),
        "out: ",
    ),
    "added": (lambda x, to: gpuopt.add(x, x, out=np.zeros((3, 4), "O"), **to), "out: "),
    "masked": (lambda x, to: gpuopt.reduce(x, initial=np.ma.masked, **to), "initial: "),
    "complex": (lambda x, to: gpuopt.reduce(x, initial=1j, **to), "initial: "),
    "huge": (lambda x, to: gpuopt.reduce(x, initial=10**400, **to), "initial: "),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", HOSTILE)
def test_errors_name_their_argument(device, name):
    call, start = HOSTILE[name]
    for dtype in ("f8", "f4"):
        with (
            np.errstate(all="raise"),
            pytest.raises((TypeError, ValueError, OverflowError)) as error,
        ):
            call(np.ones((3, 4), dtype), {"device": device})
        assert str(error.value).startswith(start)


def test_bfloat16_with_large_integers_and_other_dtypes():
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = np.ones((3, 4), dtype)
    assert (gpuopt.add(x, 2**70, device="cpu") == dtype(2.0**70)).all()
    assert (gpuopt.add(x[:, ::2], 2**70, device="sim") == dtype(2.0**70)).all()
    with pytest.raises(OverflowError, match=r"^y: "):
        gpuopt.add(x, 10**400, device="cpu")
    for other in ("u4", "i8", "f8"):  # which have a common dtype with it and float64 only
        y = np.ones((3, 2), other)
        got = gpuopt.saxpy(np.float64(2), x[::-1, ::2], y, device="cpu")
        np.testing.assert_array_equal(got, np.full((3, 2), 3.0))


@pytest.mark.parametrize("cval", [2**64, 2**70, -(2**70), 1e300, 2**31, -(2.0**63)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float32", "float64"])
def test_constant_beyond_the_type_is_no_internal_error(cval, dtype):
    x = np.arange(5, dtype=dtype)
    got = gpuopt.stencil1d(x, 1, cval=cval, device="cpu")
    np.testing.assert_array_equal(got[1:-1], [3, 6, 9])


def test_more_axes_than_32():
    x = np.arange(6.0).reshape((1,) * 30 + (2,) + (1,) * 20 + (3,))
    np.testing.assert_array_equal(gpuopt.add(x, x, device="cpu"), x + x)
    np.testing.assert_array_equal(gpuopt.add(x, x[..., :1], device="cpu"), x + x[..., :1])
    np.testing.assert_array_equal(gpuopt.transpose(x, device="cpu"), x.T)
    np.testing.assert_array_equal(gpuopt.reduce(x, axis=30, device="cpu"), x.sum(30))
    a, b = x.reshape((1,) * 38 + (2, 3)), np.arange(3.0)
    for device in ("cpu", "sim"):
        for other in (b, a.swapaxes(-1, -2)):
            got = gpuopt.matmul(a, other, device=device)
            np.testing.assert_array_equal(got, np.matmul(a, other))


def test_missing_values_of_pandas_are_refused():
    for kind in ("Int64", "Float32", "boolean"):
        missing = pd.Series([1, None], dtype=kind)
        for each in (missing, missing.array, pd.Index(missing), missing.to_frame()):
            with pytest.raises(ValueError, match=r"^array: has missing values"):
                gpuopt.reduce(each, "max", device="cpu")
    assert gpuopt.reduce(pd.Series([1, 2], dtype="Int64"), device="cpu") == 3
    assert np.isnan(gpuopt.reduce(pd.Series([1.0, np.nan]), device="cpu"))


@pytest.mark.parametrize("rule", _core.rules(), ids=lambda rule: rule["name"])
def test_the_table_of_rules_is_numpys(rule):
    """Kinds, results' dtypes and identities, against NumPy's own functions."""
    op, name = rule["name"], {"min": "amin", "max": "amax", "count": "count_nonzero"}
    function = getattr(np, rule["ufunc"] or name.get(op, op))
    function = function.reduce if rule["ufunc"] else function
    for kind, result in zip("biufc", rule["results"], strict=True):
        chars = {"b": "?", "i": "bhiq", "u": "BHIQ", "f": "fd", "c": "FD"}[kind]
        for given in map(np.dtype, chars):
            array = np.ones(3, given)
            if kind not in rule["kinds"]:
                with pytest.raises(TypeError, match=given.name):
                    gpuopt.reduce(array, op, device="cpu")
                continue
            want = np.asarray(function(array)).dtype
            assert (np.dtype(result) if result else given) == want, (op, given)
            assert _core.result_dtype(op, given, None, None) == want
            assert gpuopt.reduce(array, op, device="cpu").dtype == want
            for out in map(np.dtype, "iqfd"):  # a result of the promotion, cast to `out`
                got = (
                    gpuopt.reduce(array, op, axis=0, out=np.zeros((), out), device="cpu")
                    if (
                        rule["ufunc"]
                        and kind != "c"
                        and not (out.kind == "f" and op in ("and", "or", "xor"))
                    )
                    else None
                )
                assert got is None or got == function(array, dtype=None), (op, given, out)
    empty = np.ones(0, "?" if op in ("and", "or", "xor") else "f8")
    if rule["identity"]:
        assert gpuopt.reduce(empty, op, device="cpu") == function(empty)
        assert function(empty) == np.array(int(rule["identity"])).astype(function(empty).dtype)
    elif op == "mean":
        assert np.isnan(gpuopt.reduce(empty, op, device="cpu"))
    else:
        with pytest.raises(ValueError, match=r"empty|zero-size"):
            gpuopt.reduce(empty, op, device="cpu")
    for accepted, option in ((rule["dtype"], {"dtype": "i8"}), (rule["initial"], {"initial": 1})):
        if accepted:
            gpuopt.reduce(np.ones(3, int), op, device="cpu", **option)
        else:
            with pytest.raises(ValueError, match=next(iter(option))):
                gpuopt.reduce(np.ones(3, int), op, device="cpu", **option)


def test_private_functions_of_the_rules_refuse_other_arguments():
    for wrong in ((), ("sum", 7, None, None), (7, np.dtype("i4"), None, None)):
        with pytest.raises(TypeError):
            _core.result_dtype(*wrong)
    with pytest.raises(ValueError, match="median"):
        _core.result_dtype("median", np.dtype("i4"), None, None)
