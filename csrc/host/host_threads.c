/* host_threads.c: how many threads of the host are this process's to use. The number of processors
 * is not the answer: taskset and batch systems narrow the affinity mask, containers set a quota of
 * processor time, and threads beyond either only wait for each other.
 */
#include "host_threads.h"

#include "host_cgroup.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MOST = 4096 };

/* --- the affinity mask */

static int affinity(void) {
    int count = 0;
    for (int processors = 1024; !count && processors <= 1 << 18; processors *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)processors);
        const size_t bytes = CPU_ALLOC_SIZE((size_t)processors);
        const int failed = !set || sched_getaffinity(0, bytes, set);
        const int too_small = failed && set && errno == EINVAL; /* more processors than that */
        count = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (failed && !too_small)
            break;
    }
    return count ? count : INT_MAX;
}

/* --- the cgroup's quota */

static long long cores_of(long long quota, long long period) {
    return quota <= 0 || period <= 0 ? LLONG_MAX : quota / period + (quota % period != 0);
}

static long long cores_at(const char *folder, int version) {
    long long quota, period = 0;
    if (version == 2) {
        quota = host_cgroup_number(folder, "cpu.max", &period);
    } else {
        quota = host_cgroup_number(folder, "cpu.cfs_quota_us", NULL);
        period = host_cgroup_number(folder, "cpu.cfs_period_us", NULL);
    }
    return cores_of(quota, period);
}

int host_threads_quota(const char *cgroup_file, const char *mount) {
    const long long cores = host_cgroup_least(cgroup_file, mount, "cpu", cores_at);
    return cores < INT_MAX ? (int)cores : INT_MAX;
}

/* --- what the user says */

static int own_threads, openmp_threads, quota; /* 0: not set, or no number */
static char own_text[32];

/* The first number of a list, as OMP_NUM_THREADS may have one; 0: there is none. */
static int threads_in(const char *text, bool is_list) {
    char *end;
    const long number = text ? strtol(text, &end, 10) : 0;
    if (number < 1 || number > THREADS_MOST)
        return 0;
    end += strspn(end, " \t");
    return !*end || (is_list && *end == ',') ? (int)number : 0;
}

static void look(void) {
    const char *own = getenv("GPUOPT_NUM_THREADS");
    own_threads = threads_in(own, false);
    openmp_threads = threads_in(getenv("OMP_NUM_THREADS"), true);
    snprintf(own_text, sizeof own_text, "%s", own ? own : "");
    quota = host_threads_quota("/proc/self/cgroup", "/sys/fs/cgroup");
}

static void look_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
}

int host_threads(void) {
    look_once();
    if (own_threads)
        return own_threads;
    const int openmp = omp_get_max_threads(); /* omp_set_num_threads, and OMP_NUM_THREADS */
    if (openmp_threads)
        return openmp;
    const int mask = affinity();
    const int allowed = mask < quota ? mask : quota;
    return openmp < allowed ? openmp : allowed;
}

enum status host_threads_check(void) {
    look_once();
    if (*own_text && !own_threads)
        return status_fail(STATUS_BAD_VALUE,
                           "GPUOPT_NUM_THREADS: '%s' is not a number of threads; use 1 to %d",
                           own_text, THREADS_MOST);
    return STATUS_OK;
}
