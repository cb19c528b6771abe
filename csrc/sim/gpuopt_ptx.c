/* gpuopt_ptx.c: the C entry for other programs. Opens a simulated GPU, copies arrays, launches. */
#define _POSIX_C_SOURCE 200809L
#include "gpuopt_ptx.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MOST = 1024 };

_Static_assert(sizeof(struct sim_counters) <= GPUOPT_PTX_COUNTERS_MOST * sizeof(uint64_t),
               "the report has room for every counter");

/* The call's state; `addresses` holds an array's address, or 0. */
struct call {
    const struct gpuopt_ptx_argument *args;
    size_t count;
    struct sim_gpu *gpu;
    struct sim_module *module;
    struct sim_kernel *kernel;
    uint64_t *addresses;
    const void **values;
    struct sim_array *arrays;
    unsigned array_count;
    struct sim_error error;
};

const char *gpuopt_ptx_counter_name(size_t index) {
    return index < sim_counter_count() ? sim_counter_name(index) : NULL;
}

static int refuse(struct call *c, const char *text, size_t number) {
    c->error.status = SIM_ARGUMENT;
    snprintf(c->error.text, sizeof c->error.text, text, number);
    return SIM_ARGUMENT;
}

/* The earlier argument with the same array, or `index` itself: both get one address. */
static size_t first_of(const struct call *c, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (c->args[i].is_array && c->args[i].data == c->args[index].data &&
            c->args[i].bytes == c->args[index].bytes)
            return i;
    return index;
}

/* Checks the arguments against the kernel's parameters and copies the arrays in. */
static int copy_in(struct call *c) {
    struct sim_kernel_info info;
    sim_kernel_describe(c->kernel, &info);
    if (info.param_count != c->count)
        return refuse(c, "args: the kernel requires %zu arguments; pass one for each parameter",
                      info.param_count);
    for (size_t i = 0; i < c->count; i++) {
        const struct gpuopt_ptx_argument *arg = &c->args[i];
        const size_t size = info.params[i].size;
        if (!arg->data && arg->bytes)
            return refuse(c, "args[%zu]: data is NULL", i);
        if (!arg->is_array && arg->bytes != size)
            return refuse(c, "args[%zu]: bytes differ from the parameter's size", i);
        if (arg->is_array && size != sizeof(uint64_t))
            return refuse(c, "args[%zu]: an array, but the parameter is no address", i);
        c->values[i] = arg->is_array ? (const void *)&c->addresses[i] : arg->data;
        if (!arg->is_array)
            continue;
        const size_t first = first_of(c, i);
        c->addresses[i] = c->addresses[first];
        if (first == i &&
            (sim_alloc(c->gpu, arg->bytes ? arg->bytes : 1, &c->addresses[i], &c->error) ||
             sim_copy_in(c->gpu, c->addresses[i], arg->data, arg->bytes, &c->error)))
            return (int)c->error.status;
        c->arrays[c->array_count++] =
            (struct sim_array){.param = (uint32_t)i, .item = 1, .bytes = arg->bytes, .is_copy = 1};
    }
    return 0;
}

static int copy_out(struct call *c) {
    for (size_t i = 0; i < c->count; i++)
        if (c->args[i].is_array == 1 && c->addresses[i] && first_of(c, i) == i &&
            sim_copy_out(c->gpu, c->args[i].data, c->addresses[i], c->args[i].bytes, &c->error))
            return (int)c->error.status;
    return 0;
}

static void fill_report(struct gpuopt_ptx_report *to, const struct sim_report *from,
                        const struct sim_error *error) {
    const struct sim_finding *found = NULL;
    if (from) {
        memcpy(to->counters, sim_report_counters(from), sizeof(struct sim_counters));
        if (*sim_report_output(from))
            to->output = strdup(sim_report_output(from));
        to->is_finding = sim_report_findings(from, &found) > 0;
    }
    if (to->is_finding) {
        to->line = found->line ? found->line : found->ptx_line;
        snprintf(to->text, sizeof to->text, "%s", found->text);
    } else if (error->status) {
        to->line = error->line;
        snprintf(to->text, sizeof to->text, "%s", error->text);
    }
}

static int launch(struct call *c, struct sim_launch *request,
                  const struct gpuopt_ptx_options *options, struct sim_report **report) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    request->kernel = c->kernel;
    request->args = c->values;
    request->arrays = c->arrays;
    request->array_count = c->array_count;
    request->flags = options->unchecked ? SIM_LAUNCH_NO_RACES | SIM_LAUNCH_NO_UNINIT : 0;
    request->host_threads = options->host_threads ? options->host_threads
                            : processors > 0      ? (unsigned)processors
                                                  : 1;
    request->seconds = options->seconds;
    const int status = (int)sim_launch(c->gpu, request, report, &c->error);
    struct sim_error kept = c->error;
    const int copied = *report ? copy_out(c) : 0;
    if (status)
        c->error = kept;
    return status ? status : copied;
}

int gpuopt_ptx_run(const char *ptx, const char *kernel, const struct gpuopt_ptx_argument *args,
                   size_t arg_count, const uint32_t grid[3], const uint32_t block[3],
                   uint32_t shared_bytes, const struct gpuopt_ptx_options *options,
                   struct gpuopt_ptx_report *report) {
    static const struct gpuopt_ptx_options defaults;
    struct call c = {.args = args, .count = arg_count};
    struct sim_report *made = NULL;
    int status = 0;
    if (report)
        memset(report, 0, sizeof *report);
    if (!options)
        options = &defaults;
    if (!ptx || !kernel || !grid || !block || (!args && arg_count) || arg_count > ARGUMENTS_MOST) {
        status = refuse(&c,
                        "ptx, kernel, grid, block and args: none may be NULL, and at most %zu "
                        "arguments are accepted",
                        ARGUMENTS_MOST);
        goto done;
    }
    c.addresses = calloc(arg_count + 1, sizeof *c.addresses);
    c.values = calloc(arg_count + 1, sizeof *c.values);
    c.arrays = calloc(arg_count + 1, sizeof *c.arrays);
    if (!c.addresses || !c.values || !c.arrays) {
        refuse(&c, "no memory for %zu arguments", arg_count);
        status = (int)(c.error.status = SIM_NO_MEMORY);
        goto done;
    }
    struct sim_launch request = {.grid = {grid[0], grid[1], grid[2]},
                                 .block = {block[0], block[1], block[2]},
                                 .shared_bytes = shared_bytes};
    status = (int)sim_gpu_open(options->gpu ? options->gpu : "h200", NULL, &c.gpu, &c.error);
    if (!status)
        status = (int)sim_module_load(c.gpu, ptx, strlen(ptx), &c.module, &c.error);
    if (!status)
        status = (int)sim_kernel_get(c.module, kernel, &c.kernel, &c.error);
    if (!status)
        status = copy_in(&c);
    if (!status)
        status = launch(&c, &request, options, &made);
done:
    if (report)
        fill_report(report, made, &c.error);
    if (made)
        sim_report_free(made);
    if (c.gpu)
        sim_gpu_close(c.gpu, NULL, NULL);
    free(c.addresses);
    free(c.values);
    free(c.arrays);
    return status;
}
