"""Measure a ladder: verify every rung, time it, verify it again; or count what it does.

A time without a passed check is never shown. Outputs are poisoned before each check and inputs
are random. The rungs take turns, round by round, so that a drift of the machine meets all of them.
Warm means the same data again and again, which a cache may hold; cold means another copy of the
data each time, from more copies than the caches hold.

The simulated GPU has no timer: there each rung is verified and counted. For a GPU that is timed it
counts as well, on fewer items: the same kernels, at a size that it does in about a second.

Tables are show/ladder_table.py's, plots show/plots.py's, the sentences show/sentences.py's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from gpuopt import _core
from gpuopt._core import UnfitError
from gpuopt.catalog.devices import Device, device as describe_device, device_name, gpu_number
from gpuopt.catalog.rungs import Rung, check_kernel, find, rungs
from gpuopt.explain.profile import Counters, Launch, Profile, profile
from gpuopt.families import cases
from gpuopt.families.cases import Case
from gpuopt.measure import peer_libraries
from gpuopt.measure.ceilings import Progress, VerificationError, copy_bandwidth, spread
from gpuopt.show import ladder_table
from gpuopt.util import checks
from gpuopt.util.checks import finite, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DECK_CPU = "2 x E5-2650"  # of the decks' rungs that are no kernels
COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}  # read by the copy that gives the ceiling
SAMPLE_SECONDS = 2e-3  # how long one sample of back-to-back runs shall take at least
WARM_UP_SECONDS = 0.3  # of work before the first sample: clocks rise
RUNS_MOST = 1000  # in one sample
MODES = ("warm", "cold")
SLOW_SECONDS = 0.05  # a run that takes longer
SLOW_ROUNDS = 3  # is not sampled more often than that
FORMAT = 2  # of what to_dict gives


@dataclass
class Timing:
    """Samples of one rung in one mode, in seconds a run."""

    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        """Return the smallest sample."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """Return the distance of the quartiles, as a share of the median."""
        return spread(self.samples)


@dataclass
class Row:
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
class PeerRow:
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
    rows : list of Row
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
    peers : list of PeerRow
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
    rows: list[Row]
    copy_bandwidth: float = 0.0
    family: str = "reduce"
    title: str = ""
    flops: int = 0
    deck: tuple[str, float] | None = None
    refused: list[tuple[Rung, str]] = field(default_factory=list)
    operations: int = 0
    counted_title: str = ""
    peers: list[PeerRow] = field(default_factory=list)
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
        from gpuopt.show import plots

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


def peer_from_dict(told: dict[str, Any]) -> PeerRow:
    """Return the peer's row of which a file tells."""
    checks.told(PeerRow, told)
    return PeerRow(
        told["name"], told["version"], *(timing_from(told[mode]["samples"]) for mode in MODES)
    )


def _row_to_dict(row: Row) -> dict[str, Any]:
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


def _row_from_dict(told: dict[str, Any]) -> Row:
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
    checks.told(Row, told)
    return Row(
        _rung_from_dict(told["rung"]),
        told["algorithm_bytes"],
        timing_from(told["warm"]),
        timing_from(told["cold"]),
        counted,
        tuple(told["reference"]) if told["reference"] else None,
    )


def _verify(case: Case, rung: Rung, got: object) -> None:
    error = case.error(rung, got)
    if error:
        raise VerificationError(
            f"{rung.family} rung {rung.variant!r} gave {error}: nothing was measured"
        )


def _block(rung: Rung, block: int | None) -> int | None:
    """Return the block, for a rung that leaves a choice."""
    return block if rung.block_min < rung.block_max else None


# --- measuring


