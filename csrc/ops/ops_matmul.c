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
    unsigned rows, columns, depth, stages, slices;
};
static const struct tiling tilings[] = {
#define TILING(rung, rows, columns, depth, warp_rows, warp_columns, down, stages, slices) \
    {rung, rows, columns, depth, stages, slices},
    MATMUL_TILINGS(TILING)
#undef TILING
};

static uint64_t tiles(uint64_t items, uint64_t a_tile) { return (items - 1) / a_tile + 1; }

static unsigned shared_bytes(const struct tiling *tiling, size_t item_bytes) {
    const unsigned words = 16 / (unsigned)item_bytes; /* that a column of a's tile is longer */
    const unsigned ring = tiling->stages * tiling->depth * (tiling->rows + words + tiling->columns);
    const unsigned sums = tiling->slices > 1 ? tiling->rows * tiling->columns : 0;
    return (unsigned)item_bytes * (ring > sums ? ring : sums);
}

enum status ops_matmul_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const uint64_t rows = problem->numbers[0], columns = problem->numbers[1];
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    for (unsigned i = 0; i < 3; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || choice->rung->flags & RUNG_HOST)
        return status;

    uint64_t x, y;
    if (choice->rung->number <= 5) {
        step->block[0] = TILE;
        step->block[1] = choice->block / TILE;
        x = tiles(columns, TILE);
        y = tiles(rows, TILE);
    } else {
        struct tiling tiling = {.rows = SIDE, .columns = SIDE};
        for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++)
            if (tilings[i].rung == choice->rung->number) {
                tiling = tilings[i];
                step->shared_bytes = shared_bytes(&tiling, dtype_size(choice->signature->items));
            }
        step->block[0] = choice->block;
        x = tiles(columns, tiling.columns) * GROUP;
        y = tiles(tiles(rows, tiling.rows), GROUP);
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
