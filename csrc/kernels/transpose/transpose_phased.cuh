// transpose_phased.cuh: tiles of rung 7 of transpose.cu whose rows are unaligned. Contains no
// kernel.
#pragma once

#include "transpose_tiles.cuh"

namespace transpose {

// A block stores 256 bytes of each output row as whole 32-byte sectors at the row's own alignment:
// its part of a row begins up to a sector earlier than another row's, so the block loads
// correspondingly more rows of the input. It loads an input row by words of at least 4 bytes, so
// that all of a tile's loads are alike and in flight before the first is waited for. With words of
// several elements a warp covers 31 of them and shares one with its neighbour, and each lane shifts
// its own into place; words of as many rows are then transposed, in registers, to words of columns.
// Shared memory holds words of a column: `ITEMS` rows each, a group. Word c of group g is at c ^ (g
// & MASK): lanes that load a row, and lanes that gather vectors of 4 adjacent columns, use
// different banks (TUNING.md T12).
template <class T> struct phased_tile {
    using word = typename vec<T>::word;
    static constexpr unsigned ITEMS = sizeof(word) / sizeof(T); // of a word
    static constexpr unsigned WORDS = 16 / sizeof(word);        // of a vector
    static constexpr unsigned ROWS = 256 / sizeof(T);
    static constexpr unsigned LEAD = 32 / sizeof(T); // rows before the first
    static constexpr unsigned GROUPS = (ROWS + LEAD) / ITEMS;
    static constexpr unsigned PASSES = ITEMS > 1 ? 1 : 2;   // of a warp over a row
    static constexpr unsigned LANES = ITEMS == 1 ? 32 : 31; // whose word is the warp's own
    static constexpr unsigned COLUMNS = PASSES * LANES * ITEMS;
    static constexpr unsigned PITCH = ITEMS < 4 ? 64 : 128; // words
    static constexpr unsigned MASK = 7 * WORDS;
    static constexpr unsigned STEP = TILES_BLOCK / 32 / PASSES; // groups at once
    static constexpr unsigned LOADS = (GROUPS + STEP - 1) / STEP;
    static constexpr unsigned STORES = PITCH * 16 / TILES_BLOCK;
    word *words;

    static constexpr unsigned AT_ONCE = STEP * ITEMS; // rows
    static constexpr unsigned ALL = ROWS + LEAD;

    // Whether vectors that hold rows before `end` have none of the groups that all threads load at
    // once after `k` others.
    __device__ static bool ends(unsigned k, unsigned end) {
        return k * AT_ONCE >= end + 16 / unsigned(sizeof(T));
    }

    // Word `column` of group `group` + j.
    __device__ word at(unsigned group, unsigned j, unsigned column) const {
        constexpr unsigned size = sizeof(word);
        const char *first = reinterpret_cast<const char *>(words + group * PITCH);
        const unsigned turned = (group * size + j * size) & (MASK * size);
        return *reinterpret_cast<const word *>(first + j * PITCH * size + (column * size ^ turned));
    }
    // Where a thread stores its words of the groups `first` + k * STEP; `first` is below STEP.
    struct column_of {
        char *top;
        unsigned byte;
        __device__ word *slot(unsigned k) const {
            constexpr unsigned size = sizeof(word);
            return reinterpret_cast<word *>(top + k * STEP * PITCH * size +
                                            (byte ^ ((k * STEP & MASK) * size)));
        }
    };
    __device__ column_of own(unsigned first, unsigned column) const {
        return {reinterpret_cast<char *>(words + first * PITCH),
                (column ^ (first & MASK)) * unsigned(sizeof(word))};
    }
};

// The four bytes at `at`, a multiple of 4; bytes outside the array are skipped.
template <class T>
__device__ unsigned load_word(const char *at, const char *begin, const char *end) {
    if (at >= begin && at + 4 <= end)
        return *reinterpret_cast<const unsigned *>(at);
    unsigned found = 0;
    for (unsigned byte = 0; byte < 4; byte += sizeof(T))
        if (at + byte >= begin && at + byte < end)
            found |= static_cast<unsigned>(*reinterpret_cast<const T *>(at + byte)) << 8 * byte;
    return found;
}

// Transposes words of as many rows to words of as many columns.
__device__ inline void turn_words(unsigned (&w)[1]) {}
__device__ inline void turn_words(unsigned (&w)[2]) {
    const unsigned a = __byte_perm(w[0], w[1], 0x5410), b = __byte_perm(w[0], w[1], 0x7632);
    w[0] = a, w[1] = b;
}
__device__ inline void turn_words(unsigned (&w)[4]) {
    const unsigned a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[0], w[1], 0x7362);
    const unsigned c = __byte_perm(w[2], w[3], 0x5140), d = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(a, c, 0x5410), w[1] = __byte_perm(a, c, 0x7632);
    w[2] = __byte_perm(b, d, 0x5410), w[3] = __byte_perm(b, d, 0x7632);
}
__device__ inline void put_words(unsigned *at, const unsigned (&w)[2]) {
    *reinterpret_cast<uint2 *>(at) = make_uint2(w[0], w[1]);
}
__device__ inline void put_words(unsigned *at, const unsigned (&w)[4]) {
    *reinterpret_cast<uint4 *>(at) = make_uint4(w[0], w[1], w[2], w[3]);
}

