"""Arrays on a device in any layout: the right values, by plans of few launches."""

import textwrap

import numpy as np
import pytest
from conftest import kinds, strided as strided_there
from fake_driver import FAKE_LIBRARIES, with_producers

import gpuopt
from gpuopt.arrays.libraries import view_of
from gpuopt.families import vectors


def strided(rng, shape, dtype, repeats=True):
    """Return a host array of a shape: permuted, reversed, stepped or broadcast axes."""
    order = rng.permutation(len(shape))
    steps = [int(rng.choice([1, 1, 1, 2, -1, -2])) for _ in shape]
    repeated = [repeats and rng.random() < 0.2 for _ in shape]
    axes = list(zip(shape, steps, repeated, strict=True))
    sizes = [1 if again else n * abs(step) for n, step, again in axes]
    start, size = int(rng.integers(0, 5)), int(np.prod(sizes))
    room = rng.integers(-1000, 1000, start + size + 7).astype(dtype)
    memory = room[start : start + size].reshape([sizes[k] for k in order])
    turned = memory.transpose(np.argsort(order))
    found = turned[(..., *(slice(None, None, 1 if again else step) for _, step, again in axes))]
    return room, np.broadcast_to(found, shape)


def there(room, host):
    """Return the simulated GPU's copy of the memory, and the View of the array in it."""
    memory = gpuopt.asarray(room, "sim")
    offset = host.__array_interface__["data"][0] - room.__array_interface__["data"][0]
    view = view_of(memory, "x")
    return memory, view.replace(
        address=view.address + offset, shape=host.shape, strides=host.strides
    )


def planned(operands, out=None, factor=None, variant=None):
    """Run the plan of a sum on the simulated GPU."""
    dtypes = vectors._ADDED if factor is None else vectors._SCALED
    family = "add" if factor is None else "saxpy"
    plan = vectors._there(family, dtypes, operands, factor, variant, out, None, None)
    given = operands if factor is None else [factor, *operands]
    return plan.run(*given, None, out)


@pytest.mark.parametrize("dtype", [name for name in vectors._ADDED if name != "bfloat16"])
def test_operands_of_any_layout_match_numpy(dtype, rng):
    for _ in range(60):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 8, 12, 32], rng.integers(0, 5)))
        (room_x, x), (room_y, y) = (strided(rng, shape, dtype) for _ in range(2))
        (keep_x, view_x), (keep_y, view_y) = there(room_x, x), there(room_y, y)
        np.testing.assert_array_equal(planned([view_x, view_y]).get(), x + y)
        if dtype != "bool":  # NumPy makes it int64
            got = planned([view_x, 7], variant=8).get()
            np.testing.assert_array_equal(got, x + x.dtype.type(7))
        if x.dtype.kind == "f":
            got = planned([view_x, view_y], factor=0.5).get()  # a product by 0.5 is exact
            np.testing.assert_array_equal(got, x.dtype.type(0.5) * x + y)
        assert keep_x.size and keep_y.size


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_results_of_any_layout_leave_their_gaps_alone(dtype, rng):
    for _ in range(40):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 12], rng.integers(1, 4)))
        (room_x, x), (room_out, out) = (strided(rng, shape, dtype, False) for _ in range(2))
        (keep, view_x), (memory, target) = there(room_x, x), there(room_out, out)
        out.flags.writeable = True  # a broadcast to its own shape is read-only
        for operands, want in (([view_x, target], x + out), ([target, -3], x + out - 3)):
            assert planned(operands, target) is target  # in place, too
            out[...] = want
            np.testing.assert_array_equal(memory.get(), room_out)
        assert keep.size


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_large_broadcasts_match_numpy(dtype, rng):
    """Groups of 16 bytes, tails, unaligned rows, single elements."""
    for rows, columns in ((700, 1024), (301, 1027), (3, 100_003), (50_000, 3), (1, 65_537)):
        x = (9 * rng.standard_normal((rows, columns))).astype(dtype)
        row, column = x[-1].copy(), x[:, :1].copy()
        there_x = gpuopt.asarray(x, "sim")
        for other in (row, column, row[:1].copy()):
            got = gpuopt.add(there_x, gpuopt.asarray(other, "sim")).get()
            np.testing.assert_array_equal(got, x + other)
        number = 3 if dtype == "int8" else 1.5
        np.testing.assert_array_equal(gpuopt.add(there_x, number).get(), x + x.dtype.type(number))
        np.testing.assert_array_equal(gpuopt.add(x, row, device="sim"), x + row)
        np.testing.assert_array_equal(gpuopt.add(x, 2, device="sim", variant="strided"), x + 2)


