/* host_memory.c: free host memory, by the kernel's estimate and by the container's limit; pages
 * mapped by madvise(MADV_POPULATE_WRITE) of Linux 5.14, without which they stay unmapped. */
#include "host_memory.h"

#include "host_cgroup.h"
#include "host_threads.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The number after a line's key, or -1. */
static long long value_of(const char *path, const char *key) {
    char line[256];
    long long value = -1;
    FILE *file = fopen(path, "re");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtoll(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static long long left_at(const char *folder, int version) {
    char stat[4096 + 128];
    const long long limit =
        host_cgroup_number(folder, version == 2 ? "memory.max" : "memory.limit_in_bytes", NULL);
    if (!limit || limit >= LLONG_MAX / 2) /* version 1: no limit is a number near 2^63 */
        return LLONG_MAX;
    const long long used =
        host_cgroup_number(folder, version == 2 ? "memory.current" : "memory.usage_in_bytes", NULL);
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    const long long cache =
        value_of(stat, version == 2 ? "inactive_file " : "total_inactive_file ");
    const long long left = limit - used + (cache > 0 ? cache : 0);
    return left < 0 ? 0 : left < limit ? left : limit;
}

uint64_t host_memory_left(const char *meminfo, const char *cgroup_file, const char *mount) {
    const long long kib = value_of(meminfo, "MemAvailable:");
    const uint64_t host = kib < 0 ? UINT64_MAX : (uint64_t)kib * 1024;
    const long long group = host_cgroup_least(cgroup_file, mount, "memory", left_at);
    return group == LLONG_MAX || (uint64_t)group > host ? host : (uint64_t)group;
}

uint64_t host_memory_available(void) {
    return host_memory_left("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
}

/* --- pages of results */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { HUGE_PAGE = 2 << 20, SECTION_BYTES = 16 << 20, SAMPLES = 16 };

static void *map_sections(void *state) {
    struct host_populate *populate = state;
    const size_t bytes = (size_t)(populate->end - populate->begin);
    for (;;) {
        const size_t at = atomic_fetch_add(&populate->taken, SECTION_BYTES);
        if (at >= bytes)
            return NULL;
        const size_t size = bytes - at < SECTION_BYTES ? bytes - at : SECTION_BYTES;
        if (madvise(populate->begin + at, size, MADV_POPULATE_WRITE))
            return NULL; /* an old kernel; full memory is the copy's to report */
    }
}

bool host_is_fresh(const void *memory, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page;
    unsigned char resident = 0;
    for (uintptr_t i = 0; i < SAMPLES; i++) {
        const uintptr_t at = (first + bytes / page * i / SAMPLES) * page;
        void *there = (char *)memory + (ptrdiff_t)(at - (uintptr_t)memory);
        if (mincore(there, page, &resident) || !(resident & 1))
            return true;
    }
    return false;
}

void host_populate_begin(struct host_populate *populate, void *memory, size_t bytes) {
    const size_t skipped = -(uintptr_t)memory % HUGE_PAGE; /* no two threads map one page */
    memset(populate, 0, sizeof *populate);
    if (bytes < HOST_POPULATE_LEAST || !host_is_fresh(memory, bytes))
        return;
    populate->begin = (char *)memory + skipped;
    populate->end = populate->begin + (bytes - skipped) / HUGE_PAGE * HUGE_PAGE;
    const int all_threads = host_threads(), spare = all_threads - 8; /* 8 copy the inputs */
    int wanted = spare < all_threads / 2 ? all_threads / 2 : spare;
    if (wanted > HOST_POPULATE_MOST)
        wanted = HOST_POPULATE_MOST;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the caller's thread handles signals */
    while (
        populate->thread_count < wanted &&
        !pthread_create(&populate->threads[populate->thread_count], NULL, map_sections, populate))
        populate->thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void host_populate_end(struct host_populate *populate) {
    atomic_store(&populate->taken, SIZE_MAX / 2);
    for (int i = 0; i < populate->thread_count; i++)
        pthread_join(populate->threads[i], NULL);
}
