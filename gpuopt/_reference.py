"""Is my number normal? What gpuopt's makers measured on the same GPU; and two files compared.

A reference is a file of the package, reference/<gpu>.json, written on that GPU by
``python -m gpuopt reference``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from gpuopt._cases import ITEMS
from gpuopt._ladder import Ladder, Row, ladder
from gpuopt._roofline import Roofline, roofline

FOLDER = Path(__file__).parent / "reference"
LEAST_CHANGE = 0.01  # a smaller one is not told, however small the spread


def file_name(description: str) -> str:
    """Return the file of a GPU that the driver calls so: "NVIDIA H200" is "nvidia-h200.json"."""
    return re.sub(r"[^a-z0-9]+", "-", description.lower()).strip("-") + ".json"


@cache
def _known(name: str) -> dict[tuple[Any, ...], Ladder]:
    """Return a GPU's ladders by what was measured; none where there is no such file."""
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


def measure(
    device: str | None,
    rounds: int = 11,
    progress: Callable[[str, float], None] = lambda text, share: None,
) -> dict[str, Any]:
    """Measure a device's roofline and all its ladders: what a reference file holds."""
    ladders = [("reduce", "int32"), ("reduce", "float32"), *((each, "float32") for each in ITEMS)]
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


# --- two files


def load(path: Path) -> tuple[list[Roofline], list[Ladder]]:
    """Read what --json wrote: a roofline, a ladder, a list of them, or a reference.

    Raises
    ------
    ValueError
        The file holds something else.
    OSError
        It cannot be read.
    """
    try:
        told = json.loads(path.read_text())
    except ValueError as error:  # no JSON, or no text
        raise ValueError(f"{path}: is no JSON ({error})") from None
    roofs: list[Roofline] = []
    ladders: list[Ladder] = []
    for each in told if isinstance(told, list) else [told]:
        kind = each.get("kind") if isinstance(each, dict) else None
        try:
            if kind == "reference":
                roofs.append(Roofline.from_dict(each["roofline"]))
                ladders += [Ladder.from_dict(one) for one in each["ladders"]]
            elif kind == "roofline":
                roofs.append(Roofline.from_dict(each))
            else:
                ladders.append(Ladder.from_dict(each if kind else {}))
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{path}: is nothing that 'python -m gpuopt ladder --json', 'roofline --json' or "
                f"'reference' wrote ({error})"
            ) from None
    return roofs, ladders


def _verdict(change: float, spread: float) -> str:
    if not abs(change) > max(LEAST_CHANGE, spread):
        return ""
    return "slower" if change > 0 else "faster"


def _rung_lines(old: Row, new: Row, timed: bool) -> str:
    from gpuopt._tables import label

    line = f"{label(new.rung):<18}"
    if not timed:
        then, now = (row.counted.counters.warp_instructions for row in (old, new))
        return f"{line}{then:>14,}{now:>14,}{now / then:>8.3f}"
    for mode in ("warm", "cold"):
        then, now = getattr(old, mode), getattr(new, mode)
        ratio = now.median / then.median
        line += f"{then.median * 1e6:>12,.1f}{now.median * 1e6:>12,.1f}{ratio:>8.3f}"
        line += f"{_verdict(ratio - 1, then.spread + now.spread):>8}"
    return line


def compare(old: Path, new: Path) -> str:
    """Return a table of what changed from one file to the other, rung by rung.

    A change is named where it is more than both spreads together, and more than 1%.

    Raises
    ------
    ValueError
        A file holds something else, or the two have nothing in common.
    """
    (old_roofs, old_ladders), (new_roofs, new_ladders) = load(old), load(new)
    lines: list[str] = []
    for before, after in zip(old_roofs, new_roofs, strict=False):
        lines += [f"{after.device.description}: ceilings", ""]
        rates = {each.name: each for each in before.ceilings}
        for each in after.ceilings:
            if each.name in rates:
                then = rates[each.name]
                change = then.rate / each.rate - 1  # as of times: more is slower
                verdict = _verdict(change, then.spread + each.spread)
                lines.append(
                    f"{each.name:<18}{then.rate / 1e9:>12,.0f}{each.rate / 1e9:>12,.0f}"
                    f"{each.rate / then.rate:>8.3f}{verdict:>8}"
                )
        lines.append("")
    before = {(*_key(each), each.device.kind): each for each in old_ladders}
    for after in new_ladders:
        then = before.get((*_key(after), after.device.kind))
        if not then:
            continue
        timed = then.timed and after.timed
        lines += [f"{after.title}, {then.device.description} -> {after.device.description}"]
        head = f"{'old us':>12}{'new us':>12}{'ratio':>8}{'':>8}"
        counted = f"{'old':>14}{'new':>14}{'ratio':>8}  warp instructions"
        lines += [f"{'':<18}{'warm':>12}{'':>28}{'cold':>12}"] * timed
        lines.append(f"{'rung':<18}{head * 2 if timed else counted}")
        rows = {row.rung.name: row for row in then.rows}
        common = [row for row in after.rows if row.rung.name in rows]
        if not timed:
            common = [row for row in common if row.counted and rows[row.rung.name].counted]
        lines += [_rung_lines(rows[row.rung.name], row, timed) for row in common]
        lines.append("")
    if not lines:
        raise ValueError(f"{old} and {new} have no measurement of the same work")
    return "\n".join(line.rstrip() for line in lines).rstrip()
