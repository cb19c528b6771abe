"""Kernels have the names that their authors wrote."""

import pytest

from gpuopt.jit import names


@pytest.mark.parametrize(
    ("symbol", "wanted"),
    [
        ("plain", "plain"),
        ("_Z5scaleifPKfPf", "scale"),
        ("_Z5scaleIfEvPT_", "scale<float>"),
        ("_Z5scaleIdLi256EEvPT_", "scale<double, 256>"),
        ("_Z1kILb1ELj4ELin3EEvv", "k<true, 4u, -3>"),
        ("_ZN1a1kIPKfEEvT_", "a::k<const float*>"),
        ("_ZN61_INTERNAL_1234_9_kernel_cu_12345678_123456789012345678901234514anonEPi", None),
        ("_Z1kI6__halfEvPT_", "k<__half>"),
        ("_Z1kIS_EvT_", "_Z1kIS_EvT_"),
        ("_Zbroken", "_Zbroken"),
    ],
)
def test_names_of_symbols(symbol, wanted):
    if wanted is None:
        assert names.plain(symbol)
    else:
        assert names.plain(symbol) == wanted


def test_overloads_keep_their_symbols():
    assert names.written(["_Z1fi", "_Z1ff", "_Z1gv"]) == {
        "_Z1fi": "_Z1fi",
        "_Z1ff": "_Z1ff",
        "g": "_Z1gv",
    }
