"""Print predicted times beside the decks' and an H200's: the tables of docs/predictions.md.

    python docs/predictions.py     # some minutes

The H200's times are those of gpuopt/measure/reference, warm; the H100's those of
tests/observe/twenty. Machine code is counted where ptxas and nvdisasm are at hand.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import gpuopt
from gpuopt.measure.reference_times import FOLDER

DECKS = (
    ("reduce", 2**22, "int32", "sim:g80"),
    ("transpose", 2**20, "float32", "sim:k40"),
    ("matmul", 2**20, "float32", "sim:m2090"),
)


def decks() -> None:
    """Print the predicted microseconds of the decks' own code beside the decks' figures."""
    for family, n, dtype, device in DECKS:
        told = gpuopt.ladder(family, n, dtype=dtype, device=device)
        print(told.title, "on", device)
        for each in told.records():
            if time := each["predicted_deck_us"]:
                deck = each["deck_us"] or 8 * n / (each["deck_gbs"] * 1e3)
                off = f"{time / deck - 1:+.0%}"
                print(f"  {each['name']:<16}{time:>9.1f} us, deck {deck:>9.1f}: {off}")
    n = 3 << 20
    with gpuopt.profile(device="sim:g80") as counted:
        rows = gpuopt.experiments.coalescing(n, device="sim:g80").rows
    print(f"coalescing, {n:,} elements on sim:g80")
    for row, each in zip(rows, counted.predicted().launches, strict=True):
        print(f"  {row.name:<24}{each.seconds * 1e6:>9.1f} us")


def h200() -> None:
    """Print a line for each rung that a simulated GPU runs, and a summary."""
    stored = json.loads((FOLDER / "nvidia-h200.json").read_text())
    every = []
    for ladder in (each for each in stored["ladders"] if each["dtype"] == "float32"):
        told = gpuopt.ladder(
            ladder["family"], ladder["n"], dtype="float32", block=ladder["block"], device="sim:h200"
        )
        predicted = {each["name"]: each["predicted_us"] for each in told.records()}
        print(ladder["title"])
        for row in ladder["rows"]:
            name, measured = row["rung"]["name"], statistics.median(row["warm"]) * 1e6
            if time := predicted.get(name):
                every.append(off := time / measured - 1)
                print(f"  {name:<16}{time:>9.1f} us, measured {measured:>9.1f}: {off:+.0%}")
    good = sum(abs(each) <= 0.25 for each in every)
    print(f"{good} of {len(every)} within 25%, median {statistics.median(map(abs, every)):.0%}")


def twenty() -> None:
    """Print a line for each kernel of tests/observe/twenty, beside an H100's times and hits."""
    folder = Path(__file__).parents[1] / "tests" / "observe"
    sys.path.insert(0, str(folder))
    from twenty_cases import cases, profiled

    measured = json.loads((folder / "twenty" / "h100.json").read_text())
    print("twenty kernels on sim:h100: us, L1 and L2 hits in percent, measured in brackets")
    every = []
    for name in cases():
        told, real = profiled(name, "sim:h100"), measured[name]
        time, counted = told.predicted().seconds * 1e6, told.counters
        every.append(off := time / real["queue_us"] - 1)
        l2 = 100 * real["l2_hits"] / real["l2_sectors"]
        print(
            f"  {name:<14}{time:>8.2f} ({real['queue_us']:>7.2f}) {off:+4.0%}"
            f"{100 * counted.l1_hit_rate:>7.1f} ({real['l1_percent']:>5.1f})"
            f"{100 * counted.l2_hit_rate:>7.1f} ({l2:>5.1f})"
        )
    good = sum(abs(each) <= 0.3 for each in every)
    print(f"{good} of {len(every)} within 30%, median {statistics.median(map(abs, every)):.0%}")


if __name__ == "__main__":
    decks()
    h200()
    twenty()
