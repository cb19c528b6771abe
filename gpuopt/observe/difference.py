"""The difference of two profiles: counters, and source lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from gpuopt.observe.counters import RATIOS, Counters
from gpuopt.util.serialise import Written
from gpuopt.util.table import Column, Table

Place = tuple[str | None, int]
LINES_MOST = 12  # in the table
# The ratios that a person looks at first; sums of other counters would say it twice.
_RATIOS = ("transactions_per_load", "transactions_per_store", "warp_efficiency")


def place(where: Place) -> str:
    """Return "reduce.cu:161", or "PTX line 12"."""
    file, number = where
    return f"{PurePath(file).name}:{number}" if file else f"PTX line {number}"


@dataclass(frozen=True)
class Difference(Written):
    """Two profiles side by side, made by `Profile.difference`; `print` shows what differs.

    Attributes
    ----------
    before, after : Counters
    lines : dict of (str or None, int) to (Counters, Counters)
        Both sides' counters by source line (by line of PTX without a line table).

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.arange(4096, dtype=np.int32)
    >>> second = gpuopt.profile(gpuopt.reduce, x, variant=2)
    >>> third = gpuopt.profile(gpuopt.reduce, x, variant=3)
    >>> changed = third.difference(second)
    >>> changed["shared_load_conflicts"] < 0
    True
    """

    KIND = "difference"
    RECORDS = "counters"

    before: Counters
    after: Counters
    lines: dict[Place, tuple[Counters, Counters]]

    def __getitem__(self, name: str) -> float:
        """Return how much a counter or ratio grew."""
        return self.after.value(name) - self.before.value(name)

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each counter and ratio that differs: name, before, after, change."""
        names = [*self.after, *RATIOS]
        found = ((name, self.before.value(name), self.after.value(name)) for name in names)
        return [
            {"counter": name, "before": old, "after": new, "change": new - old}
            for name, old, new in found
            if old != new
        ]

    def _told(self) -> dict[str, Any]:
        lines = [
            {"place": place(where), "before": dict(old), "after": dict(new)}
            for where, (old, new) in self.lines.items()
            if dict(old) != dict(new)
        ]
        return super()._told() | {"lines": lines}

    def _counters(self) -> Table:
        shown = [*self.after, "bank_conflicts", *_RATIOS]
        records = [
            each
            | {
                "counter": each["counter"].replace("_", " "),
                "ratio": each["after"] / each["before"] if each["before"] else None,
                "before": _number(each["before"]),
                "after": _number(each["after"]),
            }
            for each in self.records()
            if each["counter"] in shown
        ]
        columns = [
            Column("counter", "counter", left=True),
            Column("before", "before", least=9),
            Column("after", "after", least=9),
            Column("ratio", "ratio", "{:.2f}x"),
        ]
        return Table(columns, records)

    def _lines(self) -> Table:
        found = [
            {
                "place": place(where),
                "before": old.warp_instructions,
                "after": new.warp_instructions,
                "change": new.warp_instructions - old.warp_instructions,
            }
            for where, (old, new) in self.lines.items()
            if old.warp_instructions != new.warp_instructions
        ]
        found.sort(key=lambda each: -abs(each["change"]))
        columns = [
            Column("change", "warp instr.", "+,", least=12),
            Column("before", "before", least=9),
            Column("after", "after", least=9),
            Column("place", "source line", left=True),
        ]
        return Table(columns, found[:LINES_MOST])

    def __repr__(self) -> str:
        """Return the counters and the lines that differ."""
        if not self.records():
            return "no counter differs"
        return "\n".join([*self._counters().lines(), "", *self._lines().lines()])

    def _repr_html_(self) -> str:
        if not self.records():
            return "<p>no counter differs</p>"
        return self._counters().html("counters that differ") + self._lines().html("lines")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
