// matmul.cu: the matrix product ladder of deck D2, continued to cuBLAS's methods: c = a * b, all in
// C order. Knows no device and no host code.
//
// a is m x k, b is k x n, c is m x n. Every sum runs over k from first to last, in slices of k if a
// rung has them. A rung's comment names its difference from the previous one.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

#define MATMUL_SIGNATURES(SIGNATURE)    \
    SIGNATURE(matmul, float32, float32) \
    SIGNATURE(matmul, float64, float64)
#define MATMUL_ANY_SIGNATURES(SIGNATURE) \
    MATMUL_SIGNATURES(SIGNATURE)         \
    SIGNATURE(matmul, float16, float32)  \
    SIGNATURE(matmul, bfloat16, float32)

// Tilings of the rungs with a ring in shared memory: threads per block, rows and columns of a tile,
// its depth in float32 elements, rows and columns of a warp's part, lanes of a warp from top to
// bottom, stages, slices, and float32 blocks that must fit a multiprocessor. A rung with several
// uses the one with the lowest estimate (TUNING.md M1, M14).
#define MATMUL_TILINGS(TILING)                        \
    TILING(8, 256, 128, 128, 8, 16, 128, 2, 2, 1, 2)  \
    TILING(9, 256, 128, 128, 16, 32, 64, 4, 2, 1, 2)  \
    TILING(10, 256, 128, 128, 16, 32, 64, 4, 2, 1, 2) \
    TILING(10, 128, 64, 64, 32, 32, 64, 4, 2, 2, 3)   \
    TILING(11, 256, 128, 128, 16, 32, 64, 4, 2, 1, 2) \
    TILING(11, 128, 64, 64, 32, 32, 64, 4, 2, 2, 3)   \
    TILING(11, 64, 64, 32, 16, 32, 32, 4, 4, 1, 8)
// The same of rung 11 for float32.
#define MATMUL_ELEMENT_TILINGS(TILING)               \
    TILING(11, 256, 128, 128, 8, 32, 64, 4, 4, 1, 2) \
    TILING(11, 128, 128, 32, 8, 32, 32, 4, 4, 1, 5)  \
    TILING(11, 64, 64, 64, 8, 32, 64, 4, 4, 1, 6)
// Tiles of float64 are at most 16 deep, for their shared memory.
#define MATMUL_DEPTH(depth, item_bytes) ((item_bytes) == 8 && (depth) > 16 ? 16 : (depth))

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default: the deck's), outputs per thread, flags,
//   the deck's microseconds for 1024 x 1024 float32 on an M2090
RUNG(1, "naive", "matmul_1",
     "one thread per output: two loads from global memory for every multiplication and addition",
     "D2 matmul naive", 256, 1024, 1024, 1, 0, 29630)
RUNG(2, "shared", "matmul_2",
     "tiles of 32 x 32 in shared memory: each loaded word serves 32 threads",
     "D2 matmul shared memory", 1024, 1024, 1024, 1, 0, 9440)
RUNG(3, "2-targets", "matmul_3",
     "two outputs per thread: three words from shared memory for two multiplications",
     "D2 matmul, 2 targets", 512, 512, 512, 2, 0, 6460)
RUNG(4, "4-targets", "matmul_4",
     "four outputs per thread: five words for four multiplications",
     "D2 matmul, 4 targets", 256, 256, 256, 4, 0, 5050)
RUNG(5, "8-targets", "matmul_5",
     "eight outputs per thread: nine words for eight multiplications, and eight independent sums",
     "D2 matmul, 8 targets", 128, 128, 128, 8, 0, 4530)
RUNG(6, "2d-targets", "matmul_6",
     "8 x 8 outputs per thread, in registers: 16 words from shared memory for 64 multiplications",
     "V. Volkov, J. Demmel, Benchmarking GPUs to tune dense linear algebra, SC 2008",
     256, 256, 256, 64, 0, 0)
RUNG(7, "words", "matmul_7",
     "every access is 128 bits wide: a quarter of the load and store instructions",
     "S. Boehm, How to optimize a CUDA matmul kernel (2022), kernel 6", 256, 256, 256, 64, 0, 0)
