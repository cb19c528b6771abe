"""Questions about a user's own kernel: counters by line and statement, differences, bounds."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import KINDS

import gpuopt
from gpuopt.observe.counters import NAMES, RATIOS

pytestmark = pytest.mark.skipif(
    "sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU"
)
SOURCE = """// own.cu
__global__ void own(float *x, double *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 2 * x[i];
    y[i] += 1;
    __syncthreads();
}
"""
PTX = """.version 8.0
.target sm_75
.address_size 64
{files}
.visible .entry own(.param .u64 x, .param .u64 y)
{{
.reg .b32 %r<5>; .reg .b64 %x<9>; .reg .f32 %f<3>; .reg .f64 %d<3>;
.loc 1 3 5
ld.param.u64 %x0, [x]; ld.param.u64 %x1, [y];
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ntid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r0, %r1, %r2;
.loc 1 4 5
mad.wide.u32 %x2, %r3, 4, %x0;
ld.global.f32 %f0, [%x2];
add.f32 %f1, %f0, %f0;
st.global.f32 [%x2], %f1;
.loc 1 5 5
mad.wide.u32 %x3, %r3, 8, %x1;
ld.global.f64 %d0, [%x3];
add.f64 %d1, %d0, 0d3FF0000000000000;
st.global.f64 [%x3], %d1;
.loc 1 6 5
bar.sync 0;
ret;
}}
"""
BLOCKS, THREADS = 6, 64
WARPS = BLOCKS * THREADS // 32


@pytest.fixture
def kernel(tmp_path):
    path = tmp_path / "own.cu"
    path.write_text(SOURCE)
    return gpuopt.load_ptx(PTX.format(files=f'.file 1 "{path}"'), device="sim")["own"]


def arguments():
    n = BLOCKS * THREADS
    return BLOCKS, THREADS, np.arange(n, dtype=np.float32), np.arange(n, dtype=np.float64)


def test_statements_add_up_to_the_launch(kernel):
    profile = gpuopt.profile(kernel, *arguments())
    (launch,) = profile.launches
    for name in NAMES:
        if name in ("blocks", "warps") or name.startswith("dram_"):
            continue  # of the launch, not of an instruction
        assert sum(each.counters[name] for each in launch.statements) == launch.counters[name]
    by_text = {each.text: each for each in launch.statements}
    assert len(by_text) == 16
    load = by_text["ld.global.f64 %d0, [%x3]"]
    assert (load.counters.global_load_requests, load.counters.global_load_sectors) == (
        WARPS, 8 * WARPS,
    )  # fmt: skip
    assert (load.line, load.ptx_line) == (
        5,
        PTX.splitlines().index("ld.global.f64 %d0, [%x3];") + 1,
    )
    # A rung, too, whose lines stand in several files and are executed out of order.
    counted = gpuopt.profile(gpuopt.reduce, np.arange(5000, dtype=np.int32), variant=7)
    for launch in counted.launches:
        sums = sum((each.counters for each in launch.statements), gpuopt.Counters())
        assert sums.warp_instructions == launch.counters.warp_instructions
        assert sums.shared_load_conflicts == launch.counters.shared_load_conflicts
    assert not gpuopt.check(kernel, *arguments())


def test_own_source_has_counters_by_line_and_by_statement(kernel):
    source = gpuopt.source(kernel, *arguments())
    assert source.text == SOURCE.rstrip("\n") + "\n" and source.rung is None
    assert source.title == "own.cu: own" and "384 threads" in source.counted
    counted = {each.number: each.counters for each in source.lines if each.counters}
    assert set(counted) == {3, 4, 5, 6}
    assert counted[4].flops_f32 == 384 and counted[5].flops_f64 == 384
    assert re.search(r"^ +48 +4\.0 +4      x\[i\] = 2 \* x\[i\];$", str(source), re.M)
    asked = gpuopt.source(kernel, *arguments(), annotate=["inst_f64", "barriers"])
    assert re.search(r"^ +12 +5      y\[i\] \+= 1;$", str(asked), re.M), str(asked)
    assert re.search(r"f64 +barriers +line", str(asked))
    ptx = gpuopt.source(kernel, *arguments(), ptx=True)
    assert [each.text for each in ptx.lines][-2:] == ["bar.sync 0", "ret"]
    assert "bar.sync" in ptx._repr_html_() and json.dumps(ptx.to_dict())


def test_source_of_an_unknown_file_is_its_ptx(tmp_path):
    text = PTX.format(files=f'.file 1 "{tmp_path / "gone.cu"}"')
    kernel = gpuopt.load_ptx(text, device="sim")["own"]
    source = gpuopt.profile(kernel, *arguments()).source()
    assert source.file == "PTX" and len(source.lines) == 16
    plain = "\n".join(line for line in text.splitlines() if not line.startswith((".loc", ".file")))
    kernel = gpuopt.load_ptx(plain, device="sim")["own"]
    assert len(gpuopt.profile(kernel, *arguments()).source().lines) == 16


def test_rungs_show_any_counter():
    text = str(gpuopt.source("reduce", 3, annotate=["inst_shared", "barriers", "warp_efficiency"]))
    assert re.search(r"shared +barriers +warp efficiency +line", text)
    assert re.search(r"\d +50% +\d+ +partial\[t\] = Op::apply", text)
    with pytest.raises(ValueError, match=r"annotate: 'bariers' .* did you mean 'barriers'"):
        gpuopt.source("reduce", 3, annotate=["bariers"])
    with pytest.raises(TypeError, match="for a kernel of your own"):
        gpuopt.source("reduce", 3, 1, 32)
    with pytest.raises(AttributeError, match="did you mean 'bank_conflicts'"):
        gpuopt.Counters().bank_conflict  # noqa: B018


def test_records_are_flat(kernel):
    profile = gpuopt.profile(kernel, *arguments())
    (record,) = profile.records()
    assert record["kernel"] == "own" and record["grid"] == (BLOCKS, 1, 1)
    assert set(NAMES) | set(RATIOS) < set(record) and record["sectors_per_load"] == 6
    assert [each["line"] for each in profile.records("line")] == [3, 4, 5, 6]
    assert profile.records("line")[1]["text"] == "x[i] = 2 * x[i];"
    assert len(profile.records("statement")) == 16
    assert [each["kernel"] for each in profile.records("kernel")] == ["own"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(profile.records("statement"))
    assert frame["warp_instructions"].sum() == profile.counters.warp_instructions
    with pytest.raises(ValueError, match="by: 'block' is not a table"):
        profile.records("block")


def test_difference_shows_what_changed(kernel):
    x = np.arange(4096, dtype=np.int32)
    second, third = (gpuopt.profile(gpuopt.reduce, x, variant=rung) for rung in (2, 3))
    changed = third - second
    conflicts = second.counters.bank_conflicts
    assert changed["bank_conflicts"] == third.counters.bank_conflicts - conflicts == -conflicts
    assert re.search(rf"^bank conflicts +{conflicts:,} +0 +0\.00x$", str(changed), re.M)
    assert "reduce.cu:" in str(changed) and "<table" in changed._repr_html_()
    assert json.loads(json.dumps(changed.to_dict()))["kind"] == "difference"
    names = [each["counter"] for each in changed.records()]
    assert "global_load_requests" not in names and "shared_load_conflicts" in names
    same = gpuopt.profile(kernel, *arguments()) - gpuopt.profile(kernel, *arguments())
    assert str(same) == "no counter differs" and not same.records()
    with pytest.raises(TypeError, match="before: must be a Profile"):
        third.difference(3)
    with pytest.raises(TypeError):
        third - 3


def test_bounds_are_the_datasheets_arithmetic():
    n, blocks, threads = 1 << 18, 1024, 256
    kernel = gpuopt.load_ptx(PTX.format(files='.file 1 "none.cu"'), device="sim")["own"]
    given = np.zeros(n, np.float32), np.zeros(n)
    profile = gpuopt.profile(kernel, blocks, threads, *given)
    (bound,) = profile.bounds("h200").launches
    counters = profile.counters
    assert counters.dram_bytes == n * (4 + 8) * 2
    assert bound.seconds["DRAM"] == pytest.approx(counters.dram_bytes / 4800e9)
    issue = counters.warp_instructions / (132 * 4 * 1.98e9)
    assert bound.seconds["issue"] == pytest.approx(issue)
    assert bound.seconds["float64"] == pytest.approx(n / 34e12)
    assert bound.least == max(bound.seconds.values()) and bound.by == "DRAM"
    assert profile.bounds().device == "H200 SXM5 (Hopper)"
    old = profile.bounds("sim:g80")
    assert old.launches[0].seconds["issue"] == pytest.approx(
        counters.warp_instructions / (16 * 0.25 * 1.35e9)
    )
    assert "float64" not in old.launches[0].seconds  # a G80 has none
    assert old.records()[0]["by"] == old.launches[0].by and old.seconds == old.launches[0].least
    assert "DRAM" in str(old) and "<table" in old._repr_html_() and json.dumps(old.to_dict())
    few = gpuopt.profile(kernel, 2, 64, np.zeros(128, np.float32), np.zeros(128))
    clocks = 2 * 4 * 1.98e9  # two multiprocessors work
    wanted = few.counters.warp_instructions / clocks
    assert few.bounds("h200").launches[0].seconds["issue"] == pytest.approx(wanted)
    with pytest.raises(ValueError, match="'h300' is not a preset"):
        profile.bounds("h300")
    with pytest.raises(ValueError, match="no launches"):
        gpuopt.Profile().bounds()


def test_own_kernels_stand_on_the_roofline_without_seconds(kernel):
    profile = gpuopt.profile(kernel, *arguments())
    roof = gpuopt.roofline("sim:h200").add(profile)
    (point,) = roof.points
    assert point.counted and point.name == "own" and point.flops == profile.counters.flops
    moved = profile.counters.dram_bytes
    assert point.bytes == moved and point.seconds == pytest.approx(moved / 4800e9)
    assert re.search(r"own: bound by memory \(DRAM, 4,800 GB/s\), at least 0\.00 us", str(roof))
    again = gpuopt.Roofline.from_dict(json.loads(json.dumps(roof.to_dict())))
    assert again.points == roof.points
    with pytest.raises(ValueError, match="no launches"):
        roof.add(gpuopt.Profile())


def test_profiles_and_launches_show_themselves_in_jupyter(kernel):
    profile = gpuopt.profile(kernel, *arguments())
    html = profile._repr_html_()
    for text in ("own", "x[i] = 2 * x[i];", "sectors per request", "occupancy"):
        assert text in html
    assert html.count("<table") == 3 == html.count("</table>")
    assert "flops f64" in profile.launches[0]._repr_html_()
    assert "no launches" in gpuopt.Profile()._repr_html_()
    assert all(len(line) <= 100 for line in str(profile).splitlines())


def test_a_compiled_text_is_shown_though_it_is_in_no_file():
    kernel = gpuopt.load_ptx(PTX.format(files='.file 1 "own.cu"'), device="sim")["own"]
    kernel._module.source = SimpleNamespace(name="own.cu", text=SOURCE)  # as gpuopt.compile does
    assert "x[i] = 2 * x[i];" in str(gpuopt.profile(kernel, *arguments()).source())
    trace = gpuopt.trace(kernel, *arguments())
    assert trace.accesses()[0].code == "x[i] = 2 * x[i];" in trace.timeline().svg
    other = gpuopt.load_ptx(PTX.format(files='.file 1 "own.cu"'), device="sim")["own"]
    assert gpuopt.profile(other, *arguments()).source().file == "PTX"  # another module's text
