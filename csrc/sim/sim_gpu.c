/* sim_gpu.c: opens and closes a simulated GPU. Knows no module and no kernel. */
#include "core/sim_internal.h"

#include <stdlib.h>

enum sim_status sim_gpu_open(const char *preset, const struct sim_limits *limits,
                             struct sim_gpu **out, struct sim_error *error) {
    const struct sim_preset *p = sim_preset_find(preset);
    struct sim_gpu *gpu;
    *out = NULL;
    if (!p)
        return sim_fail(error, SIM_NOT_FOUND, 0, 0, "there is no preset '%.60s'", preset);
    gpu = calloc(1, sizeof *gpu);
    if (!gpu || !sim_rows_build()) {
        free(gpu);
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for a simulated GPU");
    }
    gpu->preset = p;
    gpu->next_address = SIM_GLOBAL_BASE;
    if (limits)
        gpu->limits = *limits;
    else
        sim_default_limits(&gpu->limits);
    pthread_mutex_init(&gpu->lock, NULL);
    *out = gpu;
    return SIM_OK;
}

void sim_gpu_close(struct sim_gpu *gpu, uint64_t *leaks, uint64_t *leaked_bytes) {
    uint64_t count = 0, bytes = 0;
    if (gpu) {
        while (gpu->modules)
            sim_module_unload(gpu->modules);
        for (size_t i = 0; i < gpu->region_count; i++) {
            count += !gpu->regions[i].module_owned;
            bytes += gpu->regions[i].module_owned ? 0 : gpu->regions[i].bytes;
        }
        sim_heap_close(gpu);
        sim_memory_close(gpu);
        pthread_mutex_destroy(&gpu->lock);
        free(gpu);
    }
    if (leaks)
        *leaks = count;
    if (leaked_bytes)
        *leaked_bytes = bytes;
}

const struct sim_preset *sim_gpu_preset(const struct sim_gpu *gpu) { return gpu->preset; }