def ladder(
    family: str = "reduce",
    n: int | None = None,
    *,
    op: str | None = None,
    dtype: DTypeLike | None = None,
    block: int | None = None,
    device: str | None = None,
    counters: bool = True,
    peers: bool = False,
    rounds: int = 11,
    seed: int = 0,
    progress: Progress = lambda text, share: None,
) -> Ladder:
    """Verify and time every rung of a ladder on a device; `print` gives the deck's table.

    Parameters
    ----------
    family : {"reduce", "transpose", "stencil1d", "add", "saxpy", "matmul"}
    n : int, optional
        Items; of a square matrix about so many (of matmul's result). Default: the deck's, or what
        outgrows a GPU's caches.
    op : {"sum", "prod", "min", "max", "and", "or", "xor"}, optional
        The reduction's operation, by default "sum"; other families have none.
    dtype : dtype, optional
        Of items and result. Default: int32 for "reduce" (the decks' 32-bit arithmetic), else
        float32.
    block : int, optional
        Threads a block, for the rungs that leave a choice (matmul's leave none); default: the
        deck's.
    device : str, optional
        "cuda", "cuda:1", "cpu"; or "sim", "sim:g80", ...: counters instead of times. Default:
        GPUOPT_DEVICE; else a GPU if there is one, else the simulated GPU.
    counters : bool
        On a GPU: also count each rung on the simulated GPU, with as many items as that does in
        about a second for the whole ladder, and say what changed from rung to rung.
    peers : bool
        Also time the same work by NumPy, SciPy, CuPy, cuBLAS (through CuPy), PyTorch and JAX, as
        far as they are installed, and on the same GPU if they use one.
    rounds : int
        Samples of each rung: runs back to back, timed by the device; on a GPU several are started
        as one CUDA graph, so that the host's launches do not count.
    seed : int
        Of the random items.
    progress : callable
        Called with a line for people who wait, and the share of the work that is done.

    Returns
    -------
    Ladder

    Raises
    ------
    VerificationError
        A rung gave a wrong result.
    ValueError, TypeError
        An argument that is wrong: the message names it. Also peers=True on a simulated GPU, which
        has no timer.
    DeviceError, DeviceMemoryError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> measured = gpuopt.ladder("reduce", 10_000, device="cpu", rounds=1)
    >>> [row.rung.name for row in measured.rows]
    ['serial', 'openmp', 'simd']
    >>> print(gpuopt.ladder("reduce", 4096, device="sim").changes()[2])
    bank conflicts 1,485 -> 0; shared-memory wavefronts 2,442 -> 957; warp instructions -18%
    """
    device = device_name(device, "sim")
    described = describe_device(device)
    rounds = whole(rounds, "rounds", 1)
    timed = described.kind != "sim"
    if peers and not timed:
        raise ValueError(
            f"peers: {described.name} has no timer to compare with; it gives counters, device="
            "'cuda' or 'cpu' gives times"
        )
    # The decks' reduction table is of a size that a simulated GPU counts as well.
    case = cases.make(family, n, dtype, seed, timed=timed or family == "reduce", op=op)
    if block is not None and family == "matmul":
        raise ValueError("block: matmul's rungs have blocks of their own; leave block out")
    wanted = [
        rung
        for rung in rungs(family)
        if rung.host == (described.kind == "cpu") and not rung.historical
    ]
    deck = (DECK_CPU, 0.0) if described.kind == "cpu" and case.deck else case.deck
    measured = Ladder(
        described, (op or "sum") if family == "reduce" else family, case.dtype, case.n, block, [],
        0.0, family, case.title, case.flops, deck, operations=case.operations,
        date=datetime.now(UTC).isoformat(timespec="seconds"), version=_core.__version__,
    )  # fmt: skip
    if not timed:
        _count(measured, case, wanted, device, progress)
        return measured
    _time(measured, case, wanted, device, rounds, _found_peers(measured, case, peers), progress)
    if counters and described.kind == "cuda":
        _count_beside(measured, seed, progress)
    from gpuopt.measure import reference_times

    reference_times.compare_with(measured)
    return measured


