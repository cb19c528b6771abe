"""gpuopt against the libraries that people use: the same work, in one run, verified.

The works and their bars stand in workloads.py, other libraries' calls in peer_libraries.py, the
table in bench_table.py. Everybody's calls are made from Python and take turns, round by round; each
result is checked before the first round and after the last. Where a work is a family's of kernels,
its launches are also queued from C and timed by the device's events: the kernels without Python,
for the bars that are rates.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.catalog.devices import Device, device as describe_device, device_name, gpu_number
from gpuopt.families import registry
from gpuopt.families.cases import with_output
from gpuopt.families.device_calls import LEGACY, DeviceArray, asarray, empty
from gpuopt.measure import peer_libraries, random_works, workloads
from gpuopt.measure.ceilings import WordKernels, plain_copy
from gpuopt.measure.ladder_result import PeerTimes
from gpuopt.measure.peer_libraries import LeftOutError, Peer
from gpuopt.measure.race import Contender, Effort, Progress, Timing, race
from gpuopt.measure.workloads import Bar, Check, Workload
from gpuopt.show import bench_table, random_table
from gpuopt.util import parts
from gpuopt.util.checks import names
from gpuopt.util.names import suggests, unknown_name
from gpuopt.util.serialise import Result

ROUNDS = (9, 3)  # samples of each: full, quick
# Least duration of a sample: long against its first launch and its wait.
SAMPLE_SECONDS = (2e-2, 1e-3)
WARM_UP_SECONDS = 0.1  # of a GPU's work before the first sample: clocks rise
MEMORY_SHARE = 0.85  # of the free memory, for one workload
HOST_COPIES = 3  # of a work's arrays, on the host: the data, and what came from two at a time
WORD = 4  # bytes, of the copy that bounds what moves data
# A hundred works of a draw take a minute or so.
RANDOM_EFFORT = Effort(5, 2e-3, 1e-2, hopeless=16)
# Samples shorter than a scheduler's time slice: others' work on the host's cores disturbs a few of
# them, not the median.
RANDOM_EFFORT_CPU = Effort(21, 2e-4, slow_seconds=1e-3, slow_rounds=9, hopeless=16)


@dataclass
class BenchRow:
    """One work, verified and timed.

    Attributes
    ----------
    group, title : str
        The workload.
    touched : int
        Bytes that the algorithm reads and writes, each once, and those in a view's gaps.
    flops : int
        Operations, if the rate counts them; else 0.
    warm, cold : Timing
        Times of gpuopt's calls: on the same data each time; on other data, from memory (no
        samples where the data is more than caches hold anyway, or so little that they hold all its
        copies).
    kernels : Timing
        The same, warm, with launches queued from C, on a GPU; no samples where the workload is none
        of a family's problems.
    copy_rate : float
        Bytes read and written a second by a plain copy of as many; 0 where it was not measured.
    peers : list of PeerTimes
    refused : list of (str, str)
        Libraries that were left out, and why.
    """

    group: str
    title: str
    touched: int
    flops: int = 0
    warm: Timing = field(default_factory=Timing)
    cold: Timing = field(default_factory=Timing)
    kernels: Timing = field(default_factory=Timing)
    copy_rate: float = 0.0
    peers: list[PeerTimes] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median for rates: the kernels' where it is known, else the calls'."""
        return (self.kernels if self.kernels.samples else self.warm).median

    @property
    def rate(self) -> float:
        """Bytes per second; operations per second, where `flops` tells them."""
        return (self.flops or self.touched) / self.seconds

    @property
    def of_copy(self) -> float | None:
        """The share of a copy's speed, or None."""
        return self.touched / self.seconds / self.copy_rate if self.copy_rate else None

    def ratio(self, mode: str = "warm", against: Sequence[str] = ()) -> float | None:
        """Return how many times as fast as the fastest other library; None where there is none.

        Parameters
        ----------
        mode : {"warm", "cold"}
        against : sequence of str
            Only these; default: all.
        """
        mine: Timing = getattr(self, mode)
        others = [
            getattr(peer, mode).median
            for peer in self.peers
            if getattr(peer, mode).samples and (not against or peer.name in against)
        ]
        return min(others) / mine.median if others and mine.samples else None

    def reached(self, bar: Bar) -> float | None:
        """Return what a bar asks for, as it was measured; None where it could not be."""
        return {
            "x": lambda: self.ratio("warm", bar.against),
            "of copy": lambda: self.of_copy,
            "GB/s": lambda: self.touched / self.seconds / 1e9,
            "us": lambda: self.warm.median * 1e6,
        }[bar.what]()

    def meets(self, bar: Bar) -> bool | None:
        """Return whether a bar is met; None where that could not be measured."""
        reached = self.reached(bar)
        return None if reached is None else bench_table.meets(bar, reached)


