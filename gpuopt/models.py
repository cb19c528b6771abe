"""The decks' arithmetic: bounds on a GPU's performance, without running anything.

Peaks, occupancy, Little's law, Brent's theorem, the roofline, coalescing and bank conflicts, each a
function of plain numbers. The decks' own figures are its examples and its tests.

>>> import gpuopt
>>> round(gpuopt.models.littles_law(latency=24, rate=8))  # operations in flight that fill a G80
192
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from gpuopt import _core
from gpuopt.catalog.devices import Device, device as describe_device
from gpuopt.catalog.latency import InFlight, Pipeline, in_flight, pipeline
from gpuopt.util.checks import whole

__all__ = [
    "GPUS",
    "WARP",
    "Gpu",
    "InFlight",
    "Occupancy",
    "Passes",
    "Pipeline",
    "Transaction",
    "Transactions",
    "Tree",
    "bank_conflicts",
    "bank_groups",
    "brent",
    "cost",
    "gpu",
    "in_flight",
    "littles_law",
    "occupancy",
    "peak_bandwidth",
    "peak_flops",
    "pipeline",
    "roofline_bound",
    "transaction_list",
    "transactions",
    "tree_reduction",
]

WARP = 32  # lanes
_PREFER_L1 = 16384  # bytes of shared memory that remain


@dataclass(frozen=True)
class Gpu:
    """The limits of a multiprocessor, and its rule of coalescing.

    Attributes
    ----------
    name, title : str
    compute_capability : str
    warps, blocks : int
        Resident on a multiprocessor at most.
    threads_per_block : int
    registers, register_unit, warp_unit : int
        32-bit registers of a multiprocessor; the unit of their allocation to a warp (to a block if
        `registers_by_block`); and the number of warps that the register file serves together.
    shared, shared_per_block, shared_unit, shared_reserved : int
        Bytes of shared memory of a multiprocessor and, at most, of a block; the unit of their
        allocation; and the bytes of every block that the system reserves.
    banks, bank_lanes : int
        Banks of shared memory, and the lanes served together: 16 is a half-warp.
    bank_bytes : int
        Width of a bank: 4, and 8 on Kepler, where words i and i + 32 of 64 do not conflict.
    coalescing : {"strict", "segments", "lines", "sectors"}
        The rule of compute capability 1.0 and 1.1, 1.2 and 1.3, 2.x, and since.
    """

    name: str
    title: str
    compute_capability: str
    warps: int
    blocks: int
    threads_per_block: int
    registers: int
    register_unit: int
    warp_unit: int
    registers_by_block: bool
    shared: int
    shared_per_block: int
    shared_unit: int
    shared_reserved: int
    banks: int
    bank_lanes: int
    bank_bytes: int
    coalescing: str


def _gpu(row: dict[str, Any]) -> Gpu:
    """Return a preset's limits, from its row of csrc/sim/core/sim_preset.def."""
    values = {field.name: row[field.name] for field in fields(Gpu)}
    values["compute_capability"] = "{}.{}".format(*divmod(row["compute_capability"], 10))
    values["coalescing"] = row["coalescing"].lower()
    return Gpu(**values)


GPUS = {row["name"]: _gpu(row) for row in _core.presets()}


