// transpose_tiles.cuh: the tiles of rung 7 of transpose.cu, which transpose a matrix, or a batch of
// them: which tile a block has, tiles whose rows begin and end at vectors, and square matrices in
// place. Contains no kernel.
#pragma once

#include "transpose_loads.cuh"

namespace transpose {

// Rows may be strided: a `pitch` is their distance in elements.

// The block's tile: its matrix, which begins at elements `in` and `out` of the arrays, and the
// tile's first element. Blocks go down the columns of tiles, so that consecutive ones store
// adjacent vectors (TUNING.md T2). If rows of the input are a multiple of 128 KiB apart, concurrent
// reads would share address bit 16, which is slow: two columns, 64 KiB apart, then alternate (T3).
// If neighbours in a row share the 256 bytes that load_around fetches, a long column would evict
// them first: the matrix is then divided into strips, the grid's y (T4), of which the last may have
// fewer rows of tiles. Matrices that continue each other's rows come before the next column of
// tiles (T19).
struct tile_corner {
    uint64 in = 0, out = 0;
    unsigned row_tile, column_tile = 0;

    __device__ explicit tile_corner(const transpose_plan &plan) {
        unsigned index = blockIdx.x, columns = plan.column_tiles, second = 0;
        if (plan.apart) {
            second = index % 2 * plan.apart;
            index /= 2, columns /= 2;
        }
        row_tile = index % plan.row_tiles + blockIdx.y * plan.row_tiles;
        index /= plan.row_tiles;
#pragma unroll 1
        for (unsigned k = 0; k <= plan.grid_axes; k++) {
            if (k == plan.near_axes) {
                column_tile = index % columns;
                index /= columns;
            }
            if (k == plan.grid_axes)
                break;
            const unsigned extent = static_cast<unsigned>(plan.axes[k].extent);
            in += index % extent * plan.axes[k].in;
            out += index % extent * plan.axes[k].out;
            index /= extent;
        }
        if (plan.apart)
            column_tile += column_tile / plan.apart * plan.apart + second;
    }
};

// --- tiles where every row begins and ends at a vector
//
// The tile has the input's order in shared memory, vector by vector, and a store gathers its
// elements from a column of it. So that the gathering lanes of a warp (8 vectors of 4 adjacent
// columns) use different banks, vector p of a row is stored at p ^ (row / elements of a vector %
// 8). Lanes that store elements of 16 bytes take 32 of a column (TUNING.md T49).
template <class T, unsigned Rows, unsigned Columns> struct aligned_tile {
    static constexpr unsigned ITEMS = 16 / sizeof(T);        // of a vector
    static constexpr unsigned VECTORS = Columns / ITEMS;     // of an input row
    static constexpr unsigned OUTPUT_VECTORS = Rows / ITEMS; // of an output row
    static constexpr unsigned PITCH = VECTORS + 1;           // in shared memory
    static constexpr unsigned LOADS = Rows * VECTORS / TILES_BLOCK;
    static constexpr unsigned STORES = Columns * OUTPUT_VECTORS / TILES_BLOCK;
    uint4 *vectors;

    __device__ uint4 *slot(unsigned row, unsigned p) const {
        return vectors + row * PITCH + (ITEMS > 1 ? p ^ (row / ITEMS % 8) : p);
    }

    template <bool Whole, bool Around>
    __device__ void load(const T *from, uint64 pitch, unsigned rows, unsigned columns) const {
        uint4 taken[LOADS];
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, row = i / VECTORS, p = i % VECTORS;
            const uint4 *vector = reinterpret_cast<const uint4 *>(from + row * pitch) + p;
            if (Whole || (row < rows && p * ITEMS < columns))
                taken[k] = Around ? load_around(vector) : *vector;
        }
#pragma unroll
        for (unsigned k = 0; k < LOADS; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, row = i / VECTORS, p = i % VECTORS;
            if (Whole || (row < rows && p * ITEMS < columns))
                *slot(row, p) = taken[k];
        }
    }

    // Loads the input, within its rows and columns.
    template <bool Whole>
    __device__ void load(const T *from, uint64 pitch, unsigned rows, unsigned columns) const {
        if (VECTORS * 16 < 256 || (reinterpret_cast<uint64>(from) | pitch * sizeof(T)) % 256)
            load<Whole, true>(from, pitch, rows, columns);
        else
            load<Whole, false>(from, pitch, rows, columns);
    }

    template <bool Whole>
    __device__ void store(T *to, uint64 pitch, unsigned rows, unsigned columns) const {
        constexpr unsigned most = ITEMS > 1 ? 8 : 32, across = 32 / most;
        constexpr unsigned lanes = OUTPUT_VECTORS < most ? OUTPUT_VECTORS : most;
#pragma unroll
        for (unsigned k = 0; k < STORES; k++) {
            const unsigned i = threadIdx.x + k * TILES_BLOCK, rest = i / (lanes * across);
            const unsigned p = i % lanes + rest % (OUTPUT_VECTORS / lanes) * lanes;
            const unsigned column = i / lanes % across + rest / (OUTPUT_VECTORS / lanes) * across;
            if (!Whole && (column >= columns || p * ITEMS >= rows))
                continue;
            vec<T> gathered;
            const T *top = reinterpret_cast<const T *>(slot(p * ITEMS, column / ITEMS));
#pragma unroll
            for (unsigned j = 0; j < ITEMS; j++)
                gathered.items[j] = top[j * PITCH * ITEMS + column % ITEMS];
            store_vector(reinterpret_cast<uint4 *>(to + column * pitch) + p, gathered.all);
        }
    }
};

// 16 KiB, with at least 128 bytes on both sides, 256 if the elements are wide enough (TUNING.md
// T11).
template <class T>
__device__ void move_aligned_tile(const T *in, T *out, const transpose_plan &plan,
                                  const tile_corner &corner) {
    constexpr unsigned ROWS = TRANSPOSE_TILE_ROWS(sizeof(T));
    constexpr unsigned COLUMNS = TRANSPOSE_TILE_COLUMNS(sizeof(T));
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

// --- a square matrix in place: a block swaps a tile with its mirror image, and transposes both
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
__device__ void swap_vectors(const T *in, T *out, const transpose_plan &plan,
                             const tile_corner &corner) {
    using square = aligned_tile<T, SQUARE<T>, SQUARE<T>>;
    const tile_pair<T> pair(plan, corner);
    const square upper{shared_memory<uint4>()}, lower{upper.vectors + SQUARE<T> * square::PITCH};
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
#pragma unroll 1
        for (unsigned j = x; j < SIDE; j += 32) {
            if (i < pair.rows[0] && j < pair.rows[1])
                upper[i][j] = in[pair.upper + i * plan.in_pitch + j];
            if (i < pair.rows[1] && j < pair.rows[0])
                lower[i][j] = in[pair.lower + i * plan.in_pitch + j];
        }
    __syncthreads();
#pragma unroll 4
    for (unsigned i = y; i < SIDE; i += WARPS)
#pragma unroll 1
        for (unsigned j = x; j < SIDE; j += 32) {
            if (i < pair.rows[1] && j < pair.rows[0])
                out[pair.lower + i * plan.in_pitch + j] = upper[j][i];
            if (pair.upper != pair.lower && i < pair.rows[0] && j < pair.rows[1])
                out[pair.upper + i * plan.in_pitch + j] = lower[j][i];
        }
}

} // namespace transpose
