/* host_threads.h: how many threads of the host the cpu device, the simulated GPU's workers and
 * copies to GPUs may use.
 */
#ifndef GPUOPT_HOST_THREADS_H
#define GPUOPT_HOST_THREADS_H

#include "../gpuopt.h"

/* GPUOPT_NUM_THREADS, else OMP_NUM_THREADS, as they were when this was first called; else OpenMP's
 * number, and no more than the calling thread's affinity mask and the cgroup's cpu quota allow. */
int host_threads(void);
/* BAD_VALUE where GPUOPT_NUM_THREADS is no number of threads. */
enum status host_threads_check(void);

/* Cores' worth of time that the cgroups of a file like /proc/self/cgroup have, as files like those
 * of /sys/fs/cgroup say (versions 1 and 2), rounded up; INT_MAX: no limit. */
int host_threads_quota(const char *cgroup_file, const char *mount);

#endif
