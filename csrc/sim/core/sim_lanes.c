/* sim_lanes.c: the lane operations of ops.def as functions over 32 lanes, compiled twice: portable,
 * and for processors with AVX2 and FMA. Both must return the same bits: the compiler may not
 * contract, reassociate or approximate here. Knows no warp and no memory.
 */
#include "sim_internal.h"

#include <math.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wpass-failed" /* some loops stay scalar */
#define LANE_LOOP _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < SIM_LANES; i++)
#else
#define LANE_LOOP _Pragma("GCC ivdep") for (int i = 0; i < SIM_LANES; i++)
#endif

#define INLINE static inline __attribute__((always_inline, unused))

/* C type of a lane; frames are raw memory, so these may alias */
typedef uint16_t SIM_ALIAS c_U16;
typedef int16_t SIM_ALIAS c_S16;
typedef uint32_t SIM_ALIAS c_U32;
typedef int32_t SIM_ALIAS c_S32;
typedef uint64_t SIM_ALIAS c_U64;
typedef int64_t SIM_ALIAS c_S64;
typedef float SIM_ALIAS c_F32;
typedef double SIM_ALIAS c_F64;
typedef uint16_t SIM_ALIAS c_F16, SIM_ALIAS c_BF16;
typedef uint32_t SIM_ALIAS c_F16X2, SIM_ALIAS c_BF16X2;
typedef uint8_t c_u8;
typedef int8_t c_s8;
typedef uint16_t c_u16;
typedef int16_t c_s16;
typedef uint32_t c_u32;
typedef int32_t c_s32;
typedef uint64_t c_u64;
typedef int64_t c_s64;
__extension__ typedef unsigned __int128 wide_u128;
__extension__ typedef __int128 wide_s128;
#define UWIDE (uint64_t)
#define SUWIDE (int64_t)
#define UHUGE (wide_u128)
#define SUHUGE (wide_s128)
#define c_least_u8 0
#define c_most_u8 255
#define c_least_s8 (-128)
#define c_most_s8 127
#define c_least_u16 0
#define c_most_u16 65535
#define c_least_s16 (-32768)
#define c_most_s16 32767
#define c_least_u32 0u
#define c_most_u32 UINT32_MAX
#define c_least_s32 INT32_MIN
#define c_most_s32 INT32_MAX
#define c_least_u64 0u
#define c_most_u64 UINT64_MAX
#define c_least_s64 INT64_MIN
#define c_most_s64 INT64_MAX

/* ---- helpers of the expressions ---- */

