/* cpu_stencil1d.c: the one-dimensional stencil on the CPU, rungs `serial`, `openmp` and `simd`.
 * Knows no Python.
 *
 * Each output adds its own inputs from left to right, float32 in float64: every rung, instruction
 * set and number of threads returns the same bits.
 */

/* (operation, elements, accumulator): those of stencil1d.cu that lose nothing. */
/* clang-format off */
#define CPU_STENCIL1D_TYPES(SIGNATURE, op)                                                        \
    SIGNATURE(op, int32, int32)     SIGNATURE(op, int64, int64)                                    \
    SIGNATURE(op, int32, float64)   SIGNATURE(op, int64, float64)                                  \
    SIGNATURE(op, float32, float64) SIGNATURE(op, float64, float64)
/* clang-format on */
#define CPU_STENCIL1D_SIGNATURES(SIGNATURE) \
    CPU_STENCIL1D_TYPES(SIGNATURE, sum)     \
    CPU_STENCIL1D_TYPES(SIGNATURE, weighted)

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_stencil1d_serial",
     "one thread, vectorized: the k-th inputs of many outputs at a time",
     "D1 stencil, on a CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_stencil1d_openmp",
     "the same, with the outputs split over all cores",
     "D1 cpu+omp, for a stencil", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "cpu_stencil1d_simd",
     "the sums of many outputs stay in vector registers; each input is loaded once for all of them",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../host/host_stream.h"
#include "../../float_state.h"
#include "cpu_isa.h"
#include "cpu_kernels.h"
#include "cpu_machine.h"
#include "cpu_team.h"

#include <string.h>

enum {
    GROUP = 512,              /* outputs at a time: their sums fit the first-level cache */
    POLL_ADDITIONS = 1 << 24, /* between two polls, a thread */
    ADDITIONS_PER_NS = 8,     /* of one thread, estimated */

    /* of the rung `simd` */
    TAPS = 512,               /* inputs of a window at a time */
    POLL_TAPS = 1 << 16,      /* a group with more is polled within */
    REGISTERS = 4,            /* of sums */
    ROOM = 64,                /* elements that REGISTERS vectors may read past a group */
    TASK_ADDITIONS = 1 << 18, /* at least */
    TURNED = 64,              /* short rows whose equal elements are neighbours, */
    TURNED_ROW = 64,          /* with this many elements at most */
};

enum mode { CONSTANT, NEAREST, REFLECT, MIRROR, WRAP }; /* as in stencil1d.cu */

