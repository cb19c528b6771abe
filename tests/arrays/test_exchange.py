"""Arrays that are exchanged by DLPack, on the fake driver (fake_cuda.c).

First types with the C exchange API: a table of functions, made here; PyTorch's own is tested in
test_libraries.py. Then capsules, whose memory may go only after the work.
"""

import textwrap

import pytest
from fake_driver import FAKE_LIBRARIES, with_producers

pytestmark = pytest.mark.timeout(180)

# A library whose type has DLPack's C exchange API, with adjustable tensor fields.
EXCHANGE = """
from gpuopt import _core
from gpuopt.arrays import libraries
class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]
class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p),
        ("others", ctypes.c_void_p * 3), ("borrow", ctypes.c_void_p), ("stream", ctypes.c_void_p)]
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6, "V": 4}
asked, current = [], {0: 0x7700}
@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
def borrow(value, to):
    host, told = value.host, to.contents
    asked.append("borrow")
    extents = ctypes.c_int64 * max(1, host.ndim)
    value.kept = extents(*host.shape), extents(*[s // host.itemsize for s in host.strides])
    told.data, told.device_type, told.device_id = host.ctypes.data, 2, 0
    told.ndim, told.shape, told.strides = host.ndim, *value.kept
    told.code, told.bits, told.lanes = CODES[host.dtype.kind], 8 * host.itemsize, 1
    for name, change in value.changes.items():
        setattr(told, name, change)
    return 0
@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def stream_of(kind, index, to):
    asked.append(("stream", kind, index))
    to[0] = current[index]
    return 0
class Unasked(Tensor):
    \"\"\"Has no attributes but those that DLPack does not tell.\"\"\"
    def __init__(self, host, **changes):
        super().__init__(host)
        self.changes = changes
        for name in ("is_cuda", "shape", "dtype"):
            delattr(self, name)
    def is_conj(self):
        assert self.host.dtype.kind == "c"
        return False
    get_device = is_contiguous = stride = data_ptr = None
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
def no_stream(*arguments):
    return -1
# It fails with an exception for any object but a list.
PyList_Append = ctypes.cast(ctypes.pythonapi.PyList_Append, ctypes.c_void_p).value
tables = []
def table(major=1, older=None, borrow=borrow, stream=stream_of):
    functions = [ctypes.cast(each, ctypes.c_void_p).value for each in (borrow, stream)]
    tables.append(Table(major, 3, older, (None,) * 3, *functions))
    return ctypes.addressof(tables[-1])
def library(base, name=b"dlpack_exchange_api", at=None):
    kept.append(name)
    capsule = new(at or table(), kept[-1], None)
    made = {"__module__": "torch", "__dlpack_c_exchange_api__": capsule}
    return type("Tensor", (base,), made)
kept = []
swift = library(Unasked)
def described(value):
    view = libraries.view_of(value, "array")
    assert isinstance(view.library, libraries._Torch) and view.holder is value
    return view.address, view.shape, view.strides, view.dtype, view.device, view.stream
"""


def with_exchange(fake_cuda, code):
    with_producers(fake_cuda, FAKE_LIBRARIES + EXCHANGE + textwrap.dedent(code))


