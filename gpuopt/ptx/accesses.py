"""The types by which PTX accesses the memory of a parameter or a variable."""

from __future__ import annotations

import re
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
_CALL = re.compile(r"(?:\([^)]*\)\s*,\s*)?([\w$]+)\s*(?:,\s*\(([^)]*)\))?")
_DEPTH = 8  # of calls that are followed


class _Function(NamedTuple):
    """A kernel's or function's parameters and statements."""

    parameters: list[str]
    statements: list[tuple[str, str]]


@lru_cache(maxsize=64)
def _bodies(ptx: str) -> dict[str, _Function]:
    """Return each kernel and function, by name."""
    text = re.sub(r"//[^\n]*|^[ \t]*(?:\.(?:loc|file)\b[^\n]*|[\w$]+:)", "", ptx, flags=re.M)
    heads = list(re.finditer(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)", text))
    ends = [each.start() for each in heads[1:]] + [len(text)]
    made = {}
    for head, end in zip(heads, ends, strict=True):
        rest = text[head.end() : end]
        listed = re.match(r"\s*\(([^)]*)\)", rest)
        names = re.findall(r"([\w$]+)\s*(?:\[[^\]]*\]\s*)?(?:,|$)", listed[1]) if listed else []
        if "{" in rest:  # not a declaration
            made[head[1]] = _Function(names, _statements(rest))
    return made


def _statements(body: str) -> list[tuple[str, str]]:
    """Return the instructions of a body in linear time, without those of debug sections."""
    parts = body[body.find("{") + 1 :].split(";")[:-1]
    found = (_STATEMENT.match(each) for each in parts)
    return [(each[1], each[2]) for each in found if each]


def _called(
    bodies: dict[str, _Function], operands: str, passed: set[str], depth: int
) -> set[AccessType] | None:
    """Return the accesses of a called function through the arguments in `passed`."""
    if not passed & set(_NAME.findall(operands)):
        return set()
    call, found = _CALL.match(operands), set()
    body = bodies.get(call[1]) if call and call[2] else None
    if not body:
        return None  # by a pointer, or of another module
    for i, name in enumerate(re.split(r"\s*,\s*", call[2].strip())):
        if name not in passed:
            continue
        inside = i < len(body.parameters) and depth
        more = _accesses(bodies, body, body.parameters[i], depth - 1) if inside else None
        if more is None:
            return None
        found |= more
    return found


def _accesses(
    bodies: dict[str, _Function], body: _Function, start: str, depth: int = _DEPTH
) -> set[AccessType] | None:
    """Return the accesses through a symbol, also of called functions; None: cannot be followed."""
    listed, known, found = body.statements, {start}, set()
    passed: set[str] = set()  # arguments of the next call that are known
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
        if name.startswith("st.param"):
            to, _, source = operands.partition("]")
            argument = _NAME.findall(to)[0]
            passed.discard(argument)
            if known & set(_NAME.findall(source)):
                if "retval" in argument:
                    return None  # the pointer is returned
                passed.add(argument)
            continue
        if name.split(".")[0] == "call":
            more = _called(bodies, operands, passed | known, depth)
            if more is None:
                return None
            found |= more
            continue
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
            return None  # an asynchronous copy
    return found


def of_parameter(ptx: bytes, kernel: str, index: int) -> set[AccessType] | None:
    """Return a kernel's accesses through a parameter; None: unknown."""
    bodies = _bodies(ptx.decode("ascii", "replace"))
    body = bodies.get(kernel)
    if not body or index >= len(body.parameters):
        return None
    return _accesses(bodies, body, body.parameters[index])


def of_variable(ptx: bytes, name: str) -> set[AccessType]:
    """Return all accesses to a module's variable that can be followed."""
    bodies = _bodies(ptx.decode("ascii", "replace"))
    return set().union(*(_accesses(bodies, each, name) or set() for each in bodies.values()))


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
