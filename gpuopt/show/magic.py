"""The cell magic ``%%gpuopt``: CUDA C++ in a notebook, compiled, launched and explained.

It needs IPython only at the time of use; a terminal shows text, a notebook tables and pictures.
"""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Callable
from html import escape
from typing import Any, NoReturn

from gpuopt.advice.explain import explain
from gpuopt.advice.explanation import Explanation
from gpuopt.jit.compiler import compile as compile_source
from gpuopt.jit.request import Text
from gpuopt.observe.annotated import Source
from gpuopt.observe.profile import Profile, check, profile
from gpuopt.observe.trace import trace
from gpuopt.util import call_text

PICTURES = ("tree", "banks", "coalescing", "timeline", "tile")
_CELL = "padding:0 6px;border:none;text-align:right;vertical-align:top;white-space:pre"
_RED, _AMBER = "#fde0dc", "#fff1d6"
# Classic notebooks colour a cell by its first line; other front ends ignore this.
_COLOURS = """
try {
    var modes = IPython.CodeCell.options_default.highlight_modes;
    modes['magic_text/x-c++src'] = {'reg': [/^%%gpuopt/]};
} catch (error) {}
"""


class _Usage(ValueError):
    """A line of options that cannot be read."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Usage(f"%%gpuopt: {message}\n{self.format_usage()}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Usage(message or self.format_help())


def _parser() -> _Parser:
    parser = _Parser(prog="%%gpuopt", add_help=False)
    add = parser.add_argument
    add("module", help="the variable that holds the compiled module")
    add("--launch", metavar="CALL", help="kernel(grid, block, arguments ...), of the notebook")
    add("--device", default="sim", help="sim, a preset as sim:t4, or cuda")
    add("--check", action="store_true", help="list what the checks find")
    add("--profile", action="store_true", help="show counters beside the lines")
    add("--predict", action="store_true", help="show the least time by the GPU's datasheet")
    add("--trace", choices=PICTURES, action="append", default=[], help="draw a picture")
    add("--names", action="append", default=[], help="an instance of a template")
    add("--include", action="append", default=[], help="a folder of headers")
    add("--option", action="append", default=[], help="an option of the compiler")
    return parser


class CellListing:
    """A cell's source with counters and advice beside its lines.

    Attributes
    ----------
    source : Source
        The lines with their counters.
    explanation : Explanation or None
    """

    def __init__(self, source: Source, explanation: Explanation | None) -> None:
        self.source, self.explanation = source, explanation

    def _marks(self) -> dict[int, list[Any]]:
        marks: dict[int, list[Any]] = {}
        for each in self.explanation or ():
            marks.setdefault(each.line, []).append(each)
        return marks

    def __repr__(self) -> str:
        lines = repr(self.source).split("\n")
        marks = self._marks()
        return "\n".join(
            [*lines, *(f"line {n}: {each.text}" for n, found in marks.items() for each in found)]
        )

    def _repr_html_(self) -> str:
        from gpuopt.observe.annotated import _beside, _coloured

        marks = self._marks()
        counters = [each.counters for each in self.source.lines]
        columns = [  # narrow screens have no room for empty ones
            column
            for column in self.source.columns
            if any(_beside(each, [column]) != [""] for each in counters)
        ]
        heads = [*(each.title for each in columns), "line", ""]
        rows = ["".join(f'<th style="{_CELL};color:#5c5c5c">{escape(each)}</th>' for each in heads)]
        for line, code in _coloured(self.source.lines):
            found = marks.get(line.number, [])
            worst = any(each.severity == "error" for each in found)
            back = f";background:{_RED if worst else _AMBER}" if found else ""
            cells = [*_beside(line.counters, columns), str(line.number or "")]
            numbers = "".join(
                f'<td style="{_CELL};color:#5c5c5c{back}">{escape(each)}</td>' for each in cells
            )
            rows.append(
                f'{numbers}<td style="{_CELL};text-align:left{back}">{code or "&nbsp;"}</td>'
            )
            for each in found:
                colour = "#b3261e" if each.severity == "error" else "#8a5300"
                rows.append(
                    f'<td colspan="{len(cells)}" style="{_CELL}{back}"></td>'
                    f'<td style="{_CELL};text-align:left;white-space:normal;color:{colour}{back}">'
                    f"{escape(each.text)}</td>"
                )
        body = "".join(f'<tr style="background:#fff">{row}</tr>' for row in rows)
        return (
            '<div style="background:#fff;color:#1b1b1b;padding:8px;overflow-x:auto">'
            f"<div>{escape(self.source.counted)}</div>"
            '<table style="border-collapse:collapse;font:12px/1.4 Menlo,Consolas,monospace;'
            f'color:#1b1b1b;background:#fff;margin:0">{body}</table></div>'
        )


def _arguments(tree: ast.Call, names: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Evaluate a launch's arguments in the notebook's names."""

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "--launch", "eval"), names)

    given: list[Any] = []
    for each in tree.args:
        if isinstance(each, ast.Starred):
            given += value(each.value)
        else:
            given.append(value(each))
    return given, {each.arg: value(each.value) for each in tree.keywords if each.arg}


