/* host_matmul.c: the matrix product on the CPU, rungs `serial`, `openmp` and `simd`. Its
 * signatures are those of matmul.cu. All add up in float64, over k from first to last: the same
 * bits from all, whatever the instruction set. With u = 2^-53 an item of c is off by at most
 * (k + 2) * u * sum(|a| * |b|), and for float32 by the rounding to float32 besides.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "host_matmul_serial",
     "three nested loops, the inner one along the rows of b and c",
     "D2 matmul, on a CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "host_matmul_openmp",
     "four rows at a time for each word of b, spread over all cores",
     "D2 matmul, on a CPU with OpenMP", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "host_matmul_simd",
     "a patch of c stays in vector registers; a and b are packed in the order in which it reads them",
     "beyond the decks: K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication",
     0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "host_isa.h"
#include "host_kernels.h"
#include "host_team.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 4,             /* of c at a time, openmp */
    COLUMNS = 512,        /* of c at a time: its sums stay in the first-level cache */
    POLL_STEPS = 1 << 25, /* multiplications between two polls, a thread */
    /* Multiplications of one thread, about: 256 x 256 float32 took it 0.91 ms on an EPYC 7003 (Nov
     * 2026), 37 GFLOP/s, beside OpenBLAS's 43 in float64 and 91 in float32. */
    STEPS_PER_NS = 18,

    /* of the rung `simd` */
    DEPTH = 256, /* of k at a time: a strip of b stays in the first level */
    TILE_ROWS = 192,
    TILE_COLUMNS = 512, /* of c, a task; a's part of it stays in the second level */
    LEAST_ROWS = 48,
    LEAST_COLUMNS = 128, /* where there would be too few tasks */
    TASKS_PER_THREAD = 3,
    FEW = 4,          /* rows that are taken one by one, */
    FEW_COLUMNS = 12, /* columns that are taken for rows */
    FEW_ROWS = 4,     /* with as few columns: nothing is packed for so few results */
    ALIGNMENT = 64,   /* bytes */
    BLOCK = 16,       /* items of a row at a time */
    AHEAD = 4,        /* rows of b, or blocks, that are prefetched */
};

typedef float type_float32;
typedef double type_float64;

/* c = a b, each in C order. The rung `simd` may take it for its transpose: rows and columns change
 * places. */
