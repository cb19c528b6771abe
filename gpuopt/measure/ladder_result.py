"""A measured ladder: its rungs' times and counters, shown, written and read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuopt.catalog.devices import Device
from gpuopt.catalog.rungs import Rung
from gpuopt.measure.race import Timing
from gpuopt.observe.profile import Profile
from gpuopt.show import ladder_table, plots
from gpuopt.util.serialise import SAMPLES, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODES = ("warm", "cold")


@dataclass
class LadderRow:
    """One rung, verified, and timed or counted.

    Attributes
    ----------
    rung : Rung
    algorithm_bytes : int
        Bytes that the algorithm reads and writes, each once; 0 where nothing was timed.
    warm, cold : Timing
    counted : Profile or None
        By a simulated GPU: on the ladder's device, or beside the timing on `Ladder.counted_title`.
    reference : tuple of (float, float) or None
        Seconds, warm and cold, that gpuopt's makers measured on the same kind of GPU.
    registers : int
        A thread's, as the simulated GPU estimates them from the PTX; 0 where it did not count.
    compiled_registers : int
        Those of ptxas for the matrix product's rungs, where it is at hand, for the oldest
        architecture that it knows; else 0.
    predicted, predicted_deck : float
        On a simulated GPU, or with `predictions`, the predicted seconds of the rung and, on the
        deck's own GPU, of the deck's listing; 0 where there is none. They are no measurements.
    bound : str
        The resource that bounds the prediction.
    unpredicted : str
        Why there is no prediction; "" where there is one, or none was wanted.
    """

    rung: Rung
    algorithm_bytes: int = 0
    warm: Timing = field(default_factory=Timing, metadata=SAMPLES)
    cold: Timing = field(default_factory=Timing, metadata=SAMPLES)
    counted: Profile | None = None
    reference: tuple[float, float] | None = None
    registers: int = 0
    compiled_registers: int = 0
    predicted: float = 0.0
    predicted_deck: float = 0.0
    bound: str = ""
    unpredicted: str = ""


@dataclass
class PeerTimes:
    """Another library's time for the same work, verified as the rungs are.

    `cold` has no samples where all copies of the data that a library can have fit into caches.
    """

    name: str
    version: str
    warm: Timing = field(default_factory=Timing)
    cold: Timing = field(default_factory=Timing)


@dataclass
class Ladder(Result):
    """A measured ladder; it shows itself as a table, `plot` draws it.

    Attributes
    ----------
    device : Device
    op, dtype : str
    n : int
        Items.
    block : int or None
        Threads per block; None is each rung's own default.
    rows : list of LadderRow
    copy_bandwidth : float
        Bytes read and written a second by the best plain copy, cold; 0 where nothing was timed.
    family, title : str
        Family, and the table's title.
    flops : int
        Operations of a run, where the table tells the rate in them; else 0.
    deck : tuple of (str, float) or None
        The deck's device, and how many bytes or operations its times are for; 0 where it
        tells rates.
    refused : list of (Rung, str)
        Rungs that do not take this case, and why.
    operations : int
        Operations of the algorithm, for the roofline.
    counted_title : str
        Title of the counted case, if the timed case was another.
    peers : list of PeerTimes
    peers_refused : list of (str, str)
        Libraries that were left out, and why.
    date, version : str
        When it was measured, by which gpuopt.

    Examples
    --------
    >>> import gpuopt
    >>> counted = gpuopt.ladder("reduce", 4096, device="sim")
    >>> [record["shared_load_conflicts"] for record in counted.records()[:3]]
    [0, 990, 0]
    >>> gpuopt.Ladder.from_dict(counted.to_dict()).title
    'sum of 4,096 int32'
    """

    KIND = "ladder"
    FORMAT = 2
    # The registry has the kernels; lines and findings are long.
    WITHOUT = frozenset({"signatures", "kernels", "lines", "findings"})

    device: Device
    op: str
    dtype: str
    n: int
    block: int | None
    rows: list[LadderRow]
    copy_bandwidth: float = 0.0
    family: str = "reduce"
    title: str = ""
    flops: int = 0
    deck: tuple[str, float] | None = None
    refused: list[tuple[Rung, str]] = field(default_factory=list)
    operations: int = 0
    counted_title: str = ""
    peers: list[PeerTimes] = field(default_factory=list)
    peers_refused: list[tuple[str, str]] = field(default_factory=list)
    date: str = ""
    version: str = ""

    @property
    def timed(self) -> bool:
        """Whether there are times; otherwise there are counters alone."""
        return self.copy_bandwidth > 0

    def __repr__(self) -> str:
        """Return the deck's table beside this measurement."""
        if not self.rows:
            return ladder_table.nothing(self)
        return ladder_table.times(self) if self.timed else ladder_table.counts(self)

    def _repr_html_(self) -> str:
        return ladder_table.html(self)

    def changes(self) -> list[str]:
        """Return for each row what its counters say against the rung before; "" without them."""
        return ladder_table.changes(self)

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each row and peer, as ``pandas.DataFrame`` takes them.

        Times are in microseconds, rates in GB/s or GFLOP/s; a rung's counters have their own names
        (`gpuopt.Profile.describe`).
        """
        return ladder_table.records(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ladder with matplotlib: each rung's rate, the deck's step beside it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; default: a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            ``ax.figure.savefig("ladder.svg")`` writes it.

        Raises
        ------
        ValueError
            Every rung was left out.
        ImportError
            matplotlib is missing; the message names the extra that brings it.
        """
        return plots.ladder(self, ax)

    @classmethod
    def upgraded(cls, told: dict[str, Any]) -> dict[str, Any]:
        """Add to each launch the device of its row, which older files have alone."""
        rows = []
        for row in told["rows"]:
            if counted := row["counted"]:
                where = {"device": counted["device"]}
                counted = counted | {"launches": [where | each for each in counted["launches"]]}
            rows.append(row | {"counted": counted})
        return told | {"rows": rows}
