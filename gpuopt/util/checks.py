"""Checks of common arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any


def whole(value: int, name: str, least: int, most: int | None = None) -> int:
    """Return an integer in a range; the errors name the argument."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name}: must be an integer, not {value!r:.60}") from None
    if number < least or (most is not None and number > most):
        allowed = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ValueError(f"{name}: must be {allowed}, not {number:,}")
    return number


def flag(value: Any, name: str) -> bool:
    """Return whether a value is true; TypeError for one that does not tell, as an array."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: must be True or False, not {value!r:.60}") from None


def names(given: Iterable[str], argument: str) -> list[str]:
    """Return a list of names; TypeError for anything else."""
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [None]
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{argument}: must be a list of names, not {given!r:.60}")
    return listed


def finite(value: Any, name: str) -> float:
    """Return a number as a float; the errors name the argument."""
    try:
        if isinstance(value, str | bytes):  # float reads them
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: must be a number, not {value!r:.60}") from None
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name}: must be finite, not {value!r:.60}")
    return number
