"""A bench as a table: text, HTML, and flat records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuopt.show.measured import Bar, Bench, BenchRow
from gpuopt.show.terminal import busy
from gpuopt.util.table import Column, Table

MANY = 16  # rows of a group; more are summarised
LABEL = 34  # characters of a work, at least


def _peer_names(measured: Bench) -> list[str]:
    """Return the libraries that have a time, in the order in which they were met."""
    return list(dict.fromkeys(peer.name for row in measured.rows for peer in row.peers))


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}" if seconds < 1e-2 else f"{seconds * 1e6:,.0f}"


def _times(value: float | None) -> str:
    """Return a ratio with about three digits."""
    if value is None:
        return ""
    return f"{value:.3f}x" if value < 0.1 else f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def _rate(value: float) -> str:
    """Return a rate, given in units per second, in 10^9 of them."""
    return f"{value / 1e9:,.0f}" if value >= 1e10 else f"{value / 1e9:.1f}"


def meets(bar: Bar, reached: float) -> bool:
    """Return whether a figure meets a bar."""
    return reached <= bar.value if bar.what == "us" else reached >= bar.value


def _judged(measured: Bench, row: BenchRow) -> str:
    """Return each bar, the figure, and whether it is met."""
    told = []
    for bar in measured.bars(row):
        reached, met = row.reached(bar), row.meets(bar)
        if reached is None:
            told.append(f"{bar}: not measured")
        else:
            digits = {"GB/s": 0, "us": 1}.get(bar.what, 2)
            while not met and meets(bar, float(f"{reached:.{digits}f}")):
                digits += 1  # else it reads as if it were met
            told.append(f"{bar}: {reached:,.{digits}f}, {'met' if met else 'MISSED'}")
    return "; ".join(told)


def table(measured: Bench, rows: Sequence[BenchRow]) -> Table:
    """Return the rows' table: times, rates, ratios, bars."""
    peers = [Column(name, f"{name} us") for name in _peer_names(measured)]
    columns = [
        Column("title", "work", left=True, least=LABEL),
        Column("warm", "gpuopt us", keep=3),
        Column("kernels", "kernels us"),
        Column("gbs", "GB/s", keep=2),
        Column("gflops", "GFLOP/s", keep=2),
        Column("of copy", "of copy", ".0%"),
        *peers,
        Column("ratio", "ratio", keep=3),
        Column("cold", "cold us"),
        Column("cold ratio", "cold ratio"),
        Column("bar", "bar", left=True, keep=1),
    ]
    records = [
        {
            "title": row.title,
            "warm": _us(row.warm.median),
            "kernels": _us(row.kernels.median) if row.kernels.samples else "",
            "gflops" if row.flops else "gbs": _rate(row.rate),
            "of copy": row.of_copy,
            "ratio": _times(row.ratio()),
            "cold": _us(row.cold.median) if row.cold.samples else "",
            "cold ratio": _times(row.ratio("cold")),
            "bar": _judged(measured, row),
        }
        | {peer.name: _us(peer.warm.median) for peer in row.peers}
        for row in rows
    ]
    return Table(columns, records)


def below(measured: Bench) -> list[str]:
    """Return the lines below the table."""
    timings = [each for row in measured.rows for each in (row.warm, row.cold, row.kernels)]
    verdicts = [_verdicts(measured)] if measured.seed is None else []
    return [*busy(each.spread for each in timings), *verdicts, *_left_out(measured)]


# --- text


def line(measured: Bench, row: BenchRow) -> str:
    """Return a row in one line, by itself: for who reads along."""
    told = [f"{_us(row.warm.median)} us"]
    told.append(f"{_rate(row.rate)} {'GFLOP/s' if row.flops else 'GB/s'}")
    if row.of_copy is not None:
        told.append(f"{row.of_copy:.0%} of copy")
    timed = [peer for peer in row.peers if peer.warm.samples]
    if timed:
        fastest = min(timed, key=lambda peer: peer.warm.median)
        told.append(f"{_times(row.ratio())} {fastest.name}")
    judged = _judged(measured, row)
    return f"{row.title}: {', '.join(told)}" + (f" ({judged})" if judged else "")


def _span(values: list[float], form: Callable[[float], str]) -> str:
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def _in_sum(measured: Bench, title: str, rows: list[BenchRow], dtypes: Sequence[str]) -> list[str]:
    """Return a group's rows by operation and dtype: least and most, and how many meet the bars."""
    kinds: dict[tuple[str, str], list[BenchRow]] = {}
    for row in rows:
        words = row.title.replace(",", "").split()
        dtype = next((each for each in dtypes if each in words), "")
        kinds.setdefault((words[0], dtype), []).append(row)
    records = []
    for (op, dtype), each in kinds.items():
        ratios = [ratio for row in each if (ratio := row.ratio()) is not None]
        told = _span(ratios, _times) if ratios else "nobody else"
        rates = _span([row.rate for row in each], _rate)
        bars: dict[str, list[bool]] = {}
        for row in each:
            for bar in measured.bars(row):
                if (met := row.meets(bar)) is not None:
                    bars.setdefault(str(bar), []).append(met)
        met = "; ".join(f"{bar}: {sum(all_)} of {len(all_)}" for bar, all_ in bars.items())
        records.append(
            {"kind": f"{op} {dtype}", "works": len(each), "gbs": rates, "told": told, "met": met}
        )
    columns = [
        Column("kind", "", left=True, least=22),
        Column("works", "works"),
        Column("gbs", "GB/s", least=16),
        Column("told", "against the fastest", least=22),
        Column("met", "bars met", left=True),
    ]
    lines = ["", title, "", *Table(columns, records).lines()]
    slow = [row for row in rows if (row.ratio() or 1) < 1]
    if slow:
        worst = min(slow, key=lambda row: row.ratio() or 1)
        lines.append(
            f"slower than the fastest other library: {len(slow)} of {len(rows)}, "
            f"the most {worst.title} ({_times(worst.ratio())})"
        )
    return lines


