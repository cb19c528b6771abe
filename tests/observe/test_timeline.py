"""A program's copies and kernels in time, and a launch's resources, as deck D1's profiler shows."""

import json
from itertools import pairwise

import numpy as np
import pytest

import gpuopt
from gpuopt import models
from gpuopt.catalog.host_link import CALL
from gpuopt.catalog.schedule import Schedule, Work

WORK = """
__global__ void work(float *x, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < steps; k++) v = v * 0.5f + 1.0f;
    x[i] = v;
}
"""


@pytest.mark.parametrize("device", ["sim:g80", "sim:k40", "sim:h200"])
def test_time_line_of_a_family_call(device):
    x = np.ones(1 << 16, np.float32)
    line = gpuopt.profile(gpuopt.add, x, x, variant=5, device=device).timeline()
    parts = {step.name: step for step in line.steps}
    assert (parts["copies in"].count, parts["copies in"].nbytes) == (2, 2 * x.nbytes)
    assert (parts["copies out"].count, parts["copies out"].nbytes) == (1, x.nbytes)
    assert line.allocations == 3 and line.limiter == "copies"
    pageable = models.transfer(device, x.nbytes, pinned=False)
    assert parts["copies out"].seconds == pytest.approx(pageable)
    assert line.seconds == pytest.approx(sum(each["seconds"] for each in line.records()))
    assert (
        json.loads(json.dumps(line.to_dict()))["steps"][1]["name"]
        == "kernel vector_5_add_float32_float32"
    )
    assert "the copies are the limiter" in str(line) and "<table" in line._repr_html_()


def test_time_line_of_own_kernels_shows_a_kernel_as_the_limiter():
    module = gpuopt.compile(
        "__global__ void spin(float *x, int n) {"
        " float v = x[threadIdx.x]; for (int i = 0; i < n; i++) v = v * v + 1.0f;"
        " x[threadIdx.x] = v; }",
        device="sim:g80",
    )
    with gpuopt.profile(device="sim:g80") as counted:
        there = module.copy(np.zeros(32, np.float32))
        module["spin"](1, 32, there, 100_000, check=False)
        there.get(np.float32)
    line = counted.timeline()
    assert [step.name for step in line.steps] == ["copies in", "kernel spin", "copies out"]
    assert line.limiter == "kernels"


def test_time_line_needs_launches_and_a_record():
    with gpuopt.profile() as counted:
        pass
    with pytest.raises(ValueError, match="no launches"):
        counted.timeline()
    with pytest.raises(ValueError, match="no record of copies"):
        gpuopt.Profile().timeline()


def test_a_profile_shows_registers_shared_memory_and_busy_multiprocessors():
    """Deck D1: 4 blocks on the K40's 15 multiprocessors."""
    a = np.zeros((1024, 32), np.float32)
    counted = gpuopt.profile(gpuopt.transpose, a, variant="1-historical", device="sim:k40")
    (launch,) = counted.launches
    assert launch.busy == (4, 15) and 8 <= launch.registers <= 64
    assert "4 of 15 multiprocessors busy" in str(counted)
    tiled = gpuopt.profile(gpuopt.transpose, a, variant="4-historical", device="sim:k40").launches[
        0
    ]
    assert (tiled.static_shared_bytes, tiled.shared_bytes) == (4096, 0)
    assert tiled.record()["static_shared_bytes"] == 4096


@pytest.mark.parametrize(
    ("preset", "rate", "engines"),
    [("g80", 3.2, 0), ("gt200", 5.2, 1), ("m2090", 5.2, 2), ("k40", 12.6, 2), ("h200", 50.4, 2)],
)
def test_a_preset_has_the_link_of_its_generation(preset, rate, engines):
    link = models.host_link(preset)
    assert link.pinned == pytest.approx(rate * 1e9) and link.engines == engines
    assert link.pageable < link.pinned
    assert models.transfer(preset, 0) == pytest.approx(10e-6)
    with pytest.raises(ValueError, match="nbytes"):
        models.transfer(preset, -1)


def ended(device, works, wait_after=()):
    """Return a schedule's begins; the host waits after some of the works."""
    schedule = Schedule(device)
    for i, work in enumerate(works):
        number = schedule.issue(work)
        if i in wait_after:
            schedule.wait([number])
    schedule.finish()
    return schedule.begins


