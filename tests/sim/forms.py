"""Combinations of modifiers and types of the common PTX instructions, valid or not.

`forms()` gives (mnemonic, operands); operands are registers %p (predicates), %h, %r, %l (16, 32, 64
untyped bits), so that validity depends on the mnemonic only. ptxas decides which are valid.
"""

import itertools
import re
import subprocess

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
BITS = ["b8", "b16", "b32", "b64"]
FLOATS = ["f16", "bf16", "f16x2", "bf16x2", "f32", "f64"]
TYPES = [*INTEGERS, *BITS, *FLOATS, "u16x2", "s16x2", "pred"]
ROUNDING = ["", "rn", "rz", "rm", "rp"]
APPROX = ["", "approx", "full", *ROUNDING[1:]]
INTEGRAL = ["rni", "rzi", "rmi", "rpi"]
FTZ, SAT, RELU, NAN, CC = ["", "ftz"], ["", "sat"], ["", "relu"], ["", "NaN"], ["", "cc"]
HALF = ["", "lo", "hi"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"]
COMPARISONS += ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
SPACES = ["", "global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"]
SCOPES = ["", "cta", "gpu", "sys", "cluster"]

HEADER = ".version 9.0\n.target sm_{}\n.address_size 64\n"
REGISTERS = ".reg .b128 %w<9>; .reg .v2 .b32 %v<9>; .reg .b8 %b<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %l<9>; .reg .pred %p<9>;"

# signature, opcodes, slots: t is a register of the type, w of twice its width, r of 32 bits, p a
# predicate, P and S a pair of predicates, of a value and one, 0 a number
ARITHMETIC = [
    ("ttt", ["add", "sub"], [ROUNDING, FTZ, SAT, CC, TYPES]),
    ("ttt", ["addc", "subc"], [SAT, CC, TYPES]),
    ("ttt", ["mul"], [HALF, ROUNDING, FTZ, SAT, TYPES]),
    ("tttt", ["mad"], [HALF, ROUNDING, FTZ, SAT, CC, TYPES]),
    ("tttt", ["madc"], [HALF, SAT, CC, TYPES]),
    ("wtt", ["mul.wide"], [SAT, TYPES]),
    ("wttw", ["mad.wide"], [SAT, CC, TYPES]),
    ("tttt", ["fma"], [ROUNDING, FTZ, SAT, RELU, TYPES]),
    ("ttt", ["mul24"], [HALF, TYPES]),
    ("tttt", ["mad24"], [HALF, SAT, TYPES]),
    ("tttt", ["sad"], [TYPES]),
    ("ttt", ["div"], [APPROX, FTZ, SAT, TYPES]),
    ("ttt", ["rem", "and", "or", "xor"], [TYPES]),
    ("tt", ["abs", "neg"], [FTZ, SAT, TYPES]),
    ("ttt", ["min", "max"], [FTZ, NAN, ["", "xorsign.abs"], RELU, TYPES]),
    ("tt", ["rcp", "sqrt", "rsqrt"], [APPROX, FTZ, SAT, TYPES]),
    ("tt", ["sin", "cos", "lg2", "ex2", "tanh"], [["", "approx", "rn"], FTZ, SAT, TYPES]),
    ("tt", ["not", "cnot", "brev", "mov"], [TYPES]),
    ("rt", ["popc", "clz"], [TYPES]),
    ("rt", ["bfind"], [["", "shiftamt"], TYPES]),
    ("trrr", ["fns"], [TYPES]),
    ("ttrr", ["bfe"], [TYPES]),
    ("tttrr", ["bfi"], [TYPES]),
    ("ttt", ["szext", "bmsk"], [["", "wrap", "clamp"], TYPES]),
    ("rrrr", ["dp4a"], [INTEGERS + BITS, INTEGERS + BITS]),
    ("rrrr", ["dp2a"], [HALF, INTEGERS + BITS, INTEGERS + BITS]),
    ("rrrr", ["vadd4", "vsub4", "vabsdiff4"], [*[["u32", "s32"]] * 3, ["", "sat", "add", "rn"]]),
    ("tlll", ["fma"], [ROUNDING, FTZ, SAT, ["f32x2"]]),
    ("tll", ["add", "sub", "mul"], [ROUNDING, FTZ, SAT, ["f32x2"]]),
    ("rhr", ["add", "sub"], [ROUNDING, FTZ, SAT, ["f32"], ["f16", "bf16"]]),
    ("rhhr", ["fma"], [ROUNDING, FTZ, SAT, ["f32"], ["f16", "bf16"]]),
    ("rrrr", ["min", "max"], [FTZ, NAN, ["", "abs", "xorsign.abs"], ["f32"]]),
    ("ttr", ["shl", "shr"], [TYPES]),
    ("tttt0", ["lop3"], [TYPES]),
    ("tttr", ["shf"], [["", "l", "r"], ["", "wrap", "clamp"], TYPES]),
    ("rrrr", ["prmt"], [TYPES, ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]]),
    ("tttp", ["selp"], [TYPES]),
    (
        "pt",
        ["testp"],
        [["finite", "infinite", "number", "notanumber", "normal", "subnormal"], TYPES],
    ),
    ("ttt", ["copysign"], [FTZ, TYPES]),
    ("ptt", ["setp"], [COMPARISONS, FTZ, TYPES]),
    ("Ptt", ["setp"], [COMPARISONS, FTZ, TYPES]),
    ("pttp", ["setp"], [COMPARISONS, ["and", "or", "xor"], FTZ, TYPES]),
]
WARP = [
    ("trrr", ["shfl.sync"], [["up", "down", "bfly", "idx"], TYPES]),
    ("Srrr", ["shfl.sync"], [["up", "down", "bfly", "idx"], ["b32"]]),
    ("trr", ["shfl"], [["up", "down", "bfly", "idx"], TYPES]),
    ("tpr", ["vote.sync"], [["all", "any", "uni", "ballot"], TYPES]),
    ("rtr", ["match.sync"], [["all", "any"], TYPES]),
    ("Str", ["match.sync"], [["all", "any"], TYPES]),
    ("ttr", ["redux.sync"], [["add", "min", "max", "and", "or", "xor"], TYPES]),
    ("tt", ["movmatrix.sync.aligned.m8n8"], [["trans"], TYPES]),
    ("tt", ["cvta", "cvta.to"], [SPACES, TYPES]),
]


