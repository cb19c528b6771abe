"""A measured ladder as a table: text, HTML, and flat records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from math import prod
from typing import Any

from gpuopt.catalog.deck import KINDS, printed
from gpuopt.catalog.rungs import Rung, rungs
from gpuopt.observe.counters import Counters, unit_of
from gpuopt.observe.machine import PTXAS_OLDEST
from gpuopt.show import sentences
from gpuopt.show.measured import Ladder, LadderRow
from gpuopt.show.terminal import busy
from gpuopt.util.table import Column, Table, terminal_width

LABEL = 18  # characters of a rung's number and name, at least


def amount(value: float) -> str:
    """Return a number with the digits that matter."""
    return Column("value", "", "~").cell({"value": value})


def label(rung: Rung) -> str:
    """Return a rung's number and name."""
    return rung.name if rung.number is None else f"{rung.number} {rung.name}"


def changes(measured: Ladder) -> list[str]:
    """Return what each row's counters say against the step before it."""
    found, before = [], None
    unit = unit_of(measured.device.name)
    for row in measured.rows:
        if row.counted is None:
            found.append("")
            continue
        counters = row.counted.counters
        found.append(
            sentences.what_changed(before, counters, unit)
            if before
            else sentences.at_first(counters, unit)
        )
        before = None if row.rung.ceiling else counters
    return found


_COUNTED = (
    Column("label", "rung", left=True, least=LABEL),
    Column("warp_instructions", "warp\ninstructions", keep=9),
    Column("fewer", "step", "{:.2f}x", keep=8),
    Column("lanes", "lanes\nactive", ".0%"),
    Column("divergent_branches", "divergent\nbranches", keep=6),
    Column("conflicts", "bank\nconflicts", keep=7),
    Column("wavefronts", "shared\nwavefronts"),
    Column("barriers", "barriers"),
    Column("per_load", "{unit}s\nper load", ".1f", keep=5),
    Column("launches", "launches"),
)


def counted_columns(columns: Sequence[Column], measured: Ladder) -> list[Column]:
    """Return columns whose titles name the transactions of the ladder's GPU."""
    unit = unit_of(measured.device.name)
    return [replace(each, title=each.title.format(unit=unit)) for each in columns]


def _deck_columns(measured: Ladder, unit: str) -> list[Column]:
    """Return the deck's own figures: its times where it has them, and a rate."""
    head = f"deck: {measured.deck[0]}\n" if measured.deck else ""
    in_us = any(row.rung.deck_us for row in measured.rows)
    return [
        Column("deck_us", f"{head}us", ",.0f", keep=2),
        Column("deck_rate", f"{'' if in_us else head}{unit}", ",.1f"),
        Column("deck_step", "step", "{:.2f}x", keep=1),
        Column("deck_sockets", "over\ntwo CPUs", "{:.2f}x"),
    ]


def _where(measured: Ladder, article: str = "") -> str:
    device = measured.device
    return f"{measured.title}{blocks(measured)}, on {article}{device.description} ({device.name})"


def _steps(measured: Ladder) -> Iterator[tuple[LadderRow, LadderRow | None, dict[str, Any]]]:
    """Give each row, the step before it, and its record with what the text shows besides."""
    before, sockets = None, 0.0
    if measured.family == "transpose" and measured.device.kind != "cpu":
        sockets = max(rung.deck_gbs for rung in rungs("transpose") if rung.host)
    for row, record in zip(measured.rows, records(measured), strict=False):
        rate = deck_rate(measured, row.rung)
        told = {"label": label(row.rung), "deck_rate": rate}
        told["deck_step"] = _deck_step(measured, before, row)
        told["deck_sockets"] = rate / sockets if rate and sockets else None
        yield row, before, record | told
        before = None if row.rung.ceiling else row


def counts(measured: Ladder) -> str:
    """Return the table of a ladder that was counted."""
    shown = []
    for row, before, record in _steps(measured):
        total = row.counted.counters
        then = before.counted.counters.warp_instructions if before else 0
        shown.append(
            record
            | {
                "fewer": then / total.warp_instructions if then else None,
                "lanes": total.warp_efficiency,
                "conflicts": total.bank_conflicts,
                "wavefronts": total.shared_load_wavefronts + total.shared_store_wavefronts,
                "per_load": total.transactions_per_load,
                "launches": len(row.counted.launches),
            }
        )
    deck = _deck_columns(measured, "GB/s")
    if any(record["deck_us"] for record in shown):
        del deck[1]  # follows from the time
    lines = [
        _where(measured, "a "),
        "the same compiled kernels, verified and counted; a simulated GPU has no clock",
        "",
        *Table([*counted_columns(_COUNTED, measured), *deck], shown).lines(),
        "",
        *_predictions(measured),
        *_lessons(measured),
        "",
        "what changed, by the counters:",
        *_changes(measured),
        *_filling(measured),
    ]
    return "\n".join(line.rstrip() for line in lines)


