"""Constants in PTX: decimal numbers rounded correctly, and expressions as ptxas evaluates them."""

import random
import shutil
import struct
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from conftest import run_python

import gpuopt

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
SIZES = {"u64": 8, "s64": 8, "b64": 8, "f64": 8, "u32": 4, "b32": 4, "f32": 4, "u8": 1, "b16": 2}


def module_text(kind, expressions):
    return (
        f"{HEADER}.visible .global .align 8 .{kind} x[{len(expressions)}] = "
        f"{{{', '.join(expressions)}}};\n"
    )


def simulated(kind, *expressions):
    """Return the bits of initial values of a variable's elements."""
    size = SIZES[kind]
    text = f"""{module_text(kind, expressions)}.visible .entry k(.param .u64 p) {{
    .reg .b64 %a<3>; .reg .b32 %i; .reg .b{max(size * 8, 16)} %v;
    ld.param.u64 %a0, [p]; mov.u64 %a1, x; mov.u32 %i, %tid.x; mul.wide.u32 %a2, %i, {size};
    add.u64 %a0, %a0, %a2; add.u64 %a1, %a1, %a2;
    ld.global.b{size * 8} %v, [%a1]; st.global.b{size * 8} [%a0], %v; ret; }}"""
    out = np.zeros(len(expressions), f"u{size}")
    gpuopt.load_ptx(text, device="sim")["k"](1, len(expressions), out)
    return out.tolist()


def number(kind, expression):
    return struct.unpack("<d", struct.pack("<Q", simulated(kind, expression)[0]))[0]


# --- decimal numbers


def decimals(rng):
    yield from (
        "1e-300", "6.02214076e23", "0.1", "5.", ".5", "09.5", "00.5", "1E+3", "1e22", "1e23",
        "9007199254740993.0", "9007199254740992.99999999999", "2.2250738585072011e-308",
        "4.9406564584124654e-324", "2.4703282292062328e-324", "1.7976931348623158e308",
        "2.47032822920623272e-324", "1e-400", "0.0e999999999999", "0." + "0" * 400 + "1e400",
        "1" + "0" * 400 + "e-400", "1." + "0" * 1000 + "1",
    )  # fmt: skip
    # just above, at and below the midpoint of two doubles, by far more digits than a double has
    for mantissa in (rng.randrange(2**52, 2**53) for _ in range(20)):
        exponent = rng.randrange(-1000, 900)
        middle = (Fraction(mantissa) + Fraction(1, 2)) * Fraction(2) ** exponent
        digits = exact(middle)
        yield digits
        yield digits + "0" * 900 + "1"
        if digits[-1] != "0":
            yield digits[:-1] + chr(ord(digits[-1]) - 1) + "9" * 900
    for _ in range(200):
        whole, fraction = rng.randrange(10 ** rng.randrange(1, 40)), rng.randrange(10**20)
        yield f"{whole}.{fraction}e{rng.randrange(-320, 270)}"


def exact(value):
    """Return a dyadic fraction above 0 in decimal, all its digits."""
    power = value.denominator.bit_length() - 1
    scaled = str(value.numerator * 5**power)
    if not power:
        return scaled + ".0"
    scaled = scaled.rjust(power + 1, "0")
    return f"{scaled[:-power]}.{scaled[-power:]}"


def test_decimal_numbers_are_rounded_to_the_nearest_double():
    given = list(decimals(random.Random(1)))
    want = [struct.unpack("<Q", struct.pack("<d", float(each)))[0] for each in given]
    got = [bits for i in range(0, len(given), 32) for bits in simulated("f64", *given[i : i + 32])]
    assert got == want


LOCALE = """
import locale, numpy as np, gpuopt
for name in sorted(locale.locale_alias.values()):
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        continue
    if locale.localeconv()["decimal_point"] != ".":
        break
out = np.zeros(1)
gpuopt.load_ptx('''.version 8.0 .target sm_80 .address_size 64
.visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .f64 %d; ld.param.u64 %a, [p];
mov.f64 %d, 1234.5625e1; st.global.f64 [%a], %d; ret; }''', device="sim")["k"](1, 1, out)
assert out[0] == 12345.625
print(locale.localeconv()["decimal_point"])
"""


