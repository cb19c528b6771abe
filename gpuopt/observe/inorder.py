"""The way of a block's warps through machine code: in order, by the control codes of ptxas.

Each instruction names the clocks until the next one may issue (its stall), up to six scoreboards
that it waits for, and the one that its own result or its operands' reading releases. So the time of
a warp alone follows from the latencies of loads and special functions; all others are stalls.
Warps share the issue slot and the pipes of their scheduler, and the multiprocessor's queues of
memory instructions; at a barrier they wait for each other. Blocks run in the order of the code; a
loop is walked twice, so that loads of one turn overlap the work of the next, and its last turn
stands for all others. `csrc/python/py_walk.c` walks.

Sources: Z. Jia et al., 2018 (control codes); R. Huerta et al., MICRO 2025 (when operands are read).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from gpuopt import _core
from gpuopt.catalog.figures import Figures
from gpuopt.observe.machine import Machine, MachineInstruction, pipe_of

# Memory instructions by the queue that they wait in.
QUEUES = {
    "shared memory": ("LDS", "STS", "ATOMS"),
    "LSU": ("LDG", "STG", "LD.", "ST.", "ATOMG", "RED"),
}
NONE = 7  # of the scoreboards
READ = 10  # clocks until a memory instruction has read its registers (Huerta et al.)
# Latencies in clocks, measured on an H100 by chains of each.
SPECIAL, CONVERSION, DOUBLE, FENCE = 17, 12, 8, 670
BRANCH = 5  # clocks of a taken branch beyond its stall (an H200's loops of 5 to 67 instructions)
WARP, SCHEDULERS = 32, 4
MOST = 1 << 16  # instructions walked, of all warps: nested loops double them
EVER = 0.01  # executions of a block by a warp: rarer ones are left out
WARPS = 64  # of a block, at most
# Codes of csrc/python/py_walk.c.
_PIPES = ("special", "integer")
_STEPS = ("", "wait", "copy", "commit", "barrier", "fence", "bulk", "phase")
_KINDS = ("load", "shared", "double", "special", "conversion")


def walked(
    machine: Machine,
    times: np.ndarray,
    figures: Figures,
    load: Callable[[int], float],
    warps: Sequence[int] = (0,),
    queues: Mapping[str, float] | None = None,
) -> float:
    """Return the clocks of a block's longest warp.

    Parameters
    ----------
    machine : Machine
    times : ndarray
        How often a warp executes each instruction; a row for each kind of warp.
    figures : Figures
    load : callable
        Returns the mean latency of the loads of a line of the PTX.
    warps : sequence of int
        The kind of each warp, 64 at most.
    queues : mapping of str to float, optional
        Clocks of the multiprocessor for an access to shared memory ("shared memory") and to global
        memory ("LSU").
    """
    places, lines, which = _loaded(machine)
    loads = np.zeros(len(machine.code))
    if places.size:
        loads[places] = np.array([load(line) for line in lines])[which]
    shares = queues or {}
    lanes = figures.special_lanes, figures.integer_lanes
    constants = np.array(
        [
            *(shares.get(name, 0.0) for name in QUEUES),
            *(WARP * SCHEDULERS / count for count in lanes),
            *(0.0, figures.shared, DOUBLE, SPECIAL, CONVERSION),
            *(figures.barrier, FENCE, READ, BRANCH, EVER, MOST / len(warps)),
        ],
        np.float64,
    )
    rows = np.ascontiguousarray(times, np.float64)
    return _core.walk(_packed(machine), rows, bytes(warps), loads, constants)


def _packed(machine: Machine) -> np.ndarray:
    """Return the instructions as csrc/python/py_walk.c reads them."""
    return machine.derived("packed", lambda: np.array([_fields(e) for e in machine.code], np.int32))


def _loaded(machine: Machine) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Return the instructions that wait for memory, their lines, and the index of each one's."""

    def find() -> tuple[np.ndarray, list[int], np.ndarray]:
        found = [at for at, each in enumerate(machine.code) if _latency(each.name) == "load"]
        lines, which = np.unique([machine.code[at].line for at in found], return_inverse=True)
        return np.array(found, int), lines.tolist(), which

    return machine.derived("loaded", find)


def _fields(each: MachineInstruction) -> tuple[int, ...]:
    pipe, queue = pipe_of(each.name), queue_of(each.name)
    return (
        *(each.block, each.target, each.stall, each.writes, each.reads, each.waits),
        list(QUEUES).index(queue) if queue else -1,
        _PIPES.index(pipe) if pipe in _PIPES else -1,
        _STEPS.index(_step(each.name)),
        _KINDS.index(_latency(each.name)),
    )


def _step(name: str) -> str:
    if name.startswith("DEPBAR"):
        return "wait"
    if name.startswith("LDGSTS"):
        return "copy"
    if name.startswith("LDGDEPBAR"):
        return "commit"
    if name.startswith("BAR."):
        return "barrier"
    if name.startswith("UBLKCP"):
        return "bulk"
    if name.startswith("SYNCS.PHASECHK"):
        return "phase"
    return "fence" if name.startswith("MEMBAR") and "CTA" not in name else ""


def _latency(name: str) -> str:
    if name.startswith(("LDG", "LD.", "ATOM", "TEX", "LDL", "UBLKCP.S.G")):
        return "load"
    pipe = pipe_of(name)
    if pipe == "special":
        return "special" if name.startswith("MUFU") else "conversion"
    return "double" if pipe == "f64" else "shared"


@lru_cache(1 << 10)
def queue_of(name: str) -> str:
    """Return the queue of a memory instruction: "shared memory", "LSU"; "" for others."""
    return next((queue for queue, heads in QUEUES.items() if name.startswith(heads)), "")
