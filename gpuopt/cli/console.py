"""Output for terminals: folded lines, colours, and progress."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import wrap
from typing import TextIO

from gpuopt import _core
from gpuopt.util.table import terminal_width

FIRST, EVERY = 1.0, 0.25  # seconds before progress is shown, and between two updates
RED, GREEN, BOLD = "31", "32", "1"


def coloured(stream: TextIO | None = None) -> bool:
    """Tell whether a stream is a terminal that may have colours; NO_COLOR says no."""
    stream = stream or sys.stdout
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, code: str) -> str:
    """Return a text in a colour, where standard output has colours."""
    return f"\x1b[{code}m{text}\x1b[0m" if coloured() else text


def fold(text: str, stream: TextIO | None = None) -> str:
    """Break lines that are wider than the terminal, below where their text begins."""
    width = terminal_width(stream)
    if not width:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
            continue
        label = re.match(r"\s*(?:\S+(?: \S+)*\s{2,})?", line[: width // 2])
        indent = label.end() if label and label.end() else 2
        lines += wrap(
            line, width, subsequent_indent=" " * indent, drop_whitespace=True,
            break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
        )  # fmt: skip
    return "\n".join(lines)


def show(result: object) -> None:
    """Print a result, folded to the terminal's width."""
    print(fold(str(result)))


def show_diff(text: str) -> None:
    """Print a unified diff, on a terminal in colours."""
    for line in text.split("\n"):
        code = RED if line.startswith("-") else GREEN if line.startswith("+") else ""
        if line.startswith(("---", "+++")):
            code = BOLD
        print(paint(line, code) if code else line)


def show_findings(lines: list[str]) -> None:
    """Print what checks found, on a terminal in red."""
    for line in lines:
        print(fold(paint(line, RED)) if not coloured() else paint(fold(line), RED))


class ProgressBar:
    """A line of progress that a thread redraws, with permanent lines above it.

    It adds the blocks of a launch that a simulated GPU runs; until a fraction is reported, those
    are what the estimate rests on; its instructions if the same launch ran before.
    """

    def __init__(self, stream: TextIO, drawn: bool) -> None:
        self._stream, self._drawn = stream, drawn
        self._began, self._text, self._share = time.monotonic(), "", 0.0
        self._lock, self._end = threading.Lock(), threading.Event()
        self._shown = 0  # characters of the line that is shown
        # when the simulated launch was first seen; its blocks and instructions
        self._launch, self._steps = (self._began, 0, 0), 0

    def __call__(self, text: str, share: float) -> None:
        """Report the current step and the fraction of the work that is done."""
        self._text, self._share = text, min(1.0, max(0.0, share))

    def line(self, text: str) -> None:
        """Write a permanent line, above the bar if one is shown."""
        with self._lock:
            self._clear()
            print(text, file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._shown = 0

    def _line(self) -> str:
        now, share, text = time.monotonic(), self._share, self._text
        began = self._began
        ended, blocks, steps, expected = _core.sim_progress()
        if (blocks, expected) != self._launch[1:] or steps < self._steps:
            self._launch = now, blocks, expected
        self._steps = steps
        if blocks:
            one = f", {steps / 1e6:,.0f} million instructions"
            text += f", block {ended:,} of {blocks:,}" if blocks > 1 else one
            if not share:
                began = self._launch[0]
                share = min(1.0, steps / expected) if expected else ended / blocks
        parts = [f"{share:4.0%}"] if share else []
        parts.append(f"{now - self._began:.0f} s")
        if share > 0.02:
            parts.append(f"about {(now - began) * (1 - share) / share:.0f} s left")
        room = (terminal_width(self._stream) or 80) - 1
        text = f"{', '.join(parts)}  {text}"
        return text if len(text) <= room else text[: room - 1] + "…"

    def _draw(self) -> None:
        while not self._end.wait(EVERY):
            with self._lock:
                text = self._line()
                if time.monotonic() - self._began < FIRST:
                    continue
                self._clear()
                self._stream.write(text)
                self._stream.flush()
                self._shown = len(text)

    @contextmanager
    def running(self) -> Iterator[ProgressBar]:
        """Draw until the block ends."""
        thread = threading.Thread(target=self._draw, daemon=True)
        if self._drawn:
            thread.start()
        try:
            yield self
        finally:
            self._end.set()
            if self._drawn:
                thread.join()
                with self._lock:
                    self._clear()
                    self._stream.flush()


@contextmanager
def bar(stream: TextIO | None = None, text: str = "") -> Iterator[ProgressBar]:
    """Yield a bar: call it with the current step and the fraction of the work that is done.

    On a terminal it appears after a second; in a pipe only the permanent lines are shown.

    Parameters
    ----------
    stream : file, optional
        Where to draw; default: standard error.
    text : str
        The first step.
    """
    stream = stream or sys.stderr
    with ProgressBar(stream, stream.isatty()).running() as shown:
        shown(text, 0.0)
        yield shown
