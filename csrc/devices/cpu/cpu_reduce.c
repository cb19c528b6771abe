/* cpu_reduce.c: the reduction on the CPU, rungs `serial`, `openmp` and `simd`.
 *
 * The items are cut into leaves of 16 x 16: 16 lanes, which the compiler turns into vector
 * registers, each of which combines 16 items one after the other. Leaves are combined lane by lane
 * in a binary tree, 64 of them make a chunk; chunks make a binary tree again. So an item goes
 * through 16 steps and then through log2 of them, which keeps a float64 sum as exact as NumPy's
 * pairwise one; float32 and float16 accumulate in float64. The cut depends on the number of items
 * alone, never on the number of threads or on the instruction set: every machine, every thread
 * count and every rung gives the same bits. What gives the same in any order (sums of integers,
 * extremes, bits) goes through a chunk in as many lanes as fill the vectors.
 */

/* (operation, items, accumulator): one accumulator for each operation and item type. Prod, min and
 * max of bool are `and` and `or`. float16 is compared as float32, which holds it exactly. */
/* clang-format off */
#define CPU_REDUCE_INTEGERS(SIGNATURE, op)                                                        \
    SIGNATURE(op, int8, int8)     SIGNATURE(op, int16, int16)                                      \
    SIGNATURE(op, int32, int32)   SIGNATURE(op, int64, int64)                                      \
    SIGNATURE(op, uint8, uint8)   SIGNATURE(op, uint16, uint16)                                    \
    SIGNATURE(op, uint32, uint32) SIGNATURE(op, uint64, uint64)
#define CPU_REDUCE_WIDENED(SIGNATURE, op)                                                         \
    SIGNATURE(op, int8, int64)     SIGNATURE(op, int16, int64)                                     \
    SIGNATURE(op, int32, int64)    SIGNATURE(op, int64, int64)                                     \
    SIGNATURE(op, uint8, uint64)   SIGNATURE(op, uint16, uint64)                                   \
    SIGNATURE(op, uint32, uint64)  SIGNATURE(op, uint64, uint64)
#define CPU_REDUCE_FLOATS(SIGNATURE, op)                                                          \
    SIGNATURE(op, float16, float64) SIGNATURE(op, float32, float64)                                \
    SIGNATURE(op, float64, float64)
#define CPU_REDUCE_COMPARED(SIGNATURE, op)                                                        \
    CPU_REDUCE_INTEGERS(SIGNATURE, op)                                                            \
    SIGNATURE(op, float16, float32) SIGNATURE(op, float32, float32)                                \
    SIGNATURE(op, float64, float64)
#define CPU_REDUCE_BITWISE(SIGNATURE, op)                                                         \
    SIGNATURE(op, bool, bool) CPU_REDUCE_INTEGERS(SIGNATURE, op)
#define CPU_REDUCE_TREES(SIGNATURE)                                                               \
    CPU_REDUCE_FLOATS(SIGNATURE, sum)    CPU_REDUCE_FLOATS(SIGNATURE, prod)                      \
    SIGNATURE(prod, complex64, complex128) SIGNATURE(prod, complex128, complex128)                 \
    CPU_REDUCE_WIDENED(SIGNATURE, prod)
#define CPU_REDUCE_PAIRS(SIGNATURE)                                                               \
    SIGNATURE(sum, complex64, complex128) SIGNATURE(sum, complex128, complex128)
#define CPU_REDUCE_ORDERLESS(SIGNATURE)                                                           \
    SIGNATURE(sum, bool, int64)           CPU_REDUCE_WIDENED(SIGNATURE, sum)                      \
    CPU_REDUCE_COMPARED(SIGNATURE, min)  CPU_REDUCE_COMPARED(SIGNATURE, max)                     \
    CPU_REDUCE_BITWISE(SIGNATURE, and)   CPU_REDUCE_BITWISE(SIGNATURE, or)                       \
    CPU_REDUCE_BITWISE(SIGNATURE, xor)
#define CPU_REDUCE_SIGNATURES(SIGNATURE)                                                          \
    CPU_REDUCE_TREES(SIGNATURE) CPU_REDUCE_PAIRS(SIGNATURE) CPU_REDUCE_ORDERLESS(SIGNATURE)
