/* ops_reduce_axis.c: plans reductions along an axis: the shape of work, the number of blocks and,
 * where few results would leave the GPU idle, chunks of the reduced axis and a second pass over
 * their results. Knows no device.
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
    WIDEST = BLOCK,          /* columns side by side in a block, if the reduced axis is short */
    BANK_BYTES = 128,        /* bytes of all banks of shared memory */
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
    bool partial; /* its elements are partial results: no third pass */
    uint64_t shape, splits, chunk, wide, group, tiles;
    uint64_t blocks, shared_bytes;
};

#define fixed(name) ops_fixed(reduce_axis, name)
#define tuned(task, name) ops_tuned((task)->choice, OPS_TUNING_reduce_axis_##name)

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool is_argmin(const struct task *task) {
    return strcmp(task->signature->op, "argmin") == 0;
}

/* Vectors of the longest row for which groups of lanes beat a warp's loop (TUNING.md A4). */
static uint64_t group_vectors(const struct task *task) {
    const size_t item = dtype_size(task->signature->items);
    if (is_argmin(task))
        return item <= 4 ? fixed(group_byte_vectors) : fixed(group_argmin_vectors);
    return item == 1 ? fixed(group_byte_vectors) : fixed(group_vectors);
}

/* Bytes of a value in shared memory. */
static size_t value_size(const struct task *task) {
    return is_argmin(task) ? GPUOPT_ITEM_MAX : dtype_size(task->signature->accumulator);
}

/* Type of a stored partial result. */
static enum dtype raw_type(const struct task *task) {
    const char *op = task->signature->op;
    const bool number =
        strcmp(op, "sum") == 0 || strcmp(op, "prod") == 0 || strcmp(op, "count") == 0;
    return number ? task->signature->accumulator : task->signature->items;
}

