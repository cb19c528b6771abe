"""Counters that show why a kernel is slow, and checks that find its errors.

The simulated GPU counts while it runs. Where Nsight Compute has the metric (`Profile.describe`
lists it), the definition is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import PurePath
from types import TracebackType
from typing import Any

from gpuopt import _core
from gpuopt.observe import recording
from gpuopt.util import serialise
from gpuopt.util.checks import whole
from gpuopt.util.table import Column, Listing, Table

_TABLE = _core.counter_table("sim")
_NAMES = tuple(name for name, _, _ in _TABLE)
SECTOR = 32  # bytes
COSTLY_MOST = 12  # source lines in a profile's table


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class Counters(Mapping[str, int]):
    """The counters of a launch, line or kernel by name: ``counters.divergent_branches``.

    A mapping from counter names to numbers, with the usual ratios as properties. Two add up.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> counters = gpuopt.profile(gpuopt.reduce, np.arange(128), variant=2).counters
    >>> counters.bank_conflicts >= counters["shared_load_conflicts"]
    True
    >>> (counters + counters).barriers == 2 * counters.barriers
    True
    """

    def __init__(self, values: list[int] | None = None) -> None:
        self._values = dict(zip(_NAMES, values or [0] * len(_NAMES), strict=True))

    @classmethod
    def from_plain(cls, told: Mapping[str, int]) -> Counters:
        """Return the counters of a dict; those that it lacks are 0."""
        return cls([whole(told.get(name, 0), name, 0) for name in _NAMES])

    def __getitem__(self, name: str) -> int:
        """Return a counter."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of counters."""
        return len(self._values)

    def __getattr__(self, name: str) -> int:
        """Return a counter."""
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"{name!r} is not a counter; the counters are {', '.join(_NAMES)}")
        return self._values[name]

    def __add__(self, other: Counters) -> Counters:
        """Return the sums."""
        return Counters([self[name] + other[name] for name in _NAMES])

    def __repr__(self) -> str:
        """Return the counters that are not zero."""
        shown = ", ".join(f"{name}={value:,}" for name, value in self.items() if value)
        return f"Counters({shown})"

    @property
    def sectors_per_load(self) -> float:
        """Sectors of 32 bytes per global load request; 4 is ideal for 4-byte elements."""
        return _share(self["global_load_sectors"], self["global_load_requests"])

    @property
    def sectors_per_store(self) -> float:
        """Sectors of 32 bytes per global store request."""
        return _share(self["global_store_sectors"], self["global_store_requests"])

    @property
    def load_efficiency(self) -> float:
        """Bytes requested over bytes moved by global loads."""
        return _share(self["global_load_bytes"], SECTOR * self["global_load_sectors"])

    @property
    def store_efficiency(self) -> float:
        """Bytes requested over bytes moved by global stores."""
        return _share(self["global_store_bytes"], SECTOR * self["global_store_sectors"])

    @property
    def bank_conflicts(self) -> int:
        """Excess shared-memory wavefronts of loads and stores."""
        return self["shared_load_conflicts"] + self["shared_store_conflicts"]

    @property
    def warp_efficiency(self) -> float:
        """Active threads per executed instruction, of 32."""
        return _share(self["thread_instructions"], 32 * self["warp_instructions"])


@dataclass(frozen=True)
class Line:
    """A source line's counters in a launch; `file` is None without a line table."""

    file: str | None
    line: int
    ptx_line: int
    counters: Counters


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
        The number of times that this line caused it in this launch.

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


