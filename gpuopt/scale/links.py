"""Copies between devices: by NCCL where it is present and pays, else from peer to peer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuopt import _core
from gpuopt.arrays.device_array import DeviceArray, make
from gpuopt.scale import nccl

NCCL_LEAST = 1 << 20  # bytes in all: less repays no communicator


class Move(NamedTuple):
    """A copy of all elements of an array to another one of the same size in bytes."""

    source: DeviceArray
    target: DeviceArray


def rows(array: DeviceArray, begin: int, end: int) -> DeviceArray:
    """Return a slice along the first axis, in the same memory."""
    step = array.nbytes // max(1, array.shape[0])
    return reshaped(array, (max(0, end - begin), *array.shape[1:]), begin * step)


def reshaped(array: DeviceArray, shape: tuple[int, ...], offset: int = 0) -> DeviceArray:
    """Return an array of another shape in the same memory, from a byte on."""
    view = array._view
    return make(
        view.address + offset, shape, view.dtype, view.device, (view.holder,), view.read_only
    )


def flat(array: DeviceArray) -> DeviceArray:
    """Return the elements as one axis, in the same memory."""
    return reshaped(array, (array.size,))


def exchange(moves: Sequence[Move], *, by_nccl: bool = True) -> None:
    """Queue copies in the order of the devices' default streams.

    Without `by_nccl` the driver copies: a communicator costs a second, too much for one call.

    Raises
    ------
    DeviceError
        NCCL or the driver failed.
    """
    moves = [each for each in moves if each.source.nbytes]
    apart = [each for each in moves if each.source.device != each.target.device]
    names = sorted({each.device for move in apart for each in move}, key=_ordinal)
    total = sum(each.source.nbytes for each in apart)
    communicator = None
    if by_nccl and total >= NCCL_LEAST and names[0].startswith("cuda"):
        communicator = nccl.between([_ordinal(name) for name in names])
    if communicator is not None:
        communicator.run(_messages(apart, names), nccl.TIMEOUT, lambda: None)
        moves = [each for each in moves if each.source.device == each.target.device]
    for source, target in moves:
        _core.transfer(target.device, target.address, source.device, source.address, source.nbytes)


def _ordinal(name: str) -> Any:
    return int(name[5:]) if name.startswith("cuda:") else name


def _messages(moves: Sequence[Move], names: list[str]) -> list[nccl.Message]:
    """Return both ends of all moves; NCCL pairs those of two ranks in their order."""
    rank = {name: number for number, name in enumerate(names)}
    found = []
    for source, target in moves:
        one, other = rank[source.device], rank[target.device]
        found.append(nccl.Message(one, other, source.address, source.nbytes, True))
        found.append(nccl.Message(other, one, target.address, target.nbytes, False))
    return found
