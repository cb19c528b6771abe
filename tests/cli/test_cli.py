"""The command line, as a user types it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import run_python

import gpuopt
from gpuopt import _core
from gpuopt.measure import ladder
from gpuopt.show import bench_table

DEVICES = [kind for kind in ("cuda", "cpu") if gpuopt.available(kind)]


WITHOUT_PTXAS = {**os.environ, "GPUOPT_PTXAS": "/bin/false"}  # predictions count PTX: quicker


def run(*arguments, **more):
    command = [sys.executable, "-m", "gpuopt", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


@pytest.mark.parametrize("device", DEVICES)
def test_ladder_prints_every_rung(device):
    done = run("ladder", "reduce", "--n", "2^16", "--rounds", "3", "--device", device)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "progress is for terminals"
    wanted = [r for r in gpuopt.rungs("reduce") if r.host == (device == "cpu") and not r.historical]
    for rung in wanted:
        label = rung.name if rung.number is None else f"{rung.number} {rung.name}"
        row = re.search(rf"^{re.escape(label)} +([\d.,]+) ", done.stdout, re.M)
        assert row, done.stdout
        assert float(row[1].replace(",", "")) > 0
        assert rung.lesson in done.stdout
    if device == "cuda":
        for figure in ("8,054", "268", "62.7", "30.04x"):  # the deck's own
            assert figure in done.stdout


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_ladder_takes_other_dtypes_and_operations(dtype):
    op = "xor" if dtype == "bool" else "min"
    options = ["--n", "1000", "--rounds", "1", "--dtype", dtype, "--op", op]
    done = run("ladder", "reduce", *options, env=WITHOUT_PTXAS)
    assert done.returncode == 0, done.stderr
    assert f"{op} of 1,000 {dtype}" in done.stdout


def test_ladder_writes_the_readme(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- ladder: written by nobody -->\nold\n<!-- end of ladder -->\nz\n")
    options = ["--n", "1000", "--rounds", "1", "--write-readme", str(page)]
    done = run("ladder", "reduce", *options, env=WITHOUT_PTXAS)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.startswith("a\n<!-- ladder: written by `python -m gpuopt ladder reduce --n 1000")
    assert text.endswith("```\n<!-- end of ladder -->\nz\n")
    assert "\nold\n" not in text
    assert "all steps together" in text
    again = run("ladder", "reduce", *options, env=WITHOUT_PTXAS)
    assert again.returncode == 0, again.stderr
    assert page.read_text().count("all steps together") == 1


def test_a_readme_without_marks_is_left_alone(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("nothing to see\n")
    options = ["--n", "1000", "--rounds", "1", "--write-readme", str(page)]
    done = run("ladder", "reduce", *options, env=WITHOUT_PTXAS)
    assert done.returncode != 0
    assert "<!-- ladder" in done.stderr
    assert page.read_text() == "nothing to see\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["ladder", "reduce", "--n", "many"], "such as 4194304 or 2^22, 1e6 or 4M"),
        (["ladder", "reduce", "--n", "2^-1"], "is not a count"),
        (["ladder", "reduce", "--n", "9^999999999"], "is not a count"),
        (["ladder", "reduce", "--rounds", "0"], "is not a count"),
        (["ladder", "reduce", "--device", "abacus"], "'cuda', 'cuda:1' (a GPU by number)"),
        (["ladder", "reduce", "--op", "and", "--dtype", "float32"], "op='and'"),
        (["ladder", "reduce", "-o", "/no/such/folder/ladder.svg"], "-o: there is no folder"),
        (["ladder", "reduce", "-o", "ladder.foo"], "must end in"),
        (["roofline", "-o", "roofline"], "must end in"),
        (["ladder", "reduce", "--write-readme", "/no/such/page"], "/no/such/page"),
        (["ladder", "transpose", "--op", "max"], "op: transpose has no operations"),
        (["ladder", "fold"], "reduce"),
        ([], "COMMAND"),
    ],
)
def test_mistakes_are_one_line_and_no_traceback(arguments, text):
    done = run(*arguments)
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_closed_pipe_is_no_error():
    command = f"{sys.executable} -m gpuopt config | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("gpuopt ") and done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "closed", "status"),
    [
        ("devices", ">&-", 0),
        ("devices", "2>&-", 0),
        ("devices", "<&- >&- 2>&-", 0),
        ("ladder add -n 100 --device sim", "2>&-", 0),
        ("--help", ">&-", 0),
        ("ladder reduce --device abacus", "2>&-", 1),
        ("fold", "2>&-", 2),
    ],
)
def test_closed_standard_stream_is_no_error(arguments, closed, status):
    """Output to a closed stream is dropped; the other stream and the exit status are unchanged."""
    command = f"{sys.executable} -m gpuopt {arguments}"
    plain, done = (
        subprocess.run(f"{command} {more}", shell=True, capture_output=True, text=True, timeout=60)
        for more in ("", closed)
    )
    assert done.returncode == plain.returncode == status
    assert done.stdout == ("" if ">&-" in closed.replace("2>&-", "") else plain.stdout)
    assert done.stderr == ("" if "2>&-" in closed else plain.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_unwritable_output_is_one_line_of_error():
    for more in ("> /dev/full", "--json /dev/full"):
        command = (
            f"{sys.executable} -m gpuopt bench --device cpu --quick --only 'sum of 2^10' {more}"
        )
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_error_after_text_that_cannot_be_written_keeps_its_status():
    """Python would end with 120, as it fails to write the text once more."""
    code = """
