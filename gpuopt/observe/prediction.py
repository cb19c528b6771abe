"""Predicted times as results: what `gpuopt.predict` and `Profile.predicted` return."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil, prod
from numbers import Real
from typing import Any

import numpy as np

from gpuopt.catalog.figures import FIGURES
from gpuopt.observe.bounds import preset_row, short
from gpuopt.observe.launches import Launch
from gpuopt.observe.scoreboard import parse
from gpuopt.observe.timing import ERROR, GpuModel, body_of, times_of
from gpuopt.util.serialise import Written
from gpuopt.util.table import Column, Table, Tabled

NEVER = math.nan
HOWS = ("queue", "graph")
BUSY = 0.6  # of the time: a unit is the limit for NVIDIA's Visual Profiler
_KINDS = {
    "memory": ("DRAM", "L2", "atomics", "texture", "LSU", "shared memory"),
    "compute": ("issue",),
}
_CACHES = "the caches decide: the time is that of perfect ones, the interval's end that of none"


@dataclass(frozen=True)
class LaunchPrediction:
    """The predicted time of one launch.

    Attributes
    ----------
    kernel : str
    grid, block : (int, int, int)
    seconds, low, high : float
        The time, and the interval that it should lie in; NaN where the model has no answer.
    bound : str
        "issue", "shared memory", "LSU", "texture", "DRAM", "L2", "atomics", "latency",
        "block starts" or "launch"; "" where the model has no answer.
    shares : dict of str to float
        Each resource's own time over `seconds`: 1 is a resource that is busy all the time. They
        overlap, so that their sum may exceed 1.
    note : str
        Why there is no answer, or what the answer takes for granted.
    arch : str
        The architecture whose machine code was counted, "sm_90"; "": PTX's instructions were.
    spread : float
        The multiprocessors' average load over that of the busiest: 4 blocks on 15 are 0.27.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    seconds: float
    low: float
    high: float
    bound: str
    shares: dict[str, float]
    note: str = ""
    arch: str = ""
    spread: float = 1.0

    @property
    def verdict(self) -> str:
        """The limiter as profilers tell it: "memory-bound: DRAM is busy for 84% of the time".

        A launch is bound by memory, or by the issue of instructions, if that is busy for 60% of its
        time on the whole GPU, else by latency; or by the launch itself. "" without an answer.
        """
        if not self.bound:
            return ""
        if self.bound == "launch":
            return f"launch-bound: the launch itself takes {self.shares['launch']:.0%} of the time"
        (memory, name), (issue, _) = (
            max((self._load(each), each) for each in names) for names in _KINDS.values()
        )
        if max(memory, issue) < BUSY:
            return (
                f"latency-bound: memory is busy for {memory:.0%} of the time, instructions are "
                f"issued for {issue:.0%}"
            )
        if issue > memory:
            return f"compute-bound: instructions are issued for {issue:.0%} of the time"
        return f"memory-bound: {name} is busy for {memory:.0%} of the time"

    def _load(self, name: str) -> float:
        """Return the part of the kernel's own time in which the GPU's units are busy."""
        share = self.shares.get(name, 0.0) / (1 - self.shares["launch"])
        return min(1.0, share if name in ("DRAM", "L2", "atomics") else share * self.spread)


