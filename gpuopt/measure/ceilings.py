"""The ceilings of a device: measured, with every result checked, or from a datasheet.

The kernels are the rows of family "roofline": csrc/kernels/roofline.cu and
csrc/devices/cpu/cpu_roofline.c.
Their arithmetic is on integers, so that each has one right result, which is computed here; it is
checked to the bit before and after the timing, on the very problem that is timed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpuopt import _core, models
from gpuopt.catalog.devices import Device
from gpuopt.catalog.rungs import rungs
from gpuopt.families import oracle
from gpuopt.measure.race import Contender, Effort, Progress, VerificationError, race
from gpuopt.util import parts
from gpuopt.util.serialise import POSITIVE

WORD = 4  # bytes
DRAM_BYTES = {"cuda": (1 << 32, 1 << 30), "cpu": (1 << 28, 1 << 27)}  # full, quick
SAMPLE_SECONDS = (1e-2, 4e-3)  # least duration of a sample: full, quick
EFFORT = tuple(
    Effort(rounds, seconds, slow_seconds=math.inf)
    for rounds, seconds in zip((9, 5), SAMPLE_SECONDS, strict=True)
)
COPY_EFFORT = Effort(7, 0.0, slow_seconds=math.inf)
CHUNK_WORDS = 1 << 24  # compared at a time
SHARED_WORDS = 4096  # the tile of kernel `shared`
READ_BLOCK = 256  # threads per block of the kernels that loop
TRIAL_STEPS = 256  # of a GPU's chains, that tell how long a step takes
CPU_CHAIN_BYTES = 12 * 64  # what a thread of the cpu's chains works on
CPU_CACHED_BYTES = 1 << 28  # that a thread moves in a run, from a cache
CPU_STEPS = 1 << 18  # of the cpu's chains, in a run
LEAST_PART = 2048  # bytes of a cache's share that are worth measuring


@dataclass(frozen=True)
class Ceiling:
    """The highest rate of a device, of one kind.

    Attributes
    ----------
    name : str
        "DRAM read", "L2 read", "shared memory", "FMA float32", ...
    unit : {"B/s", "FLOP/s"}
    rate : float
        In that unit: the best sample's.
    spread : float
        Distance of the samples' quartiles, as a share of the median; 0 for a datasheet's.

    Examples
    --------
    >>> import gpuopt
    >>> peak = gpuopt.roofline("sim:m2090").peak("float32")
    >>> peak.name, peak.unit, round(peak.rate / 1e12, 2)
    ('FMA float32', 'FLOP/s', 1.33)
    """

    name: str
    unit: str
    rate: float = field(metadata=POSITIVE)
    spread: float = 0.0


class WordKernels:
    """Words, an output and a number of repetitions for kernels of family "roofline"."""

    def __init__(
        self, device: Device, words: np.ndarray, output: int, n: int, repeats: int
    ) -> None:
        self.words, self.device = words, device.name
        room = np.empty(output, np.uint32)  # only its length is used
        problem = ("roofline", "words", "uint32", "uint32", (words,), room, (n, repeats))
        self.bench = _core.Workbench(problem, device=self.device)

    def contender(self, rung: str | None, check: Callable[[np.ndarray], bool]) -> Contender:
        """Return a rung for a race, verified by a check; None: the plain copy."""
        named = (rung,) if rung else ()
        return Contender(
            lambda runs, cold: self.bench.time(*named, runs=runs),
            lambda: self.verify(rung, check),
            name=rung or "the plain copy",
        )

    def rate(
        self, rung: str, work: float, check: Callable[[np.ndarray], bool], quick: bool
    ) -> tuple[float, float]:
        """Return the best sample's work a second, and the samples' spread.

        The best sample is the ceiling: other load on the machine makes samples longer, none
        shorter.
        """
        (ran,) = race([self.contender(rung, check)], EFFORT[quick])
        return work / ran.warm.least, ran.warm.spread

    def verify(self, rung: str | None, check: Callable[[np.ndarray], bool]) -> None:
        """Raise VerificationError if a run's result is wrong."""
        if not check(self.bench.run(*((rung,) if rung else ()))):
            wrong = f"ceiling {rung!r}" if rung else "the copy"
            raise VerificationError(
                f"{wrong} on {self.device} gave a wrong result: nothing was measured"
            )


