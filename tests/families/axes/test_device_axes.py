"""Reductions of device arrays along axes, strided, reversed, and of bfloat16, against NumPy.

They are views of memory on the simulated GPU, which runs the very kernels; the same layouts of
CuPy, PyTorch, JAX and Numba follow on a GPU (test_libraries.py).
"""

import itertools

import numpy as np
import pytest
from test_reduce_axis import DTYPES, OTHERS, TOLERANCE, items_of, of_numpy, ops_of

import gpuopt
from gpuopt.arrays import device_array, libraries
from gpuopt.families import axis_plan, device_axes

pytestmark = pytest.mark.timeout(180)


class Strided:
    """A view of an array on the simulated GPU: what another library would lend."""

    def __init__(self, host, dtype=None):
        """Put the memory under `host` there, and describe `host` in it."""
        base = host
        while isinstance(base.base, np.ndarray):
            base = base.base
        run = np.ascontiguousarray(base) if not base.flags.c_contiguous else base
        assert run is base or base.flags.f_contiguous or base.ndim == 1
        run = base if base.flags.c_contiguous else base.T
        raw = run.reshape(-1).view(np.uint8)
        self.memory = gpuopt.asarray(raw, device="sim")
        offset = host.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        self.view = libraries.View(
            device_array.OWN,
            self.memory.address + offset,
            host.shape,
            host.strides,
            host.dtype if dtype is None else dtype,
            self.memory.device,
            libraries.LEGACY,
            self,
        )


@pytest.fixture(autouse=True)
def lent(monkeypatch):
    monkeypatch.setitem(libraries._known, Strided, lambda value, name: value.view)


def layouts(array):
    """Yield an array's elements in several layouts."""
    yield "C", array
    yield "Fortran", np.asfortranarray(array)
    yield "reversed", np.ascontiguousarray(np.flip(array))[(slice(None, None, -1),) * array.ndim]
    wide = np.repeat(np.repeat(array, 2, 0), 3, array.ndim - 1).copy()
    yield "gaps", wide[::2][..., ::3]
    turned = np.ascontiguousarray(array.transpose(np.roll(np.arange(array.ndim), 1)))
    yield "permuted", turned.transpose(np.roll(np.arange(array.ndim), -1))
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + 8), array.dtype)
    wide[..., 8:] = array
    yield "a part of rows", wide[..., 8:]


def compare(got, array, op, **arguments):
    want = np.asarray(of_numpy(array, op, **arguments))
    assert type(got) is gpuopt.DeviceArray
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (op, arguments)
    got = got.get()
    if op not in ("sum", "prod", "mean") or want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=f"{op} {arguments}")
        return
    axes = {name: each for name, each in arguments.items() if name in ("axis", "keepdims")}
    with np.errstate(all="ignore"):
        scale = np.abs(array.astype(np.complex128)).sum(**axes) if op != "prod" else np.abs(want)
        scale = scale / (array.size / max(1, want.size)) if op == "mean" else scale
        error = np.abs(got.astype(np.complex128) - want)
    bound = TOLERANCE[want.real.dtype.itemsize] * (scale + 1e-300)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    assert (same | (error <= bound)).all(), (op, arguments)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_every_operation_of_every_dtype(dtype, rng):
    array = items_of(rng, dtype, (4, 21, 6))
    views = [view for _, view in layouts(array)]
    for k, op in enumerate(ops_of(dtype)):
        if np.dtype(dtype).kind == "c" and op == "prod":
            with pytest.raises(TypeError, match="complex"):
                gpuopt.reduce(Strided(array), op, axis=0)
            continue
        for j, axis in enumerate((0, 1, -1, (0, 2), None)):
            if op in ("argmin", "argmax") and isinstance(axis, tuple):
                continue
            x = Strided(views[(k + j) % len(views)])
            compare(
                gpuopt.reduce(x, op, axis=axis, keepdims=j == 1),
                array,
                op,
                axis=axis,
                keepdims=j == 1,
            )


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_axis_of_one_element_is_copied_in_the_order_of_the_result(dtype, rng):
    """One launch: no second one turns the results."""
    array = items_of(rng, dtype, (1, 41, 43, 39))
    if array.dtype.kind == "f":
        array[0, 0, 0, :4] = np.nan, -0.0, np.inf, -np.inf
    for order, axis in itertools.product(((3, 2, 1, 0), (2, 0, 1, 3)), (0, 1, 2, 3)):
        turned = array.transpose(order)
        for op in ("min", "any", "argmin", "sum"):
            if turned.shape[axis] > 1 or (op == "sum" and array.dtype.kind not in "biu"):
                continue
            with gpuopt.profile() as told:
                got = gpuopt.reduce(Strided(turned), op, axis=axis)
            compare(got, turned, op, axis=axis)
            assert len(told.launches) == 1, (op, order, axis)


