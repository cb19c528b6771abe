"""The one table: columns and records, as text of fixed width and as HTML.

A column that is empty in every record is left out. On a terminal columns are left
out until the table fits, and a last column of text is folded; for the command line COLUMNS says how
wide a pipe is. HTML takes its colours from the page.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

_CELL = "padding:2px 8px;vertical-align:top;"
TEXT_LEAST = 24  # characters of a folded column
_RIGHT, _LEFT = "text-align:right;white-space:nowrap", "text-align:left"
_HEAD = "text-align:right;white-space:normal"  # titles wrap, numbers do not


pipes_have_columns = False  # set by the command line; notebooks set COLUMNS, too
whole = False  # set to write tables to a page


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return a terminal's width, by COLUMNS if it is set; None for files and pipes."""
    stream = stream or sys.stdout
    if whole:
        return None
    with contextlib.suppress(OSError, ValueError, AttributeError):
        terminal = stream.isatty()
        if terminal or pipes_have_columns:
            with contextlib.suppress(ValueError):
                columns = int(os.environ.get("COLUMNS", ""))
                if columns > 0:
                    return columns
        if terminal:
            return os.get_terminal_size(stream.fileno()).columns or None
    return None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    key : str
        The name of its values in a record.
    title : str
        With the unit; text has its lines one below the other.
    format : str
        As `format` accepts it, ",.1f", or a pattern, "{:.2f}x"; or "~", the digits that matter. A
        string is shown as it is.
    scale : float
        Factor from a value to the title's unit: 1e6 for seconds as us.
    left : bool
        Text starts at the left; numbers end at the right.
    least : int
        Least width in characters.
    keep : int
        The higher, the longer the column is kept where a table is too wide; of equals, the left.
    """

    key: str
    title: str
    format: str = ","
    scale: float = 1
    left: bool = False
    least: int = 0
    keep: int = 0

    def cell(self, record: Mapping[str, Any]) -> str:
        """Return a record's value as text, "" where it has none."""
        value = record.get(self.key)
        if value is None or isinstance(value, str):
            return value or ""
        value = value if self.scale == 1 else value * self.scale
        if self.format == "~":
            return f"{value:,.0f}" if value >= 100 or not value else f"{value:.3g}"
        if "{" in self.format:
            return self.format.format(value)
        text = format(value, self.format)
        if value and self.format.endswith("f") and not text.strip("-0.,"):
            return f"{value:.2g}"  # a small number is not 0
        return text


