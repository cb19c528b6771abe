//// pixels of colour structures | uncoalesced | grey(512, 256, r(131072 * 3), z(131072), 131072)
struct Rgb { float r, g, b; };
__device__ float luminance(const Rgb &c) { return 0.299f * c.r + 0.587f * c.g + 0.114f * c.b; }
struct Wide { Rgb c; float pad[13]; };
__global__ void grey(const float *planes, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int col = i / 512, row = i % 512;
    if (i < n) y[i] = planes[row * 768 + col] * 0.5f; /*!*/
}
//// rows by thread, column sums | uncoalesced | rowmean(32, 128, r(4096 * 64), z(4096), 4096, 64)
__global__ void rowmean(const float *__restrict__ X, float *__restrict__ mu, int rows, int features) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= rows) return;
    const float *mine = X + (size_t)s * features;
    float acc = 0.f;
    for (int f = 0; f < features; ++f) {
        float v = mine[f]; /*!*/
        acc += v;
    }
    mu[s] = acc / features;
}
//// scattered output of a permute | uncoalesced | nhwc((64, 8), 64, r(64 * 64 * 64), z(64 * 64 * 64), 64, 64)
__global__ void nhwc(const float *nchw, float *out, int channels, int pixels) {
    int p = blockIdx.x, c = threadIdx.x;
    for (int q = p + gridDim.x * blockIdx.y; q < pixels * 8; q += gridDim.x * gridDim.y)
        out[c * pixels * 8 + q] = nchw[q * channels + c]; /*!*/
}
//// tridiagonal in shared columns | bank-conflicts | thomas(64, 32, r(64 * 1024), z(64 * 1024))
__global__ void thomas(const float *rhs, float *sol) {
    __shared__ float sys[32][32];
    const float *mine = rhs + blockIdx.x * 1024;
    for (int k = 0; k < 32; k++) sys[k][threadIdx.x] = mine[k * 32 + threadIdx.x];
    __syncwarp();
    float carry = 0.f;
    for (int k = 0; k < 32; k++) {
        carry = 0.5f * carry + sys[threadIdx.x][k]; /*!*/
        sys[threadIdx.x][k] = carry;
    }
    __syncwarp();
    for (int k = 0; k < 32; k++) sol[blockIdx.x * 1024 + k * 32 + threadIdx.x] = sys[k][threadIdx.x];
}
//// fft stage with a stride of two | bank-conflicts | butterflies(128, 256, r(128 * 512), z(128 * 512))
__global__ void butterflies(const float *re, float *out) {
    __shared__ float x[512];
    int t = threadIdx.x, base = blockIdx.x * 512;
    x[t] = re[base + t];
    x[t + 256] = re[base + t + 256];
    __syncthreads();
    float s = 0.f;
    for (int rep = 0; rep < 16; rep++) {
        s += x[(2 * t + 32 * rep) & 511]; /*!*/
    }
    out[base + t] = s;
    out[base + t + 256] = -s;
}
//// option pay-off by parity of the thread | divergence | payoff(256, 256, r(65536), z(65536), 65536)
__device__ float series(float x, float c) {
    float s = 0.f;
    for (int k = 0; k < 24; k++) s = fmaf(s, x, c + k);
    return s;
}
__global__ void payoff(const float *spot, float *price, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    float v;
    if (i & 1) /*!*/
        v = series(spot[i], 1.0f);
    else
        v = sqrtf(series(0.5f * spot[i], 2.0f));
    price[i] = v;
}
//// escape time of a fractal, lanes end one by one | divergence | escape((8, 64), (32, 2), zi(256 * 128), 256, 128)
__global__ void escape(int *iters, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned seed = (y * w + x) * 2654435761u;
    float cr = (seed & 1023) / 512.f - 1.5f, ci = (seed >> 10 & 1023) / 512.f - 1.f;
    float zr = 0, zi = 0;
    int k = 0;
    while (k < 200 && zr * zr + zi * zi < 4.f) { /*!*/
        float t = zr * zr - zi * zi + cr;
        zi = 2.f * zr * zi + ci;
        zr = t;
        k++;
    }
    iters[y * w + x] = k;
}
//// Black-Scholes with double constants | double-literal | bs(64, 256, r(16384), z(16384), 16384)
__device__ float cnd(float d) {
    float k = 1.0 / (1.0 + 0.2316419 * fabsf(d)); /*!*/
    return 1.0f - 0.3989423f * expf(-0.5f * d * d) * k;
}
__global__ void bs(const float *s, float *call, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) call[i] = s[i] * cnd(s[i] - 0.5f);
}
//// gelu with double constants | double-literal | gelu(64, 256, r(16384), z(16384), 16384)
#define HALF 0.5
__global__ void gelu(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        y[i] = HALF * v * (1.0f + tanhf(0.7978845f * v)); /*!*/
    }
}
//// spmv scratch of 40 KiB a block | low-occupancy | gather(256, 64, r(16384), z(16384))
#define SCRATCH 10000
__global__ void gather(const float *v, float *r) {
    __shared__ float scratch[SCRATCH]; /*!*/
    int t = threadIdx.x, g = blockIdx.x * blockDim.x + t;
    for (int k = t; k < SCRATCH; k += 64) scratch[k] = v[(blockIdx.x * 64 + k) & 16383];
    __syncthreads();
    r[g] = scratch[(t * 77) % SCRATCH] + scratch[t];
}
//// one block sums a long vector | grid-too-small | norm(1, 256, r(1 << 20), z(1), 1 << 20)
__global__ void norm(const float *x, float *out, int n) { /*!*/
    __shared__ float s[8];
    float v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i] * x[i];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; w++) v += s[w];
        *out = sqrtf(v);
    }
}
//// lower triangle by rows | unequal-blocks | trmv(256, 128, r(256 * 4096), r(4096), z(256), 4096)
__global__ void trmv(const float *L, const float *x, float *y, int n) {
    __shared__ float s[128];
    int row = blockIdx.x;
    float acc = 0.f;
    for (int c = threadIdx.x; c < 16 * (row + 1); c += blockDim.x) /*!*/
        acc = fmaf(L[row * n + c], x[c], acc);
    s[threadIdx.x] = acc;
    for (int o = 64; o; o >>= 1) {
        __syncthreads();
        if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
    }
    if (threadIdx.x == 0) y[row] = s[0];
}
//// barrier after every product | unneeded-barrier | gemv(64, 128, r(64 * 2048), r(2048), z(64 * 128), 2048)
__global__ void gemv(const float *A, const float *x, float *part, int n) {
    float acc = 0.f;
    for (int c = threadIdx.x; c < n; c += blockDim.x) {
        acc += A[blockIdx.x * n + c] * x[c];
        __syncthreads(); /*!*/
    }
    part[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
//// hot field of a 64-byte record | half-dram-access | energy(512, 256, r(131072 * 16), z(131072 * 8), 131072)
struct alignas(32) Half { float v[8]; };
struct Atom { Half hot, cold; };
__global__ void energy(const float4 *atoms, float *e, int n) {
    int lane = threadIdx.x & 7, first = (blockIdx.x * blockDim.x + threadIdx.x) >> 3;
    const float *base = (const float *)atoms;
    for (int k = 0; k < 8; k++) {
        int a = first + k * (n / 8);
        e[a * 8 + lane] = base[a * 16 + lane] * 0.5f; /*!*/
    }
}
//// normals written as three floats by field | partial-sectors | normals(512, 256, r(131072), z(131072 * 3), 131072)
struct Vec3 { float x, y, z; };
__global__ void normals(const float *h, Vec3 *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i].y = rsqrtf(1.f + h[i] * h[i]); /*!*/
}
//// gamma table in constant memory | constant-addresses | gamma_map(256, 256, u8(65536), z(65536))
__constant__ float lut[256];
__global__ void gamma_map(const unsigned char *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = lut[in[i]]; /*!*/
    out[i] = v;
}
//// horner with intrinsics | unfused-multiply-add | poly(64, 256, r(16384), z(16384))
__global__ void poly(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], p = 0.1f;
    for (int k = 0; k < 32; k++)
        p = __fadd_rn(__fmul_rn(p, v), 0.25f); /*!*/
    y[i] = p;
}
//// loss summed by one atomic each | atomic-contention | mse(256, 256, r(65536), r(65536), z(1), 65536)
__global__ void mse(const float *pred, const float *target, float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float d = pred[i] - target[i];
        atomicAdd(loss, d * d / n); /*!*/
    }
}
//// im2col by division | integer-division | im2col(64, 256, r(64 * 66), z(16384 * 9), 64, 9, 64)
__global__ void im2col(const float *im, float *col, int width, int taps, int height) {
    int pix = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < taps; k++) {
        int dy = k / 3, dx = k % 3;
        int at = (pix % (width * height) + dy * width + dx) % (width * height); /*!*/
        col[k * 16384 + pix] = im[at];
    }
}
//// strided bytes, one at a time | bytes-in-flight | checksum(264, 128, u8(264 * 128 * 64), zi(264 * 128), 64)
__global__ void checksum(const unsigned char *p, int *sum, int each) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    int s = 0;
#pragma unroll 1
    for (int k = 0; k < each; k++) s = s * 31 + p[k * all + t]; /*!*/
    sum[t] = s;
}
//// tail of a second wave | tail | smooth(272, 1024, r(272 * 1024), z(272 * 1024))
__global__ void smooth(const float *x, float *y) { /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
#pragma unroll 1
    for (int k = 0; k < 400; k++) v = fmaf(v, 0.999f, 0.001f);
    y[i] = v;
}
//// convolution with 80 weights in registers | register-spills | conv80(64, 1024, r(65536 + 96), z(65536))
__global__ void __launch_bounds__(1024, 2) conv80(const float *x, float *y) { /*!*/
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w[80];
#pragma unroll
    for (int k = 0; k < 80; k++) w[k] = x[i + k];
#pragma unroll 1
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int k = 0; k < 80; k++) w[k] = fmaf(w[(k + 7) % 80], w[k], 0.5f);
    float s = 0.f;
