"""The lines of source files that kernels were compiled from, by the name in their line table."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path, PurePath
from stat import S_ISREG

from gpuopt import _core

BYTES_MOST = 1 << 23  # larger files are not read
OWN = "csrc/kernels/"  # the prefix of gpuopt's own files in their line tables

_current = threading.local()  # the source and the PTX of the module that launches


@cache
def embedded() -> dict[str, list[str]]:
    """Return the lines of every file of gpuopt's own kernels by its name, "reduce.cu"."""
    parts = _core.sources().split("\f")[1:]
    return {name: text.split("\n") for name, _, text in (part.partition("\n") for part in parts)}


@contextmanager
def launching(source: tuple[str, str] | None, ptx: bytes | None) -> Iterator[None]:
    """Let launches of this thread know their module's PTX, and the text that it was compiled from.

    Parameters
    ----------
    source : (str, str) or None
        Its name, as the kernels' line table has it, and the text.
    ptx : bytes or None
        None for gpuopt's own kernels.
    """
    before = getattr(_current, "module", (None, None))
    _current.module = source, ptx
    try:
        yield
    finally:
        _current.module = before


def launched() -> dict[str, list[str]]:
    """Return the lines of the launching module's source by its name; empty without one."""
    source, _ = getattr(_current, "module", (None, None))
    return {source[0]: source[1].split("\n")} if source else {}


def launched_ptx() -> bytes | None:
    """Return the PTX of the launching module; None for gpuopt's own kernels."""
    return getattr(_current, "module", (None, None))[1]


@lru_cache(maxsize=64)
def _read(path: str, changed: int, size: int) -> list[str]:
    """Return a file's lines; the time of its last change and its size are part of the key."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.split("\n")


def lines(file: str | None, known: dict[str, list[str]] | None = None) -> list[str]:
    """Return a file's lines, [] if it is unknown: gpuopt's own, a known one, or one on disk.

    Parameters
    ----------
    file : str or None
        The name in a line table.
    known : dict, optional
        Files by name, as `launched` returns them.
    """
    if not file:
        return []
    if known and file in known:
        return known[file]
    if file.startswith(OWN) and PurePath(file).name in embedded():
        return embedded()[PurePath(file).name]
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return []
    if not S_ISREG(found.st_mode) or found.st_size > BYTES_MOST:
        return []
    return _read(file, found.st_mtime_ns, found.st_size)


def line(file: str | None, number: int, known: dict[str, list[str]] | None = None) -> str:
    """Return a line of a file without its indentation, "" if there is none."""
    found = lines(file, known)
    return found[number - 1].strip() if 0 < number <= len(found) else ""
