/* ops_transpose_wide.c: plans tiles over any axes for elements of at least a word, then for
 * narrower ones: which axes are a tile's rows, which its columns, and how many of each; and tells
 * which arrays no tiles suit. Knows no queue.
 */
#include "ops_transpose.h"

#define fixed(name) ops_fixed(transpose, name)

enum { CACHE_LINE = 128 }; /* bytes */

/* Axes in the order in which they are tiled, the innermost first. */
struct chain {
    unsigned axis[AXES_MAX], count;
    uint64_t extent; /* of all */
};

/* The axes of the rows and of the columns; the others are the grid's. */
struct division {
    struct chain rows, columns;
    bool whole; /* a tile has all rows, and the output has its columns one after the other */
};

struct wide_tiling {
    const struct axes *axes;
    uint64_t addresses[2];
    uint64_t most; /* bytes of a tile, about: small arrays have a tile for each multiprocessor */
    struct chain inside_output, inside_input, columns_of_output; /* see list_chains */
    uint64_t align_out; /* of a division: its columns of the output begin at multiples of its lowest
                           bit */

    struct division best;
    uint64_t tile_rows, tile_columns, lead; /* of the best one */
    uint64_t cost;
};

static bool has(const struct chain *chain, unsigned axis) {
    for (unsigned k = 0; k < chain->count; k++)
        if (chain->axis[k] == axis)
            return true;
    return false;
}

/* Appends an axis unless the chain's index would not fit in 32 bits. */
static bool append(struct chain *chain, const struct axes *axes, unsigned axis) {
    if (chain->count && chain->extent > UINT32_MAX / axes->extent[axis])
        return false;
    chain->axis[chain->count++] = axis;
    chain->extent *= axes->extent[axis];
    return true;
}

/* Appends axes of another chain until they have `enough` elements, or one of them is taken. */
static void append_until(struct chain *chain, const struct axes *axes, const struct chain *from,
                         const struct chain *taken, uint64_t enough) {
    *chain = (struct chain){.extent = 1};
    for (unsigned k = 0; k < from->count && chain->extent < enough; k++)
        if ((taken && has(taken, from->axis[k])) || !append(chain, axes, from->axis[k]))
            break;
}

/* Lists the axes that adjoin in the output, up to the input's innermost axis; those that adjoin in
 * the input, up to the output's innermost; and the input's innermost with those outside it in the
 * output. */
static void list_chains(struct wide_tiling *tiling) {
    const struct axes *axes = tiling->axes;
    const unsigned column = axes->count - 1, row = axes->output[axes->count - 1];
    struct chain *chain = &tiling->inside_output;
    chain->extent = tiling->inside_input.extent = tiling->columns_of_output.extent = 1;
    for (unsigned position = axes->count; position-- > 0;) {
        if (axes->output[position] == column)
            chain = &tiling->columns_of_output;
        if (!append(chain, axes, axes->output[position]))
            break;
    }
    for (unsigned axis = column; axis != row; axis--)
        if (!append(&tiling->inside_input, axes, axis))
            break;
}

static uint64_t alignment_out(const struct wide_tiling *tiling, const struct division *division) {
    const struct axes *axes = tiling->axes;
    uint64_t out = tiling->addresses[1];
    for (unsigned axis = 0; axis < axes->count; axis++)
        out |= has(&division->rows, axis) ? 0 : axes->out[axis] * axes->item;
    return out;
}

/* Elements of an axis in a tile with this many `elements` of a chain; 0 if the chain lacks it. */
static uint64_t covered(const struct axes *axes, const struct chain *chain, uint64_t elements,
                        unsigned axis) {
    for (unsigned k = 0; k < chain->count; k++) {
        if (chain->axis[k] == axis)
            return min_u64(axes->extent[axis], max_u64(elements, 1));
        elements /= axes->extent[chain->axis[k]];
    }
    return 0;
}

/* Elements of a tile that adjoin in memory, but for gaps, and the axis along which others follow in
 * another tile; the number of axes if none do. */
struct run {
    uint64_t items;
    unsigned axis;
};

static struct run adjoining(const struct axes *axes, const struct division *division, uint64_t rows,
                            uint64_t columns, bool output) {
    const uint64_t step = output ? 1 : axes->in[axes->count - 1];
    struct run run = {1, axes->count};
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = output ? axes->output[position] : position;
        const uint64_t here = covered(axes, &division->rows, rows, axis) +
                              covered(axes, &division->columns, columns, axis);
        if ((output ? axes->out : axes->in)[axis] != run.items * step)
            break;
        run.items *= max_u64(here, 1);
        if (here < axes->extent[axis]) {
            run.axis = axis;
            break;
        }
    }
    return run;
}

