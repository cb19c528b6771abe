"""overlap: copies on one stream while a kernel runs on another."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.catalog.host_link import QUEUED
from gpuopt.catalog.schedule import Schedule, Work
from gpuopt.experiments import _lab, _steps
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.experiments._steps import Timed
from gpuopt.families import oracle
from gpuopt.measure.race import VerificationError
from gpuopt.ptx.buffers import Buffer, Prepared, copy_async
from gpuopt.ptx.module import Module
from gpuopt.ptx.streams import Stream
from gpuopt.util.names import suggests

BLOCK = 256
ROUNDS = 7
STREAMS_AND_CHUNKS = ((1, 8), (2, 2), (2, 8), (3, 8), (4, 16), (4, 64))
STEPS_MOST = 100_000
STEPS = 4  # of the generator, on a simulated GPU
MODELLED = 4 << 25  # bytes, whose times the model gives
COLUMNS = [
    Column("streams", "streams"),
    Column("chunks", "chunks"),
    Column("seconds", "us", ",.1f", 1e6),
    Column("spread", "spread", ".1%"),
    Column("speedup", "speedup", ".2f"),
]


@suggests
def overlap(n: int | None = None, *, device: str | None = None) -> Experiment:
    """Copy in, compute, copy out: one after the other against chunks on two and more streams.

    The kernel's work is chosen so that it takes about as long as a copy.

    Parameters
    ----------
    n : int, optional
        32-bit items, at least 4096. Default: 2^25, 128 MiB.
    device : str, optional
        A GPU, "cuda" or "cuda:1". On a simulated GPU ("sim" is D1's K40) streams run the program,
        on 16,384 items by default, and a model of the link and its copy engines gives the times of
        2^25: a G80 has no copy engine, so that nothing overlaps.

    Returns
    -------
    Experiment
        Rows "copy in", "kernel", "copy out", each alone; "serial"; "S streams, C chunks" each.
        `seconds`; the share is of the longest of the three alone, the least that any overlap can
        take, over the row's time. `speedup` is over "serial".

    Raises
    ------
    TypeError, ValueError
        An `n` that is no such count; a device that runs no kernels.
    VerificationError
        A wrong result: what a missing dependence between streams gives.

    Notes
    -----
    Source: decks D1 and D3. Host memory is pinned: copies of other memory wait.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.overlap(device="sim:k40")
    >>> found["2 streams, 8 chunks"].values["speedup"] > 1.5
    True
    """
    described = _steps.choose(device, "overlap", "k40")
    n = _lab.size(n, 1 << 14 if described.kind == "sim" else 1 << 25)
    if n < 4096:
        raise ValueError(f"n: must be at least 4096, to be split into chunks, not {n}")
    if described.kind == "sim":
        return _modelled(described, n)
    work = _Pipeline(Module(None, described.name), n, described.multiprocessors)
    trials = [*work.alone(), work.pipeline("serial", 1, 1)]
    for streams, chunks in STREAMS_AND_CHUNKS:
        name = f"{streams} stream{'s' * (streams > 1)}, {chunks} chunks"
        trials.append(work.pipeline(name, streams, chunks))
    _steps.measure(work.module, trials, ROUNDS)
    least = max(trial.timing.median for trial in trials[:3])
    serial = trials[3].timing.median
    return Experiment(
        "overlap",
        described,
        f"{n:,} items in, {work.steps:,} steps of a generator each, and out",
        COLUMNS,
        [_row(trial, least, serial) for trial in trials],
        "the longest of the three alone, which no overlap can hide",
        [f"medians of {ROUNDS} samples in turns, verified before and after; pinned host memory"],
    )


class _Pipeline:
    """The arrays, and the steps of any division into chunks."""

    def __init__(self, module: Module, n: int, multiprocessors: int) -> None:
        self.module, self.n, self.blocks = module, n, 8 * multiprocessors
        self.source = module.pinned(n, np.uint32)
        self.target = module.pinned(n, np.uint32)
        self.source[...] = np.random.default_rng(3).integers(0, 2**32, n, np.uint32)
        self.whole = module.copy(self.source)
        self.steps = 1
        self.steps = self._balance()
        self.right = _steps.advanced(self.source, self.steps)

    def _kernel(self, buffer: Buffer, stream: int = 0) -> Prepared:
        kernel = self.module["micro_advance_uint32"]
        return kernel.bind(self.blocks, BLOCK, buffer, buffer.nbytes // 4, self.steps).on(stream)

    def _balance(self) -> int:
        """Return the steps for which the kernel takes as long as a copy."""
        copy = self.module.time(self.module.transfer(self.whole, self.source), 3)
        self.steps = 256
        many = self.module.time(self._kernel(self.whole), 3)
        return max(1, min(STEPS_MOST, round(256 * copy / many)))

    def _poison(self) -> None:
        self.target[...] = ~self.right

    def _check(self) -> str:
        return oracle.wrong(self.target, self.right)

    def alone(self) -> list[Timed]:
        """Return the three parts, each by itself."""
        whole, core = self.whole, self.module._core

        def holds(right: np.ndarray) -> Callable[[], str]:
            return lambda: oracle.wrong(whole.get(np.uint32), right)

        def load(items: np.ndarray) -> Callable[[], None]:
            return lambda: core.copy_in(whole.address, items)

        def poison_both() -> None:
            core.copy_in(whole.address, self.right)
            self._poison()

        # Timed runs begin with one that is not timed: the kernel goes twice over its items.
        twice = _steps.advanced(self.right, self.steps)
        return [
            Timed("copy in", [self.module.transfer(whole, self.source)], load(~self.source),
                  holds(self.source)),
            Timed("kernel", [self._kernel(whole)], load(self.source), holds(twice)),
            Timed("copy out", [self.module.transfer(self.target, whole)], poison_both,
                  self._check),
        ]  # fmt: skip

    def pipeline(self, name: str, streams: int, chunks: int) -> Timed:
        """Return copy, kernel, copy of each chunk, the chunks dealt out to the streams."""
        bounds = [self.n * i // chunks for i in range(chunks + 1)]
        steps = []
        for i, (begin, end) in enumerate(pairwise(bounds)):
            buffer = self.module.empty(4 * (end - begin))
            stream = i % streams
            steps += [
                self.module.transfer(buffer, self.source[begin:end]).on(stream),
                self._kernel(buffer, stream),
                self.module.transfer(self.target[begin:end], buffer).on(stream),
            ]
        return Timed(name, steps, self._poison, self._check)


def _modelled(device: Device, n: int) -> Experiment:
    """Run each division on the simulated GPU's streams, verified; return the model's times."""
    link, module = models.host_link(device), Module(None, device.name)
    kernel = MODELLED / link.pinned  # as long as a copy
    alone = {"copy in": kernel, "kernel": kernel, "copy out": kernel}
    rows = [Row(name, {}, {"seconds": each}, None, "alone") for name, each in alone.items()]
    serial = sum(alone.values()) + 2 * QUEUED
    for streams, chunks in ((1, 1), *STREAMS_AND_CHUNKS):
        _run_on_streams(module, n, streams, chunks)
        seconds = _scheduled(device, streams, chunks, kernel)
        name = f"{streams} stream{'s' * (streams > 1)}, {chunks} chunks"
        rows.append(
            Row(
                "serial" if chunks == 1 else name,
                {"streams": streams, "chunks": chunks},
                {"seconds": seconds, "speedup": serial / seconds},
                kernel / seconds,
                _reading(streams, chunks, serial / seconds)
                if link.engines
                else "no copy engine: nothing overlaps on this GPU",
            )
        )
    columns = [column for column in COLUMNS if column.key != "spread"]
    notes = [f"{n:,} items ran on simulated streams, verified; times are a model's, of {link.name}"]
    return Experiment(
        "overlap", device, f"{MODELLED >> 20} MiB in, a kernel as long as a copy, and out",
        columns, rows, "the longest of the three alone, which no overlap can hide", notes,
    )  # fmt: skip


def _run_on_streams(module: Module, n: int, streams: int, chunks: int) -> None:
    """Copy in, compute, copy out, chunk by chunk on streams of a simulated GPU; verify it."""
    source, target = module.pinned(n, np.uint32), module.pinned(n, np.uint32)
    source[...] = np.arange(n, dtype=np.uint32)
    queues = [Stream(module.device) for _ in range(streams)]
    for i in range(chunks):
        part, stream = slice(n * i // chunks, n * (i + 1) // chunks), queues[i % streams]
        buffer = module.empty(4 * (part.stop - part.start))
        copy_async(buffer, source[part], stream)
        kernel = module["micro_advance_uint32"]
        kernel(1, BLOCK, buffer, part.stop - part.start, STEPS, stream=stream)
        copy_async(target[part], buffer, stream)
    for stream in queues:
        stream.synchronize()
    wrong = oracle.wrong(target, _steps.advanced(source, STEPS))
    if wrong:
        raise VerificationError(f"{streams} streams, {chunks} chunks: gave {wrong}")


def _scheduled(device: Device, streams: int, chunks: int, part: float) -> float:
    """Return the end of the last copy, by the model of streams and engines.

    Issued in rounds of a chunk per stream: the copies in, the kernels, the copies out. In one chunk
    after the other a single copy engine would wait for each kernel before the next copy in.
    """
    schedule = Schedule(device)
    for first in range(0, chunks, streams):
        for engine in ("in", "kernel", "out"):
            seconds = part / chunks + (QUEUED if engine != "kernel" else 0.0)
            for stream in range(min(streams, chunks - first)):
                schedule.enqueue(Work(stream, engine, seconds))
    schedule.finish()
    return max(schedule.ends)


def _reading(streams: int, chunks: int, speedup: float) -> str:
    if chunks == 1:
        return "nothing overlaps: the sum of the three"
    if streams == 1:
        return "one stream runs in order, however many chunks: nothing overlaps"
    return f"{speedup:.2f} times as fast as serial"


def _row(trial: Timed, least: float, serial: float) -> Row:
    chunks = len(trial.steps) // 3
    parameters = {}
    reading = "alone"
    if chunks:
        streams = 1 + max(step.stream for step in trial.steps)
        parameters = {"streams": streams, "chunks": chunks}
        reading = _reading(streams, chunks, serial / trial.timing.median)
    values = {"seconds": trial.timing.median, "spread": trial.timing.spread}
    if chunks:
        values["speedup"] = serial / trial.timing.median
    return Row(
        trial.name, parameters, values, least / trial.timing.median if chunks else None, reading
    )
