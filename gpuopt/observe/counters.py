"""Counters of a launch, a line or a statement, their ratios, and columns of them for tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from gpuopt import _core
from gpuopt.util.checks import whole
from gpuopt.util.names import unknown_name
from gpuopt.util.table import Column

TABLE = _core.counter_table("sim")
NAMES = tuple(name for name, _, _ in TABLE)
COLUMNS = {name: at for at, name in enumerate(NAMES)}
SECTOR = 32  # bytes


_OLD = {f"sim:{row['name']}" for row in _core.presets() if row["coalescing"] != "SECTORS"}


def unit_of(device: str) -> str:
    """Return what a device's transactions with global memory are called.

    Sectors of 32 bytes since compute capability 3.0; before, a rule of the architecture makes
    transactions of several sizes (`gpuopt.models.transactions`).
    """
    return "transaction" if device in _OLD else "sector"


def share(part: float, whole: float) -> float:
    """Return a fraction, 0 of nothing."""
    return part / whole if whole else 0.0


class Counters(Mapping[str, int]):
    """The counters of a launch, line or kernel by name: ``counters.divergent_branches``.

    A mapping from counter names to numbers, with the usual ratios as properties. Two add up.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> counters = gpuopt.profile(gpuopt.reduce, np.arange(128), variant=2).counters
    >>> counters.bank_conflicts >= counters["shared_load_conflicts"]
    True
    >>> (counters + counters).barriers == 2 * counters.barriers
    True
    """

    def __init__(self, values: list[int] | None = None) -> None:
        self._values = dict(zip(NAMES, values or [0] * len(NAMES), strict=True))

    @classmethod
    def from_plain(cls, told: Mapping[str, int]) -> Counters:
        """Return the counters of a dict; those that it lacks are 0.

        Older files have transactions of all accesses alone; they are of GPUs with sectors.
        """
        sectors = {}
        for kind in ("global_load", "global_store"):
            count = whole(told.get(f"{kind}_sectors", 0), f"{kind}_sectors", 0)
            sectors[f"{kind}_transactions"] = count
            sectors[f"{kind}_bytes_moved"] = SECTOR * count
        told = {**sectors, **told}
        return cls([whole(told.get(name, 0), name, 0) for name in NAMES])

    def __getitem__(self, name: str) -> int:
        """Return a counter."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of counters."""
        return len(self._values)

    def __getattr__(self, name: str) -> int:
        """Return a counter."""
        if name.startswith("_") or name not in self._values:
            near = get_close_matches(name, (*NAMES, *RATIOS), 1)
            hint = f"did you mean {near[0]!r}? T" if near else "t"
            raise AttributeError(
                f"{name!r} is not a counter; {hint}he counters are {', '.join(NAMES)}"
            )
        return self._values[name]

    def __add__(self, other: Counters) -> Counters:
        """Return the sums."""
        return Counters([self[name] + other[name] for name in NAMES])

    def __sub__(self, other: Counters) -> Counters:
        """Return the differences, which may be negative."""
        return Counters([self[name] - other[name] for name in NAMES])

    def __repr__(self) -> str:
        """Return the counters that are not zero."""
        shown = ", ".join(f"{name}={value:,}" for name, value in self.items() if value)
        return f"Counters({shown})"

    @property
    def sectors_per_load(self) -> float:
        """Sectors of 32 bytes per global load request; 4 is ideal for 4-byte elements."""
        return share(self["global_load_sectors"], self["global_load_requests"])

    @property
    def sectors_per_store(self) -> float:
        """Sectors of 32 bytes per global store request."""
        return share(self["global_store_sectors"], self["global_store_requests"])

    @property
    def transactions_per_load(self) -> float:
        """Transactions per global load request by the rule of the GPU: sectors since Kepler."""
        return share(self["global_load_transactions"], self["global_load_requests"])

    @property
    def transactions_per_store(self) -> float:
        """Transactions per global store request by the rule of the GPU: sectors since Kepler."""
        return share(self["global_store_transactions"], self["global_store_requests"])

    @property
    def transactions_per_request(self) -> float:
        """Transactions per request to global memory by the rule of the GPU, loads and stores."""
        requests = self["global_load_requests"] + self["global_store_requests"]
        return share(self["global_load_transactions"] + self["global_store_transactions"], requests)

    @property
    def load_efficiency(self) -> float:
        """Bytes requested over bytes moved by global loads, by the rule of the GPU."""
        return share(self["global_load_bytes"], self["global_load_bytes_moved"])

    @property
    def store_efficiency(self) -> float:
        """Bytes requested over bytes moved by global stores, by the rule of the GPU."""
        return share(self["global_store_bytes"], self["global_store_bytes_moved"])

    @property
    def bank_conflicts(self) -> int:
        """Excess shared-memory wavefronts of loads and stores."""
        return self["shared_load_conflicts"] + self["shared_store_conflicts"]

    @property
    def warp_efficiency(self) -> float:
        """Active threads per executed instruction, of 32."""
        return share(self["thread_instructions"], 32 * self["warp_instructions"])

    @property
    def sectors_per_request(self) -> float:
        """Sectors of 32 bytes per request to global memory, loads and stores."""
        requests = self["global_load_requests"] + self["global_store_requests"]
        return share(self["global_load_sectors"] + self["global_store_sectors"], requests)

    @property
    def dram_bytes(self) -> int:
        """Bytes that a perfect cache, cold at first, reads from DRAM and writes to it."""
        return self["dram_read_bytes"] + self["dram_write_bytes"]

    @property
    def l1_hit_rate(self) -> float:
        """Sectors that L1 or the texture cache has, of those that instructions ask for."""
        return share(
            self["l1_load_hits"] + self["l1_store_hits"] + self["texture_hits"],
            self["global_load_sectors"] + self["global_store_sectors"] + self["texture_sectors"],
        )

    @property
    def texture_hit_rate(self) -> float:
        """Sectors that the texture cache has, of those that texture fetches ask for."""
        return share(self["texture_hits"], self["texture_sectors"])

    @property
    def l2_hit_rate(self) -> float:
        """Sectors that L2 has, of those that multiprocessors ask for; it is empty at first."""
        return share(self["l2_hits"], self["l2_sectors"])

    @property
    def warm_l2_hit_rate(self) -> float:
        """The same if L2 held all data of the launch before it began, as far as they fit."""
        return share(self["l2_sectors"] - self["l2_warm_misses"], self["l2_sectors"])

    @property
    def flops(self) -> int:
        """Floating-point operations of all precisions."""
        return self["flops_f16"] + self["flops_f32"] + self["flops_f64"]

    def value(self, name: str) -> float:
        """Return a counter or a ratio by name.

        Raises
        ------
        ValueError
            An unknown name; the message has the nearest one.
        """
        check_name(name)
        return getattr(self, name)


