"""Two sides compared: measurements, profiles, kernels, or files of them."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpuopt.measure.bench import Bench
from gpuopt.measure.ladder_result import MODES, Ladder
from gpuopt.measure.race import Timing
from gpuopt.measure.roofline import Roofline
from gpuopt.observe import nsight
from gpuopt.observe.counters import Counters, check_name
from gpuopt.observe.difference import place
from gpuopt.observe.profile import Profile, profile
from gpuopt.ptx.buffers import copied
from gpuopt.ptx.kernel import Kernel
from gpuopt.show.ladder_table import label
from gpuopt.util.names import suggests, unknown_name
from gpuopt.util.serialise import Result
from gpuopt.util.table import Column, Table

VERDICTS = ("slower", "faster", "more", "fewer")
_CONDITION = re.compile(r"(\w+)>(\d+(?:\.\d+)?(?:[eE]\d+)?)(%?)")
LEAST_CHANGE = 0.01  # a smaller one is not told, however small the spread
LABEL = 18  # characters of a row's name, at least

Measured = TypeVar("Measured", Roofline, Ladder, Bench)


@dataclass
class Measurements:
    """The measurements in a file."""

    roofs: list[Roofline] = field(default_factory=list)
    ladders: list[Ladder] = field(default_factory=list)
    benches: list[Bench] = field(default_factory=list)
    # By kernel, and by kernel and source line: the counters that are known.
    profiles: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)

    def count(self, kernel: str, counters: Mapping[str, int], line: str = "") -> None:
        """Add a launch's counters, or those of one of its lines."""
        sums = self.lines.setdefault(line, {}) if line else self.profiles.setdefault(kernel, {})
        for name, number in counters.items():
            sums[name] = sums.get(name, 0) + number


def _fault(error: Exception) -> str:
    """Return the reason why a file cannot be read."""
    if isinstance(error, KeyError):
        return f"key {error.args[0]!r} is missing"
    return str(error)


def load(path: Path) -> Measurements:
    """Read what --json wrote: a roofline, a ladder, a bench, a list of them, a report, a reference.

    Nsight Compute's reports, too, which have counters (`gpuopt.observe.nsight`).

    Raises
    ------
    ValueError
        The file holds something else.
    OSError
        It cannot be read.
    """
    if path.suffix in nsight.SUFFIXES:
        return _counted(nsight.read(path))
    try:
        told = json.loads(path.read_text())
    except ValueError as error:  # no JSON, or no text
        raise ValueError(f"{path}: is not a gpuopt result file: not JSON ({error})") from None
    found = Measurements()
    for each in told if isinstance(told, list) else [told]:
        kind = each.get("kind") if isinstance(each, dict) else None
        try:
            if kind is None:
                raise KeyError("kind")
            if kind in ("reference", "report"):
                found.roofs.append(Roofline.from_dict(each["roofline"]))
                found.ladders += [Ladder.from_dict(one) for one in each["ladders"]]
            elif kind == "roofline":
                found.roofs.append(Roofline.from_dict(each))
            elif kind == "bench":
                found.benches.append(Bench.from_dict(each))
            elif kind == "profile":
                for launch in each["launches"]:
                    kernel = launch["kernel"]
                    found.count(kernel, Counters.from_plain(launch["counters"]))
                    for line in launch["lines"]:
                        at = place((line["file"], line["line"] or line["ptx_line"]))
                        found.count(kernel, Counters.from_plain(line["counters"]), at)
            else:
                found.ladders.append(Ladder.from_dict(each))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}: is not a gpuopt result file: {_fault(error)}; 'ladder', 'roofline', "
                f"'bench' and 'profile' write one with --json, 'reference' always"
            ) from None
    return found


def _counted(launches: Iterable[nsight.Counted]) -> Measurements:
    found = Measurements()
    for kernel, counters in launches:
        found.count(kernel, counters)
    return found


@dataclass(frozen=True)
class Change:
    """A number before and after; the verdict: "slower", "faster", "more", "fewer" or ""."""

    old: float
    new: float
    ratio: float | None  # None: of nothing
    verdict: str = ""

    def growth(self, percent: bool) -> float:
        """Return how much the number grew, or how much slower a time or rate became in percent."""
        if not percent:
            return self.new - self.old
        return float("inf") if self.ratio is None else 100 * (self.ratio - 1)