def gpu(which: str | Device | Gpu) -> Gpu:
    """Return the limits of a GPU.

    Parameters
    ----------
    which : str, Device or Gpu
        A preset (a key of `GPUS`: "g80", "gt200", "m2090", "k40", "v100", "t4", "a100", "a10",
        "l4", "h200", "b200", "rtx5090"), also as the name of its device, "sim:g80"; or a device of
        `gpuopt.devices`, which counts as the preset of its compute capability.

    Returns
    -------
    Gpu

    Raises
    ------
    ValueError
        No such preset, or a compute capability that none has.
    TypeError
        Something else.

    Examples
    --------
    >>> from gpuopt.models import gpu
    >>> gpu("h200").warps, gpu("g80").shared_per_block
    (64, 16384)
    """
    if isinstance(which, Gpu):
        return which
    if isinstance(which, Device):
        for each in GPUS.values():
            if each.compute_capability == which.compute_capability:
                return each
        raise ValueError(
            f"gpu: nothing is known of compute capability {which.compute_capability or 'none'} "
            f"({which.name}); use one of {', '.join(GPUS)}"
        )
    if not isinstance(which, str):
        raise TypeError(f"gpu: must be a preset's name or a device, not {which!r:.60}")
    name = which
    if which == "sim":  # its default
        name = describe_device(which).name
    name = name.removeprefix("sim:")
    if name not in GPUS:
        raise ValueError(f"gpu: {which!r:.60} is not a preset; use one of {', '.join(GPUS)}")
    return GPUS[name]


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, Real):
            raise TypeError(f"{name}: must be a number, not {value!r:.60}")
        if not value > 0:
            raise ValueError(f"{name}: must be more than 0, not {value!r}")


def peak_bandwidth(bus_bits: int, clock: float, transfers: int = 2) -> float:
    """Return a memory's peak bandwidth.

    Parameters
    ----------
    bus_bits : int
        The width of the bus.
    clock : float
        The memory's clock in Hz.
    transfers : int
        Transfers per cycle: 2 for double data rate.

    Returns
    -------
    float
        Bytes per second.

    Raises
    ------
    ValueError
        An argument that is not more than 0.
    TypeError
        An argument that is no number.

    Notes
    -----
    Source: decks D0, D2 and D4. D4's GTX 280 is overclocked; the preset "gt200" has the reference
    card's 141.7 GB/s.

    Examples
    --------
    >>> from gpuopt.models import peak_bandwidth
    >>> peak_bandwidth(384, 900e6) / 1e9  # G80
    86.4
    >>> peak_bandwidth(512, 1.14e9) / 1e9  # deck D4's GTX 280
    145.92
    """
    _positive(bus_bits=bus_bits, clock=clock, transfers=transfers)
    return bus_bits / 8 * clock * transfers


def peak_flops(lanes: int, clock: float, flops: int = 2) -> float:
    """Return a processor's peak rate of floating-point operations.

    Parameters
    ----------
    lanes : int
        Arithmetic units of the whole chip.
    clock : float
        In Hz.
    flops : int
        Operations per unit and cycle: 2 for a fused multiply-add.

    Returns
    -------
    float
        Operations a second.

    Raises
    ------
    ValueError
        An argument that is not more than 0.
    TypeError
        An argument that is no number.

    Notes
    -----
    Source: deck D2.

    Examples
    --------
    >>> from gpuopt.models import peak_flops
    >>> peak_flops(512, 1.3e9) / 1e12  # Tesla M2090
    1.3312
    """
    _positive(lanes=lanes, clock=clock, flops=flops)
    return lanes * clock * flops


def roofline_bound(intensity: float, bandwidth: float, peak: float = math.inf) -> float:
    """Return the rate that the roofline allows.

    Parameters
    ----------
    intensity : float
        Operations per byte moved.
    bandwidth : float
        The memory's bandwidth in bytes per second.
    peak : float
        The processor's peak rate in operations per second.

    Returns
    -------
    float
        Operations a second.

    Raises
    ------
    ValueError
        An argument that is not more than 0.
    TypeError
        An argument that is no number.

    Notes
    -----
    Source: deck D2, for matmul on a Tesla M2090: naive 0.25 flops a byte from 177 GB/s; from shared
    memory, at 1.3 TB/s, 4 flops for 3 words, 8 for 5, 16 for 9.

    Examples
    --------
    >>> from gpuopt.models import roofline_bound
    >>> roofline_bound(2 / 8, 177e9) / 1e9
    44.25
    >>> round(roofline_bound(16 / (9 * 4), 1.3e12) / 1e9)
    578
    """
    _positive(intensity=intensity, bandwidth=bandwidth, peak=peak)
    return min(peak, intensity * bandwidth)


