"""The first twenty kernels of users, by which the model was mended once (`user_kernels`)."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from user_kernels import Case, main

PTX = Path(__file__).parent / "twenty" / "kernels.ptx"


def cycle(random: np.random.Generator, n: int) -> np.ndarray:
    """Return a permutation of one cycle."""
    order = random.permutation(n)
    found = np.empty(n, np.int32)
    found[order] = np.roll(order, -1)
    return found


def _chased(following: np.ndarray, threads: int, steps: int) -> np.ndarray:
    at = np.arange(threads, dtype=np.int32)
    for _ in range(steps):
        at = following[at]
    return at


def _stencil2d(x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    y[1:-1, 1:-1] = 0.5 * x[1:-1, 1:-1] + 0.125 * (
        x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
    )
    return y


def _stencil3d(x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    i = slice(1, -1)
    y[i, i, i] = 0.4 * x[i, i, i] + 0.1 * (
        x[:-2, i, i] + x[2:, i, i] + x[i, :-2, i] + x[i, 2:, i] + x[i, i, :-2] + x[i, i, 2:]
    )
    return y


def _blur(x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (7, 7))
    y[3:-3, 3:-3] = windows.sum((2, 3)) // 49
    return y


def forces(body: np.ndarray) -> np.ndarray:
    found = np.zeros(body.shape)
    for i, me in enumerate(body[:64, :3]):  # the first 64 alone
        d = body[:, :3].astype(float) - me
        found[i, :3] = (d * (body[:, 3] / ((d * d).sum(1) + 0.01) ** 1.5)[:, None]).sum(0)
    return found[:64]


def _steps(width: int, height: int, most: int) -> np.ndarray:
    f, two = np.float32, np.float32(2)
    cx = f(-2) + f(3) * np.arange(width, dtype=f)[None, :] / f(width)
    cy = f(-1) + two * np.arange(height, dtype=f)[:, None] / f(height)
    x, y, count = np.zeros((height, width), f), np.zeros((height, width), f), 0
    count = np.zeros((height, width), np.int32)
    inside = np.ones((height, width), bool)
    for _ in range(most):
        with np.errstate(all="ignore"):
            inside &= x * x + y * y < 4
            x, y = x * x - y * y + cx, two * x * y + cy
        count += inside
    return count


def _xorshift(x: np.ndarray, rounds: int) -> np.ndarray:
    for _ in range(rounds):
        x = x ^ (x << np.uint32(13))
        x = x ^ (x >> np.uint32(17))
        x = x ^ (x << np.uint32(5))
    return x


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _polynomial(v: np.ndarray) -> np.ndarray:
    found = np.ones_like(v)
    for _ in range(64):
        found = found * v + 0.5
    return found


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name; their arrays are 100 MB."""
    random = np.random.default_rng(36)
    f = np.float32
    n = 1 << 20
    big, x = random.random(1 << 22, f), random.random(n, f)
    at = random.integers(0, big.size, n, np.int32)
    to = random.permutation(n).astype(np.int32)
    plane, cube = random.random((2048, 2048), f), random.random((160, 160, 160), f)
    image = random.integers(0, 256, (1024, 1024), np.uint8)
    ints = random.integers(-1000, 1000, 1 << 21, np.int32)
    a, b = random.random((512, 512), f), random.random((512, 512), f)
    c, d = random.random((1024, 1024), f), random.random((1024, 1024), f)
    bodies = random.random((8192, 4), f)
    doubles = random.random(n)
    following = cycle(random, 1 << 20)
    words = random.integers(1, 1 << 32, 1 << 19, np.uint32)
    rows = 1 << 15
    begin = np.zeros(rows + 1, np.int32)
    begin[1:] = np.cumsum(random.integers(8, 57, rows))
    column = random.integers(0, rows, begin[-1], np.int32)
    value, vector = random.random(begin[-1], f), random.random(rows, f)
    matrix = random.random((4096, 1024), f)

    def product() -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(value.astype(float) * vector[column])])
        return sums[begin[1:]] - sums[begin[:-1]]

    def scattered() -> np.ndarray:
        found = np.empty_like(x)
        found[to] = x
        return found

    def special() -> np.ndarray:
        v = x.astype(float)
        return np.exp(-v * v) + np.log1p(v) * np.sin(v) + np.sqrt(v) / (1 + v)

    zeros = np.zeros_like
    every = [
        Case("axpy", 1056, 256, (n, 2.0, big, np.ones_like(big)), lambda: 2 * big + 1, 1e-6),
        Case("gather", n // 256, 256, (n, at, big, zeros(x)), lambda: big[at]),
        Case("scatter", n // 256, 256, (n, to, x, zeros(x)), scattered),
        Case("stencil2d", (64, 256), (32, 8), (2048, 2048, plane, zeros(plane)),
             lambda: _stencil2d(plane), 1e-6),
        Case("stencil3d", (5, 20), (32, 8), (160, cube, zeros(cube)),
             lambda: _stencil3d(cube), 1e-6),
        Case("blur", (32, 128), (32, 8), (1024, 1024, image, zeros(image)), lambda: _blur(image)),
        Case("scan", ints.size // 256, 256, (ints, zeros(ints)),
             lambda: np.cumsum(ints.reshape(-1, 256), 1, np.int32)),
        Case("bitonic", ints.size // 4 // 1024, 512, (ints[: ints.size // 4].copy(),),
             lambda: np.sort(ints[: ints.size // 4].reshape(-1, 1024), 1)),
        Case("matmul", (32, 32), (16, 16), (512, a, b, zeros(a)),
             lambda: a.astype(float) @ b, 1e-5),
        Case("matmul_tiled", (16, 16), 256, (1024, c, d, zeros(c)),
             lambda: c.astype(float) @ d, 1e-5),
        Case("nbody", 32, 256, (8192, bodies, zeros(bodies)), lambda: forces(bodies), 1e-3),
        Case("mandelbrot", (64, 64), (16, 8), (1024, 512, 128, np.zeros((512, 1024), np.int32)),
             lambda: _steps(1024, 512, 128), others=0.02),
        Case("special", n // 256, 256, (n, x, zeros(x)), special, 1e-5),
        Case("polynomial", n // 256, 256, (n, doubles, zeros(doubles)),
             lambda: _polynomial(doubles), 1e-12),
        Case("chase", 66, 64, (128, following, np.zeros(66 * 64, np.int32)),
             lambda: _chased(following, 66 * 64, 128)),
        Case("tiny", 4, 128, (1 << 17, x[: 1 << 17].copy(), np.zeros(512, f)),
             lambda: x[: 1 << 17].reshape(-1, 512).sum(0, float), 1e-5),
        Case("spmv", rows // 128, 128, (rows, begin, column, value, vector, np.zeros(rows, f)),
             product, 1e-5),
        Case("spmv_warps", rows // 4, 128,
             (rows, begin, column, value, vector, np.zeros(rows, f)), product, 1e-5),
        Case("softmax", 4096, 256, (1024, matrix, zeros(matrix)), lambda: _softmax(matrix), 1e-5),
        Case("xorshift", words.size // 256, 256, (64, words), lambda: _xorshift(words, 64)),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