/* Elements that adjacent lanes load, but for gaps, before others of another run. */
static uint64_t lanes_run(const struct axes *axes, const struct chain *chain, uint64_t columns) {
    const uint64_t step = axes->in[axes->count - 1];
    uint64_t run = 1;
    for (unsigned k = 0; k < chain->count && axes->in[chain->axis[k]] == run * step; k++)
        run *= covered(axes, chain, columns, chain->axis[k]);
    return run;
}

/* Whether the rest of a run is moved so much later that L2 has lost the sectors and lines that both
 * parts share. The grid's order is that of order_tiles. */
static bool ends_far(const struct axes *axes, const struct division *division, uint64_t rows,
                     uint64_t columns, unsigned end) {
    const uint64_t down = min_u64(ceil_div(division->rows.extent, rows), fixed(strip));
    const uint64_t across = ceil_div(division->columns.extent, columns);
    uint64_t tiles = 1, near = min_u64(down, fixed(flat));
    if (end == axes->count)
        return false;
    if (has(&division->rows, end)) {
        for (unsigned k = 0; division->rows.axis[k] != end; k++)
            tiles *= axes->extent[division->rows.axis[k]];
        return tiles / rows > fixed(near_tiles);
    }
    if (has(&division->columns, end)) {
        for (unsigned k = 0; division->columns.axis[k] != end; k++)
            tiles *= axes->extent[division->columns.axis[k]];
        return max_u64(tiles / columns, 1) * down > fixed(near_tiles);
    }
    for (unsigned axis = 0; axis < axes->count; axis++)
        if (!has(&division->rows, axis) && !has(&division->columns, axis)) {
            near *= axes->out[axis] < axes->out[division->columns.axis[0]] ? axes->extent[axis] : 1;
            tiles *= axes->out[axis] < axes->out[end] ? axes->extent[axis] : 1;
        }
    const bool comes_first =
        axes->out[end] < axes->out[division->columns.axis[0]] && near <= fixed(near_tiles);
    return tiles * down * (comes_first ? 1 : across) > fixed(near_tiles);
}

/* The even part of `extent`, at most `most` if possible: a multiple of `unit`. */
static uint64_t even_part(uint64_t extent, uint64_t most, uint64_t unit) {
    const uint64_t parts = ceil_div(extent, max_u64(most / unit * unit, unit));
    return ceil_div(ceil_div(extent, parts), unit) * unit;
}

/* In shared memory: bytes of an entry of the table of rows, which one axis does not need; of all of
 * columns, for elements of 16 bytes; and the distance of rows in elements, of tiles that are not
 * stored as a run of single words. */
static uint64_t entry_bytes(const struct axes *axes, const struct division *division) {
    return division->rows.count > 1 || axes->sparse ? sizeof(uint64_t) : 0;
}
static uint64_t columns_bytes(const struct axes *axes, const struct division *division,
                              uint64_t columns) {
    return axes->item == VECTOR && division->columns.count > 1 ? columns * sizeof(uint64_t) : 0;
}
static uint64_t pitch_of(uint64_t columns, uint64_t item) {
    return round_up(columns, item == VECTOR ? 2 : VECTOR / item);
}

/* Instructions of all threads for a tile: loads, which find the offsets of a column and of each
 * row; a run of whole columns; or columns, by 8 lanes each, whose ends within a vector are stored
 * element by element (TUNING.md T39). */
static uint64_t instructions(const struct wide_tiling *tiling, const struct division *division,
                             uint64_t rows, uint64_t columns, uint64_t lead) {
    enum { BLOCK = 256, LANES = 8 };
    const uint64_t vector = VECTOR / tiling->axes->item, axes = division->columns.count;
    const uint64_t several = axes > 1 ? axes : 0, table = entry_bytes(tiling->axes, division) > 0;
    const uint64_t at_once = max_u64(BLOCK / columns, 1), visits = ceil_div(columns, BLOCK);
    const uint64_t load = 17 + 20 * several + (rows + lead) * (5 + 2 * table) / at_once;
    uint64_t all = BLOCK * (100 + visits * load) + 24 * table * division->rows.count * rows;
    if (division->whole)
        return all + 10 * rows * columns;
    const uint64_t most = tiling->align_out % VECTOR && !lead ? rows + vector - 1 : rows;
    const uint64_t passes = ceil_div(rows, LANES * vector) + ceil_div(most, LANES * vector);
    uint64_t ends = lead ? 0 : 2 * (rows % vector != 0); /* twice those of a column, as passes */
    if (most > rows)
        ends = passes > 2 ? 4 : 2;
    return all + columns * LANES * (passes * 13 + ends * 24 + 14 + 13 * several);
}

