"""Kernels that do not end, and counts that do not fit: both are found, and end the launch."""

import math
import re
import threading
import time

import numpy as np
import pytest
from conftest import run_python

import gpuopt
from gpuopt.ptx import arguments as checks

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel_text(body, parameters=""):
    return f"{HEADER}.visible .entry k({parameters})\n{{\n{body}\n}}\n"


def kernel_of(body, parameters="", device="sim"):
    return gpuopt.load_ptx(kernel_text(body, parameters), device=device)["k"]


OUT = ".param .u64 p"
ENDLESS = {
    "a jump to itself": ("L: bra L;", ""),
    "a counter": (".reg .b32 %r; mov.u32 %r, 0;\nL: add.u32 %r, %r, 1;\nbra L;", ""),
    "stores": (
        ".reg .b64 %a<2>; .reg .b32 %r<3>; ld.param.u64 %a0, [p]; mov.u32 %r0, %ctaid.x;\n"
        "mov.u32 %r1, %tid.x; mad.lo.u32 %r1, %r0, 64, %r1; mul.wide.u32 %a1, %r1, 4;\n"
        "add.u64 %a0, %a0, %a1;\nL: add.u32 %r0, %r0, 1; st.global.u32 [%a0], %r0;\nbra L;",
        OUT,
    ),
    "barriers": ("L: bar.sync 0;\nbra L;", ""),
    "one lane": (
        ".reg .b32 %r; .reg .pred %p; mov.u32 %r, %tid.x; setp.ne.u32 %p, %r, 5;\n"
        "@%p bra E;\nL: bra L;\nE: ret;",
        "",
    ),
    "the last block": (
        ".reg .b32 %r<2>; .reg .pred %p; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %nctaid.x;\n"
        "sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r0, %r1;\n@%p bra E;\nL: bra L;\nE: ret;",
        "",
    ),
    "atomics": (
        ".reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [p];\n"
        "L: atom.global.add.u32 %r, [%a], 1;\nbra L;",
        OUT,
    ),
}


@pytest.mark.parametrize("limit", [{"steps": 200_000}, {"time_limit": 0.3}], ids=["steps", "time"])
@pytest.mark.parametrize("name", ENDLESS)
def test_a_kernel_that_does_not_end_is_ended(name, limit):
    body, parameters = ENDLESS[name]
    kernel = kernel_of(body, parameters)
    arguments = [np.zeros(192, np.uint32)] if parameters else []
    begin = time.monotonic()
    with pytest.raises(gpuopt.SimError, match="does not end: ") as caught:
        kernel(3, 64, *arguments, **limit)
    assert time.monotonic() - begin < 20
    assert caught.value.kernel == "k" and caught.value.kind == "does not end"
    assert f"{next(iter(limit))}=" in str(caught.value), "the remedy"
    lines = kernel_text(body, parameters).splitlines()
    at = int(re.search(r"PTX line (\d+)", str(caught.value))[1])
    assert 6 <= at <= len(lines) and len(caught.value.block) == 3
    if name == "a jump to itself":
        assert "bra L" in lines[at - 1]
    with pytest.raises(gpuopt.SimError, match="does not end"):
        gpuopt.check(kernel, 3, 64, *arguments, **limit)


def test_a_loop_that_runs_past_an_array_for_ever_is_told_as_that():
    kernel = kernel_of(
        ".reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [p]; mov.u32 %r, 7;\n"
        "L: st.global.u32 [%a], %r; add.u64 %a, %a, 4;\nbra L;",
        OUT,
    )
    found = gpuopt.check(kernel, 1, 1, np.zeros(8, np.uint32), time_limit=0.3)
    assert [each.kind for each in found] == ["out of bounds", "does not end"]
    assert found[0].element == 8


@pytest.mark.parametrize("name", ENDLESS)
def test_without_a_limit_it_is_ended_when_no_warp_ends_any_more(name, monkeypatch):
    assert 0 < checks.IDLE_SECONDS < 60
    monkeypatch.setattr(checks, "IDLE_SECONDS", 0.4)
    body, parameters = ENDLESS[name]
    arguments = [np.zeros(192, np.uint32)] if parameters else []
    begin = time.monotonic()
    with pytest.raises(gpuopt.SimError, match=r"none of its warps ended for 0\.4 s; .*time_limit="):
        kernel_of(body, parameters)(3, 64, *arguments)
    assert time.monotonic() - begin < 20


# Each block counts to 30,000 and ends.
LONG = (
    ".reg .b32 %r; .reg .pred %p; mov.u32 %r, 0;\n"
    "L: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 30000;\n@%p bra L;\nret;"
)


def test_a_long_launch_whose_warps_end_goes_on(monkeypatch):
    """Far longer than a loop without an end may run."""
    monkeypatch.setattr(checks, "IDLE_SECONDS", 0.25)
    kernel = kernel_of(LONG)
    blocks, took = 100, 0.0
    while took < 1:
        begin = time.monotonic()
        kernel(blocks, 32)
        took = time.monotonic() - begin
        blocks *= 4


def test_limits_that_are_large_enough_change_nothing():
    kernel = kernel_of(LONG)
    kernel(2, 32, steps=10_000_000, time_limit=60)
    kernel(2, 32, time_limit=math.inf)
    profiled = gpuopt.profile(kernel, 2, 32, steps=10_000_000)
    assert profiled.counters.warp_instructions > 100_000
    assert gpuopt.check(kernel, 2, 32, time_limit=60) == []
    assert kernel.bind(2, 32, steps=7, time_limit=2.5)
    with pytest.raises(gpuopt.SimError, match="more than 100000 warp instructions"):
        kernel(2, 32, steps=100_000)


