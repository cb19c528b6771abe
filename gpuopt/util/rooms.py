"""Memory for arrays within a call: what malloc returns to the system costs page faults each time.

A call takes the room and gives it back; calls of other threads have rooms of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

KEPT = 2  # rooms: of as many threads
BYTES_MOST = 1 << 22  # of a room that stays allocated

_rooms: list[np.ndarray] = []


@contextmanager
def room(shape: tuple[int, ...], dtype: np.dtype) -> Iterator[np.ndarray]:
    """Yield an array of any values; nobody may hold it after the block."""
    size = math.prod(shape) * dtype.itemsize
    if size > BYTES_MOST:
        yield np.empty(shape, dtype)
        return
    try:
        held = _rooms.pop()
    except IndexError:
        held = np.empty(0, np.uint8)
    if held.nbytes < size:
        held = np.empty(size, np.uint8)
    yield held[:size].view(dtype).reshape(shape)
    if len(_rooms) < KEPT:
        _rooms.append(held)
