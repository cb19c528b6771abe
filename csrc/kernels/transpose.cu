// transpose.cu: the transpose ladder of deck D1, rungs 1 to 6, its continuation, and the copy that
// bounds it. Knows no device and no host code.
//
// Every rung transposes `rows` x `columns` elements in C order, or a batch of such matrices; the
// last one supports any axes. It moves bytes: one kernel an element size. A rung's comment names
// its difference from the previous one.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

// One type an element size: 1, 2, 4, 8 and 16 bytes.
#define TRANSPOSE_SIGNATURES(SIGNATURE) \
    SIGNATURE(move, uint8, uint8)       \
    SIGNATURE(move, uint16, uint16)     \
    SIGNATURE(move, uint32, uint32)     \
    SIGNATURE(move, uint64, uint64)     \
    SIGNATURE(move, complex128, complex128)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default), items per thread (0: by the block size), flags,
//   the deck's time: D1 gives bandwidths only
RUNG(0, "copy", "transpose_copy",
     "the ceiling: reads and writes as many bytes, 16 per access, and transposes nothing",
     "D1 compare with a copy", 32, 1024, 256, 0, RUNG_CEILING, 0)
RUNG(1, "1d", "transpose_1d",
     "one thread per row, a loop over its columns: few threads, each load fetches a sector for one element",
     "D1 transpose 1d", 32, 1024, 1024, 0, RUNG_DECK_RATE, 9.7)
RUNG(2, "2d", "transpose_2d",
     "one thread per element: the whole GPU works, but a warp still loads from 32 rows",
     "D1 transpose 2d", 32, 1024, 1024, 1, RUNG_DECK_RATE, 41.6)
RUNG(3, "tex", "transpose_tex",
     "the loads go through the read-only (texture) cache, which keeps the sectors for the next warp",
     "D1 transpose with const restrict, __ldg", 32, 1024, 1024, 1, RUNG_DECK_RATE, 137.4)
RUNG(4, "shared", "transpose_shared",
     "a 32 x 32 tile in shared memory: loads and stores coalesced, 32-way bank conflicts",
     "D1 transpose shared", 32, 1024, 256, 0, RUNG_DECK_RATE, 116.0)
RUNG(5, "padded", "transpose_padded",
     "a tile of 32 x 33: the elements of a column lie in 32 different banks",
     "D1 transpose padded", 32, 1024, 256, 0, RUNG_DECK_RATE, 150.6)
RUNG(6, "multi", "transpose_multi",
     "several elements per thread in flight: all its loads are issued before the first is waited for",
     "D1 transpose multi", 64, 512, 128, 0, RUNG_BLOCK_IS_TEMPLATE | RUNG_DECK_RATE, 238.4)
RUNG(7, "vector", "transpose_vector",
     "vector loads and stores of 16 bytes through a swizzled tile, for any element size and shape",
     "after the deck", 256, 256, 256, 0, RUNG_BEST | RUNG_OVERLAPS, 0)
// clang-format on
#else

#include "transpose/transpose_narrow.cuh"
#include "transpose/transpose_packed.cuh"
#include "transpose/transpose_phased.cuh"
#include "transpose/transpose_rows.cuh"
#include "transpose/transpose_tiles.cuh"
#include "transpose/transpose_wide.cuh"

