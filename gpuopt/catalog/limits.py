"""The limits of each GPU: of a multiprocessor, of a block, and the rule of coalescing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gpuopt import _core
from gpuopt.catalog.devices import Device, device as describe_device
from gpuopt.util.names import suggests, unknown_name

WARP = 32  # lanes


@dataclass(frozen=True)
class Gpu:
    """The limits of a multiprocessor, and its rule of coalescing.

    Attributes
    ----------
    name, title : str
    compute_capability : str
    warps, blocks : int
        Resident on a multiprocessor at most.
    threads_per_block : int
    registers, register_unit, warp_unit : int
        32-bit registers of a multiprocessor; the unit of their allocation to a warp (to a block if
        `registers_by_block`); and the number of warps that the register file serves together.
    shared, shared_per_block, shared_unit, shared_reserved : int
        Bytes of shared memory of a multiprocessor and, at most, of a block; the unit of their
        allocation; and the bytes of every block that the system reserves.
    banks, bank_lanes : int
        Banks of shared memory, and the lanes served together: 16 is a half-warp.
    bank_bytes : int
        Width of a bank: 4, and 8 on Kepler, where words i and i + 32 of 64 do not conflict.
    coalescing : {"strict", "segments", "lines", "sectors"}
        The rule of compute capability 1.0 and 1.1, 1.2 and 1.3, 2.x, and since.
    """

    name: str
    title: str
    compute_capability: str
    warps: int
    blocks: int
    threads_per_block: int
    registers: int
    register_unit: int
    warp_unit: int
    registers_by_block: bool
    shared: int
    shared_per_block: int
    shared_unit: int
    shared_reserved: int
    banks: int
    bank_lanes: int
    bank_bytes: int
    coalescing: str


def _gpu(row: dict[str, Any]) -> Gpu:
    """Return a preset's limits, from its row of csrc/sim/core/sim_preset.def."""
    values = {field.name: row[field.name] for field in fields(Gpu)}
    values["compute_capability"] = "{}.{}".format(*divmod(row["compute_capability"], 10))
    values["coalescing"] = row["coalescing"].lower()
    return Gpu(**values)


GPUS = {row["name"]: _gpu(row) for row in _core.presets()}


@suggests
def gpu(which: str | Device | Gpu) -> Gpu:
    """Return the limits of a GPU.

    Parameters
    ----------
    which : str, Device or Gpu
        A preset (a key of `GPUS`: "g80", "gt200", "m2090", "k40", "gtx1080", "v100", "t4",
        "a100", "a10", "a10g", "orin", "l4", "rtx4090", "h100", "h100pcie", "h200", "b200",
        "rtx5090"), also as the name of its device, "sim:g80"; or a device of `gpuopt.devices`,
        which counts as the preset of its name, else as one of its compute capability.

    Returns
    -------
    Gpu

    Raises
    ------
    ValueError
        No such preset, or a compute capability that none has.
    TypeError
        Something else.

    Examples
    --------
    >>> from gpuopt.models import gpu
    >>> gpu("h200").warps, gpu("g80").shared_per_block
    (64, 16384)
    """
    if isinstance(which, Gpu):
        return which
    if isinstance(which, Device):
        alike = {
            name: each
            for name, each in GPUS.items()
            if each.compute_capability == which.compute_capability
        }
        described = which.description.lower().replace(" ", "")
        named = [name for name in alike if name in described]
        if alike:
            return alike[max(named, key=len) if named else next(iter(alike))]
        raise ValueError(
            f"gpu: nothing is known of compute capability {which.compute_capability or 'none'} "
            f"({which.name}); use one of {', '.join(GPUS)}"
        )
    if not isinstance(which, str):
        raise TypeError(f"gpu: must be a preset's name or a device, not {which!r:.60}")
    name = which
    if which == "sim":  # its default
        name = describe_device(which).name
    name = name.removeprefix("sim:")
    if name not in GPUS:
        raise ValueError(unknown_name("gpu", which, "a preset", GPUS))
    return GPUS[name]
