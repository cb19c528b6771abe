"""The classic GPU-optimisation ladders as real, callable kernels.

>>> import numpy as np, gpuopt
>>> gpuopt.reduce(np.arange(10), device="cpu")
np.int64(45)

The public names, and the module of each, stand in ``__init__.pyi``: for type checkers and for this
file. It imports the functions that compute at once, and other modules when one of their names is
first used: a script that only computes does not load what measures and explains.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

try:
    import_module("gpuopt._core")
except ImportError as error:
    if "gpuopt._core" not in (error.name, *str(error).replace("'", " ").split()):
        raise  # NumPy's own _core, for one
    raise ImportError(
        "gpuopt's compiled part is missing: this is its source tree, where nothing is built yet. "
        "Run 'pip install -e .' there, or leave that folder to import an installed gpuopt"
    ) from error


def _homes() -> dict[str, str]:
    """Return the module that each public name is imported from."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (each for each in stub.body if isinstance(each, ast.ImportFrom))
    return {name.name: each.module or "" for each in imports for name in each.names}


_HOME = _homes()
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'gpuopt' has no attribute {name!r}")
    if home == "gpuopt":
        return import_module(f"gpuopt.{name}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


import_module("gpuopt.util.public").found_by(__getattr__)
import_module("gpuopt.scale.dispatch")  # registers the engine for Dask arrays, files, several GPUs

# A signal handler may call these at any time. If imported at first use, a handler that interrupts
# that import finds half a module, which cannot be completed before the handler returns.
for _name, _home in _HOME.items():
    if _home.startswith("gpuopt.families."):
        __getattr__(_name)


def __dir__() -> list[str]:
    return list(__all__)
