"""The command line on a user's own source: explain and grade; launches that are written as text."""

import json
import subprocess
import sys

import numpy as np
import pytest

from gpuopt.util import call_text

GOOD = """
__global__ void scale(int n, float factor, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""
BAD = GOOD.replace("if (i < n) ", "")
LAUNCH = "scale(4, 256, 1000, 2.5, random(1000), zeros(1000))"
TESTS = """
import numpy as np

def test_values(module):
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    module["scale"](4, 256, 1000, 2.5, x, y)
    assert np.array_equal(y, 2.5 * x), "y is not 2.5 * x"

test_values.points = 3

def test_empty(module):
    x, y = np.zeros(1, np.float32), np.ones(1, np.float32)
    module["scale"](1, 32, 0, 2.5, x, y)
    assert y[0] == 1, "n = 0 writes nothing"
"""


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gpuopt", *map(str, arguments)], capture_output=True, text=True
    )


@pytest.fixture
def files(tmp_path):
    for name, text in (("good.cu", GOOD), ("bad.cu", BAD), ("tests.py", TESTS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_explain_prints_advice_and_fails_on_errors(nvrtc, files):
    done = command("explain", files / "good.cu", "--launch", LAUNCH)
    assert done.returncode == 0, done.stderr
    assert "no mistake found" in done.stdout
    done = command("explain", files / "bad.cu", "--launch", LAUNCH, "--json")
    assert done.returncode == 1, done.stderr
    (advice,) = json.loads(done.stdout)["advice"]
    assert (advice["rule"], advice["line"], advice["severity"]) == ("bounds-check", 4, "error")


@pytest.mark.parametrize(
    ("launch", "text"),
    [
        ("scale", "write kernel(grid, block"),
        ("scale(1, 2, open('/etc/passwd'))", "neither a number nor an array"),
        ("scale(1, 2, x)", "neither a number nor an array"),
        ("other(1, 32)", "is not a kernel of this module"),
        ("scale(1, 32)", "has 4 parameters"),
        ("scale(1, 32, zeros(-1))", "is not a number of elements"),
    ],
)
def test_launches_are_checked(nvrtc, files, launch, text):
    done = command("explain", files / "good.cu", "--launch", launch)
    assert done.returncode == 1
    assert text in done.stderr


def test_launch_text_has_numbers_and_arrays():
    call = call_text.read("k((2, 3), 2**5, 1 << 10, -2.5, arange(4, 'int32'), shared=4 * 32)")
    name, (grid, block, n, factor, array), keywords = call
    assert (name, grid, block, n, factor) == ("k", (2, 3), 32, 1024, -2.5)
    assert array.dtype == np.int32 and array.tolist() == [0, 1, 2, 3]
    assert keywords == {"shared": 128}
    assert call_text.read("'scale<float>'(1, 32)").name == "scale<float>"


@pytest.mark.parametrize(
    "text", ["k(1, 2, 9**99999999)", "k(1, 2, 1 << 10**9)", "k(1,", "k(1, 2)()"]
)
def test_hostile_launch_text_is_refused(text):
    with pytest.raises(ValueError, match="launch"):
        call_text.read(text)


def test_grade_counts_points(nvrtc, files):
    done = command("grade", files / "tests.py", files / "good.cu", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["passed"], told["points"], told["of"]) == (True, 4, 4)
    done = command("grade", files / "tests.py", files / "bad.cu")
    assert done.returncode == 1
    assert "out of bounds" in done.stdout
    assert "0 of 4 points" in done.stdout
    (files / "bad.cu").write_text("__global__ void scale(")
    done = command("grade", files / "tests.py", files / "bad.cu")
    assert done.returncode == 1
    assert "does not compile" in done.stdout
    (files / "bad.cu").write_text(GOOD.replace("if (i < n)", "while (true)"))
    done = command("grade", files / "tests.py", files / "bad.cu", "--time-limit", "1")
    assert done.returncode == 1
    assert "test_values" in done.stdout
    (files / "tests.py").write_text("x = 1\n")
    done = command("grade", files / "tests.py", files / "good.cu")
    assert "has no function test_*(module)" in done.stderr
