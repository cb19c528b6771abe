"""The available devices, and the configuration of this build."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.util.names import suggests

KINDS = ("cuda", "cpu", "sim")


@dataclass(frozen=True)
class Device:
    """An available device.

    Attributes
    ----------
    name : str
        The value for ``device=``: "cuda:0", "cpu".
    kind : str
        "cuda", "cpu" or "sim".
    description : str
        The vendor's name.
    memory_total, memory_free : int
        Bytes.
    multiprocessors : int
        Streaming multiprocessors; on the cpu, OpenMP's threads.
    compute_capability : str
        "9.0"; empty on the cpu.
    clock_mhz, memory_clock_mhz : float
        The highest clocks; 0 if unknown.
    memory_bus_bits : int
        0 if unknown.
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
    """Whether a kind of device is available: true or false, with the reason.

    Attributes
    ----------
    kind : str
        "cuda", "cpu" or "sim".
    count : int
        The number of devices.
    reason : str
        The reason why there is none, or the number of devices.

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
    """Return the device of a name, as ``device=`` accepts it."""
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
    """Return the driver's ordinal of a GPU, 1 for "cuda:1"; None for other devices."""
    return int(each.name.partition(":")[2]) if each.kind == "cuda" else None


def preset_of(each: Device) -> str:
    """Return the preset of a GPU, "sim:h100", by its model and its multiprocessors; "" if none."""
    if each.name == "sim":
        return "sim:h200"
    for row in _core.presets():
        model = re.findall(r"\w*\d\w*|Orin", row["title"].partition(" (")[0])[0]
        fits = each.multiprocessors == row["multiprocessors"] and model in each.description
        if each.name == f"sim:{row['name']}" or (each.kind == "cuda" and fits):
            return f"sim:{row['name']}"
    return ""


@suggests
def available(kind: str = "cuda") -> Availability:
    """Report whether a kind of device is available, and why not.

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
    """Return the device named, else GPUOPT_DEVICE, else a GPU, else `otherwise`."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"device: must be a string, as 'cpu' or 'cuda:1', not {name!r}")
    named = name or os.environ.get("GPUOPT_DEVICE")
    return named or ("cuda" if available("cuda") else otherwise)


def devices() -> list[Device]:
    """List the available devices: GPUs, the cpu, simulated GPUs.

    Returns
    -------
    list of Device
        Its repr is a table.

    Examples
    --------
    >>> import gpuopt
    >>> {"cpu", "sim:h200", "sim:g80"} <= {device.name for device in gpuopt.devices()}
    True
    """
    from gpuopt.util.table import Listing  # a computation prints no table

    return Listing(
        (device(f"{kind}:{number}") for kind in KINDS for number in range(available(kind).count)),
        {"name": lambda each: each.name, "what it is": describe},
    )


def config() -> dict[str, Any]:
    """Return the contents of `show_config`, for JSON."""
    found = devices()  # opens the driver, if there is one: its version is unknown before
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
        **_core.config(),
        "devices": [asdict(each) for each in found],
    }


def show_config() -> None:
    """Print the build's configuration and the devices found, for a bug report.

    The cpu's rungs named "simd" use the widest vectors of the CPU. The environment variable
    GPUOPT_CPU_ISA, read once, selects "baseline", "avx2" or "avx512" instead. The results are
    bitwise equal.

    Raises
    ------
    ValueError
        GPUOPT_CPU_ISA names an instruction set that this CPU lacks; the message lists valid ones.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.show_config()  # doctest: +ELLIPSIS
    gpuopt ...
    """
    config = _core.config()
    toolkit = config["toolkit"]
    print(f"gpuopt {config['version']}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"  system        {platform.platform()}, {sys.implementation.name}")
    print(f"  compiler      {config['compiler']}")
    targets = ", ".join(f"{target[0]}.{target[1]}" for target in config["ptx_targets"].split())
    print(
        f"  kernels       machine code for {config['architectures'] or 'no GPU'}, PTX for {targets}"
    )
    print(f"  {'':<14}{config['reason']}; by {config['kernel_compiler']}")
    print(
        f"  {'':<14}{config['machine_code_bytes']:,} bytes of machine code, "
        f"{config['ptx_bytes']:,} of compressed PTX"
    )
    print(f"  headers       CUDA {toolkit // 1000}.{toolkit % 1000 // 10}")
    for kind in KINDS:
        found = available(kind)
        if not found:
            print(f"  {kind:<14}no: {found.reason}")
        for number in range(found.count):
            each = device(f"{kind}:{number}")
            print(f"  {each.name:<14}{describe(each)}")
            if kind == "cuda":
                print(f"  {'':<14}{kernels_of(each)}")
            if kind == "cpu":
                print(f"  {'':<14}instruction set {config['instruction_set']} (GPUOPT_CPU_ISA)")
    config = _core.config()  # queried again: the driver is open by now
    driver = config["driver"]
    if driver:
        version = f"{driver // 1000}.{driver % 1000 // 10}"
        print(f"  driver        CUDA {version}, {config['driver_library']}")


def kernels_of(each: Device) -> str:
    """Return which embedded kernels a GPU runs: machine code, or PTX that its driver compiles."""
    config = _core.config()
    major, minor = map(int, each.compute_capability.split("."))
    known = [divmod(int(code), 10) for code in config["architectures"].split() if code.isdigit()]
    if config["driver"] // 1000 < config["toolkit"] // 1000:
        reason = "the driver is older than the machine code"
    elif any(each_major == major and each_minor <= minor for each_major, each_minor in known):
        return "runs the machine code"
    else:
        reason = "no machine code for it was built: install gpuopt again on this machine"
    target = "9.0" if major >= 9 and "90" in config["ptx_targets"] else "7.5"
    return f"runs the PTX for {target}, compiled by the driver at the first call ({reason})"


def describe(each: Device) -> str:
    """Describe a device in one line."""
    parts = [each.description, f"{each.memory_total / 2**30:.0f} GiB"]
    if each.kind != "cpu":
        parts.append(f"{each.multiprocessors} multiprocessors")
        parts.append(f"compute capability {each.compute_capability}")
        parts.append(f"{each.clock_mhz:.0f} MHz")
    else:
        parts.append(f"{each.multiprocessors} threads")
    return ", ".join(parts)
