"""The commands that show what a rung does: trace, source, diff."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpuopt import _source, _trace
from gpuopt._trace import SIZES

PICTURES = ("tree", "coalescing", "banks", "tile", "timeline")


def _variant(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _numbers(text: str) -> tuple[int, ...]:
    """Read 3 or 3,0,1."""
    try:
        return tuple(int(each) for each in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a block, such as 0 or 1,0") from None


def _run_trace(arguments: argparse.Namespace) -> int:
    if bool(arguments.picture) != bool(arguments.output):
        raise ValueError(
            "--picture: needs -o FILE.svg to write to"
            if arguments.picture
            else f"-o: needs --picture, one of {', '.join(PICTURES)}"
        )
    given: dict[str, Any] = {
        name: value
        for name in ("n", "block", "dtype", "op")
        if (value := getattr(arguments, name)) is not None
    }
    traced = _trace.trace(
        arguments.family,
        arguments.variant,
        block_index=arguments.block_index,
        warp=arguments.warp,
        launch=arguments.launch,
        device=arguments.device,
        **given,
    )
    if arguments.picture:
        which = {"access": arguments.access} if arguments.access is not None else {}
        if which and arguments.picture not in ("coalescing", "banks"):
            raise ValueError(f"--access: --picture {arguments.picture} shows all accesses")
        getattr(traced, arguments.picture)(**which).save(arguments.output)
    print(traced)
    return 0


def _run_source(arguments: argparse.Namespace) -> int:
    print(_source.source(arguments.family, arguments.variant, annotate=arguments.annotate))
    return 0


def _run_diff(arguments: argparse.Namespace) -> int:
    print(_source.diff(arguments.family, arguments.a, arguments.b, annotate=arguments.annotate))
    return 0


def _add_trace(commands: Any) -> None:
    command = commands.add_parser(
        "trace",
        help="record what a block of a rung does, and draw it",
        description="Run a rung on the simulated GPU, record one block instruction by instruction, "
        "and print its accesses to memory with what each costs. With --picture, also draw it: "
        "tree: which thread adds what; coalescing: which lane's address falls into which sector; "
        "banks: which lane hits which bank; tile: who wrote and who read each word of shared "
        "memory; timeline: a warp's instructions and the lanes that execute them.",
        epilog="example: python -m gpuopt trace reduce 3 --picture tree -o tree.svg",
    )
    add = command.add_argument
    add("family", choices=list(SIZES), help="the family of kernels")
    add("variant", type=_variant, nargs="?", help="the rung, by number or name (default: the best)")
    add("--picture", choices=PICTURES, help="what to draw")
    add("-o", "--output", type=Path, metavar="FILE", help="the picture's file, .svg")
    add("--n", type=int, help="items (default: few enough for a picture)")
    add("--block", type=int, help="threads a block")
    add("--dtype", help="of the items")
    add("--op", help="the reduction's (default: sum)")
    add("--block-index", type=_numbers, default=(0,), help="which block: 3, or 3,0,1 (default: 0)")
    add("--warp", type=int, help="only this warp of the block (default: all)")
    add("--launch", type=int, default=0, help="which launch of the call (default: 0)")
    add("--access", type=int, help="which access to draw (default: the worst)")
    add("--device", default="sim", help="sim, or a preset as sim:g80 (default: sim)")
    command.set_defaults(run=_run_trace)


def add_commands(commands: Any) -> None:
    """Add the commands to those of the program."""
    _add_trace(commands)
    beside = (
        "show beside each line its warp instructions, divergent branches, bank conflicts and "
        "sectors a request, counted on the simulated GPU"
    )
    command = commands.add_parser(
        "source",
        help="print a rung's source",
        description="Print a rung's source: its row, its function, and what that needs.",
    )
    command.add_argument("family", help="the family of kernels")
    command.add_argument("variant", type=_variant, nargs="?", help="the rung (default: the best)")
    command.add_argument("--annotate", action="store_true", help=beside)
    command.set_defaults(run=_run_source)

    command = commands.add_parser(
        "diff",
        help="print what one rung changes against another",
        description="Compare the sources of two rungs. Between neighbours that is the lesson.",
    )
    command.add_argument("family", help="the family of kernels")
    command.add_argument("a", type=_variant, help="the rung before")
    command.add_argument("b", type=_variant, help="the rung after")
    command.add_argument("--annotate", action="store_true", help=beside)
    command.set_defaults(run=_run_diff)
