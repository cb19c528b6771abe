/* cpu_reduce.c: the reduction on the CPU, rungs `serial`, `openmp` and `simd`. Knows no Python.
 *
 * The elements are divided into leaves of 16 x 16: 16 lanes, which the compiler keeps in vector
 * registers, each of which combines 16 elements sequentially. Leaves are combined lane by lane in a
 * binary tree, 64 of them make a chunk; chunks form a binary tree again. An element thus passes 16
 * steps and then log2 of the rest, which makes a float64 sum as exact as NumPy's pairwise one;
 * float32 and float16 accumulate in float64. The tree depends only on the number of elements, never
 * on the number of threads or the instruction set: every machine and every rung returns the same
 * bits. Operations whose result does not depend on the order (sums of integers, extremes, bits) use
 * as many lanes as fill the vectors.
 */

/* (operation, elements, accumulator): one accumulator for each operation and element type. Prod,
 * min and max of bool are `and` and `or`. float16 is compared as float32, which represents it
 * exactly. */
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
     "one thread, vectorized: 16 lanes, a tree of fixed shape",
     "D4 sequential loop, as a tree", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_reduce_openmp",
     "the same tree, its chunks split over all cores",
     "D1 cpu+omp, for a reduction", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "cpu_reduce_simd",
     "the CPU's widest vectors, threads without barriers",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../../float_state.h"
#include "../cpu_gather.h"
#include "../cpu_half.h"
#include "../cpu_isa.h"
#include "../cpu_kernels.h"
#include "../cpu_team.h"

#include <stdatomic.h>
#include <string.h>

/* The signatures paste the name `bool`: from here on a type's name, no longer a macro. */

#undef bool
typedef _Bool bool;

#include "cpu_reduce_items.h"

enum {
    LANES = 16,
    ROWS = 16,
    LEAF = LANES * ROWS,   /* elements */
    CHUNK = 64 * LEAF,     /* elements that a thread processes at a time */
    STACK = 8,             /* pending leaves in a chunk of complex numbers */
    ORDERLESS_BYTES = 256, /* of the lanes of operations in any order */
    SEGMENT_CHUNKS = 256,  /* chunks between two polls: 2^22 elements, a few milliseconds */
    TREE_DEPTH = 64,       /* of a binary tree over any 64-bit count */
    ITEMS_PER_NS = 32,     /* reduced by one thread, estimated, if they are in its cache; */
    BYTES_PER_NS = 64,     /* and read from memory */
    GATHERING = 4,         /* estimated cost relative to contiguous elements */
    TASK_CHUNKS = 4,       /* that a thread of the team takes at a time */
    TURN_SEGMENTS = 16,    /* that the team processes at a time */
    PIECE_BYTES = 8192,    /* gathered at a time, in the first-level cache: whole leaves */
};

_Static_assert(CHUNK / (ORDERLESS_BYTES / sizeof(uint16_t)) <= 128,
               "a lane's share of a chunk of bytes is added up in 16 bits");
_Static_assert(CHUNK / ORDERLESS_BYTES <= UINT8_MAX, "and of bools in 8");
_Static_assert(DEVICE_SUBTREE % CHUNK == 0 &&
                   !(DEVICE_SUBTREE / CHUNK & (DEVICE_SUBTREE / CHUNK - 1)),
               "ops_reduce_call.c's pieces are subtrees");

_Static_assert(PIECE_BYTES % (LEAF * GPUOPT_ITEM_MAX) == 0, "a piece has whole leaves");

struct functions;

/* The elements of a chunk: contiguous ones, or those of a box from `first` on. Pieces of whole
 * leaves whose elements are `step` apart are read in place, others gathered to `room`. */
struct source {
    const char *items;
    const struct device_box *box; /* NULL: contiguous */
    uint64_t first;
    char *room;
    int64_t step; /* of the last piece */
};

/* Steps of elements that are read in place: gathers would not overlap with reading memory. Narrow
 * elements are shuffled too often for it (TUNING.md C36). */
#define STEP_MOST(items) (sizeof(type_##items) >= 4 ? 3 : 1)

/* The elements from `at` on, at most `step_most` apart: all `n` of them, or `*count` in whole
 * leaves. */