@dataclass(frozen=True)
class Section:
    """The changes of one workload: by row, and in a row by mode.

    Attributes
    ----------
    title : str
    unit : {"s", "per s", "count"}
        Unit of old and new; a ratio is new/old, for rates old/new: more is slower.
    rows : dict of str to dict of str to Change
        Rung, kernel or ceiling; "warm" and "cold", "", or the name of a counter.
    """

    title: str
    unit: str
    rows: dict[str, dict[str, Change]]

    def _counters(self) -> list[str]:
        """Return the counters that differ as text."""
        records = [
            {"name": name, "counter": counter.replace("_", " ")} | vars(change)
            for name, changes in self.rows.items()
            for counter, change in changes.items()
            if change.old != change.new
        ]
        same = sum(all(each.old == each.new for each in row.values()) for row in self.rows.values())
        columns = [
            Column("name", "", left=True, least=LABEL),
            Column("counter", "counter", left=True),
            Column("old", "old", ",", least=10),
            Column("new", "new", ",", least=10),
            Column("ratio", "ratio", ".3f"),
            Column("verdict", "", left=True),
        ]
        unchanged = f"{same} of {len(self.rows)} without a change in any counter"
        return [self.title, *(Table(columns, records).lines() if records else ()), unchanged]

    def lines(self) -> list[str]:
        """Return the section as text."""
        if self.unit == "count":
            return self._counters()
        scale, form = {"s": (1e6, ",.1f"), "per s": (1e-9, ",.0f")}[self.unit]
        unit = {"s": " us", "per s": ""}[self.unit]
        columns = [Column("name", "", left=True, least=LABEL)]
        for mode in dict.fromkeys(mode for changes in self.rows.values() for mode in changes):
            head = f"{mode}\n" if mode else ""
            columns += [
                Column(f"{mode} old", f"{head}old{unit}", form, scale, least=10),
                Column(f"{mode} new", f"new{unit}", form, scale, least=10),
                Column(f"{mode} ratio", "ratio", ".3f"),
                Column(f"{mode} verdict", ""),
            ]
        records = [
            {"name": name}
            | {
                f"{mode} {key}": value
                for mode, change in changes.items()
                for key, value in vars(change).items()
            }
            for name, changes in self.rows.items()
        ]
        return [self.title, *Table(columns, records).lines()]


@dataclass(frozen=True)
class Comparison(Result):
    """The changes from one side to the other; it shows itself as a table.

    Attributes
    ----------
    old, new : str
        Paths, or names of kernels and functions.
    sections : list of Section
        One for each work that both have: its title, unit and changes by row.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.Comparison("old.json", "new.json", []).to_dict()["kind"]
    'comparison'
    """

    KIND = "comparison"

    old: str
    new: str
    sections: list[Section]

    @property
    def verdict(self) -> str:
        """The verdicts of all sections, counted: "2 slower, 1 faster", or "no change"."""
        found = Counter(
            change.verdict
            for section in self.sections
            for changes in section.rows.values()
            for change in changes.values()
            if change.verdict
        )
        return ", ".join(f"{count} {name}" for name, count in found.most_common()) or "no change"

    def failed(self, condition: str) -> list[str]:
        """Return the rows that meet a condition, for scripts that should then fail.

        Parameters
        ----------
        condition : str
            "slower", "faster", "more" or "fewer": any such verdict. Or how much a counter or a mode
            ("warm", "cold") grew: "bank_conflicts>0", "warp_instructions>5%", "cold>10%".

        Raises
        ------
        ValueError
            Something else.
        """
        if condition in VERDICTS:
            return [
                f"{name}, {key or section.unit}: {change.verdict}"
                for section in self.sections
                for name, changes in section.rows.items()
                for key, change in changes.items()
                if change.verdict == condition
            ]
        found = _CONDITION.fullmatch(condition.replace(" ", ""))
        if not found:
            more = ", or a growth such as 'bank_conflicts>0', 'warp_instructions>5%', 'cold>10%'"
            raise ValueError(unknown_name("condition", condition, "a condition", VERDICTS, more))
        name, limit, percent = found[1], float(found[2]), bool(found[3])
        if name not in MODES:
            check_name(name, "condition")
        elif not percent:
            raise ValueError(
                f"condition: {condition!r:.60}: a time's growth is in %, as '{name}>5%'"
            )
        return [
            f"{row}, {name}: {change.old:,.6g} -> {change.new:,.6g}"
            for section in self.sections
            for row, changes in section.rows.items()
            for key, change in changes.items()
            if key == name and change.growth(percent) > limit
        ]

    def __repr__(self) -> str:
        """Return the sections, one after the other, and the verdict."""
        text = "\n\n".join("\n".join(section.lines()) for section in self.sections)
        text += f"\n\n{self.verdict}"
        return "\n".join(line.rstrip() for line in text.splitlines())


