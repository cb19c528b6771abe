/* cpu_reduce_axis.h: what cpu_reduce_axis.c makes of items, and how it combines them: as
 * axis_lanes.cuh, by macros that are named after operations and types. Nothing here knows a shape.
 */
#ifndef GPUOPT_CPU_REDUCE_AXIS_H
#define GPUOPT_CPU_REDUCE_AXIS_H

#include "cpu_gather.h"
#include "cpu_half.h"
#include "cpu_isa.h"

/* What becomes of a result: reduce_axis.cu's. */
enum { RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 };

typedef int8_t type_int8;
typedef int16_t type_int16;
typedef int32_t type_int32;
typedef int64_t type_int64;
typedef uint16_t type_float16, type_bfloat16; /* their bits */
typedef float type_float32;
typedef double type_float64;
typedef struct complex_single {
    float real, imag;
} type_complex64;
typedef struct complex_double type_complex128;

/* --- items as what they are combined as */

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

#define KEYED_int8(x) ((int8_t)((x) ^ (int8_t)key))
#define KEYED_int16(x) ((int16_t)((x) ^ (int16_t)key))
#define KEYED_int32(x) ((x) ^ (int32_t)key)
#define KEYED_int64(x) ((x) ^ key)
#define KEYED_float16(x) half_to_float((uint16_t)((x) ^ (uint16_t)key))
#define KEYED_bfloat16(x) bfloat_to_float((uint16_t)((x) ^ (uint16_t)key))
#define KEYED_float32(x) keyed_float32(x, key)
#define KEYED_float64(x) keyed_float64(x, key)
#define BACK_int8(x) KEYED_int8(x)
#define BACK_int16(x) KEYED_int16(x)
#define BACK_int32(x) KEYED_int32(x)
#define BACK_int64(x) KEYED_int64(x)
#define BACK_float16(x) ((uint16_t)(double_to_half(x) ^ (uint16_t)key))
#define BACK_bfloat16(x) ((uint16_t)(double_to_bfloat(x) ^ (uint16_t)key))
#define BACK_float32(x) KEYED_float32(x)
#define BACK_float64(x) KEYED_float64(x)

typedef int8_t compared_int8;
typedef int16_t compared_int16;
typedef int32_t compared_int32;
typedef int64_t compared_int64;
typedef float compared_float16;
typedef float compared_bfloat16;
typedef float compared_float32;
typedef double compared_float64;
#define HIGHEST_int8 INT8_MAX
#define HIGHEST_int16 INT16_MAX
#define HIGHEST_int32 INT32_MAX
#define HIGHEST_int64 INT64_MAX
#define HIGHEST_float16 __builtin_inff()
#define HIGHEST_bfloat16 __builtin_inff()
#define HIGHEST_float32 __builtin_inff()
#define HIGHEST_float64 __builtin_inf()
/* Where an item is in a run of at most BLOCK: as wide as what is compared, for the vectors' sake.
 */
#define PLACE_int8 int8_t
#define PLACE_int16 int16_t
#define PLACE_int32 int32_t
#define PLACE_int64 int64_t
#define PLACE_float16 int32_t
#define PLACE_bfloat16 int32_t
#define PLACE_float32 int32_t
#define PLACE_float64 int64_t
/* Nothing is less than the least integer, and nothing replaces a NaN. */
#define LEAST_int8(x) ((x) == INT8_MIN)
#define LEAST_int16(x) ((x) == INT16_MIN)
#define LEAST_int32(x) ((x) == INT32_MIN)
#define LEAST_int64(x) ((x) == INT64_MIN)
#define LEAST_float16(x) ((x) != (x))
#define LEAST_bfloat16(x) ((x) != (x))
#define LEAST_float32(x) ((x) != (x))
#define LEAST_float64(x) ((x) != (x))

/* Numbers, as they are added up in runs of at most BLOCK. */
typedef int16_t narrow_int8_int64;
typedef int32_t narrow_int16_int64;
typedef int64_t narrow_int32_int64;
typedef int64_t narrow_int64_int64;
typedef double narrow_int64_float64;
typedef double narrow_float16_float64;
typedef double narrow_bfloat16_float64;
typedef double narrow_float32_float64;
typedef double narrow_float64_float64;
#define NUMBER_int8_int64(x) ((int16_t)((x) & (int16_t)key))
#define NUMBER_int16_int64(x) ((int32_t)(x) & (int32_t)key)
#define NUMBER_int32_int64(x) ((int64_t)(x)&key)
#define NUMBER_int64_int64(x) (x)
#define NUMBER_int64_float64(x) (key == -1 ? (double)(x) : (double)(uint64_t)(x))
#define NUMBER_float16_float64(x) ((double)half_to_float(x))
#define NUMBER_bfloat16_float64(x) ((double)bfloat_to_float(x))
#define NUMBER_float32_float64(x) ((double)(x))
#define NUMBER_float64_float64(x) (x)
#define NUMBER_complex64_complex128(x) ((struct complex_double){(x).real, (x).imag})
#define NUMBER_complex128_complex128(x) (x)
typedef uint8_t unsigned_int8;
typedef uint16_t unsigned_int16;
typedef uint32_t unsigned_int32;
typedef uint64_t unsigned_int64;

/* --- operations: VALUE_<op>(items, acc) is the type that is combined, NARROW_ the one in which a
 * run's items are, COMBINE_ what combines those, SETTLED_ whether a run's value is the result
 * whatever else there is */

