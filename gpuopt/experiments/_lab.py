"""What experiments are made of: launches that are verified, then timed or counted, then verified.

On a GPU the launches take turns, sample by sample, so that a drift of the machine meets all of
them; outputs are poisoned before each check. Cold: every launch works on another copy of the data,
from more copies than the caches hold; warm: on the same. A simulated GPU has no times: there every
launch runs once and is counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuopt.catalog.devices import Device, device as describe_device, device_name
from gpuopt.explain.profile import Launch, profile
from gpuopt.measure.ceilings import VerificationError, spread
from gpuopt.measure.ladder import SAMPLE_SECONDS
from gpuopt.ptx.module import Buffer, Module, Prepared
from gpuopt.util.checks import whole

CACHES = 4  # cold: the copies are together so many times as large as the last-level cache
COPIES_MOST = 64
RUNS_MOST = 1000
POISON = 0xFF  # NaN in every floating-point type, -1 in integers


def choose(device: str | None, preset: str) -> Device:
    """Return the device of an experiment, by the rule of `gpuopt.ladder`.

    Parameters
    ----------
    device : str or None
        "cuda", "cuda:1", "sim:h200", ...; None: GPUOPT_DEVICE, else a GPU if there is one, else
        "sim".
    preset : str
        What "sim" stands for: the simulated GPU that the deck used.
    """
    name = device_name(device, "sim")
    described = describe_device(f"sim:{preset}" if name == "sim" else name)
    if described.kind == "cpu":
        raise ValueError(
            "device: 'cpu' runs no kernels, and experiments are kernels; use 'cuda', 'sim' or a "
            "preset as 'sim:g80'"
        )
    return described


@dataclass
class Trial:
    """One launch of an experiment.

    Attributes
    ----------
    name : str
    kernel : str
        Of an embedded image.
    grid, block : int or tuple of int
    arguments : tuple
        Its arguments: arrays are inputs, each copied to the device; `Output` is what it writes;
        anything else is passed as it is.
    check : callable
        From the output to what is wrong with it, or "".
    shared : int
        Bytes of dynamic shared memory a block.
    parameters : dict
        For the row.
    """

    name: str
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    arguments: tuple[Any, ...]
    check: Callable[[np.ndarray], str]
    shared: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    deck: str = ""


@dataclass(frozen=True)
class Output:
    """What a launch writes: so many items of a dtype."""

    items: int
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """Return its size in bytes."""
        return self.items * np.dtype(self.dtype).itemsize


@dataclass
class Outcome:
    """A trial and what was found: seconds a launch on a GPU, counters on a simulated one."""

    trial: Trial
    seconds: float = 0.0
    spread: float = 0.0
    launch: Launch | None = None


class Lab:
    """The embedded kernels on a device, and the data of an experiment there.

    Inputs are kept by identity: trials that share an array share its copies on the device.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.timed = device.kind == "cuda"
        self.module = Module(None, device.name)
        self._inputs: dict[tuple[int, int], tuple[np.ndarray, Buffer]] = {}
        self._outputs: dict[tuple[int, int], Buffer] = {}

    def _input(self, array: np.ndarray, copy: int) -> Buffer:
        key = id(array), copy
        if key not in self._inputs:  # the array is kept, so that no other gets its id
            self._inputs[key] = array, self.module.copy(array)
        return self._inputs[key][1]

    def _output(self, nbytes: int, copy: int) -> Buffer:
        key = nbytes, copy
        if key not in self._outputs:
            self._outputs[key] = self.module.empty(nbytes)
        return self._outputs[key]

    def _arguments(self, trial: Trial, copy: int) -> tuple[list[Any], Buffer, Output]:
        values, written, output = [], None, None
        for argument in trial.arguments:
            if isinstance(argument, Output):
                output, written = argument, self._output(argument.nbytes, copy)
                values.append(written)
            elif isinstance(argument, np.ndarray):
                values.append(self._input(argument, copy))
            else:
                values.append(argument)
        if written is None or output is None:
            raise TypeError(f"trial {trial.name!r} has no Output to verify")
        return values, written, output

    def run(self, trial: Trial) -> Launch | None:
        """Poison the output, run the trial once, verify it; return what a simulated GPU counts."""
        values, written, output = self._arguments(trial, 0)
        poison = np.full(output.nbytes, POISON, np.uint8)
        self.module._core.copy_in(written.address, poison)
        kernel = self.module[trial.kernel]
        launches: list[Launch] = []
        if self.timed:
            kernel(trial.grid, trial.block, *values, shared=trial.shared)
        else:
            counted = profile(
                kernel, trial.grid, trial.block, *values, shared=trial.shared,
                device=self.device.name,
            )  # fmt: skip
            launches = counted.launches
        error = trial.check(written.get(output.dtype))
        if error:
            raise VerificationError(f"{trial.name}: kernel {trial.kernel} gave {error}")
        return launches[-1] if launches else None

    def _bound(self, trial: Trial, cold: bool) -> list[Prepared]:
        """Return the launches of one round: one, or one for each copy of the data."""
        copies = 1
        if cold:
            size = sum(
                each.nbytes for each in trial.arguments if isinstance(each, np.ndarray | Output)
            )
            copies = min(COPIES_MOST, 2 + CACHES * self.device.cache_bytes // max(1, size))
        kernel = self.module[trial.kernel]
        return [
            kernel.bind(
                trial.grid, trial.block, *self._arguments(trial, copy)[0], shared=trial.shared
            )
            for copy in range(copies)
        ]

    def measure(self, trials: Sequence[Trial], *, cold: bool, rounds: int = 7) -> list[Outcome]:
        """Verify every trial, time all of them in turns, verify again; or count each once."""
        outcomes = [Outcome(trial, launch=self.run(trial)) for trial in trials]
        if not self.timed:
            return outcomes
        bound = [self._bound(trial, cold) for trial in trials]
        runs = []
        for launches in bound:
            once = self.module.time(launches, 1)
            runs.append(max(1, min(RUNS_MOST, int(SAMPLE_SECONDS / max(once, 1e-9)))))
        samples: list[list[float]] = [[] for _ in trials]
        for _ in range(rounds):
            for launches, count, sample in zip(bound, runs, samples, strict=True):
                sample.append(self.module.time(launches, count) / len(launches))
        for outcome, sample in zip(outcomes, samples, strict=True):
            outcome.seconds = statistics.median(sample)
            outcome.spread = spread(sample)
        for trial in trials:
            self.run(trial)
        return outcomes


def how(timed: bool, cold: bool, rounds: int) -> str:
    """Return how it was measured, for an experiment's notes."""
    if not timed:
        return "the same compiled kernels, verified and counted; a simulated GPU has no times"
    mode = "cold: other data each time, from memory" if cold else "warm: the same data each time"
    return f"medians of {rounds} samples in turns, verified before and after; {mode}"


def size(n: Any, default: int, name: str = "n") -> int:
    """Return a count of at least 1; None is the default."""
    if n is None:
        return default
    if isinstance(n, bool):
        raise TypeError(f"{name}: must be an integer, not {n!r}")
    return whole(n, name, 1)


def several(values: Any, name: str) -> list[Any]:
    """Return an argument that is a list; its items are looked at one by one."""
    if isinstance(values, str) or not np.iterable(values):
        raise TypeError(f"{name}: must be a list of ints, not {values!r:.60}")
    return list(values)


def wrong(got: np.ndarray, want: np.ndarray, bound: np.ndarray | float = 0.0) -> str:
    """Tell where an array is off by more than a bound; written so that NaN fails."""
    exact = isinstance(bound, float) and not bound
    fits = got == want if exact else np.abs(got - want) <= bound
    if fits.all():
        return ""
    at = int(np.flatnonzero(~fits)[0])
    return (
        f"{np.count_nonzero(~fits):,} wrong items, the first of them number {at:,}: "
        f"{got[at]!r} instead of {want[at]!r}"
    )
