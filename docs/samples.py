"""Write the pictures and the sample outputs of the README and of the pages.

    python docs/samples.py           # write docs/images/*.svg and the samples between their marks
    python docs/samples.py --check   # only compare: exit status 1 and a list if one differs

Each is made from a run on the simulated GPU, except for the times of an H200, which are those of
gpuopt/measure/reference. A sample stands between the lines ``<!-- sample: NAME -->`` and
``<!-- end of sample -->``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import gpuopt
from gpuopt import _core
from gpuopt.measure import report
from gpuopt.measure.reference_times import FOLDER
from gpuopt.util.svg import Canvas

DOCS = Path(__file__).parent
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))
MARKS = re.compile(r"(<!-- sample: (\S+) -->\n)(.*?)(<!-- end of sample -->)", re.DOTALL)


# --- pictures


def hero() -> str:
    """Draw the trees of rungs 1 and 3 of the reduction side by side."""
    canvas = Canvas(900)
    y = canvas.heading(
        "The same 63 additions, by 64 threads of two warps",
        "a column is a thread, a row a step; percentages: lanes that add, of warps at work",
    )
    canvas.legend(14, y + 6, [
        ("active", "adds"), ("hatched", "waits while others of its warp add"),
        ("idle", "its whole warp rests"),
    ])  # fmt: skip
    bottom = 0.0
    for left, rung, says in (
        (14, 1, "Rung 1: every second, fourth, ... thread adds"),
        (466, 3, "Rung 3: the first threads add"),
    ):
        canvas.text(left, y + 44, says, size=14, bold=True)
        bottom = _half_tree(canvas, left, y + 58, rung)
    title = "Reduction in shared memory: divergent warps, and warps that work or rest"
    return canvas.picture(bottom + 14, title, "recorded from a run of one block", {}).svg


def _half_tree(canvas: Canvas, left: float, top: float, rung: int) -> float:
    """Draw a rung's tree, 6 pixels per thread; return its lower end."""
    steps = gpuopt.trace("reduce", rung, n=128, block=64).tree().data["steps"]
    wide, high, pitch = 6, 14, 40
    for step in steps:
        y = top + pitch * (step["step"] - 1) + 22
        adding = {pair["thread"] for pair in step["pairs"] if pair["needed"]}
        for pair in step["pairs"]:
            if pair["needed"]:
                for _, place in pair["operands"]:
                    x = left + wide * (place + 0.5)
                    to = left + wide * (pair["thread"] + 0.5)
                    canvas.line(x, y - pitch + high, to, y, "edge", 0.7)
        for thread in range(64):
            warp = thread // 32
            works = any(each // 32 == warp for each in adding)
            kind = "active" if thread in adding else "hatched" if works else "idle"
            canvas.rect(left + wide * thread, y, wide, high, kind)
        warps = len({each // 32 for each in adding})
        share = f"{len(adding) / (32 * warps):.0%}"
        canvas.text(left + wide * 64 + 6, y + 11, share, size=12, kind="soft")
    return top + pitch * len(steps)


def h200_ladder() -> str:
    """Draw the measured ladder of the reduction, and the deck's G80 beside it."""
    import matplotlib

    matplotlib.use("agg")
    told = json.loads((FOLDER / "nvidia-h200.json").read_text())
    (measured,) = (
        each for each in map(gpuopt.Ladder.from_dict, told["ladders"])
        if (each.family, each.dtype) == ("reduce", "float32")
    )  # fmt: skip
    style = {
        "svg.fonttype": "none", "svg.hashsalt": "gpuopt",
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    }  # fmt: skip
    with matplotlib.rc_context(style), tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ladder.svg")
        figure = measured.plot().figure
        figure.set_size_inches(8.6, 5.4)
        figure.savefig(path, metadata={"Date": None})
        svg = path.read_text()
    for colour, name in report.COLOURS.items():  # in the reader's theme, as the report's plots
        svg = svg.replace(f"#{colour}", f"var(--{name})")
    return svg.replace("<defs>", f"<style>{report.THEME}text{{fill:var(--ink)}}</style><defs>", 1)


PICTURES: dict[str, Callable[[], str]] = {
    "hero": hero,
    "banks": lambda: gpuopt.trace("reduce", 2).banks().svg,
    "coalescing": lambda: gpuopt.trace("transpose", "2d").coalescing().svg,
    "divergence": lambda: gpuopt.trace("reduce", 1).timeline(first=25, rows=33).svg,
    "ladder": h200_ladder,
}


# --- samples of output


@cache
def counted() -> gpuopt.Ladder:
    """Return the ladder that the README's first command counts without a GPU."""
    return gpuopt.ladder("reduce", device="sim")


def why() -> str:
    """Return what the counters say of rungs 2 to 7, the two greatest changes of each."""
    rungs = [f"{row.rung.number} {row.rung.name}" for row in counted().rows]
    told = zip(rungs, counted().changes(), strict=True)
    first = {rung: "; ".join(change.split("; ")[:2]) for rung, change in told}
    return "\n".join(f"{rung:<15}{first[rung]}" for rung in rungs[1:7])


def profile() -> str:
    """Return the profile of rung 2."""
    x = np.arange(1 << 16, dtype=np.int32)
    return str(gpuopt.profile(gpuopt.reduce, x, variant=2))


def reverse(barrier: bool) -> gpuopt.Kernel:
    """Return the README's kernel, with the barrier that it lacks or without."""
    (code,) = re.findall(r'gpuopt.compile\("""\n(.*?)"""', PAGES[0].read_text(), re.DOTALL)
    code = code.replace("\n\n", "\n    __syncthreads();\n") if barrier else code
    return gpuopt.compile(code, device="sim")["reverse"]


def mistake() -> str:
    """Return the explanation of the README's kernel, without its evidence and source."""
    x = np.arange(1024, dtype=np.float32)
    told = str(gpuopt.explain(reverse(barrier=False), 4, 256, x, x.size))
    told = told[told.index("1. ERROR") :]
    parts = re.split(r"^(?=   (?:evidence|why|remedy|source) )", told, flags=re.MULTILINE)
    shown = [part for part in parts if not part.startswith(("   evidence", "   source"))]
    return "".join(shown).rstrip()


def help_text() -> str:
    """Return the list of commands."""
    environment = os.environ | {"COLUMNS": "96", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "gpuopt", "--help"]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout.rstrip()


def rules() -> str:
    """Return NumPy's rules of the reductions as a table."""
    kinds = ("bool", "int", "uint", "float", "complex")
    rows = [("op", *kinds, "empty", "dtype=", "initial=")]
    for rule in _core.rules():
        results = [
            (result or "same") if kind[0] in rule["kinds"] else "-"
            for kind, result in zip(kinds, rule["results"], strict=True)
        ]
        empty = rule["identity"] or ("nan" if rule["name"] == "mean" else "error")
        accepted = ["yes" if rule[name] else "no" for name in ("dtype", "initial")]
        rows.append((rule["name"], *results, empty, *accepted))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


SAMPLES: dict[str, Callable[[], str]] = {
    "why": why,
    "profile": profile,
    "mistake": mistake,
    "help": help_text,
    "rules": rules,
}


def with_samples(text: str) -> str:
    """Return a page with its samples as they come out today."""

    def fresh(match: re.Match[str]) -> str:
        return f"{match[1]}```text\n{SAMPLES[match[2]]()}\n```\n{match[4]}"

    return MARKS.sub(fresh, text)


def main() -> int:
    """Write or compare; return 1 if a comparison failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, list what differs")
    check = parser.parse_args().check
    made = {DOCS / "images" / f"{name}.svg": draw() for name, draw in PICTURES.items()}
    made |= {page: with_samples(page.read_text()) for page in PAGES}
    differing = [each for each in made if not each.exists() or each.read_text() != made[each]]
    for path in differing:
        print("differs:" if check else "wrote", path.relative_to(DOCS.parent))
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path])
    return int(check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
