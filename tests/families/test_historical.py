"""The decks' listings as they were: right and clean on the decks' GPUs, refused elsewhere."""

import numpy as np
import pytest
from fake_driver import with_fake

import gpuopt

FAMILIES = ("reduce", "transpose", "stencil1d", "add", "saxpy", "matmul")
OF_REDUCE = [rung for rung in gpuopt.rungs("reduce") if rung.historical]
D2 = [rung for rung in gpuopt.rungs("matmul") if rung.listing and rung.number]
D0 = ["d0-plain", "d0-tile-of-a", "d0-tiles"]


def clean(function, *arguments, device, **keywords):
    """Return a call's result; fail if there are findings."""
    found = gpuopt.check(function, *arguments, device=device, **keywords)
    assert not found, found
    return function(*arguments, device=device, **keywords)


@pytest.mark.parametrize("rung", OF_REDUCE, ids=lambda rung: rung.name)
@pytest.mark.parametrize("block", [64, 128, 256, 512])
def test_reductions_on_the_decks_gpu(rung, block, rng):
    x = rng.integers(-(2**31), 2**31, 1 << 20, dtype=np.int32)  # the sum wraps
    got = clean(
        gpuopt.reduce, x, variant=rung.variant, block=block, dtype=np.int32, device="sim:g80"
    )
    assert got == x.sum(dtype=np.int32)


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
def test_small_instances_of_the_templates(block, rng):
    x = rng.integers(-100, 100, 1 << 11, dtype=np.int32)
    for variant in ("6-historical", "7-historical"):
        got = clean(
            gpuopt.reduce, x, variant=variant, block=block, dtype=np.int32, device="sim:g80"
        )
        assert got == x.sum()


@pytest.mark.parametrize("n", [2, 128, 256, 1 << 14, 3 << 14, 257 << 8])
def test_elements_of_a_cascaded_reduction(n, rng):
    x = rng.integers(-100, 100, n, dtype=np.int32)
    got = clean(gpuopt.reduce, x, variant="7-historical", dtype=np.int32, device="sim:g80")
    assert got == x.sum()


def test_passes_and_blocks_are_the_decks():
    x = np.ones(1 << 21, np.int32)
    keywords = {"dtype": np.int32, "device": "sim:g80", "block": 128}
    for variant, grids in (
        ("1-historical", [1 << 14, 128, 1]),
        ("4-historical", [1 << 13, 32, 1]),
        ("7-historical", [64, 1]),
    ):
        counted = gpuopt.profile(gpuopt.reduce, x, variant=variant, **keywords)
        assert counted.result == 1 << 21
        assert [launch.grid[0] for launch in counted.launches] == grids
    # two-way, four-way, ... conflicts of 2 are gone in 3, and 1 divides where ours has a mask
    pairs, halves = (
        gpuopt.profile(gpuopt.reduce, x[: 1 << 14], variant=variant, **keywords).counters
        for variant in ("2-historical", "3-historical")
    )
    assert pairs.shared_load_conflicts > 0 == halves.shared_load_conflicts


@pytest.mark.parametrize(
    ("variant", "blocks", "grids"),
    [
        (7, 64, [64, 1]),
        (8, 64, [64, 1]),
        (9, 10, [10, 1]),
        (10, 64, [64, 1]),
        (11, 64, [64]),
        ("7-historical", 256, [256, 1]),
        ("7-historical", 1, [1]),
        (7, 1, [1]),
    ],
)
def test_blocks_are_the_callers(variant, blocks, grids, rng):
    x = rng.integers(-(2**31), 2**31, 1 << 18, dtype=np.int32)
    counted = gpuopt.profile(
        gpuopt.reduce, x, variant=variant, blocks=blocks, dtype=np.int32, device="sim:g80"
    )
    assert counted.result == x.sum(dtype=np.int32)
    assert [launch.grid[0] for launch in counted.launches] == grids


@pytest.mark.parametrize("n", [1, 5, 1000, 4097])
def test_more_blocks_than_elements_are_not_launched(n, rng):
    x = rng.integers(-100, 100, n)
    for variant in (7, 8, 9, 10, 11):
        got = gpuopt.reduce(x, variant=variant, blocks=1000, device="sim:g80")
        assert got == x.sum()


def test_blocks_that_a_rung_does_not_take():
    x = np.ones(256, np.int32)
    for call in ({"variant": 3}, {"variant": 13}, {"device": "cpu"}, {"axis": 0}):
        with pytest.raises(ValueError, match=r"blocks: rung .* grid of its own"):
            gpuopt.reduce(x, blocks=64, **{"device": "sim", **call})
    for wrong in (0, -1, 2.5, "64", True, 2**40):
        with pytest.raises(ValueError, match="blocks: must be an integer from 1"):
            gpuopt.reduce(x, variant=7, blocks=wrong, device="sim")


