"""Predicted times: a model over the counters of a launch. No prediction is a measurement.

A block's work on each resource of a multiprocessor, in clocks: instructions, lines of global
memory, passes through shared memory, lines of textures. They overlap in part: the work is their
p-norm with p = 1.5 (before compute capability 2.0 there is one pipe: their sum). A block also
waits: by its machine code in order (`inorder.walked`), or by its PTX (`scoreboard.critical_path`).
While it works or waits, others do: a closed queue of the resident blocks, with the multiprocessor,
its part of the memory's bandwidth, and the start of blocks as servers, solved by mean-value
analysis (Reiser and Lavenberg, 1980). Where no barrier couples a block's warps, they queue one by
one, at their own scheduler. Stores, and loads whose latency other instructions hide, need no wait
for the memory, which none the less takes as long as its bytes.

Volkov's thesis (2016) says why neither a sum nor a maximum of work and latency will do; Hong and
Kim, ISCA 2009, is the first model of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from gpuopt import _core
from gpuopt.catalog.figures import Figures
from gpuopt.models import occupancy
from gpuopt.observe import machine
from gpuopt.observe.inorder import QUEUES, walked
from gpuopt.observe.launches import Launch
from gpuopt.observe.scoreboard import Sample, critical_path, fused, kind_of, parse, slots, words_of

P = 1.5  # of the norm, for all GPUs; fitted on the M2090's tiled matrix products
TEXTURE_LINE = 0.5  # clocks per line of the read-only path on Kepler; fitted on the K40's "tex"
ERROR = 1.35  # the factor that nine of ten known rows stay within; docs/predictions.md counts them
FITTING = 0.8  # of L2: data of this size stays there from one call to the next
BLOCK_START = 1.0  # clocks of the whole GPU; fitted on the H200's reductions and additions
# In an L2 of two partitions (an H200's times of warm reads and stores): a store is written in both,
# and a read that one lacks is served by the other.
STORED, MOVED = 1.6, 1.5
CROSSING = 172  # clocks more of an atomic operation in the other partition (an H200's)
PARTIAL = 2.1  # halves of a line that L2 takes to store a part of a sector; fitted on "scatter"
# A bulk copy on an H200: clocks more than a load, and bytes per clock beside them.
BULK, BULK_BYTES = 294, 113
FERMI, KEPLER, MAXWELL, VOLTA, AMPERE = 20, 30, 50, 70, 80  # compute capability, times ten
WARP, SECTOR = 32, 32
# Statements that wait for another thread or a copy.
_ARRIVALS = ("mbarrier.try_wait", "mbarrier.test_wait")
_SPINS = ("ld.acquire", "ld.relaxed", "ld.volatile.global", "nanosleep", "barrier.cluster",
          *_ARRIVALS)  # fmt: skip
_MEMORY = ("global", "shared", "local", "texture", "memory")


class Code(NamedTuple):
    """A launch's machine code, and how many warps executed each instruction."""

    machine: machine.Machine
    times: np.ndarray

    def executed(self, *heads: str) -> float:
        """Return the executions of all instructions whose names begin so."""
        return float(self.times[self.machine.named(*heads)].sum())


def pnorm(values: Iterable[float], p: float) -> float:
    """Return (sum of v^p)^(1/p); the maximum for p = infinity."""
    found = [each for each in values if each > 0]
    if p == math.inf or not found:
        return max(found, default=0.0)
    most = max(found)  # scaled, so that no power overflows
    return most * sum((each / most) ** p for each in found) ** (1 / p)


@dataclass
class Demand:
    """A launch's work in clocks of a multiprocessor, summed over all blocks, and its traffic."""

    clocks: dict[str, float] = field(default_factory=dict)
    dram_bytes: float = 0.0
    dram_efficiency: float = 1.0
    l2_bytes: float = 0.0
    uncached_bytes: float = 0.0  # of L2, if L1 kept nothing


