/* sim_ptx.c: the kernels of a PTX text, without a device. */
#include "../sim/sim.h"
#include "sim_device.h"

struct entry_listener {
    device_entry_function *found;
    void *state;
};

static int entry_found(void *state, const char *kernel, const struct sim_param *params,
                       uint32_t count) {
    const struct entry_listener *listener = state;
    int failed = listener->found(listener->state, kernel, NULL, 0);
    for (uint32_t i = 0; i < count && !failed; i++)
        failed = listener->found(listener->state, kernel, params[i].type, params[i].size);
    return failed;
}

enum status sim_device_ptx_entries(const char *ptx, size_t bytes, device_entry_function *found,
                                   void *state) {
    struct entry_listener listener = {found, state};
    struct sim_error error = {0};
    switch (sim_ptx_entries(ptx, bytes, entry_found, &listener, &error)) {
    case SIM_OK:
        return STATUS_OK;
    case SIM_NO_MEMORY:
        return status_fail(STATUS_NO_HOST_MEMORY, "%s", error.text);
    case SIM_INTERRUPTED:
        return status_fail(STATUS_INTERRUPTED, "interrupted");
    default:
        return status_ptx_error(error.line, error.column, error.text);
    }
}