/* Whether it sums or counts bytes. */
static bool adds_bytes(const struct task *task) {
    return dtype_size(task->signature->items) == 1 && dtype_size(raw_type(task)) > 1;
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

static uint64_t array_bytes(const struct task *task) {
    return task->numbers[OUTER] * task->numbers[REDUCED] * task->numbers[INNER] *
           dtype_size(task->signature->items);
}

/* --- shapes */

/* Splits the reduced axis if there are fewer blocks than the GPU runs at once, into no more blocks
 * than that: a few more would need a second round. */
static void split(const struct ops_queue *queue, struct task *task, uint64_t blocks,
                  uint64_t chunk_least, uint64_t chunk_unit) {
    const uint64_t reduced = task->numbers[REDUCED];
    const uint64_t wanted = (uint64_t)queue->info.multiprocessors * tuned(task, blocks);
    uint64_t splits = blocks < wanted && !task->partial ? wanted / blocks : 1;
    const uint64_t apart = task->shape == AXIS_STRIDED ? task->numbers[STRIDE] : 1;
    splits = max_u64(1, min_u64(splits, reduced / chunk_least));
    splits = max_u64(splits, ceil_div(reduced, AXIS_CHUNK / apart));
    if (is_argmin(task) && !task->partial) /* a thread has an index for each of its vectors */
        splits = max_u64(splits, ceil_div(reduced, chunk_unit * (AXIS_POSITIONS / 4) / apart));
    if (adds_bytes(task)) /* 32-bit sums: columns whose rows overlap can be that long */
        splits = max_u64(splits, ceil_div(reduced, chunk_unit * AXIS_BYTE_VECTORS));
    task->chunk = ceil_div(ceil_div(reduced, splits), chunk_unit) * chunk_unit;
    task->splits = ceil_div(reduced, task->chunk);
    task->blocks = blocks * task->splits;
}

/* Whether threads read a slab in shared memory by vectors. */
static bool staged_by_vectors(const struct task *task) {
    const size_t item = dtype_size(task->signature->items);
    return !is_argmin(task) && task->numbers[INNER] == 1 && item <= 2 &&
           task->numbers[REDUCED] >= AXIS_STAGED_VECTORS(item);
}

static void plan_staged(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    const uint64_t slab = n[REDUCED] * n[INNER], unit = VECTOR / item / gcd(slab, VECTOR / item);
    const uint64_t stage = (uint64_t)queue->info.shared_per_block - STAGE_EDGES;
    uint64_t slabs = min_u64(tuned(task, stage_bytes), stage) / (slab * item);
    slabs = max_u64(1, min_u64(slabs, n[OUTER] / (uint64_t)queue->info.multiprocessors));
    if (slabs > unit) /* blocks begin at vectors */
        slabs -= slabs % unit;
    task->shape = AXIS_STAGED;
    task->wide = slabs;
    task->group = 1;
    /* Enough threads; and several lanes share rows that begin at the same banks. */
    const uint64_t row = n[INNER] == 1 ? slab * item : 1, banks = gcd(row, BANK_BYTES);
    const uint64_t read =
        staged_by_vectors(task) ? VECTOR : item; /* bytes that a lane reads at once */
    while (task->group < WARP && 2 * task->group * read <= n[REDUCED] * item &&
           (2 * task->group * slabs * n[INNER] <= BLOCK || 2 * task->group * read < banks))
        task->group *= 2;
    task->blocks = ceil_div(n[OUTER], slabs);
    task->shared_bytes = slabs * slab * item + STAGE_EDGES;
}

/* Rows of one word each, contiguous and word-aligned. */
static bool plan_words(struct task *task) {
    const uint64_t bytes = task->numbers[REDUCED] * dtype_size(task->signature->items);
    if (task->numbers[REDUCED] == 1 || (bytes != 2 && bytes != 4 && bytes != 8) ||
        task->in % bytes != 0)
        return false;
    task->shape = AXIS_WORDS;
    task->wide = bytes;
    task->blocks = ceil_div(task->numbers[OUTER], AXIS_WORD_ROWS * BLOCK);
    return true;
}

/* Rows of three elements, contiguous, the first at a vector. */
static bool plan_triples(const struct ops_queue *queue, struct task *task) {
    const size_t item = dtype_size(task->signature->items);
    const uint64_t rows = VECTOR / item; /* a thread's */
    const size_t part = !is_argmin(task) ? value_size(task) : item <= 2 ? 4 : 2 * item;
    const uint64_t shared_bytes = BLOCK * (rows + 1) * part;
    if (task->numbers[REDUCED] != 3 || task->in % VECTOR != 0 || !has_shared(queue, shared_bytes))
        return false;
    task->shape = AXIS_TRIPLES;
    task->blocks = ceil_div(task->numbers[OUTER], rows * BLOCK);
    task->shared_bytes = shared_bytes;
    return true;
}

/* Rows of a few whole vectors, contiguous, the first at a vector. */
static bool plan_groups(const struct ops_queue *queue, struct task *task, uint64_t vectors) {
    uint64_t group = 1;
    while (group < vectors)
        group *= 2;
    const uint64_t rows = AXIS_GROUP_ROWS * BLOCK / group, shared_bytes = rows * value_size(task);
    if (vectors > group_vectors(task) || !has_shared(queue, shared_bytes))
        return false;
    task->shape = AXIS_GROUPS;
    task->wide = vectors;
    task->group = group;
    task->blocks = ceil_div(task->numbers[OUTER], rows);
    task->shared_bytes = shared_bytes;
    return true;
}

static void plan_rows(const struct ops_queue *queue, struct task *task, bool at_vectors) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    const uint64_t apart = n[REDUCED] == 1 ? 1 : n[STRIDE], items = n[REDUCED] * apart;
    const uint64_t pass = (uint64_t)BLOCK * IN_FLIGHT * VECTOR / item;
    const uint64_t vectors = items * item / VECTOR;
    task->shape = apart > 1 ? AXIS_STRIDED : AXIS_ROWS;
    split(queue, task, n[OUTER], ceil_div(pass, apart), BLOCK * VECTOR / item);
    task->group = BLOCK;
    const uint64_t many = (uint64_t)fixed(many_rows) * queue->info.multiprocessors;
    const uint64_t strided =
        apart > 1 ? fixed(strided_warp) : 1; /* a block's overhead for a strided row is higher */
    const uint64_t longest =
        (n[OUTER] < many ? fixed(warp_bytes) : strided * tuned(task, warp_bytes)) / item;
    if (task->splits == 1 && items <= longest && n[OUTER] > 1) {
        /* Rows of whole vectors get fewer lanes than a warp. */
        for (task->group = at_vectors ? 1 : WARP; task->group < WARP;) {
            if (task->group * fixed(lane_vectors) >= vectors)
                break;
            task->group *= 2;
        }
        task->blocks = ceil_div(n[OUTER], BLOCK / task->group);
    }
    if (apart > 1) { /* lanes whose vectors hold the same elements; 1 / apart in 2^-20 */
        task->tiles = task->group / apart * apart;
        task->wide = ((1 << 20) - 1 + apart) / apart;
    }
    task->shared_bytes = BLOCK / WARP * value_size(task);
}

