/* ops_matmul.c: plans a matrix product: one launch of a rung of the ladder, or a way of
 * ops_matmul_any.c, which describes the numbers. Inputs: a and b. Knows no device.
 */
#include "ops_matmul.h"

#define GPUOPT_RUNGS
#define RUNG(...)
#include "../kernels/matmul.cu"

#include <math.h>
#include <string.h>

enum {
    TILE = 32,
    SIDE = 128,
    GROUP = 8, /* as in matmul.cu */
    GRID_X = 0x7fffffff,
    GRID_Y = 65535,
    STREAM_K = 11 /* from this rung on tiles of the last round may be cut */
};

/* A block's tile of the result, and the shared memory for its ring of tiles of a and b. */
struct tiling {
    int rung;
    unsigned threads, rows, columns, depth, stages, slices;
    unsigned resident; /* blocks per multiprocessor, for float32 */
    unsigned cost;     /* of an output element */
};
static const struct tiling tilings[] = {
#define TILING(rung, threads, rows, columns, depth, warp_rows, warp_columns, down, stages, slices, \
               resident, cost)                                                                     \
    {rung, threads, rows, columns, depth, stages, slices, resident, cost},
    MATMUL_TILINGS(TILING)
#undef TILING
};

static unsigned shared_bytes(const struct tiling *tiling, size_t item_bytes) {
    const unsigned words =
        16 / (unsigned)item_bytes; /* padding of a column of a's tile, in words */
    const unsigned depth = MATMUL_DEPTH(tiling->depth, (unsigned)item_bytes);
    const unsigned ring = tiling->stages * depth * (tiling->rows + words + tiling->columns);
    const unsigned sums = tiling->slices > 1 ? tiling->rows * tiling->columns : 0;
    return (unsigned)item_bytes * (ring > sums ? ring : sums);
}

/* Assignment of tiles to blocks: the first `whole` have one block each; the layers of the others
 * are divided evenly among `chunks` blocks. A tile has `layers` pairs of tiles of a and b. */
struct tile_division {
    const struct tiling *tiling;
    uint64_t tiles, layers, whole, chunk, chunks;
    double cost; /* of the tiles of the busiest multiprocessor */
};

static struct tile_division work_of(const struct ops_queue *queue, const struct ops_choice *choice,
                                    const struct tiling *tiling, const uint64_t *numbers) {
    const uint64_t multiprocessors =
        queue->info.multiprocessors > 0 ? (uint64_t)queue->info.multiprocessors : 1;
    const size_t item_bytes = dtype_size(choice->signature->items);
    const uint64_t resident = item_bytes == 4 ? tiling->resident : 1;
    const uint64_t at_once = multiprocessors * resident;
    const uint64_t depth = MATMUL_DEPTH(tiling->depth, (unsigned)item_bytes);
    struct tile_division work = {
        .tiling = tiling,
        .tiles = ceil_div(numbers[0], tiling->rows) * ceil_div(numbers[1], tiling->columns),
        .layers = numbers[2] ? ceil_div(numbers[2], depth) : 1,
    };
    work.whole = work.tiles;
    /* One resident block runs about as long as two. */
    double rounds = (double)(ceil_div(work.tiles, at_once) * resident);
    const uint64_t last = work.tiles % at_once;
    const double cut =
        (double)work.tiles / (double)multiprocessors +
        (double)ops_tuned(choice, OPS_TUNING_matmul_join_layers) / (double)work.layers;
    if (choice->rung->number >= STREAM_K && cut < rounds && last && last <= OPS_TICKETS &&
        work.tiles <= GRID_X - at_once && work.layers <= UINT32_MAX) {
        rounds = cut;
        work.whole -= last;
        work.chunk = ceil_div(last * work.layers, at_once);
        work.chunks = ceil_div(last * work.layers, work.chunk);
    }
    work.cost = rounds * tiling->rows * tiling->columns * tiling->cost;
    if (choice->rung->number >= STREAM_K)
        work.cost *= (double)ops_tuned(choice, OPS_TUNING_matmul_chunks_cost) / 1000;
    return work;
}