def test_exchange_api_describes_arrays_of_every_layout(fake_cuda):
    with_exchange(
        fake_cuda,
        """
        grid = np.arange(24).reshape(4, 6)
        for name in ("?", *"bBhHiIlLefdFD"):
            host = grid.astype(name)
            where = host.ctypes.data, (4, 6), None, host.dtype, "cuda:0", 0x7700
            assert described(swift(host)) == where, name
        assert asked[:2] == ["borrow", ("stream", 2, 0)], asked
        words = grid.astype("u2")
        told = described(swift(words, code=4))
        assert told[3] == libraries.bfloat16() and told[:3] == (words.ctypes.data, (4, 6), None)
        for host in (grid.T, grid[::2], grid[:, 1::3], grid[::-1, ::-1], grid[1:, :0:-2],
                     np.broadcast_to(grid[0], (5, 6)), np.arange(5)[::-1]):
            told = described(swift(host))
            assert told[:3] == (host.ctypes.data, host.shape, host.strides), told
        for host in (np.array(7), grid[:0], grid[:, :0].T, grid[:1, 2:], grid[1:2, ::-1][:, :1],
                     np.zeros((3, 0, 5)).transpose(2, 0, 1)):
            told = described(swift(host))
            assert told[:3] == (host.ctypes.data, host.shape, None), told
        assert described(swift(grid, strides=None))[:3] == (grid.ctypes.data, (4, 6), None)
        assert described(swift(grid[1:], byte_offset=8))[0] == grid.ctypes.data + 56
        assert described(swift(grid[:0], data=0))[0] == 0
        caught(TypeError, lambda: described(swift(grid, data=0)), "array: ", "no memory")
        assert described(swift(grid, device_type=13))[4] == "cuda:0"  # managed memory
        current.update({1: 0, 40: 2, 0: 1})  # the null stream is the legacy default one
        assert described(swift(grid, device_id=1))[4:] == ("cuda:1", 1)
        assert described(swift(grid, device_id=40))[4:] == ("cuda:40", 2)
        assert described(swift(grid))[4:] == ("cuda:0", 1)
        """,
    )


def test_arrays_beyond_the_exchange_api_fall_back_to_attributes(fake_cuda):
    """Then the attributes are read, and their errors are raised."""
    with_exchange(
        fake_cuda,
        """
        slow = library(type("Asked", (Tensor,), {"changes": {}}))
        def fails(base=None, **changes):
            made = library(base or type("Asked", (Tensor,), {"changes": changes}))
            return made(items)
        cases = (
            ("detach", dict(requires_grad=True)),
            ("resolve_neg", dict(is_neg=lambda: True)),
        )
        for text, attributes in cases:
            x = slow(items)
            vars(x).update(attributes)
            caught(TypeError, lambda: gpuopt.reduce(x, axis=0), "array: ", text)
            caught(TypeError, lambda: gpuopt.reduce(slow(items), axis=0, out=x), "out: ", text)
        x = slow(items.astype("F"))
        x.is_conj = lambda: True
        caught(TypeError, lambda: gpuopt.reduce(x), "resolve_conj")
        # dtypes without kernels: 8-bit floats, packed ones, half complex, vectors
        for changes in (dict(code=10, bits=8), dict(code=17, bits=4, lanes=2), dict(bits=128),
                        dict(code=5, bits=32), dict(lanes=4), dict(bits=0)):
            strange = fails(**changes)
            strange.dtype = "torch.float8_e5m2"
            caught(TypeError, lambda: gpuopt.reduce(strange), "float8_e5m2", ".to(")
        # the host's
        for kind in (1, 3):
            there = fails(device_type=kind)
            there.is_cuda = False
            assert gpuopt.reduce(there) == total
        # what the functions refuse
        attributes = items.ctypes.data, items.shape, None, items.dtype, "cuda:0", 0x6600
        del asked[:]
        for at in (table(borrow=PyList_Append), table(stream=no_stream)):
            assert described(library(slow, at=at)(items)) == attributes
        for changes in (dict(ndim=-1), dict(ndim=65), dict(shape=None)):
            assert described(fails(**changes)) == attributes
        assert asked
        # tables that are not for us
        del asked[:]
        for at in (table(major=2), table(major=0), table(borrow=None), table(stream=None)):
            assert described(library(slow, at=at)(items)) == attributes
        assert described(library(slow, b"dlpack_api")(items)) == attributes
        for other in (None, 7, items):
            kind = type("Tensor", (slow,), {"__dlpack_c_exchange_api__": other})
            assert described(kind(items)) == attributes
        assert not asked
        # an older one that is
        new_major = table(major=3, older=table(major=2, older=table()))
        assert described(library(Unasked, at=new_major)(items))[5] == 0x7700
        class Raises(type):
            @property
            def __dlpack_c_exchange_api__(cls):
                raise ZeroDivisionError("its own")
        raises = Raises("T", (), {})
        caught(ZeroDivisionError, lambda: _core.know(raises, None, {}, {}, None, None), "its own")
        """,
    )


