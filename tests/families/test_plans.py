"""Plans of calls: cached by layouts and options, they give what NumPy gives and hold nothing."""

import gc
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import gpuopt
from gpuopt import _core
from gpuopt.families import vectors


def layouts(shape, dtype, rng):
    """Return arrays of one shape in every kind of layout."""
    x = rng.integers(-50, 50, shape).astype(dtype)
    wide = np.repeat(x, 2, -1)
    odd = np.frombuffer(b"x" + x.tobytes(), np.uint8)[1:].view(dtype).reshape(shape)
    return {
        "C": x,
        "F": np.asfortranarray(x),
        "reversed": x[::-1],
        "gaps": wide[..., ::2],
        "swapped": x.astype(x.dtype.newbyteorder()),
        "odd": odd,
        "one": np.broadcast_to(x.ravel()[0], shape),
        "row": x[:1],
        "column": x[..., :1],
    }


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5), (40, 3), (2, 3, 700), (300, 400)])
def test_sums_of_all_layouts_are_numpys(dtype, shape, rng):
    some = layouts(shape, dtype, rng)
    for x in some.values():
        for y in (*some.values(), 3):
            want = np.add(x, y)
            got = gpuopt.add(x, y, device="cpu")
            np.testing.assert_array_equal(got, want)
            if want.shape == shape:
                assert got.dtype == want.dtype and got.strides == want.strides
            out = np.empty((*want.shape[:-1], 2 * want.shape[-1]), dtype)[..., ::2]
            assert gpuopt.add(x, y, out=out, device="cpu") is out
            np.testing.assert_array_equal(out, want)
            if dtype[0] == "f":
                scaled = gpuopt.saxpy(0.5, x, y, device="cpu")
                np.testing.assert_array_equal(scaled, 0.5 * x + y)


def test_out_may_be_an_input_in_every_relation(rng):
    for shift in (0, 1, 7, -3):
        room = rng.integers(0, 100, 5000).astype(float)
        x, out = room[10:4010], room[10 + shift : 4010 + shift]
        want = x + 1
        assert gpuopt.add(x, 1, out=out, device="cpu") is out
        np.testing.assert_array_equal(out, want)
    square = rng.random((50, 50))
    want = square + square.T
    np.testing.assert_array_equal(gpuopt.add(square, square.T, out=square, device="cpu"), want)
    square = rng.random((50, 50))
    want = square.T.copy()
    np.testing.assert_array_equal(gpuopt.transpose(square, out=square, device="cpu"), want)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "complex64", "complex128"])
def test_reductions_and_transposes_of_all_layouts(dtype, rng):
    for shape in ((4, 6), (30, 3), (7, 50, 4)):
        for x in layouts(shape, dtype, rng).values():
            for axes in (None, (*range(1, x.ndim), 0)):
                got = gpuopt.transpose(x, axes, device="cpu")
                np.testing.assert_array_equal(got, np.transpose(x, axes))
                assert got.flags.c_contiguous and got.dtype == x.dtype
            for axis in (None, 0, -1, (0, 1)):
                for op, function in (("sum", np.sum), ("any", np.any), ("count", np.count_nonzero)):
                    want = function(x, axis=axis)
                    got = gpuopt.reduce(x, op, axis=axis, device="cpu")
                    assert np.shape(got) == np.shape(want)
                    np.testing.assert_allclose(got, want, rtol=1e-2)


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "gaps", "swapped", "odd"])
def test_stencils_of_all_layouts_and_axes(layout, rng):
    ndimage = pytest.importorskip("scipy.ndimage")
    x = layouts((6, 5, 9), "float64", rng)[layout]
    weights = rng.random(5)
    for taps in (weights, weights[::-1], weights.astype("f4"), weights.astype(">f8")):
        for axis in range(3):
            want = ndimage.correlate1d(x, taps, axis, mode="reflect")
            got = gpuopt.stencil1d(x, weights=taps, axis=axis, mode="reflect", device="cpu")
            assert got.flags.c_contiguous
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
            out = np.empty_like(want)[::-1]
            assert out is gpuopt.stencil1d(
                x, weights=taps, axis=axis, mode="reflect", out=out, device="cpu"
            )
            np.testing.assert_array_equal(out, got)


def test_values_of_numbers_do_not_belong_to_a_plan():
    x = np.ones(3, np.int32)
    for number in (1, 2**31 - 1, -7):
        np.testing.assert_array_equal(gpuopt.add(x, number, device="cpu"), np.add(x, number))
    with pytest.raises(OverflowError, match=r"^y: "):
        gpuopt.add(x, 2**31, device="cpu")
    np.testing.assert_array_equal(gpuopt.add(x, 5, device="cpu"), 6)
    whole = np.arange(9)
    np.testing.assert_array_equal(
        gpuopt.stencil1d(whole, weights=np.ones(3), device="cpu")[1:-1], 3 * whole[1:-1]
    )
    with pytest.raises(ValueError, match=r"^weights: must be finite"):
        gpuopt.stencil1d(whole, weights=np.array([1, np.nan, 1]), device="cpu")


