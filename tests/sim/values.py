"""Instructions of the newer forms with the values that they must give, by NumPy and ml_dtypes.

A case is (name, target, instruction, operands, reference): `operands` is the kind of the result and
of each source, h, r, l, f for 16, 32 and 64 bits and float32; `reference` takes the sources' arrays
and returns the result's bits, or None where the documentation leaves it open.
"""

import numpy as np

SIZES = {"h": 16, "r": 32, "l": 64, "f": 32, "b": 8}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
F32 = np.float32
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 448, 449, 464, 465, -480, 57344, 6e4]
SPECIAL += [
    61440,
    65504,
    65520,
    -65520,
    3e38,
    -3e38,
    0.0625,
    1.75,
    2.5,
    3.5,
    5,
    6,
    7,
    7.5,
    7.75,
    28,
]


def floats(rng, n):
    """Float32 of all sizes, ties and special values among them."""
    bits = rng.integers(0, 1 << 32, n, np.uint32)
    near = rng.standard_normal(n).astype(F32) * F32(2.0) ** rng.integers(-20, 20, n).astype(F32)
    ties = np.round(near * 4) / 8
    made = np.where(rng.random(n) < 0.3, bits.view(F32), np.where(rng.random(n) < 0.5, near, ties))
    made[: len(SPECIAL)] = SPECIAL
    return made.astype(F32)


def source(kind, rng, n):
    """An operand's bits."""
    if kind == "f":
        return floats(rng, n).view(np.uint32)
    if kind == "r2":  # two halves
        with np.errstate(over="ignore"):
            two = np.stack([floats(rng, n), floats(rng, n)], 1).astype(np.float16)
        return two.view(np.uint32)[:, 0]
    made = rng.integers(0, 1 << 63, n, np.uint64) * np.uint64(2)
    made += rng.integers(0, 2, n, np.uint64)
    return (made >> np.uint64(64 - SIZES[kind[0]])).astype(UNSIGNED[SIZES[kind[0]]])


def small(values, dtype, relu):
    """Codes of a small format; saturated."""
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype))
    most = float(ml_dtypes.finfo(kind).max)
    wide = values.astype(np.float64)
    codes = np.clip(wide, -most, most).astype(kind).view(np.uint8)
    nan = {"float8_e4m3fn": 0x7F, "float8_e5m2": 0x7F}.get(dtype)
    if nan is None:
        nan = np.array(most).astype(kind).view(np.uint8)
    if relu:
        codes = np.where(np.signbit(wide), 0, codes)
    return np.where(np.isnan(wide), nan, codes).astype(np.uint16)


def pair(high, low, shift=8):
    return (high.astype(np.uint16) << shift) | low


def halves(word):
    return (word >> 16).astype(np.uint16).view(np.float16), word.astype(np.uint16).view(np.float16)


def clean(half, relu=False):
    """A half's bits, with one NaN."""
    bits = np.where(np.isnan(half), 0x7FFF, half.view(np.uint16)).astype(np.uint16)
    return np.where(np.signbit(half) & ~np.isnan(half), 0, bits) if relu else bits


def widened(codes, dtype, bits, relu):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype))
    shift = 4 if bits == 4 else 8
    mask = (1 << bits) - 1
    low = (codes & mask).astype(np.uint8).view(kind).astype(np.float16)
    high = (codes >> shift & mask).astype(np.uint8).view(kind).astype(np.float16)
    return clean(high, relu).astype(np.uint32) << 16 | clean(low, relu)


def tf32(values, how, relu, finite):
    bits = values.view(np.uint32).astype(np.uint64)
    size = bits & 0x7FFFFFFF
    add = {"rn": 0xFFF + (size >> 13 & 1), "rna": 0x1000, "rz": 0}[how]
    out = np.where(size < 0x7F800000, (size + add) & ~np.uint64(0x1FFF), size)
    if finite:
        out = np.minimum(out, 0x7F7FE000)
    out |= bits & 0x80000000
    if relu:
        out = np.where(np.signbit(values), 0, out)
    return np.where(np.isnan(values), 0x7FFFFFFF, out).astype(np.uint32)


def packed(a, b, c, bits, signed):
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    high, low = (np.clip(x.view(np.int32).astype(np.int64), least, most) for x in (a, b))
    mask = (1 << bits) - 1
    above = c.astype(np.int64) << 2 * bits if c is not None else 0
    return ((above | (high & mask) << bits | low & mask) & 0xFFFFFFFF).astype(np.uint32)


