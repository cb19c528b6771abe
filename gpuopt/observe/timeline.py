"""A program on a simulated GPU in time: its copies and kernels on their streams, by a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from gpuopt import _core
from gpuopt.catalog.host_link import QUEUED, START, host_link
from gpuopt.catalog.limits import gpu
from gpuopt.catalog.schedule import Schedule, Work
from gpuopt.observe.bounds import Bounds, preset_row
from gpuopt.observe.launches import Launch
from gpuopt.observe.prediction import Prediction
from gpuopt.ptx.streams import Piece
from gpuopt.util.serialise import Written
from gpuopt.util.svg import WIDTH, Canvas, Picture, fit
from gpuopt.util.table import Column, Table, Tabled

KERNELS = "kernels"
ROWS_MOST = 48  # steps of a table
BAR = 32  # characters of the table's time axis
_NAMES = {"in": "copies in", "out": "copies out"}
_COLOURS = {"in": "half", "kernel": "active", "out": "bad"}


@dataclass(frozen=True)
class Step:
    """A part of the program.

    Attributes
    ----------
    name : str
        "copies in", "kernel NAME", "copies out"; on streams "copy in", ...
    count, nbytes : int
    seconds, begin : float
        How long it takes, and when it begins.
    stream : int
        From 1; 0: the host waits for it.
    engine : {"in", "kernel", "out"}
    """

    name: str
    count: int
    nbytes: int
    seconds: float
    begin: float = 0.0
    stream: int = 0
    engine: str = "kernel"

    @property
    def end(self) -> float:
        """When it ends."""
        return self.begin + self.seconds


@dataclass(frozen=True, repr=False)
class Timeline(Written, Tabled):
    """A program's parts in time; `print` shows a table, Jupyter a picture as well.

    Attributes
    ----------
    device : str
        The GPU.
    link : str
        Its link to the host.
    allocations : int
    steps : list of Step
        In the order of their issue: `name`, `count`, `nbytes`, `seconds`, `begin`, `end`, `stream`
        (0: the host waits for it) and `engine`.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.ones(1 << 16, np.float32)
    >>> line = gpuopt.profile(gpuopt.add, x, x, variant=5, device="sim:k40").timeline()
    >>> [each["name"] for each in line.records()]
    ['copies in', 'kernel vector_5_add_float32_float32', 'copies out']
    """

    KIND = "timeline"
    TOLD = ("device", "link", "allocations", "seconds")
    RECORDS = "steps"

    device: str
    link: str
    allocations: int
    steps: list[Step]

    @property
    def seconds(self) -> float:
        """The time from the first part's begin to the last one's end."""
        return max((each.end for each in self.steps), default=0.0)

    @property
    def serial(self) -> float:
        """The time of all parts, one after the other."""
        return sum(each.seconds for each in self.steps)

    @property
    def limiter(self) -> str:
        """The kind of work that is in flight for longer: "copies" or "kernels"."""
        kernels = _busy(each for each in self.steps if each.engine == "kernel")
        copies = _busy(each for each in self.steps if each.engine != "kernel")
        return KERNELS if kernels > copies else "copies"

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each part, for pandas: begin and duration in seconds."""
        return [vars(each) | {"share": each.seconds / self.seconds} for each in self.steps]

    def _above(self) -> list[str]:
        takes = f"{self.seconds * 1e6:,.4g} us"
        if any(each.stream for each in self.steps):
            takes += f", one after the other {self.serial * 1e6:,.4g}"
        return [
            f"a program on a {self.device} over {self.link}, by a model: {takes}; "
            f"{self.allocations} allocations; the {self.limiter} are the limiter"
        ]

    def _bar(self, step: Step) -> str:
        scale = BAR / (self.seconds or 1.0)
        begin = min(round(step.begin * scale), BAR - 1)
        return " " * begin + "#" * max(1, round(step.end * scale) - begin)

    def _table(self) -> Table:
        streams = any(each.stream for each in self.steps)
        columns = [
            Column("name", "part", left=True),
            Column("on", "stream"),
            Column("count", "times"),
            Column("nbytes", "bytes"),
            Column("begin", "from\nus", "~", 1e6),
            Column("seconds", "takes\nus", "~", 1e6),
            Column("share", "share", ".0%"),
            Column("bar", "in time", left=True, keep=9),
        ]
        records = [
            each | {"on": str(each["stream"] or "host") if streams else None}
            | {"bar": self._bar(step)}
            for each, step in zip(self.records(), self.steps[:ROWS_MOST], strict=False)
        ]  # fmt: skip
        return Table(columns, records)

    def _below(self) -> list[str]:
        more = len(self.steps) - ROWS_MOST
        return [f"and {more:,} more parts"] if more > 0 else []

    def picture(self) -> Picture:
        """Return the time line as a drawing: a row for each stream, a box for each part.

        Returns
        -------
        Picture
            Its `data` holds the records.
        """
        canvas, left = Canvas(), 84
        title = f"A program on a {self.device}"
        y = canvas.heading(title, self._above()[0])
        kinds = [("half", "copies in"), ("active", "kernels"), ("bad", "copies out")]
        canvas.legend(14, y + 6, kinds)
        y += 24
        scale = (WIDTH - left - 14) / (self.seconds or 1.0)
        for stream in sorted({each.stream for each in self.steps}):
            canvas.text(14, y + 16, f"stream {stream}" if stream else "host waits", size=11)
            for each in self.steps:
                if each.stream != stream:
                    continue
                x, width = left + each.begin * scale, max(1.0, each.seconds * scale - 0.7)
                tip = f"{each.name}: {each.begin * 1e6:,.4g} us, takes {each.seconds * 1e6:,.4g}"
                canvas.rect(x, y, width, 22, _COLOURS[each.engine], tip)
                name = fit(each.name, width - 6, 9)
                if len(name) > 3:
                    kind = "on" if each.engine == "kernel" else "ink"
                    canvas.text(x + 3, y + 15, name, size=9, kind=kind)
            y += 28
        canvas.text(left, y + 10, "0", size=9, kind="soft")
        end = f"{self.seconds * 1e6:,.4g} us"
        canvas.text(WIDTH - 14, y + 10, end, size=9, kind="soft", anchor="end")
        return canvas.picture(y + 22, title, self._above()[0], {"steps": self.records()})

    def _repr_html_(self) -> str:
        table = self._table()
        bar = table.columns[-1].key == "bar"
        table.columns, table.rows = table.columns[:-bar], [row[:-bar] for row in table.rows]
        return f"{self.picture().svg}{table.html(self._above()[0], self._below())}"


