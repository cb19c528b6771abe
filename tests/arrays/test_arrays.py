"""Reductions of everything that numpy.asarray accepts, in every layout; dtype=, out=, initial=."""

import contextlib
import gc
import sys
import warnings
from array import array as Buffer

import numpy as np
import pytest
from conftest import (
    DTYPES,
    UFUNCS,
    device_rungs,
    kinds,
    largest,
    random_items,
    run_python,
    rungs_of,
)
from hypothesis import HealthCheck, given, settings, strategies as st

import gpuopt
from gpuopt.arrays import inout

bounded = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def layouts(rng, dtype):
    """Yield (name, array): elements of one dtype in every kind of layout."""
    base = random_items(rng, dtype, 2 * 3 * 4 * 5 * 6)
    five = base.reshape(2, 3, 4, 5, 6)
    yield "contiguous", base
    yield "reversed", base[::-1]
    yield "every other", base[::2]
    yield "every third, from the end", base[-2::-3]
    yield "Fortran", np.asfortranarray(base.reshape(20, 36))
    yield "transposed", base.reshape(20, 36).T
    yield "transposed slice", base.reshape(20, 36).T[3:30:2, ::-3]
    yield "both axes reversed", base.reshape(20, 36)[::-1, ::-1]
    yield "one axis reversed", base.reshape(20, 36)[:, ::-1]
    yield "axes permuted", five.transpose(3, 0, 4, 2, 1)
    yield "axes permuted and reversed", five.transpose(3, 0, 4, 2, 1)[::-1, :, ::-1]
    yield "axes permuted and sliced", five.transpose(4, 2, 0, 1, 3)[1:5, ::-2, :, 1:, ::2]
    yield "one item along an axis", five[:, :1, :, 2:3].transpose(2, 0, 1, 4, 3)
    yield (
        "odd strides on an axis of one",
        np.lib.stride_tricks.as_strided(base, (1, 720), (12345 * base.itemsize, base.itemsize)),
    )
    yield "diagonal", base[:676].reshape(26, 26).diagonal()
    yield "broadcast item", np.broadcast_to(base[7], (11, 13))
    yield "broadcast row", np.broadcast_to(base[:9], (11, 9))
    yield "broadcast column", np.broadcast_to(base[:9, None], (9, 11))
    yield "overlapping windows", np.lib.stride_tricks.sliding_window_view(base[:100], 7)
    yield "0-d", base[5:6].reshape(())
    yield "0-d view", base.reshape(20, 36)[3, 4, ...]
    yield "one item", base[3:4]
    yield "one item, many axes", base[3:4].reshape((1,) * 20)
    record = np.zeros(101, [("a", "i1"), ("b", base.dtype), ("c", "S3"), ("d", base.dtype, (2,))])
    record["b"], record["d"] = base[:101], base[101:303].reshape(101, 2)
    yield "field, misaligned", record["b"]
    yield "subarray field", record["d"]
    yield "subarray field reversed", record["d"][::-1, ::-1]
    aligned = np.zeros(101, np.dtype([("a", "i1"), ("b", base.dtype)], align=True))
    aligned["b"] = base[:101]
    yield "field, aligned", aligned["b"]
    yield "byte-swapped", base.astype(base.dtype.newbyteorder())
    yield "byte-swapped, strided", base.astype(base.dtype.newbyteorder()).reshape(20, 36)[::3, ::-2]
    for offset in (1, 3):
        raw = b"\0" * offset + base.tobytes()
        yield f"misaligned by {offset}", np.frombuffer(raw, base.dtype, base.size, offset)
        yield f"misaligned by {offset}, strided", np.frombuffer(raw, base.dtype, -1, offset)[1::2]
    fixed = base.copy()
    fixed.flags.writeable = False
    yield "read-only", fixed
    yield "read-only, strided", fixed[::2]