def _found_peers(measured: Ladder, case: Case, wanted: bool) -> list[peer_libraries.Peer]:
    """Return the peers that are installed and right; note why the others are left out."""
    if not wanted:
        return []
    result = measured.dtype
    if result == "bool" and measured.op in ("sum", "prod"):
        result = "int64"
    task = peer_libraries.Task(measured.family, measured.op, result)
    found, measured.peers_refused = peer_libraries.find(
        task, case.arguments, gpu_number(measured.device)
    )
    return _right_peers(measured, case, found)


def _right_peers(
    measured: Ladder, case: Case, peers: list[peer_libraries.Peer]
) -> list[peer_libraries.Peer]:
    """Return those of the peers whose result is right now; note what the others gave."""
    # a transpose's check asks for the rung
    step = next((rung for rung in rungs(measured.family) if not rung.ceiling), None)

    def error_of(got: np.ndarray) -> str:
        return case.error(step, got[()] if got.ndim == 0 else np.ascontiguousarray(got))

    right, refused = peer_libraries.check(peers, error_of)
    for peer, reason in refused:
        measured.peers_refused.append((f"{peer.name} {peer.version}", reason))
    return right


@dataclass
class Racer:
    """What takes turns: a rung's or a peer's timing function, and its samples."""

    time: Callable[[int, bool], float]
    warm: Timing
    cold: Timing
    runs: int = 1
    rounds: int = 1

    def plan(self, rounds: int, sample_seconds: float = SAMPLE_SECONDS) -> None:
        """Choose how often to run it for a sample, and how many samples to take."""
        once = self.time(1, False)
        slow = once > SLOW_SECONDS
        self.rounds = min(rounds, SLOW_ROUNDS) if slow else rounds
        if not slow:
            once = self.time(3, False)
        self.runs = min(RUNS_MOST, max(1 if slow else 3, int(sample_seconds / once)))

    def sample(self, turn: int, cold: bool = True) -> None:
        """Take the samples of a round, unless it had fewer."""
        if turn < self.rounds:
            self.warm.samples.append(self.time(self.runs, False))
            if cold:
                self.cold.samples.append(self.time(self.runs, True))


class PeerRacer(Racer):
    """A library's: what it raises ends its race, not everybody's."""

    def __init__(self, peer: peer_libraries.Peer) -> None:
        super().__init__(peer.time, Timing(), Timing())
        self.peer, self.failure = peer, ""

    def plan(self, rounds: int, sample_seconds: float = SAMPLE_SECONDS) -> None:
        """Choose as others do."""
        self._try(super().plan, rounds, sample_seconds)

    def sample(self, turn: int, cold: bool = True) -> None:
        """Take the samples of a round, unless it had fewer or has failed."""
        self._try(super().sample, turn, cold)

    def _try(self, function: Callable[..., None], *arguments: Any) -> None:
        if self.failure:
            return
        try:
            function(*arguments)
        except Exception as error:  # whatever a library raises
            self.failure = peer_libraries.why(error)

    @property
    def row(self) -> PeerRow:
        """What a table has of it."""
        return PeerRow(self.peer.name, self.peer.version, self.warm, self.cold)


