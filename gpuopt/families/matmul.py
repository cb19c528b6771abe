"""`gpuopt.matmul`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.dtypes import is_bfloat16, name_of
from gpuopt.arrays.inout import FLOATS, Problem, check_out, is_run, takes_result
from gpuopt.arrays.libraries import View, check_device, quick_view
from gpuopt.families import device_calls, engines
from gpuopt.families.device_axes import broadcast_strides, compact, strides_of
from gpuopt.families.plans import kernel_plan, run, weak_numbers
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.literals import DeviceName, MatmulRung
from gpuopt.util.names import misspelt, suggests

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_DTYPES = (*FLOATS, "float16", "bfloat16")
_AXES = 6  # of a stack of products, merged: MATMUL_AXES
_ANY = (None, 11, "stream-k", 12, "patches", 13, "dots")  # variants for any layout, and stacks

Shape = tuple[int, ...]


def _result_shape(a: Shape, b: Shape) -> Shape:
    """Return the shape of a product, by NumPy's rule."""
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ValueError(f"{name}: must be a vector, a matrix or a stack, not of 0 dimensions")
    if a[-1] != b[-2:][0]:
        raise ValueError(f"b: has shape {b}, but a has {a}: b's rows must equal a's columns")
    stack = inout.broadcast(a[:-2], b[:-2])
    if stack is None:
        raise ValueError(f"a, b: the stacks of shapes {a} and {b} do not broadcast")
    return (*stack, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _stack_axes(a: Shape, a_steps: Shape, b: Shape, b_steps: Shape) -> list[Shape]:
    """Return a stack's axes, the last first and merged: extent, and the steps of a and of b."""
    axes: list[Shape] = []
    count = max(len(a), len(b))
    both = [
        [(1, 0)] * (count - len(shape)) + [*zip(shape, steps, strict=True)]
        for shape, steps in ((a, a_steps), (b, b_steps))
    ]
    for (one, a_step), (other, b_step) in zip(*(reversed(each) for each in both), strict=True):
        extent = other if one == 1 else one
        steps = (0 if one == 1 else a_step, 0 if other == 1 else b_step)
        if extent == 1:
            continue
        if axes and steps == tuple(axes[-1][0] * step for step in axes[-1][1:]):
            axes[-1] = (axes[-1][0] * extent, *axes[-1][1:])
        else:
            axes.append((extent, *steps))
    return axes


def _numbers(a: Shape, a_steps: Shape, b: Shape, b_steps: Shape) -> tuple[int, ...] | None:
    """Return the numbers of ops_matmul_any.c for layouts in elements; None: too many axes.

    Two matrices in C order, which all rungs read, have three numbers.
    """
    k, n = a[-1], b[-1] if len(b) > 1 else 1
    if 0 in (*a, *b):
        results = math.prod(_result_shape(a, b))
        return (results // n if n else 0), n, k
    m, a_row = (a[-2], a_steps[-2]) if len(a) > 1 else (1, k)
    b_k, b_column = b_steps[-2:] if len(b) > 1 else (b_steps[0], 1)
    a_k = a_steps[-1]
    axes = _stack_axes(a[:-2], a_steps[:-2], b[:-2], b_steps[:-2])
    if m == 1 and axes and axes[0][2] == 0:
        a_row = axes[0][1]
    while axes and axes[0][2] == 0 and axes[0][1] == m * a_row:  # all share b: one product
        m *= axes.pop(0)[0]
    a_row, a_k = (k if m == 1 else a_row), (1 if k == 1 else a_k)
    b_k, b_column = (n if k == 1 else b_k), (1 if n == 1 else b_column)
    if not axes and (a_row, a_k, b_k, b_column) == (k, 1, n, 1):
        return m, n, k
    if len(axes) > _AXES:
        return None
    steps = (a_row, a_k, b_k, b_column, *(number for axis in axes for number in axis))
    return (m, n, k, len(axes) + 1, *(number % 2**64 for number in steps))


def _in_items(array: Any) -> Shape:
    """Return the strides of an array or a view in elements; () if they are no whole numbers."""
    strides = strides_of(array) if isinstance(array, View) else array.strides
    size = array.dtype.itemsize
    whole = all(step % size == 0 for step, n in zip(strides, array.shape, strict=True) if n > 1)
    return tuple(step // size for step in strides) if whole else ()


@in_default_float_state
def matmul_problem(a: ArrayLike, b: ArrayLike) -> Problem:
    """Describe a product; a vector is a row on the left, a column on the right."""
    dtype, (a, b) = inout.common((("a", a), ("b", b)), _DTYPES)
    shape = _result_shape(a.shape, b.shape)
    inputs = [inout.contiguous(each, dtype) for each in (a, b)]
    numbers = _numbers(*(each for array in inputs for each in (array.shape, _in_items(array))))
    if numbers is None:  # a stack of many axes: each axis is one of the result's
        inputs = [
            np.ascontiguousarray(np.broadcast_to(each, shape[:-2] + each.shape[-2:]))
            for each in inputs
        ]
        numbers = _numbers(*(each for array in inputs for each in (array.shape, _in_items(array))))
    name = name_of(dtype)
    return Problem("matmul", "matmul", name, name, tuple(inputs), shape, dtype, numbers)


def _there(a: View, b: View, variant: Any, out: Any) -> _core.Plan | None:
    """Plan a product of arrays on a device, of any layout; None for calls of `device_calls.run`."""
    dtype, name = a.dtype, name_of(a.dtype)
    if name not in _DTYPES or not a.shape or not b.shape or a.shape[-1] != b.shape[-2:][0]:
        return None
    shape, steps = _result_shape(a.shape, b.shape), [_in_items(each) for each in (a, b)]
    if out is not None and (
        not isinstance(out, View)
        or out.read_only
        or device_calls.layout_of(out) != (shape, None, dtype)
    ):
        return None
    size = math.prod(shape) * dtype.itemsize
    if not size or not all(steps):
        return None
    numbers = _numbers(a.shape, steps[0], b.shape, steps[1])
    if numbers is None or not (len(numbers) == 3 or variant in _ANY):
        return None
    return device_calls.there_plan(
        a.device,
        ("matmul", "matmul", name, name),
        numbers,
        tuple(
            (k, 0, math.prod(each.shape) * dtype.itemsize, device_calls.reach_of(each))
            for k, each in enumerate((a, b))
        ),
        (size, device_calls.reach_of((shape, None, dtype)), shape, dtype),
        out=-1 if out is None else 3,
        how=(variant, None),
    )


def _plan(a: Any, b: Any, variant: Any, out: Any, device: Any) -> _core.Plan | None:
    """Plan a product: by NumPy's BLAS on the cpu unless a rung is named.

    A kernel reads host arrays of one dtype in C order.
    """
    if isinstance(a, View) or isinstance(b, View):
        if not (isinstance(a, View) and isinstance(b, View)) or a.device != b.device:
            return None
        if device is not None:
            check_device(a, device)
        return _there(a, b, variant, out) if a.dtype == b.dtype else None
    pair = (a, b)
    if not all(isinstance(each, np.ndarray) and each.ndim for each in pair):
        return None
    if any(each.dtype.kind not in "biuf" for each in pair) or weak_numbers(pair):
        return None
    name = np.result_type(a, b).newbyteorder("=").name
    if name not in _DTYPES:
        return None
    dtype, shape = np.dtype(name), _result_shape(a.shape, b.shape)
    if out is not None:
        check_out(out, shape, dtype)
    head = ("matmul", "matmul", name, name)
    at = -1 if out is None else 3
    if variant is None and _is_numpys(head, device):
        if out is not None and not (is_run(out) and out.dtype == dtype):
            return None
        return _core.Plan("numpy", (np.matmul, None, None, -1, 0, 1, at, True, False))
    if any(each.dtype != dtype or not is_run(each) for each in pair):
        return None
    direct = out is not None and takes_result(out, dtype, pair)
    numbers = _numbers(a.shape, _in_items(a), b.shape, _in_items(b))
    if numbers is None:
        return None
    return kernel_plan(
        [(head, numbers, (a.nbytes, b.nbytes), math.prod(shape) * dtype.itemsize)],
        ((0, 0), (1, 0)),
        (dtype, shape, None, None, False, True),
        (variant, None, device),
        out=at,
        direct=direct,
    )


def _is_numpys(head: tuple[str, str, str, str], device: Any) -> bool:
    """Return whether NumPy runs a call without a named rung: it does on the cpu.

    The cpu's rungs have floats only, so other dtypes find the device as float32.
    """
    family, op, name, _ = head
    known = name if name in FLOATS else "float32"
    return _core.call_kind((family, op, known, known), None, None, device) == "cpu"


def _numpy_product(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return NumPy's product; bfloat16, which NumPy lacks, is computed in float32."""
    with np.errstate(all="ignore"):
        if is_bfloat16(dtype):
            return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
        return np.matmul(a, b)


def _whole_stacks(views: dict[str, View]) -> dict[str, View]:
    """Return two operands, repeated on their device where their stack has too many axes."""
    a, b = views.values()
    _result_shape(a.shape, b.shape)  # raises NumPy's errors
    if _numbers(a.shape, _in_items(a), b.shape, _in_items(b)) is not None:
        return views
    whole, stack = {}, inout.broadcast(a.shape[:-2], b.shape[:-2])
    for name, view in views.items():
        shape = (*(stack or ()), *view.shape[-2:])
        whole[name] = compact(view.replace(shape=shape, strides=broadcast_strides(view, shape)))
    return whole


def _matmul(a: Any, b: Any, variant: Any, out: Any, device: Any) -> Any:
    """Multiply anything: lists, subclasses, arrays on a device, other layouts."""
    views = device_calls.inputs(device, a=a, b=b)
    if views:
        device_calls.alike(views)
        views = _whole_stacks(views)
        call = device_calls.described(matmul_problem, views)
        return device_calls.run(call, views, variant, None, out)
    problem = matmul_problem(a, b)
    if variant is not None or not _is_numpys(problem.head, device):
        found = run(problem, (variant, None, device), out)
        return found if out is not None or found.ndim else found[()]
    if out is not None:
        check_out(out, problem.shape, problem.dtype)
    found = _numpy_product(*problem.inputs, problem.dtype)
    if out is not None:
        with np.errstate(all="ignore"):
            np.copyto(out, found, casting="same_kind")
    return found if out is None else out


_NAMES = ("a", "b", "variant", "out", "device")
_planner, _general = engines.entry("matmul", _NAMES, _plan, _matmul)
_entry = _core.Entry("aakod", _NAMES, _planner, _general, quick_view)
_run = _entry.run


@_entry.front
@suggests
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    variant: MatmulRung | int | None = None,
    out: np.ndarray | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    **unknown: Any,
) -> np.ndarray:
    """Multiply matrices, vectors and stacks of matrices, on a rung of the matrix product ladder.

    Parameters
    ----------
    a : array_like, shape (..., M, K) or (K,)
    b : array_like, shape (..., K, N) or (K,)
        A vector is a row on the left, a column on the right, and the result has no axis for it.
        Leading axes are stacks of matrices, which broadcast as in `numpy.matmul`. The common dtype
        must be float32, float64, float16 or bfloat16. Or two arrays of one dtype on a device, of
        any layout: the result is an array of a's library there, and the call does not wait.
    variant : int or str, optional
        The rung, by number or by name: 1 "naive", 2 "shared", 3 "2-targets", 4 "4-targets",
        5 "8-targets", 6 "2d-targets", 7 "words", 8 "async", 9 "warp-tiles", 10 "tuned",
        11 "stream-k", 12 "patches" and 13 "dots" are CUDA kernels, "serial", "openmp" and "simd"
        run on the cpu. Rungs 11 to 13 multiply anything; the others multiply two matrices of
        float32 or float64, and copy one that is not in C order. Default on a GPU: the cheapest of
        10 to 13 by an estimate; on the cpu: the BLAS that NumPy is linked with, by `numpy.matmul`.
    out : ndarray, of the result's shape, optional
        Receives the result and is returned. On the host it may overlap `a` and `b`; on a device it
        must have memory of its own.
    device : str or list of str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray, shape (..., M, N), (..., N), (..., M) or, for two vectors, a scalar
        In C order.

    Raises
    ------
    TypeError
        Another dtype; masked arrays; an `out` of a dtype that cannot take the result.
    ValueError
        No dimensions; shapes that do not fit; a rung from 1 to 10 for a stack (an `UnfitError`);
        `out` has another shape, is read-only, or on a device shares memory with `a` or `b`; an
        unknown variant or device.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Let u be the unit roundoff of the dtype. On a GPU the error of an element is at most about K * u
    * (abs(a) @ abs(b)), in true float32 or float64 arithmetic, bitwise equal in every run. The
    cpu's rungs accumulate float32 in float64, at half the rate of a BLAS that does not, or less.
    They add up slices of 256 and spans of 8,192 of K in an order that depends on the shapes only:
    the bound there has 290 + K / 8192 in place of K and u of float64, plus one rounding to float32.

    Source: deck D2 (CUDA Deep Dive: Performance, Georgia Tech 2013), the matmul ladder; from rung 6
    on, NVIDIA's CUTLASS, "Efficient GEMM in CUDA".

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.matmul([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]], device="cpu")
    array([[2., 1.],
           [4., 3.]])
    """
    if unknown:
        raise misspelt(matmul, unknown)
    return _run(a, b, variant, out, device)
