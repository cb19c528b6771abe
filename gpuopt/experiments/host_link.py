"""host_link: copies between host and GPU, from pageable and from pinned memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab, _steps
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.experiments._steps import Timed
from gpuopt.families import oracle
from gpuopt.measure.race import host_seconds
from gpuopt.ptx.module import Module
from gpuopt.util.names import suggests

ROUNDS = 7
SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28)  # bytes
COLUMNS = [
    Column("nbytes", "KiB", ",.0f", 1 / 1024),
    Column("seconds", "us", ",.1f", 1e6),
    Column("spread", "spread", ".1%"),
    Column("bandwidth", "GB/s", ",.2f", 1e-9),
]
READ = {
    "pageable": "the driver copies it through a pinned buffer of its own",
    "staged": "gpuopt's host threads fill pinned buffers while others travel",
    "pinned": "the GPU reads and writes it by itself",
}
DECK = "3.2 GB/s on PCIe 1, 5.2 on PCIe 2"  # pinned, x16


@suggests
def host_link(nbytes: int | None = None, *, device: str | None = None) -> Experiment:
    """Copy between host and GPU: pageable against pinned memory, both ways, several sizes.

    Parameters
    ----------
    nbytes : int, optional
        Bytes of a copy, a multiple of 4. Default: 4 KiB, 64 KiB, 1, 16 and 256 MiB.
    device : str, optional
        A GPU, "cuda" or "cuda:1". On a simulated GPU ("sim" is D3's GTX 280) the table is a model's
        (`gpuopt.models.transfer`): nothing is copied.

    Returns
    -------
    Experiment
        Rows "in" (host to device) and "out" from memory that is "pageable" (the driver stages it),
        "staged" (gpuopt does, on its way into every other function) and "pinned"; "both" ways at
        once, pinned, counts the bytes of both. `seconds` and `bandwidth` (bytes/s); the share is of
        the best pinned rate of that direction found here.

    Raises
    ------
    TypeError, ValueError
        An `nbytes` that is no such count; a device that runs no kernels.
    VerificationError
        A copy arrived wrong.

    Notes
    -----
    Source: deck D3.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.host_link(1 << 28, device="sim:g80")
    >>> round(found["in, pinned"].values["bandwidth"] / 1e9, 1)
    3.2
    """
    described = _steps.choose(device, "host_link", "gt200")
    size = _lab.size(nbytes, 0, "nbytes") if nbytes is not None else 0
    if size % 4:
        raise ValueError(f"nbytes: {size} is not a multiple of 4")
    sizes = (size,) if size else SIZES
    if described.kind == "sim":
        return _modelled(described, sizes)
    module = Module(None, described.name)
    groups = [_trials(module, each) for each in sizes]
    trials = [trial for group in groups for trial in group]
    _steps.measure(module, trials, ROUNDS)
    pairs = [(size, trial) for size, group in zip(sizes, groups, strict=True) for trial in group]
    rates: dict[str, float] = {}
    for size, trial in pairs:
        way, kind = trial.name.split(", ")
        if kind == "pinned":
            rates[way] = max(rates.get(way, 0), _moved(trial, size) / trial.timing.median)
    return Experiment(
        "host_link",
        described,
        "copies between host and GPU",
        COLUMNS,
        [_row(trial, size, rates) for size, trial in pairs],
        "the best pinned rate of the same direction: "
        + ", ".join(f"{way} {rate / 1e9:.1f} GB/s" for way, rate in rates.items()),
        [
            f"medians of {ROUNDS} samples in turns, back to back, verified before and after",
            "staged: by the host's clock; the others by the GPU's",
        ],
    )


def _modelled(device: Device, sizes: Sequence[int]) -> Experiment:
    """Return the table by the model of the link; pageable memory is staged by the host."""
    link, rows = models.host_link(device), []
    for size in sizes:
        for way, kind in product(("in", "out"), ("pageable", "pinned")):
            seconds = models.transfer(device, size, pinned=kind == "pinned")
            bandwidth = size / seconds
            small = size < 1 << 20 and bandwidth < link.pinned / 2
            reading = "too small: the start of a copy is most of its time" if small else READ[kind]
            rows.append(
                Row(
                    f"{way}, {kind}",
                    {"nbytes": size, "way": way, "memory": kind},
                    {"seconds": seconds, "bandwidth": bandwidth},
                    bandwidth / link.pinned,
                    reading,
                    DECK if kind == "pinned" and size >= 1 << 24 else "",
                )
            )
    columns = [column for column in COLUMNS if column.key != "spread"]
    notes = [f"a model, nothing was copied: {link.name}, and {link.host / 1e9:.0f} GB/s of a host"]
    ceiling = f"the link's pinned rate, {link.pinned / 1e9:.1f} GB/s"
    return Experiment(
        "host_link", device, "copies between host and GPU", columns, rows, ceiling, notes
    )


def _moved(trial: Timed, size: int) -> int:
    return 2 * size if trial.name.startswith("both") else size


def _trials(module: Module, size: int) -> list[Timed]:
    """Return the copies of one size: each way from each kind of memory, and both ways at once."""
    data = np.random.default_rng(size).integers(0, 2**32, size // 4, np.uint32)
    spoiled = np.zeros_like(data)
    source, target = module.copy(data), module.empty(size)
    hosts = {"pageable": (data, np.empty_like(data))}
    hosts["pinned"] = module.pinned(data.shape, data.dtype), module.pinned(data.shape, data.dtype)
    hosts["pinned"][0][...] = data
    core = module._core

    def spoil() -> None:
        core.copy_in(target.address, spoiled)
        for _, back in hosts.values():
            back[...] = 0

    def check_in() -> str:
        return oracle.wrong(target.get(np.uint32), data)

    def check_out(back: np.ndarray) -> str:
        return oracle.wrong(back, data)

    def staged_in(runs: int) -> float:
        waits = partial(core.copy_out, target.address, first)  # until the last part has arrived
        return host_seconds([partial(core.copy_in, target.address, data)], runs, waits)

    def staged_out(runs: int) -> float:
        back = hosts["pageable"][1]
        return host_seconds([partial(core.copy_out, source.address, back)], runs)

    first = np.empty(1, np.uint32)
    trials = []
    for kind, (away, back) in hosts.items():
        trials += [
            Timed(f"in, {kind}", [module.transfer(target, away)], spoil, check_in),
            Timed(f"out, {kind}", [module.transfer(back, source)], spoil, partial(check_out, back)),
        ]
    back = hosts["pageable"][1]
    trials[2:2] = [
        Timed("in, staged", (), spoil, check_in, seconds=staged_in),
        Timed("out, staged", (), spoil, partial(check_out, back), seconds=staged_out),
    ]
    away, back = hosts["pinned"]
    both = [module.transfer(target, away), module.transfer(back, source).on(1)]
    trials.append(
        Timed("both, pinned", both, spoil, lambda: check_in() or check_out(back)),
    )
    return trials


def _row(trial: Timed, size: int, rates: dict[str, float]) -> Row:
    way, kind = trial.name.split(", ")
    bandwidth = _moved(trial, size) / trial.timing.median
    share = bandwidth / rates[way]
    reading = READ[kind]
    if way == "both":
        reading = f"the link carries both ways at once: {bandwidth / rates['in']:.2f} of one way"
    elif share < 0.5 and size < 1 << 20:
        reading = "too small: the start of a copy is most of its time"
    return Row(
        trial.name,
        {"nbytes": size, "way": way, "memory": kind},
        {"seconds": trial.timing.median, "spread": trial.timing.spread, "bandwidth": bandwidth},
        share,
        reading,
        DECK if kind == "pinned" and way != "both" and size >= 1 << 24 else "",
    )
