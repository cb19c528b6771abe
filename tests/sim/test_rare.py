"""Rare PTX against a model: video instructions of whole words, predicates as parameters, sums."""

import itertools

import numpy as np
import pytest
from conftest import on

import gpuopt

HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"
KERNEL = """.visible .entry {name}(.param .u64 o, .param .u64 x)
{{
    .reg .b64 %o, %x, %at; .reg .b32 %t, %a, %b, %c;
    mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 12;
    ld.param.u64 %x, [x]; ld.param.u64 %o, [o]; add.u64 %x, %x, %at;
    mul.wide.u32 %at, %t, 4; add.u64 %o, %o, %at;
    ld.global.u32 %a, [%x]; ld.global.u32 %b, [%x+4]; ld.global.u32 %c, [%x+8];
    {body};
    st.global.u32 [%o], %a;
    ret;
}}
"""
N = 256


def as_type(x, kind):
    return x.view(np.int32 if kind == "s32" else np.uint32).astype(np.int64)


def model(op, to, of, by, sat, mode, then, values):
    """Return what ptxas's code for sm_90 gives where the PTX manual says otherwise, too.

    An unsigned result above 2**32 - 1 saturates only in a shift, of which 34 bits count. A secondary
    min or max compares 64 bits: all of the result, or its low word, sign-extended, after a sum or
    a saturated shift, even where it is unsigned.
    """
    x, y, c = (as_type(v, kind) for v, kind in zip(values.T, (of, by, to), strict=True))
    b = values[:, 1].astype(np.int64)
    shift = b & 31 if mode == "wrap" else np.minimum(b, 32)
    r = {
        "vadd": lambda: x + y,
        "vsub": lambda: x - y,
        "vabsdiff": lambda: np.abs(x - y),
        "vmin": lambda: np.minimum(x, y),
        "vmax": lambda: np.maximum(x, y),
        "vshl": lambda: x << shift,
        "vshr": lambda: x >> shift,
    }[op]()
    if sat:
        r = r << 30 >> 30 if mode else r
        least, most = (-(2**31), 2**31 - 1) if to == "s32" else (0, 2**32 - 1)
        r = np.maximum(r, least)
        r = np.minimum(r, most) if mode or to == "s32" else r
    if op in ("vadd", "vsub") or (mode and sat):
        r = r.astype(np.int32).astype(np.int64)
    if then == "add":
        r = r + c
    elif then:
        wide = np.int64 if to == "s32" else np.uint64
        r = getattr(np, f"{then}imum")(r.astype(wide), c.astype(wide))
    return r.astype(np.uint32)


@pytest.mark.parametrize("kind", [on(kind, kind, id=kind) for kind in ("sim", "cuda")])
@pytest.mark.parametrize("op", ["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"])
def test_a_video_instruction_selects_computes_and_combines(kind, op):
    rng = np.random.default_rng(len(op) * 7 + ord(op[-1]))
    values = rng.integers(0, 2**32, (N, 3), np.uint32)
    values[::3, 1] &= 63
    values[1::5] = rng.choice(np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32), (52, 3))[
        :51
    ]
    shift, words = op.startswith("vsh"), ["u32", "s32"]
    by, modes = (["u32"], ["clamp", "wrap"]) if shift else (words, [""])
    thens = ["", "add", "min", "max"]
    cases = list(itertools.product([op], words, words, by, ["", "sat"], modes, thens))
    text = HEAD
    for i, case in enumerate(cases):
        name = ".".join(p for p in case if p)
        text += KERNEL.format(name=f"k{i}", body=f"{name} %a, %a, %b" + ", %c" * (case[-1] != ""))
    module = gpuopt.load_ptx(text, kind)
    for i, case in enumerate(cases):
        out = np.zeros(N, np.uint32)
        module[f"k{i}"](1, N, out, values)
        assert (out == model(*case, values)).all(), case


CALLS = (
    HEAD
    + """.func (.reg .u32 r, .reg .pred odd) next(.reg .u32 v, .reg .pred skip)
{
    .reg .b32 %low;
    add.u32 r, v, 1;
    @skip add.u32 r, r, 1;
    and.b32 %low, r, 1;
    setp.ne.u32 odd, %low, 0;
    ret;
}
"""
    + KERNEL.format(
        name="k",
        body=""".reg .pred %p, %q; setp.gt.s32 %p, %a, 0;
    call (%a, %q), next, (%a, %p);
    @%q neg.s32 %a, %a""",
    )
)


def test_predicates_are_arguments_and_results():
    values = np.random.default_rng(3).integers(-50, 50, (N, 3)).astype(np.int32)
    out = np.zeros(N, np.int32)
    gpuopt.load_ptx(CALLS, "sim")["k"](1, N, out, values)
    after = values[:, 0] + 1 + (values[:, 0] > 0)
    assert (out == np.where(after & 1, -after, after)).all()


SUMS = HEAD + KERNEL.format(
    name="k",
    body=""".reg .pred %p; .reg .b16 %h; .reg .b64 %w;
    mov.u32 %b, %a + 3;
    mad.lo.u32 %b, %b, %b + -2, %c + 1 + 1;
    and.b32 %c, %c + 5, 255;
    setp.lt.u32 %p, %c + 250, 300;
    selp.u32 %c, %c + 1, 0, %p;
    cvt.u64.u32 %w, %b + 7; cvt.u32.u64 %b, %w; cvt.u16.u32 %h, %b;
    st.global.u16 [%o], %h + 9; ld.global.u16 %h, [%o]; cvt.u32.u16 %a, %h;
    add.u32 %a, %a, %c + 2""",
)


@pytest.mark.parametrize("kind", [on(kind, kind, id=kind) for kind in ("sim", "cuda")])
def test_an_operand_may_be_a_register_and_a_constant(kind):
    values = np.random.default_rng(5).integers(0, 1 << 20, (N, 3), np.uint32)
    out = np.zeros(N, np.uint32)
    gpuopt.load_ptx(SUMS, kind)["k"](1, N, out, values)
    a, _, c = values.T
    b = (a + 3) * (a + 3 - 2) + c + 2
    low = c + 5 & 255
    low = np.where(low + 250 < 300, low + 1, 0)
    assert (out == (b + 7 + 9 & 0xFFFF) + low + 2).all()
    if kind == "sim":
        with pytest.raises(gpuopt.PTXError, match="floating-point"):
            gpuopt.load_ptx(
                SUMS.replace("mov.u32 %b, %a + 3", ".reg .f32 %f; add.f32 %f, %f + 1, %f"), kind
            )["k"]
