// matmul.cu: the matrix product ladder of deck D2: c = a * b, all in C order.
//
// a is m x k, b is k x n, c is m x n. Every sum runs over k from first to last. A rung's comment
// says what is new against the one before.
//
// To add a rung: a row in RUNGS, a template below, and its name in the list at the end.

#define MATMUL_SIGNATURES(SIGNATURE)    \
    SIGNATURE(matmul, float32, float32) \
    SIGNATURE(matmul, float64, float64)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads a block (least, most, default: the deck's), outputs a thread, flags,
//   the deck's microseconds for 1024 x 1024 float32 on an M2090
RUNG(1, "naive", "matmul_1",
     "one thread an output: two loads from global memory for every multiplication and addition",
     "D2 matmul naive", 1024, 1024, 1024, 1, 0, 29630)
RUNG(2, "shared", "matmul_2",
     "tiles of 32 x 32 in shared memory: each word that is loaded serves 32 threads",
     "D2 matmul shared memory", 1024, 1024, 1024, 1, 0, 9440)
RUNG(3, "2-targets", "matmul_3",
     "two outputs a thread: three words from shared memory for two multiplications",
     "D2 matmul, 2 targets", 512, 512, 512, 2, 0, 6460)
RUNG(4, "4-targets", "matmul_4",
     "four outputs a thread: five words for four",
     "D2 matmul, 4 targets", 256, 256, 256, 4, 0, 5050)
RUNG(5, "8-targets", "matmul_5",
     "eight outputs a thread: nine words for eight, and eight independent sums",
     "D2 matmul, 8 targets", 128, 128, 128, 8, RUNG_BEST, 4530)
// clang-format on
#else

#include "common.cuh"

namespace matmul {

constexpr unsigned TILE = 32;

// The first row and column of the block's tile of c. A grid of more than 65,535 rows of blocks goes
// on in z.
__device__ inline uint64 tile_row() {
    return (static_cast<uint64>(blockIdx.z) * gridDim.y + blockIdx.y) * TILE;
}
__device__ inline uint64 tile_column() { return static_cast<uint64>(blockIdx.x) * TILE; }

template <class T>
__device__ void matmul_1(const T *a, const T *b, T *c, uint64 m, uint64 n, uint64 k) {
    const uint64 row = tile_row() + threadIdx.y, column = tile_column() + threadIdx.x;
    if (row >= m || column >= n)
        return;
    T sum = 0;
    for (uint64 i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// New: the block goes through a and b tile by tile, and every tile through shared memory. A thread
// has Targets outputs of one column, Height rows apart: what it reads of b serves all of them.
// Tiles that reach over the edge are filled up with zeros.
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

// New: two, four, eight outputs a thread.
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

// --- the kernels: matmul_<rung>_matmul_<items>_<items>

using type_float32 = float32;
using type_float64 = float64;

#define MATMUL_KERNEL(rung, threads, op, items, same)                                   \
    extern "C" __global__ void __launch_bounds__(threads)                               \
        rung##_##op##_##items##_##same(const type_##items *a, const type_##items *b,    \
                                       type_##items *c, uint64 m, uint64 n, uint64 k) { \
        rung(a, b, c, m, n, k);                                                         \
    }
#define MATMUL_EVERY_RUNG(op, items, same)         \
    MATMUL_KERNEL(matmul_1, 1024, op, items, same) \
    MATMUL_KERNEL(matmul_2, 1024, op, items, same) \
    MATMUL_KERNEL(matmul_3, 512, op, items, same)  \
    MATMUL_KERNEL(matmul_4, 256, op, items, same)  \
    MATMUL_KERNEL(matmul_5, 128, op, items, same)

MATMUL_SIGNATURES(MATMUL_EVERY_RUNG)

} // namespace matmul

#endif