namespace transpose {

// Continuation of a grid of more than 65,535 rows of blocks, and the next matrix: z counts `layers`
// for each matrix.
struct grid_z {
    unsigned matrix = 0, layer = blockIdx.z;
    __device__ explicit grid_z(uint64 layers) {
        if (gridDim.z > 1) {
            matrix = blockIdx.z / static_cast<unsigned>(layers);
            layer = blockIdx.z % static_cast<unsigned>(layers);
        }
    }
};

// A matrix of the batch. Index of this thread's element of the output, for rungs with one a thread:
// adjacent threads store adjacent elements. Blocks are 32 wide.
__device__ inline uint64 grid_row(unsigned layer) {
    return static_cast<uint64>(layer) * gridDim.y + blockIdx.y;
}
__device__ inline uint64 thread_x() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 thread_y(unsigned layer) {
    return grid_row(layer) * blockDim.y + threadIdx.y;
}

// 16 bytes per thread if both arrays are aligned, else an element. The last block copies the rest
// after the last vector.
template <class T>
__device__ void transpose_copy(const T *in, T *out, uint64 rows, uint64 columns, unsigned) {
    constexpr unsigned ITEMS = 16 / sizeof(T);
    const uint64 i = global_thread(), count = rows * columns, vectors = count / ITEMS;
    if ((reinterpret_cast<uint64>(in) | reinterpret_cast<uint64>(out)) % 16) {
        const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * ITEMS + threadIdx.x;
        for (unsigned k = 0; k < ITEMS; k++)
            if (first + k * blockDim.x < count)
                out[first + k * blockDim.x] = in[first + k * blockDim.x];
        return;
    }
    if (i < vectors)
        reinterpret_cast<uint4 *>(out)[i] = reinterpret_cast<const uint4 *>(in)[i];
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < count % ITEMS)
        out[vectors * ITEMS + threadIdx.x] = in[vectors * ITEMS + threadIdx.x];
}

// A thread copies a row of the input to a column of the output. For the deck's matrix that is 4
// blocks for the K40's 15 multiprocessors, and a load uses 12.5% of the bytes that it fetches.
template <class T>
__device__ void transpose_1d(const T *in, T *out, uint64 rows, uint64 columns, unsigned) {
    const uint64 row = global_thread();
    if (row < rows)
        for (uint64 column = 0; column < columns; column++)
            out[column * rows + row] = in[row * columns + column];
}

// New: a thread copies one element. The deck's K40 reached 14% of its peak bandwidth.
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

// A block copies the 32 x 32 elements that begin at this row and column of the input.
constexpr unsigned TILE = 32;
__device__ inline uint64 tile_row(unsigned layer) { return grid_row(layer) * TILE; }
__device__ inline uint64 tile_column() { return static_cast<uint64>(blockIdx.x) * TILE; }

// New: the tile passes through shared memory, so that a warp loads a row of it and stores a column.
// It is transposed on its way in, so no store waits for bank conflicts. Pad is the padding of its
// rows in words. A block of 1,024 threads has the deck's one element per thread. A smaller one
// processes the tile in steps, and while some threads wait at the barrier, more other blocks load
// (TUNING.md T1). The default's steps are unrolled for whole tiles.
constexpr unsigned DEFAULT_HEIGHT = 256 / TILE;

template <unsigned Height, bool Whole, class T, unsigned Width>
__device__ void move_tile(T (&tile)[TILE][Width], const T *in, T *out, uint64 rows, uint64 columns,
                          unsigned layer) {
    const unsigned x = threadIdx.x, y = threadIdx.y, height = Height ? Height : blockDim.y;
    const uint64 first_row = tile_row(layer), first_column = tile_column();
#pragma unroll
    for (unsigned k = 0; k < TILE; k += height)
        if (Whole || (first_row + y + k < rows && first_column + x < columns))
            tile[x][y + k] = in[(first_row + y + k) * columns + first_column + x];
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < TILE; k += height)
        if (Whole || (first_row + x < rows && first_column + y + k < columns))
            out[(first_column + y + k) * rows + first_row + x] = tile[y + k][x];
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

// New: a thread copies every Height-th element of its column of the tile. A whole tile needs no
// bounds checks: its loads are all in flight before the first of them is waited for. The deck's
// reason: to keep its K40's DRAM busy, a multiprocessor needs about 100 lines in flight, and one
// load of each resident warp is 64. It reached 82% of the peak.
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

template <class T>
__device__ void move_unaligned_tile(const T *in, T *out, const transpose_plan &plan,
                                    const tile_corner &corner) {
    if constexpr (sizeof(T) >= 4)
        if (sizeof(T) > 4 || plan.shape == TRANSPOSE_WIDE) {
            move_wide_tile(in, out, plan, corner);
            return;
        }
    if constexpr (sizeof(T) < 4)
        if (plan.shape == TRANSPOSE_NARROW) {
            if (plan.unit_wide > 128)
                move_narrow_tile<T, sizeof(T) * 128>(in, out, plan, corner);
            else
                move_narrow_tile<T, 128>(in, out, plan, corner);
            return;
        }
    if constexpr (sizeof(T) <= 4)
        move_phased_tile(in, out, plan, corner);
}

