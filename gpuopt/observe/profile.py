"""Counters that show why a kernel is slow, and checks that find its errors.

The simulated GPU counts while it runs. Where Nsight Compute has the metric (`Profile.describe`
lists it), the definition is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from html import escape
from math import prod
from pathlib import PurePath
from types import TracebackType
from typing import Any

from gpuopt.models import gpu
from gpuopt.observe import recording
from gpuopt.observe.annotated import Source, listing
from gpuopt.observe.bounds import Bounds, LaunchBound, bound, preset_row
from gpuopt.observe.counters import (
    BESIDE,
    BESIDE_OLD,
    TABLE,
    Counters,
    check_name,
    nvprof_metrics,
    nvprof_throughputs,
    unit_of,
)
from gpuopt.observe.difference import Difference, Place, place as place_of
from gpuopt.observe.launches import (
    Finding,
    Launch,
    blocks_of,
    launch_of,
    resources_of,
    shared_of,
    values_of,
)
from gpuopt.observe.prediction import Prediction, predict_launches, verdicts_of
from gpuopt.observe.timeline import Program, Timeline
from gpuopt.ptx.streams import watchers
from gpuopt.util import serialise, texts
from gpuopt.util.errors import SimError
from gpuopt.util.literals import DeviceName
from gpuopt.util.names import suggests, unknown_name
from gpuopt.util.table import Column, Listing, Table

LAUNCHES_MOST = 12  # of a table in Jupyter
COSTLY_MOST = 12  # source lines in a profile's table


_SHOWN = {
    "found": lambda each: each.kind,
    "times": lambda each: f"{each.times:,}" if each.times else "",
    "kernel": lambda each: each.kernel,
    "where": lambda each: (
        f"{PurePath(each.file).name}:{each.line}" if each.file else f"PTX line {each.ptx_line}"
    ),
    "block": lambda each: str(each.block),
    "thread": lambda each: str(each.thread),
    "advice": lambda each: each.advice,
}


@dataclass
class Profile(serialise.Written):
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
    caches : bool
        Whether hits of L1, texture cache and L2 are counted.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> counted = gpuopt.profile(gpuopt.transpose, np.ones((64, 64), np.float32), variant="shared")
    >>> counted.result.shape, counted.counters.bank_conflicts
    ((64, 64), 3968)
    >>> list(counted.to_dict())
    ['kind', 'format', 'device', 'counters', 'launches']
    """

    KIND = "profile"
    TOLD = ("device", "counters", "launches")

    device: str = "sim"
    launches: list[Launch] = field(default_factory=list)
    result: Any = field(default=None, metadata=serialise.UNTOLD)
    collecting: bool = field(default=False, metadata=serialise.UNTOLD)
    caches: bool = field(default=False, metadata=serialise.UNTOLD)
    _program: Program = field(
        default_factory=Program, repr=False, compare=False, metadata=serialise.UNTOLD
    )
    _sampled: set[Any] = field(
        default_factory=set, repr=False, compare=False, init=False, metadata=serialise.UNTOLD
    )

    def __enter__(self) -> Profile:
        """Start recording the launches of this thread or asyncio task."""
        recording.begin(self._sink, self.collecting, self.device, self.caches)
        self._program.resume()
        watchers.set((*watchers.get(), self._program))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop recording."""
        recording.end(self._sink)
        watchers.set(tuple(each for each in watchers.get() if each is not self._program))
        self._program.end()

    def _sink(self, told: dict[str, Any]) -> None:
        launch = launch_of(told)
        key = launch.kernel, launch.grid, launch.block
        if key in self._sampled:
            launch = replace(launch, sample=None)  # one is enough: they are large
        self._sampled.add(key)
        self._program.launched(len(self.launches))
        self.launches.append(launch)

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

    def by_line(self) -> dict[Place, Counters]:
        """Add the launches up by source line (by line of PTX where a kernel has no line table)."""
        sums: dict[tuple[str | None, int], Counters] = {}
        for launch in self.launches:
            for each in launch.lines:
                key = (each.file, each.line if each.file else each.ptx_line)
                sums[key] = sums.get(key, Counters()) + each.counters
        return sums

    def _sources(self) -> dict[str, list[str]]:
        return {name: text for each in self.launches for name, text in each.sources.items()}

    def records(self, by: str = "launch") -> list[dict[str, Any]]:
        """Return flat dicts of all counters and ratios, as `pandas.DataFrame` accepts them.

        Parameters
        ----------
        by : {"launch", "kernel", "line", "statement"}
            One dict for each launch, kernel, source line or PTX statement.

        Raises
        ------
        ValueError
            Another `by`.
        """
        if by == "launch":
            return [each.record() for each in self.launches]
        if by == "kernel":
            return [{"kernel": name} | values_of(each) for name, each in self.by_kernel().items()]
        if by == "line":
            return [
                {"file": file, "line": line, "text": texts.line(file, line, self._sources())}
                | values_of(each)
                for (file, line), each in self.by_line().items()
            ]
        if by == "statement":
            return [
                {"kernel": launch.kernel, "file": each.file, "line": each.line}
                | {"ptx_line": each.ptx_line, "text": each.text}
                | values_of(each.counters)
                for launch in self.launches
                for each in launch.statements
            ]
        tables = ("launch", "kernel", "line", "statement")
        raise ValueError(unknown_name("by", by, "a table", tables))

    def assert_at_most(self, **limits: float) -> None:
        """Assert that counters and ratios do not exceed limits, for tests.

        Parameters
        ----------
        **limits
            Counters or ratios by name: ``bank_conflicts=0, sectors_per_request=4.1``;
            `Profile.describe` lists the counters.

        Raises
        ------
        AssertionError
            One is larger; the text has the line with most of it.
        ValueError
            An unknown name.
        """
        exceeded = []
        for name, limit in limits.items():
            value = self.counters.value(check_name(name, "assert_at_most"))
            if value <= limit:
                continue
            lines = {where: each.value(name) for where, each in self.by_line().items()}
            worst = max(lines, key=lambda where: lines[where], default=None)
            at = f"; most of it at {place_of(worst)}: {lines[worst]:,g}" if worst else ""
            exceeded.append(f"{name} is {value:,g}, at most {limit:,g} is allowed{at}")
        if exceeded:
            raise AssertionError("; ".join(exceeded))

    def difference(self, before: Profile) -> Difference:
        """Compare with another profile, counter by counter and line by line.

        Parameters
        ----------
        before : Profile
            The other one; ``after - before`` is the same.

        Returns
        -------
        Difference
        """
        if not isinstance(before, Profile):
            raise TypeError(f"before: must be a Profile, not {type(before).__name__}")
        old, new = before.by_line(), self.by_line()
        lines = {
            where: (old.get(where, Counters()), new.get(where, Counters()))
            for where in dict.fromkeys([*old, *new])
        }
        return Difference(before.counters, self.counters, lines)

    def __sub__(self, before: Profile) -> Difference:
        """Return the difference."""
        return self.difference(before) if isinstance(before, Profile) else NotImplemented

    def bounds(self, device: str | Any | None = None) -> Bounds:
        """Return the least time that a GPU's datasheet allows for each launch.

        Parameters
        ----------
        device : str, optional
            A preset, "h200" or "sim:h200". Default: the one that ran the launch.

        Returns
        -------
        Bounds

        Raises
        ------
        ValueError
            An unknown preset, or nothing was launched.
        """
        if not self.launches:
            raise ValueError("bounds: the profile has no launches")
        found, row = [], None
        for launch in self.launches:
            row = preset_row(launch.device if device is None else device)
            seconds = bound(row, launch.counters, launch.grid)
            found.append(LaunchBound(launch.kernel, launch.grid, launch.block, seconds))
        return Bounds(row["title"] if row else "", found)

    def timeline(self) -> Timeline:
        """Return the program's allocations, copies and kernels in time, by a model.

        Kernels take their predicted time, or the datasheet's least (`bounds`) where the model has
        no answer; copies that of the link (`gpuopt.models.transfer`). So it tells whether the
        kernels are the limiter at all, and what work on streams (`gpuopt.Stream`) overlaps.

        Returns
        -------
        Timeline

        Raises
        ------
        ValueError
            Nothing was launched, or the profile was read from a file.

        Notes
        -----
        Source: decks D1 and D3. Copies that the host waits for are those of all simulated GPUs of
        this process, so those of other threads count as well. Kernels of two streams run side by
        side if their blocks fit together, and then each as fast as alone. For nine
        programs of an H100, pinned copies of 4 MiB and kernels on 1 to 4 streams, the time line was
        0.92 to 1.11 times as long as the measured time. Copies of 64 KiB took 2 to 4 times as long
        as it said: they wait for the host's calls, of which Python's are slower than its 3.5 us.

        Examples
        --------
        >>> import numpy as np, gpuopt
        >>> x = np.ones(1 << 16, np.float32)
        >>> counted = gpuopt.profile(gpuopt.add, x, x, variant=5, device="sim:k40")
        >>> counted.timeline().limiter
        'copies'
        """
        if not self._program.began:
            raise ValueError("timeline: the profile has no record of copies; profile the call")
        return self._program.timeline(self.launches, self.bounds(), self.predicted())

    def predicted(
        self,
        *,
        cold: bool = False,
        how: str = "queue",
        clock: float | None = None,
        bandwidth: float | None = None,
        multiprocessors: int | None = None,
    ) -> Prediction:
        """Predict the launches' time on the GPUs that were simulated; `gpuopt.predict` has more.

        Raises
        ------
        TypeError, ValueError
            A figure that is no positive number; an unknown `how`; nothing was launched, or a
            profile from a file.
        """
        return predict_launches(
            self.launches,
            cold=cold,
            how=how,
            clock=clock,
            bandwidth=bandwidth,
            multiprocessors=multiprocessors,
        )

    def verdicts(self) -> list[str]:
        """Return each launch's limiter by the model: memory, instructions, latency or the launch.

        "memory-bound: DRAM is busy for 84% of the time", and "" where the model has no answer.
        Memory or the issue of instructions is the limiter if it is busy for 60% of the time.

        Notes
        -----
        Source: deck D1's profiler, which asks this first. PTX's instructions are counted, not those
        of machine code.

        Examples
        --------
        >>> import numpy as np, gpuopt
        >>> x = np.ones((1024, 1024), np.float32)
        >>> gpuopt.profile(gpuopt.transpose, x, variant="padded", device="sim:k40").verdicts()
        ['memory-bound: ...']
        """
        return verdicts_of(self.launches)

    def source(
        self,
        kernel: str | None = None,
        *,
        counters: Iterable[str] = BESIDE,
        ptx: bool = False,
    ) -> Source:
        """List the source of what ran, with counters beside the lines.

        Parameters
        ----------
        kernel : str, optional
            Only this kernel's launches. Default: all of the kernel with most warp instructions.
        counters : iterable of str
            The counters and ratios to show: "inst_f64", "barriers", ...; `Profile.describe` lists
            the counters.
        ptx : bool
            List the PTX statements. They are listed as well if the kernel has no line table, or if
            its source file is unknown.

        Returns
        -------
        Source

        Raises
        ------
        ValueError
            Nothing was launched; an unknown kernel or counter.
        """
        if counters is BESIDE and self._unit() == "transaction":
            counters = BESIDE_OLD
        shown = tuple(check_name(each) for each in counters)
        kernels = self.by_kernel()
        if not kernels:
            raise ValueError(
                "source: nothing was launched on a simulated GPU, so there is nothing to list"
            )
        if kernel is None:
            kernel = max(kernels, key=lambda name: kernels[name].warp_instructions)
        if kernel not in kernels:
            raise ValueError(unknown_name("kernel", kernel, "a launched kernel", kernels))
        launches = [each for each in self.launches if each.kernel == kernel]
        threads = sum(prod(each.grid) * prod(each.block) for each in launches)
        counted = f"counted on {launches[0].device}: {threads:,} threads"
        file, lines = listing(launches, ptx)
        return Source(None, file, kernel, lines, counted, shown)

    def _unit(self) -> str:
        """Return what the launches' transactions are called."""
        units = {unit_of(launch.device) for launch in self.launches}
        return units.pop() if len(units) == 1 else "transaction"

    def _costly(self, coded: bool = False) -> Table:
        """Return the table of the source lines with the most warp instructions."""
        ranked = sorted(self.by_line().items(), key=lambda item: -item[1].warp_instructions)
        records = [
            dict(counted)
            | {
                "conflicts": counted.bank_conflicts,
                "transactions": counted.global_load_transactions
                + counted.global_store_transactions,
                "place": place_of((file, line)),
                "text": texts.line(file, line, self._sources()) if coded else "",
            }
            for (file, line), counted in ranked[:COSTLY_MOST]
        ]
        columns = [
            Column("warp_instructions", "warp instr.", least=12),
            Column("divergent_branches", "divergent"),
            Column("conflicts", "conflicts"),
            Column("transactions", f"{self._unit()}s", least=9),
            Column("place", "source line", left=True),
            Column("text", "", left=True),
        ]
        return Table(columns, records)

    def nvprof(self) -> dict[str, float]:
        """Return the counters under the names that nvprof gave them, as decks of its time show.

        Transactions are those of the simulated GPU's architecture; efficiencies and the occupancy
        are from 0 to 1. Throughputs, in bytes per second, take the predicted time.
        "inst_replay_overhead" counts replays for bank conflicts and for further
        transactions, per instruction; PTX's instructions, not the machine's.

        Examples
        --------
        >>> import numpy as np, gpuopt
        >>> x = np.ones((64, 64), np.float32)
        >>> told = gpuopt.profile(gpuopt.transpose, x, variant="2d", device="sim:k40").nvprof()
        >>> told["gld_transactions_per_request"], told["gst_efficiency"]
        (32.0, 1.0)
        """
        weights = [launch.counters.warp_instructions for launch in self.launches]
        achieved = sum(
            launch.achieved_occupancy * weight
            for launch, weight in zip(self.launches, weights, strict=True)
        )
        found = nvprof_metrics(self.counters, achieved / max(1, sum(weights)))
        if self.launches and all(launch.statements for launch in self.launches):
            seconds = predict_launches(self.launches, compiled_code=False).seconds
            banks = gpu(self.launches[0].device)
            found |= nvprof_throughputs(self.counters, seconds, banks.bank_lanes * banks.bank_bytes)
        return found

    @staticmethod
    def describe() -> dict[str, tuple[str, str]]:
        """Return each counter's Nsight Compute metric ("-" where it has none) and its meaning."""
        return {name: (metric, meaning) for name, metric, meaning in TABLE}

    def __repr__(self) -> str:
        """Return the sums and the most expensive lines."""
        if not self.launches:
            return (
                f"no launches on {self.device}: calls that name another device, or run on the cpu, "
                "are not counted, nor those of other threads"
            )
        count = len(self.launches)
        where = ", ".join(dict.fromkeys(launch.device for launch in self.launches))
        lines = [f"{count} launch{'es' * (count != 1)} on {where}"]
        for launch, verdict in zip(self.launches, self.verdicts(), strict=True):
            lines.append(
                f"  {launch.kernel}, {blocks_of(launch)}, occupancy "
                f"{launch.occupancy:.0%} ({launch.limiter}), achieved "
                f"{launch.achieved_occupancy:.0%}"
            )
            lines.append(f"    {resources_of(launch)}")
            lines += [f"    {verdict}, by a model"] * bool(verdict)
        sums = [f"{name:<18}{value:>15,}   {note}" for name, value, note in self._sums()]
        lines += ["", *(each.rstrip() for each in sums), "", *self._costly().lines()]
        lines += ["", *(finding.text for finding in self.findings)] if self.findings else []
        return "\n".join(lines)

    def _sums(self) -> list[tuple[str, int, str]]:
        """Return the sums of all launches: name, value, and a remark."""
        total = self.counters
        passes = total.shared_load_wavefronts + total.shared_store_wavefronts
        atomics = total.global_atomics + total.shared_atomics
        return [
            (
                "warp instructions",
                total.warp_instructions,
                f"{total.warp_efficiency:.0%} of the lanes active",
            ),
            ("branches", total.branches, f"{total.divergent_branches:,} divergent"),
            (
                "global loads",
                total.global_load_requests,
                f"{total.transactions_per_load:.1f} {self._unit()}s per request, "
                f"{total.load_efficiency:.0%} of bytes used",
            ),
            (
                "global stores",
                total.global_store_requests,
                f"{total.transactions_per_store:.1f} {self._unit()}s per request, "
                f"{total.store_efficiency:.0%} of bytes used",
            ),
            ("shared wavefronts", passes, f"{total.bank_conflicts:,} of them bank conflicts"),
            ("barriers", total.barriers, ""),
            ("atomics", atomics, ""),
        ]

    def _repr_html_(self) -> str:
        if not self.launches:
            return f"<p>{escape(repr(self))}</p>"
        launches = [
            Column("kernel", "kernel", left=True),
            Column("blocks", "blocks"),
            Column("threads", "threads per block"),
            Column("occupancy", "occupancy", ".0%"),
            Column("limiter", "limited by", left=True),
            Column("achieved_occupancy", "achieved", ".0%"),
            Column("registers", "registers"),
            Column("shared", "bytes shared"),
            Column("busy", "multiprocessors busy"),
            Column("verdict", "limiter, by a model", left=True),
        ]
        records = [
            vars(each)
            | {"blocks": prod(each.grid), "threads": prod(each.block), "shared": shared_of(each)}
            | {"busy": "{} of {}".format(*each.busy), "verdict": verdict}
            for each, verdict in list(zip(self.launches, self.verdicts(), strict=True))[
                :LAUNCHES_MOST
            ]
        ]
        more = len(self.launches) - len(records)
        where = ", ".join(dict.fromkeys(launch.device for launch in self.launches))
        sums = [
            Column("name", "counter", left=True),
            Column("value", "value"),
            Column("note", "", left=True),
        ]
        named = [dict(zip(("name", "value", "note"), each, strict=True)) for each in self._sums()]
        shown = Table(launches, records).html(
            f"launches on {where}", [f"and {more:,} more launches"] if more else ()
        )
        shown += Table(sums, named).html("all launches")
        shown += self._costly(coded=True).html("the lines with most warp instructions")
        findings = "".join(f"<li>{escape(each.text)}</li>" for each in self.findings)
        return shown + (f"<ul>{findings}</ul>" if findings else "")


