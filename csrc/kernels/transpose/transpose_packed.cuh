// transpose_packed.cuh: the transpose of any axes by tiles that are runs of memory on both sides,
// of any axes and chunks of axes; ops_transpose_packed.c chooses them. Memory is read and written
// in vectors where possible; in between, elements lie in words, from which a thread gathers a
// vector of the output. A block keeps tables with the offsets of its tile's runs and, if necessary,
// of its elements. Knows no rung.
#pragma once

#include "transpose_loads.cuh"

namespace transpose {

// Iterates over parts of runs, `parts` a run, from the first on, `step` at a time, without
// division.
struct run_walk {
    unsigned parts, run, part, run_step, part_step;

    // `magic`: ceil(2^32 / parts); 0: divide.
    __device__ run_walk(unsigned parts, unsigned magic, unsigned first = threadIdx.x,
                        unsigned step = blockDim.x)
        : parts(parts) {
        if (magic) {
            run = __umulhi(first, magic);
            run_step = __umulhi(step, magic);
        } else {
            run = first / parts;
            run_step = step / parts;
        }
        part = first - run * parts;
        part_step = step - run_step * parts;
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

    __device__ explicit packed_tables(const transpose_plan &plan)
        : part(shared_memory<packed_tile>()), from(reinterpret_cast<uint64 *>(part + 1)),
          to(from + plan.load_runs_most), base(reinterpret_cast<unsigned *>(to + plan.runs_most)),
          slot(base + plan.load_runs_most),
          items(reinterpret_cast<unsigned short *>(slot + plan.runs_most)),
          tile(shared_memory<char>() + plan.table_bytes) {}

    template <unsigned Items> __device__ void fill_load(const transpose_plan &plan) const {
#pragma unroll 1
        for (unsigned k = threadIdx.x; k < plan.load_runs_most; k += blockDim.x) {
            const steps run(plan.axes + plan.grid_axes, plan.load_axes, k, Items);
            from[k] = run.in;
            base[k] = static_cast<unsigned>(run.out) + run.pads * plan.run_pad;
        }
    }
    template <unsigned Items> __device__ void fill_store(const transpose_plan &plan) const {
        const transpose_axis *run_axes = plan.axes + plan.grid_axes + plan.load_axes;
        const transpose_axis *item_axes = run_axes + plan.run_axes;
#pragma unroll 1
        for (unsigned k = threadIdx.x; k < plan.runs_most; k += blockDim.x) {
            const steps run(run_axes, plan.run_axes, k, Items);
            slot[k] = static_cast<unsigned>(run.in);
            to[k] = run.out;
        }
#pragma unroll 1
        for (unsigned k = threadIdx.x; k < plan.segments + plan.period; k += blockDim.x) {
            const unsigned number = plan.period ? k : k * plan.item_extent;
            const steps item(item_axes, plan.item_axes, number, Items);
            const auto offset = static_cast<unsigned short>(item.in + item.pads * plan.pad);
            if (plan.period)
                put_pairs(k, plan.period, offset);
            else
                items[k] = offset;
        }
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

// Loads the input into the tile asynchronously: this needs fewer registers and instructions, so
// that more blocks load at a time (TUNING.md T24, T42). Elements of 16 bytes, and words of narrow
// ones, pass through registers.
template <unsigned Loads, bool Around, class T>
__device__ void load_packed_async(const T *in, const transpose_plan &plan,
                                  const packed_tables &tables, const packed_tile &part) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    constexpr bool AROUND = Loads == TRANSPOSE_LOADS_AROUND;
    const T *tile = in + part.in, *end = in + plan.reach;
    const auto after_vector = [](const T *at) {
        return static_cast<unsigned>(reinterpret_cast<uint64>(at)) % 16;
    };
    const bool vectors = AROUND || sizeof(T) < 4 ||
                         (Loads == TRANSPOSE_LOADS_VECTORS && sizeof(T) == 4 && plan.puts_vectors);
    const unsigned bytes = part.load_run * unsigned(sizeof(T)), shift = after_vector(tile);
    const uint64 last = static_cast<uint64>(plan.reach - ITEMS) * sizeof(T); // vector's first byte
    run_walk walk((part.load_run + (AROUND ? 2 * ITEMS - 2 : ITEMS - 1)) / ITEMS,
                  part.load_run == plan.load_run_most ? plan.load_magic : 0);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < walk.parts * part.load_runs; i += blockDim.x, walk.next()) {
        const T *from = tile + tables.from[walk.run];
        const unsigned offset = walk.part * 16;
        unsigned to = tables.base[walk.run] + offset;
        if (AROUND) {
            const unsigned before = after_vector(from);
            if (offset >= before + bytes)
                continue;
            to += shift - before;
            from -= before / sizeof(T);
        } else {
            to += __umulhi(offset, plan.wrap_magic) * plan.wrap_pad;
        }
        from = reinterpret_cast<const T *>(reinterpret_cast<const char *>(from) + offset);
        const uint64 at = reinterpret_cast<uint64>(from) - reinterpret_cast<uint64>(in);
        if (vectors && plan.reach >= ITEMS && at <= last)
            copy_async<Around>(reinterpret_cast<uint4 *>(tables.tile + to),
                               reinterpret_cast<const uint4 *>(from));
        else
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++) // the input may begin or end here
                if (from + j >= in && from + j < end) {
                    T *item = reinterpret_cast<T *>(tables.tile + to) + j;
                    if constexpr (sizeof(T) < 4)
                        *item = from[j];
                    else
                        copy_async<Around>(item, from + j);
                }
    }
}

// Loads the input into the tile, 16 bytes of a run at a time.
template <unsigned Loads, class T>
__device__ void load_packed(const T *in, const transpose_plan &plan, const packed_tables &tables,
                            const packed_tile &part) {
    constexpr bool MAYBE = sizeof(T) < 4 && Loads == TRANSPOSE_LOADS_VECTORS;
    if constexpr (sizeof(T) <= 8 && (sizeof(T) >= 4 || Loads != TRANSPOSE_LOADS_CUT))
        if (!MAYBE || plan.puts_vectors) {
            if (sizeof(T) >= 4 && plan.sparse)
                load_packed_async<Loads, sizeof(T) < 4>(in, plan, tables, part);
            else
                load_packed_async<Loads, true>(in, plan, tables, part);
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

// An element in shared memory, by its address there, of 32 bits.
template <class T> __device__ T shared_item(unsigned at) {
    T item;
    if constexpr (sizeof(T) == 16)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(item.x), "=r"(item.y), "=r"(item.z), "=r"(item.w)
                     : "r"(at));
    else if constexpr (sizeof(T) == 8)
        asm volatile("ld.shared.u64 %0, [%1];" : "=l"(item) : "r"(at));
    else
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(item) : "r"(at));
    return item;
}
template <unsigned Item> __device__ unsigned shared_part(unsigned at) {
    unsigned item;
    if constexpr (Item == 1)
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(item) : "r"(at));
    else
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(item) : "r"(at));
    return item;
}

