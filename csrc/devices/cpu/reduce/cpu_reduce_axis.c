/* cpu_reduce_axis.c: reductions along an axis on the CPU. Arguments, keys and finishes are those of
 * reduce_axis.cu. Only the sizes determine the tasks (rows, a chunk of the reduced axis, a tile of
 * columns), and partial results are combined in a binary tree: every number of threads returns the
 * same bits. Knows no Python.
 */

/* The kernels' signatures, and products of small integers and of complex numbers. */
#define CPU_REDUCE_AXIS_SIGNATURES(SIGNATURE)        \
    REDUCE_AXIS_SIGNATURES(SIGNATURE)                \
    SIGNATURE(prod, int8, int64, , INTEGERS)         \
    SIGNATURE(prod, int16, int64, , INTEGERS)        \
    SIGNATURE(prod, int32, int64, , INTEGERS)        \
    SIGNATURE(prod, complex64, complex128, , FLOATS) \
    SIGNATURE(prod, complex128, complex128, , FLOATS)

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "serial", "cpu_reduce_axis_serial",
     "one thread: 16 partial sums along a row, a row of sums over columns",
     "after the decks", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "team", "cpu_reduce_axis_team",
     "the same tasks on all cores",
     "after the decks", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
/* clang-format on */
#else

#define GPUOPT_RUNGS /* the kernels' signatures, without the kernels */
#define RUNG(...)
#include "../../../kernels/reduce_axis.cu"
#undef RUNG
#undef GPUOPT_RUNGS

#include "cpu_axis_operations.h"
#include "cpu_axis_shape.h"
#include "../cpu_kernels.h"
#include "../cpu_team.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    FOLDED = 64,                   /* columns for which rows are joined, */
    FOLDED_ROWS = 16,              /* and rows that remain; */
    FOLDED_BYTES = 256,            /* of joined rows that are brought together first */
    ITEMS_PER_NS = 32,             /* reduced by one thread, estimated, */
    COPIED_PER_NS = 4,             /* or copied or converted first, */
    BYTES_PER_NS = 64,             /* and read, */
    ROW_NS = 8,                    /* and for each row */
    TASK_ITEMS = 1 << 16,          /* of a task, if there are many, */
    TASK_ITEMS_SEARCHED = 1 << 18, /* of one that searches its least once more, */
    TASK_ITEMS_MOST = 1 << 21,     /* and at most: between two polls, */
    TASK_ITEMS_SOON = 1 << 24,     /* but for rows whose first elements usually end the search */
    FEW_TASKS = 64,
    TREE_DEPTH = 12,   /* of a task's leaves, with the last one */
    FIRST_OF = 16,     /* times FIRST, elements of a row from which on the first ones may decide */
    COPIED_ROWS = 512, /* elements of rows that are copied together, if shorter */
    ROOM_MOST = 1 << 22,  /* bytes of partial results that stay allocated */
    AHEAD = 8192,         /* bytes that columns are prefetched ahead, */
    PREFETCHED = 1 << 24, /* and of an array from which on it pays off (TUNING.md C32), */
    ONE_STREAM = 3 << 23, /* or tiles are wide and adjacent rows are added one by one (C41), */
    ROW_LEAST = 512,      /* if each has as many */
    FEW_ROWS = 4,         /* fewer lose by wide tiles */
};
_Static_assert(TASK_ITEMS_MOST <= LEAF << (TREE_DEPTH - 2), "a leaf more than the tree is deep");
_Static_assert(COPIED_BYTES / BLOCK >= FOLDED_BYTES, "joined rows fit the room of copied elements");
_Static_assert(LEAF >= TILE, "a row of a tile's columns is brought together at once");

/* --- layouts of a part */

/* Whether the result is any or all of the elements. */
static bool is_truth(const struct axis_functions *functions, uint64_t finish) {
    return functions->core->settled && (finish == ANY || finish == ALL);
}