def littles_law(latency: float, rate: float) -> float:
    """Return the concurrency that keeps a pipeline full: latency times rate (Little's law).

    Parameters
    ----------
    latency : float
        Cycles, or seconds.
    rate : float
        Operations, bytes or threads in the same unit of time.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        An argument that is not more than 0.
    TypeError
        An argument that is no number.

    Notes
    -----
    Source: deck D2: a multiprocessor of a G80 has 8 lanes and a latency of 24 cycles.

    Examples
    --------
    >>> from gpuopt.models import littles_law
    >>> littles_law(24, 8)  # threads: 6 warps
    192
    """
    _positive(latency=latency, rate=rate)
    return latency * rate


def brent(work: float, depth: float, processors: float) -> float:
    """Return Brent's bound on the time of a parallel computation.

    Parameters
    ----------
    work : float
        The total number of operations.
    depth : float
        Operations on the critical path; at most `work`.
    processors : float

    Returns
    -------
    float
        depth + (work - depth) / processors: an upper bound on the steps.

    Raises
    ------
    ValueError
        An argument that is not more than 0; a depth larger than the work, or infinite.
    TypeError
        An argument that is no number.

    Notes
    -----
    Source: deck D4.

    Examples
    --------
    >>> from gpuopt.models import brent
    >>> brent(10, 6, 2)
    8.0
    """
    _positive(work=work, depth=depth, processors=processors)
    if depth > work:
        raise ValueError(f"depth: {depth!r} is more than the work, {work!r}")
    if math.isinf(depth):
        raise ValueError("depth: must be finite")
    return depth + (work - depth) / processors


def cost(work: float, depth: float, processors: float) -> float:
    """Return the cost of a parallel computation: its processors times its time.

    A computation is cost-optimal if its cost is a small multiple of its work. A tree sum by n
    processors costs about n log2 n. With n / log2 n processors, each of which first adds up log2 n
    elements, it costs 2 n.

    Parameters
    ----------
    work, depth, processors : float
        As `brent`, whose bound is used as the time.

    Returns
    -------
    float

    Raises
    ------
    ValueError, TypeError
        As `brent`.

    Notes
    -----
    Source: deck D4, algorithm cascading.

    Examples
    --------
    >>> from gpuopt.models import cost
    >>> n, depth = 2**22, 22
    >>> round(cost(n, depth, n) / n), round(cost(n, depth, n / depth) / n)
    (23, 2)
    """
    return processors * brent(work, depth, processors)


@dataclass(frozen=True)
class Tree:
    """A tree that reduces elements to one.

    Attributes
    ----------
    steps : int
        Levels: the depth.
    operations : int
        Combinations of two: always one less than the elements.
    nodes : int
        Groups that are combined, on all levels.
    accesses : int
        Elements read and written: every level reads the remaining ones and writes one per group.
    """

    steps: int
    operations: int
    nodes: int
    accesses: int


