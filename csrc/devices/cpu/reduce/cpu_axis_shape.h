/* cpu_axis_shape.h: the rows and columns of a reduction along an axis on the CPU, chosen from the
 * kernels' arguments. Knows no task and no thread.
 */
#ifndef GPUOPT_CPU_AXIS_SHAPE_H
#define GPUOPT_CPU_AXIS_SHAPE_H

#include "cpu_axis.h"

#include <stdatomic.h>
#include <string.h>

enum {
    SIDE = 4,          /* axes on either side of the reduced one */
    KEPT_MOST = LANES, /* results of a slab's row */
    FEW_COLUMNS = 8,   /* each row of which costs more than to gather them, */
    FEW_NARROW = 31,   /* and of bytes */
    FEW_SEARCHED = 4,  /* of short columns that are searched one by one, */
    FEW_BYTES = 16,    /* or bytes of columns of any length */
    LONG_AXIS = 64,    /* columns that are worth a tile of their own, */
    LONG_RUN = 64,     /* or bytes of contiguous ones, */
    LONG_TILE = 4096,  /* if the tile has this many bytes */
    FIRST = 16,        /* elements of a row that may decide */
};

/* For every outer index and each of `inner` columns, a row of reduced elements. If the columns are
 * few and contiguous, all of their elements may form one interleaved row: of `kept` results. */
struct job {
    const struct axis_functions *functions;
    const char *in;
    struct axis_results results;
    uint64_t outer, reduced, inner, kept;
    uint64_t unit; /* contiguous columns; the next follow after inner_stride */
    bool soon;     /* rows are searched, whose first elements usually end it */
    int64_t stride, inner_stride;
    struct device_axes outer_axes;
    struct device_axes inner_axes; /* if the columns do not have one step */
    int64_t mask;
    uint64_t rows, run, share; /* of a task: rows, tiles of columns, elements of each */
    uint64_t splits, tiles;    /* of the whole */
    uint64_t tile;             /* columns */
    uint64_t columns_ahead;    /* as in struct part */
    char *partials;            /* NULL if the reduced axis is one chunk */
    /* The first chunk, in the order of the search, after which no other can change the result. NULL
     * if there are several results. */
    atomic_uint_least64_t *settled;
};

/* Appends axes in the kernels' form: the step of the last, the sizes of all but the first, their
 * steps. A size of 0 means the first axis. */
static void take_axes(struct device_axes *axes, void **arguments, uint64_t total) {
    for (int k = 0; k < SIDE; k++) {
        const uint64_t size = k < SIDE - 1 ? *(const uint64_t *)arguments[1 + k] : 0;
        axes->steps[axes->count] = *(const int64_t *)arguments[k ? SIDE - 1 + k : 0];
        axes->sizes[axes->count++] = size ? size : total;
        if (!size)
            return;
        total /= size;
    }
}

/* Inserts the axes of `more`, from its axis `first` on, before all others. */
static void append_axes(struct device_axes *axes, const struct device_axes *more, int first) {
    for (int k = first; k < more->count; k++, axes->count++) {
        axes->sizes[axes->count] = more->sizes[k];
        axes->steps[axes->count] = more->steps[k];
    }
}

/* Whether `unit` contiguous elements can move as one, with steps that are multiples of it. */
static bool whole_units(const struct job *job, uint64_t unit, int64_t step) {
    return (unit & (unit - 1)) == 0 && unit * job->functions->item_size <= GPUOPT_ITEM_MAX &&
           step % (int64_t)unit == 0;
}

/* Whether the first axis of the columns is worth tiles of its own. */
static bool fills_tiles(const struct job *job) {
    const uint64_t columns = job->inner_axes.sizes[0], bytes = columns * job->functions->item_size;
    return columns >= LONG_AXIS || (job->inner_axes.steps[0] == 1 && bytes >= LONG_RUN &&
                                    bytes * job->reduced >= LONG_TILE && !job->functions->convert);
}

/* Makes rows of all other axes of the columns. */
static void move_axes(struct job *job) {
    const struct device_axes last = job->outer_axes;
    job->outer *= job->inner / job->inner_axes.sizes[0];
    job->inner = job->inner_axes.sizes[0];
    job->outer_axes.count = 0;
    append_axes(&job->outer_axes, &job->inner_axes, 1);
    append_axes(&job->outer_axes, &last, 0);
    job->inner_axes.count = 1;
}