def test_calls_through_the_exchange_api(fake_cuda):
    with_exchange(
        fake_cuda,
        """
        fake.fake_cuda_set(b"devices", 2)
        rows = items[:90_000].reshape(300, 300)
        x, out = swift(rows), swift(np.empty(300, np.int64))
        for axis in (0, 1, -1, (0,)):
            assert gpuopt.reduce(x, axis=axis, out=out) is out
            forget()
            assert gpuopt.reduce(x, axis=axis, out=out) is out
            assert story() == "launch 7700;", story()
        # the same call with other memory: the cached call holds no address
        wide = np.zeros(1000, np.int64)
        inside = swift(wide[400:550].view("i4").reshape(1, 300))
        for k in (0, 600):
            gpuopt.reduce(inside, axis=0, out=swift(wide[k:][:300]))
            shared = swift(wide[k // 2 + 101 :][:300])
            caught(ValueError, lambda: gpuopt.reduce(inside, axis=0, out=shared), "out: overlaps")
        crooked = swift(wide[:300], byte_offset=4)
        caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=crooked), "out: ", "aligned")
        odd = swift(rows, byte_offset=2)  # is copied, item by item
        forget()
        gpuopt.reduce(odd, axis=0, out=out)
        assert story().count("launch 7700;") == 2, story()
        caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=swift(wide[:299])), "has shape")
        small = swift(wide.view("i4")[:300])
        caught(TypeError, lambda: gpuopt.reduce(x, axis=0, dtype="i8", out=small), "must be of")
        caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=swift(wide[:600:2])), "contiguous")
        lent = Interface(wide[:300], read_only=True)
        caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=lent), "read-only")
        # streams and devices are the tensors', each time
        forget()
        gpuopt.reduce(x, axis=0, out=Interface(wide[:300], stream=0x8800))
        assert story() == "wait 7700;launch 7700;wait 8800;", story()
        current[0] = 0x9900
        forget()
        gpuopt.reduce(x, axis=0, out=out)
        assert story() == "launch 9900;", story()
        current[1] = 0x5500
        there = swift(rows, device_id=1), swift(wide[:300], device_id=1)
        caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=there[1]), "out: is on cuda:1")
        caught(ValueError, lambda: gpuopt.reduce(there[0], axis=0, out=out), "out: is on cuda:0")
        caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=out, device="cuda:1"), "cuda:0")
        gpuopt.reduce(there[0], axis=0, out=there[1])  # opens that GPU
        forget()
        gpuopt.reduce(there[0], axis=0, out=there[1])
        assert story() == "launch 5500;", story()
        # axes and operations are as checked as the first time
        for _ in range(2):
            caught(TypeError, lambda: gpuopt.reduce(x, axis=0.0, out=out), "axis")
            caught(ValueError, lambda: gpuopt.reduce(x, axis=2, out=out), "axis 2")
            caught(ValueError, lambda: gpuopt.reduce(x, "most", axis=0, out=out), "op: ")
            caught(ValueError, lambda: gpuopt.reduce(x, "mean", axis=0, initial=1), "initial")
            caught(ValueError, lambda: gpuopt.reduce(x, axis=0, out=out, variant=7), "variant")
        """,
    )


