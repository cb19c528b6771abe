"""Plots of experiments and sweeps with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuopt.show.measured import Experiment, SweepSize
from gpuopt.show.plots import INK, MARKERS, PALE, SMALL, bars, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", "--", ":", "-.")
ROWS_MOST = 60  # bars of a plot
TRIALS_MOST = 24


def _values(found: Experiment, key: str, argument: str) -> list[Any]:
    """Return a column's or parameter's value for every row, None where a row has none."""
    told = [row.parameters | row.values | {"share": row.share} for row in found.rows]
    if not any(each.get(key) is not None for each in told):
        known = dict.fromkeys(name for each in told for name in each if each[name] is not None)
        raise ValueError(
            f"{argument}: {found.name} has no {key!r}; it has {', '.join(map(repr, known))}"
        )
    return [each.get(key) for each in told]


def _scale(found: Experiment, key: str) -> tuple[str, float]:
    """Return the title of a column's axis, and the factor that its values are drawn with."""
    if key == "share":
        return f"% of {found.ceiling}" if found.ceiling else "share, %", 100.0
    titles = {column.key: " ".join(column.title.split()) for column in found.columns}
    return titles.get(key, key), 1.0


def _axes(ax: Axes | None, height: float, title: str, where: str) -> Axes:
    if ax is None:
        figure, ax = pyplot().subplots(figsize=(8.2, height), layout="constrained")
        figure.suptitle(f"{title}\non {where}", fontsize=10)
    return ax


def experiment(
    found: Experiment,
    column: str | None,
    x: str | None,
    by: str | Sequence[str] | None,
    ax: Axes | None,
) -> Axes:
    """Draw a column: a bar for each row, or a line over a parameter for each value of another."""
    if not found.rows:
        raise ValueError(f"{found.name}: has no rows; there is nothing to draw")
    if column is None:
        shares = any(row.share is not None for row in found.rows)
        column = "share" if shares else found.columns[0].key
    values = _values(found, column, "column")
    if not all(isinstance(value, int | float | None) for value in values):
        raise ValueError(f"column: {column!r} of {found.name} holds no numbers to draw")
    scale, factor = _scale(found, column)
    drawn = [None if value is None else value * factor for value in values]
    if x is None:
        if by is not None:
            raise ValueError("by: needs x=, the parameter of the horizontal axis")
        rows = slice(0, ROWS_MOST)
        names = [row.name for row in found.rows][rows]
        ax = _axes(ax, 1.2 + 0.24 * len(names), found.title, found.device.description)
        bars(ax, names, [(scale, drawn[rows], PALE, "")], scale)
        return ax
    keys = [] if by is None else [by] if isinstance(by, str) else list(by)
    told = [_values(found, key, "by") for key in keys]
    groups = [
        ", ".join(f"{key} {value}" for key, value in zip(keys, row, strict=True) if value != "")
        for row in (zip(*told, strict=True) if told else [()] * len(drawn))
    ]
    places = _values(found, x, "x")
    _check_lines(found, x, keys, list(zip(groups, places, strict=True)))
    ax = _axes(ax, 4.2, found.title, found.device.description)
    _lines(ax, places, drawn, groups)
    ax.set_xlabel(_scale(found, x)[0])
    ax.set_ylabel(scale)
    return ax


def _check_lines(found: Experiment, x: str, keys: list[str], points: list[tuple[str, Any]]) -> None:
    """Refuse a line that has two values at one place; name the parameters that tell them apart."""
    if any(not isinstance(place, int | float | None) for _, place in points):
        raise ValueError(f"x: {x!r} of {found.name} holds no numbers")
    seen = [point for point in points if point[1] is not None]
    if len(set(seen)) == len(seen):
        return
    names = dict.fromkeys(name for row in found.rows for name in row.parameters)
    others = [name for name in names if name not in (x, *keys)]
    advice = f"; add {' or '.join(map(repr, others))} to by=" if others else ""
    raise ValueError(f"by: several rows of {found.name} have the same {x!r} on one line{advice}")


def _lines(
    ax: Axes,
    places: Sequence[Any],
    values: Sequence[float | None],
    groups: Sequence[str],
    log: bool = False,
) -> None:
    ticks = sorted({place for place in places if place is not None})
    for at, group in enumerate(dict.fromkeys(groups)):
        points = sorted(
            (place, value)
            for place, value, of in zip(places, values, groups, strict=True)
            if of == group and place is not None and value is not None
        )
        if points:
            ax.plot(*zip(*points, strict=True), color=INK, ls=STYLES[at % len(STYLES)],
                    marker=MARKERS[at % len(MARKERS)], ms=6, lw=1.2, label=group,
                    mfc="white" if at % 2 else INK)  # fmt: skip
    if ticks and ticks[0] > 0 and ticks[-1] >= 16 * ticks[0]:
        ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.minorticks_off()
    if log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    ax.grid(True, color=PALE, lw=0.5)
    if any(groups):
        ax.legend(fontsize=SMALL, frameon=False, ncols=1 + len(set(groups)) // 4)


def sweep(size: SweepSize, where: str, ax: Axes | None) -> Axes:
    """Draw the fastest choices of a sweep's size; the library's own is hatched."""
    if not size.trials:
        raise ValueError(f"size: no choice takes {size.title}; there is nothing to draw")
    ranked = sorted(size.trials, key=lambda trial: trial.seconds)
    shown = ranked[:TRIALS_MOST]
    shown += [trial for trial in ranked[TRIALS_MOST:] if trial.default][:1]
    ax = _axes(ax, 1.4 + 0.24 * len(shown), size.title, where)
    times = [trial.seconds * 1e6 for trial in shown]
    bars(ax, [str(trial) for trial in shown], [("", times, PALE, "")], "us, median")
    for bar, trial in zip(ax.patches, shown, strict=True):
        bar.set_hatch("///" if trial.default else "")
        bar.set_label("the library's choice" if trial.default else None)
    if any(trial.default for trial in shown):
        ax.legend(fontsize=SMALL, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return ax


def sweep_over_sizes(sizes: list[SweepSize], title: str, where: str, ax: Axes | None) -> Axes:
    """Draw a line for each rung: the time of its best choice over the number of items."""
    best: dict[str, dict[int, float]] = {}
    for size in sizes:
        for trial in size.trials:
            times = best.setdefault(trial.rung, {})
            times[size.n] = min(times.get(size.n, trial.seconds), trial.seconds)
    if not best:
        raise ValueError("size: no choice takes any of the sizes; there is nothing to draw")
    points = [(n, 1e6 * each, rung) for rung, times in best.items() for n, each in times.items()]
    ax = _axes(ax, 5.2, title, where)
    _lines(ax, *map(list, zip(*points, strict=True)), log=True)
    if len({size.n for size in sizes}) > 5:
        ax.tick_params("x", labelsize=SMALL, labelrotation=30)
    ax.set_xlabel("items")
    ax.set_ylabel("us, median, the best block")
    return ax
