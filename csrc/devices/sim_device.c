/* sim_device.c: the simulated GPU as a device. All queues of a preset share one simulated GPU
 * (sim_home.c), one at a time; each queue keeps its own reports. Launches complete at once, on all
 * host cores; results do not depend on the number of cores. Knows no Python and no operation.
 */
#include "sim_device.h"

#include "../host/host_threads.h"
#include "../sim/sim.h"
#include "sim_home.h"
#include "sim_progress.h"
#include "sim_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A texture's own copy of its rows. */
struct array {
    struct array *next;
    struct device_texture_handles handles;
    device_address rows;
};

struct sim_queue {
    struct device device;
    struct sim_home *home;
    struct sim_gpu *gpu; /* the home's */
    struct array *arrays;
    struct sim_record *first, **last;
};

/* Totals of what closed queues still held. */
static uint64_t leaked, leaked_bytes;

void sim_device_leaks(uint64_t *count, uint64_t *bytes) {
    *count = __atomic_load_n(&leaked, __ATOMIC_RELAXED);
    *bytes = __atomic_load_n(&leaked_bytes, __ATOMIC_RELAXED);
}

static struct sim_queue *queue_of(struct device *device) { return (struct sim_queue *)device; }

static enum status fail(const struct sim_queue *queue, const struct sim_error *error) {
    switch (error->status) {
    case SIM_OK:
        return STATUS_OK;
    case SIM_SYNTAX:
    case SIM_UNSUPPORTED:
        return status_ptx_error(error->line, error->column, error->text);
    case SIM_NO_MEMORY:
        return status_fail(STATUS_NO_HOST_MEMORY, "sim:%s: %s", sim_gpu_preset(queue->gpu)->name,
                           error->text);
    case SIM_INTERRUPTED:
        return status_fail(STATUS_INTERRUPTED, "interrupted");
    case SIM_ARGUMENT:
        return status_fail(STATUS_BAD_VALUE, "sim:%s: %s", sim_gpu_preset(queue->gpu)->name,
                           error->text);
    default:
        return status_fail(STATUS_SIM_ERROR, "%s", error->text);
    }
}

/* A module or kernel that cannot be loaded: exceeding a limit of the parser is an error of the
 * text, too. */
static enum status fail_load(const struct sim_queue *queue, const struct sim_error *error) {
    return error->status == SIM_LIMIT ? status_ptx_error(error->line, error->column, error->text)
                                      : fail(queue, error);
}

/* A launch that a check ended: the first finding gives the location; for an endless launch, its own
 * finding does. */
static enum status fail_launch(const struct sim_queue *queue, const struct sim_error *error,
                               const struct sim_report *report) {
    const bool endless = error->status == SIM_STEPS;
    const struct sim_finding *found = NULL;
    size_t count = report ? sim_report_findings(report, &found) : 0;
    for (; endless && count && found->kind != SIM_FIND_ENDLESS; count--)
        found++;
    if ((error->status != SIM_FINDING && !endless) || !count)
        return fail(queue, error);
    const struct status_finding finding = sim_record_finding(found);
    return status_sim_finding(&finding);
}

/* --- count, open, close, info */

void sim_device_names(char *list, size_t size) {
    size_t length = 0;
    *list = '\0';
    for (size_t i = 0; sim_preset_at(i) && length < size; i++)
        length += (size_t)snprintf(list + length, size - length, "%s'sim:%s'", i ? ", " : "",
                                   sim_preset_at(i)->name);
}

static enum status find_preset(const char *which, const struct sim_preset **found) {
    if (!*which)
        which = "h200";
    *found = sim_preset_find(which);
    if (*found)
        return STATUS_OK;
    char *end, list[256] = "";
    const unsigned long index = strtoul(which, &end, 10);
    if (*which >= '0' && *which <= '9' && !*end && sim_preset_at(index)) {
        *found = sim_preset_at(index);
        return STATUS_OK;
    }
    sim_device_names(list, sizeof list);
    return status_fail(STATUS_BAD_VALUE, "device: 'sim:%.32s' is not a device; use one of %s",
                       which, list);
}

static enum status sim_device_count(int *count) {
    *count = 0;
    while (sim_preset_at((size_t)*count))
        ++*count;
    return STATUS_OK;
}

