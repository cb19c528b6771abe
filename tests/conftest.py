"""Fixtures and helpers of all tests: devices, rungs, random data, subprocesses."""

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

os.environ.pop("GPUOPT_DEVICE", None)  # the tests name their devices
# The command line narrows its tables to it. xdist sets it; so does readline, past os.environ.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")
# By default the first process that uses JAX allocates three quarters of the GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
import pytest

import gpuopt
from gpuopt import _core
from gpuopt.observe import timing

pytest_plugins = ["jit_fixtures", "gpu_libraries", "ladder_fixtures"]

# A shell's background job ignores Ctrl-C, and every process that a test starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
INTEGERS = [np.dtype(code) for code in "bhilBHIL"]
FLOATS = [np.dtype(code) for code in "efd"]
COMPLEX = [np.dtype(code) for code in "FD"]
DTYPES = [np.dtype(bool), *INTEGERS, *FLOATS, *COMPLEX]


def _kinds():
    """Return {kind: reason why it is unavailable, or ""} for every kind of device."""
    found = {}
    for kind in ("cpu", "cuda", "sim"):
        try:
            available = gpuopt.available(kind)
        except ValueError:
            continue  # a kind that comes later
        found[kind] = "" if available else available.reason
    return found


KINDS = _kinds()
# A build on a machine without a newer GPU leaves this PTX out (docs/simulator.md).
needs_newer_ptx = pytest.mark.skipif(
    "90" not in _core.config()["ptx_targets"].split(),
    reason="built without the PTX for 9.0; install with GPUOPT_CUDA_ARCHS=none or 90",
)


# --- a lost GPU ends its process; a log says which test ran where

# The driver's codes after which a context answers nothing else, as cuda_driver.c has them.
STICKY = {214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 810, 911}
WORKER = os.environ.get("PYTEST_XDIST_WORKER")  # None without pytest-xdist
LOG = os.environ.get("GPUOPT_TEST_LOG")  # a file that gets a line as a test begins and ends


@functools.cache
def _driver():
    """Return the driver and the number of GPUs; None and 0 without a GPU."""
    if KINDS.get("cuda", "unknown"):
        return None, 0
    library = ctypes.CDLL(os.environ.get("GPUOPT_CUDA_DRIVER") or "libcuda.so.1")
    return library, gpuopt.available("cuda").count


def _fault(driver, device):
    """Return the status of a GPU's primary context once it is idle; 0 if it has none."""
    flags, active, context = ctypes.c_uint(), ctypes.c_int(), ctypes.c_void_p()
    found = driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    if found or not active.value:  # none is made for this
        return found
    found = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    if found:
        return found
    found = driver.cuCtxPushCurrent_v2(context)
    if not found:
        found = driver.cuCtxSynchronize()
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    driver.cuDevicePrimaryCtxRelease_v2(device)
    return found


def lost_gpu():
    """Return the GPU that is lost to this process, and the cause; "" if none is."""
    driver, count = _driver()
    for number in range(count):
        device, name = ctypes.c_int(), ctypes.c_char_p()
        code = driver.cuDeviceGet(ctypes.byref(device), number) or _fault(driver, device)
        if code in STICKY:
            driver.cuGetErrorName(code, ctypes.byref(name))
            return f"cuda:{number} is lost to this process, by {(name.value or b'?').decode()}"
    return ""


@functools.cache
def _log():
    return os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def _note(what, item):
    if LOG:  # one write a line: the workers share the file
        line = f"{time.time():.3f} {WORKER or 'main'} {os.getpid()} {what} {item.nodeid}\n"
        os.write(_log(), line.encode())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    """Fail the test that loses a GPU, directly or by work that it left running."""
    done = yield
    lost = lost_gpu()
    if lost:
        pytest.fail(f"{lost}: in this test or in what it left running", pytrace=False)
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """End a process whose GPU is lost, so that no later test is blamed for it.

    With pytest-xdist another worker takes its place and its other tests.
    """
    _note("begins", item)
    done = yield
    lost = lost_gpu()
    _note(f"ends, {lost}:" if lost else "ends", item)
    if lost:
        text = f"{lost}, in {item.nodeid} or in what it left running: this process ends"
        if WORKER is None:
            pytest.exit(text, returncode=3)
        os.write(2, f"\n{WORKER}: {text}\n".encode())
        os._exit(3)  # all of the test's reports have been sent
    return done


