"""A program on a simulated GPU in time: its copies and kernels, one after the other, by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuopt.catalog.host_link import START, host_link
from gpuopt.observe.bounds import Bounds
from gpuopt.observe.prediction import Prediction
from gpuopt.util.table import Column, Table

KERNELS = "kernels"


@dataclass(frozen=True)
class Step:
    """A part of the program: "copies in", "kernel NAME" or "copies out", and its seconds."""

    name: str
    count: int
    nbytes: int
    seconds: float


@dataclass(frozen=True)
class Timeline:
    """A program's parts in time; `print` and Jupyter show a table.

    Attributes
    ----------
    device : str
        The GPU.
    link : str
        Its link to the host.
    allocations : int
    steps : list of Step
        Each has `name`, `count`, `nbytes` and `seconds`.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.ones(1 << 16, np.float32)
    >>> line = gpuopt.profile(gpuopt.add, x, x, variant=5, device="sim:k40").timeline()
    >>> [each["name"] for each in line.records()]
    ['copies in', 'kernel vector_5_add_float32_float32', 'copies out']
    """

    device: str
    link: str
    allocations: int
    steps: list[Step]

    @property
    def seconds(self) -> float:
        """The time of all parts."""
        return sum(each.seconds for each in self.steps)

    @property
    def limiter(self) -> str:
        """The larger part: "copies" or "kernels"."""
        kernels = sum(each.seconds for each in self.steps if each.name.startswith("kernel"))
        return KERNELS if 2 * kernels > self.seconds else "copies"

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each part, for pandas: begin and duration in seconds."""
        found, begin = [], 0.0
        for each in self.steps:
            found.append(vars(each) | {"begin": begin, "share": each.seconds / self.seconds})
            begin += each.seconds
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts, for JSON."""
        return {
            "kind": "timeline",
            "device": self.device,
            "link": self.link,
            "allocations": self.allocations,
            "steps": self.records(),
        }

    def _head(self) -> str:
        return (
            f"a program on a {self.device} over {self.link}, by a model: {self.allocations} "
            f"allocations; the {self.limiter} are the limiter"
        )

    def _table(self) -> Table:
        columns = [
            Column("name", "part", left=True),
            Column("count", "times"),
            Column("nbytes", "bytes"),
            Column("begin", "from\nus", "~", 1e6),
            Column("seconds", "takes\nus", "~", 1e6),
            Column("share", "share", ".0%"),
        ]
        return Table(columns, self.records())

    def __repr__(self) -> str:
        """Return the table."""
        return "\n".join([self._head(), "", *self._table().lines()])

    def _repr_html_(self) -> str:
        return self._table().html(self._head())


def timeline(bounds: Bounds, predicted: Prediction, device: str, moved: Sequence[int]) -> Timeline:
    """Return the time line of launches and of `moved`: `_core.sim_traffic`'s totals of them."""
    allocations, bytes_in, copies_in, bytes_out, copies_out = moved
    link = host_link(device)

    def copies(name: str, count: int, nbytes: int) -> list[Step]:
        seconds = count * START + nbytes / link.pageable
        return [Step(name, count, nbytes, seconds)] if count else []

    kernels = [
        Step(f"kernel {each.kernel}", 1, 0, each.seconds if each.bound else bound.least)
        for each, bound in zip(predicted.launches, bounds.launches, strict=True)
    ]
    steps = copies("copies in", copies_in, bytes_in) + kernels
    steps += copies("copies out", copies_out, bytes_out)
    return Timeline(bounds.device, link.name, allocations, steps)