/* Whether several rows of narrow columns are joined. */
static bool folds(const struct part *part) {
    const bool adjoin = part->stride == (int64_t)part->columns * part->inner_stride;
    return part->columns > 1 && part->columns <= FOLDED && !part->columns_at && part->unit == 1 &&
           (adjoin || part->packs) && part->end - part->first >= 2 * FOLDED_ROWS;
}

/* A chunk's position in the order of the search. */
static uint64_t mirrored(const struct job *job, uint64_t split) {
    const bool last = job->functions->core->has_index && job->mask;
    return last ? job->splits - 1 - split : split;
}

/* --- parts whose elements must be copied or converted first */

static const int64_t here; /* start of a part of one row */

/* Number of rows from `row` on that have equal distances and are copied together. */
static uint64_t even_rows(const struct part *part, uint64_t row, uint64_t n) {
    const uint64_t together = part->kept == 1 && part->stride != 1 ? COPIED_ROWS / n : 1;
    const uint64_t end = least(part->rows, row + together);
    uint64_t next = row + 1;
    while (next < end &&
           part->starts[next] - part->starts[next - 1] == part->starts[row + 1] - part->starts[row])
        next++;
    return next - row;
}

static void copied_rows(const struct axis_functions *functions, const struct part *part,
                        char *values) {
    const size_t row_size = part->kept * functions->core->value_size;
    const uint64_t n = part->end - part->first;
    int64_t starts[COPIED_ROWS];
    struct part piece = *part;
    piece.starts = starts;
    piece.stride = (int64_t)part->kept;
    for (uint64_t r = 0; r == 0 || r < least(COPIED_ROWS / n, part->rows); r++)
        starts[r] = (int64_t)(r * n);
    for (uint64_t row = 0; row < part->rows; row += piece.rows, values += piece.rows * row_size) {
        const void *from = items_after(functions, part->in, part->starts[row]);
        piece.rows = even_rows(part, row, n);
        if (piece.rows == 1) {
            piece.in = axis_run(functions, part, from, n);
        } else {
            piece.in = part->gathered;
            gather(part->gathered, from, functions->item_size, piece.rows, n,
                   part->starts[row + 1] - part->starts[row], part->stride);
            if (functions->convert) {
                piece.in = part->converted;
                functions->convert[cpu_isa()](part->converted, part->gathered, piece.rows * n,
                                              part->key);
            }
        }
        functions->core->rows[cpu_isa()](functions, &piece, values);
    }
}

/* Whether rows of elements apart are read where they are, which overlaps with reading memory: if
 * they share cache lines, and are wide or their rows short (TUNING.md C50). */
static bool reads_in_place(const struct axis_functions *functions, const struct part *part) {
    const int64_t size = (int64_t)functions->item_size;
    return functions->core->strided && !functions->convert && part->kept == 1 && part->stride > 1 &&
           part->stride * size < CPU_LINE &&
           (size == sizeof(uint64_t) || part->end - part->first <= BLOCK);
}

/* Computes the part's values. Columns have at most BLOCK elements, rows at most leaf_of(), or any
 * number if values have indices, which count the part's elements. Returns true if no other elements
 * could change the only value. */
static bool reduce_part(const struct axis_functions *functions, const struct part *part,
                        void *values) {
    const struct axis_core *core = functions->core;
    if (part->columns > 1) {
        core->tiles[cpu_isa()](functions, part, values);
        return false;
    }
    if (reads_in_place(functions, part))
        core->strided(part, values);
    else if (part->copies && !core->has_index)
        copied_rows(functions, part, values);
    else
        core->rows[cpu_isa()](functions, part, values);
    return part->rows == 1 && part->kept == 1 && core->settled &&
           core->settled(values, part->end - part->first, part->finish);
}

/* --- tasks */

/* Converts indices among a part's rows, row `group` of every `apart`, to indices among all rows.
 * Rows before `mask` are counted from the end. */