RUNG(8, "async", "matmul_8",
     "double buffering: while one tile is multiplied, asynchronous copies fetch the next",
     "NVIDIA, CUTLASS: efficient GEMM in CUDA, pipelining", 256, 256, 256, 64, 0, 0)
RUNG(9, "warp-tiles", "matmul_9",
     "a warp computes 32 x 64 outputs instead of 16 x 128: it reads fewer words of shared memory",
     "NVIDIA, CUTLASS: efficient GEMM in CUDA, warp tiles", 256, 256, 256, 64, 0, 0)
RUNG(10, "tuned", "matmul_10",
     "smaller tiles where larger ones would leave multiprocessors idle; two slices of the depth",
     "NVIDIA, CUTLASS: efficient GEMM in CUDA, parallelized reductions", 128, 256, 256, 64,
     RUNG_BLOCK_IS_TEMPLATE, 0)
RUNG(11, "stream-k", "matmul_11",
     "the tiles of the last round are split evenly along k: no multiprocessor waits for another's tile",
     "M. Osama et al., Stream-K, PPoPP 2023", 64, 256, 256, 64,
     RUNG_BLOCK_IS_TEMPLATE | RUNG_OVERLAPS | RUNG_ANY_DTYPE | RUNG_BEST, 0)
RUNG(12, "patches", "matmul_12",
     "tiles of any shape, teams and slices that divide k: narrow and small matrices, stacks, any layout",
     "NVIDIA, CUTLASS: efficient GEMM in CUDA, split-K and sliced-K", 128, 256, 128, 64,
     RUNG_BLOCK_IS_TEMPLATE | RUNG_OVERLAPS | RUNG_ANY_DTYPE, 0)
RUNG(13, "dots", "matmul_13",
     "no shared memory: threads divide k of one output or take rows of narrow ones; warps take rows times a vector",
     "NVIDIA, cuBLAS: gemv", 256, 256, 256, 0, RUNG_OVERLAPS | RUNG_ANY_DTYPE, 0)
// clang-format on
#else

#include "matmul/matmul_ring.cuh"
#include "matmul/matmul_any.cuh"
#include "matmul/matmul_chunks.cuh"
#include "matmul/matmul_patches.cuh"

