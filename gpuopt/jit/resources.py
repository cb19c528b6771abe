"""Registers and spills of a kernel, from the assembler of the compiler: PTX has neither."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuopt.jit.compiler import build
from gpuopt.jit.errors import CompileError
from gpuopt.jit.request import OLDEST, SECONDS, Request, Text
from gpuopt.ptx.kernel import Kernel


class Found(NamedTuple):
    """A kernel's registers per thread, and bytes per thread that were spilled."""

    registers: int
    spilled: int


def _parsed(log: str) -> dict[str, Found]:
    """Return ptxas's figures by symbol."""
    found = {}
    for part in re.split(r"Compiling entry function '", log)[1:]:
        symbol = part.partition("'")[0]
        registers = re.search(r"Used (\d+) registers", part)
        spilled = re.search(r"(\d+) bytes spill stores", part)
        if registers:
            found[symbol] = Found(int(registers[1]), int(spilled[1]) if spilled else 0)
    return found


def of(kernel: Kernel, capability: int) -> Found | None:
    """Return a kernel's figures for a compute capability (times ten), None if they are unknown."""
    text = kernel.module.source
    if not isinstance(text, Text) or capability < OLDEST:
        return None
    options = (*text.options, "--ptxas-options=-v")
    request = Request(text, options, f"sm_{capability}", False, text.names, text.include)
    try:
        made = build(request, SECONDS)
    except (CompileError, ImportError, OSError):
        return None
    symbol = made.symbols.get(kernel.name)
    return _parsed(made.log).get(symbol) if symbol else None
