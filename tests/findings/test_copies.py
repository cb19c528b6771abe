"""Asynchronous copies: bytes that are used before a wait are found at their line, and differ."""

from pathlib import Path

import numpy as np
import pytest
from nvcc import bug_lines, load

import gpuopt

FLIGHT, RACE = "copy in flight", "race in shared memory"
N, TILES = 128, 10
X = np.random.default_rng(5).integers(0, 1000, TILES * N, dtype=np.int32)
LINES = (Path(__file__).parent / "copies.cu").read_text().splitlines()


@pytest.fixture(scope="module")
def module():
    return load("copies")


def marked(text, word):
    """Return the number of the line with this comment."""
    return next(i for i, line in enumerate(text, 1) if f"// {word}" in line)


def reversed_tiles():
    total = np.zeros(N, np.int64)
    for tile in X.reshape(TILES, N):
        total = 3 * total + tile[::-1]
    return total.astype(np.int32)


def reversed_tile():
    return X[:N][::-1]


def found(kernel, grid, block, *arguments):
    return [(each.kind, each.line) for each in gpuopt.check(kernel, grid, block, *arguments)]


BUGS = {
    "no_wait": FLIGHT,
    "no_commit": FLIGHT,
    "no_barrier": RACE,
    "barrier_before_wait": FLIGHT,
    "overwritten": FLIGHT,
    "source_overwritten": FLIGHT,
    "one_thread_waits": FLIGHT,
}


@pytest.mark.parametrize("name", BUGS)
def test_one_mistake_is_one_finding_at_its_line(module, name):
    y = np.zeros(2 * N, np.int32)
    listed = found(module[name], 2, N, y, X[: 2 * N].copy())
    assert listed == [(BUGS[name], bug_lines("copies")[name])]


@pytest.mark.parametrize(("name", "order"), [("own", 1), ("wait_all", -1)])
def test_copies_that_are_waited_for_are_clean(module, name, order):
    y = np.zeros(2 * N, np.int32)
    assert not found(module[name], 2, N, y, X[: 2 * N])
    assert (y.reshape(2, N) == 2 * X[: 2 * N].reshape(2, N)[:, ::order]).all()


def test_bytes_beyond_the_source_size_become_zero(module):
    x, y = np.arange(4 * N, dtype=np.int32), np.full(4 * N, -1, np.int32)
    assert not found(module["zero_filled"], 1, N, y, x, 301)
    assert (y == np.where(x < 301, x, 0)).all()


def test_a_finding_names_the_copy_and_the_wait(module):
    [each] = gpuopt.check(module["ring_weak"], 1, N, np.zeros(N, np.int32), X, TILES)
    assert "at copies.cu:" in each.text and "still writes" in each.text
    assert "cp.async.wait_group 2 (__pipeline_wait_prior(2)" in each.text
    [each] = gpuopt.check(module["no_commit"], 1, N, np.zeros(N, np.int32), X)
    assert "commit the copy" in each.text


RINGS = {
    "ring_right": None,
    "ring_two": None,
    "ring_weak": (FLIGHT, "ring"),
    "ring_far": (FLIGHT, "fetch"),
    "ring_open": (FLIGHT, "ring"),
    "ring_early": (RACE, "refill"),
}


@pytest.mark.parametrize("name", RINGS)
def test_rings_of_stages(module, name):
    y = np.zeros(N, np.int32)
    listed = found(module[name], 1, N, y, X, TILES)
    wanted = RINGS[name]
    assert listed == ([(wanted[0], marked(LINES, wanted[1]))] if wanted else [])
    if not wanted:
        assert (y == reversed_tiles()).all()


@pytest.mark.parametrize(
    ("name", "wrong"), [("no_wait", True), ("ring_weak", True), ("own", False)]
)
def test_a_copy_lands_when_it_is_waited_for(module, name, wrong):
    """Without checks the result shows it."""
    ring = name.startswith("ring")
    y = np.zeros(N, np.int32)
    module[name](1, N, y, X, *([TILES] if ring else []), check=False)
    assert (y != (reversed_tiles() if ring else 2 * X[:N])).any() == wrong


MBARRIERS = {
    "bulk_ring": (N + 32, [TILES], reversed_tiles, None),
    "bulk_no_wait": (N + 32, [TILES], None, "consumes"),
    "bulk_wrong_phase": (N, [], None, "next tile"),
    "tracked_waits": (N, [], reversed_tile, None),
    "tracked_syncs": (N, [], None, "tracked"),
}


@pytest.mark.parametrize("name", MBARRIERS)
def test_copies_that_an_mbarrier_tracks(module, name):
    block, more, wanted, line = MBARRIERS[name]
    y = np.zeros(2 * N, np.int32)
    assert found(module[name], 1, block, y, X, *more) == (
        [(FLIGHT, marked(LINES, line))] if line else []
    )
    if wanted:
        assert (y[:N] == wanted()).all()


