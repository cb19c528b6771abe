"""The commands on a user's own CUDA source: explain and grade."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpuopt.advice import grade
from gpuopt.advice.explain import explain
from gpuopt.cli import options, own
from gpuopt.cli.console import bar
from gpuopt.util import call_text


def _run_explain(arguments: argparse.Namespace) -> int:
    call = call_text.read(arguments.launch)
    own.require_file(str(arguments.source))
    module = own.load(
        str(arguments.source),
        arguments.device,
        call.name,
        options=arguments.option or (),
        names=arguments.name,
        include=arguments.include or (),
    )
    try:
        kernel = module[call.name]
    except KeyError as error:
        raise ValueError(f"--launch: {error.args[0]}") from None
    with bar(text=f"simulating {kernel.name}"):
        found = explain(kernel, *call.arguments, **call.keywords)
    print(json.dumps(found.to_dict()) if arguments.json else found)
    worst = {each.severity for each in found}
    failing = {"error": {"error"}, "high": {"error", "high"}, "low": {"error", "high", "low"}}
    return 1 if worst & failing[arguments.fail_on] else 0


def _run_grade(arguments: argparse.Namespace) -> int:
    if arguments.tests.suffix != ".py":
        raise ValueError(
            f"TESTS.py: {str(arguments.tests)!r} must end in .py; the kernel is second"
        )
    with bar(text=f"running {arguments.tests.name}"):
        found = grade.grade(
            arguments.tests,
            arguments.source,
            device=arguments.device,
            include=arguments.include or (),
            time_limit=arguments.time_limit,
        )
    print(json.dumps(found.to_dict()) if arguments.json else found)
    return 0 if found.passed else 1


def _sources(add: options.Add) -> None:
    add("source", type=Path, metavar="FILE", help="the CUDA source, device code only; or PTX")
    add("--include", action="append", metavar="FOLDER", help="a folder of headers; repeatable")
    options.simulated(add)


def add_commands(commands: Any) -> None:
    """Add the commands to those of the program."""
    add = options.command(
        commands,
        "explain",
        _run_explain,
        help="find the mistakes of a kernel of your own",
        description="Compile a CUDA source, run one of its kernels on the simulated GPU, and say "
        "worst first which mistakes it has, on which line, with evidence, reason and remedy. "
        "Needs neither a GPU nor nvcc. The exit status is 1 if there is an error (see --fail-on).",
        example="explain kernel.cu --launch 'scale(4, 256, 1000, random(1000), zeros(1000))'",
    )
    _sources(add)
    add(
        "--launch",
        required=True,
        metavar="CALL",
        help=f"kernel(grid, block, arguments ..., shared=0); arrays are {call_text.KINDS}, "
        "each with an optional dtype: zeros(1000, 'int32')",
    )
    add("--option", action="append", metavar="OPTION", help="an option of the compiler; repeatable")
    add("--name", action="append", metavar="NAME", help="an instance of a template; repeatable")
    add(
        "--fail-on",
        choices=("error", "high", "low"),
        default="error",
        help="the least severity with exit status 1 (default: error)",
    )
    options.as_json(add)

    add = options.command(
        commands,
        "grade",
        _run_grade,
        help="run a teacher's tests on a student's kernel",
        description="Compile a CUDA source and call every function test_*(module) of a Python file "
        "with it, on the simulated GPU with all checks. A test fails by an exception, a finding or "
        "its time limit. The exit status is 1 if a test fails.",
        example="grade tests.py kernel.cu --json",
    )
    add("tests", type=Path, metavar="TESTS.py", help="functions test_*(module)")
    _sources(add)
    add(
        "--time-limit",
        type=float,
        default=grade.SECONDS,
        metavar="SECONDS",
        help=f"of each launch (default: {grade.SECONDS:g})",
    )
    options.as_json(add)
