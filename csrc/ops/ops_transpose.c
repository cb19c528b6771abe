/* ops_transpose.c: plans a transpose of any axes: one launch of one rung.
 *
 * numbers: how many axes; the input's extents; and for each axis of the output, which of the
 * input's it is. Axes that stay neighbours are merged; what is left is rows that stay whole, a
 * batch of matrices whose rows need not lie one after the other, or runs of memory too short for
 * that.
 */
#include "ops.h"

#include "../kernels/transpose_plan.cuh"

#include <string.h>

enum {
    TILE = 32,           /* of transpose.cu */
    GRID_X = 0x7fffffff, /* blocks */
    GRID_Y = 65535,
    AXES_MAX = 64,       /* NumPy's */
    PACK = 16,           /* bytes of the widest access */
    SECTOR = 32,         /* bytes */
    LINE = 256,          /* bytes; of memory, not of a cache */
    WORD = 4,            /* bytes of a bank of shared memory */
    BANKS = 128,         /* bytes of all of them */
    SLOW_PITCH = 131072, /* bytes of which rows must not be a multiple apart */
    TALL = 384,          /* rows of tiles, that the cache remembers until their neighbours come */
    STRIP = 256,         /* rows of tiles; and, where a matrix has */
    NARROW = 12288,      /* bytes in a row, or fewer, */
    FLAT = 8,

    /* of packed tiles */
    TILE_BYTES = 16384,
    TILE_LEAST = 2048,    /* bytes, where an array is small: one for every block */
    BLOCKS = 8,           /* of a multiprocessor */
    SHARED_BYTES = 49152, /* of a block, its tables too */
    RUN_LEAST = 8,        /* items, where there are so many */
    FEW_PACKS = 8,        /* of an axis, whose lanes need no pads */
};

_Static_assert(sizeof(struct transpose_plan) <= OPS_WIDE_BYTES, "OPS_WIDE_BYTES");
_Static_assert((int)OPS_NUMBERS_MAX >= 1 + 2 * (int)AXES_MAX, "OPS_NUMBERS_MAX");

/* Axes in the input's order, C order both, and where in the output each of them is. */
struct axes {
    unsigned count;
    uint64_t extent[AXES_MAX];
    unsigned output[AXES_MAX]; /* the input axis at each place of the output */
    uint64_t in[AXES_MAX], out[AXES_MAX];
    uint64_t items;
    size_t item; /* bytes */
};

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t blocks(uint64_t items, uint64_t a_block) { return (items - 1) / a_block + 1; }

/* --- axes */

static void find_steps(struct axes *axes) {
    uint64_t in = 1, out = 1;
    for (unsigned k = axes->count; k-- > 0;) {
        const unsigned axis = axes->output[k];
        axes->in[k] = in;
        in *= axes->extent[k];
        axes->out[axis] = out;
        out *= axes->extent[axis];
    }
    axes->items = in;
}

/* Takes an axis out: of one item, or after its neighbour has been given its extent. */
static void drop(struct axes *axes, unsigned axis) {
    unsigned kept = 0;
    for (unsigned place = 0; place < axes->count; place++)
        if (axes->output[place] != axis) {
            const unsigned other = axes->output[place];
            axes->output[kept++] = other - (other > axis);
        }
    axes->count--;
    for (unsigned k = axis; k < axes->count; k++)
        axes->extent[k] = axes->extent[k + 1];
}