def width(type_):
    if type_ == "pred" or not type_:
        return "p"
    if type_.endswith("x2"):
        return "64" if type_ == "f32x2" else "32"
    bits = "".join(c for c in type_ if c.isdigit())[-2:]
    return {"8": "16", "16": "16", "32": "32", "64": "64"}.get(bits, "32")


def operands(signature, type_):
    """Return the operands that a signature asks for."""
    register = {"p": "%p", "16": "%h", "32": "%r", "64": "%l"}
    twice = {"16": "%r", "32": "%l", "64": "%l", "p": "%p"}
    made = {
        "t": lambda i: f"{register[width(type_)]}{i}",
        "w": lambda i: f"{twice[width(type_)]}{i}",
        "r": lambda i: f"%r{i}",
        "h": lambda i: f"%h{i}",
        "l": lambda i: f"%l{i}",
        "p": lambda i: f"%p{i}",
        "P": lambda i: f"%p{i}|%p{i + 4}",
        "S": lambda i: f"%r{i}|%p{i + 4}",
        "0": lambda _: "0",
        "g": lambda _: "[%l8]",
    }
    return ", ".join(made[letter](i) for i, letter in enumerate(signature))


def named(*parts):
    return ".".join(part for part in parts if part)


def cross(signature, opcode, *slots):
    for parts in itertools.product(*slots):
        yield named(opcode, *parts), operands(signature, parts[-1])


def conversions():
    types = [*INTEGERS, *FLOATS]
    for r, f, u, s in itertools.product([*ROUNDING, *INTEGRAL], FTZ, RELU, SAT):
        for to, source in itertools.product([*types, "b16", "b32"], types):
            count = 2 if to.endswith("x2") else 1
            sources = operands("t" + "t" * count, source).split(", ")[1:]
            yield named("cvt", r, f, u, s, to, source), ", ".join([operands("t", to), *sources])


