"""The roofline: a device's ceilings, kernels placed under them, and which ceiling binds each.

Ceilings are measured once for each device and kept on disk; of a simulated GPU they are its
datasheet's, and labelled so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from gpuopt import _core
from gpuopt.arrays.dtypes import TYPES, name_of, named_dtype, supported
from gpuopt.catalog.devices import Device, device as describe_device, device_name
from gpuopt.measure import ceilings as ceilings_module
from gpuopt.measure.ceilings import Ceiling
from gpuopt.observe.profile import Profile
from gpuopt.show import terminal
from gpuopt.util import files
from gpuopt.util.checks import finite
from gpuopt.util.literals import DeviceName
from gpuopt.util.names import suggests, unknown_name
from gpuopt.util.serialise import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gpuopt.measure.ladder_result import Ladder

FASTER = 1.03  # than a ceiling: beyond what measuring explains


@dataclass(frozen=True)
class Point:
    """A kernel's run: its operations, bytes and time.

    Attributes
    ----------
    name : str
    flops, bytes : float
        Operations; bytes that the algorithm reads and writes, each once.
    seconds : float
    dtype : str
        Dtype of the arithmetic, which selects the ceiling.
    counted : bool
        Whether the seconds are the least that the ceilings allow for counted work, not a run's.

    Examples
    --------
    >>> import gpuopt
    >>> point = gpuopt.Point("saxpy", flops=2e6, bytes=12e6, seconds=1e-4)
    >>> round(point.intensity, 3), point.rate, point.bandwidth
    (0.167, 20000000000.0, 120000000000.0)
    """

    name: str
    flops: float
    bytes: float
    seconds: float
    dtype: str = "float32"
    counted: bool = False

    @property
    def intensity(self) -> float:
        """Operations per byte; infinite where nothing is moved."""
        return self.flops / self.bytes if self.bytes else math.inf

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.flops / self.seconds

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds


@dataclass(frozen=True)
class Bound:
    """The ceiling that binds a kernel, and the kernel's distance from it.

    Attributes
    ----------
    kernel, ceiling : str
    limit, reached : float
        In `unit`, "B/s" or "FLOP/s".
    unit : str
    note : str
        A remark about the answer, or "".
    seconds : float
        The least time of work that was counted and not run; else 0.

    Examples
    --------
    >>> import gpuopt
    >>> roof = gpuopt.roofline("sim:m2090")
    >>> bound = roof.bound(roof.place("naive", flops=2e9, bytes=8e9, seconds=0.1))
    >>> print(bound)
    naive: bound by memory (DRAM), 80.0 GB/s of 177 GB/s, 45%
    >>> bound.share < 0.5
    True
    """

    kernel: str
    ceiling: str
    limit: float
    reached: float
    unit: str
    note: str = ""
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Reached over limit."""
        return self.reached / self.limit

    def __repr__(self) -> str:
        """Return the answer as a sentence."""
        kind = "arithmetic" if self.unit == "FLOP/s" else "memory"
        if self.seconds:
            return (
                f"{self.kernel}: bound by {kind} ({self.ceiling}, "
                f"{terminal.rate(self.limit, self.unit)}), at least {self.seconds * 1e6:,.2f} us"
            )
        return (
            f"{self.kernel}: bound by {kind} ({self.ceiling}), "
            f"{terminal.rate(self.reached, self.unit)} of {terminal.rate(self.limit, self.unit)}, "
            f"{self.share:.0%}" + (f"; {self.note}" if self.note else "")
        )


def _arithmetic(dtype: DTypeLike) -> str:
    """Return the name of an arithmetic: a dtype's, or that of tensor cores."""
    if isinstance(dtype, str) and (dtype == "bfloat16" or dtype.startswith("tensor")):
        return dtype
    found = named_dtype(dtype)
    if not supported(found):
        raise TypeError(f"dtype: no kernel computes in {found}; {TYPES}")
    return name_of(found)


