// Twenty more kernels as users write them. Their times were predicted before any was measured.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void triad(int n, float s, const float *x, const float *y, float *z) {
    int i = INDEX;
    if (i < n)
        z[i] = x[i] + s * y[i];
}

// A block copies one row of a table.
extern "C" __global__ void embed(int width, const int *row, const float *table, float *out) {
    table += (size_t)row[blockIdx.x] * width;
    out += (size_t)blockIdx.x * width;
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[i] = table[i];
}

extern "C" __global__ void binary_search(int n, const int *sorted, const int *key, int *at) {
    int low = 0, high = n, want = key[INDEX];
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < want)
            low = middle + 1;
        else
            high = middle;
    }
    at[INDEX] = low;
}

extern "C" __global__ void jacobi3d(int n, const float *x, float *y) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
    if (i < 1 || j < 1 || k < 1 || i >= n - 1 || j >= n - 1 || k >= n - 1)
        return;
    int at = (k * n + j) * n + i;
    y[at] = (x[at - 1] + x[at + 1] + x[at - n] + x[at + n] + x[at - n * n] + x[at + n * n]) / 6;
}

extern "C" __global__ void life(int width, int height, const unsigned char *x, unsigned char *y) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y, alive = 0;
    if (i >= width || j >= height)
        return;
    for (int v = -1; v <= 1; v++)
        for (int u = -1; u <= 1; u++)
            if (u || v)
                alive += x[(j + v + height) % height * width + (i + u + width) % width];
    y[j * width + i] = alive == 3 || (alive == 2 && x[j * width + i]);
}

// 33 weights; each block holds its elements and 16 more at both ends.
extern "C" __global__ void convolve(int n, const float *x, const float *weight, float *y) {
    __shared__ float part[256 + 32];
    int i = INDEX, t = threadIdx.x;
    part[t + 16] = x[i];
    if (t < 16) {
        part[t] = i >= 16 ? x[i - 16] : 0;
        part[t + 272] = i + 256 < n ? x[i + 256] : 0;
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 33; k++)
        sum += weight[k] * part[t + k];
    y[i] = sum;
}

extern "C" __global__ void scan_warps(const int *x, int *y) {
    __shared__ int sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, v = x[INDEX];
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, v, d);
        v += lane >= d ? other : 0;
    }
    if (lane == 31)
        sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int s = sums[lane];
        for (int d = 1; d < 32; d *= 2) {
            int other = __shfl_up_sync(~0u, s, d);
            s += lane >= d ? other : 0;
        }
        sums[lane] = s;
    }
    __syncthreads();
    y[INDEX] = v + (warp ? sums[warp - 1] : 0);
}

// Sorts each block's 256 elements by counting the smaller ones.
extern "C" __global__ void rank_sort(const float *x, float *y) {
    __shared__ float part[256];
    int t = threadIdx.x, rank = 0;
    float v = x[INDEX];
    part[t] = v;
    __syncthreads();
    for (int k = 0; k < 256; k++)
        rank += part[k] < v || (part[k] == v && k < t);
    y[blockIdx.x * 256 + rank] = v;
}

extern "C" __global__ void gemm_double(int n, const double *a, const double *b, double *c) {
    __shared__ double left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    double sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[y][x] = a[row * n + k + x];
        right[y][x] = b[(k + y) * n + column];
        __syncthreads();
        for (int m = 0; m < 16; m++)
            sum += left[y][m] * right[m][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// A warp multiplies one row.
extern "C" __global__ void gemv(int n, const float *a, const float *x, float *y) {
    int row = INDEX / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int k = lane; k < n; k += 32)
        sum += a[(size_t)row * n + k] * x[k];
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0)
        y[row] = sum;
}

extern "C" __global__ void nbody_direct(int n, const float4 *body, float4 *force) {
    int i = INDEX;
    float4 me = body[i], sum = make_float4(0, 0, 0, 0);
    for (int j = 0; j < n; j++) {
        float4 other = body[j];
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
        float scale = other.w * inverse * inverse * inverse;
        sum.x += dx * scale;
        sum.y += dy * scale;
        sum.z += dz * scale;
    }
    force[i] = sum;
}

