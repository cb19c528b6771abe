"""intrinsics: fewer correct bits, in less time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.util.names import suggests

BLOCK = 256
EXPONENT = 2.5  # of pow
EPS = 2.0**-24  # half an ulp of 1
ROUNDS = 7
FORMS = ("accurate", "fast")
HOST = {True: "", False: "; those of the fast forms are a model's, by the PTX ISA's bounds"}
Errors = dict[str, float]


class Function(NamedTuple):
    """A function, where it is tried, and how far its forms may be off.

    `ulp` bounds the accurate form (CUDA C++ Programming Guide, mathematical functions); `fast` the
    other, absolutely, from the arguments and the right values: about twice what the guide and the
    PTX manual state, and where they state nothing (sine beyond pi) what range reduction loses.
    """

    reference: Callable[[np.ndarray], np.ndarray]
    ranges: tuple[tuple[float, float], ...]
    ulp: float
    fast: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _trigonometric(x: np.ndarray, want: np.ndarray) -> np.ndarray:
    del want
    return 2.0**-19 + np.abs(x) * 2.0**-21


FUNCTIONS = {
    "sin": Function(np.sin, ((-np.pi, np.pi), (-1000, 1000)), 2, _trigonometric),
    "cos": Function(np.cos, ((-np.pi, np.pi), (-1000, 1000)), 2, _trigonometric),
    "sincos": Function(  # |sin| + |cos|
        lambda x: np.abs(np.sin(x)) + np.abs(np.cos(x)),
        ((-np.pi, np.pi), (-1000, 1000)),
        4,
        lambda x, want: 2 * _trigonometric(x, want),
    ),
    "exp": Function(
        np.exp, ((-1, 1), (-80, 80)), 2, lambda x, want: 4 * EPS * want * (2 + 1.173 * np.abs(x))
    ),
    "pow": Function(
        lambda x: x**EXPONENT,
        ((0.5, 2), (0.001, 1000)),
        9,
        lambda x, want: 2.0**-20 * want * (2 + EXPONENT * np.abs(np.log2(x))),
    ),
    "reciprocal": Function(lambda x: 1 / x, ((0.001, 1000),), 0.5, lambda x, want: 4 * EPS * want),
    "sqrt": Function(np.sqrt, ((0, 1e6),), 0.5, lambda x, want: 8 * EPS * want),
}


@suggests
def intrinsics(
    n: int | None = None, *, steps: int | None = None, device: str | None = None
) -> Experiment:
    """Intrinsics: sin, cos, sincos, exp, pow, 1/x, sqrt, accurate and fast: time and errors.

    Parameters
    ----------
    n : int, optional
        Arguments, evenly spread over each range. Default: 2^20 on a GPU, 1,024 on a simulated one.
    steps : int, optional
        Evaluations of each, for the time. Default: 128 on a GPU, 4 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is an H200.

    Returns
    -------
    Experiment
        `ulp` and `error`: the largest, in units of the last place of a float32 and absolute,
        against NumPy's float64. On a GPU `seconds`, warm, for n * steps evaluations; on a simulated
        one `instructions` for each evaluation. The share is of the fast form's rate.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A form is further off than CUDA's documentation allows.

    Notes
    -----
    Source: decks D1 and D3. A simulated GPU's fast forms keep the largest errors that the PTX ISA
    states, with the range reduction of the machine's sine; their bits are no GPU's. PTX's divisions
    and roots are one instruction where the machine has many: how fast these two are is known on a
    GPU only.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.intrinsics(device="sim")
    >>> fast, accurate = found["sin, fast"].values, found["sin, accurate"].values
    >>> fast["instructions"] < accurate["instructions"], fast["error"] > accurate["error"]
    (True, True)
    """
    described = _lab.choose(device, "h200")
    lab = Lab(described)
    n = _lab.size(n, 1 << 20 if lab.timed else 1024)
    steps = _lab.size(steps, 128 if lab.timed else 4, "steps")
    probes, errors = [], []
    for name, function in FUNCTIONS.items():
        for label, (low, high) in zip((name, f"{name}, wide"), function.ranges, strict=False):
            x = np.linspace(low, high, n).astype(np.float32)
            for form in FORMS:
                found: Errors = {}
                once = _probe(label, name, form, x, function, 1, (low, high), found)
                lab.run(once)
                errors.append(found)
                probes.append(_probe(label, name, form, x, function, steps, (low, high), {}))
    outcomes = lab.measure(probes, cold=False, rounds=ROUNDS)
    found = list(zip(outcomes, errors, strict=True))
    rows = [_row(found[i], found[i & ~1], found[i | 1], n * steps) for i in range(len(found))]
    return Experiment(
        "intrinsics",
        described,
        f"{n:,} arguments, {steps} evaluations each",
        _columns(described),
        rows,
        "the rate of the fast form" if lab.timed else "the instructions, the fast form's",
        [
            _lab.how(lab.timed, False, ROUNDS),
            "errors: the largest, against float64" + HOST[lab.timed],
        ],
    )


def _probe(
    label: str,
    name: str,
    form: str,
    x: np.ndarray,
    function: Function,
    steps: int,
    limits: tuple[float, float],
    found: Errors,
) -> Probe:
    return Probe(
        f"{label}, {form}",
        f"micro_{name}_{form}",
        -(-x.size // BLOCK),
        BLOCK,
        (x, Output(x.size), x.size, EXPONENT, 0.0, steps),
        partial(_check, x=x, function=function, form=form, steps=steps, found=found),
        parameters={"low": limits[0], "high": limits[1], "form": form},
    )


def _check(
    got: np.ndarray, x: np.ndarray, function: Function, form: str, steps: int, found: Errors
) -> str:
    """Measure the errors of one evaluation; of a sum of many only that it is right."""
    wide = x.astype(np.float64)
    want = function.reference(wide)
    ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    off = np.abs(got.astype(np.float64) / steps - want)
    bound = (function.ulp + 0.001) * ulp if form == "accurate" else function.fast(wide, want) + ulp
    if steps > 1:
        bound = bound + steps * EPS * np.abs(want)  # the sum rounds as well
    found["ulp"], found["error"] = float(np.max(off / ulp)), float(np.max(off))
    wrong = ~(off <= bound)
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    return f"{got[at] / steps!r} for {x[at]!r} instead of {want[at]!r}"


def _columns(device: Device) -> list[Column]:
    columns = [
        Column("low", "from", ".4g"),
        Column("high", "to", ".4g"),
        Column("ulp", "ulp", ",.1f"),
        Column("error", "error", ".1e"),
    ]
    if device.kind == "cuda":
        return [
            *columns,
            Column("seconds", "us", ",.1f", 1e6),
            Column("spread", "spread", ".1%"),
            Column("rate", "G/s", ",.0f", 1e-9),
        ]
    return [
        *columns,
        Column("instructions", "instr. each", ",.1f"),
        Column("special", "special each", ",.1f"),
    ]


def _row(
    this: tuple[Outcome, Errors],
    accurate: tuple[Outcome, Errors],
    fast: tuple[Outcome, Errors],
    evaluations: int,
) -> Row:
    outcome, errors = this
    probe, values = outcome.probe, dict(errors)
    if outcome.launch is None:
        values |= {
            "seconds": outcome.seconds,
            "spread": outcome.spread,
            "rate": evaluations / outcome.seconds,
        }
        share, what = fast[0].seconds / outcome.seconds, "time"
        gain = f"{errors['ulp']:,.1f} ulp where the accurate form has {accurate[1]['ulp']:,.1f}"
    else:
        each = {
            form[0].probe.name: form[0].launch.counters.warp_instructions * 32 / evaluations
            for form in (accurate, fast)
        }
        values |= {
            "instructions": each[probe.name],
            "special": outcome.launch.counters.inst_special * 32 / evaluations,
        }
        share, what = each[fast[0].probe.name] / each[probe.name], "instructions"
        less = each[accurate[0].probe.name] - each[probe.name]
        bits = np.log2(errors["error"] / accurate[1]["error"]) if accurate[1]["error"] else 0.0
        gain = f"{less:,.0f} instructions less, {bits:.0f} bits lost"
    times = f"{1 / share:.1f} times the {what} of the fast form"
    reading = gain if outcome is fast[0] else times
    return Row(probe.name, probe.parameters, values, share, reading, probe.deck)
