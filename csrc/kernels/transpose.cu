// transpose.cu: the transpose ladder of deck D1, rungs 1 to 6, what came after it, and the copy
// that bounds it.
//
// Every rung turns `rows` x `columns` items in C order into `columns` x `rows`, or a batch of such
// matrices; the last one takes any axes. It moves bytes: one kernel an item size. A rung's comment
// says what is new against the one before.
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
#include "transpose_packed.cuh"
#include "transpose_tiles.cuh"

namespace transpose {

// Where a grid of more than 65,535 rows of blocks goes on, and then the next matrix: z counts
// `layers` for each matrix.
struct grid_z {
    unsigned matrix = 0, layer = blockIdx.z;
    __device__ explicit grid_z(uint64 layers) {
        if (gridDim.z > 1) {
            matrix = blockIdx.z / static_cast<unsigned>(layers);
            layer = blockIdx.z % static_cast<unsigned>(layers);
        }
    }
};

// A matrix of the batch. Which item of the output this thread has where a thread has one:
// neighbouring threads store neighbouring items. Blocks are 32 wide.
__device__ inline uint64 grid_row(unsigned layer) {
    return static_cast<uint64>(layer) * gridDim.y + blockIdx.y;
}
__device__ inline uint64 thread_x() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 thread_y(unsigned layer) {
    return grid_row(layer) * blockDim.y + threadIdx.y;
}

template <class T>
__device__ void transpose_copy(const T *in, T *out, uint64 rows, uint64 columns, unsigned) {
    const uint64 i = global_thread();
    if (i < rows * columns)
        out[i] = in[i];
}

// A thread takes a row of the input: a column of the output.
template <class T>
__device__ void transpose_1d(const T *in, T *out, uint64 rows, uint64 columns, unsigned) {
    const uint64 row = global_thread();
    if (row < rows)
        for (uint64 column = 0; column < columns; column++)
            out[column * rows + row] = in[row * columns + column];
}

// New: a thread takes one item.
template <class T>
__device__ void transpose_2d(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    const uint64 row = thread_x(), column = thread_y(layer);
    if (row < rows && column < columns)
        out[column * rows + row] = in[row * columns + column];
}

// New: __ldg, a load through the read-only cache.
template <class T>
__device__ void transpose_tex(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    const uint64 row = thread_x(), column = thread_y(layer);
    if (row < rows && column < columns)
        out[column * rows + row] = __ldg(&in[row * columns + column]);
}

// A block takes the 32 x 32 items that begin at this row and column of the input.
constexpr unsigned TILE = 32;
__device__ inline uint64 tile_row(unsigned layer) { return grid_row(layer) * TILE; }
__device__ inline uint64 tile_column() { return static_cast<uint64>(blockIdx.x) * TILE; }

// New: the tile goes through shared memory, so that a warp loads a row of it and stores a column.
// Pad is the number of words by which its rows are longer than the tile's. A block of 1,024 threads
// has the deck's one item a thread. A smaller one goes through the tile in steps, and while some
// threads wait at the barrier, more other blocks load: 8192^2 float32 took an H200 547 us with
// 1,024 threads and 387 us with 256 (November 2026). The default's steps are unrolled where the
// tile is whole.
constexpr unsigned DEFAULT_HEIGHT = 256 / TILE;

template <unsigned Height, bool Whole, class T, unsigned Width>
__device__ void move_tile(T (&tile)[TILE][Width], const T *in, T *out, uint64 rows, uint64 columns,
                          unsigned layer) {
    const unsigned x = threadIdx.x, y = threadIdx.y, height = Height ? Height : blockDim.y;
    const uint64 first_row = tile_row(layer), first_column = tile_column();
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
__device__ void transpose_tile(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    __shared__ T tile[TILE][TILE + Pad];
    const bool whole = tile_row(layer) + TILE <= rows && tile_column() + TILE <= columns;
    if (whole && blockDim.y == DEFAULT_HEIGHT)
        move_tile<DEFAULT_HEIGHT, true>(tile, in, out, rows, columns, layer);
    else
        move_tile<0, false>(tile, in, out, rows, columns, layer);
}
template <class T>
__device__ void transpose_shared(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    transpose_tile<0>(in, out, rows, columns, layer);
}

// New: the padding.
template <class T>
__device__ void transpose_padded(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    transpose_tile<1>(in, out, rows, columns, layer);
}

// New: a thread takes every Height-th item of its column of the tile. A whole tile needs no bounds:
// its loads are all under way before the first of them is waited for.
template <unsigned Block, class T>
__device__ void transpose_multi(const T *in, T *out, uint64 rows, uint64 columns, unsigned layer) {
    constexpr unsigned Height = Block / TILE;
    __shared__ T tile[TILE][TILE + 1];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const uint64 first_row = tile_row(layer), first_column = tile_column();
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

// New: 16 bytes a load and a store, any axes; transpose_tiles.cuh has its tiles.
template <class T>
__device__ void transpose_vector(const T *in, T *out, const transpose_plan &plan) {
    if (plan.shape == TRANSPOSE_PACKED) {
        move_packed_tiles(in, out, plan);
        return;
    }
    const tile_corner corner(plan);
    if (plan.in_place && plan.shape == TRANSPOSE_ALIGNED)
        swap_packs(in + corner.in, out + corner.out, plan, corner);
    else if (plan.in_place)
        swap_items(in + corner.in, out + corner.out, plan, corner);
    else if (plan.shape == TRANSPOSE_ALIGNED)
        move_aligned_tile(in + corner.in, out + corner.out, plan, corner);
    else
        move_phased_tile(in, out, plan, corner);
}

// --- the kernels: transpose_<rung>_move_<items>_<items>[_b<block>]

// By item size, types that __ldg takes.
using type_uint8 = unsigned char;
using type_uint16 = unsigned short;
using type_uint32 = unsigned;
using type_uint64 = unsigned long long;
using type_complex128 = uint4;

// Each works on one matrix of the batch.
#define TRANSPOSE_MATRIX(call)                        \
    const grid_z z(layers);                           \
    const unsigned layer = z.layer;                   \
    const uint64 skipped = z.matrix * rows * columns; \
    in += skipped, out += skipped, call

#define TRANSPOSE_KERNEL(rung, op, items, same)                                                  \
    extern "C" __global__ void rung##_##op##_##items##_##same(                                   \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns, uint64 layers) { \
        TRANSPOSE_MATRIX(rung(in, out, rows, columns, layer));                                   \
    }
#define TRANSPOSE_KERNEL_B(rung, block, op, items, same)                                           \
    extern "C" __global__ void __launch_bounds__(block) rung##_##op##_##items##_##same##_b##block( \
        const type_##items *in, type_##items *out, uint64 rows, uint64 columns, uint64 layers) {   \
        TRANSPOSE_MATRIX(rung<block>(in, out, rows, columns, layer));                              \
    }
#define TRANSPOSE_KERNEL_V(rung, op, items, same)                                                 \
    extern "C" __global__ void __launch_bounds__(256, 4) rung##_##op##_##items##_##same(          \
        const type_##items *in, type_##items *out, const __grid_constant__ transpose_plan plan) { \
        rung(in, out, plan);                                                                      \
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
