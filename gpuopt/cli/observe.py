"""The commands that explain rungs: profile, trace, source, diff, report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpuopt.cli import console, options, own
from gpuopt.cli.console import bar, show
from gpuopt.families import cases
from gpuopt.measure import ladder, report
from gpuopt.observe import source, trace
from gpuopt.util import files

PICTURES = ("tree", "coalescing", "banks", "tile", "timeline")


def _run_profile(arguments: argparse.Namespace) -> int:
    if own.is_file(arguments.family):
        counted = own.profile(arguments)
        if arguments.json:
            print(json.dumps(counted.to_dict()))
        else:
            show(f"{counted}\n\n{counted.bounds()}")
        return 0
    options.one_of(arguments.family, cases.FAMILIES)
    block = arguments.block
    if block and len(block) > 1:
        raise ValueError("--block: a rung has one extent, as 256")
    with bar(text=f"simulating {arguments.family}"):
        rung, title, counted = ladder.count(
            arguments.family,
            arguments.variant,
            arguments.n,
            op=arguments.op,
            dtype=arguments.dtype,
            block=block[0] if block else None,
            device=arguments.device,
        )
    if arguments.json:
        about = {"family": arguments.family, "rung": rung.variant, "title": title}
        print(json.dumps(counted.to_dict() | about))
    else:
        show(f"rung {rung.variant} of {arguments.family}: {title}\n{rung.lesson}\n\n{counted}")
    return 0


def _run_report(arguments: argparse.Namespace) -> int:
    files.check(arguments.output, "-o", *report.ENDINGS)
    wanted, profiles, device = arguments.ladder, [], arguments.device
    if arguments.family:
        own.require_file(arguments.family)
        profiles, wanted, device = [own.profile(arguments)], wanted or [], device or "sim"
    with bar() as progress:
        made = report.report(
            device,
            quick=arguments.quick,
            families=wanted,
            profiles=profiles,
            progress=progress,
        )
    made.save(arguments.output)
    print(json.dumps(made.to_dict()) if arguments.json else f"wrote {arguments.output}")
    return 0


def _of_a_rung(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of a rung's trace."""
    options.one_of(arguments.family, cases.FAMILIES)
    if arguments.block and len(arguments.block) > 1:
        raise ValueError("--block: a rung has one extent, as 256")
    given = {name: getattr(arguments, name) for name in ("n", "dtype", "op")}
    given["block"] = arguments.block and arguments.block[0]
    return {name: value for name, value in given.items() if value is not None}


def _run_trace(arguments: argparse.Namespace) -> int:
    if bool(arguments.picture) != bool(arguments.output):
        raise ValueError(
            "--picture: needs -o FILE.svg to write to"
            if arguments.picture
            else f"-o: needs --picture, one of {', '.join(PICTURES)}"
        )
    which = {"access": arguments.access} if arguments.access is not None else {}
    if arguments.picture:
        files.check(arguments.output, "-o", ".svg")
        if which and arguments.picture not in ("coalescing", "banks"):
            raise ValueError(f"--access: --picture {arguments.picture} shows all accesses")
    if own.is_file(arguments.family):
        kernel = own.Own(arguments, arguments.device)
        traced_call, given = kernel.kernel, {"shared": kernel.shared}
        positional = (kernel.grid, kernel.block, *kernel.given)
    else:
        traced_call, positional = arguments.family, (arguments.variant,)
        given = _of_a_rung(arguments)
    with bar(text=f"tracing {arguments.family}"):
        traced = trace.trace(
            traced_call,
            *positional,
            block_index=arguments.block_index,
            warp=arguments.warp,
            launch=arguments.launch,
            device=arguments.device,
            **given,
        )
    if arguments.picture:
        getattr(traced, arguments.picture)(**which).save(arguments.output)
    print(json.dumps(traced.to_dict())) if arguments.json else show(traced)
    return 0


def _run_source(arguments: argparse.Namespace) -> int:
    if own.is_file(arguments.family):
        shown: Any = own.profile(arguments).source()
    else:
        with bar(text=f"simulating {arguments.family}"):
            shown = source.source(arguments.family, arguments.variant, annotate=arguments.annotate)
    print(json.dumps(shown.to_dict()) if arguments.json else shown)
    return 0


def _run_diff(arguments: argparse.Namespace) -> int:
    with bar(text=f"simulating {arguments.family}"):
        shown = source.diff(arguments.family, arguments.a, arguments.b, annotate=arguments.annotate)
    print(json.dumps(shown.to_dict())) if arguments.json else console.show_diff(str(shown))
    return 0


