"""Users' CUDA kernels from PTX: loading, launching, counting, checking."""

from __future__ import annotations

import math
import os
import re
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any, NamedTuple, Protocol

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
    """Describe an argument, for an error message."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{type(value).__name__} {value!r:.60}"


def _integer(value: Any, parameter: Parameter) -> bytes | None:
    """Return an integer's bytes, None for another type; ValueError if it does not fit."""
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
    """Return the bytes of a scalar argument, None for the wrong type."""
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
    """Describe the arguments that a parameter accepts, for an error message."""
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


IDLE_SECONDS = 45.0  # a launch none of whose warps ends for this long counts as endless


def _limits(steps: Any, time_limit: Any, device: str) -> tuple[int, float, float]:
    """Return a launch's limits in the form of `_core`."""
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


# --- public objects


class _Launch(NamedTuple):
    """A launch whose arguments were checked."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    limits: tuple[int, float, float]  # steps, seconds, seconds without a warp's end; 0: none
    values: list[bytes | None]  # None: a host array that is not copied yet
    arrays: list[Resident]  # the arrays on the GPU


class _Argument(NamedTuple):
    """A host array during a launch."""

    number: int
    array: np.ndarray
    data: np.ndarray  # its elements in C order
    buffer: Buffer
    writable: bool


class Resources(NamedTuple):
    """The resources of a kernel: see `Kernel.resources`.

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
        (type, size) of each: the PTX type, ".u64" or ".f32", and the size in bytes;
        ".b8" for a structure passed by value.
    symbol : str
        Its name in the machine code or the PTX; `gpuopt.profile` shows it.
    module : Module

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> kernel = gpuopt.load_ptx(ptx, device="sim")["k"]
    >>> kernel(2, 32)  # two blocks of a warp
    >>> gpuopt.profile(kernel, 2, 32).counters.warp_instructions
    2
    """

    def __init__(
        self, module: Module, name: str, parameters: list[Parameter], symbol: str | None = None
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.symbol = symbol or name
        self._module = module

    def __repr__(self) -> str:
        types = ", ".join(each.type for each in self.parameters)
        return f"<Kernel {self.name}({types}) on {self._module.device}>"

    @property
    def module(self) -> Module:
        """The module that it belongs to."""
        return self._module

    @property
    def resources(self) -> Resources:
        """Registers and bytes of local memory per thread, static shared memory per block.

        On a GPU they are the compiler's figures; local memory holds arrays and spilled registers.
        A simulated GPU runs PTX, which has no spills, and estimates the registers.
        """
        with self._module._lock:
            return Resources(*self._module._core.resources(self.symbol))

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Any,
        shared: int = 0,
        steps: int | None = None,
        time_limit: float | None = None,
    ) -> None:
        """Run the kernel and wait for it.

        Parameters
        ----------
        grid, block : int or tuple of up to 3 ints
            Blocks per grid, threads per block.
        *args
            One argument for each parameter. For 64-bit parameters:

            - a NumPy array: its elements are copied to the device in C order and native byte order,
              and back after the launch unless the array is read-only; an array passed twice is
              copied once;
            - an array on the module's GPU (CuPy, PyTorch, Numba, `gpuopt.asarray`, ...; on a
              simulated GPU `gpuopt.asarray`), C-contiguous and writable: the kernel receives its
              address, after the work queued on the array's stream. Neither its dtype nor its size
              is checked. Its library is notified of the write, for PyTorch's autograd;
            - a `Buffer`, a `Texture`, or an address. On a simulated GPU also those of its other
              modules: they share its memory.

            For other parameters: a number in range; bytes or a NumPy scalar for a structure.
        shared : int
            Bytes of dynamic shared memory per block.
        steps : int, optional
            On a simulated GPU: end the launch after this number of warp instructions. Default:
            2**40.
        time_limit : float, optional
            On a simulated GPU: end the launch after this many seconds of host time; math.inf:
            never. Default: end it when no warp of the grid has ended for 45 s. That ends an endless
            loop within a minute, and no long grid whose warps end one after the other.

        Raises
        ------
        TypeError, ValueError
            The number, type or value of an argument; an array on another device, with gaps, or
            read-only, as JAX's are; a grid, block or `shared` beyond the device's limits; `steps`
            or `time_limit` on a GPU. Nothing was launched.
        SimError, DeviceError
            The kernel failed, or did not end within its limits; NumPy arrays are unchanged.
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
            As for a call, but no NumPy arrays: nothing is copied. An array on the GPU is kept alive
            and keeps its current stream.

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
        bound = self.symbol, launch.grid, launch.block, launch.shared, values, limits
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
            bound = self.symbol, grid, block, shared, tuple(values), limits
            core.launch(bound, *beside(residents))
            results = {}
            for each in arrays:  # fetch all before changing the first
                if each.writable and each.data.nbytes and each.buffer.address not in results:
                    host = each.buffer.get().view(each.data.dtype).reshape(each.data.shape)
                    results[each.buffer.address] = each.array, host
        finally:
            for each in arrays:  # a traceback may keep this frame alive
                each.buffer._free()
        for array, host in results.values():
            array[...] = host

    def _resident(self, i: int, argument: Any) -> Resident | None:
        """Return an array on the module's GPU; None for any other argument."""
        if self.parameters[i].type not in _ADDRESS or isinstance(argument, Buffer | Texture):
            return None
        return resident(argument, f"argument {i + 1}", f"kernel {self.name}: ", self._module.device)

    def _value(self, i: int, argument: Any) -> bytes | None:
        """Return an argument's bytes; None for a NumPy array, which is not copied yet."""
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
        """Copy an array to the device, unless an earlier argument was the same array."""
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
    except RuntimeError:  # unknown overlap
        return True


