"""Stencils of dtypes without kernels, in a wider dtype, one of the same bits, or by both parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpuopt.arrays.device_array import DeviceArray, make
from gpuopt.arrays.inout import check_out
from gpuopt.arrays.libraries import View
from gpuopt.families.device_calls import asarray, target_of
from gpuopt.families.reduce import reduce

_WIDER = {
    "bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
    "float16": "float32",
}  # fmt: skip
# How rung 5 reads and stores them itself, as in stencil1d_plan.cuh.
NARROW = {"int8": 7, "uint8": 3, "int16": 5, "uint16": 1, "float16": 1}
_SAME_BITS = {"uint32": "int32", "uint64": "int64"}
_PARTS = {"complex64": "float32", "complex128": "float64"}
_SHORT = 1 << 14  # bytes of complex arrays whose parts are computed together
CARRIED = (*_WIDER, *_SAME_BITS, *_PARTS)


class Carrier(NamedTuple):
    """The dtype in which a stencil is computed, whether it has the same bits, and cval in it."""

    dtype: np.dtype
    same_bits: bool
    cval: Any


def is_carried(dtype: np.dtype) -> bool:
    """Return whether a dtype is computed in another one."""
    return dtype.kind in "biufc" and dtype.newbyteorder("=").name in CARRIED


def carrier_of(dtype: np.dtype, weights: Any, cval: Any) -> Carrier:
    """Return how a dtype is computed; `weights` is an array or None."""
    name = dtype.newbyteorder("=").name
    if name in _PARTS:
        return Carrier(np.dtype(_PARTS[name]), True, cval)
    if name in _WIDER:
        return Carrier(np.dtype(_WIDER[name]), False, cval)
    carrier, most = np.dtype(_SAME_BITS[name]), np.iinfo(name).max
    whole = weights is None or weights.dtype.kind in "biu"
    number = isinstance(cval, int) or (
        isinstance(cval, (float, np.number)) and bool(np.isfinite(cval))
    )
    if whole and number and np.iinfo(carrier).min <= cval <= most and int(cval) == cval:
        return Carrier(carrier, True, int(cval) - (most + 1 if cval > most // 2 else 0))
    # Other weights are applied in float64; those of int64 are truncated there, too.
    return Carrier(np.dtype(np.int64 if name == "uint32" else np.float64), False, cval)


def on_host(
    stencil: Callable[..., Any],
    a: np.ndarray,
    weights: Any,
    cval: Any,
    axis: int,
    out: Any,
    **how: Any,
) -> np.ndarray:
    """Run a stencil on a host array of a carried dtype."""
    dtype = np.dtype(a.dtype.newbyteorder("=").name)
    carrier, same_bits, beyond = carrier_of(dtype, weights, cval)
    how["weights"] = weights
    alike = how["mode"] != "constant" or (not isinstance(cval, complex) and cval == 0)
    if dtype.kind == "c" and alike and (axis < a.ndim - 1 or a.nbytes <= _SHORT):
        both = np.ascontiguousarray(a, dtype).view(carrier).reshape(*a.shape, 2)
        wide = stencil(both, axis=axis, cval=0, **how)
        found = wide.view(dtype).reshape(wide.shape[:-1])
    elif dtype.kind == "c":
        parts = zip((a.real, a.imag), _parts_of(cval), strict=True)
        real, imag = (stencil(part, cval=c, axis=axis, **how) for part, c in parts)
        found = np.empty(real.shape, dtype)
        found.real, found.imag = real, imag
    elif same_bits:
        bits = a.astype(dtype, copy=False).view(carrier)
        found = stencil(bits, cval=beyond, axis=axis, **how).view(dtype)
    else:
        wide = stencil(a.astype(carrier), cval=beyond, axis=axis, **how)
        with np.errstate(invalid="ignore", over="ignore"):
            found = wide.astype(dtype)
    if out is None:
        return found
    check_out(out, found.shape, dtype)
    with np.errstate(all="ignore"):
        np.copyto(out, found, casting="same_kind")
    return out


def _parts_of(cval: Any) -> tuple[Any, Any]:
    return (cval.real, cval.imag) if isinstance(cval, (complex, np.complexfloating)) else (cval, 0)


def on_device(
    stencil: Callable[..., Any],
    a: Any,
    view: View,
    shape: tuple[int, ...],
    weights: Any,
    cval: Any,
    out: Any,
    **how: Any,
) -> Any:
    """Run a stencil on an array of a carried dtype on a device; `shape` is the result's.

    Raises
    ------
    TypeError
        uint64 with weights or a cval that are no integers: no device converts float64 to it.
    ValueError
        A complex array with another cval than 0.
    """
    x, dtype = asarray(a), view.dtype
    carrier, same_bits, beyond = carrier_of(dtype, weights, cval)
    if dtype.kind == "c":
        if how["mode"] == "constant" and cval != 0:
            raise ValueError("cval: must be 0 for complex arrays on a device; use another mode")
        beyond = 0
    elif not same_bits and carrier.kind == "f" and dtype.kind == "u":
        raise TypeError(
            "a: uint64 on a device with weights or a cval that are no integers is not supported; "
            "convert it to float64, or copy it to the host"
        )
    made = None
    if out is None:
        made, target = view.library.empty(view, shape, dtype)
    else:
        found = target_of(out)
        if found is None:
            raise TypeError(
                f"out: is on the host, but the result is on {view.device}; pass an array there"
            )
        target = found
    room = make(target.address, shape, dtype, target.device, (target.holder,))
    how |= {"weights": weights, "cval": beyond}
    if same_bits:
        stencil(_as(x, carrier), out=_as(room, carrier), **how)
    else:
        found = stencil(_converted(x, carrier), **how)
        _converted(found, dtype, room)
    return view.library.finish(made) if out is None else out


def _as(x: DeviceArray, dtype: np.dtype) -> DeviceArray:
    """Return the same bits as another dtype; complex elements have a last axis of both parts."""
    view = x._view
    shape = x.shape if view.dtype.itemsize == dtype.itemsize else (*x.shape, 2)
    return make(view.address, shape, dtype, view.device, (view.holder,))


def _converted(x: DeviceArray, dtype: np.dtype, out: DeviceArray | None = None) -> DeviceArray:
    """Return x's elements in another dtype: rows of one element are reduced."""
    view, flat = x._view, (x.size,)
    column = make(view.address, (x.size, 1), view.dtype, view.device, (view.holder,))
    how: dict[str, Any] = {"op": "any"} if dtype.kind == "b" else {"dtype": dtype}
    if out is not None:
        how["out"] = make(out._view.address, flat, dtype, out.device, (out._view.holder,))
    found = reduce(column, axis=1, **how)
    return make(found._view.address, x.shape, dtype, found.device, (found._view.holder,))
