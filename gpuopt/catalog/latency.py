"""Latency hidden by work in flight: the decks' pipeline in cycles, and bytes in flight for DRAM."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuopt import _core
from gpuopt.util.checks import whole
from gpuopt.util.names import suggests, unknown_name

LINE = 128  # bytes

# Cycles from a load to its value under load, and their sources.
MEMORY_LATENCY = {
    "g80": 500,  # deck D3's tutorial: 400 to 600
    "gt200": 440,  # Wong et al., ISPASS 2010
    "m2090": 600,  # Volkov, GTC 2010
    "k40": 500,  # deck D1's example; 331 without load (PPT-GPU)
    "t4": 424,  # PPT-GPU
    "a100": 552,  # RRZE gpu-benches
    "h200": 689,  # RRZE gpu-benches, H100
}


@dataclass(frozen=True)
class Pipeline:
    """How instructions issue in order, made by `pipeline`.

    Attributes
    ----------
    starts : tuple of tuple of int
        The cycle in which each instruction issues, for each warp.
    cycles : int
        Until the last instruction has issued; the first issues in cycle 0.
    issued : int
        Instructions of all warps.
    share : float
        Used issue slots, from 0 to 1.
    """

    starts: tuple[tuple[int, ...], ...]
    cycles: int
    issued: int
    share: float


@suggests
def pipeline(
    needs: Sequence[Iterable[int]],
    *,
    latency: int = 24,
    warps: int = 1,
    schedulers: int = 1,
    issue: int = 1,
) -> Pipeline:
    """Issue a sequence of instructions in order, cycle by cycle, each when its inputs are ready.

    Parameters
    ----------
    needs : sequence of iterables of int
        For each instruction the earlier ones whose results it reads, by index from 0.
    latency : int
        Cycles from an instruction's issue to its result.
    warps : int
        Warps that execute the sequence; a scheduler takes the next warp that is ready.
    schedulers : int
        Schedulers, each with every n-th warp: 2 on a Fermi.
    issue : int
        Cycles that an instruction of a warp occupies a scheduler: 4 on a G80 with 8 lanes, 2 on a
        Fermi with 16 lanes for each scheduler.

    Returns
    -------
    Pipeline

    Raises
    ------
    ValueError
        An instruction that needs itself or a later one; a number below 1.
    TypeError
        No integers.

    Notes
    -----
    Source: deck D2. In its example instructions 2 and 3 issue back to back, and 4 and 5 wait: five
    instructions take 73 cycles, so 73 are needed in that time to reach the peak.

    Examples
    --------
    >>> from gpuopt.models import pipeline
    >>> five = [(), (0,), (), (2,), (3,)]  # FMAs, by the inputs that they wait for
    >>> pipeline(five).starts, pipeline(five).cycles
    (((0, 24, 25, 49, 73),), 73)
    >>> round(pipeline(five, warps=24).share, 2)  # other warps fill the gaps
    1.0
    """
    latency, warps = whole(latency, "latency", 1), whole(warps, "warps", 1)
    schedulers, issue = whole(schedulers, "schedulers", 1), whole(issue, "issue", 1)
    inputs = [tuple(whole(each, "needs", 0) for each in some) for some in needs]
    if not inputs:
        raise ValueError("needs: has no instruction")
    for number, some in enumerate(inputs):
        if some and max(some) >= number:
            raise ValueError(
                f"needs: instruction {number} reads the result of {max(some)}, which is no earlier "
                "one"
            )
    starts: list[list[int]] = [[] for _ in range(warps)]
    for first in range(schedulers):
        _schedule(starts[first::schedulers], inputs, latency, issue)
    cycles = max(each[-1] for each in starts)
    issued = warps * len(inputs)
    return Pipeline(
        tuple(map(tuple, starts)), cycles, issued, issued * issue / (cycles + issue) / schedulers
    )


def _schedule(
    warps: list[list[int]], inputs: list[tuple[int, ...]], latency: int, issue: int
) -> None:
    """Append the cycles in which one scheduler issues its warps' instructions."""
    cycle, turn = 0, 0
    while any(len(each) < len(inputs) for each in warps):
        waiting = []  # when each warp's next instruction has its inputs
        for number, each in enumerate(warps):
            if len(each) < len(inputs):
                ready = max((each[i] + latency for i in inputs[len(each)]), default=0)
                ready = max(ready, each[-1] + issue if each else 0)
                waiting.append((max(ready, cycle), (number - turn) % len(warps), number))
        cycle, _, number = min(waiting)
        warps[number].append(cycle)
        cycle, turn = cycle + issue, number + 1


@dataclass(frozen=True)
class InFlight:
    """Bytes in flight on a multiprocessor that fill the bandwidth: see `in_flight`.

    Attributes
    ----------
    bytes, lines : float
        Bytes, and lines of 128 bytes.
    most_warps : int
        Warps that a multiprocessor holds; with one line each, they have as many in flight.
    share : float
        The bandwidth that these warps reach with one line each, of the whole.
    """

    bytes: float
    lines: float
    most_warps: int
    share: float


@suggests
def in_flight(preset: str, latency: float | None = None) -> InFlight:
    """Return the bytes in flight on a multiprocessor that fill a GPU's bandwidth (Little's law).

    Parameters
    ----------
    preset : str
        "g80", ..., "h200", also as "sim:k40".
    latency : float, optional
        Cycles from a load to its value. Default: the published one of the GPU, where there is one.

    Returns
    -------
    InFlight

    Raises
    ------
    ValueError
        No such preset; a latency that is not above 0, or missing where none is published.

    Notes
    -----
    Source: deck D1: on a K40 about 100 lines must be in flight, and 64 warps with one line each
    have 64. So threads load several elements.

    Examples
    --------
    >>> from gpuopt.models import in_flight
    >>> found = in_flight("k40")
    >>> round(found.lines), found.most_warps, round(found.share, 2)
    (101, 64, 0.64)
    """
    name = preset.removeprefix("sim:") if isinstance(preset, str) else preset
    rows = {row["name"]: row for row in _core.presets()}
    if name not in rows:
        raise ValueError(unknown_name("preset", preset, "a preset", rows))
    row = rows[name]
    cycles = MEMORY_LATENCY.get(name) if latency is None else latency
    if cycles is None or not math.isfinite(cycles) or cycles <= 0:
        raise ValueError(
            f"latency: {'none is published for ' + name if cycles is None else f'{cycles} is'}"
            f"{'' if cycles is None else ' not a number of cycles'}; pass the cycles of a load"
        )
    rate = row["bandwidth_gbs"] / row["clock_ghz"] / row["multiprocessors"]  # bytes per cycle
    needed = rate * cycles
    lines = needed / LINE
    return InFlight(needed, lines, row["warps"], min(1.0, row["warps"] / lines))
