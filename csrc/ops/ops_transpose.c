/* ops_transpose.c: plans a transpose of any axes: one launch of one rung. Knows no device.
 *
 * numbers: the number of axes; the input's extents; and for each axis of the output its index in
 * the input. With STRIDED added to the first, the input's steps in elements follow, which fall from
 * axis to axis; the last is 1, but on the cpu, where `item_step` holds it, and for elements of at
 * least a word whose innermost axis does not stay innermost. Adjacent axes are merged; the result
 * is contiguous rows that stay whole, a batch of matrices whose rows may be strided, or runs of
 * memory too short for either.
 */
#include "ops_transpose.h"

#include <stdlib.h>
#include <string.h>

#define fixed(name) ops_fixed(transpose, name)

enum {
    TILE = 32, /* as in transpose.cu */
    GRID_Y = 65535,
    USUAL_CACHE = 50 << 20, /* bytes of L2, if a device does not tell */
    STRIDED = 256,          /* more than AXES_MAX */
    STRIDED_AXES_MAX = 42,
    NEAR = 4,        /* largest distance of elements with gaps that tiles gather */
    GAP_MOST = 1024, /* largest distance of elements with gaps that may be asked for, in bytes */
};

_Static_assert(sizeof(struct transpose_plan) <= OPS_WIDE_BYTES, "OPS_WIDE_BYTES");
_Static_assert((int)OPS_NUMBERS_MAX >= 1 + 2 * (int)AXES_MAX, "OPS_NUMBERS_MAX");
_Static_assert((int)OPS_NUMBERS_MAX >= 1 + 3 * (int)STRIDED_AXES_MAX, "OPS_NUMBERS_MAX");

/* --- axes */

static void find_steps(struct axes *axes) {
    uint64_t out = 1;
    axes->reach = 1;
    for (unsigned k = axes->count; k-- > 0;) {
        const unsigned axis = axes->output[k];
        axes->reach += (axes->extent[k] - 1) * axes->in[k];
        axes->out[axis] = out;
        out *= axes->extent[axis];
    }
    axes->items = out;
    axes->sparse = ops_transpose_sparse(axes);
}

/* Removes an axis: of extent 1, or merged into its neighbour. */
static void drop(struct axes *axes, unsigned axis) {
    unsigned kept = 0;
    for (unsigned position = 0; position < axes->count; position++)
        if (axes->output[position] != axis) {
            const unsigned other = axes->output[position];
            axes->output[kept++] = other - (other > axis);
        }
    axes->count--;
    for (unsigned k = axis; k < axes->count; k++) {
        axes->extent[k] = axes->extent[k + 1];
        axes->in[k] = axes->in[k + 1];
    }
}

static enum status read_axes(const uint64_t *numbers, struct axes *axes) {
    bool seen[AXES_MAX] = {false};
    const bool strided = numbers[0] >= STRIDED;
    axes->count = (unsigned)(strided ? numbers[0] - STRIDED : numbers[0]);
    if (axes->count > (strided ? STRIDED_AXES_MAX : AXES_MAX))
        return status_fail(STATUS_BAD_VALUE, "a: has more than %d dimensions", AXES_MAX);
    for (unsigned k = 0; k < axes->count; k++) {
        const uint64_t axis = numbers[1 + axes->count + k];
        if (axis >= axes->count || seen[axis])
            return status_fail(STATUS_BAD_VALUE, "axes: must be a permutation of %u axes",
                               axes->count);
        seen[axis] = true;
        axes->extent[k] = numbers[1 + k];
        axes->output[k] = (unsigned)axis;
    }
    uint64_t step = 1;
    for (unsigned k = axes->count; k-- > 0; step *= axes->extent[k])
        axes->in[k] = strided ? numbers[1 + 2 * axes->count + k] : step;
    for (unsigned k = axes->count; k-- > 0;)
        if (axes->extent[k] == 1)
            drop(axes, k);
    for (unsigned position = axes->count; position-- > 1;) {
        const unsigned axis = axes->output[position];
        if (axes->output[position - 1] + 1 == axis &&
            axes->in[axis - 1] == axes->in[axis] * axes->extent[axis]) {
            axes->extent[axis - 1] *= axes->extent[axis];
            axes->in[axis - 1] = axes->in[axis];
            drop(axes, axis);
        }
    }
    find_steps(axes);
    return STATUS_OK;
}

