// Twelve kernels as users write them, predicted before an H200 measured them.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// Each block sorts 2,048 keys in shared memory.
extern "C" __global__ void sort_tiles(const unsigned long long *in, unsigned long long *out) {
    __shared__ unsigned long long key[2048];
    int t = threadIdx.x;
    in += blockIdx.x * 2048;
    out += blockIdx.x * 2048;
    for (int i = t; i < 2048; i += 512)
        key[i] = in[i];
    for (int size = 2; size <= 2048; size *= 2)
        for (int d = size / 2; d; d /= 2) {
            __syncthreads();
            for (int p = t; p < 1024; p += 512) {
                int i = 2 * p - (p & (d - 1)), j = i + d;
                unsigned long long a = key[i], b = key[j];
                if ((a > b) == ((i & size) == 0)) {
                    key[i] = b;
                    key[j] = a;
                }
            }
        }
    __syncthreads();
    for (int i = t; i < 2048; i += 512)
        out[i] = key[i];
}

// Scatters keys by four bits; a block's first place for each digit is known.
extern "C" __global__ void radix_pass(int shift, const unsigned *in, const int *first,
                                      unsigned *out) {
    __shared__ int count[8][16];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x < 128)
        count[threadIdx.x / 16][threadIdx.x % 16] = 0;
    __syncthreads();
    unsigned key = in[INDEX], digit = key >> shift & 15, same = ~0u;
    for (int bit = 0; bit < 4; bit++) {
        unsigned ones = __ballot_sync(~0u, digit >> bit & 1);
        same &= digit >> bit & 1 ? ones : ~ones;
    }
    int before = __popc(same & ((1u << lane) - 1));
    if (!before)
        count[warp][digit] = __popc(same);
    __syncthreads();
    for (int w = 0; w < warp; w++)
        before += count[w][digit];
    out[first[blockIdx.x * 16 + digit] + before] = key;
}

// Running sums of rows of 4,096; a thread has 16 elements.
extern "C" __global__ void scan_rows(const float4 *x, float4 *y) {
    __shared__ float part[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    x += blockIdx.x * 1024;
    y += blockIdx.x * 1024;
    float carry = 0;
    for (int i = t; i < 1024; i += 256) {
        float4 v = x[i];
        v.y += v.x;
        v.z += v.y;
        v.w += v.z;
        float sum = v.w;
        for (int d = 1; d < 32; d *= 2) {
            float other = __shfl_up_sync(~0u, sum, d);
            if (lane >= d)
                sum += other;
        }
        if (lane == 31)
            part[warp] = sum;
        __syncthreads();
        float before = carry + sum - v.w;
        for (int w = 0; w < 8; w++) {
            if (w < warp)
                before += part[w];
            carry += part[w];
        }
        __syncthreads();
        y[i] = make_float4(v.x + before, v.y + before, v.z + before, v.w + before);
    }
}

// A sparse matrix in rows times a vector; four lanes a row.
extern "C" __global__ void spmv_quads(int rows, const int *first, const int *column,
                                      const double *value, const double *x, double *y) {
    int row = INDEX / 4, lane = threadIdx.x % 4;
    if (row >= rows)
        return;
    double sum = 0;
    for (int i = first[row] + lane; i < first[row + 1]; i += 4)
        sum += value[i] * x[column[i]];
    sum += __shfl_down_sync(~0u, sum, 2, 4);
    sum += __shfl_down_sync(~0u, sum, 1, 4);
    if (!lane)
        y[row] = sum;
}

// Accelerations of two bodies a thread; a tile of bodies lies in shared memory.
extern "C" __global__ void nbody_tiles(int n, float soft, const float4 *body, float4 *out) {
    __shared__ float4 tile[128];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float4 p[2] = {body[i], body[i + 128]};
    float a[2][3] = {};
    for (int from = 0; from < n; from += 128) {
        __syncthreads();
        tile[t] = body[from + t];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 128; j++) {
            float4 q = tile[j];
            for (int k = 0; k < 2; k++) {
                float x = q.x - p[k].x, y = q.y - p[k].y, z = q.z - p[k].z;
                float r = rsqrtf(x * x + y * y + z * z + soft), f = q.w * r * r * r;
                a[k][0] += f * x;
                a[k][1] += f * y;
                a[k][2] += f * z;
            }
        }
    }
    for (int k = 0; k < 2; k++)
        out[i + 128 * k] = make_float4(a[k][0], a[k][1], a[k][2], 0);
}

