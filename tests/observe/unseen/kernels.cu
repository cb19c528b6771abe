// Twenty kernels as users write them. Their times were predicted before any was measured.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// Tridiagonal systems, interleaved: a thread solves one (Thomas's algorithm).
extern "C" __global__ void thomas(int systems, int rows, const float *low, const float *mid,
                                  const float *high, const float *right, float *work, float *x) {
    int s = INDEX;
    if (s >= systems)
        return;
    float c = high[s] / mid[s], d = right[s] / mid[s];
    work[s] = c;
    x[s] = d;
    for (int i = 1; i < rows; i++) {
        int at = i * systems + s;
        float a = low[at], m = 1 / (mid[at] - a * c);
        c = high[at] * m;
        d = (right[at] - a * d) * m;
        work[at] = c;
        x[at] = d;
    }
    for (int i = rows - 2; i >= 0; i--) {
        int at = i * systems + s;
        d = x[at] - work[at] * d;
        x[at] = d;
    }
}

// One stage of a radix-2 FFT.
extern "C" __global__ void fft_stage(int half, const float2 *in, float2 *out) {
    int i = INDEX, k = i % half, at = 2 * (i - k) + k;
    float s, c;
    sincospif(-(float)k / half, &s, &c);
    float2 a = in[at], b = in[at + half];
    float2 t = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
    out[at] = make_float2(a.x + t.x, a.y + t.y);
    out[at + half] = make_float2(a.x - t.x, a.y - t.y);
}

// Points of a quarter circle by a hash; a warp adds its hits by shuffles.
extern "C" __global__ void monte_carlo(int each, int *hits) {
    unsigned state = INDEX * 747796405u + 2891336453u;
    int inside = 0;
    for (int i = 0; i < each; i++) {
        state = state * 747796405u + 2891336453u;
        unsigned w = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
        w = (w >> 22) ^ w;
        float x = (w & 0xffff) / 65536.0f, y = (w >> 16) / 65536.0f;
        inside += x * x + y * y < 1;
    }
    for (int d = 16; d; d /= 2)
        inside += __shfl_down_sync(~0u, inside, d);
    if (threadIdx.x % 32 == 0)
        hits[INDEX / 32] = inside;
}

// Where a pattern begins, letter by letter.
extern "C" __global__ void string_search(int n, int length, const char *text, const char *pattern,
                                         unsigned char *found) {
    int i = INDEX;
    if (i > n - length)
        return;
    int k = 0;
    while (k < length && text[i + k] == pattern[k])
        k++;
    found[i] = k == length;
}

// A vertex that has no level yet looks for a neighbour in the frontier.
extern "C" __global__ void bfs_pull(int n, int depth, const int *first, const int *neighbour,
                                    const int *level, int *next) {
    int v = INDEX;
    if (v >= n)
        return;
    int mine = level[v];
    if (mine < 0)
        for (int e = first[v]; e < first[v + 1]; e++)
            if (level[neighbour[e]] == depth) {
                mine = depth + 1;
                break;
            }
    next[v] = mine;
}

extern "C" __global__ void dot(int n, const float *x, const float *y, double *sum) {
    __shared__ float part[8];
    float s = 0;
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        s += x[i] * y[i];
    for (int d = 16; d; d /= 2)
        s += __shfl_down_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0;
        for (int w = 0; w < blockDim.x / 32; w++)
            all += part[w];
        sum[blockIdx.x] = all;
    }
}

// Columns of the tile are permuted by XOR: no conflicts, no padding.
extern "C" __global__ void transpose_swizzle(int n, const float *in, float *out) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x ^ (threadIdx.y + j)] = in[(size_t)(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(size_t)(y + j) * n + x] = tile[threadIdx.x][threadIdx.x ^ (threadIdx.y + j)];
}

