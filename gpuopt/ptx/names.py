"""Names of C++ kernels as programmers write them: ``reduce0<float>`` of ``_Z7reduce0IfEvPKT_``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuopt import _core


def _plain(text: str) -> str:
    """Return a name without spaces and without the suffixes of integers."""
    return re.sub(r"\b(\d+)(?:ull|ul|u|ll|l)\b", r"\1", text).replace(" ", "")


def _opening(text: str, pair: str) -> int:
    """Return the index of the bracket that the text's last character closes; -1: none."""
    depth = 0
    for i in range(len(text) - 1, -1, -1):
        depth += (text[i] == pair[1]) - (text[i] == pair[0])
        if not depth:
            return i
    return -1


def _signature(symbol: str) -> str:
    """Return a symbol's name with its parameters: ``ns::scale(float*, int)``."""
    full = _core.demangle(symbol)
    return full.removeprefix("void ").replace("(anonymous namespace)::", "")


def short_name(symbol: str) -> str:
    """Return a symbol's name without result and parameters: ``ns::reduce0<float>``."""
    full = _signature(symbol)
    return full[: _opening(full, "()")] if full.endswith(")") else full


def distinct_names(symbols: Iterable[str]) -> list[str]:
    """Return the names of kernels, with the parameters of those that share a name."""
    listed = list(symbols)
    names = [short_name(each) for each in listed]
    return [
        name if names.count(name) == 1 else _signature(each)
        for name, each in zip(names, listed, strict=True)
    ]


def _spellings(symbol: str) -> set[str]:
    """Return the names by which a symbol may be called, besides itself."""
    full, signature = _plain(short_name(symbol)), _plain(_signature(symbol))
    base = full[: _opening(full, "<>")] if full.endswith(">") else full
    scopes = [0, *(each.end() for each in re.finditer("::", base))]
    return {name[at:] for at in scopes for name in (full, base, signature)}


def find(name: str, symbols: Iterable[str]) -> list[str]:
    """Return the symbols that a name stands for.

    Parameters
    ----------
    name : str
        With or without namespaces, template arguments and parameters: "reduce0",
        "ns::reduce0<float, 256>", "scale(float*, int)".
    symbols : iterable of str
    """
    wanted = _plain(name)
    return [symbol for symbol in symbols if wanted in _spellings(symbol)]
