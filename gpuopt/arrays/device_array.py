"""gpuopt's own arrays on a device: memory there, in C order."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt._core import View
from gpuopt.arrays.dtypes import TYPES, is_bfloat16, named_dtype, supported
from gpuopt.arrays.inout import check_out
from gpuopt.util.checks import whole
from gpuopt.util.names import suggests

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

LEGACY = 1  # the legacy default stream, of gpuopt's own arrays and of producers without a stream
CUDA, CUDA_MANAGED = 2, 13  # DLPack's device types
HOSTS = (1, 3)  # DLPack's: the cpu, pinned memory
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLPack's type codes by NumPy's kinds
BFLOAT = 4  # its code for bfloat16
DIMENSIONS_MOST = 64  # as NumPy's
BYTES_MOST = np.iinfo(np.intp).max
NumberTypes = bool | int | float | complex


class DeviceArray:
    """An array in a device's memory, made by `asarray` and `empty`.

    It is in C order, and its work is queued on the device's default stream. CuPy, PyTorch, Numba
    and JAX accept it without a copy, through DLPack or the CUDA array interface. NumPy does not:
    `get` copies to the host. Arrays on the simulated GPU are readable by gpuopt only.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    device : str
        As "cuda:0" or "sim:h200".
    nbytes, size, ndim : int

    Examples
    --------
    >>> import gpuopt
    >>> a = gpuopt.asarray([[1, 2], [3, 4]], device="sim")
    >>> a
    <DeviceArray of shape (2, 2), int64, on sim:h200>
    >>> gpuopt.transpose(a).get()
    array([[1, 3],
           [2, 4]])
    """

    __slots__ = ("__weakref__", "_view")  # the view keeps the memory, not the array: no cycle
    __array_priority__ = 1000

    def __init__(self) -> None:
        raise TypeError("use gpuopt.asarray or gpuopt.empty to make a DeviceArray")

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents."""
        return self._view.shape

    @property
    def dtype(self) -> np.dtype:
        """Return the elements' dtype."""
        return self._view.dtype

    @property
    def device(self) -> str:
        """Return the name of the device, as "cuda:0"."""
        return self._view.device

    @property
    def address(self) -> int:
        """Return the device address of the first element."""
        return self._view.address

    @property
    def read_only(self) -> bool:
        """Return whether the array is read-only."""
        return self._view.read_only

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all elements."""
        return self.size * self.dtype.itemsize

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        """Copy the elements to the host, after all work on the default stream.

        Parameters
        ----------
        out : ndarray, optional
            Same shape and dtype, in C order; receives the elements and is returned.

        Returns
        -------
        ndarray

        Raises
        ------
        ValueError, TypeError
            `out` has another shape, dtype or layout.
        """
        if out is None:
            out = np.empty(self.shape, self.dtype)
        check_out(out, self.shape, self.dtype)
        if out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ValueError(f"out: must be a C-contiguous array of {self.dtype}")
        if self.nbytes:
            _memory(self).copy_out(out)
        return out

    def item(self) -> Any:
        """Return the one element of an array as a Python number."""
        if self.size != 1:
            raise ValueError(f"only an array of one element is a number, not {self.shape}")
        return _memory(self).item(self._view.dtype)

    def __complex__(self) -> complex:
        return complex(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"only integers are an index, not {self.dtype}")
        if self.size != 1:
            raise TypeError(f"only an array of one element is an index, not {self.shape}")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        """Compare the one element of an array; several are not compared on a device."""
        if not isinstance(other, NumberTypes | np.generic | np.ndarray | DeviceArray):
            return NotImplemented
        if self.size != 1 or getattr(other, "size", 1) != 1:
            raise TypeError(
                f"an array of shape {self.shape} on {self.device} is not compared there; compare "
                "its .get()"
            )
        item = other if isinstance(other, NumberTypes) else other.item()
        return bool(self.item() == item)

    __hash__ = object.__hash__  # its identity's, as PyTorch's tensors have

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __reduce_ex__(self, protocol: int) -> Any:
        raise TypeError(f"a DeviceArray on {self.device} is not copied or pickled; call its .get()")

    def __repr__(self) -> str:
        return f"<DeviceArray of shape {self.shape}, {self.dtype}, on {self.device}>"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(
            f"a DeviceArray on {self.device} does not become a NumPy array by itself, since that "
            "copies it to the host; call its .get()"
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Return the CUDA array interface, version 3."""
        if not self.device.startswith("cuda"):
            raise AttributeError(f"{self.device} has no CUDA array interface; call .get()")
        if is_bfloat16(self.dtype):
            raise AttributeError("the CUDA array interface has no bfloat16; use DLPack")
        current = not self.nbytes or _core.is_current("cuda", self.address)
        if not current:  # the consumer would wait for another device's default stream
            _core.wait(self.device, LEGACY)
        self._lend()  # the protocol does not tell on which stream the consumer works
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.read_only),
            "strides": None,
            "version": 3,
            "stream": LEGACY if current else None,
        }

    def _lend(self) -> None:
        """Allow for a library that lets go of the memory while uses on its stream are in flight."""
        if isinstance(self._view.holder, _core.Memory):
            self._view.holder.lend()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's device type and number."""
        if not self.device.startswith("cuda"):
            raise BufferError(
                f"nobody else can read the memory of {self.device}; call .get() for a NumPy array"
            )
        return CUDA, int(self.device[5:])

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule; later work on `stream` sees the elements."""
        kind, index = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != (kind, index)):
            raise BufferError(f"only the memory on {self.device} itself is exported; use .get()")
        newer = max_version is not None and max_version[0] >= 1
        if self.read_only and not newer:
            raise BufferError("the array is read-only, which DLPack tells from version 1.0 on")
        if stream == 0:
            raise ValueError("stream: 0 is ambiguous; use 1 (legacy) or 2 (per-thread default)")
        if stream not in (None, -1, LEGACY):
            _core.order(self.device, (operator.index(stream), LEGACY))
        if stream not in (None, LEGACY):
            self._lend()
        code = BFLOAT if is_bfloat16(self.dtype) else CODES[self.dtype.kind]
        width = 8 * self.dtype.itemsize
        return _core.dlpack_export(
            self, self.address, self.shape, code, width, kind, index, newer, self.read_only
        )


class Library:
    """Allocates a library's arrays; this base class allocates gpuopt's own."""

    turns = False  # whether arrays may have other orders than C order, by `turned`

    def empty(self, view: View, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, View]:
        """Return a new array beside another one, and its view."""
        made = new(shape, dtype, view.device)
        return made, made._view

    def finish(self, made: Any) -> Any:
        """Return the result for the caller, once the work is queued."""
        return made

    def turned(self, made: Any, axes: tuple[int, ...]) -> Any:
        """Return an array with its axes in another order."""
        raise NotImplementedError

    def writes(self, out: Any) -> None:
        """Notify the library that one of its arrays is written."""

    def hold(self, view: View) -> Any:
        """Return an object that keeps an array's memory alive without the caller's array."""
        return view.holder

    def settle(self, views: list[View]) -> None:
        """Wait for the work on arrays that may be released only after it."""
        for view in views:
            if view.waits:
                place = view.device, view.stream
                try:
                    _core.wait(*place)
                except KeyboardInterrupt:
                    _unsettled.setdefault(place, []).extend(views)
                    raise
                _unsettled.pop(place, None)
                return


# Arrays whose wait was interrupted: kept until a later wait for their stream completes.
_unsettled: dict[tuple[str, int], list[View]] = {}

OWN = Library()
_core.know(DeviceArray, OWN)


def make(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype,
    device: str,
    holder: Any,
    read_only: bool = False,
    waits: bool = False,
) -> DeviceArray:
    """Wrap memory that `holder` keeps; `waits`: release it only when the device's work is done."""
    made = DeviceArray.__new__(DeviceArray)
    made._view = View(OWN, address, shape, None, dtype, device, LEGACY, holder, read_only, waits)
    return made


