/* ops_reduce_axis.c: plans reductions along an axis: a few strategies, each with its estimated
 * cost, of which the cheapest serves; where few results would leave the GPU idle, chunks of the
 * reduced axis, which the last block of each result joins. Knows no device.
 *
 * A problem's numbers are those of struct axis_work, from `outer` to `jump`.
 */
#include "ops.h"

#include "../kernels/reduce_axis_plan.cuh"

#include <string.h>

enum { BLOCK = AXIS_BLOCK, WARP = 32, VECTOR = 16, IN_FLIGHT = 8 };
enum { STAGE_EDGES = 3 * VECTOR }; /* bytes: slabs, and rows, need not begin or end at vectors */

enum {
    GRID_MAX = 0x7fffffff,   /* blocks in x */
    WIDEST = BLOCK,          /* vectors of columns side by side in a block */
    WHOLE_LINES = 8,         /* vectors of a 128-byte line */
    SLABS = 7,               /* variant of aligned columns */
    BANK_BYTES = 128,        /* bytes of all banks of shared memory */
    GATHER_JOINS = 3,        /* parts that a thread of a gathered result joins, on average */
    CHUNKS_AT_ONCE = 8,      /* as in axis_gather.cuh and in columns */
    SECTOR = 32,             /* bytes: a load of elements this far apart reads all between them */
    USUAL_CACHE = 4 << 20,   /* bytes of L2, if a device does not tell */
    SCRATCH_ALIGNMENT = 256, /* bytes */
    FIRST_NUMBER = offsetof(struct axis_work, outer),
    NUMBERS = (offsetof(struct axis_work, shape) - FIRST_NUMBER) / 8,
    HOST_NUMBERS = NUMBERS - 2, /* without a second reduced axis */
};

/* A launch that is planned. */
struct task {
    const struct ops_choice *choice;
    const struct reg_signature *signature;
    device_address in;
    struct axis_work work;
    bool argmin, dense;                /* dense: without gaps */
    enum dtype raw;                    /* type of a stored partial result */
    uint64_t item, count;              /* bytes of an element; elements of a vector */
    unsigned variant;                  /* of the strategy */
    uint64_t loads, elements, results; /* of a thread */
    uint64_t sectors;                  /* of a warp's load of single elements */
    uint64_t joins;                    /* parts of results that a thread joins at the end */
    uint64_t saved;                    /* cycles of a block, where others follow it */
    uint64_t surplus;                  /* of the memory's time, in 128ths */
    uint64_t blocks, shared_bytes, cost;
};

#define fixed(name) ops_fixed(reduce_axis, name)
#define tuned(task, name) ops_tuned((task)->choice, OPS_TUNING_reduce_axis_##name)

static uint64_t multiprocessors(const struct ops_queue *queue) {
    return (uint64_t)queue->info.multiprocessors;
}

static bool one_axis(const struct axis_side *side) { return side->period[0] == 0; }

static bool without_gaps(const struct axis_work *w) {
    return !w->period && one_axis(&w->outer_axes) && one_axis(&w->inner_axes) &&
           (w->inner == 1 || w->inner_axes.stride == 1) &&
           (w->reduced == 1 || w->stride == w->inner) &&
           (w->outer == 1 || w->outer_axes.stride == w->reduced * w->inner);
}

/* Results that a block has at the end. */
static uint64_t results_of_a_block(const struct task *task) {
    const uint64_t shape = task->work.shape;
    return shape == AXIS_ROWS     ? 1
           : shape == AXIS_GATHER ? BLOCK / task->work.group * task->work.wide
           : shape == AXIS_NARROW ? task->work.inner
                                  : task->work.group;
}

/* --- strategies: each plans a launch and what a thread does in it; false: it cannot serve */

static bool plans(struct task *task, uint64_t loads, uint64_t elements) {
    task->loads = max_u64(loads, 1);
    task->elements = elements;
    return true;
}

/* Splits the reduced axis if there are fewer blocks than the GPU runs at once, into no more blocks
 * than that: a few more would need a second round. */
