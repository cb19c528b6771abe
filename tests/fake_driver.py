"""A driver that is no GPU: what the tests of gpuopt on fake_cuda.c share.

Each case has a process of its own, since a driver is started once.
"""

from conftest import run_python

PREAMBLE = '''
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
def settled(objects=None, told=None):
    """Check that no memory is in use, no context is pushed and, if told, so many objects live."""
    found = get("used"), get("depth"), get("live")
    assert found == (0, 0, found[2] if objects is None else objects), (told, found, objects)
def ctrl_c(function, after):
    """Interrupt a call on a GPU that never gets ready; it ends within 0.3 s."""
    import signal, threading, time
    fake.fake_cuda_set(b"busy", 1)
    sent = []
    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer(after, send).start()
    caught(KeyboardInterrupt, function)
    took = time.monotonic() - sent[0]
    fake.fake_cuda_set(b"busy", 0)
    assert took < 0.3, took
'''


def with_fake(fake_cuda, code, **environment):
    """Run code against the fake driver."""
    return run_python(
        PREAMBLE + code, GPUOPT_CUDA_DRIVER=fake_cuda(), GPUOPT_DEVICE=None, **environment
    )


# --- what uses the driver: each defines use(), which leaves as many objects as it found

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
