/* ops_historical.c: plans the decks' listings of kernels/historical.cu as the decks launch them.
 * They check no bounds, so sizes that a grid does not cover exactly are errors. Knows no device.
 */
#include "ops.h"

#include <stdio.h>
#include <string.h>

enum {
    ITEMS_MAX = 0x7fffffff, /* the listings' indices have 32 bits */
    CASCADED_BLOCKS = 64,   /* of reduction 7; D4: best with 64 to 256 */
    LAST_WARP_WORDS = 64,   /* read by the last warp of a smaller block, too */
    GRID_Y = 65535,
    BLOCK_MAX = 1024,
    STENCIL_BLOCK = 16,
    RADIUS = 3,
};

static enum status refuse(const struct ops_choice *choice, const char *argument, const char *needed,
                          uint64_t given) {
    return status_fail(
        STATUS_UNFIT, "%s: the deck's listing '%s' of %s checks no bounds and needs %s, not %llu",
        argument, choice->rung->name, choice->family->name, needed, (unsigned long long)given);
}

/* One pass over `count` elements. A short rest gets a smaller block, as in the decks. */
static enum status plan_pass(struct ops_queue *queue, const struct ops_choice *choice,
                             uint64_t count, struct ops_step *step) {
    const struct reg_rung *rung = choice->rung;
    const unsigned items = rung->items_per_thread == 1 ? 1 : 2;
    unsigned block = choice->block;
    while (block > 1 && count < (uint64_t)block * items)
        block /= 2;
    const uint64_t portion = (uint64_t)block * items;
    if (!count || count > ITEMS_MAX || count % portion)
        return refuse(choice, "array",
                      "in each pass a multiple of a block's elements, as a power of two is", count);
    uint64_t blocks = count / portion;
    if (!rung->items_per_thread) {
        const uint64_t most = choice->blocks ? choice->blocks : CASCADED_BLOCKS;
        for (blocks = 1; 2 * blocks <= most && 2 * blocks <= count / portion;)
            blocks *= 2;
    }
    step->grid[0] = (unsigned)blocks;
    step->block[0] = block;
    step->shared_bytes =
        (block < LAST_WARP_WORDS ? LAST_WARP_WORDS : block) * (unsigned)sizeof(int);
    step->values[2] = count;
    step->value_count = 3;
    return ops_kernel(queue, rung, choice->signature, block, step);
}

static enum status plan_reduce(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    uint64_t count = problem->numbers[0], results = 0, offsets[OPS_STEPS_MAX];
    plan->result_bytes = sizeof(int);
    plan->bytes = (count + 1) * sizeof(int);
    do {
        if (plan->step_count == OPS_STEPS_MAX)
            return refuse(choice, "block", "a larger block for so many elements",
                          problem->numbers[0]);
        struct ops_step *step = &plan->steps[plan->step_count];
        const enum status status = plan_pass(queue, choice, count, step);
        if (status)
            return status;
        offsets[plan->step_count++] = results;
        count = step->grid[0];
        results += count;
    } while (count > 1);
    const enum status status = ops_scratch(queue, plan, results * sizeof(int));
    for (unsigned i = 0; i < plan->step_count && !status; i++) {
        plan->steps[i].values[0] = i ? plan->steps[i - 1].values[1] : problem->inputs[0];
        plan->steps[i].values[1] = plan->scratch + offsets[i] * sizeof(int);
    }
    plan->result = plan->scratch + offsets[plan->step_count - 1] * sizeof(int);
    return status;
}

/* A grid of x * y threads in blocks of `width` x `height`. */
static enum status cover(const struct ops_choice *choice, struct ops_step *step, uint64_t x,
                         uint64_t y, unsigned width, unsigned height) {
    char needed[64];
    snprintf(needed, sizeof needed, "multiples of %u and %u", width, height);
    if (x % width || !x)
        return refuse(choice, "shape", needed, x);
    if (y % height || !y)
        return refuse(choice, "shape", needed, y);
    if (x > ITEMS_MAX / y)
        return refuse(choice, "shape", "at most 2^31 - 1 elements", x * y);
    if (y / height > GRID_Y)
        return refuse(choice, "shape", "at most 65,535 rows of blocks", y / height);
    step->grid[0] = (unsigned)(x / width);
    step->grid[1] = (unsigned)(y / height);
    step->block[0] = width;
    step->block[1] = height;
    return STATUS_OK;
}

/* numbers: as ops_transpose.c. */
static enum status plan_transpose(const struct ops_choice *choice, const uint64_t *numbers,
                                  struct ops_step *step) {
    if (numbers[0] != 2 || numbers[3] != 1)
        return refuse(choice, "a", "two axes, which change places", numbers[0]);
    const uint64_t rows = numbers[1], columns = numbers[2];
    step->values[step->value_count++] = rows;
    step->values[step->value_count++] = columns;
    const int number = choice->rung->number;
    if (number == 1 && columns > ITEMS_MAX / (rows ? rows : 1))
        return refuse(choice, "shape", "at most 2^31 - 1 elements", rows * columns);
    if (number == 1)
        return columns ? cover(choice, step, rows, 1, choice->block, 1)
                       : refuse(choice, "shape", "a column", 0);
    const bool tiled = number > 3, several = number == 6;
    const enum status status = cover(choice, step, tiled ? columns : rows, tiled ? rows : columns,
                                     32, several ? 32 : choice->block / 32);
    step->block[1] = choice->block / 32;
    return status;
}