@pytest.mark.parametrize(
    ("limits", "error", "text"),
    [
        ({"steps": 0}, ValueError, "steps: 0"),
        ({"steps": -1}, ValueError, "steps: -1"),
        ({"steps": 2**64}, ValueError, "steps"),
        ({"steps": 1.5}, TypeError, "steps: must be an int"),
        ({"time_limit": 0}, ValueError, "time_limit: 0"),
        ({"time_limit": math.nan}, ValueError, "time_limit: nan"),
        ({"time_limit": "1"}, TypeError, "time_limit: must be a number"),
    ],
)
def test_limits_that_are_none_are_refused(limits, error, text):
    with pytest.raises(error, match=text):
        kernel_of("ret;")(1, 1, **limits)


def test_other_work_goes_on_while_a_kernel_runs_without_end():
    """Another thread's calls wait for their turn, destructors do not, and nothing deadlocks."""
    loop = kernel_of("L: bra L;")
    caught = []

    def run():
        try:
            loop(1, 32, time_limit=1.5)
        except gpuopt.SimError as error:
            caught.append(error)

    other = gpuopt.load_ptx(f"{HEADER}.visible .entry k() {{ ret; }}", device="sim")
    buffers = [other.empty(100) for _ in range(10)]
    array = gpuopt.asarray(np.arange(5), device="sim")
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    begin = time.monotonic()
    buffers.clear()
    del array
    assert time.monotonic() - begin < 0.5, "a destructor must not wait"
    other["k"](1, 1)
    assert gpuopt.reduce(np.arange(10), device="sim", variant=1) == 45
    thread.join()
    assert len(caught) == 1


INTERRUPTED = """
import signal, threading, time, os, gpuopt
text = '''.version 8.0
.target sm_75
.address_size 64
.visible .entry k() { L: bra L; }'''
loop = gpuopt.load_ptx(text, device="sim")["k"]
other = gpuopt.load_ptx(text.replace("L: bra L;", "ret;"), device="sim")["k"]
for wait in (False, True):  # the main thread runs the kernel, or waits for another thread's
    if wait:
        def run():
            try:
                loop(1, 32, time_limit=4)
            except gpuopt.SimError:
                pass
        threading.Thread(target=run).start()
        time.sleep(0.3)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        (other if wait else loop)(1, 32)
        raise SystemExit("not interrupted")
    except KeyboardInterrupt:
        assert time.monotonic() - begin < 2
"""


def test_a_kernel_without_an_end_is_interrupted():
    done = run_python(INTERRUPTED)
    assert done.returncode == 0, done.stderr


# --- mbarriers count up to 2^20 - 1

BARRIER = """.shared .align 8 .b64 b; .reg .b32 %r<4>; .reg .b64 %s; mov.u32 %r0, b;
mbarrier.init.shared.b64 [%r0], {init};
{then}
ret;"""


@pytest.mark.parametrize(
    ("init", "then", "text"),
    [
        ("0", "", "given 0 arrivals"),
        ("1048576", "", "given 1048576 arrivals"),
        ("4294967295", "", "given 4294967295 arrivals"),
        ("2", "mbarrier.arrive.shared.b64 %s, [%r0], 0;", "given 0 arrivals"),
        ("2", "mbarrier.arrive.shared.b64 %s, [%r0], 1048577;", "given 1048577 arrivals"),
        ("2", "mbarrier.arrive.shared.b64 %s, [%r0], 3;", "2 arrivals pending"),
        ("2", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1048576;", "1048576 more"),
        ("2", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 8388608;", "8388608 more"),
        ("2", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 4294967295;", "more"),
        (
            "2",
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1000000;\n" * 2,
            "1000000 bytes pending gets 1000000 more",
        ),
        ("2", "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], 1048576;", "-1048576 more"),
        (
            "2",
            "mbarrier.arrive.expect_tx.shared.b64 %s, [%r0], 2000000;",
            "2000000 more",
        ),
    ],
)
def test_a_count_that_an_mbarrier_cannot_hold_is_found(init, then, text):
    kernel = kernel_of(BARRIER.format(init=init, then=then))
    with pytest.raises(gpuopt.SimError, match=f"invalid barrier: .*{text}"):
        kernel(1, 1)
    found = gpuopt.check(kernel, 1, 1)
    assert {each.kind for each in found} == {"invalid barrier"}


def test_counts_at_their_limits_are_no_finding():
    expect = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1048575;\n"
    complete = "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], 1048575;\n"
    arrive = "mbarrier.arrive.shared.b64 %s, [%r0], 1048575;\n"
    body = BARRIER.format(init=1048575, then=(complete + expect + arrive) * 3)
    assert gpuopt.check(kernel_of(body), 1, 1) == []


def test_an_endless_loop_full_of_findings_ends_within_seconds():
    ptx = """.version 8.0
    .target sm_75
    .address_size 64
    .visible .entry k(.param .u64 x) {
        .reg .b64 %x;
        ld.param.u64 %x, [x];
    L:  st.global.u32 [%x + 4096], 1;
        bra L;
    }"""
    began = time.monotonic()
    findings = gpuopt.check(gpuopt.load_ptx(ptx, "sim")["k"], 1, 32, np.zeros(4, np.int32))
    assert {each.kind for each in findings} == {"out of bounds", "does not end"}
    assert time.monotonic() - began < 20
