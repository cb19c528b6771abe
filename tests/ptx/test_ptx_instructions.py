"""Single PTX instructions against NumPy, on the simulated GPU and on a real one."""

import numpy as np
import pytest
from ptx_texts import everywhere

import gpuopt

LANES = np.arange(32, dtype=np.uint32)


def run(device, body, inputs=(), outputs=1, registers="", target=90):
    """Return what 32 threads make of %i0, %i1, ... (32 or 64 bits each) in %o0, %o1, ..."""
    wide = inputs[0].dtype.itemsize if inputs else 4
    text = f".version 8.6\n.target sm_{target}\n.address_size 64\n.visible .entry k("
    text += ", ".join([*(f".param .u64 p{i}" for i in range(len(inputs))), ".param .u64 out"])
    text += f")\n{{\n\t.reg .b64 %x; .reg .b32 %t, %r<4>; .reg .b{8 * wide} %i<4>, %o<4>;\n"
    text += f"\t.reg .pred %p<4>; {registers}\n\tmov.u32 %t, %tid.x;\n"
    for i in range(len(inputs)):
        text += f"\tld.param.u64 %x, [p{i}];\n\tmad.wide.u32 %x, %t, {wide}, %x;\n"
        text += f"\tld.global.b{8 * wide} %i{i}, [%x];\n"
    text += f"\t{body}\n\tld.param.u64 %x, [out];\n\tmad.wide.u32 %x, %t, {wide}, %x;\n"
    for i in range(outputs):
        text += f"\tst.global.b{8 * wide} [%x + {32 * wide * i}], %o{i};\n"
    out = np.zeros((outputs, 32), f"u{wide}")
    gpuopt.load_ptx(text + "\tret;\n}\n", device)["k"](1, 32, *inputs, out)
    return out


@everywhere
@pytest.mark.parametrize("type_", ["u32", "s32"])
@pytest.mark.parametrize("op", ["vadd4", "vsub4", "vabsdiff4"])
@pytest.mark.parametrize("saturated", [True, False])
def test_bytes_in_a_word(device, op, type_, saturated, rng):
    a, b = rng.integers(0, 2**32, (2, 32), dtype=np.uint32)
    a[:2], b[:2] = (0x01FF80FE, 0x7F80017F), (0x01017F05, 0x807FFF80)
    sat = ".sat" if saturated else ""
    got = run(device, f"{op}.{type_}.{type_}.{type_}{sat} %o0, %i0, %i1, %t;", (a, b))[0]
    byte = np.dtype("i1" if type_ == "s32" else "u1")
    x, y = a.view(byte).astype(int), b.view(byte).astype(int)
    want = x + y if op == "vadd4" else x - y if op == "vsub4" else abs(x - y)
    if saturated:
        want = want.clip(np.iinfo(byte).min, np.iinfo(byte).max)
    assert np.array_equal(got.view("u1"), (want % 256).astype("u1"))


@pytest.mark.parametrize(
    "text",
    ["vadd4.rn.u32.u32.u32", "vsub4.ftz.s32.s32.s32", "vadd4.sat.u32.u32.u32", "vadd4.u32"],
)
def test_a_modifier_without_effect_is_refused(text):
    with pytest.raises(gpuopt.PTXError, match="unsupported instruction"):
        run("sim", f"{text} %o0, %i0, %i0, 0;", (LANES,))


@everywhere
@pytest.mark.parametrize("type_, one", [("f16x2", 0x3C00), ("bf16x2", 0x3F80)])
@pytest.mark.parametrize("form", ["third", "third is q", "guard", "guard is q"])
def test_a_packed_comparison_writes_both_at_once(device, type_, one, form):
    """Its third operand and its guard are read before the writes, even if they are p or q."""
    low, high, before = (LANES >> bit & 1 for bit in (2, 1, 0))
    packed, ones = low * one | high * one << 16, np.full(32, one | one << 16, np.uint32)
    name = "%p1" if form.endswith("q") else "%p0"
    body = f"and.b32 %r0, %t, 1; setp.ne.u32 %p0, 0, 0; setp.ne.u32 {name}, %r0, 0;\n\t"
    if form.startswith("third"):
        body += f"setp.eq.and.{type_} %p0|%p1, %i0, %i1, {name};"
    else:
        body += f"@{name} setp.eq.{type_} %p0|%p1, %i0, %i1;"
    if form == "guard":
        body = "setp.ne.u32 %p1, 0, 0;\n\t" + body
    body += "\n\tselp.u32 %o0, 1, 0, %p0;\n\tselp.u32 %o1, 1, 0, %p1;"
    got = run(device, body, (packed.astype("u4"), ones), 2)
    assert np.array_equal(got, [low & before, high & before])