static const void *next_piece(struct source *source, size_t at, size_t n, size_t size,
                              int64_t step_most, size_t *count) {
    *count = n;
    source->step = 1;
    if (!source->box)
        return source->items + at * size;
    const struct device_axes *axes = &source->box->axes;
    const uint64_t first = source->first + at, column = first % axes->sizes[0];
    const size_t run = min_u64(n, axes->sizes[0] - column);
    const size_t least = PIECE_BYTES / size;
    if (axes->steps[0] >= 1 && axes->steps[0] <= step_most && run >= least) {
        int64_t offset;
        source->step = axes->steps[0];
        axes_at(axes, first, 1, &offset);
        *count = run < n ? run / LEAF * LEAF : n;
        return (const char *)source->box->first + offset * (int64_t)size;
    }
    *count = n < least ? n : least;
    gather_box(source->room, source->box, size, first, *count);
    return source->room;
}

/* The elements of a large piece before its first whole cache line, or all. Vectors that cross lines
 * take up to 1.5 times as long (TUNING.md C27). */
static size_t to_line(const void *in, size_t count, size_t size, int64_t step) {
    if (step != 1)
        return count;
    const size_t before = -(uintptr_t)in % CPU_LINE / size;
    return before && count * size >= PIECE_BYTES ? before : count;
}

/* --- the functions of a signature
 *
 * chunk_<op>_<items> reduces up to CHUNK elements to one accumulator, combine_<op>_<items> adds *b
 * to *a.
 */

/* The tree of sums and products. A leaf's lanes stay in registers; the stack holds leaves that wait
 * for their sibling. The last `left` lanes are the result: 2 for halves of complex numbers. */
#define TREE(op, items, acc)                                                                       \
    CPU_INLINE void leaf_##op##_##items(const type_##items *in, type_##acc *restrict out,          \
                                        int64_t key, const int64_t step) {                         \
        type_##acc lanes[LANES];                                                                   \
        type_##items near[LEAF];                                                                   \
        (void)key;                                                                                 \
        for (int i = 0; i < LEAF && step != 1; i++)                                                \
            near[i] = in[i * step];                                                                \
        in = step != 1 ? near : in;                                                                \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            lanes[lane] = LOAD_##items(acc, in[lane]);                                             \
        /* Unrolled, gcc would add lane by lane, and read memory in that order. */                 \
        _Pragma("GCC unroll 1") for (int row = 1; row < ROWS;                                      \
                                     row++) for (int lane = 0; lane < LANES; lane++) lanes[lane] = \
            APPLY_##op(acc, lanes[lane], LOAD_##items(acc, in[row * LANES + lane]));               \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            out[lane] = lanes[lane];                                                               \
    }                                                                                              \
    CPU_INLINE void merge_##op##_##items(type_##acc *restrict a, const type_##acc *restrict b) {   \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            a[lane] = APPLY_##op(acc, a[lane], b[lane]);                                           \
    }                                                                                              \
    CPU_INLINE void tree_##op##_##items(struct source *source, size_t n, const int left,           \
                                        void *result, int64_t key) {                               \
        type_##acc stack[STACK][LANES], rest[LANES];                                               \
        int depth = 0;                                                                             \
        const size_t size = (size_t)left * sizeof(type_##items);                                   \
        for (int lane = 0; lane < LANES; lane++)                                                   \
            rest[lane] = IDENTITY_##op(acc);                                                       \
        for (size_t done = 0, count; done < n; done += count) {                                    \
            const type_##items *in =                                                               \
                next_piece(source, done / (size_t)left, (n - done) / (size_t)left, size,           \
                           left == 1 ? STEP_MOST(items) : 1, &count);                              \
            const int64_t step = source->step;                                                     \
            count *= (size_t)left;                                                                 \
            const size_t leaves = (done + count) / LEAF;                                           \
            for (size_t leaf = done / LEAF; leaf < leaves; leaf++, in += LEAF * step) {            \
                if (STEP_MOST(items) > 1 && left == 1 && step == 2)                                \
                    leaf_##op##_##items(in, stack[depth++], key, 2);                               \
                else if (STEP_MOST(items) > 1 && left == 1 && step == 3)                           \
                    leaf_##op##_##items(in, stack[depth++], key, 3);                               \
                else                                                                               \
                    leaf_##op##_##items(in, stack[depth++], key, 1);                               \
                for (size_t pairs = leaf + 1; pairs % 2 == 0; pairs /= 2, depth--)                 \
                    merge_##op##_##items(stack[depth - 2], stack[depth - 1]);                      \
            }                                                                                      \
            for (size_t i = 0; i < (done + count) % LEAF; i++)                                     \
                rest[i % LANES] =                                                                  \
                    APPLY_##op(acc, rest[i % LANES], LOAD_##items(acc, in[(int64_t)i * step]));    \
        }                                                                                          \
        while (depth > 0)                                                                          \
            merge_##op##_##items(rest, stack[--depth]);                                            \
        for (int half = LANES / 2; half >= left; half /= 2)                                        \
            for (int lane = 0; lane < half; lane++)                                                \
                rest[lane] = APPLY_##op(acc, rest[lane], rest[lane + half]);                       \
        memcpy(result, rest, (size_t)left * sizeof *rest);                                         \
    }
#define TREE_FUNCTIONS(op, items, acc)                                                     \
    TREE(op, items, acc)                                                                   \
    CPU_INLINE void any_chunk_##op##_##items(const struct functions *functions,            \
                                             struct source *source, size_t n, void *out) { \
        tree_##op##_##items(source, n, 1, out, functions->key);                            \
    }                                                                                      \
    CHUNKS(op, items)