/* Whether a row of two elements may become one: those are adjacent, or near and may have gaps. */
static bool may_join(const struct axes *axes, unsigned last, bool gaps) {
    return !last || axes->in[last - 1] == 2 || (gaps && axes->in[last - 1] <= 2 * NEAR);
}

/* Uses the widest elements that rows, their distances and addresses are multiples of. */
static void widen(struct axes *axes, uint64_t addresses, bool gaps) {
    const unsigned last = axes->count - 1;
    if (!moves_rows(axes) || last_step(axes) != 1)
        return;
    uint64_t all = addresses | axes->extent[last] * axes->item;
    for (unsigned k = 0; k < last; k++)
        all |= axes->in[k] * axes->item;
    while (axes->item < VECTOR && all % (2 * axes->item) == 0 &&
           (axes->extent[last] > 2 || may_join(axes, last, gaps))) {
        axes->extent[last] /= 2;
        axes->item *= 2;
        for (unsigned k = 0; k < last; k++)
            axes->in[k] /= 2;
    }
    if (axes->extent[last] == 1)
        drop(axes, last);
    find_steps(axes);
}

/* --- tiles of a matrix; the other axes are a batch */

/* The sides of SQUARE and of phased_tile match transpose.cu. */
static uint64_t tile_rows(enum transpose_shape shape, bool in_place, size_t item) {
    if (in_place)
        return item == 1 ? 128 : item <= 4 ? 64 : 32;
    if (shape == TRANSPOSE_PHASED)
        return 256 / item;
    return TRANSPOSE_TILE_ROWS(item);
}
static uint64_t tile_columns(enum transpose_shape shape, bool in_place, size_t item) {
    if (in_place)
        return tile_rows(shape, true, item);
    if (shape == TRANSPOSE_PHASED)
        return item == 1 ? 124 : item == 2 ? 62 : 64;
    return TRANSPOSE_TILE_COLUMNS(item);
}

static uint64_t columns_of(const struct transpose_plan *plan, size_t item) {
    return plan->tile_columns
               ? plan->tile_columns
               : tile_columns((enum transpose_shape)plan->shape, plan->in_place, item);
}

/* Distance, in tiles, between two columns of tiles that are interleaved (see transpose.cu); 0:
 * none. */
static uint32_t columns_apart(const struct transpose_plan *plan, size_t item) {
    const uint64_t wide = columns_of(plan, item) * item;
    const uint64_t apart = fixed(slow_pitch) / 2 / wide;
    if (plan->in_place || plan->tile_columns || plan->in_pitch * item % fixed(slow_pitch) ||
        fixed(slow_pitch) / 2 % wide)
        return 0;
    return plan->columns * item % fixed(slow_pitch) ? 0 : (uint32_t)apart;
}

/* Rows of tiles in a strip, which is completed before the next: a matrix is one strip if a column
 * of tiles, read and written, leaves most of L2 to others (TUNING.md T6, T14; see transpose.cu). */
static uint32_t strip_of(const struct ops_queue *queue, const struct transpose_plan *plan,
                         uint64_t address, size_t item) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t wide = columns_of(plan, item) * item;
    const bool shares =
        shape != TRANSPOSE_ALIGNED || (address | plan->in_pitch * item | wide) % LINE;
    const uint64_t cache = queue->info.cache_bytes ? queue->info.cache_bytes : USUAL_CACHE;
    const uint64_t column = plan->rows * 2 * max_u64(wide, LINE); /* bytes */
    const uint32_t all = plan->all_row_tiles, least_rows = (all - 1) / GRID_Y + 1;
    const bool alone = plan->column_tiles == 1 && !plan->near_axes;
    if (plan->in_place || !shares || alone || column <= cache / fixed(cache_part))
        return all;
    if (plan->columns * item <= fixed(narrow))
        return least_rows > fixed(flat) ? least_rows : fixed(flat);
    return (all - 1) / ((all - 1) / fixed(strip) + 1) + 1;
}

/* Lists every axis but two in the output's order: consecutive blocks store to adjacent addresses.
 */
static void list_others(const struct axes *axes, unsigned a, unsigned b,
                        struct transpose_plan *plan) {
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (axis != a && axis != b)
            plan->axes[plan->grid_axes++] =
                (struct transpose_axis){axes->extent[axis], axes->in[axis], axes->out[axis]};
    }
}

/* Whether matrices along an axis share lines of the input. */
static bool shares_lines(const struct transpose_axis *axis, size_t item) {
    return axis->in * item < LINE;
}