/* Chooses the cheapest of the rung's tilings, or the one that a sweep names; no tiling if it has
 * none. */
static struct tile_division choose(const struct ops_queue *queue, const struct ops_choice *choice,
                                   const uint64_t *numbers) {
    const uint64_t named = ops_tuned(choice, OPS_TUNING_matmul_tiling);
    struct tile_division best = {0};
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++)
        if (tilings[i].rung == choice->rung->number) {
            const struct tile_division work = work_of(queue, choice, &tilings[i], numbers);
            if (++count == named)
                return work;
            if (!best.tiling || work.cost < best.cost)
                best = work;
        }
    return best;
}

/* The choice or, if the caller named no rung and the GPU has too little shared memory for it or the
 * previous rung costs less, the previous rung. */
static struct ops_choice fitting(const struct ops_queue *queue, const struct ops_choice *choice,
                                 const uint64_t *numbers, struct tile_division *work) {
    const size_t item_bytes = dtype_size(choice->signature->items);
    struct ops_choice fits = *choice;
    for (*work = choose(queue, &fits, numbers); work->tiling && choice->any_rung;) {
        struct ops_choice before = fits;
        before.rung--; /* exists: rung 1 has no tiling */
        before.block = before.rung->block_default;
        const struct tile_division lower = choose(queue, &before, numbers);
        const bool cheaper = fits.rung->number >= STREAM_K && lower.cost < work->cost;
        if (!cheaper &&
            shared_bytes(work->tiling, item_bytes) <= (unsigned)queue->info.shared_per_block)
            break;
        fits = before;
        *work = lower;
    }
    if (work->tiling)
        fits.block = work->tiling->threads;
    return fits;
}

/* Adds the arguments of a rung that cuts tiles, and the memory for their partial sums. */
static enum status add_chunks(struct ops_queue *queue, const struct tile_division *work,
                              size_t item_bytes, struct ops_plan *plan) {
    struct ops_step *step = &plan->steps[0];
    const uint64_t cut = work->tiles - work->whole;
    const uint64_t tile = (uint64_t)work->tiling->rows * work->tiling->columns;
    enum status status = STATUS_OK;
    device_address tickets = 0;
    if (cut)
        status = ops_scratch(queue, plan, (work->chunks + cut) * tile * item_bytes);
    if (cut && !status)
        status = ops_tickets(queue, &tickets);
    const uint64_t values[] = {plan->scratch, tickets,      work->whole,
                               work->chunk,   work->layers, cut * work->layers};
    memcpy(step->values + step->value_count, values, sizeof values);
    step->value_count += sizeof values / sizeof *values;
    return status;
}

static enum status plan_ladder(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_choice fits,
                               struct tile_division work, struct ops_plan *plan) {
    const uint64_t *numbers = problem->numbers, rows = numbers[0], columns = numbers[1];
    const bool host = choice->rung->flags & RUNG_HOST;
    struct ops_step *step = &plan->steps[0];
    const struct tiling *tiling = work.tiling;
    enum status status = ops_step_on_arrays(queue, &fits, problem, plan);
    for (unsigned i = 0; i < 3; i++)
        step->values[step->value_count++] = numbers[i];
    if (!status && fits.rung->number >= STREAM_K)
        status = add_chunks(queue, &work, dtype_size(fits.signature->items), plan);
    if (status || host)
        return status;

    uint64_t x, y;
    if (fits.rung->number <= 5) {
        step->block[0] = TILE;
        step->block[1] = fits.block / TILE;
        x = ceil_div(columns, TILE);
        y = ceil_div(rows, fits.rung->number == 1 ? step->block[1] : TILE);
    } else {
        step->block[0] = fits.block;
        if (tiling)
            step->shared_bytes = shared_bytes(tiling, dtype_size(fits.signature->items));
        x = ceil_div(columns, tiling ? tiling->columns : SIDE) * GROUP;
        y = ceil_div(ceil_div(rows, tiling ? tiling->rows : SIDE), GROUP);
    }
    if (fits.rung->number >= STREAM_K) {
        x = work.whole + work.chunks;
        y = 1;
    }
    const uint64_t z = ceil_div(y, GRID_Y);
    if (x > GRID_X || z > GRID_Y)
        return status_fail(
            STATUS_BAD_VALUE,
            "a, b: a result of %llu x %llu elements has more tiles than a grid has blocks",
            (unsigned long long)rows, (unsigned long long)columns);
    step->grid[0] = (unsigned)x;
    step->grid[1] = (unsigned)(y < GRID_Y ? y : GRID_Y);
    step->grid[2] = (unsigned)z;
    return STATUS_OK;
}