static void move_indices(const struct axis_functions *functions, void *values, uint64_t count,
                         uint64_t from, uint64_t apart, uint64_t group, int64_t mask) {
    char *value = values;
    const bool moves = functions->core->has_index && (from || apart > 1 || group || mask);
    for (; moves && count > 0; count--) {
        int64_t index;
        value += functions->core->value_size;
        memcpy(&index, value - sizeof index, sizeof index);
        index = (int64_t)(from + (uint64_t)index * apart + group) ^ mask;
        memcpy(value - sizeof index, &index, sizeof index);
    }
}

/* Columns, BLOCK rows at a time. Narrow columns with one step are processed as wider ones: enough
 * rows to fill a tile are joined. */
static void columns_part(const struct axis_functions *functions, const struct part *part,
                         int64_t start, char *values) {
    _Alignas(CPU_LINE) struct complex_double tile[VALUES_BYTES / sizeof(struct complex_double)];
    const uint64_t rows = part->end - part->first, columns = part->columns;
    const size_t row_size = columns * functions->core->value_size;
    const size_t bytes = columns * functions->item_size;
    const uint64_t widest = part->packs ? FOLDED_BYTES / bytes : TILE / columns;
    uint64_t fold = folds(part) ? most(1, least(widest, rows / FOLDED_ROWS)) : 1;
    for (uint64_t done = 0, count; done < rows; done += count * fold) {
        struct part piece = *part;
        fold = fold <= rows - done ? fold : 1;
        count = least((rows - done) / fold, BLOCK);
        piece.in = items_after(functions, part->in, start + (int64_t)done * part->stride);
        piece.starts = &here;
        piece.rows = 1;
        piece.end = piece.first + count;
        piece.columns = fold * columns;
        piece.stride = (int64_t)fold * part->stride;
        if (part->packs && fold > 1) {
            pack_rows(part->gathered, COPIED_BYTES, piece.in, functions->item_size, count * fold,
                      columns, part->stride);
            piece.in = part->gathered;
            piece.stride = (int64_t)piece.columns;
        }
        reduce_part(functions, &piece, done || fold > 1 ? (char *)tile : values);
        for (uint64_t g = 0; g < fold; g++) {
            char *next = done || fold > 1 ? (char *)tile + g * row_size : values;
            move_indices(functions, next, columns, part->first + done, fold, g, part->mask);
            if (done || g)
                functions->core->apply(values, next, columns, part->mask);
            else if (next != values)
                memcpy(values, next, row_size);
        }
    }
}

/* Elements of a row at a time. */
static uint64_t leaf_of(const struct axis_functions *functions, const struct part *part) {
    return part->stride == (int64_t)part->kept && !functions->convert ? functions->core->leaf
                                                                      : LEAF;
}

/* A row of several leaves, in a binary tree. Returns true if no other elements could change its
 * value. */
static bool long_row(const struct axis_functions *functions, const struct part *part, int64_t start,
                     char *values) {
    struct complex_double stack[TREE_DEPTH * KEPT_MOST];
    const size_t size = part->kept * functions->core->value_size;
    const uint64_t n = part->end - part->first, leaf = leaf_of(functions, part);
    const int64_t apart = (int64_t)(leaf / part->kept) * part->stride;
    char *top = (char *)stack; /* after the last */
    struct part piece = *part;
    piece.in = items_after(functions, part->in, start);
    piece.starts = &here;
    piece.rows = 1;
    for (uint64_t done = 0, leaves = 1; done < n; done += leaf, leaves++, top += size) {
        piece.end = piece.first + least(n - done, leaf);
        if (reduce_part(functions, &piece, top)) {
            memcpy(values, top, size);
            return true;
        }
        for (uint64_t pairs = leaves; pairs % 2 == 0; pairs /= 2, top -= size)
            functions->core->apply(top - size, top, part->kept, part->mask);
        piece.in = items_after(functions, piece.in, apart);
    }
    for (top -= size; top > (char *)stack; top -= size)
        functions->core->apply(top - size, top, part->kept, part->mask);
    memcpy(values, top, size); /* the first of the stack */
    return false;
}

