/* cpu_transpose_gather.h: the transpose of short axes by the rung `simd`: runs of the output,
 * gathered from the input.
 */
#pragma once

#include "cpu_team.h"
#include "cpu_transpose_parts.h"

enum {
    RUN_LEAST = 64,  /* elements of a run of the output that is gathered at once, */
    RUN_MOST = 2048, /* and at most */
    RUNS_MOST = 512, /* of a tile */
};

/* Short axes: a tile has some axes that are innermost in the output, which form a run of it, and
 * some innermost in the input (TUNING.md C5). */
struct gathers {
    const struct transpose_call *call;
    struct transpose_axis rest[TRANSPOSE_AXES_MAX + 4];
    unsigned rest_count;
    uint64_t run, runs, tiles, together; /* elements, runs of a tile, tiles of a task */
    uint64_t from[RUN_MOST];             /* offset in the input of an element of a run */
    uint64_t begin_in[RUNS_MOST], begin_out[RUNS_MOST]; /* offsets of a run in both */
};

/* Removes the axis of the smallest step from `axes`, which has `*count`; if it has more than
 * `most_items` elements, returns a factor of it and leaves the other there. */
static struct transpose_axis take_least(struct transpose_axis *axes, unsigned *count, bool output,
                                        uint64_t most_items) {
    unsigned found = 0;
    for (unsigned k = 1; k < *count; k++)
        if (output ? axes[k].out < axes[found].out : axes[k].in < axes[found].in)
            found = k;
    struct transpose_axis axis = axes[found];
    if (axis.extent <= most_items) {
        axes[found] = axes[--*count];
        return axis;
    }
    uint64_t part = most_items;
    while (axis.extent % part)
        part--;
    axes[found] = (struct transpose_axis){axis.extent / part, axis.in * part, axis.out * part};
    axis.extent = part;
    return axis;
}

/* Returns false if no axes form a run of acceptable length, or one run is all. */
static bool find_gathers(struct gathers *gathers) {
    const struct transpose_plan *plan = gathers->call->plan;
    struct transpose_axis *axes = gathers->rest;
    unsigned count = 2;
    if (plan->items < 2 * RUN_LEAST)
        return false;
    axes[0] = (struct transpose_axis){plan->rows, plan->in_pitch, 1};
    axes[1] = (struct transpose_axis){plan->columns, plan->item_step, plan->out_pitch};
    for (unsigned k = 0; k < plan->grid_axes; k++)
        axes[count++] = plan->axes[k];
    gathers->run = gathers->runs = 1;
    gathers->from[0] = 0;
    while (count && gathers->run < RUN_LEAST) {
        const struct transpose_axis axis = take_least(axes, &count, true, RUN_MOST / gathers->run);
        if (axis.extent == 1)
            return false;
        uint64_t *next = gathers->from + gathers->run;
        for (uint64_t at = 1; at < axis.extent; at++)
            for (uint64_t k = 0; k < gathers->run; k++)
                *next++ = gathers->from[k] + at * axis.in;
        gathers->run *= axis.extent;
    }
    gathers->begin_in[0] = gathers->begin_out[0] = 0;
    while (count) {
        const struct transpose_axis axis =
            take_least(axes, &count, false, RUNS_MOST / gathers->runs);
        if (axis.in >= RUN_LEAST || axis.extent == 1) {
            axes[count++] = axis;
            break;
        }
        uint64_t next = gathers->runs;
        for (uint64_t at = 1; at < axis.extent; at++)
            for (uint64_t k = 0; k < gathers->runs; k++, next++) {
                gathers->begin_in[next] = gathers->begin_in[k] + at * axis.in;
                gathers->begin_out[next] = gathers->begin_out[k] + at * axis.out;
            }
        gathers->runs = next;
    }
    for (unsigned left = count; left > 0;) { /* the others, from the output's outermost on */
        const struct transpose_axis axis = take_least(axes, &left, true, UINT64_MAX);
        axes[left] = axis;
    }
    gathers->rest_count = count;
    gathers->tiles = plan->items / gathers->run / gathers->runs;
    gathers->together =
        max_u64(1, TASK_BYTES / (gathers->run * gathers->runs * gathers->call->mover->size));
    return gathers->run >= RUN_LEAST;
}

static void gather_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct gathers *gathers = state;
    const struct transpose_call *call = gathers->call;
    const uint64_t size = call->mover->size, first = task * gathers->together;
    const uint64_t end = min_u64(first + gathers->together, gathers->tiles);
    for (uint64_t tile = first; tile < end; tile++) {
        uint64_t in = 0, out = 0, index = tile;
        for (unsigned k = gathers->rest_count; k-- > 0;) {
            const struct transpose_axis *axis = &gathers->rest[k];
            const uint64_t at = index % axis->extent;
            index /= axis->extent;
            in += at * axis->in;
            out += at * axis->out;
        }
        for (uint64_t run = 0; run < gathers->runs; run++)
            call->mover->gather(call->in + (in + gathers->begin_in[run]) * size, gathers->from,
                                call->out + (out + gathers->begin_out[run]) * size, gathers->run);
    }
}
