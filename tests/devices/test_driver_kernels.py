"""Users' kernels on other libraries' arrays and streams, on the fake driver (fake_cuda.c).

The libraries are made here; the real ones are in test_libraries.py.
"""

import textwrap

import pytest
from fake_driver import FAKE_LIBRARIES, with_producers

pytestmark = pytest.mark.timeout(180)

# A kernel that the fake driver computes: n elements, each advanced by a step of a generator.
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


def test_arrays_on_the_gpu_are_used_in_place(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        own = gpuopt.asarray(x, device="cuda")
        used = get("used")
        for kind in (cupy_ndarray, tensor, Interface, lambda host: gpuopt.asarray(Interface(host))):
            host = x.copy()
            advance(1, 32, kind(host), x.size, 1)
            assert (host == advanced(x)).all()
        advance(1, 32, own, x.size, 1)
        assert (own.get() == advanced(x)).all() and get("used") == used
        # a part of one, a row of which is a run; one without items; a 0-d one
        host = x.reshape(10, 100).copy()
        advance(1, 32, cupy_ndarray(host[3:5]), 200, 1)
        want = x.reshape(10, 100).copy()
        want[3:5] = advanced(want[3:5])
        assert (host == want).all()
        none, one = cupy_ndarray(host[:0]), tensor(host[0, :1].reshape(()))
        three(1, 32, none, one, Interface(host[:, :0]))
        # beside NumPy's, which are copied in and out
        near, host = x.copy(), x.copy()
        three(1, 32, tensor(host), near, 7)
        assert (near == x).all() and (host == x).all()
        del own
        gc.collect()
        gpuopt._core.close_idle()
        settled()
        """,
    )


def test_kernel_is_ordered_with_the_arrays_streams(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        own, first, other = own_stream(), cupy_ndarray(x.copy()), tensor(x.copy())
        three(1, 32, first, other, 0)  # opens a queue
        forget()
        advance(1, 32, first, x.size, 1)
        assert story() == "launch 5500;", story()
        forget()
        advance(1, 32, gpuopt.asarray(x, device="cuda"), x.size, 1)
        assert story() == "launch 1;", story()
        # work on the other streams comes first, and the kernel has ended when the call returns
        forget()
        three(1, 32, first, other, Interface(x.copy(), stream=0x7700))
        assert story() == "wait 5500;wait 5500;launch 5500;", story()
        forget()
        three(1, 32, other, first, first)
        assert story() == "wait 6600;launch 6600;", story()
        # the module's own work, such as the copy of a NumPy array, is in order with it
        forget()
        fake.fake_cuda_set(b"busy", 1)
        module._core.adopt(0x7700)
        module._core.adopt(0)
        fake.fake_cuda_set(b"busy", 0)
        assert story() == f"wait 7700;wait {own};", story()
        assert own_stream() == own  # it is back on its own
        module.use_stream(0x7700)
        forget()
        advance(1, 32, first, x.size, 1)
        advance(1, 32, x.copy(), x.size, 1)
        assert story() == "launch 5500;launch 7700;", story()
        # one that a graph is being made of
        fake.fake_cuda_set(b"captured", 0x5500)
        caught(gpuopt.DeviceError, lambda: advance(1, 32, first, x.size, 1), "captured")
        fake.fake_cuda_set(b"captured", 0)
        forget()
        advance(1, 32, x.copy(), x.size, 1)
        assert story() == "launch 7700;", story()
        """,
    )


