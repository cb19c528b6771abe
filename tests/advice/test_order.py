"""Orders of warps: a seed gives one order, delays replay it, and the shortest one is found."""

import numpy as np
import pytest

import gpuopt

SOURCE = r"""
#define KERNEL extern "C" __global__
KERNEL void last_wins(int *out) { out[0] = blockIdx.x; }
KERNEL void lost(int *count) {
    count[0] = count[0] + 1; // update
}
KERNEL void sum(float *out, const float *x) {
    atomicAdd(out, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
KERNEL void reversed(int *y, const int *x) {
    __shared__ int s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = x[i];
    __syncthreads();
    y[i] = s[127 - t];
}
KERNEL void no_barrier(int *y, const int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t < 32)
        s[t] = x[t];
    else
        y[t - 32] = s[t - 32];
}
KERNEL void withdraw(int *account, int *overdrawn) {
    if (threadIdx.x)
        return;
    if (atomicAdd(account, 0) >= 10 && atomicSub(account, 10) < 10) // withdraw
        atomicAdd(overdrawn, 1);
}
KERNEL void chain(int *y, volatile int *done) { // from the last block to the first
    int b = gridDim.x - 1 - blockIdx.x, v = b + 1;
    if (threadIdx.x)
        return;
    if (b) {
        while (!done[b - 1])
            ;
        __threadfence();
        v += y[b - 1];
    }
    y[b] = v;
    __threadfence();
    done[b] = 1;
}
KERNEL void endless(volatile int *flag) {
    while (!*flag)
        ;
}
"""


def line_of(comment):
    return next(i for i, text in enumerate(SOURCE.split("\n"), 1) if f"// {comment}" in text)


@pytest.fixture(scope="module")
def module(request):
    from gpuopt.jit import find

    try:
        if find.find().kind != "nvrtc":
            pytest.skip("there is no NVRTC; pip install 'gpuopt[jit]'")
    except ImportError as error:
        pytest.skip(str(error))
    return gpuopt.compile(SOURCE, device="sim")


def ints(n):
    return np.zeros(n, np.int32)


def run(module, name, grid, block, *args, **keywords):
    module[name](grid, block, *args, check=False, **keywords)
    return args[0].copy()


def test_a_seed_is_one_order(module):
    found = [[int(run(module, "lost", 8, 32, ints(1), schedule=s)[0]) for s in range(1, 17)]] * 2
    assert found[0] == found[1]
    assert len(set(found[0])) > 1
    assert run(module, "lost", 8, 32, ints(1), schedule=[])[0] == 8


def test_delays_run_an_order_again(module):
    with gpuopt.profile() as profiled:
        first = run(module, "lost", 8, 32, ints(1), schedule=5)
    [launch] = profiled.launches
    assert launch.delays and all(each.line == line_of("update") for each in launch.delays)
    assert run(module, "lost", 8, 32, ints(1), schedule=list(launch.delays)) == first
    order = gpuopt.Order(launch.delays, 5, "", 1)
    assert run(module, "lost", 8, 32, ints(1), schedule=order) == first


X = np.random.default_rng(4).random(1024, np.float32)
ARGUMENTS = {
    "last_wins": (8, 32, lambda: [ints(1)]),
    "lost": (8, 32, lambda: [ints(1)]),
    "sum": (8, 128, lambda: [np.zeros(1, np.float32), X]),
    "no_barrier": (1, 64, lambda: [ints(32), np.arange(1, 65, dtype=np.int32)]),
    "withdraw": (4, 32, lambda: [np.array([25], np.int32), ints(1)]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_shortest_order_has_one_delay_and_changes_the_result(module, name):
    grid, block, made = ARGUMENTS[name]
    given = made()
    order = gpuopt.shortest_order(module[name], grid, block, *given, check=False)
    assert order and len(order.delays) == 1, order
    assert all((one == two).all() for one, two in zip(given, made(), strict=True))
    usual = run(module, name, grid, block, *made(), schedule=[])
    assert run(module, name, grid, block, *made(), schedule=order) != pytest.approx(usual, rel=0)
    assert "argument 1" in str(order) and "waits before access" in str(order)


def test_the_delay_stands_between_the_test_and_the_act(module):
    order = gpuopt.shortest_order(
        module["withdraw"], 4, 32, *ARGUMENTS["withdraw"][2](), check=False
    )
    [delay] = order.delays
    assert delay.line == line_of("withdraw") and delay.access == 1


def test_kernels_of_any_order_keep_their_result(module):
    x = np.arange(1024, dtype=np.int32)
    order = gpuopt.shortest_order(module["reversed"], 8, 128, ints(1024), x)
    assert not order and order.runs == 33 and "no order of 33" in str(order)
    assert not gpuopt.shortest_order(module["chain"], 100, 32, ints(100), ints(100), seeds=8)
    sums = gpuopt.shortest_order(
        module["sum"], 8, 128, np.zeros(1, np.float32), X, rtol=1e-5, check=False
    )
    assert not sums


def test_counters_do_not_depend_on_the_order(module):
    x = np.arange(1024, dtype=np.int32)
    told = []
    for schedule in (None, [], 2, 4):
        with gpuopt.profile() as profiled:
            module["reversed"](8, 128, ints(1024), x, schedule=schedule)
        told.append(dict(profiled.counters))
    assert told[0] == told[1] == told[2] == told[3]


def test_waiting_for_nobody_is_found_in_an_order(module):
    with pytest.raises(gpuopt.SimError, match="nobody changes any more"):
        module["endless"](2, 32, ints(1), schedule=3)


@pytest.mark.parametrize(
    ("schedule", "error", "text"),
    [
        (0, ValueError, "0 is no seed"),
        (-1, ValueError, "-1 is no seed"),
        ("7", TypeError, "must be an int, an Order"),
        (1.5, TypeError, "must be an int, an Order"),
        ([3], TypeError, "delays are"),
        ([(0, 0, -1)], TypeError, "delays are"),
    ],
)
def test_malformed_schedule_is_refused(module, schedule, error, text):
    with pytest.raises(error, match=f"schedule: .*{text}"):
        module["lost"](1, 32, ints(1), schedule=schedule)


def test_arguments_of_the_search_are_checked(module):
    with pytest.raises(TypeError, match="kernel: must be a Kernel"):
        gpuopt.shortest_order(len, 1, 32)
    with pytest.raises(TypeError, match="schedule"):
        gpuopt.shortest_order(module["lost"], 1, 32, ints(1), schedule=3)