/* Moves such axes to the grid's front: else L2 would lose those lines before the next matrix. */
static void order_axes(struct transpose_plan *plan, size_t item) {
    uint32_t near = 0;
    for (uint32_t k = 0; k < plan->grid_axes; k++) {
        const struct transpose_axis axis = plan->axes[k];
        if (!shares_lines(&axis, item))
            continue;
        memmove(plan->axes + near + 1, plan->axes + near, (k - near) * sizeof axis);
        plan->axes[near++] = axis;
    }
}

/* Counts the matrices' axes, from the first on, along which rows of the output adjoin or lines of
 * the input are shared: tiles of these come before the next column of tiles, if that one is not far
 * then (TUNING.md T19, T45). */
static uint32_t count_near(const struct transpose_plan *plan, size_t item, uint64_t strip) {
    uint64_t run = plan->rows;
    uint32_t near = 0;
    for (; near < plan->grid_axes; near++) {
        const struct transpose_axis *axis = &plan->axes[near];
        if (axis->out == run)
            run *= axis->extent;
        else if (!shares_lines(axis, item))
            break;
        strip *= axis->extent;
    }
    const bool narrow = plan->shape == TRANSPOSE_NARROW;
    return strip <= (narrow ? fixed(near_narrow_tiles) : fixed(near_tiles)) ? near : 0;
}

static void plan_matrix(const struct axes *axes, uint64_t addresses, struct transpose_plan *plan) {
    const unsigned column = axes->count - 1, row = axes->output[axes->count - 1];
    uint64_t all = addresses;
    *plan = (struct transpose_plan){
        .items = axes->items,
        .reach = axes->reach,
        .rows = axes->extent[row],
        .columns = axes->extent[column],
        .in_pitch = axes->in[row],
        .out_pitch = axes->out[column],
    };
    list_others(axes, column, row, plan);
    all |= (plan->rows | plan->columns | plan->in_pitch | plan->out_pitch) * axes->item;
    for (unsigned k = 0; k < plan->grid_axes; k++)
        all |= (plan->axes[k].in | plan->axes[k].out) * axes->item;
    plan->shape = all % VECTOR ? TRANSPOSE_PHASED : TRANSPOSE_ALIGNED;
}

/* Plans a copy of rows of the output, element by element if theirs do not adjoin in the input. */
static void plan_rows(const struct axes *axes, struct transpose_plan *plan) {
    const unsigned last = axes->count ? axes->output[axes->count - 1] : 0;
    *plan = (struct transpose_plan){.shape = TRANSPOSE_ROWS,
                                    .items = axes->items,
                                    .reach = axes->reach,
                                    .rows = 1,
                                    .columns = axes->count ? axes->extent[last] : 1,
                                    .item_step = axes->count ? (uint32_t)axes->in[last] : 1};
    plan->axes[0].extent = 1; /* if there is no other */
    list_others(axes, last, last, plan);
}

/* The blocks that copy rows; small arrays have several for each multiprocessor. */
static uint64_t row_blocks(const struct ops_queue *queue, size_t item, unsigned block,
                           struct transpose_plan *plan) {
    const uint64_t most = item == VECTOR ? TRANSPOSE_ROW_VECTORS : TRANSPOSE_ROW_ITEMS;
    const uint64_t share =
        ceil_div(plan->items, (uint64_t)queue->info.multiprocessors * block * fixed(row_blocks));
    plan->loads = (uint32_t)min_u64(share, most);
    if (item < WORD && plan->columns * item >= VECTOR && plan->item_step == 1)
        return ceil_div(plan->items, (uint64_t)TRANSPOSE_ROW_VECTORS * (VECTOR / item) * block);
    return ceil_div(plan->items, (uint64_t)plan->loads * block);
}

/* Whether input and output of each matrix coincide, and are square. */
static bool is_square_batch(const struct transpose_plan *plan) {
    for (unsigned k = 0; k < plan->grid_axes; k++)
        if (plan->axes[k].in != plan->axes[k].out)
            return false;
    return plan->rows == plan->columns && plan->in_pitch == plan->out_pitch;
}

