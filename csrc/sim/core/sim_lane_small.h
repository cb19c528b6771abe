/* sim_lane_small.h: helpers of ops.def for formats of 8 bits and fewer, and for packed conversions.
 * Included by sim_lanes.c alone.
 *
 * `how` is a constant of the instruction: the format in bits 0 to 3, the rounding in bits 4 and 5
 * (as in SIM_M_ROUND), then flags.
 */
#ifndef SIM_LANE_SMALL_H
#define SIM_LANE_SMALL_H

/* Mantissa bits, exponent's bias, code of the largest number, code of NaN (that number where the
 * format has none), bits. */
struct small_format {
    uint8_t mantissa, bias, most, nan, bits;
};
static const struct small_format small_formats[] = {
#define SIM_X(id, name, mantissa, bias, most, nan, bits) {mantissa, bias, most, nan, bits},
    SIM_SMALL_FORMATS(SIM_X)
#undef SIM_X
};

/* Rounds to nearest even; every conversion saturates to the largest number, infinities too. */
INLINE uint32_t to_small(double x, uint32_t how) {
    const struct small_format f = small_formats[how & 15];
    const uint64_t u = bits64(x);
    const uint32_t sign = (uint32_t)(u >> 63) << (f.bits - 1);
    if (x != x)
        return f.nan;
    if (sign && how & SIM_SMALL_RELU)
        return 0;
    if ((u << 1) == 0)
        return sign;
    int exponent = (int)(u >> 52 & 0x7ff) - 1023;
    if (exponent > 128)
        return sign | f.most;
    if (exponent < -200)
        return sign;
    const int least = 1 - f.bias, from = exponent < least ? least : exponent;
    const int drop = 52 - f.mantissa + (from - exponent);
    const uint64_t significand = (u & 0xfffffffffffffull) | 1ull << 52;
    uint64_t kept = drop > 63 ? 0 : significand >> drop;
    const uint64_t rest = drop > 63 ? 1 : significand & ((1ull << drop) - 1),
                   half = drop > 63 ? 2 : 1ull << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    const uint64_t code = ((uint64_t)(from - least) << f.mantissa) + kept;
    return sign | (uint32_t)(code > f.most ? f.most : code);
}

/* Two values into two codes, the first one above. */
INLINE uint32_t small_pair(double high, double low, uint32_t how) {
    const struct small_format f = small_formats[how & 15];
    return to_small(high, how) << (f.bits < 5 ? 4 : 8) | to_small(low, how);
}

INLINE double from_small(uint32_t code, uint32_t how) {
    const struct small_format f = small_formats[how & 15];
    const uint32_t magnitude = code & ((1u << (f.bits - 1)) - 1);
    const uint64_t sign = (uint64_t)(code >> (f.bits - 1) & 1) << 63;
    const uint32_t exponent = magnitude >> f.mantissa;
    const uint32_t fraction = magnitude & ((1u << f.mantissa) - 1);
    if (magnitude > f.most) {
        const int infinite = !fraction;
        return double_of((infinite ? sign : 0) | 0x7ff0000000000000ull |
                         (infinite ? 0 : 0x8000000000000ull));
    }
    const int power = (int)(exponent ? exponent : 1) - f.bias - f.mantissa;
    const double scale = double_of((uint64_t)(power + 1023) << 52);
    const double x = (double)(fraction + (exponent ? 1u << f.mantissa : 0u)) * scale;
    return double_of(bits64(x) | sign);
}

/* 2^(code - 127); the sign and a value's fraction are lost, up or to zero. */
INLINE uint32_t to_ue8m0(float x, uint32_t how) {
    const uint32_t u = bits32(x) & 0x7fffffffu;
    uint32_t code = u >> 23;
    if (u > 0x7f800000u)
        return 255;
    if ((how >> 4 & 3) == 3 && u & 0x7fffffu && u > 0x00400000u && u < 0x7f800000u)
        code++;
    return code == 255 && how & SIM_SMALL_FINITE ? 254 : code;
}
INLINE uint32_t ue8m0_pair(float high, float low, uint32_t how) {
    return to_ue8m0(high, how) << 8 | to_ue8m0(low, how);
}
INLINE uint16_t bf16_of_ue8m0(uint32_t code) {
    return (uint16_t)(code == 255 ? 0x7fff : code ? code << 7 : 0x40);
}

INLINE uint16_t relu_f16(uint16_t h) { return h & 0x8000 && (h & 0x7fff) <= 0x7c00 ? 0 : h; }
INLINE uint16_t relu_bf16(uint16_t h) { return h & 0x8000 && (h & 0x7fff) <= 0x7f80 ? 0 : h; }
INLINE uint32_t small_to_f16x2(uint32_t codes, uint32_t how) {
    const uint32_t shift = small_formats[how & 15].bits < 5 ? 4 : 8, mask = (1u << shift) - 1;
    const uint16_t low = to_f16(from_small(codes & mask, how)),
                   high = to_f16(from_small(codes >> shift & mask, how));
    return how & SIM_SMALL_RELU ? pair16(relu_f16(low), relu_f16(high)) : pair16(low, high);
}

