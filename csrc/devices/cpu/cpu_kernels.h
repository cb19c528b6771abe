/* cpu_kernels.h: the C rungs as the cpu device calls them: functions found by symbol that receive
 * the arguments of a GPU's kernels. Knows no rung.
 */
#ifndef GPUOPT_CPU_KERNELS_H
#define GPUOPT_CPU_KERNELS_H

#include "../../device.h"

struct cpu_kernel {
    const char *symbol;
    /* Runs the whole kernel, and polls the device at least every 100 ms. */
    enum status (*run)(struct device *device, const struct cpu_kernel *kernel, void **arguments);
    const void *data; /* parameters of this kernel for run() */
    bool parallel;
};

extern const struct cpu_kernel cpu_reduce_kernels[], cpu_roofline_kernels[],
    cpu_transpose_kernels[], cpu_stencil1d_kernels[], cpu_vector_kernels[], cpu_matmul_kernels[],
    cpu_reduce_axis_kernels[];
extern const size_t cpu_reduce_kernel_count, cpu_roofline_kernel_count, cpu_transpose_kernel_count,
    cpu_stencil1d_kernel_count, cpu_vector_kernel_count, cpu_matmul_kernel_count,
    cpu_reduce_axis_kernel_count;

#endif