def agree(got, want, array):
    """Compare a result with NumPy's: the same type, and a value within the rounding error."""
    assert type(got) is type(want)
    if want.dtype.kind in "biu":
        assert got == want
    elif array.size:
        wide = np.abs(array.astype(np.complex128))
        unit = float(np.finfo(want.dtype).eps)
        assert abs(complex(got) - complex(want)) <= 8 * unit * float(wide.sum() + abs(want))


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64"])
def test_every_layout(device, rung, dtype, rng):
    for name, array in layouts(rng, dtype):
        before = array.tobytes()
        for op in ("sum", "min", "max") if array.dtype.kind == "f" else ("sum", "max", "xor"):
            got = gpuopt.reduce(array, op, variant=rung.variant, device=device)
            want = UFUNCS[op].reduce(array.ravel())
            if array.dtype.kind == "f" and op == "sum":
                agree(got, want, array)
            else:
                assert got == want and got.dtype == want.dtype, (name, op)
        assert array.tobytes() == before


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_layout_of_the_cpus_dtypes(dtype, rng):
    for _, array in layouts(rng, dtype):
        agree(gpuopt.reduce(array, device="cpu"), np.add.reduce(array.ravel()), array)


@pytest.mark.parametrize("device", kinds())
def test_large_strided_array_is_read_in_chunks(device, rng):
    """The array spans several chunks: no element is lost or read twice."""
    n = largest(device, 2**23 + 5)
    array = rng.integers(-(2**31), 2**31, 2 * n, np.int32)
    assert gpuopt.reduce(array[::2], device=device) == int(array[::2].sum(dtype=np.int64))
    assert gpuopt.reduce(array[::-2], "xor", device=device) == np.bitwise_xor.reduce(array[1::2])
    swapped = array.astype(">i4")
    assert gpuopt.reduce(swapped, device=device) == int(array.sum(dtype=np.int64))


@pytest.mark.parametrize("device", kinds())
def test_rows_across_chunk_boundaries(device, rng):
    """Contiguous rows with gaps between them; no row is a multiple of a chunk."""
    array = rng.integers(-(2**31), 2**31, (4, largest(device, 2**22 + 7)), np.int32)
    for view in (array[::2], array[::-2, 5:], array[:, :-1], array[1:, 3:-3].T):
        assert gpuopt.reduce(view, device=device) == int(view.sum(dtype=np.int64))
        assert gpuopt.reduce(view, "xor", device=device) == np.bitwise_xor.reduce(view, axis=None)


@pytest.mark.parametrize("device", kinds())
def test_a_memory_map(device, tmp_path, rng):
    items = random_items(rng, np.int32, 10_001)
    items.tofile(tmp_path / "items")
    for mode in ("r", "c", "r+"):
        mapped = np.memmap(tmp_path / "items", np.int32, mode)
        assert gpuopt.reduce(mapped, device=device) == items.sum(dtype=np.int64)
        assert gpuopt.reduce(mapped[5::3], device=device) == items[5::3].sum(dtype=np.int64)
        del mapped


class WithArray:
    """An object with __array__."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class WithInterface:
    """An object with __array_interface__."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("device", kinds())
