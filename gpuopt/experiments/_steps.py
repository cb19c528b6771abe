"""Experiments that are nothing but time: copies and launches in turns, on a device with a timer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.measure.ceilings import VerificationError, spread
from gpuopt.ptx.module import Module, Prepared

SAMPLE_SECONDS = 10e-3  # how long a sample shall take at least
RUNS_MOST = 500  # fewer launches than the driver's queue holds
ADD, FACTOR = 1013904223, 1664525  # of the kernel micro_advance_uint32


def choose(device: str | None, experiment: str) -> Device:
    """Return an experiment's device; ValueError where it has no timer."""
    described = _lab.choose(device, "h200")
    if described.kind != "cuda":
        raise ValueError(
            f"device: {described.name!r} has no timer, which {experiment} needs; use 'cuda'"
        )
    return described


def advanced(items: np.ndarray, steps: int) -> np.ndarray:
    """Return what the kernel micro_advance_uint32 makes of uint32 items: a generator's steps."""
    factor, add = 1, 0
    for _ in range(steps):
        factor, add = factor * FACTOR % 2**32, (add * FACTOR + ADD) % 2**32
    return items * np.uint32(factor) + np.uint32(add)


@dataclass
class Timed:
    """Steps to be timed together.

    Attributes
    ----------
    name : str
    steps : sequence of Prepared
    poison : callable
        Spoils what the steps write.
    check : callable
        Tells what is wrong with what they have written, or "".
    how : str
        As `gpuopt.Module.time` takes it.
    seconds : callable, optional
        From a number of runs to the seconds of one, where it is not `Module.time`.
    """

    name: str
    steps: Sequence[Prepared]
    poison: Callable[[], object]
    check: Callable[[], str]
    how: str = "queue"
    seconds: Callable[[int], float] | None = None
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median, in seconds."""
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Return the interquartile range over the median."""
        return spread(self.samples)

    def time(self, module: Module, runs: int) -> float:
        """Return the seconds of a run, of `runs`."""
        return self.seconds(runs) if self.seconds else module.time(self.steps, runs, self.how)

    def verified(self, module: Module) -> float:
        """Run on spoiled outputs and verify them; return the seconds."""
        self.poison()
        seconds = self.time(module, 1)
        error = self.check()
        if error:
            raise VerificationError(f"{self.name}: gave {error}")
        return seconds


def measure(module: Module, trials: Sequence[Timed], rounds: int) -> None:
    """Verify every trial, sample all of them in turns, verify again."""
    runs = []
    for trial in trials:
        most = max(1, RUNS_MOST // max(1, len(trial.steps)))
        runs.append(max(1, min(most, int(SAMPLE_SECONDS / max(trial.verified(module), 1e-9)))))
    for _ in range(rounds):
        for trial, count in zip(trials, runs, strict=True):
            trial.samples.append(trial.time(module, count))
    for trial in trials:
        trial.verified(module)
