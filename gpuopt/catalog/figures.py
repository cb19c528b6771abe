"""Figures of each GPU for predicted times: latencies, throughputs, attainable bandwidths.

One row for each preset of csrc/sim/core/sim_preset.def, which has the clocks and the peaks. Rates
per multiprocessor are those of the CUDA programming guide, "Arithmetic instructions". The other
figures are of the row's `source`; none was fitted on a row of a table that it is tested with.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """Figures of a GPU that a prediction needs, beside its preset.

    Attributes
    ----------
    issue : float
        Warp instructions that a multiprocessor issues per clock.
    integer_lanes, multiply_lanes, special_lanes : int
        Results per clock of a multiprocessor: integer additions, 32-bit integer multiplications,
        special functions.
    divide_slots : int
        Instructions of a 32-bit integer division or remainder.
    alu, shared, l1, l2, dram : int
        Latencies in clocks: of arithmetic, and of loads by the memory that has the data. 0: there
        is no such cache.
    barrier : int
        Clocks from the last warp's arrival at a block's barrier to the next instruction.
    wavefront, line : float
        Clocks of a multiprocessor for a pass through shared memory, and for one 128-byte line of an
        access to global memory.
    l2_gbs : float
        Bandwidth of L2 in GB/s; 0: there is none.
    read, copy : float
        Attainable fraction of DRAM's peak: where all is read, and where half is written.
    launch, filling : float
        Seconds that a launch costs, and that its blocks cost more if they fill the GPU.
    queued : float
        Seconds that each launch costs more in a stream than in a CUDA graph.
    source : str
    atomics, all_atomics : float
        Passes of atomic operations per ns: of 512 bytes, which one slice of L2 serves, and of the
        whole L2. 0: not known.
    """

    issue: float
    integer_lanes: int
    multiply_lanes: int
    special_lanes: int
    divide_slots: int
    alu: int
    shared: int
    l1: int
    l2: int
    dram: int
    barrier: int
    wavefront: float
    line: float
    l2_gbs: float
    read: float
    copy: float
    launch: float
    filling: float
    queued: float
    source: str
    atomics: float = 0.0
    all_atomics: float = 0.0


# A launch in a graph: an H200 takes 0.51 us for an empty block, and 0.76 for one that loads and
# stores, of which its load's latency is 0.14. A full GPU: fitted on 84 kernels' times in a graph
# (tests/observe). A stream: on an H100 the median of forty kernels' times in one, less those in a
# graph (0.8 to 2.0 us). The older GPUs' are a stream's.
_OLD, _NEW = (5e-6, 0.0, 0.0), (0.7e-6, 1.0e-6, 0.95e-6)

# Atomic operations: an H100's, on one word and on a million.
_ATOMICS = (1.37, 85.0)

# fmt: off
# A row's lines: issue and lanes; latencies; wavefront and line; bandwidths and launches.
_ROWS = {
    "g80": (0.25, 8, 2, 2, 33,   24, 36, 0, 0, 500, 24,
        2, 0,   0, 0.866, 0.82, *_OLD,
        "NVIDIA tutorial 2008; Volkov and Demmel, SC 2008 (launches: 3 to 7 us)"),
    "gt200": (0.25, 8, 2, 2, 32,   24, 38, 0, 0, 440, 24,
        2, 0,   0, 0.87, 0.85, *_OLD,
        "Wong et al., ISPASS 2010; launches as G80's"),
    "m2090": (1, 32, 16, 4, 20,   18, 50, 50, 350, 600, 24,
        2, 2,   355, 0.85, 0.85, *_OLD,
        "Volkov, GTC 2010; gpumembench; launches as G80's"),
    "k40": (4, 160, 32, 32, 20,   9, 26, 112, 188, 331, 24,
        1, 2,   339, 0.83, 0.83, *_OLD,
        "PPT-GPU's Kepler table; Jia et al. 2018 (L2); the deck (DRAM); lines as Fermi's"),
    "gtx1080": (4, 128, 43, 32, 20,   6, 24, 82, 216, 545, 24,
        1, 1,   1000, 0.80, 0.80, *_NEW,
        "Jia et al. 2019 (P4, the same chip); L2's and DRAM's bandwidths are estimates"),
    "v100": (4, 64, 64, 16, 20,   4, 19, 28, 193, 425, 24,
        1, 1,   2155, 0.83, 0.83, *_NEW,
        "Jia et al. 2018; launches as H200's"),
    "t4": (4, 64, 64, 16, 20,   4, 21, 32, 234, 424, 24,
        1, 1,   1270, 0.75, 0.75, *_NEW,
        "PPT-GPU; Jia et al. 2019; launches as H200's"),
    "a100": (4, 64, 64, 16, 20,   4, 23, 33, 205, 552, 24,
        1, 1,   5400, 0.87, 0.87, *_NEW,
        "RRZE gpu-benches; launches as H200's"),
    "a10": (4, 64, 64, 16, 20,   4, 23, 33, 205, 552, 24,
        1, 1,   2000, 0.87, 0.87, *_NEW,
        "as A100's; L2's bandwidth is an estimate"),
    "a10g": (4, 64, 64, 16, 20,   4, 23, 33, 205, 552, 24,
        1, 1,   2200, 0.87, 0.87, *_NEW,
        "as A100's; L2's bandwidth is an estimate"),
    "orin": (4, 64, 64, 16, 20,   4, 23, 33, 205, 552, 24,
        1, 1,   500, 0.80, 0.80, *_NEW,
        "as A100's; bandwidths are estimates"),
    "rtx4090": (4, 64, 64, 16, 20,   4, 23, 33, 273, 541, 24,
        1, 1,   5000, 0.90, 0.87, *_NEW,
        "as A100's; latencies of L2 and DRAM, and bandwidths, are estimates"),
    "l4": (4, 64, 64, 16, 20,   4, 23, 33, 205, 552, 24,
        1, 1,   2000, 0.87, 0.87, *_NEW,
        "as A100's; L2's bandwidth is an estimate"),
    "h100": (4, 64, 64, 16, 20,   4, 29, 32, 281, 689, 24,
        1, 1,   9200, 0.93, 0.87, *_NEW,
        "as H200's; DRAM's bandwidths are estimates", *_ATOMICS),
    "h100pcie": (4, 64, 64, 16, 20,   4, 29, 32, 281, 689, 24,
        1, 1,   5500, 0.92, 0.87, *_NEW,
        "RRZE gpu-benches (latencies); bandwidths are estimates; launches as H200's", *_ATOMICS),
    "h200": (4, 64, 64, 16, 20,   4, 29, 32, 281, 689, 24,
        1, 1,   9200, 0.957, 0.893, *_NEW,
        "RRZE gpu-benches (H100: latencies); our measurements (bandwidths, launches)", *_ATOMICS),
    "b200": (4, 64, 64, 16, 20,   4, 29, 32, 281, 689, 24,
        1, 1,   9200, 0.957, 0.893, *_NEW,
        "as H200's"),
    "rtx5090": (4, 64, 64, 16, 20,   4, 29, 32, 281, 689, 24,
        1, 1,   5000, 0.90, 0.87, *_NEW,
        "as H200's; bandwidths are estimates"),
}
# fmt: on
FIGURES = {name: Figures(*row) for name, row in _ROWS.items()}
