"""Predicted times against the decks' tables, the model's parts, and kernels beyond the model."""

import json
import math
import os
import subprocess
import sys
from statistics import median

import numpy as np
import pytest
from conftest import needs_newer_ptx

import gpuopt
from gpuopt import _core
from gpuopt.catalog.figures import FIGURES
from gpuopt.experiments.coalescing import DECK
from gpuopt.observe import machine, scoreboard, timing
from gpuopt.observe.bounds import preset_row

OFF = 0.25  # the bar: every row
MEDIAN = 0.10


def listings(numbers):
    return [f"{number}-historical" for number in numbers]


def check_table(predicted, deck):
    """Every row within 25%, the median within 10%, the same order."""
    off = [abs(a / b - 1) for a, b in zip(predicted, deck, strict=True)]
    assert max(off) < OFF and median(off) < MEDIAN, off
    assert np.argsort(predicted).tolist() == np.argsort(deck).tolist()


# --- the decks' tables, by the decks' own code


def test_reductions_of_the_g80():
    x = np.arange(1 << 22, dtype=np.int32) & 1
    found = [
        gpuopt.predict(
            gpuopt.reduce, x, variant=each, block=128, dtype=np.int32, device="sim:g80"
        ).seconds
        * 1e6
        for each in listings(range(1, 8))
    ]
    check_table(found, [8054, 3456, 1722, 965, 536, 381, 268])


def test_transposes_of_the_k40():
    x = np.ones((1024, 1024), np.float32)
    found = [
        2 * x.nbytes / gpuopt.predict(gpuopt.transpose, x, variant=each, device="sim:k40").seconds
        for each in listings(range(1, 7))
    ]
    check_table([each / 1e9 for each in found], [9.7, 41.6, 137.4, 116.0, 150.6, 238.4])


@pytest.fixture(scope="module")
def products():
    """Predicted ms of 1,024 x 1,024 float32, from 512 x 512: an eighth of the work."""
    x = np.ones((512, 512), np.float32)
    return [
        gpuopt.predict(gpuopt.matmul, x, x, variant=each, device="sim:m2090")
        for each in listings(range(1, 6))
    ]


def test_matrix_products_of_the_m2090(products):
    found = [8e3 * each.seconds for each in products]
    check_table(found[::-1], [4.53, 5.05, 6.46, 9.44, 29.63])
    assert [each.bound for each in products] == ["latency"] + 4 * ["shared memory"]


def test_without_the_caches_the_naive_product_is_missed_and_says_so():
    x = np.ones((512, 512), np.float32)
    counted = gpuopt.profile(gpuopt.matmul, x, x, variant="1-historical", device="sim:m2090")
    naive = counted.predicted()
    assert 8e3 * naive.seconds < 0.75 * 29.63 < 8e3 * naive.high and "caches" in naive.note


@pytest.mark.parametrize("caches", [False, True])
def test_coalescing_of_the_g8x(caches):
    n = 3 << 18  # a quarter of the deck's
    with gpuopt.profile(device="sim:g80", caches=caches) as counted:
        names = [row.name for row in gpuopt.experiments.coalescing(n, device="sim:g80").rows]
    launches = counted.predicted().launches
    first = FIGURES["g80"].launch
    found = {
        name: 4e6 * (each.seconds - first) + 1e6 * first
        for name, each in zip(names, launches, strict=True)
    }
    off = {name: abs(found[name] / us - 1) for name, us in DECK.items()}
    assert max(off.values()) < OFF, off
    assert median(off.values()) < MEDIAN


# --- a kernel of a user's own

HEAD = ".version 6.4\n.target sm_50\n.address_size 64\n"
SCALE = (
    HEAD
    + """
.visible .entry scale(.param .u64 out, .param .u64 in, .param .f32 by) {
    .reg .b32 %r<4>;
    .reg .b64 %rd<5>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [in];
    ld.param.f32 %f1, [by];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r1, %r1, %r2, %r3;
    mul.wide.s32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.f32 %f3, %f2, %f1;
    add.s64 %rd4, %rd1, %rd3;
    st.global.f32 [%rd4], %f3;
    ret;
}
"""
)


