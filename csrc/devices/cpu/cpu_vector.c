/* cpu_vector.c: add and saxpy on the CPU, rungs `serial`, `openmp` and `simd` of both. Their
 * signatures are those of vector.cu. Strided and broadcast arrays are read and written in place.
 * Knows no Python.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_vector_serial",
     "one thread, vectorized",
     "D1 add, on a CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_vector_openmp",
     "the elements are split over all cores",
     "D1 cpu+omp, for a sum of vectors", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "cpu_vector_simd",
     "the CPU's widest vectors; streaming stores for large results",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../host/host_stream.h"
#include "../../float_state.h"
#include "cpu_gather.h"
#include "cpu_kernels.h"
#include "cpu_machine.h"
#include "cpu_team.h"
#include "cpu_turn.h"

#include <string.h>

enum { PART = 1 << 16, PARTS_PER_POLL = 64 }; /* elements that a thread processes at a time */
enum { BYTES_PER_NS = 64 };                   /* read and written by one thread, estimated */
enum { STREAMED = 1024 }; /* elements buffered in the first-level cache before streaming stores */
enum { SHORT_BYTES = 128, PACKED_BYTES = 8192 }; /* of a short row, and brought together */
enum { GATHERED_BYTES = 1024 };                  /* of a row that is gathered with others */
enum {
    TURNED_BYTES = 16384,   /* of a tile of an operand that is turned, */
    TURNED_ROW = 512,       /* and of its rows, at most */
    TURNED_LEAST = 1 << 14, /* bytes of the operand */
};
enum { X, Y, OUT, ARRAYS };

typedef int32_t type_int32;
typedef int64_t type_int64;
typedef float type_float32;
typedef double type_float64;

/* Integers wrap: the arithmetic is unsigned. */
typedef uint32_t wrapping_int32;
typedef uint64_t wrapping_int64;
typedef float wrapping_float32;
typedef double wrapping_float64;

#define APPLY_add(type, a, x, y) ((type_##type)((wrapping_##type)(x) + (wrapping_##type)(y)))
#define APPLY_saxpy(type, a, x, y) ((a) * (x) + (y))

/* One row of elements, `steps` elements apart in x, y and out. */
typedef void row_function(const void *x, const void *y, void *out, const int64_t *steps,
                          const void *a, uint64_t n);

#if defined(__GNUC__) && !defined(__clang__)
#define NO_DEPENDENCES _Pragma("GCC ivdep")
#else
#define NO_DEPENDENCES _Pragma("clang loop vectorize(assume_safety)")
#endif

/* `out` is an input or apart from both: no iteration depends on another. */
#define LOOP(op, type, x_item, y_item, out_item) \
    NO_DEPENDENCES                               \
    for (uint64_t i = 0; i < n; i++)             \
        out_item = APPLY_##op(type, a, x_item, y_item);

#define ROW_BODY(op, type)                                                                       \
    static CPU_SCALAR void strided_row_##op##_##type(const void *x_, const void *y_, void *out_, \
                                                     const int64_t *steps, const void *a_,       \
                                                     uint64_t n) {                               \
        const type_##type *x = x_, *y = y_;                                                      \
        type_##type *out = out_, a;                                                              \
        const int64_t sx = steps[X], sy = steps[Y], so = steps[OUT];                             \
        memcpy(&a, a_, sizeof a);                                                                \
        (void)a;                                                                                 \
        LOOP(op, type, x[(int64_t)i * sx], y[(int64_t)i * sy], out[(int64_t)i * so])             \
    }                                                                                            \
    CPU_INLINE void any_row_##op##_##type(const void *x_, const void *y_, void *out_,            \
                                          const int64_t *steps, const void *a_, uint64_t n) {    \
        const type_##type *x = x_, *y = y_, one_x = *x, one_y = *y;                              \
        type_##type *out = out_, a;                                                              \
        const int64_t sx = steps[X], sy = steps[Y], so = steps[OUT];                             \
        memcpy(&a, a_, sizeof a);                                                                \
        (void)a;                                                                                 \
        if (so == 1 && sx == 1 && sy == 1) {                                                     \
            LOOP(op, type, x[i], y[i], out[i])                                                   \
        } else if (so == 1 && sx == 1 && sy == 0) {                                              \
            LOOP(op, type, x[i], one_y, out[i])                                                  \
        } else if (so == 1 && sx == 0 && sy == 1) {                                              \
            LOOP(op, type, one_x, y[i], out[i])                                                  \
        } else {                                                                                 \
            strided_row_##op##_##type(x, y, out, steps, a_, n);                                  \
        }                                                                                        \
    }                                                                                            \
    static void row_##op##_##type(const void *x, const void *y, void *out, const int64_t *steps, \
                                  const void *a, uint64_t n) {                                   \
        any_row_##op##_##type(x, y, out, steps, a, n);                                           \
    }                                                                                            \
    CPU_ISAS_TO_32(ROW_OF, op, type)                                                             \
    static const struct vector_loops worker_##op##_##type = {                                    \
        row_##op##_##type, {CPU_ISAS_TO_32(ROW_NAME, op, type)}, sizeof(type_##type)};

