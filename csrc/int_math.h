/* int_math.h: minimum, maximum and ceiling division of unsigned integers. */
#ifndef GPUOPT_INT_MATH_H
#define GPUOPT_INT_MATH_H

#include <stdint.h>

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
static inline uint64_t round_up(uint64_t a, uint64_t unit) { return ceil_div(a, unit) * unit; }

#endif
