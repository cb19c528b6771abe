/* ops_transpose_packed.c: plans tiles that are runs of memory on both sides: of a few axes in the
 * input, and of a few in the output. It chooses their extents and their layout in shared memory.
 * Knows no queue.
 */
#include "ops_transpose.h"

#define fixed(name) ops_fixed(transpose, name)

enum {
    SHARED_BYTES = 49152, /* bytes of shared memory a block, tables included */
    BANKS = 128,          /* bytes of all banks */

    /* bounds of the search for a layout without bank conflicts */
    GATHERED_AXES = 8,
    GATHERED_WARPS = 4,
    GATHERED_LANES = GATHERED_WARPS * 32,
};

/* Axes whose chunks form a tile's runs of memory, on one side. */
struct group {
    bool has[AXES_MAX];
    unsigned outermost; /* the last one included */
};
struct packing {
    const struct axes *axes;
    const uint64_t *arrays; /* addresses */
    struct transpose_plan *plan;
    struct group load, store;
    uint64_t chunk[AXES_MAX]; /* of each axis, in a tile */
    uint64_t step[AXES_MAX];  /* step of each axis in shared memory, in bytes */
    unsigned listed;          /* number of axes in the plan */
    uint64_t tile_bytes;      /* maximum */
    bool searches;            /* searches for pads without bank conflicts */
};

static unsigned axis_at(const struct axes *axes, bool output, unsigned position) {
    return output ? axes->output[position] : position;
}

/* Whether runs of the input, or of the output, begin at vectors if the chunks of their outermost
 * axis do. */
static bool begins_at_vectors(const struct packing *packing, bool output) {
    const struct axes *axes = packing->axes;
    const struct group *group = output ? &packing->store : &packing->load;
    uint64_t all = packing->arrays[output];
    for (unsigned axis = 0; axis < axes->count; axis++)
        if (!group->has[axis])
            all |= (output ? axes->out : axes->in)[axis] * axes->item;
    return all % VECTOR == 0;
}

/* Includes axes, the innermost first, until they have `items` elements; cuts the last one. A run of
 * the input is loaded with its gaps if those are short, unless it is whole vectors of narrow
 * elements with the output's innermost axis, which gaps would leave in few banks (TUNING.md T34,
 * T40). A run of the output of which few elements adjoin needs a table of their offsets within its
 * outermost axis, which stays short (T40). */
static void take(struct packing *packing, bool output, uint64_t items) {
    const struct axes *axes = packing->axes;
    struct group *group = output ? &packing->store : &packing->load;
    const uint64_t pitch = ops_transpose_gap(axes) / axes->item;
    const unsigned last = axes->output[axes->count - 1];
    const bool few = axes->extent[last] < VECTOR / axes->item;
    uint64_t taken = 1;
    for (unsigned position = axes->count; position-- > 0 && taken < items;) {
        const unsigned axis = axis_at(axes, output, position);
        const uint64_t in = axes->in[axis];
        const bool inner = position == axes->count - 1;
        const bool vectors = group->has[last] && axes->item < WORD &&
                             taken * axes->item % VECTOR == 0 && begins_at_vectors(packing, false);
        if (output ? taken > fixed(period_most) && few
                   : !inner && in != taken && (in > pitch || vectors))
            break;
        const uint64_t unit = output ? taken : in, part = ceil_div(items, unit);
        group->has[axis] = true;
        group->outermost = axis;
        packing->chunk[axis] = max_u64(packing->chunk[axis], min_u64(axes->extent[axis], part));
        taken = unit * min_u64(axes->extent[axis], part);
    }
}

static void list(struct packing *packing, uint64_t extent, uint64_t in, uint64_t out) {
    if (packing->listed < TRANSPOSE_AXES_MAX)
        packing->plan->axes[packing->listed] = (struct transpose_axis){extent, in, out};
    packing->listed++;
}

/* Granularity of a chunk in bytes; 0: none. */
static uint64_t whole_unit(uint64_t bytes) {
    return bytes >= 4 * LINE ? LINE : bytes >= 4 * SECTOR ? SECTOR : bytes >= VECTOR ? VECTOR : 0;
}

