"""A block's critical path: its recorded instructions, each of which waits for its operands.

An instruction starts when its sources are ready, and its result is ready after its latency. PTX is
not scheduled, but machine code is: between two branches or barriers the order is free, and all must
have started before the branch. At a barrier a warp waits for the others of its block. The longest
warp's time is the latency of the block, as if it ran alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpuopt.catalog.figures import Figures

EVENTS = 8192  # of a sampled block
KINDS = 8  # of warps that a block may have, else all are taken for one
SHARED, FULL = 2, 0xFFFFFFFF  # enum sim_trace_space, and all lanes
PTX_LINE = 4  # of the fields of an instruction of a trace

# Statements for which the machine has no instruction of its own: operands of others, or renamings.
_FREE = ("mov.", "cvta.", "ld.param", "st.param", "bar.warp.sync", "cvt.u64.u32", "cvt.s64.s32",
         "pragma", "call")  # fmt: skip
_REGISTER = re.compile(r"%[\w.$]+")
_NO_RESULT = ("st.", "red.", "bra", "bar", "barrier", "exit", "ret", "membar", "fence", "prefetch",
              "cp.", "trap", "nanosleep", "brx", "call", "discard", "griddep")  # fmt: skip
_IN_ORDER = ("global", "shared", "local")
_SLOW_F32 = re.compile(r"(div|sqrt|rcp|rsqrt)\.r[nzmp]\S*\.f32")
_SLOW_F64 = re.compile(r"(div|sqrt|rcp)\.r[nzmp]\S*\.f64")


class ScheduledStatement(NamedTuple):
    """A PTX statement, as the scoreboard needs it."""

    name: str  # the mnemonic
    kind: str
    writes: tuple[str, ...]
    reads: tuple[str, ...]


@lru_cache(1 << 14)
def parse(text: str) -> ScheduledStatement:
    """Return the parts of a PTX statement, "@%p1 add.s32 %r1, %r2, %r3"."""
    guard = ""
    if text.startswith("@"):
        guard, _, text = text.partition(" ")
    name, _, rest = text.strip().partition(" ")
    writes: list[str] = []
    if not name.startswith(_NO_RESULT):
        head, brace, tail = rest.partition("}") if rest.startswith("{") else rest.partition(",")
        writes = _REGISTER.findall(head)
        rest = tail if brace else ""
    reads = _REGISTER.findall(guard) + _REGISTER.findall(rest)
    return ScheduledStatement(name, kind_of(name), tuple(writes), tuple(reads))


@lru_cache(1 << 12)
def kind_of(name: str) -> str:
    """Return what executes a mnemonic: "free", "integer", "global", "shared", "barrier", ..."""
    if name.startswith(_FREE):
        return "free"
    if name.startswith(("ld", "st", "atom", "red", "cp.async", "prefetch")):
        return next((space for space in ("shared", "local", "const") if space in name), "global")
    if name.startswith(("tex", "tld4")):
        return "texture"
    if name.startswith(("bar.", "barrier.")) and "arrive" not in name:
        return "barrier"
    if name.startswith(("shfl", "redux", "match")):
        return "shuffle"
    if name.startswith(("bra", "brx", "ret", "exit", "setp", "and.pred", "or.pred", "not.pred")):
        return "integer" if name.startswith("setp") and ".f" not in name else "control"
    if name.startswith(("mma", "wmma", "wgmma", "tcgen", "ldmatrix")):
        return "tensor"
    if ".f64" in name:
        return "f64"
    if name.startswith(("ex2", "lg2", "sin", "cos", "tanh", "rcp.approx", "rsqrt", "sqrt.approx")):
        return "special"
    if ".f32" in name or ".f16" in name or ".bf16" in name:
        return "f32"
    if name.startswith(("div.", "rem.")):
        return "divide"
    if name.startswith(("mul.", "mad.", "mul24", "mad24", "dp4a", "dp2a")):
        return "multiply"
    return "integer"


@lru_cache(1 << 12)
def words_of(text: str) -> int:
    """Return the 32-bit words that a lane's access moves.

    Examples
    --------
    >>> words_of("st.shared.v2.u64 [%r1], {%rd1, %rd2}"), words_of("ld.shared.u8 %rs1, [%r1]")
    (4, 1)
    """
    name = parse(text).name
    vector, bits = re.search(r"\.v(\d)", name), re.search(r"\.[bsuf](\d+)$", name)
    return max(1, int(vector[1] if vector else 1) * int(bits[1] if bits else 32) // 32)


def slots(text: str, figures: Figures, capability: int, together: bool = False) -> float:
    """Return how many machine instructions stand for a PTX statement.

    Parameters
    ----------
    text : str
        The statement.
    figures : Figures
    capability : int
        Compute capability, times ten.
    together : bool
        `fused`'s answer for it and its neighbours.
    """
    each = parse(text)
    if each.kind == "free":
        return 0
    wide = ".s64" in each.name or ".u64" in each.name or ".b64" in each.name
    if each.kind == "shared" and capability < 20 and together:
        return 0.5
    if each.kind == "divide":
        return figures.divide_slots * (4 if wide else 1)
    if _SLOW_F32.match(each.name) or _SLOW_F64.match(each.name):
        return 9
    if each.kind == "integer" and wide and capability >= 30:
        return 0 if together and capability >= 50 else 2
    if each.kind == "multiply":
        if ".wide" in each.name or "24" in each.name:  # of an index by an element's size: a shift
            return 1
        return (4 if wide and capability >= 30 else 1) * (
            figures.integer_lanes // figures.multiply_lanes if capability < 20 else 1
        )
    return 1


def fused(texts: Sequence[str]) -> list[bool]:
    """Return for each statement whether one machine instruction does it and a neighbour's work.

    Since 5.0 an address's product and its addition are one (IMAD.WIDE). Before 2.0 an operand of
    arithmetic may lie in shared memory, for half a slot more (Volkov and Demmel, SC 2008).
    """
    known = [parse(each) for each in texts]
    found = [False] * len(known)
    for at in range(1, len(known)):
        one, two = known[at - 1], known[at]
        if not one.writes or one.writes[0] not in two.reads:
            continue
        if one.name.startswith("ld.shared") and two.kind in ("integer", "f32"):
            found[at - 1] = True
        elif one.name.startswith("mul.wide") and two.name.startswith("add.s64"):
            found[at] = True
    return found


class Sample(NamedTuple):
    """The instructions of one block of a launch, in the order of time.

    Attributes
    ----------
    texts : tuple of str
        The kernel's statements.
    instruction, warp : ndarray
        For each event the index of its statement, and its warp.
    truncated : bool
        Whether the block executed more.
    shared_words : dict of int to (int, int)
        By line of the PTX, of an access to shared memory: the different words of 32 bits that a
        warp's lanes access together, and those of one lane.
    lines : tuple of int
        The statements' lines in the PTX.
    """

    texts: tuple[str, ...]
    instruction: np.ndarray
    warp: np.ndarray
    truncated: bool
    shared_words: dict[int, tuple[int, int]]
    lines: tuple[int, ...] = ()

    def counts(self, coupled: bool) -> tuple[list[dict[int, int]], list[int], int]:
        """Return how often the warps executed each line of the PTX.

        Returns
        -------
        counts : list of dict
            By line, for each kind of warp; without `coupled` for the longest warp alone.
        kinds : list of int
            The kind of each warp.
        steps : int
            The longest warp's instructions.
        """
        warps, lines = int(self.warp.max(initial=0)) + 1, len(self.lines)
        at = self.warp.astype(np.int64) * lines + self.instruction
        by_warp = np.bincount(at, minlength=warps * lines).reshape(warps, lines)
        steps = by_warp.sum(1)
        kinds, chosen = [0] * warps, by_warp[[steps.argmax()]]
        if coupled:
            known: dict[bytes, int] = {}
            kinds = [known.setdefault(each.tobytes(), len(known)) for each in by_warp]
            chosen = by_warp[[kinds.index(kind) for kind in range(len(known))]]
            if len(known) > KINDS:  # as if all did what some do
                chosen, kinds = by_warp.max(0)[None], [0] * len(by_warp)
        counts = [dict(zip(self.lines, each, strict=True)) for each in chosen.tolist()]
        return counts, kinds, int(steps.max())


def sample_of(told: dict[str, Any] | None) -> Sample | None:
    """Return the sample of a launch's trace, as `_core` reports it."""
    if told is None:
        return None
    events = np.frombuffer(told["events"], np.dtype(told["layout"]))
    events = events[events["part"] == 0]
    texts = tuple(each[0] for each in told["instructions"])
    kept = events["instruction"].astype(np.int32), events["warp"].astype(np.int16)
    words = _shared_words(events, told["instructions"])
    lines = tuple(each[PTX_LINE] for each in told["instructions"])
    return Sample(texts, *kept, told["truncated"], words, lines)