#define VALUE_sum(items, acc) type_##acc
#define VALUE_prod(items, acc) type_##acc
#define VALUE_count(items, acc) int64_t
#define VALUE_bits(items, acc) type_##items
#define VALUE_min(items, acc) compared_##items
#define VALUE_argmin(items, acc) struct placed_##items
#define NARROW_sum(items, acc) narrow_##items##_##acc
#define NARROW_prod(items, acc) type_##acc
#define NARROW_count(items, acc) unsigned_##items
#define NARROW_bits(items, acc) type_##items
#define NARROW_min(items, acc) compared_##items

#define PLACED(items)           \
    struct placed_##items {     \
        compared_##items value; \
        int64_t index;          \
    };
PLACED(int8)
PLACED(int16)
PLACED(int32)
PLACED(int64)
PLACED(float16)
PLACED(bfloat16)
PLACED(float32)
PLACED(float64)

#define LOAD_sum(items, acc, x) NUMBER_##items##_##acc(x)
#define LOAD_prod(items, acc, x) NUMBER_##items##_##acc(x)
#define LOAD_count(items, acc, x) (((x) & (type_##items)key) != 0)
#define LOAD_bits(items, acc, x) KEYED_##items(x)
#define LOAD_min(items, acc, x) KEYED_##items(x)

#define ZERO_int64 0
#define ZERO_float64 0
#define ONE_int64 1
#define ONE_float64 1
#define ONE_complex128 ((struct complex_double){1, 0})
#define IDENTITY_sum(items, acc) ZERO_##acc
#define IDENTITY_prod(items, acc) ONE_##acc
#define IDENTITY_count(items, acc) 0
#define IDENTITY_bits(items, acc) 0
#define IDENTITY_min(items, acc) HIGHEST_##items
#define IDENTITY_argmin(items, acc) ((struct placed_##items){HIGHEST_##items, INT64_MAX})

static inline struct complex_double complex_prod(struct complex_double a, struct complex_double b) {
    return (struct complex_double){rounded_prod(a.real, b.real) - rounded_prod(a.imag, b.imag),
                                   rounded_prod(a.real, b.imag) + rounded_prod(a.imag, b.real)};
}
#define PLUS_int64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define PLUS_float64(a, b) ((a) + (b))
#define TIMES_int64(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define TIMES_float64(a, b) ((a) * (b))
#define TIMES_complex128(a, b) complex_prod(a, b)
#define APPLY_sum(items, acc, a, b) PLUS_##acc(a, b)
#define APPLY_prod(items, acc, a, b) TIMES_##acc(a, b)
#define APPLY_count(items, acc, a, b) ((a) + (b))
#define APPLY_bits(items, acc, a, b) ((type_##items)((a) ^ (b) ^ ((a) & (b) & (type_##items)mask)))
/* A NaN on either side wins: a comparison with one in `a` keeps it, and one in `b` is taken as
 * such. In two steps, each of which is a blend: gcc vectorises chains of it. */
#define LESSER(items)                                                                    \
    CPU_INLINE compared_##items lesser_##items(compared_##items a, compared_##items b) { \
        const compared_##items less = b < a ? b : a;                                     \
        return b != b ? b : less;                                                        \
    }
LESSER(int8)
LESSER(int16)
LESSER(int32)
LESSER(int64)
LESSER(float16)
LESSER(bfloat16)
LESSER(float32)
LESSER(float64)
#define APPLY_min(items, acc, a, b) lesser_##items(a, b)
#define APPLY_argmin(items, acc, a, b)                                               \
    ((((a).value == (b).value || ((a).value != (a).value && (b).value != (b).value)) \
          ? (a).index < (b).index                                                    \
          : (a).value < (b).value || (a).value != (a).value)                         \
         ? (a)                                                                       \
         : (b))
/* Whether a value stays whatever comes after it: the first NaN, so that one share's does not depend
 * on which others were left out. */
#define STAYS_sum(value) false
#define STAYS_prod(value) false
#define STAYS_count(value) false
#define STAYS_bits(value) false
#define STAYS_min(value) ((value) != (value))
#define STAYS_argmin(value) false
#define COMBINE_sum(items, acc, a, b) PLUS_##items##_##acc(a, b)
#define PLUS_int8_int64(a, b) ((int16_t)((a) + (b)))
#define PLUS_int16_int64(a, b) ((a) + (b))
#define PLUS_int32_int64(a, b) ((a) + (b))
#define PLUS_int64_int64(a, b) PLUS_int64(a, b)
#define PLUS_int64_float64(a, b) ((a) + (b))
#define PLUS_float16_float64(a, b) ((a) + (b))
#define PLUS_bfloat16_float64(a, b) ((a) + (b))
#define PLUS_float32_float64(a, b) ((a) + (b))
#define PLUS_float64_float64(a, b) ((a) + (b))
#define COMBINE_prod(items, acc, a, b) TIMES_##acc(a, b)
#define COMBINE_count(items, acc, a, b) ((unsigned_##items)((a) + (b)))
#define COMBINE_bits(items, acc, a, b) APPLY_bits(items, acc, a, b)
#define COMBINE_min(items, acc, a, b) APPLY_min(items, acc, a, b)

#define SETTLED_sum(items, acc, value, count) false
#define SETTLED_prod(items, acc, value, count) false
#define SETTLED_bits(items, acc, value, count) false
#define SETTLED_min(items, acc, value, count) LEAST_##items(value)
#define SETTLED_count(items, acc, value, count) \
    (part->finish == ANY ? (value) != 0 : part->finish == ALL && (value) != (int64_t)(count))

#endif
