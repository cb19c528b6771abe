"""Users' modules, streams, textures and the experiments on the host's side of a driver.

They run on the fake driver (fake_cuda.c), whose kernels do nothing and whose copies are real.
"""

import pytest
from fake_driver import LINK, PTX, with_fake

pytestmark = pytest.mark.timeout(180)


def test_a_users_module_ends_with_its_object(fake_cuda):
    with_fake(
        fake_cuda,
        PTX
        + """
for _ in range(5):
    use()
settled(live)
module = gpuopt.load_ptx(text, "cuda")
assert get("live") == live + 1
assert gpuopt.reduce(items, device="cuda") == total  # the embedded image is another one
before = get("live")
del module
assert get("live") == before - 1 and gpuopt.reduce(items, device="cuda") == total
module = gpuopt.load_ptx(text, "cuda")
launch = module["reduce_k"]
caught(gpuopt.UnfitError, lambda: launch(1, (32, 33), x, x, 1), "1056 threads per block", "1024")
large = lambda: launch(1, 32, x, x, 1, shared=1 << 20)
caught(gpuopt.UnfitError, large, "shared memory", "GPU's 232448")
for bytes in (200_000, 60_000, 1000):  # the limit never shrinks: another stream may need it
    launch(1, 32, x, x, 1, shared=bytes)
    assert get("shared") >= 200_000
fake.fake_cuda_fail(b"cuModuleLoadDataEx", 218, 1)  # CUDA_ERROR_INVALID_PTX
error = caught(gpuopt.PTXError, use, "line 7; error   : made by the test")
assert error.line == 7 and error.column == 0 and not str(error).endswith("\\n")
for change in (".u32 n", ""):  # the driver says three of 8 bytes
    changed = text.replace(", .param .u64 n", change and ", .param " + change)
    wrong = gpuopt.load_ptx(changed, "cuda")
    caught(gpuopt.PTXError, lambda: wrong["reduce_k"], "its parameters cannot be read")
""",
    )


def test_streams_and_textures_end_with_their_module(fake_cuda):
    with_fake(
        fake_cuda,
        LINK
        + """
for _ in range(3):
    use()
settled(live)
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
fake.fake_cuda_fail(b"cuArray3DCreate", 2, 1)
error = caught(gpuopt.DeviceMemoryError, lambda: module.texture(plane, channels=2))
assert error.bytes_asked == 48
del error  # its traceback holds the texels
assert get("live") == before - 1
long = np.zeros(1001, np.float32)
caught(ValueError, lambda: module.texture(long), "1001 x 1 x 1", "1000 x 1 x 1")
launch = module["micro_empty"].bind(1, (32, 33))
caught(ValueError, lambda: module.time([launch], 1, "graph"), "1056 threads per block", "1024")
settled(before - 1)
""",
    )


def test_cold_runs_rotate_over_the_copies(fake_cuda):
    """The rotation continues over calls and over untimed launches."""
    with_fake(
        fake_cuda,
        """
from gpuopt import _core
fake.fake_cuda_story.restype = ctypes.c_char_p
fake.fake_cuda_set(b"inputs", 1)
data = np.ones(1 << 20, np.int32)  # 4 MiB of 256
bench, copies, seen = _core.Workbench("reduce", data, device="cuda"), 64, []
def read(runs, cold):
    fake.fake_cuda_forget()
    assert bench.time(11, runs=runs, cold=cold) > 0
    told = fake.fake_cuda_story().decode().strip(";").split(";")
    return [int(each.split()[1], 16) for each in told if each.startswith("input")]
first = read(1, False)[0]
assert set(read(5, False)) == {first}
for runs in (1, 1, 2, 30, 40, 1, 64):
    addresses = read(runs, True)
    assert len(addresses) == 1 + runs * (1 + (runs > 1)), (runs, addresses)
    seen += addresses
assert [(each - first) / data.nbytes for each in seen] == [k % copies for k in range(len(seen))]
assert set(read(3, False)) == {first}
del bench
settled()
""",
    )


