"""The decks' arithmetic: bounds on a GPU's performance, without running anything.

Peaks, occupancy, Little's law, Brent's theorem, the roofline, coalescing and bank conflicts, each a
function of plain numbers. The decks' own figures are its examples and its tests.

>>> import gpuopt
>>> round(gpuopt.models.littles_law(latency=24, rate=8))  # operations in flight that fill a G80
192
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real

from gpuopt.catalog.devices import Device
from gpuopt.catalog.host_link import Link, host_link, transfer
from gpuopt.catalog.latency import InFlight, Pipeline, in_flight, pipeline
from gpuopt.catalog.limits import GPUS, WARP, Gpu, gpu
from gpuopt.catalog.memory_rules import (
    Passes,
    Transaction,
    Transactions,
    bank_conflicts,
    bank_groups,
    transaction_list,
    transactions,
)
from gpuopt.util.checks import whole
from gpuopt.util.names import suggests

__all__ = [
    "GPUS",
    "WARP",
    "Gpu",
    "InFlight",
    "Link",
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
    "host_link",
    "in_flight",
    "littles_law",
    "occupancy",
    "peak_bandwidth",
    "peak_flops",
    "pipeline",
    "roofline_bound",
    "transaction_list",
    "transactions",
    "transfer",
    "tree_reduction",
]

_PREFER_L1 = 16384  # bytes of shared memory that remain


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, Real):
            raise TypeError(f"{name}: must be a number, not {value!r:.60}")
        if not value > 0:
            raise ValueError(f"{name}: must be more than 0, not {value!r}")


@suggests
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


@suggests
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
        Operations per second.

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


@suggests
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
        Operations per second.

    Raises
    ------
    ValueError
        An argument that is not more than 0.
    TypeError
        An argument that is no number.

    Notes
    -----
    Source: deck D2, for matmul on a Tesla M2090: naive 0.25 flops per byte from 177 GB/s; from
    shared memory, at 1.3 TB/s, 4 flops for 3 words, 8 for 5, 16 for 9.

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


@suggests
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


@suggests
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


@suggests
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


@suggests
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


@suggests
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
        Bytes of shared memory per block, static and dynamic.
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
