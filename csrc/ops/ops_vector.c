/* ops_vector.c: plans add and saxpy: one launch of one rung. Inputs: x and y; numbers: elements,
 * and the factor as bits (unused by add). If an array is strided or broadcast, which the cpu and
 * rung 8 support, the number of axes follows, the last axis first, and for each its size and the
 * steps of x, y and the result, in elements.
 */
#include "../kernels/vector_plan.cuh"
#include "ops.h"

#include <stdlib.h>
#include <string.h>

#define fixed(name) ops_fixed(add, name)

enum {
    GRID_MAX = 0x7fffffff,
    BLOCK_MAX = 1024,
    VECTOR = 16,     /* bytes of a vector of rung 7 */
    SECTOR = 32,     /* bytes */
    TILE_BLOCKS = 2, /* tiles have as many times the block's threads */
};

enum { X, Y, OUT, ARRAYS, AXES = 2 /* index of their count in the numbers */ };

/* Rungs whose launches differ. */
enum { ONE_THREAD = 1, THREADS = 3, BLOCKS_THREADS = 4, GRID_STRIDE = 6, VECTORS = 7, STRIDED = 8 };

static int64_t step_of(const struct vector_axis *axis, int array) {
    return array == X ? axis->x : array == Y ? axis->y : axis->out;
}

/* How an operand's groups of VECTOR bytes lie; a number has no layout. */
static enum vector_layout layout_of(const struct vector_plan *plan, device_address address,
                                    int operand, int64_t items) {
    bool linear = true, packed = plan->axes[0].extent % (uint64_t)items == 0;
    for (unsigned axis = 0; axis < plan->axis_count; axis++) {
        const int64_t step = step_of(&plan->axes[axis], operand);
        linear = linear && step == plan->axes[axis].out;
        packed = packed && (axis ? step % items == 0 : step == 1);
    }
    return !address           ? VECTOR_NUMBER
           : address % VECTOR ? VECTOR_SEPARATE
           : linear           ? VECTOR_LINEAR
           : packed           ? VECTOR_PACKED
                              : VECTOR_SEPARATE;
}

static bool has_short_offsets(const struct vector_plan *plan) {
    return plan->x_low >= INT32_MIN && plan->y_low >= INT32_MIN && plan->x_high <= INT32_MAX &&
           plan->y_high <= INT32_MAX;
}

/* Whether vectors of the result pay: it is one aligned run, a vector has elements of at most two
 * planes, and wide elements that are read one by one are adjacent or repeat. */
static bool is_grouped(const struct ops_problem *problem, const struct vector_plan *plan,
                       uint64_t items) {
    const uint32_t layouts[] = {plan->x_layout, plan->y_layout};
    uint64_t dense = 1;
    if (problem->output % VECTOR || plan->n < items)
        return false;
    for (unsigned axis = 0; axis < plan->axis_count; axis++) {
        if (plan->axes[axis].out != (int64_t)dense)
            return false;
        dense *= plan->axes[axis].extent;
    }
    if (!has_short_offsets(plan))
        return false;
    if (plan->axis_count > 2 && plan->axes[0].extent * plan->axes[1].extent < items)
        return false;
    for (int k = X; k <= Y; k++) {
        const int64_t step = step_of(&plan->axes[0], k);
        if (layouts[k] == VECTOR_SEPARATE && step != 0 && step != 1 && items <= VECTOR / 4)
            return false;
    }
    return true;
}

/* The range of an operand's offsets, in elements. */
static void set_range(const struct vector_plan *plan, int operand, int64_t *low, int64_t *high) {
    *low = 0;
    *high = 1;
    for (unsigned k = 0; k < plan->axis_count; k++) {
        const int64_t last = (int64_t)(plan->axes[k].extent - 1) * step_of(&plan->axes[k], operand);
        *(last < 0 ? low : high) += last;
    }
}

/* Granlund and Montgomery, Division by invariant integers using multiplication, PLDI 1994. */
static void set_divisor(struct vector_axis *axis) {
    while (axis->shift < 31 && 1ull << axis->shift < axis->extent)
        axis->shift++;
    axis->magic = (uint32_t)((((1ull << axis->shift) - axis->extent) << 32) / axis->extent + 1);
}

