/* host_memory.h: the host memory that this process may still use without swapping, and threads that
 * map fresh pages. */
#ifndef GPUOPT_HOST_MEMORY_H
#define GPUOPT_HOST_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes: the least of MemAvailable in a file like /proc/meminfo and of what the cgroups' memory
 * limits leave (host_cgroup.h); UINT64_MAX where neither is known. Page cache counts as free. */
uint64_t host_memory_left(const char *meminfo, const char *cgroup_file, const char *mount);
uint64_t host_memory_available(void);

enum { HOST_POPULATE_MOST = 24, HOST_POPULATE_LEAST = 64 << 20 /* bytes that repay threads */ };

struct host_populate {
    char *begin, *end;
    atomic_size_t taken; /* bytes of sections that a thread has taken */
    int thread_count;
    pthread_t threads[HOST_POPULATE_MOST];
};

/* Starts threads that map the pages of a result which arrives later, if some are unmapped: copies
 * to unmapped pages run at half speed. Contents stay. Memory and struct must live until
 * host_populate_end, which stops the threads. */
void host_populate_begin(struct host_populate *populate, void *memory, size_t bytes);
void host_populate_end(struct host_populate *populate);
/* Whether a page is unmapped, among some that are looked at. */
bool host_is_fresh(const void *memory, size_t bytes);

#endif
