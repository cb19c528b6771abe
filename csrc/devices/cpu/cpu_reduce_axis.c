/* cpu_reduce_axis.c: reductions along an axis on the CPU. Arguments, keys and finishes are those
 * of reduce_axis.cu. The work is cut into tasks (rows, a share of the reduced axis, a tile of
 * columns) by the sizes alone, and partial results are combined in a binary tree: every number of
 * threads gives the same bits.
 */

/* As the kernels', and products of small integers and of complex numbers. */
#define CPU_REDUCE_AXIS_SIGNATURES(SIGNATURE) \
    REDUCE_AXIS_SIGNATURES(SIGNATURE)         \
    SIGNATURE(prod, int8, int64)              \
    SIGNATURE(prod, int16, int64)             \
    SIGNATURE(prod, int32, int64)             \
    SIGNATURE(prod, complex64, complex128)    \
    SIGNATURE(prod, complex128, complex128)

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_reduce_axis_serial",
     "one thread: 16 sums side by side along a row, a row of sums over columns",
     "after the decks", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "team", "cpu_reduce_axis_team",
     "the same tasks, taken by all cores",
     "after the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#define GPUOPT_RUNGS /* the kernels' signatures, without the kernels */
#define RUNG(...)
#include "../../kernels/reduce_axis.cu"
#undef RUNG
#undef GPUOPT_RUNGS

#include "../../int_math.h"
#include "cpu_gather.h"
#include "cpu_kernels.h"
#include "cpu_reduce_axis.h"
#include "cpu_team.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 16,
    LANE_BYTES = 128,          /* of a run's lanes together, where that makes more of them */
    BLOCK = 128,               /* items that are added up in few bits, */
    LEAF = LANES * BLOCK,      /* and those of a row, */
    LONG_LEAF = 16 * LEAF,     /* of a row whose value needs no more bits than its items */
    FIRST_LEAF = LANES,        /* of a row of bytes: it may hold what ends the search */
    TILE = 512,                /* results of a part */
    SIDE = 4,                  /* axes on either side of the reduced one */
    SHORT_ROW = 16,            /* items */
    KEPT_MOST = LANES,         /* results of a slab's row */
    FEW = 32,                  /* items of a row that no lanes pay for */
    FEW_BYTES = 16,            /* of columns that are searched one by one */
    LONG_AXIS = 64,            /* columns that are worth a tile of their own */
    FOLDED = 64,               /* columns for which rows are taken together, */
    FOLDED_ROWS = 16,          /* and what is left of the rows */
    SEARCHED = 64,             /* items of a row at a time; of 16 gcc makes no vectors */
    TREE_DEPTH = 64,           /* of a binary tree over any 64-bit count */
    BYTES_PER_NS = 8,          /* that one thread reduces, about */
    TASK_ITEMS = 1 << 16,      /* that a task has, where there are many, */
    TASK_ITEMS_MOST = 1 << 21, /* and at most: between two polls */
    FEW_TASKS = 64,
};
_Static_assert(BLOCK - 1 <= INT8_MAX, "PLACE_int8 holds the places of a run");
_Static_assert(LEAF >= TILE, "a row of a tile's columns is brought together at once");

/* Of every outer index a row of reduced items for each of `inner` columns. Where the columns are
 * few and side by side, all of their items may be one row instead, in turns: of `kept` results. */
struct job {
    const struct functions *functions;
    const char *in;
    void *out;
    uint64_t outer, reduced, inner, kept;
    uint64_t unit; /* columns side by side, then those after inner_stride */
    int64_t stride, inner_stride;
    struct device_axes outer_axes;
    struct device_axes inner_axes; /* where no one step leads to the next column */
    int64_t key, mask;
    uint64_t finish;
    double divisor;
    uint64_t rows, run, share; /* of a task: rows, tiles of columns, items of each */
    uint64_t splits, tiles;    /* of the whole */
    char *partials;            /* NULL where the reduced axis is in one share */
    /* The first share, in the order of the search, after which none can change the result. NULL
     * where there are several results. */
    atomic_uint_least64_t *settled;
};

/* Which items a task's result or several are made of: rows x columns of them, or rows x kept. */
struct part {
    const void *in;
    const int64_t *starts;     /* of the rows, from `in`; items */
    const int64_t *columns_at; /* from a row's start; NULL where one step leads to the next */
    uint64_t first, end, rows, columns, kept, unit;
    int64_t stride, inner_stride, key, mask;
    uint64_t finish;
};

struct functions {
    /* At most TILE values: of columns of at most BLOCK items, or of rows: those of at most
     * leaf_of() items, where values have no places. These are numbers of the part's items. True
     * where no other items could change the only value. */
    bool (*part[CPU_ISA_COUNT])(const struct part *part, void *values);
    void (*nothing)(void *value); /* the value of no items */
    void (*apply)(void *a, const void *b, uint64_t count, int64_t mask);
    void (*store)(const struct job *job, uint64_t at, uint64_t count, const void *values);
    size_t item_size, value_size;
    uint64_t leaf; /* items of a row at a time, where they lie side by side */
    bool places;   /* a value ends with its item's number, 64 bits */
};

/* Where a share comes in the order of the search. */
static uint64_t mirrored(const struct job *job, uint64_t split) {
    return job->mask ? job->splits - 1 - split : split;
}

static const void *items_after(const struct functions *functions, const void *in, int64_t count) {
    return (const char *)in + count * (int64_t)functions->item_size;
}

/* --- layouts of a part */

static bool gathers_columns(const struct part *part) {
    return part->columns_at || part->unit > 1 || part->inner_stride != 1;
}

