"""The decks' hand-drawn pictures, drawn from a recorded trace."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from gpuopt import models
from gpuopt.observe.counters import unit_of as unit_of_device
from gpuopt.observe.events import Access, Recorded
from gpuopt.observe.flow import Combination, Place, combinations
from gpuopt.util.svg import WIDTH, Canvas, Picture, fit

COLUMNS_MOST = 128  # of a tree
STEPS_MOST = 24
ROWS_MOST = 400  # of a tile and a timeline
SECTOR, LINE = 32, 128  # bytes


def _runs(mask: int, lanes: int = 32) -> list[tuple[int, int, bool]]:
    """Return the runs of equal bits as (first lane, length, bit)."""
    found: list[tuple[int, int, bool]] = []
    for lane in range(lanes):
        bit = bool(mask >> lane & 1)
        if found and found[-1][2] == bit:
            found[-1] = (found[-1][0], found[-1][1] + 1, bit)
        else:
            found.append((lane, 1, bit))
    return found


def plural(count: int, noun: str) -> str:
    """Return "1 sector", "5 sectors", "5 branches"."""
    many = "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{'' if count == 1 else many}"


def _recorded(trace: Recorded, warp: int) -> None:
    """Raise ValueError for a warp that the trace did not record."""
    have = sorted(set(trace.events["warp"].tolist()))
    if warp not in have:
        raise ValueError(f"warp: {warp} has no events in this trace; it has warps {have}")


# --- the tree


class _Columns:
    """Columns of memory locations in a row: evenly spaced, from the lowest address up.

    Elements are counted from their array's address (in shared memory, from 0), in units of the
    kernel's access size.
    """

    def __init__(self, trace: Recorded, space: str, addresses: list[int], least: int = 0) -> None:
        events = trace.events[trace.events["space"] == trace.spaces.index(space)]
        self.size = int(events["bytes"].min(initial=4, where=events["bytes"] > 0))
        self.bases = sorted({0, *map(int, events["base"])})
        self.base = min(addresses, default=0)
        self.unit = math.gcd(*(each - self.base for each in addresses)) or 1
        self.count = max(least, (max(addresses, default=0) - self.base) // self.unit + 1)

    def of(self, address: int) -> int:
        return (address - self.base) // self.unit

    def item(self, address: int) -> int:
        return (address - self.bases[bisect.bisect(self.bases, address) - 1]) // self.size


class _TreePicture:
    LEFT, RIGHT, ROW = 76, 138, 62

    def __init__(self, trace: Recorded, found: list[Combination]) -> None:
        self.trace = trace
        self.first_thread = 0 if trace.warp is None else 32 * trace.warp
        self.threads = trace.threads
        self.steps: dict[int, list[Combination]] = {}
        for each in found:
            self.steps.setdefault(each.step, []).append(each)
        self.cut = len(self.steps) > STEPS_MOST
        shown = [each for each in found if each.step <= STEPS_MOST]
        places = [place for each in shown for place in (*each.operands, each.result)]
        used = [each.at for each in places if each.space == "shared"]
        self.shared = _Columns(trace, "shared", used, self.threads)
        first = [place for each in self.steps[1] for place in each.operands]
        used = [each.at for each in first if each.space == "global"]
        self.items = _Columns(trace, "global", used)
        self.global_first = any(each.space == "global" for each in first)
        self.stubs = False  # a step that loads values which no step made
        most = max(self.shared.count, self.items.count if self.global_first else 0)
        if most > 2 * COLUMNS_MOST or self.shared.count > COLUMNS_MOST:
            raise ValueError(f"tree: {most:,} columns are too many for a picture; {_fewer(trace)}")

    def x(self, place: Place, row: int) -> float:
        """Return the centre of a location's box in a row; row 0 is the first."""
        room = WIDTH - self.LEFT - self.RIGHT
        if row == 0 and self.global_first and place.space == "global":
            return self.LEFT + (self.items.of(place.at) + 0.5) * room / self.items.count
        column = (
            self.shared.of(place.at) if place.space == "shared" else place.at - self.first_thread
        )
        return self.LEFT + (column + 0.5) * room / self.shared.count

    def sources(self, canvas: Canvas, y: float) -> None:
        """Draw the row that the first step reads."""
        columns = self.items if self.global_first else self.shared
        width = (WIDTH - self.LEFT - self.RIGHT) / columns.count
        canvas.text(14, y + 8, "global" if self.global_first else "shared", size=11)
        canvas.text(14, y + 21, "memory", size=11)
        for column in range(columns.count):
            canvas.rect(self.LEFT + column * width + 0.5, y, max(0.5, width - 1), 18, "cell")
        every = next(each for each in (1, 2, 4, 8, 16, 32) if each * width >= 15 or each == 32)
        for column in range(0, columns.count, every):
            x = self.LEFT + (column + 0.5) * width
            item = columns.item(columns.base + column * columns.unit)
            canvas.text(x, y - 4, str(item), size=8.5, kind="soft", anchor="middle")

    def step(self, canvas: Canvas, number: int, y: float) -> dict[str, Any]:
        """Draw a step's lines, results and lanes; return it as data."""
        found = self.steps[number]
        digits = max(len(str(each.thread)) for each in found)
        width = (WIDTH - self.LEFT - self.RIGHT) / self.shared.count
        masks: dict[int, int] = {}
        for each in found:
            to = self.x(each.result, number)
            for place, loaded in zip(each.operands, each.loaded, strict=True):
                if loaded and number > 1:
                    canvas.line(to + 7, y - 12, to + 1, y, "edge2", 1.6)
                    self.stubs = True
                else:
                    below = 18 if number == 1 else 26  # the box, and from then on the lanes
                    canvas.line(self.x(place, number - 1), y - self.ROW + below, to, y)
            masks[each.thread // 32] = masks.get(each.thread // 32, 0) | 1 << each.thread % 32
        every = next(n for n in (1, 2, 4, 8, 16, 32) if n * width >= 5 * digits + 3 or n == 32)
        for each in found:
            to = self.x(each.result, number)
            kind = "active" if each.needed else "half"
            canvas.rect(to - width / 2 + 0.5, y, width - 1, 18, kind, self.sentence(each))
            if int((to - self.LEFT) / width) % every == 0:
                canvas.text(
                    to,
                    y + 12.5,
                    str(each.thread),
                    size=8,
                    kind="on" if each.needed else "ink",
                    anchor="middle",
                )
        self.lanes(canvas, masks, y + 20)
        warps = len(masks)
        canvas.text(14, y + 13, f"step {number}", size=12, bold=True)
        active = len({each.thread for each in found})
        x = WIDTH - self.RIGHT + 10
        canvas.text(x, y + 11, f"{plural(active, 'thread')} of {plural(warps, 'warp')}", size=11)
        share = active / (32 * warps)
        canvas.text(x, y + 25, f"{share:.0%} of their lanes add", size=10, kind="soft")
        return {
            "step": number,
            "active": active,
            "warps": warps,
            "pairs": [
                {
                    "thread": each.thread,
                    "needed": each.needed,
                    "operands": [self.name(place, True) for place in each.operands],
                    "result": self.name(each.result, True),
                }
                for each in found
            ],
        }

    def lanes(self, canvas: Canvas, masks: dict[int, int], y: float) -> None:
        """Draw the lanes that add, the lanes of their warps that wait, and the idle warps."""
        room = WIDTH - self.LEFT - self.RIGHT
        width = room / self.shared.count
        for first in range(0, self.threads, 32):
            warp, lanes = (first + self.first_thread) // 32, min(32, self.threads - first)
            for lane, count, on in _runs(masks.get(warp, 0), lanes):
                kind = "active" if on else "hatched" if warp in masks else "idle"
                x = self.LEFT + (first + lane) * width
                canvas.rect(x + 0.25, y, count * width - 0.5, 5, kind)

    def name(self, place: Place, numbers: bool = False) -> Any:
        if place.space == "thread":
            return ("thread", place.at) if numbers else f"thread {place.at}'s register"
        at = (self.shared if place.space == "shared" else self.items).item(place.at)
        return (place.space, at) if numbers else f"{place.space}[{at}]"

    def sentence(self, each: Combination) -> str:
        return (
            f"thread {each.thread}: {' and '.join(self.name(place) for place in each.operands)} "
            f"into {self.name(each.result)}"
        )


def _fewer(trace: Recorded) -> str:
    """Return the advice for a tree with too many columns; it was tried."""
    warps = sorted(set(trace.events["warp"].tolist()))
    if len(warps) > 1:
        first = replace(trace, warp=warps[0], events=trace.events[trace.events["warp"] == warps[0]])
        with contextlib.suppress(ValueError):
            tree(first)
            return f"trace one warp: warp={warps[0]}"
    if trace.own:
        return "trace a launch on less data"
    return "trace fewer elements: a smaller n="


def tree(trace: Recorded) -> Picture:
    """Draw which thread combined which values."""
    found = combinations(trace)
    if not found:
        raise ValueError(
            f"tree: no thread of {trace.where} combined two loaded values; this kernel reduces "
            f"nothing"
        )
    drawing = _TreePicture(trace, found)
    canvas = Canvas()
    steps = sorted(drawing.steps)[:STEPS_MOST]
    title = f"{trace.title}: who adds what"
    sentence = (
        f"{plural(len(found), 'addition')} in {plural(len(drawing.steps), 'step')}; a box is the "
        f"result, its number the thread that adds; lines come from what it adds"
    )
    if drawing.cut:
        sentence += f" (the first {STEPS_MOST} steps)"
    y = canvas.heading(title, sentence)
    entries = [("active", "adds"), ("hatched", "waits, in a warp that works"),
               ("idle", "its whole warp has nothing to add")]  # fmt: skip
    if not all(each.needed for each in found):
        entries.insert(1, ("half", "adds, but nobody reads the sum"))
    canvas.legend(14, y + 6, entries)
    y += 34
    drawing.sources(canvas, y)
    data = []
    for step in steps:
        y += drawing.ROW
        data.append(drawing.step(canvas, step, y))
    if drawing.stubs:
        y += 22
        canvas.line(20, y + 10, 14, y + 22, "edge2", 1.6)
        canvas.text(28, y + 20, "a value that is loaded only now", size=11, kind="soft")
    return canvas.picture(y + 38, title, sentence, {"steps": data})


# --- coalescing


def transactions_of(trace: Recorded, access: Access) -> list[models.Transaction]:
    """Return the transactions of an access on the GPU that was simulated."""
    addresses = [access.addresses.get(lane) for lane in range(32)]
    store = access.kind == "store"
    return models.transaction_list(models.gpu(trace.gpu), addresses, access.size, store=store)


def unit_of(trace: Recorded) -> str:
    """Return what the transactions of the GPU that was simulated are called."""
    return unit_of_device(trace.gpu.name)


def _titles(trace: Recorded, access: Access) -> tuple[str, str]:
    """Return the title of an access's picture, and the line below: source code, then PTX."""
    if access.code:
        return f"{trace.title}: {access.code}", f"{access.place}  {access.text}"
    return f"{trace.title}: {access.text}", f"{access.place}"


def _lane_row(canvas: Canvas, y: float, mask: int, active: int) -> list[float]:
    """Draw a warp's lanes; return their centres."""
    left, width = 78, (WIDTH - 92) / 32
    canvas.text(14, y + 14, "lanes", size=12, bold=True)
    middles = []
    for lane in range(32):
        on, here = mask >> lane & 1, active >> lane & 1
        kind = "active" if on else "hatched" if here else "idle"
        canvas.rect(left + lane * width + 0.5, y, width - 1, 20, kind)
        canvas.text(left + (lane + 0.5) * width, y + 14, str(lane), size=9.5, anchor="middle",
                    kind="on" if on else "soft")  # fmt: skip
        middles.append(left + (lane + 0.5) * width)
    return middles


def _used(access: Access, part: models.Transaction) -> set[int]:
    """Return which bytes of a transaction its lanes request."""
    wanted: set[int] = set()
    for lane in part.lanes:
        address = access.addresses[lane]
        low, high = max(address, part.start), min(address + access.size, part.start + part.size)
        wanted.update(range(low - part.start, high - part.start))
    return wanted


def _moved(trace: Recorded, parts: list[models.Transaction]) -> str:
    """Return "4 sectors of 32 bytes move 128", or of several sizes "3 transactions move 128"."""
    sizes = {part.size for part in parts}
    each = f" of {min(sizes)} bytes" if len(sizes) == 1 else ""
    verb = "moves" if len(parts) == 1 else "move"
    moved = sum(part.size for part in parts)
    return f"{plural(len(parts), unit_of(trace))}{each} {verb} {moved:,} bytes"


def coalescing(trace: Recorded, access: Access) -> Picture:
    """Draw which lane's address falls into which transaction."""
    parts = transactions_of(trace, access)
    used = [_used(access, part) for part in parts]
    asked, moved = sum(map(len, used)), sum(part.size for part in parts)
    canvas = Canvas()
    title, code = _titles(trace, access)
    sentence = (
        f"warp {access.warp}: {plural(len(access.addresses), 'lane')} request {asked:,} bytes; "
        f"{_moved(trace, parts)}: {asked / moved:.0%} used"
    )
    y = canvas.heading(title, sentence, code)
    canvas.legend(14, y + 6, [("active", "requested"), ("hatched", "moved, but not requested"),
                              ("idle", "a lane without an access")])  # fmt: skip
    y += 26
    middles = _lane_row(canvas, y, access.mask, access.active)
    apart = [after.start != before.start + before.size
             for before, after in itertools.pairwise(parts)]  # fmt: skip
    gap = min(12.0, (WIDTH - 92) * 0.25 / max(1, sum(apart)))
    byte = (WIDTH - 92 - gap * sum(apart)) / max(LINE, moved)
    top, x = y + 110, 78.0
    canvas.text(14, top + 14, "memory", size=12, bold=True)
    every = max(1, math.ceil(44 / (byte * min(part.size for part in parts))))
    for number, part in enumerate(parts):
        x += gap if number and apart[number - 1] else 0
        first = part.start - access.base
        _part(canvas, x, top, byte, part, used[number], f"{unit_of(trace)} at byte {first:,}")
        if number % every == 0:
            canvas.text(x + 1, top + 36, f"{first:,}", size=9, kind="soft")
        for lane in part.lanes:
            to = x + (access.addresses[lane] - part.start + access.size / 2) * byte
            canvas.line(middles[lane], y + 20, min(to, x + part.size * byte), top)
        x += part.size * byte
    canvas.text(78, top + 52, "byte offsets in the array", size=11, kind="soft")
    lanes: dict[int, list[int]] = {}
    for part in parts:
        lanes.setdefault(part.start - access.base, []).extend(part.lanes)
    data = {
        "unit": unit_of(trace),
        "transactions": len(parts),
        "sectors": len(_touched(access, SECTOR)),
        "lines": len(_touched(access, LINE)),
        "bytes_wanted": asked,
        "bytes_moved": moved,
        "lanes": lanes,
        "event": access.event,
    }
    return canvas.picture(top + 66, title, sentence, data)


def _touched(access: Access, piece: int) -> set[int]:
    """Return the aligned pieces of memory that the lanes touch."""
    return {
        each
        for address in access.addresses.values()
        for each in range(address // piece, (address + access.size - 1) // piece + 1)
    }


def _part(
    canvas: Canvas,
    x: float,
    y: float,
    byte: float,
    part: models.Transaction,
    used: set[int],
    tip: str,
) -> None:
    """Draw a transaction and the bytes that are used; `byte` is a byte's width."""
    canvas.rect(x + 0.5, y, part.size * byte - 1, 22, "hatched", tip)
    unit = (part.size * byte - 1) / part.size
    for first, count, on in _runs(sum(1 << each for each in used), part.size):
        if on:
            canvas.rect(x + 0.5 + first * unit, y, count * unit, 22, "active")


# --- banks


def bank_passes(trace: Recorded, access: Access) -> models.Passes:
    """Return the cost of a shared-memory access on the GPU that was simulated."""
    lanes = [access.addresses.get(lane) for lane in range(32)]
    return models.bank_conflicts(models.gpu(trace.gpu), lanes, access.size)


def banks(trace: Recorded, access: Access) -> Picture:
    """Draw which lane hits which bank."""
    gpu = models.gpu(trace.gpu)
    passes = bank_passes(trace, access)
    addresses = [access.addresses.get(lane) for lane in range(32)]
    groups = models.bank_groups(gpu, addresses, access.size)
    canvas = Canvas()
    title, code = _titles(trace, access)
    ways = f"{passes.ways}-way conflict" if passes.ways > 1 else "no conflict"
    sentence = (
        f"warp {access.warp}: {ways}; {plural(passes.passes, 'wavefront')} "
        f"through {gpu.banks} banks, {passes.conflicts} more than needed"
    )
    y = canvas.heading(title, sentence, code)
    canvas.legend(14, y + 6, [("active", "first word of its bank, and its lanes"),
                              ("bad", "another word: another wavefront"),
                              ("idle", "no access")])  # fmt: skip
    y += 26
    middles = _lane_row(canvas, y, access.mask, access.active)
    top = y + 110
    for number, group in enumerate(groups):
        top = _bank_panel(canvas, top, group, gpu.banks, middles, y + 20, number, len(groups))
    data = {
        "passes": passes.passes,
        "conflicts": passes.conflicts,
        "ways": passes.ways,
        "banks": [
            {bank: {4 * word: lanes for word, lanes in words.items()}
             for bank, words in sorted(group.items())}
            for group in groups
        ],
        "event": access.event,
    }  # fmt: skip
    return canvas.picture(top + 8, title, sentence, data)


def _lanes_text(lanes: list[int]) -> str:
    if len(lanes) < 3:
        return ",".join(map(str, lanes))
    steady = lanes == list(range(lanes[0], lanes[-1] + 1))
    return f"{lanes[0]}-{lanes[-1]}" if steady else f"{len(lanes)}x"


def _bank_panel(
    canvas: Canvas,
    top: float,
    group: dict[int, dict[int, list[int]]],
    count: int,
    middles: list[float],
    from_y: float,
    number: int,
    panels: int,
) -> float:
    """Draw the banks and the words that one group of lanes requests; return the bottom."""
    width = (WIDTH - 92) / count
    label = "banks" if panels == 1 else f"group {number + 1}"
    canvas.text(14, top + 14, label, size=12, bold=True)
    deepest = max(len(words) for words in group.values())
    for bank in range(count):
        x = 78 + bank * width
        canvas.rect(x + 0.5, top, width - 1, 18, "cell")
        canvas.text(x + width / 2, top + 12.5, str(bank), size=9, anchor="middle", kind="soft")
        for row, (word, lanes) in enumerate(sorted(group.get(bank, {}).items())):
            y = top + 22 + 14 * row
            tip = f"word {word} (byte {4 * word}): lanes {', '.join(map(str, lanes))}"
            canvas.rect(x + 0.5, y, width - 1, 13, "bad" if row else "active", tip)
            text = _lanes_text(lanes)
            size = min(9, (width - 2) / max(1, len(text)) / 0.56)
            if size >= 6:
                canvas.text(x + width / 2, y + 10, text, size=size, kind="on", anchor="middle")
            if number == 0:
                for lane in lanes:
                    canvas.line(middles[lane], from_y, x + width / 2, top)
    canvas.text(14, top + 33, "lanes,", size=10, kind="soft")
    canvas.text(14, top + 46, "by word", size=10, kind="soft")
    return top + 22 + 14 * max(2, deepest) + 10


# --- the tile


def _tile_words(trace: Recorded) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return the writers and readers of each word of shared memory, by word."""
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for access in trace.accesses("shared"):
        for lane, address in access.addresses.items():
            thread = 32 * access.warp + lane
            for word in range(address // 4, (address + access.size - 1) // 4 + 1):
                for kind, table in (("load", readers), ("store", writers)):
                    if access.kind in (kind, "atomic", "reduce"):
                        found = table.setdefault(word, [])
                        if thread not in found:
                            found.append(thread)
    return writers, readers


def _tile_columns(trace: Recorded) -> int:
    """Guess the row length of a tile from its writes.

    It is the distance between the lanes of a warp that writes a column, else the least distance
    between two rows.
    """
    written = [
        [address // 4 for address in access.addresses.values()]
        for access in trace.accesses("shared")
        if access.kind == "store" and len(access.addresses) > 1
    ]
    steps = {b - a for words in written for a, b in itertools.pairwise(words)}
    starts = sorted({min(words) for words in written})
    gap = min((b - a for a, b in itertools.pairwise(starts)), default=32)
    found = steps.pop() if len(steps) == 1 and steps != {1} else gap
    return found if 8 <= found <= 64 else 32


def _word_texts(
    canvas: Canvas, x: float, top: float, size: float, dark: bool, texts: list[str]
) -> None:
    """Write a word's writer, reader and bank below each other; the bank is paler."""
    for number, text in enumerate(texts):
        if text:
            kind = "on" if dark else "soft" if number == 2 else "ink"
            y = top + (27 if number == 2 else 8.8 + 9 * number)
            canvas.text(x, y, text, size=size, kind=kind, anchor="middle")


def _word_kind(warp: int, wrote: list[int], read: list[int]) -> str:
    ours = 2 * any(t // 32 == warp for t in wrote) + any(t // 32 == warp for t in read)
    return ("cell" if wrote or read else "idle", "bad", "half", "active")[ours]


def _tile_legend(canvas: Canvas, y: float, warp: int, bank: int) -> None:
    canvas.legend(14, y, [("half", f"written by warp {warp}"), ("bad", f"read by warp {warp}"),
                          ("active", "both"), ("cell", "other warps"), ("idle", "unused"),
                          ("frame", f"bank {bank}")])  # fmt: skip


def _tile_heads(
    canvas: Canvas, x: float, y: float, width: float, heads: list[int], what: str
) -> None:
    canvas.text(10, y, what, size=9, kind="soft")
    for column, head in enumerate(heads):
        canvas.text(x + (column + 0.5) * width, y, str(head), size=7.5, kind="soft",
                    anchor="middle")  # fmt: skip


def _tile_sentence(columns: int, banks: int) -> str:
    if columns % banks == 0:
        lines = "above the thread that wrote it, below the first that read it"
        shift = "so a column lies in one bank"
    else:
        lines = "the thread that wrote it, the first that read it, its bank"
        shift = f"so each row begins {plural(columns % banks, 'bank')} later"
    return f"a box is a 4-byte word: {lines}; rows of {plural(columns, 'word')}, {shift}"


def tile(trace: Recorded, warp: int, columns: int | None) -> Picture:
    """Draw the writer and the reader of each word of shared memory."""
    writers, readers = _tile_words(trace)
    if not writers and not readers:
        raise ValueError(f"tile: {trace.where} uses no shared memory")
    _recorded(trace, warp)
    columns = columns or _tile_columns(trace)
    if columns > 64:
        raise ValueError(f"columns: {columns} is not from 1 to 64")
    words = sorted({*writers, *readers})
    first = words[0] // columns * columns
    rows = (words[-1] - first) // columns + 1
    shown = min(rows, ROWS_MOST // 4)
    banks = models.gpu(trace.gpu).banks
    straight = columns % banks == 0  # a column lies in one bank
    canvas = Canvas()
    title = f"{trace.title}: the way through shared memory"
    sentence = _tile_sentence(columns, banks)
    y = canvas.heading(title, sentence)
    _tile_legend(canvas, y + 6, warp, first % banks)
    y += 24
    left, width = 50, min(40.0, (WIDTH - 62) / columns)
    height = 21 if straight else 30
    size = min(8.0, (width - 3) / 4 / 0.56)
    if columns >= 8:
        heads = [(first + k) % banks if straight else k for k in range(columns)]
        _tile_heads(canvas, left, y + 8, width, heads, "bank" if straight else "column")
    y += 12
    framed = []
    for row in range(shown):
        top = y + row * height
        canvas.text(left - 5, top + 13, str(row), size=9, kind="soft", anchor="end")
        for column in range(columns):
            word = first + row * columns + column
            wrote, read = writers.get(word, []), readers.get(word, [])
            kind, bank = _word_kind(warp, wrote, read), word % banks
            x = left + column * width
            tip = f"word {word}, bank {bank}: written by {_who(wrote)}, read by {_who(read)}"
            canvas.rect(x + 0.5, top + 0.5, width - 1, height - 1, kind, tip)
            if bank == first % banks:
                framed.append((x, top))
            texts = [str(each[0]) if each else "" for each in (wrote, read)]
            texts += [] if straight else [str(bank)]
            _word_texts(canvas, x + width / 2, top, size, kind in ("active", "bad"), texts)
    for x, top in framed:
        canvas.rect(x + 1.5, top + 1.5, width - 3, height - 3, "frame")
    y += shown * height
    note = f"{plural(len(words), 'word')} used"
    note += f"; the first {shown} of {rows} rows" if shown < rows else ""
    if readers:
        most = plural(max(map(len, readers.values())), "thread")
        note += f"; a word is read by up to {most}"
    canvas.text(left, y + 16, note, size=11, kind="soft")
    data = {
        "columns": columns,
        "rows": rows,
        "writers": writers,
        "readers": readers,
        "banks": {word: word % banks for word in words},
    }
    return canvas.picture(y + 28, title, sentence, data)


def _who(threads: list[int]) -> str:
    more = f" and {len(threads) - 6} more" if len(threads) > 6 else ""
    return f"threads {', '.join(map(str, threads[:6]))}{more}" if threads else "nobody"


# --- the timeline


def timeline(trace: Recorded, warp: int, first: int, rows: int) -> Picture:
    """Draw a warp's instructions, one below the other, and the lanes that execute them."""
    events = trace.events
    _recorded(trace, warp)
    of_warp = np.flatnonzero((events["warp"] == warp) & (events["part"] == 0))
    if first >= of_warp.size:
        raise ValueError(f"first: {first} is not from 0 to {of_warp.size - 1}")
    if rows > ROWS_MOST:
        raise ValueError(f"rows: {rows} is not from 1 to {ROWS_MOST}")
    chosen = of_warp[first : first + rows]
    lanes = trace.lanes(warp)
    share = sum(int(mask).bit_count() for mask in events["active"][of_warp]) / (32 * of_warp.size)
    canvas = Canvas()
    title = f"{trace.title}: what warp {warp} executes"
    sentence = f"{plural(of_warp.size, 'instruction')}; {share:.0%} of the lanes are active"
    if chosen.size < of_warp.size:
        sentence += f"; shown: {first:,} to {first + chosen.size - 1:,}"
    y = canvas.heading(title, sentence)
    canvas.legend(14, y + 6, [("active", "works"), ("half", "here, but its guard is false"),
                              ("hatched", "elsewhere: the warp has diverged"),
                              ("idle", "has ended, or never was")])  # fmt: skip
    y += 24
    left, cell, height = 256, 8.0, 13
    for lane in range(0, 32, 4):
        canvas.text(left + lane * cell, y + 8, str(lane), size=8.5, kind="soft")
    y += 12
    place, data = "", []
    last_seen = _last_seen(events, of_warp)
    for number, at in enumerate(chosen):
        event = events[at]
        instruction = trace.instructions[event["instruction"]]
        active, mask = int(event["active"]), int(event["mask"])
        gone = sum(1 << lane for lane in range(32) if last_seen[lane] < at)
        top = y + number * height
        canvas.text(14, top + 10, fit(instruction.text, left - 22, 9, True), size=9,
                    kind="ink mono")  # fmt: skip
        _timeline_row(canvas, left, top, cell, height, (mask, active, lanes & ~gone))
        here = trace.place(instruction)
        if here != place:
            code = trace.source_line(instruction)
            canvas.text(left + 32 * cell + 8, top + 10, fit(here, 92, 9), size=9, kind="soft")
            canvas.text(left + 32 * cell + 96, top + 10, fit(code, WIDTH - left - 32 * cell - 108,
                        8.5, True), size=8.5, kind="ink mono")  # fmt: skip
            canvas.line(14, top, WIDTH - 14, top, "rule")
            place = here
        data.append({"event": int(at), "text": instruction.text, "active": active, "mask": mask,
                     "place": here})  # fmt: skip
    return canvas.picture(
        y + chosen.size * height + 12, title, sentence, {"instructions": data, "efficiency": share}
    )


def _last_seen(events: np.ndarray, of_warp: np.ndarray) -> np.ndarray:
    """Return the last event of each lane of a warp, -1 for a lane that has none."""
    bits = (events["active"][of_warp][:, None] >> np.arange(32, dtype=np.uint32)) & 1
    return np.array([of_warp[np.flatnonzero(lane)[-1]] if lane.any() else -1 for lane in bits.T])


def _timeline_row(
    canvas: Canvas,
    left: float,
    top: float,
    cell: float,
    height: float,
    masks: tuple[int, int, int],
) -> None:
    mask, active, alive = masks
    state = [
        "active" if mask >> lane & 1
        else "half" if active >> lane & 1
        else "hatched" if alive >> lane & 1
        else "idle"
        for lane in range(32)
    ]  # fmt: skip
    begin = 0
    for lane in range(1, 33):
        if lane == 32 or state[lane] != state[begin]:
            canvas.rect(left + begin * cell, top + 1.5, (lane - begin) * cell - 0.7, height - 3,
                        state[begin])  # fmt: skip
            begin = lane