RATIOS = tuple(name for name, each in vars(Counters).items() if isinstance(each, property))


def check_name(name: str, argument: str = "counters") -> str:
    """Return the name of a counter or ratio; ValueError with the nearest one if it is unknown."""
    if name not in NAMES and name not in RATIOS:
        raise ValueError(unknown_name(argument, name, "a counter", NAMES + RATIOS))
    return name


# The default columns of a listing.
BESIDE = ("warp_instructions", "divergent_branches", "bank_conflicts", "sectors_per_request")
BESIDE_OLD = (*BESIDE[:-1], "transactions_per_request")  # where transactions are no sectors
_TITLES = {
    "warp_instructions": "warp instr.",
    "divergent_branches": "divergent",
    "bank_conflicts": "conflicts",
    "sectors_per_request": "sectors/req.",
    "transactions_per_request": "trans./req.",
}


def columns(names: Iterable[str]) -> list[Column]:
    """Return the columns of counters."""
    return [
        Column(
            name,
            _TITLES.get(name, name.replace("_", " ").removeprefix("inst ")),
            ".0%" if name.endswith("efficiency") else ",.1f" if "_per_" in name else ",",
            least=9,
        )
        for name in names
    ]


def cells(counted: Counters | None, names: Iterable[str]) -> dict[str, float | None]:
    """Return the values of columns; None for what did not happen."""
    if counted is None or not counted["warp_instructions"]:
        return {}
    return {name: counted.value(name) or None for name in names}


# --- under the names of nvprof, the profiler of the decks' time


def nvprof_metrics(counted: Counters, achieved_occupancy: float) -> dict[str, float]:
    """Return nvprof's metrics of some launches; efficiencies are from 0 to 1, not in percent.

    Overheads are replays per instruction: a wavefront, or a transaction, beyond an instruction's
    first is a replay.
    """
    c = counted
    loads, stores = c.shared_load_requests, c.shared_store_requests
    shared = c.shared_load_wavefronts + c.shared_store_wavefronts - loads - stores
    requests = c.global_load_requests + c.global_store_requests
    moved = c.global_load_transactions + c.global_store_transactions - requests
    return {
        "inst_executed": c.warp_instructions,
        "gld_request": c.global_load_requests,
        "gst_request": c.global_store_requests,
        "gld_transactions": c.global_load_transactions,
        "gst_transactions": c.global_store_transactions,
        "gld_transactions_per_request": c.transactions_per_load,
        "gst_transactions_per_request": c.transactions_per_store,
        "gld_efficiency": c.load_efficiency,
        "gst_efficiency": c.store_efficiency,
        "shared_load": loads,
        "shared_store": stores,
        "shared_load_transactions": c.shared_load_wavefronts,
        "shared_store_transactions": c.shared_store_wavefronts,
        "shared_load_transactions_per_request": share(c.shared_load_wavefronts, loads),
        "shared_store_transactions_per_request": share(c.shared_store_wavefronts, stores),
        "shared_replay_overhead": share(shared, c.warp_instructions),
        "global_replay_overhead": share(moved, c.warp_instructions),
        "inst_replay_overhead": share(shared + moved, c.warp_instructions),
        "warp_execution_efficiency": c.warp_efficiency,
        "branch": c.branches,
        "divergent_branch": c.divergent_branches,
        "branch_efficiency": 1 - share(c.divergent_branches, c.branches),
        "achieved_occupancy": achieved_occupancy,
        "flop_count_sp": c.flops_f32,
        "flop_count_dp": c.flops_f64,
        "dram_read_bytes": c.dram_read_bytes,
        "dram_write_bytes": c.dram_write_bytes,
    }


def nvprof_throughputs(counted: Counters, seconds: float, pass_bytes: int) -> dict[str, float]:
    """Return nvprof's throughputs, by the predicted time; none without a prediction.

    Parameters
    ----------
    counted : Counters
    seconds : float
    pass_bytes : int
        Bytes that a pass through shared memory can move: all banks.
    """
    if not seconds > 0:
        return {}
    c = counted
    moved = {
        "gld_throughput": c.global_load_bytes_moved,
        "gst_throughput": c.global_bytes_moved - c.global_load_bytes_moved,
        "shared_load_throughput": c.shared_load_wavefronts * pass_bytes,
        "shared_store_throughput": c.shared_store_wavefronts * pass_bytes,
        "dram_read_throughput": c.dram_read_bytes,
        "dram_write_throughput": c.dram_write_bytes,
    }
    return {name: nbytes / seconds for name, nbytes in moved.items()}