def test_numbers_are_read_alike_in_any_locale():
    done = run_python(LOCALE)
    assert done.returncode == 0, done.stderr
    if done.stdout.split()[-1] == ".":
        pytest.skip("this system has no locale with another decimal point")


@pytest.mark.parametrize(
    ("literal", "problem"),
    [
        ("1e400", "larger than any double"),
        ("1e", "exponent without digits"),
        ("1.5f", "malformed"),
        ("1.5U", "malformed"),
    ],
)
def test_malformed_decimal_literal_is_refused(literal, problem):
    with pytest.raises(gpuopt.PTXError, match=problem):
        simulated("f64", literal)


# --- expressions

# Evaluated by ptxas 13.0.
VALUES = """
0x8000000000000000>>1 0x4000000000000000; 0xFFFFFFFFFFFFFFFF/2 0x7fffffffffffffff; -1/2 0;
-7 % 3 0; 7 % -3 7; -8>>1 -4; 1<<64 1; 1<<70 0x40; -1>>64 -1; 1>>-1 0; -1<0 1; -1<0U 0;
~0>>1 0x7fffffffffffffff; (5&3)-8<0 1; (5&3U)-8<0 0; (-1&-1)/2 0; (5 % 3)-8<0 0; 1?2:0?3:4 2;
0?-1:3U 3; (1?-1:3U)<0 1; (0?-1:3U)-5<0 0; 01234567 342391; 0b101 5; 0B11 3; 0xFFU 255;
(.s64)0xFFFFFFFFFFFFFFFF/2 0; (.u64)-1/2 0x7fffffffffffffff; 1.0<2.0 1; (1.0<2.0)-3<0 1;
(1.0+2.0)*3.0==9.0 1; +5 5; - -5 5; --5 5; 9223372036854775808 0x8000000000000000;
-9223372036854775808/2 0x4000000000000000; 1==1U 1; -1==0xFFFFFFFFFFFFFFFF 1; 5<3<1 1;
1&&0||1 1; ~-1 0; !0+1 2; !5 0; (1U<2)-2<0 1; WARP_SZ+1 33; (8U>>1)-5<0 0; (8>>1U)-5<0 1;
~5<0 0; -(5U)<0 0; 1-2U<0 0; 1|2^3&4 3; 1<<2+1 8; 100/10/2 5; 10-3-2 5;
0x7FFFFFFFFFFFFFFF+1<0 1; 1<<63>>63 -1; 1U<<63>>63 1; -1?5:6 5; 0||0?5:6 6; 07U 7;
1 ? 0 : 1 ? 2 : 3 0;
"""


def listed():
    pairs = (each.strip().rpartition(" ") for each in VALUES.split(";") if each.strip())
    return [(expression, int(value, 0) % 2**64) for expression, _, value in pairs]


@pytest.mark.parametrize(("expression", "want"), listed())
def test_an_expression_has_the_value_that_ptxas_gives_it(expression, want):
    assert simulated("u64", expression) == [want]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("01238", "octal"),
        ("08", "octal"),
        ("0b12", "malformed|octal"),
        ("0x", "without digits"),
        ("0b", "without digits"),
        ("7u", "malformed"),
        ("0xFFu", "malformed"),
        ("18446744073709551616", "64 bits"),
        ("1/0", "division by zero"),
        ("5 % 0", "division by zero"),
        ("1||1/0", "division by zero"),
        ("1?2:1/0", "division by zero"),
        ("1.0/0.0 < 1.0", "division by zero"),
        ("1?2", "':'"),
        ("(1?2)+3", "':'"),
        ("1.5 % 2.0", "floating-point"),
        ("~1.5", "floating-point"),
        ("1.5?2:3", "floating-point"),
        ("1.0+1", "write 1.0"),
        ("(.u64)1.5", "floating-point"),
        ("(.u32)5", "."),
        ("(1", r"'\)'"),
        ("1.5", "floating-point number as an initial value"),
        ("0f3F800000", "floating-point number as an initial value"),
        ("1.0 + 0f3F800000", "alone"),
        ("1 2", "."),
    ],
)
def test_malformed_constant_expression_is_refused(expression, problem):
    with pytest.raises(gpuopt.PTXError, match=problem):
        simulated("u64", expression)


