/* cpu_reduce_items.h: the conversions and operations of cpu_reduce.c on elements, as macros named
 * after operations and types. Knows no array. A `key` maps operations to others: unsigned to
 * signed, max to min.
 */
#ifndef GPUOPT_CPU_REDUCE_ITEMS_H
#define GPUOPT_CPU_REDUCE_ITEMS_H

#include "../cpu_gather.h"
#include "../cpu_half.h"
#include "../cpu_isa.h"
#include "cpu_keyed.h"

/* --- types: type_<dtype>, and LOAD_<dtype>(acc, x), an element as an accumulator */

typedef uint8_t type_bool;
typedef int8_t type_int8;
typedef int16_t type_int16;
typedef int32_t type_int32;
typedef int64_t type_int64;
typedef uint8_t type_uint8;
typedef uint16_t type_uint16;
typedef uint32_t type_uint32;
typedef uint64_t type_uint64;
typedef uint16_t type_float16; /* its bits */
typedef float type_float32;
typedef double type_float64;
typedef struct complex_single type_complex64;
typedef struct complex_double type_complex128;

/* As wide as an accumulator whose signs matter. */
typedef uint8_t bits_of_bool, bits_of_int8, bits_of_int16, bits_of_int32, bits_of_int64;
typedef uint8_t bits_of_uint8, bits_of_uint16, bits_of_uint32, bits_of_uint64;
typedef uint32_t bits_of_float32;
typedef uint64_t bits_of_float64;

#define LOAD_bool(acc, x) ((type_##acc)((x) != 0))
#define LOAD_int8(acc, x) ((type_##acc)(x) & (type_##acc)key)
#define LOAD_int16(acc, x) ((type_##acc)(x) & (type_##acc)key)
#define LOAD_int32(acc, x) ((type_##acc)(x) & (type_##acc)key)
#define LOAD_int64(acc, x) ((type_##acc)(x))
#define LOAD_float16(acc, x) ((type_##acc)half_to_float(x))
#define LOAD_float32(acc, x) ((type_##acc)(x))
#define LOAD_float64(acc, x) ((type_##acc)(x))
#define LOAD_complex64(acc, x) ((type_##acc){(x).real, (x).imag})
#define LOAD_complex128(acc, x) (x)

/* --- operations: APPLY_<op>(acc, a, b), and its identity element IDENTITY_<op>(acc) */

static inline struct complex_double complex_sum(struct complex_double a, struct complex_double b) {
    return (struct complex_double){a.real + b.real, a.imag + b.imag};
}

/* Signed integers wrap as NumPy's do: the arithmetic is unsigned, which C defines. */
#define SUM_int64(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define SUM_uint64(a, b) ((a) + (b))
#define SUM_float64(a, b) ((a) + (b))
#define SUM_complex128(a, b) complex_sum(a, b)
#define PROD_int64(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
#define PROD_uint64(a, b) ((a) * (b))
#define PROD_float64(a, b) ((a) * (b))
#define PROD_complex128(a, b) complex_prod(a, b)

#define APPLY_sum(acc, a, b) SUM_##acc(a, b)
#define APPLY_prod(acc, a, b) PROD_##acc(a, b)
#define APPLY_min(acc, a, b) MIN_##acc(a, b)
#define APPLY_max(acc, a, b) MAX_##acc(a, b)
#define MIN_float32(a, b) least_float32(a, b)
#define MAX_float32(a, b) greatest_float32(a, b)
#define MIN_float64(a, b) least_float64(a, b)
#define MAX_float64(a, b) greatest_float64(a, b)
#define EXTREMES(type)                                                                           \
    static inline type_##type MIN_##type(type_##type a, type_##type b) { return b < a ? b : a; } \
    static inline type_##type MAX_##type(type_##type a, type_##type b) { return b > a ? b : a; }
EXTREMES(int8)
EXTREMES(int16)
EXTREMES(int32)
EXTREMES(int64)
EXTREMES(uint8)
EXTREMES(uint16)
EXTREMES(uint32)
EXTREMES(uint64)
#define APPLY_and(acc, a, b) ((type_##acc)((a) & (b)))
#define APPLY_or(acc, a, b) ((type_##acc)((a) | (b)))
#define APPLY_xor(acc, a, b) ((type_##acc)((a) ^ (b)))

/* Type in which a chunk's elements are added. */
#define NARROW_sum(items, acc) narrow_##items
#define NARROW_min(items, acc) type_##acc
#define NARROW_and(items, acc) type_##acc
#define NARROW_or(items, acc) type_##acc
#define NARROW_xor(items, acc) type_##acc
typedef uint8_t narrow_bool;
typedef int16_t narrow_int8;
typedef int32_t narrow_int16;
typedef int64_t narrow_int32;
typedef uint64_t narrow_int64; /* wraps */