def test_numbers_are_rounded_to_the_arrays_type_as_numpy_rounds():
    for dtype, numbers in (
        ("float16", [0.1, -0.1, 65519.9, 65520.0, 1e9, 6e-8, 3e-8, 2.98e-8, 1e-300, 2049, 2051.0]),
        ("float16", [float("nan"), float("inf"), -float("inf"), -0.0, 6.1e-5, 6.09e-5]),
        ("float16", [1.00048828125, 1.0004882812501]),
        ("uint8", [0, 255]), ("int8", [-128, 127]), ("uint16", [65535]), ("uint32", [2**32 - 1]),
    ):  # fmt: skip
        zero = np.zeros(3, dtype)
        there_zero = gpuopt.asarray(zero, "sim")
        for number in numbers:
            with np.errstate(all="ignore"):
                want = zero + zero.dtype.type(number)
            np.testing.assert_array_equal(gpuopt.add(there_zero, number).get(), want)
    for dtype, number in (("uint8", 256), ("uint8", -1), ("int16", 1 << 15)):
        with pytest.raises(OverflowError, match="y: "):
            gpuopt.add(gpuopt.asarray(np.zeros(3, dtype), "sim"), number)


def test_bfloat16_sums_match_ml_dtypes(rng):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x, y = (rng.standard_normal(shape).astype(bfloat16) for shape in ((40, 24), (24,)))
    for device in ("sim", "cpu"):
        got = gpuopt.add(x, y, device=device)
        assert got.dtype == bfloat16 and got.tobytes() == (x + y).tobytes()
    there_x = gpuopt.asarray(x, "sim")
    assert gpuopt.add(there_x, 0.3).get().tobytes() == (x + bfloat16(0.3)).tobytes()
    scaled = gpuopt.saxpy(0.5, there_x, gpuopt.asarray(x, "sim")).get()
    assert scaled.tobytes() == (bfloat16(0.5) * x + x).tobytes()


