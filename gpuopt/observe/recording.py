"""The receivers of launches: profiles and traces, each in the thread or task that began it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuopt import _core
from gpuopt.observe.scoreboard import EVENTS

Sink = Callable[[dict[str, Any]], None]


class Recording(NamedTuple):
    """The active recording of a context; `_core` reads its fields by position.

    Attributes
    ----------
    sink : callable
        Called with each launch.
    collecting : bool
        Whether errors go to the sink instead of being raised.
    device : str
        The device of calls that name none.
    traced : object or None
        The result of `_core.tracing`: what to trace, a sample of each launch of a profile.
    outer : Recording or None
        The enclosing recording; its sink receives each launch, too.
    """

    sink: Sink
    collecting: bool
    device: str
    traced: Any
    outer: Recording | None


def _without(recording: Recording | None, sink: Sink) -> Recording | None:
    """Return the active recordings without the one of this sink."""
    if recording is None or recording.sink == sink:
        return recording and recording.outer
    return recording._replace(outer=_without(recording.outer, sink))


def _is_active(recording: Recording | None, sink: Sink) -> bool:
    return recording is not None and (recording.sink == sink or _is_active(recording.outer, sink))


def begin(sink: Sink, collecting: bool, device: str, caches: bool = False) -> None:
    """Start reporting every launch to a sink; with `caches`, hits of L1 and L2 are counted.

    Raises
    ------
    RuntimeError
        The sink is active already.
    ValueError
        An unknown device.
    """
    outer = _core.recording.get(None)
    if _is_active(outer, sink):
        raise RuntimeError("profile: is in force already; make another one")
    _core.device_info(device)
    _core.recorders(1)
    # A call that is traced may count its launches itself; a check needs no sample.
    traced = outer and outer.traced
    if traced is None and not collecting:
        traced = _core.tracing(0, None, -1, EVENTS, caches)
    _core.recording.set(Recording(sink, collecting, device, traced, outer))


def end(sink: Sink) -> None:
    """Stop reporting launches to a sink."""
    recording = _core.recording.get(None)
    if _is_active(recording, sink):
        _core.recording.set(_without(recording, sink))
        _core.recorders(-1)


@contextmanager
def traced(
    sink: Sink, device: str, what: tuple[int, tuple[int, int, int], int, int]
) -> Iterator[None]:
    """Report launches to this sink only, and trace one of them.

    Parameters
    ----------
    what : tuple
        The launch's index, the block, the warp (-1: all), the limit of events.
    """
    before = _core.recording.set(Recording(sink, True, device, _core.tracing(*what), None))
    _core.recorders(1)
    try:
        yield
    finally:
        _core.recorders(-1)
        _core.recording.reset(before)
