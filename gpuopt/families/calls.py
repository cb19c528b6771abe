"""The public calls; `calls.pyi` has their types, by the array, `out` and its library."""

from gpuopt.families.matmul import matmul
from gpuopt.families.reduce import reduce
from gpuopt.families.stencil1d import stencil1d
from gpuopt.families.transpose import transpose
from gpuopt.families.vectors import add, saxpy

__all__ = ["add", "matmul", "reduce", "saxpy", "stencil1d", "transpose"]
