"""The table of rungs, as the C registry holds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuopt import _core
from gpuopt.util.names import nearest, suggests


@dataclass(frozen=True)
class Rung:
    """One step of a ladder.

    Attributes
    ----------
    family : str
        "reduce", ...
    number : int or None
        The deck's number; None for a rung without one.
    name : str
        The other value that `variant` accepts.
    lesson : str
        The one new idea of this rung.
    source : str
        The deck.
    signatures : list of (str, str, str)
        Operation, dtype of the elements, dtype of the accumulator: one tuple for each kernel.
    kernels : list of str
        Symbols of the embedded kernels (on the cpu: names of C functions).
    block_min, block_max, block_default : int
        Threads per block, powers of two; 0 for a rung without blocks.
    items_per_thread : int
        0 for a grid-stride loop.
    historical : bool
        A deck's original code, some of it undefined on today's hardware: never chosen by default.
    best : bool
        ``variant=None`` runs it, unless another rung is better for the size or dtype.
    ceiling : bool
        A plain copy, which bounds the ladder and is no step of it.
    host : bool
        Whether it is C on the cpu; otherwise a kernel.
    listing : bool
        A deck's code as it was, for the simulated GPU alone: historical, without bounds checks.
    deck_us, deck_gbs : float
        The deck's own time in microseconds, or its rate in GB/s if it states only that; else 0.

    Examples
    --------
    >>> import gpuopt
    >>> rung = gpuopt.rungs("reduce")[0]
    >>> rung.variant, rung.name, rung.deck_us
    (1, 'interleaved', 8054.0)
    >>> rung.lesson
    'interleaved pairs, every (2s)-th thread adds: divergent warps'
    """

    family: str
    number: int | None
    name: str
    lesson: str
    source: str
    signatures: list[tuple[str, str, str]]
    kernels: list[str]
    block_min: int
    block_max: int
    block_default: int
    items_per_thread: int
    historical: bool
    best: bool
    ceiling: bool
    host: bool
    deck_us: float
    deck_gbs: float = 0.0
    listing: bool = False

    @property
    def variant(self) -> int | str:
        """The value to pass as ``variant=``."""
        return self.name if self.number is None or self.historical else self.number


def find(family: str, variant: int | str | None) -> Rung:
    """Return a rung by number or name; ValueError lists the valid ones.

    None means the best kernel for many elements; a bench's `rung` names the one for its case.
    """
    listed = rungs(family)
    # a bool is an int, but not a rung's number
    named = isinstance(variant, str | int | np.integer) and not isinstance(variant, bool)
    for rung in listed:
        if variant is None and rung.best and not rung.host:
            return rung
        if named and variant in (rung.variant, rung.name):
            return rung
    valid = ", ".join(repr(rung.variant) for rung in listed)
    hint = nearest(variant, [rung.name for rung in listed]) if isinstance(variant, str) else ""
    raise ValueError(f"variant: {variant!r} is not a rung of {family}; use one of {valid}{hint}")


def _blocks(rung: Rung) -> str:
    """Return a rung's block sizes as text; "" for a rung without blocks."""
    if rung.host or not rung.block_default:
        return ""
    if rung.block_min == rung.block_max:
        return f"{rung.block_default:,}"
    return f"{rung.block_min:,} to {rung.block_max:,}"


_SHOWN = {
    "variant": lambda rung: repr(rung.variant),
    "name": lambda rung: rung.name + ", the best" * rung.best,
    "runs on": lambda rung: "cpu" if rung.host else "sim" if rung.listing else "cuda, sim",
    "threads per block": _blocks,
    "source": lambda rung: rung.source,
    "what is new": lambda rung: rung.lesson,  # last: a narrow terminal folds it
}


@suggests
def rungs(family: str = "reduce") -> list[Rung]:
    """List a family's rungs, in the ladder's order.

    Parameters
    ----------
    family : str
        "reduce", "reduce_axis", "transpose", "stencil1d", "add", "saxpy", "matmul" or "roofline".

    Returns
    -------
    list of Rung
        It shows itself as a table.

    Raises
    ------
    ValueError
        An unknown family; the message lists them.

    Examples
    --------
    >>> import gpuopt
    >>> [rung.number for rung in gpuopt.rungs("reduce") if not (rung.host or rung.historical)]
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    >>> [rung.variant for rung in gpuopt.rungs("add") if rung.listing]
    ['1-historical', '2-historical', '3-historical', '4-historical', '5-historical']
    """
    rows = _core.rungs(family)
    from gpuopt.util.table import Listing  # a computation prints no table

    return Listing(
        (Rung(**{**row, "number": None if row["number"] < 0 else row["number"]}) for row in rows),
        _SHOWN,
    )


def check_kernel(rung: Rung, verb: str) -> None:
    """Raise ValueError if a rung has no kernel to trace or to count."""
    if rung.host:
        kernels = ", ".join(repr(each.variant) for each in rungs(rung.family) if not each.host)
        raise ValueError(
            f"variant: {rung.variant!r} runs on the cpu and has no kernel to {verb}; use one of "
            f"{kernels}"
        )
