"""Texture and surface objects: their texels, sampling, and lifetime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpuopt import _core

# device.h's numbers
_TEXELS = {
    np.dtype(name): i for i, name in enumerate(("f4", "i4", "u4", "u1", "i1", "u2", "i2", "f2"))
}
BIAS_BEYOND = 16  # levels: the hardware's field has 4 bits of them, and a sign
BOUNDARIES = ("wrap", "clamp", "mirror", "border")


class Sampling(NamedTuple):
    """How a texture is fetched."""

    boundary: str = "clamp"
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    linear_filter: bool = False
    linear_mipmaps: bool = False
    normalised: bool = False
    as_integers: bool = False
    writable: bool = False
    mipmap_bias: float = 0.0


class TexturePlan(NamedTuple):
    """The contents and the sampling of a texture."""

    texels: np.ndarray  # all levels, one after the other
    dimensions: int  # 0: linear memory
    extents: tuple[int, ...]  # width first
    layers: int
    levels: int
    channels: int
    layered: bool
    cube: bool
    sampling: Sampling
    shape: tuple[int, ...]  # of the first level

    def arguments(self) -> tuple[Any, ...]:
        """Return what `_core.Module.texture` receives after the address."""
        how = self.sampling
        return (
            self.dimensions,
            *self.extents,
            *(1,) * (3 - len(self.extents)),
            self.layers,
            self.levels,
            self.channels,
            _TEXELS[self.texels.dtype],
            BOUNDARIES.index(how.boundary),
            how.border,
            how.mipmap_bias,
            self.layered,
            self.cube,
            *how[2:-1],
        )


class Texture:
    """A texture object: an argument for a kernel's `cudaTextureObject_t`; see `Module.texture`.

    Attributes
    ----------
    handle : int
        The value that the kernel receives.
    surface : Surface or None
        The argument for a kernel's `cudaSurfaceObject_t`, if the texture is writable.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> ptx = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"
    >>> module = gpuopt.load_ptx(ptx, device="sim")
    >>> texture = module.texture(np.arange(8, dtype=np.float32))
    >>> isinstance(texture.handle, int)
    True
    """

    def __init__(self, core: _core.Module, plan: TexturePlan, buffer: Any) -> None:
        self._core = core
        self._buffer = None if plan.dimensions else buffer  # linear memory is read in place
        self._shape, self._dtype, self._array = plan.shape, plan.texels.dtype, plan.dimensions > 0
        self._text = f"{' x '.join(map(str, plan.extents))} texels"
        self.handle, surface = core.texture(buffer.address, *plan.arguments())
        self.surface = Surface(self, surface) if surface else None

    def get(self) -> np.ndarray:
        """Copy the texels, without further mipmap levels, to a NumPy array.

        Returns
        -------
        numpy.ndarray
            The shape and dtype are those that the texture was made from.

        Raises
        ------
        ValueError
            The texture reads linear memory, which no kernel can write through it.
        """
        if not self._array:
            raise ValueError("get: the texture reads linear memory; use a Buffer to read it back")
        out = np.empty(self._shape, self._dtype)
        self._core.texture_read(self.handle, out)
        return out

    def __del__(self) -> None:
        if self.__dict__.get("handle"):
            self._core.free(self.handle)

    def __repr__(self) -> str:
        return f"<Texture of {self._text} on {self._core.device}>"


class Surface:
    """A surface object over a writable texture's texels: an argument for `cudaSurfaceObject_t`.

    Attributes
    ----------
    handle : int
        The value that the kernel receives.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> module = gpuopt.load_ptx('''
    ... .version 8.0
    ... .target sm_75
    ... .address_size 64
    ... .visible .entry fill(.param .u64 s)
    ... {
    ...     .reg .b32 %r<3>; .reg .b64 %x;
    ...     ld.param.u64 %x, [s];
    ...     mov.u32 %r0, %tid.x;
    ...     shl.b32 %r1, %r0, 2;
    ...     sust.b.1d.b32.trap [%x, {%r1}], {%r0};
    ...     ret;
    ... }''', device="sim")
    >>> texture = module.texture(np.zeros(4, np.int32), writable=True)
    >>> module["fill"](1, 4, texture.surface)
    >>> texture.get()
    array([0, 1, 2, 3], dtype=int32)
    """

    def __init__(self, texture: Texture, handle: int) -> None:
        # Not the texture, which owns this object: a circle would keep both alive.
        self._core, self._text, self.handle = texture._core, texture._text, handle

    def __repr__(self) -> str:
        return f"<Surface of {self._text} on {self._core.device}>"


def _levels(array: ArrayLike, mipmaps: Sequence[ArrayLike]) -> list[np.ndarray]:
    levels = []
    for each in (array, *mipmaps):
        data = np.asarray(each)
        data = np.ascontiguousarray(data, data.dtype.newbyteorder("="))
        if data.dtype not in _TEXELS:
            raise TypeError(
                "array: a texture has texels of float32, float16, or integers of 8, 16 or 32 bits, "
                f"not {data.dtype}"
            )
        if levels and data.dtype != levels[0].dtype:
            raise TypeError(f"mipmaps: has texels of {data.dtype}, the array of {levels[0].dtype}")
        levels.append(data)
    return levels


def _extents(shape: tuple[int, ...], channels: int, layered: bool, cube: bool) -> tuple[int, ...]:
    """Return width, height and depth of texels that have this shape."""
    forms = {
        (False, False): "(width,), (height, width) or (depth, height, width)",
        (True, False): "(layers, width) or (layers, height, width)",
        (False, True): "(6, n, n)",
        (True, True): "(cubes, 6, n, n)",
    }
    texels = shape if channels == 1 else shape[:-1]
    extents = texels[layered + cube :]
    fits = len(extents) == 2 if cube else 1 <= len(extents) <= 3 - layered
    if cube:
        fits = fits and texels[int(layered)] == 6 and extents[0] == extents[1]
    if not fits or (channels > 1 and shape[-1:] != (channels,)):
        raise ValueError(
            f"array: of shape {shape} with {channels} channels; give {forms[layered, cube]}"
            f"{', channels last' if channels > 1 else ''}"
        )
    if 0 in shape or max(extents) >= 1 << 31:
        raise ValueError(f"array: a texture cannot have the shape {shape}")
    return extents[::-1]


def _check_sampling(how: Sampling, dtype: np.dtype, levels: int, linear_memory: bool) -> None:
    if linear_memory and how != Sampling(as_integers=how.as_integers):
        raise ValueError(
            "linear_memory: is read by integer index alone, without filter, wrap, other "
            "boundaries, mipmaps, surfaces or normalised coordinates; leave it out"
        )
    if how.boundary in ("wrap", "mirror") and not how.normalised:
        raise ValueError(f"{how.boundary}: needs normalised=True; other coordinates are clamped")
    if any(how.border) and how.boundary != "border":
        raise ValueError('border: needs boundary="border"')
    if how.linear_filter and (how.as_integers or dtype.name in ("int32", "uint32")):
        raise ValueError(
            "linear_filter: integers are not filtered; give float32, float16, or uint8 and the "
            "like without as_integers"
        )
    if how.as_integers and dtype.kind == "f":
        raise ValueError(f"as_integers: the texels are {dtype}, no integers")
    if levels > 1 and not how.normalised:
        raise ValueError("mipmaps: need normalised=True")
    if how.linear_mipmaps and levels == 1:
        raise ValueError("linear_mipmaps: there are no mipmaps; give `mipmaps`")
    if how.mipmap_bias and (levels == 1 or not abs(how.mipmap_bias) < BIAS_BEYOND):
        raise ValueError(
            f"mipmap_bias: {how.mipmap_bias} needs mipmaps, and to lie between -{BIAS_BEYOND} and "
            f"{BIAS_BEYOND}"
        )


def _border(border: float | Sequence[float]) -> tuple[float, float, float, float]:
    color = np.asarray(border, np.float64)
    if color.shape not in ((), (4,)):
        raise ValueError(f"border: must be one number or four, not of shape {color.shape}")
    first, second, third, fourth = (float(c) for c in np.broadcast_to(color, 4))
    return first, second, third, fourth


def texture_plan(
    array: ArrayLike,
    *,
    channels: int,
    layered: bool,
    cube: bool,
    mipmaps: Sequence[ArrayLike],
    linear_memory: bool | None,
    border: float | Sequence[float],
    **sampling: Any,
) -> TexturePlan:
    """Check the arguments of `Module.texture`."""
    levels = _levels(array, mipmaps)
    if index(channels) not in (1, 2, 4):
        raise ValueError(f"channels: {channels} is not 1, 2 or 4")
    if sampling["boundary"] not in BOUNDARIES:
        raise ValueError(
            f"boundary: {sampling['boundary']!r:.40} is not one of "
            f"{', '.join(map(repr, sorted(BOUNDARIES)))}"
        )
    how = Sampling(border=_border(border), **sampling)
    shape = levels[0].shape
    extents = _extents(shape, channels, layered, cube)
    arrays = layered or cube or len(extents) > 1
    if linear_memory is None:
        linear_memory = not arrays and how == Sampling(as_integers=how.as_integers)
    if linear_memory and arrays:
        raise ValueError("linear_memory: has one dimension; leave it out")
    _check_sampling(how, levels[0].dtype, len(levels), linear_memory)
    before = shape[: layered + cube]
    for i, level in enumerate(levels):
        halved = tuple(max(1, extent >> i) for extent in extents)
        want = before + halved[::-1] + (() if channels == 1 else (channels,))
        if level.shape != want or (i and max(extents) >> i == 0):
            raise ValueError(
                f"mipmaps: level {i} has the shape {level.shape}; each level halves the extents of "
                f"the one before, down to 1: {want}"
            )
    texels = levels[0] if len(levels) == 1 else np.concatenate([level.ravel() for level in levels])
    dimensions = 0 if linear_memory else len(extents)
    layers = math.prod(before)
    return TexturePlan(
        texels, dimensions, extents, layers, len(levels), channels, layered, cube, how, shape
    )
