"""The rungs' source and the differences between rungs."""

import itertools
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import KINDS

import gpuopt
from gpuopt import _core
from gpuopt.observe import source as source_module
from gpuopt.util import texts

FAMILIES = ["reduce", "roofline", "transpose", "stencil1d", "add", "saxpy", "matmul", "reduce_axis"]
RUNGS = [rung for family in FAMILIES for rung in gpuopt.rungs(family)]
needs_sim = pytest.mark.skipif(bool(KINDS.get("sim", "none")), reason="needs the simulated GPU")


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: f"{rung.family}-{rung.name}")
def test_every_rung_is_found(rung):
    source = gpuopt.source(rung.family, rung.variant)
    assert source.rung == rung and source.function
    assert source.file.endswith(".c" if rung.host else ".cu")
    definition = [each for each in source.lines if f"{source.function}(" in each.text]
    assert definition, "the function is not there"
    assert rung.lesson in source.text and rung.name in source.text.split("\n")[0]
    assert source.text.count("{") == source.text.count("}"), "a definition is cut"
    for file, lines in itertools.groupby(source.lines, lambda each: each.file):
        numbers = [each.number for each in lines if each.number]
        assert numbers == sorted(set(numbers)), file
    if not rung.host:
        called = rung.family == "roofline"  # its kernels only call a function of another name
        assert called or any(kernel.startswith(source.function) for kernel in rung.kernels)
        assert "__device__" in source.text or "__global__" in source.text


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_differ(family):
    for a, b in itertools.pairwise(gpuopt.rungs(family)):
        unified = gpuopt.diff(family, a.variant, b.variant).unified
        assert unified.startswith("---") and "\n+" in unified and "\n-" in unified
    same = gpuopt.diff(family, gpuopt.rungs(family)[0].variant, gpuopt.rungs(family)[0].variant)
    assert same.unified == ""


def test_the_lines_are_those_of_the_files():
    root = Path(__file__).parents[2] / "csrc"
    if not root.exists():
        pytest.skip("no source tree")
    for name, lines in texts.embedded().items():
        (path,) = root.rglob(name)
        assert path.read_text().split("\n") == lines
    own = texts.OWN + "reduce.cu"
    assert texts.line(own, 1).startswith("// reduce.cu: the reduction ladder")
    assert texts.line(own, 10**6) == texts.line(own, 0) == texts.line("none.cu", 1) == ""


def test_source_includes_the_functions_it_calls():
    text = gpuopt.source("reduce", 6).text
    for needed in ("unrolled_tree", "last_warp", "load_pair", "load_or_identity"):
        assert text.count(f"{needed}(") + text.count(f"{needed}<") >= 2
    assert "reduce_5" not in text and "KERNEL" not in text
    assert "// New: no loop is left." in text
    assert gpuopt.source("reduce").rung.best and not gpuopt.source("reduce").rung.host


@pytest.mark.parametrize(
    "rung", [each for each in RUNGS if not each.host], ids=lambda each: f"{each.family}-{each.name}"
)
def test_source_has_the_line_of_every_instruction(rung):
    source = gpuopt.source(rung.family, rung.variant)
    shown = {(each.file, each.number) for each in source.lines}
    executed = {
        (file, number)
        for file, number in source_module._executed(rung.kernels[0])
        if file in texts.embedded()  # not CUDA's headers
        and not re.match(r"[A-Z0-9_]+\(", texts.embedded()[file][number - 1])  # a list of kernels
    }
    assert executed and executed <= shown, sorted(executed - shown)


def test_source_includes_the_headers_functions():
    lines = gpuopt.source("matmul", 8).lines
    files = [file for file, _ in itertools.groupby(each.file for each in lines)]
    assert files[:4] == ["matmul.cu", "matmul_ring.cuh", "matmul_loader.cuh", "matmul_operands.cuh"]
    for file, needed in (
        ("matmul_ring.cuh", "struct loader"),
        ("matmul_tile.cuh", "struct outputs"),
        ("common.cuh", "shared_memory()"),
    ):
        assert any(needed in each.text and each.number for each in lines if each.file == file)
        heading = next(each for each in lines if each.text == f"// --- {file}")
        assert heading.number == 0
    assert "global_thread" not in "".join(each.text for each in lines if each.file == "common.cuh")


def test_a_diff_is_the_lesson():
    unified = gpuopt.diff("transpose", 4, 5).unified
    assert "-    transpose_tile<0>(in, out, rows, columns, layer);" in unified
    assert "+    transpose_tile<1>(in, out, rows, columns, layer);" in unified
    assert "__shared__" not in unified.replace(" ", "").split("@@")[0]


