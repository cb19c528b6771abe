"""Checks of common arguments, and of the fields of JSON files."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from operator import index
from typing import Any

_PLAIN = {"str": str, "int": int, "float": int | float, "bool": bool}


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


def told(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return a dataclass's fields from a file; the errors name a field of the wrong type."""
    for each in fields(kind):
        type_ = str(each.type)
        if type_ not in _PLAIN or each.name not in values:
            continue
        value = values[each.name]
        if not isinstance(value, _PLAIN[type_]) or isinstance(value, bool) != (type_ == "bool"):
            raise TypeError(f"{each.name}: must be {type_}, not {value!r:.60}")
        if type_ == "float":
            finite(value, each.name)
    return values
