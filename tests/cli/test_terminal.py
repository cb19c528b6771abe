"""The command line on a terminal: widths, colours, sizes, suggestions; own kernels."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from conftest import KINDS

import gpuopt
from gpuopt.cli import options

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "gpuopt"]
pytestmark = pytest.mark.skipif(
    "sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU"
)
PTX = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 x, .param .f32 factor)
{
    .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %x<3>;
    ld.param.u64 %x0, [x];
    ld.param.f32 %f0, [factor];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    mad.wide.u32 %x1, %r3, 4, %x0;
    ld.global.f32 %f1, [%x1];
    mul.f32 %f1, %f1, %f0;
    st.global.f32 [%x1], %f1;
    ret;
}
"""


def run(*arguments, **more):
    env = {**os.environ, **more}
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, env=env
    )


def on_a_terminal(*arguments, **more):
    """Return what a command writes to a terminal."""
    control, terminal = pty.openpty()
    env = {**os.environ, "COLUMNS": "80", "TERM": "xterm", **more}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=terminal, stderr=terminal, env=env)
    os.close(terminal)
    text = b""
    while True:
        ready, _, _ = select.select([control], [], [], 120)
        try:
            part = os.read(control, 65536) if ready else b""
        except OSError:
            part = b""
        if not part:
            break
        text += part
    os.close(control)
    process.wait(timeout=60)
    return text.decode().replace("\r\n", "\n")


