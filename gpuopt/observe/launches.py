"""One launch of a kernel: its counters by line and statement, and what the checks found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gpuopt.catalog.devices import device as describe_device
from gpuopt.observe.counters import COLUMNS, NAMES, RATIOS, Counters, share
from gpuopt.observe.scoreboard import Sample, sample_of
from gpuopt.ptx.names import short_name
from gpuopt.util import serialise, texts
from gpuopt.util.table import Column, Table


@dataclass(frozen=True)
class Line:
    """A source line's counters in a launch; `file` is None without a line table."""

    file: str | None
    line: int
    ptx_line: int
    counters: Counters


class Statement:
    """A PTX statement's counters in a launch.

    Attributes
    ----------
    text : str
        The statement, with its guard.
    file : str or None
        The source file; None without a line table.
    line, ptx_line : int
    """

    __slots__ = ("_counters", "_values", "file", "line", "ptx_line", "text")

    def __init__(
        self, text: str, file: str | None, line: int, ptx_line: int, values: bytes
    ) -> None:
        self.text, self.file, self.line, self.ptx_line = text, file, line, ptx_line
        self._values = values
        self._counters: Counters | None = None

    @property
    def values(self) -> bytes:
        """The counters as 64-bit integers, in the order of `counters.NAMES`."""
        return self._values

    @property
    def counters(self) -> Counters:
        """The counters."""
        if self._counters is None:
            self._counters = Counters(memoryview(self._values).cast("Q").tolist())
        return self._counters

    def __repr__(self) -> str:
        return f"<Statement {self.text!r}, {self.counters.warp_instructions:,} warp instructions>"


@dataclass(frozen=True)
class OtherAccess:
    """The second access of a race.

    Attributes
    ----------
    access : {"read", "write"}
    file : str or None
    line, ptx_line : int
        0 if the instruction is not known.
    block, thread : (int, int, int)
    """

    access: str
    file: str | None
    line: int
    ptx_line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """An error that a check found while a kernel ran.

    Attributes
    ----------
    kind : str
        "race in shared memory", "out of bounds", ...
    text : str
        The whole message: the error, its place, and the remedy.
    kernel : str
    file : str or None
        None if the kernel has no line table.
    line, ptx_line : int
    block, thread : (int, int, int)
        The indices of the first offender.
    address : int
        In bytes, in the memory space that `kind` names.
    times : int
        The number of times that this line caused it in this launch. 0: not counted, as of races in
        global memory of several blocks, which depend on the host's threads.
    space : str
        "global", "shared", "local", ...; "" if the finding is not about an access to memory.
    access : str
        "read", "write", "atomic", or "".
    bytes : int
        Bytes that one thread accesses.
    argument : int
        The number of the kernel's argument that the address is in or was formed from, from 1;
        0 if none is known.
    array : str
        Its description, as "float32[1000]", or "".
    item, offset, extent : int
        Bytes of its elements; from its beginning to the address; of the whole. Without an
        argument: of the allocation that is next to the address, 0 if none is.
    other : OtherAccess or None
        The second access of a race.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.arange(1000.0)
    >>> found = gpuopt.check(gpuopt.reduce, x, variant="5-historical")  # a race, as the deck had it
    >>> found[0].kind, found[0].file is not None
    ('race in shared memory', True)
    """

    kind: str
    text: str
    kernel: str
    file: str | None
    line: int
    ptx_line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int
    times: int
    space: str = ""
    access: str = ""
    bytes: int = 0
    argument: int = 0
    item: int = 0
    offset: int = 0
    extent: int = 0
    array: str = ""
    other: OtherAccess | None = None

    @property
    def element(self) -> int | None:
        """The index of the element that was accessed; None if no array is known."""
        size = self.item if self.array else self.bytes
        return self.offset // size if self.extent and size else None

    @property
    def advice(self) -> str:
        """The remedy: the part of the text between the error and its place."""
        before, _, _ = self.text.partition(f", in kernel {self.kernel}")
        return before.partition("; ")[2]


@dataclass(frozen=True)
class Spread:
    """How a launch's work is spread over its blocks, multiprocessors and DRAM.

    Attributes
    ----------
    steps, longest_steps, longest_block : int
        Instructions in sequence of all blocks; those of the longest block; its linear index.
    long_blocks : int
        Blocks with more than 1.25 times the average.
    balance : float
        Busy time of the multiprocessors over that of the busiest, from 0 to 1.
    lone_sectors : int
        32-byte sectors that were read while the other one of their 64 bytes was not touched.
    durations : bytes
        Each block's instructions in sequence, as 64-bit integers; empty if all are about the same.
    """

    steps: int = 0
    longest_steps: int = 0
    longest_block: int = 0
    long_blocks: int = 0
    balance: float = 1.0
    lone_sectors: int = 0
    durations: bytes = field(default=b"", repr=False, metadata=serialise.UNTOLD)


