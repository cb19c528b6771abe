/* sim_progress.c: how far a launch on a simulated GPU is, for those who wait for it. Launches that
 * run at once overwrite each other's figures.
 */
#include "sim_progress.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The launch that was last heard of, in this process. */
static struct device_progress running;

void sim_progress_read(struct device_progress *progress) {
    progress->blocks = __atomic_load_n(&running.blocks, __ATOMIC_RELAXED);
    progress->ended = __atomic_load_n(&running.ended, __ATOMIC_RELAXED);
    progress->steps = __atomic_load_n(&running.steps, __ATOMIC_RELAXED);
    progress->expected = __atomic_load_n(&running.expected, __ATOMIC_RELAXED);
}

void sim_progress_note(uint64_t ended, uint64_t blocks, uint64_t steps) {
    __atomic_store_n(&running.ended, ended, __ATOMIC_RELAXED);
    __atomic_store_n(&running.steps, steps, __ATOMIC_RELAXED);
    __atomic_store_n(&running.blocks, blocks, __ATOMIC_RELAXED);
}

/* The last launch that ended well: another one of its kernel, grid and block is expected to take as
 * many instructions. */
static struct {
    pthread_mutex_t lock;
    char kernel[128];
    unsigned grid[3], block[3];
    uint64_t steps;
} last_launch = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sim_progress_begin(const char *kernel, const struct device_launch *launch) {
    pthread_mutex_lock(&last_launch.lock);
    const int same = strncmp(last_launch.kernel, kernel, sizeof last_launch.kernel - 1) == 0 &&
                     !memcmp(last_launch.grid, launch->grid, sizeof last_launch.grid) &&
                     !memcmp(last_launch.block, launch->block, sizeof last_launch.block);
    __atomic_store_n(&running.expected, same ? last_launch.steps : 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&last_launch.lock);
}

void sim_progress_end(const char *kernel, const struct device_launch *launch, uint64_t steps) {
    pthread_mutex_lock(&last_launch.lock);
    snprintf(last_launch.kernel, sizeof last_launch.kernel, "%s", kernel);
    memcpy(last_launch.grid, launch->grid, sizeof last_launch.grid);
    memcpy(last_launch.block, launch->block, sizeof last_launch.block);
    last_launch.steps = steps;
    pthread_mutex_unlock(&last_launch.lock);
}
