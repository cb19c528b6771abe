"""The decks' tables as printed: rates, steps, registers and occupancies of their rungs.

The rows of csrc/kernels hold the decks' times. A rate that follows from a time differs from the
printed one in the last digit, as the decks rounded on the way.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuopt.catalog.rungs import Rung


class Printed(NamedTuple):
    """A deck's figures of one rung; 0 where it prints none.

    Attributes
    ----------
    rate : float
        GB/s, or GFLOP/s for the matrix product.
    step, total : float
        Speed-up over the rung before, and over the first.
    registers : int
        A thread's, as the deck's compiler allocated them.
    occupancy : float
        From 0 to 1.
    """

    rate: float = 0.0
    step: float = 0.0
    total: float = 0.0
    registers: int = 0
    occupancy: float = 0.0


_REDUCE = {  # decks D0 and D4: 4,194,304 integers in blocks of 128, G80
    "interleaved": Printed(2.083),
    "consecutive": Printed(4.854, 2.33, 2.33),
    "sequential": Printed(9.741, 2.01, 4.68),
    "first-add": Printed(17.377, 1.78, 8.34),
    "last-warp": Printed(31.289, 1.8, 15.01),
    "unrolled": Printed(43.996, 1.41, 21.16),
    "cascading": Printed(62.671, 1.42, 30.04),
}
_MATMUL = {  # deck D2: 1,024 x 1,024 float, Tesla M2090
    "naive": Printed(72.48, registers=15, occupancy=0.667),
    "shared": Printed(227.6, registers=20, occupancy=0.667),
    "2-targets": Printed(332.3, registers=23, occupancy=0.667),
    "4-targets": Printed(424.7, registers=32, occupancy=0.667),
    "8-targets": Printed(474.2, registers=51, occupancy=0.333),
}
# Deck D4's two kinds of reduction steps, by the rungs that they lead to, with their speed-ups.
KINDS = {"changes of the algorithm": ((2, 3, 4, 7), 11.84), "changes of the code": ((5, 6), 2.54)}
# Deck D0's own ladder of the matrix product, in GB/s on a GTX 280 and an 8800 GTX.
TILES = {"d0-plain": (8.8, 0.7), "d0-tile-of-a": (14.3, 8.2), "d0-tiles": (29.7, 15.7)}
_PRINTED = {"reduce": _REDUCE, "matmul": _MATMUL}


def printed(rung: Rung) -> Printed:
    """Return what the decks print of a rung; all 0 where they print nothing.

    Examples
    --------
    >>> from gpuopt.catalog.deck import printed
    >>> from gpuopt.catalog.rungs import find
    >>> printed(find("matmul", "8-targets")).registers
    51
    """
    if rung.host or rung.historical:
        return Printed()
    return _PRINTED.get(rung.family, {}).get(rung.name, Printed(rate=rung.deck_gbs))
