"""The rungs' source and the differences between rungs, with counters beside the lines.

The extension embeds the text that its kernels were compiled from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, overload

from gpuopt import _core
from gpuopt.catalog.rungs import Rung, find, rungs
from gpuopt.families import cases
from gpuopt.observe.annotated import Diff, Source, SourceLine
from gpuopt.observe.counters import BESIDE, Counters, check_name
from gpuopt.observe.profile import profile
from gpuopt.util.literals import AnyRung, Family
from gpuopt.util.names import nearest, suggests
from gpuopt.util.texts import embedded

REDUCE_ITEMS = 1 << 14  # elements of the run whose counters annotate a source
_DECKS_GPU = {  # by the deck: the device, its name
    "D0": ("sim:g80", "G80"),
    "D1": ("sim:k40", "K40"),
    "D2": ("sim:m2090", "M2090"),
}
_NO_CODE = re.compile(r'("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\')| *//.*| */\*(?:.|\n)*?\*/')
# As clang-format sets it: from the first column to the brace in the first column that ends a body,
# or to the line that ends an initializer, a statement or a macro's arguments.
_BODY = r"\{\n(?:(?!\}).*\n)*\}.*"
_DEFINITION = re.compile(
    rf"^(?!namespace)\w(?:.*\n)*?.*(?:(?:{_BODY})?= \{{\n(?:.*\n)*?.*\}};|{_BODY}|[;)}}])$", re.M
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_FILE = re.compile(r'^\.file (\d+) "(.*)"', re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+([1-9]\d*)", re.M)
_INCLUDE = re.compile(r'^#include "([^"]+\.(?:h|cuh))"', re.M)


# --- the files, and the definitions in them


class _Definition(NamedTuple):
    """A top-level definition of a file: its comment from line `first`, its code up to `last`."""

    name: str
    first: int
    code: int
    last: int


@cache
def _code(file: str) -> str:
    """Return a file's code, line by line: no comments, empty strings."""
    text = "\n".join(embedded()[file])
    return _NO_CODE.sub(lambda found: '""' if found[1] else "\n" * found[0].count("\n"), text)


def _name(header: str) -> str:
    """Return the name that a definition's head defines."""
    while header.startswith("template"):
        depth, end = 1, header.index("<") + 1
        while depth and end < len(header):
            depth += {"<": 1, ">": -1}.get(header[end], 0)
            end += 1
        header = header[end:].lstrip()
    kept = re.sub(r"__(launch_bounds|align|attribute)__\s*\([^)]*\)", "", header)
    types = re.match(r"(?:static )?(?:struct|enum|union|using)\s+(\w+)\s*(?:[:=<;]|$)", kept)
    if types:
        return types[1]
    before, _, _ = kept.partition("(" if "(" in kept else "=")
    words = _WORD.findall(before.split("[")[0].split("<")[0] if "(" not in kept else before)
    return words[-1] if words else ""


@cache
def _definitions(file: str) -> tuple[_Definition, ...]:
    """Return the top-level definitions of a file."""
    lines, code = embedded()[file], _code(file)
    bare = code.split("\n")
    found: list[_Definition] = []
    for each in _DEFINITION.finditer(code):
        at = first = code.count("\n", 0, each.start())
        while first and lines[first - 1].strip() and not bare[first - 1]:
            first -= 1  # the comment above
        last = at + each[0].count("\n") + 1
        header = " ".join(each[0].partition("{")[0].split())
        found.append(_Definition(_name(header), first + 1, at + 1, last))
    return tuple(found)


def _base(rung: Rung) -> str:
    """Return the name in the rung's row: its symbol without operation, types and block."""
    op, items, _ = rung.signatures[0]
    return rung.kernels[0].split(f"_{op}_{items}")[0]


def _row(rung: Rung) -> tuple[str, _Definition]:
    """Return the file and the line of the rung's row."""
    wanted = re.compile(rf'^RUNG\([^"]*"{re.escape(rung.name)}",\s*"{re.escape(_base(rung))}"')
    for file, lines in embedded().items():
        for each in _definitions(file):
            if wanted.match("\n".join(lines[each.code - 1 : each.last])):
                return file, each._replace(first=each.code)
    raise LookupError(f"rung {rung.variant!r} of {rung.family} has no row in the embedded sources")


