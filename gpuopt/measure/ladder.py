"""Measure a ladder: verify every rung, time it, verify it again; or read its counters.

A time without a passed check is never shown. Outputs are poisoned before each check and inputs
are random. The rungs take turns, round by round, so that a drift of the machine meets all of them.
Warm means the same data again and again, which a cache may hold; cold means another copy of the
data each time, from more copies than the caches hold.

The simulated GPU has no timer: there each rung is verified and counted, and its time predicted. For
a GPU that is timed it counts as well, on fewer items: the same kernels, at a size that it does in
about a second.

Tables are show/ladder_table.py's, plots show/plots.py's, the sentences show/sentences.py's.
"""

from __future__ import annotations

from datetime import UTC, datetime

from numpy.typing import DTypeLike

from gpuopt import _core
from gpuopt._core import UnfitError
from gpuopt.catalog.devices import device as describe_device, device_name, gpu_number, preset_of
from gpuopt.catalog.rungs import Rung, check_kernel, find, rungs
from gpuopt.families import cases
from gpuopt.families.cases import Case
from gpuopt.measure import peer_libraries, reference_times
from gpuopt.measure.ceilings import copy_bandwidth
from gpuopt.measure.ladder_result import Ladder, LadderRow, PeerTimes
from gpuopt.measure.race import Contender, Effort, Progress, Timing, VerificationError, race
from gpuopt.observe.machine import own_machine
from gpuopt.observe.profile import Profile, profile
from gpuopt.ptx.kernel import resources
from gpuopt.show import ladder_table
from gpuopt.util.checks import whole
from gpuopt.util.literals import DeviceName, Family, Ufunc
from gpuopt.util.names import suggests

DECK_CPU = "2 x E5-2650"  # of the decks' rungs that are no kernels
COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}  # read by the copy that gives the ceiling
SAMPLE_SECONDS = 2e-3  # least duration of a sample of back-to-back runs
WARM_UP_SECONDS = 0.3  # of work before the first sample: clocks rise


def _verify(case: Case, rung: Rung, got: object) -> None:
    error = case.error(rung, got)
    if error:
        raise VerificationError(
            f"{rung.family} rung {rung.variant!r} gave {error}: nothing was measured"
        )


def _block(rung: Rung, block: int | None) -> int | None:
    """Return the block, for a rung that leaves a choice."""
    return block if rung.block_min < rung.block_max else None


# --- measuring