def test_options_belong_to_a_plan(monkeypatch):
    x = np.array([[1.0, -2.0], [3.0, 4.0]])
    for keepdims in (False, True, 0, 1):
        want = x.sum(1, keepdims=bool(keepdims))
        assert gpuopt.reduce(x, axis=1, keepdims=keepdims, device="cpu").shape == want.shape
    for axis in (1, True):
        if axis is True:
            with pytest.raises(TypeError, match=r"^axis"):
                gpuopt.reduce(x, axis=axis, device="cpu")
    for name in ("cpu", "nowhere", "cpu"):
        monkeypatch.setenv("GPUOPT_DEVICE", name)
        if name == "cpu":
            np.testing.assert_array_equal(gpuopt.add(x, x), x + x)
        else:
            with pytest.raises(ValueError, match="GPUOPT_DEVICE"):
                gpuopt.add(x, x)
    with gpuopt.profile(device="sim") as profile:
        gpuopt.add(x, x, device=None)
    assert len(profile.launches) == 1


THREE = np.ones(3)  # made once: numpy.ones itself keeps a reference to its dtype
CALLS = {
    "add": lambda x, n: gpuopt.add(x, n, device="cpu"),
    "broadcast": lambda x, n: gpuopt.add(x, x[:1], device="cpu"),
    "swapped": lambda x, n: gpuopt.add(x, x.astype(">f8"), device="cpu"),
    "saxpy": lambda x, n: gpuopt.saxpy(n, x, x.T, device="cpu"),
    "matmul": lambda x, n: gpuopt.matmul(x, x, device="cpu"),
    "transpose": lambda x, n: gpuopt.transpose(x[::2], device="cpu"),
    "stencil": lambda x, n: gpuopt.stencil1d(x, weights=THREE, axis=0, device="cpu"),
    "whole": lambda x, n: gpuopt.reduce(x, device="cpu"),
    "axis": lambda x, n: gpuopt.reduce(x[::-1], axis=1, device="cpu"),
    "initial": lambda x, n: gpuopt.reduce(x, "prod", initial=n, device="cpu"),
    "wrong shape": lambda x, n: gpuopt.add(x, x, out=THREE, device="cpu"),
    "wrong axis": lambda x, n: gpuopt.reduce(x, axis=9, device="cpu"),
    "wrong number": lambda x, n: gpuopt.add(x.astype("i4"), 2**40, device="cpu"),
}


@pytest.mark.parametrize("name", CALLS)
def test_many_calls_leak_nothing(name, rng):
    x = rng.random((8, 8))

    def repeat(count):
        for k in range(count):
            try:
                CALLS[name](x, k)
            except (ValueError, IndexError, OverflowError):
                continue

    for each in gc.get_objects():
        if isinstance(each, _core.Entry):  # plans of other tests' calls would leave meanwhile
            each.clear_cache()
    repeat(300)
    gc.collect()
    held = sys.getrefcount(x), sys.getrefcount(np.dtype("f8"))
    tracemalloc.start()
    try:
        repeat(10)
        before, _ = tracemalloc.get_traced_memory()
        repeat(10_000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 40_000
    assert sys.getrefcount(x) == held[0]
    assert abs(sys.getrefcount(np.dtype("f8")) - held[1]) < 50


def test_cache_is_bounded_and_may_be_cleared():
    entry = vectors._run_add.__self__
    assert isinstance(entry, _core.Entry)
    for n in range(3000):
        x = np.full(n % 1500, 1.0)
        np.testing.assert_array_equal(gpuopt.add(x, x, device="cpu"), x + x)
    entry.clear_cache()
    np.testing.assert_array_equal(gpuopt.add([1.0], [2.0], device="cpu"), [3.0])


def test_threads_share_a_cache(rng):
    arrays = [rng.random((n, 7)) for n in range(1, 40)]
    wrong = []

    def work():
        for _ in range(20):
            for x in arrays:
                if not np.array_equal(gpuopt.add(x, x[:1], device="cpu"), x + x[:1]):
                    wrong.append(x.shape)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_misuse_of_plans_raises():
    with pytest.raises(ValueError, match="kinds"):
        _core.Entry("xyz", ("x", "y", "z"), print, print, print)
    with pytest.raises(ValueError, match="a name for each"):
        _core.Entry("aa", ("x",), print, print, print)
    entry = _core.Entry("a", ("x",), lambda x: 7, lambda x: x, lambda x, name: None)
    with pytest.raises(TypeError, match="planner: must return a Plan"):
        entry.run(np.ones(3))
    with pytest.raises(TypeError, match="takes 1 arguments"):
        entry.run()
    assert entry.run([1]) == [1]  # a list has no key
    for kind in ("kernel", "resident"):
        for fields in ((), (7,), ((), (), ())):
            with pytest.raises((TypeError, ValueError)):
                _core.Plan(kind, fields)
    with pytest.raises(TypeError):
        _core.Plan("copy", (0, 7, -1))
    with pytest.raises(TypeError, match="takes the arrays"):
        _core.Plan("copy", (0, (0,), -1)).run(7)
