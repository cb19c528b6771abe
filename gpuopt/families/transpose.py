"""`gpuopt.transpose`: permutes any axes of an array in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.inout import Problem, apart, check_out, takes_result
from gpuopt.arrays.libraries import View, check_device, quick_view
from gpuopt.families import device_calls, engines
from gpuopt.families.axis_plan import memory_order
from gpuopt.families.device_axes import STRIDED, copy_of
from gpuopt.families.plans import kernel_plan, run
from gpuopt.util.errors import AxisError
from gpuopt.util.literals import DeviceName, TransposeRung
from gpuopt.util.names import misspelt, suggests

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}  # by element size
COPIED = 8 << 20  # bytes up to which NumPy copies an array with gaps as fast
SMALL = 1 << 14  # bytes up to which its call is faster than a kernel's
STRIDED_AXES = 42  # as in ops_transpose.c
IN_PLACE = ("serial", "openmp", "simd")  # rungs that transpose square matrices in place


def _names_rung(variant: object, number: int, name: str) -> bool:
    """Return whether `variant` names a rung; invalid variants raise later."""
    try:
        return variant == name if isinstance(variant, str) else operator.index(variant) == number
    except TypeError:
        return False


def permutation(axes: Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return `axes` as numbers from 0 on, each of them once; None reverses."""
    if axes is None:
        return tuple(range(ndim))[::-1]
    try:
        given = tuple(axes)
        if isinstance(axes, (dict, set)) or any(isinstance(k, (bool, np.bool_)) for k in given):
            raise TypeError
        numbers = tuple(map(operator.index, given))
    except (TypeError, NotImplementedError):  # the latter of a memoryview
        raise TypeError(f"axes: must be a sequence of integers, not {axes!r:.60}") from None
    for number in numbers:
        if not -ndim <= number < ndim:
            raise AxisError(number, ndim, "axes")
    order = tuple(number % ndim for number in numbers)
    if len(order) != ndim or len(set(order)) != ndim:
        raise ValueError(
            f"axes: {numbers} must list all {ndim} axes of `a` exactly once; leave it out to "
            "reverse them"
        )
    return order


def transpose_problem(
    a: np.ndarray, axes: Sequence[int] | None = None, *, copy: bool = False
) -> Problem:
    """Describe a transpose, or the copy that is its ceiling."""
    order = permutation(axes, a.ndim)
    if a.dtype.hasobject or a.dtype.char == "T":  # references and variable-length strings
        raise TypeError(
            f"a: dtype {a.dtype} is not supported: its elements are more than their bytes"
        )
    word = WORDS.get(a.dtype.itemsize)
    if word is None:
        raise TypeError(
            f"a: dtype {a.dtype} has elements of {a.dtype.itemsize} bytes; "
            "1, 2, 4, 8 and 16 are supported"
        )
    run = np.require(a, requirements=["C_CONTIGUOUS"])
    run = np.require(run.view(word), requirements=["ALIGNED"])
    shape = a.shape if copy else tuple(a.shape[axis] for axis in order)
    numbers = (a.ndim, *a.shape, *order)
    return Problem("transpose", "move", word, word, (run,), shape, run.dtype, numbers)


def _transpose_of(a: np.ndarray, axes: Sequence[int] | None, copy: bool) -> Problem:
    return transpose_problem(a, axes, copy=copy)


def _turns(variant: int | str | None) -> bool:
    """Return whether a rung transposes square matrices in place."""
    named = isinstance(variant, str) and variant in IN_PLACE
    return variant is None or named or _names_rung(variant, 7, "vector")


def _turns_in_place(numbers: tuple[int, ...], variant: int | str | None) -> bool:
    """Return whether a rung can transpose in place: a batch of square matrices."""
    ndim, rest = numbers[0], numbers[1:]
    shape, order = rest[:ndim], rest[ndim:]
    straight = tuple(range(ndim))
    return (
        ndim >= 2
        and order == (*straight[:-2], ndim - 1, ndim - 2)
        and shape[-1] == shape[-2]
        and _turns(variant)
    )


def _is_dense(a: np.ndarray, order: list[int], turned: list[int]) -> bool:
    """Return whether the elements fill one aligned run of memory in an order of axes."""
    if turned or not a.flags.aligned or a.ctypes.data % min(a.itemsize, 8):
        return False
    return bool(a.transpose(order).flags.c_contiguous)


def _steps(a: np.ndarray, order: list[int], turned: list[int]) -> list[int] | None:
    """Return the steps in elements in an order of axes; None where elements overlap."""
    if turned or not a.flags.aligned or a.ctypes.data % min(a.itemsize, 8):
        return None
    steps, least = [], 1
    for k in reversed(order):
        step = a.strides[k] // a.itemsize if a.shape[k] > 1 else least
        if step < least or (a.shape[k] > 1 and a.strides[k] % a.itemsize):
            return None
        steps.append(step)
        least = step * a.shape[k]
    return steps[::-1] if steps and steps[0] < 1 << 32 else None