def scaled(device, **options):
    x = np.ones(1 << 22, np.float32)
    out = np.empty_like(x)
    kernel = gpuopt.load_ptx(SCALE, device=device)["scale"]
    return gpuopt.predict(kernel, 1 << 14, 256, out, x, np.float32(2), **options)


def test_copy_of_a_user_takes_its_bytes_over_the_attainable_bandwidth():
    found = scaled("sim:k40")
    assert found.bound == "DRAM"
    assert found.seconds == pytest.approx((2 << 24) / (288e9 * 0.83) + 5e-6, rel=1e-6)
    assert found.shares["DRAM"] > 0.95 and found.shares["issue"] < 0.5


def test_changed_bandwidth_clock_and_multiprocessors_change_the_prediction():
    base = scaled("sim:k40").seconds - 5e-6
    faster = scaled("sim:k40", bandwidth=576e9)
    assert "576 GB/s" in faster.device and faster.seconds - 5e-6 < 0.9 * base
    slower = scaled("sim:k40", clock=0.745e9 / 16)
    assert slower.bound != "DRAM" and slower.seconds > 2 * base
    fewer = scaled("sim:k40", multiprocessors=1)
    assert fewer.bound != "DRAM" and fewer.seconds > 2 * base
    x = np.ones(1 << 18, np.int32)
    one, two = (
        gpuopt.predict(gpuopt.reduce, x, variant=3, device="sim:g80", clock=clock).seconds
        for clock in (1.35e9, 2.7e9)
    )
    assert 0.5 < two / one < 0.7  # launches cost the same


@pytest.mark.parametrize(
    ("figure", "error"),
    [
        ({"clock": 0}, ValueError),
        ({"clock": math.inf}, ValueError),
        ({"bandwidth": -1.0}, ValueError),
        ({"multiprocessors": 1.5}, ValueError),
        ({"clock": "fast"}, TypeError),
    ],
)
def test_a_figure_that_is_no_positive_number_is_refused(figure, error):
    with pytest.raises(error, match=next(iter(figure))):
        gpuopt.predict(gpuopt.reduce, np.ones(64, np.int32), device="sim", **figure)


def test_data_in_l2_is_not_read_from_dram():
    x = np.ones(1 << 20, np.float32)
    warm, cold = (
        gpuopt.predict(gpuopt.transpose, x.reshape(1024, 1024), variant="copy", cold=cold)
        for cold in (False, True)
    )
    assert "DRAM" not in warm.shares and cold.shares["DRAM"] > 0
    assert cold.seconds >= warm.seconds


# --- what the model refuses

COUNT = (
    HEAD
    + """
.visible .entry count(.param .u64 out) {
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    red.global.add.u32 [%rd1], 1;
    ret;
}
"""
)
SPIN = (
    HEAD
    + """
.visible .entry spin(.param .u64 flag) {
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [flag];
    mov.u32 %r1, 0;
again:
    ld.volatile.global.u32 %r2, [%rd1];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 8;
    @%p bra again;
    ret;
}
"""
)


@pytest.mark.parametrize(
    ("ptx", "kernel", "word"), [(COUNT, "count", "contention"), (SPIN, "spin", "may wait")]
)
def test_waiting_and_contention_get_no_number(ptx, kernel, word):
    data = np.zeros(4, np.uint32)
    found = gpuopt.predict(gpuopt.load_ptx(ptx, device="sim:a100")[kernel], 512, 256, data)
    assert all(map(math.isnan, (found.seconds, found.low, found.high)))
    assert found.bound == "" and found.shares == {} and word in found.note
    assert word in str(found) and "no prediction" in str(found)


def test_an_h100s_slices_of_l2_take_atomics_one_by_one():
    """Known rates: 512 blocks of 256 lanes count on one word at 1.37 per ns."""
    kernel = gpuopt.load_ptx(COUNT, device="sim:h100")["count"]
    found = gpuopt.predict(kernel, 512, 256, np.zeros(4, np.uint32))
    assert found.bound == "atomics" and found.note == ""
    assert found.seconds == pytest.approx(512 * 256 / FIGURES["h100"].atomics * 1e-9, rel=0.05)
    assert found.launches[0].verdict.startswith("memory-bound: atomics")


