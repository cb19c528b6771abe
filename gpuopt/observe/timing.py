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
from math import ceil, prod
from typing import Any, NamedTuple

from gpuopt.catalog.figures import Figures
from gpuopt.models import occupancy
from gpuopt.observe import machine
from gpuopt.observe.counters import Counters
from gpuopt.observe.inorder import queue_of, walked
from gpuopt.observe.launches import Launch
from gpuopt.observe.scoreboard import Sample, critical_path, fused, kind_of, parse, slots

P = 1.5  # of the norm, for all GPUs; fitted on the M2090's tiled matrix products
TEXTURE_LINE = 0.5  # clocks per line of the read-only path on Kepler; fitted on the K40's "tex"
ERROR = 1.35  # the factor that nine of ten known rows stay within; docs/predictions.md counts them
RESIDENT = 0.8  # of L2: data of this size stays there from one call to the next
CONTENDED = 0.1  # of the time: atomics that might take as long are beyond the model
BLOCK_START = 1.0  # clocks of the whole GPU; fitted on the H200's reductions and additions
PARTIAL = 2.1  # halves of a line that L2 takes to store a part of a sector; fitted on "scatter"
FERMI, KEPLER, MAXWELL, VOLTA, AMPERE = 20, 30, 50, 70, 80  # compute capability, times ten
WARP, SECTOR = 32, 32
_MEMORY = ("global", "shared", "local", "texture", "memory")

Code = tuple[tuple[machine.MachineInstruction, float], ...]  # with its executions by warps


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


def _instructions(launch: Launch, row: dict[str, Any], figures: Figures, code: Code) -> float:
    """Return the clocks of the busiest of issue and the pipes."""
    capability = row["compute_capability"]
    pipes: dict[str, float] = {}
    if code:
        for each, count in code:
            kind = machine.pipe_of(each.name)
            pipes[kind] = pipes.get(kind, 0.0) + count
        issued = sum(pipes.values())
    else:
        issued = 0.0
        joined = fused([each.text for each in launch.statements])
        for each, together in zip(launch.statements, joined, strict=True):
            count = each.counters.warp_instructions
            count *= slots(each.text, figures, capability, together)
            kind = kind_of(parse(each.text).name)
            issued += count
            pipes[kind] = pipes.get(kind, 0.0) + count
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
        return machine.machine_of(text, launch.kernel, capability)
    return machine.own_machine(launch.kernel, capability)


def code_of(launch: Launch, row: dict[str, Any]) -> tuple[machine.Machine | None, Code]:
    """Return a launch's machine code, and how often each instruction was executed, if known."""
    found = compiled_of(launch, row)
    if not found or not found.code:
        return found, ()
    counts: dict[int, int] = {}
    for each in launch.statements:
        counts.setdefault(each.ptx_line, each.counters["warp_instructions"])
    times = machine.executions(found, counts)
    return found, tuple(zip(found.code, times, strict=True))


def _passes(launch: Launch, sample: Sample, code: Code) -> float:
    """Return the passes through shared memory of machine code, which joins PTX's accesses.

    Where all lanes share an address, 16 bytes take two passes and fewer take one (an H100's
    wavefronts); 32 different words take one each. Shuffles, and accesses whose guard is false for
    all lanes, take one, too.
    """
    by_line: dict[int, tuple[int, int]] = {}
    for each in launch.statements:
        counted = each.counters
        if requests := counted["shared_load_requests"] + counted["shared_store_requests"]:
            passed = counted["shared_load_wavefronts"] + counted["shared_store_wavefronts"]
            by_line[each.ptx_line] = requests, passed
    accesses = [
        (each, count)
        for each, count in code
        if each.name.startswith(("LDS", "STS")) and not each.name.startswith("LDSM")
    ]
    issued: dict[int, float] = {}
    for each, count in accesses:
        issued[each.line] = issued.get(each.line, 0.0) + count
    passes = sum(count for each, count in code if each.name.startswith("SHFL"))
    for each, count in accesses:
        requests, passed = by_line.get(each.line, (0, 0))
        active = min(count, count * requests / issued[each.line]) if count else 0.0
        different, words = sample.shared_words.get(each.line, (WARP, 1))
        width = machine.words(each.name)
        needed = 1.0
        if different != words:
            apart = passed / max(1, requests) / max(1, ceil(different / WARP))
            needed = apart * max(1, ceil(different * max(1.0, width / words) / WARP))
        passes += count - active + active * max(needed, 2.0 if width == 4 else 1.0)
    return passes