struct product {
    const void *a, *b;
    void *c;
    uint64_t m, n, k;
    uint64_t a_row, a_k, b_k, b_column, c_row, c_column; /* steps; items */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* patch_<type>_<rows>: so many rows of c from `row`, and at most COLUMNS columns from `column`. */
#define PATCH(type, rows)                                                                     \
    static void patch_##type##_##rows(const struct product *p, uint64_t row, uint64_t column, \
                                      uint64_t columns) {                                     \
        const type_##type *a = (const type_##type *)p->a + row * p->k;                        \
        const type_##type *b = (const type_##type *)p->b + column;                            \
        type_##type *c = (type_##type *)p->c + row * p->n + column;                           \
        double sums[rows][COLUMNS] = {{0}};                                                   \
        for (uint64_t i = 0; i < p->k; i++)                                                   \
            for (int r = 0; r < rows; r++) {                                                  \
                const double item = a[(uint64_t)r * p->k + i];                                \
                for (uint64_t j = 0; j < columns; j++)                                        \
                    sums[r][j] += item * b[i * p->n + j];                                     \
            }                                                                                 \
        for (int r = 0; r < rows; r++)                                                        \
            for (uint64_t j = 0; j < columns; j++)                                            \
                c[(uint64_t)r * p->n + j] = (type_##type)sums[r][j];                          \
    }
PATCH(float32, 1)
PATCH(float32, 4)
PATCH(float64, 1)
PATCH(float64, 4)

/* --- the rung `simd`
 *
 * A task is a tile of c. For each DEPTH of k its rows of a and columns of b are packed, as float64,
 * into strips of as many rows and columns as a patch has; a patch of sums goes through a strip of
 * each. Edges are filled up with zeros, whose sums nobody looks at.
 */

struct strips {
    uint64_t rows, columns, depth; /* of the tile, as packed: multiples of the patch's */
    double *a, *b, *sums;          /* sums: rows x columns */
};

/* A patch is ROWS_OF(bytes) rows of two vectors: with one of b and one of a, all but one or two of
 * the registers. */
#define ROWS_OF(bytes) ((bytes) == 64 ? 12 : 6)
#define COLUMNS_OF(bytes) (2 * (bytes) / 8)

/* The product of two float32 is exact in float64: fused or not, its sum is rounded once and alike.
 * That of two float64 is not, so it is never fused. */
#define STEP_float64(isa, sum, x, y) ((sum) + (x) * (y))
#define STEP_float32(isa, sum, x, y) FUSED_##isa(sum, x, y)
#define FUSED_baseline(sum, x, y) ((sum) + (x) * (y))
#define FUSED_avx2(sum, x, y) _mm256_fmadd_pd(x, y, sum)
#define FUSED_avx512(sum, x, y) _mm512_fmadd_pd(x, y, sum)

/* strips_<type>_<isa>: all patches of a tile; lines_: of patches of one row. */
#define STRIPS(isa, target, bytes, prefix, here, type, name, high)                         \
    target static void name##_##type##_##isa(const struct strips *s) {                     \
        typedef double vector __attribute__((vector_size(bytes), may_alias, aligned(8)));  \
        enum { HIGH = high, WIDE = COLUMNS_OF(bytes), LANES = bytes / 8 };                 \
        for (uint64_t column = 0; column < s->columns; column += WIDE)                     \
            for (uint64_t row = 0; row < s->rows; row += HIGH) {                           \
                const double *a = s->a + row * s->depth, *b = s->b + column * s->depth;    \
                double *c = s->sums + row * s->columns + column;                           \
                vector left[HIGH], right[HIGH];                                            \
                for (int r = 0; r < HIGH; r++) {                                           \
                    left[r] = *(vector *)(c + (uint64_t)r * s->columns);                   \
                    right[r] = *(vector *)(c + (uint64_t)r * s->columns + LANES);          \
                }                                                                          \
                for (uint64_t k = 0; k < s->depth; k++, a += HIGH, b += WIDE) {            \
                    const vector x = *(const vector *)b, y = *(const vector *)(b + LANES); \
                    for (int r = 0; r < HIGH; r++) {                                       \
                        const vector item = a[r] - (vector){0};                            \
                        left[r] = STEP_##type(isa, left[r], item, x);                      \
                        right[r] = STEP_##type(isa, right[r], item, y);                    \
                    }                                                                      \
                }                                                                          \
                for (int r = 0; r < HIGH; r++) {                                           \
                    *(vector *)(c + (uint64_t)r * s->columns) = left[r];                   \
                    *(vector *)(c + (uint64_t)r * s->columns + LANES) = right[r];          \
                }                                                                          \
            }                                                                              \
    }
#define ALL_STRIPS(isa, target, bytes, prefix, here, type)                 \
    STRIPS(isa, target, bytes, prefix, here, type, strips, ROWS_OF(bytes)) \
    STRIPS(isa, target, bytes, prefix, here, type, lines, 1)
HOST_ISAS(ALL_STRIPS, float32)
HOST_ISAS(ALL_STRIPS, float64)

static const struct patch {
    uint64_t rows, columns;
} patches[] = {
#define PATCH_OF(isa, target, bytes, prefix, here, unused) {ROWS_OF(bytes), COLUMNS_OF(bytes)},
    HOST_ISAS(PATCH_OF, unused)};

/* What lies so many bytes on, perhaps beyond the matrix. */
HOST_INLINE void prefetch(const void *from, size_t bytes) {
    __builtin_prefetch((const char *)((uintptr_t)from + bytes));
}

/* pack_<type>: `inside` rows (or columns) x depth as `lines` in strips of `unit`, item by item of
 * k: from row to row of memory where the items of one k lie side by side, else a block at a time.
 */