/* Whether several rows of narrow columns are to be taken for one. */
static bool folds(const struct part *part) {
    return part->columns > 1 && part->columns <= FOLDED && !part->columns_at && part->unit == 1 &&
           part->stride == (int64_t)part->columns * part->inner_stride &&
           part->end - part->first >= 2 * FOLDED_ROWS;
}

/* Rows of a part's columns, without gaps. Returns `to`. */
static const void *gather_columns(void *to, const void *from, size_t size, uint64_t rows,
                                  int64_t stride, const struct part *part) {
    if (part->columns_at)
        gather_at(to, from, size, rows, part->columns, stride, part->columns_at);
    else
        gather(to, from, size * part->unit, rows, part->columns / part->unit,
               stride / (int64_t)part->unit, part->inner_stride / (int64_t)part->unit);
    return to;
}

/* n items, `turn` of them side by side and then those after `stride`, without gaps. Returns `to`.
 */
static const void *gather_turns(void *to, const void *from, size_t size, uint64_t n, uint64_t turn,
                                int64_t stride) {
    gather(to, from, size * turn, 1, n / turn, 0, stride / (int64_t)turn);
    return to;
}

/* --- results */

/* Each of a run of results; `i` is its number. */
#define STORE_EACH(type, value)                    \
    do {                                           \
        type *restrict to = (type *)job->out + at; \
        for (uint64_t i = 0; i < count; i++)       \
            to[i] = (type)(value);                 \
    } while (0)

/* Of numbers that a sum, or one that is divided, has been made in. */
#define STORE_WIDE(value)                                     \
    switch (job->finish) {                                    \
    case FLOAT16:                                             \
        STORE_EACH(uint16_t, double_to_half((value) / by));   \
        break;                                                \
    case BFLOAT16:                                            \
        STORE_EACH(uint16_t, double_to_bfloat((value) / by)); \
        break;                                                \
    case FLOAT32:                                             \
        STORE_EACH(float, (value) / by);                      \
        break;                                                \
    default:                                                  \
        STORE_EACH(double, (value) / by);                     \
    }

static void store_float64(const struct job *job, uint64_t at, uint64_t count,
                          const double *values) {
    const double by = job->divisor != 0 ? job->divisor : 1;
    if (by == 1 && job->finish == FLOAT32) /* most of them, without a division */
        STORE_EACH(float, values[i]);
    else if (by == 1 && (job->finish == FLOAT64 || job->finish == RAW))
        STORE_EACH(double, values[i]);
    else
        STORE_WIDE(values[i])
}

static void store_int64(const struct job *job, uint64_t at, uint64_t count, const int64_t *values) {
    const double by = job->divisor != 0 ? job->divisor : 1;
    switch (job->finish) {
    case INT8:
        STORE_EACH(uint8_t, values[i]);
        break;
    case INT16:
        STORE_EACH(uint16_t, values[i]);
        break;
    case INT32:
        STORE_EACH(uint32_t, values[i]);
        break;
    case ANY:
        STORE_EACH(uint8_t, values[i] != 0);
        break;
    case ALL:
        STORE_EACH(uint8_t, (double)values[i] == job->divisor);
        break;
    case ODD:
        STORE_EACH(uint8_t, values[i] & 1);
        break;
    case FLOAT64:
    case FLOAT32:
    case FLOAT16:
    case BFLOAT16:
        STORE_WIDE((double)values[i])
        break;
    default:
        STORE_EACH(int64_t, values[i]);
    }
}
static void store_complex128(const struct job *job, uint64_t at, uint64_t count,
                             const struct complex_double *values) {
    memcpy((struct complex_double *)job->out + at, values, count * sizeof *values);
}

#define STORE_sum(items, acc) store_##acc(job, at, count, values)
#define STORE_prod(items, acc) store_##acc(job, at, count, values)
#define STORE_count(items, acc) store_int64(job, at, count, values)
#define STORE_bits(items, acc) STORE_EACH(type_##items, KEYED_##items(values[i]))
#define STORE_min(items, acc) STORE_EACH(type_##items, BACK_##items(values[i]))
#define STORE_argmin(items, acc) STORE_EACH(int64_t, values[i].index + (int64_t)job->divisor)

/* --- the functions of a signature
 *
 * Items are combined as `narrow` first, in which so few of them cannot overflow, in runs of at most
 * LEAF along a row or BLOCK along a column; runs are combined as VALUE. Not every operation uses
 * the key, the mask or an item's number. */

#define LANES_OF(narrow) \
    (LANE_BYTES / (int)sizeof(narrow) < LANES ? LANES : LANE_BYTES / (int)sizeof(narrow))

/* Whether lanes may be combined one after the other: gcc makes a minimum of integers of it. */
#define EXACT_sum(items) false
#define EXACT_prod(items) false
#define EXACT_count(items) false
#define EXACT_bits(items) false
#define EXACT_min(items) ((compared_##items)0.5f == 0)
/* Of 16 minima gcc makes no vectors. */
#define MANY_sum(narrow) LANES_OF(narrow)
#define MANY_prod(narrow) LANES_OF(narrow)
#define MANY_count(narrow) LANES_OF(narrow)
#define MANY_bits(narrow) LANES_OF(narrow)
#define MANY_min(narrow) (sizeof(narrow) == 8 ? 2 * LANES : LANES_OF(narrow))

/* A run of at most leaf_of() items that lie side by side, to its value, or to those of `kept` items
 * in turns. Its lanes are folded to LANES before they are widened: each has BLOCK items at most. */
