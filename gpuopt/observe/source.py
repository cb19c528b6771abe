"""The rungs' source and the differences between rungs, with counters beside the lines.

The extension embeds the text that its kernels were compiled from.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import PurePath
from typing import Any, NamedTuple

from gpuopt.catalog.rungs import Rung, find
from gpuopt.families import cases
from gpuopt.observe.profile import Counters, profile
from gpuopt.util.texts import embedded

FORMAT = 1  # the version of to_dict's format
REDUCE_ITEMS = 1 << 14  # elements of the run whose counters annotate a source
_HEADINGS = ("warp instr.", "divergent", "conflicts", "sectors/req.")
_WIDTHS = (12, 10, 10, 13)
_NO_CODE = re.compile(r'("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\')|//.*|/\*.*?\*/')
_WORD = re.compile(r"[A-Za-z_]\w*")
_INCLUDE = re.compile(r'^#include "([^"]+\.(?:h|cuh))"', re.M)


# --- the files, and the definitions in them


class _Definition(NamedTuple):
    """A top-level definition of a file: its comment from line `first`, its code up to `last`."""

    name: str
    first: int
    code: int
    last: int


def _bare(text: str) -> str:
    """Return a line's code: no comments, empty strings."""
    return _NO_CODE.sub(lambda found: '""' if found[1] else "", text).strip()


def _name(header: str) -> str:
    """Return the name that a definition's head defines."""
    while header.startswith("template"):
        depth, end = 1, header.index("<") + 1
        while depth and end < len(header):
            depth += {"<": 1, ">": -1}.get(header[end], 0)
            end += 1
        header = header[end:].lstrip()
    kept = re.sub(r"__(launch_bounds|align|attribute)__\s*\([^)]*\)", "", header)
    types = re.match(r"(?:static )?(?:struct|enum|union|using)\s+(\w+)\s*[{:=<;]", kept)
    if types:
        return types[1]
    before, _, _ = kept.partition("(" if "(" in kept else "=")
    words = _WORD.findall(before.split("[")[0].split("<")[0] if "(" not in kept else before)
    return words[-1] if words else ""


@cache
def _definitions(file: str) -> tuple[_Definition, ...]:
    """Split a file into its top-level definitions."""
    lines = embedded()[file]
    found: list[_Definition] = []
    comment = 0  # the first line of the comment above
    at = 0
    while at < len(lines):
        text = lines[at]
        if text.startswith("/*"):
            comment = comment or at + 1
            while "*/" not in lines[at]:
                at += 1
        elif text.startswith("//"):
            comment = comment or at + 1
        elif not text.strip() or text.startswith(("}", "namespace", " ")):
            comment = 0
        elif text.startswith("#"):
            while lines[at].endswith("\\"):
                at += 1
            comment = 0
        else:
            first, depth, code = at, 0, []
            while True:
                bare = _bare(lines[at])
                depth += sum({"{": 1, "(": 1, "}": -1, ")": -1}.get(each, 0) for each in bare)
                code.append(bare)
                if at + 1 == len(lines) or (not depth and bare.endswith(("}", ";", ")"))):
                    break
                at += 1
            header = " ".join(code)
            brace = header.find("{")
            name = _name(header if brace < 0 else header[: brace + 1])
            found.append(_Definition(name, comment or first + 1, first + 1, at + 1))
            comment = 0
        at += 1
    return tuple(found)


def _base(rung: Rung) -> str:
    """Return the name in the rung's row: its symbol without operation, types and block."""
    op, items, accumulator = rung.signatures[0]
    return rung.kernels[0].split(f"_{op}_{items}_{accumulator}")[0]


def _row(rung: Rung) -> tuple[str, _Definition]:
    """Return the file and the line of the rung's row."""
    wanted = re.compile(rf'^RUNG\([^"]*"{re.escape(rung.name)}",\s*"{re.escape(_base(rung))}"')
    for file, lines in embedded().items():
        for each in _definitions(file):
            if wanted.match("\n".join(lines[each.code - 1 : each.last])):
                return file, each._replace(first=each.code)
    raise LookupError(f"rung {rung.variant!r} of {rung.family} has no row in the embedded sources")


