"""The README and the pages of docs/: commands, examples, links, pictures, tables, samples."""

import re
import runpy
import shlex
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import gpuopt
from gpuopt.cli import main as program
from gpuopt.measure import ceilings as ceilings_module, ladder, peer_libraries

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
README = TEXTS["README.md"]
LADDERS = ("ladder", "transpose", "stencil1d", "matmul", "saxpy")
SAMPLES = runpy.run_path(str(ROOT / "docs" / "samples.py"))
each_page = pytest.mark.parametrize("page", TEXTS)


def blocks(text, language):
    """Return the blocks of a language, each with the comment in the line above it, or ""."""
    found = re.findall(rf"(?:<!-- ([^\n]*) -->\n)?```{language}\n(.*?)```", text, re.DOTALL)
    return [(mark, block) for mark, block in found]


def commands():
    """Return the arguments of `python -m gpuopt` in text and in shell blocks."""
    found = []
    for text in TEXTS.values():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        found += [" ".join(each.split()) for each in re.findall(r"`([^`]*)`", prose)]
        lines = [line for _, block in blocks(text, "sh") for line in block.split("\n")]
        # a comment begins with "# ": "axes #23" is the name of a work
        found += [line.partition(" # ")[0].partition(" > ")[0].strip() for line in lines]
    before = "python -m gpuopt "
    told = {each.partition(before)[2] for each in found if before in each}
    return sorted(told - {"ladder FAMILY", "COMMAND --help", "--help"})


def between(text, marks):
    """Return the text between marks, and the command that writes it."""
    opening, table = re.search(
        rf"<!-- {marks}: (.*?) -->\n(.*?)<!-- end of {marks} -->", text, re.DOTALL
    ).groups()
    return table, re.search(r"`python -m gpuopt (.*)`", opening)[1]


@pytest.mark.parametrize("command", commands())
def test_commands_are_parsed(command):
    assert program._parser().parse_args(shlex.split(command)).run


QUICK = ("config", "devices", "experiment coalescing", "ladder reduce --device sim")


@pytest.mark.parametrize(
    "command",
    [*QUICK, *(each for each in commands() if each.split()[0] in ("trace", "source", "diff"))],
)
def test_quick_commands_run(command, tmp_path, monkeypatch, capsys):
    assert command in commands()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["gpuopt", *shlex.split(command)])
    assert program.main() == 0
    assert capsys.readouterr().out or list(tmp_path.glob("*.svg"))


# --- the README


def test_readme_keeps_to_its_limits():
    assert len(README) <= 9600 and README.count("\n") <= 205
    assert len(re.findall(r"!\[[^]]+\]\(docs/images/[\w.]+\)", README)) >= 4
    for _, block in blocks(README, r"\w+"):
        assert max(map(len, block.splitlines())) <= 98  # else a code host cuts it off


def test_readme_times_are_those_of_the_ladder_s_table():
    table, _ = between(TEXTS["docs/ladders.md"], "ladder")
    rows = re.findall(r"^\| (\d \S+) \| .* \| ([\d.,]+) \| ([\d.,]+) \|$", README, re.M)
    assert len(rows) == 7
    for name, h200, deck in rows:
        line = next(each for each in table.splitlines() if each.startswith(f"{name} ")).split()
        assert line[2] == h200 and deck in line


def test_readme_names_every_notebook():
    named = re.findall(r"\| \[(\w+)\]\(notebooks/\1\.ipynb\) \| .*\? \| \d+ \|", README)
    assert named == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_readme_kernel_has_a_race_and_the_barrier_mends_it():
    for barrier in (False, True):
        x = np.arange(1024, dtype=np.float32)
        kernel = SAMPLES["reverse"](barrier)
        found = gpuopt.check(kernel, 4, 256, x, x.size)
        assert bool(found) is not barrier, found
    assert (x == np.arange(1024, dtype=np.float32).reshape(4, 256)[:, ::-1].ravel()).all()


# --- all pages


