"""NumPy's conversions in the default floating-point state, without warnings."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from gpuopt import _core

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def in_default_float_state(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function round to nearest and keep subnormal numbers, whatever its caller has set.

    NumPy warns of nothing inside: kernels never do. `_core` enters that state by itself; this is
    for NumPy's conversions around its calls.
    """

    @wraps(function)
    def inside(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
        before = _core.float_state(None)
        try:
            with np.errstate(all="ignore"):
                return function(*arguments, **keywords)
        finally:
            if before is not None:
                _core.float_state(before)

    return inside