def test_one_atomic_a_block_is_no_contention():
    x = np.ones(1 << 20, np.float32)
    found = gpuopt.predict(gpuopt.reduce, x, variant="single-pass", device="sim:h200")
    assert found.seconds > 0 and found.note == ""


@needs_newer_ptx
def test_bulk_copies_count_each_sector_once_and_are_waited_for():
    """Rung 12 copies its input in bulk; its warps wait for an mbarrier in a loop."""
    x = np.ones(1 << 20, np.float32)
    told = gpuopt.profile(gpuopt.reduce, x, variant="bulk", device="sim:h200", caches=True)
    copies = [each.counters for each in told.launches[0].statements if "cp.async.bulk" in each.text]
    assert sum(each.global_load_sectors for each in copies) == x.nbytes // 32
    assert sum(each.global_load_bytes for each in copies) == x.nbytes
    assert sum(each.global_lines for each in copies) == x.nbytes // 128
    assert 0 < sum(each.global_load_requests for each in copies) <= x.nbytes // 16384 + 396
    found = told.predicted(how="graph")
    if machine._tool("ptxas") and machine._tool("nvdisasm"):
        vector = gpuopt.predict(gpuopt.reduce, x, variant="vector", device="sim:h200", how="graph")
        assert vector.seconds < found.seconds < 2 * vector.seconds
    else:
        assert "may wait" in found.note


def test_profiles_without_statements_cannot_be_predicted():
    with pytest.raises(ValueError, match="nothing was launched"):
        gpuopt.Profile().predicted()
    with pytest.raises(TypeError, match="call: must be callable"):
        gpuopt.predict("reduce")
    ladder = gpuopt.ladder("reduce", 4096, device="sim")
    read = gpuopt.Ladder.from_dict(json.loads(json.dumps(ladder.to_dict())))
    with pytest.raises(ValueError, match="recorded statements"):
        read.rows[0].counted.predicted()
    assert str(read) == str(ladder) and read.records() == ladder.records()


# --- results


def test_a_prediction_shows_itself_as_none_measured():
    x = np.ones(1 << 16, np.int32)
    found = gpuopt.profile(gpuopt.reduce, x, variant=3, device="sim:g80").predicted()
    assert str(found).startswith("predicted, not measured, on a GeForce 8800 GTX (G80)")
    assert "predicted, not measured" in found._repr_html_()
    assert found.low < found.seconds < found.high
    records = found.records()
    assert sum(each["predicted_seconds"] for each in records) == found.seconds
    assert json.loads(json.dumps(found.to_dict()))["launches"][0]["bound"] == "issue"
    assert found.launches[-1].bound == "launch"


def test_ladder_shows_predictions_beside_the_decks_times():
    ladder = gpuopt.ladder("reduce", 1 << 16, device="sim:g80")
    assert "predicted times, by a model over these counters; no measurement" in str(ladder)
    records = ladder.records()
    assert all(each["predicted_us"] > 0 for each in records)
    assert [bool(each["predicted_deck_us"]) for each in records[:8]] == [True] * 7 + [False]
    assert all(each["warm_us"] is None for each in records), "no prediction is a time"
    elsewhere = gpuopt.ladder("reduce", 4096, device="sim:h200").records()
    assert not any(each["predicted_deck_us"] for each in elsewhere)


def test_ladder_plot_draws_predictions_beside_the_deck():
    pytest.importorskip("matplotlib").use("Agg")
    figure = gpuopt.ladder("reduce", 4096, device="sim:g80").plot().figure
    labels = [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    assert labels == ["the deck's G80", "predicted: GeForce 8800 GTX (G80)"]


def test_predictions_do_not_depend_on_host_threads():
    code = (
        "import numpy as np, gpuopt\n"
        "x = np.arange(1 << 18, dtype=np.int32) & 1\n"
        "for each in ('3-historical', '7-historical'):\n"
        "    p = gpuopt.predict(gpuopt.reduce, x, variant=each, dtype=np.int32, device='sim:g80')\n"
        "    print(p.records())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"GPUOPT_NUM_THREADS": threads},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2", "2")
    }
    assert len(found) == 1


