"""Other libraries' calls on the GPU that is measured, with stand-ins in the libraries' places."""

import contextlib
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

import gpuopt
from gpuopt.families import cases
from gpuopt.measure import bench, ladder, peer_libraries, workloads

LIBRARIES = ("CuPy", "cuBLAS", "PyTorch", "JAX")
ADD = peer_libraries.Task("add")


class Machine:
    """Two GPUs as a library sees them: which one is current, and what happened on which."""

    def __init__(self, count=2):
        self.count, self.current, self.told = count, 0, []

    def tell(self, what):
        self.told.append((what, self.current))

    @contextlib.contextmanager
    def entered(self, number):
        before, self.current = self.current, number
        self.tell("enter")
        try:
            yield
        finally:
            self.current = before

    def array(self, items, number=None):
        return There(self, items, self.current if number is None else number)

    def happened(self):
        """Return what happened since this was last asked."""
        told, self.told = self.told, []
        return told


class There:
    """An array on one of the GPUs: what works on it must be on that one too."""

    def __init__(self, machine, items, number):
        self.machine, self.items, self.number = machine, np.array(items), number
        self.dtype, self.shape = self.items.dtype, self.items.shape
        machine.told.append(("move", number))

    def made(self, items):
        assert self.number == self.machine.current, "the array is on another GPU"
        self.machine.tell("call")
        result = object.__new__(There)
        vars(result).update(vars(self) | {"items": items, "dtype": items.dtype})
        return result

    def __add__(self, other):
        return self.made(self.items + other.items)

    @property
    def T(self):
        return self.made(self.items.T)

    def cpu(self):
        self.machine.tell("fetch")
        return self

    def numpy(self):
        return self.items

    def __array__(self, dtype=None, copy=None):
        self.machine.tell("fetch")
        return self.items

    def __float__(self):
        self.machine.tell("fetch")
        return float(self.items)

    item = __float__


def as_cupy(machine):
    class Device(contextlib.AbstractContextManager):
        def __init__(self, number=None):
            self.number = machine.current if number is None else number
            self.outer = []

        def __enter__(self):
            self.outer.append(machine.entered(self.number))
            return self.outer[-1].__enter__()

        def __exit__(self, *raised):
            return self.outer.pop().__exit__(*raised)

        def synchronize(self):
            machine.told.append(("wait", self.number))

    cupy, cublas = types.ModuleType("cupy"), types.ModuleType("cupy.cublas")
    cupy.__version__, cupy.asarray, cupy.asnumpy = "1", machine.array, np.asarray
    cupy.sum = lambda x, dtype: x.made(x.items.sum(dtype=dtype))
    cublas.geam = lambda how, other, alpha, a, beta, b: a.made(a.items.T.copy().T)
    cupy.cuda = types.SimpleNamespace(
        Device=Device,
        cublas=types.SimpleNamespace(getVersion=lambda handle: handle),
        device=types.SimpleNamespace(get_cublas_handle=lambda: 100 + machine.current),
    )
    pool = types.SimpleNamespace(free_all_blocks=lambda: machine.tell("free"))
    cupy.get_default_memory_pool = lambda: pool
    return {"cupy": cupy, "cupy.cublas": cublas}


def as_torch(machine):
    def number(where):
        kind, _, index = where.partition(":")
        assert kind == "cuda"
        return int(index) if index else machine.current

    def synchronize(device=None):
        machine.told.append(("wait", machine.current if device is None else device))

    torch = types.ModuleType("torch")
    torch.__version__, torch.Tensor = "1", There
    torch.bfloat16, torch.float32 = "bfloat16", "float32"
    torch.matmul = None
    torch.tensor = lambda items, device: machine.array(items, number(device))
    torch.from_numpy = lambda items: types.SimpleNamespace(
        to=lambda where: machine.array(items, number(where))
    )
    torch.sum = lambda x, dtype: x.made(x.items.sum(dtype=dtype))
    matmul = types.SimpleNamespace()
    torch.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=matmul))
    torch.cuda = types.SimpleNamespace(
        device=machine.entered,
        device_count=lambda: machine.count,
        empty_cache=lambda: machine.tell("free"),
        is_available=lambda: machine.count > 0,
        is_initialized=lambda: True,
        synchronize=synchronize,
    )
    return {"torch": torch}


