"""The kernels of a PTX text and their parameters, which a launch requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from gpuopt import _core

ONLY_ASCII = bytes(range(128)) + b"?" * 128  # keeps the columns, and every error text is UTF-8


class Parameter(NamedTuple):
    """A kernel's parameter: its PTX type, ".u64", and its size in bytes.

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k(.param .f32 a) {}"
    >>> gpuopt.load_ptx(ptx, device="sim")["k"].parameters
    [Parameter(type='.f32', size=4)]
    """

    type: str
    size: int


def ptx_error(line: int, text: str) -> _core.PTXError:
    """Return a PTXError at a line; 0: unknown."""
    error = _core.PTXError(f"PTX line {line}: {text}" if line else text)
    error.line, error.column = line, 0
    return error


def entries(text: bytes) -> dict[str, list[Parameter]]:
    """Return the parameters of every kernel that has a body; PTXError where one cannot be read."""
    found = _core.ptx_entries(text)
    return {name: [Parameter(*each) for each in listed] for name, listed in found.items()}


class Embedded(Mapping[str, list[Parameter]]):
    """The parameters of gpuopt's own kernels; a kernel's text is read at the first access."""

    def __init__(self) -> None:
        self._names = _core.kernels()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> list[Parameter]:
        return _embedded(name) if name in self._names else []


@cache
def _embedded(name: str) -> list[Parameter]:
    return entries(_core.kernel_ptx(name, 75).encode())[name]
