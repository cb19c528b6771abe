"""launch_overhead: the cost of starting a kernel that does nothing."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuopt.experiments import _lab, _steps
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.experiments._steps import Timed
from gpuopt.measure.race import host_seconds
from gpuopt.ptx.module import Module
from gpuopt.util.names import suggests

ROUNDS = 11
WAYS = {  # as Module.time has them
    "back to back": ("queue", "the GPU's time from one launch to the next, none waited for"),
    "waited for": ("sync", "the host waits for each: there and back"),
    "in a graph": ("graph", "given as one, the launches follow each other without the host"),
    "host, no waiting": ("host", "what a launch costs the thread that gives it"),
}


@suggests
def launch_overhead(launches: int | None = None, *, device: str | None = None) -> Experiment:
    """Launch an empty kernel: back to back, waited for, in a graph; and the host's cost of it.

    Parameters
    ----------
    launches : int, optional
        Launches in a round, and in the graph; at most 500. Default: 100.
    device : str, optional
        A GPU, "cuda" or "cuda:1".

    Returns
    -------
    Experiment
        Rows "back to back", "waited for", "in a graph", "host, no waiting", for one block and for
        eight for each multiprocessor; "from Python", a call of `gpuopt.Kernel` that
        is waited for. `seconds` are of one launch. The share is of "back to back" with one block.

    Raises
    ------
    TypeError, ValueError
        A `launches` that is no such count; a device without a timer.
    VerificationError
        Another number of launches ran than were given: a kernel that counts takes the place of the
        empty one before and after it is timed.

    Notes
    -----
    Source: deck D4, which says "measure it".

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.experiments.launch_overhead(device="sim")
    Traceback (most recent call last):
    ...
    ValueError: device: 'sim:h200' has no timer, which launch_overhead needs; use 'cuda'
    """
    described = _steps.choose(device, "launch_overhead")
    count = _lab.size(launches, 100, "launches")
    if count > _steps.RUNS_MOST:
        raise ValueError(f"launches: must be at most {_steps.RUNS_MOST}, not {count}")
    module = Module(None, described.name)
    trials = []
    for blocks in (1, 8 * described.multiprocessors):
        for name in WAYS:
            trials.append(_trial(module, name, blocks, count))
        trials.append(_from_python(module, blocks, count))
    _steps.measure(module, trials, ROUNDS)
    first = trials[0].timing.median
    return Experiment(
        "launch_overhead",
        described,
        f"an empty kernel, {count} launches in a round",
        [
            Column("blocks", "blocks"),
            Column("seconds", "us per launch", ",.2f", 1e6),
            Column("spread", "spread", ".1%"),
        ],
        [_row(trial, count, first) for trial in trials],
        "a launch back to back, of one block",
        [f"medians of {ROUNDS} samples in turns; launches were counted before and after"],
    )


class _Counter:
    """A kernel that counts its own launches, in a row's place while that is verified."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.item = module.empty(4)
        self.kernel = module["micro_advance_uint32"]

    def reset(self) -> None:
        self.module._core.copy_in(self.item.address, np.zeros(1, np.uint32))

    def wrong(self, launches: int) -> str:
        right = _steps.advanced(np.zeros(1, np.uint32), launches)
        return "" if (self.item.get(np.uint32) == right).all() else f"not {launches} launches"


def _trial(module: Module, name: str, blocks: int, count: int) -> Timed:
    counter = _Counter(module)
    how = WAYS[name][0]
    counted = [counter.kernel.bind(1, 1, counter.item, 1, 1)] * count
    rounds = 4 if how == "graph" else 3  # two that are timed, one or two before them

    def poison() -> None:
        counter.reset()
        module.time(counted, 2, how)

    return Timed(
        f"{name}, {blocks} block{'s' * (blocks > 1)}",
        [module["micro_empty"].bind(blocks, 32)] * count,
        poison,
        lambda: counter.wrong(rounds * count),
        how,
    )


def _from_python(module: Module, blocks: int, count: int) -> Timed:
    counter = _Counter(module)
    empty = module["micro_empty"]

    def poison() -> None:
        counter.reset()
        for _ in range(count):
            counter.kernel(1, 1, counter.item, 1, 1)

    def seconds(runs: int) -> float:
        return host_seconds([partial(empty, blocks, 32)], runs * count) * count

    name = f"from Python, {blocks} block{'s' * (blocks > 1)}"
    return Timed(name, (), poison, lambda: counter.wrong(count), seconds=seconds)


def _row(trial: Timed, count: int, first: float) -> Row:
    way, blocks = trial.name.rsplit(", ", 1)
    reading = WAYS[way][1] if way in WAYS else "a call from Python, checked and waited for"
    values = {"seconds": trial.timing.median / count, "spread": trial.timing.spread}
    return Row(
        trial.name, {"blocks": int(blocks.split()[0])}, values, first / trial.timing.median, reading
    )