/* Estimated time of a tile of these rows and columns, for an element, in 1/65536 of the time that a
 * copy needs, and `bytes` of shared memory: that of memory, or of instructions if it is longer.
 * Ends of runs of memory and of a tile's columns cost time, and so does a tile; tiles of many bytes
 * leave fewer for others (TUNING.md T35, T39). */
static uint64_t cost_of(const struct wide_tiling *tiling, const struct division *division,
                        uint64_t rows, uint64_t columns, uint64_t lead, uint64_t bytes) {
    enum { COPY = 65536, ROOT = 256 };
    const struct axes *axes = tiling->axes;
    const uint64_t item = axes->item, all_rows = division->rows.extent;
    const uint64_t all_columns = division->columns.extent;
    const struct run in = adjoining(axes, division, rows, columns, false);
    const struct run row = adjoining(axes, division, 1, columns, false); /* lanes load in order */
    const bool joins = row.items == columns && row.axis == division->rows.axis[0];
    const uint64_t lanes = lanes_run(axes, &division->columns, columns);
    /* With a lead, only the first and the last tile end within a sector. */
    struct run out = adjoining(axes, division, lead ? all_rows : rows, columns, true);
    if (!division->whole && !lead) /* each column is stored by itself, also if the next adjoins */
        out.items = min_u64(out.items, rows);
    uint64_t cost = COPY / ((joins ? in : row).items * item) + lead * fixed(lead_cost) / rows;
    if (lanes < row.items || (item == VECTOR && lanes * item < ATOM))
        cost += COPY * fixed(lanes_cost) / (lanes * item);
    /* A gap may follow, as in any tile; packed ones are slow to move fewer bytes at a time. */
    if (in.axis < axes->count || item == VECTOR)
        cost += COPY * fixed(run_cost) / (in.items * item);
    if (ends_far(axes, division, rows, columns, in.axis))
        cost += COPY * fixed(far_run_cost) / (in.items * item);
    if (!division->whole)
        cost += COPY * fixed(column_cost) / (rows * item);
    if (tiling->align_out % SECTOR) {
        const bool far = ends_far(axes, division, rows, columns, out.axis);
        cost += COPY * (far ? fixed(far_parts_cost) : fixed(parts_cost)) / (out.items * item);
    }
    const uint64_t tiles = ceil_div(all_rows, rows) * ceil_div(all_columns, columns);
    const uint64_t used = max_u64(all_rows * all_columns / tiles, 1) * item; /* bytes of a tile */
    const uint64_t begin = ROOT * fixed(tile_cost) / used;
    cost += begin * begin + (bytes - min_u64(bytes, fixed(wide_bytes))) / fixed(big_share);
    const uint64_t time =
        COPY * instructions(tiling, division, rows, columns, lead) / (used * fixed(instructions));
    return max_u64(cost, time - min_u64(time, COPY));
}

/* Keeps a tile if it is cheaper than the best so far. */
static void consider(struct wide_tiling *tiling, const struct division *division, uint64_t rows,
                     uint64_t columns, uint64_t lead) {
    const uint64_t item = tiling->axes->item, all = rows + lead;
    const uint64_t bytes =
        all * ((pitch_of(columns, item) + 1) * item + entry_bytes(tiling->axes, division)) +
        columns_bytes(tiling->axes, division, columns);
    if (bytes > fixed(wide_most))
        return;
    const uint64_t cost = cost_of(tiling, division, rows, columns, lead, bytes);
    if (cost < tiling->cost) {
        tiling->best = *division;
        tiling->tile_rows = rows, tiling->tile_columns = columns, tiling->lead = lead;
        tiling->cost = cost;
    }
}

/* How many of `extent` make a multiple of `power`, a power of two. */
static uint64_t repeats(uint64_t extent, uint64_t power) {
    return power / min_u64(extent & (~extent + 1), power);
}

