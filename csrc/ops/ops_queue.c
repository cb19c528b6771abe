/* ops_queue.c: queues, kernels by name, scratch, and running a plan. Knows no family. */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

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

enum status ops_copies(struct ops_queue *queue) {
    const char *colon = strchr(queue->info.name, ':');
    enum status status = STATUS_OK;
    if (!queue->copies)
        status = queue->device->ops->open(colon ? colon + 1 : "", &queue->copies);
    if (!status) {
        queue->copies->interrupted = queue->device->interrupted;
        queue->copies->interrupted_state = queue->device->interrupted_state;
    }
    return status;
}

/* The class of a size; OPS_BLOCK_CLASSES if such memory is not kept. The simulated GPU's checks
 * need separate bounds for each array. */
static unsigned class_of(const struct ops_queue *queue, size_t bytes) {
    unsigned class = queue->device->capabilities & DEVICE_STREAMS ? 0 : OPS_BLOCK_CLASSES;
    while (class < OPS_BLOCK_CLASSES && bytes > (size_t)OPS_BLOCK_BYTES << class)
        class ++;
    return class;
}

static void forget_blocks(struct ops_queue *queue) {
    for (unsigned class = 0; class < OPS_BLOCK_CLASSES; class ++)
        while (queue->blocks[class].count)
            queue->device->ops->free(queue->device,
                                     queue->blocks[class].at[--queue->blocks[class].count]);
}

enum status ops_memory_take(struct ops_queue *queue, size_t bytes, device_address *address) {
    const struct device_ops *ops = queue->device->ops;
    const unsigned class = class_of(queue, bytes);
    const bool kept = class < OPS_BLOCK_CLASSES;
    if (kept && queue->blocks[class].count) {
        *address = queue->blocks[class].at[--queue->blocks[class].count];
        return STATUS_OK;
    }
    if (kept)
        bytes = (size_t)OPS_BLOCK_BYTES << class;
    enum status status = ops->alloc(queue->device, bytes, address);
    if (status == STATUS_NO_DEVICE_MEMORY) {
        forget_blocks(queue);
        status = ops->alloc(queue->device, bytes, address);
    }
    return status;
}

void ops_memory_give(struct ops_queue *queue, device_address address, size_t bytes) {
    const unsigned class = class_of(queue, bytes);
    if (class < OPS_BLOCK_CLASSES && queue->blocks[class].count < OPS_BLOCKS_KEPT)
        queue->blocks[class].at[queue->blocks[class].count++] = address;
    else
        queue->device->ops->free(queue->device, address);
}

static void forget_tickets(struct ops_queue *queue) {
    if (queue->tickets)
        queue->device->ops->free(queue->device, queue->tickets);
    queue->tickets = 0;
}

static void forget_kept(struct ops_queue *queue) {
    if (queue->kept)
        queue->device->ops->free(queue->device, queue->kept);
    queue->kept = queue->kept_bytes = 0;
}

void ops_forget(struct ops_queue *queue) {
    if (!device_is_captured(queue->device)) {
        ops_repeats_forget(queue);
        forget_tickets(queue);
    }
}

enum { TICKETS_BYTES = OPS_TICKETS * sizeof(uint32_t) };

/* Memory of the graph that is being captured: scratch, then tickets. */
static enum status graph_memory(struct ops_queue *queue, device_address *scratch,
                                device_address *tickets) {
    const enum status status =
        queue->device->ops->graph_memory(queue->device, OPS_GRAPH_BYTES + TICKETS_BYTES, scratch);
    *tickets = *scratch + OPS_GRAPH_BYTES;
    return status;
}

enum status ops_tickets(struct ops_queue *queue, device_address *tickets) {
    const struct device_ops *ops = queue->device->ops;
    enum status status = STATUS_OK;
    device_address scratch;
    if (device_is_captured(queue->device))
        return graph_memory(queue, &scratch, tickets);
    if (!queue->tickets) {
        status = ops->alloc(queue->device, TICKETS_BYTES, &queue->tickets);
        if (!status)
            status = ops->fill(queue->device, queue->tickets, 0, TICKETS_BYTES);
        if (status)
            forget_tickets(queue);
    }
    *tickets = queue->tickets;
    return status;
}

void ops_close(struct ops_queue *queue) {
    const struct device_ops *ops = queue->device->ops;
    ops_repeats_forget(queue);
    forget_tickets(queue);
    forget_kept(queue);
    if (queue->word)
        ops->unpin(queue->device, queue->word);
    forget_blocks(queue);
    if (queue->copies)
        ops->close(queue->copies);
    ops->close(queue->device);
    free(queue->products);
    free(queue->turns);
    free(queue->repeats);
    free(queue);
}

