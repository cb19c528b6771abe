"""The decks' case study: the matrix product, predicted by the roofline and measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gpuopt.catalog.deck import TILES, printed
from gpuopt.catalog.devices import Device, device as describe_device, device_name
from gpuopt.catalog.rungs import Rung, rungs
from gpuopt.families.matmul import matmul
from gpuopt.measure.ladder import ladder
from gpuopt.measure.ladder_result import Ladder
from gpuopt.measure.roofline import Roofline, roofline
from gpuopt.models import gpu, occupancy
from gpuopt.observe.machine import PTXAS_OLDEST, own_machine
from gpuopt.observe.profile import profile
from gpuopt.ptx.kernel import resources
from gpuopt.show import terminal
from gpuopt.util.checks import whole
from gpuopt.util.names import suggests
from gpuopt.util.serialise import Result
from gpuopt.util.table import Column, Table

# Deck D2, for each rung's inner loop: floating-point operations, words that they read, the memory
# that supplies the words, and the deck's prediction in GFLOP/s, which it computes from rounded
# figures. A rung without a row is judged by the algorithm alone.
LOOPS = {
    "naive": (2, 2, "DRAM", 44.25),
    "shared": (2, 2, "shared memory", 333),
    "2-targets": (4, 3, "shared memory", 429),
    "4-targets": (8, 5, "shared memory", 520),
    "8-targets": (16, 9, "shared memory", 578),
}
TILE_SHAPE = (1024, 16)  # of deck D0's first matrix
TILE_GPUS = ("gt200", "g80")


@dataclass(frozen=True)
class CaseRow:
    """A rung of the matrix product: the roofline's prediction and the measurement.

    Attributes
    ----------
    rung : str
    flops, words : int
        Counts of the inner loop; 0 where the algorithm as a whole was judged.
    intensity : float
        Operations for each byte.
    memory : str
        The ceiling that feeds it.
    predicted, measured : float
        Operations per second; 0 where there is none.
    deck_predicted, deck : float
        The deck's, predicted and measured, of a Tesla M2090.
    registers, occupancy : int, float
        A thread's registers and the occupancy from 0 to 1 on this device: the compiler's on a GPU,
        estimated from the PTX on a simulated one; 0 on the cpu and for rungs that the deck lacks.
    compiled_registers, compiled_occupancy : int, float
        On a simulated GPU those of ptxas, where it is at hand, for the oldest architecture that it
        knows; else 0.
    deck_registers, deck_occupancy : int, float
        The deck's, as its compiler gave them.
    """

    rung: str
    flops: int
    words: int
    intensity: float
    memory: str
    predicted: float
    measured: float
    deck_predicted: float
    deck: float
    registers: int = 0
    occupancy: float = 0.0
    deck_registers: int = 0
    deck_occupancy: float = 0.0
    compiled_registers: int = 0
    compiled_occupancy: float = 0.0


@dataclass(frozen=True)
class TileRow:
    """A rung of deck D0's ladder of the matrix product, on the deck's two GPUs.

    Attributes
    ----------
    rung : str
    gt200, g80 : float
        Predicted seconds on the simulated GTX 280 and 8800 GTX.
    gt200_transactions, g80_transactions : int
        Transactions of all global loads and stores, counted there.
    deck_gt200, deck_g80 : float
        The deck's GB/s.
    """

    rung: str
    gt200: float
    gt200_transactions: int
    deck_gt200: float
    g80: float
    g80_transactions: int
    deck_g80: float


@dataclass(frozen=True)
class CaseStudy(Result):
    """Predicted against measured, for one device; it shows itself as a table.

    Attributes
    ----------
    device : Device
    n : int
        The matrices are n x n.
    source : str
        Source of the ceilings: "measured" or "datasheet".
    rows : list of CaseRow
    dtype : str
        Dtype of the matrices.
    tiles : list of TileRow
        Deck D0's ladder, on its own two GPUs alone, "sim:gt200" and "sim:g80".

    Examples
    --------
    >>> import gpuopt
    >>> study = gpuopt.matmul_case_study("sim:m2090")
    >>> [round(row["predicted"] / 1e9) for row in study.records()][:2]
    [44, 333]
    """

    KIND = "case study"

    device: Device
    n: int
    source: str
    rows: list[CaseRow]
    dtype: str = "float32"
    tiles: list[TileRow] = field(default_factory=list)

    def records(self) -> list[dict[str, Any]]:
        """Return a flat dict for each row, as ``pandas.DataFrame`` takes them."""
        return [asdict(row) for row in self.rows]

    def _resident(self) -> list[str]:
        """Return the table of registers and occupancies; none on the cpu."""
        rows = [row for row in self.rows if row.registers]
        if not rows:
            return []
        sim = self.device.kind == "sim"
        columns = [
            Column("rung", "rung", left=True, least=14),
            Column("deck_registers", "deck: M2090\nregisters"),
            Column("deck_occupancy", "occupancy", ".1%"),
            Column("registers", f"{'estimated' if sim else 'here'}\nregisters"),
            Column("occupancy", "occupancy", ".1%"),
            Column("compiled_registers", f"ptxas, sm_{PTXAS_OLDEST}\nregisters"),
            Column("compiled_occupancy", "occupancy", ".1%"),
        ]
        records = [
            {"rung": row.rung} | {name: getattr(row, name) or None for name in _RESIDENT}
            for row in rows
        ]
        lines = ["", *Table(columns, records).lines()]
        if sim:
            lines += [
                "",
                "estimated: from the PTX; a machine's compiler may use fewer or more",
                "no occupancy: a block would not fit with so many",
            ]
        if any(row.compiled_registers for row in rows):
            lines += [f"ptxas: today's compiler for sm_{PTXAS_OLDEST}, the oldest that it knows"]
        return lines

    def _tiled(self) -> list[str]:
        """Return the table of deck D0's ladder; none on other GPUs than the deck's."""
        columns = [Column("rung", "rung", left=True, least=14)]
        for name, title in (("gt200", "GTX 280"), ("g80", "8800 GTX")):
            columns += [
                Column(f"deck_{name}", f"{title}\ndeck, GB/s", ",.1f"),
                Column(f"deck_{name}_step", "step", "{:.2f}x"),
                Column(f"{name}_transactions", "transactions"),
                Column(name, "predicted us", ",.1f", 1e6),
                Column(f"{name}_step", "step", "{:.2f}x"),
            ]
        records, before = [], None
        for row in self.tiles:
            record = asdict(row)
            for name in ("gt200", "g80") if before else ():
                record[f"{name}_step"] = before[name] / record[name]
                record[f"deck_{name}_step"] = record[f"deck_{name}"] / before[f"deck_{name}"]
            records.append(record)
            before = record
        m, k = TILE_SHAPE
        head = (
            f"deck D0's ladder: {m:,} x {k} times {k} x {m:,}, counted and predicted, not measured"
        )
        return ["", head, "", *Table(columns, records).lines()] if records else []

    def __repr__(self) -> str:
        """Return the table."""
        how = "datasheet's" if self.source == "datasheet" else "measured"
        columns = [
            Column("rung", "rung", left=True, least=14),
            Column("loop", "flops/words"),
            Column("intensity", "flops/byte", ".3g"),
            Column("memory", "fed by"),
            *_pair("", "predicted"),
            *_pair("deck_", "deck: M2090\npredicted"),
        ]
        records = [
            asdict(row)
            | {"loop": f"{row.flops}/{row.words}" if row.words else "-"}
            | _cells("", row.predicted, row.measured, "-")
            | _cells("deck_", row.deck_predicted, row.deck, "")
            for row in self.rows
        ]
        lines = [
            f"matrix product of {self.n:,} x {self.n:,} {self.dtype}, on "
            f"{self.device.description} ({self.device.name})",
            f"predicted: intensity x the {how} bandwidth of what feeds the inner loop, or the peak",
            "",
            *Table(columns, records).lines(),
        ]
        if any(row.measured > row.predicted for row in self.rows):
            lines += ["", "over 100%: a cache fed it, which the prediction does not know"]
        lines += self._resident()
        lines += self._tiled()
        if not any(row.measured for row in self.rows):
            lines += ["", "a simulated GPU has no clock: measure on 'cuda' or 'cpu'"]
        return "\n".join(line.rstrip() for line in lines)


_RESIDENT = ("registers", "occupancy", "deck_registers", "deck_occupancy", "compiled_registers",
             "compiled_occupancy")  # fmt: skip


def _pair(whose: str, title: str) -> list[Column]:
    """Return the columns of a prediction, of the measurement, and of their ratio."""
    return [
        Column(f"{whose}predicted", title, least=13),
        Column(f"{whose}measured", "measured", least=13),
        Column(f"{whose}share", "share", ".0%"),
    ]


def _cells(whose: str, predicted: float, measured: float, otherwise: str) -> dict[str, Any]:
    """Return the cells of these columns."""
    pair = {"predicted": predicted, "measured": measured}
    return {
        **{f"{whose}{k}": terminal.rate(v, "FLOP/s") if v else otherwise for k, v in pair.items()},
        f"{whose}share": measured / predicted if measured and predicted else None,
    }


def _row(rung: Rung, n: int, dtype: str, roof: Roofline, measured: float) -> CaseRow:
    word = np.dtype(dtype).itemsize
    if rung.name in LOOPS:
        flops, words, memory, told = LOOPS[rung.name]
        intensity = flops / (words * word)
    else:  # each matrix moved once
        flops, words, memory, told = 0, 0, "DRAM", 0.0
        intensity = 2 * n**3 / (3 * n**2 * word)
    predicted = roof.attainable(intensity, dtype=dtype, memory=memory)
    deck = printed(rung)
    return CaseRow(
        rung.name, flops, words, intensity, memory, predicted, measured, 1e9 * told,
        1e9 * deck.rate, deck_registers=deck.registers, deck_occupancy=deck.occupancy,
        **_resident(rung, dtype, roof.device),
    )  # fmt: skip


def _resident(rung: Rung, dtype: str, device: Device) -> dict[str, Any]:
    """Return a rung's registers and occupancies on a device; none where the deck has none.

    The deck's rungs have static shared memory alone, which the kernel's resources tell.
    """
    if device.kind == "cpu" or rung.host or rung.name not in LOOPS:
        return {}
    (symbol,) = (each for each in rung.kernels if each.endswith(f"_{dtype}_{dtype}"))
    found = resources(symbol, device.name)
    limits = gpu(device)

    def share(registers: int) -> float:
        if rung.block_default > limits.threads_per_block:
            return 0.0
        resident = occupancy(
            limits, rung.block_default, registers=registers, shared=found.shared_bytes
        )
        return resident.warps / resident.max_warps

    told: dict[str, Any] = {"registers": found.registers, "occupancy": share(found.registers)}
    code = own_machine(symbol, 0) if device.kind == "sim" else None
    if code:
        told |= {"compiled_registers": code.registers, "compiled_occupancy": share(code.registers)}
    return told


def _tile_rows() -> list[TileRow]:
    """Return deck D0's ladder, counted and predicted on its two GPUs."""
    m, k = TILE_SHAPE
    a, b = np.ones((m, k), np.float32), np.ones((k, m), np.float32)
    found = []
    for name, rates in TILES.items():
        told: list[Any] = []
        for preset, rate in zip(TILE_GPUS, rates, strict=True):
            counted = profile(matmul, a, b, variant=name, device=f"sim:{preset}")
            moved = counted.counters
            transactions = moved.global_load_transactions + moved.global_store_transactions
            told += [counted.predicted().seconds, transactions, rate]
        found.append(TileRow(name, *told))
    return found