def _add_trace(commands: Any) -> None:
    add = options.command(
        commands,
        "trace",
        _run_trace,
        help="record what a block of threads does, and draw it",
        description="Run a rung, or a kernel of your own, on the simulated GPU, record one block "
        "instruction by instruction, and print its accesses to memory with what each costs. With "
        "--picture, also draw it. tree: which thread adds what; coalescing: which lane's address "
        "falls into which transaction; banks: which lane hits which bank; tile: who wrote and who "
        "read each word of shared memory; timeline: a warp's instructions and the lanes that "
        "execute them.",
        example="trace reduce 3 --picture tree -o tree.svg",
    )
    options.family_or_file(add, cases.FAMILIES)
    options.rung(add, "what the library takes for the case; the file's only kernel")
    add("--picture", choices=PICTURES, help="what to draw")
    options.output(add, "the picture's file, .svg")
    options.items(add, "few enough for a picture")
    add("--block", type=options.extent, metavar="N[,N[,N]]", help="threads per block")
    own.add_launch(add)
    options.dtype(add)
    add("--op", help="the reduction's (default: sum)")
    numbers = options.numbers
    add("--block-index", type=numbers, default=(0,), help="which block: 3, or 3,0,1 (default: 0)")
    add("--warp", type=int, help="only this warp of the block (default: all)")
    add("--launch", type=int, default=0, help="which launch of the call (default: 0)")
    add("--access", type=int, help="which access to draw (default: the worst)")
    options.simulated(add)
    options.as_json(add)


def _add_profile(commands: Any) -> None:
    add = options.command(
        commands,
        "profile",
        _run_profile,
        help="count what a kernel does, and on which source line",
        description="Verify one rung on the simulated GPU and print what it counted, as Nsight "
        "Compute would on a GPU: warp instructions, divergent branches, sectors per request, bank "
        "conflicts, and the source lines that cost most. For when you know that a rung is slow "
        "and ask where.",
        example="profile reduce 2 -n 1e5; profile scale.ptx --block 256 --args float32[256] 2",
    )
    options.family_or_file(add, cases.FAMILIES)
    options.rung(add, "what the library takes for the case; the file's only kernel")
    options.items(add, "about a second's")
    add("--op", help="the reduction's (default: sum)")
    options.dtype(add)
    add("--block", type=options.extent, metavar="N[,N[,N]]", help="threads per block")
    own.add_launch(add)
    options.simulated(add)
    options.as_json(add, ", every line's counters too")


def _add_report(commands: Any) -> None:
    add = options.command(
        commands,
        "report",
        _run_report,
        help="measure everything, or your own kernel, and write one HTML page",
        description="Measure a device's ceilings and every ladder, and write them to one HTML file "
        "that needs no network: roofline, plots, counters, lessons, what changed from rung to "
        "rung, and pictures of what rungs do. With a .ptx or .cu file: a page about a kernel of "
        "your own, its counters, least times and annotated source.",
        example="report --quick; report scale.cu --block 256 --grid 4 --args float32[1000] 2.5",
    )
    add("family", nargs="?", metavar="FILE", help="a .ptx or .cu file, for a kernel of your own")
    add("variant", nargs="?", metavar="KERNEL", help="its kernel (default: the only one)")
    add("--block", type=options.extent, metavar="N[,N[,N]]", help="threads per block of it")
    own.add_launch(add)
    options.device(add, "cuda, cuda:1, cpu, sim:m2090")
    add("--quick", action="store_true", help="fewer elements and samples: less than a minute")
    ladders = "only this ladder; repeatable (default: all; none beside an own kernel)"
    add("--family", dest="ladder", action="append", choices=report.FAMILIES, help=ladders)
    add("--json", action="store_true", help="also print the numbers, for 'compare'")
    page = "report.html"
    options.output(add, f"where to write (default: {page})", default=Path(page))


def _add_source(commands: Any) -> None:
    beside = (
        "show beside each line its warp instructions, divergent branches, bank conflicts and "
        "sectors per request, counted on the simulated GPU"
    )
    add = options.command(
        commands,
        "source",
        _run_source,
        help="print the source of a rung or of your own kernel",
        description="Print a rung's source: its row, its function, and what that needs. For "
        "reading a kernel, with what each of its lines costs; of a kernel of your own always so.",
        example="source reduce 3 --annotate; source scale.cu --block 256 --args float32[256] 2",
    )
    options.family_or_file(add, cases.FAMILIES)
    options.rung(add, "the best for many elements; the file's only kernel")
    add("--annotate", action="store_true", help=beside)
    add("--block", type=options.extent, metavar="N[,N[,N]]", help="threads per block")
    own.add_launch(add)
    options.simulated(add)
    options.as_json(add)

    add = options.command(
        commands,
        "diff",
        _run_diff,
        help="print what one rung changes against another",
        description="Compare the sources of two rungs. Between neighbours that is the lesson.",
        example="diff transpose shared padded",
    )
    add("family", help="the family of kernels")
    add("a", type=options.variant, help="the rung before")
    add("b", type=options.variant, help="the rung after")
    add("--annotate", action="store_true", help=beside)
    options.as_json(add)


def add_commands(commands: Any) -> None:
    """Add the commands to those of the program."""
    _add_profile(commands)
    _add_trace(commands)
    _add_report(commands)
    _add_source(commands)
