# ruff: noqa: B023, PLC0206, E731
"""Writes the hand-made .ptx tests, one per group of instructions, with results from an independent oracle.

The oracle is exact: integers are Python's, floats are rationals rounded once, in the mode that the instruction names.
"""

import itertools
import math
import random
import struct
import sys
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from exact_floats import CANONICAL, FORMATS, boundary, encode, float_op, value  # noqa: E402

MASK = {8: 0xFF, 16: 0xFFFF, 32: 0xFFFFFFFF, 64: 0xFFFFFFFFFFFFFFFF}


class File:
    """One .ptx file: kernels that read buffers a, b, c and write d, one element per thread."""

    def __init__(self, name, target=80):
        self.name, self.kernels, self.directives, self.target, self.count = name, [], [], target, 0
        self.buffers = {}

    def case(self, body, types, columns, results, out):
        """body is text with {d} {a} {b} {c} {e}; columns hold the operands' bits, results the expected bits or None."""
        self.count += 1
        kernel, letters = f"t{self.count}", "abce"[: len(columns)]
        storage = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
        size = {"u8": 1, "s8": 1, "pred": 4}
        for t in ("u16", "s16", "b16", "f16", "bf16"):
            size[t] = 2
        for t in ("u64", "s64", "b64", "f64"):
            size[t] = 8
        sizes = [size.get(t, 4) for t in types] + [size.get(out, 4)]
        lines = [
            f".visible .entry {kernel}("
            + ", ".join(f".param .u64 {x}" for x in letters + "d")
            + ")",
            "{",
            "\t.reg .pred %p<4>;",
            "\t.reg .b32 %t<4>;",
            "\t.reg .b64 %q<8>;",
        ]
        for x, s in zip(letters + "d", sizes):
            lines.append(f"\t.reg .b{max(s, 2) * 8} %{x};")
        lines += [
            "\tmov.u32 %t0, %tid.x;",
            "\tmov.u32 %t1, %ctaid.x;",
            "\tmov.u32 %t2, %ntid.x;",
            "\tmad.lo.u32 %t0, %t1, %t2, %t0;",
        ]
        for i, (x, s) in enumerate(zip(letters, sizes)):
            lines += [
                f"\tld.param.u64 %q{i}, [{x}];",
                f"\tmad.wide.u32 %q{i}, %t0, {s}, %q{i};",
                f"\tld.global.u{s * 8} %{x}, [%q{i}];",
            ]
        lines += [
            "\t" + body.format(d="%d", a="%a", b="%b", c="%c", e="%e"),
            "\tld.param.u64 %q5, [d];",
            f"\tmad.wide.u32 %q5, %t0, {sizes[-1]}, %q5;",
            f"\tst.global.b{sizes[-1] * 8} [%q5], %d;",
            "\tret;",
            "}",
        ]
        self.kernels.append("\n".join(lines))
        n = len(results)
        block = next(b for b in range(min(n, 256), 0, -1) if n % b == 0)
        names = []
        for s, column in zip(sizes, columns):  # columns that several cases share are one buffer
            key = (s, tuple(column))
            if key not in self.buffers:
                self.buffers[key] = f"b{len(self.buffers)}"
                self.directives.append(
                    f"// buffer: {self.buffers[key]} {storage[s]} {n} "
                    + " ".join(f"{v:#x}" for v in column)
                )
            names.append(self.buffers[key])
        self.directives.append(f"// buffer: {kernel}d {storage[sizes[-1]]} {n} none")
        self.directives.append(
            f"// launch: {kernel} {n // block} {block} 0 " + " ".join([*names, kernel + "d"])
        )
        self.directives.append(
            f"// expect: {kernel}d[0] " + " ".join("-" if r is None else hex(r) for r in results)
        )

    def write(self):
        text = (
            f".version 8.0\n.target sm_{self.target}\n.address_size 64\n\n"
            + "\n".join(self.kernels)
            + "\n"
            + "\n".join(self.directives)
            + "\n"
        )
        (HERE / f"{self.name}.ptx").write_text(text)


def pairs(values, extra, rng, width):
    rows = list(itertools.product(values, values)) + [
        (rng.getrandbits(width), rng.getrandbits(width)) for _ in range(extra)
    ]
    return [r[0] for r in rows], [r[1] for r in rows]


def signed(x, w):
    return x - (1 << w) if x >> (w - 1) else x


