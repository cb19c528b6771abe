"""Rules for the launch: occupancy, its cliffs, the grid's size, tails, unequal blocks."""

from __future__ import annotations

from collections.abc import Iterator

from gpuopt import models
from gpuopt.advice.code import line_of, place
from gpuopt.advice.evidence import Evidence
from gpuopt.advice.explanation import Advice
from gpuopt.advice.memory import severity

_DATA = ("ld.global", "ld.shared", "atom", "tex")
LONG = 150  # instructions of a warp from which a block counts as long


def _occupancy(evidence: Evidence, registers: int, shared: int, threads: int) -> models.Occupancy:
    return models.occupancy(evidence.gpu, threads, registers=registers, shared=shared)


def _shared(evidence: Evidence) -> int:
    return evidence.launch.shared_bytes + evidence.shared_static


def _shown_limit(evidence: Evidence) -> tuple[str, str]:
    """Return the evidence for what limits the occupancy, and the remedy."""
    limiter = evidence.launch.limiter
    gpu = evidence.gpu
    if "shared" in limiter:
        return (
            f"a block uses {_shared(evidence):,} bytes of shared memory; a multiprocessor has "
            f"{gpu.shared:,}",
            "Use less shared memory for a block (a smaller tile, a smaller type, reuse of one "
            "buffer), or more threads for the same memory.",
        )
    if "register" in limiter:
        return (
            f"a thread uses {evidence.registers} of a multiprocessor's {gpu.registers:,} registers",
            "Use fewer registers: smaller blocks of the same code help if the block is large; "
            "else split the kernel, or set __launch_bounds__(threads, blocks) and look at spills.",
        )
    if "block" in limiter:
        return (
            f"blocks of {evidence.threads} threads, and a multiprocessor holds {gpu.blocks} blocks",
            "Use larger blocks: 128 to 256 threads.",
        )
    return (
        f"blocks of {evidence.threads} threads, and a multiprocessor holds {gpu.warps} warps",
        "Use a block size that divides the multiprocessor's threads: 128 or 256.",
    )


def low_occupancy(evidence: Evidence) -> Iterator[Advice]:
    """Find too few resident warps to hide latency."""
    occupancy = evidence.launch.occupancy
    if occupancy > 0.4 or evidence.spilled:
        return
    # The simulator counts PTX's registers, of which ptxas often makes half as many.
    if "register" in evidence.launch.limiter and not evidence.registers:
        return
    # A grid that does not fill the GPU is the limit itself. A kernel that needs most of the shared
    # memory is named nevertheless, since it would limit a larger grid.
    limiter = evidence.launch.limiter
    waves = evidence.block_count / evidence.preset["multiprocessors"]
    filled = waves * evidence.warps_per_block / (occupancy * evidence.gpu.warps)
    if filled < 1 and not (filled > 0.15 and "shared" in limiter and occupancy <= 0.25):
        return
    c, times = evidence.counters, evidence.times
    gain = evidence.gain(latency=times["latency"] * occupancy / min(1.0, 4 * occupancy))
    gain *= min(1.0, filled)
    idle_lanes = evidence.threads < 32
    if gain < 0.1 and not (occupancy <= 0.2 and c.flops_f32 < 8 * c.warp_instructions):
        return
    if idle_lanes:
        return
    shown, remedy = _shown_limit(evidence)
    yield Advice(
        "low-occupancy",
        severity(max(gain, 0.2 if occupancy <= 0.25 else 0.0)),
        _shared_line(evidence) if "shared" in limiter else evidence.first_line,
        f"Occupancy is low: {occupancy:.0%} of the warps that a multiprocessor can hold, limited "
        f"by {limiter}.",
        f"{occupancy * evidence.gpu.warps:.0f} of {evidence.gpu.warps} warps; {shown}",
        remedy,
        gain=gain,
        reason="Other warps run while one waits for memory. With few warps nothing hides the "
        "latency.",
        source="Decks D0, D2 and D3: strive for 50% or more",
    )


def _shared_line(evidence: Evidence) -> int:
    """Return the line that declares the most shared memory, else the kernel's."""
    source = evidence.kernel.module.source if evidence.kernel else None
    if source:
        lines = source.text.split("\n")
        found = [
            i
            for i, each in enumerate(lines, 1)
            if "__shared__" in each and i >= line_of(evidence.first_line)
        ]
        if found:
            return place(evidence.file, found[0])
    return evidence.first_line


