"""Arrays of other libraries on a device, and ours beside them: streams, devices, errors.

On a driver that is no GPU (fake_cuda.c), with producers made here; the libraries themselves are in
test_libraries.py.
"""

import textwrap

import pytest
from fake_driver import FAKE_LIBRARIES, with_producers

pytestmark = pytest.mark.timeout(180)


def test_the_producers_stream(fake_cuda):
    with_producers(
        fake_cuda,
        """
        x = Interface(items, stream=0x7700)
        host = np.array(0)
        gpuopt.reduce(x, out=host)  # the first call opens a queue
        forget()
        assert gpuopt.reduce(x, out=host) is host and host == total
        assert "launch 7700;" in story() and "copy" not in story(), story()
        out = np.array(0)
        forget()
        gpuopt.reduce(x, out=Interface(out, stream=0x7700))
        assert out == total and story() == "launch 7700;", story()
        # another stream's `out` is ordered before and after
        forget()
        gpuopt.reduce(x, out=Interface(out, stream=0x8800))
        assert story() == "wait 7700;launch 7700;wait 8800;", story()
        # what names no stream is on the legacy default one, and its result there
        forget()
        found = gpuopt.reduce(Interface(items))
        assert type(found) is gpuopt.DeviceArray and found.device == "cuda:0"
        assert story() == "launch 1;", story()
        # a float32 sum, which is added up in float64, is rounded by the same launch
        forget()
        gpuopt.reduce(Interface(np.ones(9, np.float32)))
        assert story() == "launch 1;", story()
        assert found.get() == total and found.__cuda_array_interface__["stream"] == 1
        """,
    )


def test_axes_of_strided_arrays_use_the_producers_stream(fake_cuda):
    with_producers(
        fake_cuda,
        """
        x, host, out = Interface(items, stream=0x7700), np.array(0), np.array(0)
        found = gpuopt.reduce(Interface(items))
        gpuopt.reduce(x, out=host)
        rows = items[:90_000].reshape(300, 300)
        gaps = Interface(rows[:, ::3], stream=0x7700, strides=(1200, 12))
        there = Interface(np.empty(300, np.int32), stream=0x7700)
        for call in (
            lambda: gpuopt.reduce(gaps, axis=1, out=there, dtype=np.int32),
            lambda: gpuopt.reduce(gaps, "max", axis=1, out=there),
        ):
            call()
            forget()
            call()
            assert set(story().split(";")) == {"launch 7700", ""}, story()
        found = None  # lent above: freeing it waits for the borrower
        forget()
        found = gpuopt.reduce(gaps, "mean", axis=0)
        assert (found.shape, found.dtype) == ((100,), np.float64)
        # the result and the temporaries are gpuopt's own: on the default stream
        assert story().startswith("wait 7700;launch 7700;"), story()
        assert story().endswith("launch 7700;wait 1;") and "launch 1;" not in story(), story()
        forget()
        gpuopt.transpose(gaps, out=Interface(np.empty((100, 300), np.int32), stream=0x7700))
        assert story() == "launch 7700;", story()
        # nobody waits: neither for a result on the device, nor longer than for its word
        fake.fake_cuda_set(b"busy", 1)
        gpuopt.reduce(x, out=Interface(out, stream=0x7700))
        assert gpuopt.reduce(Interface(items), out=host) == total
        gpuopt.reduce(Interface(items), dtype=np.int32)
        gpuopt.reduce(gaps, "argmax", axis=0)
        gpuopt.reduce(gaps, out=Interface(np.array(0), stream=0x7700))
        fake.fake_cuda_set(b"busy", 0)
        assert get("depth") == 0
        """,
    )