def test_whole_arrays_through_the_exchange_api(fake_cuda):
    with_exchange(
        fake_cuda,
        """
        rows = items[:90_000].reshape(300, 300)
        found = np.array(0)
        out, host, sum_of_rows = swift(found), np.array(0), int(rows.sum())
        for view in (rows, rows.T, rows[::-1], rows[:, ::-1].T, rows.reshape(-1)[::-1]):
            for _ in range(2):
                found[...] = 7
                forget()
                assert gpuopt.reduce(swift(view), out=out) is out and found == sum_of_rows
                assert story().replace("graph", "launch") == "launch 7700;", story()
        forget()
        assert type(gpuopt.reduce(swift(rows))) is tensor  # the stand-in's torch.empty makes these
        assert story() == "launch 7700;", story()
        for dtype, total_of in ((None, int), ("i8", int), ("u8", int), ("i4", int)):
            narrow = np.array(7, dtype or "i8")
            gpuopt.reduce(swift(rows), dtype=dtype, out=swift(narrow))
            assert narrow == rows.sum(dtype=dtype), dtype
        truths = swift(np.ones(9, bool))
        for op in ("sum", "prod", "min", "max", "and", "or", "xor"):
            kind = int if op in ("sum", "prod") else bool
            for _ in range(2):
                gpuopt.reduce(truths, op, out=swift(np.array(0, kind)))
        # nothing to add up; values of the host; a result among the items
        assert gpuopt.reduce(swift(rows[:0]), out=out) is out
        assert gpuopt.reduce(swift(rows), out=host) is host and host == sum_of_rows
        among = np.arange(9)
        assert gpuopt.reduce(swift(among), out=swift(among[3:4].reshape(()))) is not None
        assert among[3] == 36
        assert gpuopt.reduce(swift(rows), initial=5, out=out) is out
        for wrong, options in (
            ("out: has shape", dict(out=swift(np.zeros(1, int)))),
            ("read-only", dict(out=Interface(np.array(0), read_only=True))),
            ("out: is on cuda:1", dict(out=swift(found, device_id=1))),
            ("variant", dict(out=out, variant=99)),
            ("block", dict(out=out, block=33)),
        ):
            current[1] = 0
            for _ in range(2):
                caught(ValueError, lambda: gpuopt.reduce(swift(rows), **options), wrong)
        for wrong, options in (
            ("int32", dict(out=swift(np.array(0, "i4")), dtype="i8")),
            ("variant", dict(out=out, variant=True)),
        ):
            caught(TypeError, lambda: gpuopt.reduce(swift(rows), **options), wrong)
        """,
    )


def test_exchange_api_leaks_no_reference(fake_cuda):
    with_exchange(
        fake_cuda,
        """
        rows = items[:90_000].reshape(300, 300)
        gaps = rows[:, ::3]
        hosts = (rows, gaps, np.empty(100, np.int64))
        def work():
            x, y, out = [swift(host) for host in hosts]
            gpuopt.reduce(x, axis=0, out=swift(np.empty(300, np.int64)))
            gpuopt.reduce(y, axis=0, out=out)
            strange = swift(rows, lanes=2)
            caught(AttributeError, lambda: gpuopt.reduce(strange), "is_cuda")
            caught(AttributeError, lambda: gpuopt.reduce(swift(rows, device_type=1)), "is_cuda")
            del asked[:]
            return weakref.ref(x), weakref.ref(out)
        def counts():
            gc.collect()
            counted = (*hosts, rows.dtype, swift, libraries.LIBRARIES, "cuda:0", None)
            return [sys.getrefcount(each) for each in counted]
        for _ in range(20):
            work()
        before, blocks, live = counts(), sys.getallocatedblocks(), get("live")
        known = len(libraries._known)
        for _ in range(1000):
            assert [each() for each in work()] == [None, None]
        after = counts()
        assert max(b - a for a, b in zip(before, after, strict=True)) < 20, (before, after)
        assert sys.getallocatedblocks() - blocks < 500  # one a call would be 1,000
        assert len(libraries._known) == known
        assert get("live") - live <= 8  # the graphs that a queue keeps
        asks = type("Asked", (Tensor,), {"changes": {}})
        for _ in range(400):  # types without end: some are remembered
            assert described(library(asks, at=ctypes.addressof(tables[0]))(rows))
        assert len(libraries._known) == libraries._KNOWN_MOST
        """,
    )


