/* ops_repeat.c: runs calls. The host starts a graph in half of a kernel's time (TUNING.md H3, H5):
 * a short call that has repeated often enough gets one, and loses it after as many other calls of
 * its hash. Knows no family.
 */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 8, STEPS_MOST = 4 /* launches of a graph */ };

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

/* Counts a planned call; returns whether it has a graph. A call gets none if the device is two
 * calls behind: that hides their launches, and their kernels overlap the end of the ones before. */
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
    const bool lags = (left == 1 || left == 3) && queue->device->ops->lags(queue->device);
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
