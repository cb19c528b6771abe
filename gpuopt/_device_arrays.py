"""Arrays that are on a device: whose they are, where, and on which stream; ours among them.

What comes in is described by a `View`: CuPy's and PyTorch's arrays are asked directly (the DLPack
and CUDA array interface protocols do not tell CuPy's or PyTorch's current stream, or take several
microseconds), any other through `__cuda_array_interface__` (version 3) or DLPack. Work goes to the
stream of the first array; those of the others are ordered before and after it. What comes out is
made by the caller's own library.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gpuopt import _core
from gpuopt._arrays import Problem, check_out

LEGACY = 1  # the default stream, of our own arrays and of whoever names none
CUDA, CUDA_MANAGED = 2, 13  # DLPack's device types
HOSTS = (1, 3)  # DLPack's: the cpu, pinned memory
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLPack's type codes by NumPy's kinds
KINDS = {code: kind for kind, code in CODES.items()}


@dataclass(slots=True)
class View:
    """An array in a device's memory.

    Attributes
    ----------
    library : Library
        Whose it is.
    address : int
    shape : tuple of int
    strides : tuple of int or None
        In bytes; None: C order.
    dtype : dtype
    device : str
        As "cuda:0".
    stream : int
        Where its work is queued; 1 and 2 are the default streams.
    read_only : bool
    holder : object
        What keeps the memory.
    waits : bool
        Whether the holder may be let go only after the work.
    """

    library: Library
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype
    device: str
    stream: int
    holder: Any
    read_only: bool = False
    waits: bool = False

    def stand_in(self) -> np.ndarray:
        """Return an ndarray with this memory's address, for its attributes: never read it."""
        return np.asarray(_Interface(self))


class _Interface:
    def __init__(self, view: View) -> None:
        self.__array_interface__ = {
            "data": (view.address, view.read_only),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": view.dtype.str,
            "version": 3,
        }


class Library:
    """Makes arrays of one kind; this one makes our own."""

    contiguous = "make a C-contiguous copy"

    def empty(self, view: View, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, View]:
        """Return a new array beside another one, and its view."""
        made = empty(shape, dtype, view.device)
        return made, _own(made, "")

    def finish(self, made: Any) -> Any:
        """Return what the caller gets, once the work is queued."""
        return made


class _Cupy(Library):
    contiguous = "pass cupy.ascontiguousarray({name})"

    def empty(self, view: View, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, View]:
        import cupy

        with cupy.cuda.Device(int(view.device[5:])):
            made = cupy.empty(shape, dtype)
        return made, self.view(made, "")

    def view(self, value: Any, name: str) -> View:
        from cupy.cuda import get_current_stream

        index = value.device.id
        strides = None if value.flags.c_contiguous else value.strides
        stream = get_current_stream(index).ptr or LEGACY
        address, shape, dtype = value.data.ptr, value.shape, value.dtype
        return View(self, address, shape, strides, dtype, f"cuda:{index}", stream, value)


@cache
def _torch_dtype(dtype: Any) -> np.dtype | None:
    name = str(dtype).removeprefix("torch.")
    names = ("bool", "complex64", "complex128", "float16", "float32", "float64")
    integers = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
    return np.dtype(name) if name in (*names, *integers) else None


class _Torch(Library):
    contiguous = "pass {name}.contiguous()"

    def empty(self, view: View, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, View]:
        import torch

        made = torch.empty(shape, dtype=getattr(torch, dtype.name), device=view.holder.device)
        return made, self.view(made, "")

    def view(self, value: Any, name: str) -> View | None:
        if not value.is_cuda:
            return None
        if value.requires_grad:
            raise TypeError(
                f"{name}: gpuopt computes no gradients; pass {name}.detach() of a tensor that "
                "requires them"
            )
        if value.is_neg() or value.is_conj():
            raise TypeError(
                f"{name}: its items are only to be read negated or conjugated; pass "
                f"{name}.resolve_neg().resolve_conj()"
            )
        dtype = _torch_dtype(value.dtype)
        if dtype is None:
            raise TypeError(
                f"{name}: dtype {value.dtype} is not supported; convert it ({name}.to(...))"
            )
        index = value.get_device()
        # The raw handle: a Stream object takes ten times as long.
        stream = sys.modules["torch"]._C._cuda_getCurrentRawStream(index) or LEGACY
        strides = None
        if not value.is_contiguous():
            strides = tuple(step * dtype.itemsize for step in value.stride())
        address, shape = value.data_ptr(), tuple(value.shape)
        return View(self, address, shape, strides, dtype, f"cuda:{index}", stream, value)


