"""`gpuopt.reduce`: chooses one of three paths for a reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuopt import _core
from gpuopt.arrays import inout
from gpuopt.arrays.libraries import View, quick_view
from gpuopt.families import device_reduce, engines, reduce_axis
from gpuopt.util.checks import flag
from gpuopt.util.float_state import in_default_float_state
from gpuopt.util.literals import DeviceName, Op, ReduceRung
from gpuopt.util.names import misspelt, suggests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, DTypeLike


def _plan(
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    out: Any,
    initial: Any,
    block: Any,
    device: Any,
) -> _core.Plan | None:
    """Plan a reduction of a host array: of the whole array on the ladder, or along axes."""
    keepdims = flag(keepdims, "keepdims")
    if isinstance(array, View):
        if initial is not ...:
            return None
        how = (variant, block)
        return device_reduce.plan(array, op, axis, keepdims, dtype, out, how, device)
    if not isinstance(array, np.ndarray) or not isinstance(op, str):
        return None
    whole = axis is None and not keepdims and op not in reduce_axis.OTHERS
    if initial is not ... and not (whole and initial and op != "prod"):  # 0 may be negative
        return None
    if whole and not reduce_axis.serves_whole(array, op, variant, dtype, out, block, device):
        return reduce_axis.plan_whole(array, op, variant, dtype, out, block, device)
    if initial is not ...:
        return None
    return reduce_axis.plan_axis(array, op, axis, keepdims, variant, dtype, out, block, device)


def _reduce(
    array: Any,
    op: Any,
    axis: Any,
    keepdims: Any,
    variant: Any,
    dtype: Any,
    out: Any,
    initial: Any,
    block: Any,
    device: Any,
) -> Any:
    """Reduce anything: lists, subclasses, arrays on a device, with `initial` along axes."""
    keepdims = flag(keepdims, "keepdims")
    view = device_reduce.view_of(array, "array")
    if view is not None:
        return device_reduce.reduce(
            view, op, axis, keepdims, variant, dtype, out, initial, block, device
        )
    if isinstance(array, np.matrix) and axis is None and not keepdims:
        array = np.asarray(array)  # only results along axes differ
    plain = inout.array_in(array, "array")
    if type(array) is not np.ndarray and isinstance(op, str):
        return _run(plain, op, axis, keepdims, variant, dtype, out, initial, block, device)
    along = axis is not None or keepdims or (isinstance(op, str) and op in reduce_axis.OTHERS)
    if along or reduce_axis.serves_whole(plain, op, variant, dtype, out, block, device):
        found = reduce_axis.reduce_axis(
            plain, op, axis, keepdims, variant, dtype, out, initial, block, device
        )
    else:
        whole = reduce_axis.plan_whole(plain, op, variant, dtype, out, block, device)
        found = whole.run(plain, *(None,) * 5, out, initial)
    return found if initial is ... else _started(found, plain, op, axis, keepdims, initial)


_started = in_default_float_state(reduce_axis.from_the_start)
_NAMES = (
    "array", "op", "axis", "keepdims", "variant", "dtype", "out", "initial", "block", "device",
)  # fmt: skip
_planner, _general = engines.entry("reduce", _NAMES, _plan, _reduce)
_entry = _core.Entry("akkkktokkd", _NAMES, _planner, _general, quick_view)
_run = _entry.run


@_entry.front
@suggests
def reduce(
    array: ArrayLike,
    op: Op = "sum",
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    variant: ReduceRung | int | None = None,
    dtype: DTypeLike | None = None,
    out: np.ndarray | None = None,
    initial: Any = ...,
    block: int | None = None,
    blocks: int | None = None,
    device: DeviceName | str | Sequence[str] | None = None,
    split_every: int | dict[int, int] | None = None,
    memory_limit: int | str | None = None,
    progress: Callable[[str, float], None] | None = None,
    group: Any = None,
    timeout: float | None = None,
    **unknown: Any,
) -> Any:
    """Reduce an array to one value on a rung of the reduction ladder, or along axes.

    Parameters
    ----------
    array : array_like
        Anything that `numpy.asarray` accepts, of any shape and layout: bool, integers, floats and
        ml_dtypes' bfloat16. Also complex64 and complex128, for "sum", "mean", "any", "all", "count"
        and, on the cpu, "prod". Rungs 1 to 13 accept bool, int32, int64, float32 and float64.

        Or an array on a device: of CuPy, PyTorch, JAX, Numba or `gpuopt.asarray`, or of any library
        with the CUDA array interface or DLPack. Its elements are read in place, on its library's
        current stream, in any layout: strided, reversed, permuted, broadcast. In four cases a
        kernel copies them on the device first: `dtype` or "prod" needs another dtype; "argmin" or
        "argmax" reduces several axes that are not contiguous in C order; a rung of the ladder is
        named for an array with gaps; more than four axes on either side of the reduced one cannot
        be merged.

        Or a Dask array: the result is lazy, and nothing depends on the order of its tasks. Or an
        array in a file (`numpy.memmap`, HDF5, Zarr): it is read in blocks.
    op : {"sum", "prod", "min", "max", "and", "or", "xor", "mean", "any", "all", "count", \
"argmin", "argmax"}
        The operation. "and", "or" and "xor" (bitwise) accept integers and bool; "count" counts the
        nonzero elements. As in NumPy, "min" and "max" propagate NaN, "argmin" and "argmax" return
        the first NaN, and integers wrap.
    axis : int or tuple of int, optional
        The axes to reduce, from the end if negative; one for "argmin" and "argmax". Default: all.
    keepdims : bool
        Keep the reduced axes, with size 1.
    variant : int or str, optional
        The rung, by the deck's number or by name: 1 to 13 are CUDA kernels, "1-historical" to
        "7-historical" the decks' listings; "serial", "openmp" and "simd" run on the cpu. Default:
        the best for the device and the size; among the kernels 13, or 11 for an array of less than
        12 rounds of 64 KiB per block.
        `gpuopt.rungs` lists them. With `axis`, `keepdims` or an operation from "mean" on: a rung of
        the family "reduce_axis".
    dtype : dtype, optional
        The type to compute in and return, in the machine's byte order; a mean in an integer type
        converts the elements first. Default: NumPy's (integers of "sum" and "prod" become
        int64 or uint64, bool becomes int64). ``dtype=numpy.int32`` selects the decks' 32-bit
        arithmetic.
    out : ndarray, optional
        An array of the result's shape that receives it and is returned. Without `dtype`, sums and
        products of integers are computed in its dtype; other operations are computed in NumPy's
        promotion of both dtypes and cast at the end; indices go to any integer type. For an array
        on a device: an array there, in C order and of the result's dtype (the call does not wait);
        or a NumPy array, which holds the result when the call returns.
    initial : scalar, optional
        The starting value, and the result for an empty array. None: no starting value, not even
        the operation's identity, so that an empty array is an error. With None or -0.0 a sum of
        negative zeros is a negative zero.
    block : int, optional
        Threads per block, a power of two from 32 to 1024, if the rung leaves a choice
        (`gpuopt.rungs`: 1 to 8 do). Default: the deck's 128, or the rung's own. The deck's ten
        instances for blocks of 512 to 1 are "6-historical".
    blocks : int, optional
        Blocks of the first pass, at most, on rungs 7 to 11 and "7-historical"; fewer where there
        are fewer elements. Deck D4 found 64 to 256 blocks of 128 threads best on a G80. Default:
        the deck's 64 for "7-historical", otherwise all blocks that can be resident.
    device : str or list of str, optional
        "cuda", "cuda:1", "sim", "sim:g80" (a simulated GPU) or "cpu". Default: that of an enclosing
        `gpuopt.profile`; else the environment's GPUOPT_DEVICE; else a GPU if there is one (and,
        with no variant named, if it has a kernel for the dtype); else, for a rung that is a kernel,
        the simulated GPU; else the cpu. For a Dask array: the device of every worker. Several: a
        list of names, or ``"cuda:*"`` for all GPUs, each of which gets a slice of a host array. A
        list of arrays, one per device, needs no names: it counts as one array along the first axis,
        and its results stay there, a list of slices, unless there is only one number.
    split_every : int or dict, optional
        For a Dask array: how many chunks are joined at once, as in `dask.array.reduction`.
    memory_limit : int or str, optional
        For an array in a file: bytes of memory, or text as "2GiB". Default: 512 MiB.
    progress : callable, optional
        For an array in a file: called with a text and the completed share, from 0 to 1.
    group : optional
        A group of torch.distributed or a communicator of mpi4py; all its ranks make this call.
        Their arrays count as one along the first axis; each rank receives the result, on the host.
    timeout : float, optional
        Seconds to wait for the ranks of `group`. Default: 60.

    Returns
    -------
    scalar or array
        A NumPy scalar, an array over the kept axes, or `out`. For an array on a device: an array of
        the same library there, 0-d instead of a scalar, in the order of its stream. The call does
        not wait, except for JAX's arrays and with `initial`. JAX truncates 64-bit results to 32
        bits unless its option ``jax_enable_x64`` is set. While the array's stream is captured into
        a CUDA graph (``torch.cuda.graph``, CuPy's ``begin_capture``), a call of any family becomes
        part of the graph.

    Raises
    ------
    TypeError
        A dtype that the rung does not accept, or `dtype` in a foreign byte order; an `out` that a
        result of `dtype` cannot be cast to (same kind); object, string, datetime, structured or
        masked arrays, `numpy.matrix`; a `dtype` that elements on a device are not converted to
        (floats to integers, complex ones).
    ValueError
        An unknown op, variant, block or device; `blocks` for a rung without the choice; "min" or
        "max" of an empty array without `initial`; an axis that is named twice; an array that is
        not on the device named; an `out` that shares memory with it; missing values of pandas'
        nullable types.
    OverflowError
        An `initial` that the result's integer type does not hold.
    AxisError
        `numpy.exceptions.AxisError`: an axis that the array does not have.
    DeviceMemoryError
        The device is out of memory; a MemoryError with `bytes_asked` and `bytes_free`.
    DeviceError
        The device is unavailable; a RuntimeError with the reason. During a capture: a call that
        would wait for a value, or that uses an array on the host or of another stream; the capture
        continues.
    SimError
        A check of the simulated GPU failed while a kernel ran: a race, an access out of bounds, ...

    Notes
    -----
    Results are bitwise equal from run to run. "min" and "max" of zeros follow IEEE 754-2019 on
    every device: -0 is less than +0. NumPy's sign depends on the width of its vectors. A product
    that overflows on the way and meets a zero is NaN or zero, depending on the order, as in NumPy;
    those of float16 and float32 overflow later than NumPy's.

    On the cpu float16 and float32 accumulate in float64,
    in a tree whose shape depends on the number of elements only: every rung, instruction set and
    number of threads returns the same bits. No function and no device issues NumPy's
    RuntimeWarnings: a result that overflows becomes infinite, the mean of an empty array NaN. Along
    axes and for small types, sums of float16, bfloat16 and float32 accumulate in float64 (on a GPU
    the first two in float32, eight at a time) and are rounded once; so are sums and products of
    float32 on rungs 11 to 13, the defaults. Rungs 1 to 10 accumulate in the result's dtype, as the
    decks do. With u the unit roundoff (2^-24 for float32) and k the largest number of additions on
    an element's path, their error is at most k * u * sum(abs(array)); k is about log2(n) for rungs
    1 to 6 and n / (threads of the grid) + log2(n) for rungs 7 to 10.

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
    if unknown:
        raise misspelt(reduce, unknown)
    launch = block if blocks is None else (block, blocks)
    if not (split_every is memory_limit is progress is group is timeout is None):
        given = (array, op, axis, keepdims, variant, dtype, out, initial, launch, device)
        return engines.run(
            "reduce", _NAMES, given, split_every=split_every, memory_limit=memory_limit,
            progress=progress, group=group, timeout=timeout,
        )  # fmt: skip
    try:
        return _run(array, op, axis, keepdims, variant, dtype, out, initial, launch, device)
    except _core.DeviceMemoryError as error:
        return engines.run_in_blocks(
            "reduce",
            _NAMES,
            (array, op, axis, keepdims, variant, dtype, out, initial, launch, device),
            error,
        )
