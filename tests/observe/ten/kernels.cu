// Ten kernels as users write them, predicted before an H200 measured them.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#include <cuda_fp16.h>

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// The edit distance of two texts of 128 letters a block, diagonal by diagonal.
extern "C" __global__ void edit_distance(const unsigned char *a, const unsigned char *b, int *out) {
    __shared__ int line[3][129];
    __shared__ unsigned char other[128];
    int t = threadIdx.x;
    unsigned char mine = a[blockIdx.x * 128 + t];
    other[t] = b[blockIdx.x * 128 + t];
    if (t == 0)
        line[0][0] = 0;
    for (int d = 1; d <= 256; d++) {
        int *now = line[d % 3], *last = line[(d + 2) % 3], *before = line[(d + 1) % 3];
        int i = t + 1, j = d - i;
        if (t == 0 && d <= 128)
            now[0] = d;
        __syncthreads();
        if (j == 0)
            now[i] = d;
        else if (j > 0 && j <= 128)
            now[i] = min(min(last[i - 1], last[i]) + 1, before[i - 1] + (mine != other[j - 1]));
    }
    __syncthreads();
    if (t == 127)
        out[blockIdx.x] = line[256 % 3][128];
}

// The activation of a network in half precision, two values a thread.
extern "C" __global__ void gelu_half(int n, const __half2 *x, __half2 *y) {
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) {
        float2 v = __half22float2(x[i]);
        v.x = 0.5f * v.x * (1 + tanhf(0.7978846f * (v.x + 0.044715f * v.x * v.x * v.x)));
        v.y = 0.5f * v.y * (1 + tanhf(0.7978846f * (v.y + 0.044715f * v.y * v.y * v.y)));
        y[i] = __float22half2_rn(v);
    }
}

// Checksums of messages of 64 words, by a table in shared memory.
extern "C" __global__ void crc_rows(const unsigned *table, const unsigned *message, unsigned *sum) {
    __shared__ unsigned of_byte[256];
    of_byte[threadIdx.x] = table[threadIdx.x];
    __syncthreads();
    unsigned crc = ~0u;
    for (int k = 0; k < 64; k++) {
        crc ^= message[k * gridDim.x * 256 + INDEX];
        for (int b = 0; b < 4; b++)
            crc = crc >> 8 ^ of_byte[crc & 255];
    }
    sum[INDEX] = ~crc;
}

// Keyed hashes of 64-bit words: rounds of additions, rotations and exclusive ors.
extern "C" __global__ void siphash(unsigned long long key, int n, const unsigned long long *in,
                                   unsigned long long *out) {
    typedef unsigned long long u64;
    int i = INDEX;
    if (i >= n)
        return;
    u64 v0 = key ^ 0x736f6d6570736575ull, v1 = key ^ 0x646f72616e646f6dull,
        v2 = key ^ 0x6c7967656e657261ull, v3 = key ^ 0x7465646279746573ull, m = in[i];
    v3 ^= m;
#pragma unroll
    for (int round = 0; round < 6; round++) {
        if (round == 2) {
            v0 ^= m;
            v2 ^= 255;
        }
        v0 += v1, v2 += v3;
        v1 = (v1 << 13 | v1 >> 51) ^ v0, v3 = (v3 << 16 | v3 >> 48) ^ v2;
        v0 = v0 << 32 | v0 >> 32;
        v2 += v1, v0 += v3;
        v1 = (v1 << 17 | v1 >> 47) ^ v2, v3 = (v3 << 21 | v3 >> 43) ^ v0;
        v2 = v2 << 32 | v2 >> 32;
    }
    out[i] = v0 ^ v1 ^ v2 ^ v3;
}

// An image, turned: each pixel is mixed of four, at coordinates in units of 1 / 256.
extern "C" __global__ void rotate_image(int width, int height, int cosine, int sine,
                                        const unsigned char *in, unsigned char *out) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int dx = x - width / 2, dy = y - height / 2;
    int u = dx * cosine - dy * sine + width * 128, v = dx * sine + dy * cosine + height * 128;
    int i = u >> 8, j = v >> 8, fu = u & 255, fv = v & 255, value = 0;
    if (i >= 0 && i < width - 1 && j >= 0 && j < height - 1) {
        const unsigned char *p = in + j * width + i;
        value = ((p[0] * (256 - fu) + p[1] * fu) * (256 - fv) +
                 (p[width] * (256 - fu) + p[width + 1] * fu) * fv) >> 16;
    }
    out[y * width + x] = value;
}