def on(kind, *values, id=None):
    """Return a parameter set for one kind of device, skipped if that kind is unavailable."""
    marks = [pytest.mark.skip(reason=KINDS[kind])] if KINDS[kind] else []
    return pytest.param(*values, id=id, marks=marks)


def kinds():
    """Return a parameter for every kind of device."""
    return [on(kind, kind, id=kind) for kind in KINDS]


def strided(host, device):
    """Return a device array with a host array's strides, and the owner of its memory."""
    from gpuopt.arrays.device_array import DeviceArray

    whole = host
    while whole.base is not None:
        whole = whole.base
    holder = gpuopt.asarray(whole, device)
    begin = host.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    made, view = DeviceArray.__new__(DeviceArray), holder._view
    made._view = view.replace(address=view.address + begin, shape=host.shape, strides=host.strides)
    return made, holder


def rungs_of(kind, historical=False, family="reduce"):
    """Return a family's rungs that a kind of device runs."""
    return [
        rung
        for rung in gpuopt.rungs(family)
        if rung.host == (kind == "cpu") and (historical or not rung.historical)
        if not rung.listing  # test_historical.py has the listings
    ]


def device_rungs(historical=False, family="reduce", without=()):
    """Return a parameter (device, rung) for every rung of every kind of device."""
    return [
        on(kind, kind, rung, id=f"{kind}-{rung.name}")
        for kind in KINDS
        for rung in rungs_of(kind, historical, family)
        if rung.name not in without
    ]


def device_rung_signatures():
    """Return a parameter (device, rung, op, items, accumulator) for every registered kernel."""
    return [
        on(
            kind,
            kind,
            rung,
            op,
            items,
            accumulator,
            id="-".join((kind, rung.name, op, items, accumulator)),
        )
        for kind in KINDS
        for rung in rungs_of(kind)
        for op, items, accumulator in rung.signatures
    ]


def blocks_of(rung):
    """Return the block sizes of a rung; [None] for one without blocks."""
    block, found = rung.block_min, []
    while block and block <= rung.block_max:
        found.append(block)
        block *= 2
    return found or [None]


def largest(device, n):
    """Return n, or a smaller size for a device that executes lane by lane."""
    return min(n, 5000) if device == "sim" else n


def random_items(rng, dtype, n):
    """Return n random elements without zeros: integers of full width, floats from 0.5 to 1.5."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(n) < 0.7
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        items = rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
        items[items == 0] = 1
        return items
    items = rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 1.5, n)
    if dtype.kind == "c":
        items = items + 1j * rng.choice([-1.0, 1.0], n) * rng.uniform(0.5, 1.5, n)
    return items.astype(dtype)


@pytest.fixture
def rng():
    """Return a random generator, the same in every run."""
    return np.random.default_rng(20100921)


@contextlib.contextmanager
def predicted_from_ptx():
    """Predict without machine code, which takes ptxas a second for each kernel and architecture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "compiled_of", lambda launch, row: None)
        yield


@pytest.fixture
def wrong_bench(monkeypatch):
    """Make every bench return results with one wrong bit."""

    class Wrong:
        def __init__(self, *given, **more):
            self.bench = real(*given, **more)
            self.time = self.bench.time

        def run(self):
            return self.bench.run() ^ 1

    real = gpuopt._core.Workbench
    monkeypatch.setattr(gpuopt._core, "Workbench", Wrong)


