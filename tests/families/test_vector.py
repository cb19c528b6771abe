"""Add and saxpy on every rung of every device, against NumPy: add bit for bit, saxpy to an ulp."""

import itertools
import tracemalloc

import numpy as np
import pytest
from conftest import KINDS, blocks_of, device_rungs, kinds, on, strided

import gpuopt
from gpuopt import _core
from gpuopt.arrays import device_array
from gpuopt.arrays.dtypes import by_name
from gpuopt.families import cases, registry, vector_passes, vectors

SIZES = [1, 2, 31, 33, 512, 513, 1000, 1024, 4096, 70_001]


def takes(rung, n, block):
    """Return whether a rung supports n elements."""
    if rung.name == "threads":
        return n <= 1024
    return rung.name != "blocks-threads" or n % (block or rung.block_default) == 0


def draw(rng, dtype, n):
    dtype = np.dtype(dtype)
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
    return rng.standard_normal(n).astype(dtype)


def any_layout(rng, dtype, shape):
    """Return an array that broadcasts to a shape, its axes in any order, with gaps or reversed."""
    axes = len(shape)
    order = rng.permutation(axes) if rng.random() < 0.7 else np.arange(axes)
    own = [1 if rng.random() < 0.15 else int(n) for n in shape]
    steps = [int(rng.choice([1, 1, 1, 2, -1])) for _ in own]
    extents = [own[k] * abs(steps[k]) for k in order]
    whole = rng.integers(-100, 100, extents).astype(dtype).transpose(np.argsort(order))
    found = whole[tuple(slice(None, None, step) for step in steps)]
    if axes and rng.random() < 0.15:  # repeats itself
        strides = (0 if k == 0 else step for k, step in enumerate(found.strides))
        found = np.lib.stride_tricks.as_strided(found, found.shape, tuple(strides))
    return found[(0,) * int(rng.integers(0, axes + 1))] if rng.random() < 0.2 else found


def check_saxpy(got, a, x, y):
    wide = np.longdouble(a) * x.astype(np.longdouble)
    want = wide + y
    unit = np.finfo(x.dtype).eps
    assert got.dtype == x.dtype
    assert (np.abs(got - want) <= unit * (np.abs(wide) + np.abs(want))).all()


@pytest.mark.parametrize("device, rung", device_rungs(family="add"))
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_sums_of_every_rung_are_exact(device, rung, dtype, rng):
    for n in SIZES:
        x, y = draw(rng, dtype, n), draw(rng, dtype, n)
        for block in blocks_of(rung) if rung.block_max > 1 else [None]:
            call = {"variant": rung.variant, "block": block, "device": device}
            if not takes(rung, n, block):
                with pytest.raises(
                    gpuopt.UnfitError, match=r"variant: rung .* use variant='bounds'"
                ):
                    gpuopt.add(x, y, **call)
                continue
            got = gpuopt.add(x, y, **call)
            assert got.dtype == x.dtype and got.tobytes() == (x + y).tobytes()


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "uint8", "uint16", "uint32", "uint64", "float16"]
)
def test_add_of_every_type_that_numpy_adds(device, dtype, rng):
    for shapes in (
        ((70_001,),) * 2, ((300, 17), (17,)), ((300, 32), (300, 1)), ((), (5,)), ((0, 3), (3,)),
    ):  # fmt: skip
        x, y = (rng.integers(-100, 100, shape).astype(dtype) for shape in shapes)
        for got in (
            gpuopt.add(x, y, device=device),
            gpuopt.add(x, y, device=device, out=np.empty(np.broadcast(x, y).shape, dtype)),
        ):
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, x + y)
        if dtype == "float16" and x.size:
            np.testing.assert_array_equal(gpuopt.saxpy(2.0, x, y, device=device), x * 2 + y)


