"""Source text with counters beside its lines: for a terminal, for Jupyter and as JSON."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import PurePath
from typing import Any, NamedTuple

from gpuopt.catalog.rungs import Rung
from gpuopt.observe.counters import BESIDE, Counters, cells, columns
from gpuopt.observe.launches import Launch
from gpuopt.util import texts
from gpuopt.util.serialise import Written
from gpuopt.util.table import Column

CONTEXT = 3  # equal lines that a difference shows beside those that differ, on each side
AROUND = 3  # lines of a listing above and below a line that was executed
WHOLE_MOST = 120  # lines of a file that is listed whole


class SourceLine(NamedTuple):
    """A line of a source file, its number there, its counters, and the file's name."""

    number: int
    text: str
    counters: Counters | None
    file: str = ""


def _not_zero(counters: Counters | None) -> dict[str, int] | None:
    if counters is None or not counters.warp_instructions:
        return None
    return {name: value for name, value in counters.items() if value}


def _widths(shown: list[Column]) -> list[int]:
    return [max(each.least, len(each.title)) + 1 for each in shown]


def _head(shown: list[Column]) -> str:
    pairs = zip(shown, _widths(shown), strict=True)
    return "".join(f"{each.title:>{width}}" for each, width in pairs)


def _beside(counters: Counters | None, shown: list[Column]) -> list[str]:
    """Return the cells of a line's counters, "" for what did not happen."""
    values = cells(counters, [each.key for each in shown])
    return [each.cell(values) for each in shown]


def _row(counters: Counters | None, shown: list[Column]) -> str:
    pairs = zip(_beside(counters, shown), _widths(shown), strict=True)
    return "".join(f"{cell:>{width}}" for cell, width in pairs)


@dataclass(frozen=True)
class Source(Written):
    """A kernel's source; `print` gives it with line numbers, Jupyter with colours.

    Attributes
    ----------
    rung : Rung or None
        None for a user's own kernel.
    file, function : str
        "reduce.cu", and the name of the kernel's function in it.
    lines : list of SourceLine
        (number, text, counters, file). A rung has its row in the table, its function, and the
        function's dependencies, first those in the same file, then those in each header, below a
        line of number 0 with the header's name. The counters are None where nothing was counted,
        and for lines without instructions.
    counted : str
        The run that was counted; "" without counters.
    shown : tuple of str
        The counters beside the lines.

    Notes
    -----
    In the dict of `to_dict`, a line between two definitions, or above a header's, has number 0.
    Counters that are 0 are left out; they are null without annotations, and for lines without
    instructions.

    Examples
    --------
    >>> import gpuopt
    >>> source = gpuopt.source("reduce", 3)
    >>> source.file, source.function
    ('reduce.cu', 'reduce_3')
    """

    KIND = "source"

    rung: Rung | None
    file: str
    function: str
    lines: list[SourceLine] = field(repr=False)
    counted: str = ""
    shown: tuple[str, ...] = BESIDE

    @property
    def text(self) -> str:
        """The lines alone."""
        return "\n".join(each.text for each in self.lines)

    @property
    def title(self) -> str:
        """The file, the family and the rung; of an own kernel its name."""
        if not self.rung:
            return f"{self.file}: {self.function}"
        number = "" if self.rung.number is None or self.rung.historical else f"{self.rung.number} "
        return f"{self.file}: {self.rung.family} rung {number}{self.rung.name}"

    @property
    def columns(self) -> list[Column]:
        """The columns of the counters beside the lines; none without counters."""
        return columns(self.shown) if self.counted else []

    def __repr__(self) -> str:
        """Return the lines with their numbers, and their counters if there are any."""
        lines = [self.title, *([self.counted] if self.counted else []), ""]
        if self.counted:
            lines.append(f"{_head(self.columns)}  line")
        for each in self.lines:
            beside = _row(each.counters, self.columns)
            lines.append(f"{beside}{each.number or '':>6}  {each.text}")
        return "\n".join(text.rstrip() for text in lines)

    def _told(self) -> dict[str, Any]:
        return {
            "family": self.rung.family if self.rung else None,
            "variant": self.rung.variant if self.rung else None,
            "lesson": self.rung.lesson if self.rung else "",
            "title": self.title,
            "file": self.file,
            "function": self.function,
            "counted": self.counted,
            "lines": [
                {
                    "number": each.number,
                    "text": each.text,
                    "counters": _not_zero(each.counters),
                    "file": each.file,
                }
                for each in self.lines
            ],
        }

    def _repr_html_(self) -> str:
        rows = [_html_row(each, code, self.columns) for each, code in _coloured(self.lines)]
        return _html(self.title, self.counted, _html_head(self.columns), rows)


