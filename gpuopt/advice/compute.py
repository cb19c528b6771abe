"""Rules for instructions: divergence, doubles, division, unfused arithmetic, barriers, spills."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import numpy as np

from gpuopt.advice.code import Op
from gpuopt.advice.evidence import Evidence, TracedBlock
from gpuopt.advice.explanation import Advice
from gpuopt.advice.memory import LEAST_GAIN, severity
from gpuopt.observe.launches import Launch
from gpuopt.ptx.module import Module
from gpuopt.util.errors import PTXError, SimError

TRIED_MOST = 8  # barriers of a kernel that are left out, one line at a time


# --- divergence


class _Waste:
    """Lane slots that a branch leaves idle."""

    def __init__(self) -> None:
        self.slots = 0
        self.both = 0  # divergences of which both sides ran instructions
        self.loop = False  # its lanes leave a loop one after the other


def divergence(block: TracedBlock) -> tuple[dict[int, _Waste], int]:
    """Return the idle lane slots by branch instruction, and all slots.

    A branch that splits a warp is responsible for the instructions up to where its lanes run
    together again.
    """
    wastes: dict[int, _Waste] = {}
    slots = 0
    events = block.events[block.events["part"] == 0]
    for warp in np.unique(events["warp"])[:8]:
        mine = events[events["warp"] == warp][:40_000]
        numbers, masks = mine["instruction"].tolist(), mine["active"].tolist()
        stack: list[tuple[int, int, int]] = []  # branch, lanes before, lanes of the first side
        for at, mask in enumerate(masks):
            slots += 32
            before = masks[at - 1] if at else mask
            while stack and (mask & ~stack[-1][1] or mask == stack[-1][1]):
                stack.pop()
            if mask != before and mask & before == mask:
                branch = numbers[at - 1]
                if block.code.ops[branch].name.startswith("bra"):
                    waste = wastes.setdefault(branch, _Waste())
                    waste.loop |= any(branch == each for each, _, _ in stack)
                    stack.append((branch, before, mask))
            elif stack and at and not mask & before and not mask & stack[-1][2]:
                wastes[stack[-1][0]].both += 1  # the other side begins
            for depth, (branch, lanes, _) in enumerate(stack):
                inner = stack[depth + 1][1] if depth + 1 < len(stack) else mask
                wastes[branch].slots += lanes.bit_count() - (inner & lanes).bit_count()
    return wastes, slots


def _by_index(block: TracedBlock, branch: Op) -> bool:
    """Tell whether the thread's index alone decides a branch: no loaded and no computed value."""
    ops = block.code.slice(branch.guard) if branch.guard else []
    texts = [op.text for op in ops]
    return any("%tid" in text or "%laneid" in text for text in texts) and not any(
        op.name.startswith(("ld.global", "ld.shared", "atom", "tex")) or ".f32" in op.name
        for op in ops
    )


def divergent_branches(evidence: Evidence) -> Iterator[Advice]:
    """Find branches after which the lanes of a warp run one after the other."""
    if not evidence.blocks:
        return
    block = evidence.blocks[0]
    wastes, slots = divergence(block)
    by_line: dict[int, _Waste] = {}
    for number, waste in wastes.items():
        branch = block.code.ops[number]
        if waste.loop and not _by_index(block, branch) and waste.slots < 0.5 * slots:
            continue  # lanes whose loops differ a little by their data
        sum_ = by_line.setdefault(branch.line, _Waste())
        sum_.slots += waste.slots
        sum_.both += waste.both
    for line, waste in sorted(by_line.items(), key=lambda item: -item[1].slots):
        share = min(waste.slots / max(1, slots), 1 - evidence.counters.warp_efficiency)
        if share < (0.15 if waste.both else 0.3):
            continue
        counters = evidence.lines.get(line)
        if not counters or not counters.divergent_branches:
            continue
        often = counters.divergent_branches / max(1, counters.branches)
        times = evidence.times
        gain = evidence.gain(issue=times["issue"] * (1 - share), f64=times["f64"] * (1 - share))
        ways = (
            "take two ways, which run one after the other"
            if waste.both
            else "go on alone while the others wait"
        )
        yield Advice(
            "divergence",
            severity(max(gain, share / 2)),
            line,
            f"The branch diverges: lanes of one warp {ways}.",
            f"a warp splits in {often:.0%} of the executions of this line's branches; "
            f"{share:.0%} of all lane slots are idle because of it",
            "Let whole warps take one way: branch on threadIdx.x / 32 instead of threadIdx.x % 2, "
            "sort or group the data by the case, or compute both sides without a branch where "
            "they are short.",
            gain=gain,
            reason="The 32 lanes of a warp share one instruction stream.",
            source="Decks D0 (reduction 1), D1 and D3; CUDA C++ Programming Guide, SIMT",
        )
        return