def test_results_come_from_the_function_of_pytorchs_compiler(fake_cuda):
    with_exchange(
        fake_cuda,
        """
        made, written = [], []
        def make(shape, strides, dtype):
            made.append((shape, strides, dtype))
            if shape == (7,):
                raise MemoryError("the caller's")
            return swift(np.empty(shape, dtype), device_id=at)
        torch._C._dynamo = types.SimpleNamespace(
            guards=types.SimpleNamespace(_empty_strided_cuda=make))
        def increment(outs):
            if outs[0].is_inference():  # has no version
                raise RuntimeError("outside of inference mode")
            if outs[0].host.size == 3:
                raise MemoryError("the counter's")
            written.append(outs)
        torch._C._increment_version = increment
        at, x = 0, swift(items[:24].reshape(2, 3, 4))
        gpuopt.transpose(x)
        for axis, shape, strides in (((0, 1, 2), (), ()), (1, (2, 4), (4, 1)), (0, (3, 4), (4, 1))):
            found = gpuopt.reduce(x, axis=axis)
            assert type(found) is swift and found.host.dtype == "i8"
            assert made[-1] == (shape, strides, np.dtype("i8"))
        assert type(gpuopt.transpose(x)) is swift
        assert made[-1] == ((4, 3, 2), (6, 2, 1), items.dtype)
        assert gpuopt.reduce(swift(items[:0].reshape(3, 0)), axis=0).host.shape == (0,)
        at = 1  # PyTorch's current device is another one
        assert type(gpuopt.reduce(x, axis=0)) is tensor
        at = 0
        with np.testing.assert_raises_regex(MemoryError, "the caller's"):
            for _ in range(2):
                gpuopt.add(swift(items[:7]), 1)
        out = swift(np.empty((2, 4), np.int64))
        for _ in range(3):
            assert gpuopt.reduce(x, axis=1, out=out) is out
        assert written.count((out,)) + graph.writes == 3 and (out,) in written
        out.is_inference = lambda: True
        written.clear()
        assert gpuopt.reduce(x, axis=1, out=out) is out and not written
        with np.testing.assert_raises_regex(MemoryError, "the counter's"):
            gpuopt.add(swift(items[:3]), 1, out=swift(np.empty(3, items.dtype)))
        """,
    )


def test_misuse_of_private_functions_raises(fake_cuda):
    with_exchange(
        fake_cuda,
        """
        dtypes = libraries._dlpack_dtypes()
        assert _core.know(Tensor, None, dtypes, {}, None, None) is False  # it has no such table
        others = (swift, None, 7), (swift, None, dtypes, {}), (swift, None, dtypes, str, None, None)
        for wrong in ((7, None), (swift,), *others):
            caught(TypeError, lambda: _core.know(*wrong), "know() takes")
        assert _core.borrow(items) is None is _core.borrow(Tensor(items))
        view = libraries.view_of(swift(items), "x")
        assert view.replace() is not view and view.replace(read_only=1).read_only is True
        assert view.replace(strides=(8,), stream=2).strides == (8,) and view.strides is None
        caught(TypeError, lambda: view.replace(7))
        caught(TypeError, lambda: view.replace(shape=[1]))
        caught(TypeError, lambda: view.replace(colour=1))
        caught(OverflowError, lambda: view.replace(address=-1))
        caught(AttributeError, lambda: setattr(view, "address", 1))
        caught(TypeError, lambda: _core.View())
        caught(TypeError, lambda: _core.View(1, 2, 3, 4, 5, 6, 7, 8))
        head = "transpose", "move", "uint8", "uint8"
        reach = (0, 8, 1, False)
        fields = [head, (1, 8, 0), ((0, 0, 8, reach),), (8, reach), 1, False, (8,), np.dtype("u1"),
                  -1, None, None, None, "cuda:0", (), (), None]
        def plan(**changes):
            names = "head numbers inputs output out to_host shape dtype factor named variant block"
            names = *names.split(), "device", "before", "after", "back"
            given = dict(zip(names, fields)) | changes
            return _core.Plan("resident", tuple(given.values()))
        call = plan()
        a, b = (libraries.view_of(swift(np.zeros(8, "u1")), "x") for _ in range(2))
        def queued(*views):
            return call.run(*views) is views[1]
        assert queued(a, b) and not queued(a, a) and not queued(a, b.replace(waits=1))
        assert not queued(a, b.replace(device="cuda:1"))
        assert not queued(a, b.replace(read_only=1))
        same = "".join(("cuda", ":0"))
        assert queued(a.replace(device=same), b)
        for address in (0, 2**63, 2**64 - 4):  # never sums that overflow
            assert queued(a.replace(address=address), b) in (True, False)
        caught(TypeError, lambda: call.run(a), "run() takes")
        caught(TypeError, lambda: call.run(a, items), "run() takes")
        whole = dict(head=("reduce", "sum", "int32", "int64"), numbers=(2,))
        assert plan(**whole)
        for wrong in (dict(inputs=((0, 0, 12, reach),)), dict(inputs=((0, 0, 8, reach),) * 2),
                      dict(output=(4, reach)), dict(numbers=(0,)), dict(numbers=())):
            caught(ValueError, lambda: plan(**whole | wrong), "problem")
        for wrong in (dict(inputs=(items,)), dict(inputs=((0, 8),)), dict(output=(8, 7)),
                      dict(head=head[:2]), dict(named="int5"), dict(inputs=((0, "int5"),))):
            caught(TypeError, lambda: plan(**wrong))
        caught(ValueError, lambda: plan(inputs=((0, 0, 8, reach),) * 4), "too many")
        caught(ValueError, lambda: plan(output=(8, (0, 8, 0, 0))), "alignment")
        caught(ValueError, lambda: plan(device="vulkan"), "vulkan")
        fake.fake_cuda_fail(b"cuLaunchKernelEx", 999, 1)
        fake.fake_cuda_fail(b"cuLaunchKernel", 999, 1)
        caught(gpuopt.DeviceError, lambda: call.run(a, b), "cuLaunchKernel")
        assert queued(a, b)
        """,
    )