static enum status read_axes(const uint64_t *numbers, struct axes *axes) {
    bool seen[AXES_MAX] = {false};
    axes->count = (unsigned)numbers[0];
    if (numbers[0] > AXES_MAX)
        return status_fail(STATUS_BAD_VALUE, "a: has more than %d dimensions", AXES_MAX);
    for (unsigned k = 0; k < axes->count; k++) {
        const uint64_t axis = numbers[1 + axes->count + k];
        if (axis >= axes->count || seen[axis])
            return status_fail(STATUS_BAD_VALUE, "axes: are no permutation of %u", axes->count);
        seen[axis] = true;
        axes->extent[k] = numbers[1 + k];
        axes->output[k] = (unsigned)axis;
    }
    for (unsigned k = axes->count; k-- > 0;)
        if (axes->extent[k] == 1)
            drop(axes, k);
    for (unsigned place = axes->count; place-- > 1;) {
        const unsigned axis = axes->output[place];
        if (axes->output[place - 1] + 1 == axis) {
            axes->extent[axis - 1] *= axes->extent[axis];
            drop(axes, axis);
        }
    }
    find_steps(axes);
    return STATUS_OK;
}

/* Whether the innermost axis stays where it is: rows are moved whole. */
static bool moves_rows(const struct axes *axes) {
    return axes->count && axes->output[axes->count - 1] == axes->count - 1;
}

/* Takes the widest items that rows and addresses are multiples of. */
static void widen(struct axes *axes, uint64_t addresses) {
    const unsigned last = axes->count - 1;
    if (!moves_rows(axes))
        return;
    while (axes->item < PACK && axes->extent[last] % 2 == 0 && addresses % (2 * axes->item) == 0) {
        axes->extent[last] /= 2;
        axes->item *= 2;
    }
    if (axes->extent[last] == 1)
        drop(axes, last);
    find_steps(axes);
}

/* --- tiles of a matrix, of the other axes a batch */

/* The sides of SQUARE and of phased_tile are those in transpose.cu. */
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

/* How far apart, in tiles, two columns of them are that are taken in turns: transpose.cu says why.
 * 0: one after the other. */
static uint32_t columns_apart(const struct transpose_plan *plan, size_t item) {
    const uint64_t wide = tile_columns((enum transpose_shape)plan->shape, false, item) * item;
    const uint64_t apart = SLOW_PITCH / 2 / wide;
    if (plan->in_place || plan->in_pitch * item % SLOW_PITCH || SLOW_PITCH / 2 % wide)
        return 0;
    return plan->columns * item % SLOW_PITCH ? 0 : (uint32_t)apart;
}

/* Of how many rows of tiles all are taken before others: transpose.cu says why. Of a copy's rate on
 * an H200 (November 2026), float32, in one strip, in strips of about 256, 128 and 8: 32,771 x
 * 16,001 0.79, 0.85, 0.83 and 0.80; 30,000 x 3,000 0.85, 0.87, 0.86 and 0.87; 100,000 x 1,000 0.70,
 * 0.82, 0.82 and 0.85; 1,000,000 x 100 0.67, 0.88, 0.89 and 0.89. But in one strip and two: 16,383
 * x 16,385 0.87 and 0.84, 20,011 x 10,007 0.86 and 0.84; and 65,536 x 4096, which shares nothing,
 * in one and four 0.95 and 0.94. */
static uint32_t strip_of(const struct transpose_plan *plan, uint64_t address, size_t item) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t wide = tile_columns(shape, false, item) * item;
    const bool shares =
        shape == TRANSPOSE_PHASED || (address | plan->in_pitch * item | wide) % LINE;
    const uint32_t all = plan->all_row_tiles, least_rows = (all - 1) / GRID_Y + 1;
    if (plan->in_place || !shares || plan->column_tiles == 1 || all <= TALL)
        return all;
    if (plan->columns * item <= NARROW)
        return least_rows > FLAT ? least_rows : FLAT;
    return (all - 1) / ((all - 1) / STRIP + 1) + 1;
}

/* Every axis but two, in the output's order: neighbours in time store to neighbouring places. */
static void list_others(const struct axes *axes, unsigned a, unsigned b,
                        struct transpose_plan *plan) {
    for (unsigned place = axes->count; place-- > 0;) {
        const unsigned axis = axes->output[place];
        if (axis != a && axis != b)
            plan->axes[plan->grid_axes++] =
                (struct transpose_axis){axes->extent[axis], axes->in[axis], axes->out[axis]};
    }
}

