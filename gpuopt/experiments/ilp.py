"""ilp: independent operations of a thread stand in for more threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import oracle
from gpuopt.util.names import suggests

CHAINS = (1, 2, 3, 4, 6, 8)
CHAINS_MOST = 8  # what the kernels are compiled for
WARPS = (1, 2, 4, 6, 8, 16, 32)
ROUNDS = 7
# By compute capability: cycles that an fma takes, and float lanes of a multiprocessor. 1.0: deck
# D2. 1.3 to 3.x: V. Volkov, "Better Performance at Lower Occupancy" (GTC 2010), and the CUDA C
# Programming Guide. Since 7.0: Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
# Microbenchmarking" (2018) and its successors; lanes from the guide.
PIPELINES = {
    "1.0": (24, 8), "1.3": (24, 8), "2.0": (18, 32), "3.5": (9, 192), "7.0": (4, 64),
    "7.5": (4, 64), "8.0": (4, 64), "8.6": (4, 128), "8.9": (4, 128), "9.0": (4, 128),
    "10.0": (4, 128), "12.0": (4, 128),
}  # fmt: skip
SCHEDULERS = 4  # of a multiprocessor since 3.0; a warp has one of them


@suggests
def ilp(
    chains: Sequence[int] = CHAINS,
    warps: Sequence[int] = WARPS,
    *,
    steps: int | None = None,
    device: str | None = None,
) -> Experiment:
    """ILP against TLP: independent chains of a thread times warps, against Little's law.

    Chains of a = a * b + c, each waiting for itself only. To keep the pipeline full, latency x
    lanes operations must be in flight: from many warps, or from few with many chains. The last rows
    only multiply: without the fused operation half of the peak is all there is.

    Parameters
    ----------
    chains : sequence of int
        1 to 8.
    warps : sequence of int
        Warps of a multiprocessor, 1 to 32; more than a block of the device has are left out.
    steps : int, optional
        Length of a chain. Default: 16,384 on a GPU, 16 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the deck's G80.

    Returns
    -------
    Experiment
        `in_flight` operations, and `predicted`: the share of the peak that Little's law allows. On
        a GPU `seconds`, `flops` (a second; warm, nothing is in memory), and `cycles` that a step
        takes at the highest clock; the share is of the datasheet's peak. On a simulated GPU
        `operations` and `instructions`; the share is the predicted one.

    Raises
    ------
    TypeError, ValueError
        Other numbers of chains or warps, an argument that is no count, or a device that runs no
        kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: deck D2: on a G80, with 24 cycles and 8 lanes, 192 threads (6 warps) reach the peak, and
    so do 2 warps with 3 chains. `gpuopt.models.littles_law`.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.ilp((1, 3), (2, 6), device="sim:g80")
    >>> [(row.name, row.share) for row in found.rows if row.share == 1]
    [('6 warps x 1', 1.0), ('2 warps x 3', 1.0), ('6 warps x 3', 1.0)]
    """
    described = _lab.choose(device, "g80")
    lab = Lab(described)
    steps = _lab.size(steps, 16_384 if lab.timed else 16, "steps")
    most = 32 if lab.timed else models.gpu(described.name.split(":")[1]).threads_per_block // 32
    chains = [_between(each, CHAINS_MOST, "chains") for each in _lab.several(chains, "chains")]
    warps = [_between(each, 32, "warps") for each in _lab.several(warps, "warps")]
    warps = [each for each in warps if each <= most]
    if not chains or not warps:
        raise ValueError("chains, warps: give at least one of each that the device can have")
    multiprocessors = described.multiprocessors if lab.timed else 1
    kinds = [(True, each) for each in chains]
    kinds += [(False, each) for each in sorted({min(chains), max(chains)})]
    probes = [
        _probe(fused, chain, warp, multiprocessors, steps)
        for fused, chain in kinds
        for warp in warps
    ]
    outcomes = lab.measure(probes, cold=False, rounds=ROUNDS)
    latency, lanes = PIPELINES.get(described.compute_capability, (4, 128))
    peak = models.peak_flops(lanes * described.multiprocessors, described.clock_mhz * 1e6)
    return Experiment(
        "ilp",
        described,
        f"chains of {steps:,} dependent operations; {latency} cycles x {lanes} lanes = "
        f"{models.littles_law(latency, lanes):,} in flight fill a multiprocessor",
        _columns(described),
        [_row(outcome, described, steps, peak) for outcome in outcomes],
        f"the datasheet's peak, {peak / 1e12:.2f} TFLOP/s"
        if lab.timed
        else "the peak, what Little's law allows",
        [
            _lab.how(lab.timed, False, ROUNDS),
            "deck: D2, a G80 at occupancy 0.25 and 0.083",
        ],
    )


def _between(value: int, most: int, name: str) -> int:
    value = _lab.size(value, 1, name)
    if value > most:
        raise ValueError(f"{name}: must be 1 to {most}, not {value}")
    return value


def _probe(fused: bool, chains: int, warps: int, multiprocessors: int, steps: int) -> Probe:
    threads = 32 * warps
    start = np.random.default_rng(0).random(multiprocessors * threads, np.float32)
    # a = a * factor + add tends to 1, and keeps a good part of where it began.
    add = 2.0 ** -max(6, (steps - 1).bit_length())
    factor = 1 - add  # both exact in a float
    power = factor**steps
    want = sum((start.astype(np.float64) + j) * power + fused * (1 - power) for j in range(chains))
    # A step rounds a number below 8 + 1, and so does the sum, of at most 8 of them.
    bound = 2.0**-24 * 9 * chains * (steps + chains)
    deck = {(1, 6): "peak", (3, 2): "peak"}.get((chains, warps), "") if fused else ""
    if not fused and (chains, warps) == (8, 32):
        deck = "half at most"
    return Probe(
        f"{warps} warp{'s' * (warps > 1)} x {chains}" + ("" if fused else ", no fma"),
        f"micro_ilp_{'fma' if fused else 'mul'}_{chains}",
        multiprocessors,
        threads,
        (start, Output(start.size), factor, add, steps),
        partial(oracle.wrong, want=want, absolute=bound),
        parameters={"warps": warps, "chains": chains, "fused": fused},
        deck=deck,
    )


def _columns(device: Device) -> list[Column]:
    columns = [
        Column("warps", "warps"),
        Column("chains", "chains"),
        Column("in_flight", "in flight"),
        Column("predicted", "Little", ".0%"),
    ]
    if device.kind == "cuda":
        return [
            *columns,
            Column("seconds", "us", ",.1f", 1e6),
            Column("spread", "spread", ".1%"),
            Column("cycles", "cycles per step", ".1f"),
            Column("flops", "GFLOP/s", ",.0f", 1e-9),
        ]
    return [*columns, Column("instructions", "float instr."), Column("operations", "operations")]


def _row(outcome: Outcome, device: Device, steps: int, peak: float) -> Row:
    probe = outcome.probe
    warps, chains, fused = (probe.parameters[key] for key in ("warps", "chains", "fused"))
    latency, lanes = PIPELINES.get(device.compute_capability, (4, 128))
    needed = models.littles_law(latency, lanes)
    in_flight = 32 * warps * chains
    predicted = min(1.0, in_flight / needed)
    if float(device.compute_capability) >= 3:
        predicted = min(predicted, warps / SCHEDULERS)
    predicted *= 1.0 if fused else 0.5
    values: dict[str, float] = {"in_flight": in_flight, "predicted": predicted}
    if outcome.launch is None:
        operations = (1 + fused) * steps * in_flight * device.multiprocessors
        flops = operations / outcome.seconds
        values |= {
            "seconds": outcome.seconds,
            "spread": outcome.spread,
            "cycles": outcome.seconds * device.clock_mhz * 1e6 / steps,
            "flops": flops,
        }
        share = flops / peak
    else:
        counted = outcome.launch.counters
        values |= {"instructions": counted.inst_f32, "operations": counted.flops_f32}
        share = predicted
    reading = f"{in_flight:,} of {needed:,.0f} operations in flight"
    if outcome.launch is None:
        reading = f"{share:.0%} of the peak, Little's law allows {predicted:.0%}: " + reading
    if in_flight < needed:
        reading += ": the pipeline waits"
    elif not fused:
        reading += ", each half of an fma"
    else:
        reading += ": enough"
    return Row(probe.name, probe.parameters, values, share, reading, probe.deck)
