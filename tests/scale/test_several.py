"""Several devices: the results of one, whatever the cut."""

from importlib import import_module

import numpy as np
import pytest
from conftest import kinds, several

import gpuopt

OPS = ["sum", "prod", "min", "max", "mean", "any", "all", "count", "argmin", "argmax"]
MODES = ["constant", "nearest", "reflect", "mirror", "wrap", "valid"]


def cases(op):
    axes = (None, 0, 1, -1) if op.startswith("arg") else (None, 0, 1, -1, (0, 1))
    return [(axis, keepdims) for axis in axes for keepdims in (False, True)]


def alike(got, wanted):
    assert type(got) is type(wanted)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("op", OPS)
def test_reductions_of_slices_are_joined(op, device, count, rng):
    for shape in ((37, 53), (3, 400)):  # fewer rows than devices, too
        x = np.round(rng.standard_normal(shape), 1).astype(np.float32)
        for axis, keepdims in cases(op):
            got = gpuopt.reduce(x, op, axis=axis, keepdims=keepdims, device=several(device, count))
            alike(got, gpuopt.reduce(x, op, axis=axis, keepdims=keepdims, device="cpu"))


@pytest.mark.parametrize("device", kinds())
def test_arrays_of_the_input_s_size(device, rng):
    two = several(device, 2)
    x = rng.standard_normal((7, 30, 11)).astype(np.float32)
    for axes in (None, (0, 2, 1), (1, 0, 2)):
        np.testing.assert_array_equal(gpuopt.transpose(x, axes, device=two), x.transpose(axes))
    np.testing.assert_array_equal(gpuopt.add(x, x[0], device=two), x + x[0])
    np.testing.assert_array_equal(gpuopt.add(1, x, device=two), x + 1)
    np.testing.assert_allclose(gpuopt.saxpy(2, x, x[0], device=two), 2 * x + x[0], rtol=1e-6)
    a, b = x[0], x[0].T
    for one, other in ((a, b), (a[0], b), (a, b[:, 0]), (a[0], b[:, 0])):
        got = gpuopt.matmul(one, other, device=two)
        assert got.shape == (one @ other).shape
        np.testing.assert_allclose(got, one @ other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("way", ["exchanged", "gaps", "no memory"])
def test_large_transposes_are_exchanged_or_run_in_tiles(way, device, rng, monkeypatch):
    several_devices = import_module("gpuopt.scale.several")
    monkeypatch.setattr(several_devices, "_TILED", 0)
    monkeypatch.setattr(several_devices, "_TILE", 1 << 10)
    calls = []

    def copied(array, name):
        calls.append(name)
        if way == "no memory":
            raise gpuopt.DeviceMemoryError("as if")
        return gpuopt.asarray(array, name)

    monkeypatch.setattr(several_devices, "asarray", copied)
    x = rng.integers(-50, 50, (37, 5, 82)).astype(np.int16)[..., :: 1 + (way == "gaps")]
    for axes in (None, (2, 0, 1), (1, 2, 0)):
        got = gpuopt.transpose(x, axes, device=several(device, 2))
        np.testing.assert_array_equal(got, x.transpose(axes))
    assert (len(calls) > 0) == (way != "gaps" and not several(device, 2)[0].startswith("cpu"))


@pytest.mark.parametrize("device", kinds())
@pytest.mark.parametrize("mode", MODES)
def test_stencils_at_the_ends_and_at_the_cuts(mode, device, rng):
    x = rng.integers(-50, 50, (5, 41)).astype(np.int32)
    for array in (x, x[0]):
        for radius in (0, 3, 19, 60, (6, 1), (0, 8)):
            for axis in range(array.ndim):
                origin = 1 if radius == (0, 8) and mode != "valid" else 0
                how = {"mode": mode, "axis": axis, "cval": 7, "origin": origin}
                got = gpuopt.stencil1d(array, radius, device=several(device, 3), **how)
                wanted = gpuopt.stencil1d(array, radius, device="cpu", **how)
                np.testing.assert_array_equal(got, wanted)


def test_out_may_be_the_input(rng):
    x = rng.integers(0, 99, (20, 20))
    wanted = x.T.copy()
    assert gpuopt.transpose(x, out=x, device=["cpu", "cpu"]) is x
    np.testing.assert_array_equal(x, wanted)
    found = np.empty(20, np.int64)
    assert gpuopt.reduce(x, axis=1, out=found, device=["cpu", "cpu"]) is found
    np.testing.assert_array_equal(found, x.sum(1))


def test_empty_and_0d_arrays():
    two = ["cpu", "cpu"]
    assert gpuopt.reduce(np.zeros((0, 3)), device=two) == 0
    assert gpuopt.reduce(np.float32(4), device=two) == 4
    assert gpuopt.transpose(np.zeros((0, 3)), device=two).shape == (3, 0)
    assert gpuopt.stencil1d(np.zeros((0, 3)), device=two).shape == (0, 3)


def test_all_gpus():
    if not gpuopt.available("cuda"):
        with pytest.raises(gpuopt.DeviceError, match="cuda:\\*"):
            gpuopt.reduce([1.0], device="cuda:*")
    else:
        assert gpuopt.reduce(np.arange(1000.0), device="cuda:*") == 499500


@pytest.mark.parametrize(
    "device, kind, text",
    [
        ("sim:*", ValueError, "list them"),
        ([], ValueError, "empty"),
        (["cpu", "sim"], ValueError, "different kinds"),
        (["cpu", 3], TypeError, "must list names"),
        (["gpu"], ValueError, "'gpu' is not a device"),
    ],
)
def test_wrong_lists_of_devices(device, kind, text):
    with pytest.raises(kind, match=text):
        gpuopt.reduce(np.ones(3), device=device)


def test_wrong_arrays_for_several_devices():
    two, x = ["sim", "sim"], np.ones((4, 3), np.float32)
    there = gpuopt.asarray(x, "sim")
    with pytest.raises(ValueError, match="array: is on sim:h200, and `device` names several"):
        gpuopt.reduce(there, device=two)
    with pytest.raises(ValueError, match="progress: is not for several devices"):
        gpuopt.reduce(x, device=two, progress=print)
    with pytest.raises(ValueError, match="b's rows must equal"):
        gpuopt.matmul(x, x, device=two)