CHUNKS = [("in", 3.0), ("kernel", 2.0), ("out", 3.0)]
DEPTH = [Work(stream, *each) for stream in (1, 2) for each in CHUNKS]
BREADTH = [Work(stream, *each) for each in CHUNKS for stream in (1, 2)]


@pytest.mark.parametrize(
    ("device", "works", "begins"),
    [
        ("k40", DEPTH, [0, 3, 5, 3, 6, 8]),
        ("k40", BREADTH, [0, 3, 3, 6, 5, 8]),
        ("m2090", DEPTH, [0, 3, 5, 3, 6, 8]),
        ("gt200", DEPTH, [0, 3, 5, 8, 11, 13]),  # the one engine waits for the first kernel
        ("gt200", BREADTH, [0, 3, 3, 6, 6, 9]),
        ("g80", BREADTH, [0, 3, 6, 8, 10, 13]),  # no copy engine
    ],
)
def test_schedule_of_two_streams(device, works, begins):
    assert ended(device, works) == begins


def test_schedule_follows_waits_events_and_room():
    assert ended("k40", DEPTH, wait_after=(2,)) == [0, 3, 5, 8, 11, 13]  # the host waited
    one, two = Work(1, "kernel", 4.0, 0.5), Work(2, "kernel", 4.0, 0.5)
    assert ended("k40", [one, two]) == [0, 0]  # their blocks fit together
    assert ended("gt200", [one, two]) == [0, 4]
    assert ended("k40", [one, two._replace(share=0.6)]) == [0, 4]
    assert ended("k40", [one, two._replace(after=(0,))]) == [0, 4]
    # Fermi's single queue: a copy of another stream waits behind the copy of a stream that waits
    works = [Work(1, "kernel", 9.0), Work(1, "in", 1.0), Work(2, "in", 1.0)]
    assert ended("m2090", works) == [0, 9, 10]
    assert ended("k40", works) == [0, 9, 0]


def test_the_hosts_calls_bound_small_pieces():
    schedule = Schedule("h100")
    for i in range(8):
        schedule.enqueue(Work(1 + i % 2, "in", 1e-6))
    schedule.finish()
    assert schedule.begins == pytest.approx([CALL * i for i in range(8)])


