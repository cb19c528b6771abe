"""The change from one rung to the next, as a sentence made from the counters."""

from __future__ import annotations

import math
from collections.abc import Callable

from gpuopt.observe.counters import Counters
from gpuopt.observe.pictures import plural

MOST = 3  # changes in a sentence
LEAST = 0.1  # a change of a tenth is worth telling
NEGLIGIBLE = 0.005  # of the warp instructions: a counter below this is as good as none

_COUNTS: tuple[tuple[str, Callable[[Counters], float]], ...] = (
    ("warp instructions", lambda c: c.warp_instructions),
    ("divergent branches", lambda c: c.divergent_branches),
    ("bank conflicts", lambda c: c.bank_conflicts),
    ("shared-memory wavefronts", lambda c: c.shared_load_wavefronts + c.shared_store_wavefronts),
    ("barriers", lambda c: c.barriers),
    ("global load requests", lambda c: c.global_load_requests),
    ("global store requests", lambda c: c.global_store_requests),
    ("atomics", lambda c: c.global_atomics + c.shared_atomics),
)
# A ratio, and the counter that tells how much it matters.
_RATIOS: tuple[tuple[str, str, Callable[[Counters], float], Callable[[Counters], float]], ...] = (
    (
        "{unit}s per load", ".1f", lambda c: c.transactions_per_load,
        lambda c: c.global_load_transactions,
    ),
    (
        "{unit}s per store", ".1f", lambda c: c.transactions_per_store,
        lambda c: c.global_store_transactions,
    ),
    ("active lanes", ".0%", lambda c: c.warp_efficiency, lambda c: c.warp_instructions),
)  # fmt: skip


def _change(name: str, before: float, after: float) -> str:
    """Return "bank conflicts 253,515 -> 3,634", or a percentage where it is less than half."""
    if before and 0.5 < after / before < 2:
        return f"{name} {after / before - 1:+.0%}"
    return f"{name} {before:,.0f} -> {after:,.0f}"


def what_changed(before: Counters, after: Counters, unit: str = "sector") -> str:
    """Return the most telling changes, largest first, by how many times more or less.

    Parameters
    ----------
    before, after : Counters
        Counters of two rungs that did the same work.
    unit : str
        The name of the GPU's transactions: `gpuopt.observe.counters.unit_of`.

    Returns
    -------
    str
        As "bank conflicts 253,515 -> 3,634; warp instructions -22%".

    Examples
    --------
    >>> from gpuopt.observe.profile import Counters
    >>> before, after = Counters(), Counters()
    >>> what_changed(before, after)
    'no counter changed by a tenth or more'
    """
    floor = max(1.0, NEGLIGIBLE * max(before.warp_instructions, after.warp_instructions))
    found: list[tuple[float, str]] = []
    for name, of in _COUNTS:
        old, new = of(before), of(after)
        score = abs(math.log((new + floor) / (old + floor)))
        found.append((score, _change(name, old, new)))
    for name, form, of, weight in _RATIOS:
        old, new = of(before), of(after)
        if old and new and max(weight(before), weight(after)) > floor:
            text = f"{name.format(unit=unit)} {old:{form}} -> {new:{form}}"
            found.append((abs(math.log(new / old)), text))
    telling = sorted((each for each in found if each[0] >= math.log1p(LEAST)), reverse=True)
    return "; ".join(text for _, text in telling[:MOST]) or "no counter changed by a tenth or more"


def at_first(counters: Counters, unit: str = "sector") -> str:
    """Describe the rung that has none before it."""
    parts = [
        f"{counters.warp_instructions:,} warp instructions",
        f"{counters.warp_efficiency:.0%} of the lanes active",
        f"{counters.transactions_per_load:.1f} {unit}s per load",
        f"{counters.transactions_per_store:.1f} per store",
    ]
    shown = ((counters.divergent_branches, "divergent branch"),
             (counters.bank_conflicts, "bank conflict"))  # fmt: skip
    parts += [plural(count, noun) for count, noun in shown if count]
    return ", ".join(parts)
