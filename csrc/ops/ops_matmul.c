/* ops_matmul.c: plans a matrix product: one launch of a rung of the ladder, or a way of
 * ops_matmul_any.c, which describes the numbers. Inputs: a and b. Knows no device.
 */
#include "ops_matmul.h"

#define GPUOPT_RUNGS
#define RUNG(...)
#include "../kernels/matmul.cu"

#include <math.h>
#include <stdlib.h>
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
};
#define TILING(rung, threads, rows, columns, depth, warp_rows, warp_columns, down, stages, slices, \
               resident)                                                                           \
    {rung, threads, rows, columns, depth, stages, slices, resident},
static const struct tiling tilings[] = {MATMUL_ELEMENT_TILINGS(TILING) MATMUL_TILINGS(TILING)};
#undef TILING
enum { ELEMENT_TILINGS = 3, WIDE_TILINGS = 3 }; /* the first: of float32; the last: of others */

/* Whether a rung has a tiling for this type. */
static bool is_of(const struct tiling *tiling, const struct ops_choice *choice) {
    const bool elements =
        choice->rung->number == STREAM_K && choice->signature->items == DTYPE_float32;
    return tiling->rung == choice->rung->number && (tiling < tilings + ELEMENT_TILINGS) == elements;
}

/* Speeds of the tilings above, in their order, and of the last three for halves (TUNING.md M14). */
static const struct speed {
    unsigned rate, alone; /* multiplications of float32 in 10 cycles: many blocks; one alone */
    unsigned steps;       /* of k that take as long as a tile's first layer and its results */
} speeds[] = {{986, 1456, 28}, {774, 619, 27}, {1008, 460, 28},  {1120, 560, 33}, {1120, 560, 33},
              {1173, 758, 81}, {952, 874, 76}, {1038, 1145, 23}, {897, 654, 21},  {786, 373, 22},
              {915, 1740, 39}, {780, 391, 65}, {635, 138, 17}};

static unsigned shared_bytes(const struct tiling *tiling, size_t item_bytes) {
    const unsigned word = 16 / (unsigned)item_bytes; /* padding of a step of k: of a, or of both */
    const unsigned padding = tiling->rung >= STREAM_K ? 2 * word : word;
    const unsigned depth = MATMUL_DEPTH(tiling->depth, (unsigned)item_bytes);
    const unsigned ring = tiling->stages * depth * (tiling->rows + tiling->columns + padding);
    const unsigned sums = tiling->slices > 1 ? tiling->rows * tiling->columns : 0;
    return (unsigned)item_bytes * (ring > sums ? ring : sums);
}

/* Assignment of tiles to blocks: the first `whole` have one block each; the layers of the others
 * are divided evenly among `chunks` blocks. A tile has `layers` pairs of tiles of a and b. */
struct tile_division {
    const struct tiling *tiling;
    struct matmul_plan plan;
    uint64_t tiles, layers, whole, chunk, chunks;
    unsigned depth; /* of a layer */
    double cost;    /* estimated cycles of the busiest multiprocessor */
};

static double greater(double a, double b) { return a > b ? a : b; }
static uint64_t multiprocessors_of(const struct ops_queue *queue) {
    return queue->info.multiprocessors > 0 ? (uint64_t)queue->info.multiprocessors : 1;
}

/* Blocks that a multiprocessor has registers for. */
static uint64_t resident_of(const struct tiling *tiling, size_t item_bytes) {
    enum { THREADS = 256 };
    if (item_bytes == 8)
        return tiling->threads < THREADS ? THREADS / tiling->threads : 1;
    return item_bytes == 2 && tiling->threads >= THREADS / 2 ? THREADS / tiling->threads
                                                             : tiling->resident;
}

/* Estimated cycles: of the busiest multiprocessor's tiles, or of a block that few others run
 * beside. A block adds all of its tiles' steps of k, or its chunk's. */
