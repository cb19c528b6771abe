"""Hits of L1, of the texture cache and of L2: against a cache in Python, by definition."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import gpuopt

# following(steps, next, end): each thread walks steps times from its own index.
CHASE = """.version 7.0 .target sm_20 .address_size 64
.visible .entry chase(.param .u32 steps, .param .u64 next, .param .u64 end) {
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  ld.param.u32 %r1, [steps]; ld.param.u64 %rd1, [next]; ld.param.u64 %rd2, [end];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4; mov.u32 %r6, %r5;
AGAIN:
  mul.wide.s32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; LOAD %r6, [%rd4];
  add.s32 %r1, %r1, -1; setp.ne.s32 %p1, %r1, 0; @%p1 bra AGAIN;
  mul.wide.s32 %rd5, %r5, 4; add.s64 %rd6, %rd2, %rd5; st.global.s32 [%rd6], %r6;
  ret;
}
"""
LINE, WAYS = 128, 16


class Cache:
    """Sets of 16 lines of four sectors; the least recently used line goes."""

    def __init__(self, nbytes):
        self.sets = [{} for _ in range(nbytes // LINE // WAYS)]

    def hits(self, sector):
        line, bit = divmod(sector, 4)
        mixed = (line ^ line >> 15) * 0x9E3779B1 & 0xFFFFFFFF
        ways = self.sets[(mixed ^ mixed >> 16) * len(self.sets) >> 32]
        had = ways.pop(line, 0)
        if line not in ways and not had and len(ways) == WAYS:
            del ways[next(iter(ways))]
        ways[line] = had | 1 << bit
        return bool(had >> bit & 1)


def chase(device, following, steps, load="ld.global.s32", threads=1):
    module = gpuopt.load_ptx(CHASE.replace("LOAD", load), device=device)
    end = np.zeros(threads, np.int32)
    counted = gpuopt.profile(
        module["chase"], 1, threads, steps, following, end, caches=True, time_limit=60.0
    )
    return counted.counters


def cycle(n, seed, words=8):
    """A walk over all sectors of n, in a random order."""
    order = np.random.default_rng(seed).permutation(n)
    order = np.roll(order, -int(np.argmin(order)))
    following = np.zeros(n * words, np.int32)
    following[order * words] = np.roll(order, -1) * words
    return following, order


@pytest.mark.parametrize("seed", range(4))
def test_one_thread_hits_as_a_cache_in_python_does(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(100, 30000))
    following, order = cycle(n, seed)
    steps = int(1.7 * n)
    counted = chase("sim:v100", following, steps)
    l1, l2, hits, l2_hits = Cache(128 << 10), Cache(6 << 20), 0, 0
    for at in range(steps):
        sector = int(order[at % n])
        if l1.hits(sector):
            hits += 1
        else:
            l2_hits += l2.hits(sector)
    stored = 1  # L2 takes a store without a fetch
    assert counted.l1_load_hits == hits and counted.l1_store_hits == 0
    assert counted.l2_sectors == steps - hits + stored
    assert counted.l2_hits == l2_hits + stored
    assert counted.l2_first_misses == counted.l2_sectors - counted.l2_hits == n
    assert counted.l2_fill_bytes == 32 * n
    assert counted.waits == steps - hits and counted.first_waits == n and counted.dram_waits == 0


@pytest.mark.parametrize(
    ("sectors", "hits", "lines"),
    [((0, 1), 1, 1), ((0, 2), 0, 2), ((0, 3, 2), 1, 2), ((0, 2, 3), 1, 2), ((0, 5, 4, 5), 2, 2)],
)
def test_dram_sends_64_bytes_since_ampere(sectors, hits, lines):
    """Each of the two sectors comes with the other one, into both partitions of L2."""
    following = np.zeros(64, np.int32)
    for here, there in pairwise(sectors):
        following[8 * here] = 8 * there
    if len(set(sectors)) < len(sectors):  # a walk returns by another word of the sector
        following[8 * sectors[-2]] = 8 * sectors[-1] + 1
    counted = chase("sim:a100", following, len(sectors), "ld.global.cg.s32")
    stored = 1
    assert counted.l2_hits == hits + stored
    assert counted.l2_fill_bytes == 64 * lines
    older = chase("sim:v100", following, len(sectors), "ld.global.cg.s32")
    assert older.l2_fill_bytes == 32 * len(set(sectors))


STORES = """.version 7.0 .target sm_50 .address_size 64
.visible .entry stores(.param .u64 to) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1; ld.global.u32 %r2, [%rd3]; st.global.u32 [%rd3], %r2;
  ret;
}
"""


@pytest.mark.parametrize(("device", "hits"), [("sim:h100", (4, 4)), ("sim:gtx1080", (0, 4))])
def test_a_store_stays_in_l1_since_volta(device, hits):
    """Then the load and the second store hit its four sectors; else the load brings them."""
    kernel = gpuopt.load_ptx(STORES, device=device)["stores"]
    found = gpuopt.profile(kernel, 1, 32, np.zeros(32, np.int32), caches=True).counters
    assert (found.l1_load_hits, found.l1_store_hits) == hits


WORDS = """.version 7.0 .target sm_70 .address_size 64
.visible .entry words(.param .u64 to, .param .u32 apart) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [to]; ld.param.u32 %r3, [apart]; mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31; setp.ne.u32 %p, %r2, 0; @%p ret;
  shr.u32 %r2, %r1, 5; mul.lo.u32 %r2, %r2, %r3;
  mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;
  ret;
}
"""


@pytest.mark.parametrize(
    ("device", "apart", "sectors"), [("sim:h200", 1, 11), ("sim:k40", 1, 32), ("sim:h200", 8, 32)]
)
def test_warps_stores_to_one_sector_join_on_their_way(device, apart, sectors):
    """32 warps store a word each, in 4 sectors or in 32; of those that meet, a quarter is late."""
    ptx = WORDS if device == "sim:h200" else WORDS.replace("sm_70", "sm_30")
    out = np.zeros(256, np.int32)
    kernel = gpuopt.load_ptx(ptx, device=device)["words"]
    counted = gpuopt.profile(kernel, 1, 1024, out, apart, caches=True).counters
    assert counted.l2_sectors == sectors and counted.global_store_sectors == 32
    assert np.array_equal(out[: 32 * apart : apart], np.arange(0, 1024, 32))


def test_fermi_fills_whole_lines_and_splits_its_memory():
    """16 KB of L1: a walk over 24 KB misses often; with prefer_l1 it fits into 48 KB."""
    following, _ = cycle(24 * 1024 // LINE, 0, words=LINE // 4)
    module = gpuopt.load_ptx(CHASE.replace("LOAD", "ld.global.s32"), device="sim:m2090")
    steps = 10 * (24 * 1024 // LINE)
    rates = [
        gpuopt.profile(
            module["chase"], 1, 1, steps, following, np.zeros(1, np.int32), prefer_l1=each,
            caches=True,
        ).counters
        for each in (False, True)
    ]  # fmt: skip
    assert rates[0].l1_load_hits < 0.5 * steps < rates[1].l1_load_hits
    assert rates[1].l2_sectors >= 4 * (steps - rates[1].l1_load_hits)  # lines of four sectors


@pytest.mark.parametrize(
    ("device", "load", "hits"),
    [
        ("sim:h200", "ld.global.s32", True),
        ("sim:h200", "ld.global.cg.s32", False),
        ("sim:h200", "ld.volatile.global.s32", False),
        ("sim:k40", "ld.global.s32", False),  # L1 is for local memory
        ("sim:k40", "ld.global.nc.s32", True),  # the texture cache
        ("sim:g80", "ld.global.s32", False),
    ],
)
def test_which_loads_l1_keeps(device, load, hits):
    counted = chase(device, np.zeros(32, np.int32), 50, load)
    assert counted.l1_load_hits == (49 if hits else 0)
    assert counted.l2_sectors == 51 - counted.l1_load_hits


def test_a_gpu_without_l2_reads_all_from_dram():
    counted = chase("sim:g80", np.zeros(32, np.int32), 50)
    assert counted.l2_fill_bytes == 50 * 32 and counted.dram_read_bytes == 32


def test_lines_evicted_from_l2_are_read_again_and_written_back():
    """An M2090 has 768 KB: a product of 512 x 512 reads B (1 MB) for every row of blocks."""
    x = np.ones((512, 512), np.float32)
    told = gpuopt.profile(gpuopt.matmul, x, x, variant=2, device="sim:m2090", caches=True)
    large = gpuopt.profile(gpuopt.matmul, x, x, variant=2, device="sim:h200", caches=True)
    assert told.counters.l2_fill_bytes > 2 * told.counters.dram_read_bytes
    assert 0 < told.counters.l2_write_back_bytes <= told.counters.dram_write_bytes
    assert large.counters.l2_fill_bytes == large.counters.dram_read_bytes
    assert large.counters.warm_l2_hit_rate > 0.99 > large.counters.l2_hit_rate


COPY = """.version 7.0 .target sm_50 .address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
  .reg .b32 %r<4>; .reg .f32 %f<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3; mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd2], %f1; ret;
}
"""


@pytest.mark.parametrize(
    ("device", "blocks", "lacks"),
    [("sim:h200", 8192, 1 / 8), ("sim:h200", 1024, 0), ("sim:a10", 2048, 0)],
)
def test_a_copy_in_a_warm_l2_lacks_a_quarter_of_what_it_reads(device, blocks, lacks):
    """An H200 measures 87.2 to 87.6% hits where blocks move, 100% where one wave is all."""
    x = np.ones(256 * blocks, np.float32)
    kernel = gpuopt.load_ptx(COPY, device=device)["copy"]
    counted = gpuopt.profile(kernel, blocks, 256, x, x.copy(), caches=True).counters
    assert counted.l2_hit_rate == 0.5
    assert 1 - counted.warm_l2_hit_rate == pytest.approx(lacks, abs=0.01)
    far = 0 if device == "sim:a10" else counted.l2_sectors / 2  # half of all lines
    assert counted.l2_far_sectors == pytest.approx(far, rel=0.05)
    copies = 1 if device == "sim:a10" else 1.5
    assert counted.l2_held_bytes == pytest.approx(copies * 2 * x.nbytes, rel=0.03)
    assert counted.l2_warm_dram_bytes == 0


def test_data_larger_than_l2_is_lost():
    """An H200 measures 50.1% hits of reading and writing 28 MiB each twice: stores hit."""
    x = np.ones(28 << 18, np.float32)
    kernel = gpuopt.load_ptx(COPY, device="sim:h200")["copy"]
    counted = gpuopt.profile(kernel, x.size // 256, 256, x, x.copy(), caches=True).counters
    assert counted.warm_l2_hit_rate == pytest.approx(0.5, abs=0.01)
    assert counted.l2_warm_dram_bytes == pytest.approx(2 * x.nbytes, rel=0.01)


def test_lines_and_statements_add_up():
    x = np.arange(1 << 14, dtype=np.float32)
    told = gpuopt.profile(gpuopt.stencil1d, x, variant=1, caches=True)
    for name in ("l1_load_hits", "l2_sectors", "l2_hits", "l2_first_misses", "l2_far_sectors"):
        whole = told.counters[name]
        assert whole == sum(each[name] for each in told.by_line().values())
        assert whole == sum(each[name] for each in told.records("statement"))
    assert 0.5 < told.counters.l1_hit_rate < 1


def test_caches_are_counted_where_asked_for():
    x = np.arange(1 << 12, dtype=np.float32)
    plain = gpuopt.profile(gpuopt.stencil1d, x, variant=1).counters
    asked = gpuopt.profile(gpuopt.stencil1d, x, variant=1, caches=True).counters
    cached = {name for name in asked if asked[name] != plain[name]}
    assert plain.l2_sectors == plain.l1_load_hits == 0
    assert cached <= {
        "l1_load_hits", "l1_store_hits", "l2_sectors", "l2_hits", "l2_first_misses", "waits",
        "first_waits", "dram_waits", "l2_fill_bytes", "l2_write_back_bytes", "tag_passes",
        "l2_halves", "l2_distinct_bytes", "l2_warm_misses", "l2_far_sectors", "l2_held_bytes",
        "l2_warm_dram_bytes", "atomic_passes", "atomic_hot_passes",
    }  # fmt: skip


COUNT = """
import json, numpy as np, gpuopt
x = np.random.default_rng(0).random((96, 200), np.float32)
told = {}
for name, call in {
    "transpose": lambda: gpuopt.transpose(x, variant="2d", device="sim:m2090"),
    "matmul": lambda: gpuopt.matmul(x.T, x, variant=1, device="sim:m2090"),
    "sum": lambda: gpuopt.reduce(np.tile(x.ravel(), 9), variant=7, device="sim"),
    "atomics": lambda: gpuopt.reduce(x.ravel(), variant="single-pass", device="sim"),
}.items():
    told[name] = dict(gpuopt.profile(call, caches=True).counters)