/* clang-format on */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_reduce_serial",
     "one thread, vectorised: 16 lanes, a tree of fixed shape",
     "D4 sequential loop", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_reduce_openmp",
     "the same tree, its chunks spread over all cores",
     "D1 cpu+omp, for a reduction", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "cpu_reduce_simd",
     "the widest vectors of the CPU it runs on, memory prefetched, threads that wait for nobody",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../float_state.h"
#include "cpu_gather.h"
#include "cpu_half.h"
#include "cpu_isa.h"
#include "cpu_kernels.h"
#include "cpu_team.h"

#include <stdlib.h>
#include <string.h>

/* The signatures paste the name `bool`: a type's name from here on, no longer a macro. */
#undef bool
typedef _Bool bool;

enum {
    LANES = 16,
    ROWS = 16,
    LEAF = LANES * ROWS,   /* items */
    CHUNK = 64 * LEAF,     /* items that a thread takes at a time */
    STACK = 8,             /* leaves that wait, of a chunk of complex numbers */
    ORDERLESS_BYTES = 256, /* of the lanes of what gives the same in any order */
    SEGMENT_CHUNKS = 256,  /* chunks between two polls: 2^22 items, a few milliseconds */
    TREE_DEPTH = 64,       /* of a binary tree over any 64-bit count */
    ITEMS_PER_NS = 32,     /* that one thread reduces, about, where they are in its cache; */
    BYTES_PER_NS = 64,     /* and that it reads */
    GATHERING = 4,         /* times as long, about, as reducing items without gaps */
    TASK_CHUNKS = 4,       /* that a thread of the team takes at a time */
    TURN_SEGMENTS = 16,    /* that the team works on at a time */
    LINE = 64,             /* bytes of a cache line */
    AHEAD = 512, /* bytes prefetched: of 256 to 4096 the fastest on an EPYC 7003 (Nov 2026) */
};

_Static_assert(CHUNK / (ORDERLESS_BYTES / sizeof(uint16_t)) <= 128,
               "a lane's share of a chunk of bytes is added up in 16 bits");
_Static_assert(CHUNK / ORDERLESS_BYTES <= UINT8_MAX, "and of bools in 8");
_Static_assert(SEGMENT_CHUNKS *CHUNK == DEVICE_SEGMENT, "ops_reduce.c's pieces are segments");

/* --- types: type_<dtype>, and LOAD_<dtype>(acc, x), an item as an accumulator */

struct complex_single {
    float real, imag;
};

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

#define LOAD_bool(acc, x) ((type_##acc)((x) != 0))
#define LOAD_int8(acc, x) ((type_##acc)(x))
#define LOAD_int16(acc, x) ((type_##acc)(x))
#define LOAD_int32(acc, x) ((type_##acc)(x))
#define LOAD_int64(acc, x) ((type_##acc)(x))
#define LOAD_uint8(acc, x) ((type_##acc)(x))
#define LOAD_uint16(acc, x) ((type_##acc)(x))
#define LOAD_uint32(acc, x) ((type_##acc)(x))
#define LOAD_uint64(acc, x) ((type_##acc)(x))
#define LOAD_float16(acc, x) ((type_##acc)half_to_float(x))
#define LOAD_float32(acc, x) ((type_##acc)(x))
#define LOAD_float64(acc, x) ((type_##acc)(x))
#define LOAD_complex64(acc, x) ((type_##acc){(x).real, (x).imag})
#define LOAD_complex128(acc, x) (x)

/* --- operations: APPLY_<op>(acc, a, b), and IDENTITY_<op>(acc), which changes nothing */

static inline struct complex_double complex_sum(struct complex_double a, struct complex_double b) {
    return (struct complex_double){a.real + b.real, a.imag + b.imag};
}
static inline struct complex_double complex_prod(struct complex_double a, struct complex_double b) {
    return (struct complex_double){rounded_prod(a.real, b.real) - rounded_prod(a.imag, b.imag),
                                   rounded_prod(a.real, b.imag) + rounded_prod(a.imag, b.real)};
}

/* Signed integers wrap as NumPy's do: the arithmetic is done unsigned, where C defines it. */
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
/* A NaN on either side wins, as in NumPy: a comparison with one in `a` takes it, and one in `b` is
 * taken as such. Two choices and no `||`, so that gcc makes a minimum and a blend of it. */
