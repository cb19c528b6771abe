"""coalescing: what the addresses of a warp cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import lcm

import numpy as np

from gpuopt import models
from gpuopt.catalog.devices import Device
from gpuopt.experiments import _lab
from gpuopt.experiments._lab import Lab, Outcome, Output, Probe
from gpuopt.experiments._result import Column, Experiment, Row
from gpuopt.families import oracle
from gpuopt.measure.ceilings import copy_bandwidth
from gpuopt.util.names import suggests

BLOCK = 256
SLACK = 64  # items behind the last, for offsets
OFFSETS = (1, 2, 4, 8, 16)
STRIDES = (2, 4, 8, 16, 32)
REVERSED = 15  # thread k of a half-warp takes word 15 - k
ROUNDS = 7
# Microseconds of deck D3 on a G8x: 12 MB, a float read, added to and written.
DECK = {
    "coalesced": 356,
    "idle threads": 357,
    "permuted": 3494,
    "misaligned by 1": 3494,
    "float3": 3302,
    "float3, shared memory": 359,
}


# The counter of each rule of coalescing.
UNITS = {
    "strict": "transactions a half-warp",
    "segments": "transactions a half-warp",
    "lines": "lines per warp",
    "sectors": "sectors per warp",
}


@suggests
def coalescing(n: int | None = None, *, device: str | None = None) -> Experiment:
    """Coalescing: a warp's addresses in order, permuted, misaligned, strided, in structures.

    Every kernel reads words, adds one and writes them back; only the addresses differ.

    Parameters
    ----------
    n : int, optional
        Floats, rounded up to what every row divides. Default: 2^25 on a GPU, about 3,000 on a
        simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' G80. Try "sim:gt200" and "sim:h200": the
        rule of coalescing is the device's.

    Returns
    -------
    Experiment
        On a GPU `seconds` and `bandwidth` (bytes that threads ask for, a second), cold; the share
        is of a plain copy. On a simulated GPU `transactions` of a half-warp (compute capability
        1.x), lines (2.x) or sectors of a warp, `moved` bytes, and `predicted` seconds by the model;
        the share is of the bytes, what threads asked for.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: deck D3, with its times for 12 MB on a G8x, n = 3 << 20. The rules are
    `gpuopt.models.transactions`.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.coalescing(device="sim:g80")
    >>> found["coalesced"].values["transactions"], found["permuted"].values["transactions"]
    (1.0, 16.0)
    """
    described = _lab.choose(device, "g80")
    lab = Lab(described)
    n = _lab.size(n, 1 << 25 if lab.timed else 3 * 1024)
    whole = lcm(3 * BLOCK, 4 * BLOCK, max(STRIDES))
    n = -(-n // whole) * whole
    probes = _probes(n)
    outcomes = lab.measure(probes, cold=True, rounds=ROUNDS)
    copy = copy_bandwidth(described) if lab.timed else 0.0
    rows = [_row(outcome, outcomes[0], described, copy) for outcome in outcomes]
    return Experiment(
        "coalescing",
        described,
        f"a word read, added to and written, of {n:,} floats",
        _columns(described),
        rows,
        f"a plain copy, {copy / 1e9:,.0f} GB/s"
        if lab.timed
        else "the bytes moved, those that were asked for",
        [_lab.how(lab.timed, True, ROUNDS), "deck: D3, 12 MB (n = 3 << 20) on a G8x"],
    )


def _columns(device: Device) -> list[Column]:
    if device.kind == "cuda":
        return [
            Column("useful", "MB asked", ",.0f", 1e-6),
            Column("seconds", "us", ",.1f", 1e6),
            Column("spread", "spread", ".1%"),
            Column("bandwidth", "GB/s", ",.0f", 1e-9),
        ]
    return [
        Column("requests", "requests"),
        Column("transactions", UNITS[models.gpu(device.name.split(":")[1]).coalescing], ",.1f"),
        Column("useful", "bytes asked"),
        Column("moved", "bytes moved"),
        Column("predicted", "predicted us", ",.1f", 1e6),
    ]


def _probes(n: int) -> list[Probe]:
    data = np.random.default_rng(0).random(n + SLACK, np.float32)
    plus = data + np.float32(1)
    poison = np.full(1, _lab.POISON * 0x01010101, np.uint32)
    words = np.arange(n)

    def check(got: np.ndarray, chosen: Callable[[], np.ndarray | slice]) -> str:
        """Check that the chosen words are written and no other."""
        want = np.repeat(poison, n + SLACK)
        at = chosen()
        want[at] = plus.view(np.uint32)[at]
        return oracle.wrong(got, want)

    def probe(
        name: str,
        kernel: str,
        chosen: Callable[[], np.ndarray | slice],
        threads: int,
        *more: int,
        asked: int = 1,
        shared: int = 0,
        **parameters: int,
    ) -> Probe:
        return Probe(
            name,
            f"micro_{kernel}",
            -(-threads // BLOCK),
            BLOCK,
            (data, Output(n + SLACK, "uint32"), threads, *more),
            partial(check, chosen=chosen),
            shared,
            parameters | {"useful": 8 * asked * threads},
            f"{DECK[name]:,} us" if name in DECK else "",
        )

    everything = slice(0, n)

    def index(name: str, mask: int = 0, stride: int = 1, offset: int = 0) -> Probe:
        return probe(
            name, "index", lambda: slice(offset, n + offset, stride), n // stride,
            mask, stride, offset, mask=mask, stride=stride, offset=offset,
        )  # fmt: skip

    idle = probe("idle threads", "idle", lambda: words[words % 4 != 3], n)
    idle.parameters["useful"] = idle.parameters["useful"] // 4 * 3
    return [
        index("coalesced"),
        idle,
        index("permuted", mask=REVERSED),
        *(index(f"misaligned by {k}", offset=k) for k in OFFSETS),
        *(index(f"stride {k}", stride=k) for k in STRIDES),
        probe("float3", "float3_direct", lambda: everything, n // 3, asked=3),
        probe(
            "float3, shared memory", "float3_shared", lambda: everything, n // 3,
            asked=3, shared=12 * BLOCK,
        ),
        probe("array of structures", "structures", lambda: everything, n // 4, asked=4),
        *(
            probe(
                f"structures aligned to {k}", f"structures_{k}", lambda: everything, n // 4,
                asked=4, alignment=k,
            )
            for k in (8, 16)
        ),
        probe("structure of arrays", "arrays", lambda: everything, n // 4, asked=4),
        *(
            probe(name, f"wide_{k}", lambda: everything, n // k, asked=k, words=k)
            for name, k in (("float", 1), ("float2", 2), ("float4", 4))
        ),
    ]  # fmt: skip


def _row(outcome: Outcome, coalesced: Outcome, device: Device, copy: float) -> Row:
    probe = outcome.probe
    useful = probe.parameters["useful"]
    parameters = {name: value for name, value in probe.parameters.items() if name != "useful"}
    if outcome.launch is None:
        bandwidth = useful / outcome.seconds
        best = coalesced.probe.parameters["useful"] / coalesced.seconds
        values = {
            "useful": useful,
            "seconds": outcome.seconds,
            "spread": outcome.spread,
            "bandwidth": bandwidth,
        }
        share = bandwidth / copy
        reading = _slower(best / bandwidth, outcome is coalesced)
    else:
        counted = outcome.launch.counters
        requests = counted.global_load_requests + counted.global_store_requests
        rule = models.gpu(device.name.split(":")[1]).coalescing
        transactions = counted.global_load_transactions + counted.global_store_transactions
        halves = 2 if rule in ("strict", "segments") else 1
        values = {
            "requests": requests,
            "transactions": transactions / requests / halves,
            "useful": counted.global_load_bytes + counted.global_store_bytes,
            "moved": counted.global_bytes_moved,
        }
        if outcome.predicted is not None:
            values["predicted"] = outcome.predicted
        share = values["useful"] / values["moved"]
        reading = (
            "no byte is moved that was not asked for"
            if share == 1
            else f"{1 / share:.1f} bytes are moved for each that was asked for"
        )
    return Row(probe.name, parameters, values, share, reading, probe.deck)


def _slower(ratio: float, reference: bool) -> str:
    if reference:
        return "what the others are compared with"
    if ratio > 1.1:
        return f"{ratio:.1f} times the time of coalesced, for each byte asked for"
    if ratio < 0.9:
        return f"{1 / ratio:.2f} times as fast as coalesced"
    return "as fast as coalesced: caches and sectors forgive it"