#define ROW_OF(isa, target, bytes, prefix, here, op, type)                                \
    target static void row_##op##_##type##_##isa(const void *x, const void *y, void *out, \
                                                 const int64_t *steps, const void *a,     \
                                                 uint64_t n) {                            \
        any_row_##op##_##type(x, y, out, steps, a, n);                                    \
    }
#define ONE_MORE(...) +1
#define ROW_NAME(isa, target, bytes, prefix, here, op, type) row_##op##_##type##_##isa,

/* Wider vectors cross cache lines more often, and memory is slower anyway (TUNING.md C37). */
enum { VECTOR_SETS = 0 CPU_ISAS_TO_32(ONE_MORE, unused) };

struct vector_loops {
    row_function *row, *simd[VECTOR_SETS];
    uint64_t size; /* bytes of an element */
};

ROW_BODY(add, int32)
ROW_BODY(add, int64)
ROW_BODY(add, float32)
ROW_BODY(add, float64)
ROW_BODY(saxpy, float32)
ROW_BODY(saxpy, float64)

static int threads_for(uint64_t n, const struct vector_loops *loops) {
    return cpu_team_threads(3 * (double)n * (double)loops->size / BYTES_PER_NS);
}

struct vectors {
    const struct vector_loops *loops;
    row_function *row;
    char *arrays[ARRAYS];
    const void *a;
    uint64_t n;
    bool stream;
    bool packs;   /* rows are short, but adjoin in the result */
    bool gathers; /* rows of an operand are strided, those of the result contiguous */
    int axes;     /* at least 1, the last first */
    uint64_t sizes[DEVICE_AXES];
    int64_t steps[DEVICE_AXES][ARRAYS]; /* in elements */
};

/* Arguments as in the kernels of vector.cu: x, y, out, n, a; then the number of axes, and for each
 * its size and steps. No axes: all arrays are contiguous. */
static void read_arguments(struct vectors *v, const struct cpu_kernel *kernel, void **arguments) {
    const uint64_t count = *(const uint64_t *)arguments[5];
    v->loops = kernel->data;
    v->row = v->loops->row;
    for (int k = 0; k < ARRAYS; k++)
        v->arrays[k] = (char *)(uintptr_t) * (const device_address *)arguments[k];
    v->n = *(const uint64_t *)arguments[3];
    v->a = arguments[4];
    v->stream = v->packs = v->gathers = false;
    v->axes = count ? (int)count : 1;
    v->sizes[0] = v->n;
    for (int k = 0; k < ARRAYS; k++)
        v->steps[0][k] = 1;
    for (uint64_t axis = 0; axis < count; axis++) {
        v->sizes[axis] = *(const uint64_t *)arguments[6 + 4 * axis];
        for (uint64_t k = 0; k < ARRAYS; k++)
            v->steps[axis][k] = *(const int64_t *)arguments[7 + 4 * axis + k];
    }
}

/* Whether an operand's rows are made contiguous first, so that the loop over them is vectorized: if
 * they are strided, but for wide elements (TUNING.md C21, C51). */
static bool is_gathered(const struct vectors *v, int array) {
    const int64_t step = v->steps[0][array];
    return step != 0 && step != 1 && v->loops->size <= 4;
}

/* One row of the result. */
static void run_row(const struct vectors *v, const char *x, const char *y, char *out, uint64_t n) {
    _Alignas(CPU_LINE) char packed[OUT][PACKED_BYTES];
    const char *in[OUT] = {x, y};
    const int64_t size = (int64_t)v->loops->size, *steps = v->steps[0];
    if (!v->gathers) {
        v->row(x, y, out, steps, v->a, n);
        return;
    }
    for (uint64_t done = 0, count; done < n; done += count) {
        const char *from[OUT];
        int64_t near[ARRAYS] = {steps[X], steps[Y], 1};
        count = min_u64(n - done, PACKED_BYTES / (uint64_t)size);
        for (int k = X; k <= Y; k++) {
            from[k] = in[k] + (int64_t)done * steps[k] * size;
            if (is_gathered(v, k)) {
                gather(packed[k], from[k], (size_t)size, 1, count, 0, steps[k]);
                from[k] = packed[k];
                near[k] = 1;
            }
        }
        v->row(from[X], from[Y], out + (int64_t)done * size, near, v->a, count);
    }
}