const struct reg_rung *ops_rung(const struct reg_family *family, int number) {
    const struct reg_rung *rung = family->rungs;
    while (rung->number != number || rung->flags & (RUNG_HOST | RUNG_HISTORICAL))
        rung++;
    return rung;
}

enum status ops_kernel(struct ops_queue *queue, const struct reg_rung *rung,
                       const struct reg_signature *signature, unsigned block,
                       struct ops_step *step) {
    const struct device_ops *ops = queue->device->ops;
    const size_t slots = sizeof queue->kernels / sizeof *queue->kernels;
    const uintptr_t hash =
        (uintptr_t)rung / sizeof *rung + 7 * ((uintptr_t)signature / sizeof *signature);
    struct ops_kernel *slot = &queue->kernels[(hash + block) % slots];
    step->rung = rung;
    step->overlaps = rung->flags & RUNG_OVERLAPS;
    if (slot->rung == rung && slot->signature == signature && slot->block == block) {
        step->kernel = slot->kernel;
        return STATUS_OK;
    }
    char symbol[REG_SYMBOL_MAX];
    reg_symbol(rung, signature, block, symbol);
    const enum status status = ops->kernel_get(queue->device, NULL, symbol, &step->kernel);
    if (!status)
        *slot = (struct ops_kernel){rung, signature, block, step->kernel};
    return status;
}

/* Scratch that all plans of a queue share, since their launches are in order. */
static enum status kept_scratch(struct ops_queue *queue, size_t bytes, device_address *scratch) {
    enum status status = STATUS_OK;
    if (queue->kept_bytes < bytes) {
        ops_repeats_forget(queue); /* graphs use the smaller one */
        forget_kept(queue);
        while (queue->kept_bytes < bytes)
            queue->kept_bytes = queue->kept_bytes ? 2 * queue->kept_bytes : OPS_GRAPH_BYTES;
        status = queue->device->ops->alloc(queue->device, queue->kept_bytes, &queue->kept);
        if (status)
            forget_kept(queue);
    }
    *scratch = queue->kept;
    return status;
}

enum status ops_scratch(struct ops_queue *queue, struct ops_plan *plan, size_t bytes) {
    const bool captured = device_is_captured(queue->device);
    device_address tickets;
    enum status status;
    plan->lent = captured ? bytes <= OPS_GRAPH_BYTES : queue->keeping && bytes <= OPS_SCRATCH_KEPT;
    if (!plan->lent)
        status = queue->device->ops->alloc(queue->device, bytes, &plan->scratch);
    else if (captured)
        status = graph_memory(queue, &plan->scratch, &tickets);
    else
        status = kept_scratch(queue, bytes, &plan->scratch);
    if (!status)
        plan->scratch_bytes = bytes;
    return status;
}

void ops_plan_free(struct ops_queue *queue, struct ops_plan *plan) {
    if (plan->scratch && !plan->lent)
        queue->device->ops->free(queue->device, plan->scratch);
    plan->scratch = 0;
}

enum status ops_step_on_arrays(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    struct ops_step *step = &plan->steps[0];
    for (unsigned i = 0; i < problem->input_count; i++) {
        step->values[step->value_count++] = problem->inputs[i];
        plan->bytes += problem->input_bytes[i];
    }
    step->values[step->value_count++] = plan->result = problem->output;
    plan->result_bytes = problem->output_bytes;
    plan->bytes += problem->output_bytes;
    plan->step_count = 1;
    return ops_kernel(queue, choice->rung, choice->signature, choice->block, step);
}

static unsigned extent(unsigned given) { return given ? given : 1; }

struct device_launch ops_launch_of(const struct ops_plan *plan, unsigned i, void **arguments) {
    const struct ops_step *step = &plan->steps[i];
    for (unsigned k = 0; k < step->value_count; k++)
        arguments[k] = (void *)(uintptr_t)&step->values[k];
    const unsigned count = step->value_count - (step->struct_values ? step->struct_values - 1 : 0);
    arguments[count] = (void *)(uintptr_t)plan->wide;
    return (struct device_launch){
        .kernel = step->kernel,
        .grid = {extent(step->grid[0]), extent(step->grid[1]), extent(step->grid[2])},
        .block = {extent(step->block[0]), extent(step->block[1]), extent(step->block[2])},
        .shared_bytes = step->shared_bytes,
        .arguments = arguments,
        .argument_count = count + step->takes_wide,
        .overlaps = step->overlaps,
        .any_grid = true, /* planners know the grid limits of CUDA's current GPUs only */
    };
}

enum status ops_run(struct ops_queue *queue, const struct ops_plan *plan) {
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < plan->step_count && !status; i++) {
        void *arguments[OPS_ARGUMENTS_MAX];
        const struct device_launch launch = ops_launch_of(plan, i, arguments);
        status = queue->device->ops->launch(queue->device, &launch);
    }
    if (status)
        ops_forget(queue);
    return status;
}
