"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean 'sum'?" for a name that is nearly a known one, else ""."""
    found = get_close_matches(str(name).lower(), [str(each) for each in known], 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
