"""Calls on arrays that are on a device (arrays/libraries.py), including gpuopt's own.

Work goes to the stream of the first array, ordered with the streams of the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuopt import _core
from gpuopt.arrays.device_array import LEGACY, DeviceArray, checked_dtype, empty, make
from gpuopt.arrays.inout import Problem, array_in
from gpuopt.arrays.libraries import View, check_device, in_order, is_run, view_of
from gpuopt.families.device_axes import compact, copy_of, in_c_order
from gpuopt.util.names import suggests

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@suggests
def asarray(x: ArrayLike, device: str | None = None) -> DeviceArray:
    """Return an array on a device: a copy of a host array, or another library's array in place.

    Parameters
    ----------
    x : array_like
        Anything that `numpy.asarray` accepts, of bool, an integer, floating-point or complex type;
        or an array on a device (CuPy, PyTorch, JAX, Numba, ...), which is copied there unless it is
        in C order.
    device : str, optional
        As `gpuopt.empty`; for an array on a device, that device.

    Returns
    -------
    DeviceArray

    Raises
    ------
    TypeError
        A dtype that no kernel accepts; masked arrays.
    ValueError
        An array on another device.
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
        host = array_in(x, "x")
        # 0-d stays 0-d: ascontiguousarray would make it 1-d.
        host = np.require(host, checked_dtype(host.dtype, "x"), ["C_CONTIGUOUS", "ALIGNED"])
        made = empty(host.shape, host.dtype, device)
        if host.size:
            made._view.holder.copy_in(host)
        return made
    check_device(view, device)
    if isinstance(x, DeviceArray):
        return x
    dtype = checked_dtype(view.dtype, "x")
    view = compact(view)
    holder = view.library.hold(view)
    if view.stream != LEGACY:
        _core.order(view.device, (LEGACY, view.stream))
        holder = _Borrowed(holder, view.device, view.stream)
    return make(view.address, view.shape, dtype, view.device, holder, view.read_only, view.waits)


class _Borrowed:
    """Keeps an array of a foreign stream until that stream is ordered after our work on it."""

    __slots__ = ("_device", "_holder", "_stream")

    def __init__(self, holder: Any, device: str, stream: int) -> None:
        self._holder, self._device, self._stream = holder, device, stream

    def __del__(self) -> None:
        try:
            _core.order(self._device, (self._stream, LEGACY))
        except Exception:  # no memory for an event: wait instead; nothing helps a lost device
            with suppress(Exception):
                _core.wait(self._device, LEGACY)


# --- calls


def streams(views: list[View]) -> tuple[int, ...]:
    """Return the streams of some arrays without duplicates; the work goes to the first."""
    return tuple(dict.fromkeys([view.stream for view in views]))


def same_device(views: list[tuple[str, View]]) -> None:
    """Raise ValueError where arrays are on different devices."""
    first, where = views[0]
    for name, view in views[1:]:
        if view.device != where.device:
            raise ValueError(
                f"{name}: is on {view.device}, but {first} is on {where.device}; copy one of them"
            )


def target_of(out: Any) -> View | None:
    """Describe an `out` on a device; None for one on the host."""
    view = view_of(out, "out")
    if view is not None:
        view.library.writes(out)
    return view


