"""Who is told of launches: profiles and traces, each in the thread or task that began it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuopt import _core

Sink = Callable[[dict[str, Any]], None]


class Recording(NamedTuple):
    """What is in force in a context; `_core` reads it by position.

    Attributes
    ----------
    sink : callable
        Gets each launch.
    collecting : bool
        Findings are told, not raised.
    device : str
        For a call that names none.
    traced : object or None
        What `_core.tracing` made.
    outer : Recording or None
        Whose sink gets each launch too.
    """

    sink: Sink
    collecting: bool
    device: str
    traced: Any
    outer: Recording | None


def _without(recording: Recording | None, sink: Sink) -> Recording | None:
    """Return what stays in force, whichever of those in force ends."""
    if recording is None or recording.sink == sink:
        return recording and recording.outer
    return recording._replace(outer=_without(recording.outer, sink))


def _is_told(recording: Recording | None, sink: Sink) -> bool:
    return recording is not None and (recording.sink == sink or _is_told(recording.outer, sink))


def begin(sink: Sink, collecting: bool, device: str) -> None:
    """Tell a sink of every launch from here on.

    Raises
    ------
    RuntimeError
        It is told already.
    ValueError
        An unknown device.
    """
    outer = _core.recording.get(None)
    if _is_told(outer, sink):
        raise RuntimeError("profile: is in force already; make another one")
    _core.device_info(device)
    _core.recorders(1)
    _core.recording.set(Recording(sink, collecting, device, None, outer))


def end(sink: Sink) -> None:
    """Tell a sink of nothing more."""
    recording = _core.recording.get(None)
    if _is_told(recording, sink):
        _core.recording.set(_without(recording, sink))
        _core.recorders(-1)


@contextmanager
def traced(
    sink: Sink, device: str, what: tuple[int, tuple[int, int, int], int, int]
) -> Iterator[None]:
    """Tell a sink, and nobody else, of launches, and trace one of them.

    Parameters
    ----------
    what : tuple
        Launches before the one, its block, its warp (-1: all), the most events.
    """
    before = _core.recording.set(Recording(sink, True, device, _core.tracing(*what), None))
    _core.recorders(1)
    try:
        yield
    finally:
        _core.recorders(-1)
        _core.recording.reset(before)
