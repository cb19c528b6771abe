/* ops_stencil1d.c: plans a stencil: one launch of one rung. Inputs: the array and the weights (none
 * for a plain sum); numbers: elements of a row, outputs of a row, the middle input of output 0,
 * inputs of its window before that one, mode, the constant beyond the ends as bits of the
 * accumulator's type, rows, inputs of a window, elements between rows, elements between inputs,
 * columns: adjacent elements that are rows of their own. From bit 48 of the mode on stands how
 * elements in memory are narrower than the kernel's. Only rungs 3 and 5 read rows with gaps, and
 * only rung 5 columns and narrow elements. Knows no device.
 */
#include "../kernels/stencil1d_plan.cuh"
#include "ops.h"

#include <string.h>

#define fixed(name) ops_fixed(stencil1d, name)

enum {
    GRID_MAX = 0x7fffffff, /* blocks in x */
    NUMBERS = 11,
    MODE = 4,    /* index of the mode in numbers */
    WEIGHTS = 1, /* of the weights among a step's values */
    /* as in stencil1d.cu: */
    VECTOR = 16,        /* bytes */
    SECTOR = 32,        /* bytes that the GPU reads at once */
    PIECE = 1024,       /* inputs of a window in shared memory at a time */
    GROUP = 15,         /* outputs of a thread of rung 5 */
    VECTOR_OUTPUTS = 4, /* outputs of a thread of rung 4 */
    SHORT_BLOCKS = 8,   /* blocks per multiprocessor, for short rows */
    SHORT_ITEM = 4,     /* bytes of an element of such a tile; fewer elements if they are wider */
    SHORT_PITCH = 1 << 27, /* elements between such rows, whose bytes are counted in 31 bits */
    SHORT_ITEMS = 512,     /* elements of such a row, at most */
    SHORT_BYTES = 40960,   /* of shared memory for them, at most: five blocks at once on an H200 */
    FEW = STENCIL1D_FEW_GROUP,
    PART_BLOCK = 1024, /* outputs of a block of parts */
};

struct shape {
    uint64_t n, outputs, first, before, rows, width, pitch, step, inner;
    size_t item, accumulator; /* bytes */
    bool sum, gaps, narrow;   /* gaps: between elements, or between rows */
    bool wraps;
};

static struct shape shape_of(const struct ops_choice *choice, const struct ops_problem *problem) {
    const uint64_t *numbers = problem->numbers;
    return (struct shape){
        .n = numbers[0],
        .outputs = numbers[1],
        .first = numbers[2],
        .before = numbers[3],
        .rows = numbers[6],
        .width = numbers[7],
        .pitch = numbers[8],
        .step = numbers[9],
        .inner = numbers[10],
        .gaps = numbers[8] != numbers[0] || numbers[9] != 1,
        .wraps = (uint32_t)numbers[MODE] == STENCIL1D_WRAP,
        .narrow = numbers[MODE] >> (32 + STENCIL1D_NARROW) != 0,
        .item = dtype_size(choice->signature->items),
        .accumulator = dtype_size(choice->signature->accumulator),
        .sum = strcmp(choice->signature->op, "sum") == 0,
    };
}

/* Blocks of tiles of `tile` outputs through shared memory; tile_of_rows in stencil1d.cu lays rows
 * out likewise. */
static uint64_t tiles(const struct shape *shape, uint64_t tile) {
    const uint64_t whole = ceil_div(shape->outputs, tile);
    if (shape->rows == 1)
        return whole;
    const uint64_t pitch = shape->outputs + shape->width - 1;
    if (whole * tile <= pitch)
        return whole * shape->rows;
    return ceil_div(shape->rows * pitch - (shape->width - 1), tile);
}

/* Shared memory of a block of rung 5: its inputs in whole groups, and two sets of the groups' sums
 * or the weights. Tiles of FEW outputs of a thread need less. */