/* Whether slabs that would fit shared memory are large enough for `side` threads each (TUNING.md
 * A5). */
static bool are_large_slabs(const struct task *task, uint64_t vectors, uint64_t unit,
                            uint64_t side) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    const uint64_t inner = n[INNER] * item, bytes = n[REDUCED] * inner;
    const bool aligned = bytes % VECTOR == 0 && task->in % VECTOR == 0;
    const uint64_t loads = unit == 1 ? 1 : aligned ? fixed(narrow_loads) : 2 * fixed(narrow_loads);
    if (bytes <= tuned(task, slab_bytes) && loads * side > vectors)
        return false;
    if (!is_argmin(task))
        return n[REDUCED] >= fixed(narrow_rows) &&
               bytes >= max_u64(fixed(narrow_least), fixed(narrow_items) * item);
    return inner < VECTOR ? bytes >= fixed(argmin_least)
                          : bytes >= fixed(argmin_wide) && n[REDUCED] >= fixed(argmin_rows);
}

/* Slabs of few inner elements per block, if all multiprocessors get one; else 0. `unit` threads
 * have the same inner elements in all their vectors. */
static uint64_t narrow_slabs(const struct ops_queue *queue, const struct task *task,
                             uint64_t unit) {
    const uint64_t *n = task->numbers;
    const uint64_t inner = n[INNER] * dtype_size(task->signature->items);
    const uint64_t vectors =
        max_u64(n[REDUCED] * inner / VECTOR, 1) - 1; /* whole ones, at any alignment */
    const bool possible = n[INNER] > 1 && inner <= fixed(narrow_most) && without_gaps(n) &&
                          !task->partial && !task->in_index && vectors / BLOCK < AXIS_POSITIONS / 4;
    const uint64_t blocks = (uint64_t)queue->info.multiprocessors * tuned(task, blocks);
    uint64_t side = fixed(narrow_side);
    while (side < BLOCK && (side < unit || side * fixed(narrow_vectors) <= vectors ||
                            n[OUTER] * side / BLOCK < blocks))
        side *= 2;
    const bool fits = unit <= side && side <= vectors, many = n[OUTER] * side >= blocks * BLOCK;
    return possible && fits && many && are_large_slabs(task, vectors + 1, unit, side) ? BLOCK / side
                                                                                      : 0;
}

/* Returns whether the narrow shape serves. */
static bool plan_narrow(const struct ops_queue *queue, struct task *task) {
    const uint64_t shared_bytes = (BLOCK + 1) * AXIS_VECTOR_SHARED;
    const uint64_t inner = task->numbers[INNER],
                   count = VECTOR / dtype_size(task->signature->items);
    const uint64_t unit = inner / gcd(inner, count), slabs = narrow_slabs(queue, task, unit);
    if (!slabs || !has_shared(queue, shared_bytes))
        return false;
    task->shape = AXIS_NARROW;
    task->group = BLOCK / slabs / unit * unit;
    task->blocks = ceil_div(task->numbers[OUTER], slabs);
    task->shared_bytes = shared_bytes;
    return true;
}

/* Columns, or vectors of `count` of them, side by side in a block. Wide blocks read more of a row;
 * narrow ones leave less for the last blocks to combine, and overlap better for long columns
 * (TUNING.md A6). */
static uint64_t side_by_side(const struct ops_queue *queue, const struct task *task,
                             uint64_t columns, uint64_t count) {
    const uint64_t tuned_wide = tuned(task, wide);
    const uint64_t widest =
        task->numbers[REDUCED] < fixed(long_columns) ? min_u64(2 * tuned_wide, WIDEST) : tuned_wide;
    const uint64_t blocks = (uint64_t)queue->info.multiprocessors * tuned(task, blocks);
    for (uint64_t side = widest; side >= widest / 2; side /= 2) {
        const uint64_t splits = blocks / (task->numbers[OUTER] * ceil_div(columns, side));
        if (splits * min_u64(side, columns) * count <= fixed(combined))
            return side;
    }
    return widest;
}