// A block per row: the maximum and the sum in one pass, by shared memory.
extern "C" __global__ void softmax_block(int width, const float *in, float *out) {
    __shared__ float most[256], sum[256];
    int t = threadIdx.x;
    in += (size_t)blockIdx.x * width;
    out += (size_t)blockIdx.x * width;
    float m = -INFINITY, s = 0;
    for (int i = t; i < width; i += blockDim.x) {
        float v = in[i], larger = fmaxf(m, v);
        s = s * __expf(m - larger) + __expf(v - larger);
        m = larger;
    }
    most[t] = m;
    sum[t] = s;
    for (int d = blockDim.x / 2; d; d /= 2) {
        __syncthreads();
        if (t < d) {
            float larger = fmaxf(most[t], most[t + d]);
            sum[t] = sum[t] * __expf(most[t] - larger) + sum[t + d] * __expf(most[t + d] - larger);
            most[t] = larger;
        }
    }
    __syncthreads();
    for (int i = t; i < width; i += blockDim.x)
        out[i] = __expf(in[i] - most[0]) / sum[0];
}

// A warp per row of 512, vectors of four.
extern "C" __global__ void rms_norm(const float4 *in, const float4 *gain, float4 *out) {
    int row = INDEX / 32, lane = threadIdx.x % 32;
    float4 v[4];
    float s = 0;
    for (int i = 0; i < 4; i++) {
        v[i] = in[row * 128 + i * 32 + lane];
        s += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
    }
    for (int d = 16; d; d /= 2)
        s += __shfl_xor_sync(~0u, s, d);
    float r = rsqrtf(s / 512 + 1e-5f);
    for (int i = 0; i < 4; i++) {
        float4 g = gain[i * 32 + lane];
        out[row * 128 + i * 32 + lane] =
            make_float4(v[i].x * r * g.x, v[i].y * r * g.y, v[i].z * r * g.z, v[i].w * r * g.w);
    }
}

// Each warp counts into its own bins; the block adds them, without atomics on global memory.
extern "C" __global__ void histogram_private(int n, const unsigned *words, unsigned *counts) {
    __shared__ unsigned bins[8][256];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x)
        bins[0][i] = 0;
    __syncthreads();
    unsigned *mine = bins[threadIdx.x / 32];
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) {
        unsigned w = words[i];
        atomicAdd(&mine[w & 255], 1);
        atomicAdd(&mine[w >> 8 & 255], 1);
        atomicAdd(&mine[w >> 16 & 255], 1);
        atomicAdd(&mine[w >> 24], 1);
    }
    __syncthreads();
    unsigned sum = 0;
    for (int w = 0; w < 8; w++)
        sum += bins[w][threadIdx.x];
    counts[blockIdx.x * 256 + threadIdx.x] = sum;
}

// The nearest of 32 centres of four coordinates.
extern "C" __global__ void kmeans(int n, const float4 *point, const float4 *centre,
                                  unsigned char *nearest) {
    __shared__ float4 c[32];
    if (threadIdx.x < 32)
        c[threadIdx.x] = centre[threadIdx.x];
    __syncthreads();
    int i = INDEX;
    if (i >= n)
        return;
    float4 p = point[i];
    float least = INFINITY;
    int best = 0;
    for (int k = 0; k < 32; k++) {
        float x = p.x - c[k].x, y = p.y - c[k].y, z = p.z - c[k].z, w = p.w - c[k].w;
        float d = x * x + y * y + z * z + w * w;
        if (d < least)
            least = d, best = k;
    }
    nearest[i] = best;
}

// Tiles of 64 x 64 by 256 threads, 4 x 4 results each.
extern "C" __global__ void sgemm_tile(int n, const float *a, const float *b, float *c) {
    __shared__ float as[16][64], bs[16][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    a += (size_t)blockIdx.y * 64 * n;
    b += blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = 0; i < 4; i++) {
            as[t % 16][t / 16 + 16 * i] = a[(t / 16 + 16 * i) * n + k + t % 16];
            bs[t / 64 + 4 * i][t % 64] = b[(size_t)(k + t / 64 + 4 * i) * n + t % 64];
        }
        __syncthreads();
        for (int j = 0; j < 16; j++)
            for (int y = 0; y < 4; y++)
                for (int x = 0; x < 4; x++)
                    sum[y][x] += as[j][ty * 4 + y] * bs[j][tx + 16 * x];
        __syncthreads();
    }
    c += (size_t)(blockIdx.y * 64 + ty * 4) * n + blockIdx.x * 64 + tx;
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
            c[(size_t)y * n + 16 * x] = sum[y][x];
}

