"""When a program's copies and kernels run: engines that overlap, streams that keep their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from gpuopt.catalog.devices import Device
from gpuopt.catalog.host_link import CALL, host_link
from gpuopt.catalog.limits import Gpu, gpu

_SIDE_BY_SIDE = 20  # compute capability, times ten, from which kernels of two streams may overlap
_OWN_QUEUES = 35  # from which a stream's work never waits behind another stream's
_WHOLE = 1 + 1e-9


class Work(NamedTuple):
    """A copy or a kernel.

    Attributes
    ----------
    stream : int
        Work of one stream runs in order.
    engine : {"in", "out", "kernel"}
    seconds : float
        How long it takes alone.
    share : float
        The part of the GPU that a kernel's blocks fill, up to 1.
    after : tuple of int
        The numbers of work that must have ended, of other streams.
    """

    stream: int
    engine: str
    seconds: float
    share: float = 1.0
    after: tuple[int, ...] = ()


class Schedule:
    """The times of work that a host enqueues, by a model of the engines.

    A copy engine and the multiprocessors do one thing at a time each; kernels whose blocks fit
    together run side by side from Fermi on. Before Kepler's second generation each engine takes its
    work in the order of issue, whatever that waits for; later ones take the first that is ready. A
    GPU without a copy engine does everything in the order of issue.

    Parameters
    ----------
    which : str, Device or Gpu
        As `models.gpu`.

    Attributes
    ----------
    host : float
        The host's clock, in seconds: work is issued then.
    begins, ends : list of float
        By the work's number; complete after `finish`.
    """

    def __init__(self, which: str | Device | Gpu) -> None:
        found = gpu(which)
        major, minor = found.compute_capability.split(".")
        self._capability = 10 * int(major) + int(minor)
        self._engines = host_link(found).engines
        self.host = 0.0
        self.begins: list[float] = []
        self.ends: list[float] = []
        self._work: list[Work] = []
        self._issued: list[float] = []
        self._streams: dict[int, deque[int]] = {}
        self._queues: dict[str, deque[int]] = {}
        self._pending: set[int] = set()
        self._free: dict[str, float] = {}
        self._ready: dict[int, float] = {}
        self._kernels: list[int] = []  # that may still run

    def _engine(self, work: Work) -> str:
        if not self._engines:
            return "all"
        return work.engine if work.engine == "kernel" or self._engines > 1 else "copy"

    def enqueue(self, work: Work) -> int:
        """Let the host's call enqueue work on a stream, and return its number."""
        number = self.issue(work)
        self.host += CALL
        return number

    def issue(self, work: Work) -> int:
        """Issue work at the host's time, and return its number."""
        number = len(self._work)
        self._work.append(work)
        self._issued.append(self.host)
        self.begins.append(0.0)
        self.ends.append(0.0)
        self._pending.add(number)
        self._streams.setdefault(work.stream, deque()).append(number)
        self._queues.setdefault(self._engine(work), deque()).append(number)
        return number

    def wait(self, numbers: Iterable[int]) -> None:
        """Let the host wait for work."""
        for number in numbers:
            while number in self._pending:
                self._advance()
            self.host = max(self.host, self.ends[number])

    def finish(self) -> None:
        """Run all work that is left."""
        while self._pending:
            self._advance()

    def _advance(self) -> None:
        """Let the work begin that can begin first."""
        heads = [queue[0] for queue in self._streams.values() if queue]
        able = [number for number in heads if not self._pending & set(self._work[number].after)]
        if self._capability < _OWN_QUEUES:
            first = {queue[0] for queue in self._queues.values() if queue}
            able = [number for number in able if number in first]
        begin, number = min((self._begin(number), number) for number in able)
        work = self._work[number]
        engine, end = self._engine(work), begin + work.seconds
        self.begins[number], self.ends[number] = begin, end
        self._pending.remove(number)
        self._streams[work.stream].popleft()
        self._queues[engine].remove(number)
        self._ready[work.stream] = end
        if work.engine == "kernel":
            self._kernels = [each for each in self._kernels if self.ends[each] > begin] + [number]
        self._free[engine] = max(end, self._free.get(engine, 0.0))

    def _begin(self, number: int) -> float:
        work = self._work[number]
        ready = max(
            self._issued[number],
            self._ready.get(work.stream, 0.0),
            *(self.ends[each] for each in work.after),
        )
        if work.engine != "kernel" or self._capability < _SIDE_BY_SIDE:
            return max(ready, self._free.get(self._engine(work), 0.0))
        for time in sorted({ready, *(self.ends[each] for each in self._kernels)}):
            running = (
                each for each in self._kernels if self.begins[each] <= time < self.ends[each]
            )
            if time >= ready and work.share + sum(self._work[k].share for k in running) <= _WHOLE:
                return time
        return ready