/* Cuts an axis of the grid into even chunks; runs begin at vectors, long ones at lines. */
static void list_cut(struct packing *packing, unsigned axis, struct transpose_cut *cut) {
    const struct axes *axes = packing->axes;
    const uint64_t extent = axes->extent[axis], taken = packing->chunk[axis];
    const bool vectors = (packing->store.has[axis] && begins_at_vectors(packing, true)) ||
                         (packing->load.has[axis] && begins_at_vectors(packing, false));
    const uint64_t unit = vectors ? whole_unit(taken * axes->item) / axes->item : 0;
    const uint64_t whole = unit ? taken / unit * unit : taken;
    const uint64_t even = ceil_div(extent, ceil_div(extent, whole));
    const uint64_t chunk = packing->chunk[axis] =
        unit ? min_u64(whole, ceil_div(even, unit) * unit) : even;
    *cut = (struct transpose_cut){packing->listed, (uint32_t)chunk, 0, extent};
    list(packing, ceil_div(extent, chunk), axes->in[axis] * chunk, axes->out[axis] * chunk);
}

/* Lists the grid in the output's order, so that adjacent runs of the output are stored at about the
 * same time. The chunks of the load's outermost axis come second where adjacent runs of the input
 * would be loaded too late (TUNING.md T19). */
static void list_grid(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const unsigned ends[] = {packing->store.outermost, packing->load.outermost};
    bool listed[AXES_MAX] = {false};
    uint64_t before = 1; /* tiles between adjacent runs of the input */
    for (unsigned position = 0; axes->output[axes->count - 1 - position] != ends[1]; position++) {
        const unsigned axis = axes->output[axes->count - 1 - position];
        if (!packing->load.has[axis] && !packing->store.has[axis])
            before *= axes->extent[axis];
        else if (axis == ends[0])
            before *= ceil_div(axes->extent[axis], packing->chunk[axis]);
    }
    for (unsigned k = 0; k < TRANSPOSE_CUTS; k++) {
        listed[ends[k]] = true;
        if (packing->chunk[ends[k]] >= axes->extent[ends[k]] || (k && ends[1] == ends[0]))
            continue;
        if (k && before <= fixed(near_tiles))
            listed[ends[1]] = false;
        else
            list_cut(packing, ends[k], &plan->cuts[k]);
    }
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (!listed[axis] && axis == ends[1])
            list_cut(packing, axis, &plan->cuts[1]);
        else if (!packing->load.has[axis] && !packing->store.has[axis])
            list(packing, axes->extent[axis], axes->in[axis], axes->out[axis]);
    }
    plan->grid_axes = packing->listed;
    uint64_t tiles = 1; /* 0: too many */
    for (unsigned k = 0; k < plan->grid_axes && k < TRANSPOSE_AXES_MAX; k++)
        tiles = tiles > GRID_X / plan->axes[k].extent ? 0 : tiles * plan->axes[k].extent;
    plan->tiles = (uint32_t)tiles;
}

/* Extent of the axes of a run, or of the runs: in all, and without a cut axis. */
struct extents {
    uint64_t most, inner;
};

