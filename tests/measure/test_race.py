"""The timing loop and the check that every measurement shares."""

import numpy as np
import pytest

from gpuopt.families import oracle
from gpuopt.measure.race import Contender, Effort, Timing, VerificationError, race


def contender(log, name, seconds=1e-3, **more):
    def time(runs, cold):
        log.append((name, "cold" if cold else "warm", runs))
        return seconds

    return Contender(time, lambda: log.append((name, "verify")), **more)


def test_contenders_alternate_between_two_verifications():
    log = []
    race([contender(log, "a"), contender(log, "b", cold=Timing())], Effort(2, 4e-3))
    steps = [each[:2] for each in log]
    assert steps[:2] == steps[-2:] == [("a", "verify"), ("b", "verify")]
    assert steps[-8:-2] == [("a", "warm"), ("b", "warm"), ("b", "cold")] * 2
    assert {each[2] for each in log[-8:-2]} == {4}, "a sample of 4 ms has four runs of 1 ms"


def test_an_excuse_ends_one_contenders_race_and_no_excuse_ends_all():
    log = []

    def wrong():
        raise VerificationError("wrong")

    left, right = contender(log, "left", excuse=str), contender(log, "right")
    left.verify = wrong
    assert race([left, right], Effort(1, 1e-3)) == [right]
    assert left.failure == "wrong" and "left" not in {each[0] for each in log}
    right.verify = wrong
    with pytest.raises(VerificationError):
        race([left, right], Effort(1, 1e-3))


def test_a_lost_device_names_the_contender_that_ran_last():
    log, lost = [], []

    def check():
        if lost:
            raise RuntimeError("the device is lost")

    def faults():
        lost.append(True)
        raise LookupError("its kernel faulted")

    ours, peer = contender(log, "ours", check=check), contender(log, "peer", check=check)
    ours.name, peer.name, peer.excuse, peer.verify = "ours", "peer", str, faults
    with pytest.raises(RuntimeError) as error:
        race([ours, peer], Effort(1, 1e-3))
    assert error.value.__notes__ == ["after a call of peer: its kernel faulted"]
    assert log == [("ours", "verify")]
    peer.excuse, peer.failure = None, ""
    lost.clear()
    with pytest.raises(LookupError) as error:
        race([peer], Effort(1, 1e-3))
    assert error.value.__notes__ == ["in a call of peer"]


def test_a_hopeless_contender_has_one_sample_of_one_run():
    log = []
    slow, fast = contender(log, "slow", 1.0), contender(log, "fast")
    race([slow, fast], Effort(5, 1e-3, hopeless=20))
    assert len(slow.warm.samples) == slow.runs == 1 and len(fast.warm.samples) == 5


@pytest.mark.parametrize("bound", [0.0, 1e30, np.full(3, 1e30)], ids=["exact", "one", "each"])
def test_nan_never_passes(bound):
    got, want = np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, 3.0])
    assert "number 1: " in oracle.wrong(got, want, bound)
    assert oracle.wrong(got, got, bound), "not even where it is wanted"


def test_a_bound_holds_for_its_own_element():
    want = np.zeros(4)
    assert oracle.wrong(np.full(4, 0.5), want, np.array([1, 1, 0.1, 1])).startswith("1 wrong items")
    assert oracle.wrong(np.full(4, 0.5), want, 0.5) == ""


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("radius", [3, 40], ids=["direct", "running sums"])
def test_a_stencil_is_checked_for_every_dtype(dtype, radius, rng):
    a = oracle.draw(100_000, np.dtype(dtype), rng)
    wide = np.pad(a, radius)
    right = sum(wide[k : k + a.size] for k in range(2 * radius + 1)).astype(dtype)
    check = oracle.stencilled(a, radius)
    assert check(right) == ""
    right[77_777] += 1
    assert "number 77,777: " in check(right)
