"""The contents of a trace: the instructions that one block executed, and its memory accesses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from gpuopt.catalog.devices import Device
from gpuopt.observe.profile import Launch
from gpuopt.util import texts
from gpuopt.util.names import unknown_name


class Instruction(NamedTuple):
    """A PTX instruction of a traced kernel.

    Attributes
    ----------
    text : str
        The statement.
    kind : str
        "integer", "f32", "global", "shared", "control", "barrier", ...
    file : str or None
        The source file; None if the PTX has no line table.
    line, ptx_line : int
    function : int
        0 is the kernel; higher numbers are device functions.
    """

    text: str
    kind: str
    file: str | None
    line: int
    ptx_line: int
    function: int


@dataclass(frozen=True)
class Access:
    """One access of one warp to memory.

    Attributes
    ----------
    event : int
        Its number in `Trace.events`.
    kind : str
        "load", "store", "atomic" or "reduce" (an atomic without a result).
    warp, size : int
        The warp's index; bytes per lane.
    active, mask : int
        Bits of the lanes that execute the instruction, and of those that access memory.
    addresses : dict of int to int
        Address by lane; an offset in shared memory.
    base : int
        The array's address; 0 in shared memory.
    text, place, code : str
        The instruction, its source line as "reduce.cu:161", and that line's text ("" if unknown).
    """

    event: int
    kind: str
    warp: int
    size: int
    active: int
    mask: int
    addresses: dict[int, int]
    base: int
    text: str
    place: str
    code: str = ""


@dataclass(frozen=True)
class Recorded:
    """The recorded instructions of a block; `gpuopt.Trace` describes the fields and draws them."""

    title: str
    launch: Launch
    block_index: tuple[int, int, int]
    warp: int | None
    events: np.ndarray = field(repr=False)
    instructions: list[Instruction] = field(repr=False)
    spaces: tuple[str, ...] = field(repr=False)
    accesses_names: tuple[str, ...] = field(repr=False)
    truncated: bool
    gpu: Device = field(repr=False)
    result: Any = field(repr=False)

    @property
    def own(self) -> bool:
        """Whether the kernel is the user's own, not a rung's."""
        return self.title == self.launch.kernel

    @property
    def threads(self) -> int:
        """The number of threads that were recorded."""
        x, y, z = self.launch.block
        return x * y * z if self.warp is None else self.lanes(self.warp).bit_count()

    def lanes(self, warp: int) -> int:
        """Return the bits of a warp's lanes that exist.

        Parameters
        ----------
        warp : int
        """
        x, y, z = self.launch.block
        return (1 << max(0, min(32, x * y * z - 32 * warp))) - 1

    @property
    def where(self) -> str:
        """The kernel, the block and the warp, as a title."""
        only = f", warp {self.warp}" if self.warp is not None else ""
        return f"{self.launch.kernel}, block {self.block_index}{only}"

    def place(self, instruction: Instruction) -> str:
        """Return an instruction's source line, "reduce.cu:161".

        Parameters
        ----------
        instruction : Instruction
        """
        if instruction.file:
            return f"{PurePath(instruction.file).name}:{instruction.line}"
        return f"PTX line {instruction.ptx_line}"

    def source_line(self, instruction: Instruction) -> str:
        """Return the text of an instruction's source line, "" if its file is unknown.

        Parameters
        ----------
        instruction : Instruction
        """
        return texts.line(instruction.file, instruction.line, self.launch.sources)

    @cached_property
    def by_space(self) -> dict[str, list[Access]]:
        """All accesses, by memory space."""
        found: dict[str, list[Access]] = {name: [] for name in self.spaces}
        memory = np.flatnonzero(self.events["space"])
        for at in map(int, memory):
            event = self.events[at]
            instruction = self.instructions[event["instruction"]]
            mask, addresses = int(event["mask"]), event["address"].tolist()
            found[self.spaces[event["space"]]].append(
                Access(
                    at,
                    self.accesses_names[event["access"]],
                    int(event["warp"]),
                    int(event["bytes"]),
                    int(event["active"]),
                    mask,
                    {lane: addresses[lane] for lane in range(32) if mask >> lane & 1},
                    int(event["base"]),
                    instruction.text,
                    self.place(instruction),
                    self.source_line(instruction),
                )
            )
        return found

    def accesses(self, space: str = "global") -> list[Access]:
        """Return the accesses to one memory space, in the order of execution.

        Parameters
        ----------
        space : {"global", "shared", "local", "constant"}

        Raises
        ------
        ValueError
            An unknown space.
        """
        if space not in self.spaces[1:]:
            raise ValueError(unknown_name("space", space, "a space", self.spaces[1:]))
        return list(self.by_space[space])