def _verdicts(measured: Bench) -> str:
    judged = [row.meets(bar) for row in measured.rows for bar in measured.bars(row)]
    if not judged:
        return "no bar (target of the project) is for these works on this device"
    counts = {word: judged.count(value) for word, value in
              (("met", True), ("missed", False), ("not measured", None))}  # fmt: skip
    return "bars: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _versions(measured: Bench) -> str:
    found = {peer.name: peer.version for row in measured.rows for peer in row.peers}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _left_out(measured: Bench) -> list[str]:
    """Return the libraries and workloads that were left out, and why; the same reason once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in measured.rows:
        for name, why in row.refused:
            told = "gave wrong results" if why.startswith("gave ") else why
            reasons.setdefault((name, told), []).append(row.title)
    lines = []
    for (name, why), titles in reasons.items():
        where = "" if len(titles) == len(measured.rows) else f" ({_some(titles)})"
        lines.append(f"{name} left out: {why}{where}")
    works: dict[str, list[str]] = {}
    for title, why in measured.refused:
        works.setdefault(why, []).append(title)
    lines += [left_out(_some(titles), why) for why, titles in works.items()]
    return lines + [wrong(title, why) for title, why in measured.wrong]


def left_out(titles: str, why: str) -> str:
    """Return the line of works that were not measured."""
    return f"left out: {titles}: {why}"


def wrong(title: str, why: str) -> str:
    """Return the line of a work of which gpuopt's result was wrong."""
    return f"WRONG: {title}: {why}"


def _some(titles: list[str]) -> str:
    return titles[0] if len(titles) == 1 else f"{titles[0]}, and {len(titles) - 1} more"


def head(measured: Bench) -> list[str]:
    """Return the first line: gpuopt, the device, and the libraries beside it."""
    beside = f"; beside it {versions}" if (versions := _versions(measured)) else ""
    return [
        f"gpuopt {measured.version} on {measured.device.description} ({measured.device.name})"
        + (", quick: smaller arrays, fewer samples" if measured.quick else "")
        + beside
    ]


def text(measured: Bench, every: bool, groups: Mapping[str, str], dtypes: Sequence[str]) -> str:
    """Return the table; without `every`, groups of many rows are summarised.

    `groups` says what each group's works are, `dtypes` are the words that name one in a title.
    """
    lines = head(measured)
    if measured.rows:
        taken = _span([len(row.warm.samples) for row in measured.rows], str)  # of slow works fewer
        lines += [
            f"medians of {taken} samples of calls from Python, back to back; cold: other data each "
            "time",
            "ratio: the time of the fastest other library over gpuopt's; above 1 gpuopt is faster",
        ]
        if any(row.kernels.samples for row in measured.rows):
            lines.append("kernels: gpuopt's launches queued from C; GB/s and GFLOP/s refer to them")
    grouped: dict[str, list[BenchRow]] = {}
    for row in measured.rows:
        grouped.setdefault(row.group, []).append(row)
    in_sum = [] if every else [name for name, rows in grouped.items() if len(rows) > MANY]
    shown = [row for row in measured.rows if row.group not in in_sum]
    if shown:
        lines += ["", *table(measured, shown).lines()]
    for name in in_sum:
        lines += _in_sum(measured, f"{name}: {groups[name]}", grouped[name], dtypes)
    lines += ["", *below(measured)]
    return "\n".join(line.rstrip() for line in lines)


# --- records and HTML


def records(measured: Bench) -> list[dict[str, Any]]:
    """Return a flat dict for each row, all with the same keys."""
    names, found = _peer_names(measured), []
    for row in measured.rows:
        bars = [row.meets(bar) for bar in measured.bars(row)]
        record: dict[str, Any] = {
            "group": row.group,
            "work": row.title,
            "device": measured.device.name,
            "bytes": row.touched,
            "flops": row.flops,
            "warm_us": row.warm.median * 1e6,
            "warm_spread": row.warm.spread,
            "cold_us": row.cold.median * 1e6 if row.cold.samples else None,
            "kernels_us": row.kernels.median * 1e6 if row.kernels.samples else None,
            "gbs": row.touched / row.seconds / 1e9,
            "gflops": row.flops / row.seconds / 1e9,
            "of_copy": row.of_copy,
            "warm_ratio": row.ratio(),
            "cold_ratio": row.ratio("cold"),
            "bars_met": bars.count(True),
            "bars_missed": bars.count(False),
        }
        times = {peer.name: peer.warm.median * 1e6 for peer in row.peers}
        found.append(record | {f"{name}_us": times.get(name) for name in names})
    return found


def html(measured: Bench) -> str:
    """Return every row as an HTML table."""
    caption = f"gpuopt {measured.version} on {measured.device.description}; {_versions(measured)}"
    return table(measured, measured.rows).html(caption, below(measured))
