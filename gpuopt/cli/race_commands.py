"""The commands that compare: bench, sweep, compare."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from gpuopt.cli import options
from gpuopt.cli.console import bar, show
from gpuopt.cli.readme import parts, write_between_marks
from gpuopt.util import files, table


def _print_json(told: dict[str, Any], path: str) -> None:
    text = json.dumps(told)
    if path == "-":
        print(text)
    else:
        files.write(path, text + "\n")


def _run_bench(arguments: argparse.Namespace) -> int:
    from gpuopt.measure import bench

    # Check the page now, not after hundreds of measurements.
    if arguments.write_readme:
        parts(arguments.write_readme, arguments.marks)
        table.whole = True
    if arguments.json and arguments.json != "-":
        files.check(arguments.json, "--json")
    with bar() as progress:
        measured = bench.bench(
            arguments.device,
            only=arguments.only,
            quick=arguments.quick,
            peers=arguments.peers,
            random=arguments.random,
            cases=arguments.cases,
            kinds=arguments.kinds.split(",") if arguments.kinds else None,
            progress=progress,
            on_result=progress.line,
        )
    text = measured.table(arguments.every)
    if arguments.json != "-":
        show(text)
    if arguments.json:
        _print_json(measured.to_dict(), arguments.json)
    if arguments.write_readme:
        write_between_marks(arguments.write_readme, arguments.marks, text)
    if measured.wrong:
        print(f"gpuopt: {len(measured.wrong)} wrong results", file=sys.stderr)
    return 1 if measured.wrong else 0


def _run_sweep(arguments: argparse.Namespace) -> int:
    from gpuopt.measure import sweep

    with bar() as progress:
        swept = sweep.sweep(
            arguments.family,
            arguments.n,
            dtype=arguments.dtype,
            device=arguments.device,
            progress=progress,
        )
    print(json.dumps(swept.to_dict())) if arguments.json else show(swept)
    return 0


def _run_compare(arguments: argparse.Namespace) -> int:
    from gpuopt.measure import compare

    found = compare.compare(arguments.old, arguments.new)
    failed = {each: found.failed(each) for each in arguments.fail_if or []}
    print(json.dumps(found.to_dict())) if arguments.json else show(found)
    for condition, rows in failed.items():
        for row in rows:
            print(f"gpuopt: --fail-if {condition}: {row}", file=sys.stderr)
    return 1 if any(failed.values()) else 0


def _add_bench(commands: Any) -> None:
    from gpuopt.measure import peer_libraries, random_works, workloads

    add = options.command(
        commands,
        "bench",
        _run_bench,
        help="measure gpuopt against NumPy, SciPy, CuPy, PyTorch and JAX",
        description="Do the same work with gpuopt and with every library that is installed, in "
        "turns, each result verified before and after, and print the ratios and whether they meet "
        "the project's bars. The groups of works are: "
        + "; ".join(f"{name}: {what}" for name, what in workloads.GROUPS.items())
        + ". There are hundreds of works: all of it takes long, --quick some minutes. Each result "
        "goes to standard error as soon as it is there, the table to standard output at the end.",
        example="bench --only sum transpose --json bench.json",
    )
    options.device(add, "cuda, cuda:1 or cpu")
    add(
        "--only",
        nargs="+",
        metavar="NAME",
        help="only these groups, or works by words of their lines: --only sum 'axis float16'",
    )
    add("--quick", action="store_true", help="smaller arrays, fewer samples; no bars")
    add(
        "--peers",
        nargs="+",
        metavar="LIBRARY",
        help=f"only these: {', '.join(peer_libraries.NAMES)}",
    )
    add("--every", action="store_true", help="a line for every work, also where there are many")
    add(
        "--random",
        type=int,
        metavar="SEED",
        help="measure works that the seed draws, of random shapes, layouts, axes, dtypes and "
        "sizes, instead of the project's own: a summary of each kind, the worst works first",
    )
    add("--cases", type=int, metavar="N", help="with --random: how many works (100)")
    add(
        "--kinds",
        metavar="KIND,KIND",
        help=f"with --random: some of {','.join(random_works.KINDS)}",
    )
    add(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write JSON to a file, for 'compare' and for programs; without FILE, print it",
    )
    options.readme(add, "table", "bench")


def _add_sweep(commands: Any) -> None:
    from gpuopt.arrays.inout import NUMBERS
    from gpuopt.families.cases import FAMILIES

    add = options.command(
        commands,
        "sweep",
        _run_sweep,
        help="measure every rung, block size and planner's constant, and mark the best",
        description="Time what can be chosen without compiling: every rung with every block size, "
        "and each value of the planner's constants. The best is marked, what the library does by "
        "itself stands beside it. For a GPU that the constants were not tuned on; "
        "csrc/ops/ops_tuning.def and the tables in csrc/kernels hold them.",
        example="sweep reduce --n 2^20 2^28",
    )
    options.family(add, [*FAMILIES, "reduce_axis"])
    options.items(add, "few to many", nargs="+")
    options.dtype(add, "of the elements", "float32", default="float32", choices=NUMBERS)
    options.device(add, "cuda, cuda:1 or cpu; sim has no timer")
    options.as_json(add, ", every sample too")


def _add_compare(commands: Any) -> None:
    add = options.command(
        commands,
        "compare",
        _run_compare,
        help="compare two files that --json wrote, rung by rung",
        description="Compare two measurements of the same work: ratio new/old for each rung, and "
        "'slower' or 'faster' where it changed by more than both spreads; and every counter, of "
        "ladders and profiles. For a new driver, another GPU, a changed kernel.",
        example="ladder reduce --json > new.json; python -m gpuopt compare old.json new.json",
    )
    add("old", type=Path)
    add("new", type=Path)
    add(
        "--fail-if",
        action="append",
        metavar="CONDITION",
        help="exit with status 1 if a row is 'slower' (faster, more, fewer), or grew: "
        "'bank_conflicts>0', 'warp_instructions>5%%', 'cold>10%%'; repeatable",
    )
    options.as_json(add)


def add_commands(commands: Any) -> None:
    """Add the commands to those of the program."""
    _add_bench(commands)
    _add_sweep(commands)
    _add_compare(commands)