def test_everything_that_asarray_accepts_is_reduced(device):
    matrix = np.arange(1.0, 7).reshape(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        objects = [np.matrix([[1, 2], [3, 4]])]
    objects += [
        [1, 2, 3],
        [[1.5, 2.5], [3.5, 4.5]],
        (True, False, True),
        range(1, 10),
        7,
        -2.5,
        True,
        np.int32(9),
        np.float32(2.5),
        memoryview(matrix),
        WithArray(matrix),
        WithArray(matrix[:, ::2]),
        WithInterface(matrix),
        WithInterface(matrix[::-1, ::2]),
        matrix.view(np.recarray),
    ]
    for each in objects:
        for op in ("sum", "prod", "min", "max"):
            got = gpuopt.reduce(each, op, device=device)
            want = UFUNCS[op].reduce(np.asarray(each).ravel())
            assert type(got) is type(want), (each, op)
            assert got == want, (each, op)
    assert gpuopt.reduce([], device=device) == 0.0
    assert type(gpuopt.reduce([[], []], device=device)) is np.float64
    assert gpuopt.reduce(bytearray(b"abc"), device="cpu") == sum(b"abc")


def test_errors_of_asarray_propagate():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise KeyError("broken on purpose")

    with pytest.raises(KeyError, match="broken on purpose"):
        gpuopt.reduce(Broken(), device="cpu")
    with pytest.raises(ValueError, match="inhomogeneous"):
        gpuopt.reduce([[1], [1, 2]], device="cpu")


# --- hypothesis


@st.composite
def strided_arrays(draw, dtypes):
    """Return an array of up to 5 axes, each of any step, also 0, in any order of axes."""
    dtype = draw(st.sampled_from(dtypes))
    axes = draw(st.integers(0, 5))
    shape = tuple(draw(st.integers(0, 7)) for _ in range(axes))
    steps = [draw(st.integers(-3, 3)) for _ in range(axes)]
    base = tuple(max(1, size * max(1, abs(step))) for size, step in zip(shape, steps, strict=True))
    seed = draw(st.integers(0, 2**32))
    array = random_items(np.random.default_rng(seed), dtype, int(np.prod(base))).reshape(base)
    if draw(st.booleans()):
        array = array.astype(array.dtype.newbyteorder())
    if draw(st.booleans()):
        raw = b"\0" + array.tobytes()
        array = np.frombuffer(raw, array.dtype, array.size, 1).reshape(base)
    for axis, (size, step) in enumerate(zip(shape, steps, strict=True)):
        index = [slice(None)] * axes
        if step == 0:  # broadcast
            index[axis] = slice(0, 1)
            array = array[tuple(index)]
            array = np.broadcast_to(array, (*array.shape[:axis], size, *array.shape[axis + 1 :]))
        else:
            index[axis] = slice(None, None, step)
            array = array[tuple(index)]
            index[axis] = slice(0, size)
            array = array[tuple(index)]
    assert array.shape == shape
    return array.transpose(draw(st.permutations(range(axes))))


def numpys(op, array, **arguments):
    """Return NumPy's reduction over all axes, or the exception that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return UFUNCS[op].reduce(array, axis=None, **arguments)
    except (TypeError, ValueError, OverflowError) as error:
        return error


def compare(op, array, device, variant, **arguments):
    want = numpys(op, array, **arguments)
    if isinstance(want, Exception):
        with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
            gpuopt.reduce(array, op, device=device, variant=variant, **arguments)
        assert isinstance(want, TypeError) == isinstance(caught.value, TypeError)
        return
    got = gpuopt.reduce(array, op, device=device, variant=variant, **arguments)
    assert type(got) is type(want)
    if want.dtype.kind in "biu" or (op in ("min", "max") and want.dtype.kind == "f"):
        assert np.array_equal(got, want, equal_nan=True)
    elif np.isfinite(want):
        factor = array.size + 4
        size = float(np.abs(array.astype(np.complex128)).sum()) if op == "sum" else 0
        unit = float(np.finfo(want.dtype).eps)
        tiny = float(np.finfo(want.dtype).smallest_normal)
        bound = factor * unit * (size + 3 * abs(complex(want)) + tiny)
        assert abs(complex(got) - complex(want)) <= bound + tiny


@bounded
@given(data=st.data())
def test_cpu_shapes_strides_dtypes_ops(data):
    op = data.draw(st.sampled_from(list(UFUNCS)))
    array = data.draw(strided_arrays(DTYPES))
    if op in ("min", "max") and array.dtype.kind == "c":
        op = "sum"
    compare(op, array, "cpu", data.draw(st.sampled_from([None, "serial", "openmp"])))


@pytest.mark.parametrize("device", kinds())
@bounded
@given(data=st.data())
def test_devices_shapes_strides_dtypes_ops(device, data):
    rung = data.draw(st.sampled_from(rungs_of(device)))
    op = data.draw(st.sampled_from(list(UFUNCS)))
    array = data.draw(strided_arrays(["bool", "int32", "int64", "float32", "float64"]))
    compare(op, array, device, rung.variant)


@bounded
@given(data=st.data())
def test_cpu_initial_and_dtype(data):
    op = data.draw(st.sampled_from(list(UFUNCS)))
    array = data.draw(strided_arrays(DTYPES))
    arguments = {"dtype": data.draw(st.sampled_from([None, *DTYPES]))}
    if data.draw(st.booleans()):
        arguments["initial"] = data.draw(
            st.sampled_from(
                [None, 0, 1, -1, True, 2.5, 100, 300, 2**40, 1j, np.int8(5), np.array(3)]
            )
        )
    result = np.dtype(arguments["dtype"] or array.dtype)
    if op in ("min", "max") and result.kind == "c":
        arguments["dtype"] = np.float64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(op, array, "cpu", None, **arguments)


# --- dtype=


def test_array_likes_are_converted_once():
    class Given:
        asked = 0

        def __array__(self, dtype=None, copy=None):
            self.asked += 1
            return np.arange(5, dtype=np.float32)

    given = Given()
    assert gpuopt.reduce(given, device="cpu") == 10 and given.asked == 1


@pytest.mark.parametrize("device", kinds())
def test_small_dtypes_of_array_likes_keep_their_dtype(device):
    """The ladder's kernels do not take them, those of reduce_axis do."""
    for values in (
        np.int16(5),
        [np.int16(5), np.int16(-7)],
        [(np.float16(1), np.float16(2.5))],
        Buffer("b", [100, 100]),
        memoryview(b"ab"),
        [np.int8(100), 100],
    ):
        want = np.add.reduce(np.asarray(values), axis=None)
        got = gpuopt.reduce(values, device=device)
        assert got == want and got.dtype == want.dtype, values


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "complex64", "complex128"])
@pytest.mark.parametrize("device", kinds())
def test_dtypes_without_ladder_kernels_use_reduce_axis(device, dtype):
    array = np.arange(100).astype(dtype)
    assert gpuopt.reduce(array, device=device) == 4950
    got = gpuopt.reduce(np.ones(200, dtype), dtype=dtype, device=device)
    assert got == np.ones(200, dtype).sum(dtype=dtype) and got.dtype == dtype
    assert gpuopt.reduce([1 + 2j, 3], device=device) == 4 + 2j


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "complex64"])
def test_profile_counts_dtypes_without_ladder_kernels(dtype):
    array = np.arange(100).astype(dtype)
    counted = gpuopt.profile(gpuopt.reduce, array)
    assert counted.result == 4950 and counted.launches
    assert gpuopt.check(gpuopt.reduce, array) == []