static double cost_of(const struct ops_queue *queue, const struct ops_choice *choice,
                      const struct tile_division *work) {
    enum { WORD = 16, CYCLES = 10, PERCENT = 100, SCHEDULERS = 4, WARP = 32 };
    const struct tiling *tiling = work->tiling;
    const size_t item_bytes = dtype_size(choice->signature->items);
    const uint64_t multiprocessors = multiprocessors_of(queue);
    const uint64_t at_once = multiprocessors * resident_of(tiling, item_bytes);
    const uint64_t k = work->plan.chunk < work->plan.k ? work->plan.chunk : work->plan.k;
    const struct speed speed = speeds[tiling - tilings + (item_bytes == 2 ? WIDE_TILINGS : 0)];
    double percent = PERCENT;
    if (tiling->rung < STREAM_K && work->plan.n * item_bytes % WORD)
        percent = ops_fixed(matmul, ladder_elements);
    if (item_bytes == 8)
        percent *= tiling->rung < STREAM_K ? ops_fixed(matmul, ladder_float64) / 100.0 : 2;
    const double steps = (double)k + speed.steps;
    const double layers = (double)(work->chunk + ops_tuned(choice, OPS_TUNING_matmul_join_layers));
    const double chunk = work->chunks ? layers * work->depth : 0; /* steps, with its sums' */
    /* Blocks that give each scheduler a warp, on all multiprocessors. */
    const uint64_t even =
        tiling->threads < SCHEDULERS * WARP ? SCHEDULERS * WARP / tiling->threads : 1;
    const uint64_t turn = even * multiprocessors;
    const double full = (double)(ceil_div(work->whole, turn) * even) * steps +
                        (double)(ceil_div(work->chunks, turn) * even) * chunk,
                 alone = (double)ceil_div(work->whole, at_once) * steps + chunk;
    const double step = tiling->rows * tiling->columns * percent / PERCENT * CYCLES;
    const double pieces = /* of a tile, which one block adds */
        work->chunks ? (double)work->chunks / (double)(work->tiles - work->whole) : 0;
    /* Blocks of two warps that follow whole rounds share schedulers, and leave others idle. */
    const uint64_t before =
        even > 1 && (work->chunks || work->whole % at_once) ? work->whole / at_once * at_once : 0;
    const double last = ops_fixed(matmul, last_pairs) / 100.0 * (work->chunks ? chunk : steps),
                 after = before ? (double)(ceil_div(before, turn) * even) * steps / speed.rate +
                                      last / speed.alone
                                : 0;
    const double busy = greater(greater(full / speed.rate, alone / speed.alone), after) * step +
                        ops_fixed(matmul, ladder_cycles) +
                        (work->chunks ? ops_fixed(matmul, join_cycles) : 0) +
                        pieces * ops_fixed(matmul, chunk_cycles);
    return ops_matmul_passes_cost(queue, choice, &work->plan, busy);
}

static struct tile_division work_of(const struct ops_queue *queue, const struct ops_choice *choice,
                                    const struct tiling *tiling, const struct matmul_plan *given,
                                    uint64_t slices) {
    const size_t sum_bytes = dtype_size(choice->signature->accumulator);
    const uint64_t multiprocessors = multiprocessors_of(queue);
    const uint64_t at_once =
        multiprocessors * resident_of(tiling, dtype_size(choice->signature->items));
    struct tile_division work = {.tiling = tiling, .plan = *given};
    work.depth = MATMUL_DEPTH(tiling->depth, (unsigned)sum_bytes);
    ops_matmul_cut(&work.plan, slices, work.depth);
    work.plan.across = ceil_div(given->n, tiling->columns);
    work.plan.tiles = ceil_div(given->m, tiling->rows) * work.plan.across;
    /* Rung 10's blocks past the last row end at once, and others share a place. */
    if (tiling->rung < STREAM_K)
        work.plan.tiles = round_up(ceil_div(given->m, tiling->rows), GROUP) * work.plan.across;
    work.tiles = work.plan.tiles * ops_matmul_products(given) * work.plan.slices;
    work.layers = ceil_div(work.plan.chunk, work.depth);
    work.whole = work.tiles;
    work.cost = cost_of(queue, choice, &work);
    if (work.tiles > GRID_X ||
        shared_bytes(tiling, sum_bytes) > (unsigned)queue->info.shared_per_block)
        work.cost = INFINITY; /* if no tiling fits, the launch is refused, with both sizes */
    const uint64_t last = work.tiles % at_once;
    if (work.cost == INFINITY || choice->rung->number < STREAM_K || work.plan.slices > 1 || !last ||
        last > OPS_TICKETS || work.tiles > GRID_X - at_once || work.layers > UINT32_MAX)
        return work;
    const bool always = !ops_tuned(choice, OPS_TUNING_matmul_join_layers);
    struct tile_division best = work, cut = work;
    cut.whole -= last;
    for (uint64_t blocks = multiprocessors; blocks <= at_once; blocks += multiprocessors) {
        if (blocks < last)
            continue; /* a chunk is no longer than a tile */
        cut.chunk = ceil_div(last * work.layers, blocks);
        cut.chunks = ceil_div(last * work.layers, cut.chunk);
        cut.cost = cost_of(queue, choice, &cut);
        if (cut.cost < best.cost || (always && !best.chunks))
            best = cut;
    }
    return best;
}

