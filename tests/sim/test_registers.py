"""Vector and 128-bit registers, in kernels and functions; aliases; targets that a GPU lacks."""

import numpy as np
import pytest

import gpuopt

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"
VECTORS = """
.func (.reg .v4 .f32 sum) plus(.reg .v4 .f32 a, .reg .f32 more, .reg .v4 .f32 b)
{
    .reg .f32 t;
    add.f32 sum.x, a.x, b.x;
    add.f32 sum.y, a.y, b.y;
    add.f32 t, a.z, b.z;
    add.f32 sum.z, t, more;
    add.f32 sum.a, a.w, b.a;
    ret;
}
.visible .entry vectors(.param .u64 p)
{
    .reg .v4 .f32 v, w<3>; .reg .v2 .b32 pair; .reg .v4 .u32 t; .reg .b64 at, x;
    ld.param.u64 at, [p];
    mov.v4.u32 t, %tid;
    mul.wide.u32 x, t.x, 32;
    add.u64 at, at, x;
    ld.global.v4.f32 v, [at];
    ld.global.v4.f32 w1, [at + 16];
    call (w2), plus, (v, 0f42C80000, w1);
    st.global.v4.f32 [at], w2;
    mov.v2.b32 pair, {v.x, v.y};
    mov.v2.b32 pair, {pair.y, pair.x};
    mov.b64 x, pair;
    st.global.b64 [at + 16], x;
    cvt.rn.f32.u32 w0.r, t.w;
    mov.f32 w0.g, w0.r;
    st.global.v2.f32 [at + 24], {w0.x, w0.y};
    ret;
}
"""


MANY = """.visible .entry many(.param .u64 p) %s
{
    .reg .b64 at; .reg .b32 v<101>;
    ld.param.u64 at, [p];
    %s
    ret;
}
"""


@pytest.mark.parametrize(
    ("preset", "bounds", "registers"),
    [
        ("h200", "", 105),
        ("h200", ".maxntid 512", 105),
        ("h200", ".maxntid 1024, 1, 1", 64),
        ("h200", ".maxntid 256 .minnctapersm 3", 80),
        ("h200", ".maxntid 16, 16 .minnctapersm 4", 64),
        ("h200", ".reqntid 256 .maxnctapersm 4 .maxnreg 40", 40),
        ("h200", ".minnctapersm 4", 105),  # no effect without the block's threads
        ("h200", ".maxntid 1024 .minnctapersm 99", 64),  # impossible: without effect
        ("m2090", ".maxntid 512", 64),
        ("gt200", ".maxntid 512", 32),
    ],
)
def test_estimated_registers_obey_the_kernels_bounds(preset, bounds, registers):
    """The values for the H200 are those of ptxas where a kernel wants more."""
    loads = "\n".join(f"ld.global.b32 v{i}, [at + {4 * i}];" for i in range(101))
    stores = "\n".join(f"st.global.b32 [at + {4 * i}], v{100 - i};" for i in range(101))
    head = HEAD.replace("sm_90", "sm_10" if preset == "gt200" else "sm_20")
    module = gpuopt.load_ptx(head + MANY % (bounds, loads + stores), f"sim:{preset}")
    assert module["many"].resources.registers == registers


@pytest.fixture
def values():
    return np.arange(4 * 8, dtype=np.float32).reshape(4, 8)


def test_vector_registers(values):
    kernel = gpuopt.load_ptx(HEAD + VECTORS, "sim")["vectors"]
    want = values.copy()
    want[:, :4] = values[:, :4] + values[:, 4:] + np.float32([0, 0, 100, 0])
    want[:, 4:6] = values[:, 1::-1]
    want[:, 6:] = 0
    kernel(1, 4, values)
    assert (values == want).all()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("mov.f32 f, v.z;", "the address of .v.z."),
        ("mov.v4.f32 v, v;", "2 values do not move|mov.v4"),
        ("mov.v2.f32 v, {v, v};", "a vector within a vector"),
        ("add.f32 f, v, f;", "no operand"),
        ("ld.global.f32 v, [at];", "2 destinations for a vector of 1"),
        ("ld.global.b128 {f, f, f, f}, [at];", "4 destinations for a vector of 2"),
    ],
)
def test_misused_vectors_are_refused(line, text):
    body = f"{{ .reg .v2 .f32 v; .reg .f32 f; .reg .b64 at; mov.f32 v.x, 0f0;\n{line}\nret; }}"
    body = body.replace("0f0;", "0f00000000;")
    module = gpuopt.load_ptx(HEAD + ".visible .entry k()\n" + body, "sim")
    with pytest.raises(gpuopt.PTXError, match=text) as caught:
        module["k"]
    assert caught.value.line == 6