static struct extents count(struct packing *packing, bool output, const bool *has,
                            const bool *has_not, uint32_t what) {
    struct extents found = {1, 1};
    for (unsigned position = packing->axes->count; position-- > 0;) {
        const unsigned axis = axis_at(packing->axes, output, position);
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

/* ceil(2^32 / n): the high half of its product with i is i / n, if i * n is below 2^32. For n = 1
 * it is 0. */
static uint32_t magic(uint64_t n) { return (uint32_t)((((uint64_t)1 << 32) + n - 1) / n); }

/* Pads against bank conflicts: lanes that gather adjacent vectors of the output are a vector's
 * elements apart on its innermost axis. With further axes, pads must follow each vector's elements
 * of the innermost axis and nothing else; a search may add pads that a table of a period has. */
enum pads_use { PADS_NONE, PADS_ALWAYS, PADS_TRIED };
static enum pads_use use_pads(const struct packing *packing, unsigned inner) {
    const uint64_t items = VECTOR / packing->axes->item, chunk = packing->chunk[inner];
    const bool whole = chunk % items == 0, load = packing->load.has[inner];
    unsigned others = 0;
    bool wraps = true; /* gaps of the load's runs leave the other axes at multiples of the pads' */
    for (unsigned k = 0; k < packing->axes->count; k++) {
        others += packing->store.has[k] && k != inner;
        wraps &= k >= inner || !packing->load.has[k] ||
                 packing->axes->in[k] % (packing->axes->in[inner] * items) == 0;
    }
    if (items == 1 || chunk <= items || (load && !wraps))
        return PADS_NONE;
    if (!others || (whole && (load || chunk > fixed(few_vectors) * items)))
        return PADS_ALWAYS;
    return packing->searches && others == 1 && !whole && !load && chunk <= fixed(period_most) &&
                   packing->axes->item < WORD
               ? PADS_TRIED
               : PADS_NONE;
}

/* Chooses how runs are loaded and stored, and the number of threads: aligned wide elements get
 * larger blocks (TUNING.md T9). */
static void choose_loads(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const unsigned inner = axes->output[axes->count - 1];
    const uint64_t items = VECTOR / axes->item;
    uint64_t in = packing->arrays[0], out = packing->arrays[1];
    for (unsigned k = 0; k < plan->grid_axes; k++) {
        in |= plan->axes[k].in * axes->item;
        out |= plan->axes[k].out * axes->item;
    }
    for (unsigned axis = 0; axis < axes->count; axis++) {
        const bool load = packing->load.has[axis], store = packing->store.has[axis];
        in |= store && !load ? axes->in[axis] * axes->item : 0;
        out |= load && !store ? axes->out[axis] * axes->item : 0;
    }
    plan->stores_vectors = out % VECTOR == 0;
    plan->block = (in | out) % VECTOR == 0 && axes->item >= WORD && !moves_rows(axes) ? 256 : 128;
    plan->loads = TRANSPOSE_LOADS_AROUND;
    if (in % VECTOR == 0)
        plan->loads = TRANSPOSE_LOADS_VECTORS;
    else if (packing->load.has[inner] && use_pads(packing, inner) == PADS_ALWAYS)
        plan->loads = TRANSPOSE_LOADS_CUT;
    const uint64_t before = plan->loads == TRANSPOSE_LOADS_AROUND ? items - 1 : 0;
    plan->load_magic = magic(ceil_div(plan->load_run_most + before, items));
    plan->store_magic = plan->run_most < 2 * items ? 0 : magic(plan->run_most / items);
}

/* Padding of a tile in shared memory: bytes after a vector's elements of the output's innermost
 * axis, extra bytes between the load's runs, and bytes after each element of another axis
 * (`skewed_axis`). With `vectors` the load's runs begin at vectors. */
struct pads {
    uint64_t pad, more, skew;
    bool vectors;
};

/* Lays out the load's runs: each begins at a word or, for TRANSPOSE_LOADS_AROUND, at its offset
 * within a vector in the input, in vectors of its own. */
static void lay_runs(struct packing *packing, struct pads pads, uint64_t wrap) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const unsigned inner = axes->output[axes->count - 1];
    const bool around = plan->loads == TRANSPOSE_LOADS_AROUND, runs = plan->load_runs_most > 1;
    const uint64_t word = pads.vectors ? VECTOR : max_u64(axes->item, WORD);
    const uint64_t items = VECTOR / axes->item;
    uint64_t step = ceil_div(plan->load_run_most * axes->item, VECTOR) * VECTOR;
    uint64_t all = plan->wrap_pad | (wrap ? 0 : pads.pad);
    if (wrap)
        step += (step - 1) / wrap * plan->wrap_pad;
    if (around)
        step = plan->load_run_most * axes->item + 2 * (VECTOR - axes->item) + pads.more;
    else if (runs && !packing->load.has[inner] && plan->load_runs_most <= items)
        /* Lanes cross the runs of one vector first: these must be adjacent. */
        step = ceil_div(step, BANKS) * BANKS + pads.more;
    else if (runs)
        step = (ceil_div(step, word) | 1) * word + pads.more;
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (packing->store.has[axis] && !packing->load.has[axis]) {
            step += around ? (axes->in[axis] * axes->item - step) % VECTOR : 0;
            packing->step[axis] = step;
            all |= step;
            step *= packing->chunk[axis];
            if (axis == inner)
                step += packing->chunk[axis] / items * pads.pad;
        }
    }
    plan->tile_bytes = (uint32_t)(around ? ceil_div(step, VECTOR) * VECTOR + VECTOR : step);
    plan->puts_vectors = all % VECTOR == 0;
}

/* The axis of the load's runs whose elements a gathering lane crosses first, if these are whole
 * vectors; the number of axes if there is none. */
