"""A request to the compiler, and its results."""

from __future__ import annotations

from typing import NamedTuple

SOURCE_MOST = 4 << 20  # bytes; the largest kernels in libraries have some 100 KB
SECONDS = 60.0  # of the compiler's time, by default
OLDEST = 75  # the least compute capability that NVRTC 13 compiles for


class Text(NamedTuple):
    """A source as it was given: its file's name, its text, and how it was compiled."""

    name: str
    text: str
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


class Made(NamedTuple):
    """A compiler's results."""

    ptx: bytes
    image: bytes  # machine code; empty: none
    symbols: dict[str, str]  # by the names that its author wrote
    log: str


class Request(NamedTuple):
    """Everything that a result depends on, except the compiler."""

    text: Text
    options: tuple[str, ...]
    arch: str
    exact: bool
    names: tuple[str, ...]
    include: tuple[str, ...]