@dataclass(frozen=True)
class Diff(Written):
    """The difference between two rungs; `print` and Jupyter show a unified diff.

    Attributes
    ----------
    before, after : Source

    Notes
    -----
    A change in the dict of `to_dict` is [kind, first and last line before, first and last line
    after], where the kind is "equal", "replace", "delete" or "insert", and lines are counted from 0
    in the sources' "lines", the last one exclusive.

    Examples
    --------
    >>> import gpuopt
    >>> unified = gpuopt.diff("transpose", "shared", "padded").unified
    >>> [line for line in unified.splitlines() if line.startswith("+    ")][-1]
    '+    transpose_tile<1>(in, out, rows, columns, layer);'
    """

    KIND = "diff"

    before: Source
    after: Source

    @property
    def unified(self) -> str:
        """The difference in the format of `diff -u`."""
        texts = [[each.text for each in side.lines] for side in (self.before, self.after)]
        names = self.before.title, self.after.title
        lines = difflib.unified_diff(*texts, *names, lineterm="")
        return "\n".join(text.rstrip() for text in lines)

    def _told(self) -> dict[str, Any]:
        return {
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "unified": self.unified,
            "changes": [[tag, [a1, a2], [b1, b2]] for tag, a1, a2, b1, b2 in self._opcodes()],
        }

    def _opcodes(self) -> list[tuple[str, int, int, int, int]]:
        texts = [[each.text for each in side.lines] for side in (self.before, self.after)]
        return difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes()

    def _rows(self) -> Iterator[tuple[str, list[int], list[int]]]:
        """Return (kind, lines before, lines after) of each group of lines."""
        for tag, a1, a2, b1, b2 in self._opcodes():
            yield tag, list(range(a1, a2)), list(range(b1, b2))

    def __repr__(self) -> str:
        """Return the unified diff, with counters beside the lines if there are any."""
        if not self.before.counted:
            return self.unified
        shown = [f"--- {self.before.title}", f"+++ {self.after.title}", self.after.counted, ""]
        shown.append(f" {_head(self.after.columns)}  line")
        for tag, old, new in self._rows():
            sides = [("-", self.before, old), ("+", self.after, new)]
            for sign, side, numbers in sides if tag != "equal" else [(" ", self.after, new)]:
                for each in (side.lines[number] for number in numbers):
                    beside = _row(each.counters, side.columns)
                    shown.append(f"{sign}{beside}{each.number or '':>6}  {each.text}")
        return "\n".join(text.rstrip() for text in shown)

    def _repr_html_(self) -> str:
        columns = self.after.columns
        old, new = list(_coloured(self.before.lines)), list(_coloured(self.after.lines))
        rows = []
        groups = list(self._rows())
        for at, (tag, left, right) in enumerate(groups):
            if tag == "equal":
                first = CONTEXT if at else 0
                last = len(right) - (CONTEXT if at < len(groups) - 1 else 0)
                shown = [_html_row(*new[number], columns) for number in right]
                if last - first > 1:
                    note = _html_note(f"⋮ {last - first} equal lines", columns)
                    shown[first:last] = [note]
                rows += shown
                continue
            rows += [_html_row(*old[number], columns, "-", "#ffe3d1") for number in left]
            rows += [_html_row(*new[number], columns, "+", "#d6ecfa") for number in right]
        title = f"{self.before.title} → {self.after.title}"
        return _html(title, self.after.counted, _html_head(columns), rows)


# --- HTML: its own light background, because a theme cannot be known