// Loads the rows `first` to `end` - 1 of the tile, of elements as wide as words. `from` is the
// tile's first row, even if the matrix has none there. With `Whole` the tile has all rows from
// `first` on, which is 0 or `LEAD`.
template <bool Whole, class T>
__device__ void load_phased(const phased_tile<T> &tile, const T *from, uint64 pitch, unsigned first,
                            unsigned end, unsigned columns) {
    using phased = phased_tile<T>;
    const unsigned warp = threadIdx.x / 32, top = warp / phased::PASSES;
    const unsigned column = warp % phased::PASSES * 32 + threadIdx.x % 32;
    const unsigned rows = column < columns ? end - first : 0;
    const T *at = from + top * pitch + column;
    const auto own = tile.own(top, column);
    T taken[phased::LOADS];
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++, at += phased::STEP * pitch) {
        if (!Whole && phased::ends(k, end))
            break;
        taken[k] = T{};
        if (Whole && k * phased::STEP >= phased::LEAD ? rows != 0
                                                      : top - first + k * phased::STEP < rows)
            taken[k] = load_around(at);
    }
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++) {
        if (!Whole && phased::ends(k, end))
            break;
        if ((k + 1) * phased::STEP <= phased::GROUPS || top + k * phased::STEP < phased::GROUPS)
            *own.slot(k) = taken[k];
    }
}

// Iterates over the rows of a thread's groups, which are `top`, `top` + STEP and so on.
template <class T> struct row_walk {
    using phased = phased_tile<T>;
    uint64 at, step, jump; // in bytes; at: of this lane's word, before alignment

    __device__ row_walk(const T *from, uint64 pitch)
        : step(pitch * sizeof(T)), jump(step * ((phased::STEP - 1) * phased::ITEMS)) {
        at = reinterpret_cast<uint64>(from) +
             threadIdx.x / 32 / phased::PASSES * phased::ITEMS * step + 4 * (threadIdx.x % 32);
    }
    __device__ void next_row() { at += step; }
    __device__ void next_group() { at += jump; }
};

// Shifts a group's words, transposes them, and stores them in the tile. `bits` and `step` are eight
// times the address of the first and the distance of the next one.
template <class T>
__device__ void put_group(const typename phased_tile<T>::column_of &own, unsigned k,
                          unsigned (&words)[phased_tile<T>::ITEMS], unsigned bits, unsigned step) {
    constexpr unsigned ITEMS = phased_tile<T>::ITEMS;
#pragma unroll
    for (unsigned i = 0; i < ITEMS; i++) {
        const unsigned next = __shfl_down_sync(~0u, words[i], 1);
        const unsigned row = k * phased_tile<T>::STEP * ITEMS + i;
        words[i] = __funnelshift_r(words[i], next, bits + row * step); // modulo 32
    }
    turn_words(words);
    put_words(own.slot(k), words); // the last lane's are beyond the tile's columns
}

