// transpose.cu: the transpose ladder of deck D1, rungs 1 to 6, what came after it, and the copy
// that bounds it.
//
// Every rung turns `rows` x `columns` items in C order into `columns` x `rows`. It moves bytes: one
// kernel an item size. A rung's comment says what is new against the one before.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

// One type an item size: 1, 2, 4, 8 and 16 bytes.
#define TRANSPOSE_SIGNATURES(SIGNATURE) \
    SIGNATURE(move, uint8, uint8)       \
    SIGNATURE(move, uint16, uint16)     \
    SIGNATURE(move, uint32, uint32)     \
    SIGNATURE(move, uint64, uint64)     \
    SIGNATURE(move, complex128, complex128)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads a block (least, most, default), items a thread (0: as many as the block leaves it), flags,
//   the deck's time: D1 gives bandwidths only
RUNG(0, "copy", "transpose_copy",
     "the ceiling: reads and writes as many bytes, and transposes nothing",
     "D1 compare with a copy", 32, 1024, 256, 1, RUNG_CEILING, 0)
RUNG(1, "1d", "transpose_1d",
     "one thread a row, a loop over its columns: few threads, each load fetches a sector for one item",
     "D1 transpose 1d", 32, 1024, 1024, 0, 0, 0)
RUNG(2, "2d", "transpose_2d",
     "one thread an item: the whole GPU works, but a warp still loads from 32 rows",
     "D1 transpose 2d", 32, 1024, 1024, 1, 0, 0)
RUNG(3, "tex", "transpose_tex",
     "the loads go through the read-only (texture) cache, which keeps the sectors for the next warp",
     "D1 transpose with const restrict, __ldg", 32, 1024, 1024, 1, 0, 0)
RUNG(4, "shared", "transpose_shared",
     "a 32 x 32 tile in shared memory: loads and stores coalesced, 32-way bank conflicts",
     "D1 transpose shared", 32, 1024, 256, 0, 0, 0)
RUNG(5, "padded", "transpose_padded",
     "a tile of 32 x 33: the items of a column lie in 32 different banks",
     "D1 transpose padded", 32, 1024, 256, 0, 0, 0)
RUNG(6, "multi", "transpose_multi",
     "several items a thread under way at once: all its loads before the first is waited for",
     "D1 transpose multi", 64, 512, 128, 0, RUNG_BLOCK_IS_TEMPLATE, 0)
RUNG(7, "vector", "transpose_vector",
     "16 bytes a load and a store, from and to a swizzled tile, whatever the items and the shape",
     "after the deck", 256, 256, 256, 0, RUNG_BEST, 0)
// clang-format on
#else

#include "common.cuh"

