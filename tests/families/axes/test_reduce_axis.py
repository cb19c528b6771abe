"""The family reduce_axis (reductions along axes; mean, any, all, count, arg*) against NumPy."""

import itertools
import tracemalloc

import numpy as np
import pytest
from conftest import KINDS, UFUNCS, kinds, on, random_items

import gpuopt
from gpuopt.families import axis_plan

FAMILY = "reduce_axis"
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
OTHERS = {
    "mean": np.mean,
    "any": np.any,
    "all": np.all,
    "count": np.count_nonzero,
    "argmin": np.argmin,
    "argmax": np.argmax,
}
TOLERANCE = {2: 2e-3, 4: 3e-7, 8: 1e-14}  # of the result's real part, against sum(abs)


def items_of(rng, dtype, shape):
    """Return random elements with zeros, repeated extremes and, if floats, a NaN in some rows."""
    n = int(np.prod(shape))
    items = random_items(rng, dtype, n)
    if n:
        items[rng.random(n) < 0.1] = 0
        items[rng.integers(0, n, 1 + n // 9)] = items.max()
        items[rng.integers(0, n, 1 + n // 9)] = items.min()
    return items.reshape(shape)


def views_of(array):
    """Yield the array in several layouts, all of the same elements."""
    yield "C", array
    yield "Fortran", np.asfortranarray(array)
    yield "reversed", array[tuple(slice(None, None, -1) for _ in array.shape)]
    wide = np.repeat(np.repeat(array, 2, 0), 3, array.ndim - 1)
    yield "gaps", wide[(slice(None, None, 2), ...)][..., ::3]
    yield "swapped", array.astype(array.dtype.newbyteorder(">"))


def of_numpy(array, op, **arguments):
    """Return NumPy's answer; sums of small floats in a wider type, as ours."""
    with np.errstate(all="ignore"):
        if op in OTHERS:
            wide = {"f": np.float64, "c": np.complex128}.get(array.dtype.kind)
            if op == "mean" and wide:
                return np.mean(array, dtype=wide, **arguments).astype(array.dtype)
            return OTHERS[op](array, **arguments)
        if op in ("sum", "prod") and array.dtype.kind in "fc" and "dtype" not in arguments:
            wide = np.complex128 if array.dtype.kind == "c" else np.float64
            return UFUNCS[op].reduce(array, dtype=wide, **arguments).astype(array.dtype)
        return UFUNCS[op].reduce(array, **arguments)


def check(array, op, device, **arguments):
    got = gpuopt.reduce(array, op, device=device, **arguments)
    want = of_numpy(array, op, **arguments)
    assert np.shape(got) == np.shape(want), (op, arguments)
    assert np.asarray(got).dtype == np.asarray(want).dtype.newbyteorder("="), (op, arguments)
    assert type(got) is type(want)
    if op in ("sum", "prod", "mean") and np.asarray(want).dtype.kind in "fc":
        axes = {name: each for name, each in arguments.items() if name in ("axis", "keepdims")}
        with np.errstate(all="ignore"):
            scale = (
                np.abs(array.astype(np.complex128)).sum(**axes) if op != "prod" else np.abs(want)
            )
            scale = scale / (array.size / max(1, np.size(want))) if op == "mean" else scale
            real = np.asarray(want).real.dtype.itemsize
            error = np.abs(np.asarray(got).astype(np.complex128) - want)
        assert (error <= TOLERANCE[real] * (scale + 1e-300)).all(), (op, arguments, got, want)
    else:
        np.testing.assert_array_equal(got, want, err_msg=f"{op} {arguments}")


def ops_of(dtype):
    kind = np.dtype(dtype).kind
    return [
        op
        for op in [*UFUNCS, *OTHERS]
        if not (kind == "f" and op in ("and", "or", "xor"))
        and not (kind == "c" and op in ("and", "or", "xor", "min", "max", "argmin", "argmax"))
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", kinds())
def test_every_operation_of_every_dtype(device, dtype, rng):
    array = items_of(rng, dtype, (5, 37, 6))
    for op in ops_of(dtype):
        if device != "cpu" and op == "prod" and dtype in ("complex64", "complex128"):
            continue
        for axis in (0, 1, -1, (0, 2), None):
            if op in ("argmin", "argmax") and isinstance(axis, tuple):
                continue
            check(array, op, device, axis=axis, keepdims=axis == 1)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("device", kinds())
def test_complex(device, dtype, rng):
    array = items_of(rng, dtype, (4, 50, 3))
    array[0] = 0
    for op in ops_of(dtype):
        if op == "prod" and device != "cpu":
            with pytest.raises(TypeError, match=r"^array: rung 'shapes' .*complex128"):
                gpuopt.reduce(array, op, axis=0, device=device)
            continue
        for axis in (0, 1, 2, (1, 2), None):
            check(array, op, device, axis=axis, keepdims=axis is None)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "complex64"]
)
def test_products_on_the_cpu_are_made_without_a_wider_copy(dtype, rng):
    array = rng.integers(0, 100, (1000, 600)).astype(dtype)
    for axis in (0, 1):
        tracemalloc.start()
        got = gpuopt.reduce(array, "prod", axis=axis, device="cpu")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < array.nbytes / 4
        if dtype != "complex64":
            assert np.array_equal(got, np.prod(array, axis=axis))


@pytest.mark.parametrize("device", kinds())
def test_products_of_small_integers(device, rng):
    """Signed and unsigned elements keep their sign in any result dtype, in one pass and several."""
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        info = np.iinfo(dtype)
        array = rng.integers(info.min, info.max, (3, 40, 7), dtype, endpoint=True) | 1
        check(array, "prod", device, axis=None)
        for axis in (0, 1, (0, 2)):
            check(array, "prod", device, axis=axis)
            for result in ("int16", "uint64", "int64"):
                check(array, "prod", device, axis=axis, dtype=result)


@pytest.mark.parametrize("device", kinds())
def test_random_shapes_axes_and_layouts(device, rng):
    for _ in range(12 if device == "sim" else 60):
        ndim = int(rng.integers(1, 6))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 7, 16, 33], ndim))
        if np.prod(shape) > 20_000:
            continue
        dtype = str(rng.choice(DTYPES))
        array = items_of(rng, dtype, shape)
        axes = tuple(int(k) for k in np.flatnonzero(rng.random(ndim) < 0.5))
        for name, view in views_of(array):
            op = str(rng.choice(ops_of(dtype)))
            axis = axes if op not in ("argmin", "argmax") else int(rng.integers(-ndim, ndim))
            try:
                check(view, op, device, axis=axis, keepdims=bool(rng.integers(2)))
            except AssertionError as error:
                raise AssertionError(f"{name} {shape} {dtype} {op} {axis}") from error


