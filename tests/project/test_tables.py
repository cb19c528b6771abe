"""A table with a row for each value of an enum does not compile without one of the rows."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

CSRC = Path(__file__).parents[2] / "csrc"
COMPILER = shutil.which("gcc") or shutil.which("cc")
if not CSRC.exists() or not COMPILER:
    pytest.skip("no source tree, or no C compiler", allow_module_level=True)

INCLUDES = [sysconfig.get_paths()["include"], np.get_include()]


def compiles(path):
    """Return the compiler's complaints about a file; "" for none."""
    command = [COMPILER, "-std=gnu11", "-fsyntax-only", "-D_GNU_SOURCE", "-fopenmp", path]
    command += ["-DPy_LIMITED_API=0x030B0000", *(f"-isystem{each}" for each in INCLUDES)]
    return subprocess.run(command, capture_output=True, text=True).stderr


@pytest.mark.parametrize(
    ("header", "row", "table"),
    [
        ("gpuopt.h", r"(DTYPE\(bool, 1\))", "python/py_arrays.c"),
        ("device.h", r"(TEXEL\(FLOAT32, 4\))", "devices/sim_device.c"),
    ],
)
def test_a_value_without_a_row_does_not_compile(tmp_path, header, row, table):
    tree = shutil.copytree(CSRC, tmp_path / "csrc")
    assert compiles(tree / table) == ""
    text = (tree / header).read_text()
    new = re.sub(row, r"\1 " + re.search(r"\w+", row)[0] + "(another, 2)", text, count=1)
    assert new != text
    (tree / header).write_text(new)
    assert "another" in compiles(tree / table)


def test_no_table_of_values_is_written_by_hand():
    """Rows come from the list of values: `[DTYPE_float32] = ...` one by one forgets the next."""
    for path in CSRC.rglob("*.[ch]"):
        rows = re.findall(r"\[(DTYPE|TEXEL)_(?!COUNT)\w+\]\s*=", path.read_text())
        assert not rows, path
