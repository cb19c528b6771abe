/* ops_vector.c: plans add and saxpy: one launch of one rung. Inputs: x and y; numbers: elements,
 * and the factor as bits (unused by add). If an array is strided or broadcast, which only the cpu
 * supports, the number of axes follows, the last axis first, and for each its size and the steps of
 * x, y and the result, in elements.
 */
#include "ops.h"

#include <string.h>

enum {
    GRID_MAX = 0x7fffffff,
    BLOCK_MAX = 1024,
    VECTOR = 16, /* bytes of a vector of rung 7 */
};

enum status ops_vector_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    const uint64_t n = problem->numbers[0];
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    step->values[step->value_count++] = n;
    step->values[step->value_count++] = problem->numbers[1];
    if (rung->flags & RUNG_HOST) {
        const uint64_t axes = problem->numbers[2], count = 1 + 4 * axes;
        if (axes > DEVICE_AXES)
            return status_fail(STATUS_BAD_VALUE, "x, y: %llu axes are more than %d",
                               (unsigned long long)axes, DEVICE_AXES);
        memcpy(step->values + step->value_count, problem->numbers + 2, count * sizeof(uint64_t));
        step->value_count += (unsigned)count;
        return status;
    }
    if (status)
        return status;

    uint64_t block = choice->block, blocks = ceil_div(n, block ? block : 1);
    if (rung->number == 1) {
        blocks = 1;
    } else if (rung->number == 3) {
        block = n;
        blocks = 1;
    } else if (rung->number == 6) {
        const uint64_t resident = (uint64_t)queue->info.multiprocessors *
                                  (unsigned)queue->info.threads_per_multiprocessor / block;
        blocks = blocks < resident ? blocks : resident;
    } else if (rung->number == 7) {
        const uint64_t vectors = ops_tuned(choice, OPS_TUNING_add_vectors);
        step->values[step->value_count++] = vectors;
        const uint64_t items = vectors * VECTOR / dtype_size(choice->signature->items) * block;
        blocks = ceil_div(n, items); /* at least one, for elements outside vectors */
    }
    if (block > BLOCK_MAX)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' has one block, of at most %d threads, and cannot process "
            "%llu elements; use variant='bounds'",
            rung->name, BLOCK_MAX, (unsigned long long)n);
    if (rung->number == 4 && n % block)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' requires a multiple of its block's %llu threads, not %llu "
            "elements; use variant='bounds', or a block that divides them",
            rung->name, (unsigned long long)block, (unsigned long long)n);
    if (blocks > GRID_MAX)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' cannot process %llu elements: a grid has at most %d blocks; "
            "use variant='grid-stride'",
            rung->name, (unsigned long long)n, GRID_MAX);
    step->grid[0] = (unsigned)blocks;
    step->block[0] = (unsigned)block;
    return STATUS_OK;
}
