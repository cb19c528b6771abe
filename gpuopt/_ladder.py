"""Measure a ladder: verify every rung, time it, verify it again; or count what it does.

A time without a passed check is never shown. Outputs are poisoned before each check and inputs
are random. The rungs take turns, round by round, so that a drift of the machine meets all of them.
Warm means the same data again and again, which a cache may hold; cold means another copy of the
data each time, from more copies than the caches hold.

The simulated GPU has no timer: there each rung is verified and counted.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from gpuopt import _cases, _core
from gpuopt._cases import Case
from gpuopt._devices import Device, available
from gpuopt._devices import device as describe_device
from gpuopt._profile import Profile, profile
from gpuopt._rungs import Rung, rungs

DECK_ITEMS = 1 << 22  # of the decks' reduction table, 4 bytes each
COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}  # read by the copy that gives the ceiling
SAMPLE_SECONDS = 2e-3  # how long one sample of back-to-back runs shall take at least
RUNS_MOST = 1000  # in one sample
SLOW_SECONDS = 0.05  # a run that takes longer
SLOW_ROUNDS = 3  # is not sampled more often than that


class VerificationError(RuntimeError):
    """A rung gave a wrong result: nothing is timed."""


@dataclass
class Timing:
    """Samples of one rung in one mode, in seconds a run."""

    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median."""
        return statistics.median(self.samples)

    @property
    def least(self) -> float:
        """Return the smallest sample."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """Return the distance of the quartiles, as a share of the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median


@dataclass
class Row:
    """One rung, verified, and timed or counted.

    Attributes
    ----------
    rung : Rung
    algorithm_bytes : int
        What the algorithm reads and writes, each once; 0 where nothing was timed.
    warm, cold : Timing
    counted : Profile or None
        On a device that counts.
    """

    rung: Rung
    algorithm_bytes: int = 0
    warm: Timing = field(default_factory=Timing)
    cold: Timing = field(default_factory=Timing)
    counted: Profile | None = None


@dataclass
class Ladder:
    """A measured ladder; `str` gives the table.

    Attributes
    ----------
    device : Device
    op, dtype : str
    n : int
        Items.
    block : int or None
        Threads a block; None is each rung's own default.
    rows : list of Row
    copy_bandwidth : float
        Bytes read and written a second by the best plain copy, cold; 0 where nothing was timed.
    family, title : str
        What was measured, for the table.
    flops : int
        Operations of a run, where the table tells the rate in them; else 0.
    deck : tuple of (str, float) or None
        The deck's GPU, and how many bytes or operations its times are for.
    refused : list of (Rung, str)
        Rungs that do not take this case, and why.
    """

    device: Device
    op: str
    dtype: str
    n: int
    block: int | None
    rows: list[Row]
    copy_bandwidth: float = 0.0
    family: str = "reduce"
    title: str = ""
    flops: int = 0
    deck: tuple[str, float] | None = None
    refused: list[tuple[Rung, str]] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the deck's table, with what was measured here beside it."""
        return _times(self) if self.copy_bandwidth else _counts(self)


def _draw(rng: np.random.Generator, n: int, dtype: np.dtype, op: str) -> np.ndarray:
    """Return random items: any integer, floats from -1 to 1, for a product about 1."""
    if dtype.kind == "b":
        return rng.integers(0, 2, n, np.uint8).view(np.bool_)
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
    floats = rng.random(n, dtype) * dtype.type(2) - dtype.type(1)
    return 1 + floats / dtype.type(1024) if op == "prod" else floats


def _expected(array: np.ndarray, op: str, result: np.dtype) -> tuple[object, float]:
    """Return NumPy's answer and how far a rung may be from it."""
    ufuncs = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
    ufuncs |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    if op in ("sum", "prod") and array.dtype.kind == "f":
        # A rung's thread takes at most n / 2^10 items, and then a tree of 32 levels, in the
        # result's type.
        unit = (array.size / 1024 + 64) * np.finfo(result).eps / 2
        exact = ufuncs[op].reduce(array, dtype=np.float64)
        scale = np.abs(array).sum(dtype=np.float64) if op == "sum" else 2 * abs(exact)
        return exact, float(unit * scale)
    return ufuncs[op].reduce(array, dtype=result), 0.0


