//// bounds: vector | bounds-check | k(5, 256, r(1200), z(1200))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2.0f * x[i]; /*!*/
}
//// bounds: image | bounds-check | k((7, 7), (16, 16), r(100 * 100), z(100 * 100), 100, 100)
__global__ void k(const float *in, float *out, int width, int height) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col < width) {
        float grey = in[row * width + col]; /*!*/
        out[row * width + col] = 1.0f - grey;
    }
}
//// bounds: left neighbour | bounds-check | k(4, 256, r(1024), z(1024), 1024)
__global__ void k(const float *u, float *v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) {
        float left = u[i - 1]; /*!*/
        float right = u[i + 1];
        v[i] = 0.25f * (left + 2.0f * u[i] + right);
    }
}
//// bounds: off by one | bounds-check | k(4, 256, r(1000), z(1000), 1000)
__global__ void k(const float *price, float *diff, int days) {
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d <= days) {
        float p = price[d]; /*!*/
        if (d > 0) diff[d - 1] = p;
    }
}
//// syncthreads: reverse | missing-syncthreads | k(8, 256, r(2048), z(2048))
__global__ void k(const float *x, float *y) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = x[i];
    y[i] = tile[255 - threadIdx.x]; /*!*/
}
//// syncthreads: stencil | missing-syncthreads | k(8, 128, r(1030), z(1024))
__global__ void k(const float *x, float *y) {
    __shared__ float tile[134];
    int i = blockIdx.x * 128 + threadIdx.x, l = threadIdx.x + 3;
    tile[l] = x[i + 3];
    if (threadIdx.x < 3) {
        tile[l - 3] = x[i];
        tile[l + 128] = x[i + 131];
    }
    float sum = 0.0f;
    for (int d = -3; d <= 3; d++) sum += tile[l + d]; /*!*/
    y[i] = sum;
}
//// syncthreads: matmul second | missing-syncthreads | k((4, 4), (16, 16), r(4096), r(4096), z(4096), 64)
__global__ void k(const float *a, const float *b, float *c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < n / 16; t++) {
        as[threadIdx.y][threadIdx.x] = a[row * n + t * 16 + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t * 16 + threadIdx.y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += as[threadIdx.y][j] * bs[j][threadIdx.x]; /*!*/
    }
    c[row * n + col] = sum;
}
//// syncthreads: reduction | missing-syncthreads | k(4, 256, r(1024), z(4))
__global__ void k(const float *x, float *sums) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (t < s) part[t] += part[t + s]; /*!*/
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
//// divergent barrier: early exit | divergent-barrier | k(4, 256, r(1000), z(1000), 1000)
__global__ void k(const float *x, float *y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        tile[threadIdx.x] = x[i];
        __syncthreads(); /*!*/
        y[i] = tile[threadIdx.x ^ 1];
    }
}
//// divergent barrier: half | divergent-barrier | k(4, 64, r(256), z(256))
__global__ void k(const float *x, float *y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 48) {
        s[t] = s[t] * 2.0f;
        __syncthreads(); /*!*/
    }
    y[blockIdx.x * 64 + t] = s[t];
}
//// uninitialised: histogram | uninitialised-shared | k(4, 256, i(1024, 64), zi(64))
__global__ void k(const int *data, int *hist) {
    __shared__ int local[64];
    int i = blockIdx.x * 256 + threadIdx.x;
    atomicAdd(&local[data[i]], 1); /*!*/
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&hist[threadIdx.x], local[threadIdx.x]);
}
//// uninitialised: halo | uninitialised-shared | k(8, 128, r(1024), z(1024), 1024)
__global__ void k(const float *x, float *y, int n) {
    __shared__ float tile[130];
    int i = blockIdx.x * 128 + threadIdx.x, l = threadIdx.x + 1;
    tile[l] = x[i];
    if (threadIdx.x == 0 && i > 0) tile[0] = x[i - 1];
    __syncthreads();
    float right = tile[l + 1]; /*!*/
    float left = i > 0 ? tile[l - 1] : 0.0f;
    y[i] = left + right;
}
//// racing update: histogram | racing-update | k(16, 256, i(4096, 32), zi(32))
__global__ void k(const int *data, int *hist) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    hist[data[i]] += 1; /*!*/
}
//// racing update: sum | racing-update | k(4, 128, r(512), z(1))
__global__ void k(const float *x, float *total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    total[0] += x[i] * x[i]; /*!*/
}
//// racing update: graph degree | racing-update | k(8, 128, i(1024, 50), zi(50), 1024)
__global__ void k(const int *target, int *degree, int edges) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < edges) {
        int v = target[e];
        degree[v]++; /*!*/
    }
}
//// fence: flag | unordered-blocks | k(2, 32, z(64), zi(1), z(2))
__global__ void k(float *data, int *flag, float *out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 1.0f;
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else if (threadIdx.x == 0) {
        while (atomicAdd(flag, 0) == 0) { }
        out[0] = data[5]; /*!*/
    }
}
//// uncoalesced: matrix column | uncoalesced | k(256, 256, r(65536 * 16), z(65536), 65536)
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float s = 0.0f;
        for (int j = 0; j < 16; j++) s += x[i * 16 + j] * 0.5f; /*!*/
        y[i] = s;
    }
}
//// uncoalesced: transpose | uncoalesced | k((32, 32), (32, 32), r(1 << 20), z(1 << 20), 1024)
__global__ void k(const float *in, float *out, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    out[x * n + y] = in[y * n + x]; /*!*/
}
//// uncoalesced: rows | uncoalesced | k(64, 64, r(4096 * 256), z(4096), 256)
__global__ void k(const float *m, float *sums, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int c = 0; c < width; c++)
        sum += m[row * width + c]; /*!*/
    sums[row] = sum;
}
//// uncoalesced: aos | uncoalesced | k(1024, 256, r(262144 * 8), z(262144), 262144)
struct Particle { float x, y, z, vx, vy, vz, m, q; };
__global__ void k(const Particle *p, float *mass, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) mass[i] = 2.0f * p[i].m; /*!*/
}
//// uncoalesced: swapped indices | uncoalesced | k((64, 64), (16, 16), r(1 << 20), z(1 << 20), 1024)
__global__ void k(const float *in, float *out, int n) {
    int row = blockIdx.x * 16 + threadIdx.x, col = blockIdx.y * 16 + threadIdx.y;
    float v = in[row * n + col]; /*!*/
    out[row * n + col] = v > 0.5f ? 1.0f : 0.0f;
}
//// banks: transpose tile | bank-conflicts | k((16, 16), (32, 32), r(512 * 512), z(512 * 512), 512)
__global__ void k(const float *in, float *out, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    out[y * n + x] = tile[threadIdx.x][threadIdx.y]; /*!*/
}
//// banks: stride two | bank-conflicts | k(64, 256, r(64 * 256), z(64))
__global__ void k(const float *x, float *sums) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        int j = 2 * d * t;
        if (j < 256) s[j] += s[j + d]; /*!*/
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = s[0];
}
//// banks: private histogram rows | bank-conflicts | k(16, 64, r(16 * 64), z(16 * 64))
__global__ void k(const float *x, float *y) {
    __shared__ float row[64][32];
    int t = threadIdx.x;
    float v = x[blockIdx.x * 64 + t], sum = 0.0f;
    for (int j = 0; j < 32; j++) row[t][j] = v * j; /*!*/
    for (int j = 0; j < 32; j++) sum += row[t][31 - j];
    y[blockIdx.x * 64 + t] = sum;
}
//// divergence: parity | divergence | k(256, 256, r(65536), z(65536), 65536)
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (threadIdx.x % 2 == 0) { /*!*/
        for (int j = 0; j < 20; j++) v = v * 1.01f + 0.5f;
    } else {
        for (int j = 0; j < 20; j++) v = v * v - 0.1f;
    }
    y[i] = v;
}
//// divergence: option type | divergence | k(256, 256, r(65536), i(65536, 2), z(65536))
__global__ void k(const float *spot, const int *kind, float *value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = spot[i], v = 0.0f;
    if (kind[i] == 1) { /*!*/
        for (int step = 1; step <= 24; step++) v += __expf(-0.01f * step) * fmaxf(s * step - 1.0f, 0.0f);
    } else {
        for (int step = 1; step <= 24; step++) v += __logf(1.0f + s * step) * fmaxf(1.0f - s, 0.0f);
    }
    value[i] = v;
}
//// double literal: scale | double-literal | k(256, 256, r(65536), z(65536), 65536)
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2.5 + 1.0f; /*!*/
}
//// double literal: physics | double-literal | k(256, 256, r(65536), r(65536), 0.01, 65536)
__global__ void k(float *position, float *velocity, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = -9.81f * position[i];
    velocity[i] += a * dt;
    position[i] += velocity[i] * dt + 0.5 * a * dt * dt; /*!*/
}
//// double literal: threshold | double-literal | k(256, 256, r(65536), z(65536))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    y[i] = v > 0.1 ? sqrtf(v) : 0.0f; /*!*/
}
//// occupancy: shared | low-occupancy | k(1056, 64, r(1056 * 64), z(1056 * 64), 1056 * 64)
__global__ void k(const float *x, float *y, int n) {
    __shared__ float buffer[11000]; /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    buffer[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = buffer[63 - threadIdx.x] * 2.0f;
}
//// spills: launch bounds | register-spills | k(64, 1024, r(65536), z(65536))
__global__ void __launch_bounds__(1024, 2) k(const float *x, float *y) { /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a[40];
    for (int j = 0; j < 40; j++) a[j] = x[(i + 1024 * j) % 65536];
    float s = 0.0f;
    for (int r = 0; r < 3; r++)
        for (int j = 0; j < 40; j++) { a[j] = a[j] * a[(j + 7) % 40] + 1.0f; s += a[j]; }
    for (int j = 0; j < 40; j++) s = s * a[j] + a[39 - j];
    y[i] = s;
}
//// bytes in flight: few threads | bytes-in-flight | k(132, 32, r(1 << 19), z(132), 1 << 19)
__global__ void k(const float *x, float *sums, int n) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += x[i]; /*!*/
    atomicAdd(&sums[blockIdx.x], __shfl_down_sync(~0u, sum, 16) + sum);
}
//// bytes in flight: bytes | bytes-in-flight | k(4224, 256, u8(4224 * 256), zu8(4224 * 256), 128)
__global__ void k(const unsigned char *in, unsigned char *out, int level) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] > level ? 255 : 0; /*!*/
}
//// overflow: short | index-overflow | k(200, 256, r(51200), z(51200), 51200)
__global__ void k(const float *x, float *y, int n) {
    short i = blockIdx.x * blockDim.x + threadIdx.x; /*!*/
    if (i < n) y[i] = x[i] + 1.0f;
}
//// overflow: pitch | index-overflow | k(70, 32, r(64), z(2240), 40000000)
__global__ void k(const float *x, float *y, int pitch) {
    int row = blockIdx.x;
    int at = row * pitch + threadIdx.x; /*!*/
    y[blockIdx.x * 32 + threadIdx.x] = x[at / pitch % 64];
    if (row > 60) y[at] = 1.0f;
}
//// grid: one block | grid-too-small | k(1, 256, r(1 << 18), z(1 << 18), 1 << 18)
__global__ void k(const float *x, float *y, int n) { /*!*/
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = x[i] * x[i] + 1.0f;
}
//// grid: few blocks | grid-too-small | k(8, 128, r(1 << 18), z(1024), 1 << 18)
__global__ void k(const float *x, float *out, int n) { /*!*/
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float best = -1e30f;
    for (int i = t; i < n; i += gridDim.x * blockDim.x) best = fmaxf(best, x[i]);
    out[t] = best;
}
//// tail | tail | k(140, 1024, r(140 * 1024), z(140 * 1024), 200)
__global__ void k(const float *x, float *y, int steps) { /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int s = 0; s < steps; s++) v = v * 0.99f + 0.01f;
    y[i] = v;
}
//// unequal: triangle | unequal-blocks | k(264, 64, r(16896), z(16896), 2000)
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
#pragma unroll 1
    for (int j = 0; j < (int)blockIdx.x * 4; j++) /*!*/
        s += x[j] * 0.5f;
    y[i] = s;
}
//// unneeded barrier: elementwise | unneeded-barrier | k(64, 256, r(16384), z(16384))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float v = x[i] * 3.0f;
    __syncthreads(); /*!*/
    y[i] = v + 1.0f;
}
//// unneeded barrier: own word | unneeded-barrier | k(64, 256, r(16384), z(16384))
__global__ void k(const float *x, float *y) {
    __shared__ float mine[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    mine[threadIdx.x] = x[i];
    for (int j = 0; j < 8; j++) {
        mine[threadIdx.x] = mine[threadIdx.x] * 1.5f + 1.0f;
        __syncthreads(); /*!*/
    }
    y[i] = mine[threadIdx.x];
}
//// half dram | half-dram-access | k(512, 256, r(512 * 256 * 16), z(512 * 256 * 4), 512 * 256)
struct Body { float4 position, velocity, force, spare; };
__global__ void k(const Body *b, float4 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = b[i].position, v = b[i].velocity; /*!*/
    out[i] = make_float4(p.x + v.x, p.y + v.y, p.z + v.z, p.w);
}
//// partial sectors: pixels | partial-sectors | k(1024, 256, r(262144), z(262144 * 4), 262144)
__global__ void k(const float *grey, float *rgba, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) rgba[4 * i + 1] = grey[i]; /*!*/
}
//// constants | constant-addresses | k(256, 256, i(65536, 256), z(65536))
__constant__ float table[256] = {1.0f};
__global__ void k(const int *index, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0.0f;
    int j = index[i];
    for (int r = 0; r < 4; r++) v += table[(j + 37 * r) & 255]; /*!*/
    y[i] = v;
}
//// unfused: intrinsics | unfused-multiply-add | k(256, 256, r(65536), z(65536))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], s = 0.0f;
    for (int j = 0; j < 32; j++) s = __fadd_rn(__fmul_rn(s, v), 0.5f); /*!*/
    y[i] = s;
}
//// unfused: option | unfused-multiply-add | k(256, 256, r(65536), z(65536)) | -fmad=false
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], s = 0.0f;
    for (int j = 0; j < 32; j++) s = s * v + 0.5f; /*!*/
    y[i] = s;
}
//// cliff: shared | occupancy-cliff | k(1320, 256, r(337920), z(337920))
__global__ void k(const float *x, float *y) {
    __shared__ float buffer[14400]; /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = threadIdx.x; j < 512; j += 256) buffer[j] = x[blockIdx.x * 256 + j % 256];
    __syncthreads();
    y[i] = buffer[511 - threadIdx.x];
}
//// atomics: counter | atomic-contention | k(256, 256, r(65536), zi(1))
__global__ void k(const float *x, int *count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0.25f) atomicAdd(count, 1); /*!*/
}
//// atomics: sum | atomic-contention | k(256, 256, r(65536), z(1))
__global__ void k(const float *x, float *sum) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, x[i]); /*!*/
}
//// division: histogram modulo | integer-division | k(256, 256, i(65536, 1000), zi(65536), 37, 12)
__global__ void k(const int *x, int *y, int m, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x[i];
    for (int r = 0; r < rounds; r++) v = (v * 31 + r) % m; /*!*/
    y[i] = v;
}
//// division: index | integer-division | k(64, 256, r(100 * 1000), z(100 * 1000), 1000, 100)
__global__ void k(const float *in, float *out, int width, int height) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < width * height; i += gridDim.x * blockDim.x) {
        int row = i / width, col = i % width; /*!*/
        out[row * width + col] = in[row * width + col] * row;
    }
}
//// local array: sort by insertion | local-array | k(256, 128, r(32768 * 8), z(32768), 3)
__global__ void k(const float *x, float *y, int rank) {
    float best[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; j < 8; j++) best[j] = 0.0f;
    for (int j = 0; j < 8; j++) {
        float v = x[j * 32768 + i];
        int at = (int)(v * 8.0f) & 7;
        best[at] += v; /*!*/
    }
    y[i] = best[rank];
}
//// b1 gaussian bounds 2d | bounds-check | k((9, 9), (16, 16), r(130 * 130), z(130 * 130), 130, 130)
__global__ void k(const float *img, float *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    float s = 0.0f;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            s += img[(y + dy) * w + x + dx]; /*!*/
    if (x < w && y < h) out[y * w + x] = s / 9.0f;
}
//// b2 string compare | bounds-check | k(2, 128, u8(200), u8(200), zi(1), 200)
__global__ void k(const unsigned char *a, const unsigned char *b, int *diff, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (a[i] != b[i]) /*!*/
        atomicAdd(diff, 1);
}
//// s1 prefix sum in place | missing-syncthreads | k(1, 256, r(256))
__global__ void k(float *x) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int d = 1; d < 256; d <<= 1) {
        float v = (t >= d) ? s[t - d] : 0.0f;
        s[t] += v; /*!*/
        __syncthreads();
    }
    x[t] = s[t];
}
//// s2 bitonic no sync | missing-syncthreads | k(1, 256, r(256))
__global__ void k(float *x) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int size = 2; size <= 256; size <<= 1)
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            int p = t ^ stride;
            if (p > t) {
                bool up = (t & size) == 0;
                float a = s[t], b = s[p];
                if ((a > b) == up) { s[t] = b; s[p] = a; } /*!*/
            }
        }
    x[t] = s[t];
}
//// s3 broadcast flag | missing-syncthreads | k(4, 128, r(512), z(512))
__global__ void k(const float *x, float *y) {
    __shared__ float mean;
    int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x == 0) {
        float s = 0.0f;
        for (int j = 0; j < 128; j++) s += x[blockIdx.x * 128 + j];
        mean = s / 128.0f;
    }
    y[i] = x[i] - mean; /*!*/
}
//// d1 loop barrier | divergent-barrier | k(2, 64, i(128, 6), zi(128))
__global__ void k(const int *rounds, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = t;
    for (int r = 0; r < rounds[i]; r++) {
        s[t] += 1;
        __syncthreads(); /*!*/
    }
    out[i] = s[t];
}
//// r1 max | racing-update | k(8, 128, r(1024), z(1))
__global__ void k(const float *x, float *best) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > best[0]) best[0] = x[i]; /*!*/
}
//// r2 pagerank scatter | racing-update | k(8, 128, i(1024, 100), i(1024, 100), r(100), z(100), 1024)
__global__ void k(const int *src, const int *dst, const float *rank, float *next, int m) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < m) next[dst[e]] += 0.85f * rank[src[e]]; /*!*/
}
//// r3 queue index | racing-update | k(4, 64, r(256), zi(256), zi(1))
__global__ void k(const float *x, int *queue, int *tail) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 0.5f) {
        int at = *tail;
        *tail = at + 1; /*!*/
        queue[at] = i;
    }
}
//// u1 uninit accumulate | uninitialised-shared | k(4, 64, r(256), z(4))
__global__ void k(const float *x, float *y) {
    __shared__ float sum;
    atomicAdd(&sum, x[blockIdx.x * 64 + threadIdx.x]); /*!*/
    __syncthreads();
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
//// c1 columns of image | uncoalesced | k(8, 128, r(1024 * 1024), z(1024 * 1024), 1024)
__global__ void k(const float *in, float *out, int w) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0.0f;
    for (int x = 0; x < w; ++x) {
        acc = 0.9f * acc + 0.1f * in[row * w + x]; /*!*/
        out[row * w + x] = acc;
    }
}
//// c2 complex interleaved stride | uncoalesced | k(512, 256, r(131072 * 4), z(131072), 131072)
__global__ void k(const float *samples, float *mono, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) mono[i] = 0.5f * samples[i * 4]; /*!*/
}
//// bank1 2d y-major block | bank-conflicts | k(64, (8, 32), r(64 * 1024), z(64 * 1024))
__global__ void k(const float *x, float *y) {
    __shared__ float s[8][128];
    int t = threadIdx.y * 8 + threadIdx.x;
    for (int j = 0; j < 4; j++) s[threadIdx.x][threadIdx.y + 32 * j] = x[blockIdx.x * 1024 + t + 256 * j]; /*!*/
    __syncthreads();
    float *f = &s[0][0];
    for (int j = 0; j < 4; j++) y[blockIdx.x * 1024 + t + 256 * j] = f[t + 256 * j];
}
//// bank2 doubles column | bank-conflicts | k(32, 32, d(32 * 1024), dz(32 * 32))
__global__ void k(const double *x, double *y) {
    __shared__ double s[32][32];
    int t = threadIdx.x;
    for (int r = 0; r < 32; r++) s[r][t] = x[blockIdx.x * 1024 + r * 32 + t];
    __syncwarp();
    double v = 0.0;
    for (int c = 0; c < 32; c++) v += s[t][c]; /*!*/
    y[blockIdx.x * 32 + t] = v;
}
//// div1 monte carlo branch | divergence | k(128, 128, i(16384, 4), z(16384))
__global__ void k(const int *type, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 1.0f;
    switch (type[i]) { /*!*/
        case 0: for (int j = 1; j < 30; j++) v += __sinf(v * j); break;
        case 1: for (int j = 1; j < 30; j++) v += __cosf(v * j) * 0.5f; break;
        case 2: for (int j = 1; j < 30; j++) v += __expf(-v * j); break;
        default: for (int j = 1; j < 30; j++) v += __logf(v + j); break;
    }
    out[i] = v;
}
//// div2 loop by lane | divergence | k(128, 128, r(16384), z(16384))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
#pragma unroll 1
    for (int j = 0; j < (threadIdx.x & 31) * 4; j++) /*!*/
        v = v * 0.99f + 0.01f;
    y[i] = v;
}
//// dbl1 reciprocal | double-literal | k(128, 128, r(16384), z(16384))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 1.0 / (1.0 + expf(-x[i])); /*!*/
}
//// dbl2 image gamma | double-literal | k(128, 128, u8(16384), zu8(16384))
__global__ void k(const unsigned char *in, unsigned char *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i] / 255.0f;
    v = v * 0.299 + v * v * 0.587; /*!*/
    out[i] = (unsigned char)(v * 255.0f);
}
//// ovf1 volume | index-overflow | k((1, 1, 64), (32, 1, 1), z(64), 2048, 40000)
__global__ void k(float *out, int nx, int ny) {
    int z = blockIdx.z;
    int index = (z * ny) * nx + threadIdx.x; /*!*/
    out[index] = 1.0f;
}
//// ovf2 unsigned char | index-overflow | k(4, 128, r(512), z(512), 512)
__global__ void k(const float *x, float *y, int n) {
    unsigned char i = blockIdx.x * blockDim.x + threadIdx.x; /*!*/
    if (i < n) y[i] = x[i] * 2.0f;
}
//// grid1 monte carlo pi | grid-too-small | k(2, 64, zi(128), 4000)
__global__ void k(int *hits, int trials) { /*!*/
    unsigned s = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int h = 0;
    for (int j = 0; j < trials; j++) {
        s = s * 1664525u + 1013904223u;
        float x = (s >> 8) * 5.9604645e-8f;
        s = s * 1664525u + 1013904223u;
        float y = (s >> 8) * 5.9604645e-8f;
        h += x * x + y * y < 1.0f;
    }
    hits[blockIdx.x * blockDim.x + threadIdx.x] = h;
}
//// tail1 | tail | k(1080, 256, r(1080 * 256), z(1080 * 256), 300)
__global__ void k(const float *x, float *y, int n) { /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int j = 0; j < n; j++) v = fmaf(v, 0.999f, 0.001f);
    y[i] = v;
}
//// unequal1 csr hub | unequal-blocks | k(256, 64, hub(16384, 5000, 20000), i(40000, 1000), r(1000), z(16384), 16384)
__global__ void k(const int *rows, const int *cols, const float *x, float *y, int n) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    float s = 0.0f;
    for (int e = rows[v]; e < rows[v + 1]; e++) /*!*/
        s += x[cols[e]];
    y[v] = s;
}
//// bar1 after store | unneeded-barrier | k(64, 256, r(16384), z(16384))
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = sqrtf(x[i]);
    __syncthreads(); /*!*/
}
//// bar2 double barrier | unneeded-barrier | k(64, 128, r(8192), z(8192))
__global__ void k(const float *x, float *y) {
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = x[i];
    __syncthreads();
    float a = s[127 - t];
    __syncthreads(); /*!*/
    y[i] = a * 2.0f;
}
//// half1 every other sector pair | half-dram-access | k(512, 128, r(65536 * 16), z(65536 * 4))
__global__ void k(const float4 *in, float4 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int pair = i / 2, half = i % 2;
    out[i] = in[pair * 4 + half]; /*!*/
}
//// part1 float3 into float4 | partial-sectors | k(256, 256, r(65536), z(65536 * 4))
struct V { float x, y, z, w; };
__global__ void k(const float *in, V *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i].x = in[i] * 0.5f; /*!*/
}
//// const1 lut by pixel | constant-addresses | k(256, 128, u8(32768), z(32768))
__constant__ float lut[256] = {1.0f, 2.0f};
__global__ void k(const unsigned char *pixel, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = lut[pixel[i]]; /*!*/
}
//// const2 lut by lane | constant-addresses | k(256, 128, r(32768), z(32768))
__constant__ float window[128] = {1.0f, 2.0f};
__global__ void k(const float *x, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] * window[threadIdx.x]; /*!*/
}
//// atom1 shared counter | atomic-contention | k(128, 256, i(32768, 10), zi(128))
__global__ void k(const int *x, int *out) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (x[blockIdx.x * 256 + threadIdx.x] > 2) atomicAdd(&count, 1); /*!*/
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = count;
}
//// atom2 max error | atomic-contention | k(256, 128, i(32768, 100000), zi(1))
__global__ void k(const int *err, int *worst) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(worst, err[i]); /*!*/
}
//// idiv1 digits | integer-division | k(128, 128, i(16384, 1 << 30), zi(16384), 10)
__global__ void k(const int *x, int *digits, int base) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = x[i], s = 0;
    while (v) {
        s += v % base; /*!*/
        v /= base;
    }
    digits[i] = s;
}
//// wait: moving average | missing-wait | k(4, 128, r(1024), z(512))
#include <cuda_pipeline.h>
__global__ void k(const float *x, float *y) {
    __shared__ float s[2][128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    for (int r = 0; r < 2; r++) {
        __pipeline_memcpy_async(&s[r][t], &x[r * 512 + i], sizeof(float));
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    __syncthreads();
    y[i] = s[0][t] + s[1][127 - t]; /*!*/
}