def test_ordinary_operands_cost_one_launch_and_no_copy(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        host = np.arange(24.0).reshape(4, 6)
        row, column = np.arange(6.0), np.arange(4.0).reshape(4, 1)
        for kind, stream in ((cupy_ndarray, "5500"), (tensor, "6600")):
            x, out = kind(host), kind(np.zeros((4, 6)))
            def cost(call):
                for _ in range(3):
                    forget()
                    before = get("calls"), get("live")
                    found = call()
                    after = get("calls"), get("live")
                assert type(found) is kind and after[1] == before[1]
                assert story() == f"launch {stream};", story()
                return after[0] - before[0]
            least = cost(lambda: gpuopt.add(x, x))
            for call in (
                lambda: gpuopt.add(x, 3),
                lambda: gpuopt.add(2.5, x),
                lambda: gpuopt.add(x, kind(row)),
                lambda: gpuopt.add(kind(column), kind(row)),
                lambda: gpuopt.add(x, kind(host.copy(order="F"))),
                lambda: gpuopt.add(kind(host[:, ::2]), kind(host[:, ::-2])),
                lambda: gpuopt.add(kind(host[:3]), kind(host[1:])),  # they overlap
                lambda: gpuopt.add(x, 3, out=x),
                lambda: gpuopt.add(kind(host[:, :3]), 1, out=kind(out.host[:, 3:])),
                lambda: gpuopt.saxpy(2.0, x, kind(row)),
                lambda: gpuopt.saxpy(2.0, x, 1.0, out=out),
                lambda: gpuopt.transpose(kind(host[:, ::2])),
                lambda: gpuopt.reduce(kind(host[::-1, ::2]), axis=0),
            ):
                assert cost(call) <= least
            for weights in (np.array([1.0, 2.0, 1.0]), [1.0, 2.0, 1.0], (1, 2, 1), np.ones(101)):
                gpuopt.stencil1d(x, weights=weights)
                live = get("live")
                forget()
                gpuopt.stencil1d(x, weights=weights)
                assert story() == f"launch {stream};wait 1;" and get("live") == live, story()
        """),
    )


def as_array(view):
    """Return an array on the device with a View of any layout."""
    array = gpuopt.DeviceArray.__new__(gpuopt.DeviceArray)
    array._view = view
    return array


MODES = ["constant", "nearest", "reflect", "mirror", "wrap"]
ALONG = {"sum": np.sum, "mean": np.mean, "argmax": np.argmax, "any": np.any, "prod": np.prod}


def test_passes_around_a_call_match_numpy_and_scipy(rng):
    """Strided operands, other axes, and reductions of several passes."""
    pytest.importorskip("scipy")
    from scipy import ndimage

    for _ in range(40):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8], rng.integers(1, 4)))
        room, x = strided(rng, shape, "float64", repeats=False)
        memory, view = there(room, x)
        given, axis = as_array(view), int(rng.integers(len(shape)))
        mode, weights = str(rng.choice(MODES)), rng.integers(-3, 4, 5).astype(float)
        got = gpuopt.stencil1d(given, weights=weights, mode=mode, axis=axis)
        np.testing.assert_allclose(
            got.get(), ndimage.correlate1d(x, weights, axis, mode=mode), atol=1e-9
        )
        op = str(rng.choice([*ALONG]))
        along = axis if op == "argmax" or rng.random() < 0.5 else (0, len(shape) - 1)
        along = axis if len(shape) < 2 else along
        got, want = gpuopt.reduce(given, op, axis=along), ALONG[op](x, axis=along)
        np.testing.assert_allclose(got.get(), want, rtol=1e-12, atol=1e-9)
        square = rng.random() < 0.5 and len(shape) == 2
        if square:
            other = as_array(view.replace(shape=shape[::-1], strides=x.strides[::-1]))
            np.testing.assert_allclose(gpuopt.matmul(given, other).get(), x @ x.T, atol=1e-9)
        assert memory.size


def test_stencils_read_rows_with_gaps_in_place(rng):
    """Slices and steps of rows; few and many rows, shorter and longer than the window."""
    ndimage = pytest.importorskip("scipy.ndimage")
    for turn in range(60):
        shape = tuple(int(n) for n in rng.integers(1, [[5000], [30, 300], [3, 9, 60]][turn % 3]))
        dtype, mode = str(rng.choice(["float32", "float64", "int64"])), str(rng.choice(MODES))
        steps = rng.integers(1, 4, len(shape)) if rng.random() < 0.5 else [1] * len(shape)
        room = rng.integers(-50, 50, [n * step + 3 for n, step in zip(shape, steps, strict=True)])
        room = room.astype(dtype)
        x = room[tuple(slice(2, 2 + n * s, s) for n, s in zip(shape, steps, strict=True))]
        if rng.random() < 0.3:
            x = room = np.ascontiguousarray(x)
        memory, view = there(room, x)
        weights = rng.integers(-4, 5, 2 * int(rng.integers(0, rng.choice([4, 12, 70]))) + 1)
        given = weights if rng.random() < 0.5 else weights.size // 2
        call = {"weights": given} if given is weights else {"radius": given}
        call["axis"] = axis = int(rng.integers(len(shape)))
        got = gpuopt.stencil1d(as_array(view), mode=mode, cval=3, **call).get()
        taps = weights if given is weights else np.ones(weights.size)
        want = ndimage.correlate1d(x.astype(float), taps, axis, mode=mode, cval=3)
        assert np.array_equal(got, want), (shape, steps, dtype, mode, weights.size)
        assert memory.size


def test_passes_around_a_call_cost_their_launches(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        from gpuopt.families import device_calls, device_reduce
        host = np.zeros((6, 8))
        class Strided(Interface):
            def __init__(self, host):
                super().__init__(host, 1, strides=host.strides)
        for kind in (cupy_ndarray, tensor, Strided):
            x, turned = kind(host[:, ::2]), kind(host.T)
            run, along = device_calls.run, device_reduce._along
            calls = {
                lambda: gpuopt.matmul(turned, kind(host)): 1,  # read in place: small
                lambda: gpuopt.stencil1d(x, weights=[1.0, 2.0, 1.0]): 1,  # in place: stepped
                lambda: gpuopt.stencil1d(kind(host), 1, axis=0): 1,  # in place: columns
                lambda: gpuopt.stencil1d(turned, 1): 2,
                lambda: gpuopt.reduce(kind(np.zeros((3, 4, 5))), axis=(0, 2)): 1,  # in one pass
                lambda: gpuopt.reduce(kind(host.T), "prod", axis=0, dtype=np.float64): 1,
            }
            for call in calls:
                call()  # known types have plans from the second call on
            device_calls.run = device_reduce._along = None  # the general functions
            for call, launches in calls.items():
                call()
                forget()
                before = get("live"), get("used")
                call()
                assert story().count("launch") == launches, (kind, story())
                gc.collect()
                assert (get("live"), get("used")) == before
            device_calls.run, device_reduce._along = run, along
        """),
    )


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "f8", "c16"])
def test_whole_boxes_with_short_last_axes(dtype):
    """The cpu copies rows of the last axis, whole ones and those that a chunk's border cuts."""
    rng = np.random.default_rng(5)
    for shape in (
        (600, 45, 27),
        (90, 31, 63),
        (300, 90, 2),
        (2000, 5, 13),
        (3, 7000, 3),
        (40, 40, 64),
    ):
        whole = rng.integers(-9, 9, shape).astype(dtype)
        for view in (
            whole[:, ::3],
            whole[:, 1:],
            whole[:, ::2, 1:],
            whole[:, ::-2, ::2],
            whole[1::2, :, :-1],
        ):
            assert gpuopt.reduce(view, "sum", device="cpu") == view.sum()
            if dtype != "c16":
                assert gpuopt.reduce(view, "max", device="cpu") == view.max()