/* Whether rows of bytes, a few of which are tried, soon have the value that ends a search, as bools
 * usually do. Short rows that would be gathered are processed as columns nevertheless. */
static bool found_at_once(const struct job *job, const struct device_axes *rows) {
    enum { TRIED = 8, LEAST = 8, LEAST_GATHERED = 24 }; /* rows, and elements of each */
    const struct axis_core *core = job->functions->core;
    const int8_t value = (int8_t)(INT8_MIN ^ job->results.key);
    const uint64_t count = job->outer * job->inner, n = least(job->reduced, FIRST);
    const uint64_t shortest = job->stride == 1                                    ? LEAST
                              : job->inner_stride == 1 && job->inner > FEW_NARROW ? LONG_AXIS
                                                                                  : LEAST_GATHERED;
    char first[FIRST];
    bool found = core->has_index && core->item_size == 1 && !job->mask && count >= TRIED &&
                 job->reduced >= shortest;
    for (uint64_t k = 0; k < TRIED && found; k++) {
        int64_t start;
        axes_at(rows, count / TRIED * k, 1, &start);
        gather(first, job->in + start, 1, 1, n, 0, job->stride);
        found = memchr(first, (uint8_t)value, n);
    }
    return found;
}

/* Whether few columns are searched one by one: short ones, and those that would be gathered. */
static bool searches_each(const struct job *job, const struct device_axes *inner) {
    const size_t size = job->functions->item_size;
    const bool apart = size == 1 || inner->count > 1 || job->inner_stride != 1 ||
                       job->stride != (int64_t)job->inner;
    return job->functions->core->has_index && job->reduced >= LONG_AXIS &&
           ((apart && job->inner * size <= FEW_BYTES) ||
            (job->inner <= FEW_SEARCHED && job->reduced < LEAF));
}

/* Chooses rows and columns. The results are ordered by the outer index and then by the inner one:
 * axes may move from one to the other. */
static void set_shape(struct job *job, const struct device_axes *outer,
                      const struct device_axes *inner) {
    const struct axis_core *core = job->functions->core;
    const bool adjoins = job->stride == 1 && !job->functions->convert;
    const uint64_t short_row = core->has_index && !adjoins ? SEARCHED - 1 : core->short_row;
    const uint64_t kept = job->inner;
    const uint64_t few = job->functions->item_size > 1 ? FEW_COLUMNS : FEW_NARROW;
    struct device_axes all = {.count = 0}; /* of the results */
    if (kept > 1)
        all = *inner;
    append_axes(&all, outer, 0);
    job->kept = 1;
    job->unit = 1;
    job->inner_stride = inner->steps[0];
    if (kept > 1 && kept <= KEPT_MOST && (kept & (kept - 1)) == 0 && inner->count == 1 &&
        job->inner_stride == 1 && !core->has_index &&
        (job->stride == (int64_t)kept || whole_units(job, kept, job->stride))) {
        job->kept = kept;
        job->reduced *= kept;
        job->inner = 1;
        job->outer_axes = *outer;
    } else if ((job->soon = found_at_once(job, &all)) || searches_each(job, inner)) {
        job->outer *= job->inner; /* searching rows is faster than gathering columns */
        job->inner = 1;
        job->outer_axes = all;
    } else if (job->inner <= (core->has_index ? few : 1) && job->outer > 1 &&
               job->reduced <= short_row) {
        /* Short rows are processed as columns: many of them at a time. */
        job->inner_axes = all;
        job->inner *= job->outer;
        job->outer = 1;
        job->inner_stride = job->inner_axes.steps[0];
    } else {
        job->outer_axes = *outer;
        job->inner_axes = *inner;
    }
    if (job->inner_axes.count > 1 && fills_tiles(job))
        move_axes(job);
    const uint64_t unit = job->inner_axes.sizes[0];
    if (job->inner_axes.count == 1) {
        job->inner_axes.count = 0;
    } else if (job->inner_axes.count == 2 && job->inner_axes.steps[0] == 1 &&
               whole_units(job, unit, job->inner_axes.steps[1]) &&
               whole_units(job, unit, job->stride)) {
        job->inner_axes.count = 0;
        job->unit = unit;
        job->inner_stride = job->inner_axes.steps[1];
    } else if (job->inner_axes.count) {
        job->inner_stride = 0;
    }
}

#endif
