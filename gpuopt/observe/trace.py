"""Traces: the instructions and memory accesses of one block of a simulated kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.catalog.devices import device as describe_device
from gpuopt.catalog.rungs import check_kernel, find, rungs
from gpuopt.families import cases
from gpuopt.observe import pictures, recording
from gpuopt.observe.events import Access, Instruction, Recorded
from gpuopt.observe.launches import Launch, launch_of
from gpuopt.ptx.kernel import Kernel
from gpuopt.util.checks import whole
from gpuopt.util.literals import DeviceName, Family
from gpuopt.util.names import nearest, suggests, unknown_name
from gpuopt.util.serialise import Written
from gpuopt.util.svg import Picture
from gpuopt.util.table import Column, Table

EVENTS_MOST = 100_000
_OWN = ("block_index", "warp", "launch", "events", "device")  # options of `trace` itself
RANKED_MOST = 2000  # accesses that are looked at for the worst one


@dataclass(frozen=True)
class Trace(Recorded, Written):
    """A block's execution, instruction by instruction; made by `gpuopt.trace`; `print` sums it up.

    Attributes
    ----------
    title : str
        "reduce rung 3 sequential", or the kernel's name.
    launch : Launch
        The whole launch, with its counters and findings.
    block_index : (int, int, int)
        The block that was recorded.
    warp : int or None
        The warp, if only one was recorded.
    events : ndarray
        Structured, one element for each instruction of each warp, in the order of execution.
        Fields: `instruction` (index into `instructions`), `warp`, `active` (bits of the lanes that
        execute it), `mask` (the active lanes whose guard is true), and for memory accesses `space`
        and `access` (indices into `spaces` and `accesses_names`), `bytes` per lane, `address` (of
        32 lanes; offsets in shared memory) and `base` (the address of the first lane's array);
        `part` counts the accesses of an instruction that makes several. The `address` of a shuffle
        is the lane that each lane reads.
    instructions : list of Instruction
    spaces, accesses_names : tuple of str
    truncated : bool
        Whether there were more events than `events`.
    gpu : Device
        The GPU that was simulated.
    result : object
        The call's return value.

    Examples
    --------
    >>> import gpuopt
    >>> trace = gpuopt.trace("reduce", 1)
    >>> [step["active"] for step in trace.tree().data["steps"]]
    [32, 16, 8, 4, 2, 1]
    >>> trace.coalescing(0).data["sectors"]
    4
    """

    KIND = "trace"

    def _access(self, space: str, number: int | None, cost: Callable[[Access], float]) -> Access:
        found = [each for each in self.by_space[space] if each.addresses]
        if not found:
            raise ValueError(f"access: {self.where} makes no access to {space} memory")
        if number is None:
            return max(found[:RANKED_MOST], key=lambda each: (cost(each), -each.warp))
        number = whole(number, "access", 0)
        if number >= len(found):
            raise ValueError(
                f"access: there is no number {number}; {self.where} makes {len(found)} accesses "
                f"to {space} memory, from 0"
            )
        return found[number]

    def _chosen(self, warp: int | None) -> int:
        """Return the warp of an argument, by default the first that was recorded."""
        return (self.warp or 0) if warp is None else whole(warp, "warp", 0)

    def tree(self) -> Picture:
        """Draw which thread combines which values in which step, and which lanes wait.

        Step 1 combines loaded values; step n needs at least one result of step n - 1.

        Returns
        -------
        Picture
            `data`: "steps", a list of dicts with "step", "active" (threads that combine), "warps"
            and "pairs": dicts with "thread", "needed" (the block's output depends on it),
            "operands" and "result", each a place: ("shared", element), ("global", element) or
            ("thread", number).

        Raises
        ------
        ValueError
            The kernel combines no values, or too many for a picture.
        """
        return pictures.tree(self)

    def coalescing(self, access: int | None = None) -> Picture:
        """Draw which lane's address falls into which transaction of global memory.

        Transactions are those of the simulated GPU: of half-warps before compute capability 2.0,
        lines of 128 bytes on 2.x, sectors of 32 bytes since (`gpuopt.models.transactions`).

        Parameters
        ----------
        access : int, optional
            Index into ``accesses("global")``. Default: the access with most transactions.

        Returns
        -------
        Picture
            `data`: "transactions", "unit" (their name), "sectors" (of 32 bytes) and
            "lines" (of 128) that the lanes touch, "bytes_wanted", "bytes_moved", "lanes" (by the
            transaction's offset in the array) and "event".

        Raises
        ------
        ValueError
            There is no such access.
        """
        chosen = self._access(
            "global", access, lambda each: len(pictures.transactions_of(self, each))
        )
        return pictures.coalescing(self, chosen)

    def banks(self, access: int | None = None) -> Picture:
        """Draw which lane hits which bank of shared memory.

        Parameters
        ----------
        access : int, optional
            Index into ``accesses("shared")``. Default: the access with most conflicts.

        Returns
        -------
        Picture
            `data`: "passes" (wavefronts), "conflicts", "ways", "event", and "banks": for each group
            of lanes that is served together, lanes by byte offset by bank.

        Raises
        ------
        ValueError
            There is no such access.
        """
        chosen = self._access(
            "shared", access, lambda each: pictures.bank_passes(self, each).conflicts
        )
        return pictures.banks(self, chosen)

    def tile(self, warp: int | None = None, columns: int | None = None) -> Picture:
        """Draw the thread that wrote and the thread that read each word of shared memory.

        Parameters
        ----------
        warp : int, optional
            The warp whose words stand out. Default: the first that was recorded.
        columns : int, optional
            Words per row, up to 64. Default: the distance between the lanes of a warp that writes a
            column, else the least distance between two rows that are written.

        Returns
        -------
        Picture
            `data`: "columns", "rows", "writers" and "readers" (threads by word), "banks" (a word's
            bank).

        Raises
        ------
        ValueError
            The kernel uses no shared memory; a warp that was not recorded; a number of columns
            that cannot be drawn.
        """
        if columns is not None:
            columns = whole(columns, "columns", 1)
        return pictures.tile(self, self._chosen(warp), columns)

    def timeline(self, warp: int | None = None, first: int = 0, rows: int = 160) -> Picture:
        """Draw a warp's instructions and the lanes that execute them, from top to bottom.

        Parameters
        ----------
        warp : int, optional
            Default: the first that was recorded.
        first, rows : int
            The first instruction to show, and the number of instructions, up to 400.

        Returns
        -------
        Picture
            `data`: "instructions", dicts with "event", "text", "active", "mask" and "place", and
            "efficiency": the share of active lanes.

        Raises
        ------
        ValueError
            A warp that was not recorded; `first` or `rows` out of range.
        """
        first, rows = whole(first, "first", 0), whole(rows, "rows", 1)
        return pictures.timeline(self, self._chosen(warp), first, rows)

    def _costs(self) -> list[dict[str, Any]]:
        """Return every instruction that accesses memory, with the cost of its accesses."""
        told = []
        for space, unit in (("global", pictures.unit_of(self)), ("shared", "wavefront")):
            groups: dict[tuple[str, str], list[Access]] = {}
            for access in self.by_space[space]:
                groups.setdefault((access.place, access.text), []).append(access)
            for (place, text), found in groups.items():
                some = found[:RANKED_MOST]
                costs = [
                    len(pictures.transactions_of(self, each))
                    if space == "global"
                    else pictures.bank_passes(self, each).passes
                    for each in some
                ]
                told.append(
                    {
                        "space": space,
                        "kind": found[0].kind,
                        "times": len(found),
                        "lanes": sum(len(each.addresses) for each in some) / len(some),
                        "bytes": found[0].size,
                        "unit": unit,
                        "least": min(costs),
                        "most": max(costs),
                        "place": place,
                        "text": text,
                    }
                )
        return told

    def _table(self) -> Table:
        """Return the table of the accesses to memory."""
        records = []
        for each in self._costs():
            most = pictures.plural(each["most"], each["unit"])
            span = most if each["least"] == each["most"] else f"{each['least']} to {most}"
            records.append(each | {"costs": span})
        columns = [
            Column("times", "times", least=6),
            Column("lanes", "lanes", ".1f"),
            Column("bytes", "each", "{}B"),
            Column("costs", "costs", left=True),
            Column("place", "source", left=True),
            Column("text", "access", left=True),
        ]
        return Table(columns, records)

    def _told(self) -> dict[str, Any]:
        # the contents of print; the events are arrays
        return {
            "title": self.title,
            "kernel": self.launch.kernel,
            "grid": self.launch.grid,
            "block": self.launch.block,
            "block_index": self.block_index,
            "warp": self.warp,
            "device": self.gpu.name,
            "events": len(self.events),
            "truncated": self.truncated,
            "counters": dict(self.launch.counters),
            "accesses": self._costs(),
            "findings": [finding.text for finding in self.launch.findings],
        }

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        """Return a summary, and every memory access with its cost."""
        warps = len(set(self.events["warp"].tolist()))
        kinds = Counter(self.instructions[each].kind for each in self.events["instruction"])
        counted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        cut = " (there were more: the trace is cut)" if self.truncated else ""
        title = "" if self.where.startswith(f"{self.title},") else f"{self.title}: "
        lines = [
            f"{title}{self.where} of {self.launch.grid}, "
            f"{pictures.plural(self.threads, 'thread')} in {pictures.plural(warps, 'warp')}, "
            f"on a {self.gpu.description}",
            f"{len(self.events):,} events{cut}: {counted}",
            "",
            *self._table().lines(),
        ]
        if self.launch.findings:
            lines += ["", *(finding.text for finding in self.launch.findings)]
        return "\n".join(lines)


# --- recording


class _TraceSink:
    """A sink that keeps the launch that was traced."""

    def __init__(self) -> None:
        self.launches = 0
        self.told: dict[str, Any] | None = None
        self.launch: Launch | None = None

    def __call__(self, told: dict[str, Any]) -> None:
        self.launches += 1
        if told["trace"] is not None:
            self.told, self.launch = told, launch_of(told)  # its source is known only now


def _record(
    call: Callable[[], Any], what: tuple[int, tuple[int, int, int], int, int], device: str
) -> tuple[_TraceSink, Any]:
    sink = _TraceSink()
    with recording.traced(sink, device, what):
        result = call()
    return sink, result


def _block_index(value: int | tuple[int, ...]) -> tuple[int, int, int]:
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    try:
        numbers = tuple(index(each) for each in given)
    except TypeError:
        raise TypeError(
            f"block_index: must be an int or a tuple of ints, not {value!r:.60}"
        ) from None
    if not 1 <= len(numbers) <= 3 or not all(0 <= each < 1 << 31 for each in numbers):
        raise ValueError(f"block_index: {value!r:.60} is not a block of a grid")
    x, y, z = (*numbers, 0, 0)[:3]
    return x, y, z


def _rung_call(
    family: str, arguments: tuple[Any, ...], keywords: dict[str, Any], device: str
) -> tuple[Callable[[], Any], str]:
    """Return a rung's call on a small case, and its title."""
    known = {"n", "block", "dtype", "op", "variant"} - ({"op"} if family != "reduce" else set())
    unknown = set(keywords) - known
    if any(family == experiment for _, experiment, _ in _core.probes()):
        raise ValueError(
            f"family: {family!r} is an experiment of several launches; use "
            f"gpuopt.trace(gpuopt.experiments.{family}, launch=0, device={device!r})"
        )
    if family not in cases.FAMILIES:
        rungs(family)  # an unknown family: the error lists all families
        raise ValueError(unknown_name("family", family, "a ladder", cases.FAMILIES))
    if unknown or len(arguments) > 1 or (arguments and "variant" in keywords):
        raise TypeError(
            f"trace of a rung takes a variant and {', '.join(sorted(known - {'variant'}))}; not "
            f"{', '.join(sorted(unknown)) or 'so many arguments'}"
            f"{nearest(min(unknown, default=''), (*known, *_OWN))}"
        )
    n, threads = cases.FAMILIES[family].traced
    n = n if keywords.get("n") is None else keywords["n"]
    case = cases.make(family, n, keywords.get("dtype"), op=keywords.get("op"), device=device)
    variant = arguments[0] if arguments else keywords.get("variant")
    rung = find(family, case.bench(device).rung() if variant is None else variant)
    check_kernel(rung, "trace")
    block = keywords.get("block")
    if block is None and threads and rung.block_min < rung.block_max:
        block = max(threads, rung.block_min)
    number = "" if rung.number is None or rung.historical else f"{rung.number} "
    return lambda: case.call(rung, block, device), f"{family} rung {number}{rung.name}"


@suggests
def trace(
    family_or_kernel: Family | Callable[..., Any],
    *arguments: Any,
    block_index: int | tuple[int, ...] = 0,
    warp: int | None = None,
    launch: int = 0,
    events: int = EVENTS_MOST,
    device: DeviceName | str = "sim",
    **keywords: Any,
) -> Trace:
    """Trace the threads of one block, for the pictures that explain a kernel.

    The pictures are methods of the result: `Trace.tree` (which thread adds which values),
    `Trace.coalescing` (addresses, transactions), `Trace.banks` (bank conflicts), `Trace.tile` (the
    path through shared memory), `Trace.timeline` (divergence).

    Parameters
    ----------
    family_or_kernel : str or callable
        A family, "reduce", "transpose", ..., whose rung runs on random data; or a callable that
        launches kernels: a kernel of `load_ptx`, ``module["add"]``, or a function.
    *arguments
        For a family: the variant (default: the library's choice). For a callable: its arguments.
    block_index : int or tuple of up to 3 ints
        The block to record, x first.
    warp : int, optional
        Record only this warp of the block. Default: all of them.
    launch : int
        The launch's index in the call, from 0: a reduction's second pass is 1.
    events : int
        The limit; later events are dropped, and `Trace.truncated` is set.
    device : str
        "sim", or a preset as "sim:g80": the device of a call that names none. A kernel of
        `load_ptx` runs on its module's device.
    **keywords
        For a family: `n` (elements), `block` (threads per block), `dtype`, and `op` for "reduce";
        the defaults are small enough for a picture. For a callable: its keyword arguments.

    Returns
    -------
    Trace

    Raises
    ------
    ValueError
        An unknown family, variant or device; a device that is not simulated; a block outside the
        grid, a warp outside the block; a launch index beyond the last launch.
    TypeError
        An unknown keyword.
    SimError
        The kernel failed. Errors after which the kernel can continue (races, ...) do not raise:
        they are in ``Trace.launch.findings``.

    Notes
    -----
    The whole call runs on the simulated GPU; the trace keeps the events of one block, about 290
    bytes each. It is recorded from the execution and works for any kernel.

    Examples
    --------
    >>> import gpuopt
    >>> trace = gpuopt.trace("reduce", 2, n=64, block=32)
    >>> pairs = trace.tree().data["steps"][1]["pairs"]
    >>> [(pair["thread"], pair["operands"]) for pair in pairs[:2]]
    [(0, [('shared', 0), ('shared', 2)]), (1, [('shared', 4), ('shared', 6)])]
    >>> trace.timeline().data["efficiency"] < 1
    True
    """
    if not isinstance(device, str):
        raise TypeError(f"device: must be a string, not {device!r:.60}")
    if not device.startswith("sim"):
        raise ValueError(f"device: {device!r} cannot be traced; use 'sim' or a preset as 'sim:g80'")
    what = (
        whole(launch, "launch", 0, 1 << 40),
        _block_index(block_index),
        -1 if warp is None else whole(warp, "warp", 0, 31),
        whole(events, "events", 1, 10_000_000),
    )
    if isinstance(family_or_kernel, str):
        call, title = _rung_call(family_or_kernel, arguments, keywords, device)
    elif callable(family_or_kernel):
        title = ""

        def call() -> Any:
            return family_or_kernel(*arguments, **keywords)

    else:
        raise TypeError(
            f"family_or_kernel: must be a family's name or a callable, not {family_or_kernel!r:.60}"
        )
    sink, result = _record(call, what, device)
    if sink.told is None:
        if isinstance(family_or_kernel, Kernel) and not sink.launches:
            where = family_or_kernel._module.device
            raise ValueError(
                f"family_or_kernel: {family_or_kernel.name} runs on {where}, which cannot be "
                f"traced; load its module with device='sim'"
            )
        raise ValueError(
            f"launch: there is no number {launch}: the call made {sink.launches} launches on a "
            f"simulated GPU"
        )
    told = sink.told["trace"]
    return Trace(
        title=title or sink.launch.kernel,
        launch=sink.launch,
        block_index=told["block"],
        warp=warp,
        events=np.frombuffer(told["events"], np.dtype(told["layout"])),
        instructions=[Instruction(*each) for each in told["instructions"]],
        spaces=tuple(told["spaces"]),
        accesses_names=tuple(told["accesses"]),
        truncated=told["truncated"],
        gpu=describe_device(sink.told["device"]),
        result=result,
    )