def work_of(launch: Launch, row: dict[str, Any], figures: Figures, code: Code = ()) -> Demand:
    """Return a launch's work on each resource.

    Parameters
    ----------
    launch : Launch
    row : dict
        The preset's row in `_core.presets`.
    figures : Figures
    code : Code
        The machine code, as `code_of` returns it; () takes the PTX for it.
    """
    counted, capability = launch.counters, row["compute_capability"]
    passes = float(counted.shared_load_wavefronts + counted.shared_store_wavefronts)
    if code and launch.sample:
        passes = _passes(launch, launch.sample, code)
    passes += counted.shared_atomic_wavefronts
    if capability < FERMI:  # the first pass is the instruction's own time
        passes = counted.bank_conflicts
    found = Demand({"issue": _instructions(launch, row, figures, code)})
    found.clocks["shared memory"] = passes * figures.wavefront
    if capability < FERMI:
        found.dram_bytes = counted.global_bytes_moved
    else:
        textured = read_only = 0
        for each in launch.statements:
            if _is_textured(each.text, row):
                textured += each.counters.global_lines
                read_only += each.counters.global_load_bytes_moved
        lines = counted.global_lines
        if counted.tag_passes and capability >= VOLTA:
            lines = counted.tag_passes
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
            halves = counted.l2_halves
            if row["compute_capability"] >= AMPERE:
                halves += sum(_parts(each.counters) for each in launch.statements)
            found.l2_bytes = found.uncached_bytes = 2 * SECTOR * halves
            written = max(counted.dram_write_bytes, counted.l2_write_back_bytes)
            found.dram_bytes = counted.l2_fill_bytes + written
    written = counted.dram_write_bytes / counted.dram_bytes if counted.dram_bytes else 0.0
    found.dram_efficiency = figures.read + (figures.copy - figures.read) * min(1.0, 2 * written)
    return found


def _parts(counted: Counters) -> float:
    """Return the further halves that stores of parts of sectors cost L2."""
    stored = counted.global_store_sectors
    return (PARTIAL - 1) * stored if counted.global_store_bytes < SECTOR * stored else 0.0


def _is_textured(text: str, row: dict[str, Any]) -> bool:
    """Return whether a load takes the texture path: read-only loads of Kepler."""
    return KEPLER <= row["compute_capability"] < MAXWELL and ".nc" in parse(text).name


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
    queues, time = [0.0] * len(demands), 0.0
    for count in range(1, customers + 1):
        stays = [each * (1 + queue) for each, queue in zip(demands, queues, strict=True)]
        time = sum(stays) + waits
        queues = [count * each / time for each in stays] if time else queues
    return time


def _latency_of(launch: Launch, gpu: GpuModel, in_l2: bool) -> Callable[[str], float]:
    """Return a function from a load's statement to its mean latency in clocks."""
    row, figures, counted = gpu.row, gpu.figures, launch.counters
    if row["compute_capability"] < FERMI:
        return lambda text: figures.dram
    if counted.l2_sectors:
        sums: dict[str, Counters] = {}
        for each in launch.statements:
            if each.counters.waits:
                sums[each.text] = sums.get(each.text, Counters()) + each.counters

        def by_caches(text: str) -> float:
            waited = sums.get(text)
            if waited is None:
                return figures.l2 if parse(text).name.startswith("atom") else figures.l1
            requests = waited.inst_global + waited.inst_texture
            far = waited.dram_waits + (0 if in_l2 else waited.first_waits)
            near = requests - waited.waits
            l2 = waited.waits - far
            return (near * figures.l1 + l2 * figures.l2 + far * figures.dram) / max(1, requests)

        return by_caches

    def by_counters(text: str) -> float:
        memory = figures.l2 if in_l2 else figures.dram
        missed = min(1.0, counted.dram_read_bytes / max(1, SECTOR * counted.global_load_sectors))
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