/* Orders the tiles; returns the blocks of each strip, or 0 if they are too many. */
static uint64_t order_tiles(const struct ops_queue *queue, size_t item, uint64_t address,
                            struct transpose_plan *plan) {
    const uint64_t down = plan->all_row_tiles, across = plan->column_tiles;
    uint64_t matrices = 1;
    for (unsigned k = 0; k < plan->grid_axes; k++)
        matrices *= plan->axes[k].extent;
    if (down * across > GRID_X || matrices > GRID_X / (down * across))
        return 0;
    if (item >= WORD)
        order_axes(plan, item);
    plan->near_axes = plan->in_place ? 0 : count_near(plan, item, min_u64(down, fixed(flat)));
    plan->row_tiles = strip_of(queue, plan, address, item);
    plan->near_axes = plan->near_axes ? count_near(plan, item, plan->row_tiles) : 0;
    plan->apart = columns_apart(plan, item);
    return plan->row_tiles * across * matrices;
}

/* Whether elements of the matrices fill more than this number of eighths of the tiles. */
static bool fills(const struct transpose_plan *plan, size_t item, uint64_t eighths) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t tiles = (uint64_t)plan->all_row_tiles * plan->column_tiles;
    const uint64_t high = tile_rows(shape, plan->in_place, item), wide = columns_of(plan, item);
    return plan->rows * plan->columns > tiles * high * wide / 8 * eighths;
}

/* Blocks of each strip; 0 if they are too many, or have too many elements outside the matrix. */
static uint64_t count_tiles(const struct ops_queue *queue, size_t item, uint64_t address,
                            struct transpose_plan *plan) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t high = tile_rows(shape, plan->in_place, item);
    const uint64_t wide = tile_columns(shape, plan->in_place, item);
    /* A block of phased tiles begins up to a sector earlier. */
    const uint64_t lead = plan->in_place || shape == TRANSPOSE_ALIGNED ? 0 : SECTOR / item - 1;
    const uint64_t down = ceil_div(plan->rows + lead, high), across = ceil_div(plan->columns, wide);
    if (down > GRID_X || across > GRID_X)
        return 0;
    plan->all_row_tiles = (uint32_t)down;
    plan->column_tiles = (uint32_t)across;
    const uint64_t blocks = order_tiles(queue, item, address, plan);
    /* Other tiles move wide elements almost as fast as full ones, narrow ones not (TUNING.md T17,
     * T25). */
    const uint64_t eighths = item > WORD || (item == WORD && shape == TRANSPOSE_ALIGNED) ? 6 : 4;
    return fills(plan, item, eighths) || plan->in_place ? blocks : 0;
}

/* --- the rung that supports any axes */

/* Whether tiles of a matrix, which load 256 bytes of a row, fetch too much of gaps. */
static bool fetches_gaps(const struct axes *axes) { return axes->sparse && axes->sparse <= LINE; }

/* Whether tiles of a matrix are better than any wide ones, which store whole sectors where columns
 * of the output begin within one: L2 joins the parts of adjacent vectors, but not between strips,
 * nor all of them in large arrays; or than these (TUNING.md T25, T39, T49). */
static bool is_matrix_best(const struct axes *axes, const uint64_t *arrays,
                           const struct transpose_plan *matrix) {
    const bool joins = axes->item == VECTOR && axes->items * axes->item < fixed(large) &&
                       matrix->row_tiles == matrix->all_row_tiles;
    uint64_t out = arrays[1];
    for (unsigned position = 0; position + 1 < axes->count; position++)
        out |= axes->out[axes->output[position]] * axes->item;
    const uint64_t column = matrix->rows * axes->item;
    const bool sectors = column % SECTOR == 0 || !ops_transpose_compares(axes);
    if (fetches_gaps(axes))
        return false;
    return matrix->shape == TRANSPOSE_ALIGNED
               ? joins || out % SECTOR == 0
               : axes->item == WORD && column >= (sectors ? fixed(whole_most) : fixed(whole_parts));
}
static bool is_matrix_better(const struct axes *axes, const struct transpose_plan *matrix,
                             const struct transpose_plan *wide, uint64_t cost) {
    const bool phased = matrix->shape == TRANSPOSE_PHASED;
    if (fetches_gaps(axes))
        return false;
    if (cost >= fixed(wide_cost))
        return !phased || axes->item == WORD;
    return phased && axes->item == WORD && !wide->whole && matrix->rows * WORD >= LINE &&
           fills(matrix, axes->item, fixed(words_fill));
}

/* Whether packed tiles of this estimate are better than wide ones of a cost. */
static bool is_packed_better(uint64_t packed, uint64_t cost) {
    return packed < fixed(wide_halves) * cost / 2;
}