#define APPLY_min(acc, a, b) ((b) != (b) ? (b) : (b) < (a) ? (b) : (a))
#define APPLY_max(acc, a, b) ((b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define APPLY_and(acc, a, b) ((type_##acc)((a) & (b)))
#define APPLY_or(acc, a, b) ((type_##acc)((a) | (b)))
#define APPLY_xor(acc, a, b) ((type_##acc)((a) ^ (b)))

/* As a chunk's items are added up. */
#define NARROW_sum(items, acc) narrow_##items
#define NARROW_min(items, acc) type_##acc
#define NARROW_max(items, acc) type_##acc
#define NARROW_and(items, acc) type_##acc
#define NARROW_or(items, acc) type_##acc
#define NARROW_xor(items, acc) type_##acc
typedef uint8_t narrow_bool;
typedef int16_t narrow_int8;
typedef int32_t narrow_int16;
typedef int64_t narrow_int32;
typedef uint64_t narrow_int64; /* wraps */
typedef uint16_t narrow_uint8;
typedef uint32_t narrow_uint16;
typedef uint64_t narrow_uint32;
typedef uint64_t narrow_uint64;
#define COMBINE_sum(acc, a, b) (narrow)((a) + (b))
#define COMBINE_min(acc, a, b) APPLY_min(acc, a, b)
#define COMBINE_max(acc, a, b) APPLY_max(acc, a, b)
#define COMBINE_and(acc, a, b) APPLY_and(acc, a, b)
#define COMBINE_or(acc, a, b) APPLY_or(acc, a, b)
#define COMBINE_xor(acc, a, b) APPLY_xor(acc, a, b)

#define LOWEST_int8 INT8_MIN
#define LOWEST_int16 INT16_MIN
#define LOWEST_int32 INT32_MIN
#define LOWEST_int64 INT64_MIN
#define LOWEST_uint8 0
#define LOWEST_uint16 0
#define LOWEST_uint32 0
#define LOWEST_uint64 0
#define LOWEST_float32 (-__builtin_inff())
#define LOWEST_float64 (-__builtin_inf())
#define HIGHEST_int8 INT8_MAX
#define HIGHEST_int16 INT16_MAX
#define HIGHEST_int32 INT32_MAX
#define HIGHEST_int64 INT64_MAX
#define HIGHEST_uint8 UINT8_MAX
#define HIGHEST_uint16 UINT16_MAX
#define HIGHEST_uint32 UINT32_MAX
#define HIGHEST_uint64 UINT64_MAX
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
#define ALL_ONES_int8 -1
#define ALL_ONES_int16 -1
#define ALL_ONES_int32 -1
#define ALL_ONES_int64 -1
#define ALL_ONES_uint8 UINT8_MAX
#define ALL_ONES_uint16 UINT16_MAX
#define ALL_ONES_uint32 UINT32_MAX
#define ALL_ONES_uint64 UINT64_MAX

#define IDENTITY_sum(acc) ZERO_##acc
#define IDENTITY_prod(acc) ONE_##acc
#define IDENTITY_min(acc) HIGHEST_##acc
#define IDENTITY_max(acc) LOWEST_##acc
#define IDENTITY_and(acc) ALL_ONES_##acc
#define IDENTITY_or(acc) 0
#define IDENTITY_xor(acc) 0

/* --- the functions of a signature
 *
 * chunk_<op>_<items> turns up to CHUNK items into one accumulator, combine_<op>_<items> *b into *a.
 */

/* The tree of sums and products. A leaf's lanes live in registers; the stack holds leaves that wait
 * for their sibling. The last `left` lanes are the result: 2 of numbers that are halves of complex
 * ones. */