# --- arithmetic


def _double(text: str) -> float | None:
    if not text.startswith("0d"):
        return None
    return struct.unpack(">d", bytes.fromhex(text[2:].rjust(16, "0")))[0]


def double_literal(evidence: Evidence) -> Iterator[Advice]:
    """Find arithmetic in float64 on float32 data because of a literal."""
    if not evidence.blocks or not evidence.counters.inst_f64:
        return
    block = evidence.blocks[0]
    code, ran = block.code, block.executions
    found: dict[int, tuple[int, set[float]]] = {}
    for op in code.ops:
        if ".f64" not in op.name or not ran[op.number] or op.name.startswith(("cvt", "ld", "st")):
            continue
        literals = [value for each in op.operands if (value := _double(each)) is not None]
        if op.parts[0] in ("add", "sub", "fma"):
            literals = [value for value in literals if value]  # what a sum begins with
        if not literals or not _from_float(block, op.of):
            continue
        count, values = found.get(op.line, (0, set()))
        found[op.line] = (count + int(ran[op.number]), values | set(literals))
    if not found:
        return
    line = max(found, key=lambda each: found[each][0])
    literals = sorted({value for _, values in found.values() for value in values})
    text = evidence.source_line(line)
    written = [value for value in literals if _is_written(value, text)]
    literals = (written or literals)[:4]
    shown = ", ".join(f"{value:g}" for value in literals)
    times = evidence.times
    c = evidence.counters
    # Conversions to and from float64 go with it.
    gain = evidence.gain(f64=0.0, issue=times["issue"] * (1 - c.inst_f64 / c.warp_instructions))
    yield Advice(
        "double-literal",
        severity(max(gain, 0.2)),
        line,
        "float32 data is computed in float64 (double) because of a literal.",
        f"{c.inst_f64:,} float64 instructions; the literal{'s' * (len(literals) != 1)} {shown} "
        f"{'are' if len(literals) != 1 else 'is'} double",
        f"Write the literal as a float, with an f: {literals[0]:g}"
        f"{'' if '.' in f'{literals[0]:g}' else '.0'}f. The same holds for functions: sqrtf, expf, "
        f"fabsf.",
        gain=gain,
        reason=f"float * double is a double. This GPU does float64 at 1/"
        f"{max(1, round(_ratio(evidence)))} of float32's rate.",
        source="Deck D1, double literal; CUDA C++ Best Practices Guide, arithmetic",
    )


def _is_written(value: float, text: str) -> bool:
    """Tell whether a source line has a literal without an f; 1.0 may be written as 1. or 1.0."""
    number = re.escape(f"{value:g}".removesuffix(".0"))
    return bool(re.search(rf"(?<![\w.]){number}(?:\.0*)?(?![\w.])", text))


def _ratio(evidence: Evidence) -> float:
    row = evidence.preset
    return row["f32_gflops"] / row["f64_gflops"] if row["f64_gflops"] else 32


def _from_float(block: TracedBlock, registers: tuple[str, ...]) -> bool:
    """Tell whether a float64 value comes from a conversion of a float32, by arithmetic only."""
    todo, seen = list(registers), set()
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        for op in block.code.writers.get(each, ()):
            if op.name.startswith("cvt.f64.f32"):
                return True
            if ".f64" in op.name and not op.name.startswith(("ld", "cvt")):
                todo += op.of
    return False