def new(shape: tuple[int, ...], dtype: np.dtype, device: str | None) -> DeviceArray:
    """Return a new array on a device; the caller has checked shape and dtype."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > BYTES_MOST:
        raise ValueError(f"shape: {shape} of {dtype} is more than any memory holds")
    memory = _core.Memory(nbytes, device)
    return make(memory.address, shape, dtype, memory.device, memory)


def _memory(array: DeviceArray) -> _core.Memory:
    """Return the array's memory; memory lent by another library is copied first."""
    if isinstance(array._view.holder, _core.Memory):
        return array._view.holder
    memory = _core.Memory(array.nbytes, array.device)
    items = (array.address, array.nbytes)
    words = ("uint8", "uint8", (items,), (memory.address, array.nbytes), (1, array.nbytes, 0))
    _core.call(("transpose", "move", *words), 0, None, array.device, (LEGACY,))
    return memory


def low_words(array: DeviceArray) -> DeviceArray:
    """Return integers of 8 bytes as 4, which wrap; in memory for both halves. Waits."""
    memory, place = _core.Memory(array.nbytes, array.device), (array.device, LEGACY)
    if array.size:
        given, made = (array.address, array.nbytes), (memory.address, array.nbytes)
        words = ("transpose", "move", "uint32", "uint32")
        _core.call(
            (*words, (given,), made, (2, array.size, 2, 1, 0)), None, None, place[0], place[1:]
        )
        _core.wait(*place)
    dtype = np.dtype(f"{array.dtype.kind}4")
    return make(memory.address, array.shape, dtype, memory.device, memory)


def checked_dtype(dtype: np.dtype, argument: str) -> np.dtype:
    """Return a dtype in the machine's byte order; TypeError where no kernel accepts it."""
    if not supported(dtype):
        raise TypeError(f"{argument}: dtype {dtype} is not supported; {TYPES}")
    found = dtype.newbyteorder("=")
    return found if is_bfloat16(found) else np.dtype(found.name)


@suggests
def empty(
    shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, device: str | None = None
) -> DeviceArray:
    """Allocate an array on a device; its elements are undefined.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
        bool, an integer, floating-point or complex type.
    device : str, optional
        "cuda", "cuda:1", "sim", "sim:g80"... Default: that of an enclosing `gpuopt.profile`; else
        the environment's GPUOPT_DEVICE; else a GPU if there is one, else the simulated GPU.

    Returns
    -------
    DeviceArray

    Raises
    ------
    TypeError
        A dtype that no kernel accepts; a shape that is not of integers.
    ValueError
        A negative extent, or too many of them; more bytes than 63 bits count; an unknown
        device, or the cpu, which uses NumPy arrays.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.empty((2, 3), "float32", device="sim").nbytes
    24
    """
    kind = checked_dtype(named_dtype(dtype), "dtype")
    given = tuple(shape) if np.iterable(shape) and not isinstance(shape, str) else (shape,)
    extents = tuple(whole(extent, "shape", 0) for extent in given)
    if len(extents) > DIMENSIONS_MOST:
        raise ValueError(f"shape: has {len(extents)} dimensions, more than {DIMENSIONS_MOST}")
    if math.prod(extent or 1 for extent in extents) * kind.itemsize > BYTES_MOST:  # as NumPy counts
        raise ValueError(f"shape: {extents} of {kind} is more than any memory holds")
    return new(extents, kind, device)
