/* sim_home.h: the simulated GPUs that are open, one for each preset: all queues of a preset share
 * its memory, modules and textures, as those of a real GPU do, and work on it one at a time.
 */
#ifndef GPUOPT_SIM_HOME_H
#define GPUOPT_SIM_HOME_H

#include "../device.h"
#include "../sim/sim.h"

struct sim_home;

/* Opens the preset's GPU for its first user. The last user closes it, and receives the number of
 * allocations that nobody freed. */
enum status sim_home_open(const struct sim_preset *preset, struct sim_home **home);
void sim_home_close(struct sim_home *home, uint64_t *leaks, uint64_t *leaked_bytes);
struct sim_gpu *sim_home_gpu(struct sim_home *home);

/* The memory of a preset's GPU, and the bytes that it can allocate now: the host needs room for
 * them, too. */
uint64_t sim_home_total_bytes(const struct sim_preset *preset);
uint64_t sim_home_free_bytes(const struct sim_preset *preset);

/* Between these the GPU is the caller's. The first waits for its turn and polls meanwhile. */
enum status sim_home_begin(struct sim_home *home, struct device *device);
void sim_home_end(struct sim_home *home);

/* Gives something back now, or when whoever works on the GPU is through: destructors call this,
 * which may hold a lock that he needs (Python's). */
void sim_home_free(struct sim_home *home, uint64_t address);
void sim_home_close_texture(struct sim_home *home, uint64_t handle);
void sim_home_unload(struct sim_home *home, struct sim_module *module);

/* The module of an embedded kernel, loaded once. Between begin and end. */
struct sim_module **sim_home_embedded(struct sim_home *home, size_t kernel);

#endif