def small_blocks(evidence: Evidence) -> Iterator[Advice]:
    """Find blocks that leave lanes of their warps empty."""
    threads = evidence.threads
    used = threads / (32 * evidence.warps_per_block)
    if used > 0.75 or evidence.block_count < 2:
        return
    yield Advice(
        "block-size",
        "high" if used <= 0.5 else "low",
        evidence.first_line,
        f"A block of {threads} threads leaves lanes of its last warp empty.",
        f"{used:.0%} of the lanes of the block's warps exist",
        "Make the block a multiple of 32 threads, usually 128 to 256.",
        gain=1 - used,
        reason="Threads are issued in warps of 32; missing lanes cost as much as active ones.",
        source="Deck D0: a block is a multiple of the warp, at least 64",
    )


def occupancy_cliff(evidence: Evidence) -> Iterator[Advice]:
    """Find launches where a little less of a resource lets one more block in."""
    occupancy = evidence.launch.occupancy
    limiter = evidence.launch.limiter
    if occupancy > 0.7:
        return
    threads, shared = evidence.threads, _shared(evidence)
    waves = evidence.block_count / evidence.preset["multiprocessors"]
    now = _occupancy(evidence, evidence.registers, shared, threads)
    if now.blocks < 1 or waves <= now.blocks:
        return
    if "shared" in limiter:
        limit = evidence.gpu.shared // (now.blocks + 1)
        limit -= limit % evidence.gpu.shared_unit + evidence.gpu.shared_reserved
        over = shared - limit
        if not 0 < over <= max(256, shared // 12):
            return
        better = _occupancy(evidence, evidence.registers, limit, threads)
        saved, line = f"{over:,} bytes of shared memory", _shared_line(evidence)
    elif "register" in limiter and evidence.registers:
        for fewer in range(1, 9):
            better = _occupancy(evidence, evidence.registers - fewer, shared, threads)
            if better.blocks > now.blocks:
                break
        else:
            return
        saved, line = f"{fewer} register{'s' * (fewer != 1)} a thread", evidence.first_line
    else:
        return
    rise = better.warps / now.warps - 1
    if rise < 0.2:
        return
    times = evidence.times
    gain = evidence.gain(latency=times["latency"] / (1 + rise))
    yield Advice(
        "occupancy-cliff",
        "high" if rise >= 0.3 else "low",
        line,
        f"The kernel stands at an occupancy cliff: {saved} fewer let one more block in.",
        f"{now.blocks} resident block{'s' * (now.blocks != 1)} ({now.warps} warps) now, "
        f"{better.blocks} ({better.warps} warps) then",
        f"Save {saved}: "
        + (
            "shorten the array, or use a smaller type."
            if "shared" in limiter
            else f"__launch_bounds__({threads}, {better.blocks}) tells the compiler to; look at "
            f"spills then."
        ),
        gain=gain,
        certainty="exact",
        reason="Blocks are resident as a whole: occupancy falls in steps.",
        source="Decks D0 and D3, occupancy; NVIDIA's occupancy calculator",
    )


def grid_size(evidence: Evidence) -> Iterator[Advice]:
    """Find fewer blocks than multiprocessors, each with much work."""
    sms = evidence.preset["multiprocessors"]
    if evidence.block_count >= 0.7 * sms:
        return
    c = evidence.counters
    requests = (c.global_load_requests + c.global_store_requests) / max(1, c.warps)
    heavy = evidence.per_warp >= 50_000 and evidence.block_count <= 4
    streams = evidence.words_per_thread >= 16 and _loops_over_memory(evidence)
    flops = c.flops_f32 + c.flops_f64 + c.flops_f16
    if not heavy and (not streams or flops > 4 * (c.dram_read_bytes + c.dram_write_bytes)):
        return
    share = evidence.block_count / sms
    yield Advice(
        "grid-too-small",
        "high",
        evidence.first_line,
        f"The grid is too small for the GPU: {evidence.block_count} "
        f"block{'s' * (evidence.block_count != 1)} for {sms} multiprocessors.",
        f"{1 - share:.0%} of the multiprocessors have no work, while each thread does much: "
        f"{evidence.per_warp:,.0f} instructions and {requests:,.0f} memory accesses",
        f"Launch more blocks and give each thread less: at least {2 * sms} blocks, better several "
        f"for each multiprocessor; a grid-stride loop keeps the result the same.",
        gain=1 - share,
        certainty="exact",
        reason="A block runs on one multiprocessor; without a block it is idle.",
        source="Deck D0: blocks > multiprocessors, better 100 or more; deck D1, transpose '1d'",
    )


def _loops_over_memory(evidence: Evidence) -> bool:
    """Tell whether a thread's loads are those of a loop over global memory."""
    for block in evidence.blocks[:1]:
        for site in block.sites:
            copied = "bulk" in site.op.name  # by one thread, in one instruction
            if site.space == "global" and site.count / block.warps >= 8 and not copied:
                return True
    return False


def tail(evidence: Evidence) -> Iterator[Advice]:
    """Find a last wave of few blocks."""
    sms = evidence.preset["multiprocessors"]
    per_wave = max(
        1, round(evidence.launch.occupancy * evidence.gpu.warps / evidence.warps_per_block)
    )
    wave = per_wave * sms
    waves = evidence.block_count / wave
    full = -(-evidence.block_count // wave)
    lost = 1 - waves / full
    if evidence.block_count <= wave:  # one wave: are the multiprocessors' shares equal?
        if evidence.block_count <= sms or evidence.warps_per_block < 16:
            return
        most = -(-evidence.block_count // sms)
        lost = 1 - evidence.block_count / sms / most
        wave, full, waves = sms, most, evidence.block_count / sms
    if lost < 0.24 or full > 4 or evidence.per_warp < LONG:
        return
    if evidence.launch.spread.balance < 0.6 and _unequal(evidence) > 1.5:
        return
    yield Advice(
        "tail",
        severity(lost),
        evidence.first_line,
        f"The last wave of blocks is nearly empty (tail): {evidence.block_count} blocks run in "
        f"{full} waves of {wave}.",
        f"{waves:.2f} waves of work take the time of {full}: {lost:.0%} of the multiprocessors' "
        f"time is idle",
        f"Choose the grid as a multiple of {wave} blocks with a grid-stride loop, or use many "
        f"smaller blocks, so that the tail is short.",
        gain=lost / 2,
        certainty="estimated",
        reason="The last blocks run alone while the other multiprocessors have nothing to do.",
        source="Deck D0, launch sizes; NVIDIA's documentation of wave quantisation",
    )


def _unequal(evidence: Evidence) -> float:
    """Return the longest block's work over the average."""
    spread = evidence.launch.spread
    average = spread.steps / max(1, evidence.block_count)
    return spread.longest_steps / average if average else 1.0


def unequal_blocks(evidence: Evidence) -> Iterator[Advice]:
    """Find blocks of unequal work, so that multiprocessors wait for the longest."""
    spread = evidence.launch.spread
    ratio = _unequal(evidence)
    sms = evidence.preset["multiprocessors"]
    if evidence.block_count < 0.5 * sms or ratio < 1.45 or spread.longest_steps < 300:
        return
    few = spread.long_blocks < 0.05 * evidence.block_count
    if few and (ratio < 8 or spread.longest_steps < 5000):
        return  # the blocks at a border
    # The time is at least the longest block's; equal blocks would need the average.
    average = spread.steps / evidence.block_count
    rounds = max(1.0, evidence.block_count / sms)
    lost = 1 - average * rounds / max(spread.longest_steps, average * rounds / spread.balance)
    line, by_index = _longer_line(evidence)
    if lost < (0.15 if by_index else 0.4):
        return
    yield Advice(
        "unequal-blocks",
        severity(max(lost / 2, 0.2)),
        line,
        "Blocks have unequal work: most multiprocessors wait for the longest ones.",
        f"block {spread.longest_block:,} executes {spread.longest_steps:,} instructions in "
        f"sequence, an average one {average:,.0f}; multiprocessors are busy "
        f"{spread.balance:.0%} of the time",
        "Give the blocks equal work: pair long with short rows (i and n - 1 - i), split long rows "
        "over several blocks, or let blocks take small pieces from a counter (atomicAdd).",
        gain=lost / 2,
        certainty="exact",
        reason="A launch ends with its last block.",
        source="CUDA C++ Best Practices Guide, execution configuration",
    )


def _longer_line(evidence: Evidence) -> tuple[int, bool]:
    """Return the line of the loop that the longest block runs more often than another block.

    And whether the block's index decides the number of rounds, not the data.
    """
    if len(evidence.blocks) < 2:
        return evidence.first_line, False
    one, other = evidence.blocks[0], evidence.blocks[1]
    best, most = evidence.first_line, 0
    for op in one.code.ops:
        more = abs(int(one.executions[op.number]) - int(other.executions[op.number]))
        if op.name.startswith("bra") and op.guard and more > most:
            best, most = op.line, more
    guards = [op.guard for op in one.code.ops if op.line == best and op.guard]
    sources = [each.name for guard in guards for each in one.code.slice(guard)]
    by_index = not any(each.startswith(_DATA) or ".f32" in each for each in sources)
    return best, by_index