static void plan_columns(const struct ops_queue *queue, struct task *task, enum axis_shape shape) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    const uint64_t count = VECTOR / item, columns = ceil_div(n[INNER], count),
                   at_once = IN_FLIGHT / 2;
    const uint64_t wide_blocks = n[OUTER] * ceil_div(columns, WIDEST);
    const uint64_t multiprocessors = (uint64_t)queue->info.multiprocessors;
    const bool widest = wide_blocks >= tuned(task, full_blocks) * multiprocessors ||
                        (n[REDUCED] <= 4 * at_once && wide_blocks >= 2 * multiprocessors);
    const uint64_t side = widest          ? WIDEST
                          : task->partial ? n[REDUCED] > BLOCK ? fixed(narrow) : 4 * fixed(narrow)
                                          : side_by_side(queue, task, columns, count);
    /* Partial results are written and read again, so they must be few compared with the elements.
     */
    const uint64_t few = 16 * dtype_size(raw_type(task)) / item;
    task->shape = shape;
    task->group = 1;
    task->tiles = ceil_div(columns, side);
    /* Even tiles, in whole 128-byte lines. */
    task->wide = min_u64(side, min_u64(columns, ceil_div(ceil_div(columns, task->tiles), 8) * 8));
    task->tiles = ceil_div(columns, task->wide);
    const uint64_t high = BLOCK / task->wide;
    split(queue, task, n[OUTER] * task->tiles,
          max_u64(few, high * at_once * tuned(task, chunk_passes)), high);
    task->shared_bytes = BLOCK * AXIS_VECTOR_SHARED;
}

/* Elements one by one. Lanes take adjacent elements of a result where these are closer than
 * results are; else adjacent results. */
static void plan_gather(const struct ops_queue *queue, struct task *task) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    const uint64_t results = n[OUTER] * n[INNER], reduced = n[REDUCED];
    const uint64_t threads = (uint64_t)queue->info.multiprocessors * tuned(task, blocks) * BLOCK;
    const uint64_t run = n[PERIOD] ? n[PERIOD] : reduced;
    const bool along = n[INNER] == 1 || (n[PERIOD] && n[STRIDE] < n[INNER_STRIDE] &&
                                         run * n[STRIDE] * item >= BANK_BYTES);
    uint64_t side = task->in_index ? 1 : AXIS_SIDE(item), parts = 1;
    task->shape = AXIS_GATHER;
    for (;; side = 1) {
        const uint64_t loads = side == 1 ? IN_FLIGHT : IN_FLIGHT / 2; /* of a thread and result */
        const uint64_t most = along ? WARP : IN_FLIGHT;
        for (parts = 1; parts < most;) {
            const bool long_rows = along && reduced > parts * loads;
            const bool few = results * parts / side < threads && reduced > parts * loads / 2;
            if (!long_rows && !few)
                break;
            parts *= 2;
        }
        if (side == 1 || results * parts / side >= threads)
            break;
    }
    if (along && reduced >= BLOCK * IN_FLIGHT &&
        (results * parts < threads || reduced >= fixed(gathered))) {
        parts = BLOCK;
        side = 1;
    }
    while (!along && parts < BLOCK && results <= BLOCK / parts / 2)
        parts *= 2;
    task->group = parts;
    task->wide = side;
    task->tiles = along;
    const uint64_t of_a_block = BLOCK / parts * side, tiles = ceil_div(results, of_a_block);
    if (along && parts < BLOCK && !task->partial && reduced < AXIS_CHUNK) {
        task->splits = 1;
        task->chunk = reduced;
        task->blocks = tiles;
    } else
        split(queue, task, tiles,
              max_u64(16 * dtype_size(raw_type(task)) / item, parts * IN_FLIGHT), parts);
    task->shared_bytes = BLOCK * AXIS_ITEM_SHARED;
}

/* Whether each vector lies within one innermost row, and all rows begin at vectors. */
static bool vectors_along(const uint64_t *n, uint64_t count) {
    const uint64_t *outer = n + OUTER_STRIDE, *inner = n + INNER_STRIDE;
    bool fit = *inner == 1 && n[INNER] % count == 0 && (n[OUTER] == 1 || *outer % count == 0) &&
               (n[REDUCED] == 1 || n[STRIDE] % count == 0);
    for (int k = 0; k < MORE - PERIODS; k++)
        fit = fit && outer[MORE + k] % count == 0 && inner[MORE + k] % count == 0 &&
              inner[PERIODS + k] % count == 0;
    return fit;
}

/* Whether vectors along the axis hold (nearly) only elements of one row. */
static bool is_row(const struct task *task) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    if (n[STRIDE] == 1 || n[REDUCED] == 1)
        return true;
    return item <= (is_argmin(task) ? AXIS_STRIDED_INDEXED : AXIS_STRIDED_ITEM) &&
           n[STRIDE] > (item <= 2 ? 1 : 2) && n[STRIDE] <= SECTOR / item &&
           n[REDUCED] >= fixed(strided_bytes) / item / n[STRIDE];
}

