"""Anybody's CUDA kernels, from PTX: loaded, launched on arrays, counted and checked."""

from __future__ import annotations

import math
import os
import re
import struct
import threading
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gpuopt import _core
from gpuopt.ptx.buffers import (
    TIMES,
    Buffer,
    Prepared,
    Resident,
    Texture,
    beside,
    is_ours,
    pinned,
    resident,
    span,
    stream_of,
    texture_plan,
)
from gpuopt.ptx.entries import ONLY_ASCII, Embedded, Parameter, entries, ptx_error

# --- arguments

_INTEGER = re.compile(r"\.[usb](8|16|32|64)")
_ADDRESS = (".u64", ".b64", ".s64")
_FLOATS = {".f16": "<e", ".f32": "<f", ".f64": "<d"}


def _an(value: object) -> str:
    """Return what an argument is, for an error's text."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{type(value).__name__} {value!r:.60}"


def _integer(value: Any, parameter: Parameter) -> bytes | None:
    """Return an integer's bytes, None where it is none; ValueError where it does not fit."""
    if not isinstance(value, int | np.integer | np.bool_):
        return None
    number, bits = int(value), 8 * parameter.size
    least = 0 if parameter.type[1] == "u" else -(1 << bits - 1)
    most = (1 << bits - 1) - 1 if parameter.type[1] == "s" else (1 << bits) - 1
    if not least <= number <= most:
        raise ValueError(f"{number} does not fit into {parameter.type}, {least} to {most}")
    return (number & (1 << bits) - 1).to_bytes(parameter.size, "little")


def _is_structure(parameter: Parameter) -> bool:
    return not (parameter.type in _FLOATS or _INTEGER.fullmatch(parameter.type)) or (
        parameter.type == ".b8" and parameter.size > 1
    )


def _scalar(value: Any, parameter: Parameter) -> bytes | None:
    """Return the bytes of an argument that is no memory, None where it has the wrong type."""
    if _is_structure(parameter) or (parameter.type == ".b8" and isinstance(value, bytes)):
        if not isinstance(value, bytes | bytearray | np.generic):
            return None
        data = bytes(value) if isinstance(value, bytes | bytearray) else value.tobytes()
        if len(data) != parameter.size:
            raise ValueError(f"has {len(data)} bytes, the parameter has {parameter.size}")
        return data
    if parameter.type in _FLOATS:
        if not isinstance(value, int | float | np.integer | np.floating):
            return None
        try:
            return struct.pack(_FLOATS[parameter.type], float(value))
        except OverflowError:
            raise ValueError(f"{value!r:.60} is too large for {parameter.type}") from None
    if isinstance(value, np.floating) and parameter.type[1] == "b":
        return value.tobytes() if value.dtype.itemsize == parameter.size else None
    return _integer(value, parameter)


def _wanted(parameter: Parameter) -> str:
    """Return what a parameter takes, for an error's text."""
    if _is_structure(parameter):
        return f"bytes or a NumPy scalar of {parameter.size} bytes"
    if parameter.type in _FLOATS:
        return "a number"
    if parameter.size == 8:
        return "a NumPy array, a Buffer, a Texture, an array on the GPU, or an integer"
    exact = f", or a NumPy float of {parameter.size} bytes" if parameter.type[1] == "b" else ""
    return f"an integer{exact}" if parameter.size > 1 else "an integer or a bool"