def as_jax(machine):
    """JAX counts the GPUs that it may use from 0, in its own order."""

    def wait(result):
        machine.told.append(("wait", result.number))

    jax, jnp = types.ModuleType("jax"), types.ModuleType("jax.numpy")
    jax.__version__, jax.jit, jax.block_until_ready = "1", lambda call: call, wait
    jax.config = types.SimpleNamespace(jax_enable_x64=False)
    jax.default_backend = lambda: "gpu"
    jax.default_matmul_precision = lambda name: contextlib.nullcontext()
    jax.default_device = lambda device: machine.entered(device.local_hardware_id)
    jax.local_devices = lambda: [
        types.SimpleNamespace(id=i, local_hardware_id=number)
        for i, number in enumerate(reversed(range(machine.count)))
    ]
    jnp.asarray = machine.array
    jnp.sum = lambda x, dtype: x.made(x.items.sum(dtype=dtype))
    return {"jax": jax, "jax.numpy": jnp}


STAND_INS = {"CuPy": as_cupy, "cuBLAS": as_cupy, "PyTorch": as_torch, "JAX": as_jax}


def stand_in(monkeypatch, library, count=2):
    """Put a stand-in into a library's place; return its machine."""
    machine = Machine(count)
    for name, module in STAND_INS[library](machine).items():
        monkeypatch.setitem(sys.modules, name, module)
    return machine


def given(library):
    """Return a task that a library does, its arguments, and the result."""
    x, y = np.random.default_rng(0).random((2, 30, 40), np.float32)
    if library == "cuBLAS":
        return peer_libraries.Task("transpose"), (x,), x.T
    return ADD, (x, y), x + y


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("gpu", [0, 1])
def test_a_peer_is_on_the_gpu_that_is_measured(library, gpu, monkeypatch):
    machine = stand_in(monkeypatch, library)
    task, arguments, right = given(library)
    ((peer,), refused) = peer_libraries.find(task, arguments, gpu, [library])
    assert not refused and machine.current == 0
    assert machine.happened().count(("move", gpu)) == peer.copies * len(arguments)
    np.testing.assert_array_equal(peer.run(), right)
    told = machine.happened()
    assert {number for _, number in told} == {gpu} and machine.current == 0
    assert [what for what, _ in told].count("enter") == 1 and ("fetch", gpu) in told
    for runs, cold in ((1, False), (5, False), (5, True)):
        assert peer.time(runs, cold) > 0
        told = machine.happened()
        assert {number for _, number in told} == {gpu} and machine.current == 0
        names = [what for what, _ in told if what != "fetch"]
        calls = (len(names) - 3) // (1 + runs) * ["call"]  # of cuBLAS also the view
        assert names == ["enter", *calls, "wait", *calls * runs, "wait"], "entered once a timing"


@pytest.mark.parametrize("library", ["CuPy", "PyTorch", "JAX"])
def test_arrays_of_the_host_travel_to_the_gpu_that_is_measured(library, monkeypatch):
    machine = stand_in(monkeypatch, library)
    task = peer_libraries.Task("reduce", as_number=True, from_host=True)
    x = np.ones(1000, np.float32)
    ((peer,), refused) = peer_libraries.find(task, (x,), 1, [library])
    assert not refused and not any(what == "move" for what, _ in machine.happened())
    assert peer.run() == 1000 and peer.time(3, False) > 0
    told = machine.happened()
    assert told.count(("move", 1)) == 5 and {number for _, number in told} == {1}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_current_gpu_is_as_before_where_a_call_fails(library, monkeypatch):
    machine = stand_in(monkeypatch, library)
    task, arguments, _ = given(library)
    ((peer,), _) = peer_libraries.find(task, arguments, 1, [library])

    def fails():
        machine.tell("call")
        raise MemoryError("no more")

    peer._calls = [fails]
    for call in (peer.run, lambda: peer.time(3, True)):
        with pytest.raises(MemoryError):
            call()
        assert machine.happened()[-1] == ("call", 1) and machine.current == 0


