/* ops_plan.c: calls the planner of a call's family, and runs calls whose output is an array. Knows
 * no kernel. */
#include "ops.h"

#include <string.h>

/* The choice's block or, if the caller named none, the rung's largest one that the GPU allows. */
static unsigned allowed_block(const struct ops_queue *queue, const struct ops_choice *choice) {
    const unsigned most = (unsigned)queue->info.threads_per_block;
    unsigned block = choice->block;
    while (choice->any_block && most && block > most && block / 2 >= choice->rung->block_min)
        block /= 2;
    return block;
}

enum status ops_plan(struct ops_queue *queue, const struct ops_choice *choice,
                     const struct ops_problem *problem, struct ops_plan *plan) {
    static enum status (*const planners[])(struct ops_queue *, const struct ops_choice *,
                                           const struct ops_problem *, struct ops_plan *) = {
#define FAMILY(name, files) ops_##files##_plan,
        REG_FAMILIES(FAMILY)
#undef FAMILY
    };
    /* The steps are large; a rung on the cpu has one. */
    memset(plan->steps, 0,
           sizeof *plan->steps * (choice->rung->flags & RUNG_HOST ? 1 : OPS_STEPS_MAX));
    memset(&plan->step_count, 0,
           (choice->rung->flags & RUNG_HOST ? offsetof(struct ops_plan, wide) : sizeof *plan) -
               offsetof(struct ops_plan, step_count));
    struct ops_choice allowed = *choice;
    allowed.block = allowed_block(queue, choice);
    const enum status status =
        choice->rung->flags & RUNG_LISTING
            ? ops_historical_plan(queue, &allowed, problem, plan)
            : planners[choice->family - reg_families](queue, &allowed, problem, plan);
    if (status)
        ops_plan_free(queue, plan);
    return status;
}

/* Returns an input's address in the device's memory, copying it if necessary. */
static enum status input_there(struct ops_queue *queue, const struct ops_call *call, unsigned i,
                               bool in_place, device_address *address) {
    const struct device_ops *ops = queue->device->ops;
    const struct device_source source = {.data = call->inputs[i]};
    *address = (device_address)(uintptr_t)call->inputs[i];
    if (in_place)
        return STATUS_OK;
    *address = 0;
    if (device_is_captured(queue->device) && call->input_bytes[i] > DEVICE_CAPTURED_BYTES)
        return device_refuse_captured();
    const enum status status = ops->alloc(queue->device, call->input_bytes[i], address);
    return status ? status : ops->copy_in(queue->device, *address, &source, call->input_bytes[i]);
}

static enum status run_once(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem) {
    struct ops_plan plan;
    enum status status = ops_plan(queue, choice, problem, &plan);
    if (status)
        return status;
    status = ops_run(queue, &plan);
    ops_plan_free(queue, &plan);
    return status;
}

enum status ops_call(struct ops_queue *queue, const struct ops_choice *choice,
                     const struct ops_call *call) {
    const struct device_ops *ops = queue->device->ops;
    const bool on_host = queue->device->capabilities & DEVICE_HOST_MEMORY;
    const unsigned by_value = on_host ? 0 : call->by_value;
    const unsigned in_place = on_host ? ~0u : call->resident | by_value;
    const bool output_in_place = in_place & OPS_RESIDENT_OUTPUT;
    const bool one_array =
        !output_in_place && call->input_count && !(in_place & 1) && call->output == call->inputs[0];
    struct ops_problem problem; /* a large struct: set once */
    enum status status = STATUS_OK;
    problem.input_count = call->input_count;
    problem.output_bytes = call->output_bytes;
    problem.output = 0;
    problem.by_value = by_value;
    memset(problem.inputs, 0, sizeof problem.inputs);
    memset(problem.values, 0, sizeof problem.values);
    memcpy(problem.numbers, call->numbers, sizeof problem.numbers);
    memcpy(problem.input_bytes, call->input_bytes, sizeof problem.input_bytes);
    for (unsigned i = 0; i < call->input_count && !status; i++)
        if (by_value & 1u << i)
            memcpy(&problem.values[i], call->inputs[i], call->input_bytes[i]);
        else
            status = input_there(queue, call, i, in_place & 1u << i, &problem.inputs[i]);
    if (output_in_place)
        problem.output = (device_address)(uintptr_t)call->output;
    else if (one_array)
        problem.output = problem.inputs[0];
    else if (!status)
        status = ops->alloc(queue->device, call->output_bytes, &problem.output);
    if (!status)
        status = output_in_place && !on_host ? ops_perform(queue, choice, &problem)
                                             : run_once(queue, choice, &problem);
    if (!status && !output_in_place)
        status = ops->copy_out(queue->device, call->output, problem.output, call->output_bytes);
    for (unsigned i = 0; i < call->input_count; i++)
        if (!(in_place & 1u << i))
            ops->free(queue->device, problem.inputs[i]);
    if (!output_in_place && !one_array)
        ops->free(queue->device, problem.output);
    return status;
}