// The same for narrower elements. `begin` and `end_of_all` are the array's.
template <bool Whole, class T>
__device__ void load_phased_words(const phased_tile<T> &tile, const T *from, uint64 pitch,
                                  unsigned first, unsigned end, unsigned columns, const T *begin,
                                  const T *end_of_all) {
    using phased = phased_tile<T>;
    constexpr unsigned ITEMS = phased::ITEMS;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned left = warp % phased::PASSES * phased::LANES * ITEMS;
    const auto own = tile.own(warp / phased::PASSES, left + lane * ITEMS);
    const char *low = reinterpret_cast<const char *>(begin);
    const char *high = reinterpret_cast<const char *>(end_of_all);
    const char *first_row = reinterpret_cast<const char *>(from + first * pitch);
    const char *last_row = reinterpret_cast<const char *>(from + (end - 1) * pitch);
    const unsigned top = warp / phased::PASSES * ITEMS - first;
    const unsigned rows = left * sizeof(T) + 4 * lane < columns * sizeof(T) + 3 ? end - first : 0;
    row_walk<T> load(from + left, pitch);
    const unsigned bits = 8 * static_cast<unsigned>(load.at);
    const unsigned step = 8 * static_cast<unsigned>(load.step);
    // A row's first and last words include bytes outside it, and there may be one more word.
    if (first_row >= low + 3 && last_row + columns * sizeof(T) + 7 <= high) {
        unsigned taken[phased::LOADS][ITEMS];
#pragma unroll
        for (unsigned k = 0; k < phased::LOADS; k++, load.next_group()) {
            if (!Whole && phased::ends(k, end))
                break;
#pragma unroll
            for (unsigned i = 0; i < ITEMS; i++, load.next_row()) {
                taken[k][i] = 0;
                if (Whole && k * phased::AT_ONCE >= phased::LEAD
                        ? rows != 0
                        : top + k * phased::AT_ONCE + i < rows)
                    taken[k][i] = load_around(reinterpret_cast<const unsigned *>(load.at & ~3ull));
            }
        }
#pragma unroll
        for (unsigned k = 0; k < phased::LOADS; k++) {
            if (!Whole && phased::ends(k, end))
                break;
            put_group<T>(own, k, taken[k], bits, step);
        }
        return;
    }
#pragma unroll 1
    for (unsigned k = 0; k < phased::LOADS; k++, load.next_group()) {
        unsigned taken[ITEMS];
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++, load.next_row()) {
            taken[i] = 0;
            if (top + k * phased::STEP * ITEMS + i < rows)
                taken[i] = load_word<T>(reinterpret_cast<const char *>(load.at & ~3ull), low, high);
        }
        put_group<T>(own, k, taken, bits, step);
    }
}

template <bool Whole, class T>
__device__ void load_tile(const phased_tile<T> &tile, const T *from, const transpose_plan &plan,
                          unsigned first, unsigned end, unsigned columns, const T *in) {
    if constexpr (phased_tile<T>::ITEMS == 1)
        load_phased<Whole>(tile, from, plan.in_pitch, first, end, columns);
    else
        load_phased_words<Whole>(tile, from, plan.in_pitch, first, end, columns, in,
                                 in + plan.reach);
}

// The vector that begins at element `row` of the tile's column.
template <class T>
__device__ uint4 gather_phased(const phased_tile<T> &tile, unsigned row, unsigned column) {
    using phased = phased_tile<T>;
    vec<T> gathered;
    const unsigned group = row / phased::ITEMS;
#pragma unroll
    for (unsigned j = 0; j < phased::WORDS; j++)
        gathered.words[j] = tile.at(group, j, column);
    if constexpr (phased::ITEMS > 1) {
        const unsigned shift = row % phased::ITEMS * 8 * sizeof(T);
        // Not needed if nothing is shifted; the tile may end there.
        const unsigned next = tile.at(group, shift ? phased::WORDS : 0, column);
#pragma unroll
        for (unsigned j = 0; j < phased::WORDS; j++)
            gathered.words[j] = __funnelshift_r(
                gathered.words[j], j + 1 < phased::WORDS ? gathered.words[j + 1] : next, shift);
    }
    return gathered.all;
}

