"""Reductions over the ranks of a group: threads with the methods of an mpi4py communicator."""

import pickle
import queue
import threading
import time

import numpy as np
import pytest

import gpuopt


class Request:
    def __init__(self, box=None, room=None):
        self.box, self.room = box, room

    def test(self):
        if self.box is None:
            return True, None
        try:
            message = self.box.get_nowait()
        except queue.Empty:
            return False, None
        assert self.room is None or len(message) <= len(self.room), "truncated, as in MPI"
        return True, pickle.loads(message)


class Rank:
    """A communicator in one process; rank `dead` sends nothing."""

    def __init__(self, boxes, rank, dead=None):
        self.boxes, self.rank, self.dead = boxes, rank, dead

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return len(self.boxes)

    def isend(self, value, dest, tag):
        if self.rank != self.dead:
            self.boxes[dest][self.rank].put(pickle.dumps(value))
        return Request()

    def irecv(self, room, source, tag):
        return Request(self.boxes[self.rank][source], room)


def on_ranks(size, call, dead=None):
    """Return what every rank's ``call(rank, group)`` returns or raises."""
    boxes = [[queue.Queue() for _ in range(size)] for _ in range(size)]
    found = [None] * size

    def run(rank):
        try:
            found[rank] = call(rank, Rank(boxes, rank, dead))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
        assert not each.is_alive(), "hangs"
    return found


@pytest.mark.parametrize("device", ["cpu", "sim"])
@pytest.mark.parametrize("op", ["sum", "prod", "max", "mean", "any", "count", "argmin"])
def test_every_rank_has_the_result_of_the_whole(op, device, rng):
    x = np.round(rng.standard_normal((23, 9)), 1).astype(np.float32)
    cuts = [0, 10, 10, 11, 23]  # one rank has nothing
    for axis in (None, 0, 1):
        for keepdims in (False, True):

            def call(rank, group, axis=axis, keepdims=keepdims):
                mine = x[cuts[rank] : cuts[rank + 1]]
                return gpuopt.reduce(
                    mine, op, axis=axis, keepdims=keepdims, group=group, device=device
                )

            wanted = gpuopt.reduce(x, op, axis=axis, keepdims=keepdims, device="cpu")
            found = on_ranks(4, call)
            for each in found:
                assert np.asarray(each).tobytes() == np.asarray(found[0]).tobytes()
                assert each.dtype == wanted.dtype and each.shape == wanted.shape
                np.testing.assert_allclose(each, wanted, rtol=1e-6)


def test_arrays_on_devices_and_long_messages(rng):
    x = rng.standard_normal((6, 20_000))
    found = on_ranks(
        3,
        lambda rank, group: gpuopt.reduce(
            gpuopt.asarray(x[2 * rank : 2 * rank + 2], "sim"), axis=0, group=group, initial=2
        ),
    )
    for each in found:
        np.testing.assert_allclose(each, x.sum(0) + 2, rtol=1e-12, atol=1e-12)


def test_a_group_of_one_rank():
    assert on_ranks(1, lambda rank, group: gpuopt.reduce([1, 2], group=group)) == [3]


def test_a_dead_rank_is_named_after_the_timeout():
    began = time.monotonic()
    found = on_ranks(3, lambda rank, group: gpuopt.reduce([1.0], group=group, timeout=0.5), dead=1)
    for rank in (0, 2):
        assert isinstance(found[rank], gpuopt.DeviceError)
        assert "rank 1 did not answer within 0.5 s" in str(found[rank])
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "arrays, ops, text",
    [
        ([np.ones((2, 3)), np.ones((2, 4))], ["sum", "sum"], r"rank 1 has shape \(2, 4\)"),
        ([np.ones(2), np.ones(2, "f4")], ["sum", "sum"], "rank 1 has dtype float32"),
        ([np.ones(2), np.ones(2)], ["sum", "max"], "rank 1 has op max"),
    ],
)
def test_ranks_that_disagree_are_named(arrays, ops, text):
    found = on_ranks(
        2, lambda rank, group: gpuopt.reduce(arrays[rank], ops[rank], group=group, timeout=20)
    )
    for each in found:
        with pytest.raises(ValueError, match=text):
            raise each


def test_an_error_of_one_rank_reaches_the_others():
    arrays = [np.ones(2), np.array([None, 1])]
    found = on_ranks(2, lambda rank, group: gpuopt.reduce(arrays[rank], group=group, timeout=20))
    assert isinstance(found[1], TypeError)
    assert isinstance(found[0], gpuopt.DeviceError)
    assert "rank 1 failed: TypeError" in str(found[0])


def test_wrong_groups():
    with pytest.raises(TypeError, match="group: must be a group of"):
        gpuopt.reduce([1], group=3)
    with pytest.raises(ValueError, match="timeout: is for a group"):
        gpuopt.reduce([1], timeout=3)
    with pytest.raises(ValueError, match="timeout: must be seconds"):
        on_one = Rank([[queue.Queue()]], 0)
        gpuopt.reduce([1], group=on_one, timeout=-1)
    with pytest.raises(ValueError, match="split_every: does not go with group"):
        gpuopt.reduce([1], group=on_one, split_every=2)
