"""Experiments that are nothing but time: copies and launches in turns, on a device with a timer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.measure.race import Contender, Effort, Timing, VerificationError, race
from gpuopt.ptx.buffers import Prepared
from gpuopt.ptx.module import Module

SAMPLE_SECONDS = 10e-3  # how long a sample shall take at least
RUNS_MOST = 500  # fewer launches than the driver's queue holds
ADD, FACTOR = 1013904223, 1664525  # of the kernel micro_advance_uint32


def choose(device: str | None, experiment: str, modelled: str = "") -> Device:
    """Return an experiment's device; ValueError where it has no timer.

    `modelled` is the preset that "sim" means where a model replaces the timer; "" for none.
    """
    described = _lab.choose(device, modelled or "h200")
    if modelled and described.kind == "sim":
        return described
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
        Returns the error of the memory that they have written, or "".
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
    timing: Timing = field(default_factory=Timing)

    def contender(self, module: Module) -> Contender:
        """Return the steps for a race."""

        def time(runs: int, _: bool = False) -> float:
            return self.seconds(runs) if self.seconds else module.time(self.steps, runs, self.how)

        def verify() -> None:
            self.poison()
            time(1)
            error = self.check()
            if error:
                raise VerificationError(f"{self.name}: gave {error}")

        most = max(1, RUNS_MOST // max(1, len(self.steps)))
        return Contender(time, verify, self.timing, runs_most=most)


def measure(module: Module, trials: Sequence[Timed], rounds: int) -> None:
    """Race the steps, verified before and after."""
    race([each.contender(module) for each in trials], Effort(rounds, SAMPLE_SECONDS))