// Transforms of 256 complex numbers by radix 4, a block of 64 threads each.
extern "C" __global__ void fft256(const float2 *in, float2 *out) {
    __shared__ float2 z[256];
    int t = threadIdx.x;
    in += blockIdx.x * 256;
    out += blockIdx.x * 256;
    for (int k = 0; k < 4; k++)
        z[t + 64 * k] = in[t + 64 * k];
    __syncthreads();
    for (int span = 1; span < 256; span *= 4) {
        float2 v[4];
        for (int k = 0; k < 4; k++)
            v[k] = z[t + 64 * k];
        int at = t % span;
        for (int k = 1; k < 4; k++) {
            float s, c;
            sincospif(-0.5f * k * at / span, &s, &c);
            v[k] = make_float2(v[k].x * c - v[k].y * s, v[k].x * s + v[k].y * c);
        }
        float2 a = make_float2(v[0].x + v[2].x, v[0].y + v[2].y);
        float2 b = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
        float2 c = make_float2(v[1].x + v[3].x, v[1].y + v[3].y);
        float2 d = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
        __syncthreads();
        int to = t / span * span * 4 + at;
        z[to] = make_float2(a.x + c.x, a.y + c.y);
        z[to + span] = make_float2(b.x + d.x, b.y + d.y);
        z[to + 2 * span] = make_float2(a.x - c.x, a.y - c.y);
        z[to + 3 * span] = make_float2(b.x - d.x, b.y - d.y);
        __syncthreads();
    }
    for (int k = 0; k < 4; k++)
        out[t + 64 * k] = z[t + 64 * k];
}

// Solves a system of 16 unknowns a block by elimination, a thread for each coefficient.
extern "C" __global__ void solve16(const float *matrix, const float *right, float *x) {
    __shared__ float a[16][17];
    int i = threadIdx.y, j = threadIdx.x;
    if (j < 16)
        a[i][j] = matrix[blockIdx.x * 256 + i * 16 + j];
    else
        a[i][16] = right[blockIdx.x * 16 + i];
    __syncthreads();
    for (int k = 0; k < 16; k++) {
        float factor = a[i][k] / a[k][k], top = a[k][j];
        __syncthreads();
        if (i != k)
            a[i][j] -= factor * top;
        __syncthreads();
    }
    if (j == 16)
        x[blockIdx.x * 16 + i] = a[i][16] / a[i][i];
}

// A polynomial of degree 24 in double precision.
extern "C" __global__ void horner_double(int n, const double *c, const double *x, double *y) {
    int i = INDEX;
    if (i >= n)
        return;
    double v = x[i], sum = c[24];
    for (int k = 23; k >= 0; k--)
        sum = sum * v + c[k];
    y[i] = sum;
}

// Follows four chains a thread at once.
extern "C" __global__ void chains(int steps, const int *next, int *end) {
    int at[4];
    for (int k = 0; k < 4; k++)
        at[k] = next[4 * INDEX + k];
    for (int s = 0; s < steps; s++)
        for (int k = 0; k < 4; k++)
            at[k] = next[at[k]];
    for (int k = 0; k < 4; k++)
        end[4 * INDEX + k] = at[k];
}

// The mean of 7 x 7 pixels: rows first, then columns, in shared memory.
extern "C" __global__ void box_blur(int width, int height, const float *in, float *out) {
    __shared__ float tile[22][38], sum[22][32];
    int x = threadIdx.x, y = threadIdx.y;
    for (int j = y; j < 22; j += 16)
        for (int i = x; i < 38; i += 32) {
            int u = min(max((int)blockIdx.x * 32 + i - 3, 0), width - 1);
            int v = min(max((int)blockIdx.y * 16 + j - 3, 0), height - 1);
            tile[j][i] = in[v * width + u];
        }
    __syncthreads();
    for (int j = y; j < 22; j += 16) {
        float s = 0;
        for (int i = 0; i < 7; i++)
            s += tile[j][x + i];
        sum[j][x] = s;
    }
    __syncthreads();
    float s = 0;
    for (int j = 0; j < 7; j++)
        s += sum[y + j][x];
    out[(blockIdx.y * 16 + y) * width + blockIdx.x * 32 + x] = s / 49;
}

// Inserts keys into a table; a key goes to the first free place.
extern "C" __global__ void hash_insert(unsigned mask, const unsigned *key, unsigned *table) {
    unsigned k = key[INDEX], at = k * 2654435761u >> 7 & mask;
    for (;;) {
        unsigned old = atomicCAS(&table[at], 0u, k);
        if (!old || old == k)
            return;
        at = (at + 1) & mask;
    }
}

// The sums of three short rows.
extern "C" __global__ void tiny_rows(int n, const float *x, float *sum) {
    __shared__ float part[2];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 64)
        s += x[blockIdx.x * n + i];
    for (int d = 16; d; d /= 2)
        s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0)
        sum[blockIdx.x] = part[0] + part[1];
}