def _instructions(
    launch: Launch, row: dict[str, Any], figures: Figures, code: Code | None
) -> float:
    """Return the clocks of the busiest of issue and the pipes."""
    capability = row["compute_capability"]
    if code:
        sums = np.bincount(
            code.machine.pipes, code.times * code.machine.steps, len(machine.PIPES)
        ).tolist()
        pipes = dict(zip(machine.PIPES, sums, strict=True))
    else:
        body = body_of(launch.texts)
        counts = launch.column("warp_instructions") * body.slots(figures, capability)
        sums = np.bincount(body.kinds, counts, len(body.names)).tolist()
        pipes = dict(zip(body.names, sums, strict=True))
    issued = sum(pipes.values())
    rates = {
        "integer": figures.integer_lanes,
        "multiply": figures.multiply_lanes,
        "special": figures.special_lanes,
        "f32": _lanes(row, "f32_gflops"),
        "f64": _lanes(row, "f64_gflops"),
    }
    if capability < FERMI:  # one pipe; its multiplications are several slots already
        special = pipes.get("special", 0.0) * WARP / figures.special_lanes
        return issued / figures.issue + special
    taken = {kind: pipes.get(kind, 0.0) * WARP / lanes for kind, lanes in rates.items() if lanes}
    if code:  # one pipe multiplies, integers at half the rate (an H100: 24 clocks for 8 of each)
        taken["f32"] += taken["multiply"]
    memory = sum(pipes.get(kind, 0.0) for kind in _MEMORY)
    return max([(issued - memory) / figures.issue, *taken.values()])


class _Body:
    """A kernel's PTX statements, with what does not depend on a launch."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        known = [parse(each) for each in texts]
        self.texts = texts
        kinds = [kind_of(each.name) for each in known]
        self.names = tuple(dict.fromkeys(kinds))
        self.kinds = np.array([self.names.index(each) for each in kinds], int)
        self.spins = np.array([each.name.startswith(_SPINS) for each in known], bool)
        self.swaps = np.array([".cas" in each.name for each in known], bool)
        atomic = [each.name.startswith(("atom", "red.")) for each in known]
        shared = [".shared" in each.name for each in known]
        self.on_global = np.array(atomic, bool) & ~np.array(shared, bool)
        returning = any(each.name.startswith("atom.global") for each in known)
        comparing = all(".cas" in each.name for each in known if each.name.startswith("atom"))
        self.hands_out = returning and not comparing  # it may hand out work, or name the last block
        self.bulk = np.array([each.name.startswith("cp.async.bulk") for each in known], bool)
        self.arrivals = np.array([each.name.startswith(_ARRIVALS) for each in known], bool)
        self.widths = np.array([words_of(each) for each in texts], int)
        self.read_only = np.array([".nc" in each.name for each in known], bool)
        self._slots: dict[tuple[Figures, int], np.ndarray] = {}

    def slots(self, figures: Figures, capability: int) -> np.ndarray:
        """Return how many machine instructions stand for each statement."""
        key = figures, capability
        if key not in self._slots:
            joined = fused(self.texts)
            self._slots[key] = np.array(
                [
                    slots(text, figures, capability, together)
                    for text, together in zip(self.texts, joined, strict=True)
                ]
            )
        return self._slots[key]


body_of = lru_cache(256)(_Body)


def _lanes(row: dict[str, Any], peak: str) -> float:
    """Return the multiply-adds of a multiprocessor per clock, by the datasheet's peak."""
    return row[peak] / (2 * row["clock_ghz"] * row["multiprocessors"])


def compiled_of(launch: Launch, row: dict[str, Any]) -> machine.Machine | None:
    """Return a launch's machine code, if known."""
    capability = row["compute_capability"]
    if capability < machine.OLDEST:
        return None
    if launch.ptx:
        text = launch.ptx.decode("utf-8", "replace")
        return machine.machine_of(text, launch.symbol, capability)
    return machine.own_machine(launch.symbol, capability)


def code_of(launch: Launch, row: dict[str, Any]) -> tuple[machine.Machine | None, Code | None]:
    """Return a launch's machine code, and how often each instruction was executed, if known."""
    found = compiled_of(launch, row)
    if not found or not found.code:
        return found, None
    return found, Code(found, machine.executions(found, launch.executed, launch.odd))


