"""Measures a GPU's reference: what measure/reference/<gpu>.json holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuopt.families.cases import FAMILIES
from gpuopt.measure.ladder import ladder
from gpuopt.measure.roofline import roofline


def measure(
    device: str | None,
    rounds: int = 11,
    progress: Callable[[str, float], None] = lambda text, share: None,
) -> dict[str, Any]:
    """Measure a device's roofline and all its ladders: what a reference file holds."""
    ladders = [
        ("reduce", "int32"),
        ("reduce", "float32"),
        *((each, "float32") for each in FAMILIES),
    ]
    steps = len(ladders) + 1
    roof = roofline(device, fresh=True, progress=lambda text, share: progress(text, share / steps))
    found = []
    for at, (family, dtype) in enumerate(ladders):

        def inner(text: str, share: float, at: int = at, family: str = family) -> None:
            progress(f"{family}: {text}", (at + 1 + share) / steps)

        found.append(
            ladder(family, dtype=dtype, device=roof.device.name, rounds=rounds, progress=inner)
        )
    for each in found:
        for row in each.rows:
            row.reference = None  # it is the reference
    return {
        "kind": "reference",
        "roofline": roof.to_dict(),
        "ladders": [each.to_dict() for each in found],
    }