WIDE = """
.func (.reg .b128 r) same(.reg .b128 a) { mov.b128 r, a; ret; }
.visible .entry wide(.param .u64 p, .param .u64 q)
{
    .reg .b128 a, b, c; .reg .b64 at, to, x, low, high; .reg .b32 t;
    .shared .align 16 .b8 kept[512];
    ld.param.u64 at, [p];
    ld.param.u64 to, [q];
    mov.u32 t, %tid.x;
    mul.wide.u32 x, t, 16;
    add.u64 at, at, x;
    add.u64 to, to, x;
    ld.global.b128 a, [at];
    call (b), same, (a);
    mov.b128 {low, high}, b;
    add.u64 low, low, 1;
    mov.b128 c, {high, low};
    mov.u64 x, kept;
    cvta.shared.u64 x, x;
    st.shared.b128 [kept], a;
    ld.b128 b, [x];
    st.global.b128 [to], c;
    ret;
}
.visible .entry exchanged(.param .u64 p, .param .u64 q)
{
    .reg .b128 new, old, expected; .reg .b64 at, to, x, y; .reg .b32 t;
    ld.param.u64 at, [p];
    ld.param.u64 to, [q];
    mov.u32 t, %tid.x;
    cvt.u64.u32 x, t;
    not.b64 y, x;
    mov.b128 new, {x, y};
    atom.global.exch.b128 old, [at], new;
    mul.wide.u32 x, t, 16;
    add.u64 to, to, x;
    st.global.b128 [to], old;
    ret;
}
.visible .entry compared(.param .u64 p)
{   // adds 1 to both halves together
    .reg .b128 new, old, seen; .reg .b64 at, x, y, a, b; .reg .pred same, other;
    ld.param.u64 at, [p];
    ld.relaxed.gpu.global.b128 old, [at];
L:  mov.b128 {x, y}, old;
    add.u64 a, x, 1;
    add.u64 b, y, 1;
    mov.b128 new, {a, b};
    atom.relaxed.gpu.global.cas.b128 seen, [at], old, new;
    mov.b128 {a, b}, seen;
    setp.ne.u64 same, a, x;
    setp.ne.or.u64 same, b, y, same;
    mov.b128 old, seen;
    @same bra L;
    ret;
}
.visible .entry half(.param .u64 p)
{   // one half differs: nothing is stored
    .reg .b128 new, old; .reg .b64 at;
    ld.param.u64 at, [p];
    mov.b128 old, {1, 5};
    mov.b128 new, {9, 9};
    atom.global.cas.b128 old, [at], old, new;
    ret;
}
"""


def test_128_bit_registers_hold_both_halves():
    module = gpuopt.load_ptx(HEAD + WIDE, "sim")
    x = np.random.default_rng(0).integers(0, 1 << 63, (32, 2), np.uint64)
    out = np.zeros_like(x)
    module["wide"](1, 1, x, out)
    assert (out[0] == [x[0, 1], x[0, 0] + np.uint64(1)]).all() and not out[1:].any()
    cell = np.uint64([7, 8])
    module["exchanged"](1, 32, cell, out)
    seen = np.vstack([out, cell])
    assert sorted(seen[:, 0].tolist()) == sorted([7, *range(32)])
    assert (seen[:, 1] == np.where(seen[:, 0] == 7, np.uint64(8), ~seen[:, 0])).sum() >= 32
    count = np.uint64([0, 100])
    module["compared"](4, 64, count)
    assert count.tolist() == [256, 356]
    module["half"](1, 1, cell := np.uint64([1, 4]))
    assert cell.tolist() == [1, 4]
    module["half"](1, 1, cell := np.uint64([1, 5]))
    assert cell.tolist() == [9, 9]