/* The values of all of a part's elements. Returns true if no others could change the only one. */
static bool all_elements(const struct axis_functions *functions, const struct part *part,
                         char *values) {
    const uint64_t n = part->end - part->first;
    const size_t row_size = part->columns * part->kept * functions->core->value_size;
    bool settled = false;
    if (part->columns > 1 ? n <= BLOCK && !folds(part)
                          : functions->core->has_index || n <= leaf_of(functions, part)) {
        settled = reduce_part(functions, part, values);
        move_indices(functions, values, part->rows * part->columns, part->first, 1, 0, part->mask);
        return settled;
    }
    for (uint64_t row = 0; row < part->rows; row++, values += row_size)
        if (part->columns > 1)
            columns_part(functions, part, part->starts[row], values);
        else
            settled = long_row(functions, part, part->starts[row], values);
    return settled;
}

/* The same, but the first elements of long rows may decide their truth. */
static bool whole_part(const struct axis_functions *functions, const struct part *part,
                       char *values) {
    const struct axis_core *core = functions->core;
    const uint64_t rows = part->rows;
    struct part piece = *part;
    if (!is_truth(functions, part->finish) || part->columns * part->kept > 1 ||
        part->end - part->first < FIRST_OF * FIRST)
        return all_elements(functions, part, values);
    piece.end = part->first + FIRST;
    reduce_part(functions, &piece, values);
    piece.end = part->end;
    for (uint64_t row = 0; row < rows; row += piece.rows + 1) { /* runs of undecided rows */
        char *const first = values + row * core->value_size;
        piece.rows = 0;
        while (row + piece.rows < rows &&
               !core->settled(first + piece.rows * core->value_size, FIRST, part->finish))
            piece.rows++;
        piece.starts = part->starts + row;
        if (piece.rows)
            all_elements(functions, &piece, first);
    }
    return rows == 1 && core->settled(values, part->end - part->first, part->finish);
}

/* Contiguous columns that are copied together, or 1. */
static uint64_t column_run(const struct job *job) {
    const struct device_axes *inner = &job->inner_axes;
    const uint64_t bytes = inner->sizes[0] * job->functions->item_size;
    return inner->count > 1 && inner->steps[0] == 1 && inner->sizes[0] <= TILE && bytes >= RUN_BYTES
               ? inner->sizes[0]
               : 1;
}

/* A task's rows, a few at a time. */
static void part_task(const struct job *job, uint64_t row, uint64_t rows, uint64_t split,
                      uint64_t tile) {
    const struct axis_functions *functions = job->functions;
    _Alignas(CPU_LINE) struct complex_double values[VALUES_BYTES / sizeof(struct complex_double)];
    _Alignas(64) char copied[COPIED_BYTES];
    int64_t starts[TILE], columns_at[TILE];
    const uint64_t column = tile * job->tile, across = job->inner * job->kept;
    struct part part = {.starts = starts,
                        .first = split * job->share,
                        .end = least((split + 1) * job->share, job->reduced),
                        .rows = rows,
                        .columns = least(job->inner - column, job->tile),
                        .kept = job->kept,
                        .unit = job->unit,
                        .run = column_run(job),
                        .stride = job->stride,
                        .inner_stride = job->inner_stride,
                        .key = job->results.key,
                        .mask = job->mask,
                        .finish = job->results.finish,
                        .core_key = functions->convert ? 0 : job->results.key,
                        .gathered = copied,
                        .converted = copied + LEAF * functions->item_size};
    const int64_t from = (int64_t)(part.first / job->kept) * job->stride +
                         (int64_t)(column / job->unit) * job->inner_stride;
    const uint64_t order = mirrored(job, split);
    part.in = items_after(functions, job->in, from);
    axes_at(&job->outer_axes, row, rows, starts);
    if (job->inner_axes.count) {
        axes_at(&job->inner_axes, column, part.columns, columns_at);
        if (part.columns > 1)
            part.columns_at = columns_at;
        else /* a row */
            part.in = items_after(functions, part.in, columns_at[0]);
    }
    part.copies = functions->convert ||
                  (part.columns > 1 ? gathers_columns(&part) : part.stride != (int64_t)part.kept);
    part.columns_ahead = part.copies ? 0 : job->columns_ahead;
    part.packs = part.columns > 1 && !part.copies && part.stride > (int64_t)part.columns &&
                 part.columns * functions->item_size <= CPU_LINE;
    if (job->settled && atomic_load_explicit(job->settled, memory_order_relaxed) < order) {
        functions->core->nothing(values);
    } else if (whole_part(functions, &part, (char *)values) && job->settled) {
        uint64_t known = atomic_load(job->settled);
        while (order < known && !atomic_compare_exchange_weak(job->settled, &known, order))
            ;
    }
    const uint64_t count = part.columns * part.kept;
    if (job->partials)
        memcpy(job->partials +
                   ((row * job->splits + split) * across + column) * functions->core->value_size,
               values, count * functions->core->value_size);
    else
        functions->store(&job->results, row * across + column, rows * count, values);
}