@dataclass
class Bench(Result):
    """The result of `gpuopt.bench`; it shows itself as a table.

    Attributes
    ----------
    device : Device
    rows : list of BenchRow
        One for each work: `title`, `warm`, `cold`, `ratio()`, ...
    refused : list of (str, str)
        Works that were left out, and why.
    wrong : list of (str, str)
        Works of which gpuopt's result was wrong, and how: they have no times.
    quick : bool
        Less data and fewer samples: not what the bars are for.
    date, version : str
        When it was measured, by which gpuopt.
    seed : int or None
        The seed of the random draw; None: the works are the project's own.

    Examples
    --------
    >>> import gpuopt
    >>> measured = gpuopt.bench("cpu", quick=True, only=["sum of 2^10"])
    >>> measured.rows[0].title, [peer.name for peer in measured.rows[0].peers][:1]
    ('sum of 2^10 float32', ['NumPy'])
    >>> gpuopt.Bench.from_dict(measured.to_dict()) == measured
    True
    """

    KIND = "bench"

    device: Device
    rows: list[BenchRow]
    refused: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    quick: bool = False
    date: str = ""
    version: str = ""
    seed: int | None = None

    def bars(self, row: BenchRow) -> list[Bar]:
        """Return the bars that the project has set for a row's work on this device."""
        if self.seed is not None:
            return []
        return workloads.bars(row.title, self.device.kind, self.device.description, row.touched)

    def table(self, every: bool = False) -> str:
        """Return the table; many works of a kind take one line, unless `every` is true.

        A random draw has a summary of each kind and its worst works, or every one.
        """
        if self.seed is not None:
            return random_table.text(self, every)
        return bench_table.text(self, every, workloads.GROUPS, workloads.DTYPES)

    def __repr__(self) -> str:
        """Return the table."""
        return self.table()

    def _repr_html_(self) -> str:
        return bench_table.html(self)

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each row, as ``pandas.DataFrame`` takes them.

        Times are in microseconds, rates in GB/s or GFLOP/s.
        """
        return bench_table.records(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, strings, lists and dicts, for JSON."""
        told = super().to_dict()
        for told_row, row in zip(told["rows"], self.rows, strict=True):
            told_row["bars"] = [
                {"bar": str(bar), "reached": row.reached(bar), "met": row.meets(bar)}
                for bar in self.bars(row)
            ]
        return told


# --- ours


class _Strided:
    """A view of an array on a GPU, as any library would hand it over."""

    def __init__(self, array: DeviceArray, whole: np.ndarray, part: np.ndarray) -> None:
        offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        self.array = array  # keeps the memory
        self.__cuda_array_interface__ = {
            "data": (array.address + offset, False),
            "shape": part.shape,
            "strides": part.strides,
            "typestr": array.dtype.str,
            "version": 3,
            "stream": LEGACY,
        }


def _view_there(array: DeviceArray, whole: np.ndarray, part: np.ndarray) -> Any:
    """Return a view on a GPU: CuPy's, as most users would have it, or one of no known library."""
    strided = _Strided(array, whole, part)
    try:
        cupy = importlib.import_module("cupy")
        address, _ = strided.__cuda_array_interface__["data"]
        gpu = int(array.device.rpartition(":")[2])
        held = cupy.cuda.UnownedMemory(array.address, array.nbytes, array, gpu)
        at = cupy.cuda.MemoryPointer(held, address - array.address)
        return cupy.ndarray(part.shape, part.dtype, at, part.strides)
    except Exception:  # not installed, or it does not know the dtype
        return strided