@dataclass
class Roofline(Result):
    """A device's ceilings, and kernels under them; it shows itself as text, `plot` draws it.

    Attributes
    ----------
    device : Device
    ceilings : list of Ceiling
    source : {"measured", "datasheet"}
    dtype : str
        The arithmetic that is meant where none is named.
    points : list of Point
        Kernels, from `place` and `add`.
    date, version, driver : str
        When, by which gpuopt, and under which driver it was measured.
    quick : bool
        Measured with less data and fewer samples.

    Examples
    --------
    >>> import gpuopt
    >>> roof = gpuopt.roofline("sim:m2090")
    >>> roof.source, round(roof.ridge(), 1)
    ('datasheet', 7.5)
    >>> gpuopt.Roofline.from_dict(roof.to_dict()) == roof
    True
    """

    KIND = "roofline"

    device: Device
    ceilings: list[Ceiling]
    source: str = "measured"
    dtype: str = "float32"
    points: list[Point] = field(default_factory=list)
    date: str = ""
    version: str = ""
    driver: str = ""
    quick: bool = False

    def ceiling(self, name: str) -> Ceiling:
        """Return a ceiling by name; of several that begin so ("DRAM"), the highest.

        Raises
        ------
        ValueError
            There is none; the message lists them.
        """
        found = [each for each in self.ceilings if each.name == name] or [
            each for each in self.ceilings if each.name.startswith(f"{name} ")
        ]
        if not found:
            known = [each.name for each in self.ceilings]
            raise ValueError(
                unknown_name("ceiling", name, f"a ceiling of {self.device.name}", known)
            )
        return max(found, key=lambda each: each.rate)

    def peak(self, dtype: DTypeLike | None = None) -> Ceiling:
        """Return the arithmetic's ceiling; integers, which have none, count as float32.

        Parameters
        ----------
        dtype : dtype, optional
            "float64", "float32", "float16", or "tensor float16". Default: the roofline's.

        Returns
        -------
        Ceiling

        Raises
        ------
        ValueError
            The device has none for this dtype; the message lists its ceilings.
        TypeError
            It is no dtype.
        """
        wanted = self.dtype if dtype is None else _arithmetic(dtype)
        if wanted.startswith("tensor"):
            return self.ceiling(wanted)
        return self.ceiling(f"FMA {wanted if wanted.startswith('float') else 'float32'}")

    def attainable(
        self, intensity: float, *, dtype: DTypeLike | None = None, memory: str = "DRAM"
    ) -> float:
        """Return the rate that the ceilings allow a kernel.

        Parameters
        ----------
        intensity : float
            Operations for each byte that is moved; more than 0.
        dtype : dtype, optional
            As `peak`.
        memory : str
            The ceiling that feeds it: "DRAM" (the best of read, write and copy), "DRAM copy",
            "L2 read", "shared memory", ...

        Returns
        -------
        float
            Operations per second.
        """
        if not intensity > 0:
            raise ValueError(f"intensity: must be more than 0, not {intensity!r}")
        return min(self.peak(dtype).rate, intensity * self.ceiling(memory).rate)

    def ridge(self, *, dtype: DTypeLike | None = None, memory: str = "DRAM") -> float:
        """Return the intensity from which on arithmetic binds, in operations per byte."""
        return self.peak(dtype).rate / self.ceiling(memory).rate

    def place(
        self,
        name: str,
        flops: float,
        bytes: float,
        seconds: float,
        *,
        dtype: DTypeLike | None = None,
    ) -> Point:
        """Put a kernel's run on the roofline.

        Parameters
        ----------
        name : str
        flops, bytes : float
            Operations, and bytes that the algorithm reads and writes; not both 0. A kernel without
            operations (a copy) is in the table and has a bound, but no place in a plot.
        seconds : float
        dtype : dtype, optional
            Dtype of its arithmetic.

        Returns
        -------
        Point

        Raises
        ------
        ValueError
            A number that is negative or not finite, nothing done, no time; or the device has no
            ceiling for the dtype.
        TypeError
            No number, no dtype.
        """
        flops, bytes = finite(flops, "flops"), finite(bytes, "bytes")
        seconds = finite(seconds, "seconds")
        if not seconds > 0:
            raise ValueError(f"seconds: must be more than 0, not {seconds!r}")
        if not (flops >= 0 and bytes >= 0 and flops + bytes > 0):
            raise ValueError(
                f"flops, bytes: must not be negative, and not both 0, not {flops!r}, {bytes!r}"
            )
        point = Point(
            str(name), flops, bytes, seconds, self.dtype if dtype is None else _arithmetic(dtype)
        )
        ratios = [point.rate] * bool(flops) + [point.bandwidth] * bool(bytes)
        ratios += [point.intensity] * bool(flops and bytes)
        if not all(0 < each < math.inf for each in ratios):
            raise ValueError(
                f"flops, bytes, seconds: {flops!r}, {bytes!r} and {seconds!r} have no finite ratios"
            )
        self.peak(point.dtype)  # reports a missing ceiling now, not when the roofline is shown
        self.points.append(point)
        return point

    def _add_counted(self, profile: Profile) -> None:
        """Put the kernels of a profile where the ceilings allow them to be."""
        if not profile.launches:
            raise ValueError("profile: it has no launches")
        for kernel, counted in profile.by_kernel().items():
            dtype = max(
                ("float32", "float64", "float16"), key=lambda name: counted[f"flops_f{name[5:]}"]
            )
            flops, moved = float(counted.flops), float(counted.dram_bytes)
            times = [flops / self.peak(dtype).rate, moved / self.ceiling("DRAM").rate]
            if max(times):
                self.points.append(Point(kernel, flops, moved, max(times), dtype, counted=True))

    def add(self, ladder: Ladder | Profile) -> Roofline:
        """Put the rungs of a ladder, or the kernels of a profile, on the roofline; return self.

        Parameters
        ----------
        ladder : Ladder or Profile
            A ladder's rungs have their cold times. The kernels of a profile have none: a kernel
            stands where its counted operations and bytes of DRAM allow it to be at most.

        Raises
        ------
        ValueError
            The ladder has no times (a simulated GPU counts), or is another device's; the profile
            has no launches.
        """
        if isinstance(ladder, Profile):
            self._add_counted(ladder)
            return self
        if not ladder.timed:
            raise ValueError(
                f"ladder: {ladder.device.name} has counters and no times; measure it on 'cuda' or "
                "'cpu'"
            )
        if ladder.device.description != self.device.description:
            raise ValueError(
                f"ladder: was measured on {ladder.device.description}, this roofline is of "
                f"{self.device.description}"
            )
        for row in ladder.rows:
            self.place(
                f"{ladder.family} {row.rung.variant}",
                0 if row.rung.ceiling else ladder.operations,
                row.algorithm_bytes,
                row.cold.median,
                dtype=ladder.dtype,
            )
        return self

    def bound(self, kernel: str | Point) -> Bound:
        """Tell which ceiling binds a kernel and how far it is from it.

        Parameters
        ----------
        kernel : str or Point
            A result of `place`, or its name.

        Returns
        -------
        Bound

        Raises
        ------
        ValueError
            No kernel of that name was placed; the message lists them.
        """
        point = kernel
        if not isinstance(point, Point):
            found = [each for each in self.points if each.name == kernel]
            if not found:
                known = ", ".join(f"'{each.name}'" for each in self.points) or "none yet"
                raise ValueError(f"kernel: {kernel!r} was not placed; there is {known}")
            point = found[-1]
        peak = self.peak(point.dtype)
        levels = [
            each
            for name in ("DRAM", "L3", "L2", "L1")
            if any(c.name == name or c.name.startswith(f"{name} ") for c in self.ceilings)
            for each in [self.ceiling(name)]
        ]
        memory, note = levels[0], ""
        for level in levels[1:]:
            if point.bandwidth <= FASTER * memory.rate:
                break
            memory, note = level, f"faster than {memory.name} allows: its data are in a cache"
        least = point.seconds if point.counted else 0.0
        if point.flops / peak.rate >= point.bytes / memory.rate:
            return Bound(point.name, peak.name, peak.rate, point.rate, "FLOP/s", note, least)
        return Bound(point.name, memory.name, memory.rate, point.bandwidth, "B/s", note, least)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the roofline with matplotlib: log-log, ramps and roofs, the ridge, the kernels.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; default: a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            ``ax.figure.savefig("roofline.svg")`` writes it.

        Raises
        ------
        ImportError
            matplotlib is missing; the message names the extra that brings it.
        """
        from gpuopt.show import plots

        return plots.roofline(self, ax)

    def __repr__(self) -> str:
        """Return the ceilings as a table, the drawing, and each kernel's bound."""
        return terminal.roofline(self)