static void plan_matrix(const struct axes *axes, uint64_t addresses, struct transpose_plan *plan) {
    const unsigned column = axes->count - 1, row = axes->output[axes->count - 1];
    uint64_t all = addresses;
    *plan = (struct transpose_plan){
        .items = axes->items,
        .rows = axes->extent[row],
        .columns = axes->extent[column],
        .in_pitch = axes->in[row],
        .out_pitch = axes->out[column],
    };
    list_others(axes, column, row, plan);
    all |= (plan->rows | plan->columns | plan->in_pitch | plan->out_pitch) * axes->item;
    for (unsigned k = 0; k < plan->grid_axes; k++)
        all |= (plan->axes[k].in | plan->axes[k].out) * axes->item;
    plan->shape = all % PACK ? TRANSPOSE_PHASED : TRANSPOSE_ALIGNED;
}

/* Rows that stay whole. */
static void plan_rows(const struct axes *axes, struct transpose_plan *plan) {
    const unsigned last = axes->count ? axes->count - 1 : 0;
    *plan = (struct transpose_plan){.shape = TRANSPOSE_ROWS, .items = axes->items, .rows = 1};
    plan->columns = axes->count ? axes->extent[last] : 1;
    plan->axes[0].extent = 1; /* where there is no other */
    list_others(axes, last, last, plan);
}

/* Whether rows that stay whole are so short, or their items so narrow, that packed tiles are
 * better. Of a copy's rate on an H200 (November 2026), rows and tiles: of 3 bytes 0.21 and 0.63, of
 * 12 0.70 and 0.75, of 28 0.72 and 0.79, of 36 0.74 and 0.69, of 50 0.47 and 0.66, of 260 0.77 and
 * 0.44. */
static bool are_short_rows(const struct axes *axes) {
    const uint64_t bytes = axes->extent[axes->count - 1] * axes->item;
    return moves_rows(axes) && axes->count > 1 &&
           (bytes <= SECTOR || (axes->item < WORD && bytes <= LINE));
}

/* Whether the output's matrices are where the input's are, and square. */
static bool is_square_batch(const struct transpose_plan *plan) {
    for (unsigned k = 0; k < plan->grid_axes; k++)
        if (plan->axes[k].in != plan->axes[k].out)
            return false;
    return plan->rows == plan->columns && plan->in_pitch == plan->out_pitch;
}

/* How many blocks of each strip, if they are not too many and not too many of their items outside;
 * else 0. */
static uint64_t count_tiles(size_t item, uint64_t address, struct transpose_plan *plan) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t high = tile_rows(shape, plan->in_place, item);
    const uint64_t wide = tile_columns(shape, plan->in_place, item);
    /* A block of phased tiles begins up to a sector earlier. */
    const uint64_t lead = plan->in_place || shape == TRANSPOSE_ALIGNED ? 0 : SECTOR / item - 1;
    const uint64_t matrices = plan->items / plan->rows / plan->columns;
    const uint64_t down = blocks(plan->rows + lead, high), across = blocks(plan->columns, wide);
    if (down > GRID_X || across > GRID_X || down * across > GRID_X ||
        matrices > GRID_X / (down * across))
        return 0;
    plan->all_row_tiles = (uint32_t)down;
    plan->column_tiles = (uint32_t)across;
    plan->row_tiles = strip_of(plan, address, item);
    plan->apart = columns_apart(plan, item);
    const bool fills = plan->rows * plan->columns > down * high * across * wide / 2;
    return fills || plan->in_place ? plan->row_tiles * across * matrices : 0;
}

/* --- packed tiles: a few axes that are runs of memory in the input, and a few in the output */

