"""How one access of a warp is served: transactions of global memory, passes of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuopt.catalog.devices import Device
from gpuopt.catalog.limits import WARP, Gpu, gpu
from gpuopt.util.checks import whole
from gpuopt.util.names import suggests


@dataclass(frozen=True)
class Transactions:
    """The cost of a warp's access to global memory.

    Attributes
    ----------
    count : int
        Transactions.
    moved : int
        The bytes that they move.
    """

    count: int
    moved: int


@dataclass(frozen=True)
class Transaction:
    """One transaction of an access to global memory: its first byte, its bytes, and its lanes."""

    start: int
    size: int
    lanes: tuple[int, ...]


def _strict(lanes: list[tuple[int, int]], size: int) -> list[Transaction]:
    """Apply the rule of 1.0 and 1.1 to a half-warp: in order in one region, or each alone."""
    starts = {address - lane % 16 * size for lane, address in lanes}
    start = min(starts)
    if size not in (4, 8, 16) or len(starts) > 1 or start % (16 * size):
        return [Transaction(address // 32 * 32, 32, (lane,)) for lane, address in lanes]
    parts = 2 if size == 16 else 1
    each = 16 // parts
    return [
        Transaction(
            start + part * each * size,
            each * size,
            tuple(lane for lane, _ in lanes if lane % 16 // each == part),
        )
        for part in range(parts)
    ]


def _segments(lanes: list[tuple[int, int]], size: int) -> list[Transaction]:
    """Apply the rule of 1.2 and 1.3 to a half-warp: segments, halved while one half is used."""
    segment = {1: 32, 2: 64}.get(size, 128)
    found = []
    left = lanes
    while left:
        start, span = left[0][1] // segment * segment, segment
        here = [each for each in left if each[1] // segment * segment == start]
        left = [each for each in left if each[1] // segment * segment != start]
        low, high = min(at for _, at in here), max(at for _, at in here) + size - 1
        while span > 32 and (high < start + span // 2 or low >= start + span // 2):
            start += span // 2 if low >= start + span // 2 else 0
            span //= 2
        found.append(Transaction(start, span, tuple(lane for lane, _ in here)))
    return found


def _pieces(lanes: list[tuple[int, int]], piece: int) -> list[Transaction]:
    """Apply the rule of 2.x and later to a warp: the lines or sectors that it touches."""
    found: dict[int, list[int]] = {}
    for lane, address in lanes:
        found.setdefault(address // piece * piece, []).append(lane)
    return [Transaction(start, piece, tuple(here)) for start, here in sorted(found.items())]


def _written(line: Transaction, addresses: dict[int, int]) -> Transaction:
    """Return a line's transaction, reduced to the sectors that its lanes touch."""
    sectors = {addresses[lane] // 32 for lane in line.lanes}
    return Transaction(32 * min(sectors), 32 * len(sectors), line.lanes)


def _lanes(addresses: Sequence[int | None], size: int) -> list[tuple[int, int]]:
    """Return the lanes that take part in an access, and their addresses."""
    if size not in (1, 2, 4, 8, 16):
        raise ValueError(f"size: must be 1, 2, 4, 8 or 16 bytes, not {size!r:.60}")
    try:
        each_lane = list(addresses)
    except TypeError:
        raise TypeError(f"addresses: must be a sequence, not {addresses!r:.60}") from None
    if len(each_lane) > WARP:
        raise ValueError(f"addresses: a warp has {WARP} lanes, not {len(each_lane)}")
    active = [
        (lane, whole(each, "addresses", 0))
        for lane, each in enumerate(each_lane)
        if each is not None
    ]
    if any(each % size for _, each in active):
        raise ValueError(f"addresses: must be multiples of the size, {size}")
    return active


@suggests
def transactions(
    which: str | Device | Gpu, addresses: Sequence[int | None], size: int = 4
) -> Transactions:
    """Return the transactions of a warp's access to global memory, by a GPU's coalescing rule.

    Parameters
    ----------
    which : str, Device or Gpu
        As `gpu`.
    addresses : sequence of int or None
        The byte address of each lane, at most 32; None for a lane that does not take part.
    size : int
        Bytes that a lane accesses: 1, 2, 4, 8 or 16.

    Returns
    -------
    Transactions
        Compute capability 1.0 and 1.1: one per half-warp (two for 16-byte words) if the lanes
        access consecutive words of an aligned region, else one per lane. 1.2 and 1.3: segments of
        32 to 128 bytes per half-warp. 2.x: 128-byte lines per warp. Since 3.0: 32-byte sectors per
        warp.

    Raises
    ------
    TypeError
        An address that is no integer.
    ValueError
        More than 32 addresses, another size, or an address that is not a multiple of it.

    Notes
    -----
    Source: decks D0 and D3, and the CUDA C Programming Guide, compute capabilities 1.x to 3.x.

    Examples
    --------
    >>> from gpuopt.models import transactions
    >>> shifted = [4 * lane + 4 for lane in range(32)]
    >>> [transactions(name, shifted).count for name in ("g80", "gt200", "m2090", "h200")]
    [32, 3, 2, 5]
    """
    found = transaction_list(which, addresses, size)
    return Transactions(len(found), sum(each.size for each in found))


@suggests
def transaction_list(
    which: str | Device | Gpu,
    addresses: Sequence[int | None],
    size: int = 4,
    *,
    store: bool = False,
) -> list[Transaction]:
    """Return each transaction of a warp's access, as `transactions` counts them.

    Parameters
    ----------
    which, addresses, size
        As `transactions`.
    store : bool
        Compute capability 2.x loads whole lines, and stores the sectors of a line.

    Returns
    -------
    list of Transaction

    Raises
    ------
    TypeError, ValueError
        As `transactions`.

    Examples
    --------
    >>> from gpuopt.models import transaction_list
    >>> swapped = [4 * (lane ^ 1) for lane in range(16)]
    >>> len(transaction_list("g80", swapped)), transaction_list("gt200", swapped)[0].size
    (16, 64)
    """
    rule = gpu(which).coalescing
    active = _lanes(addresses, size)
    if rule == "lines":
        lines = _pieces(active, 128)
        return [_written(each, dict(active)) for each in lines] if store else lines
    if rule == "sectors":
        return _pieces(active, 32)
    halves = [[each for each in active if each[0] // 16 == half] for half in (0, 1)]
    by_rule = _strict if rule == "strict" else _segments
    return [each for half in halves if half for each in by_rule(half, size)]


@dataclass(frozen=True)
class Passes:
    """The cost of a warp's access to shared memory.

    Attributes
    ----------
    passes : int
        Through the banks ("wavefronts").
    conflicts : int
        Passes beyond the least that the access needs.
    ways : int
        Different words in the fullest bank, at one time: 2 for a 2-way conflict.
    """

    passes: int
    conflicts: int
    ways: int


@suggests
def bank_groups(
    which: str | Device | Gpu, addresses: Sequence[int | None], size: int = 4
) -> list[dict[int, dict[int, list[int]]]]:
    """Return which lanes access which bank of shared memory.

    Parameters
    ----------
    which, addresses, size
        As `bank_conflicts`.

    Returns
    -------
    list of dict
        For each group of lanes that is served together: lanes by row by bank. A row is what a bank
        delivers in one pass, named by its first word: a bank with two rows is a 2-way conflict.

    Raises
    ------
    TypeError, ValueError
        As `transactions`.

    Examples
    --------
    >>> from gpuopt.models import bank_groups
    >>> bank_groups("h200", [0, 128, 0])
    [{0: {0: [0, 2], 32: [1]}}]
    """
    limits = gpu(which)
    words = max(1, size // 4)
    each_bank = limits.bank_bytes // 4
    lanes = limits.bank_lanes // max(1, words // each_bank)
    groups: dict[int, dict[int, dict[int, list[int]]]] = {}
    for lane, address in _lanes(addresses, size):
        for word in range(address // 4, address // 4 + words):
            row = word - word // limits.banks % each_bank * limits.banks
            bank = groups.setdefault(lane // lanes, {}).setdefault(word % limits.banks, {})
            bank.setdefault(row, []).append(lane)
    return [group for _, group in sorted(groups.items())]


@suggests
def bank_conflicts(
    which: str | Device | Gpu, addresses: Sequence[int | None], size: int = 4
) -> Passes:
    """Return the passes of a warp's access to shared memory.

    Parameters
    ----------
    which : str, Device or Gpu
        As `gpu`.
    addresses : sequence of int or None
        The byte address of each lane, at most 32; None for a lane that does not take part.
    size : int
        Bytes that a lane accesses: 1, 2, 4, 8 or 16. Words of 8 bytes are served to half as many
        lanes at a time, of 16 to a quarter; on Kepler to all lanes, and to half of them.

    Returns
    -------
    Passes

    Raises
    ------
    TypeError, ValueError
        As `transactions`.

    Notes
    -----
    A word is broadcast to all lanes that read it. Source: decks D0 and D3; for Kepler D1's
    profile and the CUDA C Programming Guide, compute capability 3.x, in its 4-byte mode.

    Examples
    --------
    >>> from gpuopt.models import bank_conflicts
    >>> column = [4 * 32 * lane for lane in range(32)]  # of a tile of 32 x 32 words
    >>> [bank_conflicts(name, column).passes for name in ("h200", "k40")]
    [32, 16]
    >>> bank_conflicts("h200", [4 * 33 * lane for lane in range(32)]).passes
    1
    """
    passes = least = ways = 0
    for group in bank_groups(which, addresses, size):
        fullest = max(map(len, group.values()))
        passes += fullest
        least += 1
        ways = max(ways, fullest)
    return Passes(passes, passes - least, ways)