#define LEAF_OF(op, items, acc)                                                                    \
    CPU_INLINE void leaf_##op##_##items##_##acc(const type_##items *in, uint64_t n, uint64_t kept, \
                                                int64_t key, int64_t mask,                         \
                                                VALUE_##op(items, acc) * result) {                 \
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
        if (kept == 1 && EXACT_##op(items)) {                                                      \
            VALUE_##op(items, acc) all = wide[0];                                                  \
            for (int lane = 1; lane < LANES; lane++)                                               \
                all = APPLY_##op(items, acc, all, wide[lane]);                                     \
            *result = all;                                                                         \
            return;                                                                                \
        }                                                                                          \
        if (kept == 1) {                                                                           \
            for (int half = LANES / 2; half > 0; half /= 2)                                        \
                for (int lane = 0; lane < half; lane++)                                            \
                    wide[lane] = APPLY_##op(items, acc, wide[lane], wide[lane + half]);            \
            *result = wide[0];                                                                     \
            return;                                                                                \
        }                                                                                          \
        for (uint64_t half = LANES / 2; half >= kept; half /= 2)                                   \
            for (uint64_t lane = 0; lane < half; lane++)                                           \
                wide[lane] = APPLY_##op(items, acc, wide[lane], wide[lane + half]);                \
        for (uint64_t lane = 0; lane < kept; lane++)                                               \
            result[lane] = wide[lane];                                                             \
    }                                                                                              \
                                                                                                   \
    /* A slab of a few items: one after the other. */                                              \
    CPU_INLINE void few_##op##_##items##_##acc(const type_##items *in, uint64_t n, uint64_t kept,  \
                                               int64_t key, int64_t mask,                          \
                                               VALUE_##op(items, acc) * result) {                  \
        (void)key, (void)mask;                                                                     \
        for (uint64_t lane = 0; lane < kept; lane++) {                                             \
            NARROW_##op(items, acc) all = IDENTITY_##op(items, acc);                               \
            for (uint64_t i = lane; i < n; i += kept) {                                            \
                const NARROW_##op(items, acc) next = LOAD_##op(items, acc, in[i]);                 \
                all = COMBINE_##op(items, acc, all, next);                                         \
            }                                                                                      \
            result[lane] = all;                                                                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* A row of at most leaf_of() items to its values. True where no others could change it. */    \
    CPU_INLINE bool row_##op##_##items##_##acc(const struct part *part, const type_##items *in,    \
                                               VALUE_##op(items, acc) * result) {                  \
        const uint64_t n = part->end - part->first;                                                \
        type_##items gathered[LEAF];                                                               \
        if (part->stride != (int64_t)part->kept)                                                   \
            in = gather_turns(gathered, in, sizeof *in, n, part->kept, part->stride);              \
        if (n <= FEW)                                                                              \
            few_##op##_##items##_##acc(in, n, part->kept, part->key, part->mask, result);          \
        else                                                                                       \
            leaf_##op##_##items##_##acc(in, n, part->kept, part->key, part->mask, result);         \
        return part->kept == 1 && SETTLED_##op(items, acc, *result, n);                            \
    }

#define TILE_OF(op, items, acc)                                                                  \
    CPU_INLINE void add_row_##op##_##items##_##acc(NARROW_##op(items, acc) * tile,               \
                                                   const type_##items *row, uint64_t columns,    \
                                                   int64_t key, int64_t mask) {                  \
        (void)key, (void)mask;                                                                   \
        for (uint64_t i = 0; i < columns; i++) {                                                 \
            const NARROW_##op(items, acc) next = LOAD_##op(items, acc, row[i]);                  \
            tile[i] = COMBINE_##op(items, acc, tile[i], next);                                   \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    /* At most TILE columns, from row to row of at most BLOCK. */                                \
    CPU_INLINE void tile_##op##_##items##_##acc(const struct part *part, const type_##items *in, \
                                                VALUE_##op(items, acc) *restrict values) {       \
        typedef NARROW_##op(items, acc) narrow;                                                  \
        const int64_t key = part->key, mask = part->mask;                                        \
        const uint64_t rows = part->end - part->first, columns = part->columns;                  \
        const bool gathers = gathers_columns(part);                                              \
        const uint64_t most = gathers ? LEAF / columns : rows;                                   \
        const int64_t stride = gathers ? (int64_t)columns : part->stride;                        \
        narrow tile[TILE];                                                                       \
        type_##items gathered[LEAF];                                                             \
        (void)key, (void)mask;                                                                   \
        for (uint64_t i = 0; i < columns; i++)                                                   \
            tile[i] = IDENTITY_##op(items, acc);                                                 \
        for (uint64_t r = 0; r < rows; r += most, in += (int64_t)most * part->stride) {          \
            const uint64_t count = min_u64(rows - r, most);                                      \
            const type_##items *a = in;                                                          \
            uint64_t k = 0;                                                                      \
            if (gathers)                                                                         \
                a = gather_columns(gathered, a, sizeof *a, count, part->stride, part);           \
            for (; k + 4 <= count; k += 4, a += 4 * stride) {                                    \
                const type_##items *b = a + stride, *c = b + stride, *d = c + stride;            \
                for (uint64_t i = 0; i < columns; i++) {                                         \
                    narrow next = LOAD_##op(items, acc, a[i]), sum = tile[i];                    \
                    sum = COMBINE_##op(items, acc, sum, next);                                   \
                    next = LOAD_##op(items, acc, b[i]);                                          \
                    sum = COMBINE_##op(items, acc, sum, next);                                   \
                    next = LOAD_##op(items, acc, c[i]);                                          \
                    sum = COMBINE_##op(items, acc, sum, next);                                   \
                    next = LOAD_##op(items, acc, d[i]);                                          \
                    tile[i] = COMBINE_##op(items, acc, sum, next);                               \
                }                                                                                \
            }                                                                                    \
            for (; k < count; k++, a += stride)                                                  \
                add_row_##op##_##items##_##acc(tile, a, columns, key, mask);                     \
        }                                                                                        \
        for (uint64_t i = 0; i < columns; i++)                                                   \
            values[i] = tile[i];                                                                 \
    }

/* The same of complex numbers, whose parts lie apart: of rounded_prod() gcc makes no vectors, and
 * of these parts it fuses none. */
#define TILE_OF_COMPLEX(op, items, acc)                                                          \
    CPU_INLINE void tile_##op##_##items##_##acc(const struct part *part, const type_##items *in, \
                                                struct complex_double *restrict values) {        \
        const uint64_t rows = part->end - part->first, columns = part->columns;                  \
        const bool gathers = gathers_columns(part);                                              \
        const uint64_t most = gathers ? LEAF / columns : rows;                                   \
        const int64_t stride = gathers ? (int64_t)columns : part->stride;                        \
        double real[TILE], imag[TILE];                                                           \
        type_##items gathered[LEAF];                                                             \
        for (uint64_t i = 0; i < columns; i++) {                                                 \
            real[i] = 1;                                                                         \
            imag[i] = 0;                                                                         \
        }                                                                                        \
        for (uint64_t r = 0; r < rows; r += most, in += (int64_t)most * part->stride) {          \
            const uint64_t count = min_u64(rows - r, most);                                      \
            const type_##items *a = in;                                                          \
            if (gathers)                                                                         \
                a = gather_columns(gathered, a, sizeof *a, count, part->stride, part);           \
            for (uint64_t k = 0; k < count; k++, a += stride)                                    \
                for (uint64_t i = 0; i < columns; i++) {                                         \
                    const double x = real[i], y = imag[i], next = a[i].real, after = a[i].imag;  \
                    real[i] = x * next - y * after;                                              \
                    imag[i] = x * after + y * next;                                              \
                }                                                                                \
        }                                                                                        \
        for (uint64_t i = 0; i < columns; i++)                                                   \
            values[i] = (struct complex_double){real[i], imag[i]};                               \
    }