static void forget(struct sim_queue *queue) {
    while (queue->first) {
        struct sim_record *record = queue->first;
        queue->first = record->next;
        sim_record_free(record);
    }
    queue->last = &queue->first;
}

static void sim_device_texture_close(struct device *device, uint64_t handle) {
    struct sim_queue *queue = queue_of(device);
    sim_home_close_texture(queue->home, handle);
    for (struct array **at = &queue->arrays; *at; at = &(*at)->next)
        if ((*at)->handles.texture == handle) {
            struct array *array = *at;
            *at = array->next;
            sim_home_free(queue->home, array->rows);
            free(array);
            return;
        }
}

static void sim_device_close(struct device *device) {
    struct sim_queue *queue = queue_of(device);
    uint64_t count = 0, bytes = 0;
    forget(queue);
    for (; queue->arrays; count++) /* its opener closes it */
        sim_device_texture_close(device, queue->arrays->handles.texture);
    __atomic_add_fetch(&leaked, count, __ATOMIC_RELAXED);
    sim_home_close(queue->home, &count, &bytes);
    __atomic_add_fetch(&leaked, count, __ATOMIC_RELAXED);
    __atomic_add_fetch(&leaked_bytes, bytes, __ATOMIC_RELAXED);
    free(queue);
}

static enum status sim_device_open(const char *which, struct device **opened) {
    const struct sim_preset *preset;
    enum status status = find_preset(which, &preset);
    if (!status)
        status = host_threads_check();
    if (status)
        return status;
    struct sim_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return status_fail(STATUS_NO_HOST_MEMORY, "sim:%s: no memory for a queue", preset->name);
    if ((status = sim_home_open(preset, &queue->home))) {
        free(queue);
        return status;
    }
    queue->gpu = sim_home_gpu(queue->home);
    queue->device.ops = &sim_device_ops;
    queue->device.capabilities = DEVICE_KERNELS | DEVICE_COUNTERS | DEVICE_TEXTURES;
    queue->last = &queue->first;
    *opened = &queue->device;
    return STATUS_OK;
}

static enum status sim_device_info(const char *which, struct device_info *info) {
    const struct sim_preset *preset;
    const enum status status = find_preset(which, &preset);
    if (status)
        return status;
    snprintf(info->name, sizeof info->name, "sim:%s", preset->name);
    info->capabilities = DEVICE_KERNELS | DEVICE_COUNTERS | DEVICE_TEXTURES;
    info->multiprocessors = (int)preset->sm_count;
    info->threads_per_multiprocessor = (int)preset->warps_per_sm * 32;
    info->threads_per_block = (int)preset->threads_per_block;
    info->shared_per_block = (int)preset->shared_per_block;
    info->compute_capability = (int)preset->cc;
    info->clock_khz = (int)(preset->clock_ghz * 1e6);
    info->memory_rate = (uint64_t)(preset->bandwidth_gbs * 1e9);
    return STATUS_OK;
}

static enum status sim_device_about(const char *which, struct device_about *about) {
    const struct sim_preset *preset;
    const enum status status = find_preset(which, &preset);
    if (status)
        return status;
    snprintf(about->description, sizeof about->description, "simulated %s", preset->title);
    about->memory_total = sim_home_total_bytes(preset);
    about->memory_free = sim_home_free_bytes(preset);
    return STATUS_OK;
}

/* --- memory */

/* Totals of this process. */
static uint64_t traffic[SIM_TRAFFIC];

static void note_traffic(enum sim_traffic what, uint64_t amount) {
    __atomic_fetch_add(&traffic[what], amount, __ATOMIC_RELAXED);
}

void sim_device_traffic(uint64_t totals[SIM_TRAFFIC]) {
    for (int i = 0; i < SIM_TRAFFIC; i++)
        totals[i] = __atomic_load_n(&traffic[i], __ATOMIC_RELAXED);
}

static enum status sim_device_alloc(struct device *device, size_t bytes, device_address *address) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    const enum status begun = sim_home_begin(queue->home, device);
    if (begun)
        return begun;
    note_traffic(SIM_ALLOCATIONS, 1);
    const enum sim_status status = sim_alloc(queue->gpu, bytes ? bytes : 1, address, &error);
    sim_home_end(queue->home);
    if (status == SIM_LIMIT || status == SIM_NO_MEMORY) {
        char name[32];
        uint64_t used, limit;
        const struct sim_preset *preset = sim_gpu_preset(queue->gpu);
        sim_memory_use(queue->gpu, &used, &limit);
        const uint64_t room = sim_home_free_bytes(preset);
        snprintf(name, sizeof name, "sim:%s", preset->name);
        return status_no_device_memory(name, bytes, room,
                                       room < limit - used ? " (each costs 3 of the host's)" : "");
    }
    return fail(queue, &error);
}

