// transpose_tiles.cuh: the tiles of rung 7, which turn a matrix, or a batch of them. Its rows need
// not lie one after the other: `pitch` is how many items apart they are.
#pragma once

#include "common.cuh"
#include "transpose_plan.cuh"

namespace transpose {

constexpr unsigned TILES_BLOCK = 256;

// Which tile a block has: of which matrix, that begins at items `in` and `out` of the arrays; and
// which item of it comes first. Blocks go down the columns of tiles, so that neighbours in time
// store neighbouring packs: 8192^2 float32 took an H200 3,941 GB/s in the order of rows and 4,075
// so (a copy: 4,182; November 2026).
struct tile_corner {
    uint64 in = 0, out = 0;
    unsigned row_tile, column_tile;

    __device__ explicit tile_corner(const transpose_plan &plan) {
        unsigned index = blockIdx.x / plan.row_tiles;
        row_tile = blockIdx.x % plan.row_tiles;
        column_tile = index % plan.column_tiles;
        index /= plan.column_tiles;
        for (unsigned k = 0; k < plan.grid_axes; k++) {
            const unsigned extent = static_cast<unsigned>(plan.axes[k].extent);
            in += index % extent * plan.axes[k].in;
            out += index % extent * plan.axes[k].out;
            index /= extent;
        }
    }
};

__device__ inline unsigned least(uint64 a, unsigned b) { return a < b ? unsigned(a) : b; }

// --- where every row begins and ends at a pack of 16 bytes
//
// The tile lies in shared memory as it lies in the input, pack by pack, and a store gathers its
// items from a column of it. So that the gathering lanes of a warp (8 packs of 4 neighbouring
// columns) meet different banks, pack p of a row lies at p ^ (row / items of a pack % 8).
template <class T, unsigned Rows, unsigned Columns> struct aligned_tile {
    static constexpr unsigned ITEMS = 16 / sizeof(T);      // of a pack
    static constexpr unsigned PACKS = Columns / ITEMS;     // of an input row
    static constexpr unsigned OUTPUT_PACKS = Rows / ITEMS; // of an output row
    static constexpr unsigned PITCH = PACKS + 1;           // in shared memory
    static constexpr unsigned LOADS = Rows * PACKS / TILES_BLOCK;
    static constexpr unsigned STORES = Columns * OUTPUT_PACKS / TILES_BLOCK;
    uint4 *packs;

    __device__ uint4 *place(unsigned row, unsigned p) const {
        return packs + row * PITCH + (p ^ (row / ITEMS % 8));
    }

    // From the input, as far as it has rows and columns.
    template <bool Whole>
    __device__ void load(const T *from, uint64 pitch, unsigned rows, unsigned columns) const {
        uint4 taken[LOADS];
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, row = i / PACKS, p = i % PACKS;
            if (Whole || (row < rows && p * ITEMS < columns))
                taken[k] = __ldcs(reinterpret_cast<const uint4 *>(from + row * pitch) + p);
        }
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, row = i / PACKS, p = i % PACKS;
            if (Whole || (row < rows && p * ITEMS < columns))
                *place(row, p) = taken[k];
        }
    }

    template <bool Whole>
    __device__ void store(T *to, uint64 pitch, unsigned rows, unsigned columns) const {
        constexpr unsigned lanes = OUTPUT_PACKS < 8 ? OUTPUT_PACKS : 8;
#pragma unroll
        for (unsigned k = 0; k < STORES; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, rest = i / (lanes * 4);
            const unsigned p = i % lanes + rest % (OUTPUT_PACKS / lanes) * lanes;
            const unsigned column = i / lanes % 4 + rest / (OUTPUT_PACKS / lanes) * 4;
            if (!Whole && (column >= columns || p * ITEMS >= rows))
                continue;
            union {
                uint4 all;
                T items[ITEMS];
            } pack;
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                pack.items[j] = reinterpret_cast<const T *>(
                    place(p * ITEMS + j, column / ITEMS))[column % ITEMS];
            __stcs(reinterpret_cast<uint4 *>(to + column * pitch) + p, pack.all);
        }
    }
};

// 128 or 256 bytes on both sides; 32 columns of 16 bytes.
template <class T> constexpr unsigned ALIGNED_ROWS = sizeof(T) <= 2 ? 128 : 256 / sizeof(T);
template <class T>
constexpr unsigned ALIGNED_COLUMNS = sizeof(T) == 1   ? 128
                                     : sizeof(T) <= 4 ? 64
                                                      : 32;