def _launched(
    options: argparse.Namespace, module: Any, names: dict[str, Any], show: Callable[[Any], None]
) -> None:
    """Launch a kernel of the cell's module, and show the chosen views."""
    tree = call_text.split(options.launch)
    name = call_text.kernel_of(tree)
    try:
        kernel = module[name]
    except KeyError as error:
        raise _Usage(f"--launch: {error.args[0]}") from None
    given, keywords = _arguments(tree, names)
    if not module.device.startswith("sim"):
        kernel(*given, **keywords)
        return
    if not (options.check or options.profile or options.predict):
        explanation = explain(kernel, *given, **keywords)
        show(explanation)
        counted = Profile(module.device, explanation.launches)
        show(CellListing(counted.source(), explanation))
    if options.check:
        show(check(kernel, *given, device=module.device, **keywords) or "no findings")
    if options.profile or options.predict:
        counted = profile(kernel, *given, device=module.device, **keywords)
        if options.profile:
            show(counted)
            show(CellListing(counted.source(), None))
        if options.predict:
            show(counted.bounds())
    for picture in options.trace:
        traced = trace(kernel, *given, device=module.device, **keywords)
        show(getattr(traced, picture)())


def run(
    line: str, cell: str, names: dict[str, Any], show: Callable[[Any], None], number: int = 0
) -> None:
    """Compile a cell, bind its module, launch a kernel of it, and show the results.

    Parameters
    ----------
    line : str
        The options after ``%%gpuopt``.
    cell : str
        The source below that line.
    names : dict
        The notebook's variables; the module becomes one of them.
    show : callable
        Shows an object.
    number : int
        The cell's number, for the file's name in messages.
    """
    options = _parser().parse_args(shlex.split(line))
    if not options.module.isidentifier():
        raise _Usage(f"%%gpuopt: {options.module!r:.40} is not the name of a variable")
    # The magic's own line is the first of the cell: the lines below keep their numbers.
    source = Text(f"cell-{number}.cu", f"\n{cell}")
    module = compile_source(
        source,
        options=options.option,
        names=options.names,
        include=options.include,
        device=options.device,
    )
    names[options.module] = module
    if options.launch:
        _launched(options, module, names, show)
    else:
        show(module)


def load_ipython_extension(shell: Any) -> None:
    """Register ``%%gpuopt`` in IPython: ``%load_ext gpuopt``.

    ``%%gpuopt module --launch 'scale(4, 256, 1000, 2.5, x, y)'`` compiles the cell's CUDA C++,
    binds the module to the variable, launches the kernel on the notebook's arrays on a simulated
    GPU, and shows `gpuopt.explain` and the source with counters. ``--check``, ``--profile`` and
    ``--predict`` choose other views, ``--trace PICTURE`` adds a picture, ``--device sim:t4``
    chooses another GPU.

    Parameters
    ----------
    shell : InteractiveShell

    Examples
    --------
    >>> import gpuopt
    >>> class Shell:
    ...     def register_magic_function(self, function, kind, name):
    ...         print(kind, name)
    >>> gpuopt.load_ipython_extension(Shell())
    cell gpuopt
    """

    def magic(line: str, cell: str) -> None:
        from IPython.core.error import UsageError
        from IPython.display import display

        from gpuopt.jit.errors import CompileError

        number = getattr(shell, "execution_count", 0)
        try:
            run(line, cell, shell.user_ns, display, number)
        except (_Usage, CompileError) as error:  # without a traceback: the text has the place
            raise UsageError(str(error)) from None

    shell.register_magic_function(magic, "cell", "gpuopt")
    if type(shell).__name__ == "ZMQInteractiveShell":
        from IPython.display import Javascript, display

        display(Javascript(_COLOURS))
