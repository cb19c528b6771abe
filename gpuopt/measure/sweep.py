"""Sweeps what needs no compiling anew: rungs, block sizes, the planners' constants.

Tuned constants come from here: csrc/ops/ops_tuning.def lists those of the planners with the values
that may be tried, the registry which blocks a rung takes. Each trial is verified first, then all
take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays.dtypes import named_dtype
from gpuopt.arrays.inout import NUMBERS, Problem
from gpuopt.catalog.devices import Device, device as describe_device, device_name
from gpuopt.catalog.rungs import Rung, rungs
from gpuopt.families import axis_plan, cases
from gpuopt.families.cases import with_output
from gpuopt.measure import workloads
from gpuopt.measure.peer_libraries import Task
from gpuopt.measure.race import Contender, Effort, Progress, Timing, VerificationError, race
from gpuopt.show import experiment_plots
from gpuopt.show.ladder_table import label
from gpuopt.show.terminal import busy
from gpuopt.util.names import suggests, unknown_name
from gpuopt.util.serialise import Result
from gpuopt.util.table import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDS = 5  # samples of each trial
EFFORT = Effort(ROUNDS, sample_seconds=1e-3, hopeless=20)
WARM_UP_SECONDS = 0.2  # of a GPU's work before the first sample: clocks rise
CLOSE = 0.01  # a smaller difference is none
# Elements where none are named: on a GPU, on the cpu.
ITEMS = {
    **{name: family.swept for name, family in cases.FAMILIES.items()},
    "reduce_axis": ((1 << 20, 1 << 26), (1 << 16, 1 << 20)),
}
FAMILIES = tuple(ITEMS)
# For a reduction along an axis: the rows of n items, and the axis.
AXIS_SHAPES: tuple[tuple[Callable[[int], int], int], ...] = (
    (lambda n: _root(n), 0),
    (lambda n: _root(n), 1),
    (lambda n: 16, 0),
    (lambda n: 16, 1),
    (lambda n: n // 16, 0),
    (lambda n: n // 16, 1),
    (lambda n: n // 3, 0),
)


def _root(n: int) -> int:
    return 1 << (n.bit_length() - 1) // 2


@dataclass
class Trial:
    """One choice, and its time.

    Attributes
    ----------
    rung : str
        Its number and name.
    variant : int or str
    block : int or None
        Threads per block; None where the rung leaves no choice.
    constant : str
        The planner's constant that was set, "" for none.
    value : int
        Its value.
    default : bool
        Whether the library chooses it by itself.
    timing : Timing
        In seconds per run, on the same data each time.
    """

    rung: str
    variant: int | str
    block: int | None = None
    constant: str = ""
    value: int = 0
    default: bool = False
    timing: Timing = field(default_factory=Timing)

    @property
    def seconds(self) -> float:
        """The median."""
        return self.timing.median

    def __str__(self) -> str:
        """Return the choice in words."""
        block = f", blocks of {self.block}" if self.block else ""
        constant = f", {self.constant} = {self.value:,}" if self.constant else ""
        return f"rung {self.rung}{block}{constant}"


@dataclass
class Size:
    """All trials on one problem.

    Attributes
    ----------
    title : str
    trials : list of Trial
    refused : list of (str, str)
        Choices that do not take the problem, and why.
    n : int
        The number of items that was asked for.
    """

    title: str
    trials: list[Trial] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    n: int = 0

    @property
    def best(self) -> Trial | None:
        """The fastest; None where no choice takes the problem."""
        return min(self.trials, key=lambda trial: trial.seconds, default=None)

    @property
    def default(self) -> Trial | None:
        """The library's own choice; None where the device cannot run it."""
        return next((trial for trial in self.trials if trial.default), None)

    def lines(self) -> list[str]:
        """Return the section of the table."""
        left_out = [f"left out: {what}: {why}" for what, why in self.refused]
        best, default = self.best, self.default
        if not best:
            return [self.title, "", *left_out]
        lines = [self.title, "", *self._blocks(), *self._constants()]
        gain = default.seconds / best.seconds if default else math.inf
        if default:
            lines += ["", f"default: {default}: {default.seconds * 1e6:,.2f} us"]
        if gain - 1 <= CLOSE:
            lines.append(f"nothing is more than {CLOSE:.0%} faster")
        else:
            faster = f", {gain:.2f}x as fast" if default else ""
            lines.append(f"best:    {best}: {best.seconds * 1e6:,.2f} us{faster}")
        return lines + left_out

    def _cell(self, trial: Trial | None) -> str:
        if trial is None:
            return ""
        text = f"{trial.seconds * 1e6:,.2f}"
        text = f"[{text}]" if trial.default else text
        return f"{text}*" if trial is self.best else f"{text} "

    def _blocks(self) -> list[str]:
        """Return a line for each rung, and in it a column for each block."""
        plain = [trial for trial in self.trials if not trial.constant]
        blocks = sorted({trial.block for trial in plain if trial.block})
        columns = [
            Column("rung", "rung", left=True, least=20),
            *(Column(str(block), str(block or "us") + " ", least=11) for block in (None, *blocks)),
        ]
        records: dict[str, dict[str, str]] = {}
        for trial in plain:
            record = records.setdefault(trial.rung, {"rung": trial.rung})
            record[str(trial.block)] = self._cell(trial)
        return Table(columns, records.values()).lines()

    def _constants(self) -> list[str]:
        """Return a line for each of the planner's constants."""
        lines: dict[str, str] = {}
        for trial in self.trials:
            if trial.constant:
                told = lines.setdefault(trial.constant, f"{trial.constant:<20}")
                lines[trial.constant] = f"{told}  {trial.value:,}: {self._cell(trial)}"
        return ["", *lines.values()] if lines else []


