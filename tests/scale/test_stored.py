"""Arrays in files: NumPy's results in bounded memory."""

import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gpuopt

LIMIT = 1 << 20  # the least: many blocks even for small files


class Slices:
    """Nothing but shape, dtype and slicing; fails if more than `most` elements are read at once."""

    def __init__(self, array, most=1 << 62):
        self.array, self.most, self.reads = array, most, 0
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, box):
        found = self.array[box]
        assert found.size <= self.most
        self.reads += 1
        return found.copy()


def stored(kind, x, folder):
    if kind == "slices":
        return Slices(x)
    if kind == "memmap":
        made = np.memmap(folder / "x", x.dtype, "w+", shape=x.shape)
        made[...] = x
        return made
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        return h5py.File(folder / "x.h5", "w").create_dataset("x", data=x, chunks=True)
    zarr = pytest.importorskip("zarr")
    chunks = tuple(max(1, n // 3) for n in x.shape)
    made = zarr.create_array(str(folder / "x.zarr"), shape=x.shape, dtype=x.dtype, chunks=chunks)
    made[...] = x
    return made


KINDS = ["slices", "memmap", "hdf5", "zarr"]


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_equal_those_in_memory(kind, tmp_path, rng):
    x = np.round(rng.standard_normal((300, 40, 50)), 1).astype(np.float32)
    x[7, 3, 2] = np.nan
    source = stored(kind, x, tmp_path)
    for op in ("sum", "mean", "min", "any", "count", "argmax"):
        for axis in (None, 0, 1, -1, (0, 2)):
            if op == "argmax" and axis == (0, 2):
                continue
            for keepdims in (False, True):
                got = gpuopt.reduce(source, op, axis=axis, keepdims=keepdims, memory_limit=LIMIT)
                wanted = gpuopt.reduce(x, op, axis=axis, keepdims=keepdims, device="cpu")
                assert type(got) is type(wanted) and got.dtype == wanted.dtype
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_transposes_from_file_to_file(kind, tmp_path, rng):
    x = rng.integers(0, 99, (130, 70, 90)).astype(np.int16)
    source = stored(kind, x, tmp_path)
    for axes in (None, (0, 2, 1), (1, 0, 2), (2, 0, 1), (0, 1, 2)):
        wanted = x.transpose(axes)
        os.makedirs(tmp_path / "to", exist_ok=True)
        out = stored(kind if kind != "slices" else "memmap", np.zeros_like(wanted), tmp_path / "to")
        assert gpuopt.transpose(source, axes, out=out, memory_limit=LIMIT) is out
        np.testing.assert_array_equal(out[...], wanted)
        if hasattr(out, "file"):
            out.file.close()
        shutil.rmtree(tmp_path / "to")
    np.testing.assert_array_equal(gpuopt.transpose(source, memory_limit="1MiB"), x.T)


@pytest.mark.parametrize("mode", ["constant", "nearest", "reflect", "mirror", "wrap", "valid"])
def test_stencils_at_the_ends_and_between_blocks(mode, tmp_path, rng):
    for dtype in (np.float32, np.int32):
        x = rng.integers(-99, 99, (700, 210)).astype(dtype)
        source = stored("memmap", x, tmp_path)
        for radius in (0, 1, 5, 250, 900):
            for axis in (0, 1):
                how = {"mode": mode, "axis": axis, "cval": 1.5}
                wanted = gpuopt.stencil1d(x, radius, device="cpu", **how)
                got = gpuopt.stencil1d(source, radius, memory_limit=LIMIT, **how)
                assert got.dtype == wanted.dtype and got.shape == wanted.shape
                np.testing.assert_array_equal(got, wanted)
        for radius, origin in (((6, 2), -1), ((0, 300), 200), ((3, 2), 0)):
            how = {"mode": mode, "axis": 0, "cval": 1.5, "origin": 0 if mode == "valid" else origin}
            wanted = gpuopt.stencil1d(x, radius, device="cpu", **how)
            got = gpuopt.stencil1d(source, radius, memory_limit=LIMIT, **how)
            np.testing.assert_array_equal(got, wanted)


def test_one_dimension_in_many_blocks(rng):
    x = rng.standard_normal(1_000_003)
    source = Slices(x, LIMIT // 8)
    assert gpuopt.reduce(source, memory_limit=LIMIT) == pytest.approx(x.sum(), rel=1e-12)
    weights = rng.standard_normal(15)
    got = gpuopt.stencil1d(source, weights=weights, mode="wrap", memory_limit=LIMIT)
    np.testing.assert_array_equal(got, gpuopt.stencil1d(x, weights=weights, mode="wrap"))
    assert source.reads > 20


def test_hdf5_and_zarr_are_read_in_blocks_without_being_asked(tmp_path, rng):
    x = rng.random((64, 64), np.float32)
    for kind in ("hdf5", "zarr"):
        (tmp_path / kind).mkdir()
        source = stored(kind, x, tmp_path / kind)
        assert gpuopt.reduce(source) == gpuopt.reduce(x, device="cpu")
        assert gpuopt.reduce(source, device="sim:h200") == gpuopt.reduce(x, device="cpu")


def test_empty_and_0d_arrays(tmp_path):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(tmp_path / "x.h5", "w")
    empty = file.create_dataset("empty", (0, 3), "f4", maxshape=(None, 3))
    assert gpuopt.reduce(empty) == 0 and gpuopt.reduce(empty, initial=4) == 4
    np.testing.assert_array_equal(gpuopt.reduce(empty, axis=0), np.zeros(3))
    with pytest.raises(ValueError, match="no identity"):
        gpuopt.reduce(empty, "max")
    one = file.create_dataset("one", (), "f4")
    assert gpuopt.reduce(one, memory_limit=LIMIT) == 0


def test_reduction_writes_to_out(tmp_path, rng):
    x = rng.random((500, 300))
    out = np.zeros(300)
    assert gpuopt.reduce(Slices(x), axis=0, out=out, memory_limit=LIMIT) is out
    np.testing.assert_allclose(out, x.sum(0), rtol=1e-14)


def test_progress_reaches_1_and_never_goes_back():
    shares = []
    x = Slices(np.ones(1 << 20))
    gpuopt.reduce(x, memory_limit=LIMIT, progress=lambda text, share: shares.append(share))
    assert shares == sorted(shares) and len(shares) > 10
    assert shares[0] == 0 and shares[-1] == 1


def test_reading_goes_on_while_a_block_is_computed():
    class Slow(Slices):
        def __getitem__(self, box):
            time.sleep(0.02)
            return super().__getitem__(box)

    x = Slow(np.ones(1 << 20))
    inside = []
    gpuopt.reduce(x, memory_limit=LIMIT, progress=lambda text, share: inside.append(x.reads))
    assert threading.active_count() < 50
    # When the first block arrives, the second is being read.
    assert inside[1] >= 2


def test_an_error_while_reading_reaches_the_caller_and_leaves_no_thread():
    class Broken(Slices):
        def __getitem__(self, box):
            if self.reads == 5:
                raise OSError("the disk is gone")
            return super().__getitem__(box)

    before = threading.active_count()
    with pytest.raises(OSError, match="the disk is gone"):
        gpuopt.reduce(Broken(np.ones(1 << 20)), memory_limit=LIMIT)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: gpuopt.reduce(x, memory_limit="a lot"), ValueError, "as '512MiB'"),
        (lambda x: gpuopt.reduce(x, memory_limit=1000), ValueError, "1 MiB"),
        (lambda x: gpuopt.reduce(x, memory_limit=True), ValueError, "memory_limit"),
        (lambda x: gpuopt.reduce(x, memory_limit=LIMIT, split_every=3), ValueError, "split_every"),
        (lambda x: gpuopt.reduce(x, memory_limit=LIMIT, device=["cpu"]), ValueError, "several"),
        (lambda x: gpuopt.reduce([1.0], memory_limit=LIMIT), ValueError, "arrays in files"),
        (
            lambda x: gpuopt.transpose(x.array, out=x.array, memory_limit=LIMIT),
            ValueError,
            "shares memory",
        ),
        (lambda x: gpuopt.transpose(x, out=[1], memory_limit=LIMIT), TypeError, "out: must have"),
        (
            lambda x: gpuopt.transpose(x, out=np.zeros((2, 2)), memory_limit=LIMIT),
            ValueError,
            "has shape",
        ),
        (lambda x: gpuopt.reduce(x, axis=2, memory_limit=LIMIT), IndexError, "axis 2"),
        (lambda x: gpuopt.reduce(x, progress=3), TypeError, "progress: must be a function"),
    ],
)
def test_wrong_use_names_the_argument(call, kind, text):
    with pytest.raises(kind, match=text):
        call(Slices(np.ones((3, 3))))


