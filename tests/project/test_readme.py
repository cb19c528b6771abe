"""The README's commands and examples run; its tables of rungs and its names are current."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import gpuopt
from gpuopt.cli import main as program
from gpuopt.measure import ceilings as ceilings_module, ladder, peer_libraries

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LADDERS = ("ladder", "transpose", "stencil1d", "matmul", "saxpy")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands():
    """Return the arguments of `python -m gpuopt` in text and in shell blocks."""
    text = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    found = [" ".join(each.split()) for each in re.findall(r"`([^`]*)`", text)]
    found += [line.partition(" #")[0].strip() for each in blocks("sh") for line in each.split("\n")]
    before = "python -m gpuopt "
    return sorted(
        {each.partition(before)[2] for each in found if before in each} - {"ladder FAMILY"}
    )


def between(marks):
    """Return the text between marks, and the command that writes it."""
    opening, text = re.search(
        rf"<!-- {marks}: (.*?) -->\n(.*?)<!-- end of {marks} -->", README, re.DOTALL
    ).groups()
    return text, re.search(r"`python -m gpuopt (.*)`", opening)[1]


@pytest.mark.parametrize("command", commands())
def test_commands_are_parsed(command):
    assert program._parser().parse_args(shlex.split(command)).run


QUICK = ("config", "experiment coalescing", "ladder reduce --device sim")  # others take minutes


@pytest.mark.parametrize("command", [*QUICK, *(each for each in commands() if "trace " in each)])
def test_quick_commands_run(command, tmp_path, monkeypatch, capsys):
    assert command in commands()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["gpuopt", *shlex.split(command)])
    program.main()
    assert capsys.readouterr().out or (tmp_path / "tree.svg").exists()


@pytest.mark.parametrize("marks", LADDERS)
def test_tables_have_the_rungs_of_the_registry(marks):
    text, command = between(marks)
    asked = program._parser().parse_args(shlex.split(command))
    assert asked.marks == marks and str(asked.write_readme) == "README.md"
    lessons = text.partition("all steps together")[2].partition("what changed")[0]
    told = dict(re.findall(r"^(\d+ \S+) +(.*)$", lessons, re.M))
    kernels = [each for each in gpuopt.rungs(asked.family) if not (each.host or each.historical)]
    assert {f"{each.number} {each.name}" for each in kernels} == set(told)
    for each in kernels:
        lesson = told[f"{each.number} {each.name}"]
        assert lesson == each.lesson or lesson.startswith("left out: variant: rung"), each.name


def test_experiments_are_complete():
    text, _ = between("experiments")
    names = {line.split()[0] for line in text.splitlines() if line and line[0] != "`"}
    assert names == set(gpuopt.experiments.EXPERIMENTS)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_paths_exist(page):
    text = (ROOT / page).read_text()
    paths = set(re.findall(r"`((?:csrc|gpuopt|tests|notebooks)/[\w./]+)`", text))
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []


def test_names_exist():
    for name in set(re.findall(r"\bgpuopt\.(\w+)", README)) - {"py"}:
        assert hasattr(gpuopt, name), name
    for path in set(re.findall(r"`(0\d_\w+)`", README)):
        assert (ROOT / "notebooks" / f"{path}.ipynb").exists(), path
    for variable in set(re.findall(r"`(GPUOPT_\w+)", README)):
        files = [
            *ROOT.glob("csrc/**/*.c"), *ROOT.glob("gpuopt/**/*.py"),
            ROOT / "csrc" / "build_kernels.py", ROOT / "setup.py",
        ]  # fmt: skip
        assert any(variable in path.read_text() for path in files), variable


def test_examples_run(tmp_path, monkeypatch, capsys):
    """Run all examples except ladders, which take longer, and those with other libraries."""
    monkeypatch.chdir(tmp_path)
    room = {"np": np, "gpuopt": gpuopt}
    run = 0
    for block in blocks("python"):
        if any(word in block for word in ("roofline(", "tensor", "load_ptx")):
            continue  # roofline: the next test
        if ">>>" in block:  # the first example; a simulated GPU needs a second for 2^22
            block = block.replace(">>> ", "").replace("1 << 22", "1 << 16")
        for line in block.splitlines():
            if not any(word in line for word in ("ladder(", "module[")):
                exec(line, room)
                run += 1
    assert run > 30 and (tmp_path / "tile.svg").exists()
    assert gpuopt.__version__ in capsys.readouterr().out  # show_config is the one that prints


def test_the_roofline_s_example_runs(tmp_path, monkeypatch):
    """Run it on the cpu, with less data and with given ceilings, whose measurement takes longer."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(ladder.COPY_BYTES, "cpu", 1 << 24)
    monkeypatch.setattr(peer_libraries, "COLD_BYTES", 1 << 24)
    ceilings = [gpuopt.Ceiling("DRAM", "B/s", 1e10), gpuopt.Ceiling("FMA float32", "FLOP/s", 1e11)]
    real = ceilings_module.measure
    monkeypatch.setattr(
        ceilings_module,
        "measure",
        lambda on, *how: ceilings if on.kind == "cpu" else real(on, *how),
    )
    (block,) = (each for each in blocks("python") if "roofline(" in each)
    for before, after in (
        ("roofline()", 'roofline("cpu")'),
        ('ladder("saxpy", ', 'ladder("saxpy", 1 << 16, rounds=2, '),
        ('ladder("reduce", ', 'ladder("reduce", 1 << 16, rounds=2, '),
    ):
        assert block.count(before) == 1
        block = block.replace(before, after)
    room = {"gpuopt": gpuopt}
    exec(block, room)
    assert (tmp_path / "roofline.svg").exists()
    assert len(room["roof"].points) == len(room["saxpy"].rows)
    assert room["measured"].peers and room["measured"].records()
