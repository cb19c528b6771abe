/* cpu_kernels.h: the C rungs as the cpu device calls them: functions found by symbol that receive
 * the arguments of a GPU's kernels. Knows no rung.
 */
#ifndef GPUOPT_CPU_KERNELS_H
#define GPUOPT_CPU_KERNELS_H

#include "../../device.h"
#include "../../registry.h"

struct cpu_kernel {
    const char *symbol;
    /* Runs the whole kernel, and polls the device at least every 100 ms. */
    enum status (*run)(struct device *device, const struct cpu_kernel *kernel, void **arguments);
    const void *data; /* parameters of this kernel for run() */
    bool parallel;
};

/* Each family's files define a table of kernels. */
#define FAMILY(name, files)                                 \
    extern const struct cpu_kernel cpu_##files##_kernels[]; \
    extern const size_t cpu_##files##_kernel_count;
REG_FAMILIES(FAMILY)
#undef FAMILY

#endif
