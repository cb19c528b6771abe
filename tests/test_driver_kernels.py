"""Users' kernels on other libraries' arrays and streams, on a driver that is no GPU (fake_cuda.c).

The libraries are made here; the real ones are in test_libraries.py.
"""

import textwrap

import pytest
from fake_driver import FAKE_LIBRARIES, with_producers

pytestmark = pytest.mark.timeout(180)

# A kernel that the fake driver computes: n items, each advanced by a step of a generator.
KERNEL = """
text = (
    ".version 8.0\\n.target sm_75\\n.address_size 64\\n"
    ".entry micro_advance_uint32(.param .u64 x, .param .u64 n, .param .u32 steps) { ret; }"
    ".entry reduce_k(.param .u64 x, .param .u64 y, .param .u64 z) { ret; }"
)
fake.fake_cuda_set(b"devices", 2)
module = gpuopt.load_ptx(text, "cuda")
advance, three = module["micro_advance_uint32"], module["reduce_k"]
def advanced(array):
    return array * np.uint32(1664525) + np.uint32(1013904223)
x = np.arange(1000, dtype=np.uint32)
def own_stream():
    forget()
    advance(1, 32, x.copy(), 0, 1)
    return story().split(";")[0].split()[1]
"""


def with_kernel(fake_cuda, code):
    with_producers(fake_cuda, FAKE_LIBRARIES + KERNEL + textwrap.dedent(code))


# --- streams

STREAMS = """
class Handle:
    def __init__(self, value):
        self.value = value
class Cupy:  # the names of each are the library's
    wait_event = device_id = None
    def __init__(self, number):
        self.ptr = number
class Torch:
    wait_event = None
    def __init__(self, number, device=0):
        self.cuda_stream, self.device = number, types.SimpleNamespace(index=device)
class Numba:
    auto_synchronize = None
    def __init__(self, number):
        self.handle = Handle(number or None)
    def __int__(self):
        return self.handle.value or 0
class Protocol:
    def __init__(self, number, version=0):
        self.told = version, number
    def __cuda_stream__(self):
        return self.told
def works_on():
    forget()
    advance(1, 32, x.copy(), 0, 1)
    return story()
"""


def with_streams(fake_cuda, code):
    with_kernel(fake_cuda, STREAMS + textwrap.dedent(code))


def test_a_stream_is_an_object_or_a_number(fake_cuda):
    with_streams(
        fake_cuda,
        """
        own = own_stream()
        for kind in (Cupy, Torch, Numba, Protocol, int, np.uint64):
            module.use_stream(kind(0x7700))
            assert works_on() == "launch 7700;", kind
            module.use_stream(kind(2))
            assert works_on() == "launch 2;", kind
            # a library's null stream is the legacy default one; the number 0 is the module's own
            module.use_stream(kind(0))
            assert works_on() == f"launch {own if kind in (int, np.uint64) else 1};", kind
        array = types.SimpleNamespace(ptr=x.ctypes.data)  # memory, an event: no streams
        for wrong in (None, "7", 1.5, array, types.SimpleNamespace(handle=Handle(7))):
            caught(TypeError, lambda: module.use_stream(wrong), "stream: must be a stream of CuPy")
        caught(TypeError, lambda: module.use_stream(Protocol(7, 1)), "version 1")
        for wrong in (-1, 1 << 64):
            caught(ValueError, lambda: module.use_stream(wrong), "is not a stream")
        caught(gpuopt.DeviceError, lambda: gpuopt.load_ptx(text.replace("{ ret; }", "{\\nret;\\n}"),
               "sim").use_stream(Cupy(7)), "streams")
        assert works_on() == f"launch {own};"
        """,
    )


def test_a_stream_of_another_gpu(fake_cuda):
    with_streams(
        fake_cuda,
        """
        fake.fake_cuda_set(b"foreign", 0x7700)
        module.use_stream(0x8800)
        for stream in (0x7700, Cupy(0x7700), Torch(0x7700), Numba(0x7700), Protocol(0x7700)):
            forget()
            caught(ValueError, lambda: module.use_stream(stream), "cuda:1", "cuda:0", "0x7700")
            assert story() == "" and works_on() == "launch 8800;"
        for number in (0, 1, 2):  # every GPU has a default stream: PyTorch's say whose
            caught(ValueError, lambda: module.use_stream(Torch(number, 1)), "cuda:1", "cuda:0")
        # another context of the same GPU, as a green one is
        fake.fake_cuda_set(b"context", 64)
        module.use_stream(0x7700)
        assert works_on() == "launch 7700;"
        fake.fake_cuda_set(b"context", 0)
        there = gpuopt.load_ptx(text, "cuda:1")
        caught(ValueError, lambda: there.use_stream(0x7700), "cuda:0", "cuda:1")
        for call in (b"cuStreamGetCtx", b"cuCtxGetDevice"):
            fake.fake_cuda_fail(call, 400, 1)
            caught(gpuopt.DeviceError, lambda: there.use_stream(0x7700), call.decode())
        assert get("depth") == 0
        for number in (0, 1, 2):
            fake.fake_cuda_fail(b"cuStreamGetCtx", 400, 1)
            module.use_stream(number)
        # calls on arrays pay nothing for it
        fake.fake_cuda_fail(b"cuStreamGetCtx", 400, 1)
        gpuopt.reduce(Interface(items, stream=0x8800), out=Interface(np.array(0), stream=0x8800))
        """,
    )


def test_a_stream_lives_as_long_as_it_is_used(fake_cuda):
    with_streams(
        fake_cuda,
        """
        ended = []
        class Mortal(Cupy):
            def __del__(self):
                ended.append(self.ptr)
        module.use_stream(Mortal(0x7700))
        assert works_on() == "launch 7700;" and not ended
        fake.fake_cuda_set(b"foreign", 0x9900)
        caught(ValueError, lambda: module.use_stream(Mortal(0x9900)), "cuda:1")
        gc.collect()
        assert ended == [0x9900] and works_on() == "launch 7700;"
        module.use_stream(Mortal(0x8800))
        assert ended == [0x9900, 0x7700]
        module.use_stream(0)
        assert ended[2:] == [0x8800]
        # pinned memory waits for the stream before it goes
        module.use_stream(Mortal(0x7710))
        near = module.pinned(64)
        del advance, three, module
        gc.collect()
        assert ended[3:] == []
        del near
        gc.collect()
        assert ended[3:] == [0x7710]
        settled()
        """,
    )