@pytest.mark.parametrize("device", kinds()[1:])
def test_short_runs_and_narrow_columns_by_size(device, rng):
    """Short runs are moved one by one or by tiles, whole narrow columns as one run.

    Runs that are whole vectors are loaded without their gaps, and runs whose elements would need a
    long table are shortened.
    """
    for dtype, shape, part, axes in (
        ("int16", (29, 10607, 9), np.s_[:, :, 3:6], (1, 2, 0)),
        ("float64", (92, 2972, 3), np.s_[:, ::2], (1, 2, 0)),
        ("uint8", (300, 2000, 20), np.s_[:, :, 4:12], (1, 2, 0)),
        ("float32", (1800, 2, 3, 170), np.s_[:], (0, 1, 3, 2)),
        ("int16", (75, 300_000), np.s_[:], (1, 0)),
        ("uint8", (5, 41, 170_000), np.s_[:], (2, 0, 1)),
        ("uint8", (1 << 20, 2, 8), np.s_[::2], (2, 0, 1)),
        ("uint8", (4000, 12, 373), np.s_[:], (0, 2, 1)),
        ("uint8", (900, 200, 100), np.s_[:, :, 10:13], (1, 0, 2)),
    ):
        if device == "sim" and np.dtype(dtype).itemsize * np.prod(shape) > 24 << 20:
            continue
        whole = rng.integers(0, 100, shape).astype(dtype)
        there, _holder = strided_there(whole[part], device)
        got = gpuopt.transpose(there, axes).get()
        assert got.tobytes() == whole[part].transpose(axes).tobytes(), (dtype, shape)
