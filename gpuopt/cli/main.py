"""The command line: python -m gpuopt."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gpuopt
from gpuopt import experiments
from gpuopt.catalog.devices import KINDS, config, describe, devices, show_config
from gpuopt.cli import advice_commands, observe, options, own, race_commands
from gpuopt.cli.console import bar, fold, show
from gpuopt.cli.parser import Parser, program
from gpuopt.cli.readme import parts, write_between_marks
from gpuopt.families import cases
from gpuopt.families.reduce_axis import UFUNCS
from gpuopt.util import files, table

DTYPES = ("bool", "int32", "int64", "float32", "float64")
FAMILIES = tuple(cases.FAMILIES)
ANY_DEVICE = "cuda, cuda:1, cpu, sim:m2090"
FOR_PROGRAMS = ", for 'compare' and for programs"


def _ladder(arguments: argparse.Namespace) -> int:
    _check_files(arguments.output, arguments.write_readme, arguments.marks)
    table.whole = bool(arguments.write_readme)
    named = [arguments.device] if arguments.device else []
    found = gpuopt.available("cuda")
    if not (named or os.environ.get("GPUOPT_DEVICE") or found):
        if not arguments.json:
            show(
                "This machine has no GPU: the simulator runs the same compiled kernels and counts "
                "what they do; the CPU's own rungs are timed. (config says why there is none.)\n"
            )
        named = ["sim", "cpu"]
    tables, found_all = [], []
    for device in named or [None]:
        with bar() as progress:
            measured = gpuopt.ladder(
                arguments.family,
                arguments.n,
                op=arguments.op,
                dtype=arguments.dtype,
                block=arguments.block,
                device=device,
                counters=not arguments.no_counters,
                predictions=arguments.predictions and not (device or "").startswith("sim"),
                peers=arguments.peers and not (device or "").startswith("sim"),
                rounds=arguments.rounds,
                progress=progress,
            )
        found_all.append(measured)
        tables.append(str(measured))
        if not arguments.json:
            print("\n" * (len(tables) > 1) + fold(tables[-1]))
    if arguments.json:
        told = [each.to_dict() for each in found_all]
        print(json.dumps(told[0] if len(told) == 1 else told))
    if arguments.output:
        _save(found_all[0].plot(), arguments.output)
    if arguments.write_readme:
        write_between_marks(arguments.write_readme, arguments.marks, "\n\n".join(tables))
    return 0


def _check_files(plot: Path | None, page: Path | None = None, marks: str = "") -> None:
    """Reject unwritable files before anything is measured."""
    if plot:
        from gpuopt.show import plots

        plots.check_path(plot)
    if page:
        parts(page, marks)


def _save(axes: Any, path: Path) -> None:
    """Write a plot in the format of the file's extension."""
    picture = io.BytesIO()
    axes.figure.savefig(picture, dpi=150, format=path.suffix[1:].lower())
    files.write(path, picture.getvalue())


def _roofline(arguments: argparse.Namespace) -> int:
    _check_files(arguments.output)
    with bar() as progress:
        roof = gpuopt.roofline(
            arguments.device,
            dtype=arguments.dtype,
            quick=arguments.quick,
            fresh=arguments.fresh,
            progress=progress,
        )
    for family in arguments.add or []:
        with bar() as progress:
            roof.add(
                gpuopt.ladder(family, device=roof.device.name, counters=False, progress=progress)
            )
    study = None
    if arguments.matmul:
        with bar() as progress:
            study = gpuopt.matmul_case_study(
                roof.device.name, quick=arguments.quick, progress=progress
            )
    if arguments.json:
        print(json.dumps(roof.to_dict() | ({"matmul": study.records()} if study else {})))
    else:
        show(roof)
        if study:
            show(f"\n{study}")
    if arguments.output:
        _save(roof.plot(), arguments.output)
    return 0


def _reference_file(arguments: argparse.Namespace) -> int:
    from gpuopt.measure import reference_file, reference_times

    if arguments.output:
        files.check(arguments.output, "-o")
    with bar() as progress:
        told = reference_file.measure(arguments.device, arguments.rounds, progress)
    name = reference_times.file_name(told["roofline"]["device"]["description"])
    path = arguments.output or reference_times.FOLDER / name
    if not arguments.output:
        path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, json.dumps(told) + "\n")
    print(f"wrote {path}")
    return 0