/* The axis along which an operand's elements are nearest; 0 also for a number. */
static unsigned nearest_axis(const struct vector_plan *plan, int operand) {
    unsigned nearest = 0;
    for (unsigned axis = 1; axis < plan->axis_count; axis++) {
        const int64_t step = llabs(step_of(&plan->axes[axis], operand));
        if (step && step < llabs(step_of(&plan->axes[nearest], operand)))
            nearest = axis;
    }
    return nearest;
}

/* Places of an axis in a tile: at most these, evenly, in sectors. */
static uint32_t tile_of(uint64_t extent, uint64_t most, uint64_t sector) {
    const uint64_t even = ceil_div(extent, ceil_div(extent, most));
    return (uint32_t)(even < extent ? round_up(even, sector) : extent);
}

/* Plans tiles whose second axis is this one; returns the blocks. */
static uint64_t cut_tiles(const struct ops_queue *queue, struct vector_plan *plan, unsigned second,
                          size_t item) {
    const struct vector_axis moved = plan->axes[second];
    memmove(&plan->axes[2], &plan->axes[1], (second - 1) * sizeof moved);
    plan->axes[1] = moved;
    const uint64_t columns = plan->axes[0].extent, rows = plan->axes[1].extent;
    const uint64_t share =
        plan->n / fixed(tile_blocks) / (unsigned)max_u64(1, (unsigned)queue->info.multiprocessors);
    const uint64_t all = max_u64(min_u64(fixed(tile_bytes) / item, share), fixed(tile_least));
    uint64_t side = fixed(tile_side) / item, blocks = 1;
    while (side * side > all)
        side /= 2;
    const uint64_t down = min_u64(rows, all / min_u64(columns, side));
    plan->axes[0].tile = tile_of(columns, all / down, SECTOR / item);
    plan->axes[1].tile = tile_of(rows, down, SECTOR / item);
    for (unsigned k = 0; k < plan->axis_count; k++) {
        struct vector_axis *axis = &plan->axes[k];
        axis->tile = k < 2 ? axis->tile : 1;
        axis->tile_magic = (uint32_t)ceil_div(1ull << 32, axis->tile);
        axis->tiles = (uint32_t)ceil_div(axis->extent, axis->tile);
        blocks *= axis->tiles;
    }
    return blocks;
}

/* The axis along which tiles turn operands: one is nearest along it and not along the result's
 * innermost one, and not too few elements are on these two; 0: none. */
static unsigned turned_axis(struct vector_plan *plan, size_t item) {
    const unsigned nearest[] = {nearest_axis(plan, X), nearest_axis(plan, Y)};
    int64_t low, high;
    set_range(plan, OUT, &low, &high);
    if (item < VECTOR_TILED || plan->is_long || !has_short_offsets(plan) || low < INT32_MIN ||
        high > INT32_MAX)
        return 0;
    for (int k = X; k <= Y; k++) {
        const unsigned second = nearest[k];
        const uint64_t columns = plan->axes[0].extent;
        const bool adjoin = second == 1 || columns * item >= SECTOR; /* the rows */
        if (second && adjoin && columns * plan->axes[second].extent >= fixed(tile_least)) {
            plan->turns_x = nearest[X] == second;
            plan->turns_y = nearest[Y] == second;
            return second;
        }
    }
    return 0;
}

/* Fills in what a problem's numbers tell of the layouts. */
static void set_layouts(struct vector_plan *plan, const uint64_t *numbers, unsigned by_value) {
    const uint64_t *axes = numbers + AXES + 1;
    memset(plan, 0, sizeof *plan);
    plan->n = numbers[0];
    plan->axis_count = numbers[AXES] ? (uint32_t)numbers[AXES] : 1;
    plan->axes[0] = (struct vector_axis){.extent = plan->n, .x = 1, .y = 1, .out = 1};
    for (uint64_t k = 0; k < numbers[AXES]; k++, axes += 1 + ARRAYS)
        plan->axes[k] = (struct vector_axis){.extent = axes[0],
                                             .x = (int64_t)axes[1 + X],
                                             .y = (int64_t)axes[1 + Y],
                                             .out = (int64_t)axes[1 + OUT]};
    plan->is_long = plan->n > INT32_MAX;
    for (uint32_t k = 0; k < plan->axis_count; k++) {
        plan->axes[k].x = by_value & 1u << X ? 0 : plan->axes[k].x;
        plan->axes[k].y = by_value & 1u << Y ? 0 : plan->axes[k].y;
        if (!plan->is_long)
            set_divisor(&plan->axes[k]);
    }
    set_range(plan, X, &plan->x_low, &plan->x_high);
    set_range(plan, Y, &plan->y_low, &plan->y_high);
}

