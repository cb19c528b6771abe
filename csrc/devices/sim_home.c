/* sim_home.c: the simulated GPUs that are open. `registry` guards the list and the user counts; a
 * home's `turn` guards its GPU; `late_lock` guards the resources to free when the turn ends. The
 * first and the last are held briefly only.
 */
#include "sim_home.h"

#include "../host/host_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum what { ADDRESS, TEXTURE, MODULE };

struct late {
    struct late *next;
    enum what what;
    uint64_t value;
};

struct sim_home {
    struct sim_home *next;
    const struct sim_preset *preset;
    struct sim_gpu *gpu;
    unsigned users;
    pthread_mutex_t turn, late_lock;
    pid_t holder;  /* process of the turn's holder; 0: nobody */
    uint64_t lent; /* bytes that are allocated, as of the last turn's end */
    struct late *late;
    struct sim_module **embedded; /* by the kernel's number; NULL: not loaded */
};

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct sim_home *homes;

/* A fork between these would leave the child a lock that nobody opens. */
static void lock_registry(void) { pthread_mutex_lock(&registry); }
static void unlock_registry(void) { pthread_mutex_unlock(&registry); }
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(lock_registry, unlock_registry, unlock_registry);
}

/* --- the host's memory */

/* A simulated byte costs the host itself, two bytes of race cells and 3/64 of marks, most of them
 * only once a kernel has touched it: free memory falls after the allocation. Three quarters of the
 * free memory are lent, so that the host does not swap. */
enum { COST_64TH = 195, CHECKED_BYTES = 16 << 20 };

static uint64_t most_available; /* the largest reading: as if nothing were lent */
static uint64_t unchecked;      /* allocated since the last reading */

static uint64_t simulated(uint64_t host_bytes) { return host_bytes / 4 * 3 / COST_64TH * 64; }

/* Simulated bytes that the host has room for, beside those that are lent. */
static uint64_t host_room(void) {
    const uint64_t available = host_memory_available();
    uint64_t lent = 0;
    pthread_mutex_lock(&registry);
    most_available = available > most_available ? available : most_available;
    for (const struct sim_home *home = homes; home; home = home->next)
        lent += __atomic_load_n(&home->lent, __ATOMIC_RELAXED);
    const uint64_t in_all = simulated(most_available), now = simulated(available);
    pthread_mutex_unlock(&registry);
    const uint64_t left = in_all > lent ? in_all - lent : 0;
    return left < now ? left : now;
}

/* Reads the host's state once per CHECKED_BYTES, not for every small allocation. */
static int host_admits(uint64_t bytes) {
    const uint64_t before = __atomic_fetch_add(&unchecked, bytes, __ATOMIC_RELAXED);
    if (bytes < CHECKED_BYTES && before < CHECKED_BYTES)
        return 1;
    __atomic_store_n(&unchecked, 0, __ATOMIC_RELAXED);
    return bytes <= host_room();
}

uint64_t sim_home_total_bytes(const struct sim_preset *preset) {
    return (uint64_t)preset->memory_mib << 20;
}

uint64_t sim_home_free_bytes(const struct sim_preset *preset) {
    const uint64_t room = host_room();
    uint64_t lent = 0;
    pthread_mutex_lock(&registry);
    for (const struct sim_home *home = homes; home; home = home->next)
        if (home->preset == preset)
            lent = __atomic_load_n(&home->lent, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&registry);
    const uint64_t total = sim_home_total_bytes(preset), left = total > lent ? total - lent : 0;
    return left < room ? left : room;
}

/* --- releasing memory, textures and modules */

static void give_back(struct sim_home *home, enum what what, uint64_t value) {
    struct sim_error error = {0};
    switch (what) {
    case ADDRESS:
        sim_free(home->gpu, value, &error);
        break;
    case TEXTURE:
        sim_texture_close(home->gpu, value, &error);
        break;
    case MODULE:
        sim_module_unload((struct sim_module *)(uintptr_t)value);
    }
}

static void give_back_late(struct sim_home *home) {
    pthread_mutex_lock(&home->late_lock);
    struct late *late = home->late;
    home->late = NULL;
    pthread_mutex_unlock(&home->late_lock);
    while (late) {
        struct late *next = late->next;
        give_back(home, late->what, late->value);
        free(late);
        late = next;
    }
}