def test_temporaries_are_freed_after_their_passes(fake_cuda):
    """On the caller's stream, or on the default stream, which waits for the caller's before."""
    with_producers(
        fake_cuda,
        """
        rows = np.zeros((2, 600_000), np.int32)  # a queue keeps no memory of this size
        steps = rows.strides[0]
        gaps = Interface(rows[:, ::3], stream=0x7700, strides=(steps, 12))
        odd = Interface(rows[:, ::3], stream=0x7700, strides=(steps, 10))  # must be copied first
        out = Interface(np.empty((), "i8"), stream=0x7700)
        columns = Interface(np.empty(200_000, "i8"), stream=0x7700)
        fake.fake_cuda_set(b"frees", 1)
        for call in (
            lambda: gpuopt.reduce(gaps, axis=0, initial=7, out=columns),
            lambda: gpuopt.reduce(odd, "argmax", out=out),
            lambda: gpuopt.reduce(gaps, "mean", axis=0),
            lambda: gpuopt.add(gaps, gaps),
        ):
            forget()
            call()
            gc.collect()
            told = story().split(";")
            frees = [k for k, each in enumerate(told) if each in ("free 1", "free 7700")]
            assert frees, told
            for at in frees:
                last = max(k for k in range(at) if told[k] == "launch 7700")
                assert told[at] == "free 7700" or "wait 1" in told[last:at], told
        """,
    )


def test_result_equal_to_the_sentinel_is_returned(fake_cuda):
    with_producers(
        fake_cuda,
        """
        odd = np.array([0xfff1d1e5a5a5d00d], np.uint64).view(np.int64)
        host = np.array(0)
        for _ in range(3):
            assert gpuopt.reduce(Interface(odd), out=host) == odd[0]
        """,
    )


def test_scalar_is_fetched_by_one_launch(fake_cuda):
    """Small blocks are cached: no copy, no synchronization, no allocator call."""
    with_producers(
        fake_cuda,
        """
        array = gpuopt.asarray(items, device="cuda")
        assert gpuopt.reduce(array).item() == total
        fake.fake_cuda_set(b"frees", 1)
        fake.fake_cuda_set(b"busy", 1)
        forget()
        live, used = get("live"), get("used")
        assert float(gpuopt.reduce(array)) == total
        assert story() == "launch 1;launch 1;" and (get("live"), get("used")) == (live, used)
        fake.fake_cuda_set(b"busy", 0)
        for value in (
            np.array(True), np.int8(-3), np.float16(1.5), np.uint32(2**32 - 1), np.float32(0.1),
            np.float64(0.1), np.complex64(1 - 2j), np.complex128(3j), np.uint64(0xfff1d1e5a5a5d00d),
        ):
            assert gpuopt.asarray(value, device="cuda").item() == value.item()
        kept = [gpuopt.empty(n, "u1", "cuda") for n in (0, 1, 256) for _ in range(40)]
        many = [array.address for array in kept]
        assert len(set(many)) == 120 and not any(address % 16 for address in many)
        del kept, array
        gc.collect()
        before = get("live")
        gpuopt._core.close_idle()
        assert get("live") < before and get("used") == 0
        """,
    )


def test_ctrl_c_while_waiting_for_a_scalar(fake_cuda):
    code = """
        one = gpuopt.asarray(np.int64(41), device="cuda")
        fake.fake_cuda_set(b"lose", 1)
        ctrl_c(one.item, 0.3)
        fake.fake_cuda_set(b"lose", 0)
        assert one.item() == 41
    """
    with_producers(fake_cuda, code)


def test_foreign_streams_do_not_wait_for_each_other(fake_cuda):
    """Up to 16 streams have a queue each; a queue's next stream waits for its earlier work."""
    with_producers(
        fake_cuda,
        """
        out = Interface(np.array(0), stream=0x7700)
        def on(stream):
            x = Interface(items, stream=stream)
            forget()
            gpuopt.reduce(x, out=Interface(np.array(0), stream=stream))
            return story()
        fake.fake_cuda_set(b"busy", 1)
        streams = [0x7000 + 16 * k for k in range(16)]
        for stream in (*streams, *streams[::-1], *streams):
            told = on(stream).split(";")
            assert f"launch {stream:x}" in told and told.count(f"wait {stream:x}") <= 1, told
            others = {f"wait {each:x}" for each in streams if each != stream}
            assert not others & {*told}, (stream, told)
        forget()
        assert gpuopt.reduce(Interface(items, stream=streams[3]), out=np.array(0)) == total
        live = get("live")
        on(0x9900)
        assert get("live") == live  # in the queue that waited longest
        fake.fake_cuda_set(b"busy", 0)
        """,
    )


