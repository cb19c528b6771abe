"""Small pictures as SVG text, readable in light and dark themes and without colour.

Colours are Okabe and Ito's, which colour-blind people can distinguish. A hatching, an outline or a
label repeats the meaning of each colour.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

from gpuopt.util import files

WIDTH = 900  # of a notebook's cell, in pixels

# class: (light, dark)
_STYLE = {
    "paper": ("fill:#ffffff", "fill:#17191c"),
    "ink": ("fill:#1b1b1b", "fill:#ececec"),
    "soft": ("fill:#5c5c5c", "fill:#b0b0b0"),
    "active": ("fill:#0072b2;stroke:#0072b2", "fill:#56b4e9;stroke:#56b4e9"),
    "on": ("fill:#ffffff", "fill:#10141a"),
    "half": ("fill:#a9d3ea;stroke:#0072b2", "fill:#1f4a63;stroke:#56b4e9"),
    "bad": ("fill:#d55e00;stroke:#7a3600", "fill:#e69f00;stroke:#ffd27a"),
    "cell": ("fill:#ffffff;stroke:#a0a0a0", "fill:#17191c;stroke:#6d6d6d"),
    "idle": ("fill:#f1f1f1;stroke:#cfcfcf", "fill:#24272b;stroke:#404448"),
    "hatched": ("fill:url(#gpuopt-hatch);stroke:#a0a0a0",
                "fill:url(#gpuopt-hatch);stroke:#6d6d6d"),
    "hatch": ("stroke:#8a8a8a", "stroke:#8d8d8d"),
    "edge": ("stroke:#1b1b1b;stroke-opacity:.6", "stroke:#ececec;stroke-opacity:.65"),
    "edge2": ("stroke:#0072b2", "stroke:#56b4e9"),
    "rule": ("stroke:#d8d8d8", "stroke:#3a3e43"),
    "frame": ("fill:none;stroke:#1b1b1b;stroke-width:2.2",
              "fill:none;stroke:#ececec;stroke-width:2.2"),
}  # fmt: skip
_SANS = "font-family:Helvetica,Arial,'DejaVu Sans',sans-serif"
_MONO = "font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace"


def _style() -> str:
    def rules(theme: int) -> str:
        return "".join(f".gpuopt .{name}{{{both[theme]}}}" for name, both in _STYLE.items())

    return (
        f".gpuopt text{{{_SANS}}}.gpuopt .mono{{{_MONO}}}"
        "@media screen{svg.gpuopt{max-width:100%;height:auto}}"  # converters take no "auto"
        f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def fit(text: str, width: float, size: float, mono: bool = False) -> str:
    """Truncate a text to a width in pixels."""
    most = int(width / (size * (0.61 if mono else 0.56)))
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing of a recorded trace; Jupyter displays it.

    Attributes
    ----------
    svg : str
        The drawing: a complete SVG document.
    data : dict
        The drawing's contents as numbers; the method of `Trace` that makes it documents the keys.
    title : str

    Examples
    --------
    >>> import gpuopt
    >>> picture = gpuopt.trace("reduce", 3).tree()
    >>> picture.svg.startswith("<svg") and len(picture.data["steps"])
    6
    """

    svg: str
    data: dict[str, Any]
    title: str = ""

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        """Return the title, and how to see the drawing where it is not displayed."""
        return f"<Picture {self.title!r}; save it: picture.save('picture.svg')>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing to a file.

        Parameters
        ----------
        path : str or path
            Ends in ".svg".

        Raises
        ------
        ValueError
            Another ending.
        OSError
            The file cannot be written.
        """
        files.check(path, "path", ".svg")
        files.write(path, self.svg)


class Canvas:
    """Shapes, in the order in which they are drawn. Coordinates are pixels from the top left."""

    def __init__(self, width: float = WIDTH) -> None:
        self.width = width
        self.parts: list[str] = []

    def rect(self, x: float, y: float, w: float, h: float, kind: str, tip: str = "") -> None:
        """Draw a box with a tooltip."""
        n = _number
        shape = f'<rect x="{n(x)}" y="{n(y)}" width="{n(w)}" height="{n(h)}" class="{kind}"'
        self.parts.append(f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def line(
        self, x1: float, y1: float, x2: float, y2: float, kind: str = "edge", width: float = 1
    ) -> None:
        """Draw a line."""
        n = _number
        self.parts.append(
            f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}" class="{kind}" '
            f'stroke-width="{n(width)}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 11,
        kind: str = "ink",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Write a line of text; (x, y) is on its baseline."""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size)}" class="{kind}"'
            f'{place}{weight} xml:space="preserve">{escape(text)}</text>'
        )

    def legend(self, x: float, y: float, entries: list[tuple[str, str]]) -> None:
        """Draw a row of boxes with their meanings."""
        for kind, meaning in entries:
            self.rect(x, y - 9, 14, 11, kind)
            self.text(x + 19, y, meaning, size=11, kind="soft")
            x += 19 + 6.2 * len(meaning) + 18

    def heading(self, title: str, sentence: str, code: str = "") -> float:
        """Write the title, a line of code, and a paragraph; return the top of the drawing."""
        self.text(14, 24, fit(title, self.width - 28, 15), size=15, bold=True)
        y = 24
        if code:
            y += 18
            self.text(14, y, fit(code, self.width - 28, 11, True), size=11, kind="ink mono")
        for part in wrap(sentence, int((self.width - 28) / (12 * 0.56))):
            y += 17
            self.text(14, y + 2, part, size=12, kind="soft")
        return y + 21

    def picture(self, height: float, title: str, sentence: str, data: dict[str, Any]) -> Picture:
        """Return the document."""
        w, h = _number(self.width), _number(height)
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gpuopt" role="img" width="{w}" '
            f'height="{h}" viewBox="0 0 {w} {h}">'
            f"<title>{escape(title)}</title><desc>{escape(sentence)}</desc>"
            f"<style>{_style()}</style>"
            '<defs><pattern id="gpuopt-hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="5" class="hatch" '
            'stroke-width="1.6"/></pattern></defs>'
            f'<rect width="{w}" height="{h}" class="paper"/>{"".join(self.parts)}</svg>'
        )
        return Picture(svg, data, title)
