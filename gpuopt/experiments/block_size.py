"""block_size: how many threads per block, how many blocks."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.catalog.rungs import Rung, rungs
from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import cases, oracle
from gpuopt.families.cases import Case
from gpuopt.measure.ceilings import copy_bandwidth
from gpuopt.measure.race import Contender, Effort, Timing, VerificationError, race
from gpuopt.observe.profile import profile
from gpuopt.util.names import suggests

BLOCKS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
GRIDS = (0.5, 1, 2, 8, 32, 100)  # blocks of a multiprocessor
GRID_BLOCK = 256
RUNGS = (("reduce", "cascading"), ("stencil1d", "shared"))
ROUNDS = 7


@suggests
def block_size(n: int | None = None, *, device: str | None = None) -> Experiment:
    """Block and grid sizes: the decks' rules, swept for a copy, a reduction and a stencil.

    The rules: a block is a multiple of the warp, of at least 64 threads, usually of 128 to 256;
    more blocks than multiprocessors, better twice as many, and hundreds to scale.

    Parameters
    ----------
    n : int, optional
        Items. Default: 2^25 on a GPU, 2^14 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' G80.

    Returns
    -------
    Experiment
        Rows for a copy by blocks of 16 to 1,024 threads, by 0.5 to 100 blocks per multiprocessor,
        and for reduction 7 and the stencil in shared memory by every block size they have. On a
        GPU `seconds` and `bandwidth`, cold; the share is of a plain copy. On a simulated GPU
        `occupancy` and `lanes`; the share is of all lanes, those active, times the occupancy.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: decks D0, D2 and D3.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.block_size(4096, device="sim")
    >>> found["copy, blocks of 48"].values["lanes"] < found["copy, blocks of 64"].values["lanes"]
    True
    """
    described = _lab.choose(device, "g80")
    lab = Lab(described)
    n = _lab.size(n, 1 << 25 if lab.timed else 1 << 14)
    limits = models.gpu(described if lab.timed else described.name.split(":")[1])
    outcomes = lab.measure(_copies(n, described, limits), cold=True, rounds=ROUNDS)
    copy = copy_bandwidth(described) if lab.timed else 0.0
    rows = [_row(outcome, lab, limits, copy) for outcome in outcomes]
    for family, name in RUNGS:
        (rung,) = (rung for rung in rungs(family) if rung.name == name)
        blocks = [
            block
            for block in BLOCKS
            if rung.block_min <= block <= min(rung.block_max, limits.threads_per_block)
            and block & (block - 1) == 0
        ]
        case = cases.make(family, n, timed=lab.timed, device=described.name)
        sweep = _timed if lab.timed else _counted
        rows += sweep(case, rung, blocks, described, copy)
    return Experiment(
        "block_size",
        described,
        f"{n:,} items",
        _columns(described),
        rows,
        f"a plain copy, {copy / 1e9:,.0f} GB/s"
        if lab.timed
        else "the lanes that a multiprocessor can hold, those resident and active",
        [_lab.how(lab.timed, True, ROUNDS)],
    )


def _copies(n: int, device: Device, limits: models.Gpu) -> list[Probe]:
    data = np.random.default_rng(0).random(n, np.float32)

    def probe(name: str, grid: int, block: int) -> Probe:
        return Probe(
            name,
            "micro_grid_stride",
            grid,
            block,
            (data, Output(n), n),
            partial(oracle.wrong, want=data),
            parameters={"block": block, "blocks": grid},
        )

    blocks = [block for block in BLOCKS if block <= limits.threads_per_block]
    grids = sorted({max(1, int(each * device.multiprocessors)) for each in GRIDS})
    return [
        *(probe(f"copy, blocks of {block}", -(-n // block), block) for block in blocks),
        *(probe(f"copy, {grid:,} blocks of {GRID_BLOCK}", grid, GRID_BLOCK) for grid in grids),
    ]


def _columns(device: Device) -> list[Column]:
    columns = [Column("block", "block"), Column("blocks", "blocks")]
    if device.kind == "cuda":
        return [
            *columns,
            Column("occupancy", "occupancy", ".0%"),
            Column("seconds", "us", ",.1f", 1e6),
            Column("spread", "spread", ".1%"),
            Column("bandwidth", "GB/s", ",.0f", 1e-9),
        ]
    return [
        *columns,
        Column("occupancy", "occupancy", ".0%"),
        Column("lanes", "lanes active", ".0%"),
        Column("instructions", "warp instr."),
        Column("barriers", "barriers"),
    ]


def _rules(block: int, blocks: int | None, device: Device) -> str:
    """Return which of the decks' rules a launch keeps."""
    broken = []
    if block % 32:
        broken.append("the block is not a multiple of the warp")
    if block < 64:
        broken.append("fewer than 64 threads per block")
    if blocks is not None and blocks <= device.multiprocessors:
        broken.append(f"no more blocks than the {device.multiprocessors} multiprocessors")
    elif blocks is not None and blocks <= 2 * device.multiprocessors:
        broken.append("at most two blocks per multiprocessor")
    return "; ".join(broken) or "keeps the rules"


