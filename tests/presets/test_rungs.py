"""Every family's ladder, profile, trace and report work on every simulated GPU.

A rung is left out only where the GPU's hardware forbids it.
"""

import contextlib
import re

import numpy as np
import pytest
from conftest import predicted_from_ptx

import gpuopt
from gpuopt import models

PRESETS = list(models.GPUS)
FAMILIES = ("reduce", "transpose", "stencil1d", "add", "saxpy", "matmul")
N = 512  # a block of threads holds as many
FORBIDDEN = re.compile(
    r"bytes of shared memory, static and dynamic, are more than the \d+ of"
    r"|: 1024 threads per block are more than the 512"
)
TILES_OF_1024 = {"shared"}  # deck D2's tile of 32 x 32, a thread an element, for a Fermi
every_preset = pytest.mark.parametrize("preset", PRESETS)
GENERATIONS = {  # one preset for each way to serve memory
    (gpu.compute_capability.split(".")[0], gpu.coalescing): name
    for name, gpu in models.GPUS.items()
}
every_family = pytest.mark.parametrize("family", FAMILIES)


@every_preset
@every_family
def test_every_rung_runs_or_the_hardware_forbids_it(preset, family):
    # The machine code of one family: tests/observe has the others' on some GPUs.
    with predicted_from_ptx() if family != "add" else contextlib.nullcontext():
        measured = gpuopt.ladder(family, N, device=f"sim:{preset}")
    kernels = [each for each in gpuopt.rungs(family) if not (each.host or each.historical)]
    assert len(measured.rows) + len(measured.refused) == len(kernels)
    for rung, why in measured.refused:
        assert FORBIDDEN.search(why), (rung.name, why)
        assert "1024 threads" not in why or (family == "matmul" and rung.name in TILES_OF_1024)
    if preset not in ("g80", "gt200"):
        assert {rung.name for rung, _ in measured.refused} <= {"bulk"}
    told = str(measured)
    assert all(f"{rung.name}" in told for rung in kernels)


@every_preset
def test_default_block_is_one_that_the_gpu_allows(preset):
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    most = models.GPUS[preset].threads_per_block
    for variant in ("1d", "2d", "tex"):
        counted = gpuopt.profile(gpuopt.transpose, x, variant=variant, device=f"sim:{preset}")
        np.testing.assert_array_equal(counted.result, x.T)
        assert np.prod(counted.launches[0].block) == min(1024, most)
    if most < 1024:  # a block that the caller names is not changed
        with pytest.raises(gpuopt.UnfitError, match=r"threads"):
            gpuopt.transpose(x, variant="2d", block=1024, device=f"sim:{preset}")


@pytest.mark.parametrize("preset", GENERATIONS.values())
@every_family
def test_a_rung_is_traced_and_profiled(preset, family):
    device = f"sim:{preset}"
    for rung in gpuopt.rungs(family):
        if rung.host or rung.listing:  # test_historical.py has the listings
            continue
        try:
            trace = gpuopt.trace(family, rung.variant, device=device)
        except gpuopt.UnfitError as error:
            assert FORBIDDEN.search(str(error)), rung.name
            continue
        except gpuopt.SimError as error:
            assert rung.historical and "race" in error.kind
            continue
        assert trace.events.size and str(trace)
        if trace.accesses("global"):
            assert trace.coalescing().data["transactions"] > 0
        if any(each.addresses for each in trace.accesses("shared")):
            assert trace.banks().data["passes"] > 0


@pytest.mark.parametrize("preset", [*PRESETS[:4], "h200"])
def test_report_names_the_transactions_of_its_gpu(preset):
    page = gpuopt.report(f"sim:{preset}", quick=True, families=["reduce", "transpose"])
    text = page.html()
    unit = "sectors" if models.GPUS[preset].coalescing == "sectors" else "transactions"
    assert f"{unit} per load" in text


OWN = """
__global__ void k(const float *x, float *y) {
    float a[24], sum = 0;
    for (int i = 0; i < 24; i++) a[i] = x[threadIdx.x + 32 * i];
    for (int j = 0; j < 9; j++)
        for (int i = 0; i < 24; i++) sum += a[i] = a[i] * a[(i + 1) % 24] + j;
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("options", ["--maxrregcount=16", ["-maxrregcount", "16"]])
def test_a_cap_of_registers_raises_the_occupancy(options):
    x, y = np.ones(1024, np.float32), np.zeros(64 * 256, np.float32)
    free, capped = (gpuopt.compile(OWN, device="sim:m2090", options=each) for each in ((), options))
    assert free["k"].resources.registers > 24 and capped["k"].resources.registers == 16
    low, high = (gpuopt.profile(each["k"], 64, 256, x, y).launches[0] for each in (free, capped))
    assert low.occupancy < high.occupancy and low.limiter == "registers"
    own = OWN.replace("void k", "void __launch_bounds__(256) k")  # comes first, as in nvcc
    assert b".maxnreg" not in gpuopt.compile(own, device="sim", options=options).ptx


@pytest.mark.parametrize(("preset", "blocks"), [("m2090", (8, 3)), ("k40", (9, 3))])
def test_a_launch_may_prefer_the_first_cache(preset, blocks):
    module = gpuopt.compile("__global__ void k() {}", device=f"sim:{preset}")
    limits = models.GPUS[preset]
    for prefer, want in zip((False, True), blocks, strict=True):
        counted = gpuopt.profile(module["k"], 1, 64, shared=5000, prefer_l1=prefer).launches[0]
        assert counted.occupancy == pytest.approx(2 * want / limits.warps)
        same = models.occupancy(preset, 64, shared=5000, prefer_l1=prefer)
        assert min(same.blocks, same.limits["blocks"]) == want
    with pytest.raises(gpuopt.UnfitError, match=r"more than the 16384"):
        module["k"](1, 64, shared=20000, prefer_l1=True)


@pytest.mark.parametrize("preset", ["g80", "gt200", "v100", "h200"])
def test_other_gpus_have_no_split(preset):
    module = gpuopt.compile("__global__ void k() {}", device=f"sim:{preset}")
    with pytest.raises(gpuopt.UnfitError, match=r"prefer_l1: .* does not split 64 KB"):
        module["k"](1, 64, prefer_l1=True)