static void split(const struct ops_queue *queue, struct task *task, uint64_t blocks,
                  uint64_t chunk_least, uint64_t chunk_unit) {
    const uint64_t reduced = task->work.reduced;
    const uint64_t wanted = multiprocessors(queue) * tuned(task, blocks);
    uint64_t splits = blocks < wanted ? wanted / blocks : 1;
    splits = max_u64(1, min_u64(splits, reduced / chunk_least));
    /* A thread has an index for each of its vectors, or sums bytes in 32 bits. */
    const uint64_t vectors = task->argmin ? AXIS_POSITIONS / 4 : AXIS_BYTE_VECTORS;
    splits = max_u64(splits, ceil_div(reduced, min_u64(AXIS_CHUNK, chunk_unit * vectors)));
    task->work.chunk = round_up(ceil_div(reduced, splits), chunk_unit);
    task->work.splits = ceil_div(reduced, task->work.chunk);
    task->blocks = blocks * task->work.splits;
}

/* Rows of one element. */
static bool plan_singles(const struct ops_queue *queue, struct task *task) {
    (void)queue;
    task->work.shape = AXIS_SINGLES;
    task->blocks = ceil_div(task->work.outer * task->work.inner, AXIS_SINGLE_ROWS * BLOCK);
    /* Loads in two rounds, or none. */
    return task->work.reduced == 1 && plans(task, task->argmin ? 0 : 20, AXIS_SINGLE_ROWS);
}

/* Small contiguous slabs of reduced x inner elements through shared memory. */
static bool plan_staged(const struct ops_queue *queue, struct task *task) {
    struct axis_work *w = &task->work;
    const uint64_t item = task->item;
    const uint64_t slab = w->reduced * w->inner, unit = VECTOR / item / gcd(slab, VECTOR / item);
    const uint64_t stage = (uint64_t)queue->info.shared_per_block - STAGE_EDGES;
    if (!task->dense || w->outer == 1 || slab > tuned(task, slab_bytes) / item)
        return false;
    uint64_t slabs = min_u64(tuned(task, stage_bytes), stage) / (slab * item);
    slabs = max_u64(1, min_u64(slabs, w->outer / multiprocessors(queue)));
    if (slabs > unit) /* blocks begin at vectors */
        slabs -= slabs % unit;
    w->shape = AXIS_STAGED;
    w->wide = slabs;
    /* Enough threads; and several lanes share rows that begin at the same banks. */
    const uint64_t row = w->inner == 1 ? slab * item : 1, banks = gcd(row, BANK_BYTES);
    const bool by_vectors = item <= AXIS_NARROW_ITEM && row > AXIS_NARROW_ROW;
    const uint64_t parts = by_vectors ? w->reduced / task->count : w->reduced; /* for lanes */
    while (w->group < WARP && 2 * w->group <= parts &&
           (2 * w->group * slabs * w->inner <= BLOCK || 2 * w->group * slab / parts * item < banks))
        w->group *= 2;
    task->blocks = ceil_div(w->outer, slabs);
    task->shared_bytes = slabs * slab * item + STAGE_EDGES;
    const uint64_t turns = ceil_div(slabs * w->inner * w->group, BLOCK);
    /* Lanes of a warp read as many slabs at once; those at the same banks take turns. */
    const uint64_t at_once = WARP / w->group / min_u64(w->inner, WARP / w->group);
    const uint64_t conflicts = max_u64(at_once * gcd(slab * item, BANK_BYTES) / BANK_BYTES, 1);
    const uint64_t elements = ceil_div(w->reduced, w->group) * conflicts;
    return plans(task, ceil_div(slabs * slab * item, VECTOR * BLOCK), turns * elements);
}

/* Slabs of few inner elements, or chunks of them, by a block, with short gaps between their rows:
 * also rows of every second or third element. `unit` threads have the same inner elements in all
 * their vectors. */
static bool plan_narrow(const struct ops_queue *queue, struct task *task) {
    struct axis_work *w = &task->work;
    const uint64_t step = w->reduced > 1 ? w->stride : w->inner, item = task->item;
    const uint64_t count = task->count, unit = step / gcd(step, count);
    w->shape = AXIS_NARROW;
    w->wide = step;
    task->shared_bytes = (BLOCK + 1) * AXIS_VECTOR_SHARED;
    if (w->period || !one_axis(&w->inner_axes) || step < 2 || step < w->inner ||
        (w->inner > 1 && w->inner_axes.stride != 1) || (step - w->inner) * item >= SECTOR ||
        step * item > fixed(narrow_most) || unit > BLOCK ||
        task->shared_bytes > (uint64_t)queue->info.shared_per_block) /* 16 KiB of the oldest */
        return false;
    split(queue, task, w->outer, ceil_div(BLOCK * IN_FLIGHT * count, step), count);
    const uint64_t vectors = max_u64(min_u64(w->chunk, w->reduced) * step / count, 1) - 1;
    w->group = BLOCK / unit * unit;
    task->joins = max_u64(count, w->group * count / step / WARP);
    const uint64_t loads = ceil_div(vectors + 1, w->group);
    return loads < AXIS_POSITIONS / 4 && vectors >= BLOCK &&
           plans(task, loads, (loads + 1) * count);
}

