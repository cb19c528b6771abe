"""Layers, cubes, mipmaps, gathers, boundaries and surfaces against NumPy's model of them.

The model follows the programming guide ("Texture Fetching"); the weights of a linear filter have 8
bits of fraction, as `gpuopt.experiments.texture.sample` has them.
"""

from pathlib import Path

import numpy as np
import pytest
from conftest import on
from ptx_directives import without_names

import gpuopt

DEVICES = [on(kind, kind, id=kind) for kind in ("sim", "cuda")]
KERNELS = without_names((Path(__file__).parent / "surfaces.ptx").read_text())
SHARED = Path(__file__).parent / "surfaces.ptx"
N = 256


@pytest.fixture(params=DEVICES)
def module(request):
    return gpuopt.load_ptx(KERNELS if request.param == "cuda" else SHARED, request.param)


@pytest.fixture
def sim():
    return gpuopt.load_ptx(SHARED, "sim")


class Points:
    """Coordinates away from the ties between two texels or two weights."""

    def __init__(self, seed, extents=(1, 1, 1), *, normalised=False, layers=1, levels=1):
        rng = np.random.default_rng(seed)
        steps = [rng.integers(-3 * 256 * e, 4 * 256 * e, N) for e in extents]
        at = [(s + 0.25) / 256 for s in steps]
        scale = extents if normalised else (1, 1, 1)
        self.at = [np.float32(a / e) for a, e in zip(at, scale, strict=True)]
        self.layer = rng.integers(-1, layers + 1, N).astype(np.int32)
        self.level = np.float32(rng.integers(-64, 256 * levels, N) / 256 + 0.25 / 256)

    def arguments(self):
        return (*self.at, self.layer, self.level)


def inside(i, size, boundary):
    if boundary == "wrap":
        return i % size
    if boundary == "mirror":
        i = i % (2 * size)
        return np.where(i < size, i, 2 * size - 1 - i)
    if boundary == "border":
        return np.where((i >= 0) & (i < size), i, -1)
    return i.clip(0, size - 1)


def texels(data, places, boundary, border):
    """Return data[place], with the border where a place is -1; data: (z, y, x, channels)."""
    x, y, z = (inside(p, s, boundary) for p, s in zip(places, data.shape[2::-1], strict=True))
    found = data[z, y, x].astype(np.float64)
    return np.where(((x < 0) | (y < 0) | (z < 0))[:, None], np.float64(border), found)


def rounded(weight):
    return np.floor(weight * 256 + 0.5) / 256


def sampled(
    data, at, *, linear=False, normalised=False, boundary="clamp", border=0.0, dimensions=2, whole=1
):
    """Return what a fetch gives; data: (z, y, x, 4); whole: the sum of a filter's weights."""
    sizes = data.shape[2::-1]
    at = [np.float64(a) * (s if normalised else 1) for a, s in zip(at, sizes, strict=True)]
    at = [a if i < dimensions else np.full(N, 0.5) for i, a in enumerate(at)]
    if not linear:
        return texels(data, [np.floor(a).astype(int) for a in at], boundary, border)
    low = [np.floor(a - 0.5).astype(int) for a in at]
    part = [rounded(a - 0.5 - lo) for a, lo in zip(at, low, strict=True)]
    out = np.zeros((N, data.shape[-1]))
    for corner in range(1 << dimensions):
        # each weight has 8 bits of fraction, and they add up: measured on an H100
        plane = whole if dimensions < 3 else part[2] if corner >> 2 else 1 - part[2]
        right = rounded(plane * part[0])
        left = plane - right
        both, neither = rounded(right * part[1]), rounded(left * (1 - part[1]))
        weight = (neither, right - both, left - neither, both)[corner & 3]
        places = [lo + (corner >> i & 1) for i, lo in enumerate(low)]
        found = texels(data, places, boundary, border)
        out += np.reshape(weight, (-1, 1)) * found
    return out


def layer_of(points, layers):
    """Return the layers that are read: the index is unsigned, so a negative one means the last."""
    return points.layer.astype(np.uint32).clip(0, layers - 1)