@pytest.mark.parametrize("device, rung", device_rungs(family="saxpy"))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_saxpy_of_every_rung_is_within_its_bound(device, rung, dtype, rng):
    for n in SIZES:
        x, y = draw(rng, dtype, n), draw(rng, dtype, n)
        call = {"variant": rung.variant, "device": device}
        if not takes(rung, n, None):
            with pytest.raises(gpuopt.UnfitError, match=r"variant: rung .* use variant='bounds'"):
                gpuopt.saxpy(2.5, x, y, **call)
            continue
        for a in (2.5, 0, -1, 1 / 3):
            check_saxpy(gpuopt.saxpy(a, x, y, **call), np.dtype(dtype).type(a), x, y)


@pytest.mark.parametrize("device", kinds())
def test_shapes_dtypes_and_out(device, rng):
    x, y = draw(rng, "float32", 60).reshape(3, 4, 5), draw(rng, "float32", 5)
    assert np.array_equal(gpuopt.add(x, y, device=device), x + y)
    assert np.array_equal(gpuopt.add(x.T, x.T[::-1], device=device), x.T + x.T[::-1])
    assert np.array_equal(gpuopt.add(x.astype(">f4"), 1, device=device), x + 1)
    for left, right in (([1, 2], [3, 4]), ([1, 2], [0.5, 1]), (3, 4), (np.int32(3), [2**31 - 1]),
                        (np.ones(3, np.int32), 2), (np.ones(3, np.float32), 0.1)):  # fmt: skip
        got, want = gpuopt.add(left, right, device=device), np.add(left, right)
        assert got.dtype == want.dtype and np.array_equal(got, want)
    assert gpuopt.add(np.empty((0, 3), np.float32), np.float32(1), device=device).shape == (0, 3)
    assert gpuopt.saxpy(np.float64(2), y, y, device=device).dtype == np.float64
    assert gpuopt.saxpy(2.0, y, y, device=device).dtype == np.float32
    check_saxpy(gpuopt.saxpy(2.0, y, y, device=device), 2, y, y)
    out = y.copy()
    assert gpuopt.saxpy(3, y, out, out=out, device=device) is out
    check_saxpy(out, 3, y, y)
    buffer = draw(rng, "int64", 105)
    want = buffer[:100] + buffer[3:103]
    gpuopt.add(buffer[:100], buffer[3:103], out=buffer[5:], device=device)
    assert np.array_equal(buffer[5:], want)
    wide = np.empty((3, 4, 5), np.float64, order="F")
    assert gpuopt.add(x, y, out=wide, device=device) is wide
    assert np.array_equal(wide, x + y)


FIXED = ("blocks", "threads", "blocks-threads")  # rungs for certain sizes, or slow ones

REPEATED = {  # runs longer than a block of the cpu, and as short as one element
    "a number": ((3, 700), ()),
    "rows": ((5, 1500), (1500,)),
    "columns": ((1500, 5), (1500, 1)),
    "short rows": ((900, 3), (3,)),
    "both": ((130, 1), (1, 70)),
    "layers": ((4, 1, 130), (7, 1)),
    "more axes than the cpu walks along": ((2, 1) * 5, (1, 2) * 5),
}


@pytest.mark.parametrize("device, rung", device_rungs(family="add", without=FIXED))
@pytest.mark.parametrize("shapes", REPEATED.values(), ids=REPEATED)
def test_broadcast_operands_match_numpy(device, rung, shapes, rng):
    call = {"variant": rung.variant, "device": device}
    for dtype in ("int32", "float64"):
        x, y = (draw(rng, dtype, shape) for shape in shapes)
        for left, right in ((x, y), (y, x), (x[..., ::-1], y)):
            want = left + right
            assert gpuopt.add(left, right, **call).tobytes() == want.tobytes()
            odd = np.empty(want.size + 1, dtype)[1:].reshape(want.shape)
            assert gpuopt.add(left, right, out=odd, **call) is odd
            assert odd.tobytes() == want.tobytes()
    check_saxpy(gpuopt.saxpy(0.5, x, y, **call), 0.5, x, y)


