"""Random work of several libraries, streams and threads: memory is used and freed in order.

The fake driver checks that (fake_cuda_order.h). A look at a stream finds its work unfinished at
first, so that nothing is in order by chance.
"""

import os
import random
import sys
import threading

import pytest
from conftest import run_python
from fake_driver import PREAMBLE, PRODUCERS

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STREAMS = [1, 2, 0x5500, 0x6600, 0x7700]
SHAPES = [(64, 33), (1000,), (8, 8, 8), (300, 200), (100_000,)]


def run(fake_cuda, seed, steps, threads, check=True):
    """Run `work` in a process of its own, on the fake driver."""
    code = f"import sys\nsys.path[:0] = [{HERE!r}, {HERE + '/arrays'!r}]\n{PREAMBLE}{PRODUCERS}"
    code += "\nfrom test_stream_order import work"
    code += f"\nwork(globals(), {seed}, {steps}, {threads})"
    given = {"GPUOPT_CUDA_DRIVER": fake_cuda(), "GPUOPT_DEVICE": None, "FAKE_CUDA_SLOW": "1"}
    return run_python(code, check=check, **given)


@pytest.mark.parametrize("seed, steps, threads", [(1, 400, 1), (2, 400, 1), (3, 150, 3)])
def test_random_work_uses_memory_in_order(fake_cuda, seed, steps, threads):
    run(fake_cuda, seed, steps, threads)


def test_the_check_finds_memory_that_is_used_in_no_order(fake_cuda):
    told = run(fake_cuda, 1, 400, 0, check=False)
    assert told.returncode == 86 and "fake_cuda: memory used" in told.stderr


def work(given, seed, steps, threads):
    """Run steps in threads; with none, a consumer breaks DLPack's rules."""
    driver = Driver(given)
    if not threads:
        array = given["gpuopt"].asarray(given["np"].ones(1000), "cuda")
        capsule = array.__dlpack__(stream=1)
        driver.copy(array, 0x5500)  # asked for on stream 1
        del capsule, array
        given["gpuopt"].asarray(given["np"].ones(1000), "cuda")
    errors = []

    def run_steps(number):
        rng, kept = random.Random(100 * seed + number), []
        try:
            for _ in range(steps):
                step(given, driver, rng, kept)
                del kept[:-12]
        except BaseException as error:
            errors.append(error)

    every = [threading.Thread(target=run_steps, args=(n,)) for n in range(threads)]
    for each in every:
        each.start()
    for each in every:
        each.join()
    if errors:
        raise errors[0]
    sys.stdout.flush()


class Driver:
    """The fake driver's calls by which another library works on its streams."""

    def __init__(self, given):
        self.ctypes, self.fake = given["ctypes"], given["fake"]
        c = self.ctypes
        of = self.fake.cuGetProcAddress_v2
        of.argtypes = [c.c_char_p, c.c_void_p, c.c_int, c.c_uint64, c.c_void_p]
        self._copy = self._named(b"cuMemcpyAsync", c.c_size_t)
        self._event = self._named(b"cuEventCreate")
        self._record = self._named(b"cuEventRecord")
        self._wait = self._named(b"cuStreamWaitEvent")

    def _named(self, name, third=None):
        c = self.ctypes
        found = c.c_void_p()
        assert self.fake.cuGetProcAddress_v2(name, c.byref(found), 12000, 0, None) == 0
        return c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, third or c.c_void_p, c.c_void_p)(
            found.value
        )

    def copy(self, array, stream):
        self._copy(array.address, array.address, array.nbytes, stream)

    def follow(self, stream, other):
        event = self.ctypes.c_void_p()
        self._event(self.ctypes.addressof(event), 0, 0, 0)
        self._record(event, other, 0, 0)
        self._wait(stream, event, 0, 0)


def step(given, driver, rng, kept):
    """Take one step of a library, or of gpuopt on arrays of libraries."""
    np, gpuopt, interface = given["np"], given["gpuopt"], given["Interface"]
    shape, dtype = rng.choice(SHAPES), rng.choice(["f4", "f8", "i4"])

    def array():
        host, which = np.ones(shape, dtype), rng.randrange(3)
        if which == 0:
            return interface(host, rng.choice(STREAMS))
        return rng.choice(kept) if kept and which == 1 else gpuopt.asarray(host, "cuda")

    def shape_of(each):
        return getattr(each, "host", each).shape

    what, a = rng.randrange(7), array()
    if what == 0 and kept:
        lends(driver, rng, kept.pop(rng.randrange(len(kept))))
    elif what == 1 and shape_of(a):
        op, axis = rng.choice(["sum", "max", "argmax"]), rng.randrange(len(shape_of(a)))
        keep(gpuopt.reduce(a, op, axis=axis), gpuopt, kept)
    elif what == 2:
        keep(gpuopt.transpose(a), gpuopt, kept)
    elif what == 3 and shape_of(a):
        real = getattr(a, "host", a).dtype.kind == "f"
        weights = {"weights": np.arange(5.0) + rng.randrange(3)} if real else {}
        keep(gpuopt.stencil1d(a, 2, **weights), gpuopt, kept)
    elif what == 4:
        keep(gpuopt.add(a, rng.choice([a, 2])), gpuopt, kept)
    elif what == 5:
        out = interface(np.zeros((), getattr(a, "host", a).dtype), rng.choice(STREAMS))
        gpuopt.reduce(a, "max", out=out)
    else:
        factors = [interface(np.ones((40, 40), "f4"), rng.choice(STREAMS)) for _ in range(2)]
        keep(gpuopt.matmul(*factors), gpuopt, kept)


def keep(result, gpuopt, kept):
    if isinstance(result, gpuopt.DeviceArray) and result.size:
        kept.append(result)


def lends(driver, rng, array):
    """Lend an array to a library that works on a stream of its own, and lets go."""
    stream = rng.choice(STREAMS[2:])
    if rng.random() < 0.5:
        capsule = array.__dlpack__(stream=stream, max_version=(1, 0))
        driver.copy(array, stream)
        del capsule
    else:
        driver.follow(stream, array.__cuda_array_interface__["stream"])
        driver.copy(array, stream)
