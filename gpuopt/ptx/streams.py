"""Streams and events of a simulated GPU: the order of asynchronous work.

Work on a stream waits until something needs it: a query, a wait, or work that the host waits for
anyway, as on CUDA's legacy default stream. So a program that forgets to wait sees old data, as it
may on a GPU. Between streams the order is simulated: they take turns, one piece of work each.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple, Protocol

from gpuopt.catalog.devices import device as describe_device, device_name

_LOCK = threading.RLock()
_STREAMS: dict[str, weakref.WeakSet[Stream]] = {}  # by device
_BUSY: set[Stream] = set()  # as on a GPU, work ends although nobody holds its stream


_NUMBERS = count(1)


class Piece(NamedTuple):
    """A copy or a kernel on a stream, as watchers receive it.

    Attributes
    ----------
    number : int
        Each piece has its own.
    stream : int
        Its stream's.
    device, text : str
    engine : {"in", "out", "on", "kernel"}
        A copy to, from or on the device, or a kernel.
    nbytes : int
    pinned : bool
        The copy's host memory is page-locked.
    after : tuple of int
        The numbers of work that it waits for, by events.
    """

    number: int
    stream: int
    device: str
    text: str
    engine: str
    nbytes: int
    pinned: bool
    after: tuple[int, ...]


class Watcher(Protocol):
    """Receives the work of streams."""

    def issued(self, piece: Piece) -> None:
        """Note work that the host has enqueued."""

    def begins(self, piece: Piece) -> None:
        """Note work that runs now."""

    def ended(self, piece: Piece) -> None:
        """Note work that has run."""

    def waited(self, number: int) -> None:
        """Note that the host has waited for the work of this number."""

    def copied(self) -> None:
        """Note that the host has copied memory of a device, and waited for it."""


watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


class _Work(NamedTuple):
    run: Callable[[], None]
    piece: Piece | None = None  # None: an event, or a wait
    before: Event | None = None  # a wait: not until this event is reached


class Event:
    """A mark in a stream's work: `Stream.record` makes it, `Stream.wait` and the host wait for it.

    Examples
    --------
    >>> import gpuopt
    >>> stream = gpuopt.Stream("sim")
    >>> event = stream.record()  # without work before it, the mark is reached at once
    >>> event.query()
    True
    """

    def __init__(self) -> None:
        self._stream: Stream | None = None  # where it is recorded; None: never
        self._reached = True
        self._after = 0  # the number of the last work before it; 0: none

    def __repr__(self) -> str:
        return f"<Event, {'reached' if self._reached else 'not reached'}>"

    def query(self) -> bool:
        """Tell whether all work before the mark has ended; of an unrecorded event, True."""
        if self._reached:
            _tell_waited(self._after)
        return self._reached

    def synchronize(self) -> None:
        """Wait for all work before the mark.

        Raises
        ------
        SimError
            A kernel before the mark failed.
        """
        with _LOCK:
            self._reach()
        _tell_waited(self._after)

    def _reach(self) -> None:
        while not self._reached and self._stream is not None:
            self._stream._step()


def _tell_waited(number: int) -> None:
    if number:
        for each in watchers.get():
            each.waited(number)


class Stream:
    """A queue of kernels and copies on a simulated GPU, which run in this order.

    Parameters
    ----------
    device : str, optional
        "sim", "sim:g80", ... Default: as `gpuopt.load_ptx`; on a GPU use a stream of CuPy, PyTorch
        or Numba with `Module.use_stream`.

    Attributes
    ----------
    device : str
    done : list of str
        The work that has run, in order.

    Raises
    ------
    ValueError
        The device is not a simulated GPU.

    Notes
    -----
    Work runs when the host queries or waits, when it launches a kernel without a stream, and when
    it reads a `Buffer`; a profile counts it then. A kernel's error is raised there, and drops the
    stream's other work. A simulated GPU has no clock: `Profile.timeline` tells by a model when
    each piece would run, and what overlaps.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> module = gpuopt.load_ptx(ptx, device="sim")
    >>> stream = gpuopt.Stream("sim")
    >>> buffer, host = module.empty(16), module.pinned(4, np.int32)
    >>> host[:] = 1
    >>> gpuopt.copy_async(buffer, host, stream)
    >>> module["k"](1, 32, stream=stream)
    >>> stream.query(), stream.query()
    (False, True)
    >>> stream.done
    ['copy of 16 bytes to the device', 'kernel k']
    """

    def __init__(self, device: str | None = None) -> None:
        name = describe_device(device_name(device, "sim")).name
        if not name.startswith("sim"):
            raise ValueError(
                f"device: {name} is not a simulated GPU; there, use a stream of CuPy, PyTorch or "
                "Numba with Module.use_stream"
            )
        self.device = name
        self.done: list[str] = []
        self._work: deque[_Work] = deque()
        self._number = next(_NUMBERS)
        self._last = 0  # the number of the work that was enqueued last
        self._after: tuple[int, ...] = ()  # what the next work waits for
        with _LOCK:
            _STREAMS.setdefault(name, weakref.WeakSet()).add(self)

    def __repr__(self) -> str:
        return f"<Stream on {self.device}, {len(self._work)} pending>"

    def query(self) -> bool:
        """Tell whether all work has ended; each call lets every stream of the GPU run one piece.

        Raises
        ------
        SimError
            A kernel failed.
        """
        with _LOCK:
            for stream in sorted(_STREAMS[self.device], key=lambda each: each is not self):
                if stream._work:
                    stream._step()
            ended = not self._work
        if ended:
            _tell_waited(self._last)
        return ended

    def synchronize(self) -> None:
        """Wait for all work of the stream.

        Raises
        ------
        SimError
            A kernel failed.
        """
        with _LOCK:
            while self._work:
                self._step()
        _tell_waited(self._last)

    def record(self, event: Event | None = None) -> Event:
        """Mark the end of the work so far, with a new event or a given one."""
        event = Event() if event is None else event
        if not isinstance(event, Event):
            raise TypeError(f"event: must be a gpuopt.Event, not {event!r:.60}")
        with _LOCK:
            event._stream, event._reached = self, not self._work
            event._after = self._last
            if self._work:
                self._append(_Work(lambda: setattr(event, "_reached", True)))
        return event

    def wait(self, event: Event) -> None:
        """Let later work of this stream wait for an event, of this stream or another.

        Raises
        ------
        TypeError
            It is no event.
        """
        if not isinstance(event, Event):
            raise TypeError(f"event: must be a gpuopt.Event, not {event!r:.60}")
        with _LOCK:
            if event._after:
                self._after += (event._after,)
            if not event._reached:
                self._append(_Work(lambda: None, before=event))

    def _enqueue(
        self, text: str, run: Callable[[], None], engine: str, nbytes: int = 0, pinned: bool = True
    ) -> None:
        with _LOCK:
            number, after = next(_NUMBERS), self._after
            piece = Piece(number, self._number, self.device, text, engine, nbytes, pinned, after)
            self._last, self._after = number, ()
            self._append(_Work(run, piece))
        for each in watchers.get():
            each.issued(piece)

    def _append(self, work: _Work) -> None:
        self._work.append(work)
        _BUSY.add(self)

    def _step(self) -> None:
        """Run one piece of work, after those of other streams that it waits for."""
        work, watching = self._work[0], watchers.get()
        if work.before is not None:
            work.before._reach()
        self._work.popleft()
        try:
            if work.piece:
                for watcher in watching:
                    watcher.begins(work.piece)
            work.run()
        except BaseException:
            for each in self._work:
                if not each.piece:
                    each.run()
            self._work.clear()
            raise
        finally:
            if not self._work:
                _BUSY.discard(self)
        if work.piece:
            self.done.append(work.piece.text)
            for watcher in watching:
                watcher.ended(work.piece)


def drain(device: str) -> None:
    """Run all work of a device's streams, before work that the host waits for."""
    with _LOCK:
        for stream in list(_STREAMS.get(device, ())):
            stream.synchronize()


def stream_on(stream: Any, device: str) -> Stream:
    """Check a `stream=` argument.

    Raises
    ------
    TypeError, ValueError
        It is no Stream, or on another device.
    """
    if not isinstance(stream, Stream):
        raise TypeError(
            f"stream: must be a gpuopt.Stream, not {stream!r:.60}; streams of other libraries are "
            "for GPUs, by Module.use_stream"
        )
    if stream.device != device:
        raise ValueError(f"stream: is on {stream.device}, and the module on {device}")
    return stream
