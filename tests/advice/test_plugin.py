"""The pytest plugin, and bounds on counters."""

from importlib.metadata import entry_points

import numpy as np
import pytest

import gpuopt

pytest_plugins = ["pytester"]

TEST = '''
import numpy as np
import gpuopt

SOURCE = """
__global__ void add(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1.0f;
}
"""

def test_good(gpuopt_check):
    x = np.zeros(1000, np.float32)
    profile = gpuopt_check(gpuopt.compile(SOURCE, device="sim")["add"], 4, 256, x, 1000)
    assert (x == 1).all()
    profile.assert_at_most(bank_conflicts=0, sectors_per_request=4.1)

def test_bad(gpuopt_check):
    module = gpuopt.compile(SOURCE, device="sim")
    gpuopt_check(module["add"], 4, 256, np.zeros(1000, np.float32), 1024)

def test_endless(gpuopt_check):
    module = gpuopt.compile(SOURCE.replace("if (i < n)", "while (n)"), device="sim")
    gpuopt_check(module["add"], 1, 32, np.zeros(32, np.float32), 32, time_limit=0.5)
'''


def test_fixture_fails_tests_with_findings(nvrtc, pytester):
    pytester.makepyfile(TEST)
    installed = any(each.value == "gpuopt.pytest_plugin" for each in entry_points(group="pytest11"))
    named = () if installed else ("-p", "gpuopt.pytest_plugin")
    result = pytester.runpytest_subprocess(*named, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*finding(s):*", "*out of bounds*"])


def test_assert_at_most_names_counter_and_line():
    x = np.arange(4096, dtype=np.int32)
    counted = gpuopt.profile(gpuopt.reduce, x, variant=2)
    counted.assert_at_most(global_load_sectors=1 << 20, warp_efficiency=1.0)
    with pytest.raises(
        AssertionError, match=r"bank_conflicts is [\d,.e+]+, at most 0.*reduce.cu:\d+"
    ):
        counted.assert_at_most(bank_conflicts=0, barriers=1 << 30)
    with pytest.raises(ValueError, match="did you mean 'bank_conflicts'"):
        counted.assert_at_most(bank_conflict=0)
