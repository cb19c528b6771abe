/*
 * fuzz_parse.c: libFuzzer target. Any text at all: list its kernels, load it, and decode them.
 * .ci/run has the commands; without traced comparisons and with -entropic=0 -max_len=500 a core
 * tries more than 10,000 texts per second.
 */
#include "../../csrc/sim/sim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int entry_found(void *state, const char *kernel, const struct sim_param *params,
                       uint32_t count) {
    size_t *bytes = state;
    for (uint32_t i = 0; i < count; i++)
        *bytes += params[i].size + (kernel[0] == params[i].type[0]);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sim_limits limits;
    struct sim_gpu *gpu;
    struct sim_module *module;
    struct sim_kernel *kernel;
    struct sim_error error;
    char listing[256];
    size_t bytes = 0;
    sim_ptx_entries((const char *)data, size, entry_found, &bytes, &error);
    sim_default_limits(&limits);
    limits.parse_bytes = 16u << 20;
    limits.device_bytes = 1u << 20;
    if (sim_gpu_open("h200", &limits, &gpu, &error))
        return 0;
    if (sim_module_load(gpu, (const char *)data, size, &module, &error) == SIM_OK)
        for (size_t i = 0; i < sim_module_kernels(module); i++)
            if (!sim_kernel_get(module, sim_module_kernel_name(module, i), &kernel, &error))
                sim_kernel_disassemble(kernel, listing, sizeof listing);
    sim_gpu_close(gpu, NULL, NULL);
    return 0;
}
