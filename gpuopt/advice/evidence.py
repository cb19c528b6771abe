"""The evidence on a launch: findings, counters by line, traces of blocks, the GPU's figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gpuopt import _core, models
from gpuopt.advice.code import KernelCode, Op, Thread, file_of, line_of, place
from gpuopt.observe import recording
from gpuopt.observe.counters import SECTOR, Counters
from gpuopt.observe.events import Instruction
from gpuopt.observe.launches import Launch
from gpuopt.ptx.kernel import Kernel
from gpuopt.util import texts

EVENTS_MOST = 400_000  # of one traced block
_ENDS = ("bra", "bar", "st.", "atom", "red.", "ret", "call")
_NARROW = re.compile(r"\b(?:unsigned (?:char|short)|u(?:char|short)|uint(?:8|16)_t)\s+\w")
LATENCY = 500  # cycles from a load to its value, from DRAM, about; deck D2 and the guide


class Sites:
    """A traced block's accesses to memory by one instruction.

    Attributes
    ----------
    op : Op
    space, kind : str
        "global", "shared", "constant"; "load", "store", "atomic" or "reduce".
    addresses : ndarray of uint64, shape (accesses, 32)
    lanes : ndarray of bool, the same shape
    bytes : int
        Per lane.
    """

    def __init__(self, op: Op, space: str, kind: str, events: np.ndarray) -> None:
        self.op, self.space, self.kind = op, space, kind
        self.addresses = events["address"]
        self.lanes = (events["mask"][:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)
        self.bytes = int(events["bytes"][0])
        self.warps = events["warp"]

    @property
    def count(self) -> int:
        """The number of accesses, per warp."""
        return len(self.addresses)

    def _first_sectors(self) -> np.ndarray:
        return self.addresses // SECTOR

    @cached_property
    def sectors(self) -> int:
        """Sectors that the accesses touch, each access by itself."""
        return sum(len(each) for each in self._sector_sets())

    def _sector_sets(self) -> list[np.ndarray]:
        span = -(-self.bytes // SECTOR)
        firsts = self._first_sectors()
        return [
            np.unique((firsts[i][self.lanes[i]][:, None] + np.arange(span)).ravel())
            for i in range(self.count)
        ]

    @cached_property
    def least_sectors(self) -> int:
        """Sectors that the same bytes would touch if they were adjacent."""
        distinct = 0
        for i in range(self.count):
            bytes_ = len(np.unique(self.addresses[i][self.lanes[i]])) * self.bytes
            distinct += max(1, -(-bytes_ // SECTOR))
        return distinct

    @cached_property
    def strides(self) -> tuple[int, float]:
        """The most frequent distance of neighbouring lanes in bytes, and its share."""
        both = self.lanes[:, 1:] & self.lanes[:, :-1]
        steps = np.diff(self.addresses.astype(np.int64), axis=1)[both]
        if not len(steps):
            return 0, 0.0
        values, counts = np.unique(steps, return_counts=True)
        best = int(counts.argmax())
        return int(values[best]), float(counts[best] / len(steps))

    @cached_property
    def same(self) -> float:
        """The largest share of an access's lanes that have one address, averaged."""
        shares = []
        for i in range(self.count):
            given = self.addresses[i][self.lanes[i]]
            if len(given) > 1:
                shares.append(np.unique(given, return_counts=True)[1].max() / len(given))
        return float(np.mean(shares)) if shares else 0.0

    @cached_property
    def distinct(self) -> float:
        """Distinct addresses of an access, averaged."""
        counts = [len(np.unique(self.addresses[i][self.lanes[i]])) for i in range(self.count)]
        return float(np.mean(counts)) if counts else 0.0

    @cached_property
    def walks(self) -> bool:
        """Whether each lane's next access is adjacent to its last one."""
        steps = []
        for warp in np.unique(self.warps)[:4]:
            mine = self.addresses[self.warps == warp]
            if len(mine) > 1:
                lane = int(self.lanes[self.warps == warp][0].argmax())
                steps.append(np.diff(mine[:, lane].astype(np.int64)))
        flat = np.concatenate(steps) if steps else np.zeros(0)
        return bool(len(flat)) and float((np.abs(flat) == self.bytes).mean()) > 0.5


