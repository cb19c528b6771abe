// historical.cu: the decks' listings as they were, one a rung, as a reader who knows the slides
// expects them: 32-bit indices, no bounds check, one element per thread. Only the simulated GPU
// runs them. Knows no device and no host code.
//
// Not the decks': `volatile` in the last warp of the reductions 6 and 7. Without it today's
// compiler keeps the running sum in a register and stores it once, which is wrong on every GPU.
// Reduction 5 and the stencil's race are in reduce.cu and stencil1d.cu.
//
// To add a listing: a row under its family, a kernel below, its launch in ops_historical.c.

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default: the deck's), items per thread (0: a loop), flags,
//   the deck's time or rate
#ifdef HISTORICAL_REDUCE
RUNG(1, "1-historical", "reduce_1h",
     "the deck's listing: a real remainder, tid % (2 * s), in every round",
     "D0, D4 reduction 1", 2, 512, 128, 1, RUNG_HISTORICAL | RUNG_LISTING, 8054)
RUNG(2, "2-historical", "reduce_2h",
     "the deck's listing: index 2 * s * tid, below blockDim.x; D4 prints blockDim.x / s, a misprint",
     "D0, D4 reduction 2", 2, 512, 128, 1, RUNG_HISTORICAL | RUNG_LISTING, 3456)
RUNG(3, "3-historical", "reduce_3h",
     "the deck's listing: the distance halves from blockDim.x / 2",
     "D0, D4 reduction 3", 2, 512, 128, 1, RUNG_HISTORICAL | RUNG_LISTING, 1722)
RUNG(4, "4-historical", "reduce_4h",
     "the deck's listing: half the blocks, two elements added while loading",
     "D0, D4 reduction 4", 1, 512, 128, 2, RUNG_HISTORICAL | RUNG_LISTING, 965)
RUNG(6, "6-historical", "reduce_6h",
     "the deck's listing: ten instances for blocks of 512 to 1, no barrier in the last warp",
     "D0, D4 reduction 6", 1, 512, 128, 2,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_BLOCK_IS_TEMPLATE, 381)
RUNG(7, "7-historical", "reduce_7h",
     "the deck's final listing: 64 blocks, whose threads sum many elements in shared memory first",
     "D0, D4 reduction 7", 1, 512, 128, 0,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_BLOCK_IS_TEMPLATE, 268)
#endif
#ifdef HISTORICAL_TRANSPOSE
RUNG(1, "1-historical", "transpose_1h",
     "the deck's listing: one thread per row, blocks of 256, so that 1,024 rows are 4 blocks",
     "D1 transpose 1d", 32, 512, 256, 0, RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 9.7)
RUNG(2, "2-historical", "transpose_2h",
     "the deck's listing: one thread per element, i from x and j from y",
     "D1 transpose 2d", 32, 1024, 1024, 1, RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 41.6)
RUNG(3, "3-historical", "transpose_3h",
     "the deck's listing: the same with const __restrict__ and __ldg",
     "D1 transpose tex", 32, 1024, 1024, 1, RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 137.4)
RUNG(4, "4-historical", "transpose_4h",
     "the deck's listing: one element per thread, turned on the way out of the tile of 32 x 32",
     "D1 transpose shared", 1024, 1024, 1024, 1,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 116.0)
RUNG(5, "5-historical", "transpose_5h",
     "the deck's listing: the tile of 32 x 33",
     "D1 transpose padded", 1024, 1024, 1024, 1,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 150.6)
RUNG(6, "6-historical", "transpose_6h",
     "several elements per thread, which the deck says without code: blocks of 32 x 8, four each",
     "D1 transpose multi", 64, 512, 256, 4, RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 238.4)
