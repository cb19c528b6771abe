"""The layers of the C sources: includes only go down, and never in a circle."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
if not CSRC.exists():
    pytest.skip("no source tree", allow_module_level=True)

COMMON = {"float_state.h", "demangle.h"}  # know nothing of the program: for the simulator too
# Files directly in csrc, what the host has, and the plans that kernels and planners share.
BASE = {".", "host", "kernels"}
LAYERS = {  # a folder, and those that its files may include besides their own
    # devices.c and registry.c alone
    ".": {"devices", "devices/cpu", "devices/cpu/reduce", "devices/cuda", "kernels"},
    "host": {"."},
    "kernels": {
        "kernels/axis",
        "kernels/matmul",
        "kernels/stencil1d",
        "kernels/transpose",
        "kernels/vector",
    },
    "kernels/axis": {"kernels"},
    "kernels/matmul": {"kernels"},
    "kernels/stencil1d": {"kernels"},
    "kernels/transpose": {"kernels"},
    "kernels/vector": {"kernels"},
    "sim": {"sim/core", "sim/ptx", "sim/decode", "sim/exec", "sim/observe"},
    "sim/core": {"sim"},  # sim.h
    "sim/ptx": {"sim/core"},
    "sim/decode": {"sim/core", "sim/ptx"},
    "sim/observe": {"sim/core"},
    "sim/exec": {"sim/core", "sim/observe"},
    "devices": {*BASE, "sim"},
    "devices/cuda": BASE,
    "devices/cpu": BASE,
    "devices/cpu/reduce": {*BASE, "devices/cpu"},
    "ops": BASE,
    "python": {".", "host", "ops", "sim/core"},  # sim_preset.def, a table
    "python/call": {".", "ops", "python"},
}


def included(path):
    """Return the files of csrc that a file includes, from csrc."""
    names = re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
    found = [(path.parent / name).resolve() for name in names]
    return [each.relative_to(CSRC.resolve()) for each in found if each.exists()]


KINDS = {".c", ".h", ".def", ".cu", ".cuh"}
FILES = {
    path.relative_to(CSRC): included(path) for path in CSRC.rglob("*.*") if path.suffix in KINDS
}


def test_layers_include_only_what_is_below_them():
    for path, others in FILES.items():
        folder = path.parent.as_posix()
        for other in others:
            to = other.parent.as_posix()
            allowed = to == folder or to in LAYERS[folder] or other.as_posix() in COMMON
            assert allowed, f"{path} includes {other}"
            if folder == "." and to != ".":
                assert path.name in ("devices.c", "registry.c"), f"{path} includes {other}"


def module_of(path):
    """Return a file's module: a header and its .c file are one.

    The exceptions are registry.h, the contract of the rows that registry.c collects from all
    kernels, and registry.c itself.
    """
    return path.with_suffix("") if path.suffix in (".c", ".h") and path.stem != "registry" else path


def test_there_are_no_circles():
    graph = {}
    for path, others in FILES.items():
        module = module_of(path)
        graph.setdefault(module, set()).update({module_of(other) for other in others} - {module})
    TopologicalSorter(graph).prepare()  # CycleError names a circle


def test_only_the_python_layer_includes_python():
    for path in FILES:
        includes = re.findall(r"^#include <(\S+)>", (CSRC / path).read_text(), re.MULTILINE)
        assert path.parts[0] == "python" or "Python.h" not in includes, path


def test_no_folder_has_more_than_21_source_files():
    folders = [
        path.parent.relative_to(CSRC)
        for path in CSRC.rglob("*.*")
        if path.suffix in {*KINDS, ".py"}
    ]
    assert {folder.as_posix(): n for folder in folders if (n := folders.count(folder)) > 21} == {}
