"""Print predicted times beside the decks', an H200's and an H100's: docs/predictions.md's tables.

    python docs/predictions.py [TABLE ...]

Tables: decks, h200, twenty, blind, unseen, final, twelve, ten, fresh, without. All take minutes.
The H200's ladders are those of gpuopt/measure/reference, in a graph; tests/observe's in a stream.
`without` predicts the tables once more, each GPU without the constants that were fitted on it.
Machine code is counted where ptxas and nvdisasm are at hand.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

import gpuopt
from gpuopt.catalog.figures import FIGURES
from gpuopt.experiments.coalescing import DECK
from gpuopt.measure.reference_times import FOLDER
from gpuopt.observe import timing
from gpuopt.observe.prediction import Prediction, predict_launches

TESTS = Path(__file__).parents[1] / "tests" / "observe"


class Row(NamedTuple):
    """A kernel or a rung, its launches on a simulated GPU, and the time of a real one, in us."""

    table: str
    name: str
    launches: list[Any]
    measured: float
    in_graph: float = 0.0  # the same in a graph of launches


def _decks() -> Iterator[Row]:
    """Yield the decks' own code."""
    ones = np.ones((1024, 1024), np.float32)
    few = np.arange(1 << 22, dtype=np.int32) & 1
    reductions = [8054, 3456, 1722, 965, 536, 381, 268]
    gbs = [9.7, 41.6, 137.4, 116.0, 150.6, 238.4]
    products = [29630, 9440, 6460, 5050, 4530]
    tables: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any], list[float]]] = [
        ("g80", gpuopt.reduce, (few,), {"block": 128, "dtype": np.int32}, reductions),
        ("k40", gpuopt.transpose, (ones,), {}, [2e-3 * ones.nbytes / each for each in gbs]),
        ("m2090", gpuopt.matmul, (ones, ones), {}, products),
    ]
    for gpu, call, arguments, options, times in tables:
        for number, time in enumerate(times, 1):
            name = f"{number}-historical"
            told = gpuopt.profile(
                call, *arguments, variant=name, device=f"sim:{gpu}", caches=True, **options
            )
            yield Row(f"deck's {gpu}", name, list(told.launches), time)
    with gpuopt.profile(device="sim:g80", caches=True) as counted:
        names = [
            each.name for each in gpuopt.experiments.coalescing(3 << 20, device="sim:g80").rows
        ]
    samples: dict[str, Any] = {}  # a profile samples the first launch of each kernel
    for name, launch in zip(names, counted.launches, strict=True):
        sample = samples.setdefault(launch.kernel, launch.sample)
        if name in DECK:
            yield Row("deck's g8x", name, [replace(launch, sample=sample)], DECK[name])


def _h200() -> Iterator[Row]:
    """Yield each rung that a simulated GPU runs and whose time is stored."""
    stored = json.loads((FOLDER / "nvidia-h200.json").read_text())
    for ladder in (each for each in stored["ladders"] if each["dtype"] == "float32"):
        told = gpuopt.ladder(
            ladder["family"], ladder["n"], dtype="float32", block=ladder["block"], device="sim:h200"
        )
        counted = {each.rung.name: each.counted for each in told.rows}
        for row in ladder["rows"]:
            name, measured = row["rung"]["name"], statistics.median(row["warm"]) * 1e6
            if counted.get(name) and counted[name].predicted().bound:
                yield Row(ladder["title"], name, list(counted[name].launches), measured)


def _users(folder: str) -> Iterator[Row]:
    """Yield the kernels of a folder of tests/observe."""
    sys.path.insert(0, str(TESTS))
    module, kernels = import_module(f"{folder}_cases"), import_module("user_kernels")
    path = next((TESTS / folder).glob("h?00.json"))
    gpu, times = path.stem, json.loads(path.read_text())
    for name, case in module.cases().items():
        told = kernels.profiled(module.PTX, case, f"sim:{gpu}")
        yield Row(f"{gpu}, {folder}", name, list(told.launches), *_pair(times[name]))


def _pair(times: dict[str, float]) -> tuple[float, float]:
    return times["queue_us"], times["graph_us"]


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    "decks": _decks,
    "h200": _h200,
    "twenty": lambda: _users("twenty"),
    "blind": lambda: _users("blind"),
    "unseen": lambda: _users("unseen"),
    "final": lambda: _users("final"),
    "twelve": lambda: _users("twelve"),
    "ten": lambda: _users("ten"),
    "fresh": lambda: _users("fresh"),
}
USERS = ("twenty", "blind", "unseen", "final", "twelve", "ten", "fresh")


@cache
def rows(name: str) -> list[Row]:
    """Return the rows of a table, simulated once."""
    return list(TABLES[name]())


