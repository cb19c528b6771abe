"""Rules for wrong and undefined results: each finding of the checks, with cause and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuopt.advice.code import KernelCode, Op, Unknown, line_of, place
from gpuopt.advice.evidence import Evidence
from gpuopt.advice.explanation import Advice
from gpuopt.advice.rules import ERRORS
from gpuopt.observe.launches import Finding, OtherAccess

FAR = 1 << 28  # bytes outside an array that no missing test of a border explains
GUIDE = "CUDA C++ Programming Guide"


def _line(found: Finding | OtherAccess) -> int:
    return place(found.file, found.line) if found.file and found.line else found.ptx_line


def _told(found: Finding) -> str:
    return f"{found.text}; {found.times:,} times" if found.times else found.text


def _advice(found: Finding, rule: str, text: str, remedy: str, **more: Any) -> Advice:
    fields = {
        "evidence": _told(found),
        "file": found.file,
        "kernel": found.kernel,
        "line": _line(found),
    }
    return Advice(rule, "error", text=text, remedy=remedy, **(fields | more))


def _access(found: Finding) -> str:
    return "reads" if found.access == "read" else "writes"


# --- out of bounds


def _ops_at(evidence: Evidence, found: Finding) -> list[Op]:
    """Return the accesses of a finding's PTX line."""
    code = evidence.code
    if not code:
        return []
    return [
        op
        for op, each in zip(code.ops, code.instructions, strict=True)
        if each.ptx_line == found.ptx_line and op.address
    ]


Overflow = tuple[Op, int, int]


def _overflow(evidence: Evidence, op: Op, block: Any, thread: Any) -> tuple[Overflow | None, bool]:
    """Return the instruction whose result overflows on the way to an address, and both values.

    And whether the address is known: no memory and no loop decides it.
    """
    evaluator = evidence.thread(block, thread)
    if evaluator is None:
        return None, False
    try:
        found = evaluator.value(op.address)
    except (Unknown, RecursionError):
        return None, False
    if found.at is None or not found.at.to:
        return None, True
    value = evaluator.known.get(found.at.to[0], found)
    return (found.at, value.exact, value.wrapped), True


def _numbers(seen: Overflow) -> str:
    """Return the evidence for an overflow."""
    _, exact, wrapped = seen
    if exact == wrapped:
        return f"the index is {exact:,}, which its type does not hold"
    return f"the index is {exact:,}, of which its type holds {wrapped:,}"


def _overflow_advice(evidence: Evidence, found: Finding) -> Advice | None:
    distance = abs(found.offset) if found.extent else 1 << 62
    for op in _ops_at(evidence, found):
        seen, known = _overflow(evidence, op, found.block, found.thread)
        line, numbers = 0, ""
        products = [
            each
            for each in (evidence.code.slice(op.address) if evidence.code else [])
            if each.parts[-1] in ("s32", "u32", "b32") and each.parts[0] in ("mul", "mad", "shl")
        ]
        if seen:
            line = seen[0].line
            numbers = f"{_numbers(seen)}; "
        elif found.space == "global" and distance > FAR and products and not known:
            line = products[-1].line
            numbers = "the address is more than 256 MiB outside of the array; "
        if line:
            return _advice(
                found,
                "index-overflow",
                "The index does not fit into its integer type and wraps around.",
                "Compute the index in 64 bits: long long i = (long long)blockIdx.x * blockDim.x + "
                "threadIdx.x, or cast the first factor to size_t.",
                evidence=f"{numbers}{_told(found)}",
                reason="An int holds up to 2,147,483,647. A product of ints is an int, even if its "
                "result becomes an address of 64 bits.",
                source=f"{GUIDE}, integer arithmetic; C++17 [expr.pre]",
                line=line,
            )
    return None


