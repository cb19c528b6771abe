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

import numpy as np

from gpuopt import _core
from gpuopt._devices import Device, available
from gpuopt._devices import device as describe_device
from gpuopt._profile import Profile, profile
from gpuopt._rungs import Rung, rungs

DECK_ITEMS = 1 << 22  # of the decks' reduction table, 4 bytes each
COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}  # read by the copy that gives the ceiling
SAMPLE_SECONDS = 2e-3  # how long one sample of back-to-back runs shall take at least
RUNS_MOST = 1000  # in one sample


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
    """

    device: Device
    op: str
    dtype: str
    n: int
    block: int | None
    rows: list[Row]
    copy_bandwidth: float = 0.0

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


def _verify(got: object, rung: Rung, expected: object, tolerance: float) -> None:
    error = abs(float(got) - float(expected)) if tolerance else float(got != expected)
    if not error <= tolerance:  # written so that NaN fails
        raise VerificationError(
            f"{rung.family} rung {rung.variant!r} gave {got!r}, but {expected!r} is right "
            f"(allowed error {tolerance:g}): nothing was measured"
        )


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
    n: int = DECK_ITEMS,
    *,
    op: str = "sum",
    dtype: str = "int32",
    block: int | None = None,
    device: str | None = None,
    rounds: int = 11,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Ladder:
    """Verify and time every rung of a ladder on a device; `print` gives the deck's table.

    Parameters
    ----------
    family : {"reduce"}
    n : int
        Items.
    op, dtype : str
        The operation and the dtype; the result has the same dtype (the decks' 32-bit arithmetic).
    block : int, optional
        Threads a block; default: the deck's 128.
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
    ['serial', 'openmp']
    """
    if family != "reduce":
        raise ValueError(f"family: {family!r} is not a ladder; use 'reduce'")
    device = device or os.environ.get("GPUOPT_DEVICE") or ("cuda" if available("cuda") else "sim")
    items = np.dtype(dtype)
    result = np.dtype(np.int64) if items.kind == "b" and op in ("sum", "prod") else items
    array = _draw(np.random.default_rng(seed), n, items, op)
    described = describe_device(device)
    wanted = [
        rung
        for rung in rungs("reduce")
        if rung.host == (described.kind == "cpu") and not rung.historical
    ]
    if described.kind == "sim":
        rows = _count(array, op, result, block, device, wanted, progress)
        return Ladder(described, op, dtype, n, block, rows)
    bench = _core.Bench("reduce", array, op, dtype=result, device=device)
    rows = [Row(rung, bench.bytes(rung.variant, block)) for rung in wanted]
    expected, tolerance = _expected(array, op, result)

    progress("verifying")
    for row in rows:
        _verify(bench.run(row.rung.variant, block), row.rung, expected, tolerance)
    runs = {}
    for row in rows:
        once = bench.time(row.rung.variant, block, runs=3)
        runs[row.rung.variant] = min(RUNS_MOST, max(3, int(SAMPLE_SECONDS / once)))
    for turn in range(rounds):
        progress(f"timing, round {turn + 1} of {rounds}")
        for row in rows:
            variant = row.rung.variant
            for cold, timing in ((False, row.warm), (True, row.cold)):
                timing.samples.append(bench.time(variant, block, runs=runs[variant], cold=cold))
    progress("verifying again")
    for row in rows:
        _verify(bench.run(row.rung.variant, block), row.rung, expected, tolerance)
    bench = None  # its memory is the copy's now
    progress("measuring the copy")
    return Ladder(described, op, dtype, n, block, rows, copy_bandwidth(described))


def _count(
    array: np.ndarray,
    op: str,
    result: np.dtype,
    block: int | None,
    device: str,
    wanted: list[Rung],
    progress: Callable[[str], None],
) -> list[Row]:
    from gpuopt import reduce

    rows = []
    for rung in wanted:
        progress(f"counting {_label(rung)}")
        counted = profile(
            reduce, array, op, variant=rung.variant, dtype=result, block=block, device=device
        )
        _verify(counted.result, rung, *_expected(array, op, result))
        rows.append(Row(rung, counted=counted))
    return rows


def _counts(measured: Ladder) -> str:
    block = measured.block or measured.rows[0].rung.block_default
    deck = measured.op == "sum"
    lines = [
        f"{measured.op} of {measured.n:,} {measured.dtype}, blocks of {block}, on a "
        f"{measured.device.description} ({measured.device.name})",
        "the same compiled kernels, verified and counted; a simulated GPU has no times",
        "",
        f"{'':<16}{'warp':>14}{'':>8}{'lanes':>7}{'divergent':>12}{'bank':>12}{'shared':>13}"
        f"{'':>11}{'sectors':>9}{'':>9}" + (f"{'deck: G80':>12}" if deck else ""),
        f"{'rung':<16}{'instructions':>14}{'step':>8}{'active':>7}{'branches':>12}"
        f"{'conflicts':>12}{'wavefronts':>13}{'barriers':>11}{'per load':>9}{'launches':>9}"
        + (f"{'us':>12}{'step':>8}" if deck else ""),
    ]
    before = None
    for row in measured.rows:
        total = row.counted.counters
        step = before.counted.counters.warp_instructions / total.warp_instructions if before else 0
        lines.append(
            f"{_label(row.rung):<16}{total.warp_instructions:>14,}{_ratio(step or None):>8}"
            f"{total.warp_efficiency:>7.0%}{total.divergent_branches:>12,}"
            f"{total.bank_conflicts:>12,}"
            f"{total.shared_load_wavefronts + total.shared_store_wavefronts:>13,}"
            f"{total.barriers:>11,}{total.sectors_per_load:>9.1f}{len(row.counted.launches):>9}"
        )
        if deck:
            us = row.rung.deck_us
            lines[-1] += f"{us:>12,.0f}{_ratio(before.rung.deck_us / us if before else None):>8}"
        before = row
    lines += ["", *(f"{_label(row.rung):<16}{row.rung.lesson}" for row in measured.rows)]
    return "\n".join(line.rstrip() for line in lines)


def _times(measured: Ladder) -> str:
    copy, first, last = measured.copy_bandwidth, measured.rows[0], measured.rows[-1]
    deck = measured.op == "sum" and bool(first.rung.deck_us)
    block = measured.block or first.rung.block_default
    blocks = f", blocks of {block}" if block else ""
    lines = [
        f"{measured.op} of {measured.n:,} {measured.dtype}{blocks}, on "
        f"{measured.device.description} ({measured.device.name})",
        f"medians of {len(first.warm.samples)} samples; warm: the same data each time; "
        "cold: other data each time, from memory",
        f"a plain copy moves {copy / 1e9:,.0f} GB/s cold, read and written",
        "",
        f"{'':<16}{'warm':>8}{'':>32}{'cold':>11}" + (f"{'deck: G80':>36}" if deck else ""),
        f"{'rung':<16}{'us':>8}{'least':>8}{'spread':>8}{'GB/s':>8}{'step':>8}"
        f"{'us':>11}{'spread':>8}{'GB/s':>8}{'of copy':>9}"
        + (f"{'us':>10}{'GB/s':>7}{'step':>8}{'total':>9}" if deck else ""),
    ]
    before = None
    for row in measured.rows:
        warm, cold = row.warm, row.cold
        rate = row.algorithm_bytes / cold.median
        lines.append(
            f"{_label(row.rung):<16}{warm.median * 1e6:>8.1f}{warm.least * 1e6:>8.1f}"
            f"{warm.spread:>8.1%}{row.algorithm_bytes / warm.median / 1e9:>8,.0f}"
            f"{_ratio(before.warm.median / warm.median if before else None):>8}"
            f"{cold.median * 1e6:>11.1f}{cold.spread:>8.1%}{rate / 1e9:>8,.0f}{rate / copy:>9.0%}"
        )
        if deck:
            us = row.rung.deck_us
            lines[-1] += (
                f"{us:>10,.0f}{4e-3 * DECK_ITEMS / us:>7.1f}"
                f"{_ratio(before.rung.deck_us / us if before else None):>8}"
                f"{_ratio(first.rung.deck_us / us if before else None):>9}"
            )
        before = row
    lines += [
        "",
        f"all steps together: {first.warm.median / last.warm.median:.2f}x warm, "
        f"{first.cold.median / last.cold.median:.2f}x cold"
        + (f", {first.rung.deck_us / last.rung.deck_us:.2f}x in the deck" if deck else ""),
        "",
        *(f"{_label(row.rung):<16}{row.rung.lesson}" for row in measured.rows),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _label(rung: Rung) -> str:
    return rung.name if rung.number is None else f"{rung.number} {rung.name}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"