def _function(rung: Rung, file: str) -> str:
    """Return the name of the rung's function."""
    base, names = _base(rung), {each.name for each in _definitions(file)}
    if rung.host:  # the table of kernels says which function runs one
        found = re.search(rf'"{re.escape(base)}_[^,]*,\s*(\w+)', "\n".join(embedded()[file]))
        return found[1] if found else ""
    text = "\n".join(embedded()[file])
    # MACRO(name, threads, function(...)) where a kernel only calls one
    called = re.search(rf"^[A-Z_]+\({base.removeprefix(rung.family + '_')}, \w+, (\w+)", text, re.M)
    known = (base, rung.kernels[0], called[1] if called else "")
    return next((each for each in known if each in names), "")


@cache
def _with_headers(file: str) -> tuple[str, ...]:
    """Return a file and the embedded files that it includes, directly or not."""
    found = {file: None}
    for name in _INCLUDE.findall("\n".join(embedded()[file])):
        if (header := PurePath(name).name) in embedded():
            found.update(dict.fromkeys(_with_headers(header)))
    return tuple(found)


@cache
def _words(file: str) -> tuple[tuple[_Definition, frozenset[str]], ...]:
    """Return a file's definitions, each with the words of its code."""
    lines = _code(file).split("\n")
    return tuple(
        (each, frozenset(_WORD.findall("\n".join(lines[each.code - 1 : each.last]))))
        for each in _definitions(file)
    )


def _executed(kernel: str) -> set[tuple[str, int]]:
    """Return the (file, line) of a kernel's instructions, from the line table of its PTX."""
    ptx = _core.kernel_ptx(kernel, 75)
    names = {number: PurePath(path).name for number, path in _FILE.findall(ptx)}
    return {(names[number], int(line)) for number, line in _LOC.findall(ptx)}


def _needed(kernels: Iterable[str], file: str, function: str) -> dict[str, list[_Definition]]:
    """Return the definitions of a function and of some kernels by file, in the files' order.

    They are those of the kernels' instructions, according to the compiler, and those that they
    name: constants and types have no instructions. A C function has no line table, only names.
    """
    every = {name: _words(name) for name in _with_headers(file)}
    known = [pair for pairs in every.values() for pair in pairs]
    names = {each.name for each, _ in known}
    executed = set().union(*map(_executed, kernels))
    new = {function}
    for name, pairs in every.items():
        lines = [line for of, line in executed if of == name]
        new |= {each.name for each, _ in pairs if any(each.code <= k <= each.last for k in lines)}
    new = wanted = {name for name in new if not name.isupper()}  # not a macro that lists kernels
    while new:
        new = names & {word for each, words in known if each.name in new for word in words} - wanted
        wanted = wanted | new
    return {
        name: [each for each, _ in pairs if each.name in wanted] for name, pairs in every.items()
    }


def _lines(
    needed: dict[str, list[_Definition]], file: str, counters: dict[tuple[str, int], Counters]
) -> list[SourceLine]:
    """Return the lines of definitions; those of other files below a line with the file's name."""
    lines: list[SourceLine] = []
    for name, found in needed.items():
        before = 0
        if name != file and found:
            lines += [SourceLine(0, "", None, name), SourceLine(0, f"// --- {name}", None, name)]
        for each in found:
            if before and each.first > before:
                lines.append(SourceLine(0, "", None, name))
            for number in range(max(each.first, before), each.last + 1):
                text = embedded()[name][number - 1]
                lines.append(SourceLine(number, text, counters.get((name, number)), name))
            before = each.last + 1
    return lines


# --- the functions


