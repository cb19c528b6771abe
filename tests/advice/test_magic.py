"""The cell magic: compiles a cell, binds the module, launches on the notebook's arrays."""

import numpy as np
import pytest

import gpuopt
from gpuopt.advice.explanation import Explanation
from gpuopt.show import magic

CELL = """__global__ void scale(int n, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.5 * x[i] + 0.1;
}
"""


def run(line, cell=CELL, **names):
    shown = []
    names = {"x": np.ones(1000, np.float32), "y": np.zeros(1000, np.float32), "n": 1000} | names
    magic.run(line, cell, names, shown.append, 7)
    return names, shown


def test_cell_is_compiled_and_bound(nvrtc):
    names, shown = run("mine")
    assert names["mine"].kernels == ["scale"]
    assert shown == [names["mine"]]


def test_launch_explains_with_the_cell_s_lines(nvrtc):
    names, shown = run("mine --launch 'scale(-(-n // 256), 256, n, x, y)' --device sim:t4")
    assert np.allclose(names["y"], 2.6)
    explanation, listing = shown
    assert isinstance(explanation, Explanation)
    assert [(each.rule, each.line) for each in explanation] == [("double-literal", 4)]
    html = listing._repr_html_()
    assert "float32 data is computed in float64" in html
    assert html.count("<tr") > 5
    assert "cell-7.cu" in repr(explanation)
    assert "2.5 * x[i]" in repr(listing)


def test_errors_are_red_in_the_listing(nvrtc):
    _, shown = run("mine --launch 'scale(4, 256, n, x, y)'", CELL.replace("if (i < n) ", ""))
    assert not shown[0].ok
    assert "#fde0dc" in shown[1]._repr_html_()


def test_views_are_chosen(nvrtc):
    launch = "--launch 'scale(4, 256, n, x, y)'"
    _, shown = run(f"mine {launch} --check")
    assert shown == ["no findings"]
    _, shown = run(f"mine {launch} --profile --predict --trace coalescing --trace timeline")
    assert [type(each).__name__ for each in shown] == [
        "Profile",
        "CellListing",
        "Bounds",
        "Picture",
        "Picture",
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("", "the following arguments are required: module"),
        ("mine --launch", "expected one argument"),
        ("mine --picture x", "unrecognized arguments"),
        ("2mine", "is not the name of a variable"),
        ("mine --launch 'other(1, 32)'", "is not a kernel of this module"),
        ("mine --launch scale", "is not a launch"),
    ],
)
def test_bad_options_are_named(nvrtc, line, text):
    with pytest.raises(ValueError, match=text):
        run(line)


def test_compile_error_has_the_cell_s_line(nvrtc):
    with pytest.raises(gpuopt.CompileError) as caught:
        run("mine", CELL.replace("2.5", "factor"))
    assert caught.value.line == 4


def test_extension_works_in_ipython(nvrtc):
    shell_of = pytest.importorskip("IPython.core.interactiveshell")
    shell = shell_of.InteractiveShell()
    shell.run_cell("%load_ext gpuopt")
    assert shell.run_cell(f"%%gpuopt mine\n{CELL}").success
    assert "scale" in shell.user_ns["mine"]
    assert not shell.run_cell("%%gpuopt mine\nbroken").success
