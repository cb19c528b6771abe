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

enum { TICKETS_BYTES = OPS_TICKETS * sizeof(uint32_t) };

/* Memory of the graph that is being captured: scratch, then tickets. */
static enum status graph_memory(struct ops_queue *queue, device_address *scratch,
                                device_address *tickets) {
    const enum status status =
        queue->device->ops->graph_memory(queue->device, OPS_KEPT_BYTES + TICKETS_BYTES, scratch);
    *tickets = *scratch + OPS_KEPT_BYTES;
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

static void forget_repeated(struct ops_queue *queue, struct ops_repeated *repeated) {
    if (repeated->graph)
        queue->device->ops->graph_close(queue->device, repeated->graph);
    repeated->graph = NULL;
    repeated->times = 0;
}

void ops_close(struct ops_queue *queue) {
    const struct device_ops *ops = queue->device->ops;
    for (unsigned k = 0; k < OPS_REPEATED; k++)
        forget_repeated(queue, &queue->repeated[k]);
    forget_tickets(queue);
    if (queue->kept)
        ops->free(queue->device, queue->kept);
    if (queue->word)
        ops->unpin(queue->device, queue->word);
    forget_blocks(queue);
    if (queue->copies)
        ops->close(queue->copies);
    ops->close(queue->device);
    free(queue->products);
    free(queue->turns);
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

static enum status kept_scratch(struct ops_queue *queue, device_address *scratch) {
    enum status status = STATUS_OK;
    if (!queue->kept)
        status = queue->device->ops->alloc(queue->device, OPS_KEPT_BYTES, &queue->kept);
    *scratch = queue->kept;
    return status;
}

enum status ops_scratch(struct ops_queue *queue, struct ops_plan *plan, size_t bytes) {
    const bool captured = device_is_captured(queue->device);
    device_address tickets;
    enum status status;
    plan->lent = bytes <= OPS_KEPT_BYTES && (queue->keeping || captured);
    if (!plan->lent)
        status = queue->device->ops->alloc(queue->device, bytes, &plan->scratch);
    else if (captured)
        status = graph_memory(queue, &plan->scratch, &tickets);
    else
        status = kept_scratch(queue, &plan->scratch);
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
    arguments[step->value_count] = (void *)(uintptr_t)plan->wide;
    return (struct device_launch){
        .kernel = step->kernel,
        .grid = {extent(step->grid[0]), extent(step->grid[1]), extent(step->grid[2])},
        .block = {extent(step->block[0]), extent(step->block[1]), extent(step->block[2])},
        .shared_bytes = step->shared_bytes,
        .arguments = arguments,
        .argument_count = step->value_count + step->takes_wide,
        .overlaps = step->overlaps,
        .any_grid = true, /* planners know the grid limits of CUDA's current GPUs only */
    };
}

static enum status run_launches(struct ops_queue *queue, const struct ops_plan *plan) {
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < plan->step_count && !status; i++) {
        void *arguments[OPS_ARGUMENTS_MAX];
        const struct device_launch launch = ops_launch_of(plan, i, arguments);
        status = queue->device->ops->launch(queue->device, &launch);
    }
    return status;
}

static struct device_graph *graph_of(struct ops_queue *queue, const struct ops_plan *plan) {
    void *arguments[OPS_REPEATED_STEPS][OPS_ARGUMENTS_MAX];
    struct device_launch launches[OPS_REPEATED_STEPS];
    struct device_graph *graph;
    for (unsigned i = 0; i < plan->step_count; i++)
        launches[i] = ops_launch_of(plan, i, arguments[i]);
    return queue->device->ops->graph_open(queue->device, launches, plan->step_count, &graph)
               ? NULL
               : graph;
}

static struct ops_repeated *repeated_of(struct ops_queue *queue, const struct ops_plan *plan) {
    const struct ops_step *step = &plan->steps[0];
    uint64_t hash = (uintptr_t)step->kernel;
    for (unsigned k = 0; k < step->value_count; k++)
        hash = (hash ^ step->values[k]) * 0x9E3779B97F4A7C15u;
    return &queue->repeated[(hash >> 32) % OPS_REPEATED];
}

static bool takes_wide(const struct ops_plan *plan) {
    bool takes = false;
    for (unsigned i = 0; i < plan->step_count; i++)
        takes |= plan->steps[i].takes_wide;
    return takes;
}

/* The host starts a graph in half of a kernel's time (TUNING.md H3, H5). A call that has repeated
 * this often gets a graph, and loses it after as many other calls of its hash. Without memory for a
 * graph the kernels run directly. */
static enum status run_repeated(struct ops_queue *queue, const struct ops_plan *plan) {
    struct ops_repeated *last = repeated_of(queue, plan);
    const size_t bytes = plan->step_count * sizeof *plan->steps; /* with the padding, which is 0 */
    const size_t wide = takes_wide(plan) ? sizeof plan->wide : 0;
    if (last->count != plan->step_count || memcmp(last->steps, plan->steps, bytes) != 0 ||
        memcmp(last->wide, plan->wide, wide) != 0) {
        if (last->graph && --last->times)
            return run_launches(queue, plan);
        forget_repeated(queue, last);
        memcpy(last->steps, plan->steps, bytes);
        memcpy(last->wide, plan->wide, wide);
        last->count = plan->step_count;
    }
    if (last->times < ops_fixed(queue, repeated_most) &&
        ++last->times == ops_fixed(queue, repeated_most) && !last->graph)
        last->graph = graph_of(queue, plan);
    return last->graph ? queue->device->ops->graph_launch(queue->device, last->graph)
                       : run_launches(queue, plan);
}

/* Longer calls hide their launch, and their kernels overlap the end of the ones before. */
static bool may_repeat(const struct ops_queue *queue, const struct ops_plan *plan) {
    return plan->step_count > 0 && plan->step_count <= OPS_REPEATED_STEPS &&
           plan->bytes <= ops_fixed(queue, repeated_bytes) &&
           queue->device->capabilities & DEVICE_STREAMS && !device_is_captured(queue->device);
}

enum status ops_run(struct ops_queue *queue, const struct ops_plan *plan) {
    const enum status status =
        may_repeat(queue, plan) ? run_repeated(queue, plan) : run_launches(queue, plan);
    if (status && !device_is_captured(queue->device))
        forget_tickets(queue); /* a launch that did not complete may have drawn some */
    return status;
}
