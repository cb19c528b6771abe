"""The public names, for methods whose function is in a layer above their class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_found_by: list[Callable[[str], Any]] = []


def found_by(find: Callable[[str], Any]) -> None:
    """Set the function that returns a public name; `gpuopt/__init__.py` does."""
    _found_by[:] = [find]


def named(name: str) -> Any:
    """Return a public name of gpuopt; its module is imported if this is the first use."""
    return _found_by[0](name)
