/* ops_stencil1d.c: plans a stencil: one launch of one rung. The inputs are the array and the
 * weights (none for a plain sum); numbers: items, outputs, the middle input of output 0, radius,
 * mode, and the constant beyond the ends, by its bits in the accumulator's type.
 */
#include "ops.h"

enum {
    PIECE = 1024,          /* of stencil1d.cu: inputs of a window in shared memory at a time */
    GRID_MAX = 0x7fffffff, /* blocks, in x */
    NUMBERS = 6,
};

enum status ops_stencil1d_plan(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    const uint64_t outputs = problem->numbers[1], width = 2 * problem->numbers[3] + 1;
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    for (unsigned i = 0; i < NUMBERS; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || rung->flags & RUNG_HOST)
        return status;

    const uint64_t blocks = (outputs - 1) / ((uint64_t)choice->block * rung->items_per_thread) + 1;
    if (blocks > GRID_MAX)
        return status_fail(STATUS_BAD_VALUE,
                           "variant: rung '%s' with block=%u cannot take %llu items; use a larger "
                           "block",
                           rung->name, choice->block, (unsigned long long)outputs);
    step->grid[0] = (unsigned)blocks;
    step->block[0] = choice->block;
    if (rung->number == 2)
        step->shared_bytes = (choice->block + (unsigned)(width < PIECE ? width : PIECE) - 1) *
                             (unsigned)dtype_size(choice->signature->items);
    return STATUS_OK;
}
