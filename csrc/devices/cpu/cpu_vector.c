/* cpu_vector.c: add and saxpy on the CPU, rungs `serial`, `openmp` and `simd` of both. Their
 * signatures are those of vector.cu. A broadcast operand is read in place: one block of it at a
 * time is laid out in the first-level cache. Knows no Python.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_vector_serial",
     "one thread, vectorised",
     "D1 add, on a CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "cpu_vector_openmp",
     "the items spread over all cores",
     "D1 cpu+omp, for a sum of vectors", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "cpu_vector_simd",
     "the widest vectors of the CPU it runs on, results stored past the caches where they are large",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "../../float_state.h"
#include "cpu_gather.h"
#include "cpu_isa.h"
#include "cpu_kernels.h"
#include "cpu_stream.h"
#include "cpu_team.h"

#include <string.h>

enum { PART = 1 << 16, PARTS_PER_POLL = 64 }; /* elements that a thread processes at a time */
enum { BYTES_PER_NS = 32 };                   /* read and written by one thread, estimated */
enum { STREAMED = 1024 }; /* elements buffered in the first-level cache before streaming stores */
enum { LAID_OUT = 1024 }; /* elements of a broadcast operand in that cache */

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

#define SIMD_PART(isa, target, bytes, prefix, here, op, type)                                 \
    target static void part_##op##_##type##_##isa(const void *x_, const void *y_, void *out_, \
                                                  const void *a, uint64_t n, bool stream) {   \
        const type_##type *x = x_, *y = y_;                                                   \
        type_##type buffer[STREAMED], *out = out_;                                            \
        for (uint64_t i = 0; i < n && stream; i += STREAMED) {                                \
            const uint64_t count = n - i < STREAMED ? n - i : STREAMED;                       \
            any_part_##op##_##type(x + i, y + i, buffer, a, count);                           \
            cpu_stream(out + i, buffer, count * sizeof *out);                                 \
        }                                                                                     \
        if (!stream)                                                                          \
            any_part_##op##_##type(x, y, out, a, n);                                          \
    }
#define SIMD_NAME(isa, target, bytes, prefix, here, op, type) part_##op##_##type##_##isa,

#define PART_OF(op, type)                                                                  \
    CPU_INLINE void any_part_##op##_##type(const void *x_, const void *y_, void *out_,     \
                                           const void *a_, uint64_t n) {                   \
        const type_##type *x = x_, *y = y_;                                                \
        type_##type *restrict out = out_, a;                                               \
        memcpy(&a, a_, sizeof a);                                                          \
        (void)a;                                                                           \
        for (uint64_t i = 0; i < n; i++)                                                   \
            out[i] = APPLY_##op(type, a, x[i], y[i]);                                      \
    }                                                                                      \
    static void part_##op##_##type(const void *x, const void *y, void *out, const void *a, \
                                   uint64_t n) {                                           \
        any_part_##op##_##type(x, y, out, a, n);                                           \
    }                                                                                      \
    CPU_ISAS(SIMD_PART, op, type)                                                          \
    static const struct worker worker_##op##_##type = {                                    \
        part_##op##_##type, {CPU_ISAS(SIMD_NAME, op, type)}, sizeof(type_##type)};

struct worker {
    void (*part)(const void *x, const void *y, void *out, const void *a, uint64_t n);
    void (*simd[CPU_ISA_COUNT])(const void *x, const void *y, void *out, const void *a, uint64_t n,
                                bool stream);
    uint64_t size; /* bytes of an element */
};

PART_OF(add, int32)
PART_OF(add, int64)
PART_OF(add, float32)
PART_OF(add, float64)
PART_OF(saxpy, float32)
PART_OF(saxpy, float64)

static int threads_for(uint64_t n, const struct worker *worker) {
    return cpu_team_threads(3 * (double)n * (double)worker->size / BYTES_PER_NS);
}

/* x or y. The box has no axes for contiguous memory. */
struct operand {
    struct device_box box;
    bool one; /* a single element, repeated */
};

struct vectors {
    const struct worker *worker;
    struct operand x, y;
    const void *a;
    void *out;
    uint64_t n;
    bool simd, stream;
};

