"""Checks of arguments that many functions take."""

from __future__ import annotations

from operator import index


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
