"""Twelve kernels of users of further classes, predicted before an H200 measured them."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from user_kernels import Case, main

PTX = Path(__file__).parent / "twelve" / "kernels.ptx"


def _accelerations(body, soft):
    found = np.zeros_like(body)
    p = body.astype(float)
    for at in range(0, len(p), 512):
        apart = p[None, :, :3] - p[at : at + 512, None, :3]
        squares = (apart**2).sum(2) + soft
        found[at : at + 512, :3] = np.einsum("ij,ijk->ik", p[:, 3] * squares**-1.5, apart)
    return found


def _blurred(image):
    p = np.pad(image.astype(float), 3, "edge")
    h, w = image.shape
    return sum(p[j : j + h, i : i + w] for j in range(7) for i in range(7)) / 49


def _digits(keys, shift):
    """Return the first place of each digit of each block of 256 keys, and the keys in order."""
    digits = keys >> shift & 15
    counts = np.stack([np.bincount(each, minlength=16) for each in digits.reshape(-1, 256)])
    before = np.cumsum(counts.T.ravel()) - counts.T.ravel()
    return before.reshape(16, -1).T.astype(np.int32).copy(), keys[np.argsort(digits, kind="stable")]


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name."""
    random = np.random.default_rng(47)
    f, zeros = np.float32, np.zeros_like
    tiles = random.integers(1 << 63, size=(512, 2048), dtype=np.uint64)
    keys = random.integers(0, 1 << 32, 1 << 21, np.uint32)
    first, ordered = _digits(keys, 8)
    rows = random.random((1024, 4096), f)
    count = 1 << 16
    lengths = random.integers(4, 29, count)
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = random.integers(0, count, begin[-1], np.int32)
    value, x = random.random(begin[-1]), random.random(count)
    body = random.random((8192, 4), f)
    signal = random.random((4096, 256, 2), f)
    matrix = (random.random((4096, 16, 16), f) + 8 * np.eye(16, dtype=f)).astype(f)
    right = random.random((4096, 16), f)
    powers, points = random.random(25), random.random(1 << 20)
    following = random.permutation(1 << 21).astype(np.int32)
    image = random.random((2048, 1024), f)
    inserted = random.choice(np.arange(1, 1 << 24, dtype=np.uint32), 1 << 17, replace=False)
    few = random.random((3, 200), f)

    def chased():
        at = following[: 1 << 18]
        for _ in range(24):
            at = following[at]
        return at

    def transformed():
        return np.fft.fft(signal.astype(float).view(complex)[..., 0]).view(float)

    every = [
        Case("sort_tiles", 512, 512, (tiles, zeros(tiles)), lambda: np.sort(tiles, 1)),
        Case("radix_pass", keys.size // 256, 256, (8, keys, first, zeros(keys)), lambda: ordered),
        Case("scan_rows", 1024, 256, (rows, zeros(rows)), lambda: np.cumsum(rows, 1, float), 1e-5),
        Case("spmv_quads", count // 32, 128, (count, begin, column, value, x, zeros(x)),
             lambda: np.add.reduceat(value * x[column], begin[:-1]), 1e-12),
        Case("nbody_tiles", 32, 128, (8192, 0.01, body, zeros(body)),
             lambda: _accelerations(body, 0.01), 1e-4),
        Case("fft256", 4096, 64, (signal, zeros(signal)), transformed, 1e-5),
        Case("solve16", 4096, (17, 16), (matrix, right, zeros(right)),
             lambda: np.linalg.solve(matrix.astype(float), right[..., None])[..., 0], 1e-4),
        Case("horner_double", 4096, 256, (points.size, powers, points, zeros(points)),
             lambda: np.polynomial.polynomial.polyval(points, powers), 1e-12),
        Case("chains", 256, 256, (24, following, np.zeros(1 << 18, np.int32)), chased),
        Case("box_blur", (32, 128), (32, 16), (1024, 2048, image, zeros(image)),
             lambda: _blurred(image), 1e-5),
        Case("hash_insert", inserted.size // 256, 256,
             ((1 << 18) - 1, inserted, np.zeros(1 << 18, np.uint32)),
             lambda: np.pad(np.sort(inserted), (inserted.size, 0)), any_order=True),
        Case("tiny_rows", 3, 64, (200, few, np.zeros(3, f)), lambda: few.sum(1, float), 1e-5),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
