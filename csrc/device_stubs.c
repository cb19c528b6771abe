/* device_stubs.c: stubs for features that a device lacks, and helpers that every device shares.
 * Knows the contract of device.h and no device.
 */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status device_ordinal(const char *kind, const char *which, int count, int *ordinal) {
    char *end = NULL;
    errno = 0;
    const long value = *which ? strtol(which, &end, 10) : 0;
    const bool number = !*which || (*which >= '0' && *which <= '9' && !*end && !errno);
    if (!number || value >= count) {
        char last[32] = "";
        if (count > 1)
            snprintf(last, sizeof last, " to '%s:%d'", kind, count - 1);
        return status_fail(STATUS_BAD_VALUE, "device: '%s:%.32s' is not a device; use '%s:0'%s",
                           kind, which, kind, last);
    }
    *ordinal = (int)value;
    return STATUS_OK;
}

enum status device_poll(struct device *device) {
    if (device->interrupted && device->interrupted(device->interrupted_state))
        return status_fail(STATUS_INTERRUPTED, "interrupted");
    return STATUS_OK;
}

enum status device_refuse_captured(void) {
    return status_fail(STATUS_DEVICE_ERROR,
                       "cuda: the current stream is being captured into a graph, where no call "
                       "may wait for a value, or use a host array or an array of another stream; "
                       "pass out= and arrays of this stream, or call it outside of the capture");
}

enum status device_read(const struct device_source *source, size_t offset, void *to, size_t bytes) {
    if (!source->data)
        return source->read(source->state, to, bytes);
    memcpy(to, (const char *)source->data + offset, bytes);
    return STATUS_OK;
}

enum status device_no_module_load(struct device *device, const char *ptx, size_t bytes,
                                  struct device_module **module) {
    (void)ptx;
    (void)bytes;
    *module = NULL;
    return status_fail(STATUS_DEVICE_ERROR, "%s runs no PTX: use 'cuda' or 'sim'",
                       device->ops->kind);
}

void device_no_module_unload(struct device *device, struct device_module *module) {
    (void)device;
    (void)module;
}

enum status device_no_parameter_bytes(struct device *device, const struct device_kernel *kernel,
                                      unsigned index, size_t *bytes) {
    (void)kernel;
    (void)index;
    *bytes = 0;
    return status_fail(STATUS_DEVICE_ERROR, "%s runs no PTX: use 'cuda' or 'sim'",
                       device->ops->kind);
}

enum status device_no_module_variable(struct device *device, struct device_module *module,
                                      const char *name, device_address *address, size_t *bytes) {
    (void)module;
    (void)name;
    *address = 0;
    return device_no_parameter_bytes(device, NULL, 0, bytes);
}

enum status device_no_kernel_resources(struct device *device, const struct device_kernel *kernel,
                                       struct device_resources *resources) {
    *resources = (struct device_resources){0};
    size_t bytes;
    return device_no_parameter_bytes(device, kernel, 0, &bytes);
}

size_t device_level_bytes(const struct device_texture *texture, unsigned level) {
    static const unsigned char texel_bytes[TEXEL_COUNT] = {
#define TEXEL(name, bytes) [TEXEL_##name] = bytes,
        DEVICE_TEXELS(TEXEL)
#undef TEXEL
    };
    const unsigned extents[3] = {texture->width >> level, texture->height >> level,
                                 texture->depth >> level};
    size_t bytes = (size_t)texture->layers * texture->channels * texel_bytes[texture->texel];
    for (int i = 0; i < 3; i++)
        bytes *= extents[i] ? extents[i] : 1;
    return bytes;
}

size_t device_texture_bytes(const struct device_texture *texture) {
    size_t bytes = 0;
    for (unsigned level = 0; level < texture->levels; level++)
        bytes += device_level_bytes(texture, level);
    return bytes;
}

/* For features that need streams. */
static enum status no_streams(const struct device *device, const char *what) {
    return status_fail(STATUS_DEVICE_ERROR, "%s has no %s: use device='cuda'", device->ops->kind,
                       what);
}

enum status device_no_pin(struct device *device, size_t bytes, void **memory) {
    (void)bytes;
    *memory = NULL;
    return no_streams(device, "pinned memory");
}

void device_no_unpin(struct device *device, void *memory) {
    (void)device;
    (void)memory;
}

enum status device_no_copy(struct device *device, device_address to, device_address from,
                           size_t bytes) {
    (void)to;
    (void)from;
    (void)bytes;
    return no_streams(device, "asynchronous copies");
}

bool device_no_lags(struct device *device) {
    (void)device;
    return false;
}

enum status device_no_follow(struct device *device, struct device *other) {
    (void)other;
    return no_streams(device, "streams");
}

enum status device_no_owner(device_address address, int *ordinal, bool *current) {
    (void)address;
    (void)ordinal;
    (void)current;
    return status_fail(STATUS_DEVICE_ERROR, "device: it cannot tell which device owns an address");
}

enum status device_no_adopt(struct device *device, uint64_t stream) {
    (void)stream;
    return no_streams(device, "streams");
}

enum status device_no_check_stream(struct device *device, uint64_t stream, bool known) {
    (void)known;
    (void)stream;
    return no_streams(device, "streams");
}

enum status device_no_graph_open(struct device *device, const struct device_launch *launches,
                                 size_t count, struct device_graph **graph) {
    (void)launches;
    (void)count;
    *graph = NULL;
    return no_streams(device, "graphs");
}

enum status device_no_graph_launch(struct device *device, struct device_graph *graph) {
    (void)graph;
    return no_streams(device, "graphs");
}

void device_no_graph_close(struct device *device, struct device_graph *graph) {
    (void)device;
    (void)graph;
}

enum status device_no_graph_memory(struct device *device, size_t bytes, device_address *address) {
    (void)bytes;
    *address = 0;
    return no_streams(device, "graphs");
}

enum status device_no_texture_open(struct device *device, const struct device_texture *texture,
                                   struct device_texture_handles *made) {
    (void)texture;
    *made = (struct device_texture_handles){0};
    return status_fail(STATUS_DEVICE_ERROR, "%s has no textures: use device='cuda' or 'sim'",
                       device->ops->kind);
}

enum status device_no_texture_read(struct device *device, uint64_t texture, void *to,
                                   size_t bytes) {
    (void)texture;
    (void)to;
    (void)bytes;
    struct device_texture_handles made;
    return device_no_texture_open(device, NULL, &made);
}

void device_no_texture_close(struct device *device, uint64_t handle) {
    (void)device;
    (void)handle;
}

enum status device_no_timer_begin(struct device *device) {
    return status_fail(STATUS_DEVICE_ERROR, "%s has no timer: time on 'cuda' or 'cpu'",
                       device->ops->kind);
}

enum status device_no_timer_end(struct device *device, double *seconds) {
    *seconds = 0;
    return device_no_timer_begin(device);
}

enum status device_no_counters(struct device *device, device_report_function each, void *state) {
    (void)each;
    (void)state;
    return status_fail(STATUS_DEVICE_ERROR, "%s has no counters: use device='sim'",
                       device->ops->kind);
}