def _in_order(
    launch: Launch,
    compiled: machine.Machine,
    code: Code,
    figures: Figures,
    load: Callable[[str], float],
    busy: Mapping[str, float],
    alone: bool,
) -> BlockPath:
    """Walk through a block's machine code.

    Parameters
    ----------
    launch, compiled, code, figures, load
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
    coupled = any(each.name.startswith("BAR") and count for each, count in code)
    if sample.truncated:  # by the mean warp
        times = [count / warps for _, count in code]
        scale = longest * warps / max(1, launch.counters.warp_instructions)
    else:
        counts, steps = sample.counts(coupled)
        times = machine.executions(compiled, counts)
        scale = longest / max(1, steps)
    shares: dict[str, float] = {}
    if coupled:
        uses = {"issue": 0.0, "shared memory": 0.0, "LSU": 0.0}
        for each, count in code:
            uses["issue"] += count
            if queue := queue_of(each.name):
                uses[queue] += count
        shares = {
            name: busy.get(name, 0.0) * warps / count for name, count in uses.items() if count
        }

    def loads(line: int) -> float:
        return load(texts.get(line, ""))

    walk = walked(compiled.code, times, figures, loads, shares)
    without = walked(compiled.code, times, figures, lambda line: 0.0, shares)
    work = max(busy.values(), default=0.0) if coupled and alone else pnorm(busy.values(), P)
    # A longer block than the others may start last and end alone.
    tail = walk.clocks * scale * (launch.spread.longest_steps - longest) / max(1.0, longest)
    if any(parse(each.text).name.startswith("atom.global") for each in launch.statements):
        # It may hand out the work, which the simulator does in another order, or tell the last
        # block: code that a single block executes comes last.
        each_block = warps / blocks
        rare = [count / each_block if count <= each_block < warps else 0.0 for _, count in code]
        tail = walked(compiled.code, rare, figures, loads).clocks
    exposed = 1 - without.clocks / max(1.0, walk.clocks)
    waits = walk.clocks * scale - (work if coupled else walk.issued * scale)
    return BlockPath(work, max(0.0, waits), exposed, coupled, tail)


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
    compiled, code = code_of(launch, row) if compiled_code else (None, ())
    work = work_of(launch, row, figures, code)
    blocks, warps = prod(launch.grid), ceil(prod(launch.block) / WARP)
    most, old = row["multiprocessors"], row["compute_capability"] < FERMI
    resident = max(1, round(launch.occupancy * row["warps"] / warps))
    if compiled:
        shared = launch.shared_bytes + launch.static_shared_bytes
        fitting = occupancy(
            row["name"], prod(launch.block), registers=compiled.registers, shared=shared
        )
        resident = max(1, fitting.warps // warps)
    resident = min(resident, ceil(blocks / most))
    rounds = max(1.0, blocks / (most * resident))
    busy = {name: each / blocks for name, each in work.clocks.items() if each}
    held = counted.l2_distinct_bytes or counted.dram_bytes
    in_l2 = not cold and 0 < held <= RESIDENT * row["l2_bytes"]

    load = _latency_of(launch, gpu, in_l2)
    if compiled and code and launch.sample.lines:
        block = _in_order(launch, compiled, code, figures, load, busy, resident == 1)
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
    rate = row["bandwidth_gbs"] * 1e9 * work.dram_efficiency
    from_dram = work.dram_bytes
    if in_l2:  # but for what L2 loses during the launch
        from_dram = max(0, counted.l2_fill_bytes - SECTOR * counted.l2_first_misses)
    beside["DRAM"] = from_dram / rate
    # Each multiprocessor, and of it each scheduler, has its part of what all share.
    visits = rounds * visitors
    memory = max(beside["DRAM"], beside.get("L2", 0.0))
    shared = beside["block starts"], memory * block.exposed
    demands = [block.work * schedulers / customers, *(each * gpu.clock / visits for each in shared)]
    seconds = max(memory, rounds * cycle(visitors, demands, block.waits) / gpu.clock)
    seconds += block.tail / gpu.clock
    own |= beside
    uncached = work.uncached_bytes / (figures.l2_gbs * 1e9) if figures.l2_gbs else 0.0
    bound = max(own, key=own.__getitem__)
    used = {name: each for name, each in own.items() if each}
    arch = compiled.arch if compiled and code else ""
    return Times(seconds, max(seconds, uncached), bound, used, arch)


# --- what the model does not cover

_SPINS = ("ld.acquire", "ld.relaxed", "ld.volatile.global", "nanosleep", "mbarrier.try_wait",
          "mbarrier.test_wait", "barrier.cluster")  # fmt: skip


def beyond(launch: Launch, gpu: GpuModel, seconds: float, compiled_code: bool = True) -> str:
    """Return why the model has no number for a launch; "" if it has one.

    Parameters
    ----------
    launch : Launch
    gpu : GpuModel
    seconds : float
        The prediction without regard to it.
    compiled_code : bool
        As in `times_of`.
    """
    lanes = 0
    compiled = compiled_of(launch, gpu.row) if compiled_code else None
    # Lanes that count on one word of shared memory take one pass together.
    counting = {each.line for each in compiled.code if "POPC.INC" in each.name} if compiled else ()
    for each in launch.statements:
        name = parse(each.text).name
        spins = name.startswith(_SPINS) or (name.startswith("atom") and ".cas" in name)
        if spins and each.counters.warp_instructions > launch.counters.warps:  # in a loop
            return f"{name} may wait for another block or a copy, for a time that is not modelled"
        if kind_of(name) == "tensor":
            return f"{name}: tensor cores are not modelled"
        if kind_of(name) == "texture":
            return f"{name}: texture caches are not modelled"
        if name.startswith(("atom", "red.")) and each.ptx_line not in counting:
            lanes += each.counters.predicated_on_threads
    worst = lanes / gpu.clock  # one a clock on one address
    if worst > CONTENDED * seconds:
        return (
            f"{lanes:,} atomic operations would take {worst * 1e6:,.0f} us on one address: their "
            "contention is not modelled"
        )
    return ""
