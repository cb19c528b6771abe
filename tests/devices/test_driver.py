"""The states of CUDA's driver: missing, old, without a GPU; started, forked, ended.

Most tests run everywhere, on a libcuda that the test compiles (fake_cuda.c). The failures of a
working driver are in test_driver_failures.py; streams, textures and users' modules are in
test_driver_modules.py.
"""

import multiprocessing
import os
import textwrap

import numpy as np
import pytest
from conftest import KINDS, leaves_memory_free, on, run_python
from fake_driver import PREAMBLE, with_fake

import gpuopt
from gpuopt import _core

pytestmark = pytest.mark.timeout(180)

only_cuda = [on("cuda", "cuda", id="cuda")]


# --- unusable drivers: every entry point gives the reason, and the cpu works

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
    """Return why a driver is unusable, after checking that every call gives that reason."""
    environment = {"GPUOPT_CUDA_DRIVER": driver, "GPUOPT_DEVICE": None, **environment}
    return run_python(before + CANNOT_SERVE, **environment).stdout.strip()


def test_no_driver(tmp_path):
    reason = reason_of(str(tmp_path / "no-such-libcuda.so"))
    assert "no-such-libcuda.so" in reason and "no NVIDIA driver" in reason
    assert "install" in reason and "device='cpu'" in reason


def test_driver_file_that_is_no_library(tmp_path):
    path = tmp_path / "libcuda.so"
    path.write_text("this is no library")
    assert "device='cpu'" in reason_of(str(path))
    assert "device='cpu'" in reason_of(str(tmp_path))
    assert "device='cpu'" in reason_of("/" + "long/" * 500)


def test_a_driver_before_cuda_12(fake_cuda):
    reason = reason_of(fake_cuda("WITHOUT_GET_PROC_ADDRESS"))
    assert "older than CUDA 12" in reason and "install" in reason


def test_a_driver_older_than_cuda_12_4(fake_cuda):
    reason = reason_of(fake_cuda(), PREAMBLE + "fake.fake_cuda_set(b'version', 12030)\n")
    assert "CUDA 12.3" in reason and "12.4" in reason and "install" in reason


def test_a_driver_older_than_the_toolkit_compiles_the_ptx(fake_cuda):
    code = """
        fake.fake_cuda_set(b"version", 12040)
        assert gpuopt.reduce(items, device="cuda") == total
        gpuopt.show_config()
        """
    shown = with_fake(fake_cuda, textwrap.dedent(code)).stdout
    assert "CUDA 12.4" in shown and "compiled by the driver at the first call" in shown