#endif
#ifdef HISTORICAL_STENCIL1D
RUNG(2, "2-listing", "stencil1d_2l",
     "the deck's listing: blocks of 16, a static array of 16 + 6, and its barrier",
     "D1 stencil with __syncthreads", 16, 16, 16, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
#endif
#ifdef HISTORICAL_ADD
RUNG(1, "1-historical", "vector_1h",
     "the deck's listing: one thread adds two numbers",
     "D1 add<<<1, 1>>>", 1, 1, 1, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
RUNG(2, "2-historical", "vector_2h",
     "the deck's listing: N blocks of one thread, by blockIdx.x",
     "D1 add<<<N, 1>>>", 1, 1, 1, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
RUNG(3, "3-historical", "vector_3h",
     "the deck's listing: one block of N threads, by threadIdx.x",
     "D1 add<<<1, N>>>", 0, 0, 0, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
RUNG(4, "4-historical", "vector_4h",
     "the deck's listing: N / M blocks of M threads",
     "D1 add<<<N/M, M>>>", 32, 1024, 512, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
RUNG(5, "5-historical", "vector_5h",
     "the deck's listing: a bounds check and N / M + 1 blocks, one too many where M divides N",
     "D1 add<<<N/M + 1, M>>>", 32, 1024, 512, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
#endif
#ifdef HISTORICAL_SAXPY
RUNG(5, "5-historical", "saxpy_5h",
     "the deck's saxpy: one thread per element, and a bounds check",
     "D1 saxpy", 32, 1024, 256, 1, RUNG_HISTORICAL | RUNG_LISTING, 0)
#endif
#ifdef HISTORICAL_MATMUL
RUNG(1, "1-historical", "matmul_1h",
     "the deck's listing: one thread a target, a loop over k in global memory",
     "D2 matmul naive", 256, 1024, 1024, 1, RUNG_HISTORICAL | RUNG_LISTING, 29630)
RUNG(2, "2-historical", "matmul_2h",
     "the deck's listing: tiles of 32 x 32 of both matrices, one target per thread",
     "D2 matmul shared memory", 1024, 1024, 1024, 1, RUNG_HISTORICAL | RUNG_LISTING, 9440)
RUNG(3, "3-historical", "matmul_3h",
     "the deck's listing: two targets of one column per thread, the element of B in a register",
     "D2 matmul, 2 targets", 512, 512, 512, 2, RUNG_HISTORICAL | RUNG_LISTING, 6460)
RUNG(4, "4-historical", "matmul_4h",
     "the deck's listing: four targets of one column per thread",
     "D2 matmul, 4 targets", 256, 256, 256, 4, RUNG_HISTORICAL | RUNG_LISTING, 5050)
RUNG(5, "5-historical", "matmul_5h",
     "the deck's listing: eight targets of one column per thread",
     "D2 matmul, 8 targets", 128, 128, 128, 8, RUNG_HISTORICAL | RUNG_LISTING, 4530)
RUNG(-1, "d0-plain", "matmul_d0_plain",
     "all threads of a half-warp read one element of A: uncoalesced on compute capability 1.0 and 1.1",
     "D0 matmul, no optimisation (G80; 8.8 GB/s on a GTX 280)", 256, 256, 256, 1,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 0.7)
RUNG(-1, "d0-tile-of-a", "matmul_d0_tile_of_a",
     "a tile of A in shared memory: its loads coalesce; B is still read once a row of the block",
     "D0 matmul, tile of A (G80; 14.3 GB/s on a GTX 280)", 256, 256, 256, 1,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 8.2)
RUNG(-1, "d0-tiles", "matmul_d0_tiles",
     "a tile of B in shared memory too: no element is read twice by a block",
     "D0 matmul, tiles of A and B (G80; 29.7 GB/s on a GTX 280)", 256, 256, 256, 1,
     RUNG_HISTORICAL | RUNG_LISTING | RUNG_DECK_RATE, 15.7)
#endif
// clang-format on
#else

// --- reduction, D0 and D4: int, one result a block

// D0's shader of this listing reads and writes one buffer: a block may overwrite elements that
// another has yet to read. D4 counts 4,227,394 accesses for 4,194,304 elements in blocks of 128;
// the four launches read 4,227,330 words and write 33,027.
extern "C" __global__ void reduce_1h_sum_int32_int32(const int *in, int *out, unsigned) {
    extern __shared__ int sdata[];
    const unsigned tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = in[i];
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        if (tid % (2 * s) == 0)
            sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}

// D4 prints the condition `index < blockDim.x / s`: the numbers 0 to 127, whose sum is 8,128, then
// give 539. The decks name 2-way conflicts at every step; a block of 128 has 2, 4, 8, 8, 4, 2 ways.
extern "C" __global__ void reduce_2h_sum_int32_int32(const int *in, int *out, unsigned) {
    extern __shared__ int sdata[];
    const unsigned tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = in[i];
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        const unsigned index = 2 * s * tid;
        if (index < blockDim.x)
            sdata[index] += sdata[index + s];
        __syncthreads();
    }
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}

extern "C" __global__ void reduce_3h_sum_int32_int32(const int *in, int *out, unsigned) {
    extern __shared__ int sdata[];
    const unsigned tid = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = in[i];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s)
            sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}

extern "C" __global__ void reduce_4h_sum_int32_int32(const int *in, int *out, unsigned) {
    extern __shared__ int sdata[];
    const unsigned tid = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    sdata[tid] = in[i] + in[i + blockDim.x];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s)
            sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}

// The last warp of 6 and 7, whose lanes execute in step. Lanes past the last sum add what nothing
// reads.
template <unsigned blockSize>
__device__ void historical_last_warp(volatile int *sdata, unsigned tid) {
    if (blockSize >= 64)
        sdata[tid] += sdata[tid + 32];
    if (blockSize >= 32)
        sdata[tid] += sdata[tid + 16];
    if (blockSize >= 16)
        sdata[tid] += sdata[tid + 8];
    if (blockSize >= 8)
        sdata[tid] += sdata[tid + 4];
    if (blockSize >= 4)
        sdata[tid] += sdata[tid + 2];
    if (blockSize >= 2)
        sdata[tid] += sdata[tid + 1];
}

template <unsigned blockSize>
__device__ void historical_unrolled_tree(int *sdata, unsigned tid, int *out) {
    if (blockSize >= 512) {
        if (tid < 256)
            sdata[tid] += sdata[tid + 256];
        __syncthreads();
    }
    if (blockSize >= 256) {
        if (tid < 128)
            sdata[tid] += sdata[tid + 128];
        __syncthreads();
    }
    if (blockSize >= 128) {
        if (tid < 64)
            sdata[tid] += sdata[tid + 64];
        __syncthreads();
    }
    if (tid < 32)
        historical_last_warp<blockSize>(sdata, tid);
    if (tid == 0)
        out[blockIdx.x] = sdata[0];
}

template <unsigned blockSize> __device__ void reduce_6h(const int *in, int *out) {
    extern __shared__ int sdata[];
    const unsigned tid = threadIdx.x, i = blockIdx.x * (blockSize * 2) + threadIdx.x;
    sdata[tid] = in[i] + in[i + blockSize];
    __syncthreads();
    historical_unrolled_tree<blockSize>(sdata, tid, out);
}

template <unsigned blockSize> __device__ void reduce_7h(const int *in, int *out, unsigned n) {
    extern __shared__ int sdata[];
    const unsigned tid = threadIdx.x, gridSize = blockSize * 2 * gridDim.x;
    unsigned i = blockIdx.x * (blockSize * 2) + threadIdx.x;
    sdata[tid] = 0;
    do {
        sdata[tid] += in[i] + in[i + blockSize];
        i += gridSize;
    } while (i < n);
    __syncthreads();
    historical_unrolled_tree<blockSize>(sdata, tid, out);
}

#define HISTORICAL_BLOCK(block)                                                            \
    extern "C" __global__ void reduce_6h_sum_int32_int32_b##block(const int *in, int *out, \
                                                                  unsigned) {              \
        reduce_6h<block>(in, out);                                                         \
    }                                                                                      \
    extern "C" __global__ void reduce_7h_sum_int32_int32_b##block(const int *in, int *out, \
                                                                  unsigned n) {            \
        reduce_7h<block>(in, out, n);                                                      \
    }
HISTORICAL_BLOCK(512)
HISTORICAL_BLOCK(256)
HISTORICAL_BLOCK(128)
HISTORICAL_BLOCK(64)
HISTORICAL_BLOCK(32)
HISTORICAL_BLOCK(16)
HISTORICAL_BLOCK(8)
HISTORICAL_BLOCK(4)
HISTORICAL_BLOCK(2)
HISTORICAL_BLOCK(1)

// --- transpose, D1: float; `rows` x `cols` in, turned out

extern "C" __global__ void transpose_1h_move_uint32_uint32(const float *in, float *out, int rows,
                                                           int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < cols; j++)
        out[j * rows + i] = in[i * cols + j];
}

