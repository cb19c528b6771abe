//// sobel filter without border test | bounds-check | sobel((8, 8), (32, 8), u8(256 * 64), zu8(256 * 64), 256, 64)
typedef unsigned char uchar;
extern "C" __global__ void sobel(const uchar *__restrict__ src, uchar *__restrict__ dst, int w, int h) {
    const int px = blockIdx.x * blockDim.x + threadIdx.x;
    const int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    int gx = 0, gy = 0;
#pragma unroll
    for (int dy = -1; dy <= 1; ++dy) {
#pragma unroll
        for (int dx = -1; dx <= 1; ++dx) {
            const int v = src[(py + dy) * w + px + dx]; /*!*/
            gx += v * dx * (2 - dy * dy);
            gy += v * dy * (2 - dx * dx);
        }
    }
    dst[py * w + px] = (uchar)min(255, abs(gx) + abs(gy));
}
//// particle push by a template, no test of n | bounds-check | push<float>(8, 128, r(1000), r(1000), 0.01)
template <typename T> __device__ T advance(T x, T v, T dt) { return x + v * dt; }
template <typename T> __global__ void push(T *pos, const T *vel, T dt) {
    unsigned p = threadIdx.x + blockDim.x * blockIdx.x;
    pos[p] = advance(pos[p], vel[p], dt); /*!*/
}
//// float4 tail | bounds-check | axpy4(2, 128, 250, 3.0, r(998), r(998))
__global__ void axpy4(int quads, float a, const float4 *x, float4 *y) {
    for (int q = blockIdx.x * blockDim.x + threadIdx.x; q < quads; q += gridDim.x * blockDim.x) {
        float4 u = x[q]; /*!*/
        float4 v = y[q];
        v.x += a * u.x; v.y += a * u.y; v.z += a * u.z; v.w += a * u.w;
        y[q] = v;
    }
}
//// shared window too small | shared-bounds | median3(4, 256, r(1024), z(1024), 1024)
__device__ float med(float a, float b, float c) { return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c)); }
__global__ void median3(const float *in, float *out, int n) {
    __shared__ float win[256];
    const int g = blockIdx.x * blockDim.x + threadIdx.x;
    win[threadIdx.x] = g < n ? in[g] : 0.f;
    __syncthreads();
    if (g > 0 && g < n - 1 && threadIdx.x > 0)
        out[g] = med(win[threadIdx.x - 1], win[threadIdx.x], win[threadIdx.x + 1]); /*!*/
}
//// Hillis-Steele scan in place | missing-syncthreads | scan(4, 256, i(1024, 9), zi(1024))
__global__ void scan(const int *in, int *out) {
    extern __shared__ int unused[];
    __shared__ int acc[256];
    const int t = threadIdx.x, g = blockIdx.x * 256 + t;
    acc[t] = in[g];
    __syncthreads();
    for (int step = 1; step < 256; step <<= 1) {
        int left = 0;
        if (t >= step) left = acc[t - step];
        acc[t] += left; /*!*/
        __syncthreads();
    }
    out[g] = acc[t];
}
//// n-body tile reused too early | missing-syncthreads | forces(8, 128, r(4096), z(4096), 1024)
__device__ float3 pull(float4 a, float4 b, float3 f) {
    float dx = b.x - a.x, dy = b.y - a.y, dz = b.z - a.z;
    float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
    float s = b.w * inv * inv * inv;
    f.x += dx * s; f.y += dy * s; f.z += dz * s;
    return f;
}
__global__ void forces(const float4 *bodies, float4 *acc, int n) {
    __shared__ float4 tile[128];
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    float4 mine = bodies[me];
    float3 f = make_float3(0.f, 0.f, 0.f);
    for (int base = 0; base < n; base += blockDim.x) {
        tile[threadIdx.x] = bodies[base + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) f = pull(mine, tile[j], f); /*!*/
    }
    acc[me] = make_float4(f.x, f.y, f.z, 0.f);
}
//// softmax reads the row maximum too early | missing-syncthreads | softmax(16, 128, r(16 * 128), z(16 * 128))
__global__ void softmax(const float *logits, float *probs) {
    __shared__ float red[4], top;
    const float *row = logits + blockIdx.x * 128;
    float v = row[threadIdx.x], m = v;
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = m;
    __syncthreads();
    if (threadIdx.x == 0) top = fmaxf(fmaxf(red[0], red[1]), fmaxf(red[2], red[3]));
    float e = __expf(v - top); /*!*/
    probs[blockIdx.x * 128 + threadIdx.x] = e;
}
//// barrier inside of a data-dependent loop | divergent-barrier | relax(4, 64, i(256, 5), r(256))
__global__ void relax(const int *rounds, float *u) {
    __shared__ float s[64];
    int lane = threadIdx.x, g = blockIdx.x * 64 + lane;
    s[lane] = u[g];
    int left = rounds[g] + lane / 32;
    while (left-- > 0) {
        s[lane] = 0.5f * s[lane];
        __syncthreads(); /*!*/
    }
    u[g] = s[lane];
}
//// barrier after threads outside of the image left | divergent-barrier | blur((2, 2), (16, 16), r(30 * 30), z(30 * 30), 30, 30)
__global__ void blur(const float *img, float *out, int w, int h) {
    __shared__ float t[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= w || y >= h) return;
    t[threadIdx.y][threadIdx.x] = img[y * w + x];
    __syncthreads(); /*!*/
    float s = t[threadIdx.y][threadIdx.x];
    if (threadIdx.x > 0) s += t[threadIdx.y][threadIdx.x - 1];
    out[y * w + x] = s;
}
//// bins of the shared histogram not zeroed | uninitialised-shared | luma(8, 256, u8(4096), zi(256), 4096)
__global__ void luma(const unsigned char *pix, unsigned *bins, int n) {
    __shared__ unsigned priv[256];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(priv + pix[i], 1u); /*!*/
    __syncthreads();
    atomicAdd(bins + threadIdx.x, priv[threadIdx.x]);
}
//// partial warp sums never written | uninitialised-shared | dot(4, 96, r(384), r(384), z(4))
__global__ void dot(const float *a, const float *b, float *c) {
    __shared__ float warp_sum[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float p = a[i] * b[i];
    for (int d = 16; d > 0; d /= 2) p += __shfl_down_sync(0xffffffffu, p, d);
    if ((threadIdx.x & 31) == 0) warp_sum[threadIdx.x >> 5] = p;
    __syncthreads();
    if (threadIdx.x < 32) {
        float q = warp_sum[threadIdx.x]; /*!*/
        for (int d = 16; d > 0; d /= 2) q += __shfl_down_sync(0xffffffffu, q, d);
        if (threadIdx.x == 0) c[blockIdx.x] = q;
    }
}
//// word count in a table | racing-update | tally(16, 128, i(2048, 40), zi(40), 2048)
struct Table { int *slots; __device__ void bump(int w) { slots[w] = slots[w] + 1; /*!*/ } };
__global__ void tally(const int *words, int *slots, int n) {
    Table table{slots};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) table.bump(words[i]);
}
//// scatter of charge to the grid | racing-update | deposit(8, 128, r(1024), z(64), 64)
__global__ void deposit(const float *x, float *rho, int cells) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    float s = x[p] * (cells - 1);
    int c = (int)s;
    float w = s - c;
    rho[c] += 1.f - w; /*!*/
    atomicAdd(&rho[c + 1], w);
}
//// racing maximum | racing-update | peak(8, 256, r(2048), z(1))
__global__ void peak(const float *signal, float *best) {
    float v = fabsf(signal[blockIdx.x * blockDim.x + threadIdx.x]);
    if (v > *best)
        *best = v; /*!*/
}
//// shared count without an atomic | racing-update | select(8, 128, r(1024), zi(8), 0.5)
__global__ void select(const float *x, int *hits, float limit) {
    __shared__ int found;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    if (x[blockIdx.x * blockDim.x + threadIdx.x] > limit) found++; /*!*/
    __syncthreads();
    if (threadIdx.x == 0) hits[blockIdx.x] = found;
}
//// last block sums up without a fence | unordered-blocks | mean(16, 64, r(1024), z(16), zi(1), z(1))
__global__ void mean(const float *x, float *part, unsigned *done, float *out) {
    __shared__ bool last;
    float v = x[blockIdx.x * 64 + threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v;
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float s = 0;
        for (int b = 0; b < gridDim.x; b++) s += part[b]; /*!*/
        *out = s / (gridDim.x * 64);
    }
}
//// heat steps in one array | unordered-blocks | heat(16, 128, r(2050))
__global__ void heat(float *u) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    float l = u[i - 1], r = u[i + 1];
    __syncthreads();
    u[i] = 0.5f * (l + r); /*!*/
}
//// volume index of 3 GiB | index-overflow | voxel((1, 1), 64, 50000, 50000, z(64), r(64))
__global__ void voxel(int slice, int row, float *out, const float *vol) {
    int z = slice, y = row;
    int at = z * 100000 + y + threadIdx.x; /*!*/
    out[threadIdx.x] = vol[at];
}
//// warp tree without a barrier of the warp | missing-syncwarp | dotw(4, 32, r(128), z(4))
__global__ void dotw(const float *v, float *out) {
    __shared__ float s[32];
    int l = threadIdx.x;
    s[l] = v[blockIdx.x * 32 + l];
    if (l < 16) s[l] += s[l + 16]; /*!*/
    __syncwarp();
    for (int d = 8; d; d >>= 1) {
        float u = l < d ? s[l + d] : 0.f;
        __syncwarp();
        s[l] += u;
        __syncwarp();
    }
    if (l == 0) out[blockIdx.x] = s[0];
}
//// shuffle of all lanes under a condition | warp-mask | halve(2, 64, r(128), z(128))
__global__ void halve(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float v = x[i];
    if (lane < 16) {
        v += __shfl_down_sync(0xffffffff, v, 16); /*!*/
    }
    float top = __shfl_sync(0xffffffff, v, 0);
    y[i] = v / top;
}
//// spin lock inside of a block that waits for itself | deadlock | ring(4, 32, zi(4))
__global__ void ring(volatile int *turn) {
    __shared__ volatile int mine;
    if (threadIdx.x == 0) {
        mine = 0;
        __threadfence_block();
        while (turn[(blockIdx.x + 1) % gridDim.x] == 0) { } /*!*/
        turn[blockIdx.x] = 1;
    }
}
//// window of which one element is never assigned | uninitialised | ema(2, 64, r(128), z(128), 4)
__global__ void ema(const float *x, float *y, int taps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w[8];
    for (int k = 0; k < taps; k++) w[k] = x[i] * k;
    float s = 0.f;
    for (int k = 0; k <= taps; k++) s += w[k]; /*!*/
    y[i] = s;
}
//// float4 view of an odd row | misaligned-access | rows4(2, 32, r(1026), z(1026), 513)
__global__ void rows4(const float *img, float *out, int pitch) {
    const float4 *row = reinterpret_cast<const float4 *>(img + blockIdx.x * pitch);
    float4 v = row[threadIdx.x]; /*!*/
    out[blockIdx.x * pitch + threadIdx.x] = v.x + v.y + v.z + v.w;
}
//// mean of empty bins | division-by-zero | binmean(1, 64, i(64, 90), i(64, 3), zi(64))
__global__ void binmean(const int *sums, const int *counts, int *mean) {
    int b = threadIdx.x;
    mean[b] = sums[b] / counts[b]; /*!*/
}
//// bisection that never narrows | endless-loop | root(1, 32, r(32), z(32), time_limit=1)
__global__ void root(const float *target, float *x) {
    float lo = 0.f, hi = 2.f, t = target[threadIdx.x] + 0.3f;
    while (hi - lo > 1e-9f) { /*!*/
        float mid = 0.5f * (lo + hi);
        if (mid * mid < t) lo = mid; else hi = mid;
    }
    x[threadIdx.x] = lo;
}
//// last element of a wrapped stencil in global memory | bounds-check | periodic(4, 128, r(512), z(512), 512)
__global__ void periodic(const float *u, float *du, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int right = i == n ? 0 : i + 1, left = i ? i - 1 : n - 1;
    du[i] = 0.5f * (u[right] - u[left]); /*!*/
}
//// jacobi sweep over rows without a border test | bounds-check | jacobi((4, 16), (32, 4), r(128 * 64), z(128 * 64), 128, 64)
__global__ void jacobi(const float* __restrict__ a, float* __restrict__ b, int nx, int ny)
{
    const int ix = threadIdx.x + blockIdx.x * blockDim.x;
    const int iy = threadIdx.y + blockIdx.y * blockDim.y;
    const int id = iy * nx + ix;
    if (ix > 0 && ix < nx - 1) {
        b[id] = 0.25f * (a[id - 1] + a[id + 1]
                       + a[id - nx] /*!*/
                       + a[id + nx]);
    }
}
//// histogram bin beyond the table | bounds-check | vote(8, 128, i(1024, 70), zi(64), 1024)
__global__ void vote(const int* label, int* count, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&count[label[i]], 1); /*!*/
}
//// rolling mean in shared memory without the second barrier | missing-syncthreads | rolling(4, 128, r(512 + 8), z(512), 5)
__global__ void rolling(const float* px, float* ma, int rounds)
{
    __shared__ float buf[128];
    float v = px[blockIdx.x * 128 + threadIdx.x];
    for (int r = 0; r < rounds; ++r) {
        buf[threadIdx.x] = v;
        __syncthreads();
        float right = threadIdx.x < 127 ? buf[threadIdx.x + 1] : v; /*!*/
        v = 0.5f * (v + right);
    }
    ma[blockIdx.x * 128 + threadIdx.x] = v;
}
//// broadcast by thread 0 then read | missing-syncthreads | centre(16, 128, r(2048), z(2048))
struct Stats { float mean, scale; };
__global__ void centre(const float* x, float* y)
{
    __shared__ Stats st;
    const float* mine = x + blockIdx.x * blockDim.x;
    if (threadIdx.x == 0) {
        float s = 0;
        for (int k = 0; k < 128; ++k) s += mine[k];
        st.mean = s / 128; st.scale = 2.f;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = (mine[threadIdx.x] - st.mean) * st.scale; /*!*/
}
//// barrier in one arm of a switch | divergent-barrier | stage(2, 96, r(192), z(192))
__global__ void stage(const float* x, float* y)
{
    __shared__ float s[96];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 96 + t];
    __syncthreads();
    switch (t / 32) {
    case 0: s[t] *= 2.f; break;
    case 1:
        s[t] += 1.f;
        __syncthreads(); /*!*/
        break;
    default: break;
    }
    y[blockIdx.x * 96 + t] = s[t];
}
//// argmin by a plain write | racing-update | argmin(4, 128, r(512), full(1, 512), full(1, 0))
__global__ void argmin(const float* cost, int* best, int* where)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int c = (int)(cost[i] * 1000);
    if (c < best[0]) {
        best[0] = c; /*!*/
    }
}
//// weights of a graph | racing-update | degree_sum(16, 64, i(1024, 30), i(1024, 30), r(1024), z(30))
__global__ void degree_sum(const int* src, const int* dst, const float* w, float* strength)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(strength + src[e], w[e]);
    strength[dst[e]] += w[e]; /*!*/
}
//// producer block and consumer block | unordered-blocks | pipeline(2, 64, r(64), z(64), z(64))
__global__ void pipeline(const float* in, float* mid, float* out)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0)
        mid[t] = in[t] * 3.f;
    else
        out[t] = mid[63 - t]; /*!*/
}
//// tensor offset of more than 2 to the 31 elements | index-overflow | slice4(1, 128, 70000, r(128), z(128))
__global__ void slice4(int batch, const float* t, float* out)
{
    int stride = 256 * 256;
    int off = batch * stride; /*!*/
    out[threadIdx.x] = t[off + threadIdx.x];
}
//// shared array summed before anybody filled it | uninitialised-shared | energies(4, 64, r(256), z(4))
__global__ void energies(const float* v, float* e)
{
    __shared__ float lane[128];
    lane[threadIdx.x] = v[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int h = 64; h > 0; h >>= 1) {
        if (threadIdx.x < h) lane[threadIdx.x] += lane[threadIdx.x + h]; /*!*/
        __syncthreads();
    }
    if (threadIdx.x == 0) e[blockIdx.x] = lane[0];
}
//// counter in shared memory set to zero without a barrier | missing-syncthreads | passed(4, 256, r(1024), zi(4))
__global__ void passed(const float* score, int* n)
{
    __shared__ int c;
    if (threadIdx.x == 0) c = 0;
    if (score[blockIdx.x * blockDim.x + threadIdx.x] > 0.25f) atomicAdd(&c, 1); /*!*/
    __syncthreads();
    if (threadIdx.x == 0) n[blockIdx.x] = c;
}
//// total set to zero by the first block | unordered-blocks | total(16, 64, r(1024), z(1))
__global__ void total(const float* x, float* sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) *sum = 0.f;
    float v = x[i];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, v); /*!*/
}
