"""`gpuopt.matmul`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.inout import FLOATS, Problem, check_out, is_run, takes_result
from gpuopt.arrays.libraries import View, quick_view
from gpuopt.families import device_calls, engines
from gpuopt.families.plans import kernel_plan, run, weak_numbers
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.literals import DeviceName, MatmulRung
from gpuopt.util.names import misspelt, suggests


@in_default_float_state
def matmul_problem(a: ArrayLike, b: ArrayLike) -> Problem:
    """Describe a matrix product; a vector is a row on the left, a column on the right."""
    dtype, (a, b) = inout.common((("a", a), ("b", b)), FLOATS)
    for name, each in (("a", a), ("b", b)):
        if each.ndim not in (1, 2):
            raise ValueError(
                f"{name}: must be a matrix or a vector, not of {each.ndim} dimensions; multiply "
                "stacks one by one"
            )
    rows, columns, k = a.shape[:-1], b.shape[1:], a.shape[-1]
    if k != b.shape[0]:
        raise ValueError(
            f"b: has shape {b.shape}, but a has {a.shape}: b's rows must equal a's columns"
        )
    inputs = (inout.contiguous(a, dtype), inout.contiguous(b, dtype))
    shape = (*rows, *columns)
    numbers = (math.prod(rows), math.prod(columns), k)
    return Problem("matmul", "matmul", dtype.name, dtype.name, inputs, shape, dtype, numbers)


def _plan(a: Any, b: Any, variant: Any, out: Any, device: Any) -> _core.Plan | None:
    """Plan a product of two matrices or vectors: by NumPy's BLAS on the cpu unless a rung is named.

    A GPU, or a named rung, reads arrays of one dtype in C order.
    """
    if isinstance(a, View) or isinstance(b, View):
        views = device_calls.views_in(device, a=a, b=b)
        if views is None or a.dtype != b.dtype:
            return None
        call = device_calls.described(matmul_problem, views)
        places = {"a": 0, "b": 1, "out": 3}
        return device_calls.resident_plan(call, views, places, out, how=(variant, None))
    pair = (a, b)
    if not all(isinstance(each, np.ndarray) and each.ndim in (1, 2) for each in pair):
        return None
    if any(each.dtype.kind not in "biuf" for each in pair) or a.shape[-1] != b.shape[0]:
        return None
    name = np.result_type(a, b).newbyteorder("=").name
    if name not in FLOATS or weak_numbers(pair):
        return None
    dtype, shape = np.dtype(name), (*a.shape[:-1], *b.shape[1:])
    if out is not None:
        check_out(out, shape, dtype)
    head = ("matmul", "matmul", name, name)
    at = -1 if out is None else 3
    if _core.call_kind(head, variant, None, device) == "cpu" and variant is None:
        if out is not None and not (is_run(out) and out.dtype == dtype):
            return None
        return _core.Plan("numpy", (np.matmul, None, None, -1, 0, 1, at, True, False))
    if any(each.dtype != dtype or not is_run(each) for each in pair):
        return None
    direct = out is not None and takes_result(out, dtype, pair)
    numbers = (math.prod(a.shape[:-1]), math.prod(b.shape[1:]), a.shape[-1])
    return kernel_plan(
        [(head, numbers, (a.nbytes, b.nbytes), math.prod(shape) * dtype.itemsize)],
        ((0, 0), (1, 0)),
        (dtype, shape, None, None, False, True),
        (variant, None, device),
        out=at,
        direct=direct,
    )


def _matmul(a: Any, b: Any, variant: Any, out: Any, device: Any) -> Any:
    """Multiply anything: lists, subclasses, arrays on a device, other layouts."""
    views = device_calls.inputs(device, a=a, b=b)
    if views:
        device_calls.alike(views)
        call = device_calls.described(matmul_problem, views)
        return device_calls.run(call, views, variant, None, out)
    problem = matmul_problem(a, b)
    if variant is not None or _core.call_kind(problem.head, None, None, device) != "cpu":
        found = run(problem, (variant, None, device), out)
        return found if out is not None or found.ndim else found[()]
    if out is not None:
        check_out(out, problem.shape, problem.dtype)
    with np.errstate(all="ignore"):
        found = np.matmul(*problem.inputs)
        if out is not None:
            np.copyto(out, found, casting="same_kind")
    return found if out is None else out


_NAMES = ("a", "b", "variant", "out", "device")
_planner, _general = engines.entry("matmul", _NAMES, _plan, _matmul)
_run = _core.Entry("aakod", _NAMES, _planner, _general, quick_view).run


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
    """Multiply two matrices, on a rung of the matrix product ladder.

    Parameters
    ----------
    a : array_like, shape (M, K) or (K,)
    b : array_like, shape (K, N) or (K,)
        A vector is a row on the left, a column on the right, and the result has no axis for it.
        Any layout (one that is not in C order is copied); their common dtype must be float32 or
        float64. Or two arrays of one dtype on a device (a kernel copies one that is not in C
        order): the result is an array of a's library there, and the call does not wait.
    variant : int or str, optional
        The rung, by number or by name: 1 "naive", 2 "shared", 3 "2-targets", 4 "4-targets",
        5 "8-targets", 6 "2d-targets", 7 "words", 8 "async", 9 "warp-tiles", 10 "tuned" and
        11 "stream-k" are CUDA kernels, "serial", "openmp" and "simd" run on the cpu. Default on a
        GPU: 10 or 11, or the highest that the shared memory holds; on the cpu: the BLAS that NumPy
        is linked with, by `numpy.matmul`.
    out : ndarray, of the result's shape, optional
        Receives the result and is returned. On the host it may overlap `a` and `b`; on a device it
        must have memory of its own.
    device : str or list of str, optional
        As `gpuopt.reduce`.

    Returns
    -------
    ndarray, shape (M, N), (N,), (M,) or, for two vectors, a scalar
        In C order.

    Raises
    ------
    TypeError
        Another dtype; masked arrays; an `out` of a dtype that cannot take the result.
    ValueError
        No dimensions or more than two; shapes that do not fit; `out` has another shape, is
        read-only, or on a device shares memory with `a` or `b`; an unknown variant or device.
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
