"""Ladders to show, to store and to compare, measured once a module; tests do not change them."""

import pytest

import gpuopt
from gpuopt.measure import ladder


@pytest.fixture(scope="module")
def counted():
    return gpuopt.ladder("reduce", 1 << 14, device="sim")


@pytest.fixture(scope="module")
def timed():
    """Return a ladder as a GPU gives it: a simulated one's counters, and times."""
    found = gpuopt.ladder("reduce", 1 << 14, device="sim")
    found.copy_bandwidth, found.counted_title = 4e12, "sum of 16,384 int32, on a simulated H200"
    for at, row in enumerate(found.rows):
        row.algorithm_bytes = 4 << 14
        row.warm = ladder.Timing([(29 - at) * 1e-6] * 3)
        row.cold = ladder.Timing([(30 - at) * 1e-6] * 3)
    found.peers = [
        ladder.PeerTimes("CuPy", "13", ladder.Timing([4e-6] * 3), ladder.Timing([5e-6] * 3))
    ]
    found.peers_refused = [("JAX", "not installed")]
    return found
