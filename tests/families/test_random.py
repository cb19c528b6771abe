"""A short run of the random cases against NumPy; tests/random_cases.py runs more."""

import pytest
import random_cases


@pytest.mark.parametrize(("device", "count", "most"), [("cpu", 1500, 3000), ("sim", 60, 300)])
def test_random_cases_agree_with_numpy(device, count, most):
    wrong = random_cases.run(device, count, 20_261_125, most)
    assert not wrong, "\n".join(wrong)