/* Estimated cycles of a multiprocessor. Where no tiling fits, rung 7 is left, whose tiles of
 * float64 do not fit either. */
static double ladder_cost(const struct ops_choice *choice, const struct tile_division *work,
                          const uint64_t *numbers) {
    const bool is_wide = choice->signature->items == DTYPE_float64;
    const double rate = (double)ops_fixed(matmul, ladder_rate) / (is_wide ? 2 : 1);
    if (!work->tiling && is_wide)
        return INFINITY;
    const double joined = /* one after the other, of a tile */
        work->chunks ? (double)work->chunks / (double)(work->tiles - work->whole) : 0;
    enum { WORD = 16 }; /* bytes; rows that words do not fill are stored by elements */
    const uint64_t stores = numbers[1] * dtype_size(choice->signature->items) % WORD ? 2 : 1;
    const double steps = (double)(numbers[2] + stores * ops_fixed(matmul, ladder_steps));
    return ops_fixed(matmul, ladder_cycles) + joined * ops_fixed(matmul, chunk_cycles) +
           work->cost / 1000 * steps / rate;
}

/* Plans copies of operands in other layouts, and a rung of the ladder, where that is cheaper than
 * `way`; no step otherwise. */
static enum status plan_copied(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, const struct matmul_way *way,
                               struct ops_plan *plan) {
    struct ops_choice copied = *choice;
    struct tile_division work;
    copied = fitting(queue, &copied, problem->numbers, &work);
    if (!work.tiling || ladder_cost(&copied, &work, problem->numbers) +
                                ops_matmul_copy_cost(queue, choice, problem) >=
                            way->cost)
        return STATUS_OK;
    const enum status status = plan_ladder(queue, choice, problem, copied, work, plan);
    return status ? status : ops_matmul_add_copies(queue, choice, problem, plan);
}

enum status ops_matmul_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const int number = choice->rung->number;
    const bool host = choice->rung->flags & RUNG_HOST, plain = ops_matmul_is_plain(problem);
    const bool general = choice->rung->flags & RUNG_ANY_DTYPE;
    struct tile_division work = {0};
    struct ops_choice fits = *choice;
    struct matmul_way way;
    if (!plain && !general && !choice->any_rung)
        return status_fail(STATUS_UNFIT,
                           "variant: rung '%s' multiplies two matrices in C order; use "
                           "variant='patches' for stacks and other layouts",
                           choice->rung->name);
    if (plain && !general && !host)
        fits = fitting(queue, choice, problem->numbers, &work);
    if (general || (choice->any_rung && !host)) {
        const int named = general && !choice->any_rung ? number : 0;
        if (!ops_matmul_way(queue, choice, problem, named, &way))
            return status_fail(STATUS_UNFIT,
                               "variant: rung '%s' requires more blocks than a grid has",
                               choice->rung->name);
        if (!plain && !general) {
            const enum status status = plan_copied(queue, choice, problem, &way, plan);
            if (status || plan->step_count)
                return status;
        }
        if (general || !plain || way.cost < ladder_cost(choice, &work, problem->numbers))
            return ops_matmul_plan_way(queue, choice, problem, &way, plan);
    }
    return plan_ladder(queue, choice, problem, fits, work, plan);
}