def test_an_initial_value_is_converted_as_ptxas_does():
    assert simulated("f32", "0.1", "0.1+0.2", "1.000000059604644775390625001") == [
        0x3DCCCCCD, 0x3E99999A, 0x3F800000,
    ]  # fmt: skip
    assert simulated("b32", "1.5", "0f3F800000", "-1") == [0x3FC00000, 0x3F800000, 0xFFFFFFFF]
    assert simulated("u8", "300", "-200") == [44, 56]
    assert simulated("b64", "-1.5", "0x10") == [0xBFF8000000000000, 16]
    for kind, value in (("f32", "1"), ("f64", "WARP_SZ"), ("u32", "1.0")):
        with pytest.raises(gpuopt.PTXError, match="as an initial value"):
            simulated(kind, value)


def test_operands_and_displacements_take_expressions():
    text = f"""{HEADER}.visible .entry k(.param .u64 p) {{
    .reg .b64 %a; .reg .b32 %r<4>; .reg .f64 %d;
    ld.param.u64 %a, [p];
    mov.u32 %r0, (1 ? 40 : 2) % 7; st.global.u32 [%a], %r0;
    mov.u32 %r1, !0 + WARP_SZ; st.global.u32 [%a + 8 / 2], %r1;
    mov.f64 %d, (1.5 + 0.5) * -3.0; st.global.f64 [%a+(1<<3)], %d; ret; }}"""
    out = np.zeros(2)
    gpuopt.load_ptx(text, device="sim")["k"](1, 1, out)
    assert out.view(np.uint32)[:2].tolist() == [40 % 7, 33] and out[1] == -6


@pytest.mark.parametrize(
    ("kind", "bits", "row"), [("b16", 16, 1), ("u32", 32, 1), ("b64", 64, 1), ("v2 .b32", 32, 2)]
)
def test_an_arrays_name_and_index_are_an_operand(kind, bits, row):
    """As in `ld.global.u32 s, a[N-1]`, of the PTX manual; ptxas scales the index alike."""
    values = np.arange(8 * row) + 3
    text = f"""{HEADER}.global .{kind} there[8] = {{{", ".join(map(str, values))}}};
    .visible .entry k(.param .u64 p) {{
    .reg .b64 %a<3>; .reg .b{bits} %r<3>; .shared .{kind} kept[8];
    ld.param.u64 %a0, [p];
    ld.global.b{bits} %r0, there[2 + 3]; st.shared.b{bits} kept[6], %r0;
    ld.shared.b{bits} %r1, kept[6]; st.global.b{bits} [%a0], %r1;
    mov.u64 %a1, there[7]; mov.u64 %a2, there; sub.u64 %a1, %a1, %a2;
    st.u64 [%a0+8], %a1; ret; }}"""
    out = np.zeros(2, np.uint64)
    gpuopt.load_ptx(text, device="sim")["k"](1, 1, out, any_dtype=True)
    assert out[0] == values[5 * row]
    assert out[1] == 7 * row * bits // 8


def test_an_index_needs_an_array():
    body = "{ .reg .b32 r; ld.global.b32 r, one[0]; }"
    text = f"{HEADER}.global .b32 one;\n.visible .entry k() {body}"
    with pytest.raises(gpuopt.PTXError, match="an index of 'one', which is no array"):
        gpuopt.load_ptx(text, device="sim")["k"]


