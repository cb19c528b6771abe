/* ops_bench.c: runs and times choices on data that stays on the device. The caller decides on a
 * fair measurement: verification, warm-up, repetitions, statistics. Knows no family.
 */
#include "ops.h"

#include <stdlib.h>
#include <string.h>

enum {
    COLD_CACHES = 4, /* a round over the copies exceeds the last-level cache by this factor */
    COLD_LEAST = 256 << 20, /* bytes, if that cache is small or unknown */
    ALIGNMENT = 4096,
    POISON = 0xff, /* NaN in every float, -1 in every integer, no bool */
};

static uint64_t aligned(uint64_t bytes) { return round_up(bytes, ALIGNMENT); }

enum status ops_bench_open(struct ops_bench *bench, struct ops_queue *queue,
                           const struct ops_call *call) {
    const struct device_ops *ops = queue->device->ops;
    struct ops_problem *problem = &bench->problem;
    *bench = (struct ops_bench){.queue = queue};
    problem->input_count = call->input_count;
    problem->output_bytes = call->output_bytes;
    memcpy(problem->input_bytes, call->input_bytes, sizeof problem->input_bytes);
    memcpy(problem->numbers, call->numbers, sizeof problem->numbers);
    for (unsigned i = 0; i < call->input_count; i++)
        bench->stride += aligned(call->input_bytes[i]);
    bench->stride += aligned(call->output_bytes);
    const uint64_t caches = COLD_CACHES * queue->info.cache_bytes;
    bench->copies = (caches > COLD_LEAST ? caches : COLD_LEAST) / bench->stride;
    if (bench->copies == 0 || !(queue->device->capabilities & DEVICE_TIMER))
        bench->copies = 1; /* nothing is timed there */
    enum status status = ops->alloc(queue->device, bench->copies * bench->stride, &bench->data);
    device_address at = bench->data;
    for (unsigned i = 0; i < call->input_count; i++) {
        problem->inputs[i] = at;
        at += aligned(call->input_bytes[i]);
    }
    problem->output = call->output_bytes ? at : 0;
    for (unsigned i = 0; i < call->input_count && !status; i++) {
        const struct device_source source = {.data = call->inputs[i]};
        status = ops->copy_in(queue->device, problem->inputs[i], &source, call->input_bytes[i]);
    }
    /* Small data has ten thousands of copies: each step doubles them. */
    for (uint64_t done = 1, more; done < bench->copies && !status; done += more) {
        more = done < bench->copies - done ? done : bench->copies - done;
        status = ops->copy(queue->device, bench->data + done * bench->stride, bench->data,
                           more * bench->stride);
    }
    if (status)
        ops_bench_close(bench);
    return status;
}

void ops_bench_close(struct ops_bench *bench) {
    if (bench->data)
        bench->queue->device->ops->free(bench->queue->device, bench->data);
    bench->data = 0;
}

enum status ops_bench_told(struct ops_bench *bench, const struct ops_choice *choice,
                           struct ops_told *told) {
    struct ops_plan plan;
    const enum status status = ops_plan(bench->queue, choice, &bench->problem, &plan);
    if (status)
        return status;
    *told = (struct ops_told){plan.steps[0].rung, plan.bytes, plan.result_bytes};
    ops_plan_free(bench->queue, &plan);
    return STATUS_OK;
}

enum status ops_bench_run(struct ops_bench *bench, const struct ops_choice *choice, void *result,
                          size_t result_size) {
    struct ops_queue *queue = bench->queue;
    const struct device_ops *ops = queue->device->ops;
    struct ops_plan plan;
    enum status status = ops_plan(queue, choice, &bench->problem, &plan);
    if (status)
        return status;
    if (result_size < plan.result_bytes)
        status = status_fail(STATUS_BAD_VALUE, "result: %zu bytes do not fit into %zu",
                             plan.result_bytes, result_size);
    if (!status && plan.scratch)
        status = ops->fill(queue->device, plan.scratch, POISON, plan.scratch_bytes);
    if (!status && bench->problem.output)
        status =
            ops->fill(queue->device, bench->problem.output, POISON, bench->problem.output_bytes);
    if (!status)
        status = ops_run(queue, &plan);
    if (!status)
        status = ops->copy_out(queue->device, result, plan.result, plan.result_bytes);
    ops_plan_free(queue, &plan);
    return status;
}