def _there(
    a: View, axes: Any, variant: Any, out: Any, block: Any, device: Any
) -> _core.Plan | None:
    """Plan a transpose on a device; elements with gaps are copied in their new order at once."""
    places, how = {"a": 0, "out": 3}, (variant, block)
    if a.strides is None or variant is not None or block is not None:
        views = device_calls.views_in(device, a=a) or {}
        copies = variant is not None and _names_rung(variant, 0, "copy")
        call = device_calls.described(_transpose_of, views, axes, copies)
        in_place = out is not None and _turns_in_place(call.numbers, variant)
        return device_calls.resident_plan(
            call, views, places, out, dtype=a.dtype, in_place=in_place, how=how
        )
    check_device(a, device)
    order = permutation(axes, len(a.shape))
    shape = tuple(a.shape[k] for k in order)
    to = (shape, None, a.dtype)
    fits = out is None or (isinstance(out, View) and device_calls.layout_of(out) == to)
    if not fits or 0 in shape:
        return None
    strides = tuple(a.strides[k] for k in order)
    one = copy_of(shape, strides, a.dtype, a.dtype, 0)
    return device_calls.there_plan(
        a.device,
        one.kernel,
        one.numbers,
        ((0, 0, one.bytes, device_calls.reach_of(a)),),
        (one.result_bytes, device_calls.reach_of(to), shape, a.dtype),
        out=-1 if out is None else 3,
    )


def _plan(a: Any, axes: Any, variant: Any, out: Any, block: Any, device: Any) -> _core.Plan | None:
    """Plan a transpose on the best rung."""
    if isinstance(a, View):
        return _there(a, axes, variant, out, block, device)
    if variant is not None or not isinstance(a, np.ndarray):
        return None
    word = WORDS.get(a.dtype.itemsize)
    order = permutation(axes, a.ndim)
    shape = tuple(a.shape[k] for k in order)
    if word is None:
        return None
    if out is not None:
        check_out(out, shape, a.dtype)
    head = ("transpose", "move", word, word)
    on_cpu = _core.call_kind(head, None, block, device) == "cpu"
    direct = out is None or (
        takes_result(out, a.dtype, (a,)) and not out.ctypes.data % min(a.itemsize, 8)
    )
    at = -1 if out is None else 3  # of `out` among the arguments
    memory, turned = memory_order(a.shape, a.strides)
    if direct and _is_dense(a, memory, turned):
        there = tuple(memory.index(k) for k in order)
        numbers = (a.ndim, *(a.shape[k] for k in memory), *there)
        return kernel_plan(
            [(head, numbers, (a.nbytes,), a.nbytes)],
            ((0, 0),),
            (a.dtype, shape, None, None, False, False),
            (None, block, device),
            out=at,
        )
    in_place = out is not None and not apart(out, a)
    steps = _steps(a, memory, turned) if direct and on_cpu and not in_place else None
    least = COPIED if steps and steps[-1] != 1 else SMALL  # NumPy copies small ones as fast
    if steps and a.nbytes > least and len(steps) <= STRIDED_AXES:
        extents = [a.shape[k] for k in memory]
        numbers = (STRIDED + a.ndim, *extents, *map(memory.index, order), *steps)
        reach = 1 + sum((n - 1) * step for n, step in zip(extents, steps, strict=True))
        return kernel_plan(
            [(head, numbers, (reach * a.itemsize,), a.nbytes)],
            ((0, 0),),
            (a.dtype, shape, None, None, False, False),
            (None, block, device),
            out=at,
        )
    if on_cpu and block is None and not in_place and a.nbytes <= COPIED:
        return _core.Plan("copy", (0, order, at))
    return None


def _transpose(a: Any, axes: Any, variant: Any, out: Any, block: Any, device: Any) -> Any:
    """Transpose anything: lists, subclasses, arrays on a device, named rungs, in place."""
    copy = variant is not None and _names_rung(variant, 0, "copy")
    views = device_calls.inputs(device, a=a)
    if views:
        call = device_calls.described(_transpose_of, views, axes, copy)
        in_place = out is not None and _turns_in_place(call.numbers, variant)
        return device_calls.run(
            call, views, variant, block, out, dtype=views["a"].dtype, in_place=in_place
        )
    a = inout.array_in(a, "a")
    problem = transpose_problem(a, axes, copy=copy)
    how = (variant, block, device)
    if out is None:
        return run(problem, how).view(a.dtype)
    check_out(out, problem.shape, a.dtype)
    (items,) = problem.inputs
    in_place = out.flags.c_contiguous and out.dtype == a.dtype
    in_place = in_place and out.ctypes.data == items.ctypes.data and items.size > 0
    in_place = in_place and _turns_in_place(problem.numbers, variant)
    if in_place or (out.dtype == a.dtype and out.flags.c_contiguous):
        run(problem, how, out.view(problem.dtype), in_place=in_place)
    else:
        with np.errstate(all="ignore"):
            np.copyto(out, run(problem, how).view(a.dtype), casting="same_kind")
    return out