def quotient(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def integers(rng):
    f = File("integer")
    for w in (16, 32, 64):
        values = [0, 1, 2, 7, (1 << w) - 1, 1 << (w - 1), (1 << (w - 1)) - 1, 0x5A5A & MASK[w]]
        a, b = pairs(values, 40, rng, w)
        c = [rng.getrandbits(w) for _ in a]
        sg = lambda x: signed(x, w)
        ops = {
            f"add.s{w}": lambda x, y: x + y,
            f"sub.u{w}": lambda x, y: x - y,
            f"mul.lo.s{w}": lambda x, y: x * y,
            f"mul.hi.u{w}": lambda x, y: x * y >> w,
            f"mul.hi.s{w}": lambda x, y: sg(x) * sg(y) >> w,
            f"min.u{w}": min,
            f"max.u{w}": max,
            f"min.s{w}": lambda x, y: min(sg(x), sg(y)),
            f"max.s{w}": lambda x, y: max(sg(x), sg(y)),
            f"and.b{w}": lambda x, y: x & y,
            f"or.b{w}": lambda x, y: x | y,
            f"xor.b{w}": lambda x, y: x ^ y,
        }
        for name, fn in ops.items():
            f.case(
                f"{name} {{d}}, {{a}}, {{b}};",
                [f"u{w}"] * 2,
                [a, b],
                [fn(x, y) & MASK[w] for x, y in zip(a, b)],
                f"u{w}",
            )
        nz = [(x, y) for x, y in zip(a, b) if y]
        na, nb = [x for x, _ in nz], [y for _, y in nz]
        f.case(
            f"div.u{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [na, nb],
            [x // y for x, y in nz],
            f"u{w}",
        )
        f.case(
            f"div.s{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [na, nb],
            [quotient(sg(x), sg(y)) & MASK[w] for x, y in nz],
            f"u{w}",
        )
        f.case(
            f"rem.u{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [na, nb],
            [x % y for x, y in nz],
            f"u{w}",
        )
        f.case(
            f"rem.s{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [na, nb],
            [(sg(x) - quotient(sg(x), sg(y)) * sg(y)) & MASK[w] for x, y in nz],
            f"u{w}",
        )
        f.case(
            f"mad.lo.u{w} {{d}}, {{a}}, {{b}}, {{c}};",
            [f"u{w}"] * 3,
            [a, b, c],
            [x * y + z & MASK[w] for x, y, z in zip(a, b, c)],
            f"u{w}",
        )
        f.case(
            f"sad.s{w} {{d}}, {{a}}, {{b}}, {{c}};",
            [f"u{w}"] * 3,
            [a, b, c],
            [abs(sg(x) - sg(y)) + z & MASK[w] for x, y, z in zip(a, b, c)],
            f"u{w}",
        )
        for name, fn in {
            f"abs.s{w}": lambda x: abs(sg(x)),
            f"neg.s{w}": lambda x: -x,
            f"not.b{w}": lambda x: ~x,
            f"cnot.b{w}": lambda x: int(x == 0),
        }.items():
            f.case(f"{name} {{d}}, {{a}};", [f"u{w}"], [a], [fn(x) & MASK[w] for x in a], f"u{w}")
        counts = [0, 1, w - 1, w, w + 1, 31, 32, 33, 63, 64, 255, 0x80000000, 0xFFFFFFFF]
        xs = [x for x in values for _ in counts]
        ns = counts * len(values)
        f.case(
            f"shl.b{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}", "u32"],
            [xs, ns],
            [(x << min(n, w)) & MASK[w] for x, n in zip(xs, ns)],
            f"u{w}",
        )
        f.case(
            f"shr.u{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}", "u32"],
            [xs, ns],
            [x >> min(n, w) for x, n in zip(xs, ns)],
            f"u{w}",
        )
        f.case(
            f"shr.s{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}", "u32"],
            [xs, ns],
            [(sg(x) >> min(n, w)) & MASK[w] for x, n in zip(xs, ns)],
            f"u{w}",
        )
        for cmp, fn in {
            "eq": lambda x, y: x == y,
            "ne": lambda x, y: x != y,
            "lt": lambda x, y: x < y,
            "le": lambda x, y: x <= y,
            "gt": lambda x, y: x > y,
            "ge": lambda x, y: x >= y,
        }.items():
            for k, cv in (("u", lambda x: x), ("s", sg)):
                f.case(
                    f"setp.{cmp}.{k}{w} %p0, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p0;",
                    [f"u{w}"] * 2,
                    [a, b],
                    [int(fn(cv(x), cv(y))) for x, y in zip(a, b)],
                    "u32",
                )
    for w in (16, 32):
        a, b = pairs([0, 1, MASK[w], 1 << (w - 1), MASK[w] >> 1], 20, rng, w)
        c = [rng.getrandbits(2 * w) for _ in a]
        f.case(
            f"mul.wide.u{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [a, b],
            [x * y for x, y in zip(a, b)],
            f"u{2 * w}",
        )
        f.case(
            f"mul.wide.s{w} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [a, b],
            [signed(x, w) * signed(y, w) & MASK[2 * w] for x, y in zip(a, b)],
            f"u{2 * w}",
        )
        f.case(
            f"mad.wide.s{w} {{d}}, {{a}}, {{b}}, {{c}};",
            [f"u{w}", f"u{w}", f"u{2 * w}"],
            [a, b, c],
            [signed(x, w) * signed(y, w) + z & MASK[2 * w] for x, y, z in zip(a, b, c)],
            f"u{2 * w}",
        )
    f.write()


