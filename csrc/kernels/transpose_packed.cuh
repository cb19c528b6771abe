// transpose_packed.cuh: the transpose of any axes by tiles that are runs of memory on both sides,
// whichever axes and parts of axes these runs take; ops_transpose.c chooses them. Memory is read
// and written in packs of 16 bytes wherever it can be; in between lie words, and a thread gathers
// the items of a pack of the output from them. A block keeps tables of where the runs of a tile
// begin, and if need be of what is where in it, for all its tiles.
#pragma once

#include "common.cuh"
#include "transpose_plan.cuh"

namespace transpose {

constexpr unsigned PACKED_BLOCK = 256;

// What an item lies in, in shared memory, also in the other tiles of rung 7; and 16 bytes of both.
template <unsigned Item> struct word_of { using type = unsigned; };
template <> struct word_of<8> { using type = uint64; };
template <> struct word_of<16> { using type = uint4; };

template <class T> struct pack {
    using word = typename word_of<sizeof(T)>::type;
    static constexpr unsigned ITEMS = 16 / sizeof(T);
    static constexpr unsigned WORDS = 16 / sizeof(word);
    union {
        uint4 all;
        word words[WORDS];
        T items[ITEMS];
    };
};

// Goes through parts of runs, so many parts a run, `PACKED_BLOCK` at a time, without dividing.
struct run_walk {
    unsigned parts, run, part, run_step, part_step;

