"""`gpuopt.reduce`: which of three ways a reduction goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuopt import _core
from gpuopt.families import device_reduce, reduce_axis

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike


def reduce(
    array: ArrayLike,
    op: str = "sum",
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    variant: int | str | None = None,
    dtype: DTypeLike | None = None,
    out: np.ndarray | None = None,
    initial: Any = ...,
    block: int | None = None,
    device: str | None = None,
) -> Any:
    """Reduce an array to one value on a rung of the reduction ladder, or along axes.

    Parameters
    ----------
    array : array_like
        Anything that `numpy.asarray` takes, of any shape and layout: bool, integers and floats,
        ml_dtypes' bfloat16 among them. Also complex64 and complex128: for "sum", "mean", "any",
        "all", "count" and, on the cpu, "prod". Rungs 1 to 13 take bool, int32, int64, float32 and
        float64.
        Or an array on a device: of CuPy, PyTorch, JAX, Numba or `gpuopt.asarray`, or of anybody
        with the CUDA array interface or DLPack. Its items are read in place, on its library's
        current stream, in any layout: with gaps, reversed, permuted, broadcast. A kernel copies
        them on the device first where `dtype` or "prod" needs other items, where "argmin" or
        "argmax" goes over several axes that are no run of memory in C order, where a rung of the
        ladder is named for an array with gaps, and where more than four axes on either side of
        the reduced one cannot be merged.
    op : {"sum", "prod", "min", "max", "and", "or", "xor", "mean", "any", "all", "count", \
"argmin", "argmax"}
        The operation; "and", "or" and "xor" (bitwise) take integers and bool, "count" counts the
        items that are not 0. A NaN makes "min" and "max" NaN and is the first of all for "argmin"
        and "argmax"; integers wrap: as in NumPy.
    axis : int or tuple of int, optional
        The axes to reduce, from the end if negative; "argmin" and "argmax" take one. Default: all.
    keepdims : bool
        Keep the reduced axes, with size 1.
    variant : int or str, optional
        The rung, by the deck's number or by name: 1 to 13 and "5-historical" are CUDA kernels,
        "serial", "openmp" and "simd" run on the cpu. Default: the best for the device and the size;
        of kernels 13, or 11 for an array of less than 12 rounds of 64 KiB a block.
        `gpuopt.rungs` lists them. With `axis`, `keepdims` or an operation from "mean" on, a rung of
        the family "reduce_axis".
    dtype : dtype, optional
        The type to compute in and return. Default: NumPy's (integers of "sum" and "prod" become
        int64 or uint64, bool becomes int64). ``dtype=numpy.int32`` gives the decks' 32-bit
        arithmetic.
    out : ndarray, optional
        An array of the result's shape that receives it and is returned. Without `dtype`, sums and
        products of integers are computed in its dtype, all else in that which NumPy promotes both
        to, and cast at the end. For an array on a device, one there in C order, of the result's
        dtype (the call does not wait); or one of NumPy's: the result is on the host when the call
        returns, a single value by the shortest way there is.
    initial : scalar, optional
        Starting value; what an empty array gives. None: no starting value, not even the
        operation's identity, so that an empty array is an error.
    block : int, optional
        Threads a block, a power of two from 32 to 1024, where the rung leaves a choice
        (`gpuopt.rungs`: 1 to 8 do). Default: the deck's 128, or the rung's own.
    device : str, optional
        "cuda", "cuda:1", "sim", "sim:g80" (a simulated GPU) or "cpu". Default: that of an enclosing
        `gpuopt.profile`; else the environment's GPUOPT_DEVICE; else a GPU if there is one (and,
        with no variant named, if it has a kernel for the dtype); else, for a rung that is a kernel,
        the simulated GPU; else the cpu.

    Returns
    -------
    scalar or array
        A NumPy scalar, the array over the axes that are left, or `out`. For an array on a device,
        an array of the same library there, 0-d instead of a scalar, in the order of its stream:
        nobody waits (but JAX's results do, and those with `initial`). JAX takes a result of 64 bits
        for one of 32, whose integers wrap, unless its option ``jax_enable_x64`` is set. While the
        array's stream is captured into a CUDA graph (``torch.cuda.graph``, CuPy's
        ``begin_capture``) the call becomes part of that, as those of all families do.

    Raises
    ------
    TypeError
        A dtype that the rung does not take; an `out` that a result of the `dtype` named cannot be
        cast to (same kind); object, string, datetime, structured or masked arrays;
        a `dtype` that items on a device are not converted to (floats to integers, complex ones).
    ValueError
        An unknown op, variant, block or device; "min" or "max" of nothing without `initial`; an
        axis that is named twice; an array on another device than the one named; an `out` that
        shares memory with it.
    AxisError
        `numpy.exceptions.AxisError`: an axis that the array does not have.
    DeviceMemoryError
        The device has not enough memory; a MemoryError with `bytes_asked` and `bytes_free`.
    DeviceError
        The device cannot serve; a RuntimeError that says why. In a capture, a call that would wait
        for a value, or take an array of the host or of another stream; the capture goes on.
    SimError
        A check of the simulated GPU failed while a kernel ran: a race, an access out of bounds, ...

    Notes
    -----
    The result is bitwise the same from run to run. On the cpu float16 and float32 accumulate in
    float64, in a tree whose shape depends on the number of items alone: the same bits from every
    rung, instruction set and number of threads. A result that overflows becomes infinite on every
    device, and the mean of nothing NaN, without the RuntimeWarning that NumPy gives (a cast to an
    `out` that is narrower gives it). Along axes and for small types, sums of float16, bfloat16 and
    float32 accumulate in float64 (on a GPU the first two by eights in float32) and are rounded
    once; so are sums and products of float32 on rungs 11 to 13, the defaults. Rungs 1 to 10
    accumulate in the result's dtype, as the decks do: with u the unit roundoff (2^-24 for float32)
    and k the most additions that an item goes through, the error is at most
    k * u * sum(abs(array)); k is about log2(n) for rungs 1 to 6 and
    n / (threads of the grid) + log2(n) for rungs 7 to 10.

    Source: decks D0 (DirectCompute Optimizations, NVIDIA GTC 2010) and D4 (Reduction, after M.
    Harris), reductions 1 to 7.

    Examples
    --------
    >>> import numpy as np, gpuopt
    >>> gpuopt.reduce([1, 2, 3, 4], device="cpu")
    np.int64(10)
    >>> gpuopt.reduce(np.array([2.5, np.nan]), "max", device="cpu")
    np.float64(nan)
    >>> gpuopt.reduce(np.arange(6).reshape(2, 3).T[::-1], "prod", initial=7, device="cpu")
    np.int64(0)
    >>> gpuopt.reduce(np.arange(6).reshape(2, 3), axis=0, device="cpu")
    array([3, 5, 7])
    >>> gpuopt.reduce([[1, 5, 2], [7, 0, 7]], "argmax", axis=1, device="cpu")
    array([1, 0])
    """
    view = device_reduce.view_of(array, "array")
    if view is not None:
        return device_reduce.reduce(
            view, op, axis, keepdims, variant, dtype, out, initial, block, device
        )
    along = axis is not None or keepdims or (type(op) is str and op in reduce_axis.OTHERS)
    if not along:
        array = reduce_axis.once(array)
    if along or reduce_axis.serves_whole(array, op, variant, dtype, out, block, device):
        return reduce_axis.reduce_axis(
            array, op, axis, keepdims, variant, dtype, out, initial, block, device
        )
    return _core.reduce(array, op, variant, dtype, out, initial, block, device)
