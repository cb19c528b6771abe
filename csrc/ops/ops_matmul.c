/* ops_matmul.c: plans a matrix product: one launch of one rung. The inputs are a and b; numbers:
 * the rows of a, the columns of b, and the columns of a.
 */
#include "ops.h"

#define GPUOPT_RUNGS
#define RUNG(...)
#include "../kernels/matmul.cu"

enum {
    TILE = 32,
    SIDE = 128,
    GROUP = 8, /* of matmul.cu */
    GRID_X = 0x7fffffff,
    GRID_Y = 65535,
};

/* A block's tile of the result, and the shared memory for the ring of tiles of a and b. */
struct tiling {
    int rung;
    unsigned threads, rows, columns, depth, stages, slices;
    unsigned cost; /* of an output */
};
static const struct tiling tilings[] = {
#define TILING(rung, threads, rows, columns, depth, warp_rows, warp_columns, down, stages, slices, \
               resident, cost)                                                                     \
    {rung, threads, rows, columns, depth, stages, slices, cost},
    MATMUL_TILINGS(TILING)
#undef TILING
};

static uint64_t tiles(uint64_t items, uint64_t a_tile) { return (items - 1) / a_tile + 1; }

static unsigned shared_bytes(const struct tiling *tiling, size_t item_bytes) {
    const unsigned words = 16 / (unsigned)item_bytes; /* that a column of a's tile is longer */
    const unsigned depth = MATMUL_DEPTH(tiling->depth, (unsigned)item_bytes);
    const unsigned ring = tiling->stages * depth * (tiling->rows + words + tiling->columns);
    const unsigned sums = tiling->slices > 1 ? tiling->rows * tiling->columns : 0;
    return (unsigned)item_bytes * (ring > sums ? ring : sums);
}

/* What the busiest multiprocessor's share of the tiles costs it. */
static double cost(const struct tiling *tiling, uint64_t rows, uint64_t columns,
                   int multiprocessors) {
    const uint64_t at_once = multiprocessors > 0 ? (uint64_t)multiprocessors : 1;
    const uint64_t down = tiles(rows, tiling->rows), across = tiles(columns, tiling->columns);
    const double rounds = (double)tiles(down * across, at_once); /* a grid's limit keeps it small */
    return rounds * tiling->rows * tiling->columns * tiling->cost;
}

/* The cheapest of the rung's tilings, or the one that a sweep names; NULL if it has none. */
static const struct tiling *choose(const struct ops_choice *choice, uint64_t rows, uint64_t columns,
                                   int multiprocessors) {
    const uint64_t named = ops_tuned(choice, OPS_TUNING_matmul_tiling);
    const struct tiling *best = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++)
        if (tilings[i].rung == choice->rung->number) {
            if (++count == named)
                return &tilings[i];
            if (!best || cost(&tilings[i], rows, columns, multiprocessors) <
                             cost(best, rows, columns, multiprocessors))
                best = &tilings[i];
        }
    return best;
}

/* The choice, or where the caller left it to us and the GPU has too little shared memory for it,
 * the next lower rung that needs no more than there is. */
static struct ops_choice fitting(const struct ops_queue *queue, const struct ops_choice *choice,
                                 uint64_t rows, uint64_t columns, const struct tiling **tiling) {
    const size_t item_bytes = dtype_size(choice->signature->items);
    struct ops_choice fits = *choice;
    for (;;) {
        *tiling = choose(&fits, rows, columns, queue->info.multiprocessors);
        if (!*tiling || !choice->any_rung ||
            shared_bytes(*tiling, item_bytes) <= (unsigned)queue->info.shared_per_block)
            break;
        fits.rung--; /* there is one: rung 1 has no tiling */
        fits.block = fits.rung->block_default;
    }
    if (*tiling)
        fits.block = (*tiling)->threads;
    return fits;
}

enum status ops_matmul_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const uint64_t rows = problem->numbers[0], columns = problem->numbers[1];
    const bool host = choice->rung->flags & RUNG_HOST;
    struct ops_step *step = &plan->steps[0];
    const struct tiling *tiling = NULL;
    const struct ops_choice fits = host ? *choice : fitting(queue, choice, rows, columns, &tiling);
    const enum status status = ops_step_on_arrays(queue, &fits, problem, plan);
    for (unsigned i = 0; i < 3; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || host)
        return status;

    uint64_t x, y;
    if (fits.rung->number <= 5) {
        step->block[0] = TILE;
        step->block[1] = fits.block / TILE;
        x = tiles(columns, TILE);
        y = tiles(rows, TILE);
    } else {
        step->block[0] = fits.block;
        if (tiling)
            step->shared_bytes = shared_bytes(tiling, dtype_size(fits.signature->items));
        x = tiles(columns, tiling ? tiling->columns : SIDE) * GROUP;
        y = tiles(tiles(rows, tiling ? tiling->rows : SIDE), GROUP);
    }
    const uint64_t z = tiles(y, GRID_Y);
    if (x > GRID_X || z > GRID_Y)
        return status_fail(STATUS_BAD_VALUE,
                           "a, b: a result of %llu x %llu items has more tiles than a grid blocks",
                           (unsigned long long)rows, (unsigned long long)columns);
    step->grid[0] = (unsigned)x;
    step->grid[1] = (unsigned)(y < GRID_Y ? y : GRID_Y);
    step->grid[2] = (unsigned)z;
    return STATUS_OK;
}