class _Numba(Library):
    contiguous = "copy it into a numba.cuda.device_array in C order"

    def finish(self, made: Any) -> Any:
        from numba import cuda

        return cuda.as_cuda_array(made, sync=False)


class _Jax(Library):
    contiguous = "pass jax.numpy.array({name})"

    def finish(self, made: Any) -> Any:
        import jax

        return jax.dlpack.from_dlpack(made)


OWN, CUPY, TORCH, NUMBA, JAX = Library(), _Cupy(), _Torch(), _Numba(), _Jax()
OTHER = Library()


class DeviceArray:
    """An array in a device's memory: what `asarray` and `empty` make.

    It is in C order, and its work is queued on the device's default stream. CuPy, PyTorch, Numba
    and JAX take it without a copy, through DLPack or the CUDA array interface (not one on the
    simulated GPU, whose memory nobody else can read). NumPy does not: `get` copies to the host.

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

    __slots__ = ("__weakref__", "_holder", "address", "device", "dtype", "read_only", "shape")
    __array_priority__ = 1000

    def __init__(self) -> None:
        raise TypeError("use gpuopt.asarray or gpuopt.empty to make a DeviceArray")

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of items."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all items."""
        return self.size * self.dtype.itemsize

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        """Copy the items to the host, after all work on the default stream.

        Parameters
        ----------
        out : ndarray, optional
            Of the same shape and dtype, in C order; receives the items and is returned.

        Returns
        -------
        ndarray

        Raises
        ------
        ValueError, TypeError
            `out` cannot take the items as they are.
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
        """Return the one item of an array as a Python number."""
        if self.size != 1:
            raise ValueError(f"only an array of one item is a number, not one of {self.shape}")
        return self.get().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

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
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.read_only),
            "strides": None,
            "version": 3,
            "stream": LEGACY,
        }

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
        """Return a DLPack capsule; what `stream` is given afterwards sees the items."""
        kind, index = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != (kind, index)):
            raise BufferError(f"only the memory on {self.device} itself is exported; use .get()")
        if self.dtype.kind not in CODES:
            raise BufferError(f"DLPack has no dtype {self.dtype}")
        newer = max_version is not None and max_version[0] >= 1
        if self.read_only and not newer:
            raise BufferError("the array is read-only, which DLPack tells from version 1.0 on")
        if stream == 0:
            raise ValueError("stream: 0 is ambiguous; use 1 (legacy) or 2 (per-thread default)")
        if stream not in (None, -1, LEGACY):
            _core.order(self.device, (operator.index(stream), LEGACY))
        code, width = CODES[self.dtype.kind], 8 * self.dtype.itemsize
        return _core.dlpack_export(
            self, self.address, self.shape, code, width, kind, index, newer, self.read_only
        )


def _make(
    address: int,
    shape: tuple[int, ...],
    dtype: np.dtype,
    device: str,
    holder: Any,
    read_only: bool = False,
) -> DeviceArray:
    made = DeviceArray.__new__(DeviceArray)
    made.address, made.shape, made.dtype = address, shape, dtype
    made.device, made._holder, made.read_only = device, holder, read_only
    return made


def _memory(array: DeviceArray) -> _core.Memory:
    """Return the array's memory; what another library lent is copied to some of ours."""
    if isinstance(array._holder, _core.Memory):
        return array._holder
    memory = _core.Memory(array.nbytes, array.device)
    items = (array.address, array.nbytes)
    words = ("uint8", "uint8", (items,), (memory.address, array.nbytes), (1, array.nbytes, 0))
    _core.call_resident(array.device, (LEGACY,), ("transpose", "move", *words), 0, None)
    return memory


def _checked_dtype(dtype: DTypeLike) -> np.dtype:
    found = np.dtype(dtype).newbyteorder("=")
    if found.kind not in CODES or found.itemsize > 16 or found.name == "longdouble":
        raise TypeError(
            f"dtype: {found} is not supported; use bool, an integer type, float16, float32, "
            "float64, complex64 or complex128"
        )
    return np.dtype(found.name)


def empty(
    shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, device: str | None = None
) -> DeviceArray:
    """Return an array on a device whose items are not set.

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
        A dtype that no kernel takes.
    ValueError
        A negative extent; an unknown device, or the cpu, whose arrays are NumPy's.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.empty((2, 3), "float32", device="sim").nbytes
    24
    """
    kind = _checked_dtype(dtype)
    extents = tuple(map(operator.index, shape)) if np.iterable(shape) else (operator.index(shape),)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape: {extents} has a negative extent")
    memory = _core.Memory(math.prod(extents) * kind.itemsize, device)
    return _make(memory.address, extents, kind, memory.device, memory)


