"""The ladders' lessons as counters: what each rung changes, and by how much."""

import itertools

import numpy as np
import pytest
from conftest import KINDS

import gpuopt
from gpuopt.arrays import device_array

pytestmark = pytest.mark.skipif(
    "sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU"
)


def counted(function, *arguments, **more):
    """Return the counters of a call on the simulated H200."""
    return gpuopt.profile(function, *arguments, device="sim:h200", **more).counters


def test_transpose_rungs_change_the_expected_counters(rng):
    """Side 256: as many sectors and wavefronts, for each element, as hardware counts for 1,024."""
    side = 256
    items, warps = side * side, side * side // 32
    a = rng.random((side, side), np.float32)
    by_name = {
        rung.name: counted(gpuopt.transpose, a, variant=rung.variant)
        for rung in gpuopt.rungs("transpose")
        if not rung.host
    }
    coalesced, scattered = items * 4 // 32, items
    for name, loads in (("copy", coalesced), ("1d", scattered), ("2d", scattered),
                        ("tex", scattered), ("shared", coalesced), ("padded", coalesced),
                        ("multi", coalesced)):  # fmt: skip
        assert by_name[name].global_load_sectors == loads, name
        assert by_name[name].global_store_sectors == coalesced, name
    for name, a_request in (("copy", 16), ("multi", 4), ("vector", 16)):  # bytes of a lane
        assert by_name[name].global_load_requests == items * 4 // 32 // a_request, name
        assert by_name[name].global_store_requests == items * 4 // 32 // a_request, name
    assert by_name["copy"].warps * 4 == warps  # 16 bytes per thread
    # Turned on its way into the tile, or out of it.
    assert by_name["shared"].shared_store_wavefronts == 32 * warps
    assert by_name["padded"].shared_store_wavefronts == warps
    for name in ("shared", "padded", "multi"):
        assert by_name[name].shared_load_wavefronts == warps, name
    deck = counted(gpuopt.transpose, a, variant="padded", block=1024)  # one element per thread
    assert by_name["multi"].barriers * 8 == deck.barriers


def test_stencil_rungs_change_the_expected_counters(rng):
    a = rng.random(1 << 14, np.float32)
    straight, shared, registers = (
        counted(gpuopt.stencil1d, a, variant=variant) for variant in (1, 2, 3)
    )
    assert straight.global_load_requests > 6.9 * a.size / 32
    assert shared.global_load_requests < 1.2 * a.size / 32
    assert shared.barriers == a.size / 32
    assert registers.global_load_requests < 2.6 * a.size / 32 and registers.barriers == 0
    assert registers.warp_instructions < straight.warp_instructions / 2


def conflicts_of(counted):
    """Return the share of the shared-memory wavefronts that bank conflicts add."""
    wavefronts = counted.shared_load_wavefronts + counted.shared_store_wavefronts
    return (counted.shared_load_conflicts + counted.shared_store_conflicts) / wavefronts


def test_stencils_of_wide_windows(rng):
    """Packs of 16 bytes on both sides, but at the ends; shared sums hardly grow with the radius."""
    a = rng.random(1 << 19, np.float32)  # more tiles than the few of which threads have 5 outputs
    packs = a.size / 128  # of a warp
    narrow, wide, widest = (
        counted(gpuopt.stencil1d, a, radius, variant=5) for radius in (16, 64, 512)
    )
    assert narrow.global_load_requests < 1.3 * packs and narrow.global_store_requests < 1.2 * packs
    assert wide.global_load_requests < 1.4 * packs and wide.global_store_requests < 1.2 * packs
    assert widest.global_load_requests < 2.1 * packs
    assert conflicts_of(narrow) < 0.05  # the first and the last tile's
    assert widest.warp_instructions < 1.7 * narrow.warp_instructions


def test_stencils_of_other_windows(rng):
    """Through tiles as well: one request for 16 bytes, no bank conflicts, half the instructions."""
    a = rng.random(1 << 19, np.float32)  # more tiles than the few of which threads have 5 outputs
    packs = a.size / 128  # of a warp
    for call, instructions in (
        ({"radius": 6}, 0.65),
        ({"radius": 2, "mode": "valid"}, 0.7),  # outputs lie 8 bytes before their inputs
        ({"weights": rng.random(11)}, 0.55),
        ({"weights": rng.random(33)}, 0.5),
        ({"weights": rng.random(81)}, 0.45),
    ):
        registers = counted(gpuopt.stencil1d, a, variant=3, **call)
        tiles = counted(gpuopt.stencil1d, a, variant=5, **call)
        assert tiles.warp_instructions < instructions * registers.warp_instructions, call
        assert tiles.global_load_requests < 1.5 * packs, call
        assert tiles.global_store_requests < 1.2 * packs, call
        assert conflicts_of(tiles) < 0.05, call


