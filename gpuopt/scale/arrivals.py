"""Waits for all ranks of a group, or names those that do not come, by a key-value store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from gpuopt.util.errors import DeviceError

_DECIDED = 1 << 32  # rank 0 adds it to a call's state; a rank that leaves before adds 1
_GRACE = 2.0  # seconds that the others wait longer, for rank 0's verdict


def did_not_answer(ranks: Sequence[int], size: int, timeout: float) -> str:
    """Return the error's text."""
    others = [rank for rank in range(size) if rank not in ranks]
    came = f"; {_named(others)} did" if others else ""
    return (
        f"group: {_named(ranks)} did not answer within {timeout:g} s{came}; every rank must make "
        "the same call (timeout= sets the seconds)"
    )


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


class Arrivals:
    """The calls of a group's ranks, counted in a store.

    Parameters
    ----------
    store
        Has ``add(key, number)``, which returns the sum, `set`, `get` and `delete_key`, as
        torch.distributed's stores.
    name : str
        The group's, the same on all its ranks.
    """

    def __init__(self, store: Any, name: str, rank: int, size: int) -> None:
        self.store, self.name, self.rank, self.size = store, f"gpuopt/{name}", rank, size

    def meet(self, timeout: float) -> None:
        """Wait for all ranks.

        Rank 0 decides whether all came in time, so that either all ranks go on or none does.

        Raises
        ------
        DeviceError
            Ranks did not come within `timeout` seconds, which the message names.
        """
        call = self.store.add(f"{self.name}/calls/{self.rank}", 1)
        state, verdict = f"{self.name}/state/{call}", f"{self.name}/verdict/{call}"
        text = self._decide(call, state, timeout) if self.rank == 0 else None
        if text is not None:
            self.store.set(verdict, text or "come")
        elif self._decided(state, timeout + _GRACE):
            text = self.store.get(verdict).decode()
            text = "" if text == "come" else text
        else:
            text = did_not_answer(self._missing(call, range(self.size)) or [0], self.size, timeout)
        if text:
            raise DeviceError(text)
        if self.rank == 0:  # all ranks are past the call before
            for key in ("state", "verdict"):
                with suppress(Exception):  # a store may not delete
                    self.store.delete_key(f"{self.name}/{key}/{call - 1}")

    def _missing(self, call: int, among: Iterable[int]) -> list[int]:
        return [r for r in among if self.store.add(f"{self.name}/calls/{r}", 0) < call]

    def _decide(self, call: int, state: str, timeout: float) -> str:
        """Return the verdict of rank 0: the error's text, or "" if all ranks came."""
        missing = [*range(self.size)]
        for _ in _looks(timeout):
            missing = self._missing(call, missing)
            if not missing:
                break
        others_left = self.store.add(state, _DECIDED) != _DECIDED
        if missing:
            return did_not_answer(missing, self.size, timeout)
        text = "group: rank 0 came when another rank no longer waited for it; repeat the call"
        return text if others_left else ""

    def _decided(self, state: str, timeout: float) -> bool:
        """Wait for the verdict; False: this rank leaves without one."""
        for _ in _looks(timeout):
            if self.store.add(state, 0) >= _DECIDED:
                return True
        return self.store.add(state, 1) >= _DECIDED


def _looks(timeout: float) -> Iterator[None]:
    """Yield at once and, at growing intervals, until the time is over."""
    end, pause = time.monotonic() + timeout, 1e-4
    while True:
        yield
        left = end - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(2 * pause, 1e-2)
