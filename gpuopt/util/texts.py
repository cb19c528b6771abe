"""The lines of source files that kernels were compiled from, by the name in their line table."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from pathlib import Path, PurePath
from stat import S_ISREG

from gpuopt import _core

BYTES_MOST = 1 << 23  # larger files are not read
OWN = "csrc/kernels/"  # the prefix of gpuopt's own files in their line tables

_registered: dict[str, list[str]] = {}


@cache
def embedded() -> dict[str, list[str]]:
    """Return the lines of every file of gpuopt's own kernels by its name, "reduce.cu"."""
    parts = _core.sources().split("\f")[1:]
    return {name: text.split("\n") for name, _, text in (part.partition("\n") for part in parts)}


def register(name: str, text: str) -> None:
    """Keep the text of a source that is in no file, or whose file may change.

    Parameters
    ----------
    name : str
        As the kernels' line table has it.
    text : str
    """
    _registered[name] = text.split("\n")


@lru_cache(maxsize=64)
def _read(path: str, changed: int, size: int) -> list[str]:
    """Return a file's lines; the time of its last change and its size are part of the key."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.split("\n")


def lines(file: str | None) -> list[str]:
    """Return a file's lines, [] if it is unknown: gpuopt's own, registered, or on disk.

    Parameters
    ----------
    file : str or None
        The name in a line table.
    """
    if not file:
        return []
    if file.startswith(OWN) and PurePath(file).name in embedded():
        return embedded()[PurePath(file).name]
    if file in _registered:
        return _registered[file]
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return []
    if not S_ISREG(found.st_mode) or found.st_size > BYTES_MOST:
        return []
    return _read(file, found.st_mtime_ns, found.st_size)


def line(file: str | None, number: int) -> str:
    """Return a line of a file without its indentation, "" if there is none."""
    known = lines(file)
    return known[number - 1].strip() if 0 < number <= len(known) else ""