def narrow_conversions():
    """Formats of 8 bits and fewer, tf32, and conversions that saturate or pack."""
    small = ["e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"]
    for r, s, u in itertools.product([*ROUNDING, "rna"], ["", "satfinite"], RELU):
        for to in small:
            yield named("cvt", r, s, u, to, "f32"), "%h0, %r1, %r2"
            for half in ("f16x2", "bf16x2"):
                yield named("cvt", r, s, u, to, half), "%h0, %r1"
                yield named("cvt", r, u, half, to), "%r0, %h1"
        yield named("cvt", r, s, u, "e2m1x2", "f32"), "%b0, %r1, %r2"
        yield named("cvt", r, u, "f16x2", "e2m1x2"), "%r0, %b1"
        yield named("cvt", r, s, u, "tf32", "f32"), "%r0, %r1"
        for to in ("f16", "bf16"):
            yield named("cvt", r, s, u, to, "f32"), "%h0, %r1"
            yield named("cvt", r, s, u, to + "x2", "f32"), "%r0, %r1, %r2"
    for to, source in itertools.product([*INTEGERS, "u4", "s4", "u2", "s2"], ["s32", "u32"]):
        yield named("cvt.pack.sat", to, source), "%r0, %r1, %r2"
        yield named("cvt.pack.sat", to, source, "b32"), "%r0, %r1, %r2, %r3"


def asynchronous():
    done = "shared::cluster.mbarrier::complete_tx::bytes"
    for vector, type_ in itertools.product(
        ["", "v2", "v4"], [*INTEGERS, *BITS, "f16", "f32", "f64"]
    ):
        count = {"": 1, "v2": 2, "v4": 4}[vector]
        value = operands("t" * count, type_)
        value = value if count == 1 else "{" + value + "}"
        for weak in ("", "weak"):
            yield named("st.async", weak, done, vector, type_), f"[%r8], {value}, [%r7]"
    for op, type_ in itertools.product(
        ["add", "min", "max", "inc", "dec", "and", "or", "xor"], TYPES
    ):
        yield (
            named("red.async.relaxed.cluster", done, op, type_),
            f"[%r8], {operands('t', type_)}, [%r7]",
        )
    for op, noftz, vector, type_ in itertools.product(
        ["add", "min", "max"], ["", "noftz"], ["v2", "v4", "v8"], FLOATS
    ):
        value = "{" + operands("t" * int(vector[1]), type_) + "}"
        yield named("atom.global", op, noftz, vector, type_), f"{value}, [%l8], {value}"
        yield named("red.global", op, noftz, vector, type_), f"[%l8], {value}"
    for op in ("and", "or", "xor"):
        yield named("lop3", op, "b32"), "%r0|%p0, %r1, %r2, %r3, 0x3f, %p1"


def selections():
    for f, to, source in itertools.product(FTZ, TYPES, ["s32", "f32", "u32", "b32"]):
        yield named("slct", f, to, source), operands("tttr", to)
    targets = ["u32", "s32", "f32", "b32", "u16", "s16", "b16", "f16", "bf16", "f16x2", "bf16x2"]
    for c, b, f, to, source in itertools.product(
        COMPARISONS, ["", "and"], FTZ, [*targets, "u64", "f64"], TYPES
    ):
        sources = operands("ttt", source).split(", ")[1:] + (["%p3"] if b else [])
        yield named("set", c, b, f, to, source), ", ".join([operands("t", to), *sources])


def memory():
    orders = ["", "weak", "volatile", "relaxed", "acquire", "release", "acq_rel"]
    caches = ["", "ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt"]
    modifiers = [
        *itertools.product(orders, SCOPES, SPACES, [""], [""], ["b32", "f64", "f16"]),
        *itertools.product([""], [""], SPACES, caches, ["", "v2", "v4"], ["u8", "f32", "s64"]),
        *itertools.product(orders[:3], [""], ["", "global"], [""], ["", "v2", "v4"], TYPES),
    ]
    for order, scope, space, cache, vector, type_ in modifiers:
        count = {"": 1, "v2": 2, "v4": 4}[vector]
        value = operands("t" * count, type_)
        value = value if count == 1 else "{" + value + "}"
        parts = (order, scope, space, cache, vector, type_)
        yield named("ld", *parts), f"{value}, [%l8]"
        yield named("st", *parts), f"[%l8], {value}"
    atomics = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"]
    modifiers = [
        *itertools.product(orders, SCOPES, ["", "global", "shared"], atomics, [""], ["u32", "b32"]),
        *itertools.product([""], [""], ["", "global"], atomics, ["", "noftz"], TYPES),
    ]
    for order, scope, space, op, noftz, type_ in modifiers:
        parts = (order, scope, space, op, noftz, type_)
        more = "t" if op == "cas" else ""
        yield named("atom", *parts), operands("tgt" + more, type_)
        yield named("red", *parts), operands("gt" + more, type_)