def asarray(x: ArrayLike, device: str | None = None) -> DeviceArray:
    """Return an array on a device: a copy of the host's, or another library's where it is.

    Parameters
    ----------
    x : array_like
        Anything that `numpy.asarray` takes, of bool, an integer, floating-point or complex type;
        or an array on a device (CuPy, PyTorch, JAX, Numba, ...) in C order, which is not copied.
    device : str, optional
        As `gpuopt.empty`; for an array on a device, where it is.

    Returns
    -------
    DeviceArray

    Raises
    ------
    TypeError
        A dtype that no kernel takes; masked arrays.
    ValueError
        An array on another device, or one that is not in C order.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.reduce(gpuopt.asarray([1, 2, 3], device="sim")).get()
    array(6)
    """
    view = view_of(x, "x")
    if view is None:
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError("x: masked arrays are not supported; pass x.filled(value)")
        host = np.asarray(x)
        # 0-d stays 0-d: ascontiguousarray would make it 1-d.
        host = np.require(host, _checked_dtype(host.dtype), ["C_CONTIGUOUS", "ALIGNED"])
        made = empty(host.shape, host.dtype, device)
        if host.size:
            made._holder.copy_in(host)
        return made
    check_device(view, device)
    if isinstance(x, DeviceArray):
        return x
    in_order(view, "x")
    if view.stream != LEGACY:
        _core.order(view.device, (LEGACY, view.stream))
    dtype = _checked_dtype(view.dtype)
    return _make(view.address, view.shape, dtype, view.device, view.holder, view.read_only)


# --- what comes in


def _own(value: DeviceArray, name: str) -> View:
    return View(
        OWN,
        value.address,
        value.shape,
        None,
        value.dtype,
        value.device,
        LEGACY,
        value,
        value.read_only,
    )


def _by_interface(value: Any, name: str, library: Library) -> View:
    """Read the CUDA array interface."""
    given = value.__cuda_array_interface__
    if given.get("version", 0) < 2 or given.get("mask") is not None:
        raise TypeError(
            f"{name}: its CUDA array interface is older than version 2 or masked; pass a plain one"
        )
    stream = given.get("stream")
    if stream == 0:
        raise ValueError(f"{name}: its CUDA array interface names stream 0, which is ambiguous")
    address, read_only = given["data"]
    dtype = np.dtype(given["typestr"])
    # The protocol has no device: the driver knows whose an address is.
    index = _core.owner("cuda", address) if address else 0
    shape, strides = tuple(given["shape"]), given.get("strides")
    at, order = f"cuda:{index}", stream or LEGACY
    return View(library, address or 0, shape, strides, dtype, at, order, value, bool(read_only))


def _by_dlpack(value: Any, name: str, library: Library) -> View | None:
    """Consume a DLPack capsule; None for an array of the host."""
    kind, _ = value.__dlpack_device__()
    if int(kind) in HOSTS:
        return None
    if int(kind) not in (CUDA, CUDA_MANAGED):
        raise TypeError(f"{name}: is on a device that is no CUDA GPU (DLPack's type {int(kind)})")
    try:
        capsule = value.__dlpack__(stream=LEGACY, max_version=(1, 0))
    except TypeError:  # a producer from before the versioned protocol
        capsule = value.__dlpack__(stream=LEGACY)
    holder, address, shape, steps, code, bits, lanes, _, at, read_only = _core.dlpack_take(capsule)
    if lanes != 1 or code not in KINDS or bits % 8:
        raise TypeError(
            f"{name}: its DLPack dtype (code {code}, {bits} bits, {lanes} lanes) is not supported"
        )
    dtype = np.dtype("?" if KINDS[code] == "b" else f"{KINDS[code]}{bits // 8}")
    strides = None if steps is None else tuple(step * dtype.itemsize for step in steps)
    where, keep = f"cuda:{at}", (holder, value)
    return View(library, address, shape, strides, dtype, where, LEGACY, keep, bool(read_only), True)


def _jax(value: Any, name: str) -> View | None:
    view = _by_dlpack(value, name, JAX)
    if view is not None:
        view.read_only = True  # JAX's arrays do not change
    return view


def _any(value: Any, name: str) -> View | None:
    """Ask the protocols."""
    if hasattr(value, "__cuda_array_interface__"):
        return _by_interface(value, name, OTHER)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _by_dlpack(value, name, OTHER)
    return None


def _none(value: Any, name: str) -> None:
    return None


