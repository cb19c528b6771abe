"""The types by which PTX accesses the memory of a parameter or a variable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np


class AccessType(NamedTuple):
    """One load, store or atomic: its PTX type, ".f32", and the elements of a vector."""

    type: str
    count: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return int(re.sub(r"\D", "", self.type.split("x")[0]) or 8) // 8


_STATEMENT = re.compile(r"[\s{}]*(?:@!?%[\w$]+\s+)?([a-z][\w.:]*)\s+(.*)", re.S)
_NAME = re.compile(r"[%$\w]+")
_CARRIES = ("mov", "add", "sub", "mad", "cvta", "selp", "cvt")
_READERS = ("st", "red", "call", "bra", "brx", "prefetch", "cp", "discard")
_ACCESSES = ("ld", "st", "atom", "red", "ldu")


@lru_cache(maxsize=64)
def _bodies(ptx: str) -> dict[str, list[tuple[str, str]]]:
    """Return the statements of each kernel and function, by name."""
    text = re.sub(r"//[^\n]*|^[ \t]*(?:\.(?:loc|file)\b[^\n]*|[\w$]+:)", "", ptx, flags=re.M)
    heads = list(re.finditer(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)", text))
    ends = [each.start() for each in heads[1:]] + [len(text)]
    return {
        head[1]: _statements(text[head.end() : end]) for head, end in zip(heads, ends, strict=True)
    }


def _statements(body: str) -> list[tuple[str, str]]:
    """Return the instructions of a body in linear time, without those of debug sections."""
    parts = body[body.find("{") + 1 :].split(";")[:-1]
    found = (_STATEMENT.match(each) for each in parts)
    return [(each[1], each[2]) for each in found if each]


def _accesses(statements: Iterable[tuple[str, str]], start: str) -> set[AccessType] | None:
    """Return the accesses through a symbol; None if they cannot be followed."""
    listed, known, found = list(statements), {start}, set()
    for _ in range(8):  # rounds for code that uses a register before the text assigns it
        before = len(known)
        for name, operands in listed:
            op, names = name.split(".")[0], _NAME.findall(operands)
            carries = op in _CARRIES or (op == "ld" and ".param" in name)
            if carries and names and known & set(names[1:]):
                known.add(names[0])
            elif names and names[0] in known and op not in _READERS:
                return None  # the register has a value from elsewhere, too
        if len(known) == before:
            break
    for name, operands in listed:
        parts, inside = name.split("."), re.findall(r"\[([^\]]*)\]", operands)
        used = any(known & set(_NAME.findall(each)) for each in inside)
        if parts[0] in _ACCESSES and ".param" not in name:
            outside = re.sub(r"\[[^\]]*\]", "", operands)
            if parts[0] != "ld" and known & set(_NAME.findall(outside)):
                return None  # the pointer itself goes to memory
            if used:
                count = next((int(each[1:]) for each in parts if each in ("v2", "v4", "v8")), 1)
                found.add(AccessType("." + parts[-1], count))
        elif used and parts[0] != "ld":
            return None  # an argument of a call, an asynchronous copy
    return found


def of_parameter(ptx: bytes, kernel: str, index: int) -> set[AccessType] | None:
    """Return a kernel's accesses through a parameter; None: unknown."""
    text = ptx.decode("ascii", "replace")
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\(([^)]*)\)", text)
    if not head:
        return None
    names = re.findall(r"([\w$]+)\s*(?:\[[^\]]*\])?\s*(?:,|$)", head[1])
    body = _bodies(text).get(kernel)
    return _accesses(body, names[index]) if body and index < len(names) else None


def of_variable(ptx: bytes, name: str) -> set[AccessType]:
    """Return all accesses to a module's variable that can be followed."""
    bodies = _bodies(ptx.decode("ascii", "replace")).values()
    return set().union(*(_accesses(each, name) or set() for each in bodies))


def _agrees(access: AccessType, dtype: np.dtype) -> bool:
    if dtype.itemsize in (access.size, access.size * access.count):
        return True
    if access.type.startswith(".f"):
        return False
    packed = dtype.itemsize <= 2 and access.size > dtype.itemsize
    copied = max(access.count, access.size // 8) > 1  # whole elements as int4 or __int128
    return packed or (copied and access.size * access.count % dtype.itemsize == 0)


def disagreement(accesses: set[AccessType] | None, dtype: np.dtype) -> str | None:
    """Describe accesses that all disagree with a dtype; None: at least one agrees, or unknown."""
    if not accesses or dtype.kind not in "iuf" or dtype.itemsize < 2:
        return None
    if any(_agrees(each, dtype) for each in accesses):
        return None
    first = min(accesses)
    return f"elements of {first.size} bytes ({first.type})"
