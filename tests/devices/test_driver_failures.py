"""Failures of a working driver: no memory, any call, a lost device, Ctrl-C.

They run on the fake driver (fake_cuda.c), which fails on request.
"""

import pytest
from fake_driver import BESIDE, BIG, LINK, PTX, with_fake

pytestmark = pytest.mark.timeout(180)


def test_out_of_memory_raises_with_sizes(fake_cuda):
    with_fake(
        fake_cuda,
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
    assert out == 7
    settled(live)
    assert gpuopt.reduce(items[:1000], device="cuda") == 499500
# room for the items but not for the partial results
fake.fake_cuda_set(b"memory", items.nbytes)
error = caught(gpuopt.DeviceMemoryError, lambda: gpuopt.reduce(items, device="cuda"))
assert error.bytes_free == 0 and get("used") == 0
fake.fake_cuda_set(b"memory", 1 << 32)
assert gpuopt.reduce(items, device="cuda") == total
""",
    )


def test_any_call_may_run_out_of_device_memory(fake_cuda):
    """It raises DeviceMemoryError with advice; what repeats after a trim is not noticed."""
    with_fake(
        fake_cuda,
        LINK
        + """
import itertools
told = set()
for nth in itertools.count(1):
    calls = get("calls")
    fake.fake_cuda_fail(b"*", 2, nth)
    try:
        use()
    except gpuopt.DeviceMemoryError as error:
        told.add(str(error).split()[1])
        assert "the GPU's memory is full; free arrays" in str(error) or "are free" in str(error)
        del error
    except MemoryError as error:
        assert "can be pinned" in str(error)
        del error
    else:
        if get("calls") - calls < nth:
            break
    fake.fake_cuda_fail(b"", 0, 0)
    settled(get("live"), nth)
assert {"cuGraphInstantiateWithFlags", "cuEventRecord", "cuTexObjectCreate"} <= told, told
assert not told & {"cuLaunchKernel", "cuStreamCreate", "cuMemAllocFromPoolAsync"}, told
""",
    )


def test_pooled_memory_is_reused_before_out_of_memory(fake_cuda):
    with_fake(
        fake_cuda,
        """
big = np.arange(3_000_000, dtype=np.int32)
fake.fake_cuda_set(b"memory", big.nbytes * 3 // 2)
fake.fake_cuda_set(b"keeps", 1)
for _ in range(3):
    assert gpuopt.reduce(big, device="cuda") == big.sum(dtype=np.int64)
""",
    )


def test_more_items_than_the_gpu_has_memory(fake_cuda):
    with_fake(
        fake_cuda,
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
    settled(live)
assert gpuopt.reduce(part, device="cuda") == want
""",
    )


@pytest.mark.parametrize(
    "made, least",
    [(BIG, 10), (PTX, 15), (LINK, 60), (BESIDE, 40)],
    ids=["a reduction", "a user's module", "streams and textures", "arrays of others"],
)
def test_every_driver_call_may_fail_once(fake_cuda, made, least):
    """Every failure raises or is handled; nothing leaks, and the next call works."""
    with_fake(
        fake_cuda,
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
    assert get("live") <= live, nth  # a queue whose stream fails is closed, not kept
    settled(get("live"), nth)
    use()
    settled(live, nth)
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


OUT = """
from gpuopt.ptx.module import Module
module = Module(None, "cuda")
def use():
    got = module.copy(large).get().view(np.int32)
    return want if (got == large).all() else 0
use()  # the first call allocates memory that is kept
live = get("live")
"""
WAYS = {"in": "", "out": OUT, "pinned": 'fake.fake_cuda_set(b"pinned", 1)\n'}
WAYS["pinned out"] = OUT + WAYS["pinned"]


@pytest.mark.parametrize("pinned", [0, 1])
def test_a_large_array_travels_through_the_ring(fake_cuda, pinned):
    with_fake(
        fake_cuda,
        LARGE
        + f"""
from gpuopt.ptx.module import Module
fake.fake_cuda_set(b"pinned", {pinned})
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
settled()
assert threads_ended()
""",
    )


@pytest.mark.parametrize("way", WAYS)
def test_every_driver_call_may_fail_once_in_the_ring(fake_cuda, way):
    with_fake(
        fake_cuda,
        LARGE
        + WAYS[way]
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
    settled(live, nth)
    assert threads_ended()
"""
        + f"assert failed >= {3 if 'pinned' in way else 25}, failed\n",
    )


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_while_the_ring_is_full(fake_cuda, way):
    with_fake(
        fake_cuda,
        LARGE
        + WAYS[way]
        # A copy from or to the caller's own memory ends first: 3 s in the fake driver.
        + f"""
for _ in range(2):
    ctrl_c(use, 1.0, {8.0 if "pinned" in way else 0.3})
    assert use() == want
    settled(live)
assert threads_ended()
""",
    )


def test_failed_start_is_retried(fake_cuda):
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
            fake_cuda,
            f"""
assert gpuopt.available("cuda")
fake.fake_cuda_fail(b"{name}", 999, 1)
caught(gpuopt.DeviceError, lambda: gpuopt.reduce(items, device="cuda"), "999")
settled()
live = get("live")
assert gpuopt.reduce(items, device="cuda") == total
if "{name}" in {opening}:
    assert live <= 1, f"{{live}} objects left behind by a failed start"
""",
        )


def test_repeated_failed_starts_leak_nothing(fake_cuda):
    """A retry reuses the context and the memory pool of the failed attempt."""
    with_fake(
        fake_cuda,
        """
for name in (b"cuMemPoolSetAttribute", b"cuDeviceTotalMem", b"cuMemPoolSetAttribute"):
    fake.fake_cuda_fail(name, 999, 1)
    caught(gpuopt.DeviceError, lambda: gpuopt.reduce(items, device="cuda"), "999")
assert get("live") == 1, get("live")
assert gpuopt.reduce(items, device="cuda") == total
""",
    )


def test_failing_pinned_allocation_raises_memory_error(fake_cuda):
    """If pinning fails, MemoryError is raised, as for pageable memory."""
    with_fake(
        fake_cuda,
        """
small, large = items[:1000], np.ones(18_000_001, np.int32)
gpuopt.asarray(small, device="cuda:0")
"""
        + "\n".join(
            f"""
fake.fake_cuda_fail(b"cuMemHostAlloc", 2, 1)
error = caught(MemoryError, lambda: {call}, "pinned")
assert not isinstance(error, gpuopt.DeviceMemoryError)
{call}
"""
            for call in (
                "gpuopt.transpose(items, device='cuda')",
                "gpuopt.reduce(large, device='cuda')",
            )
        ),
    )


def test_failing_graph_falls_back_to_launches(fake_cuda):
    """A graph only saves time: without it repeated calls return the same results."""
    with_fake(
        fake_cuda,
        """
x, other = (gpuopt.asarray(items[:n], device="cuda") for n in (100, 99))
out = np.array(0)
want = items[:100].sum()
for name in (b"cuGraphCreate", b"cuGraphAddKernelNode", b"cuGraphInstantiateWithFlags",
             b"cuGraphUpload"):
    fake.fake_cuda_fail(name, 2, 1)
    for _ in range(20):
        assert gpuopt.reduce(x, out=out) == want
    gpuopt.reduce(other, out=out)  # another launch: counted anew
""",
    )


def test_a_lost_device(fake_cuda):
    """After a sticky fault CUDA answers at once, without asking the driver; the cpu goes on."""
    with_fake(
        fake_cuda,
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


def test_ctrl_c_while_the_gpu_is_busy(fake_cuda):
    with_fake(
        fake_cuda,
        """
assert gpuopt.reduce(items, device="cuda") == total
ctrl_c(lambda: gpuopt.reduce(items, device="cuda"), 0.3)
assert gpuopt.reduce(items, device="cuda") == total
settled()
""",
    )


def test_the_gil_is_free_while_the_gpu_is_busy(fake_cuda):
    with_fake(
        fake_cuda,
        """
import threading
assert gpuopt.reduce(items, device="cuda") == total
fake.fake_cuda_set(b"busy", 1)
threading.Timer(0.3, lambda: fake.fake_cuda_set(b"busy", 0)).start()
assert gpuopt.reduce(items, device="cuda") == total  # ends only if the timer's thread could run
""",
    )


@pytest.mark.parametrize("way", ["in", "in by the ring", "out", "out by the ring"])
def test_staging_buffer_without_an_event_waits_for_the_stream(fake_cuda, way):
    """A pinned buffer is filled again only when the copy from it has ended."""
    with_fake(
        fake_cuda,
        f"""
module = gpuopt.load_ptx('''.version 7.0
.target sm_75
.address_size 64
.visible .entry k() {{{{ ret; }}}}''', device="cuda")
many = np.zeros((64 << 20) if "ring" in {way!r} else 1000, np.uint8)
buffer = module.copy(many)
call = buffer.get if "out" in {way!r} else lambda: module.copy(many)
waits = get("waits")
fake.fake_cuda_fail(b"cuEventRecord", 999, 1)
caught(gpuopt.DeviceError, call, "cuEventRecord")
assert get("waits") > waits
call()
""".replace("{{", "{").replace("}}", "}"),
    )


def test_a_large_host_array_is_computed_in_blocks_if_the_gpu_is_full(fake_cuda):
    with_fake(
        fake_cuda,
        """
from gpuopt.families import engines
engines.BLOCKS_LEAST = 8 << 20
x = np.arange(3_000_000, dtype=np.int32).reshape(3000, 1000)
fake.fake_cuda_set(b"memory", x.nbytes * 3 // 2)  # room for the array or for the result
fake.fake_cuda_set(b"lose", 0)
calls = get("calls")
try:  # the fake driver runs few kernels: the copies and the launches of blocks count
    gpuopt.stencil1d(x, 3, device="cuda")
except gpuopt.DeviceError as error:
    assert not isinstance(error, MemoryError), error
assert get("calls") - calls > 40, get("calls") - calls
settled()
fake.fake_cuda_set(b"memory", 1000)
caught(gpuopt.DeviceMemoryError, lambda: gpuopt.stencil1d(x, 3, device="cuda"))
engines.BLOCKS_LEAST = 1 << 30
fake.fake_cuda_set(b"memory", x.nbytes * 3 // 2)
caught(gpuopt.DeviceMemoryError, lambda: gpuopt.stencil1d(x, 3, device="cuda"))
""",
    )