def wide():
    """128 bits, and vectors of registers."""
    orders = ["", "weak", "volatile", "relaxed", "acquire", "release", "acq_rel"]
    for order, scope, space in itertools.product(orders, SCOPES, SPACES):
        yield named("ld", order, scope, space, "b128"), "%w0, [%l8]"
        yield named("st", order, scope, space, "b128"), "[%l8], %w0"
        for op in ("exch", "cas", "add", "and"):
            more = ", %w2" if op == "cas" else ""
            yield named("atom", order, scope, space, op, "b128"), f"%w0, [%l8], %w1{more}"
    for type_ in ("b128", "u128", "b64"):
        yield named("mov", type_), "%w0, %w1"
        yield named("mov", type_), "{%l1, %l2}, %w0"
        yield named("mov", type_), "%w0, {%l1, %l2}"
        yield named("mov", type_), "%l0, %v1"
    for op in ("add", "and", "selp", "setp.eq", "xor"):
        yield named(op, "b128"), "%w0, %w1, %w2"
    for vector, type_ in itertools.product(["", "v2", "v4"], ["b32", "f32", "u32", "b64"]):
        yield named("mov", vector, type_), "%v0, %v1"
        yield named("mov", vector, type_), "%v0, {%r1, %r2}"
        yield named("mov", vector, type_), "{%r1, %r2}, %v0"
        yield named("ld.global", vector, type_), "%v0, [%l8]"
        yield named("st.global", vector, type_), "[%l8], %v0"


def barriers():
    for opcode, action, aligned, reduction in itertools.product(
        ["bar", "barrier", "bar.cta", "barrier.cta"],
        ["", "sync", "arrive", "red", "warp.sync"],
        ["", "aligned"],
        ["", "popc.u32", "and.pred", "or.pred"],
    ):
        for given in ("0", "0, 64", "%r0, 0, %p1", "%p0, 0, %p1", "%p0, 0, 64, %p1"):
            yield named(opcode, action, aligned, reduction), given
    semantics = ["", "sc", "acq_rel", "acquire", "release", "proxy.alias", "mbarrier_init.release"]
    for each, scope in itertools.product(semantics, SCOPES):
        yield named("fence", each, scope), ""
    for level in ["", "cta", "gl", "sys", "gpu"]:
        yield named("membar", level), ""
    for space in SPACES:
        yield named("isspacep", space), "%p0, %l1"


