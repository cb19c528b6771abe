"""The one table: columns and records, as text of fixed width and as HTML.

A column that is empty in every record is left out. HTML takes its colours from the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

T = TypeVar("T")

_CELL = "padding:2px 8px;vertical-align:top;"
_RIGHT, _LEFT = "text-align:right;white-space:nowrap", "text-align:left"
_HEAD = "text-align:right;white-space:normal"  # titles wrap, numbers do not


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
        As `format` accepts it, ",.1f", or a pattern, "{:.2f}x". A string is shown as it is.
    scale : float
        Factor from a value to the title's unit: 1e6 for seconds as us.
    left : bool
        Text starts at the left; numbers end at the right.
    least : int
        Least width in characters.
    """

    key: str
    title: str
    format: str = ","
    scale: float = 1
    left: bool = False
    least: int = 0

    def cell(self, record: Mapping[str, Any]) -> str:
        """Return a record's value as text, "" where it has none."""
        value = record.get(self.key)
        if value is None or isinstance(value, str):
            return value or ""
        value = value if self.scale == 1 else value * self.scale
        return self.format.format(value) if "{" in self.format else format(value, self.format)


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

    def _lines(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
        return [
            "  ".join(
                f"{cell:<{width}}" if column.left else f"{cell:>{width}}"
                for cell, width, column in zip(row, widths, self.columns, strict=True)
            ).rstrip()
            for row in rows
        ]

    def text(self) -> tuple[list[str], list[str]]:
        """Return the lines of the titles, and a line for each record."""
        titles = [column.title.split("\n") for column in self.columns]
        height = max(map(len, titles), default=0)
        heads = [[""] * (height - len(title)) + title for title in titles]
        widths = [
            max(column.least, *(len(cell) for cell in (*head, *(row[k] for row in self.rows))))
            for k, (column, head) in enumerate(zip(self.columns, heads, strict=True))
        ]
        return self._lines(list(zip(*heads, strict=True)), widths), self._lines(self.rows, widths)

    def lines(self) -> list[str]:
        """Return the lines of the titles and the records."""
        titles, rows = self.text()
        return [*titles, *rows]

    def html(self, caption: str = "", below: Iterable[str] = (), styled: bool = True) -> str:
        """Return the table as HTML; without styles, for a page that has its own."""

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


class Listing(list[T]):
    """A list of like things; `repr` and Jupyter show a table of them.

    Parameters
    ----------
    items : iterable
    columns : dict of str to callable
        A column's title, and the text that it shows of an item.
    """

    def __init__(self, items: Iterable[T], columns: dict[str, Callable[[T], str]]) -> None:
        super().__init__(items)
        self._columns = columns

    def _table(self) -> Table:
        columns = [Column(title, title, left=True) for title in self._columns]
        shown = [{title: show(each) for title, show in self._columns.items()} for each in self]
        return Table(columns, shown)

    def __repr__(self) -> str:
        """Return the table; of an empty list, a list's."""
        return "\n".join(self._table().lines()) if self else "[]"

    def __reduce__(self) -> Any:
        """Copy and pickle it as a list."""
        return list, (list(self),)

    def _repr_html_(self) -> str:
        return self._table().html()
