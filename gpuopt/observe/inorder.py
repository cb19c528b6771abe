"""A warp's way through machine code: in order, by the control codes that ptxas has set.

Each instruction names the clocks until the next one may issue (its stall), up to six scoreboards
that it waits for, and the one that its own result or its operands' reading releases. So the time of
a warp alone follows from the latencies of loads and special functions; all others are stalls.
Blocks run in the order of the code; a loop is walked twice, so that loads of one turn overlap the
work of the next, and its last turn stands for all others.

Sources: Z. Jia et al., 2018 (control codes); R. Huerta et al., MICRO 2025 (when operands are read).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuopt.catalog.figures import Figures
from gpuopt.observe.machine import MachineInstruction, pipe_of

NONE = 7  # of the scoreboards
READ = 10  # clocks until a memory instruction has read its registers (Huerta et al.)
# Latencies in clocks, measured on an H100 by chains of each.
SPECIAL, CONVERSION, DOUBLE, FENCE = 17, 12, 8, 670
WARP, SCHEDULERS = 32, 4
MOST = 1 << 16  # instructions walked: nested loops double them
EVER = 0.01  # executions of a block by a warp: rarer ones are left out


class Walk(NamedTuple):
    """A warp's time in clocks, and the instructions that it issues."""

    clocks: float
    issued: float


class _WarpState:
    """Where a warp stands: its clock, and when scoreboards, pipes and asynchronous copies end."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.boards: list[list[float]] = [[] for _ in range(NONE)]
        self.pipes: dict[str, float] = {}
        self.copies: list[float] = []  # of the open group, then of each group
        self.groups: list[float] = []


def walked(
    code: Sequence[MachineInstruction],
    times: Sequence[float],
    figures: Figures,
    load: Callable[[int], float],
    shares: Mapping[str, float] | None = None,
) -> Walk:
    """Return the time of a warp alone.

    Parameters
    ----------
    code : sequence of MachineInstruction
    times : sequence of float
        How often the warp executes each of them.
    figures : Figures
    load : callable
        Returns the mean latency of the loads of a line of the PTX.
    shares : mapping of str to float, optional
        Least clocks from one instruction to the next ("issue"), from one access to shared memory to
        the next ("shared memory"), to global memory ("LSU"): where barriers couple warps, all do
        the same at the same time, and each has its share of the multiprocessor.
    """
    shares = shares or {}
    blocks: dict[int, list[MachineInstruction]] = {}
    runs: dict[int, float] = {}
    for each, count in zip(code, times, strict=True):
        blocks.setdefault(each.block, []).append(each)
        runs[each.block] = count
    order = [block for block in sorted(blocks) if runs[block] > EVER]
    place = {block: at for at, block in enumerate(order)}
    warp, taken = _WarpState(), dict.fromkeys(order, 0.0)
    latencies = {
        "double": DOUBLE,
        "special": SPECIAL,
        "conversion": CONVERSION,
        "shared": figures.shared,
        "barrier": figures.barrier,
    }
    lanes = {"special": figures.special_lanes, "integer": figures.integer_lanes}
    busy = {pipe: WARP * SCHEDULERS / count for pipe, count in lanes.items()}
    turned: set[tuple[int, int]] = set()

    def walk(first: int, last: int) -> None:
        for at in range(first, last):
            block = order[at]
            begin = warp.now
            for each in blocks[block]:
                _issue(warp, each, latencies, busy, load, shares)
            warp.steps += len(blocks[block])
            taken[block] = warp.now - begin
            back = place.get(blocks[block][-1].target, len(order))
            again = first <= back <= at and (back, at) not in turned and warp.steps < MOST
            if again and max(runs[each] for each in order[back : at + 1]) > 1.5:
                turned.add((back, at))
                walk(back, at + 1)
                turned.discard((back, at))

    walk(0, len(order))
    return Walk(
        sum(taken[each] * runs[each] for each in order),
        sum(runs[each.block] for each in code if each.block in place),
    )


class _Traits(NamedTuple):
    """An instruction's way through the multiprocessor, by its name."""

    pipe: str  # that takes several clocks for a warp, else ""
    queue: str
    step: str  # "wait", "copy", "commit", "barrier", "fence"; "": none of these
    latency: str  # "load", or a key of the table of latencies


@lru_cache(1 << 10)
def _traits(name: str) -> _Traits:
    pipe, step = pipe_of(name), ""
    if name.startswith("DEPBAR"):
        step = "wait"
    elif name.startswith("LDGSTS"):
        step = "copy"
    elif name.startswith("LDGDEPBAR"):
        step = "commit"
    elif name.startswith("BAR."):
        step = "barrier"
    elif name.startswith("MEMBAR") and "CTA" not in name:
        step = "fence"
    latency = "shared"
    if name.startswith(("LDG", "LD.", "ATOM", "TEX", "LDL")):
        latency = "load"
    elif pipe == "f64":
        latency = "double"
    elif pipe == "special":
        latency = "special" if name.startswith("MUFU") else "conversion"
    return _Traits(pipe if pipe in ("special", "integer") else "", queue_of(name), step, latency)


def _issue(
    warp: _WarpState,
    each: MachineInstruction,
    latencies: Mapping[str, float],
    busy: Mapping[str, float],
    load: Callable[[int], float],
    shares: Mapping[str, float],
) -> None:
    """Issue an instruction, and let it release its scoreboards later."""
    start = warp.now
    pipe, queue, step, kind = _traits(each.name)
    if step == "wait":  # all but the newest `target` have arrived
        for group in warp.groups[: max(0, len(warp.groups) - max(0, each.target))]:
            start = max(start, group)
    if each.waits:
        for board, ends in enumerate(warp.boards):
            if each.waits >> board & 1 and ends:
                start = max(start, *ends)
                ends.clear()
    if pipe:
        start = max(start, warp.pipes.get(pipe, 0.0))
        warp.pipes[pipe] = start + busy[pipe]
    if step == "copy" or each.writes < NONE - 1:
        latency = load(each.line) if kind == "load" else latencies[kind]
    else:
        latency = 0.0
    if queue:  # it need not wait itself, but its result does
        free = max(start, warp.pipes.get(queue, 0.0))
        warp.pipes[queue] = free + shares.get(queue, 0.0)
        latency += free - start
    if step == "copy":
        warp.copies.append(start + latency)
    elif step == "commit":
        warp.groups.append(max(warp.copies, default=start))
        warp.copies = []
    if each.writes < NONE - 1:
        warp.boards[each.writes].append(start + latency)
    if each.reads < NONE - 1:
        warp.boards[each.reads].append(start + READ)
    warp.now = start + max(float(each.stall), shares.get("issue", 0.0), 1.0)
    if step == "barrier":
        warp.now += latencies["barrier"]
    elif step == "fence":
        warp.now += FENCE


@lru_cache(1 << 10)
def queue_of(name: str) -> str:
    """Return the queue of a memory instruction: "shared memory", "LSU"; "" for others."""
    if name.startswith(("LDS", "STS", "ATOMS")):
        return "shared memory"
    return "LSU" if name.startswith(("LDG", "STG", "LD.", "ST.", "ATOMG", "RED")) else ""