// Five points, by a tile with its halo.
extern "C" __global__ void heat_tile(int width, int height, float k, const float *in, float *out) {
    __shared__ float tile[18][34];
    int x0 = blockIdx.x * 32, y0 = blockIdx.y * 16;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 18 * 34; i += 512) {
        int x = min(max(x0 + i % 34 - 1, 0), width - 1);
        int y = min(max(y0 + i / 34 - 1, 0), height - 1);
        tile[i / 34][i % 34] = in[y * width + x];
    }
    __syncthreads();
    int x = threadIdx.x + 1, y = threadIdx.y + 1;
    float c = tile[y][x];
    out[(y0 + threadIdx.y) * width + x0 + threadIdx.x] =
        c + k * (tile[y - 1][x] + tile[y + 1][x] + tile[y][x - 1] + tile[y][x + 1] - 4 * c);
}

// A star of radius 2, marching along z with the column in registers.
extern "C" __global__ void star3d(int nx, int ny, int nz, const float *in, float *out) {
    int x = blockIdx.x * 32 + threadIdx.x + 2, y = blockIdx.y * 8 + threadIdx.y + 2;
    if (x >= nx - 2 || y >= ny - 2)
        return;
    int plane = nx * ny, at = y * nx + x;
    float a = in[at], b = in[at + plane], c = in[at + 2 * plane], d = in[at + 3 * plane];
    for (int z = 2; z < nz - 2; z++) {
        int here = at + z * plane;
        float e = in[here + 2 * plane];
        float near = b + d + in[here - 1] + in[here + 1] + in[here - nx] + in[here + nx];
        float far = a + e + in[here - 2] + in[here + 2] + in[here - 2 * nx] + in[here + 2 * nx];
        out[here] = 0.5f * c + 0.07f * near + 0.01f * far;
        a = b, b = c, c = d, d = e;
    }
}

// Merges two sorted arrays: an element's place is its index and its rank in the other one.
extern "C" __global__ void merge_ranks(int n, const int *a, const int *b, int *out) {
    int i = INDEX;
    if (i >= 2 * n)
        return;
    int second = i >= n, v = second ? b[i - n] : a[i];
    const int *other = second ? a : b;
    int low = 0, high = n;
    while (low < high) {
        int mid = (low + high) >> 1, w = other[mid];
        if (w < v || (second && w == v))
            low = mid + 1;
        else
            high = mid;
    }
    out[(second ? i - n : i) + low] = v;
}

extern "C" __global__ void mandelbrot_double(int width, int height, int most, int *count) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    double cx = -2 + 3.0 * px / width, cy = -1 + 2.0 * py / height, x = 0, y = 0;
    int n = 0;
    while (n < most && x * x + y * y <= 4) {
        double t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        n++;
    }
    count[py * width + px] = n;
}

extern "C" __global__ void gamma_ratio(int n, const float *x, float *out) {
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        out[i] = powf(x[i], 1.7f) * erff(x[i]) - lgammaf(x[i] + 1);
}

// Every thread follows its own chain.
extern "C" __global__ void hops(int steps, const unsigned *next, unsigned *end) {
    unsigned at = INDEX * 61;
    for (int i = 0; i < steps; i++)
        at = next[at];
    end[INDEX] = at;
}

// Kepler's equation on few blocks.
extern "C" __global__ void newton(int steps, const float *mean, float *anomaly) {
    float m = mean[INDEX], e = m;
    for (int i = 0; i < steps; i++)
        e = e - (e - 0.3f * sinf(e) - m) / (1 - 0.3f * cosf(e));
    anomaly[INDEX] = e;
}

// Exclusive sums of 1,024 values by a tree in shared memory (Blelloch).
extern "C" __global__ void scan_blelloch(const int *in, int *out) {
    __shared__ int v[1024];
    int t = threadIdx.x, at = blockIdx.x * 1024, offset = 1;
    v[2 * t] = in[at + 2 * t];
    v[2 * t + 1] = in[at + 2 * t + 1];
    for (int d = 512; d > 0; d /= 2) {
        __syncthreads();
        if (t < d)
            v[offset * (2 * t + 2) - 1] += v[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        v[1023] = 0;
    for (int d = 1; d < 1024; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            int low = offset * (2 * t + 1) - 1, high = offset * (2 * t + 2) - 1, left = v[low];
            v[low] = v[high];
            v[high] += left;
        }
    }
    __syncthreads();
    out[at + 2 * t] = v[2 * t];
    out[at + 2 * t + 1] = v[2 * t + 1];
}
