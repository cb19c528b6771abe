/* host_reduce_axis.c: reductions along an axis on the CPU. Arguments, keys and finishes are those
 * of reduce_axis.cu. The work is cut into tasks (rows, a share of the reduced axis, a tile of
 * columns) by the sizes alone, and partial results are combined in a binary tree: every number of
 * threads gives the same bits.
 */

/* As the kernels', and products of complex numbers. */
#define HOST_REDUCE_AXIS_SIGNATURES(SIGNATURE) \
    REDUCE_AXIS_SIGNATURES(SIGNATURE)          \
    SIGNATURE(prod, complex128, complex128)

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "host_reduce_axis_serial",
     "one thread: 16 sums side by side along a row, a row of sums over columns",
     "after the decks", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "team", "host_reduce_axis_team",
     "the same tasks, taken by all cores",
     "after the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#define GPUOPT_RUNGS /* the kernels' signatures, without the kernels */
#define RUNG(...)
#include "../kernels/reduce_axis.cu"
#undef RUNG
#undef GPUOPT_RUNGS

#include "host_half.h"
#include "host_isa.h"
#include "host_kernels.h"
#include "host_team.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 16,
    LANE_BYTES = 128,          /* of a run's lanes together, where that makes more of them */
    BLOCK = 128,               /* items that are added up in few bits, */
    LEAF = LANES * BLOCK,      /* and those of a row */
    FIRST_LEAF = LANES,        /* of a row of bytes: it may hold what ends the search */
    TILE = 512,                /* columns of a task */
    SHORT_ROW = 16,            /* items */
    FOLDED = 64,               /* columns, and rows of them, for which rows are taken together */
    SEARCHED = 64,             /* items of a row at a time; of 16 gcc makes no vectors */
    TREE_DEPTH = 64,           /* of a binary tree over any 64-bit count */
    BYTES_PER_NS = 8,          /* that one thread reduces, about */
    TASK_ITEMS = 1 << 16,      /* that a task has, where there are many, */
    TASK_ITEMS_MOST = 1 << 21, /* and at most: between two polls */
    FEW_TASKS = 64,
    VALUE_MAX = 16, /* bytes of an accumulator */
};

/* reduce_axis.cu's */
enum { RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 };

struct complex_double {
    double real, imag;
};
typedef int8_t type_int8;
typedef int16_t type_int16;
typedef int32_t type_int32;
typedef int64_t type_int64;
typedef uint16_t type_float16, type_bfloat16; /* their bits */
typedef float type_float32;
typedef double type_float64;
typedef struct complex_double type_complex128;

struct job {
    const struct functions *functions;
    const char *in;
    void *out;
    uint64_t outer, reduced, inner;
    int64_t outer_stride, stride, inner_stride;
    int64_t key, mask;
    uint64_t finish;
    double divisor;
    uint64_t rows, share, splits, tiles; /* of a task; of the whole */
    char *partials;                      /* NULL where the reduced axis is in one share */
    /* The first share, in the order of the search, after which none can change the result. NULL
     * where there are several results. */
    atomic_uint_least64_t *settled;
};

/* Which items a task's result or several are made of. */
struct part {
    const void *in; /* the first item of the first column */
    uint64_t first, end, rows, columns;
    int64_t stride, inner_stride, outer_stride, key, mask;
    uint64_t finish;
};