def test_misaligned_and_undefined_128_bits_are_found():
    module = gpuopt.load_ptx(HEAD + WIDE, "sim")
    x, out = np.zeros(8, np.uint64), np.zeros(8, np.uint64)
    assert not gpuopt.check(module["wide"], 1, 1, x, out)
    buffer = module.copy(x)
    (found,) = gpuopt.check(module["wide"], 1, 1, buffer.address + 8, out)
    assert found.kind == "misaligned access" and "16" in found.text


def test_aliases_and_line_markers():
    text = """
# 1 "a.cu"
.visible .func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }
.visible .func (.param .b32 r) also();
.alias also, seven;
.visible .entry k(.param .u64 p)
{
    .reg .b64 at; .reg .b32 x; .param .b32 r;
    ld.param.u64 at, [p];
    call (r), also, ();
    ld.param.b32 x, [r];
    st.global.b32 [at], x;
    ret;
}
"""
    x = np.zeros(1, np.int32)
    gpuopt.load_ptx(HEAD + text, "sim")["k"](1, 1, x)
    assert x[0] == 7
    for wrong, expected in (("also, none", "no function"), ("seven, also", "alias has no body")):
        with pytest.raises(gpuopt.PTXError, match=expected):
            gpuopt.load_ptx(HEAD + text.replace("also, seven", wrong), "sim")


@pytest.mark.parametrize(
    ("target", "device", "accepted"),
    [
        ("sm_75", "sim:t4", True),
        ("sm_75", "sim:h200", True),
        ("sm_80", "sim:t4", False),
        ("sm_90", "sim:a100", False),
        ("sm_90a", "sim:t4", False),
        ("sm_90a", "sim:h200", True),
        ("sm_90a", "sim:b200", False),
        ("sm_100f", "sim:b200", True),
        ("sm_100f", "sim:rtx5090", False),
        ("sm_86", "sim:l4", True),
        ("sm_75", "sim:g80", True),  # no compiler of today makes older ones
    ],
)
def test_a_target_newer_than_the_device_is_refused(target, device, accepted):
    text = f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}"
    if accepted:
        gpuopt.load_ptx(text, device)["k"](1, 1)
        return
    with pytest.raises(gpuopt.PTXError, match=f"PTX for {target} .*{device}.*compute_") as caught:
        gpuopt.load_ptx(text, device)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("statement", "feature"),
    [
        (
            "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[s], [%x, {%r}], [s];",
            "tensor copies",
        ),
        ("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%x, {%r}], [s];", "tensor copies"),
        ("cp.async.bulk.prefetch.tensor.1d.L2.global [%x, {%r}];", "tensor copies"),
        ("st.bulk.weak.shared::cta [%x], 16, 0;", "bulk stores"),
        ("multimem.ld_reduce.global.add.u32 %r, [%x];", "multimem"),
    ],
)
def test_a_feature_that_is_not_simulated_is_refused_by_its_name(statement, feature):
    ptx = f""".version 8.8
    .target sm_90a
    .address_size 64
    .visible .entry k(.param .u64 p) {{
        .reg .b64 %x; .reg .b32 %r; .shared .align 16 .b8 s[64];
        {statement}
        ret;
    }}"""
    with pytest.raises(gpuopt.PTXError, match=rf"the simulated GPU lacks .*{feature}"):
        gpuopt.load_ptx(ptx, "sim:h100")["k"]


def test_a_cluster_of_several_blocks_is_refused_by_its_name():
    ptx = """.version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k() .reqnctapercluster 4 { ret; }"""
    with pytest.raises(gpuopt.PTXError, match=r"a cluster of 4 blocks: .* lacks thread-block clu"):
        gpuopt.load_ptx(ptx, "sim:h100")["k"]