def integer_division(evidence: Evidence) -> Iterator[Advice]:
    """Find integer division or remainder in a loop."""
    if not evidence.blocks or not evidence.counters.inst_divide:
        return
    block = evidence.blocks[0]
    times = evidence.times
    cost: dict[int, float] = {}
    divisions = 0.0
    for op in block.code.ops:
        kind = block.code.instructions[op.number].kind
        per_warp = block.executions[op.number] / block.warps
        if kind == "divide":
            divisions += per_warp
        if kind == "divide" and per_warp >= 1.5:  # a loop, unrolled partly perhaps
            cost[op.line] = cost.get(op.line, 0) + per_warp
    cost = {line: each for line, each in cost.items() if each >= 3}
    if not cost:
        return
    line = max(cost, key=lambda each: cost[each])
    share = 20 * sum(cost.values()) / (block.executions.sum() / block.warps + 20 * divisions)
    gain = evidence.gain(issue=times["issue"] * (1 - share))
    if share < 0.2:
        return
    yield Advice(
        "integer-division",
        severity(max(gain, 0.2)),
        line,
        "An integer is divided (/ or %) by a variable inside of a loop.",
        f"{cost[line]:.0f} divisions per warp in this line, about 20 instructions each: about "
        f"{share:.0%} of the instructions",
        "Compute the quotient once before the loop and step it by additions, use a grid of two "
        "dimensions instead of i / width and i % width, divide by a constant or a template "
        "parameter, or use shift and mask for powers of two.",
        certainty="estimated",
        gain=gain,
        reason="GPUs have no integer divider: a division by a variable is a subroutine.",
        source="CUDA C++ Best Practices Guide, division and modulo operations",
    )


def unfused(evidence: Evidence) -> Iterator[Advice]:
    """Find multiplications and additions that may not be fused."""
    if not evidence.blocks:
        return
    block = evidence.blocks[0]
    code, ran = block.code, block.executions
    pairs: dict[int, int] = {}
    for op in code.ops:
        if op.name not in ("mul.rn.f32", "mul.rn.f64", "mul.rn.ftz.f32") or not ran[op.number]:
            continue
        readers = code.readers.get(op.to[0], [])
        if len(readers) == 1 and readers[0].name.startswith(("add.rn", "sub.rn")):
            pairs[op.line] = pairs.get(op.line, 0) + int(ran[op.number])
    total = int(ran.sum())
    if not pairs or sum(pairs.values()) < 0.03 * total:
        return
    line = max(pairs, key=lambda each: pairs[each])
    share = sum(pairs.values()) / total
    gain = evidence.gain(issue=evidence.times["issue"] * (1 - share))
    yield Advice(
        "unfused-multiply-add",
        severity(max(gain, 0.2 if share > 0.08 else 0.0)),
        line,
        "A multiplication and an addition are two instructions here, and one (fma) would do.",
        f"{sum(pairs.values()):,} multiplications of a block are followed by an addition that may "
        f"not be fused with them",
        "Compile without -fmad=false, and write a * b + c or fmaf(a, b, c) instead of "
        "__fmul_rn and __fadd_rn.",
        gain=gain,
        reason="A fused multiply-add does both in one instruction, and rounds once. Without it at "
        "most half of the peak is reached.",
        source="Deck D2: no FMA, half of peak at most",
    )


# --- barriers


def partial_barriers(evidence: Evidence) -> Iterator[Advice]:
    """Find barriers that a part of a block never reaches, since its threads have returned."""
    warps = evidence.warps_per_block
    for line, counters in evidence.lines.items():
        if not counters.barriers:
            continue
        alone = counters.warp_instructions == counters.barriers
        threads = counters.thread_instructions % evidence.threads if alone else 0
        if counters.barriers % warps == 0 and threads == 0:
            continue
        yield Advice(
            "divergent-barrier",
            "high",
            line,
            "Some threads of a block do not reach this __syncthreads(): they have left the kernel.",
            f"{counters.thread_instructions if alone else counters.barriers:,} "
            f"{'threads' if alone else 'warps'} reached it, which are no whole blocks of "
            f"{evidence.threads if alone else warps}",
            "Move the barrier out of the condition, and do not return before it: compute under "
            "if (i < n), and synchronise outside of it.",
            reason="__syncthreads() waits for all threads of the block. Since Volta it leaves "
            "out those that have ended; before, and with code after the condition, a block hangs.",
            source="CUDA C++ Programming Guide, synchronisation functions",
        )
        return