namespace transpose {

// Which item of the output this thread has where a thread has one: neighbouring threads store
// neighbouring items. Blocks are 32 wide; a grid of more than 65,535 rows of blocks goes on in z.
__device__ inline uint64 grid_row() {
    return static_cast<uint64>(blockIdx.z) * gridDim.y + blockIdx.y;
}
__device__ inline uint64 thread_x() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 thread_y() { return grid_row() * blockDim.y + threadIdx.y; }

template <class T>
__device__ void transpose_copy(const T *in, T *out, uint64 rows, uint64 columns) {
    const uint64 i = global_thread();
    if (i < rows * columns)
        out[i] = in[i];
}

// A thread takes a row of the input: a column of the output.
template <class T> __device__ void transpose_1d(const T *in, T *out, uint64 rows, uint64 columns) {
    const uint64 row = global_thread();
    if (row < rows)
        for (uint64 column = 0; column < columns; column++)
            out[column * rows + row] = in[row * columns + column];
}

// New: a thread takes one item.
template <class T> __device__ void transpose_2d(const T *in, T *out, uint64 rows, uint64 columns) {
    const uint64 row = thread_x(), column = thread_y();
    if (row < rows && column < columns)
        out[column * rows + row] = in[row * columns + column];
}

// New: __ldg, a load through the read-only cache.
template <class T> __device__ void transpose_tex(const T *in, T *out, uint64 rows, uint64 columns) {
    const uint64 row = thread_x(), column = thread_y();
    if (row < rows && column < columns)
        out[column * rows + row] = __ldg(&in[row * columns + column]);
}

// A block takes the 32 x 32 items that begin at this row and column of the input.
constexpr unsigned TILE = 32;
__device__ inline uint64 tile_row() { return grid_row() * TILE; }
__device__ inline uint64 tile_column() { return static_cast<uint64>(blockIdx.x) * TILE; }

// New: the tile goes through shared memory, so that a warp loads a row of it and stores a column.
// Pad is the number of words by which its rows are longer than the tile's. A block of 1,024 threads
// has the deck's one item a thread. A smaller one goes through the tile in steps, and while some
// threads wait at the barrier, more other blocks load: 8192^2 float32 took an H200 547 us with
// 1,024 threads and 387 us with 256 (November 2026). The default's steps are unrolled where the
// tile is whole.
constexpr unsigned DEFAULT_HEIGHT = 256 / TILE;

template <unsigned Height, bool Whole, class T, unsigned Width>
__device__ void move_tile(T (&tile)[TILE][Width], const T *in, T *out, uint64 rows,
                          uint64 columns) {
    const unsigned x = threadIdx.x, y = threadIdx.y, height = Height ? Height : blockDim.y;
    const uint64 first_row = tile_row(), first_column = tile_column();
#pragma unroll
    for (unsigned k = 0; k < TILE; k += height)
        if (Whole || (first_row + y + k < rows && first_column + x < columns))
            tile[y + k][x] = in[(first_row + y + k) * columns + first_column + x];
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < TILE; k += height)
        if (Whole || (first_row + x < rows && first_column + y + k < columns))
            out[(first_column + y + k) * rows + first_row + x] = tile[x][y + k];
}
template <unsigned Pad, class T>
__device__ void transpose_tile(const T *in, T *out, uint64 rows, uint64 columns) {
    __shared__ T tile[TILE][TILE + Pad];
    const bool whole = tile_row() + TILE <= rows && tile_column() + TILE <= columns;
    if (whole && blockDim.y == DEFAULT_HEIGHT)
        move_tile<DEFAULT_HEIGHT, true>(tile, in, out, rows, columns);
    else
        move_tile<0, false>(tile, in, out, rows, columns);
}
template <class T>
__device__ void transpose_shared(const T *in, T *out, uint64 rows, uint64 columns) {
    transpose_tile<0>(in, out, rows, columns);
}

// New: the padding.
template <class T>
__device__ void transpose_padded(const T *in, T *out, uint64 rows, uint64 columns) {
    transpose_tile<1>(in, out, rows, columns);
}

// New: a thread takes every Height-th item of its column of the tile. A whole tile needs no bounds:
// its loads are all under way before the first of them is waited for.
template <unsigned Block, class T>
__device__ void transpose_multi(const T *in, T *out, uint64 rows, uint64 columns) {
    constexpr unsigned Height = Block / TILE;
    __shared__ T tile[TILE][TILE + 1];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const uint64 first_row = tile_row(), first_column = tile_column();
    const T *from = in + (first_row + y) * columns + first_column + x;
    T *to = out + (first_column + y) * rows + first_row + x;
    if (first_row + TILE <= rows && first_column + TILE <= columns) {
        T items[TILE / Height];
#pragma unroll
        for (unsigned k = 0; k < TILE / Height; k++)
            items[k] = from[k * Height * columns];
#pragma unroll
        for (unsigned k = 0; k < TILE / Height; k++)
            tile[y + k * Height][x] = items[k];
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < TILE / Height; k++)
            to[k * Height * rows] = tile[x][y + k * Height];
    } else {
        for (unsigned k = 0; k < TILE; k += Height)
            if (first_row + y + k < rows && first_column + x < columns)
                tile[y + k][x] = from[k * columns];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k += Height)
            if (first_row + x < rows && first_column + y + k < columns)
                to[k * rows] = tile[x][y + k];
    }
}

