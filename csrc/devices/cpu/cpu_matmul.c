/* cpu_matmul.c: the matrix product on the CPU, rungs `serial`, `openmp` and `simd`. Its signatures
 * are those of matmul.cu. All rungs add in float64 and in one order, which depends only on the
 * shapes: they return the same bits for every instruction set and number of threads. Knows no
 * Python.
 *
 * The order: k is divided into spans of SPAN and those into slices of DEPTH. A slice's products are
 * added from first to last, then a span's slices, then the spans. If b has a single column, a
 * span's products are added in LANES instead, whose upper half is added to the lower until one is
 * left. With u = 2^-53 the error of an element of c is at most
 * (min(k, DEPTH + SPAN / DEPTH + k / SPAN) + 2) * u * sum(|a| * |b|), plus the rounding to float32
 * for float32.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_matmul_serial",
     "three nested loops, the inner one along the rows of b and c",
     "after D2, which has no CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_matmul_openmp",
     "four rows at a time for each word of b, split over all cores",
     "after D2, which has no CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "cpu_matmul_simd",
     "a block of c stays in vector registers; a and b are packed in the order of their use",
     "beyond the decks: K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication",
     0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../float_state.h"
#include "../../int_math.h"
#include "cpu_isa.h"
#include "cpu_kernels.h"
#include "cpu_team.h"

#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    ROWS = 4,             /* of c at a time, openmp */
    COLUMNS = 512,        /* of c at a time: its sums fit the first-level cache */
    POLL_STEPS = 1 << 25, /* multiplications between two polls, a thread */
    DEPTH = 256,          /* of k, a slice: a strip of b fits the first level */
    SPAN = 32 * DEPTH,    /* of k: threads share the spans of few results */
    LANES = 32,           /* of a single column: eight vectors of AVX2 hide an addition's latency */
    /* Estimated multiplications of one thread (TUNING.md C2). */
    STEPS_PER_NS = 18,
    STEPS_PER_NS_READ = 4, /* if each element of a matrix is read once */

    /* of the rung `simd` */
    TILE_ROWS = 192,
    TILE_COLUMNS = 512, /* of c, a task; its part of a fits the second level */
    LEAST_ROWS = 48,
    LEAST_COLUMNS = 128, /* if there would be too few tasks */
    TASKS_PER_THREAD = 3,
    FEW = 4,          /* rows processed one by one, */
    FEW_COLUMNS = 12, /* columns processed as rows */
    FEW_RESULTS = 16, /* rows, and as few columns: a is read in place */
    FEW_WIDE = 8,     /* of those columns at a time */
    ALIGNMENT = 64,   /* bytes */
    BLOCK = 16,       /* elements of a row at a time */
    UNITS = 1 << 16,  /* multiplications of a task, with a single column */
    AHEAD = 4,        /* rows of b, or blocks, that are prefetched */
};

typedef float type_float32;
typedef double type_float64;

/* c = a b, each in C order. The rung `simd` may compute the transpose instead: rows and columns are
 * exchanged. */
struct product {
    const void *a, *b;
    void *c;
    uint64_t m, n, k;
    uint64_t a_row, a_k, b_k, b_column, c_row, c_column; /* steps, in elements */
};

CPU_INLINE void add_to(double *restrict sums, const double *restrict more, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        sums[i] += more[i];
}

