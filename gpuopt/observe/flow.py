"""The data flow of a recorded run: which thread combined which values.

Values are followed from the loads of a trace through registers (by their names in the PTX), memory
(by address) and shuffles. An instruction with two operands of different origin makes a new value:
a combination. This holds for any kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpuopt.observe.events import Recorded

LANES = np.arange(32)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s{}\[\]]+")
_NAME = re.compile(r"[%$_A-Za-z][\w$.]*")
_LOADS = {"ld", "ldu", "tex"}
_NOTHING = {"bar", "barrier", "bra", "brx", "call", "ret", "exit", "membar", "fence", "vote",
            "setp", "match", "activemask", "elect", "nanosleep", "prefetch", "prefetchu",
            "mbarrier", "trap", "isspacep", "discard", "pragma", "griddepcontrol"}  # fmt: skip
_MOVES = {"mov", "cvt", "cvta", "prmt"}


class Place(NamedTuple):
    """The location of an operand or a result.

    Attributes
    ----------
    space : str
        "shared" (`at` is a byte offset), "global" (an address) or "thread" (a thread's register).
    at : int
    """

    space: str
    at: int


class Combination(NamedTuple):
    """One thread combined some values.

    Attributes
    ----------
    step : int
        One more than the largest step of its operands; the first is 1.
    thread : int
        The thread's index in its block.
    operands : tuple of Place
        Their origins: memory, the thread itself, or another lane by a shuffle. Sorted.
    loaded : tuple of bool
        For each operand, whether it was loaded and is not a combination's result.
    result : Place
        Shared memory if the thread stored it there, else its own register.
    event : int
    needed : bool
        Whether a global store of the block depends on it. In a shuffle, for example, some lanes
        combine values that nobody reads.
    """

    step: int
    thread: int
    operands: tuple[Place, ...]
    loaded: tuple[bool, ...]
    result: Place
    event: int
    needed: bool


class _Parsed(NamedTuple):
    root: str
    targets: list[str]
    sources: list[list[str]]  # for each operand that is read


def _parse(text: str) -> _Parsed:
    """Return the registers that a PTX statement writes and reads, by name."""
    text = re.sub(r"^@\S+\s+", "", text)
    mnemonic, _, rest = text.partition(" ")
    root = mnemonic.split(".")[0]
    operands = [_NAME.findall(each) for each in _OPERAND.findall(rest)]
    if root in _NOTHING or not operands:
        return _Parsed("", [], [])
    if root in ("st", "red"):
        return _Parsed(root, [], operands[1:])
    if root == "atom":
        return _Parsed(root, operands[0], operands[2:])
    if root == "cp":
        return _Parsed(root, [], [])
    if root in ("shfl", "redux"):
        return _Parsed(root, operands[0][:1], operands[1:2])
    return _Parsed(root, operands[0], operands[1:])


class _Flow:
    """The values that lanes hold, while a trace is scanned once.

    A value is the number of a node, 0 if it does not depend on a load. Its origin is stored beside
    it, encoded as `_place` reads it.
    """

    SHARED, GLOBAL = 1, 2  # 0: the thread's own

    def __init__(self, trace: Recorded) -> None:
        self.trace = trace
        self.parsed = [_parse(each.text) for each in trace.instructions]
        self.registers: dict[tuple[int, int, str], tuple[np.ndarray, np.ndarray]] = {}
        self.memory: dict[tuple[int, int, int], int] = {}
        self.steps = [0]  # of each node
        self.home: dict[int, Place] = {}  # the first location that a node was stored to
        self.kept: set[int] = set()  # nodes that went to global memory
        self.made: list[tuple[int, int, int, list[tuple[int, int]]]] = []
        self.copying: dict[int, np.ndarray] = {}  # values read by cp.async, by warp
        self.spaces = {name: number for number, name in enumerate(trace.spaces)}
        self.nothing = np.zeros(32, np.int64), np.zeros(32, np.int64)

    @staticmethod
    def _place(code: int) -> Place:
        return Place(("thread", "shared", "global")[code >> 56], code & (1 << 56) - 1)

    def _node(self, step: int) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _combine(self, event: int, thread: int, parts: list[tuple[int, int]]) -> int:
        node = self._node(1 + max(self.steps[each] for each, _ in parts))
        self.made.append((node, thread, event, parts))
        return node

    def _get(self, warp: int, function: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        return self.registers.get((warp, function, name), self.nothing)

    def _put(
        self,
        key: tuple[int, int, str],
        mask: np.ndarray,
        nodes: np.ndarray,
        places: np.ndarray,
    ) -> None:
        old_nodes, old_places = self.registers.get(key, self.nothing)
        self.registers[key] = np.where(mask, nodes, old_nodes), np.where(mask, places, old_places)

    def _key(self, space: int, warp: int, lane: int, address: int) -> tuple[int, int, int]:
        own = 32 * warp + lane + 1 if space == self.spaces["local"] else 0
        return space, own, address

    def _read(self, event: np.void, lane: int, offset: int) -> tuple[int, int]:
        """Return the node at an address, a new one for unwritten memory, and its place."""
        space, warp = int(event["space"]), int(event["warp"])
        address = int(event["address"][lane]) + offset
        key = self._key(space, warp, lane, address)
        node = self.memory.get(key)
        if node is None:
            node = self.memory[key] = self._node(0)
        if space == self.spaces["shared"]:
            return node, self.SHARED << 56 | address
        if space == self.spaces["global"]:
            return node, self.GLOBAL << 56 | address
        return node, 32 * warp + lane

    def _write(self, event: np.void, lane: int, offset: int, node: int) -> None:
        space, warp = int(event["space"]), int(event["warp"])
        address = int(event["address"][lane]) + offset
        key = self._key(space, warp, lane, address)
        if node:
            self.memory[key] = node
            if space == self.spaces["shared"]:
                self.home.setdefault(node, Place("shared", address))
            elif space == self.spaces["global"]:
                self.kept.add(node)
        else:
            self.memory[key] = self._node(0)

    def _load(self, event: np.void, mask: np.ndarray, parsed: _Parsed, function: int) -> None:
        size = int(event["bytes"]) // max(1, len(parsed.targets))
        warp = int(event["warp"])
        known = int(event["space"]) in (
            self.spaces["shared"], self.spaces["global"], self.spaces["local"]
        )  # fmt: skip
        for number, name in enumerate(parsed.targets):
            nodes, places = np.zeros(32, np.int64), np.zeros(32, np.int64)
            for lane in np.flatnonzero(mask) if known else ():
                nodes[lane], places[lane] = self._read(event, int(lane), number * size)
            self._put((warp, function, name), mask, nodes, places)

    def _store(self, event: np.void, mask: np.ndarray, parsed: _Parsed, function: int) -> None:
        names = [name for operand in parsed.sources for name in operand]
        size = int(event["bytes"]) // max(1, len(names))
        warp = int(event["warp"])
        for number, name in enumerate(names):
            nodes = self._get(warp, function, name)[0]
            for lane in np.flatnonzero(mask):
                self._write(event, int(lane), number * size, int(nodes[lane]))
        if not names:  # a constant
            for lane in np.flatnonzero(mask):
                self._write(event, int(lane), 0, 0)

    def _atomic(self, at: int, event: np.void, mask: np.ndarray, parsed: _Parsed, f: int) -> None:
        warp = int(event["warp"])
        before_nodes, before_places = np.zeros(32, np.int64), np.zeros(32, np.int64)
        names = [name for operand in parsed.sources for name in operand]
        nodes, places = self._get(warp, f, names[0]) if names else self.nothing
        for lane in map(int, np.flatnonzero(mask)):
            before = self._read(event, lane, 0)
            before_nodes[lane], before_places[lane] = before
            own = int(nodes[lane]), int(places[lane])
            if own[0] and own[0] != before[0]:
                node = self._combine(at, 32 * warp + lane, [before, own])
                self._write(event, lane, 0, node)
        for name in parsed.targets:
            self._put((warp, f, name), mask, before_nodes, before_places)

    def _copy(self, event: np.void, mask: np.ndarray) -> None:
        """Follow cp.async: a load from global memory, then a store to shared memory."""
        warp = int(event["warp"])
        if self.trace.accesses_names[event["access"]] == "load":
            self.copying[warp] = np.zeros(32, np.int64)
            for lane in map(int, np.flatnonzero(mask)):
                self.copying[warp][lane] = self._read(event, lane, 0)[0]
        elif warp in self.copying:
            for lane in map(int, np.flatnonzero(mask)):
                self._write(event, lane, 0, int(self.copying[warp][lane]))

    def _across(self, at: int, event: np.void, mask: np.ndarray, parsed: _Parsed, f: int) -> None:
        """Follow a shuffle, or a reduction over the lanes of a warp."""
        warp = int(event["warp"])
        nodes = self._get(warp, f, parsed.sources[0][0])[0] if parsed.sources[0] else LANES * 0
        if parsed.root == "shfl":
            sources = event["address"].astype(np.int64)
            taken, places = nodes[sources & 31], 32 * warp + (sources & 31)
        else:
            parts = [(int(nodes[lane]), 32 * warp + int(lane)) for lane in np.flatnonzero(mask)]
            parts = [part for part in parts if part[0]]
            node = self._combine(at, 32 * warp + int(np.argmax(mask)), parts) if parts else 0
            taken, places = np.full(32, node), 32 * warp + LANES
        self._put((warp, f, parsed.targets[0]), mask, taken, places)

    def _compute(self, at: int, event: np.void, mask: np.ndarray, parsed: _Parsed, f: int) -> None:
        """Follow arithmetic: operands of different origin make a new node, a single one stays."""
        warp = int(event["warp"])
        values = [self._get(warp, f, name) for operand in parsed.sources for name in operand]
        values = [value for value in values if value[0].any()]
        nodes, places = np.zeros(32, np.int64), 32 * warp + LANES
        if values:
            places = places.copy()
            for value, place in reversed(values):
                nodes, places = np.where(value, value, nodes), np.where(value, place, places)
        if len(values) > 1 and parsed.root not in _MOVES:
            stack = np.stack([value for value, _ in values])
            differ = ((stack != 0) & (stack != nodes)).any(axis=0) & mask
            for lane in map(int, np.flatnonzero(differ)):
                parts = dict.fromkeys(
                    (int(v[lane]), int(p[lane])) for v, p in values if v[lane]
                )  # each once, in order
                nodes[lane] = self._combine(at, 32 * warp + lane, list(parts))
                places[lane] = 32 * warp + lane
        for name in parsed.targets:
            self._put((warp, f, name), mask, nodes, places)

    def _needed(self) -> set[int]:
        """Return the nodes that global stores depend on."""
        needed = set(self.kept)
        for node, _, _, operands in reversed(
            self.made
        ):  # a node's number is higher than its operands'
            if node in needed:
                needed.update(each for each, _ in operands)
        return needed

    def run(self) -> Iterator[Combination]:
        """Scan the trace; return every combination, in the order of events."""
        trace = self.trace
        for at, event in enumerate(trace.events):
            parsed = self.parsed[event["instruction"]]
            if not parsed.root:
                continue
            mask = (int(event["mask"]) >> LANES & 1).astype(bool)
            f = trace.instructions[event["instruction"]].function
            if parsed.root in _LOADS:
                self._load(event, mask, parsed, f)
            elif parsed.root == "st" and event["access"]:
                self._store(event, mask, parsed, f)
            elif parsed.root in ("atom", "red"):
                self._atomic(at, event, mask, parsed, f)
            elif parsed.root == "cp":
                self._copy(event, mask)
            elif parsed.root in ("shfl", "redux"):
                self._across(at, event, mask, parsed, f)
            else:
                self._compute(at, event, mask, parsed, f)
        needed = self._needed()
        for node, thread, at, operands in self.made:
            result = self.home.get(node, Place("thread", thread))
            found = sorted((self._place(code), not self.steps[each]) for each, code in operands)
            places, loaded = zip(*found, strict=True)
            yield Combination(
                self.steps[node], thread, places, loaded, result, at, not needed or node in needed
            )


def combinations(trace: Recorded) -> list[Combination]:
    """Return every combination of a trace, in the order of events."""
    return list(_Flow(trace).run())