template <class T>
__device__ void move_aligned_tile(const T *in, T *out, const transpose_plan &plan,
                                  const tile_corner &corner) {
    constexpr unsigned ROWS = ALIGNED_ROWS<T>, COLUMNS = ALIGNED_COLUMNS<T>;
    const aligned_tile<T, ROWS, COLUMNS> tile{shared_memory<uint4>()};
    const uint64 row = static_cast<uint64>(corner.row_tile) * ROWS;
    const uint64 column = static_cast<uint64>(corner.column_tile) * COLUMNS;
    const unsigned rows = least(plan.rows - row, ROWS);
    const unsigned columns = least(plan.columns - column, COLUMNS);
    const T *from = in + row * plan.in_pitch + column;
    T *to = out + column * plan.out_pitch + row;
    if (rows == ROWS && columns == COLUMNS) {
        tile.template load<true>(from, plan.in_pitch, rows, columns);
        __syncthreads();
        tile.template store<true>(to, plan.out_pitch, rows, columns);
    } else {
        tile.template load<false>(from, plan.in_pitch, rows, columns);
        __syncthreads();
        tile.template store<false>(to, plan.out_pitch, rows, columns);
    }
}

// --- where rows begin anywhere
//
// A block stores 256 bytes of each output row, whole 32-byte sectors, wherever the row has them:
// the part of a row that is a block's begins up to a sector earlier than another row's, and the
// block loads so many rows of the input more. An input row is loaded word by word, 4 bytes at
// least, so that all of a tile's loads are alike and under way before the first is waited for. Of
// words that hold several items a warp has one that is shared by two, 31 others, and each lane
// shifts its own into place; words of as many rows then turn, in registers, into words of columns.
// In shared memory lie words of a column: `ITEMS` rows each, a group. Word c of group g lies at c ^
// (g & MASK): lanes that load a row, and lanes that gather packs of 4 neighbouring columns, meet
// different banks.
template <class T, bool Narrow = (sizeof(T) < 4)> struct phased_word { using type = T; };
template <class T> struct phased_word<T, true> { using type = unsigned; };

template <class T> struct phased_tile {
    using word = typename phased_word<T>::type;
    static constexpr unsigned ITEMS = sizeof(word) / sizeof(T); // of a word
    static constexpr unsigned WORDS = 16 / sizeof(word);        // of a pack
    static constexpr unsigned ROWS = 256 / sizeof(T);
    static constexpr unsigned LEAD = 32 / sizeof(T); // rows before the first
    static constexpr unsigned GROUPS = (ROWS + LEAD) / ITEMS;
    static constexpr unsigned PASSES = ITEMS == 1 ? 2 : 1; // of a warp over a row
    static constexpr unsigned COLUMNS = ITEMS == 1 ? 64 : 31 * ITEMS;
    static constexpr unsigned PITCH = ITEMS == 4 ? 128 : 64; // words
    static constexpr unsigned MASK = 7 * WORDS;
    static constexpr unsigned WARPS = TILES_BLOCK / 32;
    static constexpr unsigned LOADS = (GROUPS * PASSES + WARPS - 1) / WARPS;
    static constexpr unsigned STORES = PITCH * 16 / TILES_BLOCK;
    word *words;

    __device__ word &at(unsigned group, unsigned column) const {
        return words[group * PITCH + (column ^ (group & MASK))];
    }
};

// The four bytes at `at`, a multiple of 4, as far as they are in the array.
template <class T>
__device__ unsigned load_word(const char *at, const char *begin, const char *end) {
    if (at >= begin && at + 4 <= end)
        return __ldcs(reinterpret_cast<const unsigned *>(at));
    unsigned found = 0;
    for (unsigned byte = 0; byte < 4; byte += sizeof(T))
        if (at + byte >= begin && at + byte < end)
            found |= static_cast<unsigned>(*reinterpret_cast<const T *>(at + byte)) << 8 * byte;
    return found;
}

// Words of as many rows become words of as many columns.
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

