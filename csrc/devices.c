/* devices.c: the list of device kinds and their names; the only file that knows every device. */
#include "devices.h"

#include "devices/cpu/cpu_device.h"
#include "devices/cpu/cpu_isa.h"
#include "devices/cuda/cuda_device.h"
#include "devices/sim_device.h"
#include "devices/sim_progress.h"

#include <string.h>

const struct device_ops *const device_kinds[] = {&cuda_device_ops, &sim_device_ops, &cpu_device_ops,
                                                 NULL};

enum status device_find(const char *argument, const char *name, const struct device_ops **ops,
                        const char **which) {
    const char *colon = strchr(name, ':');
    const size_t length = colon ? (size_t)(colon - name) : strlen(name);
    for (const struct device_ops *const *kind = device_kinds; *kind; kind++)
        if (strlen((*kind)->kind) == length && memcmp((*kind)->kind, name, length) == 0 &&
            strlen(name) - length <= DEVICE_WHICH) {
            *ops = *kind;
            *which = colon ? colon + 1 : "";
            return STATUS_OK;
        }
    char list[256];
    sim_device_names(list, sizeof list);
    return status_fail(
        STATUS_BAD_VALUE,
        "%s: '%.64s' is not a device; use 'cuda', 'cuda:1' (a GPU by number), 'cpu', "
        "'sim', or a simulated GPU by name: %s",
        argument, name, list);
}

enum status devices_about(struct devices_about *about) {
    const enum status status = cpu_isa_choose();
    if (status)
        return status;
    about->cuda_toolkit = cuda_toolkit_version();
    about->cuda_driver = cuda_driver_version(&about->cuda_library);
    about->cpu_instruction_set = cpu_isa_name();
    return STATUS_OK;
}

void devices_leaks(uint64_t *count, uint64_t *bytes) { sim_device_leaks(count, bytes); }

void devices_traffic(uint64_t totals[DEVICES_TRAFFIC]) { sim_device_traffic(totals); }

void devices_progress(struct device_progress *progress) { sim_progress_read(progress); }

enum status devices_ptx_entries(const char *ptx, size_t bytes, device_entry_function *found,
                                void *state) {
    return sim_device_ptx_entries(ptx, bytes, found, state);
}
