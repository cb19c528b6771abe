"""The floating-point state in which NumPy computes for us: not the caller's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from gpuopt import _core

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_default_float_state(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function round to nearest and keep subnormal numbers, whatever its caller has set.

    `_core` enters that state by itself; this is for NumPy's conversions around its calls.
    """

    @wraps(function)
    def inside(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        before = _core.float_state(None)
        if before is None:
            return function(*arguments, **keywords)
        try:
            return function(*arguments, **keywords)
        finally:
            _core.float_state(before)

    return inside