/* Whether narrow tiles are better than these of a matrix: if that is large and has many columns of
 * 2-byte elements, or fills those in part, but not narrow ones, as two rows of tiles may be hardly
 * more than one (TUNING.md T26, T36, T41, T46, T50). */
static bool is_narrow_better(const struct axes *axes, const struct transpose_plan *matrix,
                             const struct transpose_plan *narrow) {
    const uint64_t eighths = axes->item == 1 ? fixed(narrow_fill) : fixed(whole_fill);
    const uint64_t used = (uint64_t)narrow->tile_columns * axes->item * narrow->tile_height;
    /* All columns in one unit, or rows so far apart that longer pieces of them are better. */
    const bool one = narrow->unit_wide == LINE && !fills(matrix, axes->item, fixed(unit_fill));
    const bool far = axes->item > 1 && matrix->in_pitch * axes->item >= fixed(far_rows);
    const bool part = narrow->rows * narrow->columns * axes->item >= fixed(whole_matrix) &&
                      8 * used >= fixed(narrow_fill) * narrow->tile_bytes &&
                      !fills(matrix, axes->item, fixed(narrow_fill));
    if (matrix->shape == TRANSPOSE_PHASED && axes->items * axes->item >= fixed(narrow_large) &&
        (part || one || far || (axes->item > 1 && matrix->columns >= fixed(many_pairs))))
        return true;
    if (ops_transpose_runs(axes, narrow) && !fills(matrix, axes->item, eighths))
        return true;
    return matrix->all_row_tiles == 2 && !fills(matrix, axes->item, fixed(narrow_fill));
}

static unsigned shared_bytes(const struct transpose_plan *plan, size_t item) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t rows = tile_rows(shape, plan->in_place, item);
    const uint64_t columns = tile_columns(shape, plan->in_place, item);
    if (shape == TRANSPOSE_ROWS)
        return 0;
    if (shape == TRANSPOSE_PACKED || shape == TRANSPOSE_WIDE || shape == TRANSPOSE_NARROW)
        return plan->table_bytes + plan->tile_bytes;
    if (plan->in_place) /* two tiles, of vectors or of elements */
        return (unsigned)(2 * rows * (columns * item + VECTOR));
    if (shape == TRANSPOSE_PHASED)
        return (unsigned)((rows * item + SECTOR) / max_u64(item, 4) * max_u64(item, 4) *
                          (item == 1 ? 128 : 64));
    return (unsigned)(rows * (columns * item + VECTOR));
}

/* Finds the rung's kernel for another element size. */
static enum status widened_kernel(struct ops_queue *queue, const struct ops_choice *choice,
                                  size_t item, struct ops_step *step) {
    static const enum dtype words[] = {[1] = DTYPE_uint8,
                                       [2] = DTYPE_uint16,
                                       [4] = DTYPE_uint32,
                                       [8] = DTYPE_uint64,
                                       [16] = DTYPE_complex128};
    const enum dtype word = words[item];
    const struct reg_signature *signature =
        reg_signature(choice->family, choice->rung, choice->signature->op, word, word);
    return ops_kernel(queue, choice->rung, signature, choice->block, step);
}

/* Plans tiles of elements with gaps: wide or narrow ones, unless rows or columns are short
 * (TUNING.md T29, T31, T46); returns the blocks of a strip. */
static uint64_t plan_gaps(const struct ops_queue *queue, const struct axes *axes,
                          const uint64_t *arrays, struct transpose_plan *plan) {
    struct transpose_plan packed;
    const bool wide = axes->item >= WORD && !moves_rows(axes);
    bool is_short = true;
    uint64_t cost = 0;
    if (axes->item < WORD && !moves_rows(axes) && axes->items * axes->item >= fixed(large) &&
        ops_transpose_narrow(axes, arrays[0], queue->info.multiprocessors, plan)) {
        const uint64_t found = order_tiles(queue, axes->item, arrays[0], plan);
        if (found)
            return found;
    }
    if (wide) {
        cost = ops_transpose_wide(axes, arrays, queue->info.multiprocessors, plan);
        const uint64_t whole_least = axes->item == VECTOR ? SECTOR : 2 * SECTOR;
        is_short = plan->tile_rows * axes->item < (plan->whole ? whole_least : 4 * SECTOR);
    }
    const uint64_t other =
        is_short || ops_transpose_compares(axes)
            ? ops_transpose_pack(axes, arrays, queue->info.multiprocessors, &packed)
            : UINT64_MAX;
    if (is_short ? other < UINT64_MAX : is_packed_better(other, cost)) {
        *plan = packed;
        return plan->tiles;
    }
    return wide ? order_tiles(queue, axes->item, arrays[0], plan) : 0;
}

