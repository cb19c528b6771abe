"""Every barrier of every rung matters: without it, the checks find something.

The kernels are those of the embedded PTX, run as somebody's own: whole, and with each barrier
deleted in turn. A new rung is covered by standing in its family's table; a new family by a row in
CASES.
"""

import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import gpuopt
from gpuopt import _core
from gpuopt.families import cases as cases_module, registry

BARRIER = re.compile(r"^\s*(@!?%p\d+ )?(bar|barrier)\.(warp\.)?sync\b[^;\n]*;", re.M)

FLOAT = np.float32


def arguments(problem):
    """Return a launch's arguments: inputs, output, numbers."""
    return [*problem.inputs, np.zeros(problem.shape, problem.dtype), *problem.numbers]


def case(function, *given, **keywords):
    """Return a call of a rung, and the arguments of its first launch."""
    if function is gpuopt.reduce:
        # what every rung takes, and what the single pass takes besides: the result, tickets, and
        # whether the result is halved
        more = [np.zeros(1), np.zeros(64, np.uint32), 0]
        values = [*given, np.zeros(given[0].size), given[0].size, *more]
    else:
        describe = getattr(registry, f"{function.__name__}_problem")
        values = arguments(describe(*given, **keywords))
    return lambda variant: function(*given, variant=variant, **keywords), values


def product(m, k, n):
    """Return the same of a product."""
    return case(gpuopt.matmul, np.ones((m, k), FLOAT), np.ones((k, n), FLOAT))


# transpose_plan of transpose_plan.cuh, which the last rung takes.
AXIS = np.dtype([("extent", "u8"), ("in", "u8"), ("out", "u8")])
CUT = np.dtype([("axis", "u4"), ("chunk", "u4"), ("scales", "u4"), ("extent", "u8")], align=True)
PLAN = np.dtype(
    [(name, "u4") for name in ("shape", "in_place")]
    + [(name, "u8") for name in ("items", "reach", "rows", "columns", "in_pitch", "out_pitch")]
    + [(name, "u4") for name in ("row_tiles", "column_tiles", "apart", "grid_axes", "near_axes")]
    + [(name, "u4") for name in ("block", "tiles", "load_run", "load_runs", "run", "runs")]
    + [(name, "u4") for name in ("load_run_most", "load_runs_most", "run_most", "runs_most")]
    + [(name, "u4") for name in ("load_axes", "run_axes", "item_axes")]
    + [(name, "u4") for name in ("loads", "stores_vectors", "load_magic", "store_magic")]
    + [
        (name, "u4")
        for name in (
            "table_bytes",
            "tile_bytes",
            "pad",
            "run_pad",
            "wrap_pad",
            "wrap_magic",
            "puts_vectors",
            "streams",
            "stream_lanes",
        )
    ]
    + [(name, "u4") for name in ("in_segments", "segments", "segments_whole", "period")]
    + [(name, "u4") for name in ("item_extent", "item_step", "item_magic", "item_jump")]
    + [(name, "u4") for name in ("tile_rows", "tile_columns", "whole", "lead", "tile_pitch")]
    + [(name, "u4") for name in ("tile_height", "span", "slots", "align", "lanes")]
    + [("cuts", CUT, 2), ("axes", AXIS, 64), ("all_row_tiles", "u4"), ("sparse", "u4")],
    align=True,
)