print(json.dumps(told))
"""


def test_hits_do_not_depend_on_the_hosts_threads():
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", COUNT],
                env=os.environ | {"GPUOPT_NUM_THREADS": str(threads)},
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for threads in (1, 2, 7)
    ]  # fmt: skip
    assert found[0] == found[1] == found[2]
    assert all(each["l2_sectors"] for each in found[0].values())


def test_a_schedule_and_a_failed_launch():
    module = gpuopt.load_ptx(CHASE.replace("LOAD", "ld.global.s32"), device="sim")
    following, end = np.zeros(8, np.int32), np.zeros(64, np.int32)
    with gpuopt.profile(device="sim", caches=True) as told:
        module["chase"](1, 64, 3, np.zeros(64, np.int32), end, schedule=3)
    assert told.counters.l2_sectors
    with pytest.raises(gpuopt.SimError), gpuopt.profile(device="sim", caches=True):
        module["chase"](1, 64, 3, following, end)  # beyond the array


# --- textures


def test_texture_cache_and_two_dimensional_locality():
    """Deck D3: a fetch of neighbours in both dimensions hits, whichever way a warp goes."""
    found = gpuopt.experiments.texture(64, device="sim:gt200")
    rates = {row.name: row.values["texture_hit_rate"] for row in found.rows}
    assert rates["square blocks down columns, texture"] == 0.5
    assert rates["square blocks down columns, load"] == 0
