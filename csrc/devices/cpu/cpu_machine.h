/* cpu_machine.h: properties of this machine that kernels depend on. */
#ifndef GPUOPT_CPU_MACHINE_H
#define GPUOPT_CPU_MACHINE_H

#include "../../gpuopt.h"

/* Number of threads of a parallel kernel: host_threads(), but one in a forked child, where OpenMP's
 * threads do not exist. */
int cpu_threads(void);

uint64_t cpu_cache_bytes(void); /* last-level; 0 if unknown */
/* Whether a result of this size should use streaming stores. */
bool cpu_streams(uint64_t bytes);

#endif
