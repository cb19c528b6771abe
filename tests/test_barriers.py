"""Every barrier of every rung matters: without it, the checks find something.

The kernels are those of the embedded PTX, run as somebody's own: whole, and with each barrier
deleted in turn. A new rung is covered by standing in its family's table; a new family by a row in
CASES.
"""

import re
from functools import cache

import numpy as np
import pytest

import gpuopt
from gpuopt import _cases, _core, _families

BARRIER = re.compile(r"^\s*(@!?%p\d+ )?(bar|barrier)\.(warp\.)?sync\b[^;\n]*;", re.M)

FLOAT = np.float32


def arguments(problem):
    """Return a launch's arguments: inputs, output, numbers."""
    return [*problem.inputs, np.zeros(problem.shape, problem.dtype), *problem.numbers]


def case(function, *given, **keywords):
    """Return a call of a rung, and the arguments of its first launch."""
    if function is gpuopt.reduce:
        # what every rung takes, and what the single pass takes besides: the result, and tickets
        more = [np.zeros(1), np.zeros(64, np.uint32)]
        values = [*given, np.zeros(given[0].size), given[0].size, *more]
    else:
        describe = getattr(_families, f"{function.__name__}_problem")
        values = arguments(describe(*given, **keywords))
    return lambda variant: function(*given, variant=variant, **keywords), values


# By family; sizes with parts of tiles. Several where a rung has several paths.
CASES = {
    "reduce": [case(gpuopt.reduce, np.ones(size, FLOAT)) for size in (3000, 30_000)],
    "transpose": [
        case(gpuopt.transpose, np.ones(sides, FLOAT)) for sides in ((70, 40), (128, 192), (201, 70))
    ],
    "stencil1d": [
        case(gpuopt.stencil1d, np.ones(300, FLOAT), weights=np.ones(2 * radius + 1, FLOAT))
        for radius in (3, 520)  # unrolled; in several pieces
    ],
    "matmul": [
        case(gpuopt.matmul, np.ones((40, 70), FLOAT), np.ones((70, columns), FLOAT))
        for columns in (50, 52)  # item by item; in words
    ],
}
# The last barrier of these changes nothing: behind it thread 0 reads what it wrote itself.
LAST_IS_REDUNDANT = {("reduce", 5), ("reduce", 6), ("reduce", 7)}


@cache
def image(family):
    """Return what the kernels of an embedded image share, and the kernels by name."""
    shared, *parts = re.split(r"(?m)^(?=\.visible \.entry )", _core.ptx()[family])
    kernels = [re.match(r"(?ms)\.visible \.entry (\w+).*?^\}$", part) for part in parts]
    functions = re.findall(r"(?ms)^\.func [^;]*?^\{.*?^\}$", "".join(parts))
    return "\n".join([shared, *functions, ""]), {kernel[1]: kernel[0] for kernel in kernels}


def rung_cases():
    for family in CASES:
        for rung in gpuopt.rungs(family):
            if not rung.host:
                yield pytest.param(rung, id=f"{family}-{rung.variant}")


@pytest.mark.parametrize("rung", list(rung_cases()))
def test_each_barrier_matters(rung):
    shared, kernels = image(rung.family)
    launches = []
    for call, values in CASES[rung.family]:
        with gpuopt.Profile("sim", collecting=True) as profiled:
            call(rung.variant)
        launches.append((profiled.launches[0], values))
    name = launches[0][0].kernel
    text = kernels[name]

    def found(body):
        kernel = gpuopt.load_ptx(shared + body, "sim")[name]
        takes = len(kernel.parameters)
        return [
            finding.kind
            for launch, values in launches
            for finding in gpuopt.check(
                kernel, launch.grid, launch.block, *values[:takes], shared=launch.shared_bytes
            )
        ]

    assert bool(found(text)) == rung.historical
    barriers = list(BARRIER.finditer(text))
    for index, barrier in enumerate(barriers):
        races = found(text[: barrier.start()] + text[barrier.end() :])
        if index == len(barriers) - 1 and (rung.family, rung.variant) in LAST_IS_REDUNDANT:
            assert not races, f"the last barrier of {name} matters after all: take it off the list"
        else:
            assert "race in shared memory" in races, f"barrier {index} of {name} is not missed"


def test_every_family_with_barriers_has_a_case():
    families = {name for name, text in _core.ptx().items() if BARRIER.search(text)}
    ladders = families & {"reduce", *_cases.ITEMS}
    assert ladders <= set(CASES), "CASES says how to call a family's rungs"