/* Tries tiles of several shapes with about this many bytes. */
static void try_tiles(struct wide_tiling *tiling, const struct division *division, uint64_t bytes) {
    const uint64_t item = tiling->axes->item, sector = SECTOR / item;
    const uint64_t all_rows = division->rows.extent, all_columns = division->columns.extent;
    if (division->whole) {
        const uint64_t unit = repeats(all_rows * item, CACHE_LINE);
        const uint64_t columns = even_part(all_columns, bytes / item / all_rows, unit);
        consider(tiling, division, all_rows, min_u64(columns, all_columns), 0);
        return;
    }
    for (uint64_t wide = 64; wide <= 512; wide += wide < 256 ? 64 : 128) {
        const uint64_t columns = even_part(all_columns, max_u64(wide / item, 1), 1);
        const uint64_t most =
            bytes / ((pitch_of(columns, item) + 1) * item + entry_bytes(tiling->axes, division));
        const uint64_t rows = even_part(all_rows, most, 2 * sector);
        consider(tiling, division, min_u64(rows, all_rows), columns, 0);
        if (rows < all_rows && tiling->align_out % SECTOR)
            consider(tiling, division, even_part(all_rows + sector - 1, most, 2 * sector), columns,
                     sector);
    }
}

static void try_division(struct wide_tiling *tiling, const struct division *division) {
    if (!division->rows.count || !division->columns.count)
        return;
    tiling->align_out = alignment_out(tiling, division);
    for (uint64_t bytes = fixed(tile_bytes); bytes <= 2 * fixed(tile_bytes);
         bytes += fixed(tile_bytes) / 2)
        try_tiles(tiling, division, min_u64(bytes, tiling->most));
}

static void find_tiles(struct wide_tiling *tiling) {
    const struct axes *axes = tiling->axes;
    const struct chain *output = &tiling->inside_output, *input = &tiling->inside_input;
    struct division division = {.whole = true, .rows = *output};
    tiling->cost = UINT64_MAX;
    append_until(&division.columns, axes, &tiling->columns_of_output, NULL,
                 ceil_div(2 * fixed(tile_bytes), output->extent * axes->item));
    try_division(tiling, &division);
    /* Packed tiles move few columns in one piece faster than other wide ones. */
    if (tiling->cost < fixed(wide_cost) && input->extent * axes->item <= ops_transpose_few(axes) &&
        axes->in[output->axis[0]] == input->extent)
        return;
    division.whole = false;
    /* Axes that adjoin on both sides are rows, or columns; or rows until those are long enough. */
    append_until(&division.columns, axes, input, output, UINT64_MAX);
    try_division(tiling, &division);
    if (division.columns.count == input->count)
        return;
    division.columns = *input;
    append_until(&division.rows, axes, output, input, UINT64_MAX);
    try_division(tiling, &division);
    append_until(&division.rows, axes, output, NULL, ceil_div(fixed(wide_run), axes->item));
    append_until(&division.columns, axes, input, &division.rows, UINT64_MAX);
    try_division(tiling, &division);
    append_until(&division.columns, axes, input, NULL, ceil_div(fixed(wide_run), axes->item));
    append_until(&division.rows, axes, output, &division.columns, UINT64_MAX);
    try_division(tiling, &division);
}

static void list_axes(const struct axes *axes, const struct chain *chain, uint32_t *count,
                      struct transpose_axis **next) {
    for (unsigned k = 0; k < chain->count; k++) {
        const unsigned axis = chain->axis[k];
        *(*next)++ = (struct transpose_axis){axes->extent[axis], axes->in[axis], axes->out[axis]};
    }
    *count = chain->count;
}

/* ceil(2^32 / n), by which the device divides; 0 for 1. */
static uint32_t magic(uint64_t n) { return n > 1 ? (uint32_t)((UINT32_MAX + n) / n) : 0; }