/* Halves that saturate to the largest finite number. */
INLINE uint16_t finite_f16(float x, uint32_t how) {
    const uint16_t h = round_f16(x, (int)(how >> 4 & 3));
    const uint16_t r = (h & 0x7fff) == 0x7c00 ? h - 1 : h;
    return how & SIM_SMALL_RELU ? relu_f16(r) : r;
}
INLINE uint16_t finite_bf16(float x, uint32_t how) {
    const uint16_t h = round_bf16(x, (int)(how >> 4 & 3));
    const uint16_t r = (h & 0x7fff) == 0x7f80 ? h - 1 : h;
    return how & SIM_SMALL_RELU ? relu_bf16(r) : r;
}

/* 10 bits of mantissa. Rounding in `how`; its bit for ties away from zero. */
INLINE uint32_t to_tf32_of(float x, uint32_t how) {
    enum { DROPPED = 0x1fff, HALF = 0x1000, MOST = 0x7f7fe000, INFINITE = 0x7f800000 };
    const uint32_t u = bits32(x), magnitude = u & 0x7fffffffu, sign = u & 0x80000000u;
    if (magnitude > INFINITE)
        return 0x7fffffffu;
    if (sign && how & SIM_SMALL_RELU)
        return 0;
    uint32_t r = magnitude;
    if (how & SIM_SMALL_AWAY)
        r += HALF;
    else if ((how >> 4 & 3) == 0)
        r += HALF - 1 + (r >> 13 & 1);
    r = magnitude == INFINITE ? magnitude : r & ~(uint32_t)DROPPED;
    return sign | (how & SIM_SMALL_FINITE && r >= INFINITE ? (uint32_t)MOST : r);
}

/* A video instruction: how is an operation, with SIM_VIDEO_*. Results are those of ptxas's code for
 * sm_90, not the PTX manual's: an unsigned result above 32 bits saturates only in a shift, of
 * which 34 bits count; a secondary min or max compares 64 bits, which after a sum or a saturated
 * shift are the low word, sign-extended. */
INLINE uint32_t video(uint32_t a, uint32_t b, uint32_t c, uint32_t how) {
    const int64_t x = how & SIM_VIDEO_SIGNED_A ? (int32_t)a : (int64_t)a,
                  y = how & SIM_VIDEO_SIGNED_B ? (int32_t)b : (int64_t)b;
    const uint32_t by = how & SIM_VIDEO_WRAP ? b & 31 : b > 32 ? 32 : b;
    const uint32_t op = how & SIM_VIDEO_OPS;
    const int shift = op == SIM_VIDEO_SHL || op == SIM_VIDEO_SHR;
    int64_t r = op == SIM_VIDEO_ADD    ? x + y
                : op == SIM_VIDEO_SUB  ? x - y
                : op == SIM_VIDEO_DIFF ? (x < y ? y - x : x - y)
                : op == SIM_VIDEO_MIN  ? (x < y ? x : y)
                : op == SIM_VIDEO_MAX  ? (x > y ? x : y)
                : op == SIM_VIDEO_SHL  ? (int64_t)((uint64_t)x << by)
                                       : x >> by;
    if (how & SIM_VIDEO_SAT) {
        const int64_t least = how & SIM_VIDEO_SIGNED ? INT32_MIN : 0,
                      most = how & SIM_VIDEO_SIGNED ? INT32_MAX
                             : shift                ? (int64_t)UINT32_MAX
                                                    : INT64_MAX;
        r = shift ? (int64_t)((uint64_t)r << 30) >> 30 : r;
        r = r < least ? least : r > most ? most : r;
    }
    if (op == SIM_VIDEO_ADD || op == SIM_VIDEO_SUB || (shift && how & SIM_VIDEO_SAT))
        r = (int32_t)(uint32_t)r;
    if (how & (SIM_VIDEO_THEN_MIN | SIM_VIDEO_THEN_MAX)) {
        const int less = how & SIM_VIDEO_SIGNED ? r < (int32_t)c : (uint64_t)r < c;
        return less == !!(how & SIM_VIDEO_THEN_MIN) ? (uint32_t)r : c;
    }
    return (uint32_t)r + (how & SIM_VIDEO_THEN_ADD ? c : 0);
}

/* cvt.pack: how is the number of bits, with SIM_SMALL_SIGNED. */
INLINE uint32_t cvt_pack(int32_t a, int32_t b, uint32_t c, uint32_t how) {
    const uint32_t bits = how & 31;
    const int32_t least = how & SIM_SMALL_SIGNED ? -(1 << (bits - 1)) : 0,
                  most = how & SIM_SMALL_SIGNED ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    const uint32_t mask = (1u << bits) - 1,
                   high = (uint32_t)(a < least  ? least
                                     : a > most ? most
                                                : a) &
                          mask,
                   low = (uint32_t)(b < least  ? least
                                    : b > most ? most
                                               : b) &
                         mask;
    return (bits == 16 ? 0 : c << 2 * bits) | high << bits | low;
}

/* ---- the smaller or larger magnitude, with the product's sign ---- */

INLINE uint16_t xorsign16(uint16_t r, uint16_t a, uint16_t b) {
    return (uint16_t)((r & 0x7fff) | ((a ^ b) & 0x8000));
}
INLINE int16_t relu_s16(int16_t x) { return x > 0 ? x : 0; }

#endif