def out_of_bounds(evidence: Evidence, found: Finding) -> Advice:
    """Return the advice on an access outside of an array."""
    place = f"thread {found.thread} of block {found.block}"
    number, size = found.element, found.item if found.array else found.bytes
    if found.space == "shared":
        return _advice(
            found,
            "shared-bounds",
            f"An index leaves the block's shared memory: {place} {_access(found)} beyond it.",
            "Make the array as large as the largest index, or pass shared=BYTES at the launch for "
            "'extern __shared__'; guard the access otherwise.",
            reason="Shared memory beyond the block's own does not exist; the kernel stops.",
            source=f"{GUIDE}, shared memory",
        )
    if number is None:
        return _advice(
            found,
            "bounds-check",
            f"{place} {_access(found)} an address that is in no array.",
            "Check the pointers that were passed, and the index against the size.",
            source=f"{GUIDE}, kernels",
        )
    if not found.argument and 0 <= found.offset < found.extent:
        return _advice(
            found,
            "use-after-free",
            "A kernel kept a pointer to an array that was on the GPU for an earlier launch only.",
            "Pass gpuopt.asarray(x, device='sim') to the launch that keeps the pointer.",
            reason="A NumPy array is copied for its launch, and the copy ends with it.",
            source=f"{GUIDE}, device memory",
        )
    array = f"an array of {found.extent // size:,}"
    if found.argument:
        array = f"argument {found.argument}, {found.array or array}"
    left = number < 0
    return _advice(
        found,
        "bounds-check",
        f"A bounds check is missing: {place} {_access(found)} element {number:,} of {array}.",
        "Guard the access at the left border: test i - r >= 0 first, or clamp the index with "
        "max(i - r, 0)."
        if left
        else "Guard it, as in if (i < n). The grid is rounded up to whole blocks, so its last "
        "threads have no element; neighbours as i + 1 need a test of their own.",
        reason="A neighbour of the first element does not exist."
        if left
        else f"The launch has {evidence.block_count * evidence.threads:,} threads.",
        source="Deck D1, vector add 5 and stencil: the grid is ceil(n / block)",
    )


# --- races


def _unordered_blocks(found: Finding, lines: str) -> Advice:
    return _advice(
        found,
        "unordered-blocks",
        f"Blocks use the same global element without an order between them ({lines}).",
        "Let the writer call __threadfence() before it raises a flag by an atomic, and let the "
        "reader wait for that flag by an atomic; or split the kernel: a launch begins after "
        "the one before it. For a sum use atomicAdd.",
        reason="Blocks run in any order, and their writes become visible in any order.",
        source=f"{GUIDE}, memory fence functions",
    )


def race(evidence: Evidence, found: Finding) -> Advice:
    """Return the advice on a race: a missing barrier, fence or atomic."""
    other = found.other or found
    mine, theirs = _line(found), _line(other)
    dim = evidence.launch.block

    def warp(thread: tuple[int, ...]) -> int:
        return (thread[0] + dim[0] * (thread[1] + dim[1] * thread[2])) // 32

    space = found.space
    later = max(mine, theirs)
    update = _update(evidence, {mine, theirs}, space)
    if update:
        return _advice(
            found,
            "racing-update",
            f"Several threads update the same {space} element at once, and updates get lost.",
            "Use an atomic: atomicAdd(&counts[i], 1), atomicMax, ...; or give each thread an "
            "element of its own and add them up afterwards.",
            reason="x[i] += v reads, adds and writes. Another thread's update in between is "
            "overwritten.",
            source=f"{GUIDE}, atomic functions",
            line=update,
        )
    lines = (
        f"lines {min(line_of(theirs), line_of(mine))} and {max(line_of(theirs), line_of(mine))}"
        if theirs and theirs != mine
        else f"line {line_of(mine)}"
    )
    if other.block != found.block or _of_all_blocks(evidence, found):
        return _unordered_blocks(found, lines)
    if warp(other.thread) == warp(found.thread) and not _of_several_warps(evidence, later):
        return _advice(
            found,
            "missing-syncwarp",
            f"Lanes of one warp exchange data through {space} memory without __syncwarp() "
            f"({lines}).",
            f"Call __syncwarp() before line {line_of(later)}, or exchange by __shfl_sync.",
            line=later,
            reason="Since Volta the lanes of a warp do not run in step.",
            source=f"{GUIDE}, independent thread scheduling",
        )
    around = _barrier_between(evidence, min(mine, theirs or mine), later)
    return _advice(
        found,
        "missing-syncthreads",
        f"A __syncthreads() is missing: one thread writes {space} memory and another one uses it "
        f"with no barrier between ({lines}).",
        f"Put __syncthreads() after line {line_of(later)}, at the end of the loop's body: the next "
        f"round overwrites what other threads still read."
        if around
        else f"Put __syncthreads() before line {line_of(later)}, where all threads of the block "
        f"reach it" + (", and one in each round of the loop." if theirs == mine else "."),
        line=later,
        reason="Warps run in any order: without a barrier one may read before the other has "
        "written, or overwrite what the other still reads.",
        source=f"{GUIDE}, thread synchronisation; deck D1, stencil",
    )