/* Chooses the cheapest of the rung's tilings, and slices of k, or those that a sweep names; no
 * tiling if it has none. */
static struct tile_division choose(const struct ops_queue *queue, const struct ops_choice *choice,
                                   const struct matmul_plan *plan) {
    const uint64_t named = ops_tuned(choice, OPS_TUNING_matmul_tiling);
    const uint64_t slices = ops_tuned(choice, OPS_TUNING_matmul_tile_slices);
    const size_t item_bytes = dtype_size(choice->signature->items);
    struct tile_division best = {0};
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
        if (!is_of(&tilings[i], choice) || (++count != named && named))
            continue;
        const int turns = choice->rung->number >= STREAM_K && tilings[i].rows != tilings[i].columns;
        for (int turned = 0; turned <= turns; turned++) {
            const struct matmul_plan own = turned ? ops_matmul_swapped(plan) : *plan;
            struct tile_division work =
                work_of(queue, choice, &tilings[i], &own, slices ? slices : 1);
            if (!best.tiling || work.cost < best.cost)
                best = work;
            const uint64_t tiles = work.tiles ? work.tiles : 1;
            const uint64_t halves = 2 * resident_of(&tilings[i], item_bytes);
            for (uint64_t each = 1; each <= halves && !slices && choice->rung->number >= STREAM_K;
                 each++) {
                const uint64_t wanted = multiprocessors_of(queue) * each / 2 / tiles;
                if (wanted < 2)
                    continue;
                work = work_of(queue, choice, &tilings[i], &own, wanted);
                if (work.cost < best.cost)
                    best = work;
            }
        }
    }
    return best;
}

/* The choice or, if the caller named no rung and the GPU has too little shared memory for it or the
 * previous rung costs less, the previous rung, which reads `plain` operands. */
