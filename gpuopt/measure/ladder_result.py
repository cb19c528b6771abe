"""A measured ladder: its rungs' times and counters, shown, written and read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from gpuopt.catalog.devices import Device
from gpuopt.catalog.rungs import Rung
from gpuopt.explain.profile import Counters, Launch, Profile
from gpuopt.measure.race import Timing
from gpuopt.show import ladder_table, plots
from gpuopt.util import checks
from gpuopt.util.checks import finite, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODES = ("warm", "cold")
FORMAT = 2  # of what to_dict gives


@dataclass
class LadderRow:
    """One rung, verified, and timed or counted.

    Attributes
    ----------
    rung : Rung
    algorithm_bytes : int
        What the algorithm reads and writes, each once; 0 where nothing was timed.
    warm, cold : Timing
    counted : Profile or None
        By a simulated GPU: on the ladder's device, or beside the timing on `Ladder.counted_title`.
    reference : tuple of (float, float) or None
        Seconds, warm and cold, that gpuopt's makers measured on the same kind of GPU.
    """

    rung: Rung
    algorithm_bytes: int = 0
    warm: Timing = field(default_factory=Timing)
    cold: Timing = field(default_factory=Timing)
    counted: Profile | None = None
    reference: tuple[float, float] | None = None


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
class Ladder:
    """A measured ladder; it shows itself as a table, `plot` draws it.

    Attributes
    ----------
    device : Device
    op, dtype : str
    n : int
        Items.
    block : int or None
        Threads a block; None is each rung's own default.
    rows : list of LadderRow
    copy_bandwidth : float
        Bytes read and written a second by the best plain copy, cold; 0 where nothing was timed.
    family, title : str
        What was measured, for the table.
    flops : int
        Operations of a run, where the table tells the rate in them; else 0.
    deck : tuple of (str, float) or None
        What the deck measured on, and how many bytes or operations its times are for; 0 where it
        tells rates.
    refused : list of (Rung, str)
        Rungs that do not take this case, and why.
    operations : int
        What the algorithm computes, for the roofline.
    counted_title : str
        What was counted, where it is not what was timed.
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
        """Return the deck's table, with what was measured here beside it."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts, for JSON.

        Of the counters, those of each launch; of the kernels, no symbols.
        """
        plain = ("op", "dtype", "n", "block", "copy_bandwidth", "family", "title", "flops",
                 "operations", "counted_title", "date", "version")  # fmt: skip
        return {
            "kind": "ladder",
            "format": FORMAT,
            "device": asdict(self.device),
            **{name: getattr(self, name) for name in plain},
            "deck": list(self.deck) if self.deck else None,
            "rows": [_row_to_dict(row) for row in self.rows],
            "refused": [[_rung_to_dict(rung), why] for rung, why in self.refused],
            "peers": [asdict(peer) for peer in self.peers],
            "peers_refused": [list(each) for each in self.peers_refused],
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Ladder:
        """Return the ladder that `to_dict` told of.

        Raises
        ------
        ValueError
            It is something else, or of another format.
        """
        try:
            if told["kind"] != "ladder" or told["format"] != FORMAT:
                raise KeyError("kind")
            rest = {key: value for key, value in told.items() if key not in ("kind", "format")}
            checks.told(cls, rest)
            rest["device"] = Device(**checks.told(Device, told["device"]))
            rest["deck"] = tuple(told["deck"]) if told["deck"] else None
            rest["rows"] = [_row_from_dict(each) for each in told["rows"]]
            rest["refused"] = [(_rung_from_dict(each), why) for each, why in told["refused"]]
            rest["peers"] = [peer_from_dict(each) for each in told["peers"]]
            rest["peers_refused"] = [tuple(each) for each in told["peers_refused"]]
            return cls(**rest)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"told: is no ladder of format {FORMAT}, written by to_dict ({error})"
            ) from None


# --- to JSON and back


def _rung_to_dict(rung: Rung) -> dict[str, Any]:
    told = asdict(rung)
    del told["signatures"], told["kernels"]  # long, and the registry's
    return told


def _rung_from_dict(told: dict[str, Any]) -> Rung:
    return Rung(**checks.told(Rung, told), signatures=[], kernels=[])


def timing_from(samples: list[float]) -> Timing:
    """Return the timing of which a file tells; ValueError or TypeError where that is none."""
    if not all(finite(each, "samples") > 0 for each in samples):
        raise ValueError("samples: must be more than 0")
    return Timing(samples)


def peer_from_dict(told: dict[str, Any]) -> PeerTimes:
    """Return the peer's row of which a file tells."""
    checks.told(PeerTimes, told)
    return PeerTimes(
        told["name"], told["version"], *(timing_from(told[mode]["samples"]) for mode in MODES)
    )


def _row_to_dict(row: LadderRow) -> dict[str, Any]:
    counted = None
    if row.counted:
        counted = {
            "device": row.counted.device,
            "launches": [
                {name: getattr(each, name) for name in LAUNCH} | {"counters": dict(each.counters)}
                for each in row.counted.launches
            ],
        }
    return {
        "rung": _rung_to_dict(row.rung),
        "algorithm_bytes": row.algorithm_bytes,
        "warm": row.warm.samples,
        "cold": row.cold.samples,
        "counted": counted,
        "reference": list(row.reference) if row.reference else None,
    }


LAUNCH = tuple(
    each.name for each in fields(Launch) if each.name not in ("counters", "lines", "findings")
)


def _row_from_dict(told: dict[str, Any]) -> LadderRow:
    counted = None
    if told["counted"]:
        launches = []
        where = {"device": told["counted"]["device"]}  # a file of before launches told theirs
        for each in (where | each for each in told["counted"]["launches"]):
            counters = [whole(each["counters"].get(name, 0), name, 0) for name in Counters()]
            rest = checks.told(Launch, {name: each[name] for name in LAUNCH})
            rest |= {name: tuple(each[name]) for name in ("grid", "block")}
            launches.append(Launch(**rest, counters=Counters(counters), lines=[], findings=[]))
        counted = Profile(told["counted"]["device"], launches)
    checks.told(LadderRow, told)
    return LadderRow(
        _rung_from_dict(told["rung"]),
        told["algorithm_bytes"],
        timing_from(told["warm"]),
        timing_from(told["cold"]),
        counted,
        tuple(told["reference"]) if told["reference"] else None,
    )