// New: 16 bytes (a pack) an access to global memory. A tile is 128 or 256 bytes wide on both sides.
// It lies in shared memory as it lies in the input, pack by pack, and a store gathers its items
// from a column of it. So that the gathering lanes of a warp (8 packs of 4 neighbouring columns)
// meet different banks, pack p of a row lies at p ^ (row / items of a pack % 8).
//
// A row need not begin at a 16-byte boundary: the packs are those of memory, a row of the tile then
// has one more of them, and `shift` is where in the first of them the row begins. Blocks go down
// the columns of tiles, so that neighbours in time store neighbouring packs: 8192^2 float32 took an
// H200 3,941 GB/s in the order of rows and 4,075 so (a copy: 4,182; November 2026).
template <class T> struct wide_tile {
    static constexpr unsigned BLOCK = 256;
    static constexpr unsigned ITEMS = 16 / sizeof(T); // of a pack
    static constexpr unsigned ROWS = sizeof(T) <= 2 ? 128 : 256 / sizeof(T);
    static constexpr unsigned COLUMNS = sizeof(T) == 1    ? 128
                                        : sizeof(T) == 2  ? 64
                                        : sizeof(T) == 16 ? 32
                                                          : ROWS;
    static constexpr unsigned PACKS = COLUMNS / ITEMS;     // of an input row
    static constexpr unsigned OUTPUT_PACKS = ROWS / ITEMS; // of an output row
    static constexpr unsigned PITCH = PACKS + 1;           // in shared memory

    // Where pack p of a row lies.
    static __device__ unsigned place(unsigned row, unsigned p) {
        return row * PITCH + (p < PACKS ? p ^ (row / ITEMS % 8) : p);
    }
};

// A row's first byte within its first pack, for rows that are `step` bytes apart.
__device__ inline unsigned shift_of(const void *first, uint64 step, unsigned row) {
    return (static_cast<unsigned>(reinterpret_cast<uint64>(first)) +
            static_cast<unsigned>(step) * row) %
           16;
}

// A whole tile, and all packs at 16-byte boundaries; whole, and its rows' first and last packs are
// within the array too; any.
enum tile_kind { ALIGNED, INSIDE, EDGE };

// The pack of the array at `at`, as far as the array goes. The rest is never looked at.
template <class T> __device__ uint4 load_pack(const char *at, const char *begin, const char *end) {
    if (at >= begin && at + 16 <= end)
        return __ldcs(reinterpret_cast<const uint4 *>(at));
    union {
        uint4 all;
        T items[16 / sizeof(T)];
    } pack = {};
#pragma unroll
    for (unsigned i = 0; i < 16 / sizeof(T); i++)
        if (at + i * sizeof(T) >= begin && at + i * sizeof(T) < end)
            pack.items[i] = *reinterpret_cast<const T *>(at + i * sizeof(T));
    return pack.all;
}

template <tile_kind Kind, class T>
__device__ void load_tile(uint4 *tile, const T *in, uint64 rows, uint64 columns, uint64 first_row,
                          uint64 first_column) {
    using wide = wide_tile<T>;
    constexpr unsigned steps = wide::ROWS * wide::PACKS / wide::BLOCK;
    const char *begin = reinterpret_cast<const char *>(in);
    const char *end = begin + rows * columns * sizeof(T);
    const char *first = begin + (first_row * columns + first_column) * sizeof(T);
    const uint64 step = columns * sizeof(T);
    const unsigned tall = rows - first_row < wide::ROWS ? unsigned(rows - first_row) : wide::ROWS;
    const unsigned across =
        (columns - first_column < wide::COLUMNS ? unsigned(columns - first_column)
                                                : wide::COLUMNS) *
        sizeof(T);
    uint4 packs[steps];
#pragma unroll
    for (unsigned k = 0; k < steps; k++) {
        const unsigned i = threadIdx.x + k * wide::BLOCK, row = i / wide::PACKS,
                       p = i % wide::PACKS;
        const unsigned shift = Kind == ALIGNED ? 0 : shift_of(first, step, row);
        const char *at = first + row * step - shift + 16 * p;
        if (Kind != EDGE)
            packs[k] = __ldcs(reinterpret_cast<const uint4 *>(at));
        else if (row < tall && 16 * p < shift + across)
            packs[k] = load_pack<T>(at, begin, end);
    }
#pragma unroll
    for (unsigned k = 0; k < steps; k++) {
        const unsigned i = threadIdx.x + k * wide::BLOCK, row = i / wide::PACKS,
                       p = i % wide::PACKS;
        tile[wide::place(row, p)] = packs[k];
    }
    if (Kind != ALIGNED && threadIdx.x < tall) {
        const unsigned row = threadIdx.x, shift = shift_of(first, step, row);
        if (16 * wide::PACKS < shift + across)
            tile[wide::place(row, wide::PACKS)] =
                load_pack<T>(first + row * step - shift + 16 * wide::PACKS, begin, end);
    }
}