/* patch_<type>_<rows>: `rows` rows of c from `row`, and at most COLUMNS columns from `column`. */
#define PATCH(type, rows)                                                                     \
    static void patch_##type##_##rows(const struct product *p, uint64_t row, uint64_t column, \
                                      uint64_t columns) {                                     \
        const type_##type *a = (const type_##type *)p->a + row * p->k;                        \
        const type_##type *b = (const type_##type *)p->b + column;                            \
        type_##type *c = (type_##type *)p->c + row * p->n + column;                           \
        double sums[rows][COLUMNS] = {{0}}, span[rows][COLUMNS], slice[rows][COLUMNS];        \
        for (uint64_t first = 0, end; first < p->k; first = end) {                            \
            end = min_u64(first + DEPTH, p->k);                                               \
            for (int r = 0; r < rows; r++)                                                    \
                memset(slice[r], 0, columns * sizeof **slice);                                \
            for (uint64_t i = first; i < end; i++)                                            \
                for (int r = 0; r < rows; r++) {                                              \
                    const double item = a[(uint64_t)r * p->k + i];                            \
                    for (uint64_t j = 0; j < columns; j++)                                    \
                        slice[r][j] += item * b[i * p->n + j];                                \
                }                                                                             \
            for (int r = 0; r < rows; r++) {                                                  \
                if (first % SPAN == 0)                                                        \
                    memset(span[r], 0, columns * sizeof **span);                              \
                add_to(span[r], slice[r], columns);                                           \
                if (end % SPAN == 0 || end == p->k)                                           \
                    add_to(sums[r], span[r], columns);                                        \
            }                                                                                 \
        }                                                                                     \
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
 * into strips with the rows and columns of a patch; a patch of sums is computed from a strip of
 * each. Edges are padded with zeros, whose sums are ignored.
 */

struct strips {
    uint64_t rows, columns, depth; /* of the tile, as packed: multiples of the patch's */
    double *a, *b, *sums;          /* sums: rows x columns */
};

/* A patch is ROWS_OF(bytes) rows of two vectors: with one of b and one of a, all but one or two of
 * the registers. */
#define ROWS_OF(bytes) ((bytes) == 64 ? 12 : 6)
#define COLUMNS_OF(bytes) (2 * (bytes) / 8)

/* The product of two float32 is exact in float64: fused or not, its sum is rounded once. The
 * product of two float64 is not exact, so it is never fused. */
#define STEP_float64(isa, sum, x, y) ((sum) + (x) * (y))
#define STEP_float32(isa, sum, x, y) FUSED_##isa(sum, x, y)
#define FUSED_baseline(sum, x, y) ((sum) + (x) * (y))
#define FUSED_avx2(sum, x, y) _mm256_fmadd_pd(x, y, sum)
#define FUSED_avx512(sum, x, y) _mm512_fmadd_pd(x, y, sum)

/* WIDENED_<type>: elements of a vector of float64. gcc splits a wider vector. */
#define WIDENED_float64(isa, at) (*(const vector *)(at))
#define WIDENED_float32(isa, at) FLOATS_##isa(at)
#define FLOATS_baseline(at) ((vector){(at)[0], (at)[1]})
#define FLOATS_avx2(at) _mm256_cvtps_pd(_mm_loadu_ps(at))
#define FLOATS_avx512(at) _mm512_cvtps_pd(_mm256_loadu_ps(at))

/* strips_<type>_<isa>: all patches of a tile; lines_: of patches of one row. */
#define STRIPS(isa, target, bytes, prefix, here, type, name, high)                        \
    target static void name##_##type##_##isa(const struct strips *s) {                    \
        typedef double vector __attribute__((vector_size(bytes), may_alias, aligned(8))); \
        enum { HIGH = high, WIDE = COLUMNS_OF(bytes), HALF = bytes / 8 };                 \
        for (uint64_t column = 0; column < s->columns; column += WIDE)                    \
            for (uint64_t row = 0; row < s->rows; row += HIGH) {                          \
                const double *a = s->a + row * s->depth, *b = s->b + column * s->depth;   \
                double *c = s->sums + row * s->columns + column;                          \
                vector left[HIGH], right[HIGH];                                           \
                for (int r = 0; r < HIGH; r++)                                            \
                    left[r] = right[r] = (vector){0};                                     \
                for (uint64_t k = 0; k < s->depth; k++, a += HIGH, b += WIDE) {           \
                    const vector x = *(const vector *)b, y = *(const vector *)(b + HALF); \
                    for (int r = 0; r < HIGH; r++) {                                      \
                        const vector item = a[r] - (vector){0};                           \
                        left[r] = STEP_##type(isa, left[r], item, x);                     \
                        right[r] = STEP_##type(isa, right[r], item, y);                   \
                    }                                                                     \
                }                                                                         \
                for (int r = 0; r < HIGH; r++) {                                          \
                    *(vector *)(c + (uint64_t)r * s->columns) += left[r];                 \
                    *(vector *)(c + (uint64_t)r * s->columns + HALF) += right[r];         \
                }                                                                         \
            }                                                                             \
    }
