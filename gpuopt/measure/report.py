"""One page about a device: its ceilings, every ladder, and what the ladders' kernels do.

A page is a single HTML file that asks no network for anything: style, plots and pictures are in it.
It follows the reader's light or dark theme; wide tables and plots scroll in boxes of their own.
"""

from __future__ import annotations

import html as _html
import io
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from gpuopt import _core
from gpuopt.catalog.devices import Device, describe, device_name
from gpuopt.families import cases
from gpuopt.measure.ladder import ladder
from gpuopt.measure.ladder_result import Ladder
from gpuopt.measure.roofline import Point, Roofline, roofline
from gpuopt.observe.profile import Profile
from gpuopt.observe.trace import trace
from gpuopt.show import ladder_table, plots, terminal
from gpuopt.util import files
from gpuopt.util.checks import names
from gpuopt.util.literals import DeviceName
from gpuopt.util.names import suggests, unknown_name
from gpuopt.util.serialise import UNTOLD, Result
from gpuopt.util.svg import Picture
from gpuopt.util.table import Column, Table

FAMILIES = tuple(cases.FAMILIES)
ENDINGS = (".html", ".htm")
QUICK_ROUNDS = 3
# The pictures of a trace that show the subject of a family's ladder.
PICTURES: dict[str, tuple[tuple[int | str, str], ...]] = {
    "reduce": ((1, "tree"), (2, "banks"), (3, "tree")),
    "transpose": (("2d", "coalescing"), ("shared", "banks"), ("padded", "banks")),
    "stencil1d": (("shared", "tile"),),
}
# matplotlib's colours in show/plots.py, and the page's in their place.
COLOURS = {"1a1a1a": "ink", "000000": "ink", "595959": "strong", "737373": "soft",
            "cccccc": "rule", "ffffff": "paper"}  # fmt: skip

THEME = """
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1a1a1a;--strong:#595959;--soft:#5c5c5c;
--rule:#cccccc;--band:#f5f5f5;--link:#0b5cad}
@media screen and (prefers-color-scheme:dark){:root{--paper:#17191c;--ink:#ececec;--strong:#b8b8b8;
--soft:#b0b0b0;--rule:#4a4e54;--band:#202327;--link:#7cb8f5}}
"""
_STYLE = (
    THEME
    + """*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 Helvetica,Arial,'DejaVu Sans',sans-serif}
main{max-width:62rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
a{color:var(--link)}
nav a{margin-right:1rem;white-space:nowrap}
p,dd,li,figcaption,pre{overflow-wrap:anywhere}
.note,figcaption{color:var(--soft);font-size:.875rem}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.875rem}
th,td{padding:.2rem .6rem;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left}
thead th{white-space:normal;border-bottom:1px solid var(--rule);vertical-align:bottom}
tbody tr:nth-child(even){background:var(--band)}
.code tbody tr:nth-child(even){background:none}
figure{margin:1rem 0}
figure svg{display:block;width:100%;height:auto;min-width:40rem}
.plot svg{fill:currentColor;max-width:54rem}
dt{font-weight:bold;margin-top:.6rem}
dd{margin:0}
dd.changed{color:var(--soft);font-size:.875rem}
pre{overflow-x:auto;font-size:.8rem}
@page{margin:1.5cm}
@media print{main{max-width:none;padding:0}.scroll{overflow:visible}figure svg{min-width:0}
figure,tr,dt,dd{break-inside:avoid}h2,h3{break-after:avoid}table{font-size:.65rem}
th,td{padding:.1rem .3rem;white-space:normal}nav{display:none}}
"""
)

_COUNTED = (
    Column("warp_instructions", "warp instructions"),
    Column("warp_efficiency", "lanes active", ".0%"),
    Column("divergent_branches", "divergent branches"),
    Column("bank_conflicts", "bank conflicts"),
    Column("wavefronts", "shared wavefronts"),
    Column("barriers", "barriers"),
    Column("transactions_per_load", "{unit}s per load", ".1f"),
    Column("transactions_per_store", "{unit}s per store", ".1f"),
)


