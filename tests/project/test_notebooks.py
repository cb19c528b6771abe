"""Every notebook runs from its first cell to its last."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
LESSONS = [path for path in NOTEBOOKS if not path.stem.startswith("00")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "stored with outputs"
    client = nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [each for each in outputs if each.get("name") == "stderr"], "a warning"
    shown = "".join(
        each.get("text", "") + "".join(map(str, each.get("data", {}).values())) for each in outputs
    )
    assert re.search(r"<svg|<table|image/png|cascading|wavefront", shown), "nothing to see"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_begins_with_a_question_and_ends_with_what_still_holds(path):
    notebook = nbformat.read(path, as_version=4)
    first, last = notebook.cells[0], notebook.cells[-1]
    assert first.cell_type == last.cell_type == "markdown"
    assert first.source.startswith("# ") and "?" in first.source.splitlines()[0]
    assert last.source.startswith("## What still holds, and what does not")


def test_there_are_notebooks():
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(8)]
