"""Kernels of Numba on a simulated GPU."""

import numpy as np
import pytest

import gpuopt

cuda = pytest.importorskip("numba_cuda_mlir.cuda", reason="needs numba-cuda-mlir")


@cuda.jit
def scale(x, y, factor):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = factor * x[i]


@cuda.jit
def transposed(a, b):
    row, column = cuda.grid(2)
    if row < a.shape[0] and column < a.shape[1]:
        b[column, row] = a[row, column]


@cuda.jit
def block_sums(x, sums):
    tile = cuda.shared.array(128, dtype=np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(sums, 0, tile[0])


@cuda.jit
def unchecked(x):
    x[cuda.grid(1) + 1] = 1.0


def test_launch_has_numba_s_syntax():
    kernel = gpuopt.from_numba(scale)
    for dtype in (np.float32, np.float64, np.int32):
        x, y = np.arange(1000).astype(dtype), np.zeros(1000, dtype)
        kernel[4, 256](x, y, 3)
        np.testing.assert_array_equal(y, 3 * x)
    kernel[(4,), (256,), 0, 0](x, y, 2)
    np.testing.assert_array_equal(y, 2 * x)


def test_arrays_of_two_dimensions_and_views():
    a = np.random.default_rng(1).random((70, 33))
    for given in (a, a[::2], a.T):
        b = np.zeros(given.shape[::-1])
        gpuopt.from_numba(transposed, "sim:t4")[(5, 5), (16, 16)](given, b)
        np.testing.assert_array_equal(b, given.T)


def test_shared_memory_and_atomics():
    x, sums = np.ones(1024, np.float32), np.zeros(1, np.float32)
    gpuopt.from_numba(block_sums)[8, 128](x, sums)
    assert sums[0] == 1024


def test_findings_and_advice():
    kernel = gpuopt.from_numba(unchecked)
    found = gpuopt.check(kernel[1, 32], np.zeros(32, np.float32))
    assert found[0].kind == "out of bounds"
    inner, flat = kernel.bound(np.zeros(32, np.float32))
    assert gpuopt.explain(inner, 1, 32, *flat)[0].rule == "bounds-check"


def test_launch_is_a_function_for_explain_and_the_fixture(gpuopt_check):
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    launch = gpuopt.from_numba(scale)[4, 256]
    gpuopt_check(launch, x, y, 3).assert_at_most(bank_conflicts=0, sectors_per_load=4.1)
    assert (y == 3).all()
    found = gpuopt.explain(gpuopt.from_numba(unchecked)[1, 32], np.zeros(32, np.float32))
    assert (found[0].rule, found[0].severity) == ("bounds-check", "error")
    assert found[0].file and found[0].file.endswith("test_numba.py")


def test_bad_arguments_are_named():
    kernel = gpuopt.from_numba(scale)
    x = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match=r"a launch is \[grid, block\]"):
        kernel[4]
    with pytest.raises(TypeError, match="argument 2 must be a NumPy array"):
        kernel[1, 32](x, "y", 2.0)
    with pytest.raises(ValueError, match="is not simulated"):
        gpuopt.from_numba(scale, "cuda")
    with pytest.raises(TypeError, match=r"kernel of @cuda.jit"):
        gpuopt.from_numba(lambda: None)