def several(device, count):
    """Return names of several devices: all GPUs in turn, or the same device again and again."""
    gpus = gpuopt.available("cuda").count if device == "cuda" else 0
    return [f"cuda:{k % gpus}" if gpus else device for k in range(count)]


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory):
    """Return a function that compiles fake_cuda.c with some macros and returns the library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")

    def compile_it(*macros):
        path = folder / f"{'-'.join(('libcuda', *macros))}.so"
        if not path.exists():
            source = Path(__file__).with_name("fake_cuda.c")
            command = [compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", path, source]
            subprocess.run([*command, *(f"-D{macro}" for macro in macros)], check=True)
        return str(path)

    return compile_it


@pytest.fixture(scope="session")
def fake_nccl(tmp_path_factory):
    """Compile fake_nccl.c and return the library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("there is no C compiler")
    library = tmp_path_factory.mktemp("nccl") / "libnccl.so.2"
    source = Path(__file__).with_name("fake_nccl.c")
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", library, source], check=True)
    return str(library)


FORK_WARNING = "ignore:This process:DeprecationWarning"  # since Python 3.12; forks are the subject


def run_python(code, *, timeout=60, check=True, **environment):
    """Run Python code in a process of its own; return the completed process."""
    variables = {**os.environ, **environment}
    variables = {name: value for name, value in variables.items() if value is not None}
    process = subprocess.run(
        [sys.executable, "-W", FORK_WARNING, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=variables,
    )
    if check:
        assert process.returncode == 0, (
            f"exit {process.returncode}\n{process.stdout}\n{process.stderr}"
        )
        assert process.stderr == "", process.stderr
    return process


def side_by_side(ours, theirs, bar, rounds):
    """Compare medians of alternating rounds; repeat if the machine was disturbed."""
    for attempt in range(4):
        time.sleep(3 * attempt)
        times = ([], [])
        for _ in range(rounds):
            for function, samples in zip((theirs, ours), times, strict=True):
                begin = time.perf_counter()
                function()
                samples.append(time.perf_counter() - begin)
        for statistic in (statistics.median, min):
            if statistic(times[0]) / statistic(times[1]) >= bar:
                return
    theirs, ours = (1e3 * statistics.median(samples) for samples in times)
    pytest.fail(f"gpuopt {ours:.2f} ms, the other {theirs:.2f} ms: {theirs / ours:.2f}x")


def leaves_memory_free(work, most=float("inf"), attempts=20):
    """Fail if the work loses memory of the GPU.

    The bytes that gpuopt's pool holds in this process must not grow. The driver's own objects count
    in the GPU's free memory only, of which the work may lose `most` bytes. Other processes allocate
    and free meanwhile, and the first work may keep scratch: one undisturbed attempt suffices.
    """
    for attempt in range(attempts):
        before = gpuopt._core.device_info("cuda")
        work()
        after = gpuopt._core.device_info("cuda")
        held = after["memory_used"] - before["memory_used"]
        lost = before["memory_free"] - after["memory_free"]
        if held <= 0 and lost <= most:
            return
        time.sleep(min(attempt, 5) / 10)
    pytest.fail(f"of the GPU's memory, gpuopt holds {held} and the driver {lost} bytes more")


def compiled_for(architecture, name, folder, *options):
    """Return the file of csrc/kernels/<name> as PTX for another architecture than the image's."""
    nvcc, source = shutil.which("nvcc"), Path(__file__).parent.parent / "csrc" / "kernels" / name
    if not nvcc or not source.exists() or KINDS["sim"]:
        pytest.skip("needs nvcc, the kernels' source and the simulated GPU")
    ptx = folder / f"{source.stem}.ptx"
    command = [nvcc, "-std=c++17", "-O3", "--ptx", "-lineinfo", f"-arch={architecture}", *options]
    # a sanitizer's library, loaded first, is for this process alone
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([*command, source, "-o", ptx], capture_output=True, text=True, env=own)
    assert done.returncode == 0, done.stderr
    return ptx