#define ALL_STRIPS(isa, target, bytes, prefix, here, type)                 \
    STRIPS(isa, target, bytes, prefix, here, type, strips, ROWS_OF(bytes)) \
    STRIPS(isa, target, bytes, prefix, here, type, lines, 1)
CPU_ISAS(ALL_STRIPS, float32)
CPU_ISAS(ALL_STRIPS, float64)

static const struct patch {
    uint64_t rows, columns;
} patches[] = {
#define PATCH_OF(isa, target, bytes, prefix, here, unused) {ROWS_OF(bytes), COLUMNS_OF(bytes)},
    CPU_ISAS(PATCH_OF, unused)};

/* Prefetches the address `bytes` further on, perhaps past the matrix. */
CPU_INLINE void prefetch(const void *from, size_t bytes) {
    __builtin_prefetch((const char *)((uintptr_t)from + bytes));
}

/* pack_<type>: `inside` rows (or columns) x depth as `lines` in strips of `unit`, element by
 * element of k: row by row of memory if the elements of one k are contiguous, else a block at a
 * time.
 */
#define PACKS(type)                                                                                \
    CPU_INLINE void block_##type(const type_##type *in, uint64_t step, uint64_t k_step,            \
                                 uint64_t count, uint64_t depth, uint64_t unit, double *to) {      \
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
                const uint64_t count = min_u64(inside - strip, unit);                              \
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
                const uint64_t count = min_u64(inside - strip, unit),                              \
                               deep = min_u64(depth - k, BLOCK);                                   \
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

/* few_<type>_<isa>: the sums of a span, from `first` on, of at most FEW_RESULTS x FEW_RESULTS. It
 * processes enough rows at a time for eight sums of a vector each; if rows are missing, the last is
 * repeated.
 */
#define FEW_OF(isa, target, bytes, prefix, here, type)                                           \
    target static void few_##type##_##isa(const struct product *p, uint64_t first, uint64_t end, \
                                          double *sums) {                                        \
        typedef double vector __attribute__((vector_size(bytes), may_alias, aligned(8)));        \
        enum { WIDE = bytes / 8, HIGH = WIDE, ACROSS = FEW_WIDE / WIDE };                        \
        const type_##type *a = p->a, *b = p->b;                                                  \
        double packed[DEPTH][FEW_WIDE] = {{0}};                                                  \
        memset(sums, 0, p->m * p->n * sizeof *sums);                                             \
        for (uint64_t k = first, depth; k < end; k += depth) {                                   \
            depth = min_u64(DEPTH, end - k);                                                     \
            for (uint64_t column = 0; column < p->n; column += FEW_WIDE) {                       \
                const uint64_t columns = min_u64(FEW_WIDE, p->n - column);                       \
                for (uint64_t i = 0; i < depth; i++)                                             \
                    for (uint64_t j = 0; j < columns; j++)                                       \
                        packed[i][j] = b[(k + i) * p->n + column + j];                           \
                for (uint64_t row = 0; row < p->m; row += HIGH) {                                \
                    const type_##type *rows[HIGH];                                               \
                    vector slice[HIGH][ACROSS];                                                  \
                    for (uint64_t r = 0; r < HIGH; r++) {                                        \
                        rows[r] = a + min_u64(row + r, p->m - 1) * p->k + k;                     \
                        for (int v = 0; v < ACROSS; v++)                                         \
                            slice[r][v] = (vector){0};                                           \
                    }                                                                            \
                    for (uint64_t i = 0; i < depth; i++)                                         \
                        for (int r = 0; r < HIGH; r++) {                                         \
                            const vector item = (double)rows[r][i] - (vector){0};                \
                            for (int v = 0; v < ACROSS; v++) {                                   \
                                const vector x = *(const vector *)&packed[i][v * WIDE];          \
                                slice[r][v] = STEP_##type(isa, slice[r][v], item, x);            \
                            }                                                                    \
                        }                                                                        \
                    for (uint64_t r = 0; r < HIGH && row + r < p->m; r++)                        \
                        add_to(sums + (row + r) * p->n + column, (const double *)slice[r],       \
                               columns);                                                         \
                }                                                                                \
            }                                                                                    \
        }                                                                                        \
    }