/* Whether elements may be moved one by one, unless in place. */
static bool may_gather(const struct ops_choice *choice, const struct axes *axes) {
    return choice->any_rung && axes->reach <= UINT32_MAX;
}

/* Replaces tiles of a matrix, or a copy of rows, by better tiles; returns the blocks of a strip. */
static uint64_t choose_tiles(const struct ops_queue *queue, const struct ops_choice *choice,
                             const struct axes *axes, const uint64_t *arrays,
                             struct transpose_plan *plan, uint64_t blocks) {
    struct transpose_plan wide = {.grid_axes = 0}, packed, narrow;
    uint64_t wide_blocks = 0;
    uint64_t cost = UINT64_MAX;
    if (axes->item < WORD && !moves_rows(axes) &&
        (!blocks || plan->shape == TRANSPOSE_PHASED ||
         !fills(plan, axes->item, fixed(whole_fill))) &&
        ops_transpose_narrow(axes, arrays[0], queue->info.multiprocessors, &narrow) &&
        (!blocks || is_narrow_better(axes, plan, &narrow))) {
        const uint64_t found = order_tiles(queue, axes->item, arrays[0], &narrow);
        if (found) {
            *plan = narrow;
            return found;
        }
    }
    if (axes->item >= WORD && !moves_rows(axes) &&
        !(blocks && is_matrix_best(axes, arrays, plan))) {
        cost = ops_transpose_wide(axes, arrays, queue->info.multiprocessors, &wide);
        wide_blocks = order_tiles(queue, axes->item, arrays[0], &wide);
        blocks = blocks && is_matrix_better(axes, plan, &wide, cost) ? blocks : 0;
    }
    const bool compares = ops_transpose_compares(axes);
    const bool wide_better = wide_blocks && ops_transpose_wide_better(axes, &wide, cost);
    if ((compares || !wide_better) && (!blocks || ops_transpose_short_rows(axes))) {
        const uint64_t other =
            ops_transpose_pack(axes, arrays, queue->info.multiprocessors, &packed);
        if (!wide_better && may_gather(choice, axes) && ops_transpose_in_order(axes) &&
            !(compares && axes->item == WORD && other < fixed(order_cost))) {
            plan_rows(axes, plan);
            return row_blocks(queue, axes->item, choice->block, plan);
        }
        if (wide_better ? is_packed_better(other, cost) : other < UINT64_MAX) {
            *plan = packed;
            return plan->tiles;
        }
    }
    if (blocks || !wide_blocks)
        return blocks;
    *plan = wide;
    return wide_blocks;
}

static enum status not_square(void) {
    return status_fail(STATUS_BAD_VALUE,
                       "out: only square matrices can be transposed in place; pass another array");
}

/* Whether packed tiles are better than copies of rows with gaps, as these are short. */
static bool is_short_row(const struct axes *axes) {
    const unsigned last = axes->count - 1;
    return ops_transpose_compares(axes) &&
           axes->extent[last] * axes->in[last] * axes->item <= fixed(short_row);
}

/* Plans the tiles, or the copy of rows, for arrays at two addresses; returns its blocks. */
static enum status find_tiles(const struct ops_queue *queue, const struct ops_choice *choice,
                              struct axes *axes, const uint64_t *arrays,
                              struct transpose_plan *plan, uint64_t *blocks) {
    const bool in_place = arrays[0] == arrays[1];
    uint64_t grid = 0;
    widen(axes, arrays[0] | arrays[1], true);
    if (axes->count == 0) { /* one element */
        axes->count = 1;
        axes->extent[0] = axes->in[0] = axes->out[0] = axes->items = axes->reach = 1;
        axes->output[0] = 0;
    }
    const bool gathers = !in_place && may_gather(choice, axes) && ops_transpose_gathers(axes);
    const bool gaps = last_step(axes) != 1;
    if (in_place && moves_rows(axes) && axes->count > 1)
        return not_square();
    const bool tiles = gaps && (axes->item < WORD || ops_transpose_late(axes, fixed(short_row)) ||
                                is_short_row(axes));
    if (gathers || (moves_rows(axes) && !tiles)) {
        plan_rows(axes, plan);
        grid = row_blocks(queue, axes->item, choice->block, plan);
    } else if (gaps) {
        grid = plan_gaps(queue, axes, arrays, plan);
    } else {
        plan_matrix(axes, arrays[0] | arrays[1], plan);
        plan->in_place = in_place;
        if (in_place && !is_square_batch(plan))
            return not_square();
        grid = count_tiles(queue, axes->item, arrays[0], plan);
    }
    if (!in_place && !gaps && !gathers)
        grid = choose_tiles(queue, choice, axes, arrays, plan, grid);
    plan->sparse =
        axes->sparse || (plan->shape == TRANSPOSE_ROWS && ops_transpose_late(axes, 4 * LINE));
    if (!grid)
        return status_fail(STATUS_BAD_VALUE, "axes: too many items, or axes, for one launch");
    *blocks = grid;
    return STATUS_OK;
}