def _verdict(change: float, spread: float) -> str:
    if not abs(change) > max(LEAST_CHANGE, spread):
        return ""
    return "slower" if change > 0 else "faster"


def _times(old: Any, new: Any) -> dict[str, Change]:
    """Return the changes of what has a warm and a cold timing."""
    found = {}
    for mode in MODES:
        then: Timing = getattr(old, mode)
        now: Timing = getattr(new, mode)
        if then.samples and now.samples:
            ratio = now.median / then.median
            verdict = _verdict(ratio - 1, then.spread + now.spread)
            found[mode] = Change(then.median, now.median, ratio, verdict)
    return found


def _counts(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, Change]:
    """Return every counter that both sides know and one has: any change of a count counts."""
    found = {}
    pairs = {name: (old[name], new[name]) for name in new if name in old}
    if all(f"shared_{kind}_conflicts" in pairs for kind in ("load", "store")):
        loads, stores = pairs["shared_load_conflicts"], pairs["shared_store_conflicts"]
        pairs = {"bank_conflicts": (loads[0] + stores[0], loads[1] + stores[1])} | pairs
    for name, (then, now) in pairs.items():
        if then or now:
            ratio = now / then if then else None
            verdict = "" if then == now else "more" if now > then else "fewer"
            found[name] = Change(then, now, ratio, verdict)
    return found


def _ceilings(old: Roofline, new: Roofline) -> Section:
    rates = {each.name: each for each in old.ceilings}
    rows = {}
    for each in new.ceilings:
        then = rates.get(each.name)
        if then:
            ratio = then.rate / each.rate
            verdict = _verdict(ratio - 1, then.spread + each.spread)
            rows[each.name] = {"": Change(then.rate, each.rate, ratio, verdict)}
    return Section(f"{new.device.description}: ceilings, GB/s or GFLOP/s", "per s", rows)


def _ladders(old: Ladder, new: Ladder) -> Iterable[Section]:
    """Return a section of times, and one of counters, as far as both ladders have them."""
    before = {row.rung.name: row for row in old.rows}
    pairs = [(before[row.rung.name], row) for row in new.rows if row.rung.name in before]
    title = f"{new.title}, {old.device.description} -> {new.device.description}"
    if old.timed and new.timed:
        times = {label(row.rung): _times(then, row) for then, row in pairs}
        yield Section(title, "s", times)
    counted = {
        label(row.rung): _counts(then.counted.counters, row.counted.counters)
        for then, row in pairs
        if then.counted and row.counted
    }
    if counted:
        yield Section(f"{title}: counters", "count", counted)


def _profiles(old: Measurements, new: Measurements) -> Iterable[Section]:
    """Return the changes of two profiles, kernel by kernel, and those of lines that both have.

    Kernels are the same by name; as many others on both sides in the order of their launches.
    """
    before, after = old.profiles, new.profiles
    rows = {name: _counts(before[name], each) for name, each in after.items() if name in before}
    gone = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    if len(gone) == len(come):
        for then, now in zip(gone, come, strict=True):
            rows[f"{then} -> {now}"] = _counts(before[then], after[now])
    yield Section("profiles: counters", "count", rows)
    lines = {
        name: _counts(old.lines[name], each)
        for name, each in new.lines.items()
        if name in old.lines
    }
    if rows and lines:
        yield Section("profiles: source lines", "count", lines)


def _benches(old: Bench, new: Bench) -> Section:
    before = {row.title: row for row in old.rows}
    rows = {row.title: _times(before[row.title], row) for row in new.rows if row.title in before}
    title = f"gpuopt's times, {old.device.description} -> {new.device.description}"
    return Section(title, "s", rows)


def _work(measured: Measured) -> tuple[Any, ...]:
    """Return what two measurements of the same work on the same kind of device share."""
    of: tuple[Any, ...] = ()
    if isinstance(measured, Ladder):
        of = (measured.family, measured.op, measured.dtype, measured.n, measured.block)
    return (*of, measured.device.kind)


