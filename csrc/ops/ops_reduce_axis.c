/* ops_reduce_axis.c: plans reductions along an axis: a few strategies, each with its estimated
 * cost, of which the cheapest serves; where few results would leave the GPU idle, chunks of the
 * reduced axis and a second pass over their results. Knows no device.
 *
 * numbers: outer, reduced, inner; the step between reduced elements, in elements (signed); the
 * outer axes and the inner ones, as in reduce_axis.cu: the step of the last, up to three periods,
 * as many further steps; then key, mask, finish and divisor, defined there; the period and the
 * outer step if the reduced axis is two, else 0.
 */
#include "ops.h"

#include "../kernels/reduce_axis_plan.cuh"

#include <string.h>

enum { OUTER, REDUCED, INNER, STRIDE, OUTER_STRIDE };
enum { PERIODS = 1, MORE = 4, AXES = 7 }; /* offsets within a side; numbers of a side */
enum {
    INNER_STRIDE = OUTER_STRIDE + AXES,
    KEY = INNER_STRIDE + AXES,
    MASK,
    FINISH,
    DIVISOR,
    PERIOD,
    JUMP
};
enum { NUMBERS = JUMP + 1, HOST_NUMBERS = PERIOD };

enum { BLOCK = AXIS_BLOCK, WARP = 32, VECTOR = 16, IN_FLIGHT = 8, RAW = 0 };
enum { STAGE_EDGES = 2 * VECTOR }; /* bytes: slabs need not begin or end at vectors */

enum {
    GRID_MAX = 0x7fffffff,   /* blocks in x */
    WIDEST = BLOCK,          /* vectors of columns side by side in a block */
    WHOLE_LINES = 8,         /* vectors of a 128-byte line */
    BANK_BYTES = 128,        /* bytes of all banks of shared memory */
    GATHER_JOINS = 3,        /* parts that a thread of a gathered result joins, on average */
    CHUNKS_AT_ONCE = 8,      /* as in axis_gather.cuh and in columns */
    SECTOR = 32,             /* bytes: a load of elements this far apart reads all between them */
    USUAL_CACHE = 4 << 20,   /* bytes of L2, if a device does not tell */
    SCRATCH_ALIGNMENT = 256, /* bytes */
};

