"""Users' CUDA kernels from PTX: loading, timing, memory, textures and streams."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gpuopt import _core
from gpuopt.ptx.buffers import (
    TIMES,
    Buffer,
    Memory,
    Prepared,
    beside,
    is_ours,
    pinned,
    span,
    stream_of,
)
from gpuopt.ptx.entries import ONLY_ASCII, Embedded, entries, ptx_error
from gpuopt.ptx.kernel import Kernel
from gpuopt.ptx.names import distinct_names, find
from gpuopt.ptx.textures import Texture, texture_plan
from gpuopt.ptx.variable import Variable, dtype_of
from gpuopt.util.literals import DeviceName
from gpuopt.util.names import nearest, suggests


class SourceText(Protocol):
    """A source text and the name of its file."""

    name: str
    text: str


class Module(Memory):
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
        source: SourceText | None = None,
        log: str = "",
    ) -> None:
        super().__init__(_core.Module(image or ptx, device))
        self.source, self.log, self.ptx = source, log, ptx
        known = Embedded() if ptx is None else entries(ptx)
        self._symbols = symbols or {}
        self._parameters = (
            {name: known[symbol] for name, symbol in symbols.items()} if symbols else known
        )
        self._checked: set[str] = set()

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        return list(self._parameters)

    def __contains__(self, name: object) -> bool:
        return name in self._parameters or (isinstance(name, str) and len(self._found(name)) == 1)

    def _found(self, name: str) -> list[str]:
        """Return the kernels whose C++ name is this one."""
        return find(name, self._parameters) if isinstance(name, str) else []

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __repr__(self) -> str:
        return f"<Module of {len(self)} kernels on {self.device}>"

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel.

        Parameters
        ----------
        name : str
            Its symbol, or a C++ kernel's name as the source has it: ``module["reduce0"]`` if there
            is one of that name, ``module["reduce0<float>"]`` for an instance of a template,
            ``module["scale(float*)"]`` for an overload.

        Raises
        ------
        KeyError
            The module has no kernel of that name, or several.
        PTXError
            The simulated GPU lacks one of its instructions.
        """
        if name not in self._parameters:
            found = self._found(name)
            if len(found) != 1:
                listed = found or self.kernels
                known = ", ".join(map(repr, distinct_names(listed[:20]))) or "none"
                more = f" and {len(listed) - 20} more" if len(listed) > 20 else ""
                problem = "stands for several kernels" if found else "is not a kernel"
                hint = "" if found else nearest(name, self.kernels)
                raise KeyError(
                    f"{name!r:.120} {problem} of this module; it has {known}{more}{hint}"
                )
            name = found[0]
        parameters = self._parameters[name]
        if name not in self._checked:
            with self._lock:
                sizes = self._core.kernel(self._symbols.get(name, name))
            if sizes != [each.size for each in parameters]:
                raise ptx_error(0, f"kernel {name[:120]!r}: its parameters cannot be read")
            self._checked.add(name)
        return Kernel(self, name, list(parameters), self._symbols.get(name, name))

    def variable(self, name: str, dtype: DTypeLike | None = None) -> Variable:
        """Return a ``__device__`` or ``__constant__`` variable, to be read and set.

        Parameters
        ----------
        name : str
            Its symbol, or its C++ name if there is one such variable.
        dtype : dtype, optional
            The type of its elements. Default: that by which the kernels access it, if they agree;
            else uint8.

        Returns
        -------
        Variable

        Raises
        ------
        ValueError
            The module has no such variable, or its size is no multiple of the dtype's.

        Examples
        --------
        >>> import gpuopt
        >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .global .u32 n = 3;"
        >>> gpuopt.load_ptx(ptx, device="sim").variable("n", "u4")[0]
        np.uint32(3)
        """
        symbols = re.findall(
            rb"\.(?:global|const)\b[^;={(]*?([\w$]+)\s*(?:\[[^\]]*\]\s*)*(?:=|;)", self.ptx or b""
        )
        known = [each.decode("ascii") for each in symbols]
        found = find(name, known) if name not in known else [name]
        symbol = found[0] if len(found) == 1 else name
        with self._lock:
            address, nbytes = self._core.variable(symbol)
        kind = dtype_of(self.ptx, symbol, nbytes) if dtype is None else np.dtype(dtype)
        if kind.hasobject or not kind.itemsize or nbytes % kind.itemsize:
            raise ValueError(f"dtype: {name} has {nbytes} bytes, no multiple of {kind}'s")
        return Variable(self, name, address, nbytes, kind)

    @suggests
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
        with the array and its views. On a simulated GPU it is the host's memory, from which
        `gpuopt.copy_async` copies asynchronously.

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
        """
        with self._lock:
            return pinned(self._core, shape, dtype)

    @suggests
    def texture(
        self,
        array: ArrayLike,
        *,
        channels: int = 1,
        layered: bool = False,
        cube: bool = False,
        mipmaps: Sequence[ArrayLike] = (),
        linear_memory: bool | None = None,
        linear_filter: bool = False,
        linear_mipmaps: bool = False,
        mipmap_bias: float = 0.0,
        boundary: str = "clamp",
        border: float | Sequence[float] = 0.0,
        wrap: bool = False,
        normalised: bool = False,
        as_integers: bool = False,
        writable: bool = False,
    ) -> Texture:
        """Create a texture object, and if it is writable a surface, from an array's elements.

        Parameters
        ----------
        array : array_like
            The shape is (width,), for ``tex1Dfetch`` or ``tex1D``; (height, width), for ``tex2D``
            and ``tex2Dgather``; or (depth, height, width), for ``tex3D``. The dtype is float32,
            float16, int32, uint32, or an integer of 8 or 16 bits, which is read as a float from 0
            to 1 (unsigned) or -1 to 1.
        channels : {1, 2, 4}
            Channels per texel; if more than 1, they are the array's last axis.
        layered : bool
            The first axis counts layers, for ``tex1DLayered`` and ``tex2DLayered``. A layer beyond
            the last means the last; so does a negative one, as the hardware's index is unsigned.
        cube : bool
            Six faces of shape (n, n), in the order +x, -x, +y, -y, +z, -z, for ``texCubemap``; with
            `layered` (cubes, 6, n, n), for ``texCubemapLayered``.
        mipmaps : sequence of array_like
            The levels after the first, for ``tex2DLod`` and the like: each has half the extents of
            the one before, rounded down, at least 1.
        linear_memory : bool, optional
            For one dimension: use linear memory, which ``tex1Dfetch`` reads by integer index, or a
            CUDA array, for ``tex1D``. Default: linear memory unless one of the following is set.
        linear_filter : bool
            Interpolate between the two, four or eight texels around a point, with weights of 8
            fractional bits; else read the nearest.
        linear_mipmaps : bool
            Interpolate between two levels; else read the nearest.
        mipmap_bias : float
            Added to the level of a fetch that has one, or gradients; above -16 and below 16.
        boundary : {"clamp", "wrap", "mirror", "border"}
            Coordinates outside the array: clamped to the edge, wrapped around, mirrored, or given
            the color `border`.
        border : float or sequence of 4 floats
        wrap : bool
            The same as ``boundary="wrap"``.
        normalised : bool
            Coordinates range from 0 to 1 over the array, not over its texels.
        as_integers : bool
            Read integers of 8 and 16 bits as integers.
        writable : bool
            Make a surface as well, `Texture.surface`, for ``surf2Dwrite`` and the like;
            `Texture.get` copies the texels back. A surface counts x in bytes.

        Returns
        -------
        Texture
            A copy of the array, freed with the object. A simulated GPU reports a fetch whose kind
            differs from the texture's, and a surface's access outside of it. Its cubes have no
            seamless edges, as CUDA's by default.

        Raises
        ------
        TypeError, ValueError
            A dtype, shape or sampling that textures do not support.
        DeviceMemoryError
            The device is out of memory.
        """
        if linear_memory is not None:
            linear_memory = bool(linear_memory)
        plan = texture_plan(
            array,
            channels=channels,
            layered=bool(layered),
            cube=bool(cube),
            mipmaps=mipmaps,
            linear_memory=linear_memory,
            border=border,
            boundary="wrap" if wrap else boundary,
            linear_filter=bool(linear_filter),
            linear_mipmaps=bool(linear_mipmaps),
            mipmap_bias=float(mipmap_bias),
            normalised=bool(normalised),
            as_integers=bool(as_integers),
            writable=bool(writable),
        )
        buffer = self.copy(plan.texels)
        with self._lock:
            return Texture(self._core, plan, buffer)

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


@suggests
def load_ptx(
    text_or_path: str | bytes | os.PathLike[str], device: DeviceName | str | None = None
) -> Module:
    """Load CUDA kernels from PTX, for a GPU or a simulated GPU.

    ``nvcc -ptx -lineinfo -arch=compute_75 file.cu`` makes PTX for both; `gpuopt.compile` compiles
    CUDA C++ by itself. The simulated GPU checks and counts kernels (`gpuopt.check`,
    `gpuopt.profile`) on a machine without a GPU.

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