def test_the_last_warp_is_a_race_since_volta():
    x = np.ones(1 << 10, np.int32)
    for variant in ("6-historical", "7-historical"):
        found = gpuopt.check(gpuopt.reduce, x, variant=variant, dtype=np.int32, device="sim:h200")
        assert {each.kind for each in found} == {"race in shared memory"}


@pytest.mark.parametrize("number", range(1, 7))
@pytest.mark.parametrize("shape", [(1024, 1024), (256, 1280)])
def test_transposes(number, shape, rng):
    a = rng.random(shape, np.float32)
    got = clean(gpuopt.transpose, a, variant=f"{number}-historical", device="sim:k40")
    np.testing.assert_array_equal(got, a.T)


def test_transposes_show_what_the_deck_says():
    a = np.zeros((1024, 1024), np.float32)
    counted = [
        gpuopt.profile(gpuopt.transpose, a, variant=f"{number}-historical", device="sim:k40")
        for number in (1, 4, 5)
    ]
    assert counted[0].launches[0].grid[0] == 4  # on 15 multiprocessors
    assert counted[1].counters.shared_load_requests == 32768
    assert (
        counted[1].counters.shared_load_conflicts > 0 == counted[2].counters.shared_load_conflicts
    )


def test_listing_of_the_stencil_matches_numpy(rng):
    a = rng.integers(-1000, 1000, (1 << 14) + 6, dtype=np.int32)
    got = clean(gpuopt.stencil1d, a, mode="valid", variant="2-listing", device="sim:k40")
    np.testing.assert_array_equal(got, np.convolve(a, np.ones(7, np.int32), "valid"))
    assert gpuopt.check(gpuopt.stencil1d, a, variant="2-historical", device="sim:k40")


@pytest.mark.parametrize(
    ("number", "n", "grid"),
    [(1, 1, 1), (2, 512, 512), (3, 512, 1), (4, 1 << 16, 128), (5, 1 << 16, 129), (5, 1000, 2)],
)
def test_additions(number, n, grid, rng):
    x, y = rng.integers(-1000, 1000, (2, n), dtype=np.int32)
    variant = f"{number}-historical"
    np.testing.assert_array_equal(clean(gpuopt.add, x, y, variant=variant, device="sim:k40"), x + y)
    counted = gpuopt.profile(gpuopt.add, x, y, variant=variant, device="sim:k40")
    assert counted.launches[0].grid[0] == grid


@pytest.mark.parametrize("n", [1, 1000, 1 << 14])
def test_listing_of_saxpy_is_within_two_roundings(n, rng):
    x, y = rng.random((2, n), np.float32)
    got = clean(gpuopt.saxpy, 2.5, x, y, variant="5-historical", device="sim:k40")
    np.testing.assert_allclose(got, 2.5 * x.astype(float) + y, atol=2**-21)  # a rounding or two


@pytest.mark.parametrize("rung", D2, ids=lambda rung: rung.name)
def test_listings_of_products_are_within_their_bound(rung, rng):
    a, b = rng.random((96, 128), np.float32), rng.random((128, 160), np.float32)
    got = clean(gpuopt.matmul, a, b, variant=rung.variant, device="sim:m2090")
    # 128 products of numbers below 1, each rounded once or twice
    np.testing.assert_allclose(got, a.astype(float) @ b, atol=128 * 128 * 2**-23)


@pytest.mark.parametrize("preset", ["g80", "gt200"])
def test_products_of_the_first_deck(preset, rng):
    """The deck's shape: an inner dimension of 16, one tile."""
    rows, columns, depth = 128, 128, 16
    a, b = rng.random((rows, depth), np.float32), rng.random((depth, columns), np.float32)
    halves, moved = rows * columns // 16, []
    for variant in D0:
        got = clean(gpuopt.matmul, a, b, variant=variant, device=f"sim:{preset}")
        np.testing.assert_allclose(got, a.astype(float) @ b, atol=16 * 16 * 2**-23)
        counted = gpuopt.profile(gpuopt.matmul, a, b, variant=variant, device=f"sim:{preset}")
        moved.append(counted.counters.global_transactions)
    # a half-warp: its element of A, its row of B, and its row of C
    of_a = 16 if preset == "g80" else 1  # one address for all: 16 transactions on CC 1.0 and 1.1
    assert moved == [halves * (depth * (of_a + 1) + 1), halves * (1 + depth + 1), halves * 3]


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "text"),
    [
        (
            "reduce",
            (np.ones(1000, np.int32),),
            {"dtype": np.int32},
            "array: .*'1-historical'.*1000",
        ),
        ("transpose", (np.ones((100, 64), np.float32),), {}, "shape: .*multiples of 256 and 1"),
        ("matmul", (np.ones((64, 9)), np.ones((9, 40))), {}, "shape: .*multiples of 32"),
        ("add", (np.ones(3, np.int32),) * 2, {}, "x: .*one element, not 3"),
        ("stencil1d", (np.ones(64, np.int32),), {"variant": "2-listing"}, "mode: .*mode='valid'"),
    ],
)
def test_sizes_that_a_listing_cannot_serve(function, arguments, keywords, text):
    arguments = [
        each.astype(np.float32) if each.dtype == np.float64 else each for each in arguments
    ]
    keywords = {"variant": "1-historical", **keywords}
    with pytest.raises(gpuopt.UnfitError, match=text):
        getattr(gpuopt, function)(*arguments, device="sim:k40", **keywords)


