"""A kernel's PTX instructions, their operands, and the values that addresses depend on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpuopt.observe.events import Instruction

LINES = 1 << 24  # of a file, at most

_files: list[str | None] = [None]


def place(file: str | None, line: int) -> int:
    """Return a number for a line of a file: lines of different files differ."""
    if file not in _files:
        _files.append(file)
    return _files.index(file) * LINES + line


def line_of(number: int) -> int:
    """Return the line of a place."""
    return number % LINES


def file_of(number: int) -> str | None:
    """Return the file of a place, None for PTX."""
    return _files[number // LINES]


_GUARD = re.compile(r"^@!?(%\w+)\s+")
_REGISTER = re.compile(r"%[\w.]+")
_STORES = ("st.", "red.", "bar", "bra", "ret", "exit", "membar", "fence", "prefetch", "trap")


@dataclass(frozen=True)
class Op:
    """An instruction with its operands.

    Attributes
    ----------
    number, line : int
        Its index in the kernel, and the `place` of its source line.
    name : str
        The opcode with its modifiers, "mad.lo.s32".
    to, of : tuple of str
        The registers that it writes and reads; the guard is among the latter.
    operands : tuple of str
        As written, the destination first.
    address : str
        The register in brackets, "" for none.
    """

    number: int
    line: int
    name: str
    to: tuple[str, ...]
    of: tuple[str, ...]
    operands: tuple[str, ...]
    address: str
    text: str
    guard: str = ""

    @property
    def parts(self) -> list[str]:
        """The opcode's words."""
        return self.name.split(".")


def _split(text: str) -> list[str]:
    """Split operands at the commas outside of brackets and braces."""
    found, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += letter in "[{("
        depth -= letter in "]})"
        if letter == "," and not depth:
            found.append(text[begin:at].strip())
            begin = at + 1
    found.append(text[begin:].strip())
    return [each for each in found if each]


def parse(instruction: Instruction, number: int) -> Op:
    """Return an instruction's operands."""
    text = instruction.text.strip().rstrip(";")
    guard = _GUARD.match(text)
    body = text[guard.end() :] if guard else text
    name, _, rest = body.partition(" ")
    operands = tuple(_split(rest))
    writes = bool(operands) and not name.startswith(_STORES)
    to = tuple(_REGISTER.findall(operands[0])) if writes else ()
    reads = operands[1:] if writes else operands
    of = [each for operand in reads for each in _REGISTER.findall(operand)]
    if guard:
        of.append(guard[1])
    bracket = re.search(r"\[\s*(%\w+)", rest)
    return Op(
        number,
        place(instruction.file, instruction.line) if instruction.file else instruction.ptx_line,
        name,
        to,
        tuple(of),
        operands,
        bracket[1] if bracket else "",
        body,
        guard[1] if guard else "",
    )


@dataclass(frozen=True)
class KernelCode:
    """The instructions of a kernel and of the functions that it calls."""

    instructions: list[Instruction] = field(repr=False)

    @cached_property
    def ops(self) -> list[Op]:
        """The instructions with their operands."""
        return [parse(each, i) for i, each in enumerate(self.instructions)]

    @cached_property
    def writers(self) -> dict[str, list[Op]]:
        """The instructions that write each register."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for each in op.to:
                found.setdefault(each, []).append(op)
        return found

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """The instructions that read each register."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for each in op.of:
                found.setdefault(each, []).append(op)
        return found

    def slice(self, register: str) -> list[Op]:
        """Return the instructions that a register's value may depend on, loops included.

        Loads end it: the address of a loaded value is not followed.
        """
        seen: dict[int, Op] = {}
        todo, done = [register], set()
        while todo:
            each = todo.pop()
            if each in done:
                continue
            done.add(each)
            for op in self.writers.get(each, ()):
                if op.number not in seen:
                    seen[op.number] = op
                    if not op.name.startswith(("ld.", "tex", "atom")) or "param" in op.name:
                        todo += op.of
        return sorted(seen.values(), key=lambda op: op.number)

    def depends_on_data(self, op: Op) -> bool:
        """Tell whether an access's address depends on a value in memory."""
        return bool(op.address) and any(
            each.name.startswith(("ld.", "tex", "atom"))
            and not each.name.startswith("ld.param")
            and each.number != op.number
            for each in self.slice(op.address)
        )


# --- values of one thread


class Unknown(Exception):
    """A value that depends on memory or on a loop."""


@dataclass(frozen=True)
class Value:
    """A value as the program computes it, and without any overflow."""

    wrapped: int
    exact: int
    at: Op | None = None  # the instruction that overflowed first


_SIGNED = {"s": True, "u": False, "b": False}


def _wrap(number: int, kind: str) -> int:
    bits = int(kind[1:])
    number &= (1 << bits) - 1
    return number - (1 << bits) if kind[0] == "s" and number >> (bits - 1) else number