static unsigned skewed_axis(const struct packing *packing) {
    const struct axes *axes = packing->axes;
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (!packing->load.has[axis])
            continue;
        bool whole = axes->in[axis] * axes->item % VECTOR == 0;
        for (unsigned k = 0; k < axis; k++)
            whole &= !packing->load.has[k] || axes->in[k] % axes->in[axis] == 0;
        return whole && packing->chunk[axis] > 1 ? axis : axes->count;
    }
    return axes->count;
}

/* Lays out the axes of a tile in shared memory: sets their steps. */
static void lay_out(struct packing *packing, struct pads pads) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const unsigned inner = axes->output[axes->count - 1];
    const bool wraps = packing->load.has[inner] && pads.pad;
    const unsigned skewed = pads.skew ? skewed_axis(packing) : axes->count;
    uint64_t wrap = 0; /* bytes of a load's run between pads */
    plan->wrap_pad = (uint32_t)(wraps ? pads.pad : pads.skew);
    for (unsigned axis = axes->count; axis-- > 0;)
        if (packing->load.has[axis]) {
            const uint64_t step = axes->in[axis] * axes->item;
            if (axis == skewed)
                wrap = step;
            packing->step[axis] = wrap ? step + step / wrap * plan->wrap_pad : step;
            if (axis == inner && wraps)
                wrap = step * (VECTOR / axes->item);
        }
    lay_runs(packing, pads, wrap);
    plan->pad = (uint32_t)pads.pad;
    plan->run_pad = wraps ? 0 : plan->pad;
    plan->wrap_magic = wrap ? magic(wrap) : 0;
}

/* The elements that the lanes of a few warps gather first: index along each axis, and its vector
 * along the innermost one. */
struct gathered {
    unsigned axes[GATHERED_AXES], count, lanes;
    uint32_t index[GATHERED_LANES][GATHERED_AXES], vectors[GATHERED_LANES];
};

/* Adds `axis`: its index for lane `lane` is `*rest` modulo its extent. */
static uint32_t take_index(const struct packing *packing, struct gathered *gathered, unsigned axis,
                           unsigned k, unsigned lane, uint32_t *rest) {
    const uint32_t extent = (uint32_t)packing->chunk[axis], here = *rest % extent;
    gathered->axes[k] = axis;
    gathered->index[lane][k] = here;
    *rest /= extent;
    return here;
}

/* Returns false if too many axes determine the addresses. */
static bool find_gathered(const struct packing *packing, struct gathered *gathered) {
    enum { WARPS_APART = 37 };
    const struct axes *axes = packing->axes;
    const struct transpose_plan *plan = packing->plan;
    const uint32_t items = VECTOR / (uint32_t)axes->item;
    const uint32_t vectors = plan->run_most < items ? 1 : plan->run_most / items;
    const unsigned inner = axes->output[axes->count - 1];
    const unsigned lanes = BANKS / (axes->item < WORD ? WORD : (unsigned)axes->item);
    const uint32_t adjacent = lanes / plan->streams;
    const uint32_t share = (uint32_t)ceil_div(vectors * plan->runs_most, plan->streams);
    unsigned involved = 0;
    for (unsigned axis = 0; axis < axes->count; axis++)
        involved += packing->load.has[axis] || packing->store.has[axis];
    gathered->lanes = GATHERED_WARPS * lanes;
    gathered->count = 0;
    if (involved > GATHERED_AXES)
        return false;
    for (unsigned lane = 0; lane < gathered->lanes; lane++) {
        const uint32_t vector =
            lane % adjacent + lane % lanes / adjacent * share + lane / lanes * WARPS_APART;
        uint32_t run = vector / vectors, to = (uint32_t)(packing->arrays[1] / axes->item);
        unsigned k = 0;
        for (unsigned axis = axes->count; axis-- > 0;)
            if (packing->load.has[axis] && !packing->store.has[axis])
                to += take_index(packing, gathered, axis, k++, lane, &run) *
                      (uint32_t)axes->out[axis];
        uint32_t item =
            vector % vectors * items + (0 - to) % items + lane / lanes * items / GATHERED_WARPS;
        for (unsigned position = axes->count; position-- > 0;) {
            const unsigned axis = axes->output[position];
            if (!packing->store.has[axis])
                continue;
            const uint32_t here = take_index(packing, gathered, axis, k++, lane, &item);
            gathered->vectors[lane] = axis == inner ? here / items : gathered->vectors[lane];
        }
        gathered->count = k;
    }
    return true;
}