namespace matmul {

constexpr unsigned TILE = 32;

// The first row and column of the block's tile of c. Grids of more than 65,535 rows of blocks
// continue in z.
__device__ inline uint64 tile_row() {
    return (static_cast<uint64>(blockIdx.z) * gridDim.y + blockIdx.y) * TILE;
}
__device__ inline uint64 tile_column() { return static_cast<uint64>(blockIdx.x) * TILE; }

template <class T>
__device__ void matmul_1(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    // Blocks of 32 x 32 or, for GPUs of smaller blocks, fewer rows. Their number fits 32 bits.
    const unsigned block = blockIdx.z * gridDim.y + blockIdx.y;
    const uint64 row = static_cast<uint64>(block) * blockDim.y + threadIdx.y;
    const uint64 column = tile_column() + threadIdx.x;
    if (row >= m || column >= n)
        return;
    T sum = 0;
    for (uint64 i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// New: the block reads a and b tile by tile through shared memory. A thread has Targets outputs of
// one column, Height rows apart, which share its reads of b. Tiles that reach past the edge are
// padded with zeros.
template <unsigned Targets, class T>
__device__ void matmul_tiles(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    constexpr unsigned Height = TILE / Targets;
    __shared__ __align__(16) T a_tile[TILE][TILE], b_tile[TILE][TILE];
    const unsigned x = threadIdx.x, y = threadIdx.y;
    const uint64 row = tile_row() + y, column = tile_column() + x;
    const bool whole = tile_row() + TILE <= m && tile_column() + TILE <= n;
    T sums[Targets] = {};
    for (uint64 first = 0; first < k; first += TILE) {
        T a_items[Targets], b_items[Targets];
        if (whole && first + TILE <= k) {
#pragma unroll
            for (unsigned t = 0; t < Targets; t++) {
                a_items[t] = a[(row + t * Height) * k + first + x];
                b_items[t] = b[(first + y + t * Height) * n + column];
            }
        } else {
#pragma unroll
            for (unsigned t = 0; t < Targets; t++) {
                const uint64 a_row = row + t * Height, b_row = first + y + t * Height;
                a_items[t] = a_row < m && first + x < k ? a[a_row * k + first + x] : T(0);
                b_items[t] = b_row < k && column < n ? b[b_row * n + column] : T(0);
            }
        }
#pragma unroll
        for (unsigned t = 0; t < Targets; t++) {
            a_tile[y + t * Height][x] = a_items[t];
            b_tile[y + t * Height][x] = b_items[t];
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < TILE; i++) {
            const T b_item = b_tile[i][x];
#pragma unroll
            for (unsigned t = 0; t < Targets; t++)
                sums[t] += a_tile[y + t * Height][i] * b_item;
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned t = 0; t < Targets; t++)
        if (row + t * Height < m && column < n)
            c[(row + t * Height) * n + column] = sums[t];
}
template <class T>
__device__ void matmul_2(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_tiles<1>(a, b, c, m, n, k);
}

// New: two, four, eight outputs per thread.
template <class T>
__device__ void matmul_3(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_tiles<2>(a, b, c, m, n, k);
}
template <class T>
__device__ void matmul_4(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_tiles<4>(a, b, c, m, n, k);
}
template <class T>
__device__ void matmul_5(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_tiles<8>(a, b, c, m, n, k);
}

// --- larger tiles: 256 threads in one dimension

// New: 8 x 8 outputs per thread, 16 rows and 16 columns apart, in a tile of 128 x 128: 16 words
// from shared memory for 64 multiplications. The tile of a is stored by columns, so that both are
// read alike.
template <class T>
__device__ void matmul_6(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    constexpr unsigned Side = 128, Depth = 8, Across = 16, Targets = Side / Across, Threads = 256;
    __shared__ __align__(16) T a_tile[Depth][Side + 4], b_tile[Depth][Side];
    const unsigned thread = threadIdx.x, x = thread % Across, y = thread / Across;
    const corner tile = grouped_tile<Side, Side>();
    if (tile.row >= m)
        return;
    T sums[Targets][Targets] = {};
    for (uint64 first = 0; first < k; first += Depth) {
#pragma unroll
        for (unsigned i = 0; i < Side * Depth / Threads; i++) {
            const unsigned row = thread / Depth + i * (Threads / Depth), a_step = thread % Depth;
            const unsigned column = thread % Side, b_step = thread / Side + i * (Threads / Side);
            const bool a_inside = tile.row + row < m && first + a_step < k;
            const bool b_inside = tile.column + column < n && first + b_step < k;
            a_tile[a_step][row] = a_inside ? a[(tile.row + row) * k + first + a_step] : T(0);
            b_tile[b_step][column] =
                b_inside ? b[(first + b_step) * n + tile.column + column] : T(0);
        }
        __syncthreads();
#pragma unroll
        for (unsigned step = 0; step < Depth; step++) {
            T a_items[Targets], b_items[Targets];
#pragma unroll
            for (unsigned t = 0; t < Targets; t++) {
                a_items[t] = a_tile[step][y + t * Across];
                b_items[t] = b_tile[step][x + t * Across];
            }
#pragma unroll
            for (unsigned i = 0; i < Targets; i++)
#pragma unroll
                for (unsigned j = 0; j < Targets; j++)
                    sums[i][j] += a_items[i] * b_items[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (unsigned i = 0; i < Targets; i++)
#pragma unroll
        for (unsigned j = 0; j < Targets; j++) {
            const uint64 row = tile.row + y + i * Across, column = tile.column + x + j * Across;
            if (row < m && column < n)
                c[row * n + column] = sums[i][j];
        }
}

// New: every access to global and shared memory is 128 bits wide: a thread's outputs form words,
// and a quarter of the instructions load them.
template <class T>
__device__ void matmul_7(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    using Tiling = tiling<128, 128, 8, 16, 128, 2, 1>;
    constexpr unsigned Wide = WIDE<T>, Depth = Tiling::Depth, Threads = Tiling::Threads;
    constexpr unsigned Words = 128 * Depth / Wide / Threads; // a thread's, of either tile
    __shared__ __align__(16) T a_tile[Depth][128 + Wide], b_tile[Depth][128];
    const corner tile = grouped_tile<128, 128>();
    if (tile.row >= m)
        return;
    const bool a_words = in_words(a, k), b_words = in_words(b, n);
    outputs<Tiling, T> mine(threadIdx.x);
    for (uint64 first = 0; first < k; first += Depth) {
#pragma unroll
        for (unsigned i = 0; i < Words; i++) {
            const unsigned number = threadIdx.x + i * Threads;
            const unsigned row = number / (Depth / Wide), a_step = number % (Depth / Wide) * Wide;
            const unsigned b_step = number / (128 / Wide), column = number % (128 / Wide) * Wide;
            const word<T> a_word = load_word(a + (tile.row + row) * k + first + a_step, a_words,
                                             tile.row + row < m ? beyond(k, first + a_step) : 0);
            const word<T> b_word =
                load_word(b + (first + b_step) * n + tile.column + column, b_words,
                          first + b_step < k ? beyond(n, tile.column + column) : 0);
#pragma unroll
            for (unsigned each = 0; each < Wide; each++)
                a_tile[a_step + each][row] = a_word.items[each];
            *reinterpret_cast<word<T> *>(&b_tile[b_step][column]) = b_word;
        }
        __syncthreads();
#pragma unroll
        for (unsigned step = 0; step < Depth; step++) {
            T a_items[mine.Rows], b_items[mine.Columns];
            mine.read(&a_tile[step][mine.row], &b_tile[step][mine.column], a_items, b_items);
            mine.multiply(a_items, b_items);
        }
        __syncthreads();
    }
    mine.store(c, tile, m, n);
}

// New: while the block multiplies one tile, the next are in flight to shared memory; and while it
// multiplies one step of k, the next step's words are in flight to registers.
template <class Tiling, class T>
__device__ void matmul_ring(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    const corner tile = grouped_tile<Tiling::Rows, Tiling::Columns>();
    if (tile.row >= m)
        return;
    outputs<Tiling, T> mine(threadIdx.x % Tiling::SliceThreads);
    make_tile(mine, a, b, m, n, k, tile, threadIdx.x);
    if (threadIdx.x < Tiling::SliceThreads)
        mine.store(c, tile, m, n);
}

// A rung's tiling for this block size, and the number of blocks that must fit a multiprocessor.
template <unsigned Rung, unsigned Threads, class T> struct tiling_of;
#define MATMUL_TILING_OF(T, rung, threads, rows, columns, depth, warp_rows, warp_columns, down, \
                         stages, slices, resident)                                              \
    struct tiling_of<rung, threads, T> {                                                        \
        using tiling_ = tiling<rows, columns, MATMUL_DEPTH(depth, sizeof(T)), warp_rows,        \
                               warp_columns, down, stages, slices>;                             \
        static_assert(tiling_::Threads == threads, "the warps make the whole tile");            \
        static constexpr unsigned Resident = sizeof(T) == 8 ? 1 : resident;                     \
    };
#define MATMUL_TILING_OF_ANY(...) template <class T> MATMUL_TILING_OF(T, __VA_ARGS__)
#define MATMUL_TILING_OF_FLOAT32(...) template <> MATMUL_TILING_OF(float32, __VA_ARGS__)
MATMUL_TILINGS(MATMUL_TILING_OF_ANY)
MATMUL_ELEMENT_TILINGS(MATMUL_TILING_OF_FLOAT32)
template <unsigned Rung, unsigned Threads, class T>
using rung_tiling = typename tiling_of<Rung, Threads, T>::tiling_;

template <class T>
__device__ void matmul_8(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_ring<rung_tiling<8, 256, T>>(a, b, c, m, n, k);
}

// New: a warp computes 32 x 64 outputs instead of 16 x 128: it reads 96 words of shared memory in a
// step instead of 144. Tiles are twice as deep: half as many barriers.
template <class T>
__device__ void matmul_9(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_ring<rung_tiling<9, 256, T>>(a, b, c, m, n, k);
}

// New: one of two tilings, by the shape.
template <unsigned Threads, class T>
__device__ void matmul_10(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    matmul_ring<rung_tiling<10, Threads, T>>(a, b, c, m, n, k);
}

// New: the blocks of the last round have even chunks of the remaining work; and any layout, stacks,
// and slices of k where tiles are few.
template <unsigned Threads, class T>
__device__ void matmul_11(const T *a, const T *b, T *c, const chunks<sum_of<T>> &cut,
                          const matmul_plan &plan) {
    matmul_chunks<rung_tiling<11, Threads, T>>(a, b, c, cut, plan);
}

// --- any product

// New: any layout, stack and shape: the plan has the tile's shape, the teams of a block that divide
// its depth, and the slices of k. A block size has one size of a thread's patch.
template <unsigned Threads, class T>
__device__ void matmul_12(const T *a, const T *b, T *c, sum_of<T> *partials,
                          const matmul_plan &plan) {
#define MATMUL_PATCH_OF(threads, rows, columns, wide_rows, wide_columns, stages, resident)   \
    if constexpr (Threads == threads && sizeof(sum_of<T>) == 8)                              \
        multiply_patches<wide_rows, wide_columns, threads, stages>(a, b, c, partials, plan); \
    else if constexpr (Threads == threads)                                                   \
        multiply_patches<rows, columns, threads, stages>(a, b, c, partials, plan);
    MATMUL_PATCHES(MATMUL_PATCH_OF)
}

// New: no tiles, for operands that are read once: a matrix times a vector, dot products. Also adds
// the slices of rungs 11 and 12.
template <class T>
__device__ void matmul_13(const T *a, const T *b, T *c, sum_of<T> *partials, unsigned mode,
                          const matmul_plan &plan) {
    if (mode == MATMUL_DOTS)
        multiply_dots(a, b, c, partials, plan);
    else if (mode == MATMUL_QUADS && (sizeof(T) == 2 || plan.n > 1))
        multiply_quads<MATMUL_QUAD>(a, b, c, partials, plan);
    else if (mode == MATMUL_QUADS) {
        if constexpr (sizeof(T) > 2)
            multiply_quads<1>(a, b, c, partials, plan);
    } else if (mode == MATMUL_COLUMNS)
        plan.n == 1 ? multiply_columns<1>(a, b, c, partials, plan)
                    : multiply_columns<MATMUL_COLUMNS_OF(sizeof(T))>(a, b, c, partials, plan);
    else if (mode == MATMUL_ROWS)
        plan.axis_count ? multiply_rows<true>(a, b, c, plan) : multiply_rows<false>(a, b, c, plan);
    else if (mode == MATMUL_OUTER)
        multiply_outer(a, b, c, plan);
    else
        join_slices(c, partials, plan);
}

// --- the kernels: matmul_<rung>_matmul_<items>_<items>, and _b<block> where the block size is a
// template argument

using type_float16 = half;
using type_bfloat16 = bfloat;
using type_float32 = float32;
using type_float64 = float64;

#define MATMUL_DEFINE(symbol, call, items, ...)                                                   \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                     \
        symbol(const type_##items *a, const type_##items *b, type_##items *c, uint64 m, uint64 n, \
               uint64 k) {                                                                        \
        call(a, b, c, m, n, k);                                                                   \
    }
#define MATMUL_KERNEL(rung, threads, op, items, same) \
    MATMUL_DEFINE(rung##_##op##_##items##_##same, rung, items, threads)
#define MATMUL_RING(number, threads, op, items, same)                                         \
    MATMUL_DEFINE(matmul_##number##_##op##_##items##_##same, matmul_##number, items, threads, \
                  tiling_of<number, threads, type_##items>::Resident)
#define MATMUL_RING_BLOCK(number, threads, op, items, same)               \
    MATMUL_DEFINE(matmul_##number##_##op##_##items##_##same##_b##threads, \
                  matmul_##number<threads>, items, threads,               \
                  tiling_of<number, threads, type_##items>::Resident)
#define MATMUL_CHUNKS(number, threads, op, items, same)                                            \
    extern "C" __global__ void __launch_bounds__(threads, MATMUL_RESIDENT(number, threads, items)) \
        matmul_##number##_##op##_##items##_##same##_b##threads(                                    \
            const type_##items *a, const type_##items *b, type_##items *c, type_##same *pieces,    \
            unsigned *tickets, uint64 whole, uint64 chunk, uint64 layers, uint64 cut_layers,       \
            const __grid_constant__ matmul_plan plan) {                                            \
        matmul_##number<threads>(a, b, c,                                                          \
                                 chunks<type_##same>{pieces, tickets, unsigned(whole),             \
                                                     unsigned(chunk), layers, cut_layers},         \
                                 plan);                                                            \
    }
// Blocks of 128 and 256 threads have no registers left for elements of 2 bytes.
#define MATMUL_RESIDENT(number, threads, items)  \
    (sizeof(type_##items) == 2 && threads >= 128 \
         ? 256 / threads                         \
         : tiling_of<number, threads, type_##items>::Resident)
#define MATMUL_PATCH_KERNEL(threads, resident, op, items, same)                                   \
    extern "C" __global__ void __launch_bounds__(threads, resident)                               \
        matmul_12_##op##_##items##_##same##_b##threads(                                           \
            const type_##items *a, const type_##items *b, type_##items *c, type_##same *partials, \
            const __grid_constant__ matmul_plan plan) {                                           \
        matmul_12<threads>(a, b, c, partials, plan);                                              \
    }
#define MATMUL_DOT_KERNELS(op, items, same)                                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, sizeof(type_##items) == 8 ? 2 : 3)   \
        matmul_13_##op##_##items##_##same(const type_##items *a, const type_##items *b,        \
                                          type_##items *c, type_##same *partials, uint64 mode, \
                                          const __grid_constant__ matmul_plan plan) {          \
        wait_for_kernel_before();                                                              \
        matmul_13(a, b, c, partials, static_cast<unsigned>(mode), plan);                       \
    }
#define MATMUL_ANY_RUNGS(op, items, same)        \
    MATMUL_CHUNKS(11, 64, op, items, same)       \
    MATMUL_CHUNKS(11, 128, op, items, same)      \
    MATMUL_CHUNKS(11, 256, op, items, same)      \
    MATMUL_PATCH_KERNEL(128, 4, op, items, same) \
    MATMUL_PATCH_KERNEL(256, 4, op, items, same) \
    MATMUL_DOT_KERNELS(op, items, same)
#define MATMUL_SAME_RUNGS(op, items, same)         \
    MATMUL_KERNEL(matmul_1, 1024, op, items, same) \
    MATMUL_KERNEL(matmul_2, 1024, op, items, same) \
    MATMUL_KERNEL(matmul_3, 512, op, items, same)  \
    MATMUL_KERNEL(matmul_4, 256, op, items, same)  \
    MATMUL_KERNEL(matmul_5, 128, op, items, same)  \
    MATMUL_KERNEL(matmul_6, 256, op, items, same)  \
    MATMUL_KERNEL(matmul_7, 256, op, items, same)
#define MATMUL_NEWER_RUNGS(op, items, same)     \
    MATMUL_RING(8, 256, op, items, same)        \
    MATMUL_RING(9, 256, op, items, same)        \
    MATMUL_RING_BLOCK(10, 128, op, items, same) \
    MATMUL_RING_BLOCK(10, 256, op, items, same)

SAME_FOR_ALL_GPUS(MATMUL_SIGNATURES(MATMUL_SAME_RUNGS))
MATMUL_SIGNATURES(MATMUL_NEWER_RUNGS)
MATMUL_ANY_SIGNATURES(MATMUL_ANY_RUNGS)

} // namespace matmul

#endif
