/* host_vector.c: add and saxpy on the CPU, rungs `serial`, `openmp` and `simd` of both. Their
 * signatures are those of vector.cu.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "host_vector_serial",
     "one thread, vectorised",
     "D1 add, on a CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "host_vector_openmp",
     "the items spread over all cores",
     "D1 cpu+omp, for a sum of vectors", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "simd", "host_vector_simd",
     "the widest vectors of the CPU it runs on, results stored past the caches where they are large",
     "beyond the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "host_isa.h"
#include "host_kernels.h"
#include "host_stream.h"
#include "host_team.h"

#include <string.h>

enum { PART = 1 << 16, PARTS_PER_POLL = 64 }; /* items a thread takes at a time */
enum { BYTES_PER_NS = 32 };                   /* that one thread reads and writes, about */
enum { STREAMED = 1024 }; /* items that wait in the first-level cache to be stored past it */

typedef int32_t type_int32;
typedef int64_t type_int64;
typedef float type_float32;
typedef double type_float64;

/* Integers wrap: the arithmetic is done unsigned. */
typedef uint32_t wrapping_int32;
typedef uint64_t wrapping_int64;
typedef float wrapping_float32;
typedef double wrapping_float64;

#define APPLY_add(type, a, x, y) ((type_##type)((wrapping_##type)(x) + (wrapping_##type)(y)))
#define APPLY_saxpy(type, a, x, y) ((a) * (x) + (y))

#define SIMD_PART(isa, target, bytes, prefix, here, op, type)                                  \
    target static void part_##op##_##type##_##isa(const void *x_, const void *y_, void *out_,  \
                                                  const void *a, uint64_t begin, uint64_t end, \
                                                  bool stream) {                               \
        const type_##type *x = x_, *y = y_;                                                    \
        type_##type buffer[STREAMED], *out = out_;                                             \
        for (uint64_t i = begin; i < end && stream; i += STREAMED) {                           \
            const uint64_t count = end - i < STREAMED ? end - i : STREAMED;                    \
            any_part_##op##_##type(x + i, y + i, buffer, a, 0, count);                         \
            host_stream(out + i, buffer, count * sizeof *out);                                 \
        }                                                                                      \
        if (!stream)                                                                           \
            any_part_##op##_##type(x, y, out, a, begin, end);                                  \
    }
#define SIMD_NAME(isa, target, bytes, prefix, here, op, type) part_##op##_##type##_##isa,

#define PART_OF(op, type)                                                                   \
    HOST_INLINE void any_part_##op##_##type(const void *x_, const void *y_, void *out_,     \
                                            const void *a_, uint64_t begin, uint64_t end) { \
        const type_##type *x = x_, *y = y_;                                                 \
        type_##type *restrict out = out_, a;                                                \
        memcpy(&a, a_, sizeof a);                                                           \
        (void)a;                                                                            \
        for (uint64_t i = begin; i < end; i++)                                              \
            out[i] = APPLY_##op(type, a, x[i], y[i]);                                       \
    }                                                                                       \
    static void part_##op##_##type(const void *x, const void *y, void *out, const void *a,  \
                                   uint64_t begin, uint64_t end) {                          \
        any_part_##op##_##type(x, y, out, a, begin, end);                                   \
    }                                                                                       \
    HOST_ISAS(SIMD_PART, op, type)                                                          \
    static const struct worker worker_##op##_##type = {                                     \
        part_##op##_##type, {HOST_ISAS(SIMD_NAME, op, type)}, sizeof(type_##type)};

struct worker {
    void (*part)(const void *x, const void *y, void *out, const void *a, uint64_t begin,
                 uint64_t end);
    void (*simd[HOST_ISA_COUNT])(const void *x, const void *y, void *out, const void *a,
                                 uint64_t begin, uint64_t end, bool stream);
    uint64_t size; /* bytes of an item */
};

PART_OF(add, int32)
PART_OF(add, int64)
PART_OF(add, float32)
PART_OF(add, float64)
PART_OF(saxpy, float32)
PART_OF(saxpy, float64)

static int threads_for(uint64_t n, const struct worker *worker) {
    return host_team_threads(3 * (double)n * (double)worker->size / BYTES_PER_NS);
}

/* Arguments as the kernels of vector.cu: x, y, out, how many, a. */
static enum status host_vector(struct device *device, const struct host_kernel *kernel,
                               void **arguments) {
    const struct worker *worker = kernel->data;
    const void *x = (const void *)(uintptr_t) * (const device_address *)arguments[0];
    const void *y = (const void *)(uintptr_t) * (const device_address *)arguments[1];
    void *out = (void *)(uintptr_t) * (const device_address *)arguments[2];
    const uint64_t n = *(const uint64_t *)arguments[3];
    const uint64_t parts = (n + PART - 1) / PART;
    const int threads = kernel->parallel ? threads_for(n, worker) : 1;
    for (uint64_t first = 0; first < parts; first += PARTS_PER_POLL) {
        const uint64_t last = parts - first < PARTS_PER_POLL ? parts : first + PARTS_PER_POLL;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t part = first; part < last; part++)
            worker->part(x, y, out, arguments[4], part * PART,
                         part * PART + PART < n ? part * PART + PART : n);
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

struct vectors {
    const struct worker *worker;
    const void *x, *y, *a;
    void *out;
    uint64_t n;
    bool stream;
};

static void part_task(const void *state, uint64_t part, struct host_worker *worker) {
    const struct vectors *v = state;
    const uint64_t begin = part * PART, end = v->n - begin < PART ? v->n : begin + PART;
    (void)worker;
    v->worker->simd[host_isa()](v->x, v->y, v->out, v->a, begin, end, v->stream);
    if (v->stream)
        host_stream_end();
}

static enum status host_vector_simd(struct device *device, const struct host_kernel *kernel,
                                    void **arguments) {
    const struct worker *worker = kernel->data;
    const uint64_t n = *(const uint64_t *)arguments[3];
    const struct vectors vectors = {
        .worker = worker,
        .x = (const void *)(uintptr_t) * (const device_address *)arguments[0],
        .y = (const void *)(uintptr_t) * (const device_address *)arguments[1],
        .out = (void *)(uintptr_t) * (const device_address *)arguments[2],
        .n = n,
        .a = arguments[4],
        .stream = host_streams(n * worker->size),
    };
    return host_team_run(device, threads_for(n, worker), (n + PART - 1) / PART, part_task,
                         &vectors);
}

#define KERNEL_ROWS(op, type)                                                                      \
    {"host_vector_serial_" #op "_" #type "_" #type, host_vector, &worker_##op##_##type, false},    \
        {"host_vector_openmp_" #op "_" #type "_" #type, host_vector, &worker_##op##_##type, true}, \
        {"host_vector_simd_" #op "_" #type "_" #type, host_vector_simd, &worker_##op##_##type,     \
         true},

const struct host_kernel host_vector_kernels[] = {
    KERNEL_ROWS(add, int32) KERNEL_ROWS(add, int64) KERNEL_ROWS(add, float32)
        KERNEL_ROWS(add, float64) KERNEL_ROWS(saxpy, float32) KERNEL_ROWS(saxpy, float64)};
const size_t host_vector_kernel_count = sizeof host_vector_kernels / sizeof *host_vector_kernels;

#endif
