"""Machine code of a kernel, and its executions by the counts of the PTX statements.

PTX is not what runs. Where `ptxas` and `nvdisasm` are at hand, of a toolkit or of the wheels
nvidia-cuda-nvcc and nvidia-cuda-nvdisasm, a kernel's PTX is compiled for the GPU's architecture,
with a line table that names the PTX's own lines. A basic block of machine code is executed as often
as the statements of its memory accesses and its arithmetic were, over the copies that unrolling
made.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuopt import _core
from gpuopt.jit import cache

OLDEST = 70  # compute capability of presets whose machine code is looked at, times ten
PTXAS_OLDEST = 75  # of ptxas 13; older presets take its code
TARGETS = (75, 90)  # of gpuopt's own kernels: a GPU runs the newest that it can
SECONDS = 60.0

# Pipes of machine instructions (CUDA binary utilities, "Instruction Set Reference").
_PIPES = {
    "f32": ("FADD", "FMUL", "FFMA", "FSWZADD"),
    # Hopper's VIADD and I2FP: an H100 issues them beside ISETP, and IMAD and FFMA one by one.
    "multiply": ("IMAD", "IMUL", "IDP", "VIADD", "I2FP"),
    "f64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "special": ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV", "F2I"),
    "memory": ("LD", "ST", "ATOM", "RED", "TEX", "TLD", "SULD", "SUST", "TXQ", "CCTL", "SHFL",
               "UBLKCP", "LDSM", "LDGSTS", "SYNCS"),
    "issue": ("U", "BRA", "EXIT", "BAR", "BSYNC", "BSSY", "WARPSYNC", "NOP", "RET", "CALL",
              "MEMBAR", "S2R", "CS2R", "DEPBAR", "R2UR", "ERRBAR", "YIELD", "BREAK", "NANOSLEEP"),
}  # fmt: skip
PIPES = (*_PIPES, "integer")
# Instructions that a PTX statement has one of, so that their copies tell of unrolling.
_ANCHORS = re.compile(
    r"LD[GSL]|ST[GSL]?\b|ATOM|RED|TEX|BAR|FFMA|FADD|FMUL|DFMA|DADD|DMUL|MUFU|SHFL"
)
_LINE = re.compile(r'//## File "ptx", line (\d+)')
_CODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*)")
_WORD = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")  # the second one of an instruction
_LABEL = re.compile(r"`\((\.L\w+)\)")
_INTERNAL = re.compile(r"(\$__internal_\w+?\$__cuda_\w+)")  # a subroutine of the compiler's own
_SLOW = "CALL.SLOW"  # our name for a call of one that ordinary operands do not need
# Its way for zeros, by the listings and an H200's times: a third of its instructions, and clocks
# of each, which needs the one before.
WAY, STEP = 1 / 3, 6
_OUTSTANDING = re.compile(r",\s*0x([0-9a-f]+)")  # of DEPBAR.LE
CONTROL = 41  # of the second word, its least bit
_WIDTH = re.compile(r"\.(64|128)\b")


class MachineInstruction(NamedTuple):
    """An instruction of machine code.

    Attributes
    ----------
    name : str
    line : int
        The line of its PTX statement.
    block : int
        The basic block, counted from 0.
    stall : int
        Least clocks until the warp's next instruction.
    writes, reads : int
        The scoreboard that is released when its result is there, or its operands are read; 7: none.
    waits : int
        A bit for each scoreboard that it waits for.
    target : int
        The block that it branches to; of DEPBAR the copies that may be outstanding; else -1.
    steps : int
        The instructions that it stands for: of a subroutine that is called for odd operands.
    """

    name: str
    line: int
    block: int
    stall: int = 1
    writes: int = 7
    reads: int = 7
    waits: int = 0
    target: int = -1
    steps: int = 1


@dataclass(frozen=True, eq=False)
class Machine:
    """A kernel's machine code.

    Attributes
    ----------
    arch : str
        "sm_90".
    registers, spilled : int
        A thread's registers, and its bytes of spill stores to local memory.
    code : tuple of MachineInstruction
        Empty without nvdisasm.
    """

    arch: str
    registers: int
    spilled: int
    code: tuple[MachineInstruction, ...]

    @cached_property
    def lines(self) -> np.ndarray:
        """The PTX lines that have instructions, in order."""
        return np.unique([each.line for each in self.code])

    @cached_property
    def line_index(self) -> dict[int, int]:
        """The index in `lines` by line."""
        return {line: at for at, line in enumerate(self.lines.tolist())}

    @cached_property
    def line_at(self) -> np.ndarray:
        """The index in `lines` of each instruction's."""
        return np.searchsorted(self.lines, [each.line for each in self.code])

    @cached_property
    def block_at(self) -> np.ndarray:
        """The basic block of each instruction."""
        return np.array([each.block for each in self.code], int)

    @cached_property
    def pipes(self) -> np.ndarray:
        """The index in `PIPES` of each instruction's."""
        return np.array([PIPES.index(pipe_of(each.name)) for each in self.code], int)

    @cached_property
    def shared(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of accesses to shared memory, but of LDSM, and each one's words."""
        found = [
            (at, words(each.name))
            for at, each in enumerate(self.code)
            if each.name.startswith(("LDS", "STS")) and not each.name.startswith("LDSM")
        ]
        at, width = zip(*found, strict=True) if found else ((), ())
        return np.array(at, int), np.array(width, float)

    def named(self, *heads: str) -> np.ndarray:
        """Return a mask of the instructions whose names begin so."""
        return self.derived(
            heads, lambda: np.array([each.name.startswith(heads) for each in self.code], bool)
        )

    def derived(self, name: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, which is called once for each name."""
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    @cached_property
    def _derived(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def plan(self) -> ExecutionPlan:
        """The way from statements' counts to blocks'."""
        return _plan(self)

    @cached_property
    def loops(self) -> list[tuple[int, int]]:
        """The first and the last block of each loop."""
        return [(each.target, each.block) for each in self.code if 0 <= each.target <= each.block]

    @cached_property
    def steps(self) -> np.ndarray:
        """The instructions that each one stands for."""
        return np.array([each.steps for each in self.code], float)

    @cached_property
    def slow(self) -> list[tuple[int, int, int]]:
        """The blocks that call a subroutine for odd operands, and those that it returns to.

        Each with the line of the call, and how many calls that line has.
        """
        calls = [each for each in self.code if each.name == _SLOW]
        copies = Counter(each.line for each in calls)
        blocks = {each.block for each in self.code}
        return [
            (each.block + at, each.line, copies[each.line])
            for each in calls
            for at in (0, 1)
            if each.block + at in blocks
        ]

    @cached_property
    def joins(self) -> list[tuple[int, int]]:
        """The blocks where lanes meet again, each with the block that they parted in, in order.

        BSSY names the place behind its BSYNC.
        """
        begins = {each.block: each.name for each in reversed(self.code)}
        return [
            (each.target - 1, each.block)
            for each in self.code
            if each.name == "BSSY" and begins.get(each.target - 1, "").startswith("BSYNC")
        ]

    @cached_property
    def polling(self) -> dict[int, int]:
        """The blocks that loop until a copy has arrived, and the block that is executed as often.

        -1: none, as the copy is tested before the loop, too.
        """
        tests = [each.block for each in self.code if each.name.startswith("SYNCS.PHASECHK")]
        loops = {first for first, last in self.loops if first == last}
        tested = {each.target for each in self.code if each.block in set(tests) - loops}
        return {block: -1 if block in tested else block - 1 for block in set(tests) & loops}

    @cached_property
    def innermost(self) -> dict[int, tuple[int, int] | None]:
        """The innermost loop of each block."""
        return {each.block: _innermost(each.block, self.loops) for each in self.code}


class ExecutionPlan(NamedTuple):
    """How the blocks' executions follow from those of the statements.

    Attributes
    ----------
    places : list of (int, Counter)
        The line and the copies by block of each instruction that a statement has one of, where
        some copies are in a loop.
    lines, blocks, copies : ndarray
        The same where none is, for each block: the index of the line, the block, all copies.
    loops : ndarray
        By block the index of its innermost loop, from 1; 0: none.
    known : ndarray
        The blocks that have such instructions or are never executed; the first ones of `loops`.
    rest, rest_lines, parts : ndarray
        The other blocks' instructions: block, the index of the line, the blocks that have some.
    rest_blocks, middles : ndarray
        Each of those blocks once, and where its two middle instructions are, if each block's are
        sorted.
    """

    places: list[tuple[int, Counter[int]]]
    lines: np.ndarray
    blocks: np.ndarray
    copies: np.ndarray
    loops: np.ndarray
    known: np.ndarray
    rest: np.ndarray
    rest_lines: np.ndarray
    parts: np.ndarray
    rest_blocks: np.ndarray
    middles: np.ndarray


def _plan(machine: Machine) -> ExecutionPlan:
    index = machine.line_index
    found: dict[tuple[str, int], list[int]] = {}
    for each in machine.code:
        found.setdefault((each.name.partition(".")[0], each.line), []).append(each.block)
    anchored = [
        (line, Counter(blocks)) for (name, line), blocks in found.items() if _ANCHORS.match(name)
    ]
    turning = {
        block for first, last in machine.loops for block in range(first, last + 1)
    }  # in a loop
    places = [(line, each) for line, each in anchored if len(each) > 1 and turning & set(each)]
    plain = [
        (index[line], block, sum(each.values()))
        for line, each in anchored
        if not (len(each) > 1 and turning & set(each))
        for block in each
    ]
    known = {block for _, each in anchored for block in each}
    known |= {block for block, _, _ in machine.slow}
    rest = sorted(
        (block, index[line], len(set(blocks)))
        for (name, line), blocks in found.items()
        if not _ANCHORS.match(name)
        for block in blocks
        if block not in known
    )
    number = {loop: at for at, loop in enumerate(dict.fromkeys(machine.loops), 1)}
    innermost = machine.innermost
    loops = np.zeros(max(innermost, default=0) + 1, int)
    for block, loop in innermost.items():
        loops[block] = number[loop] if loop else 0
    columns = [np.array([each[at] for each in plain], int) for at in range(3)]
    others = [np.array([each[at] for each in rest], int) for at in range(3)]
    blocks, starts, sizes = np.unique(others[0], return_index=True, return_counts=True)
    middles = np.stack([starts + (sizes - 1) // 2, starts + sizes // 2])
    first = np.array(sorted(known), int)
    return ExecutionPlan(places, *columns, loops, first, *others, blocks, middles)


@lru_cache(1 << 10)
def pipe_of(name: str) -> str:
    """Return what executes an instruction: "f32", "integer", "memory", ...; "issue": nothing more.

    Examples
    --------
    >>> pipe_of("FFMA"), pipe_of("IADD3.X"), pipe_of("LDS.128"), pipe_of("ULDC.64")
    ('f32', 'integer', 'memory', 'issue')
    """
    head = name.partition(".")[0]
    if head.startswith(("LDC", "LDSM", "LDGDEPBAR", "DEPBAR")):
        return "memory" if head == "LDSM" else "issue"
    for pipe, heads in _PIPES.items():
        if head.startswith(heads):
            return pipe
    return "integer"


def _tool(name: str) -> str | None:
    """Return the path of one of the toolkit's programs, or None."""
    chosen = os.environ.get(f"GPUOPT_{name.upper()}")
    if chosen:
        return chosen
    for folder in sys.path:
        for wheel in ("cu13", "cuda_nvcc", "cuda_nvdisasm", "cu14", "cu12"):
            path = Path(folder, "nvidia", wheel, "bin", name)
            if path.is_file():
                return str(path)
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    found = [Path(root, "bin", name) for root in roots if root]
    return next((str(each) for each in found if each.is_file()), shutil.which(name))


def annotated(ptx: str) -> str:
    """Return a PTX text whose line table names the lines of the text itself."""
    lines: list[str] = []
    depth, before = 0, ";"
    for number, line in enumerate(ptx.split("\n"), 1):
        code = line.partition("//")[0].strip()
        if re.match(r"\.(loc|file)\s", code):
            continue
        if code.startswith(".address_size"):
            line += ' .file 1 "ptx"'
        elif depth and before[-1] in ";{}:" and re.match(r"[a-z@]", code):
            lines.append(f".loc 1 {number} 0")
        lines.append(line)
        depth += code.count("{") - code.count("}")
        before = code or before
    return "\n".join(lines)


def parsed(text: str) -> tuple[MachineInstruction, ...]:
    """Return the instructions of nvdisasm's listing of one kernel; blocks are counted from 0.

    Floating-point divisions and roots call a subroutine for operands out of the ordinary: the call
    stands for a way through it. That of a 64-bit integer division has the line of its first call.
    """
    found: list[MachineInstruction] = []
    labels: dict[str, int] = {}
    branches: dict[int, str] = {}
    calls: dict[str, int] = {}
    left_out: Counter[str] = Counter()  # instructions of each subroutine
    called_by: dict[int, str] = {}
    line = block = 0
    kept, routine = True, ""
    for each in text.split("\n"):
        if told := _LINE.search(each):
            line = int(told[1])
        elif each.startswith("$__internal"):
            block += 1
            routine = each.partition(":")[0]
            kept, line = "64" in routine.replace("f64", ""), calls.get(routine, 0)
        elif each.startswith(".L_"):
            block += 1
            labels[each.partition(":")[0]] = block
        elif not kept:
            left_out[routine] += bool(_CODE.search(each))
        elif code := _CODE.search(each):
            name, rest = code[2], code[3]
            if label := _LABEL.search(rest):
                branches[len(found)] = label[1]
            if called := _INTERNAL.search(rest):
                calls.setdefault(called[1], line)
                if "64" not in called[1].replace("f64", ""):
                    name = _SLOW
                    called_by[len(found)] = called[1]
            left = _OUTSTANDING.search(rest) if name.startswith("DEPBAR") else None
            found.append(
                MachineInstruction(name, line, block, target=int(left[1], 16) if left else -1)
            )
            if name.startswith(("BRA", "EXIT", "RET", "BRX", "CALL")):
                block += 1
        elif found and (word := _WORD.match(each)):
            found[-1] = found[-1]._replace(**control(int(word[1], 16)))
    _charge(found, called_by, left_out)
    for at, label in branches.items():
        found[at] = found[at]._replace(target=labels.get(label, -1))
    while found and found[-1].name.startswith(("NOP", "BRA")):  # behind the end
        found.pop()
    return tuple(found)


def _charge(
    code: list[MachineInstruction], called: Mapping[int, str], lengths: Mapping[str, int]
) -> None:
    """Give calls of subroutines for odd operands their instructions and clocks."""
    for at, routine in called.items():
        steps = max(1, round(WAY * lengths[routine]))
        code[at] = code[at]._replace(steps=steps, stall=STEP * steps)


def control(word: int) -> dict[str, int]:
    """Return the control code of an instruction, from the second word of its encoding.

    Examples
    --------
    >>> control(0x000EA2000C1E1D00)
    {'stall': 1, 'writes': 2, 'reads': 7, 'waits': 0}
    """
    bits = word >> CONTROL
    return {
        "stall": bits & 15,
        "writes": bits >> 5 & 7,
        "reads": bits >> 8 & 7,
        "waits": bits >> 11 & 63,
    }


def _run(*command: str) -> str | None:
    """Return what a program prints, to both streams; None where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout + done.stderr


def _compiled(ptx: str, kernel: str, arch: str) -> dict[str, Any] | None:
    ptxas, nvdisasm = _tool("ptxas"), _tool("nvdisasm")
    if not ptxas:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "kernel.ptx"), str(Path(folder, "kernel.cubin"))
        source.write_text(annotated(ptx))
        log = _run(
            ptxas, f"-arch={arch}", "-lineinfo", "-v", "-e", kernel, "-o", cubin, str(source)
        )
        registers = re.search(r"Used (\d+) registers", log or "")
        if not log or not registers:
            return None
        spilled = re.search(r"(\d+) bytes spill stores", log)
        code = _run(nvdisasm, "-g", "-c", "-hex", cubin) if nvdisasm else None
    return {
        "registers": int(registers[1]),
        "spilled": int(spilled[1]) if spilled else 0,
        "code": [list(each) for each in parsed(code or "")],
    }


@lru_cache(256)
def machine_of(ptx: str, kernel: str, capability: int) -> Machine | None:
    """Return a kernel's machine code, from ptxas or from the cache on disk; None without ptxas.

    Parameters
    ----------
    ptx : str
        The module's text.
    kernel : str
        Its symbol.
    capability : int
        Compute capability, times ten.
    """
    target = re.search(r"\.target\s+(sm_(\d+)([af]?))", ptx)
    arch = f"sm_{max(capability, PTXAS_OLDEST)}"
    if target and target[3]:
        arch = target[1]  # code for one architecture only
    elif target and int(target[2]) > capability:
        return None
    key = cache.key("machine", 6, ptx, kernel, arch, _tool("ptxas"), _tool("nvdisasm"))
    found = cache.load(key)
    if found is None:
        found = _compiled(ptx, kernel, arch)
        if found is None:
            return None
        cache.save(key, found)
    code = tuple(MachineInstruction(*each) for each in found["code"])
    return Machine(arch, found["registers"], found["spilled"], code)


@lru_cache(64)
def own_ptx(kernel: str, target: int) -> str:
    """Return the PTX of one of gpuopt's own kernels for a target, "" for others."""
    try:
        return _core.kernel_ptx(kernel, target)
    except (ValueError, KeyError, RuntimeError):
        return ""


def own_machine(kernel: str, capability: int) -> Machine | None:
    """Return the machine code of one of gpuopt's own kernels; None without ptxas."""
    capability = max(capability, TARGETS[0])
    target = max(each for each in TARGETS if each <= capability)
    return machine_of(own_ptx(kernel, target), kernel, capability)


def _innermost(block: int, loops: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    around = [each for each in loops if each[0] <= block <= each[1]]
    return min(around, key=lambda each: each[1] - each[0], default=None)


def executions(
    machine: Machine, counts: Mapping[int, int], odd: Mapping[int, float] | None = None
) -> np.ndarray:
    """Return how often each instruction was executed, in warps.

    Parameters
    ----------
    machine : Machine
    counts : mapping of int to int
        By line of the PTX, how often its statement was executed.
    odd : mapping of int to float, optional
        By line, the part of these in which operands were odd.
    """
    plan = machine.plan
    counted = np.fromiter(map(counts.get, machine.line_index, repeat(0)), float)
    entered = float(counted[machine.line_at[machine.block_at == 0]].max(initial=0))
    found = np.zeros(len(plan.loops))
    np.maximum.at(found, plan.blocks, counted[plan.lines] / plan.copies)
    for line, copies in plan.places:
        for block, each in _spread(counts.get(line, 0), copies, machine.loops, entered).items():
            found[block] = max(found[block], each)  # guarded ones are issued, too
    for block, line, copies_of in machine.slow:
        found[block] = (odd or {}).get(line, 0.0) * counts.get(line, 0) / copies_of
    turns = np.full(plan.loops.max(initial=0) + 1, -1.0)
    np.maximum.at(turns, plan.loops[plan.known], found[plan.known])
    turns[turns < 0] = math.inf
    turns[0] = entered
    values = counted[plan.rest_lines] / plan.parts
    values = values[np.lexsort((values, plan.rest))]
    medians = (values[plan.middles[0]] + values[plan.middles[1]]) / 2
    # They run as often as their loop turns, at most.
    found[plan.rest_blocks] = np.minimum(medians, turns[plan.loops[plan.rest_blocks]])
    for block, parted in machine.joins:
        found[block] = max(found[block], found[parted])
    for block, entered_from in machine.polling.items():  # a test waits, and is made once
        found[block] = found[entered_from] if entered_from >= 0 else 0.0
    return found[machine.block_at]


def _spread(
    count: float, copies: Mapping[int, int], loops: Sequence[tuple[int, int]], entered: float
) -> dict[int, float]:
    """Return how often each block that has copies of a statement was executed.

    A compiler unrolls a loop by 16, say, and makes a second one for the remainder: the loop with
    most copies takes as many turns as it can, the next ones the rest.

    Parameters
    ----------
    count : float
        Executions of the statement.
    copies : mapping of int to int
        By block.
    loops : sequence of (int, int)
        The first and the last block of each.
    entered : float
        Warps that entered the kernel.

    Examples
    --------
    >>> _spread(200.0, {3: 16, 5: 4, 7: 1}, [(3, 3), (5, 5), (7, 7)], 2.0)
    {3: 12.0, 5: 2.0, 7: 0.0}
    """
    turning: set[int] = set()
    if len(copies) > 1 and entered:
        turning = {block for block in copies for first, last in loops if first <= block <= last}
    if not turning:
        return dict.fromkeys(copies, count / sum(copies.values()))
    found = dict.fromkeys(copies, 0.0)
    rest = count
    widths = sorted({copies[block] for block in turning}, reverse=True)
    for width in widths:
        same = [block for block in turning if copies[block] == width]
        turns = rest / (width * len(same))
        if width != widths[-1] or len(turning) < len(copies):
            turns = entered * (turns // entered)
        found |= dict.fromkeys(same, turns)
        rest -= turns * width * len(same)
    straight = [block for block in copies if block not in turning]
    if straight:
        found |= dict.fromkeys(straight, rest / sum(copies[block] for block in straight))
    return found


@lru_cache(1 << 10)
def words(name: str) -> int:
    """Return the 32-bit words that a lane's access moves: 4 of "LDS.128"."""
    width = _WIDTH.search(name)
    return int(width[1]) // 32 if width else 1