/* Replaces the first step's arrays by those of one of the copies. */
static void use_copy(const struct ops_bench *bench, struct ops_plan *plan, uint64_t copy) {
    const struct ops_problem *problem = &bench->problem;
    uint64_t *values = plan->steps[0].values;
    for (unsigned i = 0; i < problem->input_count; i++)
        values[i] = problem->inputs[i] + copy * bench->stride;
    if (problem->output)
        values[problem->input_count] = problem->output + copy * bench->stride;
}

/* Launches one by one. */
static enum status time_launches(struct ops_bench *bench, struct ops_plan *plan, unsigned runs,
                                 bool cold, double *seconds) {
    struct ops_queue *queue = bench->queue;
    const struct device_ops *ops = queue->device->ops;
    enum status status = ops->timer_begin(queue->device);
    for (unsigned run = 0; run < runs && !status; run++) {
        if (cold)
            use_copy(bench, plan, bench->turn++ % bench->copies);
        status = ops_run(queue, plan);
    }
    return status ? status : ops->timer_end(queue->device, seconds);
}

/* Captures `runs` runs as one graph; cold runs use the next copies in turn. */
static enum status open_graph(struct ops_bench *bench, const struct ops_plan *plan, unsigned runs,
                              bool cold, struct device_graph **graph) {
    const struct device_ops *ops = bench->queue->device->ops;
    const uint64_t copies = !cold ? 1 : bench->copies < runs ? bench->copies : runs;
    const size_t count = (size_t)runs * plan->step_count;
    struct ops_plan *plans = malloc(copies * sizeof *plans);
    struct device_launch *launches = malloc(count * sizeof *launches);
    void *(*arguments)[OPS_ARGUMENTS_MAX] = malloc(count * sizeof *arguments);
    enum status status = STATUS_OK;
    if (!plans || !launches || !arguments)
        status = status_fail(STATUS_NO_HOST_MEMORY, "no memory for %zu launches", count);
    for (uint64_t copy = 0; copy < copies && !status; copy++) {
        plans[copy] = *plan;
        use_copy(bench, &plans[copy], cold ? (bench->turn + copy) % bench->copies : 0);
    }
    for (size_t i = 0; i < count && !status; i++)
        launches[i] = ops_launch_of(&plans[i / plan->step_count % copies],
                                    (unsigned)(i % plan->step_count), arguments[i]);
    if (!status)
        status = ops->graph_open(bench->queue->device, launches, count, graph);
    bench->turn += cold ? runs : 0;
    free(plans);
    free(launches);
    free(arguments);
    return status;
}

/* A GPU that finishes a kernel before the host launches the next measures the host. So several runs
 * form one graph, however long they are (TUNING.md H4). The second launch is timed, since the GPU
 * is busy when it is enqueued. A cold first launch uses another graph: otherwise few runs or small
 * data would still be in the caches. */
static enum status time_as_graph(struct ops_bench *bench, const struct ops_plan *plan,
                                 unsigned runs, bool cold, double *seconds) {
    struct device *device = bench->queue->device;
    const struct device_ops *ops = device->ops;
    struct device_graph *first = NULL, *other = NULL;
    enum status status = open_graph(bench, plan, runs, cold, &first);
    if (!status && cold)
        status = open_graph(bench, plan, runs, cold, &other);
    if (!status)
        status = ops->graph_launch(device, first);
    if (!status)
        status = ops->timer_begin(device);
    if (!status)
        status = ops->graph_launch(device, cold ? other : first);
    if (!status)
        status = ops->timer_end(device, seconds);
    ops->graph_close(device, other);
    ops->graph_close(device, first);
    return status;
}

enum status ops_bench_time(struct ops_bench *bench, const struct ops_choice *choice, unsigned runs,
                           bool cold, double *seconds) {
    struct ops_queue *queue = bench->queue;
    const struct device_ops *ops = queue->device->ops;
    const bool graph = runs > 1 && queue->device->capabilities & DEVICE_STREAMS;
    struct ops_plan plan;
    enum status status = ops_plan(queue, choice, &bench->problem, &plan);
    if (status)
        return status;
    if (cold)
        use_copy(bench, &plan, bench->turn++ % bench->copies);
    status = ops_run(queue, &plan); /* the first run loads the kernel */
    if (!status)
        status = ops->sync(queue->device);
    if (!status)
        status = graph ? time_as_graph(bench, &plan, runs, cold, seconds)
                       : time_launches(bench, &plan, runs, cold, seconds);
    if (!status)
        *seconds /= runs;
    ops_plan_free(queue, &plan);
    return status;
}