class Table:
    """Columns and records.

    Parameters
    ----------
    columns : iterable of Column
    records : iterable of mapping
    """

    def __init__(self, columns: Iterable[Column], records: Iterable[Mapping[str, Any]]) -> None:
        given = list(records)
        filled = [(column, [column.cell(each) for each in given]) for column in columns]
        filled = [(column, cells) for column, cells in filled if any(cells)]
        self.columns = [column for column, _ in filled]
        self.rows = [list(row) for row in zip(*(cells for _, cells in filled), strict=True)]

    def _widths(self, heads: list[list[str]]) -> list[int]:
        return [
            max(column.least, *(len(cell) for cell in (*head, *(row[k] for row in self.rows))))
            for k, (column, head) in enumerate(zip(self.columns, heads, strict=True))
        ]

    def _fitting(self, widths: list[int], most: int | None) -> tuple[list[int], list[int]]:
        """Return the columns that fit into a width, and all widths, the last text's narrowed."""
        shown, widths = list(range(len(widths))), list(widths)
        last = len(shown) - 1
        folds = last > 0 and self.columns[last].left and widths[last] > TEXT_LEAST

        def least() -> int:
            own = sum(TEXT_LEAST if folds and k == last else widths[k] for k in shown)
            return own + 2 * (len(shown) - 1)

        while most and least() > most and len(shown) > 2:
            droppable = [k for k in shown[1:] if k != last or not self.columns[k].left]
            if not droppable:
                break
            shown.remove(min(droppable, key=lambda k: (self.columns[k].keep, -k)))
        if most and folds:
            room = most - sum(widths[k] + 2 for k in shown if k != last)
            widths[last] = max(TEXT_LEAST, min(widths[last], room))
        return shown, widths

    def text(self, most: int | None = None) -> tuple[list[str], list[list[str]], list[str]]:
        """Return the titles' lines, each record's, and a note on missing columns, up to a width."""
        titles = [column.title.split("\n") for column in self.columns]
        height = max(map(len, titles), default=0)
        heads = [[""] * (height - len(title)) + title for title in titles]
        shown, widths = self._fitting(self._widths(heads), most)

        def line(row: Sequence[str]) -> str:
            cells = (
                f"{row[k]:<{widths[k]}}" if self.columns[k].left else f"{row[k]:>{widths[k]}}"
                for k in shown
            )
            return "  ".join(cells).rstrip()

        blocks = [[line(part) for part in self._folded(row, shown, widths)] for row in self.rows]
        left = [
            column.title.replace("\n", " ")
            for k, column in enumerate(self.columns)
            if k not in shown
        ]
        note = wrap(f"(too narrow for: {', '.join(left)})", most) if left and most else []
        return [line(head) for head in zip(*heads, strict=True)], blocks, note

    def _folded(
        self, row: list[str], shown: list[int], widths: list[int]
    ) -> Iterable[Sequence[str]]:
        """Return a record's lines: its last text may have several."""
        if not shown or len(row[shown[-1]]) <= widths[shown[-1]]:
            return [row]
        blank = [""] * len(row)
        return [
            [*(blank if at else row)[: shown[-1]], part]
            for at, part in enumerate(wrap(row[shown[-1]], widths[shown[-1]]))
        ]

    def lines(self) -> list[str]:
        """Return the lines of the titles and the records."""
        titles, blocks, note = self.text(terminal_width())
        return [*titles, *(line for block in blocks for line in block), *note]

    def html(self, caption: str = "", below: Iterable[str] = (), styled: bool = True) -> str:
        """Return the table as HTML; without styles, for a page that has its own."""
        from html import escape  # its table of names takes a millisecond

        def cells(row: Sequence[str], tag: str) -> str:
            made = []
            for at, (cell, column) in enumerate(zip(row, self.columns, strict=True)):
                side = _LEFT if column.left else _HEAD if tag == "th" else _RIGHT
                wide = "" if at else ";white-space:nowrap"  # the name of a row
                if at and column.left and column.least:
                    wide = f";min-width:{column.least}ch"
                style = f' style="{_CELL}{side}{wide}"' if styled else ""
                made.append(f"<{tag}{style}>{escape(cell)}</{tag}>")
            return f"<tr>{''.join(made)}</tr>"

        head = cells([column.title.replace("\n", " ") for column in self.columns], "th")
        body = "".join(cells(row, "td") for row in self.rows)
        rows = f"<thead>{head}</thead><tbody>{body}</tbody>"
        if not styled:
            return f"<table>{rows}</table>"
        title = f'<caption style="{_CELL}{_LEFT}">{escape(caption)}</caption>' if caption else ""
        notes = f"<small>{'<br>'.join(map(escape, below))}</small>" if below else ""
        return (
            '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">'
            f"{title}{rows}</table>{notes}</div>"
        )


class Tabled:
    """A result that `repr` and Jupyter show as a table, with lines above and below it."""

    def _above(self) -> list[str]:
        raise NotImplementedError

    def _table(self) -> Table:
        raise NotImplementedError

    def _below(self) -> list[str]:
        return []

    def __repr__(self) -> str:
        """Return the table."""
        return "\n".join([*self._above(), "", *self._table().lines(), *self._below()])

    def _repr_html_(self) -> str:
        caption, *notes = self._above()
        return self._table().html(caption, [*notes, *self._below()])


class Listing(list[T]):
    """A list of like things; `repr` and Jupyter show a table of them.

    Parameters
    ----------
    items : iterable
    columns : dict of str to callable
        A column's title, and the text that it shows of an item.
    empty : str
        The text of an empty list.
    """

    def __init__(
        self, items: Iterable[T], columns: dict[str, Callable[[T], str]], empty: str = "[]"
    ) -> None:
        super().__init__(items)
        self._columns, self._empty = columns, empty

    def _table(self) -> Table:
        columns = [Column(title, title, left=True) for title in self._columns]
        shown = [{title: show(each) for title, show in self._columns.items()} for each in self]
        return Table(columns, shown)

    def __repr__(self) -> str:
        """Return the table."""
        return "\n".join(self._table().lines()) if self else self._empty

    def __reduce__(self) -> Any:
        """Copy and pickle it as a list."""
        return list, (list(self),)

    def _repr_html_(self) -> str:
        from html import escape

        return self._table().html() if self else f"<p>{escape(self._empty)}</p>"