/* numbers: as ops_stencil1d.c. The listing's input begins RADIUS elements later: every output has
 * its neighbours, as in mode "valid". */
static enum status plan_stencil(const struct ops_choice *choice, const uint64_t *numbers,
                                struct ops_step *step) {
    const uint64_t outputs = numbers[1];
    if (numbers[3] != RADIUS || numbers[7] != 2 * RADIUS + 1)
        return refuse(choice, "radius", "radius=3", numbers[3]);
    if (numbers[0] != outputs + 2 * RADIUS)
        return refuse(choice, "mode", "mode='valid': every output with its six neighbours",
                      numbers[0]);
    if (numbers[6] != 1)
        return refuse(choice, "a", "a single row", numbers[6]);
    step->values[0] += RADIUS * sizeof(int);
    step->values[1] = step->values[2]; /* a plain sum: no weights */
    step->value_count = 2;
    return cover(choice, step, outputs, 1, STENCIL_BLOCK, 1);
}

static enum status plan_add(const struct ops_choice *choice, uint64_t n, struct ops_step *step) {
    const unsigned block = choice->block;
    switch (choice->rung->number) {
    case 1:
        return n == 1 ? STATUS_OK : refuse(choice, "x", "one element", n);
    case 2:
        return cover(choice, step, n, 1, 1, 1);
    case 3:
        return n <= BLOCK_MAX ? cover(choice, step, n, 1, (unsigned)n ? (unsigned)n : 1, 1)
                              : refuse(choice, "x", "at most 1,024 elements, one block", n);
    case 4:
        return cover(choice, step, n, 1, block, 1);
    default:
        if (n > ITEMS_MAX - block)
            return refuse(choice, "x", "at most 2^31 - 1 threads", n);
        step->values[step->value_count++] = n;
        step->grid[0] = (unsigned)(n / block) + 1;
        step->block[0] = block;
        return STATUS_OK;
    }
}

static enum status plan_saxpy(const struct ops_choice *choice, const uint64_t *numbers,
                              struct ops_step *step) {
    const uint64_t n = numbers[0];
    if (n > ITEMS_MAX - choice->block)
        return refuse(choice, "x", "at most 2^31 - 1 threads", n);
    step->values[step->value_count++] = n;
    step->values[step->value_count++] = numbers[1];
    step->grid[0] = (unsigned)ceil_div(n, choice->block);
    step->block[0] = choice->block;
    return STATUS_OK;
}

/* numbers: rows, columns and depth. */
static enum status plan_matmul(const struct ops_choice *choice, const uint64_t *numbers,
                               struct ops_step *step) {
    const uint64_t rows = numbers[0], columns = numbers[1], depth = numbers[2];
    const int number = choice->rung->number; /* D2's; D0's three have none */
    const bool whole = number == 1 || strcmp(choice->rung->name, "d0-plain") == 0;
    const unsigned tile = number < 0 ? 16 : 32;
    for (unsigned i = 0; i < 3; i++)
        step->values[step->value_count++] = numbers[i];
    if (!depth || (!whole && depth % tile))
        return refuse(choice, "a, b",
                      tile == 16 ? "an inner dimension that is a multiple of 16"
                                 : "an inner dimension that is a multiple of 32",
                      depth);
    if (depth > ITEMS_MAX / (rows + columns + 1))
        return refuse(choice, "a, b", "at most 2^31 - 1 elements", depth * (rows + columns));
    const enum status status =
        cover(choice, step, columns, rows, tile, number == 1 ? choice->block / tile : tile);
    step->block[1] = choice->block / tile; /* fewer threads where each has several targets */
    return status;
}

enum status ops_historical_plan(struct ops_queue *queue, const struct ops_choice *choice,
                                const struct ops_problem *problem, struct ops_plan *plan) {
    struct ops_step *step = &plan->steps[0];
    if (choice->family == &reg_families[REG_reduce])
        return plan_reduce(queue, choice, problem, plan);
    const enum status status = ops_step_on_arrays(queue, choice, problem, plan);
    if (status)
        return status;
    switch (choice->family - reg_families) {
    case REG_transpose:
        return plan_transpose(choice, problem->numbers, step);
    case REG_stencil1d:
        return plan_stencil(choice, problem->numbers, step);
    case REG_add:
        return plan_add(choice, problem->numbers[0], step);
    case REG_saxpy:
        return plan_saxpy(choice, problem->numbers, step);
    default:
        return plan_matmul(choice, problem->numbers, step);
    }
}