INLINE uint32_t bits32(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
INLINE float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
INLINE uint64_t bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
INLINE double double_of(uint64_t u) {
    double x;
    memcpy(&x, &u, 8);
    return x;
}
/* a float32 result that is NaN is always this one; float64 keeps payloads */
INLINE float canon(float x) { return float_of(x == x ? bits32(x) : 0x7fffffffu); }

/* Results of fast forms, rounded to a number of significant or of fractional bits. */
INLINE float significant(double x, int bits) {
    const uint64_t unit = 1ull << (53 - bits);
    const int finite = x - x == 0;
    return (float)(finite ? double_of((bits64(x) + unit / 2) & ~(unit - 1)) : x);
}
INLINE float fraction(double x, int bits) {
    const double scale = (double)(1ull << bits);
    return (float)(x - x == 0 ? copysign(nearbyint(x * scale) / scale, x) : x);
}
INLINE float fast_log2(double x) {
    const double y = log2(x);
    return fabs(y) < 1 ? fraction(y, 22) : significant(y, 23);
}
/* An angle after the hardware's range reduction: circles in float32, truncated, back in radians. */
INLINE double full_circles(float x) {
    const double exact = (double)x * 0.15915494f;
    float circles = (float)exact;
    if (fabs((double)circles) > fabs(exact))
        circles = float_of(bits32(circles) - 1);
    const double rest = (double)circles - nearbyint(circles);
    return rest != 0 || x != x ? 6.283185307179586 * rest : (double)x * 0;
}

/* minNum and maxNum: a NaN loses, -0 is below +0 */
INLINE float min_f32(float a, float b) {
    uint32_t x = bits32(a), y = bits32(b);
    uint32_t r = a < b ? x : b < a ? y : a == b ? x | y : a == a ? x : b == b ? y : 0x7fffffffu;
    return float_of(r);
}
INLINE float max_f32(float a, float b) {
    uint32_t x = bits32(a), y = bits32(b);
    uint32_t r = a > b ? x : b > a ? y : a == b ? x & y : a == a ? x : b == b ? y : 0x7fffffffu;
    return float_of(r);
}
INLINE double min_f64(double a, double b) {
    uint64_t x = bits64(a), y = bits64(b);
    return double_of(a < b    ? x
                     : b < a  ? y
                     : a == b ? x | y
                     : a == a ? x
                     : b == b ? y
                              : 0x7fffffffffffffffull);
}
INLINE double max_f64(double a, double b) {
    uint64_t x = bits64(a), y = bits64(b);
    return double_of(a > b    ? x
                     : b > a  ? y
                     : a == b ? x & y
                     : a == a ? x
                     : b == b ? y
                              : 0x7fffffffffffffffull);
}
INLINE double min_nan_f64(double a, double b) { return a != a || b != b ? a + b : min_f64(a, b); }
INLINE double max_nan_f64(double a, double b) { return a != a || b != b ? a + b : max_f64(a, b); }
INLINE float xorsign(float x, float a, float b) {
    return float_of((bits32(x) & 0x7fffffffu) | ((bits32(a) ^ bits32(b)) & 0x80000000u));
}

INLINE int32_t sat_s32(int64_t x) {
    return (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
}
INLINE int64_t sext24(int32_t x) { return (int64_t)((uint64_t)(uint32_t)x << 40) >> 40; }
/* integers of any type, clamped; compared in a type that holds both sides */
#define SATURATE(D)                                                     \
    INLINE c_##D saturate_##D##_s(int64_t x) {                          \
        return sizeof(c_##D) == 8         ? ((c_##D) - 1 < 1 ? (c_##D)x \
                                             : x < 0         ? (c_##D)0 \
                                                             : (c_##D)x)        \
               : x < (int64_t)c_least_##D ? (c_##D)c_least_##D          \
               : x > (int64_t)c_most_##D  ? (c_##D)c_most_##D           \
                                          : (c_##D)x;                    \
    }                                                                   \
    INLINE c_##D saturate_##D##_u(uint64_t x) {                         \
        return x > (uint64_t)c_most_##D ? (c_##D)c_most_##D : (c_##D)x; \
    }
SATURATE(u8)
SATURATE(s8)
SATURATE(u16)
SATURATE(s16)
SATURATE(u32)
SATURATE(s32)
SATURATE(u64)
SATURATE(s64)
#define SATURATE_OF(D, x) _Generic((x), uint64_t : saturate_##D##_u, default : saturate_##D##_s)(x)
#define saturate_u8(x) SATURATE_OF(u8, x)
#define saturate_s8(x) SATURATE_OF(s8, x)
#define saturate_u16(x) SATURATE_OF(u16, x)
#define saturate_s16(x) SATURATE_OF(s16, x)
#define saturate_u32(x) SATURATE_OF(u32, x)
#define saturate_s32(x) SATURATE_OF(s32, x)
#define saturate_u64(x) SATURATE_OF(u64, x)
#define saturate_s64(x) SATURATE_OF(s64, x)

INLINE uint32_t popcount64(uint64_t x) { return (uint32_t)__builtin_popcountll(x); }
INLINE uint32_t clz64(uint64_t x) { return x ? (uint32_t)__builtin_clzll(x) : 64; }
INLINE uint32_t shiftamt32(uint32_t x) { return x ? clz64(x) - 32 : UINT32_MAX; }
INLINE uint64_t brev64(uint64_t x) {
    x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
    x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
    return __builtin_bswap64(x);
}
INLINE uint64_t low_mask(uint32_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
INLINE uint64_t bfe_u(uint64_t a, uint32_t position, uint32_t length, uint32_t width) {
    return position >= width ? 0 : (a >> position) & low_mask(length);
}
INLINE uint64_t bfe_s(int64_t a, uint32_t position, uint32_t length, uint32_t width) {
    uint32_t last = position + length - 1;
    uint64_t sign = !length ? 0 : (uint64_t)a >> (last < width - 1 ? last : width - 1) & 1;
    uint64_t field =
        position >= width ? 0 : ((uint64_t)a & low_mask(width)) >> position & low_mask(length);
    uint32_t got = position >= width ? 0 : width - position < length ? width - position : length;
    return sign ? field | ~low_mask(got) : field;
}
INLINE uint64_t bfi(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t width) {
    if (position >= width || !length)
        return b;
    uint64_t mask = low_mask(length) << position;
    return (b & ~mask) | ((a << position) & mask);
}
INLINE uint32_t sext_from(uint32_t a, uint32_t n) {
    uint32_t low = a & (uint32_t)low_mask(n);
    return n && n < 32 && low >> (n - 1) & 1 ? low | ~(uint32_t)low_mask(n) : low;
}
INLINE uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset) {
    int step = offset < 0 ? -1 : 1, left = offset < 0    ? (offset < -32 ? 33 : -offset)
                                           : offset > 32 ? 33
                                                         : offset;
    if (base > 31)
        return UINT32_MAX;
    if (offset == 0)
        return mask >> base & 1 ? base : UINT32_MAX;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0)
            return (uint32_t)at;
    return UINT32_MAX;
}
INLINE uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t r = 0;
    for (int k = 0; k < 8; k++) {
        uint32_t on = 0u - (table >> k & 1);
        r |= on & (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    }
    return r;
}
INLINE uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) {
        uint32_t s = selector >> 4 * k & 15, byte = (uint32_t)(bytes >> (s & 7) * 8) & 255;
        r |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * k;
    }
    return r;
}
static const uint16_t b4e[4] = {0x5670, 0x6701, 0x7012, 0x0123};
static const uint16_t ecl[4] = {0x3210, 0x3211, 0x3222, 0x3333};
static const uint16_t ecr[4] = {0x0000, 0x1110, 0x2210, 0x3210};

INLINE int32_t byte_of(uint32_t x, int k, int is_signed) {
    uint32_t byte = x >> 8 * k & 255;
    return is_signed ? (int8_t)byte : (int32_t)byte;
}
INLINE uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, int sa, int sb) {
    for (int k = 0; k < 4; k++)
        c += (uint32_t)(byte_of(a, k, sa) * byte_of(b, k, sb));
    return c;
}
INLINE uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, int first, int sa, int sb) {
    for (int k = 0; k < 2; k++) {
        int32_t half = sa ? (int16_t)(a >> 16 * k) : (int32_t)(a >> 16 * k & 0xffff);
        c += (uint32_t)half * (uint32_t)byte_of(b, first + k, sb);
    }
    return c;
}
/* Byte k of a result: the low byte of the value or, with .sat, the nearest value that a byte holds.
 */