def _of_all_blocks(evidence: Evidence, found: Finding) -> bool:
    """Tell whether each block accesses the element of a finding: a barrier of one is not enough."""
    code, ops = evidence.code, _ops_at(evidence, found)
    if not code or not ops or found.space != "global" or evidence.block_count < 2:
        return False
    return not any("%ctaid" in each.text for op in ops for each in code.slice(op.address))


def _of_several_warps(evidence: Evidence, line: int) -> bool:
    """Tell whether more than one warp of a block runs a line: then it lacks a block's barrier."""
    for block in evidence.blocks[:1]:
        numbers = [op.number for op in block.code.ops if op.line == line and op.address]
        mine = block.events[np.isin(block.events["instruction"], numbers)]
        return len(np.unique(mine["warp"])) > 1
    return False


def _barrier_between(evidence: Evidence, first: int, last: int) -> bool:
    """Tell whether a barrier stands between two lines, so that only a loop joins them."""
    return bool(evidence.code) and any(
        op.name.startswith(("bar.sync", "barrier.sync")) and first < op.line < last
        for op in evidence.code.ops
    )


def _update(evidence: Evidence, lines: set[int], space: str) -> int:
    """Return the line of a store to an element that several threads load and store; 0: none.

    The loaded value decides the stored one, or the branch before. Threads that store elements of
    their own, as in ``x[t] += x[t + s]``, lack a barrier instead.
    """
    for block in evidence.blocks[:1]:
        code = block.code
        ops = [op for op in code.ops if f".{space}" in op.name]
        loads = [op for op in ops if op.name.startswith("ld.")]
        for store in ops:
            if not store.name.startswith("st.") or store.line not in lines:
                continue
            same = {
                load.number
                for load in loads
                if _where(load) == _where(store) and store.operands[-1] not in load.to
            }
            if not same or not same & _deciding(code, store):
                continue
            common = not any(
                "%tid" in op.text or op.name.startswith("ld.global")
                for op in code.slice(store.address)
            )
            sites = [each for each in block.sites if each.op.number == store.number]
            first = sites[0].addresses[sites[0].lanes][: 32 * block.warps] if sites else []
            if common or len(np.unique(first)) < len(first):
                return store.line
    return 0


def _deciding(code: KernelCode, store: Op) -> set[int]:
    """Return the instructions whose values a store depends on: its value, and the branch before."""
    branch = next(
        (op for op in reversed(code.ops[: store.number]) if op.name.startswith("bra") and op.guard),
        None,
    )
    registers = [store.operands[-1], store.guard, branch.guard if branch else ""]
    return {op.number for each in registers if each for op in code.slice(each)}


def _where(op: Op) -> str:
    found = re.search(r"\[([^\]]*)\]", op.text)
    return found[1].replace(" ", "") if found else ""


# --- the others