def test_unusable_arrays_are_refused(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        grid = x.reshape(10, 100)
        def refused(kind, array, *texts, on=module):
            kernel = on["reduce_k"]
            before, steps = get("live"), graph.writes
            forget()
            for call in (kernel, kernel.bind):
                caught(kind, lambda: call(1, 32, 0, array, tensor(x)), "argument 2", *texts)
            assert (story(), get("live"), graph.writes) == ("", before, steps)
        refused(ValueError, cupy_ndarray(grid, 1), "cuda:1", "module is on cuda:0", "'cuda:1'")
        there = gpuopt.load_ptx(text, "cuda:1")
        refused(ValueError, cupy_ndarray(grid), "cuda:0", "on cuda:1; pass a copy there", on=there)
        there["reduce_k"](1, 32, 0, cupy_ndarray(grid, 1), 0)
        for gaps in (grid.T, grid[:, ::2], grid[::-1], np.broadcast_to(grid[0], (5, 100))):
            refused(ValueError, cupy_ndarray(gaps), "kernel reduce_k", "not C-contiguous", "copy")
            refused(ValueError, tensor(gaps), "not C-contiguous", "address")
        lent = Interface(grid, read_only=True)
        refused(ValueError, lent, "read-only", "copy", "address")
        refused(ValueError, gpuopt.asarray(lent), "read-only")
        far = gpuopt.asarray(grid, device="sim")
        refused(ValueError, far, "on sim:h200", "the module is on cuda:0", "copy there")
        grows = tensor(grid)
        grows.requires_grad = True
        refused(TypeError, grows, "detach")
        refused(ValueError, Interface(grid, stream=0), "ambiguous")
        refused(TypeError, tensor(grid, is_cuda=False), "Tensor", "an array on the GPU")
        simulated = gpuopt.load_ptx(text.replace("{ ret; }", "{\\nret;\\n}"), "sim")
        refused(TypeError, cupy_ndarray(grid), "cuda:0", "on sim:h200", "copy on the host",
                on=simulated)
        simulated["reduce_k"](1, 32, 0, far, 0)  # all modules share the simulated GPU's memory
        caught(TypeError, lambda: gpuopt.profile(simulated["reduce_k"], 1, 32, tensor(x), 0, 0),
               "copy on the host")
        # an address is no other parameter's
        caught(TypeError, lambda: advance(1, 32, x, 1, gpuopt.asarray(x, device="cuda")), ".u32")
        """,
    )


def test_autograd_is_notified_of_a_kernels_arrays(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        y = tensor(x.copy())
        advance(1, 32, y, x.size, 1)
        assert graph.writes == 1
        three(1, 32, y, tensor(x.copy()), cupy_ndarray(x.copy()))
        assert graph.writes == 3
        bound = advance.bind(1, 32, y, x.size, 1)
        assert graph.writes == 3
        module.time(bound)
        assert graph.writes == 4
        """,
    )