#define TREE(op, items, acc)                                                                     \
    CPU_INLINE void leaf_##op##_##items(const type_##items *in, type_##acc *restrict out) {      \
        type_##acc lanes[LANES];                                                                 \
        for (int lane = 0; lane < LANES; lane++)                                                 \
            lanes[lane] = LOAD_##items(acc, in[lane]);                                           \
        for (int row = 1; row < ROWS; row++)                                                     \
            for (int lane = 0; lane < LANES; lane++)                                             \
                lanes[lane] =                                                                    \
                    APPLY_##op(acc, lanes[lane], LOAD_##items(acc, in[row * LANES + lane]));     \
        for (int lane = 0; lane < LANES; lane++)                                                 \
            out[lane] = lanes[lane];                                                             \
    }                                                                                            \
    CPU_INLINE void merge_##op##_##items(type_##acc *restrict a, const type_##acc *restrict b) { \
        for (int lane = 0; lane < LANES; lane++)                                                 \
            a[lane] = APPLY_##op(acc, a[lane], b[lane]);                                         \
    }                                                                                            \
    CPU_INLINE void tree_##op##_##items(const void *data, size_t n, int left, void *result,      \
                                        bool prefetch) {                                         \
        const type_##items *in = data;                                                           \
        type_##acc stack[STACK][LANES], rest[LANES];                                             \
        int depth = 0;                                                                           \
        const size_t leaves = n / LEAF;                                                          \
        for (size_t leaf = 0; leaf < leaves; leaf++) {                                           \
            if (prefetch)                                                                        \
                prefetch_after(in + leaf * LEAF, sizeof(type_##items) * LEAF);                   \
            leaf_##op##_##items(in + leaf * LEAF, stack[depth++]);                               \
            for (size_t pairs = leaf + 1; pairs % 2 == 0; pairs /= 2, depth--)                   \
                merge_##op##_##items(stack[depth - 2], stack[depth - 1]);                        \
        }                                                                                        \
        for (int lane = 0; lane < LANES; lane++)                                                 \
            rest[lane] = IDENTITY_##op(acc);                                                     \
        for (size_t i = leaves * LEAF; i < n; i++)                                               \
            rest[i % LANES] = APPLY_##op(acc, rest[i % LANES], LOAD_##items(acc, in[i]));        \
        while (depth > 0)                                                                        \
            merge_##op##_##items(rest, stack[--depth]);                                          \
        for (int half = LANES / 2; half >= left; half /= 2)                                      \
            for (int lane = 0; lane < half; lane++)                                              \
                rest[lane] = APPLY_##op(acc, rest[lane], rest[lane + half]);                     \
        memcpy(result, rest, (size_t)left * sizeof *rest);                                       \
    }
#define TREE_FUNCTIONS(op, items, acc)                                              \
    TREE(op, items, acc)                                                            \
    CPU_INLINE void any_chunk_##op##_##items(const void *data, size_t n, void *out, \
                                             bool prefetch) {                       \
        tree_##op##_##items(data, n, 1, out, prefetch);                             \
    }                                                                               \
    FUNCTIONS(op, items, acc)

/* Sums of complex numbers: as twice as many real ones. */
#define PAIR_FUNCTIONS(op, items, acc)                                              \
    CPU_INLINE void any_chunk_##op##_##items(const void *data, size_t n, void *out, \
                                             bool prefetch) {                       \
        PAIRS_##op##_##items(data, 2 * n, 2, out, prefetch);                        \
    }                                                                               \
    FUNCTIONS(op, items, acc)
#define PAIRS_sum_complex64 tree_sum_float32
#define PAIRS_sum_complex128 tree_sum_float64

/* What gives the same in any order: as many lanes as keep the vector units busy, of sums in as few
 * bits as hold a chunk's share of them. */