static void sim_device_free(struct device *device, device_address address) {
    sim_home_free(queue_of(device)->home, address);
}

enum { COPY_PART = 4 << 20 }; /* bytes between two polls */

static enum status sim_device_copy_in(struct device *device, device_address to,
                                      const struct device_source *from, size_t bytes) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    enum status status = STATUS_OK;
    void *buffer = NULL;
    note_traffic(SIM_BYTES_IN, bytes);
    note_traffic(SIM_COPIES_IN, 1);
    if (!from->data && !(buffer = malloc(COPY_PART)))
        return status_fail(STATUS_NO_HOST_MEMORY, "sim: no memory for a copy");
    for (size_t done = 0; done < bytes && !status;) {
        const size_t part = bytes - done < COPY_PART ? bytes - done : COPY_PART;
        const void *data = buffer ? buffer : (const char *)from->data + done;
        if (buffer)
            status = device_read(from, done, buffer, part);
        if (!status)
            status = sim_home_begin(queue->home, device);
        if (!status) {
            sim_copy_in(queue->gpu, to + done, data, part, &error);
            sim_home_end(queue->home);
            status = fail(queue, &error);
        }
        if (!status)
            status = device_poll(device);
        done += part;
    }
    free(buffer);
    return status;
}

static enum status sim_device_copy_out(struct device *device, void *to, device_address from,
                                       size_t bytes) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    const enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    note_traffic(SIM_BYTES_OUT, bytes);
    note_traffic(SIM_COPIES_OUT, 1);
    sim_copy_out(queue->gpu, to, from, bytes, &error);
    sim_home_end(queue->home);
    return fail(queue, &error);
}

static enum status sim_device_fill(struct device *device, device_address to, uint8_t value,
                                   size_t bytes) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    const enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    sim_fill(queue->gpu, to, value, bytes, &error);
    sim_home_end(queue->home);
    return fail(queue, &error);
}

/* --- modules, kernels, launches */

static enum status sim_device_module_load(struct device *device, const char *ptx, size_t bytes,
                                          struct device_module **module) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    struct sim_module *loaded = NULL;
    const enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    sim_module_load(queue->gpu, ptx, bytes, &loaded, &error);
    sim_home_end(queue->home);
    *module = (struct device_module *)loaded;
    return fail_load(queue, &error);
}

static void sim_device_module_unload(struct device *device, struct device_module *module) {
    sim_home_unload(queue_of(device)->home, (struct sim_module *)module);
}

/* Returns an embedded kernel's module, parsed at first use. Call between begin and end. */
static enum status embedded_module(struct sim_queue *queue, const char *symbol,
                                   struct sim_module **module) {
    const struct image_kernel *kernel;
    struct sim_error error = {0};
    enum status status = gpuopt_kernel_of(symbol, &kernel);
    if (status)
        return status;
    struct sim_module **kept = sim_home_embedded(queue->home, (size_t)(kernel - gpuopt_kernels));
    if (!*kept) {
        char *text;
        size_t bytes;
        const int capability = (int)sim_gpu_preset(queue->gpu)->cc;
        const enum ptx_target target = gpuopt_ptx_target(kernel, capability);
        if ((status = gpuopt_kernel_ptx(kernel, target, &text, &bytes)))
            return status;
        sim_module_load(queue->gpu, text, bytes, kept, &error);
        free(text);
        if ((status = fail_load(queue, &error)))
            return status;
    }
    *module = *kept;
    return STATUS_OK;
}

static enum status sim_device_kernel_get(struct device *device, struct device_module *module,
                                         const char *symbol, struct device_kernel **kernel) {
    struct sim_queue *queue = queue_of(device);
    struct sim_module *within = (struct sim_module *)module;
    struct sim_error error = {0};
    struct sim_kernel *found = NULL;
    enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    if (!within)
        status = embedded_module(queue, symbol, &within);
    if (!status)
        sim_kernel_get(within, symbol, &found, &error);
    sim_home_end(queue->home);
    *kernel = (struct device_kernel *)found;
    return status ? status : fail_load(queue, &error);
}

