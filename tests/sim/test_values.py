"""The newer forms of instructions give the values of NumPy and ml_dtypes."""

import numpy as np
import pytest
import values

import gpuopt

N = 4096
EVERY = [case for case in values.cases() if case[4]]


@pytest.fixture(scope="module")
def module():
    return gpuopt.load_ptx(values.module(100, EVERY), device="sim:b200")


@pytest.mark.parametrize("number", range(len(EVERY)), ids=[case[0] for case in EVERY])
def test_instruction_values_match_numpy(module, number):
    name, _, _, operands, reference = EVERY[number]
    if "e4m3" in name or "e5m2" in name or "e2m" in name or "e3m2" in name:
        pytest.importorskip("ml_dtypes")
    given = values.inputs(operands, number, N)
    result = values.empty(operands, N)
    module[f"k{number}"](N // 128, 128, result, *given)
    with np.errstate(all="ignore"):
        wanted = reference(*given).astype(result.dtype)
    wrong = np.flatnonzero(result != wanted)
    assert not len(wrong), [
        (name, *(hex(x[i]) for x in given), hex(result[i]), hex(wanted[i])) for i in wrong[:5]
    ]