struct group {
    bool has[AXES_MAX];
    unsigned outermost; /* the last that was taken */
};
struct packing {
    const struct axes *axes;
    struct transpose_plan *plan;
    struct group load, store;
    uint64_t chunk[AXES_MAX]; /* of each axis, in a tile */
    uint64_t place[AXES_MAX]; /* its step there */
    unsigned listed;          /* axes of the plan */
    uint64_t tile_bytes;      /* at most */
};

static unsigned axis_at(const struct axes *axes, bool output, unsigned place) {
    return output ? axes->output[place] : place;
}

/* Takes axes, the innermost first, until they have so many items, and of the last no more than it
 * takes. */
static void take(struct packing *packing, bool output, uint64_t items) {
    const struct axes *axes = packing->axes;
    struct group *group = output ? &packing->store : &packing->load;
    uint64_t taken = 1;
    for (unsigned place = axes->count; place-- > 0 && taken < items;) {
        const unsigned axis = axis_at(axes, output, place);
        const uint64_t part = least(axes->extent[axis], blocks(items, taken));
        group->has[axis] = true;
        group->outermost = axis;
        packing->chunk[axis] = most(packing->chunk[axis], part);
        taken *= part;
    }
}

static void list(struct packing *packing, uint64_t extent, uint64_t in, uint64_t out) {
    if (packing->listed < TRANSPOSE_AXES_MAX)
        packing->plan->axes[packing->listed] = (struct transpose_axis){extent, in, out};
    packing->listed++;
}

/* What part of an axis of so many bytes is made a multiple of. 0: of anything. */
static uint64_t whole_unit(uint64_t bytes) {
    return bytes >= 4 * LINE ? LINE : bytes >= 4 * SECTOR ? SECTOR : bytes >= PACK ? PACK : 0;
}

/* The grid: the chunks of the axis that ends each group, the store's first; then the other axes. */
static void list_grid(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const unsigned ends[] = {packing->store.outermost, packing->load.outermost};
    for (unsigned k = 0; k < TRANSPOSE_CUTS; k++) {
        const unsigned axis = ends[k];
        const uint64_t extent = axes->extent[axis], taken = packing->chunk[axis];
        if (taken >= extent || (k && axis == ends[0]))
            continue;
        /* evenly, and so that runs begin where packs do, longer ones where lines do */
        const uint64_t unit = whole_unit(taken * axes->item) / axes->item;
        const uint64_t whole = unit ? taken / unit * unit : taken;
        const uint64_t even = blocks(extent, blocks(extent, whole));
        const uint64_t chunk = packing->chunk[axis] =
            unit ? least(whole, blocks(even, unit) * unit) : whole;
        plan->cuts[k] = (struct transpose_cut){packing->listed, (uint32_t)chunk, 0, extent};
        list(packing, blocks(extent, chunk), axes->in[axis] * chunk, axes->out[axis] * chunk);
    }
    for (unsigned place = axes->count; place-- > 0;) {
        const unsigned axis = axes->output[place];
        if (!packing->load.has[axis] && !packing->store.has[axis])
            list(packing, axes->extent[axis], axes->in[axis], axes->out[axis]);
    }
    plan->grid_axes = packing->listed;
    uint64_t tiles = 1; /* 0: too many */
    for (unsigned k = 0; k < plan->grid_axes && k < TRANSPOSE_AXES_MAX; k++)
        tiles = tiles > GRID_X / plan->axes[k].extent ? 0 : tiles * plan->axes[k].extent;
    plan->tiles = (uint32_t)tiles;
}

/* What the axes of a run, or of the runs, make: all of it, and what is left without a cut axis. */
struct extents {
    uint64_t most, inner;
};