def unneeded_barriers(evidence: Evidence) -> Iterator[Advice]:
    """Find barriers without which nothing changes: tried, one by one."""
    if not evidence.blocks or not evidence.again or not evidence.kernel:
        return
    module = evidence.kernel.module
    block = evidence.blocks[0]
    names = [op.name for op in block.code.ops]
    if module.ptx is None or evidence.warps_per_block < 2:
        return
    if any(
        name.startswith(("mbarrier", "cp.", "membar", "fence", "barrier.cluster")) for name in names
    ):
        return
    lines: dict[int, list[int]] = {}
    for op in block.code.ops:
        inner = block.code.instructions[op.number].function
        if op.name.startswith(("bar.sync", "barrier.sync")) and not inner:
            lines.setdefault(op.line, []).append(op.number)
    for line, numbers in list(lines.items())[:TRIED_MOST]:
        per_warp = sum(block.executions[each] for each in numbers) / block.warps
        if not per_warp or (per_warp < 2 and any(_in_a_loop(block, each) for each in numbers)):
            continue  # another round of its loop might need it
        changed = _without(evidence, [block.code.instructions[each].ptx_line for each in numbers])
        if changed is None or changed.findings:
            continue
        yield Advice(
            "unneeded-barrier",
            "high" if per_warp >= 2 else "low",
            line,
            "This __syncthreads() is not needed: without it no thread uses what another one "
            "writes unordered.",
            f"executed {per_warp:,.0f} times per warp; the kernel ran without it, and the checks "
            f"found no race with these arguments",
            "Leave it out. A barrier is needed only between a write to memory and another thread's "
            "use of that element.",
            certainty="exact",
            gain=0.0,
            reason="At a barrier the block's warps wait for the slowest one.",
            source="CUDA C++ Best Practices Guide, synchronisation; deck D0, reduction 5",
        )


def _in_a_loop(block: TracedBlock, number: int) -> bool:
    """Tell whether an instruction lies before a backward branch to above it, by its text order."""
    lines = [each.ptx_line for each in block.code.instructions]
    return any(
        op.number > number
        and op.name.startswith("bra")
        and _target(block, op.number) <= lines[number]
        for op in block.code.ops
    )


def _target(block: TracedBlock, number: int) -> int:
    """Return the PTX line after a branch's label; a large number where it is unknown."""
    targets = block.labels
    return targets.get(block.code.ops[number].operands[-1], 1 << 60) if targets else 1 << 60


def _without(evidence: Evidence, ptx_lines: list[int]) -> Launch | None:
    """Run the kernel without the barriers of some lines of its PTX; None if that fails."""
    kernel = evidence.kernel
    if kernel is None or evidence.again is None or kernel.module.ptx is None:
        return None
    lines = kernel.module.ptx.split(b"\n")
    for number in ptx_lines:
        if b"bar" not in lines[number - 1]:
            return None
        lines[number - 1] = b""
    try:
        module = Module(b"\n".join(lines), kernel.module.device)
        return evidence.again(module[kernel.symbol])
    except (SimError, PTXError, KeyError, MemoryError):
        return None  # a barrier without which nothing works


# --- registers


def spills(evidence: Evidence) -> Iterator[Advice]:
    """Find registers that the compiler keeps in memory."""
    if not evidence.spilled:
        return
    yield Advice(
        "register-spills",
        "high",
        evidence.first_line,
        "The kernel needs more registers than it may use, and spills them to local memory.",
        f"the compiler keeps {evidence.spilled:,} bytes per thread in memory, with "
        f"{evidence.registers} registers",
        "Allow more registers (a smaller block, __launch_bounds__ with fewer threads or without "
        "the second argument, no -maxrregcount), or use fewer: split the kernel, shorten arrays, "
        "unroll less.",
        gain=0.15,
        certainty="exact",
        reason="Local memory is global memory behind the caches: a spilled value costs a store "
        "and loads.",
        source="Decks D0 and D3, occupancy and --maxrregcount",
    )


def local_arrays(evidence: Evidence) -> Iterator[Advice]:
    """Find arrays of a thread that lie in local memory since a variable indexes them."""
    c = evidence.counters
    requests = c.local_load_requests + c.local_store_requests
    if requests < 0.08 * c.warp_instructions:
        return
    line = max(
        evidence.lines,
        key=lambda each: (
            evidence.lines[each].local_load_requests + evidence.lines[each].local_store_requests
        ),
    )
    gain = 1 - evidence.time / evidence.combined(
        {"l2": evidence.times["l2"] + 4 * requests / 2 / evidence.multiprocessors}
    )
    if gain < LEAST_GAIN and requests < 0.15 * c.warp_instructions:
        return
    yield Advice(
        "local-array",
        severity(gain),
        line,
        "A thread's array lies in local memory, because a variable indexes it.",
        f"{requests:,} accesses to local memory, {requests / c.warp_instructions:.0%} of the "
        f"instructions",
        "Index it by constants only: unroll the loops over it completely (#pragma unroll, constant "
        "bounds), so that it fits into registers; or use shared memory.",
        gain=gain,
        reason="Registers have no addresses: an array that is indexed at run time lies in memory.",
        source="CUDA C++ Programming Guide, local memory",
    )