def _passes(launch: Launch, sample: Sample, code: Code) -> float:
    """Return the passes through shared memory of machine code, which joins PTX's accesses.

    Where all lanes share an address, 16 bytes take two passes and fewer take one (an H100's
    wavefronts); 32 different words take one each. Shuffles, and accesses whose guard is false for
    all lanes, take one, too.
    """
    places, width = code.machine.shared
    passes = code.executed("SHFL")
    if not places.size:
        return passes
    requests, passed = (
        launch.column(f"shared_load_{name}") + launch.column(f"shared_store_{name}")
        for name in ("requests", "wavefronts")
    )
    lines = code.machine.lines
    of_line = np.ones((4, len(lines)))  # requests, passes; different words of a warp, of a lane
    of_line[:2] = 0
    index, widths = code.machine.line_index, body_of(launch.texts).widths
    for at in np.flatnonzero(requests).tolist():
        if (line := index.get(launch.statements[at].ptx_line)) is not None:
            own = widths[at]
            of_line[:, line] = requests[at], passed[at], WARP * own, own
    for number, told in sample.shared_words.items():
        if (line := index.get(number)) is not None:
            of_line[2:, line] = told
    line_at, count = code.machine.line_at[places], code.times[places]
    issued = np.bincount(line_at, count, len(lines))[line_at]
    asked, passed, different, own = of_line[:, line_at]
    active = np.minimum(count, count * asked / np.maximum(issued, 1e-300))
    apart = passed / np.maximum(1, asked) / np.maximum(1, np.ceil(different / WARP))
    wide = np.ceil(different * np.maximum(1.0, width / own) / WARP)
    needed = np.where(different != own, apart * np.maximum(1, wide), 1.0)
    least = np.where(width == 4, 2.0, 1.0)
    return passes + float((count - active + active * np.maximum(needed, least)).sum())


def _stored_halves(launch: Launch) -> int:
    """Return the halves of lines that stores write."""
    stores = launch.column("global_store_sectors") > 0
    return int(launch.column("l2_halves")[stores].sum())


def _partly_stored(launch: Launch) -> float:
    """Return the sectors that L2 gets a part of, if requests write as much of each."""
    requested, written = (launch.column(f"global_store_{name}") for name in ("sectors", "bytes"))
    at = np.flatnonzero(written < SECTOR * requested)
    lacking = SECTOR - written[at] / requested[at]
    sent = np.minimum(requested, launch.column("l2_sectors"))[at]
    return float((np.maximum(0, SECTOR * sent - written[at]) / lacking).sum())


def _lsu_passes(launch: Launch) -> int:
    """Return the passes of accesses to global memory: by their lines, or by a lane's words.

    An H100 takes four for 16 bytes a lane, although all lanes share an address.
    """
    lines = launch.column("tag_passes" if launch.counters.tag_passes else "global_lines")
    requests = launch.column("global_load_requests") + launch.column("global_store_requests")
    body = body_of(launch.texts)
    return int(np.where(body.bulk, 0, np.maximum(lines, requests * body.widths)).sum())


def _atomic_passes(launch: Launch, code: Code | None) -> int:
    """Return the passes of atomics on shared memory: lanes that count on one word take one."""
    counted = launch.counters
    if not counted.shared_atomics:
        return 0
    counting = {each.line for each in code.machine.code if "POPC.INC" in each.name} if code else ()
    joined = [each.ptx_line in counting for each in launch.statements]
    turns, together = (launch.column(f"shared_atomic_{name}") for name in ("turns", "wavefronts"))
    return int(np.where(joined, together, turns).sum())