static struct extents count(struct packing *packing, bool output, const bool *has,
                            const bool *has_not, uint32_t what) {
    struct extents found = {1, 1};
    for (unsigned place = packing->axes->count; place-- > 0;) {
        const unsigned axis = axis_at(packing->axes, output, place);
        if (!has[axis] || (has_not && has_not[axis]))
            continue;
        struct transpose_cut *cut = NULL;
        for (unsigned k = 0; k < TRANSPOSE_CUTS; k++)
            if (packing->plan->cuts[k].extent &&
                axis == (k ? packing->load.outermost : packing->store.outermost))
                cut = &packing->plan->cuts[k];
        found.most *= packing->chunk[axis];
        if (cut)
            cut->scales |= what;
        else
            found.inner *= packing->chunk[axis];
    }
    return found;
}

/* 2^32 / n, rounded up: the high half of its product with i is i / n, if i * n is below 2^32. Of
 * one it is 0. */
static uint32_t magic(uint64_t n) { return (uint32_t)((((uint64_t)1 << 32) + n - 1) / n); }

/* Whether lanes need pads to meet different banks: those that gather neighbouring packs of the
 * output are a pack's worth of items of its innermost axis apart. Pads make that an odd number of
 * words. They must begin with the axes outside this one, or be where a table says. */
static bool needs_pads(const struct packing *packing, unsigned inner) {
    const uint64_t items = PACK / packing->axes->item, chunk = packing->chunk[inner];
    const bool whole = chunk % items == 0;
    unsigned others = 0;
    for (unsigned k = 0; k < packing->axes->count; k++)
        others += packing->store.has[k] && k != inner;
    if (items == 1 || chunk <= items)
        return false;
    if (packing->load.has[inner])
        return whole || inner == packing->load.outermost;
    return !others || (whole && chunk > FEW_PACKS * items);
}

/* Lays the axes of a tile out in shared memory: how far their steps lead. Returns how many bytes
 * that takes. */
static uint64_t lay_out(struct packing *packing, uint64_t load_run, uint64_t load_runs) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const bool *load = packing->load.has, *store = packing->store.has;
    const unsigned inner = axes->output[axes->count - 1];
    const uint64_t word = most(axes->item, WORD), items = PACK / axes->item;
    const uint64_t pad = needs_pads(packing, inner) ? word : 0;
    uint64_t step = axes->item, wrap = 0; /* pads after so many bytes of a load's run */
    for (unsigned axis = axes->count; axis-- > 0;)
        if (load[axis]) {
            packing->place[axis] = wrap ? step + step / wrap * pad : step;
            if (axis == inner && pad)
                wrap = step * items;
            step *= packing->chunk[axis];
        }
    step = blocks(load_run * axes->item, PACK) * PACK;
    if (wrap)
        step += (step - 1) / wrap * pad;
    /* Where lanes go through the runs within a pack, those of one lie next to each other. */
    if (load_runs > 1 && !load[inner] && load_runs <= items)
        step = blocks(step, BANKS) * BANKS;
    else if (load_runs > 1)
        step = (blocks(step, word) | 1) * word;
    for (unsigned place = axes->count; place-- > 0;) {
        const unsigned axis = axes->output[place];
        if (store[axis] && !load[axis]) {
            packing->place[axis] = step;
            step *= packing->chunk[axis];
            if (axis == inner)
                step += packing->chunk[axis] / items * pad;
        }
    }
    plan->pad = (uint32_t)pad;
    plan->run_pad = load[inner] ? 0 : plan->pad;
    plan->wrap_magic = wrap ? magic(wrap) : 0;
    return step;
}

/* How items of a run of the store follow each other: by two steps, or by a table. */
static void list_items(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const uint64_t items = PACK / axes->item;
    uint64_t extent[2] = {1, 1}, step[2] = {0, 0};
    unsigned count = 0;
    for (unsigned place = axes->count; place-- > 0;) {
        const unsigned axis = axes->output[place];
        if (!packing->store.has[axis])
            continue;
        list(packing, packing->chunk[axis], packing->place[axis], 0);
        if (count < 2) {
            extent[count] = packing->chunk[axis];
            step[count] = packing->place[axis];
        }
        count++;
    }
    if (plan->pad && count == 1) {
        extent[0] = items;
        step[1] = items * step[0] + plan->pad;
    } else if (plan->pad || count > 2) {
        plan->packs = (uint32_t)blocks(plan->run_most, items);
        return;
    }
    plan->item_step = (uint32_t)step[0];
    plan->item_extent = (uint32_t)(plan->run_most + items); /* never */
    if (extent[0] > 1 && step[1]) {
        plan->item_extent = (uint32_t)extent[0];
        plan->item_magic = magic(extent[0]);
        plan->item_jump = (uint32_t)(step[1] - extent[0] * step[0]);
    }
}