def run(module, kernel, texture, points, dtype=np.float32, per_thread=4):
    out = np.full(N * per_thread, -99, dtype)
    module[kernel](1, N, texture, out, *points.arguments())
    return out.reshape(N, -1)


def close(module, got, want, linear, on_gpu=2.0**-10):
    bound = (2.0**-19 if module.device.startswith("sim") else on_gpu) if linear else 0
    assert got.shape == want.shape
    assert (np.abs(got - want) <= bound).all(), np.abs(got - want).max()


MODES = [
    ("clamp", False),
    ("clamp", True),
    ("wrap", True),
    ("mirror", True),
    ("border", False),
    ("border", True),
]


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(("boundary", "normalised"), MODES)
def test_boundaries(module, boundary, normalised, linear):
    plane = np.random.default_rng(1).random((8, 16, 4), np.float32)
    border = (0.25, -1.0, 2.0, 0.5) if boundary == "border" else 0.0
    how = {"boundary": boundary, "normalised": normalised, "border": border}
    made = module.texture(plane, channels=4, linear_filter=linear, **how)
    points = Points(2, (16, 8, 1), normalised=normalised)
    want = sampled(plane[None], points.at, linear=linear, **how)
    close(module, run(module, "plane", made, points), want, linear)
    if not linear:
        return
    volume = np.random.default_rng(3).random((4, 8, 16, 4), np.float32)
    made = module.texture(volume, channels=4, linear_filter=True, **how)
    points = Points(4, (16, 8, 4), normalised=normalised)
    want = sampled(volume, points.at, linear=True, dimensions=3, **how)
    # an H100 rounds some of the eight weights the other way
    close(module, run(module, "volume", made, points), want, True, on_gpu=2.0**-6)


@pytest.mark.parametrize("linear", [False, True])
def test_layers_are_clamped_and_never_mixed(module, linear):
    planes = np.random.default_rng(5).random((3, 8, 16, 4), np.float32)
    points = Points(6, (16, 8, 1), layers=3)
    made = module.texture(planes, channels=4, layered=True, linear_filter=linear)
    every = np.array([sampled(p[None], points.at, linear=linear) for p in planes])
    layer = layer_of(points, 3)
    close(module, run(module, "layered2", made, points), every[layer, np.arange(N)], linear)
    made = module.texture(planes[:, 0], channels=4, layered=True, linear_filter=linear)
    every = np.array([sampled(p[None, :1], points.at, linear=linear, dimensions=1) for p in planes])
    close(module, run(module, "layered1", made, points), every[layer, np.arange(N)], linear)


# by face, of the programming guide's table: the axis of m, and s and t as axis and sign
FACES = [
    (0, 1, (2, -1), (1, -1)),
    (0, -1, (2, 1), (1, -1)),
    (1, 1, (0, 1), (2, 1)),
    (1, -1, (0, 1), (2, -1)),
    (2, 1, (0, 1), (1, -1)),
    (2, -1, (0, -1), (1, -1)),
]


def directions(seed):
    """Return directions, their faces and the coordinates on them; none points at an edge."""
    rng = np.random.default_rng(seed)
    face = rng.integers(0, 6, N)
    s, t = ((rng.integers(0, 4 * 256, (2, N)) + 0.25) / (4 * 256)) * 2 - 1
    at = np.zeros((3, N))
    size = rng.uniform(0.5, 4, N)
    for i, (axis, sign, (a, a_sign), (b, b_sign)) in enumerate(FACES):
        here = face == i
        at[axis, here] = sign * size[here]
        at[a, here] = a_sign * s[here] * size[here]
        at[b, here] = b_sign * t[here] * size[here]
    return [np.float32(a) for a in at], face, ((s + 1) / 2, (t + 1) / 2)


def test_a_direction_between_faces_means_the_last_axis(module):
    cube = np.repeat(np.arange(6, dtype=np.float32), 16).reshape(6, 2, 2, 4)
    signs = np.random.default_rng(10).choice([-1.0, 1.0], (3, N))
    size = np.random.default_rng(11).choice([0.5, 1.0], (3, N)) * 0.7
    points = Points(9)
    points.at = [np.float32(a) for a in signs * size]
    axis = 2 - np.argmax(size[::-1], axis=0)
    want = 2 * axis + (signs[axis, np.arange(N)] < 0)
    got = run(module, "cube", module.texture(cube, channels=4, cube=True), points)
    assert (got[:, 0] == want).all()