static void first_task(const void *state, uint64_t index, struct cpu_worker *worker) {
    const struct job *job = state;
    const uint64_t runs = (job->tiles - 1) / job->run + 1, begin = index % runs * job->run;
    const uint64_t split = index / runs % job->splits;
    const uint64_t first = index / runs / job->splits * job->rows;
    const uint64_t end = least(first + job->rows, job->outer);
    const uint64_t rows = job->partials ? 1 : most(1, TILE / (job->inner * job->kept));
    (void)worker;
    for (uint64_t row = first; row < end; row += rows)
        for (uint64_t tile = begin; tile < least(begin + job->run, job->tiles); tile++)
            part_task(job, row, least(rows, end - row), split, tile);
}

/* Combines the results of a row's chunks, level by level. */
static void last_task(const void *state, uint64_t row, struct cpu_worker *worker) {
    const struct job *job = state;
    const struct axis_functions *functions = job->functions;
    const uint64_t across = job->inner * job->kept;
    const size_t size = across * functions->core->value_size;
    char *partials = job->partials + row * job->splits * size;
    (void)worker;
    for (uint64_t apart = 1; apart < job->splits; apart *= 2)
        for (uint64_t s = 0; s + apart < job->splits; s += 2 * apart)
            functions->core->apply(partials + s * size, partials + (s + apart) * size, across,
                                   job->mask);
    functions->store(&job->results, row * across, across, partials);
}

/* --- partial results: memory that malloc returns to the kernel costs page faults in every call */

struct room {
    size_t size;
    _Alignas(16) char bytes[];
};
static _Atomic(struct room *) kept;

static struct room *room_of(size_t size) {
    struct room *room = atomic_exchange(&kept, NULL);
    if (room && room->size >= size)
        return room;
    free(room);
    room = malloc(sizeof *room + size);
    if (room)
        room->size = size;
    return room;
}

/* Keeps the last room, if it is small; NULL is allowed. */
static void room_keep(struct room *room) {
    free(room && room->size <= ROOM_MOST ? atomic_exchange(&kept, room) : room);
}

/* Whether elements of this step follow each other in memory, or nearly. */
static bool adjoin(int64_t step, uint64_t size) {
    return step >= (int64_t)size && step - (int64_t)size <= (int64_t)(size / 4);
}