@everywhere
@pytest.mark.parametrize("op", ["atom", "red"])
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_an_atomic_sum_flushes_in_global_memory_alone(device, op, space):
    """PTX ISA, atom: add.f32 on global memory flushes subnormal inputs and results."""
    pairs = [(1e-40, 1e-40), (1e-38, 5e-39), (1.5e-38, -1e-38), (-1e-40, -1e-45), (1, 1e-40)]
    old, value = np.resize(np.array(pairs, np.float32), (32, 2)).T
    old, value = np.ascontiguousarray(old), np.ascontiguousarray(value)
    tiny = np.finfo(np.float32).tiny
    destination = "%r1, " if op == "atom" else ""
    place, store, load = {
        "shared": ("[%r2]", "st.shared.b32 [%r2], %i0;", "ld.shared.b32 %o0, [%r2];"),
        "global": ("[%x]", "", "ld.global.b32 %o0, [%x];"),
        "generic": ("[%x]", "", "ld.b32 %o0, [%x];"),
    }[space]
    part = "" if space == "generic" else f".{space}"
    body = "ld.param.u64 %x, [p0]; mad.wide.u32 %x, %t, 4, %x; mov.u32 %r2, s;\n\t"
    body += f"mad.lo.u32 %r2, %t, 4, %r2; {store}\n\t{op}{part}.add.f32 {destination}{place}, %i1;"
    got = run(device, f"{body}\n\t{load}", (old.copy(), value), registers=".shared .b32 s[32];")

    def flushed(x):
        return np.where(abs(x) < tiny, np.copysign(np.float32(0), x), x)

    want = old + value if space == "shared" else flushed(flushed(old) + flushed(value))
    assert np.array_equal(got[0].view("f4"), want)


@everywhere
@pytest.mark.parametrize("op", ["rcp", "rsqrt"])
def test_approximations_of_doubles_flush(device, op):
    x = np.array([1e-310, 5e-324, 0.0, np.inf, 2.0, 4e300, 1e-300, 1.7e308] * 4)
    if op == "rcp":
        x[::8] *= -1
    got = run(device, f"{op}.approx.ftz.f64 %o0, %i0;", (x,))[0].view("f8")
    small = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore"):
        flat = np.where(abs(x) < small, np.copysign(0.0, x), x)
        want = 1 / flat if op == "rcp" else 1 / np.sqrt(flat)
    want = np.where(abs(want) < small, np.copysign(0.0, want), want)
    assert np.allclose(got, want, rtol=1e-5, atol=0)
    assert np.array_equal(np.signbit(got), np.signbit(want))


@everywhere
def test_a_conversion_to_tf32(device):
    """The nearest value of 10 bits of mantissa; ties go away from zero."""
    x = np.array([1, 1 + 2**-11, 1 + 2**-11 - 2**-23, -1 - 3 * 2**-11, 0.1, np.inf, -0.0, 3e38])
    x = np.resize(x.astype(np.float32), 32)
    got = run(device, "cvt.rna.tf32.f32 %o0, %i0;", (x,))[0].view("f4")
    step = 2.0 ** (np.frexp(np.where(np.isfinite(x), x, 0))[1] - 11)
    want = np.where(np.isfinite(x), np.copysign(np.floor(abs(x) / step + 0.5) * step, x), x)
    assert np.array_equal(got.view("u4") & 0xFFFFE000, want.astype("f4").view("u4"))


