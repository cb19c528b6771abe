"""Drawing in a terminal: numbers with units, and a roofline in characters."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gpuopt.show.measured import Point, Roofline
from gpuopt.util.table import Column, Table

WIDTH, HEIGHT = 68, 16  # of the drawing, in characters
MARKS = "abcdefghijklmnopqrstuvwxyz"


SPREAD_MOST = 0.2  # of a quiet machine


def busy(spreads: Iterable[float]) -> list[str]:
    """Return a warning about spreads that a quiet machine does not have, or an empty list."""
    wide = [each for each in spreads if each > SPREAD_MOST]
    if not wide:
        return []
    return [
        f"{len(wide)} timing{'s' * (len(wide) > 1)} with a spread above {SPREAD_MOST:.0%}, up to "
        f"{max(wide):,.0%}: other programs ran meanwhile; measure again on a quiet machine before "
        "you compare"
    ]


def rate(value: float, unit: str) -> str:
    """Return a rate with a prefix: "4,595 GB/s", "1.33 TFLOP/s"."""
    if unit == "B/s" or value < 1e12:
        return f"{value / 1e9:,.{0 if value >= 1e11 else 1}f} G{unit}"
    return f"{value / 1e12:,.{2 if value < 1e13 else 1 if value < 1e14 else 0}f} T{unit}"


def window(roof: Roofline) -> tuple[float, float, float, float]:
    """Return a plot's limits of intensities and rates: powers of two around all points."""
    ridge, peak = roof.ridge(), roof.peak().rate
    placed = [each for each in roof.points if each.flops and each.bytes]
    fastest = max(each.rate for each in roof.ceilings if each.unit == "B/s")
    low = min([ridge / 64, peak / fastest / 8, *(each.intensity / 2 for each in placed)])
    high = max([ridge * 16, *(each.intensity * 2 for each in placed)])
    tops = [each.rate for each in roof.ceilings if each.unit == "FLOP/s"]
    bottom = min([roof.attainable(low), *(each.rate / 2 for each in placed)])
    return low, high, bottom, max([2 * peak, *(1.5 * top for top in tops)])


def _canvas(roof: Roofline) -> list[str]:
    low, high, bottom, _ = window(roof)
    top = 2 * max(roof.peak(each.dtype).rate for each in [*roof.points, roof])

    def column(intensity: float) -> int:
        return round(math.log(intensity / low) / math.log(high / low) * (WIDTH - 1))

    def line(value: float) -> int:
        at = math.log(value / bottom) / math.log(top / bottom)
        return HEIGHT - 1 - min(HEIGHT - 1, max(0, round(at * (HEIGHT - 1))))

    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    for x in range(WIDTH):
        intensity = low * (high / low) ** (x / (WIDTH - 1))
        ramp = intensity < roof.ridge()
        cells[line(roof.attainable(intensity))][x] = "/" if ramp else "-"
    for y in range(line(roof.peak().rate) + 1, HEIGHT):
        cells[y][column(roof.ridge())] = ":"
    for mark, point in _marked(roof):
        cells[line(point.rate)][column(point.intensity)] = mark
    axis = f"{low:<8.3g}{'operations per byte':^{WIDTH - 16}}{high:>8.3g}"
    return [*("  |" + "".join(row).rstrip() for row in cells), "  +" + "-" * WIDTH, "   " + axis]


def _marked(roof: Roofline) -> list[tuple[str, Point]]:
    placed = [each for each in roof.points if each.flops and each.bytes]
    return list(zip(MARKS, placed, strict=False))


def ceilings(roof: Roofline) -> Table:
    """Return the table of a roofline's ceilings; those of a datasheet have no spread."""
    columns = [
        Column("name", "ceiling", left=True, least=16),
        Column("rate", "rate", least=14),
        Column("spread", "spread", ".1%"),
    ]
    measured = roof.source == "measured"
    records = (
        {
            "name": each.name,
            "rate": rate(each.rate, each.unit),
            "spread": each.spread if measured else None,
        }
        for each in roof.ceilings
    )
    return Table(columns, records)


def roofline(roof: Roofline) -> str:
    """Return a roofline's ceilings, the drawing, and its kernels' bounds."""
    how = "from the datasheet" if roof.source == "datasheet" else f"measured {roof.date[:10]}"
    about = [roof.driver, "quick" if roof.quick else ""]
    head = f"{roof.device.description} ({roof.device.name}), ceilings {how}"
    lines = [", ".join([head, *filter(None, about)]), ""]
    lines += ceilings(roof).lines()
    lines += busy(each.spread for each in roof.ceilings)
    memory, peak = roof.ceiling("DRAM"), roof.peak()
    lines += [
        "",
        f"ridge: {roof.ridge():.3g} operations per byte, where {memory.name} meets {peak.name}",
        "",
        *_canvas(roof),
    ]
    marks = {id(point): mark for mark, point in _marked(roof)}
    if roof.points:
        lines.append("")
    lines += [f"{marks.get(id(each), ' ')}  {roof.bound(each)}" for each in roof.points]
    return "\n".join(line.rstrip() for line in lines)