#define ORDERLESS_FUNCTIONS(op, items, acc)                                                  \
    CPU_INLINE void any_chunk_##op##_##items(const void *data, size_t n, void *out,          \
                                             bool prefetch) {                                \
        typedef NARROW_##op(items, acc) narrow;                                              \
        enum { MANY = ORDERLESS_BYTES / sizeof(narrow) };                                    \
        const type_##items *in = data;                                                       \
        narrow lanes[MANY];                                                                  \
        type_##acc wide[MANY];                                                               \
        size_t i = 0;                                                                        \
        for (int lane = 0; lane < MANY; lane++)                                              \
            lanes[lane] = IDENTITY_##op(acc);                                                \
        for (; i + MANY <= n; i += MANY) {                                                   \
            if (prefetch)                                                                    \
                prefetch_after(in + i, sizeof(type_##items) * MANY);                         \
            for (int lane = 0; lane < MANY; lane++)                                          \
                lanes[lane] = COMBINE_##op(acc, lanes[lane],                                 \
                                           (narrow)LOAD_##items(acc, in[i + (size_t)lane])); \
        }                                                                                    \
        for (int lane = 0; i < n; i++, lane++) {                                             \
            const narrow next = (narrow)LOAD_##items(acc, in[i]);                            \
            lanes[lane] = COMBINE_##op(acc, lanes[lane], next);                              \
        }                                                                                    \
        for (int lane = 0; lane < MANY; lane++)                                              \
            wide[lane] = (type_##acc)lanes[lane];                                            \
        for (int half = MANY / 2; half > 0; half /= 2)                                       \
            for (int lane = 0; lane < half; lane++)                                          \
                wide[lane] = APPLY_##op(acc, wide[lane], wide[lane + half]);                 \
        *(type_##acc *)out = wide[0];                                                        \
    }                                                                                        \
    FUNCTIONS(op, items, acc)

#define FUNCTIONS(op, items, acc)                                                     \
    static void combine_##op##_##items(void *a, const void *b) {                      \
        *(type_##acc *)a = APPLY_##op(acc, *(type_##acc *)a, *(const type_##acc *)b); \
    }                                                                                 \
    static void chunk_##op##_##items(const void *data, size_t n, void *result) {      \
        any_chunk_##op##_##items(data, n, result, false);                             \
    }                                                                                 \
    CPU_ISAS(ISA_CHUNK, op##_##items)

#define ISA_CHUNK(isa, target, bytes, prefix, here, name)                               \
    target static void chunk_##name##_##isa(const void *data, size_t n, void *result) { \
        any_chunk_##name(data, n, result, true);                                        \
    }

CPU_INLINE void prefetch_after(const void *leaf, size_t bytes) {
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch((const char *)((uintptr_t)leaf + AHEAD + i));
}

CPU_REDUCE_TREES(TREE_FUNCTIONS)
CPU_REDUCE_PAIRS(PAIR_FUNCTIONS)
CPU_REDUCE_ORDERLESS(ORDERLESS_FUNCTIONS)

typedef void chunk_function(const void *items, size_t n, void *result);

struct functions {
    chunk_function *chunk, *simd[CPU_ISA_COUNT];
    void (*combine)(void *a, const void *b);
    size_t item_size, accumulator_size;
};

#define FUNCTIONS_ROW(op, items, acc)                                                             \
    static const struct functions functions_##op##_##items = {chunk_##op##_##items,               \
                                                              {CPU_ISAS(ISA_NAME, op##_##items)}, \
                                                              combine_##op##_##items,             \
                                                              sizeof(type_##items),               \
                                                              sizeof(type_##acc)};
#define ISA_NAME(isa, target, bytes, prefix, here, name) chunk_##name##_##isa,

CPU_REDUCE_SIGNATURES(FUNCTIONS_ROW)

/* --- the tree over chunks and segments */

typedef union {
    unsigned char bytes[GPUOPT_ITEM_MAX];
    struct complex_double widest; /* for the alignment */
} accumulator;

/* Combines neighbours, level by level, into values[0]. */
static void combine_all(const struct functions *functions, accumulator *values, size_t count) {
    for (; count > 1; count = (count + 1) / 2) {
        for (size_t i = 0; i < count / 2; i++) {
            values[i] = values[2 * i];
            functions->combine(&values[i], &values[2 * i + 1]);
        }
        if (count % 2)
            values[count / 2] = values[count - 1];
    }
}

static int threads_for(uint64_t n, const struct functions *functions) {
    return cpu_team_threads((double)n / ITEMS_PER_NS +
                            (double)n * (double)functions->item_size / BYTES_PER_NS);
}

static void reduce_segment(const struct functions *functions, bool parallel, const char *items,
                           size_t n, accumulator *value) {
    accumulator partial[SEGMENT_CHUNKS];
    const size_t chunks = n ? (n - 1) / CHUNK + 1 : 1;
    const int threads = parallel ? threads_for(n, functions) : 1;
    if (threads > 1) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 2)
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            const float_state before = float_state_enter();
            functions->chunk(items + chunk * CHUNK * functions->item_size,
                             n - chunk * CHUNK < CHUNK ? n - chunk * CHUNK : CHUNK,
                             &partial[chunk]);
            float_state_leave(before);
        }
    } else {
        for (size_t chunk = 0; chunk < chunks; chunk++)
            functions->chunk(items + chunk * CHUNK * functions->item_size,
                             n - chunk * CHUNK < CHUNK ? n - chunk * CHUNK : CHUNK,
                             &partial[chunk]);
    }
    combine_all(functions, partial, chunks);
    *value = partial[0];
}

/* A binary tree over values that come one by one: what waits for its sibling stays on a stack. */
struct tree {
    accumulator stack[TREE_DEPTH];
    int depth;
    uint64_t count;
};

static void tree_push(const struct functions *functions, struct tree *tree, accumulator value) {
    tree->stack[tree->depth++] = value;
    for (uint64_t pairs = ++tree->count; pairs % 2 == 0; pairs /= 2, tree->depth--)
        functions->combine(&tree->stack[tree->depth - 2], &tree->stack[tree->depth - 1]);
}

static void tree_finish(const struct functions *functions, struct tree *tree, void *result) {
    for (; tree->depth > 1; tree->depth--)
        functions->combine(&tree->stack[tree->depth - 2], &tree->stack[tree->depth - 1]);
    memcpy(result, &tree->stack[0], functions->accumulator_size);
}

/* Arguments as the kernels of reduce.cu: items, result, how many. */
static enum status cpu_reduce(struct device *device, const struct cpu_kernel *kernel,
                              void **arguments) {
    const struct functions *functions = kernel->data;
    const char *items = (const char *)(uintptr_t) * (const device_address *)arguments[0];
    void *result = (void *)(uintptr_t) * (const device_address *)arguments[1];
    const uint64_t n = *(const uint64_t *)arguments[2];
    const uint64_t segment = (uint64_t)SEGMENT_CHUNKS * CHUNK;
    const uint64_t segments = n ? (n - 1) / segment + 1 : 1;

    struct tree tree = {.depth = 0};
    for (uint64_t s = 0; s < segments; s++) {
        accumulator value;
        const uint64_t rest = n - s * segment;
        reduce_segment(functions, kernel->parallel, items + s * segment * functions->item_size,
                       rest < segment ? rest : segment, &value);
        tree_push(functions, &tree, value);
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    tree_finish(functions, &tree, result);
    return STATUS_OK;
}

/* --- the rung `simd`: its threads go through many segments without a barrier */

struct turn {
    const struct functions *functions;
    const char *items;
    const struct device_box *box; /* instead, where they have gaps; */
    char *gathered;               /* with a chunk's worth for each thread */
    uint64_t first, n;            /* of the items */
    accumulator *partial;         /* one a chunk */
};

static void turn_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    const struct turn *turn = state;
    chunk_function *const chunk = turn->functions->simd[cpu_isa()];
    const size_t first = (size_t)task * TASK_CHUNKS, size = turn->functions->item_size;
    for (size_t i = first; i < first + TASK_CHUNKS && (i == 0 || i * CHUNK < turn->n); i++) {
        const size_t n = turn->n - i * CHUNK < CHUNK ? turn->n - i * CHUNK : CHUNK;
        if (turn->box) {
            char *const room = turn->gathered + (size_t)worker->number * CHUNK * size;
            gather_box(room, turn->box, size, turn->first + i * CHUNK, n);
            chunk(room, n, &turn->partial[i]);
        } else {
            chunk(turn->items + (turn->first + i * CHUNK) * size, n, &turn->partial[i]);
        }
    }
}

/* All of `whole`, a turn at a time. */
static enum status run_turns(struct device *device, const struct turn *whole, int threads,
                             void *result) {
    const struct functions *functions = whole->functions;
    const uint64_t segment = (uint64_t)SEGMENT_CHUNKS * CHUNK, most = TURN_SEGMENTS * segment;
    accumulator partial[TURN_SEGMENTS * SEGMENT_CHUNKS];
    struct tree tree = {.depth = 0};
    struct turn turn = *whole;
    turn.partial = partial;
    for (uint64_t done = 0; done < whole->n; done += most) {
        turn.first = done;
        turn.n = whole->n - done < most ? whole->n - done : most;
        const uint64_t chunks = (turn.n - 1) / CHUNK + 1;
        const enum status status =
            cpu_team_run(device, threads, (chunks - 1) / TASK_CHUNKS + 1, turn_task, &turn);
        if (status)
            return status;
        for (uint64_t i = 0; i < chunks; i += SEGMENT_CHUNKS) {
            combine_all(functions, partial + i,
                        chunks - i < SEGMENT_CHUNKS ? chunks - i : SEGMENT_CHUNKS);
            tree_push(functions, &tree, partial[i]);
        }
    }
    tree_finish(functions, &tree, result);
    return STATUS_OK;
}

static enum status cpu_reduce_simd(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
    const struct functions *functions = kernel->data;
    const char *items = (const char *)(uintptr_t) * (const device_address *)arguments[0];
    void *result = (void *)(uintptr_t) * (const device_address *)arguments[1];
    const uint64_t n = *(const uint64_t *)arguments[2];
    if (n <= CHUNK) {
        functions->simd[cpu_isa()](items, n, result);
        return STATUS_OK;
    }
    const struct turn whole = {.functions = functions, .items = items, .n = n};
    return run_turns(device, &whole, threads_for(n, functions), result);
}

/* The same of a box, whose chunks are brought together one by one: the same bits as of an array
 * without gaps. Arguments: the box, result, how many. */
static enum status cpu_reduce_box(struct device *device, const struct cpu_kernel *kernel,
                                  void **arguments) {
    const struct functions *functions = kernel->data;
    const uint64_t n = *(const uint64_t *)arguments[2];
    const int threads = threads_for(n * GATHERING, functions);
    struct turn whole = {.functions = functions, .n = n};
    whole.box = (const struct device_box *)(uintptr_t) * (const device_address *)arguments[0];
    whole.gathered = malloc((size_t)threads * (n < CHUNK ? n : CHUNK) * functions->item_size);
    if (!whole.gathered)
        return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for items with gaps");
    const enum status status = run_turns(
        device, &whole, threads, (void *)(uintptr_t) * (const device_address *)arguments[1]);
    free(whole.gathered);
    return status;
}

/* The same tree over the results of segments that were reduced one by one: an array that is read in
 * pieces gives the same bits as one that lies in a row. Arguments: accumulators, result, how many.
 */
static enum status cpu_join(struct device *device, const struct cpu_kernel *kernel,
                            void **arguments) {
    const struct functions *functions = kernel->data;
    const char *values = (const char *)(uintptr_t) * (const device_address *)arguments[0];
    const uint64_t n = *(const uint64_t *)arguments[2];
    struct tree tree = {.depth = 0};
    (void)device;
    for (uint64_t i = 0; i < n; i++) {
        accumulator value;
        memcpy(&value, values + i * functions->accumulator_size, functions->accumulator_size);
        tree_push(functions, &tree, value);
    }
    tree_finish(functions, &tree, (void *)(uintptr_t) * (const device_address *)arguments[1]);
    return STATUS_OK;
}

#define KERNEL_ROWS(op, items, acc)                                                               \
    {"cpu_reduce_serial_" #op "_" #items "_" #acc, cpu_reduce, &functions_##op##_##items, false}, \
        {"cpu_reduce_openmp_" #op "_" #items "_" #acc, cpu_reduce, &functions_##op##_##items,     \
         true},                                                                                   \
        {"cpu_reduce_simd_" #op "_" #items "_" #acc, cpu_reduce_simd, &functions_##op##_##items,  \
         true},                                                                                   \
        {"cpu_reduce_box_" #op "_" #items "_" #acc, cpu_reduce_box, &functions_##op##_##items,    \
         true},                                                                                   \
        {"cpu_reduce_join_" #op "_" #items "_" #acc, cpu_join, &functions_##op##_##items, false},

const struct cpu_kernel cpu_reduce_kernels[] = {CPU_REDUCE_SIGNATURES(KERNEL_ROWS)};
const size_t cpu_reduce_kernel_count = sizeof cpu_reduce_kernels / sizeof *cpu_reduce_kernels;

#endif
