"""Arguments shared by several commands: their declarations and parsers.

`otherwise` is the help text for the argument's default.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

from gpuopt.cli.parser import program
from gpuopt.util.names import unknown_name

Add = Callable[..., Any]  # a command's add_argument
DEFAULT_DTYPE = "int32 for reduce, else float32"


def variant(text: str) -> int | str:
    """Read a rung's number or name."""
    return int(text) if text.isdigit() else text


def numbers(text: str) -> tuple[int, ...]:
    """Read 3 or 3,0,1."""
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a block, such as 0 or 1,0") from None


def extent(text: str) -> tuple[int, ...]:
    """Read the extents of a grid or a block: 256, 16,16 or 16x16."""
    try:
        return tuple(count(each) for each in re.split("[,x]", text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a block or a grid, such as 256 or 16,16"
        ) from None


SUFFIXES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def count(text: str) -> int:
    """Read 4194304, 4_194_304, 2^22, 1e6, or 4M, which is 4 * 2^20."""
    base, _, exponent = text.replace("**", "^").partition("^")
    try:
        if re.fullmatch(r"\d+(\.\d+)?[eE]\+?\d{1,3}", text):
            number = Fraction(text)
            value = int(number) if number.denominator == 1 else 0
        elif text[-1:].lower() in SUFFIXES:
            number = Fraction(text[:-1]) * SUFFIXES[text[-1].lower()]
            value = int(number) if number.denominator == 1 else 0
        else:
            value = int(base) ** min(int(exponent or 1), 64)  # larger ones would take for ever
    except (ValueError, ZeroDivisionError):
        value = 0
    if not isinstance(value, int) or not 0 < value < 2**62:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a count, such as 4194304 or 2^22, 1e6 or 4M"
        )
    return value


def command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
    example: str,
) -> Add:
    """Add a command that calls `run`; return its add_argument."""
    parser = commands.add_parser(
        name, help=help, description=description, epilog=f"example: {program()} {example}"
    )
    parser.set_defaults(run=run)
    parser.add_argument(  # its default is the main parser's, before the command
        "--traceback",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show where an error comes from",
    )
    return parser.add_argument


def family(add: Add, names: Iterable[str]) -> None:
    """Add the required family."""
    add("family", choices=list(names), help="the family of kernels")


def family_or_file(add: Add, names: Iterable[str]) -> None:
    """Add the required family, or a file of own kernels."""
    add("family", metavar="FAMILY|FILE", help=f"{', '.join(names)}, or a .ptx or .cu file")


def one_of(name: str, names: Iterable[str]) -> None:
    """Raise unless a name is a family; it may have been meant as a file."""
    if name not in names:
        raise ValueError(unknown_name("FAMILY", name, "a family or a .ptx or .cu file", names))


def rung(add: Add, otherwise: str = "what the library takes for the case") -> None:
    """Add a rung of the family."""
    text = f"the rung, by number or name (default: {otherwise})"
    add("variant", type=variant, nargs="?", help=text)


def items(add: Add, otherwise: str, **more: Any) -> None:
    """Add the number of elements."""
    text = f"elements, as 4194304, 2^22, 1e6 or 4M, 4 x 2^20 (default: {otherwise})"
    add("-n", "--n", type=count, help=text, **more)


def dtype(
    add: Add, what: str = "of the elements", otherwise: str = DEFAULT_DTYPE, **more: Any
) -> None:
    """Add a dtype."""
    add("--dtype", help=f"{what} (default: {otherwise})", **more)


def block(add: Add, otherwise: str = "the deck's") -> None:
    """Add the threads per block."""
    add("--block", type=int, help=f"threads per block, 32, 64, ..., 1024 (default: {otherwise})")


def device(add: Add, names: str, otherwise: str = "a GPU, else the cpu", **more: Any) -> None:
    """Add the device."""
    add("--device", help=f"{names} (default: {otherwise})", **more)


def simulated(add: Add) -> None:
    """Add the device of a command that needs the simulated GPU."""
    device(add, "sim, or a preset as sim:g80", "sim", default="sim")


def rounds(add: Add) -> None:
    """Add the number of samples."""
    add("--rounds", type=count, default=11, help="samples of each rung (default: 11)")


def as_json(add: Add, more: str = "") -> None:
    """Add --json: print JSON instead of a table."""
    add("--json", action="store_true", help=f"print JSON{more}")


def output(add: Add, text: str, metavar: str = "FILE", **more: Any) -> None:
    """Add a file to write to."""
    add("-o", "--output", type=Path, metavar=metavar, help=text, **more)


def readme(add: Add, what: str, marks: str | None = None) -> None:
    """Add a page to write to and, if it may have several tables, the marks around this one."""
    text = f"also write the {what} between its marks"
    add("--write-readme", type=Path, metavar="FILE", help=text)
    if marks:
        text = f"which marks: <!-- MARKS: ... --> (default: {marks})"
        add("--marks", default=marks, help=text)
