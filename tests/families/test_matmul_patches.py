"""Rungs 11 and 12 with asynchronous copies, which its PTX for compute capability 9.0 has.

The simulated GPU runs the library's kernels from their PTX for 7.5, where layers pass through
registers, so these tests load the other PTX and fill the plan of matmul_plan.cuh.
"""

import ctypes
import itertools

import numpy as np
import pytest
from conftest import KINDS

import gpuopt
from gpuopt import _core

pytestmark = pytest.mark.skipif("sim" not in KINDS or bool(KINDS["sim"]), reason="needs the sim")

# threads, logarithms of the patches down and across
SHAPES = [(128, 4, 3), (128, 3, 3), (128, 4, 2), (128, 4, 1), (256, 4, 3), (256, 3, 3), (256, 4, 2),
          (256, 3, 2)]  # fmt: skip
PATCHES = {128: (8, 4, 4), 256: (4, 4, 3)}  # rows, columns of float32; stages
WIDE = ("m", "n", "k", "a_row", "a_k", "b_k", "b_column", "c_row", "c_column", "outputs", "chunk",
        "tiles", "across")  # fmt: skip
NARROW = ("slices", "is_swapped", "down_bits", "across_bits", "team_bits", "run_bits",
          "lane_bits", "join_bits", "a_along_k", "b_along_k", "axis_count")  # fmt: skip


class Plan(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in WIDE),
        *((name, ctypes.c_uint32) for name in NARROW),
        ("axes", ctypes.c_uint64 * 18),
    ]


def plan_of(shape, a, b, turned):
    """Return a plan of one slice, its blocks, and bytes of shared memory, for float32."""
    threads, down, across = shape
    rows, columns, stages = PATCHES[threads]
    rows, columns = rows << down, columns << across
    (m, k), n = a.shape, b.shape[1]
    team = threads.bit_length() - 1 - down - across
    deep = 8 << team
    a_row, a_k, b_k, b_column = (step // 4 for x in (a, b) for step in x.strides)
    wide = -(-n // columns)
    tiles = -(-m // rows) * wide
    plan = Plan(m, n, k, a_row, a_k, b_k, b_column, *((1, m) if turned else (n, 1)), m * n, k,
                tiles, wide, 1, 0, down, across, team, 4, 0, 0, a_k <= a_row,
                b_k < b_column)  # fmt: skip
    staged = (4 << across) * (rows + 4) if turned else (4 << down) * (columns + 4)
    sums = threads // 2 * PATCHES[threads][0] * PATCHES[threads][1] if team else 0
    return bytes(plan), tiles, 4 * max(stages * (rows + columns) * (deep + 1), sums, staged)


def laid_out(rng, shape, layout):
    """Return a float32 matrix: whole, transposed, with gaps in rows, or padded to words."""
    m, n = shape
    if layout == "transposed":
        return rng.standard_normal((n, m), dtype="f4").T
    if layout == "stepped":
        return rng.standard_normal((m, 2 * n), dtype="f4")[:, ::2]
    return rng.standard_normal((m, n + (-n % 4 if layout == "padded" else 0)), dtype="f4")[:, :n]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_asynchronous_layers_match_numpy_without_a_finding(shape, rng):
    name = f"matmul_12_matmul_float32_float32_b{shape[0]}"
    kernel = gpuopt.load_ptx(_core.kernel_ptx(name, 90), device="sim:h200")[name]
    for (m, k, n), (of_a, of_b), turned in itertools.product(
        ((130, 37, 69), (128, 64, 64), (37, 5, 130)),
        (("whole", "padded"), ("transposed", "whole"), ("stepped", "transposed"), ("padded",) * 2),
        (False, True),
    ):
        a, b = laid_out(rng, (m, k), of_a), laid_out(rng, (k, n), of_b)
        plan, blocks, shared = plan_of(shape, a, b, turned)
        c = np.full((n, m) if turned else (m, n), np.nan, "f4")
        stored = [np.ascontiguousarray(x.T if x.strides[0] < x.strides[1] else
                  x if x.base is None else x.base) for x in (a, b)]  # fmt: skip
        arguments = (blocks, shape[0], *stored, c, 0, plan)
        assert gpuopt.check(kernel, *arguments, shared=shared) == []
        kernel(*arguments, shared=shared)
        a, b = a.astype(float), b.astype(float)
        bound = (k + 4) * 2.0**-24 * (abs(a) @ abs(b))
        assert (abs((c.T if turned else c) - a @ b) <= bound).all(), (m, k, n, turned)


TILINGS = [(256, 128, 128, 8, 4), (128, 128, 32, 8, 4), (64, 64, 64, 8, 4)]


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_asynchronous_tiles_match_numpy_without_a_finding(tiling, rng):
    threads, rows, columns, depth, stages = tiling
    name = f"matmul_11_matmul_float32_float32_b{threads}"
    kernel = gpuopt.load_ptx(_core.kernel_ptx(name, 90), device="sim:h200")[name]
    shared = 4 * stages * depth * (rows + columns + 8)
    for (m, k, n), (of_a, of_b) in itertools.product(
        ((130, 37, 69), (128, 64, 64), (37, 5, 130)),
        (("whole", "padded"), ("transposed", "whole"), ("stepped", "transposed"), ("padded",) * 2),
    ):
        a, b = laid_out(rng, (m, k), of_a), laid_out(rng, (k, n), of_b)
        across, layers = -(-n // columns), -(-k // depth)
        tiles = -(-m // rows) * across
        steps = (step // 4 for x in (a, b) for step in x.strides)
        plan = bytes(Plan(m, n, k, *steps, n, 1, m * n, k, tiles, across, 1))
        stored = [np.ascontiguousarray(x.T if x.strides[0] < x.strides[1] else
                  x if x.base is None else x.base) for x in (a, b)]  # fmt: skip
        c = np.full((m, n), np.nan, "f4")
        arguments = (tiles, threads, *stored, c, 0, 0, tiles, 0, layers, 0, plan)
        assert gpuopt.check(kernel, *arguments, shared=shared) == []
        kernel(*arguments, shared=shared)
        a, b = a.astype(float), b.astype(float)
        assert (abs(c - a @ b) <= (k + 4) * 2.0**-24 * (abs(a) @ abs(b))).all(), (m, k, n)
