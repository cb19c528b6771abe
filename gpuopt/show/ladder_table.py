"""A measured ladder as a table: text, HTML, and flat records."""

from __future__ import annotations

import html as _html
from typing import Any

from gpuopt.catalog.rungs import Rung
from gpuopt.explain.profile import Counters
from gpuopt.show import sentences
from gpuopt.show.measured import Ladder, LadderRow

LABEL = 18  # characters of a rung's number and name, at least


def label(rung: Rung) -> str:
    """Return a rung's number and name."""
    return rung.name if rung.number is None else f"{rung.number} {rung.name}"


def changes(measured: Ladder) -> list[str]:
    """Return what each row's counters say against the step before it."""
    found, before = [], None
    for row in measured.rows:
        if row.counted is None:
            found.append("")
            continue
        counters = row.counted.counters
        found.append(
            sentences.what_changed(before, counters) if before else sentences.at_first(counters)
        )
        before = None if row.rung.ceiling else counters
    return found


def counts(measured: Ladder) -> str:
    """Return the table of a ladder that was counted."""
    deck = any(deck_rate(measured, row.rung) for row in measured.rows)
    in_us = any(row.rung.deck_us for row in measured.rows)
    lines = [
        f"{measured.title}{blocks(measured)}, on a "
        f"{measured.device.description} ({measured.device.name})",
        "the same compiled kernels, verified and counted; a simulated GPU has no times",
        "",
        f"{'':<18}{'warp':>14}{'':>8}{'lanes':>7}{'divergent':>12}{'bank':>12}{'shared':>13}"
        f"{'':>11}{'sectors':>9}{'':>9}" + (f"{f'deck: {measured.deck[0]}':>12}" if deck else ""),
        f"{'rung':<18}{'instructions':>14}{'step':>8}{'active':>7}{'branches':>12}"
        f"{'conflicts':>12}{'wavefronts':>13}{'barriers':>11}{'per load':>9}{'launches':>9}"
        + (f"{'us' if in_us else 'GB/s':>12}{'step':>8}" if deck else ""),
    ]
    before = None
    for row in measured.rows:
        total = row.counted.counters
        step = before.counted.counters.warp_instructions / total.warp_instructions if before else 0
        lines.append(
            f"{label(row.rung):<18}{total.warp_instructions:>14,}{_ratio(step or None):>8}"
            f"{total.warp_efficiency:>7.0%}{total.divergent_branches:>12,}"
            f"{total.bank_conflicts:>12,}"
            f"{total.shared_load_wavefronts + total.shared_store_wavefronts:>13,}"
            f"{total.barriers:>11,}{total.sectors_per_load:>9.1f}{len(row.counted.launches):>9}"
        )
        if deck_rate(measured, row.rung):
            figure = f"{row.rung.deck_us:,.0f}" if in_us else f"{row.rung.deck_gbs:,.1f}"
            lines[-1] += f"{figure:>12}{_ratio(_deck_step(measured, before, row)):>8}"
        before = None if row.rung.ceiling else row
    lines += ["", *_lessons(measured), "", "what changed, by the counters:", *_changes(measured)]
    return "\n".join(line.rstrip() for line in lines)


def nothing(measured: Ladder) -> str:
    """Return why a ladder has no row."""
    lines = [
        f"{measured.title}, on {measured.device.description} ({measured.device.name})",
        "no rung was measured",
        "",
        *_lessons(measured),
    ]
    return "\n".join(line.rstrip() for line in lines)


def times(measured: Ladder) -> str:
    """Return the table of a ladder that was timed."""
    copy, last = measured.copy_bandwidth, measured.rows[-1]
    first = next((row for row in measured.rows if not row.rung.ceiling), last)
    deck, in_us = deck_rate(measured, first.rung), bool(first.rung.deck_us)
    known = any(row.reference for row in measured.rows)
    unit = "GFLOP/s" if measured.flops else "GB/s"
    taken = [len(row.warm.samples) for row in measured.rows]  # of slow rungs fewer
    samples = f"{taken[0]}" if len(set(taken)) == 1 else f"{min(taken)} to {max(taken)}"
    lines = [
        f"{measured.title}{blocks(measured)}, on "
        f"{measured.device.description} ({measured.device.name})",
        f"medians of {samples} samples; warm: the same data each time; "
        "cold: other data each time, from memory",
        f"a plain copy moves {copy / 1e9:,.0f} GB/s cold, read and written",
        "",
        f"{'':<18}{'warm':>10}{'':>32}{'cold':>12}{'':>{34 if known else 25}}"
        + (f"{f'deck: {measured.deck[0]}':>12}" if deck else ""),
        f"{'rung':<18}{'us':>10}{'least':>10}{'spread':>8}{unit:>8}{'step':>9}"
        f"{'us':>12}{'spread':>8}{unit:>8}{'of copy':>9}"
        + (f"{'of ref.':>9}" if known else "")
        + (f"{'us' if in_us else '':>10}{unit:>8}{'step':>8}{'total':>9}" if deck else ""),
    ]
    before = None
    for row in measured.rows:
        lines.append(_timed_line(measured, row, before, known))
        rate = deck_rate(measured, row.rung) if deck else None
        if rate:
            us = f"{row.rung.deck_us:,.0f}" if in_us else ""
            lines[-1] += (
                f"{us:>10}{rate:>8.1f}{_ratio(_deck_step(measured, before, row)):>8}"
                f"{_ratio(rate / deck if before else None):>9}"
            )
        before = None if row.rung.ceiling else row
    lines += _peer_lines(measured)
    in_deck = deck_rate(measured, last.rung) if deck else None
    if not first.rung.ceiling:
        lines += [
            "",
            f"all steps together: {first.warm.median / last.warm.median:.2f}x warm, "
            f"{first.cold.median / last.cold.median:.2f}x cold"
            + (f", {in_deck / deck:.2f}x in the deck" if in_deck else ""),
        ]
    if known:
        lines.append(
            "of ref.: the speed, cold, against what gpuopt's makers measured on such a device"
        )
    lines += ["", *_lessons(measured)]
    if measured.counted_title:
        lines += ["", "what changed, by the counters of the same kernels:"]
        lines += [f"({measured.counted_title})", *_changes(measured)]
    return "\n".join(line.rstrip() for line in lines)


