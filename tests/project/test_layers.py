"""The layers of gpuopt: imports only go down, and never in a circle; folders stay small."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gpuopt"

# From the lowest to the highest. A folder of gpuopt imports itself and those before it.
PYTHON_LAYERS = (
    "util",
    "arrays",
    "catalog",
    "families",
    "scale",
    "ptx",
    "jit",
    "observe",
    "advice",
    "show",
    "measure",
    "experiments",
    "cli",
)
# Public modules beside the folders.
PYTHON_FILES = {"gpuopt.models": "catalog", "gpuopt.pytest_plugin": "cli"}
# Names and nothing else: nothing below the command line may import them.
FACADES = ("gpuopt", "gpuopt.__main__")

FILES_MOST = 21  # in a folder, so that it can be read at a glance
# No .ptx: tests/ptx/make.sh and make_arithmetic.py write most of them.
SOURCES = {".py", ".pyi", ".c", ".h", ".def", ".cu", ".cuh", ".sh"}


def modules():
    """Return {dotted name: path} of every module of gpuopt."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(text, name="", package=""):
    """Yield (module of gpuopt, line) for every import, wherever in the text it stands.

    Imports inside of functions, for annotations only, and by `import_module` count, too.
    """
    for node in ast.walk(ast.parse(text)):
        named = []
        if isinstance(node, ast.Import):
            named = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) + 1 - node.level]
                base = ".".join([*above, *filter(None, [base])])
            inside = [f"{base}.{each.name}" for each in node.names]
            named = [each if each in MODULES or each == "gpuopt._core" else base for each in inside]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if function in ("import_module", "__import__"):
                named = [str(node.args[0].value)]
        for each in named:
            if each.split(".")[0] == "gpuopt" and each not in ("gpuopt._core", name):
                yield each, node.lineno


def python_layer(module):
    folder = PYTHON_FILES.get(module) or module.split(".")[1]
    return PYTHON_LAYERS.index(folder)


def package_of(module):
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


PYTHON_EDGES = {
    module: sorted(set(imports(path.read_text(), module, package_of(module))))
    for module, path in MODULES.items()
}


def test_every_folder_of_the_package_is_a_layer():
    folders = {path.parent.name for path in PACKAGE.rglob("__init__.py")} - {"gpuopt"}
    assert folders == set(PYTHON_LAYERS)


def test_imports_go_down():
    wrong = []
    for module, edges in PYTHON_EDGES.items():
        if module in FACADES:
            continue
        for other, line in edges:
            where = f"{MODULES[module].relative_to(ROOT)}:{line}"
            if other in FACADES:
                if python_layer(module) < PYTHON_LAYERS.index("cli"):
                    wrong.append(f"{where} imports the facade {other}")
            elif python_layer(other) > python_layer(module):
                wrong.append(f"{where} imports {other}, of a higher layer")
    assert not wrong, "\n".join(wrong)


def circle(graph):
    """Return a circle of a graph, as a list of its nodes, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_imports_have_no_circle():
    graph = {
        module: {other for other, _ in edges if other not in FACADES}
        for module, edges in PYTHON_EDGES.items()
    }
    assert circle(graph) is None


@pytest.mark.parametrize(
    "text",
    [
        "import gpuopt.cli.main",
        "from gpuopt.cli import main",
        "from ..cli import main",
        "def late():\n    from gpuopt.cli.main import main",
        "import_module('gpuopt.cli.main')",
    ],
)
def test_every_kind_of_import_is_seen(text):
    assert [each for each, _ in imports(text, "gpuopt.util.x", "gpuopt.util")] == [
        "gpuopt.cli.main"
    ]


# --- folders


@pytest.mark.parametrize("top", ["gpuopt", "tests"])
def test_folders_are_small(top):
    counts = {}
    for path in (ROOT / top).rglob("*"):
        if path.suffix in SOURCES:
            counts[path.parent] = counts.get(path.parent, 0) + 1
    wide = {str(each.relative_to(ROOT)): n for each, n in counts.items() if n > FILES_MOST}
    assert wide == {}, f"more than {FILES_MOST} source files"
