"""trees: a sum by one thread, by one block and by trees of several degrees, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.measure.race import VerificationError
from gpuopt.observe.bounds import preset_row
from gpuopt.observe.profile import profile
from gpuopt.ptx.buffers import Buffer, Prepared
from gpuopt.ptx.module import Module
from gpuopt.util.names import suggests

BLOCK = 128
DEGREES = (2, 4, 16, 256)
RUNS = 50  # of a timing


@dataclass
class _Tree:
    """A sum: its levels, each the elements that it reads and those that a thread adds."""

    name: str
    levels: list[tuple[int, int]]

    @property
    def depth(self) -> int:
        """Return the additions one after another: the time with a processor for every thread."""
        return sum(min(degree, n) - 1 for n, degree in self.levels)

    def prepared(self, module: Module, numbers: np.ndarray) -> tuple[list[Prepared], Buffer]:
        """Return the levels, each one launch, and the memory that gets the sum."""
        source, launches = module.copy(numbers), []
        for n, degree in self.levels:
            threads = -(-n // degree)
            target, block = module.empty(4 * threads), min(BLOCK, threads)
            grid = -(-threads // block)
            launches.append(module["micro_tree"].bind(grid, block, source, target, n, degree))
            source = target
        return launches, source


def _of_degree(n: int, degree: int) -> list[tuple[int, int]]:
    levels = []
    while n > 1:
        levels.append((n, degree))
        n = -(-n // degree)
    return levels


@suggests
def trees(n: int | None = None, *, device: str | None = None) -> Experiment:
    """Sum by one thread, by one block of threads, and by trees of degree 2, 4, 16 and 256.

    Parameters
    ----------
    n : int, optional
        Numbers to add, 2 at least. Default: 4,096.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' G80.

    Returns
    -------
    Experiment
        `launches`: levels of the tree, each a launch; `depth`: additions one after another;
        `threads` of the first level; `brent`: steps on the GPU's lanes by Brent's theorem;
        on a simulated GPU `transactions` and warp `instructions`, on a GPU `seconds`. The share is
        of the fewest Brent steps.

    Raises
    ------
    TypeError, ValueError
        An `n` that is no such number; a device that runs no kernels.
    VerificationError
        A sum is wrong.

    Notes
    -----
    Source: deck D4: the sequential loop, trees of degree 2 and k, one block. Threads read adjacent
    runs of k numbers, so a higher degree has fewer levels and worse coalescing.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.trees(4096, device="sim")
    >>> [row.values["launches"] for row in found.rows]
    [1, 2, 12, 6, 3, 2]
    """
    described = _lab.choose(device, "g80")
    n = _lab.size(n, 4096)
    if n < 2:
        raise ValueError(f"n: must be at least 2, not {n}")
    per_thread = -(-n // BLOCK)
    levels = [(n, per_thread), (-(-n // per_thread), BLOCK)]
    plans = [_Tree("one thread", [(n, n)]), _Tree("one block", levels)]
    plans += [_Tree(f"degree {degree}", _of_degree(n, degree)) for degree in DEGREES]
    row = preset_row(described)
    lanes = round(row["f32_gflops"] / (2 * row["clock_ghz"]))  # two operations per clock each
    steps = [models.brent(n - 1, tree.depth, lanes) for tree in plans]
    rows = [
        _row(tree, described, n, brent, min(steps))
        for tree, brent in zip(plans, steps, strict=True)
    ]
    columns = [
        Column("launches", "launches"),
        Column("threads", "threads"),
        Column("depth", "depth"),
        Column("brent", "Brent", ",.0f"),
        *(
            [Column("seconds", "us", ",.1f", 1e6)]
            if described.kind == "cuda"
            else [Column("transactions", "transactions"), Column("instructions", "warp instr.")]
        ),
    ]
    return Experiment(
        "trees", described, f"{n:,} numbers added", columns, rows, "the fewest steps by Brent",
        [f"Brent: depth + (work - depth) / {lanes} lanes; the work is {n - 1:,} additions"],
    )  # fmt: skip


def _row(tree: _Tree, device: Device, n: int, brent: float, least: float) -> Row:
    module, numbers = Module(None, device.name), np.arange(n, dtype=np.uint32)
    launches, result = tree.prepared(module, numbers)
    with profile(device="sim") as counted:
        for each in launches:
            module["micro_tree"]._launch(each)
    got, want = int(result.get(np.uint32)[0]), int(numbers.sum(dtype=np.uint32))
    if got != want:
        raise VerificationError(f"trees, {tree.name}: gave {got}, not {want}")
    values = {
        "launches": len(tree.levels),
        "threads": -(-n // tree.levels[0][1]),
        "depth": tree.depth,
        "brent": brent,
    }
    if device.kind == "cuda":
        values["seconds"] = module.time(launches, RUNS)
    else:
        values["transactions"] = counted.counters.global_transactions
        values["instructions"] = counted.counters.warp_instructions
    levels = f"{len(launches)} launch{'es' * (len(launches) > 1)}"
    reading = f"{tree.depth:,} additions one after another, {levels}"
    return Row(tree.name, {}, values, least / brent, reading)
