"""Passes of the family reduce_axis over arrays on a device, of any layout; also copies.

A copy is a reduction of one element per result: it makes an array contiguous, or converts it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from gpuopt import _core
from gpuopt.arrays.dtypes import kind_of, name_of
from gpuopt.arrays.libraries import View, in_order
from gpuopt.families.axis_plan import AXES, AxisKernel, Group, Pass, axis_kernel, merge, passes

_WIDEST = 8  # element sizes in bytes that a copy moves
_NEAR = 16  # bytes between elements that tiles of a transpose gather, at most, or
_NEAR_ITEMS = 4  # elements: most sectors that are read have several of them
STRIDED = 256  # of a transpose's number of axes: their steps follow, as in ops_transpose.c


@dataclass
class PassQueue:
    """The queue of passes: an array's stream, ordered with the streams of other arrays.

    Attributes
    ----------
    view : View
    variant, block
        The caller's.
    ladder : tuple, optional
        Variant and block on the ladder, which reduces whole arrays.
    streams : list of int
        The array's stream first.
    """

    view: View
    variant: int | str | None = None
    block: int | None = None
    ladder: tuple[Any, Any] | None = None
    streams: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams.append(self.view.stream)

    def join(self, view: View) -> View:
        """Order the passes with the work on another array, and return that array."""
        if view.stream not in self.streams:
            self.streams.append(view.stream)
        return view

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> View:
        """Return memory for intermediate elements, which lives as long as its view."""
        return self.join(self.view.library.empty(self.view, shape, dtype)[1])

    def call(self, one: Pass, source: int, to: int) -> None:
        """Queue a pass from one address to another."""
        problem = (*one.kernel, ((source, one.bytes),), (to, one.result_bytes), one.numbers)
        _core.call(problem, self.variant, self.block, self.view.device, tuple(self.streams))


def strides_of(view: View) -> tuple[int, ...]:
    """Return a view's strides in bytes, also where it is in C order."""
    return in_c_order(view.shape, view.dtype) if view.strides is None else view.strides


def in_c_order(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """Return the strides of an array in C order, in bytes."""
    steps, step = [], dtype.itemsize
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return tuple(reversed(steps))


def on_items(view: View) -> bool:
    """Return whether all strides are multiples of the element size."""
    size = view.dtype.itemsize
    if view.strides is None:
        return view.address % size == 0
    steps = (step for extent, step in zip(view.shape, strides_of(view), strict=True) if extent > 1)
    return not any(number % size for number in (view.address, *steps))


def _conversion(given: np.dtype, wanted: np.dtype) -> AxisKernel:
    """Return the kernel that converts each element."""
    kind, to = kind_of(given), kind_of(wanted)
    if "c" in (kind, to) or (kind == "f" and to in "iu"):
        raise TypeError(
            f"array: {name_of(given)} elements are not converted to {name_of(wanted)} here; "
            "convert the array on its device"
        )
    if to == "b":
        return axis_kernel("any", given, wanted, 1)
    wide = kind == "f" and given.itemsize > 2
    work = axis_kernel("prod" if wide else "sum", given, wanted, 1)  # a sum is 0.0, not -0.0
    if kind == "f" and not wide:
        return replace(work, key=1 << 15)  # but if it starts there
    if kind in "iu" and to == "f" and given.itemsize == 8:
        work = replace(work, accumulator="float64", key=0 if kind == "u" else -1)
    return work


class Copy(NamedTuple):
    """A launch that copies elements to C order: kernel, bytes read and written, numbers."""

    kernel: tuple[str, str, str, str]
    bytes: int
    result_bytes: int
    numbers: tuple[int, ...]


def copy_of(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    given: np.dtype,
    wanted: np.dtype,
    address: int,
) -> Copy:
    """Describe the copy of elements of any layout, converted to a dtype."""
    axes, unit = list(zip(shape, strides, strict=True)), given.itemsize
    if given == wanted:
        steps = (step for extent, step in axes if extent > 1)
        unit = math.gcd(_WIDEST, unit, address, *steps)
        axes.append((given.itemsize // unit, unit))
        name = f"int{8 * unit}"
        work = AxisKernel("bits", name, name, name, 0, -1)
    else:
        work = _conversion(given, wanted)
    groups = merge((extent, step // unit, False) for extent, step in axes)
    if len(groups) > 2 * AXES:
        raise ValueError(
            f"array: has {len(groups)} axes that cannot be merged, at most {2 * AXES} are copied; "
            "make it contiguous on its device"
        )
    if work.op == "bits" and (moved := _moved(groups, unit)):
        return moved
    (one,) = passes(work, tuple(groups))
    return Copy(one.kernel, one.bytes, one.result_bytes, one.numbers)


def _moved(groups: list[Group], unit: int) -> Copy | None:
    """Describe a copy as a transpose; None where no axis has adjacent, or nearby, elements."""
    order = sorted(range(len(groups)), key=lambda k: -groups[k][1])  # of memory
    extents, steps = [groups[k][0] for k in order], [groups[k][1] for k in order]
    if not steps or not 1 <= steps[-1] <= max(_NEAR_ITEMS, _NEAR // unit):
        return None
    numbers = (STRIDED + len(order), *extents, *map(order.index, range(len(order))), *steps)
    reach = 1 + sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True))
    word = f"uint{8 * unit}"
    kernel = ("transpose", "move", word, word)
    return Copy(kernel, reach * unit, math.prod(extents) * unit, numbers)


def copy(queue: PassQueue, source: View, target: View) -> None:
    """Copy elements of any layout to an array in C order, converted to its dtype."""
    one = copy_of(source.shape, strides_of(source), source.dtype, target.dtype, source.address)
    named = one.kernel[0] == "reduce_axis"
    problem = (
        *one.kernel, ((source.address, one.bytes),), (target.address, one.result_bytes), one.numbers
    )  # fmt: skip
    how = (queue.variant, queue.block) if named else (None, None)
    _core.call(problem, *how, queue.view.device, tuple(queue.streams))


def broadcast_strides(view: View, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a view's strides in bytes if it is broadcast to a shape."""
    steps = (
        0 if extent == 1 else step
        for extent, step in zip(view.shape, strides_of(view), strict=True)
    )
    return (*(0,) * (len(shape) - len(view.shape)), *steps)


def compact(view: View) -> View:
    """Return the view, or a copy in C order beside it."""
    if in_order(view):
        return view
    queue = PassQueue(view)
    made = queue.empty(view.shape, view.dtype)
    if math.prod(view.shape):
        copy(queue, view, made)
    library, holder = view.library, (made.holder, view.holder)
    return made.replace(library=library, holder=holder, waits=view.waits)
