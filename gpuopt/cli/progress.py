"""A bar on a terminal for what takes longer than two seconds; in pipes only lines that stay."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

DELAY = 2.0  # seconds without a bar


class Bar:
    """What goes on, and the share of it that is done; and lines that stay."""

    def __init__(self, stream: TextIO, shown: Any) -> None:
        self._stream, self._shown = stream, shown  # tqdm's bar, or None

    def __call__(self, text: str, share: float) -> None:
        """Show on the bar what goes on and the share of the work that is done."""
        if self._shown is not None:
            self._shown.set_description_str(text, refresh=False)
            self._shown.update(max(0.0, share - self._shown.n))

    def line(self, text: str) -> None:
        """Write a line, above the bar where there is one."""
        if self._shown is None:
            print(text, file=self._stream, flush=True)
        else:
            self._shown.write(text, file=self._stream)


@contextmanager
def bar(stream: TextIO | None = None) -> Iterator[Bar]:
    """Give a bar, which is called with what goes on and the share of the work that is done.

    Where the stream is no terminal, or tqdm (``pip install 'gpuopt[plot]'``) is missing, nothing is
    shown but the bar's lines.

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
