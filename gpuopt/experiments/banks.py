"""banks: what shared memory's banks cost a warp."""

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
STRIDES = range(1, 34)
READS = 32  # of a round, as the kernel has it
ROUNDS = 7
DECK = {"stride 1": "free", "permuted": "free", "stride 2": "2-way", "stride 8": "8-way"}
DECK |= {"broadcast": "broadcast", "tile column, padded": "free"}


@suggests
def banks(rounds: int | None = None, *, device: str | None = None) -> Experiment:
    """Shared-memory banks: strides 1 to 33, a permutation, a broadcast, a padded tile.

    Parameters
    ----------
    rounds : int, optional
        Times 32 reads per thread. Default: 64 on a GPU, 1 on a simulated one.
    device : str, optional
        As `gpuopt.experiments.run`; "sim" is the decks' G80, with 16 banks for a half-warp;
        "sim:h200" has 32 for a warp.

    Returns
    -------
    Experiment
        `ways`: the words that the fullest bank must give, by `gpuopt.models.bank_conflicts`. On a
        GPU `seconds` (warm; shared memory knows no cold); the share is of stride 1. On a simulated
        GPU `wavefronts` of `requests`; the share is of the least wavefronts.

    Raises
    ------
    TypeError, ValueError
        An argument that is no count, or a device that runs no kernels.
    VerificationError
        A kernel gave a wrong result.

    Notes
    -----
    Source: decks D0 and D3. Banks are 4 bytes wide.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.experiments.banks(device="sim:g80")
    >>> [found[f"stride {k}"].parameters["ways"] for k in (1, 2, 8, 16, 17)]
    [1, 2, 8, 16, 1]
    """
    described = _lab.choose(device, "g80")
    lab = Lab(described)
    rounds = _lab.size(rounds, 64 if lab.timed else 1, "rounds")
    if rounds > 256:  # sums stay exact in a float
        raise ValueError(f"rounds: must be at most 256, not {rounds}")
    limits = models.gpu(described if lab.timed else described.name.split(":")[1])
    blocks = 8 * described.multiprocessors if lab.timed else 2
    probes = [
        _probe(name, pattern, limits, blocks, rounds)
        for name, pattern in _patterns(limits.banks).items()
    ]
    outcomes = lab.measure(probes, cold=False, rounds=ROUNDS)
    return Experiment(
        "banks",
        described,
        f"{rounds * READS:,} reads of shared memory per thread, {limits.banks} banks",
        _columns(described),
        [_row(outcome, outcomes[0]) for outcome in outcomes],
        "the rate of stride 1" if lab.timed else "the wavefronts, those that no conflict adds",
        [
            _lab.how(lab.timed, False, ROUNDS),
            "deck D3: conflicts cost an application that lives in shared memory up to 30%, and "
            "nothing where global memory is the limit",
        ],
    )


def _patterns(banks: int) -> dict[str, np.ndarray]:
    """Return the word that each lane reads, by name."""
    lanes = np.arange(32)
    found = {f"stride {k}": k * lanes for k in STRIDES}
    rng = np.random.default_rng(0)
    found["permuted"] = np.concatenate(  # among the lanes that are served together
        [first + rng.permutation(banks) for first in range(0, 32, banks)]
    )
    found["broadcast"] = np.zeros_like(lanes)
    found["tile column"] = banks * lanes
    found["tile column, padded"] = (banks + 1) * lanes
    return {name: pattern.astype(np.uint32) for name, pattern in found.items()}


def _probe(name: str, pattern: np.ndarray, limits: models.Gpu, blocks: int, rounds: int) -> Probe:
    sums = rounds * sum(pattern.astype(np.float32) + k for k in range(READS))
    want = np.tile(sums.astype(np.float32), blocks * BLOCK // 32)
    passes = models.bank_conflicts(limits, [4 * int(word) for word in pattern])
    return Probe(
        name,
        "micro_banks",
        blocks,
        BLOCK,
        (pattern, Output(want.size), rounds),
        partial(oracle.wrong, want=want),
        parameters={"ways": passes.ways},
        deck=DECK.get(name, ""),
    )


def _columns(device: Device) -> list[Column]:
    if device.kind == "cuda":
        more = [Column("seconds", "us", ",.1f", 1e6), Column("spread", "spread", ".1%")]
    else:
        more = [
            Column("requests", "requests"),
            Column("wavefronts", "wavefronts"),
            Column("conflicts", "conflicts"),
        ]
    return [Column("ways", "ways"), *more]


def _row(outcome: Outcome, stride_1: Outcome) -> Row:
    probe, ways = outcome.probe, outcome.probe.parameters["ways"]
    if outcome.launch is None:
        values = {"seconds": outcome.seconds, "spread": outcome.spread}
        share = stride_1.seconds / outcome.seconds
        slower = 1 / share
        if slower < 1.1:
            reading = "as fast as stride 1"
        else:
            reading = f"{slower:.1f} times the time of stride 1"
        if ways > 1:
            reading += f", for a {ways}-way conflict"
    else:
        counted = outcome.launch.counters
        values = {
            "requests": counted.shared_load_requests,
            "wavefronts": counted.shared_load_wavefronts,
            "conflicts": counted.shared_load_conflicts,
        }
        share = 1 - counted.shared_load_conflicts / counted.shared_load_wavefronts
        times = 1 / share
        reading = "no conflict" if times == 1 else f"{times:.0f} passes where one is enough"
    return Row(probe.name, probe.parameters, values, share, reading, probe.deck)