def exact_sum(kind):
    def add(*given):
        values = [x.view(F32) for x in given]
        r = values[0] + values[1] if kind == "add" else values[0] * values[1]
        return np.where(np.isnan(r), np.uint32(0x7FFFFFFF), r.view(np.uint32))

    return add


def by_halves(function):
    def both(*given):
        low = function(*((x & np.uint64(0xFFFFFFFF)).astype(np.uint32) for x in given))
        high = function(*((x >> np.uint64(32)).astype(np.uint32) for x in given))
        return high.astype(np.uint64) << np.uint64(32) | low

    return both


def relu16(op):
    def least(a, b):
        parts = []
        for shift in (0, 16):
            x, y = ((v >> shift).astype(np.uint16).view(np.int16) for v in (a, b))
            parts.append(np.maximum(op(x, y), 0).view(np.uint16).astype(np.uint32))
        return parts[1] << 16 | parts[0]

    return least


def relu32(op):
    return lambda a, b: np.maximum(op(a.view(np.int32), b.view(np.int32)), 0).view(np.uint32)


def clamped(add):
    """Integers; the ISA's text has .relu before the type, nvcc's headers behind it."""
    for op, function in (("min", np.minimum), ("max", np.maximum)):
        for kind, relu in (("s16x2", relu16), ("s32", relu32)):
            for form in (f"{op}.relu.{kind}", f"{op}.{kind}.relu"):
                add(90, f"{form} D, A, B", ("r", "r", "r"), relu(function))


def three(op, magnitude=False):
    def least(*given):
        values = [x.view(F32) for x in given]
        values = [np.abs(v) for v in values] if magnitude else values
        r = op(op(values[0], values[1]), values[2])
        zero = r == 0  # of two zeros, the sign decides
        sign = [np.signbit(v) & (v == 0) for v in values]
        seen = [~np.signbit(v) & (v == 0) for v in values]
        negative = np.any(sign, 0) if op is np.fmin else ~np.any(seen, 0)
        r = np.where(zero, np.where(negative, F32(-0.0), F32(0.0)), r)
        return np.where(np.isnan(r), np.uint32(0x7FFFFFFF), r.view(np.uint32))

    return least


def cases():
    made = []

    def add(target, instruction, operands, reference):
        made.append((instruction.split(" ")[0], target, instruction, operands, reference))

    formats = [("e4m3x2", "float8_e4m3fn", 8, 89), ("e5m2x2", "float8_e5m2", 8, 89)]
    formats += [("e2m3x2", "float6_e2m3fn", 6, 100), ("e3m2x2", "float6_e3m2fn", 6, 100)]
    formats += [("e2m1x2", "float4_e2m1fn", 4, 100)]
    for name, dtype, bits, target in formats:
        for relu in ("", ".relu"):
            shift, kind = (4, "b") if bits == 4 else (8, "h")

            def narrow(a, b, dtype=dtype, relu=relu, shift=shift):
                return pair(small(a.view(F32), dtype, relu), small(b.view(F32), dtype, relu), shift)

            def narrow_halves(a, dtype=dtype, relu=relu, shift=shift):
                high, low = halves(a)
                return pair(small(high, dtype, relu), small(low, dtype, relu), shift)

            def widen(a, dtype=dtype, bits=bits, relu=relu):
                return widened(a, dtype, bits, bool(relu))

            add(target, f"cvt.rn.satfinite{relu}.{name}.f32 D, A, B", (kind, "f", "f"), narrow)
            if bits != 6:
                form = f"cvt.rn.satfinite{relu}.{name}.f16x2 D, A"
                add(target, form, (kind, "r2"), narrow_halves)
            add(target, f"cvt.rn{relu}.f16x2.{name} D, A", ("r", kind), widen)
    for how, relu, finite in [
        ("rn", "", ""),
        ("rz", "", ""),
        ("rn", ".relu", ""),
        ("rz", ".relu", ""),
        ("rna", "", ""),
        ("rna", "", ".satfinite"),
        ("rn", "", ".satfinite"),
        ("rz", ".relu", ".satfinite"),
    ]:
        target = 80 if how == "rna" else 100 if finite else 90

        def to_tf32(a, how=how, relu=relu, finite=finite):
            return tf32(a.view(F32), how, relu, finite)

        add(target, f"cvt.{how}{relu}{finite}.tf32.f32 D, A", ("r", "f"), to_tf32)
    for bits, signed in [(16, 0), (16, 1), (8, 0), (8, 1), (4, 0), (4, 1), (2, 0), (2, 1)]:
        kind = f"{'us'[signed]}{bits}"
        if bits == 16:

            def two(a, b, signed=signed):
                return packed(a, b, None, 16, signed)

            add(75, f"cvt.pack.sat.{kind}.s32 D, A, B", ("r", "r", "r"), two)
            continue

        def third(a, b, c, bits=bits, signed=signed):
            return packed(a, b, c, bits, signed)

        add(75, f"cvt.pack.sat.{kind}.s32.b32 D, A, B, C", ("r", "r", "r", "r"), third)
    for op in ("add", "mul"):
        add(100, f"{op}.rn.f32x2 D, A, B", ("l", "l", "l"), by_halves(exact_sum(op)))
    clamped(add)
    for op, function in (("min", np.fmin), ("max", np.fmax)):
        add(100, f"{op}.f32 D, A, B, C", ("f", "f", "f", "f"), three(function))
        add(100, f"{op}.abs.f32 D, A, B, C", ("f", "f", "f", "f"), three(function, True))

    def mixed(a, b):
        r = a.view(np.float16).astype(F32) + b.view(F32)
        return np.where(np.isnan(r), np.uint32(0x7FFFFFFF), r.view(np.uint32))

    add(100, "add.rn.f32.f16 D, A, B", ("f", "h", "f"), mixed)
    for kind, form, register in [("f16", "h", "h"), ("f16x2", "r", "r2"), ("bf16", "h", "h")]:
        for op in ("min", "max"):
            for nan in ("", ".NaN"):
                form_ = f"{op}{nan}.xorsign.abs.{kind} D, A, B"
                add(86, form_, (form, register, register), None)
    for how in ("rz", "rm", "rp"):
        add(80, f"fma.{how}.bf16 D, A, B, C", ("h", "h", "h", "h"), None)
    for saturated in ("f16", "bf16"):
        for how in ("rn", "rz"):
            add(80, f"cvt.{how}.satfinite.{saturated}.f32 D, A", ("h", "f"), None)
    for how in ("rz", "rp"):
        for finite in ("", ".satfinite"):
            add(100, f"cvt.{how}{finite}.ue8m0x2.f32 D, A, B", ("h", "f", "f"), None)
    add(100, "cvt.rn.bf16x2.ue8m0x2 D, A", ("r", "h"), None)
    return made