def _coloured(lines: list[SourceLine]) -> Iterator[tuple[SourceLine, str]]:
    """Return the lines with their text as HTML, highlighted if pygments is installed."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import CppLexer
    except ImportError:
        for each in lines:
            yield each, escape(each.text)
        return
    text = "\n".join(each.text for each in lines)
    formatter = HtmlFormatter(nowrap=True, noclasses=True)
    code = highlight(text, CppLexer(stripnl=False, ensurenl=False), formatter)
    # Converters of notebooks drop elements that hold nothing but spaces.
    code = re.sub(r"<span[^>]*>(\s+)</span>", r"\1", code).split("\n")
    code += [""] * (len(lines) - len(code))
    yield from zip(lines, code, strict=False)


_CELL = "padding:0 6px;text-align:left;border:none;vertical-align:top"
_NUMBER = (
    "padding:0 6px;white-space:pre;text-align:right;border:none;color:#5c5c5c;vertical-align:top"
)
# A long line wraps; the first line's indent is negative, so that the rest stands further right.
_CODE = (
    "margin:0;padding:0 0 0 4ch;min-width:32ch;text-indent:-4ch;white-space:pre-wrap;"
    "overflow-wrap:anywhere;"
    "font:inherit;color:inherit;background:none"
)


def _html_row(
    each: SourceLine, code: str, shown: list[Column], sign: str = " ", colour: str = ""
) -> str:
    back = f";background:{colour}" if colour else ""
    cells = [f'<td style="{_NUMBER}">{cell}</td>' for cell in _beside(each.counters, shown)]
    cells.append(f'<td style="{_NUMBER}">{each.number or ""}</td>')
    cells.append(f'<td style="{_CELL}{back}"><pre style="{_CODE}">{sign} {code}</pre></td>')
    return f"<tr>{''.join(cells)}</tr>"


def _html_note(text: str, shown: list[Column]) -> str:
    span = 2 + len(shown)
    return f'<tr><td colspan="{span}" style="{_CELL};color:#5c5c5c">{escape(text)}</td></tr>'


def _html_head(shown: list[Column]) -> str:
    names = [*(each.title for each in shown), "line", ""]
    cells = "".join(f'<th style="{_NUMBER}">{name}</th>' for name in names)
    return f"<tr>{cells}</tr>"


def _html(title: str, counted: str, head: str, rows: list[str]) -> str:
    note = f"<div>{escape(counted)}</div>" if counted else ""
    return (
        '<div style="background:#fff;color:#1b1b1b;padding:8px;overflow-x:auto">'
        f"<b>{escape(title)}</b>{note}"
        '<table style="border-collapse:collapse;font:12px/1.35 Menlo,Consolas,monospace;'
        f'color:#1b1b1b;background:#fff">{head}{"".join(rows)}</table></div>'
    )


def listing(launches: list[Launch], ptx: bool) -> tuple[str, list[SourceLine]]:
    """Return the file's name and the lines of a kernel, with the counters of some launches."""
    sources = {name: text for each in launches for name, text in each.sources.items()}
    if not ptx:
        sums: dict[str, dict[int, Counters]] = {}
        for each in (line for launch in launches for line in launch.lines):
            lines = sums.setdefault(each.file or "", {})
            lines[each.line] = lines.get(each.line, Counters()) + each.counters
        known = {file: lines for file, lines in sums.items() if texts.lines(file, sources)}
        if known:
            return _files(known, sources)
    statements: dict[tuple[int, int], SourceLine] = {}
    for launch in launches:
        for at, each in enumerate(launch.statements):
            key, counted = (each.ptx_line, at), each.counters
            if key in statements:
                counted += statements[key].counters or Counters()
            statements[key] = SourceLine(each.ptx_line, each.text, counted, "PTX")
    return "PTX", [statements[key] for key in sorted(statements)]


def _files(
    counted: dict[str, dict[int, Counters]], sources: dict[str, list[str]]
) -> tuple[str, list[SourceLine]]:
    """Return the name of the file with most of the work, and the lines of all files.

    A long file is cut to the lines around those that were executed.
    """
    ranked = sorted(
        counted, key=lambda file: -sum(each.warp_instructions for each in counted[file].values())
    )
    shown: list[SourceLine] = []
    for file in ranked:
        text, lines, name = texts.lines(file, sources), counted[file], PurePath(file).name
        if file != ranked[0]:
            shown += [SourceLine(0, "", None, name), SourceLine(0, f"// --- {name}", None, name)]
        whole = range(1, len(text) + 1) if len(text) <= WHOLE_MOST else ()
        near = {*whole} | {
            number
            for line in lines
            for number in range(line - AROUND, line + AROUND + 1)
            if 0 < number <= len(text)
        }
        before = None
        for number in sorted(near):
            if before and number > before + 1:
                shown.append(SourceLine(0, "...", None, name))
            shown.append(SourceLine(number, text[number - 1], lines.get(number), name))
            before = number
    return PurePath(ranked[0]).name, shown
