"""Arrays on a device: their library, address, layout and stream.

A `View` describes an input. PyTorch's arrays are read through DLPack's C exchange API, CuPy's by
their attributes, in C (the other protocols do not report the current stream, or cost several
microseconds), those of an older PyTorch likewise in Python, all others through
`__cuda_array_interface__` (version 3) or DLPack. The caller's own library allocates the results.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from operator import index
from typing import Any, ClassVar

import numpy as np

from gpuopt import _core
from gpuopt._core import View
from gpuopt.arrays.device_array import (
    BFLOAT,
    CODES,
    CUDA,
    CUDA_MANAGED,
    HOSTS,
    LEGACY,
    DeviceArray,
    Library,
    low_words,
)
from gpuopt.arrays.dtypes import bfloat16, name_of


def _native(dtype: np.dtype, name: str) -> np.dtype:
    """Return the dtype; TypeError for a foreign byte order."""
    if not dtype.isnative:
        raise TypeError(f"{name}: dtype {dtype} is not in the machine's byte order")
    return dtype


@cache
def _cupy() -> tuple[Any, Any, Any, Any]:
    """Return CuPy's empty, get_current_stream, Device and getDevice: importing costs more."""
    import cupy

    cuda = cupy.cuda
    return cupy.empty, cuda.get_current_stream, cuda.Device, cuda.runtime.getDevice


class _Known(Library):
    """A library whose arrays are recognised by their class, or by a base class of it."""

    ROOTS: ClassVar[tuple[str, ...]]  # packages of the class
    CLASS: ClassVar[str]  # "": every class of the packages

    def makes(self, base: type) -> bool:
        """Return whether a class is the library's."""
        return base.__module__.partition(".")[0] in self.ROOTS and base.__name__ == (
            self.CLASS or base.__name__
        )

    def learn(self, kind: type, base: type) -> None:
        """Let C describe the arrays of a type, if it can."""

    def view(self, value: Any, name: str) -> View | None:
        """Describe an array."""
        return _by_interface(value, name, self)


def _constructor(base: type) -> tuple[Any, Any]:
    """Return the two functions that CuPy's constructor calls; Nones for another version."""
    parent, init = base.__mro__[1], getattr(base, "_init", None)
    if parent.__name__ != "_ndarray_base" or not callable(init):
        return None, None
    return parent.__new__, init


class _Cupy(_Known):
    ROOTS, CLASS, turns = ("cupy",), "ndarray", True

    def learn(self, kind: type, base: type) -> None:
        _core.know(kind, self, base, _cupy()[1], *_constructor(base))

    def hold(self, view: View) -> Any:
        # A stream ends with its object.
        return view.holder, _cupy()[1](int(view.device[5:]))

    def empty(self, view: View, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, View]:
        empty, _, device, current = _cupy()
        index = int(view.device[5:])
        if current() == index:
            made = empty(shape, dtype)
        else:
            with device(index):
                made = empty(shape, dtype)
        # The stream and dtype are the other array's: asking the new array costs a microsecond.
        return made, View(self, made.data.ptr, shape, None, dtype, view.device, view.stream, made)

    def turned(self, made: Any, axes: tuple[int, ...]) -> Any:
        return made.transpose(axes)


@cache
def _torch_dtype(dtype: Any) -> np.dtype | None:
    name = str(dtype).removeprefix("torch.")
    if name == "bfloat16":
        return bfloat16()
    names = ("bool", "complex64", "complex128", "float16", "float32", "float64")
    integers = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
    return np.dtype(name) if name in (*names, *integers) else None


@cache
def _to_torch(dtype: np.dtype) -> Any:
    return getattr(sys.modules["torch"], name_of(dtype))


def _torch_calls() -> tuple[dict[np.dtype, Any], Any, Any]:
    """Return for calls in C: {NumPy's dtype: PyTorch's}, its compiler's allocation, increment.

    A PyTorch that has the exchange API increments the versions of several tensors at once.
    """
    torch = sys.modules["torch"]
    known = [each for each in _dlpack_dtypes().values() if hasattr(torch, name_of(each))]
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    increment = getattr(torch._C, "_increment_version", None) or _increment_version()
    allocate = getattr(guards, "_empty_strided_cuda", None)
    return {dtype: _to_torch(dtype) for dtype in known}, allocate, increment


@cache
def _torch_device(name: str) -> Any:
    return sys.modules["torch"].device(name)  # parsing a string in each call costs more