INLINE uint32_t byte_at(int32_t value, int k, int is_signed, int saturated) {
    const int32_t least = is_signed ? -128 : 0, most = is_signed ? 127 : 255;
    if (saturated)
        value = value < least ? least : value > most ? most : value;
    return ((uint32_t)value & 255) << 8 * k;
}
INLINE uint32_t vabsdiff4(uint32_t a, uint32_t b, int s, int saturated) {
    uint32_t r = 0;
    for (int k = 0; k < 4; k++) {
        int32_t d = byte_of(a, k, s) - byte_of(b, k, s);
        r |= byte_at(d < 0 ? -d : d, k, s, saturated);
    }
    return r;
}
INLINE uint32_t sum4(uint32_t x) {
    return (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
}
INLINE uint32_t vadd4(uint32_t a, uint32_t b, int s, int saturated) {
    uint32_t r = 0;
    for (int k = 0; k < 4; k++)
        r |= byte_at(byte_of(a, k, s) + byte_of(b, k, s), k, s, saturated);
    return r;
}
INLINE uint32_t vsub4(uint32_t a, uint32_t b, int s, int saturated) {
    uint32_t r = 0;
    for (int k = 0; k < 4; k++)
        r |= byte_at(byte_of(a, k, s) - byte_of(b, k, s), k, s, saturated);
    return r;
}

INLINE uint16_t lo16(uint32_t x) { return (uint16_t)x; }
INLINE uint16_t hi16(uint32_t x) { return (uint16_t)(x >> 16); }
INLINE uint32_t pair16(uint16_t lo, uint16_t hi) { return lo | (uint32_t)hi << 16; }

/* ---- half and bfloat16 ---- */

INLINE double from_f16(uint16_t h) {
    uint64_t sign = (uint64_t)(h & 0x8000) << 48;
    uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return double_of(sign | 0x7ff0000000000000ull | (uint64_t)mantissa << 42);
    if (exponent == 0)
        return double_of(sign | bits64(mantissa * 0x1p-24));
    return double_of(sign | (uint64_t)(exponent + 1008) << 52 | (uint64_t)mantissa << 42);
}
INLINE double from_bf16(uint16_t h) { return (double)float_of((uint32_t)h << 16); }

/* Round to a format of 1 + exponent + mantissa bits in 16. mode: 0 nearest even, 1 to zero, 2 down,
 * 3 up. */
static uint16_t round_small(double x, int mantissa, int least, int most, int mode) {
    uint64_t u = bits64(x), sign = u >> 63;
    uint16_t s = (uint16_t)(sign << 15);
    if (x != x)
        return 0x7fff;
    uint16_t infinity = (uint16_t)((most - least + 2) << mantissa);
    int exponent = (int)(u >> 52 & 0x7ff) - 1023;
    if (exponent == 1024)
        return (uint16_t)(s | infinity);
    if ((u << 1) == 0)
        return s;
    uint64_t significand = (u & 0xfffffffffffffull) | (exponent > -1023 ? 1ull << 52 : 0);
    int drop = 52 - mantissa; /* bits below the last one kept */
    int biased = exponent - least + 1;
    if (biased < 1) {
        drop += 1 - biased;
        biased = 0;
    }
    uint64_t kept = drop > 63 ? 0 : significand >> drop;
    uint64_t rest = drop > 63 ? 1 : significand & ((1ull << drop) - 1),
             half = drop > 63 ? 2 : 1ull << (drop - 1);
    int up = mode == 0   ? rest > half || (rest == half && (kept & 1))
             : mode == 1 ? 0
                         : rest && (mode == 2 ? sign == 1 : sign == 0);
    if (drop > 60 && mode == 0)
        up = 0;
    uint64_t r = (biased ? ((uint64_t)(biased - 1) << mantissa) : 0) + kept + (uint64_t)up;
    if (r >= infinity) {
        int to_infinity = mode == 0 || (mode == 2 && sign) || (mode == 3 && !sign);
        r = to_infinity ? infinity : (uint64_t)infinity - 1;
    }
    return (uint16_t)(s | r);
}
/* A conversion from float64 keeps a NaN's sign and the top of its payload (measured on an H200;
 * other formats give the canonical NaN). */
INLINE float f32_of_f64(double x) {
    const uint64_t u = bits64(x);
    return x == x ? (float)x
                  : float_of((uint32_t)(u >> 32 & 0x80000000u) | 0x7fc00000u |
                             (uint32_t)(u >> 29 & 0x3fffffu));
}
INLINE uint16_t small_nan(double x, int mantissa) {
    const uint64_t u = bits64(x);
    const unsigned quiet = ((1u << (16 - mantissa)) - 1) << (mantissa - 1) & 0x7fff;
    return (uint16_t)((u >> 48 & 0x8000) | quiet |
                      (u >> (52 - mantissa) & ((1u << (mantissa - 1)) - 1)));
}
INLINE uint16_t round_f16(double x, int mode) { return round_small(x, 10, -14, 15, mode); }
INLINE uint16_t round_bf16(double x, int mode) { return round_small(x, 7, -126, 127, mode); }
INLINE uint16_t to_f16(double x) { return round_f16(x, 0); }
INLINE uint16_t to_bf16(double x) { return round_bf16(x, 0); }
double sim_half_value(uint16_t h) { return from_f16(h); }
uint16_t sim_half_nearest(uint32_t bits) { return to_f16((double)float_of(bits)); }
uint16_t sim_half_toward_zero(uint32_t bits) {
    const double x = (double)float_of(bits);
    return x == x ? round_f16(x, 1) : small_nan(x, 10);
}

/* a + b rounded to odd: rounding that to at most 51 bits equals one rounding of the exact sum */
INLINE double odd_add(double a, double b) {
    double s = a + b, t = s - a, error = (a - (s - t)) + (b - t);
    if (error == 0 || error != error || (bits64(s) & 1))
        return s;
    return double_of((error > 0) == (s > 0) ? bits64(s) + 1 : bits64(s) - 1);
}

/* An integer as a double, also rounded to odd: only 64-bit integers have more than 53 bits. */
INLINE double odd_magnitude(uint64_t x) {
    const uint64_t low = x & 0x7ff;
    return (double)(x >> 53 && low ? (x & ~0x7ffull) | 0x800 : x);
}
INLINE double odd_u64(uint64_t x) { return odd_magnitude(x); }
INLINE double odd_s64(int64_t x) {
    return x < 0 ? -odd_magnitude(0 - (uint64_t)x) : odd_magnitude((uint64_t)x);
}
INLINE double odd_u8(uint8_t x) { return x; }
INLINE double odd_s8(int8_t x) { return x; }
INLINE double odd_u16(uint16_t x) { return x; }
INLINE double odd_s16(int16_t x) { return x; }
INLINE double odd_u32(uint32_t x) { return x; }
INLINE double odd_s32(int32_t x) { return x; }

#include "sim_lane_small.h"

/* ---- the functions ---- */

#define MASK1(id, mnemonic, A, expr) MASK2(id, mnemonic, A, U32, ((void)b, (expr)))
#define ALIAS(mnemonic, target)

#define LANE1(id, mnemonic, D, A, expr)                                                 \
    static TARGET void FN(id)(void *dv, const void *av, const void *bv, const void *cv, \
                              const void *ev) {                                         \
        c_##D *d = dv;                                                                  \
        const c_##A *pa = av;                                                           \
        (void)bv, (void)cv, (void)ev;                                                   \
        LANE_LOOP {                                                                     \
            const c_##A a = pa[i];                                                      \
            d[i] = (c_##D)(expr);                                                       \
        }                                                                               \
    }
#define LANE2(id, mnemonic, D, A, B, expr)                                              \
    static TARGET void FN(id)(void *dv, const void *av, const void *bv, const void *cv, \
                              const void *ev) {                                         \
        c_##D *d = dv;                                                                  \
        const c_##A *pa = av;                                                           \
        const c_##B *pb = bv;                                                           \
        (void)cv, (void)ev;                                                             \
        LANE_LOOP {                                                                     \
            const c_##A a = pa[i];                                                      \
            const c_##B b = pb[i];                                                      \
            d[i] = (c_##D)(expr);                                                       \
        }                                                                               \
    }
#define LANE3(id, mnemonic, D, A, B, C, expr)                                           \
    static TARGET void FN(id)(void *dv, const void *av, const void *bv, const void *cv, \
                              const void *ev) {                                         \
        c_##D *d = dv;                                                                  \
        const c_##A *pa = av;                                                           \
        const c_##B *pb = bv;                                                           \
        const c_##C *pc = cv;                                                           \
        (void)ev;                                                                       \
        LANE_LOOP {                                                                     \
            const c_##A a = pa[i];                                                      \
            const c_##B b = pb[i];                                                      \
            const c_##C c = pc[i];                                                      \
            (void)b, (void)c;                                                           \
            d[i] = (c_##D)(expr);                                                       \
        }                                                                               \
    }
#define LANE4(id, mnemonic, D, A, B, C, E, expr)                                        \
    static TARGET void FN(id)(void *dv, const void *av, const void *bv, const void *cv, \
                              const void *ev) {                                         \
        c_##D *d = dv;                                                                  \
        const c_##A *pa = av;                                                           \
        const c_##B *pb = bv;                                                           \
        const c_##C *pc = cv;                                                           \
        const c_##E *pe = ev;                                                           \
        LANE_LOOP {                                                                     \
            const c_##A a = pa[i];                                                      \
            const c_##B b = pb[i];                                                      \
            const c_##C c = pc[i];                                                      \
            const c_##E e = pe[i];                                                      \
            d[i] = (c_##D)(expr);                                                       \
        }                                                                               \
    }
#define MASK2(id, mnemonic, A, B, expr)                                                 \
    static TARGET void FN(id)(void *dv, const void *av, const void *bv, const void *cv, \
                              const void *ev) {                                         \
        const c_##A *pa = av;                                                           \
        const c_##B *pb = bv;                                                           \
        uint32_t mask = 0;                                                              \
        (void)cv, (void)ev;                                                             \
        for (int i = 0; i < SIM_LANES; i++) {                                           \
            const c_##A a = pa[i];                                                      \
            const c_##B b = pb[i];                                                      \
            (void)b;                                                                    \
            mask |= (uint32_t)((expr) ? 1 : 0) << i;                                    \
        }                                                                               \
        *(c_U32 *)dv = mask;                                                            \
    }

#define TARGET
#define FN(id) plain_##id
#include "ops.def"
#undef TARGET
#undef FN

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt")))
#define FN(id) wide_##id
#include "ops.def"
#undef TARGET
#undef FN
#define WIDE(id) wide_##id
int sim_lanes_wide(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}
#else
#define WIDE(id) plain_##id
int sim_lanes_wide(void) { return 0; }
#endif

/* ---- selection ---- */

#define SELECT(name, target)                                                         \
    static target void name(void *dv, const void *av, const void *bv, uint32_t mask, \
                            uint32_t bytes) {                                        \
        if (bytes == 4) {                                                            \
            c_U32 *d = dv;                                                           \
            const c_U32 *a = av, *b = bv;                                            \
            LANE_LOOP d[i] = mask >> i & 1 ? a[i] : b[i];                            \
        } else if (bytes == 8) {                                                     \
            c_U64 *d = dv;                                                           \
            const c_U64 *a = av, *b = bv;                                            \
            LANE_LOOP d[i] = mask >> i & 1 ? a[i] : b[i];                            \
        } else {                                                                     \
            c_U16 *d = dv;                                                           \
            const c_U16 *a = av, *b = bv;                                            \
            LANE_LOOP d[i] = mask >> i & 1 ? a[i] : b[i];                            \
        }                                                                            \
    }
SELECT(plain_select, )
#if defined(__x86_64__)
SELECT(wide_select, __attribute__((target("avx2"))))
#endif

void sim_select(int wide, void *d, const void *a, const void *b, uint32_t mask, uint32_t bytes) {
    (wide ? WIDE(select) : plain_select)(d, a, b, mask, bytes);
}

#undef LANE1
#undef LANE2
#undef LANE3
#undef LANE4
#undef MASK1
#undef MASK2
#undef ALIAS

/* ---- the table ---- */

#define LANE1(id, mnemonic, D, A, expr) \
    {#id, mnemonic, 0, {SIM_T_##D, SIM_T_##A, 0, 0, 0}, plain_##id, WIDE(id)},
#define LANE2(id, mnemonic, D, A, B, expr) \
    {#id, mnemonic, 0, {SIM_T_##D, SIM_T_##A, SIM_T_##B, 0, 0}, plain_##id, WIDE(id)},
#define LANE3(id, mnemonic, D, A, B, C, expr) \
    {#id, mnemonic, 0, {SIM_T_##D, SIM_T_##A, SIM_T_##B, SIM_T_##C, 0}, plain_##id, WIDE(id)},
#define LANE4(id, mnemonic, D, A, B, C, E, expr)                                       \
    {#id,        mnemonic, 0, {SIM_T_##D, SIM_T_##A, SIM_T_##B, SIM_T_##C, SIM_T_##E}, \
     plain_##id, WIDE(id)},
#define MASK1(id, mnemonic, A, expr) \
    {#id, mnemonic, 1, {SIM_T_PRED, SIM_T_##A, 0, 0, 0}, plain_##id, WIDE(id)},
#define MASK2(id, mnemonic, A, B, expr) \
    {#id, mnemonic, 1, {SIM_T_PRED, SIM_T_##A, SIM_T_##B, 0, 0}, plain_##id, WIDE(id)},
#define ALIAS(mnemonic, target)
const struct sim_lane_op sim_lane_ops[] = {
#include "ops.def"
};
const size_t sim_lane_op_count = sizeof sim_lane_ops / sizeof *sim_lane_ops;
#undef LANE1
#undef LANE2
#undef LANE3
#undef LANE4
#undef MASK1
#undef MASK2
#undef ALIAS

#define LANE1(id, mnemonic, D, A, expr)
#define LANE2(id, mnemonic, D, A, B, expr)
#define LANE3(id, mnemonic, D, A, B, C, expr)
#define LANE4(id, mnemonic, D, A, B, C, E, expr)
#define MASK1(id, mnemonic, A, expr)
#define MASK2(id, mnemonic, A, B, expr)
#define ALIAS(mnemonic, target) {mnemonic, target},
const struct sim_lane_alias sim_lane_aliases[] = {
#include "ops.def"
};
const size_t sim_lane_alias_count = sizeof sim_lane_aliases / sizeof *sim_lane_aliases;