// Items `item` to `item` + ITEMS - 1 of an output row, which are a column of the tile, to `at`; as
// far as there are items.
template <tile_kind Kind, class T>
__device__ void store_pack(const uint4 *tile, char *at, int item, unsigned items, unsigned column,
                           const char *first, uint64 step) {
    using wide = wide_tile<T>;
    union {
        uint4 all;
        T items[wide::ITEMS];
    } pack;
#pragma unroll
    for (unsigned i = 0; i < wide::ITEMS; i++) {
        const unsigned row = static_cast<unsigned>(item) + i;
        if (Kind == ALIGNED || row < items) {
            const unsigned byte =
                (Kind == ALIGNED ? 0 : shift_of(first, step, row)) + column * unsigned(sizeof(T));
            pack.items[i] = reinterpret_cast<const T *>(
                tile + wide::place(row, byte / 16))[byte % 16 / sizeof(T)];
        }
    }
    if (Kind == ALIGNED || (item >= 0 && static_cast<unsigned>(item) + wide::ITEMS <= items)) {
        __stcs(reinterpret_cast<uint4 *>(at), pack.all);
    } else {
#pragma unroll
        for (unsigned i = 0; i < wide::ITEMS; i++)
            if (static_cast<unsigned>(item) + i < items)
                reinterpret_cast<T *>(at)[i] = pack.items[i];
    }
}

template <tile_kind Kind, class T>
__device__ void move_wide_tile(uint4 *tile, const T *in, T *out, uint64 rows, uint64 columns) {
    using wide = wide_tile<T>;
    const uint64 first_row = static_cast<uint64>(blockIdx.x) * wide::ROWS;
    const uint64 first_column = grid_row() * wide::COLUMNS;
    if (first_column >= columns)
        return; // the last layer of a grid in z
    load_tile<Kind>(tile, in, rows, columns, first_row, first_column);
    __syncthreads();
    const char *first = reinterpret_cast<const char *>(in + first_row * columns + first_column);
    const uint64 step = columns * sizeof(T), out_step = rows * sizeof(T);
    char *to = reinterpret_cast<char *>(out + first_column * rows + first_row);
    const unsigned tall = rows - first_row < wide::ROWS ? unsigned(rows - first_row) : wide::ROWS;
    const unsigned across =
        columns - first_column < wide::COLUMNS ? unsigned(columns - first_column) : wide::COLUMNS;
    constexpr unsigned lanes = wide::OUTPUT_PACKS < 8 ? wide::OUTPUT_PACKS : 8;
    constexpr unsigned steps = wide::COLUMNS * wide::OUTPUT_PACKS / wide::BLOCK;
#pragma unroll
    for (unsigned k = 0; k < steps; k++) {
        const unsigned i = threadIdx.x + k * wide::BLOCK, rest = i / (lanes * 4);
        const unsigned p = i % lanes + rest % (wide::OUTPUT_PACKS / lanes) * lanes;
        const unsigned column = i / lanes % 4 + rest / (wide::OUTPUT_PACKS / lanes) * 4;
        const unsigned shift = Kind == ALIGNED ? 0 : shift_of(to, out_step, column);
        const int item = static_cast<int>(p * wide::ITEMS) - static_cast<int>(shift / sizeof(T));
        if (Kind != EDGE || (column < across && item < static_cast<int>(tall)))
            store_pack<Kind, T>(tile, to + column * out_step - shift + 16 * p, item, tall, column,
                                first, step);
    }
    if (Kind != ALIGNED && threadIdx.x < across) {
        const unsigned column = threadIdx.x, shift = shift_of(to, out_step, column);
        const unsigned item = wide::ROWS - shift / unsigned(sizeof(T));
        if (shift && item < tall)
            store_pack<Kind, T>(tile, to + column * out_step - shift + 16 * wide::OUTPUT_PACKS,
                                static_cast<int>(item), tall, column, first, step);
    }
}

