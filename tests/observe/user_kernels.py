"""Kernels as users write them, with their arguments and their results by NumPy: the machinery.

python tests/observe/twenty_cases.py measure FILE   # on a GPU: verify, time warm; write JSON
ncu ... python tests/observe/twenty_cases.py launch # on a GPU: each twice, for Nsight Compute
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gpuopt


class Case(NamedTuple):
    """A launch; its last argument is the array that the kernel writes."""

    name: str
    grid: tuple[int, ...] | int
    block: tuple[int, ...] | int
    arguments: tuple[Any, ...]
    expected: Callable[[], np.ndarray]
    error: float = 0.0  # of each element, relative to the largest
    others: float = 0.0  # share of the elements that may differ: rounding decides a branch
    any_order: bool = False  # of the elements


def profiled(ptx: Path, case: Case, device: str) -> gpuopt.Profile:
    """Run a kernel on a simulated GPU with its caches, and verify it."""
    *values, last = case.arguments
    out = last.copy()
    kernel = gpuopt.load_ptx(ptx, device=device)[case.name]
    told = gpuopt.profile(kernel, case.grid, case.block, *values, out, caches=True)
    verify(case, out)
    return told


def verify(case: Case, found: np.ndarray) -> None:
    """Compare a result with NumPy's."""
    right = case.expected().ravel()
    got = np.sort(found.ravel()) if case.any_order else found.ravel()[: right.size]
    wrong = got.astype(float) - right.astype(float)
    if case.others:
        assert np.mean(wrong != 0) < case.others, case.name
        return
    off = np.abs(wrong).max()
    assert off <= case.error * np.abs(right).max(), (case.name, off)


def measure(ptx: Path, cases: Mapping[str, Case], path: str) -> None:
    """Time each kernel on a GPU: in a row by the queue, and as one graph; seconds."""
    module = gpuopt.load_ptx(ptx, device="cuda")
    found: dict[str, Any] = {}
    for case in cases.values():
        *values, last = case.arguments
        buffers = [module.copy(e) if isinstance(e, np.ndarray) else e for e in values]
        out = module.copy(last)
        launch = module[case.name].bind(case.grid, case.block, *buffers, out)
        module[case.name](case.grid, case.block, *buffers, out)
        verify(case, out.get(last.dtype))
        times: dict[str, Any] = {}
        for how in ("graph", "queue"):
            once = module.time([launch] * 20, 1, how) / 20
            runs = max(1, min(50, int(0.02 / (20 * once))))
            times[how] = sorted(module.time([launch] * 20, runs, how) / 20 for _ in range(5))
        times["sync"] = sorted(module.time(launch, 20, "sync") for _ in range(3))
        found[case.name] = {how: each[len(each) // 2] for how, each in times.items()}
        print(f"{case.name:<14}" + "".join(f"{v * 1e6:>10.2f}" for v in found[case.name].values()))
    Path(path).write_text(json.dumps(found, indent=1))


def launch(ptx: Path, cases: Mapping[str, Case]) -> None:
    """Launch each kernel twice; the second finds L2 warm."""
    module = gpuopt.load_ptx(ptx, device="cuda")
    for case in cases.values():
        *values, last = case.arguments
        buffers = [module.copy(e) if isinstance(e, np.ndarray) else e for e in values]
        out = module.copy(last)
        for _ in range(2):
            module[case.name](case.grid, case.block, *buffers, out)


def main(ptx: Path, cases: Mapping[str, Case], command: str, *arguments: str) -> None:
    """Measure the kernels, or launch them."""
    dict(measure=measure, launch=launch)[command](ptx, cases, *arguments)