def predicted(row: Row) -> Prediction:
    """Return a row's prediction: the H200's rungs were measured in a graph."""
    how = "queue" if row.in_graph or "deck" in row.table else "graph"
    return predict_launches(row.launches, how=how)


def errors(some: list[Row]) -> list[float]:
    """Return how far each row's prediction is off, as a fraction of the measured time."""
    times = [predicted(each).seconds * 1e6 for each in some]
    return [time / each.measured - 1 for time, each in zip(times, some, strict=True)]


def show(name: str) -> None:
    """Print a table, and how many of its rows are near and inside their intervals."""
    print(f"{name}: us, measured, off; the bound; L1 and L2 hits in percent")
    told = rows(name)
    found, inside, table = [], 0, ""
    for each in told:
        if each.table != table:
            print(table := each.table)
        guess = predicted(each)
        time, counted = guess.seconds * 1e6, each.launches[0].counters
        found.append(time)
        inside += guess.low * 1e6 <= each.measured <= guess.high * 1e6
        print(
            f"  {each.name:<22}{time:>10.2f}{each.measured:>10.2f}{time / each.measured - 1:>+6.0%}"
            f"  {guess.bound:<14}{100 * counted.l1_hit_rate:>6.1f}"
            f"{100 * counted.l2_hit_rate:>6.1f} {guess.note[:40]}"
        )
    off = [abs(each) for each in errors(told) if each == each]
    limit = 0.3 if name in USERS else 0.25
    if (path := TESTS / name / "predicted.json").exists():
        _committed(json.loads(path.read_text()), told)
    known = [(a, each.measured) for a, each in zip(found, told, strict=True) if a == a]
    rank = spearmanr(*zip(*known, strict=True))[0]
    print(
        f"{sum(each <= limit for each in off)} of {len(told)} within {limit:.0%}, median "
        f"{statistics.median(off):.1%}, {inside} inside their interval, rank {rank:.3f}"
    )


def _committed(before: dict[str, Any], told: list[Row]) -> None:
    """Print how good the predictions were that were stored before any time was measured."""
    pairs = [(before[each.name], each.measured) for each in told if before[each.name]]
    off = [abs(a["us"] / time - 1) for a, time in pairs]
    inside = sum(a["low_us"] <= time <= a["high_us"] for a, time in pairs)
    rank = spearmanr([a["us"] for a, _ in pairs], [time for _, time in pairs])[0]
    print(
        f"before measuring: {sum(each <= 0.3 for each in off)} of {len(told)} within 30%, median "
        f"{statistics.median(off):.1%}, {inside} inside their interval, rank {rank:.3f}"
    )


# --- each GPU without its own constants

# The constants fitted on a GPU, and what the model takes without them.
FITTED = {
    "m2090": {"P": 2.0},  # a norm between sum and maximum
    "k40": {"TEXTURE_LINE": 2.0},  # as a line of the LSU
    "h200": {"BLOCK_START": 0.0},
    "h100": {"PARTIAL": timing.STORED},
}
# Measured on a GPU, or told of it by its deck.
OWN = ("read", "copy", "launch", "filling", "queued")


def without(gpu: str, some: list[Row]) -> None:
    """Print a GPU's errors with its own constants, and with the median of the others'."""
    usual = statistics.median(map(abs, errors(some))), max(map(abs, errors(some)))
    figures = FIGURES[gpu]
    others = [each for name, each in FIGURES.items() if name != gpu]
    values = {name: statistics.median(getattr(each, name) for each in others) for name in OWN}
    constants = {name: getattr(timing, name) for name in FITTED.get(gpu, {})}
    try:
        FIGURES[gpu] = replace(figures, **values)
        for name, value in FITTED.get(gpu, {}).items():
            setattr(timing, name, value)
        off = errors(some)
    finally:
        FIGURES[gpu] = figures
        for name, value in constants.items():
            setattr(timing, name, value)
    left = statistics.median(map(abs, off)), max(map(abs, off))
    print(
        f"{gpu:<6} {len(some):>3} rows: median {usual[0]:.1%}, worst {usual[1]:.0%}; without its "
        f"own constants {left[0]:.1%}, {left[1]:.0%}"
    )


def left_out() -> None:
    """Print the errors of every GPU without its own constants."""
    every = {
        "g80": [each for each in rows("decks") if "g8" in each.table],
        "k40": [each for each in rows("decks") if "k40" in each.table],
        "m2090": [each for each in rows("decks") if "m2090" in each.table],
        "h200": rows("h200"),
        "h100": [
            each
            for name in USERS[:-3]  # the last three were measured on an H200
            for each in rows(name)
            if predicted(each).seconds > 0
        ],
    }
    for gpu, some in every.items():
        without(gpu, some)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*TABLES, "without"]:
        left_out() if wanted == "without" else show(wanted)
