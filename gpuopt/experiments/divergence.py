"""divergence: the cost of lanes of a warp that take different branches."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import oracle
from gpuopt.util.names import suggests

WAYS = (1, 2, 4, 8, 16, 32)
FACTOR = 0.984375  # of a step, as the kernel has it: exact in a float
ROUNDS = 7


@suggests
def divergence(steps: int | None = None, *, device: str | None = None) -> Experiment:
    """Divergence: up to 32 paths, by lane inside a warp or by warp.

    Every path costs the same: a loop of fused multiplications and additions.

    Parameters
    ----------
    steps : int, optional
        Length of a path. Default: 256 on a GPU, 16 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' G80.

    Returns
    -------
    Experiment
        Rows "by lane" and "by warp" for each number of `ways`, and the deck's two conditions. On a
        GPU `seconds`, warm; the share is of one way's rate. On a simulated GPU `warp_instructions`,
        `branches`, `divergent`; the share is of the lanes, those active.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: decks D0, D1 and D3: a condition on threadIdx.x diverges, one on threadIdx.x / 32 does
    not.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.divergence(device="sim")
    >>> found["threadIdx.x / 32 > 2"].values["divergent"] < found["threadIdx.x > 2"].values[
    ...     "divergent"
    ... ]
    True
    """
    described = _lab.choose(device, "g80")
    lab = Lab(described)
    steps = _lab.size(steps, 256 if lab.timed else 16, "steps")
    block = 1024 if lab.timed else 512  # a G80's most
    blocks = 32 * described.multiprocessors if lab.timed else 1
    thread = np.arange(block)
    warp, warps = thread // 32, block // 32
    paths = [
        *((_label(k, "lane"), k, thread % 32 * k // 32) for k in WAYS),
        *((_label(k, "warp"), k, warp * k // warps) for k in WAYS if k <= warps),
        ("threadIdx.x > 2", 2, (thread > 2) * 1),
        ("threadIdx.x / 32 > 2", 2, (warp > 2) * 1),
    ]
    start = np.random.default_rng(0).random(blocks * block, np.float32)
    probes = [_probe(*path, start, blocks, steps) for path in paths]
    outcomes = lab.measure(probes, cold=False, rounds=ROUNDS)
    return Experiment(
        "divergence",
        described,
        f"{steps} multiplications and additions on each of up to 32 paths, by "
        f"{blocks * block:,} threads",
        _columns(described),
        [_row(outcome, outcomes[0]) for outcome in outcomes],
        "the rate of one way" if lab.timed else "the lanes, those active",
        [_lab.how(lab.timed, False, ROUNDS)],
    )


def _label(ways: int, by: str) -> str:
    return f"{ways} way{'s' * (ways > 1)} by {by}"


def _probe(
    name: str, ways: int, path: np.ndarray, start: np.ndarray, blocks: int, steps: int
) -> Probe:
    # v = v * FACTOR + (1 + path), steps times over, in closed form
    power = FACTOR**steps
    add = np.tile(1.0 + path, blocks)
    want = start.astype(np.float64) * power + add * (1 - power) / (1 - FACTOR)
    # Each step rounds a number of at most 64 * 33, and the next steps shrink that error.
    bound = 2 * 2.0**-24 * (1 + np.abs(want)) / (1 - FACTOR)
    return Probe(
        name,
        "micro_divergence",
        blocks,
        path.size,
        (start, Output(start.size), path.astype(np.uint32), ways, steps),
        partial(oracle.wrong, want=want, absolute=bound),
        parameters={"ways": ways, "warps that part": _parting(path)},
    )


def _parting(path: np.ndarray) -> int:
    """Return how many warps of a block take more than one path."""
    return sum(len(set(lanes)) > 1 for lanes in path.reshape(-1, 32).tolist())


def _columns(device: Device) -> list[Column]:
    columns = [Column("ways", "ways"), Column("warps that part", "warps that part")]
    if device.kind == "cuda":
        return [*columns, Column("seconds", "us", ",.1f", 1e6), Column("spread", "spread", ".1%")]
    return [
        *columns,
        Column("warp_instructions", "warp instr."),
        Column("branches", "branches"),
        Column("divergent", "divergent"),
    ]


def _row(outcome: Outcome, one_way: Outcome) -> Row:
    probe = outcome.probe
    if outcome.launch is None:
        values = {"seconds": outcome.seconds, "spread": outcome.spread}
        share = one_way.seconds / outcome.seconds
        more, what = 1 / share, "time"
    else:
        counted = outcome.launch.counters
        values = {
            "warp_instructions": counted.warp_instructions,
            "branches": counted.branches,
            "divergent": counted.divergent_branches,
        }
        share = counted.warp_efficiency
        first = one_way.launch.counters.warp_instructions
        more, what = counted.warp_instructions / first, "instructions"
    parts = probe.parameters["warps that part"]
    if not parts:
        reading = f"no warp diverges: {more:.1f} times the {what} of one way"
    else:
        reading = f"{parts} warps per block diverge; {more:.1f} times the {what} of one way"
    return Row(probe.name, probe.parameters, values, share, reading, probe.deck)
