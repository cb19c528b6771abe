"""NCCL between GPUs of a process and of a group, on a fake driver and a fake libnccl."""

import textwrap
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from conftest import run_python
from fake_driver import PREAMBLE

import gpuopt

# The fake driver computes no reduction along an axis: the host does.
GROUP = """
import multiprocessing, sys, threading, time
sys.path.insert(0, os.environ["TESTS"])
from test_group import Rank, on_ranks
from gpuopt.scale import nccl, partials
fake.fake_cuda_set(b"devices", 4)
on_host = partials.reduce
def reduce(array, op="sum", **how):
    if not isinstance(array, gpuopt.DeviceArray):
        return on_host(array, op, **how)
    how = {name: value for name, value in how.items() if name not in ("variant", "block", "device")}
    return gpuopt.asarray(np.asarray(on_host(array.get(), op, device="cpu", **how)), array.device)
partials.reduce = reduce
N, SIZE = 200_000, 3
x = np.random.default_rng(0).standard_normal((7, N)).astype("f4")
cuts = [0, 1, 4, 7]
def call(rank, group, op="sum", timeout=1.0, **how):
    mine = gpuopt.asarray(x[cuts[rank] : cuts[rank + 1]], f"cuda:{rank}")
    return gpuopt.reduce(mine, op, axis=0, group=group, timeout=timeout, **how)
def groups():
    path = os.environ["GPUOPT_NCCL"]
    return None if path == "none" else ctypes.CDLL(path).fake_nccl_get(b"groups")
"""


