"""`gpuopt.explain`: each mistake is named first, with its line; clean kernels get no advice."""

import json

import numpy as np
import pytest
from advice_cases import launch, read

import gpuopt
from gpuopt.advice.code import KernelCode, Thread, Unknown, line_of
from gpuopt.advice.rules import ERRORS, RULES
from gpuopt.families import cases as families
from gpuopt.observe.events import Instruction

MISTAKES = read("mistakes.cu") + read("domains.cu") + read("slow_domains.cu")
CLEAN = read("clean.cu") + read("clean_domains.cu")
DECKS = {  # the rungs whose mistake is their lesson
    ("reduce", "2"): "bank-conflicts",
    ("reduce", "5-historical"): "missing-syncwarp",
    ("transpose", "1"): "uncoalesced",
    ("transpose", "2"): "uncoalesced",
    ("transpose", "3"): "uncoalesced",
    ("transpose", "4"): "bank-conflicts",
    ("stencil1d", "2-historical"): "missing-syncthreads",
    ("add", "1"): "grid-too-small",
    ("add", "2"): "block-size",
    ("saxpy", "1"): "grid-too-small",
    ("saxpy", "2"): "block-size",
    ("matmul", "13"): "uncoalesced",  # its lanes divide k, so they read down b's columns
}


def rungs():
    for family in ("reduce", "transpose", "stencil1d", "add", "saxpy", "matmul"):
        for rung in gpuopt.rungs(family):
            if not (rung.host or rung.listing):
                name = rung.name if rung.historical else str(rung.number)
                yield pytest.param(family, rung, DECKS.get((family, name)), id=f"{family}-{name}")


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.name)
def test_mistake_is_named_first_with_its_line(nvrtc, case):
    kernel, arguments, keywords = launch(case)
    found = gpuopt.explain(kernel, *arguments, **keywords)
    assert len(found), "no advice"
    assert (found[0].rule, found[0].line) == (case.rule, case.line), found
    assert found[0].text and found[0].evidence and found[0].remedy
    assert (found[0].severity == "error") == (not found.ok)


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_clean_kernel_gets_no_advice(nvrtc, case):
    kernel, arguments, keywords = launch(case)
    found = gpuopt.explain(kernel, *arguments, **keywords)
    assert [each.rule for each in found] == [], found


@pytest.mark.parametrize(("family", "rung", "wanted"), list(rungs()))
def test_rungs_get_advice_on_their_own_lesson_only(family, rung, wanted):
    items = {"reduce": 1 << 16}.get(family)
    if rung.name == "threads":
        items = 1024  # one block
    case = families.make(family, items, radius=16 if rung.name == "shared-sums" else None)
    found = gpuopt.explain(lambda: case.call(rung, None, "sim"))
    assert [each.rule for each in found][:1] == [wanted] * bool(wanted), found


@pytest.mark.parametrize("rule", [*ERRORS, *RULES], ids=lambda rule: f"{rule.name}: {rule.shows}")
def test_rule_names_a_kernel_that_shows_it_and_one_that_does_not(rule):
    """The tests above run both."""
    assert [case.rule for case in MISTAKES if case.name == rule.shows] == [rule.name]
    assert [case.name for case in CLEAN if case.name == rule.clean] == [rule.clean]


def test_every_mistake_belongs_to_a_rule_of_the_tables():
    assert {case.rule for case in MISTAKES} <= {rule.name for rule in (*ERRORS, *RULES)}


def test_names_of_kernels_are_unique():
    names = [case.name for case in MISTAKES + CLEAN]
    assert len(set(names)) == len(names)


def test_finding_has_its_access_in_fields(nvrtc):
    source = """__global__ void shift(float *x) { x[threadIdx.x] = x[threadIdx.x + 1]; }"""
    kernel = gpuopt.compile(source, device="sim")["shift"]
    found = gpuopt.check(kernel, 1, 64, np.zeros(64, np.float32))
    by_kind = {each.kind: each for each in found}
    outside, race = by_kind["out of bounds"], by_kind["race in global memory"]
    assert (outside.space, outside.access, outside.bytes) == ("global", "read", 4)
    assert (outside.argument, outside.array, outside.element) == (1, "float32[64]", 64)
    assert (outside.offset, outside.extent, outside.other) == (256, 256, None)
    assert race.other is not None
    assert {race.access, race.other.access} == {"read", "write"}
    assert abs(race.thread[0] - race.other.thread[0]) == 1
    assert race.other.line == race.line == 1
    told = json.loads(json.dumps(gpuopt.explain(kernel, 1, 64, np.zeros(64, np.float32)).to_dict()))
    findings = told["launches"][0]["findings"]
    assert [each["array"] for each in findings] == ["float32[64]"] * 2