@cache
def _increment_version() -> Callable[[Any], None] | None:
    return getattr(sys.modules["torch"].autograd.graph, "increment_version", None)  # from 2.2 on


class _Torch(_Known):
    ROOTS, CLASS, turns = ("torch",), "Tensor", True

    def learn(self, kind: type, base: type) -> None:
        _core.know(kind, self, _dlpack_dtypes(), *_torch_calls())

    def writes(self, out: Any) -> None:
        """Let autograd detect that saved values were overwritten."""
        increment = _increment_version()
        if increment and not out.is_inference():
            increment(out)

    def hold(self, view: View) -> Any:
        """Return a tensor of its own: the caller may assign other memory to theirs."""
        return view.holder.detach() if hasattr(view.holder, "detach") else view.holder

    def empty(self, view: View, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, View]:
        empty = sys.modules["torch"].empty
        made = empty(shape, dtype=_to_torch(dtype), device=_torch_device(view.device))
        # Like the other array, it is on the current stream.
        return made, View(self, made.data_ptr(), shape, None, dtype, view.device, view.stream, made)

    def turned(self, made: Any, axes: tuple[int, ...]) -> Any:
        return made.permute(axes)

    def view(self, value: Any, name: str) -> View | None:
        """Describe a tensor by its attributes."""
        torch = sys.modules["torch"]
        if not value.is_cuda:
            return None
        if value.layout != torch.strided or value.is_nested:
            raise TypeError(
                f"{name}: is not a plain tensor in memory ({value.layout}, nested: "
                f"{value.is_nested}); pass a dense one, as {name}.to_dense() or .to_padded_tensor()"
            )
        try:
            return self._described(value, name)
        except RuntimeError as error:  # of a wrapper that torch.func makes, for one
            raise TypeError(f"{name}: {error}") from None

    def _described(self, value: Any, name: str) -> View:
        if value.requires_grad:
            raise TypeError(
                f"{name}: gpuopt computes no gradients; pass {name}.detach() of a tensor that "
                "requires them"
            )
        if value.is_neg() or value.is_conj():
            raise TypeError(
                f"{name}: has a lazy negation or conjugation; pass "
                f"{name}.resolve_neg().resolve_conj()"
            )
        dtype = _torch_dtype(value.dtype)
        if dtype is None:
            raise TypeError(
                f"{name}: dtype {value.dtype} is not supported; convert it ({name}.to(...))"
            )
        index = value.get_device()
        # The raw handle: a Stream object costs ten times as much.
        stream = sys.modules["torch"]._C._cuda_getCurrentRawStream(index) or LEGACY
        strides = None
        if not value.is_contiguous():
            strides = tuple(step * dtype.itemsize for step in value.stride())
        address, shape = value.data_ptr(), tuple(value.shape)
        return View(self, address, shape, strides, dtype, f"cuda:{index}", stream, value)


class _Numba(_Known):
    ROOTS, CLASS = ("numba",), "DeviceNDArray"

    def finish(self, made: Any) -> Any:
        from numba import cuda

        return cuda.as_cuda_array(made, sync=False)


@cache
def _jax_calls() -> tuple[Any, Any, dict[str, Any], Any]:
    """Return what JAX's DLPack functions call: export, or None; import; devices; its dtype rule."""
    import jax

    compiled = sys.modules.get("jaxlib._jax")
    take = getattr(compiled, "dlpack_managed_tensor_to_buffer", None)
    devices = [each for each in jax.local_devices() if each.platform == "gpu"] if take else []
    places = {f"cuda:{each.local_hardware_id}": each for each in devices}
    export = getattr(compiled, "buffer_to_dlpack_managed_tensor", None)
    return export, take, places, places and jax.dtypes.canonicalize_dtype


class _Jax(_Known):
    ROOTS, CLASS = ("jax", "jaxlib"), ""

    def view(self, value: Any, name: str) -> View | None:
        """Describe an array by the function that its `__dlpack__` calls, without the checks."""
        export, *_ = _jax_calls()
        try:
            if export and type(value).__name__ == "ArrayImpl" and len(value.devices()) == 1:
                return _by_capsule(value, name, self, export(value, stream=LEGACY), True)
        except Exception:  # on the host, deleted, or of a version that has other arguments
            pass
        return _jax(value, name, self)

    def finish(self, made: Any) -> Any:
        """Pass an array, which the call has waited for, as `jax.dlpack.from_dlpack` does."""
        import jax

        _, take, places, canonical = _jax_calls()
        place = places.get(made.device)
        if place is None:
            return jax.dlpack.from_dlpack(made)
        dtype = canonical(made.dtype)
        if made.dtype.kind in "iu" and dtype.kind == made.dtype.kind and dtype.itemsize == 4:
            made = low_words(made)
        if dtype == made.dtype:
            with suppress(TypeError):  # of another version's signature
                return take(made.__dlpack__(stream=-1), place, None)
        return jax.dlpack.from_dlpack(made)