@everywhere
@pytest.mark.parametrize("op", ["atom", "red"])
@pytest.mark.parametrize("count", [2, 4])
def test_an_atomic_sum_of_vectors(device, op, count):
    """Threads 4 k to 4 k + 3 add to the same places, of the first array."""
    total, value = np.zeros(32, np.float32), np.arange(32, dtype=np.float32)
    names = ", ".join(f"%f{i}" for i in range(count))
    old = f"{{{names.replace('%f', '%g')}}}, " if op == "atom" else ""
    body = "bar.warp.sync -1; ld.param.u64 %x, [p0]; shr.u32 %r0, %t, 2;\n\t"
    body += "mad.wide.u32 %x, %r0, 16, %x;\n\t"
    body += "mov.b32 %f0, %i1; mov.b32 %f1, 0f3F800000; mov.b32 %f2, %i1; mov.b32 %f3, %i1;\n\t"
    body += f"{op}.global.add.v{count}.f32 {old}[%x], {{{names}}};\n\tmov.b32 %o0, %i0;"
    run(device, body, (total, value), registers=".reg .f32 %f<4>, %g<4>;")
    sums = value.reshape(8, 4).sum(1)
    columns = [sums, np.full(8, 4), sums, sums]
    want = np.stack([*columns[:count], *[np.zeros(8)] * (4 - count)], 1)
    assert np.array_equal(total.reshape(8, 4), want)


@everywhere
def test_shared_memory_of_the_system(device):
    """It overlaps nobody's, holds zeros and is not among what the kernel asked for."""
    body = "mov.u32 %r0, %reserved_smem_offset_begin; mov.u32 %r1, %reserved_smem_offset_end;\n\t"
    body += "sub.u32 %o0, %r1, %r0; mov.u32 %o1, %total_smem_size;\n\t"
    body += "mov.u32 %r0, s; mov.u32 %r1, %reserved_smem_offset_1; sub.u32 %r1, %r1, %r0;\n\t"
    body += "setp.lt.u32 %p0, %r1, 400; selp.u32 %o2, 1, 0, %p0;\n\t"
    body += "mov.pred %p1, %is_explicit_cluster; selp.u32 %o3, 1, 0, %p1;"
    got = run(device, body, (LANES,), 4, ".shared .b32 s[100];")
    assert (got[0] >= 288).all() and (got[2:] == 0).all()
    if device == "sim":
        assert (got[1] == 400).all()


FAST = """.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{{
    .reg .b64 %x<3>; .reg .b32 %r<4>; .reg .f32 %f<3>;
    ld.param.u64 %x1, [from];
    ld.param.u64 %x2, [to];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r1, 256, %r2;
    mad.wide.u32 %x1, %r3, 4, %x1;
    mad.wide.u32 %x2, %r3, 4, %x2;
    ld.global.f32 %f1, [%x1];
    {} %f2, {}%f1;
    st.global.f32 [%x2], %f2;
    ret;
}}
"""


