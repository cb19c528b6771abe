"""Plots with matplotlib: a roofline with kernels on it, a ladder's rungs.

Made for a notebook's width and for black and white: items differ in shape, hatching or line style
and are labelled in place. Labels cover nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuopt.show import ladder_table, terminal
from gpuopt.show.measured import Ladder, Roofline
from gpuopt.util import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

MARKERS = "osD^vPX*<>hp"
INK, GREY, PALE = "0.1", "0.45", "0.8"
SMALL = 8.5  # points
GAP = 2.0  # pixels between two labels
COLUMN = 40.0  # pixels: points nearer to each other share a column of names


def pyplot() -> Any:
    """Return matplotlib.pyplot, or raise an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plotting needs matplotlib, which is missing: pip install 'gpuopt[plot]'; print() "
            "draws in the terminal without it"
        ) from error
    return plt


def check_path(path: Path) -> None:
    """Refuse a file that no plot can be written to, before anything is measured.

    Raises
    ------
    ValueError
        Its ending names no format of matplotlib's.
    OSError
        It is a folder, or its folder does not exist.
    ImportError
        matplotlib is missing.
    """
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"-o: {str(path)!r} must end in .{', .'.join(sorted(known))}")
    files.check(path, "-o")


# --- labels that cover nothing


class _Labels:
    """Places texts beside points, so that they cover neither each other nor points nor roofs."""

    def __init__(self, ax: Axes) -> None:
        self.ax = ax
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = ax.figure.canvas
        if not hasattr(canvas, "get_renderer"):  # it draws files only; Agg measures texts
            canvas = FigureCanvasAgg(ax.figure)
            canvas.draw()
            ax.figure.set_canvas(canvas)
        ax.figure.canvas.draw()  # fixes all positions
        self.renderer = canvas.get_renderer()
        self.inside = ax.get_window_extent(self.renderer)
        self.taken: list[Bbox] = []

    def keep_clear(self, x: float, y: float, radius: float = 5.0) -> None:
        """Let no label cover a point."""
        from matplotlib.transforms import Bbox

        px, py = self.ax.transData.transform((x, y))
        self.taken.append(Bbox.from_extents(px - radius, py - radius, px + radius, py + radius))

    def keep_line_clear(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Let no label cover a line, if there is another place."""
        (x0, y0), (x1, y1) = self.ax.transData.transform([begin, end])
        steps = max(2, int(max(abs(x1 - x0), abs(y1 - y0)) / 6))
        back = self.ax.transData.inverted().transform
        for step in range(steps):
            at = step / (steps - 1)
            self.keep_clear(*back((x0 + (x1 - x0) * at, y0 + (y1 - y0) * at)), 2.0)

    def take(self, artist: Any) -> None:
        """Let no label cover a text that is there already."""
        self.taken.append(artist.get_window_extent(self.renderer))

    def covers(self, box: Bbox) -> int:
        """Return how many taken places a text would cover; many where it leaves the axes."""
        inside = self.inside
        leaves = (
            box.x0 < inside.x0 + GAP
            or box.x1 > inside.x1 - GAP
            or box.y0 < inside.y0 + GAP
            or box.y1 > inside.y1 - GAP
        )
        wide = box.padded(GAP)
        return 1000 * leaves + sum(wide.overlaps(other) for other in self.taken)

    def put(self, points: list[tuple[float, float, str]]) -> None:
        """Name points: those above one another share a column of names, in their order."""
        pixels = self.ax.transData.transform([(x, y) for x, y, _ in points])
        order = sorted(range(len(points)), key=lambda at: pixels[at][0])
        columns: list[list[int]] = []
        for at in order:
            if columns and pixels[at][0] - pixels[columns[-1][0]][0] < COLUMN:
                columns[-1].append(at)
            else:
                columns.append([at])
        for column in columns:
            self._put_column([(*pixels[at], points[at][2]) for at in column])

    def _put_column(self, named: list[tuple[float, float, str]]) -> None:
        from matplotlib.transforms import Bbox

        named = sorted(named, key=lambda each: each[1])
        sizes = []
        for _, _, text in named:
            label = self.ax.text(0, 0, text, fontsize=SMALL, parse_math=False)
            box = label.get_window_extent(self.renderer)
            label.remove()
            sizes.append((box.width, box.height))
        high = max(height for _, height in sizes) + GAP
        ys = _apart([y for _, y, _ in named], high, self.inside.y0 + high, self.inside.y1 - high)
        left, right = min(x for x, _, _ in named), max(x for x, _, _ in named)
        best: tuple[float, list[Bbox]] | None = None
        for out in (10, 22, 40, 65, 95, 130):
            for side in (1, -1):
                boxes = []
                for (wide, tall), y in zip(sizes, ys, strict=True):
                    x = right + out if side > 0 else left - out - wide
                    boxes.append(Bbox.from_bounds(x, y - tall / 2, wide, tall))
                cost = 10 * sum(self.covers(box) for box in boxes) + out / 10
                if best is None or cost < best[0]:
                    best = cost, boxes
        assert best is not None
        back = self.ax.transData.inverted().transform
        for (x, y, text), box in zip(named, best[1], strict=True):
            towards = box.x0 if box.x0 > x else box.x1
            middle = (box.y0 + box.y1) / 2
            if abs(middle - y) > 4 or abs(towards - x) > 14:
                ends = back([(x, y), (towards + (-2 if towards > x else 2), middle)])
                self.ax.plot(*zip(*ends, strict=True), color=GREY, lw=0.5, zorder=4)
            self.ax.text(*back((box.x0, middle)), text, fontsize=SMALL, color=INK, va="center",
                         ha="left", zorder=6, parse_math=False,
                         bbox={"fc": "white", "ec": "none", "pad": 0.5})  # fmt: skip
            self.taken.append(box)


def _apart(wanted: list[float], gap: float, least: float, most: float) -> list[float]:
    """Return ascending places at least a gap apart, near the wanted ones, within limits."""
    placed: list[float] = []
    for each in wanted:
        placed.append(max(each, placed[-1] + gap) if placed else each)
    shift = sum(wanted) / len(wanted) - sum(placed) / len(placed)
    shift = min(shift, most - placed[-1])
    shift = max(shift, least - placed[0])
    return [each + shift for each in placed]


# --- the roofline


def _roofs(roof: Roofline) -> list[str]:
    """Return the ceilings of arithmetic."""
    return [each.name for each in roof.ceilings if each.unit == "FLOP/s"]


def _memories(roof: Roofline) -> list[str]:
    names = [each.name for each in roof.ceilings if each.unit == "B/s"]
    best = []
    for level in ("DRAM", "L3", "L2", "L1", "shared memory", "registers"):
        if any(name == level or name.startswith(f"{level} ") for name in names):
            best.append(roof.ceiling(level).name)
    return best


def roofline(roof: Roofline, ax: Axes | None = None) -> Axes:
    """Draw a roofline: a ramp for each memory, a roof for each arithmetic, the kernels."""
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(8.2, 5.2), layout="constrained")
    low, high, bottom, top = terminal.window(roof)
    peaks = [roof.ceiling(name) for name in _roofs(roof)]
    highest = max(each.rate for each in peaks)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(bottom, top)
    ax.set_xlabel("intensity, operations per byte")
    ax.set_ylabel("operations per second")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_major_formatter(lambda value, _: terminal.rate(value, "FLOP/s"))
    ax.grid(True, which="major", color=PALE, lw=0.5)
    how = "datasheet" if roof.source == "datasheet" else f"measured {roof.date[:10]}"
    ax.set_title(f"{roof.device.description}: ceilings ({how})", fontsize=10)

    main, peak = roof.ceiling("DRAM"), roof.peak()
    for name in _memories(roof):
        rate = roof.ceiling(name).rate
        main_ramp = name == main.name
        end = highest / rate
        ax.plot([low, end], [low * rate, highest], color=INK if main_ramp else GREY,
                lw=2.2 if main_ramp else 1, ls="-" if main_ramp else "--", zorder=3)  # fmt: skip
    for each in peaks:
        main_roof = each.name == peak.name
        ax.plot([each.rate / main.rate, high], [each.rate] * 2, color=INK if main_roof else GREY,
                lw=2.2 if main_roof else 1, ls="-" if main_roof else "--", zorder=3)  # fmt: skip
    ridge = roof.ridge()
    ax.plot([ridge, ridge], [bottom, peak.rate], color=GREY, lw=0.8, ls=":", zorder=2)

    labels = _Labels(ax)
    placed = [each for each in roof.points if each.flops and each.bytes]
    for point in placed:
        labels.keep_clear(point.intensity, point.rate)
    _name_roofs(ax, labels, peaks, high)
    _name_ramps(roof, ax, labels, (low, high, bottom, top))
    ax.annotate(f"ridge {ridge:.3g}", (ridge, bottom), (3, 4), textcoords="offset points",
                fontsize=SMALL, color=GREY)  # fmt: skip
    labels.take(ax.texts[-1])
    for name in _memories(roof):
        rate = roof.ceiling(name).rate
        labels.keep_line_clear((low, low * rate), (highest / rate, highest))
    for each in peaks:
        labels.keep_line_clear((each.rate / main.rate, each.rate), (high, each.rate))
    for at, point in enumerate(placed):
        ax.plot(point.intensity, point.rate, MARKERS[at % len(MARKERS)], color=INK, ms=6, zorder=5,
                mfc="white" if at // len(MARKERS) % 2 else INK)  # fmt: skip
    if placed:
        labels.put([
            (each.intensity, each.rate, _label(roof, each))
            for each in placed
        ])  # fmt: skip
    return ax


def _label(roof: Roofline, point: Any) -> str:
    """Return a point's name, and its share of the bound; "at most" without a time."""
    if roof.bound(point).seconds:
        return f"{point.name} (at most)"
    return f"{point.name} ({roof.bound(point).share:.0%})"


def _name_roofs(ax: Axes, labels: _Labels, peaks: list[Any], high: float) -> None:
    """Write each roof's name and rate on its line, from the right; the line stops behind them."""
    for each in sorted(peaks, key=lambda peak: -peak.rate):
        text = f"{each.name}  {terminal.rate(each.rate, each.unit)}"
        options = ({"xytext": (dx, 0), "ha": "right"} for dx in (-6, -150, -290))
        _write(ax, labels, text, [((high, each.rate), option) for option in options])


def _name_ramps(
    roof: Roofline, ax: Axes, labels: _Labels, window: tuple[float, float, float, float]
) -> None:
    """Write each memory's name and rate on its ramp; the line stops behind them."""
    import numpy as np

    low, high, bottom, _ = window
    highest = max(roof.ceiling(name).rate for name in _roofs(roof))
    for name in _memories(roof):
        rate = roof.ceiling(name).rate
        text = f"{name}  {terminal.rate(rate, 'B/s')}"
        first = max(low, bottom / rate)
        main = name == roof.ceiling("DRAM").name
        last = min(high, (roof.peak().rate if main else highest) / rate)
        (x0, y0), (x1, y1) = ax.transData.transform([(first, first * rate), (last, last * rate)])
        angle = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
        options = {"xytext": (0, 0), "rotation": angle, "ha": "center"}
        spots = (first * (last / first) ** along for along in (0.5, 0.35, 0.65, 0.25, 0.78, 0.15))
        _write(ax, labels, text, [((x, x * rate), options) for x in spots])


def _write(ax: Axes, labels: _Labels, text: str, places: list[tuple[Any, dict[str, Any]]]) -> None:
    """Write a text at the first of the places where it covers least."""
    best: tuple[int, Any, list[Bbox]] | None = None
    for xy, options in places:
        label = ax.annotate(
            text, xy, textcoords="offset points", va="center", rotation_mode="anchor",
            fontsize=SMALL, color=INK, annotation_clip=False, zorder=4,
            bbox={"fc": "white", "ec": "none", "pad": 1.0}, **options,
        )  # fmt: skip
        box = label.get_window_extent(labels.renderer)
        boxes = _slanted(box) if options.get("rotation") else [box]
        cost = sum(labels.covers(each) for each in boxes)
        if best is None or cost < best[0]:
            if best:
                best[1].remove()
            best = cost, label, boxes
        else:
            label.remove()
        if not cost:
            break
    assert best is not None
    labels.taken += best[2]


def _slanted(box: Bbox) -> list[Bbox]:
    """Return the small boxes that a text along a ramp covers."""
    from matplotlib.transforms import Bbox

    steps, high = 12, 14  # pixels
    wide = box.width / steps
    return [
        Bbox.from_bounds(
            box.x0 + (box.width - wide) * step / (steps - 1),
            box.y0 + (box.height - high) * step / (steps - 1),
            wide,
            high,
        )
        for step in range(steps)
    ]


# --- the ladder


def _short(value: float) -> str:
    """Return an axis's number: 20,000 as "20k", 3,000,000 as "3M"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _number(value: float) -> str:
    """Return a number with the digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bars(
    ax: Axes,
    names: list[str],
    series: list[tuple[str, list[float | None], str, str]],
    scale: str,
    narrow: bool = False,
) -> None:
    """Draw groups of horizontal bars, the first name on top, each with its number at its end."""
    height = 0.8 / len(series)
    drawn = [value for _, values, _, _ in series for value in values if value]
    most, least = max(drawn, default=1.0), min(drawn, default=1.0)
    logarithmic = most > 50 * least
    if logarithmic:
        ax.set_xscale("log")
        ax.set_xlim(least / 2, most * 16)
    else:
        ax.set_xlim(0, most * (1.5 if narrow else 1.35))
    for at, (name, values, face, hatch) in enumerate(series):
        y = [row + (at - (len(series) - 1) / 2) * height for row in range(len(names))]
        ax.barh(y, [value or 0 for value in values], height * 0.9, color=face, edgecolor=INK,
                hatch=hatch, lw=0.7, label=name)  # fmt: skip
        for where, value in zip(y, values, strict=True):
            if value:
                ax.annotate(_number(value), (value, where), (3, 0), va="center", zorder=4,
                            textcoords="offset points", fontsize=SMALL, color=INK,
                            bbox={"fc": "white", "ec": "none", "pad": 0.5})  # fmt: skip
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel(scale)
    ax.xaxis.set_major_formatter(lambda value, _: _short(value))  # long ones would overlap
    if not logarithmic:
        ax.locator_params(axis="x", nbins=3 if narrow else 5)
    ax.grid(True, axis="x", color=PALE, lw=0.5)
    ax.set_axisbelow(True)


def ladder(measured: Ladder, ax: Axes | None = None) -> Axes:
    """Draw a ladder's rungs, and the deck's figures beside them."""
    plt = pyplot()
    if not measured.rows:
        raise ValueError("ladder: has no rung that was measured; there is nothing to draw")
    decks = [ladder_table.deck_rate(measured, row.rung) for row in measured.rows]
    beside = ax is None and measured.deck is not None and any(decks)
    peers = len(measured.peers) if measured.timed else 0
    conflicts = [row.counted.counters.bank_conflicts if row.counted else 0 for row in measured.rows]
    conflicts = conflicts if ax is None and not measured.timed and any(conflicts) else []
    if ax is None:
        height = 1.5 + (0.5 if measured.timed else 0.3) * (len(measured.rows) + peers)
        ratios = [3, *([2] if conflicts else []), *([2] if beside else [])]
        figure, axes = plt.subplots(
            1, len(ratios), figsize=(8.6, height), layout="constrained", sharey=len(ratios) > 1,
            squeeze=False, width_ratios=ratios,
        )  # fmt: skip
        ax = axes[0][0]
        figure.suptitle(f"{measured.title}, on {measured.device.description}", fontsize=10)
    names = [ladder_table.label(row.rung) for row in measured.rows]
    if measured.timed:
        _rates(measured, ax, names)
    else:
        values = [row.counted.counters.warp_instructions for row in measured.rows]
        bars(ax, names, [("warp instructions", values, PALE, "")], "warp instructions")
    if conflicts:
        other = ax.figure.axes[1]
        bars(other, names, [("bank conflicts", conflicts, PALE, "xx")], "bank conflicts", True)
        other.tick_params(axis="y", length=0)
    if beside:
        other = ax.figure.axes[-1]
        unit = "GFLOP/s" if measured.flops else "GB/s"
        rates = decks + [None] * peers
        every = [*names, *(f"{each.name} {each.version}" for each in measured.peers)]
        deck = f"the deck's {measured.deck[0]}"
        series = [(deck, rates, "white", "..")]
        predicted = _predicted_rates(measured)
        if any(predicted) and not measured.timed:
            here = measured.device.description.removeprefix("simulated ")
            series.append((f"predicted: {here}", predicted, PALE, "//"))
        label = unit if len(series) > 1 else f"{unit}, {deck}"
        bars(other, every, series, label, narrow=bool(conflicts))
        if len(series) > 1:
            other.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=SMALL,
                         frameon=False)  # fmt: skip
        other.tick_params(axis="y", length=0)
    return ax