/* Whether enough columns are contiguous for unaligned vectors to pay. */
static bool is_shifted(const struct task *task) {
    const uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    return item <= AXIS_SHIFTED_ITEM && one_axis(n + INNER_STRIDE) && n[INNER_STRIDE] == 1 &&
           n[INNER] * item >= fixed(shifted_bytes) && n[REDUCED] >= fixed(shifted_rows) &&
           (item == 1 || n[REDUCED] <= fixed(shifted_short));
}

static void plan_shape(const struct ops_queue *queue, struct task *task) {
    uint64_t *n = task->numbers;
    const size_t item = dtype_size(task->signature->items);
    const uint64_t count = VECTOR / item;
    if (n[PERIOD]) {
        plan_gather(queue, task);
        return;
    }
    if (without_gaps(n) && n[OUTER] > 1 && !task->in_index) {
        const uint64_t slab = n[REDUCED] * n[INNER];
        const bool at_vectors = n[INNER] == 1 && n[REDUCED] % count == 0 && task->in % VECTOR == 0;
        if (n[INNER] == 1 && (plan_words(task) || plan_triples(queue, task)))
            return;
        if (at_vectors && plan_groups(queue, task, n[REDUCED] / count))
            return;
        if (!at_vectors && slab <= tuned(task, slab_bytes) / item &&
            (n[INNER] > 1 ||
             slab <= (is_argmin(task) ? fixed(staged_argmin) : fixed(staged_bytes)) / item)) {
            plan_staged(queue, task);
            return;
        }
        if (n[INNER] == 1) {
            plan_rows(queue, task, at_vectors);
            return;
        }
    }
    const bool few_items =
        n[REDUCED] * item <= (item < 4 ? fixed(gathered_narrow) : fixed(gathered_row));
    if (n[INNER] == 1 && is_row(task) && !task->in_index && (n[OUTER] == 1 || !few_items)) {
        plan_rows(queue, task, false);
        return;
    }
    if (task->in_index || n[INNER] == 1)
        plan_gather(queue, task);
    else if (task->in % VECTOR == 0 && vectors_along(n, count))
        plan_columns(queue, task, AXIS_VECTORS);
    else if (is_shifted(task))
        plan_columns(queue, task, AXIS_SHIFTED);
    else
        plan_gather(queue, task);
}

/* --- launches */

/* Whether to use streaming loads. A streaming line displaces only its like (see
 * common.cuh): the results, which are read next, stay in L2. That pays if the results fit and are a
 * fair share of all bytes (TUNING.md A7). */
static bool is_streamed(const struct ops_queue *queue, const struct task *task, uint64_t results) {
    const uint64_t cache = queue->info.cache_bytes ? queue->info.cache_bytes : USUAL_CACHE;
    const uint64_t bytes = array_bytes(task), fits = cache / 2;
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
    const uint64_t planned[] = {task->shape,
                                task->splits,
                                task->chunk,
                                task->wide,
                                task->group,
                                task->tiles,
                                is_streamed(queue, task, plan->result_bytes)};
    if (task->blocks > GRID_MAX)
        return too_many(task);
    step->values[step->value_count++] = task->in;
    step->values[step->value_count++] = task->out;
    step->values[step->value_count++] = task->partials;
    step->values[step->value_count++] = task->partial_index;
    step->values[step->value_count++] = task->in_index;
    step->values[step->value_count++] = task->tickets;
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
    const enum dtype raw = raw_type(task);
    memcpy(last.numbers, task->numbers, sizeof last.numbers);
    last.numbers[REDUCED] = count;
    memset(last.numbers + OUTER_STRIDE, 0, 2 * AXES * sizeof *last.numbers);
    last.numbers[PERIOD] = last.numbers[JUMP] = 0;
    last.numbers[OUTER_STRIDE] = count * last.numbers[INNER];
    last.numbers[STRIDE] = last.numbers[INNER];
    last.numbers[INNER_STRIDE] = 1;
    if (strcmp(op, "sum") == 0)
        last.numbers[KEY] = UINT64_MAX; /* signed */
    if (is_argmin(task))
        last.numbers[MASK] = 0; /* the partial results hold indices already */
    last.signature = reg_signature(choice->family, choice->rung, op, raw,
                                   is_argmin(task) ? DTYPE_int64 : task->signature->accumulator);
    return last;
}

/* For columns whose rows do not begin at vectors: the number of rows that together form whole
 * vectors and are treated as one. Remaining rows make one more partial result, which several outer
 * elements, and indices, cannot have. */
