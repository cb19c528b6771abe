"""Refuses sources that read files, before a compiler sees them.

It splits the text into C++'s tokens and reads each directive that opens a file. A header must be
one of the compiler's own or lie in a folder that the caller allows. The compiler's process cannot
open other files either (worker.py): this scan gives the better error, and holds where the kernel of
the operating system lacks that protection.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from gpuopt.jit.errors import CompileError, located
from gpuopt.jit.request import SOURCE_MOST

_CUDA = re.compile(r"(?:cub|cuda|nv|thrust|crt|cooperative_groups)/|(?:cu|cooperative_|mma\.h)")

_SPLICE = re.compile(r"\\[ \t\v\f\r]*+\n")
_TRIGRAPH = re.compile(r"\?\?[=/]")  # of # and of \; compilers before C++17 replace them
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<raw>(?:u8|[uUL])?R"(?P<end>[^()\\\s"]{0,16})\(.*?(?:\)(?P=end)"|\Z))
    |(?P<text>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
    |(?P<word>[^\W\d][\w$]*)
    |(?P<newline>\n)
    |(?P<mark>%:%:|%:|\#\#|\#|.)""",
    re.S | re.X,
)
# Possessive: nothing in a gap is tried twice, or a hostile source would take years.
_GAP = r"(?:[ \t\v\f\r]++|/\*(?>.*?\*/))*+"
_HEADER = re.compile(rf'{_GAP}(?:<([^>\n]*)>|"([^"\n]*)")', re.S)
_IN_PARENTHESES = re.compile(rf'{_GAP}\({_GAP}(?:<([^>\n]*)>|"([^"\n]*)"){_GAP}\)', re.S)
_NUMBER = re.compile(rf"{_GAP}\d*+{_GAP}(?=\n|//|/\*|\Z)", re.S)
_PARENTHESIS = re.compile(rf"{_GAP}\(", re.S)
_IN_RAW = re.compile(r"^[ \t\v\f\r]*(?:#|%:)", re.M)
_OPENING = {"include", "include_next", "import", "embed"}
_ASKING = {"__has_include", "__has_include_next", "__has_embed"}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class Header(NamedTuple):
    """A header that a source includes, and the offset of its directive in the source."""

    name: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or "mark"
        yield _Token("raw" if kind == "end" else kind, found[0], found.start())


def _is_plain(name: str) -> bool:
    """Tell whether a header's name stays below the folder in which it is looked up."""
    return bool(re.fullmatch(r"[\w.+-]+(?:/[\w.+-]+)*", name)) and ".." not in name.split("/")


