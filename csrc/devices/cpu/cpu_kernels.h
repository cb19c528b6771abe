/* cpu_kernels.h: how the C rungs look to the cpu device: functions that are found by symbol and
 * take their arguments as a GPU's kernels do.
 */
#ifndef GPUOPT_CPU_KERNELS_H
#define GPUOPT_CPU_KERNELS_H

#include "../../device.h"
#include "../../registry.h"

struct cpu_kernel {
    const char *symbol;
    /* Runs the whole of it, and polls the device at least every 100 ms. */
    enum status (*run)(struct device *device, const struct cpu_kernel *kernel, void **arguments);
    const void *data; /* what run() needs to know of this kernel */
    bool parallel;
};

/* Each family's files define a table of kernels. */
#define FAMILY(name, files)                                 \
    extern const struct cpu_kernel cpu_##files##_kernels[]; \
    extern const size_t cpu_##files##_kernel_count;
REG_FAMILIES(FAMILY)
#undef FAMILY

#endif
