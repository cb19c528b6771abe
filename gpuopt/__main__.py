"""The command line: python -m gpuopt."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import gpuopt
from gpuopt import experiments
from gpuopt._cases import ITEMS
from gpuopt._devices import describe, devices, show_config
from gpuopt._explain import add_commands

OPERATIONS = ("sum", "prod", "min", "max", "and", "or", "xor")
DTYPES = ("bool", "int32", "int64", "float32", "float64")
MARKS = ("<!-- {marks}: written by `{command}` -->", "<!-- end of {marks} -->")


def _count(text: str) -> int:
    """Read 4194304, 4_194_304 or 2^22."""
    base, _, exponent = text.replace("**", "^").partition("^")
    try:
        value = int(base) ** int(exponent) if exponent else int(base)
    except ValueError:
        value = 0
    if not 0 < value < 2**62:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count, such as 4194304 or 2^22")
    return value


def _progress(text: str) -> None:
    """Show what goes on to a person who waits, and to nobody else."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if text else "\r", file=sys.stderr, flush=True)


def _write_between_marks(path: Path, marks: str, table: str, command: str) -> None:
    text = path.read_text()
    begin, end = (mark.format(marks=marks, command="").split("`")[0] for mark in MARKS)
    before, found, rest = text.partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise SystemExit(f"gpuopt: {path} has no lines {begin!r} and {end!r} to write between")
    head = MARKS[0].format(marks=marks, command=command)
    path.write_text(f"{before}{head}\n```text\n{table}\n```\n{end}{after}")


def _ladder(arguments: argparse.Namespace) -> int:
    named = [arguments.device] if arguments.device else []
    found = gpuopt.available("cuda")
    if not (named or os.environ.get("GPUOPT_DEVICE") or found):
        print(f"No GPU ({found.reason}): the simulated GPU counts, the cpu is timed.\n")
        named = ["sim", "cpu"]
    tables = []
    for device in named or [None]:
        measured = gpuopt.ladder(
            arguments.family,
            arguments.n,
            op=arguments.op,
            dtype=arguments.dtype,
            block=arguments.block,
            device=device,
            rounds=arguments.rounds,
            progress=_progress,
        )
        _progress("")
        print("\n" * bool(tables) + str(measured))
        tables.append(str(measured))
    if arguments.write_readme:
        command = "python -m gpuopt " + " ".join(sys.argv[1:])
        _write_between_marks(arguments.write_readme, arguments.marks, "\n\n".join(tables), command)
    return 0


def _experiment(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        listed = "\n".join(f"{name:<20}{line}" for name, line in experiments.summary().items())
        print(listed)
        if arguments.write_readme:
            command = "python -m gpuopt " + " ".join(sys.argv[1:])
            _write_between_marks(arguments.write_readme, "experiments", listed, command)
        return 0
    found = experiments.run(arguments.name, arguments.device)
    print(json.dumps(found.to_dict(), indent=1) if arguments.json else found)
    return 0


def _devices(arguments: argparse.Namespace) -> int:
    del arguments
    for each in devices():
        print(f"{each.name:<10}{describe(each)}")
    found = gpuopt.available("cuda")
    if not found:
        print(f"{'cuda':<10}no: {found.reason}")
    return 0


def _config(arguments: argparse.Namespace) -> int:
    del arguments
    show_config()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuopt",
        description="The classic GPU-optimisation ladders, every rung verified and timed.",
    )
    parser.add_argument("--version", action="version", version=f"gpuopt {gpuopt.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser(
        "ladder",
        help="verify and time every rung of a family",
        description="Verify every rung against NumPy, time it, verify it again, and print the "
        "deck's table with the deck's own figures beside it.",
    )
    add = command.add_argument
    add("family", choices=["reduce", *ITEMS], help="the family of kernels")
    add(
        "--n",
        type=_count,
        help="items, as 4194304 or 2^22 (default: the deck's, or what outgrows the caches)",
    )
    add("--op", default="sum", choices=OPERATIONS, help="the reduction's (default: sum)")
    add(
        "--dtype",
        choices=DTYPES,
        help="of items and result (default: int32 for reduce, else float32)",
    )
    add("--block", type=int, help="threads a block, 32, 64, ..., 1024 (default: the deck's)")
    add("--device", help="cuda, cuda:1, sim, sim:g80 or cpu (default: a GPU, else sim and cpu)")
    add("--rounds", type=_count, default=11, help="samples of each rung (default: 11)")
    add("--write-readme", type=Path, metavar="FILE", help="also write the table between its marks")
    add("--marks", default="ladder", help="which marks: <!-- MARKS: ... --> (default: ladder)")
    command.set_defaults(run=_ladder)

    add_commands(commands)

    command = commands.add_parser(
        "experiment",
        help="run one of the decks' experiments; without a name, list them",
        description="Coalescing, bank conflicts, divergence, ...: each verified, then timed on a "
        "GPU or counted on a simulated one. Without a name: the list.",
    )
    add = command.add_argument
    add("name", nargs="?", metavar="NAME", help=", ".join(experiments.EXPERIMENTS))
    add(
        "--device",
        help="cuda, cuda:1, sim (as the deck's GPU), sim:h200 (default: a GPU, else sim)",
    )
    add("--json", action="store_true", help="print the result as JSON")
    add("--write-readme", type=Path, metavar="FILE", help="also write the list between its marks")
    command.set_defaults(run=_experiment)

    command = commands.add_parser("devices", help="list the devices that can serve, and why not")
    command.set_defaults(run=_devices)
    command = commands.add_parser("config", help="show how gpuopt was built, for a bug report")
    command.set_defaults(run=_config)
    return parser


def main() -> int:
    """Run a command; errors of the user's or the machine's are one line, not a traceback."""
    arguments = _parser().parse_args()
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who read our output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, RuntimeError, MemoryError, OSError) as error:
        print(f"gpuopt: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
