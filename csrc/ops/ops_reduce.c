/* ops_reduce.c: plans a reduction: the rung's kernel on the items, then the same rung on its
 * partial results, until one is left. All passes are queued at once: the end of a launch is the
 * barrier between all blocks, and nothing returns to the host in between.
 */
#include "ops.h"

#include <string.h>

enum {
    GRID_MAX = 0x7fffffff,   /* blocks, in x */
    ONE_BLOCK_ITEMS = 32,    /* a thread, up to which a grid-stride rung needs no second block */
    SCRATCH_ALIGNMENT = 256, /* bytes, as the device's allocator */
    PIECE = 256 * 64 * 256,  /* items of a non-contiguous array at a time, on the cpu: 2^22, the
                                segment of host_reduce.c */
};

/* How many blocks a pass over n items has. */
static uint64_t pass_blocks(const struct ops_queue *queue, const struct reg_rung *rung,
                            unsigned block, uint64_t n) {
    const uint64_t items_per_block =
        (uint64_t)block * (rung->items_per_thread ? rung->items_per_thread : 2);
    const uint64_t blocks = (n - 1) / items_per_block + 1;
    if (rung->items_per_thread)
        return blocks;
    /* A grid-stride loop: as many blocks as can be resident at once, or one for what is left. */
    if (n <= (uint64_t)block * ONE_BLOCK_ITEMS)
        return 1;
    const uint64_t resident = (uint64_t)queue->info.multiprocessors *
                              (unsigned)queue->info.threads_per_multiprocessor / block;
    return blocks < resident ? blocks : resident;
}

static enum status plan_passes(struct ops_queue *queue, const struct ops_choice *choice,
                               device_address items, uint64_t n, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    const struct reg_signature *signature = choice->signature;
    const size_t accumulator = dtype_size(signature->accumulator);
    uint64_t offsets[OPS_STEPS_MAX], bytes = 0, count = n;
    do {
        const uint64_t blocks = pass_blocks(queue, rung, choice->block, count);
        struct ops_step *step = &plan->steps[plan->step_count];
        if (blocks > GRID_MAX || plan->step_count == OPS_STEPS_MAX)
            return status_fail(STATUS_BAD_VALUE,
                               "variant: rung '%s' with block=%u cannot take %llu items; use "
                               "variant=7 or a larger block",
                               rung->name, choice->block, (unsigned long long)n);
        const enum status status = ops_kernel(queue, rung, signature, choice->block, &step->kernel);
        if (status)
            return status;
        step->grid[0] = (unsigned)blocks;
        step->block[0] = choice->block;
        step->shared_bytes = choice->block * (unsigned)accumulator;
        step->values[2] = count;
        step->value_count = 3;
        offsets[plan->step_count++] = bytes;
        bytes +=
            (blocks * accumulator + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
        signature = reg_signature(choice->family, rung, signature->op, signature->accumulator,
                                  signature->accumulator);
        count = blocks;
    } while (count > 1);

    const enum status status = ops_scratch(queue, plan, bytes);
    if (status)
        return status;
    for (unsigned i = 0; i < plan->step_count; i++) {
        plan->steps[i].values[0] = i ? plan->steps[i - 1].values[1] : items;
        plan->steps[i].values[1] = plan->scratch + offsets[i];
    }
    plan->result = plan->scratch + offsets[plan->step_count - 1];
    return STATUS_OK;
}

/* The cpu's rungs do the whole in one step. */
static enum status plan_on_host(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, struct ops_plan *plan) {
    enum status status = ops_scratch(queue, plan, GPUOPT_ITEM_MAX);
    if (!status)
        status = ops_kernel(queue, choice->rung, choice->signature, 0, &plan->steps[0].kernel);
    plan->steps[0].values[0] = items;
    plan->steps[0].values[1] = plan->result = plan->scratch;
    plan->steps[0].values[2] = n;
    plan->steps[0].value_count = 3;
    plan->step_count = 1;
    return status;
}

enum status ops_reduce_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const device_address items = problem->inputs[0];
    const uint64_t n = problem->numbers[0];
    plan->result_bytes = dtype_size(choice->signature->accumulator);
    plan->bytes = n * dtype_size(choice->signature->items) + plan->result_bytes;
    return choice->rung->flags & RUNG_HOST ? plan_on_host(queue, choice, items, n, plan)
                                           : plan_passes(queue, choice, items, n, plan);
}

/* Items that are on the device. */
static enum status reduce_there(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, void *accumulator) {
    const struct ops_problem problem = {.inputs = {items}, .input_count = 1, .numbers = {n}};
    struct ops_plan plan;
    enum status status = ops_plan(queue, choice, &problem, &plan);
    if (status)
        return status;
    status = ops_run(queue, &plan);
    if (!status)
        status = queue->device->ops->copy_out(queue->device, accumulator, plan.result,
                                              plan.result_bytes);
    ops_plan_free(queue, &plan);
    return status;
}

/* On the cpu, an array that is not contiguous: a piece at a time, then the pieces' results, as
 * host_reduce.c joins its segments. */
static enum status reduce_pieces(struct ops_queue *queue, const struct ops_choice *choice,
                                 const struct device_source *source, uint64_t n,
                                 void *accumulator) {
    static const struct reg_rung join = {.kernel = "host_reduce_join", .flags = RUNG_HOST};
    const struct device_ops *ops = queue->device->ops;
    const size_t item = dtype_size(choice->signature->items);
    const size_t result = dtype_size(choice->signature->accumulator);
    const uint64_t pieces = (n - 1) / PIECE + 1;
    device_address buffer = 0, results = 0;
    enum status status = ops->alloc(queue->device, (n < PIECE ? n : PIECE) * item, &buffer);
    if (!status)
        status = ops->alloc(queue->device, pieces * result, &results);
    for (uint64_t piece = 0; piece < pieces && !status; piece++) {
        const uint64_t count = n - piece * PIECE < PIECE ? n - piece * PIECE : PIECE;
        status = ops->copy_in(queue->device, buffer, source, count * item);
        if (!status)
            status = reduce_there(queue, choice, buffer, count,
                                  (void *)(uintptr_t)(results + piece * result));
    }
    if (!status) {
        struct ops_choice last = *choice;
        last.rung = &join;
        status = reduce_there(queue, &last, results, pieces, accumulator);
    }
    if (results)
        ops->free(queue->device, results);
    if (buffer)
        ops->free(queue->device, buffer);
    return status;
}

enum status ops_reduce(struct ops_queue *queue, const struct ops_choice *choice,
                       const struct device_source *source, uint64_t n, void *accumulator) {
    const struct device_ops *ops = queue->device->ops;
    if (queue->device->capabilities & DEVICE_HOST_MEMORY)
        return source->data ? reduce_there(queue, choice, (device_address)(uintptr_t)source->data,
                                           n, accumulator)
                            : reduce_pieces(queue, choice, source, n, accumulator);
    const size_t bytes = n * dtype_size(choice->signature->items);
    device_address items = 0;
    enum status status = ops->alloc(queue->device, bytes, &items);
    if (status)
        return status;
    status = ops->copy_in(queue->device, items, source, bytes);
    if (!status)
        status = reduce_there(queue, choice, items, n, accumulator);
    ops->free(queue->device, items);
    return status;
}