/* Rows whose vectors hold elements of one row only. */
static bool plan_rows(const struct ops_queue *queue, struct task *task, uint64_t group) {
    struct axis_work *w = &task->work;
    const uint64_t count = task->count;
    if (w->inner > 1 || (w->reduced > 1 && w->stride != 1))
        return false;
    w->shape = AXIS_ROWS;
    w->group = group;
    if (group < BLOCK)
        task->blocks = ceil_div(w->outer, BLOCK / group);
    else
        split(queue, task, w->outer, BLOCK * IN_FLIGHT * count, BLOCK * count);
    const uint64_t value = max_u64(4, dtype_size(task->signature->accumulator));
    task->shared_bytes = BLOCK / WARP * (task->argmin ? GPUOPT_ITEM_MAX : value);
    const uint64_t loads = ceil_div(min_u64(w->chunk, w->reduced), count * group) + 1;
    return plans(task, loads, loads * count);
}

/* Rows by a warp, or by part of one where they are whole vectors. */
static bool plan_row_lanes(const struct ops_queue *queue, struct task *task) {
    struct axis_work *w = &task->work;
    const uint64_t group = WARP >> task->variant, count = task->count;
    const bool at_vectors = task->dense && w->reduced % count == 0 && task->in % VECTOR == 0;
    const uint64_t most = min_u64(AXIS_CHUNK / SECTOR, AXIS_POSITIONS / 4 * count * group / SECTOR);
    return (at_vectors || group == WARP) && w->outer > 1 && w->reduced <= most &&
           plan_rows(queue, task, group);
}

/* Rows, or chunks of them, by blocks. */
static bool plan_row_blocks(const struct ops_queue *queue, struct task *task) {
    return plan_rows(queue, task, BLOCK);
}

/* Vectors of columns side by side in a block, `high` rows of them. Wide blocks read more of a row;
 * narrow ones leave less for the last blocks to combine, and overlap better for long columns
 * (TUNING.md A6). */
static bool plan_columns(const struct ops_queue *queue, struct task *task, enum axis_shape shape,
                         uint64_t wide, uint64_t results) {
    struct axis_work *w = &task->work;
    const uint64_t high = BLOCK / wide;
    /* Partial results are written and read again, so they must be few beside the elements. */
    const uint64_t few = 16 * dtype_size(task->raw) / task->item;
    w->shape = shape;
    w->wide = wide;
    w->group = results;
    w->tiles = ceil_div(w->inner, results);
    split(queue, task, w->outer * w->tiles,
          max_u64(few, high * IN_FLIGHT / 2 * tuned(task, chunk_passes)), high);
    task->shared_bytes = BLOCK * AXIS_VECTOR_SHARED;
    const uint64_t rows = min_u64(w->chunk, w->reduced), loads = ceil_div(rows, high);
    task->joins = high > 1 ? ceil_div(results * min_u64(high, rows), BLOCK) : 0;
    const bool truths = strcmp(task->signature->op, "count") == 0; /* bytes of a result: */
    const uint64_t result = truths ? 1 : task->argmin || task->raw == DTYPE_int64 ? 8 : task->item;
    if (high == 1 && shape != AXIS_UNALIGNED && w->splits == 1 && w->inner % task->count == 0 &&
        result * task->count >= 4 && result * task->count <= SECTOR)
        task->saved = fixed(stored_at_once);
    if (wide < 2 * WHOLE_LINES) /* blocks share lines and sectors with their neighbours */
        task->surplus = (2 * WHOLE_LINES - wide) * (shape == AXIS_UNALIGNED ? 4 : 1);
    return plans(task, loads, loads * task->count);
}