# One shape per plan: slabs through shared memory, aligned or not; rows whole and in chunks; columns
# by vectors, aligned or not; few columns; chunks of rows.
SHAPES = [
    ((700, 3), 1),
    ((700, 16), 1),
    ((300, 64), 1),
    ((90, 130), 1),
    ((50, 7, 5), 1),
    ((4, 3000), 1),
    ((1, 70_001), 1),
    ((2, 40_003), 1),
    ((3000, 64), 0),
    ((20_000, 3), 0),
    ((20_003, 3), 0),
    ((20_001, 16), 0),
    ((64, 5000), 0),
    ((3, 9000), 0),
    ((700, 131), 0),
    ((3, 2048, 3), 1),
    ((3, 8192, 1, 4), 1),
    ((3, 500, 40), 1),
    ((3, 500, 37), 1),
    ((2, 9000, 2), 1),
]


@pytest.mark.parametrize("shape, axis", SHAPES)
@pytest.mark.parametrize("device", kinds())
def test_every_plan_of_a_pass(device, shape, axis, rng):
    dtypes = ["float32", "int8"] if device == "sim" else ["float32", "int8", "float64", "float16"]
    for dtype, op in itertools.product(dtypes, ["sum", "max", "argmax", "all", "mean"]):
        if device == "sim" and dtype == "int8" and op in ("max", "all", "mean"):
            continue
        check(items_of(rng, dtype, shape), op, device, axis=axis)


