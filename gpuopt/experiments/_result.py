"""What an experiment returns: rows of numbers, each with its share of a ceiling and a reading."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuopt.catalog.devices import Device


@dataclass(frozen=True)
class Column:
    """A column of an experiment's table.

    Attributes
    ----------
    key : str
        Where its values are: in a row's `parameters` or `values`.
    title : str
        With the unit.
    format : str
        As `format` takes it: ",.1f".
    scale : float
        What a value is multiplied by to be shown in the title's unit: 1e6 for seconds as us.
    """

    key: str
    title: str
    format: str = ","
    scale: float = 1


@dataclass
class Row:
    """One line of an experiment.

    Attributes
    ----------
    name : str
        What ran.
    parameters : dict
        With what: stride, words, threads, ...
    values : dict of str to float
        Seconds, bytes a second, counters: in SI units, under the names of the columns.
    share : float or None
        Of the experiment's ceiling, from 0 to 1.
    reading : str
        What the numbers say, in a line.
    deck : str
        The deck's own figure for this row; "" where it has none.
    """

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    share: float | None = None
    reading: str = ""
    deck: str = ""


@dataclass
class Experiment:
    """The result of an experiment: every row's output was verified. It shows itself as a table.

    Attributes
    ----------
    name : str
        As `gpuopt.experiments` has it.
    device : Device
    title : str
        What was done, on how much.
    columns : list of Column
        What the table shows between a row's name and its share.
    rows : list of Row
    ceiling : str
        What the shares are shares of.
    notes : list of str
        How it was measured: warm or cold, samples; and where the deck's figures come from.
    """

    name: str
    device: Device
    title: str
    columns: list[Column]
    rows: list[Row]
    ceiling: str = ""
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Row:
        """Return the first row of a name."""
        for row in self.rows:
            if row.name == name:
                return row
        known = ", ".join(dict.fromkeys(repr(row.name) for row in self.rows))
        raise KeyError(f"{name!r} is not a row of {self.name}; the rows are {known}")

    def _head(self) -> list[str]:
        lines = [f"{self.title}, on {self.device.description} ({self.device.name})", *self.notes]
        return [*lines, f"share: of {self.ceiling}"] if self.ceiling else lines

    def _cells(self) -> list[list[str]]:
        """Return the table as text, its titles first; columns that hold nothing are left out."""
        titles = [self.name, *(column.title for column in self.columns), "share", "deck", "reading"]
        table = [titles]
        for row in self.rows:
            known = row.parameters | row.values
            cells = [row.name]
            for column in self.columns:
                cells.append(_cell(known.get(column.key), column))
            share = "" if row.share is None else f"{row.share:.0%}"
            table.append([*cells, share, row.deck, row.reading])
        keep = [i for i in range(len(titles)) if any(row[i] for row in table[1:])]
        return [[row[i] for i in keep] for row in table]

    def __repr__(self) -> str:
        """Return the table."""
        table = self._cells()
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        left = {0, len(widths) - 1}  # the name and the reading
        lines = [
            "  ".join(
                cell.ljust(width) if i in left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        return "\n".join([*self._head(), "", *lines])

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        titles, *rows = self._cells()

        def line(cells: list[str], tag: str) -> str:
            return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)

        head = "<br>".join(html.escape(text) for text in self._head())
        body = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in rows)
        return (
            f"<p>{head}</p><table><thead><tr>{line(titles, 'th')}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers, as JSON takes it."""
        return asdict(self)


def _cell(value: Any, column: Column) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return format(value * column.scale, column.format)
