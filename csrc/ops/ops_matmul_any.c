/* ops_matmul_any.c: plans products of any shape and layout on rungs 12 and 13 of matmul. Numbers:
 * rows, columns, k; then the count of the stack's axes plus 1, the steps of a along rows and k, of
 * b along k and columns, and for each axis its extent and the steps of a and b. Knows no device.
 */
#include "ops_matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT = 3, /* index in the numbers; 0 there: one product in C order */
    GRID_X = 0x7fffffff,
    WARP = 32,
    VECTOR = 16,     /* bytes */
    LINE = 128,      /* bytes */
    RESERVED = 1024, /* bytes of shared memory of a block that the system takes */
    SLICES_MOST = 512
};

/* Sizes of a block and of its threads' patches: see MATMUL_PATCHES. */
struct patch {
    unsigned threads, rows, columns, wide_rows, wide_columns, stages, resident;
};
static const struct patch patches[] = {
#define PATCH(...) {__VA_ARGS__},
    MATMUL_PATCHES(PATCH)
#undef PATCH
};
static struct patch patch_of(unsigned threads, uint64_t sum_bytes) {
    struct patch patch = patches[0];
    for (size_t i = 1; i < sizeof patches / sizeof *patches; i++)
        if (patches[i].threads == threads)
            patch = patches[i];
    if (sum_bytes == 8) {
        patch.rows = patch.wide_rows;
        patch.columns = patch.wide_columns;
    }
    return patch;
}

/* Tiles: threads, and logarithms of the patches from top to bottom and from left to right.
 * multiply_patches has bits for what a thread loads of a layer, and a tile has no more rows than a
 * block has threads. */
static const struct shape {
    unsigned threads, down_bits, across_bits;
} shapes[] = {{128, 4, 3}, {128, 3, 3}, {128, 4, 2}, {128, 4, 1},
              {256, 4, 3}, {256, 3, 3}, {256, 4, 2}, {256, 3, 2}};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static unsigned bits_of(unsigned power) {
    unsigned bits = 0;
    while (power >> (bits + 1))
        bits++;
    return bits;
}