/* The tile, and the tables that say where its runs and their items are. */
static bool list_tile(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const bool *load = packing->load.has, *store = packing->store.has;
    const struct extents load_run = count(packing, false, load, NULL, TRANSPOSE_LOAD_RUN);
    const struct extents load_runs = count(packing, true, store, load, TRANSPOSE_LOAD_RUNS);
    const struct extents run = count(packing, true, store, NULL, TRANSPOSE_RUN);
    const struct extents runs = count(packing, false, load, store, TRANSPOSE_RUNS);
    if (load_run.most * load_runs.most * axes->item > packing->tile_bytes)
        return false;
    plan->load_run_most = (uint32_t)load_run.most;
    plan->load_runs_most = (uint32_t)load_runs.most;
    plan->run_most = (uint32_t)run.most;
    plan->runs_most = (uint32_t)runs.most;
    plan->load_run = (uint32_t)load_run.inner;
    plan->load_runs = (uint32_t)load_runs.inner;
    plan->run = (uint32_t)run.inner;
    plan->runs = (uint32_t)runs.inner;
    plan->tile_bytes = (uint32_t)lay_out(packing, load_run.most, load_runs.most);
    for (unsigned place = axes->count; place-- > 0;) {
        const unsigned axis = axes->output[place];
        if (store[axis] && !load[axis])
            list(packing, packing->chunk[axis], axes->in[axis], packing->place[axis]);
    }
    plan->load_axes = packing->listed - plan->grid_axes;
    for (unsigned axis = axes->count; axis-- > 0;)
        if (load[axis] && !store[axis])
            list(packing, packing->chunk[axis], packing->place[axis], axes->out[axis]);
    plan->run_axes = packing->listed - plan->grid_axes - plan->load_axes;
    list_items(packing);
    plan->item_axes = packing->listed - plan->grid_axes - plan->load_axes - plan->run_axes;
    const uint64_t tables = TRANSPOSE_PART_BYTES + (load_runs.most + runs.most) * 12 +
                            (uint64_t)plan->packs * (PACK / axes->item) * 2;
    plan->table_bytes = (uint32_t)(blocks(tables, PACK) * PACK);
    return plan->tiles && packing->listed <= TRANSPOSE_AXES_MAX &&
           plan->table_bytes + (uint64_t)plan->tile_bytes <= SHARED_BYTES;
}

/* Tiles of runs of about so many items. False if they take too much shared memory. */
static bool pack_tiles(const struct axes *axes, uint64_t items, uint64_t tile_bytes,
                       struct transpose_plan *plan) {
    struct packing packing = {.axes = axes, .plan = plan, .tile_bytes = tile_bytes};
    *plan = (struct transpose_plan){.shape = TRANSPOSE_PACKED, .items = axes->items};
    take(&packing, false, items);
    take(&packing, true, items);
    list_grid(&packing);
    return list_tile(&packing);
}