@pytest.mark.parametrize("space", ["", ".global"])
def test_eight_bytes_are_a_vector(space):
    names = ", ".join(f"%h{i}" for i in range(8))
    turned = ", ".join(f"%h{(i + 7) % 8}" for i in range(8))
    text = f"""{HEADER}.visible .entry k(.param .u64 p) {{
    .reg .b64 %a; .reg .b16 %h<8>; ld.param.u64 %a, [p];
    ld{space}.v8.u8 {{{names}}}, [%a]; st{space}.v8.b8 [%a + 8], {{{turned}}}; ret; }}"""
    x = np.arange(16, dtype=np.uint8)
    kernel = gpuopt.load_ptx(text, device="sim")["k"]
    kernel(1, 1, x)
    assert x.tolist() == [*range(8), 7, *range(7)]
    with pytest.raises(gpuopt.SimError, match="misaligned"):
        kernel(1, 1, gpuopt.asarray(np.zeros(24, np.uint8), device="sim").address + 4)


# --- against ptxas

LITERALS = [
    "0", "1", "2", "3", "7", "5U", "0U", "0xFFFFFFFFFFFFFFFF", "0x8000000000000000",
    "0x7FFFFFFFFFFFFFFF", "9223372036854775808", "18446744073709551615", "0777", "0b1011",
    "0x1fU", "63", "64", "65", "12345678901", "WARP_SZ",
]  # fmt: skip
OPERATORS = [
    "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&",
    "||",
]  # fmt: skip
REALS = [
    "1.5", "2.0", "0.1", "1e-300", "3e5", ".5", "7.", "1E+3", "0d3FF8000000000000", "09.25",
    "6.02214076e23",
]  # fmt: skip


def integer_expression(rng, depth):
    def inner(least=1):
        return integer_expression(rng, depth - least)

    what = rng.random()
    if depth <= 0 or what < 0.15:
        return rng.choice(LITERALS)
    if what < 0.6:
        return f"{inner()} {rng.choice(OPERATORS)} {inner()}"
    if what < 0.7:
        return f"({inner()})"
    if what < 0.85:
        return rng.choice(["-", "!", "~", "+", "(.s64)", "(.u64)"]) + inner(2)
    if what < 0.95:
        return f"({inner()} ? {inner()} : {inner()})"
    return f"({real_expression(rng, 2)} < {real_expression(rng, 2)})"


def real_expression(rng, depth):
    what = rng.random()
    if depth <= 0 or what < 0.3:
        return rng.choice(REALS)
    if what < 0.8:
        left, right = real_expression(rng, depth - 1), real_expression(rng, depth - 1)
        return f"{left} {rng.choice('+-*/')} {right}"
    return rng.choice(["({})", "-{}"]).format(real_expression(rng, depth - 1))


def compiled(kind, expressions, folder):
    """Return the same bits as ptxas writes them; None where it refuses one."""
    (folder / "x.ptx").write_text(module_text(kind, expressions))
    command = ["ptxas", "-arch=sm_80", folder / "x.ptx", "-o", folder / "x.cubin"]
    if subprocess.run(command, capture_output=True).returncode:
        return None
    data = (folder / "x.cubin").read_bytes()
    table = struct.unpack_from("<Q", data, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    texts = data[sections[names][4] :]
    for name, _, _, _, offset, _ in sections:
        if texts[name:].split(b"\0", 1)[0] == b".nv.global.init":
            return np.frombuffer(data, f"<u{SIZES[kind]}", len(expressions), offset).tolist()
    raise AssertionError("the variable is in no section")


@pytest.mark.skipif(not shutil.which("ptxas"), reason="no ptxas on PATH")
@pytest.mark.parametrize(("kind", "make"), [("u64", integer_expression), ("f64", real_expression)])
def test_random_expressions_have_the_values_that_ptxas_gives_them(kind, make, tmp_path):
    rng = random.Random(7)
    compared = 0
    for _ in range(25):
        expressions = [make(rng, 3) for _ in range(12)]
        # So that none is all zeros, which would be in another section.
        expressions.append("1" if kind == "u64" else "1.0")
        want = compiled(kind, expressions, tmp_path)
        if want is not None:  # a division by zero
            assert simulated(kind, *expressions) == want, expressions
            compared += len(expressions)
    assert compared > 100