def reduction(n: int, op: str, dtype: str, seed: int) -> Case:
    from gpuopt import reduce

    items = np.dtype(dtype)
    result = np.dtype(np.int64) if items.kind == "b" and op in ("sum", "prod") else items
    array = _draw(np.random.default_rng(seed), n, items, op)

    @cache
    def right() -> tuple[object, float]:
        return _expected(array, op, result)

    def error(_: Rung, got: object) -> str:
        expected, tolerance = right()
        off = abs(float(got) - float(expected)) if tolerance else float(got != expected)
        if off <= tolerance:  # written so that NaN fails
            return ""
        return f"{got!r}, but {expected!r} is right (allowed error {tolerance:g})"

    return Case(
        f"{op} of {n:,} {dtype}",
        n,
        lambda device: _core.Bench("reduce", array, op, dtype=result, device=device),
        lambda rung, block, device: reduce(
            array, op, variant=rung.variant, dtype=result, block=block, device=device
        ),
        error,
        deck=("G80", 4.0 * DECK_ITEMS) if op == "sum" else None,
    )


def _verify(case: Case, rung: Rung, got: object) -> None:
    error = case.error(rung, got)
    if error:
        raise VerificationError(
            f"{rung.family} rung {rung.variant!r} gave {error}: nothing was measured"
        )


def _block(rung: Rung, block: int | None) -> int | None:
    """Return the block, for a rung that leaves a choice."""
    return block if rung.block_min < rung.block_max else None