/* Sums of complex numbers: as twice as many real ones. */
#define PAIR_FUNCTIONS(op, items, acc)                                                     \
    CPU_INLINE void any_chunk_##op##_##items(const struct functions *functions,            \
                                             struct source *source, size_t n, void *out) { \
        (void)functions;                                                                   \
        PAIRS_##op##_##items(source, 2 * n, 2, out, 0);                                    \
    }                                                                                      \
    CHUNKS(op, items)
#define PAIRS_sum_complex64 tree_sum_float32
#define PAIRS_sum_complex128 tree_sum_float64

/* Lanes of operations whose result does not depend on the order. */
#define ORDERLESS_LANES(op, items, acc, step)                                   \
    for (; i + MANY <= count; i += MANY) {                                      \
        const type_##items *run = in + i * step;                                \
        for (int lane = 0; lane < MANY; lane++) {                               \
            const narrow next = ITEM_##op(items, acc, run[lane * step]);        \
            lanes[lane] = COMBINE_##op(acc, lanes[lane], next);                 \
            signs[lane] |= (bits)SIGN_##op(acc, next);                          \
        }                                                                       \
        for (int lane = 0; lane < MANY / 2; lane++)                             \
            nans[lane] |= (bits)EITHER_NAN_##op(items, acc, run[lane * step],   \
                                                run[(MANY / 2 + lane) * step]); \
    }
