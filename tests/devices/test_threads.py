"""How many threads of the host a call uses: what the environment, the mask and the cgroup allow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_python

CSRC = Path(__file__).parents[2] / "csrc"
PROCESSORS = len(os.sched_getaffinity(0))

# The most threads of this process at a time while a function runs.
WATCH = """
import os, threading, time, numpy as np, gpuopt
from gpuopt import _core

def most_threads(function):
    most, done = 0, threading.Event()
    def watch():
        nonlocal most
        while not done.is_set():
            most = max(most, len(os.listdir("/proc/self/task")))
    before = len(os.listdir("/proc/self/task"))
    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.monotonic()
    while time.monotonic() - begin < 0.3:  # the watcher wants its turns
        function()
    done.set()
    watcher.join()
    return most - before  # the watcher stands for the calling thread

x = np.arange(300_000, dtype=np.float32)
simulated = most_threads(lambda: gpuopt.reduce(x, variant=3, device="sim"))
y = np.arange(20_000_000, dtype=np.float32)
on_cpu = [most_threads(lambda: gpuopt.add(y, y, variant=rung, device="cpu"))
          for rung in ("openmp", "simd")]
print(_core.host_threads(), simulated, *on_cpu)
"""


def counted(prefix=(), **environment):
    if not prefix:
        done = run_python(WATCH, **environment)
    else:
        done = subprocess.run(
            [*prefix, sys.executable, "-c", WATCH],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    assert done.returncode == 0, done.stderr
    return [int(each) for each in done.stdout.split()]


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"GPUOPT_NUM_THREADS": "1"}, 1),
        ({"GPUOPT_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "3,1"}, 3),
        ({"GPUOPT_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}, 2),
    ],
)
def test_the_environment_says_how_many(environment, threads):
    told, *seen = counted(**environment)
    assert told == threads
    assert max(seen) <= threads and seen[0] == threads


@pytest.mark.skipif(not shutil.which("taskset"), reason="no taskset")
def test_a_process_on_one_processor_uses_one_thread():
    processor = min(os.sched_getaffinity(0))
    told, *seen = counted(("taskset", "-c", str(processor)))
    assert told == 1 and max(seen) <= 1  # 0: the watcher had no turn on the one processor


@pytest.mark.skipif(PROCESSORS < 2, reason="one processor")
def test_the_mask_may_change_later():
    code = """
import os
from gpuopt import _core
before = _core.host_threads()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(before, _core.host_threads())
"""
    done = run_python(code, OMP_NUM_THREADS=None, GPUOPT_NUM_THREADS=None)
    before, after = map(int, done.stdout.split())
    assert after == 1 and 1 <= before <= PROCESSORS


@pytest.mark.parametrize("value", ["0", "-1", "many", "2.5", "1e9", "99999999999999999999"])
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_a_number_of_threads_that_is_none_is_an_error(value, device):
    code = f"import gpuopt; gpuopt.reduce([1, 2], variant=None, device={device!r})"
    done = run_python(code, check=False, GPUOPT_NUM_THREADS=value)
    assert done.returncode == 1
    assert f"ValueError: GPUOPT_NUM_THREADS: '{value}' is not a number of threads" in done.stderr


# --- cgroups, as files of a folder

DRIVER = """
#include "host/host_threads.h"
#include <stdio.h>
int main(int count, char **names) {
    return count == 3 ? printf("%d", host_threads_quota(names[1], names[2])) < 0 : 2;
}
"""


@pytest.fixture(scope="session")
def quota(tmp_path_factory):
    """Return a function from a /proc/self/cgroup and a folder of files to cores."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler or not CSRC.exists():
        pytest.skip("no C compiler, or no source tree")
    folder = tmp_path_factory.mktemp("quota")
    (folder / "main.c").write_text(DRIVER)
    sources = [folder / "main.c", CSRC / "host" / "host_threads.c", CSRC / "host" / "host_cgroup.c"]
    sources.append(CSRC / "gpuopt.c")
    command = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-fopenmp", "-pthread", f"-I{CSRC}"]
    subprocess.run([*command, *sources, "-o", folder / "quota"], check=True)

    def run(cgroup, files):
        root = tmp_path_factory.mktemp("cgroup")
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / "self").write_text(cgroup)
        done = subprocess.run([folder / "quota", root / "self", root], capture_output=True)
        return int(done.stdout)

    return run


NONE = 2**31 - 1


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, NONE),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "100000 100000", "cpu.max": "300000 100000"}, 1),
        ("0::/not/there\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/\n", {}, NONE),
        ("", {"cpu.max": "100000 100000"}, NONE),
        ("nonsense\n0:\n", {"cpu.max": "100000 100000"}, NONE),
        (
            "5:cpu,cpuacct:/x\n1:name=systemd:/x\n",
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "250000\n",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            "4:cpuacct,cpu:/docker/7\n",
            {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        (
            "5:cpu:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            NONE,
        ),
        ("3:cpuset:/x\n", {"cpuset/x/cpu.cfs_quota_us": "100000"}, NONE),
    ],
)
def test_a_cgroups_quota_limits_the_threads(quota, cgroup, files, cores):
    assert quota(cgroup, files) == cores