struct functions {
    /* A value for each column of each row. True where no other items could change the last. */
    bool (*part[HOST_ISA_COUNT])(const struct part *part, void *values);
    void (*nothing)(void *value); /* the value of no items */
    void (*apply)(void *a, const void *b, int64_t mask);
    void (*store)(const struct job *job, uint64_t at, uint64_t count, const void *values);
    size_t item_size, value_size;
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Where a share comes in the order of the search. */
static uint64_t mirrored(const struct job *job, uint64_t split) {
    return job->mask ? job->splits - 1 - split : split;
}

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
#define PLACE_int8 int32_t
#define PLACE_int16 int32_t
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
#define LOAD_prod(items, acc, x) (x)
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
/* A NaN on either side wins. In two steps, each of which is a blend: gcc vectorises chains of it.
 */
#define LESSER(items)                                                                     \
    HOST_INLINE compared_##items lesser_##items(compared_##items a, compared_##items b) { \
        const compared_##items less = a < b ? a : b;                                      \
        return a != a ? a : less;                                                         \
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

/* A place among a tile's rows, as one among all: of every `apart` rows the one after `group`. Rows
 * before `mask` are counted from the end. */
#define MOVED_sum(value, from, apart, group) ((void)0)
#define MOVED_prod(value, from, apart, group) ((void)0)
#define MOVED_count(value, from, apart, group) ((void)0)
#define MOVED_bits(value, from, apart, group) ((void)0)
#define MOVED_min(value, from, apart, group) ((void)0)
#define MOVED_argmin(value, from, apart, group) \
    ((value).index = (int64_t)((from) + (uint64_t)(value).index * (apart) + (group)) ^ mask)

/* --- results */

static void store_wide(const struct job *job, uint64_t at, double value) {
    if (job->divisor != 0)
        value /= job->divisor;
    switch (job->finish) {
    case FLOAT16:
        ((uint16_t *)job->out)[at] = double_to_half(value);
        break;
    case BFLOAT16:
        ((uint16_t *)job->out)[at] = double_to_bfloat(value);
        break;
    case FLOAT32:
        ((float *)job->out)[at] = (float)value;
        break;
    default:
        ((double *)job->out)[at] = value;
    }
}

static void store_int64(const struct job *job, uint64_t at, int64_t value) {
    switch (job->finish) {
    case INT8:
        ((uint8_t *)job->out)[at] = (uint8_t)value;
        break;
    case INT16:
        ((uint16_t *)job->out)[at] = (uint16_t)value;
        break;
    case INT32:
        ((uint32_t *)job->out)[at] = (uint32_t)value;
        break;
    case ANY:
        ((uint8_t *)job->out)[at] = value != 0;
        break;
    case ALL:
        ((uint8_t *)job->out)[at] = (double)value == job->divisor;
        break;
    case ODD:
        ((uint8_t *)job->out)[at] = value & 1;
        break;
    case FLOAT64:
    case FLOAT32:
    case FLOAT16:
    case BFLOAT16:
        store_wide(job, at, (double)value);
        break;
    default:
        ((int64_t *)job->out)[at] = value;
    }
}
#define store_float64(job, at, value) store_wide(job, at, value)
#define store_complex128(job, at, value) (((struct complex_double *)(job)->out)[at] = (value))

#define STORE_sum(items, acc) store_##acc(job, at, value)
#define STORE_prod(items, acc) store_##acc(job, at, value)
#define STORE_count(items, acc) store_int64(job, at, value)
#define STORE_bits(items, acc) ((type_##items *)job->out)[at] = KEYED_##items(value)
#define STORE_min(items, acc) ((type_##items *)job->out)[at] = BACK_##items(value)
#define STORE_argmin(items, acc) ((int64_t *)job->out)[at] = value.index + (int64_t)job->divisor

/* --- the functions of a signature
 *
 * Items are combined as `narrow` first, in which so few of them cannot overflow, in runs of at most
 * LEAF along a row or BLOCK along a column; runs are combined as VALUE. Not every operation uses
 * the key, the mask or an item's number. */

#define LANES_OF(narrow) \
    (LANE_BYTES / (int)sizeof(narrow) < LANES ? LANES : LANE_BYTES / (int)sizeof(narrow))

/* Of 16 minima gcc makes no vectors. */
#define MANY_sum(narrow) LANES_OF(narrow)
#define MANY_prod(narrow) LANES_OF(narrow)
#define MANY_count(narrow) LANES_OF(narrow)
#define MANY_bits(narrow) LANES_OF(narrow)
#define MANY_min(narrow) (sizeof(narrow) == 8 ? 2 * LANES : LANES_OF(narrow))

/* A run of at most LEAF items that lie side by side. Its lanes are folded to LANES before they are
 * widened: each has BLOCK items at most. */
#define LEAF_OF(op, items, acc)                                                                    \
    HOST_INLINE VALUE_##op(items, acc) leaf_##op##_##items##_##acc(                                \
        const type_##items *in, uint64_t n, int64_t key, int64_t mask) {                           \
        typedef NARROW_##op(items, acc) narrow;                                                    \
        enum { MANY = MANY_##op(narrow) };                                                         \
        narrow lanes[MANY];                                                                        \
        VALUE_##op(items, acc) wide[LANES];                                                        \
        (void)key, (void)mask;                                                                     \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            lanes[lane] = IDENTITY_##op(items, acc);                                               \
        uint64_t i = 0;                                                                            \
        if ((int)MANY > (int)LANES && n >= MANY) {                                                 \
            for (int lane = LANES; lane < MANY; lane++)                                            \
                lanes[lane] = IDENTITY_##op(items, acc);                                           \
            for (; i + MANY <= n; i += MANY)                                                       \
                for (int lane = 0; lane < MANY; lane++) {                                          \
                    const narrow next = LOAD_##op(items, acc, in[i + (uint64_t)lane]);             \
                    lanes[lane] = COMBINE_##op(items, acc, lanes[lane], next);                     \
                }                                                                                  \
            for (int half = MANY / 2; half >= LANES; half /= 2)                                    \
                for (int lane = 0; lane < half; lane++)                                            \
                    lanes[lane] = COMBINE_##op(items, acc, lanes[lane], lanes[lane + half]);       \
        }                                                                                          \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                const narrow next = LOAD_##op(items, acc, in[i + (uint64_t)lane]);                 \
                lanes[lane] = COMBINE_##op(items, acc, lanes[lane], next);                         \
            }                                                                                      \
        for (int lane = 0; i < n; i++, lane++) {                                                   \
            const narrow next = LOAD_##op(items, acc, in[i]);                                      \
            lanes[lane] = COMBINE_##op(items, acc, lanes[lane], next);                             \
        }                                                                                          \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            wide[lane] = lanes[lane];                                                              \
        for (int half = LANES / 2; half > 0; half /= 2)                                            \
            for (int lane = 0; lane < half; lane++)                                                \
                wide[lane] = APPLY_##op(items, acc, wide[lane], wide[lane + half]);                \
        return wide[0];                                                                            \
    }                                                                                              \
                                                                                                   \
    /* Rows, one value each. */                                                                    \
    HOST_INLINE bool rows_##op##_##items##_##acc(const struct part *part,                          \
                                                 VALUE_##op(items, acc) * values) {                \
        const int64_t key = part->key, mask = part->mask;                                          \
        const uint64_t n = part->end - part->first;                                                \
        bool settled = false;                                                                      \
        for (uint64_t row = 0; row < part->rows; row++) {                                          \
            const type_##items *in =                                                               \
                (const type_##items *)part->in + (int64_t)row * part->outer_stride;                \
            type_##items gathered[LEAF];                                                           \
            VALUE_##op(items, acc) stack[TREE_DEPTH];                                              \
            int depth = 0;                                                                         \
            stack[0] = IDENTITY_##op(items, acc);                                                  \
            settled = false;                                                                       \
            for (uint64_t i = 0, leaves = 1; i < n && !settled; i += LEAF, leaves++) {             \
                const uint64_t count = least(n - i, LEAF);                                         \
                const type_##items *run = in + i;                                                  \
                if (part->stride != 1) {                                                           \
                    for (uint64_t k = 0; k < count; k++)                                           \
                        gathered[k] = in[(int64_t)(i + k) * part->stride];                         \
                    run = gathered;                                                                \
                }                                                                                  \
                stack[depth] = leaf_##op##_##items##_##acc(run, count, key, mask);                 \
                if (SETTLED_##op(items, acc, stack[depth], count)) {                               \
                    stack[0] = stack[depth];                                                       \
                    depth = 0;                                                                     \
                    settled = true;                                                                \
                }                                                                                  \
                depth++;                                                                           \
                for (uint64_t pairs = leaves; pairs % 2 == 0 && depth > 1; pairs /= 2, depth--)    \
                    stack[depth - 2] = APPLY_##op(items, acc, stack[depth - 2], stack[depth - 1]); \
            }                                                                                      \
            for (; depth > 1; depth--)                                                             \
                stack[depth - 2] = APPLY_##op(items, acc, stack[depth - 2], stack[depth - 1]);     \
            values[row] = stack[0];                                                                \
        }                                                                                          \
        return settled;                                                                            \
    }                                                                                              \
                                                                                                   \
    /* Columns side by side, from row to row; `values` has at most TILE of them. */                \
    HOST_INLINE void tile_##op##_##items##_##acc(                                                  \
        const type_##items *in, uint64_t rows, uint64_t columns, int64_t stride, int64_t step,     \
        int64_t key, int64_t mask, VALUE_##op(items, acc) *restrict values) {                      \
        typedef NARROW_##op(items, acc) narrow;                                                    \
        narrow tile[TILE];                                                                         \
        (void)key, (void)mask;                                                                     \
        for (uint64_t begin = 0; begin < rows; begin += BLOCK) {                                   \
            const uint64_t end = least(begin + BLOCK, rows);                                       \
            uint64_t r = begin;                                                                    \
            for (uint64_t i = 0; i < columns; i++)                                                 \
                tile[i] = IDENTITY_##op(items, acc);                                               \
            for (; step == 1 && r + 4 <= end; r += 4) {                                            \
                const type_##items *a = in + (int64_t)r * stride, *b = a + stride;                 \
                const type_##items *c = b + stride, *d = c + stride;                               \
                for (uint64_t i = 0; i < columns; i++) {                                           \
                    narrow next = LOAD_##op(items, acc, a[i]), sum = tile[i];                      \
                    sum = COMBINE_##op(items, acc, sum, next);                                     \
                    next = LOAD_##op(items, acc, b[i]);                                            \
                    sum = COMBINE_##op(items, acc, sum, next);                                     \
                    next = LOAD_##op(items, acc, c[i]);                                            \
                    sum = COMBINE_##op(items, acc, sum, next);                                     \
                    next = LOAD_##op(items, acc, d[i]);                                            \
                    tile[i] = COMBINE_##op(items, acc, sum, next);                                 \
                }                                                                                  \
            }                                                                                      \
            for (; step == 1 && r < end; r++)                                                      \
                for (uint64_t i = 0; i < columns; i++) {                                           \
                    const narrow next =                                                            \
                        LOAD_##op(items, acc, in[(int64_t)r * stride + (int64_t)i]);               \
                    tile[i] = COMBINE_##op(items, acc, tile[i], next);                             \
                }                                                                                  \
            for (; r < end; r++)                                                                   \
                for (uint64_t i = 0; i < columns; i++) {                                           \
                    const narrow next =                                                            \
                        LOAD_##op(items, acc, in[(int64_t)r * stride + (int64_t)i * step]);        \
                    tile[i] = COMBINE_##op(items, acc, tile[i], next);                             \
                }                                                                                  \
            if (begin == 0)                                                                        \
                for (uint64_t i = 0; i < columns; i++)                                             \
                    values[i] = tile[i];                                                           \
            else                                                                                   \
                for (uint64_t i = 0; i < columns; i++) {                                           \
                    const VALUE_##op(items, acc) next = tile[i];                                   \
                    values[i] = APPLY_##op(items, acc, values[i], next);                           \
                }                                                                                  \
        }                                                                                          \
    }