def test_a_borrowed_arrays_stream_waits_before_it_goes(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        out = gpuopt.empty((), np.int64, "cuda")
        for kind, stream in ((cupy_ndarray, "5500"), (tensor, "6600")):
            x = kind(items)
            gone = weakref.ref(x)
            ours = gpuopt.asarray(x)
            del x
            gpuopt.reduce(ours, out=out)
            forget()
            if kind is tensor:  # what the caller does with his does not matter
                assert gone() is None
            view = ours._view
            del ours
            assert story() == ""
            del view
            gc.collect()
            assert story() == f"wait {stream};" and gone() is None, story()
        # on the default stream there is nothing to wait for
        ours = gpuopt.asarray(Interface(items))
        gpuopt.reduce(ours, out=out)
        forget()
        del ours
        gc.collect()
        assert story() == ""
        """),
    )


@pytest.mark.parametrize("known", [True, False])
def test_cupys_results_are_made_by_its_constructors_parts(fake_cuda, known):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + f"""
if not {known}:
    _ndarray_base.__name__ = "another"
x = cupy_ndarray(np.arange(5.0))
before = construct.calls
for _ in range(3):
    total, twice = gpuopt.reduce(x), gpuopt.add(x, x)
assert type(total) is type(twice) is cupy_ndarray
assert total.shape == () and twice.shape == (5,) and total.dtype == twice.dtype == x.dtype
assert (construct.calls == before) is {known}
# C order is read where the type tells it, else from strides; both arrays are on one stream.
for told in (True, False):
    if told and {known}:
        _ndarray_base._c_contiguous = property(lambda self: self.host.flags.c_contiguous)
    kind = type("ndarray", (cupy_ndarray,), {{"__module__": "cupy"}})
    for host in (np.zeros((3, 4)), np.zeros((3, 4)).T, np.zeros((3, 8))[:, ::2]):
        gpuopt.add(kind(host), kind(host))
        view = gpuopt._core.borrow(kind(host))
        contiguous = host.flags.c_contiguous
        want = None if contiguous else host.strides
        assert (view.strides, view.stream) == (want, 0x5500), (view.strides, view.stream, want)
""",
    )


def test_autograd_is_notified_of_writes(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        x, one, row = tensor(items[:12]), tensor(np.array(0)), tensor(np.zeros(4, np.int64))
        for write in (
            lambda: gpuopt.reduce(x, out=one),
            lambda: gpuopt.reduce(x, initial=3, out=one),
            lambda: gpuopt.reduce(tensor(items[:12].reshape(3, 4)), axis=0, out=row),
            lambda: gpuopt.add(x, x, out=x),
        ):
            before = graph.writes
            write()
            assert graph.writes == before + 1
        gpuopt.reduce(x), gpuopt.add(x, x), gpuopt.reduce(x, out=np.array(0))
        assert graph.writes == before + 1
        from gpuopt.arrays import libraries
        libraries._increment_version.cache_clear()
        del graph.increment_version  # PyTorch before 2.2
        gpuopt.reduce(x, out=one)
        """),
    )


def test_abandoned_graph_is_not_waited_for(fake_cuda):
    with_producers(
        fake_cuda,
        """
        import time
        x, y = Interface(items), Interface(items[:7])
        out = np.array(0)
        for _ in range(20):
            gpuopt.reduce(x, out=out)
        fake.fake_cuda_set(b"busy", 1)
        begin = time.monotonic()
        gpuopt.reduce(y, out=out)
        assert out == 21 and time.monotonic() - begin < 1
        fake.fake_cuda_set(b"busy", 0)
        """,
    )


