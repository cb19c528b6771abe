"""register_pressure: fewer registers per thread, more warps, more traffic to local memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import oracle
from gpuopt.util.names import suggests

BLOCK = 256
CAPS = (64, 40, 32, 24)  # the first one is no cap: the kernel needs less
SPILLED = (0, 8, 16, 24, 32)
VALUES = 40  # of a thread, as the kernel has it
ROUNDS = 7


@suggests
def register_pressure(
    n: int | None = None, *, steps: int | None = None, device: str | None = None
) -> Experiment:
    """Register pressure: the same kernel with fewer and fewer registers: spills and occupancy.

    A thread updates 40 running values in a loop. On a GPU the compiler is given a cap
    (__maxnreg__), and spills to local memory what does not fit. PTX has no such limit, so that on a
    simulated GPU 0 to 32 of the values stand in local memory by hand.

    Parameters
    ----------
    n : int, optional
        Threads. Default: 2^22 on a GPU, 256 on a simulated one.
    steps : int, optional
        Length of the loop. Default: 64 on a GPU, 4 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' Tesla M2090.

    Returns
    -------
    Experiment
        `registers` and `local_bytes` a thread, `occupancy`. On a GPU `seconds`, cold; the share is
        of the rate without a cap. On a simulated GPU `local_loads` and `local_stores`, per warp;
        the share is the occupancy.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: decks D0, D2 and D3. Registers of a GPU are its compiler's; those of a simulated one are
    estimated from the values that are alive at once.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.register_pressure(device="sim:m2090")
    >>> found.rows[-1].values["occupancy"] > found.rows[0].values["occupancy"]
    True
    """
    described = _lab.choose(device, "m2090")
    lab = Lab(described)
    n = _lab.size(n, 1 << 22 if lab.timed else BLOCK)
    steps = _lab.size(steps, 64 if lab.timed else 4, "steps")
    start = np.random.default_rng(0).random(n, np.float32)
    x = start.astype(np.float64)
    want = sum((x + j) * 0.5**steps + x * (2 - 2 * 0.5**steps) for j in range(VALUES))
    # The values round at most at 64 each and halve that; their sum is of at most 40 of them.
    check = partial(oracle.wrong, want=want, absolute=VALUES * 2.0**-24 * (64 * 2 + np.abs(want)))
    if lab.timed:
        kinds = [(f"at most {cap} registers", f"cap_{cap}") for cap in CAPS]
    else:
        kinds = [(f"{spilled} values spilled", f"spilled_{spilled}") for spilled in SPILLED]
    probes = [
        Probe(
            name,
            f"micro_registers_{kernel}",
            -(-n // BLOCK),
            BLOCK,
            (start, Output(n), n, steps),
            check,
        )
        for name, kernel in kinds
    ]
    outcomes = lab.measure(probes, cold=True, rounds=ROUNDS)
    return Experiment(
        "register_pressure",
        described,
        f"{VALUES} running values, {steps} steps, {n:,} threads in blocks of {BLOCK}",
        _columns(described),
        [_row(outcome, outcomes[0], lab) for outcome in outcomes],
        "the rate without a cap" if lab.timed else "the warps that a multiprocessor can hold",
        [_lab.how(lab.timed, True, ROUNDS)],
    )


def _columns(device: Device) -> list[Column]:
    columns = [
        Column("registers", "registers"),
        Column("local_bytes", "local bytes"),
        Column("occupancy", "occupancy", ".0%"),
    ]
    if device.kind == "cuda":
        return [*columns, Column("seconds", "us", ",.1f", 1e6), Column("spread", "spread", ".1%")]
    return [*columns, Column("local_loads", "local loads"), Column("local_stores", "local stores")]


def _row(outcome: Outcome, first: Outcome, lab: Lab) -> Row:
    probe = outcome.probe
    kernel = lab.module[probe.kernel].resources
    values: dict[str, float] = {"registers": kernel.registers, "local_bytes": kernel.local_bytes}
    if outcome.launch is None:
        found = models.occupancy(lab.device, BLOCK, registers=kernel.registers)
        values |= {
            "occupancy": found.occupancy,
            "seconds": outcome.seconds,
            "spread": outcome.spread,
        }
        share = first.seconds / outcome.seconds
        spilled = kernel.local_bytes - lab.module[first.probe.kernel].resources.local_bytes
        reading = f"{found.warps} warps; " + (
            f"{spilled} bytes per thread spilled: {1 / share:.2f} times the time"
            if spilled
            else "nothing is spilled"
        )
    else:
        counted = outcome.launch.counters
        loads, stores = counted.local_load_requests, counted.local_store_requests
        values |= {
            "occupancy": outcome.launch.occupancy,
            "local_loads": loads,
            "local_stores": stores,
        }
        share = outcome.launch.occupancy
        reading = f"limited by {outcome.launch.limiter}; " + (
            f"{(loads + stores) / counted.warps:,.0f} accesses of a warp to local memory"
            if loads + stores
            else "nothing is spilled"
        )
    return Row(probe.name, probe.parameters, values, share, reading, probe.deck)