/* Decides how far ahead of the elements of columns memory is prefetched. */
static void set_ahead(struct job *job, double bytes) {
    const size_t size = job->functions->item_size;
    const struct device_axes *outer = &job->outer_axes;
    const uint64_t slab = job->reduced * (uint64_t)job->stride, row = (uint64_t)job->stride * size;
    const bool adjacent = job->outer == 1 || (outer->count == 1 && adjoin(outer->steps[0], slab));
    const bool adjoins = adjacent && adjoin(job->stride, job->inner);
    job->columns_ahead = 0;
    if (job->inner == 1 || bytes < PREFETCHED || job->stride <= 0)
        return;
    if (adjoins && job->tiles == 1 && row >= ROW_LEAST && bytes >= ONE_STREAM)
        job->columns_ahead = ROW_AHEAD;
    else if ((row <= AHEAD && adjoins) ||
             (size < job->functions->core->value_size && job->reduced >= BLOCK))
        job->columns_ahead = most(AHEAD, 4 * row); /* not of the rows that are added */
}

/* Divides the work into tasks, and runs them. */
static enum status run_job(struct device *device, bool parallel, struct job *job) {
    const struct axis_core *core = job->functions->core;
    const bool copies =
        job->functions->convert || job->inner_axes.count || job->unit > 1 || job->inner_stride != 1;
    const uint64_t run = column_run(job);
    const double elements = (double)(job->outer * (job->soon ? FIRST : job->reduced) * job->inner);
    const double bytes = elements * (double)job->functions->item_size;
    const bool narrow =
        bytes < ONE_STREAM || job->reduced < FEW_ROWS || core->value_size == GPUOPT_ITEM_MAX;
    job->tile =
        copies ? TILE / run * run : (narrow ? VALUES_BYTES / 2 : VALUES_BYTES) / core->value_size;
    atomic_uint_least64_t settled = UINT64_MAX;
    job->tiles = (job->inner - 1) / job->tile + 1;
    if (!copies) /* even tiles */
        job->tile = round_up(ceil_div(job->inner, job->tiles), CPU_LINE);
    const uint64_t columns = least(job->inner, job->tile);
    const uint64_t even = job->outer * job->reduced * job->inner / FEW_TASKS;
    const uint64_t fewest = job->soon         ? TASK_ITEMS_SOON
                            : core->has_index ? TASK_ITEMS_SEARCHED
                                              : TASK_ITEMS;
    const uint64_t items = job->outer * job->tiles < FEW_TASKS
                               ? least(most(even, fewest), TASK_ITEMS_MOST)
                               : TASK_ITEMS_MOST;
    job->share = job->soon ? job->reduced : least(job->reduced, items / columns);
    job->splits = (job->reduced - 1) / job->share + 1;
    /* Adjacent tiles first: memory is read in order. */
    const uint64_t tiles = job->splits > 1 ? 1 : most(1, fewest / (job->share * columns));
    job->run = least(tiles, job->tiles);
    job->rows = tiles / job->run;
    struct room *room = NULL;
    if (job->splits > 1) {
        job->settled = job->outer == 1 && job->inner * job->kept == 1 ? &settled : NULL;
        room = room_of(job->outer * job->splits * job->inner * job->kept * core->value_size);
        if (!room)
            return status_fail(STATUS_NO_HOST_MEMORY, "cpu: no memory for partial results");
        job->partials = room->bytes;
    }
    const bool direct = !copies && (job->inner > 1 || job->stride == (int64_t)job->kept);
    const double rows = job->inner > 1 ? 0 : (double)job->outer;
    const double nanoseconds =
        items / (direct ? ITEMS_PER_NS : COPIED_PER_NS) + bytes / BYTES_PER_NS + rows * ROW_NS;
    const int threads = parallel ? cpu_team_threads(nanoseconds) : 1;
    set_ahead(job, bytes);
    const uint64_t runs = (job->tiles - 1) / job->run + 1;
    const uint64_t tasks = ((job->outer - 1) / job->rows + 1) * job->splits * runs;
    enum status status = cpu_team_run(device, threads, tasks, first_task, job);
    if (!status && job->partials)
        status = cpu_team_run(device, threads, job->outer, last_task, job);
    room_keep(room);
    return status;
}

/* Truths of long rows, and the place of a byte: usually the first elements decide. Returns whether
 * the call is done: the first elements of all rows decided, or it failed. */