def test_the_interface_and_its_errors(fake_cuda):
    with_producers(
        fake_cuda,
        """
        def refuse(kind, text, x, **options):
            caught(kind, lambda: gpuopt.reduce(x, **options), text)
        out = np.array(0)
        x = Interface(items)
        refuse(ValueError, "ambiguous", Interface(items, stream=0))
        refuse(TypeError, "masked", Interface(items, mask=x))
        refuse(ValueError, "read-only", x, out=Interface(out, read_only=True))
        refuse(TypeError, "float32", x, out=Interface(np.array(0, np.float32)), dtype=np.int64)
        refuse(TypeError, "byte order", Interface(items.astype(">i4")))
        refuse(TypeError, "complex128", Interface(items[:9].astype(complex)), op="prod")
        refuse(TypeError, "not supported", Interface(np.zeros(3, "V2")))
        crooked = Interface(out)
        crooked.__cuda_array_interface__["data"] = (out.ctypes.data + 2, False)
        refuse(ValueError, "aligned", x, out=crooked)
        refuse(ValueError, "overlaps", Interface(items[:12].reshape(3, 4)), axis=0, dtype="i4",
               out=Interface(items[4:8]))
        # any order of axes, forwards or backwards, is one run
        grid = items[:60].reshape(3, 4, 5)
        host = np.array(0)
        for view in (grid.T, grid[::-1], grid.transpose(1, 2, 0)[:, ::-1]):
            y = Interface(view, strides=view.strides)
            assert gpuopt.reduce(y, out=host) == grid.sum()
        turned = Interface(grid[0].T, strides=(4, 20))
        assert gpuopt.transpose(turned).shape == (4, 5)
        assert gpuopt.transpose(Interface(grid[0])).shape == (5, 4)
        # nothing to do
        nothing = Interface(items[:0])
        nothing.__cuda_array_interface__["data"] = (0, False)
        assert gpuopt.reduce(nothing, out=host) == 0
        # a lent array becomes ours without a copy
        ours = gpuopt.asarray(x)
        assert ours.address == items.ctypes.data and ours.nbytes == items.nbytes
        """,
    )


def test_bfloat16_capsules(fake_cuda):
    pytest.importorskip("ml_dtypes")
    with_producers(
        fake_cuda,
        """
        import ml_dtypes
        host = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
        array = gpuopt.asarray(host, device="cuda")
        assert not hasattr(array, "__cuda_array_interface__")  # which has no bfloat16
        for versioned in (True, False):
            ours = gpuopt.asarray(Capsules(array, versioned))
            assert ours.address == array.address and ours.dtype == host.dtype
            assert (array.get() == host).all()
            found = gpuopt.reduce(Capsules(array, versioned), "max", axis=0)
            assert (found.shape, found.dtype) == ((4,), host.dtype)

        class Interface:  # as PyTorch writes it, and others after it
            __cuda_array_interface__ = {
                "shape": (4, 3), "strides": (2, 8), "typestr": host.dtype.str,
                "data": (array.address, False), "version": 3, "stream": 1,
            }
        assert host.dtype.str == "<V2"
        found = gpuopt.reduce(Interface(), "max", axis=0)
        assert (found.shape, found.dtype) == ((3,), host.dtype)
        """,
    )


def test_calls_run_on_the_arrays_gpu(fake_cuda):
    with_producers(
        fake_cuda,
        """
        fake.fake_cuda_set(b"devices", 2)
        one = gpuopt.asarray(items, device="cuda:1")
        zero = gpuopt.asarray(items, device="cuda:0")
        assert (one.device, zero.device) == ("cuda:1", "cuda:0")
        assert one.__dlpack_device__() == (2, 1)
        found = gpuopt.reduce(Capsules(one))
        assert found.device == "cuda:1" and found.item() == total
        fake.fake_cuda_set(b"owner", 1)
        assert gpuopt.reduce(Interface(items), device="cuda").device == "cuda:1"
        caught(ValueError, lambda: gpuopt.reduce(Interface(items), device="cuda:0"), "cuda:1")
        caught(ValueError, lambda: gpuopt.add(zero, one), "y: is on cuda:1, but x is on cuda:0")
        out = gpuopt.empty((), np.int64, "cuda:1")
        caught(ValueError, lambda: gpuopt.reduce(zero, out=out), "out: is on cuda:1")
        """,
    )