def bits(rng):
    f = File("bits")
    for w in (32, 64):
        a = [0, 1, MASK[w], 1 << (w - 1), 0x00F0, 0x0F0F0F0F] + [
            rng.getrandbits(w) for _ in range(26)
        ]
        u = f"u{w}"
        f.case(f"popc.b{w} {{d}}, {{a}};", [u], [a], [x.bit_count() for x in a], "u32")
        f.case(f"clz.b{w} {{d}}, {{a}};", [u], [a], [w - x.bit_length() for x in a], "u32")
        f.case(f"brev.b{w} {{d}}, {{a}};", [u], [a], [int(f"{x:0{w}b}"[::-1], 2) for x in a], u)
        f.case(
            f"bfind.u{w} {{d}}, {{a}};", [u], [a], [x.bit_length() - 1 & MASK[32] for x in a], "u32"
        )
        f.case(
            f"bfind.shiftamt.u{w} {{d}}, {{a}};",
            [u],
            [a],
            [w - x.bit_length() if x else MASK[32] for x in a],
            "u32",
        )
        f.case(
            f"bfind.s{w} {{d}}, {{a}};",
            [u],
            [a],
            [((~x & MASK[w]) if x >> (w - 1) else x).bit_length() - 1 & MASK[32] for x in a],
            "u32",
        )
        rows = [
            (rng.getrandbits(w), rng.getrandbits(w), p, n)
            for p in (0, 1, 5, w // 2, w - 1, w, 255)
            for n in (0, 1, 8, w - 1, w, 255)
        ]
        xs, ys, ps, ns = (list(t) for t in zip(*rows))
        f.case(
            f"bfe.u{w} {{d}}, {{a}}, {{b}}, {{c}};",
            [u, "u32", "u32"],
            [xs, ps, ns],
            [(x >> p) & ((1 << n) - 1) if p < w else 0 for x, p, n in zip(xs, ps, ns)],
            u,
        )

        def bfe_s(x, p, n):
            sign = 0 if n == 0 else x >> min(p + n - 1, w - 1) & 1
            return sum((x >> (p + i) & 1 if i < n and p + i < w else sign) << i for i in range(w))

        f.case(
            f"bfe.s{w} {{d}}, {{a}}, {{b}}, {{c}};",
            [u, "u32", "u32"],
            [xs, ps, ns],
            [bfe_s(x, p, n) for x, p, n in zip(xs, ps, ns)],
            u,
        )

        def bfi(x, y, p, n):
            for i in range(n):
                if p + i < w:
                    y = y & ~(1 << (p + i)) | (x >> i & 1) << (p + i)
            return y

        f.case(
            f"bfi.b{w} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};",
            [u, u, "u32", "u32"],
            [xs, ys, ps, ns],
            [bfi(*r) for r in rows],
            u,
        )
    n = 32
    a, b, c = ([rng.getrandbits(32) for _ in range(n)] for _ in range(3))
    for table in (0x00, 0x01, 0x80, 0x96, 0xCA, 0xE8, 0xF0, 0xFF, 0x3A):
        want = [
            sum(
                (table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | (z >> i & 1)) & 1) << i
                for i in range(32)
            )
            for x, y, z in zip(a, b, c)
        ]
        f.case(
            f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};", ["u32"] * 3, [a, b, c], want, "u32"
        )

    def prmt(x, y, s):
        by = [x >> 8 * i & 255 for i in range(4)] + [y >> 8 * i & 255 for i in range(4)]
        pick = lambda k: by[k & 7] if k < 8 else 255 * (by[k & 7] >> 7)
        return sum(pick(s >> 4 * i & 15) << 8 * i for i in range(4))

    f.case(
        "prmt.b32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, c],
        [prmt(*t) for t in zip(a, b, c)],
        "u32",
    )
    s = [0, 1, 8, 31, 32, 33, 63, 255] * 4
    two = [y << 32 | x for x, y in zip(a, b)]
    f.case(
        "shf.l.wrap.b32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, s],
        [(t << (k & 31)) >> 32 & MASK[32] for t, k in zip(two, s)],
        "u32",
    )
    f.case(
        "shf.r.wrap.b32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, s],
        [t >> (k & 31) & MASK[32] for t, k in zip(two, s)],
        "u32",
    )
    f.case(
        "shf.l.clamp.b32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, s],
        [(t << min(k, 32)) >> 32 & MASK[32] for t, k in zip(two, s)],
        "u32",
    )
    f.case(
        "shf.r.clamp.b32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, s],
        [t >> min(k, 32) & MASK[32] for t, k in zip(two, s)],
        "u32",
    )
    sb = lambda x, i: signed(x >> 8 * i & 255, 8)
    f.case(
        "dp4a.s32.s32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, c],
        [z + sum(sb(x, i) * sb(y, i) for i in range(4)) & MASK[32] for x, y, z in zip(a, b, c)],
        "u32",
    )
    f.case(
        "dp4a.u32.u32 {d}, {a}, {b}, {c};",
        ["u32"] * 3,
        [a, b, c],
        [
            z + sum((x >> 8 * i & 255) * (y >> 8 * i & 255) for i in range(4)) & MASK[32]
            for x, y, z in zip(a, b, c)
        ],
        "u32",
    )
    wide = lambda x: [x[i] | x[(i + 1) % n] << 32 for i in range(n)]
    p, q = wide(a), wide(b)
    chain = "{{ .reg .b32 l,h,m,k; mov.b64 {{l,h}}, {a}; mov.b64 {{m,k}}, {b}; %s.cc.u32 l, l, m; %sc.u32 h, h, k; mov.b64 {d}, {{l,h}}; }}"
    f.case(
        chain % ("add", "add"), ["u64"] * 2, [p, q], [x + y & MASK[64] for x, y in zip(p, q)], "u64"
    )
    f.case(
        chain % ("sub", "sub"), ["u64"] * 2, [p, q], [x - y & MASK[64] for x, y in zip(p, q)], "u64"
    )
    mul = "{{ .reg .b32 l,h; mad.lo.cc.u32 l, {a}, {b}, {c}; madc.hi.u32 h, {a}, {b}, 0; mov.b64 {d}, {{l,h}}; }}"
    f.case(mul, ["u32"] * 3, [a, b, c], [x * y + z for x, y, z in zip(a, b, c)], "u64")
    f.write()