_NAMES = ("a", "axes", "variant", "out", "block", "device")
_planner, _general = engines.entry("transpose", _NAMES, _plan, _transpose)
_entry = _core.Entry("akkokd", _NAMES, _planner, _general, quick_view)
_run = _entry.run


@_entry.front
@suggests
def transpose(
    a: ArrayLike,
    axes: Sequence[int] | None = None,
    *,
    variant: TransposeRung | int | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    memory_limit: int | str | None = None,
    progress: Callable[[str, float], None] | None = None,
    **unknown: Any,
) -> np.ndarray:
    """Permute an array's axes in memory, on a rung of the transpose ladder.

    Parameters
    ----------
    a : array_like
        Any shape, layout and byte order; any dtype with elements of 1, 2, 4, 8 or 16 bytes (also
        datetime, text and structured ones) that holds no Python objects. Or an array on a device,
        of any layout, which a kernel reads in place: the result is an array of the same library
        there (see `gpuopt.reduce`), and the call does not wait.
    axes : sequence of int, optional
        The axis of `a` for each axis of the result, as in `numpy.transpose`; negative ones count
        from the last. Default: the axes reversed.
    variant : int or str, optional
        The rung, by the deck's number or by name: 1 "1d", 2 "2d", 3 "tex", 4 "shared", 5 "padded",
        6 "multi" and 7 "vector" are CUDA kernels, "serial", "openmp" and "simd" run on the cpu.
        1 to 6 transpose matrices and batches of matrices; the others accept any axes. 0 "copy" is
        the ladder's ceiling: it copies the same bytes, 16 per access, and transposes nothing.
        Default: the best for the device.
    out : ndarray, optional
        An array of the result's shape; receives the result and is returned. On the host it may
        overlap `a`. If it is `a` and the last two axes of square matrices are swapped, rung 7 and
        the cpu's rungs work in place, without a second array. Otherwise an `out` on a device must
        have memory of its own.
    block : int, optional
        Threads per block, a power of two; `gpuopt.rungs` lists the valid ones.
    device : str or list of str, optional
        As `gpuopt.reduce`.
    memory_limit, progress
        For an array in a file, as `gpuopt.reduce`.

    Returns
    -------
    ndarray
        In C order and of a's dtype, equal to ``numpy.transpose(a, axes)``; for rung 0 equal to `a`.

    Raises
    ------
    TypeError
        A dtype whose elements are of another size or hold objects; `axes` that are no integers;
        masked arrays; an `out` of a dtype that cannot take a's.
    ValueError
        `axes` with one axis twice or missing; `out` has another shape, is read-only, or on a device
        shares memory with `a` without being in place; an unknown variant, block or
        device; axes that a variant does not support (an `UnfitError`).
    numpy.exceptions.AxisError
        An axis that `a` does not have (also a ValueError).
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Axes that stay neighbours are merged, and rows of 2, 4, 8 or 16 bytes that stay whole become
    elements. Rung 7 then has three cases. A batch of matrices is transposed tile by tile. Longer
    rows that stay whole are copied in the output's order. Rows of up to 32 bytes, and matrices that
    would fill half of their tiles or less (images' channels, small matrices, many axes), use tiles
    over several axes, so that both sides are contiguous. If no rung is named, up to 1.5 MiB, and
    up to 8 MiB of short rows, which stay in a GPU's L2, are moved element by element.

    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), the transpose ladder; for any
    axes, A. Hynninen and D. Lyakh, "cuTT: A High-Performance Tensor Transpose Library for CUDA
    Compatible GPUs", 2017.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.transpose([[1, 2, 3], [4, 5, 6]], device="cpu")
    array([[1, 4],
           [2, 5],
           [3, 6]])
    >>> pictures = np.zeros((10, 48, 64, 3), np.uint8)
    >>> gpuopt.transpose(pictures, (0, 3, 1, 2), device="cpu").shape
    (10, 3, 48, 64)
    """
    if unknown:
        raise misspelt(transpose, unknown)
    if not (memory_limit is progress is None):
        given = (a, axes, variant, out, block, device)
        return engines.run("transpose", _NAMES, given, memory_limit=memory_limit, progress=progress)
    try:
        return _run(a, axes, variant, out, block, device)
    except _core.DeviceMemoryError as error:
        return engines.run_in_blocks(
            "transpose", _NAMES, (a, axes, variant, out, block, device), error
        )