def test_consumers_on_another_gpu_find_finished_work(fake_cuda):
    """The interface identifies streams by number, and the default stream has one on every GPU."""
    with_producers(
        fake_cuda,
        """
        fake.fake_cuda_set(b"devices", 2)
        one = gpuopt.asarray(items, device="cuda:1")
        fake.fake_cuda_set(b"owner", 1)
        fake.fake_cuda_set(b"current", 1)
        assert one.__cuda_array_interface__["stream"] == 1
        fake.fake_cuda_fail(b"cuStreamQuery", 719, 1)
        assert one.__cuda_array_interface__["stream"] == 1  # nobody waits
        fake.fake_cuda_fail(b"", 0, 0)
        fake.fake_cuda_set(b"current", 0)
        assert one.__cuda_array_interface__["stream"] is None
        fake.fake_cuda_fail(b"cuStreamQuery", 999, 1)
        caught(gpuopt.DeviceError, lambda: one.__cuda_array_interface__, "cuStreamQuery")
        fake.fake_cuda_fail(b"cuCtxGetDevice", 201, 1)  # no context: the first GPU's comes
        assert one.__cuda_array_interface__["stream"] is None
        empty = gpuopt.empty(0, device="cuda:1")
        assert empty.__cuda_array_interface__["stream"] == 1
        """,
    )


def test_other_gpus_may_read_our_memory(fake_cuda):
    """Otherwise no library could copy gpuopt's arrays to another GPU."""
    with_producers(
        fake_cuda,
        """
        fake.fake_cuda_set(b"devices", 3)
        fake.fake_cuda_forget()
        gpuopt.empty(3, device="cuda:1")
        told = fake.fake_cuda_story().decode()
        assert [each for each in told.split(";") if "share" in each] == ["share 0"], told
        fake.fake_cuda_fail(b"cuMemPoolSetAccess", 999, 1)
        assert gpuopt.reduce(gpuopt.asarray(items, device="cuda:2")).item() == total
        """,
    )


def test_memory_is_freed(fake_cuda):
    with_producers(
        fake_cuda,
        """
        array = gpuopt.asarray(items, device="cuda")
        def work():
            gpuopt.reduce(array)
            gpuopt.transpose(array_2d)
            gpuopt.reduce(array_2d, axis=0)
            gpuopt.reduce(Interface(items[::2], strides=(8,)), "max", initial=3)
            gpuopt.transpose(Interface(items[:12].reshape(3, 4).T, strides=(4, 16)))
            gpuopt.reduce(Capsules(array))
            capsule = array.__dlpack__()
        array_2d = gpuopt.asarray(items[:1200].reshape(30, 40), device="cuda")
        work()
        gc.collect()
        used, live = get("used"), get("live") - get("graphs")
        for _ in range(200):
            work()
        gc.collect()
        assert (get("used"), get("live") - get("graphs")) == (used, live)
        assert get("graphs") <= 8  # that a queue keeps
        del array, array_2d
        gc.collect()
        assert get("used") == used  # the queue keeps memory of these sizes, 8 of each
        large = [gpuopt.asarray(np.resize(items, 300_000), device="cuda") for _ in range(3)]
        small = [gpuopt.asarray(items[:100], device="cuda") for _ in range(20)]
        del large, small
        gc.collect()
        assert get("used") - used <= 8 * 512, get("used") - used
        """,
    )


def test_a_repeated_launch_becomes_a_graph(fake_cuda):
    with_producers(
        fake_cuda,
        """
        x, y = Interface(items, stream=0x7700), Interface(items + 1, stream=0x7700)
        host = np.array(0)
        def told(array, total):
            forget()
            assert gpuopt.reduce(array, out=host) == total
            return story()
        first = [told(x, total) for _ in range(30)]
        assert first == ["launch 7700;"] * 15 + ["graph 7700;"] * 15, first
        items[7] += 5  # the same memory
        assert told(x, total + 5) == "graph 7700;"
        other = total + len(items)
        assert told(y, other) == "launch 7700;"
        assert [told(y, other) for _ in range(31)][-1] == "graph 7700;"
        live = get("live")
        for k in range(1, 40):  # a queue keeps 8 graphs
            z = Interface(items[k:], stream=0x7700)
            told_last = [told(z, items[k:].sum()) for _ in range(31)][-1]
            assert told_last == "graph 7700;" and get("live") <= live + 7, (k, get("live"))
        assert [told(y, other) for _ in range(31)][-1] == "graph 7700;"
        fake.fake_cuda_fail(b"cuGraphLaunch", 2, 1)  # out of memory, until the pool is trimmed
        assert told(y, other).endswith("graph 7700;")
        fake.fake_cuda_fail(b"cuGraphLaunch", 999, 1)
        caught(gpuopt.DeviceError, lambda: gpuopt.reduce(y, out=host), "cuGraphLaunch")
        assert gpuopt.reduce(y, out=host) == other
        """,
    )


