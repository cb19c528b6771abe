"""Kernels that CuPy and Triton compiled run from their PTX."""

from pathlib import Path

import numpy as np
import pytest

import gpuopt

FOLDER = Path(__file__).parent / "elsewhere"


def load(name):
    return gpuopt.load_ptx(FOLDER / name, device="sim")


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_triton_adds_and_leaves_masked_elements(rng):
    kernel = load("triton_add.ptx")["add_kernel"]
    x, y = rng.random(5000, np.float32), rng.random(5000, np.float32)
    out = np.zeros(5120, np.float32)
    kernel(5, 4 * 32, x, y, out, 5000, 0, 0)  # the last two: scratch memory, unused
    assert (out[:5000] == x + y).all() and not out[5000:].any()
    assert gpuopt.check(kernel, 5, 128, x, y, out, 5000, 0, 0) == []
    assert gpuopt.explain(kernel, 5, 128, x, y, out, 5000, 0, 0).ok


def test_triton_softmax_by_shared_memory(rng):
    kernel = load("triton_softmax.ptx")["softmax_kernel"]
    x = rng.random((64, 200), np.float32)
    out = np.zeros_like(x)
    kernel(64, 4 * 32, out, x, 200, 200, 0, 0, shared=16)
    wanted = np.exp(x.astype(float))
    wanted /= wanted.sum(axis=1, keepdims=True)
    assert np.abs(out / wanted - 1).max() < 1e-5
    found = gpuopt.profile(kernel, 64, 128, out, x, 200, 200, 0, 0, shared=16)
    assert found.launches[0].counters.barriers == 64 * 4 * 3  # bar.sync three times
    assert any((each.file or "").endswith("kernels.py") for each in found.launches[0].lines)


def test_triton_forgotten_mask_is_named(rng):
    kernel = load("triton_add.ptx")["add_kernel"]
    x, y, out = (np.zeros(5000, np.float32) for _ in range(3))
    found = gpuopt.explain(kernel, 5, 128, x, y, out, 5120, 0, 0)
    assert found[0].rule == "bounds-check"
    assert found[0].file and found[0].file.endswith("kernels.py")


def test_cupy_raw_module_and_its_template(rng):
    module = load("cupy_scale.ptx")
    x, y = rng.random(512, np.float32), rng.random(512, np.float32)
    out = np.empty_like(x)
    module["my_add"](2, 256, x, y, out)
    assert (out == x + y).all()
    z = rng.random(1000)
    wanted = z * 2.5
    module["_Z5scaleIdEvPT_S0_i"](4, 256, z, 2.5, 1000)
    assert (z == wanted).all()


def test_cupy_raw_kernel_source_compiles_as_it_is(nvrtc, rng):
    """The first example of CuPy's documentation of RawKernel."""
    source = r"""
    extern "C" __global__
    void my_add(const float* x1, const float* x2, float* y) {
        int tid = blockDim.x * blockIdx.x + threadIdx.x;
        y[tid] = x1[tid] + x2[tid];
    }
    """
    x1 = np.arange(25, dtype=np.float32).reshape(5, 5)
    y = np.zeros((5, 5), np.float32)
    gpuopt.compile(source, device="sim")["my_add"]((5,), (5,), x1, x1, y)
    assert (y == 2 * x1).all()