def work_of(
    launch: Launch, row: dict[str, Any], figures: Figures, code: Code | None = None
) -> Demand:
    """Return a launch's work on each resource.

    Parameters
    ----------
    launch : Launch
    row : dict
        The preset's row in `_core.presets`.
    figures : Figures
    code : Code, optional
        The machine code, as `code_of` returns it; without it, PTX's statements are counted.
    """
    counted, capability = launch.counters, row["compute_capability"]
    passes = float(counted.shared_load_wavefronts + counted.shared_store_wavefronts)
    if code and launch.sample:
        passes = _passes(launch, launch.sample, code)
    passes += _atomic_passes(launch, code)
    if capability < FERMI:  # the first pass is the instruction's own time
        passes = counted.bank_conflicts
    found = Demand({"issue": _instructions(launch, row, figures, code)})
    found.clocks["shared memory"] = passes * figures.wavefront
    if capability < FERMI:
        found.dram_bytes = counted.global_bytes_moved
    else:
        textured = read_only = 0
        if KEPLER <= capability < MAXWELL:  # read-only loads take the path of textures
            loads = body_of(launch.texts).read_only
            textured = int(launch.column("global_lines")[loads].sum())
            read_only = int(launch.column("global_load_bytes_moved")[loads].sum())
        lines = _lsu_passes(launch) if capability >= VOLTA else counted.global_lines
        found.clocks["LSU"] = (lines - textured) * figures.line
        found.clocks["texture"] = textured * TEXTURE_LINE
        found.dram_bytes = counted.dram_bytes
        loads, cached = counted.global_load_bytes_moved, read_only
        if row["caches_loads"]:
            cached = loads
        # Without the caches' counters all reuse of what L1 caches is L1's.
        stores = SECTOR * counted.global_store_sectors
        found.l2_bytes = loads - cached + min(cached, counted.dram_read_bytes) + stores
        found.uncached_bytes = loads + stores
        if counted.l2_sectors:
            halves = float(counted.l2_halves)
            stored = STORED if row["l2_parts"] > 1 else 1.0
            halves += (stored - 1) * _stored_halves(launch)
            if row["compute_capability"] >= AMPERE:
                halves += (PARTIAL - stored) * _partly_stored(launch)
            if row["l2_parts"] > 1:
                halves += (MOVED - 1) / 2 * counted.l2_warm_misses
            found.l2_bytes = found.uncached_bytes = 2 * SECTOR * halves
            written = max(counted.dram_write_bytes, counted.l2_write_back_bytes)
            found.dram_bytes = counted.l2_fill_bytes + written
    written = counted.dram_write_bytes / counted.dram_bytes if counted.dram_bytes else 0.0
    found.dram_efficiency = figures.read + (figures.copy - figures.read) * min(1.0, 2 * written)
    return found


# --- the time of a launch


@dataclass(frozen=True)
class GpuModel:
    """A preset's row with its figures, of which a what-if may have changed some."""

    row: dict[str, Any]
    figures: Figures

    @property
    def clock(self) -> float:
        """The multiprocessors' clock in Hz."""
        return self.row["clock_ghz"] * 1e9


@dataclass(frozen=True)
class Times:
    """A launch's time in seconds, and each resource's own, as if the others cost nothing.

    `seconds` leaves out the launch itself. `worst` has no reuse of data in L1 or L2's lines.
    `arch`: of the machine code that was counted, "sm_90"; "": PTX was.
    """

    seconds: float
    worst: float
    bound: str
    resources: dict[str, float]
    arch: str = ""


def cycle(customers: int, demands: Sequence[float], waits: float) -> float:
    """Return the mean time between a customer's visits to some servers, by mean-value analysis.

    Parameters
    ----------
    customers : int
        Each visits the servers, then waits elsewhere, again and again.
    demands : sequence of float
        For each server the time of a visit without a queue.
    waits : float
        The time of a wait.

    Examples
    --------
    >>> cycle(1, [10.0], 90.0)
    100.0
    >>> cycle(1000, [10.0], 90.0)
    10000.0
    """
    return _cycles(customers, demands, waits)[0][-1]


def _cycles(
    customers: int, demands: Sequence[float], waits: float
) -> tuple[list[float], list[float]]:
    """Return `cycle` of 1, 2, ... customers, and how long all of them stay at each server."""
    queues, stays, times = [0.0] * len(demands), list(demands), []
    for count in range(1, customers + 1):
        stays = [each * (1 + queue) for each, queue in zip(demands, queues, strict=True)]
        time = sum(stays) + waits
        times.append(time)
        queues = [count * each / time for each in stays] if time else queues
    return times, stays