def plain_copy(words: np.ndarray, device: Device) -> WordKernels:
    """Return the copy of words, with `contender(None, ...)`, which bounds what moves data."""
    return WordKernels(device, words, words.size, words.size, 1)


# --- what the kernels shall give


def _random_words(n: int) -> np.ndarray:
    return oracle.draw(n, np.dtype(np.uint32), np.random.default_rng(1))


def _sum(words: np.ndarray, times: int = 1) -> int:
    return int(words.sum(dtype=np.uint64)) * times % 2**32


def _counts_up(got: np.ndarray, base: np.uint32) -> bool:
    """Tell whether item i is base + i, modulo 2^32."""
    piece = np.arange(min(got.size, CHUNK_WORDS), dtype=np.uint32) + base
    return all(
        np.array_equal(got[at : at + piece.size], piece[: got.size - at] + np.uint32(at % 2**32))
        for at in range(0, got.size, piece.size)
    )


def _chains(dtype: str) -> np.ndarray:
    """Return what multiply-add chains take: -1, 1, 2, and whole numbers to begin with."""
    firsts = np.random.default_rng(2).integers(0, 500, 1021)
    values = np.concatenate([[-1, 1, 2], firsts]).astype(dtype)
    return np.repeat(values, 2) if dtype == "float16" else values


def _chains_end(values: np.ndarray, dtype: str, items: int, added: int) -> np.ndarray:
    """Return where chains are to which steps added a whole number.

    On the cpu two steps add 1: x -> -x + 1 -> -(-x + 1) + 2 = x + 1. On a GPU each step adds 1:
    x -> x * 1 + 1. The sum stands still at the first whole number whose successor is no number of
    the dtype.
    """
    lanes = 2 if dtype == "float16" else 1
    firsts = values[::lanes][3:].astype(np.float64)
    most = 2.0 ** (np.finfo(dtype).nmant + 1)
    ends = np.minimum(firsts + added, most).astype(dtype)
    return np.repeat(np.resize(ends, items), lanes)


def _matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two matrices of -1, 0 and 1, and what their products are added to."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-1, 2, (16, 16)), rng.integers(-1, 2, (16, 8))
    return a.astype(np.float16), b.astype(np.float16), rng.integers(0, 500, 1021).astype(np.float32)


# --- memory


def _memory(
    device: Device, quick: bool, names: tuple[str, str, str], n: int, repeats: int, outputs: int
) -> list[tuple[str, float, float]]:
    """Measure (kind, rate, spread) of read, write and copy on n words, so often over."""
    words = _random_words(n)
    amount = float(n * WORD * repeats)
    read, write, copy = names
    total = _sum(words, repeats)
    found = []
    problem = WordKernels(device, words, outputs, n, repeats)
    rate = problem.rate(read, amount, lambda got: _sum(got) == total, quick)
    found.append(("read", *rate))
    del problem  # before the next takes memory
    problem = WordKernels(device, words, n, n, repeats)
    rate = problem.rate(write, amount, lambda got: _counts_up(got, words[0]), quick)
    found.append(("write", *rate))
    rate = problem.rate(copy, 2 * amount, lambda got: parts.same(got, words), quick)
    found.append(("copy", *rate))
    return found


def _dram_words(device: Device, quick: bool) -> int:
    """Return how many words outgrow the caches by far, and fit the device and the host twice."""
    from gpuopt.catalog.devices import device as describe

    room = min(device.memory_free, describe("cpu").memory_free) // 4
    return min(DRAM_BYTES[device.kind][quick], room) // WORD // 16 * 16


def copy_bandwidth(device: Device, rounds: int = 7, bytes_read: int | None = None) -> float:
    """Return what a plain copy reaches on a device, in bytes read and written a second."""
    n = bytes_read // WORD if bytes_read else _dram_words(device, True)
    words = _random_words(n)
    copy = plain_copy(words, device).contender(None, lambda got: parts.same(got, words))
    race([copy], COPY_EFFORT)
    return 2 * n * WORD / copy.warm.median


# --- a GPU


def _resident(device: Device) -> int:
    """Return how many threads fill a GPU."""
    try:
        warps = models.gpu(device).warps
    except ValueError:  # a newer GPU: 48 divides its limit
        warps = 48
    return device.multiprocessors * warps * models.WARP