/* Sum over these warps of the maximum number of words that one bank serves. */
static unsigned bank_conflicts(const struct packing *packing, const struct gathered *gathered) {
    const uint32_t word = packing->axes->item < WORD ? WORD : (uint32_t)packing->axes->item;
    const unsigned lanes = gathered->lanes / GATHERED_WARPS;
    uint32_t words[BANKS / WORD][BANKS / WORD], steps[GATHERED_AXES];
    unsigned conflicts = 0;
    for (unsigned k = 0; k < gathered->count; k++)
        steps[k] = (uint32_t)packing->step[gathered->axes[k]];
    for (unsigned warp = 0; warp < GATHERED_WARPS; warp++) {
        unsigned found[BANKS / WORD] = {0}, most_found = 0;
        for (unsigned lane = warp * lanes; lane < (warp + 1) * lanes; lane++) {
            uint32_t at = gathered->vectors[lane] * packing->plan->pad;
            for (unsigned k = 0; k < gathered->count; k++)
                at += gathered->index[lane][k] * steps[k];
            const uint32_t asked = at / word;
            const unsigned bank = asked % lanes;
            bool again = false;
            for (unsigned k = 0; k < found[bank]; k++)
                again |= words[bank][k] == asked;
            if (!again)
                words[bank][found[bank]++] = asked;
            most_found = found[bank] > most_found ? found[bank] : most_found;
        }
        conflicts += most_found;
    }
    return conflicts;
}

/* Wavefronts of shared memory for a vector that is loaded and gathered, with this layout. */
static unsigned wavefronts(const struct packing *packing, const struct gathered *gathered,
                           bool tried) {
    const unsigned item = (unsigned)packing->axes->item, words = VECTOR / max_u64(item, WORD);
    const bool whole =
        packing->plan->puts_vectors || packing->plan->loads == TRANSPOSE_LOADS_AROUND;
    const unsigned pairs = tried && packing->plan->pad ? VECTOR / item : 0;
    return bank_conflicts(packing, gathered) * (VECTOR / item) / GATHERED_WARPS + pairs +
           (whole ? VECTOR / WORD : words * VECTOR / WORD);
}

/* A search for few bank conflicts: how pads are used, and the layouts to try. */
struct layout_search {
    enum pads_use use;
    bool skews, runs, around;
    unsigned layouts;
};

/* Pads number `k` of a search. */
static struct pads pads_of(const struct packing *packing, const struct layout_search *search,
                           unsigned k) {
    const bool tried = search->use == PADS_TRIED, pads = search->use != PADS_NONE;
    if (search->around)
        return (struct pads){.pad = pads ? k % 2 * VECTOR : 0, .more = (pads ? k / 2 : k) * VECTOR};
    const bool vectors = tried ? k / 2 % 2 == 0 : !pads && k % 2 == 0;
    const uint64_t of = vectors ? VECTOR : max_u64(packing->axes->item, WORD);
    const unsigned before = tried ? 4 : pads ? 1 : search->skews ? 6 : 2;
    struct pads now = {.vectors = vectors, .skew = search->skews ? k % 3 * of : 0};
    if (pads)
        now.pad = (tried ? k % 2 : search->runs ? 1 : 1 + k) * of;
    if (search->runs)
        now.more = 2 * (k / before) * of;
    return now;
}

/* Searches for pads, and streams of narrow elements, which cost parts of sectors; `best` remains if
 * nothing was searched. */
static void search_layouts(struct packing *packing, const struct layout_search *search,
                           struct pads *best) {
    struct transpose_plan *plan = packing->plan;
    const unsigned items = (unsigned)(VECTOR / packing->axes->item);
    const unsigned least = items + VECTOR / WORD; /* wavefronts, without conflicts */
    const bool streams = packing->axes->item < WORD && plan->run_most >= items;
    const unsigned most = streams ? fixed(streams) : 1;
    unsigned fewest = ~0u, found_streams = 1, cost = 0;
    struct pads found_pads = *best;
    struct gathered gathered;
    for (plan->streams = 1; plan->streams <= most && most + search->layouts > 2;
         plan->streams *= 2, cost += fixed(stream_cost)) {
        if (!find_gathered(packing, &gathered))
            break;
        for (unsigned k = 0; k < search->layouts && fewest > least; k++) {
            const struct pads now = search->layouts > 1 ? pads_of(packing, search, k) : *best;
            lay_out(packing, now);
            const unsigned found = wavefronts(packing, &gathered, search->use == PADS_TRIED) + cost;
            if (found < fewest) {
                fewest = found;
                found_pads = now;
                found_streams = plan->streams;
            }
        }
    }
    *best = found_pads;
    plan->streams = found_streams;
    plan->stream_lanes = 32 / found_streams;
}

