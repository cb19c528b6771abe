"""A progress bar on a terminal for work of more than two seconds; in pipes, plain lines only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

DELAY = 2.0  # seconds without a bar


class Bar:
    """A progress bar with permanent lines above it."""

    def __init__(self, stream: TextIO, shown: Any) -> None:
        self._stream, self._shown = stream, shown  # tqdm's bar, or None

    def __call__(self, text: str, share: float) -> None:
        """Show the current step and the fraction of the work that is done."""
        if self._shown is not None:
            self._shown.set_description_str(text, refresh=False)
            self._shown.update(max(0.0, share - self._shown.n))

    def line(self, text: str) -> None:
        """Write a permanent line, above the bar if one is shown."""
        if self._shown is None:
            print(text, file=self._stream, flush=True)
        else:
            self._shown.write(text, file=self._stream)


@contextmanager
def bar(stream: TextIO | None = None) -> Iterator[Bar]:
    """Yield a bar: call it with the current step and the fraction of the work that is done.

    If the stream is no terminal, or tqdm (``pip install 'gpuopt[plot]'``) is missing, only the
    permanent lines are shown.

    Parameters
    ----------
    stream : file, optional
        Where to draw; default: standard error.
    """
    stream = stream or sys.stderr
    shown: Any = None
    if stream.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            layout = "{l_bar}{bar}| {elapsed} elapsed, {remaining} left"
            shown = tqdm(
                total=1.0, delay=DELAY, leave=False, file=stream, bar_format=layout, mininterval=0
            )
    try:
        yield Bar(stream, shown)
    finally:
        if shown is not None:
            shown.close()