def _gpu_arithmetic(device: Device, dtype: str, quick: bool) -> Ceiling:
    rung = f"fma-{dtype}"
    row = next(each for each in rungs("roofline") if each.name == rung)
    values = _chains(dtype)
    words = values.view(np.uint32)
    output = _resident(device) * row.items_per_thread
    items = output // (2 if dtype == "float64" else 1)
    flops = 2 * items * (2 if dtype == "float16" else 1)

    def problem(steps: int) -> WordKernels:
        return WordKernels(device, words, output, words.size, steps)

    def check(got: np.ndarray, steps: int) -> bool:
        return np.array_equal(got.view(dtype), _chains_end(values, dtype, items, steps))

    # With few steps each one changes the result; long chains of float16 reach a fixed point.
    trial = problem(TRIAL_STEPS)
    trial.verify(rung, lambda got: check(got, TRIAL_STEPS))
    once = trial.bench.time(rung, runs=4) / TRIAL_STEPS
    steps = 2 * max(256, int(SAMPLE_SECONDS[quick] / 4 / once))
    rate, spread = problem(steps).rate(
        rung, float(flops) * steps, lambda got: check(got, steps), quick
    )
    return Ceiling(f"FMA {dtype}", "FLOP/s", rate, spread)


def _gpu_tensor(device: Device, quick: bool) -> Ceiling:
    rung = "mma-float16"
    row = next(each for each in rungs("roofline") if each.name == rung)
    a, b, firsts = _matrices()
    words = np.concatenate(
        [a.ravel().view(np.uint32), b.T.copy().ravel().view(np.uint32), firsts.view(np.uint32)]
    )
    output = _resident(device) * row.items_per_thread
    product = (a.astype(np.float64) @ b.astype(np.float64)).ravel()

    def problem(repeats: int) -> WordKernels:
        return WordKernels(device, words, output, words.size, repeats)

    trial = problem(64).bench
    trial.run(rung)
    repeats = max(64, int(64 * SAMPLE_SECONDS[quick] / 2 / trial.time(rung, runs=4)))

    def check(got: np.ndarray) -> bool:
        right = np.resize(firsts, output) + np.resize(product * repeats, output)
        return np.array_equal(got.view(np.float32), right.astype(np.float32))

    rate, spread = problem(repeats).rate(rung, 2.0 * 16 * output * repeats, check, quick)
    return Ceiling("tensor float16", "FLOP/s", rate, spread)


def _gpu_shared(device: Device, quick: bool) -> Ceiling:
    words = _random_words(SHARED_WORDS)
    blocks, repeats = _resident(device) // READ_BLOCK, 4096
    total = _sum(words, repeats)
    problem = WordKernels(device, words, blocks, SHARED_WORDS, repeats)
    amount = float(blocks * repeats * SHARED_WORDS * WORD)
    rate = problem.rate("shared", amount, lambda got: bool((got == total).all()), quick)
    return Ceiling("shared memory", "B/s", *rate)