def copy_bandwidth(device: Device, rounds: int = 7) -> float:
    """Return what a plain copy reaches on a device, cold, in bytes read and written a second."""
    items = min(COPY_BYTES[device.kind], device.memory_free // 4) // 4
    data = np.random.default_rng(1).random(items, np.float32)
    bench = _core.Bench("roofline", data, device=device.name)
    if not np.array_equal(bench.run(), data):
        raise VerificationError("the copy kernel did not copy")
    seconds = statistics.median(bench.time(runs=4, cold=True) for _ in range(rounds))
    return bench.bytes() / seconds


def ladder(
    family: str = "reduce",
    n: int | None = None,
    *,
    op: str = "sum",
    dtype: str | None = None,
    block: int | None = None,
    device: str | None = None,
    rounds: int = 11,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Ladder:
    """Verify and time every rung of a ladder on a device; `print` gives the deck's table.

    Parameters
    ----------
    family : {"reduce", "transpose", "stencil1d", "add", "saxpy", "matmul"}
    n : int, optional
        Items; of a square matrix about so many (of matmul's result). Default: the deck's, or what
        outgrows a GPU's caches.
    op : str
        The reduction's operation.
    dtype : str, optional
        Of items and result. Default: int32 for "reduce" (the decks' 32-bit arithmetic), else
        float32.
    block : int, optional
        Threads a block, for the rungs that leave a choice; default: the deck's.
    device : str, optional
        "cuda", "cuda:1", "cpu"; or "sim", "sim:g80", ...: counters instead of times. Default:
        GPUOPT_DEVICE; else a GPU if there is one, else the simulated GPU.
    rounds : int
        Samples of each rung.
    seed : int
        Of the random items.
    progress : callable
        Called with a line for people who wait.

    Returns
    -------
    Ladder

    Raises
    ------
    VerificationError
        A rung gave a wrong result.
    ValueError, TypeError, DeviceError, DeviceMemoryError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> measured = gpuopt.ladder("reduce", 10_000, device="cpu", rounds=1)
    >>> [row.rung.name for row in measured.rows]
    ['serial', 'openmp', 'simd']
    """
    if family != "reduce" and family not in _cases.ITEMS:
        known = ", ".join(f"'{each}'" for each in ("reduce", *_cases.ITEMS))
        raise ValueError(f"family: {family!r} is not a ladder; use one of {known}")
    device = device or os.environ.get("GPUOPT_DEVICE") or ("cuda" if available("cuda") else "sim")
    described = describe_device(device)
    timed = described.kind != "sim"
    dtype = dtype or ("int32" if family == "reduce" else "float32")
    if family == "reduce":
        case = reduction(n or DECK_ITEMS, op, dtype, seed)
    else:
        case = _cases.make(family, n, dtype, seed, timed=timed)
        op = family
    wanted = [
        rung
        for rung in rungs(family)
        if rung.host == (described.kind == "cpu") and not rung.historical
    ]
    measured = Ladder(
        described, op, dtype, case.n, block, [], 0.0, family, case.title, case.flops, case.deck
    )
    if timed:
        _time(measured, case, wanted, device, rounds, progress)
        progress("measuring the copy")
        measured.copy_bandwidth = copy_bandwidth(described)
    else:
        _count(measured, case, wanted, device, progress)
    return measured


def _time(
    measured: Ladder,
    case: Case,
    wanted: list[Rung],
    device: str,
    rounds: int,
    progress: Callable[[str], None],
) -> None:
    bench = case.bench(device)
    for rung in wanted:
        try:
            size = bench.bytes(rung.variant, _block(rung, measured.block))
            measured.rows.append(Row(rung, size))
        except ValueError as error:
            if measured.family == "reduce" or "variant: rung" not in str(error):
                raise
            measured.refused.append((rung, str(error)))
    calls = [(row, row.rung.variant, _block(row.rung, measured.block)) for row in measured.rows]

    progress("verifying")
    for row, *call in calls:
        _verify(case, row.rung, bench.run(*call))
    runs, most = {}, {}
    for row, *call in calls:
        once = bench.time(*call, runs=1)
        slow = once > SLOW_SECONDS
        most[row.rung.variant] = SLOW_ROUNDS if slow else rounds
        if not slow:
            once = bench.time(*call, runs=3)
        runs[row.rung.variant] = min(RUNS_MOST, max(1 if slow else 3, int(SAMPLE_SECONDS / once)))
    for turn in range(rounds):
        progress(f"timing, round {turn + 1} of {rounds}")
        for row, variant, block in calls:
            if turn >= most[variant]:
                continue
            for cold, timing in ((False, row.warm), (True, row.cold)):
                timing.samples.append(bench.time(variant, block, runs=runs[variant], cold=cold))
    progress("verifying again")
    for row, *call in calls:
        _verify(case, row.rung, bench.run(*call))


def _count(
    measured: Ladder,
    case: Case,
    wanted: list[Rung],
    device: str,
    progress: Callable[[str], None],
) -> None:
    for rung in wanted:
        progress(f"counting {_label(rung)}")
        try:
            counted = profile(case.call, rung, _block(rung, measured.block), device)
        except ValueError as error:
            if measured.family == "reduce" or "variant: rung" not in str(error):
                raise
            measured.refused.append((rung, str(error)))
            continue
        _verify(case, rung, counted.result)
        measured.rows.append(Row(rung, counted=counted))


def _counts(measured: Ladder) -> str:
    deck = bool(measured.deck)
    lines = [
        f"{measured.title}{_blocks(measured)}, on a "
        f"{measured.device.description} ({measured.device.name})",
        "the same compiled kernels, verified and counted; a simulated GPU has no times",
        "",
        f"{'':<18}{'warp':>14}{'':>8}{'lanes':>7}{'divergent':>12}{'bank':>12}{'shared':>13}"
        f"{'':>11}{'sectors':>9}{'':>9}" + (f"{f'deck: {measured.deck[0]}':>12}" if deck else ""),
        f"{'rung':<18}{'instructions':>14}{'step':>8}{'active':>7}{'branches':>12}"
        f"{'conflicts':>12}{'wavefronts':>13}{'barriers':>11}{'per load':>9}{'launches':>9}"
        + (f"{'us':>12}{'step':>8}" if deck else ""),
    ]
    before = None
    for row in measured.rows:
        total = row.counted.counters
        step = before.counted.counters.warp_instructions / total.warp_instructions if before else 0
        lines.append(
            f"{_label(row.rung):<18}{total.warp_instructions:>14,}{_ratio(step or None):>8}"
            f"{total.warp_efficiency:>7.0%}{total.divergent_branches:>12,}"
            f"{total.bank_conflicts:>12,}"
            f"{total.shared_load_wavefronts + total.shared_store_wavefronts:>13,}"
            f"{total.barriers:>11,}{total.sectors_per_load:>9.1f}{len(row.counted.launches):>9}"
        )
        if deck:
            us = row.rung.deck_us
            lines[-1] += f"{us:>12,.0f}{_ratio(before.rung.deck_us / us if before else None):>8}"
        before = None if row.rung.ceiling else row
    lines += ["", *_lessons(measured)]
    return "\n".join(line.rstrip() for line in lines)


def _times(measured: Ladder) -> str:
    copy, first, last = measured.copy_bandwidth, _steps(measured)[0], measured.rows[-1]
    deck = bool(measured.deck and first.rung.deck_us)
    unit = "GFLOP/s" if measured.flops else "GB/s"
    lines = [
        f"{measured.title}{_blocks(measured)}, on "
        f"{measured.device.description} ({measured.device.name})",
        f"medians of {len(first.warm.samples)} samples; warm: the same data each time; "
        "cold: other data each time, from memory",
        f"a plain copy moves {copy / 1e9:,.0f} GB/s cold, read and written",
        "",
        f"{'':<18}{'warm':>8}{'':>32}{'cold':>11}"
        + (f"{f'deck: {measured.deck[0]}':>36}" if deck else ""),
        f"{'rung':<18}{'us':>8}{'least':>8}{'spread':>8}{unit:>8}{'step':>8}"
        f"{'us':>11}{'spread':>8}{unit:>8}{'of copy':>9}"
        + (f"{'us':>10}{unit:>8}{'step':>8}{'total':>9}" if deck else ""),
    ]
    before = None
    for row in measured.rows:
        warm, cold = row.warm, row.cold
        amount = measured.flops or row.algorithm_bytes
        share = row.algorithm_bytes / cold.median / copy
        lines.append(
            f"{_label(row.rung):<18}{warm.median * 1e6:>8.1f}{warm.least * 1e6:>8.1f}"
            f"{warm.spread:>8.1%}{amount / warm.median / 1e9:>8,.0f}"
            f"{_ratio(before.warm.median / warm.median if before else None):>8}"
            f"{cold.median * 1e6:>11.1f}{cold.spread:>8.1%}"
            f"{amount / cold.median / 1e9:>8,.0f}{share:>9.0%}"
        )
        if deck:
            us = row.rung.deck_us
            lines[-1] += (
                f"{us:>10,.0f}{1e-3 * measured.deck[1] / us:>8.1f}"
                f"{_ratio(before.rung.deck_us / us if before else None):>8}"
                f"{_ratio(first.rung.deck_us / us if before else None):>9}"
            )
        before = None if row.rung.ceiling else row
    lines += [
        "",
        f"all steps together: {first.warm.median / last.warm.median:.2f}x warm, "
        f"{first.cold.median / last.cold.median:.2f}x cold"
        + (f", {first.rung.deck_us / last.rung.deck_us:.2f}x in the deck" if deck else ""),
        "",
        *_lessons(measured),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _steps(measured: Ladder) -> list[Row]:
    """Return the rows that are steps of the ladder; its ceiling is none."""
    return [row for row in measured.rows if not row.rung.ceiling]


def _blocks(measured: Ladder) -> str:
    rung = measured.rows[0].rung
    if measured.block:
        return f", blocks of {measured.block}"
    same = len({row.rung.block_default for row in measured.rows}) == 1
    return f", blocks of {rung.block_default}" if same and rung.block_default else ""


def _lessons(measured: Ladder) -> list[str]:
    taught = [f"{_label(row.rung):<18}{row.rung.lesson}" for row in measured.rows]
    refused = [f"{_label(rung):<18}left out: {why}" for rung, why in measured.refused]
    return taught + refused


def _label(rung: Rung) -> str:
    return rung.name if rung.number is None else f"{rung.number} {rung.name}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"