// New: 16 bytes per load and store where rows allow it, and any axes. transpose_packed.cuh has
// other tiles for matrices that are too small or too narrow for these.
template <class T>
__device__ void transpose_vector(const T *in, T *out, const transpose_plan &plan) {
    if (plan.shape == TRANSPOSE_PACKED) {
        move_packed_tile(in, out, plan);
        return;
    }
    if (plan.shape == TRANSPOSE_ROWS) {
        if constexpr (sizeof(T) < 4)
            if (plan.columns * sizeof(T) >= 16 && plan.item_step == 1) {
                if (plan.items >> 31)
                    move_narrow_rows<uint64>(in, out, plan);
                else
                    move_narrow_rows<unsigned>(in, out, plan);
                return;
            }
        if (plan.items >> 31)
            move_rows<uint64>(in, out, plan);
        else
            move_rows<unsigned>(in, out, plan);
        return;
    }
    const tile_corner corner(plan);
    if (corner.row_tile >= plan.all_row_tiles) // the last strip has fewer
        return;
    if (plan.in_place && plan.shape == TRANSPOSE_ALIGNED)
        swap_vectors(in + corner.in, out + corner.out, plan, corner);
    else if (plan.in_place)
        swap_items(in + corner.in, out + corner.out, plan, corner);
    else if (plan.shape == TRANSPOSE_ALIGNED)
        move_aligned_tile(in + corner.in, out + corner.out, plan, corner);
    else
        move_unaligned_tile(in, out, plan, corner);
}

// --- the kernels: transpose_<rung>_move_<items>_<items>[_b<block>]

// By element size, types that __ldg accepts.
using type_uint8 = unsigned char;
using type_uint16 = unsigned short;
using type_uint32 = unsigned;
using type_uint64 = unsigned long long;
using type_complex128 = uint4;

// Blocks of rung 7 per multiprocessor: while some wait for their tables or for loads, others store
// (TUNING.md T23).
constexpr unsigned blocks_of(size_t item) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return 4; // all of its threads
#else
    return item < 4 ? 4 : item < 16 ? 6 : 5;
#endif
}

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
#define TRANSPOSE_KERNEL_V(rung, op, items, same)                                      \
    extern "C" __global__ void __launch_bounds__(256, blocks_of(sizeof(type_##items))) \
        rung##_##op##_##items##_##same(const type_##items *in, type_##items *out,      \
                                       const __grid_constant__ transpose_plan plan) {  \
        wait_for_kernel_before();                                                      \
        rung(in, out, plan);                                                           \
    }
#define TRANSPOSE_SAME_RUNGS(op, items, same)                 \
    TRANSPOSE_KERNEL(transpose_copy, op, items, same)         \
    TRANSPOSE_KERNEL(transpose_1d, op, items, same)           \
    TRANSPOSE_KERNEL(transpose_2d, op, items, same)           \
    TRANSPOSE_KERNEL(transpose_tex, op, items, same)          \
    TRANSPOSE_KERNEL(transpose_shared, op, items, same)       \
    TRANSPOSE_KERNEL(transpose_padded, op, items, same)       \
    TRANSPOSE_KERNEL_B(transpose_multi, 64, op, items, same)  \
    TRANSPOSE_KERNEL_B(transpose_multi, 128, op, items, same) \
    TRANSPOSE_KERNEL_B(transpose_multi, 256, op, items, same) \
    TRANSPOSE_KERNEL_B(transpose_multi, 512, op, items, same)
#define TRANSPOSE_NEWER_RUNGS(op, items, same) TRANSPOSE_KERNEL_V(transpose_vector, op, items, same)

SAME_FOR_ALL_GPUS(TRANSPOSE_SIGNATURES(TRANSPOSE_SAME_RUNGS))
TRANSPOSE_SIGNATURES(TRANSPOSE_NEWER_RUNGS)

} // namespace transpose

#endif
