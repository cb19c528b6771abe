/* int_math.h: minimum, maximum, ceiling division and greatest common divisor of unsigned integers.
 */
#ifndef GPUOPT_INT_MATH_H
#define GPUOPT_INT_MATH_H

#include <stdint.h>

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
static inline uint64_t round_up(uint64_t a, uint64_t unit) { return ceil_div(a, unit) * unit; }
static inline uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