/* Columns by vectors, in even tiles of whole 128-byte lines. */
static bool plan_tiles(const struct ops_queue *queue, struct task *task, enum axis_shape shape) {
    struct axis_work *w = &task->work;
    const uint64_t side = WIDEST >> task->variant;
    const uint64_t columns = ceil_div(w->inner, task->count);
    const uint64_t tile = ceil_div(columns, ceil_div(columns, side));
    if (w->inner == 1 || w->inner_axes.stride != 1 || (task->variant && side >= columns))
        return false;
    const uint64_t wide = min_u64(side, min_u64(columns, round_up(tile, WHOLE_LINES)));
    return plan_columns(queue, task, shape, wide, wide * task->count);
}

/* Takes the outer axes as further inner ones: the columns of all slabs are side by side. */
static bool joins_slabs(struct axis_work *w) {
    struct axis_side *outer = &w->outer_axes, *inner = &w->inner_axes;
    if (w->outer == 1 || w->inner == 1 || !one_axis(inner) || outer->period[2])
        return false;
    inner->period[0] = w->inner;
    inner->more[0] = outer->stride;
    for (int k = 1; k < 3; k++) {
        inner->period[k] = outer->period[k - 1];
        inner->more[k] = outer->more[k - 1];
    }
    *outer = (struct axis_side){0};
    w->inner *= w->outer;
    w->outer = 1;
    return true;
}

/* Each vector lies within one innermost row, and all rows begin at vectors. The last variant lets a
 * block take short rows of several slabs. */
static bool plan_aligned_columns(const struct ops_queue *queue, struct task *task) {
    struct axis_work *w = &task->work;
    if (task->variant == SLABS && !joins_slabs(w))
        return false;
    task->variant %= SLABS;
    const struct axis_side *outer = &w->outer_axes, *inner = &w->inner_axes;
    const uint64_t count = task->count;
    bool fit = task->in % VECTOR == 0 && w->inner % count == 0 &&
               (w->outer == 1 || outer->stride % count == 0) &&
               (w->reduced == 1 || w->stride % count == 0);
    for (int k = 0; k < 3; k++)
        fit = fit && outer->more[k] % count == 0 && inner->more[k] % count == 0 &&
              inner->period[k] % count == 0;
    return fit && plan_tiles(queue, task, AXIS_VECTORS);
}

/* Columns by vectors of rows that begin anywhere: all rows of a thread begin at the same place in a
 * vector. */
static bool plan_unaligned_columns(const struct ops_queue *queue, struct task *task) {
    struct axis_work *w = &task->work;
    const uint64_t count = task->count, high = (uint64_t)1 << task->variant, wide = BLOCK / high;
    const uint64_t alike = count / gcd(w->stride, count); /* rows until one begins like the first */
    if (w->inner == 1 || !one_axis(&w->inner_axes) || w->inner_axes.stride != 1 ||
        (w->reduced > high && (w->stride == 0 || high % alike != 0)))
        return false;
    const uint64_t most = (wide - 1) * count, less = (wide / 2 - 1) * count;
    if (most == 0 || (less >= w->inner && wide > 2 && w->reduced > high))
        return false; /* fewer threads hold all columns */
    const uint64_t even = ceil_div(w->inner, ceil_div(w->inner, most));
    const uint64_t unit = SECTOR / task->item;
    return plan_columns(queue, task, AXIS_UNALIGNED, wide, min_u64(most, round_up(even, unit)));
}

/* Bytes between the first elements of neighbouring results. */
static uint64_t kept_apart(const struct task *task) {
    const struct axis_work *w = &task->work;
    return task->item * (w->inner > 1 ? w->inner_axes.stride : w->outer_axes.stride);
}

/* Sectors that a warp's load of single elements touches. */
static uint64_t sectors_of(const struct task *task) {
    const struct axis_work *w = &task->work;
    const uint64_t item = task->item, lanes = min_u64(w->group, WARP);
    const uint64_t from_result =
        w->outer * w->inner > 1 ? min_u64(kept_apart(task), SECTOR) : SECTOR;
    if (!w->tiles) /* lanes across results */
        return max_u64(from_result, 1);
    const uint64_t step = w->reduced > 1 ? w->stride * item : SECTOR;
    const uint64_t along = min_u64(lanes * SECTOR, lanes * step);
    return max_u64(item, WARP / lanes * max_u64(lanes < WARP ? from_result : 0, along) / SECTOR);
}

