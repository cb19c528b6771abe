"""Plans of calls on host arrays, which `_core.Entry` caches by layouts and options.

A planner receives the arguments of a call. It returns a plan for all calls with these layouts and
options, or None: the family's general function then runs the call, or raises the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays.inout import Problem, check_out, takes_result

_BY_VALUE = int(np.__version__.partition(".")[0]) < 2  # NumPy 1 promotes numbers by their value

Head = tuple[str, str, str, str]  # family, operation, the elements' and the accumulator's dtype
Pass = tuple[Head, tuple[int, ...], tuple[int, ...], int]  # numbers, bytes of inputs and of output


def weak_numbers(values: Sequence[object]) -> bool:
    """Return whether some values are Python numbers that this NumPy promotes by their value."""
    return _BY_VALUE and any(type(each) in (int, float) for each in values)


def kernel_plan(
    passes: Sequence[Pass],
    inputs: tuple[Any, ...],
    result: tuple[Any, ...],
    how: tuple[Any, Any, Any],
    *,
    out: int = -1,
    direct: bool = True,
    factor: int = -1,
    factor_dtype: str | None = None,
) -> _core.Plan:
    """Return the plan of some passes; `how` is (variant, block, device), see `_core.Plan`."""
    direct = direct and out >= 0
    fields = (tuple(passes), inputs, result, out, direct, factor, factor_dtype, *how)
    return _core.Plan("kernel", fields)


def run(
    problem: Problem,
    how: tuple[Any, Any, Any],
    out: np.ndarray | None = None,
    *,
    in_place: bool = False,
) -> np.ndarray:
    """Run a problem on host arrays; return `out`, or a new array.

    With `in_place` an input may be `out`. `how` is (variant, block, device).
    """
    if out is not None:
        check_out(out, problem.shape, problem.dtype)
    inputs, numbers = problem.inputs, problem.numbers
    strided = not all(each.flags.c_contiguous for each in inputs)
    if strided and _core.call_kind(problem.head, *how) != "cpu":
        inputs = tuple(np.ascontiguousarray(each) for each in inputs)
        numbers = numbers[:2]  # without the strides
    direct = out is not None and (in_place or takes_result(out, problem.dtype, inputs))
    size = math.prod(problem.shape) * problem.dtype.itemsize
    plan = kernel_plan(
        [(problem.head, numbers, tuple(each.nbytes for each in inputs), size)],
        tuple((k, 0) for k in range(len(inputs))),
        (problem.dtype, problem.shape, None, None, False, False),
        how,
        out=-1 if out is None else len(inputs),
        direct=direct,
    )
    return plan.run(*inputs, *(() if out is None else (out,)))