def kernel(index, instruction, operands):
    """The text of one case's kernel: each thread computes one result."""
    kinds = [kind[0] for kind in operands]
    register = {"h": "%h", "r": "%r", "l": "%l", "f": "%f", "b": "%b"}
    names = [register[kind] + str(10 + i) for i, kind in enumerate(kinds)]
    lines = [
        f".visible .entry k{index}(.param .u64 p0, "
        + ", ".join(f".param .u64 p{i}" for i in range(1, len(kinds)))
        + ")\n{"
    ]
    lines += [".reg .b8 %b<20>; .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %l<20>;"]
    lines += [".reg .f32 %f<20>; .reg .b32 %t<4>; .reg .b64 %a<8>;"]
    lines += ["mov.u32 %t0, %ctaid.x; mov.u32 %t1, %ntid.x; mov.u32 %t2, %tid.x;"]
    lines += ["mad.lo.u32 %t3, %t0, %t1, %t2;"]
    for i, kind in enumerate(kinds):
        lines += [
            f"ld.param.u64 %a0, [p{i}]; mad.wide.u32 %a{i + 1}, %t3, {SIZES[kind] // 8}, %a0;"
        ]
        if i:
            type_ = "f32" if kind == "f" else f"b{SIZES[kind]}"
            lines += [f"ld.global.{type_} {names[i]}, [%a{i + 1}];"]
    text = instruction
    for letter, name in zip("DABC", names, strict=False):
        text = text.replace(f" {letter}", f" {name}")
    type_ = "f32" if kinds[0] == "f" else f"b{SIZES[kinds[0]]}"
    return "\n".join([*lines, text + ";", f"st.global.{type_} [%a1], {names[0]};", "ret;", "}"])


def module(target, every):
    head = f".version 9.0\n.target sm_{target}{'a' if target >= 100 else ''}\n.address_size 64\n"
    return head + "\n".join(kernel(i, case[2], case[3]) for i, case in enumerate(every))


def inputs(operands, seed, n):
    rng = np.random.default_rng(seed)
    return [source(kind, rng, n) for kind in operands[1:]]


def empty(operands, n):
    return np.zeros(n, UNSIGNED[SIZES[operands[0][0]]])