static uint64_t tile_bytes(const struct shape *shape, unsigned block) {
    const uint64_t groups = block + ceil_div(shape->width - 1, GROUP);
    const uint64_t weights = shape->sum ? 0 : shape->width;
    const uint64_t numbers = shape->sum && shape->width >= GROUP ? 2 * groups : weights;
    const uint64_t number_bytes = round_up(numbers * shape->accumulator, VECTOR);
    const uint64_t inputs = round_up(groups * GROUP * shape->item, VECTOR);
    return number_bytes + inputs + VECTOR; /* the first input may have any offset in its vector */
}

/* The same for short rows: a set of weights for each group of outputs, of which those share one
 * whose windows lie within the row, as in stencil1d_short_rows.cuh; the inputs that each group
 * meets, and tiles of inputs and of outputs. */
static uint64_t short_bytes(const struct shape *shape, unsigned block) {
    enum { SIDE = STENCIL1D_SHORT_SIDE };
    const uint64_t groups = ceil_div(shape->outputs, SIDE), met = shape->width + SIDE - 1;
    const bool inside = shape->before < shape->width && shape->outputs <= shape->n &&
                        shape->first <= shape->n - shape->outputs; /* the middle inputs */
    const uint64_t depth = (inside && !shape->wraps ? min_u64(shape->n, met) : shape->n) | 1;
    const uint64_t sets = inside ? min_u64(groups, ceil_div(met, SIDE) + 3) : groups;
    const uint64_t tile = (uint64_t)block * GROUP * SHORT_ITEM;
    return sets * (depth + 1) * SIDE * shape->accumulator +
           round_up(groups * sizeof(uint32_t), VECTOR) + tile +
           max_u64(tile, shape->width * shape->accumulator);
}
/* Rows of a tile of those. */
static uint64_t short_lines(const struct shape *shape, unsigned block) {
    return (uint64_t)block * GROUP * SHORT_ITEM / shape->item /
           (max_u64(shape->n, shape->outputs) | 1);
}
static bool has_short_rows(const struct ops_queue *queue, const struct shape *shape,
                           unsigned block) {
    const uint64_t few = fixed(few_short) * (uint64_t)queue->info.multiprocessors;
    const uint64_t most = max_u64(shape->n, shape->outputs), window = shape->width * shape->item;
    /* Outputs near an end meet a whole row's inputs if those repeat. */
    const bool is_short = most <= fixed(short_row) &&
                          (!shape->wraps || most <= shape->width || most <= fixed(wrapped_row));
    const bool is_middle = most * shape->item <= fixed(middle_row) && !shape->wraps &&
                           window <= fixed(middle_window) / (shape->sum ? 2 : 1);
    return shape->inner == 1 && (is_short || is_middle) && shape->rows > 1 &&
           tiles(shape, (uint64_t)block * FEW) > few && shape->pitch < SHORT_PITCH &&
           shape->step < SHORT_PITCH / SHORT_ITEMS &&
           shape->width <= 2 * fixed(widest_radius) + 1 &&
           short_bytes(shape, block) <=
               min_u64(SHORT_BYTES, (uint64_t)queue->info.shared_per_block);
}

/* Whether a vector of outputs and that of their middle inputs are both aligned, and all middle
 * inputs within the row. */
static bool is_aligned(const struct shape *shape, const struct ops_problem *problem) {
    const bool same_numbers = shape->rows == 1 || shape->outputs == shape->n;
    const bool within = shape->first <= shape->n - shape->outputs && shape->outputs <= shape->n;
    return same_numbers && within && !shape->gaps &&
           (problem->inputs[0] + shape->first * shape->item) % VECTOR == 0 &&
           problem->output % VECTOR == 0;
}

