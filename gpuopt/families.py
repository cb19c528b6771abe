"""The families whose result is an array: transpose."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike

from gpuopt import arrays
from gpuopt.arrays import Problem

# What the transpose moves an item as, by its bytes.
WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}


def _names_rung(variant: object, number: int, name: str) -> bool:
    """Tell whether `variant` means a rung; what is no variant at all is found out later."""
    try:
        return variant == name if isinstance(variant, str) else operator.index(variant) == number
    except TypeError:
        return False


def transpose_problem(a: np.ndarray, *, copy: bool = False) -> Problem:
    """Describe a transpose, or the copy that is its ceiling."""
    if a.ndim != 2:
        raise ValueError(f"a: must have 2 dimensions, not {a.ndim}; pass a.reshape(rows, columns)")
    # Items with references, and those of dtypes from elsewhere, are more than their bytes.
    if a.dtype.hasobject or a.dtype.char == "T" or a.dtype.isbuiltin not in (0, 1):
        raise TypeError(f"a: dtype {a.dtype} is not supported: its items are more than their bytes")
    word = WORDS.get(a.dtype.itemsize)
    if word is None:
        raise TypeError(
            f"a: dtype {a.dtype} has items of {a.dtype.itemsize} bytes; "
            "1, 2, 4, 8 and 16 are supported"
        )
    run = np.require(a, requirements=["C_CONTIGUOUS"])
    run = np.require(run.view(word), requirements=["ALIGNED"])
    rows, columns = a.shape
    shape = (rows, columns) if copy else (columns, rows)
    return Problem("transpose", "move", word, word, (run,), shape, run.dtype, (rows, columns))


def transpose(
    a: ArrayLike,
    *,
    variant: int | str | None = None,
    out: np.ndarray | None = None,
    block: int | None = None,
    device: str | None = None,
) -> np.ndarray:
    """Transpose a matrix in memory, on a rung of the transpose ladder.

    Parameters
    ----------
    a : array_like, shape (M, N)
        Any layout and byte order; any dtype with items of 1, 2, 4, 8 or 16 bytes (also datetime,
        text and structured ones) that holds no Python objects.
    variant : int or str, optional
        The rung, by the deck's number or by name: 1 "1d", 2 "2d", 3 "tex", 4 "shared", 5 "padded"
        and 6 "multi" are CUDA kernels, "serial" and "openmp" run on the cpu. 0 "copy" is the
        ladder's ceiling: it moves as many bytes and transposes nothing. Default: the best for the
        device.
    out : ndarray, shape (N, M), optional
        Receives the result and is returned. It may overlap `a`.
    block : int, optional
        Threads a block, a power of two; which ones, `gpuopt.rungs` tells.
    device : str, optional
        "cuda", "cuda:1" or "cpu". Default: the environment's GPUOPT_DEVICE; else a GPU if there is
        one; else the cpu.

    Returns
    -------
    ndarray, shape (N, M)
        In C order, of a's dtype: what ``numpy.ascontiguousarray(a.T)`` gives. Of rung 0, a copy of
        `a`, shape (M, N).

    Raises
    ------
    TypeError
        A dtype whose items are of another size or hold objects; masked arrays; an `out` of a dtype
        that cannot take a's.
    ValueError
        `a` has not two dimensions; `out` has another shape or is read-only; an unknown variant,
        block or device.
    DeviceMemoryError, DeviceError
        As `gpuopt.reduce`.

    Notes
    -----
    Source: deck D1 (Introduction to GPU computing and CUDA, NVIDIA), the transpose ladder.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.transpose([[1, 2, 3], [4, 5, 6]], device="cpu")
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    a = arrays.array_in(a, "a")
    problem = transpose_problem(a, copy=_names_rung(variant, 0, "copy"))
    if out is None:
        result = np.empty(problem.shape, a.dtype)
        arrays.run(problem, variant, block, device, result.view(problem.dtype))
        return result
    arrays.check_out(out, problem.shape, a.dtype)
    in_place = arrays.takes_in_place(out, a.dtype, problem.inputs)
    if in_place and out.view(problem.dtype).flags.aligned:
        arrays.run(problem, variant, block, device, out.view(problem.dtype))
    else:
        result = arrays.run(problem, variant, block, device)
        np.copyto(out, result.view(a.dtype), casting="same_kind")
    return out