def _gpu_l2(device: Device, quick: bool) -> list[Ceiling]:
    if not device.cache_bytes:
        return []
    n = 1 << (device.cache_bytes // 2 // WORD).bit_length() - 1
    repeats = max(2, (1 << 34) // (n * WORD))
    words = _random_words(n)
    total = _sum(words, repeats)
    problem = WordKernels(device, words, _resident(device) // READ_BLOCK, n, repeats)
    amount = float(n * WORD * repeats)
    rate = problem.rate("read", amount, lambda got: _sum(got) == total, quick)
    return [Ceiling("L2 read", "B/s", *rate)]


def _gpu(device: Device, quick: bool, progress: Progress) -> list[Ceiling]:
    progress("bandwidth of DRAM", 0.0)
    n, blocks = _dram_words(device, quick), _resident(device) // READ_BLOCK
    found = [
        Ceiling(f"DRAM {kind}", "B/s", *rate)
        for kind, *rate in _memory(device, quick, ("read", "write", "copy"), n, 1, blocks)
    ]
    progress("bandwidth of L2", 0.7)
    found += _gpu_l2(device, quick)
    progress("bandwidth of shared memory", 0.75)
    found.append(_gpu_shared(device, quick))
    for at, dtype in enumerate(("float64", "float32", "float16")):
        progress(f"multiply-adds of {dtype}", 0.8 + 0.05 * at)
        found.append(_gpu_arithmetic(device, dtype, quick))
    progress("tensor cores", 0.95)
    found.append(_gpu_tensor(device, quick))
    return found


# --- the cpu


def _cpu_caches() -> list[tuple[str, int]]:
    """Return the data caches as (name, bytes that each thread may fill), nearest first."""
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size, shared = (
                (index / name).read_text().strip()
                for name in ("type", "level", "size", "shared_cpu_list")
            )
        except OSError:
            continue
        match = re.fullmatch(r"(\d+)([KM]?)", size)
        if kind == "Instruction" or not match:
            continue
        sharing = 0
        for part in shared.split(","):
            first, _, last = part.partition("-")
            sharing += int(last or first) - int(first) + 1
        size_bytes = int(match[1]) << {"": 0, "K": 10, "M": 20}[match[2]]
        found.append((f"L{level}", size_bytes // max(1, sharing)))
    return found


def _cpu(device: Device, quick: bool, progress: Progress) -> list[Ceiling]:
    threads = device.multiprocessors
    names = ("host-read", "host-write", "memcpy")
    found = []
    levels = [(name, share) for name, share in _cpu_caches() if share >= LEAST_PART]
    for at, (level, share) in enumerate(levels):
        progress(f"bandwidth of {level}", 0.1 * at)
        # A copy has two arrays: together they take half of the cache.
        n = threads * (share // 4 // WORD // 64 * 64)
        repeats = max(2, CPU_CACHED_BYTES * threads // (n * WORD))
        for kind, *rate in _memory(device, quick, names, n, repeats, threads):
            found.append(Ceiling(f"{level} {kind}", "B/s", *rate))
    progress("bandwidth of DRAM", 0.1 * len(levels))
    n = _dram_words(device, quick)
    dram = [
        Ceiling(f"DRAM {kind}", "B/s", *rate)
        for kind, *rate in _memory(device, quick, names, n, 1, threads)
    ]
    for at, dtype in enumerate(("float64", "float32")):
        progress(f"multiply-adds of {dtype}", 0.8 + 0.1 * at)
        found.append(_cpu_arithmetic(device, dtype, quick))
    return dram + found


def _cpu_arithmetic(device: Device, dtype: str, quick: bool) -> Ceiling:
    rung = f"host-fma-{dtype}"
    values = _chains(dtype)
    words = values.view(np.uint32)
    output = device.multiprocessors * CPU_CHAIN_BYTES // WORD
    items, steps = output * WORD // values.itemsize, CPU_STEPS
    problem = WordKernels(device, words, output, words.size, steps)

    def check(got: np.ndarray) -> bool:
        # The chains' first values begin anew for no thread: item j has the j-th of them.
        return np.array_equal(got.view(dtype), _chains_end(values, dtype, items, steps // 2))

    rate, spread = problem.rate(rung, 2.0 * items * steps, check, quick)
    return Ceiling(f"FMA {dtype}", "FLOP/s", rate, spread)


# --- a simulated GPU


def preset(name: str) -> dict[str, object]:
    """Return the datasheet's row of a simulated GPU, named "sim:h200"."""
    wanted = name.partition(":")[2]
    return next(row for row in _core.presets() if row["name"] == wanted)


def _datasheet(device: Device) -> list[Ceiling]:
    row = preset(device.name)
    found = [Ceiling("DRAM", "B/s", 1e9 * row["bandwidth_gbs"])]
    # A bank's width each clock; before Kepler a bank delivered every second clock (deck D2).
    clocks = 0.5 if row["compute_capability"] < 30 else 1.0
    width = row["bank_bytes"] * row["banks"]
    banks = width * row["multiprocessors"] * 1e9 * row["clock_ghz"]
    found.append(Ceiling("shared memory", "B/s", clocks * banks))
    # Three operands of 4 bytes for each multiplication and addition (deck D2: 8 TB/s).
    found.append(Ceiling("registers", "B/s", 3 * WORD * 1e9 * row["f32_gflops"] / 2))
    for dtype, peak in (("float64", row["f64_gflops"]), ("float32", row["f32_gflops"])):
        if peak:
            found.append(Ceiling(f"FMA {dtype}", "FLOP/s", 1e9 * peak))
    return found


def measure(device: Device, quick: bool, progress: Progress) -> list[Ceiling]:
    """Measure a device's ceilings; of a simulated GPU, return the datasheet's.

    Raises
    ------
    VerificationError
        A kernel gave a wrong result.
    """
    if device.kind == "sim":
        return _datasheet(device)
    return (_gpu if device.kind == "cuda" else _cpu)(device, quick, progress)
