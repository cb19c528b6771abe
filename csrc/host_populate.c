/* host_populate.c: maps pages by madvise(MADV_POPULATE_WRITE), Linux 5.14; without it, nothing. */
#include "host_populate.h"

#include "host_threads.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { SECTION_BYTES = 16 << 20, SAMPLES = 16 };

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

/* Whether a page among some is unmapped. */
static bool is_fresh(const struct host_populate *populate, size_t page) {
    const size_t pages = (size_t)(populate->end - populate->begin) / page;
    unsigned char resident = 0;
    for (size_t i = 0; i < SAMPLES; i++)
        if (mincore(populate->begin + pages * i / SAMPLES * page, page, &resident) ||
            !(resident & 1))
            return true;
    return false;
}

void host_populate_begin(struct host_populate *populate, void *memory, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t skipped = -(uintptr_t)memory % page; /* whole pages only */
    memset(populate, 0, sizeof *populate);
    if (bytes < HOST_POPULATE_LEAST)
        return;
    populate->begin = (char *)memory + skipped;
    populate->end = populate->begin + (bytes - skipped) / page * page;
    if (!is_fresh(populate, page))
        return;
    const int half = host_threads() / 2; /* the others copy the inputs */
    const int wanted = half < HOST_POPULATE_MOST ? half : HOST_POPULATE_MOST;
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