CPU_ISAS(FEW_OF, float32)
CPU_ISAS(FEW_OF, float64)

/* join_<type>: adds up the sums of the spans in place, and stores the results. */
#define JOIN(type)                                                                       \
    static void join_##type(void *c_, double *spans, uint64_t count, uint64_t results) { \
        type_##type *c = c_;                                                             \
        for (uint64_t span = 1; span < count; span++)                                    \
            add_to(spans, spans + span * results, results);                              \
        for (uint64_t i = 0; i < results; i++)                                           \
            c[i] = (type_##type)spans[i];                                                \
    }
JOIN(float32)
JOIN(float64)

/* dot_<type>_<isa>: a span of a row of a, times a single column of b. */
#define DOT(isa, target, bytes, prefix, here, type)                                           \
    target static double dot_##type##_##isa(const void *a_, const void *b_, uint64_t depth) { \
        enum { WIDE = bytes / 8, VECTORS = LANES / WIDE };                                    \
        typedef double vector __attribute__((vector_size(bytes), may_alias, aligned(8)));     \
        const type_##type *a = a_, *b = b_;                                                   \
        double lanes[LANES];                                                                  \
        uint64_t k = 0, most = min_u64(depth, LANES);                                         \
        vector sums[VECTORS];                                                                 \
        for (int v = 0; v < VECTORS; v++)                                                     \
            sums[v] = (vector){0};                                                            \
        for (; k + LANES <= depth; k += LANES)                                                \
            for (uint64_t v = 0; v < VECTORS; v++) {                                          \
                const vector x = WIDENED_##type(isa, a + k + v * WIDE);                       \
                const vector y = WIDENED_##type(isa, b + k + v * WIDE);                       \
                sums[v] = STEP_##type(isa, sums[v], x, y);                                    \
            }                                                                                 \
        memcpy(lanes, sums, sizeof lanes);                                                    \
        for (uint64_t lane = 0; k < depth; k++, lane++)                                       \
            lanes[lane] += (double)a[k] * (double)b[k];                                       \
        for (uint64_t half = LANES / 2; half; half /= 2) /* lanes from `most` on are zeros */ \
            for (uint64_t lane = 0; lane < half && lane + half < most; lane++)                \
                lanes[lane] += lanes[lane + half];                                            \
        return lanes[0];                                                                      \
    }
CPU_ISAS(DOT, float32)
CPU_ISAS(DOT, float64)

/* sweep_<type>_<isa>: a slice of a row of a, times at most TILE_COLUMNS columns of b in place. */
#define SWEEP(isa, target, bytes, prefix, here, type)                                         \
    target static void sweep_##type##_##isa(const void *a_, const void *b_, uint64_t b_k,     \
                                            uint64_t depth, uint64_t columns, double *sums) { \
        const type_##type *a = a_, *b = b_;                                                   \
        double slice[TILE_COLUMNS];                                                           \
        uint64_t k = 0;                                                                       \
        memset(slice, 0, columns * sizeof *slice);                                            \
        for (; k + 4 <= depth; k += 4, b += 4 * b_k) {                                        \
            const double x = a[k], y = a[k + 1], z = a[k + 2], w = a[k + 3];                  \
            for (uint64_t j = 0; j < columns; j++) {                                          \
                double sum = slice[j] + x * b[j];                                             \
                sum += y * b[b_k + j];                                                        \
                sum += z * b[2 * b_k + j];                                                    \
                slice[j] = sum + w * b[3 * b_k + j];                                          \
            }                                                                                 \
        }                                                                                     \
        for (; k < depth; k++, b += b_k)                                                      \
            for (uint64_t j = 0; j < columns; j++)                                            \
                slice[j] += (double)a[k] * b[j];                                              \
        add_to(sums, slice, columns);                                                         \
    }
CPU_ISAS(SWEEP, float32)
CPU_ISAS(SWEEP, float64)

