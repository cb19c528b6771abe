"""NCCL, opened at run time: messages between GPUs of this process, or of the ranks of a group.

A thread aborts a communicator whose messages do not end in time: nothing hangs.

Source: NCCL's API reference, https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuopt.arrays.device_array import LEGACY
from gpuopt.util.errors import DeviceError

TIMEOUT = 60.0  # seconds
ID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES
_OK, _IN_PROGRESS, _BYTES = 0, 7, 1  # ncclSuccess, ncclInProgress; ncclUint8
_LEAST = 21400  # version 2.14, the first with communicators that do not block
_SIZE, _INT, _POINTER = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p


class _Id(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * ID_BYTES),)


class _Config(ctypes.Structure):
    """ncclConfig_t of 2.14; later libraries add defaults."""

    _fields_ = (("size", _SIZE), ("magic", _INT), ("version", _INT), ("blocking", _INT))


_MESSAGE = (_POINTER, _SIZE, _INT, _INT, _POINTER, _POINTER)
_TABLE = {
    "ncclGetVersion": (_POINTER,),
    "ncclGetErrorString": (_INT,),
    "ncclGetUniqueId": (_POINTER,),
    "ncclCommInitAll": (_POINTER, _INT, _POINTER),
    "ncclCommInitRankConfig": (_POINTER, _INT, _Id, _INT, _POINTER),
    "ncclCommGetAsyncError": (_POINTER, _POINTER),
    "ncclCommAbort": (_POINTER,),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclSend": _MESSAGE,
    "ncclRecv": _MESSAGE,
}


class Message(NamedTuple):
    """Bytes that a rank of this process sends to, or receives from, another rank."""

    rank: int
    peer: int
    address: int
    nbytes: int
    sends: bool


# --- the library


def _candidates() -> Iterator[str]:
    """Yield libraries: one that is loaded (PyTorch's), the wheel's, the system's."""
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.partition("/")[2]
            if path.rpartition("/")[2].startswith("libnccl.so"):
                yield f"/{path}"
                break
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("nvidia.nccl")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from map(str, sorted(Path(folder).glob("lib/libnccl.so*")))
    yield "libnccl.so.2"


def _opened(path: str) -> ctypes.CDLL:
    """Return a library with its functions declared; OSError or AttributeError if it lacks one."""
    library, version = ctypes.CDLL(path), ctypes.c_int()
    for name, kinds in _TABLE.items():
        getattr(library, name).argtypes = kinds
    library.ncclGetErrorString.restype = ctypes.c_char_p
    library.ncclGetVersion(ctypes.byref(version))
    if version.value < _LEAST:
        raise OSError(f"is NCCL {version.value // 10000}.{version.value // 100 % 100}, too old")
    return library


@cache
def _library(chosen: str) -> ctypes.CDLL | None:
    if chosen == "none":
        return None
    if chosen:
        try:
            return _opened(chosen)
        except (AttributeError, OSError) as error:
            raise DeviceError(
                f"GPUOPT_NCCL: {chosen!r} is not a library of NCCL 2.14 or later: {error}; name "
                "one, or 'none' for copies without NCCL"
            ) from None
    for path in _candidates():
        with suppress(AttributeError, OSError):
            return _opened(path)
    return None


def library() -> ctypes.CDLL | None:
    """Return NCCL's library, or None where there is none.

    The environment's GPUOPT_NCCL names it; "none" is for copies without NCCL.

    Raises
    ------
    DeviceError
        GPUOPT_NCCL names no library of NCCL.
    """
    return _library(os.environ.get("GPUOPT_NCCL", ""))


def _check(nccl: Any, code: int, call: str) -> None:
    if code not in (_OK, _IN_PROGRESS):
        text = nccl.ncclGetErrorString(code).decode(errors="replace")
        raise DeviceError(f"{call} failed: {text} (set NCCL_DEBUG=INFO to see why)")


def unique_id() -> bytes:
    """Return a new group's identity, which one rank sends to the others."""
    nccl, made = library(), _Id()
    assert nccl is not None
    _check(nccl, nccl.ncclGetUniqueId(ctypes.byref(made)), "ncclGetUniqueId")
    return bytes(made)


@cache
def _driver_function(name: str) -> Any:
    driver = ctypes.CDLL(os.environ.get("GPUOPT_CUDA_DRIVER") or "libcuda.so.1")
    found = ctypes.c_void_p()
    name_bytes, least = name.encode(), ctypes.c_int(12000)
    code = driver.cuGetProcAddress_v2(
        name_bytes, ctypes.byref(found), least, ctypes.c_uint64(0), None
    )
    if code or not found:
        raise DeviceError(f"the driver has no {name}")
    return ctypes.CFUNCTYPE(_INT, _POINTER)(found.value or 0)


@contextmanager
def _current(ordinal: int) -> Iterator[None]:
    """Make a GPU current, on which NCCL opens a communicator."""
    context, device = ctypes.c_void_p(), ctypes.c_int(ordinal)
    retain = ctypes.cast(_driver_function("cuDevicePrimaryCtxRetain"), _POINTER)
    kind = ctypes.CFUNCTYPE(_INT, _POINTER, _INT)
    code = ctypes.cast(retain, kind)(ctypes.byref(context), device)
    code = code or _driver_function("cuCtxPushCurrent")(context)
    if code:
        raise DeviceError(f"cuda:{ordinal}: its context cannot be entered (CUDA error {code})")
    try:
        yield
    finally:
        _driver_function("cuCtxPopCurrent")(ctypes.byref(context))


# --- communicators


class Communicator:
    """The GPUs that exchange messages: those of this process have a handle each."""

    def __init__(self, handles: dict[int, Any], ordinals: Sequence[int], name: str) -> None:
        self.handles, self.ordinals, self.name = handles, [*ordinals], name
        self.dead = False
        # One lock for all: messages of two threads on the same streams would wait for each other.
        # A rank of a group has its own, since another rank may be in this process.
        self._lock = _lock if len(handles) > 1 else threading.Lock()

    def run(self, messages: Sequence[Message], timeout: float, wait: Callable[[], None]) -> None:
        """Exchange messages on the default streams; then call `wait`.

        Raises
        ------
        DeviceError
            NCCL failed, or did not end within `timeout` seconds. The communicator is closed.
        """
        nccl = library()
        assert nccl is not None
        with self._lock, self._ended_after(nccl, timeout) as overran:
            try:
                self._queue(nccl, messages)
                wait()
            except DeviceError as error:
                self._abort(nccl)
                raise (DeviceError(overran[0]) if overran else error) from None
        if overran:
            raise DeviceError(overran[0])

    def _queue(self, nccl: Any, messages: Sequence[Message]) -> None:
        _check(nccl, nccl.ncclGroupStart(), "ncclGroupStart")
        try:
            for each in messages:
                name = "ncclSend" if each.sends else "ncclRecv"
                code = getattr(nccl, name)(
                    each.address, each.nbytes, _BYTES, each.peer, self.handles[each.rank], LEGACY
                )
                _check(nccl, code, name)
        finally:
            code = nccl.ncclGroupEnd()
        _check(nccl, code, "ncclGroupEnd")
        self.settle(nccl)

    def settle(self, nccl: Any, timeout: float = TIMEOUT) -> None:
        """Wait until the calls so far have been queued, and raise the error of one of them."""
        end, pause = time.monotonic() + timeout, 1e-5
        for handle in self.handles.values():
            code = ctypes.c_int(_IN_PROGRESS)
            while code.value == _IN_PROGRESS:
                if self.dead:
                    raise DeviceError("NCCL: aborted")
                found = nccl.ncclCommGetAsyncError(handle, ctypes.byref(code))
                _check(nccl, found or code.value, f"NCCL between {self.name}")
                if code.value == _IN_PROGRESS:
                    if time.monotonic() > end:
                        raise DeviceError(f"NCCL between {self.name} is not ready in {timeout:g} s")
                    time.sleep(pause)
                    pause = min(2 * pause, 1e-2)

    @contextmanager
    def _ended_after(self, nccl: Any, timeout: float) -> Iterator[list[str]]:
        """Abort the communicator if the block does not end in time; yield the reason then."""
        overran: list[str] = []
        ended = threading.Event()

        def watch() -> None:
            if not ended.wait(timeout):
                overran.append(f"NCCL between {self.name} did not end within {timeout:g} s")
                self._abort(nccl)

        watcher = threading.Thread(target=watch, name="gpuopt-nccl", daemon=True)
        watcher.start()
        try:
            yield overran
        finally:
            ended.set()
            watcher.join()

    def _abort(self, nccl: Any) -> None:
        if not self.dead:
            self.dead = True
            for handle in self.handles.values():
                nccl.ncclCommAbort(handle)


_lock = threading.Lock()
_opened_here: dict[tuple[int, tuple[int, ...]], Communicator] = {}


def between(ordinals: Sequence[int]) -> Communicator | None:
    """Return the communicator of several GPUs of this process; None without NCCL."""
    nccl = library()
    if nccl is None:
        return None
    key = os.getpid(), tuple(ordinals)  # a forked child has none
    with _lock:
        found = _opened_here.get(key)
        if found is None or found.dead:
            handles = (ctypes.c_void_p * len(ordinals))()
            numbers = (ctypes.c_int * len(ordinals))(*ordinals)
            code = nccl.ncclCommInitAll(handles, len(ordinals), numbers)
            _check(nccl, code, "ncclCommInitAll")
            made = {rank: ctypes.c_void_p(each) for rank, each in enumerate(handles)}
            name = ", ".join(f"cuda:{number}" for number in ordinals)
            found = _opened_here[key] = Communicator(made, ordinals, name)
    return found


def join(identity: bytes, rank: int, size: int, ordinal: int, timeout: float) -> Communicator:
    """Join a group's communicator; every rank calls it with the same identity.

    Raises
    ------
    DeviceError
        NCCL failed, for instance since two ranks have one GPU, or a rank does not join in time.
    """
    nccl, handle = library(), ctypes.c_void_p()
    assert nccl is not None
    config = _Config(ctypes.sizeof(_Config), -0x35014111, _LEAST, 0)  # magic 0xcafebeef
    made = Communicator({}, [ordinal], f"{size} ranks")
    with _current(ordinal):
        code = nccl.ncclCommInitRankConfig(
            ctypes.byref(handle), size, _Id.from_buffer_copy(identity), rank, ctypes.byref(config)
        )
        _check(nccl, code, "ncclCommInitRankConfig")
        made.handles[rank] = handle
        try:
            made.settle(nccl, timeout)
        except DeviceError:
            made._abort(nccl)
            raise
    return made