def _timed_line(measured: Ladder, row: LadderRow, before: LadderRow | None, known: bool) -> str:
    warm, cold = row.warm, row.cold
    amount = measured.flops or row.algorithm_bytes
    share = row.algorithm_bytes / cold.median / measured.copy_bandwidth
    line = (
        f"{label(row.rung):<18}{warm.median * 1e6:>10,.1f}{warm.least * 1e6:>10,.1f}"
        f"{warm.spread:>8.1%}{amount / warm.median / 1e9:>8,.0f}"
        f"{_ratio(before.warm.median / warm.median if before else None):>9}"
        f"{cold.median * 1e6:>12,.1f}{cold.spread:>8.1%}"
        f"{amount / cold.median / 1e9:>8,.0f}{share:>9.0%}"
    )
    if known:
        line += f"{row.reference[1] / cold.median:>9.0%}" if row.reference else " " * 9
    return line


def _peer_lines(measured: Ladder) -> list[str]:
    amount = measured.flops or measured.rows[-1].algorithm_bytes
    lines = []
    if measured.peers:
        lines += ["", "the same by other libraries, verified, by the host's clock"]
    for peer in measured.peers:
        name = f"{peer.name} {peer.version}"
        lines.append(
            f"{name:<18}{peer.warm.median * 1e6:>10,.1f}{peer.warm.least * 1e6:>10,.1f}"
            f"{peer.warm.spread:>8.1%}{amount / peer.warm.median / 1e9:>8,.0f}{'':>9}"
        )
        if peer.cold.samples:
            lines[-1] += (
                f"{peer.cold.median * 1e6:>12,.1f}{peer.cold.spread:>8.1%}"
                f"{amount / peer.cold.median / 1e9:>8,.0f}"
            )
    if measured.peers_refused:
        lines += [""] * (not measured.peers)
        lines += [f"{name:<18}left out: {why}" for name, why in measured.peers_refused]
    return lines


def blocks(measured: Ladder) -> str:
    """Return ", blocks of 128" where all rungs have the same, or where it was asked for."""
    rungs = [row.rung for row in measured.rows]
    free = [rung.block_min < rung.block_max for rung in rungs]
    if measured.block and any(free):
        return f", blocks of {measured.block}" + " where a rung leaves it open" * (not all(free))
    same = len({rung.block_default for rung in rungs}) == 1 and rungs[0].block_default
    return f", blocks of {same}" if same else ""


def _wide(measured: Ladder) -> int:
    labels = [label(row.rung) for row in measured.rows]
    labels += [label(rung) for rung, _ in measured.refused]
    return max([LABEL, *(len(each) + 2 for each in labels)])


def _lessons(measured: Ladder) -> list[str]:
    wide = _wide(measured)
    taught = [f"{label(row.rung):<{wide}}{row.rung.lesson}" for row in measured.rows]
    refused = [f"{label(rung):<{wide}}left out: {why}" for rung, why in measured.refused]
    return taught + refused


def _changes(measured: Ladder) -> list[str]:
    wide, told = _wide(measured), changes(measured)
    return [
        f"{label(row.rung):<{wide}}{each}"
        for row, each in zip(measured.rows, told, strict=True)
        if each
    ]


def deck_rate(measured: Ladder, rung: Rung) -> float | None:
    """Return the deck's own rate, in the table's unit."""
    if measured.deck and rung.deck_us:
        return 1e-3 * measured.deck[1] / rung.deck_us
    return rung.deck_gbs or None


def _deck_step(measured: Ladder, before: LadderRow | None, row: LadderRow) -> float | None:
    then, now = (deck_rate(measured, each.rung) if each else None for each in (before, row))
    return now / then if then and now else None


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


# --- records and HTML