static bool first_elements(struct device *device, bool parallel, const struct job *whole,
                           enum status *status) {
    const struct axis_core *core = whole->functions->core;
    const bool truths = is_truth(whole->functions, whole->results.finish);
    const bool place = core->has_index && core->item_size == 1 && !whole->mask &&
                       whole->outer == 1 && whole->inner == 1;
    atomic_uint_least64_t settled = UINT64_MAX;
    struct job job = *whole;
    if ((!truths && !place) || whole->reduced < FIRST_OF * FIRST * whole->kept)
        return false;
    job.reduced = FIRST * whole->kept;
    if (truths && job.results.divisor != 0) /* the count of all elements */
        job.results.divisor = FIRST;
    job.settled = place ? &settled : NULL;
    *status = run_job(device, parallel, &job);
    return *status || (place ? settled == 0
                             : !memchr(job.results.out, job.results.finish == ALL ? 1 : 0,
                                       job.outer * job.inner * job.kept));
}

/* Whether any or all elements have bits of the key: the greatest or the least of these bits as
 * unsigned, which needs no wider type than the elements'. */
static void compare_truths(struct job *job) {
    static const struct axis_functions *const counts[] = {
        &functions_count_int8_int64, &functions_count_int16_int64, &functions_count_int32_int64,
        &functions_count_int64_int64};
    static const struct axis_functions *const minima[] = {
        &functions_min_int8_int8, &functions_min_int16_int16, &functions_min_int32_int32,
        &functions_min_int64_int64};
    if (!is_truth(job->functions, job->results.finish))
        return;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        const uint64_t ones = UINT64_MAX >> (64 - (8 << k));
        if (job->functions == counts[k]) {
            job->functions = minima[k];
            job->mask = (int64_t)(~(uint64_t)job->results.key & ones);
            job->results.key = (int64_t)(job->results.finish == ALL ? ones / 2 + 1 : ones / 2);
            return;
        }
    }
}

static enum status cpu_reduce_axis(struct device *device, const struct cpu_kernel *kernel,
                                   void **arguments) {
#define ARGUMENT(index, type) (*(const type *)arguments[index])
    struct device_axes outer = {.count = 0}, inner = {.count = 0};
    struct job job = {
        .functions = kernel->data,
        .in = (const char *)(uintptr_t)ARGUMENT(0, device_address),
        .outer = ARGUMENT(2, uint64_t),
        .reduced = ARGUMENT(3, uint64_t),
        .inner = ARGUMENT(4, uint64_t),
        .stride = ARGUMENT(5, int64_t),
        .mask = ARGUMENT(21, int64_t),
        .results = {.out = (void *)(uintptr_t)ARGUMENT(1, device_address),
                    .key = ARGUMENT(20, int64_t),
                    .finish = ARGUMENT(22, uint64_t),
                    .divisor = ARGUMENT(23, double)},
    };
#undef ARGUMENT
    compare_truths(&job);
    take_axes(&outer, arguments + 6, job.outer);
    take_axes(&inner, arguments + 13, job.inner);
    set_shape(&job, &outer, &inner);
    enum status status = STATUS_OK;
    if (!first_elements(device, kernel->parallel, &job, &status))
        status = run_job(device, kernel->parallel, &job);
    return status;
}

#define KERNEL_ROWS(op, items, acc, ...)                                   \
    {"cpu_reduce_axis_serial_" #op "_" #items "_" #acc, cpu_reduce_axis,   \
     &functions_##op##_##items##_##acc, false},                            \
        {"cpu_reduce_axis_team_" #op "_" #items "_" #acc, cpu_reduce_axis, \
         &functions_##op##_##items##_##acc, true},

const struct cpu_kernel cpu_reduce_axis_kernels[] = {CPU_REDUCE_AXIS_SIGNATURES(KERNEL_ROWS)};
const size_t cpu_reduce_axis_kernel_count =
    sizeof cpu_reduce_axis_kernels / sizeof *cpu_reduce_axis_kernels;

#endif
