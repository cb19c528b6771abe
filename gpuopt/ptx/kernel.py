"""A kernel of a user's module: its launch with arguments from the host and from the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from gpuopt import _core
from gpuopt.arrays.inout import is_masked
from gpuopt.ptx.accesses import disagreement, of_parameter
from gpuopt.ptx.arguments import (
    ADDRESS,
    Limits,
    accepted,
    describe,
    dimensions,
    flags_of,
    limits_of,
    scalar,
)
from gpuopt.ptx.buffers import Buffer, Memory, Prepared, Resident, beside, resident
from gpuopt.ptx.described import Described, described
from gpuopt.ptx.entries import Parameter
from gpuopt.ptx.names import short_name
from gpuopt.ptx.streams import Stream, drain, stream_on
from gpuopt.ptx.textures import Surface, Texture
from gpuopt.util import public, texts
from gpuopt.util.names import suggests


class _Launch(NamedTuple):
    """A launch whose arguments were checked."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    limits: Limits
    values: list[bytes | None]  # None: a host array that is not copied yet
    arrays: list[Resident]  # the arrays on the GPU
    flags: int  # device.h's

    def bound(self, name: str, copies: tuple[Described, ...] = ()) -> tuple[Any, ...]:
        """Return the launch in the form of `_core`."""
        here = tuple(each.described for each in self.arrays if each.described)
        limits = (*self.limits, self.flags)
        values = tuple(self.values)
        return name, self.grid, self.block, self.shared, values, limits, here + copies


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


