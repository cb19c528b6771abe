"""Deck D2's pipeline in cycles, bytes in flight, and deck D1's profiler in its own names."""

import numpy as np
import pytest

import gpuopt
from gpuopt import models

FIVE = [(), (0,), (), (2,), (3,)]  # D2's example


def test_decks_five_instructions_take_73_cycles():
    found = models.pipeline(FIVE)
    assert found.starts == ((0, 24, 25, 49, 73),) and found.cycles == 73
    assert found.issued == 5 and found.share == pytest.approx(5 / 74)


def test_warps_fill_the_gaps():
    """Each warp leaves 69 of 74 slots: 15 warps of 5 instructions are about a full pipeline."""
    shares = [models.pipeline(FIVE, warps=warps).share for warps in (1, 4, 12, 24)]
    assert shares == sorted(shares) and shares[-1] > 0.95
    chain = [(), *((i,) for i in range(99))]  # no parallelism inside of a warp
    assert models.pipeline(chain, warps=24).share > 0.98  # deck: 24 cycles, 24 in flight
    assert models.pipeline(chain, warps=12).share == pytest.approx(0.5, abs=0.02)


def test_independent_instructions_replace_warps():
    """ILP against TLP: 2 warps with 3 chains do what 6 warps with one do, on a G80."""
    one = [(), *((i,) for i in range(98))]
    three = [() if i < 3 else (i - 3,) for i in range(99)]
    many = models.pipeline(one, latency=24, warps=6, issue=4)
    few = models.pipeline(three, latency=24, warps=2, issue=4)
    assert many.share == pytest.approx(few.share, abs=0.02) and few.share > 0.97
    assert models.pipeline(one, latency=24, warps=2, issue=4).share < 0.35


def test_dual_schedulers_issue_twice_as_much():
    chain = [(), *((i,) for i in range(49))]
    one = models.pipeline(chain, latency=18, warps=18, issue=2)
    two = models.pipeline(chain, latency=18, warps=18, issue=2, schedulers=2)
    assert one.share > 0.98 and two.share > 0.95
    assert one.cycles == pytest.approx(2 * two.cycles, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([],), "no instruction"),
        (([(0,)],), "instruction 0 reads the result of 0"),
        (([(), (2,)],), "instruction 1 reads the result of 2"),
    ],
)
def test_bad_sequences(arguments, text):
    with pytest.raises(ValueError, match=text):
        models.pipeline(*arguments)


def test_lines_in_flight():
    """Deck D1: about 100 lines on a K40, against 64 with one a warp at full occupancy."""
    found = models.in_flight("k40")
    assert found.lines == pytest.approx(100, rel=0.02) and found.most_warps == 64
    for name in ("g80", "gt200", "m2090", "t4", "a100", "h200"):
        row = models.in_flight(f"sim:{name}")
        assert row.bytes == pytest.approx(128 * row.lines) and 0 < row.share <= 1
    assert models.in_flight("h200").bytes == pytest.approx(4800 / 1.98 / 132 * 689)
    with pytest.raises(ValueError, match="none is published for l4"):
        models.in_flight("l4")
    assert models.in_flight("l4", latency=500).lines > 0
    with pytest.raises(ValueError, match="preset: 'x' is not a preset"):
        models.in_flight("x")
    with pytest.raises(ValueError, match="not a number of cycles"):
        models.in_flight("l4", latency=-1)


def test_profile_of_the_decks_transpose_in_nvprofs_names():
    """D1's numbers on a K40: 12.5% load efficiency for 1d, 32 store or load transactions for 2d."""
    x = np.ones((1024, 1024), np.float32)

    def told(variant):
        return gpuopt.profile(
            gpuopt.transpose, x, variant=variant, block=256, device="sim:k40"
        ).nvprof()

    assert told("1d")["gld_efficiency"] == 0.125
    rows = told("2d")
    assert rows["gld_transactions_per_request"] == 32 and rows["gst_efficiency"] == 1
    assert rows["gld_transactions"] == 1048576
    shared = told("shared")
    conflicts = 524288 - 32768
    assert shared["shared_load_transactions"] + shared["shared_store_transactions"] == 557056
    assert shared["shared_replay_overhead"] == pytest.approx(conflicts / shared["inst_executed"])
    assert told("padded")["shared_replay_overhead"] == 0
