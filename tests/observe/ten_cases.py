"""Ten kernels of users of further kinds, predicted before an H200 measured them."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from scipy import ndimage
from user_kernels import Case, main

PTX = Path(__file__).parent / "ten" / "kernels.ptx"


def _distances(a, b):
    """Return the edit distance of each pair of rows."""
    count, length = a.shape
    row = np.tile(np.arange(length + 1), (count, 1))
    for i in range(length):
        new = np.empty_like(row)
        new[:, 0] = i + 1
        best = np.minimum(row[:, 1:] + 1, row[:, :-1] + (a[:, i, None] != b))
        for j in range(length):
            new[:, j + 1] = np.minimum(best[:, j], new[:, j] + 1)
        row = new
    return row[:, -1]


def _checksums(table, words):
    crc = np.full(words.shape[1], 0xFFFFFFFF, np.uint32)
    for word in words:
        crc ^= word
        for _ in range(4):
            crc = crc >> 8 ^ table[crc & 255]
    return ~crc


def _table():
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, crc >> 1 ^ 0xEDB88320, crc >> 1)
    return crc.astype(np.uint32)


def _hashes(key, words):
    def turned(v, by):
        return v << np.uint64(by) | v >> np.uint64(64 - by)

    names = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573
    v0, v1, v2, v3 = (np.full_like(words, key ^ name) for name in names)
    v3 ^= words
    for step in range(6):
        if step == 2:
            v0 ^= words
            v2 ^= np.uint64(255)
        v0, v2 = v0 + v1, v2 + v3
        v1, v3 = turned(v1, 13) ^ v0, turned(v3, 16) ^ v2
        v0 = turned(v0, 32)
        v2, v0 = v2 + v1, v0 + v3
        v1, v3 = turned(v1, 17) ^ v2, turned(v3, 21) ^ v0
        v2 = turned(v2, 32)
    return v0 ^ v1 ^ v2 ^ v3


def _turned(image, cosine, sine):
    height, width = image.shape
    y, x = np.mgrid[:height, :width]
    dx, dy = x - width // 2, y - height // 2
    u, v = dx * cosine - dy * sine + width * 128, dx * sine + dy * cosine + height * 128
    i, j, fu, fv = u >> 8, v >> 8, u & 255, v & 255
    inside = (i >= 0) & (i < width - 1) & (j >= 0) & (j < height - 1)
    i, j, p = np.where(inside, i, 0), np.where(inside, j, 0), image.astype(int)
    top = p[j, i] * (256 - fu) + p[j, i + 1] * fu
    bottom = p[j + 1, i] * (256 - fu) + p[j + 1, i + 1] * fu
    return np.where(inside, (top * (256 - fv) + bottom * fv) >> 16, 0)


def _nearest(points, queries):
    p, q = points.astype(float), queries.astype(float)
    return np.concatenate(
        [
            np.sort(((each[:, None] - p) ** 2).sum(2), 1)[:, :4]
            for each in np.array_split(q, len(q) // 256)
        ]
    )


def _labels(tiles):
    found = np.full(tiles.shape, -1, np.int32)
    index = np.arange(1024).reshape(32, 32)
    for tile, into in zip(tiles, found, strict=True):
        regions, count = ndimage.label(tile)
        least = ndimage.minimum(index, regions, np.arange(count + 1))
        into[tile > 0] = least[regions[tile > 0]]
    return found


def _hits(spheres, width):
    y, x = np.mgrid[:width, :width] / 512
    near, found = np.full((width, width), np.inf), np.full((width, width), -1, np.int32)
    for number, (sx, sy, sz, r) in enumerate(spheres.astype(float)):
        rest = r**2 - (x - sx) ** 2 - (y - sy) ** 2
        depth = np.where(rest > 0, sz - np.sqrt(np.maximum(rest, 0)), np.inf)
        found[depth < near] = number
        near = np.minimum(near, depth)
    return found


def _median(image):
    found = np.zeros_like(image)
    found[1:-1, 1:-1] = ndimage.median_filter(image, 3)[1:-1, 1:-1]
    return found


def _gelu(x):
    v = x.astype(float)
    return 0.5 * v * (1 + np.tanh(0.7978846 * (v + 0.044715 * v**3)))


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name."""
    random = np.random.default_rng(53)
    f, zeros = np.float32, np.zeros_like
    text, other = random.integers(97, 101, (2, 1024, 128), np.uint8)
    halves = random.normal(size=1 << 22).astype(np.float16)
    table, message = _table(), random.integers(1 << 32, size=(64, 1 << 16), dtype=np.uint32)
    words = random.integers(1 << 63, size=1 << 21, dtype=np.uint64)
    image = random.integers(256, size=(1024, 2048), dtype=np.uint8)
    points, queries = random.random((2048, 2), f), random.random((1 << 15, 2), f)
    tiles = (random.random((512, 32, 32)) < 0.6).astype(np.uint8)
    spheres = (random.random((64, 4)) * [2, 2, 5, 0.3] + [0, 0, 5, 0.1]).astype(f)
    picture = random.random((1024, 2048), f)
    matrix, x = (
        random.integers(-128, 128, (4096, 4096), np.int8),
        random.integers(-128, 128, 4096, np.int8),
    )
    every = [
        Case("edit_distance", 1024, 128, (text, other, np.zeros(1024, np.int32)),
             lambda: _distances(text, other)),
        Case("gelu_half", 528, 256, (halves.size // 2, halves, zeros(halves)),
             lambda: _gelu(halves), 1e-3),
        Case("crc_rows", 256, 256, (table, message, np.zeros(1 << 16, np.uint32)),
             lambda: _checksums(table, message)),
        Case("siphash", words.size // 256, 256, (np.uint64(0x0706050403020100), words.size, words,
             zeros(words)), lambda: _hashes(0x0706050403020100, words)),
        Case("rotate_image", (64, 128), (32, 8), (2048, 1024, 222, 128, image, zeros(image)),
             lambda: _turned(image, 222, 128)),
        Case("nearest4", 256, 128, (2048, points, queries, np.zeros((1 << 15, 4), f)),
             lambda: _nearest(points, queries), 1e-5),
        Case("label_tiles", 512, (32, 32), (tiles, np.zeros(tiles.shape, np.int32)),
             lambda: _labels(tiles)),
        Case("ray_spheres", (64, 64), (16, 16), (64, 1024, spheres, np.zeros((1024, 1024),
             np.int32)), lambda: _hits(spheres, 1024), others=1e-3),
        Case("median9", (8, 256), 256, (2048, 1024, picture, zeros(picture)),
             lambda: _median(picture)),
        Case("gemv_int8", 512, 256, (1024, matrix, x, np.zeros(4096, np.int32)),
             lambda: matrix.astype(np.int32) @ x.astype(np.int32)),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
