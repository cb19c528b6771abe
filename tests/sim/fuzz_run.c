/*
 * fuzz_run.c: libFuzzer target. Any text: load it, and run its kernels for a few steps with all
 * checks on. .ci/run has the commands; see fuzz_parse.c.
 */
#include "../../csrc/sim/sim.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(struct sim_gpu *gpu, struct sim_kernel *kernel, uint64_t address) {
    static const uint32_t shapes[3][2] = {{2, 40}, {3, 64}, {3, 64}};
    struct sim_kernel_info info;
    struct sim_report *report;
    struct sim_error error;
    uint64_t params[64];
    sim_kernel_describe(kernel, &info);
    if (info.param_bytes > sizeof params)
        return;
    for (size_t i = 0; i < 64; i++)
        params[i] = address + i * 64;
    for (int i = 0; i < 3; i++) {
        struct sim_launch launch = {0};
        launch.kernel = kernel;
        launch.grid[0] = shapes[i][0];
        launch.block[0] = shapes[i][1];
        launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
        launch.shared_bytes = 256;
        launch.param_buffer = params;
        launch.param_buffer_bytes = info.param_bytes;
        launch.flags = i ? SIM_LAUNCH_COLLECT : SIM_LAUNCH_COOPERATIVE;
        launch.seed = i == 2 ? info.instructions | 1u : 0; /* in an order of warps */
        sim_launch(gpu, &launch, &report, &error);
        sim_report_free(report);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char preset[][8] = {"h200", "g80", "gt200", "m2090"};
    struct sim_limits limits;
    struct sim_gpu *gpu;
    struct sim_module *module;
    struct sim_kernel *kernel;
    struct sim_error error;
    uint64_t address;
    sim_default_limits(&limits);
    limits.parse_bytes = 16u << 20;
    limits.device_bytes = 1u << 20;
    limits.launch_bytes = 32u << 20;
    limits.local_bytes = 16u << 10;
    limits.call_depth = 16;
    limits.steps = 5000;
    if (sim_gpu_open(preset[size & 3], &limits, &gpu, &error))
        return 0;
    if (!sim_alloc(gpu, 8192, &address, &error) && !sim_fill(gpu, address, 1, 4096, &error) &&
        !sim_module_load(gpu, (const char *)data, size, &module, &error))
        for (size_t i = 0; i < sim_module_kernels(module); i++)
            if (!sim_kernel_get(module, sim_module_kernel_name(module, i), &kernel, &error))
                run(gpu, kernel, address);
    sim_gpu_close(gpu, NULL, NULL);
    return 0;
}