@pytest.mark.parametrize("device", kinds())
def test_result_has_numpys_order_in_memory(device, rng):
    """Operands of any order, broadcast, reversed, with gaps; order "K" of NumPy's iterators."""
    for case in range(300 if device == "cpu" else 80):
        shape = tuple(rng.integers(1, 5, rng.integers(0, 6)))
        x, y = (any_layout(rng, ("int16", "int32", "float64")[case % 3], shape) for _ in range(2))
        want, called = np.add(x, y), {"device": device}
        if case % 5 == 0:
            called["variant"] = "openmp" if device == "cpu" else "strided"
        found = [gpuopt.add(x, y, **called)] if case % 3 or "variant" not in called else []
        if case % 3 == 2:
            found.append(gpuopt.saxpy(1.0, x, y, **called))
            found.append(gpuopt.saxpy(np.float64(1), x, y, **called))
        for got in found:
            np.testing.assert_array_equal(got, want)
            assert steps_of(got) == steps_of(np.asarray(want)), (x.strides, y.strides)


@pytest.mark.parametrize("device", kinds()[1:])
def test_operands_in_other_orders_are_brought_into_the_results(device, rng, monkeypatch):
    brought, real = [], vector_passes.in_one_order

    def counted(*arguments):
        before, after, written = real(*arguments)
        brought.append(len(before) + len(after))
        return before, after, written

    monkeypatch.setattr(vector_passes, "_ACROSS", 64)
    monkeypatch.setattr(vector_passes, "_SHORT", 4)
    monkeypatch.setattr(vector_passes, "in_one_order", counted)
    for case in range(120):
        shape = tuple(rng.integers(1, 20, rng.integers(1, 5)))
        dtype = ("int8", "float16", "int32", "float32", "float64")[case % 5]
        x, y = (any_layout(rng, dtype, shape) for _ in range(2))
        (left, *_), (right, *_) = held = [strided(each, device) for each in (x, y)]
        np.testing.assert_array_equal(gpuopt.add(left, right).get(), x + y)
        out = gpuopt.empty(np.shape(x + y), dtype, device)
        assert gpuopt.add(right, left, out=out) is out
        np.testing.assert_array_equal(out.get(), x + y)
        del held
    assert 10 < sum(count > 0 for count in brought) < len(brought)


@pytest.mark.parametrize("device", kinds()[1:])
@pytest.mark.parametrize("dtype", ["int8", "bfloat16", "float16"])
def test_a_sum_across_the_result_is_turned_itself_where_that_moves_less(
    device, dtype, rng, monkeypatch
):
    """Both operands across, or one and a row: not if a column, or another order, is read."""
    monkeypatch.setattr(vector_passes, "_ACROSS", 64)
    monkeypatch.setattr(vector_passes, "_FEW", (0, 0))
    monkeypatch.setattr(vector_passes, "_SHORT", 0)
    dtype = by_name(dtype)
    for shape, axes in (((24, 70), (1, 0)), ((70, 28), (1, 0)), ((18, 4, 31), (2, 0, 1))):
        x, z = (
            rng.integers(-9, 9, [shape[axes.index(k)] for k in range(len(shape))])
            .astype(dtype)
            .transpose(axes)
            for _ in range(2)
        )
        whole, row, column = (
            rng.integers(-9, 9, extents).astype(dtype)
            for extents in (shape, shape[-1:], (*shape[:-1], 1))
        )
        for y, last in ((z, True), (row, True), (column, False), (whole, False)):
            for left, right in ((x, y), (y, x)):
                (here, *_), (there, *_) = held = [strided(k, device) for k in (left, right)]
                out = gpuopt.empty(shape, dtype, device)
                with gpuopt.Profile(device) as profiled:
                    gpuopt.add(here, there, out=out)
                np.testing.assert_array_equal(out.get(), left + right)
                kernels = [launch.kernel for launch in profiled.launches]
                if device != "cuda":  # a GPU's launches are not recorded
                    assert [name.startswith("vector") for name in kernels] == [last, not last]
                del held