@pytest.fixture
def run(fake_cuda, fake_nccl):
    """Return a function that runs code with a library: the fake one, or another path."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield partial(_run, fake_cuda(), fake_nccl, folder)


def _run(driver, fake_nccl, folder, code, library=None, **environment):
    given = {
        "GPUOPT_CUDA_DRIVER": driver,
        "GPUOPT_NCCL": library or fake_nccl,
        "GPUOPT_DEVICE": None,
        "TESTS": str(Path(__file__).parent),
        "FAKE_NCCL_FOLDER": str(folder),
        **environment,
    }
    return run_python(PREAMBLE + GROUP + textwrap.dedent(code), **given)


@pytest.mark.parametrize("library", [None, "none"])
def test_moves_between_gpus(library, run):
    run(
        """
        from gpuopt.scale.links import Move, exchange, rows
        n, count = 150_001, 4  # more than 1 MiB in all
        sent = [np.random.default_rng(k).integers(0, 99, (count, n), "i4") for k in range(count)]
        there = [gpuopt.asarray(each, f"cuda:{k}") for k, each in enumerate(sent)]
        found = [gpuopt.empty((count, n), "i4", f"cuda:{k}") for k in range(count)]
        for turn in range(2):
            exchange([
                Move(rows(there[i], j, j + 1), rows(found[j], i, i + 1))
                for i in range(count) for j in range(count)
            ])
            for j in range(count):
                assert (found[j].get() == np.stack([each[j] for each in sent])).all()
        assert groups() in (2, None)
        small = [gpuopt.empty(9, "i4", f"cuda:{k}") for k in range(2)]
        exchange([Move(small[0], small[1])])  # repays no communicator
        assert groups() in (2, None)
        """,
        library,
    )


@pytest.mark.parametrize("library", [None, "none"])
def test_results_of_a_group_are_joined_on_the_gpus(library, run):
    run(
        """
        for turn, op in enumerate(("sum", "max", "mean", "count", "any", "argmax")):
            for keepdims in (False, True):
                found = on_ranks(SIZE, lambda *it: call(*it, op, 20, keepdims=keepdims))
                want = gpuopt.reduce(x, op, axis=0, keepdims=keepdims, device="cpu")
                for each in found:
                    assert isinstance(each, np.ndarray), each
                    assert each.dtype == want.dtype and each.shape == want.shape
                    assert each.tobytes() == found[0].tobytes()
                    np.testing.assert_allclose(each, want, rtol=1e-6, atol=1e-6)
        found = on_ranks(SIZE, lambda *it: call(*it, timeout=20, initial=2.5))
        np.testing.assert_allclose(found[1], x.sum(0) + 2.5, rtol=1e-4, atol=1e-5)
        assert groups() in (None, 2 * SIZE * 11), groups()  # argmax is joined on the host
        """,
        library,
    )


@pytest.mark.parametrize(
    "fault, text",
    [
        ("mute 1", "did not end within 1 s; nothing came from rank 1"),
        ("short 1", "invalid usage"),
        ("fault 1", "remote process exited"),
        ("refuse 1", "ncclCommInitRankConfig failed: invalid usage"),
        ("absent 1", "is not ready in 1 s"),
    ],
)
def test_faults_of_a_rank_end_in_errors(fault, text, run):
    run(
        f"""
        begin = time.monotonic()
        for each in on_ranks(SIZE, call):
            assert isinstance(each, gpuopt.DeviceError) and {text!r} in str(each), each
        assert time.monotonic() - begin < 20
        del os.environ["FAKE_NCCL"]  # libc's environment, too
        for each in on_ranks(SIZE, lambda *it: call(*it, timeout=20)):  # by new communicators
            np.testing.assert_allclose(each, x.sum(0), rtol=1e-4, atol=1e-5)
        """,
        FAKE_NCCL=fault,
    )


def test_a_rank_that_dies_is_named(run):
    run(
        """
        fork = multiprocessing.get_context("fork")
        boxes = [[fork.Queue() for _ in range(SIZE)] for _ in range(SIZE)]
        told = fork.Queue()
        def process(rank):
            try:
                told.put((rank, str(call(rank, Rank(boxes, rank)))))
            except gpuopt.DeviceError as error:
                told.put((rank, str(error)))
        processes = [fork.Process(target=process, args=(rank,)) for rank in range(SIZE)]
        for each in processes:
            each.start()
        for _ in range(SIZE - 1):
            rank, text = told.get(timeout=40)
            assert rank != 1 and "rank 1 did not answer" in text, (rank, text)
        for each in processes:
            each.join(20)
        assert [each.exitcode for each in processes] == [0, 3, 0]
        """,
        FAKE_NCCL="die 1",
    )


def test_ranks_on_one_gpu_join_on_the_host(run):
    run(
        """
        def on_first(rank, group):
            mine = gpuopt.asarray(x[cuts[rank] : cuts[rank + 1]], "cuda:0")
            return gpuopt.reduce(mine, axis=0, group=group, timeout=20)
        for each in on_ranks(SIZE, on_first):
            np.testing.assert_allclose(each, x.sum(0), rtol=1e-4, atol=1e-5)
        assert groups() == 0
        """,
    )


@pytest.mark.parametrize("library", ["/nowhere/libnccl.so", None])
def test_a_named_library_that_is_unusable_is_an_error(library, run):
    text = "No such file" if library else "is NCCL 2.10, too old"
    run(
        f"""
        caught(gpuopt.DeviceError, nccl.library, "GPUOPT_NCCL: ", "or 'none'", {text!r})
        for each in on_ranks(SIZE, call):
            assert "GPUOPT_NCCL: " in str(each), each
        """,
        library,
        FAKE_NCCL="old",
    )


def test_both_gpus_wait_for_a_copy_between_them(run):
    run(
        """
        from gpuopt.scale.links import Move, exchange
        fake.fake_cuda_story.restype = ctypes.c_char_p
        one, other = (gpuopt.empty(9, "i4", f"cuda:{k}") for k in range(2))
        fake.fake_cuda_forget()
        exchange([Move(one, other)])
        assert fake.fake_cuda_story() == b"wait 1;copy 1;wait 1;", fake.fake_cuda_story()
        """,
    )


def test_no_library_is_loaded_for_host_arrays():
    run_python(
        """
        import numpy as np, gpuopt
        gpuopt.reduce(np.ones((9, 9)), axis=0, device=["cpu", "cpu"])
        assert "nccl" not in open("/proc/self/maps").read()
        """
    )


def test_moves_on_simulated_gpus_need_no_library(monkeypatch):
    monkeypatch.setenv("GPUOPT_NCCL", "/nowhere/libnccl.so")
    x = np.arange(1 << 19, dtype=np.float32).reshape(1024, 512)
    halves = [gpuopt.asarray(x[:500], "sim"), gpuopt.asarray(x[500:], "sim:t4")]
    turned = gpuopt.transpose(halves)
    np.testing.assert_array_equal(np.concatenate([each.get() for each in turned]), x.T)