def anchors(text):
    """Return the anchors that a code host and Sphinx make from headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def test_pictures_are_small_and_drawn_by_the_project():
    shown = {name for text in TEXTS.values() for name in re.findall(r"images/([\w]+)\.svg", text)}
    stored = {path.stem: path for path in (ROOT / "docs" / "images").iterdir()}
    assert shown == set(stored) == set(SAMPLES["PICTURES"])
    for path in stored.values():
        assert path.suffix == ".svg" and path.stat().st_size < 130_000
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.parametrize("name", ["hero", "banks", "coalescing", "divergence"])
def test_pictures_of_traces_can_be_drawn_again(name):
    fresh = ElementTree.fromstring(SAMPLES["PICTURES"][name]())
    stored = ElementTree.parse(ROOT / "docs" / "images" / f"{name}.svg").getroot()
    assert fresh.get("viewBox").split()[:3] == stored.get("viewBox").split()[:3]


@each_page
def test_samples_have_today_s_numbers(page):
    """Compare the numbers; `python docs/samples.py --check` compares the texts, too."""
    found = SAMPLES["MARKS"].findall(TEXTS[page])
    assert TEXTS[page].count("<!-- sample:") == len(found)
    for _, name, block, _ in found:
        numbers = re.compile(r"\d[\d,.]*")
        fresh = SAMPLES["SAMPLES"][name]()
        assert numbers.findall(block) == numbers.findall(fresh), "run python docs/samples.py"


@pytest.mark.parametrize("marks", LADDERS)
def test_tables_have_the_rungs_of_the_registry(marks):
    text, command = between(TEXTS["docs/ladders.md"], marks)
    asked = program._parser().parse_args(shlex.split(command))
    assert asked.marks == marks and str(asked.write_readme) == "docs/ladders.md"
    lessons = text.partition("all steps together")[2].partition("what changed")[0]
    told = dict(re.findall(r"^(\d+ \S+) +(.*)$", lessons, re.M))
    kernels = [each for each in gpuopt.rungs(asked.family) if not (each.host or each.historical)]
    assert {f"{each.number} {each.name}" for each in kernels} == set(told)
    for each in kernels:
        lesson = told[f"{each.number} {each.name}"]
        assert lesson == each.lesson or lesson.startswith("left out: variant: rung"), each.name


def test_api_page_names_everything():
    """Objects with docstrings have examples, which test_docs runs."""
    named = re.findall(
        r"^\.\. auto(?:function|class|exception|module):: (\S+)", TEXTS["docs/api.md"], re.M
    )
    assert len(named) == len(set(named))
    names = {f"gpuopt.{name}" for name in gpuopt.__all__} - {"gpuopt.__version__"}
    names |= {f"gpuopt.experiments.{name}" for name in gpuopt.experiments.__all__}
    # Those are lists and classes of a result's columns.
    names -= {"gpuopt.experiments.EXPERIMENTS", "gpuopt.experiments.Column"}
    assert set(named) == names


def test_every_page_is_in_the_contents():
    index, lessons = TEXTS["docs/index.md"], TEXTS["docs/lessons.md"]
    listed = re.findall(r"```{toctree}\n:hidden:\n(.*?)```", index, re.S)[0].split()
    assert sorted([*listed, "index"]) == sorted(page.stem for page in PAGES[1:])
    assert all(f"]({name}.md)" in index for name in listed)
    named = re.findall(r"^notebooks/(\w+)$", lessons, re.M)
    assert named == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert re.findall(r"^\| `(\w+)` \|", lessons, re.M) == named


def test_experiments_are_complete():
    text, _ = between(TEXTS["docs/experiments.md"], "experiments")
    names = {line.split()[0] for line in text.splitlines() if line and line[0] != "`"}
    assert names == set(gpuopt.experiments.EXPERIMENTS)


def test_presets_are_complete():
    named = re.findall(r"^\| `sim:(\w+)` \|", TEXTS["docs/simulator.md"], re.M)
    assert named == list(gpuopt.models.GPUS)


@pytest.mark.parametrize("page", [*TEXTS, "CONTRIBUTING.md", "SECURITY.md"])
def test_paths_and_names_exist(page):
    text = (ROOT / page).read_text()
    paths = set(re.findall(r"`((?:csrc|gpuopt|tests|notebooks|docs)/[\w./]+)`", text))
    assert [path for path in paths if not (ROOT / path).exists()] == []
    for name in set(re.findall(r"\bgpuopt\.(\w+)", text)) - {"py"}:
        assert hasattr(gpuopt, name), name
    for variable in set(re.findall(r"`(GPUOPT_\w+)", text)):
        files = [
            *ROOT.glob("csrc/**/*.c"), *ROOT.glob("gpuopt/**/*.py"),
            ROOT / "csrc" / "build_kernels.py", ROOT / "setup.py",
        ]  # fmt: skip
        assert any(variable in path.read_text() for path in files), variable


@each_page
def test_examples_run(page, tmp_path, monkeypatch):
    """Run a page's Python from top to bottom; marked blocks need more, and are only compiled."""
    monkeypatch.chdir(tmp_path)
    room = {}
    for mark, block in blocks(TEXTS[page], "python"):
        compiled = compile(block, page, "exec")
        if mark.startswith(("needs:", "slow")):
            continue
        exec(compiled, room)


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
    python = blocks(TEXTS["docs/benchmarks.md"], "python")
    (block,) = (each for _, each in python if "roofline(" in each)
    for before, after in (
        ("roofline()", 'roofline("cpu")'),
        ('ladder("saxpy", ', 'ladder("saxpy", 1 << 16, rounds=2, '),
        ('ladder("reduce", ', 'ladder("reduce", 1 << 16, rounds=2, '),
    ):
        assert block.count(before) == 1
        block = block.replace(before, after)
    room = {}
    exec(block, room)
    assert (tmp_path / "roofline.svg").exists()
    assert len(room["roof"].points) == len(room["saxpy"].rows)
    assert room["measured"].peers and room["measured"].records()