/* The same of argmin: where the least item is follows from the leaf that has it. */
#define LEAF_OF_ARGMIN(op, items, acc)                                                            \
    HOST_INLINE bool rows_##op##_##items##_##acc(const struct part *part,                         \
                                                 VALUE_##op(items, acc) * values) {               \
        const int64_t key = part->key, mask = part->mask;                                         \
        const uint64_t n = part->end - part->first;                                               \
        bool settled = false;                                                                     \
        for (uint64_t row = 0; row < part->rows; row++) {                                         \
            const type_##items *in =                                                              \
                (const type_##items *)part->in + (int64_t)row * part->outer_stride;               \
            type_##items gathered[LEAF];                                                          \
            compared_##items best = HIGHEST_##items;                                              \
            uint64_t at = 0, leaf = 0;                                                            \
            settled = false;                                                                      \
            for (uint64_t done = 0, count; done < n && !settled; done += count) {                 \
                count = least(n - done, done || sizeof *in > 1 ? LEAF : FIRST_LEAF);              \
                const uint64_t i = mask ? n - done - count : done;                                \
                const type_##items *run = in + i;                                                 \
                if (part->stride != 1) {                                                          \
                    for (uint64_t k = 0; k < count; k++)                                          \
                        gathered[k] = in[(int64_t)(i + k) * part->stride];                        \
                    run = gathered;                                                               \
                }                                                                                 \
                const compared_##items next = leaf_min_##items##_##items(run, count, key, 0);     \
                if (done == 0 || next < best || next != next) {                                   \
                    best = next;                                                                  \
                    at = i;                                                                       \
                    leaf = count;                                                                 \
                    settled = SETTLED_min(items, items, best, 0);                                 \
                }                                                                                 \
            }                                                                                     \
            uint64_t k = 0;                                                                       \
            for (; part->stride == 1 && best == best && k + SEARCHED <= leaf; k += SEARCHED) {    \
                const type_##items *run = in + (mask ? at + leaf - SEARCHED - k : at + k);        \
                int here = 0;                                                                     \
                for (int lane = 0; lane < SEARCHED; lane++) {                                     \
                    const compared_##items item = LOAD_min(items, items, run[lane]);              \
                    here |= item == best ? 1 : 0;                                                 \
                }                                                                                 \
                if (here)                                                                         \
                    break;                                                                        \
            }                                                                                     \
            for (; k < leaf; k++) {                                                               \
                const uint64_t r = mask ? at + leaf - 1 - k : at + k;                             \
                const compared_##items item =                                                     \
                    LOAD_min(items, items, in[(int64_t)r * part->stride]);                        \
                if (item == best || item != item) {                                               \
                    values[row] =                                                                 \
                        (struct placed_##items){best, (int64_t)(part->first + r) ^ mask};         \
                    break;                                                                        \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
        return settled;                                                                           \
    }                                                                                             \
    HOST_INLINE void tile_##op##_##items##_##acc(                                                 \
        const type_##items *in, uint64_t rows, uint64_t columns, int64_t stride, int64_t step,    \
        int64_t key, int64_t mask, VALUE_##op(items, acc) *restrict values) {                     \
        compared_##items best[TILE];                                                              \
        PLACE_##items places[TILE]; /* of a task: below TASK_ITEMS_MOST */                        \
        for (uint64_t i = 0; i < columns; i++) {                                                  \
            const int64_t from = mask ? (int64_t)(rows - 1) * stride : 0;                         \
            best[i] = LOAD_min(items, items, in[from + (int64_t)i * step]);                       \
            places[i] = (PLACE_##items)(mask ? rows - 1 : 0);                                     \
        }                                                                                         \
        for (uint64_t k = 1; k < rows; k++) {                                                     \
            const uint64_t r = mask ? rows - 1 - k : k;                                           \
            const type_##items *row = in + (int64_t)r * stride;                                   \
            if (step == 1)                                                                        \
                for (uint64_t i = 0; i < columns; i++) {                                          \
                    const compared_##items next = LOAD_min(items, items, row[i]);                 \
                    const bool less = (next < best[i]) | ((next != next) & (best[i] == best[i])); \
                    best[i] = less ? next : best[i];                                              \
                    places[i] = less ? (PLACE_##items)r : places[i];                              \
                }                                                                                 \
            else                                                                                  \
                for (uint64_t i = 0; i < columns; i++) {                                          \
                    const compared_##items next = LOAD_min(items, items, row[(int64_t)i * step]); \
                    const bool less = (next < best[i]) | ((next != next) & (best[i] == best[i])); \
                    best[i] = less ? next : best[i];                                              \
                    places[i] = less ? (PLACE_##items)r : places[i];                              \
                }                                                                                 \
        }                                                                                         \
        for (uint64_t i = 0; i < columns; i++)                                                    \
            values[i] = (struct placed_##items){best[i], (int64_t)places[i]};                     \
    }

#define ISA_PART(isa, target, bytes, prefix, here, name)                            \
    target static bool part_##name##_##isa(const struct part *part, void *values) { \
        return any_part_##name(part, values);                                       \
    }
#define ISA_NAME(isa, target, bytes, prefix, here, name) part_##name##_##isa,

/* any_part_: of narrow columns without gaps, as many rows as fill a tile are taken for one. */
#define FUNCTIONS(op, items, acc)                                                                 \
    BODY_##op(op, items, acc)                                                                     \
        HOST_INLINE bool any_part_##op##_##items##_##acc(const struct part *part, void *to) {     \
        typedef VALUE_##op(items, acc) value;                                                     \
        value *const values = to, folded[TILE];                                                   \
        const int64_t key = part->key, mask = part->mask;                                         \
        const uint64_t rows = part->end - part->first, columns = part->columns;                   \
        const type_##items *in = part->in;                                                        \
        if (columns == 1)                                                                         \
            return rows_##op##_##items##_##acc(part, values);                                     \
        uint64_t fold = part->inner_stride == 1 && part->stride == (int64_t)columns &&            \
                                columns <= FOLDED && rows / FOLDED > 1                            \
                            ? least(TILE / columns, rows / FOLDED)                                \
                            : 1;                                                                  \
        for (uint64_t done = 0; done < rows; fold = 1) {                                          \
            const uint64_t folds = (rows - done) / fold;                                          \
            const bool only = folds == rows;                                                      \
            tile_##op##_##items##_##acc(in + (int64_t)done * part->stride, folds, fold * columns, \
                                        (int64_t)fold * part->stride, part->inner_stride, key,    \
                                        mask, only ? values : folded);                            \
            for (uint64_t i = 0; i < columns && only; i++)                                        \
                MOVED_##op(values[i], part->first, 1, 0);                                         \
            for (uint64_t g = 0; g < fold && !only; g++)                                          \
                for (uint64_t i = 0; i < columns; i++) {                                          \
                    value next = folded[g * columns + i];                                         \
                    MOVED_##op(next, part->first + done, fold, g);                                \
                    values[i] = done || g ? APPLY_##op(items, acc, values[i], next) : next;       \
                }                                                                                 \
            done += folds * fold;                                                                 \
        }                                                                                         \
        return false;                                                                             \
    }                                                                                             \
    HOST_ISAS(ISA_PART, op##_##items##_##acc)                                                     \
    static void nothing_##op##_##items##_##acc(void *to) {                                        \
        *(VALUE_##op(items, acc) *)to = IDENTITY_##op(items, acc);                                \
    }                                                                                             \
    static void apply_##op##_##items##_##acc(void *a, const void *b, int64_t mask) {              \
        VALUE_##op(items, acc) *const left = a;                                                   \
        const VALUE_##op(items, acc) *const right = b;                                            \
        (void)mask;                                                                               \
        *left = APPLY_##op(items, acc, *left, *right);                                            \
    }                                                                                             \
    static void store_##op##_##items##_##acc(const struct job *job, uint64_t at, uint64_t count,  \
                                             const void *from) {                                  \
        const VALUE_##op(items, acc) *values = from;                                              \
        const int64_t key = job->key;                                                             \
        (void)key;                                                                                \
        for (; count > 0; count--, at++, values++) {                                              \
            const VALUE_##op(items, acc) value = *values;                                         \
            STORE_##op(items, acc);                                                               \
        }                                                                                         \
    }                                                                                             \
    static const struct functions functions_##op##_##items##_##acc = {                            \
        {HOST_ISAS(ISA_NAME, op##_##items##_##acc)},                                              \
        nothing_##op##_##items##_##acc,                                                           \
        apply_##op##_##items##_##acc,                                                             \
        store_##op##_##items##_##acc,                                                             \
        sizeof(type_##items),                                                                     \
        sizeof(VALUE_##op(items, acc))};

/* Named after what they are compared as. */
#define leaf_min_float16_float16 leaf_min_float16_float32
#define leaf_min_bfloat16_bfloat16 leaf_min_bfloat16_float32

#define BODY_sum(op, items, acc) LEAF_OF(op, items, acc)
#define BODY_prod(op, items, acc) LEAF_OF(op, items, acc)
#define BODY_count(op, items, acc) LEAF_OF(op, items, acc)
#define BODY_bits(op, items, acc) LEAF_OF(op, items, acc)
#define BODY_min(op, items, acc) LEAF_OF(op, items, acc)
#define BODY_argmin(op, items, acc) LEAF_OF_ARGMIN(op, items, acc)
HOST_REDUCE_AXIS_SIGNATURES(FUNCTIONS)

/* --- tasks */

/* A task's rows, a few at a time: a value for each of their columns. */
static void part_task(const struct job *job, uint64_t row, uint64_t rows, uint64_t split,
                      uint64_t tile) {
    const struct functions *functions = job->functions;
    struct complex_double values[TILE]; /* of the widest type */
    const uint64_t column = tile * TILE;
    struct part part = {.first = split * job->share,
                        .end = least((split + 1) * job->share, job->reduced),
                        .rows = rows,
                        .columns = least(job->inner - column, TILE),
                        .stride = job->stride,
                        .inner_stride = job->inner_stride,
                        .outer_stride = job->outer_stride,
                        .key = job->key,
                        .mask = job->mask,
                        .finish = job->finish};
    const int64_t from = (int64_t)row * job->outer_stride + (int64_t)part.first * job->stride +
                         (int64_t)column * job->inner_stride;
    const uint64_t place = mirrored(job, split);
    part.in = job->in + from * (int64_t)functions->item_size;
    if (job->settled && atomic_load_explicit(job->settled, memory_order_relaxed) < place) {
        functions->nothing(values);
    } else if (functions->part[host_isa()](&part, values) && job->settled) {
        uint64_t known = atomic_load(job->settled);
        while (place < known && !atomic_compare_exchange_weak(job->settled, &known, place))
            ;
    }
    if (job->partials)
        memcpy(job->partials +
                   ((row * job->splits + split) * job->inner + column) * functions->value_size,
               values, part.columns * functions->value_size);
    else
        functions->store(job, row * job->inner + column, rows * part.columns, values);
}

static void first_task(const void *state, uint64_t index, struct host_worker *worker) {
    const struct job *job = state;
    const uint64_t tile = index % job->tiles, split = index / job->tiles % job->splits;
    const uint64_t first = index / job->tiles / job->splits * job->rows;
    const uint64_t end = least(first + job->rows, job->outer);
    const uint64_t rows = job->inner == 1 && !job->partials ? TILE : 1;
    (void)worker;
    for (uint64_t row = first; row < end; row += rows)
        part_task(job, row, least(rows, end - row), split, tile);
}

/* A row's shares to its results, level by level. */
static void last_task(const void *state, uint64_t row, struct host_worker *worker) {
    const struct job *job = state;
    const struct functions *functions = job->functions;
    const size_t size = functions->value_size;
    char *partials = job->partials + row * job->splits * job->inner * size;
    (void)worker;
    for (uint64_t apart = 1; apart < job->splits; apart *= 2)
        for (uint64_t s = 0; s + apart < job->splits; s += 2 * apart)
            for (uint64_t i = 0; i < job->inner; i++)
                functions->apply(partials + (s * job->inner + i) * size,
                                 partials + ((s + apart) * job->inner + i) * size, job->mask);
    functions->store(job, row * job->inner, job->inner, partials);
}

/* Short rows are taken for columns: many of them at a time. */
static void turn_short_rows(struct job *job) {
    if (job->inner > 1 || job->outer == 1 || job->reduced > SHORT_ROW)
        return;
    job->inner = job->outer;
    job->inner_stride = job->outer_stride;
    job->outer = 1;
    job->outer_stride = 0;
}

static enum status host_reduce_axis(struct device *device, const struct host_kernel *kernel,
                                    void **arguments) {
#define ARGUMENT(index, type) (*(const type *)arguments[index])
    struct job job = {
        .functions = kernel->data,
        .in = (const char *)(uintptr_t)ARGUMENT(0, device_address),
        .out = (void *)(uintptr_t)ARGUMENT(1, device_address),
        .outer = ARGUMENT(2, uint64_t),
        .reduced = ARGUMENT(3, uint64_t),
        .inner = ARGUMENT(4, uint64_t),
        .stride = ARGUMENT(5, int64_t),
        .outer_stride = ARGUMENT(6, int64_t),
        .inner_stride = ARGUMENT(13, int64_t),
        .key = ARGUMENT(20, int64_t),
        .mask = ARGUMENT(21, int64_t),
        .finish = ARGUMENT(22, uint64_t),
        .divisor = ARGUMENT(23, double),
    };
#undef ARGUMENT
    atomic_uint_least64_t settled = UINT64_MAX;
    turn_short_rows(&job);
    const uint64_t columns = least(job.inner, TILE);
    job.tiles = (job.inner - 1) / TILE + 1;
    const uint64_t items = job.outer * job.tiles < FEW_TASKS ? TASK_ITEMS : TASK_ITEMS_MOST;
    job.share = least(job.reduced, items / columns);
    job.splits = (job.reduced - 1) / job.share + 1;
    job.rows = job.splits > 1 ? 1 : TASK_ITEMS / (job.share * columns);
    job.rows = job.rows ? job.rows : 1;
    if (job.splits > 1) {
        job.settled = job.outer == 1 && job.inner == 1 ? &settled : NULL;
        job.partials = malloc(job.outer * job.splits * job.inner * job.functions->value_size);
        if (!job.partials)
            return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for partial results");
    }
    const double bytes = (double)(job.outer * job.reduced * job.inner * job.functions->item_size);
    const int threads = kernel->parallel ? host_team_threads(bytes / BYTES_PER_NS) : 1;
    const uint64_t tasks = ((job.outer - 1) / job.rows + 1) * job.splits * job.tiles;
    enum status status = host_team_run(device, threads, tasks, first_task, &job);
    if (!status && job.partials)
        status = host_team_run(device, threads, job.outer, last_task, &job);
    free(job.partials);
    return status;
}

#define KERNEL_ROWS(op, items, acc)                                          \
    {"host_reduce_axis_serial_" #op "_" #items "_" #acc, host_reduce_axis,   \
     &functions_##op##_##items##_##acc, false},                              \
        {"host_reduce_axis_team_" #op "_" #items "_" #acc, host_reduce_axis, \
         &functions_##op##_##items##_##acc, true},

const struct host_kernel host_reduce_axis_kernels[] = {HOST_REDUCE_AXIS_SIGNATURES(KERNEL_ROWS)};
const size_t host_reduce_axis_kernel_count =
    sizeof host_reduce_axis_kernels / sizeof *host_reduce_axis_kernels;

#endif