/* The same of argmin: where the least item is follows from the leaf that has it. */
#define LEAF_OF_ARGMIN(op, items, acc)                                                            \
    /* Where the first item is, or the last, that is `best`, or not a number if `best` is not: of \
     * SEARCHED items or more, the last of them together with some that were looked at before. */ \
    CPU_INLINE int64_t find_##items(const type_##items *in, uint64_t n, compared_##items best,    \
                                    int64_t key, bool last) {                                     \
        for (uint64_t k = 0;; k = min_u64(k + SEARCHED, n - SEARCHED)) {                          \
            const type_##items *run = in + (last ? n - SEARCHED - k : k);                         \
            const PLACE_##items turn = last ? SEARCHED - 1 : 0;                                   \
            PLACE_##items first = SEARCHED;                                                       \
            PLACE_##items here = 0;                                                               \
            for (int lane = 0; lane < SEARCHED; lane++) {                                         \
                const compared_##items item = LOAD_min(items, items, run[lane]);                  \
                here |= (PLACE_##items)((item == best) | (item != item));                         \
            }                                                                                     \
            if (!here)                                                                            \
                continue;                                                                         \
            for (PLACE_##items lane = 0; lane < SEARCHED; lane++) {                               \
                const compared_##items item = LOAD_min(items, items, run[lane]);                  \
                const PLACE_##items place = (PLACE_##items)(lane ^ turn);                         \
                const PLACE_##items found = ((item == best) | (item != item)) ? place : SEARCHED; \
                first = found < first ? found : first;                                            \
            }                                                                                     \
            return run - in + (first ^ turn);                                                     \
        }                                                                                         \
    }                                                                                             \
    CPU_INLINE bool row_##op##_##items##_##acc(const struct part *part, const type_##items *in,   \
                                               VALUE_##op(items, acc) * result) {                 \
        const int64_t key = part->key, mask = part->mask, stride = part->stride;                  \
        const uint64_t n = part->end - part->first;                                               \
        type_##items gathered[LEAF];                                                              \
        compared_##items best = HIGHEST_##items;                                                  \
        uint64_t at = 0, leaf = 0;                                                                \
        bool settled = false;                                                                     \
        for (uint64_t done = 0, count; done < n && !settled; done += count) {                     \
            count = done || sizeof *in > 1 ? max_u64(done, LEAF) : FIRST_LEAF;                    \
            count = min_u64(n - done, min_u64(count, stride == 1 ? LONG_LEAF : LEAF));            \
            const uint64_t i = mask ? n - done - count : done;                                    \
            const type_##items *run = in + (int64_t)i * stride;                                   \
            compared_##items next;                                                                \
            if (stride != 1)                                                                      \
                run = gather_turns(gathered, run, sizeof *run, count, 1, stride);                 \
            leaf_min_##items##_##items(run, count, 1, key, 0, &next);                             \
            if (done == 0 || next < best || next != next) {                                       \
                best = next;                                                                      \
                at = i;                                                                           \
                leaf = count;                                                                     \
                settled = SETTLED_min(items, items, best, 0);                                     \
            }                                                                                     \
        }                                                                                         \
        if (stride == 1 && leaf >= SEARCHED) {                                                    \
            *result = (struct placed_##items){                                                    \
                best, (int64_t)at + find_##items(in + at, leaf, best, key, mask != 0)};           \
            return settled;                                                                       \
        }                                                                                         \
        for (uint64_t k = 0; k < leaf; k++) {                                                     \
            const uint64_t r = mask ? at + leaf - 1 - k : at + k;                                 \
            const compared_##items item = LOAD_min(items, items, in[(int64_t)r * stride]);        \
            if (item == best || item != item) {                                                   \
                *result = (struct placed_##items){best, (int64_t)r};                              \
                break;                                                                            \
            }                                                                                     \
        }                                                                                         \
        return settled;                                                                           \
    }                                                                                             \
    CPU_INLINE void place_row_##items(compared_##items *best, PLACE_##items *places,              \
                                      const type_##items *row, uint64_t columns,                  \
                                      PLACE_##items place, int64_t key) {                         \
        for (uint64_t i = 0; i < columns; i++) {                                                  \
            const compared_##items next = LOAD_min(items, items, row[i]);                         \
            const bool less = (next < best[i]) | ((next != next) & (best[i] == best[i]));         \
            best[i] = less ? next : best[i];                                                      \
            places[i] = less ? place : places[i];                                                 \
        }                                                                                         \
    }                                                                                             \
    CPU_INLINE void tile_##op##_##items##_##acc(const struct part *part, const type_##items *in,  \
                                                VALUE_##op(items, acc) *restrict values) {        \
        const int64_t key = part->key, mask = part->mask;                                         \
        const uint64_t rows = part->end - part->first, columns = part->columns;                   \
        const bool gathers = gathers_columns(part);                                               \
        const int64_t apart = mask ? -part->stride : part->stride;                                \
        const int64_t stride = gathers ? (int64_t)columns : apart;                                \
        const uint64_t most = gathers ? LEAF / columns : rows;                                    \
        type_##items gathered[LEAF];                                                              \
        compared_##items best[TILE];                                                              \
        PLACE_##items places[TILE];                                                               \
        if (mask)                                                                                 \
            in += (int64_t)(rows - 1) * part->stride;                                             \
        for (uint64_t i = 0; i < columns; i++) {                                                  \
            best[i] = HIGHEST_##items;                                                            \
            places[i] = (PLACE_##items)(mask ? rows - 1 : 0);                                     \
        }                                                                                         \
        for (uint64_t k = 0, end; k < rows; in += (int64_t)most * apart) {                        \
            const type_##items *row = in;                                                         \
            end = min_u64(rows, k + most);                                                        \
            if (gathers)                                                                          \
                row = gather_columns(gathered, in, sizeof *in, end - k, apart, part);             \
            for (; k < end; k++, row += stride)                                                   \
                place_row_##items(best, places, row, columns,                                     \
                                  (PLACE_##items)(mask ? rows - 1 - k : k), key);                 \
        }                                                                                         \
        for (uint64_t i = 0; i < columns; i++)                                                    \
            values[i] = (struct placed_##items){best[i], (int64_t)places[i]};                     \
    }

#define ISA_PART(isa, target, bytes, prefix, here, name)                            \
    target static bool part_##name##_##isa(const struct part *part, void *values) { \
        return any_part_##name(part, values);                                       \
    }
#define ISA_NAME(isa, target, bytes, prefix, here, name) part_##name##_##isa,

#define FUNCTIONS(op, items, acc)                                                                \
    BODY_##op(op, items, acc)                                                                    \
        CPU_INLINE bool any_part_##op##_##items##_##acc(const struct part *part, void *to) {     \
        VALUE_##op(items, acc) *const values = to;                                               \
        const type_##items *in = part->in;                                                       \
        bool settled = false;                                                                    \
        if (part->columns > 1)                                                                   \
            for (uint64_t row = 0; row < part->rows; row++)                                      \
                tile_##op##_##items##_##acc(part, in + part->starts[row],                        \
                                            values + row * part->columns);                       \
        else                                                                                     \
            for (uint64_t row = 0; row < part->rows; row++)                                      \
                settled = row_##op##_##items##_##acc(part, in + part->starts[row],               \
                                                     values + row * part->kept);                 \
        return settled;                                                                          \
    }                                                                                            \
    CPU_ISAS(ISA_PART, op##_##items##_##acc)                                                     \
    static void nothing_##op##_##items##_##acc(void *to) {                                       \
        *(VALUE_##op(items, acc) *)to = IDENTITY_##op(items, acc);                               \
    }                                                                                            \
    static void apply_##op##_##items##_##acc(void *a, const void *b, uint64_t count,             \
                                             int64_t mask) {                                     \
        VALUE_##op(items, acc) *left = a;                                                        \
        const VALUE_##op(items, acc) *right = b;                                                 \
        (void)mask;                                                                              \
        for (; count > 0; count--, left++, right++)                                              \
            if (!STAYS_##op(*left))                                                              \
                *left = APPLY_##op(items, acc, *left, *right);                                   \
    }                                                                                            \
    static void store_##op##_##items##_##acc(const struct job *job, uint64_t at, uint64_t count, \
                                             const void *from) {                                 \
        const VALUE_##op(items, acc) *values = from;                                             \
        const int64_t key = job->key;                                                            \
        (void)key;                                                                               \
        STORE_##op(items, acc);                                                                  \
    }                                                                                            \
    static const struct functions functions_##op##_##items##_##acc = {                           \
        {CPU_ISAS(ISA_NAME, op##_##items##_##acc)},                                              \
        nothing_##op##_##items##_##acc,                                                          \
        apply_##op##_##items##_##acc,                                                            \
        store_##op##_##items##_##acc,                                                            \
        sizeof(type_##items),                                                                    \
        sizeof(VALUE_##op(items, acc)),                                                          \
        LEAF_##op,                                                                               \
        HAS_PLACES_##op};

/* Named after what they are compared as. */
#define leaf_min_float16_float16 leaf_min_float16_float32
#define leaf_min_bfloat16_bfloat16 leaf_min_bfloat16_float32

#define BODY_sum(op, items, acc) LEAF_OF(op, items, acc) TILE_OF(op, items, acc)
#define BODY_prod(op, items, acc) LEAF_OF(op, items, acc) TILE_##acc(op, items, acc)
#define TILE_int64(op, items, acc) TILE_OF(op, items, acc)
#define TILE_float64(op, items, acc) TILE_OF(op, items, acc)
#define TILE_complex128(op, items, acc) TILE_OF_COMPLEX(op, items, acc)
#define BODY_count(op, items, acc) LEAF_OF(op, items, acc) TILE_OF(op, items, acc)
#define BODY_bits(op, items, acc) LEAF_OF(op, items, acc) TILE_OF(op, items, acc)
#define BODY_min(op, items, acc) LEAF_OF(op, items, acc) TILE_OF(op, items, acc)
#define BODY_argmin(op, items, acc) LEAF_OF_ARGMIN(op, items, acc)
#define LEAF_sum LEAF
#define LEAF_prod LEAF
#define LEAF_count LEAF
#define LEAF_bits LONG_LEAF
#define LEAF_min LONG_LEAF
#define LEAF_argmin LONG_LEAF
#define HAS_PLACES_sum false
#define HAS_PLACES_prod false
#define HAS_PLACES_count false
#define HAS_PLACES_bits false
#define HAS_PLACES_min false
#define HAS_PLACES_argmin true
CPU_REDUCE_AXIS_SIGNATURES(FUNCTIONS)

/* --- tasks */

/* Places among a part's rows as places among all: of every `apart` rows the one after `group`. Rows
 * before `mask` are counted from the end. */
static void move_places(const struct functions *functions, void *values, uint64_t count,
                        uint64_t from, uint64_t apart, uint64_t group, int64_t mask) {
    char *value = values;
    for (; functions->places && count > 0; count--) {
        int64_t place;
        value += functions->value_size;
        memcpy(&place, value - sizeof place, sizeof place);
        place = (int64_t)(from + (uint64_t)place * apart + group) ^ mask;
        memcpy(value - sizeof place, &place, sizeof place);
    }
}

static const int64_t here; /* where a part of one row starts */

/* Columns, BLOCK rows at a time. Of narrow ones that are all the same step apart as many rows as
 * fill a tile are taken for one. */
static void columns_part(const struct functions *functions, const struct part *part, int64_t start,
                         char *values) {
    struct complex_double tile[TILE]; /* of the widest type */
    const uint64_t rows = part->end - part->first, columns = part->columns;
    const size_t row_size = columns * functions->value_size;
    uint64_t fold = folds(part) ? max_u64(1, min_u64(TILE / columns, rows / FOLDED_ROWS)) : 1;
    for (uint64_t done = 0, count; done < rows; done += count * fold) {
        struct part piece = *part;
        fold = fold <= rows - done ? fold : 1;
        count = min_u64((rows - done) / fold, BLOCK);
        piece.in = items_after(functions, part->in, start + (int64_t)done * part->stride);
        piece.starts = &here;
        piece.rows = 1;
        piece.end = piece.first + count;
        piece.columns = fold * columns;
        piece.stride = (int64_t)fold * part->stride;
        functions->part[cpu_isa()](&piece, done || fold > 1 ? (char *)tile : values);
        for (uint64_t g = 0; g < fold; g++) {
            char *next = done || fold > 1 ? (char *)tile + g * row_size : values;
            move_places(functions, next, columns, part->first + done, fold, g, part->mask);
            if (done || g)
                functions->apply(values, next, columns, part->mask);
            else if (next != values)
                memcpy(values, next, row_size);
        }
    }
}

/* Items of a row at a time. */
static uint64_t leaf_of(const struct functions *functions, const struct part *part) {
    return part->stride == (int64_t)part->kept ? functions->leaf : LEAF;
}

/* A row of several leaves, in a binary tree. True where no other items could change its value. */
static bool long_row(const struct functions *functions, const struct part *part, int64_t start,
                     char *values) {
    struct complex_double stack[TREE_DEPTH * KEPT_MOST];
    const size_t size = part->kept * functions->value_size;
    const uint64_t n = part->end - part->first, leaf = leaf_of(functions, part);
    const int64_t apart = (int64_t)(leaf / part->kept) * part->stride;
    char *top = (char *)stack; /* after the last */
    struct part piece = *part;
    piece.in = items_after(functions, part->in, start);
    piece.starts = &here;
    piece.rows = 1;
    for (uint64_t done = 0, leaves = 1; done < n; done += leaf, leaves++, top += size) {
        piece.end = piece.first + min_u64(n - done, leaf);
        if (functions->part[cpu_isa()](&piece, top)) {
            memcpy(values, top, size);
            return true;
        }
        for (uint64_t pairs = leaves; pairs % 2 == 0; pairs /= 2, top -= size)
            functions->apply(top - size, top, part->kept, part->mask);
        piece.in = items_after(functions, piece.in, apart);
    }
    for (top -= size; top > (char *)stack; top -= size)
        functions->apply(top - size, top, part->kept, part->mask);
    memcpy(values, stack, size);
    return false;
}

/* The part's values. True where no other items could change the only one. */
static bool whole_part(const struct functions *functions, const struct part *part, char *values) {
    const uint64_t n = part->end - part->first;
    const size_t row_size = part->columns * part->kept * functions->value_size;
    bool settled = false;
    if (part->columns > 1 ? n <= BLOCK && !folds(part)
                          : functions->places || n <= leaf_of(functions, part)) {
        settled = functions->part[cpu_isa()](part, values);
        move_places(functions, values, part->rows * part->columns, part->first, 1, 0, part->mask);
        return settled;
    }
    for (uint64_t row = 0; row < part->rows; row++, values += row_size)
        if (part->columns > 1)
            columns_part(functions, part, part->starts[row], values);
        else
            settled = long_row(functions, part, part->starts[row], values);
    return settled;
}

/* A task's rows, a few at a time. */
static void part_task(const struct job *job, uint64_t row, uint64_t rows, uint64_t split,
                      uint64_t tile) {
    const struct functions *functions = job->functions;
    struct complex_double values[TILE]; /* of the widest type */
    int64_t starts[TILE], columns_at[TILE];
    const uint64_t column = tile * TILE, across = job->inner * job->kept;
    struct part part = {.starts = starts,
                        .first = split * job->share,
                        .end = min_u64((split + 1) * job->share, job->reduced),
                        .rows = rows,
                        .columns = min_u64(job->inner - column, TILE),
                        .kept = job->kept,
                        .unit = job->unit,
                        .stride = job->stride,
                        .inner_stride = job->inner_stride,
                        .key = job->key,
                        .mask = job->mask,
                        .finish = job->finish};
    const int64_t from = (int64_t)(part.first / job->kept) * job->stride +
                         (int64_t)(column / job->unit) * job->inner_stride;
    const uint64_t place = mirrored(job, split);
    part.in = items_after(functions, job->in, from);
    axes_at(&job->outer_axes, row, rows, starts);
    if (job->inner_axes.count) {
        axes_at(&job->inner_axes, column, part.columns, columns_at);
        if (part.columns > 1)
            part.columns_at = columns_at;
        else /* a row */
            part.in = items_after(functions, part.in, columns_at[0]);
    }
    if (job->settled && atomic_load_explicit(job->settled, memory_order_relaxed) < place) {
        functions->nothing(values);
    } else if (whole_part(functions, &part, (char *)values) && job->settled) {
        uint64_t known = atomic_load(job->settled);
        while (place < known && !atomic_compare_exchange_weak(job->settled, &known, place))
            ;
    }
    const uint64_t count = part.columns * part.kept;
    if (job->partials)
        memcpy(job->partials +
                   ((row * job->splits + split) * across + column) * functions->value_size,
               values, count * functions->value_size);
    else
        functions->store(job, row * across + column, rows * count, values);
}

static void first_task(const void *state, uint64_t index, struct cpu_worker *worker) {
    const struct job *job = state;
    const uint64_t runs = (job->tiles - 1) / job->run + 1, begin = index % runs * job->run;
    const uint64_t split = index / runs % job->splits;
    const uint64_t first = index / runs / job->splits * job->rows;
    const uint64_t end = min_u64(first + job->rows, job->outer);
    const uint64_t rows = job->partials ? 1 : max_u64(1, TILE / (job->inner * job->kept));
    (void)worker;
    for (uint64_t row = first; row < end; row += rows)
        for (uint64_t tile = begin; tile < min_u64(begin + job->run, job->tiles); tile++)
            part_task(job, row, min_u64(rows, end - row), split, tile);
}

/* A row's shares to its results, level by level. */
static void last_task(const void *state, uint64_t row, struct cpu_worker *worker) {
    const struct job *job = state;
    const struct functions *functions = job->functions;
    const uint64_t across = job->inner * job->kept;
    const size_t size = across * functions->value_size;
    char *partials = job->partials + row * job->splits * size;
    (void)worker;
    for (uint64_t apart = 1; apart < job->splits; apart *= 2)
        for (uint64_t s = 0; s + apart < job->splits; s += 2 * apart)
            functions->apply(partials + s * size, partials + (s + apart) * size, across, job->mask);
    functions->store(job, row * across, across, partials);
}

/* --- layouts */

/* Appends axes as the kernels take them: the last one's step, the sizes of all but the first, their
 * steps. A size of 0 is the first axis'. */
static void take_axes(struct device_axes *axes, void **arguments, uint64_t total) {
    for (int k = 0; k < SIDE; k++) {
        const uint64_t size = k < SIDE - 1 ? *(const uint64_t *)arguments[1 + k] : 0;
        axes->steps[axes->count] = *(const int64_t *)arguments[k ? SIDE - 1 + k : 0];
        axes->sizes[axes->count++] = size ? size : total;
        if (!size)
            return;
        total /= size;
    }
}

/* The axes of `more` from its axis `first` on come before all others. */
static void append_axes(struct device_axes *axes, const struct device_axes *more, int first) {
    for (int k = first; k < more->count; k++, axes->count++) {
        axes->sizes[axes->count] = more->sizes[k];
        axes->steps[axes->count] = more->steps[k];
    }
}

/* Whether so many items side by side are moved as one, and a step is a number of them. */
static bool whole_units(const struct job *job, uint64_t unit, int64_t step) {
    return (unit & (unit - 1)) == 0 && unit * job->functions->item_size <= GPUOPT_ITEM_MAX &&
           step % (int64_t)unit == 0;
}

/* Chooses what rows and columns are. The results are in the order of the outer index and then of
 * the inner one: axes may go from one to the other. */
static void set_shape(struct job *job, const struct device_axes *outer,
                      const struct device_axes *inner) {
    const uint64_t kept = job->inner;
    job->kept = 1;
    job->unit = 1;
    job->inner_stride = inner->steps[0];
    if (kept > 1 && kept <= KEPT_MOST && (kept & (kept - 1)) == 0 && inner->count == 1 &&
        job->inner_stride == 1 && !job->functions->places &&
        (job->stride == (int64_t)kept || whole_units(job, kept, job->stride))) {
        job->kept = kept;
        job->reduced *= kept;
        job->inner = 1;
        job->outer_axes = *outer;
    } else if (job->functions->places && job->inner * job->functions->item_size <= FEW_BYTES &&
               job->reduced >= LONG_AXIS &&
               (inner->count > 1 || job->inner_stride != 1 || job->stride != (int64_t)kept)) {
        job->outer *= job->inner; /* rows are searched faster than gathered columns */
        job->inner = 1;
        job->outer_axes = *inner;
        append_axes(&job->outer_axes, outer, 0);
    } else if (job->inner == 1 && job->outer > 1 && job->reduced <= SHORT_ROW) {
        /* Short rows are taken for columns: many of them at a time. */
        job->inner = job->outer;
        job->outer = 1;
        job->inner_axes = *outer;
        job->inner_stride = outer->steps[0];
    } else {
        job->outer_axes = *outer;
        job->inner_axes = *inner;
    }
    if (job->inner_axes.count > 1 && job->inner_axes.sizes[0] >= LONG_AXIS) {
        const struct device_axes last = job->outer_axes;
        job->outer *= job->inner / job->inner_axes.sizes[0];
        job->inner = job->inner_axes.sizes[0];
        job->outer_axes.count = 0;
        append_axes(&job->outer_axes, &job->inner_axes, 1);
        append_axes(&job->outer_axes, &last, 0);
        job->inner_axes.count = 1;
    }
    const uint64_t unit = job->inner_axes.sizes[0];
    if (job->inner_axes.count == 1) {
        job->inner_axes.count = 0;
    } else if (job->inner_axes.count == 2 && job->inner_axes.steps[0] == 1 &&
               whole_units(job, unit, job->inner_axes.steps[1]) &&
               whole_units(job, unit, job->stride)) {
        job->inner_axes.count = 0;
        job->unit = unit;
        job->inner_stride = job->inner_axes.steps[1];
    } else if (job->inner_axes.count) {
        job->inner_stride = 0;
    }
}

static enum status cpu_reduce_axis(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
#define ARGUMENT(index, type) (*(const type *)arguments[index])
    struct device_axes outer = {.count = 0}, inner = {.count = 0};
    struct job job = {
        .functions = kernel->data,
        .in = (const char *)(uintptr_t)ARGUMENT(0, device_address),
        .out = (void *)(uintptr_t)ARGUMENT(1, device_address),
        .outer = ARGUMENT(2, uint64_t),
        .reduced = ARGUMENT(3, uint64_t),
        .inner = ARGUMENT(4, uint64_t),
        .stride = ARGUMENT(5, int64_t),
        .key = ARGUMENT(20, int64_t),
        .mask = ARGUMENT(21, int64_t),
        .finish = ARGUMENT(22, uint64_t),
        .divisor = ARGUMENT(23, double),
    };
#undef ARGUMENT
    atomic_uint_least64_t settled = UINT64_MAX;
    take_axes(&outer, arguments + 6, job.outer);
    take_axes(&inner, arguments + 13, job.inner);
    set_shape(&job, &outer, &inner);
    const uint64_t columns = min_u64(job.inner, TILE);
    job.tiles = (job.inner - 1) / TILE + 1;
    const uint64_t items = job.outer * job.tiles < FEW_TASKS ? TASK_ITEMS : TASK_ITEMS_MOST;
    job.share = min_u64(job.reduced, items / columns);
    job.splits = (job.reduced - 1) / job.share + 1;
    /* Neighbouring tiles first: memory is read as it lies. */
    const uint64_t tiles = job.splits > 1 ? 1 : max_u64(1, TASK_ITEMS / (job.share * columns));
    job.run = min_u64(tiles, job.tiles);
    job.rows = tiles / job.run;
    if (job.splits > 1) {
        job.settled = job.outer == 1 && job.inner * job.kept == 1 ? &settled : NULL;
        job.partials =
            malloc(job.outer * job.splits * job.inner * job.kept * job.functions->value_size);
        if (!job.partials)
            return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for partial results");
    }
    const double bytes = (double)(job.outer * job.reduced * job.inner * job.functions->item_size);
    const int threads = kernel->parallel ? cpu_team_threads(bytes / BYTES_PER_NS) : 1;
    const uint64_t runs = (job.tiles - 1) / job.run + 1;
    const uint64_t tasks = ((job.outer - 1) / job.rows + 1) * job.splits * runs;
    enum status status = cpu_team_run(device, threads, tasks, first_task, &job);
    if (!status && job.partials)
        status = cpu_team_run(device, threads, job.outer, last_task, &job);
    free(job.partials);
    return status;
}

#define KERNEL_ROWS(op, items, acc)                                        \
    {"cpu_reduce_axis_serial_" #op "_" #items "_" #acc, cpu_reduce_axis,   \
     &functions_##op##_##items##_##acc, false},                            \
        {"cpu_reduce_axis_team_" #op "_" #items "_" #acc, cpu_reduce_axis, \
         &functions_##op##_##items##_##acc, true},

const struct cpu_kernel cpu_reduce_axis_kernels[] = {CPU_REDUCE_AXIS_SIGNATURES(KERNEL_ROWS)};
const size_t cpu_reduce_axis_kernel_count =
    sizeof cpu_reduce_axis_kernels / sizeof *cpu_reduce_axis_kernels;

#endif
