"""Objects of a module: buffers, pinned arrays, bound launches.

It also adapts the arrays and streams of other libraries that a module uses in place.
"""

from __future__ import annotations

import threading
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gpuopt import _core
from gpuopt.arrays.device_array import LEGACY, DeviceArray
from gpuopt.arrays.libraries import Library, is_run, view_of
from gpuopt.ptx.described import Described, described
from gpuopt.ptx.streams import Stream, drain, stream_on, watchers
from gpuopt.ptx.textures import Surface, Texture
from gpuopt.util.names import suggests

PER_THREAD = 2  # the per-thread default stream, as LEGACY is the legacy one

TIMES = ("queue", "sync", "graph", "host")  # the numbers that _core.Module.time accepts


class Buffer:
    """Memory on a module's device that persists between launches.

    Made by `Module.empty` and `Module.copy`; an argument for 64-bit parameters. It is freed with
    the object.

    Attributes
    ----------
    address : int
        The device address of its first byte.
    nbytes : int

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> buffer = gpuopt.load_ptx(ptx, device="sim").copy(np.arange(4, dtype=np.int32))
    >>> buffer.nbytes, buffer.get(np.int32).tolist()
    (16, [0, 1, 2, 3])
    """

    def __init__(self, core: _core.Module, lock: threading.RLock, nbytes: int) -> None:
        self._core = core
        self._lock = lock  # the module's
        self.nbytes = nbytes
        self.address = core.alloc(nbytes)

    def __del__(self) -> None:
        self._free()

    def _free(self) -> None:
        if self.__dict__.get("address"):
            self._core.free(self.address)
            self.address = 0

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes:,} bytes on {self._core.device}>"

    def get(self, dtype: DTypeLike = np.uint8) -> np.ndarray:
        """Copy the bytes to the host.

        Parameters
        ----------
        dtype : dtype
            The dtype to interpret the bytes as.

        Returns
        -------
        numpy.ndarray
            One-dimensional.

        Raises
        ------
        ValueError
            `nbytes` is no multiple of the dtype's size.
        """
        kind = np.dtype(dtype)
        if kind.hasobject or not kind.itemsize or self.nbytes % kind.itemsize:
            raise ValueError(f"dtype: {self.nbytes} bytes cannot be read as {kind}")
        host = np.empty(self.nbytes, np.uint8)
        drain(self._core.device)
        with self._lock:
            self._core.copy_out(self.address, host)
        for each in watchers.get():
            each.copied()
        return host.view(kind)


class Resident(NamedTuple):
    """An array on the module's GPU that a launch uses in place."""

    address: int
    stream: int  # where its work is queued; 0: the device has no streams
    library: Library
    held: Any  # keeps its memory alive
    described: Described | None  # for a simulated GPU

    def writes(self) -> None:
        """Notify its library that a kernel may write to it."""
        self.library.writes(self.held)


def resident(argument: Any, name: str, prefix: str, here: str, index: int) -> Resident | None:
    """Return an array that a kernel on the device `here` uses in place; None for other arguments.

    Raises
    ------
    TypeError, ValueError
        It is on another device, or a kernel cannot use it in place.
    """
    view = view_of(argument, name)
    if view is None:
        return None
    which = prefix + name
    if view.device != here:
        elsewhere = f"{which} is an array on {view.device}, but the module is on {here}; pass a "
        load = f", or load the PTX with device={view.device!r}"
        if here.startswith("cuda"):
            raise ValueError(f"{elsewhere}copy there{load}")
        raise TypeError(f"{elsewhere}copy on the host{load}")
    if not is_run(view.shape, view.strides, view.dtype.itemsize):
        raise ValueError(
            f"{which} is not C-contiguous; pass a contiguous copy, or its address as an integer"
        )
    if view.read_only:
        raise ValueError(
            f"{which} is read-only, and a kernel could write to it; pass a copy that may be "
            "written, or its address as an integer"
        )
    on_gpu = here.startswith("cuda")
    about = None if on_gpu else described(index, view, view.dtype, False)
    stream = view.stream if on_gpu else 0
    return Resident(view.address, stream, view.library, view.library.hold(view), about)


