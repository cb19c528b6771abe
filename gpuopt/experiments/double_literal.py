"""double_literal: what the missing f of 2.5f costs."""

from __future__ import annotations

from functools import partial

import numpy as np

from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import oracle
from gpuopt.util.names import suggests

BLOCK = 256
STEPS = (1, 64)  # bound by memory, bound by arithmetic
ROUNDS = 7


@suggests
def double_literal(n: int | None = None, *, device: str | None = None) -> Experiment:
    """2.5 against 2.5f in float code: what a double literal costs.

    A step of the logistic map, v = 2.5 * v * (1 - v), on floats. With double literals the compiler
    must convert each operand, compute in double and convert back.

    Parameters
    ----------
    n : int, optional
        Items. Default: 2^24 on a GPU, 2^12 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is an H200 (the G80 of the deck had no doubles).

    Returns
    -------
    Experiment
        Rows "2.5, 1 step", "2.5f, 1 step", "2.5, 64 steps", "2.5f, 64 steps". On a GPU `seconds`,
        cold; on a simulated one warp instructions: `f32`, `f64`, `convert`. The share is of the
        float row's time or instructions.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: deck D1, on a K40: the G80 has no doubles.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.double_literal(1024, device="sim")
    >>> found["2.5, 1 step"].values["f64"] > 0 == found["2.5f, 1 step"].values["f64"]
    True
    """
    described = _lab.choose(device, "h200")
    lab = Lab(described)
    n = _lab.size(n, 1 << 24 if lab.timed else 1 << 12)
    start = np.random.default_rng(0).random(n, np.float32)
    probes = []
    for steps in STEPS:
        right = start.astype(np.float64)
        for _ in range(steps):
            right = 2.5 * right * (1 - right)
        # A step multiplies an error by at most 2.5, near 0.6 it halves it: 64 ulp are enough.
        check = partial(oracle.wrong, want=right, absolute=64 * 2.0**-24)
        for literal, kernel in (("2.5", "double"), ("2.5f", "float")):
            probes.append(
                Probe(
                    f"{literal}, {steps} step{'s' * (steps > 1)}",
                    f"micro_literal_{kernel}",
                    -(-n // BLOCK),
                    BLOCK,
                    (start, Output(n), n, steps),
                    check,
                    parameters={"literal": literal, "steps": steps},
                )
            )
    outcomes = lab.measure(probes, cold=True, rounds=ROUNDS)
    rows = [
        _row(outcome, outcomes[i | 1], lab.timed)  # the float one stands behind the double one
        for i, outcome in enumerate(outcomes)
    ]
    columns = (
        [Column("seconds", "us", ",.1f", 1e6), Column("spread", "spread", ".1%")]
        if lab.timed
        else [
            Column("f32", "float instr."),
            Column("f64", "double instr."),
            Column("convert", "conversions"),
            Column("instructions", "all instr."),
        ]
    )
    return Experiment(
        "double_literal",
        described,
        f"v = 2.5 * v * (1 - v) on {n:,} floats",
        columns,
        rows,
        "the time of 2.5f" if lab.timed else "the instructions of 2.5f",
        [_lab.how(lab.timed, True, ROUNDS)],
    )


def _row(outcome: Outcome, float_one: Outcome, timed: bool) -> Row:
    probe = outcome.probe
    if timed:
        values = {"seconds": outcome.seconds, "spread": outcome.spread}
        share = float_one.seconds / outcome.seconds
    else:
        counted = outcome.launch.counters
        values = {
            "f32": counted.inst_f32,
            "f64": counted.inst_f64,
            "convert": counted.inst_convert,
            "instructions": counted.warp_instructions,
        }
        share = float_one.launch.counters.warp_instructions / counted.warp_instructions
    what = "time" if timed else "instructions"
    if outcome is float_one:
        reading = f"the {what} to compare with"
    elif share > 0.95:
        reading = "the double arithmetic hides behind memory"
    else:
        reading = f"the missing f costs {1 / share:.2f} times the {what}"
    return Row(probe.name, probe.parameters, values, share, reading)
