"""The memory of simulated GPUs: bounded by the host's, refused before it is used."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import KINDS, run_python

import gpuopt

CSRC = Path(__file__).parents[2] / "csrc"
needs_sim = pytest.mark.skipif(
    "sim" not in KINDS or bool(KINDS["sim"]), reason="needs the simulated GPU"
)
PTX = ".version 8.0 .target sm_75 .address_size 64 .visible .entry k() { ret; }"


@needs_sim
def test_free_memory_of_a_simulated_gpu_is_a_share_of_the_hosts():
    found = {each.name: each for each in gpuopt.devices()}
    host = found["cpu"].memory_free
    for name, each in found.items():
        if name.startswith("sim:"):
            assert 0 < each.memory_free <= each.memory_total
            assert each.memory_free < host / 3  # a byte costs three


@needs_sim
def test_presets_have_their_own_memory():
    found = {each.name: each.memory_total >> 20 for each in gpuopt.devices()}
    assert found["sim:g80"] == 768 and found["sim:gt200"] == 1024 and found["sim:m2090"] == 6144
    assert found["sim:h200"] > 140_000
    module = gpuopt.load_ptx(PTX, device="sim:g80")
    with pytest.raises(gpuopt.DeviceMemoryError, match="sim:g80: cannot allocate 805306369 bytes"):
        module.empty((768 << 20) + 1)


@needs_sim
def test_allocations_end_with_the_error_of_a_full_gpu():
    """Memory that is allocated and not yet touched counts as well."""
    told = json.loads(
        run_python(
            f"""
import gpuopt, json
module = gpuopt.load_ptx({PTX!r}, device="sim")
other = gpuopt.load_ptx({PTX!r}, device="sim:v100")
free = {{each.name: each.memory_free for each in gpuopt.devices()}}
step = free["sim:h200"] // 20
kept = []
try:
    while len(kept) < 1000:
        kept.append((module, other)[len(kept) % 2].empty(step))
except gpuopt.DeviceMemoryError as error:
    told = [str(error), error.bytes_asked, error.bytes_free]
held = len(kept)
kept.clear()
kept.append(module.empty(10 * step))
print(json.dumps([free, step, held, *told]))
"""
        ).stdout
    )
    free, step, held, text, asked, left = told
    assert 10 <= held <= 24  # other processes take and return memory meanwhile
    assert asked == step and left < step
    assert "device='cpu'" in text
    if (held // 2 + 1) * step <= free["sim:v100"]:  # the host ends before that GPU
        assert "3 of the host's" in text
    assert free["sim:h200"] > 0


@needs_sim
@pytest.mark.parametrize("what", ["profile", "ladder", "trace"])
def test_too_many_elements_are_refused_before_data_are_drawn(what):
    call = {
        "profile": lambda: __import__("gpuopt.measure.ladder").measure.ladder.count(
            "add", 3, 2**38
        ),
        "ladder": lambda: gpuopt.ladder("add", 2**38, device="sim"),
        "trace": lambda: gpuopt.trace("add", 3, n=2**38),
    }[what]
    with pytest.raises(gpuopt.DeviceMemoryError, match=r"n: 3 arrays of 274,877,906,944") as caught:
        call()
    assert caught.value.bytes_asked == 3 * 4 * 2**38 > caught.value.bytes_free > 0


@needs_sim
def test_large_module_variables_are_refused():
    text = PTX.replace(".visible", ".global .align 4 .b8 big[1099511627776]; .visible")
    with pytest.raises((gpuopt.PTXError, MemoryError)):
        gpuopt.load_ptx(text, device="sim")["k"](1, 1)
    assert gpuopt.reduce(np.arange(10), variant=3, device="sim") == 45


# --- the host's free memory, as files of a folder

DRIVER = """
#include "host/host_memory.h"
#include <inttypes.h>
#include <stdio.h>
int main(int count, char **names) {
    return count == 4 ? printf("%" PRIu64, host_memory_left(names[1], names[2], names[3])) < 0 : 2;
}
"""


@pytest.fixture(scope="session")
def left(tmp_path_factory):
    """Return a function from MemAvailable, a /proc/self/cgroup and a folder of files to bytes."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler or not CSRC.exists():
        pytest.skip("no C compiler, or no source tree")
    folder = tmp_path_factory.mktemp("left")
    (folder / "main.c").write_text(DRIVER)
    sources = [folder / "main.c", *(CSRC / "host").glob("*.c"), CSRC / "gpuopt.c"]
    command = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-fopenmp", "-pthread", f"-I{CSRC}"]
    subprocess.run([*command, *sources, "-o", folder / "left"], check=True)

    def run(kib, cgroup, files):
        root = tmp_path_factory.mktemp("cgroup")
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / "self").write_text(cgroup)
        (root / "meminfo").write_text("" if kib is None else f"MemTotal: 9 kB\nMemAvailable: {kib}")
        command = [folder / "left", root / "meminfo", root / "self", root]
        return int(subprocess.run(command, capture_output=True).stdout)

    return run


@pytest.mark.parametrize(
    ("kib", "cgroup", "files", "expected"),
    [
        (1000, "0::/\n", {}, 1024000),
        (None, "", {}, 2**64 - 1),
        (1000, "0::/\n", {"memory.max": "max\n", "memory.current": "5"}, 1024000),
        (1000, "0::/a\n", {"a/memory.max": "5000\n", "a/memory.current": "3000\n"}, 2000),
        (
            1000,
            "0::/a\n",
            {
                "a/memory.max": "5000\n",
                "a/memory.current": "3000\n",
                "a/memory.stat": "anon 9\ninactive_file 500\nactive_file 7\n",
            },
            2500,
        ),
        (1000, "0::/a/b\n", {"a/memory.max": "900", "a/memory.current": "1000"}, 0),
        (1, "0::/a\n", {"a/memory.max": "5000", "a/memory.current": "1"}, 1024),
        (
            None,
            "4:memory:/x\n",
            {
                "memory/x/memory.limit_in_bytes": "7000\n",
                "memory/x/memory.usage_in_bytes": "1000\n",
                "memory/x/memory.stat": "inactive_file 3\ntotal_inactive_file 10\n",
            },
            6010,
        ),
        (1000, "4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1024000),
    ],
)
def test_a_containers_limit_bounds_the_hosts_free_memory(left, kib, cgroup, files, expected):
    assert left(kib, cgroup, files) == expected
