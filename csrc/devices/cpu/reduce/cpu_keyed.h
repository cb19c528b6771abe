/* cpu_keyed.h: the order of floats, in which -0 is less than +0 and a NaN less than any number
 * (IEEE 754-2019's minimum), and a key for their bits, which maps other orders to it by xor.
 *
 * lesser(a, b): either selection returns its second operand for two zeros or a NaN, as x86's
 * minimum does, so that the bits of both make the result; those of a NaN are arbitrary. least(a,
 * b): the same with NumPy's NaN. zero(least, signs): a minimum by comparisons alone, with its
 * sign: if it is a zero, elements with a sign are zeros. `signs` has the bits of any element.
 */
#pragma once

#include <stdint.h>

#define KEYED(name, type, unsigned_type, sign, nan)                                   \
    static inline unsigned_type bits_##name(type item) {                              \
        union {                                                                       \
            type value;                                                               \
            unsigned_type bits;                                                       \
        } number = {item};                                                            \
        return number.bits;                                                           \
    }                                                                                 \
    static inline type value_##name(unsigned_type bits) {                             \
        union {                                                                       \
            unsigned_type bits;                                                       \
            type value;                                                               \
        } number = {bits};                                                            \
        return number.value;                                                          \
    }                                                                                 \
    static inline type keyed_##name(type item, int64_t key) {                         \
        return value_##name(bits_##name(item) ^ (unsigned_type)key);                  \
    }                                                                                 \
    static inline type lesser_##name(type a, type b) {                                \
        return value_##name(bits_##name(a < b ? a : b) | bits_##name(b < a ? b : a)); \
    }                                                                                 \
    static inline type least_##name(type a, type b) {                                 \
        return a != a || b != b ? nan("") : lesser_##name(a, b);                      \
    }                                                                                 \
    static inline type greatest_##name(type a, type b) {                              \
        return a != a || b != b ? nan("") : -lesser_##name(-a, -b);                   \
    }                                                                                 \
    static inline type zero_##name(type least, unsigned_type signs) {                 \
        return least == 0 && signs >> sign ? (type)-0.0 : least;                      \
    }
KEYED(float32, float, uint32_t, 31, __builtin_nanf)
KEYED(float64, double, uint64_t, 63, __builtin_nan)
#undef KEYED