/* A search for tiles takes longer than the rest of a small transpose's call: a queue keeps the last
 * plans, by hash. */
enum { KEPT_AXES = 8, KEPT_WORDS = 1 + 3 * KEPT_AXES };
struct ops_turns {
    struct turn {
        uint64_t key[KEPT_WORDS]; /* the first word is 0: none yet */
        uint64_t blocks, item;    /* bytes of an element that is moved */
        struct transpose_plan plan;
    } of[64];
};

/* The plan for these axes, kept or still to be found, with its key; NULL if none can be kept. */
static struct turn *kept_turn(struct ops_queue *queue, const struct ops_choice *choice,
                              const struct axes *axes, const uint64_t *arrays, bool *found) {
    uint64_t key[KEPT_WORDS] = {1 | (uint64_t)(arrays[0] == arrays[1]) << 1 |
                                (uint64_t)choice->any_rung << 2 | axes->count << 8 |
                                (uint64_t)axes->item << 16 | arrays[0] % LINE << 32 |
                                arrays[1] % LINE << 48};
    uint64_t hash = key[0];
    if (!queue->turns)
        queue->turns = calloc(1, sizeof *queue->turns);
    if (!queue->turns || axes->count > KEPT_AXES)
        return NULL;
    for (unsigned k = 0; k < axes->count; k++) {
        key[1 + 3 * k] = axes->extent[k];
        key[2 + 3 * k] = axes->in[k];
        key[3 + 3 * k] = axes->output[k];
        hash = (hash ^ axes->extent[k] ^ axes->in[k] << 20 ^ axes->output[k]) * 0x9e3779b97f4a7c15;
    }
    struct turn *turn = &queue->turns->of[hash >> 58];
    *found = memcmp(turn->key, key, sizeof key) == 0;
    memcpy(turn->key, key, sizeof key);
    return turn;
}

static enum status plan_any(struct ops_queue *queue, const struct ops_choice *choice,
                            struct axes *axes, struct ops_plan *whole) {
    struct ops_step *step = &whole->steps[0];
    struct transpose_plan *plan = (struct transpose_plan *)whole->wide;
    bool found = false;
    struct turn *turn = kept_turn(queue, choice, axes, step->values, &found);
    uint64_t blocks = 0;
    if (found) {
        *plan = turn->plan;
        blocks = turn->blocks;
        axes->item = turn->item;
    } else {
        const enum status status = find_tiles(queue, choice, axes, step->values, plan, &blocks);
        if (turn)
            turn->key[0] = status ? 0 : turn->key[0];
        if (status)
            return status;
        if (turn)
            turn->plan = *plan, turn->blocks = blocks, turn->item = axes->item;
    }
    const bool strips = plan->shape != TRANSPOSE_PACKED && plan->shape != TRANSPOSE_ROWS;
    step->takes_wide = true;
    step->block[0] = plan->shape == TRANSPOSE_PACKED ? plan->block : choice->block;
    step->grid[0] = (unsigned)blocks;
    step->grid[1] = strips ? (unsigned)ceil_div(plan->all_row_tiles, plan->row_tiles) : 1;
    step->shared_bytes = shared_bytes(plan, axes->item);
    return widened_kernel(queue, choice, axes->item, step);
}

/* --- the other rungs: one matrix, or a contiguous batch */