def check_target(target: View, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise if an `out` on a device has the wrong shape, dtype or layout."""
    if target.shape != shape:
        raise ValueError(f"out: has shape {target.shape}, but the result has {shape}")
    if target.read_only:
        raise ValueError("out: output array is read-only")
    if target.dtype != dtype:
        raise TypeError(f"out: must be of the result's dtype {dtype}, not {target.dtype}")
    if not in_order(target):
        raise ValueError("out: is not C-contiguous and aligned; pass an array that is")


def inputs(device: str | None, *, any_order: bool = False, **given: Any) -> dict[str, View] | None:
    """Return the views of a family's arrays, all on one device; None if all are on the host.

    Arrays that are not in C order are copied on their device, unless the call reads `any_order`.

    Raises
    ------
    TypeError
        Some are on a device and others on the host.
    ValueError
        They are on different devices, or not on `device`.
    """
    found = {}
    for name, value in given.items():
        view = view_of(value, name)
        if view is not None:
            found[name] = view
    if not found:
        return None
    other, first = next(iter(found.items()))
    if len(found) < len(given):
        name = next(name for name in given if name not in found)
        raise TypeError(
            f"{name}: is on the host, but {other} is on {first.device}; copy one of them "
            f"(gpuopt.asarray({name}, {first.device!r}))"
        )
    if device is not None:
        check_device(first, device)
    for name, view in found.items():
        if view.device != first.device:
            same_device([(other, first), (name, view)])
        if not any_order and (view.strides is not None or view.address % view.dtype.itemsize):
            found[name] = compact(view)
    return found


def alike(views: dict[str, View]) -> None:
    """Raise if two arrays differ in dtype: nothing is converted on a device."""
    (first, one), (second, other) = views.items()
    if one.dtype != other.dtype:
        raise TypeError(
            f"{first}, {second}: have dtypes {one.dtype} and {other.dtype}; convert one of them"
        )


Layout = tuple[tuple[int, ...], tuple[int, ...] | None, np.dtype]  # shape, strides, dtype


def layout_of(view: View) -> Layout:
    """Return an array's shape, strides and dtype."""
    return view.shape, view.strides, view.dtype


class Call(NamedTuple):
    """A problem on a device without the addresses of its arrays.

    Attributes
    ----------
    kernel : tuple of str
        Family, operation, the elements' and the result's dtype.
    inputs : tuple
        For each input its view's index and bytes, or a host array.
    shape : tuple of int
        The result's.
    dtype : dtype
        The result's.
    numbers : tuple of int
    """

    kernel: tuple[str, str, str, str]
    inputs: tuple[tuple[int, int] | np.ndarray, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    numbers: tuple[int, ...]


class _StandIn(np.ndarray):
    """An array with a device array's attributes; its elements are never read or printed."""

    def __repr__(self) -> str:
        return f"<{self.dtype} elements of shape {self.shape} on a device>"

    __str__ = __repr__


class _Interface:
    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


def _stand_in(address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    items = np.asarray(_Interface(address, shape, dtype)).view(_StandIn)
    return items.view(dtype) if dtype.kind == "V" else items


_APART = 1 << 40  # bytes between the stand-ins' addresses, which only identify them


def described(maker: Callable[..., Problem], views: dict[str, View], *parameters: Any) -> Call:
    """Return the call that `maker` describes for arrays in C order on a device.

    `maker` receives stand-ins for the views, whose elements it must not read, and the parameters.
    """
    layouts = [(view.shape, view.dtype) for view in views.values()]
    stand_ins = [_stand_in((k + 1) * _APART, *layout) for k, layout in enumerate(layouts)]
    problem = maker(*stand_ins, *parameters)
    inputs: list[Any] = []
    for each in problem.inputs:
        if each.size == 0:
            inputs.append((0, 0))
            continue
        number, off = divmod(each.__array_interface__["data"][0], _APART)
        is_view = off == 0 and 0 < number <= len(layouts)
        inputs.append((number - 1, each.nbytes) if is_view else each)
    return Call(
        (problem.family, problem.op, problem.items, problem.result),
        tuple(inputs),
        problem.shape,
        problem.dtype,
        tuple(number % 2**64 for number in problem.numbers),
    )


Reach = tuple[int, int, int, bool]  # lowest and highest byte, alignment, whether `out` may be it


def reach_of(view: View | Layout, *, in_place: bool = False) -> Reach:
    """Return the extent of an array, which the result of a call must not overlap."""
    shape, strides, dtype = view if isinstance(view, tuple) else layout_of(view)
    return (*reach(shape, strides, dtype.itemsize), dtype.itemsize, in_place)


# (kernel, numbers, bytes read, bytes written, variant, block, k): see `_core.Plan`
Step = tuple[tuple[str, str, str, str], tuple[int, ...], int, int, Any, Any, int]


def copy_step(layout: Layout, wanted: np.dtype, k: int) -> Step:
    """Return the pass that copies elements of any layout to C order, converted to a dtype."""
    shape, strides, dtype = layout
    strides = in_c_order(shape, dtype) if strides is None else strides
    one = copy_of(shape, strides, dtype, wanted, 0)
    return (one.kernel, one.numbers, one.bytes, one.result_bytes, None, None, k)


def there_plan(
    device: str,
    kernel: tuple[str, str, str, str],
    numbers: tuple[int, ...],
    inputs: tuple[Any, ...],
    result: tuple[int, Reach, tuple[int, ...], np.dtype],
    *,
    out: int = -1,
    to_host: bool = False,
    factor: int = -1,
    factor_dtype: str | None = None,
    how: tuple[Any, Any] = (None, None),
    before: Sequence[Step] = (),
    after: Sequence[Step] = (),
    back: tuple[int, ...] | None = None,
) -> _core.Plan:
    """Return the plan of a call on arrays of a device.

    Parameters
    ----------
    inputs : tuple
        See `_core.Plan`.
    result : tuple
        Bytes, reach, shape and dtype of the output.
    out, factor : int
        Arguments of the family's function, or -1.
    to_host : bool
        Whether `out` is on the host.
    how : tuple
        (variant, block).
    before, after : sequence of Step
        Passes that replace an input of the call, and passes over its output.
    back : tuple of int, optional
        The order of axes in which the caller gets a new output; its library `turns`.
    """
    nbytes, extent, shape, dtype = result
    fields = (
        kernel, numbers, inputs, (nbytes, extent), out, to_host, shape, dtype, factor,
        factor_dtype, *how, device, tuple(before), tuple(after), back,
    )  # fmt: skip
    return _core.Plan("resident", fields)


def resident_plan(
    call: Call,
    views: dict[str, View],
    places: dict[str, int],
    out: View | None,
    *,
    dtype: np.dtype | None = None,
    in_place: bool = False,
    how: tuple[Any, Any] = (None, None),
    back: tuple[int, ...] | None = None,
    with_gaps: bool = False,
    carrier: np.dtype | None = None,
) -> _core.Plan | None:
    """Plan a described call for arrays of these layouts; None for calls of `run`.

    A pass copies an array that is not in C order, unless the call reads it `with_gaps`, and
    converts it to the `carrier` in which the call computes, if there is one.

    Parameters
    ----------
    places : dict
        The index of each array, and of "out", among the arguments of the family's function.
    dtype, in_place
        As `run`.
    how : tuple
        (variant, block).
    back : tuple of int, optional
        The order of the call's axes in the result.
    carrier : dtype, optional
        The call's; `dtype` is the result's.
    """
    dtype = call.dtype if dtype is None else dtype
    every = [*views.values()]
    made_as = dtype if carrier is None else carrier
    first, size = every[0], math.prod(call.shape) * made_as.itemsize
    if not size:
        return None
    shape, before, after = call.shape, [], []
    steps: tuple[int, ...] | None = None
    if back is not None:
        made = in_c_order(shape, made_as)
        shape, steps = tuple(shape[k] for k in back), tuple(made[k] for k in back)
    if carrier is not None or not is_run(shape, steps, made_as.itemsize):
        after.append(copy_step((shape, steps, made_as), dtype, 0))
    to = (shape, None, dtype)
    if out is not None and (not isinstance(out, View) or out.read_only or layout_of(out) != to):
        return None
    names, inputs = [*views], []
    for each in call.inputs:
        if isinstance(each, np.ndarray):  # constants: copied once
            kept = view_of(asarray(each, first.device), "constant")
            inputs.append((kept, 0, each.nbytes, (0, each.nbytes, each.itemsize, False)))
            continue
        number, nbytes = each
        view = every[number]
        straight = not nbytes or is_run(view.shape, view.strides, view.dtype.itemsize)
        if nbytes and (carrier is not None or not (straight or with_gaps)):
            wanted = view.dtype if carrier is None else carrier
            before.append(copy_step(layout_of(view), wanted, len(inputs)))
        same = in_place and straight and view.shape == call.shape
        inputs.append((places[names[number]], 0, nbytes, reach_of(view, in_place=same)))
    if any(isinstance(each, np.ndarray) for each in call.inputs):
        _core.wait(first.device, LEGACY)  # no call waits for its constants
    return there_plan(
        first.device,
        call.kernel,
        call.numbers,
        tuple(inputs),
        (size, reach_of(to), shape, dtype),
        out=-1 if out is None else places["out"],
        how=how,
        before=before,
        after=after,
    )


def views_in(device: str | None, **given: Any) -> dict[str, View] | None:
    """Return the arrays of a call if all are Views on one device, else None."""
    if not all(isinstance(each, View) for each in given.values()):
        return None
    first, *others = given.values()
    if any(each.device != first.device for each in others):
        return None
    if device is not None:
        check_device(first, device)
    return given


def run(
    call: Call,
    views: dict[str, View],
    variant: int | str | None,
    block: int | None,
    out: Any,
    *,
    dtype: np.dtype | None = None,
    in_place: bool = False,
    back: tuple[int, ...] | None = None,
) -> Any:
    """Run a described call on some views; return `out`, or a new array.

    Parameters
    ----------
    dtype : dtype, optional
        The result's dtype, if it is not the call's.
    in_place : bool
        Whether `out` may be one of the inputs.
    back : tuple of int, optional
        The order of axes in which the caller gets a new array; its library `turns`.
    """
    dtype = call.dtype if dtype is None else dtype
    every = [*views.values()]
    first = every[0]
    if out is None:
        made, target = first.library.empty(first, call.shape, dtype)
    else:
        made, target = None, target_of(out)
        if target is None:
            raise TypeError(
                f"out: is on the host, but the result is on {first.device}; pass an array there"
            )
    _run_on(call, views, target, (variant, block), dtype, in_place)
    if out is not None:
        return out
    made = first.library.finish(made)
    return made if back is None else first.library.turned(made, back)


def _run_on(
    call: Call,
    views: dict[str, View],
    target: View,
    how: tuple[int | str | None, int | None],
    dtype: np.dtype,
    in_place: bool,
) -> None:
    """Queue a call without preparing it; raise if its `out` is unusable."""
    name, first = next(iter(views.items()))
    every = [*views.values()]
    check_target(target, call.shape, dtype)
    if target.device != first.device:
        same_device([(name, first), ("out", target)])
    check_overlap(target, views, in_place)
    places = []
    for each in call.inputs:
        if type(each) is tuple:
            number, size = each
            each = (every[number].address if size else 0, size)
        places.append(each)
    size = math.prod(call.shape) * dtype.itemsize
    problem = (*call.kernel, tuple(places), (target.address, size), call.numbers)
    every.append(target)
    try:
        _core.call(problem, *how, first.device, streams(every))
    finally:  # part of it may be queued
        first.library.settle(every)


@lru_cache(512)
def reach(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> tuple[int, int]:
    """Return the bounds of the elements in memory, in bytes from the first element."""
    size = math.prod(shape) * item
    if strides is None or not size:
        return 0, size
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    return sum(min(0, step) for step in steps), sum(max(0, step) for step in steps) + item


def check_apart(target: View, name: str, view: View) -> None:
    """Raise ValueError if an `out` shares memory with an input."""
    low, high = reach(target.shape, target.strides, target.dtype.itemsize)
    begin, end = reach(view.shape, view.strides, view.dtype.itemsize)
    apart = view.address - target.address
    if max(low, apart + begin) < min(high, apart + end):
        raise ValueError(f"out: overlaps {name}; on a device it must have memory of its own")


def check_overlap(target: View, views: dict[str, View], in_place: bool) -> None:
    """Raise ValueError if an `out` overlaps an input without being equal to it."""
    for name, view in views.items():
        same = view.address == target.address and view.shape == target.shape
        if not (in_place and same):
            check_apart(target, name, view)