static void fill_plan(const struct wide_tiling *tiling, struct transpose_plan *plan) {
    const struct axes *axes = tiling->axes;
    const struct division *division = &tiling->best;
    const uint64_t item = axes->item, vector = VECTOR / item, rows = tiling->tile_rows;
    const uint64_t columns = tiling->tile_columns, lead = tiling->lead;
    /* Lanes gather adjacent vectors of a column, which are an odd number of words apart; or 8 of 4
     * columns, whose banks are then those of 4 adjacent words each. */
    const bool odd = division->whole && vector > 1;
    const uint64_t pitch = odd ? columns : pitch_of(columns, item), pad = odd ? 1 : vector;
    *plan = (struct transpose_plan){
        .shape = TRANSPOSE_WIDE,
        .items = axes->items,
        .reach = axes->reach,
        .rows = division->rows.extent,
        .columns = division->columns.extent,
        .in_pitch = axes->in[division->rows.axis[0]],
        .out_pitch = axes->out[division->columns.axis[0]],
        .load_magic = magic(columns),
        .store_magic = division->whole ? magic(rows) : 0,
        .table_bytes = (uint32_t)round_up((rows + lead) * entry_bytes(axes, division) +
                                              columns_bytes(axes, division, columns),
                                          VECTOR),
        .tile_bytes = (uint32_t)(((rows + lead) * pitch + (rows + lead) / vector * pad +
                                  (division->whole ? 0 : columns)) *
                                 item),
        .pad = (uint32_t)pad,
        .tile_rows = (uint32_t)rows,
        .tile_columns = (uint32_t)columns,
        .whole = division->whole,
        .lead = (uint32_t)lead,
        .tile_pitch = (uint32_t)pitch,
    };
    /* Blocks with a lead begin up to a sector earlier. */
    plan->all_row_tiles = (uint32_t)ceil_div(plan->rows + (lead ? SECTOR / item - 1 : 0), rows);
    plan->column_tiles = (uint32_t)ceil_div(plan->columns, columns);
    struct transpose_axis *next = plan->axes;
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (!has(&division->rows, axis) && !has(&division->columns, axis)) {
            *next++ = (struct transpose_axis){axes->extent[axis], axes->in[axis], axes->out[axis]};
            plan->grid_axes++;
        }
    }
    list_axes(axes, &division->rows, &plan->load_axes, &next);
    list_axes(axes, &division->columns, &plan->run_axes, &next);
}

uint64_t ops_transpose_wide(const struct axes *axes, const uint64_t *arrays,
                            unsigned multiprocessors, struct transpose_plan *plan) {
    const uint64_t share = axes->items * axes->item / (multiprocessors * fixed(wide_blocks));
    struct wide_tiling tiling = {.axes = axes,
                                 .addresses = {arrays[0], arrays[1]},
                                 .most = max_u64(share, fixed(wide_least))};
    list_chains(&tiling);
    find_tiles(&tiling);
    fill_plan(&tiling, plan);
    return axes->item > WORD && tiling.most < fixed(tile_bytes) ? 0 : tiling.cost;
}

/* Whether gaps of the input follow the columns of a wide tile: other tiles read them, too. */
static bool precedes_gap(const struct axes *axes, const struct transpose_plan *wide) {
    uint64_t run = 1;
    unsigned axis = axes->count;
    while (axis > 0 && axes->count - axis < wide->run_axes && axes->in[axis - 1] == run)
        run *= axes->extent[--axis];
    return wide->tile_columns == wide->columns && axis > 0 && axes->in[axis - 1] != run;
}

bool ops_transpose_wide_better(const struct axes *axes, const struct transpose_plan *wide,
                               uint64_t cost) {
    const uint64_t matrix = wide->rows * axes->extent[axes->count - 1] * axes->item;
    const bool slow = axes->item == WORD && (wide->whole ? matrix <= fixed(small_matrix)
                                                         : wide->tile_columns * WORD >= 2 * SECTOR);
    if (cost >= (slow ? fixed(packed_cost) : fixed(wide_cost)))
        return false;
    const bool one_run =
        wide->columns * axes->item <= ops_transpose_few(axes) && wide->in_pitch == wide->columns;
    const bool gap = precedes_gap(axes, wide);
    const uint64_t least = axes->item == WORD ? 3 * VECTOR : 2 * SECTOR;
    const uint64_t few = gap && axes->item < VECTOR ? 0 : gap ? 3 * SECTOR : least;
    return wide->whole || (!one_run && wide->tile_columns * axes->item >= few);
}

/* --- runs that are far apart, and elements that are better moved one by one */

uint64_t ops_transpose_sparse(const struct axes *axes) {
    uint64_t run = 1, unit = ATOM;
    for (unsigned axis = axes->count; axis-- > 0;
         run += (axes->extent[axis] - 1) * axes->in[axis]) {
        const uint64_t bytes = run * axes->item, pitch = axes->in[axis] * axes->item;
        if (pitch < bytes + ATOM)
            continue;
        while ((bytes | pitch) % unit)
            unit /= 2;
        const uint64_t touched = bytes + ATOM - unit, fetched = min_u64(pitch, bytes + LINE - unit);
        return (fetched - touched) * fixed(sparse_part) >= fetched ? bytes : 0;
    }
    return 0;
}