@suggests
def ladder(
    family: Family = "reduce",
    n: int | None = None,
    *,
    op: Ufunc | None = None,
    dtype: DTypeLike | None = None,
    block: int | None = None,
    device: DeviceName | str | None = None,
    counters: bool = True,
    predictions: bool = False,
    peers: bool = False,
    rounds: int = 11,
    seed: int = 0,
    progress: Progress = lambda text, share: None,
) -> Ladder:
    """Verify and time every rung of a ladder on a device; `print` gives the deck's table.

    Parameters
    ----------
    family : {"reduce", "transpose", "stencil1d", "add", "saxpy", "matmul"}
    n : int, optional
        Items; a square matrix (matmul's result) has about this number. Default: the deck's, or
        more than a GPU's caches hold.
    op : {"sum", "prod", "min", "max", "and", "or", "xor"}, optional
        The reduction's operation, by default "sum"; other families have none.
    dtype : dtype, optional
        Dtype of items and result. Default: int32 for "reduce" (the decks' 32-bit arithmetic), else
        float32.
    block : int, optional
        Threads per block, for the rungs that leave a choice (matmul's leave none); default: the
        deck's.
    device : str, optional
        "cuda", "cuda:1", "cpu"; or "sim", "sim:g80", ...: counters instead of times. Default:
        GPUOPT_DEVICE; else a GPU if there is one, else the simulated GPU.
    counters : bool
        On a GPU: also count each rung on the simulated GPU, with as many items as that does in
        about a second for the whole ladder, and say what changed from rung to rung.
    predictions : bool
        On a GPU that a preset describes: count all `n` items on the simulated one, which may take
        minutes, and show predicted times beside the measured ones. A simulated GPU always predicts.
    peers : bool
        Also time the same work by NumPy, SciPy, CuPy, cuBLAS (through CuPy), PyTorch and JAX, as
        far as they are installed, and on the same GPU if they use one.
    rounds : int
        Samples of each rung: runs back to back, timed by the device; on a GPU several are started
        as one CUDA graph, so that the host's launches do not count.
    seed : int
        Seed of the random items.
    progress : callable
        Progress callback: message, fraction from 0 to 1.

    Returns
    -------
    Ladder

    Raises
    ------
    VerificationError
        A rung gave a wrong result.
    ValueError, TypeError
        An argument that is wrong: the message names it. Also peers=True on a simulated GPU, which
        has no timer.
    DeviceError, DeviceMemoryError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> measured = gpuopt.ladder("reduce", 10_000, device="cpu", rounds=1)
    >>> [row.rung.name for row in measured.rows]
    ['serial', 'openmp', 'simd']
    >>> print(gpuopt.ladder("reduce", 4096, device="sim").changes()[2])
    bank conflicts 1,485 -> 0; shared-memory wavefronts 2,442 -> 957; warp instructions -18%
    """
    device = device_name(device, "sim")
    described = describe_device(device)
    rounds = whole(rounds, "rounds", 1)
    timed = described.kind != "sim"
    if peers and not timed:
        raise ValueError(
            f"peers: {described.name} has no timer to compare with; it gives counters, device="
            "'cuda' or 'cpu' gives times"
        )
    if predictions and not preset_of(described):
        raise ValueError(
            f"predictions: no preset describes {described.description}; device='sim:h100', say, "
            "predicts for another GPU"
        )
    # The decks' reduction table is of a size that a simulated GPU counts as well.
    large = timed or family == "reduce"
    case = cases.make(family, n, dtype, seed, timed=large, op=op, device=device)
    if block is not None and family == "matmul":
        raise ValueError("block: matmul's rungs have blocks of their own; leave block out")
    wanted = [
        rung
        for rung in rungs(family)
        if rung.host == (described.kind == "cpu") and not rung.historical
    ]
    deck = (DECK_CPU, 0.0) if described.kind == "cpu" and case.deck else case.deck
    measured = Ladder(
        described, (op or "sum") if family == "reduce" else family, case.dtype, case.n, block, [],
        0.0, family, case.title, case.flops, deck, operations=case.operations,
        date=datetime.now(UTC).isoformat(timespec="seconds"), version=_core.__version__,
    )  # fmt: skip
    if not timed:
        _count(measured, case, wanted, device, progress)
        return measured
    _time(measured, case, wanted, device, rounds, _find_peers(measured, case, peers), progress)
    if (counters or predictions) and described.kind == "cuda":
        _count_beside(measured, seed, predictions, progress)
    reference_times.compare_with(measured)
    return measured


def _find_peers(measured: Ladder, case: Case, wanted: bool) -> list[peer_libraries.Peer]:
    """Return the peers that are installed; note why the others are left out."""
    if not wanted:
        return []
    result = measured.dtype
    if result == "bool" and measured.op in ("sum", "prod"):
        result = "int64"
    task = peer_libraries.Task(measured.family, measured.op, result)
    found, measured.peers_refused = peer_libraries.find(
        task, case.arguments, gpu_number(measured.device)
    )
    return found


def _unfit(error: Exception) -> str:
    """Return why a rung cannot take the case; other errors end the ladder."""
    if isinstance(error, UnfitError):
        return str(error)
    raise error


def _time(
    measured: Ladder,
    case: Case,
    wanted: list[Rung],
    device: str,
    rounds: int,
    peers: list[peer_libraries.Peer],
    progress: Progress,
) -> None:
    # Before the rungs: once the copy has run (or graphs on a second stream), an H200 starts the
    # kernels of every graph 0.3 us later until the process ends. So all ladders are alike.
    progress("measuring the copy", 0.05)
    copy = copy_bandwidth(measured.device, bytes_read=COPY_BYTES[measured.device.kind])
    bench = case.bench(device)

    def contender(rung: Rung) -> Contender:
        call = rung.variant, _block(rung, measured.block)
        return Contender(
            lambda runs, cold: bench.time(*call, runs=runs, cold=cold),
            lambda: _verify(case, rung, bench.run(*call)),
            cold=Timing(),
            excuse=_unfit,
        )

    own = [contender(rung) for rung in wanted]
    # A transpose's check depends on the rung: the ceiling is a copy.
    step = next((rung for rung in rungs(measured.family) if not rung.ceiling), None)
    can_be_cold = peer_libraries.can_be_cold(case.arguments, measured.device.cache_bytes)
    others = [peer.contender(lambda got: case.error(step, got), can_be_cold) for peer in peers]
    effort = Effort(
        rounds, SAMPLE_SECONDS, WARM_UP_SECONDS if measured.device.kind == "cuda" else 0.0
    )
    race([*own, *others], effort, lambda text, share: progress(text, 0.15 + 0.75 * share))
    for rung, each in zip(wanted, own, strict=True):
        if each.failure:
            measured.refused.append((rung, each.failure))
        else:
            size = bench.bytes(rung.variant, _block(rung, measured.block))
            measured.rows.append(LadderRow(rung, size, each.warm, each.cold))
    if measured.rows:
        measured.copy_bandwidth = copy
        for peer, each in zip(peers, others, strict=True):
            name = f"{peer.name} {peer.version}"
            if each.failure:
                measured.peers_refused.append((name, each.failure))
            else:
                found = PeerTimes(peer.name, peer.version, each.warm, each.cold or Timing())
                measured.peers.append(found)


