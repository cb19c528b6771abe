"""The tables of the rules: on errors, which follow the findings (errors.py), and on speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuopt.advice import compute, launches, memory
from gpuopt.advice.evidence import Evidence
from gpuopt.advice.explanation import Advice


class Rule(NamedTuple):
    """A rule on speed, and the names of two test kernels: one that shows it, one that does not."""

    name: str
    test: Callable[[Evidence], Iterator[Advice]]
    shows: str
    clean: str


class ErrorRule(NamedTuple):
    """A rule that follows a finding of the checks, with its two test kernels."""

    name: str
    shows: str
    clean: str


# The causes before what follows from them.
ERRORS = (
    ErrorRule("index-overflow", "overflow: pitch", "grid stride saxpy"),
    ErrorRule("bounds-check", "bounds: image", "image blur"),
    ErrorRule("shared-bounds", "shared window too small", "stencil with halo"),
    ErrorRule("divergent-barrier", "divergent barrier: half", "scan of a block"),
    ErrorRule("racing-update", "racing update: histogram", "shared histogram"),
    ErrorRule("missing-wait", "wait: moving average", "wait: polynomial of two tiles"),
    ErrorRule("missing-syncthreads", "syncthreads: reduction", "block reduction"),
    ErrorRule("missing-syncwarp", "warp tree without a barrier of the warp", "float64 norm"),
    ErrorRule("unordered-blocks", "last block sums up without a fence", "last block"),
    ErrorRule("warp-mask", "shuffle of all lanes under a condition", "compaction by ballot"),
    ErrorRule("deadlock", "spin lock inside of a block that waits for itself", "hash insert"),
    ErrorRule("uninitialised-shared", "uninitialised: halo", "stencil with halo"),
    ErrorRule(
        "uninitialised", "window of which one element is never assigned", "gemm with 4x4 registers"
    ),
    ErrorRule("misaligned-access", "float4 view of an odd row", "lennard-jones with a tile"),
    ErrorRule("division-by-zero", "mean of empty bins", "game of life"),
    ErrorRule("endless-loop", "bisection that never narrows", "mandelbrot"),
)

RULES = (
    Rule(
        "divergent-barrier",
        compute.partial_barriers,
        "divergent barrier: early exit",
        "tree reduction",
    ),
    Rule("double-literal", compute.double_literal, "double literal: scale", "double accumulator"),
    Rule("uncoalesced", memory.uncoalesced, "uncoalesced: transpose", "padded transpose"),
    Rule("uncoalesced", memory.against_the_rule, "uncoalesced: rows", "vector add"),
    Rule(
        "partial-sectors",
        memory.partial_sectors,
        "partial sectors: pixels",
        "lbm D2Q9 stream of one direction",
    ),
    Rule("half-dram-access", memory.half_sectors, "half dram", "separable gaussian rows"),
    Rule("bank-conflicts", memory.bank_conflicts, "banks: transpose tile", "padded transpose"),
    Rule("divergence", compute.divergent_branches, "divergence: parity", "black scholes"),
    Rule("constant-addresses", memory.constant_divergence, "constants", "constant coefficients"),
    Rule(
        "atomic-contention",
        memory.same_address_atomics,
        "atomics: counter",
        "counter by one atomic a warp",
    ),
    Rule("integer-division", compute.integer_division, "division: index", "game of life"),
    Rule("unfused-multiply-add", compute.unfused, "unfused: intrinsics", "black scholes"),
    Rule("register-spills", compute.spills, "spills: launch bounds", "gemm with 4x4 registers"),
    Rule(
        "local-array",
        compute.local_arrays,
        "local array: sort by insertion",
        "gemm with 4x4 registers",
    ),
    Rule("low-occupancy", launches.low_occupancy, "occupancy: shared", "matmul 16"),
    Rule("occupancy-cliff", launches.occupancy_cliff, "cliff: shared", "matmul 16"),
    Rule("block-size", launches.small_blocks, "block of 24 threads", "small vector"),
    Rule("grid-too-small", launches.grid_size, "grid: one block", "matmul of one tile"),
    Rule("tail", launches.tail, "tail", "monte carlo with a counter generator"),
    Rule(
        "unequal-blocks",
        launches.unequal_blocks,
        "unequal: triangle",
        "csr product, a warp per row",
    ),
    Rule("bytes-in-flight", memory.bytes_in_flight, "bytes in flight: bytes", "upper case"),
    Rule(
        "unneeded-barrier",
        compute.unneeded_barriers,
        "unneeded barrier: own word",
        "bitonic sort of a block",
    ),
)

# Rules on the launch as a whole: those on a line come before them, for the line is the cause.
OF_THE_LAUNCH = {
    "low-occupancy", "occupancy-cliff", "block-size", "grid-too-small", "tail", "bytes-in-flight",
}  # fmt: skip
# Advice that is left out if another rule names its cause.
EXPLAINED_BY = {
    "low-occupancy": {"occupancy-cliff", "register-spills"},
    "bytes-in-flight": {
        "grid-too-small", "low-occupancy", "occupancy-cliff", "unequal-blocks", "uncoalesced",
        "atomic-contention", "block-size",
    },
    "tail": {"grid-too-small", "unequal-blocks"},
    "unequal-blocks": {"grid-too-small"},
    "occupancy-cliff": {"block-size"},
}  # fmt: skip