def test_asarray_remembers_that_its_memory_may_go_only_after_the_work(fake_cuda):
    code = """
        own = gpuopt.asarray(np.arange(100), device="cuda")
        held = gpuopt.asarray(Capsules(own))
        for call in (lambda: gpuopt.reduce(held, out=gpuopt.empty((), np.int64, "cuda")),
                     lambda: gpuopt.add(held, held)):
            ctrl_c(call, 0.3)  # it waits, as it does for the capsule itself
        gpuopt.reduce(own, out=gpuopt.empty((), np.int64, "cuda"))
    """
    with_producers(fake_cuda, code)


def test_arrays_of_an_interrupted_wait_are_kept(fake_cuda):
    """The GPU may still read an array whose wait was interrupted: the next wait releases it."""
    code = """
        out = gpuopt.empty((), np.int64, "cuda")
        lent = []
        def work():
            gpuopt.reduce(Capsules(lent.pop()), out=out)
        def used():
            gc.collect()
            return get("used")
        for interrupted in (False, True, False):
            lent.append(gpuopt.asarray(np.arange(200_000), device="cuda"))
            if not interrupted:
                work()
                settled = used()
            else:
                ctrl_c(work, 0.3)
                assert used() == settled + 1_600_000, used() - settled
                before = settled
        assert settled == before, settled - before
    """
    with_producers(fake_cuda, code)


def test_invalid_extents_raise(fake_cuda):
    code = """
        array = np.arange(20)
        for told in (dict(shape=(-4, -5)), dict(shape=(-4,)), dict(shape=(2.5,)),
                     dict(shape=(4, 5), strides=(8,))):
            wrong = Interface(array)
            wrong.__cuda_array_interface__ |= told
            caught(TypeError, lambda: gpuopt.reduce(wrong), "array: its CUDA array interface")
            caught(TypeError, lambda: gpuopt.asarray(wrong), "x: its CUDA array interface")
        listed = Interface(array, strides=[8])
        gpuopt.reduce(listed, out=np.zeros((), np.int64))
        nothing = Interface(array)  # one past the end of its memory
        nothing.__cuda_array_interface__ |= dict(shape=(0,), data=(array.ctypes.data + 160, False))
        assert gpuopt.asarray(nothing).shape == (0,)
    """
    with_producers(fake_cuda, code)