@dataclass
class Report(Result):
    """A device measured from its ceilings to its ladders; Jupyter shows it, `save` writes it.

    Attributes
    ----------
    roofline : Roofline
        Its ceilings, with the timed rungs placed under them.
    ladders : list of Ladder
        One for each family; without a GPU two, of the cpu's times and of the simulated GPU's
        counters.
    pictures : dict of str to list of (str, Picture)
        By family: what a rung did, recorded by the simulated GPU, each with a line about it.
    date, version : str
        When it was made, by which gpuopt.
    profiles : list of Profile
        Those of the user's own kernels.

    Examples
    --------
    >>> import gpuopt
    >>> made = gpuopt.report("sim:m2090", quick=True, families=["saxpy"])
    >>> made.html().startswith("<!DOCTYPE html>")
    True
    >>> [each.family for each in made.ladders]
    ['saxpy']
    """

    KIND = "report"

    roofline: Roofline
    ladders: list[Ladder]
    pictures: dict[str, list[tuple[str, Picture]]] = field(default_factory=dict, metadata=UNTOLD)
    date: str = ""
    version: str = ""
    profiles: list[Profile] = field(default_factory=list, metadata=UNTOLD)

    @property
    def device(self) -> Device:
        """The device that the ceilings are of."""
        return self.roofline.device

    def html(self) -> str:
        """Return the page: a complete HTML document that needs nothing else."""
        title = f"gpuopt report: {self.device.description}"
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<title>{_html.escape(title)}</title><style>{_STYLE}</style></head>"
            f"<body><main><h1>{_html.escape(title)}</h1>{self._body()}</main></body></html>\n"
        )

    def _body(self) -> str:
        families = list(dict.fromkeys(each.family for each in self.ladders))
        links = " ".join(f'<a href="#{each}">{each}</a>' for each in families)
        about = f"made {self.date[:16].replace('T', ' ')} UTC by gpuopt {self.version}"
        summary = "".join(f"<p>{_html.escape(each)}</p>" for each in self.summary())
        how = _HOW if families else _HOW_OWN
        sections = [_about(self.roofline), *map(self._family, families), _own(self.profiles)]
        if not families:  # the page is about the user's kernels
            sections.reverse()
        return (
            f'<p class="note">{_html.escape(about)}</p>{summary}'
            f'<p class="note">{_html.escape(how)}</p>'
            f'<nav><a href="#device">device</a> {links} <a href="#own">your kernels</a></nav>'
            + "".join(sections)
        )

    def summary(self) -> list[str]:
        """Return three sentences: the subject, the best ladder, and what limits the rungs."""
        families = dict.fromkeys(each.family for each in self.ladders)
        first = (
            f"This page measures {self.device.description}: its ceilings, and the ladders of "
            f"{', '.join(families)}, whose rungs compute the same result, each in another way."
        )
        best = _best(self.ladders)
        if not families:
            first = (
                f"This page is about kernels of your own, and the ceilings of "
                f"{self.device.description}."
            )
            best = " ".join(map(_least, self.profiles))
        return [first, *filter(None, (best, _limits(self.roofline)))]

    def _family(self, family: str) -> str:
        found = [each for each in self.ladders if each.family == family]
        parts = [f'<section id="{family}"><h2>{family}</h2>', *map(_ladder, found)]
        for sentence, picture in self.pictures.get(family, []):
            parts.append(_figure(picture.svg, sentence))
        return "".join(parts) + "</section>"

    def _repr_html_(self) -> str:
        # In a frame: the page's style is not the notebook's.
        return (
            f'<iframe srcdoc="{_html.escape(self.html())}" style="width:100%;height:80vh;border:0" '
            f'title="gpuopt report"></iframe>'
        )

    def __repr__(self) -> str:
        """Return the ceilings and the ladders as text."""
        return "\n\n\n".join(str(each) for each in (self.roofline, *self.ladders))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path
            Ends in ".html".

        Raises
        ------
        ValueError
            Another ending.
        OSError
            The file cannot be written.
        """
        files.check(path, "path", *ENDINGS)
        files.write(path, self.html())


_HOW = (
    "Every rung's result was checked before it was timed and again after it. Warm: the same data "
    "each time, which a cache may hold; cold: other data each time, from memory. Counters are of "
    "the same compiled kernels on the simulated GPU, under Nsight Compute's definitions; its "
    "instructions are PTX's."
)


_HOW_OWN = (
    "Counters are of the compiled kernel on the simulated GPU, under Nsight Compute's definitions; "
    "instructions are PTX's. Least times follow from the datasheet; a real run takes longer."
)


# --- the findings


def _least(own: Profile) -> str:
    """Return a sentence about what a profiled kernel costs at least."""
    bounds = own.bounds()
    if not bounds.launches:
        return ""
    longest = max(bounds.launches, key=lambda each: each.least)
    return (
        f"{longest.kernel} executes {own.counters.warp_instructions:,} warp instructions and takes "
        f"at least {longest.least * 1e6:,.3g} us on {bounds.device}, bound by {longest.by}."
    )


def _best(ladders: list[Ladder]) -> str:
    """Return a sentence about the ladder whose rungs gain most."""
    gains = []
    for each in ladders:
        rows = [row for row in each.rows if not row.rung.ceiling]
        if len(rows) < 2:
            continue
        cost = _seconds if each.timed else _instructions
        best = min(rows, key=cost)
        gains.append((each.timed, cost(rows[0]) / cost(best), each, rows[0], best))
    if not gains:
        return ""
    timed, gain, ladder_, first, best = max(gains, key=lambda found: found[:2])
    names = ladder_table.label(best.rung), ladder_table.label(first.rung)
    if not timed:
        return (
            f"The largest step: rung {names[0]} of {ladder_.family} executes {gain:.1f} times "
            f"fewer warp instructions than rung {names[1]} ({ladder_.title})."
        )
    moved = best.algorithm_bytes / _seconds(best)
    share = ""
    if not ladder_.flops:
        share = f"; it reaches {moved / ladder_.copy_bandwidth:.0%} of a plain copy's bandwidth"
    return (
        f"The largest step: rung {names[0]} of {ladder_.family} takes "
        f"{_seconds(best) * 1e6:,.1f} us for the {ladder_.title}, {gain:.1f} times less than "
        f"rung {names[1]}{share}."
    )


def _seconds(row: Any) -> float:
    return (row.cold if row.cold.samples else row.warm).median


def _instructions(row: Any) -> float:
    return row.counted.counters.warp_instructions if row.counted else math.inf


def _limits(roof: Roofline) -> str:
    """Return a sentence about what binds the rungs, or about the ceilings."""
    bounds = [roof.bound(each) for each in roof.points]
    if not bounds:
        return (
            f"Its memory and its arithmetic meet at {roof.ridge():.3g} operations per byte: a "
            "kernel that does less per byte is bound by memory."
        )
    memory = [each for each in bounds if each.unit == "B/s"]
    best = max(bounds, key=lambda each: each.share)
    return (
        f"Memory bounds {len(memory)} of the {len(bounds)} timed rungs; {best.kernel} comes "
        f"closest to its bound, {best.share:.0%} of {best.ceiling}."
    )


# --- the parts of the page


_ADD = """profile = gpuopt.profile(kernel, grid, block, *arguments)
gpuopt.report(profiles=[profile]).save("report.html")"""


def _own(profiles: list[Profile]) -> str:
    """Return the section about the user's kernels; without any, how to add them."""
    parts = ['<section id="own"><h2>Your kernels</h2>']
    if not profiles:
        parts.append(
            "<p>None was given. Kernels of <code>gpuopt.compile</code> or <code>load_ptx</code> "
            f"stand here after:</p><pre>{_html.escape(_ADD)}</pre><p>The command <code>report "
            "kernel.cu</code> makes a page about one kernel of a file.</p>"
        )
    for each in profiles:
        parts.append(f'<div class="scroll" tabindex="0">{each._repr_html_()}</div>')
        if each.launches:
            parts.append(f'<div class="scroll" tabindex="0">{each.bounds()._repr_html_()}</div>')
            listing = each.source()._repr_html_()
            parts.append(f'<div class="scroll code" tabindex="0">{listing}</div>')
    return "".join(parts) + "</section>"