import sys, types
from gpuopt.cli import main
def run(_):
    print("text")
    raise ValueError("x: is wrong")
arguments = types.SimpleNamespace(run=run, traceback=False)
main._parser = lambda: types.SimpleNamespace(parse_args=lambda: arguments)
sys.exit(main.main())
"""
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, env=buffered
        )
    assert (done.returncode, done.stderr) == (1, b"gpuopt: x: is wrong\n")


def test_unwritable_files_are_refused_before_measuring(tmp_path):
    picture = tmp_path / "tree.svg"
    picture.mkdir()
    for command in (
        ["reference", "-o", str(tmp_path)],
        ["trace", "reduce", "3", "--n", "2^30", "--picture", "tree", "-o", str(picture)],
        ["roofline", "--device", "cpu", "--fresh", "-o", str(picture)],
        ["ladder", "reduce", "--n", "2^30", "-o", str(picture)],
        ["bench", "--device", "cpu", "--json", str(tmp_path)],
    ):  # all of it would take longer than this waits
        line = [sys.executable, "-m", "gpuopt", *command]
        done = subprocess.run(line, capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and "is a folder; name a file in it" in done.stderr, command
        assert done.stdout == ""
    done = run("reference", "-o", str(tmp_path / "none" / "gpu.json"))
    assert done.returncode == 1 and "-o: there is no folder" in done.stderr
    assert not (tmp_path / "none").exists()


def test_devices_and_config():
    done = run("devices")
    assert done.returncode == 0
    assert re.search(r"^cpu ", done.stdout, re.M)
    done = run("config")
    assert done.returncode == 0
    assert f"gpuopt {gpuopt.__version__}" in done.stdout
    assert "nvcc" in done.stdout


@pytest.mark.parametrize("picture", ["tree", "coalescing", "banks", "tile", "timeline"])
def test_trace_writes_a_picture(picture, tmp_path):
    path = tmp_path / "picture.svg"
    done = run("trace", "reduce", "3", "--picture", picture, "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert "reduce rung 3 sequential" in done.stdout and "1 wavefront " in done.stdout
    assert path.read_text().startswith("<svg")


def test_source_and_diff():
    done = run("source", "reduce", "3", "--annotate")
    assert done.returncode == 0, done.stderr
    assert "partial[t] = Op::apply(partial[t], partial[t + s]);" in done.stdout
    assert "conflicts" in done.stdout
    told = json.loads(run("source", "reduce", "3", "--annotate", "--json").stdout)
    source = gpuopt.source("reduce", 3, annotate=True)
    assert [each["text"] for each in told["lines"]] == [each.text for each in source.lines]
    counted = [each["counters"]["warp_instructions"] for each in told["lines"] if each["counters"]]
    assert counted == [
        each.counters.warp_instructions
        for each in source.lines
        if each.counters and each.counters.warp_instructions
    ]
    assert (told["kind"], told["variant"], told["function"]) == ("source", 3, "reduce_3")
    told = json.loads(run("diff", "transpose", "shared", "padded", "--json").stdout)
    assert told["unified"] == gpuopt.diff("transpose", "shared", "padded").unified
    before, after = ([each["text"] for each in told[side]["lines"]] for side in ("before", "after"))
    rebuilt = [
        line
        for what, (a1, a2), (b1, b2) in told["changes"]
        for line in (before[a1:a2] if what == "equal" else after[b1:b2])
    ]
    assert rebuilt == after and any(what != "equal" for what, *_ in told["changes"])
    done = run("diff", "transpose", "shared", "padded")
    assert done.returncode == 0, done.stderr
    assert "+    transpose_tile<1>(in, out, rows, columns, layer);" in done.stdout
    for arguments, text in (
        (["trace", "reduce", "99"], "variant: 99"),
        (["trace", "fold"], "'transpose'"),
        (["trace", "reduce", "3", "--picture", "tree"], "-o FILE.svg"),
        (["trace", "reduce", "3", "--picture", "tree", "-o", "tree.png"], "must end in .svg"),
        (["trace", "reduce", "3", "--picture", "tree", "-o", "/none/t.svg"], "/none/t.svg"),
        (["trace", "reduce", "3", "--block-index", "9"], "outside the grid"),
        (["trace", "reduce", "3", "--block-index", "x"], "such as 0 or 1,0"),
        (["diff", "reduce", "2", "none"], "'none'"),
        (["source", "fold"], "'transpose'"),
    ):
        done = run(*arguments)
        assert done.returncode != 0 and text in done.stderr and "Traceback" not in done.stderr


def test_profile_prints_what_gpuopt_profile_counts():
    done = run("profile", "reduce", "2", "-n", "100000")
    assert done.returncode == 0, done.stderr
    assert "100,000 int32" in done.stdout and "bank conflicts" in done.stdout
    told = json.loads(run("profile", "reduce", "2", "-n", "100000", "--json").stdout)
    x = np.arange(100_000, dtype=np.int32)
    counted = gpuopt.profile(gpuopt.reduce, x, variant=2, dtype=np.int32)
    assert told["counters"]["warp_instructions"] == counted.counters.warp_instructions
    assert len(told["launches"]) == len(counted.launches) and told["launches"][0]["lines"]
    assert f"{counted.counters.warp_instructions:,}" in done.stdout
    done = run("profile", "transpose", "shared", "-n", "4096", "--device", "sim:g80", "--json")
    assert json.loads(done.stdout)["device"] == "sim:g80", done.stderr
    for arguments, text in (
        (["reduce", "99"], "variant: 99"),
        (["reduce", "serial"], "has no kernel to count"),
        (["reduce", "2", "--device", "cpu"], "sim"),
        (["reduce", "2", "-n", "many"], "such as 4194304 or 2^22, 1e6 or 4M"),
        (["reduce", "2", "--dtype", "float128"], "float128"),
        (["saxpy", "5", "--dtype", "int8"], "dtype"),
    ):
        done = run("profile", *arguments)
        assert done.returncode != 0 and text in done.stderr and done.stdout == ""
        assert "Traceback" not in done.stderr


def test_default_rung_is_the_librarys_choice():
    """The best of many elements is not the best of few."""
    x = np.arange(4096, dtype=np.int32)
    own = gpuopt.profile(gpuopt.reduce, x, dtype=np.int32, device="sim").launches[0].kernel
    told = json.loads(run("profile", "reduce", "-n", "4096", "--json").stdout)
    assert told["launches"][0]["kernel"] == own and told["rung"] == 11
    assert gpuopt.trace("reduce", n=4096).launch.kernel == own
    told = json.loads(run("trace", "reduce", "-n", "4096", "--json").stdout)
    assert told["kernel"] == own and told["title"] == "reduce rung 11 single-pass"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["devices"], "devices"),
        (["config"], "version"),
        (["trace", "reduce", "3"], "accesses"),
        (["roofline", "--device", "sim"], "ceilings"),
        (["ladder", "saxpy", "--device", "sim"], "rows"),
        (["experiment", "banks", "--device", "sim"], "rows"),
        (["bench", "--device", "cpu", "--quick", "--only", "sum of 2^10"], "rows"),
        (["sweep", "add", "--device", "cpu", "--n", "1000"], "sizes"),
        (["source", "reduce", "3"], "lines"),
        (["diff", "reduce", "2", "3"], "unified"),
    ],
)
def test_json_is_all_that_is_printed(arguments, key):
    done = run(*arguments, "--json")
    results = 1 if arguments[0] == "bench" else 0  # a line for each, beside the JSON
    assert done.returncode == 0 and len(done.stderr.splitlines()) == results, done.stderr
    assert json.loads(done.stdout)[key]


def test_traced_numbers_are_the_pictures():
    told = json.loads(run("trace", "reduce", "2", "--json").stdout)
    worst = max(
        (each for each in told["accesses"] if each["space"] == "shared"),
        key=lambda each: each["most"],
    )
    assert worst["most"] == gpuopt.trace("reduce", 2).banks().data["passes"]


def test_compare_in_text_and_json(tmp_path):
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path in paths:
        path.write_text(run("ladder", "saxpy", "--device", "sim", "--json").stdout)
    done = run("compare", *map(str, paths))
    assert done.returncode == 0 and done.stdout.endswith("no change\n"), done.stderr
    (section,) = json.loads(run("compare", *map(str, paths), "--json").stdout)["sections"]
    assert section["unit"] == "count" and section["rows"]
    for changes in section["rows"].values():
        assert changes["warp_instructions"]["old"] == changes["warp_instructions"]["new"] > 0
    told = json.loads(paths[1].read_text())
    row = told["rows"][2]
    for launch in row["counted"]["launches"]:
        launch["counters"]["divergent_branches"] += 7
    paths[1].write_text(json.dumps(told))
    done = run("compare", *map(str, paths), "--fail-if", "divergent_branches>6")
    assert done.returncode == 1 and "divergent branches" in done.stdout
    assert row["rung"]["name"] in done.stderr and "1 more" in done.stdout
    for condition, status in (
        ("divergent_branches>7", 0), ("divergent_branches>5%", 1), ("more", 1), ("fewer", 0),
        ("bank_conflicts>0", 0), ("warm>5%", 0),
    ):  # fmt: skip
        done = run("compare", *map(str, paths), "--fail-if", condition)
        assert done.returncode == status, (condition, done.stderr)
    for condition, text in (
        ("bank_conflict>0", "did you mean 'bank_conflicts'"),
        ("worse", "'slower', 'faster'"),
        ("cold>5", "growth is in %"),
    ):
        done = run("compare", *map(str, paths), "--fail-if", condition)
        assert done.returncode == 1 and text in done.stderr and "Traceback" not in done.stderr
    paths[0].write_text(json.dumps({"kind": "ladder"}))
    done = run("compare", *map(str, paths))
    assert done.returncode == 1 and "is not a gpuopt result file: " in done.stderr
    for path, rung in zip(paths, ("2", "3"), strict=True):
        path.write_text(run("profile", "reduce", rung, "-n", "4096", "--json").stdout)
    again = run("compare", str(paths[0]), str(paths[0]), "--fail-if", "bank_conflicts>0")
    assert again.returncode == 0 and "without a change" in again.stdout


def test_bench_prints_writes_json_and_the_readme(tmp_path):
    page, path = tmp_path / "README.md", tmp_path / "bench.json"
    page.write_text("a\n<!-- bench: written by nobody -->\n<!-- end of bench -->\nz\n")
    done = run("bench", "--device", "cpu", "--quick", "--only", "sum of 2^10", "call", "--json",
               str(path), "--write-readme", str(page))  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = gpuopt.Bench.from_dict(json.loads(path.read_text()))
    assert [row.group for row in measured.rows] == ["sum", "call"]
    seen = [bench_table.line(measured, row) for row in measured.rows]
    assert done.stderr.splitlines() == seen, "a line for each work"
    assert done.stdout == f"{measured}\n" and f"NumPy {np.__version__}" in done.stdout
    text = page.read_text()
    assert str(measured) in text and text.startswith("a\n<!-- bench: written by `python -m gpuopt")
    again = run("compare", str(path), str(path))
    assert again.returncode == 0 and "sum of 2^10 float32" in again.stdout, again.stderr
    for arguments, told in (
        (["--only", "nothing"], "'nothing' is not a group of works"),
        (["--device", "sim"], "has no timer"),
        (["--peers", "MATLAB"], "'PyTorch'"),
    ):
        done = run("bench", "--quick", *arguments)
        assert done.returncode != 0 and told in done.stderr and "Traceback" not in done.stderr
    page.write_text("no marks")
    for arguments, told in (
        (["--write-readme", str(page)], "<!-- bench"),
        (["--json", str(tmp_path / "none" / "x.json")], "is no folder"),
    ):  # before anything is measured: all of it would take longer than `run` waits
        done = run("bench", "--device", "cpu", *arguments)
        assert done.returncode != 0 and told in done.stderr and "Traceback" not in done.stderr


def test_sweep_prints_every_choice():
    done = run("sweep", "saxpy", "--device", "cpu", "--n", "1000", "2^12")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for rung in gpuopt.rungs("saxpy"):
        assert (done.stdout.count(f"\n{rung.name} ") == 2) == rung.host
    assert done.stdout.count("default: rung simd") == 2
    for arguments, told in (
        (["reduce", "--device", "sim"], "ladder reduce --device sim:h200 --block 256"),
        (["fold"], "reduce_axis"),
        (["reduce", "--n", "0"], "is not a count"),
    ):
        done = run("sweep", *arguments)
        assert done.returncode != 0 and told in done.stderr and "Traceback" not in done.stderr


def test_help_has_examples():
    listed = run("--help")
    assert listed.returncode == 0 and "rung" in listed.stdout
    commands = re.findall(r"^    ([a-z]+)\b", listed.stdout, re.M)
    assert {"ladder", "profile", "trace", "report", "roofline", "experiment"} <= set(commands)
    for command in commands:
        done = run(command, "--help")
        assert done.returncode == 0
        told = " ".join(done.stdout.split())
        example = told[told.index("example: ") :]
        assert f"python -m gpuopt {command}" in example
        assert told.index("options:") > 100, "a sentence of when to use it"


def test_wrong_rung_is_not_timed(monkeypatch):
    """A wrong or NaN result must end the command before any time is measured."""

    class Liar:
        timed = 0

        def __init__(self, *arguments, **more):
            self.bench = real(*arguments, **more)

        def run(self, variant=None, block=None):
            return float("nan") if variant == "openmp" else self.bench.run(variant, block)

        def bytes(self, *arguments):
            return self.bench.bytes(*arguments)

        def time(self, *arguments, **more):
            Liar.timed += bool(arguments)  # of a rung: the plain copy is named by none
            return self.bench.time(*arguments, **more)

    real = _core.Workbench
    monkeypatch.setattr(_core, "Workbench", Liar)
    with pytest.raises(gpuopt.VerificationError, match="openmp"):
        gpuopt.ladder("reduce", 1000, dtype="float32", device="cpu")
    assert Liar.timed == 0


@pytest.mark.parametrize("family", ["transpose", "stencil1d", "add", "saxpy", "matmul"])
@pytest.mark.parametrize("device", ["sim", *DEVICES])
def test_ladders_of_the_other_families(family, device, monkeypatch):
    monkeypatch.setitem(ladder.COPY_BYTES, "cpu", 1 << 22)
    n = 1024 if device != "cuda" else 2**16
    measured = gpuopt.ladder(family, n, device=device, rounds=2)
    kind = measured.device.kind
    wanted = [r for r in gpuopt.rungs(family) if r.host == (kind == "cpu") and not r.historical]
    rows = {row.rung.name for row in measured.rows}
    refused = {rung.name for rung, _ in measured.refused}
    assert rows | refused == {rung.name for rung in wanted} and not rows & refused
    assert refused <= {"threads"}
    text = str(measured)
    assert ("GFLOP/s" in text) == (family == "matmul")  # predicted on sim
    for rung in wanted:
        assert rung.lesson in text or rung.name in refused


def test_a_ladder_of_another_family_catches_a_wrong_rung(monkeypatch):
    from gpuopt.families import cases

    make = cases.make

    def broken(*arguments, **more):
        case = make(*arguments, **more)
        right = case.error
        case.error = lambda rung, got: right(rung, got + (rung.name == "openmp"))
        return case

    monkeypatch.setattr(cases, "make", broken)
    for family in ("transpose", "stencil1d", "add", "saxpy", "matmul"):
        with pytest.raises(gpuopt.VerificationError, match="openmp"):
            gpuopt.ladder(family, 1000, device="cpu", rounds=1)


def test_unknown_ladder_lists_the_families():
    with pytest.raises(ValueError, match="'reduce', 'transpose'"):
        gpuopt.ladder("fold")
    with pytest.raises(TypeError, match="dtype"):
        gpuopt.ladder("add", 10, dtype="int8", device="cpu")


INTERNAL = """
import sys
import gpuopt
from gpuopt.cli import main
def fails(*unused, **ignored):
    raise {error}
gpuopt.ladder = main.gpuopt.ladder = fails
sys.argv = ["gpuopt", *{arguments}]
sys.exit(main.main())
"""


@pytest.mark.parametrize(
    "error",
    ["TypeError('f() got x')", "KeyError('x')", "ZeroDivisionError('x')", "ValueError('x')"],
)
@pytest.mark.parametrize("where", ["", "before", "after"])
def test_a_traceback_is_shown_where_it_is_asked_for(error, where):
    command = ["ladder", "reduce", "--device", "cpu"]
    arguments = {
        "": command,
        "before": ["--traceback", *command],
        "after": [*command, "--traceback"],
    }[where]
    done = run_python(INTERNAL.format(error=error, arguments=arguments), check=False)
    assert done.returncode == 1
    if where:
        assert "Traceback" in done.stderr and "in fails" in done.stderr
    else:
        (line,) = done.stderr.splitlines()
        assert line.startswith("gpuopt: ") and "--traceback" in line
        assert error.startswith("ValueError") or error.partition("(")[0] in line
