// transpose_packed.cuh: the transpose of any axes by tiles that are runs of memory on both sides,
// of any axes and chunks of axes; ops_transpose_packed.c chooses them. Memory is read and written
// in vectors where possible; in between, elements lie in words, from which a thread gathers a
// vector of the output. A block keeps tables with the offsets of a tile's runs and, if necessary,
// of its elements, for all its tiles. Knows no rung.
#pragma once

#include "transpose_loads.cuh"

namespace transpose {

// Iterates over parts of runs, `parts` a run, `blockDim.x` at a time, without division.
struct run_walk {
    unsigned parts, run, part, run_step, part_step;

    // `magic`: ceil(2^32 / parts); 0: divide.
    __device__ run_walk(unsigned parts, unsigned magic) : parts(parts) {
        if (magic) {
            run = __umulhi(threadIdx.x, magic);
            run_step = __umulhi(blockDim.x, magic);
        } else {
            run = threadIdx.x / parts;
            run_step = blockDim.x / parts;
        }
        part = threadIdx.x - run * parts;
        part_step = blockDim.x - run_step * parts;
    }
    __device__ void next() {
        run += run_step;
        part += part_step;
        if (part >= parts) {
            part -= parts;
            run++;
        }
    }
};

// Offsets of element `index` along some axes, the innermost first; on the first axis `pad` is added
// after each vector's elements.
struct steps {
    uint64 in = 0, out = 0;
    unsigned pads = 0;
    __device__ steps(const transpose_axis *axes, unsigned count, unsigned index, unsigned items) {
#pragma unroll 1
        for (unsigned k = 0; k < count; k++) {
            const unsigned extent = static_cast<unsigned>(axes[k].extent), at = index % extent;
            in += at * axes[k].in;
            out += at * axes[k].out;
            pads += k == 0 ? at / items : 0;
            index /= extent;
        }
    }
};

// A tile: its first element, and its extents.
struct packed_tile {
    uint64 in = 0, out = 0;
    unsigned load_run, load_runs, run, runs;

    __device__ packed_tile(const transpose_plan &plan, unsigned index)
        : load_run(plan.load_run), load_runs(plan.load_runs), run(plan.run), runs(plan.runs) {
#pragma unroll 1
        for (unsigned k = 0; k < plan.grid_axes; k++) {
            const unsigned extent = static_cast<unsigned>(plan.axes[k].extent);
            const unsigned at = index % extent;
            index /= extent;
            in += at * plan.axes[k].in;
            out += at * plan.axes[k].out;
            for (const transpose_cut &cut : plan.cuts)
                if (cut.extent && cut.axis == k) {
                    const uint64 left = cut.extent - static_cast<uint64>(at) * cut.chunk;
                    const unsigned here = least(left, cut.chunk);
                    load_run *= cut.scales & TRANSPOSE_LOAD_RUN ? here : 1;
                    load_runs *= cut.scales & TRANSPOSE_LOAD_RUNS ? here : 1;
                    run *= cut.scales & TRANSPOSE_RUN ? here : 1;
                    runs *= cut.scales & TRANSPOSE_RUNS ? here : 1;
                }
        }
    }
};

static_assert(sizeof(packed_tile) == TRANSPOSE_PART_BYTES);

// The block's tables, followed by the tile. Offsets in the tile are in bytes.
struct packed_tables {
    packed_tile *part;
    uint64 *from,
        *to; // first elements of the load's runs in the input; of the store's, in the output
    unsigned *base, *slot; // and both in the tile
    // Offsets of elements in the store's runs: the first of each segment, or those of a period, in
    // pairs.
    unsigned short *items;
    char *tile;

