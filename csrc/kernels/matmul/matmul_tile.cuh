// matmul_tile.cuh: how a block of matmul.cu's rungs from 6 on computes a tile of c: which tile, how
// its warps and threads divide it, and words of 128 bits. Contains no kernel.
#pragma once

#include "../common.cuh"

namespace matmul {

// The first row and column of the block's tile. blockIdx.x runs through GROUP tiles of a column
// before the next column: concurrent blocks then share rows of a and columns of b in L2.
constexpr unsigned GROUP = 8;
struct corner {
    uint64 row, column;
};
template <unsigned Rows, unsigned Columns> __device__ inline corner grouped_tile() {
    const uint64 group = static_cast<uint64>(blockIdx.z) * gridDim.y + blockIdx.y;
    return {(group * GROUP + blockIdx.x % GROUP) * Rows,
            static_cast<uint64>(blockIdx.x / GROUP) * Columns};
}

// 128 bits: the widest access of a thread.
template <class T> constexpr unsigned WIDE = 16 / sizeof(T);
template <class T> struct __align__(16) word { T items[WIDE<T>]; };

// Whether the rows of a matrix are aligned for words.
template <class T> __device__ inline bool in_words(const T *matrix, uint64 columns) {
    return columns % WIDE<T> == 0 && reinterpret_cast<size_t>(matrix) % sizeof(word<T>) == 0;
}

// How a block computes its tile of c. Tiles of a and b, Depth deep, pass through a ring of Stages
// in shared memory. A warp computes WarpRows x WarpColumns outputs; its lanes form a grid of Down x
// 32 / Down, with one word of outputs in every WIDE rows. With several slices, the warps of each
// process their part of the depth, and the sums are added at the end.
template <unsigned RowsV, unsigned ColumnsV, unsigned DepthV, unsigned WarpRowsV,
          unsigned WarpColumnsV, unsigned DownV, unsigned StagesV, unsigned SlicesV = 1>
struct tiling {
    static constexpr unsigned Rows = RowsV, Columns = ColumnsV, Depth = DepthV;
    static constexpr unsigned WarpRows = WarpRowsV, WarpColumns = WarpColumnsV;
    static constexpr unsigned Down = DownV, Across = 32 / Down;
    static constexpr unsigned Stages = StagesV, Slices = SlicesV;
    static constexpr unsigned SliceThreads = Rows / WarpRows * (Columns / WarpColumns) * 32;
    static constexpr unsigned Threads = SliceThreads * Slices;
};

// Adds the products of a column of a and element j of a row of b: down or, next to it, up.
template <unsigned Rows, unsigned Columns, class T>
__device__ inline void add_column(T (&sums)[Rows][Columns], const T (&a)[Rows],
                                  const T (&b)[Columns], unsigned j) {
#pragma unroll
    for (unsigned each = 0; each < Rows; each++) {
        const unsigned i = j % 2 ? Rows - 1 - each : each;
        sums[i][j] += a[i] * b[j];
    }
}

// Adds all products of a column and a row to sums. Consecutive multiplications share an operand,
// which the register file then reads once: float64 takes three cycles instead of two where it
// cannot (TUNING.md M6), so its columns are not interleaved.
template <unsigned Rows, unsigned Columns, class T, bool ByColumns = sizeof(T) == 8>
__device__ inline void add_products(T (&sums)[Rows][Columns], const T (&a)[Rows],
                                    const T (&b)[Columns]) {
    if constexpr (ByColumns) {
#pragma unroll
        for (unsigned j = 0; j < Columns; j++)
            add_column(sums, a, b, j);
    } else {
        // Two rows at a time, alternating down and up.
#pragma unroll
        for (unsigned pair = 0; pair < Rows; pair += 2)
#pragma unroll
            for (unsigned each = 0; each < Columns; each++) {
                const unsigned j = pair % 4 ? Columns - 1 - each : each;
                const unsigned upper = pair + each % 2, lower = pair + 1 - each % 2;
                sums[upper][j] += a[upper] * b[j];
                sums[lower][j] += a[lower] * b[j];
            }
    }
}

// A thread's outputs, and its part of the multiplications.
template <class Tiling, class T> struct outputs {
    static constexpr unsigned Wide = WIDE<T>;
    static constexpr unsigned RowWords = Tiling::WarpRows / (Tiling::Down * Wide);
    static constexpr unsigned ColumnWords = Tiling::WarpColumns / (Tiling::Across * Wide);
    static constexpr unsigned Rows = RowWords * Wide, Columns = ColumnWords * Wide;
    static constexpr unsigned RowStep = Tiling::Down * Wide, ColumnStep = Tiling::Across * Wide;

    unsigned row, column; // of the first, in the block's tile
    T sums[Rows][Columns];

    // Lanes whose indices differ in bit 1 read the same word of a, in bit 0 the same word of b: the
    // hardware then serves half a warp in one pass instead of a quarter.
    __device__ explicit outputs(unsigned thread) : sums{} { stand(thread); }
    __device__ void stand(unsigned thread) {
        constexpr unsigned WarpsAcross = Tiling::Columns / Tiling::WarpColumns;
        const unsigned warp = thread / 32, lane = thread % 32;
        const unsigned across = Tiling::Down == 2 ? lane % 16 : lane / 2 % Tiling::Across;
        const unsigned down =
            Tiling::Down == 2 ? lane / 16 : lane % 2 + lane / (2 * Tiling::Across) * 2;
        row = warp / WarpsAcross * Tiling::WarpRows + down * Wide;
        column = warp % WarpsAcross * Tiling::WarpColumns + across * Wide;
    }

    // Operands of one step of k, from the first element of a and of b.
    __device__ void read(const T *a, const T *b, T (&a_items)[Rows], T (&b_items)[Columns]) const {
#pragma unroll
        for (unsigned i = 0; i < RowWords; i++)
            *reinterpret_cast<word<T> *>(&a_items[i * Wide]) =
                *reinterpret_cast<const word<T> *>(a + i * RowStep);
#pragma unroll
        for (unsigned j = 0; j < ColumnWords; j++)
            *reinterpret_cast<word<T> *>(&b_items[j * Wide]) =
                *reinterpret_cast<const word<T> *>(b + j * ColumnStep);
    }

    __device__ void multiply(const T (&a_items)[Rows], const T (&b_items)[Columns]) {
        add_products(sums, a_items, b_items);
    }

    // Multiplies a step's operands while the next step's are in flight. Between float64's columns
    // one word is read: the compiler then keeps their order, in which the next multiplication
    // shares an operand (TUNING.md M23).
    __device__ void multiply_and_read(const T (&a_items)[Rows], const T (&b_items)[Columns],
                                      const T *a, const T *b, T (&a_next)[Rows],
                                      T (&b_next)[Columns]) {
        constexpr unsigned Words = RowWords + ColumnWords;
#pragma unroll
        for (unsigned j = 0; j < Columns; j++) {
#pragma unroll
            for (unsigned w = j * Words / Columns; w < (j + 1) * Words / Columns; w++)
                if (w < RowWords)
                    *reinterpret_cast<word<T> *>(&a_next[w * Wide]) =
                        *reinterpret_cast<const word<T> *>(a + w * RowStep);
                else
                    *reinterpret_cast<word<T> *>(&b_next[(w - RowWords) * Wide]) =
                        *reinterpret_cast<const word<T> *>(b + (w - RowWords) * ColumnStep);
            add_column(sums, a_items, b_items, j);
        }
    }

    __device__ void store(T *c, corner tile, uint64 m, uint64 n) const {
        const bool words = in_words(c, n);
#pragma unroll
        for (unsigned i = 0; i < Rows; i++) {
            const uint64 to_row = tile.row + row + i / Wide * RowStep + i % Wide;
            if (to_row >= m)
                continue;
#pragma unroll
            for (unsigned j = 0; j < Columns; j += Wide) {
                const uint64 to_column = tile.column + column + j / Wide * ColumnStep;
                T *to = c + to_row * n + to_column;
                if (words && to_column < n)
                    *reinterpret_cast<word<T> *>(to) =
                        *reinterpret_cast<const word<T> *>(&sums[i][j]);
#pragma unroll
                for (unsigned each = 0; each < Wide; each++)
                    if (!words && to_column + each < n)
                        to[each] = sums[i][j + each];
            }
        }
    }
};

// `Wide` elements from `from`, of which `there` exist; the others are 0.
template <class T> __device__ inline word<T> load_word(const T *from, bool words, uint64 there) {
    word<T> loaded = {};
    if (words) {
        if (there)
            loaded = *reinterpret_cast<const word<T> *>(from);
        return loaded;
    }
#pragma unroll
    for (unsigned i = 0; i < WIDE<T>; i++)
        if (i < there)
            loaded.items[i] = from[i];
    return loaded;
}
__device__ inline uint64 beyond(uint64 end, uint64 position) {
    return position < end ? end - position : 0;
}

} // namespace matmul
