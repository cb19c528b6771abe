"""Calls during the capture of a CUDA graph, on the fake driver.

test_libraries.py has the graphs of CuPy and PyTorch on a real GPU.
"""

import textwrap

import pytest
from fake_driver import FAKE_LIBRARIES, PRODUCERS, with_fake, with_producers

pytestmark = pytest.mark.timeout(180)


def test_captured_call_becomes_part_of_the_graph(fake_cuda):
    """The graph has memory of its own, which no later call uses."""
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
    """Each stream of a graph has one block of memory, reused after the graph is destroyed."""
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


def test_captured_scalar_is_an_argument_of_the_kernel(fake_cuda):
    """The graph holds the number itself: nothing is copied, captured or not."""
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
        assert story() == "launch 6600;", story()
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


def test_captured_streams_refuse_other_streams_arrays(fake_cuda):
    """Arrays of another stream and modules on the captured stream are refused."""
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


def test_module_on_a_captured_stream_raises(fake_cuda):
    """A module's call waits for its work, so it cannot be captured; memory is freed afterwards."""
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
    """Run code that captures use() into a graph, after a call that filled the queue's caches."""
    with_fake(fake_cuda, PRODUCERS + USE + textwrap.dedent(code))


def test_interrupt_while_allocating_for_a_graph_keeps_the_capture(fake_cuda):
    with_use(
        fake_cuda,
        """
        ctrl_c(use, 0.1)
        assert get("mode") == 0
        use()
        assert get("spoilt") == 0
        """,
    )


def test_graph_memory_reuses_freed_memory(fake_cuda):
    with_use(
        fake_cuda,
        """
        fake.fake_cuda_set(b"keeps", 1)
        gpuopt.empty(1 << 20, np.uint8, "cuda")  # and gives it back
        fake.fake_cuda_set(b"memory", get("used") + (1 << 20))
        use()
        """,
    )


def test_capture_mode_is_restored_after_every_failure(fake_cuda):
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
