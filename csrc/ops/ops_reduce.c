/* ops_reduce.c: plans a reduction: the rung's kernel on the elements, then the same rung on its
 * partial results, until one is left. All passes are enqueued at once: the end of a launch is the
 * barrier between all blocks, and nothing returns to the host in between. The single-pass rungs
 * have one launch. Knows no device.
 */
#include "../kernels/reduce_plan.cuh"
#include "ops.h"

#include <string.h>

enum {
    GRID_MAX = 0x7fffffff,   /* blocks in x */
    SCRATCH_ALIGNMENT = 256, /* bytes, as the device's allocator */
    SHUFFLE = 8,             /* from this rung on a warp has one value in shared memory, */
    VECTORIZED = 9,          /* a load is a vector, */
    SHARES = 10,             /* blocks have even chunks, */
    SINGLE_PASS = 11,        /* one launch reduces all, */
    BULK = 12,               /* chunks pass through a ring in shared memory, */
    DYNAMIC = 13,            /* blocks draw the last chunks of a long array */
    VECTOR = 16,             /* bytes */
    RING_PART = REDUCE_RING_VECTORS * VECTOR,
};

/* Blocks of the rungs with even chunks. */
static uint64_t chunks(const struct ops_queue *queue, const struct ops_choice *choice,
                       uint64_t vectors) {
    if (choice->blocks)
        return choice->blocks < vectors ? choice->blocks : vectors;
    const uint64_t vectors_a_block =
        ops_tuned(choice, OPS_TUNING_reduce_chunk_vectors) * choice->block;
    const uint64_t blocks = (vectors - 1) / vectors_a_block + 1;
    const uint64_t most =
        (uint64_t)queue->info.multiprocessors * ops_tuned(choice, OPS_TUNING_reduce_chunk_blocks);
    return blocks < most ? blocks : most;
}

/* Blocks of a pass over n elements. */
static uint64_t pass_blocks(const struct ops_queue *queue, const struct ops_choice *choice,
                            uint64_t n, size_t item) {
    const struct reg_rung *rung = choice->rung;
    const unsigned block = choice->block;
    const uint64_t items_per_block =
        (uint64_t)block * (rung->items_per_thread       ? rung->items_per_thread
                           : rung->number >= VECTORIZED ? REDUCE_IN_FLIGHT * VECTOR / item
                                                        : 2);
    const uint64_t blocks = ceil_div(n, items_per_block);
    if (rung->items_per_thread)
        return blocks;
    if (rung->number == BULK) {
        const uint64_t parts = n * item / RING_PART,
                       most = (uint64_t)queue->info.multiprocessors *
                              ops_tuned(choice, OPS_TUNING_reduce_ring_blocks);
        return parts < 1 ? 1 : parts < most ? parts : most;
    }
    if (rung->number >= SHARES)
        return n * item > VECTOR ? chunks(queue, choice, n * item / VECTOR) : 1;
    /* A grid-stride loop: as many blocks as can be resident, or one for a short rest. */
    if (choice->blocks)
        return choice->blocks < blocks ? choice->blocks : blocks;
    if (n <= block * ops_tuned(choice, OPS_TUNING_reduce_one_block_items))
        return 1;
    const uint64_t wanted = ops_tuned(choice, OPS_TUNING_reduce_blocks),
                   resident = (uint64_t)queue->info.multiprocessors *
                              (unsigned)queue->info.threads_per_multiprocessor / block,
                   most = wanted ? wanted : resident;
    return blocks < most ? blocks : most;
}

/* Plans one pass. */
static enum status plan_pass(struct ops_queue *queue, const struct ops_choice *choice,
                             const struct reg_signature *signature, uint64_t n, uint64_t blocks,
                             struct ops_step *step) {
    const unsigned number = choice->rung->number, block = choice->block;
    /* One value a warp; a single launch needs twice that, and a flag for the last block. */
    const unsigned warps = block / 32;
    const unsigned values = number < SHUFFLE ? block : number < SINGLE_PASS ? warps : 2 * warps + 1;
    step->grid[0] = (unsigned)blocks;
    step->block[0] = block;
    step->shared_bytes = number == BULK ? REDUCE_RING_STAGES * RING_PART
                                        : values * (unsigned)dtype_size(signature->accumulator);
    step->values[2] = n;
    step->value_count = 3;
    return ops_kernel(queue, choice->rung, signature, block, step);
}