def resources(symbol: str, device: str) -> Resources:
    """Return the resources of one of gpuopt's own kernels: see `Kernel.resources`."""
    return Resources(*_core.Module(None, device).resources(symbol))


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
        self, module: Memory, name: str, parameters: list[Parameter], symbol: str | None = None
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.symbol = symbol or name
        self._title = short_name(name)
        self._module = module
        self._accesses: dict[int, Any] = {}

    def __repr__(self) -> str:
        types = ", ".join(each.type for each in self.parameters)
        return f"<Kernel {self._title}({types}) on {self._module.device}>"

    @property
    def module(self) -> Any:
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

    def explain(
        self, grid: int | tuple[int, ...], block: int | tuple[int, ...], *args: Any, **keywords: Any
    ) -> Any:
        """Find mistakes, and reasons why the kernel is slow, by `gpuopt.explain`.

        Parameters
        ----------
        grid, block, *args, **keywords
            As for a call.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> import gpuopt
        >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
        >>> gpuopt.load_ptx(ptx, device="sim")["k"].explain(1, 32).ok
        True
        """
        return public.named("explain")(self, grid, block, *args, **keywords)

    @suggests
    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Any,
        shared: int = 0,
        steps: int | None = None,
        time_limit: float | None = None,
        stream: Stream | None = None,
        check: bool = True,
        cooperative: bool = False,
        allow_equal_stores: bool = False,
        prefer_l1: bool = False,
        any_dtype: bool = False,
        schedule: int | Sequence[Any] | Any = None,
    ) -> None:
        """Run the kernel and wait for it, or enqueue it on a stream.

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
            - a `Buffer`, a `Texture`, a `Surface`, or an address. On a simulated GPU also those of
              its other modules: they share its memory.

            For other parameters: a number in range; bytes or a NumPy scalar for a structure.
        shared : int
            Bytes of dynamic shared memory per block.
        steps : int, optional
            On a simulated GPU: end the launch after this number of warp instructions. Default:
            2**40.
        time_limit : float, optional
            On a simulated GPU: end the launch after this many seconds of host time; math.inf:
            never. Default: end it when no warp of the grid has ended for 45 s, or for 3 s after one
            error was found 10,000 times. That ends an endless loop within a minute, and no long
            grid whose warps end one after the other.
        stream : Stream, optional
            On a simulated GPU: return at once, and run after the stream's earlier work. The
            arguments are then no NumPy arrays. Without it, all streams' work comes first.
        check : bool
            On a simulated GPU, False leaves out the search for races and uninitialized values,
            which makes a launch two to three times as fast. Other errors are found as ever.
        cooperative : bool
            Launch all blocks at once, so that the kernel may wait for its whole grid
            (``cooperative_groups::this_grid().sync()``).
        allow_equal_stores : bool
            On a simulated GPU: a store of the value that memory holds already is no race. Without
            it only values that are equal by construction are excused, as in ``done = 1``: data may
            differ in the next run.
        prefer_l1 : bool
            On a simulated Fermi or Kepler ("sim:m2090", "sim:k40"): of the 64 KB of a
            multiprocessor 16 KB are shared memory, and 48 KB the first cache, instead of the
            reverse. It bounds the block and the occupancy; the first cache is not simulated.
        any_dtype : bool
            Accept an array whose element size differs from that of every access of the kernel.
        schedule : int, Order or list, optional
            On a simulated GPU: run warps and blocks in the random order of this seed (1, 2, ...),
            on one host thread. A kernel whose result depends on the order shows it. The order is
            the same in every run. An `Order` (see `gpuopt.shortest_order`) or a list of delays
            ``(block, warp, access)`` is run as given; ``[]`` runs each warp until it waits.

        Raises
        ------
        TypeError, ValueError
            The number, type or value of an argument; an array on another device, with gaps, or
            read-only, as JAX's are; a grid, block or `shared` beyond the device's limits; `steps`
            or `time_limit` on a GPU. Nothing was launched.
        UnfitError
            The GPU lacks the resources for a block, or for all blocks of a cooperative launch.
        SimError, DeviceError
            The kernel failed, or did not end within its limits; NumPy arrays are unchanged.
        """
        limits = limits_of(steps, time_limit, check, self._module.device, schedule)
        if stream is not None:
            on = stream_on(stream, self._module.device)
            options = {"shared": shared, "steps": steps, "time_limit": time_limit, "check": check}
            options |= {"allow_equal_stores": allow_equal_stores, "cooperative": cooperative}
            options["prefer_l1"] = prefer_l1
            options["schedule"] = schedule
            if not any_dtype:
                self._check_dtypes(args)
            prepared = self.bind(grid, block, *args, **options)
            on._enqueue(f"kernel {self._title}", lambda: self._launch(prepared), "kernel")
            return
        drain(self._module.device)
        flags = flags_of(
            self._module.device, cooperative=cooperative, allow_equal_stores=allow_equal_stores,
            prefer_l1=prefer_l1,
        )  # fmt: skip
        if not any_dtype:
            self._check_dtypes(args)
        with self._module._lock:
            self._run(self._checked(grid, block, shared, limits, flags, args), args)

    def _checked(
        self,
        grid: Any,
        block: Any,
        shared: Any,
        limits: Limits,
        flags: int,
        args: tuple[Any, ...],
    ) -> _Launch:
        """Check a launch's extents and arguments."""
        sizes = (
            dimensions(grid, "grid", (2**31 - 1, 65535, 65535)),
            dimensions(block, "block", (1024, 1024, 64)),
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
                f"kernel {self._title} has {len(self.parameters)} parameters ({types}), but "
                f"{len(args)} arguments were given"
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
        return _Launch(*sizes, shared, limits, values, arrays, flags)

    @suggests
    def bind(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *args: Any,
        shared: int = 0,
        steps: int | None = None,
        time_limit: float | None = None,
        check: bool = True,
        allow_equal_stores: bool = False,
        cooperative: bool = False,
        prefer_l1: bool = False,
        schedule: int | Sequence[Any] | Any = None,
    ) -> Prepared:
        """Check a launch and keep it, to be timed by `Module.time`.

        Parameters
        ----------
        grid, block, shared, steps, time_limit, check, cooperative,
        allow_equal_stores, prefer_l1, schedule
            As for a call.
        *args
            As for a call, but no NumPy arrays: nothing is copied. An array on the GPU is kept alive
            and keeps its current stream.

        Returns
        -------
        Prepared
        """
        limits = limits_of(steps, time_limit, check, self._module.device, schedule)
        flags = flags_of(
            self._module.device, cooperative=cooperative, allow_equal_stores=allow_equal_stores,
            prefer_l1=prefer_l1,
        )  # fmt: skip
        launch = self._checked(grid, block, shared, limits, flags, args)
        for i, value in enumerate(launch.values):
            if value is None:
                raise TypeError(
                    f"kernel {self._title}: argument {i + 1} is an array of NumPy, which a launch "
                    "that is bound or on a stream does not copy; pass a Buffer, made by the "
                    "module's copy()"
                )
        keep = tuple(each for each in args if isinstance(each, Buffer | Texture | Surface))
        return Prepared(launch.bound(self.symbol), keep, tuple(launch.arrays))

    def _launch(self, prepared: Prepared) -> None:
        """Run a launch that waited on a stream; it keeps its arguments alive."""
        with self._module._lock:
            for each in prepared.arrays:
                each.writes()
            self._module._core.launch(prepared.launch, *beside(list(prepared.arrays)))

    def _run(self, launch: _Launch, args: tuple[Any, ...]) -> None:
        core, values, residents = self._module._core, launch.values, launch.arrays
        arrays: list[_Argument] = []
        try:
            for i, argument in enumerate(args):
                if values[i] is None:
                    arrays.append(self._array(i, argument, arrays))
                    values[i] = arrays[-1].buffer.address.to_bytes(8, "little")
            for each in residents:
                each.writes()
            copies = tuple(
                described(each.number - 1, each.data, each.data.dtype, True) for each in arrays
            )
            bound = launch.bound(self.symbol, copies)
            source = self._module.source
            told = (source.name, source.text) if source else None
            with texts.launching(told, getattr(self._module, "ptx", None)):
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

    def _check_dtypes(self, args: tuple[Any, ...]) -> None:
        """Refuse an array whose element size no access of the kernel has."""
        ptx = getattr(self._module, "ptx", None)
        for i, argument in enumerate(args[: len(self.parameters)]) if ptx else ():
            used = isinstance(argument, np.ndarray) and argument.size
            if not used or self.parameters[i].type not in ADDRESS:
                continue
            if i not in self._accesses:
                self._accesses[i] = of_parameter(ptx, self.symbol, i)
            problem = disagreement(self._accesses[i], argument.dtype)
            if problem:
                raise TypeError(
                    f"kernel {self._title}: argument {i + 1} is an array of {argument.dtype}, but "
                    f"the kernel accesses it as {problem}; pass a copy of that type (astype), or "
                    "any_dtype=True"
                )

    def _resident(self, i: int, argument: Any) -> Resident | None:
        """Return an array on the module's GPU; None for any other argument."""
        if self.parameters[i].type not in ADDRESS or isinstance(
            argument, Buffer | Texture | Surface
        ):
            return None
        prefix = f"kernel {self._title}: "
        return resident(argument, f"argument {i + 1}", prefix, self._module.device, i)

    def _value(self, i: int, argument: Any) -> bytes | None:
        """Return an argument's bytes; None for a NumPy array, which is not copied yet."""
        parameter = self.parameters[i]
        address = parameter.type in ADDRESS
        if isinstance(argument, Buffer) and address:
            if not self._module._reaches(argument._core):
                raise ValueError(
                    f"kernel {self._title}: argument {i + 1} is a Buffer of another module; "
                    f"make it with this one's copy()"
                )
            return argument.address.to_bytes(8, "little")
        if isinstance(argument, Texture | Surface) and address:
            if not self._module._reaches(argument._core):
                raise ValueError(
                    f"kernel {self._title}: argument {i + 1} is a {type(argument).__name__} of "
                    f"another module; make it with this one's texture()"
                )
            return argument.handle.to_bytes(8, "little")
        if isinstance(argument, np.ndarray) and address:
            if is_masked(argument):
                raise TypeError(
                    f"kernel {self._title}: argument {i + 1} is a masked array, which kernels do "
                    f"not know; pass .filled() or .data"
                )
            if argument.dtype.hasobject:
                raise TypeError(
                    f"kernel {self._title}: argument {i + 1} is an array of Python objects; "
                    f"convert it to a number's dtype"
                )
            return None
        try:
            value = scalar(argument, parameter)
        except ValueError as error:
            raise ValueError(f"kernel {self._title}: argument {i + 1}: {error}") from None
        if value is None:
            raise TypeError(
                f"kernel {self._title}: argument {i + 1} is {describe(argument)}; parameter "
                f"{parameter.type} takes {accepted(parameter)}"
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
                    f"kernel {self._title}: arguments {other.number} and {i + 1} are different "
                    f"views of the same memory; pass a copy of one"
                )
        native = array.dtype.newbyteorder("=")
        data = np.asarray(array).astype(native, order="C", copy=False)
        return _Argument(i + 1, array, data, self._module.copy(data), array.flags.writeable)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=100_000)
    except RuntimeError:  # unknown overlap
        return True
