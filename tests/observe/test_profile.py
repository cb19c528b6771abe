"""Profiles and checks count their own launches only, however they overlap."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpuopt
from gpuopt import _core

X = np.arange(4096, dtype=np.int32)
TWO = gpuopt.profile(gpuopt.reduce, X, variant=3, block=128).launches


def names(launches):
    return [launch.kernel for launch in launches]


def test_profiles_nest():
    with gpuopt.profile() as outer:
        gpuopt.reduce(X, variant=1, block=128)
        with gpuopt.profile(device="sim:g80") as inner:
            gpuopt.reduce(X, variant=2, block=128)
            assert gpuopt.empty(1).device == "sim:g80"
        assert gpuopt.empty(1).device == "sim:h200"
        gpuopt.reduce(X, variant=3, block=128)
    kinds = [name.split("_")[1] for name in names(outer.launches)]
    assert kinds == ["1", "1", "2", "2", "3", "3"]
    assert names(inner.launches) == names(outer.launches)[2:4]


def test_a_profile_says_where_launches_ran():
    with gpuopt.profile() as counted:
        gpuopt.reduce(X, variant=3, device="sim:g80")
    assert str(counted).startswith("2 launches on sim:g80\n")
    with counted:
        gpuopt.reduce(X, variant=3)
    assert str(counted).startswith("4 launches on sim:g80, sim:h200\n")
    assert [each["device"] for each in counted.to_dict()["launches"]][1:3] == [
        "sim:g80",
        "sim:h200",
    ]


def test_launches_are_added_up_by_kernel():
    with gpuopt.profile() as counted:
        for variant in (3, 5, 3):
            gpuopt.reduce(X, variant=variant, block=128)
    sums = counted.by_kernel()
    assert list(sums) == sorted({each.kernel for each in counted.launches})
    for kernel, total in sums.items():
        same = [each.counters for each in counted.launches if each.kernel == kernel]
        assert len(same) == (2 if "reduce_3" in kernel else 1)  # elements, then partial sums
        assert total.warp_instructions == sum(each.warp_instructions for each in same) > 0
    assert sum(sums.values(), gpuopt.profile().counters) == counted.counters


def test_profiles_that_end_in_another_order():
    """Each profile ends separately; after the last none is active."""
    first, second = gpuopt.profile(), gpuopt.profile()
    first.__enter__()
    second.__enter__()
    gpuopt.reduce(X, variant=3, block=128)
    first.__exit__(None, None, None)
    gpuopt.reduce(X, variant=3, block=128)
    second.__exit__(None, None, None)
    second.__exit__(None, None, None)  # once more is nothing
    assert _core.recording.get(None) is None
    gpuopt.reduce(X, variant=3, block=128, device="sim")
    assert names(first.launches) == names(TWO) and names(second.launches) == 2 * names(TWO)


def test_ending_an_inactive_profile_is_harmless():
    other = gpuopt.profile()
    with gpuopt.profile() as counted:
        other.__exit__(None, None, None)
        gpuopt.reduce(X, variant=3, block=128)
    assert names(counted.launches) == names(TWO)


def test_active_profile_cannot_start_again():
    counted = gpuopt.profile()
    with counted:
        with pytest.raises(RuntimeError, match="profile: is in force already"), counted:
            pass
        with gpuopt.profile(), pytest.raises(RuntimeError, match="in force"), counted:
            pass
        gpuopt.reduce(X, variant=3, block=128)
    with counted:  # it goes on counting
        gpuopt.reduce(X, variant=3, block=128)
    assert names(counted.launches) == 2 * names(TWO)
    assert _core.recording.get(None) is None


def test_threads_count_their_own_launches():
    meet = threading.Barrier(4)

    def work(at):
        variant = 1 + at % 4
        meet.wait()
        for _ in range(8):
            counted = gpuopt.profile(gpuopt.reduce, X, variant=variant, block=128)
            assert {name.split("_")[1] for name in names(counted.launches)} == {str(variant)}
            assert len(counted.launches) == 2
        return True

    with gpuopt.profile() as outer, ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert not outer.launches
    with ThreadPoolExecutor(1) as threads, gpuopt.profile() as outer:
        context = contextvars.copy_context()  # as asyncio.to_thread does
        threads.submit(context.run, gpuopt.reduce, X, variant=3, block=128).result()
    assert names(outer.launches) == names(TWO)


def test_check_ignores_other_threads_errors():
    """A concurrent launch in another thread raises its own errors."""
    stop, raised, silent = threading.Event(), [], []

    def race():
        while not stop.is_set():
            try:
                gpuopt.reduce(X, variant="5-historical", device="sim", block=128)
            except gpuopt.SimError:
                raised.append(1)
            else:
                silent.append(1)

    beside = threading.Thread(target=race)
    beside.start()
    try:
        for _ in range(20):
            assert gpuopt.check(gpuopt.reduce, X, variant=3, block=128) == []
    finally:
        stop.set()
        beside.join()
    assert raised and not silent


def test_tasks_count_their_own_launches():
    async def work(variant):
        with gpuopt.profile() as counted:
            gpuopt.reduce(X, variant=variant, block=128)
            await asyncio.sleep(0)
            gpuopt.reduce(X, variant=variant, block=128)
        return {name.split("_")[1] for name in names(counted.launches)}, len(counted.launches)

    async def both():
        return await asyncio.gather(work(1), work(3))

    assert asyncio.run(both()) == [({"1"}, 4), ({"3"}, 4)]


def test_an_unknown_device_is_refused_at_once():
    with pytest.raises(ValueError, match="device: 'sim:foo' is not a device"):
        gpuopt.profile(device="sim:foo").__enter__()
    assert _core.recording.get(None) is None


def test_empty_profile_says_so():
    assert "no launches on sim" in str(gpuopt.profile(np.sum, X))
