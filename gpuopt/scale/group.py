"""Reductions over the ranks of a group: torchrun's processes, or mpiexec's.

Every rank has a slice of one array. Ranks exchange their unrounded parts and join them in the order
of the ranks, so that all of them have the same bits.
"""

from __future__ import annotations

import math
import os
import pickle
import platform
import sys
import time
import zlib
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.device_array import LEGACY, DeviceArray, empty, make
from gpuopt.arrays.libraries import view_of
from gpuopt.families.axis_plan import PLACES
from gpuopt.families.device_calls import asarray
from gpuopt.scale import nccl
from gpuopt.scale.arrivals import Arrivals, did_not_answer
from gpuopt.scale.links import NCCL_LEAST, Move, exchange, flat, rows
from gpuopt.scale.partials import PART_BYTES, Part, Reduction
from gpuopt.util.errors import DeviceError

TIMEOUT = 60.0  # seconds
_TAG = 0x6F70
_OVERHEAD = 1 << 10  # bytes that pickling adds to a message of bytes, at most


@cache
def _closed_key(kind: Any) -> Any:
    """Return the key of an attribute of MPI communicators, which ends with them."""
    return kind.Create_keyval()


class _MpiGroup:
    """An mpi4py communicator, or an object with its methods.

    Messages are non-blocking, from each rank to each: a rank that is silent is known by its number.
    """

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.size = group.Get_rank(), group.Get_size()

    def _close(self) -> None:
        """Refuse later calls: messages of this one may still come."""
        if hasattr(self.group, "Set_attr"):
            self.group.Set_attr(_closed_key(type(self.group)), True)

    def gather(self, message: bytes, timeout: float) -> list[bytes]:
        if hasattr(self.group, "Get_attr") and self.group.Get_attr(_closed_key(type(self.group))):
            raise DeviceError(
                "group: a call on this communicator has timed out, and messages of it may still "
                "come; pass a new one, which group.Dup() makes on all ranks"
            )
        sizes = self._exchange(len(message), [None] * self.size, timeout)
        room: list[Any] = [bytearray(size + _OVERHEAD) for size in sizes]
        return self._exchange(message, room, timeout)

    def _exchange(self, value: Any, room: list[Any], timeout: float) -> list[Any]:
        others = [rank for rank in range(self.size) if rank != self.rank]
        coming = {rank: self.group.irecv(room[rank], source=rank, tag=_TAG) for rank in others}
        going = {rank: self.group.isend(value, dest=rank, tag=_TAG) for rank in others}
        found, sent = {self.rank: value}, set()
        end, pause = time.monotonic() + timeout, 1e-6
        while len(found) + len(sent) < self.size + len(others):
            for rank, request in coming.items():
                if rank not in found:
                    there, message = request.test()
                    if there:
                        found[rank] = message
            sent |= {rank for rank in others if rank not in sent and going[rank].test()[0]}
            if time.monotonic() > end:
                silent = [rank for rank in others if rank not in found or rank not in sent]
                rest = [coming[rank] for rank in others if rank not in found]
                for request in rest + [going[rank] for rank in others if rank not in sent]:
                    getattr(request, "Cancel", lambda: None)()
                self._close()
                raise DeviceError(did_not_answer(silent, self.size, timeout))
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)
        return [found[rank] for rank in range(self.size)]


class _TorchGroup:
    """A group of torch.distributed, with any backend."""

    def __init__(self, group: Any) -> None:
        self.group, self.distributed = group, sys.modules["torch"].distributed
        self.rank, self.size = group.rank(), group.size()
        members = str(sorted(self.distributed.get_process_group_ranks(group)))
        name = f"{self.size}-{zlib.crc32(members.encode()):x}"
        # PyTorch's own time-out, minutes later, names no rank.
        store = self.distributed.distributed_c10d._get_default_store()
        self.arrivals = Arrivals(store, name, self.rank, self.size)

    def gather(self, message: bytes, timeout: float) -> list[bytes]:
        found: list[Any] = [None] * self.size
        try:
            self.arrivals.meet(timeout)
            self.distributed.all_gather_object(found, message, self.group)
        except DeviceError:
            raise
        except RuntimeError as error:  # of a connection: a process has ended
            raise DeviceError(f"group: a rank has probably ended: {error}") from error
        return found


