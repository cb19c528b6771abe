/* cpu_device.c: the cpu device. Memory is the host's; launches complete at once. Knows no
 * operation: its kernels are the tables that cpu_kernels.h names.
 */
#include "cpu_device.h"

#include "../../host/host_memory.h"
#include "../../host/host_threads.h"
#include "cpu_isa.h"
#include "cpu_kernels.h"
#include "cpu_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct cpu_queue {
    struct device device;
    double begin; /* seconds */
};

enum { ALIGNMENT = 64 }; /* a cache line */

/* --- count, open, close, info */

static enum status cpu_count(int *count) {
    *count = 1;
    return STATUS_OK;
}

static enum status cpu_open(const char *which, struct device **opened) {
    int ordinal;
    enum status status = device_ordinal("cpu", which, 1, &ordinal);
    if (!status)
        status = cpu_isa_choose();
    if (!status)
        status = host_threads_check();
    if (status)
        return status;
    struct cpu_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for a queue");
    queue->device.ops = &cpu_device_ops;
    queue->device.capabilities = DEVICE_HOST_MEMORY | DEVICE_TIMER;
    *opened = &queue->device;
    return STATUS_OK;
}

static void cpu_close(struct device *device) { free(device); }

/* The value of a line "key : value" of a file in /proc, or "". */
static void proc_value(const char *path, const char *key, char *value, size_t size) {
    char line[256];
    FILE *file = fopen(path, "r");
    *value = 0;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0 && strchr(line, ':')) {
            const char *start = strchr(line, ':') + 1;
            start += strspn(start, " \t");
            snprintf(value, size, "%.*s", (int)strcspn(start, "\n"), start);
            break;
        }
    if (file)
        fclose(file);
}

static enum status cpu_info(const char *which, struct device_info *info) {
    int ordinal;
    const enum status status = device_ordinal("cpu", which, 1, &ordinal);
    if (status)
        return status;
    snprintf(info->name, sizeof info->name, "cpu");
    info->capabilities = DEVICE_HOST_MEMORY | DEVICE_TIMER;
    info->multiprocessors = cpu_threads();
    info->threads_per_multiprocessor = 1;
    info->cache_bytes = cpu_cache_bytes();
    return STATUS_OK;
}

static enum status cpu_about(const char *which, struct device_about *about) {
    (void)which;
    proc_value("/proc/cpuinfo", "model name", about->description, sizeof about->description);
    if (!*about->description)
        snprintf(about->description, sizeof about->description, "CPU");
    const long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    about->memory_total = page > 0 && pages > 0 ? (uint64_t)page * (uint64_t)pages : 0;
    about->memory_free = host_memory_available();
    return STATUS_OK;
}

/* --- memory */

static enum status cpu_alloc(struct device *device, size_t bytes, device_address *address) {
    (void)device;
    void *memory = bytes > SIZE_MAX - ALIGNMENT
                       ? NULL
                       : aligned_alloc(ALIGNMENT, bytes / ALIGNMENT * ALIGNMENT + ALIGNMENT);
    if (!memory)
        return status_no_device_memory("cpu", bytes, host_memory_available(), "");
    *address = (device_address)(uintptr_t)memory;
    return STATUS_OK;
}

static void cpu_free(struct device *device, device_address address) {
    (void)device;
    free((void *)(uintptr_t)address);
}

enum { COPY_PART = 16 << 20 }; /* bytes between two polls */

static enum status cpu_copy_in(struct device *device, device_address to,
                               const struct device_source *from, size_t bytes) {
    enum status status = STATUS_OK;
    for (size_t done = 0; done < bytes && !status;) {
        const size_t part = bytes - done < COPY_PART ? bytes - done : COPY_PART;
        status = device_read(from, done, (char *)(uintptr_t)to + done, part);
        if (!status)
            status = device_poll(device);
        done += part;
    }
    return status;
}

static enum status cpu_copy_out(struct device *device, void *to, device_address from,
                                size_t bytes) {
    (void)device;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return STATUS_OK;
}

static enum status cpu_copy(struct device *device, device_address to, device_address from,
                            size_t bytes) {
    return cpu_copy_out(device, (void *)(uintptr_t)to, from, bytes);
}

static enum status cpu_fill(struct device *device, device_address to, uint8_t value, size_t bytes) {
    (void)device;
    memset((void *)(uintptr_t)to, value, bytes);
    return STATUS_OK;
}

/* --- modules, kernels, launches */

static enum status cpu_kernel_get(struct device *device, struct device_module *module,
                                  const char *symbol, struct device_kernel **kernel) {
    (void)device;
    (void)module;
    const struct {
        const struct cpu_kernel *kernels;
        size_t count;
    } tables[] = {
#define FAMILY(name, files) {cpu_##files##_kernels, cpu_##files##_kernel_count},
        REG_FAMILIES(FAMILY)
#undef FAMILY
    };
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t k = 0; k < tables[t].count; k++)
            if (strcmp(tables[t].kernels[k].symbol, symbol) == 0) {
                *kernel = (struct device_kernel *)(uintptr_t)(tables[t].kernels + k);
                return STATUS_OK;
            }
    return status_fail(STATUS_DEVICE_ERROR, "cpu: there is no kernel %s", symbol);
}

static enum status cpu_launch(struct device *device, const struct device_launch *launch) {
    const struct cpu_kernel *kernel = (const struct cpu_kernel *)launch->kernel;
    return kernel->run(device, kernel, launch->arguments);
}

static enum status cpu_sync(struct device *device) {
    (void)device;
    return STATUS_OK;
}

/* --- time */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static enum status cpu_timer_begin(struct device *device) {
    ((struct cpu_queue *)device)->begin = now();
    return STATUS_OK;
}

static enum status cpu_timer_end(struct device *device, double *seconds) {
    *seconds = now() - ((struct cpu_queue *)device)->begin;
    return STATUS_OK;
}

const struct device_ops cpu_device_ops = {
    .kind = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .about = cpu_about,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .fill = cpu_fill,
    .module_load = device_no_module_load,
    .module_unload = device_no_module_unload,
    .kernel_get = cpu_kernel_get,
    .module_variable = device_no_module_variable,
    .parameter_bytes = device_no_parameter_bytes,
    .kernel_resources = device_no_kernel_resources,
    .launch = cpu_launch,
    .sync = cpu_sync,
    .pin = device_no_pin,
    .unpin = device_no_unpin,
    .copy = cpu_copy,
    .lags = device_no_lags,
    .follow = device_no_follow,
    .owner = device_no_owner,
    .adopt = device_no_adopt,
    .check_stream = device_no_check_stream,
    .graph_open = device_no_graph_open,
    .graph_launch = device_no_graph_launch,
    .graph_close = device_no_graph_close,
    .graph_memory = device_no_graph_memory,
    .texture_open = device_no_texture_open,
    .texture_read = device_no_texture_read,
    .texture_close = device_no_texture_close,
    .timer_begin = cpu_timer_begin,
    .timer_end = cpu_timer_end,
    .counters = device_no_counters,
};