/* Streaming stores need a contiguous result. */
static void run_streamed(const struct vectors *v, const char *x, const char *y, char *out,
                         uint64_t n) {
    double buffer[STREAMED]; /* of the widest type */
    const int64_t size = (int64_t)v->loops->size, *steps = v->steps[0];
    for (uint64_t i = 0; i < n; i += STREAMED) {
        const uint64_t count = n - i < STREAMED ? n - i : STREAMED;
        const int64_t at = (int64_t)i * size;
        run_row(v, x + at * steps[X], y + at * steps[Y], (char *)buffer, count);
        host_stream(out + at, buffer, count * (uint64_t)size);
    }
}

/* Rows of one element each, `stride` bytes apart, that is repeated; the surplus of a row is
 * overwritten by the next. */
#define SPREAD(size)                                                                     \
    static void spread_##size(char *to, const char *from, uint64_t rows, uint64_t bytes, \
                              int64_t stride) {                                          \
        for (uint64_t row = 0; row < rows; row++, to += bytes, from += stride) {         \
            const raw_##size item = *(const raw_##size *)from;                           \
            raw_##size half[SHORT_BYTES / 2 / size];                                     \
            for (int i = 0; i < SHORT_BYTES / 2 / size; i++)                             \
                half[i] = item;                                                          \
            memcpy(to, half, sizeof half);                                               \
            if (bytes > sizeof half)                                                     \
                memcpy(to + sizeof half, half, sizeof half);                             \
        }                                                                                \
    }
SPREAD(4)
SPREAD(8)

/* Brings short rows of an operand together. */
static void bring_rows(const struct vectors *v, int array, char *to, const char *from,
                       uint64_t rows) {
    const uint64_t size = v->loops->size, n = v->sizes[0];
    const int64_t step = v->steps[0][array], stride = v->steps[1][array];
    if (step == 0)
        (size == 4 ? spread_4 : spread_8)(to, from, rows, n * size, stride * (int64_t)size);
    else if (step == 1)
        pack_rows(to, PACKED_BYTES + SHORT_BYTES, from, size, rows, n, stride);
    else
        gather(to, from, size, rows, n, stride, step);
}

static void run_short(const struct vectors *v, char *const *from, uint64_t rows) {
    _Alignas(CPU_LINE) char packed[OUT][PACKED_BYTES + SHORT_BYTES];
    const uint64_t n = v->sizes[0], bytes = n * v->loops->size;
    int64_t steps[ARRAYS] = {1, 1, 1};
    for (uint64_t done = 0, count; done < rows; done += count) {
        const char *in[OUT];
        count = min_u64(rows - done, PACKED_BYTES / bytes);
        for (int k = X; k <= Y; k++) {
            const int64_t step = v->steps[0][k], stride = v->steps[1][k];
            in[k] = from[k] + (int64_t)done * stride * (int64_t)v->loops->size;
            if (step == 0 && stride == 0) {
                steps[k] = 0;
            } else if (step != 1 || stride != (int64_t)n) {
                if (!done || stride)
                    bring_rows(v, k, packed[k], in[k], count);
                in[k] = packed[k];
            }
        }
        v->row(in[X], in[Y], from[OUT] + done * bytes, steps, v->a, count * n);
    }
}

/* The elements from `begin` on, row by row. */
static void run_range(const struct vectors *v, uint64_t begin, uint64_t count) {
    uint64_t at[DEVICE_AXES], left = begin;
    char *from[ARRAYS];
    const int64_t size = (int64_t)v->loops->size;
    memcpy(from, v->arrays, sizeof from);
    for (int axis = 0; axis < v->axes; axis++) {
        at[axis] = left % v->sizes[axis];
        left /= v->sizes[axis];
        for (int k = 0; k < ARRAYS; k++)
            from[k] += (int64_t)at[axis] * v->steps[axis][k] * size;
    }
    while (count) {
        const uint64_t row = min_u64(v->sizes[0] - at[0], count);
        const uint64_t whole =
            v->packs && !at[0] ? min_u64(v->sizes[1] - at[1], count / v->sizes[0]) : 0;
        if (whole)
            run_short(v, from, whole);
        else if (v->stream)
            run_streamed(v, from[X], from[Y], from[OUT], row);
        else
            run_row(v, from[X], from[Y], from[OUT], row);
        count -= max_u64(whole, 1) * row;
        if (whole > 1) { /* on to the last of them */
            at[1] += whole - 1;
            for (int k = 0; k < ARRAYS; k++)
                from[k] += (int64_t)(whole - 1) * v->steps[1][k] * size;
        }
        int64_t back = (int64_t)at[0];
        for (int axis = 0; count && axis + 1 < v->axes; axis++) {
            for (int k = 0; k < ARRAYS; k++)
                from[k] += (v->steps[axis + 1][k] - back * v->steps[axis][k]) * size;
            at[axis] = 0;
            if (++at[axis + 1] < v->sizes[axis + 1])
                break;
            back = (int64_t)at[axis + 1];
        }
    }
}

