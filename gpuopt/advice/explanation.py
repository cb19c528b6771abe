"""The result of `gpuopt.explain`: advice, worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import PurePath
from typing import Any

from gpuopt.observe.launches import Launch
from gpuopt.util import serialise
from gpuopt.util.table import terminal_width

WIDTH = 96
_COLOURS = {"error": "#b3261e", "high": "#8a5300", "low": "#1f5f8b"}


@dataclass(frozen=True)
class Advice:
    """A mistake in a kernel, with its evidence and its remedy.

    Attributes
    ----------
    rule : str
        The name of the rule that found it, as "bank-conflicts".
    severity : {"error", "high", "low"}
        "error": the results are wrong or undefined. "high": it costs much of the time.
    line : int
        The source line, 0 if the kernel as a whole is meant.
    text : str
        The mistake, in a sentence.
    evidence : str
        The numbers that show it.
    remedy : str
        The change that mends it.
    certainty : {"exact", "estimated"}
        Whether the numbers were counted, or follow from a model of the GPU.
    gain : float
        Estimated share of the kernel's time, from 0 to 1, 0 for errors. Gains do not add up.
    reason : str
        Why it costs time or breaks the result.
    source : str
        Where the rule comes from: a deck, or a section of the CUDA programming guide.
    file : str or None
    kernel : str

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.ones((64, 64), np.float32)
    >>> advice = gpuopt.explain(gpuopt.transpose, x, variant="shared")[0]
    >>> advice.rule, advice.severity
    ('bank-conflicts', 'high')
    """

    rule: str
    severity: str
    line: int
    text: str
    evidence: str
    remedy: str
    certainty: str = "exact"
    gain: float = 0.0
    reason: str = ""
    source: str = ""
    file: str | None = None
    kernel: str = ""

    @property
    def place(self) -> str:
        """The source line, as "kernel.cu:12"."""
        if not self.line:
            return f"kernel {self.kernel}"
        return f"{PurePath(self.file).name}:{self.line}" if self.file else f"PTX line {self.line}"


@dataclass(frozen=True)
class Explanation(serialise.Written):
    """The advice on a kernel's launch, worst first: a sequence of `Advice`.

    Attributes
    ----------
    advice : list of Advice
    launches : list of Launch
        The launches that were counted.
    notes : list of str
        Questions that were not judged, and the reasons.
    source : dict of int to str
        The source lines that the advice names, where the source is known.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> found = gpuopt.explain(gpuopt.transpose, np.ones((64, 64), np.float32), variant="padded")
    >>> len(found), found.ok
    (0, True)
    """

    KIND = "explanation"
    TOLD = ("ok", "advice", "notes", "launches")

    advice: list[Advice]
    launches: list[Launch] = field(repr=False)
    notes: list[str] = field(default_factory=list)
    source: dict[int, str] = field(default_factory=dict, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the kernel has no errors."""
        return not self.errors

    @property
    def errors(self) -> list[Advice]:
        """The advice of severity "error"."""
        return [each for each in self.advice if each.severity == "error"]

    def __iter__(self) -> Iterator[Advice]:
        return iter(self.advice)

    def __len__(self) -> int:
        return len(self.advice)

    def __getitem__(self, index: int) -> Advice:
        return self.advice[index]

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each advice, for `pandas.DataFrame`."""
        return [serialise.to_plain(each) for each in self.advice]

    def _title(self) -> str:
        first = self.launches[0] if self.launches else None
        where = f"{first.kernel} on {first.device}: " if first else ""
        if not self.advice:
            return f"{where}no mistake found"
        count = len(self.errors)
        rest = len(self.advice) - count
        told = [f"{count} error{'s' * (count > 1)}"] if count else []
        told += [f"{rest} piece{'s' * (rest > 1)} of advice on speed"] if rest else []
        return where + ", ".join(told)

    def _facts(self, each: Advice) -> list[tuple[str, str]]:
        gain = f", about {each.gain:.0%} of the time" if each.gain >= 0.01 else ""
        rows = [
            ("evidence", f"{each.evidence} ({each.certainty})"),
            ("why", each.reason),
            ("remedy", each.remedy),
            ("source", each.source + gain if gain and not each.source else each.source),
        ]
        return [(head, text) for head, text in rows if text]

    def __repr__(self) -> str:
        width = min(WIDTH, terminal_width() or WIDTH)
        lines = [self._title()]
        for number, each in enumerate(self.advice, 1):
            gain = f", about {each.gain:.0%} of the time" if each.gain >= 0.01 else ""
            lines += ["", f"{number}. {each.severity.upper()}{gain}: {each.place} [{each.rule}]"]
            shown = self.source.get(each.line, "").strip()
            if shown:
                lines.append(f"     > {shown[: width - 7]}")
            lines += textwrap.wrap(each.text, width, initial_indent="   ", subsequent_indent="   ")
            for head, text in self._facts(each):
                indent = " " * 14
                lines += textwrap.wrap(
                    text, width, initial_indent=f"   {head:<11}", subsequent_indent=indent
                )
        if any(each.gain for each in self.advice):
            lines += ["", "Gains are estimated one by one; they do not add up."]
        for note in self.notes:
            lines += textwrap.wrap(f"Not judged: {note}", width, subsequent_indent="  ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = []
        for each in self.advice:
            colour = _COLOURS[each.severity]
            gain = f", about {each.gain:.0%} of the time" if each.gain >= 0.01 else ""
            shown = self.source.get(each.line, "").strip()
            code = (
                f'<pre style="margin:4px 0;padding:4px 6px;background:#f4f4f4;color:#1b1b1b;'
                f'overflow-x:auto;font-size:12px">{escape(shown)}</pre>'
                if shown
                else ""
            )
            facts = "".join(
                f'<div style="margin:2px 0"><b>{head}</b> {escape(text)}</div>'
                for head, text in self._facts(each)
            )
            parts.append(
                f'<div style="border-left:4px solid {colour};padding:2px 0 4px 10px;margin:10px 0">'
                f'<div style="color:{colour}"><b>{each.severity.upper()}</b>{gain} '
                f"&middot; {escape(each.place)} &middot; {escape(each.rule)}</div>"
                f"<div><b>{escape(each.text)}</b></div>{code}{facts}</div>"
            )
        tail = [f"Not judged: {note}" for note in self.notes]
        if any(each.gain for each in self.advice):
            tail.insert(0, "Gains are estimated one by one; they do not add up.")
        notes = "".join(f'<div style="color:#5c5c5c">{escape(each)}</div>' for each in tail)
        return (
            '<div style="background:#fff;color:#1b1b1b;padding:8px;max-width:62em;'
            'font:13px/1.4 system-ui,sans-serif;overflow-wrap:anywhere">'
            f"<b>{escape(self._title())}</b>{''.join(parts)}{notes}</div>"
        )