def visit(customers: int, demands: Sequence[float], waits: float, longest: float = 0.0) -> float:
    """Return the mean time between the visits of all customers.

    Parameters
    ----------
    customers, demands, waits
        As `cycle`'s.
    longest : float
        Customers leave in groups, when the last of a group has ended. Its stay at the last server
        is longer than the mean by this factor, so fewer customers are active.

    Examples
    --------
    >>> visit(4, [10.0], 30.0) == cycle(4, [10.0], 30.0) / 4
    True
    >>> visit(4, [10.0], 30.0, longest=1.0) > visit(4, [10.0], 30.0)
    True
    """
    times, stays = _cycles(customers, demands, waits)
    active = customers / (1 + longest * stays[-1] / times[-1]) if longest else customers
    low = max(1, int(active))
    rate = low / times[low - 1]
    if low < active:
        rate += (active - low) * ((low + 1) / times[low] - rate)
    return 1 / rate


def _latency_of(launch: Launch, gpu: GpuModel, lost: float) -> Callable[[str], float]:
    """Return a function from a load's statement to its mean latency in clocks."""
    row, figures, counted = gpu.row, gpu.figures, launch.counters
    if row["compute_capability"] < FERMI:
        return lambda text: figures.dram
    if counted.l2_sectors:
        names = (
            *("waits", "inst_global", "inst_texture", "dram_waits", "first_waits"),
            *("l2_far_sectors", "l2_sectors"),
        )
        columns = np.stack([launch.column(name) for name in names])
        sums: dict[str, np.ndarray] = {}
        for at in np.flatnonzero(columns[0]).tolist():
            text = launch.texts[at]
            sums[text] = sums.get(text, 0) + columns[:, at]

        def by_caches(text: str) -> float:
            waited = sums.get(text)
            if waited is None:
                return figures.l1
            waits, of_global, of_texture, far, first, passed, sectors = waited.tolist()
            requests = of_global + of_texture
            far += lost * first
            near, l2 = requests - waits, waits - far
            if parse(text).name.startswith("atom"):
                l2 *= 1 + CROSSING / figures.l2 * passed / max(1, sectors)
            return (near * figures.l1 + l2 * figures.l2 + far * figures.dram) / max(1, requests)

        return by_caches

    memory = figures.l2 + lost * (figures.dram - figures.l2)
    missed = min(1.0, counted.dram_read_bytes / max(1, SECTOR * counted.global_load_sectors))

    def by_counters(text: str) -> float:
        near = figures.l1 if row["caches_loads"] or ".nc" in parse(text).name else figures.l2
        return missed * memory + (1 - missed) * near

    return by_counters


class BlockPath(NamedTuple):
    """A block's way through its code, as its longest warp takes it.

    Attributes
    ----------
    work : float
        Clocks of the multiprocessor, in which no other block works.
    waits : float
        Clocks in which it waits.
    exposed : float
        The part of its time in which it waits for global memory, from 0 to 1.
    coupled : bool
        Whether barriers couple its warps.
    tail : float
        Clocks that the longest block may add at the end of the launch.
    """

    work: float
    waits: float
    exposed: float
    coupled: bool
    tail: float = 0.0


def _out_of_order(
    launch: Launch, gpu: GpuModel, load: Callable[[str], float], whole: float
) -> BlockPath:
    """Follow a block's recorded PTX; `whole` is its work."""
    assert launch.sample
    blocks = prod(launch.grid)
    each_step = whole * blocks / max(1, launch.counters.warp_instructions)
    path, without = (
        critical_path(launch.sample, gpu.figures, gpu.row["compute_capability"], each, each_step)
        for each in (load, lambda text: 0.0)
    )
    scale = launch.spread.steps / (blocks * max(1, path.steps))
    exposed = 1 - without.clocks / max(1.0, path.clocks)
    return BlockPath(whole, path.waits * scale, exposed, path.barriers > 0)


def _bulk_latencies(launch: Launch) -> dict[int, float]:
    """Return by how many clocks bulk copies take longer than a load, by line of the PTX."""
    places = np.flatnonzero(body_of(launch.texts).bulk).tolist()
    counts = {launch.statements[at].ptx_line: launch.statements[at].counters for at in places}
    return {
        line: BULK + each.global_load_bytes / each.global_load_requests / BULK_BYTES
        for line, each in counts.items()
        if each.global_load_requests
    }


