/* cpu_axis.h: shared by the files of the CPU's reductions along an axis. cpu_reduce_axis.c divides
 * the work into parts and copies strided elements to contiguous memory; a core reduces the
 * contiguous elements of a part. Cores know no shape beyond that of a part.
 */
#ifndef GPUOPT_CPU_AXIS_H
#define GPUOPT_CPU_AXIS_H

#include "../cpu_gather.h"
#include "../cpu_isa.h"

/* The final conversion of a result; the numbers are those of reduce_axis.cu. */
enum { RAW, FLOAT64, FLOAT32, INT8, INT16, INT32, INT64, ANY, ALL, ODD, FLOAT16, BFLOAT16 };

enum {
    LANES = 16,
    LANE_BYTES = 128,      /* of a run's lanes together, if that makes more of them */
    BLOCK = 128,           /* elements that are summed in few bits, */
    LEAF = LANES * BLOCK,  /* and those of a row, */
    LONG_LEAF = 16 * LEAF, /* of a row whose value needs no more bits than its elements */
    TILE = 512,            /* results of a part, or columns that are not copied, */
    VALUES_BYTES = 2 * TILE * GPUOPT_ITEM_MAX, /* if narrower */
    FEW = 32,                                  /* rows this short run scalar, */
    SHORT_ROW = 16,                            /* and these as columns, if there are many */
    SEARCHED = 64, /* elements of a row at a time; gcc does not vectorize 16 */
    /* Bytes of copied elements. Those that are converted are narrower: both forms fit. */
    COPIED_BYTES = LEAF * GPUOPT_ITEM_MAX,
};
_Static_assert(BLOCK - 1 <= INT8_MAX, "int8_t holds the indices of a run");

/* The elements of a task's results: rows x columns, or rows x kept. If `stride` is `kept`, or
 * `unit` and `inner_stride` are 1, no elements are copied. */
struct part {
    const void *in;
    const int64_t *starts;     /* of the rows, from `in`; elements */
    const int64_t *columns_at; /* from a row's start; NULL if the columns have one step */
    uint64_t first, end, rows, columns, kept, unit;
    uint64_t run; /* of `columns_at`, columns that are contiguous; the part begins with a run */
    int64_t stride, inner_stride, key, mask;
    uint64_t finish;
    int64_t core_key;       /* as `key`, but 0 if it has been applied to the core's elements */
    uint64_t columns_ahead; /* bytes after an element of columns that are prefetched, or 0 */
    bool copies; /* strided elements are copied to `gathered`, and converted to `converted` */
    bool packs;  /* rows of narrow columns are brought together in `gathered` */
    char *gathered, *converted; /* of LEAF elements each */
};

struct axis_functions;
typedef void axis_reduce(const struct axis_functions *functions, const struct part *part,
                         void *values);

/* An operation on elements of the type that it computes in. At most TILE values: of columns of at
 * most BLOCK elements, or of rows of at most `leaf` elements; of columns that are not copied,
 * VALUES_BYTES. */
struct axis_core {
    axis_reduce *rows[CPU_ISA_COUNT], *tiles[CPU_ISA_COUNT];
    /* The same for rows of elements `stride` apart, which are not copied. NULL: they are. */
    void (*strided)(const struct part *part, void *values);
    void (*nothing)(void *value); /* the value of no elements */
    void (*apply)(void *a, const void *b, uint64_t count, int64_t mask);
    /* Whether the value of n elements is final, whatever the others are. NULL: never. */
    bool (*settled)(const void *value, uint64_t n, uint64_t finish);
    size_t item_size, value_size;
    uint64_t leaf;      /* elements of a row at a time, if contiguous */
    uint64_t short_row; /* of a row that is processed as columns, at most */
    bool has_index;     /* a value ends with its element's index, 64 bits; rows have any length */
};

/* Converts n contiguous elements to the core's type. */
typedef void axis_convert(void *to, const void *from, uint64_t n, int64_t key);

struct axis_results {
    void *out;
    int64_t key;
    uint64_t finish;
    double divisor;
};
typedef void axis_store(const struct axis_results *results, uint64_t at, uint64_t count,
                        const void *values);

/* An operation on elements of a dtype. */
struct axis_functions {
    const struct axis_core *core;
    axis_convert *const
        *convert; /* one for each instruction set; NULL: elements have the core's type */
    axis_store *store;
    size_t item_size;
};

extern const struct axis_core axis_sum_int8, axis_sum_int16, axis_sum_int32, axis_sum_int64,
    axis_sum_float32, axis_sum_float64, axis_sum_int64_float64, axis_prod_int64, axis_prod_float32,
    axis_prod_float64, axis_prod_complex64, axis_prod_complex128, axis_count_int8, axis_count_int16,
    axis_count_int32, axis_count_int64, axis_bits_int8, axis_bits_int16, axis_bits_int32,
    axis_bits_int64, axis_min_int8, axis_min_int16, axis_min_int32, axis_min_int64,
    axis_min_float32, axis_min_float64, axis_argmin_int8, axis_argmin_int16, axis_argmin_int32,
    axis_argmin_int64, axis_argmin_float32, axis_argmin_float64;

/* Conversions, named after their types; those of `ordered` halves apply the key. */
extern axis_convert *const axis_int8_to_int64[],
    *const axis_int16_to_int64[], *const axis_int32_to_int64[],

                                      *const axis_complex64_to_complex128[],
                                          *const axis_float16_to_float32[],
                                              *const axis_bfloat16_to_float32[],
                                                  *const axis_ordered_float16[],
                                                      *const axis_ordered_bfloat16[];

axis_store axis_store_float64, axis_store_int64, axis_store_complex128, axis_store_indices,
    axis_store_keyed_8, axis_store_keyed_16, axis_store_keyed_32, axis_store_keyed_64,
    axis_store_keyed_float16, axis_store_keyed_bfloat16;

/* Contiguous elements of the core's type, copied or converted where they are not. These accept at
 * most LEAF elements: some of a row, or rows of a part's columns. */
const void *axis_run(const struct axis_functions *functions, const struct part *part,
                     const void *from, uint64_t n);
const void *axis_columns(const struct axis_functions *functions, const struct part *part,
                         const void *from, uint64_t rows);

enum {
    PREFETCHED_BYTES = 4 * CPU_LINE, /* of a row at a time */
    ROW_AHEAD = 4096, /* bytes, of adjacent rows that are added one by one: one stream */
};

/* Prefetches memory `ahead` bytes after the next PREFETCHED_BYTES of some rows. */
void axis_prefetch(const void *in, int rows, int64_t stride, uint64_t ahead);

/* Whether a part's columns are strided. */
static inline bool gathers_columns(const struct part *part) {
    return part->columns_at || part->unit > 1 || part->inner_stride != 1;
}

static inline uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline const void *items_after(const struct axis_functions *functions, const void *in,
                                      int64_t count) {
    return (const char *)in + count * (int64_t)functions->item_size;
}

#endif