def test_add_of_an_integer_out_of_range_raises():
    for x, y, name in (
        (np.int32([1, 2]), 2**40, "y"),
        (-(2**31) - 1, np.int32([1, 2]), "x"),
        ([1], 2**63, "y"),
        (np.int64([1]), 2**64, "y"),
        (np.float32([1]), 2**2000, "y"),
    ):
        with pytest.raises(OverflowError):
            np.add(x, y)
        with pytest.raises(OverflowError, match=f"^{name}: .*dtype that holds it"):
            gpuopt.add(x, y, device="cpu")
    assert gpuopt.add(np.float64([1]), 2**64, device="cpu") == 2.0**64
    assert gpuopt.add(np.int32([1]), -5, device="cpu").dtype == np.int32


@pytest.mark.parametrize("device", kinds())
def test_dtype_converts_as_in_numpy(device):
    """Unsafe casts convert the elements before the operation, as in NumPy."""
    for array in (
        np.array([1.9, -1.9, 2.5, 100.7]),
        np.array([2**31 - 1, 2**31 - 1, 5], np.int32),
        np.array([2**40 + 3, -1, 7]),
        np.array([1.5, 2.5], np.float32),
        np.array([True, False, True]),
        np.array([3, 0, 5], ">i2"),
        np.array([1.9, -1.9, 2.5, 100.7], np.float16)[::2],
    ):
        for dtype in (np.int32, np.int64, np.float32, np.float64, bool, "i4", ">f8", float, int):
            for op in ("sum", "prod", "min", "max"):
                if dtype == ">f8":  # NumPy refuses a byte order, too
                    with pytest.raises(TypeError, match=r"^dtype: '>f8' is in a foreign byte"):
                        gpuopt.reduce(array, op, dtype=dtype, device=device)
                    continue
                want = UFUNCS[op].reduce(array, dtype=dtype)
                got = gpuopt.reduce(array, op, dtype=dtype, device=device)
                assert type(got) is type(want), (array.dtype, dtype, op)
                assert np.isclose(got, want, rtol=1e-6), (array.dtype, dtype, op)