MANY = """
__device__ float doubled(float x) { return 2 * x; }
template <typename T> __global__ void __launch_bounds__(256)
twice(T *x,  // in place
      int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }
template __global__ void twice<double>(double *, int);
extern "C" __global__ void all(float *x) { x[threadIdx.x] = doubled(x[threadIdx.x]); }
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["ladder", "reduce", "-n", "4096", "--device", "sim"],
        ["ladder", "matmul", "-n", "4096", "--device", "sim"],
        ["ladder", "add", "-n", "1000", "--device", "cpu", "--rounds", "1"],
        ["profile", "reduce", "2", "-n", "4096"],
        ["trace", "reduce", "3"],
        ["roofline", "--device", "sim"],
        ["experiment"],
        ["experiment", "banks"],
        ["experiment", "coalescing"],
        ["experiment", "divergence"],
        ["devices"],
        ["rungs", "reduce"],
        ["check", "reduce", "5"],
        ["--help"],
        ["ladder", "--help"],
        ["profile", "--help"],
        ["check", "--help"],
    ],
    ids=" ".join,
)
def test_output_fits_80_columns_and_uses_more(arguments):
    narrow, wide = run(*arguments, COLUMNS="80"), run(*arguments, COLUMNS="200")
    assert narrow.returncode == wide.returncode == 0, narrow.stderr
    long = [line for line in narrow.stdout.splitlines() if len(line) > 80]
    assert not [line for line in long if " " in line.strip()], long
    assert max(map(len, wide.stdout.splitlines())) <= 200
    assert len(wide.stdout.splitlines()) <= len(narrow.stdout.splitlines())


def test_narrow_tables_leave_columns_out_and_say_so():
    narrow = run("ladder", "reduce", "-n", "4096", "--device", "sim", COLUMNS="80").stdout
    plain = run("ladder", "reduce", "-n", "4096", "--device", "sim").stdout
    assert "(too narrow for: " in narrow and "launches" in narrow
    assert "too narrow" not in plain
    rows = [line for line in narrow.splitlines() if re.match(r"2 consecutive +[\d,]+", line)]
    assert rows and all(number in plain for number in re.findall(r"[\d,]{3,}", rows[0]))


def test_colours_on_terminals_only():
    assert "\x1b[" not in run("diff", "reduce", "2", "3").stdout
    shown = on_a_terminal("diff", "reduce", "2", "3")
    assert "\x1b[31m-    for (unsigned s = 1;" in shown and "\x1b[32m+    for (unsigned s" in shown
    assert "\x1b[" not in on_a_terminal("diff", "reduce", "2", "3", NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal("diff", "reduce", "2", "3", TERM="dumb")
    found = on_a_terminal("check", "reduce", "5-historical")
    assert "\x1b[31mrace in shared memory" in found


LONG = """
.version 8.0 .target sm_75 .address_size 64
.visible .entry spin(.param .u32 n) {
    .reg .pred %p; .reg .b32 %r<2>;
    ld.param.u32 %r0, [n];
again:
    sub.u32 %r0, %r0, 1;
    setp.ne.u32 %p, %r0, 0;
    @%p bra again;
    ret;
}"""


def test_progress_of_one_long_block_is_estimated_by_the_launch_before():
    kernel = gpuopt.load_ptx(LONG, device="sim")["spin"]
    seen = []
    for n in (20_000_000, 20_000_001):
        thread = threading.Thread(target=kernel, args=(1, 32, n))
        thread.start()
        found = set()
        while thread.is_alive():
            found.add(gpuopt._core.sim_progress())
        thread.join()
        seen.append({each for each in found if each[2]})
    assert {each[:2] for run in seen for each in run} == {(0, 1)}
    assert {each[3] for each in seen[0]} == {0}
    [expected] = {each[3] for each in seen[1]}
    assert 60_000_000 < expected < 90_000_000
    assert all(0 < each[2] <= expected + 10 for run in seen for each in run)
    assert gpuopt._core.sim_progress()[:3] == (0, 0, 0)


def test_progress_appears_within_a_moment():
    shown = on_a_terminal("profile", "reduce", "1", "-n", "32M")
    assert "simulating reduce" in shown and "warp instructions" in shown
    assert re.search(r"about \d+ s left  simulating reduce, block [\d,]+ of 262,144", shown)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e6", 10**6), ("1E6", 10**6), ("2.5e3", 2500), ("4M", 4 << 20), ("2^22", 1 << 22),
        ("64k", 64 << 10), ("1.5M", 3 << 19), ("1G", 1 << 30), ("2**10", 1024), ("1_000", 1000),
        ("7", 7),
    ],
)  # fmt: skip
def test_sizes_accept_powers_and_suffixes(text, value):
    assert options.count(text) == value


@pytest.mark.parametrize("text", ["1e-3", "1.5", "0", "-1", "M", "1e400", "2.5e0", "1T", "", "0e5"])
def test_sizes_that_are_none(text):
    with pytest.raises(Exception, match="is not a count"):
        options.count(text)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["laddr", "reduce"], "did you mean 'ladder'?"),
        (["ladder", "reduse"], "did you mean 'reduce'?"),
        (["ladder", "reduce", "--rouds", "3"], "did you mean '--rounds'?"),
        (["experiment", "bank"], "did you mean 'banks'?"),
        (["profile", "transpos", "3"], "did you mean 'transpose'?"),
        (["trace", "reduce", "sequental"], "did you mean 'sequential'?"),
        (["trace", "reduce", "3", "--picture", "tre", "-o", "t.svg"], "did you mean 'tree'?"),
        (["ladder", "reduce", "--op", "sun"], "did you mean 'sum'?"),
    ],
)
def test_misspelt_names_get_a_suggestion(arguments, hint):
    done = run(*arguments)
    assert done.returncode in (1, 2) and hint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


def test_the_program_is_installed():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, name = scripts["gpuopt"].partition(":")
    assert callable(getattr(import_module(module), name))
    code = (
        "import sys; sys.argv = ['/x/gpuopt', '--help']; from gpuopt.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("usage: gpuopt "), done.stderr


def test_own_kernels(tmp_path):
    path = tmp_path / "scale.ptx"
    path.write_text(PTX)
    file, saved = str(path), tmp_path / "out.npz"
    assert run("rungs", file).stdout == "scale(.u64, .f32)\n"
    launch = [file, "--block", "256", "--grid", "4", "--device", "sim", "--args"]
    done = run("run", *launch, "float32[1k]=arange", "2.5", "-o", str(saved))
    assert done.returncode == 0, done.stderr
    assert "changed 1 array\n" in done.stdout and "0.0, 2.5, 5.0" in done.stdout
    with np.load(saved) as arrays:
        assert (arrays["argument_1"] == 2.5 * np.arange(1024, dtype=np.float32)).all()
    np.save(tmp_path / "x.npy", np.full(1024, 3, np.float32))
    done = run("run", *launch, str(tmp_path / "x.npy"), "2", "--json")
    assert json.loads(done.stdout)["changed"]["argument 1"] == [6.0] * 1024
    done = run("check", *launch, "float32[1024]", "2")
    assert done.returncode == 0 and "nothing found in 1,024 threads" in done.stdout, done.stderr
    done = run("check", *launch, "float32[1000]", "2")
    assert done.returncode == 1 and "out of bounds" in done.stdout and "index" in done.stdout
    told = json.loads(run("check", *launch, "float32[1000]", "2", "--json").stdout)
    assert told["findings"][0]["kind"] == "out of bounds"
    done = run("profile", *launch, "float32[32,32]=zeros", "2")
    assert done.returncode == 0 and "least times on H200" in done.stdout, done.stderr
    assert re.search(r"^warp instructions +352 ", done.stdout, re.M)
    assert json.loads(run("profile", *launch, "float32[1024]", "2", "--json").stdout)["launches"]
    told = run("trace", *launch, "float32[1024]", "2").stdout
    assert told.startswith("scale, block (0, 0, 0) of (4, 1, 1)") and "4 sectors" in told
    assert run("trace", *launch, "float32[1024]", "2", "--picture", "coalescing").returncode == 1
    done = run("source", *launch, "float32[1024]", "2")
    assert re.search(r"^ +32 +4.0 .*ld.global.f32 %f1, \[%x1\]$", done.stdout, re.M), done.stdout
    page = tmp_path / "page.html"
    done = run("report", *launch, "float32[1024]", "2", "-o", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.index("kernels of your own") < text.index('id="own"') < text.index('id="device"')
    assert "scale executes 352 warp instructions and takes at least" in text
    assert "None was given" not in text
    done = run("report", *launch, "float32[1000]", "2", "-o", str(tmp_path / "none.html"))
    assert done.returncode == 1 and "out of bounds" in done.stderr
    assert not (tmp_path / "none.html").exists()


def test_parameters_are_those_of_the_source(tmp_path):
    path = tmp_path / "many.cu"
    path.write_text(MANY)
    done = run("rungs", str(path))
    if "NVRTC" in done.stderr or "nvcc" in done.stderr:
        pytest.skip(done.stderr)
    assert sorted(done.stdout.splitlines()) == ["all(float *x)", "twice<double>(T *x, int n)"]
    done = run("run", str(path), "twice", "--block", "32", "--device", "sim", "--args", "2")
    assert "twice<double>(T *x, int n) has 2 parameters, but --args has 1" in done.stderr
    launch = ["--block", "32x1", "--device", "sim", "--args", "float32[32]=ones", "32"]
    done = run("run", str(path), "twice<float>", *launch)
    assert "twice<float> ran on sim:h200; it changed 1 array\n" in done.stdout, done.stderr
    done = run("run", str(path), "thrice", *launch)
    assert "'twice<double>'" in done.stderr and "scale<float>)" in done.stderr
    assert "is not a block or a grid" in run("run", str(path), "all", "--block", "1y").stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["scal", "--block", "32", "--args", "float32[32]", "2"], "did you mean 'scale'"),
        (
            ["--block", "32", "--args", "float32[32]"],
            "scale(.u64, .f32) has 2 parameters, but --args has 1",
        ),
        (["--args", "float32[32]", "2"], "--block: "),
        (["--block", "32", "--args", "flot32[32]", "2"], "did you mean 'float32'"),
        (["--block", "32", "--args", "float32[32]=zeroes", "2"], "did you mean 'zeros'"),
        (["--block", "32", "--args", "x", "2"], "neither a number nor an array"),
        (["--block", "32", "--args", "none.npy", "2"], "none.npy"),
        (["--block", "32", "--args", "float32[32]", "float32[4]"], "argument 2"),
    ],
)
def test_own_kernels_with_wrong_arguments(tmp_path, arguments, text):
    path = tmp_path / "scale.ptx"
    path.write_text(PTX)
    done = run("run", str(path), *arguments, "--device", "sim")
    assert done.returncode == 1 and text in done.stderr and "Traceback" not in done.stderr