def test_a_trace_around_a_profile_keeps_its_own_block():
    x = np.ones(4096, np.int32)
    found = gpuopt.trace(lambda: gpuopt.reduce(x, variant=3), block_index=1)
    assert found.block_index == (1, 0, 0) and len(found.events) > 0


# --- the model's parts


def test_lines_of_scattered_loads_are_counted():
    x = np.ones((64, 64), np.float32)
    counted = gpuopt.profile(gpuopt.transpose, x, variant="2-historical", device="sim:k40").counters
    assert counted.global_lines == 128 * (32 + 1)  # a load of 32 rows and a store of one, a warp


UNIFORM = """.version 7.0 .target sm_70 .address_size 64
.visible .entry uniform(.param .u64 out, .param .u64 in) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<5>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; mov.u32 %r1, %tid.x;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2]; add.f32 %f1, %f1, %f4;
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3; st.global.f32 [%rd3], %f1;
  ret;
}
"""


def test_wide_loads_take_a_pass_for_each_word_though_all_lanes_share_an_address():
    kernel = gpuopt.load_ptx(UNIFORM, device="sim:h200")["uniform"]
    launch = gpuopt.profile(
        kernel, 1, 64, np.zeros(64, np.float32), np.ones(4, np.float32)
    ).launches[0]
    work = timing.work_of(launch, preset_row("sim:h200"), FIGURES["h200"])
    loads, stores = 2, 2
    assert work.clocks["LSU"] == 4 * loads + stores


def test_every_preset_has_figures_with_a_source():
    assert set(FIGURES) == {row["name"] for row in _core.presets()}
    assert all(each.source for each in FIGURES.values())


def test_norm_lies_between_maximum_and_sum():
    values = [3.0, 4.0, 0.0]
    assert timing.pnorm(values, 1.0) == pytest.approx(7.0)
    assert timing.pnorm(values, 2.0) == pytest.approx(5.0)
    assert timing.pnorm(values, math.inf) == 4.0
    assert timing.pnorm([], 1.5) == 0.0


def test_groups_that_leave_together_visit_less_often():
    """As fewer customers would, down to one; without a stay at the last server nothing changes."""
    demands, waits = [3.0, 10.0], 200.0
    alone = timing.visit(8, demands, waits)
    apart = [timing.visit(8, demands, waits, longest) for longest in (0.5, 2.0, 1e9)]
    assert alone < apart[0] < apart[1] < apart[2] == timing.visit(1, demands, waits) == 213.0
    assert timing.visit(8, [3.0, 0.0], waits, 2.0) == pytest.approx(timing.visit(8, [3.0], waits))


def test_the_last_of_uneven_blocks_ends_as_when_it_is_followed_by_hand():
    """Two places on each of two multiprocessors; two blocks take twice a lone one's clocks."""

    def ends(steps, clocks=(1.0, 2.0)):
        return _core.makespan(np.array(steps, np.uint64).tobytes(), np.array(clocks), 2)

    assert ends([10, 10, 10, 10]) == 20
    assert ends([10, 10, 30, 10]) == 20 + 20  # 10 steps together, 20 alone
    assert ends([10, 20, 30, 10, 5]) == 45  # the fifth one follows the first one
    assert ends([7] * 5, clocks=[3.0]) == 3 * 7 * 3
    assert ends([]) == 0
    with pytest.raises(ValueError, match="1 to 64 places"):
        ends([1], clocks=[])


def test_work_that_blocks_take_from_a_counter_is_no_uneven_work():
    """The simulator's host threads decide which block takes how much."""
    x = np.ones(1 << 20, np.float32)
    found = gpuopt.predict(gpuopt.reduce, x, variant="dynamic", device="sim:h200")
    vector = gpuopt.predict(gpuopt.reduce, x, variant="vector", device="sim:h200")
    assert found.seconds < 2 * vector.seconds