@dataclass
class TracedBlock:
    """A traced block."""

    launch: Launch
    code: KernelCode
    events: np.ndarray
    spaces: tuple[str, ...]
    kinds: tuple[str, ...]
    truncated: bool
    ptx: bytes | None = None

    @cached_property
    def labels(self) -> dict[str, int]:
        """The line of each label in the module's PTX."""
        found = {}
        for number, text in enumerate((self.ptx or b"").decode("latin-1").split("\n"), 1):
            label = re.match(r"\s*(\$\w+):", text)
            if label:
                found[label[1]] = number
        return found

    @cached_property
    def executions(self) -> np.ndarray:
        """How often a warp executed each instruction, of all the block's warps."""
        whole = self.events[self.events["part"] == 0]["instruction"]
        return np.bincount(whole, minlength=len(self.code.ops))

    @cached_property
    def warps(self) -> int:
        """The number of warps that were recorded."""
        return max(1, len(np.unique(self.events["warp"])))

    @cached_property
    def sites(self) -> list[Sites]:
        """The accesses by instruction, space and kind."""
        found = []
        memory = self.events[self.events["space"] > 0]
        for number in np.unique(memory["instruction"]):
            mine = memory[(memory["instruction"] == number) & (memory["mask"] != 0)]
            if len(mine):
                space = self.spaces[mine["space"][0]]
                kind = self.kinds[mine["access"][0]]
                found.append(Sites(self.code.ops[number], space, kind, mine[:4096]))
        return found

    @cached_property
    def used(self) -> dict[int, int]:
        """For each global sector that the block touches: a bit for each byte that it uses."""
        return self._touched(self.kinds)

    @cached_property
    def stored(self) -> dict[int, int]:
        """The same of stores only."""
        return self._touched(("store",))

    def _touched(self, kinds: Sequence[str]) -> dict[int, int]:
        touched: dict[int, int] = {}
        for site in self.sites:
            if site.space != "global" or site.kind not in kinds:
                continue
            for address in np.unique(site.addresses[site.lanes]).tolist():
                end = address + site.bytes
                while address < end:
                    sector, offset = divmod(address, SECTOR)
                    length = min(end - address, SECTOR - offset)
                    touched[sector] = touched.get(sector, 0) | (((1 << length) - 1) << offset)
                    address += length
        return touched

    def share_used(self, site: Sites, stored: bool = False) -> float:
        """Return the share of the bytes of a site's sectors that the block uses."""
        marks = self.stored if stored else self.used
        sectors = np.unique((site.addresses // SECTOR)[site.lanes]).tolist()
        total = sum(marks.get(each, 0).bit_count() for each in sectors)
        return total / (SECTOR * len(sectors)) if sectors else 1.0


@dataclass
class Evidence:
    """Everything that the rules look at."""

    launch: Launch
    blocks: list[TracedBlock]
    kernel: Kernel | None
    arguments: tuple[Any, ...]
    again: Callable[[Kernel | None], Launch] | None  # runs it once more, another kernel perhaps
    registers: int = 0  # the compiler's; 0: unknown
    spilled: int = 0  # bytes
    shared_static: int = 0
    notes: list[str] = field(default_factory=list)

    # --- the GPU

    @cached_property
    def gpu(self) -> models.Gpu:
        """The figures of the simulated GPU."""
        return models.gpu(self.launch.device.partition(":")[2] or "h200")

    @cached_property
    def preset(self) -> dict[str, Any]:
        """The simulator's row of the GPU."""
        name = self.launch.device.partition(":")[2] or "h200"
        return next(each for each in _core.presets() if each["name"] == name)

    # --- the launch

    @property
    def counters(self) -> Counters:
        """The launch's counters."""
        return self.launch.counters

    @property
    def block_count(self) -> int:
        """The number of blocks."""
        x, y, z = self.launch.grid
        return x * y * z

    @property
    def threads(self) -> int:
        """Threads per block."""
        x, y, z = self.launch.block
        return x * y * z

    @cached_property
    def warps_per_block(self) -> int:
        """Warps per block."""
        return -(-self.threads // 32)

    @cached_property
    def lines(self) -> dict[int, Counters]:
        """The counters by the `place` of a source line, or by line of PTX."""
        sums: dict[int, Counters] = {}
        for each in self.launch.lines:
            number = place(each.file, each.line) if each.file else each.ptx_line
            sums[number] = sums.get(number, Counters()) + each.counters
        return sums

    @cached_property
    def code(self) -> KernelCode | None:
        """The kernel's instructions."""
        return self.blocks[0].code if self.blocks else None

    @cached_property
    def file(self) -> str | None:
        """The source file's name."""
        return next((each.file for each in self.launch.lines if each.file), None)

    @cached_property
    def first_line(self) -> int:
        """The line of the kernel's definition where the source is known, else its first one."""
        source = self.kernel.module.source if self.kernel else None
        if source and self.kernel:
            name = re.escape(self.kernel.name.split("<")[0].split("::")[-1])
            found = re.search(rf"__global__[^;{{]*?\b{name}\s*\(", source.text)
            if found:
                return place(self.file, source.text.count("\n", 0, found.end()) + 1)
        own = [each for each in self.lines if file_of(each) == self.file]
        return min(own or self.lines, default=0)

    def source_line(self, number: int) -> str:
        """Return the text of a line at a place, "" where the source is unknown."""
        source = self.kernel.module.source if self.kernel else None
        file, line = file_of(number), line_of(number)
        if source and file == source.name:
            lines = source.text.split("\n")
            return lines[line - 1] if 0 < line <= len(lines) else ""
        return texts.line(file, line)

    # --- a model of the time, in cycles of one multiprocessor

    @cached_property
    def multiprocessors(self) -> int:
        """Multiprocessors with work."""
        return max(1, min(self.preset["multiprocessors"], self.block_count))

    @cached_property
    def resident(self) -> float:
        """Warps that a multiprocessor holds at once in this launch."""
        most = self.launch.occupancy * self.gpu.warps
        blocks = -(-self.block_count // self.preset["multiprocessors"])
        return max(1.0, min(most, blocks * self.warps_per_block))

    @cached_property
    def loads_in_flight(self) -> float:
        """Loads from global memory that a warp may have on their way at once.

        The assembler moves independent loads ahead of arithmetic, up to a branch, a barrier or a
        store.
        """
        groups, loads = 0, 0
        for block in self.blocks[:1]:
            ops = block.code.ops
            warp = block.events["warp"]
            for number in np.unique(warp)[:4]:
                loaded: set[str] = set()  # loaded values, and values computed from them
                open_ = False
                for at in block.events[(warp == number) & (block.events["part"] == 0)][:4000]:
                    op = ops[at["instruction"]]
                    load = op.name.startswith(("ld.global", "ld.volatile.global", "ld.relaxed"))
                    if op.name.startswith(_ENDS) or (load and op.address in loaded):
                        groups += open_
                        open_, loaded = False, set()
                    if load:
                        loads += 1
                        open_ = True
                    if load or not loaded.isdisjoint(op.of):
                        loaded.update(op.to)
                groups += open_
        return loads / groups if groups else 1.0

    @cached_property
    def times(self) -> dict[str, float]:
        """Cycles that each resource needs for the launch, were it alone."""
        c, sms = self.counters, self.multiprocessors
        row = self.preset
        clock, bandwidth = row["clock_ghz"], row["bandwidth_gbs"]
        per_cycle = bandwidth / clock  # bytes, of the whole GPU
        lanes64 = max(1.0, row["f64_gflops"] / (2 * clock * row["multiprocessors"]))
        sectors = c.global_load_sectors + c.global_store_sectors
        warps = c.warps / sms
        loads = c.global_load_requests / max(1, c.warps)
        return {
            "issue": (c.warp_instructions + 20 * c.inst_divide) / 4 / sms,
            "shared": (c.shared_load_wavefronts + c.shared_store_wavefronts + c.shared_atomics)
            / sms,
            "l2": sectors / 2 / sms,
            "dram": (c.dram_read_bytes + c.dram_write_bytes) / per_cycle,
            "f64": 32 * c.inst_f64 / lanes64 / sms,
            "latency": warps * loads / self.loads_in_flight * LATENCY / self.resident,
            "constant": 0.0,
            "atomics": 0.0,
        }

    @cached_property
    def time(self) -> float:
        """The launch's time in the model: resources overlap, imperfectly."""
        return self.combined({})

    def combined(self, changed: dict[str, float]) -> float:
        """Return the time with some resources' cycles replaced."""
        return sum(value**2 for value in (self.times | changed).values()) ** 0.5 or 1.0

    def gain(self, **changed: float) -> float:
        """Return the share of the time that is saved if resources need these cycles."""
        return max(0.0, 1 - self.combined(changed) / self.time)

    @property
    def per_warp(self) -> float:
        """Instructions of a warp."""
        return self.counters.warp_instructions / max(1, self.counters.warps)

    @cached_property
    def words_per_thread(self) -> float:
        """Distinct words of global memory for each thread: work that more threads could share."""
        words = (self.counters.dram_read_bytes + self.counters.dram_write_bytes) / 4
        return words / (self.block_count * self.threads)

    # --- one thread

    def thread(self, block: tuple[int, ...], thread: tuple[int, ...]) -> Thread | None:
        """Return an evaluator of one thread's addresses."""
        if not self.code or not self.kernel:
            return None
        special: dict[str, int] = {}
        for axis, name in enumerate("xyz"):
            special[f"%tid.{name}"] = thread[axis]
            special[f"%ctaid.{name}"] = block[axis]
            special[f"%ntid.{name}"] = self.launch.block[axis]
            special[f"%nctaid.{name}"] = self.launch.grid[axis]
        parameters = [
            int(each) if isinstance(each, int | np.integer) else 0 for each in self.arguments
        ]
        return Thread(self.code, special, parameters, self._narrow)

    def _narrow(self, op: Op) -> bool:
        """Tell whether the source line of an instruction names a narrow unsigned type."""
        return bool(_NARROW.search(self.source_line(op.line)))


# --- gathering


class _LaunchSink:
    """A sink that keeps the launches of a call."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def __call__(self, told: dict[str, Any]) -> None:
        self.told.append(told)


def traced(
    call: Callable[[], Any], launch: Launch, number: int, block: int, device: str
) -> TracedBlock | None:
    """Run a call again and record one block of one of its launches."""
    x, y, _ = launch.grid
    index = (block % x, block // x % y, block // x // y)
    sink = _LaunchSink()
    with recording.traced(sink, device, (number, index, -1, EVENTS_MOST)):
        call()
    told = next((each for each in sink.told if each["trace"]), None)
    if told is None:
        return None
    made = told["trace"]
    events = np.frombuffer(made["events"], np.dtype(made["layout"]))
    if not len(events):
        return None
    code = KernelCode([Instruction(*each) for each in made["instructions"]])
    spaces, kinds = tuple(made["spaces"]), tuple(made["accesses"])
    return TracedBlock(launch, code, events, spaces, kinds, made["truncated"])
