"""A bar on a terminal for what takes longer than two seconds; in pipes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

DELAY = 2.0  # seconds without a bar


@contextmanager
def bar(stream: TextIO | None = None) -> Iterator[Callable[[str, float], None]]:
    """Give a function that takes what goes on and the share of the work that is done.

    Where the stream is no terminal, or tqdm (``pip install 'gpuopt[plot]'``) is missing, there is
    no bar.

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

    def progress(text: str, share: float) -> None:
        if shown is not None:
            shown.set_description_str(text, refresh=False)
            shown.update(max(0.0, share - shown.n))

    try:
        yield progress
    finally:
        if shown is not None:
            shown.close()