/* Lays out the axes; for large arrays it searches for a layout with few bank conflicts (TUNING.md
 * T10, T20, T42). */
static void choose_pads(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const unsigned inner = axes->output[axes->count - 1];
    struct layout_search search = {.use = use_pads(packing, inner),
                                   .runs = plan->load_runs_most > 1,
                                   .around = plan->loads == TRANSPOSE_LOADS_AROUND,
                                   .layouts = 1};
    const bool always = search.use == PADS_ALWAYS;
    search.skews = !search.around && search.use == PADS_NONE && !packing->load.has[inner] &&
                   skewed_axis(packing) < axes->count &&
                   packing->chunk[inner] <= VECTOR / axes->item;
    if (search.use != PADS_NONE || search.runs)
        search.layouts = fixed(layouts) * (search.skews ? 3 : search.use == PADS_TRIED ? 2 : 1);
    struct pads best = {.pad = always && !search.around ? max_u64(axes->item, WORD) : 0};
    plan->streams = 1;
    plan->stream_lanes = 32;
    lay_out(packing, best);
    /* Lanes that gather adjacent vectors are then an odd number of vectors apart. */
    if (search.around && always && packing->step[inner] * (VECTOR / axes->item) / VECTOR % 2 == 0)
        best.pad = VECTOR;
    if (packing->searches)
        search_layouts(packing, &search, &best);
    lay_out(packing, best);
}

/* Describes the offsets of a store run's elements: segments of at least a vector, or two steps, or
 * a table of a period (see `take`). */
static void list_items(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const uint64_t items = VECTOR / axes->item,
                   outermost = packing->chunk[packing->store.outermost];
    uint64_t inner = 0, step = 0; /* along the innermost axis */
    unsigned count = 0;
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (!packing->store.has[axis])
            continue;
        list(packing, packing->chunk[axis], packing->step[axis], 0);
        if (count++ == 0) {
            inner = packing->chunk[axis];
            step = packing->step[axis];
        }
    }
    const uint64_t period = plan->run_most / outermost;
    const bool unrolled = inner == 2 || inner == 3 || inner == 4 || inner == 8;
    plan->item_step = (uint32_t)step;
    plan->item_jump = (uint32_t)packing->step[packing->store.outermost];
    if (count == 1 || (plan->pad ? inner % items == 0 : inner >= items)) {
        plan->item_extent = (uint32_t)(plan->pad ? items : inner);
        plan->in_segments = true;
        if (count == 1)
            plan->item_jump = (uint32_t)(plan->item_extent * step + plan->pad);
        else if (count > 2 || plan->pad)
            plan->segments = (uint32_t)ceil_div(plan->run_most, plan->item_extent) + 1;
    } else if (count == 2 && !plan->pad && unrolled) {
        plan->item_extent = (uint32_t)inner;
        plan->item_jump -= (uint32_t)(inner * step);
    } else {
        plan->item_extent = (uint32_t)period;
        plan->period = (uint32_t)(period + items);
    }
    plan->item_magic = magic(plan->item_extent);
    /* The last vector of a run, unless whole, is gathered with elements before it. */
    const bool ends = axes->extent[axes->output[axes->count - 1]] % items == 0;
    plan->segments_whole = plan->item_extent >= plan->run_most ||
                           (plan->stores_vectors && plan->item_extent % items == 0 && ends);
}