def _function(rung: Rung, file: str) -> str:
    """Return the name of the rung's function."""
    base, names = _base(rung), {each.name for each in _definitions(file)}
    if rung.host:  # the table of kernels says which function runs one
        found = re.search(rf'"{re.escape(base)}_[^,]*,\s*(\w+)', "\n".join(embedded()[file]))
        return found[1] if found else ""
    text = "\n".join(embedded()[file])
    # MACRO(name, threads, function(...)) where a kernel only calls one
    called = re.search(rf"^[A-Z_]+\({base.removeprefix(rung.family + '_')}, \w+, (\w+)", text, re.M)
    known = (base, rung.kernels[0], called[1] if called else "")
    return next((each for each in known if each in names), "")


@cache
def _with_headers(file: str) -> tuple[str, ...]:
    """Return a file and the embedded files that it includes, directly or not."""
    found = {file: None}
    for name in _INCLUDE.findall("\n".join(embedded()[file])):
        if (header := PurePath(name).name) in embedded():
            found.update(dict.fromkeys(_with_headers(header)))
    return tuple(found)


@cache
def _words(file: str) -> tuple[tuple[_Definition, frozenset[str]], ...]:
    """Return a file's definitions, each with the words of its code."""
    lines = embedded()[file]
    return tuple(
        (each, frozenset(_WORD.findall("\n".join(map(_bare, lines[each.code - 1 : each.last])))))
        for each in _definitions(file)
    )


def _needed(file: str, function: str) -> dict[str, list[_Definition]]:
    """Return a function's definition and its dependencies by file, in the files' order."""
    every = {name: _words(name) for name in _with_headers(file)}
    known = [pair for pairs in every.values() for pair in pairs]
    names = {each.name for each, _ in known}
    wanted, new = {function}, {function}
    while new:
        new = names & {word for each, words in known if each.name in new for word in words} - wanted
        wanted |= new
    return {
        name: [each for each, _ in pairs if each.name in wanted] for name, pairs in every.items()
    }


# --- results


class SourceLine(NamedTuple):
    """A line of a source file, its number there, its counters, and the file's name."""

    number: int
    text: str
    counters: Counters | None
    file: str = ""


def _cells(counters: Counters | None) -> tuple[str, str, str, str]:
    """Return the table cells of a line's counters."""
    if counters is None or not counters.warp_instructions:
        return "", "", "", ""
    requests = counters.global_load_requests + counters.global_store_requests
    sectors = counters.global_load_sectors + counters.global_store_sectors
    return (
        f"{counters.warp_instructions:,}",
        f"{counters.divergent_branches:,}" if counters.divergent_branches else "",
        f"{counters.bank_conflicts:,}" if counters.bank_conflicts else "",
        f"{sectors / requests:.1f}" if requests else "",
    )


def _not_zero(counters: Counters | None) -> dict[str, int] | None:
    if counters is None or not counters.warp_instructions:
        return None
    return {name: value for name, value in counters.items() if value}


def _columns(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))


