"""Twelve kernels of users of still other kinds, predicted before an H200 measured them."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from user_kernels import Case, main

PTX = Path(__file__).parent / "fresh" / "kernels.ptx"


def _energies(x, window, count):
    sums = np.concatenate([[0.0], np.cumsum(x.astype(float) ** 2)])
    return (sums[window:] - sums[:-window])[:count]


def _below(diagonal, beside, bounds):
    """Return how many elements of Sturm's sequence are negative, in single precision."""
    q, found = np.ones_like(bounds), np.zeros(bounds.shape, np.int32)
    with np.errstate(divide="ignore"):
        for i, (own, other) in enumerate(zip(diagonal, beside, strict=True)):
            q = own - bounds - (other * other / q if i else np.float32(0))
            found += q < 0
    return found


def _logistic(steps, first, step, count):
    r, x = first + step * np.arange(count), np.full(count, 0.5)
    for _ in range(steps):
        x = r * x * (1 - x)
    return x


def _found(keys, wanted, depth):
    node = np.zeros(wanted.shape, np.int64)
    for _ in range(depth):
        node = 2 * node + 1 + (keys[node] < wanted)
    return node


def _colours(hsv):
    """Return four bytes a pixel, as doubles tell."""
    h, s, v = (hsv[:, k].astype(float) for k in range(3))
    c = v * s
    x, m = c * (1 - np.abs(np.mod(6 * h, 2) - 1)), v - c
    zero, turn = np.zeros_like(c), np.minimum((6 * h).astype(int), 5)
    red = np.choose(turn, [c, x, zero, zero, x, c])
    green = np.choose(turn, [x, c, c, x, zero, zero])
    blue = np.choose(turn, [zero, zero, x, c, c, x])
    found = [np.floor(255 * (each + m)) for each in (red, green, blue)]
    return np.stack([*found, np.full_like(c, 255)], 1)


def _waves(before, now, c):
    found = np.zeros_like(now)
    middle = now[1:-1, 1:-1]
    around = now[1:-1, :-2] + now[1:-1, 2:] + now[:-2, 1:-1] + now[2:, 1:-1]
    found[1:-1, 1:-1] = 2 * middle - before[1:-1, 1:-1] + c * (around - 4 * middle)
    return found


def _distances(points):
    p, found = points[:, :3].astype(float), []
    for each in np.array_split(p, len(p) // 128):
        off = np.abs(each[:, None] - p)
        squares = (np.minimum(off, 1 - off) ** 2).sum(2)
        found.append(np.where(squares > 0, squares, 1e30).min(1))
    return np.concatenate(found)


def _runs(text):
    found, alive = np.ones(text.shape, np.uint8), np.ones(text.shape, bool)
    for k in range(1, 32):
        alive[:-k] &= text[k:] == text[:-k]
        alive[-k:] = False
        found += alive
    return found


def _banded(bands, x):
    found = np.zeros(x.shape)
    for band, shift in zip(bands.astype(float), range(-256, 257, 64), strict=True):
        at = np.arange(x.size) + shift
        inside = (at >= 0) & (at < x.size)
        found[inside] += band[inside] * x[at[inside]]
    return found


def _lower(matrices):
    return np.linalg.cholesky(matrices.astype(float))


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name."""
    random = np.random.default_rng(97)
    f, zeros = np.float32, np.zeros_like
    signal = random.random((1 << 20) + 64, f)
    rows = random.random((2048, 1024), f)
    factors = random.normal(size=(2048, 24, 24))
    spread = (factors @ factors.transpose(0, 2, 1) + 24 * np.eye(24)).astype(f)
    own, beside = random.random((2, 256), f)
    bounds = np.linspace(-1, 2, 1 << 16, dtype=f)
    keys = np.zeros((1 << 20) - 1, np.int32)
    order = np.sort(random.integers(1 << 30, size=keys.size, dtype=np.int32))
    for level in range(20):  # each level's keys lie evenly in the order
        first, count = (1 << level) - 1, 1 << level
        keys[first : first + count] = order[(2 * np.arange(count) + 1) * (1 << 19 - level) - 1]
    wanted = random.integers(1 << 30, size=1 << 17, dtype=np.int32)
    mixed = random.random((1024, 256), f)
    pixels = random.random((1 << 20, 4), f)
    before, now = random.random((2, 1024, 1536))
    particles = random.random((8192, 4), f)
    text = np.repeat(random.integers(3, size=1 << 20, dtype=np.uint8), 2)
    bands, vector = random.random((9, 1 << 19), f), random.random(1 << 19, f)
    colours = np.zeros((1 << 20, 4), np.uint8)
    every = [
        Case("moving_energy", 512, 128, (signal.size, 48, signal, np.zeros(1 << 20, f)),
             lambda: _energies(signal, 48, 1 << 20), 1e-4),
        Case("row_sums", 512, 128, (1024, rows, zeros(rows)),
             lambda: np.cumsum(rows.astype(float), 1), 1e-5),
        Case("cholesky24", 512, 128, (spread, zeros(spread)), lambda: _lower(spread), 1e-5),
        Case("sturm", 512, 128, (256, own, beside, bounds, np.zeros(bounds.size, np.int32)),
             lambda: _below(own, beside, bounds), others=0.01),
        Case("logistic", 512, 256, (500, 2.5, 4e-6, np.zeros(1 << 17)),
             lambda: _logistic(500, 2.5, 4e-6, 1 << 17), 1e-9),
        Case("tree_find", 1024, 128, (20, keys, wanted, np.zeros(wanted.size, np.int32)),
             lambda: _found(keys, wanted, 20)),
        Case("odd_even", 1024, 128, (mixed, zeros(mixed)), lambda: np.sort(mixed, 1)),
        Case("hsv_rgb", 4096, 256, (1 << 20, pixels, colours), lambda: _colours(pixels),
             others=0.01),
        Case("wave2d", (48, 128), (32, 8), (1536, 1024, 0.3, before, now, zeros(now)),
             lambda: _waves(before, now, 0.3), 1e-12),
        Case("closest", 16, 128, (8192, particles, np.zeros(8192, f)),
             lambda: _distances(particles), 1e-5),
        Case("run_lengths", text.size // 256, 256, (text.size, text, zeros(text)),
             lambda: _runs(text)),
        Case("banded9", 2048, 256, (1 << 19, bands, vector, zeros(vector)),
             lambda: _banded(bands, vector), 1e-5),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
