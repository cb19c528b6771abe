"""Large arrays in parts: the same as NumPy's in one, for every layout, and wherever parts meet."""

import threading

import numpy as np
import pytest

from gpuopt.util import parts

SHAPES = ((5000,), (3, 300), (300, 3), (40, 61), (12, 5, 10))
VIEWS = {
    "C": lambda a: a,
    "reversed": lambda a: a[::-1],
    "with gaps": lambda a: a[..., ::2],
    "Fortran": lambda a: a.T,
    "axes moved": lambda a: np.moveaxis(a, 0, -1),
}
DTYPES = ("float32", "float16", "bfloat16", "int8", "bool")


@pytest.fixture(params=[1, 3], ids=["one core", "three cores"], autouse=True)
def small_parts(request, monkeypatch):
    monkeypatch.setattr(parts, "PART", 64)
    monkeypatch.setattr(parts, "SIDE", 8)
    monkeypatch.setattr(parts, "cores", lambda: request.param)
    return request.param


def dtype_of(name):
    if name == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(name)


def few_values(shape, name):
    """Return elements of which many are the same."""
    return np.random.default_rng(3).integers(0, 6, shape).astype(dtype_of(name))


def test_tasks_are_shared_and_their_results_in_order(small_parts):
    names = set()
    barrier = threading.Barrier(small_parts)

    def task(k):
        names.add(threading.current_thread().name)
        if k < small_parts:
            barrier.wait(30)  # exactly `small_parts` threads pass it
        return k * k

    assert parts.each(task, range(50)) == [k * k for k in range(50)]
    assert len(names) == small_parts
    assert parts.each(task, []) == []
    with pytest.raises(ZeroDivisionError):
        parts.each(lambda k: 1 // k, range(9))


def test_scratch_is_a_threads_own(small_parts):
    def owned(k):
        mine = parts.scratch("test", 10 + k)
        mine[:] = k
        barrier.wait(30)
        again = parts.scratch("test", 10)
        return mine.size == 10 + k and np.all(again == k) and np.shares_memory(mine, again)

    barrier = threading.Barrier(small_parts)
    assert all(parts.each(owned, range(small_parts)))
    assert parts.scratch("test", 3, np.bool_).dtype == bool


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 640])
def test_spans_are_everything_once(n):
    covered = np.zeros(n, int)
    for part in parts.spans(n):
        assert part.stop - part.start <= 64
        covered[part] += 1
    assert np.all(covered == 1)


def test_two_bytes_become_four_exactly():
    every = np.arange(1 << 16, dtype=np.uint16)
    for name in ("float16", "bfloat16"):
        items = every.view(dtype_of(name))
        want = items.astype(np.float32)
        got = parts.plain(items)
        assert got.dtype == np.float32
        number = ~np.isnan(want)
        assert np.array_equal(got[number], want[number]) and np.all(np.isnan(got[~number]))


@pytest.mark.parametrize("n", [1, 30, 31, 32, 64, 500])
@pytest.mark.parametrize("name", DTYPES)
def test_a_tile_is_repeated(name, n):
    tile = np.random.default_rng(4).integers(0, 2, 31).astype(dtype_of(name))
    got = parts.repeated(tile, n)
    assert got.dtype == tile.dtype and got.tobytes() == np.resize(tile, n).tobytes()


@pytest.mark.parametrize("shape", [(), (3,), (700, 5)])
def test_every_byte_is_set(shape):
    array = np.zeros(shape, np.float64)
    parts.fill(array, 0xFF)
    assert set(array.tobytes()) == {0xFF}


def test_one_item_that_differs_is_seen():
    array = np.arange(1000)
    assert parts.same(array, array.copy()) and not parts.same(array, array[:-1])
    for at in (0, 63, 64, 65, 500, 999):
        other = array.copy()
        other[at] += 1
        assert not parts.same(array, other)


# --- reductions


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DTYPES)
def test_reductions_are_numpys(name, shape, layout):
    view = VIEWS[layout](few_values(shape, name))
    for axis in range(view.ndim):
        wide = np.float64 if name.startswith(("float", "bfloat")) else np.int64
        want = np.asarray(view.sum(axis, wide))
        got = parts.total(view, axis, wide)
        assert got.dtype == wide and got.shape == want.shape and np.array_equal(got, want)
        most = np.asarray(view.max(axis)).astype(np.float64)
        assert np.array_equal(parts.combined(view, axis, "max").astype(np.float64), most)
        assert np.array_equal(parts.place(view, axis), view.argmax(axis)), "the first of several"


def test_a_reduction_sees_every_item():
    for shape in SHAPES:
        for axis in range(len(shape)):
            for at in {0, 63, 64, int(np.prod(shape)) // 2, int(np.prod(shape)) - 1}:
                array = np.zeros(shape)
                array.flat[at] = 1
                assert parts.total(array, axis, np.float64).sum() == 1
                assert parts.combined(array, axis, "max").sum() == 1
                assert np.array_equal(parts.place(array, axis), array.argmax(axis))


def test_positions_agree_with_numpy():
    array = few_values((7, 300), "int8")
    first = array.argmax(0)
    last = 6 - array[::-1].argmax(0)
    assert np.any(first != last) and parts.same_at(array, 0, first, last)
    for at in (0, 63, 64, 65, 150, 299):
        wrong = last.copy()
        wrong[at] = array[:, at].argmin()
        assert not parts.same_at(array, 0, first, wrong)
    line = array[0]
    assert parts.same_at(line, 0, np.asarray(line.argmax()), np.asarray(line.argmax()))


# --- transposes

AXES = (((40, 61), None), ((5, 70), (1, 0)), ((6, 20, 30), (0, 2, 1)), ((9, 12, 14), (2, 0, 1)),
        ((5, 7, 9, 3), (0, 2, 1, 3)), ((3, 5, 7, 9), (3, 1, 0, 2)), ((50,), (0,)))  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), AXES, ids=str)
@pytest.mark.parametrize("name", ["int8", "float16", "bfloat16", "float32", "int64", "complex128"])
def test_one_wrong_byte_anywhere_in_a_transpose_is_found(name, shape, axes):
    dtype = dtype_of(name)
    size = int(np.prod(shape)) * dtype.itemsize
    array = np.random.default_rng(5).integers(0, 256, size, np.uint8).view(dtype).reshape(shape)
    right = np.ascontiguousarray(array.transpose(axes))  # of random bytes: NaN too
    assert parts.not_transposed(right, array, axes) is None
    assert parts.not_transposed(np.asfortranarray(right), array, axes) is None
    for at in [*range(0, size, size // 7), size - 1]:
        wrong = right.copy()
        wrong.reshape(-1).view(np.uint8)[at] ^= 1
        assert parts.not_transposed(wrong, array, axes) == at // dtype.itemsize
    for at in (size // 3, size - 1):
        wrong.reshape(-1).view(np.uint8)[at] ^= 4
    found = parts.not_transposed(wrong, array, axes)
    assert found == size // 3 // dtype.itemsize, "the first of several"