def fast(device, op, x, first=""):
    got = np.empty_like(x)
    gpuopt.load_ptx(FAST.format(op, first), device)["k"](-(-x.size // 256), 256, x, got)
    return got


@everywhere
@pytest.mark.parametrize(
    ("op", "reference", "limits", "bound", "absolute"),
    [  # PTX ISA 9, and for sine up to pi the CUDA programming guide's __sinf and __cosf
        ("sin.approx", np.sin, (-np.pi, np.pi), 2**-21.3, True),
        ("cos.approx", np.cos, (-np.pi, np.pi), 2**-21.1, True),
        ("sin.approx", np.sin, (-2 * np.pi, 2 * np.pi), 2**-20.5, True),
        # documented: 2**-20.5; an H100 is off by up to 2**-20.427, over all floats up to 2 pi
        ("cos.approx", np.cos, (-2 * np.pi, 2 * np.pi), 2**-20.42, True),
        ("lg2.approx", np.log2, (0.5, 2), 2**-22.0, True),
        ("lg2.approx", np.log2, (2, 1e6), 2**-22.0, False),
        ("ex2.approx", np.exp2, (-100, 100), 2**-22.5, False),
        ("ex2.approx.ftz", np.exp2, (-1, 1), 2**-22.5, False),
        ("rcp.approx", np.reciprocal, (1, 2), 2**-23.0, True),
        ("rcp.approx.ftz", np.reciprocal, (1e-3, 1e3), 2**-22.9, False),
        ("sqrt.approx", np.sqrt, (1e-3, 1e3), 2**-22.9, False),
        ("rsqrt.approx", lambda x: 1 / np.sqrt(x), (1e-3, 1e3), 2**-22.4, False),
        ("tanh.approx", np.tanh, (-9, 9), 2**-11.0, False),
        ("div.approx", np.reciprocal, (1e-3, 1e3), 2**-22.0, False),
        ("div.full.ftz", np.reciprocal, (1e-3, 1e3), 2**-22.0, False),
    ],
)
def test_fast_forms_keep_the_documented_errors(device, op, reference, limits, bound, absolute, rng):
    x = rng.uniform(*limits, 1 << 14).astype(np.float32)
    want = reference(x.astype(float))
    got = fast(device, f"{op}.f32", x, "0f3F800000, " if op.startswith("div") else "")
    error = np.abs(got - want) / (1 if absolute else np.abs(want))
    assert error.max() <= bound
    rounded = np.abs(want.astype(np.float32) - want) / (1 if absolute else np.abs(want))
    assert error.max() > 1.5 * rounded.max()  # fewer bits than the nearest float32


@everywhere
def test_rounded_forms_are_the_nearest(device, rng):
    x = rng.uniform(1e-3, 1e3, 1 << 12).astype(np.float32)
    assert np.array_equal(fast(device, "rcp.rn.f32", x), np.float32(1) / x)
    assert np.array_equal(fast(device, "sqrt.rn.f32", x), np.sqrt(x))
    assert np.array_equal(fast(device, "div.rn.f32", x, "0f3F800000, "), np.float32(1) / x)


@everywhere
@pytest.mark.parametrize(
    ("op", "x", "want"),
    [
        ("sin.approx", [0.0, -0.0, np.inf, np.nan], [0.0, -0.0, np.nan, np.nan]),
        ("cos.approx", [0.0, -0.0, -np.inf], [1.0, 1.0, np.nan]),
        ("ex2.approx", [0.0, -1.0, 3.0, np.inf, -np.inf, 200.0], [1, 0.5, 8, np.inf, 0, np.inf]),
        ("lg2.approx", [1.0, 8.0, 0.0, -1.0, np.inf], [0, 3, -np.inf, np.nan, np.inf]),
        ("rcp.approx", [0.0, -0.0, -np.inf, 4.0], [np.inf, -np.inf, -0.0, 0.25]),
        ("sqrt.approx", [-0.0, 16.0, -1.0, np.inf], [-0.0, 4.0, np.nan, np.inf]),
        ("rsqrt.approx", [0.0, -0.0, 4.0, np.inf], [np.inf, -np.inf, 0.5, 0.0]),
        ("div.approx", [2.0, np.inf, -0.0, 3e38, -3e38], [0.5, 0.0, -np.inf, 0.0, -0.0]),
        ("div.full", [2.0, np.inf, -0.0], [0.5, 0.0, -np.inf]),
    ],
)
def test_special_values_of_fast_forms(device, op, x, want):
    got = fast(device, f"{op}.f32", np.resize(np.array(x, "f4"), 256),
               "0f3F800000, " if op.startswith("div") else "")[: len(x)]  # fmt: skip
    np.testing.assert_array_equal(got, np.array(want, "f4"))
    known = ~np.isnan(got)
    assert np.array_equal(np.signbit(got[known]), np.signbit(np.array(want)[known]))


@everywhere
def test_movmatrix_transposes_a_warps_matrix(device, rng):
    matrix = rng.integers(0, 2**16, (8, 8), dtype=np.uint16)
    body = "movmatrix.sync.aligned.m8n8.trans.b16 %o0, %i0;"
    got = run(device, body, (matrix.view(np.uint32).ravel(),), target=75)
    assert np.array_equal(got.view(np.uint16).reshape(8, 8), matrix.T)


@pytest.mark.parametrize("form", ["m8n8.b16", "m8n8.trans.b32", "m16n8.trans.b16"])
def test_other_forms_of_movmatrix_are_refused(form):
    with pytest.raises(gpuopt.PTXError, match="unsupported instruction"):
        run("sim", f"movmatrix.sync.aligned.{form} %o0, %i0;", (LANES,))