_PLAIN: dict[str, tuple[str, str, str, str, str]] = {
    # finding: rule, text, remedy, reason, source
    "divergent barrier": (
        "divergent-barrier",
        "Not all threads of the block reach this __syncthreads().",
        "Move it out of the condition or the loop: compute under the condition, and synchronise "
        "outside of it. Do not return before it; skip the work instead.",
        "The barrier waits for every thread of the block. If some take another way, the block "
        "hangs or the barrier pairs up with another one.",
        f"{GUIDE}, synchronisation functions",
    ),
    "copy in flight": (
        "missing-wait",
        "Bytes of an asynchronous copy are used before the copy has been waited for.",
        "Wait first, as the finding says: __pipeline_wait_prior(N), cg::wait, consumer_wait() or "
        "the mbarrier of a bulk copy. If other threads use the bytes, __syncthreads() follows.",
        "The copy goes on while the thread continues, and commits count: wait_prior(N) leaves the "
        "N newest groups in flight.",
        f"{GUIDE}, asynchronous data copies",
    ),
    "deadlock": (
        "deadlock",
        "The kernel hangs: threads wait for something that never happens.",
        "If it is a barrier, let every thread of the block reach it. If it is a flag of another "
        "block, make sure that the block is resident: launch no more blocks than fit, or use a "
        "cooperative launch.",
        "A block starts only when there is room for it, and a barrier needs all threads.",
        f"{GUIDE}, synchronisation functions",
    ),
    "does not end": (
        "endless-loop",
        "A loop of the kernel does not end.",
        "Check the loop's condition and step. A loop that waits for memory needs volatile or an "
        "atomic load, and a writer that runs at the same time.",
        "The kernel was stopped.",
        f"{GUIDE}, kernels",
    ),
    "use after free": (
        "use-after-free",
        "Memory is used after it was freed.",
        "Free it after the last use: after a __syncthreads() if other threads of the block use it, "
        "in a later launch if other blocks do. Set the pointer to nullptr then.",
        "The next allocation may get the same memory, and the values are those of others.",
        f"{GUIDE}, dynamic global memory allocation",
    ),
    "misaligned access": (
        "misaligned-access",
        "A vector access is not aligned to its size.",
        "Let a float4 begin at a multiple of 16 bytes, a float2 of 8: pad the rows, or handle the "
        "first elements one by one.",
        "The hardware loads and stores only at multiples of the access's size.",
        f"{GUIDE}, device memory accesses",
    ),
    "integer division by zero": (
        "division-by-zero",
        "An integer is divided by zero, and the result is used.",
        "Test the divisor, or make sure that it cannot be 0.",
        "The result is undefined.",
        f"{GUIDE}, integer arithmetic",
    ),
    "bad warp-level synchronisation": (
        "warp-mask",
        "A warp-level function's mask does not name exactly the lanes that get here.",
        "Call it outside of the condition with 0xffffffff, or compute the mask before by "
        "__ballot_sync.",
        "A lane of the mask that never comes makes the others wait, or gives undefined values.",
        f"{GUIDE}, warp shuffle functions",
    ),
}


def plain(evidence: Evidence, found: Finding) -> Advice:
    """Return the advice on any other finding."""
    row = _PLAIN.get(found.kind)
    if row:
        rule, text, remedy, reason, source = row
        line = _line(found)
        if rule == "endless-loop" and evidence.lines:  # the loop, not where it happened to stop
            line = max(evidence.lines, key=lambda each: (evidence.lines[each].branches, -each))
        return _advice(found, rule, text, remedy, reason=reason, source=source, line=line)
    rule = found.kind.replace(" ", "-")
    text = f"{found.kind[0].upper()}{found.kind[1:]}."
    return _advice(found, rule, text, "See the finding; it names the place and the remedy.")


def _first_unwritten(evidence: Evidence) -> int:
    """Return the line where a block first loads shared memory that it never stored; 0: none.

    The finding is at the value's use, a sum later perhaps.
    """
    for block in evidence.blocks[:1]:
        shared = block.events[
            (block.events["space"] == block.spaces.index("shared")) & (block.events["mask"] != 0)
        ]
        stored = np.zeros(1 << 18, bool)
        for event in shared:
            lanes = (event["mask"] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)
            offsets = event["address"][lanes][:, None] + np.arange(event["bytes"], dtype=np.uint64)
            offsets = offsets[offsets < len(stored)]
            if block.kinds[event["access"]] == "store":
                stored[offsets] = True
            elif not stored[offsets].all():
                return block.code.ops[event["instruction"]].line
    return 0


def uninitialised(evidence: Evidence, found: Finding) -> Advice:
    """Return the advice on a read of a value that nobody wrote."""
    if found.space == "shared":
        return _advice(
            found,
            "uninitialised-shared",
            "Shared memory is used that no thread of the block has written.",
            "Write every element before it is read: zero the array first (each thread its own "
            "elements, then __syncthreads()), or load the border (halo) as well.",
            line=_first_unwritten(evidence) or _line(found),
            reason="Shared memory is not cleared: it holds what an earlier block left there.",
            source=f"{GUIDE}, shared memory; deck D1, stencil's halo",
        )
    return _advice(
        found,
        "uninitialised",
        "A value is used that nobody has written.",
        "Initialise the variable, or copy or store something to that memory first.",
        reason="The value is undefined and differs from run to run.",
        source=f"{GUIDE}, device memory",
    )


