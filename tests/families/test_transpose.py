"""The transpose on every rung of every device, against NumPy's: every byte."""

import os

import numpy as np
import pytest
from conftest import KINDS, blocks_of, device_rungs, kinds, on, run_python, rungs_of
from hypothesis import HealthCheck, given, settings, strategies as st

import gpuopt
from gpuopt.families.reduce_axis import AxisError

DTYPES = ["u1", "?", "<i2", "f2", "<f4", ">f4", "i8", "c8", "M8[ns]", "c16", "S1", "U1", "U4", "V8"]
SHAPES = [(1, 1), (1, 33), (33, 1), (2, 3), (31, 31), (32, 32), (33, 33), (32, 65), (97, 64),
          (100, 257)]  # fmt: skip
FAMILY = "transpose"
GPUS = [on(kind, kind, id=kind) for kind in KINDS if kind != "cpu"]
on_sim = pytest.mark.skipif(bool(KINDS.get("sim", "no")), reason="no simulated GPU")


def bytes_of(rng, dtype, shape):
    """Return an array of random bytes, including NaNs with payloads."""
    dtype = np.dtype(dtype)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if dtype.kind == "U":
        raw = rng.integers(0, 0x10FFFF, (*shape, dtype.itemsize // 4), np.uint32).view(np.uint8)
    return raw.reshape(*shape, dtype.itemsize).view(dtype)[..., 0]


def right(rung, array):
    """Return the expected result of a rung."""
    return np.ascontiguousarray(array if rung.ceiling else array.T)


def same(got, want):
    return (
        type(got) is np.ndarray
        and got.dtype == want.dtype
        and got.shape == want.shape
        and got.flags.c_contiguous
        and got.tobytes() == want.tobytes()
    )


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_rung_dtype_shape_and_block(device, rung, dtype, rng):
    for shape in SHAPES:
        array = bytes_of(rng, dtype, shape)
        want = right(rung, array)
        for block in blocks_of(rung):
            got = gpuopt.transpose(array, variant=rung.variant, block=block, device=device)
            assert same(got, want), (shape, block)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_inputs_of_any_layout_and_byte_order(device, rung, rng):
    for dtype in ("u1", "<f4", ">f8", "c16"):
        base = bytes_of(rng, dtype, (70, 90))
        read_only = base.copy()
        read_only.flags.writeable = False
        unaligned = np.zeros(base.nbytes + 1, np.uint8)[1:].view(dtype).reshape(base.shape)
        unaligned[...] = base
        for array in (base.T, base[::-1], base[:, ::-1], base[::3, 5:77:2], read_only, unaligned,
                      np.asfortranarray(base), np.broadcast_to(base[:1], (40, 90)),
                      np.broadcast_to(base[:, :1], (70, 33))):  # fmt: skip
            got = gpuopt.transpose(array, variant=rung.variant, device=device)
            assert same(got, right(rung, array))


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_structured_items(device, rung, rng):
    dtype = np.dtype([("a", "i2"), ("b", "u1"), ("c", "u1")])  # aligned to 1, moved as 4 bytes
    array = bytes_of(rng, dtype, (35, 41))
    assert same(gpuopt.transpose(array, variant=rung.variant, device=device), right(rung, array))
    records = bytes_of(rng, dtype, (35, 41)).view(np.recarray)
    got = gpuopt.transpose(records, variant=rung.variant, device=device)
    assert same(got, right(rung, np.asarray(records)))


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_empty_arrays_keep_their_shape(device, rung):
    for shape in ((0, 0), (0, 5), (5, 0)):
        got = gpuopt.transpose(np.empty(shape, np.int16), variant=rung.variant, device=device)
        assert got.shape == (shape if rung.ceiling else shape[::-1]) and got.dtype == np.int16


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_long_and_narrow(device, rung, rng):
    """More rows of blocks than gridDim.y allows, and both sides beyond 16 bits."""
    for shape in ((3, 70_001), (70_001, 3), (2_097_153, 2), (2, 2_097_153), (65_536 * 33, 1)):
        if rung.name == "1d" and shape[0] < 4:
            continue  # one thread would do it all
        if device == "sim" and max(shape) > 100_000:
            continue  # executes lane by lane
        array = bytes_of(rng, "u1", shape)
        got = gpuopt.transpose(array, variant=rung.variant, device=device)
        assert same(got, right(rung, array)), shape
    for rung_ in rungs_of(device, family=FAMILY):
        if rung_.name in ("2d", "tex"):
            array = bytes_of(rng, "u1", (5, 70_001))
            got = gpuopt.transpose(array, variant=rung_.variant, block=32, device=device)
            assert same(got, right(rung_, array))


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_large_matrices_of_every_rung(device, rung, rng):
    if device == "sim":
        pytest.skip("executes lane by lane")
    for dtype, shape in (("f4", (5000, 7001)), ("u1", (8192, 8192)), ("u2", (4097, 4099)),
                         ("c16", (2049, 1023))):  # fmt: skip
        array = bytes_of(rng, dtype, shape)
        got = gpuopt.transpose(array, variant=rung.variant, device=device)
        assert np.array_equal(got.view("u1"), right(rung, array).view("u1")), (dtype, shape)


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_more_than_two_to_the_31_items(device, rung):
    few_cores = device == "cpu" and (os.cpu_count() or 1) < 8
    if device == "sim" or rung.name in ("1d", "serial") or few_cores:
        pytest.skip("takes minutes")
    if os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") < 16 << 30:
        pytest.skip("needs 16 GiB of free memory")
    rows, columns = 46_349, 46_351
    assert rows * columns > 2**31
    array = np.resize(np.arange(251, dtype=np.uint8), rows * columns).reshape(rows, columns)
    got = gpuopt.transpose(array, variant=rung.variant, device=device)
    assert np.array_equal(got, array if rung.ceiling else array.T)


# --- any axes


def any_rungs():
    """Return a parameter (device, variant) for every rung that takes any axes."""
    return [
        on(kind, kind, rung.variant, id=f"{kind}-{rung.name}")
        for kind in KINDS
        for rung in rungs_of(kind, family=FAMILY)
        if rung.host or rung.best
    ]


def permuted(array, axes):
    return np.transpose(array, axes).copy()


# Each is another way through the planner: copies, batches, rows, narrow and small matrices, many
# axes, axes of one element.
PERMUTATIONS = [
    # Columns that continue in the next matrix; fewer rows or columns than a vector holds, the last
    # of which end with the array; few runs of elements; rows of which two follow each other.
    ((34, 9, 7, 6), (1, 3, 2, 0)), ((60, 45, 2), (2, 1, 0)), ((12, 54, 10), (2, 1, 0)),
    ((70, 13, 5), (2, 1, 0)), ((10, 199), (1, 0)), ((4, 33, 9), (0, 2, 1)), ((40, 3), (1, 0)),
    ((13, 45), (1, 0)), ((4, 84, 4, 2), (3, 1, 0, 2)), ((6, 6, 4, 4, 3), (3, 2, 1, 4, 0)),
    ((2, 100, 9), (1, 0, 2)), ((3, 99, 8, 5), (2, 0, 3, 1)),
    ((), None), ((5,), None), ((1, 1, 1), None), ((70, 90), (0, 1)), ((3, 65, 130), (0, 2, 1)),
    ((3, 64, 64), (0, 2, 1)), ((20, 30, 40), (2, 0, 1)), ((20, 30, 40), (1, 2, 0)),
    ((65, 3, 70), (2, 1, 0)), ((4, 6, 65, 70), (0, 3, 1, 2)), ((5, 70, 3, 66), (2, 3, 0, 1)),
    ((2, 5, 6, 64), (0, 2, 1, 3)), ((5, 6, 7), (1, 0, 2)), ((30, 40, 3), (1, 0, 2)),
    ((30, 40, 3), (2, 0, 1)), ((3, 30, 40), (1, 2, 0)), ((5, 6, 300), (-2, 0, -1)),
    ((300, 8, 8), (0, 2, 1)), ((2,) * 11, None), ((3, 1, 4, 1, 5), (4, 3, 0, 1, 2)),
    ((60, 8, 101), None), ((2000, 3), None), ((3, 2000), None),
    ((7, 2, 3, 2, 5, 3), (5, 0, 3, 1, 4, 2)), ((300, 64), None), ((64, 300), None),
    ((2, 200, 20), (0, 2, 1)), ((2, 20, 200), (0, 2, 1)), ((3, 16, 272), (0, 2, 1)),
    ((150, 33), None), ((20, 30, 3, 4), (1, 0, 3, 2)), ((7, 40, 5, 3, 2), (1, 0, 2, 4, 3)),
    ((15, 31, 2, 100, 9), None), ((3,) * 8, None), ((7, 6, 5, 4099, 3), (0, 2, 1, 4, 3)),
    ((2,) * 14, (3, 9, 0, 12, 7, 1, 13, 5, 11, 2, 8, 4, 10, 6)),
]  # fmt: skip


@pytest.mark.parametrize("device, variant", any_rungs())
@pytest.mark.parametrize("dtype", ["u1", "<i2", "<f4", "i8", "c16"])
def test_any_permutation_of_axes(device, variant, dtype, rng):
    for shape, axes in PERMUTATIONS:
        array = bytes_of(rng, dtype, shape)
        got = gpuopt.transpose(array, axes, variant=variant, device=device)
        assert same(got, permuted(array, axes)), (shape, axes)


@pytest.mark.parametrize("device, variant", any_rungs())
@pytest.mark.parametrize(
    "dtype, shape, axes",
    [
        ("<f4", (64, 32_768), None), ("<f4", (63, 32_768), None), ("<f4", (64, 32_800), None),
        ("u1", (100, 131_072), None), ("i8", (2, 40, 16_384), (0, 2, 1)),
        ("c16", (20, 24_576), None),
    ],
)  # fmt: skip
def test_rows_128_kib_apart(device, variant, dtype, shape, axes, rng):
    """Two columns of tiles in turns, where rows are a multiple of that apart; else one."""
    array = bytes_of(rng, dtype, shape)
    got = gpuopt.transpose(array, axes, variant=variant, device=device)
    assert same(got, permuted(array, axes))


@pytest.mark.parametrize("device, variant", any_rungs())
def test_short_rows_that_stay_whole(device, variant, rng):
    """Rows of every width up to two vectors; nothing is written beside them."""
    for width in range(1, 36):
        array = bytes_of(rng, "u1", (37, 29, width))
        room = np.full(array.size + 64, 77, np.uint8)
        out = room[32:-32].reshape(29, 37, width)
        gpuopt.transpose(array, (1, 0, 2), variant=variant, device=device, out=out)
        assert same(out, permuted(array, (1, 0, 2))), width
        assert (room[:32] == 77).all() and (room[-32:] == 77).all()


@pytest.mark.parametrize("device, variant", any_rungs())
@pytest.mark.parametrize(
    "dtype, shape, axes",
    [
        ("<f4", (24_700, 100), None), ("<f4", (24_577, 101), None), ("<f4", (24_576, 100), None),
        ("u1", (98_401, 201), None), ("i8", (2, 24_700, 50), (0, 2, 1)),
        ("<i2", (2, 3, 49_900, 96), (0, 1, 3, 2)), ("c16", (12_351, 771), None),
    ],
)  # fmt: skip
def test_tall_matrices(device, variant, dtype, shape, axes, rng):
    """More than 384 rows of tiles are taken in strips, those of narrow matrices in flat ones."""
    array = bytes_of(rng, dtype, shape)
    got = gpuopt.transpose(array, axes, variant=variant, device=device)
    assert same(got, permuted(array, axes))


# About 18 MB, for the largest tiles: channels last to first and back, images at any offset, small
# matrices, many axes, and transposed images whose pixels stay whole.
NARROW = [
    ("u1", (9_000_001, 2), None), ("u1", (2, 9_000_001), None),
    ("u1", (40, 390, 400, 3), (0, 3, 1, 2)),
    ("u1", (40, 3, 390, 400), (0, 2, 3, 1)), ("u1", (120, 3, 223, 225), (0, 2, 3, 1)),
    ("u1", (120, 223, 225, 3), (0, 3, 1, 2)), ("<i2", (3_000_000, 3), None),
    ("<i2", (4, 2_250_000), None), ("u1", (8, 2_250_000), None), ("<f4", (900_000, 5), None),
    ("<f4", (5, 900_001), None), ("u1", (24, 750_000), None), ("i8", (3, 750_001), None),
    ("c16", (375_001, 3), None), ("<f4", (500_000, 3, 3), (0, 2, 1)),
    ("u1", (2_000_000, 3, 3), (0, 2, 1)), ("<f4", (2,) * 22, tuple(range(22))[::-1]),
    ("u1", (32, 16, 33, 16, 64), (4, 3, 2, 1, 0)), ("u1", (20, 640, 480, 3), (0, 2, 1, 3)),
    ("<i2", (9, 639, 513, 3), (0, 2, 1, 3)), ("<f4", (5, 640, 480, 3), (0, 2, 1, 3)),
    ("u1", (300, 200, 301), (1, 0, 2)), ("u1", (120, 225, 223, 3), (0, 2, 1, 3)),
    ("<i2", (500, 97, 31, 3), (0, 2, 1, 3)), ("u1", (1000, 97, 31, 3), (0, 3, 1, 2)),
    ("<i2", (500, 97, 31, 3), (0, 3, 1, 2)), ("u1", (280, 255, 257), (0, 2, 1)),
    ("<f4", (1100, 65, 63), (0, 2, 1)), ("u1", (1_100_000, 4, 4), (0, 2, 1)),
    ("<f4", (70, 9001, 3, 2), (1, 0, 3, 2)),
    ("<i2", (260_000, 5, 7), (0, 2, 1)), ("u1", (70_000, 16, 16), (0, 2, 1)),
    ("u1", (8, 3300, 32, 21), (0, 2, 1, 3)), ("u1", (15, 31, 7, 600, 9), (4, 3, 2, 1, 0)),
    ("u1", (8, 500, 32, 131), (0, 2, 1, 3)), ("<i2", (8, 350, 32, 101), (0, 2, 1, 3)),
    ("u1", (33, 270, 2001), (1, 0, 2)), ("i8", (16, 225, 223, 3), (0, 2, 1, 3)),
    # and of 32 MiB and more, whose tiles are laid out by banks
    ("u1", (230, 225, 223, 3), (0, 2, 1, 3)), ("u1", (530, 255, 257), (0, 2, 1)),
    ("u1", (230, 224, 224, 3), (0, 2, 1, 3)), ("<f4", (60, 225, 223, 3), (0, 3, 2, 1)),
    ("<i2", (110, 3, 225, 223), (0, 2, 3, 1)), ("u1", (11_500_001, 3), None),
    ("<i2", (799_001, 63), None),  # 96 MiB, all columns in one unit
    ("<f4", (9, 65, 3, 2), (1, 3, 2, 0)),  # folded, and tiny
]  # fmt: skip


@pytest.mark.parametrize("device, variant", any_rungs())
@pytest.mark.parametrize("dtype, shape, axes", NARROW)
def test_narrow_matrices(device, variant, dtype, shape, axes, rng):
    if variant == "serial":
        pytest.skip("takes too long")
    if device == "sim" and NARROW.index((dtype, shape, axes)) % 2:
        pytest.skip("takes seconds: every second one is enough beside the other devices")
    array = bytes_of(rng, dtype, shape)
    got = gpuopt.transpose(array, axes, variant=variant, device=device)
    assert same(got, permuted(array, axes))


@pytest.mark.parametrize("device, variant", any_rungs())
@pytest.mark.parametrize("dtype", ["<f4", "i8", "c16"])
def test_tiles_whose_rows_or_columns_are_several_axes(device, variant, dtype, rng):
    for shape, axes in (((70, 1501), None), ((17, 60, 20), (1, 2, 0)), ((100, 80), None),
                        ((9, 2, 14, 212), (3, 2, 1, 0)), ((214, 9, 7), (2, 1, 0)),
                        ((13, 40, 61), (2, 1, 0)), ((40, 16, 16), (0, 2, 1)),
                        ((90, 2, 19), (0, 2, 1)),
                        ((5, 81, 42, 2), (0, 3, 2, 1)), ((11, 12, 4, 64), (1, 3, 0, 2)),
                        ((2,) * 13, tuple(range(13))[::-1])):  # fmt: skip
        array = bytes_of(rng, dtype, (*shape[:-1], shape[-1] + 3))
        for part in (array, array[..., :-3], array[..., 2:-1]):
            got = gpuopt.transpose(part, axes, variant=variant, device=device)
            assert same(got, permuted(part, axes)), (shape, part.strides)


@pytest.mark.parametrize("device, variant", any_rungs())
@pytest.mark.parametrize("dtype", ["u1", "<i2"])
def test_rows_and_columns_of_several_axes(device, variant, dtype, rng):
    """Tiles of narrow elements: with all rows or some, ends that adjoin or do not, and gaps."""
    for shape, axes in (((2, 131, 9, 13, 43), (4, 3, 2, 0, 1)), ((26, 11, 5, 251), (3, 2, 1, 0)),
                        ((6, 80, 1501), (0, 2, 1)), ((77, 2, 903), (2, 1, 0)),
                        ((401, 7, 3, 301), (3, 1, 0, 2)), ((1147, 9, 19, 8), (2, 1, 3, 0)),
                        ((300, 135), (1, 0)), ((288, 144), (1, 0)), ((97, 641), (1, 0)),
                        ((3, 129, 129), (0, 2, 1))):  # fmt: skip
        array = bytes_of(rng, dtype, shape)
        for view in (array, array[..., 1:-1]):
            got = gpuopt.transpose(view, axes, variant=variant, device=device)
            assert same(got, permuted(view, axes)), (shape, axes)


@pytest.mark.parametrize("device, variant", any_rungs())
def test_small_arrays_of_wide_items(device, variant, rng):
    """The shortest runs exceed a block's chunk."""
    for shape, axes in (((5, 7, 8, 32, 7), (4, 3, 1, 2, 0)), ((7, 9, 3, 9, 7), None)):
        array = bytes_of(rng, "c16", shape)
        got = gpuopt.transpose(array, axes, variant=variant, device=device)
        assert same(got, permuted(array, axes))


@on_sim
@pytest.mark.parametrize(
    "dtype, shape, axes, most",
    [
        ("u1", (120, 225, 223, 3), (0, 2, 1, 3), 320), ("u1", (280, 255, 257), (0, 2, 1), 300),
        ("u1", (2_000_000, 3, 3), (0, 2, 1), 210), ("u1", (70_000, 16, 16), (0, 2, 1), 250),
        ("u1", (100, 225, 223, 3), (1, 0, 2, 3), 200), ("<i2", (500, 97, 31, 3), (0, 3, 1, 2), 350),
    ],
)  # fmt: skip
def test_cost_of_narrow_permutations(dtype, shape, axes, most):
    """Warp instructions for 16 bytes per lane, of the simulated PTX."""
    array = np.zeros(shape, dtype)
    counted = gpuopt.profile(gpuopt.transpose, array, axes, device="sim").counters
    assert counted.warp_instructions * 32 * 16 / array.nbytes < most


@on_sim
@pytest.mark.parametrize(
    "dtype, most", [("u1", 210), ("u2", 180), ("f4", 195), ("f8", 170), ("c16", 130)]
)
def test_cost_of_narrow_matrices(dtype, most):
    """Warp instructions per 16 bytes of a lane (880 if elements move singly), and the traffic."""
    size = 18_000_000 // np.dtype(dtype).itemsize // 3 // 256 * 256
    for shape in ((size, 3), (3, size)):
        array = np.zeros(shape, dtype)
        counted = gpuopt.profile(gpuopt.transpose, array, device="sim").counters
        assert counted.warp_instructions * 32 * 16 / array.nbytes < most
        # The elements of a vector of 4- and 8-byte ones may be copied one by one, by one thread.
        copies = {"f4": 4, "f8": 2}.get(dtype, 1)
        assert counted.global_bytes_moved <= (copies + 1) * array.nbytes


@st.composite
def problems(draw):
    """Draw a dtype, a shape of at most 10,000 elements, and axes."""
    shape = []
    for _ in range(draw(st.integers(0, 6))):
        shape.append(draw(st.integers(1, min(200, 10_000 // max(1, int(np.prod(shape)))))))
    dtype = draw(st.sampled_from(["u1", "<i2", "<f4", "i8", "c16"]))
    return dtype, tuple(shape), tuple(draw(st.permutations(range(len(shape)))))


@pytest.mark.parametrize("device, variant", any_rungs())
def test_random_axes(device, variant):
    @given(problems(), st.integers(0, 2**31))
    @settings(max_examples=40, deadline=None, database=None, derandomize=True,
              suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
    def check(problem, seed):
        dtype, shape, axes = problem
        array = bytes_of(np.random.default_rng(seed), dtype, shape)
        got = gpuopt.transpose(array, axes, variant=variant, device=device)
        assert same(got, permuted(array, axes))

    check()


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_batches_of_every_rung(device, rung, rng):
    """Every rung transposes a batch of matrices; z also counts layers of blocks."""
    for dtype, shape in (("<f4", (3, 33, 70)), ("u1", (2, 5, 40, 65)), ("c16", (5, 40, 3))):
        array = bytes_of(rng, dtype, shape)
        axes = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
        want = array if rung.ceiling else permuted(array, axes)
        got = gpuopt.transpose(array, axes, variant=rung.variant, device=device)
        assert same(got, want), shape
    if rung.name in ("2d", "tex") and device != "cpu":
        array = bytes_of(rng, "u1", (2, 3, 70_001))
        got = gpuopt.transpose(array, (0, 2, 1), variant=rung.variant, block=32, device=device)
        assert same(got, permuted(array, (0, 2, 1)))


@pytest.mark.parametrize("device, rung", device_rungs(family=FAMILY))
def test_unsupported_axes_of_a_rung_raise(device, rung):
    array = np.zeros((3, 4, 5, 6))
    if rung.host or rung.best or rung.ceiling:
        assert gpuopt.transpose(array, (2, 0, 3, 1), variant=rung.variant, device=device).size
        return
    with pytest.raises(
        gpuopt.UnfitError, match=f"'{rung.name}' transposes matrices.*variant='vector'"
    ):
        gpuopt.transpose(array, (2, 0, 3, 1), variant=rung.variant, device=device)


@pytest.mark.parametrize("device, variant", any_rungs())
def test_large_axes(device, variant, rng):
    if device == "sim" or variant in ("serial", "openmp"):
        pytest.skip("takes too long")
    for dtype, shape, axes in (
        ("f4", (16, 1024, 1024), (0, 2, 1)), ("f4", (64, 512, 512), (2, 0, 1)),
        ("f4", (8, 64, 256, 64), (0, 2, 1, 3)), ("u1", (2001, 999, 3), None),
        ("u1", (5_000_000, 3), None), ("f8", (3, 1_000_001), None), ("f4", (2,) * 22, None),
        ("u2", (99, 311, 333), (0, 2, 1)), ("f4", (200_000, 9, 9), (0, 2, 1)),
    ):  # fmt: skip
        array = bytes_of(rng, dtype, shape)
        got = gpuopt.transpose(array, axes, variant=variant, device=device)
        assert same(got, permuted(array, axes)), (shape, axes)
    square = bytes_of(rng, "f4", (4001, 4001))
    want = permuted(square, None)
    gpuopt.transpose(square, out=square, variant=variant, device=device)
    assert same(square, want)


@pytest.mark.parametrize("device", kinds())
def test_empty_axes(device):
    for shape, axes in (((0, 3, 4), (2, 0, 1)), ((2, 0), None), ((3, 4, 0), (0, 2, 1))):
        got = gpuopt.transpose(np.empty(shape, np.int16), axes, device=device)
        assert got.shape == np.transpose(np.empty(shape), axes).shape


def test_wrong_axes():
    array = np.zeros((2, 3, 4))
    for error, match, axes in (
        (ValueError, r"axes: \(0, 1\) must list all 3 axes", (0, 1)),
        (ValueError, "axes: .* must list all 3 axes", (0, 1, 1)),
        (ValueError, "axes: .* must list all 3 axes", (0, 1, -2)),
        (ValueError, "axes: .* must list all 3 axes", (0, 1, 2, 0)),
        (AxisError, "axes: axis 3 is out of bounds", (0, 1, 3)),
        (AxisError, "axes: axis -4 is out of bounds", (0, 1, -4)),
        (TypeError, "axes: must be a sequence of integers", (0, 1, 2.0)),
        (TypeError, "axes: must be a sequence of integers", 1),
    ):
        with pytest.raises(error, match=match):
            gpuopt.transpose(array, axes)


# --- rows that begin anywhere


def resident(device, raw, offset, shape, dtype):
    """Return an array in a device's memory, and one that begins `offset` bytes into it."""
    held = gpuopt.asarray(raw, device=device)
    kept = gpuopt.arrays.device_array.make(
        held.address + offset, shape, np.dtype(dtype), held.device, held._view.holder
    )
    return held, kept


OFFSETS = [
    (1, 3, (131, 67), (1, 0)), (3, 0, (300, 126), (1, 0)), (0, 5, (67, 131), (1, 0)),
    (7, 2, (65, 129), (1, 0)), (2, 1, (260, 125), (1, 0)), (1, 3, (40, 33, 3), (1, 0, 2)),
    (5, 2, (6, 37, 40, 3), (0, 2, 1, 3)), (3, 1, (20, 9, 50), (0, 2, 1)),
    (2, 7, (30, 21, 37), (1, 0, 2)), (9, 1, (12, 17, 131), (1, 0, 2)),
    (11, 15, (9, 33, 17), (1, 0, 2)), (1, 1, (50, 3, 3), (0, 2, 1)),
    (4, 6, (7, 2, 3, 2, 5, 3), (5, 4, 3, 2, 1, 0)), (6, 13, (3, 3, 5), (1, 0, 2)),
    (5, 3, (21, 1100), (1, 0)), (4, 8, (9, 2, 14, 60), (3, 2, 1, 0)),
    (3, 2, (25, 60, 9), (2, 1, 0)), (2, 6, (300, 40), (1, 0)), (8, 4, (40, 20, 16), (2, 1, 0)),
    (3, 5, (150, 130), (1, 0)), (5, 3, (3, 43, 2, 9, 20), (4, 3, 2, 0, 1)),
    (1, 7, (523, 101), (1, 0)), (0, 11, (2, 97, 3, 90), (2, 3, 1, 0)),
    (13, 2, (641, 4, 33), (1, 2, 0)),
]  # fmt: skip


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_offsets_of_both_arrays(device, dtype, rng):
    """Arrays at any offset: the simulator would report an access outside of them."""
    size = np.dtype(dtype).itemsize
    for offset, to, shape, axes in OFFSETS:
        items = np.prod(shape)
        raw = rng.integers(0, 256, (items + 16) * size, np.uint8)
        held, array = resident(device, raw, offset * size, shape, dtype)
        before = np.full((items + 16) * size, 0xA5, np.uint8)
        turned = tuple(shape[axis] for axis in axes)
        host = raw[offset * size :][: items * size].view(dtype).reshape(shape)
        for variant in ("vector", None):  # tiles; few elements one by one
            room, out = resident(device, before, to * size, turned, dtype)
            gpuopt.transpose(array, axes, out=out, variant=variant)
            got, end = room.get(), (to + items) * size
            assert got[to * size : end].tobytes() == permuted(host, axes).tobytes(), shape
            assert (got[: to * size] == 0xA5).all() and (got[end:] == 0xA5).all()
        assert np.array_equal(held.get(), raw)


@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_copy_of_any_length_and_offsets(device, dtype, rng):
    """Vectors and their remainder, and scalar copies for arrays without vector alignment."""
    size = np.dtype(dtype).itemsize
    lengths = (1, 15, 16, 17, 64, 2048 // size, 32 * 64 // size + 1, 3 * 32 * 64 // size - 1, 9001)
    for items in lengths:
        for offset, to in ((0, 0), (16, 32), (1, 0), (0, 3), (5, 5)):
            raw = rng.integers(0, 256, (items + 64) * size, np.uint8)
            held, array = resident(device, raw, offset * size, (items,), dtype)
            before = np.full(raw.size, 0xA5, np.uint8)
            room, out = resident(device, before, to * size, (items,), dtype)
            gpuopt.transpose(array, out=out, variant="copy", block=32)
            before[to * size :][: items * size] = raw[offset * size :][: items * size]
            assert np.array_equal(room.get(), before), (items, offset, to)
            assert np.array_equal(held.get(), raw)


@on_sim
def test_cost_of_a_copy(rng):
    """Vectors move each sector once; arrays without vector alignment move single elements."""
    for dtype in ("u1", "u2", "f4", "f8", "c16"):
        raw = rng.integers(0, 256, (1 << 16) + 64, np.uint8)
        for offset, a_request in ((0, 16), (np.dtype(dtype).itemsize, np.dtype(dtype).itemsize)):
            shape = ((1 << 16) // np.dtype(dtype).itemsize,)
            _, array = resident("sim:h200", raw, offset, shape, dtype)
            counted = gpuopt.profile(gpuopt.transpose, array, variant="copy").counters
            assert counted.global_load_requests == counted.global_store_requests
            assert counted.global_store_requests == (1 << 16) / 32 / a_request
            assert counted.global_store_sectors == (1 << 16) / 32


@on_sim
def test_cost_of_unaligned_rows():
    """Compare traffic, conflicts and instructions per byte with aligned rows."""

    def cost(array):
        counted = gpuopt.profile(gpuopt.transpose, array, device="sim").counters
        sectors = counted.global_load_sectors + counted.global_store_sectors
        banks = counted.shared_load_conflicts + counted.shared_store_conflicts
        scale = 1 / array.nbytes
        return sectors * scale, banks * scale, counted.warp_instructions * scale

    for dtype, sectors, instructions in (("f4", 1.25, 2.1), ("f8", 1.2, 2.1), ("u2", 1.3, 3.0),
                                         ("u1", 1.5, 3.1), ("c16", 1.1, 1.1)):  # fmt: skip
        straight = cost(np.zeros((1024, 992), dtype))
        odd = cost(np.zeros((1017, 991), dtype))
        assert odd[0] < sectors * straight[0]
        assert odd[1] < 0.001
        assert odd[2] < instructions * straight[2]


# --- out=


@pytest.mark.parametrize("device", kinds())
def test_out_receives_the_result(device, rng):
    array = bytes_of(rng, "i4", (70, 90))
    want = array.T.copy()
    out = np.empty((90, 70), np.int32)
    assert gpuopt.transpose(array, out=out, device=device) is out
    assert np.array_equal(out, want)
    for out in (np.empty((90, 70), np.int32, order="F"), np.empty((180, 140), np.int32)[::2, ::-2],
                np.empty((90, 70), np.int64), np.empty((90, 70), ">i4"),
                np.empty((90, 70), np.float64)):  # fmt: skip
        assert gpuopt.transpose(array, out=out, device=device) is out
        assert np.array_equal(out, want)


@pytest.mark.parametrize("device", kinds())
def test_overlapping_out_is_as_if_copied(device, rng):
    square = bytes_of(rng, "i4", (65, 65))
    want = square.T.copy()
    gpuopt.transpose(square, out=square, device=device)
    assert np.array_equal(square, want)
    buffer = bytes_of(rng, "i4", (1, 65 * 64 + 7)).ravel()
    array, out = buffer[: 65 * 64].reshape(65, 64), buffer[7:].reshape(64, 65)
    want = array.T.copy()
    gpuopt.transpose(array, out=out, device=device)
    assert np.array_equal(out, want)


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8", "c16"])
def test_square_matrices_in_place(device, dtype, rng):
    for shape in ((1, 1), (64, 64), (129, 129), (33, 33), (272, 272), (3, 70, 70), (2, 2, 32, 32)):
        array = bytes_of(rng, dtype, shape)
        axes = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
        want = permuted(array, axes)
        assert gpuopt.transpose(array, axes, out=array, device=device) is array
        assert same(array, want), shape
    cube = bytes_of(rng, dtype, (5, 5, 5))  # no batch of matrices: as if copied
    want = permuted(cube, None)
    gpuopt.transpose(cube, out=cube, device=device)
    assert same(cube, want)


def test_every_rung_is_correct_in_place(rng):
    for device in ("cpu", "sim"):
        for rung in rungs_of(device, family=FAMILY):
            for dtype, side in (("f4", 40), ("u1", 100), ("c16", 33)):
                array = bytes_of(rng, dtype, (side, side))
                want = right(rung, array).copy()
                gpuopt.transpose(array, out=array, variant=rung.variant, device=device)
                assert same(array, want), rung.name


@pytest.mark.parametrize("device", GPUS)
def test_in_place_on_a_device(device, rng):
    host = bytes_of(rng, "f4", (100, 100))
    array = gpuopt.asarray(host, device=device)
    assert gpuopt.transpose(array, out=array) is array
    assert same(array.get(), permuted(host, None))
    batch = gpuopt.asarray(host.reshape(4, 50, 50), device=device)
    gpuopt.transpose(batch, (0, 2, 1), out=batch)
    assert same(batch.get(), permuted(host.reshape(4, 50, 50), (0, 2, 1)))
    wide = gpuopt.asarray(host.reshape(50, 200), device=device)
    with pytest.raises(ValueError, match="out: overlaps a"):
        gpuopt.transpose(array, (0, 1), out=array)
    with pytest.raises(ValueError, match="out: has shape"):
        gpuopt.transpose(wide, out=wide)
    with pytest.raises(ValueError, match="out: overlaps a"):
        gpuopt.transpose(array, out=array, variant="padded")


@pytest.mark.parametrize("device", kinds())
def test_default_rung_is_correct(device, rng):
    for shape in ((1, 1), (257, 129)):
        array = bytes_of(rng, "f4", shape)
        assert same(gpuopt.transpose(array, device=device), array.T.copy())
    assert gpuopt.transpose([[1, 2], [3, 4]], device=device).tolist() == [[1, 3], [2, 4]]


def test_wrong_arguments():
    good = np.zeros((3, 4), np.float32)
    read_only = np.zeros((4, 3), np.float32)
    read_only.flags.writeable = False
    for error, match, arguments in (
        (TypeError, "a: dtype object", {"a": np.zeros((2, 2), object)}),
        (TypeError, "a: dtype .*'O'", {"a": np.zeros((2, 2), [("x", object)])}),
        (TypeError, "a: dtype .?S3 has elements of 3 bytes",
         {"a": np.zeros((2, 2), "S3")}),
        (TypeError, "a: masked", {"a": np.ma.zeros((2, 2))}),
        (TypeError, "out: return arrays", {"out": [[0] * 3] * 4}),
        (ValueError, r"out: has shape \(3, 4\)", {"out": np.zeros((3, 4), np.float32)}),
        (ValueError, "out: output array is read-only", {"out": read_only}),
        (TypeError, "out: cannot cast", {"out": np.zeros((4, 3), np.int32)}),
        (ValueError, "variant: 8 is not a rung of transpose", {"variant": 8}),
        (ValueError, "variant: 'fast' is not a rung of transpose", {"variant": "fast"}),
        (TypeError, "variant", {"variant": 1.5}),
        (ValueError, "block", {"variant": "serial", "block": 32}),
        (ValueError, "device", {"device": "tpu"}),
    ):  # fmt: skip
        with pytest.raises(error, match=match):
            gpuopt.transpose(**{"a": good, **arguments})


@pytest.mark.parametrize("device", GPUS)
def test_unsupported_blocks_raise(device):
    for variant, block in ((4, 16), (5, 2048), (6, 1024), (6, 32), (2, 33), (2, 2048)):
        with pytest.raises(ValueError, match="block"):
            gpuopt.transpose(np.zeros((2, 2)), variant=variant, block=block, device=device)


def test_wrong_out_is_refused_before_anything_is_written():
    out = np.full((3, 4), 7.0)
    with pytest.raises(ValueError):
        gpuopt.transpose(np.zeros((3, 4)), out=out, device="cpu")
    assert (out == 7).all()


def test_cpu_results_do_not_depend_on_the_threads():
    code = """
        import numpy as np, gpuopt
        a = np.arange(1999 * 1501, dtype=np.int32).reshape(1999, 1501)
        for view in (a, a.T, a[:1], a[:, :1]):
            assert np.array_equal(gpuopt.transpose(view, device="cpu"), view.T)
    """
    for threads in ("1", "2", "5"):
        run_python(code, OMP_NUM_THREADS=threads)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16"])
def test_patches_that_the_cpu_stores_one_by_one(rng, dtype):
    """Matrices of any sides around those of patches, vectors and blocks, at any pitch."""
    size = np.dtype(dtype).itemsize
    sides = sorted(
        {1, 2, 3, *(side // size + k for side in (16, 64, 256, 1024) for k in (-1, 0, 1))}
    )
    for rows in (side for side in sides if side > 0):
        for columns in (side for side in [*sides, 300] if side > 0):
            pitch = columns + int(rng.choice([0, 1, 512 // size - columns % (512 // size)]))
            array = bytes_of(rng, dtype, (rows, pitch))[:, :columns]
            got = gpuopt.transpose(array, device="cpu")
            assert np.array_equal(got.view("u1"), np.ascontiguousarray(array.T).view("u1")), (
                rows, columns, pitch)  # fmt: skip


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
def test_tiny_matrices_that_are_far_apart(rng, dtype):
    for rows, columns in ((2, 2), (2, 7), (5, 3), (8, 8), (3, 21), (16, 4), (7, 9)):
        for apart in (columns, columns + 3, 64, 512):
            array = bytes_of(rng, dtype, (90, rows, apart))[:, :, :columns]
            for axes in ((0, 2, 1), (2, 0, 1), (2, 1, 0)):
                got = gpuopt.transpose(array, axes=axes, device="cpu")
                want = np.ascontiguousarray(array.transpose(axes))
                assert np.array_equal(got.view("u1"), want.view("u1")), (rows, columns, apart, axes)


def test_matrices_of_wide_elements_larger_than_caches(rng):
    for rows, columns in ((65, 4100), (300, 900), (1030, 260)):
        array = rng.random((rows, columns)) + 1j * rng.random((rows, columns))
        assert np.array_equal(gpuopt.transpose(array, device="cpu"), array.T)
