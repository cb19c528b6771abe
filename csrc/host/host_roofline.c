/* host_roofline.c: what the CPU's memory can do at most: the ceilings that ladders are compared
 * with. */

#define HOST_ROOFLINE_SIGNATURES(SIGNATURE) SIGNATURE(copy, float32, float32)

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "memcpy", "host_roofline",
     "all cores copy: what memory gives a kernel that only reads and writes",
     "D1 compare with a copy", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#include "host_kernels.h"

#include <string.h>

enum { PART = 1 << 20, PARTS_PER_POLL = 64 }; /* bytes a thread copies at a time */

/* Arguments as the kernel of roofline.cu: from, to, how many items. */
static enum status host_copy(struct device *device, const struct host_kernel *kernel,
                             void **arguments) {
    const char *from = (const char *)(uintptr_t) * (const device_address *)arguments[0];
    char *to = (char *)(uintptr_t) * (const device_address *)arguments[1];
    const uint64_t bytes = *(const uint64_t *)arguments[2] * sizeof(float);
    const uint64_t parts = (bytes + PART - 1) / PART;
    const int threads = kernel->parallel && parts > 1 ? host_threads() : 1;
    for (uint64_t first = 0; first < parts; first += PARTS_PER_POLL) {
        const uint64_t last = parts - first < PARTS_PER_POLL ? parts : first + PARTS_PER_POLL;
#pragma omp parallel for num_threads(threads) if (threads > 1)
        for (uint64_t part = first; part < last; part++)
            memcpy(to + part * PART, from + part * PART,
                   bytes - part * PART < PART ? bytes - part * PART : PART);
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

const struct host_kernel host_roofline_kernels[] = {
    {"host_roofline_copy_float32_float32", host_copy, NULL, true},
};
const size_t host_roofline_kernel_count =
    sizeof host_roofline_kernels / sizeof *host_roofline_kernels;

#endif