def test_arrays_of_jax_have_plans_and_wait(fake_cuda):
    code = """
        class Array:
            def __init__(self, host):
                self.host = host
            def __dlpack_device__(self):
                return 2, 0
            def __dlpack__(self, **options):
                address, shape = self.host.ctypes.data, self.host.shape
                return gpuopt._core.dlpack_export(self, address, shape, 2, 32, 2, 0, True, False)
        ArrayImpl = type("ArrayImpl", (Array,), {"__module__": "jaxlib"})
        jax = types.ModuleType("jax")
        jax.core, made = types.SimpleNamespace(), []
        jax.dlpack = types.SimpleNamespace(from_dlpack=lambda array: made.append(array) or "made")
        sys.modules["jax"] = jax
        from gpuopt.families import device_calls
        x, waits = ArrayImpl(np.arange(1000, dtype=np.float32)), []
        gpuopt.add(x, x)
        device_calls.run = None  # the general function
        real = gpuopt._core.wait
        gpuopt._core.wait = lambda *place: waits.append(place) or real(*place)
        before = sys.getrefcount(x)
        forget()
        assert gpuopt.add(x, x) == "made" and story() == "launch 1;", story()
        assert waits == [("cuda:0", 1)] and type(made[-1]) is gpuopt.DeviceArray
        assert sys.getrefcount(x) == before
        caught(ValueError, lambda: gpuopt.add(x, ArrayImpl(np.zeros(7, np.float32))), "broadcast")
        ctrl_c(lambda: gpuopt.add(x, x), 0.3)
    """
    with_producers(fake_cuda, code)


def test_arrays_of_jax_use_its_compiled_functions(fake_cuda):
    code = """
        class Array:
            def __init__(self, host):
                self.host = host
            def devices(self):
                return {0}
            def __dlpack_device__(self):
                return 2, 0
            def __dlpack__(self, **options):
                raise BufferError("the compiled function is to be called")
        ArrayImpl = type("ArrayImpl", (Array,), {"__module__": "jaxlib"})
        def export(array, stream):
            host = array.host
            assert stream == 1
            bits = 8 * host.itemsize
            return gpuopt._core.dlpack_export(
                array, host.ctypes.data, host.shape, 2, bits, 2, 0, False, False)
        taken, passed = [], []
        def take(capsule, place, stream):
            taken.append(gpuopt._core.dlpack_take(capsule))
            return place, stream
        sys.modules["jaxlib._jax"] = types.SimpleNamespace(
            buffer_to_dlpack_managed_tensor=export, dlpack_managed_tensor_to_buffer=take)
        jax = types.ModuleType("jax")
        jax.core = types.SimpleNamespace()
        jax.local_devices = lambda: [types.SimpleNamespace(platform="gpu", local_hardware_id=0)]
        jax.dtypes = types.SimpleNamespace(
            canonicalize_dtype=lambda dtype: np.dtype(f"{dtype.kind}4"))
        jax.dlpack = types.SimpleNamespace(from_dlpack=lambda array: passed.append(array) or "made")
        sys.modules["jax"] = jax
        x, y = ArrayImpl(np.arange(1000, dtype="f4")), ArrayImpl(np.arange(1000.0))
        for _ in range(2):
            place, stream = gpuopt.add(x, x)
            assert place.local_hardware_id == 0 and stream is None
            assert taken[-1][2] == (1000,) and taken[-1][4:6] == (2, 32), taken[-1]
        assert not passed and gpuopt.add(y, y) == "made"  # JAX makes it float32
        assert passed[-1].dtype == "f8" and passed[-1].shape == (1000,)
        grid = ArrayImpl(np.ones((4, 6), "f4"))
        place, stream = gpuopt.reduce(grid, "argmax", axis=0)
        assert stream is None and taken[-1][2] == (6,) and taken[-1][4:6] == (0, 32), taken[-1]
        counts = sys.getrefcount(x), get("used")
        for _ in range(50):
            gpuopt.add(x, x)
            taken.clear()
        assert (sys.getrefcount(x), get("used")) == counts
    """
    with_producers(fake_cuda, code)