class Delay(NamedTuple):
    """A warp that waits before an access until all others have run as far as they can.

    Attributes
    ----------
    block, warp, access : int
        The linear index of the block, the warp in it, and its accesses to global and shared memory
        before this one.
    file : str or None
    line, ptx_line : int
        The access.
    """

    block: int
    warp: int
    access: int
    file: str | None = None
    line: int = 0
    ptx_line: int = 0

    def __str__(self) -> str:
        name = (self.file or "").rpartition("/")[2]
        where = f"{name}:{self.line}" if name else f"PTX line {self.ptx_line}"
        return f"block {self.block}, warp {self.warp} waits before access {self.access} at {where}"


@dataclass(frozen=True)
class Launch:
    """The counters of one launch of a kernel.

    Attributes
    ----------
    kernel : str
        Its name in the source, ``reduce0<float>``.
    grid, block : (int, int, int)
    shared_bytes : int
        Dynamic shared memory of a block.
    occupancy : float
        Resident warps over the most a multiprocessor holds (theoretical), from 0 to 1.
    limiter : str
        The resource that limits the occupancy.
    achieved_occupancy : float
        Active warps over the most a multiprocessor holds, averaged over the time in which it has
        any, from 0 to 1: sm__warps_active.avg.pct_of_peak_sustained_active. The simulated GPU has
        no clock. In each of its time steps every warp that waits at no barrier executes one
        instruction. A warp is active from its block's start to its own exit. Blocks are placed in
        the order of their indices, round-robin at first, then on the first multiprocessor with
        room. The figure shows partly filled last waves, small grids and warps that exit early; it
        does not model memory latency.
    counters : Counters
    lines : list of Line
    findings : list of Finding
    statements : list of Statement
        The PTX statements that were executed, in the code's order, with their counters: `text`,
        `file`, `line`, `ptx_line`, `counters`. Empty where errors are collected. In `to_dict` they
        are left out.
    sources : dict of str to list of str
        The lines of the text that `gpuopt.compile` compiled, by the name in the line table.
    output : str
        The kernel's printf output, by block and within a block in the order of time; at most 1 MiB
        (256 KiB per block), then a line that reports the cut. A
        launch from Python writes it to sys.stdout, too.
    device : str
        The device that ran it, as "sim:g80".
    spread : Spread
        How its work is spread over blocks, multiprocessors and DRAM.
    registers : int
        A thread's, estimated from the PTX.
    static_shared_bytes : int
        Static shared memory of a block.
    sample : Sample or None
        The instructions of the middle block, for `Profile.predicted`. In `to_dict` it is left out.
    ptx : bytes or None
        The module's PTX; None for gpuopt's own kernels. In `to_dict` it is left out.
    symbol : str
        The kernel's name in the PTX. In `to_dict` it is left out.
    delays : tuple of Delay
        The delays of its ``schedule=``, in order of time.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> launch = gpuopt.profile(gpuopt.reduce, np.arange(1000), variant=3).launches[0]
    >>> launch.grid, launch.block, launch.occupancy
    ((8, 1, 1), (128, 1, 1), 1.0)
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    occupancy: float
    limiter: str
    achieved_occupancy: float
    counters: Counters
    lines: list[Line]
    findings: list[Finding]
    output: str = ""
    device: str = ""
    statements: list[Statement] = field(default_factory=list, repr=False, metadata=serialise.UNTOLD)
    spread: Spread = Spread()
    delays: tuple[Delay, ...] = field(default=(), metadata=serialise.UNTOLD)
    sources: dict[str, list[str]] = field(
        default_factory=dict, repr=False, metadata=serialise.UNTOLD
    )
    sample: Sample | None = field(default=None, repr=False, metadata=serialise.UNTOLD)
    ptx: bytes | None = field(default=None, repr=False, metadata=serialise.UNTOLD)
    symbol: str = field(default="", repr=False, metadata=serialise.UNTOLD)
    registers: int = 0
    static_shared_bytes: int = 0

    @property
    def busy(self) -> tuple[int, int]:
        """Multiprocessors that have a block to run, and all of the GPU."""
        every = describe_device(self.device).multiprocessors if self.device else prod(self.grid)
        return min(prod(self.grid), every), every

    @cached_property
    def _table(self) -> np.ndarray:
        values = np.frombuffer(b"".join([each.values for each in self.statements]), np.int64)
        return np.ascontiguousarray(values.reshape(-1, len(NAMES)).T)

    def column(self, name: str) -> np.ndarray:
        """Return a counter of all statements, int64, in the order of `statements`."""
        return self._table[COLUMNS[name]]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The statements' texts."""
        return tuple(each.text for each in self.statements)

    @cached_property
    def executed(self) -> dict[int, int]:
        """How many warps executed the first statement of each line of the PTX."""
        counts = self.column("warp_instructions").tolist()
        lines = [each.ptx_line for each in self.statements]
        return dict(zip(reversed(lines), reversed(counts), strict=True))

    @cached_property
    def odd(self) -> dict[int, float]:
        """The part of its executions in which a line's division or root had odd operands."""
        counts, every = self.column("odd_operands"), self.column("warp_instructions")
        places = np.flatnonzero(counts).tolist()
        return {self.statements[at].ptx_line: float(counts[at] / every[at]) for at in places}

    def record(self) -> dict[str, Any]:
        """Return a flat dict of the launch, its counters and ratios, for pandas."""
        return {
            "kernel": self.kernel,
            "grid": self.grid,
            "block": self.block,
            "device": self.device,
            "shared_bytes": self.shared_bytes,
            "static_shared_bytes": self.static_shared_bytes,
            "registers": self.registers,
            "occupancy": self.occupancy,
            "achieved_occupancy": self.achieved_occupancy,
            "findings": len(self.findings),
            **values_of(self.counters),
        }

    def _repr_html_(self) -> str:
        rows = [
            {"name": name.replace("_", " "), "value": value}
            for name, value in self.counters.items()
            if value
        ]
        columns = [Column("name", "counter", left=True), Column("value", "value")]
        below = [each.text for each in self.findings]
        return Table(columns, rows).html(
            f"{self.kernel}, {blocks_of(self)} on {self.device}", below
        )