def test_work_goes_to_the_streams_named(fake_cuda):
    """Copies and launches go to their streams, which start after and join the first stream."""
    with_fake(
        fake_cuda,
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
assert story() == ["launch 77000"]  # nothing was in flight: no wait
fake.fake_cuda_set(b"busy", 1)
module.use_stream(2)
fake.fake_cuda_set(b"busy", 0)
module["micro_empty"](1, 32)
assert story() == ["wait 2", "launch 2"]
fake.fake_cuda_fail(b"cuStreamQuery", 999, 1)  # the stream is unchanged
caught(gpuopt.DeviceError, lambda: module.use_stream(0x88000), "cuStreamQuery", "999")
module["micro_empty"](1, 32)
assert story() == ["launch 2"]
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
caught(ValueError, lambda: module.time(empty.on(8)), "stream: 8 is not in the range 0 to 7")
caught(ValueError, lambda: module.time(empty.on(1), 1, "graph"), "graph", "stream 0")
""",
    )


def test_experiments_on_the_host_and_its_link(fake_cuda):
    """The experiments' steps run with real copies and a counting kernel, verified twice."""
    with_fake(
        fake_cuda,
        """
fake.fake_cuda_set(b"elapsed", 50)
run = gpuopt.experiments
link = run.host_link(4096)
assert {row.name for row in link.rows} == {
    f"{way}, {memory}" for way in ("in", "out") for memory in ("pageable", "staged", "pinned")
} | {"both, pinned"}
both = link["both, pinned"].values
assert both["seconds"] in (0.05, 0.05 / 3)  # the fake timer's: of one run or of three
assert both["bandwidth"] == 2 * 4096 / both["seconds"] and "GB/s" in link.ceiling
found = run.overlap(5000)
assert found["serial"].parameters == {"streams": 1, "chunks": 1}
assert found["3 streams, 8 chunks"].values["speedup"] == found["serial"].share == 1
cost = run.launch_overhead(10)
seconds = cost["back to back, 1 block"].values["seconds"]
assert min(abs(seconds - 0.05 / 10), abs(seconds - 0.05 / 3 / 10)) < 1e-9, seconds
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
settled()
""",
    )


def test_texture_arguments_reach_the_driver(fake_cuda):
    with_fake(
        fake_cuda,
        LINK
        + """
module = Module(None, "cuda")
def asked(*arguments, **options):
    made = module.texture(*arguments, **options)
    return fake.fake_cuda_texture().decode()
f32, u8 = np.zeros((4, 6), np.float32), np.zeros((4, 6, 2), np.uint8)
assert asked(f32[0]) == "linear 24 bytes of 1 format 20; outside 1 filter 0 flags 0"
assert asked(f32[0].astype("i4")) == "linear 24 bytes of 1 format a; outside 1 filter 0 flags 1"
assert asked(f32) == "array 6 x 4 x 0 of 1 format 20; outside 1 filter 0 flags 0"
assert asked(f32, linear_filter=True, wrap=True, normalised=True) == (
    "array 6 x 4 x 0 of 1 format 20; outside 0 filter 1 flags 2"
)
assert asked(u8, channels=2, linear_filter=True) == (
    "array 6 x 4 x 0 of 2 format 1; outside 1 filter 1 flags 0"
)
assert asked(f32.astype(np.uint32)) == "array 6 x 4 x 0 of 1 format 3; outside 1 filter 0 flags 1"
assert asked(f32[0], linear_memory=False) == (
    "array 6 x 0 x 0 of 1 format 20; outside 1 filter 0 flags 0"
)
assert asked(f32[0], linear_filter=True) == (
    "array 6 x 0 x 0 of 1 format 20; outside 1 filter 1 flags 0"
)
assert asked(np.zeros((2, 3, 5), np.float32)) == (
    "array 5 x 3 x 2 of 1 format 20; outside 1 filter 0 flags 0"
)
assert asked(np.zeros((2, 3, 5), "i2"), layered=True, as_integers=True, writable=True) == (
    "array 5 x 3 x 2 of 1 format 9; flags 3; outside 1 filter 0 flags 1"
)
assert asked(np.zeros((4, 5), np.float16), layered=True, boundary="border") == (
    "array 5 x 0 x 4 of 1 format 10; flags 1; outside 3 filter 0 flags 0"
)
assert asked(np.zeros((2, 6, 3, 3), "u2"), layered=True, cube=True) == (
    "array 3 x 3 x 12 of 1 format 2; flags 5; outside 1 filter 0 flags 0"
)
levels = [np.zeros((4 >> i, 8 >> i), np.float32) for i in range(3)]
assert asked(levels[0], mipmaps=levels[1:], normalised=True, boundary="mirror") == (
    "array 8 x 4 x 0 of 1 format 20; 3 levels; outside 2 filter 0 flags 2"
)
made = module.texture(f32, writable=True)
assert made.surface.handle and made.get().shape == f32.shape
del made
settled()
""",
    )


def test_chunks_on_several_gpus(fake_cuda):
    """Each GPU has a chunk and a thread that waits for it; a wrong sum is not timed."""
    with_fake(
        fake_cuda,
        """
import importlib
run = importlib.import_module("gpuopt.experiments.several_gpus")
fake.fake_cuda_set(b"devices", 3)
assert run._counts(gpuopt.catalog.devices.device("cuda:0")) == [1, 2, 3]
many = np.random.default_rng(3).integers(-(2**31), 2**31, 30_001, np.int32)
splits = [run._shares(gpus, many.size) for gpus in (1, 2, 3)]
first = gpuopt.catalog.devices.device("cuda:0")
rows = run._time(splits, many, first)
assert [row.name for row in rows] == ["sum, 1 GPU", "sum, 2 GPUs", "sum, 3 GPUs"]
assert rows[0].share == 1 and all(row.values["seconds"] > 0 for row in rows)
assert [row.values["back"] for row in rows] == [8, 16, 24]
assert {job[0] for job in splits[2].jobs} == {0, 1, 2}
splits[2].joined = lambda sums: [sum(sums) + 1]
caught(gpuopt.VerificationError, lambda: run._time(splits, many, first), "sum, 3 GPUs: gave")
""",
    )