static void release(struct sim_home *home, enum what what, uint64_t value) {
    if (pthread_mutex_trylock(&home->turn) == 0) {
        __atomic_store_n(&home->holder, getpid(), __ATOMIC_RELAXED);
        give_back(home, what, value);
        sim_home_end(home);
        return;
    }
    struct late *late = malloc(sizeof *late);
    if (!late)
        return; /* it stays until the GPU is closed */
    pthread_mutex_lock(&home->late_lock);
    *late = (struct late){home->late, what, value};
    home->late = late;
    pthread_mutex_unlock(&home->late_lock);
}

void sim_home_free(struct sim_home *home, uint64_t address) {
    if (address)
        release(home, ADDRESS, address);
}

void sim_home_close_texture(struct sim_home *home, uint64_t handle) {
    release(home, TEXTURE, handle);
}

void sim_home_unload(struct sim_home *home, struct sim_module *module) {
    release(home, MODULE, (uintptr_t)module);
}

/* --- turns */

enum status sim_home_begin(struct sim_home *home, struct device *device) {
    enum { LOOK_EVERY_NS = 20000000 };
    while (pthread_mutex_trylock(&home->turn)) {
        const pid_t holder = __atomic_load_n(&home->holder, __ATOMIC_RELAXED);
        if (holder && holder != getpid())
            return status_fail(STATUS_FORKED,
                               "device: sim:%s was in the middle of a call of another thread when "
                               "this process was forked from it; fork at another time, or start "
                               "processes by 'spawn'",
                               home->preset->name);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_EVERY_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_mutex_timedlock(&home->turn, &until) == 0)
            break;
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    __atomic_store_n(&home->holder, getpid(), __ATOMIC_RELAXED);
    give_back_late(home);
    return STATUS_OK;
}

void sim_home_end(struct sim_home *home) {
    uint64_t used, limit;
    give_back_late(home);
    sim_memory_use(home->gpu, &used, &limit);
    __atomic_store_n(&home->lent, used, __ATOMIC_RELAXED);
    __atomic_store_n(&home->holder, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&home->turn);
}

/* --- opening and closing */

static struct sim_home *make(const struct sim_preset *preset) {
    struct sim_error error = {0};
    struct sim_limits limits;
    sim_default_limits(&limits);
    limits.device_bytes = sim_home_total_bytes(preset);
    limits.admits = host_admits;
    struct sim_home *home = calloc(1, sizeof *home);
    if (home)
        home->embedded = calloc(gpuopt_kernel_count, sizeof *home->embedded);
    if (!home || !home->embedded || sim_gpu_open(preset->name, &limits, &home->gpu, &error)) {
        free(home ? home->embedded : NULL);
        free(home);
        return NULL;
    }
    home->preset = preset;
    pthread_mutex_init(&home->turn, NULL);
    pthread_mutex_init(&home->late_lock, NULL);
    return home;
}

enum status sim_home_open(const struct sim_preset *preset, struct sim_home **home) {
    pthread_mutex_lock(&registry);
    *home = homes;
    while (*home && (*home)->preset != preset)
        *home = (*home)->next;
    if (!*home && (*home = make(preset))) {
        (*home)->next = homes;
        homes = *home;
    }
    if (*home)
        (*home)->users++;
    pthread_mutex_unlock(&registry);
    return *home ? STATUS_OK
                 : status_fail(STATUS_NO_HOST_MEMORY, "sim:%s: no memory for a simulated GPU",
                               preset->name);
}

void sim_home_close(struct sim_home *home, uint64_t *leaks, uint64_t *leaked_bytes) {
    *leaks = *leaked_bytes = 0;
    pthread_mutex_lock(&registry);
    const bool last = --home->users == 0;
    for (struct sim_home **at = &homes; last && *at; at = &(*at)->next)
        if (*at == home) {
            *at = home->next;
            break;
        }
    pthread_mutex_unlock(&registry);
    /* In a forked child the turn may be a thread's that is not there: then all of it stays. */
    if (!last || pthread_mutex_trylock(&home->turn))
        return;
    give_back_late(home);
    pthread_mutex_unlock(&home->turn);
    sim_gpu_close(home->gpu, leaks, leaked_bytes);
    pthread_mutex_destroy(&home->turn);
    pthread_mutex_destroy(&home->late_lock);
    free(home->embedded);
    free(home);
}

struct sim_gpu *sim_home_gpu(struct sim_home *home) {
    return home->gpu;
}

struct sim_module **sim_home_embedded(struct sim_home *home, size_t kernel) {
    return &home->embedded[kernel];
}
