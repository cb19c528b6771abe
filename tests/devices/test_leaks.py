"""Simulated memory still allocated when its GPU is closed is an internal error."""

from conftest import run_python
from fake_driver import FAKE_LIBRARIES, with_producers

# Every rung of every family, right and failing; then whatever else takes device memory.
EVERYTHING = """
import gc
import numpy as np
import gpuopt
from gpuopt import _core

x = np.arange(700, dtype=np.float32)
square = np.arange(33 * 47, dtype=np.float32).reshape(33, 47)
calls = {
    "reduce": lambda **k: gpuopt.reduce(x, device="sim", **k),
    "transpose": lambda **k: gpuopt.transpose(square, device="sim", **k),
    "stencil1d": lambda **k: gpuopt.stencil1d(x, radius=2, device="sim", **k),
    "add": lambda **k: gpuopt.add(x, x, device="sim", **k),
    "saxpy": lambda **k: gpuopt.saxpy(2.0, x, x, device="sim", **k),
    "matmul": lambda **k: gpuopt.matmul(square, square.T.copy(), device="sim", **k),
}
ran = 0
for family, call in calls.items():
    for rung in gpuopt.rungs(family):
        try:
            call(variant=rung.name)
            ran += 1
        except (ValueError, TypeError, gpuopt.SimError):
            pass  # the host's rungs, and the historical one's race
assert ran > 25, ran

bench = _core.Workbench(("add", "add", "float32", "float32", (x, x), np.empty_like(x), (x.size,)),
                    device="sim")
bench.run()
del bench
module = gpuopt.load_ptx('''.version 7.0
.target sm_75
.address_size 64
.global .u32 kept[100];
.visible .entry k(.param .u64 p) {
.reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; ld.global.u32 %r, [%d+4000]; ret; }
''', device="sim")
held = module.empty(4000)
try:
    module["k"](1, 1, held)
    raise AssertionError("out of bounds was not found")
except gpuopt.SimError:
    pass
texture = module.texture(x)
module["k"](1, 1, np.zeros(2000, np.int32))
del held, texture, module
gc.collect()
print(_core.close_idle())
gpuopt.reduce(x, variant=1, device="sim")  # all goes on after that
print(_core.close_idle())
"""


def test_closed_simulated_gpus_have_no_allocations():
    done = run_python(EVERYTHING, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[:2] == ["(0, 0)"] * 2


# Calls of every kind on a GPU's arrays and on the host's, right and failing.
KINDS_OF_CALLS = """
host, whole = np.arange(64.0).reshape(8, 8), np.arange(64)
def raises(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(kind)
calls = []
for put in (lambda array: gpuopt.asarray(array, "cuda"), cupy_ndarray, tensor):
    def add_calls(x, n, row, out, zero):
        calls.extend((
            lambda: gpuopt.add(x, x, out=out), lambda: gpuopt.add(x, 3), lambda: gpuopt.add(x, row),
            lambda: gpuopt.saxpy(2.0, x, row), lambda: gpuopt.reduce(n),
            lambda: gpuopt.reduce(x, axis=1), lambda: gpuopt.reduce(n, out=zero),
            lambda: gpuopt.transpose(x), lambda: gpuopt.matmul(x, x),
            lambda: gpuopt.stencil1d(x, weights=[1.0, 2, 1]), lambda: gpuopt.reduce(n, initial=4),
            lambda: raises(ValueError, lambda: gpuopt.reduce(x, axis=5)),
            lambda: raises(TypeError, lambda: gpuopt.add(x, host)),
            lambda: raises(TypeError, lambda: gpuopt.add(x, n)),
            lambda: raises(ValueError, lambda: gpuopt.add(row, row, out=x)),
            lambda: raises(OverflowError, lambda: gpuopt.add(n, 2**70)),
        ))
    add_calls(*map(put, (host, whole, host[0].copy(), host.copy())), np.zeros((), int))
calls += [
    lambda: gpuopt.reduce(whole), lambda: gpuopt.reduce(host, axis=0),
    lambda: gpuopt.add(host, host[0]),
    lambda: gpuopt.transpose(host), lambda: gpuopt.stencil1d(host, 2, axis=0),
    lambda: gpuopt.reduce([1, 2, 3]), lambda: gpuopt.reduce(whole.astype(">i4")),
    lambda: raises(ValueError, lambda: gpuopt.reduce(host, variant=99)),
    lambda: raises(TypeError, lambda: gpuopt.reduce(np.array(["a"]))),
]
def counts():
    gc.collect()
    forget()
    kept = host, whole, host.dtype, whole.dtype, cupy_ndarray, tensor, gpuopt.DeviceArray
    return sys.getallocatedblocks(), [*map(sys.getrefcount, kept)], get("live")
def rounds(times):
    os.environ["GPUOPT_DEVICE"] = "cpu"
    for _ in range(times):
        for call in calls:
            call()
rounds(40)
first = counts()
for _ in range(9):  # plans of new alignments fill their caches, and no more than these
    before = counts()[0]
    rounds(200)
    after = counts()
    if after[0] - before < 100:  # a block for each call of one kind: 200
        break
else:
    raise AssertionError(after[0] - before)
assert after[2] - first[2] <= 8, (first[2], after[2])  # the graphs that a queue keeps
assert max(b - a for a, b in zip(first[1], after[1])) < 20, (first[1], after[1])
"""


def test_calls_of_every_kind_keep_nothing(fake_cuda):
    with_producers(fake_cuda, FAKE_LIBRARIES + KINDS_OF_CALLS)
