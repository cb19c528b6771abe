"""A block of the largest size that a rung allows finds the registers that it needs."""

import re
import subprocess

import pytest

import gpuopt
from gpuopt import _core
from gpuopt.observe import machine

REGISTERS = 65536  # of a multiprocessor, so of a block, from compute capability 3.0 on
RUNGS = [
    rung
    for family in ("reduce", "transpose", "stencil1d", "add", "saxpy", "matmul")
    for rung in gpuopt.rungs(family)
    if not rung.host and rung.kernels and 255 * rung.block_max > REGISTERS
]


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: f"{rung.family}-{rung.name}")
def test_the_largest_block_has_registers_for_every_thread(rung, tmp_path):
    ptxas = machine._tool("ptxas")
    if not ptxas:
        pytest.skip("needs ptxas")
    for kernel in {rung.kernels[0], rung.kernels[-1]}:
        path = tmp_path / "kernel.ptx"
        path.write_text(_core.kernel_ptx(kernel, 90))
        command = [ptxas, "-arch=sm_90", "-v", path, "-o", tmp_path / "kernel.cubin"]
        log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        (registers,) = map(int, re.findall(r"Used (\d+) registers", log))
        # a warp's registers are handed out in units of 256
        assert rung.block_max // 32 * (-(-registers * 32 // 256) * 256) <= REGISTERS, (
            kernel, registers, rung.block_max,
        )  # fmt: skip