def _function(work: Workload, device: str) -> Callable[..., Any]:
    """Return gpuopt's call: it takes `out`, and the work's arguments."""
    task = work.task
    if task.family == "reduce":
        along = {} if task.axis is None else {"axis": task.axis}
        return lambda out, x: registry.reduce(x, task.op, out=out, device=device, **along)
    if task.family == "transpose":
        axes: dict[str, Any] = {} if task.axes is None else {"axes": task.axes}
        return lambda out, a: registry.transpose(a, out=out, device=device, **axes)
    if task.family == "stencil1d":
        more: dict[str, Any] = {}
        if task.axis is not None:
            more = {"weights": task.weights, "mode": task.mode, "axis": task.axis}
            more["origin"] = task.origin
        window = (task.radius, task.radius - 1) if task.even else task.radius
        return lambda out, a: registry.stencil1d(a, window, out=out, device=device, **more)
    call = {"add": registry.add, "saxpy": registry.saxpy, "matmul": registry.matmul}[task.family]
    return lambda out, *given: call(*given, out=out, device=device)


@dataclass
class _Ours(Peer):
    """gpuopt's calls. To be verified, a call writes into memory that is not right before it."""

    _verified: Callable[[], np.ndarray] = lambda: np.empty(0)

    def run(self) -> np.ndarray:
        """Return the result of one call; the next one takes the same memory."""
        return self._verified()


def _ours(work: Workload, arguments: tuple[Any, ...], device: Device) -> _Ours:
    """Return gpuopt's calls: on a GPU, of arrays that are there, to others (`out`) there."""
    task, name = work.task, device.name
    call = _function(work, name)
    shape, dtype = work.result_shape, workloads.numpy_dtype(task.dtype)
    on_host = np.empty(shape, dtype)  # the poison, and then what came

    def poison() -> np.ndarray:
        parts.fill(on_host, 0xFF)
        return on_host

    def wait() -> None:
        if device.kind != "cpu":
            _core.wait(name, LEGACY)

    from_host = device.kind == "cpu" or task.from_host
    value = np.empty((), dtype)  # a number comes by the shortest way: a 0-d array on the host
    where = name if from_host else None

    def number(x: Any) -> Any:
        return registry.reduce(x, task.op, out=value, device=where).item()

    if from_host:
        one = number if task.as_number else lambda *given: call(None, *given)
        move = (lambda each: each) if task.from_host else np.copy
        calls = peer_libraries.bound("gpuopt", one, move, arguments, viewed=task.viewed)

        def verified() -> np.ndarray:
            return call(poison(), *task.viewed(arguments))

        return _Ours("gpuopt", _core.__version__, calls, np.asarray, wait, _verified=verified)

    views = task.viewed(arguments)  # of the host's arrays: where elements are

    def viewed(array: Any, there: Any, view: Any) -> Any:
        return there if view is array or not task.views else _view_there(there, array, view)

    def one_there(*given: Any) -> Callable[[], Any]:
        room = empty(shape, dtype, name)
        return lambda: call(room, *given)

    there = peer_libraries.moved("gpuopt", lambda a: asarray(a, name), arguments)
    moved = [list(map(viewed, arguments, given, views)) for given in there]
    calls = [partial(number, *given) if task.as_number else one_there(*given) for given in moved]

    def verified_there() -> np.ndarray:
        if task.as_number:
            return call(poison(), *moved[0])
        return call(asarray(poison(), name), *moved[0]).get(on_host)

    return _Ours("gpuopt", _core.__version__, calls, np.asarray, wait, _verified=verified_there)


def _kernels(work: Workload, arguments: tuple[Any, ...], device: Device) -> _core.Workbench | None:
    """Return the work as a problem of a family's, for times without Python; None if it is none."""
    task = work.task
    plain = task.axis is None and not (task.as_number or task.views or task.axes or work.label)
    if device.kind != "cuda" or not plain:
        return None
    if task.family == "reduce":
        return _core.Workbench("reduce", *arguments, task.op, device=device.name)
    maker = {
        "transpose": registry.transpose_problem,
        "stencil1d": lambda a: registry.stencil1d_problem(a, task.radius),
        "add": registry.add_problem,
        "saxpy": registry.saxpy_problem,
        "matmul": registry.matmul_problem,
    }[task.family]
    return _core.Workbench(with_output(maker(*arguments)), device=device.name)