def test_a_repeated_call_with_scratch_becomes_a_graph_unless_the_gpu_lags(fake_cuda):
    """Few results of long rows are summed by chunks, whose sums need scratch."""
    with_producers(
        fake_cuda,
        """
        def called(rows, times):
            long = gpuopt.asarray(items[:100_000].reshape(rows, -1), device="cuda")
            out = gpuopt.empty(rows, np.int64, "cuda")
            def told():
                forget()
                gpuopt.reduce(long, axis=1, out=out)
                return story()
            return [told() for _ in range(times)]
        fake.fake_cuda_set(b"busy", 1)
        found = called(2, 60)
        fake.fake_cuda_set(b"busy", 0)
        assert not any("graph" in each for each in found), found
        assert called(20, 40)[-1] == called(2, 40)[-1] == "graph 1;"
        """,
    )


def test_graphs_belong_to_one_call_and_its_scratch(fake_cuda):
    with_producers(
        fake_cuda,
        """
        first, *_ = squares = [gpuopt.asarray(np.eye(32), device="cuda") for _ in range(8)]
        out = gpuopt.empty(32, np.float64, "cuda")
        def told(square, axis):
            forget()
            gpuopt.reduce(square, axis=axis, out=out)
            return story()
        def alternated(square):
            return [told(square, axis) for _ in range(40) for axis in (0, 1)][-2:]
        assert ["graph 1;"] * 2 in [alternated(each) for each in squares]  # or, by chance, none
        assert [told(first, 0) for _ in range(40)][-1] == "graph 1;"
        one = gpuopt.empty((), np.float64, "cuda")
        def chosen(rung):
            forget()
            gpuopt.reduce(first, variant=rung, out=one)
            return story()
        assert [chosen(11) for _ in range(40)][-1] == "graph 1;"
        assert [chosen(12), chosen(11)] == ["launch 1;", "graph 1;"]
        a = np.zeros((64, 20_000), np.float32)  # whose product needs more scratch than was kept
        gpuopt.matmul(gpuopt.asarray(a, device="cuda"), gpuopt.asarray(a.T, device="cuda"))
        assert told(first, 0) == "launch 1;"
        """,
    )


def test_every_driver_failure_leaves_a_usable_state(fake_cuda):
    with_producers(
        fake_cuda,
        """
        array = gpuopt.asarray(items, device="cuda")
        out = gpuopt.empty((), np.int64, "cuda")
        host = np.array(0)
        x = Interface(items, stream=0x7700)
        def work():
            gpuopt.reduce(x, out=host)
            gpuopt.reduce(array, out=out)
            gpuopt.reduce(array)
            gpuopt.add(array, array)
            gpuopt.add(turned, turned)
            gpuopt.reduce(turned, "mean", axis=1)
        turned = Interface(items[:90_000].reshape(300, 300)[::2].T, strides=(4, 2400))
        work()
        for nth in range(1, 200):
            fake.fake_cuda_fail(b"*", 999, nth)
            try:
                work()
            except gpuopt.DeviceError:
                pass
            fake.fake_cuda_fail(b"*", 0, 0)
            assert get("depth") == 0, nth
        gc.collect()
        for _ in range(20):  # repeated calls become a graph
            work()
        live = get("live")
        for _ in range(20):
            work()
        assert get("live") == live
        assert host == total and out.item() == total
        """,
    )