def _dimensions(value: Any, name: str, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a grid or a block as three numbers."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"{name}: has {len(given)} dimensions; give 1 to 3")
    try:
        numbers = tuple(index(each) for each in given)
    except TypeError:
        raise TypeError(f"{name}: must be an int or a tuple of ints, not {value!r:.60}") from None
    for axis, number in enumerate(numbers):
        if not 1 <= number <= most[axis]:
            raise ValueError(
                f"{name}: {number} in dimension {'xyz'[axis]} is not from 1 to {most[axis]:,}"
            )
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


IDLE_SECONDS = 45.0  # in which none of a launch's warps ends: so long only loops without an end run


def _limits(steps: Any, time_limit: Any, device: str) -> tuple[int, float, float]:
    """Return a launch's limits as `_core` takes them."""
    if steps is None and time_limit is None:
        return 0, 0.0, IDLE_SECONDS
    if not device.startswith("sim"):
        name = "steps" if time_limit is None else "time_limit"
        raise ValueError(f"{name}: only a simulated GPU can end a kernel, and this is {device}")
    try:
        number = 0 if steps is None else index(steps)
    except TypeError:
        raise TypeError(f"steps: must be an int, not {steps!r:.60}") from None
    if steps is not None and not 1 <= number < 1 << 64:
        raise ValueError(f"steps: {number} is not a number of warp instructions; use 1 or more")
    if time_limit is None:
        return number, 0.0, IDLE_SECONDS
    if not isinstance(time_limit, int | float | np.integer | np.floating):
        raise TypeError(f"time_limit: must be a number of seconds, not {time_limit!r:.60}")
    if not time_limit > 0:
        raise ValueError(f"time_limit: {time_limit} is not above 0; use seconds, or math.inf")
    return number, 0.0 if math.isinf(time_limit) else float(time_limit), 0.0


# --- what a user holds


class _Launch(NamedTuple):
    """A launch that was checked."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    limits: tuple[int, float, float]  # steps, seconds, seconds without the end of a warp; 0: none
    values: list[bytes | None]  # None: an array of the host's, which is yet to be copied
    arrays: list[Resident]  # those that are on the GPU


class _Argument(NamedTuple):
    """An array of the host's on its way through a launch."""

    number: int
    array: np.ndarray
    data: np.ndarray  # its items in C order
    buffer: Buffer
    writable: bool


class Resources(NamedTuple):
    """What a kernel takes of a multiprocessor: see `Kernel.resources`.

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> gpuopt.load_ptx(ptx, device="sim")["k"].resources.shared_bytes
    0
    """

    registers: int
    local_bytes: int
    shared_bytes: int


class Kernel:
    """A kernel of a `Module`: call it as ``kernel(grid, block, *args, shared=0)``.

    Attributes
    ----------
    name : str
    parameters : list of Parameter
        (type, size) of each: the type as the PTX has it, ".u64" or ".f32", and the size in bytes;
        ".b8" for a structure passed by value.

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> kernel = gpuopt.load_ptx(ptx, device="sim")["k"]
    >>> kernel(2, 32)  # two blocks of a warp
    >>> gpuopt.profile(kernel, 2, 32).counters.warp_instructions
    2
    """

    def __init__(self, module: Module, name: str, parameters: list[Parameter]) -> None:
        self.name = name
        self.parameters = parameters
        self._module = module

    def __repr__(self) -> str:
        types = ", ".join(each.type for each in self.parameters)
        return f"<Kernel {self.name}({types}) on {self._module.device}>"

    @property
    def resources(self) -> Resources:
        """Registers and bytes of local memory a thread, bytes of static shared memory a block.

        On a GPU what its compiler made of the kernel; local memory holds arrays and the registers
        that were spilled. A simulated GPU has PTX, which spills nothing, and estimates registers.
        """
        with self._module._lock:
            return Resources(*self._module._core.resources(self.name))

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Any,
        shared: int = 0,
        steps: int | None = None,
        time_limit: float | None = None,
    ) -> None:
        """Run the kernel to its end.

        Parameters
        ----------
        grid, block : int or tuple of up to 3 ints
            Blocks of the grid, threads of a block.
        *args
            One for each parameter. For 64-bit parameters:

            - a NumPy array: its items are copied to the device in C order and native byte order,
              and back after the launch unless the array is read-only; an array passed twice is one
              piece of memory there;
            - an array on the module's GPU (CuPy, PyTorch, Numba, `gpuopt.asarray`, ...; on a
              simulated GPU `gpuopt.asarray`), C-contiguous and writable: the kernel gets its
              address, after what is queued on the array's stream. Neither its dtype nor its size
              is checked, and its library is told that it was written (PyTorch's autograd asks);
            - a `Buffer`, a `Texture`, or an address. On a simulated GPU those of its other modules
              too: they share its memory.

            For others a number that fits; bytes or a NumPy scalar for a structure.
        shared : int
            Bytes of dynamic shared memory a block.
        steps : int, optional
            Of a simulated GPU: end the launch after so many warp instructions. Default: 2^40.
        time_limit : float, optional
            Of a simulated GPU: end the launch after so many seconds of the host's time; math.inf:
            never. Default: when no warp of the grid has ended for 45 s, which ends a loop without
            an end within a minute, and no grid whose warps end one after the other.

        Raises
        ------
        TypeError, ValueError
            The number, type or value of an argument; an array on another device, with gaps, or
            read-only, as JAX's are; a grid, block or `shared` that the device cannot run; `steps`
            or `time_limit` on a GPU. Nothing was launched.
        SimError, DeviceError
            The kernel failed, or did not end within its limits; no NumPy array was changed.
        """
        limits = _limits(steps, time_limit, self._module.device)
        with self._module._lock:
            self._run(self._checked(grid, block, shared, limits, args), args)

    def _checked(
        self,
        grid: Any,
        block: Any,
        shared: Any,
        limits: tuple[int, float, float],
        args: tuple[Any, ...],
    ) -> _Launch:
        """Check a launch's extents and arguments."""
        sizes = (
            _dimensions(grid, "grid", (2**31 - 1, 65535, 65535)),
            _dimensions(block, "block", (1024, 1024, 64)),
        )
        try:
            shared = index(shared)
        except TypeError:
            raise TypeError(f"shared: must be an int, not {shared!r:.60}") from None
        if not 0 <= shared < 1 << 31:
            raise ValueError(f"shared: {shared} is not a number of bytes that a block can have")
        if len(args) != len(self.parameters):
            types = ", ".join(each.type for each in self.parameters)
            raise TypeError(
                f"kernel {self.name} takes {len(self.parameters)} arguments ({types}), "
                f"{len(args)} were given"
            )
        values: list[bytes | None] = []
        arrays = []
        for i, argument in enumerate(args):
            array = self._resident(i, argument)
            if array:
                arrays.append(array)
                values.append(array.address.to_bytes(8, "little"))
            else:
                values.append(self._value(i, argument))
        return _Launch(*sizes, shared, limits, values, arrays)

    def bind(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Any,
        shared: int = 0,
        steps: int | None = None,
        time_limit: float | None = None,
    ) -> Prepared:
        """Check a launch and keep it, to be timed by `Module.time`.

        Parameters
        ----------
        grid, block, shared, steps, time_limit
            As for a call.
        *args
            As for a call, but no NumPy arrays: nothing is copied. An array on the GPU is kept;
            its stream is what it is now.

        Returns
        -------
        Prepared
        """
        limits = _limits(steps, time_limit, self._module.device)
        launch = self._checked(grid, block, shared, limits, args)
        for i, value in enumerate(launch.values):
            if value is None:
                raise TypeError(
                    f"kernel {self.name}: argument {i + 1} is an array of NumPy, which a launch "
                    "that is timed does not copy; pass a Buffer, made by the module's copy()"
                )
        keep = tuple(each for each in args if isinstance(each, Buffer | Texture))
        values = tuple(launch.values)
        bound = self.name, launch.grid, launch.block, launch.shared, values, limits
        return Prepared(bound, keep, tuple(launch.arrays))

    def _run(self, launch: _Launch, args: tuple[Any, ...]) -> None:
        core, (grid, block, shared, limits, values, residents) = self._module._core, launch
        arrays: list[_Argument] = []
        try:
            for i, argument in enumerate(args):
                if values[i] is None:
                    arrays.append(self._array(i, argument, arrays))
                    values[i] = arrays[-1].buffer.address.to_bytes(8, "little")
            for each in residents:
                each.writes()
            bound = self.name, grid, block, shared, tuple(values), limits
            core.launch(bound, *beside(residents))
            results = {}
            for each in arrays:  # all are fetched before the first is changed
                if each.writable and each.data.nbytes and each.buffer.address not in results:
                    host = each.buffer.get().view(each.data.dtype).reshape(each.data.shape)
                    results[each.buffer.address] = each.array, host
        finally:
            for each in arrays:  # a traceback may keep this frame
                each.buffer._free()
        for array, host in results.values():
            array[...] = host

    def _resident(self, i: int, argument: Any) -> Resident | None:
        """Return an array that is on the module's GPU; None for any other argument."""
        if self.parameters[i].type not in _ADDRESS or isinstance(argument, Buffer | Texture):
            return None
        return resident(argument, f"argument {i + 1}", f"kernel {self.name}: ", self._module.device)

    def _value(self, i: int, argument: Any) -> bytes | None:
        """Return an argument's bytes; None for a NumPy array, which has none yet."""
        parameter = self.parameters[i]
        address = parameter.type in _ADDRESS
        if isinstance(argument, Buffer) and address:
            if not self._module._reaches(argument._core):
                raise ValueError(
                    f"kernel {self.name}: argument {i + 1} is a Buffer of another module; make it "
                    f"with this one's copy()"
                )
            return argument.address.to_bytes(8, "little")
        if isinstance(argument, Texture) and address:
            if not self._module._reaches(argument._core):
                raise ValueError(
                    f"kernel {self.name}: argument {i + 1} is a Texture of another module; make it "
                    f"with this one's texture()"
                )
            return argument.handle.to_bytes(8, "little")
        if isinstance(argument, np.ndarray) and address:
            if isinstance(argument, np.ma.MaskedArray):
                raise TypeError(
                    f"kernel {self.name}: argument {i + 1} is a masked array, which kernels do not "
                    f"know; pass .filled() or .data"
                )
            if argument.dtype.hasobject:
                raise TypeError(
                    f"kernel {self.name}: argument {i + 1} is an array of Python objects; convert "
                    f"it to a number's dtype"
                )
            return None
        try:
            value = _scalar(argument, parameter)
        except ValueError as error:
            raise ValueError(f"kernel {self.name}: argument {i + 1}: {error}") from None
        if value is None:
            raise TypeError(
                f"kernel {self.name}: argument {i + 1} is {_an(argument)}; parameter "
                f"{parameter.type} takes {_wanted(parameter)}"
            )
        return value

    def _array(self, i: int, array: np.ndarray, others: list[_Argument]) -> _Argument:
        """Copy an array to the device, or find it there."""
        for other in others:
            same = (
                array.dtype == other.array.dtype
                and array.__array_interface__["data"][0]
                == other.array.__array_interface__["data"][0]
                and array.shape == other.array.shape
                and array.strides == other.array.strides
            )
            if same:
                array = array if array.flags.writeable else other.array
                return other._replace(number=i + 1, array=array, writable=array.flags.writeable)
            if (array.flags.writeable or other.writable) and _overlap(array, other.array):
                raise ValueError(
                    f"kernel {self.name}: arguments {other.number} and {i + 1} are different views "
                    f"of the same memory; pass a copy of one"
                )
        native = array.dtype.newbyteorder("=")
        data = np.asarray(array).astype(native, order="C", copy=False)
        return _Argument(i + 1, array, data, self._module.copy(data), array.flags.writeable)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=100_000)
    except RuntimeError:  # too hard to say
        return True