def test_a_bound_launch_keeps_its_arrays_and_their_streams(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        own, host = own_stream(), x.copy()
        array = cupy_ndarray(host)
        alive = weakref.ref(array)
        bound = advance.bind(1, 32, array, x.size, 1)
        del array
        gc.collect()
        assert alive() is not None
        for how in ("queue", "sync", "graph", "host"):
            forget()
            module.time(bound, 2, how)
            told = {each.split()[1] for each in story().split(";")[:-1]}
            assert told == {"5500"}, (how, story())
        last = x
        for _ in range(4 * 3 + 1):  # three rounds each, and one more that graphs have
            last = advanced(last)
        assert (host == last).all()
        # another's stream before, and the module's others after the first
        beside = advance.bind(1, 32, tensor(x.copy()), x.size, 1)
        module.time([bound, beside])
        forget()
        module.time([bound, beside.on(1)])
        told = story().split(";")
        assert told[0] == "wait 5500" and told.index("launch 5500") > 0, told
        assert not any(own in each for each in told) and own_stream() == own
        del bound
        gc.collect()
        assert alive() is None
        caught(TypeError, lambda: advance.bind(1, 32, x, x.size, 1), "NumPy", "copy()")
        """,
    )


def test_interrupted_launch_keeps_its_arrays(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        own = own_stream()
        three(1, 32, cupy_ndarray(x), tensor(x), 0)
        def interrupted(call):
            array, second = cupy_ndarray(x.copy()), tensor(x.copy())
            inside = second.host  # which a tensor of its own keeps
            gone = weakref.ref(array), weakref.ref(inside)
            forget()
            ctrl_c(lambda: call(array, second), 0.3)
            del array, second, inside
            gc.collect()
            return gone
        def launch(array, second):
            three(1, 32, array, second, 0)
        def timed(array, second):
            module.time([three.bind(1, 32, array, second, 0)])
        for call in (launch, timed):
            gone = interrupted(call)
            told = story().split(";")
            at = told.index("launch 5500")
            # both the other array's stream and the module's own wait for the kernel
            assert {"wait 6600", f"wait {own}"} <= {*told[at:]}, told
            assert all(each() is not None for each in gone)
            fake.fake_cuda_fail(b"cuLaunchKernel", 1, 1)  # this one never begins
            caught(gpuopt.DeviceError, lambda: advance(1, 32, x.copy(), x.size, 1), "Launch")
            gc.collect()
            assert all(each() is not None for each in gone)
            advance(1, 32, x.copy(), x.size, 1)  # once this has ended, that has
            gc.collect()
            assert all(each() is None for each in gone)
        # a module that goes waits for it
        gone = interrupted(launch)
        import threading, time
        ends = []
        def end():
            ends.append([each() is not None for each in gone])
            fake.fake_cuda_set(b"busy", 0)
        fake.fake_cuda_set(b"busy", 1)
        threading.Timer(0.3, end).start()
        del advance, three, module
        gc.collect()
        assert ends == [[True, True]] and all(each() is None for each in gone)
        settled()
        """,
    )


def test_refused_launch_keeps_no_array(fake_cuda):
    with_kernel(
        fake_cuda,
        """
        array = cupy_ndarray(x.copy())
        alive = weakref.ref(array)
        caught(gpuopt.UnfitError, lambda: three(1, (32, 33), array, tensor(x), 0), "1056 threads")
        fake.fake_cuda_fail(b"cuStreamQuery", 999, 1)
        caught(gpuopt.DeviceError, lambda: three(1, 32, array, 0, 0), "cuStreamQuery")
        fake.fake_cuda_fail(b"cuStreamWaitEvent", 999, 1)
        caught(gpuopt.DeviceError, lambda: three(1, 32, array, tensor(x), 0), "cuStreamWaitEvent")
        del array
        gc.collect()
        assert alive() is None
        three(1, 32, cupy_ndarray(x), tensor(x), 0)
        settled()
        """,
    )


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
        caught(gpuopt.DeviceError, lambda: gpuopt.load_ptx(text.replace("{ ret; }", "{\\nret;\\n}"),
               "sim").use_stream(Torch(0, 1)), "streams")
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


def test_module_returns_to_its_stream_after_a_failure(fake_cuda):
    """A later call restores the stream that a failed one could not; arrays are kept until then."""
    with_kernel(
        fake_cuda,
        """
        own = own_stream()
        for nth in range(1, 9):
            kept = x.copy()
            alive = weakref.ref(kept)
            fake.fake_cuda_fail(b"cuStreamQuery", 999, nth)
            try:
                three(1, 32, Interface(kept, stream=0x5500), 0, 0)
            except gpuopt.DeviceError:
                failed = nth
            fake.fake_cuda_fail(b"", 0, 0)
            assert own_stream() == own, nth
            del kept
            assert alive() is None
        assert failed >= 3
        """,
    )


def test_cycle_of_stream_and_module_is_collected(fake_cuda):
    with_streams(
        fake_cuda,
        """
        class Holder(Cupy):
            pass
        stream = Holder(0x7700)
        stream.module = gpuopt.load_ptx(text, "cuda")
        stream.module.use_stream(stream)
        gone = weakref.ref(stream)
        del stream
        gc.collect()
        assert gone() is None
        """,
    )