def on_streams(device, streams, wait=lambda stream: None, pageable=False):
    """Copy in, compute, copy out, in four chunks dealt out to streams; return the time line."""
    module = gpuopt.compile(WORK, device=device)
    n = 1 << 16
    host = np.empty(4 * n, np.float32) if pageable else module.pinned(4 * n, np.float32)
    host[:] = 2
    with gpuopt.profile(device=device) as counted:
        queues = [gpuopt.Stream(device) for _ in range(streams)]
        for i in range(4):
            stream, part, there = (
                queues[i % streams],
                host[n * i : n * (i + 1)],
                module.empty(4 * n),
            )
            gpuopt.copy_async(there, part, stream)
            module["work"](n // 256, 256, there, 50, stream=stream)
            gpuopt.copy_async(part, there, stream)
            wait(stream)
        for stream in queues:
            stream.synchronize()
    assert (host == 2).all()
    return counted.timeline()


@pytest.mark.parametrize("device", ["sim:m2090", "sim:k40", "sim:h100"])
def test_streams_overlap_in_the_time_line(device):
    one, two = on_streams(device, 1), on_streams(device, 2)
    assert one.seconds == pytest.approx(one.serial) == pytest.approx(two.serial)
    assert two.seconds < 0.8 * one.seconds
    assert [each.name for each in two.steps] == ["copy in", "kernel work", "copy out"] * 4
    assert [each.stream for each in two.steps] == [1, 1, 1, 2, 2, 2] * 2
    for stream in (1, 2):
        own = [each for each in two.steps if each.stream == stream]
        assert all(a.end <= b.begin + 1e-12 for a, b in pairwise(own))
    for engine in ("in", "out"):
        copies = sorted((each.begin, each.end) for each in two.steps if each.engine == engine)
        assert all(a[1] <= b[0] + 1e-12 for a, b in pairwise(copies))
    assert "one after the other" in str(two) and "stream" in str(two)
    picture = two.picture()
    assert picture.svg.count("<title>") == 1 + 12 and "stream 2" in picture.svg
    assert picture.data["steps"] == two.records()


def test_a_wait_after_each_chunk_and_pageable_memory_prevent_overlap():
    for line in (
        on_streams("sim:k40", 2, wait=lambda stream: stream.synchronize()),
        on_streams("sim:k40", 2, wait=lambda stream: stream.record().synchronize()),
        on_streams("sim:k40", 2, pageable=True),
        on_streams("sim:g80", 2),
    ):
        assert line.seconds >= 0.999 * line.serial


def test_an_event_orders_two_streams_in_the_time_line():
    module = gpuopt.compile(WORK, device="sim:k40")
    there, host = module.copy(np.zeros(256, np.float32)), module.pinned(256, np.float32)
    with gpuopt.profile(device="sim:k40") as counted:
        first, second = gpuopt.Stream("sim:k40"), gpuopt.Stream("sim:k40")
        module["work"](1, 256, there, 500, stream=first)
        second.wait(first.record())
        gpuopt.copy_async(host, there, second)
        second.synchronize()
    kernel, copy = counted.timeline().steps
    assert copy.begin == pytest.approx(kernel.end)


def test_work_beside_streams_waits_for_them_and_results_follow_their_launches():
    module = gpuopt.compile(WORK, device="sim:k40")
    x, host = np.ones(256, np.float32), module.pinned(256, np.float32)
    host[:] = 1
    with gpuopt.profile(device="sim:k40") as counted:
        stream, there = gpuopt.Stream("sim:k40"), module.empty(1024)
        gpuopt.copy_async(there, host, stream)
        module["work"](1, 256, x, 5)
        gpuopt.add(x, x, variant=5, device="sim:k40")
        module["work"](1, 256, there, 5, stream=stream)
    # the stream's kernel has not run
    line = counted.timeline()
    assert [each.name.partition(" vector")[0] for each in line.steps] == [
        "copy in", "copies in", "kernel work", "copies out", "copies in", "kernel", "copies out"
    ]  # fmt: skip
    begins = [each.begin for each in line.steps]
    assert begins == sorted(begins) and line.seconds >= 0.999 * line.serial
    stream.synchronize()  # or the next profile counts the kernel, as it runs then


@pytest.mark.parametrize(
    ("call", "variant", "device", "verdict"),
    [
        ("transpose", "1-historical", "sim:k40", "latency-bound: memory"),  # 4 blocks of 256
        ("transpose", "shared", "sim:k40", "memory-bound: shared memory"),
        ("transpose", "padded", "sim:k40", "memory-bound: DRAM"),
        ("reduce", 1, "sim:g80", "compute-bound: instructions"),
        ("reduce", 7, "sim:g80", "memory-bound: DRAM"),
        ("add", 1, "sim:k40", "latency-bound: memory"),
    ],
)
def test_a_profile_tells_the_limiter(call, variant, device, verdict):
    """Decks D1 and D4: few blocks wait, conflicts and DRAM bound a tile, instructions a tree."""
    made = {
        "transpose": lambda: [np.ones((1024, 1024), np.float32)],
        "reduce": lambda: [np.arange(1 << 20, dtype=np.int32)],
        "add": lambda: 2 * [np.ones(512, np.float32)],
    }
    counted = gpuopt.profile(getattr(gpuopt, call), *made[call](), variant=variant, device=device)
    assert counted.verdicts()[0].startswith(verdict)
    assert counted.predicted().verdict.startswith(verdict)
    assert counted.verdicts()[0] in str(counted) and verdict in counted._repr_html_()


def test_a_small_launch_is_bound_by_the_launch_and_a_collected_one_by_nothing():
    x = np.ones(64, np.float32)
    small = gpuopt.profile(gpuopt.add, x, x, variant=5, device="sim:h100")
    assert small.verdicts()[0].startswith("launch-bound")
    collecting = gpuopt.Profile("sim", collecting=True)
    with collecting:
        gpuopt.add(x, x, variant=5, device="sim")
    assert collecting.verdicts() == [""] and "by a model" not in str(collecting)