#pragma unroll
    for (int k = 0; k < 80; k++) s += w[k] * w[(k + 1) % 80];
    y[i] = s;
}
//// queue of a breadth-first search by id | atomic-contention | push_all(128, 256, i(32768, 9), zi(32768), zi(1))
__global__ void push_all(const int *level, int *queue, int *tail) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (level[v] != 8) queue[atomicAdd(tail, 1)] = v; /*!*/
}
//// quadrature with a double step | double-literal | simpson(64, 256, z(16384), 0.001)
__global__ void simpson(float *area, float h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i * h, s = 0.f;
    for (int k = 0; k < 8; k++) {
        float w = k & 1 ? 4.0 : 2.0;
        s += w * sin(x + k * h) / 3.0; /*!*/
    }
    area[i] = s;
}
//// shared particles in a structure of eight floats | bank-conflicts | nbody8(64, 128, r(8192 * 8), z(8192))
struct P8 { float x, y, z, m, vx, vy, vz, pad; };
__global__ void nbody8(const P8 *p, float *e) {
    __shared__ P8 s[128];
    const float *src = (const float *)(p + blockIdx.x * 128);
    for (int k = threadIdx.x; k < 1024; k += 128) ((float *)s)[k] = src[k];
    __syncthreads();
    float acc = 0.f;
    for (int j = 0; j < 32; j++) {
        int q = (threadIdx.x + j) & 127;
        acc += s[q].m * j; /*!*/
    }
    e[blockIdx.x * 128 + threadIdx.x] = acc;
}
//// particles in local arrays by a run-time index | local-array | digits(64, 256, i(16384, 99999), zi(16384 * 8))
__global__ void digits(const int *x, int *out) {
    int count[10] = {0}, i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int v = x[i] + 100000; v > 0; v /= 10) count[v % 10]++; /*!*/
    for (int d = 0; d < 8; d++) out[d * 16384 + i] = count[d];
}
//// row-major access with the x and y of the block swapped | uncoalesced | sat((16, 16), (16, 16), r(65536), z(65536), 256)
__global__ void sat(const float *in, float *out, int w) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    out[i * w + j] = fminf(1.0f, 1.25f * in[i * w + j]); /*!*/
}
//// block of 24 threads | block-size | curl((4096, 4), (8, 3), r(131072), z(131072))
__global__ void curl(const float *u, float *v) { /*!*/
    int i = ((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    if (i > 0 && i < 131072) v[i] = u[i] - u[i - 1];
}
//// array of complex numbers, only the real part | uncoalesced | realpart(256, 256, r(65536 * 8), z(65536))
struct Cell { double re, im; float4 meta; };
__global__ void realpart(const float* cells, float* re)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    re[i] = 0.5f * cells[8 * i]; /*!*/
}
//// column major in a c array | uncoalesced | colmajor((16, 64), (16, 16), r(256 * 1024), z(256 * 1024), 1024)
__global__ void colmajor(const float* A, float* B, int ld)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y * blockDim.y + threadIdx.y;
    float v = A[r * ld + c]; /*!*/
    B[c * 256 + r] = v * v;
}
//// local transposes with 16 by 16 doubles | bank-conflicts | tpose((32, 32), (16, 16), d(512 * 512), dz(512 * 512), 512)
template <class T> __device__ void body(const T* a, T* b, int n)
{
    __shared__ T t[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    t[threadIdx.y][threadIdx.x] = a[y * n + x];
    __syncthreads();
    b[(blockIdx.x * 16 + threadIdx.y) * n + blockIdx.y * 16 + threadIdx.x] = t[threadIdx.x][threadIdx.y]; /*!*/
}
extern "C" __global__ void tpose(const double* a, double* b, int n) { body<double>(a, b, n); }
//// reflection by cases of the lane | divergence | noise(256, 128, r(32768), z(32768))
__device__ float heavy(float v, int n) { for (int k = 0; k < n; ++k) v = v * v * 0.5f + 0.1f; return v; }
__global__ void noise(const float* x, float* y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    switch (threadIdx.x % 4) { /*!*/
    case 0: v = heavy(v, 40); break;
    case 1: v = sinf(heavy(v, 40)); break;
    case 2: v = sqrtf(heavy(v, 40)); break;
    default: v = heavy(1.f - v, 40);
    }
    y[i] = v;
}
//// pendulum with a double pi | double-literal | swing(64, 128, r(8192), z(8192), 0.01)
__global__ void swing(const float* theta, float* next, float dt)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w = theta[i];
    next[i] = w - dt * 9.81 / 2.5 * w; /*!*/
}
//// sort keys in 100 KB of shared memory | low-occupancy | keys(264, 128, r(264 * 128), z(264 * 128), shared=100000)
extern __shared__ float pool[];
__global__ void keys(const float* x, float* y) /*!*/
{
    int g = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.f;
    for (int k = 0; k < 64; ++k) { pool[threadIdx.x] = x[(g + k * 4096) % 33792]; s += pool[threadIdx.x]; }
    y[g] = s;
}
//// two blocks reduce a long signal | grid-too-small | rms(2, 1024, r(1 << 20), z(2), 1 << 19)
__global__ void rms(const float* sig, float* part, int each) /*!*/
{
    float acc = 0.f;
    const float* mine = sig + (size_t)blockIdx.x * each;
    for (int k = threadIdx.x; k < each; k += 1024) acc = fmaf(mine[k], mine[k], acc);
    for (int o = 16; o; o /= 2) acc += __shfl_xor_sync(0xffffffffu, acc, o);
    if (threadIdx.x % 32 == 0) atomicAdd(part + blockIdx.x, acc);
}
//// pairs above the diagonal | unequal-blocks | pairs(264, 256, r(1056 * 4), z(264), 1056)
__global__ void pairs(const float4* p, float* e, int n)
{
    float acc = 0.f;
    for (int i = blockIdx.x * 4; i < blockIdx.x * 4 + 4; ++i)
        for (int j = i + 1 + threadIdx.x; j < n; j += blockDim.x) { /*!*/
            float dx = p[i].x - p[j].x, dy = p[i].y - p[j].y;
            for (int k = 0; k < 16; ++k) acc += __expf(-dx * dx - dy * dy * k);
        }
    atomicAdd(e + blockIdx.x, acc);
}
//// barrier between independent elements | unneeded-barrier | brighten(512, 128, r(65536 * 4), z(65536 * 4))
__global__ void brighten(const float* in, float* out)
{
    int base = blockIdx.x * 512 + threadIdx.x;
    for (int k = 0; k < 4; ++k) {
        out[base + 128 * k] = fminf(1.f, in[base + 128 * k] * 1.2f);
        __syncthreads(); /*!*/
    }
}
//// codebook by class of the thread | constant-addresses | dequant(256, 128, i(32768, 64), z(32768))
__constant__ float book[64];
__device__ float look(int k) { return book[k]; /*!*/ }
__global__ void dequant(const int* code, float* v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    v[i] = look(code[i]);
}
//// count of positives by one counter in shared memory | atomic-contention | positives(256, 256, r(65536), zi(256))
__global__ void positives(const float* x, int* n)
{
    __shared__ int c;
    if (threadIdx.x == 0) c = 0;
    __syncthreads();
    if (x[blockIdx.x * blockDim.x + threadIdx.x] >= 0.f) atomicAdd(&c, 1); /*!*/
    __syncthreads();
    if (threadIdx.x == 0) n[blockIdx.x] = c;
}
//// gcd by euclid | integer-division | gcds(128, 128, i(16384, 9999), i(16384, 9999), zi(16384))
__global__ void gcds(const int* a, const int* b, int* g)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int x = a[i] + 1, y = b[i] + 1;
    while (y) {
        int r = x % y; /*!*/
        x = y; y = r;
    }
    g[i] = x;
}
//// vertices of 24 bytes, one field written | partial-sectors | heights(256, 256, r(65536), z(65536 * 4))
struct Vertex { float x, y, z, w; };
__global__ void heights(const float* h, Vertex* v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    v[i].z = h[i] * 10.f; /*!*/
}
//// division in a grid of which most lies beyond the image | integer-division | project(64, 256, r(64 * 64 * 64), r(64 * 64), 64, 64, 64)
__global__ void project(const float *voxels, float *image, int nx, int ny, int nz) {
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= nx * ny) return;
    float sum = 0;
    for (int z = 0; z < nz; z++) {
        int flat = z * nx * ny + p;
        int x = flat % nx, y = flat / nx % ny; /*!*/
        sum += voxels[(z * ny + y) * nx + x];
    }
    image[p] = sum;
}