@pytest.mark.parametrize("linear", [False, True])
def test_cube_maps_fetch_from_the_face_of_the_direction(module, linear):
    cubes = np.random.default_rng(7).random((2, 6, 4, 4, 4), np.float32)
    points = Points(8, layers=2)
    points.at, face, (s, t) = directions(9)
    on_face = (s, t, np.zeros(N))
    for kernel, data, cube in (
        ("cube", cubes[0], np.zeros(N, int)),
        ("cubes", cubes, layer_of(points, 2)),
    ):
        made = module.texture(
            data, channels=4, cube=True, layered=data.ndim == 5, linear_filter=linear
        )
        every = np.array(
            [
                [sampled(f[None], on_face, linear=linear, normalised=True) for f in faces]
                for faces in cubes
            ]
        )
        want = every[cube, face, np.arange(N)]
        got = run(module, kernel, made, points)
        assert np.abs(got - want).max() <= (2.0**-7 if linear else 0)  # float32 directions


def pyramid(seed, shape, channels=4):
    levels = []
    while not levels or max(levels[-1].shape[-3:-1]) > 1:
        extents = [max(1, e >> len(levels)) for e in shape]
        levels.append(np.random.default_rng(seed).random((*extents, channels), np.float32))
        seed += 1
    return levels


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("between", [False, True])
def test_mipmaps_fetch_from_the_requested_level(module, linear, between):
    levels = pyramid(10, (8, 16))
    assert len(levels) == 5
    points = Points(11, (16, 8, 1), normalised=True, levels=5)
    how = {"linear_filter": linear, "normalised": True, "linear_mipmaps": between}
    made = module.texture(levels[0], channels=4, mipmaps=levels[1:], **how)
    level = np.float64(points.level).clip(0, 4)

    def mixed(level):
        low = np.floor(level).astype(int) if between else np.floor(level + 0.5).astype(int)
        part = np.floor((level - low) * 256) / 256 if between else np.zeros(N)  # cut off
        total = np.zeros((N, 4))
        for i, plane in enumerate(levels):
            share = np.where(low == i, 1 - part, np.where(low + 1 == i, part, 0))
            whole = share if linear else 1  # each of four weights is rounded, or one texel's
            found = sampled(plane[None], points.at, linear=linear, normalised=True, whole=whole)
            total += found if linear else share[:, None] * found
        return total

    got = run(module, "level2", made, points)
    on_gpu = 2.0**-7 if linear and between else 2.0**-10  # eight weights: 0.0023 on an H100
    close(module, got, mixed(level), linear or between, on_gpu)


def test_gradients_move_to_the_level_that_a_gpu_estimates(module):
    levels = [np.full((16 >> i, 16 >> i, 4), i, np.float32) for i in range(5)]
    how = {"channels": 4, "normalised": True, "linear_mipmaps": True}
    points = Points(15, (16, 16, 1), normalised=True)
    points.level = np.float32(2.0 ** np.random.default_rng(16).uniform(-5, 1, N))
    for bias in (0, -0.75, 1.5):
        made = module.texture(levels[0], mipmaps=levels[1:], mipmap_bias=bias, **how)
        got = run(module, "gradient", made, points)[:, 0] * 256
        x, y = np.float64(points.level) * 16, np.float64(points.level) * 8  # at right angles
        length = np.maximum(x, (x + y * 11 / 32) * 11 / 16)
        exponent = np.floor(np.log2(length))
        digits = np.floor(length / 2**exponent * 256)
        part = np.minimum(np.floor(256 * np.log2((digits + 0.5) / 256) + 0.4695), 255)
        want = exponent * 256 + np.where(digits == 256, 0, part) + bias * 256
        off = np.abs(got - want.clip(0, 1024))
        assert off.max() <= 2 and (off == 0).mean() > 0.75