bool ops_transpose_in_order(const struct axes *axes) {
    enum { LANES = 32, CACHE_LINE = 128, PASSES = 16 };
    const unsigned last = axes->count - 1, row = axes->output[last];
    if (axes->item < WORD || !last || row == last)
        return false;
    const unsigned next = axes->output[last - 1];
    const uint64_t item = axes->item, lanes = min_u64(axes->extent[row], LANES);
    uint64_t run = 1; /* elements of the input that are moved soon after each other */
    for (unsigned axis = axes->count; axis-- > 0 && axes->in[axis] <= 2 * run;) {
        const uint64_t needed = min_u64(axes->extent[axis], ceil_div(SECTOR / item, run));
        if (axes->out[axis] * needed > fixed(order_items))
            break;
        run *= axes->extent[axis];
    }
    const uint64_t rows = LANES / lanes;
    const uint64_t lines = min_u64(lanes, 1 + lanes * axes->in[row] * item / CACHE_LINE) *
                           min_u64(rows, 1 + rows * axes->in[next] * item / CACHE_LINE);
    return run * item >= fixed(order_run) && lines <= fixed(order_lines) * item / WORD &&
           axes->extent[row] * axes->extent[next] >= PASSES * LANES;
}

bool ops_transpose_gathers(const struct axes *axes) {
    const unsigned last = axes->count - 1;
    const uint64_t bytes = axes->items * axes->item;
    const bool few = axes->extent[last] <= fixed(few_adjoin) ||
                     axes->extent[axes->output[last]] <= fixed(few_adjoin) / 3;
    const bool near = few && axes->item > 1 && axes->out[last] <= fixed(near_items);
    return bytes <= fixed(gather_bytes) ||
           (near && bytes <= fixed(gather_near) * (axes->item > WORD ? 2 : 1));
}

/* --- elements of 1 and 2 bytes */

/* As in transpose_narrow.cuh: a warp's unit is 4 rows of 128 bytes, or 256. */
enum { UNIT_ROWS = 4, UNIT_WIDE = 128, COLUMN = 16 };

/* Axes that are adjacent in memory, on one side. */
struct side {
    bool output, has[AXES_MAX];
    uint64_t items;
    unsigned positions; /* axes, from the innermost on */
};

/* Includes the next axis, unless a gap precedes it or the other side has it. */
static bool extend(const struct axes *axes, struct side *side, const struct side *other) {
    if (side->positions == axes->count)
        return false;
    const unsigned position = axes->count - 1 - side->positions;
    const unsigned axis = side->output ? axes->output[position] : position;
    if (other->has[axis] || (!side->output && axes->in[axis] != side->items * last_step(axes)))
        return false;
    side->has[axis] = true;
    side->items *= axes->extent[axis];
    side->positions++;
    return true;
}

/* Extends the shorter side first, until both have enough elements or no axis is left. */
static void choose_sides(const struct axes *axes, struct side *rows, struct side *columns) {
    const uint64_t enough = fixed(enough) / axes->item;
    extend(axes, rows, columns);
    extend(axes, columns, rows);
    for (bool more = true; more;) {
        struct side *less = rows->items < columns->items ? rows : columns;
        struct side *other = less == rows ? columns : rows;
        more = (less->items < enough && extend(axes, less, other)) ||
               (other->items < enough && extend(axes, other, less));
    }
}

/* Whether columns, each of this number of rows, follow each other in the output. */
static bool adjoin(const struct axes *axes, const struct side *columns, uint64_t rows) {
    for (unsigned k = 0; k < columns->positions; k++) {
        const unsigned axis = axes->count - 1 - k;
        if (axes->out[axis] != rows)
            return false;
        rows *= axes->extent[axis];
    }
    return true;
}

/* Lists the other axes in the output's order, then those of both sides, innermost first. */
static void list_narrow_axes(const struct axes *axes, const struct side *rows,
                             const struct side *columns, struct transpose_plan *plan) {
    const struct side *sides[] = {NULL, rows, columns};
    unsigned listed = 0;
    for (unsigned k = 0; k < 3; k++)
        for (unsigned position = axes->count; position-- > 0;) {
            const bool output = !sides[k] || sides[k]->output;
            const unsigned axis = output ? axes->output[position] : position;
            if (sides[k] ? sides[k]->has[axis] : !rows->has[axis] && !columns->has[axis])
                plan->axes[listed++] =
                    (struct transpose_axis){axes->extent[axis], axes->in[axis], axes->out[axis]};
        }
    plan->load_axes = rows->positions;
    plan->run_axes = columns->positions;
    plan->grid_axes = listed - rows->positions - columns->positions;
}