def records(measured: Ladder) -> list[dict[str, Any]]:
    """Return a flat dict for each row and each peer, all with the same keys."""
    found, before = [], None
    for row, changed in zip(measured.rows, changes(measured), strict=True):
        rung, counters = row.rung, row.counted.counters if row.counted else None
        record = {
            "kind": "ceiling" if rung.ceiling else "rung",
            "family": measured.family,
            "number": rung.number,
            "name": rung.name,
            "device": measured.device.name,
            "dtype": measured.dtype,
            "n": measured.n,
            **_rates(measured, row.warm, row.cold, row.algorithm_bytes),
            "step": before.warm.median / row.warm.median if measured.timed and before else None,
            "reference_us": row.reference[1] * 1e6 if row.reference else None,
            "deck_us": rung.deck_us or None,
            "deck_gbs": rung.deck_gbs or None,
            "lesson": rung.lesson,
            "changed": changed,
        }
        record |= {name: counters[name] if counters else None for name in Counters()}
        found.append(record)
        before = None if rung.ceiling else row
    for peer in measured.peers:
        size = measured.rows[-1].algorithm_bytes
        record = dict.fromkeys(found[0]) | {
            "kind": "peer",
            "family": measured.family,
            "name": f"{peer.name} {peer.version}",
            "device": measured.device.name,
            "dtype": measured.dtype,
            "n": measured.n,
            **_rates(measured, peer.warm, peer.cold, size),
        }
        found.append(record)
    return found


def _rates(measured: Ladder, warm: Any, cold: Any, size: int) -> dict[str, float | None]:
    names = ("warm_us", "warm_least_us", "warm_spread", "cold_us", "cold_spread", "cold_gbs",
             "cold_gflops", "of_copy")  # fmt: skip
    if not measured.timed:
        return dict.fromkeys(names)
    told = dict.fromkeys(names) | {
        "warm_us": warm.median * 1e6,
        "warm_least_us": warm.least * 1e6,
        "warm_spread": warm.spread,
    }
    if not cold.samples:
        return told
    return told | {
        "cold_us": cold.median * 1e6,
        "cold_spread": cold.spread,
        "cold_gbs": size / cold.median / 1e9,
        "cold_gflops": measured.operations / cold.median / 1e9,
        "of_copy": size / cold.median / measured.copy_bandwidth,
    }


TIMED = (
    ("warm, us", "warm_us", "{:,.1f}"),
    ("step", "step", "{:.2f}x"),
    ("cold, us", "cold_us", "{:,.1f}"),
    ("spread", "cold_spread", "{:.1%}"),
    ("GB/s", "cold_gbs", "{:,.0f}"),
    ("of copy", "of_copy", "{:.0%}"),
    ("deck, us", "deck_us", "{:,.0f}"),
    ("deck, GB/s", "deck_gbs", "{:,.1f}"),
)
_COUNTED = (
    ("warp instructions", "warp_instructions", "{:,}"),
    ("divergent branches", "divergent_branches", "{:,}"),
    ("barriers", "barriers", "{:,}"),
    ("load sectors", "global_load_sectors", "{:,}"),
    ("store sectors", "global_store_sectors", "{:,}"),
    ("deck, us", "deck_us", "{:,.0f}"),
    ("deck, GB/s", "deck_gbs", "{:,.1f}"),
)


def html(measured: Ladder) -> str:
    """Return the table as HTML: it takes its colours from the page."""
    told = records(measured)
    columns = [
        each
        for each in (TIMED if measured.timed else _COUNTED)
        if any(record[each[1]] is not None for record in told)
    ]
    if measured.flops and measured.timed:
        columns.insert(4, ("GFLOP/s", "cold_gflops", "{:,.0f}"))
    number = "text-align:right;white-space:nowrap;padding:2px 8px"
    text = "text-align:left;padding:2px 8px;min-width:12em"
    heads = "".join(f'<th style="{number}">{head}</th>' for head, _, _ in columns)
    rows = []
    for record in told:
        name = record["name"] if record["number"] is None else "{number} {name}".format(**record)
        cells = "".join(
            f'<td style="{number}">{"" if record[key] is None else form.format(record[key])}</td>'
            for _, key, form in columns
        )
        about = _html.escape(record["lesson"] or "")
        if record["changed"]:
            about += f'<br><small style="opacity:.75">{_html.escape(record["changed"])}</small>'
        rows.append(
            f'<tr><th scope="row" style="text-align:left;white-space:nowrap;padding:2px 8px">'
            f'{_html.escape(name)}</th>{cells}<td style="{text}">{about}</td></tr>'
        )
    title = f"{measured.title}{blocks(measured)}, on {measured.device.description}"
    below = f"counters: {measured.counted_title}" if measured.counted_title else ""
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">'
        f'<caption style="text-align:left;padding:4px 8px">{_html.escape(title)}</caption>'
        f'<thead><tr><th style="text-align:left;padding:2px 8px">rung</th>{heads}'
        f'<th style="{text}">what is new; what the counters say</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
        f"<small>{_html.escape(below)}</small></div>"
    )
