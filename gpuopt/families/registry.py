"""The families whose result is an array; each module has a function and a problem.

`<family>_problem` describes a call on host arrays (arrays/inout.py), for the measuring modules.
"""

# ruff: noqa: F401 (they are for others)

from gpuopt.families.matmul import matmul, matmul_problem
from gpuopt.families.reduce import reduce
from gpuopt.families.stencil1d import stencil1d, stencil1d_problem
from gpuopt.families.transpose import transpose, transpose_problem
from gpuopt.families.vectors import add, add_problem, saxpy, saxpy_problem
