"""Orders of warps: the shortest one that changes what a kernel does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuopt.observe.launches import Delay
from gpuopt.observe.profile import Profile
from gpuopt.ptx.buffers import copied
from gpuopt.ptx.kernel import Kernel
from gpuopt.util.errors import SimError
from gpuopt.util.names import suggests

RUNS = 400  # the most launches that the shortening takes


@dataclass(frozen=True)
class Order:
    """An order of warps, as the launch option ``schedule=`` runs it again.

    Without a delay each warp runs until it waits, the one that began first. A delayed warp stands
    back, before one of its accesses to memory, until all others have run as far as they can.

    Attributes
    ----------
    delays : tuple of Delay
        The departures from the order without delays. None of them can be left out.
    seed : int or None
        The random order that they were found in; None if no order changed anything.
    changed : str
        The difference: "argument 2: 31 of 1,024 elements, ...", a finding, or an error.
    runs : int
        How many launches were made.

    Examples
    --------
    >>> import gpuopt
    >>> order = gpuopt.Order(delays=(), seed=None, changed="", runs=33)
    >>> print(order)
    no order of 33 launches changed the result
    """

    delays: tuple[Delay, ...]
    seed: int | None
    changed: str
    runs: int

    def __bool__(self) -> bool:
        return self.seed is not None

    def __str__(self) -> str:
        if self.seed is None:
            return f"no order of {self.runs} launches changed the result"
        listed = "\n".join(f"  {each}" for each in self.delays)
        return f"{self.changed}, if\n{listed}"


class _Outcome(NamedTuple):
    arrays: list[np.ndarray]
    numbers: list[int]
    findings: dict[tuple[str, str, int], str]
    error: str
    delays: tuple[Delay, ...]


class _Runs:
    """Launches of one kernel from one state."""

    def __init__(self, kernel: Kernel, extents: Any, args: tuple, keywords: dict) -> None:
        self.kernel, self.extents, self.keywords = kernel, extents, keywords
        self.args = tuple(copied(each) for each in args)
        self.ids = [id(each) for each in args]
        self.count = 0

    def __call__(self, schedule: int | Sequence[Delay]) -> _Outcome:
        self.count += 1
        copies: dict[int, Any] = {}
        fresh = []
        for key, kept in zip(self.ids, self.args, strict=True):
            if key not in copies:
                copies[key] = copied(kept)
            fresh.append(copies[key])
        profiled = Profile(self.kernel.module.device, collecting=True)
        error = ""
        with profiled:
            try:
                self.kernel(*self.extents, *fresh, schedule=schedule, **self.keywords)
            except SimError as failed:
                error = str(failed)
        written = [
            (i, each)
            for i, each in enumerate(fresh, 1)
            if isinstance(each, np.ndarray) and each.flags.writeable
        ]
        found = {(each.kind, each.file or "", each.line): each.text for each in profiled.findings}
        delays = tuple(each for launch in profiled.launches for each in launch.delays)
        return _Outcome(
            [each for _, each in written], [i for i, _ in written], found, error, delays
        )


def _elements(one: np.ndarray, other: np.ndarray, rtol: float) -> str:
    if rtol and one.dtype.kind in "fc":
        same = np.isclose(one, other, rtol=rtol, atol=0, equal_nan=True)
    else:
        same = (one == other) | ((one != one) & (other != other))
    wrong = np.flatnonzero(~same)
    if not wrong.size:
        return ""
    first = np.unravel_index(wrong[0], one.shape)
    place = ", ".join(map(str, first))
    return (
        f"{wrong.size:,} of {one.size:,} elements, the first at [{place}]: "
        f"{other[first]} instead of {one[first]}"
    )


def _change(base: _Outcome, other: _Outcome, rtol: float) -> str:
    """Return the first difference; "": there is none."""
    new = [text for key, text in other.findings.items() if key not in base.findings]
    if new:
        return new[0]
    if other.error != base.error:
        return other.error or f"without the error of the order without delays ({base.error})"
    for number, one, two in zip(base.numbers, base.arrays, other.arrays, strict=True):
        told = _elements(one, two, rtol)
        if told:
            return f"argument {number}: {told}"
    return ""


def _shortened(
    runs: _Runs, base: _Outcome, delays: list[Delay], rtol: float
) -> tuple[list[Delay], str]:
    """Leave out delays as long as the rest changes something (Zeller's ddmin)."""
    changed = _change(base, runs(delays), rtol)
    parts = 2
    while len(delays) > 1 and runs.count < RUNS:
        size = -(-len(delays) // parts)
        pieces = [delays[i : i + size] for i in range(0, len(delays), size)]
        rests = [[each for piece in pieces if piece is not out for each in piece] for out in pieces]
        for tried in pieces + (rests if len(pieces) > 2 else []):
            told = _change(base, runs(tried), rtol)
            if told:
                parts = 2 if len(tried) <= size else max(parts - 1, 2)
                delays, changed = tried, told
                break
        else:
            if parts >= len(delays):
                break
            parts = min(2 * parts, len(delays))
    return delays, changed


@suggests
def shortest_order(
    kernel: Kernel,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *args: Any,
    seeds: int | Iterable[int] = 32,
    rtol: float = 0.0,
    **keywords: Any,
) -> Order:
    """Search for an order of warps that changes what a kernel does, and shorten it.

    The kernel runs in random orders (``schedule=seed``) until its result differs from that of the
    order without delays, or another finding or error comes up. Then delays are left out, by delta
    debugging, until every one that remains is needed. The arguments are not changed.

    Parameters
    ----------
    kernel : Kernel
        A kernel on a simulated GPU.
    grid, block, *args, **keywords
        As for a launch, without `stream` and `schedule`.
    seeds : int or iterable of int
        How many random orders to try, or which.
    rtol : float
        Elements of floating-point arrays that differ relatively by less are equal. 0: any
        difference counts, also that of sums in another order.

    Returns
    -------
    Order
        False in a condition if nothing changed.

    Raises
    ------
    TypeError, ValueError
        `kernel` is no kernel on a simulated GPU; as for a launch.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> ptx = '''.version 8.0 .target sm_75 .address_size 64
    ... .visible .entry last(.param .u64 p) { .reg .u64 %p; .reg .u32 %b;
    ... ld.param.u64 %p, [p]; mov.u32 %b, %ctaid.x; st.global.u32 [%p], %b; ret; }'''
    >>> last = gpuopt.load_ptx(ptx, device="sim")["last"]
    >>> order = gpuopt.shortest_order(last, 4, 1, np.zeros(1, np.uint32), seeds=[4])
    >>> len(order.delays)
    1
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel: must be a Kernel of a Module, not {kernel!r:.60}")
    if not kernel.module.device.startswith("sim"):
        raise ValueError(f"kernel: its module is on {kernel.module.device}, not a simulated GPU")
    if {"stream", "schedule"} & keywords.keys():
        raise TypeError("stream, schedule: not here; the orders are chosen by seeds")
    runs = _Runs(kernel, (grid, block), args, keywords)
    base = runs([])
    for seed in range(1, seeds + 1) if isinstance(seeds, int) else seeds:
        found = runs(seed)
        changed = _change(base, found, rtol)
        if changed:
            delays, told = _shortened(runs, base, list(found.delays), rtol)
            return Order(tuple(delays), seed, told or changed, runs.count)
    return Order((), None, "", runs.count)