def test_matmul_rungs_change_the_expected_counters(rng):
    """Words of global memory fall 32-fold; passes through shared memory fall with the targets."""
    side = 64
    a, b = rng.random((side, side), np.float32), rng.random((side, side), np.float32)
    found = [counted(gpuopt.matmul, a, b, variant=variant) for variant in range(1, 6)]
    assert all(each.flops_f32 == 2 * side**3 for each in found)
    assert found[0].global_load_requests == 2 * side**3 / 32
    assert all(each.global_load_requests == 2 * side**3 / 32 / 32 for each in found[1:])
    passes = [each.shared_load_wavefronts for each in found[1:]]
    assert all(after < before for before, after in itertools.pairwise(passes))
    instructions = [each.warp_instructions for each in found[1:]]
    assert all(after < before for before, after in itertools.pairwise(instructions))


def test_matmul_beyond_the_deck(rng):
    """One tile of 128 x 128: fewer accesses to shared memory, then wider ones."""
    side = 128
    a, b = rng.random((side, side), np.float32), rng.random((side, side), np.float32)
    found = [counted(gpuopt.matmul, a, b, variant=variant) for variant in range(5, 11)]
    eight, targets, words, ring, tiles, tuned = found
    assert all(each.flops_f32 == 2 * side**3 for each in found[:-1])
    assert tuned.flops_f32 == 2 * side**3 + side**2  # the sums of two slices are added
    assert targets.shared_load_requests * 4 < eight.shared_load_requests * 3
    assert words.shared_load_requests * 4 == targets.shared_load_requests
    assert words.global_load_requests * 4 == targets.global_load_requests
    assert ring.shared_load_requests == tiles.shared_load_requests == words.shared_load_requests
    assert ring.barriers < words.barriers * 0.6 and tiles.barriers < ring.barriers * 0.6
    # The grid is filled up to eight rows of tiles, of which one is needed, or two of 64 x 64.
    assert (tiles.warps, tuned.warps) == (8 * 8, 8 * 2 * 4)


def test_vector_rungs_change_the_expected_counters():
    x = np.ones(1024, np.float32)
    found = {name: counted(gpuopt.add, x, x, variant=name) for name in ("one-thread", "blocks",
             "threads", "bounds")}  # fmt: skip
    assert found["one-thread"].warps == 1 and found["blocks"].warps == 1024
    assert found["threads"].warps == found["bounds"].warps == 32
    assert found["threads"].blocks == 1 and found["bounds"].blocks == 2
    assert found["bounds"].thread_instructions == 32 * found["bounds"].warp_instructions
    assert found["blocks"].thread_instructions == found["blocks"].warp_instructions


def test_rung_7_vectorizes_aligned_arrays(rng):
    """As many sectors by a quarter of the requests, and a third of the instructions."""
    n = 1 << 15
    x = rng.random(n, np.float32)
    stride, packs = (counted(gpuopt.add, x, x, variant=variant) for variant in (6, 7))
    assert stride.global_load_requests == 2 * n / 32 and stride.global_store_requests == n / 32
    assert packs.global_load_requests * 4 == stride.global_load_requests
    assert packs.global_store_requests * 4 == stride.global_store_requests
    assert packs.global_load_sectors == stride.global_load_sectors == 2 * n * 4 / 32
    assert packs.global_store_sectors == stride.global_store_sectors == n * 4 / 32
    assert packs.warps * 8 == stride.warps
    assert packs.warp_instructions < 12 * n / 32 < 0.4 * stride.warp_instructions
    assert packs.thread_instructions == 32 * packs.warp_instructions


def test_rung_7_uses_scalars_for_unaligned_views(rng):
    """Where x begins elsewhere: single elements, still fewer instructions than a loop over them."""
    n = 1 << 15
    whole, y = (gpuopt.asarray(rng.random(n + 4, np.float32), device="sim:h200") for _ in range(2))
    x = device_array.make(whole.address + 4, (n,), whole.dtype, whole.device, whole)
    y = device_array.make(y.address, (n,), y.dtype, y.device, y)
    stride, items = (
        gpuopt.profile(gpuopt.add, x, y, variant=variant).counters for variant in (6, 7)
    )
    for counter in ("requests", "sectors"):
        for access in ("global_load_", "global_store_"):
            assert getattr(items, access + counter) == getattr(stride, access + counter)
    assert items.warps * 8 == stride.warps
    assert items.warp_instructions < 0.6 * stride.warp_instructions


def test_models_agree_with_the_simulators_counters(rng):
    """Occupancy, sectors and passes by arithmetic, and by running a kernel."""
    column = [4 * 32 * lane for lane in range(32)]
    passes = gpuopt.models.bank_conflicts("h200", column).passes
    a = rng.random((32, 32), np.float32)
    assert counted(gpuopt.transpose, a, variant="shared").shared_store_wavefronts == 32 * passes
    rows = [4 * 32 * lane for lane in range(32)]
    sectors = gpuopt.models.transactions("h200", rows).count
    assert counted(gpuopt.transpose, a, variant="2d").global_load_sectors == 32 * sectors
