"""A program's copies and kernels in time, and a launch's resources, as deck D1's profiler shows."""

import json

import numpy as np
import pytest

import gpuopt
from gpuopt import models


@pytest.mark.parametrize("device", ["sim:g80", "sim:k40", "sim:h200"])
def test_time_line_of_a_family_call(device):
    x = np.ones(1 << 16, np.float32)
    line = gpuopt.profile(gpuopt.add, x, x, variant=5, device=device).timeline()
    parts = {step.name: step for step in line.steps}
    assert (parts["copies in"].count, parts["copies in"].nbytes) == (2, 2 * x.nbytes)
    assert (parts["copies out"].count, parts["copies out"].nbytes) == (1, x.nbytes)
    assert line.allocations == 3 and line.limiter == "copies"
    pageable = models.transfer(device, x.nbytes, pinned=False)
    assert parts["copies out"].seconds == pytest.approx(pageable)
    assert line.seconds == pytest.approx(sum(each["seconds"] for each in line.records()))
    assert (
        json.loads(json.dumps(line.to_dict()))["steps"][1]["name"]
        == "kernel vector_5_add_float32_float32"
    )
    assert "the copies are the limiter" in str(line) and "<table" in line._repr_html_()


def test_time_line_of_own_kernels_shows_a_kernel_as_the_limiter():
    module = gpuopt.compile(
        "__global__ void spin(float *x, int n) {"
        " float v = x[threadIdx.x]; for (int i = 0; i < n; i++) v = v * v + 1.0f;"
        " x[threadIdx.x] = v; }",
        device="sim:g80",
    )
    with gpuopt.profile(device="sim:g80") as counted:
        there = module.copy(np.zeros(32, np.float32))
        module["spin"](1, 32, there, 100_000, check=False)
        there.get(np.float32)
    line = counted.timeline()
    assert [step.name for step in line.steps] == ["copies in", "kernel spin", "copies out"]
    assert line.limiter == "kernels"


def test_time_line_needs_launches_and_a_record():
    with gpuopt.profile() as counted:
        pass
    with pytest.raises(ValueError, match="no launches"):
        counted.timeline()
    with pytest.raises(ValueError, match="no record of copies"):
        gpuopt.Profile().timeline()


def test_a_profile_shows_registers_shared_memory_and_busy_multiprocessors():
    """Deck D1: 4 blocks on the K40's 15 multiprocessors."""
    a = np.zeros((1024, 32), np.float32)
    counted = gpuopt.profile(gpuopt.transpose, a, variant="1-historical", device="sim:k40")
    (launch,) = counted.launches
    assert launch.busy == (4, 15) and 8 <= launch.registers <= 64
    assert "4 of 15 multiprocessors busy" in str(counted)
    tiled = gpuopt.profile(gpuopt.transpose, a, variant="4-historical", device="sim:k40").launches[
        0
    ]
    assert (tiled.static_shared_bytes, tiled.shared_bytes) == (4096, 0)
    assert tiled.record()["static_shared_bytes"] == 4096


@pytest.mark.parametrize(
    ("preset", "rate", "engines"),
    [("g80", 3.2, 0), ("gt200", 5.2, 1), ("m2090", 5.2, 2), ("k40", 12.6, 2), ("h200", 50.4, 2)],
)
def test_links(preset, rate, engines):
    link = models.host_link(preset)
    assert link.pinned == pytest.approx(rate * 1e9) and link.engines == engines
    assert link.pageable < link.pinned
    assert models.transfer(preset, 0) == pytest.approx(10e-6)
    with pytest.raises(ValueError, match="nbytes"):
        models.transfer(preset, -1)