extern "C" __global__ void transpose_2h_move_uint32_uint32(const float *in, float *out, int rows,
                                                           int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = blockIdx.y * blockDim.y + threadIdx.y;
    out[j * rows + i] = in[i * cols + j];
}

extern "C" __global__ void transpose_3h_move_uint32_uint32(const float *__restrict__ in,
                                                           float *__restrict__ out, int rows,
                                                           int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = blockIdx.y * blockDim.y + threadIdx.y;
    out[j * rows + i] = __ldg(&in[i * cols + j]);
}

extern "C" __global__ void transpose_4h_move_uint32_uint32(const float *in, float *out, int rows,
                                                           int cols) {
    __shared__ float tile[32][32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[j * cols + i];
    __syncthreads();
    i = blockIdx.y * blockDim.y + threadIdx.x;
    j = blockIdx.x * blockDim.x + threadIdx.y;
    out[j * rows + i] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void transpose_5h_move_uint32_uint32(const float *in, float *out, int rows,
                                                           int cols) {
    __shared__ float tile[32][33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[j * cols + i];
    __syncthreads();
    i = blockIdx.y * blockDim.y + threadIdx.x;
    j = blockIdx.x * blockDim.x + threadIdx.y;
    out[j * rows + i] = tile[threadIdx.x][threadIdx.y];
}

// The deck has no code of this rung.
extern "C" __global__ void transpose_6h_move_uint32_uint32(const float *in, float *out, int rows,
                                                           int cols) {
    __shared__ float tile[32][33];
    int i = blockIdx.x * 32 + threadIdx.x;
    int j = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += blockDim.y)
        tile[threadIdx.y + k][threadIdx.x] = in[(j + k) * cols + i];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x;
    j = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += blockDim.y)
        out[(j + k) * rows + i] = tile[threadIdx.x][threadIdx.y + k];
}

// --- stencil, D1: int; `in` points at the first element that has three neighbours before it

#define RADIUS 3
#define BLOCK_SIZE 16
extern "C" __global__ void stencil1d_2l_sum_int32_int32(const int *in, int *out) {
    __shared__ int temp[BLOCK_SIZE + 2 * RADIUS];
    const int gindex = threadIdx.x + blockIdx.x * blockDim.x, lindex = threadIdx.x + RADIUS;
    temp[lindex] = in[gindex];
    if (threadIdx.x < RADIUS) {
        temp[lindex - RADIUS] = in[gindex - RADIUS];
        temp[lindex + BLOCK_SIZE] = in[gindex + BLOCK_SIZE];
    }
    __syncthreads();
    int result = 0;
    for (int offset = -RADIUS; offset <= RADIUS; offset++)
        result += temp[lindex + offset];
    out[gindex] = result;
}

// --- vector addition, D1: int

extern "C" __global__ void vector_1h_add_int32_int32(const int *a, const int *b, int *c) {
    *c = *a + *b;
}

extern "C" __global__ void vector_2h_add_int32_int32(const int *a, const int *b, int *c) {
    c[blockIdx.x] = a[blockIdx.x] + b[blockIdx.x];
}

extern "C" __global__ void vector_3h_add_int32_int32(const int *a, const int *b, int *c) {
    c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}

extern "C" __global__ void vector_4h_add_int32_int32(const int *a, const int *b, int *c) {
    const int index = threadIdx.x + blockIdx.x * blockDim.x;
    c[index] = a[index] + b[index];
}

extern "C" __global__ void vector_5h_add_int32_int32(const int *a, const int *b, int *c, int n) {
    const int index = threadIdx.x + blockIdx.x * blockDim.x;
    if (index < n)
        c[index] = a[index] + b[index];
}

// The deck's saxpy stores into y.
extern "C" __global__ void saxpy_5h_saxpy_float32_float32(const float *x, const float *y,
                                                          float *out, int n, float a) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a * x[i] + y[i];
}