def floats(rng):
    for kind in FORMATS:
        f = File(f"float_{kind}", 90)
        w = sum(FORMATS[kind]) + 1
        a, b = pairs(boundary(kind), 60, rng, w)
        c = [rng.choice(boundary(kind)) if i % 2 else rng.getrandbits(w) for i in range(len(a))]
        modes = ("rn", "rz", "rm", "rp") if w >= 32 else ("rn",)
        for op, mode in itertools.product(("add", "sub", "mul", "div"), modes):
            if op == "div" and w < 32:
                continue
            f.case(
                f"{op}.{mode}.{kind} {{d}}, {{a}}, {{b}};",
                [f"u{w}"] * 2,
                [a, b],
                [float_op(op, kind, mode, t) for t in zip(a, b)],
                f"u{w}",
            )
        for mode in modes:
            f.case(
                f"fma.{mode}.{kind} {{d}}, {{a}}, {{b}}, {{c}};",
                [f"u{w}"] * 3,
                [a, b, c],
                [float_op("fma", kind, mode, t) for t in zip(a, b, c)],
                f"u{w}",
            )

        def extreme(x, y, sign):
            p, q = value(x, kind), value(y, kind)
            if "nan" in (p, q):
                return CANONICAL.get(kind) if p == q else y if p == "nan" else x
            key = lambda bits: -(bits & MASK[w] >> 1) - 1 if bits >> (w - 1) else bits
            return (min if sign < 0 else max)(x, y, key=key)

        f.case(
            f"min.{kind} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [a, b],
            [extreme(x, y, -1) for x, y in zip(a, b)],
            f"u{w}",
        )
        f.case(
            f"max.{kind} {{d}}, {{a}}, {{b}};",
            [f"u{w}"] * 2,
            [a, b],
            [extreme(x, y, 1) for x, y in zip(a, b)],
            f"u{w}",
        )
        order = {"inf": Fraction(2) ** 5000}
        num = lambda x: (
            order["inf"] * (-1) ** (x >> (w - 1)) if value(x, kind) == "inf" else value(x, kind)
        )
        table = {
            "eq": lambda p, q: p == q,
            "ne": lambda p, q: p != q,
            "lt": lambda p, q: p < q,
            "le": lambda p, q: p <= q,
            "gt": lambda p, q: p > q,
            "ge": lambda p, q: p >= q,
        }
        for cmp, unordered in itertools.product(table, ("", "u")):
            want = [
                int(bool(unordered))
                if "nan" in (num(x), num(y))
                else int(table[cmp](num(x), num(y)))
                for x, y in zip(a, b)
            ]
            f.case(
                f"setp.{cmp}{unordered}.{kind} %p0, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p0;",
                [f"u{w}"] * 2,
                [a, b],
                want,
                "u32",
            )
        if kind == "f32":
            tiny = lambda x: x & 0x80000000 if not x & 0x7F800000 else x

            def flushed(op, args):
                """Detect underflow before rounding, as an H200 does."""
                small = not float_op(op, kind, "rz", args) & 0x7F800000
                return float_op(op, kind, "rn", args) & (0x80000000 if small else 0xFFFFFFFF)

            for op in ("add", "mul"):
                want = [flushed(op, (tiny(x), tiny(y))) for x, y in zip(a, b)]
                f.case(f"{op}.rn.ftz.f32 {{d}}, {{a}}, {{b}};", ["u32"] * 2, [a, b], want, "u32")

            def sat(x):
                v = value(x, "f32")
                if v == "nan" or x >> 31:
                    return 0
                return 0x3F800000 if v == "inf" or v > 1 else x

            f.case(
                "add.rn.sat.f32 {d}, {a}, {b};",
                ["u32"] * 2,
                [a, b],
                [sat(float_op("add", kind, "rn", t)) for t in zip(a, b)],
                "u32",
            )
            sq = [
                x
                for x in boundary("f32") + [rng.getrandbits(31) for _ in range(40)]
                if value(x, kind) not in ("nan", "inf") and not x >> 31
            ]
            exact = lambda x: struct.unpack(
                "<I", struct.pack("<f", math.sqrt(struct.unpack("<f", struct.pack("<I", x))[0]))
            )[0]
            f.case("sqrt.rn.f32 {d}, {a};", ["u32"], [sq], [exact(x) for x in sq], "u32")
        f.write()


