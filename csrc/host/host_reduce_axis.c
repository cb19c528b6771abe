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
#include "host_kernels.h"
#include "host_team.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANES = 16,
    LEAF = 2048,               /* items of a row that the lanes take one after the other */
    TILE = 256,                /* columns of a task */
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
};

/* Which items a task's result or several are made of. */
struct part {
    const void *in; /* the first item of the first column */
    uint64_t first, end, columns;
    int64_t stride, inner_stride, key, mask;
};

struct functions {
    /* A value for each column. */
    void (*part)(const struct part *part, void *values);
    void (*apply)(void *a, const void *b, int64_t mask);
    void (*store)(const struct job *job, uint64_t at, const void *value);
    size_t item_size, value_size;
};

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

#define NUMBER_int8_int64(x) ((int64_t)(x)&key)
#define NUMBER_int16_int64(x) ((int64_t)(x)&key)
#define NUMBER_int32_int64(x) ((int64_t)(x)&key)
#define NUMBER_int64_int64(x) (x)
#define NUMBER_int64_float64(x) (key == -1 ? (double)(x) : (double)(uint64_t)(x))
#define NUMBER_float16_float64(x) ((double)half_to_float(x))
#define NUMBER_bfloat16_float64(x) ((double)bfloat_to_float(x))
#define NUMBER_float32_float64(x) ((double)(x))
#define NUMBER_float64_float64(x) (x)
#define NUMBER_complex128_complex128(x) (x)

/* --- operations: VALUE_<op>(items, acc) is the type that is combined */

#define VALUE_sum(items, acc) type_##acc
#define VALUE_prod(items, acc) type_##acc
#define VALUE_count(items, acc) int64_t
#define VALUE_bits(items, acc) type_##items
#define VALUE_min(items, acc) compared_##items
#define VALUE_argmin(items, acc) struct placed_##items

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

