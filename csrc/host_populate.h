/* host_populate.h: threads that map fresh pages of host memory, for results that arrive later: a
 * copy that meets unmapped pages runs at half its speed. Knows no device.
 */
#ifndef GPUOPT_HOST_POPULATE_H
#define GPUOPT_HOST_POPULATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum { HOST_POPULATE_MOST = 8, HOST_POPULATE_LEAST = 64 << 20 /* bytes that repay the threads */ };

struct host_populate {
    char *begin, *end;
    atomic_size_t taken; /* bytes of sections that a thread has taken */
    int thread_count;
    pthread_t threads[HOST_POPULATE_MOST];
};

/* Starts the threads if pages are unmapped; contents stay. The memory and the struct must live
 * until host_populate_end, which stops them. */
void host_populate_begin(struct host_populate *populate, void *memory, size_t bytes);
void host_populate_end(struct host_populate *populate);

#endif