struct stencil {
    const void *in, *weights;
    void *out;
    int64_t n, outputs, first, before; /* of a row */
    uint64_t mode;
    const void *beyond;
    int64_t rows, width;
    bool turned; /* short rows */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Index from which to read input i of n, which may lie outside; -1 for the constant. */
static int64_t inside(int64_t i, int64_t n, uint64_t mode) {
    if (i >= 0 && i < n)
        return i;
    if (mode == CONSTANT)
        return -1;
    if (mode == NEAREST)
        return i < 0 ? 0 : n - 1;
    if (mode == MIRROR && n == 1)
        return 0;
    const int64_t period = mode == WRAP ? n : mode == REFLECT ? 2 * n : 2 * n - 2;
    i %= period;
    if (i < 0)
        i += period;
    return i < n ? i : period - i - (mode == REFLECT);
}

typedef int32_t type_int32;
typedef int64_t type_int64;
typedef float type_float32;
typedef double type_float64;

/* Integers wrap: the arithmetic is unsigned. */
typedef uint32_t wrapping_int32;
typedef uint64_t wrapping_int64;
typedef double wrapping_float64;

/* STORE_<items>_<accumulator>: converts as a GPU does where C leaves it open: values out of range
 * saturate, NaN becomes the lowest. */
static inline int32_t int32_of(double sum) {
    return sum >= 0x1p31 ? INT32_MAX : sum >= -0x1p31 ? (int32_t)sum : INT32_MIN;
}
static inline int64_t int64_of(double sum) {
    return sum >= 0x1p63 ? INT64_MAX : sum >= -0x1p63 ? (int64_t)sum : INT64_MIN;
}
#define STORE_int32_int32(sum) ((int32_t)(sum))
#define STORE_int64_int64(sum) ((int64_t)(sum))
#define STORE_int32_float64(sum) int32_of(sum)
#define STORE_int64_float64(sum) int64_of(sum)
#define STORE_float32_float64(sum) ((float)(sum))
#define STORE_float64_float64(sum) (sum)

#define TERM_sum(acc, item, weight) ((wrapping_##acc)(item))
#define TERM_weighted(acc, item, weight) ((wrapping_##acc)(weight) * (wrapping_##acc)(item))
#define WEIGHT_sum(weights, k) 0
#define WEIGHT_weighted(weights, k) ((weights)[k])

/* group_<op>_<items>_<acc>: at most GROUP outputs, from index `output` on. The elements are
 * converted to the accumulator's type first, and then wrap. */
#define GROUP_OF(op, items, acc)                                                         \
    static void group_##op##_##items##_##acc(const struct stencil *s, int64_t output,    \
                                             int64_t count) {                            \
        const type_##items *in = s->in;                                                  \
        const type_##acc *weights = s->weights, beyond = *(const type_##acc *)s->beyond; \
        type_##items *restrict out = (type_##items *)s->out + output;                    \
        const int64_t left = s->first + output - s->before, width = s->width;            \
        const bool whole = left >= 0 && left + count + width - 2 < s->n;                 \
        wrapping_##acc sums[GROUP];                                                      \
        memset(sums, 0, (size_t)count * sizeof *sums);                                   \
        (void)weights;                                                                   \
        for (int64_t k = 0; k < width; k++) {                                            \
            const type_##acc weight = WEIGHT_##op(weights, k);                           \
            (void)weight;                                                                \
            for (int64_t j = 0; j < count && whole; j++)                                 \
                sums[j] += TERM_##op(acc, (type_##acc)in[left + k + j], weight);         \
            for (int64_t j = 0; j < count && !whole; j++) {                              \
                const int64_t at = inside(left + k + j, s->n, s->mode);                  \
                sums[j] += TERM_##op(acc, at < 0 ? beyond : (type_##acc)in[at], weight); \
            }                                                                            \
        }                                                                                \
        for (int64_t j = 0; j < count; j++)                                              \
            out[j] = STORE_##items##_##acc(sums[j]);                                     \
    }
CPU_STENCIL1D_SIGNATURES(GROUP_OF)

/* --- the rung `simd`
 *
 * A group's inputs are converted to the accumulator's type once, values beyond the ends are filled
 * in, and then every sum stays in its register for TAPS inputs.
 */

typedef void simd_group(const struct stencil *s, int64_t output, int64_t count, bool stream,
                        struct cpu_worker *worker);
typedef void simd_rows(const struct stencil *s, int64_t rows);

/* Whether short rows are turned: a row's halo is then no work, but missing rows are (TUNING.md
 * C52).
 */
static bool is_turned(const struct stencil *s) {
    const int64_t lanes = (s->rows - 1) / TURNED * TURNED + TURNED;
    return s->rows > 1 && s->n <= TURNED_ROW && s->width <= TAPS &&
           lanes * s->outputs <= s->rows * s->width;
}

/* halo_...: a window's inputs beyond the ends: those before `begin`, and from `end` on. */
#define HALO_OF(unused, items, acc)                                                       \
    CPU_APART static void halo_##items##_##acc(const struct stencil *s, int64_t first,    \
                                               int64_t begin, int64_t end, int64_t count, \
                                               wrapping_##acc *restrict window) {         \
        const type_##items *in = s->in;                                                   \
        const type_##acc beyond = *(const type_##acc *)s->beyond;                         \
        const int64_t n = s->n;                                                           \
        const uint64_t mode = s->mode;                                                    \
        for (int64_t j = begin ? 0 : end; j < count; j = j + 1 == begin ? end : j + 1) {  \
            const int64_t at = inside(first + j, n, mode);                                \
            window[j] = (wrapping_##acc)(at < 0 ? beyond : (type_##acc)in[at]);           \
        }                                                                                 \
    }
CPU_STENCIL1D_TYPES(HALO_OF, any)