    template <unsigned Items> __device__ static packed_tables filled(const transpose_plan &plan) {
        packed_tables t;
        t.part = shared_memory<packed_tile>();
        t.from = reinterpret_cast<uint64 *>(t.part + 1);
        t.to = t.from + plan.load_runs_most;
        t.base = reinterpret_cast<unsigned *>(t.to + plan.runs_most);
        t.slot = t.base + plan.load_runs_most;
        t.items = reinterpret_cast<unsigned short *>(t.slot + plan.runs_most);
        t.tile = shared_memory<char>() + plan.table_bytes;

        const transpose_axis *load_axes = plan.axes + plan.grid_axes;
        const transpose_axis *run_axes = load_axes + plan.load_axes;
        const transpose_axis *item_axes = run_axes + plan.run_axes;
#pragma unroll 1
        for (unsigned k = threadIdx.x; k < plan.load_runs_most; k += blockDim.x) {
            const steps run(load_axes, plan.load_axes, k, Items);
            t.from[k] = run.in;
            t.base[k] = static_cast<unsigned>(run.out) + run.pads * plan.run_pad;
        }
#pragma unroll 1
        for (unsigned k = threadIdx.x; k < plan.runs_most; k += blockDim.x) {
            const steps run(run_axes, plan.run_axes, k, Items);
            t.slot[k] = static_cast<unsigned>(run.in);
            t.to[k] = run.out;
        }
#pragma unroll 1
        for (unsigned k = threadIdx.x; k < plan.segments + plan.period; k += blockDim.x) {
            const unsigned number = plan.period ? k : k * plan.item_extent;
            const steps item(item_axes, plan.item_axes, number, Items);
            const auto offset = static_cast<unsigned short>(item.in + item.pads * plan.pad);
            if (plan.period)
                t.put_pairs(k, plan.period, offset);
            else
                t.items[k] = offset;
        }
        return t;
    }

    // The pairs of a period: word k has the offsets of elements k and k + 1. Each row repeats the
    // first words of the next one, so that a vector's words lie in one row, at a fixed distance.
    // Lanes that gather adjacent vectors use different banks.
    __device__ static unsigned pair_of(unsigned item) {
        return item / TRANSPOSE_PAIRS * TRANSPOSE_PAIRS_PITCH + item % TRANSPOSE_PAIRS;
    }
    __device__ void put_pairs(unsigned item, unsigned period, unsigned short offset) const {
#pragma unroll
        for (unsigned second = 0; second < 2; second++) {
            const unsigned pair = item - second, again = TRANSPOSE_PAIRS_PITCH - TRANSPOSE_PAIRS;
            if (item < second)
                break;
            if (pair < period)
                items[2 * pair_of(pair) + second] = offset;
            if (pair >= TRANSPOSE_PAIRS && pair % TRANSPOSE_PAIRS < TRANSPOSE_PAIRS_AGAIN)
                items[2 * (pair_of(pair) - again) + second] = offset;
        }
    }
};

// 16 bytes of a run on their way into the tile. For TRANSPOSE_LOADS_CUT: its words, or the two
// vectors that hold narrower elements.
template <unsigned Loads, class T> struct vector_source {
    using word = typename vec<T>::word;
    static constexpr unsigned ITEMS = vec<T>::ITEMS, WORDS = vec<T>::WORDS;
    static constexpr bool CUTS = Loads == TRANSPOSE_LOADS_CUT && sizeof(T) < sizeof(word);
    vec<T> low;
    uint4 high;
    unsigned skipped; // bytes of the first

    // Loads nothing and returns false if they are not wanted or not entirely in the array, which
    // begins at `in`.
    __device__ bool load_if(bool wanted, const T *from, const T *in, const T *end) {
        skipped = CUTS ? static_cast<unsigned>(reinterpret_cast<uint64>(from)) % 16 : 0;
        const T *first = from - skipped / sizeof(T);
        const bool begins = Loads == TRANSPOSE_LOADS_VECTORS || first >= in;
        const bool whole = wanted && begins && first + (skipped ? 2 : 1) * ITEMS <= end;
        if constexpr (Loads == TRANSPOSE_LOADS_CUT && !CUTS) {
            if (whole)
#pragma unroll
                for (unsigned j = 0; j < WORDS; j++)
                    low.words[j] = reinterpret_cast<const word *>(from)[j];
        } else {
            low.all = load_vector_if(whole, reinterpret_cast<const uint4 *>(first));
            if (CUTS)
                high = load_vector_if(whole && skipped, reinterpret_cast<const uint4 *>(first) + 1);
        }
        return whole;
    }
    __device__ void put(char *to, bool vectors) const {
        vec<T> found = low;
        if (CUTS)
            found.all = cut_vector<sizeof(T)>(low.all, high, skipped);
        if (Loads == TRANSPOSE_LOADS_AROUND || (sizeof(T) < 8 && vectors)) {
            *reinterpret_cast<uint4 *>(to) = found.all;
            return;
        }
#pragma unroll
        for (unsigned j = 0; j < WORDS; j++)
            reinterpret_cast<word *>(to)[j] = found.words[j];
    }
};

// Loads elements of a word, or of two, into the tile asynchronously: this needs fewer registers, so
// that more blocks load at a time (TUNING.md T24).
template <unsigned Loads, class T>
__device__ void load_packed_async(const T *in, const transpose_plan &plan,
                                  const packed_tables &tables, const packed_tile &part) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    constexpr bool AROUND = Loads == TRANSPOSE_LOADS_AROUND;
    const T *tile = in + part.in, *end = in + plan.reach;
    const auto after_vector = [](const T *at) {
        return static_cast<unsigned>(reinterpret_cast<uint64>(at)) % 16 / unsigned(sizeof(T));
    };
    const bool vectors =
        AROUND || (Loads == TRANSPOSE_LOADS_VECTORS && sizeof(T) == 4 && plan.puts_vectors);
    run_walk walk((part.load_run + (AROUND ? 2 * ITEMS - 2 : ITEMS - 1)) / ITEMS,
                  part.load_run == plan.load_run_most ? plan.load_magic : 0);
    const unsigned parts = walk.parts * part.load_runs;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < parts; i += blockDim.x, walk.next()) {
        const T *from = tile + tables.from[walk.run];
        const unsigned offset = walk.part * 16, before = AROUND ? after_vector(from) : 0;
        char *to = tables.tile + tables.base[walk.run] + offset +
                   __umulhi(offset, plan.wrap_magic) * plan.wrap_pad;
        if (AROUND) {
            if (walk.part * ITEMS >= before + part.load_run)
                continue;
            to += static_cast<int>(after_vector(tile) - before) * static_cast<int>(sizeof(T));
        }
        from += static_cast<int>(walk.part * ITEMS - before);
        if (vectors && (!AROUND || from >= in) && from + ITEMS <= end)
            copy_async(reinterpret_cast<uint4 *>(to), reinterpret_cast<const uint4 *>(from));
        else
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++) // the input may begin or end here
                if (from + j >= in && from + j < end)
                    copy_async(reinterpret_cast<T *>(to) + j, from + j);
    }
    wait_for_copies();
}