@dataclass(frozen=True)
class Source:
    """A rung's source; `print` gives it with line numbers, Jupyter with colours.

    Attributes
    ----------
    rung : Rung
    file, function : str
        "reduce.cu", and the name of the rung's function in it.
    lines : list of SourceLine
        (number, text, counters, file): the rung's row in the table, its function, and the
        function's dependencies, first those in the same file, then those in each header, below a
        line of number 0 with the header's name. The counters are None without ``annotate=True``,
        and for lines without instructions.
    counted : str
        The run that was counted; "" without counters.

    Examples
    --------
    >>> import gpuopt
    >>> source = gpuopt.source("reduce", 3)
    >>> source.file, source.function
    ('reduce.cu', 'reduce_3')
    """

    rung: Rung
    file: str
    function: str
    lines: list[SourceLine] = field(repr=False)
    counted: str = ""

    @property
    def text(self) -> str:
        """The lines alone."""
        return "\n".join(each.text for each in self.lines)

    @property
    def title(self) -> str:
        """The file, the family and the rung."""
        number = "" if self.rung.number is None or self.rung.historical else f"{self.rung.number} "
        return f"{self.file}: {self.rung.family} rung {number}{self.rung.name}"

    def __repr__(self) -> str:
        """Return the lines with their numbers, and their counters if there are any."""
        shown = [self.title, *([self.counted] if self.counted else []), ""]
        if self.counted:
            shown.append(f"{_columns(_HEADINGS)}  line")
        for each in self.lines:
            beside = _columns(_cells(each.counters)) if self.counted else ""
            shown.append(f"{beside}{each.number or '':>6}  {each.text}")
        return "\n".join(text.rstrip() for text in shown)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts, for JSON.

        A line between two definitions, or above a header's, has number 0. Counters that are 0 are
        left out; they are null without annotations, and for lines without instructions.
        """
        return {
            "kind": "source",
            "format": FORMAT,
            "family": self.rung.family,
            "variant": self.rung.variant,
            "lesson": self.rung.lesson,
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
        rows = [_html_row(each, code, bool(self.counted)) for each, code in _coloured(self.lines)]
        head = _html_head(bool(self.counted))
        return _html(self.title, self.counted, head, rows)


@dataclass(frozen=True)
class Diff:
    """The difference between two rungs; `print` and Jupyter show a unified diff.

    Attributes
    ----------
    before, after : Source

    Examples
    --------
    >>> import gpuopt
    >>> unified = gpuopt.diff("transpose", "shared", "padded").unified
    >>> [line for line in unified.splitlines() if line.startswith("+    ")][-1]
    '+    transpose_tile<1>(in, out, rows, columns, layer);'
    """

    before: Source
    after: Source

    @property
    def unified(self) -> str:
        """The difference in the format of `diff -u`."""
        texts = [[each.text for each in side.lines] for side in (self.before, self.after)]
        names = self.before.title, self.after.title
        lines = difflib.unified_diff(*texts, *names, lineterm="")
        return "\n".join(text.rstrip() for text in lines)

    def to_dict(self) -> dict[str, Any]:
        """Return both sources and the changes between them, for JSON.

        A change is [kind, first and last line before, first and last line after], where the kind is
        "equal", "replace", "delete" or "insert", and lines are counted from 0 in the sources'
        "lines", the last one exclusive.
        """
        return {
            "kind": "diff",
            "format": FORMAT,
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
        shown.append(f" {_columns(_HEADINGS)}  line")
        for tag, old, new in self._rows():
            sides = [("-", self.before, old), ("+", self.after, new)]
            for sign, side, numbers in sides if tag != "equal" else [(" ", self.after, new)]:
                for each in (side.lines[number] for number in numbers):
                    beside = _columns(_cells(each.counters))
                    shown.append(f"{sign}{beside}{each.number or '':>6}  {each.text}")
        return "\n".join(text.rstrip() for text in shown)

    def _repr_html_(self) -> str:
        counted = bool(self.before.counted)
        old, new = list(_coloured(self.before.lines)), list(_coloured(self.after.lines))
        rows = []
        for tag, left, right in self._rows():
            if tag == "equal":
                rows += [_html_row(*new[number], counted) for number in right]
                continue
            rows += [_html_row(*old[number], counted, "-", "#ffe3d1") for number in left]
            rows += [_html_row(*new[number], counted, "+", "#d6ecfa") for number in right]
        title = f"{self.before.title} → {self.after.title}"
        return _html(title, self.after.counted, _html_head(counted), rows)


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
    "margin:0;padding:0 0 0 4ch;text-indent:-4ch;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font:inherit;color:inherit;background:none"
)


def _html_row(each: SourceLine, code: str, counted: bool, sign: str = " ", colour: str = "") -> str:
    back = f";background:{colour}" if colour else ""
    cells = [f'<td style="{_NUMBER}">{cell}</td>' for cell in _cells(each.counters)] * counted
    cells.append(f'<td style="{_NUMBER}">{each.number or ""}</td>')
    cells.append(f'<td style="{_CELL}{back}"><pre style="{_CODE}">{sign} {code}</pre></td>')
    return f"<tr>{''.join(cells)}</tr>"


def _html_head(counted: bool) -> str:
    names = [*(_HEADINGS if counted else ()), "line", ""]
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


# --- the functions


def _counters(rung: Rung) -> tuple[dict[tuple[str, int], Counters], str]:
    """Count a run of the rung on the simulated GPU; return the counters by line, and its title."""
    if rung.host:
        raise ValueError(
            f"annotate: rung {rung.variant!r} of {rung.family} runs on the cpu, which counts "
            f"nothing; leave annotate out"
        )
    if rung.family not in cases.FAMILIES:
        raise ValueError(
            f"annotate: {rung.family} is not counted; use one of {', '.join(cases.FAMILIES)}"
        )
    items = REDUCE_ITEMS if rung.family == "reduce" else None
    if rung.name == "threads":
        items = 1024  # one block, of at most 1,024 threads
    radius = 16 if rung.name == "shared-sums" else None  # 3 is rung 4's
    case = cases.make(rung.family, items, radius=radius)
    counted = profile(_collect, case, rung)
    lines = {
        (PurePath(path).name, number): counters
        for (path, number), counters in counted.by_line().items()
    }
    return lines, f"counted on a simulated H200: {case.title}"


def _collect(case: cases.Case, rung: Rung) -> object:
    return case.call(rung, None, "sim")


def source(family: str, variant: int | str | None = None, *, annotate: bool = False) -> Source:
    """Return a rung's source: its row in the table, its function and the function's dependencies.

    Parameters
    ----------
    family : str
        "reduce", "transpose", "stencil1d", "add", "saxpy", "matmul" or "roofline".
    variant : int or str, optional
        The rung, by number or name; also one of the cpu's, which is C. Default: the best
        kernel for many elements.
    annotate : bool
        Count a run on the simulated GPU, and show beside each line its warp instructions,
        divergent branches, bank conflicts, and sectors per request to global memory.

    Returns
    -------
    Source

    Raises
    ------
    ValueError
        An unknown family or variant; annotations of a rung without counters.

    Examples
    --------
    >>> import gpuopt
    >>> source = gpuopt.source("transpose", "padded")
    >>> source.function
    'transpose_padded'
    >>> "// New: the padding." in source.text
    True
    """
    rung = find(family, variant)
    file, row = _row(rung)
    function = _function(rung, file)
    counters, counted = _counters(rung) if annotate else ({}, "")
    lines: list[SourceLine] = []
    for name, found in _needed(file, function).items():
        before = 0
        if name != file and found:
            lines += [SourceLine(0, "", None, name), SourceLine(0, f"// --- {name}", None, name)]
        for each in [row, *found] if name == file else found:
            if before and each.first > before:
                lines.append(SourceLine(0, "", None, name))
            for number in range(max(each.first, before), each.last + 1):
                text = embedded()[name][number - 1]
                lines.append(SourceLine(number, text, counters.get((name, number)), name))
            before = each.last + 1
    return Source(rung, file, function, lines, counted)


def diff(family: str, a: int | str, b: int | str, *, annotate: bool = False) -> Diff:
    """Compare the sources of two rungs; between neighbours the difference is the lesson.

    Parameters
    ----------
    family : str
        As `gpuopt.source`.
    a, b : int or str
        The rungs, by number or name: from a to b.
    annotate : bool
        Show each line's counters, as `gpuopt.source`.

    Returns
    -------
    Diff

    Raises
    ------
    ValueError
        As `gpuopt.source`.

    Examples
    --------
    >>> import gpuopt
    >>> for line in gpuopt.diff("reduce", 2, 3).unified.splitlines():
    ...     if "for (unsigned s" in line:
    ...         print(line)
    -    for (unsigned s = 1; s < blockDim.x; s *= 2) {
    +    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    """
    return Diff(source(family, a, annotate=annotate), source(family, b, annotate=annotate))