/* The device and the elements, as the estimates need them. */
struct machine {
    double multiprocessors;
    uint64_t item, sum; /* bytes of an element, and of a sum */
    unsigned shared_most;
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static double greater(double a, double b) { return a > b ? a : b; }
static uint64_t distance(int64_t step) { return (uint64_t)llabs(step); }

bool ops_matmul_is_plain(const struct ops_problem *problem) { return problem->numbers[COUNT] == 0; }
size_t ops_matmul_numbers(const struct ops_problem *problem) {
    const uint64_t axes = problem->numbers[COUNT]; /* and 1 */
    return COUNT + 1 + (axes ? 1 + 3 * axes : 0);
}

static struct machine machine_of(const struct ops_queue *queue, const struct ops_choice *choice) {
    const int multiprocessors = queue->info.multiprocessors;
    return (struct machine){
        .multiprocessors = multiprocessors > 0 ? multiprocessors : 1,
        .item = dtype_size(choice->signature->items),
        .sum = dtype_size(choice->signature->accumulator),
        .shared_most = (unsigned)queue->info.shared_per_block,
    };
}

struct matmul_plan ops_matmul_described(const struct ops_problem *problem) {
    const uint64_t *numbers = problem->numbers, *steps = numbers + COUNT + 1;
    struct matmul_plan plan = {.m = numbers[0], .n = numbers[1], .k = numbers[2], .slices = 1};
    plan.chunk = plan.k ? plan.k : 1;
    plan.tiles = plan.across = 1;
    plan.c_row = (int64_t)plan.n;
    plan.c_column = 1;
    plan.outputs = plan.m * plan.n;
    if (ops_matmul_is_plain(problem)) {
        plan.a_row = (int64_t)plan.k;
        plan.b_k = (int64_t)plan.n;
        plan.a_k = plan.b_column = 1;
    } else {
        plan.a_row = (int64_t)steps[0];
        plan.a_k = (int64_t)steps[1];
        plan.b_k = (int64_t)steps[2];
        plan.b_column = (int64_t)steps[3];
        plan.axis_count = (uint32_t)(numbers[COUNT] - 1);
        steps += 4;
    }
    for (uint32_t axis = 0; axis < plan.axis_count; axis++, steps += 3) {
        plan.axes[axis] = (struct matmul_axis){steps[0], (int64_t)steps[1], (int64_t)steps[2]};
        plan.outputs *= steps[0];
    }
    return plan;
}

struct matmul_plan ops_matmul_swapped(const struct matmul_plan *given) {
    struct matmul_plan plan = *given;
    plan.m = given->n;
    plan.n = given->m;
    plan.a_row = given->b_column;
    plan.a_k = given->b_k;
    plan.b_k = given->a_k;
    plan.b_column = given->a_row;
    plan.c_row = given->c_column;
    plan.c_column = given->c_row;
    plan.is_swapped = !given->is_swapped;
    for (uint32_t axis = 0; axis < plan.axis_count; axis++) {
        plan.axes[axis].a = given->axes[axis].b;
        plan.axes[axis].b = given->axes[axis].a;
    }
    return plan;
}

uint64_t ops_matmul_products(const struct matmul_plan *plan) {
    return plan->m && plan->n ? plan->outputs / (plan->m * plan->n) : 0;
}

void ops_matmul_cut(struct matmul_plan *plan, uint64_t slices, uint64_t unit) {
    slices = least(slices ? slices : 1, SLICES_MOST);
    plan->chunk = plan->k ? ceil_div(ceil_div(plan->k, slices), unit) * unit : 1;
    plan->slices = plan->k ? (uint32_t)ceil_div(plan->k, plan->chunk) : 1;
}

/* Cycles to read the operands and to write the results, at least; of tiles; and to add slices. */
static double memory_cost(const struct machine *machine, const struct matmul_plan *plan) {
    double a = (double)plan->m * (double)plan->k, b = (double)plan->n * (double)plan->k;
    for (uint32_t axis = 0; axis < plan->axis_count; axis++) {
        a *= plan->axes[axis].a ? (double)plan->axes[axis].extent : 1;
        b *= plan->axes[axis].b ? (double)plan->axes[axis].extent : 1;
    }
    const double items = a + b + (double)plan->outputs;
    return items * (double)machine->item /
           (ops_fixed(matmul, bytes_per_cycle) * machine->multiprocessors);
}
static double tile_memory(const struct machine *machine, const struct matmul_plan *plan) {
    return ops_fixed(matmul, tile_memory) / 100.0 * memory_cost(machine, plan);
}
static double join_cost(const struct machine *machine, const struct matmul_plan *plan) {
    if (plan->slices == 1)
        return 0;
    const double bytes = 2.0 * plan->slices * (double)plan->outputs * (double)machine->sum *
                         ops_fixed(matmul, tile_memory) / 100.0;
    return ops_fixed(matmul, join_cycles) + ops_fixed(matmul, slice_cycles) * (double)plan->slices +
           bytes / (ops_fixed(matmul, bytes_per_cycle) * machine->multiprocessors);
}
double ops_matmul_passes_cost(const struct ops_queue *queue, const struct ops_choice *choice,
                              const struct matmul_plan *plan, double busy) {
    const struct machine machine = machine_of(queue, choice);
    return greater(busy, tile_memory(&machine, plan)) + join_cost(&machine, plan);
}
static double rounds_of(const struct machine *machine, double blocks, double resident) {
    return (double)(uint64_t)(blocks / (machine->multiprocessors * resident) + 1 - 1e-9);
}

static void keep_cheaper(struct matmul_way *best, const struct matmul_way *way) {
    if (way->blocks <= GRID_X && (!best->rung || way->cost < best->cost))
        *best = *way;
}

/* --- rung 12: the busiest multiprocessor's multiplications, or the latency of its layers */

/* Instructions of a thread that loads its part of a layer of an operand. */
static double loads(const struct machine *machine, unsigned threads, uint64_t side, int64_t side_by,
                    int64_t k_by, bool along_k, uint64_t deep) {
    const uint64_t wide = VECTOR / machine->sum;
    const int64_t inner = along_k ? k_by : side_by, outer = along_k ? side_by : k_by;
    const bool words = !along_k && inner == 1 && distance(outer) % wide == 0;
    const uint64_t unit = words ? wide : 1;
    return (double)ceil_div(side * deep, unit * threads) *
           (words ? ops_fixed(matmul, word_cycles) : ops_fixed(matmul, element_cycles));
}

/* Elements of a block's shared memory: the ring, or the sums of half of the teams, or a part of the
 * results that it stages. */
static uint64_t patch_items(const struct patch *patch, const struct matmul_plan *plan, bool turned,
                            uint64_t wide, uint64_t deep) {
    const uint64_t rows = (uint64_t)patch->rows << plan->down_bits,
                   columns = (uint64_t)patch->columns << plan->across_bits;
    const uint64_t ring = patch->stages * (rows + columns) * (deep + 1);
    const uint64_t sums = plan->team_bits ? patch->threads / 2 * patch->rows * patch->columns : 0;
    const uint64_t staged = turned ? (wide << plan->across_bits) * (rows + wide)
                                   : (wide << plan->down_bits) * (columns + wide);
    return most(most(ring, sums), staged);
}

static void try_patches(const struct machine *machine, const struct matmul_plan *given,
                        const struct shape *shape, uint64_t slices, struct matmul_way *best) {
    struct matmul_way way = {.rung = MATMUL_PATCHES_RUNG, .plan = *given};
    struct matmul_plan *plan = &way.plan;
    const struct patch patch = patch_of(shape->threads, machine->sum);
    const uint64_t rows = (uint64_t)patch.rows << shape->down_bits,
                   columns = (uint64_t)patch.columns << shape->across_bits;
    const uint64_t wide = VECTOR / machine->sum, steps = MATMUL_STEPS(machine->sum);
    plan->down_bits = shape->down_bits;
    plan->across_bits = shape->across_bits;
    plan->team_bits = bits_of(patch.threads) - shape->down_bits - shape->across_bits;
    const uint64_t deep = steps << plan->team_bits;
    ops_matmul_cut(plan, slices, deep);
    plan->across = ceil_div(plan->n, columns);
    plan->tiles = ceil_div(plan->m, rows) * plan->across;
    plan->a_along_k = distance(plan->a_k) <= distance(plan->a_row);
    plan->b_along_k = distance(plan->b_k) < distance(plan->b_column);
    plan->run_bits = (uint32_t)ops_fixed(matmul, run_bits);
    way.blocks = plan->tiles * plan->slices * ops_matmul_products(plan);
    way.threads = patch.threads;
    const bool turned = plan->c_row == 1 && plan->c_column != 1;
    way.shared_bytes = (unsigned)(patch_items(&patch, plan, turned, wide, deep) * machine->sum);
    const double layers = (double)ceil_div(least(plan->chunk, plan->k), deep);
    const double issued =
        (double)steps * ((machine->sum == 8 ? 2.0 : 1.0) * patch.rows * patch.columns +
                         (double)(patch.rows + patch.columns) / (double)wide) +
        loads(machine, patch.threads, rows, plan->a_row, plan->a_k, plan->a_along_k, deep) +
        loads(machine, patch.threads, columns, plan->b_column, plan->b_k, plan->b_along_k, deep);
    const double warps = patch.threads / WARP / 4.0; /* of a scheduler */
    const double bytes = (double)((rows + columns) * deep * machine->item);
    const double layer = greater(warps * (issued + ops_fixed(matmul, barrier_cycles)),
                                 bytes / ops_fixed(matmul, cache_bytes_per_cycle));
    const uint64_t unit = (turned ? plan->m : plan->n) % wide ? 1 : wide;
    const double joins = plan->k > steps ? plan->team_bits * patch.rows * patch.columns / 16.0 : 0;
    const double stores =
        (double)(rows * columns) / (double)(4 * WARP * unit) * ops_fixed(matmul, store_cycles) +
        joins * ops_fixed(matmul, team_cycles);
    const double busy = rounds_of(machine, (double)way.blocks, 1) *
                        (ops_fixed(matmul, tile_cycles) + layers * layer + stores);
    const uint64_t fitting =
        (machine->shared_most + RESERVED) / (way.shared_bytes + RESERVED); /* in a multiprocessor */
    const double resident = (double)least(patch.resident, most(fitting, 1));
    const double latency = ops_fixed(matmul, latency_cycles) / (patch.stages - 1);
    const double waits = rounds_of(machine, (double)way.blocks, resident) *
                         (ops_fixed(matmul, patch_cycles) + stores +
                          layers * (greater(latency, layer) + ops_fixed(matmul, layer_cycles)));
    const bool narrow = plan->a_along_k && patch.threads < MATMUL_THREADS;
    const double memory =
        tile_memory(machine, plan) * (narrow ? ops_fixed(matmul, narrow_memory) / 100.0 : 1);
    way.cost = greater(greater(busy, waits), memory) + join_cost(machine, plan);
    if (way.shared_bytes > machine->shared_most)
        way.cost = INFINITY; /* if no shape fits, the launch is refused, with both sizes */
    keep_cheaper(best, &way);
}

/* A sweep names a shape, or the slices; 0: all of them. */
static void try_all_patches(const struct machine *machine, const struct ops_choice *choice,
                            const struct matmul_plan *given, struct matmul_way *best) {
    const struct matmul_plan plan = given->m < given->n ? ops_matmul_swapped(given) : *given;
    const uint64_t shape = ops_tuned(choice, OPS_TUNING_matmul_patch_shape);
    const uint64_t named = ops_tuned(choice, OPS_TUNING_matmul_slices);
    for (uint64_t i = shape ? shape - 1 : 0; i < (shape ? shape : SHAPES); i++) {
        const struct patch patch = patch_of(shapes[i].threads, machine->sum);
        const uint64_t rows = (uint64_t)patch.rows << shapes[i].down_bits,
                       columns = (uint64_t)patch.columns << shapes[i].across_bits;
        const double blocks = (double)ceil_div(plan.m, rows) * (double)ceil_div(plan.n, columns) *
                              (double)ops_matmul_products(&plan);
        try_patches(machine, &plan, &shapes[i], named ? named : 1, best);
        for (int each = 1; each <= 2 && !named; each++) {
            const double slices = each * machine->multiprocessors / blocks;
            if (slices >= 2)
                try_patches(machine, &plan, &shapes[i], (uint64_t)slices, best);
        }
    }
}

/* --- rung 13 */

/* Blocks that a multiprocessor has registers for. */
static double resident_of(const struct machine *machine) { return machine->sum == 8 ? 2 : 3; }

/* Factor on the memory's time, which the last blocks cannot keep busy where they are few. */
static double tail_of(const struct machine *machine, double blocks) {
    const double at_once = machine->multiprocessors * resident_of(machine),
                 least = machine->multiprocessors * ops_fixed(matmul, busy_blocks) / 100.0,
                 full = (double)(uint64_t)(blocks / at_once) * at_once, rest = blocks - full;
    return (full + (rest > 0 ? greater(rest, least) : 0)) / blocks;
}

/* Few columns of b, and rows of a that are adjacent. `teams`: of a block, a power of two; `aim`:
 * blocks of a multiprocessor, for slices. */
static void try_columns(const struct machine *machine, const struct matmul_plan *given,
                        unsigned teams, uint64_t named, double aim, struct matmul_way *best) {
    enum { COLUMNS_MOST = 32 };
    struct matmul_way way = {.rung = MATMUL_DOTS_RUNG,
                             .mode = MATMUL_COLUMNS,
                             .threads = MATMUL_THREADS,
                             .plan = given->n <= given->m ? *given : ops_matmul_swapped(given)};
    struct matmul_plan *plan = &way.plan;
    const uint64_t rows = WARP * (VECTOR / machine->item),
                   members = MATMUL_THREADS / WARP / teams, /* warps of a team */
        columns = plan->n == 1 ? 1 : MATMUL_COLUMNS_OF(machine->item);
    if (!plan->n || plan->n > (plan->m < rows ? 1 : COLUMNS_MOST) || plan->a_row != 1 ||
        (plan->n == 1 && teams > 1))
        return;
    plan->across = ceil_div(plan->n, columns);
    plan->tiles = ceil_div(plan->m, rows * teams) * plan->across;
    plan->team_bits = bits_of(teams);
    plan->lane_bits = plan->m < WARP ? bits_of((unsigned)(2 * plan->m - 1)) : bits_of(WARP);
    const double blocks = (double)plan->tiles * (double)ops_matmul_products(plan);
    const uint64_t wanted = named ? named : (uint64_t)(aim * machine->multiprocessors / blocks);
    ops_matmul_cut(
        plan, named ? named : least(wanted, ceil_div(plan->k, ops_fixed(matmul, steps) * members)),
        members);
    way.blocks = plan->tiles * plan->slices * ops_matmul_products(plan);
    const uint64_t sums = MATMUL_THREADS / WARP * least(plan->n, columns) *
                          (rows + MATMUL_COLUMNS_PADDING) * machine->sum,
                   staged = plan->n == 1 ? 0 : MATMUL_COLUMNS_STEPS * columns * machine->item;
    way.shared_bytes = (unsigned)most(sums, staged);
    const double count = (double)way.blocks, chunk = (double)plan->chunk;
    double busy = 0, start = ops_fixed(matmul, dot_start), memory = memory_cost(machine, plan),
           loads = chunk / (double)(ops_fixed(matmul, steps) * members);
    if (plan->n > 1) {
        start = ops_fixed(matmul, column_start);
        loads *= 2;
        memory *= ops_fixed(matmul, column_memory) / 100.0;
        const double steps = chunk * ops_fixed(matmul, column_cycles) * (machine->sum == 8 ? 2 : 1),
                     results = (double)(ops_fixed(matmul, column_results) * teams *
                                        least(plan->n, columns));
        busy = rounds_of(machine, count, 1) * teams * steps +
               count / machine->multiprocessors * (ops_fixed(matmul, column_block) + results);
    } else if (plan->m > WARP && (plan->m < rows || distance(plan->a_k) % (VECTOR / machine->item)))
        loads *= 2; /* not by vectors */
    const double waits = rounds_of(machine, count, resident_of(machine)) *
                         (start + loads * ops_fixed(matmul, load_cycles));
    way.cost =
        greater(greater(waits, busy), memory * tail_of(machine, count)) + join_cost(machine, plan);
    if (way.shared_bytes <= machine->shared_most)
        keep_cheaper(best, &way);
}

/* Passes of the first-level cache that a warp's load needs. */
static double wavefronts(int64_t step) {
    return distance(step) >= WARP ? WARP : distance(step) ? (double)distance(step) : 1;
}

/* Elements from an operand's first to its last, at most, where its sides are `side_by` apart. */
static uint64_t reach_of(uint64_t sides, int64_t side_by, const struct matmul_plan *plan,
                         bool is_a) {
    uint64_t reach = sides * distance(side_by) + plan->k * distance(is_a ? plan->a_k : plan->b_k);
    for (uint32_t axis = 0; axis < plan->axis_count; axis++)
        reach += plan->axes[axis].extent * distance(is_a ? plan->axes[axis].a : plan->axes[axis].b);
    return reach;
}

/* Cycles of the first-level cache for a warp's load of elements from `sides` places, `step` apart:
 * for its lines, or for the places in one bank of 4 bytes, of which there are 32. */
static double passes_of(const struct machine *machine, double sides, int64_t step) {
    const uint64_t pitch = distance(step) * machine->item;
    const double lines = 1 + (sides - 1) * (double)least(pitch, LINE) / LINE;
    const double places = sides * (double)least(pitch & -pitch, LINE) / LINE;
    return greater(lines * ops_fixed(matmul, row_lines), places * ops_fixed(matmul, row_places)) /
           100.0;
}

/* Few steps of k, and few rows or columns: threads have rows of one column. */
static void try_rows(const struct machine *machine, const struct matmul_plan *given,
                     struct matmul_way *best) {
    enum { ROWS = MATMUL_ROWS_OF_THREAD, STEPS_MOST = 64, CACHE_MOST = 1 << 17 /* bytes */ };
    struct matmul_way way = {
        .rung = MATMUL_DOTS_RUNG, .mode = MATMUL_ROWS, .threads = MATMUL_THREADS, .plan = *given};
    struct matmul_plan *plan = &way.plan;
    const uint64_t rows = plan->n ? plan->outputs / plan->n : 0,
                   reach = most(reach_of(plan->m, plan->a_row, plan, true),
                                reach_of(plan->n, plan->b_column, plan, false));
    if (!rows || !plan->k || plan->k > STEPS_MOST || most(rows, reach) > INT32_MAX)
        return;
    plan->across = ceil_div(plan->n, MATMUL_THREADS);
    plan->width = (uint32_t)ceil_div(plan->n, plan->across);
    const uint64_t high = MATMUL_THREADS / plan->width * ROWS;
    plan->tiles = ceil_div(rows, high); /* of a column of tiles */
    way.blocks = plan->tiles * plan->across;
    const bool stacked = plan->axis_count != 0;
    const double warps = (double)ceil_div(MATMUL_THREADS / plan->width * plan->width, WARP);
    /* A warp begins anywhere in a row. */
    const double down = 1 + (WARP - 1) / (double)plan->width;
    /* Else the first-level cache loses lines that later steps of k read. */
    const bool fit = high * least(distance(plan->a_row) * machine->item, LINE) < CACHE_MOST;
    const double passes =
        (fit ? 1 : ops_fixed(matmul, row_misses) / 100.0) * ROWS *
            passes_of(machine, down, plan->a_row) +
        (stacked ? ROWS : 1) * passes_of(machine, (double)least(plan->width, WARP), plan->b_column);
    const double issued =
        (stacked ? ops_fixed(matmul, row_stack_steps) : ops_fixed(matmul, row_steps)) *
        (machine->sum == 8 ? ops_fixed(matmul, row_float64) / 100.0 : 1);
    const double setup =
        ops_fixed(matmul, row_cycles) + (stacked ? ops_fixed(matmul, row_stack_cycles) : 0);
    const double busy =
        rounds_of(machine, (double)way.blocks, 1) *
        (MATMUL_THREADS / WARP * setup + warps * (double)plan->k * greater(passes, issued));
    const double waits =
        rounds_of(machine, (double)way.blocks, resident_of(machine)) *
        (ops_fixed(matmul, row_start) + (stacked ? ops_fixed(matmul, row_stack_start) : 0) +
         (double)plan->k * ops_fixed(matmul, row_wait));
    const double memory = memory_cost(machine, plan) *
                          (machine->sum == 8 ? ops_fixed(matmul, row_memory64) / 100.0 : 1);
    way.cost = greater(greater(busy, waits), memory) + ops_fixed(matmul, row_launch);
    keep_cheaper(best, &way);
}

/* Few steps of k: a block stages all of them, and its stores are contiguous. */
static void try_outer(const struct machine *machine, const struct matmul_plan *given,
                      struct matmul_way *best) {
    enum { PADDING = 8, RESIDENT = 3, FMAS = 32, READS = 8, WARPS = 2 /* of a scheduler */ };
    struct matmul_way way = {
        .rung = MATMUL_DOTS_RUNG, .mode = MATMUL_OUTER, .threads = MATMUL_THREADS, .plan = *given};
    struct matmul_plan *plan = &way.plan;
    if (!plan->k || plan->k > 1u << MATMUL_OUTER_BITS)
        return;
    plan->lane_bits = bits_of((unsigned)(2 * plan->k - 1));
    plan->a_along_k = distance(plan->a_k) < distance(plan->a_row);
    plan->b_along_k = distance(plan->b_k) < distance(plan->b_column);
    plan->across = ceil_div(plan->n, MATMUL_OUTER_COLUMNS);
    plan->tiles = ceil_div(plan->m, MATMUL_OUTER_ROWS) * plan->across;
    way.blocks = plan->tiles * ops_matmul_products(plan);
    way.shared_bytes =
        (unsigned)(plan->k * (MATMUL_OUTER_ROWS + MATMUL_OUTER_COLUMNS + PADDING) * machine->sum);
    const double blocks = (double)way.blocks;
    const double issued = (double)plan->k * (FMAS * (machine->sum == 8 ? 2 : 1) + READS) +
                          ops_fixed(matmul, outer_cycles);
    const double busy = rounds_of(machine, blocks, 1) * WARPS * issued;
    const double waits = rounds_of(machine, blocks, RESIDENT) * ops_fixed(matmul, start_cycles);
    way.cost =
        greater(greater(busy, waits), memory_cost(machine, plan)) + ops_fixed(matmul, start_cycles);
    if (way.shared_bytes <= machine->shared_most)
        keep_cheaper(best, &way);
}

static void try_dots(const struct machine *machine, const struct matmul_plan *given,
                     unsigned lane_bits, uint64_t named, double aim, struct matmul_way *best) {
    struct matmul_way way = {
        .rung = MATMUL_DOTS_RUNG, .mode = MATMUL_DOTS, .threads = MATMUL_THREADS, .plan = *given};
    struct matmul_plan *plan = &way.plan;
    const uint64_t lanes = 1ull << lane_bits, outputs = plan->outputs;
    plan->lane_bits = lane_bits;
    plan->tiles = ceil_div(outputs << lane_bits, MATMUL_THREADS);
    const uint64_t wide = VECTOR / machine->item;
    const bool vectors = plan->a_k == 1 && plan->b_k == 1 &&
                         (plan->m == 1 || distance(plan->a_row) % wide == 0) &&
                         (plan->n == 1 || distance(plan->b_column) % wide == 0);
    const uint64_t unit = lanes * (vectors ? wide : 1);
    const uint64_t wanted =
        named ? named : (uint64_t)(aim * machine->multiprocessors / (double)plan->tiles);
    ops_matmul_cut(
        plan, named ? named : least(wanted, ceil_div(plan->k, ops_fixed(matmul, steps) * unit)),
        unit);
    way.blocks = plan->tiles * plan->slices;
    way.shared_bytes = (unsigned)(MATMUL_THREADS / WARP * machine->sum);
    const double rows = plan->n < WARP ? (double)ceil_div(WARP, plan->n) : 1; /* of a warp */
    const double lines = greater(rows * wavefronts(plan->a_row) / WARP, 1);
    const double a_passes = lane_bits ? wavefronts(plan->a_k) : lines;
    const double b_passes = lane_bits ? wavefronts(plan->b_k) : wavefronts(plan->b_column);
    const double products = (double)outputs * (double)plan->k / WARP;
    const double sums = (double)outputs * (double)lanes * plan->slices / WARP;
    const double busy = (products * ((a_passes + b_passes) * (double)machine->item / 4 +
                                     ops_fixed(matmul, dot_cycles) / (vectors ? 4.0 : 1.0)) +
                         sums) /
                        machine->multiprocessors;
    const double loads = (double)plan->chunk / (double)(ops_fixed(matmul, steps) * unit) + 1;
    const double single =
        vectors || plan->a_k != 1 || plan->b_k != 1 ? 1 : ops_fixed(matmul, dot_elements) / 100.0;
    const double waits =
        rounds_of(machine, (double)way.blocks, resident_of(machine)) *
        (ops_fixed(matmul, dot_start) + single * loads * ops_fixed(matmul, load_cycles));
    /* Warps share no loads. */
    const double read = lanes < WARP ? 0 : 2.0 * (double)outputs * (double)plan->k;
    const double cached = read * (double)machine->item /
                          (ops_fixed(matmul, cache_bytes_per_cycle) * machine->multiprocessors);
    way.cost = greater(greater(greater(busy, cached), waits),
                       memory_cost(machine, plan) *
                           greater(single, tail_of(machine, (double)way.blocks))) +
               join_cost(machine, plan);
    keep_cheaper(best, &way);
}

/* `lane_bits`: of a warp or of a block. */
static void try_quads(const struct machine *machine, const struct matmul_plan *given,
                      unsigned lane_bits, uint64_t named, double aim, struct matmul_way *best) {
    /* Instructions of a step of k, and of a group's sums. */
    enum { ISSUED = 67, OF_COLUMN = 25, SUMS = 64, SCHEDULERS = 4 };
    const bool is_swapped = given->m < given->n;
    struct matmul_way way = {.rung = MATMUL_DOTS_RUNG,
                             .mode = MATMUL_QUADS,
                             .threads = MATMUL_THREADS,
                             .plan = is_swapped ? ops_matmul_swapped(given) : *given};
    struct matmul_plan *plan = &way.plan;
    const bool is_column = plan->n == 1 && machine->item > 2;
    const uint64_t lanes = 1ull << lane_bits, steps = is_column && machine->item == 4 ? 4 : 2;
    const uint64_t down = ceil_div(plan->m, MATMUL_QUAD), products = ops_matmul_products(plan);
    plan->lane_bits = lane_bits;
    plan->across = ceil_div(plan->n, MATMUL_QUAD);
    if (!products || down > (UINT32_MAX >> lane_bits) / plan->across)
        return;
    plan->tiles = ceil_div((down * plan->across) << lane_bits, MATMUL_THREADS);
    const double quads = (double)(down * plan->across * products);
    const uint64_t wanted =
        (uint64_t)(aim * machine->multiprocessors / (double)(plan->tiles * products));
    ops_matmul_cut(plan, named ? named : least(wanted, ceil_div(plan->k, 2 * steps * lanes)),
                   lanes);
    way.blocks = plan->tiles * plan->slices * products;
    way.shared_bytes = (unsigned)(MATMUL_THREADS * machine->sum);
    const double passes = (double)least(plan->m, MATMUL_QUAD) * wavefronts(plan->a_k) +
                          (double)least(plan->n, MATMUL_QUAD) * wavefronts(plan->b_k);
    const double issued = (is_column ? OF_COLUMN : ISSUED) / (double)SCHEDULERS;
    const double busy = (quads * (double)plan->k / WARP * greater(passes, issued) +
                         quads * (double)lanes * plan->slices / WARP * SUMS / SCHEDULERS) /
                        machine->multiprocessors;
    const double loads = (double)plan->chunk / (double)(steps * lanes) + 1;
    const double waits = rounds_of(machine, (double)way.blocks, resident_of(machine)) *
                         (ops_fixed(matmul, dot_start) + loads * ops_fixed(matmul, load_cycles));
    way.cost = greater(greater(busy, waits),
                       memory_cost(machine, plan) * tail_of(machine, (double)way.blocks)) +
               join_cost(machine, plan);
    keep_cheaper(best, &way);
}

static void try_all_dots(const struct machine *machine, const struct ops_choice *choice,
                         const struct matmul_plan *plan, struct matmul_way *best) {
    enum { WARP_BITS = 5, GROUP_BITS = 3, ROWS_MODE = 9 };
    const uint64_t named = ops_tuned(choice, OPS_TUNING_matmul_dot_slices);
    const double resident = resident_of(machine), most = named ? 1 : 2 * resident;
    const uint64_t mode = ops_tuned(choice, OPS_TUNING_matmul_dot_mode);
    /* Blocks of a multiprocessor: up to one round, or two. */
    for (double aim = 1; aim <= most; aim += aim < resident ? 1 : resident) {
        for (unsigned bits = 0; bits < 4; bits++)
            if (mode == 0 || mode == (bits ? ROWS_MODE + bits : 1))
                try_columns(machine, plan, 1u << bits, named, aim, best);
        if (mode == 0 || mode == 3)
            try_dots(machine, plan, 0, named, aim, best);
        if (mode == 0 || mode == 4)
            try_dots(machine, plan, GROUP_BITS, named, aim, best);
        if (mode == 0 || mode == 5)
            try_dots(machine, plan, WARP_BITS, named, aim, best);
        if (mode == 0 || mode == 6)
            try_dots(machine, plan, bits_of(MATMUL_THREADS), named, aim, best);
        if (mode == 0 || mode == 7)
            try_quads(machine, plan, WARP_BITS, named, aim, best);
        if (mode == 0 || mode == 8)
            try_quads(machine, plan, bits_of(MATMUL_THREADS), named, aim, best);
    }
    if (mode == 0 || mode == 2)
        try_outer(machine, plan, best);
    if (mode == 0 || mode == ROWS_MODE)
        try_rows(machine, plan, best);
}

bool ops_matmul_way(const struct ops_queue *queue, const struct ops_choice *choice,
                    const struct ops_problem *problem, int rung, struct matmul_way *way) {
    const struct machine machine = machine_of(queue, choice);
    const struct matmul_plan plan = ops_matmul_described(problem);
    memset(way, 0, sizeof *way);
    if (rung != MATMUL_PATCHES_RUNG)
        try_all_dots(&machine, choice, &plan, way);
    if (rung != MATMUL_DOTS_RUNG)
        try_all_patches(&machine, choice, &plan, way);
    return way->rung != 0;
}

/* --- plans */

/* Logarithm of the groups that add the slices of one output: few for a thread to add, where
 * adjacent threads still have a sector of outputs. */
static unsigned join_bits(const struct matmul_plan *plan) {
    enum { SECTOR = 8, FEW = 4 };
    unsigned bits = 0;
    for (unsigned width = MATMUL_THREADS; width > 1; width /= 2, bits++)
        if (plan->slices >> bits <= FEW || (width <= SECTOR && width < 2 * plan->outputs))
            break;
    return bits;
}

enum status ops_matmul_add_join(struct ops_queue *queue, const struct ops_choice *choice,
                                struct ops_plan *plan) {
    struct matmul_plan *whole = (struct matmul_plan *)plan->wide;
    whole->join_bits = join_bits(whole);
    struct ops_step *step = &plan->steps[plan->step_count++];
    memset(step, 0, sizeof *step);
    memcpy(step->values, plan->steps[0].values, 3 * sizeof *step->values);
    step->values[3] = plan->scratch;
    step->values[4] = MATMUL_JOIN;
    step->value_count = 5;
    step->takes_wide = true;
    step->grid[0] =
        (unsigned)ceil_div(whole->outputs, (uint64_t)MATMUL_THREADS >> whole->join_bits);
    step->block[0] = MATMUL_THREADS;
    step->shared_bytes = (unsigned)(MATMUL_THREADS * dtype_size(choice->signature->accumulator));
    return ops_kernel(queue, ops_rung(choice->family, MATMUL_DOTS_RUNG), choice->signature,
                      MATMUL_THREADS, step);
}

enum status ops_matmul_plan_way(struct ops_queue *queue, const struct ops_choice *choice,
                                const struct ops_problem *problem, const struct matmul_way *way,
                                struct ops_plan *plan) {
    struct ops_choice served = *choice;
    struct ops_step *step = &plan->steps[0];
    served.rung = ops_rung(choice->family, way->rung);
    served.block = way->threads;
    enum status status = ops_step_on_arrays(queue, &served, problem, plan);
    if (!status && way->plan.slices > 1)
        status = ops_scratch(queue, plan,
                             way->plan.slices * way->plan.outputs *
                                 dtype_size(choice->signature->accumulator));
    memcpy(plan->wide, &way->plan, sizeof way->plan);
    step->values[step->value_count++] = plan->scratch;
    if (way->rung == MATMUL_DOTS_RUNG)
        step->values[step->value_count++] = way->mode;
    step->takes_wide = true;
    step->grid[0] = (unsigned)way->blocks;
    step->block[0] = way->threads;
    step->shared_bytes = way->shared_bytes;
    return !status && way->plan.slices > 1 ? ops_matmul_add_join(queue, &served, plan) : status;
}
