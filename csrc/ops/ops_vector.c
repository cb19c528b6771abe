/* ops_vector.c: plans add and saxpy: one launch of one rung. Inputs: x and y; numbers: elements,
 * and the factor as bits (unused by add). If an array is strided or broadcast, which the cpu and
 * rung 8 support, the number of axes follows, the last axis first, and for each its size and the
 * steps of x, y and the result, in elements.
 */
#include "../kernels/vector_plan.cuh"
#include "ops.h"

#include <string.h>

enum {
    GRID_MAX = 0x7fffffff,
    BLOCK_MAX = 1024,
    VECTOR = 16, /* bytes of a vector of rung 7 */
};

enum { X, Y, OUT, ARRAYS, STRIDED = 8, AXES = 2 /* index of their count in the numbers */ };

/* Whether groups of VECTOR bytes are adjacent and aligned in the result, and in each operand that
 * does not repeat one element along the innermost axis. */
static bool is_packed(const struct ops_problem *problem, const struct vector_plan *plan,
                      uint64_t items) {
    const device_address addresses[ARRAYS] = {problem->inputs[X], problem->inputs[Y],
                                              problem->output};
    const bool whole = plan->axis_count == 1 || plan->axes[0].extent % items == 0;
    if (!whole || plan->axes[0].out != 1 || plan->axes[0].extent < items)
        return false;
    for (int k = 0; k < ARRAYS; k++) {
        for (unsigned axis = 0; axis < plan->axis_count; axis++) {
            const int64_t steps[ARRAYS] = {plan->axes[axis].x, plan->axes[axis].y,
                                           plan->axes[axis].out};
            if (axis == 0 && steps[k] == 0)
                break;
            if (axis ? steps[k] % (int64_t)items != 0 : steps[k] != 1 || addresses[k] % VECTOR)
                return false;
        }
    }
    return true;
}

static enum status plan_strided(const struct ops_choice *choice, const struct ops_problem *problem,
                                unsigned block, struct ops_plan *whole) {
    struct vector_plan *plan = (struct vector_plan *)whole->wide;
    struct ops_step *step = &whole->steps[0];
    const uint64_t n = problem->numbers[0], items = VECTOR / dtype_size(choice->signature->items);
    const uint64_t *axes = problem->numbers + AXES + 1;
    memset(plan, 0, sizeof *plan);
    plan->x_number = problem->values[X];
    plan->y_number = problem->values[Y];
    plan->axis_count = problem->numbers[AXES] ? (uint32_t)problem->numbers[AXES] : 1;
    plan->axes[0] = (struct vector_axis){n, 1, 1, 1};
    for (uint64_t k = 0; k < problem->numbers[AXES]; k++, axes += 1 + ARRAYS)
        plan->axes[k] = (struct vector_axis){axes[0], (int64_t)axes[1 + X], (int64_t)axes[1 + Y],
                                             (int64_t)axes[1 + OUT]};
    for (uint32_t k = 0; k < plan->axis_count; k++) {
        plan->axes[k].x = problem->by_value & 1u << X ? 0 : plan->axes[k].x;
        plan->axes[k].y = problem->by_value & 1u << Y ? 0 : plan->axes[k].y;
    }
    plan->groups = n;
    plan->is_packed = n <= UINT32_MAX && is_packed(problem, plan, items);
    plan->is_long = n > UINT32_MAX;
    if (plan->is_packed) {
        struct vector_axis *inner = &plan->axes[0];
        plan->groups = n / items;
        plan->tail = (uint32_t)(plan->axis_count == 1 ? n % items : 0);
        *inner = (struct vector_axis){inner->extent / items, inner->x * (int64_t)items,
                                      inner->y * (int64_t)items, (int64_t)items};
    }
    const uint64_t blocks =
        ceil_div(plan->groups, (uint64_t)block * (plan->is_packed ? VECTOR_GROUPS : VECTOR_ITEMS));
    if (blocks > GRID_MAX)
        return status_fail(STATUS_UNFIT, "x, y: %llu elements are too many for strided arrays",
                           (unsigned long long)n);
    step->takes_wide = true;
    step->grid[0] = (unsigned)blocks;
    step->block[0] = block;
    return STATUS_OK;
}

enum status ops_vector_plan(struct ops_queue *queue, const struct ops_choice *choice,
                            const struct ops_problem *problem, struct ops_plan *plan) {
    const uint64_t n = problem->numbers[0], axes = problem->numbers[AXES];
    const bool strided = axes || problem->by_value;
    struct ops_choice served = *choice;
    if (strided && choice->any_rung && !(choice->rung->flags & RUNG_HOST))
        served.rung = ops_rung(choice->family, STRIDED);
    const struct reg_rung *rung = served.rung;
    struct ops_step *step = &plan->steps[0];
    if (axes > DEVICE_AXES)
        return status_fail(STATUS_BAD_VALUE, "x, y: %llu axes are more than %d",
                           (unsigned long long)axes, DEVICE_AXES);
    const enum status status = ops_step_on_arrays(queue, &served, problem, plan);
    step->values[step->value_count++] = n;
    step->values[step->value_count++] = problem->numbers[1];
    if (rung->flags & RUNG_HOST) {
        const uint64_t count = 1 + 4 * axes;
        memcpy(step->values + step->value_count, problem->numbers + AXES, count * sizeof(uint64_t));
        step->value_count += (unsigned)count;
        return status;
    }
    if (status)
        return status;

    if (rung->number == STRIDED)
        return plan_strided(choice, problem, choice->block, plan);
    if (strided)
        return status_fail(STATUS_UNFIT,
                           "variant: rung '%s' requires contiguous arrays of one shape; use "
                           "variant='strided'",
                           rung->name);

    uint64_t block = choice->block, blocks = ceil_div(n, block ? block : 1);
    if (rung->number == 1) {
        blocks = 1;
    } else if (rung->number == 3) {
        block = n;
        blocks = 1;
    } else if (rung->number == 6) {
        const uint64_t resident = (uint64_t)queue->info.multiprocessors *
                                  (unsigned)queue->info.threads_per_multiprocessor / block;
        blocks = blocks < resident ? blocks : resident;
    } else if (rung->number == 7) {
        const uint64_t vectors = ops_tuned(choice, OPS_TUNING_add_vectors);
        step->values[step->value_count++] = vectors;
        const uint64_t items = vectors * VECTOR / dtype_size(choice->signature->items) * block;
        blocks = ceil_div(n, items); /* at least one, for elements outside vectors */
    }
    if (block > BLOCK_MAX)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' has one block, of at most %d threads, and cannot process "
            "%llu elements; use variant='bounds'",
            rung->name, BLOCK_MAX, (unsigned long long)n);
    if (rung->number == 4 && n % block)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' requires a multiple of its block's %llu threads, not %llu "
            "elements; use variant='bounds', or a block that divides them",
            rung->name, (unsigned long long)block, (unsigned long long)n);
    if (blocks > GRID_MAX)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' cannot process %llu elements: a grid has at most %d blocks; "
            "use variant='grid-stride'",
            rung->name, (unsigned long long)n, GRID_MAX);
    step->grid[0] = (unsigned)blocks;
    step->block[0] = (unsigned)block;
    return STATUS_OK;
}