template <class T>
__device__ void transpose_vector(const T *in, T *out, uint64 rows, uint64 columns) {
    using wide = wide_tile<T>;
    __shared__ uint4 tile[wide::ROWS * wide::PITCH];
    const uint64 all = reinterpret_cast<uint64>(in) | reinterpret_cast<uint64>(out) |
                       rows * sizeof(T) | columns * sizeof(T);
    const uint64 row_end = (blockIdx.x + 1ull) * wide::ROWS;
    const uint64 column_end = (grid_row() + 1) * wide::COLUMNS;
    if (all % 16 == 0 && row_end <= rows && column_end <= columns)
        move_wide_tile<ALIGNED>(tile, in, out, rows, columns);
    else if (blockIdx.x && row_end < rows && column_end <= columns)
        move_wide_tile<INSIDE>(tile, in, out, rows, columns);
    else
        move_wide_tile<EDGE>(tile, in, out, rows, columns);
}

// --- the kernels: transpose_<rung>_move_<items>_<items>[_b<block>]

// By item size, types that __ldg takes.
using type_uint8 = unsigned char;
using type_uint16 = unsigned short;
using type_uint32 = unsigned;
using type_uint64 = unsigned long long;
using type_complex128 = uint4;

#define TRANSPOSE_KERNEL(rung, op, items, same)                                   \
    extern "C" __global__ void rung##_##op##_##items##_##same(                    \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns) { \
        rung(in, out, rows, columns);                                             \
    }
#define TRANSPOSE_KERNEL_B(rung, block, op, items, same)                                           \
    extern "C" __global__ void __launch_bounds__(block) rung##_##op##_##items##_##same##_b##block( \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns) {                  \
        rung<block>(in, out, rows, columns);                                                       \
    }
#define TRANSPOSE_KERNEL_V(rung, op, items, same)                                        \
    extern "C" __global__ void __launch_bounds__(256, 4) rung##_##op##_##items##_##same( \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns) {        \
        rung(in, out, rows, columns);                                                    \
    }
#define TRANSPOSE_EVERY_RUNG(op, items, same)                 \
    TRANSPOSE_KERNEL(transpose_copy, op, items, same)         \
    TRANSPOSE_KERNEL(transpose_1d, op, items, same)           \
    TRANSPOSE_KERNEL(transpose_2d, op, items, same)           \
    TRANSPOSE_KERNEL(transpose_tex, op, items, same)          \
    TRANSPOSE_KERNEL(transpose_shared, op, items, same)       \
    TRANSPOSE_KERNEL(transpose_padded, op, items, same)       \
    TRANSPOSE_KERNEL_B(transpose_multi, 64, op, items, same)  \
    TRANSPOSE_KERNEL_B(transpose_multi, 128, op, items, same) \
    TRANSPOSE_KERNEL_B(transpose_multi, 256, op, items, same) \
    TRANSPOSE_KERNEL_B(transpose_multi, 512, op, items, same) \
    TRANSPOSE_KERNEL_V(transpose_vector, op, items, same)

TRANSPOSE_SIGNATURES(TRANSPOSE_EVERY_RUNG)

} // namespace transpose

#endif