struct product_loops {
    void (*one)(const struct product *p, uint64_t row, uint64_t column, uint64_t columns);
    void (*four)(const struct product *p, uint64_t row, uint64_t column, uint64_t columns);
    size_t item_size;
    void (*strips[CPU_ISA_COUNT])(const struct strips *s);
    void (*lines[CPU_ISA_COUNT])(const struct strips *s);
    void (*pack)(const void *from, uint64_t step, uint64_t k_step, uint64_t inside, uint64_t lines,
                 uint64_t unit, uint64_t depth, double *to);
    void (*give)(const struct product *p, uint64_t row, uint64_t column, uint64_t rows,
                 uint64_t columns, const struct strips *s);
    void (*few[CPU_ISA_COUNT])(const struct product *p, uint64_t first, uint64_t end, double *sums);
    void (*join)(void *c, double *spans, uint64_t count, uint64_t results);
    double (*dot[CPU_ISA_COUNT])(const void *a, const void *b, uint64_t depth);
    void (*sweep[CPU_ISA_COUNT])(const void *a, const void *b, uint64_t b_k, uint64_t depth,
                                 uint64_t columns, double *sums);
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

/* The transpose of c = the transposes of b and a: the same products, added in the same order. */
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
    return cpu_team_threads(steps / (p->m > 1 && p->n > 1 ? STEPS_PER_NS : STEPS_PER_NS_READ));
}

static uint64_t spans_of(const struct product *p) { return p->k ? (p->k - 1) / SPAN + 1 : 1; }

static const void *item_at(const struct product_loops *loops, const void *items, uint64_t index) {
    return (const char *)items + index * loops->item_size;
}

struct tiles {
    struct product product;
    const struct product_loops *loops;
    struct patch patch;
    enum cpu_isa isa;
    uint64_t rows, columns, across; /* of a tile of c; tiles side by side */
    uint64_t units;                 /* of a task: spans of single columns */
    uint64_t spans;
    uint64_t room;  /* doubles of a thread's strips and sums */
    double *memory; /* of the threads */
    double
        *partials; /* sums of each span for all results; NULL where a task adds its spans itself */
};

/* Adds a slice's products to the sums of a tile. */
static void add_slice(const struct tiles *t, uint64_t row, uint64_t column, uint64_t rows,
                      uint64_t columns, uint64_t k, struct strips *s) {
    const struct product *p = &t->product;
    const struct product_loops *const functions = t->loops;
    const struct patch patch = t->patch;
    const void *a = item_at(functions, p->a, row * p->a_row + k * p->a_k);
    const void *b = item_at(functions, p->b, k * p->b_k + column * p->b_column);
    if (patch.rows == 1 && p->b_column == 1) {
        for (uint64_t r = 0; r < rows; r++)
            functions->sweep[t->isa](item_at(functions, a, r * p->a_row), b, p->b_k, s->depth,
                                     columns, s->sums + r * s->columns);
        return;
    }
    functions->pack(a, p->a_row, p->a_k, rows, s->rows, patch.rows, s->depth, s->a);
    functions->pack(b, p->b_column, p->b_k, columns, s->columns, patch.columns, s->depth, s->b);
    (patch.rows == 1 ? functions->lines : functions->strips)[t->isa](s);
}

/* A tile, or a span of it. */
static void tile_task(const void *state, uint64_t index, struct cpu_worker *worker) {
    const struct tiles *t = state;
    const struct product *p = &t->product;
    const uint64_t tile = t->partials ? index / t->spans : index;
    const uint64_t row = tile / t->across * t->rows, column = tile % t->across * t->columns;
    const uint64_t rows = min_u64(t->rows, p->m - row),
                   columns = min_u64(t->columns, p->n - column);
    const uint64_t begin = t->partials ? index % t->spans * SPAN : 0;
    const uint64_t end = t->partials ? min_u64(begin + SPAN, p->k) : p->k;
    struct strips s = {.rows = round_up(rows, t->patch.rows),
                       .columns = round_up(columns, t->patch.columns)};
    const uint64_t count = s.rows * s.columns;
    double *const spans = t->memory + (uint64_t)worker->number * t->room;
    s.sums = t->spans > 1 ? spans + count : spans;
    s.a = s.sums + count;
    s.b = s.a + s.rows * min_u64(DEPTH, p->k);
    memset(spans, 0, (size_t)(s.a - spans) * sizeof *spans);
    for (uint64_t k = begin; k < end && cpu_team_goes_on(worker); k += DEPTH) {
        s.depth = min_u64(DEPTH, end - k);
        add_slice(t, row, column, rows, columns, k, &s);
        if (t->spans > 1 && ((k + s.depth) % SPAN == 0 || k + s.depth == end)) {
            add_to(spans, s.sums, count);
            memset(s.sums, 0, count * sizeof *s.sums);
        }
    }
    s.sums = spans;
    if (t->partials) {
        struct product partial = *p;
        partial.c = t->partials + index % t->spans * p->m * p->n;
        give_float64(&partial, row, column, rows, columns, &s);
    } else {
        t->loops->give(p, row, column, rows, columns, &s);
    }
}

