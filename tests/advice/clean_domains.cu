//// separable gaussian rows | gauss((8, 256), 128, r(1024 * 256), z(1024 * 256), 1024)
template <int R> struct Taps { static __device__ float at(int d) { return 1.f / (1 << (d < 0 ? -d : d)); } };
template <int R> __device__ float window(const float *s) {
    float v = 0.f;
#pragma unroll
    for (int d = -R; d <= R; ++d) v = fmaf(Taps<R>::at(d), s[d], v);
    return v;
}
__global__ void gauss(const float *img, float *out, int w) {
    __shared__ float line[128 + 8];
    const int x = blockIdx.x * 128 + threadIdx.x;
    const float *row = img + (size_t)blockIdx.y * w;
    line[threadIdx.x + 4] = row[x];
    if (threadIdx.x < 4) {
        line[threadIdx.x] = row[max(x - 4, 0)];
        line[threadIdx.x + 132] = row[min(x + 128, w - 1)];
    }
    __syncthreads();
    out[(size_t)blockIdx.y * w + x] = window<4>(line + threadIdx.x + 4);
}
//// lennard-jones with a tile | lj(16, 128, r(2048 * 4), z(2048 * 4), 2048)
__global__ void lj(const float4 *__restrict__ p, float4 *__restrict__ f, int n) {
    __shared__ float4 other[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float4 a = p[i];
    float3 s = {0.f, 0.f, 0.f};
    for (int t = 0; t < n; t += 128) {
        other[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 128; j++) {
            float dx = a.x - other[j].x, dy = a.y - other[j].y, dz = a.z - other[j].z;
            float q = 1.f / (dx * dx + dy * dy + dz * dz + 0.01f), q3 = q * q * q;
            float m = q3 * (q3 - 0.5f) * q;
            s.x = fmaf(m, dx, s.x); s.y = fmaf(m, dy, s.y); s.z = fmaf(m, dz, s.z);
        }
        __syncthreads();
    }
    f[i] = make_float4(s.x, s.y, s.z, 0.f);
}
//// histogram private to a block | hist(64, 256, u8(64 * 4096), zi(256), 64 * 4096)
__global__ void hist(const unsigned char *data, unsigned *bins, int n) {
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        uchar4 v = reinterpret_cast<const uchar4 *>(data)[i];
        atomicAdd(&mine[v.x], 1u); atomicAdd(&mine[v.y], 1u);
        atomicAdd(&mine[v.z], 1u); atomicAdd(&mine[v.w], 1u);
    }
    __syncthreads();
    if (mine[threadIdx.x]) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
//// warp-shuffle inclusive scan | wscan(256, 256, i(65536, 9), zi(65536))
__device__ __forceinline__ int up(int v, int lane) {
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        int w = __shfl_up_sync(0xffffffffu, v, d);
        if (lane >= d) v += w;
    }
    return v;
}
__global__ void wscan(const int *x, int *y) {
    __shared__ int sums[8];
    int t = threadIdx.x, g = blockIdx.x * 256 + t, lane = t & 31, warp = t >> 5;
    int v = up(x[g], lane);
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int s = up(lane < 8 ? sums[lane] : 0, lane);
        if (lane < 8) sums[lane] = s;
    }
    __syncthreads();
    y[g] = v + (warp ? sums[warp - 1] : 0);
}
//// csr by a warp for each row | spmv(64, 256, csr_rows(512, 64), i(512 * 64, 4096), r(512 * 64), r(4096), z(512), 512)
__global__ void spmv(const int *ptr, const int *col, const float *val, const float *x, float *y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float s = 0.f;
    for (int e = ptr[row] + lane; e < ptr[row + 1]; e += 32) s += val[e] * x[col[e]];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (!lane) y[row] = s;
}
//// monte carlo with a counter generator | pi(128, 128, zi(128), 40)
__device__ unsigned mix(unsigned h) {
    h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13; h *= 0xc2b2ae35u; return h ^ (h >> 16);
}
__global__ void pi(unsigned *hits, int rounds) {
    __shared__ unsigned sum[4];
    unsigned inside = 0, id = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < rounds; k++) {
        unsigned h = mix(id * 977u + k);
        float u = (h & 0xffff) * (1.f / 65536.f), v = (h >> 16) * (1.f / 65536.f);
        inside += u * u + v * v < 1.f;
    }
    inside = __reduce_add_sync(~0u, inside);
    if (threadIdx.x % 32 == 0) sum[threadIdx.x / 32] = inside;
    __syncthreads();
    if (threadIdx.x == 0) hits[blockIdx.x] = sum[0] + sum[1] + sum[2] + sum[3];
}
//// layer norm, a block for each row | layernorm(256, 256, r(256 * 1024), r(1024), r(1024), z(256 * 1024))
struct Pair { float a, b; };
__device__ Pair both(Pair p) {
    for (int o = 16; o; o >>= 1) {
        p.a += __shfl_xor_sync(~0u, p.a, o);
        p.b += __shfl_xor_sync(~0u, p.b, o);
    }
    return p;
}
__global__ void layernorm(const float4 *x, const float4 *g, const float4 *b, float4 *y) {
    __shared__ Pair part[8];
    float4 v = x[blockIdx.x * 256 + threadIdx.x];
    Pair p = both({v.x + v.y + v.z + v.w, v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w});
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = p;
    __syncthreads();
    Pair all = {0.f, 0.f};
    for (int w = 0; w < 8; w++) { all.a += part[w].a; all.b += part[w].b; }
    float mu = all.a / 1024.f, inv = rsqrtf(all.b / 1024.f - mu * mu + 1e-5f);
    float4 s = g[threadIdx.x], t = b[threadIdx.x];
    y[blockIdx.x * 256 + threadIdx.x] = make_float4((v.x - mu) * inv * s.x + t.x, (v.y - mu) * inv * s.y + t.y,
                                                    (v.z - mu) * inv * s.z + t.z, (v.w - mu) * inv * s.w + t.w);
}
//// transpose by a padded tile of 8 rows | flip((16, 16), (32, 8), r(512 * 512), z(512 * 512), 512, 512)
__global__ void flip(const float *in, float *out, int w, int h) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (x < w && y + k < h) tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * w + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (x < h && y + k < w) out[(y + k) * h + x] = tile[threadIdx.x][threadIdx.y + k];
}
//// binomial option, a block for each | binomial(132, 256, r(132), z(132), 255)
__global__ void binomial(const float *spot, float *price, int steps) {
    __shared__ float v[2][256];
    int t = threadIdx.x;
    v[0][t] = fmaxf(spot[blockIdx.x] * __expf(0.01f * (2 * t - steps)) - 0.5f, 0.f);
    int now = 0;
    for (int s = steps; s > 0; s--) {
        __syncthreads();
        if (t < s) v[now ^ 1][t] = 0.4995f * v[now][t] + 0.4995f * v[now][t + 1];
        now ^= 1;
    }
    if (t == 0) price[blockIdx.x] = v[now][0];
}
//// double precision stencil on purpose | laplace((16, 32), (32, 8), d(512 * 256), dz(512 * 256), 512, 256)
__global__ void laplace(const double *u, double *v, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= w - 1 || y >= h - 1) return;
    int i = y * w + x;
    v[i] = 0.25 * (u[i - 1] + u[i + 1] + u[i - w] + u[i + w]);
}
//// compaction by ballot | compact(64, 256, r(16384), z(16384), zi(1), 16384, 0.5)
__global__ void compact(const float *x, float *kept, int *count, int n, float limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    bool take = i < n && x[i] > limit;
    unsigned votes = __ballot_sync(~0u, take);
    int base = 0;
    if (lane == 0 && votes) base = atomicAdd(count, __popc(votes));
    base = __shfl_sync(~0u, base, 0);
    if (take) kept[base + __popc(votes & ((1u << lane) - 1))] = x[i];
}
//// polynomial fit with constants shared by the warp | spline(256, 256, r(65536), z(65536))
__constant__ float coef[8] = {1.f, .5f, .25f, .125f, .0625f, .03f, .01f, .005f};
__global__ void spline(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], p = 0.f;
#pragma unroll
    for (int k = 0; k < 8; k++) p = fmaf(p, v, coef[k]);
    y[i] = p;
}
//// lbm D2Q9 stream of one direction | stream((4, 128), (128, 1), r(512 * 128), z(512 * 128), 512, 128, 1, -1)
__global__ void stream(const float *f, float *g, int w, int h, int cx, int cy) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    int sx = x - cx, sy = y - cy;
    sx = sx < 0 ? sx + w : sx >= w ? sx - w : sx;
    sy = sy < 0 ? sy + h : sy >= h ? sy - h : sy;
    g[y * w + x] = f[sy * w + sx];
}
//// mandelbrot of a smooth region | mandel((16, 32), (16, 16), zi(256 * 512), 256, 512)
__global__ void mandel(int *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float cr = 3.f * x / w - 2.2f, ci = 2.4f * y / h - 1.2f, a = 0, b = 0;
    int k = 0;
    for (; k < 64 && a * a + b * b < 4.f; k++) {
        float t = a * a - b * b + cr;
        b = 2.f * a * b + ci; a = t;
    }
    out[y * w + x] = k;
}
//// gemm with 4x4 registers | gemm((4, 4), (16, 16), r(256 * 256), r(256 * 256), z(256 * 256), 256)
__global__ void __launch_bounds__(256) gemm(const float *A, const float *B, float *C, int n) {
    __shared__ float a[16][64 + 4], b[16][64];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 16) {
        for (int e = t; e < 1024; e += 256) {
            a[e % 16][e / 16] = A[(row + e / 16) * n + k0 + e % 16];
            b[e / 64][e % 64] = B[(k0 + e / 64) * n + col + e % 64];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(a[k][ty * 4 + i], b[k][tx + 16 * j], acc[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) C[(row + ty * 4 + i) * n + col + tx + 16 * j] = acc[i][j];
}
