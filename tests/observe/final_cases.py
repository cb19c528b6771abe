"""Twelve kernels of users, predicted after the last change of the model, then measured."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from user_kernels import Case, main

PTX = Path(__file__).parent / "final" / "kernels.ptx"
E_X, E_Y = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)


def _basis():
    k, n = np.mgrid[:8, :8]
    return np.where(k == 0, np.sqrt(1 / 8), 0.5 * np.cos((2 * n + 1) * k * np.pi / 16))


def _dct(x):
    c = _basis()
    blocks = x.reshape(x.shape[0] // 8, 8, -1, 8).astype(float)
    return np.einsum("vk,akbl,ul->avbu", c, blocks, c).reshape(x.shape)


def _bilateral(x, sharp):
    p, (h, w) = np.pad(x.astype(float), 2, "edge"), x.shape
    total, weights = 0.0, 0.0
    for j in range(5):
        for i in range(5):
            near = p[j : j + h, i : i + w]
            each = np.exp(-0.125 * ((i - 2) ** 2 + (j - 2) ** 2) - sharp * (near - x) ** 2)
            total, weights = total + each * near, weights + each
    return total / weights


def _min_plus(a, b):
    return np.stack([(row[:, None] + b).min(0) for row in a])


def _lattice(f, relax):
    f = np.stack([np.roll(f[k].astype(float), (E_Y[k], E_X[k]), (0, 1)) for k in range(9)])
    rho = f.sum(0)
    ux, uy = (np.tensordot(e, f, 1) / rho for e in (E_X, E_Y))
    w = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    for k in range(9):
        e = 3 * (E_X[k] * ux + E_Y[k] * uy)
        equal = w[k] * rho * (1 + e + 0.5 * e * e - 1.5 * (ux * ux + uy * uy))
        f[k] += relax * (equal - f[k])
    return f


def _factorised(a):
    a = a.copy()
    for k in range(6):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[None, k, k + 1 :]
    return a


def _attention(q, k, v):
    s = q.astype(float) @ k.T.astype(float)
    w = np.exp(s - s.max(1, keepdims=True))
    return w @ v / w.sum(1, keepdims=True)


def _table(random, keys, size):
    """Return a hash table by linear probing: (key, value), key 0 is free."""
    table = np.zeros((size, 2), np.uint32)
    for at, key in zip((keys * np.uint32(2654435761)) >> np.uint32(8), keys, strict=True):
        place = int(at) & (size - 1)
        while table[place, 0]:
            place = (place + 1) & (size - 1)
        table[place] = key, random.integers(1 << 31)
    return table


@cache
def cases() -> dict[str, Case]:
    """Return the cases by name."""
    random = np.random.default_rng(43)
    f, zeros = np.float32, np.zeros_like
    particles = random.random((1 << 19, 5), f)
    image = random.random((1024, 2048), f)
    basis = _basis().astype(f)
    ints = random.integers(-100, 100, 1 << 21, np.int32)
    kept = (ints.reshape(-1, 256) > 0).sum(1)
    first = (np.cumsum(kept) - kept).astype(np.int32)
    rows, width = 1 << 16, 24
    column = random.integers(0, rows, (width, rows), np.int32)
    value, x = random.random((width, rows), f), random.random(rows, f)
    a, b = (100 * random.random((512, 512), f) for _ in range(2))
    gas = (0.5 + random.random((9, 256, 512), f)).astype(f)
    matrices = random.random((6, 6, 1 << 15)) + 6 * np.eye(6)[:, :, None]
    bins = random.integers(0, 1 << 16, 1 << 21, np.int32)
    amounts = random.integers(0, 100, 1 << 21, np.int32)
    q, k, v = (random.random((8192, 16), f) for _ in range(3))
    k, v = k[:512], v[:512]
    keys = random.choice(np.arange(1, 1 << 22, dtype=np.uint32), 1 << 16, replace=False)
    table = _table(random, keys, 1 << 17)
    wanted = random.choice(np.concatenate([keys, keys + np.uint32(1 << 22)]), 1 << 19)
    known = dict(table[table[:, 0] > 0].tolist())
    text = np.minimum(random.geometric(0.08, 1 << 22), 255).astype(np.uint8)

    def gathered():
        return (value.astype(float) * x[column]).sum(0)

    def added():
        return np.bincount(bins, amounts, 1 << 16).astype(np.int32)

    every = [
        Case("structures", particles.shape[0] // 256, 256,
             (particles.shape[0], particles, np.zeros((5, particles.shape[0]), f)),
             lambda: particles.T),
        Case("dct", (64, 128), (8, 8, 4), (2048, basis, image, zeros(image)),
             lambda: _dct(image), 1e-5),
        Case("bilateral", (64, 128), (32, 8), (2048, 1024, 4.0, image, zeros(image)),
             lambda: _bilateral(image, 4.0), 1e-5),
        Case("compact", ints.size // 256, 256, (ints, first, zeros(ints)), lambda: ints[ints > 0]),
        Case("ellpack", rows // 128, 128, (rows, width, column, value, x, zeros(x)),
             gathered, 1e-5),
        Case("min_plus", (16, 16), (32, 8), (512, a, b, zeros(a)), lambda: _min_plus(a, b), 1e-6),
        Case("lattice", (4, 256), 128, (512, 256, 0.6, gas, zeros(gas)),
             lambda: _lattice(gas, 0.6), 1e-5),
        Case("factorise", (1 << 15) // 128, 128, (1 << 15, matrices, zeros(matrices)),
             lambda: _factorised(matrices), 1e-12),
        Case("scatter_add", bins.size // 256, 256, (bins, amounts, np.zeros(1 << 16, np.int32)),
             added),
        Case("attention", 128, 64, (512, q, k, v, zeros(q)), lambda: _attention(q, k, v), 1e-5),
        Case("probe", wanted.size // 256, 256,
             ((1 << 17) - 1, table, wanted, np.zeros(wanted.size, np.uint32)),
             lambda: np.array([known.get(each, 0xFFFFFFFF) for each in wanted.tolist()])),
        Case("letters", 264, 256, (text.size, text, np.zeros(256, np.uint32)),
             lambda: np.bincount(text, minlength=256)),
    ]  # fmt: skip
    return {each.name: each for each in every}


if __name__ == "__main__":
    main(PTX, cases(), *sys.argv[1:])