/* Axes of (size, step of x, step of y) follow their count, which is 0 if neither operand is
 * broadcast. Axes that are one to this operand are merged. */
static struct operand operand_of(void **arguments, int which) {
    const uint64_t count = *(const uint64_t *)arguments[5];
    struct operand operand = {.box.first = (const void *)(uintptr_t) *
                                           (const device_address *)arguments[which]};
    struct device_axes *axes = &operand.box.axes;
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t size = *(const uint64_t *)arguments[6 + 3 * k];
        const int64_t step = *(const int64_t *)arguments[7 + 3 * k + (uint64_t)which];
        const int last = axes->count - 1;
        if (last >= 0 && step == (int64_t)axes->sizes[last] * axes->steps[last]) {
            axes->sizes[last] *= size;
        } else {
            axes->sizes[axes->count] = size;
            axes->steps[axes->count++] = step;
        }
    }
    operand.one = axes->count == 1 && axes->steps[0] == 0;
    if (axes->count == 1 && axes->steps[0] == 1)
        axes->count = 0;
    return operand;
}

/* Arguments as in the kernels of vector.cu: x, y, out, n, a; then the axes. */
static struct vectors vectors_of(const struct cpu_kernel *kernel, void **arguments) {
    return (struct vectors){
        .worker = kernel->data,
        .x = operand_of(arguments, 0),
        .y = operand_of(arguments, 1),
        .a = arguments[4],
        .out = (void *)(uintptr_t) * (const device_address *)arguments[2],
        .n = *(const uint64_t *)arguments[3],
    };
}

static void run_part(const struct vectors *v, const void *x, const void *y, void *out,
                     uint64_t count) {
    if (v->simd)
        v->worker->simd[cpu_isa()](x, y, out, v->a, count, v->stream);
    else
        v->worker->part(x, y, out, v->a, count);
}

/* An operand's elements from `index` on, as contiguous memory: in place, or in the buffer, which
 * keeps the single element of a first block. */
static const void *laid_out(const struct operand *operand, size_t size, uint64_t index,
                            uint64_t count, bool first, char *buffer) {
    if (!operand->box.axes.count)
        return (const char *)operand->box.first + index * size;
    if (first || !operand->one)
        gather_box(buffer, &operand->box, size, index, count);
    return buffer;
}

static void part_of(const struct vectors *v, uint64_t part) {
    double buffers[2][LAID_OUT]; /* of the widest type */
    const uint64_t begin = part * PART, end = v->n - begin < PART ? v->n : begin + PART;
    const size_t size = v->worker->size;
    const uint64_t most = v->x.box.axes.count || v->y.box.axes.count ? LAID_OUT : PART;
    for (uint64_t i = begin, count; i < end; i += count) {
        count = end - i < most ? end - i : most;
        run_part(v, laid_out(&v->x, size, i, count, i == begin, (char *)buffers[0]),
                 laid_out(&v->y, size, i, count, i == begin, (char *)buffers[1]),
                 (char *)v->out + i * size, count);
    }
}

static enum status cpu_vector(struct device *device, const struct cpu_kernel *kernel,
                              void **arguments) {
    const struct vectors v = vectors_of(kernel, arguments);
    const uint64_t parts = (v.n + PART - 1) / PART;
    const int threads = kernel->parallel ? threads_for(v.n, v.worker) : 1;
    for (uint64_t first = 0; first < parts; first += PARTS_PER_POLL) {
        const uint64_t last = parts - first < PARTS_PER_POLL ? parts : first + PARTS_PER_POLL;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t part = first; part < last; part++) {
            const float_state before = float_state_enter();
            part_of(&v, part);
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
    part_of(v, part);
    if (v->stream)
        cpu_stream_end();
}

static enum status cpu_vector_simd(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
    struct vectors v = vectors_of(kernel, arguments);
    v.simd = true;
    v.stream = cpu_streams(v.n * v.worker->size);
    return cpu_team_run(device, threads_for(v.n, v.worker), (v.n + PART - 1) / PART, part_task, &v);
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
