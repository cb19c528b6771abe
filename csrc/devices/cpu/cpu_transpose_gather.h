/* cpu_transpose_gather.h: the transpose of short axes by the rung `simd`: runs of the output,
 * gathered from the input.
 */
#pragma once

#include "cpu_team.h"
#include "cpu_transpose_parts.h"

enum {
    RUN_LEAST = 64,  /* elements of a run of the output that is gathered at once, */
    RUN_MOST = 512,  /* and at most: as many lines as the first-level cache has */
    RUNS_MOST = 512, /* of a tile */
};

/* Short axes: a tile has some axes that are innermost in the output, which form a run of it, and
 * some innermost in the input (TUNING.md C5). The last axis of either may be cut: its last chunk is
 * shorter. */
struct gathers {
    const struct transpose_call *call;
    struct transpose_axis rest[TRANSPOSE_AXES_MAX + 4]; /* of chunks */
    unsigned rest_count;
    uint64_t run, runs, tiles, together; /* elements, runs of a tile, tiles of a task */
    struct {
        uint64_t out; /* step of the chunks, or 0: none is cut */
        uint64_t last;
    } run_cut, runs_cut;     /* `last` replaces `run` and `runs` */
    uint64_t from[RUN_MOST]; /* offset in the input of an element of a run */
    uint64_t begin_in[RUNS_MOST], begin_out[RUNS_MOST]; /* offsets of a run in both */
};

/* Removes the axis of the smallest step from `axes`, which has `*count`; if it has more than
 * `most_items` elements, returns the first chunk of it and leaves all chunks there. */
static struct transpose_axis take_least(struct transpose_axis *axes, unsigned *count, bool output,
                                        uint64_t most_items, uint64_t *last) {
    unsigned found = 0;
    for (unsigned k = 1; k < *count; k++)
        if (output ? axes[k].out < axes[found].out : axes[k].in < axes[found].in)
            found = k;
    struct transpose_axis axis = axes[found];
    *last = 0;
    if (axis.extent <= most_items) {
        axes[found] = axes[--*count];
        return axis;
    }
    const uint64_t chunks = ceil_div(axis.extent, most_items), part = ceil_div(axis.extent, chunks);
    const uint64_t whole = ceil_div(axis.extent, part);
    *last = axis.extent - (whole - 1) * part;
    axes[found] = (struct transpose_axis){whole, axis.in * part, axis.out * part};
    axis.extent = part;
    return axis;
}

/* The axes of a run, and of the runs of a tile. */
static void find_tile(struct gathers *gathers, unsigned *count) {
    struct transpose_axis *axes = gathers->rest;
    uint64_t last = 0;
    while (*count && gathers->run < RUN_LEAST) {
        const struct transpose_axis axis =
            take_least(axes, count, true, RUN_MOST / gathers->run, &last);
        uint64_t *next = gathers->from + gathers->run;
        for (uint64_t at = 1; at < axis.extent; at++)
            for (uint64_t k = 0; k < gathers->run; k++)
                *next++ = gathers->from[k] + at * axis.in;
        if (last) {
            gathers->run_cut.out = axis.out * axis.extent;
            gathers->run_cut.last = gathers->run * last;
        }
        gathers->run *= axis.extent;
    }
    for (last = 0; *count && !last;) {
        struct transpose_axis axis = axes[0];
        for (unsigned k = 1; k < *count; k++)
            axis = axes[k].in < axis.in ? axes[k] : axis;
        if (axis.in >= RUN_LEAST || axis.out == gathers->run_cut.out || gathers->runs == RUNS_MOST)
            break;
        axis = take_least(axes, count, false, RUNS_MOST / gathers->runs, &last);
        uint64_t next = gathers->runs;
        for (uint64_t at = 1; at < axis.extent; at++)
            for (uint64_t k = 0; k < gathers->runs; k++, next++) {
                gathers->begin_in[next] = gathers->begin_in[k] + at * axis.in;
                gathers->begin_out[next] = gathers->begin_out[k] + at * axis.out;
            }
        if (last) {
            gathers->runs_cut.out = axis.out * axis.extent;
            gathers->runs_cut.last = gathers->runs * last;
        }
        gathers->runs = next;
    }
}

/* Returns false if one run is all. */
static bool find_gathers(struct gathers *gathers) {
    const struct transpose_plan *plan = gathers->call->plan;
    struct transpose_axis *axes = gathers->rest;
    unsigned count = 2;
    uint64_t last;
    if (plan->items < 2 * RUN_LEAST)
        return false;
    axes[0] = (struct transpose_axis){plan->rows, plan->in_pitch, 1};
    axes[1] = (struct transpose_axis){plan->columns, plan->item_step, plan->out_pitch};
    for (unsigned k = 0; k < plan->grid_axes; k++)
        axes[count++] = plan->axes[k];
    gathers->run = gathers->runs = gathers->tiles = 1;
    gathers->run_cut.out = gathers->runs_cut.out = 0;
    gathers->from[0] = gathers->begin_in[0] = gathers->begin_out[0] = 0;
    find_tile(gathers, &count);
    gathers->rest_count = count;
    while (count > 0) { /* the others, from the output's outermost on */
        const struct transpose_axis axis = take_least(axes, &count, true, UINT64_MAX, &last);
        axes[count] = axis;
        gathers->tiles *= axis.extent;
    }
    gathers->together =
        max_u64(1, TASK_BYTES / (gathers->run * gathers->runs * gathers->call->mover->size));
    return true;
}

static void gather_task(const void *state, uint64_t task, struct cpu_worker *worker) {
    (void)worker;
    const struct gathers *gathers = state;
    const struct transpose_call *call = gathers->call;
    const uint64_t size = call->mover->size, first = task * gathers->together;
    const uint64_t end = min_u64(first + gathers->together, gathers->tiles);
    for (uint64_t tile = first; tile < end; tile++) {
        uint64_t in = 0, out = 0, index = tile, length = gathers->run, runs = gathers->runs;
        for (unsigned k = gathers->rest_count; k-- > 0;) {
            const struct transpose_axis *axis = &gathers->rest[k];
            const uint64_t at = index % axis->extent;
            index /= axis->extent;
            if (at + 1 == axis->extent && axis->out == gathers->run_cut.out)
                length = gathers->run_cut.last;
            if (at + 1 == axis->extent && axis->out == gathers->runs_cut.out)
                runs = gathers->runs_cut.last;
            in += at * axis->in;
            out += at * axis->out;
        }
        for (uint64_t run = 0; run < runs; run++)
            call->mover->gather(call->in + (in + gathers->begin_in[run]) * size, gathers->from,
                                call->out + (out + gathers->begin_out[run]) * size, length);
    }
}