class Module:
    """PTX on a device: a mapping from names to kernels, ``module["add"]``; see `load_ptx`.

    Attributes
    ----------
    device : str
        Where it is loaded, "sim:h200" or "cuda:0".
    kernels : list of str
        The names of its kernels.

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> module = gpuopt.load_ptx(ptx, device="sim")
    >>> module.kernels, "k" in module, len(module)
    (['k'], True, 1)
    """

    def __init__(self, ptx: bytes | None, device: str | None) -> None:
        self._core = _core.Module(ptx, device)
        self.device = self._core.device
        self._parameters = Embedded() if ptx is None else entries(ptx)
        self._checked: set[str] = set()
        self._lock = threading.RLock()  # calls on one module take turns

    def _reaches(self, core: _core.Module) -> bool:
        """Tell whether kernels may use another module's memory: on GPUs, streams order it."""
        return core is self._core or (self.device.startswith("sim") and core.device == self.device)

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        return list(self._parameters)

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __repr__(self) -> str:
        return f"<Module of {len(self)} kernels on {self.device}>"

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel.

        Raises
        ------
        KeyError
            There is none of that name.
        PTXError
            The simulated GPU lacks one of its instructions.
        """
        if name not in self._parameters:
            known = ", ".join(map(repr, self.kernels[:20])) or "none"
            more = f" and {len(self) - 20} more" if len(self) > 20 else ""
            raise KeyError(f"{name!r:.120} is not a kernel of this module; it has {known}{more}")
        parameters = self._parameters[name]
        if name not in self._checked:
            with self._lock:
                sizes = self._core.kernel(name)
            if sizes != [each.size for each in parameters]:
                raise ptx_error(0, f"kernel {name[:120]!r}: its parameters cannot be read")
            self._checked.add(name)
        return Kernel(self, name, list(parameters))

    def time(
        self, launches: Prepared | Sequence[Prepared], runs: int = 1, how: str = "queue"
    ) -> float:
        """Time launches and copies on a GPU.

        Parameters
        ----------
        launches : Prepared or sequence of Prepared
            Made by `Kernel.bind` and `transfer`; those of one stream run in this order, those of
            others (`Prepared.on`) beside them. Several with different buffers keep a cache from
            holding the data. With arrays of another library's the first stream is the first
            array's, as in a call of a `Kernel`.
        runs : int
            How many times over, back to back; a first round before them is not timed.
        how : {"queue", "sync", "graph", "host"}
            One after the other, by the GPU's own clock; waiting for each before the next is given,
            by the host's clock; all of them as one CUDA graph, by the GPU's; or the time that the
            host takes to hand them over without waiting (as long as the driver's queue has room,
            about a thousand launches).

        Returns
        -------
        float
            Seconds that one round takes.

        Raises
        ------
        DeviceError
            The device has no timer: a simulated GPU counts (`gpuopt.profile`), it does not measure.
        ValueError
            An unknown `how`; a stream that is not from 0 to 7; a graph of anything but launches on
            stream 0.

        Notes
        -----
        Nothing here looks at the results: check them first.
        """
        if how not in TIMES:
            raise ValueError(f"how: {how!r:.40} is not one of {', '.join(map(repr, TIMES))}")
        every = (launches,) if isinstance(launches, Prepared) else tuple(launches)
        steps = tuple((each.stream, each.launch) for each in every)
        arrays = [array for each in every for array in each.arrays]
        with self._lock:
            for array in arrays:
                array.writes()
            streams, held = beside(arrays)
            keep = held, [each for bound in every for each in bound.keep if not is_ours(each)]
            return self._core.time(steps, runs, TIMES.index(how), streams, keep)

    def transfer(self, to: Buffer | np.ndarray, source: Buffer | np.ndarray) -> Prepared:
        """Bind a copy that does not wait, to be timed by `time`.

        Parameters
        ----------
        to, source : Buffer or numpy.ndarray
            Of as many bytes; arrays contiguous, best `pinned`: others go through a buffer of the
            driver's.

        Returns
        -------
        Prepared

        Raises
        ------
        ValueError
            Different sizes, a read-only `to`, an array that is not contiguous.
        """
        to_address, nbytes = span(to, "to", self._core, writable=True)
        source_address, given = span(source, "source", self._core, writable=False)
        if given != nbytes:
            raise ValueError(f"source: has {given:,} bytes, to has {nbytes:,}")
        return Prepared((to_address, source_address, nbytes), (to, source))

    def pinned(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> np.ndarray:
        """Return an array in pinned (page-locked) host memory, its items undefined.

        A GPU copies from and to such memory by itself, at the full speed of its link; the memory is
        freed with the array and its views.

        Parameters
        ----------
        shape : int or tuple of ints
        dtype : dtype

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        MemoryError
            The host has no more memory that can be pinned.
        DeviceError
            The device is no GPU.
        """
        with self._lock:
            return pinned(self._core, shape, dtype)

    def texture(
        self,
        array: ArrayLike,
        *,
        channels: int = 1,
        linear_memory: bool | None = None,
        linear_filter: bool = False,
        wrap: bool = False,
        normalised: bool = False,
    ) -> Texture:
        """Make a texture object with an array's items.

        Parameters
        ----------
        array : array_like
            Of shape (width,), for ``tex1Dfetch`` or ``tex1D``; (height, width), for ``tex2D``; or
            (depth, height, width), for ``tex3D``. float32, int32, uint32, or uint8, which is read
            as floats from 0 to 1.
        channels : {1, 2, 4}
            Of a texel; more than one are the array's last axis.
        linear_memory : bool, optional
            Of one dimension: linear memory, which ``tex1Dfetch`` reads by integer index; else an
            array, for ``tex1D``. Default: linear memory unless one of the following is asked for.
        linear_filter : bool
            Between the two, four or eight texels around a point, weighed by fractions of 8 bits;
            else the nearest.
        wrap : bool
            Coordinates outside are taken modulo the array; else the nearest inside.
        normalised : bool
            Coordinates go from 0 to 1 over the array instead of over its texels.

        Returns
        -------
        Texture
            A copy of the array, freed with the object. On a simulated GPU a fetch of another kind
            than the texture's is a finding.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or sampling that textures do not have.
        DeviceMemoryError
            The device is out of memory.
        """
        sampling = bool(linear_filter), bool(wrap), bool(normalised)
        if linear_memory is not None:
            linear_memory = bool(linear_memory)
        plan = texture_plan(array, channels, linear_memory, *sampling)
        buffer = self.copy(plan.texels)
        with self._lock:
            return Texture(self._core, plan, buffer, sampling)

    def use_stream(self, stream: Any) -> None:
        """Work on a caller's CUDA stream from now on: launches, copies, timings.

        A launch with arrays of another library's (see `Kernel`) works on theirs instead, after
        what was given to this one.

        Parameters
        ----------
        stream : stream or int
            A stream of CuPy, PyTorch or Numba, or any object with CUDA Python's
            ``__cuda_stream__()``: it is kept as long as it is used here, also by the module's
            pinned memory. Or a ``cudaStream_t`` as a number, which must live as long: 1 for the
            legacy default stream, 2 for the thread's; 0 for the module's own again.

        Raises
        ------
        ValueError
            It is a stream of another GPU than the module's.
        TypeError
            It is no stream.
        DeviceError
            The device is no GPU.
        """
        number, kept = stream_of(stream, self.device)
        with self._lock:
            self._core.adopt(number, kept)

    def empty(self, nbytes: int) -> Buffer:
        """Return device memory whose bytes are undefined.

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
        """Return device memory with an array's items, in C order and native byte order.

        Parameters
        ----------
        array : array_like
            Of any dtype but Python objects.

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


def load_ptx(text_or_path: str | bytes | os.PathLike[str], device: str | None = None) -> Module:
    """Load CUDA kernels from PTX, for a GPU or for the simulated one.

    ``nvcc -ptx -lineinfo -arch=compute_75 file.cu`` makes PTX that both take; on the simulated GPU
    kernels can be checked and counted (`gpuopt.check`, `gpuopt.profile`) where there is no GPU.

    Parameters
    ----------
    text_or_path : str, bytes or path
        The PTX, or the path of a file that holds it. A str with a line break or a brace is PTX.
    device : str, optional
        "sim", "sim:g80", ..., "cuda", "cuda:1". None: that of an enclosing `gpuopt.profile` or
        `gpuopt.check`, else GPUOPT_DEVICE, else a GPU if there is one, else "sim".

    Returns
    -------
    Module
        ``module["kernel"](grid, block, *args, shared=0)`` launches; see `Kernel`, also for the
        limits that end a kernel which does not end by itself on a simulated GPU.

    Raises
    ------
    PTXError
        The PTX is malformed, or the device lacks something that it uses; `line` and `column` say
        where (0: not known). The simulated GPU reads a kernel when it is first asked for.
    ValueError
        An unknown device, or one that runs no kernels ("cpu").
    OSError
        The file cannot be read.

    Notes
    -----
    NumPy arrays travel to the device and back with each launch; `Module.copy` makes a `Buffer` that
    stays there, and arrays of CuPy, PyTorch and others on the GPU are used where they are. Results
    of a kernel that races are as undefined as on hardware: the simulated GPU raises `SimError`
    instead.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> module = gpuopt.load_ptx('''
    ... .version 8.0
    ... .target sm_75
    ... .address_size 64
    ... .visible .entry scale(.param .u64 x, .param .f32 factor)
    ... {
    ...     .reg .b32 %i; .reg .f32 %f<2>; .reg .b64 %x<2>;
    ...     ld.param.u64 %x0, [x];
    ...     ld.param.f32 %f0, [factor];
    ...     mov.u32 %i, %tid.x;
    ...     mad.wide.u32 %x1, %i, 4, %x0;
    ...     ld.global.f32 %f1, [%x1];
    ...     mul.f32 %f1, %f1, %f0;
    ...     st.global.f32 [%x1], %f1;
    ...     ret;
    ... }''', device="sim")
    >>> module.kernels
    ['scale']
    >>> x = np.arange(4, dtype=np.float32)
    >>> module["scale"](1, 4, x, 2.5)
    >>> x
    array([0. , 2.5, 5. , 7.5], dtype=float32)
    >>> gpuopt.check(module["scale"], 1, 5, x, 2.5)[0].kind  # a thread too many
    'out of bounds'
    """
    if isinstance(text_or_path, str) and re.search(r"[\n{]|^\s*(\.version|//)", text_or_path):
        ptx = text_or_path.encode("ascii", "replace")
    elif isinstance(text_or_path, bytes):
        ptx = text_or_path.translate(ONLY_ASCII)
    elif isinstance(text_or_path, str | os.PathLike):
        with open(text_or_path, "rb") as file:
            ptx = file.read().translate(ONLY_ASCII)
    else:
        raise TypeError(
            f"text_or_path: must be PTX as str or bytes, or a path, not {text_or_path!r:.60}"
        )
    ptx = ptx.rstrip(b"\0")
    if b"\0" in ptx:
        line = ptx.count(b"\n", 0, ptx.index(b"\0")) + 1
        raise ptx_error(line, "holds a NUL character; is it PTX, or a compiled kernel?")
    if b".version" not in ptx and re.search(rb"\b__global__\b|^\s*#\s*include\b", ptx, re.M):
        raise ptx_error(
            0, "this is CUDA C++; compile it first: nvcc -ptx -lineinfo -arch=compute_75 file.cu"
        )
    return Module(ptx, device)
