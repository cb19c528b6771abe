/* ops_stencil1d.c: plans a stencil: one launch of one rung. The inputs are the array and the
 * weights (none for a plain sum); numbers: items, outputs, the middle input of output 0, radius,
 * mode, and the constant beyond the ends, by its bits in the accumulator's type.
 */
#include "ops.h"

#include <string.h>

enum {
    GRID_MAX = 0x7fffffff, /* blocks, in x */
    NUMBERS = 6,
    /* of stencil1d.cu: */
    PACK = 16,    /* bytes */
    PIECE = 1024, /* inputs of a window in shared memory at a time */
    GROUP = 16,   /* outputs a thread of rung 5 where windows are wide */
    WIDE_RADIUS = 8,
    WIDEST_RADIUS = 1024,
};

/* Whether the choice adds up shared sums of groups. */
static bool shares_sums(const struct ops_choice *choice, uint64_t radius) {
    return choice->rung->number == 5 && strcmp(choice->signature->op, "sum") == 0 &&
           radius >= WIDE_RADIUS && radius <= WIDEST_RADIUS;
}

/* Whether rung 4's packs hold every window, and lie at their boundaries. */
static bool takes_packs(const struct ops_choice *choice, const struct ops_problem *problem) {
    const size_t item = dtype_size(choice->signature->items);
    const uint64_t first = problem->numbers[2], radius = problem->numbers[3];
    return radius * item <= 2 * PACK && (problem->inputs[0] + first * item) % PACK == 0 &&
           problem->output % PACK == 0;
}

/* The rung whose kernel serves: rungs 4 and 5 leave to those before them what is not for them. */
static const struct reg_rung *serving(const struct ops_choice *choice,
                                      const struct ops_problem *problem) {
    const struct reg_rung *rung = choice->rung;
    if (rung->number < 4 || rung->flags & RUNG_HOST || shares_sums(choice, problem->numbers[3]))
        return rung;
    const int number = takes_packs(choice, problem) ? 4 : 3;
    const struct reg_family *family = choice->family;
    for (size_t i = 0; i < family->rung_count; i++)
        if (family->rungs[i].number == number && !(family->rungs[i].flags & RUNG_HOST))
            rung = &family->rungs[i];
    return rung;
}

enum status ops_stencil1d_plan(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    struct ops_choice served = *choice;
    const struct reg_rung *rung = served.rung = serving(choice, problem);
    const uint64_t outputs = problem->numbers[1], width = 2 * problem->numbers[3] + 1;
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, &served, problem, plan);
    for (unsigned i = 0; i < NUMBERS; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || rung->flags & RUNG_HOST)
        return status;

    const uint64_t radius = problem->numbers[3];
    const unsigned outputs_a_thread = shares_sums(choice, radius) ? GROUP : rung->items_per_thread;
    const uint64_t blocks = (outputs - 1) / ((uint64_t)choice->block * outputs_a_thread) + 1;
    if (blocks > GRID_MAX)
        return status_fail(STATUS_BAD_VALUE,
                           "variant: rung '%s' with block=%u cannot take %llu items; use a larger "
                           "block",
                           rung->name, choice->block, (unsigned long long)outputs);
    step->grid[0] = (unsigned)blocks;
    step->block[0] = choice->block;
    if (shares_sums(choice, radius)) {
        const unsigned groups = choice->block + (2 * (unsigned)radius + GROUP - 1) / GROUP;
        step->shared_bytes = groups * (unsigned)dtype_size(choice->signature->accumulator) +
                             groups * (GROUP + 1) * (unsigned)dtype_size(choice->signature->items);
    }
    if (rung->number == 2)
        step->shared_bytes = (choice->block + (unsigned)(width < PIECE ? width : PIECE) - 1) *
                             (unsigned)dtype_size(choice->signature->items);
    return STATUS_OK;
}
