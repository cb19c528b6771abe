"""Results as dicts, lists, strings and numbers, as JSON holds them, and back.

Dataclasses are written field by field, and read by the types of their fields: an error names a
field that has another type. A field's metadata may change that: `untold` is not written, `samples`
is written as the list that it holds, `positive` is more than 0.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

UNTOLD = {"untold": True}
SAMPLES = {"samples": True}
POSITIVE = {"positive": True}


def to_plain(value: Any, without: frozenset[str] = frozenset()) -> Any:
    """Return a value without dataclasses; `without` names fields that are left out at any depth."""
    if isinstance(value, Result):
        return value.to_dict()
    if is_dataclass(value):
        return _fields_of(value, without)
    if isinstance(value, Mapping):
        return {name: to_plain(each, without) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_plain(each, without) for each in value)
    return value


def _fields_of(value: Any, without: frozenset[str]) -> dict[str, Any]:
    found = {}
    for each in fields(value):
        if each.name not in without and not each.metadata.get("untold"):
            held = getattr(value, each.name)
            held = held.samples if each.metadata.get("samples") else held
            found[each.name] = to_plain(held, without)
    return found


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def from_plain(kind: Any, told: Any, name: str, without: frozenset[str] = frozenset()) -> Any:
    """Return the value of a type that `to_plain` wrote; the errors name the field.

    Raises
    ------
    TypeError, ValueError, KeyError
        It is of another type, out of range, or missing.
    """
    if hasattr(kind, "from_plain"):
        return kind.from_plain(told)
    if is_dataclass(kind):
        return _read(kind, told, without)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if told is None and type(None) in arguments:
            return None
        rest = [each for each in arguments if each is not type(None)]
        if len(rest) == 1:
            return from_plain(rest[0], told, name, without)
        if isinstance(told, bool) or not isinstance(told, tuple(rest)):
            raise TypeError(f"{name}: must be {kind}, not {told!r:.60}")
        return told
    if origin is list:
        return [from_plain(arguments[0], each, name, without) for each in _listed(told, name)]
    if origin is dict and isinstance(told, dict):
        return {key: from_plain(arguments[1], each, name, without) for key, each in told.items()}
    if origin is tuple:
        return tuple(
            from_plain(each, value, name, without)
            for each, value in zip(arguments, _listed(told, name), strict=True)
        )
    return _scalar(kind, told, name)


def _listed(told: Any, name: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(told, list | tuple):
        raise TypeError(f"{name}: must be a list, not {told!r:.60}")
    return told


def _scalar(kind: Any, told: Any, name: str) -> Any:
    allowed = int | float if kind is float else kind
    if kind in (str, int, float, bool) and (
        not isinstance(told, allowed) or isinstance(told, bool) != (kind is bool)
    ):
        raise TypeError(f"{name}: must be {kind.__name__}, not {told!r:.60}")
    if kind is float and not math.isfinite(told):
        raise ValueError(f"{name}: must be finite, not {told!r:.60}")
    return told


def _read(kind: type, told: Mapping[str, Any], without: frozenset[str]) -> Any:
    """Return a dataclass; a field that was left out is empty, one that has a default may miss."""
    given = {}
    for each in fields(kind):
        hint = _hints(kind)[each.name]
        if each.name in told:
            given[each.name] = from_plain(hint, told[each.name], each.name, without)
            if each.metadata.get("positive") and not given[each.name] > 0:
                raise ValueError(f"{each.name}: must be more than 0")
        elif each.name in without:
            given[each.name] = get_origin(hint)()
        elif each.default is MISSING and each.default_factory is MISSING:
            raise KeyError(each.name)
    return kind(**given)


class Written:
    """A result that writes itself as a dict.

    `FORMAT` is the version of the dict. `TOLD` names the attributes that become its entries. The
    entry `RECORDS`, if any, holds the result's `records()`.
    """

    KIND: ClassVar[str]
    FORMAT: ClassVar[int] = 1
    TOLD: ClassVar[tuple[str, ...]] = ()
    RECORDS: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts, for JSON."""
        return {"kind": self.KIND, "format": self.FORMAT, **self._told()}

    def _told(self) -> dict[str, Any]:
        told = {name: to_plain(getattr(self, name)) for name in self.TOLD}
        if self.RECORDS:
            told[self.RECORDS] = self.records()  # type: ignore[attr-defined]
        return told


class Result(Written):
    """A measurement, as a dataclass, that writes all of its fields and reads itself.

    `WITHOUT` names fields that are left out, at any depth.
    """

    WITHOUT: ClassVar[frozenset[str]] = frozenset()

    def _told(self) -> dict[str, Any]:
        return _fields_of(self, self.WITHOUT)

    @classmethod
    def upgraded(cls, told: dict[str, Any]) -> dict[str, Any]:
        """Return the dict of an older file of the same format as it is written today."""
        return told

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Self:
        """Return the result that `to_dict` wrote.

        Raises
        ------
        ValueError
            It is something else, or of another format.
        """
        try:
            if told["kind"] != cls.KIND or told["format"] != cls.FORMAT:
                raise ValueError(f"it is a {told['kind']} of format {told['format']}")
            return _read(cls, cls.upgraded(told), cls.WITHOUT)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fault = f"key {error.args[0]!r} is missing" if isinstance(error, KeyError) else error
            raise ValueError(
                f"told: is not the {cls.KIND} (format {cls.FORMAT}) that to_dict writes: {fault}"
            ) from None
