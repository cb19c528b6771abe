"""Races: those that equal data hide are found, each once; equal stores by construction are none."""

import numpy as np
import pytest
from nvcc import bug_lines, load

import gpuopt

GLOBAL, SHARED = "race in global memory", "race in shared memory"


@pytest.fixture(scope="module")
def module():
    return load("races")


def array(n, data):
    x = {"zeros": np.zeros(n), "ones": np.ones(n), "range": np.arange(n)}[data]
    return x.astype(np.int32)


def ints(*sizes):
    return lambda data: [array(size, data) for size in sizes]


BUGS = {
    "increment 1 warp": ("increment", 1, 32, ints(1), GLOBAL),
    "increment 2 lanes": ("increment", 1, 2, ints(1), GLOBAL),
    "increment 2 blocks": ("increment", 2, 1, ints(1), GLOBAL),
    "maximum": ("maximum", 1, 32, ints(1, 32), GLOBAL),
    "maximum 4 warps": ("maximum", 1, 128, ints(1, 128), GLOBAL),
    "shift": ("shift", 1, 32, ints(33), GLOBAL),
    "shift 4 warps": ("shift", 1, 128, ints(129), GLOBAL),
    "histogram": ("histogram", 4, 64, ints(16, 256), GLOBAL),
    "last_one 2 warps": ("last_one", 1, 64, ints(1, 64), GLOBAL),
    "last_one 2 blocks": ("last_one", 2, 1, ints(1, 2), GLOBAL),
    "neighbour": ("neighbour", 2, 64, lambda data: [array(128, data), 128], GLOBAL),
    "no_barrier": ("no_barrier", 1, 256, ints(256, 256), SHARED),
    "halo": ("halo", 1, 256, ints(256, 256), SHARED),
    "tree": ("tree", 1, 256, ints(1, 256), SHARED),
}


@pytest.mark.parametrize("data", ["zeros", "ones", "range"])
@pytest.mark.parametrize("name", BUGS)
def test_a_race_is_found_once_at_its_line_whatever_the_data(module, name, data):
    kernel, grid, block, arguments, kind = BUGS[name]
    findings = gpuopt.check(module[kernel], grid, block, *arguments(data))
    assert [(each.kind, each.line) for each in findings] == [(kind, bug_lines("races")[kernel])]


def test_a_read_that_precedes_another_threads_constant_is_a_race(module):
    next_ = np.zeros(32, np.int32)
    findings = gpuopt.check(module["level_by_read"], 1, 32, next_, np.full(32, -1, np.int32))
    assert [each.kind for each in findings] == [GLOBAL]


CLEAN = {
    "flag": (4, 64, ints(1, 256)),
    "own_parameter": (4, 64, lambda data: [array(1, data), 3]),
    "zeroed": (4, 64, ints(4)),
    "butterfly": (2, 128, ints(2, 128)),
    "tiles": (1, 128, ints(1, 128)),
    "one_word_for_all": (2, 128, lambda data: [array(2, data), array(4, data), 2]),
    "votes": (1, 64, ints(2, 64)),
    "rows": (2, 64, ints(8)),
    "by_a_call": (2, 64, ints(1, 64)),
    "own_element": (2, 64, lambda data: [array(128, data), 5]),
    "exchange": (1, 64, ints(64, 64)),
}


@pytest.mark.parametrize("data", ["zeros", "range"])
@pytest.mark.parametrize("name", CLEAN)
def test_stores_that_are_equal_by_construction_are_no_race(module, name, data):
    grid, block, arguments = CLEAN[name]
    assert gpuopt.check(module[name], grid, block, *arguments(data)) == []


def test_equal_stores_of_one_instruction_are_one(module):
    zeros = np.zeros(32, np.int32)
    assert gpuopt.check(module["last_one"], 1, 32, zeros[:1].copy(), zeros) == []
    (finding,) = gpuopt.check(module["last_one"], 1, 32, zeros, np.arange(32, dtype=np.int32))
    assert finding.line == bug_lines("races")["last_one"]


def test_equal_stores_are_allowed_on_demand(module):
    zeros = np.zeros(64, np.int32)
    kernel = module["last_one"]
    assert gpuopt.check(kernel, 1, 64, zeros[:1], zeros.copy())
    assert gpuopt.check(kernel, 1, 64, zeros[:1], zeros.copy(), allow_equal_stores=True) == []
    x = np.arange(64, dtype=np.int32)
    assert gpuopt.check(kernel, 1, 64, zeros[:1], x, allow_equal_stores=True)


def test_findings_have_one_order(module):
    def found():
        x = np.arange(4096, dtype=np.int32)
        findings = gpuopt.check(module["histogram"], 64, 64, np.zeros(16, np.int32), x)
        findings += gpuopt.check(module["halo"], 1, 256, x[:256].copy(), x[256:512].copy())
        return [(each.kind, each.line) for each in findings]

    assert all(found() == found() for _ in range(5))


def test_the_remedy_fits_the_mistake(module):
    x = np.zeros(256, np.int32)
    text = gpuopt.check(module["increment"], 1, 32, x[:1].copy())[0].text
    assert "use an atomic, as atomicAdd()" in text and "argument 1 (int32[1])" in text
    assert "element 0" in text and "syncthreads" not in text
    text = gpuopt.check(module["last_one"], 4, 1, x[:1].copy(), x)[0].text
    assert "let one of them write it" in text
    text = gpuopt.check(module["halo"], 1, 256, x.copy(), x)[0].text
    assert "put __syncthreads() between" in text


@pytest.fixture(scope="module")
def bytes_module():
    return load("bytes")


@pytest.mark.parametrize("data", ["zeros", "range"])
@pytest.mark.parametrize(
    "name",
    [
        "read_after_two",
        "write_after_two",
        "write_after_readers",
        "word_over_bytes",
        "blocks",
        "overstep",
        "shared_readers",
        "shared_overstep",
    ],
)
def test_no_access_hides_another_threads_byte_of_its_word(bytes_module, name, data):
    x = array(1024, data).astype(np.uint8)
    found = gpuopt.check(bytes_module[name], 3 if name == "blocks" else 1, 128, x, x.copy())
    assert [each.line for each in found] == [bug_lines("bytes")[name]]
    assert found[0].kind == (SHARED if name.startswith("shared") else GLOBAL)


@pytest.mark.parametrize(
    "name", ["pixels", "interleaved", "swapped", "one_of_each_block", "neighbours"]
)
def test_threads_may_share_a_word_byte_by_byte(bytes_module, name):
    x = np.arange(1024, dtype=np.uint8)
    blocks = 7 if name == "one_of_each_block" else 1
    assert gpuopt.check(bytes_module[name], blocks, 128, x, x.copy()) == []
