"""Execute the notebooks and store them with their outputs.

    python docs/execute.py                       # all of them
    python docs/execute.py 01_reduction ...      # these

They run as on a machine without a GPU and without ptxas, so that the stored numbers are the
simulated GPU's and the same everywhere. A cell with the tag "varies" shows times or names of the
machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
WITHOUT_GPU = {
    "GPUOPT_CUDA_DRIVER": "none", "GPUOPT_PTXAS": "none", "GPUOPT_DEVICE": "", "COLUMNS": "100",
}  # fmt: skip


def executed(notebook: Any, environment: dict[str, str] = WITHOUT_GPU) -> Any:
    """Execute a notebook in a new kernel and an empty folder; return it with its outputs."""
    import nbclient

    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        client.execute(env={**os.environ, **environment})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def main() -> int:
    """Execute the notebooks that the command line names, by default all."""
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="as 01_reduction (default: all)")
    names = parser.parse_args().names
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(executed(nbformat.read(path, as_version=4)), path)
            print(f"{path.name}: {path.stat().st_size / 1e3:,.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