class Thread:
    """An evaluator of addresses for one thread of a launch.

    Parameters
    ----------
    code : KernelCode
    special : dict
        Values of "%tid.x", "%ctaid.x", ...
    parameters : list of int
        The arguments; arrays are 0.
    narrow : callable
        Tells whether a mask of 8 or 16 bits stems from an integer type of that size.
    """

    def __init__(
        self,
        code: KernelCode,
        special: dict[str, int],
        parameters: list[int],
        narrow: Callable[[Op], bool] = lambda op: False,
    ) -> None:
        self.code, self.special, self.parameters = code, special, parameters
        self.narrow = narrow
        self.known: dict[str, Value] = {}
        self.active: set[str] = set()

    def value(self, operand: str) -> Value:
        """Return an operand's value; Unknown if memory, a branch or a loop decides it."""
        operand = operand.strip()
        if re.fullmatch(r"-?\d+", operand):
            return Value(int(operand), int(operand))
        if re.fullmatch(r"0[xX][0-9a-fA-F]+U?", operand):
            number = int(operand.rstrip("U"), 16)
            return Value(number, number)
        if operand in self.special:
            return Value(self.special[operand], self.special[operand])
        if operand in self.known:
            return self.known[operand]
        writers = self.code.writers.get(operand, ())
        if len(writers) != 1 or writers[0].guard or operand in self.active:
            raise Unknown(operand)
        self.active.add(operand)
        try:
            found = self._of(writers[0])
        finally:
            self.active.discard(operand)
        self.known[operand] = found
        return found

    def _of(self, op: Op) -> Value:
        parts, kind = op.parts, op.parts[-1]
        if op.name.startswith("ld.param"):
            found = re.fullmatch(r"\[\w*_param_(\d+)\]", op.operands[1].replace(" ", ""))
            if not found or int(found[1]) >= len(self.parameters):
                raise Unknown(op.text)
            number = self.parameters[int(found[1])]
            return Value(number, number)
        if parts[0] in ("mov", "cvta"):
            return self.value(op.operands[1])
        if not re.fullmatch(r"[usb](8|16|32|64)", kind):
            raise Unknown(op.text)
        masked = self._mask(op) if parts[0] == "and" else None
        if masked:
            return masked
        extended = self._extension(op) if parts[0] == "shr" else None
        if extended:
            return extended
        given = [self.value(each) for each in op.operands[1:]]
        at = next((each.at for each in given if each.at), None)
        if parts[0] == "cvt":
            if not re.fullmatch(r"[usb](8|16|32|64)", parts[-2]):
                raise Unknown(op.text)
            source = _wrap(given[0].wrapped, kind)
            return self._made(op, source, given[0].exact, parts[-2], at)
        wide = "wide" in parts
        signed = [_wrap(each.wrapped, kind) for each in given[: 2 if wide else 3]]
        exact = [each.exact for each in given]
        result = kind if not wide else kind[0] + str(2 * int(kind[1:]))
        if wide and len(given) == 3:
            signed.append(_wrap(given[2].wrapped, result))
        linear = {
            "add": lambda v: v[0] + v[1],
            "sub": lambda v: v[0] - v[1],
            "mul": lambda v: v[0] * v[1],
            "mad": lambda v: v[0] * v[1] + v[2],
            "shl": lambda v: v[0] << min(v[1], 64) if v[1] >= 0 else 0,
            "neg": lambda v: -v[0],
        }
        if parts[0] in linear and "hi" not in parts:
            function = linear[parts[0]]
            return self._made(op, function(signed), function(exact), result, at)
        return self._other(op, signed, result)

    def _mask(self, op: Op) -> Value | None:
        """Return the value of a conversion to an unsigned integer of 8 or 16 bits."""
        if op.operands[-1] not in ("255", "65535"):
            return None
        writer = self.code.writers.get(op.operands[1], [op])[0]
        if not (self.narrow(op) or self.narrow(writer)):
            return None
        source = self.value(op.operands[1])
        kept = source.wrapped & int(op.operands[-1])
        return Value(kept, source.exact, source.at or (writer if kept != source.exact else None))

    def _extension(self, op: Op) -> Value | None:
        """Return the value of a shift to the left and back: an integer's lower bits, scaled."""
        before = self.code.writers.get(op.operands[1], ())
        if len(before) != 1 or before[0].parts[0] != "shl":
            return None
        shifts = [before[0].operands[-1], op.operands[-1]]
        if not all(each.isdigit() for each in shifts):
            return None
        up, down = map(int, shifts)
        bits = int(op.parts[-1][1:]) - up
        if not 8 <= bits < 64 or down > up:
            return None
        source = self.value(before[0].operands[1])
        kept = _wrap(source.wrapped, f"{op.parts[-1][0]}{bits}")
        writer = self.code.writers.get(before[0].operands[1], [before[0]])[0]
        at = source.at or (writer if kept != source.exact else None)
        return Value(kept << (up - down), source.exact << (up - down), at)

    def _made(self, op: Op, wrapped: int, exact: int, kind: str, at: Op | None) -> Value:
        """Return a linear operation's value; its overflow stays visible."""
        number = _wrap(wrapped, kind)
        # A small negative number in an unsigned register is no overflow: adding it works.
        overflow = number != exact and not (kind[0] != "s" and -(1 << 31) <= exact < 0)
        return Value(number, exact, at or (op if overflow else None))

    def _other(self, op: Op, given: list[int], kind: str) -> Value:
        """Return the value of an operation after which an earlier overflow counts as meant."""
        functions = {
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "shr": lambda a, b: a >> min(b, 64),
            "min": min,
            "max": max,
            "div": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
            "rem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
        }
        function: Any = functions.get(op.parts[0])
        if function is None or len(given) != 2:
            raise Unknown(op.text)
        if op.parts[0] in ("div", "rem") and not given[1]:
            raise Unknown(op.text)
        number = _wrap(function(*given), kind)
        return Value(number, number)