@pytest.mark.parametrize("bias", [-1.5, -0.003, 0.1, 0.25, 2.001])
def test_a_bias_is_added_to_the_level(module, bias):
    levels = [np.full((16 >> i, 16 >> i, 4), i, np.float32) for i in range(5)]
    points = Points(18, (16, 16, 1), normalised=True, levels=5)
    how = {"channels": 4, "normalised": True, "linear_mipmaps": True, "mipmap_bias": bias}
    made = module.texture(levels[0], mipmaps=levels[1:], **how)
    cut = np.trunc(np.float64(points.level) * 256) + np.trunc(bias * 256)
    assert (run(module, "level2", made, points)[:, 0] == (cut / 256).clip(0, 4)).all()
    assert (run(module, "plane", made, points)[:, 0] == 0).all(), "it has no level"
    with pytest.raises(ValueError, match="mipmap_bias: "):
        module.texture(levels[0], mipmaps=levels[1:], **how | {"mipmap_bias": np.nan})
    with pytest.raises(ValueError, match="mipmap_bias: "):
        module.texture(levels[0], channels=4, mipmap_bias=bias)


def test_mipmaps_of_lines_volumes_layers_and_cubes(module):
    how = {"channels": 4, "normalised": True}
    points = Points(12, (8, 8, 8), normalised=True, levels=4, layers=2)
    level = np.floor(np.float64(points.level).clip(0, 3) + 0.5).astype(int)
    lines = [p[0] for p in pyramid(13, (1, 8))]
    made = module.texture(lines[0], mipmaps=lines[1:], **how)
    every = np.array(
        [sampled(p[None, None], points.at, normalised=True, dimensions=1) for p in lines]
    )
    close(module, run(module, "level1", made, points), every[level, np.arange(N)], False)
    boxes = pyramid(14, (8, 8, 8))
    made = module.texture(boxes[0], mipmaps=boxes[1:], **how)
    every = np.array([sampled(p, points.at, normalised=True, dimensions=3) for p in boxes])
    close(module, run(module, "level3", made, points), every[level, np.arange(N)], False)
    pairs = [
        np.stack([a, b]) for a, b in zip(pyramid(20, (8, 8)), pyramid(30, (8, 8)), strict=True)
    ]
    made = module.texture(pairs[0], mipmaps=pairs[1:], layered=True, **how)
    every = np.array(
        [[sampled(p[None], points.at, normalised=True) for p in each] for each in pairs]
    )
    want = every[level, layer_of(points, 2), np.arange(N)]
    close(module, run(module, "layered_level", made, points), want, False)
    cubes = [
        np.random.default_rng(40 + i).random((6, 4 >> i, 4 >> i, 4), np.float32) for i in range(3)
    ]
    points.at, face, (s, t) = directions(15)
    made = module.texture(cubes[0], mipmaps=cubes[1:], cube=True, **how)
    every = np.array(
        [[sampled(p[None], (s, t, s), normalised=True) for p in faces] for faces in cubes]
    )
    level = np.floor(np.float64(points.level).clip(0, 2) + 0.5).astype(int)
    want = every[level, face, np.arange(N)]
    close(module, run(module, "cube_level", made, points), want, False)


def test_gather_returns_the_four_texels_of_a_channel(module):
    plane = np.random.default_rng(16).random((8, 16, 2), np.float32)
    points = Points(17, (16, 8, 1))
    got = run(module, "gathers", module.texture(plane, channels=2), points, per_thread=8)
    x, y = (np.floor(np.float64(a) - 0.5).astype(int) for a in points.at[:2])
    for i, (right, below) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
        want = plane[(y + below).clip(0, 7), (x + right).clip(0, 15)]
        assert (got[:, i] == want[:, 0]).all() and (got[:, 4 + i] == want[:, 1]).all()