static enum status sim_device_module_variable(struct device *device, struct device_module *module,
                                              const char *name, device_address *address,
                                              size_t *bytes) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    uint64_t size = 0;
    enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    if (module)
        sim_module_symbol((struct sim_module *)module, name, address, &size, &error);
    else
        error.status = SIM_NOT_FOUND;
    sim_home_end(queue->home);
    *bytes = (size_t)size;
    return error.status == SIM_NOT_FOUND
               ? status_fail(STATUS_BAD_VALUE, "name: the module has no variable %.200s", name)
               : fail(queue, &error);
}

static enum status sim_device_parameter_bytes(struct device *device,
                                              const struct device_kernel *kernel, unsigned index,
                                              size_t *bytes) {
    (void)device;
    struct sim_kernel_info info;
    sim_kernel_describe((const struct sim_kernel *)kernel, &info);
    *bytes = index < info.param_count ? info.params[index].size : 0;
    return STATUS_OK;
}

static enum status sim_device_kernel_resources(struct device *device,
                                               const struct device_kernel *kernel,
                                               struct device_resources *resources) {
    (void)device;
    struct sim_kernel_info info;
    sim_kernel_describe((const struct sim_kernel *)kernel, &info);
    *resources = (struct device_resources){info.registers, info.local_bytes, info.shared_bytes};
    return STATUS_OK;
}

static int poll(void *state, uint64_t ended, uint64_t blocks, uint64_t steps) {
    struct device *device = state;
    sim_progress_note(ended, blocks, steps);
    return device->interrupted && device->interrupted(device->interrupted_state);
}

/* Whether to trace this launch. */
static bool traces(const struct device *device, const unsigned grid[3],
                   struct sim_trace_request *request) {
    struct device_tracing *tracing = device->recording ? device->tracing : NULL;
    if (!tracing || (!tracing->middle && (tracing->done || tracing->launches_before-- > 0)))
        return false;
    tracing->done = true;
    const unsigned *block = tracing->block, middle[3] = {grid[0] / 2, grid[1] / 2, grid[2] / 2};
    if (tracing->middle)
        block = middle;
    *request = (struct sim_trace_request){
        .block = {block[0], block[1], block[2]},
        .warp = tracing->warp,
        .most_events = tracing->most_events,
    };
    return true;
}

/* Whether the GPU has the resources that a block requires. */
static bool fits(const struct sim_queue *queue, const struct sim_kernel_info *info,
                 const struct device_launch *launch) {
    const struct sim_preset *preset = sim_gpu_preset(queue->gpu);
    const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    const uint64_t shared = (uint64_t)info->shared_bytes + launch->shared_bytes;
    const bool fits_grid = launch->any_grid ||
                           (launch->grid[0] <= preset->grid_x && launch->grid[2] <= preset->grid_z);
    return fits_grid && threads <= preset->threads_per_block &&
           (!info->max_threads || threads <= info->max_threads) &&
           shared <= preset->shared_per_block;
}

static unsigned launch_flags(const struct device *device, const struct device_launch *launch) {
    const bool records = device->recording;
    return (device->collecting ? SIM_LAUNCH_COLLECT : 0u) |
           (launch->flags & DEVICE_COOPERATIVE ? SIM_LAUNCH_COOPERATIVE : 0u) |
           (launch->flags & DEVICE_BY_VALUE ? SIM_LAUNCH_BY_VALUE : 0u) |
           (launch->flags & DEVICE_PREFER_L1 ? SIM_LAUNCH_PREFER_L1 : 0u) |
           (launch->any_grid ? SIM_LAUNCH_ANY_GRID : 0u) |
           (launch->unchecked ? SIM_LAUNCH_NO_RACES | SIM_LAUNCH_NO_UNINIT : 0u) |
           (records && !device->collecting ? SIM_LAUNCH_STATEMENTS : 0u) |
           (records && device->tracing && device->tracing->caches ? SIM_LAUNCH_CACHES : 0u);
}

static void keep_record(struct sim_queue *queue, struct sim_record *record) {
    if (record) {
        *queue->last = record;
        queue->last = &record->next;
    }
}