SPARSE = """
import numpy as np, gpuopt, threading, sys

def anonymous():
    line = next(x for x in open("/proc/self/status") if x.startswith("RssAnon"))
    return int(line.split()[1]) << 10

path, size = sys.argv[1], int(sys.argv[2])
x = np.memmap(path, np.float32, "r", shape=(size // 4096, 1024))
most, ended = [anonymous()], threading.Event()

def watch():
    while not ended.wait(0.005):
        most.append(anonymous())

thread = threading.Thread(target=watch)
thread.start()
found = gpuopt.reduce(x, device="cpu"), gpuopt.reduce(x, axis=0, device="cpu").sum()
ended.set()
thread.join()
print(found[0], found[1], max(most) - most[0])
"""


def test_sparse_file_of_4_gib_needs_little_memory(tmp_path):
    psutil = pytest.importorskip("psutil")
    size = 4 << 30
    if shutil.disk_usage(tmp_path).free < 1 << 30 or psutil.virtual_memory().available < 2 << 30:
        pytest.skip("too little disk or memory")
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(size)
        for place in (0, size // 2, size - 4096):
            file.seek(place)
            file.write(np.ones(1024, np.float32).tobytes())
    told = subprocess.run(
        [sys.executable, "-c", SPARSE, path, str(size)],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    whole, along, anonymous = told.stdout.split()
    assert float(whole) == float(along) == 3072
    assert int(anonymous) < 256 << 20