// Loads the input into the tile, 16 bytes of a run at a time.
template <unsigned Loads, class T>
__device__ void load_packed(const T *in, const transpose_plan &plan, const packed_tables &tables,
                            const packed_tile &part) {
    if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
        load_packed_async<Loads>(in, plan, tables, part);
        return;
    }
    constexpr unsigned ITEMS = vec<T>::ITEMS, NOWHERE = ~0u;
    constexpr unsigned IN_FLIGHT = vector_source<Loads, T>::CUTS ? 2 : 4;
    // Number of elements before a run that may be loaded with it.
    constexpr unsigned BEFORE = Loads == TRANSPOSE_LOADS_AROUND ? ITEMS - 1 : 0;
    const T *tile = in + part.in, *end = in + plan.reach;
    const auto after_vector = [](const T *at) {
        return static_cast<unsigned>(reinterpret_cast<uint64>(at)) % 16 / unsigned(sizeof(T));
    };
    run_walk walk((part.load_run + BEFORE + ITEMS - 1) / ITEMS,
                  part.load_run == plan.load_run_most ? plan.load_magic : 0);
    const unsigned parts = walk.parts * part.load_runs;
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < parts; i += IN_FLIGHT * blockDim.x) {
        vector_source<Loads, T> taken[IN_FLIGHT];
        unsigned at[IN_FLIGHT];
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++, walk.next()) {
            bool wanted = i + k * blockDim.x < parts;
            const unsigned run = wanted ? walk.run : 0, offset = walk.part * 16;
            const T *from = tile + tables.from[run];
            at[k] = tables.base[run] + offset + __umulhi(offset, plan.wrap_magic) * plan.wrap_pad;
            if (BEFORE) {
                const unsigned before = after_vector(from);
                wanted = wanted && walk.part * ITEMS < before + part.load_run;
                at[k] += (after_vector(tile) - before) * unsigned(sizeof(T));
                from -= before;
            }
            from += walk.part * ITEMS;
            if (!taken[k].load_if(wanted, from, in, end)) {
                if (wanted) // the input begins or ends here
#pragma unroll 1
                    for (unsigned j = 0; j < ITEMS; j++)
                        if (from + j >= in && from + j < end)
                            reinterpret_cast<T *>(tables.tile + at[k])[j] = from[j];
                at[k] = NOWHERE;
            }
        }
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            if (at[k] != NOWHERE)
                taken[k].put(tables.tile + at[k], plan.puts_vectors);
    }
}