class _Scan:
    """One pass over a source."""

    def __init__(self, source: str, name: str) -> None:
        self.source, self.name = source, name
        splices = list(_SPLICE.finditer(source))
        self.text = _SPLICE.sub("", source)
        removed = list(accumulate((len(each[0]) for each in splices), initial=0))
        self._lengths = removed
        self._places = [each.start() - removed[i] for i, each in enumerate(splices)]
        self.headers: list[Header] = []
        self.macros: dict[str, set[str]] = {}  # the words of each definition
        self.pasted: set[str] = set()  # macros whose result may be any word
        self.conditions: list[_Token] = []

    def original(self, at: int) -> int:
        """Return the source's offset of an offset in the text without line splices."""
        return at + self._lengths[bisect_right(self._places, at)]

    def refuse(self, at: int, text: str) -> CompileError:
        return located(self.name, self.source, self.original(at), text)

    def header(self, found: re.Match[str] | None, at: int) -> str:
        if not found:
            raise self.refuse(
                at, 'a header must be named directly, as in #include <name> or #include "name"'
            )
        name = found[1] if found[1] is not None else found[2]
        if not _is_plain(name):
            raise self.refuse(
                at,
                "a header's name must stay below the include folders: no '..', no leading '/', "
                "and only letters, digits and '_.+-/'",
            )
        return name

    def asked(self, token: _Token, defining: bool = False) -> None:
        """Check a word that asks whether a file exists."""
        if token.text not in _ASKING:
            return
        after = token.at + len(token.text)
        if defining or _PARENTHESIS.match(self.text, after):
            self.header(_IN_PARENTHESES.match(self.text, after), token.at)

    def directive(self, tokens: Iterator[_Token], sign: _Token) -> bool:
        """Read a directive's beginning; return whether its line was read to the end."""
        for token in tokens:
            if token.kind == "newline":
                return True
            if token.kind == "comment" or token.text.isspace():
                continue
            if token.text in _OPENING:
                name = self.header(_HEADER.match(self.text, token.at + len(token.text)), sign.at)
                self.headers.append(Header(name, self.original(sign.at)))
            elif token.text == "line" or token.kind == "number":
                self.line(token)
            elif token.text == "define":
                self.define(tokens)
                return True
            elif token.text in ("if", "elif"):
                self.condition(tokens)
                return True
            return False
        return True

    def line(self, token: _Token) -> None:
        """Check a line directive: the lines of a file that it names would be shown as its own."""
        after = token.at + (len(token.text) if token.text == "line" else 0)
        if not _NUMBER.match(self.text, after):
            raise self.refuse(token.at, "a #line may have a number only, and no file's name")

    def define(self, tokens: Iterator[_Token]) -> None:
        name, words = "", set()
        for token in tokens:
            if token.kind == "newline":
                break
            self.asked(token, defining=True)
            if token.kind == "word" and not name:
                name = token.text
            words.add(token.text)
        self.macros.setdefault(name, set()).update(words)

    def condition(self, tokens: Iterator[_Token]) -> None:
        for token in tokens:
            if token.kind == "newline":
                return
            self.asked(token)
            if token.kind == "word":
                self.conditions.append(token)

    def paste(self) -> None:
        """Reject conditions with macros that paste words: those might ask for any file."""
        users: dict[str, list[str]] = {}
        for name, words in self.macros.items() if self.conditions else ():
            for word in words:
                users.setdefault(word, []).append(name)
        pasted: set[str] = set()
        new = ["##", "%:%:"]
        while new:
            found = [each for each in users.pop(new.pop(), ()) if each not in pasted]
            pasted.update(found)
            new += found
        for token in self.conditions:
            if token.text in pasted:
                raise self.refuse(token.at, "a condition may not use a macro that pastes words")

    def run(self) -> None:
        tokens = _tokens(self.text)
        fresh = True
        for token in tokens:
            if token.kind == "newline":
                fresh = True
            elif token.kind == "comment" or token.text.isspace():
                continue
            elif fresh and token.text in ("#", "%:"):
                fresh = self.directive(tokens, token)
            else:
                if fresh and token.text == "import":
                    found = _HEADER.match(self.text, token.at + len(token.text))
                    if found:
                        name = self.header(found, token.at)
                        self.headers.append(Header(name, self.original(token.at)))
                if token.kind == "raw" and _IN_RAW.search(token.text):
                    raise self.refuse(
                        token.at, "a raw string may have no line that begins like a directive"
                    )
                fresh = False
                self.asked(token)
        self.paste()


def headers(source: str, name: str) -> list[Header]:
    """Return the headers that a source names, each below the include folders.

    Parameters
    ----------
    source : str
    name : str
        The file's name, for errors.

    Raises
    ------
    CompileError
        A header outside of the include folders, or one that a macro names; a source that is too
        large or holds a NUL.
    """
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > SOURCE_MOST:
        raise CompileError(f"{name}: the source has {size:,} bytes; the limit is {SOURCE_MOST:,}")
    if "\0" in source:
        raise located(name, source, source.index("\0"), "the source holds a NUL character")
    found = _TRIGRAPH.search(source)
    if found:
        raise located(name, source, found.start(), "trigraphs are not accepted; write # or \\")
    scan = _Scan(source, name)
    scan.run()
    return scan.headers


def check(
    found: list[Header], exists: Callable[[str], bool], source: str, name: str, cuda: str = ""
) -> None:
    """Reject the first header that no include folder has; `cuda`: how to get CUDA's."""
    for header in found:
        if not exists(header.name):
            raise located(
                name,
                source,
                header.at,
                f"there is no header {header.name!r} in the compiler's folders; "
                + (cuda if cuda and _CUDA.match(header.name) else "")
                + "for one of your own pass include=FOLDER",
            )
