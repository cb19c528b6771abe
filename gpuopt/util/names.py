"""Suggestions for misspelt names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# A message of the compiled part: "op: 'summ' is not an operation; use 'sum', ..."
_UNKNOWN = re.compile(r"'([^']*)' is (?:not|no) [^;]*; use (?:one of )?('[^']*',.*|\d.*)", re.S)


def nearest(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean 'sum'?" for a name that is nearly a known one, else ""."""
    found = get_close_matches(str(name).lower(), [str(each) for each in known], 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def unknown_name(
    argument: str, given: object, what: str, known: Iterable[object], more: str = ""
) -> str:
    """Return the message about a name that is not "an operation": the known ones, the nearest."""
    listed = [*known]
    choices = ", ".join(map(repr, listed)) + more
    return f"{argument}: {given!r:.60} is not {what}; use one of {choices}{nearest(given, listed)}"


def suggested(message: str) -> str:
    """Return a message of the compiled part, with the nearest of the names that it quotes."""
    found = _UNKNOWN.search(message)
    return message + nearest(found[1], re.findall(r"'([^']+)'", found[2])) if found else message
