"""Warps in step: code without a barrier in a warp is right before Volta, and a race since."""

import re
from pathlib import Path

import numpy as np
import pytest

import gpuopt
from gpuopt import models

PTX = Path(__file__).with_name("in_step.ptx")
PRESETS = list(models.GPUS)
BEFORE = [name for name, gpu in models.GPUS.items() if float(gpu.compute_capability) < 7]
every_preset = pytest.mark.parametrize("preset", PRESETS)


def found(preset, kernel, *launch, **keywords):
    """Return a launch's findings, after checking that a plain call agrees with them."""
    kernel = gpuopt.load_ptx(PTX, device=f"sim:{preset}")[kernel]
    findings = gpuopt.check(kernel, *launch, **keywords)
    if findings:
        with pytest.raises(gpuopt.SimError) as caught:
            kernel(*launch, **keywords)
        # a read that comes before the write that it races with ends the plain call
        assert caught.value.kind in {each.kind for each in findings} | {"uninitialised read"}
    else:
        kernel(*launch, **keywords)
    return findings


def test_presets_before_volta():
    assert BEFORE == ["g80", "gt200", "m2090", "k40", "gtx1080"]


@every_preset
@pytest.mark.parametrize(
    ("rung", "block"),
    [(5, 512), (5, 128), (5, 64)]
    + [(rung, block) for rung in (6, 7) for block in (512, 128, 64, 32, 8, 1)],
)
def test_reductions_without_a_barrier_in_the_last_warp(preset, rung, block, rng):
    x = rng.integers(-(2**20), 2**20, 1 << 15, dtype=np.int32)
    blocks = x.size // (2 * block) // (4 if rung == 7 else 1)
    out = np.zeros(blocks, np.int32)
    name = "reduce5" if rung == 5 else f"reduce{rung}_{block}"
    arguments = (x, out, x.size) if rung == 7 else (x, out)
    # lanes beyond a small block's last read, and change nothing: the decks' tail has no condition
    findings = found(preset, name, blocks, block, *arguments, shared=max(4 * block, 256))
    if preset in BEFORE or block == 1:
        assert not findings
        np.testing.assert_array_equal(out, x.reshape(-1, blocks, 2 * block).sum((0, 2)))
    else:
        assert {each.kind for each in findings} == {"race in shared memory"}
        assert "since Volta (compute capability 7.0)" in findings[0].text


@every_preset
def test_reduction_without_volatile_is_wrong_on_every_gpu(preset):
    x, out = np.arange(1024, dtype=np.int32), np.zeros(4, np.int32)
    (finding,) = found(preset, "reduce5_plain", 4, 128, x, out, shared=512)
    assert finding.kind == "race in shared memory"
    assert ("declare it volatile" in finding.text) == (preset in BEFORE)
    if preset in BEFORE:
        assert "keeps a plain value in a register" in finding.text


@every_preset
@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        ("scan", lambda x: np.cumsum(x)),
        ("halves", lambda x: np.concatenate([x[16:] ** 2, np.zeros(16, int)])),
        ("loop", None),
    ],
)
def test_branches_that_meet_again_keep_the_order(preset, kernel, want):
    x, out = np.arange(32, dtype=np.int32) * 3, np.zeros(32, np.int32)
    findings = found(preset, kernel, 1, 32, x, out)
    assert bool(findings) == (preset not in BEFORE)
    if want and not findings:
        np.testing.assert_array_equal(out, want(x))


@every_preset
def test_condition_in_every_round(preset):
    x, out = np.arange(4096, dtype=np.int32), np.zeros(32, np.int32)
    findings = found(preset, "descend", 32, 128, x, out, shared=512)
    assert bool(findings) == (preset not in BEFORE)
    if not findings:
        np.testing.assert_array_equal(out, x.reshape(32, -1).sum(1))


@every_preset
@pytest.mark.parametrize(
    ("kernel", "block", "remedy"),
    [
        ("sides", 32, "two sides of a branch|since Volta"),
        ("samecell", 32, "let one lane write"),
        ("twowarps", 64, r"put __syncthreads\(\) between"),
    ],
)
def test_races_that_steps_do_not_order(preset, kernel, block, remedy):
    x, out = np.arange(64, dtype=np.int32) + 1, np.zeros(64, np.int32)
    findings = found(preset, kernel, 1, block, x, out)
    assert any(
        each.kind == "race in shared memory" and re.search(remedy, each.text) for each in findings
    )


@every_preset
def test_historical_rung(preset):
    x = np.arange(1 << 12, dtype=np.int32)
    findings = gpuopt.check(
        gpuopt.reduce, x, variant="5-historical", block=128, device=f"sim:{preset}"
    )
    assert bool(findings) == (preset not in BEFORE)
    if not findings:
        total = gpuopt.reduce(x, variant="5-historical", block=128, device=f"sim:{preset}")
        assert total == x.sum()


TILE_OF_A = """
__global__ void product(const float *a, const float *b, float *c, int n, int k, int rounds) {
    __shared__ float tile[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int first = 0; first < 16 * rounds; first += 16) {
        tile[threadIdx.y][threadIdx.x] = a[row * k + first + threadIdx.x];
        for (int i = 0; i < 16; i++)
            sum += tile[threadIdx.y][i] * b[(first + i) * n + column];
    }
    c[row * n + column] = sum;
}
__global__ void halo(const int *in, int *out) {
    __shared__ int tile[16 + 6];
    int i = threadIdx.x, sum = 0;
    tile[i + 3] = in[i + 3];
    if (i < 3) {
        tile[i] = in[i];
        tile[i + 19] = in[i + 19];
    }
    for (int k = 0; k < 7; k++)
        sum += tile[i + k];
    out[i] = sum;
}
"""


@every_preset
def test_reads_follow_a_store_that_all_lanes_executed(preset):
    """Deck D0 has no barrier where a half-warp reads the row of a tile that it stored itself.

    A second round stores while lanes may still read; a halo is stored by a few lanes.
    """
    module = gpuopt.compile(TILE_OF_A, device=f"sim:{preset}")
    a, b = np.ones((32, 32), np.float32), np.ones((32, 16), np.float32)
    c, x, y = np.zeros((32, 16), np.float32), np.arange(22, dtype=np.int32), np.zeros(16, np.int32)
    one, two = (
        gpuopt.check(module["product"], (1, 2), (16, 16), a, b, c, 16, 32, rounds)
        for rounds in (1, 2)
    )
    assert bool(one) == (preset not in BEFORE) and two
    assert {each.kind for each in [*one, *two]} <= {"race in shared memory"}
    if not one:
        module["product"]((1, 2), (16, 16), a, b, c, 16, 32, 1)
        assert (c == 16).all()
    assert gpuopt.check(module["halo"], 1, 16, x, y)
