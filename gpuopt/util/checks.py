"""Checks of arguments that many functions take, and of what files tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from operator import index
from typing import Any

_PLAIN = {"str": str, "int": int, "float": int | float, "bool": bool}


def whole(value: int, name: str, least: int, most: int | None = None) -> int:
    """Return an integer of a range; the errors name the argument."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name}: must be an integer, not {value!r:.60}") from None
    if number < least or (most is not None and number > most):
        allowed = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise ValueError(f"{name}: must be {allowed}, not {number:,}")
    return number


def names(given: Iterable[str], argument: str) -> list[str]:
    """Return a list of names; TypeError where it is none."""
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
    """Return what a file tells of a dataclass; the errors name a field that is of another type."""
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
