"""Simulated memory still allocated when its GPU is closed is an internal error."""

from conftest import run_python

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

bench = _core.Bench(("add", "add", "float32", "float32", (x, x), np.empty_like(x), (x.size,)),
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
