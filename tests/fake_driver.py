"""Helpers of the tests on the fake driver, fake_cuda.c.

Each case has a process of its own, since a driver is started once.
"""

import textwrap

from conftest import run_python

PREAMBLE = '''
import ctypes, os
import numpy as np, gpuopt
fake = ctypes.CDLL(os.environ["GPUOPT_CUDA_DRIVER"])
fake.fake_cuda_get.restype = ctypes.c_longlong
fake.fake_cuda_fail.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long]
fake.fake_cuda_set.argtypes = [ctypes.c_char_p, ctypes.c_longlong]
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_int)
def parameters(name, sizes, most):
    """Report a kernel's parameters, for the check of the order of work on memory."""
    name = name.decode()
    if name not in gpuopt._core.kernels():
        return -1
    found = gpuopt._core.ptx_entries(gpuopt._core.kernel_ptx(name, 75).encode())[name][:most]
    for at, (_, size) in enumerate(found):
        sizes[at] = size
    return len(found)
fake.fake_cuda_parameters(parameters)
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
    """Check that no memory is in use, no context is pushed and, if given, `objects` are live."""
    found = get("used"), get("depth"), get("live")
    assert found == (0, 0, found[2] if objects is None else objects), (told, found, objects)
def ctrl_c(function, after, within=0.3):
    """Interrupt a call on a GPU that never gets ready; it ends `within` seconds."""
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
    assert took < within, took
'''


def with_fake(fake_cuda, code, **environment):
    """Run code against the fake driver."""
    return run_python(
        PREAMBLE + code, GPUOPT_CUDA_DRIVER=fake_cuda(), GPUOPT_DEVICE=None, **environment
    )


# --- users of the driver: each defines use(), which leaves the number of live objects unchanged

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
from gpuopt.ptx.module import Module
fake.fake_cuda_story.restype = fake.fake_cuda_texture.restype = ctypes.c_char_p
fake.fake_cuda_set(b"excused", 1)
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


# --- arrays of other libraries, which are host memory

PRODUCERS = """
import gc, types, sys, weakref
fake.fake_cuda_story.restype = ctypes.c_char_p
def story():
    return fake.fake_cuda_story().decode()
def forget():
    fake.fake_cuda_forget()
class Interface:  # host memory, which is what the driver takes for a GPU's
    def __init__(self, host, stream=None, read_only=False, strides=None, **more):
        self.host = host
        self.__cuda_array_interface__ = dict(
            shape=host.shape, typestr=host.dtype.str, data=(host.ctypes.data, read_only),
            version=3, strides=strides, stream=stream, **more)
class Capsules:
    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.asked, self.capsules = array, versioned, [], []
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
    def __dlpack__(self, **options):
        self.asked.append(options)
        if not self.versioned and "max_version" in options:
            raise TypeError("unexpected keyword argument")
        self.capsules.append(self.array.__dlpack__(**options))
        return self.capsules[-1]
"""


# A launch, and its time, beside arrays of two streams on a module that works on a third.
BESIDE = (
    PRODUCERS
    + """
text = (
    ".version 8.0\\n.target sm_75\\n.address_size 64\\n"
    ".entry reduce_k(.param .u64 a, .param .u64 b, .param .u64 n) { ret; }"
)
x = np.arange(1000.0)
def use():
    kernel = gpuopt.load_ptx(text, "cuda")["reduce_k"]
    kernel._module.use_stream(0x8800)
    arrays = Interface(x.copy(), stream=0x5500), Interface(x.copy(), stream=0x6600)
    kernel(1, 32, *arrays, x.copy())
    kernel._module.time(kernel.bind(1, 32, *arrays, 7))
use()
live = get("live")
"""
)


def with_producers(fake_cuda, code):
    return run_python(
        PREAMBLE + PRODUCERS + textwrap.dedent(code),
        GPUOPT_CUDA_DRIVER=fake_cuda(),
        GPUOPT_DEVICE=None,
    )


FAKE_LIBRARIES = """
class Stream:
    ptr = 0x5500
class _ndarray_base:
    def _init(self, host, index=0):
        if isinstance(host, tuple):  # as CuPy's: a shape and a dtype
            host, index = np.empty(host, index), 0
        self.host, self.shape, self.dtype, self.strides = host, host.shape, host.dtype, host.strides
        self.device = types.SimpleNamespace(id=index)
        self.data = types.SimpleNamespace(ptr=host.ctypes.data, device_id=index)
        self.flags = types.SimpleNamespace(c_contiguous=host.flags.c_contiguous)
    def transpose(self, axes): return cupy_ndarray(self.host.transpose(axes))
def construct(cls, *arguments):  # CuPy's, in Python, which gpuopt passes by
    self = object.__new__(cls)
    self._init(*arguments)
    construct.calls += 1
    return self
construct.calls = 0
cupy_ndarray = type("ndarray", (_ndarray_base,), {"__module__": "cupy", "__new__": construct})
class On:
    def __init__(self, index): pass
    def __enter__(self): pass
    def __exit__(self, *error): pass
cupy = types.ModuleType("cupy")
cupy.cuda = types.ModuleType("cupy.cuda")
cupy.cuda.get_current_stream = lambda index: Stream
cupy.cuda.Device = On
cupy.cuda.runtime = types.SimpleNamespace(getDevice=lambda: 0)
cupy.empty = lambda shape, dtype: cupy_ndarray(np.empty(shape, dtype))
cupy.ndarray = cupy_ndarray
sys.modules |= {"cupy": cupy, "cupy.cuda": cupy.cuda}

class Tensor:
    requires_grad, is_nested, layout = False, False, "strided"
    def __init__(self, host, is_cuda=True):
        self.host, self.is_cuda, self.shape = host, is_cuda, host.shape
        self.dtype = "torch." + host.dtype.name
        self.device = "cuda:0"
    def get_device(self): return 0
    def is_neg(self): return False
    def is_conj(self): return False
    def is_inference(self): return False
    def detach(self): return type(self)(self.host)
    def new_empty(self, shape, dtype=None):
        return tensor(np.empty(shape, dtype or self.host.dtype))
    def is_contiguous(self): return self.host.flags.c_contiguous
    def permute(self, axes): return tensor(self.host.transpose(axes))
    def stride(self): return tuple(s // self.host.itemsize for s in self.host.strides)
    def data_ptr(self): return self.host.ctypes.data
    def __array__(self, dtype=None, copy=None): return self.host
tensor = type("Tensor", (Tensor,), {"__module__": "torch"})
torch = types.ModuleType("torch")
torch.strided = "strided"
torch.autograd = types.ModuleType("torch.autograd")
class graph:
    writes = 0  # reported to autograd
    def increment_version(array):
        graph.writes += 1
torch.autograd.graph = graph
torch.empty = lambda shape, dtype, device: tensor(np.empty(shape, dtype))
torch.device = str
for name in ("bool", "int32", "int64", "float32", "float64"):
    setattr(torch, name, np.dtype(name))
torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0x6600)
sys.modules["torch"] = torch
"""
