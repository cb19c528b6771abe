"""The one timing loop: verify every contender, sample all of them in turns, verify again.

Contenders alternate, round by round, so that a drift of the machine reaches all of them alike. A
warm run works on the same data each time, which a cache may hold; a cold run works on another copy,
from more copies than the caches hold. Times are in seconds per run.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuopt.util.checks import finite

RUNS_MOST = 1000  # in one sample
RUNS_LEAST = 3  # in one sample of a contender that is not slow
SLOW_SECONDS = 0.05  # of one run, from which on it is slow

Progress = Callable[[str, float], None]  # a line of text, and the share of the work that is done


class VerificationError(RuntimeError):
    """A kernel returned a wrong result: nothing is timed.

    Examples
    --------
    >>> import gpuopt
    >>> issubclass(gpuopt.VerificationError, RuntimeError)
    True
    """


@dataclass
class Timing:
    """Samples of one contender in one mode, in seconds per run."""

    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        """Return the smallest sample."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """Return the interquartile range over the median; 0 for fewer than two samples."""
        if len(self.samples) < 2:
            return 0.0
        low, middle, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / middle

    @classmethod
    def from_plain(cls, told: Any) -> Timing:
        """Read a list of samples, or a dict that holds one; each must be more than 0."""
        samples = told["samples"] if isinstance(told, dict) else told
        if not all(finite(each, "samples") > 0 for each in samples):
            raise ValueError("samples: must be more than 0")
        return cls(samples)


def host_seconds(
    calls: Sequence[Callable[[], object]],
    runs: int,
    wait: Callable[[], object] | None = None,
    first: int = 0,
) -> float:
    """Return the seconds per run of calls in turns, from call `first` on, by the host's clock.

    The last result lives until the runs have been waited for.
    """
    begin = time.perf_counter()
    for run in range(first, first + runs):
        last = calls[run % len(calls)]()
    if wait:
        wait()
    del last
    return (time.perf_counter() - begin) / runs


@dataclass(frozen=True)
class Effort:
    """How long a race lasts.

    Attributes
    ----------
    rounds : int
        Samples of each contender.
    sample_seconds : float
        Least duration of a sample.
    warm_up_seconds : float
        Work before the first sample, in which a GPU's clocks rise.
    slow_seconds : float
        A contender with a longer run has samples of one run, at most `slow_rounds`.
    slow_rounds : int
    hopeless : float
        A contender this many times slower than the fastest has one sample.
    """

    rounds: int
    sample_seconds: float
    warm_up_seconds: float = 0.0
    slow_seconds: float = SLOW_SECONDS
    slow_rounds: int = 3
    hopeless: float = math.inf


@dataclass
class Contender:
    """One participant of a race.

    Attributes
    ----------
    time : callable
        Accepts a number of runs and whether they are cold; returns seconds per run.
    verify : callable
        Raises `VerificationError` if a result is wrong.
    warm, cold : Timing or None
        Receive the samples; None: not sampled in this mode.
    excuse : callable, optional
        Returns the reason for which an exception ends this contender's race alone, or raises it.
        Default: every exception ends the whole race.
    runs_most : int
        Most runs in one sample.
    name : str
        Its library, for errors.
    check : callable, optional
        Called after each step; raises if the device is lost, which is then this contender's doing:
        otherwise whoever calls next would be blamed.
    failure : str
        Why the contender left the race, or "".
    """

    time: Callable[[int, bool], float]
    verify: Callable[[], object]
    warm: Timing | None = field(default_factory=Timing)
    cold: Timing | None = None
    excuse: Callable[[Exception], str] | None = None
    runs_most: int = RUNS_MOST
    name: str = ""
    check: Callable[[], object] | None = None
    failure: str = field(default="", init=False)
    seconds: float = field(default=0.0, init=False)  # of one run, as far as it is known
    runs: int = field(default=1, init=False)
    rounds: int = field(default=1, init=False)

    def attempt(self, step: Callable[..., object], *arguments: Any) -> None:
        """Call a step, unless the contender has left the race; an excused exception ends it."""
        if self.failure:
            return
        try:
            step(*arguments)
        except Exception as error:
            if self.excuse is None:
                if self.name:
                    error.add_note(f"in a call of {self.name}")
                raise
            self.failure = self.excuse(error)
        if self.check is None:
            return
        try:
            self.check()
        except Exception as error:
            error.add_note(f"after a call of {self.name}{self.failure and ': ' + self.failure}")
            raise

    def try_out(self) -> None:
        """Time one run."""
        self.seconds = self.time(1, self.warm is None)

    def plan(self, effort: Effort, fastest: float) -> None:
        """Choose the runs of a sample and the number of samples."""
        if self.seconds > effort.hopeless * fastest:
            return
        if self.seconds > effort.slow_seconds:  # perhaps other programs disturbed the first run
            self.seconds = min(self.seconds, self.time(1, self.warm is None))
        slow = self.seconds > effort.slow_seconds
        least = 1 if slow else min(RUNS_LEAST, self.runs_most)
        self.rounds = min(effort.rounds, effort.slow_rounds) if slow else effort.rounds
        if not slow:
            self.seconds = self.time(least, self.warm is None)
        wanted = int(effort.sample_seconds / max(self.seconds, 1e-9))
        self.runs = min(self.runs_most, max(least, wanted))

    def sample(self, turn: int) -> None:
        """Take the samples of a round."""
        for timing, cold in ((self.warm, False), (self.cold, True)):
            if timing is not None and turn < self.rounds:
                timing.samples.append(self.time(self.runs, cold))


def _running(contenders: Sequence[Contender]) -> list[Contender]:
    return [each for each in contenders if not each.failure]


def _warm_up(fastest: Contender, seconds: float) -> None:
    """Run the fastest contender until the clocks have risen."""
    spent = 0.0
    while spent < seconds and not fastest.failure:
        runs = min(fastest.runs_most, max(1, int(1e-3 / max(fastest.seconds, 1e-9))))
        fastest.attempt(fastest.time, runs, fastest.warm is None)
        spent += runs * max(1e-6, fastest.seconds)


def race(
    contenders: Sequence[Contender],
    effort: Effort,
    progress: Progress = lambda text, share: None,
) -> list[Contender]:
    """Verify the contenders, time them in turns, verify them again; return those that finished.

    Parameters
    ----------
    contenders : sequence of Contender
    effort : Effort
    progress : callable
        Called with a line of text and the share of the race that is done.

    Returns
    -------
    list of Contender
        Those that were right before and after, and were timed; of the others `failure` says why
        they left.

    Raises
    ------
    VerificationError
        A contender without an excuse returned a wrong result.
    """
    progress("verifying", 0.0)
    for each in contenders:
        each.attempt(each.verify)
    for each in _running(contenders):
        each.attempt(each.try_out)
    if not (running := _running(contenders)):
        return []
    fastest = min(running, key=lambda each: each.seconds)
    _warm_up(fastest, effort.warm_up_seconds)
    for each in running:
        each.attempt(each.plan, effort, fastest.seconds)
    for turn in range(effort.rounds):
        progress(f"timing, round {turn + 1} of {effort.rounds}", 0.1 + 0.8 * turn / effort.rounds)
        for each in running:
            each.attempt(each.sample, turn)
    progress("verifying again", 0.9)
    for each in running:
        each.attempt(each.verify)
    return _running(contenders)
