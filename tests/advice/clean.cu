//// vector add | k(256, 256, r(65000), r(65000), z(65000), 65000)
__global__ void k(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
//// small vector | k(4, 256, r(1000), z(1000), 1000)
__global__ void k(const float *a, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] * 3.0f;
}
//// grid stride saxpy | k(264, 256, r(1 << 18), r(1 << 18), 2.0, 1 << 18)
__global__ void k(const float *x, float *y, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}
//// padded transpose | k((16, 16), (32, 8), r(512 * 512), z(512 * 512), 512)
__global__ void k(const float *in, float *out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
//// matmul 16 | k((8, 8), (16, 16), r(128 * 128), r(128 * 128), z(128 * 128), 128)
__global__ void k(const float *a, const float *b, float *c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < n; t += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
//// matmul of one tile | k((2, 2), (16, 16), r(32 * 16), r(16 * 32), z(32 * 32), 32, 16)
__global__ void k(const float *a, const float *b, float *c, int n, int depth) {
    __shared__ float as[16][16], bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < depth; t += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * depth + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
//// block reduction | k(128, 256, r(65536), z(1), 65536)
__global__ void k(const float *x, float *sum, int n) {
    __shared__ float part[8];
    float v = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < 8 ? part[threadIdx.x] : 0.0f;
        for (int d = 4; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
        if (threadIdx.x == 0) atomicAdd(sum, v);
    }
}
//// tree reduction | k(64, 256, r(16384), z(64))
__global__ void k(const float *x, float *sums) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 128; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}
//// shared histogram | k(64, 256, i(65536, 256), zi(256), 65536)
__global__ void k(const int *data, int *hist, int n) {
    __shared__ int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1);
    __syncthreads();
    atomicAdd(&hist[threadIdx.x], local[threadIdx.x]);
}
//// image blur | k((32, 32), (16, 16), r(512 * 512), z(512 * 512), 512, 512)
__global__ void k(const float *in, float *out, int w, int h) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0.0f;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int cx = min(max(x + dx, 0), w - 1), cy = min(max(y + dy, 0), h - 1);
            sum += in[cy * w + cx];
        }
    out[y * w + x] = sum / 9.0f;
}
//// stencil with halo | k(256, 128, r(32768), z(32768), 32768)
__global__ void k(const float *x, float *y, int n) {
    __shared__ float tile[134];
    int i = blockIdx.x * 128 + threadIdx.x, l = threadIdx.x + 3;
    tile[l] = x[i];
    if (threadIdx.x < 3) {
        tile[l - 3] = i >= 3 ? x[i - 3] : 0.0f;
        tile[l + 128] = i + 128 < n ? x[i + 128] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int d = -3; d <= 3; d++) sum += tile[l + d];
    y[i] = sum;
}
//// black scholes | k(256, 256, r(65536), r(65536), z(65536), 65536)
__global__ void k(const float *s, const float *x, float *call, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float spot = s[i] + 1.0f, strike = x[i] + 1.0f, t = 0.5f, r = 0.02f, v = 0.3f;
    float root = sqrtf(t);
    float d1 = (logf(spot / strike) + (r + 0.5f * v * v) * t) / (v * root), d2 = d1 - v * root;
    call[i] = spot * normcdff(d1) - strike * expf(-r * t) * normcdff(d2);
}
//// n-body | k(16, 128, r(2048 * 4), z(2048 * 4), 2048)
__global__ void k(const float4 *p, float4 *a, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 me = p[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int t = 0; t < n; t += 128) {
        tile[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float q = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            q = tile[j].w * q * q * q;
            ax += dx * q; ay += dy * q; az += dz * q;
        }
        __syncthreads();
    }
    a[i] = make_float4(ax, ay, az, 0.0f);
}
//// bitonic sort of a block | k(1, 512, r(512))
__global__ void k(float *x) {
    __shared__ float s[512];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int size = 2; size <= 512; size *= 2)
        for (int d = size / 2; d > 0; d /= 2) {
            int other = t ^ d;
            float a = s[t], b = s[other];
            bool up = (t & size) == 0, low = t < other;
            __syncthreads();
            s[t] = (low == up) ? fminf(a, b) : fmaxf(a, b);
            __syncthreads();
        }
    x[t] = s[t];
}
//// scan of a block | k(32, 256, r(8192), z(8192))
__global__ void k(const float *x, float *y) {
    __shared__ float a[256], b[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float *from = a, *to = b;
    from[t] = x[i];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        to[t] = t >= d ? from[t] + from[t - d] : from[t];
        __syncthreads();
        float *swap = from; from = to; to = swap;
    }
    y[i] = from[t];
}
//// breadth first search step | k(64, 128, csr_rows(8192, 8), i(65536, 8192), zi(8192), one(8192), 8192, 0)
__global__ void k(const int *rows, const int *cols, int *level, const int *frontier, int n, int depth) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v < n && frontier[v]) {
        for (int e = rows[v]; e < rows[v + 1]; e++) atomicMax(&level[cols[e]], depth + 1);
    }
}
//// csr product, a warp per row | k(1024, 128, csr_rows(4096, 64), i(262144, 4096), r(262144), r(4096), z(4096), 4096)
__global__ void k(const int *rows, const int *cols, const float *values, const float *x, float *y, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0.0f;
    for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * x[cols[e]];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) y[row] = sum;
}
//// upper case | k(512, 256, u8(524288), 131072)
__global__ void k(uchar4 *text, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 c = text[i];
    c.x -= (c.x >= 'a' && c.x <= 'z') ? 32 : 0;
    c.y -= (c.y >= 'a' && c.y <= 'z') ? 32 : 0;
    c.z -= (c.z >= 'a' && c.z <= 'z') ? 32 : 0;
    c.w -= (c.w >= 'a' && c.w <= 'z') ? 32 : 0;
    text[i] = c;
}
//// mandelbrot | k((16, 16), (16, 16), zi(65536), 256, 64)
__global__ void k(int *out, int w, int most) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float cx = x * 3.0f / w - 2.0f, cy = y * 2.0f / w - 1.0f, a = 0.0f, b = 0.0f;
    int n = 0;
    while (n < most && a * a + b * b < 4.0f) {
        float t = a * a - b * b + cx;
        b = 2.0f * a * b + cy;
        a = t;
        n++;
    }
    out[y * w + x] = n;
}
//// float64 norm | k(128, 256, d(32768), dz(32768), 32768)
__global__ void k(const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = sqrt(x[i] * x[i] * 0.5 + 1.0);
}
//// double accumulator | k(64, 128, r(64 * 128 * 16), z(8192), 16)
__global__ void k(const float *x, float *y, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0.0;
    for (int j = 0; j < rounds; j++) sum += x[i + j * 8192];
    y[i] = (float)sum;
}
//// constant coefficients | k(256, 128, r(32768 + 16), z(32768))
__constant__ float weight[16] = {0.1f, 0.2f};
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int j = 0; j < 16; j++) sum += weight[j] * x[i + j];
    y[i] = sum;
}
//// counter by one atomic a warp | k(256, 256, r(65536), zi(1))
__global__ void k(const float *x, int *count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned found = __ballot_sync(0xffffffff, x[i] > 0.25f);
    if (threadIdx.x % 32 == 0) atomicAdd(count, __popc(found));
}
//// hash insert | k(64, 256, i(16384, 1 << 30), full(65536, -1), 65536)
__global__ void k(const int *keys, int *table, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int key = keys[i];
    unsigned slot = (unsigned)key * 2654435761u & (size - 1);
    while (true) {
        int seen = atomicCAS(&table[slot], -1, key);
        if (seen == -1 || seen == key) return;
        slot = (slot + 1) & (size - 1);
    }
}
//// lu row, conv, etc | k(64, 128, r(8192), z(8192), 8192)
__global__ void k(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float c = in[i];
    float l = i > 0 ? in[i - 1] : c, r = i + 1 < n ? in[i + 1] : c;
    out[i] = c + 0.1f * (l - 2.0f * c + r);
}
//// last block | k(64, 128, r(8192), z(64), zi(1), z(1))
__device__ bool is_last(int *count) {
    return atomicAdd(count, 1) == gridDim.x - 1;
}
__global__ void k(const float *x, volatile float *part, int *count, float *out) {
    __shared__ float s[128];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int d = 64; d > 0; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = is_last(count);
    }
    __syncthreads();
    if (last && t == 0) {
        float sum = 0.0f;
        for (int b = 0; b < (int)gridDim.x; b++) sum += part[b];
        *out = sum;
    }
}
//// game of life | k((16, 16), (16, 16), i(65536, 2), zi(65536), 256)
__global__ void k(const int *a, int *b, int n) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, s = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy) s += a[((y + dy + n) % n) * n + (x + dx + n) % n];
    b[y * n + x] = s == 3 || (s == 2 && a[y * n + x]);
}
//// knn distances | k((32, 4), (32, 8), r(1024 * 3), r(32 * 3), z(1024 * 32), 1024, 32)
__global__ void k(const float *p, const float *q, float *d, int n, int m) {
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    if (i >= n || j >= m) return;
    float s = 0.0f;
    for (int c = 0; c < 3; c++) {
        float v = p[c * n + i] - q[c * m + j];
        s += v * v;
    }
    d[j * n + i] = sqrtf(s);
}
//// double buffered tiles with pipeline of registers | k(64, 64, r(64 * 64 * 8), z(4096), 8)
__global__ void k(const float *x, float *y, int rounds) {
    __shared__ float s[2][64];
    int t = threadIdx.x, at = 0;
    float acc = 0.0f;
    s[0][t] = x[blockIdx.x * 512 + t];
    __syncthreads();
    for (int r = 1; r <= rounds; r++) {
        if (r < rounds) s[at ^ 1][t] = x[blockIdx.x * 512 + r * 64 + t];
        acc += s[at][63 - t];
        __syncthreads();
        at ^= 1;
    }
    y[blockIdx.x * 64 + t] = acc;
}
//// wait: polynomial of two tiles | k(4, 128, r(1024), z(512))
#include <cuda_pipeline.h>
__global__ void k(const float *x, float *y) {
    __shared__ float s[2][128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    for (int r = 0; r < 2; r++) {
        __pipeline_memcpy_async(&s[r][t], &x[r * 512 + i], sizeof(float));
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    float v = s[0][t];
    __pipeline_wait_prior(0);
    __syncthreads();
    y[i] = v * v + s[1][127 - t] * v;
}
