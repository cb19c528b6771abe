"""Streams and events of a simulated GPU: the order of asynchronous work, without a clock.

Work on a stream waits until something needs it: a query, a wait, or work that the host waits for
anyway, as on CUDA's legacy default stream. So a program that forgets to wait sees old data, as it
may on a GPU. Between streams the order is simulated: they take turns, one piece of work each.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuopt.catalog.devices import device as describe_device, device_name

_LOCK = threading.RLock()
_STREAMS: dict[str, weakref.WeakSet[Stream]] = {}  # by device


class _Work(NamedTuple):
    text: str
    run: Callable[[], None]
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

    def __repr__(self) -> str:
        return f"<Event, {'reached' if self._reached else 'not reached'}>"

    def query(self) -> bool:
        """Tell whether all work before the mark has ended; of an unrecorded event, True."""
        return self._reached

    def synchronize(self) -> None:
        """Wait for all work before the mark.

        Raises
        ------
        SimError
            A kernel before the mark failed.
        """
        with _LOCK:
            while not self._reached and self._stream is not None:
                self._stream._step()


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
    stream's other work. A simulated GPU has no clock: what overlaps is not timed.

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
            return not self._work

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

    def record(self, event: Event | None = None) -> Event:
        """Mark the end of the work so far, with a new event or a given one."""
        event = Event() if event is None else event
        if not isinstance(event, Event):
            raise TypeError(f"event: must be a gpuopt.Event, not {event!r:.60}")
        with _LOCK:
            event._stream, event._reached = self, not self._work
            if self._work:
                self._work.append(_Work("event", lambda: setattr(event, "_reached", True)))
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
            if not event._reached:
                self._work.append(_Work("wait", lambda: None, event))

    def _enqueue(self, text: str, run: Callable[[], None]) -> None:
        with _LOCK:
            self._work.append(_Work(text, run))

    def _step(self) -> None:
        """Run one piece of work, after those of other streams that it waits for."""
        work = self._work[0]
        if work.before is not None:
            work.before.synchronize()
        self._work.popleft()
        try:
            work.run()
        except BaseException:
            for each in self._work:
                if each.text == "event":
                    each.run()
            self._work.clear()
            raise
        if work.text not in ("event", "wait"):
            self.done.append(work.text)


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