static void few_task(const void *state, uint64_t span, struct cpu_worker *worker) {
    const struct tiles *t = state;
    const struct product *p = &t->product;
    (void)worker;
    t->loops->few[t->isa](p, span * SPAN, min_u64((span + 1) * SPAN, p->k),
                          t->partials + span * p->m * p->n);
}

static void column_task(const void *state, uint64_t index, struct cpu_worker *worker) {
    const struct tiles *t = state;
    const struct product *p = &t->product;
    const uint64_t end = min_u64((index + 1) * t->units, p->m * t->spans);
    (void)worker;
    for (uint64_t unit = index * t->units; unit < end; unit++) {
        const uint64_t row = unit / t->spans, span = unit % t->spans, k = span * SPAN;
        t->partials[span * p->m + row] =
            t->loops->dot[t->isa](item_at(t->loops, p->a, row * p->k + k),
                                  item_at(t->loops, p->b, k), min_u64(SPAN, p->k - k));
    }
}

/* Runs tasks that make sums of one or several spans, then adds up those of each result. */
static enum status run_spans(struct device *device, int threads, uint64_t count, cpu_task *task,
                             struct tiles *t) {
    const uint64_t results = t->product.m * t->product.n;
    const uint64_t bytes = t->spans * results * sizeof *t->partials;
    t->partials = malloc(bytes);
    if (!t->partials)
        return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for %llu bytes of sums",
                           (unsigned long long)bytes);
    const enum status status = cpu_team_run(device, threads, count, task, t);
    if (!status)
        t->loops->join(t->product.c, t->partials, t->spans, results);
    free(t->partials);
    return status;
}

/* b has a single column. */
static enum status column_by(struct device *device, const struct product_loops *loops,
                             const struct product *asked, int threads, enum cpu_isa isa) {
    struct tiles t = {.product = *asked, .loops = loops, .isa = isa, .spans = spans_of(asked)};
    t.units = UNITS / (min_u64(asked->k, SPAN) + 1) + 1;
    return run_spans(device, threads, (asked->m * t.spans - 1) / t.units + 1, column_task, &t);
}

static enum status simd_by(struct device *device, const struct product_loops *loops,
                           const struct product *asked, int threads) {
    struct tiles t = {.product = *asked,
                      .loops = loops,
                      .patch = patches[cpu_isa()],
                      .isa = cpu_isa(),
                      .rows = TILE_ROWS,
                      .columns = TILE_COLUMNS,
                      .spans = spans_of(asked)};
    const struct product *p = &t.product;
    if (p->m >= FEW && p->m <= FEW_RESULTS && p->n <= FEW_RESULTS)
        return run_spans(device, threads, t.spans, few_task, &t);
    if (p->m >= FEW && p->n < p->m && p->n <= FEW_COLUMNS)
        t.product = transposed(p);
    if (p->m < FEW)
        t.patch.rows = 1;
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
    const uint64_t rows = round_up(min_u64(t.rows, p->m), t.patch.rows);
    const uint64_t columns = round_up(min_u64(t.columns, p->n), t.patch.columns);
    const uint64_t sums = (t.spans > 1 ? 2 : 1) * rows * columns;
    t.room = round_up(sums + (rows + columns) * min_u64(DEPTH, p->k), ALIGNMENT);
    const uint64_t bytes = (uint64_t)threads * t.room * sizeof *t.memory;
    t.memory = aligned_alloc(ALIGNMENT, bytes);
    if (!t.memory)
        return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for %llu bytes of packed items",
                           (unsigned long long)bytes);
    const enum status status = count < wanted && t.spans > 1
                                   ? run_spans(device, threads, count * t.spans, tile_task, &t)
                                   : cpu_team_run(device, threads, count, tile_task, &t);
    free(t.memory);
    return status;
}

