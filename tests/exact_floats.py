"""Floating-point values as exact rationals, rounded once: the oracle of make_arithmetic.py."""

from fractions import Fraction

FORMATS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


def decode(bits, kind):
    """A float's bits as (sign, Fraction), or (sign, 'inf'), or (sign, 'nan')."""
    m, e = FORMATS[kind]
    sign, exponent, mantissa = bits >> (m + e), bits >> m & (1 << e) - 1, bits & (1 << m) - 1
    if exponent == (1 << e) - 1:
        return sign, "nan" if mantissa else "inf"
    bias = (1 << (e - 1)) - 1
    if exponent == 0:
        return sign, Fraction(mantissa, 1 << m) * Fraction(2) ** (1 - bias)
    return sign, (1 + Fraction(mantissa, 1 << m)) * Fraction(2) ** (exponent - bias)


def value(bits, kind):
    sign, magnitude = decode(bits, kind)
    return magnitude if isinstance(magnitude, str) else -magnitude if sign else magnitude


def encode(x, kind, mode="rn", zero_sign=0):
    """A rational, rounded once."""
    m, e = FORMATS[kind]
    bias = (1 << (e - 1)) - 1
    if x == 0:
        return zero_sign << (m + e)
    sign, x = int(x < 0), abs(x)
    exponent = max(x.numerator.bit_length() - x.denominator.bit_length() - 1, 1 - bias)
    while x >= Fraction(2) ** (exponent + 1):
        exponent += 1
    scaled = x / Fraction(2) ** (exponent - m)
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    rest = Fraction(rest, scaled.denominator)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1),
        "rz": False,
        "rm": rest and sign,
        "rp": rest and not sign,
    }[mode]
    whole += bool(up)
    if whole >> (m + 1):
        whole >>= 1
        exponent += 1
    if exponent > bias:
        infinite = mode == "rn" or (mode == "rm" and sign) or (mode == "rp" and not sign)
        return sign << (m + e) | (((1 << e) - 1) << m if infinite else (((1 << e) - 1) << m) - 1)
    return sign << (m + e) | (
        whole
        if exponent == 1 - bias and not whole >> m
        else ((exponent + bias) << m) + whole - (1 << m)
    )


def float_op(op, kind, mode, args):
    """The bits of op(args), None where the result is a NaN of an unspecified payload (float64)."""
    m, e = FORMATS[kind]
    top, infinity = m + e, ((1 << e) - 1) << m
    nan = CANONICAL.get(kind)
    parts = [decode(a, kind) for a in args]
    if any(p[1] == "nan" for p in parts):
        return nan
    if op == "div":
        (s, a), (t, b) = parts
        if (a == "inf" and b == "inf") or (a == 0 and b == 0):
            return nan
        if a == "inf" or b == 0:
            return (s ^ t) << top | infinity
        if b == "inf" or a == 0:
            return (s ^ t) << top
        return encode((-1) ** (s ^ t) * a / b, kind, mode)
    if op == "mul":
        (s, a), (t, b) = parts
        if "inf" in (a, b):
            return nan if 0 in (a, b) else (s ^ t) << top | infinity
        return encode((-1) ** (s ^ t) * a * b, kind, mode, s ^ t)
    if op == "fma":
        (s, a), (t, b), (u, c) = parts
        if "inf" in (a, b) and 0 in (a, b):
            return nan
        if "inf" in (a, b):
            return nan if c == "inf" and u != s ^ t else (s ^ t) << top | infinity
        product, ps = a * b, s ^ t
    else:
        (s, a), (u, c) = parts
        u ^= op == "sub"
        product, ps = a, s
        if a == "inf":
            return nan if c == "inf" and s != u else s << top | infinity
    if c == "inf":
        return u << top | infinity
    total = (-1) ** ps * product + (-1) ** u * c
    zero = ps if ps == u else int(mode == "rm")
    return encode(total, kind, mode, zero)


def boundary(kind):
    m, e = FORMATS[kind]
    infinity, top, bias = ((1 << e) - 1) << m, m + e, (1 << (e - 1)) - 1
    one = bias << m
    positive = [
        0,
        1,
        (1 << m) - 1,
        1 << m,
        one,
        one + 1,
        one - 1,
        one + (1 << (m - 1)),
        infinity - 1,
        infinity,
        infinity | 1 << (m - 1),
    ]
    return positive + [p | 1 << top for p in positive]