def _experiment(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        listed = "\n".join(f"{name:<20}{line}" for name, line in experiments.summary().items())
        show(listed)
        if arguments.write_readme:
            write_between_marks(arguments.write_readme, "experiments", listed)
        return 0
    with bar(text=arguments.name):
        found = experiments.run(arguments.name, arguments.device)
    print(json.dumps(found.to_dict(), indent=1)) if arguments.json else show(found)
    return 0


def _devices(arguments: argparse.Namespace) -> int:
    found = {kind: gpuopt.available(kind) for kind in KINDS}
    refused = {kind: each.reason for kind, each in found.items() if not each}
    if arguments.json:
        print(json.dumps({"devices": [asdict(each) for each in devices()], "refused": refused}))
        return 0
    for each in devices():
        show(f"{each.name:<14}{describe(each)}")
    for kind, reason in refused.items():
        show(f"{kind:<14}no: {reason}")
    return 0


def _config(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps(config()))
    else:
        with redirect_stdout(io.StringIO()) as text:
            show_config()
        show(text.getvalue().rstrip())
    return 0


def _add_ladder(commands: Any) -> None:
    add = options.command(
        commands,
        "ladder",
        _ladder,
        help="verify and time every rung of a family",
        description="Verify every rung against NumPy, time it, verify it again, and print the "
        "deck's table with the deck's own figures beside it. For seeing which step pays here, and "
        "why: what the counters say is below the table.",
        example="ladder reduce --n 2^22 --dtype float32",
    )
    options.family(add, FAMILIES)
    options.items(add, "the deck's, or what outgrows the caches")
    add("--op", choices=UFUNCS, help="the reduction's (default: sum)")
    options.dtype(add, "of elements and result", choices=DTYPES)
    options.block(add)
    options.device(add, "cuda, cuda:1, sim, sim:g80 or cpu", "a GPU, else sim and cpu")
    options.rounds(add)
    add("--no-counters", action="store_true", help="on a GPU: do not count beside the timing")
    add(
        "--predictions",
        action="store_true",
        help="on a GPU: also predict the times from counts of all items, in minutes",
    )
    add(
        "--peers",
        action="store_true",
        help="also time NumPy, SciPy, CuPy, PyTorch and JAX, as installed",
    )
    options.as_json(add, FOR_PROGRAMS)
    options.output(add, "also draw it: ladder.svg, ladder.png", "PLOT")
    options.readme(add, "table", "ladder")


def _add_roofline(commands: Any) -> None:
    add = options.command(
        commands,
        "roofline",
        _roofline,
        help="measure what a device can do at most, and place kernels under it",
        description="Measure a device's ceilings: its memories and its arithmetic, every kernel "
        "verified. Done once for each device and kept; of a simulated GPU, the datasheet's. A "
        "kernel left of the ridge is bound by memory, right of it by arithmetic.",
        example="roofline --quick --add reduce -o roofline.svg",
    )
    options.device(add, ANY_DEVICE)
    options.dtype(add, "the arithmetic that is drawn", "float32")
    add("--quick", action="store_true", help="less data, fewer samples: some seconds")
    add("--fresh", action="store_true", help="measure again, even if it is known")
    add("--add", action="append", choices=FAMILIES, help="also measure a ladder, place it")
    add("--matmul", action="store_true", help="also the decks' case study: predicted, measured")
    options.as_json(add, FOR_PROGRAMS)
    options.output(add, "also draw it: roofline.svg", "PLOT")


def _add_reference(commands: Any) -> None:
    add = options.command(
        commands,
        "reference",
        _reference_file,
        help="measure everything, as the reference for this GPU",
        description="Measure the roofline and every ladder, and write the file in which 'ladder' "
        "looks up whether a number is normal for this GPU.",
        example="reference -o my-gpu.json",
    )
    options.device(add, ANY_DEVICE)
    options.rounds(add)
    options.output(add, "default: its place in the package")


def _add_experiment(commands: Any) -> None:
    add = options.command(
        commands,
        "experiment",
        _experiment,
        help="run one of the decks' experiments; without a name, list them",
        description="Coalescing, bank conflicts, divergence, ...: each verified, then timed on a "
        "GPU or counted on a simulated one. Without a name: the list. For one property of the "
        "hardware at a time.",
        example="experiment banks --device sim:h200",
    )
    add("name", nargs="?", metavar="NAME", help=", ".join(experiments.EXPERIMENTS))
    options.device(add, "cuda, cuda:1, sim (as the deck's GPU), sim:h200", "a GPU, else sim")
    options.as_json(add)
    options.readme(add, "list")


def _add_machine(commands: Any) -> None:
    add = options.command(
        commands,
        "devices",
        _devices,
        help="list the devices that can serve, and why not",
        description="List every GPU, the cpu and the simulated GPUs, by the names that --device "
        "takes, and why a kind of device cannot serve.",
        example="devices",
    )
    options.as_json(add)
    add = options.command(
        commands,
        "config",
        _config,
        help="show how gpuopt was built, for a bug report",
        description="Show versions, compilers, kernels, driver and devices: put it into a bug "
        "report.",
        example="config --json",
    )
    options.as_json(add)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=program(),
        description="The classic GPU-optimisation ladders, every rung verified and timed. Begin "
        "with 'ladder reduce'; ask 'profile' and 'trace' why a rung is slow, 'roofline' how fast "
        "it could be; 'report' writes it all to one page.",
        epilog="COMMAND --help has an example of each",
    )
    parser.add_argument("--version", action="version", version=f"gpuopt {gpuopt.__version__}")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_ladder(commands)
    observe.add_commands(commands)
    own.add_commands(commands)
    advice_commands.add_commands(commands)
    _add_roofline(commands)
    race_commands.add_commands(commands)
    _add_reference(commands)
    _add_experiment(commands)
    _add_machine(commands)
    return parser


def _open_streams() -> None:
    """Redirect streams that were closed before the start to the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _told(error: Exception) -> str:
    """Return an error as a user's message; for one that gpuopt did not mean, how to learn more."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error)
    own = RuntimeError | MemoryError | ImportError | OSError | gpuopt.CompileError | gpuopt.PTXError
    if isinstance(error, own):
        return text
    argument = isinstance(error, ValueError | TypeError) and re.match(r"-*\w[^'\n]*?: ", text)
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return text if argument else f"{kind}{text} (--traceback shows where)"


def _give_up_unwritable_output() -> None:
    """Send text that cannot be written to the null device: Python tries again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> int:
    """Run a command; print an error in one line, or as a traceback with --traceback."""
    _open_streams()
    table.pipes_have_columns = True
    arguments = _parser().parse_args()
    # By default JAX allocates three quarters of a GPU's memory at its first use.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        status = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the pipe has closed it
        _give_up_unwritable_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        _give_up_unwritable_output()
        if arguments.traceback:
            traceback.print_exc()
            return 1
        print(fold(f"gpuopt: {_told(error)}", sys.stderr), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
