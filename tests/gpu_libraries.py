"""Libraries of arrays on a GPU, for the tests that need one; fixtures `cupy` and `torch`."""

import importlib

import numpy as np
import pytest
from conftest import KINDS

import gpuopt


def installed(name):
    """Return a library that can use the GPU here; skip the test where there is none."""
    if KINDS["cuda"]:
        pytest.skip(KINDS["cuda"])
    try:
        return importlib.import_module(name)
    except Exception as error:  # not installed, or not made for another library's version
        pytest.skip(f"{name} cannot be imported: {type(error).__name__}: {error}")


def gpus():
    return gpuopt.available("cuda").count


@pytest.fixture
def cupy():
    cupy = installed("cupy")
    cupy.cuda.Device(0).use()  # JAX changes the current GPU
    return cupy


@pytest.fixture
def torch():
    torch = installed("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    torch.cuda.set_device(0)
    return torch


def along(host, op, axis, keepdims=False):
    """Return NumPy's answer, of floats from float64 and rounded once."""
    functions = {"count": np.count_nonzero, "any": np.any, "all": np.all, "mean": np.mean}
    function = functions.get(op) or getattr(np, op)
    if host.dtype.kind == "f" and op in ("sum", "mean", "prod"):
        with np.errstate(over="ignore"):
            return function(host, axis=axis, keepdims=keepdims, dtype="f8").astype(host.dtype)
    return function(host, axis=axis, keepdims=keepdims)