@dataclass(frozen=True, repr=False)
class Prediction(Written, Tabled):
    """Predicted time of a call on a GPU; no measurement. `print` and Jupyter show a table.

    Attributes
    ----------
    device : str
        The GPU, with the figures that were changed.
    launches : list of LaunchPrediction

    Notes
    -----
    docs/predictions.md describes the model, and how far it is off.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.ones(1 << 16, np.int32)
    >>> predicted = gpuopt.predict(gpuopt.reduce, x, variant=3, device="sim:g80")
    >>> predicted.bound
    'issue'
    >>> predicted.low < predicted.seconds < predicted.high
    True
    """

    KIND = "prediction"
    TOLD = ("device",)
    RECORDS = "launches"

    device: str
    launches: list[LaunchPrediction]

    def _sum(self, name: str) -> float:
        return sum(getattr(each, name) for each in self.launches)

    @property
    def seconds(self) -> float:
        """The time of all launches, one after the other; NaN where the model has no answer."""
        return self._sum("seconds")

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self._sum("low")

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self._sum("high")

    @property
    def bound(self) -> str:
        """The bound of the launches that take most of the time; "" without an answer."""
        if math.isnan(self.seconds):
            return ""
        sums: dict[str, float] = {}
        for each in self.launches:
            sums[each.bound] = sums.get(each.bound, 0.0) + each.seconds
        return max(sums, key=sums.__getitem__)

    @property
    def verdict(self) -> str:
        """The limiter of the launch that takes longest, as `LaunchPrediction.verdict`."""
        return max(self.launches, key=lambda each: each.seconds).verdict if self.bound else ""

    @property
    def shares(self) -> dict[str, float]:
        """Each resource's own time over that of all launches."""
        sums: dict[str, float] = {}
        for each in self.launches:
            for name, share in each.shares.items():
                sums[name] = sums.get(name, 0.0) + share * each.seconds
        return {name: each / self.seconds for name, each in sums.items()}

    @property
    def note(self) -> str:
        """The launches' notes, each once."""
        return "; ".join(dict.fromkeys(each.note for each in self.launches if each.note))

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each launch, for pandas: times in seconds, shares by resource."""
        names = list(dict.fromkeys(name for each in self.launches for name in each.shares))
        return [
            {
                "kernel": each.kernel,
                "grid": each.grid,
                "block": each.block,
                "device": self.device,
                "predicted_seconds": each.seconds,
                "low": each.low,
                "high": each.high,
                "bound": each.bound,
                "arch": each.arch,
                "note": each.note,
            }
            | {name: each.shares.get(name, 0.0) for name in names}
            for each in self.launches
        ]

    def _above(self) -> list[str]:
        if math.isnan(self.seconds):
            return [f"no prediction on a {self.device}"]
        return [
            f"predicted, not measured, on a {self.device}: {self.seconds * 1e6:,.4g} us "
            f"({self.low * 1e6:,.4g} to {self.high * 1e6:,.4g}), bound by {self.bound}"
        ]

    def _table(self) -> Table:
        names = list(dict.fromkeys(name for each in self.launches for name in each.shares))
        columns = [
            Column("kernel", "kernel", left=True),
            Column("blocks", "blocks"),
            Column("predicted", "predicted\nus", "~", 1e6, keep=9),
            Column("bound", "bound", left=True, keep=8),
            *(Column(name, name.replace(" ", "\n"), ".0%") for name in names),
        ]
        records = [
            each
            | {
                "kernel": short(each["kernel"]),
                "blocks": prod(each["grid"]),
                "predicted": None
                if math.isnan(each["predicted_seconds"])
                else each["predicted_seconds"],
            }
            for each in self.records()
        ]
        return Table(columns, records)

    def _below(self) -> list[str]:
        found = list(dict.fromkeys(each.arch for each in self.launches if each.arch))
        code = [f"instructions: machine code of {', '.join(found)}"] if found else []
        return code + ([self.note] if self.note else [])


def changed(device: str, **values: float | None) -> tuple[GpuModel, str]:
    """Return a preset with some figures changed, and its title.

    Parameters
    ----------
    device : str
        "sim:g80"
    **values
        `clock` in Hz, `bandwidth` in bytes per second, `multiprocessors`; None leaves one alone.
    """
    for name, value in values.items():
        if value is not None and not isinstance(value, Real):
            raise TypeError(f"{name}: must be a number, not {value!r:.60}")
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name}: must be more than 0, not {value!r}")
    row = preset_row(device)
    figures, title = FIGURES[row["name"]], row["title"]
    clock, bandwidth, count = (values[each] for each in ("clock", "bandwidth", "multiprocessors"))
    if clock:
        ratio = clock / (row["clock_ghz"] * 1e9)
        # DRAM's latency is a time, not a number of clocks; L2 has the multiprocessors' clock.
        figures = replace(
            figures,
            dram=figures.dram * ratio,
            **{
                name: getattr(figures, name) * ratio
                for name in ("l2_gbs", "atomics", "all_atomics")
            },
        )
        row = row | {"clock_ghz": clock / 1e9}
        row |= {name: row[name] * ratio for name in ("f32_gflops", "f64_gflops")}
        title += f" at {clock / 1e9:g} GHz"
    if bandwidth:
        row = row | {"bandwidth_gbs": bandwidth / 1e9}
        title += f" with {bandwidth / 1e9:g} GB/s"
    if count:
        if count != int(count):
            raise ValueError(f"multiprocessors: must be a whole number, not {count!r}")
        ratio = count / row["multiprocessors"]
        row = row | {"multiprocessors": int(count)}
        row |= {name: row[name] * ratio for name in ("f32_gflops", "f64_gflops")}
        title += f" with {int(count)} multiprocessors"
    return GpuModel(row, figures), title


def predict_launches(
    launches: Iterable[Launch],
    *,
    cold: bool = False,
    how: str = "queue",
    clock: float | None = None,
    bandwidth: float | None = None,
    multiprocessors: int | None = None,
    compiled_code: bool = True,
) -> Prediction:
    """Return the predicted times of launches on the presets that ran them.

    Without `compiled_code` no machine code is looked at, which ptxas may need a second for.
    """
    if how not in HOWS:
        raise ValueError(f"how: {how!r:.40} is not one of {', '.join(map(repr, HOWS))}")
    found: list[LaunchPrediction] = []
    title, samples = "", {}
    for launch in launches:
        gpu, title = changed(
            launch.device, clock=clock, bandwidth=bandwidth, multiprocessors=multiprocessors
        )
        key = launch.kernel, launch.grid, launch.block
        samples.setdefault(key, launch.sample)
        if not launch.sample:
            launch = replace(launch, sample=samples[key])
        if not launch.sample or not launch.statements:
            raise ValueError(
                f"predicted: the launch of {launch.kernel:.60} has no recorded statements; predict "
                "from a profile that ran in this process, and not from a check or a file"
            )
        figures = gpu.figures
        start = figures.launch + figures.filling * min(
            1.0, prod(launch.grid) / gpu.row["multiprocessors"]
        )
        start += figures.queued if how == "queue" else 0.0
        found.append(_predict(launch, gpu, start, cold, compiled_code))
    if not found:
        raise ValueError("predicted: nothing was launched on a simulated GPU")
    return Prediction(title, found)


def verdicts_of(launches: list[Launch]) -> list[str]:
    """Return the launches' verdicts; "" where the model has no answer, or nothing to go by."""
    if not all(each.statements for each in launches):
        return [""] * len(launches)
    return [each.verdict for each in predict_launches(launches, compiled_code=False).launches]