/* The work of one launch. */
struct task {
    const struct ops_choice *choice;
    const struct reg_signature *signature;
    device_address in, out, in_index, partials, partial_index, tickets;
    uint64_t numbers[NUMBERS];
    bool partial;         /* its elements are partial results: no third pass */
    bool argmin, dense;   /* dense: without gaps */
    enum dtype raw;       /* type of a stored partial result */
    uint64_t item, count; /* bytes of an element; elements of a vector */
    uint64_t shape, splits, chunk, wide, group, tiles;
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

static uint64_t cache_bytes(const struct ops_queue *queue) {
    return queue->info.cache_bytes ? queue->info.cache_bytes : USUAL_CACHE;
}

static uint64_t array_bytes(const struct task *task) {
    return task->numbers[OUTER] * task->numbers[REDUCED] * task->numbers[INNER] * task->item;
}

/* Bytes of a value in shared memory. */
static size_t value_size(const struct task *task) {
    return task->argmin ? GPUOPT_ITEM_MAX : dtype_size(task->signature->accumulator);
}

/* Whether a block may have this much shared memory: the oldest simulated GPUs have 16 KiB. */
static bool has_shared(const struct ops_queue *queue, uint64_t bytes) {
    return bytes <= (uint64_t)queue->info.shared_per_block;
}

static bool one_axis(const uint64_t *side) { return side[PERIODS] == 0; }

static bool without_gaps(const uint64_t *n) {
    return !n[PERIOD] && one_axis(n + OUTER_STRIDE) && one_axis(n + INNER_STRIDE) &&
           (n[INNER] == 1 || n[INNER_STRIDE] == 1) && (n[REDUCED] == 1 || n[STRIDE] == n[INNER]) &&
           (n[OUTER] == 1 || n[OUTER_STRIDE] == n[REDUCED] * n[INNER]);
}

/* Results that a block has at the end. */
static uint64_t results_of_a_block(const struct task *task) {
    const uint64_t shape = task->shape;
    return shape == AXIS_ROWS || shape == AXIS_STRIDED ? 1
           : shape == AXIS_GATHER                      ? BLOCK / task->group * task->wide
           : shape == AXIS_NARROW                      ? task->numbers[INNER]
                                                       : task->group;
}

/* Whether the last blocks combine the chunks' results themselves, because they are too few to repay
 * a launch. */
static bool combines_itself(const struct task *task) {
    return task->blocks / task->splits <= OPS_TICKETS &&
           task->splits * results_of_a_block(task) <= fixed(combined);
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
    const uint64_t reduced = task->numbers[REDUCED];
    const uint64_t wanted = multiprocessors(queue) * tuned(task, blocks);
    uint64_t splits = blocks < wanted && !task->partial ? wanted / blocks : 1;
    const uint64_t apart = task->shape == AXIS_STRIDED ? task->numbers[STRIDE] : 1;
    splits = max_u64(1, min_u64(splits, reduced / chunk_least));
    splits = max_u64(splits, ceil_div(reduced, AXIS_CHUNK / apart));
    if (task->argmin && !task->partial) /* a thread has an index for each of its vectors */
        splits = max_u64(splits, ceil_div(reduced, chunk_unit * (AXIS_POSITIONS / 4) / apart));
    if (task->item == 1 && dtype_size(task->raw) > 1) /* 32-bit sums: overlapping rows are longer */
        splits = max_u64(splits, ceil_div(reduced, chunk_unit * AXIS_BYTE_VECTORS));
    task->chunk = round_up(ceil_div(reduced, splits), chunk_unit);
    task->splits = ceil_div(reduced, task->chunk);
    task->blocks = blocks * task->splits;
}

/* Small contiguous slabs of reduced x inner elements through shared memory. */
static bool plan_staged(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers;
    const uint64_t item = task->item;
    const uint64_t slab = n[REDUCED] * n[INNER], unit = VECTOR / item / gcd(slab, VECTOR / item);
    const uint64_t stage = (uint64_t)queue->info.shared_per_block - STAGE_EDGES;
    if (!task->dense || n[OUTER] == 1 || slab > tuned(task, slab_bytes) / item)
        return false;
    uint64_t slabs = min_u64(tuned(task, stage_bytes), stage) / (slab * item);
    slabs = max_u64(1, min_u64(slabs, n[OUTER] / multiprocessors(queue)));
    if (slabs > unit) /* blocks begin at vectors */
        slabs -= slabs % unit;
    task->shape = AXIS_STAGED;
    task->wide = slabs;
    /* Enough threads; and several lanes share rows that begin at the same banks. */
    const uint64_t row = n[INNER] == 1 ? slab * item : 1, banks = gcd(row, BANK_BYTES);
    const bool by_vectors =
        !task->argmin && n[INNER] == 1 && item <= 2 && n[REDUCED] >= AXIS_STAGED_VECTORS(item);
    const uint64_t read = by_vectors ? VECTOR : item; /* bytes that a lane reads at once */
    while (task->group < WARP && 2 * task->group * read <= n[REDUCED] * item &&
           (2 * task->group * slabs * n[INNER] <= BLOCK || 2 * task->group * read < banks))
        task->group *= 2;
    task->blocks = ceil_div(n[OUTER], slabs);
    task->shared_bytes = slabs * slab * item + STAGE_EDGES;
    const uint64_t turns = ceil_div(slabs * n[INNER] * task->group, BLOCK);
    /* Lanes of a warp read as many slabs at once; those at the same banks take turns. */
    const uint64_t at_once = WARP / task->group / min_u64(n[INNER], WARP / task->group);
    const uint64_t conflicts = max_u64(at_once * gcd(slab * item, BANK_BYTES) / BANK_BYTES, 1);
    const uint64_t elements = ceil_div(n[REDUCED], task->group) * conflicts;
    return plans(task, ceil_div(slabs * slab * item, VECTOR * BLOCK),
                 turns * (by_vectors ? ceil_div(elements, 4) : elements));
}

/* Rows of one word each, contiguous and word-aligned, or of one element. */
static bool plan_words(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, bytes = n[REDUCED] * task->item;
    const bool words = task->dense && n[INNER] == 1 && task->in % bytes == 0 &&
                       (bytes == 2 || bytes == 4 || bytes == 8);
    if (n[REDUCED] > 1 && !words)
        return false;
    (void)queue;
    task->shape = AXIS_WORDS;
    task->wide = bytes;
    task->blocks = ceil_div(n[OUTER] * n[INNER], AXIS_WORD_ROWS * BLOCK);
    /* None, in two rounds, or in one. */
    const uint64_t loads = n[REDUCED] > 1 ? AXIS_WORD_ROWS : task->argmin ? 0 : 20;
    return plans(task, loads, AXIS_WORD_ROWS * n[REDUCED]);
}

/* Rows of three elements, contiguous, the first at a vector. */
static bool plan_triples(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, item = task->item, rows = VECTOR / item; /* a thread's */
    const size_t part = !task->argmin ? value_size(task) : item <= 2 ? 4 : 2 * item;
    task->shared_bytes = BLOCK * (rows + 1) * part;
    if (!task->dense || n[INNER] > 1 || n[REDUCED] != 3 || task->in % VECTOR != 0 ||
        !has_shared(queue, task->shared_bytes))
        return false;
    task->shape = AXIS_TRIPLES;
    task->blocks = ceil_div(n[OUTER], rows * BLOCK);
    return plans(task, 3, 3 * rows);
}

/* Rows of a few whole vectors, contiguous, the first at a vector. */
static bool plan_groups(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, count = task->count;
    const uint64_t vectors = n[REDUCED] / count;
    while (task->group < vectors)
        task->group *= 2;
    const uint64_t rows = AXIS_GROUP_ROWS * BLOCK / task->group;
    task->shared_bytes = rows * value_size(task);
    if (!task->dense || n[INNER] > 1 || n[REDUCED] % count != 0 || task->in % VECTOR != 0 ||
        vectors > WARP || !has_shared(queue, task->shared_bytes))
        return false;
    task->shape = AXIS_GROUPS;
    task->wide = vectors;
    task->blocks = ceil_div(n[OUTER], rows);
    return plans(task, AXIS_GROUP_ROWS, AXIS_GROUP_ROWS * count);
}

/* Contiguous slabs of few inner elements by part of a block each, or chunks of them by a block.
 * `unit` threads have the same inner elements in all their vectors. */
static bool plan_narrow(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, item = task->item, count = VECTOR / item;
    const uint64_t inner = n[INNER] * item, unit = n[INNER] / gcd(n[INNER], count);
    const uint64_t side = fixed(narrow_side) << task->variant, slabs = BLOCK / side;
    task->shape = AXIS_NARROW;
    task->shared_bytes = (BLOCK + 1) * AXIS_VECTOR_SHARED;
    if (n[INNER] == 1 || inner > fixed(narrow_most) || !task->dense || task->partial ||
        unit > side || !has_shared(queue, task->shared_bytes))
        return false;
    task->blocks = ceil_div(n[OUTER], slabs);
    if (slabs == 1)
        split(queue, task, n[OUTER], ceil_div(BLOCK * IN_FLIGHT * count, n[INNER]), count);
    const uint64_t vectors = max_u64(min_u64(task->chunk, n[REDUCED]) * inner / VECTOR, 1) - 1;
    if (vectors / side >= AXIS_POSITIONS / 4 || side > vectors ||
        (task->splits > 1 && !combines_itself(task)))
        return false;
    task->group = side / unit * unit;
    task->joins = max_u64(count, task->group * count / n[INNER] / WARP);
    const uint64_t loads = ceil_div(vectors + 1, task->group);
    return plans(task, loads, (loads + 1) * count);
}

/* Rows whose vectors hold elements of one row only, all or every second or third. */
static bool plan_rows(const struct ops_queue *queue, struct task *task, uint64_t group) {
    const uint64_t *n = task->numbers, item = task->item, count = VECTOR / item;
    const uint64_t apart = n[REDUCED] == 1 ? 1 : n[STRIDE];
    const uint64_t widest = task->argmin ? AXIS_STRIDED_INDEXED : AXIS_STRIDED_ITEM;
    if (n[INNER] > 1 || (apart != 1 && (item > widest || apart - 1 >= SECTOR / item)))
        return false;
    task->shape = apart > 1 ? AXIS_STRIDED : AXIS_ROWS;
    task->group = group;
    if (group < BLOCK)
        task->blocks = ceil_div(n[OUTER], BLOCK / group);
    else
        split(queue, task, n[OUTER], ceil_div(BLOCK * IN_FLIGHT * count, apart), BLOCK * count);
    if (apart > 1) { /* lanes whose vectors hold the same elements; 1 / apart in 2^-20 */
        task->tiles = group / apart * apart;
        task->wide = ((1 << 20) - 1 + apart) / apart;
    }
    task->shared_bytes = BLOCK / WARP * value_size(task);
    const uint64_t loads = ceil_div(min_u64(task->chunk, n[REDUCED]) * apart, count * group) + 1;
    return plans(task, loads, loads * count);
}

/* Rows by a warp, or by part of one where they are whole vectors. */
static bool plan_row_lanes(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, group = WARP >> task->variant, count = task->count;
    const bool at_vectors = task->dense && n[REDUCED] % count == 0 && task->in % VECTOR == 0;
    const uint64_t most = min_u64(AXIS_CHUNK / SECTOR, AXIS_POSITIONS / 4 * count * group / SECTOR);
    return (at_vectors || group == WARP) && n[OUTER] > 1 && n[REDUCED] <= most &&
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
    const uint64_t *n = task->numbers, high = BLOCK / wide;
    /* Partial results are written and read again, so they must be few beside the elements. */
    const uint64_t few = 16 * dtype_size(task->raw) / task->item;
    task->shape = shape;
    task->wide = wide;
    task->group = results;
    task->tiles = ceil_div(n[INNER], results);
    split(queue, task, n[OUTER] * task->tiles,
          max_u64(few, high * IN_FLIGHT / 2 * tuned(task, chunk_passes)), high);
    task->shared_bytes = BLOCK * AXIS_VECTOR_SHARED;
    const uint64_t rows = min_u64(task->chunk, n[REDUCED]), loads = ceil_div(rows, high);
    task->joins = high > 1 ? ceil_div(results * min_u64(high, rows), BLOCK) : 0;
    const bool truths = strcmp(task->signature->op, "count") == 0; /* bytes of a result: */
    const uint64_t result = truths ? 1 : task->argmin || task->raw == DTYPE_int64 ? 8 : task->item;
    if (high == 1 && shape != AXIS_UNALIGNED && task->splits == 1 && n[INNER] % task->count == 0 &&
        result * task->count >= 4 && result * task->count <= SECTOR)
        task->saved = fixed(stored_at_once);
    if (wide < 2 * WHOLE_LINES) /* blocks share lines and sectors with their neighbours */
        task->surplus = (2 * WHOLE_LINES - wide) * (shape == AXIS_UNALIGNED ? 4 : 1);
    return plans(task, loads, loads * task->count);
}

/* Columns by vectors, in even tiles of whole 128-byte lines. */
static bool plan_tiles(const struct ops_queue *queue, struct task *task, enum axis_shape shape) {
    const uint64_t *n = task->numbers, side = WIDEST >> task->variant;
    const uint64_t columns = ceil_div(n[INNER], task->count);
    const uint64_t tile = ceil_div(columns, ceil_div(columns, side));
    if (n[INNER] == 1 || n[INNER_STRIDE] != 1 || (task->variant && side >= columns))
        return false;
    const uint64_t wide = min_u64(side, min_u64(columns, round_up(tile, WHOLE_LINES)));
    return plan_columns(queue, task, shape, wide, wide * task->count);
}

/* Each vector lies within one innermost row, and all rows begin at vectors. */
static bool plan_aligned_columns(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, *outer = n + OUTER_STRIDE, *inner = n + INNER_STRIDE;
    const uint64_t count = task->count;
    bool fit = task->in % VECTOR == 0 && n[INNER] % count == 0 &&
               (n[OUTER] == 1 || *outer % count == 0) &&
               (n[REDUCED] == 1 || n[STRIDE] % count == 0);
    for (int k = 0; k < MORE - PERIODS; k++)
        fit = fit && outer[MORE + k] % count == 0 && inner[MORE + k] % count == 0 &&
              inner[PERIODS + k] % count == 0;
    return fit && plan_tiles(queue, task, AXIS_VECTORS);
}

/* A thread shifts vectors of rows that begin anywhere; its first and last may pass the array. */
static bool plan_shifted_columns(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers;
    return task->item <= AXIS_SHIFTED_ITEM && n[REDUCED] <= fixed(shifted_rows) &&
           one_axis(n + INNER_STRIDE) &&
           (n[REDUCED] == 1 || n[STRIDE] * task->item >= STAGE_EDGES) &&
           plan_tiles(queue, task, AXIS_SHIFTED);
}

/* Columns by vectors of rows that begin anywhere, or of every second or third element: all rows of
 * a thread begin at the same place in a vector. */
static bool plan_unaligned_columns(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers, count = task->count, every = n[INNER_STRIDE];
    const uint64_t high = (uint64_t)1 << task->variant, wide = BLOCK / high;
    const uint64_t alike = count / gcd(n[STRIDE], count); /* rows until one begins like the first */
    if (n[INNER] == 1 || !one_axis(n + INNER_STRIDE) || every == 0 || every > SECTOR / task->item ||
        (n[REDUCED] > high && (n[STRIDE] == 0 || high % alike != 0)))
        return false;
    const uint64_t most = (wide - 1) * count / every, less = (wide / 2 - 1) * count / every;
    if (most == 0 || (less >= n[INNER] && wide > 2 && n[REDUCED] > high))
        return false; /* fewer threads hold all columns */
    const uint64_t even = ceil_div(n[INNER], ceil_div(n[INNER], most));
    const uint64_t unit = SECTOR / task->item;
    return plan_columns(queue, task, AXIS_UNALIGNED, wide, min_u64(most, round_up(even, unit)));
}

/* Bytes between the first elements of neighbouring results. */
static uint64_t kept_apart(const struct task *task) {
    return task->item * task->numbers[task->numbers[INNER] > 1 ? INNER_STRIDE : OUTER_STRIDE];
}

/* Sectors that a warp's load of single elements touches. */
static uint64_t sectors_of(const struct task *task) {
    const uint64_t *n = task->numbers, item = task->item, lanes = min_u64(task->group, WARP);
    const uint64_t apart = n[OUTER] * n[INNER] > 1 ? kept_apart(task) : SECTOR;
    const uint64_t from_result = min_u64(apart, SECTOR);
    if (!task->tiles) /* lanes across results */
        return max_u64(from_result, 1);
    const uint64_t step = n[REDUCED] > 1 ? n[STRIDE] * item : SECTOR;
    const uint64_t along = min_u64(lanes * SECTOR, lanes * step);
    return max_u64(item, WARP / lanes * max_u64(lanes < WARP ? from_result : 0, along) / SECTOR);
}

/* Elements one by one. Lanes take adjacent elements of a result, or adjacent results; a thread
 * takes one result, or several. */
static bool plan_gather(const struct ops_queue *queue, struct task *task, bool along,
                        uint64_t parts) {
    const uint64_t *n = task->numbers, item = task->item;
    const uint64_t side = task->variant % 2 ? AXIS_SIDE(item) : 1;
    const uint64_t results = n[OUTER] * n[INNER], reduced = n[REDUCED];
    if (side > 1 && (task->in_index || parts == BLOCK))
        return false;
    while (!along && parts < BLOCK && results <= BLOCK / parts / 2)
        parts *= 2;
    task->shape = AXIS_GATHER;
    task->group = parts;
    task->wide = side;
    task->tiles = along;
    const uint64_t of_a_block = BLOCK / parts * side, tiles = ceil_div(results, of_a_block);
    if (along && parts < BLOCK && !task->partial && reduced < AXIS_CHUNK)
        task->blocks = tiles;
    else
        split(queue, task, tiles, max_u64(16 * dtype_size(task->raw) / item, parts * IN_FLIGHT),
              parts);
    task->shared_bytes = BLOCK * AXIS_ITEM_SHARED;
    const uint64_t loads = ceil_div(min_u64(task->chunk, reduced), parts);
    task->results = side;
    task->sectors = sectors_of(task);
    task->joins = parts > 1 ? GATHER_JOINS * side : 0;
    return plans(task, loads * side, loads * side);
}

static bool plan_gather_along(const struct ops_queue *queue, struct task *task) {
    const unsigned k = task->variant / 2, parts = k < 5 ? 2u << k : BLOCK;
    return task->numbers[REDUCED] > parts / 2 && plan_gather(queue, task, true, parts);
}

static bool plan_gather_across(const struct ops_queue *queue, struct task *task) {
    const uint64_t parts = (uint64_t)1 << task->variant / 2;
    return (parts == 1 || task->numbers[REDUCED] > parts) && plan_gather(queue, task, false, parts);
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
    GATHERS = 2 /* the last ones: they alone read indices, and two reduced axes */
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
    const uint64_t *n = task->numbers, sector = SECTOR / task->item;
    uint64_t step = sector;
    if (n[REDUCED] > 1)
        step = min_u64(step, n[STRIDE]);
    if (n[INNER] > 1)
        step = min_u64(step, n[INNER_STRIDE]);
    if (n[OUTER] > 1)
        step = min_u64(step, n[OUTER_STRIDE]);
    return array_bytes(task) * max_u64(step, 1);
}

/* Whether lanes walk along rows of their own, which evict each other's lines from L1 before these
 * are read to their ends (TUNING.md A18). */
static bool evicts_lines(const struct task *task) {
    const uint64_t *n = task->numbers, item = task->item;
    const uint64_t together = task->tiles ? task->group * n[STRIDE] * item : 0; /* bytes */
    return n[REDUCED] > 1 && n[STRIDE] * item < SECTOR && kept_apart(task) >= SECTOR &&
           together < WHOLE_LINES * VECTOR;
}

/* Bytes in 1,000 cycles of a multiprocessor at which a launch finds sectors that it reads more than
 * once: in L1, or in L2 if blocks share them. Lanes that each read a sector of their own evict it
 * before neighbouring results read it: it comes from one level further away (TUNING.md A14). */
static uint64_t sector_rate(const struct ops_queue *queue, const struct task *task, bool cached) {
    const bool apart = !cached && task->tiles && task->group > 1 && task->numbers[REDUCED] > 1 &&
                       task->numbers[STRIDE] * task->item >= SECTOR;
    const bool evicted = (!cached || task->results > 1) && evicts_lines(task),
               far = evicted && !task->tiles && kept_apart(task) >= WHOLE_LINES * VECTOR;
    if (task->group == BLOCK ? apart : far)
        return memory_rate(queue);
    return 1000 *
           (task->group == BLOCK || apart || evicted ? fixed(cache_bytes) : fixed(near_bytes));
}

/* Rounds in which the last block of some results adds their chunks. */
static uint64_t chunk_rounds(const struct task *task) {
    if (task->shape == AXIS_GATHER)
        return ceil_div(task->splits, CHUNKS_AT_ONCE * task->group);
    return ceil_div(results_of_a_block(task) * ceil_div(task->splits, CHUNKS_AT_ONCE), BLOCK);
}

/* Estimates the cycles of a launch (TUNING.md A12). A block alone takes `cycles`; a full
 * multiprocessor completes one in as many. Memory delivers meanwhile; chunks are combined last. */
static uint64_t cost_of(const struct ops_queue *queue, const struct task *task,
                        const struct strategy *strategy) {
    const uint64_t m = multiprocessors(queue), bytes = memory_bytes(task);
    const bool cached = bytes <= cache_bytes(queue) / 2;
    const uint64_t element = strategy->element * (task->item == 8 ? fixed(wide_element) : 1);
    const uint64_t more = (task->results - 1) * fixed(more_result);
    const uint64_t cycles = strategy->block + task->loads * (strategy->load + task->sectors / 2) +
                            task->elements * element + more + task->joins * fixed(join);
    const uint64_t requested = task->blocks * (BLOCK / WARP) * task->loads * task->sectors * SECTOR;
    const uint64_t rate = cached ? 1000 * fixed(cache_bytes) : memory_rate(queue);
    const uint64_t once = bytes / m * 1000 / rate,
                   again = requested / m * 1000 / sector_rate(queue, task, cached);
    const uint64_t memory = max_u64(once + once * task->surplus / 128, again);
    const uint64_t issue = task->blocks * (cycles - task->saved) / m;
    const uint64_t combine = task->splits == 1 ? 0
                             : combines_itself(task)
                                 ? fixed(ticket) + chunk_rounds(task) * fixed(chunk_round)
                                 : fixed(launch);
    return cycles + max_u64(memory, issue) + min_u64(memory, issue) / 4 + combine;
}

static void set_facts(struct task *task) {
    const char *op = task->signature->op;
    uint64_t *n = task->numbers;
    const bool number =
        strcmp(op, "sum") == 0 || strcmp(op, "prod") == 0 || strcmp(op, "count") == 0;
    task->argmin = strcmp(op, "argmin") == 0;
    task->raw = number ? task->signature->accumulator : task->signature->items;
    task->item = dtype_size(task->signature->items);
    task->count = VECTOR / task->item;
    if (task->argmin && n[REDUCED] == 1) { /* the results are zeros, wherever elements are */
        n[OUTER] *= n[INNER];
        n[INNER] = 1;
        memset(n + OUTER_STRIDE, 0, 2 * AXES * sizeof *n);
    }
    uint64_t *inner = n + INNER_STRIDE; /* one element each of two axes: rows */
    if (n[REDUCED] == 1 && n[OUTER] == 1 && inner[PERIODS] && !inner[PERIODS + 1]) {
        n[OUTER] = n[INNER] / inner[PERIODS];
        n[OUTER_STRIDE] = inner[MORE];
        n[INNER] = inner[PERIODS];
        inner[PERIODS] = inner[MORE] = 0;
    }
    task->dense = without_gaps(n);
    task->group = task->splits = task->results = 1;
    task->chunk = n[REDUCED];
}

/* Hash of all that a decision depends on; never 0. */
static uint64_t key_of(const struct task *task) {
    uint64_t key = (uint64_t)(uintptr_t)task->signature ^ (task->in % VECTOR) << 48 ^
                   (uint64_t)task->partial << 52 ^ (uint64_t)(task->in_index != 0) << 53;
    for (int i = 0; i < NUMBERS; i++)
        key = (key ^ key >> 29 ^ task->numbers[i]) * 0x9e3779b97f4a7c15;
    return key | 1;
}

/* Plans the launch by the strategy of the lowest cost. */
static void plan_cheapest(struct ops_queue *queue, struct task *task) {
    set_facts(task);
    const unsigned first = task->in_index || task->numbers[PERIOD] ? STRATEGIES - GATHERS : 0;
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
            if (!strategies[k].plan(queue, &next))
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

/* Whether to use streaming loads. A streaming line displaces only its like (see
 * common.cuh): the results, which are read next, stay in L2. That pays if the results fit and are a
 * fair share of all bytes (TUNING.md A7). */
static bool is_streamed(const struct ops_queue *queue, const struct task *task, uint64_t results) {
    const uint64_t bytes = array_bytes(task), fits = cache_bytes(queue) / 2;
    return bytes > fits && results <= fits && results >= bytes / fixed(streamed_ratio);
}

static enum status too_many(const struct task *task) {
    return status_fail(STATUS_BAD_VALUE,
                       "array: %llu x %llu x %llu elements need too many blocks for one launch; "
                       "reduce slices of it",
                       (unsigned long long)task->numbers[OUTER],
                       (unsigned long long)task->numbers[REDUCED],
                       (unsigned long long)task->numbers[INNER]);
}

/* Replaces the period by the factor and shift that divide numbers below 2^31 by it, and the outer
 * step by the jump from the end of one period to the next. */
static void encode_period(uint64_t *values, const uint64_t *n) {
    unsigned bits = 1;
    while ((uint64_t)1 << bits < n[PERIOD])
        bits++;
    values[PERIOD] = (((uint64_t)1 << (31 + bits)) / n[PERIOD] + 1) | (uint64_t)(bits - 1) << 32;
    values[JUMP] = n[JUMP] - n[PERIOD] * n[STRIDE];
}

static enum status add_step(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct task *task, struct ops_plan *plan) {
    struct ops_step *step = &plan->steps[plan->step_count++];
    const uint64_t streamed = is_streamed(queue, task, plan->result_bytes);
    const uint64_t arrays[] = {task->in,       task->out,    task->partials, task->partial_index,
                               task->in_index, task->tickets};
    const uint64_t planned[] = {task->shape, task->splits, task->chunk, task->wide,
                                task->group, task->tiles,  streamed,    task->signature->kind};
    if (task->blocks > GRID_MAX)
        return too_many(task);
    memcpy(step->values + step->value_count, arrays, sizeof arrays);
    step->value_count += sizeof arrays / sizeof *arrays;
    memcpy(step->values + step->value_count, task->numbers, sizeof task->numbers);
    if (task->numbers[PERIOD])
        encode_period(step->values + step->value_count, task->numbers);
    step->value_count += NUMBERS;
    memcpy(step->values + step->value_count, planned, sizeof planned);
    step->value_count += sizeof planned / sizeof *planned;
    step->grid[0] = (unsigned)task->blocks;
    step->block[0] = BLOCK;
    step->shared_bytes = (unsigned)task->shared_bytes;
    return ops_kernel(queue, choice->rung, task->signature, choice->block, step);
}

/* The second pass: over `count` partial results for each result of the task; the next ones follow
 * in `in`. */
static struct task second_pass(const struct ops_choice *choice, const struct task *task,
                               uint64_t count, device_address partials, device_address indices) {
    struct task last = {
        .choice = choice, .in = partials, .in_index = indices, .out = task->out, .partial = true};
    const char *op = strcmp(task->signature->op, "count") == 0 ? "sum" : task->signature->op;
    const enum dtype raw = task->raw;
    memcpy(last.numbers, task->numbers, sizeof last.numbers);
    last.numbers[REDUCED] = count;
    memset(last.numbers + OUTER_STRIDE, 0, 2 * AXES * sizeof *last.numbers);
    last.numbers[PERIOD] = last.numbers[JUMP] = 0;
    last.numbers[OUTER_STRIDE] = count * last.numbers[INNER];
    last.numbers[STRIDE] = last.numbers[INNER];
    last.numbers[INNER_STRIDE] = 1;
    if (strcmp(op, "sum") == 0)
        last.numbers[KEY] = UINT64_MAX; /* signed */
    if (task->argmin)
        last.numbers[MASK] = 0; /* the partial results hold indices already */
    last.signature = reg_signature(choice->family, choice->rung, op, raw,
                                   task->argmin ? DTYPE_int64 : task->signature->accumulator);
    return last;
}

enum status ops_reduce_axis_plan(struct ops_queue *queue, const struct ops_choice *choice,
                                 const struct ops_problem *problem, struct ops_plan *plan) {
    struct task task = {.choice = choice,
                        .signature = choice->signature,
                        .in = problem->inputs[0],
                        .out = problem->output};
    memcpy(task.numbers, problem->numbers, sizeof task.numbers);
    if (choice->rung->flags & RUNG_HOST) {
        const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
        memcpy(plan->steps[0].values + plan->steps[0].value_count, task.numbers,
               HOST_NUMBERS * sizeof *task.numbers);
        plan->steps[0].value_count += HOST_NUMBERS;
        return status;
    }
    plan->result = problem->output;
    plan->result_bytes = problem->output_bytes;
    plan->bytes = problem->input_bytes[0] + problem->output_bytes;

    set_facts(&task);
    struct task first = task;
    plan_cheapest(queue, &first);
    if (first.splits == 1)
        return add_step(queue, choice, &first, plan);

    const uint64_t results = task.numbers[OUTER] * task.numbers[INNER];
    if (first.shape == AXIS_GATHER) {
        task.numbers[OUTER] = 1;
        task.numbers[INNER] = results;
    }
    const uint64_t partials = results * first.splits;
    const uint64_t bytes = round_up(partials * dtype_size(task.raw), SCRATCH_ALIGNMENT);
    enum status status =
        ops_scratch(queue, plan, bytes + (task.argmin ? partials * sizeof(int64_t) : 0));
    if (status)
        return status;
    first.partials = plan->scratch;
    first.partial_index = task.argmin ? plan->scratch + bytes : 0;
    if (combines_itself(&first)) {
        status = ops_tickets(queue, &first.tickets);
        return status ? status : add_step(queue, choice, &first, plan);
    }
    status = add_step(queue, choice, &first, plan);
    if (status)
        return status;
    struct task last = second_pass(choice, &task, first.splits, plan->scratch, first.partial_index);
    plan_cheapest(queue, &last);
    if (last.splits > 1)
        return too_many(&task); /* there is no third pass */
    return add_step(queue, choice, &last, plan);
}