def beside(arrays: list[Resident]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return the streams of some arrays without duplicates, and the keepers of their memory."""
    streams = dict.fromkeys(each.stream for each in arrays if each.stream)
    return tuple(streams), tuple(each.held for each in arrays)


class Prepared(NamedTuple):
    """A launch or a copy with its arguments, made by `Kernel.bind` or `Module.transfer`."""

    launch: tuple[Any, ...]
    keep: tuple[Any, ...]  # objects that must live as long
    arrays: tuple[Resident, ...] = ()
    stream: int = 0

    def on(self, stream: int) -> Prepared:
        """Return the same on another of the module's streams, 0 to 7."""
        return self._replace(stream=stream)


def _protocol(stream: Any) -> Any:
    """Read a stream's handle by CUDA Python's protocol."""
    version, handle = stream.__cuda_stream__()
    if version != 0:
        raise TypeError(f"stream: its __cuda_stream__ has version {version}; gpuopt knows 0")
    return handle


# How to read a stream's handle, by an attribute that only that library's streams have.
_HANDLES = {
    "__cuda_stream__": _protocol,
    "cuda_stream": lambda stream: stream.cuda_stream,  # PyTorch
    "wait_event": lambda stream: stream.ptr,  # CuPy
    "auto_synchronize": int,  # Numba: its handle.value, or 0 for None
}


def stream_of(stream: Any, device: str) -> tuple[int, Any]:
    """Return a stream's handle for _core.Module.adopt, and the object that keeps it alive."""
    if hasattr(stream, "__index__"):
        number = index(stream)
        if not 0 <= number < 1 << 64:
            raise ValueError(f"stream: {number} is not a stream")
        return number, None
    ask = next((ask for name, ask in _HANDLES.items() if hasattr(stream, name)), None)
    if ask is None:
        raise TypeError(
            "stream: must be a stream of CuPy, PyTorch or Numba, an object with __cuda_stream__(), "
            f"or an int, not {stream!r:.60}"
        )
    number = int(ask(stream))
    where = getattr(getattr(stream, "device", None), "index", None)
    elsewhere = device.startswith("cuda") and where is not None and device != f"cuda:{where}"
    if number <= PER_THREAD and elsewhere:
        # A default stream's number is the same on every GPU: the driver cannot tell.
        raise ValueError(
            f"stream: is a stream of cuda:{where}, and the module is on {device}; pass one that "
            "was made there"
        )
    return number or LEGACY, stream  # 0, a library's null stream, would be the module's own


class _Pinned:
    """Pinned host memory, which NumPy keeps alive."""

    def __init__(self, core: _core.Module, nbytes: int) -> None:
        self._core = core
        self._memory = None
        if core.device.startswith("sim"):  # the host's memory: only copies tell it from other
            self._memory = np.empty(nbytes, np.uint8)
            self.address = self._memory.__array_interface__["data"][0]
        else:
            self.address = core.pin(nbytes)
        self.__array_interface__ = {
            "data": (self.address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if self.__dict__.get("address") and self._memory is None:
            self._core.free(self.address)


def _is_pinned(value: np.ndarray) -> bool:
    while isinstance(value, np.ndarray):
        value = value.base
    return isinstance(value, _Pinned)


def is_ours(value: Any) -> bool:
    """Return whether memory belongs to a module, which waits for its work before freeing."""
    while isinstance(value, np.ndarray):
        value = value.base
    return isinstance(value, Buffer | Texture | Surface | _Pinned)


def pinned(core: _core.Module, shape: int | tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return an array in pinned memory, freed with it."""
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise TypeError("dtype: Python objects cannot lie in pinned memory; use a number's dtype")
    plan = np.broadcast_to(np.empty((), kind), shape)  # NumPy's own checks of a shape
    return np.asarray(_Pinned(core, max(1, plan.nbytes)))[: plan.nbytes].view(kind).reshape(shape)


def span(value: Any, name: str, core: _core.Module, writable: bool) -> tuple[int, int]:
    """Return address and bytes of one end of a copy."""
    if isinstance(value, Buffer):
        if value._core is not core:
            raise ValueError(f"{name}: is a Buffer of another module")
        return value.address, value.nbytes
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: must be a Buffer or a NumPy array, not {value!r:.60}")
    if not value.flags.c_contiguous or value.dtype.hasobject:
        raise ValueError(f"{name}: must be contiguous and hold no Python objects")
    if writable and not value.flags.writeable:
        raise ValueError(f"{name}: is read-only")
    return value.__array_interface__["data"][0], value.nbytes


@suggests
def copy_async(to: Buffer | np.ndarray, source: Buffer | np.ndarray, stream: Stream) -> None:
    """Enqueue a copy on a stream of a simulated GPU, and return.

    Parameters
    ----------
    to, source : Buffer or numpy.ndarray
        Both of the same number of bytes, at least one a `Buffer` on the stream's device; arrays
        must be contiguous. With an array of `Module.pinned` the copy is asynchronous: the array
        must stay unchanged until the stream has reached it. As on a GPU, an array in other memory
        is read before the call returns, and written before it returns.
    stream : Stream

    Raises
    ------
    TypeError, ValueError
        No Buffer, different sizes, a read-only `to`, an array that is not contiguous, a stream of
        another device.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> module, stream = gpuopt.load_ptx(ptx, device="sim"), gpuopt.Stream("sim")
    >>> buffer, back = module.copy(np.arange(4, dtype=np.int32)), module.pinned(4, np.int32)
    >>> back[:] = 0
    >>> gpuopt.copy_async(back, buffer, stream)
    >>> back.tolist()  # nothing has waited for the stream
    [0, 0, 0, 0]
    >>> stream.synchronize()
    >>> back.tolist()
    [0, 1, 2, 3]
    """
    ends = [each for each in (to, source) if isinstance(each, Buffer)]
    if not ends:
        raise TypeError("to, source: at least one must be a Buffer, made by a module's copy()")
    on = stream_on(stream, ends[0]._core.device)
    sizes = [
        span(each, name, each._core if isinstance(each, Buffer) else ends[0]._core, name == "to")[1]
        for each, name in ((to, "to"), (source, "source"))
    ]
    if sizes[0] != sizes[1]:
        raise ValueError(f"source: has {sizes[1]:,} bytes, to has {sizes[0]:,}")
    if len({each._core.device for each in ends}) > 1:
        raise ValueError("source: is on another device; copy through an array of the host")
    way = "on" if len(ends) == 2 else "to" if isinstance(to, Buffer) else "from"
    pinned = all(isinstance(each, Buffer) or _is_pinned(each) for each in (to, source))
    if isinstance(source, np.ndarray) and not pinned:
        source = source.copy()  # staged, as a driver does
    on._enqueue(
        f"copy of {sizes[0]:,} bytes {way} the device", lambda: _copy_now(to, source),
        {"on": "on", "to": "in", "from": "out"}[way], sizes[0], pinned,
    )  # fmt: skip
    if isinstance(to, np.ndarray) and not _is_pinned(to):
        on.synchronize()


def _copy_now(to: Buffer | np.ndarray, source: Buffer | np.ndarray) -> None:
    if isinstance(source, Buffer):
        host = np.empty(source.nbytes, np.uint8)
        with source._lock:
            if source.nbytes:
                source._core.copy_out(source.address, host)
    else:
        host = source.reshape(-1).view(np.uint8)
    if isinstance(to, Buffer):
        with to._lock:
            if to.nbytes:
                to._core.copy_in(to.address, host)
    else:
        to.reshape(-1).view(np.uint8)[...] = host


class Memory:
    """The device and the memory of a loaded module, which its kernels use."""

    def __init__(self, core: _core.Module) -> None:
        self._core = core
        self.device = core.device
        self._lock = threading.RLock()  # calls on one module take turns

    def _reaches(self, core: _core.Module) -> bool:
        """Tell whether kernels may use another module's memory: on GPUs, streams order it."""
        return core is self._core or (self.device.startswith("sim") and core.device == self.device)

    def empty(self, nbytes: int) -> Buffer:
        """Allocate device memory; its bytes are undefined.

        Parameters
        ----------
        nbytes : int

        Raises
        ------
        DeviceMemoryError
            The device is out of memory.
        """
        try:
            number = index(nbytes)
        except TypeError:
            raise TypeError(f"nbytes: must be an int, not {nbytes!r:.60}") from None
        if not 0 <= number < 1 << 63:
            raise ValueError(f"nbytes: {number} is not a number of bytes")
        with self._lock:
            return Buffer(self._core, self._lock, number)

    def copy(self, array: ArrayLike) -> Buffer:
        """Copy an array to device memory, in C order and native byte order.

        Parameters
        ----------
        array : array_like
            An array of any dtype except Python objects.

        Raises
        ------
        DeviceMemoryError
            The device is out of memory.
        """
        given = np.asarray(array)
        if given.dtype.hasobject:
            raise TypeError("array: holds Python objects; convert it to a number's dtype")
        data = given.astype(given.dtype.newbyteorder("="), order="C", copy=False)
        with self._lock:
            buffer = Buffer(self._core, self._lock, data.nbytes)
            if data.nbytes:
                self._core.copy_in(buffer.address, data.reshape(-1).view(np.uint8))
        return buffer


def copied(argument: Any) -> Any:
    """Return an argument that a further run may change; device memory as a host array."""
    if isinstance(argument, np.ndarray):
        return argument.copy() if argument.flags.writeable else argument
    if isinstance(argument, Buffer):
        return argument.get()
    if isinstance(argument, DeviceArray):
        return np.asarray(argument).copy()
    return argument
