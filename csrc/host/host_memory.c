/* host_memory.c: free host memory, by the kernel's estimate and by the container's limit. */
#include "host_memory.h"

#include "host_cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