#define ORDERLESS_FUNCTIONS(op, items, acc)                                                \
    CPU_INLINE void any_chunk_##op##_##items(const struct functions *functions,            \
                                             struct source *source, size_t n, void *out) { \
        typedef NARROW_##op(items, acc) narrow;                                            \
        typedef bits_of_##acc bits;                                                        \
        enum { MANY = ORDERLESS_BYTES / sizeof(narrow) };                                  \
        const int64_t key = functions->key;                                                \
        narrow lanes[MANY];                                                                \
        bits signs[MANY] = {0}, nans[MANY / 2] = {0}, sign = 0, nan = 0;                   \
        type_##acc wide[MANY];                                                             \
        (void)key, (void)sign, (void)nan;                                                  \
        for (int lane = 0; lane < MANY; lane++)                                            \
            lanes[lane] = IDENTITY_##op(acc);                                              \
        for (size_t done = 0, count; done < n; done += count) {                            \
            const type_##items *in =                                                       \
                next_piece(source, done, n - done, sizeof *in, STEP_MOST(items), &count);  \
            const int64_t step = source->step;                                             \
            size_t i = 0;                                                                  \
            count = TO_LINE_##op(in, count, sizeof *in, step);                             \
            if (STEP_MOST(items) > 1 && step == 2) {                                       \
                ORDERLESS_LANES(op, items, acc, 2)                                         \
            } else if (STEP_MOST(items) > 1 && step == 3) {                                \
                ORDERLESS_LANES(op, items, acc, 3)                                         \
            } else {                                                                       \
                ORDERLESS_LANES(op, items, acc, 1)                                         \
            }                                                                              \
            for (int lane = 0; i < count; i++, lane++) {                                   \
                const type_##items item = in[(int64_t)i * step];                           \
                const narrow next = ITEM_##op(items, acc, item);                           \
                lanes[lane] = COMBINE_##op(acc, lanes[lane], next);                        \
                sign |= (bits)SIGN_##op(acc, next);                                        \
                nan |= (bits)EITHER_NAN_##op(items, acc, item, item);                      \
            }                                                                              \
        }                                                                                  \
        for (int lane = 0; lane < MANY; lane++) {                                          \
            wide[lane] = (type_##acc)lanes[lane];                                          \
            sign |= signs[lane];                                                           \
        }                                                                                  \
        for (int lane = 0; lane < MANY / 2; lane++)                                        \
            nan |= nans[lane];                                                             \
        for (int half = MANY / 2; half > 0; half /= 2)                                     \
            for (int lane = 0; lane < half; lane++)                                        \
                wide[lane] = FOLD_##op(acc, wide[lane], wide[lane + half]);                \
        wide[0] = VALUE_OF_##op(acc, wide[0], sign, nan);                                  \
        *(type_##acc *)out = BACK_##op(acc, wide[0]);                                      \
    }                                                                                      \
    CHUNKS(op, items)

/* Bits of integers of any width, by words, which are combined at the end. */
#define BITS_FUNCTIONS(op, items, acc)                                                     \
    CPU_INLINE void any_chunk_##op##_##items(const struct functions *functions,            \
                                             struct source *source, size_t n, void *out) { \
        enum { MANY = ORDERLESS_BYTES / sizeof(uint64_t) };                                \
        const uint64_t key = (uint64_t)functions->key;                                     \
        const size_t size = functions->item_size;                                          \
        uint64_t lanes[MANY] = {0}, block[MANY], all = 0;                                  \
        for (int lane = 0; lane < MANY; lane++)                                            \
            block[lane] = key;                                                             \
        for (size_t done = 0, count; done < n; done += count) {                            \
            const char *in = next_piece(source, done, n - done, size, 1, &count);          \
            const size_t bytes = count * size;                                             \
            size_t i = 0;                                                                  \
            for (; i + ORDERLESS_BYTES <= bytes; i += ORDERLESS_BYTES) {                   \
                const raw_8 *words = (const raw_8 *)(in + i);                              \
                for (int lane = 0; lane < MANY; lane++)                                    \
                    lanes[lane] = COMBINE_##op(uint64, lanes[lane], words[lane] ^ key);    \
            }                                                                              \
            memcpy(block, in + i, bytes - i);                                              \
        }                                                                                  \
        for (int lane = 0; lane < MANY; lane++)                                            \
            lanes[lane] = COMBINE_##op(uint64, lanes[lane], block[lane] ^ key);            \
        for (int lane = 0; lane < MANY; lane++)                                            \
            all = COMBINE_##op(uint64, all, lanes[lane]);                                  \
        for (size_t half = sizeof all / 2; half >= size; half /= 2)                        \
            all = COMBINE_##op(uint64, all, all >> 8 * half);                              \
        all ^= key;                                                                        \
        memcpy(out, &all, size); /* little-endian */                                       \
    }                                                                                      \
    CHUNKS(op, items)

#define CHUNKS(op, items) CPU_ISAS(ISA_CHUNK, op##_##items)
#define ISA_CHUNK(isa, target, bytes, prefix, here, name)                                    \
    target static void chunk_##name##_##isa(const struct functions *functions,               \
                                            struct source *source, size_t n, void *result) { \
        any_chunk_##name(functions, source, n, result);                                      \
    }

typedef void chunk_function(const struct functions *functions, struct source *source, size_t n,
                            void *result);

struct functions {
    chunk_function *chunk[CPU_ISA_COUNT];
    void (*combine)(void *a, const void *b);
    int64_t key;
    size_t item_size, accumulator_size;
    size_t together; /* chunks that are reduced as one: neither order nor overflow matters */
};

