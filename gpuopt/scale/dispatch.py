"""Chooses the engine of a call that one device does not serve; imports it when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gpuopt.families import engines
from gpuopt.scale.kinds import is_dask

_ARRAYS = ("array", "a", "b", "x", "y")  # parameters that receive arrays


def serve(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Serve a call with the engine for its arrays, device and options, or NotImplemented."""
    arrays = [arguments[name] for name in _ARRAYS if name in arguments]
    if any(is_dask(each) for each in arrays):
        return import_module("gpuopt.scale.dask_arrays").serve(family, arguments, options)
    return NotImplemented


engines.register(serve)
