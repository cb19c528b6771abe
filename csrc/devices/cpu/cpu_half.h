/* cpu_half.h: float16 and bfloat16 as bits. Knows no operation. */
#ifndef GPUOPT_CPU_HALF_H
#define GPUOPT_CPU_HALF_H

#include <stdint.h>

/* Binary16 to binary32: a multiplication shifts the exponent, which also converts subnormal
 * numbers; infinity and NaN have their exponent restored. */
static inline float half_to_float(uint16_t half) {
    union {
        uint32_t bits;
        float value;
    } number = {(uint32_t)(half & 0x7fff) << 13}, scale = {0x77800000}; /* 2^112 */
    number.value *= scale.value;
    number.bits |= (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    number.bits |= (uint32_t)(half & 0x8000) << 16;
    return number.value;
}

static inline float bfloat_to_float(uint16_t bfloat) {
    union {
        uint32_t bits;
        float value;
    } number = {(uint32_t)bfloat << 16};
    return number.value;
}

/* Binary64 to binary32 for a second rounding: truncated towards zero, with an odd last bit if bits
 * were lost. A further rounding to half as many bits then equals a single rounding. */
static inline uint32_t float_to_odd(double value) {
    union {
        float value;
        uint32_t bits;
    } number = {(float)value};
    const double nearest = number.value;
    number.bits -= __builtin_fabs(nearest) > __builtin_fabs(value);
    return number.bits | (nearest != value);
}

/* Back, to nearest even. All cases are computed, so that the loop vectorizes. */
static inline uint16_t double_to_half(double value) {
    union {
        uint32_t bits;
        float value;
    } number = {float_to_odd(value)};
    const uint32_t sign = number.bits >> 16 & 0x8000;
    const uint32_t bits = number.bits &= 0x7fffffff;
    const uint32_t rounded = (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13;
    number.value += 0.5f; /* a subnormal result is a multiple of its last bit */
    uint32_t half = bits < 0x38800000 ? number.bits - 0x3f000000 : rounded; /* 2^-14 */
    half = bits >= 0x47800000 ? 0x7c00 : half;                              /* 2^16 */
    half = bits > 0x7f800000 ? 0x7e00 | (bits >> 13 & 0x3ff) : half;
    return (uint16_t)(sign | half);
}
static inline uint16_t double_to_bfloat(double value) {
    const uint32_t bits = float_to_odd(value);
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded) >> 16);
}

#endif