/* Whether the tiles' runs begin where packs do, in the input and in the output. */
static void find_packs(const struct axes *axes, const uint64_t *arrays,
                       struct transpose_plan *plan) {
    const struct transpose_axis *load = plan->axes + plan->grid_axes;
    const struct transpose_axis *runs = load + plan->load_axes;
    const uint64_t items = PACK / axes->item;
    uint64_t in = arrays[0], out = arrays[1];
    for (unsigned k = 0; k < plan->grid_axes; k++) {
        in |= plan->axes[k].in * axes->item;
        out |= plan->axes[k].out * axes->item;
    }
    for (unsigned k = 0; k < plan->load_axes; k++)
        in |= load[k].in * axes->item;
    for (unsigned k = 0; k < plan->run_axes; k++)
        out |= runs[k].out * axes->item;
    plan->loads_packs = in % PACK == 0;
    plan->stores_packs = out % PACK == 0;
    plan->load_magic = magic(blocks(plan->load_run_most, items));
    plan->store_magic = magic(blocks(plan->run_most + (plan->stores_packs ? 0 : items - 1), items));
}

/* The longest runs whose tiles fit, within an eighth. */
static bool plan_packed(const struct axes *axes, const uint64_t *arrays, unsigned multiprocessors,
                        struct transpose_plan *plan) {
    const uint64_t share = axes->items * axes->item / (multiprocessors * BLOCKS);
    const uint64_t tile_bytes = most(least(share, TILE_BYTES), TILE_LEAST);
    struct transpose_plan longer;
    uint64_t items = 0; /* of the runs of those found */
    for (uint64_t more = RUN_LEAST; more <= TILE_BYTES; more *= 2) {
        /* Shorter runs may make too many tiles, longer ones too large ones. */
        const bool fits = pack_tiles(axes, more, tile_bytes, &longer);
        if (fits) {
            *plan = longer;
            items = more;
        }
        if ((!fits && items) || more >= axes->items)
            break;
    }
    if (!items)
        return false;
    for (uint64_t eighth = 15; eighth > 8; eighth--)
        if (pack_tiles(axes, items * eighth / 8, tile_bytes, &longer)) {
            *plan = longer;
            break;
        }
    find_packs(axes, arrays, plan);
    return true;
}

/* --- the rung that takes any axes */

static unsigned shared_bytes(const struct transpose_plan *plan, size_t item) {
    const enum transpose_shape shape = (enum transpose_shape)plan->shape;
    const uint64_t rows = tile_rows(shape, plan->in_place, item);
    const uint64_t columns = tile_columns(shape, plan->in_place, item);
    if (shape == TRANSPOSE_ROWS)
        return 0;
    if (shape == TRANSPOSE_PACKED)
        return plan->table_bytes + plan->tile_bytes;
    if (plan->in_place) /* two tiles, of packs or of items */
        return (unsigned)(2 * rows * (columns * item + PACK));
    if (shape == TRANSPOSE_PHASED)
        return (unsigned)((rows * item + SECTOR) / most(item, 4) * most(item, 4) *
                          (item == 1 ? 128 : 64));
    return (unsigned)(rows * (columns * item + PACK));
}

/* The rung's kernel for items of another size. */
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

static enum status plan_any(struct ops_queue *queue, const struct ops_choice *choice,
                            struct axes *axes, struct ops_plan *whole) {
    struct ops_step *step = &whole->steps[0];
    struct transpose_plan *plan = (struct transpose_plan *)whole->wide;
    const uint64_t addresses = step->values[0] | step->values[1];
    const bool in_place = step->values[0] == step->values[1];
    uint64_t grid = 0, strips = 1;
    widen(axes, addresses);
    if (axes->count == 0) { /* one item */
        axes->count = 1;
        axes->extent[0] = axes->in[0] = axes->out[0] = axes->items = 1;
        axes->output[0] = 0;
    }
    if (moves_rows(axes)) {
        if (in_place && axes->count > 1)
            return status_fail(STATUS_BAD_VALUE, "out: only square matrices are turned in place");
        plan_rows(axes, plan);
        grid = blocks(plan->items,
                      (uint64_t)choice->block *
                          (axes->item == PACK ? TRANSPOSE_ROW_PACKS : TRANSPOSE_ROW_ITEMS));
    } else {
        plan_matrix(axes, addresses, plan);
        plan->in_place = in_place;
        if (in_place && !is_square_batch(plan))
            return status_fail(STATUS_BAD_VALUE, "out: only square matrices are turned in place");
        grid = count_tiles(axes->item, step->values[0], plan);
        if (grid)
            strips = blocks(plan->all_row_tiles, plan->row_tiles);
    }
    struct transpose_plan packed;
    if (!in_place && (!grid || are_short_rows(axes)) &&
        plan_packed(axes, step->values, queue->info.multiprocessors, &packed)) {
        *plan = packed;
        grid = least(plan->tiles, (uint64_t)queue->info.multiprocessors * BLOCKS);
        strips = 1;
    }
    if (!grid)
        return status_fail(STATUS_BAD_VALUE, "axes: too many items, or axes, for one launch");

    step->takes_wide = true;
    step->block[0] = choice->block;
    step->grid[0] = (unsigned)grid;
    step->grid[1] = (unsigned)strips;
    step->shared_bytes = shared_bytes(plan, axes->item);
    return widened_kernel(queue, choice, axes->item, step);
}

