"""Matrix instructions with exact results: ldmatrix, and mma of bytes, against NumPy."""

import itertools

import numpy as np
import pytest

import gpuopt

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
LANE = np.arange(32)

ROWS = """
.visible .entry rows(.param .u64 from, .param .u64 to)
{{
    .shared .align 16 .b8 tile[512];
    .reg .b64 x, y, w, wide; .reg .b32 t, s, r<4>; .reg .b64 v<2>;
    ld.param.u64 x, [from];
    ld.param.u64 y, [to];
    mov.u32 t, %tid.x;
    mul.wide.u32 w, t, 16;
    add.u64 x, x, w;
    add.u64 y, y, w;
    mov.u32 s, tile;
    mad.lo.u32 s, t, 16, s;
    ld.global.v2.b64 {{v0, v1}}, [x];
    st.shared.v2.b64 [s], {{v0, v1}};
    bar.warp.sync -1;
    cvt.u64.u32 wide, s;
    cvta.shared.u64 wide, wide;
    mov.b32 r0, 0; mov.b32 r1, 0; mov.b32 r2, 0; mov.b32 r3, 0;
    ldmatrix.sync.aligned.{form}.b16 {{{registers}}}, [{address}];
    st.global.v4.b32 [y], {{r0, r1, r2, r3}};
    ret;
}}
"""


def matrix_fragments(tiles, transposed):
    """Return each lane's register of each matrix: two neighbours of a row, or of a column."""
    tiles = tiles.transpose(0, 2, 1) if transposed else tiles
    pairs = np.ascontiguousarray(tiles).view(np.uint32)  # of 8 rows, 4 pairs
    return pairs[:, LANE // 4, LANE % 4]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("address", ["s", "wide"])
def test_ldmatrix_gives_each_lane_its_elements(count, transposed, address):
    words = ["m8n8", f"x{count}", *["trans"] * transposed, *["shared"] * (address == "s")]
    for order in (words, [*words[1:3], words[0], *words[3:]]):
        registers = ", ".join(f"r{i}" for i in range(count))
        text = ROWS.format(form=".".join(order), registers=registers, address=address)
        tiles = np.random.default_rng(count).integers(0, 1 << 16, (4, 8, 8), np.uint16)
        out = np.zeros((32, 4), np.uint32)
        gpuopt.load_ptx(HEAD + text, "sim")["rows"](1, 32, tiles, out, any_dtype=True)
        assert (out.T[:count] == matrix_fragments(tiles, transposed)[:count]).all()
        assert (out.T[count:] == 0).all()


MMA = """
.visible .entry product(.param .u64 A, .param .u64 B, .param .u64 C, .param .u64 D)
{{
    .reg .b64 p<4>, w; .reg .b32 t, a<4>, b<2>; .reg .s32 c<4>, d<4>;
    ld.param.u64 p0, [A]; ld.param.u64 p1, [B]; ld.param.u64 p2, [C]; ld.param.u64 p3, [D];
    mov.u32 t, %tid.x;
    mul.wide.u32 w, t, 16;
    add.u64 p0, p0, w; add.u64 p1, p1, w; add.u64 p2, p2, w; add.u64 p3, p3, w;
    ld.global.v4.b32 {{a0, a1, a2, a3}}, [p0];
    ld.global.v2.b32 {{b0, b1}}, [p1];
    ld.global.v4.s32 {{c0, c1, c2, c3}}, [p2];
    mov.b32 d2, 0; mov.b32 d3, 0;
    mma.sync.aligned.{form} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};
    st.global.v4.s32 [p3], {{d0, d1, d2, d3}};
    ret;
}}
"""


def product_kernel(shape, types, saturates):
    tall, deep = shape != "m8n8k16", shape == "m16n8k32"
    form = f"{shape}.row.col{'.satfinite' * saturates}.s32.{types[0]}.{types[1]}.s32"
    counts = {"a": (1 + tall) * (1 + deep), "b": 1 + deep, "c": 2 + 2 * tall, "d": 2 + 2 * tall}
    named = {name: ", ".join(f"{name}{i}" for i in range(n)) for name, n in counts.items()}
    return gpuopt.load_ptx(HEAD + MMA.format(form=form, **named), "sim")["product"]


@pytest.mark.parametrize("shape", ["m8n8k16", "m16n8k16", "m16n8k32"])
@pytest.mark.parametrize("types", [*itertools.product(("s8", "u8"), repeat=2)])
@pytest.mark.parametrize("saturates", [False, True])
def test_products_of_bytes_are_exact(shape, types, saturates):
    rng = np.random.default_rng(len(shape) + saturates)
    a, b = rng.integers(0, 256, (32, 16), np.uint8), rng.integers(0, 256, (32, 16), np.uint8)
    c = rng.choice([2**31 - 5, -(2**31), 0, 77, -1000], (32, 4)).astype(np.int32)
    d = np.zeros((32, 4), np.int32)
    product_kernel(shape, types, saturates)(1, 32, a, b, c, d, any_dtype=True)
    height, depth = 8 * (1 + (shape != "m8n8k16")), 16 * (1 + (shape == "m16n8k32"))
    left, right = np.zeros((height, depth), np.int64), np.zeros((depth, 8), np.int64)
    start, made = np.zeros((height, 8), np.int64), np.zeros((height, 8), np.int64)
    left_bytes, right_bytes = (
        each.view("i1" if type_ == "s8" else "u1")
        for each, type_ in zip((a, b), types, strict=True)
    )
    for lane, k, i in itertools.product(range(32), range(depth // 16), range(4)):
        group, inner = lane // 4, 16 * k + lane % 4 * 4 + i
        right[inner, group] = right_bytes[lane, 4 * k + i]
        for h in range(height // 8):
            left[8 * h + group, inner] = left_bytes[lane, 4 * (k * height // 8 + h) + i]
    for lane, h, i in itertools.product(range(32), range(height // 8), range(2)):
        place = 8 * h + lane // 4, lane % 4 * 2 + i
        start[place], made[place] = c[lane, 2 * h + i], d[lane, 2 * h + i]
    want = start + left @ right
    want = np.clip(want, -(2**31), 2**31 - 1) if saturates else want.astype(np.int32)
    assert (made == want).all()


def test_a_matrix_of_unwritten_rows_is_found():
    text = ROWS.format(form="m8n8.x1.shared", registers="r0", address="s")
    text = text.replace("st.shared.v2.b64 [s], {v0, v1};", "")
    with pytest.raises(gpuopt.SimError, match="uninitialised read"):
        gpuopt.load_ptx(HEAD + text, "sim")["rows"](
            1, 32, np.zeros((4, 8, 8), "u2"), np.zeros((32, 4), "u4"), any_dtype=True
        )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r}, [s];", "1 registers of a fragment"),
        ("ldmatrix.sync.aligned.m8n8.x1.global.b16 {r}, [s];", "matrix fragments"),
        ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {r}, {r}, {r}, {r};", "1 registers of"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {r}, {r}, {r}, {r};", "tensor cores"),
        ("mma.sync.aligned.m8n8k16.row.col.s32.s4.s8.s32 {r}, {r}, {r}, {r};", "tensor cores"),
    ],
)
def test_other_matrix_forms_are_refused_by_name(line, problem):
    text = f"{HEAD}.visible .entry k() {{ .reg .b32 r, s; mov.b32 s, 0; {line} ret; }}"
    with pytest.raises(gpuopt.PTXError, match=problem):
        gpuopt.load_ptx(text, "sim")["k"]