/* Chooses the rows of a tile: all, or of several the same multiple of 128 bytes, up to `high`. */
static void choose_rows(uint64_t item, uint64_t high, struct transpose_plan *plan) {
    const uint64_t bytes = plan->rows * item, word = WORD / item, vector = VECTOR / item;
    const bool splits = bytes > high + high / 4;
    const uint64_t even = ceil_div(ceil_div(bytes, ceil_div(bytes, high)), UNIT_WIDE) * UNIT_WIDE;
    plan->align = splits ? SECTOR : VECTOR;
    plan->tile_rows = (uint32_t)plan->rows;
    if (splits)
        plan->tile_rows = (uint32_t)(even / item);
    plan->slots = (uint32_t)ceil_div(plan->tile_rows, vector);
    plan->lanes = 8;
    if (ceil_div(plan->slots, 4) * 4 < ceil_div(plan->slots, 8) * 8)
        plan->lanes = 4;
    /* A vector that begins in the last row has elements of 5 words. */
    const uint64_t last =
        splits ? plan->tile_rows - vector + SECTOR / item - 1 : plan->tile_rows - 1;
    plan->tile_height = (uint32_t)(ceil_div((last / word + 5) * word, UNIT_ROWS) * UNIT_ROWS);
}

/* Chooses the columns of a tile that may have `most` bytes, and its size in shared memory. */
static void choose_columns(uint64_t item, uint64_t most, uint64_t all_in,
                           struct transpose_plan *plan) {
    const uint64_t units = plan->tile_height / UNIT_ROWS;
    /* Unaligned rows, as those of the next column are, leave a vector less of a unit. */
    const bool aligned = plan->align == SECTOR && all_in % VECTOR == 0 && plan->item_step == 1;
    const uint64_t step = (!aligned ? item : all_in % SECTOR ? VECTOR : SECTOR) / item;
    /* All columns in one unit of 256 bytes are fewer sectors than in two (TUNING.md T50). */
    const uint64_t all = plan->columns * item;
    const bool two = item > 1 && plan->items * item >= fixed(narrow_large) && !aligned &&
                     plan->item_step == 1 && all > UNIT_WIDE - VECTOR &&
                     all <= 2 * UNIT_WIDE - VECTOR;
    plan->unit_wide = two ? 2 * UNIT_WIDE : UNIT_WIDE;
    const uint64_t unit = UNIT_ROWS * plan->unit_wide;
    const uint64_t span = (plan->unit_wide - (aligned ? 0 : VECTOR)) / item / plan->item_step;
    const uint64_t wide = span * max_u64(1, most / (units * unit));
    const uint64_t even = ceil_div(plan->columns, ceil_div(plan->columns, wide));
    const uint64_t spans = ceil_div(even, span);
    plan->span = (uint32_t)(ceil_div(ceil_div(even, spans), step) * step);
    plan->tile_columns = (uint32_t)(plan->span * spans);
    plan->tile_bytes = (uint32_t)(units * unit * spans);
    plan->load_magic = magic(units);
    plan->wrap_magic = magic(plan->span);
    plan->table_bytes = (uint32_t)(plan->tile_columns * (plan->whole ? sizeof(uint32_t) : COLUMN) +
                                   units * spans * UNIT_ROWS * sizeof(uint32_t));
}

bool ops_transpose_runs(const struct axes *axes, const struct transpose_plan *plan) {
    return plan->whole && axes->items * axes->item >= fixed(large) &&
           plan->rows * plan->columns * axes->item >= fixed(whole_matrix);
}