def test_cublas_tells_the_version_by_that_gpus_handle(monkeypatch):
    stand_in(monkeypatch, "cuBLAS")
    task, arguments, _ = given("cuBLAS")
    ((peer,), _) = peer_libraries.find(task, arguments, 1, ["cuBLAS"])
    assert peer.version == "101"


@pytest.mark.parametrize("library", ["PyTorch", "JAX"])
def test_a_library_that_does_not_see_that_gpu_is_left_out(library, monkeypatch):
    machine = stand_in(monkeypatch, library, count=1)
    _, arguments, _ = given(library)
    peers, refused = peer_libraries.find(ADD, arguments, 1, [library])
    assert not peers and refused == [(library, "does not see cuda:1")]
    assert not machine.told


def test_jax_without_a_gpu_is_left_out(monkeypatch):
    stand_in(monkeypatch, "JAX")
    sys.modules["jax"].default_backend = lambda: "cpu"
    peers, refused = peer_libraries.find(ADD, (np.ones(4, "f4"),) * 2, 1, ["JAX"])
    assert not peers and refused == [("JAX", "runs on its cpu backend here")]


@pytest.mark.parametrize("library", ["CuPy", "PyTorch"])
def test_the_memory_of_that_gpu_is_given_back(library, monkeypatch):
    for each in ("cupy", "torch"):
        monkeypatch.delitem(sys.modules, each, raising=False)
    machine = stand_in(monkeypatch, library)
    peer_libraries.release(1)
    assert machine.happened() == [("enter", 1), ("free", 1)] and machine.current == 0
    peer_libraries.release(None)
    assert not machine.told, "what was on the host has taken none"


def test_a_library_that_is_not_used_is_not_woken_to_free_memory(monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    machine = stand_in(monkeypatch, "PyTorch")
    sys.modules["torch"].cuda.is_initialized = lambda: False
    peer_libraries.release(1)
    assert not machine.told


def test_a_library_that_fails_to_free_memory_ends_nothing(monkeypatch):
    for name in ("cupy", "torch"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # it has nothing
    peer_libraries.release(0)


def second_gpu():
    """Return this machine's CPU, described as its second GPU."""
    cpu = ladder.describe_device("cpu")
    return replace(cpu, name="cuda:1", kind="cuda", description="the second")


def test_a_ladders_peers_are_on_its_gpu(monkeypatch):
    machine = stand_in(monkeypatch, "PyTorch")
    case = cases.make("add", 400, "float32")
    asked = gpuopt.Ladder(second_gpu(), "add", "float32", case.n, None, [], family="add")
    peers = {peer.name for peer in ladder._find_peers(asked, case, True)}
    assert {"NumPy", "PyTorch"} <= peers, asked.peers_refused
    assert {number for _, number in machine.told} == {1}


def test_a_benchs_peers_are_on_its_gpu_and_give_its_memory_back(monkeypatch):
    """gpuopt's own calls are on the CPU here: of a GPU there is but a description."""
    machine = stand_in(monkeypatch, "PyTorch")
    ours, cpu = bench._ours, bench.describe_device("cpu")
    second = second_gpu()
    monkeypatch.setattr(
        bench, "describe_device", lambda name: second if name.startswith("cuda") else cpu
    )
    monkeypatch.setattr(bench, "_ours", lambda work, given, device: ours(work, given, cpu))
    monkeypatch.setattr(bench, "_kernels", lambda *work: None)
    monkeypatch.setattr(bench._core, "wait", lambda *stream: None)
    title = next(each.title for each in workloads.works("cuda", quick=True) if each.group == "sum")
    found = gpuopt.bench("cuda:1", quick=True, only=[title], peers=["PyTorch"])
    (row,) = found.rows
    assert [peer.name for peer in row.peers] == ["PyTorch"] and not row.refused
    assert {number for _, number in machine.told} == {1} and machine.told[-1] == ("free", 1)


@pytest.mark.parametrize(("name", "number"), [("cuda:0", 0), ("cuda:12", 12)])
def test_a_gpus_number_is_its_names(name, number):
    assert gpuopt.catalog.devices.gpu_number(replace(second_gpu(), name=name)) == number
    for other in ("cpu", "sim:h200"):
        assert gpuopt.catalog.devices.gpu_number(gpuopt.catalog.devices.device(other)) is None