@pytest.mark.parametrize("capability", [75, 80, 87, 90, 100, 103, 121])
def test_a_gpu_loads_the_machine_code_of_its_major_version_else_ptx(fake_cuda, capability):
    built = [int(code) for code in _core.config()["architectures"].split() if code.isdigit()]
    fits = [code for code in built if code // 10 == capability // 10 and code <= capability]
    code = f"""
fake.fake_cuda_set(b"capability", {capability})
for _ in range(2):
    assert gpuopt.reduce(items, device="cuda") == total
assert get("code") == {max(fits, default=0)}, get("code")
if {bool(fits)}:  # CUDA_ERROR_NO_BINARY_FOR_GPU: PTX serves
    fake.fake_cuda_fail(b"cuModuleLoadData", 209, 1)
    gpuopt.transpose(np.ones((40, 50), "f4"), device="cuda")
    assert get("code") == 0
"""
    with_fake(fake_cuda, code)


def test_a_driver_without_a_gpu(fake_cuda):
    for before in ("fake.fake_cuda_fail(b'cuInit', 100, 1)", "fake.fake_cuda_set(b'devices', 0)"):
        reason = reason_of(fake_cuda(), PREAMBLE + before + "\n")
        assert "no GPU" in reason and "CUDA_VISIBLE_DEVICES" in reason, before


def test_driver_whose_initialization_fails(fake_cuda):
    reason = reason_of(fake_cuda(), PREAMBLE + "fake.fake_cuda_fail(b'cuInit', 999, 1)\n")
    assert "cuInit" in reason and "CUDA_ERROR_999" in reason
    reason = reason_of(fake_cuda(), PREAMBLE + "fake.fake_cuda_fail(b'cuDriverGetVersion', 3, 1)\n")
    assert "cuDriverGetVersion" in reason


def test_a_driver_that_forks_while_it_starts(fake_cuda):
    """The driver forks in its first call, to load its kernel module."""
    code = """
        assert gpuopt.reduce(items, device="cuda") == total
        child = os.fork()
        if child == 0:
            caught(RuntimeError, lambda: gpuopt.reduce(items, device="cuda"), "forked")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    with_fake(fake_cuda, textwrap.dedent(code), FAKE_CUDA_FORKS="1")


@pytest.mark.parametrize("symbol", ["cuInit", "cuLaunchKernel", "cuMemAllocFromPoolAsync"])
def test_a_driver_that_lacks_a_symbol(fake_cuda, symbol):
    reason = reason_of(fake_cuda(), PREAMBLE + f"fake.fake_cuda_lacks(b'{symbol}')\n")
    assert symbol in reason and "install" in reason


@pytest.mark.parametrize("device", only_cuda)
def test_no_visible_gpu(device):
    reason = reason_of(None, CUDA_VISIBLE_DEVICES="")
    assert "no GPU" in reason and "CUDA_VISIBLE_DEVICES" in reason


# --- a working driver: the host's side of every rung


def test_every_rung_plans_its_passes_right(fake_cuda):
    with_fake(
        fake_cuda,
        """
        assert gpuopt.available("cuda").count == 1
        fake.fake_cuda_set(b"devices", 1)
        for rung in gpuopt.rungs("reduce"):
            if rung.host or rung.listing:
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
        settled()
        """.replace("\n        ", "\n"),
    )


def test_several_gpus_by_number(fake_cuda):
    with_fake(
        fake_cuda,
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


def test_without_a_name_the_gpu_serves_and_gpuopt_device_decides(fake_cuda):
    code = """
calls = get("calls")
assert gpuopt.reduce(items) == total
print(get("calls") > calls)
"""
    assert with_fake(fake_cuda, code).stdout == "True\n"
    assert (
        with_fake(fake_cuda, code.replace("(items)", "(items, variant='serial')")).stdout
        == "False\n"
    )
    code = "import os; os.environ['GPUOPT_DEVICE'] = 'cpu'\n" + code
    assert with_fake(fake_cuda, code).stdout == "False\n"


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


def test_fork_after_the_fake_driver_started(fake_cuda):
    with_fake(fake_cuda, FORK)


def test_fork_before_the_fake_driver_started(fake_cuda):
    """A child of a process that only imported gpuopt may use CUDA."""
    with_fake(
        fake_cuda,
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


def test_a_clean_exit_with_queues_open(fake_cuda):
    process = with_fake(
        fake_cuda,
        """
import threading
def use():
    assert gpuopt.reduce(items, device="cuda") == total
threads = [threading.Thread(target=use) for _ in range(24)]
for each in threads:
    each.start()
for each in threads:
    each.join()
settled()
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
def test_arrays_larger_than_gpu_memory(device):
    """Elements broadcast from one pass through a chunk of GPU memory, which is freed."""
    n = gpuopt.devices()[0].memory_total // 8 + 12_345
    ones = np.broadcast_to(np.float64(1), n)

    def work():
        assert gpuopt.reduce(ones, device=device) == n

    leaves_memory_free(work, attempts=2)


@pytest.mark.parametrize("device", only_cuda)
def test_gpu_memory_is_returned(device):
    """Twenty reductions of 256 MiB leave the GPU's free memory where it was."""
    array = np.ones(2**26, np.float32)
    gpuopt.reduce(array, device=device)

    def work():
        for _ in range(20):
            assert gpuopt.reduce(array, device=device) == 2**26

    leaves_memory_free(work, 2**28)


def test_every_kind_of_device_is_covered():
    assert {"cpu", "cuda"} <= set(KINDS)
    assert KINDS["cpu"] == ""
    assert os.environ.get("GPUOPT_DEVICE") is None
