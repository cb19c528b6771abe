"""The least time that a GPU's datasheet allows for counted work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from gpuopt import _core
from gpuopt.models import gpu
from gpuopt.observe.counters import Counters
from gpuopt.util.serialise import Written
from gpuopt.util.table import Column, Table, Tabled

# Warp instructions that a multiprocessor issues per clock, from a compute capability on. Since
# Kepler two of independent instructions per scheduler, since Maxwell one. (CUDA programming guide,
# arithmetic throughput per compute capability; the G80 takes 4 clocks for a warp on 8 lanes.)
ISSUE = ((50, 4.0), (30, 8.0), (20, 1.0), (10, 0.25))
# Clocks of a pass through shared memory: 2 before Kepler, where it runs at half the lanes' clock.
PASS_CLOCKS = ((30, 1), (10, 2))


def _from(table: Iterable[tuple[int, Any]], capability: int) -> Any:
    return next(value for least, value in table if capability >= least)


@dataclass(frozen=True)
class LaunchBound:
    """The least times of one launch, in seconds, by resource."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    seconds: dict[str, float]

    @property
    def least(self) -> float:
        """The largest of the least times: no launch is faster."""
        return max(self.seconds.values())

    @property
    def by(self) -> str:
        """The resource that takes longest."""
        return max(self.seconds, key=self.seconds.__getitem__)


@dataclass(frozen=True, repr=False)
class Bounds(Written, Tabled):
    """The least time of each launch on a GPU; `print` and Jupyter show a table.

    Attributes
    ----------
    device : str
        The GPU's name.
    launches : list of LaunchBound
        Each has `kernel`, `grid`, `block`, `seconds` (a dict from resources to least times),
        `least` (the largest of them) and `by` (its resource).

    Notes
    -----
    Resources: "DRAM", bytes of a cold and perfect cache over the peak bandwidth; "shared memory",
    passes through the banks; "issue", warp instructions, where PTX's stand for the machine's;
    "float32" and "float64", operations over the peak rate. Multiprocessors that get no block do
    not count. Latency, L2 and the launch itself are left out: a kernel takes longer.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> x = np.ones(1 << 16, np.float32)
    >>> bounds = gpuopt.profile(gpuopt.reduce, x, variant=7).bounds("h200")
    >>> bounds.launches[0].by
    'issue'
    """

    KIND = "bounds"
    TOLD = ("device",)
    RECORDS = "launches"

    device: str
    launches: list[LaunchBound]

    @property
    def seconds(self) -> float:
        """The least time of all launches, one after the other."""
        return sum(each.least for each in self.launches)

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each launch, for pandas: times in seconds."""
        return [
            {"kernel": each.kernel, "grid": each.grid, "block": each.block}
            | each.seconds
            | {"least": each.least, "by": each.by}
            for each in self.launches
        ]

    def _table(self) -> Table:
        names = list(dict.fromkeys(name for each in self.launches for name in each.seconds))
        columns = [
            Column("kernel", "kernel", left=True),
            Column("blocks", "blocks"),
            Column("least", "at least\nus", "~", 1e6),
            Column("by", "by", left=True),
            *(Column(name, f"{name}\nus", "~", 1e6) for name in names),
        ]
        records = [
            each | {"blocks": prod(each["grid"]), "kernel": short(each["kernel"])}
            for each in self.records()
        ]
        return Table(columns, records)

    def _above(self) -> list[str]:
        return [f"least times on {self.device}, by its datasheet"]


def short(kernel: str) -> str:
    """Return a kernel's name, cut to 28 characters."""
    return kernel if len(kernel) <= 28 else f"{kernel[:27]}…"


def bound(row: dict[str, Any], counted: Counters, grid: tuple[int, int, int]) -> dict[str, float]:
    """Return a launch's least times on a preset, in seconds, by resource.

    Parameters
    ----------
    row : dict
        The preset's row in `_core.presets`.
    counted : Counters
    grid : (int, int, int)
    """
    clocks = row["clock_ghz"] * 1e9 * min(row["multiprocessors"], prod(grid))
    capability = row["compute_capability"]
    share = min(1.0, prod(grid) / row["multiprocessors"])
    passes = counted.shared_load_wavefronts + counted.shared_store_wavefronts
    found = {
        "DRAM": counted.dram_bytes / (row["bandwidth_gbs"] * 1e9),
        "shared memory": passes * _from(PASS_CLOCKS, capability) / clocks,
        "issue": counted.warp_instructions / (_from(ISSUE, capability) * clocks),
    }
    for name, flops in (("float32", counted.flops_f32), ("float64", counted.flops_f64)):
        peak = row[f"f{name[5:]}_gflops"] * 1e9 * share
        if flops and peak:
            found[name] = flops / peak
    return found


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in _core.presets()}


def preset_row(device: Any) -> dict[str, Any]:
    """Return the row of a preset, given as "h200", "sim:h200" or a device; leave it unchanged."""
    rows = _rows()
    name = device.removeprefix("sim:") if isinstance(device, str) else ""
    return rows[name if name in rows else gpu(device).name]
