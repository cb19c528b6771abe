/* cpu_machine.h: what of this machine the kernels depend on. */
#ifndef GPUOPT_CPU_MACHINE_H
#define GPUOPT_CPU_MACHINE_H

#include "../../gpuopt.h"

/* How many threads a parallel kernel uses: host_threads(), but one in a forked child, where
 * OpenMP's threads do not exist any more. */
int cpu_threads(void);

uint64_t cpu_cache_bytes(void); /* of the last level; 0 where it is not known */
/* Whether a result of so many bytes is to be stored past the caches. */
bool cpu_streams(uint64_t bytes);

#endif