def _shared_words(events: np.ndarray, instructions: Any) -> dict[int, tuple[int, int]]:
    """Return the words of the first access of each statement to shared memory."""
    found: dict[int, tuple[int, int]] = {}
    shared = np.flatnonzero((events["space"] == SHARED) & (events["mask"] == FULL))
    _, firsts = np.unique(events["instruction"][shared], return_index=True)
    for event in events[shared[firsts]]:
        words = max(1, int(event["bytes"]) // 4)
        different = len(np.unique(event["address"] // 4)) * words
        found[instructions[event["instruction"]][PTX_LINE]] = different, words
    return found


class Path(NamedTuple):
    """A block's critical path: the time of its longest warp in clocks, and the part that waits."""

    clocks: float
    waits: float
    steps: int  # PTX instructions of that warp
    barriers: int


def critical_path(
    sample: Sample,
    figures: Figures,
    capability: int,
    load: Callable[[str], float],
    work: float = 0.0,
) -> Path:
    """Return the time of the sampled block's longest warp, in clocks.

    Parameters
    ----------
    sample : Sample
    figures : Figures
    capability : int
        Compute capability, times ten.
    load : callable
        Returns a global load's latency from its statement.
    work : float
        Clocks of the multiprocessor per PTX instruction of the block, where barriers couple its
        warps: while one waits, others work, and a warp has its share of the multiprocessor.
    """
    known = [parse(each) for each in sample.texts]
    gap = 1 / min(figures.issue, 1.0)
    latency = [
        _latency(each, figures, lambda text=text: load(text))
        for each, text in zip(known, sample.texts, strict=True)
    ]
    taken = [
        gap * slots(text, figures, capability, together)
        for text, together in zip(sample.texts, fused(sample.texts), strict=True)
    ]
    issued = taken
    if any(each.kind == "barrier" for each in known):
        alone = float(np.asarray(taken)[sample.instruction].sum())
        alone /= max(1, len(set(sample.warp.tolist())))
        stretch = max(1.0, work * len(sample.instruction) / max(alone, 1.0))
        issued = [each * stretch for each in taken]
    warps: dict[int, _Warp] = {}
    arrived: list[float] = []  # at each barrier the last warp's time
    for at, number in zip(sample.instruction.tolist(), sample.warp.tolist(), strict=True):
        each, warp = known[at], warps.setdefault(number, _Warp())
        warp.steps += 1
        if warp.waits:
            warp.waits = False
            warp.begin(max(warp.end, arrived[warp.barriers - 1] + figures.barrier))
        ready = warp.ready
        start = max([warp.start, *(ready.get(name, 0.0) for name in each.reads)])
        if each.kind in _IN_ORDER and ".nc" not in each.name:
            start = max(start, warp.stored.get(each.kind, 0.0))
            if each.name.startswith(("st", "red", "atom")):
                warp.stored[each.kind] = start
        if each.kind == "free":  # its result is its operand
            ready.update(dict.fromkeys(each.writes, start))
            continue
        warp.issued += issued[at]
        warp.busy += issued[at]
        warp.end = max(warp.end, warp.start + warp.issued, start + gap)
        ready.update(dict.fromkeys(each.writes, start + taken[at] - gap + latency[at]))
        if each.kind == "barrier":
            warp.waits = True
            warp.barriers += 1
            if warp.barriers > len(arrived):
                arrived.append(0.0)
            arrived[warp.barriers - 1] = max(arrived[warp.barriers - 1], warp.end)
        elif each.kind == "control":
            warp.begin(warp.end)
    longest = max(warps.values(), key=lambda each: each.end, default=_Warp())
    waits = max(0.0, longest.end - longest.busy)
    return Path(longest.end, waits, longest.steps, longest.barriers)


class _Warp:
    """A warp in a straight stretch of code, which the compiler has scheduled: loads come first.

    Attributes
    ----------
    start, end : float
        Clocks at which the stretch began, and at which all of its instructions have been issued.
    issued, busy : float
        Clocks of issue, in the stretch and in all.
    ready : dict of str to float
        When a register has its value.
    stored : dict of str to float
        By kind of memory, when the last store began: no later access may overtake it.
    steps, barriers : int
        Instructions executed, barriers reached.
    waits : bool
        Whether the last instruction was a barrier.
    """

    __slots__ = (
        "barriers", "busy", "end", "issued", "ready", "start", "steps", "stored", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.start = self.end = self.issued = self.busy = 0.0
        self.ready: dict[str, float] = {}
        self.stored: dict[str, float] = {}
        self.steps = self.barriers = 0
        self.waits = False

    def begin(self, now: float) -> None:
        """Begin a stretch."""
        self.start = self.end = now
        self.issued = 0.0


def _latency(each: ScheduledStatement, figures: Figures, load: Callable[[], float]) -> float:
    if each.kind in ("shared", "shuffle", "const"):
        return figures.shared
    if each.kind in ("global", "local", "texture"):
        return load()
    if each.kind in ("f64", "special"):
        return 2 * figures.alu
    if each.kind == "tensor":
        return 8 * figures.alu
    return figures.alu
