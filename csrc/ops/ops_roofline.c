/* ops_roofline.c: plans the kernels that find a device's ceilings. */
#include "ops.h"

enum status ops_roofline_plan(struct ops_queue *queue, const struct ops_choice *choice,
                              const struct ops_problem *problem, struct ops_plan *plan) {
    const uint64_t n = problem->numbers[0];
    struct ops_step *step = &plan->steps[0];
    plan->result_bytes = n * dtype_size(choice->signature->items);
    plan->bytes = 2 * plan->result_bytes;
    enum status status = ops_scratch(queue, plan, plan->result_bytes);
    if (!status)
        status = ops_kernel(queue, choice->rung, choice->signature, choice->block, &step->kernel);
    const uint64_t items_per_block = (uint64_t)choice->block * choice->rung->items_per_thread;
    step->grid[0] = items_per_block ? (unsigned)((n - 1) / items_per_block + 1) : 1;
    step->block[0] = choice->block;
    step->values[0] = problem->inputs[0];
    step->values[1] = plan->result = plan->scratch;
    step->values[2] = n;
    step->value_count = 3;
    plan->step_count = 1;
    return status;
}