# Rows of whole 16-byte vectors, (rows, vectors, axis): a row by a group of lanes, a warp, a block;
# columns whose results are stored as vectors, by helper lanes, in several tiles.
PACKED = [
    (2500, 1, 1),
    (900, 2, 1),
    (700, 3, 1),
    (300, 9, 1),
    (150, 17, 1),
    (80, 32, 1),
    (90, 33, 1),
    (40, 100, 1),
    (9, 520, 1),
    (3, 300, 0),
    (700, 1, 0),
    (500, 3, 0),
    (300, 70, 0),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", kinds())
def test_vectors_of_every_dtype(device, dtype, rng):
    for rows, packs, axis in PACKED:
        array = items_of(rng, dtype, (rows, packs * 16 // np.dtype(dtype).itemsize))
        ops = [op for op in ("sum", "min", "argmax", "count", "xor") if op in ops_of(dtype)]
        for op in ops if device != "sim" else rng.choice(ops, 2, replace=False):
            check(array, str(op), device, axis=axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int16", "uint16", "float16"])
@pytest.mark.parametrize("device", kinds())
def test_narrow_elements_in_unaligned_rows(device, dtype, rng):
    """Vector loads include elements of other rows, whose extremes must not count."""
    ops = [op for op in ("sum", "min", "max", "all", "any", "xor") if op in ops_of(dtype)]
    ops += ["prod"] if dtype != "float16" else []  # it overflows
    for items in (7, 8, 9, 31, 33, 77, 333, 901):
        array = items_of(rng, dtype, (531, items))
        array[::2] = array.min() if items % 4 == 1 else array.max()
        for op in ops if device != "sim" else rng.choice(ops, 2, replace=False):
            check(array, str(op), device, axis=1)


@pytest.mark.parametrize(
    "dtype, shape, axis",
    [
        ("float32", (12_000, 48), 1),
        ("float32", (12_000, 50), 1),
        ("float32", (100, 16, 400), 1),
        ("float64", (5000, 66), 1),
        ("float64", (5000, 67), 1),
        ("int16", (1200, 16, 70), 1),
    ],
)
@pytest.mark.parametrize("device", kinds())
def test_results_that_stay_in_the_cache(device, dtype, shape, axis, rng):
    """Every shape of work whose loads give way to its results: a simulated GPU's are taken for
    large from 2 MiB on, a real one's by `test_large_ones_on_a_gpu`.
    """
    array = items_of(rng, dtype, shape)
    for op in ("sum", "argmax") if device != "sim" or dtype == "float32" else ("sum",):
        check(array, op, device, axis=axis)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", kinds())
def test_rows_of_one_word(device, dtype, rng):
    for items in (2, 4, 8):
        array = items_of(rng, dtype, (5003, items))
        ops = [op for op in ("sum", "min", "argmax", "argmin", "count") if op in ops_of(dtype)]
        for op in ops if device != "sim" else rng.choice(ops, 2, replace=False):
            check(array, str(op), device, axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", kinds())
def test_rows_of_three(device, dtype, rng):
    """Whole vectors and a remainder; results aligned and not, in the same dtype and another."""
    ops = [op for op in [*UFUNCS, *OTHERS] if op in ops_of(dtype) and op != "prod"]
    for rows in (1, 2, 15, 5003, 12_288):
        array = items_of(rng, dtype, (rows, 3))
        for op in ops if device != "sim" else rng.choice(ops, 3, replace=False):
            check(array, str(op), device, axis=1)
    array = items_of(rng, dtype, (5003, 3))
    behind = np.empty(5004, np.argmax(array, 1).dtype)[1:]  # without vector alignment
    assert gpuopt.reduce(array, "argmax", axis=1, device=device, out=behind) is behind
    np.testing.assert_array_equal(behind, np.argmax(array, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", kinds())
def test_slabs_of_few_inner_elements(device, dtype, rng):
    """A GPU reduces each slab by several threads, or by a block; partial and whole vectors."""
    ops = [op for op in (*UFUNCS, *OTHERS) if op in ops_of(dtype) and op != "prod"]
    item = np.dtype(dtype).itemsize
    sizes = [*itertools.product((531, 2113), (32, 160))]
    sizes = sizes if device == "cuda" else sizes[:2] if device == "sim" else sizes[1:3]
    for inner, (slabs, rows) in itertools.product((2, 3, 5, 16), sizes):
        array = items_of(rng, dtype, (slabs, rows * 16 // item if inner < 16 else rows, inner))
        for op in rng.choice(ops, 1 if device == "sim" else 3, replace=False):
            check(array, str(op), device, axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", kinds())
def test_runs_of_columns_behind_a_stepped_axis(device, dtype, rng):
    """The cpu gives a run of 64 bytes a tile of its own if the tile has 4 KB."""
    ops = [op for op in (*UFUNCS, *OTHERS) if op in ops_of(dtype) and op != "prod"]
    item = np.dtype(dtype).itemsize
    for run, rows in itertools.product((64 // item, 64 // item + 1, 160 // item), (3, 64, 300)):
        array = items_of(rng, dtype, (rows, 6, run + 2))
        for view in (array[:, ::2, 2:], array[:, 1:, : run - 1], array[::-1, ::-1, 1 : run + 1]):
            check(view, str(rng.choice(ops)), device, axis=0)


@pytest.mark.parametrize("device", kinds())
def test_one_result_beyond_whole_tiles(device, rng):
    """Results that do not merge to one axis, one more than the cpu processes at a time."""
    for shape, end, axis in (((27, 24, 3), 19, 2), ((50, 27, 24), 19, 0), ((9, 57, 12), 9, 0)):
        floats = rng.random(shape)
        results = np.prod(shape) // shape[axis] // shape[-1 if axis != 2 else 1] * end
        assert results % 512 == 1
        for array in (floats, (floats * 256).astype(np.uint8)):
            view = array[:, :end] if axis == 2 else array[:, :, :end]
            for op in ("sum", "max", "argmin", "count"):
                check(view, op, device, axis=axis)


def test_the_first_nan_of_several(rng):
    """The first NaN wins although any NaN ends the other threads' search."""
    array = rng.random((1, 1 << 21), np.float32)
    array[0, 5] = np.nan
    array[0, -5] = -np.nan
    found = {gpuopt.reduce(array, "min", axis=1, device="cpu").tobytes() for _ in range(300)}
    assert found == {np.float32(np.nan).tobytes()}


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u4", "i8", "f2", "f4", ">f4", "f8", "c8", "bfloat16"]
)
def test_axes_of_one_element(dtype, rng):
    """The result is the element in the result's dtype, in any layout, with `out` and keepdims."""
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    for shape, axis in (((5, 1, 7), 1), ((1, 1), (0, 1)), ((1,), 0), ((3, 1, 2, 1), (1, 3))):
        whole = np.round(rng.random((*shape[:-1], 2 * shape[-1])) * 9 - 4)
        whole[rng.random(whole.shape) < 0.2] = np.nan if np.dtype(dtype).kind in "fcV" else 0
        for array in (whole[..., ::2], np.asfortranarray(whole)[..., 1::2][::-1]):
            array = array.astype(dtype, order="K")
            for op in ("sum", "mean", "any", "all", "count", *("max", "min") * (dtype != "c8")):
                call = np.count_nonzero if op == "count" else getattr(np, op)
                for keepdims in (False, True):
                    want = call(array, axis=axis, keepdims=keepdims)
                    out = np.empty(want.shape, want.dtype)
                    for room in (None, out, None):
                        got = gpuopt.reduce(
                            array, op, axis=axis, keepdims=keepdims, out=room, device="cpu"
                        )
                        assert room is None or got is out
                        assert got.dtype == want.dtype and got.shape == want.shape
                        same = got.astype(complex), want.astype(complex)  # exact
                        np.testing.assert_array_equal(*same, (op, shape))
    half = np.array([[2.5]])
    got = gpuopt.reduce(half, axis=1, dtype="i4", out=np.empty(1), device="cpu")
    assert got == 2  # converted to int32 first


def test_sums_of_negative_zeros():
    """The sum is +0, as in NumPy, whose sums start with 0."""
    for shape in ((1, 1), (5, 1), (1, 7), (3, 2), (2, 40), (40, 2), (5, 4, 3)):
        for op, axis in itertools.product(("sum", "mean"), (0, -1, None, ())):
            for dtype in ("float16", "float32", "float64"):
                got = gpuopt.reduce(np.full(shape, -0.0, dtype), op, axis=axis, device="cpu")
                if (op, axis) != ("mean", ()):
                    assert not np.signbit(got).any(), (shape, op, axis, dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int16", "uint16", "float16"])
@pytest.mark.parametrize("device", kinds())
def test_narrow_columns_without_alignment(device, dtype, rng):
    """Vector loads include elements of other rows, whose extremes must not count."""
    ops = [op for op in ("sum", "min", "argmin", "argmax", "any", "xor") if op in ops_of(dtype)]
    for outer, rows, columns in ((3, 20, 401), (2, 7, 1000), (5, 31, 259), (1, 30, 70_003)):
        array = items_of(rng, dtype, (outer, rows, columns + 3))
        array[:, :, -3:] = array.min()
        array[:, :, :1] = array.max()
        for view in (array, array[:, :, 1:-2]):
            for op in rng.choice(ops, 2, replace=False):
                check(view, str(op), device, axis=1)


@pytest.mark.parametrize("device", kinds())
def test_bytes_at_their_limits(device):
    """Many equal extremes do not overflow the narrow accumulators."""
    for shape, axis in (((70_001, 16), 0), ((2, 300_000), 1), ((1100, 16), 1), ((300, 1600), 1)):
        for value, dtype in ((255, "uint8"), (-128, "int8"), (127, "int8"), (1, "bool")):
            array = np.full(shape, value, dtype)
            for op in ("sum", "max", "argmin", "count") if shape[0] < 70_000 else ("sum",):
                check(array, op, device, axis=axis)
            if value == -128:
                array[shape[0] // 2, shape[1] // 2] = -127
                check(array, "argmax", device, axis=axis)
    values = np.arange(-128, 128, dtype="int8")
    pairs = np.stack(np.meshgrid(values, values)).reshape(2, -1)
    for op in ("min", "max", "argmin", "argmax"):
        check(pairs, op, device, axis=0)
        check(np.ascontiguousarray(pairs.T), op, device, axis=1)
    pairs = pairs.astype("int16") * 256 + pairs[::-1]
    for op in ("min", "max"):
        check(pairs, op, device, axis=0)
        check(pairs.view("uint16"), op, device, axis=0)


@pytest.mark.parametrize("device", kinds())
def test_small_floats_in_vectors(device):
    """NaN and infinity in every lane; sums in the range of float32 but not of float16."""
    for dtype in ("float16", "float32"):
        for shape, axis in (((40, 64), 0), ((64, 40), 1), ((16, 24), 1), ((3, 2048), 0)):
            array = np.full(shape, 7, dtype)
            array[1::5, ::3] = np.inf
            for k in range(min(shape)):
                array[k, k] = np.nan if k % 3 else -np.inf
            for op in ("min", "max", "argmin", "argmax"):
                check(array, op, device, axis=axis)
            array[:] = 60_000
            check(array, "mean", device, axis=axis)
            np.testing.assert_array_equal(
                gpuopt.reduce(array, axis=axis, dtype="float64", device=device),
                array.sum(axis=axis, dtype="float64"),
            )


@pytest.mark.parametrize("device", kinds())
def test_first_of_equals_and_nan(device):
    shapes = (((3, 5000), 1), ((5000, 3), 0), ((700, 9), 1), ((300, 8), 1), ((200, 72), 1))
    for shape, axis in (*shapes, ((40, 64), 0), ((900, 4), 1)):
        for dtype in ("float32", "float16", "int32", "int16"):
            array = np.full(shape, 7, dtype)
            check(array, "argmin", device, axis=axis)
            if dtype.startswith("float"):
                array[:] = 0
                array[1:, ::2] = -0.0  # equal to 0
                check(array, "argmin", device, axis=axis)
                check(array, "argmax", device, axis=axis)
                array[:] = np.inf
                check(array, "argmin", device, axis=axis)
                array[2, 2] = array[1, 1] = np.nan
                array[2, 1] = -np.inf
                for op in ("argmin", "argmax", "min", "max"):
                    check(array, op, device, axis=axis)


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_in_rows_of_any_length(dtype, rng):
    """The first of equals and the first NaN, in each lane of a search and beyond its last turn."""
    for n in (15, 16, 17, 31, 33, 63, 65, 127, 129, 191, 193, 385, 2047, 2049, 16384, 16385):
        array = rng.integers(0, min(2 if n % 4 == 1 else n, 127), (max(9, 300 // n), n)).astype(
            dtype
        )
        array[0] = array[0, 0]
        array[1, -1] = not array[1].any()
        if np.dtype(dtype).kind == "f":
            array[rng.random(array.shape) < 0.3 / n] = np.nan
            array[2] = rng.choice(np.array([np.inf, -np.inf, 0.0, -0.0], dtype), n)
        for view in (array, array[:, ::-1], array[:, ::2], np.asfortranarray(array)):
            for op in ("argmin", "argmax"):
                check(view, op, "cpu", axis=1)
        columns = np.ascontiguousarray(array.T)
        for view in (columns[:, 1:8], columns[::2, :9], columns[::-1, 1:4]):  # with gaps
            for op in ("argmin", "argmax"):
                check(view, op, "cpu", axis=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_rows_of_many_columns(dtype, rng):
    """Every number of rows modulo four, and columns one more than a tile of the narrowest type."""
    for rows in (*range(1, 10), 131):
        array = items_of(rng, dtype, (rows, 8193))
        for op in ops_of(array.dtype):
            check(array, op, "cpu", axis=0)
            check(array[::-1, 1:600:2], op, "cpu", axis=0)


def rows_and_columns(n):
    """Yield shapes and axes by which the cpu reduces n elements to a result in every way it has."""
    yield (n,), 0  # one row
    yield (5, n), 1  # rows; short ones side by side
    yield (n, 3), 0  # columns, many rows of which are taken together
    yield (60, n, 5), 1  # a few columns, short ones beside those of other rows
    yield (2, n, 70), 1  # columns, row by row
    yield (n, 600), 0  # more of them than a tile


@pytest.mark.parametrize("n", [1, 15, 16, 17, 64, 128, 129, 2047, 2049, 6500])
def test_extremes_at_every_position(n, rng):
    """The cpu searches runs from either end, and stops at an unbeatable value."""
    for dtype in ("bool", "int8", "uint16", "int64", "float16", "float32", "float64"):
        for shape, axis in rows_and_columns(n):
            if np.prod(shape) > 500_000:
                continue
            array = np.ones(shape, dtype)
            lines = np.moveaxis(array, axis, -1)
            for _ in range(4):
                lines[..., rng.integers(0, n)] = rng.choice([0, 1, 2]).astype(dtype)
            if np.dtype(dtype).kind == "f" and n % 2:
                lines[..., rng.integers(0, n, 2)] = np.nan
            for view in (array, np.flip(array, axis), np.flip(array), *with_gaps(array)):
                for op in ("argmin", "argmax", "min", "max", "any", "all"):
                    check(view, op, "cpu", axis=axis)


def with_gaps(array):
    """Yield views of an array whose last axis has gaps of every kind that the cpu has code for."""
    for step in (2, 3, -5):
        yield np.repeat(array, abs(step), -1)[..., ::step]


@pytest.mark.parametrize("dtype", [*DTYPES, "complex128"])
def test_gaps_of_every_size(dtype, rng):
    for n in (3, 40, 300):
        for shape, axis in rows_and_columns(n):
            array = items_of(rng, dtype, shape)
            for view in with_gaps(array):
                for op in ops_of(dtype):
                    if op != "prod" or n == 3:  # of more they are 0, or next to it
                        check(view, op, "cpu", axis=axis)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_boxes_out_of_larger_arrays(dtype, rng):
    """Up to four unmergeable axes on either side are read in place."""
    array = items_of(rng, dtype, (5, 4, 70, 6, 3, 9))
    boxes = (
        array[1:, :3, 2:-2, 1:, :2, 1:-1],
        array[::2, 1:, :, ::2, :, ::3],
        array[:, 1:-1, ::-3, :, 1:, :].transpose(2, 0, 5, 1, 4, 3),
        array[0, :, 3:, 0, :, 1:3],
    )
    for box in boxes:
        for axis in (2, (1, 2), (0, 3), -1, (0, 1, 2, 3)):
            for op in ops_of(dtype):
                several = op in ("prod", "argmin", "argmax") and not isinstance(axis, int)
                if np.max(axis) < box.ndim and not several:
                    check(np.minimum(box, 1) if op == "prod" else box, op, "cpu", axis=axis)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
def test_slabs_of_few_results(dtype, rng):
    """The cpu interleaves them over lanes, or reduces several rows together."""
    for rows in (3, 20, 100, 3000):
        for across in (2, 3, 4, 5, 8, 16, 17, 32):
            array = items_of(rng, dtype, (2, rows, across + 2))
            for slab in (array[..., :across].copy(), array[..., :across]):
                for op in ops_of(dtype):
                    if op != "prod":
                        check(slab, op, "cpu", axis=1)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
def test_early_exit_of_one_result_does_not_stop_others(dtype):
    """The first element decides some results, the last one others."""
    for n in (40, 3000, 70_000):
        for across in (2, 3, 4, 16, 20):
            array = np.zeros((2, n, across), dtype)
            array[:, 0, ::2] = array[:, -1, 1::2] = np.array(255).astype(dtype)
            for view in (array, array.swapaxes(1, 2), np.repeat(array, 2, 2)[..., ::2]):
                for op in ("any", "count", "max", "argmax", "or" if dtype != "float32" else "sum"):
                    check(view, op, "cpu", axis=view.shape.index(n))
                opposite = view == 0
                for op in ("all", "min", "argmin"):
                    check(opposite, op, "cpu", axis=view.shape.index(n))


@pytest.mark.parametrize("op", ["any", "all", "min", "max", "argmin", "argmax"])
@pytest.mark.parametrize("common", [False, True])
def test_first_elements_decide_only_what_they_may(op, common, rng):
    """One element in 2^17 differs, among the first ones or later, in every row or in one."""
    numpy = {**UFUNCS, **OTHERS}[op]
    numpy = getattr(numpy, "reduce", numpy)
    for shape, axis in (((1 << 17,), 0), ((3, 1 << 17), 1), ((1 << 10, 5), 0), ((70, 1000), 1)):
        for at in (0, 15, 16, 255, shape[axis] - 1):
            for rows in ([0], slice(None)):
                items = np.full(shape, common)
                np.moveaxis(items, axis, -1).reshape(-1, shape[axis])[rows, at] = not common
                for view in (items, items[::-1], items.T):
                    along = axis if view is not items.T else len(shape) - 1 - axis
                    got = gpuopt.reduce(view, op, axis=along, device="cpu")
                    assert np.array_equal(got, numpy(view, axis=along)), (shape, at, rows)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "bool"])
def test_small_integers_do_not_overflow_in_between(dtype):
    """The cpu accumulates runs of them in narrow lanes."""
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for value in limits:
        for n in (127, 128, 129, 2048, 70_000):
            for shape, axis in rows_and_columns(n):
                if np.prod(shape) <= 500_000:
                    array = np.full(shape, value, dtype)
                    for op in ("sum", "count"):
                        check(array, op, "cpu", axis=axis)


def test_a_long_search_ends_at_the_first_hit(rng):
    """Many threads search many chunks; the first hit counts."""
    n = 3_000_001
    for at in (0, 70_000, n - 1):
        array = np.zeros(n, bool)
        array[at] = array[-1] = True
        check(array, "argmax", "cpu", axis=0)
        check(array[::-1], "argmax", "cpu", axis=0)
        check(~array, "argmin", "cpu", axis=0)
        for op in ("any", "all", "max", "min", "count"):
            check(array, op, "cpu", axis=0)
            check(~array, op, "cpu", axis=0)
        floats = rng.standard_normal(n, np.float32)
        floats[at] = floats[-1] = np.nan
        for op in ("argmax", "min"):
            check(floats, op, "cpu", axis=0)


@pytest.mark.parametrize("device", kinds())
def test_float32_sums_are_exact_along_every_axis(device, rng):
    array = (rng.random((300, 200), np.float32) - np.float32(0.5)) * np.float32(1e6)
    array[::7] *= np.float32(1e-6)
    for axis in (0, 1, None):
        exact = array.sum(axis=axis, dtype=np.float64).astype(np.float32)
        got = gpuopt.reduce(array, axis=axis, keepdims=axis is None, device=device)
        assert (np.abs(got - exact) <= np.spacing(np.abs(exact))).all()


@pytest.mark.parametrize("device", ["sim:g80", "sim:gt200"])
@pytest.mark.parametrize(
    ("op", "dtype", "shape"),
    [
        ("sum", "uint8", (30_000, 3, 1)),  # rows of three elements
        ("argmin", "float32", (5000, 4, 1)),  # within a vector
        ("sum", "float32", (1543, 48, 2)),  # slabs of few inner elements
        ("sum", "int8", (60_000, 2, 4)),  # slabs that fill it
    ],
)
def test_16_kib_of_shared_memory_are_enough(device, op, dtype, shape, rng):
    array = rng.integers(0, 99, shape).astype(dtype)
    got = gpuopt.reduce(array, op, axis=1, device=device)
    np.testing.assert_array_equal(got, of_numpy(array, op, axis=1))


def test_several_passes_over_overlapping_memory():
    """An overlapping layout with a gap spans exactly as many bytes as its elements."""
    few = np.lib.stride_tricks.as_strided(np.arange(8.0), (2, 2, 2), (0, 48, 8))
    for device in ("cpu", *(["sim"] if not KINDS["sim"] else [])):
        for op in ("sum", "argmax"):
            check(few, op, device, axis=(0, 2) if op == "sum" else None)


def test_the_longest_axis_is_reduced_first():
    """It leaves the fewest results for the next pass: 6 of (2, 3, 1000), not 3,000."""
    f4 = np.dtype(np.float32)
    work = axis_plan.axis_kernel("sum", f4, f4, 2000)
    first, second = axis_plan.passes(work, ((2, 3000, True), (3, 1000, False), (1000, 1, True)))
    assert (first.results, second.results) == (6, 3)


@pytest.mark.parametrize("device", kinds())
def test_same_bits_again(device, rng):
    array = rng.random((20_003, 3)).astype(np.float32)
    first = gpuopt.reduce(array, axis=0, dtype=np.float64, device=device)
    again = gpuopt.reduce(array, axis=0, dtype=np.float64, device=device)
    assert first.tobytes() == again.tobytes()


def test_the_cpus_rungs_give_the_same_bits(rng):
    array = rng.random((3, 70_000))
    for axis in (0, 1):
        serial = gpuopt.reduce(array, axis=axis, variant="serial")
        assert serial.tobytes() == gpuopt.reduce(array, axis=axis, variant="team").tobytes()


@pytest.mark.parametrize("device", [on("cuda", "cuda", id="cuda")])
def test_large_ones_on_a_gpu(device, rng):
    for shape, axis in (
        ((4096, 4096), 0),
        ((4096, 4096), 1),
        ((1 << 22, 3), 0),
        ((3, 1 << 22), 1),
        ((1 << 20, 48), 1),
        ((1 << 20, 50), 1),
        ((1 << 19, 120), 1),
        ((1 << 12, 16, 1024), 1),
    ):
        array = rng.random(shape, np.float32)
        for op in ("sum", "max", "argmax", "mean"):
            check(array, op, device, axis=axis)
