"""Tests that need a GPU: sizes around 2^31, a context shared with other libraries, faults."""

import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import leaves_memory_free

import gpuopt
from gpuopt import _core
from gpuopt.measure import ladder

pytestmark = pytest.mark.skipif(
    not gpuopt.available("cuda"), reason=f"no GPU: {gpuopt.available('cuda').reason}"
)

KERNEL_RUNGS = [r for r in gpuopt.rungs("reduce") if not r.host and not r.historical]


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )


def test_more_than_2_to_the_31_items():
    n = 2**31 + 12345
    items = np.zeros(n, bool)
    where = np.random.default_rng(0).integers(0, n, 1000)
    items[where] = True
    items[-1] = True
    bench = _core.Workbench("reduce", items, device="cuda")
    wanted = len({*where.tolist(), n - 1})
    for rung in KERNEL_RUNGS:
        assert bench.run(rung.variant) == wanted, rung.name
    assert gpuopt.reduce(items, "or", device="cuda") == np.True_
    assert gpuopt.reduce(items, "and", device="cuda") == np.False_


def test_more_than_2_to_the_31_items_read_by_stride():
    items = np.broadcast_to(np.array([3, 5], np.int32), (2**30 + 3, 2))
    assert gpuopt.reduce(items, device="cuda") == 8 * (2**30 + 3)


@pytest.mark.parametrize("rung", KERNEL_RUNGS, ids=lambda rung: rung.name)
def test_large_float32_against_an_exact_sum(rung):
    n = 2**25 + 1
    items = np.random.default_rng(1).random(n, np.float32) - np.float32(0.25)
    exact = float(np.sum(items, dtype=np.longdouble))
    got = float(gpuopt.reduce(items, variant=rung.variant, device="cuda"))
    additions = 64 + (n / 2**15 if rung.items_per_thread == 0 else 0)
    bound = additions * 2.0**-24 * float(np.abs(items).sum(dtype=np.float64))
    assert abs(got - exact) <= bound


def test_runs_are_bitwise_equal():
    items = np.random.default_rng(2).standard_normal(2**22 + 7).astype(np.float32)
    for rung in KERNEL_RUNGS:
        values = {
            gpuopt.reduce(items, variant=rung.variant, device="cuda").tobytes() for _ in range(20)
        }
        assert len(values) == 1, rung.name


def test_callers_context_is_restored():
    """The current context, another library's or none in a new thread, is unchanged."""
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuInit(0) == 0

    def current():
        context = ctypes.c_void_p()
        assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
        return context.value

    def around_a_call():
        before = current()
        gpuopt.reduce([1, 2, 3], device="cuda", dtype=np.int64)
        return before, current()

    before, after = around_a_call()
    assert before == after
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(around_a_call).result() == (None, None)


def test_cupy_and_torch_share_the_primary_context():
    cupy = pytest.importorskip("cupy")
    there = cupy.arange(1000)
    here = gpuopt.reduce(np.arange(1000), device="cuda")
    assert int(there.sum()) == here == 499500


def test_device_memory_does_not_leak():
    items = np.ones(1 << 20, np.float32)
    strided = np.ones((1 << 20, 2), np.float32)[:, 0]
    for _ in range(20):
        gpuopt.reduce(items, device="cuda")

    def work():
        for _ in range(50):  # short: other processes' tests disturb the figure
            gpuopt.reduce(items, device="cuda")
            gpuopt.reduce(strided, "max", variant=3, device="cuda")
            with pytest.raises(gpuopt.DeviceMemoryError):
                gpuopt.empty(2**45, device="cuda")

    leaves_memory_free(work, 32 << 20)


def test_fault_loses_the_device_and_the_cpu_still_works():
    pytest.importorskip("cupy")
    done = python("""
import cupy, numpy as np, gpuopt
x = np.arange(100000.0)
assert gpuopt.reduce(x, device="cuda") == x.sum()
bad = cupy.RawKernel('extern "C" __global__ void bad(int *p) { *p = 1; }', "bad")
bad((1,), (1,), (np.uint64(8),))
try:
    cupy.cuda.Device().synchronize()
except Exception:
    pass
for attempt in range(3):
    try:
        gpuopt.reduce(x, device="cuda")
    except gpuopt.DeviceLost as error:
        assert isinstance(error, RuntimeError)
        assert "restart" in str(error)
    else:
        raise SystemExit("no DeviceLost")
assert gpuopt.reduce(x, device="cpu") == x.sum()
print("went on")
""")
    assert "went on" in done.stdout, done.stderr


def test_the_copy_ceiling_is_plausible():
    rate = ladder.copy_bandwidth(gpuopt.devices()[0], rounds=3)
    assert 1e10 < rate < 2e13