@pytest.mark.parametrize(
    ("dtype", "most"),
    [("i1", 127), ("u1", 255), ("i2", 32767), ("u2", 65535)],
)
def test_integers_as_fractions_and_as_integers(module, dtype, most):
    kind = np.dtype(dtype)
    info = np.iinfo(kind)
    plane = np.random.default_rng(18).integers(info.min, info.max + 1, (8, 16, 4)).astype(kind)
    plane[0, :3, 0] = info.min, info.max, 0
    points = Points(19, (16, 8, 1))
    fractions = np.maximum(np.float32(plane) / np.float32(most), np.float32(-1))
    got = run(module, "plane", module.texture(plane, channels=4), points)
    assert np.abs(got - sampled(fractions[None], points.at)).max() <= 2.0**-22
    made = module.texture(plane, channels=4, linear_filter=True)
    got = run(module, "plane", made, points)
    # hardware mixes integers in 256ths and makes 16 bits of the sum
    mixed = np.int64(sampled(np.float64(plane)[None], points.at, linear=True) * 256)
    if kind.itemsize == 1:
        mixed = mixed * 257 if dtype == "u1" else mixed * 258 + (mixed >> 12) * 32
    one = 65535 if info.min == 0 else 32767
    want = np.maximum((mixed + 128) >> 8, -one) / one
    assert (got == np.float32(want)).all()
    made = module.texture(plane, channels=4, as_integers=True)
    got = run(module, "integers", made, points, np.int32)
    assert (got == sampled(np.float64(plane)[None], points.at)).all()


def test_half_precision_texels(module):
    plane = np.random.default_rng(20).standard_normal((8, 16, 4)).astype(np.float16)
    plane[0, :5, 0] = 6e-8, -65504, 1e-5, 0, -0.0
    points = Points(21, (16, 8, 1))
    got = run(module, "plane", module.texture(plane, channels=4), points)
    assert (got == sampled(np.float64(plane)[None], points.at)).all()


HALVES = """.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 t, .param .u64 o, .param .u64 x, .param .u64 y)
{{
    .reg .b64 %l<5>; .reg .b32 %r<4>; .reg .b16 %h<4>; .reg .f32 %f<2>;
    ld.param.u64 %l0, [t]; ld.param.u64 %l1, [o]; ld.param.u64 %l2, [x]; ld.param.u64 %l3, [y];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %l1, %r0, 8, %l1; mad.wide.u32 %l2, %r0, 4, %l2; mad.wide.u32 %l3, %r0, 4, %l3;
    ld.global.f32 %f0, [%l2]; ld.global.f32 %f1, [%l3];
    {}
    ret;
}}
"""


@pytest.mark.parametrize(
    "fetch",
    [
        "tex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%l0, {%f0, %f1}];\n"
        "st.global.v4.b16 [%l1], {%h0, %h1, %h2, %h3};",
        "tex.2d.v2.f16x2.f32 {%r1, %r2}, [%l0, {%f0, %f1}];\nst.global.v2.b32 [%l1], {%r1, %r2};",
    ],
    ids=["v4.f16", "v2.f16x2"],
)
@pytest.mark.parametrize("device", DEVICES)
def test_half_precision_results(device, fetch):
    plane = np.random.default_rng(29).standard_normal((8, 16, 4)).astype(np.float32)
    plane[0, :6, 0] = 1e-7, 65519, 70000, 3e-8, 1 + 2**-11, -0.0
    points = Points(30, (16, 8, 1))
    module = gpuopt.load_ptx(HALVES.format(fetch), device)
    out = np.zeros((N, 4), np.float16)
    module["k"](1, N, module.texture(plane, channels=4), out, *points.at[:2])
    with np.errstate(over="ignore"):
        want = sampled(plane[None], points.at).astype(np.float16)
    assert (out.view(np.uint16) == want.view(np.uint16)).all()


def test_fewer_channels_read_zero(module):
    plane = np.random.default_rng(22).random((8, 16), np.float32)
    got = run(module, "plane", module.texture(plane), Points(23, (16, 8, 1)))
    assert not got[:, 1:].any() and got[:, 0].all()
    out = run(
        module, "resident", module.texture(plane), Points(24, (16, 8, 1)), np.int32, per_thread=1
    )
    assert (out == 1).all()


