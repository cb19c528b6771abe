"""Is my number normal? What gpuopt's makers measured on the same GPU.

A reference is a file of the package, reference/<gpu>.json, written on that GPU by
``python -m gpuopt reference``.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from gpuopt.measure.ladder_result import Ladder

FOLDER = Path(__file__).parent / "reference"


def file_name(description: str) -> str:
    """Return the file of a GPU that the driver calls so: "NVIDIA H200" is "nvidia-h200.json"."""
    return re.sub(r"[^a-z0-9]+", "-", description.lower()).strip("-") + ".json"


@cache
def _known(name: str) -> dict[tuple[Any, ...], Ladder]:
    """Return a GPU's ladders by family and size; none where there is no such file."""
    try:
        told = json.loads((FOLDER / name).read_text())
    except OSError:
        return {}
    return {_key(each): each for each in map(Ladder.from_dict, told["ladders"])}


def _key(measured: Ladder) -> tuple[Any, ...]:
    return (measured.family, measured.op, measured.dtype, measured.n, measured.block)


def compare_with(measured: Ladder) -> None:
    """Put the reference's times into a ladder's rows, where there is one for the same work."""
    reference = _known(file_name(measured.device.description)).get(_key(measured))
    if reference:
        times = {row.rung.name: (row.warm.median, row.cold.median) for row in reference.rows}
        for row in measured.rows:
            row.reference = times.get(row.rung.name)