def _row(outcome: Outcome, lab: Lab, limits: models.Gpu, copy: float) -> Row:
    probe = outcome.probe
    block, blocks = probe.parameters["block"], probe.parameters["blocks"]
    rules = _rules(block, blocks, lab.device)
    if outcome.launch is None:
        registers = lab.module[probe.kernel].resources.registers
        bandwidth = 2 * probe.arguments[0].nbytes / outcome.seconds
        values = {
            "occupancy": models.occupancy(limits, block, registers=registers).occupancy,
            "seconds": outcome.seconds,
            "spread": outcome.spread,
            "bandwidth": bandwidth,
        }
        share = bandwidth / copy
        return Row(probe.name, probe.parameters, values, share, f"{rules}: {share:.0%} of a copy")
    counted = outcome.launch.counters
    values = {
        "occupancy": outcome.launch.occupancy,
        "lanes": counted.warp_efficiency,
        "instructions": counted.warp_instructions,
        "barriers": counted.barriers,
    }
    share = outcome.launch.occupancy * counted.warp_efficiency
    reading = f"{rules}: occupancy limited by {outcome.launch.limiter}"
    return Row(probe.name, probe.parameters, values, share, reading)


def _verified(case: Case, rung: Rung, got: object) -> None:
    error = case.error(rung, got)
    if error:
        raise VerificationError(f"{rung.family} rung {rung.variant!r} gave {error}")


def _counted(case: Case, rung: Rung, blocks: list[int], device: Device, copy: float) -> list[Row]:
    del copy
    rows = []
    for block in blocks:
        counted = profile(case.call, rung, block, device.name, device=device.name)
        _verified(case, rung, counted.result)
        launch, total = counted.launches[0], counted.counters
        values = {
            "occupancy": launch.occupancy,
            "lanes": total.warp_efficiency,
            "instructions": total.warp_instructions,
            "barriers": total.barriers,
        }
        rules = _rules(block, launch.grid[0], device)
        rows.append(
            Row(
                f"{rung.family} {rung.name}, blocks of {block}",
                {"block": block, "blocks": launch.grid[0]},
                values,
                launch.occupancy * total.warp_efficiency,
                f"{rules}: occupancy limited by {launch.limiter}",
            )
        )
    return rows


def _timed(case: Case, rung: Rung, blocks: list[int], device: Device, copy: float) -> list[Row]:
    bench = case.bench(device.name)

    def contender(block: int) -> Contender:
        return Contender(
            lambda runs, cold: bench.time(rung.variant, block, runs=runs, cold=cold),
            lambda: _verified(case, rung, bench.run(rung.variant, block)),
            warm=None,
            cold=Timing(),
        )

    racing = [contender(block) for block in blocks]
    race(racing, Effort(ROUNDS, _lab.SAMPLE_SECONDS))
    rows = []
    for block, each in zip(blocks, racing, strict=True):
        seconds = each.cold.median
        bandwidth = bench.bytes(rung.variant, block) / seconds
        values = {"seconds": seconds, "spread": each.cold.spread, "bandwidth": bandwidth}
        rows.append(
            Row(
                f"{rung.family} {rung.name}, blocks of {block}",
                {"block": block},
                values,
                bandwidth / copy,
                f"{_rules(block, None, device)}: {bandwidth / copy:.0%} of a copy",
            )
        )
    return rows