def test_a_later_launch_of_the_same_kernel_may_be_the_wrong_one(nvrtc):
    source = "__global__ void fill(int n, int *x) { if (threadIdx.x < n) x[threadIdx.x] = 1; }"
    kernel = gpuopt.compile(source, device="sim")["fill"]

    def launches():
        for n in (64, 64, 65, 65):
            kernel(1, 128, n, np.zeros(64, np.int32))

    found = gpuopt.explain(launches)
    assert [(each.rule, each.severity) for each in found] == [("bounds-check", "error")]


# --- the arguments and the results


SCALE = """
__global__ void scale(int n, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 2.5 * x[i];
}
"""


def test_arrays_hold_the_results_of_one_launch(nvrtc):
    module = gpuopt.compile(SCALE, device="sim:t4")
    x, y = np.ones(1000, np.float32), np.ones(1000, np.float32)
    found = gpuopt.explain(module["scale"], 4, 256, 1000, x, y)
    assert (y == 3.5).all()
    assert [each.rule for each in found] == ["double-literal"]
    assert found[0].line == 4
    assert "1/32" in found[0].reason
    buffer = module.copy(np.ones(1000, np.float32))
    gpuopt.explain(module["scale"], 4, 256, 1000, x, buffer)
    assert (buffer.get(np.float32) == 3.5).all()


def test_explanation_is_text_html_and_plain(nvrtc):
    module = gpuopt.compile(SCALE, device="sim")
    x = np.ones(1000, np.float32)
    found = gpuopt.explain(module["scale"], 4, 256, 1000, x, x.copy())
    text = repr(found)
    assert "kernel.cu:4 [double-literal]" in text
    assert "2.5 * x[i]" in text
    assert "do not add up" in text or not found[0].gain
    assert "&lt; n" in found._repr_html_()
    told = json.loads(json.dumps(found.to_dict()))
    assert told["kind"] == "explanation" and told["advice"][0]["line"] == 4
    assert found.records()[0]["rule"] == "double-literal"
    assert found.ok


def test_errors_come_before_speed(nvrtc):
    module = gpuopt.compile(SCALE.replace("if (i < n) ", ""), device="sim")
    x = np.ones(1000, np.float32)
    found = gpuopt.explain(module["scale"], 4, 256, 1000, x, x.copy())
    assert not found.ok
    assert [each.rule for each in found] == ["bounds-check"]
    assert any("speed" in note for note in found.notes)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda k: gpuopt.explain(3), TypeError, "function: must be callable"),
        (lambda k: gpuopt.explain(k, 4), TypeError, "a grid and a block"),
        (lambda k: gpuopt.explain(k, 4, 256, device="sim:t4"), ValueError, "leave device out"),
        (lambda k: gpuopt.explain(lambda: None), ValueError, "launched no kernel"),
        (lambda k: gpuopt.explain(lambda: None, device="cpu"), ValueError, "has no counters"),
        (lambda k: gpuopt.explain(k, 4, 256, 1), TypeError, "has 3 parameters"),
    ],
)
def test_bad_arguments_are_named(nvrtc, call, error, text):
    with pytest.raises(error, match=text):
        call(gpuopt.compile(SCALE, device="sim")["scale"])


# --- the values of a thread's indices


def thread(texts, parameters, tid=0, ctaid=0):
    code = KernelCode(
        [Instruction(text, "integer", "k.cu", i, i, 0) for i, text in enumerate(texts)]
    )
    special = {"%tid.x": tid, "%ctaid.x": ctaid, "%ntid.x": 256, "%nctaid.x": 1 << 24}
    return Thread(code, special, parameters)


def test_overflow_of_an_index_is_seen():
    texts = [
        "ld.param.u32 %r1, [k_param_0]",
        "mov.u32 %r2, %ctaid.x",
        "mov.u32 %r3, %tid.x",
        "mad.lo.s32 %r4, %r2, %r1, %r3",
        "mul.wide.s32 %rd1, %r4, 4",
    ]
    fits = thread(texts, [1000], tid=3, ctaid=2000).value("%rd1")
    assert (fits.wrapped, fits.exact, fits.at) == (4 * 2_000_003, 4 * 2_000_003, None)
    wraps = thread(texts, [1000], tid=3, ctaid=3_000_000).value("%rd1")
    assert wraps.exact == 4 * 3_000_000_003
    assert line_of(wraps.at.line) == 3


def test_hash_is_no_overflow():
    texts = [
        "mov.u32 %r1, %tid.x",
        "mul.lo.s32 %r2, %r1, -1640531535",
        "shr.u32 %r3, %r2, 20",
        "mul.wide.u32 %rd1, %r3, 4",
    ]
    assert thread(texts, [], tid=77).value("%rd1").at is None


def test_values_of_memory_are_unknown():
    texts = ["ld.global.u32 %r1, [%rd2]", "mul.wide.u32 %rd1, %r1, 4"]
    with pytest.raises(Unknown):
        thread(texts, []).value("%rd1")
