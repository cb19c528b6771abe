/* host_kernels.h: how the C rungs look to the cpu device: functions that are found by symbol and
 * take their arguments as a GPU's kernels do.
 */
#ifndef GPUOPT_HOST_KERNELS_H
#define GPUOPT_HOST_KERNELS_H

#include "../device.h"

struct host_kernel {
    const char *symbol;
    /* Runs the whole of it, and polls the device at least every 100 ms. */
    enum status (*run)(struct device *device, const struct host_kernel *kernel, void **arguments);
    const void *data; /* what run() needs to know of this kernel */
    bool parallel;
};

extern const struct host_kernel host_reduce_kernels[], host_roofline_kernels[],
    host_transpose_kernels[], host_stencil1d_kernels[], host_vector_kernels[],
    host_matmul_kernels[], host_reduce_axis_kernels[];
extern const size_t host_reduce_kernel_count, host_roofline_kernel_count,
    host_transpose_kernel_count, host_stencil1d_kernel_count, host_vector_kernel_count,
    host_matmul_kernel_count, host_reduce_axis_kernel_count;

/* How many threads a parallel kernel uses: OpenMP's choice (OMP_NUM_THREADS, the affinity mask),
 * but one in a forked child, where OpenMP's threads do not exist any more. */
int host_threads(void);

#endif