unsigned ops_vector_turned(size_t item, const uint64_t *numbers) {
    struct vector_plan plan;
    if (numbers[AXES] > VECTOR_AXES)
        return 0;
    set_layouts(&plan, numbers, 0);
    return turned_axis(&plan, item) ? plan.turns_x << X | plan.turns_y << Y : 0;
}

static enum status plan_strided(const struct ops_queue *queue, const struct ops_choice *choice,
                                const struct ops_problem *problem, unsigned block,
                                struct ops_plan *whole) {
    struct vector_plan *plan = (struct vector_plan *)whole->wide;
    struct ops_step *step = &whole->steps[0];
    const size_t item = dtype_size(choice->signature->items);
    const uint64_t n = problem->numbers[0], items = VECTOR / item;
    set_layouts(plan, problem->numbers, problem->by_value);
    plan->x_number = problem->values[X];
    plan->y_number = problem->values[Y];
    plan->x_layout = layout_of(plan, problem->inputs[X], X, (int64_t)items);
    plan->y_layout = layout_of(plan, problem->inputs[Y], Y, (int64_t)items);
    const unsigned second = choice->any_block ? turned_axis(plan, item) : 0;
    uint64_t blocks = second ? cut_tiles(queue, plan, second, item) : 0;
    if (blocks) {
        block *= TILE_BLOCKS;
        step->shared_bytes = (plan->turns_x + plan->turns_y) * plan->axes[0].tile *
                             (plan->axes[1].tile | 1) * (unsigned)item;
    } else {
        plan->is_grouped = !plan->is_long && is_grouped(problem, plan, items);
        for (uint64_t end = plan->axes[0].extent; end <= 32; end += plan->axes[0].extent)
            plan->row_ends |= 1u << (end - 1);
        blocks = ceil_div(plan->is_grouped ? n / items + n % items
                          : plan->is_long  ? n
                                           : ceil_div(n, min_u64(items, VECTOR_ITEMS)),
                          block);
    }
    if (blocks > GRID_MAX)
        return status_fail(STATUS_UNFIT, "x, y: %llu elements are too many for strided arrays",
                           (unsigned long long)n);
    step->takes_wide = true;
    step->grid[0] = (unsigned)blocks;
    step->block[0] = block;
    return STATUS_OK;
}

/* The grid of a rung for contiguous arrays. */
static enum status plan_grid(const struct ops_queue *queue, const struct ops_choice *choice,
                             const struct reg_rung *rung, uint64_t n, struct ops_step *step) {
    uint64_t block = choice->block, blocks = ceil_div(n, block ? block : 1);
    if (rung->number == ONE_THREAD) {
        blocks = 1;
    } else if (rung->number == THREADS) {
        block = n;
        blocks = 1;
    } else if (rung->number == GRID_STRIDE) {
        const uint64_t resident = (uint64_t)queue->info.multiprocessors *
                                  (unsigned)queue->info.threads_per_multiprocessor / block;
        blocks = blocks < resident ? blocks : resident;
    } else if (rung->number == VECTORS) {
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
    if (rung->number == BLOCKS_THREADS && n % block)
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
        return plan_strided(queue, choice, problem, choice->block, plan);
    if (strided)
        return status_fail(STATUS_UNFIT,
                           "variant: rung '%s' requires contiguous arrays of one shape; use "
                           "variant='strided'",
                           rung->name);
    return plan_grid(queue, choice, rung, n, step);
}
