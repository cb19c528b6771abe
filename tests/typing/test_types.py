"""Type checkers find the mistakes of calls.py, and only those; names agree with the tables."""

import ast
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import gpuopt
from gpuopt.families import calls, cases, reduce_axis, stencil1d
from gpuopt.util import literals

HERE = Path(__file__).parent
CALLS = HERE / "calls.py"


def wrong_lines():
    lines = CALLS.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def found_by(command, pattern):
    """Return the lines of calls.py in which a checker finds an error."""
    root = Path(gpuopt.__file__).parents[1]
    # mypy does not see what an editable install's finder does, and refuses site-packages here
    path = {} if root.name == "site-packages" else {"MYPYPATH": str(root)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=HERE, env={**os.environ, **path}
    )
    found = re.findall(pattern, done.stdout, re.M)
    assert found, done.stdout + done.stderr
    return {int(line) for line in found}, done.stdout


def test_mypy_finds_the_mistakes():
    if not importlib.util.find_spec("mypy"):
        pytest.skip("mypy is not installed: pip install 'gpuopt[types]'")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir=/dev/null"]
    found, text = found_by([*command, str(CALLS)], r"calls\.py:(\d+): error")
    assert found == wrong_lines(), text


def test_basedpyright_finds_the_mistakes():
    program = shutil.which("basedpyright", path=Path(sys.executable).parent) or shutil.which(
        "basedpyright"
    )
    if not program:
        pytest.skip("basedpyright is not installed: pip install 'gpuopt[types]'")
    command = [program, "--pythonpath", sys.executable, "--level", "error"]
    found, text = found_by([*command, str(CALLS)], r"calls\.py:(\d+):\d+ - error")
    assert found == wrong_lines(), text


def stub_parameters():
    """Return the parameters of each overload in calls.pyi, by function."""
    tree = ast.parse(Path(calls.__file__).with_suffix(".pyi").read_text())
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}

    def fields(name):
        own = {each.target.id for each in classes[name].body if isinstance(each, ast.AnnAssign)}
        return own.union(*(fields(base.id) for base in classes[name].bases if base.id in classes))

    for each in tree.body:
        if isinstance(each, ast.FunctionDef):
            named = [part.arg for part in each.args.args]
            options = fields(each.args.kwarg.annotation.slice.id)
            yield each.name, named, options | {part.arg for part in each.args.kwonlyargs}


def test_the_stub_of_the_calls_has_their_parameters():
    seen = set()
    for name, positional, keywords in stub_parameters():
        found = inspect.signature(getattr(gpuopt, name)).parameters.values()
        assert positional == [each.name for each in found if each.kind is not each.KEYWORD_ONLY]
        assert keywords == {each.name for each in found if each.kind is each.KEYWORD_ONLY}, name
        seen.add(name)
    assert seen == set(calls.__all__)


@pytest.mark.parametrize(
    ("names", "family"),
    [
        ("ReduceRung", "reduce"), ("TransposeRung", "transpose"), ("StencilRung", "stencil1d"),
        ("VectorRung", "add"), ("VectorRung", "saxpy"), ("MatmulRung", "matmul"),
    ],
)  # fmt: skip
def test_names_of_rungs_are_the_tables(names, family):
    wanted = {rung.name for rung in gpuopt.rungs(family)}
    if family == "reduce":
        wanted |= {rung.name for rung in gpuopt.rungs("reduce_axis")}
    if family == "saxpy":  # one literal for both; only add has the deck's listings
        wanted |= {rung.name for rung in gpuopt.rungs("add") if rung.listing}
    assert set(get_args(getattr(literals, names))) == wanted


def test_other_names_are_the_tables():
    assert set(get_args(literals.Family)) == set(cases.FAMILIES)
    assert set(get_args(literals.Ufunc)) == set(reduce_axis.UFUNCS)
    assert set(get_args(literals.Op)) == {*reduce_axis.UFUNCS, *reduce_axis.OTHERS}
    assert set(get_args(literals.Mode)) == set(stencil1d.MODES)
    devices = {"cuda", "cpu", "sim", *(f"sim:{name}" for name in gpuopt.models.GPUS)}
    assert set(get_args(literals.DeviceName)) == devices