class Source(Protocol):
    """A source text and the name of its file."""

    name: str
    text: str


class Module:
    """A loaded PTX module: a mapping from names to kernels, ``module["add"]``; see `load_ptx`.

    Attributes
    ----------
    device : str
        The device, "sim:h200" or "cuda:0".
    kernels : list of str
        The names of its kernels.
    source : (name, text) or None
        The source that `gpuopt.compile` compiled.
    log : str
        The compiler's warnings.
    ptx : bytes or None
        Its PTX; None for gpuopt's own kernels.

    Examples
    --------
    >>> import gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> module = gpuopt.load_ptx(ptx, device="sim")
    >>> module.kernels, "k" in module, len(module)
    (['k'], True, 1)
    """

    def __init__(
        self,
        ptx: bytes | None,
        device: str | None,
        image: bytes | None = None,
        symbols: Mapping[str, str] | None = None,
        source: Source | None = None,
        log: str = "",
    ) -> None:
        self._core = _core.Module(image or ptx, device)
        self.device = self._core.device
        self.source, self.log, self.ptx = source, log, ptx
        known = Embedded() if ptx is None else entries(ptx)
        self._symbols = symbols or {}
        self._parameters = (
            {name: known[symbol] for name, symbol in symbols.items()} if symbols else known
        )
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
            The module has no kernel of that name.
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
                sizes = self._core.kernel(self._symbols.get(name, name))
            if sizes != [each.size for each in parameters]:
                raise ptx_error(0, f"kernel {name[:120]!r}: its parameters cannot be read")
            self._checked.add(name)
        return Kernel(self, name, list(parameters), self._symbols.get(name, name))

    def time(
        self, launches: Prepared | Sequence[Prepared], runs: int = 1, how: str = "queue"
    ) -> float:
        """Time launches and copies on a GPU.

        Parameters
        ----------
        launches : Prepared or sequence of Prepared
            Made by `Kernel.bind` and `transfer`. Launches of one stream run in this order, those of
            other streams (`Prepared.on`) concurrently. Several launches with different buffers
            keep the data out of the cache. With arrays of another library, stream 0 is the first
            array's stream, as in a call of a `Kernel`.
        runs : int
            The number of timed rounds, back to back, after one untimed round.
        how : {"queue", "sync", "graph", "host"}
            "queue": back to back, by the GPU's clock. "sync": waiting for each launch, by the
            host's clock. "graph": as one CUDA graph, by the GPU's clock. "host": the host's time to
            enqueue them without waiting (while the driver's queue has room, about a thousand
            launches).

        Returns
        -------
        float
            Seconds per round.

        Raises
        ------
        DeviceError
            The device has no timer: a simulated GPU counts (`gpuopt.profile`), it does not measure.
        ValueError
            An unknown `how`; a stream that is not from 0 to 7; a graph with anything but launches
            on stream 0.

        Notes
        -----
        The results are not checked: verify them before.
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
        """Bind an asynchronous copy, to be timed by `time`.

        Parameters
        ----------
        to, source : Buffer or numpy.ndarray
            Both of the same number of bytes; arrays must be contiguous and should be `pinned`:
            other arrays pass through a buffer of the driver.

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
        """Allocate an array in pinned (page-locked) host memory; its elements are undefined.

        A GPU accesses such memory directly, at the full bandwidth of its link. The memory is freed
        with the array and its views.

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
            The host cannot pin more memory.
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
        """Create a texture object from an array's elements.

        Parameters
        ----------
        array : array_like
            The shape is (width,), for ``tex1Dfetch`` or ``tex1D``; (height, width), for ``tex2D``;
            or (depth, height, width), for ``tex3D``. The dtype is float32, int32, uint32, or uint8,
            which is read as floats from 0 to 1.
        channels : {1, 2, 4}
            Channels per texel; if more than 1, they are the array's last axis.
        linear_memory : bool, optional
            For one dimension: use linear memory, which ``tex1Dfetch`` reads by integer index, or a
            CUDA array, for ``tex1D``. Default: linear memory unless one of the following is set.
        linear_filter : bool
            Interpolate between the two, four or eight texels around a point, with weights of 8
            fractional bits; else read the nearest.
        wrap : bool
            Wrap coordinates outside the array around; else clamp them to the edge.
        normalised : bool
            Coordinates range from 0 to 1 over the array, not over its texels.

        Returns
        -------
        Texture
            A copy of the array, freed with the object. A simulated GPU reports a fetch whose kind
            differs from the texture's.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or sampling that textures do not support.
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
        """Use a caller's CUDA stream from now on, for launches, copies and timings.

        A launch with arrays of another library (see `Kernel`) uses their stream instead, after the
        work queued on this one.

        Parameters
        ----------
        stream : stream or int
            A stream of CuPy, PyTorch or Numba, or any object with CUDA Python's
            ``__cuda_stream__()``; the module and its pinned memory keep it alive. Or a
            ``cudaStream_t`` as an integer, which the caller keeps alive: 1 is the legacy default
            stream, 2 the thread's; 0 restores the module's own stream.

        Raises
        ------
        ValueError
            It is a stream of another GPU.
        TypeError
            It is not a stream.
        DeviceError
            The device is no GPU.
        """
        number, kept = stream_of(stream, self.device)
        with self._lock:
            self._core.adopt(number, kept)

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


def load_ptx(text_or_path: str | bytes | os.PathLike[str], device: str | None = None) -> Module:
    """Load CUDA kernels from PTX, for a GPU or a simulated GPU.

    ``nvcc -ptx -lineinfo -arch=compute_75 file.cu`` makes PTX for both; `gpuopt.compile` compiles
    CUDA C++ by itself. The simulated GPU checks
    and counts kernels (`gpuopt.check`, `gpuopt.profile`) on a machine without a GPU.

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
        The PTX is malformed, or the device lacks a feature that it uses, at `line` and `column` (0:
        unknown). The simulated GPU parses a kernel at its first access.
    ValueError
        An unknown device, or one without kernels ("cpu").
    OSError
        The file cannot be read.

    Notes
    -----
    NumPy arrays are copied to the device and back for each launch; `Module.copy` makes a `Buffer`
    that stays there, and arrays of CuPy, PyTorch and others on the GPU are used in place. A data
    race gives undefined results on hardware; the simulated GPU raises `SimError` instead.

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
        raise ptx_error(0, "this is CUDA C++, not PTX: pass it to gpuopt.compile")
    return Module(ptx, device)