def _experiment(name: str, kernel: Any) -> Source:
    """Return the source of an experiment's kernels, or of one of them."""
    every = [symbol for symbol, experiment, _ in _core.probes() if experiment == name]
    short = "micro_"
    wanted = [each for each in every if kernel in (None, each, each.removeprefix(short))]
    if not wanted:
        raise ValueError(
            f"variant: {kernel!r} is not a kernel of the experiment {name}; use one of "
            f"{', '.join(each.removeprefix(short) for each in every)}"
        )
    executed = [at for each in wanted for at in sorted(_executed(each))]
    file = next(of for of, _ in executed if of.startswith(short[:-1]))
    function = wanted[0] if len(wanted) == 1 else name
    return Source(None, file, function, _lines(_needed(wanted, file, function), file, {}))


def _counters(rung: Rung) -> tuple[dict[tuple[str, int], Counters], str]:
    """Count a run of the rung on the simulated GPU; return the counters by line, and its title."""
    if rung.host:
        raise ValueError(
            f"annotate: rung {rung.variant!r} of {rung.family} runs on the cpu, which counts "
            f"nothing; leave annotate out"
        )
    if rung.family not in cases.FAMILIES:
        raise ValueError(
            f"annotate: {rung.family} is not counted; use one of {', '.join(cases.FAMILIES)}"
        )
    items = REDUCE_ITEMS if rung.family == "reduce" else None
    if rung.name == "threads":
        items = 1024  # one block, of at most 1,024 threads
    radius = 16 if rung.name == "shared-sums" else None  # 3 is rung 4's
    case = cases.make(rung.family, items, radius=radius)
    device, name = _DECKS_GPU[rung.source[:2]] if rung.listing else ("sim", "H200")
    counted = profile(_collect, case, rung, device)
    lines = {
        (PurePath(path).name, number): counters
        for (path, number), counters in counted.by_line().items()
    }
    return lines, f"counted on a simulated {name}: {case.title}"


def _collect(case: cases.Case, rung: Rung, device: str) -> object:
    return case.call(rung, None, device)


def _shown(annotate: bool | Iterable[str]) -> tuple[str, ...]:
    """Return the counters that `annotate` asks for; none for False."""
    if isinstance(annotate, bool):
        return BESIDE if annotate else ()
    listed = (annotate,) if isinstance(annotate, str) else tuple(annotate)
    return tuple(check_name(each, "annotate") for each in listed)


def _listing(asked: Rung) -> tuple[Rung, Rung]:
    """Return a rung and the deck's listing of it; either of the two may be asked for."""
    listed = rungs(asked.family)
    decks = sorted((each for each in listed if each.historical), key=lambda each: not each.listing)
    if asked.historical:
        decks = [asked]
    for deck in decks:
        for ours in listed:
            same = ours.number == deck.number and not (ours.host or ours.historical)
            if same and asked in (deck, ours):
                return ours, deck
    have = ", ".join(
        repr(each.number) for each in listed
        if not (each.host or each.historical) and any(each.number == deck.number for deck in decks)
    )  # fmt: skip
    raise ValueError(
        f"historical: no deck has a listing for rung {asked.variant!r} of {asked.family}; "
        + (f"use one of {have}" if have else "no rung of it has one")
    )


@overload
def source(
    family: Family | Literal["roofline"],
    variant: AnyRung | int | None = None,
    *,
    annotate: bool | Iterable[str] = False,
    historical: Literal[False] = False,
) -> Source: ...


@overload
def source(
    family: Family | Literal["roofline"],
    variant: AnyRung | int | None = None,
    *,
    annotate: bool | Iterable[str] = False,
    historical: Literal[True],
) -> Diff: ...


@overload
def source(
    family: Callable[..., Any],
    variant: Any = ...,
    *arguments: Any,
    annotate: bool | Iterable[str] = False,
    ptx: bool = False,
    **keywords: Any,
) -> Source: ...