def test_a_librarys_current_stream_and_its_own_type_back(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        for kind, stream in ((cupy_ndarray, "5500"), (tensor, "6600")):
            forget()
            found = gpuopt.reduce(kind(items))
            assert type(found) is kind and found.host.shape == () and found.host == total
            assert story() == f"launch {stream};", story()
            out = kind(np.array(0))
            assert gpuopt.reduce(kind(items), out=out) is out and out.host == total
            grid = kind(items[:12].reshape(3, 4))
            assert gpuopt.transpose(grid).shape == (4, 3)
            turned = kind(items[:12].reshape(3, 4).T)
            host = np.array(0)
            assert gpuopt.reduce(turned, out=host) == 66
            forget()
            assert type(gpuopt.transpose(turned)) is kind
            assert story() == f"launch {stream};", story()
            forget()
            assert type(gpuopt.reduce(kind(items[::2]))) is kind
            found = gpuopt.reduce(turned, "argmin", axis=1, keepdims=True)
            assert type(found) is kind and found.shape == (4, 1) and found.host.dtype == np.int64
            assert set(story().split(";")) == {f"launch {stream}", ""}, story()
        # of two libraries: on the first one's stream, ordered with the other's
        forget()
        assert type(gpuopt.add(cupy_ndarray(items), tensor(items))) is cupy_ndarray
        assert story() == "wait 5500;launch 5500;wait 6600;", story()
        for kind in (cupy_ndarray, tensor):  # a number's result is the array's library's
            assert type(gpuopt.add(kind(items), 2)) is type(gpuopt.add(2, kind(items))) is kind
        assert gpuopt.reduce(tensor(items, is_cuda=False)) == total
        strange = tensor(items)
        strange.requires_grad = True
        caught(TypeError, lambda: gpuopt.reduce(strange), "detach")
        strange = tensor(items)
        strange.dtype = "torch.float8_e4m3fn"
        caught(TypeError, lambda: gpuopt.reduce(strange), "float8_e4m3fn")
        class Two(tensor):  # two bytes of a dtype that NumPy has not
            def __init__(self, host):
                super().__init__(host)
                self.dtype = "torch.bfloat16"
            def new_empty(self, shape, dtype=None):
                return Two(np.empty(shape, dtype or self.host.dtype))
        torch.bfloat16 = np.uint16
        torch.empty = lambda shape, dtype, device: Two(np.empty(shape, dtype))
        small = Two(np.zeros((4, 6), np.uint16))
        found = gpuopt.reduce(small, axis=0)
        assert type(found) is Two and found.shape == (6,)
        assert type(gpuopt.transpose(small)) is Two
        """),
    )


def test_a_sum_has_numpys_order_in_memory_if_its_library_keeps_orders(fake_cuda):
    with_producers(
        fake_cuda,
        FAKE_LIBRARIES
        + textwrap.dedent("""
        import itertools
        from functools import partial
        room = np.zeros((4, 6, 5), "f4")
        sides = [room[:, ::2].T, room[:, ::-2].T, room[:, ::2].transpose(2, 1, 0).copy()]
        sides += [room[:, :3, 0].T, room[:, :1].T, room[:, :3].copy().T]
        own = lambda host: Interface(host, strides=host.strides)
        calls = gpuopt.add, partial(gpuopt.saxpy, 2), partial(gpuopt.saxpy, np.float32(2))
        for x, y in itertools.product(sides, repeat=2):
            for kind in (cupy_ndarray, tensor, own):
                for call in calls:
                    found, want = call(kind(x), kind(y)), np.add(x, y)
                    assert found.shape == want.shape
                    assert kind is own or found.host.strides == want.strides
        """),
    )


# --- streams of failing calls, and streams that depend on the thread


def test_failed_call_still_orders_the_other_streams(fake_cuda):
    """Queued work may still use memory that its owner frees on another stream."""
    code = """
        array, out = np.arange(1 << 20, dtype=np.int64), np.zeros((), np.int64)
        def call():
            return gpuopt.reduce(Interface(array, 0x5500), variant=7, out=Interface(out, 0x6600))
        call()
        forget()
        fake.fake_cuda_fail(b"cuLaunchKernel", 999, 2)
        caught(gpuopt.DeviceError, call, "cuLaunchKernel")
        assert story().endswith("launch 5500;wait 6600;"), story()
    """
    with_producers(fake_cuda, code)


def test_the_per_thread_default_stream_is_another_in_each_thread(fake_cuda):
    """The queue returns to its own stream, ordered after the thread's stream."""
    code = """
        import threading
        array = np.arange(100, dtype=np.int64)
        def call():
            gpuopt.reduce(Interface(array, 2), out=Interface(np.zeros((), np.int64), 2))
        fake.fake_cuda_set(b"busy", 1)  # its work is not done when the next thread comes
        call()
        before = story()
        forget()
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert before.count("launch 2;") == story().count("launch 2;") == 1
        assert "wait 2;" in story(), story()
    """
    with_producers(fake_cuda, code)