@dataclass
class Sweep(Result):
    """The result of `gpuopt.sweep`; it shows itself as tables.

    Attributes
    ----------
    device : Device
    family, dtype : str
    sizes : list of Size
        With `trials`, and of those the `best` and the `default`.
    date, version : str
        When it was measured, by which gpuopt.

    Examples
    --------
    >>> import gpuopt
    >>> swept = gpuopt.sweep("add", [1000], device="cpu")
    >>> [trial.variant for trial in swept.sizes[0].trials]
    ['serial', 'openmp', 'simd']
    >>> swept.sizes[0].default.variant
    'simd'
    """

    KIND = "sweep"

    device: Device
    family: str
    dtype: str
    sizes: list[Size]
    date: str = ""
    version: str = ""

    def __repr__(self) -> str:
        """Return a table for each size, the best marked and what the library does beside it."""
        lines = [
            f"sweep of {self.family} on {self.device.description} ({self.device.name})",
            f"medians of {ROUNDS} samples, in us, on the same data each time; columns are threads "
            "per block; [what the library takes], * the best",
        ]
        for size in self.sizes:
            lines += ["", *size.lines()]
        told = busy(trial.timing.spread for size in self.sizes for trial in size.trials)
        lines += ["", *told] if told else []
        meanings = {
            row["name"]: f"{row['name']:<20}{row['meaning']}; rung {row['rung']}, "
            f"default {row['value']:,}"
            for row in _core.tunings(self.family)
            if any(t.constant == row["name"] for size in self.sizes for t in size.trials)
        }
        lines += ["", *meanings.values()] if meanings else []
        return "\n".join(line.rstrip() for line in lines)

    def plot(self, size: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw each rung's best time over the number of items, or the choices for one size.

        The first is the last chart of decks D0 and D4:
        ``sweep("reduce", [2**k for k in range(17, 26)], dtype="int32").plot()``.

        Parameters
        ----------
        size : int, optional
            Index into `sizes`: draw its fastest choices; the library's is hatched. Default: a line
            for each rung over all sizes; where there is but one number of items, its choices.
        ax : matplotlib.axes.Axes, optional
            Where to draw; default: a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ValueError
            There is no such size, or no choice takes it.
        ImportError
            matplotlib is missing; the message names the extra that brings it.
        """
        where, of_all = self.device.description, len({each.n for each in self.sizes})
        if size is None and of_all > 1 and of_all == len(self.sizes):
            return experiment_plots.sweep_over_sizes(
                self.sizes, f"{self.family}, all rungs", where, ax
            )
        size = -1 if size is None else size
        if not -len(self.sizes) <= size < len(self.sizes):
            raise ValueError(f"size: {size} is not an index of the {len(self.sizes)} sizes")
        return experiment_plots.sweep(self.sizes[size], where, ax)

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each trial, as ``pandas.DataFrame`` takes them; times in us."""
        return [
            {
                "work": size.title,
                **{k: v for k, v in asdict(trial).items() if k != "timing"},
                "us": trial.seconds * 1e6,
                "spread": trial.timing.spread,
                "best": trial is size.best,
            }
            for size in self.sizes
            for trial in size.trials
        ]


# --- problems


@dataclass
class _Subject:
    """Data on a device, and what tells the error of a rung's result on it."""

    title: str
    bench: _core.Workbench
    error: Callable[[Rung, Any], str]


def _along_axis(shape: tuple[int, ...], axis: int, dtype: str, device: str) -> _Subject:
    result = workloads.result_dtype("sum", dtype)
    work = workloads.Workload("axis", Task("reduce", "sum", result, axis), (shape,), dtype)
    arguments = workloads.draw(work)
    check = workloads.check_of(work, arguments)
    reduced = axis_plan.axis_kernel("sum", arguments[0].dtype, np.dtype(result), shape[axis])
    outer, inner = (shape[0], 1) if axis else (1, shape[1])
    run = arguments[0].reshape(-1).view(reduced.items)
    rows, columns = (outer, shape[axis] * inner, False), (inner, 1, False)
    one = axis_plan.pass_of(reduced, [rows], (shape[axis], inner), [columns])
    problem = Problem(*one.kernel, (run,), (one.results,), one.dtype, one.numbers)

    def error(rung: Rung, got: np.ndarray) -> str:
        return check(got.view(problem.dtype).astype(result), True)

    return _Subject(work.title, _core.Workbench(with_output(problem), device=device), error)


def _subjects(family: str, n: int, dtype: str, device: str) -> list[Callable[[], _Subject]]:
    """Return functions that make the subjects of n items."""
    if family == "reduce_axis":
        shapes = {}
        for rows_of, axis in AXIS_SHAPES:
            rows = max(1, rows_of(n))
            shapes[(rows, max(1, n // rows)), axis] = None
        return [
            lambda shape=shape, axis=axis: _along_axis(shape, axis, dtype, device)
            for shape, axis in shapes
        ]

    def make() -> _Subject:
        case = cases.make(family, n, dtype, timed=True, device=device)
        return _Subject(case.title, case.bench(device), case.error)

    return [make]


# --- trials


def _blocks(rung: Rung) -> list[int | None]:
    if rung.block_min == rung.block_max:
        return [None]
    least, most = rung.block_min.bit_length() - 1, rung.block_max.bit_length()
    return [1 << k for k in range(least, most)]


def _trials(family: str, kind: str, default: str) -> list[tuple[Rung, Trial]]:
    """Return every rung with every block; and with its default block, every constant's values.

    `default` is the rung that the library takes for the problem.
    """
    found = []
    for rung in rungs(family):
        if rung.host != (kind == "cpu") or rung.historical or rung.ceiling:
            continue
        blocks = _blocks(rung)
        for block in blocks:
            taken = rung.name == default and block in (None, rung.block_default)
            found.append((rung, Trial(label(rung), rung.variant, block, default=taken)))
        block = rung.block_default if len(blocks) > 1 else None
        for row in _core.tunings(family):
            for value in row["tried"] if rung.number == row["rung"] else ():
                if value != row["value"]:
                    trial = Trial(label(rung), rung.variant, block, row["name"], value)
                    found.append((rung, trial))
    return found


def _call(trial: Trial) -> dict[str, Any]:
    named: dict[str, Any] = {"variant": trial.variant}
    if trial.block:
        named["block"] = trial.block
    return named | ({"tuning": {trial.constant: trial.value}} if trial.constant else {})


def _unfit(error: Exception) -> str:
    """Return why a choice cannot take the problem, or an older GPU has no kernel for it."""
    if isinstance(error, ValueError | _core.DeviceError) and not isinstance(
        error, _core.DeviceLost
    ):
        return str(error)
    raise error


def _default_rung(bench: _core.Workbench) -> str:
    """Return the rung that the library chooses; "" where an older GPU has no kernel of it."""
    try:
        return bench.rung()
    except _core.DeviceError as error:
        _unfit(error)
        return ""


def _measure(subject: _Subject, family: str, kind: str) -> Size:
    """Race every choice that can take the problem."""
    size, bench = Size(subject.title), subject.bench

    def contender(rung: Rung, trial: Trial) -> Contender:
        call = _call(trial)

        def verify() -> None:
            error = subject.error(rung, bench.run(**call))
            if error:
                raise VerificationError(f"{family}, {trial}: gave {error}: nothing was measured")

        return Contender(
            lambda runs, cold: bench.time(**call, runs=runs, cold=cold),
            verify,
            trial.timing,
            excuse=_unfit,
        )

    tried = _trials(family, kind, _default_rung(bench))
    racing = [contender(*each) for each in tried]
    race(racing, EFFORT if kind != "cuda" else replace(EFFORT, warm_up_seconds=WARM_UP_SECONDS))
    for (_, trial), each in zip(tried, racing, strict=True):
        if each.failure:
            size.refused.append((str(trial), each.failure))
        else:
            size.trials.append(trial)
    return size


def _items(family: str, n: int | Sequence[int] | None, kind: str) -> Sequence[int]:
    if n is None:
        return ITEMS[family][kind == "cpu"]
    every = []
    for each in n if np.iterable(n) else [n]:
        try:
            every.append(0 if isinstance(each, bool) else index(each))
        except TypeError:
            every.append(0)
        if every[-1] < 1:
            raise ValueError(f"n: must be numbers of items, at least 1, not {each!r:.60}")
    return every


@suggests
def sweep(
    family: str = "reduce",
    n: int | Sequence[int] | None = None,
    *,
    dtype: str = "float32",
    device: str | None = None,
    progress: Progress = lambda text, share: None,
) -> Sweep:
    """Measure every choice that needs no compiling, and tell what the library should take.

    Every rung with every block size; and of the rungs that have such, every value of their
    planner's constants, one at a time: shares of a multiprocessor, items per thread, tilings.

    Parameters
    ----------
    family : {"reduce", "reduce_axis", "transpose", "stencil1d", "add", "saxpy", "matmul"}
    n : int or sequence of int, optional
        Numbers of items; a square matrix has about this number. Default: from few to many.
    dtype : str
        Dtype of the items.
    device : str, optional
        "cuda", "cuda:1" or "cpu" (rungs alone: it has no blocks). Default: GPUOPT_DEVICE; else a
        GPU if there is one, else the cpu.
    progress : callable
        Progress callback: message, fraction from 0 to 1.

    Returns
    -------
    Sweep

    Raises
    ------
    VerificationError
        A choice gave a wrong result.
    ValueError
        An unknown family or device; a simulated GPU, which has no timer.
    TypeError, DeviceError, DeviceMemoryError
        As `gpuopt.ladder`.

    Notes
    -----
    Launches are queued from C, back to back on the same data (as one CUDA graph),
    and timed by the device. A choice more than 20 times slower than the best has one sample.

    Examples
    --------
    >>> import gpuopt
    >>> swept = gpuopt.sweep("reduce", 4096, device="cpu")
    >>> print(str(swept).splitlines()[3])
    sum of 4,096 float32
    >>> swept.sizes[0].best.seconds <= swept.sizes[0].default.seconds
    True
    """
    if not isinstance(family, str) or family not in FAMILIES:
        raise ValueError(unknown_name("family", family, "a family that can be swept", FAMILIES))
    dtype = named_dtype(dtype).name
    if dtype not in NUMBERS:
        raise TypeError(unknown_name("dtype", dtype, "a dtype that is measured", NUMBERS))
    described = describe_device(device_name(device, "cpu"))
    if described.kind == "sim":
        raise ValueError(
            f"device: {described.name} has no timer to choose by; it gives counters: "
            f"'python -m gpuopt ladder {family} --device {described.name} --block 256', "
            "gpuopt.profile; device='cuda' or 'cpu' gives times"
        )
    made = [
        (each, make)
        for each in _items(family, n, described.kind)
        for make in _subjects(family, each, dtype, described.name)
    ]
    swept = Sweep(
        described,
        family,
        dtype,
        [],
        datetime.now(UTC).isoformat(timespec="seconds"),
        _core.__version__,
    )
    for at, (items, make) in enumerate(made):
        progress(f"{family}, problem {at + 1} of {len(made)}", at / len(made))
        swept.sizes.append(replace(_measure(make(), family, described.kind), n=items))
    return swept
