/* ops_stencil1d.c: plans a stencil: one launch of one rung. Inputs: the array and the weights (none
 * for a plain sum); numbers: elements of a row, outputs of a row, the middle input of output 0,
 * radius, mode, the constant beyond the ends as bits of the accumulator's type, and rows. Knows no
 * device.
 */
#include "../kernels/stencil1d_plan.cuh"
#include "ops.h"

#include <string.h>

#define fixed(name) ops_fixed(stencil1d, name)

enum {
    GRID_MAX = 0x7fffffff, /* blocks in x */
    NUMBERS = 7,
    MODE = 4, /* index of the mode in numbers */
    /* as in stencil1d.cu: */
    VECTOR = 16,             /* bytes */
    PIECE = 1024,            /* inputs of a window in shared memory at a time */
    GROUP = 15,              /* outputs of a thread of rung 5 */
    WIDE_RADIUS = GROUP / 2, /* from this radius on its plain sums share sums of groups */
};

struct shape {
    uint64_t n, outputs, first, radius, rows;
    size_t item, accumulator; /* bytes */
    bool sum;
};

static struct shape shape_of(const struct ops_choice *choice, const struct ops_problem *problem) {
    const uint64_t *numbers = problem->numbers;
    return (struct shape){
        .n = numbers[0],
        .outputs = numbers[1],
        .first = numbers[2],
        .radius = numbers[3],
        .rows = numbers[6],
        .item = dtype_size(choice->signature->items),
        .accumulator = dtype_size(choice->signature->accumulator),
        .sum = strcmp(choice->signature->op, "sum") == 0,
    };
}

/* Shared memory of a block of rung 5: its inputs in whole groups, and two sets of the groups' sums
 * or the weights. */
static uint64_t tile_bytes(const struct shape *shape, unsigned block) {
    const uint64_t groups = block + ceil_div(2 * shape->radius, GROUP);
    const uint64_t weights = shape->sum ? 0 : 2 * shape->radius + 1;
    const uint64_t numbers = shape->sum && shape->radius >= WIDE_RADIUS ? 2 * groups : weights;
    const uint64_t number_bytes = round_up(numbers * shape->accumulator, VECTOR);
    const uint64_t inputs = round_up(groups * GROUP * shape->item, VECTOR);
    return number_bytes + inputs + VECTOR; /* the first input may have any offset in its vector */
}

/* Whether a vector of outputs and that of their inputs are both aligned. */
static bool is_aligned(const struct shape *shape, const struct ops_problem *problem) {
    const bool same_numbers = shape->rows == 1 || shape->outputs == shape->n;
    return same_numbers && (problem->inputs[0] + shape->first * shape->item) % VECTOR == 0 &&
           problem->output % VECTOR == 0;
}

/* The rung whose kernel runs: rungs 4 and 5 fall back to lower ones for unsuitable problems. */
static const struct reg_rung *serving(const struct ops_queue *queue,
                                      const struct ops_choice *choice, const struct shape *shape,
                                      const struct ops_problem *problem) {
    const struct reg_rung *rung = choice->rung;
    if (rung->number < 4 || rung->flags & RUNG_HOST)
        return rung;
    if (shape->radius <= fixed(vector_radius) && is_aligned(shape, problem))
        return ops_rung(choice->family, 4);
    /* Rung 3 needs fewer instructions than tiles for narrow plain windows in rows, and for int64
     * with the radius that it is compiled for. */
    const bool compiled =
        shape->radius == STENCIL1D_DECK_RADIUS && choice->signature->accumulator == DTYPE_int64;
    const bool fewer =
        shape->sum && shape->radius <= fixed(vector_radius) && (shape->rows > 1 || compiled);
    if (rung->number == 5 && !fewer && shape->radius <= fixed(widest_radius) &&
        tile_bytes(shape, choice->block) <= (uint64_t)queue->info.shared_per_block)
        return rung;
    return ops_rung(choice->family, 3);
}

/* Blocks of tiles of `tile` outputs through shared memory; tile_of_rows in stencil1d.cu lays rows
 * out likewise. */
static uint64_t tiles(const struct shape *shape, uint64_t tile) {
    const uint64_t whole = ceil_div(shape->outputs, tile);
    if (shape->rows == 1)
        return whole;
    if (whole * tile <= shape->outputs + 2 * shape->radius)
        return whole * shape->rows;
    const uint64_t pitch = shape->outputs + 2 * shape->radius;
    return ceil_div(shape->rows * pitch - 2 * shape->radius, tile);
}

enum status ops_stencil1d_plan(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    const struct shape shape = shape_of(choice, problem);
    struct ops_choice served = *choice;
    const struct reg_rung *rung = served.rung = serving(queue, choice, &shape, problem);
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, &served, problem, plan);
    for (unsigned i = 0; i < NUMBERS; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || rung->flags & RUNG_HOST)
        return status;

    const uint64_t width = 2 * shape.radius + 1;
    const uint64_t tile = (uint64_t)choice->block * rung->items_per_thread;
    const uint64_t blocks = rung->number == 2 || rung->number == 5
                                ? tiles(&shape, tile)
                                : ceil_div(shape.outputs * shape.rows, tile);
    if (blocks > GRID_MAX)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' with block=%u cannot process %llu elements; use a larger "
            "block",
            rung->name, choice->block, (unsigned long long)(shape.outputs * shape.rows));
    const bool nearly = shape.radius == STENCIL1D_DECK_RADIUS && shape.rows == 1 && blocks > 3;
    const bool deck = nearly && choice->block == STENCIL1D_DECK_BLOCK && shape.first == 0;
    const enum stencil1d_deck told = deck     ? STENCIL1D_DECK
                                     : nearly ? STENCIL1D_NEARLY_DECK
                                              : STENCIL1D_OTHER;
    step->grid[0] = (unsigned)blocks;
    step->block[0] = choice->block;
    if (rung->number == 5)
        step->shared_bytes = (unsigned)tile_bytes(&shape, choice->block);
    if (rung->number == 2) {
        step->values[step->value_count - NUMBERS + MODE] |= (uint64_t)told << 32;
        step->shared_bytes =
            (choice->block + (unsigned)(width < PIECE ? width : PIECE) - 1) * (unsigned)shape.item;
    }
    return STATUS_OK;
}