def _predicted_rates(measured: Ladder) -> list[float | None]:
    name = "predicted_gflops" if measured.flops else "predicted_gbs"
    return [each.get(name) for each in ladder_table.records(measured)]


def _rates(measured: Ladder, ax: Axes, names: list[str]) -> None:
    unit = "GFLOP/s" if measured.flops else "GB/s"

    def rates(mode: str) -> list[float | None]:
        amounts = [measured.flops or row.algorithm_bytes for row in measured.rows]
        amounts += amounts[-1:] * len(measured.peers)
        rows = [*measured.rows, *measured.peers]
        return [
            amount / timing.median / 1e9 if (timing := getattr(row, mode)).samples else None
            for row, amount in zip(rows, amounts, strict=True)
        ]

    every = [*names, *(f"{each.name} {each.version}" for each in measured.peers)]
    series = [("warm", rates("warm"), "0.35", ""), ("cold", rates("cold"), "white", "///")]
    if any(predicted := _predicted_rates(measured)):
        series.insert(1, ("predicted, warm", predicted, PALE, ".."))
    bars(ax, every, series, unit)
    if not measured.flops:
        copy = measured.copy_bandwidth / 1e9
        low, high = ax.get_xlim()
        ax.set_xlim(low, max(high, copy * (3 if ax.get_xscale() == "log" else 1.25)))
        ax.axvline(copy, color=INK, lw=1.2, ls="--", label=f"plain copy, {_number(copy)} GB/s")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(series) + 1,
              fontsize=SMALL, frameon=False)  # fmt: skip