extern "C" __global__ void julia(int width, int height, int most, unsigned short *steps) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y, count = 0;
    float x = 3.0f * i / width - 1.5f, y = 2.0f * j / height - 1.0f;
    for (; count < most; count++) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4)
            break;
        y = 2 * x * y + 0.156f;
        x = xx - yy - 0.8f;
    }
    steps[j * width + i] = count;
}

static __device__ float normal(float d) { return 0.5f * erfcf(-0.70710678f * d); }

extern "C" __global__ void black_scholes(int n, const float *price, const float *strike,
                                         const float *years, float *call) {
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) {
        float s = price[i], k = strike[i], t = years[i], root = 0.3f * sqrtf(t);
        float d = (logf(s / k) + (0.02f + 0.045f) * t) / root;
        call[i] = s * normal(d) - k * expf(-0.02f * t) * normal(d - root);
    }
}

extern "C" __global__ void sigmoid(int n, const double *x, double *y) {
    int i = INDEX;
    if (i < n)
        y[i] = 1 / (1 + exp(-x[i]));
}

// One warp follows 32 lists.
extern "C" __global__ void walk(int steps, const int *next, int *end) {
    int at = threadIdx.x * 1024;
    for (int k = 0; k < steps; k++)
        at = next[at];
    end[threadIdx.x] = at;
}

// One block adds all.
extern "C" __global__ void block_sum(int n, const float *x, float *sum) {
    __shared__ float part[1024];
    int t = threadIdx.x;
    float mine = 0;
    for (int i = t; i < n; i += 1024)
        mine += x[i];
    part[t] = mine;
    for (int d = 512; d; d /= 2) {
        __syncthreads();
        if (t < d)
            part[t] += part[t + d];
    }
    if (t == 0)
        sum[0] = part[0];
}

// Each block writes its own 256 counts.
extern "C" __global__ void histogram(int n, const unsigned char *x, int *counts) {
    __shared__ int bin[256];
    bin[threadIdx.x] = 0;
    __syncthreads();
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bin[x[i]], 1);
    __syncthreads();
    counts[INDEX] = bin[threadIdx.x];
}

extern "C" __global__ void transpose_tile(int n, const double *x, double *y) {
    __shared__ double tile[16][17];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = x[row * n + column];
    __syncthreads();
    column = blockIdx.y * 16 + threadIdx.x, row = blockIdx.x * 16 + threadIdx.y;
    y[row * n + column] = tile[threadIdx.x][threadIdx.y];
}

// The maximum of all by one atomic operation a block.
extern "C" __global__ void max_all(int n, const int4 *x, int *most) {
    __shared__ int part[8];
    int v = -2147483647 - 1;
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) {
        int4 u = x[i];
        v = max(max(max(u.x, u.y), max(u.z, u.w)), v);
    }
    for (int d = 16; d; d /= 2)
        v = max(v, __shfl_xor_sync(~0u, v, d));
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; k++)
            v = max(v, part[k]);
        atomicMax(most, v);
    }
}

// A warp normalises a row of 1,024.
extern "C" __global__ void layer_norm(const float *x, const float *gain, float *y) {
    int row = INDEX / 32, lane = threadIdx.x % 32;
    float v[32], sum = 0, squares = 0;
    x += row * 1024;
    y += row * 1024;
    for (int k = 0; k < 32; k++) {
        v[k] = x[lane + 32 * k];
        sum += v[k];
    }
    for (int d = 16; d; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    float mean = sum / 1024;
    for (int k = 0; k < 32; k++)
        squares += (v[k] - mean) * (v[k] - mean);
    for (int d = 16; d; d /= 2)
        squares += __shfl_xor_sync(~0u, squares, d);
    float scale = rsqrtf(squares / 1024 + 1e-5f);
    for (int k = 0; k < 32; k++)
        y[lane + 32 * k] = (v[k] - mean) * scale * gain[lane + 32 * k];
}
