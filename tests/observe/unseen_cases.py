"""Twenty kernels of users of other classes, predicted before they were measured."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from scipy import special
from user_kernels import Case, main

PTX = Path(__file__).parent / "unseen" / "kernels.ptx"


def _thomas(low, mid, high, right):
    c, d = np.zeros_like(mid, float), np.zeros_like(mid, float)
    c[0], d[0] = high[0] / mid[0], right[0] / mid[0]
    for i in range(1, len(mid)):
        m = 1 / (mid[i] - low[i] * c[i - 1])
        c[i], d[i] = high[i] * m, (right[i] - low[i] * d[i - 1]) * m
    for i in range(len(mid) - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return d


def _butterflies(x, half):
    pairs = x.view(np.complex64).reshape(-1, 2, half).astype(complex)
    turned = pairs[:, 1] * np.exp(-1j * np.pi * np.arange(half) / half)
    return np.stack([pairs[:, 0] + turned, pairs[:, 0] - turned], 1).reshape(-1).view(float)


def _inside(threads, each):
    state = np.arange(threads, dtype=np.uint32) * np.uint32(747796405) + np.uint32(2891336453)
    hits = np.zeros(threads, np.int32)
    for _ in range(each):
        state = state * np.uint32(747796405) + np.uint32(2891336453)
        w = ((state >> ((state >> np.uint32(28)) + np.uint32(4))) ^ state) * np.uint32(277803737)
        w = (w >> np.uint32(22)) ^ w
        x, y = ((v / 65536).astype(np.float32) for v in (w & 0xFFFF, w >> np.uint32(16)))
        hits += x * x + y * y < 1
    return hits.reshape(-1, 32).sum(1)


def _found(text, pattern):
    last = text.size - pattern.size + 1
    found = np.ones(last, bool)
    for k, letter in enumerate(pattern):
        found &= text[k : last + k] == letter
    return np.pad(found.astype(np.uint8), (0, pattern.size - 1))


def _pulled(first, neighbour, level, depth):
    near = np.logical_or.reduceat(level[neighbour] == depth, first[:-1])
    return np.where((level < 0) & near, depth + 1, level)


def _dot(x, y, blocks, threads):
    products = (x.astype(float) * y).reshape(-1, blocks, threads)
    return products.sum((0, 2))


def _softmax(x):
    e = np.exp(x.astype(float) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _heat(x, k):
    p = np.pad(x.astype(float), 1, "edge")
    c = p[1:-1, 1:-1]
    return c + k * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * c)


def _star(x):
    y, i = np.zeros(x.shape), slice(2, -2)

    def at(axis, by):
        part = [i, i, i]
        part[axis] = slice(2 + by, x.shape[axis] - 2 + by)
        return x[tuple(part)].astype(float)

    near = sum(at(axis, by) for axis in range(3) for by in (-1, 1))
    far = sum(at(axis, by) for axis in range(3) for by in (-2, 2))
    y[i, i, i] = 0.5 * x[i, i, i] + 0.07 * near + 0.01 * far
    return y


def _escapes(width, height, most):
    x = np.zeros((height, width))
    y, n = np.zeros_like(x), np.zeros(x.shape, np.int32)
    cx = np.tile(-2 + 3.0 * np.arange(width) / width, (height, 1))
    cy = np.tile((-1 + 2.0 * np.arange(height) / height)[:, None], (1, width))
    inside = np.ones(x.shape, bool)
    for _ in range(most):
        with np.errstate(all="ignore"):
            inside &= x * x + y * y <= 4
            x, y = x * x - y * y + cx, 2 * x * y + cy
        n += inside
    return n


def _hopped(following, threads, steps):
    at = np.arange(threads, dtype=np.uint32) * np.uint32(61)
    for _ in range(steps):
        at = following[at]
    return at


def _anomaly(m):
    e = m.astype(float)
    for _ in range(50):
        e = e - (e - 0.3 * np.sin(e) - m) / (1 - 0.3 * np.cos(e))
    return e


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name."""
    random = np.random.default_rng(41)
    f, zeros = np.float32, np.zeros_like
    systems, rows = 1 << 14, 64
    low, high, right = (random.random((rows, systems), f) for _ in range(3))
    mid = (3 + random.random((rows, systems), f)).astype(f)
    signal = random.random(1 << 21, f)
    text = random.integers(97, 101, 1 << 22).astype(np.uint8)
    pattern = text[1000:1006].copy()
    vertices = 1 << 17
    degrees = random.integers(1, 33, vertices)
    first = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    neighbour = random.integers(0, vertices, first[-1], np.int32)
    level = np.where(random.random(vertices) < 0.1, 3, -1).astype(np.int32)
    x, y = random.random(264 * 256 * 40, f), random.random(264 * 256 * 40, f)
    square = random.random((2048, 2048), f)
    wide = (8 * random.random((1024, 4096), f)).astype(f)
    tokens, gain = random.random((16384, 512), f), random.random(512, f)
    letters = random.integers(0, 1 << 32, 1 << 21, np.uint32)
    points, centres = random.random((1 << 20, 4), f), random.random((32, 4), f)
    a, b = random.random((768, 768), f), random.random((768, 768), f)
    cube = random.random((128, 256, 256), f)
    ordered = [np.sort(random.integers(0, 1 << 30, 1 << 18, np.int32)) for _ in range(2)]
    numbers = (0.1 + 6 * random.random(1 << 20, f)).astype(f)
    following = random.permutation(1 << 22).astype(np.uint32)
    means = (6 * random.random(4 * 128, f)).astype(f)
    ints = random.integers(-1000, 1000, 1 << 21, np.int32)

    def counts():
        block = np.arange(letters.size) // 256 % 264
        octets = letters.view(np.uint8).reshape(-1, 4)
        return np.bincount((block[:, None] * 256 + octets).ravel(), minlength=264 * 256)

    def nearest():
        return np.stack([((points - each) ** 2).sum(1) for each in centres]).argmin(0)

    def prefix():
        part = ints.reshape(-1, 1024)
        return np.cumsum(part, 1, np.int32) - part

    every = [
        Case("thomas", systems // 64, 64,
             (systems, rows, low, mid, high, right, zeros(mid), zeros(mid)),
             lambda: _thomas(low, mid, high, right), 1e-5),
        Case("fft_stage", signal.size // 4 // 256, 256, (1 << 7, signal, zeros(signal)),
             lambda: _butterflies(signal, 1 << 7), 1e-6),
        Case("monte_carlo", 264, 256, (200, np.zeros(264 * 8, np.int32)),
             lambda: _inside(264 * 256, 200)),
        Case("string_search", text.size // 256, 256, (text.size, 6, text, pattern, zeros(text)),
             lambda: _found(text, pattern)),
        Case("bfs_pull", vertices // 128, 128, (vertices, 3, first, neighbour, level, zeros(level)),
             lambda: _pulled(first, neighbour, level, 3)),
        Case("dot", 264, 256, (x.size, x, y, np.zeros(264)), lambda: _dot(x, y, 264, 256), 1e-5),
        Case("transpose_swizzle", (64, 64), (32, 8), (2048, square, zeros(square)),
             lambda: square.T),
        Case("softmax_block", 1024, 256, (4096, wide, zeros(wide)), lambda: _softmax(wide), 1e-4),
        Case("rms_norm", 16384 // 8, 256, (tokens, gain, zeros(tokens)),
             lambda: tokens / np.sqrt((tokens.astype(float) ** 2).mean(1, keepdims=True) + 1e-5)
             * gain, 1e-5),
        Case("histogram_private", 264, 256, (letters.size, letters, np.zeros(264 * 256, np.uint32)),
             counts),
        Case("kmeans", 4096, 256, (1 << 20, points, centres, np.zeros(1 << 20, np.uint8)),
             nearest, others=0.001),
        Case("sgemm_tile", (12, 12), 256, (768, a, b, zeros(a)),
             lambda: a.astype(float) @ b, 1e-5),
        Case("heat_tile", (64, 128), (32, 16), (2048, 2048, 0.1, square, zeros(square)),
             lambda: _heat(square, 0.1), 1e-6),
        Case("star3d", (8, 32), (32, 8), (256, 256, 128, cube, zeros(cube)),
             lambda: _star(cube), 1e-6),
        Case("merge_ranks", 2048, 256, (1 << 18, *ordered, np.zeros(1 << 19, np.int32)),
             lambda: np.sort(np.concatenate(ordered))),
        Case("mandelbrot_double", (32, 64), (16, 8),
             (512, 512, 100, np.zeros((512, 512), np.int32)),
             lambda: _escapes(512, 512, 100), others=0.01),
        Case("gamma_ratio", 528, 256, (numbers.size, numbers, zeros(numbers)),
             lambda: numbers.astype(float) ** 1.7 * special.erf(numbers.astype(float))
             - special.gammaln(numbers.astype(float) + 1), 1e-5),
        Case("hops", 256, 256, (64, following, np.zeros(1 << 16, np.uint32)),
             lambda: _hopped(following, 1 << 16, 64)),
        Case("newton", 4, 128, (50, means, zeros(means)), lambda: _anomaly(means), 1e-5),
        Case("scan_blelloch", 2048, 512, (ints, zeros(ints)), prefix),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
