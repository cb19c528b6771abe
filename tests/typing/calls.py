"""Calls that type checkers accept, and calls whose mistake they find: lines with "# wrong".

test_types.py runs mypy and basedpyright over this file; nothing here is executed.
"""

import numpy as np

import gpuopt

x = np.arange(10, dtype=np.float32)
matrix = np.ones((4, 4), np.float32)

total = gpuopt.reduce(x)
gpuopt.reduce(x, "max", variant=7, device="sim:g80")
gpuopt.reduce(x, "mean", axis=0, keepdims=True)
gpuopt.reduce(x, variant="sequential", dtype=np.float64)
gpuopt.transpose(matrix, (1, 0), variant="padded")
gpuopt.stencil1d(x, 3, mode="wrap")
gpuopt.matmul(matrix, matrix, variant="naive", device="cuda:1")
gpuopt.add(x, x, out=x)
gpuopt.saxpy(2.5, x, x, variant="grid-stride")
gpuopt.ladder("reduce", 4096, op="xor", device="cpu").plot()
for number in range(1, 4):
    gpuopt.reduce(x, variant=number)
profile = gpuopt.profile(gpuopt.reduce, x, variant=2, device="sim")
conflicts: int = profile.counters.bank_conflicts
gpuopt.trace("reduce", 3, n=64).tree().save("tree.svg")
kernel = gpuopt.load_ptx("k.ptx", device="sim")["k"]
kernel(1, (32, 1), x, 3, shared=4)
gpuopt.trace(kernel, 1, 32, x).timeline()
gpuopt.source("transpose", "padded", annotate=["barriers"])
gpuopt.source(kernel, 1, 32, x, ptx=True)
seconds: float = profile.bounds("h200").seconds
change = profile - profile
findings: list[gpuopt.Finding] = gpuopt.check(kernel, 1, 32, x)
roof = gpuopt.roofline("sim:m2090").add(profile)
there = gpuopt.asarray(x)
turned: gpuopt.DeviceArray = gpuopt.transpose(gpuopt.asarray(matrix), variant="vector")
sums: gpuopt.DeviceArray = gpuopt.reduce(there, axis=0, keepdims=True)
product: np.ndarray = gpuopt.matmul(matrix, there)
smooth: np.ndarray = gpuopt.stencil1d(a=[1.0, 2.0], radius=1, weights=[1, 2, 1])
into: np.ndarray = gpuopt.reduce(there, out=x)
within: gpuopt.DeviceArray = gpuopt.add(there, there, out=there)
halves: np.typing.NDArray[np.float32] = gpuopt.transpose(matrix)
count: int = gpuopt.reduce(array=x, op="count", device="cpu", blocks=None)
gpuopt.saxpy(2.5, there, there).get()

gpuopt.reduce(x, "summ")  # wrong
gpuopt.redcue(x)  # wrong
gpuopt.reduce(x, variant="sequentail")  # wrong
gpuopt.reduce(x, devise="sim")  # wrong
gpuopt.reduce(x, device=3)  # wrong
gpuopt.transpose(matrix, variant="pading")  # wrong
gpuopt.stencil1d(x, 3, mode="warp")  # wrong
gpuopt.matmul(matrix, matrix, variant="sequential")  # wrong
gpuopt.saxpy(2.5, x)  # wrong
host: np.ndarray = gpuopt.transpose(there)  # wrong
gpuopt.matmul(matrix, matrix).get()  # wrong
device_sum: gpuopt.DeviceArray = gpuopt.reduce(there, out=x)  # wrong
gpuopt.transpose(there, out=3)  # wrong
gpuopt.stencil1d(there, radios=3)  # wrong
gpuopt.add(there, there, variant="sequential")  # wrong
gpuopt.ladder("redcue")  # wrong
gpuopt.ladder("reduce", op="mean")  # wrong
gpuopt.trace("reduc", 3)  # wrong
gpuopt.source("transpos", "padded")  # wrong
gpuopt.diff("reduce", 2)  # wrong
profile.bound("h200")  # wrong
profile.records(group="line")  # wrong
name: int = kernel.name  # wrong