/* Unsigned integers are reduced as signed ones, max as min, `and` as `or`: see KEY_<op>. */
CPU_REDUCE_FLOATS(TREE_FUNCTIONS, sum)
CPU_REDUCE_FLOATS(TREE_FUNCTIONS, prod)
TREE_FUNCTIONS(prod, int8, int64)
TREE_FUNCTIONS(prod, int16, int64)
TREE_FUNCTIONS(prod, int32, int64)
TREE_FUNCTIONS(prod, int64, int64)
TREE_FUNCTIONS(prod, complex64, complex128)
TREE_FUNCTIONS(prod, complex128, complex128)
CPU_REDUCE_PAIRS(PAIR_FUNCTIONS)
ORDERLESS_FUNCTIONS(sum, bool, int64)
ORDERLESS_FUNCTIONS(sum, int8, int64)
ORDERLESS_FUNCTIONS(sum, int16, int64)
ORDERLESS_FUNCTIONS(sum, int32, int64)
ORDERLESS_FUNCTIONS(sum, int64, int64)
ORDERLESS_FUNCTIONS(min, int8, int8)
ORDERLESS_FUNCTIONS(min, int16, int16)
ORDERLESS_FUNCTIONS(min, int32, int32)
ORDERLESS_FUNCTIONS(min, int64, int64)
ORDERLESS_FUNCTIONS(min, float16, float32)
ORDERLESS_FUNCTIONS(min, float32, float32)
ORDERLESS_FUNCTIONS(min, float64, float64)
ORDERLESS_FUNCTIONS(and, bool, bool)
ORDERLESS_FUNCTIONS(or, bool, bool)
ORDERLESS_FUNCTIONS(xor, bool, bool)
BITS_FUNCTIONS(or, bits, bits)
BITS_FUNCTIONS(xor, bits, bits)

#define FUNCTIONS_ROW(op, items, acc)                                                 \
    static void combine_##op##_##items(void *a, const void *b) {                      \
        *(type_##acc *)a = APPLY_##op(acc, *(type_##acc *)a, *(const type_##acc *)b); \
    }                                                                                 \
    FUNCTIONS_OF(op, items, acc, CORE_##op(items))
#define FUNCTIONS_OF(op, items, acc, core) FUNCTIONS_BY(op, items, acc, core)
#define FUNCTIONS_BY(op, items, acc, core)                                   \
    static const struct functions functions_##op##_##items = {               \
        {CPU_ISAS(ISA_NAME, core)}, combine_##op##_##items, KEY_##op(items), \
        sizeof(type_##items),       sizeof(type_##acc),     TOGETHER_##op};
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

/* Operations that need no wider type are bound by their bytes alone. */
static int threads_for(uint64_t n, const struct functions *functions) {
    const double bytes = (double)n * (double)functions->item_size;
    return cpu_team_threads(bytes / BYTES_PER_NS +
                            (functions->together > 1 ? 0 : (double)n / ITEMS_PER_NS));
}

/* Reduces chunk `index` of n elements by the code that every CPU can run. */
static void plain_chunk(const struct functions *functions, const char *items, size_t index,
                        size_t n, accumulator *value) {
    struct source source = {.items = items + index * CHUNK * functions->item_size};
    const size_t left = n - index * CHUNK;
    functions->chunk[CPU_ISA_baseline](functions, &source, left < CHUNK ? left : CHUNK, value);
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
            plain_chunk(functions, items, chunk, n, &partial[chunk]);
            float_state_leave(before);
        }
    } else {
        for (size_t chunk = 0; chunk < chunks; chunk++)
            plain_chunk(functions, items, chunk, n, &partial[chunk]);
    }
    combine_all(functions, partial, chunks);
    *value = partial[0];
}

/* A binary tree over values that arrive one by one: a stack holds those that wait for a sibling. */
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

/* Arguments as in the kernels of reduce.cu: elements, result, count. */
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

/* --- the rung `simd`: its threads process many segments without a barrier */

/* The bool that decides a result, whatever the others are: true of an `or`, false of an `and`. -1:
 * none does. */
static int decisive(const struct functions *functions) {
    return functions->combine == combine_or_bool    ? 1
           : functions->combine == combine_and_bool ? 0
                                                    : -1;
}

struct turn {
    const struct functions *functions;
    const char *items;
    const struct device_box *box; /* instead, if strided */
    uint64_t first, n;            /* of the elements */
    accumulator *partial;         /* one for chunks that are reduced together */
    atomic_bool *decided;         /* by a decisive element */
};

