"""Which devices there are, and how gpuopt was built."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.util.table import Listing

KINDS = ("cuda", "cpu", "sim")


@dataclass(frozen=True)
class Device:
    """A device that can serve.

    Attributes
    ----------
    name : str
        What ``device=`` takes: "cuda:0", "cpu".
    kind : str
        "cuda", "cpu" or "sim".
    description : str
        The maker's name of it.
    memory_total, memory_free : int
        Bytes.
    multiprocessors : int
        Streaming multiprocessors; on the cpu, threads that OpenMP uses.
    compute_capability : str
        "9.0"; empty on the cpu.
    clock_mhz, memory_clock_mhz : float
        The highest clocks; 0 where they are not known.
    memory_bus_bits : int
        0 where it is not known.
    cache_bytes : int
        The last-level cache.

    Examples
    --------
    >>> import gpuopt
    >>> fermi = gpuopt.roofline("sim:m2090").device
    >>> fermi.name, fermi.multiprocessors, fermi.compute_capability
    ('sim:m2090', 16, '2.0')
    """

    name: str
    kind: str
    description: str
    memory_total: int
    memory_free: int
    multiprocessors: int
    compute_capability: str
    clock_mhz: float
    memory_clock_mhz: float
    memory_bus_bits: int
    cache_bytes: int


@dataclass(frozen=True)
class Availability:
    """Whether a kind of device can serve: true or false, with the reason.

    Attributes
    ----------
    kind : str
        "cuda", "cpu" or "sim".
    count : int
        How many there are.
    reason : str
        Why there is none, or how many there are.

    Examples
    --------
    >>> import gpuopt
    >>> found = gpuopt.available("cpu")
    >>> bool(found), found.kind, found.count
    (True, 'cpu', 1)
    """

    kind: str
    count: int
    reason: str

    def __bool__(self) -> bool:
        """Return whether there is at least one."""
        return self.count > 0


def device(name: str) -> Device:
    """Describe one device, given by the name that ``device=`` takes."""
    info = _core.device_info(name)
    capability = info["compute_capability"]
    return Device(
        name=info["name"],
        kind=info["kind"],
        description=info["description"],
        memory_total=info["memory_total"],
        memory_free=info["memory_free"],
        multiprocessors=info["multiprocessors"],
        compute_capability=f"{capability // 10}.{capability % 10}" if capability else "",
        clock_mhz=info["clock_khz"] / 1e3,
        memory_clock_mhz=info["memory_clock_khz"] / 1e3,
        memory_bus_bits=info["memory_bus_bits"],
        cache_bytes=info["cache_bytes"],
    )


def gpu_number(each: Device) -> int | None:
    """Return the driver's number of a GPU, 1 for "cuda:1"; None for what is no GPU."""
    return int(each.name.partition(":")[2]) if each.kind == "cuda" else None


def available(kind: str = "cuda") -> Availability:
    """Tell whether a kind of device can serve, and why not.

    Parameters
    ----------
    kind : {"cuda", "cpu", "sim"}

    Returns
    -------
    Availability
        True or false, with `reason` and `count`.

    Raises
    ------
    ValueError
        An unknown kind.

    Examples
    --------
    >>> import gpuopt
    >>> bool(gpuopt.available("cpu"))
    True
    >>> gpuopt.available("cpu").reason
    '1 device'
    """
    try:
        count = _core.device_count(kind)
    except RuntimeError as error:
        return Availability(kind, 0, str(error))
    return Availability(kind, count, f"{count} device{'s' if count != 1 else ''}")


