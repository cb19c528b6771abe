"""A list whose repr is a table."""

from __future__ import annotations

import html as _html
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class Listing(list[T]):
    """A list of objects of one kind; `repr` and Jupyter show a table.

    Parameters
    ----------
    items : iterable
    columns : dict of str to callable
        A column's head, and the function from an element to its cell.
    """

    def __init__(self, items: Iterable[T], columns: dict[str, Callable[[T], str]]) -> None:
        super().__init__(items)
        self._columns = columns

    def _cells(self) -> list[list[str]]:
        return [[show(each) for show in self._columns.values()] for each in self]

    def __repr__(self) -> str:
        """Return the table; an empty list's repr is a list's."""
        if not self:
            return "[]"
        rows = [list(self._columns), *self._cells()]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, wide, strict=True)).rstrip()
            for row in rows
        )

    def __reduce__(self) -> Any:
        """Copy and pickle it as a list."""
        return list, (list(self),)

    def _repr_html_(self) -> str:
        style = 'style="text-align:left;padding:2px 8px;vertical-align:top"'

        def row(cells: Iterable[str], tag: str) -> str:
            return "".join(f"<{tag} {style}>{_html.escape(cell)}</{tag}>" for cell in cells)

        body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in self._cells())
        return (
            '<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:90%">'
            f"<thead><tr>{row(self._columns, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
        )