# --- measured once, kept on disk


def _driver() -> str:
    number = _core.config()["driver"]
    return f"CUDA {number // 1000}.{number % 1000 // 10}" if number else ""


def _cache_file(device: Device) -> Path | None:
    """Return where a device's roofline is kept: another driver or clock is another device.

    None for a user without a home.
    """
    key = [
        Roofline.FORMAT, _core.__version__, device.name, device.description, device.multiprocessors,
        device.memory_total, device.clock_mhz, device.memory_clock_mhz, _driver(),
    ]  # fmt: skip
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return Path(home, "gpuopt", f"roofline-{device.kind}-{digest}.json")


def _kept(path: Path, quick: bool) -> Roofline | None:
    """Return the roofline kept on disk; None if it is missing, broken, or a quick one."""
    try:
        kept = Roofline.from_dict(json.loads(path.read_text()))
        kept.ridge(dtype="float32")  # which needs the memory's ceiling, and arithmetic's
    except (OSError, ValueError, ArithmeticError):
        return None
    return kept if quick or not kept.quick else None


def _keep(path: Path, measured: Roofline) -> None:
    """Write to disk, whole or not at all; where that cannot be done, do without."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, json.dumps(measured.to_dict(), indent=1))


@suggests
def roofline(
    device: DeviceName | str | None = None,
    *,
    dtype: DTypeLike | None = None,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[str, float], None] = lambda text, share: None,
) -> Roofline:
    """Measure what a device can do at most: its memories and its arithmetic.

    On a GPU: DRAM (read, write, copy), L2, shared memory, fused multiply-adds in float64, float32
    and float16, tensor cores. On the cpu: its caches and memory, and vector arithmetic. For a
    simulated GPU: the peaks of the datasheet.

    Parameters
    ----------
    device : str, optional
        "cuda", "cuda:1", "cpu", "sim:m2090", ... Default: GPUOPT_DEVICE; else a GPU if there is
        one, else the cpu.
    dtype : {"float64", "float32", "float16", "tensor float16"}, optional
        The arithmetic that the answer's methods mean where none is named; default: float32. All
        are measured.
    quick : bool
        Less data and fewer samples: seconds instead of about half a minute.
    fresh : bool
        Measure again, even if this device was measured before.
    progress : callable
        Progress callback: message, fraction from 0 to 1.

    Returns
    -------
    Roofline

    Raises
    ------
    ValueError
        An unknown device or dtype, or one that the device has no arithmetic for; the message lists
        them.
    VerificationError
        A kernel gave a wrong result.
    DeviceError, DeviceMemoryError
        The device cannot serve.

    Notes
    -----
    Every kernel's result is checked to the bit before and after it is timed. Results are kept
    under $XDG_CACHE_HOME/gpuopt (~/.cache/gpuopt), for each device, driver and clock; a broken file
    there is measured again. Tensor cores are driven by mma.sync, which reaches about two thirds of
    what Hopper's own wgmma does.

    Source: deck D2; S. Williams, A. Waterman, D. Patterson, "Roofline" (CACM 52, 2009).

    Examples
    --------
    >>> import gpuopt
    >>> roof = gpuopt.roofline("sim:m2090")  # 1.33 TFLOP/s, 177 GB/s, from the datasheet
    >>> roof.attainable(0.25) / 1e9  # the naive matrix product of deck D2
    44.25
    >>> round(roof.ridge(), 2)
    7.52
    """
    known = ("float64", "float32", "float16", "tensor float16")
    if not (dtype is None or isinstance(dtype, str)):
        dtype = name_of(named_dtype(dtype))
    if dtype not in (None, *known):
        raise ValueError(unknown_name("dtype", dtype, "a dtype with a ceiling", known))
    described = describe_device(device_name(device, "cpu"))
    path = _cache_file(described) if described.kind != "sim" else None
    found = _kept(path, quick) if path and not fresh else None
    if not found:
        found = Roofline(
            described,
            ceilings_module.measure(described, quick, progress),
            source="datasheet" if described.kind == "sim" else "measured",
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            version=_core.__version__,
            driver=_driver() if described.kind == "cuda" else "",
            quick=quick,
        )
        if path:
            _keep(path, found)
    found.dtype = dtype or "float32"
    found.peak()  # the device may have no such arithmetic
    return found