def test_queue_agrees_with_its_exact_solution():
    """Two customers: by the product form, the throughput is G(1) / G(2)."""
    work, waits = 3.0, 5.0
    one, two = work + waits, work**2 + work * waits + waits**2 / 2
    assert timing.cycle(2, [work], waits) == pytest.approx(2 * two / one)
    assert timing.cycle(1, [work], waits) == work + waits
    assert timing.cycle(100, [work], 0.0) == pytest.approx(100 * work)


def sample(texts, times=1, warps=1):
    order = np.tile(np.arange(len(texts), dtype=np.int32), times * warps)
    warp = np.repeat(np.arange(warps, dtype=np.int16), len(texts) * times)
    return scoreboard.Sample(tuple(texts), order, warp, False, {})


def test_dependent_additions_wait_and_independent_ones_do_not():
    g80 = FIGURES["g80"]
    chain = sample(["fma.rn.f32 %f1, %f1, %f1, %f1"], times=10)
    path = scoreboard.critical_path(chain, g80, 10, lambda name: 500)
    assert path.clocks == 9 * g80.alu + 4 and path.steps == 10
    apart = sample([f"fma.rn.f32 %f{at}, %f0, %f0, %f0" for at in range(1, 11)])
    assert scoreboard.critical_path(apart, g80, 10, lambda name: 500).clocks == 40


def test_loads_of_a_stretch_overlap_and_a_barrier_ends_it():
    h200 = FIGURES["h200"]
    loads = [f"ld.global.f32 %f{at}, [%rd1+{4 * at}]" for at in range(8)]
    adds = [f"add.f32 %f9, %f9, %f{at}" for at in range(8)]
    both = [text for pair in zip(loads, adds, strict=True) for text in pair]
    path = scoreboard.critical_path(sample(both), h200, 90, lambda name: 700)
    assert 700 <= path.clocks < 700 + 10 * h200.alu
    split = [*both[:2], "bar.sync 0", *both[2:]]
    path = scoreboard.critical_path(sample(split), h200, 90, lambda name: 700)
    assert path.clocks > 1400 and path.barriers == 1


@pytest.mark.parametrize(
    ("text", "kind", "writes", "reads"),
    [
        ("@%p1 bra $L__BB0_5", "control", (), ("%p1",)),
        ("st.shared.u32 [%r4], %r8", "shared", (), ("%r4", "%r8")),
        ("ld.global.v2.f32 {%f1, %f2}, [%rd1+8]", "global", ("%f1", "%f2"), ("%rd1",)),
        ("setp.lt.u32 %p1, %r1, 2", "integer", ("%p1",), ("%r1",)),
        ("rem.u32 %r12, %r3, %r6", "divide", ("%r12",), ("%r3", "%r6")),
        ("mov.u32 %r1, %tid.x", "free", ("%r1",), ("%tid.x",)),
        ("red.global.add.u32 [%rd1], %r1", "global", (), ("%rd1", "%r1")),
        ("fma.rn.f64 %fd1, %fd2, %fd3, %fd1", "f64", ("%fd1",), ("%fd2", "%fd3", "%fd1")),
        ("mma.sync.aligned.m16n8k8.row.col {%f1}, {%r1}, {%r2}, {%f1}", "tensor", ("%f1",),
         ("%r1", "%r2", "%f1")),
    ],
)  # fmt: skip
def test_statements_are_read(text, kind, writes, reads):
    assert scoreboard.parse(text)[1:] == (kind, writes, reads)


@pytest.mark.parametrize(
    ("text", "words"),
    [("st.shared.u64 [%r1], %rd1", 2), ("@%p1 ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", 4),
     ("st.shared.v2.u16 [%r1], {%rs1, %rs2}", 1), ("atom.shared.add.u32 %r1, [%r2], %r3", 1)],
)  # fmt: skip
def test_words_of_a_lanes_access(text, words):
    assert scoreboard.words_of(text) == words