_BY_KIND = {
    "out of bounds": out_of_bounds,
    "race in shared memory": race,
    "race in global memory": race,
    "uninitialised read": uninitialised,
}
_ADDRESSES = {"out of bounds", "use after free", "misaligned access"}
_RACES = {"missing-syncthreads", "missing-syncwarp", "racing-update", "unordered-blocks"}


def errors(evidence: Evidence) -> list[Advice]:
    """Return one piece of advice for each cause, the causes first."""
    made: dict[tuple[str, int], Advice] = {}
    if evidence.launch.findings:
        for advice in silent_overflow(evidence):
            made[advice.rule, advice.line] = advice
    for found in evidence.launch.findings:
        advice = None
        if found.kind in _ADDRESSES:
            advice = _overflow_advice(evidence, found)
        advice = advice or _BY_KIND.get(found.kind, plain)(evidence, found)
        made.setdefault((advice.rule, advice.line), advice)
    listed = sorted(made.values(), key=lambda each: _rank(each.rule))
    return _causes(listed)


def _rank(rule: str) -> int:
    names = [each.name for each in ERRORS]
    return names.index(rule) if rule in names else len(names)


def _causes(listed: list[Advice]) -> list[Advice]:
    """Merge advice of one rule, and drop what follows from another error."""
    kept: dict[str, Advice] = {}
    more: dict[str, list[int]] = {}
    for each in listed:
        if each.rule in kept:
            more.setdefault(each.rule, []).append(each.line)
        else:
            kept[each.rule] = each
    rules = set(kept)
    if rules & (_RACES | {"missing-wait"}):  # the value is missing: its writer comes too late
        kept.pop("uninitialised-shared", None)
        kept.pop("uninitialised", None)
    if rules & {"divergent-barrier"}:
        for rule in ("deadlock", "missing-syncthreads", "uninitialised-shared", "uninitialised"):
            kept.pop(rule, None)
    if rules & {"index-overflow", "bounds-check", "shared-bounds"}:
        for rule in ("uninitialised", "uninitialised-shared"):
            kept.pop(rule, None)
    if "index-overflow" in rules:
        for rule in ("bounds-check", "use-after-free", *_RACES):
            kept.pop(rule, None)
    if "missing-syncthreads" in rules:
        kept.pop("missing-syncwarp", None)
    if rules & {"bounds-check", "shared-bounds"}:
        kept.pop("unordered-blocks", None)
    return [_with_lines(each, more.get(rule, [])) for rule, each in kept.items()]


def _with_lines(advice: Advice, lines: list[int]) -> Advice:
    from dataclasses import replace

    others = sorted({line_of(each) for each in lines} - {line_of(advice.line)})
    if not others:
        return advice
    listed = ", ".join(map(str, others[:8]))
    return replace(advice, evidence=f"{advice.evidence}; also at line {listed}")


def silent_overflow(evidence: Evidence) -> Iterator[Advice]:
    """Find indices that wrap without leaving their arrays, judged at the grid's last thread."""
    if not evidence.blocks or not evidence.kernel:
        return
    block = tuple(each - 1 for each in evidence.launch.grid)
    thread = tuple(each - 1 for each in evidence.launch.block)
    for op in evidence.blocks[0].code.ops:
        if ".global" not in op.name or not op.address:
            continue
        seen, _ = _overflow(evidence, op, block, thread)
        if seen:
            yield Advice(
                "index-overflow",
                "error",
                seen[0].line,
                "The index does not fit into its integer type and wraps around, so that threads "
                "share elements.",
                f"in the last thread {_numbers(seen)}",
                "Compute the index in 64 bits: long long i = (long long)blockIdx.x * blockDim.x + "
                "threadIdx.x, or cast the first factor to size_t.",
                reason="A product of ints is an int, even if it becomes an address of 64 bits.",
                source=f"{GUIDE}, integer arithmetic; C++17 [expr.pre]",
                file=evidence.file,
                kernel=evidence.launch.kernel,
            )
            return