def _busy(steps: Iterable[Step]) -> float:
    """Return the time in which any of the steps is in flight."""
    total = end = 0.0
    for each in sorted(steps, key=lambda step: step.begin):
        total += max(0.0, each.end - max(end, each.begin))
        end = max(end, each.end)
    return total


# --- what a program did, in the order in which the host did it


@dataclass(frozen=True)
class _Copies:
    """Copies that the host waited for."""

    engine: str
    count: int
    nbytes: int


@dataclass
class Program:
    """The copies, launches and waits of a profile, as the host made them.

    Attributes
    ----------
    allocations : int
    log : list
        `_Copies`, a launch's index, a `Piece`, and ("wait", number).
    launches : dict
        The launch's index, by a piece's number.
    ended_pieces : set of int
        The numbers of the pieces that have run.
    began : bool
        Whether copies were counted.
    """

    allocations: int = 0
    log: list[Any] = field(default_factory=list)
    launches: dict[int, int] = field(default_factory=dict)
    ended_pieces: set[int] = field(default_factory=set)
    began: bool = False
    _traffic: Sequence[int] = ()
    _running: Piece | None = None
    _results: list[_Copies] = field(default_factory=list)  # of the launches logged last

    def resume(self) -> None:
        """Begin to count copies."""
        self.began = True
        self._traffic = _core.sim_traffic()

    def end(self) -> None:
        """Log the last copies."""
        if self.began:
            self.flush()

    def _copies(self) -> list[_Copies]:
        """Return the copies since the last entry, in and out."""
        now = _core.sim_traffic()
        new = [after - before for before, after in zip(self._traffic, now, strict=True)]
        self._traffic = now
        self.allocations += new[0]
        found = (_Copies("in", new[2], new[1]), _Copies("out", new[4], new[3]))
        return [each for each in found if each.count and not self._running]

    def flush(self) -> None:
        """Log the copies that the host has waited for."""
        new = self._copies()
        self.log += self._results + new
        self._results = []

    def launched(self, index: int) -> None:
        """Log a launch, of the piece that runs or of the host.

        The launches of a function arrive after the copies of its results, which follow them here.
        """
        new = self._copies()
        if self._running:
            self.launches[self._running.number] = index
            return
        if new:
            self.log += self._results
            self._results = []
        self.log += [each for each in new if each.engine == "in"]
        self.log.append(index)
        self._results += [each for each in new if each.engine == "out"]

    def issued(self, piece: Piece) -> None:
        """Log a stream's work."""
        self.flush()
        self.log.append(piece)
        if not piece.pinned:
            self.log.append(("wait", piece.number))

    def begins(self, piece: Piece) -> None:
        """Note what runs."""
        self.flush()
        if piece not in self.log:  # issued before the profile began
            self.log.append(piece)
        self._running = piece

    def ended(self, piece: Piece) -> None:
        """Note what has run."""
        self.flush()
        self._running = None
        self.ended_pieces.add(piece.number)

    def copied(self) -> None:
        """Log a copy that the host has waited for."""
        self.flush()

    def waited(self, number: int) -> None:
        """Log a wait of the host."""
        self.flush()
        self.log.append(("wait", number))

    def timeline(
        self, launches: Sequence[Launch], bounds: Bounds, predicted: Prediction
    ) -> Timeline:
        """Return the program in time."""
        device = launches[0].device
        link = host_link(device)
        kernels = [
            Step(f"kernel {each.kernel}", 1, 0, each.seconds if each.bound else bound.least)
            for each, bound in zip(predicted.launches, bounds.launches, strict=True)
        ]
        schedule, steps, numbers = Schedule(device), [], {}
        streams: dict[int, int] = {}
        for entry in self.log:
            if isinstance(entry, tuple) and not isinstance(entry, Piece):
                schedule.wait([numbers[entry[1]]] if entry[1] in numbers else [])
                continue
            stream, share, after = 0, 1.0, ()
            if isinstance(entry, _Copies):
                seconds = entry.count * START + entry.nbytes / link.pageable
                step = Step(_NAMES[entry.engine], entry.count, entry.nbytes, seconds,
                            engine=entry.engine)  # fmt: skip
            elif isinstance(entry, int):
                step, share = kernels[entry], _share(launches[entry])
            elif entry.number not in self.ended_pieces:
                continue
            else:
                stream = streams.setdefault(entry.stream, len(streams) + 1)
                after = tuple(numbers[each] for each in entry.after if each in numbers)
                if entry.engine == "kernel":
                    index = self.launches[entry.number]
                    step, share = kernels[index], _share(launches[index])
                else:
                    step = _copy(entry, link.pinned if entry.pinned else link.pageable)
            work = Work(stream, step.engine, step.seconds, share, after)
            steps.append((step, stream))
            if stream:
                numbers[entry.number] = schedule.enqueue(work)
            else:
                schedule.wait([schedule.issue(work)])
        schedule.finish()
        placed = [
            Step(step.name, step.count, step.nbytes, step.seconds, begin, stream, step.engine)
            for (step, stream), begin in zip(steps, schedule.begins, strict=True)
        ]
        return Timeline(bounds.device, link.name, self.allocations, placed)


def _copy(piece: Piece, rate: float) -> Step:
    if piece.engine == "on":  # by a kernel, which reads and writes
        rate = preset_row(piece.device)["bandwidth_gbs"] * 1e9 / 2
        return Step("copy on the device", 1, piece.nbytes, QUEUED + piece.nbytes / rate)
    seconds = (QUEUED if piece.pinned else START) + piece.nbytes / rate
    return Step(f"copy {piece.engine}", 1, piece.nbytes, seconds, engine=piece.engine)


def _share(launch: Launch) -> float:
    """Return the part of the GPU that a launch's blocks fill, up to 1."""
    limits = gpu(launch.device)
    warps = ceil(prod(launch.block) / 32)
    at_once = max(1, round(launch.occupancy * limits.warps / warps)) * launch.busy[1]
    return min(1.0, prod(launch.grid) / at_once)