/* The rung whose kernel runs: rungs 4 and 5 fall back to lower ones for unsuitable problems. */
static const struct reg_rung *serving(const struct ops_queue *queue,
                                      const struct ops_choice *choice, const struct shape *shape,
                                      const struct ops_problem *problem) {
    const struct reg_rung *rung = choice->rung;
    if (rung->number < 4 || rung->flags & RUNG_HOST || shape->inner > 1 || shape->narrow)
        return rung;
    const bool is_short = rung->number == 5 && has_short_rows(queue, shape, choice->block);
    const bool narrow = shape->width <= 2 * fixed(vector_radius) + 1;
    /* Outputs of a thread that two rows share are computed one by one, while its warp waits
     * (TUNING.md S11). */
    const bool shared =
        shape->rows > 1 && shape->outputs % VECTOR_OUTPUTS != 0 &&
        (shape->n * shape->item < fixed(shared_row) * shape->width || shape->n >= fixed(tile_row));
    if (narrow && shape->width == 2 * shape->before + 1 && is_aligned(shape, problem) &&
        (rung->number == 4 || !shared) && (!is_short || shape->n > shape->width))
        return ops_rung(choice->family, 4);
    if (is_short)
        return rung;
    /* Rung 3 needs fewer instructions than tiles for narrow plain windows in rows of middle length:
     * in shorter ones its threads wait for those at the ends, the more the wider the window; and
     * for one row of int64 with the radius that it is compiled for. */
    const bool compiled = shape->rows == 1 && shape->width == 2 * STENCIL1D_DECK_RADIUS + 1 &&
                          choice->signature->accumulator == DTYPE_int64;
    const bool rows = shape->rows > 1 && shape->n < fixed(long_row) &&
                      shape->n * shape->item >= fixed(narrow_row) * shape->width;
    const bool fewer = shape->sum && narrow && !shape->gaps && (rows || compiled);
    if (rung->number == 5 && !fewer && shape->width <= 2 * fixed(widest_radius) + 1 &&
        tile_bytes(shape, choice->block) <= (uint64_t)queue->info.shared_per_block)
        return rung;
    return ops_rung(choice->family, 3);
}

/* The axis that is divided into parts, an output of each for a thread, and its extent; 0 if a
 * thread takes groups of adjacent outputs. Parts serve narrow elements, and narrow windows of few
 * or short columns: adjacent threads then have adjacent outputs (TUNING.md S15). */
static unsigned parts_of(const struct ops_queue *queue, const struct shape *shape, uint64_t *all) {
    const uint64_t enough = fixed(part_blocks) * (uint64_t)queue->info.multiprocessors;
    if (!shape->narrow && shape->rows * shape->outputs * shape->inner < enough * PART_BLOCK)
        return 0; /* groups load more inputs at once */
    const uint64_t least = STENCIL1D_GROUP * STENCIL1D_GROUP, inputs = shape->inner * shape->width;
    const bool wide = shape->item == 8;
    const bool few = inputs <= (wide ? fixed(part_inputs_wide) : fixed(part_inputs));
    const bool always = shape->narrow || shape->outputs <= STENCIL1D_GROUP / 2;
    const bool short_window = !wide && shape->width <= fixed(part_window);
    const bool column = inputs <= fixed(part_inputs_wide) && shape->inner * shape->item < SECTOR;
    if ((*all = shape->rows) >= least && (always || short_window || few))
        return STENCIL1D_ROW_PARTS;
    if ((*all = shape->outputs) >= least && (shape->narrow || column))
        return STENCIL1D_OUTPUT_PARTS;
    return (*all = shape->inner) >= least && always ? STENCIL1D_COLUMN_PARTS : 0;
}

/* Plans a launch for columns. A thread takes several groups of outputs, whose inputs overlap, if
 * the GPU has enough threads all the same. */
