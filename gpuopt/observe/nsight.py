"""Counters from Nsight Compute's reports: the file of --export, or the text of --csv."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuopt.observe.counters import TABLE

SUFFIXES = (".ncu-rep", ".csv")
_NAMES = {metric: name for name, metric, _ in TABLE if metric != "-"}
_PREFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

Counted = tuple[str, dict[str, int]]  # the kernel of a launch, and the counters of the report


def read(path: Path) -> list[Counted]:
    """Return the launches of a report: of each the kernel, and counters under gpuopt's names.

    Parameters
    ----------
    path : Path
        ``ncu --export`` wrote it (".ncu-rep"; needs the package ncu-report), or ``ncu --csv``, with
        ``--page raw`` or without (".csv").

    Raises
    ------
    ValueError
        The file is no such report, or has no metric that gpuopt counts.
    ImportError
        ``ncu_report`` is missing.
    OSError
        The file cannot be read.
    """
    launches = list(_report(path) if path.suffix == ".ncu-rep" else _csv(path))
    if not any(counters for _, counters in launches):
        some = ", ".join(list(_NAMES)[:2])
        raise ValueError(f"{path}: has no metric that gpuopt counts; run ncu with --metrics {some}")
    return launches


def _report(path: Path) -> Iterator[Counted]:
    try:
        import ncu_report
    except ImportError:
        raise ImportError(
            f"{path}: needs NVIDIA's package: pip install ncu-report, or add the folder "
            "extras/python of Nsight Compute to PYTHONPATH; or pass the text of "
            "'ncu --import FILE --csv --page raw', as FILE.csv"
        ) from None
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", str(path))
    context = ncu_report.load_report(str(path))
    for i in range(context.num_ranges()):
        part = context.range_by_idx(i)
        for j in range(part.num_actions()):
            action = part.action_by_idx(j)
            metrics = {name: action.metric_by_name(metric) for metric, name in _NAMES.items()}
            yield (
                action.name(),
                {name: int(each.value()) for name, each in metrics.items() if each is not None},
            )


def _number(text: str, unit: str) -> int | None:
    """Return a count; ncu prints "1,024" and, of bytes, "1.05" with the unit "Mbyte"."""
    scale = _PREFIXES.get(unit[:1], 1) if unit[1:].startswith("byte") else 1
    try:
        return round(float(text.replace(",", "")) * scale)
    except ValueError:
        return None  # "n/a", or no number


def _csv(path: Path) -> Iterator[Counted]:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    first = next((i for i, line in enumerate(lines) if '"Kernel Name"' in line), None)
    if first is None:
        raise ValueError(
            f"{path}: is not what 'ncu --csv --page raw' prints: no column \"Kernel Name\""
        )
    rows = csv.DictReader(line for line in lines[first:] if line and not line.startswith("=="))
    if "Metric Name" in (rows.fieldnames or ()):
        yield from _by_metric(rows)
        return
    units: dict[str, str] = {}
    for row in rows:
        if not row["Kernel Name"]:
            units = row  # the second line
            continue
        found = {
            _NAMES[metric]: _number(text or "", units.get(metric) or "")
            for metric, text in row.items()
            if metric in _NAMES
        }
        yield row["Kernel Name"], {name: each for name, each in found.items() if each is not None}


def _by_metric(rows: Any) -> Iterator[Counted]:
    """Return the launches of a table that has a row for each launch and metric."""
    launches: dict[str, Counted] = {}
    for row in rows:
        counters = launches.setdefault(row["ID"], (row["Kernel Name"], {}))[1]
        number = _number(row["Metric Value"] or "", row["Metric Unit"] or "")
        if row["Metric Name"] in _NAMES and number is not None:
            counters[_NAMES[row["Metric Name"]]] = number
    yield from launches.values()