def textures():
    """Fetches, gathers, queries, and the accesses of surfaces."""
    geometries = {
        "1d": 1,
        "2d": 2,
        "3d": 4,
        "a1d": 2,
        "a2d": 4,
        "cube": 4,
        "acube": 4,
        "acube1d": 1,
    }
    letters = {"f32": "%f", "s32": "%s", "u32": "%u", "b32": "%r", "f64": "%d"}

    def at(geometry, type_):
        layered = geometry.startswith("a")
        coordinates = [f"{letters[type_]}{i}" for i in range(1, geometries[geometry] + 1)]
        if layered:
            coordinates[0] = "%r1"
        return "[%l8, {" + ", ".join(coordinates) + "}]"

    for geometry, type_, by in itertools.product(geometries, ["f32", "s32", "u32", "b32"], letters):
        value = "{" + ", ".join(f"{letters[type_]}{i}" for i in (5, 6, 7, 8)) + "}"
        lod = f"{letters[by]}4"
        count = {"1d": 1, "2d": 2, "a1d": 1, "a2d": 2}.get(geometry, 4)
        slope = "{" + ", ".join([f"{letters[by]}5"] * count) + "}"
        where = at(geometry, by)
        yield named("tex", geometry, "v4", type_, by), f"{value}, {where}"
        yield named("tex.level", geometry, "v4", type_, by), f"{value}, {where}, {lod}"
        yield named("tex.grad", geometry, "v4", type_, by), f"{value}, {where}, {slope}, {slope}"
        if type_ == "f32":
            for results, value in (("v4.f16", "{%h5, %h6, %h7, %h8}"), ("v2.f16x2", "{%r5, %r6}")):
                yield named("tex", geometry, results, by), f"{value}, {where}"
                yield named("tex.level", geometry, results, by), f"{value}, {where}, {lod}"
                yield (
                    named("tex.grad", geometry, results, by),
                    f"{value}, {where}, {slope}, {slope}",
                )
        for component in ("r", "a", "x"):
            yield named("tld4", component, geometry, "v4", type_, by), f"{value}, {where}"
    for geometry, vector, type_, outside, cache in itertools.product(
        geometries,
        ["", "v2", "v4"],
        [*BITS, "u32"],
        ["trap", "clamp", "zero", ""],
        ["", "cg", "wt"],
    ):
        count = {"": 1, "v2": 2, "v4": 4}[vector]
        value = "{" + operands("t" * count, type_) + "}"
        where = at(geometry, "b32")
        yield named("suld.b", cache, geometry, vector, type_, outside), f"{value}, {where}"
        yield named("sust.b", cache, geometry, vector, type_, outside), f"{where}, {value}"
    for opcode, what in itertools.product(
        ["txq", "suq"],
        ["width", "height", "depth", "array_size", "num_mipmap_levels", "normalized_coords", "x"],
    ):
        yield named(opcode, what, "b32"), "%r0, [%l8]"
        yield named(opcode, what, "u32"), "%r0, [%l8]"
    for kind in ("texref", "surfref", "samplerref", "x"):
        yield named("istypep", kind), "%p0, %l8"


# One of each kind of operand that does not fit, and neighbours that do. %f %d are .f32 .f64, %u %s
# .u32 .s32, %q .f16.
OPERANDS = """
    add.u32 %r0, %r1, %r2; add.u32 %u0, %s1, %r2; add.u32 %l0, %r1, %r2; add.u32 %f0, %r1, %r2;
    add.f32 %r0, %r1, %r2; add.f32 %u0, %s1, %r2; add.f32 %f0, %f1, 1; add.f32 %f0, %f1, 1.5;
    add.u32 %u0, %u1, 1.5; add.f64 %l0, %l1, 0f3F800000; add.u32 %r0, %r1, %tid.x;
    add.u32 %r0, %r1, WARP_SZ; add.f16 %h0, %h1, 1.0; add.f16 %q0, %q1, %h1; add.bf16 %q0, %q1, %h1;
    add.f16x2 %r0, %u1, %r2; add.u16 %h0, %h1, 70000; add.ftz.rn.f32 %f0, %f1, %f2;
    setp.ftz.lt.f32 %p0, %f0, %f1; setp.eq.f32 %p0, %f0, 0; setp.eq.u32 %p0, %r1, %l2;
    setp.eq.b32 %p0, %f1, %r2; setp.lt.u32 %p0, %f1, %r1;
    mov.b32 %f0, %u1; mov.u32 %f0, %u1; mov.f32 %f0, %u1; mov.f32 %f0, %r1; mov.f32 %f0, 1;
    mov.b32 %r0, 0f3F800000; mov.u32 %r0, 0f3F800000; mov.u64 %l0, %tid.x; mov.u16 %h0, %tid.x;
    mov.u32 %r0, %clock64; mov.u32 %f0, %tid.x; mov.b32 %f0, %tid.x; mov.u32 %h0, %r1;
    mov.b64 %l0, {%r1, %r2}; mov.b32 %r0, {%r1, %r2}; mov.b32 {%h0, %h1}, %r1;
    mov.u64 %l0, {%r1, %r2}; mov.b64 %l0, {%h1, %h2};
    selp.f32 %f0, %u1, %f1, %p1; selp.b32 %f0, %u1, %f1, %p1; selp.f32 %f0, 1, 0, %p1;
    and.b32 %f0, %f1, %f1; shl.b32 %r0, %r1, %h2; shl.b32 %u0, %s1, %s2; popc.b64 %l0, %l1;
    mul.wide.u32 %r0, %r1, %r2; mul.wide.u32 %l0, %r1, %r2; mad.wide.u32 %l0, %r1, %r2, %r3;
    ld.global.u8 %l0, [%l8]; ld.global.u8 %f0, [%l8]; ld.global.f32 %u0, [%l8];
    ld.global.f32 %l0, [%l8]; ld.global.b32 %d1, [%l8]; ld.global.f32 %d1, [%l8];
    ld.global.u32 %h0, [%l8]; st.global.u8 [%l8], %l0; st.global.u32 [%l8], %h0;
    st.global.u32 [%l8], %f1; st.global.f32 [%l8], %l1; st.global.f32 [%l8], 1;
    st.global.v2.u32 [%l8], {%r0, %l1}; ld.global.v2.u32 {%r0, %u1}, [%l8];
    cvt.u8.u32 %l0, %r1; cvt.u32.u16 %r0, %l1; cvt.rn.f32.s32 %f0, %f1; cvt.rzi.u32.f32 %r0, %u1;
    cvt.rn.f16x2.f32 %f0, %f1, %f2; cvt.f32.f16 %f0, %q1; cvt.u32.u16 %r0, 7;
    shfl.sync.idx.b32 %f0, %f1, 0, 31, -1; shfl.sync.idx.b32 %h0, %r1, 0, 31, -1;
    vote.sync.ballot.b32 %f0, %p1, -1; vote.sync.ballot.b32 %l0, %p1, -1; bar.sync %l1;
    atom.global.add.u32 %f0, [%l8], %r1; atom.global.add.f32 %f0, [%l8], 1;
    atom.global.exch.b32 %f0, [%l8], %f1; slct.u32.f32 %r0, %r1, %r2, %u3;
    slct.f32.s32 %f0, %f1, %f2, %r1; set.eq.u32.f32 %f0, %f1, %f2; testp.finite.f32 %p0, %u1;
    cvta.to.global.u64 %r0, %l1; copysign.f32 %f0, %u1, %f1; neg.s32 %f0, %r0
"""


