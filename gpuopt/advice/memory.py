"""Rules for memory: coalescing, sectors, banks, constants, atomics, bytes in flight."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from gpuopt.advice.evidence import LATENCY, Evidence, Sites
from gpuopt.advice.explanation import Advice
from gpuopt.observe.counters import SECTOR, unit_of

GUIDE = "CUDA C++ Best Practices Guide"
LEAST_GAIN = 0.04  # of the time; less is no advice
HIGH_GAIN = 0.15


def severity(gain: float) -> str:
    """Return the severity of a gain."""
    return "high" if gain >= HIGH_GAIN else "low"


def by_line(sites: list[Sites]) -> dict[tuple[int, str], list[Sites]]:
    """Group accesses by line and kind."""
    found: dict[tuple[int, str], list[Sites]] = {}
    for each in sites:
        found.setdefault((each.op.line, each.kind), []).append(each)
    return found


def _elements(stride: int, size: int) -> str:
    return f"{abs(stride) // size:,} elements" if stride % size == 0 else f"{abs(stride):,} bytes"


# --- coalescing and sectors


class _Pattern:
    """The global accesses of one kind in one line that is coalesced worst."""

    def __init__(self, evidence: Evidence, sites: list[Sites]) -> None:
        block = evidence.blocks[0]
        self.sites = sites
        self.worst = max(sites, key=lambda each: each.sectors - each.least_sectors)
        worst = self.worst
        self.excess = sum(each.sectors - each.least_sectors for each in sites)
        self.ratio = worst.sectors / max(1, worst.least_sectors)
        self.per_request = worst.sectors / worst.count
        self.stride, self.regular = worst.strides
        self.used = block.share_used(worst)
        self.by_data = block.code.depends_on_data(worst.op)


def _remedy(pattern: _Pattern) -> tuple[str, str]:
    """Return the mistake and the change for a strided access."""
    worst, size = pattern.worst, pattern.worst.bytes
    verb = "stores" if worst.kind == "store" else "loads"
    stride = pattern.stride
    if worst.walks and abs(stride) > size:
        return (
            f"Each thread {verb} its own run of adjacent elements, so that neighbouring threads "
            f"are {_elements(stride, size)} apart: the access is uncoalesced (strided).",
            "Let neighbouring threads take neighbouring elements: x[k * blockDim.x + threadIdx.x] "
            "instead of x[threadIdx.x * run + k]. For rows of a matrix let threadIdx.x be the "
            "column, or stage a tile in shared memory.",
        )
    if 0 < abs(stride) <= 64:
        return (
            f"Neighbouring threads {verb[:-1]} elements {abs(stride)} bytes apart: the access is "
            f"strided, uncoalesced.",
            "Store a structure of arrays (all x, then all y, ...) instead of an array of "
            "structures, or load the whole structure by one float2 or float4; for every second "
            "element, split the array.",
        )
    return (
        f"The access is uncoalesced: neighbouring threads {verb[:-1]} elements "
        f"{_elements(stride, size)} apart (strided).",
        "Make the innermost index threadIdx.x: neighbouring threads should access neighbouring "
        "elements, as x[row * width + threadIdx.x]. If input and output disagree, as in a "
        "transpose, stage a tile in shared memory.",
    )


def uncoalesced(evidence: Evidence) -> Iterator[Advice]:
    """Find accesses whose lanes are far apart."""
    if not evidence.blocks:
        return
    block = evidence.blocks[0]
    groups = by_line([each for each in block.sites if each.space == "global"])
    c = evidence.counters
    total = max(1, c.global_load_sectors + c.global_store_sectors)
    found = []
    for (line, kind), sites in groups.items():
        if kind in ("atomic", "reduce"):
            continue
        pattern = _Pattern(evidence, sites)
        if pattern.by_data or pattern.regular < 0.7 or pattern.stride == 0:
            continue
        wasteful = pattern.ratio >= 1.9 and pattern.used < 0.75
        scattered = pattern.ratio >= 3.9
        if not (wasteful or scattered):
            continue
        if kind == "store" and pattern.used < 0.99 and abs(pattern.stride) < SECTOR:
            continue  # partial_sectors
        if _half_used(evidence) and pattern.stride == 64 and pattern.used > 0.9:
            continue
        found.append((pattern, line, kind))
    for pattern, line, kind in found:
        counted = evidence.lines.get(line)
        if not counted:
            continue
        requests = counted[f"global_{kind}_requests"]
        sectors = counted[f"global_{kind}_sectors"]
        least = requests * pattern.worst.least_sectors / pattern.worst.count
        if sectors < 1.5 * least:
            continue  # only in a few blocks
        share = (sectors - least) / total
        times = evidence.times
        saved = {"l2": times["l2"] * (1 - share)}
        if pattern.used < 0.75:
            saved["dram"] = times["dram"] * (1 - share * (1 - pattern.used))
        gain = evidence.gain(**saved)
        bad = pattern.used < 0.75 or pattern.ratio > 7.5
        if gain < LEAST_GAIN and (share < 0.3 or not bad):
            continue
        text, remedy = _remedy(pattern)
        size = pattern.worst.bytes
        used = max(1, round(SECTOR * pattern.worst.least_sectors / pattern.worst.sectors))
        yield Advice(
            "uncoalesced",
            severity(max(gain, share / 2)),
            line,
            text,
            f"{pattern.per_request:.1f} sectors of 32 bytes per {kind} request where "
            f"{pattern.worst.least_sectors / pattern.worst.count:.0f} would do for elements of "
            f"{size} bytes: a request uses {min(used, SECTOR)} of 32 bytes; "
            f"{pattern.used:.0%} of the sectors' bytes are used by the block at all",
            remedy,
            gain=gain,
            reason="A warp's access costs as many 32-byte sectors as its lanes touch.",
            source=f"{GUIDE}, coalesced access to global memory; decks D0, D1 and D3",
        )


def against_the_rule(evidence: Evidence) -> Iterator[Advice]:
    """Find accesses that break the memory rule of a GPU before Kepler, whatever the sectors say."""
    if unit_of(evidence.launch.device) != "transaction":
        return
    told = {each.line for each in uncoalesced(evidence)}
    c = evidence.counters
    total = max(1, c.global_load_bytes_moved + c.global_store_bytes_moved)
    for line, counted in evidence.lines.items():
        kinds, lost, each_kind = [], 0.0, []
        for kind in ("load", "store") if line not in told else ():
            wanted, moved = counted[f"global_{kind}_bytes"], counted[f"global_{kind}_bytes_moved"]
            if not moved or wanted > moved / 2 or (moved - wanted) / total < LEAST_GAIN:
                continue
            kinds.append(f"{kind}s")
            lost += (moved - wanted) / total
            each = counted[f"global_{kind}_transactions"] / counted[f"global_{kind}_requests"]
            each_kind.append(
                f"{each:.1f} transactions per {kind} request; {wanted / moved:.0%} of the bytes "
                "that they move are wanted"
            )
        if not kinds:
            continue
        yield Advice(
            "uncoalesced",
            severity(lost),
            line,
            f"The {' and '.join(kinds)} break the memory rule of this GPU: the access is "
            "uncoalesced there, even where later GPUs forgive it.",
            "; ".join(each_kind),
            "Let thread k of a half-warp access word k of a region that begins at a multiple "
            "of its size (compute capability 1.0), or stage the data in shared memory.",
            gain=lost,
            reason="On compute capability 1.0 a half-warp in another order, or misaligned, is "
            "one transaction per thread; on 1.2 and 2.x whole segments and lines move.",
            source="decks D0 and D3; CUDA C Programming Guide, compute capabilities 1.x, 2.x",
        )


def partial_sectors(evidence: Evidence) -> Iterator[Advice]:
    """Find sectors that stores fill only in part."""
    if not evidence.blocks:
        return
    block = evidence.blocks[0]
    groups = by_line(
        [each for each in block.sites if each.space == "global" and each.kind == "store"]
    )
    total = sum(each.sectors for each in block.sites if each.space == "global")
    for (line, _), sites in groups.items():
        pattern = _Pattern(evidence, sites)
        if pattern.by_data or pattern.regular < 0.7:
            continue
        filled = block.share_used(pattern.worst, stored=True)
        stride = abs(pattern.stride)
        if not pattern.worst.bytes < stride < SECTOR or filled > 0.9:
            continue
        share = pattern.worst.sectors / max(1, total)
        times = evidence.times
        gain = evidence.gain(
            l2=times["l2"] * (1 - share * (1 - filled)),
            dram=times["dram"] * (1 - share * (1 - filled)),
        )
        if share < 0.1:
            continue
        yield Advice(
            "partial-sectors",
            severity(max(gain, share / 2)),
            line,
            f"The stores write only {filled:.0%} of the bytes of each 32-byte sector: sectors are "
            f"partly written.",
            f"neighbouring threads store {pattern.worst.bytes} bytes at a distance of {stride}; "
            f"{pattern.per_request:.1f} sectors per request",
            "Let the threads of a warp write adjacent elements: store whole structures by float4 "
            "(pad a float3), or keep each field in an array of its own.",
            gain=gain,
            reason="Memory keeps whole sectors: a partly written one is read and merged first.",
            source="CUDA C++ Best Practices Guide, global memory; Nsight Compute's L2 partial "
            "writes",
        )


def _half_used(evidence: Evidence) -> float:
    """Return the share of read sectors whose neighbour in 64 bytes is not touched."""
    sectors = evidence.counters.dram_read_bytes // SECTOR
    return evidence.launch.spread.lone_sectors / sectors if sectors else 0.0


def half_sectors(evidence: Evidence) -> Iterator[Advice]:
    """Find reads of one of the two sectors that DRAM delivers together."""
    share = _half_used(evidence)
    if share < 0.4 or not evidence.blocks or evidence.counters.dram_read_bytes < 1 << 13:
        return
    block = evidence.blocks[0]
    sites = [
        each
        for each in block.sites
        if each.space == "global"
        and each.kind == "load"
        and block.share_used(each) > 0.9
        and not block.code.depends_on_data(each.op)
    ]
    if not sites:
        return
    worst = max(sites, key=lambda each: each.sectors)
    times = evidence.times
    gain = evidence.gain(dram=times["dram"] / (1 + share))
    yield Advice(
        "half-dram-access",
        severity(max(gain, 0.2)),
        worst.op.line,
        "Only one of the two 32-byte sectors of each 64 bytes is read: half of what DRAM delivers "
        "is thrown away.",
        f"{evidence.launch.spread.lone_sectors:,} of "
        f"{evidence.counters.dram_read_bytes // SECTOR:,} sectors are read without the other half",
        "Keep the parts that are used together adjacent: split the structure into two arrays (hot "
        "and cold fields), or let the block use whole 64-byte pieces.",
        gain=gain,
        reason="DRAM is read in pieces of 64 bytes, although a request counts sectors of 32.",
        source="NVIDIA's tuning guides: L2 fetch granularity; measured on an H200",
    )


# --- shared memory


def _ways(stride: int, size: int, banks: int) -> int:
    """Return how many lanes hit one bank at a stride of bytes."""
    words = abs(stride) // 4
    return gcd(words, banks) if stride % 4 == 0 and words else 1


def bank_conflicts(evidence: Evidence) -> Iterator[Advice]:
    """Find accesses to shared memory whose lanes need different words of one bank."""
    banks = evidence.gpu.banks
    times, c = evidence.times, evidence.counters
    whole = c.shared_load_wavefronts + c.shared_store_wavefronts
    for line, counters in evidence.lines.items():
        excess = counters.bank_conflicts
        requests = counters.shared_load_requests + counters.shared_store_requests
        if not excess or excess < 0.45 * requests:
            continue
        sites = [
            each
            for block in evidence.blocks[:1]
            for each in block.sites
            if each.space == "shared" and each.op.line == line and each.kind in ("load", "store")
        ]
        if not sites:
            continue
        worst = max(sites, key=lambda each: _ways(each.strides[0], each.bytes, banks))
        if evidence.blocks[0].code.depends_on_data(worst.op):
            continue
        gain = evidence.gain(shared=times["shared"] * (1 - excess / max(1, whole)))
        if gain < LEAST_GAIN and excess < 0.3 * whole:
            continue
        if excess < 0.08 * c.warp_instructions:
            continue
        stride, _ = worst.strides
        ways = excess / requests + 1
        words = abs(stride) // 4
        yield Advice(
            "bank-conflicts",
            severity(max(gain, 0.2 if excess > 0.3 * whole else 0.0)),
            line,
            f"Bank conflicts in shared memory: the lanes of a warp need {ways:.0f} words of one "
            f"bank on average.",
            f"{excess:,} of {whole:,} wavefronts are conflicts; neighbouring lanes are "
            f"{words:,} words apart",
            _bank_remedy(words, banks),
            gain=gain,
            reason=f"Shared memory has {banks} banks of 4 bytes; each gives one word at a time.",
            source="CUDA C++ Best Practices Guide, shared memory; decks D0 (reduction 2) and D1",
        )


def _bank_remedy(words: int, banks: int) -> str:
    if words and words % banks == 0:
        return (
            f"Pad the tile: declare {banks + 1} columns instead of {banks}, as tile[{banks}]"
            f"[{banks + 1}] (in general width + 1), so that a column lies in {banks} banks."
        )
    if words and words & (words - 1) == 0:
        return (
            "Let neighbouring lanes use neighbouring words (sequential addressing: x[tid] with "
            "a distance of half the array), or pad one word after every 32."
        )
    return "Let neighbouring lanes use neighbouring words, or pad the rows to an odd width."


# --- constants and atomics


def constant_divergence(evidence: Evidence) -> Iterator[Advice]:
    """Find constants that the lanes of a warp read at different addresses."""
    if not evidence.blocks:
        return
    block = evidence.blocks[0]
    scale = evidence.counters.warps / block.warps
    for site in block.sites:
        if site.space != "constant" or site.distinct < 1.9:
            continue
        passes = site.count * site.distinct * scale / evidence.multiprocessors
        gain = 1 - evidence.time / evidence.combined({"constant": passes * 4})
        if gain < LEAST_GAIN:
            continue
        yield Advice(
            "constant-addresses",
            severity(gain),
            site.op.line,
            "The lanes of a warp read __constant__ memory at different addresses, one after the "
            "other.",
            f"{site.distinct:.1f} different addresses a load on average, in {site.count:,} loads "
            f"of a block",
            "Index constants by what all lanes share (a loop counter, blockIdx). For a table that "
            "lanes index differently use shared memory, or a const __restrict__ pointer to global "
            "memory.",
            certainty="exact",
            gain=gain,
            reason="The constant cache gives one address at a time to a whole warp.",
            source="CUDA C++ Best Practices Guide, constant memory",
        )
        return


def same_address_atomics(evidence: Evidence) -> Iterator[Advice]:
    """Find atomics of all lanes to one address."""
    if not evidence.blocks:
        return
    block = evidence.blocks[0]
    for site in block.sites:
        if site.kind not in ("atomic", "reduce") or site.space not in ("global", "shared"):
            continue
        if site.op.name.startswith("mbarrier"):
            continue  # a wait is one request of the warp
        lanes = float(site.lanes.sum(axis=1).mean())
        if lanes < 8 or site.same * lanes < 6:
            continue
        scale = evidence.counters.warps / block.warps
        waiting = site.count * site.same * lanes * scale
        apart = any("%ctaid" in op.text for op in block.code.slice(site.op.address))
        waiting /= evidence.multiprocessors if site.space == "shared" or apart else 1
        gain = 1 - evidence.time / evidence.combined({"atomics": waiting})
        if gain < LEAST_GAIN:
            continue
        yield Advice(
            "atomic-contention",
            severity(max(gain, 0.2)),
            site.op.line,
            f"The lanes of a warp update one {site.space} address by atomics, one after the other.",
            f"{site.same * lanes:.0f} of {lanes:.0f} active lanes have the same address on "
            f"average, in {site.count:,} atomics of a block",
            "Add up in the warp first (__reduce_add_sync, or __shfl_down_sync in a loop) and in "
            "the block through shared memory; then one thread does one atomicAdd. For a histogram "
            "with few bins give each warp its own copy in shared memory.",
            certainty="exact",
            gain=gain,
            reason="Atomics to one address take turns, over the whole GPU for global memory.",
            source="CUDA C++ Programming Guide, atomic functions",
        )
        return


# --- latency


def bytes_in_flight(evidence: Evidence) -> Iterator[Advice]:
    """Find too few loads on their way to fill the memory."""
    if not evidence.blocks or not evidence.counters.global_load_requests:
        return
    c, times = evidence.counters, evidence.times
    waves = evidence.block_count / evidence.preset["multiprocessors"]
    most = evidence.launch.occupancy * evidence.gpu.warps
    if waves < 0.6 or (waves * evidence.warps_per_block < most and evidence.words_per_thread < 12):
        return  # a small problem, or grid_size
    if evidence.launch.occupancy < 0.4:
        return  # occupancy
    if times["latency"] < 1.6 * max(times["dram"], times["l2"], times["issue"], times["shared"]):
        return
    gain = evidence.gain(latency=times["latency"] / 4)
    if gain < 0.35:
        return
    size = c.global_load_bytes / max(1, c.global_load_requests)
    per_sm = evidence.resident * evidence.loads_in_flight * size
    row = evidence.preset
    wanted = row["bandwidth_gbs"] / row["clock_ghz"] * LATENCY / row["multiprocessors"]
    if per_sm > 0.3 * wanted:
        return
    line = max(evidence.lines, key=lambda each: evidence.lines[each].global_load_requests)
    few = waves * evidence.warps_per_block < 0.5 * evidence.gpu.warps
    remedy = (
        "Launch more threads: several blocks of 128 to 256 threads for each multiprocessor. "
        if few
        else ""
    )
    yield Advice(
        "bytes-in-flight",
        severity(gain),
        line,
        "Too few bytes are in flight: the loads are too few or too small to hide the memory's "
        "latency.",
        f"{evidence.resident:.0f} resident warps x {evidence.loads_in_flight:.1f} loads before the "
        f"first use x {size:.0f} bytes = {per_sm:,.0f} bytes per multiprocessor; about "
        f"{wanted:,.0f} fill the memory (latency x bandwidth)",
        f"{remedy}Load several elements before using the first: unroll the loop by 4, or load "
        f"float4 (uchar4 for bytes).",
        certainty="estimated",
        gain=gain,
        reason="Little's law: bytes in flight = latency x bandwidth.",
        source="Deck D2, Little's law; deck D1, why 'multi' is fast",
    )
