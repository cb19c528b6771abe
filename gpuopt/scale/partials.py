"""Reductions in parts: of chunks, blocks of files, devices or ranks, joined in their order.

A part has more precision than the result: sums are float64 pairs, whose additions are exact to the
first order (T. Dekker, 1971). The position of a cut hardly ever changes a float32 result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from gpuopt.arrays.device_array import DeviceArray
from gpuopt.arrays.dtypes import kind_of
from gpuopt.families.axis_plan import PLACES
from gpuopt.families.reduce import reduce
from gpuopt.families.reduce_axis import (
    axes_of,
    check_op,
    first_of,
    join,
    of_nothing,
    with_initial,
)
from gpuopt.families.vectors import saxpy
from gpuopt.scale.links import Move, exchange, reshaped
from gpuopt.util.float_state import in_default_float_state

PART_BYTES = 8  # of a part of a result
_WIDE = 512  # columns; wider rows are added in one order in any layout

_JOINS = {"any": np.logical_or, "all": np.logical_and, "count": np.add, "mean": np.add}


@dataclass(frozen=True)
class Part:
    """The reduction of some elements, with its reduced axes kept.

    Attributes
    ----------
    values : array or None
        None: there are no elements.
    rest : array or None
        For floating-point sums, the error of `values`; None: 0. For "argmin" and "argmax", the
        indices of `values` in the whole array.
    shape : tuple of int or None
        That of the results, if there are no elements; None: of all results.
    """

    values: Any
    rest: Any = None
    shape: tuple[int, ...] | None = None

    def __sizeof__(self) -> int:
        """Return its bytes, by which Dask chooses the worker of a join."""
        return sum(getattr(each, "nbytes", 0) for each in (self.values, self.rest))


def _pair_sum(a: Part, b: Part) -> Part:
    """Add two pairs; infinities and NaN stay in `values`."""
    high = a.values + b.values
    other = high - a.values
    low = (a.values - (high - other)) + (b.values - other)
    for rest in (a.rest, b.rest):
        low = low if rest is None else low + rest
    return Part(high, low)


def _earlier(op: str, a: Part, b: Part) -> Part:
    """Return the lesser (greater) elements and their indices; NaN first, then lower indices."""
    first = b.values < a.values if op == "argmin" else b.values > a.values
    same = a.values == b.values
    if kind_of(a.values.dtype) == "f":
        nan_a, nan_b = np.isnan(a.values), np.isnan(b.values)
        first = (first & ~nan_a) | (nan_b & ~nan_a)
        same = same | (nan_a & nan_b)
    first = first | (same & (b.rest < a.rest))
    return Part(np.where(first, b.values, a.values), np.where(first, b.rest, a.rest))


@dataclass(frozen=True)
class Reduction:
    """A reduction of an array of some shape and dtype, to be computed in parts.

    Attributes
    ----------
    op : str
    shape : tuple of int
        That of the whole array.
    axes : tuple of int
        The reduced ones.
    flat : bool
        Whether indices count the elements of the whole array.
    keepdims : bool
    given, result : dtype
        The dtypes of the elements and of the results.
    initial
        As `gpuopt.reduce`.
    how : dict
        `variant`, `block` and `device` of the calls.
    """

    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    flat: bool
    keepdims: bool
    given: np.dtype
    result: np.dtype
    initial: Any
    how: dict[str, Any]

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        given: np.dtype,
        op: str,
        axis: Any,
        keepdims: bool,
        dtype: Any,
        initial: Any,
        how: dict[str, Any],
    ) -> Reduction:
        """Describe a reduction; errors are those of `gpuopt.reduce`."""
        call = (shape, given, op, axis, keepdims, dtype, initial, tuple(how.items()))
        planned = _planned
        try:
            hash(call)
        except TypeError:  # a list
            planned = _planned.__wrapped__
        if initial is not ...:  # equal numbers may differ in sign
            planned = _planned.__wrapped__
        return planned(*call)

    @cached_property
    def count(self) -> int:
        """Return the elements per result."""
        return math.prod(self.shape[k] for k in self.axes)

    @cached_property
    def _pairs(self) -> bool:
        return self.op in ("sum", "mean") and kind_of(self._wide) in "fc"

    @cached_property
    def _wide(self) -> np.dtype:
        """Return the dtype that parts are computed in."""
        kind = kind_of(self.result)
        if self.op in ("sum", "mean", "prod"):
            return np.dtype({"f": np.float64, "c": np.complex128}.get(kind, self.result))
        return self.result

    @cached_property
    def kept_shape(self) -> tuple[int, ...]:
        """Return the shape of the results with the reduced axes kept."""
        return tuple(1 if k in self.axes else n for k, n in enumerate(self.shape))

    def squeezed(self, kept: Sequence[int]) -> tuple[int, ...]:
        """Return the results' shape from one with the reduced axes kept."""
        return tuple(n for k, n in enumerate(kept) if self.keepdims or k not in self.axes)

    @in_default_float_state
    def part(self, chunk: Any, starts: Sequence[int], device: str | None = None) -> Part:
        """Reduce a chunk of the array.

        Parameters
        ----------
        chunk : array
            On the host or a device.
        starts : sequence of int
            The indices of its first element.
        device : str, optional
            The device of this chunk, instead of that in `how`.
        """
        if device is not None:
            return replace(self, how={**self.how, "device": device}).part(chunk, starts)
        if not all(chunk.shape[k] for k in self.axes):
            shape = (1 if k in self.axes else n for k, n in enumerate(chunk.shape))
            return Part(None, None, tuple(shape))
        if isinstance(chunk, np.ndarray):
            if not self._keeps_bits(chunk):
                chunk = np.ascontiguousarray(chunk)
            if self.op in ("sum", "mean", "prod") and self._converts:
                chunk = chunk.astype(self.result)
        if self.op in PLACES:
            return self._place(chunk, starts)
        options: dict[str, Any] = {}
        op = "sum" if self.op == "mean" else self.op
        if op in ("sum", "prod"):
            options["dtype"] = self._wide
        if isinstance(chunk, DeviceArray):
            options |= self._wide_on_device
        if self.initial is None and op == "sum":
            options["initial"] = None
        return Part(self._reduced(chunk, op, options))

    def _keeps_bits(self, chunk: np.ndarray) -> bool:
        """Return whether the bits of results do not depend on whether a chunk is contiguous.

        A chunk becomes contiguous when it is sent to another process or spilled to disk. Narrow
        contiguous columns are added in another order.
        """
        contiguous = chunk.flags.c_contiguous or chunk.flags.f_contiguous
        if contiguous or self.op not in ("sum", "mean", "prod") or kind_of(self._wide) not in "fc":
            return True
        *steps, last = chunk.strides
        rows = last == chunk.itemsize and all(a >= b > 0 for a, b in pairwise((*steps, last)))
        whole = len(self.axes) == chunk.ndim or self.axes == (chunk.ndim - 1,)
        return rows and (whole or (len(self.axes) == 1 and chunk.shape[-1] >= _WIDE))

    @property
    def _converts(self) -> bool:
        """Return whether NumPy rounds the elements to the result's dtype first."""
        kinds = kind_of(self.given), kind_of(self.result)
        return self.result != self._wide and (
            kinds[0] != kinds[1] or self.given.itemsize > self.result.itemsize
        )

    def _reduced(self, chunk: Any, op: str, options: dict[str, Any]) -> Any:
        kept = tuple(1 if k in self.axes else n for k, n in enumerate(chunk.shape))
        whole = len(self.axes) == chunk.ndim
        named = {"axis": None} if whole else {"axis": self.axes, "keepdims": True}
        if op in PLACES:
            named["axis"] = None if self.flat else self.axes[0]
            named["keepdims"] = not self.flat
        found = reduce(chunk, op, **named, **options, **self.how)
        if isinstance(found, DeviceArray):
            found = found.get()
        return (found if hasattr(found, "reshape") else np.asarray(found)).reshape(kept)

    def _place(self, chunk: Any, starts: Sequence[int]) -> Part:
        index = self._reduced(chunk, self.op, {}).astype(np.int64)
        values = None
        if isinstance(chunk, DeviceArray):
            values = self._reduced(chunk, self.op.removeprefix("arg"), {})
        if not self.flat:
            (axis,) = self.axes
            values = np.take_along_axis(chunk, index, axis) if values is None else values
            return Part(values, index + int(starts[axis]))
        local, place, step = index, 0, 1
        coordinates = []
        for extent in reversed(chunk.shape):
            coordinates.append(local % extent)
            local = local // extent
        for axis in reversed(range(chunk.ndim)):
            place = place + (coordinates[chunk.ndim - 1 - axis] + int(starts[axis])) * step
            step *= self.shape[axis]
        if values is None:
            values = chunk[tuple(each.reshape(()) for each in reversed(coordinates))]
        values = values if hasattr(values, "reshape") else np.asarray(values)
        return Part(values.reshape(index.shape), place + index * 0)

    def part_on_device(self, chunk: DeviceArray) -> DeviceArray:
        """Reduce a chunk with one element or more per result; its unrounded parts stay there."""
        op = "sum" if self.op == "mean" else self.op
        axis = self.axes if len(self.axes) < len(self.shape) else None  # the ladder is faster
        return reduce(chunk, op, axis=axis, **self._wide_on_device, **self.how)

    def joined_on_device(self, parts: DeviceArray) -> DeviceArray:
        """Join parts along the first axis, unrounded and without `initial`."""
        op = {"mean": "sum", "count": "sum"}.get(self.op, self.op)
        return reduce(parts, op, axis=0, **self._wide_on_device)

    @property
    def joins_on_devices(self) -> bool:
        """Return whether devices can join parts and finish them."""
        # Vectors are neither indexed nor, if complex, scaled there.
        return self.op not in PLACES and (self.op != "mean" or kind_of(self.result) != "c")

    def finish_on_device(self, joined: DeviceArray, target: DeviceArray) -> None:
        """Store results, rounded once, in an array of the same size."""
        flat = reshaped(joined, (joined.size, 1))
        options = {} if self.initial is ... else {"initial": self.initial}
        if self.op == "mean":
            flat = reshaped(saxpy(1 / self.count, joined, 0.0), flat.shape)
        op = {"mean": "sum", "count": "sum"}.get(self.op, self.op)
        wide = reduce(flat, op, axis=1, **self._wide_on_device, **options)
        if wide.dtype != self.result:
            wide = reduce(reshaped(wide, flat.shape), "sum", axis=1, dtype=self.result)
        exchange([Move(wide, target)])

    @cached_property
    def _wide_on_device(self) -> dict[str, Any]:
        if self.op not in ("sum", "mean", "prod"):
            return {}
        # No device widens complex elements.
        return {"dtype": self.result if kind_of(self.result) == "c" else self._wide}

    @in_default_float_state
    def total(self, parts: Iterable[Part]) -> Any:
        """Join parts in their order, and return the results, rounded once."""
        return self._finished(self._joined(parts))

    @in_default_float_state
    def join(self, parts: Iterable[Part]) -> Part:
        """Combine parts in their order."""
        return self._joined(parts)

    @in_default_float_state
    def finish(self, part: Part, *, keep: bool = False) -> Any:
        """Return the results, rounded once; `keep` keeps the reduced axes."""
        return self._finished(part, keep=keep)

    def _joined(self, parts: Iterable[Part]) -> Part:
        found = Part(None)
        for each in parts:
            if found.values is None or each.values is None:
                found = each if found.values is None else found
            elif self.op in PLACES:
                found = _earlier(self.op, found, each)
            elif self._pairs:
                found = _pair_sum(found, each)
            elif self.op in _JOINS:
                found = Part(_JOINS[self.op](found.values, each.values))
            else:
                found = Part(join(self.op, found.values, each.values))
        return found

    def _finished(self, part: Part, *, keep: bool = False) -> Any:
        shape = part.shape or self.kept_shape
        if part.values is None and (self.op in PLACES or self.op == "mean"):
            part = Part(of_nothing(self.op, shape, self.result, ...))
        elif part.values is None:
            part = Part(of_nothing(self.op, shape, self._wide, self.initial))
        elif self.initial is not ... and self.initial is not None:
            first = first_of(self.initial, with_initial(self.op, self.result)).astype(self._wide)
            part = self._joined((Part(first[()]), part))  # CuPy accepts scalars
        values = part.values
        if self.op in PLACES:
            values = part.rest
        elif part.rest is not None:
            exact = np.isfinite(values) & (part.rest != 0)  # keeps negative zeros
            if not isinstance(values, np.generic):
                values = np.where(exact, values + part.rest, values)
            elif exact:
                values = values + part.rest
        if self.op == "mean" and self.count:
            values = values / self.count
        values = values.astype(self.result)
        if keep or isinstance(values, np.generic):
            return values
        values = values.reshape(self.squeezed(values.shape))
        return values[()] if isinstance(values, np.ndarray) and not values.ndim else values


@lru_cache(512, typed=True)
def _planned(
    shape: tuple[int, ...],
    given: np.dtype,
    op: str,
    axis: Any,
    keepdims: bool,
    dtype: Any,
    initial: Any,
    how: tuple[tuple[str, Any], ...],
) -> Reduction:
    check_op(op)
    if given.hasobject:
        raise TypeError(
            f"array: dtype {given} is not supported: its elements are Python objects; convert "
            "the array with .astype(numpy.float64)"
        )
    axes = axes_of(axis, len(shape), op)
    one = np.ones((1,) * len(shape), given)
    options = {} if initial is ... else {"initial": initial}
    made = reduce(one, op, axis=axis, keepdims=True, dtype=dtype, device="cpu", **options)
    flat = op in PLACES and axis is None
    found = Reduction(op, shape, axes, flat, keepdims, given, made.dtype, initial, dict(how))
    if not found.count:  # an error now is better than one in the last task
        of_nothing(op, (), found.result, initial)
    return found
