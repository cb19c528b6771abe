/* host_memory.h: the host memory that this process may still use without swapping. */
#ifndef GPUOPT_HOST_MEMORY_H
#define GPUOPT_HOST_MEMORY_H

#include <stdint.h>

/* Bytes: the least of MemAvailable in a file like /proc/meminfo and of what the cgroups' memory
 * limits leave (host_cgroup.h); UINT64_MAX where neither is known. Page cache counts as free. */
uint64_t host_memory_left(const char *meminfo, const char *cgroup_file, const char *mount);
uint64_t host_memory_available(void);

#endif