// --- matrix multiplication, D2: float; `m` x `k` times `k` x `n`

extern "C" __global__ void matmul_1h_matmul_float32_float32(const float *a, const float *b,
                                                            float *c, int, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 1 // the deck's compiler of 2011 did not unroll loops of unknown length
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// Tiles of 32 x 32; a thread has `targets` rows of one column, 32 / targets apart.
template <int targets>
__device__ void historical_targets(const float *a, const float *b, float *c, int n, int k) {
    constexpr int height = 32 / targets;
    __shared__ float a_tile[32][32], b_tile[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 32 + ty, column = blockIdx.x * 32 + tx;
    float sums[targets] = {};
    for (int first = 0; first < k; first += 32) {
        for (int t = 0; t < targets; t++) {
            a_tile[ty + t * height][tx] = a[(row + t * height) * k + first + tx];
            b_tile[ty + t * height][tx] = b[(first + ty + t * height) * n + column];
        }
        __syncthreads();
        for (int i = 0; i < 32; i++) {
            const float shared_by_targets = b_tile[i][tx];
            for (int t = 0; t < targets; t++)
                sums[t] += a_tile[ty + t * height][i] * shared_by_targets;
        }
        __syncthreads();
    }
    for (int t = 0; t < targets; t++)
        c[(row + t * height) * n + column] = sums[t];
}

extern "C" __global__ void matmul_2h_matmul_float32_float32(const float *a, const float *b,
                                                            float *c, int, int n, int k) {
    historical_targets<1>(a, b, c, n, k);
}

extern "C" __global__ void matmul_3h_matmul_float32_float32(const float *a, const float *b,
                                                            float *c, int, int n, int k) {
    historical_targets<2>(a, b, c, n, k);
}

extern "C" __global__ void matmul_4h_matmul_float32_float32(const float *a, const float *b,
                                                            float *c, int, int n, int k) {
    historical_targets<4>(a, b, c, n, k);
}

extern "C" __global__ void matmul_5h_matmul_float32_float32(const float *a, const float *b,
                                                            float *c, int, int n, int k) {
    historical_targets<8>(a, b, c, n, k);
}

// --- matrix multiplication, D0's extra slides: blocks of 16 x 16. The deck's inner dimension is
// 16, a single round of the outer loop.

extern "C" __global__ void matmul_d0_plain_matmul_float32_float32(const float *a, const float *b,
                                                                  float *c, int, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// A row of the tile is read by the half-warp that wrote it, so the deck has no barrier here; this
// one lets it run on GPUs whose lanes are not in step.
extern "C" __global__ void matmul_d0_tile_of_a_matmul_float32_float32(const float *a,
                                                                      const float *b, float *c, int,
                                                                      int n, int k) {
    __shared__ float a_tile[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int first = 0; first < k; first += 16) {
        a_tile[ty][tx] = a[row * k + first + tx];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += a_tile[ty][i] * b[(first + i) * n + column];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void matmul_d0_tiles_matmul_float32_float32(const float *a, const float *b,
                                                                  float *c, int, int n, int k) {
    __shared__ float a_tile[16][16], b_tile[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int first = 0; first < k; first += 16) {
        a_tile[ty][tx] = a[row * k + first + tx];
        b_tile[ty][tx] = b[(first + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

#endif