/* Lists the tile, and the tables with the offsets of its runs and of their elements. */
static bool list_tile(struct packing *packing) {
    const struct axes *axes = packing->axes;
    struct transpose_plan *plan = packing->plan;
    const bool *load = packing->load.has, *store = packing->store.has;
    const struct extents load_run = count(packing, false, load, NULL, TRANSPOSE_LOAD_RUN);
    const struct extents load_runs = count(packing, true, store, load, TRANSPOSE_LOAD_RUNS);
    const struct extents run = count(packing, true, store, NULL, TRANSPOSE_RUN);
    const struct extents runs = count(packing, false, load, store, TRANSPOSE_RUNS);
    /* With gaps */
    const uint64_t pitch = axes->in[packing->load.outermost];
    const uint64_t load_most = pitch * packing->chunk[packing->load.outermost];
    if (load_most * load_runs.most * axes->item > packing->tile_bytes)
        return false;
    plan->load_run_most = (uint32_t)load_most;
    plan->load_runs_most = (uint32_t)load_runs.most;
    plan->run_most = (uint32_t)run.most;
    plan->runs_most = (uint32_t)runs.most;
    plan->load_run = (uint32_t)(load_run.inner == load_run.most ? load_most : pitch);
    plan->load_runs = (uint32_t)load_runs.inner;
    plan->run = (uint32_t)run.inner;
    plan->runs = (uint32_t)runs.inner;
    choose_loads(packing);
    choose_pads(packing);
    for (unsigned position = axes->count; position-- > 0;) {
        const unsigned axis = axes->output[position];
        if (store[axis] && !load[axis])
            list(packing, packing->chunk[axis], axes->in[axis], packing->step[axis]);
    }
    plan->load_axes = packing->listed - plan->grid_axes;
    for (unsigned axis = axes->count; axis-- > 0;)
        if (load[axis] && !store[axis])
            list(packing, packing->chunk[axis], packing->step[axis], axes->out[axis]);
    plan->run_axes = packing->listed - plan->grid_axes - plan->load_axes;
    list_items(packing);
    plan->item_axes = packing->listed - plan->grid_axes - plan->load_axes - plan->run_axes;
    const uint64_t pairs = ceil_div(plan->period, TRANSPOSE_PAIRS) * TRANSPOSE_PAIRS_PITCH;
    const uint64_t tables = TRANSPOSE_PART_BYTES + (load_runs.most + runs.most) * 12 +
                            (uint64_t)plan->segments * 2 + pairs * 4;
    plan->table_bytes = (uint32_t)(ceil_div(tables, VECTOR) * VECTOR);
    return plan->tiles && packing->listed <= TRANSPOSE_AXES_MAX &&
           plan->table_bytes + (uint64_t)plan->tile_bytes <= SHARED_BYTES;
}

/* Plans tiles of runs of about these numbers of elements of the input and of the output. Returns
 * false if they need too much shared memory. */
static bool pack_tiles(const struct axes *axes, const uint64_t *arrays, uint64_t load,
                       uint64_t store, uint64_t tile_bytes, bool searches,
                       struct transpose_plan *plan) {
    struct packing packing = {.axes = axes,
                              .arrays = arrays,
                              .plan = plan,
                              .tile_bytes = tile_bytes,
                              .searches = searches};
    *plan = (struct transpose_plan){
        .shape = TRANSPOSE_PACKED, .items = axes->items, .reach = axes->reach};
    take(&packing, false, load);
    take(&packing, true, store);
    list_grid(&packing);
    return list_tile(&packing);
}

/* Finds the longest runs whose tiles fit, to an eighth; returns their number of elements, 0 if none
 * fit. */
static uint64_t longest_runs(const struct axes *axes, const uint64_t *arrays, uint64_t tile_bytes,
                             struct transpose_plan *plan) {
    struct transpose_plan longer;
    uint64_t items = 0;
    for (uint64_t more = fixed(run_least); more <= tile_bytes; more *= 2) {
        /* Shorter runs may make too many tiles, longer ones too large ones. */
        const bool fits = pack_tiles(axes, arrays, more, more, tile_bytes, false, &longer);
        if (fits) {
            *plan = longer;
            items = more;
        }
        if ((!fits && items) || more >= axes->items)
            break;
    }
    for (uint64_t eighth = 15; items && eighth > 8; eighth--) {
        const uint64_t more = items * eighth / 8;
        if (pack_tiles(axes, arrays, more, more, tile_bytes, false, &longer)) {
            *plan = longer;
            return more;
        }
    }
    return items;
}

/* Estimated time of a large array's tiles beyond a copy's, in 1/65536 of that: ends of runs cost
 * it, tables of elements, and tiles that are small, or leave few for others (TUNING.md T45). */
static uint64_t cost_of(const struct axes *axes, const struct transpose_plan *plan) {
    enum { COPY = 65536 };
    const uint64_t bytes = plan->table_bytes + plan->tile_bytes;
    const uint64_t end = plan->stores_vectors ? fixed(packed_store) : fixed(packed_part);
    return (COPY * fixed(packed_load) / plan->load_run_most + COPY * end / plan->run_most) /
               axes->item +
           COPY * (fixed(packed_tile) + fixed(packed_entry) * (plan->segments + plan->period)) /
               bytes +
           (bytes - min_u64(bytes, fixed(packed_bytes))) / fixed(packed_share);
}

