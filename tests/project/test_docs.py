"""The docstrings' examples run, and the documented names are the exported ones."""

import doctest
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import gpuopt

MODELS = [getattr(gpuopt.models, name) for name in gpuopt.models.__all__]
MODELS = [each for each in MODELS if inspect.isfunction(each)]
PUBLIC = [getattr(gpuopt, name) for name in gpuopt.__all__ if not name.startswith("__")]
PUBLIC += [each for each in MODELS if each not in PUBLIC]

pytestmark = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 writes scalars differently"
)


@pytest.mark.parametrize("each", [gpuopt, *PUBLIC], ids=lambda each: each.__name__)
def test_docstring_examples_run(each):
    found = doctest.DocTestFinder(recurse=False).find(each, module=False)
    assert found
    for test in found:
        assert test.examples, f"{test.name}: every public name has an example"
        test.globs = {"gpuopt": gpuopt, "np": np}
        failed = []
        runner = doctest.DocTestRunner(verbose=False)
        results = runner.run(test, out=failed.append)
        assert results.attempted and not results.failed, "".join(failed)


def parameters_of(function):
    """Return the names that the docstring's section of parameters has entries of."""
    doc = inspect.getdoc(function)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", doc, re.M | re.S)
    heads = re.findall(r"^[\w*].*$", section[1] if section else "", re.M)
    return {name.strip(" *") for head in heads for name in head.partition(" : ")[0].split(",")}


@pytest.mark.parametrize("each", PUBLIC, ids=lambda each: each.__name__)
def test_every_public_name_is_documented(each):
    assert each.__doc__ and len(each.__doc__.strip()) > 10 and ">>> " in each.__doc__
    if inspect.isroutine(each):
        assert "Examples\n" in each.__doc__
        documented = parameters_of(each)
        for argument in inspect.signature(each).parameters:
            assert argument in documented
            assert argument in each.__annotations__
        assert "return" in each.__annotations__


def test_every_exported_name_exists():
    assert sorted(gpuopt.__all__) == sorted(set(gpuopt.__all__))
    for name in gpuopt.__all__:
        assert hasattr(gpuopt, name)


def test_the_version_has_one_source():
    try:
        installed = metadata.version("gpuopt")
    except metadata.PackageNotFoundError:
        pytest.skip("imported from a folder, not installed: there is no metadata")
    assert gpuopt.__version__ == installed


def test_the_version_is_that_of_pyproject():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert gpuopt.__version__ == project["version"]
    assert set(project["urls"]) >= {"Homepage", "Documentation", "Changelog"}


def test_show_config_prints_and_nothing_else_does():
    code = "import gpuopt; gpuopt.devices(); gpuopt.show_config()"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert process.returncode == 0 and process.stderr == ""
    for text in (gpuopt.__version__, np.__version__, "compiler", "nvcc", "kernels", "cuda", "cpu"):
        assert text in process.stdout