def values_of(counters: Counters) -> dict[str, float]:
    """Return the counters and the ratios."""
    return {**counters, **{name: counters.value(name) for name in RATIOS}}


def blocks_of(launch: Launch) -> str:
    """Return "BLOCKS x THREADS", each counted over all three axes."""
    blocks = prod(launch.grid)
    return f"{blocks:,} block{'s' * (blocks != 1)} of {prod(launch.block):,}"


def shared_of(launch: Launch, unit: str = "") -> str:
    """Return the bytes of shared memory of a block, and how many of them are static."""
    shared = launch.static_shared_bytes + launch.shared_bytes
    return f"{shared:,}{unit} ({launch.static_shared_bytes:,} static)"


def resources_of(launch: Launch) -> str:
    """Return the registers, the shared memory and the busy multiprocessors of a launch."""
    busy, every = launch.busy
    return (
        f"{launch.registers} registers (estimated), {shared_of(launch, ' bytes shared')}, "
        f"{busy} of {every} multiprocessors busy"
    )


def _finding(told: dict[str, Any]) -> Finding:
    other = told["other"] and OtherAccess(**told["other"])
    return Finding(**told | {"other": other, "kernel": short_name(told["kernel"])})


def launch_of(told: dict[str, Any]) -> Launch:
    """Return the launch that `_core` reports to a sink."""
    return Launch(
        kernel=short_name(told["kernel"]),
        grid=told["grid"],
        block=told["block"],
        shared_bytes=told["shared_bytes"],
        occupancy=share(told["warps_resident"], told["warps_most"]),
        limiter=told["limiter"],
        achieved_occupancy=told["achieved_occupancy"],
        counters=Counters(told["values"]),
        lines=[Line(*place, Counters(values)) for *place, values in told["lines"]],
        findings=[_finding(found) for found in told["findings"]],
        output=told["output"],
        device=told["device"],
        statements=[Statement(*each) for each in told["statements"]],
        spread=Spread(*told["spread"]),
        registers=told["registers"],
        static_shared_bytes=told["static_shared_bytes"],
        delays=tuple(Delay(*each) for each in told["delays"]),
        sources=texts.launched(),
        sample=sample_of(told["trace"]),
        ptx=texts.launched_ptx(),
        symbol=told["kernel"],
    )