ASYNC = {  # st.async and red.async: the result of those that wait, the line of the others
    "store_waits": lambda: X[:N][::-1],
    "store_vectors": lambda: X[:N][::-1],
    "store_no_wait": "stored",
    "add_waits": lambda: X[: 2 * N].reshape(2, N // 2, 2).sum((0, 2)) + 2000,
    "add_waits_once": "added",
}


@pytest.mark.parametrize("name", ASYNC)
def test_asynchronous_stores_land_when_they_are_waited_for(module, name):
    wanted = ASYNC[name]
    y = np.zeros(N, np.int32)
    if isinstance(wanted, str):
        assert found(module[name], 1, N, y, X) == [(FLIGHT, marked(LINES, wanted))]
        return
    assert not found(module[name], 1, N, y, X)
    assert (y[: len(wanted())] == wanted()).all()
    assert gpuopt.profile(module[name], 1, N, y, X).counters.shared_store_requests


@pytest.mark.parametrize("name", ["store_no_wait", "add_waits_once"])
def test_an_asynchronous_store_without_a_wait_never_lands(module, name):
    y = np.full(N, -1, np.int32)
    module[name](1, N, y, X, check=False)
    first = X[:N].reshape(N // 2, 2).sum(1) + 2000
    wanted = np.append(first, np.full(N // 2, -1)) if name == "add_waits_once" else np.zeros(N)
    assert (y == wanted).all()


@pytest.mark.parametrize("name", ["out_no_wait", "out_read", "out_whole"])
def test_the_source_of_a_copy_to_global_memory(module, name):
    y = np.zeros(TILES * N, np.int32)
    listed = found(module[name], 1, N, y, X, TILES)
    right = name != "out_no_wait"
    assert listed == ([] if right else [(FLIGHT, marked(LINES, "refills"))])
    assert (y == 2 * X).all() == right


@pytest.mark.parametrize("name", ["back_whole", "back_read"])
def test_the_target_of_a_copy_to_global_memory(module, name):
    y, z = np.zeros(N, np.int32), np.zeros(1, np.int32)
    listed = found(module[name], 1, N, y, X, z)
    assert listed == ([] if name == "back_whole" else [(FLIGHT, marked(LINES, "back"))])
    assert (y == X[:N]).all()


# --- the library's pipelines and barriers

LIBRARY = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/utility>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__
constexpr int N = 128;
KERNEL void library_pipeline(int *y, const int *x, int tiles) {
    __shared__ int s[2][N];
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline();
    int t = threadIdx.x, sum = 0;
    pipe.producer_acquire();
    cuda::memcpy_async(block, s[0], x, sizeof s[0], pipe);
    pipe.producer_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[(k + 1) & 1], x + (k + 1) * N, sizeof s[0], pipe);
            pipe.producer_commit();
            cuda::pipeline_consumer_wait_prior<1>(pipe);
        } else {
            cuda::pipeline_consumer_wait_prior<0>(pipe);
        }
        block.sync();
        sum = 3 * sum + s[k & 1][N - 1 - t];
        block.sync();
        pipe.consumer_release();
    }
    y[t] = sum;
}
template <bool Waits> __device__ void shared_pipeline(int *y, const int *x, int tiles) {
    __shared__ int s[2][N];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int t = threadIdx.x, sum = 0, fetched = 0;
    for (int k = 0; k < tiles; k++) {
        for (; fetched < tiles && fetched < k + 2; fetched++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[fetched & 1], x + fetched * N, sizeof s[0], pipe);
            pipe.producer_commit();
        }
        if (Waits)
            pipe.consumer_wait();
        sum = 3 * sum + s[k & 1][N - 1 - t]; // pipeline
        pipe.consumer_release();
    }
    y[t] = sum;
}
KERNEL void library_stages(int *y, const int *x, int n) { shared_pipeline<true>(y, x, n); }
KERNEL void library_no_wait(int *y, const int *x, int n) { shared_pipeline<false>(y, x, n); }
template <bool Waits> __device__ void group_copy(int *y, const int *x) {
    __shared__ int s[N];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof s);
    if (Waits)
        cg::wait(block);
    else
        block.sync();
    y[threadIdx.x] = s[N - 1 - threadIdx.x]; // group
}
KERNEL void group_waits(int *y, const int *x) { group_copy<true>(y, x); }
KERNEL void group_syncs(int *y, const int *x) { group_copy<false>(y, x); }
template <bool Waits> __device__ void barrier_copy(int *y, const int *x) {
    __shared__ alignas(16) int s[N];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0)
        init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, s, x, cuda::aligned_size_t<16>(sizeof s), bar);
    auto token = bar.arrive();
    if (Waits)
        bar.wait(cuda::std::move(token));
    y[threadIdx.x] = s[N - 1 - threadIdx.x]; // barrier
}
KERNEL void barrier_waits(int *y, const int *x) { barrier_copy<true>(y, x); }
KERNEL void barrier_ignored(int *y, const int *x) { barrier_copy<false>(y, x); }
"""

LIBRARY_CASES = {
    "library_pipeline": (True, None),
    "library_stages": (True, None),
    "library_no_wait": (True, "pipeline"),
    "group_waits": (False, None),
    "group_syncs": (False, "group"),
    "barrier_waits": (False, None),
    "barrier_ignored": (False, "barrier"),
}


@pytest.fixture(scope="module")
def library():
    from gpuopt.jit import find

    try:
        found = find.find()
    except ImportError as error:
        pytest.skip(str(error))
    if found.kind != "nvrtc" or not found.bundles:
        pytest.skip("there is no NVRTC with headers; pip install 'gpuopt[jit]'")
    return gpuopt.compile(LIBRARY, device="sim")


@pytest.mark.parametrize("name", LIBRARY_CASES)
def test_pipelines_and_barriers_of_the_library(library, name):
    ring, line = LIBRARY_CASES[name]
    y = np.zeros(N, np.int32)
    listed = found(library[name], 1, N, y, X, *([TILES] if ring else []))
    number = marked(LIBRARY.splitlines(), line) if line else 0
    assert listed == ([(FLIGHT, number)] if line else [])
    if not line:
        assert (y == (reversed_tiles() if ring else reversed_tile())).all()