@pytest.mark.parametrize(
    ("kernel", "dtype", "channels"),
    [
        ("f", "f4", 1),
        ("f4", "f4", 4),
        ("u8", "u1", 1),
        ("u8x4", "u1", 4),
        ("s16x2", "i2", 2),
        ("s64", "i4", 2),
    ],
)
def test_surfaces_read_and_write(module, kernel, dtype, channels):
    rng = np.random.default_rng(25)
    shape = (8, 32) + ((channels,) if channels > 1 else ())
    plane = rng.integers(0, 127, shape).astype(dtype)
    made = module.texture(plane, channels=channels, writable=True)
    order = rng.permutation(256)
    x, y = np.int32(order % 32), np.int32(order // 32)
    out = np.zeros((256, channels), dtype)
    pairs = {"any_dtype": kernel == "s64"}  # two elements of four bytes at once
    module[f"{kernel}2"](1, 256, made.surface, out, x, y, 0, **pairs)
    assert (out == plane[y, x].reshape(256, channels)).all()
    new = rng.integers(0, 127, (256, channels)).astype(dtype)
    module[f"{kernel}2"](1, 256, made.surface, new, x, y, 1, **pairs)
    want = np.zeros((8, 32, channels), dtype)
    want[y, x] = new
    assert made.get().dtype == dtype and (made.get() == want.reshape(shape)).all()
    line = module.texture(plane[0], channels=channels, writable=True)
    module[f"{kernel}1"](
        1, 32, line.surface, new, np.arange(32, dtype=np.int32)[::-1].copy(), 1, **pairs
    )
    assert (line.get().reshape(32, channels)[::-1] == new[:32]).all()
    module[f"{kernel}1"](1, 32, line.surface, out, np.arange(32, dtype=np.int32), 0, **pairs)
    assert (out[:32] == new[31::-1]).all()


def test_surfaces_of_volumes_layers_and_cubes(module):
    rng = np.random.default_rng(26)
    for kernel, shape, how in (
        ("deep", (4, 8, 16), {}),
        ("in_layers", (4, 8, 16), {"layered": True}),
        ("on_faces", (6, 8, 8), {"cube": True}),
    ):
        box = rng.random(shape, np.float32)
        made = module.texture(box, writable=True, **how)
        z, y, x = (a.astype(np.int32) for a in np.unravel_index(rng.permutation(box.size), shape))
        out = np.zeros(256, np.float32)
        module[kernel](1, 256, made.surface, out, x, y, z, 0)
        assert (out == box[z, y, x][:256]).all()
        module[kernel](1, 256, made.surface, -out, x, y, z, 1)
        box[z[:256], y[:256], x[:256]] *= -1
        assert (made.get() == box).all()


def test_surface_boundaries(module):
    plane = np.random.default_rng(27).random((4, 8), np.float32)
    made = module.texture(plane, writable=True)
    x, y = (a.ravel().astype(np.int32) for a in np.mgrid[-3:12, -3:8])
    out = np.full(len(x), -1, np.float32)
    module["clamped"](1, len(x), made.surface, out, x, y, 0)
    assert (out == plane[y.clip(0, 3), x.clip(0, 7)]).all()
    module["zeroed"](1, len(x), made.surface, out, x, y, 0)
    within = (x >= 0) & (x < 8) & (y >= 0) & (y < 4)
    assert (out == np.where(within, plane[y.clip(0, 3), x.clip(0, 7)], 0)).all()
    module["zeroed"](1, len(x), made.surface, out + 1, x, y, 1)
    assert (made.get() == plane + 1).all()


def test_a_surface_and_its_texture_share_texels(module):
    made = module.texture(np.zeros((8, 16), np.float32), writable=True)
    new = np.arange(128, dtype=np.float32)
    x, y = np.int32(new % 16), np.int32(new // 16)
    module["f2"](1, 128, made.surface, new, x, y, 1)
    points = Points(28, (16, 8, 1))
    want = sampled(new.reshape(1, 8, 16, 1), points.at)
    assert (run(module, "plane", made, points)[:, :1] == want).all()


# --- sured, sust.p: no CUDA C function has them


def surface_kernel(device, statement):
    """Return a kernel (surface, x, y, value): one statement with {%x, %y} and %v."""
    text = f""".version 8.1
.target sm_75
.address_size 64
.entry k(.param .u64 s, .param .u64 x, .param .u64 y, .param .u64 v) {{
.reg .b64 %s, %a<4>, %w; .reg .b32 %t, %x, %y, %v, %u;
ld.param.u64 %s, [s]; ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; ld.param.u64 %a3, [v];
mov.u32 %t, %tid.x;
mad.wide.u32 %a1, %t, 4, %a1; mad.wide.u32 %a2, %t, 4, %a2; mad.wide.u32 %a3, %t, 8, %a3;
ld.global.u32 %x, [%a1]; ld.global.u32 %y, [%a2];
ld.global.u64 %w, [%a3]; mov.b64 {{%v, %u}}, %w;
{statement}
ret; }}"""
    return gpuopt.load_ptx(text, device)


UFUNCS = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
          "or": np.bitwise_or}  # fmt: skip
SURED = [("b", op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32")]
SURED += [("b", "add", "u64"), ("b", "min", "s64"), ("b", "max", "u64")]
SURED += [("b", "and", "b32"), ("b", "or", "b32")]
SURED += [("p", op, "b32") for op in UFUNCS]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("form", "op", "kind"), SURED)
def test_reductions_on_surfaces(device, form, op, kind):
    rng = np.random.default_rng(30)
    wide, signed = kind.endswith("64"), kind[0] == "s" or form == "p"
    dtype = np.dtype(f"{'i' if signed else 'u'}{8 if wide else 4}")
    info = np.iinfo(dtype)
    plane = rng.integers(info.min, info.max, (4, 8), dtype)
    value = rng.integers(info.min, info.max, 256, dtype)
    x, y = (rng.integers(0, n, 256, np.int32) for n in (8, 4))
    statement = f"sured.{form}.{op}.2d.{kind}.trap [%s, {{%x, %y}}], {'%w' if wide else '%v'};"
    module = surface_kernel(device, statement)
    texels = plane.view(np.int32).reshape(4, 8, 2) if wide else plane
    made = module.texture(texels, channels=2 if wide else 1, writable=True)
    scale = 1 if form == "p" else dtype.itemsize
    module["k"](1, 256, made.surface, np.int32(x * scale), y, value.astype("u8"))
    UFUNCS[op].at(plane, (y, x), value)
    assert (made.get().view(dtype).reshape(4, 8) == plane).all()


def toward_zero(value, dtype):
    """Round floats to a dtype, those between two numbers to the smaller one."""
    with np.errstate(over="ignore"):
        near = value.astype(dtype)
    bits = near.view(f"u{dtype.itemsize}")
    bits[np.abs(near.astype(value.dtype)) > np.abs(value)] -= 1
    return near


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u4", "i2", "u2", "i1", "u1"])
def test_formatted_writes_convert_to_the_surfaces_type(device, dtype):
    rng, dtype = np.random.default_rng(31), np.dtype(dtype)
    bits = dtype.kind + "4"
    value = rng.standard_normal(32).astype("f4") * 3
    value[:6] = 65519.9, 65520, 1e30, -np.inf, np.nan, 3e-8
    if dtype.kind != "f":
        info = np.iinfo(bits)
        value = rng.integers(info.min, info.max, 32, bits)
        value[:16] >>= 33 - 8 * dtype.itemsize + (8 * dtype.itemsize == 32)
    x = rng.permutation(32).astype(np.int32)
    module = surface_kernel(device, "sust.p.2d.b32.clamp [%s, {%x, %y}], %v;")
    made = module.texture(np.zeros((2, 32), dtype), writable=True)
    words = np.zeros(32, "u8")
    words.view("u4")[::2] = value.view("u4")
    module["k"](1, 32, made.surface, x, np.ones(32, np.int32), words)
    want = np.zeros((2, 32), dtype)
    if dtype.kind == "f":
        want[1, x] = toward_zero(value, dtype)
    else:
        want[1, x] = value.clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert made.get().tobytes() == want.tobytes()


def test_formatted_writes_of_vectors_and_beyond_the_surface(sim):
    module = surface_kernel("sim", "sust.p.v2.2d.b32.zero [%s, {%x, %y}], {%v, %u};")
    made = module.texture(np.full((2, 8, 4), 7, np.uint8), channels=4, writable=True)
    x = np.array([0, 7, 8, -1], np.int32)
    words = np.arange(1, 9, dtype=np.uint32).view("u8")
    module["k"](1, 4, made.surface, x, np.zeros(4, np.int32), words)
    want = np.full((2, 8, 4), 7, np.uint8)
    want[0, 0], want[0, 7] = (1, 2, 0, 0), (3, 4, 0, 0)
    assert (made.get() == want).all()
    module = surface_kernel("sim", "sured.p.add.1d.b32.trap [%s, {%x}], %v;")
    line = module.texture(np.zeros(8, np.uint32), writable=True)
    (found,) = gpuopt.check(module["k"], 1, 1, line.surface, np.full(1, 8, np.int32),
                            np.zeros(1, np.int32), np.zeros(1, "u8"))  # fmt: skip
    assert "reduction of 4 bytes at x = 8, y = 0" in found.text and "x counts" not in found.text


def test_mistakes_are_findings(sim):
    line = sim.texture(np.arange(64, dtype=np.float32), writable=True)
    out = np.zeros(64, np.float32)

    def check(kernel, block, *args):
        return gpuopt.check(sim[kernel], 1, block, *args)

    (found,) = check("f1", 1, line.surface, out, np.full(1, 64, np.int32), 0)
    assert found.kind == "out of bounds" and "read of 4 bytes at x = 256 bytes" in found.text
    (found,) = check("f1", 1, line.surface, out, np.full(1, -1, np.int32), 1)
    assert "write of 4 bytes at x = -4 bytes" in found.text
    assert check("unscaled", 4, line.surface, out)[0].kind == "misaligned access"
    (found,) = check("f1", 1, line, out, np.zeros(1, np.int32), 0)
    assert "pass its .surface" in found.text
    (found,) = check("deep", 1, line.surface, out, *[np.zeros(1, np.int32)] * 3, 0)
    assert "the surface is of a 1-D array" in found.text


def test_races_on_surfaces_are_found(sim):
    line = sim.texture(np.arange(64, dtype=np.float32), writable=True)
    assert not gpuopt.check(sim["shifted"], 1, 64, line.surface, 64, 1)
    found = gpuopt.check(sim["shifted"], 1, 64, line.surface, 64, 0)
    assert {each.kind for each in found} == {"race in global memory"}
    found = gpuopt.check(sim["fetched"], 1, 64, line, line.surface, 64)
    assert {each.kind for each in found} == {"race in global memory"}


@pytest.mark.parametrize(
    ("shape", "dtype", "options", "error", "text"),
    [
        ((2, 2, 2, 2), "f4", {"layered": True}, ValueError, r"\(layers, height, width\)"),
        ((5, 4, 4), "f4", {"cube": True}, ValueError, r"\(6, n, n\)"),
        ((6, 4, 5), "f4", {"cube": True}, ValueError, r"\(6, n, n\)"),
        ((4, 4), "f4", {"boundary": "repeat"}, ValueError, "boundary: 'repeat'.*'wrap'"),
        ((4, 4), "f4", {"boundary": "mirror"}, ValueError, "mirror: needs normalised"),
        ((4, 4), "f4", {"border": 1.0}, ValueError, 'border: needs boundary="border"'),
        ((4, 4), "f4", {"border": (1, 2)}, ValueError, "one number or four"),
        ((4, 4), "f4", {"as_integers": True}, ValueError, "as_integers.*float32"),
        ((4, 4), "u1", {"as_integers": True, "linear_filter": True}, ValueError, "filtered"),
        ((4, 4), "f4", {"linear_mipmaps": True}, ValueError, "give `mipmaps`"),
        ((4, 4), "f4", {"mipmaps": [np.zeros((2, 2), "f4")]}, ValueError, "mipmaps.*normalised"),
        (
            (4, 4),
            "f4",
            {"mipmaps": [np.zeros((2, 3), "f4")], "normalised": True},
            ValueError,
            r"level 1 has the shape \(2, 3\).*\(2, 2\)",
        ),
        ((4, 4), "f4", {"mipmaps": [np.zeros((2, 2), "i4")]}, TypeError, "mipmaps: .*int32"),
        ((4,), "f4", {"linear_memory": True, "writable": True}, ValueError, "surfaces"),
    ],
)
def test_invalid_textures_raise(sim, shape, dtype, options, error, text):
    with pytest.raises(error, match=text):
        sim.texture(np.zeros(shape, dtype), **options)
    with pytest.raises(ValueError, match="linear memory; use a Buffer"):
        sim.texture(np.zeros(4, np.float32)).get()