def _figure(svg: str, caption: str) -> str:
    return (
        f'<figure><div class="scroll" tabindex="0">{svg}</div>'
        f"<figcaption>{_html.escape(caption)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    return f'<div class="scroll" tabindex="0">{table.html(styled=False)}</div>'


def _drawn(draw: Callable[[], Any], caption: str) -> str:
    """Return a plot as matplotlib's SVG; no figure of it stays open, also of one that failed."""
    plt = plots.pyplot()
    before = plt.get_fignums()
    try:
        with plt.rc_context({"svg.fonttype": "path", "svg.hashsalt": caption}):
            text = io.StringIO()
            draw().figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    finally:
        for number in set(plt.get_fignums()).difference(before):
            plt.close(number)
    return text.getvalue()


def _plot(draw: Callable[[], Any], caption: str) -> str:
    """Return a plot in the page's colours; without matplotlib, what to install."""
    try:
        svg = _drawn(draw, caption)
    except ImportError as error:
        return f'<p class="note">{_html.escape(str(error))}</p>'
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # An id is the page's, not the drawing's: two drawings may have the same one.
    mark = re.sub(r"\W+", "-", caption)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{mark}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{mark}-", svg)
    for colour, name in COLOURS.items():
        svg = svg.replace(f"#{colour}", f"var(--{name})")
    label = f'<svg role="img" aria-label="{_html.escape(caption)}" '
    svg = svg.replace("<svg ", label, 1)  # its caption is the heading above it
    return f'<figure class="plot"><div class="scroll" tabindex="0">{svg}</div></figure>'


def _about(roof: Roofline) -> str:
    how = "the datasheet's" if roof.source == "datasheet" else f"measured {roof.date[:10]}"
    quick = ", with less data and fewer samples" if roof.quick and roof.source == "measured" else ""
    driver = f", driver {roof.driver}" if roof.driver else ""
    bounds = "".join(f"<li>{_html.escape(str(roof.bound(each)))}</li>" for each in roof.points)
    bounds = (
        f"<h3>What binds each rung (the plot has the fastest of each ladder)</h3><ul>{bounds}</ul>"
        if bounds
        else ""
    )
    return (
        f'<section id="device"><h2>Device and ceilings</h2>'
        f"<p>{_html.escape(describe(roof.device) + driver)}</p>"
        f'<p class="note">Ceilings: {_html.escape(how + quick)}.</p>'
        + _table(terminal.ceilings(roof))
        + _plot(_fastest(roof).plot, f"roofline of {roof.device.description}")
        + f"{bounds}</section>"
    )


def _fastest(roof: Roofline) -> Roofline:
    """Return the roofline with the fastest rung of each ladder: all of them hide one another."""
    best: dict[str, Point] = {}
    for each in sorted(roof.points, key=lambda point: point.seconds):
        best.setdefault(each.name.partition(" ")[0], each)
    return replace(roof, points=list(best.values()))


def _ladder(measured: Ladder) -> str:
    """Return a ladder: title, plot, tables, and each rung's lesson."""
    title = f"{measured.title}{ladder_table.blocks(measured)}, on {measured.device.description}"
    parts = [f"<h3>{_html.escape(title)}</h3>", _plot(measured.plot, title)]
    if measured.timed:
        parts.append(_times(measured))
    if any(row.counted for row in measured.rows):
        parts.append(_counts(measured))
    taught = []
    for row, changed in zip(measured.rows, measured.changes(), strict=True):
        taught.append(
            f"<dt>{_html.escape(ladder_table.label(row.rung))}</dt><dd>{_html.escape(row.rung.lesson)}"
            f"</dd>" + (f'<dd class="changed">{_html.escape(changed)}</dd>' if changed else "")
        )
    for rung, why in measured.refused:
        taught.append(
            f"<dt>{_html.escape(ladder_table.label(rung))}</dt>"
            f"<dd>left out: {_html.escape(why)}</dd>"
        )
    return "".join(parts) + f"<dl>{''.join(taught)}</dl>"


def _times(measured: Ladder) -> str:
    columns = [ladder_table.TITLE, *ladder_table.TIMED, *ladder_table.DECK]
    rate = ladder_table.amount(measured.copy_bandwidth / 1e9)
    notes = [f"A plain copy moves {rate} GB/s, read and written."]
    for each in ladder_table.spread_note(measured):
        notes.append(f"{each[0].upper()}{each[1:]}.")
    return (
        _table(Table(columns, ladder_table.titled(measured)))
        + f'<p class="note">{" ".join(notes)}</p>'
    )


def _counts(measured: Ladder) -> str:
    rows = []
    for row in measured.rows:
        if row.counted:
            counters = row.counted.counters
            derived = (
                "warp_efficiency", "bank_conflicts", "transactions_per_load",
                "transactions_per_store",
            )  # fmt: skip
            rows.append(
                {
                    "title": ladder_table.label(row.rung),
                    **counters,
                    **{name: getattr(counters, name) for name in derived},
                    "wavefronts": counters.shared_load_wavefronts
                    + counters.shared_store_wavefronts,
                }
            )
    columns = ladder_table.counted_columns(_COUNTED, measured)
    table = _table(Table([ladder_table.TITLE, *columns], rows))
    if not measured.counted_title:  # the heading says it
        return table
    return f'<p class="note">Counters of {_html.escape(measured.counted_title)}:</p>{table}'


# --- making it


@suggests
def report(
    device: DeviceName | str | None = None,
    *,
    quick: bool = False,
    families: Iterable[str] | None = None,
    profiles: Iterable[Profile] = (),
    progress: Callable[[str, float], None] = lambda text, share: None,
) -> Report:
    """Measure a device's ceilings and every ladder, for one page with plots and pictures.

    Parameters
    ----------
    device : str, optional
        "cuda", "cuda:1", "cpu", "sim:m2090", ... Default: GPUOPT_DEVICE; else a GPU if there is
        one, else the cpu. On a GPU every rung is timed, and counted by a simulated GPU; on the cpu
        its own rungs are timed and the kernels counted; on a simulated GPU they are counted.
    quick : bool
        Fewer items and samples: less than a minute.
    families : iterable of str, optional
        Ladders to measure: "reduce", "transpose", ... Default: all.
    profiles : iterable of Profile
        Profiles of your own kernels, for a section with their counters, least times and source.
    progress : callable
        Progress callback: message, fraction from 0 to 1.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        An unknown device or family; the message lists them.
    TypeError
        `families` is no list of names, `profiles` no list of profiles.
    VerificationError
        A kernel gave a wrong result.
    DeviceError, DeviceMemoryError
        The device cannot serve.

    Notes
    -----
    The page takes nothing from the network. Without matplotlib (``pip install 'gpuopt[plot]'``) it
    has tables and pictures, and says where plots are missing.

    Examples
    --------
    >>> import gpuopt
    >>> page = gpuopt.report("sim:m2090", quick=True, families=["stencil1d"]).html()
    >>> "bank conflicts" in page and "Tesla M2090" in page
    True
    """
    wanted = FAMILIES if families is None else names(families, "families")
    for each in wanted:
        if each not in FAMILIES:
            raise ValueError(unknown_name("families", each, "a ladder", FAMILIES))
    own = list(profiles)
    for each in own:
        if not isinstance(each, Profile):
            raise TypeError(f"profiles: must be profiles, not {type(each).__name__}")
    name = device_name(device, "cpu")
    kind = name.partition(":")[0]
    devices = [name, "sim"] if kind == "cpu" else [name]
    steps = 1 + len(wanted) * len(devices)
    done = 0

    def inner(text: str, share: float) -> None:
        progress(text, min(1.0, (done + share) / steps))

    roof = roofline(name, quick=quick, progress=inner)
    made = Report(
        roof, [], date=datetime.now(UTC).isoformat(timespec="seconds"), version=_core.__version__,
        profiles=own,
    )  # fmt: skip
    for family in wanted:
        for each in devices:
            done += 1
            made.ladders.append(_measure(family, each, quick, inner))
            if made.ladders[-1].timed:
                roof.add(made.ladders[-1])
        made.pictures[family] = _pictures(family, name if kind == "sim" else "sim")
    return made


def _measure(
    family: str, device: str, quick: bool, progress: Callable[[str, float], None]
) -> Ladder:
    at = ("cuda", "cpu", "sim").index(device.partition(":")[0])
    return ladder(
        family,
        cases.FAMILIES[family].quick[at] if quick else None,
        device=device,
        progress=lambda text, share: progress(f"{family}: {text}", share),
        **({"rounds": QUICK_ROUNDS} if quick else {}),
    )


def _pictures(family: str, device: str) -> list[tuple[str, Picture]]:
    found = []
    for variant, kind in PICTURES.get(family, ()):
        traced = trace(family, variant, device=device)
        where = f"{traced.title}, {kind}: recorded on a {traced.gpu.description}, {traced.where}"
        found.append((where, getattr(traced, kind)()))
    return found
