"""Files and functions stay short; a class or struct has a name of its own."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "csrc").exists():
    pytest.skip("no source tree", allow_module_level=True)

FILE_MOST = 700  # lines
FUNCTION_MOST = 60  # lines, with decorators and docstring


def sources(*folders):
    kinds = {".py", ".pyi", ".c", ".h", ".cu", ".cuh", ".def"}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix in kinds and "__pycache__" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def python_functions(text):
    """Yield (name, lines) of each function; docstrings, which users read, do not count."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            written = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = first.end_lineno - first.lineno + 1 if written else 0
            yield node.name, node.end_lineno - node.lineno + 1 - docstring


def c_functions(text):
    """Yield (name, lines): clang-format puts a function's head and last brace at the margin."""
    head, first = "", 0
    for number, line in enumerate(text.splitlines()):
        if line.startswith("}"):
            if named := re.match(r"[^=]*?(\w+)\(", head):
                yield named[1], number - first + 1
            head = ""
        elif not head.endswith("{"):
            if not head and line[:1].isalpha():
                first = number
            head = head + line if head or line[:1].isalpha() else ""
            if not line or line.endswith((";", "}", ":")):
                head = ""


# --- what may be longer: {function or file: (lines, reason)}; the numbers only go down

SLACK = 10  # lines that a limit may be too high
SWITCH = "one switch: a row for each opcode, register or operation"
PIPELINE = "a kernel's stages share registers, which a function would only rename"
TABLE = "a table of cases"
LONG_FUNCTIONS = {
    "csrc/sim/exec/sim_exec.c sim_exec": (439, SWITCH),
    "csrc/sim/exec/sim_exec_lane.c special_value": (81, SWITCH),
    "csrc/sim/observe/sim_undefined.c instruction": (62, SWITCH),
    "csrc/kernels/matmul/matmul_patches.cuh multiply_patches": (69, PIPELINE),
    "csrc/kernels/matmul/matmul_ring.cuh multiply_tiles": (65, PIPELINE),
    "csrc/kernels/reduce_axis.cu columns": (77, PIPELINE),
    "gpuopt/experiments/coalescing.py _probes": (70, TABLE),
    "tests/observe/blind_cases.py cases": (71, TABLE),
    "tests/observe/twenty_cases.py cases": (72, TABLE),
    "tests/observe/unseen_cases.py cases": (83, TABLE),
    "tests/ptx/make_arithmetic.py integers": (145, TABLE),
    "tests/ptx/make_arithmetic.py bits": (152, TABLE),
    "tests/ptx/make_arithmetic.py floats": (108, TABLE),
    "tests/ptx/make_arithmetic.py conversions": (126, TABLE),
    "tests/ptx/make_arithmetic.py case": (61, TABLE),
    "tests/sim/values.py cases": (86, TABLE),
}
LONG_FILES: dict[str, tuple[int, str]] = {}  # by path: lines, and why


def functions():
    for path, text in sources("csrc", "gpuopt", "tests", "docs"):
        of = python_functions if path.endswith((".py", ".pyi")) else c_functions
        for name, lines in of(text):
            yield f"{path} {name}", lines


def test_functions_are_short():
    found = dict(sorted(functions(), key=lambda each: each[1]))  # the longest of a name
    limits = {name: limit for name, (limit, _) in LONG_FUNCTIONS.items()}
    longer = {name: n for name, n in found.items() if n > limits.get(name, FUNCTION_MOST)}
    assert longer == {}, f"more than {FUNCTION_MOST} lines"
    slack = {name: n for name, n in limits.items() if found.get(name, 0) < n - SLACK}
    assert slack == {}, "lower the limits, or remove the rows, of LONG_FUNCTIONS"


def test_files_are_short():
    every = sources("csrc", "gpuopt", "tests", "docs")
    found = {path: text.count("\n") for path, text in every}
    limits = {path: limit for path, (limit, _) in LONG_FILES.items()}
    longer = {path: n for path, n in found.items() if n > limits.get(path, FILE_MOST)}
    assert longer == {}, f"more than {FILE_MOST} lines"
    assert all(found[path] > FILE_MOST for path in limits), "remove the rows of LONG_FILES"


def test_long_functions_are_seen():
    lines = "    x++;\n" * 80
    assert list(c_functions(f"static int f(int x,\n             int y) {{\n{lines}}}\n")) == [
        ("f", 83)
    ]
    assert list(c_functions(f"struct point {{\n{lines}}};\n")) == []
    assert list(python_functions('def f():\n    """Two.\n\n    Lines."""\n    x = 1\n')) == [
        ("f", 2)
    ]


# --- names

# The C halves of gpuopt.Module and of the modules' memory: one thing in two languages.
HALVES = {"Module", "Memory"}


def test_a_class_has_a_name_of_its_own():
    found = {}
    for path, text in sources("gpuopt"):
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(path)
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert {name: twice[name] for name in twice.keys() - HALVES} == {}


def test_a_struct_has_a_name_of_its_own():
    found = {}
    for path, text in sources("csrc"):
        if path.endswith((".c", ".h")):
            for name in re.findall(r"^(?:struct|union|enum) (\w+) \{", text, re.MULTILINE):
                found.setdefault(name, []).append(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