// Stores rows `first` to `end` - 1 of the tile's columns, which are rows of the output: a warp's
// lanes take 8 vectors of 4 adjacent ones.
// If these are adjacent (`adjoin`), the vector in which one ends and the next begins has parts of
// both.
template <class T>
__device__ void store_phased(const phased_tile<T> &tile, T *to, uint64 pitch, unsigned first,
                             unsigned end, unsigned columns, bool adjoin) {
    using phased = phased_tile<T>;
    constexpr unsigned ITEMS = 16 / sizeof(T), STEP = TILES_BLOCK / 16;
    const unsigned warp = threadIdx.x / 32, p = threadIdx.x % 8 + warp % 2 * 8;
    const unsigned left = threadIdx.x % 32 / 8 + warp / 2 * 4;
    T *row = to + left * pitch;
#pragma unroll
    for (unsigned k = 0; k < phased::STORES; k++, row += STEP * pitch) {
        const unsigned column = left + k * STEP;
        const unsigned phase =
            static_cast<unsigned>(reinterpret_cast<uint64>(row)) % 32 / sizeof(T);
        const unsigned item = phased::LEAD + p * ITEMS - phase;
        T *at = row + p * ITEMS - phase;
        if (column >= columns)
            break;
        if (item + ITEMS <= first || item >= end)
            continue;
        const vec<T> found = {gather_phased(tile, item, column)};
        // A tile has more rows than a vector: one end at most is cut off.
        const unsigned before = item < first ? first - item : 0;
        const unsigned items = least(end - item, ITEMS) - before;
        if (items == ITEMS) {
            store_vector(reinterpret_cast<uint4 *>(at), found.all);
        } else if (adjoin && (before ? column : column + 1 < columns)) {
            if (!before)
                store_vector(reinterpret_cast<uint4 *>(at),
                             join_vectors(found.all, gather_phased(tile, first - items, column + 1),
                                          static_cast<int>(items * sizeof(T))));
        } else {
            store_pieces(at + before,
                         cut_vector<sizeof(T)>(found.all, found.all, before * unsigned(sizeof(T))),
                         items * unsigned(sizeof(T)), before != 0);
        }
    }
}

template <class T>
__device__ void move_phased_tile(const T *in, T *out, const transpose_plan &plan,
                                 const tile_corner &corner) {
    using phased = phased_tile<T>;
    const phased tile{shared_memory<typename phased::word>()};
    const uint64 row = static_cast<uint64>(corner.row_tile) * phased::ROWS;
    const uint64 column = static_cast<uint64>(corner.column_tile) * phased::COLUMNS;
    const unsigned columns = least(plan.columns - column, phased::COLUMNS);
    // Rows `first` to `end` - 1 of the tile are in the matrix. If all output rows begin at a
    // sector, the block needs none of the rows before its own.
    const unsigned first = corner.row_tile ? 0 : phased::LEAD;
    const unsigned end = least(plan.rows + phased::LEAD - row, phased::ROWS + phased::LEAD);
    T *to = out + corner.out + column * plan.out_pitch + row;
    const bool phases = (reinterpret_cast<uint64>(to) | plan.out_pitch * sizeof(T)) % 32;
    const unsigned needed = phases ? first : least(phased::LEAD, end);
    const T *from = in + corner.in + row * plan.in_pitch + column - phased::LEAD * plan.in_pitch;
    if (end == phased::ALL)
        load_tile<true>(tile, from, plan, needed, end, columns, in);
    else
        load_tile<false>(tile, from, plan, needed, end, columns, in);
    __syncthreads();
    const bool adjoin =
        plan.out_pitch == plan.rows && plan.rows <= phased::ROWS && plan.rows * sizeof(T) >= 16;
    store_phased(tile, to, plan.out_pitch, first, end, columns, adjoin);
}

} // namespace transpose