def _pairs(old: list[Measured], new: list[Measured]) -> Iterable[tuple[Measured, Measured]]:
    """Return the pairs of measurements: on the same device, else on the only one of its kind."""

    def machine(measured: Measured) -> tuple[str, str]:
        return measured.device.name, measured.device.description

    for after in new:
        before = [each for each in old if _work(each) == _work(after)]
        again = [each for each in new if _work(each) == _work(after)]
        found = [each for each in before if machine(each) == machine(after)]
        if not found and len(set(map(machine, before))) == len(set(map(machine, again))) == 1:
            found = before
        if found:
            yield found[-1], after


def _sections(old: Measurements, new: Measurements) -> Iterable[Section]:
    yield from (_ceilings(*pair) for pair in _pairs(old.roofs, new.roofs))
    for pair in _pairs(old.ladders, new.ladders):
        yield from _ladders(*pair)
    yield from (_benches(*pair) for pair in _pairs(old.benches, new.benches))
    yield from _profiles(old, new)


def _profiled(side: Any, arguments: tuple, device: str | None, keywords: dict) -> Profile:
    """Profile a function or a kernel on copies of the arguments."""
    if isinstance(side, Kernel) and device is None:
        device = side.module.device
    copies = tuple(copied(each) for each in arguments)
    return profile(side, *copies, device=device or "sim", **keywords)


def _side(side: Any, name: str) -> tuple[str, Measurements]:
    """Return the name and the measurements of one side; None: it is no such thing."""
    if isinstance(side, str | os.PathLike):
        return os.fspath(side), load(Path(side))
    found = Measurements()
    for kind, listed in ((Roofline, found.roofs), (Ladder, found.ladders), (Bench, found.benches)):
        if isinstance(side, kind):
            listed.append(side)
            return kind.__name__.lower(), found
    if isinstance(side, Profile):
        for launch in side.launches:
            found.count(launch.kernel, launch.counters)
            for each in launch.lines:
                at = place((each.file, each.line if each.file else each.ptx_line))
                found.count(launch.kernel, each.counters, at)
        return ", ".join(found.profiles) or "profile", found
    raise TypeError(
        f"{name}: must be a file, a Profile, a Ladder, a Roofline, a Bench, a kernel or another "
        f"function, not {side!r:.60}"
    )


@suggests
def compare(
    old: Any, new: Any, *arguments: Any, device: str | None = None, **keywords: Any
) -> Comparison:
    """Compare two sides: files of results, measurements, profiles, or kernels.

    A time or rate has changed if the change is more than both spreads together, and more than 1%.
    Counters are exact: any difference is a change; profiles are compared line by line, too.
    Two devices are the same by name and description; if each side has one device of a kind, these
    two are compared.

    Parameters
    ----------
    old, new : path, Ladder, Roofline, Bench, Profile, kernel or callable
        A file of ``python -m gpuopt ladder --json``, ``roofline --json``, ``bench --json`` or
        ``reference``, or `json.dump` of a `to_dict`; or a report of Nsight Compute: ".ncu-rep"
        (needs the package ncu-report), or the text of ``ncu --csv --page raw``, as ".csv". Its
        instructions are the machine's, those of a simulated GPU PTX's. A kernel, or a function that
        launches some, is profiled on copies of the arguments.
    *arguments, **keywords
        For two kernels: the grid, the block and the arguments of both launches. For two functions:
        theirs.
    device : str, optional
        The simulated GPU of functions: "sim", or a preset as "sim:t4".

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError
        A side is something else, or arguments are passed without a function.
    ValueError
        A file holds something else, or the two have nothing in common.
    ImportError
        A report of Nsight Compute, and the package ncu-report is missing.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.arange(4096, dtype=np.int32)
    >>> second = gpuopt.profile(gpuopt.reduce, x, variant=2)
    >>> third = gpuopt.profile(gpuopt.reduce, x, variant=3)
    >>> gpuopt.compare(second, third).failed("bank_conflicts>0")
    []
    """
    sides = []
    for side, name in ((old, "old"), (new, "new")):
        runs = callable(side) and not isinstance(side, Profile)
        if not runs and (arguments or keywords):
            raise TypeError(f"{name}: arguments are for kernels and functions, not {side!r:.60}")
        label_ = getattr(side, "name", getattr(side, "__name__", "")) if runs else ""
        made = _profiled(side, arguments, device, keywords) if runs else side
        text, found = _side(made, name)
        sides.append((label_ or text, found))
    (before, old_), (after, new_) = sides
    sections = [each for each in _sections(old_, new_) if each.rows]
    if not sections:
        raise ValueError(f"{before} and {after} have no measurement of the same work")
    return Comparison(before, after, sections)