// Squared distances of each query's four nearest points, which stay in registers.
extern "C" __global__ void nearest4(int n, const float2 *point, const float2 *query, float4 *out) {
    __shared__ float2 tile[128];
    float2 q = query[INDEX];
    float best[4] = {1e30f, 1e30f, 1e30f, 1e30f};
    for (int from = 0; from < n; from += 128) {
        __syncthreads();
        tile[threadIdx.x] = point[from + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 128; k++) {
            float x = tile[k].x - q.x, y = tile[k].y - q.y, d = x * x + y * y;
            if (d < best[3]) {
                best[3] = d;
                for (int m = 3; m > 0; m--)
                    if (best[m] < best[m - 1]) {
                        float swap = best[m];
                        best[m] = best[m - 1];
                        best[m - 1] = swap;
                    }
            }
        }
    }
    out[INDEX] = make_float4(best[0], best[1], best[2], best[3]);
}

// The least label of each connected region of a tile of 32 x 32 pixels; until nothing changes.
extern "C" __global__ void label_tiles(const unsigned char *pixel, int *label) {
    __shared__ int tile[34][34];
    int x = threadIdx.x + 1, y = threadIdx.y + 1, t = threadIdx.y * 32 + threadIdx.x;
    int at = blockIdx.x * 1024 + t, changed = 1;
    for (int i = t; i < 34 * 34; i += 1024)
        tile[i / 34][i % 34] = 1 << 30;
    __syncthreads();
    bool inside = pixel[at];
    int mine = inside ? t : 1 << 30;
    tile[y][x] = mine;
    while (__syncthreads_or(changed)) {
        int least = min(min(tile[y - 1][x], tile[y + 1][x]), min(tile[y][x - 1], tile[y][x + 1]));
        changed = inside && least < mine;
        __syncthreads();
        if (changed)
            tile[y][x] = mine = least;
    }
    label[at] = inside ? mine : -1;
}

// The nearest sphere that a ray along z hits.
extern "C" __global__ void ray_spheres(int count, int width, const float4 *sphere, int *hit) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    int nearest = -1;
    float near = 1e30f, px = x * (1.0f / 512), py = y * (1.0f / 512);
    for (int k = 0; k < count; k++) {
        float4 s = __ldg(&sphere[k]);
        float dx = px - s.x, dy = py - s.y, rest = s.w * s.w - dx * dx - dy * dy;
        if (rest > 0 && s.z - sqrtf(rest) < near) {
            near = s.z - sqrtf(rest);
            nearest = k;
        }
    }
    hit[y * width + x] = nearest;
}

// The median of 3 x 3 pixels, by minima and maxima in registers; four rows a thread.
__device__ __forceinline__ void sort2(float &a, float &b) {
    float low = fminf(a, b);
    b = fmaxf(a, b);
    a = low;
}
extern "C" __global__ void median9(int width, int height, const float *in, float *out) {
    int x = INDEX + 1;
    if (x >= width - 1)
        return;
    for (int y = blockIdx.y * 4 + 1; y < min(blockIdx.y * 4 + 5, height - 1); y++) {
        float v[9];
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 3; i++)
                v[3 * j + i] = in[(y + j - 1) * width + x + i - 1];
#pragma unroll
        for (int last = 8; last >= 4; last--)
#pragma unroll
            for (int k = 0; k < last; k++)
                sort2(v[k], v[k + 1]);
        out[y * width + x] = v[4];
    }
}

// A matrix of bytes times a vector, a warp each row, by products of four bytes.
extern "C" __global__ void gemv_int8(int words, const int *matrix, const int *x, int *y) {
    int row = INDEX / 32, lane = threadIdx.x % 32, sum = 0;
    const int4 *a = (const int4 *)(matrix + (size_t)row * words);
    for (int i = lane; i < words / 4; i += 32) {
        int4 p = a[i], q = ((const int4 *)x)[i];
        sum = __dp4a(p.x, q.x, sum);
        sum = __dp4a(p.y, q.y, sum);
        sum = __dp4a(p.z, q.z, sum);
        sum = __dp4a(p.w, q.w, sum);
    }
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0)
        y[row] = sum;
}