def transpose(sides, tiles, shape, in_place=False, tile=None):
    """Return a call of a rung on a matrix, and the arguments of its launch, the plan the last.

    The last rung's blocks move a packed tile twice. A wide tile's rows are two axes; `tile` has its
    rows, columns and lead.
    """
    array, plan = np.ones(sides, FLOAT), np.zeros((), PLAN)
    rows, columns = sides
    pitch = (-(-columns // 4) * 4 | 1) * FLOAT().itemsize  # rows end where a vector does
    for name, value in (
        ("shape", shape), ("in_place", in_place), ("items", array.size), ("rows", rows),
        ("reach", array.size),
        ("columns", columns), ("in_pitch", columns), ("out_pitch", rows),
        ("row_tiles", tiles[0]), ("all_row_tiles", tiles[0]), ("column_tiles", tiles[1]),
        ("tiles", 2),
        ("load_run", columns), ("load_runs", rows), ("run", rows), ("runs", columns),
        ("load_run_most", columns), ("load_runs_most", rows), ("run_most", rows),
        ("runs_most", columns), ("load_axes", 1), ("run_axes", 1), ("item_axes", 1),
        ("loads", CUT_OUT), ("load_magic", -(-(2**32) // -(-columns // 4))),
        ("store_magic", -(-(2**32) // (rows // 4))),
        ("table_bytes", (51 + 12 * (rows + columns)) // 16 * 16), ("tile_bytes", rows * pitch),
        ("streams", 1), ("stream_lanes", 32),
        ("in_segments", 1), ("segments_whole", 1), ("item_step", pitch), ("item_extent", rows),
        ("item_magic", -(-(2**32) // rows)),
    ):  # fmt: skip
        plan[name] = value
    plan["axes"][:3] = [(rows, columns, pitch), (columns, 4, rows), (rows, pitch, 0)]
    if shape == WIDE:
        plan["load_axes"], plan["load_magic"] = 2, 0
        plan["axes"][:3] = [(2, columns, 1), (rows // 2, 2 * columns, 2), (columns, 1, rows)]
        high, wide, lead = tile
        whole = high == rows
        for name, value in (
            ("tile_rows", high), ("tile_columns", wide), ("lead", lead), ("whole", whole),
            ("tile_pitch", wide), ("pad", 1 if whole else 4), ("table_bytes", 8 * (high + lead)),
            ("store_magic", -(-(2**32) // high) if whole else 0),
        ):  # fmt: skip
            plan[name] = value

    def call(variant):
        own = array.copy()
        gpuopt.transpose(own, variant=variant, out=own if in_place else None)

    return call, [array, np.zeros(sides[::-1], FLOAT), *sides, 1, plan.tobytes()]


ALIGNED, PHASED, PACKED, WIDE = range(4)
CUT_OUT = 2


def stencil(radius, form=0, block=None, *, weighted=False, cval=0.0, shape=1100):
    """Return a call of a rung, with blocks that have neighbours, and its launch's arguments.

    The form is that of stencil1d_plan.cuh: the deck's case for rung 2.
    """
    array = np.ones(shape, FLOAT)
    call = {"radius": radius, "weights": np.ones(2 * radius + 1) if weighted else None}
    call["cval"] = cval
    values = arguments(registry.stencil1d_problem(array, **call))
    values[3 + 4] |= form << 32
    return lambda variant: gpuopt.stencil1d(array, **call, variant=variant, block=block), values


def stencil_form(form, blocks, n, rows, width, inner):
    """Return a launch of rung 5 for short rows or columns, and its arguments."""
    arrays = [np.ones(n * rows * inner, FLOAT), np.ones(width), np.zeros(n * rows * inner, FLOAT)]
    numbers = [n, n, 0, width // 2, 2 | form << 32, 0, rows, width, n * inner, inner, inner]
    launch = SimpleNamespace(kernel="stencil1d_5_weighted_float32_float64", grid=blocks, block=128,
                             shared_bytes=32768)  # fmt: skip
    return launch, [*arrays, *numbers]


FEW_TILES = 5
SHORT_ROWS, STENCIL_COLUMNS, GROUPS, ROW_PARTS, HALVES = 3, 4, 1 << 8, 32 << 8, 1 << 16

# matmul_plan of matmul_plan.cuh.
PRODUCT = np.dtype(
    [(name, "u8") for name in ("m", "n", "k")]
    + [(name, "i8") for name in ("a_row", "a_k", "b_k", "b_column", "c_row", "c_column")]
    + [(name, "u8") for name in ("outputs", "chunk", "tiles", "across")]
    + [(name, "u4") for name in ("slices", "is_swapped", "down_bits", "across_bits")]
    + [(name, "u4") for name in ("team_bits", "run_bits", "lane_bits", "join_bits")]
    + [(name, "u4") for name in ("a_along_k", "b_along_k", "width")]
    + [
        ("axis_count", "u4"),
        ("axes", np.dtype([(name, "u8") for name in ("extent", "a", "b")]), 6),
    ],
    align=True,
)


def any_product(m, k, n, rung, blocks, mode=None, block=None, **fields):
    """Return a launch of a rung for any product, and its arguments."""
    plan = np.zeros((), PRODUCT)
    given = {
        "m": m, "k": k, "n": n, "a_row": k, "a_k": 1, "b_k": n, "b_column": 1, "c_row": n,
        "c_column": 1, "outputs": m * n, "chunk": k, "tiles": blocks, "across": 1, "slices": 1,
        "run_bits": 4,
    }  # fmt: skip
    for name, value in (given | fields).items():
        plan[name] = value
    arrays = [np.ones(size, FLOAT) for size in (m * k, k * n, m * n, 64 * m * n + m * k)]
    kernel = f"matmul_{rung}_matmul_float32_float32{f'_b{block}' if block else ''}"
    launch = SimpleNamespace(kernel=kernel, grid=blocks, block=block or 256, shared_bytes=1 << 17)
    return launch, [*arrays, *([] if mode is None else [mode]), plan.tobytes()]


def cut_product(m, k, n, block, tile, chunk, **fields):
    """Return a launch of rung 11, and its arguments: a whole tile, and others cut into chunks."""
    rows, columns, depth = tile
    tiles, layers = -(-m // rows) * -(-n // columns), -(-k // depth)
    cut_layers = (tiles - 1) * layers
    launch, (a, b, c, pieces, plan) = any_product(
        m, k, n, 11, 1 + -(-cut_layers // chunk), block=block, tiles=tiles, **fields
    )
    cut = [np.zeros(64, np.uint32), 1, chunk, layers, cut_layers]
    return launch, [a, b, c, pieces, *cut, plan]


DOTS, QUADS, COLUMNS, ROWS, OUTER, JOIN = range(6)

# Cases by family, with partial tiles; one for each path of a rung.
CASES = {
    "reduce": [case(gpuopt.reduce, np.ones(size, FLOAT)) for size in (3000, 30_000)],
    "transpose": [
        transpose((128, 192), (2, 3), ALIGNED),
        transpose((120, 124), (2, 2), ALIGNED),
        transpose((245, 126), (4, 2), PHASED),
        transpose((30, 17), (1, 1), PACKED),
        transpose((128, 128), (2, 2), ALIGNED, in_place=True),
        transpose((70, 70), (2, 2), PHASED, in_place=True),
        transpose((30, 17), (1, 1), WIDE, tile=(30, 17, 0)),
        transpose((30, 17), (2, 2), WIDE, tile=(16, 12, 8)),
    ],
    "stencil1d": [
        stencil(*how, weighted=weighted)
        for weighted in (False, True)
        for how in (
            (3, 1),
            (3, 2, 128),
            (6,),  # windows of a tile
            (20,),  # sums of groups
            (520,),  # in several chunks, sums of sums
        )
    ],
    "matmul": [
        product(40, 70, 50),  # element by element
        product(40, 70, 52),  # in words
    ],
}
# Cases of one rung alone.
MORE_CASES = {
    ("stencil1d", 5): [
        *(
            stencil(3, form, cval=0.1, shape=(40, 37), weighted=weighted)
            for weighted in (False, True)
            for form in (0, FEW_TILES)  # no float32 is 0.1: summed again
        ),
        stencil_form(SHORT_ROWS, 1, 5, 1000, 15, 1),  # several tiles
        stencil_form(STENCIL_COLUMNS | GROUPS, 2, 40, 1, 7, 32),
        stencil_form(STENCIL_COLUMNS | ROW_PARTS, 2, 9, 64, 3, 2),
        stencil_form(HALVES, 2, 3000, 1, 7, 1),
        stencil_form(HALVES, 2, 300, 10, 7, 1),
    ],
}
# Launches of rungs whose plan is not that of the family's others.
OWN_CASES = {
    ("matmul", 11): [
        cut_product(150, 70, 140, 256, (128, 128, 8), 4),
        cut_product(150, 70, 140, 128, (128, 32, 8), 4),
        cut_product(150, 70, 150, 128, (128, 32, 8), 4, is_swapped=1, c_row=1, c_column=150),
        cut_product(150, 70, 140, 64, (64, 64, 8), 4),
    ],
    ("matmul", 12): [
        any_product(40, 90, 30, 12, 1, block=128, down_bits=3, across_bits=3, team_bits=1),
        any_product(40, 90, 30, 12, 2, block=256, down_bits=3, across_bits=3, team_bits=2),
    ],
    ("matmul", 13): [
        any_product(3, 5000, 1, 13, 3, DOTS, lane_bits=8),
        *(any_product(9, 5000, n, 13, 3, QUADS, lane_bits=8) for n in (1, 3)),
        *(any_product(150, 300, n, 13, 2, COLUMNS, a_row=1, a_k=150) for n in (1, 4)),
        any_product(100, 20, 5, 13, 1, ROWS, width=5),
        any_product(100, 20, 150, 13, 4, OUTER, across=2, down_bits=3, lane_bits=5, b_along_k=0),
        any_product(9, 1, 7, 13, 2, JOIN, slices=20, join_bits=3),
    ],
}
# Their last barrier is redundant: after it thread 0 reads its own values.
LAST_IS_REDUNDANT = {("reduce", 5), ("reduce", 6), ("reduce", 7)}


@cache
def image(family):
    """Return what a family's kernels share, their functions by name, and the kernels."""
    functions, kernels = {}, {}
    for name in (name for name, file in _core.kernels().items() if file == family):
        text = _core.kernel_ptx(name, 75)
        shared = text[: re.search(r"(?m)^\.(func|visible \.entry) ", text).start()]
        for each in re.findall(r"(?ms)^\.func [^;]*?^\{.*?^\}$", text):
            functions[re.match(r"\.func\s+(?:\([^)]*\)\s*)?(\w+)", each)[1]] = each
        kernels[name] = re.search(r"(?ms)^\.visible \.entry .*?^\}$", text)[0]
    return shared, functions, kernels


def bodies(text, functions):
    """Return a kernel's text and those of the functions that it calls, by others too."""
    found, texts = set(), [text]
    for each in texts:
        called = {name for name in functions if re.search(rf"\b{name}\b", each)} - found
        found |= called
        texts += [functions[name] for name in called if functions[name] is not each]
    return texts


def rung_cases():
    for family in CASES:
        for rung in gpuopt.rungs(family):
            if not (rung.host or rung.listing):
                yield pytest.param(rung, id=f"{family}-{rung.variant}")


@pytest.mark.parametrize("rung", list(rung_cases()))
def test_removing_any_barrier_is_detected(rung):
    head, functions, kernels = image(rung.family)
    cases = {}  # by kernel: a rung may leave some cases to another's
    own = OWN_CASES.get((rung.family, rung.variant), [])
    for launch, values in own:
        cases.setdefault(launch.kernel, []).append((launch, values))
    for call, values in (
        [] if own else CASES[rung.family] + MORE_CASES.get((rung.family, rung.variant), [])
    ):
        launch = call
        if callable(call):
            with gpuopt.Profile("sim", collecting=True) as profiled:
                call(rung.variant)
            launch = profiled.launches[0]
        cases.setdefault(launch.kernel, []).append((launch, values))
    for name, launches in cases.items():
        source = "\n".join([head, *functions.values(), kernels[name]])
        check_barriers(rung, name, launches, source, bodies(kernels[name], functions))


def check_barriers(rung, name, launches, source, texts):
    def found(source):
        kernel = gpuopt.load_ptx(source, "sim")[name]
        takes = len(kernel.parameters)
        wide = kernel.parameters[-1][0] == ".b8"  # a struct: two arrays, and it
        return [
            finding.kind
            for launch, values in launches
            for finding in gpuopt.check(
                kernel,
                launch.grid,
                launch.block,
                *([*values[:2], values[-1]] if wide and len(values) > takes else values[:takes]),
                any_dtype=True,  # a result's room serves every accumulator
                shared=launch.shared_bytes + (1024 if wide else 0),  # more than the planner's
            )
        ]

    assert bool(found(source)) == rung.historical
    barriers = [
        barrier
        for text in reversed(texts)  # the kernel's own last
        for at in [source.index(text)]
        for barrier in BARRIER.finditer(source, at, at + len(text))
    ]
    for index, barrier in enumerate(barriers):
        races = found(source[: barrier.start()] + source[barrier.end() :])
        if index == len(barriers) - 1 and (rung.family, rung.variant) in LAST_IS_REDUNDANT:
            assert not races, f"the last barrier of {name} matters after all: take it off the list"
        else:
            missed = {"race in shared memory", "race in global memory"} & {*races}
            assert missed, f"barrier {index} of {name} is not missed"


# vector_plan of vector_plan.cuh, for sums whose operands are turned in tiles.
SUM_AXIS = np.dtype(
    [("extent", "u8")]
    + [(name, "u4") for name in ("magic", "shift", "tiles", "tile", "tile_magic")]
    + [(name, "i8") for name in ("x", "y", "out")],
    align=True,
)
SUM_PLAN = np.dtype(
    [(name, "u8") for name in ("n", "x_number", "y_number")]
    + [(name, "u4") for name in ("axis_count", "is_grouped", "is_long", "turns_x", "turns_y")]
    + [(name, "u4") for name in ("x_layout", "y_layout", "row_ends")]
    + [("ends", "i8", 4), ("axes", SUM_AXIS, 8)],
    align=True,
)


def test_sums_in_tiles_miss_their_barrier():
    rows, columns, name = 30, 33, "vector_8_add_float32_float32"
    plan = np.zeros((), SUM_PLAN)
    plan["axis_count"], plan["turns_x"] = 2, 1
    for axis, extent, x, y in ((0, columns, rows, 1), (1, rows, 1, columns)):
        magic = -(-(1 << 32) // extent)
        plan["axes"][axis] = (extent, 0, 0, 1, extent, magic, x, y, y)
    arrays = [np.ones(rows * columns, FLOAT) for _ in range(3)]
    launch = SimpleNamespace(grid=1, block=256, shared_bytes=columns * (rows | 1) * 4)
    head, functions, kernels = image("vector")
    source = "\n".join([head, *functions.values(), kernels[name]])
    (rung,) = (rung for rung in gpuopt.rungs("add") if rung.name == "strided")
    check_barriers(
        rung,
        name,
        [(launch, [*arrays, rows * columns, FLOAT(0), plan.tobytes()])],
        source,
        [kernels[name]],
    )


def test_every_family_with_barriers_has_a_case():
    kernels = _core.kernels().items()
    families = {file for name, file in kernels if BARRIER.search(_core.kernel_ptx(name, 75))}
    ladders = families & set(cases_module.FAMILIES)
    assert ladders <= set(CASES), "CASES says how to call a family's rungs"
