"""several_gpus: one sum divided between GPUs, and several reductions dealt out to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gpuopt.catalog.devices import Device, available, gpu_number
from gpuopt.experiments import _lab
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families.device_calls import asarray
from gpuopt.families.reduce import reduce
from gpuopt.measure.race import Contender, Effort, Timing, VerificationError, host_seconds, race
from gpuopt.observe.profile import profile
from gpuopt.util.names import suggests

ROUNDS, SAMPLE_SECONDS = 7, 2e-3
SIMULATED = (1, 2, 4)  # GPUs
TASKS = ("sum", "max", "min", "argmax")


@dataclass
class _Split:
    """Work divided between GPUs.

    Attributes
    ----------
    name : str
    gpus : int
    jobs : list of (int, slice, str)
        The GPU, the items, the operation.
    joined : callable
        Combines the jobs' results on the host.
    """

    name: str
    gpus: int
    jobs: list[tuple[int, slice, str]]
    joined: Callable[[list[Any]], Any]
    timing: Timing = field(default_factory=Timing)


@suggests
def several_gpus(n: int | None = None, *, device: str | None = None) -> Experiment:
    """Several GPUs: a sum in as many shares as there are GPUs, and tasks dealt out to them.

    The host queues all work, waits for the numbers and joins them. Nothing else travels between the
    GPUs.

    Parameters
    ----------
    n : int, optional
        32-bit integers. Default: 2^28 on GPUs, 2^20 on simulated ones.
    device : str, optional
        "cuda": every GPU of the machine; "cuda:1": likewise, that one first. "sim" or a preset:
        1, 2 and 4 simulated GPUs.

    Returns
    -------
    Experiment
        Rows "sum, G GPUs" (each has a share of the array) and "4 tasks, G GPUs" (each GPU has the
        array and does other reductions of it). On GPUs `seconds` by the host's clock, until all
        results are there, and `speedup` over one GPU; the share is of a speedup by G. On simulated
        GPUs the most that one of them does: `instructions`, bytes it `loads`, and the `predicted`
        seconds of its kernels with cold caches, with their `speedup`; the share is of the even
        split. `back`: bytes that come to the host.

    Raises
    ------
    TypeError, ValueError
        An `n` that is no count; a device that runs no kernels.
    VerificationError
        A wrong result.

    Notes
    -----
    Source: deck D0: divide the data or the tasks, let the host manage, and communicate little.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.several_gpus(4096, device="sim")
    >>> found["sum, 4 GPUs"].values["loads"], found["sum, 4 GPUs"].values["back"]
    (4096, 32)
    """
    described = _lab.choose(device, "h200")
    timed = described.kind == "cuda"
    n = _lab.size(n, 1 << 28 if timed else 1 << 20)
    items = np.random.default_rng(5).integers(-(2**31), 2**31, n, np.int32)
    splits = [
        split(gpus, n) for split in (_shares, _tasks) for gpus in _counts(described) if gpus <= n
    ]
    rows = _time(splits, items, described) if timed else _count(splits, items, described.name)
    columns = [
        Column("gpus", "GPUs"),
        Column("seconds", "us", ",.1f", 1e6),
        Column("spread", "spread", ".1%"),
        Column("predicted", "predicted us", ",.1f", 1e6),
        Column("speedup", "speedup", ".2f"),
        Column("instructions", "warp instructions"),
        Column("loads", "bytes loaded"),
        Column("back", "bytes back"),
    ]
    how = (
        f"medians of {ROUNDS} samples in turns, verified before and after; by the host's clock"
        if timed
        else "the same compiled kernels, verified and counted: the most of any one GPU"
    )
    return Experiment(
        "several_gpus",
        described,
        f"{n:,} int32",
        columns,
        rows,
        "as many times one GPU as there are" if timed else "the work of one GPU, divided evenly",
        [how],
    )


def _counts(device: Device) -> list[int]:
    """Return how many GPUs to use: powers of two, and all."""
    if device.kind == "sim":
        return list(SIMULATED)
    most = available("cuda").count
    return sorted({most} | {1 << i for i in range(most.bit_length()) if 1 << i <= most})


def _names(first: Device) -> list[str]:
    """Return every GPU of the machine, the one that the table names first."""
    most, begin = available("cuda").count, gpu_number(first) or 0
    return [f"cuda:{(begin + i) % most}" for i in range(most)]


def _many(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus > 1)}"


def _shares(gpus: int, n: int) -> _Split:
    bounds = [n * i // gpus for i in range(gpus + 1)]
    jobs = [(i, slice(bounds[i], bounds[i + 1]), "sum") for i in range(gpus)]
    return _Split(f"sum, {_many(gpus)}", gpus, jobs, lambda sums: [sum(sums)])


def _tasks(gpus: int, n: int) -> _Split:
    jobs = [(i % gpus, slice(0, n), op) for i, op in enumerate(TASKS)]
    return _Split(f"{len(TASKS)} tasks, {_many(gpus)}", gpus, jobs, list)


def _verify(split: _Split, results: list[Any], items: np.ndarray) -> None:
    """Compare with NumPy; a sum of shares is one sum."""
    ops = [op for _, _, op in split.jobs] if split.joined is list else ["sum"]
    wanted = [int(getattr(np, op)(items)) for op in ops]
    found = [int(each) for each in split.joined(results)]
    if found != wanted:
        raise VerificationError(f"{split.name}: gave {found} instead of {wanted}")


# --- on GPUs


def _run(split: _Split, arrays: list[Any]) -> list[Any]:
    """Do the jobs: all are queued before the first one is waited for."""
    queued = [reduce(array, op) for array, (_, _, op) in zip(arrays, split.jobs, strict=True)]
    return [each.item() for each in queued]


def _time(splits: list[_Split], items: np.ndarray, first: Device) -> list[Row]:
    names = _names(first)
    runs: list[Callable[[], list[Any]]] = []
    for split in splits:
        kept: dict[tuple[int, int], Any] = {}
        for gpu, part, _ in split.jobs:
            if (gpu, part.start) not in kept:
                kept[gpu, part.start] = asarray(items[part], names[gpu])
        arrays = [kept[gpu, part.start] for gpu, part, _ in split.jobs]
        runs.append(partial(_run, split, arrays))
    race(
        [
            Contender(
                lambda runs, cold, run=run: host_seconds([run], runs),
                lambda split=split, run=run: _verify(split, run(), items),
                split.timing,
            )
            for split, run in zip(splits, runs, strict=True)
        ],
        Effort(ROUNDS, SAMPLE_SECONDS),
    )
    one = {split.joined is list: split.timing.median for split in splits if split.gpus == 1}
    rows = []
    for split in splits:
        seconds = split.timing.median
        speedup = one[split.joined is list] / seconds
        values = {
            "seconds": seconds,
            "spread": split.timing.spread,
            "speedup": speedup,
            "back": 8 * len(split.jobs),
        }
        reading = (
            "what the others are compared with"
            if split.gpus == 1
            else f"{speedup:.2f} times as fast as one GPU"
        )
        rows.append(Row(split.name, {"gpus": split.gpus}, values, speedup / split.gpus, reading))
    return rows


# --- on simulated ones: their counters


def _count(splits: list[_Split], items: np.ndarray, device: str) -> list[Row]:
    rows: list[Row] = []
    alone: dict[bool, tuple[int, float]] = {}
    for split in splits:
        results, instructions, loads = [], [0] * split.gpus, [0] * split.gpus
        seconds = [0.0] * split.gpus
        for gpu, part, op in split.jobs:  # simulated GPUs share nothing, not even time
            counted = profile(reduce, items[part], op, device=device, caches=True)
            results.append(counted.result)
            instructions[gpu] += counted.counters.warp_instructions
            loads[gpu] += counted.counters.global_load_bytes
            seconds[gpu] += counted.predicted(cold=True).seconds
        _verify(split, results, items)
        values = {
            "instructions": max(instructions),
            "loads": max(loads),
            "back": 8 * len(split.jobs),
            "predicted": max(seconds),
        }
        whole, one = alone.setdefault(split.joined is list, (values["loads"], max(seconds)))
        values["speedup"] = one / values["predicted"]
        share = whole / split.gpus / values["loads"]
        reading = (
            "what is divided"
            if split.gpus == 1
            else f"each GPU loads {values['loads'] / whole:.0%} of what one would: "
            f"{values['speedup']:.2f} times as fast by prediction"
        )
        rows.append(Row(split.name, {"gpus": split.gpus}, values, share, reading))
    return rows