def _ranks(group: Any) -> _MpiGroup | _TorchGroup:
    if all(hasattr(group, name) for name in ("Get_rank", "Get_size", "isend", "irecv")):
        return _MpiGroup(group)
    if type(group).__module__.partition(".")[0] == "torch" and hasattr(group, "rank"):
        return _TorchGroup(group)
    raise TypeError(
        "group: must be a group of torch.distributed or a communicator of mpi4py, not "
        f"{type(group).__name__}"
    )


def serve(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return the result of a call on the slices of all ranks."""
    timeout = options.pop("timeout", TIMEOUT)
    if not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9:
        raise ValueError(f"timeout: must be seconds, more than 0, not {timeout!r}")
    ranks = _ranks(options.pop("group"))
    for name in options:
        raise ValueError(f"{name}: does not go with group; leave it out")
    if arguments["out"] is not None:
        raise ValueError("out: does not go with group; leave it out")
    return _reduce(ranks, timeout, **arguments)


def _reduce(
    ranks: _MpiGroup | _TorchGroup,
    timeout: float,
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    out: Any,
    initial: Any,
    block: Any,
    device: Any,
) -> Any:
    """Reduce the ranks' slices, one behind the other along the first axis."""
    how: dict[str, Any] = {"variant": variant, "block": block, "device": device}
    if isinstance(block, tuple):  # as `gpuopt.reduce` passes both
        how["block"], how["blocks"] = block
    made: list[Any] = []

    def described() -> dict[str, Any]:
        x = inout.array_in(array, "array") if view_of(array, "array") is None else asarray(array)
        if not x.ndim:
            raise ValueError("array: has no axis along which ranks have slices; reshape it to (1,)")
        some = (max(1, x.shape[0]), *x.shape[1:])  # the whole is not empty because a slice is
        planned = Reduction.of(some, x.dtype, op, axis, bool(keepdims), dtype, initial, how)
        made.append(x)
        return {
            "op": op,
            "shape": x.shape,
            "dtype": str(x.dtype),
            "axes": (planned.axes, planned.flat, planned.keepdims),
            "result": str(planned.result),
            "gpu": _gpu(x),
        }

    headers = _shared(ranks, timeout, described)
    x = made[0]
    _agree(headers)
    lengths = [header["shape"][0] for header in headers]
    shape = (sum(lengths), *x.shape[1:])
    planned = Reduction.of(shape, x.dtype, op, axis, bool(keepdims), dtype, initial, how)
    total = math.prod(planned.kept_shape) * PART_BYTES
    if 0 in planned.axes and all(lengths) and total >= NCCL_LEAST and _on_gpus(headers, op):
        return planned.finish(_joined_on_gpus(ranks, planned, x, headers, timeout))
    start = [sum(lengths[: ranks.rank]), *(0 for _ in x.shape[1:])]
    parts = _shared(ranks, timeout, lambda: planned.part(x, start))
    if 0 in planned.axes or any(each.values is None for each in parts):
        return planned.total(parts)
    found = np.concatenate([planned.finish(each, keep=True) for each in parts])
    return found.reshape(planned.squeezed(found.shape))


def _shared(ranks: _MpiGroup | _TorchGroup, timeout: float, work: Callable[[], Any]) -> list[Any]:
    """Return what every rank's `work` returned; all ranks raise if one of them did."""
    failed: Exception | None = None
    mine: Any = None
    try:
        mine = work()
    except Exception as error:  # the others must learn of it: they wait for this rank
        failed = error
    text = None if failed is None else f"{type(failed).__name__}: {failed}"
    found = [pickle.loads(each) for each in ranks.gather(pickle.dumps((text, mine)), timeout)]
    causes = [f"rank {rank} failed: {text}" for rank, (text, _) in enumerate(found) if text]
    if failed is not None and (len(causes) == 1 or not isinstance(failed, DeviceError)):
        raise failed
    if causes:
        raise DeviceError(f"group: {'; '.join(causes)}")
    return [each for _, each in found]


# --- results that travel between GPUs


def _gpu(x: Any) -> str | None:
    """Return what identifies the GPU of an array among all ranks; None where NCCL cannot serve."""
    if not isinstance(x, DeviceArray) or not x.device.startswith("cuda:"):
        return None
    if nccl.library() is None:
        return None
    number = int(x.device[5:])
    visible = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    return f"{platform.node()} {visible[number] if number < len(visible) else number}"


def _on_gpus(headers: list[dict[str, Any]], op: str) -> bool:
    """Return whether each rank has a GPU of its own, with NCCL."""
    gpus = [header["gpu"] for header in headers]
    return None not in gpus and len(set(gpus)) == len(gpus) > 1 and op not in PLACES


_communicators: dict[Any, nccl.Communicator] = {}
_MARK = b"no data\0"  # where a message ends, until it has come


def _end_of(array: DeviceArray) -> DeviceArray:
    """Return the last bytes of an array, in the same memory."""
    view, size = array._view, len(_MARK)
    address = view.address + array.nbytes - size
    return make(address, (size,), np.dtype(np.uint8), view.device, (view.holder,), False)


def _communicator(
    ranks: _MpiGroup | _TorchGroup, headers: list[dict[str, Any]], ordinal: int, timeout: float
) -> nccl.Communicator:
    """Return the ranks' communicator, which all of them have or make."""
    key = os.getpid(), ranks.rank, tuple(header["gpu"] for header in headers)
    known = _communicators.get(key)
    usable = known is not None and not known.dead
    made = _shared(ranks, timeout, lambda: (usable, nccl.unique_id() if ranks.rank == 0 else b""))
    if known is None or not all(each for each, _ in made):
        identity = made[0][1]

        def join() -> None:
            _communicators[key] = nccl.join(identity, ranks.rank, ranks.size, ordinal, timeout)

        _shared(ranks, 2 * timeout, join)
    return _communicators[key]


def _joined_on_gpus(
    ranks: _MpiGroup | _TorchGroup,
    planned: Reduction,
    x: DeviceArray,
    headers: list[dict[str, Any]],
    timeout: float,
) -> Part:
    """Join parts by NCCL: each rank joins a slice of the results, and sends it to all others."""
    parts: list[DeviceArray] = []
    _shared(ranks, timeout, lambda: parts.append(flat(planned.part_on_device(x))))
    (part,), me = parts, ranks.rank
    link = _communicator(ranks, headers, int(x.device[5:]), timeout)
    bounds = [part.size * r // ranks.size for r in range(ranks.size + 1)]
    slices = [rows(part, begin, end) for begin, end in pairwise(bounds)]
    room = empty((ranks.size, *slices[me].shape), part.dtype, x.device)
    whole = empty(part.shape, part.dtype, x.device)

    mark = asarray(np.frombuffer(_MARK, np.uint8), x.device)

    def exchanged(sent: list[DeviceArray], received: list[DeviceArray], text: str) -> None:
        messages = [
            nccl.Message(me, r, each.address, each.nbytes, sends)
            for sends, arrays in ((True, sent), (False, received))
            for r, each in enumerate(arrays)
            if r != me and each.nbytes
        ]
        long = [r for r, each in enumerate(received) if r != me and each.nbytes >= len(_MARK)]
        ends = {r: _end_of(received[r]) for r in long}
        exchange([Move(sent[me], received[me]), *(Move(mark, end) for end in ends.values())])
        try:
            link.run(messages, timeout, lambda: _core.wait(x.device, LEGACY))
        except DeviceError as error:
            missing = [str(r) for r, end in ends.items() if end.get().tobytes() == _MARK]
            raise DeviceError(
                f"{error}; {text} {', '.join(missing)}" if missing else error
            ) from None

    def joined() -> Any:
        exchanged(
            slices, [rows(room, r, r + 1) for r in range(ranks.size)], "nothing came from rank"
        )
        mine = planned.joined_on_device(room) if bounds[me + 1] > bounds[me] else slices[me]
        parts = [rows(whole, a, b) for a, b in pairwise(bounds)]
        exchanged([mine] * ranks.size, parts, "no results came from rank")

    _shared(ranks, 2 * timeout, joined)
    return Part(whole.get().reshape(planned.kept_shape))


def _agree(headers: list[dict[str, Any]]) -> None:
    """Raise where a rank makes another call than rank 0."""
    first = headers[0]
    for rank, header in enumerate(headers):
        for name in ("op", "dtype", "axes", "result"):
            if header[name] != first[name]:
                raise ValueError(
                    f"group: rank {rank} has {name} {header[name]}, but rank 0 has {first[name]}; "
                    "all ranks must make the same call"
                )
        if header["shape"][1:] != first["shape"][1:]:
            raise ValueError(
                f"group: rank {rank} has shape {header['shape']}, but rank 0 has "
                f"{first['shape']}; all axes but the first must agree"
            )