def video():
    words, then = ["u32", "s32"], ["", "add", "min", "max"]
    for op, t in itertools.product(["vadd", "vsub", "vabsdiff", "vmin", "vmax"], then):
        for parts in itertools.product(words, words, words, ["", "sat"]):
            yield named(op, *parts, t), "%r0, %r1, %r2" + ", %r3" * (t != "")
    for op, mode, t in itertools.product(["vshl", "vshr"], ["", "clamp", "wrap"], then):
        for to, of, sat in itertools.product(words, words, ["", "sat"]):
            yield named(op, to, of, "u32", sat, mode, t), "%r0, %r1, %r2" + ", %r3" * (t != "")


def forms():
    """Return every (mnemonic, operands) once."""
    every = itertools.chain(
        *(
            cross(signature, opcode, *slots)
            for signature, opcodes, slots in ARITHMETIC + WARP
            for opcode in opcodes
        ),
        conversions(),
        narrow_conversions(),
        asynchronous(),
        selections(),
        video(),
        memory(),
        barriers(),
        textures(),
        wide(),
        (tuple(each.strip().split(" ", 1)) for each in OPERANDS.split(";")),
    )
    return list(dict.fromkeys(every))


MORE = ".reg .f32 %f<9>; .reg .f64 %d<9>; .reg .u32 %u<9>; .reg .s32 %s<9>; .reg .f16 %q<9>;"


def refused_by_ptxas(ptxas, every, target, folder):
    """Return {index: ptxas's reason} of the forms that it refuses."""
    head = HEADER.format(target) + ".visible .entry k()\n{\n" + REGISTERS + MORE + "\n"
    lines = [f"{name} {given};" for name, given in every]
    first, reasons, path = head.count("\n") + 1, {}, folder / "forms.ptx"
    while True:
        path.write_text(head + "\n".join(lines) + "\nret;\n}\n")
        done = subprocess.run(
            [ptxas, f"-arch=sm_{target}", path, "-o", "/dev/null"],
            check=False,
            capture_output=True,
            text=True,
        )
        before = len(lines) - lines.count("")
        for line, kind, text in re.findall(
            r"line (\d+); (error|fatal)\s*: (.*)", done.stdout + done.stderr
        ):
            reasons.setdefault(int(line) - first, text)
            if kind == "fatal" or "syntax error" in text or "Parsing error" in text:
                lines[int(line) - first] = ""  # it reads no further: once more without this line
        if len(lines) - lines.count("") == before:
            return reasons