@pytest.mark.parametrize("device", kinds()[1:])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_operands_that_lie_across_the_result_are_turned_in_tiles(device, dtype, rng):
    """Tiles that are cut off at either axis, and short axes; one operand, both, in either order."""
    cases = (((70, 90), (1, 0)), ((4, 33, 70), (2, 0, 1)), ((2, 700), (1, 0)), ((700, 3), (1, 0)))
    cases += (((3, 5, 20, 130), (3, 1, 0, 2)), ((6, 130, 7), (1, 2, 0)))
    for shape, axes in cases:
        x = draw(rng, dtype, [shape[axes.index(k)] for k in range(len(shape))]).transpose(axes)
        y, column = draw(rng, dtype, shape), draw(rng, dtype, (*shape[:-1], 1))
        for left, right in ((x, y), (y, x), (x, column), (column, x), (x, x[::-1]), (x, 3)):
            want = left + np.asarray(right, dtype)
            (here, *_), held = strided(left, device), strided(np.atleast_1d(right), device)
            out = gpuopt.empty(shape, dtype, device)
            with gpuopt.Profile(device, collecting=True) as profiled:
                gpuopt.add(here, held[0] if isinstance(right, np.ndarray) else right, out=out)
            np.testing.assert_array_equal(out.get(), want)
            if device != "cuda":  # a GPU's launches are not recorded
                assert [launch.shared_bytes > 0 for launch in profiled.launches] == [True]


@pytest.mark.parametrize("device", kinds()[1:])
@pytest.mark.parametrize("dtype", ["int8", "bool", "int16", "float16"])
def test_rows_of_narrow_elements_are_repeated_first(device, dtype, rng, monkeypatch):
    for least in ("_LONG", "_LONGER"):
        monkeypatch.setattr(vector_passes, least, 64)
    for shape in ((1000, 20), (333, 7), (40, 5, 33), (501, 16)):
        x, y = draw(rng, dtype, shape), draw(rng, dtype, shape[-1:])
        (here, *_), (row, *_) = held = [strided(each, device) for each in (x, y)]
        with gpuopt.Profile(device, collecting=True) as profiled:
            for left, right in ((here, row), (row, here)):
                np.testing.assert_array_equal(gpuopt.add(left, right).get(), x + y)
        in_place = shape[-1] == 16 or (shape[-1] == 7 and x.itemsize == 2)
        if device != "cuda":  # a GPU's launches are not recorded
            assert len(profiled.launches) == (2 if in_place else 4)
        del held


def steps_of(array):
    """Return the strides of the axes that have some; NumPy's others depend on its loop."""
    return [step for step, n in zip(array.strides, array.shape, strict=True) if n > 1]


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_groups_of_16_bytes_that_end_rows(device, dtype, rng):
    """Rows of a group's elements and more or fewer, whose next one lies anywhere."""
    for inner in (1, 3, 15, 16, 17, 39):
        x = draw(rng, dtype, (3, 70, inner)).transpose(1, 0, 2)
        for shape in ((inner,), (3, 1), (70, 1, 1), (70, 1, inner)):
            y = draw(rng, dtype, shape)
            for left, right in ((x, y), (y, x)):
                got = gpuopt.add(left, right, device=device)
                np.testing.assert_array_equal(got, left + right, str((inner, shape)))


def test_cpu_broadcasts_without_a_copy(rng):
    x, out = draw(rng, "float32", (2000, 1000)), np.empty((2000, 1000), np.float32)
    views = [np.broadcast_to(x[0], x.shape), np.broadcast_to(x[:, :1], x.shape)]
    for y in (1.5, x[0], x[:, :1], *views):
        tracemalloc.start()
        gpuopt.add(x, y, out=out, device="cpu")
        gpuopt.saxpy(2.0, y, x, out=out, device="cpu")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < x.nbytes / 10
        np.testing.assert_array_equal(out, np.float32(2) * y + x)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_short_rows_in_every_layout(dtype, rng):
    """The cpu brings rows of up to 128 bytes together, and reads none beyond an operand's end."""
    for n in (2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 32, 33):
        whole = draw(rng, dtype, (3, 1300, 3 * n))
        left = draw(rng, dtype, (3, 1300, n))
        second = whole[..., ::2]
        assert gpuopt.add(second, 3, device="cpu").tobytes() == (second + 3).tobytes()
        windows = np.lib.stride_tricks.sliding_window_view(whole.reshape(-1), n)[:3900]
        for right in (
            *(whole[:, :, :n], whole[:, :, -n:], whole[:, ::-1, n : 2 * n], whole[..., ::3]),
            *(whole[..., n - 1 :: -1], whole[:, :1, :n], whole[:, :, :1], whole[0, 0, :1]),
            windows.reshape(left.shape)[:, 1:-1],
        ):
            mine = left[:, : right.shape[1]] if right.ndim > 1 and right.shape[1] > 1 else left
            for x, y in ((mine, right), (right, mine)):
                want = x + y
                assert gpuopt.add(x, y, device="cpu").tobytes() == want.tobytes(), (
                    n,
                    right.strides,
                )
                room = np.zeros((*want.shape[:2], n + 1), dtype)[..., :n]
                gpuopt.add(x, y, out=room, device="cpu")
                np.testing.assert_array_equal(room, want)
            out = mine.copy()
            gpuopt.add(out, right, out=out, device="cpu")
            assert out.tobytes() == (mine + right).tobytes()


