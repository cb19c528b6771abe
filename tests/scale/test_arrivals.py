"""A time-out names the ranks that did not come: with a store, torch.distributed and mpi4py."""

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from gpuopt import DeviceError
from gpuopt.scale.arrivals import Arrivals


class Store:
    """A store of torch.distributed in one process."""

    def __init__(self):
        self.kept, self.lock = {}, threading.Condition()

    def add(self, key, number):
        with self.lock:
            self.kept[key] = self.kept.get(key, 0) + number
            return self.kept[key]

    def set(self, key, value):
        with self.lock:
            self.kept[key] = value.encode()
            self.lock.notify_all()

    def get(self, key):
        with self.lock:
            assert self.lock.wait_for(lambda: key in self.kept, 10)
            return self.kept[key]

    def delete_key(self, key):
        with self.lock:
            return self.kept.pop(key, None) is not None


def meetings(store, delays, timeout):
    """Let ranks meet after delays in seconds (None: never); return their errors' texts."""
    found = ["never"] * len(delays)

    def meet(rank):
        time.sleep(delays[rank])
        try:
            Arrivals(store, "it", rank, len(delays)).meet(timeout)
            found[rank] = ""
        except DeviceError as error:
            found[rank] = str(error)

    threads = [
        threading.Thread(target=meet, args=(k,))
        for k, each in enumerate(delays)
        if each is not None
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
        assert not each.is_alive(), "hangs"
    return found


def test_ranks_that_come_go_on_and_leave_nothing_behind():
    store = Store()
    for _ in range(5):
        assert meetings(store, [0, 0.02, 0], 10) == ["", "", ""]
    assert len(store.kept) == 3 + 2, store.kept  # a count per rank, and the last call's verdict


@pytest.mark.parametrize("absent", [1, 2])
def test_every_rank_names_those_that_are_absent(absent):
    store, delays = Store(), [0, 0.01, 0.02, 0]
    for rank in range(1, absent + 1):
        delays[rank] = None
    text = "rank 1 did" if absent == 1 else "ranks 1, 2 did"
    came = "ranks 0, 2, 3 did" if absent == 1 else "ranks 0, 3 did"
    for found in meetings(store, delays, 0.2):
        assert found == "never" or f"{text} not answer within 0.2 s; {came}" in found, found
    for rank in range(1, absent + 1):  # the late ones learn it, and all meet again
        assert f"{text} not answer" in late(store, rank, 4)
    assert meetings(store, [0, 0, 0, 0], 10) == [""] * 4


def late(store, rank, size):
    with pytest.raises(DeviceError) as error:
        Arrivals(store, "it", rank, size).meet(5)
    return str(error.value)


def test_an_absent_rank_0_is_named_and_may_come_late():
    store = Store()
    _, *others = meetings(store, [None, 0, 0.01], 0.1)
    assert all("rank 0 did not answer within 0.1 s; ranks 1, 2 did" in each for each in others)
    assert "no longer waited for it" in late(store, 0, 3)
    assert meetings(store, [0, 0, 0], 10) == [""] * 3


# --- real ranks, where they are installed

RANK = """
    import sys, time
    import numpy as np, gpuopt
    x = np.arange(24, dtype=np.float32).reshape(12, 2)[3 * rank : 3 * rank + 3]
    assert gpuopt.reduce(x, group=group) == 276
    np.testing.assert_array_equal(gpuopt.reduce(x, "max", axis=0, group=group), [22, 23])
    if rank == 2:
        time.sleep(2.5)
    try:
        gpuopt.reduce(x, group=group, timeout=0.5)
    except gpuopt.DeviceError as error:
        assert "rank 2 did not answer within 0.5 s" in str(error) or rank == 2, str(error)
        print("named by", rank, flush=True)
"""


def test_torch_distributed_names_a_silent_rank(tmp_path):
    pytest.importorskip("torch.distributed")
    code = """
    import sys
    from datetime import timedelta
    import torch.distributed as dist
    rank = int(sys.argv[1])
    store = dist.FileStore(sys.argv[2], 4)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=4)
    group = dist.group.WORLD
    """
    end = "    assert gpuopt.reduce(x, group=group) == 276\n    dist.destroy_process_group()\n"
    code = textwrap.dedent(code) + textwrap.dedent(RANK) + textwrap.dedent(end)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(4)
    ]  # fmt: skip
    for rank, process in enumerate(ranks):
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0 and out == f"named by {rank}\n", error


OPEN_MPI = {  # as root in a container, on fewer cores than ranks
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def test_mpi_names_a_silent_rank(tmp_path):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec")
    if not mpiexec:
        pytest.skip("there is no mpiexec")
    code = """
    from mpi4py import MPI
    group, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.Get_rank()
    """
    script = tmp_path / "rank.py"
    end = """
    time.sleep(0 if rank == 2 else 3)
    try:
        gpuopt.reduce(x, group=group, timeout=0.5)
    except gpuopt.DeviceError as error:
        assert "pass a new one" in str(error)
    with_all = group.Dup()
    assert gpuopt.reduce(x, group=with_all) == 276
    print("again", rank)
    """
    script.write_text(textwrap.dedent(code) + textwrap.dedent(RANK) + textwrap.dedent(end))
    told = subprocess.run(
        [mpiexec, "-n", "4", sys.executable, script], capture_output=True, text=True, timeout=60,
        env={**os.environ, **OPEN_MPI},
    )  # fmt: skip
    for rank in range(4):
        assert f"named by {rank}\n" in told.stdout, told.stdout + told.stderr
        assert f"again {rank}\n" in told.stdout, told.stdout + told.stderr