static enum status sim_device_launch(struct device *device, const struct device_launch *launch) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    struct sim_kernel_info info;
    struct sim_report *report = NULL;
    sim_kernel_describe((const struct sim_kernel *)launch->kernel, &info);
    if (info.param_count != launch->argument_count)
        return status_fail(STATUS_BAD_VALUE, "args: kernel %s requires %u arguments, %u were given",
                           info.name, info.param_count, launch->argument_count);
    struct sim_trace_request trace;
    struct sim_array arrays[DEVICE_ARRAYS_MOST];
    for (unsigned i = 0; i < launch->array_count; i++) {
        const struct device_array *from = &launch->arrays[i];
        arrays[i] = (struct sim_array){from->argument, from->item,    from->bytes,
                                       from->label,    from->is_copy, from->fields};
    }
    const struct sim_launch request = {
        .kernel = (struct sim_kernel *)(uintptr_t)launch->kernel,
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .block = {launch->block[0], launch->block[1], launch->block[2]},
        .shared_bytes = launch->shared_bytes,
        .args = (const void *const *)launch->arguments,
        .flags = launch_flags(device, launch),
        .arrays = arrays,
        .array_count = launch->array_count,
        .host_threads = (unsigned)host_threads(),
        .steps = launch->steps,
        .seconds = launch->seconds,
        .idle_seconds = launch->idle_seconds,
        .poll = poll,
        .poll_arg = device,
        .trace = traces(device, launch->grid, &trace) ? &trace : NULL,
        .seed = launch->seed,
        .delays = launch->delays,
        .delay_count = launch->delay_count,
    };
    enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    sim_progress_begin(info.name, launch);
    sim_launch(queue->gpu, &request, &report, &error);
    sim_progress_note(0, 0, 0);
    if (report && !error.status)
        sim_progress_end(info.name, launch, sim_report_steps(report));
    sim_home_end(queue->home);
    status =
        error.status == SIM_ARGUMENT && (!fits(queue, &info, launch) ||
                                         launch->flags & (DEVICE_COOPERATIVE | DEVICE_PREFER_L1))
            ? status_fail(STATUS_UNFIT, "sim:%s: %s", sim_gpu_preset(queue->gpu)->name, error.text)
            : fail_launch(queue, &error, report);
    if (report && launch->output && *sim_report_output(report))
        *launch->output = strdup(sim_report_output(report));
    if (report && device->recording)
        keep_record(queue, sim_record_new(launch, &info, report));
    else
        sim_report_free(report);
    return status;
}

static enum status sim_device_sync(struct device *device) {
    (void)device;
    return STATUS_OK;
}

/* --- textures */

/* Copies the rows, as hardware does: later stores to them have no effect. */
static enum status array_open(struct sim_queue *queue, struct sim_texture *texture, size_t bytes,
                              struct sim_error *error) {
    struct array *array = malloc(sizeof *array);
    if (!array)
        return status_fail(STATUS_NO_HOST_MEMORY, "sim: no memory for a texture");
    *array = (struct array){.next = queue->arrays};
    enum status status = sim_device_alloc(&queue->device, bytes, &array->rows);
    if (!status)
        status = sim_home_begin(queue->home, &queue->device);
    const bool begun = !status && array->rows;
    if (!status && (sim_copy(queue->gpu, array->rows, texture->address, bytes, error) ||
                    (texture->address = array->rows,
                     sim_texture_open(queue->gpu, texture, &array->handles.texture,
                                      &array->handles.surface, error))))
        status = fail(queue, error);
    if (begun)
        sim_home_end(queue->home);
    if (status) {
        sim_device_free(&queue->device, array->rows);
        free(array);
        return status;
    }
    queue->arrays = array;
    return STATUS_OK;
}

enum {
    FORMAT_FLOAT32 = SIM_TEX_F32,
    FORMAT_INT32 = SIM_TEX_S32,
    FORMAT_UINT32 = SIM_TEX_U32,
    FORMAT_FLOAT16 = SIM_TEX_F16,
    FORMAT_INT16 = SIM_TEX_S16,
    FORMAT_UINT16 = SIM_TEX_U16,
    FORMAT_INT8 = SIM_TEX_S8,
    FORMAT_UINT8 = SIM_TEX_U8
};
static const int texture_formats[TEXEL_COUNT] = {
#define TEXEL(name, bytes) [TEXEL_##name] = FORMAT_##name,
    DEVICE_TEXELS(TEXEL)
#undef TEXEL
};
static const int texture_outsides[OUTSIDE_COUNT] = {
    [OUTSIDE_WRAP] = SIM_TEX_WRAP,
    [OUTSIDE_CLAMP] = SIM_TEX_CLAMP,
    [OUTSIDE_MIRROR] = SIM_TEX_MIRROR,
    [OUTSIDE_BORDER] = SIM_TEX_BORDER,
};

