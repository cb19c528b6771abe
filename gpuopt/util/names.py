"""Suggestions for misspelt names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

# A message of the compiled part: "op: 'summ' is not an operation; use 'sum', ..."
_UNKNOWN = re.compile(r"'([^']*)' is (?:not|no) [^;]*; use (?:one of )?('[^']*',.*|\d.*)", re.S)


def nearest(name: object, known: Iterable[object]) -> str:
    """Return "; did you mean 'sum'?" for a name that is nearly a known one, else ""."""
    from difflib import get_close_matches  # takes a millisecond, which few programs need

    found = get_close_matches(str(name).lower(), [str(each) for each in known], 1, 0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def unknown_name(
    argument: str, given: object, what: str, known: Iterable[object], more: str = ""
) -> str:
    """Return the message about a name that is not "an operation": the known ones, the nearest."""
    listed = [*known]
    choices = ", ".join(map(repr, listed)) + more
    return f"{argument}: {given!r:.60} is not {what}; use one of {choices}{nearest(given, listed)}"


def suggested(message: str) -> str:
    """Return a message of the compiled part, with the nearest of the names that it quotes."""
    found = _UNKNOWN.search(message)
    return message + nearest(found[1], re.findall(r"'([^']+)'", found[2])) if found else message


def _keywords(function: Any) -> tuple[dict[str, Any], bool]:
    """Return the parameters that a function accepts by name, and whether it accepts any name."""
    parameters = inspect.signature(function).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = {each.name: each for each in parameters if each.kind in named and each.name != "self"}
    return known, any(each.kind is each.VAR_KEYWORD for each in parameters)


def misspelt(function: Any, given: Iterable[str], *others: str) -> TypeError:
    """Return Python's error on a keyword argument that a function lacks, with the nearest one."""
    known = [*_keywords(function)[0], *others]
    name = next(each for each in given if each not in known)
    near = nearest(name, known) or f"; it accepts {', '.join(known)}"
    return TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}{near}")


def suggests(function: Function) -> Function:
    """Make a function's error on a misspelt keyword argument name the nearest one.

    A check around the function costs its call 0.2 us. A function that cannot afford them has a
    parameter ``**unknown`` and raises `misspelt` by itself; its signature does not show it. Other
    functions that accept any keyword pass them on to the callable that is their first argument.
    """
    signature = inspect.signature(function)
    if "unknown" in signature.parameters:
        shown = [each for each in signature.parameters.values() if each.name != "unknown"]
        function.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return function
    known, forwards = _keywords(function)

    @wraps(function)
    def checked(*args: Any, **keywords: Any) -> Any:
        if not known.keys() >= keywords.keys():
            others: dict[str, Any] = {}
            if forwards:
                try:
                    others, forwards_too = _keywords(args[0])
                except (IndexError, TypeError, ValueError):  # none, or one without a signature
                    forwards_too = True
                if forwards_too:
                    return function(*args, **keywords)
            if not known.keys() | others.keys() >= keywords.keys():
                raise misspelt(function, keywords, *others)
        return function(*args, **keywords)

    return checked  # type: ignore[return-value]