def device_name(name: str | None, otherwise: str) -> str:
    """Return the device that is meant: the one named, GPUOPT_DEVICE, a GPU; else `otherwise`."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"device: must be a string, as 'cpu' or 'cuda:1', not {name!r}")
    named = name or os.environ.get("GPUOPT_DEVICE")
    return named or ("cuda" if available("cuda") else otherwise)


def devices() -> list[Device]:
    """List every device that can serve: GPUs, the cpu, simulated GPUs.

    Returns
    -------
    list of Device
        It shows itself as a table.

    Examples
    --------
    >>> import gpuopt
    >>> {"cpu", "sim:h200", "sim:g80"} <= {device.name for device in gpuopt.devices()}
    True
    """
    return Listing(
        (device(f"{kind}:{number}") for kind in KINDS for number in range(available(kind).count)),
        {"name": lambda each: each.name, "what it is": describe},
    )


def config() -> dict[str, Any]:
    """Return what `show_config` prints, for JSON."""
    found = devices()  # opens the driver, if there is one: its version is known only then
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
        **_core.config(),
        "devices": [asdict(each) for each in found],
    }


def show_config() -> None:
    """Print how gpuopt was built and what it finds here, for a bug report.

    The cpu's rungs named "simd" use the widest vectors that the CPU has. The environment's
    GPUOPT_CPU_ISA, read once, names a narrower set: "baseline", "avx2" or "avx512". The results
    are the same to the last bit.

    Raises
    ------
    ValueError
        GPUOPT_CPU_ISA names a set that this CPU has not; the message lists those that it has.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.show_config()  # doctest: +ELLIPSIS
    gpuopt ...
    """
    config = _core.config()
    toolkit = config["toolkit"]
    print(f"gpuopt {config['version']}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"  system      {platform.platform()}, {sys.implementation.name}")
    print(f"  compiler    {config['compiler']}")
    print(f"  kernels     machine code for {config['architectures'] or 'no GPU'}, PTX for 7.5, 9.0")
    print(f"  {'':<12}{config['reason']}; by {config['kernel_compiler']}")
    print(
        f"  {'':<12}{config['machine_code_bytes']:,} bytes of machine code, "
        f"{config['ptx_bytes']:,} of compressed PTX"
    )
    print(f"  headers     CUDA {toolkit // 1000}.{toolkit % 1000 // 10}")
    for kind in KINDS:
        found = available(kind)
        if not found:
            print(f"  {kind:<12}no: {found.reason}")
        for number in range(found.count):
            each = device(f"{kind}:{number}")
            print(f"  {each.name:<12}{describe(each)}")
            if kind == "cuda":
                print(f"  {'':<12}{kernels_of(each)}")
            if kind == "cpu":
                print(f"  {'':<12}instruction set {config['instruction_set']} (GPUOPT_CPU_ISA)")
    config = _core.config()  # again: by now the driver is open, if there is one
    driver = config["driver"]
    if driver:
        print(
            f"  driver      CUDA {driver // 1000}.{driver % 1000 // 10}, {config['driver_library']}"
        )


def kernels_of(each: Device) -> str:
    """Return which of the embedded kernels a GPU runs: machine code, or PTX for its driver."""
    config = _core.config()
    major, minor = map(int, each.compute_capability.split("."))
    known = [divmod(int(code), 10) for code in config["architectures"].split() if code.isdigit()]
    if config["driver"] // 1000 < config["toolkit"] // 1000:
        reason = "the driver is older than the machine code"
    elif any(each_major == major and each_minor <= minor for each_major, each_minor in known):
        return "runs the machine code"
    else:
        reason = "no machine code for it was built"
    target = "9.0" if major >= 9 else "7.5"
    return f"runs the PTX for {target}, compiled by the driver at the first call ({reason})"


def describe(each: Device) -> str:
    """Return a device in one line."""
    parts = [each.description, f"{each.memory_total / 2**30:.0f} GiB"]
    if each.kind != "cpu":
        parts.append(f"{each.multiprocessors} multiprocessors")
        parts.append(f"compute capability {each.compute_capability}")
        parts.append(f"{each.clock_mhz:.0f} MHz")
    else:
        parts.append(f"{each.multiprocessors} threads")
    return ", ".join(parts)