/* Elements of a piece that are reduced before the others: of the same lanes, which need no room. */
#define TO_LINE_sum(in, count, size, step) (count)
#define TO_LINE_and(in, count, size, step) (count)
#define TO_LINE_or(in, count, size, step) (count)
#define TO_LINE_xor(in, count, size, step) (count)
#define TO_LINE_min(in, count, size, step) to_line(in, count, size, step)

#define COMBINE_sum(acc, a, b) (narrow)((a) + (b))
#define COMBINE_min(acc, a, b) ((b) < (a) ? (b) : (a)) /* ignores a NaN in b */
#define COMBINE_and(acc, a, b) APPLY_and(acc, a, b)
#define COMBINE_or(acc, a, b) APPLY_or(acc, a, b)
#define COMBINE_xor(acc, a, b) APPLY_xor(acc, a, b)

#define KEYED_int8(x) ((int8_t)((x) ^ (int8_t)key))
#define KEYED_int16(x) ((int16_t)((x) ^ (int16_t)key))
#define KEYED_int32(x) ((x) ^ (int32_t)key)
#define KEYED_int64(x) ((x) ^ key)
#define KEYED_float32(x) keyed_float32(x, key)
#define KEYED_float64(x) keyed_float64(x, key)

/* Folds a chunk's lanes. */
#define FOLD_sum(acc, a, b) APPLY_sum(acc, a, b)
#define FOLD_min(acc, a, b) COMBINE_min(acc, a, b)
#define FOLD_and(acc, a, b) APPLY_and(acc, a, b)
#define FOLD_or(acc, a, b) APPLY_or(acc, a, b)
#define FOLD_xor(acc, a, b) APPLY_xor(acc, a, b)

/* Converts an element for combination, and back. */
#define ITEM_sum(items, acc, x) ((narrow)(LOAD_NARROW_##items(x)))
#define LOAD_NARROW_bool(x) ((x) != 0)
#define LOAD_NARROW_int8(x) ((x) & (narrow)key)
#define LOAD_NARROW_int16(x) ((x) & (narrow)key)
#define LOAD_NARROW_int32(x) ((x) & (narrow)key)
#define LOAD_NARROW_int64(x) (x)
#define ITEM_min(items, acc, x) KEYED_##acc(VALUE_##items(x))
#define VALUE_int8(x) (x)
#define VALUE_int16(x) (x)
#define VALUE_int32(x) (x)
#define VALUE_int64(x) (x)
#define VALUE_float16(x) half_to_float(x)
#define VALUE_float32(x) (x)
#define VALUE_float64(x) (x)
#define ITEM_and(items, acc, x) LOAD_##items(acc, x)
#define ITEM_or(items, acc, x) LOAD_##items(acc, x)
#define ITEM_xor(items, acc, x) LOAD_##items(acc, x)
#define BACK_sum(acc, x) (x)
#define BACK_min(acc, x) KEYED_##acc(x)
#define BACK_and(acc, x) (x)
#define BACK_or(acc, x) (x)
#define BACK_xor(acc, x) (x)

/* Beside a chunk's minimum by comparisons: its elements' bits, whether one is a NaN, and the value
 * that they make of it. Integers and other operations need none. */
#define SIGN_sum(acc, x) 0
#define SIGN_and(acc, x) 0
#define SIGN_or(acc, x) 0
#define SIGN_xor(acc, x) 0
#define SIGN_min(acc, x) SIGN_##acc(x)
#define SIGN_int8(x) 0
#define SIGN_int16(x) 0
#define SIGN_int32(x) 0
#define SIGN_int64(x) 0
#define SIGN_float32(x) bits_float32(x)
#define SIGN_float64(x) bits_float64(x)
#define EITHER_NAN_sum(items, acc, x, y) 0
#define EITHER_NAN_and(items, acc, x, y) 0
#define EITHER_NAN_or(items, acc, x, y) 0
#define EITHER_NAN_xor(items, acc, x, y) 0
#define EITHER_NAN_min(items, acc, x, y) EITHER_NAN_##acc(VALUE_##items(x), VALUE_##items(y))
#define EITHER_NAN_int8(x, y) 0
#define EITHER_NAN_int16(x, y) 0
#define EITHER_NAN_int32(x, y) 0
#define EITHER_NAN_int64(x, y) 0
#define EITHER_NAN_float32(x, y) __builtin_isunordered(x, y)
#define EITHER_NAN_float64(x, y) __builtin_isunordered(x, y)
#define VALUE_OF_sum(acc, value, signs, nan) (value)
#define VALUE_OF_and(acc, value, signs, nan) (value)
#define VALUE_OF_or(acc, value, signs, nan) (value)
#define VALUE_OF_xor(acc, value, signs, nan) (value)
#define VALUE_OF_min(acc, value, signs, nan) LEAST_##acc(value, signs, nan)
#define LEAST_int8(value, signs, nan) (value)
#define LEAST_int16(value, signs, nan) (value)
#define LEAST_int32(value, signs, nan) (value)
#define LEAST_int64(value, signs, nan) (value)
#define LEAST_float32(value, signs, nan) \
    ((nan) ? KEYED_float32(__builtin_nanf("")) : zero_float32(value, signs))