def _copy(work: Workload, arguments: tuple[Any, ...], device: Device) -> WordKernels | None:
    """Return the copy of the workload's own bytes, which bounds what moves data."""
    n = work.touched // 2 // WORD // 16 * 16
    if work.task.family not in ("transpose", "stencil1d") or not n:
        return None
    if work.label and work.output_bytes < random_works.COPIED_BYTES:
        return None
    held = arguments[0].reshape(-1).view(np.uint8)
    return plain_copy(held[: min(n, held.size // WORD // 16 * 16) * WORD].view(np.uint32), device)


# --- measuring


class _WrongError(Exception):
    """gpuopt's result is wrong."""


def _verify(work: Workload, check: Check, got: np.ndarray, kernels: _core.Workbench | None) -> None:
    error = check(got, True)
    if not error and got.dtype.name != work.task.dtype:
        error = f"{got.dtype} instead of {work.task.dtype}"
    if not error and kernels:
        flat = np.asarray(kernels.run()).view(got.dtype).reshape(got.shape)
        error = check(flat, True)
    if error:
        raise _WrongError(f"it gave {error}")


def _check_memory(work: Workload, device: Device, others: int, held: int) -> None:
    """Raise LeftOutError where a work does not fit, with everybody's copies; `held` is there."""
    copies = 1 if work.label else peer_libraries.copies_for(work.input_bytes)
    one = work.input_bytes * copies + work.output_bytes
    # Our arrays with an output for each copy, each library's own, and the problem and the copy that
    # are timed without Python.
    there = one * (1 + others) + work.output_bytes * (copies - 1)
    there += 2 * max(peer_libraries.COLD_BYTES, work.touched) - held
    host = HOST_COPIES * work.touched
    if device.kind == "cpu":
        host, there = host + there, 0
    free = describe_device("cpu").memory_free * MEMORY_SHARE
    if host > free:
        raise LeftOutError(f"needs {host / 2**30:.1f} GiB of the host, {free / 2**30:.1f} are free")
    free = describe_device(device.name).memory_free * MEMORY_SHARE
    if there > free:
        raise LeftOutError(f"needs {there / 2**30:.1f} GiB of {device.name}, "
                          f"{free / 2**30:.1f} are free")  # fmt: skip


def _contenders(
    work: Workload, arguments: tuple[Any, ...], device: Device, row: BenchRow, check: Check
) -> list[Contender]:
    """Return gpuopt's calls and, if the workload has such, its kernels and a copy."""
    try:
        ours, kernels = _ours(work, arguments, device), _kernels(work, arguments, device)
    except (TypeError, ValueError, MemoryError) as error:
        raise LeftOutError(f"gpuopt does not take it: {error}") from None
    cold = ours.copies > 1 and not work.task.from_host  # of which all copies are one
    cold = cold and peer_libraries.can_be_cold(arguments, device.cache_bytes)

    def verify() -> None:
        try:
            got = ours.run()
        except (TypeError, ValueError, MemoryError) as error:
            raise LeftOutError(f"gpuopt does not take it: {error}") from None
        _verify(work, check, got, kernels)

    found = [Contender(ours.time, verify, row.warm, row.cold if cold else None, name="gpuopt")]
    if kernels:
        timed = lambda runs, cold: kernels.time(runs=runs)  # noqa: E731
        found.append(Contender(timed, lambda: None, row.kernels, name="gpuopt's kernels"))
    return found


def _measure(work: Workload, device: Device, wanted: Sequence[str], effort: Effort,
             held: list[peer_libraries.Arguments]) -> BenchRow:  # fmt: skip
    """Race gpuopt, the libraries and a copy; raise LeftOutError where that cannot be, _WrongError
    if gpuopt's result is wrong. `held` has the arguments if a workload before has drawn them.
    """  # noqa: D205
    libraries = [name for name in peer_libraries.names(work.task.family) if name in wanted]
    if device.kind == "cuda" and not work.task.from_host:
        libraries = [name for name in libraries if name not in peer_libraries.ON_HOST]
    _check_memory(work, device, len(libraries), held[0].held if held else 0)
    row = BenchRow(work.group, work.title, work.touched, work.flops)
    if not held:
        held.append(peer_libraries.Arguments(workloads.draw(work), cold=not work.label))
    arguments = held[0]
    check = workloads.check_of(work, arguments)
    ours = _contenders(work, arguments, device, row, check)
    peers, row.refused = peer_libraries.find(work.task, arguments, gpu_number(device), libraries)
    others = [
        peer.contender(lambda got: check(got, False), ours[0].cold is not None) for peer in peers
    ]
    contenders, copy = [*ours, *others], _copy(work, arguments, device)
    if copy:
        copied = copy.contender(None, lambda got: parts.same(got, copy.words))
        contenders.append(copied)
    if device.kind == "cuda":
        for contender in contenders:
            contender.check = partial(_core.wait, device.name, LEGACY)
    race(contenders, effort)
    for peer, each in zip(peers, others, strict=True):
        if each.failure:
            row.refused.append((peer.name, each.failure))
        else:
            times = PeerTimes(peer.name, peer.version, each.warm, each.cold or Timing())
            row.peers.append(times)
    if copy:
        row.copy_rate = 2 * copy.words.nbytes / copied.warm.median
    return row


def _effort(measured: Bench) -> Effort:
    gpu = measured.device.kind == "cuda"
    if measured.seed is not None:
        return RANDOM_EFFORT if gpu else RANDOM_EFFORT_CPU
    quick = measured.quick
    return Effort(ROUNDS[quick], SAMPLE_SECONDS[quick], WARM_UP_SECONDS if gpu else 0.0)


def _is_meant(work: Workload, name: str) -> bool:
    """Tell whether a name means a work: its group, words of its title, or both."""
    first, *rest = name.replace(",", "").split() or [""]
    if first in workloads.GROUPS or first in random_works.KINDS:
        return first == work.group and set(rest) <= work.words
    return {first, *rest} <= work.words


def _chosen(works: list[Workload], only: Iterable[str] | None) -> list[Workload]:
    """Return the works that `only` means, in their own order."""
    if only is None:
        return works
    titles = {work.title for work in works}
    chosen: set[str] = set()
    for name in names(only, "only"):
        found = {name} & titles or {each.title for each in works if _is_meant(each, name)}
        if not found:
            more = ", or words of a work's line in the table, such as 'axis float16 sum'"
            raise ValueError(unknown_name("only", name, "a group of works", workloads.GROUPS, more))
        chosen |= found
    return [each for each in works if each.title in chosen]


def _check_peers(peers: Iterable[str] | None) -> Sequence[str]:
    if peers is None:
        return peer_libraries.NAMES
    peers = names(peers, "peers")
    for name in peers:
        if name not in peer_libraries.NAMES:
            raise ValueError(
                f"peers: {name!r} is not known; "
                f"use some of {', '.join(map(repr, peer_libraries.NAMES))}"
            )
    return peers


def _measure_all(measured: Bench, works: list[Workload], wanted: Sequence[str], progress: Progress,
                 on_result: Callable[[str], None]) -> None:  # fmt: skip
    held: list[peer_libraries.Arguments] = []
    for at, work in enumerate(works):
        progress(work.title, at / len(works))
        try:
            row = _measure(work, measured.device, wanted, _effort(measured), held)
        except LeftOutError as error:
            measured.refused.append((work.title, str(error)))
            line = bench_table.left_out(*measured.refused[-1])
        except MemoryError as error:  # others on the device took it after the check
            measured.refused.append((work.title, f"no memory: {error}".splitlines()[0]))
            line = bench_table.left_out(*measured.refused[-1])
        except _WrongError as error:
            measured.wrong.append((work.title, str(error)))
            line = bench_table.wrong(*measured.wrong[-1])
        except Exception as error:  # a lost GPU, say: the traceback does not name the work
            error.add_note(f"while measuring {work.title}")
            raise
        else:
            measured.rows.append(row)
            line = bench_table.line(measured, row)
        finally:
            if work is works[-1] or not work.has_arguments_of(works[at + 1]):
                held.clear()
            peer_libraries.release(gpu_number(measured.device))
        on_result(line)


@suggests
def bench(
    device: str | None = None,
    *,
    only: Iterable[str] | None = None,
    quick: bool = False,
    peers: Iterable[str] | None = None,
    random: int | None = None,
    cases: int | None = None,
    kinds: Iterable[str] | None = None,
    progress: Progress = lambda text, share: None,
    on_result: Callable[[str], None] = lambda line: None,
) -> Bench:
    """Measure gpuopt against the libraries that people use; `print` gives a table of ratios.

    Sums from 2^10 to 2^30 elements; sums, maxima and their places along every axis of many shapes,
    dtypes and layouts; transposes, stencils, matrix products, vectors; a small sum's way to Python,
    and a NumPy array's to the GPU. Each library does the same work on its own arrays, on the same
    GPU or on the host; all take turns, and every result is verified before and after. A result of
    another library that is wrong has no time.

    Parameters
    ----------
    device : str, optional
        "cuda", "cuda:1" or "cpu". Default: GPUOPT_DEVICE; else a GPU if there is one, else the cpu.
    only : iterable of str, optional
        Groups ("sum", "axis", "layout", "transpose", "permute", "stencil", "matmul", "vector",
        "call", "host"), or words of a work's title, as "axis float16 sum". Default: all,
        hundreds of works.
    quick : bool
        Smaller arrays and fewer samples; the bars are for the others.
    peers : iterable of str, optional
        Libraries to measure: "NumPy", "SciPy", "CuPy" (its sums are CUB's, its matrix products
        cuBLAS's), "cuBLAS" (transposes, through CuPy), "PyTorch", "JAX". Default: all that are
        installed; on a GPU without NumPy and SciPy, but for arrays of the host. For a random draw:
        "CuPy" and "PyTorch", on the cpu "NumPy" and "SciPy".
    random : int, optional
        The seed of a draw of works of all kinds, which are measured instead of the project's own:
        random shapes, layouts, axes, dtypes and sizes. The same seed draws the same works.
    cases : int, optional
        How many works are drawn. Default: 100.
    kinds : iterable of str, optional
        Kinds to draw: "axes", "permutes", "stencils", "matmul", "vectors". Default: all.
    progress : callable
        Progress callback: message, fraction from 0 to 1.
    on_result : callable
        Called with a line of text for each work, as soon as it is measured, left out, or found
        wrong: its times, its rate, the ratio to the fastest other library, and the bars.
        ``on_result=print`` shows results as they come.

    Returns
    -------
    Bench

    Raises
    ------
    ValueError
        An unknown device, name, library or kind; a simulated GPU, which has no timer; a seed below
        0; fewer cases than 1.
    VerificationError
        The copy that others are compared with is wrong. A wrong result of gpuopt's raises nothing:
        `Bench.wrong` has it, and the other works are measured.
    DeviceError
        The device cannot serve.

    Notes
    -----
    Times are of calls from Python, back to back, by the host's clock, waited for once at the end;
    on a GPU gpuopt's calls write into existing arrays (``out=``). A call of less than some
    10 microseconds is bound by Python, everybody's: the column "kernels" tells gpuopt's own without
    it. Arrays that with everybody's copies do not fit into memory are left out; JAX takes three
    quarters of a GPU's memory at once unless XLA_PYTHON_CLIENT_PREALLOCATE is "false", which the
    command line sets.

    Examples
    --------
    >>> import gpuopt
    >>> measured = gpuopt.bench("cpu", quick=True, only=["transpose float64"], peers=["NumPy"])
    >>> [(row.title, row.ratio() > 0) for row in measured.rows]
    [('transpose of 256 x 512 float64', True)]
    """
    described = describe_device(device_name(device, "cpu"))
    if described.kind == "sim":
        raise ValueError(
            f"device: {described.name} has no timer to compare with; it gives counters "
            "(gpuopt.ladder, gpuopt.profile), device='cuda' or 'cpu' gives times"
        )
    drawn = random_works.checked(random, cases, kinds)
    if random is None:
        works = workloads.works(described.kind, quick=quick)
    else:
        works = random_works.works(described.kind, *drawn)
        peers = random_works.PEERS[described.kind] if peers is None else peers
    wanted = _check_peers(peers)
    works = _chosen(works, only)
    measured = Bench(
        described,
        [],
        quick=quick,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        version=_core.__version__,
        seed=random,
    )
    try:
        _measure_all(measured, works, wanted, progress, on_result)
    finally:
        workloads.forget()
    return measured
