"""Write docs/slides.md: for each deck, subject by subject, the call that shows it.

    python docs/slides.py           # write the page
    python docs/slides.py --check   # only compare: exit status 1 if it differs

The rows of the ladders come from the table of rungs; a test runs every call of the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import gpuopt

PAGE = Path(__file__).with_name("slides.md")
DECKS = {  # title, the GPU that its calls run on
    "D0": ("DirectCompute Optimizations and Best Practices, NVIDIA, GTC 2010", "sim:g80"),
    "D1": ("Introduction to GPU computing and CUDA, NVIDIA, about 2016", "sim:k40"),
    "D2": ("CUDA Deep Dive: Performance, Georgia Tech, CSE 6230, 2013", "sim:m2090"),
    "D3": ("CUDA Performance Optimization, NVIDIA, P. Legresley", "sim:gt200"),
    "D4": ("Reduction, H. Liu, after M. Harris", "sim:g80"),
}
SETUP = '''\
import numpy as np
import gpuopt
from gpuopt import experiments, models

x = np.arange(1 << 12, dtype=np.int32)
a = np.ones((64, 64), np.float32)
f = np.ones(512, np.float32)


def two_streams(device="sim:k40"):
    """Copy in, double, copy out, in four chunks on two streams."""
    double = "__global__ void twice(float *a) { a[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }"
    module = gpuopt.compile(double, device=device)
    host = module.pinned((4, 1 << 14), np.float32)
    host[:] = 1
    with gpuopt.profile(device=device) as program:
        streams = [gpuopt.Stream(device), gpuopt.Stream(device)]
        buffers = [module.empty(4 << 14) for _ in host]
        for first in (0, 2):  # the same step of both chunks before the next one
            for i in (first, first + 1):
                gpuopt.copy_async(buffers[i], host[i], streams[i % 2])
            for i in (first, first + 1):
                module["twice"](64, 256, buffers[i], stream=streams[i % 2])
            for i in (first, first + 1):
                gpuopt.copy_async(host[i], buffers[i], streams[i % 2])
        for stream in streams:
            stream.synchronize()
    return program'''
CALLS = {  # of a rung, by family
    "reduce": 'gpuopt.reduce(x, variant={}, dtype=np.int32, device="{}")',
    "transpose": 'gpuopt.profile(gpuopt.transpose, a, variant={}, device="{}")',
    "stencil1d": 'gpuopt.profile(gpuopt.stencil1d, x, variant={}, device="{}")',
    "add": 'gpuopt.profile(gpuopt.add, x[:512], x[:512], variant={}, device="{}")',
    "saxpy": 'gpuopt.profile(gpuopt.saxpy, 2.0, f, f, variant={}, device="{}")',
    "matmul": 'gpuopt.profile(gpuopt.matmul, a, a, variant={}, device="{}")',
}
DIFFERENT = {  # where a rung's call differs: the deck's smallest, and what shows its fault
    ("add", "1-historical"): 'gpuopt.add(x[:1], x[:1], variant="1-historical", device="{1}")',
    ("stencil1d", "2-historical"): 'gpuopt.check(gpuopt.stencil1d, x, variant="2-historical")',
    ("stencil1d", "2-listing"): (
        'gpuopt.stencil1d(x[:70], mode="valid", variant="2-listing", device="{1}")'
    ),
    ("reduce", "5-historical"): (
        'gpuopt.check(gpuopt.reduce, x, variant="5-historical", dtype=np.int32)'
    ),
    ("transpose", "1-historical"): (
        'gpuopt.transpose(a, variant="1-historical", block=64, device="{1}")'
    ),
}
# fmt: off
TOPICS = {  # in the deck's order: topic, the families whose rungs it has, subjects and calls
    "D0": [
        ("The GPU's peak", (), [
            ("peak bandwidth of a G80", "models.peak_bandwidth(384, 900e6)"),
            ("peak bandwidth of an overclocked GTX 280", "models.peak_bandwidth(512, 1.14e9)"),
        ]),
        ("Reduction", ("reduce",), [
            ("times, bandwidths, steps and totals",
             'gpuopt.ladder("reduce", 1 << 12, device="sim:g80")'),
            ("32M elements by the last shader",
             'gpuopt.reduce(x, variant="7-historical", dtype=np.int32, device="sim:g80")'),
            ("a race of a group, found",
             'gpuopt.check(gpuopt.stencil1d, x, variant="2-historical")'),
        ]),
        ("Coalescing", (), [
            ("a half-warp's addresses",
             'models.transactions("g80", [4 * (i ^ 1) for i in range(32)])'),
            ("in order, permuted, misaligned, in structures",
             'experiments.coalescing(device="sim:g80")'),
        ]),
        ("Banks of the group's memory", (), [
            ("a half-warp's words", 'models.bank_conflicts("g80", [8 * i for i in range(32)])'),
            ("strides and broadcasts, counted", 'experiments.banks(device="sim:gt200")'),
        ]),
        ("Divergence", (), [
            ("by thread and by warp", 'experiments.divergence(device="sim")'),
        ]),
        ("Occupancy", (), [
            ("occupancy and what limits it",
             'models.occupancy("g80", 256, registers=16, shared=4096)'),
        ]),
        ("Sizes of groups and dispatches", (), [
            ("blocks and grids, swept", 'experiments.block_size(1 << 14, device="sim")'),
        ]),
        ("Several GPUs", (), [
            ("data and tasks divided", 'experiments.several_gpus(1 << 14, device="sim")'),
        ]),
        ("Extra slides: matrix product", ("matmul",), [
            ("the table of a GTX 280 and an 8800 GTX", 'gpuopt.matmul_case_study("sim:gt200", 64)'),
        ]),
    ],
    "D1": [
        ("Vector addition", ("add", "saxpy"), []),
        ("Stencil, shared memory and barriers", ("stencil1d",), []),
        ("Transpose: profile, then change one thing", ("transpose",), [
            ("parallel loops on the CPU", 'gpuopt.transpose(a, variant="openmp", device="cpu")'),
            ("the ladder beside the deck's, and a plain copy",
             'gpuopt.ladder("transpose", 4096, device="sim:k40")'),
            ("is the kernel the limiter at all: a program in time",
             'gpuopt.profile(gpuopt.transpose, a, variant="1d", device="sim:k40").timeline()'),
            ("bound by memory, instructions or latency",
             'gpuopt.profile(gpuopt.transpose, a, variant="1d", device="sim:k40").verdicts()'),
            ("the profiler's counters and throughputs",
             'gpuopt.profile(gpuopt.transpose, a, variant=1, device="sim:k40").nvprof()'),
            ("registers, shared memory, busy multiprocessors of a launch",
             'gpuopt.profile(gpuopt.transpose, a, variant="1d", block=32, device="sim:k40")'),
            ("where a kernel's time goes, by line", 'gpuopt.source("transpose", 4, annotate=True)'),
            ("why is it slow",
             'gpuopt.explain(gpuopt.transpose, a, variant="1d", device="sim:k40")'),
            ("lines in flight that fill the memory", 'models.in_flight("k40")'),
        ]),
        ("Divergence", (), [
            ("in a warp and between warps", 'experiments.divergence(device="sim")'),
        ]),
        ("Intrinsics", (), [
            ("accurate and fast functions",
             'experiments.intrinsics(1 << 10, steps=2, device="sim")'),
            ("2.5 against 2.5f", 'experiments.double_literal(1 << 10, device="sim")'),
        ]),
        ("Streams", (), [
            ("a stream and its query", 'gpuopt.Stream("sim:k40").query()'),
            ("copies and kernels on two streams, in time", "two_streams().timeline()"),
            ("the same as a picture", "two_streams().timeline().picture()"),
            ("one stream and several", 'experiments.overlap(device="sim:k40")'),
            ("the same on a GPU", 'experiments.overlap(device="cuda")'),
        ]),
    ],
    "D2": [
        ("Latency", (), [
            ("five instructions, 73 cycles",
             "models.pipeline([(), (0,), (), (2,), (3,)], latency=24)"),
            ("two schedulers", "models.pipeline([()] * 8, latency=24, warps=2, schedulers=2)"),
            ("Little's law", "models.littles_law(24, 8)"),
        ]),
        ("ILP against TLP", (), [
            ("chains and warps", 'experiments.ilp((1, 3), (2, 6), steps=8, device="sim:g80")'),
            ("bandwidth at low occupancy", 'experiments.low_occupancy_copy(1 << 12, device="sim")'),
        ]),
        ("Shared memory and the first cache", (), [
            ("48 KB of first cache instead of shared memory",
             'models.occupancy("m2090", 256, shared=8192, prefer_l1=True)'),
        ]),
        ("Roofline", (), [
            ("peak rate of an M2090", "models.peak_flops(512, 1.3e9)"),
            ("peak bandwidth of an M2090", "models.peak_bandwidth(384, 1.85e9)"),
            ("shared memory and registers as ceilings", 'gpuopt.roofline("sim:m2090")'),
            ("a bound", "models.roofline_bound(0.25, 177e9, 1.33e12)"),
        ]),
        ("Matrix product", ("matmul",), [
            ("registers and occupancy",
             'models.occupancy("m2090", 128, registers=51, shared=8192)'),
            ("the ladder beside its predictions", 'gpuopt.matmul_case_study("sim:m2090", 64)'),
        ]),
    ],
    "D3": [
        ("Coalescing", (), [
            ("six kernels, 12 MB", 'experiments.coalescing(3 << 18, device="sim:g80")'),
            ("rule of 1.0 and 1.1", 'models.transactions("g80", [4 * i + 4 for i in range(32)])'),
            ("rule of 1.2 and 1.3", 'models.transactions("gt200", [4 * i + 4 for i in range(32)])'),
            ("a kernel of the experiment", 'gpuopt.source("coalescing", "float3_shared")'),
            ("what staging changes", 'gpuopt.diff("coalescing", "float3_direct", "float3_shared")'),
        ]),
        ("Textures", (), [
            ("linear memory, arrays, texels of 8 and 16 bits, filters, fetch rate",
             'experiments.texture(64, device="sim:g80")'),
        ]),
        ("Occupancy and registers", (), [
            ("occupancy of 50% or more", 'models.occupancy("gt200", 192, registers=16)'),
            ("fewer registers, spills",
             'experiments.register_pressure(1 << 8, steps=2, device="sim")'),
            ("--maxrregcount",
             'gpuopt.compile("__global__ void k() {}", options="--maxrregcount=16", device="sim")'),
        ]),
        ("Banks", (), [
            ("conflicts, and up to 30%", 'experiments.banks(device="sim:gt200")'),
        ]),
        ("Intrinsics", (), [
            ("accurate and fast functions",
             'experiments.intrinsics(1 << 10, steps=2, device="sim")'),
        ]),
        ("Page-locked memory", (), [
            ("PCIe 1, a model", 'experiments.host_link(device="sim:g80")'),
            ("PCIe 2, a model", 'experiments.host_link(device="sim:gt200")'),
            ("measured", 'experiments.host_link(device="cuda")'),
            ("seconds of a copy", 'models.transfer("g80", 12 << 20, pinned=False)'),
        ]),
        ("Asynchronous copies", (), [
            ("one copy engine", 'experiments.overlap(device="sim:gt200")'),
            ("two streams in time", 'two_streams("sim:gt200").timeline()'),
        ]),
    ],
    "D4": [
        ("Sums in order and as trees", (), [
            ("the sequential loop", 'gpuopt.reduce(x, variant="serial", device="cpu")'),
            ("one thread, one block, trees of degree 2 and k",
             'experiments.trees(4096, device="sim")'),
            ("levels of a tree of degree k", "models.tree_reduction(4096, 16)"),
            ("other operators", 'gpuopt.reduce(x, "xor", variant=7, device="sim:g80")'),
        ]),
        ("No barrier of all blocks", (), [
            ("two launches, and a barrier that spins", 'experiments.global_sync(device="sim:g80")'),
            ("grid.sync(), which came later", 'experiments.global_sync(device="sim:v100")'),
            ("launch overhead: measure it", 'experiments.launch_overhead(device="cuda")'),
        ]),
        ("Reduction", ("reduce",), [
            ("a tree, step by step", 'gpuopt.trace("reduce", 1, n=256, block=128).tree()'),
            ("conflicts of shared memory", 'gpuopt.source("reduce", 2, annotate=True)'),
            ("a block size of the ten templates",
             'gpuopt.reduce(x, variant="6-historical", block=16, dtype=np.int32, '
             'device="sim:g80")'),
        ]),
        ("Cost, and Brent's theorem", (), [
            ("Brent's theorem", "models.brent(10, 6, 2)"),
            ("cost", "models.cost(4096, 12, 341)"),
        ]),
        ("Tuning, and the table", (), [
            ("64 to 256 blocks of 128 threads",
             'gpuopt.reduce(x, variant=7, block=128, blocks=64, device="sim:g80")'),
            ("the table, algorithm against code",
             'gpuopt.ladder("reduce", 1 << 12, device="sim:g80")'),
            ("all rungs over the size, a chart",
             'gpuopt.sweep("reduce", [1 << 12, 1 << 13], device="cpu")'),
        ]),
    ],
}
# fmt: on


def _call(rung: gpuopt.Rung, device: str) -> str:
    template = DIFFERENT.get((rung.family, str(rung.variant)), CALLS[rung.family])
    return template.format(repr(rung.variant).replace("'", '"'), device)


def _rungs(deck: str, family: str) -> list[tuple[str, str]]:
    """Return a family's rungs of a deck, and its listings beside ours, each with its call."""
    found = []
    first = sorted(gpuopt.rungs(family), key=lambda rung: rung.number or 0)  # listings beside ours
    for rung in first:
        if not rung.host and re.match(rf"(D\d, )*{deck}\b", rung.source):
            subject = f"{family}, {rung.variant}: {rung.lesson}"
            found.append((subject, _call(rung, DECKS[deck][1])))
            if rung.listing and rung.number is not None:
                call = f'gpuopt.source("{family}", {rung.number}, historical=True)'
                found.append((f"{family}, listing {rung.number} beside ours", call))
    return found


def topics(deck: str) -> dict[str, list[tuple[str, str]]]:
    """Return a deck's topics in its order, each with its subjects and their calls."""
    return {
        topic: [each for family in families for each in _rungs(deck, family)] + subjects
        for topic, families, subjects in TOPICS[deck]
    }


def rows(deck: str) -> list[tuple[str, str]]:
    """Return a deck's subjects, each with its call."""
    return [each for found in topics(deck).values() for each in found]


def page() -> str:
    """Return the page."""
    lines = [
        "# From slide to call", "",
        "Each slide with content of the five [decks](glossary.md#the-decks), with the call that",
        "shows it on the deck's own GPU, simulated, with small arrays. A test runs every call;",
        'those with `device="cuda"` measure times and need a GPU, `gpuopt.compile` a compiler.', "",
        "The topics stand in the order of each deck's contents; slides have no numbers here.", "",
        "```python", SETUP, "```",
    ]  # fmt: skip
    for deck, (title, _) in DECKS.items():
        lines += ["", f"## {deck}: {title}"]
        for topic, found in topics(deck).items():
            lines += ["", f"### {topic}", "", "| subject | call |", "|---|---|"]
            lines += [f"| {subject.replace('|', '/')} | `{call}` |" for subject, call in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())