@suggests
def source(
    family: str | Callable[..., Any],
    variant: Any = None,
    *arguments: Any,
    annotate: bool | Iterable[str] = False,
    ptx: bool = False,
    historical: bool = False,
    **keywords: Any,
) -> Source | Diff:
    """Return the source of a rung or of a user's own kernel, with counters beside the lines.

    Parameters
    ----------
    family : str or callable
        "reduce", "transpose", "stencil1d", "add", "saxpy", "matmul" or "roofline"; an experiment,
        "coalescing", "banks", ...; or a kernel of `load_ptx` or `compile`, or a function that
        launches one, which runs once: ``source(experiments.banks, device="sim")``.
    variant : int or str, optional
        The rung, by number or name; also one of the cpu's, which is C. Default: the best
        kernel for many elements. For an experiment one of its kernels, by default all. For a kernel
        it is the first argument of the launch.
    *arguments, **keywords
        A kernel's launch: grid, block, its arguments.
    annotate : bool or iterable of str
        Count a run on the simulated GPU, and show beside each line its warp instructions,
        divergent branches, bank conflicts, and sectors per request to global memory; or the
        counters and ratios of these names: "inst_f64", "barriers", "load_efficiency", ...
        (`Profile.describe` lists the counters). A kernel of one's own is always counted.
    ptx : bool
        List a kernel's PTX, statement by statement.
    historical : bool
        Show the deck's own listing beside the rung, and what differs: from the deck's to ours.

    Returns
    -------
    Source or Diff
        A Diff with `historical`.

    Raises
    ------
    ValueError
        An unknown family, variant or counter; annotations of a rung without counters; a call that
        launched nothing.
    TypeError
        Arguments of a launch for a rung.

    Examples
    --------
    >>> import gpuopt
    >>> source = gpuopt.source("transpose", "padded")
    >>> source.function
    'transpose_padded'
    >>> "// New: the padding." in source.text
    True
    """
    shown = _shown(annotate)
    if callable(family):
        given = () if variant is None and not arguments else (variant, *arguments)
        profiled = profile(family, *given, **keywords)
        return profiled.source(counters=shown or BESIDE, ptx=ptx)
    if historical:
        ours, deck = _listing(find(family, variant))
        return diff(family, deck.variant, ours.variant, annotate=annotate)
    if family in {experiment for _, experiment, _ in _core.probes() if experiment}:
        if shown or arguments or keywords or ptx:
            raise TypeError(
                f"source: counters and PTX of an experiment's kernels are shown by "
                f"gpuopt.source(gpuopt.experiments.{family}, device='sim')"
            )
        return _experiment(family, variant)
    if arguments or keywords or ptx:
        raise TypeError(
            "source: a rung takes a variant and annotate=; grid, block, arguments and ptx= are for "
            f"a kernel of your own{nearest(min(keywords, default=''), ('annotate', 'historical'))}"
        )
    rung = find(family, variant)
    file, row = _row(rung)
    function = _function(rung, file)
    counters, counted = _counters(rung) if shown else ({}, "")
    needed = _needed([] if rung.host else rung.kernels[:1], file, function)
    needed[file].insert(0, row)
    return Source(rung, file, function, _lines(needed, file, counters), counted, shown or BESIDE)


@suggests
def diff(
    family: Family, a: AnyRung | int, b: AnyRung | int, *, annotate: bool | Iterable[str] = False
) -> Diff:
    """Compare the sources of two rungs; between neighbours the difference is the lesson.

    Parameters
    ----------
    family : str
        As `gpuopt.source`.
    a, b : int or str
        The rungs, by number or name: from a to b; or two of an experiment's kernels.
    annotate : bool or iterable of str
        Show each line's counters, as `gpuopt.source`.

    Returns
    -------
    Diff

    Raises
    ------
    ValueError
        As `gpuopt.source`.

    Examples
    --------
    >>> import gpuopt
    >>> for line in gpuopt.diff("reduce", 2, 3).unified.splitlines():
    ...     if "for (unsigned s" in line:
    ...         print(line)
    -    for (unsigned s = 1; s < blockDim.x; s *= 2) {
    +    for (unsigned s = blockDim.x / 2; s > 0; s /= 2) {
    """
    return Diff(source(family, a, annotate=annotate), source(family, b, annotate=annotate))