def _counting(device: str) -> str:
    """Return a device's name; it must be a simulated GPU."""
    if not isinstance(device, str):
        raise TypeError(f"device: must be a string, as 'sim' or 'sim:g80', not {device!r}")
    if not device.startswith("sim"):
        raise ValueError(f"device: {device!r} has no counters; use 'sim' or a preset as 'sim:g80'")
    return device


def _callable(function: object) -> None:
    if not callable(function):
        raise TypeError(
            f"function: must be callable, not {function!r:.60}; for a rung, gpuopt.reduce and its "
            "arguments, variant= among them"
        )


@suggests
def profile(
    function: Callable[..., Any] | None = None,
    *arguments: Any,
    device: str = "sim",
    caches: bool = False,
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
    caches : bool
        Count hits of L1, of the texture cache and of L2 as well (`Counters.l1_hit_rate`,
        `l2_hit_rate`, `warm_l2_hit_rate`, `texture_hit_rate`). It takes up to three times as long.

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
    profiled = Profile(_counting(device), caches=bool(caches))
    if function is None:
        return profiled
    _callable(function)
    with profiled:
        profiled.result = function(*arguments, **keywords)
    return profiled


@suggests
def check(
    function: Callable[..., Any], *arguments: Any, device: DeviceName | str = "sim", **keywords: Any
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
        Empty if nothing was found; its repr tells how many threads ran. Else a table with the
        advice for each.

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
    nothing found in 640 threads of 2 launches
    """
    _callable(function)
    profiled = Profile(_counting(device), collecting=True)
    try:
        with profiled:
            function(*arguments, **keywords)
    except SimError:  # an endless kernel; an earlier finding may be the cause
        if len(profiled.findings) < 2:
            raise
    if not profiled.launches:
        raise ValueError(
            "function: launched no kernel on a simulated GPU, so nothing was checked; let its "
            "calls name no device, or a simulated one"
        )
    threads = sum(prod(each.grid) * prod(each.block) for each in profiled.launches)
    count = len(profiled.launches)
    empty = f"nothing found in {threads:,} threads of {count} launch{'es' * (count != 1)}"
    return Listing(profiled.findings, _SHOWN, empty)