/* Elements one by one. Lanes take adjacent elements of a result, or adjacent results; a thread
 * takes one result, several, or columns side by side. */
static bool plan_gather(const struct ops_queue *queue, struct task *task, bool along) {
    struct axis_work *w = &task->work;
    const uint64_t item = task->item, results = w->outer * w->inner, reduced = w->reduced;
    const bool flat = !along && task->variant == 8, several = !flat && task->variant % 2;
    const uint64_t row = flat ? AXIS_ROW(*w) : max_u64(results, 1);
    const uint64_t side = flat ? AXIS_SIDE(item) : several ? AXIS_SEVERAL(item) : 1;
    const unsigned k = flat ? 0 : task->variant / 2;
    uint64_t parts = !along ? 1u << k : k < 5 ? 2u << k : BLOCK;
    if ((parts > 1 && reduced <= (along ? parts / 2 : parts)) || (several && parts == BLOCK) ||
        (flat && (w->period || w->inner_axes.stride != 1 || row < BLOCK)))
        return false;
    while (!along && parts < BLOCK && results <= BLOCK / parts / 2)
        parts *= 2;
    w->shape = AXIS_GATHER;
    w->group = parts;
    w->wide = side;
    w->tiles = along;
    const uint64_t in_row = ceil_div(row, BLOCK / parts * side), tiles = results / row * in_row;
    if (along && parts < BLOCK && reduced < AXIS_BYTE_VECTORS)
        task->blocks = tiles;
    else
        split(queue, task, tiles, max_u64(16 * dtype_size(task->raw) / item, parts * IN_FLIGHT),
              parts);
    task->shared_bytes = BLOCK * AXIS_ITEM_SHARED;
    const uint64_t loads = ceil_div(min_u64(w->chunk, reduced), parts) * side;
    task->results = flat ? 1 : side;
    task->surplus = flat && reduced >= fixed(flat_tall) ? fixed(flat_surplus) : 0;
    task->sectors = sectors_of(task);
    task->joins = parts > 1 ? GATHER_JOINS * side : 0;
    const bool narrow = flat && item <= AXIS_NARROW_ITEM;
    task->saved = narrow ? loads * fixed(flat_saved) : 0;
    return plans(task, loads / (flat && !narrow ? fixed(flat_loads) : 1), loads);
}

static bool plan_gather_along(const struct ops_queue *queue, struct task *task) {
    return plan_gather(queue, task, true);
}

static bool plan_gather_across(const struct ops_queue *queue, struct task *task) {
    return plan_gather(queue, task, false);
}

/* --- the choice */