static void turn_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    _Alignas(CPU_LINE) char room[PIECE_BYTES];
    const struct turn *turn = state;
    const struct functions *functions = turn->functions;
    const size_t first = (size_t)task * TASK_CHUNKS, together = functions->together;
    const int value = decisive(functions);
    unsigned char *const found = turn->partial[first / together].bytes;
    (void)worker;
    if (atomic_load_explicit(turn->decided, memory_order_relaxed)) {
        *found = (unsigned char)value;
        return;
    }
    for (size_t i = first; i < first + TASK_CHUNKS && i * CHUNK < turn->n; i += together) {
        const size_t left = turn->n - i * CHUNK, most = together * CHUNK;
        struct source source = {.box = turn->box, .first = turn->first + i * CHUNK, .room = room};
        if (!source.box)
            source.items = turn->items + source.first * functions->item_size;
        functions->chunk[cpu_isa()](functions, &source, left < most ? left : most,
                                    &turn->partial[i / together]);
    }
    if (*found == value)
        atomic_store_explicit(turn->decided, true, memory_order_relaxed);
}

/* Runs `whole`, TURN_SEGMENTS at a time. */
static enum status run_turns(struct device *device, const struct turn *whole, int threads,
                             void *result) {
    const struct functions *functions = whole->functions;
    const uint64_t segment = (uint64_t)SEGMENT_CHUNKS * CHUNK, most = TURN_SEGMENTS * segment;
    accumulator partial[TURN_SEGMENTS * SEGMENT_CHUNKS];
    struct tree tree = {.depth = 0};
    struct turn turn = *whole;
    atomic_bool decided = false;
    turn.partial = partial;
    turn.decided = &decided;
    for (uint64_t done = 0; done < whole->n; done += most) {
        turn.first = done;
        turn.n = whole->n - done < most ? whole->n - done : most;
        const uint64_t chunks = (turn.n - 1) / CHUNK + 1;
        const enum status status =
            cpu_team_run(device, threads, (chunks - 1) / TASK_CHUNKS + 1, turn_task, &turn);
        if (status)
            return status;
        const uint64_t values = (chunks - 1) / functions->together + 1;
        for (uint64_t i = 0; i < values; i += SEGMENT_CHUNKS) {
            combine_all(functions, partial + i,
                        values - i < SEGMENT_CHUNKS ? values - i : SEGMENT_CHUNKS);
            tree_push(functions, &tree, partial[i]);
        }
    }
    tree_finish(functions, &tree, result);
    return STATUS_OK;
}

/* Whether the first elements of bools decide the result. */
static bool decides(const struct functions *functions, const char *items) {
    const int value = decisive(functions);
    return value >= 0 && memchr(items, value, LEAF);
}

static enum status cpu_reduce_simd(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
    const struct functions *functions = kernel->data;
    const char *items = (const char *)(uintptr_t) * (const device_address *)arguments[0];
    void *result = (void *)(uintptr_t) * (const device_address *)arguments[1];
    const uint64_t n = *(const uint64_t *)arguments[2];
    if (n <= CHUNK || decides(functions, items)) {
        struct source source = {.items = items};
        functions->chunk[cpu_isa()](functions, &source, n <= CHUNK ? n : LEAF, result);
        return STATUS_OK;
    }
    const struct turn whole = {.functions = functions, .items = items, .n = n};
    return run_turns(device, &whole, threads_for(n, functions), result);
}

/* The same for a box, whose chunks are gathered one by one: the same bits as for a contiguous
 * array. Arguments: the box, result, count. */
static enum status cpu_reduce_box(struct device *device, const struct cpu_kernel *kernel,
                                  void **arguments) {
    const struct functions *functions = kernel->data;
    const uint64_t n = *(const uint64_t *)arguments[2];
    const int threads = threads_for(n * GATHERING, functions);
    struct turn whole = {.functions = functions, .n = n};
    void *result = (void *)(uintptr_t) * (const device_address *)arguments[1];
    char first[LEAF * GPUOPT_ITEM_MAX];
    whole.box = (const struct device_box *)(uintptr_t) * (const device_address *)arguments[0];
    if (n > CHUNK) {
        gather_box(first, whole.box, functions->item_size, 0, LEAF);
        if (decides(functions, first)) {
            struct source source = {.items = first};
            functions->chunk[cpu_isa()](functions, &source, LEAF, result);
            return STATUS_OK;
        }
    }
    return run_turns(device, &whole, threads, result);
}

/* The same tree over the results of subtrees that were reduced one by one: an array that is read in
 * chunks returns the same bits as a contiguous one. Arguments: accumulators, result, count.
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