    // `magic`: 2^32 / parts, rounded up; 0: to be divided by.
    __device__ run_walk(unsigned parts, unsigned magic) : parts(parts) {
        run = magic ? __umulhi(threadIdx.x, magic) : threadIdx.x / parts;
        run_step = magic ? __umulhi(PACKED_BLOCK, magic) : PACKED_BLOCK / parts;
        part = threadIdx.x - run * parts;
        part_step = PACKED_BLOCK - run_step * parts;
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

// The steps of item `index` of some axes, the innermost first, of which the first has `pad` more
// after every pack's worth of its items.
struct steps {
    uint64 in = 0, out = 0;
    unsigned pads = 0;
    __device__ steps(const transpose_axis *axes, unsigned count, unsigned index, unsigned items) {
        for (unsigned k = 0; k < count; k++) {
            const unsigned extent = static_cast<unsigned>(axes[k].extent), at = index % extent;
            in += at * axes[k].in;
            out += at * axes[k].out;
            pads += k == 0 ? at / items : 0;
            index /= extent;
        }
    }
};

// A tile: where it begins, and how much of it there is.
struct packed_tile {
    uint64 in = 0, out = 0;
    unsigned load_run, load_runs, run, runs;

    __device__ packed_tile(const transpose_plan &plan, unsigned index)
        : load_run(plan.load_run), load_runs(plan.load_runs), run(plan.run), runs(plan.runs) {
        for (unsigned k = 0; k < plan.grid_axes; k++) {
            const unsigned extent = static_cast<unsigned>(plan.axes[k].extent);
            const unsigned at = index % extent;
            index /= extent;
            in += at * plan.axes[k].in;
            out += at * plan.axes[k].out;
            for (const transpose_cut &cut : plan.cuts)
                if (cut.extent && cut.axis == k) {
                    const uint64 left = cut.extent - static_cast<uint64>(at) * cut.chunk;
                    const unsigned here = left < cut.chunk ? unsigned(left) : cut.chunk;
                    load_run *= cut.scales & TRANSPOSE_LOAD_RUN ? here : 1;
                    load_runs *= cut.scales & TRANSPOSE_LOAD_RUNS ? here : 1;
                    run *= cut.scales & TRANSPOSE_RUN ? here : 1;
                    runs *= cut.scales & TRANSPOSE_RUNS ? here : 1;
                }
        }
    }
};

static_assert(sizeof(packed_tile) == TRANSPOSE_PART_BYTES);

// The block's tables, and behind them the tile. Places in the tile are in bytes.
struct packed_tables {
    packed_tile *part;
    uint64 *from, *to;      // where in the input the load's runs begin; the store's, in the output
    unsigned *base, *place; // and both in the tile
    unsigned short *items;  // what an item of the store's runs is further on there: those that
    char *tile;             // come first in packs, those that come second in packs, and so on

    template <unsigned Items> __device__ static packed_tables filled(const transpose_plan &plan) {
        packed_tables t;
        t.part = shared_memory<packed_tile>();
        t.from = reinterpret_cast<uint64 *>(t.part + 1);
        t.to = t.from + plan.load_runs_most;
        t.base = reinterpret_cast<unsigned *>(t.to + plan.runs_most);
        t.place = t.base + plan.load_runs_most;
        t.items = reinterpret_cast<unsigned short *>(t.place + plan.runs_most);
        t.tile = shared_memory<char>() + plan.table_bytes;

        const transpose_axis *load_axes = plan.axes + plan.grid_axes;
        const transpose_axis *run_axes = load_axes + plan.load_axes;
        const transpose_axis *item_axes = run_axes + plan.run_axes;
        for (unsigned k = threadIdx.x; k < plan.load_runs_most; k += PACKED_BLOCK) {
            const steps run(load_axes, plan.load_axes, k, Items);
            t.from[k] = run.in;
            t.base[k] = static_cast<unsigned>(run.out) + run.pads * plan.run_pad;
        }
        for (unsigned k = threadIdx.x; k < plan.runs_most; k += PACKED_BLOCK) {
            const steps run(run_axes, plan.run_axes, k, Items);
            t.place[k] = static_cast<unsigned>(run.in);
            t.to[k] = run.out;
        }
        if (plan.packs)
            for (unsigned k = threadIdx.x; k < plan.run_most; k += PACKED_BLOCK) {
                const steps item(item_axes, plan.item_axes, k, Items);
                t.items[k % Items * plan.packs + k / Items] =
                    static_cast<unsigned short>(item.in + item.pads * plan.pad);
            }
        return t;
    }
};

// 16 bytes of a run on their way into the tile: a pack, or the words of memory that it lies in, one
// more than it has where it may begin between two.
template <bool Packs, class T> struct pack_source {
    using word = typename pack<T>::word;
    static constexpr bool SHIFTS = !Packs && sizeof(T) < sizeof(word);
    static constexpr unsigned WORDS = pack<T>::WORDS;
    union {
        uint4 all;
        word words[WORDS + SHIFTS];
    };
    unsigned shift; // bits of the first word that come before the pack

    __device__ static const T *first_word(const T *from) {
        return from - (SHIFTS ? reinterpret_cast<uint64>(from) % sizeof(word) / sizeof(T) : 0);
    }
    // Whether all of it is in the array, which begins at `in`.
    __device__ static bool is_whole(const T *from, const T *in, const T *end) {
        constexpr unsigned ITEMS = (WORDS + SHIFTS) * sizeof(word) / sizeof(T);
        return first_word(from) >= in && first_word(from) + ITEMS <= end;
    }
    __device__ void load(const T *from) {
        if constexpr (Packs) {
            all = *reinterpret_cast<const uint4 *>(from);
        } else {
            const word *at = reinterpret_cast<const word *>(first_word(from));
            shift = static_cast<unsigned>(from - first_word(from)) * 8 * sizeof(T);
#pragma unroll
            for (unsigned j = 0; j < WORDS + SHIFTS; j++)
                words[j] = at[j];
        }
    }
    __device__ void put(char *to) const {
#pragma unroll
        for (unsigned j = 0; j < WORDS; j++)
            if constexpr (SHIFTS)
                reinterpret_cast<word *>(to)[j] = __funnelshift_r(words[j], words[j + 1], shift);
            else
                reinterpret_cast<word *>(to)[j] = words[j];
    }
};

// From the input into the tile, 16 bytes of a run at once. `Packs`: all runs begin at a pack.
template <bool Packs, class T>
__device__ void load_packed(const T *in, const transpose_plan &plan, const packed_tables &tables,
                            const packed_tile &part, run_walk walk) {
    constexpr unsigned ITEMS = pack<T>::ITEMS, IN_FLIGHT = 4, NOWHERE = ~0u;
    const T *tile = in + part.in, *end = in + plan.items;
    const unsigned parts = walk.parts * part.load_runs;
    for (unsigned i = threadIdx.x; i < parts; i += IN_FLIGHT * PACKED_BLOCK) {
        pack_source<Packs, T> taken[IN_FLIGHT];
        unsigned at[IN_FLIGHT];
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++, walk.next()) {
            at[k] = NOWHERE;
            if (i + k * PACKED_BLOCK >= parts)
                continue;
            const T *from = tile + tables.from[walk.run] + walk.part * ITEMS;
            const unsigned offset = walk.part * 16;
            const unsigned place =
                tables.base[walk.run] + offset + __umulhi(offset, plan.wrap_magic) * plan.pad;
            if (taken[k].is_whole(from, in, end)) {
                taken[k].load(from);
                at[k] = place;
            } else { // the input begins or ends here
#pragma unroll 1
                for (unsigned j = 0; j < ITEMS && from + j < end; j++)
                    reinterpret_cast<T *>(tables.tile + place)[j] = from[j];
            }
        }
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            if (at[k] != NOWHERE)
                taken[k].put(tables.tile + at[k]);
    }
}

// Where in the tile item `item` of a run is, from where the run's first would be.
template <bool Table, unsigned Items>
__device__ unsigned item_place(const transpose_plan &plan, const packed_tables &tables,
                               unsigned item) {
    if (Table)
        return tables.items[item % Items * plan.packs + item / Items];
    return item * plan.item_step + __umulhi(item, plan.item_magic) * plan.item_jump;
}

// How the items of a run of the store follow each other: as a table says; with at most one jump in
// a pack; with jumps anywhere; or with one after every 2, 3, 4 or 8.
enum packed_items { ITEMS_OF_TABLE = 0, ITEMS_JUMP_ONCE = 1, ITEMS_JUMP = 16 };

// The pack that begins at item `first` of a run.
template <unsigned How, class T>
__device__ uint4 gather_packed(const transpose_plan &plan, const packed_tables &tables,
                               const char *run, unsigned first) {
    constexpr unsigned ITEMS = pack<T>::ITEMS;
    pack<T> gathered;
    if constexpr (How == ITEMS_JUMP_ONCE) {
        const unsigned jumps = __umulhi(first, plan.item_magic);
        const unsigned left = (jumps + 1) * plan.item_extent - first; // before the next
        const char *from = run + first * plan.item_step + jumps * plan.item_jump;
        if (left >= ITEMS) {
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                gathered.items[j] = *reinterpret_cast<const T *>(from + j * plan.item_step);
        } else {
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                gathered.items[j] = *reinterpret_cast<const T *>(from + j * plan.item_step +
                                                                 (j < left ? 0 : plan.item_jump));
        }
    } else {
        constexpr unsigned EVERY = How == ITEMS_OF_TABLE || How > ITEMS ? ITEMS : How;
        const char *from[EVERY];
#pragma unroll
        for (unsigned j = 0; j < EVERY; j++)
            from[j] = run + item_place<How == ITEMS_OF_TABLE, ITEMS>(plan, tables, first + j);
        const unsigned step = EVERY * plan.item_step + plan.item_jump;
#pragma unroll
        for (unsigned j = 0; j < ITEMS; j++)
            gathered.items[j] = *reinterpret_cast<const T *>(from[j % EVERY] + j / EVERY * step);
    }
    return gathered.all;
}

// From the tile into the output, a pack at once, as far as the run has it whole.
template <unsigned How, class T>
__device__ void store_packed(T *out, const transpose_plan &plan, const packed_tables &tables,
                             const packed_tile &part, run_walk walk) {
    constexpr unsigned ITEMS = pack<T>::ITEMS;
    const unsigned run = part.run, parts = walk.parts * part.runs;
    out += part.out;
    for (unsigned i = threadIdx.x; i < parts; i += PACKED_BLOCK, walk.next()) {
        T *to = out + tables.to[walk.run];
        const unsigned phase = static_cast<unsigned>(reinterpret_cast<uint64>(to)) % 16 / sizeof(T);
        const unsigned first = walk.part * ITEMS - phase; // may be before the run
        const char *from = tables.tile + tables.place[walk.run];
        if (first < run && first + ITEMS <= run) {
            store_pack(reinterpret_cast<uint4 *>(to + first),
                       gather_packed<How, T>(plan, tables, from, first));
        } else {
#pragma unroll 1
            for (unsigned item = first; item != first + ITEMS; item++)
                if (item < run)
                    to[item] = *reinterpret_cast<const T *>(
                        from + item_place<How == ITEMS_OF_TABLE, ITEMS>(plan, tables, item));
        }
    }
}

template <class T>
__device__ void move_packed_tiles(const T *in, T *out, const transpose_plan &plan) {
    constexpr unsigned ITEMS = pack<T>::ITEMS;
    const auto tables = packed_tables::filled<ITEMS>(plan);
    const auto walk_of = [](unsigned items, unsigned a_part, unsigned most, unsigned magic) {
        return run_walk((items + a_part - 1) / a_part, items == most ? magic : 0);
    };
    for (unsigned index = blockIdx.x; index < plan.tiles; index += gridDim.x) {
        __syncthreads(); // the tile before is stored
        if (threadIdx.x == 0)
            *tables.part = packed_tile(plan, index);
        __syncthreads(); // and what is common to all is there
        const packed_tile &part = *tables.part;
        const run_walk load = walk_of(part.load_run, ITEMS, plan.load_run_most, plan.load_magic);
        if (plan.loads_packs)
            load_packed<true>(in, plan, tables, part, load);
        else
            load_packed<false>(in, plan, tables, part, load);
        __syncthreads();
        const unsigned phases = plan.stores_packs ? 0 : ITEMS - 1;
        const run_walk walk =
            walk_of(part.run + phases, ITEMS, plan.run_most + phases, plan.store_magic);
        if (plan.packs)
            store_packed<ITEMS_OF_TABLE>(out, plan, tables, part, walk);
        else if (plan.item_extent >= ITEMS)
            store_packed<ITEMS_JUMP_ONCE>(out, plan, tables, part, walk);
        else if (ITEMS > 2 && plan.item_extent == 2)
            store_packed<2>(out, plan, tables, part, walk);
        else if (ITEMS > 3 && plan.item_extent == 3)
            store_packed<3>(out, plan, tables, part, walk);
        else if (ITEMS > 4 && plan.item_extent == 4)
            store_packed<4>(out, plan, tables, part, walk);
        else if (ITEMS > 8 && plan.item_extent == 8)
            store_packed<8>(out, plan, tables, part, walk);
        else
            store_packed<ITEMS_JUMP>(out, plan, tables, part, walk);
    }
}

} // namespace transpose
