/* host_matmul.c: the matrix product on the CPU, rungs `serial` and `openmp`. Its signatures are
 * those of matmul.cu. Both add up in float64, over k from first to last: the same bits from both.
 */

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "host_matmul_serial",
     "three nested loops, the inner one along the rows of b and c",
     "D2 matmul, on a CPU", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "openmp", "host_matmul_openmp",
     "four rows at a time for each word of b, spread over all cores",
     "D2 matmul, on a CPU with OpenMP", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "host_kernels.h"

enum {
    ROWS = 4,                 /* of c at a time, openmp */
    COLUMNS = 512,            /* of c at a time: its sums stay in the first-level cache */
    POLL_STEPS = 1 << 25,     /* multiplications between two polls, a thread */
    PARALLEL_LEAST = 1 << 18, /* multiplications */
};

typedef float type_float32;
typedef double type_float64;

struct product {
    const void *a, *b;
    void *c;
    uint64_t m, n, k;
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

struct worker {
    void (*one)(const struct product *p, uint64_t row, uint64_t column, uint64_t columns);
    void (*four)(const struct product *p, uint64_t row, uint64_t column, uint64_t columns);
};

/* Arguments as the kernels of matmul.cu: a, b, c, m, n, k. */
static enum status host_matmul(struct device *device, const struct host_kernel *kernel,
                               void **arguments) {
    const struct worker *worker = kernel->data;
    const struct product p = {
        .a = (const void *)(uintptr_t) * (const device_address *)arguments[0],
        .b = (const void *)(uintptr_t) * (const device_address *)arguments[1],
        .c = (void *)(uintptr_t) * (const device_address *)arguments[2],
        .m = *(const uint64_t *)arguments[3],
        .n = *(const uint64_t *)arguments[4],
        .k = *(const uint64_t *)arguments[5],
    };
    const uint64_t rows = kernel->parallel ? ROWS : 1;
    const uint64_t width = least(COLUMNS, POLL_STEPS / (rows * (p.k + 1)) + 1);
    const uint64_t across = (p.n - 1) / width + 1, patches = ((p.m - 1) / rows + 1) * across;
    const bool small = (double)p.m * (double)p.n * (double)p.k < PARALLEL_LEAST;
    const int threads = kernel->parallel && !small ? host_threads() : 1;
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

static const struct worker worker_float32 = {patch_float32_1, patch_float32_4};
static const struct worker worker_float64 = {patch_float64_1, patch_float64_4};

#define KERNEL_ROWS(type)                                                               \
    {"host_matmul_serial_matmul_" #type "_" #type, host_matmul, &worker_##type, false}, \
        {"host_matmul_openmp_matmul_" #type "_" #type, host_matmul, &worker_##type, true},

const struct host_kernel host_matmul_kernels[] = {KERNEL_ROWS(float32) KERNEL_ROWS(float64)};
const size_t host_matmul_kernel_count = sizeof host_matmul_kernels / sizeof *host_matmul_kernels;

#endif
