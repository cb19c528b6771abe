/* ops_plan.c: calls the planner of a call's family, runs calls, and starts those that repeat as
 * graphs. Knows no kernel. */
#include "ops.h"

#include <stdlib.h>
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

/* --- calls that repeat: the host starts a graph in a third to half of a kernel's time (TUNING.md
 * H3, H5 to H7). A call on few bytes that has repeated often enough gets one, and loses it after as
 * many other calls of its hash. */

enum {
    PLACES = 8,
    STEPS_MOST = 4, /* launches of a graph */
    HASHED = 16,    /* numbers of a problem: extents and steps come first */
};

struct ops_repeats {
    struct repeat {
        struct ops_choice choice;
        struct ops_problem problem;
        unsigned times;             /* equal calls, less the others since the graph was built */
        struct device_graph *graph; /* NULL: not built yet, or without memory for one */
    } of[PLACES];
};

static void forget(struct ops_queue *queue, struct repeat *repeat) {
    if (repeat->graph)
        queue->device->ops->graph_close(queue->device, repeat->graph);
    repeat->graph = NULL;
    repeat->times = 0;
}

void ops_repeats_forget(struct ops_queue *queue) {
    for (unsigned k = 0; queue->repeats && k < PLACES; k++)
        forget(queue, &queue->repeats->of[k]);
}

/* The place of a call that may repeat; NULL: it cannot. */
static struct repeat *place_of(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem) {
    if (!(queue->device->capabilities & DEVICE_STREAMS) || device_is_captured(queue->device) ||
        choice->tuning)
        return NULL;
    if (!queue->repeats)
        queue->repeats = calloc(1, sizeof *queue->repeats);
    uint64_t hash = (uintptr_t)choice->signature ^ problem->output;
    for (unsigned i = 0; i < problem->input_count; i++)
        hash = (hash ^ problem->inputs[i]) * 0x9E3779B97F4A7C15u;
    for (unsigned i = 0; i < HASHED; i++)
        hash = (hash ^ problem->numbers[i]) * 0x9E3779B97F4A7C15u;
    return queue->repeats ? &queue->repeats->of[(hash >> 32) % PLACES] : NULL;
}

static bool is_same(const struct repeat *last, const struct ops_choice *choice,
                    const struct ops_problem *problem) {
    return last->choice.rung == choice->rung && last->choice.signature == choice->signature &&
           last->choice.block == choice->block && last->choice.blocks == choice->blocks &&
           last->choice.any_rung == choice->any_rung &&
           last->choice.any_block == choice->any_block &&
           memcmp(&last->problem, problem, sizeof *problem) == 0;
}

static struct device_graph *graph_of(struct ops_queue *queue, const struct ops_plan *plan) {
    void *arguments[STEPS_MOST][OPS_ARGUMENTS_MAX];
    struct device_launch launches[STEPS_MOST];
    struct device_graph *graph;
    for (unsigned i = 0; i < plan->step_count; i++)
        launches[i] = ops_launch_of(plan, i, arguments[i]);
    return queue->device->ops->graph_open(queue->device, launches, plan->step_count, &graph)
               ? NULL
               : graph;
}

/* Counts a planned call; returns whether it has a graph. A call gets none if the device has not
 * completed the last but one: that hides their launches, and kernels overlap the end of others. */
static bool count(struct ops_queue *queue, const struct ops_choice *choice,
                  const struct ops_problem *problem, const struct ops_plan *plan,
                  struct repeat *last, bool same) {
    if (!plan->step_count || plan->step_count > STEPS_MOST ||
        plan->bytes > ops_fixed(queue, repeated_bytes) || (plan->scratch && !plan->lent))
        return false;
    if (!same) {
        if (last->graph && --last->times)
            return false;
        forget(queue, last);
        last->choice = *choice;
        last->problem = *problem;
    }
    const unsigned left = ops_fixed(queue, repeated_most) - last->times;
    last->times += left > 0;
    const bool lags = (left == 1 || left == 2) && queue->device->ops->lags(queue->device);
    if (left == 1 && lags)
        last->times = 0;
    else if (left == 1)
        last->graph = graph_of(queue, plan);
    return last->graph;
}

static enum status start(struct ops_queue *queue, const struct repeat *repeat) {
    const enum status status = queue->device->ops->graph_launch(queue->device, repeat->graph);
    if (status)
        ops_forget(queue);
    return status;
}

enum status ops_perform(struct ops_queue *queue, const struct ops_choice *choice,
                        const struct ops_problem *problem) {
    struct repeat *last = place_of(queue, choice, problem);
    const bool same = last && is_same(last, choice, problem);
    struct ops_plan plan;
    if (same && last->graph) {
        last->times = ops_fixed(queue, repeated_most);
        return start(queue, last);
    }
    queue->keeping = queue->device->capabilities & DEVICE_STREAMS;
    enum status status = ops_plan(queue, choice, problem, &plan);
    queue->keeping = false;
    if (status)
        return status;
    const bool ready = last && count(queue, choice, problem, &plan, last, same);
    status = ready ? start(queue, last) : ops_run(queue, &plan);
    ops_plan_free(queue, &plan);
    return status;
}

/* --- calls on arrays of the host or the device */

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
