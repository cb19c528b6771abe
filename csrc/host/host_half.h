/* host_half.h: float16 by its bits. */
#ifndef GPUOPT_HOST_HALF_H
#define GPUOPT_HOST_HALF_H

#include <stdint.h>

/* Binary16 to binary32: the exponent is moved by a multiplication, which also makes subnormal
 * numbers right; infinity and NaN get their exponent back. */
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

/* Back, of a number that half_to_float gave. */
static inline uint16_t float_to_half(float value) {
    union {
        float value;
        uint32_t bits;
    } number = {value}, scale;
    const uint32_t sign = number.bits >> 16 & 0x8000;
    number.bits &= 0x7fffffff;
    if (number.bits >= 0x7f800000)
        return (uint16_t)(sign | 0x7c00 | (number.bits >> 13 & 0x3ff));
    scale.bits = 0x07800000; /* 2^-112 */
    number.value *= scale.value;
    return (uint16_t)(sign | number.bits >> 13);
}

#endif
