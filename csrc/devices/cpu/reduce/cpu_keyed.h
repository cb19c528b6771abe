/* cpu_keyed.h: the order of floats, in which -0 is less than +0 and a NaN less than any number
 * (IEEE 754-2019's minimum), and a key for their bits, which maps other orders to it by xor.
 *
 * lesser(a, b): either selection returns its second operand for two zeros or a NaN, as x86's
 * minimum does, so that the bits of both make the result; those of a NaN are arbitrary. least(a,
 * b): the same with NumPy's NaN. zero(least, signs): a minimum by comparisons alone, with its
 * sign: if it is a zero, elements with a sign are zeros. `signs` has the bits of any element.
 */
#pragma once

#include "../cpu_isa.h"

static inline uint32_t bits_float32(float item) {
    union {
        float value;
        uint32_t bits;
    } number = {item};
    return number.bits;
}
static inline float value_float32(uint32_t bits) {
    union {
        uint32_t bits;
        float value;
    } number = {bits};
    return number.value;
}
static inline float keyed_float32(float item, int64_t key) {
    return value_float32(bits_float32(item) ^ (uint32_t)key);
}
static inline float lesser_float32(float a, float b) {
    return value_float32(bits_float32(a < b ? a : b) | bits_float32(b < a ? b : a));
}
static inline float least_float32(float a, float b) {
    return a != a || b != b ? __builtin_nanf("") : lesser_float32(a, b);
}
static inline float greatest_float32(float a, float b) {
    return a != a || b != b ? __builtin_nanf("") : -lesser_float32(-a, -b);
}
static inline float zero_float32(float least, uint32_t signs) {
    return least == 0 && signs >> 31 ? -0.0f : least;
}

static inline uint64_t bits_float64(double item) {
    union {
        double value;
        uint64_t bits;
    } number = {item};
    return number.bits;
}
static inline double value_float64(uint64_t bits) {
    union {
        uint64_t bits;
        double value;
    } number = {bits};
    return number.value;
}
static inline double keyed_float64(double item, int64_t key) {
    return value_float64(bits_float64(item) ^ (uint64_t)key);
}
static inline double lesser_float64(double a, double b) {
    return value_float64(bits_float64(a < b ? a : b) | bits_float64(b < a ? b : a));
}
static inline double least_float64(double a, double b) {
    return a != a || b != b ? __builtin_nan("") : lesser_float64(a, b);
}
static inline double greatest_float64(double a, double b) {
    return a != a || b != b ? __builtin_nan("") : -lesser_float64(-a, -b);
}
static inline double zero_float64(double least, uint64_t signs) {
    return least == 0 && signs >> 63 ? -0.0 : least;
}
