"""The result of an experiment: rows of numbers, each with its share of a ceiling and a reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuopt.catalog.devices import Device
from gpuopt.show import experiment_plots
from gpuopt.show.terminal import busy
from gpuopt.util.serialise import Result
from gpuopt.util.table import Column, Table, Tabled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class Row:
    """One line of an experiment.

    Attributes
    ----------
    name : str
        The row's name.
    parameters : dict
        Stride, words, threads, ...
    values : dict of str to float
        Seconds, bytes per second, counters: in SI units, under the names of the columns.
    share : float or None
        Share of the experiment's ceiling, from 0 to 1.
    reading : str
        The conclusion from the numbers, in a line.
    deck : str
        The deck's own figure for this row; "" where it has none.
    """

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    share: float | None = None
    reading: str = ""
    deck: str = ""


@dataclass(repr=False)
class Experiment(Result, Tabled):
    """The result of an experiment: every row's output was verified. It shows itself as a table.

    Attributes
    ----------
    name : str
        As `gpuopt.experiments` has it.
    device : Device
    title : str
        The work and its size.
    columns : list of Column
        The table's columns between a row's name and its share.
    rows : list of Row
    ceiling : str
        The reference of the shares.
    notes : list of str
        How it was measured: warm or cold, samples; and where the deck's figures come from.
    """

    KIND = "experiment"

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

    def _above(self) -> list[str]:
        lines = [f"{self.title}, on {self.device.description} ({self.device.name})", *self.notes]
        if self.ceiling:
            lines.append(f"share: of {self.ceiling}")
        return lines + busy(row.values.get("spread", 0.0) for row in self.rows)

    def _table(self) -> Table:
        columns = [
            Column("name", self.name, left=True),
            *self.columns,
            Column("share", "share", ".0%", keep=1),
            Column("deck", "deck"),
            Column("reading", "reading", left=True, least=24),
        ]
        return Table(columns, [vars(row) | row.parameters | row.values for row in self.rows])

    def plot(
        self,
        column: str | None = None,
        *,
        x: str | None = None,
        by: str | Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw one column with matplotlib: a bar for each row, or lines over a parameter.

        Parameters
        ----------
        column : str, optional
            The column or parameter to draw, by its key in `Row.values` or `Row.parameters`.
            Default: "share", in percent.
        x : str, optional
            The parameter or column of the horizontal axis; without it, bars.
        by : str or sequence of str, optional
            With `x`: one line for each value of these parameters.
        ax : matplotlib.axes.Axes, optional
            Where to draw; default: a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ValueError
            The experiment has no such column or parameter, or it holds no numbers; a line would
            have two values at one place.
        ImportError
            matplotlib is missing; the message names the extra that brings it.
        """
        return experiment_plots.experiment(self, column, x, by, ax)