_PREDICTED = "predicted times, by a model over these counters; no measurement"
_BESIDE = "predicted by a model over the simulated GPU's counters, and measured"


def _prediction_table(measured: Ladder) -> Table | None:
    """Return the table of predicted times beside measured ones, or the deck's; None without any."""
    shown = [record for _, _, record in _steps(measured)]
    if not any(each["predicted_us"] for each in shown):
        return None
    unit, rate = ("GFLOP/s", "gflops") if measured.flops else ("GB/s", "gbs")
    columns = [
        Column("label", "rung", left=True, least=LABEL),
        Column("predicted_us", "predicted\nus", ",.1f", least=10, keep=9),
        Column(f"predicted_{rate}", unit, "~"),
        Column("predicted_step", "step", "{:.2f}x", keep=8),
        Column("predicted_bound", "bound by", left=True, keep=7),
    ]
    if measured.timed:
        columns.insert(2, Column("warm_us", "measured,\nwarm us", ",.1f", keep=9))
        columns.insert(3, Column("predicted_off", "off", "{:+.0%}", keep=9))
    else:
        columns.append(Column("predicted_deck_us", "deck's code,\npredicted us", ",.1f", keep=3))
        columns += _deck_columns(measured, unit)
    return Table(columns, shown)


def _kinds(measured: Ladder) -> list[str]:
    """Return the speed-ups by the algorithm and by the code, as deck D4 asks for them."""
    seconds = {
        row.rung.number: row.cold.median if measured.timed else row.predicted
        for row in measured.rows
    }
    if measured.family != "reduce" or not all(seconds.get(rung) for rung in range(1, 8)):
        return []
    found = []
    for kind, (numbers, deck) in KINDS.items():
        here = math.prod(seconds[rung - 1] / seconds[rung] for rung in numbers)
        listed = ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
        found.append(f"{kind} ({listed}): {here:.2f}x, {deck:.2f}x in the deck")
    return [*found, ""]


def _predictions(measured: Ladder) -> list[str]:
    """Return the lines with the predicted times, and why some are missing."""
    table = _prediction_table(measured)
    if table is None:
        return []
    wide = _wide(measured)
    missing = [
        f"{label(row.rung):<{wide}}{row.unpredicted}" for row in measured.rows if row.unpredicted
    ]
    missing = ["", "no prediction:", *missing] if missing else []
    shown = ["", *table.lines(), *missing, ""]
    return [_BESIDE, *shown] if measured.timed else [_PREDICTED, *shown, *_kinds(measured)]


_RESIDENT = (
    Column("label", "rung", left=True, least=LABEL),
    Column("blocks", "blocks"),
    Column("busy", "busy multi-\nprocessors"),
    Column("registers", "registers\nestimated"),
    Column("occupancy", "occu-\npancy", ".1%"),
    Column("compiled_registers", f"registers\nsm_{PTXAS_OLDEST}"),
    Column("deck_registers", "deck's\nregisters"),
    Column("deck_occupancy", "deck's\noccupancy", ".1%"),
)


def _filling(measured: Ladder) -> list[str]:
    """Return the lines that tell how the rungs fill the GPU, where that is a lesson.

    Registers and occupancy are the matrix product's; busy multiprocessors that of small grids.
    """
    most = measured.device.multiprocessors
    shown = []
    for row in measured.rows:
        launches = row.counted.launches
        blocks = max((prod(each.grid) for each in launches), default=0)
        record = {"label": label(row.rung), "blocks": blocks, "busy": min(blocks, most)}
        if measured.family == "matmul" and launches:
            deck = printed(row.rung)
            record |= {
                "registers": row.registers or None,
                "occupancy": launches[0].occupancy,
                "compiled_registers": row.compiled_registers or None,
                "deck_registers": deck.registers or None,
                "deck_occupancy": deck.occupancy or None,
            }
        shown.append(record)
    if measured.family != "matmul" and all(each["busy"] == most for each in shown):
        return []
    head = f"how the rungs fill {most} multiprocessors, in their largest launch:"
    return ["", head, *Table(_RESIDENT, shown).lines()]


