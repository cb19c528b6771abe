"""A random draw of a bench as text: each kind's ratios in a summary, and the worst works."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from gpuopt.show import bench_table
from gpuopt.show.measured import Bench, BenchRow
from gpuopt.util.table import Column, Table

WORST = 20  # works in the table
EVEN = 0.97  # a ratio that counts as no slower
SLACK, CALL_SECONDS = 1.1, 1e-6  # on the cpu: at most 10% and a microsecond slower
LEAST_SECONDS = {"cpu": 1e-5, "cuda": 2e-5}  # of works whose worst ratio is shown apart from all
COPIED = "permutes"  # the kind whose large works are compared with a copy
APART = "matmul64/16"  # not in the line of all kinds


def _ratios(rows: Iterable[BenchRow]) -> list[float]:
    return sorted(ratio for row in rows if (ratio := row.ratio()) is not None)


def _near(row: BenchRow) -> bool:
    """Tell whether a work takes at most 10% and a microsecond more than the fastest library's."""
    ratio = row.ratio()
    fastest = row.warm.median * (ratio or 0)
    return ratio is not None and row.warm.median <= SLACK * fastest + CALL_SECONDS


def _share(count: int, of: int) -> str:
    return f"{count / of:.0%}" if of else ""


def _kinds(measured: Bench) -> dict[str, list[BenchRow]]:
    kinds: dict[str, list[BenchRow]] = {}
    for row in measured.rows:
        kinds.setdefault(row.group, []).append(row)
    return kinds


def _record(measured: Bench, kind: str, rows: Sequence[BenchRow], missed: int) -> dict[str, Any]:
    """Return a kind's figures; works that gpuopt refuses or does wrong count as slower."""
    ratios = _ratios(rows)
    least = LEAST_SECONDS[measured.device.kind]
    long = _ratios(row for row in rows if row.warm.median >= least)
    copied = [row.of_copy for row in rows if row.of_copy is not None]
    compared = len(ratios) + missed
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if ratios[1:] else ratios * 3
    found: dict[str, Any] = {"kind": kind, "works": len(rows) + missed, "missed": missed or ""}
    if ratios:
        found |= {"least": ratios[0], "quarter": quartiles[0], "median": quartiles[1]}
        found |= {"long": long[0] if long else None}
    found["even"] = _share(sum(ratio >= EVEN for ratio in ratios), compared)
    if measured.device.kind == "cpu":
        found["near"] = _share(sum(map(_near, rows)), compared)
    if copied:
        found |= {"copy least": min(copied), "copy median": statistics.median(copied)}
    return found


def figures(measured: Bench) -> list[dict[str, Any]]:
    """Return the figures of each kind, and of all that are compared."""
    kinds = _kinds(measured)
    missed: dict[str, int] = {}
    for title, why in [*measured.refused, *measured.wrong]:
        if not why.startswith("needs "):  # more memory than there is, or a package
            kind, *_ = title.split()
            missed[kind] = missed.get(kind, 0) + 1
            kinds.setdefault(kind, [])
    records = [
        _record(measured, kind, rows, missed.get(kind, 0)) for kind, rows in sorted(kinds.items())
    ]
    together = [row for kind, rows in kinds.items() if kind != APART for row in rows]
    count = sum(n for kind, n in missed.items() if kind != APART)
    return [*records, _record(measured, "all", together, count)]


def _summary(measured: Bench) -> list[str]:
    long = f"{LEAST_SECONDS[measured.device.kind] * 1e6:.0f} us"
    columns = [
        Column("kind", "", left=True, least=12),
        Column("works", "works"),
        Column("missed", "not done"),
        Column("least", "least", ".2f"),
        Column("quarter", "quarter", ".2f"),
        Column("median", "median", ".2f"),
        Column("long", f"{long}: least", ".2f"),
        Column("even", f"{EVEN}+"),
        Column("near", "near"),
        Column("copy least", "of copy: least", ".0%"),
        Column("copy median", "median", ".0%"),
    ]
    told = f"{long}: of works of {long} and more; {EVEN}+: the share that is at {EVEN} or better"
    if measured.device.kind == "cpu":
        told += "; near: at most 10% and 1 us slower"
    return [*Table(columns, figures(measured)).lines(), told]


def worst_first(measured: Bench) -> list[BenchRow]:
    """Return the works by their ratios; at the end those that no other library does."""
    return sorted(measured.rows, key=lambda row: (row.ratio() is None, row.ratio() or 0))


def text(measured: Bench, every: bool) -> str:
    """Return the summary and the worst works; with `every`, all works."""
    lines = bench_table.head(measured)
    lines += [
        f"a draw of {len(measured.rows) + len(measured.refused) + len(measured.wrong)} works by "
        f"seed {measured.seed}; ratio: the fastest library's time over gpuopt's",
        "",
        *_summary(measured),
    ]
    rows = worst_first(measured)
    shown = rows if every else rows[:WORST]
    if shown:
        lines += ["", "worst first" + f", {WORST} of {len(rows)}" * (len(rows) > len(shown)), ""]
        lines += bench_table.table(measured, shown).lines()
    lines += ["", *bench_table.below(measured)]
    return "\n".join(line.rstrip() for line in lines)