def test_a_sum_of_another_type_names_the_remedy():
    with pytest.raises(TypeError, match=r"dtype=np\.int32"):
        gpuopt.reduce(np.ones(128, np.int32), variant="1-historical", device="sim:g80")


def test_a_gpu_refuses_them(fake_cuda):
    with_fake(
        fake_cuda,
        """
x = np.ones(256, np.int32)
run = lambda **at: gpuopt.reduce(x, variant="1-historical", dtype=np.int32, **at)
caught(ValueError, lambda: run(device="cuda"), "only the simulated GPU runs it", "sim:g80")
assert run() == 256  # without a device: the simulated GPU
""",
    )


def test_never_a_default():
    for family in FAMILIES:
        listed = [rung for rung in gpuopt.rungs(family) if rung.listing]
        assert listed and not any(rung.best or not rung.historical for rung in listed)
        assert all(rung.file == "historical.cu" for rung in map(of, listed))


def of(rung):
    return gpuopt.source(rung.family, rung.variant)


def test_beside_ours():
    shown = gpuopt.source("reduce", 1, historical=True)
    assert "-        if (tid % (2 * s) == 0)" in shown.unified
    assert "+        if ((t & (2 * s - 1)) == 0)" in shown.unified
    same = gpuopt.source("reduce", "1-historical", historical=True)
    assert same.unified == shown.unified
    with pytest.raises(ValueError, match=r"historical: .*use one of 1, 2, 3, 4, 5, 6, 7"):
        gpuopt.source("reduce", 9, historical=True)
    with pytest.raises(ValueError, match=r"historical: .*no rung of it has one"):
        gpuopt.source("roofline", 0, historical=True)


def test_misprints_stand_at_the_listings():
    first, second = (gpuopt.source("reduce", f"{k}-historical").text for k in (1, 2))
    assert "reads and writes one buffer" in first
    assert "539" in second and "2, 4, 8, 8, 4, 2 ways" in second


def test_accesses_of_the_first_listing_are_those_of_its_comment():
    """A quarter of the comment's size: the launches read and write the same words, 128 fewer."""
    x = np.ones(1 << 14, np.int32)
    counted = gpuopt.profile(
        gpuopt.reduce, x, variant="1-historical", block=128, dtype=np.int32, device="sim:g80"
    )
    reads, writes = [1 << 22, 1 << 15, 256, 2], [1 << 15, 256, 2, 1]
    assert (sum(reads), sum(writes)) == (4227330, 33027)
    counters = counted.counters  # the last two of four levels
    assert counters.global_load_bytes == 4 * ((1 << 14) + 128)
    assert counters.global_store_bytes == 4 * (128 + 1)


def test_misprinted_condition_gives_what_the_listing_says():
    """A model of the block, as D4 prints it: 0 to 127, of which only a few are added."""
    shared = np.arange(128)
    for s in (1, 2, 4, 8, 16, 32, 64):
        index = 2 * s * np.arange(128)
        index = index[index < 128 // s]
        shared[index] += shared[index + s]
    assert (shared[0], np.arange(128).sum()) == (539, 8128)


def test_conflicts_of_the_second_listing_are_those_of_its_comment():
    ways = [
        max(
            gpuopt.models.bank_conflicts("g80", addresses).ways
            for first in range(0, 128, 32)
            for addresses in [[4 * 2 * s * t if 2 * s * t < 128 else None
                               for t in range(first, first + 32)]]
            if any(address is not None for address in addresses)
        )
        for s in (1, 2, 4, 8, 16, 32, 64)
    ]  # fmt: skip
    assert ways == [2, 4, 8, 8, 4, 2, 1]


@pytest.mark.parametrize("variant", ["1-historical", "6-historical"])
def test_counters_on_the_decks_gpu(variant):
    counted = gpuopt.source("reduce", variant, annotate=True)
    assert "simulated G80" in counted.counted
    assert sum(each.counters.warp_instructions for each in counted.lines if each.counters)