_HOST_TYPES = (bool, int, float, complex, str, bytes, list, tuple, range, type(None))
_known: dict[type, Callable[[Any, str], View | None]] = dict.fromkeys(
    (np.ndarray, *_HOST_TYPES), _none
)
_known[DeviceArray] = _own


def _learn(kind: type) -> Callable[[Any, str], View | None]:
    """Return who describes a type's arrays, and remember it for those that are well known."""
    if issubclass(kind, (np.ndarray, np.generic)):
        _known[kind] = _none
        return _none
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        found = None
        if (root, base.__name__) == ("cupy", "ndarray"):
            found = CUPY.view
        elif (root, base.__name__) == ("torch", "Tensor"):
            found = TORCH.view
        elif root in ("jax", "jaxlib"):
            found = _jax
        elif (root, base.__name__) == ("numba", "DeviceNDArray"):

            def found(value: Any, name: str) -> View:
                return _by_interface(value, name, NUMBA)

        if found:
            _known[kind] = found
            return found
    return _any


def view_of(value: Any, name: str) -> View | None:
    """Return where an array is; None for what is the host's, or no array at all."""
    kind = type(value)
    view = (_known.get(kind) or _learn(kind))(value, name)
    # A byte order that is not the machine's, or text: no kernel reads it.
    if view is not None and not view.dtype.isnative:
        raise TypeError(f"{name}: dtype {view.dtype} is not in the machine's byte order")
    return view


def check_device(view: View, device: str | None) -> None:
    """Raise ValueError where the caller names another device than the array's."""
    if device is None or device in (view.device, view.device.partition(":")[0]):
        return
    raise ValueError(
        f"device: the array is on {view.device}, not on {device}; leave device out, or copy the "
        "array there"
    )


def in_order(view: View, name: str) -> None:
    """Raise ValueError where the items are not one run in C order."""
    expected = view.dtype.itemsize
    if view.strides is not None and math.prod(view.shape):
        for extent, step in zip(reversed(view.shape), reversed(view.strides), strict=True):
            if extent != 1 and step != expected:
                fix = view.library.contiguous.format(name=name)
                raise ValueError(f"{name}: is not C-contiguous; {fix}")
            expected *= extent
    aligned(view, name)


def aligned(view: View, name: str) -> None:
    """Raise ValueError where the address does not suit the items."""
    if view.address % view.dtype.itemsize:
        raise ValueError(
            f"{name}: its address is no multiple of its items' {view.dtype.itemsize} bytes; copy it"
        )


def run_start(view: View, name: str) -> int:
    """Return where the items begin, if they fill a run of memory in any order of axes."""
    aligned(view, name)
    if view.strides is None or math.prod(view.shape) == 0:
        return view.address
    expected, start = view.dtype.itemsize, view.address
    axes = zip(view.strides, view.shape, strict=True)
    for step, extent in sorted((axis for axis in axes if axis[1] > 1), key=lambda a: abs(a[0])):
        if abs(step) != expected:
            fix = view.library.contiguous.format(name=name)
            raise ValueError(f"{name}: its items have gaps or overlap in memory; {fix}")
        expected *= extent
        start += min(0, step * (extent - 1))
    return start


# --- calls


def _streams(views: list[View]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(view.stream for view in views))


def _same_device(views: list[tuple[str, View]]) -> None:
    first, where = views[0]
    for name, view in views[1:]:
        if view.device != where.device:
            raise ValueError(
                f"{name}: is on {view.device}, but {first} is on {where.device}; copy one of them"
            )


def _settle(views: list[View]) -> None:
    """Wait where an array may be let go only after the work."""
    for view in views:
        if view.waits:
            _core.wait(view.device, view.stream)
            return


def _reduced(op: str, given: np.dtype, dtype: DTypeLike | None) -> np.dtype:
    """Return the dtype of a reduction's result: NumPy's."""
    if dtype is not None:
        return np.dtype(dtype)
    if op in ("sum", "prod") and given.kind in "biu":
        return np.dtype(np.uint64 if given.kind == "u" else np.int64)
    return given