static enum status cpu_matmul_simd(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
    const struct product p = product_of(arguments);
    if (p.n == 1)
        return column_by(device, kernel->data, &p, threads_for(&p), cpu_isa());
    return simd_by(device, kernel->data, &p, threads_for(&p));
}

/* Arguments as in the kernels of matmul.cu: a, b, c, m, n, k. */
static enum status cpu_matmul(struct device *device, const struct cpu_kernel *kernel,
                              void **arguments) {
    const struct product_loops *loops = kernel->data;
    const struct product p = product_of(arguments);
    const uint64_t rows = kernel->parallel ? ROWS : 1;
    const uint64_t width = min_u64(COLUMNS, POLL_STEPS / (rows * (p.k + 1)) + 1);
    const uint64_t across = (p.n - 1) / width + 1, patches = ((p.m - 1) / rows + 1) * across;
    const int threads = kernel->parallel ? threads_for(&p) : 1;
    if (p.n == 1)
        return column_by(device, loops, &p, threads, CPU_ISA_baseline);
    if (p.k > POLL_STEPS) /* polls within a result */
        return simd_by(device, loops, &p, threads);
    const uint64_t turn = (uint64_t)threads * (POLL_STEPS / (rows * width * (p.k + 1)) + 1);
    for (uint64_t begin = 0; begin < patches; begin += turn) {
        const uint64_t end = min_u64(begin + turn, patches);
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t patch = begin; patch < end; patch++) {
            const float_state before = float_state_enter();
            const uint64_t row = patch / across * rows, column = patch % across * width;
            const uint64_t columns = min_u64(width, p.n - column);
            if (rows == ROWS && p.m - row >= ROWS)
                loops->four(&p, row, column, columns);
            else
                for (uint64_t each = row; each < min_u64(row + rows, p.m); each++)
                    loops->one(&p, each, column, columns);
            float_state_leave(before);
        }
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

#define STRIPS_NAME(isa, target, bytes, prefix, here, type) strips_##type##_##isa,
#define LINES_NAME(isa, target, bytes, prefix, here, type) lines_##type##_##isa,
#define FEW_NAME(isa, target, bytes, prefix, here, type) few_##type##_##isa,
#define DOT_NAME(isa, target, bytes, prefix, here, type) dot_##type##_##isa,
#define SWEEP_NAME(isa, target, bytes, prefix, here, type) sweep_##type##_##isa,
#define WORKER(type)                                                                  \
    static const struct product_loops worker_##type = {patch_##type##_1,              \
                                                       patch_##type##_4,              \
                                                       sizeof(type_##type),           \
                                                       {CPU_ISAS(STRIPS_NAME, type)}, \
                                                       {CPU_ISAS(LINES_NAME, type)},  \
                                                       pack_##type,                   \
                                                       give_##type,                   \
                                                       {CPU_ISAS(FEW_NAME, type)},    \
                                                       join_##type,                   \
                                                       {CPU_ISAS(DOT_NAME, type)},    \
                                                       {CPU_ISAS(SWEEP_NAME, type)}};
WORKER(float32)
WORKER(float64)

#define KERNEL_ROWS(type)                                                                \
    {"cpu_matmul_serial_matmul_" #type "_" #type, cpu_matmul, &worker_##type, false},    \
        {"cpu_matmul_openmp_matmul_" #type "_" #type, cpu_matmul, &worker_##type, true}, \
        {"cpu_matmul_simd_matmul_" #type "_" #type, cpu_matmul_simd, &worker_##type, true},

const struct cpu_kernel cpu_matmul_kernels[] = {KERNEL_ROWS(float32) KERNEL_ROWS(float64)};
const size_t cpu_matmul_kernel_count = sizeof cpu_matmul_kernels / sizeof *cpu_matmul_kernels;

#endif