// Offsets of consecutive elements of a store's run: by a table of one period; with a jump after
// every 2, 3, 4 or 8; or in segments of at least a vector, which may end within one, or do not.
enum packed_items { ITEMS_OF_PERIOD = 16, ITEMS_IN_SEGMENTS = 17, ITEMS_IN_WHOLE_SEGMENTS = 18 };

// Offset in the tile of element `item` of a run, from the run's first.
template <unsigned How>
__device__ unsigned item_offset(const transpose_plan &plan, const packed_tables &tables,
                                unsigned item) {
    const unsigned before = __umulhi(item, plan.item_magic);
    const unsigned within = item - before * plan.item_extent;
    if (How >= ITEMS_IN_SEGMENTS)
        return (plan.segments ? tables.items[before] : before * plan.item_jump) +
               within * plan.item_step;
    if (How == ITEMS_OF_PERIOD)
        return tables.items[2 * packed_tables::pair_of(within)] + before * plan.item_jump;
    return item * plan.item_step + before * plan.item_jump;
}

// The vector that begins at element `first` of a run.
template <unsigned How, class T>
__device__ uint4 gather_packed(const transpose_plan &plan, const packed_tables &tables,
                               const char *run, unsigned first) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    vec<T> gathered;
    if constexpr (How >= ITEMS_IN_SEGMENTS) {
        const unsigned segment = __umulhi(first, plan.item_magic);
        const unsigned within = first - segment * plan.item_extent;
        const unsigned left = plan.item_extent - within; // before the next
        unsigned here = segment * plan.item_jump, next = here + plan.item_jump;
        if (plan.segments) {
            here = tables.items[segment];
            next = How == ITEMS_IN_SEGMENTS ? tables.items[segment + 1] : 0;
        }
        const char *from = run + (here + within * plan.item_step), *then = from;
        if (How == ITEMS_IN_SEGMENTS)
            then = run + next - left * plan.item_step;
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j++)
            gathered.items[j] = *reinterpret_cast<const T *>((j == 0 || j < left ? from : then) +
                                                             j * plan.item_step);
    } else if constexpr (How == ITEMS_OF_PERIOD) {
        const unsigned before = __umulhi(first, plan.item_magic);
        const unsigned *pairs = reinterpret_cast<const unsigned *>(tables.items) +
                                packed_tables::pair_of(first - before * plan.item_extent);
        const char *from = run + before * plan.item_jump;
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j += 2) {
            const unsigned pair = pairs[j];
            gathered.items[j] = *reinterpret_cast<const T *>(from + pair % 65536);
            if (ITEMS > 1)
                gathered.items[j + 1] = *reinterpret_cast<const T *>(from + pair / 65536);
        }
    } else {
        const char *from[How];
#pragma unroll
        for (unsigned j = 0; j < How; j++)
            from[j] = run + item_offset<How>(plan, tables, first + j);
        const unsigned step = How * plan.item_step + plan.item_jump;
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j++)
            gathered.items[j] = *reinterpret_cast<const T *>(from[j % How] + j / How * step);
    }
    return gathered.all;
}

