"""The attributes of measurements that tables and plots read.

The classes of `gpuopt.measure` have them. They show themselves through this package, which
therefore describes them by protocols instead of importing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gpuopt.catalog.devices import Device
from gpuopt.catalog.rungs import Rung
from gpuopt.observe.profile import Profile
from gpuopt.util.table import Column


class Timing(Protocol):
    """Samples in seconds, and their statistics."""

    samples: list[float]
    median: float
    least: float
    spread: float


class ExperimentRow(Protocol):
    """One line of an experiment."""

    name: str
    parameters: dict[str, Any]
    values: dict[str, float]
    share: float | None


class Experiment(Protocol):
    """The result of an experiment."""

    name: str
    device: Device
    title: str
    columns: list[Column]
    rows: Sequence[ExperimentRow]
    ceiling: str


class Trial(Protocol):
    """One choice of a sweep; `str` names it."""

    default: bool
    seconds: float


class SweepSize(Protocol):
    """A sweep's choices for one problem."""

    title: str
    trials: Sequence[Trial]


class Peer(Protocol):
    """Another library's times."""

    name: str
    version: str
    warm: Timing
    cold: Timing


class LadderRow(Protocol):
    """A rung of a ladder, timed or counted."""

    rung: Rung
    algorithm_bytes: int
    warm: Timing
    cold: Timing
    counted: Profile | None
    reference: tuple[float, float] | None


class Ladder(Protocol):
    """A measured ladder."""

    device: Device
    family: str
    title: str
    dtype: str
    n: int
    block: int | None
    rows: Sequence[LadderRow]
    refused: list[tuple[Rung, str]]
    peers: Sequence[Peer]
    peers_refused: list[tuple[str, str]]
    timed: bool
    copy_bandwidth: float
    flops: int
    operations: int
    deck: tuple[str, float] | None
    counted_title: str


class Ceiling(Protocol):
    """A roof or a ramp of a roofline."""

    name: str
    unit: str
    rate: float
    spread: float


class Point(Protocol):
    """A kernel on a roofline."""

    name: str
    dtype: str
    flops: float
    bytes: float
    intensity: float
    rate: float


class Bound(Protocol):
    """How far a kernel is from the ceiling that binds it."""

    share: float


class Roofline(Protocol):
    """A device's ceilings and the kernels under them."""

    device: Device
    ceilings: Sequence[Ceiling]
    points: Sequence[Point]
    source: str
    dtype: str
    date: str
    driver: str
    quick: bool

    def ceiling(self, name: str) -> Ceiling:
        """Return a ceiling by its name, or by how that begins."""

    def peak(self, dtype: str | None = None) -> Ceiling:
        """Return the ceiling of an arithmetic."""

    def ridge(self) -> float:
        """Return the intensity from which on arithmetic binds."""

    def attainable(self, intensity: float) -> float:
        """Return the rate that the ceilings allow."""

    def bound(self, point: Point) -> Bound:
        """Return which ceiling binds a kernel."""


class Bar(Protocol):
    """A target of a benchmark."""

    what: str
    value: float


class BenchRow(Protocol):
    """A work of a benchmark, timed."""

    group: str
    title: str
    touched: int
    flops: int
    warm: Timing
    cold: Timing
    kernels: Timing
    peers: Sequence[Peer]
    refused: list[tuple[str, str]]
    seconds: float
    rate: float
    of_copy: float | None

    def ratio(self, mode: str = "warm") -> float | None:
        """Return how many times as fast as the fastest other library."""

    def reached(self, bar: Bar) -> float | None:
        """Return the figure that a target is about."""

    def meets(self, bar: Bar) -> bool | None:
        """Return whether a target is met."""


class Bench(Protocol):
    """A measured benchmark."""

    device: Device
    rows: Sequence[BenchRow]
    refused: list[tuple[str, str]]
    wrong: list[tuple[str, str]]
    quick: bool
    version: str

    def bars(self, row: BenchRow) -> Sequence[Bar]:
        """Return the targets of a row."""
