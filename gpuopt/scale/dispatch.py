"""Chooses the engine of a call that one device does not serve; imports it when it is needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gpuopt.families import engines
from gpuopt.scale.kinds import has_slices, is_dask, is_stored

_ARRAYS = ("array", "a", "b", "x", "y")  # parameters that receive arrays
_STORED = ("reduce", "transpose", "stencil1d")  # families that read arrays in files


@cache
def _engine(name: str) -> Any:
    return import_module(f"gpuopt.scale.{name}")


def serve(family: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Serve a call with the engine for its arrays, device and options, or NotImplemented."""
    arrays = [arguments[name] for name in _ARRAYS if name in arguments]
    if "group" in options:
        return _engine("group").serve(family, arguments, options)
    if any(is_dask(each) for each in arrays):
        return _engine("dask_arrays").serve(family, arguments, options)
    if any(map(engines.is_shards, arrays)):
        return _engine("several").serve_lists(family, arguments, options)
    if engines.is_several(arguments["device"]):
        return _engine("several").serve(family, arguments, options)
    if family in _STORED:
        asked = "memory_limit" in options or "progress" in options
        mapped = isinstance(arrays[0], np.ndarray) and arguments["variant"] is not None
        if (asked and has_slices(arrays[0])) or (is_stored(arrays[0]) and not mapped):
            return _engine("stored").serve(family, arguments, options)
    return NotImplemented


engines.register(serve)
