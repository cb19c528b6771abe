/* cpu_machine.c: properties of this machine that kernels depend on: threads and the last-level
 * cache. Knows no kernel. */
#include "cpu_machine.h"

#include "../../host/host_threads.h"

#include <pthread.h>
#include <unistd.h>

/* --- threads, and their state after a fork */

static bool forked;

static void in_child(void) { forked = true; }

/* Installed when the extension is loaded: after a fork OpenMP's threads, which another library may
 * have started, do not exist, and OpenMP would wait for them. An earlier fork goes unnoticed.
 */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

int cpu_threads(void) { return forked ? 1 : host_threads(); }

/* --- the last-level cache */

uint64_t cpu_cache_bytes(void) {
#ifdef _SC_LEVEL3_CACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (uint64_t)bytes : 0;
#else
    return 0;
#endif
}

static uint64_t stream_least; /* bytes */

static void find_stream_least(void) {
    enum { USUAL = 32 << 20 };
    stream_least = cpu_cache_bytes() ? cpu_cache_bytes() : USUAL;
}

bool cpu_streams(uint64_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_stream_least);
    return bytes > stream_least;
}