// Rows from `skipped` on, of which `rows` are there; the first may be one before the matrix.
template <class T>
__device__ void load_phased(const phased_tile<T> &tile, const T *from, uint64 pitch, int skipped,
                            int rows, unsigned columns, const T *, const T *) {
    using phased = phased_tile<T>;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T taken[phased::LOADS];
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++) {
        const unsigned unit = warp + k * phased::WARPS, column = unit % phased::PASSES * 32 + lane;
        const int row = static_cast<int>(unit / phased::PASSES);
        taken[k] = T{};
        if (row >= skipped && row < rows && column < columns)
            taken[k] = __ldcs(from + row * pitch + column);
    }
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++) {
        const unsigned unit = warp + k * phased::WARPS, column = unit % phased::PASSES * 32 + lane;
        if (unit < phased::GROUPS * phased::PASSES)
            tile.at(unit / phased::PASSES, column) = taken[k];
    }
}
template <class T>
__device__ void load_phased_words(const phased_tile<T> &tile, const T *from, uint64 pitch,
                                  int skipped, int rows, unsigned columns, const T *begin,
                                  const T *end) {
    using phased = phased_tile<T>;
    constexpr unsigned ITEMS = phased::ITEMS;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64 address = reinterpret_cast<uint64>(from), step = pitch * sizeof(T);
    unsigned taken[phased::LOADS][ITEMS];
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++)
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const int row = static_cast<int>((warp + k * phased::WARPS) * ITEMS + i);
            const uint64 first = address + row * step;
            const unsigned shift = static_cast<unsigned>(first) % 4;
            taken[k][i] = 0;
            if (row >= skipped && row < rows && 4 * lane < shift + columns * sizeof(T))
                taken[k][i] = load_word<T>(reinterpret_cast<const char *>(first - shift + 4 * lane),
                                           reinterpret_cast<const char *>(begin),
                                           reinterpret_cast<const char *>(end));
        }
#pragma unroll
    for (unsigned k = 0; k < phased::LOADS; k++) {
        const unsigned group = warp + k * phased::WARPS;
#pragma unroll
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned row = group * ITEMS + i;
            const unsigned shift =
                (static_cast<unsigned>(address) + row * static_cast<unsigned>(step)) % 4;
            const unsigned next = __shfl_down_sync(~0u, taken[k][i], 1);
            taken[k][i] = __funnelshift_r(taken[k][i], next, 8 * shift);
        }
        turn_words(taken[k]);
        if (lane < 31)
            put_words(&tile.at(group, lane * ITEMS), taken[k]);
    }
}

// The pack that begins at item `row` of the tile's column.
template <class T>
__device__ uint4 gather_phased(const phased_tile<T> &tile, unsigned row, unsigned column) {
    using phased = phased_tile<T>;
    union {
        uint4 all;
        typename phased::word words[phased::WORDS];
    } pack;
    const unsigned group = row / phased::ITEMS;
#pragma unroll
    for (unsigned j = 0; j < phased::WORDS; j++)
        pack.words[j] = tile.at(group + j, column);
    if constexpr (phased::ITEMS > 1) {
        const unsigned shift = row % phased::ITEMS * 8 * sizeof(T);
        const unsigned next = shift ? tile.at(group + phased::WORDS, column) : 0;
#pragma unroll
        for (unsigned j = 0; j < phased::WORDS; j++)
            pack.words[j] = __funnelshift_r(
                pack.words[j], j + 1 < phased::WORDS ? pack.words[j + 1] : next, shift);
    }
    return pack.all;
}