@pytest.mark.parametrize("device", kinds())
def test_any_python_number_is_a_factor(device):
    """The sign of zero counts, and integers may exceed NumPy's range."""
    x, y = np.array([1.0, -1.0]), np.array([-0.0, -0.0])
    for a in (0, 0.0, -0.0, 1 << 63, -(1 << 63), 10**30):
        want = float(a) * x + y
        assert gpuopt.saxpy(a, x, y, device=device).tobytes() == want.tobytes(), a
        assert gpuopt.saxpy(a, x[::-1], y, device=device).tobytes() == want[::-1].tobytes(), a
    with pytest.raises(OverflowError, match=r"^a: is too large"):
        gpuopt.saxpy(10**400, x, y, device=device)
    x, y = x.astype("f4"), y.astype("f4")
    for a in (0.1, 1e-45, 1e-46, np.inf, -np.inf, np.nan, 3.4028235e38, 1e39):
        with np.errstate(all="ignore"):
            want = np.float32(a) * x + y
            np.testing.assert_array_equal(gpuopt.saxpy(a, x, y, device=device), want, str(a))


# --- rung 7: vectors of 16 bytes, in arrays of any offset and length

GPUS = [on(kind, kind, id=kind) for kind in KINDS if kind != "cpu"]
GUARD = 40  # elements before and after an output: more than the 64 bytes to a boundary of rung 7


def part(array, begin, n):
    """Return n elements of a device array from index `begin` on."""
    address = array.address + begin * array.dtype.itemsize
    return device_array.make(address, (n,), array.dtype, array.device, array)


@pytest.mark.parametrize(
    "device, rung",
    [each for each in device_rungs(family="add") if not each.values[1].host],
)
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_views_at_every_offset(device, rung, dtype, rng):
    """Every offset of x, y and out from 16 bytes; nothing around out is written."""
    a, b, before = (draw(rng, dtype, 2 * GUARD + 1100) for _ in range(3))
    x, y = (gpuopt.asarray(host, device=device) for host in (a, b))
    pack = 16 // np.dtype(dtype).itemsize
    every = list(itertools.product(range(pack), repeat=3))
    some = [(0, 0, 0), (1, 1, 1), (1, 0, 0), (0, 0, 1), (pack - 1, 1, 0)]
    for n, begins in ((1100, some), (512, some[1:2]), (1, some), *((n, every) for n in (5, 37))):
        if n > 1 and rung.name in ("one-thread", "blocks"):
            n = min(n, 5)
        if not takes(rung, n, None):
            continue
        for at_x, at_y, at_out in begins:
            whole = gpuopt.asarray(before, device=device)
            out = part(whole, GUARD + at_out, n)
            gpuopt.add(part(x, at_x, n), part(y, at_y, n), out=out, variant=rung.variant)
            want = before.copy()
            want[GUARD + at_out :][:n] = a[at_x:][:n] + b[at_y:][:n]
            assert whole.get().tobytes() == want.tobytes(), (n, at_x, at_y, at_out)