/* --- the others: a matrix, or a batch of them one after the other */

static enum status plan_host(struct ops_queue *queue, const struct ops_choice *choice,
                             struct axes *axes, struct ops_plan *whole) {
    struct transpose_plan *plan = (struct transpose_plan *)whole->wide;
    struct ops_step *step = &whole->steps[0];
    step->takes_wide = true;
    widen(axes, step->values[0] | step->values[1]);
    if (axes->count == 0 || moves_rows(axes)) {
        plan_rows(axes, plan);
        return widened_kernel(queue, choice, axes->item, step);
    }
    plan_matrix(axes, 0, plan);
    plan->in_place = step->values[0] == step->values[1];
    if (plan->in_place && !is_square_batch(plan))
        return status_fail(STATUS_BAD_VALUE, "out: only square matrices are turned in place");
    return widened_kernel(queue, choice, axes->item, step);
}

static enum status plan_matrices(const struct ops_choice *choice, const struct axes *axes,
                                 struct ops_plan *whole) {
    const struct reg_rung *rung = choice->rung;
    struct ops_step *step = &whole->steps[0];
    const unsigned n = axes->count;
    /* A column alone is a matrix too, and so is an item. */
    const bool batch = n == 3 && axes->output[0] == 0 && axes->output[1] == 2;
    const bool copies = rung->flags & RUNG_CEILING;
    if (!copies && n > 1 && !(n == 2 && axes->output[0] == 1) && !batch)
        return status_fail(STATUS_BAD_VALUE,
                           "variant: rung '%s' turns matrices, and batches of them in C order; "
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
        x = blocks(rows * axes->item, (uint64_t)choice->block * PACK);
    } else if (strcmp(rung->name, "1d") == 0) {
        x = blocks(rows, choice->block);
    } else {
        /* 2d and tex count blocks over the output, one item a thread; the others tiles of the
         * input */
        const bool tiled = rung->number > 3;
        step->block[0] = TILE;
        step->block[1] = choice->block / TILE;
        x = blocks(tiled ? columns : rows, TILE);
        y = blocks(tiled ? rows : columns, tiled ? TILE : choice->block / TILE);
    }
    const uint64_t layers = blocks(y, GRID_Y);
    if (x > GRID_X || layers > GRID_Y || batches > GRID_Y / layers)
        return status_fail(STATUS_BAD_VALUE,
                           "variant: rung '%s' with block=%u cannot take %llu x %llu x %llu items; "
                           "use variant='vector' or a larger block",
                           rung->name, choice->block, (unsigned long long)batches,
                           (unsigned long long)rows, (unsigned long long)columns);
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
    if (rung->flags & RUNG_HOST)
        return plan_host(queue, choice, &axes, plan);
    if (rung->flags & RUNG_BEST)
        return plan_any(queue, choice, &axes, plan);
    return plan_matrices(choice, &axes, plan);
}