def _count(
    measured: Ladder,
    case: Case,
    wanted: list[Rung],
    device: str,
    progress: Progress,
) -> None:
    bench = case.bench(device)
    for at, rung in enumerate(wanted):
        progress(f"counting {ladder_table.label(rung)}", at / len(wanted))
        try:
            counted = profile(case.call, rung, _block(rung, measured.block), device, caches=True)
        except UnfitError as error:
            measured.refused.append((rung, str(error)))
            continue
        _verify(case, rung, counted.result)
        row = LadderRow(rung, counted=counted)
        kernel = counted.launches[0].kernel
        row.registers = resources(kernel, device).registers
        if measured.family == "matmul" and (code := own_machine(kernel, 0)):
            row.compiled_registers = code.registers
        row.algorithm_bytes = bench.bytes(rung.variant, _block(rung, measured.block))
        row.predicted, row.bound, row.unpredicted = _predicted(counted)
        if measured.deck and device == f"sim:{measured.deck[0].lower()}":
            row.predicted_deck = _predicted_deck(case, rung, measured.block, device)
        measured.rows.append(row)


def _predicted(counted: Profile) -> tuple[float, str, str]:
    """Return the predicted seconds and their bound, or 0, "" and why the model has no answer."""
    told = counted.predicted(how="graph")  # as `_time` measures
    return (told.seconds, told.bound, "") if told.bound else (0.0, "", told.note)


def _predicted_deck(case: Case, rung: Rung, block: int | None, device: str) -> float:
    """Return the predicted seconds of the deck's own listing of a rung; 0 if there is none."""
    name = f"{rung.number}-historical"
    listing = next((each for each in rungs(rung.family) if each.name == name), None)
    if listing is None:
        return 0.0
    try:
        counted = profile(case.call, listing, _block(listing, block), device, caches=True)
    except (TypeError, ValueError):
        return 0.0  # the listing is of one dtype and of whole blocks
    _verify(case, listing, counted.result)
    return _predicted(counted)[0]


def count(
    family: str,
    variant: int | str | None = None,
    n: int | None = None,
    *,
    op: str | None = None,
    dtype: DTypeLike | None = None,
    block: int | None = None,
    device: str = "sim",
) -> tuple[Rung, str, Profile]:
    """Verify and count one rung; return it, a line about its data, and the profile.

    The parameters are `ladder`'s, and the rung's number or name; by default the one that the
    library takes for the case. Raises `VerificationError` where the result is wrong.
    """
    rung = None if variant is None else find(family, variant)
    if rung:
        check_kernel(rung, "count")
    case = cases.make(family, n, dtype, op=op, device=device)
    rung = rung or find(family, case.bench(device).rung())
    counted = profile(case.call, rung, _block(rung, block), device, device=device)
    _verify(case, rung, counted.result)
    return rung, f"{case.title}, on a {describe_device(device).description}", counted


def _count_beside(measured: Ladder, seed: int, predicted: bool, progress: Progress) -> None:
    """Count the timed rungs on a simulated GPU: on fewer items, or all of them to predict."""
    n = measured.n if predicted else min(cases.FAMILIES[measured.family].items[1], measured.n)
    device = preset_of(measured.device) if predicted else "sim"
    op = measured.op if measured.family == "reduce" else None
    case = cases.make(measured.family, n, measured.dtype, seed, op=op)
    for at, row in enumerate(measured.rows):
        progress(f"counting {ladder_table.label(row.rung)}", 0.92 + 0.08 * at / len(measured.rows))
        try:
            row.counted = profile(
                case.call, row.rung, _block(row.rung, measured.block), device, caches=predicted
            )
        except ValueError:
            continue  # a rung that cannot take so few items, or what the simulated GPU lacks
        _verify(case, row.rung, row.counted.result)
        if predicted:
            row.predicted, row.bound, row.unpredicted = _predicted(row.counted)
    measured.counted_title = f"{case.title}, on a {describe_device(device).description}"