static void run_part(const struct vectors *v, uint64_t part) {
    const uint64_t begin = part * PART;
    run_range(v, begin, v->n - begin < PART ? v->n - begin : PART);
}

static enum status cpu_vector(struct device *device, const struct cpu_kernel *kernel,
                              void **arguments) {
    struct vectors v;
    read_arguments(&v, kernel, arguments);
    const uint64_t parts = (v.n + PART - 1) / PART;
    const int threads = kernel->parallel ? threads_for(v.n, v.loops) : 1;
    for (uint64_t first = 0; first < parts; first += PARTS_PER_POLL) {
        const uint64_t last = parts - first < PARTS_PER_POLL ? parts : first + PARTS_PER_POLL;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t part = first; part < last; part++) {
            const float_state before = float_state_enter();
            run_part(&v, part);
            float_state_leave(before);
        }
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

static void part_task(const void *state, uint64_t part, struct cpu_worker *worker) {
    const struct vectors *v = state;
    (void)worker;
    run_part(v, part);
    if (v->stream)
        host_stream_end();
}

/* Whether an array's rows adjoin. */
static bool is_one_run(const struct vectors *v, int array) {
    return v->steps[0][array] == 1 && v->steps[1][array] == (int64_t)v->sizes[0];
}

/* Whether rows longer than SHORT_BYTES need no copy, or are gathered. */
static bool packs_wide(const struct vectors *v, int array) {
    return is_gathered(v, array) || is_one_run(v, array) ||
           (v->steps[0][array] == 0 && v->steps[1][array] == 0);
}

/* --- operands whose adjacent elements lie along another axis than the result's: tiles of both axes
 * are turned in vector registers, and then added row by row */

struct turned {
    const struct vectors *v;
    turn_function *turn;
    bool turns[OUT];                   /* of the operands */
    bool joined;                       /* a tile's rows adjoin */
    int along;                         /* the axis of their adjacent elements */
    uint64_t wide, tall, across, down; /* columns and rows of a tile; tiles */
    uint64_t count, per_task;
};

static void turned_tile(const struct turned *turned, uint64_t tile) {
    const struct vectors *v = turned->v;
    const int64_t size = (int64_t)v->loops->size;
    _Alignas(CPU_LINE) char buffers[OUT][TURNED_BYTES];
    char *from[ARRAYS];
    int64_t near[ARRAYS], next[ARRAYS];
    const uint64_t top = tile % turned->down * turned->tall;
    const uint64_t left = tile / turned->down % turned->across * turned->wide;
    uint64_t rows = min_u64(turned->tall, v->sizes[turned->along] - top);
    uint64_t columns = min_u64(turned->wide, v->sizes[0] - left);
    uint64_t rest = tile / turned->down / turned->across;
    for (int k = 0; k < ARRAYS; k++) {
        next[k] = v->steps[turned->along][k];
        near[k] = v->steps[0][k];
        from[k] = v->arrays[k] + ((int64_t)top * next[k] + (int64_t)left * near[k]) * size;
    }
    for (int axis = 1; axis < v->axes; axis++) {
        if (axis == turned->along)
            continue;
        for (int k = 0; k < ARRAYS; k++)
            from[k] += (int64_t)(rest % v->sizes[axis]) * v->steps[axis][k] * size;
        rest /= v->sizes[axis];
    }
    for (int k = X; k <= Y; k++) {
        if (!turned->turns[k])
            continue;
        for (uint64_t c = 0; c < columns && top + turned->tall < v->sizes[turned->along]; c++)
            __builtin_prefetch(from[k] + (c * (uint64_t)near[k] + turned->tall) * (uint64_t)size);
        turned->turn(from[k], (size_t)(near[k] * size), columns, rows, buffers[k],
                     columns * (size_t)size);
        from[k] = buffers[k];
        near[k] = 1;
        next[k] = (int64_t)columns;
    }
    if (turned->joined) {
        columns *= rows;
        rows = 1;
    }
    for (; rows--;
         from[X] += next[X] * size, from[Y] += next[Y] * size, from[OUT] += next[OUT] * size)
        v->row(from[X], from[Y], from[OUT], near, v->a, columns);
}

static void turned_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    const struct turned *turned = state;
    const uint64_t first = task * turned->per_task;
    (void)worker;
    for (uint64_t tile = first; tile < min_u64(first + turned->per_task, turned->count); tile++)
        turned_tile(turned, tile);
}