template <class T>
__device__ void store_phased(const phased_tile<T> &tile, T *to, uint64 pitch, int first, int rows,
                             unsigned columns) {
    using phased = phased_tile<T>;
    constexpr int ITEMS = 16 / sizeof(T);
#pragma unroll
    for (unsigned k = 0; k < phased::STORES; k++) {
        const unsigned i = threadIdx.x + k * TILES_BLOCK, rest = i / 32;
        const unsigned p = i % 8 + rest % 2 * 8, column = i / 8 % 4 + rest / 2 * 4;
        if (column >= columns)
            continue;
        T *row = to + column * pitch;
        const unsigned phase = static_cast<unsigned>(reinterpret_cast<uint64>(row)) % 32;
        const int ahead = static_cast<int>(p * ITEMS) - static_cast<int>(phase / sizeof(T));
        const int item = static_cast<int>(phased::LEAD) + ahead;
        if (item + ITEMS <= first || item >= rows)
            continue;
        const uint4 pack = gather_phased(tile, item, column);
        if (item >= first && item + ITEMS <= rows) {
            __stcs(reinterpret_cast<uint4 *>(row + ahead), pack);
        } else {
            union {
                uint4 all;
                T items[ITEMS];
            } parts = {pack};
#pragma unroll
            for (int j = 0; j < ITEMS; j++)
                if (item + j >= first && item + j < rows)
                    row[ahead + j] = parts.items[j];
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
    // Rows of the tile from `first` to before `rows` are in the matrix. Where all output rows begin
    // at a sector the block needs none of the rows before its own.
    const int first = corner.row_tile ? 0 : phased::LEAD;
    const uint64 left = plan.rows + phased::LEAD - row;
    const int rows = static_cast<int>(least(left, phased::ROWS + phased::LEAD));
    T *to = out + corner.out + column * plan.out_pitch + row;
    const bool phases = (reinterpret_cast<uint64>(to) | plan.out_pitch * sizeof(T)) % 32;
    const int skipped = phases ? first : phased::LEAD;
    const T *from = in + corner.in + row * plan.in_pitch + column - phased::LEAD * plan.in_pitch;
    if constexpr (phased::ITEMS == 1)
        load_phased(tile, from, plan.in_pitch, skipped, rows, columns, in, in + plan.items);
    else
        load_phased_words(tile, from, plan.in_pitch, skipped, rows, columns, in, in + plan.items);
    __syncthreads();
    store_phased(tile, to, plan.out_pitch, first, rows, columns);
}

// --- a square matrix in place: a block swaps a tile with the one that mirrors it, and turns both
template <class T> constexpr unsigned SQUARE = sizeof(T) == 1 ? 128 : sizeof(T) <= 4 ? 64 : 32;

template <class T> struct tile_pair {
    unsigned rows[2]; // of the upper tile, which are the lower's columns; and its columns
    uint64 upper, lower;
    __device__ tile_pair(const transpose_plan &plan, const tile_corner &corner) {
        const uint64 row = static_cast<uint64>(corner.row_tile) * SQUARE<T>;
        const uint64 column = static_cast<uint64>(corner.column_tile) * SQUARE<T>;
        rows[0] = least(plan.rows - row, SQUARE<T>);
        rows[1] = least(plan.rows - column, SQUARE<T>);
        upper = row * plan.in_pitch + column;
        lower = column * plan.in_pitch + row;
    }
};

template <class T>
__device__ void swap_packs(const T *in, T *out, const transpose_plan &plan,
                           const tile_corner &corner) {
    using square = aligned_tile<T, SQUARE<T>, SQUARE<T>>;
    const tile_pair<T> pair(plan, corner);
    const square upper{shared_memory<uint4>()}, lower{upper.packs + SQUARE<T> * square::PITCH};
    if (corner.row_tile > corner.column_tile)
        return;
    upper.template load<false>(in + pair.upper, plan.in_pitch, pair.rows[0], pair.rows[1]);
    lower.template load<false>(in + pair.lower, plan.in_pitch, pair.rows[1], pair.rows[0]);
    __syncthreads();
    upper.template store<false>(out + pair.lower, plan.in_pitch, pair.rows[0], pair.rows[1]);
    if (pair.upper != pair.lower)
        lower.template store<false>(out + pair.upper, plan.in_pitch, pair.rows[1], pair.rows[0]);
}

template <class T>
__device__ void swap_items(const T *in, T *out, const transpose_plan &plan,
                           const tile_corner &corner) {
    constexpr unsigned SIDE = SQUARE<T>, WARPS = TILES_BLOCK / 32;
    using row_of = T[SIDE + 1];
    const tile_pair<T> pair(plan, corner);
    row_of *upper = shared_memory<row_of>(), *lower = upper + SIDE;
    const unsigned x = threadIdx.x % 32, y = threadIdx.x / 32;
    if (corner.row_tile > corner.column_tile)
        return;
#pragma unroll 4
    for (unsigned i = y; i < SIDE; i += WARPS)
        for (unsigned j = x; j < SIDE; j += 32) {
            if (i < pair.rows[0] && j < pair.rows[1])
                upper[i][j] = in[pair.upper + i * plan.in_pitch + j];
            if (i < pair.rows[1] && j < pair.rows[0])
                lower[i][j] = in[pair.lower + i * plan.in_pitch + j];
        }
    __syncthreads();
#pragma unroll 4
    for (unsigned i = y; i < SIDE; i += WARPS)
        for (unsigned j = x; j < SIDE; j += 32) {
            if (i < pair.rows[1] && j < pair.rows[0])
                out[pair.lower + i * plan.in_pitch + j] = upper[j][i];
            if (pair.upper != pair.lower && i < pair.rows[0] && j < pair.rows[1])
                out[pair.upper + i * plan.in_pitch + j] = lower[j][i];
        }
}

} // namespace transpose
