"""Kernels of Numba on a simulated GPU: `gpuopt.from_numba`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuopt import _core
from gpuopt.jit.request import OLDEST
from gpuopt.ptx.kernel import Kernel
from gpuopt.ptx.module import Module
from gpuopt.util.names import suggests

ROOTS = ("numba_cuda_mlir", "numba_cuda", "numba")


def _strides(array: np.ndarray) -> list[int]:
    """Return the strides of an array's copy in C order, in elements."""
    found = [1]
    for length in reversed(array.shape[1:]):
        found.insert(0, found[0] * length)
    return found[: array.ndim]


def _memref(array: np.ndarray) -> list[Any]:
    """Return the parameters of an array in numba-cuda-mlir: MLIR's descriptor."""
    return [array, array, 0, *array.shape, *_strides(array)]


def _structure(array: np.ndarray) -> list[Any]:
    """Return the parameters of an array in numba-cuda."""
    strides = [array.itemsize * each for each in _strides(array)]
    return [0, 0, array.size, array.itemsize, array, *array.shape, *strides]


class NumbaKernel:
    """A kernel of Numba that runs on a simulated GPU: ``kernel[grid, block](*arrays)``.

    Made by `gpuopt.from_numba`. It is compiled anew for each combination of the arguments' types.

    Attributes
    ----------
    name : str
        The Python function's name.
    device : str

    Examples
    --------
    >>> import gpuopt
    >>> sorted(name for name in vars(gpuopt.NumbaKernel) if not name.startswith("_"))
    ['bound']
    """

    def __init__(self, dispatcher: Any, root: str, device: str) -> None:
        self.name, self.device = dispatcher.py_func.__name__, device
        self._dispatcher, self._root = dispatcher, root
        self._flat = _memref if root == "numba_cuda_mlir" else _structure
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def __repr__(self) -> str:
        return f"<NumbaKernel {self.name} on {self.device}>"

    def __getitem__(self, launch: Any) -> Callable[..., None]:
        """Return a callable for a launch ``[grid, block, stream, shared]``; streams are unused."""
        given = launch if isinstance(launch, tuple) else (launch,)
        if not 2 <= len(given) <= 4:
            raise ValueError(
                f"{self.name}: a launch is [grid, block], [grid, block, stream] or [grid, block, "
                f"stream, shared], not {len(given)} values"
            )
        shared = given[3] if len(given) > 3 else 0

        def run(*arguments: Any, **keywords: Any) -> None:
            kernel, flat = self.bound(*arguments)
            kernel(given[0], given[1], *flat, shared=shared, **keywords)

        return run

    def bound(self, *arguments: Any) -> tuple[Kernel, list[Any]]:
        """Return the kernel for these arguments' types, and the arguments that it takes.

        For `gpuopt.explain` and `gpuopt.profile`: ``kernel, flat = numba_kernel.bound(x, y)``, then
        ``gpuopt.explain(kernel, grid, block, *flat)``.

        Parameters
        ----------
        *arguments
            NumPy arrays and numbers, as Numba's kernel takes them.
        """
        types = tuple(self._type(i, each) for i, each in enumerate(arguments))
        if types not in self._kernels:
            self._kernels[types] = self._compiled(types)
        flat: list[Any] = []
        for each in arguments:
            flat += self._flat(each) if isinstance(each, np.ndarray) else [each]
        return self._kernels[types], flat

    def _type(self, i: int, argument: Any) -> Any:
        known = np.ndarray | int | float | np.integer | np.floating | np.bool_
        if not isinstance(argument, known) or (
            isinstance(argument, np.ndarray) and (not argument.ndim or argument.dtype.hasobject)
        ):
            raise TypeError(
                f"{self.name}: argument {i + 1} must be a NumPy array of one or more dimensions or "
                f"a real number, not {type(argument).__name__}"
            )
        return self._dispatcher.typeof_pyval(argument)

    def _compiled(self, types: tuple[Any, ...]) -> Kernel:
        """Compile the function for some types of arguments, without a GPU."""
        number = max(OLDEST, _core.device_info(self.device)["compute_capability"])
        capability = divmod(number, 10)
        cuda = importlib.import_module(f"{self._root}.cuda")
        if self._root == "numba_cuda_mlir":  # it asks the driver even where `cc` is given
            tools = importlib.import_module("numba_cuda_mlir.tools")
            if getattr(tools, "_cached_cc", capability) is None:
                tools._cached_cc = capability
        function = self._dispatcher.py_func
        ptx, _ = cuda.compile_ptx(function, types, cc=capability, lineinfo=True)
        module = Module(ptx.encode() if isinstance(ptx, str) else ptx, self.device)
        return module[module.kernels[0]]


@suggests
def from_numba(dispatcher: Any, device: str | None = None) -> NumbaKernel:
    """Return a kernel of Numba that runs on a simulated GPU, without a GPU and without a driver.

    It takes the place of Numba's own simulator (``NUMBA_ENABLE_CUDASIM``): the kernel is compiled
    as for a GPU, and its instructions are run, checked and counted.

    Parameters
    ----------
    dispatcher : kernel of ``@cuda.jit``
        A kernel of numba-cuda-mlir (``from numba_cuda_mlir import cuda``) or numba-cuda.
    device : str, optional
        "sim", or a preset as "sim:t4".

    Returns
    -------
    NumbaKernel
        ``kernel[grid, block, stream, shared](*arguments)`` with NumPy arrays and numbers.

    Raises
    ------
    TypeError
        It is no kernel of Numba.
    ValueError
        The device is not simulated.

    Examples
    --------
    >>> import gpuopt
    >>> gpuopt.from_numba(print)
    Traceback (most recent call last):
    ...
    TypeError: dispatcher: must be a kernel of @cuda.jit, not builtin_function_or_method
    """
    root = type(dispatcher).__module__.partition(".")[0]
    if root not in ROOTS or not hasattr(dispatcher, "py_func"):
        raise TypeError(
            f"dispatcher: must be a kernel of @cuda.jit, not {type(dispatcher).__name__}"
        )
    name = device or "sim"
    if not name.startswith("sim"):
        raise ValueError(f"device: {name!r} is not simulated; Numba itself runs on a GPU")
    return NumbaKernel(dispatcher, root, _core.device_info(name)["name"])