// The vector of elements that lie at `at`(0), `at`(1) and so on.
template <class T, class At> __device__ uint4 gather_items(At at) {
    vec<T> gathered;
    if constexpr (sizeof(T) >= 4) {
#pragma unroll
        for (unsigned j = 0; j < vec<T>::ITEMS; j++)
            gathered.items[j] = shared_item<T>(at(j));
    } else {
        constexpr unsigned PARTS = 4 / sizeof(T);
#pragma unroll
        for (unsigned w = 0; w < 4; w++) {
            unsigned parts[PARTS];
#pragma unroll
            for (unsigned i = 0; i < PARTS; i++)
                parts[i] = shared_part<sizeof(T)>(at(w * PARTS + i));
            if constexpr (PARTS == 4) {
                parts[0] = __byte_perm(parts[0], parts[1], 0x0040);
                parts[1] = __byte_perm(parts[2], parts[3], 0x0040);
            }
            gathered.words[w] = __byte_perm(parts[0], parts[1], 0x5410);
        }
    }
    return gathered.all;
}

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

// The vector that begins at element `first` of a run, which is at `run` in shared memory.
template <unsigned How, class T>
__device__ uint4 gather_packed(const transpose_plan &plan, const packed_tables &tables,
                               unsigned run, unsigned first) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    if constexpr (How >= ITEMS_IN_SEGMENTS) {
        const unsigned segment = __umulhi(first, plan.item_magic);
        const unsigned within = first - segment * plan.item_extent;
        const unsigned left = plan.item_extent - within; // before the next
        unsigned here = segment * plan.item_jump, next = here + plan.item_jump;
        if (plan.segments) {
            here = tables.items[segment];
            next = How == ITEMS_IN_SEGMENTS ? tables.items[segment + 1] : 0;
        }
        const unsigned from = run + here + within * plan.item_step;
        const unsigned then = run + next - left * plan.item_step;
        return gather_items<T>([&](unsigned j) {
            return (How == ITEMS_IN_WHOLE_SEGMENTS || j == 0 || j < left ? from : then) +
                   j * plan.item_step;
        });
    } else if constexpr (How == ITEMS_OF_PERIOD) {
        const unsigned before = __umulhi(first, plan.item_magic);
        const unsigned *from = reinterpret_cast<const unsigned *>(tables.items) +
                               packed_tables::pair_of(first - before * plan.item_extent);
        unsigned pairs[(ITEMS + 1) / 2];
        const unsigned at = run + before * plan.item_jump; // below 64 KiB, as all of the tile is
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j += 2)
            pairs[j / 2] = from[j] + at * 65537;
        return gather_items<T>(
            [&](unsigned j) { return j % 2 ? pairs[j / 2] >> 16 : pairs[j / 2] & 65535; });
    } else {
        unsigned from[How];
#pragma unroll
        for (unsigned j = 0; j < How; j++)
            from[j] = run + item_offset<How>(plan, tables, first + j);
        const unsigned step = How * plan.item_step + plan.item_jump;
        return gather_items<T>([&](unsigned j) { return from[j % How] + j / How * step; });
    }
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
    const unsigned tile = static_cast<unsigned>(__cvta_generic_to_shared(tables.tile)) + shift;
    out += part.out;
    if (vectors) {
        // A warp's lanes store `streams` streams, each of `lanes` adjacent vectors.
        const unsigned lanes = plan.stream_lanes, stream = threadIdx.x % 32 * plan.streams / 32;
        const unsigned parts = vectors * part.runs, share = (parts * lanes + 31) / 32;
        const unsigned own = threadIdx.x / 32 * lanes + threadIdx.x % 32 - stream * lanes;
        const unsigned begin = stream * share, end = least(begin + share, parts);
        const unsigned step = blockDim.x * lanes / 32;
        run_walk walk(vectors, run == plan.run_most ? plan.store_magic : 0, begin + own, step);
        for (unsigned i = begin + own; i < end; i += step, walk.next()) {
            T *to = out + tables.to[walk.run];
            const unsigned first = before_vectors(to) + walk.part * ITEMS;
            if (first + ITEMS <= run)
                store_vector(
                    reinterpret_cast<uint4 *>(to + first),
                    gather_packed<How, T>(plan, tables, tile + tables.slot[walk.run], first));
        }
    }
    if (plan.stores_vectors && run % ITEMS == 0)
        return;
    for (unsigned i = threadIdx.x; i < 2 * part.runs; i += blockDim.x) {
        const bool ends = i >= part.runs; // the tail of the run
        const unsigned index = ends ? i - part.runs : i;
        T *to = out + tables.to[index];
        const unsigned from = tile + tables.slot[index];
        const unsigned before = before_vectors(to), left = run - before;
        const unsigned items = ends ? left % ITEMS : before;
        if (!vectors) { // a vector may hold all of it
#pragma unroll 1
            for (unsigned k = ends; k < run; k += 2)
                to[k] = *reinterpret_cast<const T *>(tables.tile + shift + tables.slot[index] +
                                                     item_offset<How>(plan, tables, k));
        } else if (items) {
            uint4 found = gather_packed<How, T>(plan, tables, from, ends ? run - ITEMS : 0);
            if (ends)
                found = cut_vector<sizeof(T)>(found, found, (ITEMS - items) * sizeof(T));
            store_pieces(ends ? to + run - items : to, found, items * sizeof(T), !ends);
        }
    }
}

template <class T>
__device__ void move_packed_tile(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned ITEMS = vec<T>::ITEMS;
    const packed_tables tables(plan);
    if (threadIdx.x == blockDim.x - 1) // which has least of the tables
        *tables.part = packed_tile(plan, blockIdx.x);
    tables.fill_load<ITEMS>(plan);
    __syncthreads();
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
    tables.fill_store<ITEMS>(plan); // while the copies are on their way
    wait_for_copies();
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

} // namespace transpose