def nothing(measured: Ladder) -> str:
    """Return why a ladder has no row."""
    lines = [
        _where(measured),
        "no rung was measured",
        "",
        *_lessons(measured),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _timed_columns(measured: Ladder) -> list[Column]:
    unit, rate = ("GFLOP/s", "gflops") if measured.flops else ("GB/s", "gbs")
    return [
        Column("label", "rung", left=True, least=LABEL),
        Column("warm_us", "warm\nus", ",.1f", least=8, keep=9),
        Column("warm_least_us", "least", ",.1f", least=8),
        Column("warm_spread", "spread", ".1%"),
        Column(f"warm_{rate}", unit, "~"),
        Column("step", "step", "{:.2f}x", least=7, keep=7),
        Column("cold_us", "cold\nus", ",.1f", least=10, keep=6),
        Column("cold_spread", "spread", ".1%"),
        Column(f"cold_{rate}", unit, "~", keep=8),
        Column("of_copy", "of copy", ".0%", keep=5),
        Column("of_reference", "of ref.", ".0%", keep=1),
        *_deck_columns(measured, unit),
        Column("deck_total", "total", "{:.2f}x"),
    ]


def times(measured: Ladder) -> str:
    """Return the table of a ladder that was timed."""
    last = measured.rows[-1]
    first = next((row for row in measured.rows if not row.rung.ceiling), last)
    deck = deck_rate(measured, first.rung)
    taken = [len(row.warm.samples) for row in measured.rows]  # fewer for slow rungs
    samples = f"{taken[0]}" if len(set(taken)) == 1 else f"{min(taken)} to {max(taken)}"
    shown = []
    for row, before, record in _steps(measured):
        rate = record["deck_rate"]
        total = printed(row.rung).total or (rate / deck if rate and deck else None)
        shown.append(record | {"deck_total": total if rate and before else None})
    peers = [each | {"label": each["name"]} for each in records(measured)[len(shown) :]]
    # The peers stand below the steps.
    table = Table(_timed_columns(measured), [*shown, *peers])
    heads, blocks_, note = table.text(terminal_width())
    rows = [line for block in blocks_[: len(shown)] for line in block] + note
    of_peers = [line for block in blocks_[len(shown) :] for line in block]
    lines = [
        _where(measured),
        f"medians of {samples} samples; warm: the same data each time; "
        "cold: other data each time, from memory",
        f"a plain copy moves {amount(measured.copy_bandwidth / 1e9)} GB/s cold, read and written",
        "",
        *heads,
        *rows,
    ]
    if of_peers:
        lines += ["", "the same by other libraries, verified, by the host's clock", *of_peers]
    if measured.peers_refused:
        lines += [""] * (not of_peers)
        lines += [f"{name:<{LABEL}}left out: {why}" for name, why in measured.peers_refused]
    if not first.rung.ceiling:
        in_deck = deck_rate(measured, last.rung)
        lines += [
            "",
            f"all steps together: {first.warm.median / last.warm.median:.2f}x warm, "
            f"{first.cold.median / last.cold.median:.2f}x cold"
            + (
                f", {_deck_total(last, in_deck, deck):.2f}x in the deck" if in_deck and deck else ""
            ),
        ]
    lines += ["", *_kinds(measured)][:-1]
    lines += spread_note(measured)
    if any(row.reference for row in measured.rows):
        lines.append(
            "of ref.: the speed, cold, against what gpuopt's makers measured on such a device"
        )
    lines += ["", *_predictions(measured), *_lessons(measured)]
    if measured.counted_title:
        lines += ["", "what changed, by the counters of the same kernels:"]
        lines += [f"({measured.counted_title})", *_changes(measured)]
    return "\n".join(line.rstrip() for line in lines)


def spread_note(measured: Ladder) -> list[str]:
    """Return a line about a busy machine, [] on a quiet one."""
    return busy(timing.spread for row in measured.rows for timing in (row.warm, row.cold))


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
    if not measured.deck:
        return None
    told = printed(rung).rate
    if told:
        return told
    return 1e-3 * measured.deck[1] / rung.deck_us if rung.deck_us else rung.deck_gbs or None


def _deck_step(measured: Ladder, before: LadderRow | None, row: LadderRow) -> float | None:
    then, now = (deck_rate(measured, each.rung) if each else None for each in (before, row))
    return (printed(row.rung).step or now / then) if then and now else None


def _deck_total(row: LadderRow, rate: float, first: float) -> float:
    return printed(row.rung).total or rate / first


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
            "of_reference": row.reference[1] / row.cold.median if row.reference else None,
            "deck_us": rung.deck_us or None,
            "deck_gbs": rung.deck_gbs or None,
            "lesson": rung.lesson,
            "changed": changed,
            **_predicted(measured, before, row),
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


def _predicted(measured: Ladder, before: LadderRow | None, row: LadderRow) -> dict[str, Any]:
    seconds = row.predicted or math.nan
    told = {
        "predicted_us": seconds * 1e6,
        "predicted_gbs": row.algorithm_bytes / seconds / 1e9,
        "predicted_gflops": measured.operations / seconds / 1e9,
        "predicted_step": before.predicted / seconds if before and before.predicted else math.nan,
        "predicted_deck_us": row.predicted_deck * 1e6 or math.nan,
        "predicted_off": seconds / row.warm.median - 1 if row.warm.samples else math.nan,
    }
    known = {name: None if math.isnan(value) else value for name, value in told.items()}
    return known | {"predicted_bound": row.bound or None}


def _rates(measured: Ladder, warm: Any, cold: Any, size: int) -> dict[str, float | None]:
    names = ("warm_us", "warm_least_us", "warm_spread", "warm_gbs", "warm_gflops", "cold_us",
             "cold_spread", "cold_gbs", "cold_gflops", "of_copy")  # fmt: skip
    if not measured.timed:
        return dict.fromkeys(names)
    told = dict.fromkeys(names) | {
        "warm_us": warm.median * 1e6,
        "warm_least_us": warm.least * 1e6,
        "warm_spread": warm.spread,
        "warm_gbs": size / warm.median / 1e9,
        "warm_gflops": measured.operations / warm.median / 1e9,
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
    Column("warm_us", "warm, us", ",.1f"),
    Column("step", "step", "{:.2f}x"),
    Column("cold_us", "cold, us", ",.1f"),
    Column("cold_spread", "spread", ".1%"),
    Column("shown_gflops", "GFLOP/s", "~"),
    Column("cold_gbs", "GB/s", "~"),
    Column("of_copy", "of copy", ".0%"),
    Column("reference_us", "reference, us", ",.1f"),
)
_SHORT = (
    *TIMED,
    Column("warp_instructions", "warp instructions"),
    Column("divergent_branches", "divergent branches"),
    Column("bank_conflicts", "bank conflicts"),
    Column("barriers", "barriers"),
    Column("per_load", "{unit}s per load", ".1f"),
    Column("per_store", "{unit}s per store", ".1f"),
)
DECK = (Column("deck_us", "deck, us", ",.0f"), Column("deck_gbs", "deck, GB/s", ",.1f"))
TITLE = Column("title", "rung", left=True)


def titled(measured: Ladder) -> list[dict[str, Any]]:
    """Return the records for a table that names a rung or a library in its first column."""
    return [
        record
        | {
            "title": record["name"]
            if record["number"] is None
            else f"{record['number']} {record['name']}",
            "shown_gflops": record["cold_gflops"] if measured.flops else None,
        }
        for record in records(measured)
    ]


def html(measured: Ladder) -> str:
    """Return the table as HTML, and below it, folded, the changes by the counters."""
    told = titled(measured)
    for record, row in zip(told, measured.rows, strict=False):  # peers follow the rungs
        if measured.timed:
            record |= dict.fromkeys(Counters())  # the counters are below the table
        elif row.counted:
            record["bank_conflicts"] = row.counted.counters.bank_conflicts
            record["per_load"] = row.counted.counters.transactions_per_load
            record["per_store"] = row.counted.counters.transactions_per_store
    about = Column("lesson", "what is new", left=True, least=32)
    title = f"{measured.title}{blocks(measured)}, on {measured.device.description}"
    columns = counted_columns(_SHORT, measured)
    table = Table([TITLE, *columns, *DECK, about], told).html(title, spread_note(measured))
    if predicted := _prediction_table(measured):
        table += predicted.html(_BESIDE if measured.timed else _PREDICTED)
    if not any(each["changed"] for each in told):
        return table
    counted = f": {escape(measured.counted_title)}" if measured.counted_title else ""
    changed = Table([TITLE, Column("changed", "what the counters say", left=True)], told).html()
    heading = f"<summary>What changed from rung to rung{counted}</summary>"
    return f"{table}<details>{heading}{changed}</details>"