@pytest.mark.parametrize("shape", [(6, 40, 24), (64, 48), (300, 7), (1, 9, 1, 5), (2, 3, 4, 5, 6)])
def test_axes_of_every_layout(shape, rng):
    array = (rng.random(shape) * 1000 - 300).astype("f4")
    for (name, view), op in itertools.product(layouts(array), ("sum", "max", "argmax")):
        x = Strided(view)
        for axis in (None, *range(len(shape))):
            try:
                compare(gpuopt.reduce(x, op, axis=axis), array, op, axis=axis)
            except AssertionError as error:
                raise AssertionError(f"{name} {op} {axis}") from error


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((31, 37, 2), (0, 2)),  # lanes take adjacent results,
        ((4, 6, 50), (0, 2)),  # or adjacent elements
        ((300, 30), (0, 1)),  # one result: chunks of several blocks
        ((3, 5, 2, 7), (1, 3)),
        ((2, 3, 4, 5), (0, 1, 3)),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_two_reduced_axes_with_gaps_in_one_pass(dtype, shape, axes, rng):
    array = items_of(rng, dtype, shape)
    wide = np.zeros((*shape[:-1], 2 * shape[-1] + 3), dtype)
    wide[..., 1:-2:2] = array
    for op in ("sum", "mean", "max", "all", "count"):
        compare(gpuopt.reduce(Strided(wide[..., 1:-2:2]), op, axis=axes), array, op, axis=axes)
    counted = gpuopt.profile(gpuopt.reduce, Strided(wide[..., 1:-2:2]), axis=axes)
    assert len(counted.launches) == 1


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 40_001), 0), ((9, 1201), 0), ((3000, 11), 1), ((500, 63), 1)]
)
def test_elements_one_by_one(dtype, shape, axis, rng):
    """Unaligned columns and short rows with gaps beside them: one or several results a thread."""
    array = items_of(rng, dtype, shape)
    wide = np.zeros((shape[0], shape[1] + 4), dtype)
    wide[:, 1:-3] = array
    for op in ("sum", "min", "any", "argmax"):
        compare(gpuopt.reduce(Strided(wide[:, 1:-3]), op, axis=axis), array, op, axis=axis)