def _predict(
    launch: Launch, gpu: GpuModel, start: float, cold: bool, compiled_code: bool
) -> LaunchPrediction:
    times = times_of(launch, gpu, cold, compiled_code)
    seconds = start + times.seconds
    why = beyond(launch, gpu, seconds, bool(times.arch))
    what = launch.kernel, launch.grid, launch.block
    if why:
        return LaunchPrediction(*what, NEVER, NEVER, NEVER, "", {}, why)
    shares = {name: each / seconds for name, each in times.resources.items()}
    shares["launch"] = start / seconds
    note = _CACHES if times.worst > ERROR * times.seconds else ""
    bound = "launch" if start > times.seconds else times.bound
    low, high = seconds / ERROR, (start + times.worst) * ERROR
    blocks, most = prod(launch.grid), gpu.row["multiprocessors"]
    spread = blocks / (most * ceil(blocks / most))
    return LaunchPrediction(*what, seconds, low, high, bound, shares, note, times.arch, spread)


# --- what the model does not cover

CONTENDED = 0.1  # of the time: atomics that might take as long are beyond the model
_UNKNOWN = {
    "tensor": "tensor cores are not modelled",
    "texture": "texture caches are not modelled",
}


def beyond(launch: Launch, gpu: GpuModel, seconds: float, compiled: bool) -> str:
    """Return why the model has no number for a launch; "" if it has one.

    Parameters
    ----------
    launch : Launch
    gpu : GpuModel
    seconds : float
        The prediction without regard to it.
    compiled : bool
        Whether it is by machine code.
    """
    body, counted = body_of(launch.texts), launch.counters
    in_a_loop = launch.column("warp_instructions") > counted.warps
    known = bool(gpu.figures.atomics and counted.atomic_passes)
    lanes = int(launch.column("predicated_on_threads")[body.on_global].sum())
    # One a clock on one address where nothing is known.
    hot = counted.atomic_hot_passes / gpu.figures.atomics / 1e9 if known else lanes / gpu.clock
    contended = hot > CONTENDED * seconds
    spins = body.spins | body.swaps if contended or not known else body.spins
    if compiled and body.bulk.any():  # the walk follows copies to the tests of their arrival
        spins = spins & ~body.arrivals
    for at in np.flatnonzero(spins & in_a_loop)[:1].tolist():
        name = parse(launch.texts[at]).name
        return f"{name} may wait for another block or a copy, for a time that is not modelled"
    for kind, why in _UNKNOWN.items():
        if kind in body.names:
            at = int(np.flatnonzero(body.kinds == body.names.index(kind))[0])
            return f"{parse(launch.texts[at]).name}: {why}"
    if contended and not known:
        return (
            f"{lanes:,} atomic operations would take {hot * 1e6:,.0f} us on one address: their "
            "contention is not modelled"
        )
    return ""