def _in_order(
    launch: Launch,
    code: Code,
    figures: Figures,
    load: Callable[[str], float],
    busy: Mapping[str, float],
    alone: bool,
) -> BlockPath:
    """Walk through a block's machine code.

    Parameters
    ----------
    launch, code, figures, load
        As in `times_of`.
    busy : mapping of str to float
        A block's clocks of each resource of the multiprocessor.
    alone : bool
        Whether no other block shares the multiprocessor: then the walk knows what overlaps.
    """
    sample = launch.sample
    assert sample
    texts = {each.ptx_line: each.text for each in launch.statements}
    blocks = prod(launch.grid)
    warps = blocks * ceil(prod(launch.block) / WARP)
    longest = launch.spread.steps / blocks
    coupled = code.executed("BAR") > 0
    of_block = ceil(prod(launch.block) / WARP)
    queues: dict[str, float] = {}
    if sample.truncated:  # by the mean warp
        times = code.times[None] / warps
        kinds = [0] * of_block
        scale = longest * warps / max(1, launch.counters.warp_instructions)
    else:
        counts, kinds, steps = sample.counts(coupled)
        times = np.stack([machine.executions(code.machine, each, launch.odd) for each in counts])
        scale = longest / max(1, steps)
    if coupled:
        uses = {name: code.executed(*heads) / blocks for name, heads in QUEUES.items()}
        queues = {name: busy.get(name, 0.0) / count for name, count in uses.items() if count}
    else:  # its warps queue one by one
        kinds = [0]

    more = _bulk_latencies(launch)

    def loads(line: int) -> float:
        return load(texts.get(line, "")) + more.get(line, 0.0)

    clocks, without = (
        walked(code.machine, times, figures, each, kinds, queues)
        for each in (loads, lambda line: 0.0)
    )
    work = max(busy.values(), default=0.0) if coupled and alone else pnorm(busy.values(), P)
    tail = 0.0
    body = body_of(launch.texts)
    if body.hands_out:
        # The simulator hands out the work in another order. Or it tells the last block: code
        # that a single block executes comes last.
        each_block = warps / blocks
        single = (code.times <= each_block) & (each_block < warps)
        rare = np.where(single, code.times / each_block, 0.0)
        tail = walked(code.machine, rare[None], figures, loads)
    exposed = 1 - without / max(1.0, clocks)
    waits = clocks * scale - (work if coupled else float(times[0].sum()) * scale)
    return BlockPath(work, max(0.0, waits), exposed, coupled, tail)


