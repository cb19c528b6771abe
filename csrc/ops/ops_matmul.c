/* ops_matmul.c: plans a matrix product: one launch of one rung. The inputs are a and b; numbers:
 * the rows of a, the columns of b, and the columns of a.
 */
#include "ops.h"

enum {
    TILE = 32, /* of matmul.cu */
    GRID_X = 0x7fffffff,
    GRID_Y = 65535,
};

static uint64_t tiles(uint64_t items, uint64_t a_tile) { return (items - 1) / a_tile + 1; }

enum status ops_matmul_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const uint64_t rows = problem->numbers[0], columns = problem->numbers[1];
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    for (unsigned i = 0; i < 3; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || choice->rung->flags & RUNG_HOST)
        return status;

    const uint64_t x = tiles(columns, TILE), y = tiles(rows, TILE), z = tiles(y, GRID_Y);
    if (x > GRID_X || z > GRID_Y)
        return status_fail(STATUS_BAD_VALUE,
                           "a, b: a result of %llu x %llu items has more tiles than a grid blocks",
                           (unsigned long long)rows, (unsigned long long)columns);
    step->grid[0] = (unsigned)x;
    step->grid[1] = (unsigned)(y < GRID_Y ? y : GRID_Y);
    step->grid[2] = (unsigned)z;
    step->block[0] = TILE;
    step->block[1] = choice->block / TILE;
    return STATUS_OK;
}
