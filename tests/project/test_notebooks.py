"""The notebooks run, their stored outputs are current, and the exercises' solutions are right."""

import re
import runpy
import warnings
from functools import cache
from pathlib import Path

import pytest
from conftest import needs_newer_ptx

import gpuopt

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
EXECUTE = runpy.run_path(str(ROOT / "docs" / "execute.py"))
NUMBER = re.compile(r"\d[\d,.]*\d|\d")
WIDE = 122  # characters of a line, on a page of 1,200 pixels
each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


def stored(name):
    return nbformat.read(NOTEBOOKS[name], as_version=4)


def exercises(notebook):
    """Return the Python blocks of the last cell, the exercises: tasks and solutions."""
    return re.findall(r"^```python\n(.*?)^```", notebook.cells[-1].source, re.M | re.S)


@cache
def executed(name):
    """Return a notebook after a run on the simulated GPU, its exercises appended as cells."""
    notebook = stored(name)
    notebook.cells += [nbformat.v4.new_code_cell(block) for block in exercises(notebook)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nbformat.warnings.MissingIDFieldWarning)
        return EXECUTE["executed"](notebook, EXECUTE["WITHOUT_GPU"])


def data_of(cell):
    """Return what a cell shows, by type of content."""
    found = {}
    for output in cell.get("outputs", []):
        for kind, text in (output.get("data") or {"text/plain": output.get("text", "")}).items():
            found[kind] = found.get(kind, "") + str(text)
    return found


def numbers(data):
    """Return the numbers of a cell's texts, and of a picture's title and description."""
    about = re.findall(r"<(title|desc)>(.*?)</\1>", data.get("image/svg+xml", ""))
    shown = re.sub(r"<Figure size.*?>", "", data.get("text/plain", ""))
    return set(NUMBER.findall(" ".join([shown, *(text for _, text in about[:2])])))


@needs_newer_ptx
@each_notebook
def test_stored_outputs_are_those_of_a_new_run(name):
    """Compare numbers and kinds of pictures.

    Cells tagged "varies" show times or the machine.
    """
    for before, after in zip(stored(name).cells, executed(name).cells, strict=False):
        if before.cell_type != "code" or "varies" in before.metadata.get("tags", []):
            continue
        old, new = data_of(before), data_of(after)
        advice = f"run python docs/execute.py {name}; the cell is:\n{before.source}"
        assert set(old) == set(new), advice
        assert numbers(old) <= numbers(new), advice


@each_notebook
def test_a_run_shows_no_warning(name):
    outputs = [each for cell in executed(name).cells for each in cell.get("outputs", [])]
    assert [each for each in outputs if each.get("name") == "stderr"] == []
    assert [each for each in outputs if each.output_type == "error"] == []


@each_notebook
def test_notebook_runs_on_the_gpu(name):
    if not gpuopt.available("cuda"):
        pytest.skip(f"no GPU: {gpuopt.available('cuda').reason}")
    cells = EXECUTE["executed"](stored(name), {}).cells
    outputs = [each for cell in cells for each in cell.get("outputs", [])]
    assert [each for each in outputs if each.get("name") == "stderr"] == []


@each_notebook
def test_notebook_is_a_lesson(name):
    """Hold the form: a question, pictures, what still holds, exercises with folded solutions."""
    cells = stored(name).cells
    assert cells[0].source.startswith("# ") and "?" in cells[0].source.splitlines()[0]
    assert cells[-2].source.startswith("## What still holds, and what does not")
    last = cells[-1].source
    assert last.startswith("## Exercises\n\n**1. Predict, then run.**")
    tasks = re.findall(r"^\*\*\d\. ", last, re.M)
    solutions = re.findall(
        r"^<details><summary>Solution</summary>\n\n.+?\n\n</details>$", last, re.M | re.S
    )
    assert len(tasks) == len(solutions) in (2, 3)
    assert len(exercises(stored(name))) >= len(tasks)
    shown = [data_of(cell) for cell in cells if cell.cell_type == "code"]
    assert sum("image/svg+xml" in each or "image/png" in each for each in shown) >= 2
    assert all(cell.execution_count for cell in cells if cell.cell_type == "code")


def test_kernels_are_mended():
    mended = [name for name in NOTEBOOKS if "Mend a broken kernel" in stored(name).cells[-1].source]
    assert len(mended) >= 2


@each_notebook
def test_stored_outputs_fit_a_page(name):
    assert NOTEBOOKS[name].stat().st_size < 1_000_000
    for cell in stored(name).cells:
        for kind, text in data_of(cell).items():
            if set(data_of(cell)) == {"text/plain"}:
                assert max(map(len, text.splitlines()), default=0) <= WIDE, cell.source
            if kind == "text/html" and "<table" in text:
                head = re.search(r"<tr>.*?</tr>", text, re.S)[0]
                assert head.count("<th") <= 10, cell.source


def test_there_are_notebooks():
    assert [name[:2] for name in NOTEBOOKS] == [f"{number:02}" for number in range(10)]
