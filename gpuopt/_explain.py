"""The commands that show what rungs do: profile, trace, source, diff, report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpuopt import _ladder, _report, _source, _trace
from gpuopt._progress import bar
from gpuopt._rungs import find
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


def count(text: str) -> int:
    """Read 4194304, 4_194_304 or 2^22."""
    base, _, exponent = text.replace("**", "^").partition("^")
    try:
        value = int(base) ** int(exponent) if exponent else int(base)
    except ValueError:
        value = 0
    if not 0 < value < 2**62:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count, such as 4194304 or 2^22")
    return value


def _run_profile(arguments: argparse.Namespace) -> int:
    rung = find(arguments.family, arguments.variant)
    title, counted = _ladder.count(
        arguments.family,
        rung,
        arguments.n,
        op=arguments.op,
        dtype=arguments.dtype,
        block=arguments.block,
        device=arguments.device,
    )
    if arguments.json:
        about = {"family": arguments.family, "rung": rung.variant, "title": title}
        print(json.dumps(counted.to_dict() | about))
    else:
        print(f"{rung.variant} of {arguments.family}, {title}\n{rung.lesson}\n\n{counted}")
    return 0


def _run_report(arguments: argparse.Namespace) -> int:
    _report.check_path(arguments.output)
    with bar() as progress:
        made = _report.report(
            arguments.device,
            quick=arguments.quick,
            families=arguments.family,
            progress=progress,
        )
    made.save(arguments.output)
    print(json.dumps(made.to_dict()) if arguments.json else f"wrote {arguments.output}")
    return 0


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
    print(json.dumps(traced.to_dict()) if arguments.json else traced)
    return 0


def _run_source(arguments: argparse.Namespace) -> int:
    shown = _source.source(arguments.family, arguments.variant, annotate=arguments.annotate)
    print(json.dumps(shown.to_dict()) if arguments.json else shown)
    return 0


def _run_diff(arguments: argparse.Namespace) -> int:
    shown = _source.diff(arguments.family, arguments.a, arguments.b, annotate=arguments.annotate)
    print(json.dumps(shown.to_dict()) if arguments.json else shown)
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
    add("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_run_trace)


def _add_profile(commands: Any) -> None:
    command = commands.add_parser(
        "profile",
        help="count what a rung does, and on which source line",
        description="Verify one rung on the simulated GPU and print what it counted, as Nsight "
        "Compute would on a GPU: warp instructions, divergent branches, sectors a request, bank "
        "conflicts, and the source lines that cost most. For when you know that a rung is slow "
        "and ask where.",
        epilog="example: python -m gpuopt profile reduce 2 -n 100000",
    )
    add = command.add_argument
    add("family", choices=list(SIZES), help="the family of kernels")
    add("variant", type=_variant, nargs="?", help="the rung, by number or name (default: the best)")
    add("-n", "--n", type=count, help="items, as 100000 or 2^20 (default: about a second's)")
    add("--op", default="sum", help="the reduction's (default: sum)")
    add("--dtype", help="of the items (default: int32 for reduce, else float32)")
    add("--block", type=int, help="threads a block (default: the deck's)")
    add("--device", default="sim", help="sim, or a preset as sim:g80 (default: sim)")
    add("--json", action="store_true", help="print JSON, every line's counters too")
    command.set_defaults(run=_run_profile)


def _add_report(commands: Any) -> None:
    command = commands.add_parser(
        "report",
        help="measure everything, and write one HTML page about it",
        description="Measure a device's ceilings and every ladder, and write them to one HTML file "
        "that needs no network: roofline, plots, counters, lessons, what changed from rung to "
        "rung, and pictures of what rungs do. For keeping, and for showing to others.",
        epilog="example: python -m gpuopt report --quick -o report.html",
    )
    add = command.add_argument
    add("--device", help="cuda, cuda:1, cpu, sim:m2090 (default: a GPU, else the cpu)")
    add("--quick", action="store_true", help="fewer items and samples: less than a minute")
    add("--family", action="append", choices=_report.FAMILIES, help="only this ladder; repeatable")
    add("--json", action="store_true", help="also print the numbers, for 'compare'")
    add("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE",
        help="where to write (default: report.html)")  # fmt: skip
    command.set_defaults(run=_run_report)


def add_commands(commands: Any) -> None:
    """Add the commands to those of the program."""
    _add_profile(commands)
    _add_trace(commands)
    _add_report(commands)
    beside = (
        "show beside each line its warp instructions, divergent branches, bank conflicts and "
        "sectors a request, counted on the simulated GPU"
    )
    command = commands.add_parser(
        "source",
        help="print a rung's source",
        description="Print a rung's source: its row, its function, and what that needs. For "
        "reading a kernel, with what each of its lines costs.",
        epilog="example: python -m gpuopt source reduce 3 --annotate",
    )
    command.add_argument("family", help="the family of kernels")
    command.add_argument("variant", type=_variant, nargs="?", help="the rung (default: the best)")
    command.add_argument("--annotate", action="store_true", help=beside)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_run_source)

    command = commands.add_parser(
        "diff",
        help="print what one rung changes against another",
        description="Compare the sources of two rungs. Between neighbours that is the lesson.",
        epilog="example: python -m gpuopt diff transpose shared padded",
    )
    command.add_argument("family", help="the family of kernels")
    command.add_argument("a", type=_variant, help="the rung before")
    command.add_argument("b", type=_variant, help="the rung after")
    command.add_argument("--annotate", action="store_true", help=beside)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_run_diff)