def tree_reduction(n: int, degree: int = 2) -> Tree:
    """Describe the reduction of n elements by a tree of some degree.

    Parameters
    ----------
    n : int
        Items, at least 1.
    degree : int
        Elements that become one, at least 2.

    Returns
    -------
    Tree

    Raises
    ------
    TypeError
        No integers.
    ValueError
        Too few elements, or too small a degree.

    Notes
    -----
    Source: deck D4: log2 N steps and N - 1 operations; log_k N steps for degree k. It counts the
    accesses of blocks of 128 threads, which are groups of 128.

    Examples
    --------
    >>> from gpuopt.models import tree_reduction
    >>> tree_reduction(2**22)
    Tree(steps=22, operations=4194303, nodes=4194303, accesses=12582909)
    """
    n, degree = whole(n, "n", 1), whole(degree, "degree", 2)
    steps = nodes = accesses = 0
    left = n
    while left > 1:
        steps += 1
        nodes += left // degree + (left % degree > 1)  # one element alone just moves on
        accesses += left
        left = -(-left // degree)
        accesses += left
    return Tree(steps, n - 1, nodes, accesses)


@dataclass(frozen=True)
class Occupancy:
    """The occupancy of a multiprocessor.

    Attributes
    ----------
    blocks, warps : int
        Resident on a multiprocessor.
    max_warps : int
    limits : dict of str to int
        The blocks that each limiter alone would allow: "threads", "blocks", "registers", "shared".
    limiter : str
        The one that binds; of several, the first in that order.

    Examples
    --------
    >>> import gpuopt
    >>> float(gpuopt.occupancy("m2090", 256, registers=32))
    0.6666666666666666
    """

    blocks: int
    warps: int
    max_warps: int
    limits: dict[str, int]
    limiter: str

    @property
    def occupancy(self) -> float:
        """Return the resident warps as a fraction of the maximum."""
        return self.warps / self.max_warps

    def __float__(self) -> float:
        """Return the occupancy."""
        return self.occupancy


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(
    which: str | Device | Gpu,
    threads: int,
    *,
    registers: int = 0,
    shared: int = 0,
    prefer_l1: bool = False,
) -> Occupancy:
    """Return the occupancy of a kernel: resident blocks and warps, and the limiting resource.

    Parameters
    ----------
    which : str, Device or Gpu
        As `gpu`.
    threads : int
        Threads per block.
    registers : int
        Registers per thread; 0: ignored.
    shared : int
        Bytes of shared memory a block, static and dynamic.
    prefer_l1 : bool
        Fermi and Kepler split 64 KB of a multiprocessor: 16 KB of shared memory and 48 KB of first
        cache, instead of the reverse (``cudaFuncCachePreferL1``).

    Returns
    -------
    Occupancy

    Raises
    ------
    TypeError
        No integers.
    ValueError
        More than a block may have, or less than nothing; `prefer_l1` on a GPU without the choice.

    Notes
    -----
    Source: decks D0, D2 and D3, and NVIDIA's occupancy calculator for how registers and shared
    memory are allocated.

    Examples
    --------
    >>> from gpuopt.models import occupancy
    >>> found = occupancy("m2090", 256, shared=32 * 1024)  # the example of deck D0
    >>> found.warps, found.max_warps, found.limiter
    (8, 48, 'shared')
    >>> occupancy("m2090", 256, shared=8192, prefer_l1=True).blocks  # 6 with 48 KB
    2
    """
    limits = gpu(which)
    if prefer_l1:
        if limits.compute_capability[0] not in "23":
            raise ValueError(
                f"prefer_l1: {limits.title} does not split 64 KB between shared memory and the "
                "first cache; Fermi and Kepler do ('m2090', 'k40')"
            )
        limits = replace(limits, shared=_PREFER_L1, shared_per_block=_PREFER_L1)
    threads = whole(threads, "threads", 1, limits.threads_per_block)
    shared = whole(shared, "shared", 0, limits.shared_per_block)
    registers = whole(registers, "registers", 0, 255)
    warps = -(-threads // WARP)
    if not registers:
        by_registers = limits.blocks
    elif limits.registers_by_block:
        taken = _up(_up(warps, limits.warp_unit) * WARP * registers, limits.register_unit)
        by_registers = limits.registers // taken
    else:
        fitting = limits.registers // _up(WARP * registers, limits.register_unit)
        by_registers = fitting // limits.warp_unit * limits.warp_unit // warps
    taken = _up(shared + limits.shared_reserved, limits.shared_unit)
    allowed = {
        "threads": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": by_registers,
        "shared": limits.shared // taken if taken else limits.blocks,
    }
    blocks = min(allowed.values())
    limiter = next(name for name, value in allowed.items() if value == blocks)
    return Occupancy(blocks, blocks * warps, limits.warps, allowed, limiter)


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
