"""What CUDA's driver can do to a caller: missing, old, broken, out of memory, lost.

Most of it runs everywhere, on a libcuda that the test compiles (fake_cuda.c). Each case has a
process of its own, since a driver is started once.
"""

import multiprocessing
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import KINDS, leaves_memory_free, on, run_python

import gpuopt

pytestmark = pytest.mark.timeout(180)

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
only_cuda = [on("cuda", "cuda", id="cuda")]

PREAMBLE = """
import ctypes, os
import numpy as np, gpuopt
fake = ctypes.CDLL(os.environ["GPUOPT_CUDA_DRIVER"])
fake.fake_cuda_get.restype = ctypes.c_longlong
fake.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
fake.fake_cuda_set.argtypes = [ctypes.c_char_p, ctypes.c_longlong]
items = np.arange(100_001, dtype=np.int32)
total = int(items.sum(dtype=np.int64))
def get(what):
    return fake.fake_cuda_get(what.encode())
def caught(kind, function, *texts):
    try:
        function()
    except kind as error:
        for text in texts:
            assert text in str(error), (text, str(error))
        return error
    raise AssertionError(f"no {kind.__name__}")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile fake_cuda.c with the given macros; return the library's path."""
    folder = tmp_path_factory.mktemp("driver")

    def compile_it(*macros):
        path = folder / f"libcuda{len(macros)}.so"
        if not path.exists():
            source = Path(__file__).with_name("fake_cuda.c")
            command = [COMPILER, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", path, source]
            subprocess.run([*command, *(f"-D{macro}" for macro in macros)], check=True)
        return str(path)

    return compile_it


def with_fake(library, code, **environment):
    """Run code against the fake driver."""
    return run_python(
        PREAMBLE + code, GPUOPT_CUDA_DRIVER=library(), GPUOPT_DEVICE=None, **environment
    )


# --- drivers that cannot serve: every entry says why, and the cpu goes on

CANNOT_SERVE = """
import numpy as np, gpuopt
found = gpuopt.available("cuda")
assert not found and found.count == 0, found
print(found.reason)
for call in (
    lambda: gpuopt.reduce([1, 2], device="cuda"),
    lambda: gpuopt.reduce([1, 2], device="cuda:0"),
    lambda: gpuopt.reduce([1, 2], variant="cascading", device="cuda"),
):
    for _ in range(2):
        try:
            call()
        except gpuopt.DeviceError as error:
            assert isinstance(error, RuntimeError)
            assert str(error) == found.reason, (str(error), found.reason)
        else:
            raise AssertionError("no DeviceError")
out = np.array(7)
try:
    gpuopt.reduce([1, 2], out=out, device="cuda")
except gpuopt.DeviceError:
    pass
assert out == 7
assert gpuopt.reduce([1, 2]) == 3 and gpuopt.reduce([1, 2], device="cpu") == 3
assert gpuopt.reduce([1, 2], variant=7) == 3  # on the simulated GPU
assert [device.kind for device in gpuopt.devices() if device.kind != "sim"] == ["cpu"]
"""


def reason_of(driver, before="", **environment):
    """Return why a driver cannot serve, after checking that every call says the same."""
    environment = {"GPUOPT_CUDA_DRIVER": driver, "GPUOPT_DEVICE": None, **environment}
    return run_python(before + CANNOT_SERVE, **environment).stdout.strip()


def test_no_driver(tmp_path):
    reason = reason_of(str(tmp_path / "no-such-libcuda.so"))
    assert "no-such-libcuda.so" in reason and "no NVIDIA driver" in reason
    assert "install" in reason and "device='cpu'" in reason


def test_a_driver_that_is_no_library(tmp_path):
    path = tmp_path / "libcuda.so"
    path.write_text("this is no library")
    assert "device='cpu'" in reason_of(str(path))
    assert "device='cpu'" in reason_of(str(tmp_path))
    assert "device='cpu'" in reason_of("/" + "long/" * 500)


@needs_compiler
def test_a_driver_before_cuda_12(library):
    reason = reason_of(library("WITHOUT_GET_PROC_ADDRESS"))
    assert "older than CUDA 12" in reason and "install" in reason


@needs_compiler
def test_a_driver_older_than_the_toolkit(library):
    reason = reason_of(library(), PREAMBLE + "fake.fake_cuda_set(b'version', 12040)\n")
    assert "CUDA 12.4" in reason and "CUDA 13" in reason and "update the driver" in reason


@needs_compiler
def test_a_driver_without_a_gpu(library):
    for before in ("fake.fake_cuda_fail(b'cuInit', 100, 1)", "fake.fake_cuda_set(b'devices', 0)"):
        reason = reason_of(library(), PREAMBLE + before + "\n")
        assert "no GPU" in reason and "CUDA_VISIBLE_DEVICES" in reason, before


@needs_compiler
def test_a_driver_that_does_not_start(library):
    reason = reason_of(library(), PREAMBLE + "fake.fake_cuda_fail(b'cuInit', 999, 1)\n")
    assert "cuInit" in reason and "CUDA_ERROR_999" in reason
    reason = reason_of(library(), PREAMBLE + "fake.fake_cuda_fail(b'cuDriverGetVersion', 3, 1)\n")
    assert "cuDriverGetVersion" in reason


@needs_compiler
@pytest.mark.parametrize("symbol", ["cuInit", "cuLaunchKernel", "cuMemAllocFromPoolAsync"])
def test_a_driver_that_lacks_a_symbol(library, symbol):
    reason = reason_of(library(), PREAMBLE + f"fake.fake_cuda_lacks(b'{symbol}')\n")
    assert symbol in reason and "install" in reason


@pytest.mark.parametrize("device", only_cuda)
def test_no_visible_gpu(device):
    reason = reason_of(None, CUDA_VISIBLE_DEVICES="")
    assert "no GPU" in reason and "CUDA_VISIBLE_DEVICES" in reason


# --- a driver that serves: the host's side of every rung


@needs_compiler
def test_every_rung_plans_its_passes_right(library):
    with_fake(
        library,
        """
        assert gpuopt.available("cuda").count == 1
        fake.fake_cuda_set(b"devices", 1)
        for rung in gpuopt.rungs("reduce"):
            if rung.host:
                continue
            block = rung.block_min
            while block <= rung.block_max:
                for n in (1, 2, 31, 33, 127, 129, 2049, 65537, 1_000_003):
                    for dtype in (np.int32, np.int64):
                        array = np.arange(n, dtype=dtype)
                        got = gpuopt.reduce(array, variant=rung.variant, block=block)
                        assert got == n * (n - 1) // 2, (rung.name, block, n, got)
                        got = gpuopt.reduce(array[::-1][::2], variant=rung.variant, block=block)
                        assert got == array[::-1][::2].sum(dtype=np.int64)
                block *= 2
        assert get("used") == 0 and get("depth") == 0
        """.replace("\n        ", "\n"),
    )


@needs_compiler
def test_several_gpus_by_number(library):
    with_fake(
        library,
        """
fake.fake_cuda_set(b"devices", 3)
assert gpuopt.available("cuda").count == 3
assert [each.name for each in gpuopt.devices()][:4] == ["cuda:0", "cuda:1", "cuda:2", "cpu"]
for name in ("cuda", "cuda:0", "cuda:2"):
    assert gpuopt.reduce(items, device=name) == total
for name in ("cuda:3", "cuda:-1", "cuda:x", "cuda:99999999999999999999", "cuda: 1", "cuda:1x"):
    caught(ValueError, lambda: gpuopt.reduce(items, device=name), "device", name[5:])
twos = np.full(3, 2 + 0j)  # no kernel multiplies them
assert gpuopt.reduce(twos, "prod") == 8
caught(TypeError, lambda: gpuopt.reduce(twos, "prod", device="cuda"), "complex128", "cpu")
caught(TypeError, lambda: gpuopt.reduce(twos, "prod", variant=7), "device='cpu'")
""",
    )


@needs_compiler
def test_without_a_name_the_gpu_serves_and_gpuopt_device_decides(library):
    code = """
calls = get("calls")
assert gpuopt.reduce(items) == total
print(get("calls") > calls)
"""
    assert with_fake(library, code).stdout == "True\n"
    assert (
        with_fake(library, code.replace("(items)", "(items, variant='serial')")).stdout == "False\n"
    )
    code = "import os; os.environ['GPUOPT_DEVICE'] = 'cpu'\n" + code
    assert with_fake(library, code).stdout == "False\n"


# --- failures of a driver that serves


@needs_compiler
def test_out_of_memory(library):
    with_fake(
        library,
        """
assert gpuopt.reduce(items, device="cuda") == total
live = get("live")
fake.fake_cuda_set(b"memory", 300_000)
for array in (items, items[::-1], np.broadcast_to(items[3:4], 2**38)):
    out = np.array(7)
    call = lambda: gpuopt.reduce(array, out=out, device="cuda")
    error = caught(gpuopt.DeviceMemoryError, call, "cuda:0")
    assert isinstance(error, MemoryError)
    assert error.bytes_asked == min(array.nbytes, 2**28), vars(error)
    assert error.bytes_free == 300_000
    assert out == 7 and get("live") == live and get("used") == 0 and get("depth") == 0
    assert gpuopt.reduce(items[:1000], device="cuda") == 499500
# room for the items but not for the partial results
fake.fake_cuda_set(b"memory", items.nbytes)
error = caught(gpuopt.DeviceMemoryError, lambda: gpuopt.reduce(items, device="cuda"))
assert error.bytes_free == 0 and get("used") == 0
fake.fake_cuda_set(b"memory", 1 << 32)
assert gpuopt.reduce(items, device="cuda") == total
""",
    )


@needs_compiler
def test_more_items_than_the_gpu_has_memory(library):
    with_fake(
        library,
        """
fake.fake_cuda_set(b"memory", (256 << 20) + (1 << 20))
n = 3 * (1 << 26) + 5
assert gpuopt.reduce(np.broadcast_to(np.int32(-3), n), device="cuda") == -3 * n
part = np.arange((1 << 26) + 9, dtype=np.int32)  # contiguous: the second piece begins where
want = int(part.sum(dtype=np.int64))  # the first ends
assert gpuopt.reduce(part, device="cuda") == want
live = get("live")
for name, nth in ((b"cuMemcpyAsync", 1), (b"cuMemcpyAsync", 2), (b"cuLaunchKernel", 2),
                  (b"cuMemAllocFromPoolAsync", 2)):
    fake.fake_cuda_fail(name, 999, nth)
    caught(gpuopt.DeviceError, lambda: gpuopt.reduce(part, device="cuda"), "999")
    assert get("used") == 0 and get("depth") == 0 and get("live") == live
assert gpuopt.reduce(part, device="cuda") == want
""",
    )


BIG = """
big, out = np.arange(3_000_000, dtype=np.int32)[::2], np.array(7)
want = int(big.sum(dtype=np.int64))
def use():
    out[...] = 7
    try:
        assert gpuopt.reduce(big, out=out, device="cuda") == want
    except gpuopt.DeviceError:
        assert out == 7
        raise
use()
live = get("live")
"""


PTX = """
text = (
    ".version 8.0\\n.target sm_75\\n.address_size 64\\n"
    ".entry reduce_k(.param .u64 a, .param .u64 b, .param .u64 n) { ret; }"
)
x = np.arange(1000.0)
def use():
    module = gpuopt.load_ptx(text, "cuda")
    assert module.kernels == ["reduce_k"] and module.device == "cuda:0"
    kept = module.copy(x)
    module["reduce_k"](1, 32, x[::2], kept, 500)
    assert (kept.get(float) == x).all() and (x == np.arange(1000.0)).all()
use()
live = get("live")
"""


@needs_compiler
def test_a_users_module_ends_with_its_object(library):
    with_fake(
        library,
        PTX
        + """
for _ in range(5):
    use()
assert get("live") == live and get("used") == 0 and get("depth") == 0
module = gpuopt.load_ptx(text, "cuda")
assert get("live") == live + 1
assert gpuopt.reduce(items, device="cuda") == total  # the embedded image is another one
before = get("live")
del module
assert get("live") == before - 1 and gpuopt.reduce(items, device="cuda") == total
module = gpuopt.load_ptx(text, "cuda")
launch = module["reduce_k"]
caught(ValueError, lambda: launch(1, (32, 33), x, x, 1), "1056 threads a block", "1024")
caught(ValueError, lambda: launch(1, 32, x, x, 1, shared=1 << 20), "shared memory", "GPU's 232448")
fake.fake_cuda_fail(b"cuModuleLoadDataEx", 218, 1)  # CUDA_ERROR_INVALID_PTX
error = caught(gpuopt.PTXError, use, "line 7; error   : made by the test")
assert error.line == 7 and error.column == 0 and not str(error).endswith("\\n")
for change in (".u32 n", ""):  # the driver says three of 8 bytes
    changed = text.replace(", .param .u64 n", change and ", .param " + change)
    wrong = gpuopt.load_ptx(changed, "cuda")
    caught(gpuopt.PTXError, lambda: wrong["reduce_k"], "its parameters cannot be read")
""",
    )


LINK = """
from gpuopt._ptx import Module
fake.fake_cuda_story.restype = fake.fake_cuda_texture.restype = ctypes.c_char_p
def story():
    told = fake.fake_cuda_story().decode().strip(";").split(";")
    fake.fake_cuda_forget()
    return told
def use():
    module = Module(None, "cuda")
    near = module.pinned((10, 100), np.float32)
    near[...] = np.arange(1000, dtype=np.float32).reshape(10, 100)
    back = module.pinned(4000)
    there = module.empty(4000)
    line = module.texture(near.reshape(-1))
    plane = module.texture(near, linear_filter=True, wrap=True, normalised=True)
    fetch = module["micro_fetch_texture"]
    launches = [fetch.bind(1, 32, each, there, 900, 3) for each in (line, plane)]
    module.time([module.transfer(there, near), module.transfer(back, there).on(1)], 2)
    assert (back.view(np.float32) == near.reshape(-1)).all()
    for how in ("queue", "sync", "graph", "host"):
        module.time(launches, 3, how)
    module.use_stream(0x77000)
    module.time(launches[0])
use()
live = get("live")
"""


@needs_compiler
def test_streams_and_textures_end_with_their_module(library):
    with_fake(
        library,
        LINK
        + """
for _ in range(3):
    use()
assert get("live") == live and get("used") == 0 and get("depth") == 0
module = Module(None, "cuda")
array = module.pinned((3, 5), np.int16)
assert array.shape == (3, 5) and array.dtype == np.int16 and array.flags.writeable
part = array[1:, ::2]
del module, array
before = get("live")
part[...] = 7  # the memory lives as long as the last view
del part
assert get("live") == before - 1 and get("depth") == 0
module = Module(None, "cuda")
fake.fake_cuda_fail(b"cuMemHostAlloc", 2, 1)
caught(MemoryError, lambda: module.pinned(1 << 20), "cuda:0", "1048576 bytes", "pinned")
plane = np.zeros((4, 6, 2), np.uint8)
fake.fake_cuda_fail(b"cuArrayCreate", 2, 1)
error = caught(gpuopt.DeviceMemoryError, lambda: module.texture(plane, channels=2))
assert error.bytes_asked == 48
del error  # its traceback holds the texels
assert get("live") == before - 1
caught(ValueError, lambda: module.texture(np.zeros(1001, np.float32)), "1001 x 1", "1000 x 1")
launch = module["micro_empty"].bind(1, (32, 33))
caught(ValueError, lambda: module.time([launch], 1, "graph"), "1056 threads a block", "1024")
assert get("used") == 0 and get("live") == before - 1
""",
    )


@needs_compiler
def test_what_streams_are_given(library):
    """Copies and launches go to their streams; those begin after the first and end before it."""
    with_fake(
        library,
        LINK
        + """
module = Module(None, "cuda")
host, there = module.pinned(64), module.empty(64)
steps = [module.transfer(there, host), module.transfer(host, there).on(1)]
steps.append(module["micro_empty"].bind(1, 32).on(2))
story()
module.time(steps, 2)
one, two, three = dict.fromkeys(each.split()[1] for each in story() if each[:4] != "wait")
module.time(steps, 2)
round_ = [f"copy {one}", f"copy {two}", f"launch {three}"]
begin, end = [f"wait {two}", f"wait {three}"], [f"wait {one}"] * 2
assert story() == begin + round_ + end + begin + 2 * round_ + end
module.time([steps[2].on(0)] * 3, 2, "graph")
told = story()
assert told == [f"launch {one}"] * 3 + [f"graph {one}"] * 3, told
module.use_stream(0x77000)
module["micro_empty"](1, 32)
assert story() == ["launch 77000"]  # nothing was under way: no wait
fake.fake_cuda_set(b"busy", 1)
module.use_stream(2)
fake.fake_cuda_set(b"busy", 0)
module["micro_empty"](1, 32)
assert story() == ["wait 2", "launch 2"]
module.use_stream(0)
module["micro_empty"](1, 32)
assert story() == [f"launch {one}"]
module.use_stream(1)
del module, steps, there, host
module = Module(None, "cuda")  # the queue of before, on its own stream again
module["micro_empty"](1, 32)
assert story() == [f"launch {one}"]
caught(ValueError, lambda: module.use_stream(-1), "stream")
empty = module["micro_empty"].bind(1, 32)
caught(ValueError, lambda: module.time(empty.on(8)), "stream: 8 is not from 0 to 7")
caught(ValueError, lambda: module.time(empty.on(1), 1, "graph"), "graph", "stream 0")
""",
    )


@needs_compiler
def test_experiments_on_the_host_and_its_link(library):
    """Their steps, with real copies and a kernel that counts: each is verified twice."""
    with_fake(
        library,
        """
fake.fake_cuda_set(b"elapsed", 50)
run = gpuopt.experiments
link = run.host_link(4096)
assert {row.name for row in link.rows} == {
    f"{way}, {memory}" for way in ("in", "out") for memory in ("pageable", "staged", "pinned")
} | {"both, pinned"}
assert link["both, pinned"].values["bandwidth"] == 2 * 4096 / 0.05 and "GB/s" in link.ceiling
found = run.overlap(5000)
assert found["serial"].parameters == {"streams": 1, "chunks": 1}
assert found["3 streams, 8 chunks"].values["speedup"] == found["serial"].share == 1
cost = run.launch_overhead(10)
assert cost["back to back, 1 block"].values["seconds"] == 0.05 / 10
assert cost["waited for, 32 blocks"].values["seconds"] < 0.005
for result in (link, found, cost):
    assert "Fake GPU 0" in str(result) and len(str(result).splitlines()) > 8
caught(ValueError, lambda: run.host_link(4097), "nbytes", "multiple of 4")
caught(ValueError, lambda: run.overlap(100), "n: ", "4096")
caught(ValueError, lambda: run.launch_overhead(501), "launches", "500")
# One copy that is lost, one launch that is lost: verification tells.
lost = gpuopt.VerificationError
fake.fake_cuda_set(b"lose", 1)
for function in (lambda: run.host_link(4096), lambda: run.overlap(5000)):
    caught(lost, function, "gave")
caught(lost, lambda: run.launch_overhead(10), "not 30 launches")
fake.fake_cuda_set(b"lose", 0)
assert get("used") == 0 and get("depth") == 0
""",
    )


@needs_compiler
def test_what_textures_are_asked_for(library):
    with_fake(
        library,
        LINK
        + """
module = Module(None, "cuda")
def asked(*arguments, **options):
    made = module.texture(*arguments, **options)
    return fake.fake_cuda_texture().decode()
f32, u8 = np.zeros((4, 6), np.float32), np.zeros((4, 6, 2), np.uint8)
assert asked(f32[0]) == "linear 24 bytes of 1 format 20; outside 1 filter 0 flags 0"
assert asked(f32[0].astype("i4")) == "linear 24 bytes of 1 format a; outside 1 filter 0 flags 1"
assert asked(f32) == "array 6 x 4 of 1 format 20; outside 1 filter 0 flags 0"
assert asked(f32, linear_filter=True, wrap=True, normalised=True) == (
    "array 6 x 4 of 1 format 20; outside 0 filter 1 flags 2"
)
assert asked(u8, channels=2, linear_filter=True) == (
    "array 6 x 4 of 2 format 1; outside 1 filter 1 flags 0"
)
assert asked(f32.astype(np.uint32)) == "array 6 x 4 of 1 format 3; outside 1 filter 0 flags 1"
""",
    )


@needs_compiler
@pytest.mark.parametrize(
    "made, least",
    [(BIG, 10), (PTX, 15), (LINK, 60)],
    ids=["a reduction", "a user's module", "streams and textures"],
)
def test_any_call_of_the_driver_may_fail_once(library, made, least):
    """Whatever fails says so or is overcome; nothing leaks, and the next call works."""
    with_fake(
        library,
        made
        + """
import itertools
failed = 0
for nth in itertools.count(1):
    calls = get("calls")
    fake.fake_cuda_fail(b"*", 999, nth)
    try:
        use()
    except gpuopt.DeviceError as error:
        failed += 1
        assert "CUDA_ERROR_999" in str(error) and "made by the test" in str(error), str(error)
        del error
    else:
        if get("calls") - calls < nth:
            break  # it ended before its turn came
    fake.fake_cuda_fail(b"", 0, 0)
    assert get("used") == 0 and get("depth") == 0, (nth, get("used"), get("depth"))
    assert get("live") == live, (nth, get("live"), live)
    use()
"""
        + f"assert failed > {least}, failed\n",
    )


LARGE = """
large = np.random.default_rng(5).integers(-(2**31), 2**31, 18_000_001, np.int32)  # 18 parts
want = int(large.sum(dtype=np.int64))
threads = len(os.listdir("/proc/self/task"))
def use():
    return int(gpuopt.reduce(large, device="cuda"))
assert use() == want  # the order of parts does not show: the sum of a copy does
live = get("live")
def threads_ended():
    import time
    end = time.monotonic() + 5  # a thread that was joined may be listed for a moment
    while len(os.listdir("/proc/self/task")) > threads and time.monotonic() < end:
        time.sleep(0.001)
    return len(os.listdir("/proc/self/task")) == threads
"""


@needs_compiler
def test_a_large_array_travels_through_the_ring(library):
    with_fake(
        library,
        LARGE
        + """
from gpuopt._ptx import Module
module = Module(None, "cuda")
for size in (16 << 20, (16 << 20) + 1, (64 << 20) + 4095, large.nbytes):
    sent = large.view(np.uint8)[:size]
    assert (module.copy(sent).get() == sent).all(), size
import threading
results = []
several = [threading.Thread(target=lambda: results.append(use())) for _ in range(3)]
for each in several:
    each.start()
for each in several:
    each.join()
assert results == [want] * 3
assert get("used") == 0 and get("depth") == 0
assert threads_ended()
""",
    )


@needs_compiler
def test_any_call_of_the_driver_may_fail_once_in_the_ring(library):
    with_fake(
        library,
        LARGE
        + """
import itertools
failed = 0
for nth in itertools.chain(range(1, 30), range(30, 230, 20)):
    calls = get("calls")
    fake.fake_cuda_fail(b"*", 999, nth)
    try:
        assert use() == want
    except gpuopt.DeviceError as error:
        failed += 1
        assert "CUDA_ERROR_999" in str(error), str(error)
    else:
        if get("calls") - calls < nth:
            break
    fake.fake_cuda_fail(b"", 0, 0)
    assert get("used") == 0 and get("depth") == 0 and get("live") == live, nth
    assert threads_ended()
assert failed > 25, failed
""",
    )


@needs_compiler
def test_ctrl_c_while_the_ring_is_full(library):
    with_fake(
        library,
        LARGE
        + """
import signal, threading, time
for _ in range(2):
    fake.fake_cuda_set(b"busy", 1)
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(1.0, send).start()
    caught(KeyboardInterrupt, use)
    took = time.monotonic() - sent[0]
    fake.fake_cuda_set(b"busy", 0)
    assert took < 0.3, took
    assert use() == want and get("used") == 0 and get("depth") == 0 and get("live") == live
assert threads_ended()
""",
    )


@needs_compiler
def test_a_failure_while_starting_is_not_for_ever(library):
    """The first call meets a failure anywhere after cuInit; the second one works."""
    opening = (
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent",
        "cuMemPoolCreate",
        "cuMemPoolSetAttribute",
        "cuStreamCreate",
        "cuEventCreate",
    )
    for name in (
        *opening,
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuMemHostAlloc",
    ):
        with_fake(
            library,
            f"""
assert gpuopt.available("cuda")
fake.fake_cuda_fail(b"{name}", 999, 1)
caught(gpuopt.DeviceError, lambda: gpuopt.reduce(items, device="cuda"), "999")
assert get("depth") == 0 and get("used") == 0
live = get("live")
assert gpuopt.reduce(items, device="cuda") == total
if "{name}" in {opening}:
    assert live <= 1, f"{{live}} objects left behind by a failed start"
""",
        )


@needs_compiler
def test_a_lost_device(library):
    """After a sticky fault CUDA answers at once, without asking the driver; the cpu goes on."""
    with_fake(
        library,
        """
assert gpuopt.reduce(items, device="cuda") == total
fake.fake_cuda_fail(b"cuLaunchKernel", 700, 1)
error = caught(gpuopt.DeviceLost, lambda: gpuopt.reduce(items, device="cuda"), "700", "restart")
assert isinstance(error, gpuopt.DeviceError) and isinstance(error, RuntimeError)
calls = get("calls")
for _ in range(3):
    caught(gpuopt.DeviceLost, lambda: gpuopt.reduce(items, device="cuda"), "restart", "cpu")
assert get("calls") == calls, "the driver was asked again"
assert gpuopt.reduce(items, device="cpu") == total and get("depth") == 0
assert gpuopt.reduce([], device="cpu") == 0
""",
    )


@needs_compiler
def test_ctrl_c_while_the_gpu_is_busy(library):
    with_fake(
        library,
        """
import _thread, signal, threading, time
assert gpuopt.reduce(items, device="cuda") == total
fake.fake_cuda_set(b"busy", 1)
sent = []
def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.3, send).start()
caught(KeyboardInterrupt, lambda: gpuopt.reduce(items, device="cuda"))
took = time.monotonic() - sent[0]
fake.fake_cuda_set(b"busy", 0)
assert took < 0.3, took
assert gpuopt.reduce(items, device="cuda") == total
assert get("used") == 0 and get("depth") == 0
""",
    )


@needs_compiler
def test_the_gil_is_free_while_the_gpu_is_busy(library):
    with_fake(
        library,
        """
import threading
assert gpuopt.reduce(items, device="cuda") == total
fake.fake_cuda_set(b"busy", 1)
threading.Timer(0.3, lambda: fake.fake_cuda_set(b"busy", 0)).start()
assert gpuopt.reduce(items, device="cuda") == total  # ends only if the timer's thread could run
""",
    )


# --- fork

FORK = """
    assert gpuopt.reduce(items, device="cuda") == total
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (
                lambda: gpuopt.reduce(items, device="cuda"),
                lambda: gpuopt.reduce(items, variant=7),
                lambda: gpuopt.reduce(items),
            ):
                try:
                    call()
                except RuntimeError as error:
                    assert "spawn" in str(error) and "fork" in str(error), error
                else:
                    raise AssertionError("CUDA answered in a forked child")
            found = gpuopt.available("cuda")
            assert not found and "spawn" in found.reason
            assert gpuopt.reduce(items, device="cpu") == total
            assert gpuopt.reduce(np.ones(2**20), device="cpu") == 2**20
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert gpuopt.reduce(items, device="cuda") == total
""".replace("\n    ", "\n")


@needs_compiler
def test_fork_after_the_fake_driver_started(library):
    with_fake(library, FORK)


@needs_compiler
def test_fork_before_the_fake_driver_started(library):
    """A child of a process that only imported gpuopt may use CUDA."""
    with_fake(
        library,
        """
child = os.fork()
if child == 0:
    code = 1
    try:
        assert gpuopt.reduce(items, device="cuda") == total
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
assert gpuopt.reduce(items, device="cuda") == total
""",
    )


@needs_compiler
def test_a_clean_exit_with_queues_open(library):
    process = with_fake(
        library,
        """
import threading
def use():
    assert gpuopt.reduce(items, device="cuda") == total
threads = [threading.Thread(target=use) for _ in range(24)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert get("depth") == 0 and get("used") == 0
""",
    )
    assert process.stdout == ""


@pytest.mark.parametrize("device", only_cuda)
def test_fork_after_cuda_started(device):
    preamble = "import os\nimport numpy as np, gpuopt\nitems = np.arange(100_001, dtype=np.int32)\n"
    run_python(preamble + "total = int(items.sum(dtype=np.int64))\n" + FORK)


def _spawned(queue):
    queue.put(float(gpuopt.reduce(np.ones(1000), device="cuda")))


@pytest.mark.parametrize("device", only_cuda)
def test_spawn_after_cuda_started(device):
    assert gpuopt.reduce(np.ones(1000), device=device) == 1000
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_spawned, args=(queue,))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    assert queue.get(timeout=30) == 1000


@pytest.mark.parametrize("device", only_cuda)
def test_more_than_the_gpu_holds(device):
    """From one item: it goes through a piece of the GPU's memory, and leaves nothing there."""
    n = gpuopt.devices()[0].memory_total // 8 + 12_345
    ones = np.broadcast_to(np.float64(1), n)

    def work():
        assert gpuopt.reduce(ones, device=device) == n

    leaves_memory_free(work, 2**30, attempts=2)


@pytest.mark.parametrize("device", only_cuda)
def test_the_memory_comes_back(device):
    """Twenty reductions of 256 MiB leave the GPU's free memory where it was."""
    array = np.ones(2**26, np.float32)
    gpuopt.reduce(array, device=device)

    def work():
        for _ in range(20):
            assert gpuopt.reduce(array, device=device) == 2**26

    leaves_memory_free(work, 2**28)


def test_the_kinds_are_known():
    assert {"cpu", "cuda"} <= set(KINDS)
    assert KINDS["cpu"] == ""
    assert os.environ.get("GPUOPT_DEVICE") is None