/* Rungs of the host have no numbers. */
bool ops_reduce_is_single_pass(const struct ops_choice *choice) {
    return choice->rung->number >= SINGLE_PASS;
}

bool ops_reduce_has_free_grid(const struct ops_choice *choice) {
    const struct reg_rung *rung = choice->rung;
    return choice->family == &reg_families[REG_reduce] && !(rung->flags & RUNG_HOST) &&
           !rung->items_per_thread && rung->number < BULK;
}

/* The choice or, if the caller named no rung and the array is too short for the rung that draws
 * chunks, the single-pass rung before it. */
static struct ops_choice fitting(const struct ops_queue *queue, const struct ops_choice *choice,
                                 uint64_t n) {
    struct ops_choice fits = *choice;
    const size_t item = dtype_size(choice->signature->items);
    const uint64_t round = (uint64_t)REDUCE_IN_FLIGHT * VECTOR * choice->block;
    if (choice->any_rung && choice->rung->number == DYNAMIC &&
        n * item < REDUCE_LONG_ROUNDS * round * pass_blocks(queue, choice, n, item))
        while (fits.rung->number != SINGLE_PASS)
            fits.rung--;
    return fits;
}

/* One launch: scratch for the blocks' results and, aligned, for the final one. */
static enum status plan_single_pass(struct ops_queue *queue, const struct ops_choice *choice,
                                    const struct ops_problem *problem, struct ops_plan *plan) {
    const uint64_t n = problem->numbers[0];
    const size_t accumulator = dtype_size(choice->signature->accumulator);
    const uint64_t blocks = pass_blocks(queue, choice, n, dtype_size(choice->signature->items));
    const uint64_t partials = blocks * (choice->rung->number == DYNAMIC ? 1 + REDUCE_DRAWS : 1);
    struct ops_step *step = &plan->steps[0];
    enum status status = plan_pass(queue, choice, choice->signature, n, blocks, step);
    if (!status)
        status = ops_scratch(queue, plan, (partials + 1) * accumulator);
    if (!status)
        status = ops_tickets(queue, &step->values[4]);
    plan->result = problem->output ? problem->output : plan->scratch + partials * accumulator;
    step->values[0] = problem->inputs[0];
    step->values[1] = plan->scratch;
    step->values[3] = plan->result;
    step->values[5] = problem->numbers[1]; /* whether the result is halved */
    step->value_count = 6;
    plan->step_count = 1;
    return status;
}

static enum status plan_passes(struct ops_queue *queue, const struct ops_choice *choice,
                               device_address items, uint64_t n, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    const struct reg_signature *signature = choice->signature;
    const size_t accumulator = dtype_size(signature->accumulator);
    uint64_t offsets[OPS_STEPS_MAX], bytes = 0, count = n;
    struct ops_choice pass = *choice; /* the caller's grid is the first pass's */
    do {
        const uint64_t blocks = pass_blocks(queue, &pass, count, dtype_size(signature->items));
        pass.blocks = 0;
        struct ops_step *step = &plan->steps[plan->step_count];
        if (blocks > GRID_MAX || plan->step_count == OPS_STEPS_MAX)
            return status_fail(STATUS_UNFIT,
                               "variant: rung '%s' with block=%u cannot process %llu elements; use "
                               "variant=7 or a larger block",
                               rung->name, choice->block, (unsigned long long)n);
        const enum status status = plan_pass(queue, choice, signature, count, blocks, step);
        if (status)
            return status;
        offsets[plan->step_count++] = bytes;
        bytes += round_up(blocks * accumulator, SCRATCH_ALIGNMENT);
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

/* The cpu's rungs need one step. */
static enum status plan_on_host(struct ops_queue *queue, const struct ops_choice *choice,
                                device_address items, uint64_t n, struct ops_plan *plan) {
    enum status status = ops_scratch(queue, plan, GPUOPT_ITEM_MAX);
    if (!status)
        status = ops_kernel(queue, choice->rung, choice->signature, 0, &plan->steps[0]);
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
    if (choice->rung->flags & RUNG_HOST)
        return plan_on_host(queue, choice, items, n, plan);
    const struct ops_choice fits = fitting(queue, choice, n);
    return ops_reduce_is_single_pass(&fits) ? plan_single_pass(queue, &fits, problem, plan)
                                            : plan_passes(queue, &fits, items, n, plan);
}