@pytest.mark.parametrize(("rows", "columns"), [(300, 130), (500, 150)])
def test_rows_with_gaps_in_chunks(rows, columns, rng):
    """Rows become adjacent columns and are split into partial results at the same time."""
    array = (rng.random((rows, columns)) * 1000 - 300).astype("f4")
    wide = np.repeat(array, 2, 1)
    for op in ("sum", "mean", "min", "any", "count", "argmax"):
        compare(gpuopt.reduce(Strided(wide[:, ::2]), op, axis=1), array, op, axis=1)
    turned = np.ascontiguousarray(wide[::-1, ::-1])[::-1, ::-1][:, ::2]
    for op in ("sum", "argmin"):
        compare(gpuopt.reduce(Strided(turned), op, axis=1), array, op, axis=1)
    counted = gpuopt.profile(gpuopt.reduce, Strided(wide[:, ::2]), axis=1)
    (launch,) = counted.launches
    assert launch.grid[0] > -(-rows // 64)  # chunks, whose results the last blocks combine


@pytest.mark.parametrize(("rows", "columns"), [(4001, 640), (40_001, 128)])
def test_chunks_of_columns(rows, columns, rng):
    """The last blocks combine partial results; a second launch would cost more."""
    array = (rng.random((rows, columns)) * 1000 - 300).astype("f4")
    x = gpuopt.asarray(array, device="sim:h200")
    for op in ("sum", "min", "any", "argmax"):
        for _ in range(2):  # the counters are ready for the next call
            counted = gpuopt.profile(gpuopt.reduce, x, op, axis=0)
            compare(counted.result, array, op, axis=0)
    assert len(counted.launches) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_nth_item_of_rows(dtype, rng):
    """Vector loads cover elements of which only some count, at any offset and count."""
    for step in (2, 3, 5, 7, 16, 31):
        for rows, items in ((3, 700), (1, 5001), (7, 129)):
            array = items_of(rng, dtype, (rows, items))
            wide = items_of(rng, dtype, (rows, items * step + 5))  # what does not count
            places = (slice(None), slice(3, 3 + items * step, step))
            wide[places] = array
            ops = [op for op in ("sum", "min", "argmin", "argmax", "xor") if op in ops_of(dtype)]
            for op in rng.choice(ops, 2, replace=False):
                compare(gpuopt.reduce(Strided(wide[places]), op, axis=1), array, op, axis=1)
            turned = wide[:, ::-1].copy()[:, ::-1][places]
            compare(gpuopt.reduce(Strided(turned), "argmax", axis=1), array, "argmax", axis=1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16"])
def test_extremes_ignore_elements_outside_the_row(dtype):
    """Padding is never the position of the extreme."""
    largest = np.inf if dtype.startswith("float") else np.iinfo(dtype).max
    for step in (2, 3):
        wide = np.full((4, 900 * step), 1, dtype)
        wide[:, 1::step] = largest
        for op in ("argmin", "argmax"):
            for view in (wide[:, 1::step], wide[:, ::-1].copy()[:, ::-1][:, 1::step]):
                array = np.ascontiguousarray(view)
                compare(gpuopt.reduce(Strided(view), op, axis=1), array, op, axis=1)
                assert (array == largest).all()


def test_random_layouts(rng):
    """Strided, sliced, reversed, broadcast and permuted views of up to six axes."""
    for _ in range(60):
        ndim = int(rng.integers(1, 7))
        shape = rng.choice([1, 2, 3, 5, 8], ndim)
        base = items_of(rng, str(rng.choice(["i2", "f4", "f8", "u1"])), tuple(shape))
        view = base[
            tuple(
                slice(None, None, int(rng.choice([1, 2, -1, -2])))
                if rng.random() < 0.6
                else slice(int(rng.integers(0, max(1, size - 1))), None)
                for size in shape
            )
        ].transpose(rng.permutation(ndim))
        if rng.random() < 0.3:
            view = np.broadcast_to(view[..., :1], (*view.shape[:-1], 4))
        op = str(rng.choice(ops_of(base.dtype)))
        axes = tuple(int(k) for k in np.flatnonzero(rng.random(ndim) < 0.5))
        axis = int(rng.integers(-ndim, ndim)) if op in ("argmin", "argmax") else axes
        compare(gpuopt.reduce(Strided(view), op, axis=axis), np.array(view), op, axis=axis)


def test_many_axes_that_cannot_be_merged(rng):
    base = rng.integers(0, 100, (4,) * 9).astype("i2")
    view = base[(slice(None, None, 2),) * 8 + (slice(None, 3),)]
    x, want = Strided(view), np.array(view)
    for axis in (0, 4, (1, 3, 5, 7)):
        compare(gpuopt.reduce(Strided(view[0]), axis=axis), want[0], "sum", axis=axis)
    with pytest.raises(ValueError, match="9 axes that cannot be merged"):
        gpuopt.asarray(x)
    one = Strided(view[0])
    np.testing.assert_array_equal(gpuopt.asarray(one).get(), want[0])


def test_read_in_place(rng, monkeypatch):
    """No layout is copied before a reduction along axes."""
    array = rng.random((12, 20, 16)).astype("f4")
    monkeypatch.setattr(device_axes, "compact", lambda view: pytest.fail("a copy"))
    monkeypatch.setattr(
        gpuopt.families.device_reduce, "compact", lambda view: pytest.fail("a copy")
    )
    for _, view in layouts(array):
        for op, axis in itertools.product(("sum", "argmin"), (0, 1, 2)):
            compare(gpuopt.reduce(Strided(view), op, axis=axis), array, op, axis=axis)
        compare(gpuopt.reduce(Strided(view), "sum"), array, "sum", axis=None)


def test_short_gaps_beside_narrow_elements_are_read(rng, monkeypatch):
    """Columns of gaps are reduced too, and left out of the result."""
    monkeypatch.setattr(axis_plan, "_GAPS_LEAST", 0)
    for plan in (axis_plan.passes, axis_plan.scheme_of):
        plan.cache_clear()
    base = rng.integers(-9, 9, (3, 40, 7, 61))
    for dtype in ("i1", "f2"):
        x = base.astype(dtype)
        for view, axes in (
            (x[..., 3:58], (1,)),
            (x[1, :, :, 5:60], (0,)),
            (x[..., 8:56], (0, 1, 2, 3)),
        ):
            found = axis_plan.scheme_of(view.shape, view.strides, x.dtype, "max", axes, x.dtype)
            assert len(found.passes) == 2
            for op in ("sum", "max", "all", "mean"):
                compare(gpuopt.reduce(Strided(view), op, axis=axes), view, op, axis=axes)


@pytest.mark.parametrize(("dtype", "of_thread"), [("float32", 4), ("int64", 3)])
def test_a_thread_takes_several_results_of_short_rows(dtype, of_thread, rng):
    """Few rows of few columns, in slabs with gaps between them; the last block is not full."""
    base = rng.integers(-99, 99, (40_002, 4, 26)).astype(dtype)
    view = (base * (rng.random(base.shape) < 0.5).astype(dtype))[::2]
    for op in ("sum", "max", "any", "argmin"):
        with gpuopt.profile(device="sim") as profiled:
            got = gpuopt.reduce(Strided(view), op, axis=1)
        compare(got, view, op, axis=1)
        blocks = -(-view[:, 0].size // (256 * of_thread))
        assert [launch.grid[0] for launch in profiled.launches] == [blocks], op


def test_indices_of_reversed_axes(rng, monkeypatch):
    """Among equal extremes the caller's first wins, although memory is read forwards."""
    monkeypatch.setattr(
        gpuopt.families.device_reduce, "compact", lambda view: pytest.fail("a copy")
    )
    for dtype in ("u1", "f4"):
        items = rng.integers(0, 50, 70_001).astype(dtype)  # enough for many chunks
        if dtype == "f4":
            items[[11, 60_000]] = np.nan
        for view in (items[::-1], items[::-3], items[:70_000].reshape(10, -1)[::-1, ::-1]):
            for op in ("argmin", "argmax"):
                compare(gpuopt.reduce(Strided(view), op), view, op, axis=None)
                compare(gpuopt.reduce(Strided(view), op, axis=-1), view, op, axis=-1)
                again = gpuopt.reduce(view, op, axis=0, device="cpu")
                np.testing.assert_array_equal(again, getattr(np, op)(view, axis=0))
        rows = items[: 16 * 1400 * 3].reshape(-1, 3)[::-1]  # several of them are taken for one
        for op in ("argmin", "argmax"):
            compare(gpuopt.reduce(Strided(rows), op, axis=0), rows, op, axis=0)


def test_odd_addresses_and_strides():
    packed = np.zeros(30, [("a", "u1"), ("b", "f4"), ("c", "u1")])
    packed["b"] = np.arange(30)
    raw = packed.view(np.uint8)
    field = np.ndarray((30,), "f4", raw, 1, (6,))
    assert gpuopt.reduce(Strided(field)).item() == 435
    assert gpuopt.reduce(Strided(field[::-1]), "argmax").item() == 0
    np.testing.assert_array_equal(gpuopt.asarray(Strided(field)).get(), np.arange(30))
    shifted = np.ndarray((5,), "f8", raw[:41], 1)
    shifted[:] = range(5)
    assert gpuopt.reduce(Strided(shifted), "mean").item() == 2
    pairs = np.zeros((6, 5), [("z", "c8"), ("b", "f4")])  # whole floats apart, not whole pairs
    pairs["z"] = np.arange(30).reshape(6, 5) * (1 - 2j)
    for axis in (0, 1, None):
        compare(gpuopt.reduce(Strided(pairs["z"]), axis=axis), pairs["z"], "sum", axis=axis)
        compare(gpuopt.reduce(Strided(pairs["z"]), "any", axis=axis), pairs["z"], "any", axis=axis)


def test_rows_and_columns_without_vector_alignment(rng):
    """Rows of whole vectors at unaligned addresses, forwards and backwards."""
    for dtype in ("i1", "f2", "f4", "f8"):
        count = 16 // np.dtype(dtype).itemsize
        for rows, width in (
            (50, count),
            (40, 5 * count),
            (20, 40 * count),
            (7, 5000),
            (600, count),
        ):
            base = items_of(rng, dtype, (rows * width + 1,))
            for begin in (0, 1):
                view = base[begin : begin + rows * width].reshape(rows, width)
                for op, axis in itertools.product(("sum", "max", "argmin"), (0, 1)):
                    compare(gpuopt.reduce(Strided(view), op, axis=axis), view, op, axis=axis)
                turned = view[::-1, ::-1]
                for axis in (0, 1):
                    compare(
                        gpuopt.reduce(Strided(turned), "argmax", axis=axis),
                        turned,
                        "argmax",
                        axis=axis,
                    )


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_transposes_read_slices_in_place(dtype, rng):
    """Rows of any distance are moved by the transpose's kernels, at once and without a copy."""
    for shape, index, axes in (
        ((40, 50), np.s_[:, 3:44], (1, 0)),
        ((40, 50), np.s_[2:, 3:], (0, 1)),
        ((9, 20, 30), np.s_[::2, 1:17, :28], (2, 0, 1)),
        ((9, 20, 30), np.s_[:, ::3, 4:20], (1, 2, 0)),
        ((7, 5, 6, 11), np.s_[1:, :, 1:3], (3, 1, 0, 2)),
        ((6, 5, 4, 3, 13), np.s_[:, 1:, :, ::2, 2:9], (4, 2, 0, 3, 1)),
        ((64, 2, 3), np.s_[::3], (2, 1, 0)),
        ((102, 2), np.s_[1:97:3], (0, 1)),
        ((1, 9, 1, 70), np.s_[:, 2:7, :, 60:], (3, 2, 1, 0)),
    ):
        view = items_of(rng, {"c16": "complex128"}.get(dtype, dtype), shape)[index]
        counted = gpuopt.profile(gpuopt.transpose, Strided(view), axes)
        assert counted.result.get().tobytes() == view.transpose(axes).tobytes(), (shape, axes)
        (launch,) = counted.launches
        assert launch.kernel.startswith("transpose_vector"), (shape, axes)


def test_transposes_of_random_layouts(rng):
    for _ in range(60):
        shape = tuple(rng.integers(1, 9, rng.integers(1, 6)))
        view = items_of(rng, rng.choice(["u1", "i2", "f4", "f8"]), tuple(n + 5 for n in shape))
        view = view[
            tuple(slice(k, k + n) for k, n in zip(rng.integers(0, 6, 5), shape, strict=False))
        ]
        view = view[tuple(slice(None, None, k) for k in rng.choice([-1, 1, 1, 2], view.ndim))]
        view = view.transpose(rng.permutation(view.ndim))
        axes = tuple(rng.permutation(view.ndim))
        got = gpuopt.transpose(Strided(view), axes).get()
        assert got.tobytes() == view.transpose(axes).tobytes(), (view.shape, view.strides, axes)


def test_other_families_accept_any_layout(rng):
    a = rng.random((33, 40)).astype("f4")
    for name, view in layouts(a):
        x = Strided(view)
        np.testing.assert_array_equal(gpuopt.transpose(x).get(), a.T, err_msg=name)
        np.testing.assert_array_equal(gpuopt.add(x, x).get(), a + a, err_msg=name)
        product = gpuopt.matmul(x, Strided(view.T)).get()
        np.testing.assert_allclose(product, a @ a.T, rtol=1e-5, err_msg=name)
        row = gpuopt.stencil1d(Strided(view[3]), 2).get()
        np.testing.assert_allclose(row, gpuopt.stencil1d(a[3], 2, device="cpu"), rtol=1e-5)
        assert gpuopt.reduce(x, variant=3).item() == pytest.approx(a.sum(), rel=1e-5)
    out = gpuopt.asarray(a, device="sim")
    assert gpuopt.saxpy(2.0, Strided(a[:, ::-1]), out, out=out) is out
    np.testing.assert_allclose(out.get(), 2 * a[:, ::-1] + a, rtol=1e-6)
    for size in (1, 2, 4, 8, 16):
        items = rng.integers(0, 255, (17, 23 * size), np.uint8)[:, ::-1].copy().view(f"V{size}")
        dtype = {1: "i1", 2: "f2", 4: "u4", 8: "c8", 16: "c16"}[size]
        numbers = np.asfortranarray(items.view(dtype))
        turned = gpuopt.transpose(Strided(numbers)).get()
        assert turned.tobytes() == np.ascontiguousarray(numbers.T).tobytes()


def test_initial_is_combined_before_the_result_is_rounded():
    for dtype, items, op, initial, want in (
        ("f4", [1e30, 1e30], "prod", 1e-30, 1e30),
        ("f2", [60000, 60000], "sum", -60000, 60000),
        ("c8", [3e38, 3e38], "sum", -3e38, 3e38),
    ):
        x = Strided(np.array(items, dtype))
        for axis in (None, 0):
            got = gpuopt.reduce(x, op, axis=axis, initial=initial)
            np.testing.assert_allclose(got.get(), want, rtol=1e-3)
            assert got.dtype == dtype


def test_mean_in_a_wider_out_and_the_axis_of_a_single_item():
    out = gpuopt.empty((), np.float64, "sim")  # the mean of float32, not rounded to it
    gpuopt.reduce(Strided(np.array([1, 2, 2], "f4")), "mean", out=out)
    assert out.item() == 5 / 3
    assert gpuopt.reduce(Strided(np.array(3, "f4")), axis=-1).item() == 3


@pytest.mark.parametrize("op", ["sum", "count"])
def test_sums_of_bytes_do_not_overflow_32_bits(op):
    """2^40 rows that overlap, of 2^22 bytes: the partial results tell how many a thread takes."""
    x, rows = Strided(np.ones(64, np.uint8)), {"shape": (1 << 40, 1 << 22), "strides": (16, 1)}
    x.view = x.view.replace(**rows)
    with pytest.raises(gpuopt.DeviceMemoryError) as caught:
        gpuopt.reduce(x, op, axis=0)
    assert caught.value.bytes_asked == (1 << 40 >> 22) * (1 << 22) * 8


def test_out_initial_dtype_and_empty_arrays(rng):
    array = rng.integers(-100, 100, (6, 8, 5)).astype("i1")
    x = Strided(np.asfortranarray(array))
    out = gpuopt.empty((6, 5), np.int64, "sim")
    assert gpuopt.reduce(x, axis=1, out=out) is out
    np.testing.assert_array_equal(out.get(), array.sum(1))
    host = np.zeros((6, 5), np.float64)
    assert gpuopt.reduce(x, axis=1, out=host, dtype="i8") is host
    np.testing.assert_array_equal(host, array.sum(1))
    zero = np.zeros((), np.int64)
    assert gpuopt.reduce(x, out=zero) is zero and zero == array.sum()
    for sub, axis in ((np.zeros((), np.int64), None), (np.zeros((6, 5), np.int64), 1)):
        sub = sub.view(np.memmap)  # a subclass is an array of the host's; a masked one is not
        assert gpuopt.reduce(x, axis=axis, out=sub) is sub
        np.testing.assert_array_equal(sub, array.sum(axis))
        with pytest.raises(TypeError, match=r"out: .*ArrayType"):
            gpuopt.reduce(x, axis=axis, out=np.ma.array(sub))
    for op in ("sum", "prod", "min", "max", "and", "or", "xor"):
        for initial in (7, None):
            got = gpuopt.reduce(x, op, axis=2, initial=initial)
            want = gpuopt.reduce(array, op, axis=2, initial=initial, device="cpu")
            np.testing.assert_array_equal(got.get(), want)
            assert got.dtype == want.dtype
    got = gpuopt.reduce(Strided(array.astype("f4")[::2]), initial=2.5)
    assert got.item() == array[::2].sum() + 2.5 and got.dtype == np.float32
    for dtype in ("i2", "u1", "i8", "u8", "f4", "f8", "?"):
        for op in ("sum", "prod", "max"):
            got = gpuopt.reduce(x, op, axis=0, dtype=dtype)
            want = gpuopt.reduce(array, op, axis=0, dtype=dtype, device="cpu")
            np.testing.assert_allclose(got.get(), want, rtol=1e-6)
            assert got.dtype == want.dtype
    large = np.array([2**63, 2**64 - 2**12], np.uint64)
    got = gpuopt.reduce(Strided(large), dtype="f8", keepdims=True)
    assert got.get()[0] == large.astype("f8").sum()
    nothing = Strided(np.empty((3, 0, 2), "f4"))
    for op, value in (("sum", 0), ("prod", 1), ("any", 0), ("all", 1), ("count", 0)):
        got = gpuopt.reduce(nothing, op, axis=1)
        assert got.shape == (3, 2) and (got.get() == value).all()
    assert gpuopt.reduce(nothing, "max", axis=1, initial=3).get().tolist() == [[3, 3]] * 3
    assert np.isnan(gpuopt.reduce(nothing, "mean", axis=1).get()).all()
    assert gpuopt.reduce(nothing, "max", axis=0).shape == (0, 2)
    compare(gpuopt.reduce(x, axis=()), array, "sum", axis=())


def test_invalid_arguments_raise():
    x = Strided(np.ones((3, 4), "f4")[:, ::2])
    host = np.ones((3, 4), "f4")
    cases = [
        (gpuopt.families.reduce_axis.AxisError, "out of bounds", {"axis": 2}),
        (ValueError, "duplicate", {"axis": (0, -2)}),
        (ValueError, "op: 'median'", {"op": "median"}),
        (ValueError, "op: 'median'", {"op": "median", "axis": 0}),
        (ValueError, "initial: op='mean'", {"op": "mean", "initial": 3}),
        (ValueError, "initial: must be a scalar", {"axis": 0, "initial": [3]}),
        (ValueError, "7 is not a rung of a reduction along", {"axis": 0, "variant": 7}),
        (ValueError, "block", {"axis": 0, "block": 64}),
        (TypeError, "does not support dtype float32", {"axis": 0, "op": "xor"}),
        (TypeError, "convert the array on its device", {"axis": 0, "dtype": "i4"}),
        (ValueError, "out: has shape", {"axis": 0, "out": host}),
        (TypeError, "out: cannot cast", {"axis": 0, "out": np.ones(2, "i4"), "dtype": "f4"}),
        (ValueError, "out: is not C-contig", {"axis": 0, "out": Strided(host[0, ::2])}),
        (TypeError, "result's dtype", {"op": "any", "axis": 0, "out": Strided(host[0, :2])}),
        (ValueError, "device: the array", {"axis": 0, "device": "cpu"}),
    ]
    for kind, text, arguments in cases:
        with pytest.raises(kind, match=text):
            gpuopt.reduce(x, **arguments)
    memory = gpuopt.asarray(host, device="sim")
    row = libraries.view_of(memory, "").replace(shape=(4,))
    row = type("Row", (Strided,), {"__init__": lambda self: setattr(self, "view", row)})()
    libraries._known[type(row)] = lambda value, name: value.view
    with pytest.raises(ValueError, match="out: overlaps array"):
        gpuopt.reduce(memory, axis=0, out=row)
    del libraries._known[type(row)]
    text = Strided(np.ones(3, "f4"), np.dtype("V4"))
    with pytest.raises(TypeError, match="array: dtype"):
        gpuopt.reduce(text)


# --- bfloat16


@pytest.fixture
def bfloat16():
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


@pytest.mark.parametrize("device", ["cpu", "sim", "sim, on it"])
def test_bfloat16_reduces_along_axes(bfloat16, device, rng):
    for shape in ((5, 37, 6), (3000,), (64, 48)):
        array = rng.standard_normal(shape).astype(bfloat16)
        array.flat[::7] = 0
        wide = array.astype(np.float64)
        for op, axis in itertools.product(
            ("sum", "prod", "mean", "min", "max", "argmin", "argmax", "any", "all", "count"),
            (None, 0, -1),
        ):
            if device == "sim, on it":
                found = gpuopt.reduce(Strided(array[::-1]), op, axis=axis).get()
                want = np.asarray(of_numpy(wide[::-1], op, axis=axis))
            else:
                found = np.asarray(gpuopt.reduce(array, op, axis=axis, device=device))
                want = np.asarray(of_numpy(wide, op, axis=axis))
            if op not in (*OTHERS, "mean") or op == "mean":
                assert found.dtype == bfloat16  # rounded once, from float64
                want = want.astype(bfloat16)
            np.testing.assert_array_equal(found.astype("f8"), want.astype("f8"), f"{op} {axis}")


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_bfloat16_and_float16_at_their_limits(bfloat16, device):
    big = np.array([3e38] * 8 + [-3e38] * 8 + [1.5] * 3, bfloat16)
    assert float(gpuopt.reduce(big, axis=0, device=device)) in (0.0, 1.5, 3.0, 4.5)
    assert gpuopt.reduce(big[:16], device=device) == 0
    assert np.isposinf(gpuopt.reduce(big[:8], device=device))
    columns = np.repeat(np.array([3e38] * 9 + [-3e38] * 9, bfloat16)[:, None], 8, 1)
    assert (gpuopt.reduce(columns, axis=0, device=device).astype("f4") == 0).all()
    assert (gpuopt.reduce(np.tile(big[:16], (3, 2)), axis=1, device=device).astype("f4") == 0).all()
    assert np.isnan(gpuopt.reduce(np.array([1, np.nan], bfloat16), "min", device=device))
    assert gpuopt.reduce(np.array([5, np.nan, 7], bfloat16), "argmax", device=device) == 1
    assert gpuopt.reduce(np.array([], bfloat16), device=device) == 0
    found = gpuopt.reduce(np.ones(4, bfloat16), initial=3, device=device)
    assert found == 7 and found.dtype == bfloat16
    found = gpuopt.reduce(np.ones(4, "f4"), axis=0, dtype=bfloat16, device=device)
    assert found == 4 and found.dtype == bfloat16
    # ties to even, just above them, subnormal numbers, overflow: each rounded once
    pairs = [(256, 1), (258, 1), (256, 1 + 2**-7), (2**-126, 2**-133), (3.38e38, 3e38), (-258, -1)]
    for kind in (bfloat16, np.dtype(np.float16)):
        items = np.array(pairs, bfloat16).astype("f4")
        with np.errstate(all="ignore"):
            rounded = items.astype(kind)
            want = rounded.astype("f8").sum(1).astype(kind)
        found = gpuopt.reduce(rounded, axis=1, device=device)
        assert found.tobytes() == want.tobytes()


def test_bfloat16_arrays_of_ours(bfloat16, rng):
    host = rng.standard_normal((20, 30)).astype(bfloat16)
    array = gpuopt.asarray(host, device="sim")
    assert array.dtype == bfloat16 and array.get().tobytes() == host.tobytes()
    turned = gpuopt.transpose(array)
    assert turned.dtype == bfloat16 and turned.get().tobytes() == host.T.tobytes()
    assert gpuopt.transpose(host, device="cpu").tobytes() == host.T.tobytes()
    total = gpuopt.reduce(array)
    assert total.dtype == bfloat16 and total.item() == host.astype("f8").sum().astype(bfloat16)
    assert gpuopt.reduce(array, dtype="f4").dtype == np.float32
    assert gpuopt.reduce(array, initial=1000).item() == (
        host.astype("f8").sum().astype(bfloat16).astype("f8") + 1000
    ).astype(bfloat16)
    twice = gpuopt.add(array, array)  # exact
    assert twice.dtype == bfloat16 and twice.get().tobytes() == (host + host).tobytes()
    with pytest.raises(TypeError, match="bfloat16"):
        gpuopt.reduce(array, variant=7)


def test_bfloat16_without_ml_dtypes(bfloat16, monkeypatch, rng):
    """Without ml_dtypes, another library's elements use an opaque dtype, with the same values."""
    stand_in = gpuopt.arrays.dtypes._STAND_IN
    host = rng.standard_normal((6, 40)).astype(bfloat16)
    monkeypatch.setattr(gpuopt.arrays.dtypes, "bfloat16", lambda: stand_in)
    x = Strided(host.view(stand_in))
    for op in ("sum", "max", "mean"):
        found = gpuopt.reduce(x, op, axis=1)
        assert found.dtype == stand_in
        want = of_numpy(host.astype("f8"), op, axis=1).astype(bfloat16)
        assert found.get().tobytes() == want.tobytes()
    assert gpuopt.transpose(x).get().tobytes() == host.T.tobytes()
    assert gpuopt.reduce(x, "argmax").item() == np.argmax(host)