// Stores the tile to the output: first the whole vectors of each run, then the rest of each run
// before and after them.
template <unsigned How, class T>
__device__ void store_packed(T *out, const transpose_plan &plan, const packed_tables &tables,
                             const packed_tile &part, unsigned shift) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    const unsigned run = part.run, vectors = run / ITEMS;
    const auto before_vectors = [](const T *to) {
        return ITEMS == 1 ? 0
                          : static_cast<unsigned>(0 - reinterpret_cast<uint64>(to)) % 16 /
                                unsigned(sizeof(T));
    };
    out += part.out;
    if (vectors) {
        const unsigned parts = vectors * part.runs;
        run_walk walk(vectors, run == plan.run_most ? plan.store_magic : 0);
        for (unsigned i = threadIdx.x; i < parts; i += blockDim.x, walk.next()) {
            T *to = out + tables.to[walk.run];
            const unsigned first = before_vectors(to) + walk.part * ITEMS;
            const char *from = tables.tile + (tables.slot[walk.run] + shift);
            if (first + ITEMS <= run)
                store_vector(reinterpret_cast<uint4 *>(to + first),
                             gather_packed<How, T>(plan, tables, from, first));
        }
    }
    if (plan.stores_vectors && run % ITEMS == 0)
        return;
    for (unsigned i = threadIdx.x; i < 2 * part.runs; i += blockDim.x) {
        const bool ends = i >= part.runs; // the tail of the run
        const unsigned index = ends ? i - part.runs : i;
        T *to = out + tables.to[index];
        const char *from = tables.tile + (tables.slot[index] + shift);
        const unsigned before = before_vectors(to), left = run - before;
        const unsigned items = ends ? left % ITEMS : before;
        if (!vectors) { // a vector may hold all of it
#pragma unroll 1
            for (unsigned k = ends; k < run; k += 2)
                to[k] = *reinterpret_cast<const T *>(from + item_offset<How>(plan, tables, k));
        } else if (items) {
            uint4 found = gather_packed<How, T>(plan, tables, from, ends ? run - ITEMS : 0);
            if (ends)
                found = cut_vector<sizeof(T)>(found, found, (ITEMS - items) * sizeof(T));
            store_pieces(ends ? to + run - items : to, found, items * sizeof(T), !ends);
        }
    }
}

template <class T>
__device__ void move_packed_tiles(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    const auto tables = packed_tables::filled<ITEMS>(plan);
    for (unsigned index = blockIdx.x; index < plan.tiles; index += gridDim.x) {
        __syncthreads(); // the previous tile is stored
        if (threadIdx.x == 0)
            *tables.part = packed_tile(plan, index);
        __syncthreads(); // and the shared data are ready
        const packed_tile &part = *tables.part;
        unsigned shift = 0; // offset of the tile within a vector
        if (plan.loads == TRANSPOSE_LOADS_VECTORS) {
            load_packed<TRANSPOSE_LOADS_VECTORS>(in, plan, tables, part);
        } else if (plan.loads == TRANSPOSE_LOADS_AROUND) {
            load_packed<TRANSPOSE_LOADS_AROUND>(in, plan, tables, part);
            shift = static_cast<unsigned>(reinterpret_cast<uint64>(in + part.in)) % 16;
        } else {
            load_packed<TRANSPOSE_LOADS_CUT>(in, plan, tables, part);
        }
        __syncthreads();
        if (plan.period)
            store_packed<ITEMS_OF_PERIOD>(out, plan, tables, part, shift);
        else if (plan.in_segments && plan.segments_whole)
            store_packed<ITEMS_IN_WHOLE_SEGMENTS>(out, plan, tables, part, shift);
        else if (plan.in_segments)
            store_packed<ITEMS_IN_SEGMENTS>(out, plan, tables, part, shift);
        else if (ITEMS > 2 && plan.item_extent == 2)
            store_packed<2>(out, plan, tables, part, shift);
        else if (ITEMS > 3 && plan.item_extent == 3)
            store_packed<3>(out, plan, tables, part, shift);
        else if (ITEMS > 4 && plan.item_extent == 4)
            store_packed<4>(out, plan, tables, part, shift);
        else if (ITEMS > 8)
            store_packed<8>(out, plan, tables, part, shift);
    }
}

} // namespace transpose
