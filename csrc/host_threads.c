/* host_threads.c: how many threads of the host are this process's to use. The number of processors
 * is not the answer: taskset and batch systems narrow the affinity mask, containers set a quota of
 * processor time, and threads beyond either only wait for each other.
 */
#include "host_threads.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MOST = 4096, PATH_BYTES = 4096 + 64 };

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

/* The number that a file begins with; 0 where it begins with none ("max", -1 microseconds). */
static long long number_of(const char *path, long long *second) {
    char line[64] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    char *end = line;
    if (!fgets(line, sizeof line, file))
        *line = 0;
    fclose(file);
    const long long first = strtoll(line, &end, 10);
    if (second)
        *second = strtoll(end, NULL, 10);
    return end > line && first > 0 ? first : 0;
}

static int cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return INT_MAX;
    const long long cores = quota / period + (quota % period != 0);
    return cores < INT_MAX ? (int)cores : INT_MAX;
}

static int quota_at(const char *folder, int version) {
    char path[PATH_BYTES + 64];
    long long quota, period = 0;
    if (version == 2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        quota = number_of(path, &period);
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        quota = number_of(path, NULL);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        period = number_of(path, NULL);
    }
    return cores_of(quota, period);
}

/* The least of a group's and of all above it: each limits those within it. A container may see its
 * own group as the root, whatever the path says, so a folder that is not there is no reason to
 * stop.
 */
static int quota_along(const char *mount, const char *group, int version) {
    char folder[PATH_BYTES];
    int least = INT_MAX;
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return INT_MAX;
    for (size_t length = strlen(folder);; folder[length] = 0) {
        const int cores = quota_at(folder, version);
        least = cores < least ? cores : least;
        while (length > strlen(mount) && folder[length - 1] != '/')
            length--;
        if (length <= strlen(mount))
            return least;
        length--;
    }
}

static bool has_controller(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

int host_threads_quota(const char *cgroup_file, const char *mount) {
    char line[PATH_BYTES], version_1[PATH_BYTES];
    int least = INT_MAX;
    FILE *file = fopen(cgroup_file, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:group */
        char *controllers = strchr(line, ':'), *group;
        if (!controllers || !(group = strchr(controllers + 1, ':')))
            continue;
        *controllers++ = *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const bool unified = !*controllers;
        int cores = INT_MAX;
        snprintf(version_1, sizeof version_1, "%s/%s", mount, controllers);
        if (unified)
            cores = quota_along(mount, group, 2);
        else if (has_controller(controllers, "cpu"))
            cores = quota_along(version_1, group, 1);
        least = cores < least ? cores : least;
        if (!unified && has_controller(controllers, "cpu")) { /* a link where it has two names */
            snprintf(version_1, sizeof version_1, "%s/cpu", mount);
            cores = quota_along(version_1, group, 1);
            least = cores < least ? cores : least;
        }
    }
    if (file)
        fclose(file);
    return least;
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