class _Checker(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text, self.rows = [], "", 0

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def checked(html):
    checker = _Checker()
    checker.feed(html)
    assert not checker.open
    return checker


@pytest.mark.parametrize("pygments", [True, False])
def test_html_colours_code_where_pygments_is_installed(pygments, monkeypatch):
    if not pygments:
        monkeypatch.setitem(sys.modules, "pygments", None)
    elif not __import__("importlib.util").util.find_spec("pygments"):
        pytest.skip("pygments is not installed")
    source = gpuopt.source("reduce", 3)
    html = source._repr_html_()
    found = checked(html)
    assert found.rows == 1 + len(source.lines)
    assert "partial[t] = Op::apply(partial[t], partial[t + s]);" in found.text
    assert "template <class Op" in found.text  # escaped
    assert ("<span" in html) == pygments
    both = checked(gpuopt.diff("reduce", 2, 3)._repr_html_()).text
    assert "const unsigned left = 2 * s * t;" in both and "s = blockDim.x / 2" in both
    assert html.count("<pre") == len(source.lines)
    assert "⋮" in checked(gpuopt.diff("stencil1d", "2-historical", 2)._repr_html_()).text
    assert not re.search(r"<span[^>]*>\s+</span>", html), "converters drop the indentation"
    indented = next(each.text for each in source.lines if "partial[t] = Op" in each.text)
    assert f">  {indented}<" in re.sub(r"<(?!/?pre)[^>]*>", "", html).replace("&gt;", ">")


@needs_sim
def test_annotations_are_the_counters_by_line():
    two, three = (gpuopt.source("reduce", rung, annotate=True) for rung in (2, 3))

    def conflicts(source):
        return sum(each.counters.bank_conflicts for each in source.lines if each.counters)

    assert conflicts(two) > 0 == conflicts(three)
    line = next(each for each in two.lines if "partial[left] = Op::apply" in each.text)
    assert line.counters.bank_conflicts == conflicts(two)
    assert f"{line.counters.bank_conflicts:,}" in str(two)
    divergent = next(each for each in three.lines if "if (t < s)" in each.text)
    assert divergent.counters.divergent_branches > 0
    diff = gpuopt.diff("reduce", 2, 3, annotate=True)
    assert "conflicts" in str(diff) and "sectors/req." in str(diff)
    minus = next(row for row in str(diff).splitlines() if "partial[left] = " in row)
    assert minus.startswith("-") and f"{line.counters.bank_conflicts:,}" in minus
    found = checked(diff._repr_html_()).text
    assert f"{line.counters.bank_conflicts:,}" in found and "counted on a simulated" in found


@needs_sim
@pytest.mark.parametrize("family", ["transpose", "stencil1d", "add", "saxpy", "matmul"])
def test_every_family_can_be_annotated(family):
    for rung in gpuopt.rungs(family):
        if not rung.host and not rung.historical:
            source = gpuopt.source(family, rung.variant, annotate=True)
            assert sum(each.counters.warp_instructions for each in source.lines if each.counters)


@pytest.mark.parametrize(
    ("match", "arguments", "more"),
    [
        ("'reduce', 'roofline'", ("fold",), {}),
        ("variant: 99 .*'5-historical'", ("reduce", 99), {}),
        ("variant: True", ("reduce", True), {}),
        ("'serial' of reduce runs on the cpu", ("reduce", "serial"), {"annotate": True}),
        ("annotate: roofline is not counted", ("roofline",), {"annotate": True}),
    ],
)
def test_bad_input(match, arguments, more):
    with pytest.raises(ValueError, match=match):
        gpuopt.source(*arguments, **more)


def test_experiments_have_sources_and_differences():
    every = gpuopt.source("coalescing")
    assert every.file == "micro.cu" and "micro_float3_shared" in every.text
    one = gpuopt.source("coalescing", "idle")
    assert one.text == gpuopt.source("coalescing", "micro_idle").text
    assert "k % 4 != 3" in one.text and "micro_float3" not in one.text
    assert "micro_plane_bilinear" in gpuopt.source("texture", "plane_bilinear").text
    change = gpuopt.diff("coalescing", "index", "idle")
    assert any("k % 4 != 3" in line for line in change.unified.splitlines() if line[:1] == "+")
    for _, experiment, _ in _core.probes():
        assert not experiment or gpuopt.source(experiment).lines
    with pytest.raises(ValueError, match=r"variant: 'x' is not a kernel .* divergence; use one of"):
        gpuopt.source("divergence", "x")
    with pytest.raises(TypeError, match=r"gpuopt\.source\(gpuopt\.experiments\.banks"):
        gpuopt.source("banks", annotate=True)


def test_experiments_are_counted_and_traced():
    counted = gpuopt.source(gpuopt.experiments.banks, device="sim:g80")
    assert counted.function == "micro_banks" and any(each.counters for each in counted.lines)
    trace = gpuopt.trace(gpuopt.experiments.banks, device="sim:g80", launch=3)
    assert trace.banks().data["passes"] > 0
    with pytest.raises(ValueError, match=r"gpuopt\.trace\(gpuopt\.experiments\.banks"):
        gpuopt.trace("banks")