static enum stencil1d_form plan_columns(const struct ops_queue *queue, const struct shape *shape,
                                        unsigned block, struct ops_step *step, uint64_t *blocks) {
    const uint64_t enough = fixed(column_blocks) * (uint64_t)queue->info.multiprocessors;
    uint64_t all, groups = parts_of(queue, shape, &all);
    step->shared_bytes = (unsigned)(shape->width * shape->accumulator);
    if (groups) {
        const uint64_t others = shape->rows * shape->outputs * shape->inner / all;
        *blocks = ceil_div(others * ceil_div(all, STENCIL1D_GROUP), block);
        return STENCIL1D_COLUMNS | (enum stencil1d_form)(groups << STENCIL1D_GROUPS);
    }
    groups = 2 * fixed(column_groups);
    do {
        groups /= 2;
        const uint64_t runs = ceil_div(shape->outputs, STENCIL1D_GROUP * groups);
        *blocks = ceil_div(shape->rows * runs * shape->inner, block);
    } while (groups > 1 && *blocks < enough);
    return STENCIL1D_COLUMNS | (enum stencil1d_form)(groups << STENCIL1D_GROUPS);
}

enum status ops_stencil1d_plan(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    const struct shape shape = shape_of(choice, problem);
    struct ops_choice served = *choice;
    const struct reg_rung *rung = served.rung = serving(queue, choice, &shape, problem);
    const bool short_rows = rung->number == 5 && has_short_rows(queue, &shape, choice->block);
    if (short_rows || shape.inner > 1)
        served.signature = reg_signature(choice->family, rung, "weighted", choice->signature->items,
                                         choice->signature->accumulator);
    struct ops_step *step = &plan->steps[0];
    const enum status status = ops_step_on_arrays(queue, &served, problem, plan);
    for (unsigned i = 0; i < NUMBERS; i++)
        step->values[step->value_count++] = problem->numbers[i];
    if (status || rung->flags & RUNG_HOST)
        return status;
    if (shape.sum)
        step->values[WEIGHTS] = 0; /* all are 1 */

    const uint64_t tile = (uint64_t)choice->block * rung->items_per_thread;
    enum stencil1d_form form = STENCIL1D_OTHER;
    uint64_t blocks = rung->number == 2 || rung->number == 5
                          ? tiles(&shape, tile)
                          : ceil_div(shape.outputs * shape.rows, tile);
    if (rung->number == 5)
        step->shared_bytes = (unsigned)tile_bytes(&shape, choice->block);
    if (rung->number == 5 && (!shape.sum || shape.width <= fixed(few_sums)) &&
        blocks <= fixed(few_tiles) * (uint64_t)queue->info.multiprocessors) {
        form = STENCIL1D_FEW_TILES;
        blocks = tiles(&shape, (uint64_t)choice->block * FEW);
    }
    if (shape.inner > 1) {
        form = plan_columns(queue, &shape, choice->block, step, &blocks);
    } else if (short_rows) {
        form = STENCIL1D_SHORT_ROWS;
        blocks = min_u64(ceil_div(shape.rows, short_lines(&shape, choice->block)),
                         SHORT_BLOCKS * (uint64_t)queue->info.multiprocessors);
        step->shared_bytes = (unsigned)short_bytes(&shape, choice->block);
    } else if (rung->number == 2) {
        const bool nearly =
            shape.width == 2 * STENCIL1D_DECK_RADIUS + 1 && shape.rows == 1 && blocks > 3;
        const bool deck = nearly && choice->block == STENCIL1D_DECK_BLOCK && shape.first == 0;
        form = deck ? STENCIL1D_DECK : nearly ? STENCIL1D_NEARLY_DECK : STENCIL1D_OTHER;
        step->shared_bytes =
            (choice->block + (unsigned)(shape.width < PIECE ? shape.width : PIECE) - 1) *
            (unsigned)shape.item;
    }
    if (blocks > GRID_MAX)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' with block=%u cannot process %llu elements; use a larger "
            "block",
            rung->name, choice->block, (unsigned long long)(shape.outputs * shape.rows));
    step->grid[0] = (unsigned)blocks;
    step->block[0] = choice->block;
    step->values[step->value_count - NUMBERS + MODE] |= (uint64_t)form << 32;
    return STATUS_OK;
}
