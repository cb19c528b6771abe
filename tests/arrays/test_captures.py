"""Calls while somebody captures the stream into a CUDA graph, on a driver that is no GPU.

With CuPy's and PyTorch's graphs on a real one: test_libraries.py.
"""

import textwrap

import pytest
from fake_driver import FAKE_LIBRARIES, PRODUCERS, with_fake, with_producers

pytestmark = pytest.mark.timeout(180)


def test_a_call_becomes_part_of_a_graph(fake_cuda):
    """With memory that is the graph's own, as nothing that the next call uses may be in it."""
    code = """
        x, out = Interface(items, stream=0x7700), Interface(np.array(0), stream=0x7700)
        rows = Interface(items[:90_000].reshape(300, 300), stream=0x7700)
        sums = Interface(np.empty(300, np.int64), stream=0x7700)
        GRAPHS = 65536 + 4096  # bytes: scratch and tickets
        calls = {
            lambda: gpuopt.reduce(x, out=out): "launch",
            lambda: gpuopt.reduce(x, variant=7, out=out): "launch;launch;copy",
            lambda: gpuopt.reduce(rows, axis=1, out=sums): "launch",
            lambda: gpuopt.add(x, x, out=x): "launch",
        }
        for number, (call, told) in enumerate(calls.items(), 1):
            call()  # what the queue keeps, it has
            used, live = get("used"), get("live")
            forget()
            call()
            once = story()
            fake.fake_cuda_set(b"captured", 0x7700)
            for _ in range(3):
                forget()
                call()
                assert story() == "".join(f"{each} 7700;" for each in told.split(";")), story()
            assert get("mode") == 0 and get("depth") == 0
            fake.fake_cuda_set(b"captured", 0)
            forget()
            call()
            assert story() == once
            # but for a graph's memory, which is kept for the next
            more = GRAPHS if number == 1 else 0
            assert (get("used"), get("live")) == (used + more, live + (number == 1))
            fake.fake_cuda_graph_gone(number)
        # what cannot be part of one says so, and spoils nothing
        fake.fake_cuda_set(b"captured", 0x7700)
        value = np.zeros((), np.int64)
        for call in (
            lambda: gpuopt.reduce(x, out=value),
            lambda: gpuopt.reduce(x, variant=7, out=value),
            lambda: gpuopt.reduce(x, out=out, initial=3),
            lambda: gpuopt.stencil1d(rows, weights=np.arange(9)),
            lambda: gpuopt.asarray(x),
            lambda: gpuopt.add(x, Interface(items)),
        ):
            forget()
            caught(gpuopt.DeviceError, call, "the current stream is being captured")
            told = story().replace("wait 7700;", "").replace("launch 1;", "")
            assert get("mode") == 0 and not told, told
        assert value == 0 and get("spoilt") == 0
        fake.fake_cuda_set(b"captured", 0)
        assert gpuopt.reduce(x, out=value) == total
    """
    with_producers(fake_cuda, code)


def test_each_graph_has_memory_of_its_own(fake_cuda):
    """One piece for each of its streams, which another graph gets when it is gone."""
    code = """
        fake.fake_cuda_set(b"inputs", 1)
        GRAPHS = 65536 + 4096
        def graph(*streams):
            for stream in streams:
                fake.fake_cuda_set(b"captured", stream)
                x, out = (Interface(each, stream=stream) for each in (items, np.array(0)))
                for _ in range(2):
                    gpuopt.reduce(x, out=out)
                fake.fake_cuda_set(b"captured", 0)
        graph(0x7700)
        used = get("used")
        graph(0x7700)  # another graph of the same stream
        assert get("used") == used + GRAPHS
        graph(0x8800)
        assert get("used") == used + 2 * GRAPHS
        fake.fake_cuda_graph_gone(2)
        graph(0x9900)
        assert get("used") == used + 2 * GRAPHS
        for number in (1, 3, 4):
            fake.fake_cuda_graph_gone(number)
        for _ in range(3):
            graph(0x7700)
        assert get("used") == used + 2 * GRAPHS
        # a call that fails on its way leaves the graph's memory to the next
        calls = {
            b"cuStreamGetCaptureInfo": 999, b"cuMemAllocFromPoolAsync": 999,
            b"cuStreamCreate": 999, b"cuMemsetD8Async": 999, b"cuUserObjectCreate": 999,
            b"cuGraphRetainUserObject": 999, b"cuLaunchKernel": 999,
        }
        for name, code in calls.items():
            for _ in range(3):
                fake.fake_cuda_fail(name, code, 1)
                caught(gpuopt.DeviceError, lambda: graph(0x7700))
                assert get("mode") == 0 and get("depth") == 0
            fake.fake_cuda_fail(b"", 0, 0)
        # of the last three graphs, and of three whose launch failed
        assert get("used") == used + 5 * GRAPHS, get("used") - used
    """
    with_producers(fake_cuda, code)