static enum status plan_host(struct ops_queue *queue, const struct ops_choice *choice,
                             struct axes *axes, struct ops_plan *whole) {
    struct transpose_plan *plan = (struct transpose_plan *)whole->wide;
    struct ops_step *step = &whole->steps[0];
    step->takes_wide = true;
    widen(axes, step->values[0] | step->values[1], false);
    if (axes->count == 0 || moves_rows(axes)) {
        plan_rows(axes, plan);
        return widened_kernel(queue, choice, axes->item, step);
    }
    plan_matrix(axes, 0, plan);
    plan->item_step = (uint32_t)last_step(axes);
    plan->in_place = step->values[0] == step->values[1];
    if (plan->in_place && !is_square_batch(plan))
        return not_square();
    return widened_kernel(queue, choice, axes->item, step);
}

static enum status plan_matrices(const struct ops_choice *choice, const struct axes *axes,
                                 struct ops_plan *whole) {
    const struct reg_rung *rung = choice->rung;
    struct ops_step *step = &whole->steps[0];
    const unsigned n = axes->count;
    /* A single column is a matrix too, and so is an element. */
    const bool batch = n == 3 && axes->output[0] == 0 && axes->output[1] == 2;
    const bool copies = rung->flags & RUNG_CEILING;
    if (!copies && n > 1 && !(n == 2 && axes->output[0] == 1) && !batch)
        return status_fail(STATUS_UNFIT,
                           "variant: rung '%s' transposes matrices and batches of them in C order; "
                           "these axes need variant='vector'",
                           rung->name);
    const uint64_t rows = copies || n < 2 ? axes->items : axes->extent[n - 2];
    const uint64_t columns = copies || n < 2 ? 1 : axes->extent[n - 1];
    const uint64_t batches = batch && !copies ? axes->extent[0] : 1;
    step->values[step->value_count++] = rows;
    step->values[step->value_count++] = columns;

    uint64_t x, y = 1;
    step->block[0] = choice->block;
    if (copies) {
        x = ceil_div(rows * axes->item, (uint64_t)choice->block * VECTOR);
    } else if (strcmp(rung->name, "1d") == 0) {
        x = ceil_div(rows, choice->block);
    } else {
        /* 2d and tex count blocks over the output, one element per thread; the others tiles of the
         * input */
        const bool tiled = rung->number > 3;
        step->block[0] = TILE;
        step->block[1] = choice->block / TILE;
        x = ceil_div(tiled ? columns : rows, TILE);
        y = ceil_div(tiled ? rows : columns, tiled ? TILE : choice->block / TILE);
    }
    const uint64_t layers = ceil_div(y, GRID_Y);
    if (x > GRID_X || layers > GRID_Y || batches > GRID_Y / layers)
        return status_fail(
            STATUS_UNFIT,
            "variant: rung '%s' with block=%u cannot process %llu x %llu x %llu elements; "
            "use variant='vector' or a larger block",
            rung->name, choice->block, (unsigned long long)batches, (unsigned long long)rows,
            (unsigned long long)columns);
    step->values[step->value_count++] = layers;
    step->grid[0] = (unsigned)x;
    step->grid[1] = (unsigned)(y < GRID_Y ? y : GRID_Y);
    step->grid[2] = (unsigned)(layers * batches);
    return STATUS_OK;
}

enum status ops_transpose_plan(struct ops_queue *queue, const struct ops_choice *choice,
                               const struct ops_problem *problem, struct ops_plan *plan) {
    const struct reg_rung *rung = choice->rung;
    struct axes axes = {.item = dtype_size(choice->signature->items)};
    enum status status = read_axes(problem->numbers, &axes);
    if (!status)
        status = ops_step_on_arrays(queue, choice, problem, plan);
    if (status)
        return status;
    const bool host = rung->flags & RUNG_HOST;
    const uint64_t most = host ? UINT32_MAX : rung->flags & RUNG_BEST ? GAP_MOST / axes.item : 1;
    if (last_step(&axes) > most)
        return status_fail(STATUS_BAD_VALUE,
                           "a: the step of the innermost axis is %llu, not at most %llu",
                           (unsigned long long)last_step(&axes), (unsigned long long)most);
    if (host)
        return plan_host(queue, choice, &axes, plan);
    if (rung->flags & RUNG_BEST)
        return plan_any(queue, choice, &axes, plan);
    if (axes.reach != axes.items)
        return status_fail(STATUS_UNFIT, "a: rung '%s' reads arrays in C order only", rung->name);
    return plan_matrices(choice, &axes, plan);
}