bool ops_transpose_narrow(const struct axes *axes, uint64_t address, unsigned multiprocessors,
                          struct transpose_plan *plan) {
    struct side rows = {.output = true, .items = 1}, columns = {.items = 1};
    const uint64_t item = axes->item;
    choose_sides(axes, &rows, &columns);
    const uint64_t step = last_step(axes), wide = columns.items * step * item;
    if (rows.items < fixed(narrow_whole) ||
        wide < (step > 1 ? fixed(narrow_gaps) : fixed(narrow_columns)) ||
        (step > 1 && (rows.items * item < fixed(gaps_rows) || step * item > 2 * WORD)) ||
        axes->reach * item >> 36) /* vectors that 32 bits count, see transpose_narrow.cuh */
        return false;
    *plan = (struct transpose_plan){.shape = TRANSPOSE_NARROW,
                                    .items = axes->items,
                                    .reach = axes->reach,
                                    .rows = rows.items,
                                    .columns = columns.items,
                                    .in_pitch = axes->in[axes->output[axes->count - 1]],
                                    .out_pitch = axes->out[axes->count - 1],
                                    .item_step = (uint32_t)step};
    list_narrow_axes(axes, &rows, &columns, plan);
    uint64_t all_in = address;
    for (unsigned axis = 0; axis < axes->count; axis++)
        all_in |= columns.has[axis] ? 0 : axes->in[axis] * item;
    /* Small arrays have smaller tiles, for each multiprocessor to get some. */
    const uint64_t share = axes->items * item / (multiprocessors * fixed(narrow_blocks));
    uint64_t high = fixed(narrow_high);
    if (columns.items * item <= UNIT_WIDE - VECTOR) /* one span */
        high *= item;
    /* Unaligned columns that adjoin stay whole if they fit: parts load rows twice (T53). */
    const bool joined = adjoin(axes, &columns, rows.items);
    if (joined && axes->items * item >= fixed(narrow_large) && all_in % VECTOR &&
        rows.items * UNIT_WIDE <= fixed(narrow_bytes))
        high = max_u64(high, round_up(rows.items * item, UNIT_WIDE));
    high = min_u64(share / UNIT_WIDE, high) / UNIT_WIDE * UNIT_WIDE;
    choose_rows(item, max_u64(high, UNIT_WIDE), plan);
    plan->whole = plan->tile_rows == plan->rows && joined;
    plan->store_magic = plan->whole ? magic(plan->rows) : 0;
    if (rows.items * item < fixed(narrow_rows) && !ops_transpose_runs(axes, plan))
        return false;
    /* The ends of columns that adjoin in runs of some are stored in parts. */
    bool parts = false;
    for (unsigned k = axes->count - columns.positions; k < axes->count; k++)
        parts |= axes->out[k] == rows.items && axes->extent[k] >= fixed(narrow_run) &&
                 (k + 1 == axes->count || axes->extent[axes->count - 1] < fixed(narrow_run));
    if (plan->tile_rows == plan->rows && !plan->whole && parts && rows.items * item % VECTOR)
        return false;
    choose_columns(item, min_u64(share, fixed(narrow_bytes)), all_in, plan);
    const uint64_t down = ceil_div(plan->rows, plan->tile_rows);
    const uint64_t across = ceil_div(plan->columns, plan->tile_columns);
    plan->all_row_tiles = (uint32_t)down;
    plan->column_tiles = (uint32_t)across;
    return down <= GRID_X && across <= GRID_X;
}

/* Whether rows of wide elements that adjoin in memory are copied soon after each other, so that
 * they find shared sectors in L1. */
static bool adjoin_soon(const struct axes *axes) {
    uint64_t between = 1;
    for (unsigned position = axes->count - 1; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (axes->in[axis] == axes->extent[axes->count - 1])
            return axes->item >= 2 * WORD && between <= fixed(near_rows);
        between *= axes->extent[axis];
    }
    return false;
}

bool ops_transpose_late(const struct axes *axes, uint64_t most) {
    const uint64_t reach = axes->extent[axes->count - 1] * last_step(axes); /* with gaps */
    for (unsigned axis = 0; moves_rows(axes) && axis + 1 < axes->count; axis++)
        if (axes->in[axis] == reach)
            return reach * axes->item <= most && axes->out[axis] * axes->item >= fixed(late_rows);
    return false;
}

bool ops_transpose_short_rows(const struct axes *axes) {
    const unsigned last = axes->count - 1;
    const uint64_t bytes = axes->extent[last] * axes->item;
    /* Copies of rows whose places three axes and more determine divide longer than memory takes. */
    const uint64_t most = axes->item == WORD ? fixed(many_row) : fixed(many_row) / 8;
    const bool many = ops_transpose_compares(axes) && last >= 3 && bytes <= most;
    if (!moves_rows(axes) || last == 0 || (adjoin_soon(axes) && !many) ||
        (axes->in[last - 1] != axes->extent[last] &&
         axes->in[last - 1] * axes->item > ops_transpose_gap(axes)))
        return false;
    return many || bytes <= SECTOR ||
           ((bytes % SECTOR != 0 || ops_transpose_late(axes, UINT64_MAX)) &&
            bytes <= fixed(short_row));
}