def conversions(rng):
    f = File("convert", 90)
    widths = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64}
    clamp = lambda v, t: max(
        -(1 << (widths[t] - 1)) if t[0] == "s" else 0,
        min((1 << (widths[t] - (t[0] == "s"))) - 1, v),
    )
    for s, t in itertools.product(widths, widths):
        w = max(widths[s], 16)
        a = [rng.getrandbits(w) for _ in range(12)] + [0, 1, 127, 128, 255, MASK[w], 1 << (w - 1)]
        low = [x & MASK[widths[s]] for x in a]
        val = [signed(x, widths[s]) if s[0] == "s" else x for x in low]
        out = max(widths[t], 16)
        ext = lambda v: (
            (signed(v & MASK[widths[t]], widths[t]) if t[0] == "s" else v & MASK[widths[t]])
            & MASK[out]
        )
        f.case(f"cvt.{t}.{s} {{d}}, {{a}};", [f"u{w}"], [a], [ext(v) for v in val], f"u{out}")
        span = lambda k: (clamp(-(1 << 80), k), clamp(1 << 80, k))
        if span(s)[0] < span(t)[0] or span(s)[1] > span(t)[1]:  # else ptxas refuses .sat
            f.case(
                f"cvt.sat.{t}.{s} {{d}}, {{a}};",
                [f"u{w}"],
                [a],
                [clamp(v, t) & MASK[out] for v in val],
                f"u{out}",
            )
    rounders = {
        "rni": lambda v: round(v),
        "rzi": lambda v: int(v),
        "rmi": lambda v: v.__floor__(),
        "rpi": lambda v: v.__ceil__(),
    }
    for kind in FORMATS:
        w = sum(FORMATS[kind]) + 1
        a = boundary(kind) + [
            encode(Fraction(n, 4), kind)
            for n in list(range(-14, 15)) + [1021, 1022, 131071, -131070]
        ]
        a += [
            encode(Fraction(2) ** n * q, kind)
            for n in (7, 8, 15, 16, 31, 32, 63, 64)
            for q in (1, -1)
        ]
        for t, r in itertools.product(widths, rounders):
            if kind == "bf16" and widths[t] == 8:
                continue  # there is no such conversion

            def to_int(x):
                v = value(x, kind)
                if v == "nan":
                    special = kind == "f64" or widths[t] == 64
                    return (1 << (widths[t] - 1)) if special else 0
                if v == "inf":
                    return clamp(-(1 << 80) if x >> (w - 1) else 1 << 80, t)
                return clamp(rounders[r](v), t)

            out = max(widths[t], 16)
            ext = lambda v: (
                (signed(v & MASK[widths[t]], widths[t]) if t[0] == "s" else v & MASK[widths[t]])
                & MASK[out]
            )
            f.case(
                f"cvt.{r}.{t}.{kind} {{d}}, {{a}};",
                [f"u{w}"],
                [a],
                [ext(to_int(x)) for x in a],
                f"u{out}",
            )
        for t in ("u16", "s32", "u32", "s64", "u64"):
            for mode in ("rn", "rz", "rm", "rp"):
                iw = widths[t]
                n = [0, 1, MASK[iw], 1 << (iw - 1), (1 << (iw - 1)) - 1] + [
                    rng.getrandbits(iw) for _ in range(20)
                ]
                want = [
                    encode(Fraction(signed(x, iw) if t[0] == "s" else x), kind, mode) for x in n
                ]
                f.case(f"cvt.{mode}.{kind}.{t} {{d}}, {{a}};", [f"u{iw}"], [n], want, f"u{w}")
    narrowing = [("f64", "f32"), ("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16")]
    for src, dst in [*narrowing, ("f16", "bf16"), ("bf16", "f16")]:
        sw, dw = sum(FORMATS[src]) + 1, sum(FORMATS[dst]) + 1
        a = boundary(src) + [
            encode(Fraction(rng.randint(-(1 << 40), 1 << 40), 1 << rng.randint(20, 60)), src)
            for _ in range(60)
        ]
        for mode in ("rn", "rz", "rm", "rp"):

            def narrow(x):
                v = value(x, src)
                m, e = FORMATS[dst]
                infinity = (x >> (sw - 1)) << (m + e) | ((1 << e) - 1) << m
                if v == "nan" and src == "f64":  # keeps its sign and the payload's upper bits
                    return infinity | 1 << (m - 1) | x << 12 >> (64 - m) & (1 << m) - 1
                if v == "nan":
                    return CANONICAL[dst]
                if v == "inf":
                    return infinity
                return encode(v, dst, mode, x >> (sw - 1))

            f.case(
                f"cvt.{mode}.{dst}.{src} {{d}}, {{a}};",
                [f"u{sw}"],
                [a],
                [narrow(x) for x in a],
                f"u{dw}",
            )
    flush = lambda x: x & 0x80000000 if not x & 0x7F800000 else x  # single precision alone
    a = boundary("f32") + [rng.getrandbits(32) for _ in range(20)]
    for kind in ("f16", "bf16"):
        w = sum(FORMATS[kind])
        want = []
        for x in map(flush, a):
            v = value(x, "f32")
            m, e = FORMATS[kind]
            special = {"nan": CANONICAL[kind], "inf": (x >> 31) << w | ((1 << e) - 1) << m}
            want.append(special.get(v) if isinstance(v, str) else encode(v, kind, "rn", x >> 31))
        f.case(f"cvt.rn.ftz.{kind}.f32 {{d}}, {{a}};", ["u32"], [a], want, "u16")
    small = boundary("f16")
    want = []
    for x in small:
        v = value(x, "f16")
        special = {"nan": CANONICAL["f32"], "inf": (x >> 15) << 31 | 0x7F800000}
        want.append(special.get(v) if isinstance(v, str) else encode(v, "f32", "rn", x >> 15))
    f.case("cvt.ftz.f32.f16 {d}, {a};", ["u16"], [small], want, "u32")
    f.write()


if __name__ == "__main__":
    for group in (integers, bits, floats, conversions):
        group(random.Random(group.__name__))
