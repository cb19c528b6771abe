"""Traces: the recorded events, and the pictures drawn from them."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from conftest import KINDS, rungs_of

import gpuopt

pytestmark = pytest.mark.skipif(
    "sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU"
)
SVG = "{http://www.w3.org/2000/svg}"

# Lanes 0 to 15 double their element: a guard, a branch, both memories, a barrier, a shuffle.
TINY = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry tiny(.param .u64 x)
{
    .reg .b32 %r<8>; .reg .b64 %x<4>; .reg .pred %p<2>;
    .shared .align 4 .b8 cells[256];
    ld.param.u64 %x0, [x];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %x1, %r0, 4, %x0;
    ld.global.u32 %r1, [%x1+4];
    setp.gt.u32 %p0, %r0, 15;
    @%p0 bra skip;
    add.u32 %r1, %r1, %r1;
skip:
    shl.b32 %r2, %r0, 3;
    mov.u32 %r3, cells;
    add.u32 %r2, %r2, %r3;
    @!%p0 st.shared.u32 [%r2], %r1;
    bar.sync 0;
    shfl.sync.up.b32 %r4, %r1, 1, 0, -1;
    ret;
}
"""


@pytest.fixture(scope="module")
def tiny():
    module = gpuopt.load_ptx(TINY, device="sim")
    return gpuopt.trace(module["tiny"], 1, 32, np.arange(33, dtype=np.uint32))


def pairs(trace):
    return [
        {(pair["thread"], *(at for _, at in pair["operands"])) for pair in step["pairs"]}
        for step in trace.tree().data["steps"]
    ]


def test_every_event_of_a_tiny_kernel(tiny):
    texts = [tiny.instructions[event["instruction"]].text for event in tiny.events]
    assert texts == [
        "ld.param.u64 %x0, [x]",
        "mov.u32 %r0, %tid.x",
        "mad.wide.u32 %x1, %r0, 4, %x0",
        "ld.global.u32 %r1, [%x1+4]",
        "setp.gt.u32 %p0, %r0, 15",
        "@%p0 bra skip",
        "add.u32 %r1, %r1, %r1",
        "shl.b32 %r2, %r0, 3",
        "mov.u32 %r3, cells",
        "add.u32 %r2, %r2, %r3",
        "@!%p0 st.shared.u32 [%r2], %r1",
        "bar.sync 0",
        "shfl.sync.up.b32 %r4, %r1, 1, 0, -1",
        "ret",
    ]
    lines = TINY.split("\n")
    for event in tiny.events:
        instruction = tiny.instructions[event["instruction"]]
        assert instruction.text in lines[instruction.ptx_line - 1]
        assert instruction.file is None and instruction.function == 0
    low, full = 0xFFFF, 0xFFFFFFFF
    active = [full] * 6 + [low] + [full] * 7
    mask = [full] * 5 + [full & ~low, low] + [full] * 3 + [low, full, full, full]
    assert tiny.events["active"].tolist() == active
    assert tiny.events["mask"].tolist() == mask
    kinds = [tiny.instructions[event["instruction"]].kind for event in tiny.events]
    assert kinds[3] == "global" and kinds[5] == "control" and kinds[10] == "shared"
    assert kinds[11] == "barrier" and kinds[12] == "warp"

    accesses = [tiny.accesses_names[each] for each in tiny.events["access"]]
    assert [at for at, name in enumerate(accesses) if name != "none"] == [3, 10, 12]
    load, store, shuffle = tiny.events[[3, 10, 12]]
    assert (load["address"] - load["base"]).tolist() == [4 + 4 * lane for lane in range(32)]
    assert load["bytes"] == 4 and tiny.spaces[load["space"]] == "global"
    assert store["address"].tolist() == [8 * lane if lane < 16 else 0 for lane in range(32)]
    assert tiny.spaces[store["space"]] == "shared" and accesses[10] == "store"
    assert shuffle["address"].tolist() == [0, *range(31)] and accesses[12] == "shuffle"
    assert not tiny.truncated and not tiny.launch.findings
    assert tiny.events.size == tiny.launch.counters.warp_instructions