static struct ops_choice fitting(const struct ops_queue *queue, const struct ops_choice *choice,
                                 const struct matmul_plan *plan, bool plain,
                                 struct tile_division *work) {
    struct ops_choice fits = *choice;
    for (*work = choose(queue, &fits, plan); work->tiling && choice->any_rung && plain;) {
        struct ops_choice before = fits;
        before.rung--; /* exists: rung 1 has no tiling */
        before.block = before.rung->block_default;
        const struct tile_division lower = choose(queue, &before, plan);
        const bool cheaper = fits.rung->number >= STREAM_K && lower.cost < work->cost;
        if (!cheaper && work->cost < INFINITY)
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
                              size_t sum_bytes, struct ops_plan *plan) {
    struct ops_step *step = &plan->steps[0];
    const uint64_t cut = work->tiles - work->whole;
    const uint64_t tile = (uint64_t)work->tiling->rows * work->tiling->columns;
    enum status status = STATUS_OK;
    device_address tickets = 0;
    if (work->plan.slices > 1)
        status = ops_scratch(queue, plan, work->plan.slices * work->plan.outputs * sum_bytes);
    if (cut)
        status = ops_scratch(queue, plan, (work->chunks + cut) * tile * sum_bytes);
    if (cut && !status)
        status = ops_tickets(queue, &tickets);
    const uint64_t values[] = {plan->scratch, tickets,      work->whole,
                               work->chunk,   work->layers, cut * work->layers};
    memcpy(step->values + step->value_count, values, sizeof values);
    step->value_count += sizeof values / sizeof *values;
    memcpy(plan->wide, &work->plan, sizeof work->plan);
    step->takes_wide = true;
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
    for (unsigned i = 0; i < 3 && fits.rung->number < STREAM_K; i++)
        step->values[step->value_count++] = numbers[i];
    if (!status && fits.rung->number >= STREAM_K)
        status = add_chunks(queue, &work, dtype_size(fits.signature->accumulator), plan);
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
            step->shared_bytes = shared_bytes(tiling, dtype_size(fits.signature->accumulator));
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
    return work.tiling && work.plan.slices > 1 ? ops_matmul_add_join(queue, choice, plan)
                                               : STATUS_OK;
}

/* How a product is computed: by tiles of the ladder, or another way. */
struct decision {
    const struct reg_rung *rung;
    unsigned block;
    bool is_way, is_fitting; /* not: a way's grid has too few blocks */
    struct tile_division work;
    struct matmul_way way;
};

static void decide(const struct ops_queue *queue, const struct ops_choice *choice,
                   const struct ops_problem *problem, struct decision *found) {
    const int number = choice->rung->number;
    const bool plain = ops_matmul_is_plain(problem), general = number >= MATMUL_PATCHES_RUNG;
    const bool is_half = dtype_size(choice->signature->items) == 2; /* from STREAM_K on */
    const struct matmul_plan described = ops_matmul_described(problem);
    struct ops_choice fits = *choice;
    memset(found, 0, sizeof *found);
    found->is_fitting = true;
    if (!general)
        fits = fitting(queue, choice, &described, plain && !is_half, &found->work);
    found->rung = fits.rung;
    found->block = fits.block;
    if (!general && !choice->any_rung)
        return;
    found->is_fitting = ops_matmul_way(queue, choice, problem,
                                       general && !choice->any_rung ? number : 0, &found->way);
    /* Rung 7, which has no tiling, serves where no tile fits, but for float64. */
    const bool no_tile = (!found->work.tiling || found->work.cost == INFINITY) &&
                         (!plain || choice->signature->items != DTYPE_float32);
    found->is_way = general || no_tile || found->way.cost < found->work.cost;
}

/* A search takes as long as the rest of a small product's call: a queue keeps the last decisions.
 * A sweep's constants are not among their keys. */
struct ops_products {
    struct {
        const struct reg_signature *signature;
        const struct reg_rung *rung;
        unsigned block;
        bool any_rung;
        uint64_t numbers[OPS_NUMBERS_MAX];
        struct decision found;
    } of[8];
};

static const struct decision *decided(struct ops_queue *queue, const struct ops_choice *choice,
                                      const struct ops_problem *problem, struct decision *own) {
    const uint64_t *numbers = problem->numbers;
    const size_t count = ops_matmul_numbers(problem),
                 places = sizeof queue->products->of / sizeof *queue->products->of;
    const uint64_t place = (numbers[0] + 3 * numbers[1] + 5 * numbers[2] + count) % places;
    if (!queue->products)
        queue->products = calloc(1, sizeof *queue->products);
    if (!queue->products || choice->tuning) {
        decide(queue, choice, problem, own);
        return own;
    }
    if (queue->products->of[place].signature != choice->signature ||
        queue->products->of[place].rung != choice->rung ||
        queue->products->of[place].block != choice->block ||
        queue->products->of[place].any_rung != choice->any_rung ||
        memcmp(queue->products->of[place].numbers, numbers, count * sizeof *numbers) != 0) {
        queue->products->of[place].signature = choice->signature;
        queue->products->of[place].rung = choice->rung;
        queue->products->of[place].block = choice->block;
        queue->products->of[place].any_rung = choice->any_rung;
        memcpy(queue->products->of[place].numbers, numbers, count * sizeof *numbers);
        decide(queue, choice, problem, &queue->products->of[place].found);
    }
    return &queue->products->of[place].found;
}

enum status ops_matmul_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const int number = choice->rung->number;
    const bool plain = ops_matmul_is_plain(problem), general = number >= MATMUL_PATCHES_RUNG;
    struct decision own;
    struct ops_choice fits = *choice;
    if (!plain && !general && !choice->any_rung && number < STREAM_K)
        return status_fail(STATUS_UNFIT,
                           "variant: rung '%s' multiplies two matrices in C order; use "
                           "variant='stream-k' for stacks and other layouts",
                           choice->rung->name);
    if (choice->rung->flags & RUNG_HOST)
        return plan_ladder(queue, choice, problem, fits, (struct tile_division){0}, plan);
    const struct decision *found = decided(queue, choice, problem, &own);
    if (!found->is_fitting)
        return status_fail(STATUS_UNFIT, "variant: rung '%s' requires more blocks than a grid has",
                           choice->rung->name);
    if (found->is_way)
        return ops_matmul_plan_way(queue, choice, problem, &found->way, plan);
    fits.rung = found->rung;
    fits.block = found->block;
    return plan_ladder(queue, choice, problem, fits, found->work, plan);
}
