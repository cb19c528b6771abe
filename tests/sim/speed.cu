// speed.cu: twenty kernels as programmers write them; `pytest -m speed -s tests/sim` times them.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

KERNEL copy(const float *a, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] = a[i];
}

KERNEL copy4(const float4 *a, float4 *b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        b[i] = a[i];
}

KERNEL saxpy(const float *x, float *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = 2.5f * x[i] + y[i];
}

KERNEL gather(const float *a, const int *index, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[i] = a[index[i] * 40503 & (n - 1)];
}

KERNEL scatter(const float *a, const int *index, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        b[index[i] * 40503 & (n - 1)] = a[i];
}

KERNEL grey(const unsigned char *rgb, unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (unsigned char)(0.21f * rgb[3 * i] + 0.72f * rgb[3 * i + 1] + 0.07f * rgb[3 * i + 2]);
}

KERNEL transpose_naive(const float *a, float *b, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n)
        b[x * n + y] = a[y * n + x];
}

KERNEL stencil5(const float *a, float *b, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        b[y * n + x] = 0.2f * (a[y * n + x] + a[y * n + x - 1] + a[y * n + x + 1] + a[(y - 1) * n + x] +
                               a[(y + 1) * n + x]);
}

KERNEL matmul_naive(const float *a, const float *b, float *c, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

KERNEL matmul_tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float s[16][16], t[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int tile = 0; tile < n; tile += 16) {
        s[threadIdx.y][threadIdx.x] = a[y * n + tile + threadIdx.x];
        t[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + x];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += s[threadIdx.y][k] * t[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

// 64 x 64 of c for a block of 256 threads, 4 x 4 for a thread.
KERNEL matmul_registers(const float *a, const float *b, float *c, int n) {
    __shared__ float s[8][64], t[8][64];
    float sum[4][4] = {};
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int ax = threadIdx.x % 8, ay = threadIdx.x / 8, bx = threadIdx.x % 64, by = threadIdx.x / 64;
    a += blockIdx.y * 64 * n;
    b += blockIdx.x * 64;
    for (int tile = 0; tile < n; tile += 8) {
        s[ax][ay] = a[ay * n + tile + ax];
        s[ax][ay + 32] = a[(ay + 32) * n + tile + ax];
        t[by][bx] = b[(tile + by) * n + bx];
        t[by + 4][bx] = b[(tile + by + 4) * n + bx];
        __syncthreads();
        for (int k = 0; k < 8; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += s[k][ty * 4 + i] * t[k][tx * 4 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(blockIdx.y * 64 + ty * 4 + i) * n + blockIdx.x * 64 + tx * 4 + j] = sum[i][j];
}

KERNEL scan_shared(const int *a, int *b, int n) {
    __shared__ int s[2][256];
    int i = blockIdx.x * 256 + threadIdx.x, from = 0;
    s[0][threadIdx.x] = a[i];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2, from = 1 - from) {
        int value = s[from][threadIdx.x];
        s[1 - from][threadIdx.x] = threadIdx.x >= step ? value + s[from][threadIdx.x - step] : value;
        __syncthreads();
    }
    b[i] = s[from][threadIdx.x];
}

KERNEL scan_shuffle(const int *a, int *b, int n) {
    __shared__ int sums[8];
    int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, value = a[i];
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, value, step);
        if (lane >= step)
            value += other;
    }
    if (lane == 31)
        sums[threadIdx.x / 32] = value;
    __syncthreads();
    for (int w = 0; w < threadIdx.x / 32; w++)
        value += sums[w];
    b[i] = value;
}

KERNEL bitonic(const int *a, int *b, int n) {
    __shared__ int s[512];
    int t = threadIdx.x;
    s[t] = a[blockIdx.x * 512 + t];
    for (int size = 2; size <= 512; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int other = t ^ step;
            if (other > t) {
                int x = s[t], y = s[other];
                if ((x > y) == ((t & size) == 0)) {
                    s[t] = y;
                    s[other] = x;
                }
            }
        }
    __syncthreads();
    b[blockIdx.x * 512 + t] = s[t];
}

// A block sorts 256 keys of 16 bits, one bit at a time.
KERNEL radix(const int *a, int *b, int n) {
    __shared__ int keys[256], offsets[8];
    int t = threadIdx.x, lane = t & 31, warp = t / 32, key = a[blockIdx.x * 256 + t] & 0xffff;
    for (int bit = 0; bit < 16; bit++) {
        int zero = !(key >> bit & 1);
        unsigned votes = __ballot_sync(~0u, zero);
        int before = __popc(votes & ((1u << lane) - 1));
        if (lane == 0)
            offsets[warp] = __popc(votes);
        __syncthreads();
        int zeros = 0, mine = 0;
        for (int w = 0; w < 8; w++) {
            if (w < warp)
                mine += offsets[w];
            zeros += offsets[w];
        }
        int rank = mine + before;
        keys[zero ? rank : zeros + t - rank] = key;
        __syncthreads();
        key = keys[t];
    }
    b[blockIdx.x * 256 + t] = key;
}

KERNEL histogram(const int *a, int *b, int n) {
    __shared__ int bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[a[i] & 255], 1);
    __syncthreads();
    atomicAdd(&b[threadIdx.x], bins[threadIdx.x]);
}

KERNEL spmv(const int *rows, const int *columns, const float *values, const float *x, float *y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    float sum = 0;
    for (int i = 9 * rows[row] + (row & 7); i < 9 * rows[row + 1]; i++)
        sum += values[i] * x[columns[i] * 40503 & (n - 1)];
    y[row] = sum;
}

KERNEL softmax(const float *a, float *b, int n) {
    __shared__ float part[8];
    const float *row = a + blockIdx.x * n;
    float most = -1e30f, sum = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        most = fmaxf(most, row[i]);
    for (int step = 16; step; step /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < 8; w++)
        most = fmaxf(most, part[w]);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 256)
        sum += __expf(row[i] - most);
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < 8; w++)
        sum += part[w];
    for (int i = threadIdx.x; i < n; i += 256)
        b[blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

KERNEL half2_axpy(const half2 *x, half2 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = __hfma2(x[i], __float2half2_rn(0.5f), y[i]);
}

KERNEL mandelbrot(int *out, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = 0;
    float cr = -2.0f + 3.0f * x / n, ci = -1.5f + 3.0f * y / n, r = 0, m = 0;
    for (; i < 64 && r * r + m * m < 4; i++) {
        float t = r * r - m * m + cr;
        m = 2 * r * m + ci;
        r = t;
    }
    out[y * n + x] = i;
}

// buffer: f f32 1048576 iota
// buffer: g f32 1048576 iota
// buffer: h f32 1048576 zero
// buffer: i s32 1048576 iota
// buffer: j s32 1048576 zero
// buffer: m f32 1048576 zero
// buffer: bytes u8 1048576 iota
// buffer: grey u8 262144 zero
// buffer: halves f16 524288 zero
// buffer: more f16 524288 zero
// launch: copy 4096 256 0 f h s32:1048576
// expect: h[77] 77
// launch: copy4 256 256 0 f h s32:262144
// launch: saxpy 1024 256 0 f g s32:1048576
// launch: gather 4096 256 0 f i h s32:1048576
// launch: scatter 4096 256 0 f i h s32:1048576
// launch: grey 1024 256 0 bytes grey s32:262144
// launch: transpose_naive 64,64 16,16 0 f h s32:1024
// expect: h[1] 1024
// launch: stencil5 64,64 16,16 0 f h s32:1024
// launch: matmul_naive 8,8 16,16 0 f f h s32:128
// launch: matmul_tiled 8,8 16,16 0 f f m s32:128
// expect: m[0] 88432640
// launch: matmul_registers 2,2 256 0 f f m s32:128
// expect: m[0] 88432640
// launch: scan_shared 512 256 0 i j s32:131072
// expect: j[255] 32640
// launch: scan_shuffle 512 256 0 i j s32:131072
// expect: j[255] 32640
// launch: bitonic 128 512 0 i j s32:65536
// launch: radix 256 256 0 i j s32:65536
// launch: histogram 64 256 0 i j s32:262144
// launch: spmv 128 256 0 i i f f h s32:32768
// launch: softmax 64 256 0 f h s32:4096
// launch: half2_axpy 1024 256 0 halves more s32:262144
// launch: mandelbrot 16,16 16,16 0 j s32:256