def _fitting(launch: Launch, row: dict[str, Any], compiled: machine.Machine | None) -> int:
    """Return how many blocks a multiprocessor has room for."""
    warps = ceil(prod(launch.block) / WARP)
    if not compiled:
        return max(1, round(launch.occupancy * row["warps"] / warps))
    shared = launch.shared_bytes + launch.static_shared_bytes
    found = occupancy(row["name"], prod(launch.block), registers=compiled.registers, shared=shared)
    return max(1, found.warps // warps)


def _uneven(
    launch: Launch, multiprocessors: int, resident: int, shared_by: Callable[[int], float]
) -> float:
    """Return the clocks that a launch takes longer because its blocks are of different length.

    Parameters
    ----------
    resident : int
        Blocks that a multiprocessor has room for.
    shared_by : callable
        Returns the clocks of a mean block, by the number that share a multiprocessor.
    """
    body = body_of(launch.texts)
    if not launch.spread.durations or body.hands_out:
        return 0.0
    blocks = prod(launch.grid)
    mean = max(1, round(launch.spread.steps / blocks))
    clocks = np.array([shared_by(count) / mean for count in range(1, resident + 1)])
    even = np.full(blocks, mean, np.uint64).tobytes()
    uneven, usual = (
        _core.makespan(each, clocks, multiprocessors) for each in (launch.spread.durations, even)
    )
    return max(0.0, uneven - usual)


def _longest(launch: Launch, rounds: float) -> float:
    """Return by how much a block's last warp stays longer at the memory than a warp does.

    The next block waits for it. Stays vary like exponential ones, several in a row less.
    """
    warps = ceil(prod(launch.block) / WARP)
    turns = max(1.0, launch.counters.waits / max(1, launch.counters.warps))
    return (1 - 1 / rounds) * math.sqrt(2 * math.log(warps) / turns)


def times_of(launch: Launch, gpu: GpuModel, cold: bool, compiled_code: bool = True) -> Times:
    """Return the predicted times of a launch.

    Parameters
    ----------
    launch : Launch
        With its statements and its sample.
    gpu : GpuModel
    cold : bool
        Whether L2 holds nothing at first; else it holds data that fits.
    compiled_code : bool
        Whether to look at machine code, which ptxas may need a second for.
    """
    row, figures, counted = gpu.row, gpu.figures, launch.counters
    compiled, code = code_of(launch, row) if compiled_code else (None, None)
    work = work_of(launch, row, figures, code)
    blocks, warps = prod(launch.grid), ceil(prod(launch.block) / WARP)
    most, old = row["multiprocessors"], row["compute_capability"] < FERMI
    resident = min(_fitting(launch, row, compiled), ceil(blocks / most))
    rounds = max(1.0, blocks / (most * resident))
    busy = {name: each / blocks for name, each in work.clocks.items() if each}
    from_dram = work.dram_bytes
    if not cold and counted.l2_sectors and row["l2_bytes"]:
        from_dram = min(from_dram, counted.l2_warm_dram_bytes)
    elif not cold and 0 < counted.dram_bytes <= FITTING * row["l2_bytes"]:
        from_dram = 0.0
    lost = min(1.0, from_dram / work.dram_bytes) if work.dram_bytes else 0.0

    load = _latency_of(launch, gpu, lost)
    if code and launch.sample and launch.sample.lines:
        block = _in_order(launch, code, figures, load, busy, resident == 1)
    else:
        block = _out_of_order(launch, gpu, load, pnorm(busy.values(), 1.0 if old else P))
    # Warps without barriers queue at their own scheduler, blocks for the multiprocessor.
    schedulers = 1 if block.coupled else max(1, round(figures.issue))
    customers = 1 if block.coupled else warps
    visitors = ceil(resident * customers / schedulers)

    own = {name: rounds * resident * each / gpu.clock for name, each in busy.items()}
    own["latency"] = rounds * block.waits / gpu.clock
    beside = {"block starts": BLOCK_START * blocks / gpu.clock}
    if figures.l2_gbs:
        beside["L2"] = work.l2_bytes / (figures.l2_gbs * 1e9)
    if counted.atomic_passes and figures.atomics:
        hot, every = counted.atomic_hot_passes, counted.atomic_passes
        beside["atomics"] = max(hot / figures.atomics, every / figures.all_atomics) / 1e9
    rate = row["bandwidth_gbs"] * 1e9 * work.dram_efficiency
    beside["DRAM"] = from_dram / rate
    # Each multiprocessor, and of it each scheduler, has its part of what all share.
    visits = rounds * visitors
    memory = max(beside["DRAM"], beside.get("L2", 0.0))
    shared = beside["block starts"], memory * block.exposed
    demands = [block.work * schedulers / customers, *(each * gpu.clock / visits for each in shared)]
    longest = _longest(launch, rounds) if code and not block.coupled else 0.0
    alone = visits * visit(visitors, demands, block.waits, longest) / gpu.clock
    seconds = max(memory, beside.get("atomics", 0.0), alone)

    def shared_by(count: int) -> float:
        """Return a mean block's clocks beside others."""
        own_visits = ceil(count * customers / schedulers)
        time = visit(own_visits, demands, block.waits, longest)
        return visitors / resident * count * time

    seconds += (block.tail + _uneven(launch, most, resident, shared_by)) / gpu.clock
    own |= beside
    uncached = work.uncached_bytes / (figures.l2_gbs * 1e9) if figures.l2_gbs else 0.0
    bound = max(own, key=own.__getitem__)
    used = {name: each for name, each in own.items() if each}
    arch = code.machine.arch if code else ""
    return Times(seconds, max(seconds, uncached), bound, used, arch)