static enum status sim_device_texture_open(struct device *device,
                                           const struct device_texture *texture,
                                           struct device_texture_handles *made) {
    struct sim_queue *queue = queue_of(device);
    struct sim_error error = {0};
    struct sim_texture given = {
        .address = texture->data,
        .dimensions = texture->dimensions,
        .width = texture->width,
        .height = texture->height,
        .depth = texture->depth,
        .layers = texture->layers,
        .layered = texture->layered,
        .cube = texture->cube,
        .levels = texture->levels,
        .channels = texture->channels,
        .format = texture_formats[texture->texel],
        .as_fraction = !texture->as_integer,
        .outside = texture_outsides[texture->outside],
        .linear_filter = texture->linear_filter,
        .linear_levels = texture->linear_levels,
        .level_bias = texture->level_bias,
        .normalised = texture->normalised,
        .writable = texture->writable,
    };
    *made = (struct device_texture_handles){0};
    memcpy(given.border, texture->border, sizeof given.border);
    if (texture->dimensions) {
        const enum status status = array_open(queue, &given, device_texture_bytes(texture), &error);
        if (!status)
            *made = queue->arrays->handles;
        return status;
    }
    const enum status status = sim_home_begin(queue->home, device);
    if (status)
        return status;
    sim_texture_open(queue->gpu, &given, &made->texture, &made->surface, &error);
    sim_home_end(queue->home);
    return fail(queue, &error);
}

static enum status sim_device_texture_read(struct device *device, uint64_t texture, void *to,
                                           size_t bytes) {
    struct sim_queue *queue = queue_of(device);
    const struct array *array = queue->arrays;
    while (array && array->handles.texture != texture)
        array = array->next;
    if (!array)
        return status_fail(STATUS_BAD_VALUE, "sim: not an array's texture");
    return sim_device_copy_out(device, to, array->rows, bytes);
}

/* --- counters */

static enum status sim_device_counters(struct device *device, device_report_function each,
                                       void *state) {
    struct sim_queue *queue = queue_of(device);
    enum status status = STATUS_OK;
    for (const struct sim_record *record = queue->first; record && !status; record = record->next)
        status = sim_record_report(record, each, state);
    forget(queue);
    return status;
}

const struct device_ops sim_device_ops = {
    .kind = "sim",
    .counter_table = sim_record_counters,
    .counter_count = SIM_RECORD_COUNTERS,
    .count = sim_device_count,
    .open = sim_device_open,
    .close = sim_device_close,
    .info = sim_device_info,
    .about = sim_device_about,
    .alloc = sim_device_alloc,
    .free = sim_device_free,
    .copy_in = sim_device_copy_in,
    .copy_out = sim_device_copy_out,
    .fill = sim_device_fill,
    .module_load = sim_device_module_load,
    .module_unload = sim_device_module_unload,
    .kernel_get = sim_device_kernel_get,
    .module_variable = sim_device_module_variable,
    .parameter_bytes = sim_device_parameter_bytes,
    .kernel_resources = sim_device_kernel_resources,
    .launch = sim_device_launch,
    .sync = sim_device_sync,
    .pin = device_no_pin,
    .unpin = device_no_unpin,
    .copy = device_no_copy,
    .lags = device_no_lags,
    .follow = device_no_follow,
    .owner = device_no_owner,
    .adopt = device_no_adopt,
    .check_stream = device_no_check_stream,
    .graph_open = device_no_graph_open,
    .graph_launch = device_no_graph_launch,
    .graph_close = device_no_graph_close,
    .graph_memory = device_no_graph_memory,
    .texture_open = sim_device_texture_open,
    .texture_read = sim_device_texture_read,
    .texture_close = sim_device_texture_close,
    .timer_begin = device_no_timer_begin,
    .timer_end = device_no_timer_end,
    .counters = sim_device_counters,
};