#define LEAST_float64(value, signs, nan) \
    ((nan) ? KEYED_float64(__builtin_nan("")) : zero_float64(value, signs))

#define HIGHEST_int8 INT8_MAX
#define HIGHEST_int16 INT16_MAX
#define HIGHEST_int32 INT32_MAX
#define HIGHEST_int64 INT64_MAX
#define HIGHEST_float32 __builtin_inff()
#define HIGHEST_float64 __builtin_inf()
#define ONE_int64 1
#define ONE_uint64 1
#define ONE_float64 1
#define ONE_complex128 ((type_complex128){1, 0})
#define ZERO_int64 0
#define ZERO_uint64 0
#define ZERO_float64 0
#define ZERO_complex128 ((type_complex128){0, 0})
#define ALL_ONES_bool 1

#define IDENTITY_sum(acc) ZERO_##acc
#define IDENTITY_prod(acc) ONE_##acc
#define IDENTITY_min(acc) HIGHEST_##acc
#define IDENTITY_and(acc) ALL_ONES_##acc
#define IDENTITY_or(acc) 0
#define IDENTITY_xor(acc) 0

/* --- signatures: from those of a reduction to the fewer that have code, and their keys */

/* The chunks of an operation on a dtype. */
#define CORE_sum(items) JOIN(sum, SIGNED_##items)
#define CORE_prod(items) JOIN(prod, SIGNED_##items)
#define CORE_min(items) JOIN(min, SIGNED_##items)
#define CORE_max(items) JOIN(min, SIGNED_##items)
#define CORE_and(items) JOIN(and, BITS_##items)
#define CORE_or(items) JOIN(or, BITS_##items)
#define CORE_xor(items) JOIN(xor, BITS_##items)
#define JOIN(op, items) JOINED(op, items)
#define JOINED(op, items) op##_##items
#define and_bits or_bits /* of complements */
#define SIGNED_bool bool
#define SIGNED_int8 int8
#define SIGNED_int16 int16
#define SIGNED_int32 int32
#define SIGNED_int64 int64
#define SIGNED_uint8 int8
#define SIGNED_uint16 int16
#define SIGNED_uint32 int32
#define SIGNED_uint64 int64
#define SIGNED_float16 float16
#define SIGNED_float32 float32
#define SIGNED_float64 float64
#define SIGNED_complex64 complex64
#define SIGNED_complex128 complex128
#define BITS_bool bool
#define BITS_int8 bits
#define BITS_int16 bits
#define BITS_int32 bits
#define BITS_int64 bits
#define BITS_uint8 bits
#define BITS_uint16 bits
#define BITS_uint32 bits
#define BITS_uint64 bits

/* Sums mask an unsigned element that is widened; extremes flip bits to obtain the order of signed
 * elements, smallest first; `and` flips all bits. */
#define KEY_sum(items) KEPT_##items
#define KEY_prod(items) KEPT_##items
#define KEY_min(items) FLIPPED_##items
#define KEY_max(items) (FLIPPED_##items ^ REVERSED_##items)
#define KEY_and(items) -1
#define KEY_or(items) 0
#define KEY_xor(items) 0
#define TOGETHER_sum 1
#define TOGETHER_prod 1
#define TOGETHER_min TASK_CHUNKS
#define TOGETHER_max TASK_CHUNKS
#define TOGETHER_and TASK_CHUNKS
#define TOGETHER_or TASK_CHUNKS
#define TOGETHER_xor TASK_CHUNKS
#define KEPT_bool -1
#define KEPT_int8 -1
#define KEPT_int16 -1
#define KEPT_int32 -1
#define KEPT_int64 -1
#define KEPT_uint8 UINT8_MAX
#define KEPT_uint16 UINT16_MAX
#define KEPT_uint32 UINT32_MAX
#define KEPT_uint64 -1
#define KEPT_float16 -1
#define KEPT_float32 -1
#define KEPT_float64 -1
#define KEPT_complex64 -1
#define KEPT_complex128 -1
#define FLIPPED_int8 0
#define FLIPPED_int16 0
#define FLIPPED_int32 0
#define FLIPPED_int64 0
#define FLIPPED_uint8 INT8_MIN
#define FLIPPED_uint16 INT16_MIN
#define FLIPPED_uint32 INT32_MIN
#define FLIPPED_uint64 INT64_MIN
#define FLIPPED_float16 0
#define FLIPPED_float32 0
#define FLIPPED_float64 0
#define REVERSED_int8 -1
#define REVERSED_int16 -1
#define REVERSED_int32 -1
#define REVERSED_int64 -1
#define REVERSED_uint8 -1
#define REVERSED_uint16 -1
#define REVERSED_uint32 -1
#define REVERSED_uint64 -1
#define REVERSED_float16 INT32_MIN /* the sign of a float32 */
#define REVERSED_float32 INT32_MIN
#define REVERSED_float64 INT64_MIN

#endif
