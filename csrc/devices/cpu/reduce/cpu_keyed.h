/* cpu_keyed.h: floats whose bits are combined with a key by xor, which maps other orders to theirs.
 */
#pragma once

#include <stdint.h>

static inline float keyed_float32(float item, int64_t key) {
    union {
        float value;
        uint32_t bits;
    } number = {item};
    number.bits ^= (uint32_t)key;
    return number.value;
}
static inline double keyed_float64(double item, int64_t key) {
    union {
        double value;
        uint64_t bits;
    } number = {item};
    number.bits ^= (uint64_t)key;
    return number.value;
}
