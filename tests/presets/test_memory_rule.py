"""Every report of memory accesses follows the rule of the simulated GPU's architecture."""

from pathlib import Path

import numpy as np
import pytest

import gpuopt
from gpuopt import models
from gpuopt.observe.counters import Counters

COPY = Path(__file__).parent.parent / "ptx" / "coalescing_g80.ptx"
PRESETS = list(models.GPUS)
every_preset = pytest.mark.parametrize("preset", PRESETS)


def copied(preset, offset, permute):
    module = gpuopt.load_ptx(COPY, device=f"sim:{preset}")
    x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    return module["copy"], (1, 256, x, y, offset, permute)


@every_preset
@pytest.mark.parametrize(("offset", "permute"), [(0, 0), (0, 1), (1, 0), (8, 0), (0, 17)])
def test_counters_picture_and_model_agree(preset, offset, permute):
    kernel, arguments = copied(preset, offset, permute)
    counted = gpuopt.profile(kernel, *arguments)
    words = np.arange(256) ^ permute
    loads = [
        models.transactions(preset, [4 * int(word + offset) for word in words[first : first + 32]])
        for first in range(0, 256, 32)
    ]
    total = counted.counters
    assert total.global_load_transactions == sum(each.count for each in loads)
    assert total.global_load_bytes_moved == sum(each.moved for each in loads)
    assert total.load_efficiency == 1024 / total.global_load_bytes_moved
    assert total.store_efficiency == 1024 / total.global_store_bytes_moved
    for kind in ("load", "store"):
        trace = gpuopt.trace(kernel, *arguments)
        drawn = [
            trace.coalescing(number).data
            for number, each in enumerate(trace.accesses("global"))
            if each.kind == kind
        ]
        assert sum(each["transactions"] for each in drawn) == total[f"global_{kind}_transactions"]
        assert sum(each["bytes_moved"] for each in drawn) == total[f"global_{kind}_bytes_moved"]


def test_permuted_half_warp_on_a_g80_is_reported_as_uncoalesced():
    kernel, arguments = copied("g80", 0, 1)
    counted = gpuopt.profile(kernel, *arguments)
    assert counted.counters.global_load_transactions == 256
    assert "32.0 transactions per request, 12% of bytes used" in str(counted)
    assert "32 transactions" in str(gpuopt.trace(kernel, *arguments))
    newer, arguments = copied("h200", 0, 1)
    assert "4.0 sectors per request, 100% of bytes used" in str(gpuopt.profile(newer, *arguments))


def test_ladder_names_the_transactions_of_its_gpu():
    for preset, per_load, unit in (("g80", 2.0, "transaction"), ("h200", 4.0, "sector")):
        told = str(gpuopt.ladder("reduce", 4096, device=f"sim:{preset}"))
        assert f"{unit}s" in told and f"{per_load:.1f} {unit}s per load" in told


def test_older_files_have_transactions_of_sectors():
    old = {"global_load_requests": 2, "global_load_sectors": 8, "global_load_bytes": 256}
    counted = Counters.from_plain(old)
    assert counted.transactions_per_load == 4 and counted.load_efficiency == 1


def test_banks_of_eight_bytes_on_kepler():
    """Deck D1's profile of a 1,024 x 1,024 transpose through a 32 x 32 tile on a K40."""
    x = np.ones((1024, 1024), np.float32)
    counted = {
        preset: gpuopt.profile(
            gpuopt.transpose, x, variant="shared", block=256, device=f"sim:{preset}"
        ).counters
        for preset in ("k40", "h200")
    }
    wavefronts = {
        preset: each.shared_load_wavefronts + each.shared_store_wavefronts
        for preset, each in counted.items()
    }
    assert wavefronts == {"k40": 524288 + 32768, "h200": 1048576 + 32768}
    shared = {
        preset: gpuopt.roofline(device=f"sim:{preset}").ceilings[1].rate
        for preset in ("k40", "m2090")
    }
    assert shared["k40"] == pytest.approx(8 * 32 * 15 * 0.745e9)
    assert shared["m2090"] == pytest.approx(1.33e12, rel=0.01)  # deck D2


@every_preset
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("stride", [1, 2, 3, 8, 32, 33])
def test_banks_counted_drawn_and_modelled_agree(preset, size, stride):
    kind = {4: "b32 %r1", 8: "v2.b32 {%r1,%r2}", 16: "v4.b32 {%r1,%r2,%r3,%r4}"}[size]
    text = f"""
.version 8.0 .target sm_75 .address_size 64
.visible .entry k() {{
    .reg .b32 %r<8>; .shared .align 16 .b8 s[16384];
    mov.u32 %r5, %tid.x; mul.lo.u32 %r5, %r5, {size * stride};
    rem.u32 %r5, %r5, 16384; mov.u32 %r6, s; add.u32 %r5, %r5, %r6;
    mov.u32 %r1, 1; mov.u32 %r2, 1; mov.u32 %r3, 1; mov.u32 %r4, 1;
    st.shared.{kind.replace(" ", " [%r5], ")}; ret;
}}"""
    if preset in ("g80", "gt200") and size * stride * 32 > 16384:
        text = text.replace("16384", "8192")
    kernel = gpuopt.load_ptx(text, device=f"sim:{preset}")["k"]
    counted = gpuopt.profile(kernel, 1, 32).counters
    trace = gpuopt.trace(kernel, 1, 32)
    (access,) = trace.accesses("shared")
    want = models.bank_conflicts(preset, [access.addresses[lane] for lane in range(32)], size)
    assert counted.shared_store_wavefronts == want.passes
    assert counted.shared_store_conflicts == want.conflicts
    assert trace.banks(0).data["passes"] == want.passes


def test_explain_names_the_violated_coalescing_rule_of_an_old_gpu():
    """A permuted half-warp: 16 transactions on a G80, none too many on a GT200 or an H200."""
    x, y = np.arange(1 << 16, dtype=np.float32), np.zeros(1 << 16, np.float32)
    for preset, rules in (("g80", ["uncoalesced"]), ("gt200", []), ("h200", [])):
        module = gpuopt.load_ptx(COPY, device=f"sim:{preset}")
        # every block copies the same elements
        told = gpuopt.explain(module["copy"], 255, 256, x, y, 0, 1, allow_equal_stores=True)
        assert [each.rule for each in told.advice] == rules
        if rules:
            assert "32.0 transactions per load request; 12%" in told.advice[0].evidence
