"""The kernels of a PTX text and their parameters, which a launch requires."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from gpuopt import _core

# The text is untrusted: every pattern matches in linear time.

_IGNORED = rb'//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)|"(?:[^"\\\n]++|\\.)*+"?'
_OUTLINE = re.compile(_IGNORED + rb"|(?P<token>[{}]|\.entry\b)")
_HEADER = re.compile(_IGNORED + rb"|(?P<token>\.?[%$\w]+|[^\s\w])")
_BYTES = {
    f".{kind}{bits}": bits // 8
    for kind, widths in {
        "b": (8, 16, 32, 64, 128),
        "u": (8, 16, 32, 64),
        "s": (8, 16, 32, 64),
    }.items()
    for bits in widths
} | {".f16": 2, ".f16x2": 4, ".f32": 4, ".f64": 8, ".bf16": 2, ".bf16x2": 4}
_VECTORS = {".v2": 2, ".v4": 4}
# Pointer attributes do not change the argument: .param .u64 .ptr .global .align 4 name
_STATES = {".param", ".ptr", ".global", ".shared", ".const", ".local", ".generic", ".byref"}
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


class _Header:
    """The tokens from a kernel's name to its body."""

    def __init__(self, text: bytes, start: int) -> None:
        self.text = text
        self.matches = _HEADER.finditer(text, start)
        self.token, self.end = "", start
        self.next()

    def next(self) -> str:
        """Advance to the next token ("" at the end); return the current one."""
        before, self.token = self.token, ""
        for match in self.matches:
            self.end = match.end()
            if match["token"]:
                self.token = match["token"].decode()
                break
        return before

    def fail(self, name: str) -> _core.PTXError:
        return ptx_error(
            self.text.count(b"\n", 0, self.end) + 1,
            f"the parameters of kernel {name[:120]!r} cannot be read at {self.token[:40]!r}",
        )

    def number(self, name: str) -> int:
        """Parse a PTX integer."""
        literal = self.token.removesuffix("U")
        if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,22}|[1-9][0-9]{0,19}", literal):
            raise self.fail(name)
        self.next()
        return int(literal, 8 if literal.startswith("0") and literal.isdigit() else 0)

    def parameter(self, name: str) -> Parameter:
        """Parse one parameter: its words, its name, its extents."""
        type_, lanes = "", 1
        while self.token.startswith("."):
            word = self.next()
            if word == ".align":
                self.number(name)
            elif word in _VECTORS:
                lanes *= _VECTORS[word]
            elif word in _BYTES:
                type_ = word
            elif word not in _STATES:
                raise self.fail(name)
        if not type_ or not self.next():
            raise self.fail(name)
        size, aggregate = _BYTES[type_] * lanes, lanes > 1
        while self.token == "[":
            self.next()
            size, aggregate = size * self.number(name), True
            if self.next() != "]":
                raise self.fail(name)
        return Parameter(".b8" if aggregate else type_, size)

    def entry(self) -> tuple[str, list[Parameter], bool]:
        """Parse name and parameters; return them, and whether a body follows."""
        name = self.next()
        parameters: list[Parameter] = []
        if self.token == "(":
            self.next()
            while self.token != ")":
                parameters.append(self.parameter(name))
                if self.token == ",":
                    self.next()
                elif self.token != ")":
                    raise self.fail(name)
        while self.token not in ("{", ";", ""):
            if self.next() == ".pragma" and self.token == ";":
                self.next()  # its own end, not the kernel's
        return name, parameters, self.token == "{"


def entries(text: bytes) -> dict[str, list[Parameter]]:
    """Return the parameters of every kernel that has a body."""
    kernels: dict[str, list[Parameter]] = {}
    depth = at = 0
    while match := _OUTLINE.search(text, at):
        at = match.end()
        token = match["token"]
        if token == b"{":
            depth += 1
        elif token == b"}":
            depth -= 1
        elif token and depth == 0:
            header = _Header(text, at)
            name, parameters, has_body = header.entry()
            at = header.end
            if has_body:
                kernels[name] = parameters
                depth += 1
    return kernels


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