@dataclass(frozen=True)
class Launch:
    """The counters of one launch of a kernel.

    Attributes
    ----------
    kernel : str
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
    output : str
        The kernel's printf output, by block and within a block in the order of time; at most 1 MiB
        (256 KiB per block), then a line that reports the cut. Nothing is printed.
    device : str
        The device that ran it, as "sim:g80".

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


_SHOWN = {
    "found": lambda each: each.kind,
    "times": lambda each: f"{each.times:,}",
    "kernel": lambda each: each.kernel,
    "where": lambda each: (
        f"{PurePath(each.file).name}:{each.line}" if each.file else f"PTX line {each.ptx_line}"
    ),
    "block": lambda each: str(each.block),
    "thread": lambda each: str(each.thread),
}


def launch_of(told: dict[str, Any]) -> Launch:
    """Return the launch that `_core` reports to a sink."""
    return Launch(
        kernel=told["kernel"],
        grid=told["grid"],
        block=told["block"],
        shared_bytes=told["shared_bytes"],
        occupancy=_share(told["warps_resident"], told["warps_most"]),
        limiter=told["limiter"],
        achieved_occupancy=told["achieved_occupancy"],
        counters=Counters(told["values"]),
        lines=[Line(*place, Counters(values)) for *place, values in told["lines"]],
        findings=[Finding(**found) for found in told["findings"]],
        output=told["output"],
        device=told["device"],
    )


def _grid(launch: Launch) -> str:
    """Return "BLOCKS x THREADS", each counted over all three axes."""
    blocks = prod(launch.grid)
    return f"{blocks:,} block{'s' * (blocks != 1)} of {prod(launch.block):,}"


@dataclass
class Profile:
    """The launches of a block of code; a context manager, made by `gpuopt.profile`.

    Attributes
    ----------
    device : str
        The device of calls that name none.
    launches : list of Launch
    result : object
        The profiled function's return value (call form).
    collecting : bool
        Whether errors are collected in `findings`; otherwise they raise `SimError`.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> counted = gpuopt.profile(gpuopt.transpose, np.ones((64, 64), np.float32), variant="shared")
    >>> counted.result.shape, counted.counters.bank_conflicts
    ((64, 64), 3968)
    >>> list(counted.to_dict())
    ['kind', 'device', 'counters', 'launches']
    """

    device: str = "sim"
    launches: list[Launch] = field(default_factory=list)
    result: Any = field(default=None, metadata=serialise.UNTOLD)
    collecting: bool = field(default=False, metadata=serialise.UNTOLD)

    def __enter__(self) -> Profile:
        """Start recording the launches of this thread or asyncio task."""
        recording.begin(self._sink, self.collecting, self.device)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop recording."""
        recording.end(self._sink)

    def _sink(self, told: dict[str, Any]) -> None:
        self.launches.append(launch_of(told))

    @property
    def counters(self) -> Counters:
        """The counters of all launches, added up."""
        return sum((launch.counters for launch in self.launches), Counters())

    @property
    def findings(self) -> list[Finding]:
        """The errors that the checks found, in all launches."""
        return [finding for launch in self.launches for finding in launch.findings]

    def by_kernel(self) -> dict[str, Counters]:
        """Add the launches up by kernel."""
        sums: dict[str, Counters] = {}
        for launch in self.launches:
            sums[launch.kernel] = sums.get(launch.kernel, Counters()) + launch.counters
        return sums

    def by_line(self) -> dict[tuple[str | None, int], Counters]:
        """Add the launches up by source line (by line of PTX where a kernel has no line table)."""
        sums: dict[tuple[str | None, int], Counters] = {}
        for launch in self.launches:
            for each in launch.lines:
                key = (each.file, each.line if each.file else each.ptx_line)
                sums[key] = sums.get(key, Counters()) + each.counters
        return sums

    def to_dict(self) -> dict[str, Any]:
        """Return the launches, their counters, lines and findings, for JSON; not the result."""
        return {
            "kind": "profile",
            "device": self.device,
            "counters": dict(self.counters),
            "launches": serialise.to_plain(self.launches),
        }

    def _costly(self) -> Table:
        """Return the table of the source lines with the most warp instructions."""
        ranked = sorted(self.by_line().items(), key=lambda item: -item[1].warp_instructions)
        records = [
            dict(counted)
            | {
                "conflicts": counted.bank_conflicts,
                "sectors": counted.global_load_sectors + counted.global_store_sectors,
                "place": f"{PurePath(file).name}:{line}" if file else f"PTX line {line}",
            }
            for (file, line), counted in ranked[:COSTLY_MOST]
        ]
        columns = [
            Column("warp_instructions", "warp instr.", least=12),
            Column("divergent_branches", "divergent"),
            Column("conflicts", "conflicts"),
            Column("sectors", "sectors", least=9),
            Column("place", "source line", left=True),
        ]
        return Table(columns, records)

    @staticmethod
    def describe() -> dict[str, tuple[str, str]]:
        """Return each counter's Nsight Compute metric ("-" where it has none) and its meaning."""
        return {name: (metric, meaning) for name, metric, meaning in _TABLE}

    def __repr__(self) -> str:
        """Return the sums and the most expensive lines."""
        if not self.launches:
            return (
                f"no launches on {self.device}: calls that name another device, or run on the cpu, "
                "are not counted, nor those of other threads"
            )
        total = self.counters
        count = len(self.launches)
        where = ", ".join(dict.fromkeys(launch.device for launch in self.launches))
        lines = [f"{count} launch{'es' * (count != 1)} on {where}"]
        for launch in self.launches:
            lines.append(
                f"  {launch.kernel}, {_grid(launch)}, occupancy "
                f"{launch.occupancy:.0%} ({launch.limiter}), achieved "
                f"{launch.achieved_occupancy:.0%}"
            )
        lines += [
            "",
            f"warp instructions    {total.warp_instructions:>15,}   "
            f"{total.warp_efficiency:.0%} of the lanes active",
            f"branches             {total.branches:>15,}   {total.divergent_branches:,} divergent",
            f"global loads         {total.global_load_requests:>15,}   "
            f"{total.sectors_per_load:.1f} sectors per request, "
            f"{total.load_efficiency:.0%} of bytes used",
            f"global stores        {total.global_store_requests:>15,}   "
            f"{total.sectors_per_store:.1f} sectors per request, "
            f"{total.store_efficiency:.0%} of bytes used",
            f"shared wavefronts    "
            f"{total.shared_load_wavefronts + total.shared_store_wavefronts:>15,}   "
            f"{total.bank_conflicts:,} of them bank conflicts",
            f"barriers             {total.barriers:>15,}",
            f"atomics              {total.global_atomics + total.shared_atomics:>15,}",
            "",
            *self._costly().lines(),
        ]
        lines += ["", *(finding.text for finding in self.findings)] if self.findings else []
        return "\n".join(lines)


