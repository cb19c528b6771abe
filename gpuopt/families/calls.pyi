"""Types of the public calls: the result has the type of `out`, else of an array on a device.

Without either it is NumPy's: an array, or what a reduction makes, which depends on values.
A test compares the parameters with those of the functions.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gpuopt.util.literals import (
    DeviceName,
    MatmulRung,
    Mode,
    Op,
    ReduceRung,
    StencilRung,
    TransposeRung,
    VectorRung,
)

class OnDevice(Protocol):
    """An array of CuPy, PyTorch, JAX, Numba or gpuopt."""

    @property
    def __cuda_array_interface__(self) -> Any: ...

_Array = TypeVar("_Array", bound=OnDevice)
_Out = TypeVar("_Out", bound=np.ndarray | OnDevice)
_Scalar = TypeVar("_Scalar", bound=np.generic)

class _Where(TypedDict, total=False):
    device: DeviceName | str | Sequence[str] | None

class _WithBlock(_Where, total=False):
    block: int | None

class _Stored(_WithBlock, total=False):
    memory_limit: int | str | None
    progress: Callable[[str, float], None] | None

class _Reduce(_Stored, total=False):
    axis: int | tuple[int, ...] | None
    keepdims: bool
    variant: ReduceRung | int | None
    dtype: DTypeLike | None
    initial: Any
    blocks: int | None
    split_every: int | dict[int, int] | None
    group: Any
    timeout: float | None

class _Transpose(_Stored, total=False):
    variant: TransposeRung | int | None

class _Stencil(_Stored, total=False):
    weights: ArrayLike | OnDevice | None
    mode: Mode
    cval: float
    axis: int
    origin: int
    variant: StencilRung | int | None

class _Matmul(_Where, total=False):
    variant: MatmulRung | int | None

class _Vector(_WithBlock, total=False):
    variant: VectorRung | int | None

@overload
def reduce(
    array: ArrayLike | OnDevice, op: Op = "sum", *, out: _Out, **options: Unpack[_Reduce]
) -> _Out: ...
@overload
def reduce(
    array: _Array, op: Op = "sum", *, out: None = None, **options: Unpack[_Reduce]
) -> _Array: ...
@overload
def reduce(
    array: ArrayLike, op: Op = "sum", *, out: None = None, **options: Unpack[_Reduce]
) -> Any: ...
@overload
def transpose(
    a: ArrayLike | OnDevice,
    axes: Sequence[int] | None = None,
    *,
    out: _Out,
    **options: Unpack[_Transpose],
) -> _Out: ...
@overload
def transpose(
    a: _Array, axes: Sequence[int] | None = None, *, out: None = None, **options: Unpack[_Transpose]
) -> _Array: ...
@overload
def transpose(
    a: NDArray[_Scalar],
    axes: Sequence[int] | None = None,
    *,
    out: None = None,
    **options: Unpack[_Transpose],
) -> NDArray[_Scalar]: ...
@overload
def transpose(
    a: ArrayLike,
    axes: Sequence[int] | None = None,
    *,
    out: None = None,
    **options: Unpack[_Transpose],
) -> np.ndarray: ...
@overload
def stencil1d(
    a: ArrayLike | OnDevice,
    radius: int | Sequence[int] = 3,
    *,
    out: _Out,
    **options: Unpack[_Stencil],
) -> _Out: ...
@overload
def stencil1d(
    a: _Array, radius: int | Sequence[int] = 3, *, out: None = None, **options: Unpack[_Stencil]
) -> _Array: ...
@overload
def stencil1d(
    a: ArrayLike, radius: int | Sequence[int] = 3, *, out: None = None, **options: Unpack[_Stencil]
) -> np.ndarray: ...
@overload
def matmul(
    a: ArrayLike | OnDevice, b: ArrayLike | OnDevice, *, out: _Out, **options: Unpack[_Matmul]
) -> _Out: ...
@overload
def matmul(
    a: _Array, b: ArrayLike | OnDevice, *, out: None = None, **options: Unpack[_Matmul]
) -> _Array: ...
@overload
def matmul(
    a: ArrayLike, b: ArrayLike | OnDevice, *, out: None = None, **options: Unpack[_Matmul]
) -> np.ndarray: ...
@overload
def add(
    x: ArrayLike | OnDevice, y: ArrayLike | OnDevice, *, out: _Out, **options: Unpack[_Vector]
) -> _Out: ...
@overload
def add(
    x: _Array, y: ArrayLike | OnDevice, *, out: None = None, **options: Unpack[_Vector]
) -> _Array: ...
@overload
def add(
    x: ArrayLike, y: ArrayLike | OnDevice, *, out: None = None, **options: Unpack[_Vector]
) -> np.ndarray: ...
@overload
def saxpy(
    a: float,
    x: ArrayLike | OnDevice,
    y: ArrayLike | OnDevice,
    *,
    out: _Out,
    **options: Unpack[_Vector],
) -> _Out: ...
@overload
def saxpy(
    a: float, x: _Array, y: ArrayLike | OnDevice, *, out: None = None, **options: Unpack[_Vector]
) -> _Array: ...
@overload
def saxpy(
    a: float, x: ArrayLike, y: ArrayLike | OnDevice, *, out: None = None, **options: Unpack[_Vector]
) -> np.ndarray: ...