def test_slots_are_those_of_the_architecture():
    g80, h200 = FIGURES["g80"], FIGURES["h200"]
    assert scoreboard.slots("mul.lo.s32 %r1, %r2, %r3", g80, 10) == 4
    assert scoreboard.slots("mul.lo.s32 %r1, %r2, %r3", h200, 90) == 1
    assert scoreboard.slots("add.s64 %rd1, %rd2, %rd3", g80, 10) == 1
    assert scoreboard.slots("add.s64 %rd1, %rd2, %rd3", h200, 90) == 2
    assert scoreboard.slots("mov.u32 %r1, %r2", g80, 10) == 0
    pair = ["mul.wide.s32 %rd1, %r1, 4", "add.s64 %rd2, %rd3, %rd1"]
    assert scoreboard.fused(pair) == [False, True]
    assert scoreboard.fused(["ld.shared.u32 %r1, [%r2]", "add.s32 %r3, %r3, %r1"]) == [True, False]
    assert scoreboard.fused(["ld.shared.u32 %r1, [%r2]", "add.s32 %r3, %r3, %r4"]) == [False] * 2


def test_a_stream_costs_each_launch_more_than_a_graph():
    def twice(x):
        gpuopt.add(x, x, device="sim:h100")
        gpuopt.add(x, x, device="sim:h100")

    told = gpuopt.profile(twice, np.ones(1 << 10, np.float32), device="sim:h100")
    more = told.predicted().seconds - told.predicted(how="graph").seconds
    assert more == pytest.approx(len(told.launches) * FIGURES["h100"].queued)
    assert told.predicted(how="queue").seconds == told.predicted().seconds
    with pytest.raises(ValueError, match="how: 'sync' is not one of 'queue', 'graph'"):
        told.predicted(how="sync")


QUOTIENTS = HEAD + "".join(
    f"""
.visible .entry {name}(.param .u64 out, .param .u64 in, .param .{kind} by) {{
    .reg .b32 %r<2>; .reg .b64 %rd<4>; .reg .{kind} %x<4>;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; ld.param.{kind} %x1, [by];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, {size};
    add.s64 %rd2, %rd2, %rd3;
    add.s64 %rd1, %rd1, %rd3;
    ld.global.{kind} %x2, [%rd2];
    {text};
    st.global.{kind} [%rd1], %x3;
    ret;
}}
"""
    for name, kind, size, text in (
        ("div32", "f32", 4, "div.rn.f32 %x3, %x2, %x1"),
        ("rcp32", "f32", 4, "rcp.rn.f32 %x3, %x2"),
        ("sqrt32", "f32", 4, "sqrt.rn.f32 %x3, %x2"),
        ("fast32", "f32", 4, "div.full.f32 %x3, %x2, %x1"),
        ("div64", "f64", 8, "div.rn.f64 %x3, %x2, %x1"),
        ("rcp64", "f64", 8, "rcp.rn.f64 %x3, %x2"),
        ("sqrt64", "f64", 8, "sqrt.rn.f64 %x3, %x2"),
    )
)


@pytest.mark.parametrize("name", ["div32", "rcp32", "sqrt32", "fast32", "div64", "rcp64", "sqrt64"])
def test_warps_with_odd_operands_are_counted_and_predicted_to_take_longer(name):
    """Two warps of ordinary operands, then one of them with a zero in its last lane."""
    kernel = gpuopt.load_ptx(QUOTIENTS, device="sim:h200")[name]
    dtype = np.float64 if "64" in name else np.float32
    x = np.linspace(1, 1000, 64).astype(dtype)
    plain = gpuopt.profile(kernel, 1, 64, np.empty_like(x), x, dtype(3))
    x[-1] = 0
    odd = gpuopt.profile(kernel, 1, 64, np.empty_like(x), x, dtype(3))
    assert plain.counters.odd_operands == 0
    assert odd.counters.odd_operands == (name != "fast32")
    if machine._tool("ptxas") and machine._tool("nvdisasm"):
        assert (odd.predicted().seconds > plain.predicted().seconds) == (name != "fast32")
