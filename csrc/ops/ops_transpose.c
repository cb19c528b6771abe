/* ops_transpose.c: plans a transpose: one launch of one rung. numbers: rows, columns of the input.
 */
#include "ops.h"

#include <string.h>

enum {
    TILE = 32,           /* of transpose.cu */
    GRID_X = 0x7fffffff, /* blocks */
    GRID_Y = 65535,
};

static uint64_t blocks(uint64_t items, unsigned a_block) { return (items - 1) / a_block + 1; }

/* The sides of wide_tile in transpose.cu. */
static unsigned wide_rows(size_t item) { return item <= 2 ? 128 : 256 / (unsigned)item; }
static unsigned wide_columns(size_t item) {
    return item == 2 ? 64 : item == 16 ? 32 : wide_rows(item);
}

enum status ops_transpose_plan(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    const uint64_t rows = problem->numbers[0], columns = problem->numbers[1];
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    step->values[step->value_count++] = rows;
    step->values[step->value_count++] = columns;
    if (status || rung->flags & RUNG_HOST)
        return status;

    uint64_t x, y = 1;
    step->block[0] = choice->block;
    if (rung->flags & RUNG_CEILING) {
        x = blocks(rows * columns, choice->block);
    } else if (strcmp(rung->name, "1d") == 0) {
        x = blocks(rows, choice->block);
    } else if (strcmp(rung->name, "vector") == 0) {
        const size_t item = dtype_size(choice->signature->items);
        x = blocks(rows, wide_rows(item));
        y = blocks(columns, wide_columns(item));
    } else {
        /* 2d and tex count blocks over the output, one item a thread; the others tiles of the
         * input */
        const bool tiled = rung->number > 3;
        step->block[0] = TILE;
        step->block[1] = choice->block / TILE;
        x = blocks(tiled ? columns : rows, TILE);
        y = blocks(tiled ? rows : columns, tiled ? TILE : choice->block / TILE);
    }
    const uint64_t z = blocks(y, GRID_Y);
    if (x > GRID_X || z > GRID_Y)
        return status_fail(STATUS_BAD_VALUE,
                           "variant: rung '%s' with block=%u cannot take %llu x %llu items; use "
                           "variant='multi' or a larger block",
                           rung->name, choice->block, (unsigned long long)rows,
                           (unsigned long long)columns);
    step->grid[0] = (unsigned)x;
    step->grid[1] = (unsigned)(y < GRID_Y ? y : GRID_Y);
    step->grid[2] = (unsigned)z;
    return STATUS_OK;
}