/* The strategies, and their cycles of a block for itself, a load and an element of a thread. */
static const struct strategy {
    bool (*plan)(const struct ops_queue *, struct task *);
    unsigned variants, block, load, element;
} strategies[] = {
#define STRATEGY(family, name, variants, block, load, element, note) \
    {plan_##name, variants, block, load, element},
#include "ops_tuning.def"
};
enum {
    STRATEGIES = sizeof strategies / sizeof *strategies,
    GATHERS = 2 /* the last ones: they alone read two reduced axes */
};

/* Bytes that memory delivers to a multiprocessor in 1,000 cycles. */
static uint64_t memory_rate(const struct ops_queue *queue) {
    const struct device_info *info = &queue->info;
    const uint64_t all = multiprocessors(queue) * (uint64_t)info->clock_khz;
    const uint64_t peak = all ? info->memory_rate / all : 0;
    return peak ? peak : 1000 * fixed(memory_bytes);
}

/* Bytes that memory delivers: elements with gaps between them share its sectors with the gaps. */
static uint64_t memory_bytes(const struct task *task) {
    const struct axis_work *w = &task->work;
    const uint64_t sector = SECTOR / task->item;
    uint64_t step = w->reduced > 1 ? min_u64(sector, w->stride) : sector;
    if (w->inner > 1)
        step = min_u64(step, w->inner_axes.stride);
    if (w->outer > 1)
        step = min_u64(step, w->outer_axes.stride);
    return w->outer * w->reduced * w->inner * task->item * max_u64(step, 1);
}

/* Whether lanes walk along rows of their own, which evict each other's lines from L1 before these
 * are read to their ends (TUNING.md A18). */
static bool evicts_lines(const struct task *task) {
    const struct axis_work *w = &task->work;
    const uint64_t item = task->item;
    const uint64_t together = w->tiles ? w->group * w->stride * item : 0; /* bytes */
    return w->reduced > 1 && w->stride * item < SECTOR && kept_apart(task) >= SECTOR &&
           together < WHOLE_LINES * VECTOR;
}

/* Bytes in 1,000 cycles of a multiprocessor at which a launch finds sectors that it reads more than
 * once: in L1, or in L2 if blocks share them. Lanes that each read a sector of their own evict it
 * before neighbouring results read it: it comes from one level further away (TUNING.md A14). */
static uint64_t sector_rate(const struct ops_queue *queue, const struct task *task, bool cached) {
    const struct axis_work *w = &task->work;
    const bool apart =
        !cached && w->tiles && w->group > 1 && w->reduced > 1 && w->stride * task->item >= SECTOR;
    const bool evicted = (!cached || task->results > 1) && evicts_lines(task),
               far = evicted && !w->tiles && kept_apart(task) >= WHOLE_LINES * VECTOR;
    if (w->group == BLOCK ? apart : far)
        return memory_rate(queue);
    return 1000 * (w->group == BLOCK || apart || evicted ? fixed(cache_bytes) : fixed(near_bytes));
}

/* Estimates the cycles of a launch (TUNING.md A12). A block alone takes `cycles`; a full
 * multiprocessor completes one in as many. Memory delivers meanwhile; chunks are combined last. */
static uint64_t cost_of(const struct ops_queue *queue, const struct task *task,
                        const struct strategy *strategy) {
    const uint64_t m = multiprocessors(queue), bytes = memory_bytes(task);
    const uint64_t cache = queue->info.cache_bytes ? queue->info.cache_bytes : USUAL_CACHE;
    const bool cached = bytes <= cache / 2;
    const uint64_t element = strategy->element * (task->item == 8 ? fixed(wide_element) : 1);
    const bool small = task->work.shape == AXIS_GATHER && task->results == 1 && task->item <= 2;
    const uint64_t load = strategy->load + task->sectors / 2 + (small ? fixed(small_load) : 0);
    const uint64_t more = (task->results - 1) * fixed(more_result);
    const uint64_t cycles = strategy->block + task->loads * load + task->elements * element + more +
                            task->joins * fixed(join);
    const uint64_t requested = task->blocks * (BLOCK / WARP) * task->loads * task->sectors * SECTOR;
    const uint64_t rate = cached ? 1000 * fixed(cache_bytes) : memory_rate(queue);
    const uint64_t once = bytes / m * 1000 / rate,
                   again = requested / m * 1000 / sector_rate(queue, task, cached);
    const uint64_t memory = max_u64(once + once * task->surplus / 128, again);
    const uint64_t issue = task->blocks * (cycles - task->saved) / m;
    const uint64_t turns = ceil_div(task->work.splits, CHUNKS_AT_ONCE), /* to join chunks */
        rounds = ceil_div(results_of_a_block(task) * turns, BLOCK),
                   combine = fixed(ticket) + rounds * fixed(chunk_round);
    return cycles + max_u64(memory, issue) + min_u64(memory, issue) / 4 +
           (task->work.splits > 1 ? combine : 0);
}

static void set_facts(struct task *task) {
    const char *op = task->signature->op;
    struct axis_work *w = &task->work;
    const bool number =
        strcmp(op, "sum") == 0 || strcmp(op, "prod") == 0 || strcmp(op, "count") == 0;
    task->argmin = strcmp(op, "argmin") == 0;
    task->raw = number ? task->signature->accumulator : task->signature->items;
    task->item = dtype_size(task->signature->items);
    task->count = VECTOR / task->item;
    struct axis_side *inner = &w->inner_axes; /* one element each of two axes: rows */
    if (w->reduced == 1 && w->outer == 1 && inner->period[0] && !inner->period[1]) {
        w->outer = w->inner / inner->period[0];
        w->outer_axes.stride = inner->more[0];
        w->inner = inner->period[0];
        inner->period[0] = inner->more[0] = 0;
    }
    task->dense = without_gaps(w);
    w->group = w->splits = task->results = 1;
    w->chunk = w->reduced;
}

/* Hash of all that a decision depends on; never 0. */
static uint64_t key_of(const struct task *task) {
    uint64_t key = (uint64_t)(uintptr_t)task->signature ^ (task->in % VECTOR) << 48;
    uint64_t numbers[NUMBERS];
    memcpy(numbers, (const char *)&task->work + FIRST_NUMBER, sizeof numbers);
    for (int i = 0; i < NUMBERS; i++)
        key = (key ^ key >> 29 ^ numbers[i]) * 0x9e3779b97f4a7c15;
    return key | 1;
}

/* Plans the launch by the strategy of the lowest cost. */
static void plan_cheapest(struct ops_queue *queue, struct task *task) {
    set_facts(task);
    const unsigned first = task->work.period ? STRATEGIES - GATHERS : 0;
    const uint64_t wanted = tuned(task, strategy), key = key_of(task);
    struct ops_decision *known = &queue->decisions[key % 64];
    const struct task given = *task;
    if (known->key == key && known->strategy >= first && !task->choice->tuning) {
        task->variant = known->variant;
        if (strategies[known->strategy].plan(queue, task))
            return;
        *task = given;
    }
    struct ops_decision best = {.key = task->choice->tuning ? 0 : key};
    task->cost = UINT64_MAX;
    for (unsigned k = first; k < STRATEGIES; k++)
        for (unsigned variant = 0; variant < strategies[k].variants; variant++) {
            struct task next = given;
            next.variant = variant;
            if (!strategies[k].plan(queue, &next) ||
                (next.work.splits > 1 && next.blocks / next.work.splits > OPS_TICKETS))
                continue;
            next.cost = cost_of(queue, &next, &strategies[k]);
            if (wanted && wanted != k + 1)
                next.cost += UINT64_MAX / 2;
            if (next.cost >= task->cost)
                continue;
            *task = next;
            best.strategy = k;
            best.variant = variant;
        }
    *known = best;
}

/* --- launches */

static enum status too_many(const struct task *task) {
    return status_fail(STATUS_BAD_VALUE,
                       "array: %llu x %llu x %llu elements need too many blocks for one launch; "
                       "reduce slices of it",
                       (unsigned long long)task->work.outer, (unsigned long long)task->work.reduced,
                       (unsigned long long)task->work.inner);
}

/* Replaces the period by the factor and shift that divide numbers below 2^31 by it, and the outer
 * step by the jump from the end of one period to the next. */
static void encode_period(struct axis_work *work) {
    unsigned bits = 1;
    while ((uint64_t)1 << bits < work->period)
        bits++;
    work->jump -= work->period * work->stride;
    work->period = (((uint64_t)1 << (31 + bits)) / work->period + 1) | (uint64_t)(bits - 1) << 32;
}

enum status ops_reduce_axis_plan(struct ops_queue *queue, const struct ops_choice *choice,
                                 const struct ops_problem *problem, struct ops_plan *plan) {
    struct ops_step *step = &plan->steps[0];
    if (choice->rung->flags & RUNG_HOST) {
        const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
        memcpy(step->values + step->value_count, problem->numbers,
               HOST_NUMBERS * sizeof *problem->numbers);
        step->value_count += HOST_NUMBERS;
        return status;
    }
    struct task task = {.choice = choice, .signature = choice->signature, .in = problem->inputs[0]};
    struct axis_work *work = &task.work;
    memcpy((char *)work + FIRST_NUMBER, problem->numbers, NUMBERS * sizeof *problem->numbers);
    plan_cheapest(queue, &task);
    if (task.blocks > GRID_MAX || !task.blocks)
        return too_many(&task);
    if (work->splits > 1) {
        const uint64_t partials = work->outer * work->inner * work->splits;
        const uint64_t bytes = round_up(partials * dtype_size(task.raw), SCRATCH_ALIGNMENT);
        enum status status =
            ops_scratch(queue, plan, bytes + (task.argmin ? partials * sizeof(int64_t) : 0));
        status = status ? status : ops_tickets(queue, &work->tickets);
        if (status)
            return status;
        work->partials = plan->scratch;
        work->partial_index = task.argmin ? plan->scratch + bytes : 0;
    }
    work->kind = task.signature->kind;
    if (work->period)
        encode_period(work);
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    memcpy(step->values + step->value_count, work, sizeof *work);
    step->value_count += sizeof *work / sizeof *step->values;
    step->struct_values = sizeof *work / sizeof *step->values;
    step->grid[0] = (unsigned)task.blocks;
    step->block[0] = BLOCK;
    step->shared_bytes = (unsigned)task.shared_bytes;
    return status;
}