def test_five_sectors_at_offset_one_and_no_conflict_at_stride_two_of_half_a_warp(tiny):
    data = tiny.coalescing().data
    assert data["sectors"] == 5 and data["lines"] == 2
    assert data["bytes_wanted"] == 128 and data["bytes_moved"] == 160
    assert data["lanes"] == {
        0: list(range(7)),
        **{32 * k: list(range(8 * k - 1, 8 * k + 7)) for k in (1, 2, 3)},
        128: [31],
    }
    banks = tiny.banks().data
    assert banks["conflicts"] == 0 and banks["passes"] == 1
    assert banks["banks"] == [{2 * lane: {8 * lane: [lane]} for lane in range(16)}]


def test_the_trees_of_the_decks():
    """Rung 1: thread i, divisible by 2s, adds i and i + s. Rung 2: thread t at 2st. 3: i < s."""
    n, strides = 64, [1, 2, 4, 8, 16, 32]
    by_rung = {rung: pairs(gpuopt.trace("reduce", rung, n=n, block=n)) for rung in (1, 2, 3)}
    assert by_rung[1] == [{(i, i, i + s) for i in range(0, n, 2 * s)} for s in strides]
    assert by_rung[2] == [
        {(t, 2 * s * t, 2 * s * t + s) for t in range(n // (2 * s))} for s in strides
    ]
    assert by_rung[3] == [{(i, i, i + s) for i in range(s)} for s in reversed(strides)]


SMALL_BLOCKS = [rung for rung in rungs_of("sim") if rung.block_min <= 128]  # what a tree shows


@pytest.mark.parametrize("rung", SMALL_BLOCKS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("op", ["sum", "max"])
def test_a_tree_of_n_items_has_n_minus_one_additions(rung, op):
    """Also of rungs that keep sums in registers, and of max, which is a selection."""
    items = 128 * (rung.items_per_thread or 2)
    trace = gpuopt.trace("reduce", rung.variant, n=items, block=128, op=op)
    assert trace.launch.grid == (1, 1, 1)
    found = [pair for step in trace.tree().data["steps"] for pair in step["pairs"]]
    assert sum(pair["needed"] for pair in found) == items - 1
    if rung.number < 8:  # later ones shuffle, and lanes add whose sums nobody reads
        assert len(found) == items - 1
    assert trace.result == gpuopt.trace("reduce", 1, n=items, block=64, op=op).result


LARGE_BLOCKS = [rung for rung in rungs_of("sim") if rung.block_min > 128]


@pytest.mark.parametrize("rung", LARGE_BLOCKS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("op", ["sum", "max"])
def test_the_tree_of_the_first_of_many_warps(rung, op):
    """It adds its 128 elements, then what the block's other warps have; then the pieces' values."""
    trace = gpuopt.trace("reduce", rung.variant, n=128, warp=0, op=op)
    assert trace.launch.grid == (1, 1, 1)
    found = [pair for step in trace.tree().data["steps"] for pair in step["pairs"]]
    warps = trace.launch.block[0] // 32
    pieces = 31 if rung.name == "dynamic" else 0
    assert sum(pair["needed"] for pair in found) == 127 + warps - 1 + pieces
    assert trace.result == gpuopt.trace("reduce", 1, n=128, block=64, op=op).result


def test_the_deck_s_last_warp_adds_on_all_its_lanes():
    steps = gpuopt.trace("reduce", "5-historical", n=256, block=128).tree().data["steps"]
    assert [step["active"] for step in steps] == [128, 64, *[32] * 6]


def test_a_thread_s_own_sums():
    """Rung 7 with more elements than threads: a loop in a register, then the tree."""
    trace = gpuopt.trace("reduce", 7, n=1 << 20, block=32)
    steps = trace.tree().data["steps"]
    mine = sum(min(64, (1 << 20) - i) for i in range(0, 1 << 20, 64 * trace.launch.grid[0]))
    assert mine > 64 and sum(step["active"] for step in steps) == mine - 1
    assert [step["active"] for step in steps[:3]] == [32] * 3


def test_lanes_and_warps_of_a_tree():
    steps = gpuopt.trace("reduce", 1, n=128, block=64).tree().data["steps"]
    assert [(step["active"], step["warps"]) for step in steps] == [
        (32, 2), (16, 2), (8, 2), (4, 2), (2, 2), (1, 1)
    ]  # fmt: skip
    steps = gpuopt.trace("reduce", 3, n=128, block=64).tree().data["steps"]
    assert [(step["active"], step["warps"]) for step in steps] == [
        (32, 1), (16, 1), (8, 1), (4, 1), (2, 1), (1, 1)
    ]  # fmt: skip


def test_bank_conflicts_are_those_that_are_counted():
    trace = gpuopt.trace("reduce", 2, n=128, block=128)
    assert trace.banks().data["ways"] == 4  # 32 lanes at stride 4: 4 words in each of 8 banks
    total = sum(
        trace.banks(number).data["conflicts"] for number in range(len(trace.accesses("shared")))
    )
    assert total == trace.launch.counters.bank_conflicts > 0
    column = gpuopt.trace("transpose", "shared", warp=3).banks().data
    assert column["passes"] == column["ways"] == 32
    assert gpuopt.trace("transpose", "padded", warp=3).banks().data["conflicts"] == 0
    half_warps = gpuopt.trace("reduce", 2, n=64, block=32, device="sim:g80").banks().data
    assert half_warps["ways"] == 2 and len(half_warps["banks"]) == 1


@pytest.mark.parametrize("variant", ["1d", "2d", "padded", "multi"])
def test_sectors_are_those_that_are_counted(variant):
    trace = gpuopt.trace("transpose", variant, n=32 * 32)
    assert trace.launch.grid == (1, 1, 1)
    accesses = trace.accesses("global")
    sectors = {"load": 0, "store": 0}
    for number, access in enumerate(accesses):
        if number % 7 == 0 or len(accesses) < 40:
            data = trace.coalescing(number).data
            assert data["sectors"] == len({address // 32 for address in access.addresses.values()})
        sectors[access.kind] += len({address // 32 for address in access.addresses.values()})
    counters = trace.launch.counters
    assert sectors["load"] == counters.global_load_sectors
    assert sectors["store"] == counters.global_store_sectors
    assert trace.events[trace.events["part"] == 0].size == counters.warp_instructions


def test_tile_shows_writers_and_readers():
    trace = gpuopt.trace("transpose", "padded")
    data, height = trace.tile().data, trace.launch.block[1]
    assert data["columns"] == 33 and data["rows"] == 32
    for y in (0, 5, 31):
        for x in (0, 7, 31):
            assert data["writers"][33 * y + x] == [32 * (x % height) + y]
            assert data["readers"][33 * y + x] == [32 * (y % height) + x]
    halo = gpuopt.trace("stencil1d", 2, n=96, block=32, block_index=1).tile().data
    assert len(halo["writers"]) == 32 + 6
    assert [len(halo["readers"][word]) for word in (0, 1, 6, 31, 37)] == [1, 2, 7, 7, 1]
    assert halo["writers"][35] == [3]  # the first threads load the halo too


def test_a_timeline_shows_divergence():
    one, three = (gpuopt.trace("reduce", rung).timeline(1, rows=400) for rung in (1, 3))
    adds = [each for each in one.data["instructions"] if each["text"].startswith("ld.shared")]
    assert [each["active"].bit_count() for each in adds[:4]] == [16, 16, 8, 8]
    assert not any(each["text"].startswith("ld.shared") for each in three.data["instructions"])
    assert one.data["efficiency"] < 0.8 < three.data["efficiency"] == 1
    places = [each["place"] for each in one.data["instructions"]]
    assert all(re.match(r"[\w/]+\.cuh?:\d+$", place) for place in places), places
    first = gpuopt.trace("reduce", 1, warp=1).timeline(first=10, rows=5)
    assert [each["text"] for each in first.data["instructions"]] == [
        each["text"] for each in one.data["instructions"][10:15]
    ]


def test_values_are_followed_through_registers_and_shuffles():
    """A warp's butterfly: no memory between the load and the result."""
    steps = "".join(
        f"shfl.sync.bfly.b32 %f{k + 1}, %f0, {16 >> k}, 31, -1; add.f32 %f0, %f0, %f{k + 1};\n"
        for k in range(5)
    )
    module = gpuopt.load_ptx(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry sum(.param .u64 x)\n{\n"
        ".reg .f32 %f<8>; .reg .b32 %r; .reg .b64 %x<2>;\n"
        "ld.param.u64 %x0, [x]; mov.u32 %r, %tid.x; mad.wide.u32 %x1, %r, 4, %x0;\n"
        f"ld.global.f32 %f0, [%x1];\n{steps}st.global.f32 [%x1], %f0; ret;\n}}",
        device="sim",
    )
    x = np.arange(32, dtype=np.float32)
    trace = gpuopt.trace(module["sum"], 1, 32, x)
    assert x.tolist() == [496.0] * 32
    found = trace.tree().data["steps"]
    assert [step["active"] for step in found] == [32] * 5
    for step, by in zip(found, (16, 8, 4, 2, 1), strict=True):
        for pair in step["pairs"]:
            lane = pair["thread"]
            own = "global" if by == 16 else "thread"
            assert pair["operands"] == sorted([(own, lane), ("thread", lane ^ by)])


def svg_of(picture):
    root = ET.fromstring(picture.svg)
    assert root.tag == SVG + "svg" and root.find(SVG + "title").text
    assert root.find(SVG + "desc").text
    width, height = float(root.get("width")), float(root.get("height"))
    for each in root.iter(SVG + "rect"):
        assert float(each.get("x", 0)) >= 0 and float(each.get("width")) > 0
        assert float(each.get("x", 0)) + float(each.get("width")) <= width + 1
        assert float(each.get("y", 0)) + float(each.get("height")) <= height + 1
    for each in root.iter(SVG + "text"):
        size = float(each.get("font-size"))
        least = 0.45 * size * len(each.text or "")
        start = float(each.get("x")) - {"middle": least / 2, "end": least}.get(
            each.get("text-anchor"), 0
        )
        assert start >= -1 and start + least <= width + 1, each.text
        assert 0 < float(each.get("y")) < height
    return root


def test_pictures_are_well_formed_and_complete(tiny):
    trace = gpuopt.trace("reduce", 1, n=64, block=32)
    root = svg_of(trace.tree())
    titles = [each.text for each in root.iter(SVG + "title") if each.text.startswith("thread ")]
    assert len(titles) == 31
    assert titles[0] == "thread 0: shared[0] and shared[1] into shared[0]"
    assert sum(each.get("class") == "edge" for each in root.iter(SVG + "line")) == 62
    root = svg_of(tiny.coalescing())
    assert sum(each.get("class") == "edge" for each in root.iter(SVG + "line")) == 32
    sectors = [each for each in root.iter(SVG + "title") if each.text.startswith("sector at")]
    assert len(sectors) == 5
    root = svg_of(gpuopt.trace("transpose", "shared", warp=0).banks())
    words = [each for each in root.iter(SVG + "title") if each.text.startswith("word ")]
    assert len(words) == 32
    root = svg_of(gpuopt.trace("transpose", "padded").tile())
    words = [each for each in root.iter(SVG + "title") if each.text.startswith("word ")]
    assert len(words) == 32 * 33
    timeline = trace.timeline()
    rows = [each for each in svg_of(timeline).iter(SVG + "text") if "mono" in each.get("class")]
    assert len(rows) >= len(timeline.data["instructions"]) == trace.events.size
    assert timeline._repr_svg_() == timeline.svg


def test_a_picture_is_saved(tmp_path):
    picture = gpuopt.trace("reduce", 3).tree()
    picture.save(tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match=r"path: .*\.svg"):
        picture.save(tmp_path / "tree.png")


def test_markup_in_a_kernel_s_text_stays_text():
    trace = gpuopt.load_ptx(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<2>;\n"
        "mov.u32 %r0, /* </text><script> & */ 1;\nret;\n}",
        device="sim",
    )
    timeline = gpuopt.trace(trace["k"], 1, 1).timeline()
    svg_of(timeline)
    assert "<script" not in timeline.svg


def test_other_blocks_warps_and_launches():
    whole = gpuopt.trace("reduce", 3, n=256, block=64, block_index=2)
    assert whole.block_index == (2, 0, 0) and set(whole.events["warp"]) == {0, 1}
    load = whole.accesses("global")[0]
    assert min(load.addresses.values()) - load.base in (4 * 128, 4 * 160)
    one = gpuopt.trace("reduce", 3, n=256, block=64, block_index=2, warp=1)
    assert set(one.events["warp"]) == {1} and one.threads == 32
    same = whole.events[whole.events["warp"] == 1]
    for name in ("instruction", "mask", "active"):
        assert (one.events[name] == same[name]).all()
    second = gpuopt.trace("reduce", 3, n=256, block=64, launch=1)
    assert second.launch.grid == (1, 1, 1) and whole.launch.grid == (4, 1, 1)
    cut = gpuopt.trace("reduce", 3, n=256, block=64, events=20)
    assert cut.truncated and cut.events.size == 20 and "cut" in str(cut)


def test_a_function_can_be_traced_and_findings_are_kept(rng):
    x = rng.integers(0, 9, 256, np.int32)
    trace = gpuopt.trace(gpuopt.reduce, x, variant="5-historical", block=128, dtype=np.int32)
    assert any("race" in finding.kind for finding in trace.launch.findings)
    assert "race in shared memory" in str(trace)
    inner = gpuopt.Profile()

    def nested():
        with inner:
            return gpuopt.reduce(x, variant=3, dtype=np.int32)

    with gpuopt.profile() as outer:
        result = gpuopt.trace(gpuopt.reduce, x, variant=3, dtype=np.int32).result
        assert gpuopt.reduce(x, variant=3, dtype=np.int32) == result == x.sum()
    assert len(outer.launches) >= 1  # what follows a trace goes to the profile again
    traced = gpuopt.trace(nested)  # an inner profile records the launches, too
    assert traced.events.size and inner.launches


def test_trace_uses_the_gpu_that_ran(rng):
    """The call may name its own: a G80 serves half a warp at a time, so stride 2 has conflicts."""
    x = rng.integers(0, 9, 128, np.int32)
    given = {"variant": 2, "dtype": np.int32, "block": 64}
    there = gpuopt.asarray(x, "sim:g80")
    right = gpuopt.trace(gpuopt.reduce, x, **given, device="sim")
    old = gpuopt.trace("reduce", 2, device="sim:g80")
    for call in (lambda: gpuopt.reduce(x, **given, device="sim:g80"),
                 lambda: gpuopt.reduce(there, **given)):  # fmt: skip
        trace = gpuopt.trace(call)
        assert trace.gpu.name == trace.launch.device == "sim:g80" and "G80" in str(trace)
        assert trace.banks().data["passes"] == old.banks().data["passes"]
    assert right.gpu.name == "sim:h200" and right.banks().data["passes"] == 2


def test_text_shows_the_cost_of_accesses(tiny):
    text = str(tiny)
    assert re.search(r"1 +32\.0 +4B +5 sectors +PTX line 12 +ld\.global", text)
    assert re.search(r"1 +16\.0 +4B +1 wavefronts? +PTX line 20 +@!%p0 st\.shared", text)
    assert "<pre>" in tiny._repr_html_() and "&lt;" not in tiny._repr_html_()


@pytest.mark.parametrize(
    ("error", "match", "arguments", "more"),
    [
        (ValueError, "'reduce', 'roofline', 'transpose'", ("fold",), {}),
        (ValueError, "'reduce', 'transpose'", ("roofline",), {}),
        (ValueError, "variant: 99 .*'5-historical'", ("reduce", 99), {}),
        (ValueError, "variant: 'serial' runs on the cpu", ("reduce", "serial"), {}),
        (ValueError, "device: 'cpu' cannot be traced", ("reduce", 3), {"device": "cpu"}),
        (ValueError, "sim:none", ("reduce", 3), {"device": "sim:none"}),
        (ValueError, r"block_index: block \(2, 0, 0\) is outside .* \(2, 1, 1\)",
         ("reduce", 3), {"block_index": 2}),
        (ValueError, "block_index", ("reduce", 3), {"block_index": (0, 0, 0, 0)}),
        (ValueError, "block_index", ("reduce", 3), {"block_index": -1}),
        (TypeError, "block_index", ("reduce", 3), {"block_index": "1"}),
        (ValueError, "warp: 2 is not one of the 2", ("reduce", 3), {"warp": 2}),
        (ValueError, "warp", ("reduce", 3), {"warp": 32}),
        (ValueError, "launch: there is no number 5: .* 2 launches", ("reduce", 3), {"launch": 5}),
        (ValueError, "events", ("reduce", 3), {"events": 0}),
        (ValueError, "block", ("reduce", 3), {"block": 33}),
        (ValueError, "n: must be", ("reduce", 3), {"n": 0}),
        (TypeError, "size", ("reduce", 3), {"size": 64}),
        (TypeError, "op", ("transpose", 3), {"op": "sum"}),
        (TypeError, "family_or_kernel", (3,), {}),
        (TypeError, "device", ("reduce", 3), {"device": 3}),
    ],
)  # fmt: skip
def test_bad_input(error, match, arguments, more):
    with pytest.raises(error, match=match):
        gpuopt.trace(*arguments, **more)


def test_pictures_without_data_raise(tiny):
    copy = gpuopt.trace("transpose", "copy")
    with pytest.raises(ValueError, match="combined two"):
        copy.tree()
    with pytest.raises(ValueError, match="no access to shared"):
        copy.banks()
    with pytest.raises(ValueError, match="no shared memory"):
        copy.tile()
    with pytest.raises(ValueError, match=r"number 7; .* 1 accesses"):
        tiny.coalescing(7)
    with pytest.raises(ValueError, match="warp: 3 has no events"):
        tiny.timeline(warp=3)
    with pytest.raises(ValueError, match="rows"):
        tiny.timeline(rows=0)
    with pytest.raises(ValueError, match="first"):
        tiny.timeline(first=99)
    with pytest.raises(ValueError, match="columns: 65"):
        tiny.tile(columns=65)
    for warp in (99, 2**70):
        with pytest.raises(ValueError, match=rf"warp: {warp} has no events .* it has warps \[0\]"):
            tiny.tile(warp)
    for call, error, text in (
        (lambda: tiny.tile(columns=0), ValueError, "columns: must be at least 1, not 0"),
        (lambda: tiny.tile(0, "a"), TypeError, "columns: must be an integer, not 'a'"),
        (lambda: tiny.tile(-1), ValueError, "warp: must be at least 0, not -1"),
        (lambda: tiny.tile("a"), TypeError, "warp: must be an integer"),
        (lambda: tiny.coalescing(-1), ValueError, "access: must be at least 0, not -1"),
        (lambda: tiny.coalescing("a"), TypeError, "access: must be an integer"),
        (lambda: tiny.banks(1.5), TypeError, "access: must be an integer"),
        (lambda: tiny.timeline("a"), TypeError, "warp: must be an integer"),
        (lambda: tiny.timeline(first=-1), ValueError, "first: must be at least 0"),
        (lambda: tiny.timeline(rows="a"), TypeError, "rows: must be an integer"),
        (lambda: tiny.timeline(rows=401), ValueError, "rows: 401 is not from 1 to 400"),
    ):
        with pytest.raises(error, match=text):
            call()
    second = gpuopt.trace("reduce", 3, warp=1)
    assert "warp 1" in second.tile().svg and second.tile().data == second.tile(1).data
    with pytest.raises(ValueError, match="space"):
        tiny.accesses("texture")
    with pytest.raises(ValueError, match="too many for a picture"):
        gpuopt.trace("reduce", 3, n=512, block=512).tree()


@pytest.mark.skipif(bool(KINDS.get("cuda", "none")), reason="needs a GPU")
def test_a_kernel_on_a_gpu_is_not_traced():
    module = gpuopt.load_ptx(TINY, device="cuda")
    with pytest.raises(ValueError, match="cannot be traced"):
        gpuopt.trace(module["tiny"], 1, 32, np.arange(33, dtype=np.uint32))


def test_tiles_that_wait_are_recorded_once_each():
    path = Path(__file__).parents[1] / "ptx" / "diverged.ptx"
    module = gpuopt.load_ptx(path, device="sim")
    trace = gpuopt.trace(module["tiles"], 1, 32, np.zeros(32, np.uint32))
    shuffles = [n for n, i in enumerate(trace.instructions) if i.text.startswith("shfl")]
    events = trace.events[np.isin(trace.events["instruction"], shuffles)]
    assert events["mask"].tolist() == events["active"].tolist() == [0xFFFF, 0xFFFF0000]


@pytest.mark.parametrize(
    ("variant", "device", "columns", "banks"),
    [("shared", "sim", 32, 32), ("padded", "sim", 33, 32), ("padded", "sim:g80", 33, 16)],
)
def test_a_tile_shows_the_bank_of_every_word(variant, device, columns, banks):
    picture = gpuopt.trace("transpose", variant, device=device).tile()
    data = picture.data
    assert data["columns"] == columns
    assert all(data["banks"][word] == word % banks for word in data["writers"])
    first = [data["banks"][columns * row] for row in range(32)]
    assert first == [row * columns % banks for row in range(32)]
    root = svg_of(picture)
    frames = [each for each in root.iter(SVG + "rect") if each.get("class") == "frame"]
    words = columns * 32
    assert len(frames) == 1 + len(range(0, words, banks))  # the legend's, and bank 0's words
    if columns % banks:  # each box ends with its bank
        rows: dict[str, list[str]] = {}
        for each in root.iter(SVG + "text"):
            rows.setdefault(each.get("y"), []).append(each.text)
        for row in (0, 7):
            assert [str((columns * row + at) % banks) for at in range(columns)] in rows.values()
    assert ("each row begins 1 bank later" in picture.svg) == bool(columns % banks)


def test_pictures_show_the_source_line_beside_the_ptx():
    trace = gpuopt.trace("transpose", "shared")
    for picture, ptx in ((trace.banks(), "st.shared.u32"), (trace.coalescing(), "ld.global.u32")):
        assert picture.title == f"{trace.title}: {trace.accesses('shared')[0].code}"
        assert "tile[x][y + k] = in[" in picture.title and ptx in picture.svg
    assert repr(picture) == f"<Picture {picture.title!r}; save it: picture.save('picture.svg')>"


def test_an_own_kernel_shows_its_source(tmp_path):
    path = tmp_path / "double.cu"
    path.write_text("__global__ void own(int *x) {\n    x[threadIdx.x] *= 2; // <here>\n}\n")
    text = (
        '.version 8.0\n.target sm_75\n.address_size 64\n.file 1 "{}"\n'
        ".visible .entry own(.param .u64 x)\n{{\n.reg .b32 %r<3>; .reg .b64 %x<3>;\n"
        ".loc 1 2 5\nld.param.u64 %x0, [x]; mov.u32 %r0, %tid.x; mad.wide.u32 %x1, %r0, 4, %x0;\n"
        "ld.global.u32 %r1, [%x1]; add.u32 %r1, %r1, %r1; st.global.u32 [%x1], %r1;\n"
        ".loc 1 3 1\nret;\n}}"
    )
    kernel = gpuopt.load_ptx(text.format(path), device="sim")["own"]
    trace = gpuopt.trace(kernel, 1, 32, np.arange(32, dtype=np.int32))
    assert "x[threadIdx.x] *= 2; // &lt;here&gt;" in trace.timeline().svg
    assert trace.coalescing().title == "own: x[threadIdx.x] *= 2; // <here>"
    assert [each.code for each in trace.accesses()] == ["x[threadIdx.x] *= 2; // <here>"] * 2
    path.write_text("\n__global__ void own(int *x) {}\n")  # it is read when a picture is drawn
    again = gpuopt.trace(kernel, 1, 32, np.arange(32, dtype=np.int32))
    assert again.accesses()[0].code == "__global__ void own(int *x) {}"
    gone = gpuopt.load_ptx(text.format(tmp_path / "none.cu"), device="sim")["own"]
    trace = gpuopt.trace(gone, 1, 32, np.arange(32, dtype=np.int32))
    assert trace.accesses()[0].code == "" and trace.coalescing().title.startswith("own: ld.global")


@pytest.mark.parametrize("variant", [9, 12])
def test_a_tree_that_is_too_wide_recommends_what_works(variant):
    with pytest.raises(ValueError, match=r"too many for a picture; trace one warp: warp=0$"):
        gpuopt.trace("reduce", variant).tree()
    assert gpuopt.trace("reduce", variant, warp=0).tree().data["steps"]
    with pytest.raises(ValueError, match=r"trace fewer elements: a smaller n=$"):
        gpuopt.trace("reduce", variant, warp=0, n=1 << 17).tree()
