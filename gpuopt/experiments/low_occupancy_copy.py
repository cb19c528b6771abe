"""low_occupancy_copy: bytes in flight fill a memory, not threads."""

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
from gpuopt.measure.ceilings import copy_bandwidth
from gpuopt.util.names import suggests

BLOCK = 64
WORDS = (1, 2, 4)
ACCESSES = (1, 2, 4, 8, 16, 32)
RESIDENT = (1, 4, 32)  # blocks of a multiprocessor
WHOLE = BLOCK * max(WORDS) * max(ACCESSES)  # items that every row divides
ROUNDS = 7


@suggests
def low_occupancy_copy(
    n: int | None = None,
    resident: Sequence[int] = RESIDENT,
    *,
    device: str | None = None,
) -> Experiment:
    """Bandwidth at low occupancy: copies by few threads that each have many loads in flight.

    Threads move 1 to 32 elements of 1, 2 or 4 words, all loads before the first store. Dynamic
    shared memory that nobody uses limits how many blocks of 64 threads a multiprocessor holds.

    Parameters
    ----------
    n : int, optional
        Floats, rounded up to 8,192. Default: 2^25 on a GPU, 8,192 on a simulated one.
    resident : sequence of int
        Blocks of a multiprocessor at most. Less where the registers do not suffice.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the deck's Tesla M2090.

    Returns
    -------
    Experiment
        `occupancy` and `in_flight` (bytes that the threads of a multiprocessor have asked for at
        most). On a GPU `seconds` and `bandwidth`, cold; the share is of a plain copy. On a
        simulated GPU `requests` and `moved` bytes; the share is of those, what threads asked for.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: deck D2, after V. Volkov, "Better Performance at Lower Occupancy" (GTC 2010): 84% of the
    peak at occupancy 0.042, 2 warps of 48.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.low_occupancy_copy(resident=[1], device="sim")
    >>> round(found["float4 x 8, 1 block"].values["occupancy"], 3)
    0.042
    """
    described = _lab.choose(device, "m2090")
    lab = Lab(described)
    n = _lab.size(n, 1 << 25 if lab.timed else WHOLE)
    n = -(-n // WHOLE) * WHOLE
    limits = models.gpu(described if lab.timed else described.name.split(":")[1])
    resident = [_lab.size(each, 1, "resident") for each in _lab.several(resident, "resident")]
    data = np.random.default_rng(0).random(n, np.float32)
    probes = [
        _probe(data, words, accesses, blocks, limits, lab)
        for blocks in resident
        for words in WORDS
        for accesses in ACCESSES
    ]
    if not probes:
        raise ValueError("resident: give at least one number of blocks")
    outcomes = lab.measure(probes, cold=True, rounds=ROUNDS)
    copy = copy_bandwidth(described) if lab.timed else 0.0
    return Experiment(
        "low_occupancy_copy",
        described,
        f"{n:,} floats copied, blocks of {BLOCK}",
        _columns(described),
        [_row(outcome, lab, limits, copy) for outcome in outcomes],
        f"a plain copy, {copy / 1e9:,.0f} GB/s"
        if lab.timed
        else "the bytes moved, those that were asked for",
        [_lab.how(lab.timed, True, ROUNDS), "deck: D2, on a Tesla M2090"],
    )


def _shared(limits: models.Gpu, blocks: int) -> int:
    """Return the shared memory per block that limits a multiprocessor to a number of blocks."""
    if blocks >= min(limits.blocks, limits.warps // (BLOCK // 32)):
        return 0
    room = limits.shared // blocks // limits.shared_unit * limits.shared_unit
    return min(room - limits.shared_reserved, limits.shared_per_block)


def _probe(
    data: np.ndarray, words: int, accesses: int, blocks: int, limits: models.Gpu, lab: Lab
) -> Probe:
    kernel = f"micro_copy_{words}_{accesses}"
    static = lab.module[kernel].resources.shared_bytes
    deck = "84% at 0.042" if (words, accesses, blocks) == (4, 16, 1) else ""
    return Probe(
        f"float{words if words > 1 else ''} x {accesses}, {blocks} block{'s' * (blocks > 1)}",
        kernel,
        data.size // (BLOCK * words * accesses),
        BLOCK,
        (data, Output(data.size), data.size // words),
        partial(oracle.wrong, want=data),
        max(0, _shared(limits, blocks) - static),
        {"words": words, "accesses": accesses},
        deck,
    )


def _columns(device: Device) -> list[Column]:
    columns = [
        Column("occupancy", "occupancy", ".1%"),
        Column("in_flight", "KiB in flight", ",.1f", 1 / 1024),
    ]
    if device.kind == "cuda":
        return [
            *columns,
            Column("seconds", "us", ",.1f", 1e6),
            Column("spread", "spread", ".1%"),
            Column("bandwidth", "GB/s", ",.0f", 1e-9),
        ]
    return [*columns, Column("requests", "requests"), Column("moved", "bytes moved")]


def _row(outcome: Outcome, lab: Lab, limits: models.Gpu, copy: float) -> Row:
    probe = outcome.probe
    words, accesses = probe.parameters["words"], probe.parameters["accesses"]
    if outcome.launch is None:
        # The driver rounds and reserves as the model does: test_models.py compares them.
        kernel = lab.module[probe.kernel].resources
        shared = probe.shared + kernel.shared_bytes
        found = models.occupancy(limits, BLOCK, registers=kernel.registers, shared=shared)
        occupancy, limiter = found.occupancy, found.limiter
    else:
        occupancy, limiter = outcome.launch.occupancy, outcome.launch.limiter
    in_flight = round(occupancy * limits.warps) * 32 * 4 * words * accesses
    values: dict[str, float] = {"occupancy": occupancy, "in_flight": in_flight}
    if outcome.launch is None:
        moved = 2 * probe.arguments[0].nbytes
        values |= {
            "seconds": outcome.seconds,
            "spread": outcome.spread,
            "bandwidth": moved / outcome.seconds,
        }
        share = values["bandwidth"] / copy
        reading = f"{share:.0%} of the copy at {occupancy:.0%} occupancy"
    else:
        counted = outcome.launch.counters
        values |= {
            "requests": counted.global_load_requests + counted.global_store_requests,
            "moved": counted.global_bytes_moved,
        }
        asked = counted.global_load_bytes + counted.global_store_bytes
        share = asked / counted.global_bytes_moved
        loads = counted.global_load_requests / counted.warps
        reading = f"{loads:.0f} loads of a warp before it waits; occupancy limited by {limiter}"
    return Row(probe.name, probe.parameters, values, share, reading, probe.deck)