/* Whether an operand has its adjacent elements along another axis, which is then `along`. */
static bool is_turned(const struct vectors *v, int array, int *along) {
    const uint64_t patch = PATCH_SIDE / v->loops->size;
    if (v->steps[0][array] <= 1 || v->sizes[0] < patch)
        return false;
    for (int axis = 1; axis < v->axes; axis++)
        if (v->steps[axis][array] == 1 && v->sizes[axis] >= patch && (!*along || *along == axis)) {
            *along = axis;
            return true;
        }
    return false;
}

static bool plan_turned(struct turned *turned, const struct vectors *v) {
    const uint64_t size = v->loops->size, line = CPU_LINE / size;
    *turned = (struct turned){.v = v, .turn = cpu_turn(size)};
    if (v->steps[0][OUT] != 1 || v->n * size < TURNED_LEAST)
        return false;
    for (int k = X; k <= Y; k++)
        turned->turns[k] = is_turned(v, k, &turned->along);
    if (!turned->along)
        return false;
    const uint64_t height = v->sizes[turned->along];
    turned->wide = min_u64(v->sizes[0], TURNED_ROW / size);
    turned->tall = min_u64(height, TURNED_BYTES / size / turned->wide / line * line);
    turned->across = ceil_div(v->sizes[0], turned->wide);
    turned->down = ceil_div(height, turned->tall);
    turned->count = v->n / v->sizes[0] / height * turned->across * turned->down;
    turned->per_task = max_u64(1, PART / (turned->wide * turned->tall));
    turned->joined = turned->across == 1;
    for (int k = 0; k < ARRAYS; k++) {
        const int64_t step = v->steps[0][k], next = v->steps[turned->along][k];
        if ((k == OUT || !turned->turns[k]) && !(step == 0 && next == 0) &&
            !(step == 1 && next == (int64_t)v->sizes[0]))
            turned->joined = false;
    }
    return true;
}

static enum status cpu_vector_simd(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
    struct vectors v;
    read_arguments(&v, kernel, arguments);
    v.row = v.loops->simd[min_u64(cpu_isa(), VECTOR_SETS - 1)];
    const uint64_t bytes = v.sizes[0] * v.loops->size;
    const bool adjoins = v.axes > 1 && is_one_run(&v, OUT);
    v.gathers = v.steps[0][OUT] == 1 && (is_gathered(&v, X) || is_gathered(&v, Y));
    v.packs = adjoins && (bytes <= SHORT_BYTES || (bytes <= GATHERED_BYTES && v.gathers &&
                                                   packs_wide(&v, X) && packs_wide(&v, Y)));
    v.stream = v.steps[0][OUT] == 1 && v.sizes[0] >= STREAMED && cpu_streams(v.n * v.loops->size);
    struct turned turned;
    if (plan_turned(&turned, &v))
        return cpu_team_run(device, threads_for(v.n, v.loops),
                            ceil_div(turned.count, turned.per_task), turned_task, &turned);
    return cpu_team_run(device, threads_for(v.n, v.loops), (v.n + PART - 1) / PART, part_task, &v);
}

#define KERNEL_ROWS(op, type)                                                                    \
    {"cpu_vector_serial_" #op "_" #type "_" #type, cpu_vector, &worker_##op##_##type, false},    \
        {"cpu_vector_openmp_" #op "_" #type "_" #type, cpu_vector, &worker_##op##_##type, true}, \
        {"cpu_vector_simd_" #op "_" #type "_" #type, cpu_vector_simd, &worker_##op##_##type,     \
         true},

const struct cpu_kernel cpu_vector_kernels[] = {
    KERNEL_ROWS(add, int32) KERNEL_ROWS(add, int64) KERNEL_ROWS(add, float32)
        KERNEL_ROWS(add, float64) KERNEL_ROWS(saxpy, float32) KERNEL_ROWS(saxpy, float64)};
const size_t cpu_vector_kernel_count = sizeof cpu_vector_kernels / sizeof *cpu_vector_kernels;

#endif