LIBRARIES = _Cupy(), _Torch(), _Numba(), _Jax()
OTHER = Library()


# --- inputs


@cache
def _dlpack_dtypes() -> dict[int, np.dtype]:
    """Return {DLPack's type code << 8 | bits: dtype}."""
    sizes = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
    found = {
        code << 8 | 8 * size: np.dtype("?" if kind == "b" else f"{kind}{size}")
        for kind, code in CODES.items()
        for size in sizes[kind]
    }
    return found | {BFLOAT << 8 | 16: bfloat16()}


def _own(value: DeviceArray, name: str) -> View:
    return value._view


def _by_interface(value: Any, name: str, library: Library) -> View:
    """Read the CUDA array interface."""
    given = value.__cuda_array_interface__
    try:
        version, mask, stream = given.get("version", 0), given.get("mask"), given.get("stream")
        (address, read_only), typestr = given["data"], given["typestr"]
        # The protocol has no bfloat16: PyTorch and others write it as ml_dtypes does, "|V2" are
        # bytes.
        dtype = bfloat16() if typestr == "<V2" else np.dtype(typestr)
        shape, strides = tuple(map(index, given["shape"])), given.get("strides")
        strides = None if strides is None else tuple(map(index, strides))
        if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
            raise ValueError(f"shape {shape} and strides {strides} do not describe an array")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TypeError(f"{name}: its CUDA array interface is malformed: {error}") from None
    if version < 2 or mask is not None:
        raise TypeError(
            f"{name}: its CUDA array interface is older than version 2 or masked; pass a plain one"
        )
    if stream == 0:
        raise ValueError(f"{name}: its CUDA array interface names stream 0, which is ambiguous")
    # The protocol has no device: the driver finds it from the address.
    try:
        number = _core.owner("cuda", address) if address and 0 not in shape else 0
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    at, order = f"cuda:{number}", stream or LEGACY
    dtype = _native(dtype, name)
    return View(library, address or 0, shape, strides, dtype, at, order, value, bool(read_only))


def _by_dlpack(value: Any, name: str, library: Library) -> View | None:
    """Consume a DLPack capsule; None for an array of the host."""
    place = value.__dlpack_device__()
    if not isinstance(place, tuple) or len(place) != 2:
        raise TypeError(
            f"{name}: its __dlpack_device__() must return two integers, not {place!r:.60}"
        )
    kind = place[0]
    if int(kind) in HOSTS:
        return None
    if int(kind) not in (CUDA, CUDA_MANAGED):
        raise TypeError(f"{name}: is on a device that is no CUDA GPU (DLPack's type {int(kind)})")
    try:
        capsule = value.__dlpack__(stream=LEGACY, max_version=(1, 0))
    except TypeError:  # a producer from before the versioned protocol
        capsule = value.__dlpack__(stream=LEGACY)
    return _by_capsule(value, name, library, capsule)