static uint64_t rows_to_fold(const struct task *task) {
    const uint64_t *n = task->numbers;
    const uint64_t count = VECTOR / dtype_size(task->signature->items);
    const uint64_t rows = count / gcd(n[INNER], count);
    const bool possible =
        n[INNER] > 1 && without_gaps(n) && task->in % VECTOR == 0 && !task->partial &&
        (n[OUTER] == 1 ? !is_argmin(task) || n[REDUCED] % rows == 0
                       : n[REDUCED] % rows == 0 &&
                             n[REDUCED] * n[INNER] > tuned(task, slab_bytes) / (VECTOR / count));
    return possible && rows > 1 && n[REDUCED] >= rows * tuned(task, folded_rows) ? rows : 1;
}

/* Plans the shape with `rows` rows treated as one; returns whether the blocks rejoin them. */
static bool plan_folded(const struct ops_queue *queue, struct task *task, uint64_t rows) {
    task->numbers[REDUCED] /= rows;
    task->numbers[INNER] *= rows;
    task->numbers[STRIDE] *= rows;
    plan_shape(queue, task);
    const bool whole = task->shape == AXIS_VECTORS && task->tiles == 1;
    if (whole)
        task->group = rows;
    return whole;
}

/* Whether the last blocks combine the chunks' results themselves, because they are too few to repay
 * a launch. */
static bool combines_itself(const struct task *task) {
    const uint64_t count = VECTOR / dtype_size(task->signature->items);
    const bool row = task->shape == AXIS_ROWS || task->shape == AXIS_STRIDED,
               gathers = task->shape == AXIS_GATHER;
    const uint64_t of_a_block = row       ? 1
                                : gathers ? BLOCK / task->group * task->wide
                                          : task->wide * count / task->group;
    const uint64_t groups =
        gathers ? task->blocks / task->splits : task->numbers[OUTER] * (row ? 1 : task->tiles);
    return groups <= OPS_TICKETS && task->splits * of_a_block <= fixed(combined);
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

    struct task first = task;
    const bool narrow = plan_narrow(queue, &first);
    uint64_t rows = narrow ? 1 : rows_to_fold(&task);
    bool rejoined = !narrow && plan_folded(queue, &first, rows);
    if (is_argmin(&task) && !rejoined && rows > 1) { /* the indices would be lost */
        rows = 1;
        first = task;
        rejoined = plan_folded(queue, &first, rows);
    }
    const uint64_t rest = task.numbers[REDUCED] % rows;
    if (rows == 1) { /* rows side by side have become columns, and so have their partial results */
        task.numbers[OUTER] = first.numbers[OUTER];
        task.numbers[INNER] = first.numbers[INNER];
    }
    const uint64_t results = task.numbers[OUTER] * task.numbers[INNER];
    if (first.shape == AXIS_GATHER) {
        task.numbers[OUTER] = 1;
        task.numbers[INNER] = results;
    }
    const uint64_t partials = max_u64(1, first.splits) * (rejoined ? 1 : rows) + (rest > 0);
    if (partials == 1)
        return add_step(queue, choice, &first, plan);

    const size_t raw = dtype_size(raw_type(&task));
    const uint64_t bytes =
        ceil_div(results * partials * raw, SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT;
    enum status status = ops_scratch(
        queue, plan, bytes + (is_argmin(&task) ? results * partials * sizeof(int64_t) : 0));
    if (status)
        return status;
    first.partials = plan->scratch;
    first.partial_index = is_argmin(&task) ? plan->scratch + bytes : 0;
    if (partials == first.splits && combines_itself(&first)) {
        status = ops_tickets(queue, &first.tickets);
        return status ? status : add_step(queue, choice, &first, plan);
    }
    status = add_step(queue, choice, &first, plan);
    if (!status && rest) {
        struct task left = task;
        left.numbers[REDUCED] = rest;
        left.in += (task.numbers[REDUCED] - rest) * task.numbers[INNER] *
                   dtype_size(task.signature->items);
        left.partials = plan->scratch + results * (partials - 1) * raw;
        left.partial = true;
        plan_shape(queue, &left);
        status = add_step(queue, choice, &left, plan);
    }
    if (status)
        return status;
    struct task last = second_pass(choice, &task, partials, plan->scratch, first.partial_index);
    plan_shape(queue, &last);
    if (last.splits > 1)
        return too_many(&task); /* there is no third pass */
    return add_step(queue, choice, &last, plan);
}
