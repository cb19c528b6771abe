/* ops.c: queues, kernels by name, and running a plan. Knows no family but the list of planners. */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *family;
    enum status (*plan)(struct ops_queue *queue, const struct ops_choice *choice,
                        device_address items, uint64_t n, struct ops_plan *plan);
} planners[] = {
    {"reduce", ops_reduce_plan},
    {"roofline", ops_roofline_plan},
};

enum status ops_open(const struct device_ops *kind, const char *which, struct ops_queue **opened) {
    struct ops_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return status_fail(STATUS_NO_HOST_MEMORY, "%s: no memory for a queue", kind->kind);
    enum status status = kind->info(which, &queue->info);
    if (!status)
        status = kind->open(which, &queue->device);
    if (status)
        free(queue);
    else
        *opened = queue;
    return status;
}

void ops_close(struct ops_queue *queue) {
    queue->device->ops->close(queue->device);
    free(queue);
}

enum status ops_kernel(struct ops_queue *queue, const struct reg_rung *rung,
                       const struct reg_signature *signature, unsigned block,
                       struct device_kernel **kernel) {
    const struct device_ops *ops = queue->device->ops;
    const size_t slots = sizeof queue->kernels / sizeof *queue->kernels;
    const uintptr_t hash =
        (uintptr_t)rung / sizeof *rung + 7 * ((uintptr_t)signature / sizeof *signature);
    struct ops_kernel *slot = &queue->kernels[(hash + block) % slots];
    if (slot->rung == rung && slot->signature == signature && slot->block == block) {
        *kernel = slot->kernel;
        return STATUS_OK;
    }
    if (!queue->module_loaded) {
        const enum status status = ops->module_load(queue->device, &gpuopt_image, &queue->module);
        if (status)
            return status;
        queue->module_loaded = true;
    }
    char symbol[REG_SYMBOL_MAX];
    reg_symbol(rung, signature, block, symbol);
    const enum status status = ops->kernel_get(queue->device, queue->module, symbol, kernel);
    if (!status)
        *slot = (struct ops_kernel){rung, signature, block, *kernel};
    return status;
}

enum status ops_scratch(struct ops_queue *queue, struct ops_plan *plan, size_t bytes) {
    const enum status status = queue->device->ops->alloc(queue->device, bytes, &plan->scratch);
    if (!status)
        plan->scratch_bytes = bytes;
    return status;
}

void ops_plan_free(struct ops_queue *queue, struct ops_plan *plan) {
    if (plan->scratch)
        queue->device->ops->free(queue->device, plan->scratch);
    plan->scratch = 0;
}

enum status ops_plan(struct ops_queue *queue, const struct ops_choice *choice, device_address items,
                     uint64_t n, struct ops_plan *plan) {
    memset(plan, 0, sizeof *plan);
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++)
        if (strcmp(planners[i].family, choice->family->name) == 0) {
            const enum status status = planners[i].plan(queue, choice, items, n, plan);
            if (status)
                ops_plan_free(queue, plan);
            return status;
        }
    return status_fail(STATUS_BAD_VALUE, "family: '%s' has no planner", choice->family->name);
}

enum status ops_run(struct ops_queue *queue, const struct ops_plan *plan) {
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < plan->step_count && !status; i++) {
        const struct ops_step *step = &plan->steps[i];
        void *arguments[OPS_VALUES_MAX];
        for (unsigned k = 0; k < step->value_count; k++)
            arguments[k] = (void *)(uintptr_t)&step->values[k];
        const struct device_launch launch = {
            .kernel = step->kernel,
            .grid = {step->grid, 1, 1},
            .block = {step->block, 1, 1},
            .shared_bytes = step->shared_bytes,
            .arguments = arguments,
            .argument_count = step->value_count,
        };
        status = queue->device->ops->launch(queue->device, &launch);
    }
    return status;
}