#define PACKS(type)                                                                                \
    HOST_INLINE void block_##type(const type_##type *in, uint64_t step, uint64_t k_step,           \
                                  uint64_t count, uint64_t depth, uint64_t unit, double *to) {     \
        for (uint64_t i = 0; i < depth; i++)                                                       \
            for (uint64_t r = 0; r < count; r++)                                                   \
                to[i * unit + r] = in[r * step + i * k_step];                                      \
    }                                                                                              \
    static void pack_##type(const void *from, uint64_t step, uint64_t k_step, uint64_t inside,     \
                            uint64_t lines, uint64_t unit, uint64_t depth, double *to) {           \
        const type_##type *const in = from;                                                        \
        if (inside < lines)                                                                        \
            memset(to + (lines - unit) * depth, 0, unit * depth * sizeof *to);                     \
        for (uint64_t k = 0; k < depth && step == 1; k++)                                          \
            for (uint64_t strip = 0; strip < inside; strip += unit) {                              \
                const uint64_t count = least(inside - strip, unit);                                \
                const type_##type *at = in + k * k_step + strip;                                   \
                double *put = to + strip * depth + k * unit;                                       \
                uint64_t r = 0;                                                                    \
                prefetch(at, AHEAD *k_step * sizeof *at);                                          \
                for (; r + 4 <= count; r += 4)                                                     \
                    block_##type(at + r, 1, 1, 4, 1, 4, put + r);                                  \
                block_##type(at + r, 1, 1, count - r, 1, unit, put + r);                           \
            }                                                                                      \
        for (uint64_t strip = 0; strip < inside && step != 1; strip += unit)                       \
            for (uint64_t k = 0; k < depth; k += BLOCK) {                                          \
                const uint64_t count = least(inside - strip, unit),                                \
                               deep = least(depth - k, BLOCK);                                     \
                const type_##type *at = in + strip * step + k * k_step;                            \
                double *put = to + strip * depth + k * unit;                                       \
                uint64_t r = 0;                                                                    \
                for (; deep == BLOCK && k_step == 1 && r + 2 <= count; r += 2) {                   \
                    prefetch(at + r * step, AHEAD * BLOCK * sizeof *at);                           \
                    prefetch(at + (r + 1) * step, AHEAD * BLOCK * sizeof *at);                     \
                    block_##type(at + r * step, step, 1, 2, BLOCK, unit, put + r);                 \
                }                                                                                  \
                block_##type(at + r * step, step, k_step, count - r, deep, unit, put + r);         \
            }                                                                                      \
    }                                                                                              \
    static void give_##type(const struct product *p, uint64_t row, uint64_t column, uint64_t rows, \
                            uint64_t columns, const struct strips *s) {                            \
        type_##type *c = (type_##type *)p->c + row * p->c_row + column * p->c_column;              \
        for (uint64_t r = 0; r < rows; r++)                                                        \
            for (uint64_t j = 0; j < columns; j++)                                                 \
                c[r * p->c_row + j * p->c_column] = (type_##type)s->sums[r * s->columns + j];      \
    }
PACKS(float32)
PACKS(float64)

/* few_<type>: so many k from `first` on, to the sums of at most FEW_ROWS x FEW_COLUMNS results. */
#define FEW_OF(type)                                                                   \
    static void few_##type(const struct product *p, uint64_t first, uint64_t depth,    \
                           double *sums) {                                             \
        const type_##type *b = (const type_##type *)p->b + first * p->n;               \
        for (uint64_t row = 0; row < p->m; row++) {                                    \
            const type_##type *a = (const type_##type *)p->a + row * p->k + first;     \
            double sum[FEW_COLUMNS];                                                   \
            memcpy(sum, sums + row * p->n, p->n * sizeof *sum);                        \
            if (p->n == 1)                                                             \
                for (uint64_t k = 0; k < depth; k++)                                   \
                    sum[0] += (double)a[k] * (double)b[k];                             \
            else                                                                       \
                for (uint64_t k = 0; k < depth; k++)                                   \
                    for (uint64_t column = 0; column < p->n; column++)                 \
                        sum[column] += (double)a[k] * (double)b[k * p->n + column];    \
            memcpy(sums + row * p->n, sum, p->n * sizeof *sum);                        \
            for (uint64_t column = 0; column < p->n; column++)                         \
                ((type_##type *)p->c)[row * p->n + column] = (type_##type)sum[column]; \
        }                                                                              \
    }
FEW_OF(float32)
FEW_OF(float64)

struct worker {
    void (*one)(const struct product *p, uint64_t row, uint64_t column, uint64_t columns);
    void (*four)(const struct product *p, uint64_t row, uint64_t column, uint64_t columns);
    size_t item_size;
    void (*strips[HOST_ISA_COUNT])(const struct strips *s);
    void (*lines[HOST_ISA_COUNT])(const struct strips *s);
    void (*pack)(const void *from, uint64_t step, uint64_t k_step, uint64_t inside, uint64_t lines,
                 uint64_t unit, uint64_t depth, double *to);
    void (*give)(const struct product *p, uint64_t row, uint64_t column, uint64_t rows,
                 uint64_t columns, const struct strips *s);
    void (*few)(const struct product *p, uint64_t first, uint64_t depth, double *sums);
};

static struct product product_of(void **arguments) {
    struct product p = {
        .a = (const void *)(uintptr_t) * (const device_address *)arguments[0],
        .b = (const void *)(uintptr_t) * (const device_address *)arguments[1],
        .c = (void *)(uintptr_t) * (const device_address *)arguments[2],
        .m = *(const uint64_t *)arguments[3],
        .n = *(const uint64_t *)arguments[4],
        .k = *(const uint64_t *)arguments[5],
        .a_k = 1,
        .b_column = 1,
        .c_column = 1,
    };
    p.a_row = p.k;
    p.b_k = p.c_row = p.n;
    return p;
}

/* The transpose of c = the transposes of b and a: the same products, added up in the same order. */
static struct product transposed(const struct product *p) {
    return (struct product){.a = p->b,
                            .b = p->a,
                            .c = p->c,
                            .m = p->n,
                            .n = p->m,
                            .k = p->k,
                            .a_row = p->b_column,
                            .a_k = p->b_k,
                            .b_k = p->a_k,
                            .b_column = p->a_row,
                            .c_row = p->c_column,
                            .c_column = p->c_row};
}

static int threads_for(const struct product *p) {
    const double steps = (double)p->m * (double)p->n * (double)p->k;
    return host_team_threads(steps / STEPS_PER_NS);
}

struct tiles {
    struct product product;
    const struct worker *worker;
    struct patch patch;
    uint64_t rows, columns, across; /* of a tile of c; tiles beside each other */
    uint64_t room;                  /* doubles of a thread's strips and sums */
    double *memory;
};

static uint64_t rounded(uint64_t items, uint64_t unit) { return (items + unit - 1) / unit * unit; }

static void tile_task(const void *state, uint64_t tile, struct host_worker *worker) {
    const struct tiles *t = state;
    const struct product *p = &t->product;
    const struct patch patch = t->patch;
    const struct worker *const functions = t->worker;
    const uint64_t row = tile / t->across * t->rows, column = tile % t->across * t->columns;
    const uint64_t rows = least(t->rows, p->m - row), columns = least(t->columns, p->n - column);
    struct strips s = {.rows = rounded(rows, patch.rows),
                       .columns = rounded(columns, patch.columns)};
    s.sums = t->memory + (uint64_t)worker->number * t->room;
    s.a = s.sums + s.rows * s.columns;
    s.b = s.a + s.rows * least(DEPTH, p->k);
    memset(s.sums, 0, s.rows * s.columns * sizeof *s.sums);
    for (uint64_t k = 0; k < p->k && host_team_goes_on(worker); k += DEPTH) {
        s.depth = least(DEPTH, p->k - k);
        functions->pack((const char *)p->a + (row * p->a_row + k * p->a_k) * functions->item_size,
                        p->a_row, p->a_k, rows, s.rows, patch.rows, s.depth, s.a);
        functions->pack((const char *)p->b +
                            (k * p->b_k + column * p->b_column) * functions->item_size,
                        p->b_column, p->b_k, columns, s.columns, patch.columns, s.depth, s.b);
        (patch.rows == 1 ? functions->lines : functions->strips)[host_isa()](&s);
    }
    functions->give(p, row, column, rows, columns, &s);
}

static enum status few(struct device *device, const struct worker *worker,
                       const struct product *p) {
    const uint64_t deep = POLL_STEPS / (FEW_ROWS * FEW_COLUMNS);
    double sums[FEW_ROWS * FEW_COLUMNS] = {0};
    uint64_t k = 0;
    enum status status;
    do { /* once at least: of no k, zeros */
        worker->few(p, k, least(p->k - k, deep), sums);
        status = device_poll(device);
        k += deep;
    } while (k < p->k && !status);
    return status;
}

static enum status simd_by(struct device *device, const struct worker *worker,
                           const struct product *asked, int threads) {
    if (asked->m <= FEW_ROWS && asked->n <= FEW_COLUMNS)
        return few(device, worker, asked);
    struct tiles t = {
        .product = *asked, .worker = worker, .rows = TILE_ROWS, .columns = TILE_COLUMNS};
    const struct product *p = &t.product;
    struct patch patch = patches[host_isa()];
    if (p->n < p->m && p->n <= FEW_COLUMNS)
        t.product = transposed(p);
    if (p->m < FEW)
        patch.rows = 1;
    t.patch = patch;
    const uint64_t wanted = threads == 1 ? 1 : TASKS_PER_THREAD * (uint64_t)threads;
    uint64_t count;
    for (;;) {
        t.across = (p->n - 1) / t.columns + 1;
        count = t.across * ((p->m - 1) / t.rows + 1);
        if (count >= wanted || (t.rows == LEAST_ROWS && t.columns == LEAST_COLUMNS))
            break;
        if (t.columns > LEAST_COLUMNS)
            t.columns /= 2;
        else
            t.rows /= 2;
    }
    const uint64_t rows = rounded(least(t.rows, p->m), patch.rows);
    const uint64_t columns = rounded(least(t.columns, p->n), patch.columns);
    t.room = rounded(rows * columns + (rows + columns) * least(DEPTH, p->k), ALIGNMENT);
    const uint64_t bytes = (uint64_t)threads * t.room * sizeof *t.memory;
    t.memory = aligned_alloc(ALIGNMENT, bytes);
    if (!t.memory)
        return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for %llu bytes of packed items",
                           (unsigned long long)bytes);
    const enum status status = host_team_run(device, threads, count, tile_task, &t);
    free(t.memory);
    return status;
}

static enum status host_matmul_simd(struct device *device, const struct host_kernel *kernel,
                                    void **arguments) {
    const struct product p = product_of(arguments);
    return simd_by(device, kernel->data, &p, threads_for(&p));
}

/* Arguments as the kernels of matmul.cu: a, b, c, m, n, k. */
static enum status host_matmul(struct device *device, const struct host_kernel *kernel,
                               void **arguments) {
    const struct worker *worker = kernel->data;
    const struct product p = product_of(arguments);
    const uint64_t rows = kernel->parallel ? ROWS : 1;
    const uint64_t width = least(COLUMNS, POLL_STEPS / (rows * (p.k + 1)) + 1);
    const uint64_t across = (p.n - 1) / width + 1, patches = ((p.m - 1) / rows + 1) * across;
    const int threads = kernel->parallel ? threads_for(&p) : 1;
    if (p.k > POLL_STEPS) /* polls within a result */
        return simd_by(device, worker, &p, threads);
    const uint64_t turn = (uint64_t)threads * (POLL_STEPS / (rows * width * (p.k + 1)) + 1);
    for (uint64_t begin = 0; begin < patches; begin += turn) {
        const uint64_t end = least(begin + turn, patches);
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t patch = begin; patch < end; patch++) {
            const uint64_t row = patch / across * rows, column = patch % across * width;
            const uint64_t columns = least(width, p.n - column);
            if (rows == ROWS && p.m - row >= ROWS)
                worker->four(&p, row, column, columns);
            else
                for (uint64_t each = row; each < least(row + rows, p.m); each++)
                    worker->one(&p, each, column, columns);
        }
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

#define STRIPS_NAME(isa, target, bytes, prefix, here, type) strips_##type##_##isa,
#define LINES_NAME(isa, target, bytes, prefix, here, type) lines_##type##_##isa,
#define WORKER(type)                                                            \
    static const struct worker worker_##type = {patch_##type##_1,               \
                                                patch_##type##_4,               \
                                                sizeof(type_##type),            \
                                                {HOST_ISAS(STRIPS_NAME, type)}, \
                                                {HOST_ISAS(LINES_NAME, type)},  \
                                                pack_##type,                    \
                                                give_##type,                    \
                                                few_##type};
WORKER(float32)
WORKER(float64)

#define KERNEL_ROWS(type)                                                                  \
    {"host_matmul_serial_matmul_" #type "_" #type, host_matmul, &worker_##type, false},    \
        {"host_matmul_openmp_matmul_" #type "_" #type, host_matmul, &worker_##type, true}, \
        {"host_matmul_simd_matmul_" #type "_" #type, host_matmul_simd, &worker_##type, true},

const struct host_kernel host_matmul_kernels[] = {KERNEL_ROWS(float32) KERNEL_ROWS(float64)};
const size_t host_matmul_kernel_count = sizeof host_matmul_kernels / sizeof *host_matmul_kernels;

#endif