def _by_capsule(
    value: Any, name: str, library: Library, capsule: Any, read_only: bool = False
) -> View:
    try:
        taken = _core.dlpack_take(capsule)
    except (BufferError, TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    holder, address, shape, steps, code, bits, lanes, _, at, unwritable = taken
    dtype = _dlpack_dtypes().get(code << 8 | bits) if lanes == 1 else None
    if dtype is None:
        raise TypeError(
            f"{name}: its DLPack dtype (code {code}, {bits} bits, {lanes} lanes) is not supported"
        )
    if min(shape, default=0) < 0:
        raise ValueError(f"{name}: its DLPack shape {shape} is invalid")
    strides = None if steps is None else tuple(step * dtype.itemsize for step in steps)
    where, keep, read_only = f"cuda:{at}", (holder, value), bool(read_only or unwritable)
    return View(library, address, shape, strides, dtype, where, LEGACY, keep, read_only, True)


def _jax(value: Any, name: str, library: Library) -> View | None:
    jax = sys.modules.get("jax")
    if jax and isinstance(value, getattr(jax.core, "Tracer", ())):
        raise TypeError(
            f"{name}: is traced by JAX and has no elements yet; call gpuopt outside of jit, grad "
            "and vmap, or through jax.pure_callback"
        )
    if not hasattr(value, "__dlpack_device__"):
        raise TypeError(
            f"{name}: {type(value).__name__} of JAX is not an array of numbers in memory"
        )
    if getattr(value, "is_deleted", bool)():
        raise ValueError(f"{name}: its memory was given back to JAX (deleted, or donated)")
    try:
        view = _by_dlpack(value, name, library)
    except BufferError:
        devices = len(value.sharding.device_set)
        if devices < 2:
            raise
        raise ValueError(
            f"{name}: is on {devices} devices, in parts or whole; pass what is on one of them "
            f"({name}.addressable_shards[0].data), or jax.device_put({name}, one_device)"
        ) from None
    return view and view.replace(read_only=True)  # JAX's arrays do not change


def _any(value: Any, name: str) -> View | None:
    """Describe an array by whichever protocol it has."""
    if hasattr(value, "__cuda_array_interface__"):
        if len(_known) < _KNOWN_MOST:
            _known[type(value)] = _any
        return _by_interface(value, name, OTHER)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _by_dlpack(value, name, OTHER)
    return None


def _none(value: Any, name: str) -> None:
    return None


_HOST_TYPES = (bool, int, float, complex, str, bytes, list, tuple, range, type(None))
_KNOWN_MOST = 256  # a program may make types without end
_known: dict[type, Callable[[Any, str], View | None]] = dict.fromkeys(
    (np.ndarray, *_HOST_TYPES), _none
)
_known[DeviceArray] = _own


def _learn(kind: type) -> Callable[[Any, str], View | None]:
    """Return the function that describes a type's arrays; cache it for a bounded set of types."""
    if issubclass(kind, (np.ndarray, np.generic)):
        _known[kind] = _none
        return _none
    for base in kind.__mro__:
        for library in LIBRARIES:
            if library.makes(base):
                library.learn(kind, base)
                if len(_known) < _KNOWN_MOST:
                    _known[kind] = library.view
                return library.view
    return _any


def view_of(value: Any, name: str) -> View | None:
    """Describe an array on a device; None for host arrays and all other objects."""
    kind = type(value)
    known = _known.get(kind) or _learn(kind)
    view = _core.borrow(value) or known(value, name)
    if view is not None and not view.address and 0 not in view.shape:
        raise TypeError(
            f"{name}: has no memory behind its elements; pass a plain array (a wrapper of "
            "tensors holds others, and a tensor's storage may have been freed)"
        )
    return view


def quick_view(value: Any, name: str) -> View | None:
    """Describe an array of a known library in memory of its own; None for all others.

    `view_of` describes the others, which it has to learn first.
    """
    found = _known.get(type(value))
    if found is None or found is _none:
        return None
    if found is _any and not hasattr(value, "__cuda_array_interface__"):
        return None
    return view_of(value, name)


def check_device(view: View, device: str | None) -> None:
    """Raise ValueError if the caller names a device other than the array's."""
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device: must be a string, not {device!r:.60}")
    if device is None or device in (view.device, view.device.partition(":")[0]):
        return
    raise ValueError(
        f"device: the array is on {view.device}, not on {device}; leave device out, or copy the "
        "array there"
    )


def is_run(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> bool:
    """Return whether elements of `item` bytes are contiguous in C order."""
    if strides is None or math.prod(shape) == 0:
        return True
    for extent, step in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and step != item:
            return False
        item *= extent
    return True


def in_order(view: View) -> bool:
    """Return whether the elements are aligned and contiguous in C order."""
    item = view.dtype.itemsize
    return view.address % item == 0 and is_run(view.shape, view.strides, item)


def run_offset(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> int | None:
    """Return the distance in bytes from the lowest address to the first element.

    The axes may be in any order, forwards or backwards; None if there are gaps.
    """
    if strides is None or math.prod(shape) == 0:
        return 0
    start = 0
    axes = zip(strides, shape, strict=True)
    for step, extent in sorted((axis for axis in axes if axis[1] > 1), key=lambda a: abs(a[0])):
        if abs(step) != item:
            return None
        item *= extent
        start += min(0, step * (extent - 1))
    return start


def run_start(view: View) -> int | None:
    """Return the lowest address of an aligned array without gaps, whatever its order of axes."""
    start = run_offset(view.shape, view.strides, view.dtype.itemsize)
    return None if start is None or view.address % view.dtype.itemsize else view.address + start