/* The element that each input of a row's window is; n: the constant. */
CPU_APART static void find_inputs(const struct stencil *s, int64_t *from) {
    const int64_t n = s->n, left = s->first - s->before, count = s->outputs + s->width - 1;
    const uint64_t mode = s->mode;
    for (int64_t k = 0; k < count; k++) {
        const int64_t at = inside(left + k, n, mode);
        from[k] = at < 0 ? n : at;
    }
}

/* Returns the step between the next inputs, and how many are this far apart. */
CPU_APART static int64_t even_taps(const int64_t *from, int64_t count, int64_t *taps) {
    const int64_t step = count > 1 ? from[1] - from[0] : 0;
    for (*taps = 1; *taps < count && from[*taps] - from[*taps - 1] == step;)
        ++*taps;
    return step;
}

/* window_...: `count` inputs from index `first` on, with the elements beyond the ends by `from`, if
 * it is known; sums_...: a group, by its add_ function. */
#define SIMD_BODY(op, items, acc)                                                                  \
    CPU_INLINE void window_##op##_##items##_##acc(const struct stencil *s, int64_t first,          \
                                                  int64_t count, const int64_t *from,              \
                                                  wrapping_##acc *restrict window) {               \
        const type_##items *in = s->in;                                                            \
        const int64_t begin = smaller(count, first < 0 ? -first : 0), behind = s->n - first;       \
        const int64_t end = smaller(count, behind > begin ? behind : begin); /* of those inside */ \
        for (int64_t j = begin; j < end; j++)                                                      \
            window[j] = (wrapping_##acc)(type_##acc)in[first + j];                                 \
        if (from)                                                                                  \
            for (int64_t j = begin ? 0 : end; j < count; j = j + 1 == begin ? end : j + 1)         \
                window[j] = (wrapping_##acc)(from[j] == s->n ? *(const type_##acc *)s->beyond      \
                                                             : (type_##acc)in[from[j]]);           \
        else if (begin || end < count)                                                             \
            halo_##items##_##acc(s, first, begin, end, count, window);                             \
    }                                                                                              \
    typedef void add_##op##_##items##_##acc(const wrapping_##acc *window,                          \
                                            const wrapping_##acc *weights, int64_t taps,           \
                                            int64_t step, int64_t count, wrapping_##acc *sums);    \
    /* `rows` rows with their halos, end to end; outputs that span two rows are skipped. */        \
    CPU_INLINE void short_##op##_##items##_##acc(const struct stencil *s, int64_t rows,            \
                                                 add_##op##_##items##_##acc add) {                 \
        const int64_t width = s->width, pitch = s->outputs + width - 1;                            \
        wrapping_##acc sums[GROUP + ROOM] = {0}, window[GROUP + TAPS + ROOM];                      \
        int64_t from[GROUP / 2];                                                                   \
        struct stencil row = *s;                                                                   \
        find_inputs(s, from);                                                                      \
        for (int64_t r = 0; r < rows; r++, row.in = (const type_##items *)row.in + s->n)           \
            window_##op##_##items##_##acc(&row, s->first - s->before, pitch, from,                 \
                                          window + r * pitch);                                     \
        memset(window + rows * pitch, 0, ROOM * sizeof *window);                                   \
        add(window, s->weights, width, 1, rows *pitch - width + 1, sums);                          \
        type_##items *out = s->out;                                                                \
        for (int64_t r = 0; r < rows; r++)                                                         \
            for (int64_t j = 0; j < s->outputs; j++)                                               \
                *out++ = STORE_##items##_##acc((type_##acc)sums[r * pitch + j]);                   \
    }                                                                                              \
    /* At most TURNED rows, one a lane: a short row's window repeats its elements. */              \
    CPU_INLINE void turned_##op##_##items##_##acc(const struct stencil *s, int64_t rows,           \
                                                  add_##op##_##items##_##acc add) {                \
        const type_##items *in = s->in;                                                            \
        const wrapping_##acc *weights = s->weights;                                                \
        type_##items *out = s->out;                                                                \
        const int64_t n = s->n, width = s->width;                                                  \
        wrapping_##acc turned[(TURNED_ROW + 1) * TURNED + ROOM] = {                                \
            0}; /* the last: the constant */                                                       \
        int64_t from[TURNED_ROW + TAPS];                                                           \
        find_inputs(s, from);                                                                      \
        for (int64_t r = 0; r < rows; r++, in += n) {                                              \
            for (int64_t i = 0; i < n; i++)                                                        \
                turned[i * TURNED + r] = (wrapping_##acc)(type_##acc)in[i];                        \
            turned[n * TURNED + r] = (wrapping_##acc) * (const type_##acc *)s->beyond;             \
        }                                                                                          \
        for (int64_t j = 0; j < s->outputs; j++) {                                                 \
            wrapping_##acc sums[TURNED + ROOM] = {0};                                              \
            for (int64_t k = 0, taps; k < width; k += taps) {                                      \
                const int64_t step = even_taps(from + j + k, width - k, &taps);                    \
                add(turned + from[j + k] * TURNED, WEIGHTS_##op(weights, k), taps, step * TURNED,  \
                    TURNED, sums);                                                                 \
            }                                                                                      \
            for (int64_t r = 0; r < rows; r++)                                                     \
                out[r * s->outputs + j] = STORE_##items##_##acc((type_##acc)sums[r]);              \
        }                                                                                          \
    }                                                                                              \
    CPU_INLINE void sums_##op##_##items##_##acc(                                                   \
        const struct stencil *s, int64_t output, int64_t count, bool stream,                       \
        struct cpu_worker *worker, add_##op##_##items##_##acc add) {                               \
        const wrapping_##acc *weights = s->weights;                                                \
        type_##items given[GROUP], *out = (type_##items *)s->out + output;                         \
        type_##items *restrict to = stream ? given : out;                                          \
        const int64_t left = s->first + output - s->before, width = s->width;                      \
        wrapping_##acc sums[GROUP + ROOM] = {0}, window[GROUP + TAPS + ROOM];                      \
        for (int64_t k = 0; k < width; k += TAPS) {                                                \
            const int64_t taps = smaller(TAPS, width - k);                                         \
            window_##op##_##items##_##acc(s, left + k, count + taps - 1, NULL, window);            \
            memset(window + count + taps - 1, 0, ROOM * sizeof *window);                           \
            add(window, WEIGHTS_##op(weights, k), taps, 1, count, sums);                           \
            if (width > POLL_TAPS && !cpu_team_goes_on(worker))                                    \
                return;                                                                            \
        }                                                                                          \
        for (int64_t j = 0; j < count; j++)                                                        \
            to[j] = STORE_##items##_##acc((type_##acc)sums[j]);                                    \
        if (stream)                                                                                \
            host_stream(out, given, (size_t)count * sizeof *out);                                  \
    }                                                                                              \
    CPU_ISAS(SIMD_GROUP, op, items, acc)

#define WEIGHTS_sum(weights, k) ((void)(weights), NULL)
#define WEIGHTS_weighted(weights, k) ((weights) + (k))
#define TERM_AT_sum(weights, k, items) (items)
#define TERM_AT_weighted(weights, k, items) ((weights)[k] * (items))

#define SIMD_GROUP(isa, target, bytes, prefix, here, op, items, acc)                             \
    target static void add_##op##_##items##_##acc##_##isa(                                       \
        const wrapping_##acc *window, const wrapping_##acc *weights, int64_t taps, int64_t step, \
        int64_t count, wrapping_##acc *sums) {                                                   \
        typedef wrapping_##acc vector                                                            \
            __attribute__((vector_size(bytes), may_alias, aligned(sizeof(wrapping_##acc))));     \
        enum { LANES = bytes / sizeof(wrapping_##acc) };                                         \
        (void)weights;                                                                           \
        for (int64_t j = 0; j < count; j += REGISTERS * LANES) {                                 \
            vector *to = (vector *)(sums + j);                                                   \
            vector a = to[0], b = to[1], c = to[2], d = to[3];                                   \
            for (int64_t k = 0; k < taps; k++) {                                                 \
                const vector *from = (const vector *)(window + j + k * step);                    \
                a += TERM_AT_##op(weights, k, from[0]);                                          \
                b += TERM_AT_##op(weights, k, from[1]);                                          \
                c += TERM_AT_##op(weights, k, from[2]);                                          \
                d += TERM_AT_##op(weights, k, from[3]);                                          \
            }                                                                                    \
            to[0] = a;                                                                           \
            to[1] = b;                                                                           \
            to[2] = c;                                                                           \
            to[3] = d;                                                                           \
        }                                                                                        \
    }                                                                                            \
    target static void simd_##op##_##items##_##acc##_##isa(                                      \
        const struct stencil *s, int64_t output, int64_t count, bool stream,                     \
        struct cpu_worker *worker) {                                                             \
        sums_##op##_##items##_##acc(s, output, count, stream, worker,                            \
                                    add_##op##_##items##_##acc##_##isa);                         \
    }                                                                                            \
    target static void rows_##op##_##items##_##acc##_##isa(const struct stencil *s,              \
                                                           int64_t rows) {                       \
        if (s->turned)                                                                           \
            turned_##op##_##items##_##acc(s, rows, add_##op##_##items##_##acc##_##isa);          \
        else                                                                                     \
            short_##op##_##items##_##acc(s, rows, add_##op##_##items##_##acc##_##isa);           \
    }
CPU_STENCIL1D_SIGNATURES(SIMD_BODY)

struct stencil_loops {
    void (*group)(const struct stencil *s, int64_t output, int64_t count);
    simd_group *simd[CPU_ISA_COUNT];
    simd_rows *rows[CPU_ISA_COUNT];
    size_t item_size;
};

static struct stencil stencil_of(void **arguments) {
    return (struct stencil){
        .in = (const void *)(uintptr_t) * (const device_address *)arguments[0],
        .weights = (const void *)(uintptr_t) * (const device_address *)arguments[1],
        .out = (void *)(uintptr_t) * (const device_address *)arguments[2],
        .n = *(const int64_t *)arguments[3],
        .outputs = *(const int64_t *)arguments[4],
        .first = *(const int64_t *)arguments[5],
        .before = *(const int64_t *)arguments[6],
        .mode = *(const uint64_t *)arguments[7],
        .beyond = arguments[8],
        .rows = *(const int64_t *)arguments[9],
        .width = *(const int64_t *)arguments[10],
    };
}

static int threads_for(const struct stencil *s) {
    const double additions = (double)s->outputs * (double)s->rows * (double)s->width;
    return cpu_team_threads(additions / ADDITIONS_PER_NS);
}

/* The stencil from row `row` on. */
static struct stencil from_row(const struct stencil *s, int64_t row, size_t item_size) {
    struct stencil at = *s;
    at.in = (const char *)s->in + (size_t)(row * s->n) * item_size;
    at.out = (char *)s->out + (size_t)(row * s->outputs) * item_size;
    at.rows = s->rows - row;
    return at;
}

/* A task is a number of groups; of short rows a group is `rows` of them. */
struct groups {
    const struct stencil *stencil;
    const struct stencil_loops *loops;
    int64_t rows;    /* of a group; 0: a row has groups of its own, */
    int64_t per_row; /* this many */
    int64_t count, per_task;
    bool stream;
};

static void groups_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    const struct groups *groups = state;
    const struct stencil *s = groups->stencil;
    const int64_t first = (int64_t)task * groups->per_task;
    const int64_t end = smaller(first + groups->per_task, groups->count);
    for (int64_t g = first; g < end; g++) {
        const int64_t number = groups->rows ? g * groups->rows : g / groups->per_row;
        const struct stencil row = from_row(s, number, groups->loops->item_size);
        const int64_t output = g % groups->per_row * GROUP;
        if (groups->rows)
            groups->loops->rows[cpu_isa()](&row, smaller(groups->rows, row.rows));
        else
            groups->loops->simd[cpu_isa()](&row, output, smaller(GROUP, s->outputs - output),
                                           groups->stream, worker);
    }
    if (groups->stream)
        host_stream_end();
}

static enum status simd_by(struct device *device, const struct stencil_loops *loops,
                           const struct stencil *given, int threads) {
    struct stencil turned = *given, *s = &turned;
    const int64_t width = s->width, every = s->outputs * s->rows;
    struct groups groups = {.stencil = s, .loops = loops, .per_row = (s->outputs - 1) / GROUP + 1};
    groups.count = groups.per_row * s->rows;
    groups.per_task = TASK_ADDITIONS / smaller(TASK_ADDITIONS, GROUP * width);
    s->turned = is_turned(s);
    if (s->turned) {
        groups.rows = TURNED;
        groups.count = (s->rows - 1) / TURNED + 1;
    } else if (s->rows > 1 && width <= TAPS && s->outputs + width - 1 <= GROUP / 2) {
        groups.rows = GROUP / (s->outputs + width - 1);
        groups.count = (s->rows - 1) / groups.rows + 1;
    } else if (s->outputs < GROUP) {
        groups.per_task = TASK_ADDITIONS / smaller(TASK_ADDITIONS, s->outputs * width);
    }
    groups.stream = !groups.rows && cpu_streams((uint64_t)every * loops->item_size);
    return cpu_team_run(device, threads, (uint64_t)((groups.count - 1) / groups.per_task + 1),
                        groups_task, &groups);
}

static enum status cpu_stencil1d_simd(struct device *device, const struct cpu_kernel *kernel,
                                      void **arguments) {
    const struct stencil s = stencil_of(arguments);
    return simd_by(device, kernel->data, &s, threads_for(&s));
}

/* Arguments as in the kernels of stencil1d.cu. */
static enum status cpu_stencil1d(struct device *device, const struct cpu_kernel *kernel,
                                 void **arguments) {
    const struct stencil_loops *loops = kernel->data;
    const struct stencil s = stencil_of(arguments);
    const int64_t width = s.width;
    if (width > POLL_ADDITIONS) /* polls within an output */
        return simd_by(device, loops, &s, kernel->parallel ? threads_for(&s) : 1);
    const int64_t size = smaller(smaller(GROUP, POLL_ADDITIONS / width + 1), s.outputs);
    const int threads = kernel->parallel ? threads_for(&s) : 1;
    const int64_t groups = (s.outputs - 1) / size + 1,
                  count = groups * s.rows;                                /* of a row; in all */
    const int64_t turn = threads * (POLL_ADDITIONS / (size * width) + 1); /* groups */
    for (int64_t begin = 0; begin < count; begin += turn) {
        const int64_t end = smaller(begin + turn, count);
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (int64_t group = begin; group < end; group++) {
            const float_state before = float_state_enter();
            const struct stencil row = from_row(&s, group / groups, loops->item_size);
            const int64_t first = group % groups * size;
            loops->group(&row, first, smaller(size, s.outputs - first));
            float_state_leave(before);
        }
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

#define SIMD_NAME(isa, target, bytes, prefix, here, name) simd_##name##_##isa,
#define ROWS_NAME(isa, target, bytes, prefix, here, name) rows_##name##_##isa,
#define WORKER(op, items, acc)                                          \
    static const struct stencil_loops worker_##op##_##items##_##acc = { \
        group_##op##_##items##_##acc,                                   \
        {CPU_ISAS(SIMD_NAME, op##_##items##_##acc)},                    \
        {CPU_ISAS(ROWS_NAME, op##_##items##_##acc)},                    \
        sizeof(type_##items)};
CPU_STENCIL1D_SIGNATURES(WORKER)

#define KERNEL_ROWS(op, items, acc)                                         \
    {"cpu_stencil1d_serial_" #op "_" #items "_" #acc, cpu_stencil1d,        \
     &worker_##op##_##items##_##acc, false},                                \
        {"cpu_stencil1d_openmp_" #op "_" #items "_" #acc, cpu_stencil1d,    \
         &worker_##op##_##items##_##acc, true},                             \
        {"cpu_stencil1d_simd_" #op "_" #items "_" #acc, cpu_stencil1d_simd, \
         &worker_##op##_##items##_##acc, true},

const struct cpu_kernel cpu_stencil1d_kernels[] = {CPU_STENCIL1D_SIGNATURES(KERNEL_ROWS)};
const size_t cpu_stencil1d_kernel_count =
    sizeof cpu_stencil1d_kernels / sizeof *cpu_stencil1d_kernels;

#endif