def test_a_number_is_part_of_a_graph(fake_cuda):
    """It is written by the graph itself, word by word: the host's memory is another by then."""
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        x = tensor(np.array([4]))
        gpuopt.add(x, 3)
        forget()
        gpuopt.add(x, 3)
        assert story() == "launch 6600;", story()
        fake.fake_cuda_set(b"captured", 0x6600)
        forget()
        gpuopt.add(x, 3)
        assert story().replace(" 6600", "") == "fill;fill;launch;", story()
        """),
    )


def test_the_first_call_of_all_may_be_captured(fake_cuda):
    code = """
        fake.fake_cuda_set(b"captured", 0x7700)
        x, out = (Interface(each, stream=0x7700) for each in (items, np.array(0)))
        gpuopt.reduce(x, out=out)
        assert story() == "launch 7700;", story()
        assert get("mode") == 0 and get("depth") == 0
    """
    with_producers(fake_cuda, code)


def test_streams_of_a_graph_are_its_own(fake_cuda):
    """Neither can another stream's array be in it, nor may a module stay on its stream."""
    code = """
        x, out = Interface(items, stream=0x7700), Interface(np.array(0), stream=0x8800)
        legacy = Interface(items)
        use = lambda: gpuopt.reduce(x, out=out)
        use()
        kernels = gpuopt.load_ptx(
            ".version 8.0 .target sm_75 .address_size 64 .entry reduce_k() { ret; }", "cuda")
        live = []
        for captured in (0x7700, 0x8800, 0x7700, 0x8800):
            fake.fake_cuda_set(b"captured", captured)
            forget()
            caught(gpuopt.DeviceError, use, "the current stream is being captured")
            assert "launch" not in story(), story()
            gpuopt.reduce(legacy)
            caught(gpuopt.DeviceError, lambda: kernels.use_stream(captured), "captured")
            live.append(get("live"))
        assert live[1] == live[3] and get("depth") == 0, live
        fake.fake_cuda_set(b"captured", 0)
        use()
    """
    with_producers(fake_cuda, code)


MODULE = """
        text = (
            ".version 8.0\\n.target sm_75\\n.address_size 64\\n"
            ".entry reduce_k(.param .u64 x, .param .u64 y, .param .u64 z) { ret; }"
        )
        module = gpuopt.load_ptx(text, "cuda")
        x = np.arange(1000)
"""


def test_a_module_is_no_part_of_a_graph_of_its_stream(fake_cuda):
    """Its work is waited for; nor is what it gives back, which goes when the graph is made."""
    code = (
        MODULE
        + """
        module.use_stream(0x7700)
        buffer, three = module.copy(x), module["reduce_k"]
        bound = three.bind(1, 32, buffer, 0, 0)
        used = get("used")
        fake.fake_cuda_set(b"captured", 0x7700)
        forget()
        for call in (
            lambda: three(1, 32, Interface(x, stream=0x7700), 0, 0),
            lambda: three(1, 32, Interface(x, stream=0x5500), 0, 0),
            lambda: three(1, 32, x, 0, 0),
            lambda: module.copy(x),
            lambda: module.empty(100),
            lambda: module.pinned(100),
            lambda: module.time(bound),
            lambda: module.use_stream(0),
            buffer.get,
        ):
            caught(gpuopt.DeviceError, call, "the current stream is being captured")
        del buffer, bound, call
        gc.collect()
        told = story(), get("spoilt"), get("mode"), get("used")
        assert told == ("", 0, 0, used), told
        fake.fake_cuda_set(b"captured", 0x5500)  # an array's
        caught(gpuopt.DeviceError, lambda: three(1, 32, Interface(x, stream=0x5500), 0, 0), "graph")
        fake.fake_cuda_set(b"captured", 0)
        module.empty(8)
        gc.collect()
        assert get("used") == 0 and story() == "", story()
    """
    )
    with_producers(fake_cuda, code)


USE = """
x, out = (Interface(each, stream=0x7700) for each in (items, np.array(0)))
def use():
    gpuopt.reduce(x, out=out)
use()
fake.fake_cuda_set(b"captured", 0x7700)
"""


def with_use(fake_cuda, code):
    """Run code in which use() goes into a graph, the queue having all that it keeps."""
    with_fake(fake_cuda, PRODUCERS + USE + textwrap.dedent(code))


def test_a_graphs_memory_is_waited_for_as_anything_else(fake_cuda):
    with_use(
        fake_cuda,
        """
        ctrl_c(use, 0.1)
        assert get("mode") == 0
        use()
        assert get("spoilt") == 0
        """,
    )


def test_a_graphs_memory_may_be_what_others_gave_back(fake_cuda):
    with_use(
        fake_cuda,
        """
        fake.fake_cuda_set(b"keeps", 1)
        gpuopt.empty(1 << 20, np.uint8, "cuda")  # and gives it back
        fake.fake_cuda_set(b"memory", get("used") + (1 << 20))
        use()
        """,
    )


def test_the_threads_mode_is_as_it_was_whatever_fails(fake_cuda):
    with_use(
        fake_cuda,
        """
        use()
        for nth in range(1, 200):
            calls = get("calls")
            for name in (b"*", b"cuCtxPushCurrent"):
                fake.fake_cuda_set(b"captured", 0x7700)  # another graph
                fake.fake_cuda_fail(name, 999, nth)
                try:
                    use()
                except gpuopt.DeviceError:
                    pass
                fake.fake_cuda_fail(b"", 0, 0)
                assert (get("mode"), get("depth"), get("spoilt")) == (0, 0, 0), (nth, name)
                use()
            if get("calls") - calls < 3 * nth:
                break
        fake.fake_cuda_fail(b"cuLaunchKernel", 700, 1)  # the GPU is lost
        caught(gpuopt.DeviceLost, use)
        assert get("mode") == 0 and get("depth") == 0
        """,
    )
