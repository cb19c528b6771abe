"""Memory for arrays within a call: two rooms are apart, large ones are not kept."""

import numpy as np
import pytest

from gpuopt.util import rooms

FLOAT = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def none_kept(monkeypatch):
    monkeypatch.setattr(rooms, "_rooms", [])


def test_rooms_that_are_held_at_once_share_no_memory():
    with rooms.room((3, 5), FLOAT) as one, rooms.room((7,), FLOAT) as other:
        assert (one.shape, other.shape) == ((3, 5), (7,)) and one.dtype == FLOAT
        assert not np.shares_memory(one, other)
        one[:] = 1
        other[:] = 2
        assert (one == 1).all()


def test_a_room_is_used_again_and_grows():
    with rooms.room((10,), FLOAT) as one:
        address = one.ctypes.data
    with rooms.room((4, 2), np.dtype(np.float32)) as other:
        assert other.ctypes.data == address
    with rooms.room((11,), FLOAT) as larger:
        assert larger.size == 11
    assert [each.nbytes for each in rooms._rooms] == [88]


def test_only_two_rooms_and_no_large_ones_are_kept():
    with rooms.room((rooms.BYTES_MOST + 1,), np.dtype(np.uint8)):
        pass
    assert rooms._rooms == []
    with (
        rooms.room((1,), FLOAT),
        rooms.room((2,), FLOAT),
        rooms.room((3,), FLOAT),
    ):
        pass
    assert len(rooms._rooms) == rooms.KEPT