def reduce(
    view: View,
    op: str,
    variant: int | str | None,
    dtype: DTypeLike | None,
    out: Any,
    initial: Any,
    block: int | None,
    device: str | None,
) -> Any:
    """Reduce an array on a device; see `gpuopt.reduce`."""
    if device is not None:
        check_device(view, device)
    start = run_start(view, "array")
    streams, made, to = (view.stream,), None, 0
    if out is None:
        result = _checked_dtype(_reduced(op, view.dtype, dtype))
        made, target = view.library.empty(view, (), result)
    elif type(out) is np.ndarray:  # the one way to have the value on the host at once
        target, result = None, out.dtype if dtype is None else np.dtype(dtype)
        if out.shape != () or out.dtype != result or not out.flags.writeable:
            check_out(out, (), result)
    else:
        target = view_of(out, "out")
        if target is None:
            raise TypeError(f"out: return arrays must be of ArrayType, not {type(out)!r}")
        result = target.dtype if dtype is None else np.dtype(dtype)
        _check_target(target, (), result)
        _same_device([("array", view), ("out", target)])
    if target is not None:
        to, streams = target.address, _streams([view, target])
    n = math.prod(view.shape)
    value = _core.reduce_resident(
        view.device, streams, start, n, view.dtype, op, variant, result, initial, block, to
    )
    if target is not None and (view.waits or target.waits):
        _settle([view, target])
    if made is not None:
        return view.library.finish(made)
    if target is None:
        out[...] = value
    return out


def _check_target(target: View, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise where an `out` on a device cannot take a result as it is."""
    if target.shape != shape:
        raise ValueError(f"out: has shape {target.shape}, but the result has {shape}")
    if target.read_only:
        raise ValueError("out: output array is read-only")
    if target.dtype != dtype:
        raise TypeError(f"out: must be of the result's dtype {dtype}, not {target.dtype}")
    in_order(target, "out")


def inputs(device: str | None, **given: Any) -> dict[str, View] | None:
    """Return the views of a family's arrays, all on one device; None where all are the host's.

    Raises
    ------
    TypeError
        Some are on a device and others on the host.
    ValueError
        They are on different devices, on another than `device`, or not in C order.
    """
    views = {name: view_of(value, name) for name, value in given.items()}
    found = {name: view for name, view in views.items() if view is not None}
    if not found:
        return None
    for name in given:
        if name not in found:
            other, view = next(iter(found.items()))
            raise TypeError(
                f"{name}: is on the host, but {other} is on {view.device}; copy one of them "
                f"(gpuopt.asarray({name}, {view.device!r}))"
            )
    _same_device(list(found.items()))
    for name, view in found.items():
        check_device(view, device)
        in_order(view, name)
    return found


def alike(views: dict[str, View]) -> None:
    """Raise where arrays that are combined differ in dtype: nothing is converted on a device."""
    (first, one), *others = views.items()
    for name, view in others:
        if view.dtype != one.dtype:
            raise TypeError(
                f"{first}, {name}: have dtypes {one.dtype} and {view.dtype}; convert one of them"
            )


def run(
    problem: Problem,
    views: dict[str, View],
    variant: int | str | None,
    block: int | None,
    out: Any,
    *,
    dtype: np.dtype | None = None,
    in_place: bool = False,
) -> Any:
    """Run a problem whose inputs are stand-ins of views; return `out`, or a new array.

    Parameters
    ----------
    dtype : dtype, optional
        The result's, where it is not the problem's.
    in_place : bool
        Whether `out` may be one of the inputs.
    """
    dtype = problem.dtype if dtype is None else dtype
    first = next(iter(views.values()))
    if out is None:
        made, target = first.library.empty(first, problem.shape, dtype)
    else:
        made, target = None, view_of(out, "out")
        if target is None:
            raise TypeError(
                f"out: is on the host, but the result is on {first.device}; pass an array there"
            )
        _check_target(target, problem.shape, dtype)
        name = next(iter(views))
        _same_device([(name, first), ("out", target)])
        _check_overlap(target, views, in_place)
    places = {view.address for view in views.values()}
    arguments = []
    for each in problem.inputs:
        address = each.__array_interface__["data"][0]
        resident = address in places or not each.size
        arguments.append((address if each.size else 0, each.nbytes) if resident else each)
    family = (problem.family, problem.op, problem.items, problem.result)
    numbers = tuple(number % 2**64 for number in problem.numbers)
    size = math.prod(problem.shape) * dtype.itemsize
    call = (*family, tuple(arguments), (target.address, size), numbers)
    every = [*views.values(), target]
    _core.call_resident(first.device, _streams(every), call, variant, block)
    _settle(every)
    return first.library.finish(made) if out is None else out


def _check_overlap(target: View, views: dict[str, View], in_place: bool) -> None:
    result = target.stand_in()
    for name, view in views.items():
        if in_place and view.address == target.address and view.shape == target.shape:
            continue
        if result.size and np.may_share_memory(result, view.stand_in()):
            raise ValueError(f"out: overlaps {name}; on a device it must have memory of its own")