def _check(measured: Ladder) -> None:
    """Refuse a ladder that is no matrix product's, has no times, or is another machine's."""
    if not isinstance(measured, Ladder):
        raise TypeError(f"measured: must be a ladder, not {measured!r:.60}")
    if measured.family != "matmul" or not measured.timed:
        raise ValueError("measured: must be a ladder of family 'matmul' with times")
    here = describe_device(measured.device.name)
    if measured.device.description != here.description:
        raise ValueError(
            f"measured: was measured on {measured.device.description}, but {here.name} is "
            f"{here.description} here"
        )


@suggests
def matmul_case_study(
    device: str | None = None,
    n: int = 1024,
    *,
    quick: bool = False,
    measured: Ladder | None = None,
    progress: Callable[[str, float], None] = lambda text, share: None,
) -> CaseStudy:
    """Predict the matrix-product ladder with the roofline, and measure it: deck D2's case study.

    Parameters
    ----------
    device : str, optional
        As `gpuopt.roofline`; a simulated GPU gives predictions alone.
    n : int
        Rows and columns; the deck's are 1,024.
    quick : bool
        A quick roofline.
    measured : Ladder, optional
        The "matmul" ladder, if it was measured on this machine already; `n`, `device` and dtype
        are then its own.
    progress : callable
        Progress callback: message, fraction from 0 to 1.

    Returns
    -------
    CaseStudy

    Raises
    ------
    ValueError
        `measured` is another family's ladder, or another machine's, or has no times; n is less
        than 1.
    TypeError
        `measured` is no ladder, or n no integer.
    VerificationError, DeviceError, DeviceMemoryError
        As `gpuopt.roofline` and `gpuopt.ladder`.

    Notes
    -----
    On "sim:g80" and "sim:gt200" deck D0's own ladder is shown as well, with its two columns.

    Source: deck D2, which predicts 44 GFLOP/s for the naive rung (0.25 operations per byte from 177
    GB/s) and measures 72: the caches help.

    Examples
    --------
    >>> import gpuopt
    >>> study = gpuopt.matmul_case_study("sim:m2090")
    >>> [round(row.predicted / 1e9) for row in study.rows[:3]]
    [44, 333, 444]
    """
    n = whole(n, "n", 1)
    if measured is None:
        name = device_name(device, "cpu")
    else:
        _check(measured)
        name = measured.device.name
    roof = roofline(name, quick=quick, progress=lambda text, share: progress(text, share / 2))
    if measured is None and roof.device.kind != "sim":
        measured = ladder(
            "matmul",
            n * n,
            device=roof.device.name,
            counters=False,
            progress=lambda text, share: progress(text, 0.5 + share / 2),
        )
    if measured:
        n, dtype = round(measured.n**0.5), measured.dtype
        found = [(each.rung, measured.operations / each.cold.median) for each in measured.rows]
    else:
        dtype = "float32"
        found = [(rung, 0.0) for rung in rungs("matmul") if not rung.host and not rung.historical]
    rows = [_row(rung, n, dtype, roof, rate) for rung, rate in found]
    old = roof.device.name in [f"sim:{preset}" for preset in TILE_GPUS]
    return CaseStudy(roof.device, n, roof.source, rows, dtype, _tile_rows() if old else [])
