"""Theoretical and achieved occupancy of simulated launches and of gpuopt.models."""

import subprocess
import sys

import numpy as np
import pytest

import gpuopt
from gpuopt import _core, models

HEADER = ".version 7.0\n.target sm_75\n.address_size 64\n"
EMPTY = HEADER + ".visible .entry nothing()\n{\n\tret;\n}\n"
# Warp 0 of each block goes round a loop; then a barrier, if there is one, for all.
UNEVEN = (
    HEADER
    + """.visible .entry uneven(.param .u32 rounds)
{{
    .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.u32 %r0, [rounds];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p0, %r1, 32;
    @%p0 bra last;
again:
    sub.u32 %r0, %r0, 1;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra again;
last:
    {}
    ret;
}}
"""
)
SMS = next(row["multiprocessors"] for row in _core.presets() if row["name"] == "h200")


def launched(ptx, grid, block, *arguments, shared=0, device="sim"):
    module = gpuopt.load_ptx(ptx, device=device)
    kernel = module["uneven" if arguments else "nothing"]
    with gpuopt.profile(device=device) as profiled:
        kernel(grid, block, *arguments, shared=shared)
    assert f"achieved {profiled.launches[0].achieved_occupancy:.0%}" in str(profiled)
    return profiled.launches[0]


@pytest.mark.parametrize("name", models.GPUS)
def test_launch_and_model_share_one_table_of_limits(name):
    """A launch and gpuopt.models report the same limits by threads, blocks and shared memory."""
    limits = models.GPUS[name]
    for block in (32, 64, 96, 256, limits.threads_per_block):
        for shared in (0, 1, 5000, limits.shared_per_block):
            launch = launched(EMPTY, 1, block, shared=shared, device=f"sim:{name}")
            assert launch.occupancy == float(models.occupancy(name, block, shared=shared))


def test_launch_and_model_agree_on_the_register_limit():
    """One number of registers explains the occupancy of every block size."""
    chains = 60  # values that live at the same time
    names = [f"%r{i}" for i in range(chains)]
    body = [f"mov.u32 {name}, %clock;" for name in names]
    body += [f"add.u32 %r0, %r0, {name};" for name in names[1:]]
    text = HEADER + ".visible .entry nothing()\n{\n.reg .b32 %r<60>;\n.reg .pred %p;\n"
    text += "\n".join(body) + "\nsetp.eq.u32 %p, %r0, 7;\n@%p exit;\nret;\n}\n"
    fitting = set(range(1, 256))
    limiters = set()
    for name in ("g80", "m2090", "k40", "h200"):
        for block in (32, 64, 96, 128, 160, 256, 352):
            launch = launched(text, 1, block, device=f"sim:{name}")
            limiters.add(launch.limiter)
            fitting = {
                count
                for count in fitting
                if launch.occupancy == float(models.occupancy(name, block, registers=count))
                or models.occupancy(name, block, registers=count).blocks == 0
            }
    assert "registers" in limiters
    assert fitting, "no number of registers gives these occupancies"
    assert min(fitting) > chains - 8 and chains <= max(fitting) < chains + 16  # given out by eights


def test_the_limits_of_compute_capability_12():
    """CUDA programming guide, technical specifications per compute capability, 12.0."""
    (found,) = (each for each in models.GPUS.values() if each.compute_capability == "12.0")
    assert (found.warps, found.blocks, found.threads_per_block) == (48, 24, 1024)
    assert (found.registers, found.shared, found.shared_per_block) == (1 << 16, 100 << 10, 99 << 10)
    assert models.occupancy(found, 1024).warps == 32
    assert models.occupancy(found, 768).occupancy == 1


@pytest.mark.parametrize("waves", [1, 2, 5])
@pytest.mark.parametrize("block", [1024, 256, 96])
def test_full_waves_achieve_the_theoretical(block, waves):
    resident = SMS * models.occupancy("h200", block).blocks
    launch = launched(EMPTY, resident * waves, block)
    assert launch.achieved_occupancy == pytest.approx(launch.occupancy, rel=1e-12)


def test_a_partly_filled_last_wave():
    resident = SMS * 2  # of 1,024 threads: 32 warps
    # Half of the second wave: each multiprocessor holds 64 warps, then 32.
    assert launched(EMPTY, resident + SMS, 1024).achieved_occupancy == pytest.approx(0.75)
    # A quarter: half of the multiprocessors are through after one wave.
    part = SMS // 2
    expected = (SMS * 64 + part * 32) / (SMS + part) / 64
    got = launched(EMPTY, resident + part, 1024).achieved_occupancy
    assert got == pytest.approx(expected)


def test_a_small_grid_is_averaged_over_active_multiprocessors():
    assert launched(EMPTY, 1, 32).achieved_occupancy == pytest.approx(1 / 64)
    assert launched(EMPTY, SMS, 32).achieved_occupancy == pytest.approx(1 / 64)
    assert launched(EMPTY, SMS // 2, 512).achieved_occupancy == pytest.approx(16 / 64)
    assert launched(EMPTY, 2 * SMS, 512).achieved_occupancy == pytest.approx(32 / 64)


def test_warps_that_exit_early_are_missed_and_those_that_wait_are_not():
    exits, waits = (
        launched(UNEVEN.format(last), 2 * SMS, 1024, 10_000) for last in ("", "bar.sync 0;")
    )
    assert exits.occupancy == waits.occupancy == 1
    assert 2 / 64 < exits.achieved_occupancy < 2.1 / 64  # warp 0 of two blocks
    assert waits.achieved_occupancy == pytest.approx(1, rel=1e-3)


def test_an_exit_that_opens_a_barrier_was_waited_for():
    text = UNEVEN.format("@%p0 bar.sync 0;")  # all but warp 0, which never comes and exits
    assert launched(text, 2 * SMS, 1024, 10_000).achieved_occupancy == pytest.approx(1, rel=1e-3)


def test_achieved_occupancy_does_not_depend_on_host_threads():
    script = (
        "import numpy as np, gpuopt\n"
        "p = gpuopt.profile(gpuopt.reduce, np.arange(300_001.0), variant=7)\n"
        "print([each.achieved_occupancy for each in p.launches])\n"
    )
    outputs = {
        subprocess.run(
            [*bound, sys.executable, "-c", script], check=True, capture_output=True, text=True
        ).stdout
        for bound in ([], ["taskset", "-c", "0"])
    }
    assert len(outputs) == 1 and "0." in outputs.pop()
    x = np.arange(70_000.0)
    first, second = (gpuopt.profile(gpuopt.reduce, x, variant=1).launches for _ in range(2))
    assert [each.achieved_occupancy for each in first] == [
        each.achieved_occupancy for each in second
    ]
