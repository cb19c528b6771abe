"""Names of kernels as their authors write them, from the symbols of a compiler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_BUILT_IN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip
_LITERAL = {"b": "{}", "j": "{}u", "l": "{}l", "m": "{}ul", "x": "{}ll", "y": "{}ull"}


class _Unknown(Exception):
    """A part of the Itanium ABI's grammar that kernels' names rarely have."""


class _Symbol:
    """A reader of one mangled name: names, nested names, and arguments of templates."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 2

    def take(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def word(self) -> str:
        number = re.compile(r"\d+").match(self.text, self.at)
        if not number:
            raise _Unknown
        begin = number.end()
        self.at = begin + int(number[0])
        word = self.text[begin : self.at]
        return "" if word.startswith("_GLOBAL__N_") or word.startswith("_INTERNAL_") else word

    def name(self) -> str:
        if not self.take("N"):
            return self.word() + self.arguments()
        parts = []
        while not self.take("E"):
            word = self.word() + self.arguments()
            if word:
                parts.append(word)
        return "::".join(parts)

    def arguments(self) -> str:
        if not self.take("I"):
            return ""
        found = []
        while not self.take("E"):
            found.append(self.literal() if self.take("L") else self.type())
        return f"<{', '.join(found)}>"

    def literal(self) -> str:
        kind = self.text[self.at]
        found = re.compile(r"(n?)(\d+)E").match(self.text, self.at + 1)
        if kind not in _BUILT_IN or not found:
            raise _Unknown
        self.at = found.end()
        if kind == "b":
            return "true" if found[2] == "1" else "false"
        return _LITERAL.get(kind, "{}").format("-" * bool(found[1]) + found[2])

    def type(self) -> str:
        letter = self.text[self.at : self.at + 1]
        if letter in _BUILT_IN:
            self.at += 1
            return _BUILT_IN[letter]
        if self.take("P"):
            return self.type() + "*"
        if self.take("K"):
            return "const " + self.type()
        return self.name()


def plain(symbol: str) -> str:
    """Return a symbol as C++ writes it, without parameters: ``scale<float>``; else itself."""
    if not symbol.startswith("_Z"):
        return symbol
    try:
        return _Symbol(symbol).name()
    except (_Unknown, IndexError):
        return symbol


def written(symbols: Iterable[str]) -> dict[str, str]:
    """Return {name: symbol}; a name that two symbols share stays a symbol."""
    names = {symbol: plain(symbol) for symbol in symbols}
    count = Counter(names.values())
    return {
        (name if count[name] == 1 and name else symbol): symbol for symbol, name in names.items()
    }