@pytest.mark.parametrize("device", kinds())
def test_complex_to_real_warns_as_in_numpy(device):
    array = np.array([1 + 2j, 3 - 1j])
    with pytest.warns(np.exceptions.ComplexWarning):
        assert gpuopt.reduce(array, dtype=np.float64, device=device) == 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(np.exceptions.ComplexWarning):
            gpuopt.reduce(array, dtype=np.float64, device=device)
    assert gpuopt.reduce([1.0, 2.0], device=device) == 3.0


@pytest.mark.parametrize("device", kinds())
def test_warning_conversion_processes_the_whole_array(device):
    """Casting a NaN to an integer raises only if numpy.errstate says so."""
    array = np.array([1.0, np.nan, 2.0, 1e300])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.add.reduce(array, dtype=np.int64)
        assert gpuopt.reduce(array, dtype=np.int64, device=device) == want
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        with contextlib.suppress(FloatingPointError, RuntimeWarning):
            gpuopt.reduce(np.tile(array, 40_000), dtype=np.int64, device=device)
    assert gpuopt.reduce([1.0, 2.0], device=device) == 3.0


# --- out=


@pytest.mark.parametrize("device", kinds())
def test_out_receives_the_result_and_is_returned(device, rng):
    array = random_items(rng, np.int32, 1001)
    for dtype in ("i8", "i4", "f8", "f4", ">i8", ">f8", "?"):
        for op in ("sum", "max"):
            try:
                want = UFUNCS[op].reduce(array, out=np.zeros((), dtype))
            except TypeError:
                with pytest.raises(TypeError):
                    gpuopt.reduce(array, op, out=np.zeros((), dtype), device=device)
                continue
            out = np.zeros((), dtype)
            got = gpuopt.reduce(array, op, out=out, device=device)
            assert got is out and out.dtype == want.dtype
            assert np.isclose(np.float64(out), np.float64(want), rtol=1e-6), (dtype, op)


def test_unaligned_out_is_written_through_a_temporary():
    raw, x = np.zeros(6 * 4 + 1, np.uint8), np.arange(6, dtype=np.float32)
    for at in (0, 1):
        out = raw[at : at + 24].view(np.float32)
        assert inout.takes_result(out, out.dtype, (x,)) == out.flags.aligned
        assert gpuopt.add(x, x, out=out, device="cpu") is out and (out == x + x).all()
    assert not out.flags.aligned


@pytest.mark.parametrize("device", kinds())
def test_out_in_any_layout_receives_the_result(device):
    array = np.arange(10, dtype=np.int64)
    raw = bytearray(17)
    misaligned = np.frombuffer(raw, np.int64, 1, 1).reshape(())
    assert gpuopt.reduce(array, out=misaligned, device=device) is misaligned
    assert misaligned == 45 and raw[0] == 0 and not any(raw[9:])
    inside = array[3:4].reshape(())
    assert gpuopt.reduce(array, out=inside, device=device) == 45
    assert array.tolist() == [0, 1, 2, 45, 4, 5, 6, 7, 8, 9]
    itself = np.array(5)
    assert gpuopt.reduce(itself, initial=2, out=itself, device=device) is itself and itself == 7
    record = np.zeros(2, [("a", "i1"), ("b", "<i8")])
    field = record["b"][1:].reshape(())
    gpuopt.reduce([1, 2], out=field, device=device)
    assert record.tolist() == [(0, 0), (0, 3)]
    empty = np.array(9.0)
    assert gpuopt.reduce([], out=empty, device=device) == 0 and empty == 0


@pytest.mark.parametrize("device", kinds())
def test_out_and_dtype_together(device):
    """As in NumPy, the computation uses dtype= and the result is stored in out's dtype."""
    array = np.full(3, 2**31 - 1, np.int32)
    for dtype, stored in (("i4", "i8"), ("i8", "i4"), ("f8", "f4"), ("i4", "f8"), ("f4", "f8")):
        want, out = np.zeros((), stored), np.zeros((), stored)
        np.add.reduce(array, dtype=dtype, out=want)
        assert gpuopt.reduce(array, dtype=dtype, out=out, device=device) is out
        assert np.isclose(float(out), float(want), rtol=1e-6), (dtype, stored)
    for dtype, stored in (("f8", "i8"), ("f4", "i4"), ("i8", "?"), ("c16", "f8")):
        out = np.array(7, stored)
        with pytest.raises(TypeError, match=r"^out: cannot cast .*same_kind"):
            gpuopt.reduce(array, dtype=dtype, out=out, device="cpu")
        assert out == np.array(7, stored)