/* The same beside a copy by other tiles, from other measured times: what a tile costs is shared by
 * the bytes it moves, gaps that are loaded cost time, and so do lanes that meet in few banks
 * (TUNING.md T51). */
static uint64_t compared_cost(const struct axes *axes, const struct transpose_plan *plan) {
    enum { COPY = 65536, MEET = 8, GAPS = 5 };
    const uint64_t item = axes->item, bytes = plan->table_bytes + plan->tile_bytes;
    const uint64_t moved = (uint64_t)plan->run_most * plan->runs_most;
    const uint64_t gaps = (uint64_t)plan->load_run_most * plan->load_runs_most - moved;
    const uint64_t end = plan->stores_vectors ? fixed(packed_store) : fixed(packed_part);
    /* Bytes between adjacent lanes, the number of these in a row, and how many meet in a bank. */
    const uint64_t apart = VECTOR / item * plan->item_step + plan->pad;
    const uint64_t lanes = min_u64(BANKS / item, max_u64(1, plan->item_extent * item / VECTOR));
    const bool meet = lanes * min_u64(apart & (~apart + 1), BANKS) > MEET * BANKS;
    return COPY * end / plan->run_most / item + COPY * gaps / moved / GAPS + (meet ? COPY : 0) +
           COPY *
               (fixed(packed_load) * plan->load_runs_most + fixed(compared_tile) +
                fixed(compared_entry) * (plan->segments + plan->period)) /
               (moved * item) +
           (bytes - min_u64(bytes, fixed(packed_bytes))) / fixed(packed_share);
}

/* Finds tiles of less cost for a large array, with runs of an eighth to eight times `items`.
 * Unaligned runs get larger tiles: fewer vectors straddle two of them (TUNING.md T8). */
static void best_runs(const struct axes *axes, const uint64_t *arrays, uint64_t items,
                      struct transpose_plan *plan) {
    enum { EIGHTH = 8, MOST = EIGHTH * 8 };
    const bool begins_anywhere = plan->loads != TRANSPOSE_LOADS_VECTORS || !plan->stores_vectors;
    const uint64_t half = begins_anywhere && axes->item <= WORD ? fixed(tile_bytes) / 2 : 0;
    const uint64_t tile_bytes = fixed(tile_bytes) + half;
    const uint64_t longer = half ? longest_runs(axes, arrays, tile_bytes, plan) : 0;
    items = longer ? longer : items;
    uint64_t best_load = items, best_store = items, cost = cost_of(axes, plan);
    struct transpose_plan other;
    cost -= min_u64(cost, fixed(packed_gain)); /* less is not worth other tiles */
    for (uint64_t load = 1; load <= MOST; load += ceil_div(load, 2))
        for (uint64_t store = 1; store <= MOST && axes->item >= WORD; store += ceil_div(store, 2)) {
            const uint64_t of_load = items * load / EIGHTH, of_store = items * store / EIGHTH;
            if (!of_load || !of_store || load * store > 4 * MOST ||
                !pack_tiles(axes, arrays, of_load, of_store, tile_bytes, false, &other) ||
                cost_of(axes, &other) >= cost)
                continue;
            cost = cost_of(axes, &other);
            best_load = of_load, best_store = of_store;
        }
    if (pack_tiles(axes, arrays, best_load, best_store, tile_bytes, true, &other))
        *plan = other;
}

uint64_t ops_transpose_pack(const struct axes *axes, const uint64_t *arrays,
                            unsigned multiprocessors, struct transpose_plan *plan) {
    const uint64_t bytes = axes->items * last_step(axes) * axes->item,
                   share = bytes / (multiprocessors * fixed(blocks));
    uint64_t tile_bytes = max_u64(min_u64(share, fixed(tile_bytes)), fixed(tile_least));
    uint64_t items = longest_runs(axes, arrays, tile_bytes, plan);
    /* The shortest runs of wide elements may exceed a block's chunk. */
    while (!items && tile_bytes < fixed(tile_bytes)) {
        tile_bytes *= 2;
        items = longest_runs(axes, arrays, tile_bytes, plan);
    }
    if (items && bytes >= fixed(large))
        best_runs(axes, arrays, items, plan);
    return items ? compared_cost(axes, plan) : UINT64_MAX;
}