def _time(
    measured: Ladder,
    case: Case,
    wanted: list[Rung],
    device: str,
    rounds: int,
    peers: list[peer_libraries.Peer],
    progress: Progress,
) -> None:
    bench = case.bench(device)
    progress("verifying", 0.1)
    for rung in wanted:
        call = rung.variant, _block(rung, measured.block)
        try:
            size, got = bench.bytes(*call), bench.run(*call)
        except UnfitError as error:
            measured.refused.append((rung, str(error)))
            continue
        _verify(case, rung, got)
        measured.rows.append(Row(rung, size))
    if not measured.rows:
        return
    calls = [(row, row.rung.variant, _block(row.rung, measured.block)) for row in measured.rows]
    # Before the rungs: once the copy has run (or graphs on a second stream), an H200 starts the
    # kernels of every graph some 0.3 us later, for as long as the process lives: not in the second
    # ladder alone, but in all of them.
    progress("measuring the copy", 0.15)
    copied = COPY_BYTES[measured.device.kind]
    measured.copy_bandwidth = copy_bandwidth(measured.device, bytes_read=copied)
    racers = [
        Racer(
            lambda runs, cold, call=call: bench.time(*call, runs=runs, cold=cold),
            row.warm,
            row.cold,
        )
        for row, *call in calls
    ]
    others = [PeerRacer(peer) for peer in peers]
    for racer in (*racers, *others):
        racer.plan(rounds)
    fast = min(racers, key=lambda each: each.time(1, False))
    spent = 0.0
    while spent < WARM_UP_SECONDS and measured.device.kind == "cuda":
        spent += fast.runs * fast.time(fast.runs, False)
    cold = peer_libraries.can_be_cold(case.arguments, measured.device.cache_bytes)
    for turn in range(rounds):
        progress(f"timing, round {turn + 1} of {rounds}", 0.2 + 0.6 * turn / rounds)
        for racer in racers:
            racer.sample(turn)
        for racer in others:
            racer.sample(turn, cold)
    progress("verifying again", 0.8)
    for row, *call in calls:
        _verify(case, row.rung, bench.run(*call))
    timed = [racer for racer in others if not racer.failure]
    right = _right_peers(measured, case, [racer.peer for racer in timed])
    measured.peers = [racer.row for racer in timed if racer.peer in right]
    measured.peers_refused += [
        (f"{racer.peer.name} {racer.peer.version}", racer.failure)
        for racer in others
        if racer.failure
    ]


def _count(
    measured: Ladder,
    case: Case,
    wanted: list[Rung],
    device: str,
    progress: Progress,
) -> None:
    for at, rung in enumerate(wanted):
        progress(f"counting {ladder_table.label(rung)}", at / len(wanted))
        try:
            counted = profile(case.call, rung, _block(rung, measured.block), device)
        except UnfitError as error:
            measured.refused.append((rung, str(error)))
            continue
        _verify(case, rung, counted.result)
        measured.rows.append(Row(rung, counted=counted))


def count(
    family: str,
    variant: int | str | None = None,
    n: int | None = None,
    *,
    op: str | None = None,
    dtype: DTypeLike | None = None,
    block: int | None = None,
    device: str = "sim",
) -> tuple[Rung, str, Profile]:
    """Verify one rung and count what it does; return it, what it did it on, and the counters.

    The parameters are `ladder`'s, and the rung's number or name; by default the one that the
    library takes for the case. Raises `VerificationError` where the result is wrong.
    """
    rung = None if variant is None else find(family, variant)
    if rung:
        check_kernel(rung, "count")
    case = cases.make(family, n, dtype, op=op)
    rung = rung or find(family, case.bench(device).rung())
    counted = profile(case.call, rung, _block(rung, block), device, device=device)
    _verify(case, rung, counted.result)
    return rung, f"{case.title}, on a {describe_device(device).description}", counted


def _count_beside(measured: Ladder, seed: int, progress: Progress) -> None:
    """Count the timed rungs on the simulated GPU, on fewer items."""
    n = min(cases.ITEMS[measured.family][1], measured.n)
    op = measured.op if measured.family == "reduce" else None
    case = cases.make(measured.family, n, measured.dtype, seed, op=op)
    for at, row in enumerate(measured.rows):
        progress(f"counting {ladder_table.label(row.rung)}", 0.92 + 0.08 * at / len(measured.rows))
        try:
            row.counted = profile(case.call, row.rung, _block(row.rung, measured.block), "sim")
        except ValueError:
            continue  # a rung that cannot take so few items, or what the simulated GPU lacks
        _verify(case, row.rung, row.counted.result)
    measured.counted_title = f"{case.title}, on a {describe_device('sim').description}"