@pytest.mark.parametrize("begins", [(0, 0), (3, 3), (1, 2), (31, 63)])
@pytest.mark.parametrize("device", GPUS)
def test_in_place_at_every_offset(device, begins, rng):
    n = 2501
    x, y = draw(rng, "float32", n + 64), draw(rng, "float32", n + 64)
    want = [each[begin:][:n] for each, begin in zip((x, y), begins, strict=True)]
    for updated in (0, 1):
        whole = [gpuopt.asarray(each, device=device) for each in (x, y)]
        parts = [part(each, begin, n) for each, begin in zip(whole, begins, strict=True)]
        gpuopt.add(*parts, out=parts[updated])
        assert parts[updated].get().tobytes() == (want[0] + want[1]).tobytes()
        changed = (x, y)[updated].copy()
        changed[begins[updated] :][:n] = want[0] + want[1]
        assert whole[updated].get().tobytes() == changed.tobytes()
        assert whole[1 - updated].get().tobytes() == (x, y)[1 - updated].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", GPUS)
def test_every_path_of_rung_7(device, dtype, rng):
    """Sizes around vectors, warps and blocks; one or two vectors per thread."""
    block = 64
    tile = block * 16 // np.dtype(dtype).itemsize
    for n in (1, tile - 1, 2 * tile + 3, 4 * tile + tile // 2 + 1):
        x, y = draw(rng, dtype, n), draw(rng, dtype, n)
        bench = _core.Workbench(cases.with_output(registry.add_problem(x, y)), device=device)
        for count in (1, 2):
            tuning = {"vectors": count}
            assert bench.run(7, block, tuning=tuning).tobytes() == (x + y).tobytes(), (n, tuning)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("device", GPUS)
def test_rung_7_rounds_as_rung_6(device, dtype, rng):
    """Bitwise equal: the fused multiply-add rounds once on both rungs."""
    for n in (1, 255, 1027, 600_001):
        x, y = draw(rng, dtype, n), draw(rng, dtype, n)
        packs, items = (gpuopt.saxpy(1 / 3, x, y, variant=v, device=device) for v in (7, 6))
        assert packs.tobytes() == items.tobytes()
        check_saxpy(packs, np.dtype(dtype).type(1 / 3), x, y)


@pytest.mark.parametrize("device", [on("cuda", "cuda", id="cuda")])
def test_more_than_2_to_the_31_items(device):
    """In place, with equal offsets from a boundary of 16 bytes and with different ones."""
    n = 2**31 + 4097
    host = np.arange(n + 1, dtype=np.uint32).view(np.int32)
    for begins in ((1, 1), (1, 0)):
        x = gpuopt.asarray(host, device=device)
        y = x if begins[0] == begins[1] else gpuopt.asarray(host, device=device)
        out = part(x, begins[0], n)
        gpuopt.add(out, part(y, begins[1], n), out=out)
        found = x.get()
        assert found[0] == 0
        for low in range(0, n, 1 << 26):
            high = min(n, low + (1 << 26))
            one, other = (host[low + begin : high + begin] for begin in begins)
            assert np.array_equal(found[low + 1 : high + 1], one + other), low


@pytest.mark.parametrize(
    "device, rung", device_rungs(family="add", without=("one-thread", "threads", "blocks"))
)
def test_large_vectors_of_every_rung(device, rung, rng):
    n = 5120 if device == "sim" else 2048 * 2048
    x, y = draw(rng, "float32", n), draw(rng, "float32", n)
    got = gpuopt.add(x, y, variant=rung.variant, device=device)
    assert got.tobytes() == (x + y).tobytes()


@pytest.mark.parametrize("device", [on(kind, kind, id=kind) for kind in KINDS if kind != "cpu"])
def test_rungs_refuse_unsupported_sizes(device):
    with pytest.raises(ValueError, match="at most 1024 threads, and cannot process 1025 elements"):
        gpuopt.add(np.ones(1025), np.ones(1025), variant="threads", device=device)
    with pytest.raises(ValueError, match="a multiple of its block's 512 threads, not 513 elements"):
        gpuopt.add(np.ones(513), np.ones(513), variant=4, device=device)


def test_wrong_arguments():
    for error, match, call in (
        (ValueError, r"x, y: .*broadcast.*\(2,\) \(3,\)", lambda: gpuopt.add([1, 2], [1, 2, 3])),
        (TypeError, "x: dtype", lambda: gpuopt.add(["a"], ["b"])),
        (TypeError, "y: dtype complex128", lambda: gpuopt.add([1], [1j])),
        (TypeError, "x: dtype complex64", lambda: gpuopt.add(np.complex64(1), np.int8(1))),
        (
            TypeError,
            "takes int32, int64, float32, float64",
            lambda: gpuopt.add(np.int8([1]), np.int8([1]), variant="simd"),
        ),
        (TypeError, "x: masked", lambda: gpuopt.add(np.ma.ones(2), [1, 2])),
        (TypeError, "a, x, y: their common dtype int64", lambda: gpuopt.saxpy(1, [1], [2])),
        (ValueError, "a: must be a number", lambda: gpuopt.saxpy([1.0, 2.0], [1.0], [2.0])),
        (ValueError, "out: has shape", lambda: gpuopt.add([1], [2], out=np.zeros(2, int))),
        (TypeError, "out: cannot cast", lambda: gpuopt.add([1.0], [2], out=np.zeros(1, int))),
        (ValueError, "variant: 9 is not a rung of add", lambda: gpuopt.add([1], [2], variant=9)),
        (ValueError, "of saxpy", lambda: gpuopt.saxpy(1.0, [1.0], [2.0], variant="fma")),
    ):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("device", kinds())
def test_bfloat16_and_numbers_have_numpys_dtype(device):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.arange(12.0).reshape(3, 4).astype(bfloat16)
    for value in (2.5, 3, -1, True, np.float32(2.5), np.int8(3), bfloat16(1.5)):
        for _ in range(2):
            got, want = gpuopt.add(x, value, device=device), np.add(x, value)
            assert got.dtype == want.dtype and np.array_equal(got, want), value
    got, want = gpuopt.saxpy(2.5, x, x, device=device), np.add(2.5 * x, x)
    assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("device", kinds()[1:])
@pytest.mark.parametrize("name", vectors._ADDED)
def test_calls_without_a_plan_read_no_element_of_a_device_on_the_host(device, name, rng):
    dtype = by_name(name)
    if dtype.fields:
        pytest.skip("NumPy does not add bfloat16 without ml_dtypes")
    x, y = (np.round(rng.random((3, 40)) * 9).astype(dtype) for _ in range(2))
    views = [gpuopt.asarray(each, device) for each in (x, y)]
    rest = (None, None, None, None)
    assert np.array_equal(vectors._add(*views, *rest).get(), x + y)
    if name in vectors._SCALED:
        found = vectors._saxpy(2, *views, *rest)
        assert found.dtype == dtype and np.array_equal(found.get(), (2 * x + y).astype(dtype))
        with pytest.raises(TypeError, match="out: is on the host"):
            gpuopt.saxpy(2.5, *views, out=y)
    else:
        with pytest.raises(TypeError, match="is not supported; use float16"):
            gpuopt.saxpy(2.5, *views)


def test_scalars_of_numpy_and_bfloat16_have_plans(rng):
    """A planned call returns the general function's result, bit for bit, or its error."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    dtypes = [np.dtype(each) for each in ("?", "i1", "u4", "i8", "u8", "f2", "f4", ">f4", bfloat16)]

    def found(call, *arguments):
        try:
            got = call(*arguments)
        except (TypeError, ValueError, OverflowError) as error:
            return str(error)
        return type(got), got.dtype, got.shape, got.tobytes()

    rest = (None, None, None, "cpu")
    for one, other in itertools.product(dtypes, dtypes):
        x, y = (np.round(rng.random((3, 4)) * 9).astype(each) for each in (one, other))
        for z in (y, y[:1], other.type(3), 3, 2.5, -1, 1 << 70):
            for _ in range(2):
                got = found(lambda a, b: gpuopt.add(a, b, device="cpu"), x, z)
                assert got == found(vectors._add, x, z, *rest), (one, other, z)
                for factor in (other.type(2), 2, 2.5):
                    got = found(lambda *each: gpuopt.saxpy(*each, device="cpu"), factor, x, z)
                    assert got == found(vectors._saxpy, factor, x, z, *rest), (one, factor, z)