#define LOAD_sum(items, acc, x, r) NUMBER_##items##_##acc(x)
#define LOAD_prod(items, acc, x, r) NUMBER_##items##_##acc(x)
#define LOAD_count(items, acc, x, r) (((x) & (type_##items)key) != 0)
#define LOAD_bits(items, acc, x, r) KEYED_##items(x)
#define LOAD_min(items, acc, x, r) KEYED_##items(x)
#define LOAD_argmin(items, acc, x, r) \
    ((struct placed_##items){KEYED_##items(x), (int64_t)(r) ^ mask})

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
    return (struct complex_double){a.real * b.real - a.imag * b.imag,
                                   a.real * b.imag + a.imag * b.real};
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
/* A NaN on either side wins. `|` and not `||`: no branch, so that it vectorises. */
#define APPLY_min(items, acc, a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define APPLY_argmin(items, acc, a, b)                                               \
    ((((a).value == (b).value || ((a).value != (a).value && (b).value != (b).value)) \
          ? (a).index < (b).index                                                    \
          : (a).value < (b).value || (a).value != (a).value)                         \
         ? (a)                                                                       \
         : (b))

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
 * row_: a run of items in a row; columns_: neighbouring columns, row by row. Not every operation
 * uses the key, the mask or an item's number. */
#define FUNCTIONS(op, items, acc)                                                                  \
    static VALUE_##op(items, acc) row_##op##_##items##_##acc(                                      \
        const type_##items *in, uint64_t first, uint64_t n, int64_t key, int64_t mask) {           \
        VALUE_##op(items, acc) lanes[LANES];                                                       \
        (void)key, (void)mask, (void)first;                                                        \
        if (n > LEAF) {                                                                            \
            const uint64_t half = n / 2 / LANES * LANES;                                           \
            const VALUE_##op(items, acc) a =                                                       \
                row_##op##_##items##_##acc(in, first, half, key, mask);                            \
            const VALUE_##op(items, acc) b =                                                       \
                row_##op##_##items##_##acc(in + half, first + half, n - half, key, mask);          \
            return APPLY_##op(items, acc, a, b);                                                   \
        }                                                                                          \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            lanes[lane] = IDENTITY_##op(items, acc);                                               \
        uint64_t i = 0;                                                                            \
        for (; i + LANES <= n; i += LANES)                                                         \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                const VALUE_##op(items, acc) next =                                                \
                    LOAD_##op(items, acc, in[i + (uint64_t)lane], first + i + (uint64_t)lane);     \
                lanes[lane] = APPLY_##op(items, acc, lanes[lane], next);                           \
            }                                                                                      \
        for (int lane = 0; i < n; i++, lane++) {                                                   \
            const VALUE_##op(items, acc) next = LOAD_##op(items, acc, in[i], first + i);           \
            lanes[lane] = APPLY_##op(items, acc, lanes[lane], next);                               \
        }                                                                                          \
        for (int half = LANES / 2; half > 0; half /= 2)                                            \
            for (int lane = 0; lane < half; lane++)                                                \
                lanes[lane] = APPLY_##op(items, acc, lanes[lane], lanes[lane + half]);             \
        return lanes[0];                                                                           \
    }                                                                                              \
    static void columns_##op##_##items##_##acc(const struct part *part,                            \
                                               VALUE_##op(items, acc) *restrict values) {          \
        const int64_t key = part->key, mask = part->mask;                                          \
        (void)key, (void)mask;                                                                     \
        for (uint64_t i = 0; i < part->columns; i++)                                               \
            values[i] = IDENTITY_##op(items, acc);                                                 \
        for (uint64_t r = part->first; r < part->end; r++) {                                       \
            const type_##items *in =                                                               \
                (const type_##items *)part->in + (int64_t)(r - part->first) * part->stride;        \
            if (part->inner_stride == 1)                                                           \
                for (uint64_t i = 0; i < part->columns; i++) {                                     \
                    const VALUE_##op(items, acc) next = LOAD_##op(items, acc, in[i], r);           \
                    values[i] = APPLY_##op(items, acc, values[i], next);                           \
                }                                                                                  \
            else                                                                                   \
                for (uint64_t i = 0; i < part->columns; i++) {                                     \
                    const VALUE_##op(items, acc) next =                                            \
                        LOAD_##op(items, acc, in[(int64_t)i * part->inner_stride], r);             \
                    values[i] = APPLY_##op(items, acc, values[i], next);                           \
                }                                                                                  \
        }                                                                                          \
    }                                                                                              \
    static void part_##op##_##items##_##acc(const struct part *part, void *values) {               \
        if (part->columns == 1 && part->stride == 1)                                               \
            *(VALUE_##op(items, acc) *)values = row_##op##_##items##_##acc(                        \
                part->in, part->first, part->end - part->first, part->key, part->mask);            \
        else                                                                                       \
            columns_##op##_##items##_##acc(part, values);                                          \
    }                                                                                              \
    static void apply_##op##_##items##_##acc(void *a, const void *b, int64_t mask) {               \
        VALUE_##op(items, acc) *const left = a;                                                    \
        const VALUE_##op(items, acc) *const right = b;                                             \
        (void)mask;                                                                                \
        *left = APPLY_##op(items, acc, *left, *right);                                             \
    }                                                                                              \
    static void one_##op##_##items##_##acc(const struct job *job, uint64_t at, const void *from) { \
        const VALUE_##op(items, acc) value = *(const VALUE_##op(items, acc) *)from;                \
        const int64_t key = job->key;                                                              \
        (void)key;                                                                                 \
        STORE_##op(items, acc);                                                                    \
    }                                                                                              \
    static const struct functions functions_##op##_##items##_##acc = {                             \
        part_##op##_##items##_##acc, apply_##op##_##items##_##acc, one_##op##_##items##_##acc,     \
        sizeof(type_##items), sizeof(VALUE_##op(items, acc))};

HOST_REDUCE_AXIS_SIGNATURES(FUNCTIONS)

/* --- tasks */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void task_part(const struct job *job, uint64_t o, uint64_t split, uint64_t tile) {
    const struct functions *functions = job->functions;
    struct complex_double values[TILE]; /* of the widest type */
    struct part part = {.first = split * job->share,
                        .end = least((split + 1) * job->share, job->reduced),
                        .columns = least(job->inner - tile * TILE, TILE),
                        .stride = job->stride,
                        .inner_stride = job->inner_stride,
                        .key = job->key,
                        .mask = job->mask};
    const int64_t from = (int64_t)o * job->outer_stride + (int64_t)part.first * job->stride +
                         (int64_t)(tile * TILE) * job->inner_stride;
    part.in = job->in + from * (int64_t)functions->item_size;
    functions->part(&part, values);
    const uint64_t column = tile * TILE;
    if (job->partials)
        memcpy(job->partials +
                   ((o * job->splits + split) * job->inner + column) * functions->value_size,
               values, part.columns * functions->value_size);
    else
        for (uint64_t i = 0; i < part.columns; i++)
            functions->store(job, o * job->inner + column + i,
                             (const char *)values + i * functions->value_size);
}

static void first_task(const void *state, uint64_t index, struct host_worker *worker) {
    const struct job *job = state;
    const uint64_t tile = index % job->tiles, split = index / job->tiles % job->splits;
    const uint64_t first = index / job->tiles / job->splits * job->rows;
    (void)worker;
    for (uint64_t o = first; o < least(first + job->rows, job->outer); o++)
        task_part(job, o, split, tile);
}

/* A row's shares to its results, level by level. */
static void last_task(const void *state, uint64_t o, struct host_worker *worker) {
    const struct job *job = state;
    const struct functions *functions = job->functions;
    const size_t size = functions->value_size;
    char *partials = job->partials + o * job->splits * job->inner * size;
    (void)worker;
    for (uint64_t apart = 1; apart < job->splits; apart *= 2)
        for (uint64_t s = 0; s + apart < job->splits; s += 2 * apart)
            for (uint64_t i = 0; i < job->inner; i++)
                functions->apply(partials + (s * job->inner + i) * size,
                                 partials + ((s + apart) * job->inner + i) * size, job->mask);
    for (uint64_t i = 0; i < job->inner; i++)
        functions->store(job, o * job->inner + i, partials + i * size);
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
    const uint64_t columns = least(job.inner, TILE);
    job.tiles = (job.inner - 1) / TILE + 1;
    const uint64_t items = job.outer * job.tiles < FEW_TASKS ? TASK_ITEMS : TASK_ITEMS_MOST;
    job.share = least(job.reduced, items / columns);
    job.splits = (job.reduced - 1) / job.share + 1;
    job.rows = job.splits > 1 ? 1 : TASK_ITEMS / (job.share * columns);
    job.rows = job.rows ? job.rows : 1;
    if (job.splits > 1) {
        job.partials = malloc(job.outer * job.splits * job.inner * job.functions->value_size);
        if (!job.partials)
            return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for partial results");
    }
    const int threads = kernel->parallel ? host_threads() : 1;
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