# --- initial=


@pytest.mark.parametrize("device, rung", device_rungs())
@pytest.mark.parametrize("op", list(UFUNCS))
def test_initial_is_the_first_operand(device, rung, op):
    call = {"variant": rung.variant, "device": device}
    for dtype in ("bool", "int32", "int64", "float32", "float64"):
        if op in ("and", "or", "xor") and dtype[0] == "f":
            continue
        array = np.array([5, 3, 0, 7], dtype)
        for initial in (0, 1, 6, True, np.int8(2), np.array(4), None):
            want = UFUNCS[op].reduce(array, initial=initial)
            got = gpuopt.reduce(array, op, initial=initial, **call)
            assert got == want and type(got) is type(want), (dtype, initial)


def test_initial_of_float32_is_added_before_rounding():
    """The initial value is added before the single rounding."""
    array = np.full(1000, 2.0**-24, np.float32)
    got = gpuopt.reduce(array, initial=1.0, device="cpu")
    assert got == np.float32(1 + 1000 * 2.0**-24)


@pytest.mark.parametrize(
    "initial, error",
    [
        ([1], (TypeError, ValueError)),
        ([1, 2], (TypeError, ValueError)),
        ([], (TypeError, ValueError)),
        (np.array([1.0, 2.0]), (TypeError, ValueError)),
        (np.empty(0), (TypeError, ValueError)),
        ([[], []], (TypeError, ValueError)),
        ("x", ValueError),
        (object(), TypeError),
        ({}, TypeError),
        (1j, TypeError),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("size", [0, 3])
def test_initial_of_a_wrong_kind_raises(initial, error, size):
    """A sequence as the initial value is an error; its memory is not read."""
    array = np.ones(size)
    with pytest.raises(error):
        np.add.reduce(array, initial=initial)
    with pytest.raises(error):
        gpuopt.reduce(array, initial=initial, device="cpu")


def test_initial_out_of_the_results_range_raises():
    for dtype, initial, error in (
        (np.int8, 300, OverflowError),
        (np.uint8, -1, OverflowError),
        (np.int64, 2**70, OverflowError),
        (np.int64, float("nan"), ValueError),
        (np.int64, float("inf"), OverflowError),
    ):
        array = np.ones(3, dtype)
        with pytest.raises(error):
            np.maximum.reduce(array, initial=initial)
        with pytest.raises(error):
            gpuopt.reduce(array, "max", initial=initial, device="cpu")


# --- memory


def test_a_huge_broadcast_array_needs_little_memory():
    """2^30 elements broadcast from one: the cpu reads a chunk at a time."""
    process = run_python(
        """
        import resource
        import numpy as np, gpuopt
        gpuopt.reduce(np.ones(2**20)[::2], device="cpu")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        huge = np.broadcast_to(np.float32(1), (2**15, 2**15))
        assert gpuopt.reduce(huge, device="cpu") == 2**30
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 64 << 10, f"{grown} KiB"
        """
    )
    assert process.stdout == ""


@pytest.mark.parametrize("device", kinds())
def test_arrays_are_released_after_a_call(device):
    for array in (np.ones(1000), np.ones(1000)[::2], np.ones(1000, ">f8"), np.ones((3, 4)).T):
        out = np.zeros(())
        everything = [array, out, array.dtype, np.dtype("f4"), np.dtype("f8"), np.float32]
        counts = []
        for _ in range(3):  # the first round fills caches
            for _ in range(50):
                gpuopt.reduce(array, device=device)
                gpuopt.reduce(array, out=out, device=device)
                gpuopt.reduce(array, "max", initial=3, dtype=np.float32, device=device)
            gc.collect()
            counts.append([sys.getrefcount(each) for each in everything])
        assert counts[1] == counts[2]
