"""Twenty more kernels of users, predicted before they were measured (`user_kernels`)."""

from __future__ import annotations

import sys
from functools import cache
from math import erf
from pathlib import Path

import numpy as np
from twenty_cases import cycle, forces
from user_kernels import Case, main

PTX = Path(__file__).parent / "blind" / "kernels.ptx"


def _jacobi3d(x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    i = slice(1, -1)
    y[i, i, i] = (
        x[:-2, i, i] + x[2:, i, i] + x[i, :-2, i] + x[i, 2:, i] + x[i, i, :-2] + x[i, i, 2:]
    ) / 6
    return y


def _life(x: np.ndarray) -> np.ndarray:
    alive = sum(
        np.roll(x, (v, u), (0, 1)) for v in (-1, 0, 1) for u in (-1, 0, 1) if (v, u) != (0, 0)
    )
    return ((alive == 3) | ((alive == 2) & (x == 1))).astype(np.uint8)


def _julia(width: int, height: int, most: int) -> np.ndarray:
    f, two = np.float32, np.float32(2)
    x = np.tile(f(3) * np.arange(width, dtype=f) / f(width) - f(1.5), (height, 1))
    y = np.tile((two * np.arange(height, dtype=f) / f(height) - f(1))[:, None], (1, width))
    count, inside = np.zeros((height, width), np.uint16), np.ones((height, width), bool)
    for _ in range(most):
        with np.errstate(all="ignore"):
            inside &= x * x + y * y <= 4
            x, y = x * x - y * y - f(0.8), two * x * y + f(0.156)
        count += inside
    return count


def _calls(price: np.ndarray, strike: np.ndarray, years: np.ndarray) -> np.ndarray:
    s, k, t = (each.astype(float) for each in (price, strike, years))
    root = 0.3 * np.sqrt(t)
    d = (np.log(s / k) + 0.065 * t) / root
    normal = np.vectorize(lambda v: 0.5 * (1 + erf(v / np.sqrt(2))))
    return s * normal(d) - k * np.exp(-0.02 * t) * normal(d - root)


def _normed(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    x = x.astype(float)
    off = x - x.mean(1, keepdims=True)
    return off / np.sqrt((off**2).mean(1, keepdims=True) + 1e-5) * gain


def _walked(following: np.ndarray, steps: int) -> np.ndarray:
    at = np.arange(32, dtype=np.int32) * 1024
    for _ in range(steps):
        at = following[at]
    return at


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name; their arrays are 400 MB."""
    random = np.random.default_rng(37)
    f = np.float32
    x, y = random.random(1 << 23, f), random.random(1 << 23, f)
    table = random.random((1 << 16, 256), f)
    rows = random.integers(0, len(table), 8192, np.int32)
    ordered = np.sort(random.integers(0, 1 << 30, 1 << 20, np.int32))
    keys = random.integers(0, 1 << 30, 1 << 19, np.int32)
    cube = random.random((192, 192, 192), f)
    board = random.integers(0, 2, (1024, 2048), np.uint8)
    signal, weights = random.random(1 << 20, f), random.random(33, f)
    ints = random.integers(-1000, 1000, 1 << 21, np.int32)
    some = random.random(1 << 18, f)
    a, b = random.random((384, 384)), random.random((384, 384))
    matrix, vector = random.random((4096, 2048), f), random.random(2048, f)
    bodies = random.random((4096, 4), f)
    n = 1 << 20
    price, strike, years = (low + random.random(n, f) for low in (5, 5, 0.25))
    price, strike, years = (each.astype(f) for each in (price, strike, years))
    doubles = random.random(n) * 8 - 4
    following = cycle(random, n)
    letters = random.integers(0, 256, 1 << 22, np.uint8)
    square = random.random((2048, 2048))
    fours = random.integers(-(1 << 31), 1 << 31, (1 << 21, 4), np.int32)
    words, gain = random.random((4096, 1024), f), random.random(1024, f)

    def counts() -> np.ndarray:
        first = np.arange(letters.size) // 256 % 264
        return np.bincount(first * 256 + letters, minlength=264 * 256)

    zeros = np.zeros_like
    every = [
        Case("triad", x.size // 256, 256, (x.size, 3.0, x, y, zeros(x)),
             lambda: x + 3 * y, 1e-6),
        Case("embed", rows.size, 128, (256, rows, table, np.zeros((rows.size, 256), f)),
             lambda: table[rows]),
        Case("binary_search", keys.size // 128, 128, (ordered.size, ordered, keys, zeros(keys)),
             lambda: np.searchsorted(ordered, keys)),
        Case("jacobi3d", (6, 48, 192), (32, 4), (192, cube, zeros(cube)),
             lambda: _jacobi3d(cube), 1e-6),
        Case("life", (32, 256), (64, 4), (2048, 1024, board, zeros(board)), lambda: _life(board)),
        Case("convolve", signal.size // 256, 256, (signal.size, signal, weights, zeros(signal)),
             lambda: np.correlate(np.pad(signal.astype(float), 16), weights, "valid"), 1e-5),
        Case("scan_warps", ints.size // 1024, 1024, (ints, zeros(ints)),
             lambda: np.cumsum(ints.reshape(-1, 1024), 1, np.int32)),
        Case("rank_sort", some.size // 256, 256, (some, zeros(some)),
             lambda: np.sort(some.reshape(-1, 256), 1)),
        Case("gemm_double", (24, 24), (16, 16), (384, a, b, zeros(a)), lambda: a @ b, 1e-12),
        Case("gemv", len(matrix) // 8, 256, (2048, matrix, vector, np.zeros(len(matrix), f)),
             lambda: matrix.astype(float) @ vector, 1e-5),
        Case("nbody_direct", len(bodies) // 64, 64, (len(bodies), bodies, zeros(bodies)),
             lambda: forces(bodies), 1e-3),
        Case("julia", (32, 64), (16, 8), (512, 512, 200, np.zeros((512, 512), np.uint16)),
             lambda: _julia(512, 512, 200), others=0.1),
        Case("black_scholes", 528, 256, (n, price, strike, years, zeros(price)),
             lambda: _calls(price, strike, years), 1e-5),
        Case("sigmoid", n // 128, 128, (n, doubles, zeros(doubles)),
             lambda: 1 / (1 + np.exp(-doubles)), 1e-12),
        Case("walk", 1, 32, (4096, following, np.zeros(32, np.int32)),
             lambda: _walked(following, 4096)),
        Case("block_sum", 1, 1024, (some.size, some, np.zeros(1, f)),
             lambda: some.sum(dtype=float), 1e-5),
        Case("histogram", 264, 256, (letters.size, letters, np.zeros(264 * 256, np.int32)), counts),
        Case("transpose_tile", (128, 128), (16, 16), (2048, square, zeros(square)),
             lambda: square.T),
        Case("max_all", 528, 256, (len(fours), fours, np.full(1, -(1 << 31), np.int32)),
             lambda: fours.max()),
        Case("layer_norm", len(words) // 4, 128, (words, gain, zeros(words)),
             lambda: _normed(words, gain), 1e-5),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