def _counting(device: str) -> str:
    """Return a device's name; it must be a simulated GPU."""
    if not isinstance(device, str):
        raise TypeError(f"device: must be a string, as 'sim' or 'sim:g80', not {device!r}")
    if not device.startswith("sim"):
        raise ValueError(f"device: {device!r} has no counters; use 'sim' or a preset as 'sim:g80'")
    return device


def _callable(function: object) -> None:
    if not callable(function):
        raise TypeError(f"function: must be callable, not {function!r:.60}")


def profile(
    function: Callable[..., Any] | None = None,
    *arguments: Any,
    device: str = "sim",
    **keywords: Any,
) -> Profile:
    """Count the work of kernels: in a ``with`` block, or in one call.

    Parameters
    ----------
    function : callable, optional
        Its return value becomes `Profile.result`. Without it, `profile` returns a context manager.
    *arguments, **keywords
        Passed to the function.
    device : str
        A device that counts, "sim" or "sim:g80", ...: the device of calls that name none.

    Returns
    -------
    Profile

    Raises
    ------
    TypeError
        The function is not callable, or `device` is no string.
    ValueError
        An unknown device, or one that has no counters.
    SimError
        A check failed while a kernel ran; `gpuopt.check` collects instead.

    Notes
    -----
    Launches of other threads and asyncio tasks are not counted. Profiles may nest: an outer one
    includes the launches of the inner ones.

    The counters are Nsight Compute's where it has the metric; instructions are PTX's, not the
    machine's. `Profile.describe` lists them all.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.arange(4096, dtype=np.int32)
    >>> with gpuopt.profile() as first:
    ...     total = gpuopt.reduce(x, variant=2)
    >>> third = gpuopt.profile(gpuopt.reduce, x, variant=3)
    >>> third.result == total
    np.True_
    >>> third.counters.bank_conflicts < first.counters.bank_conflicts
    True
    """
    profiled = Profile(_counting(device))
    if function is None:
        return profiled
    _callable(function)
    with profiled:
        profiled.result = function(*arguments, **keywords)
    return profiled


def check(
    function: Callable[..., Any], *arguments: Any, device: str = "sim", **keywords: Any
) -> list[Finding]:
    """Run a function's kernels on the simulated GPU and collect the errors that its checks find.

    The checks cover out-of-bounds and misaligned accesses, use after free, races in shared and
    global memory, divergent barriers and deadlocks. They also report uninitialized values, and
    results of a division by zero, once a branch, an address, an atomic or a global store depends on
    them. Outside of `check` the first error raises `SimError`.

    Parameters
    ----------
    function : callable
        The callable that launches the kernels.
    *arguments, **keywords
        Passed to the function.
    device : str
        "sim" or a preset, as "sim:g80": the device of calls that name none.

    Returns
    -------
    list of Finding
        Empty if nothing was found. Its repr is a table.

    Raises
    ------
    TypeError
        The function is not callable, or `device` is no string.
    ValueError
        An unknown device, or one that checks nothing; the function launched no kernel on a
        simulated GPU, so that nothing was checked.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.check(gpuopt.reduce, np.arange(1000.0), variant=5)
    []
    """
    _callable(function)
    profiled = Profile(_counting(device), collecting=True)
    with profiled:
        function(*arguments, **keywords)
    if not profiled.launches:
        raise ValueError(
            "function: launched no kernel on a simulated GPU, so nothing was checked; let its "
            "calls name no device, or a simulated one"
        )
    return Listing(profiled.findings, _SHOWN)
