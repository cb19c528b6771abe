// Twenty kernels as users write them, on which no constant of the predictions was fitted.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void axpy(int n, float a, const float4 *x, float4 *y) {
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) {
        float4 u = x[i], v = y[i];
        v.x += a * u.x;
        v.y += a * u.y;
        v.z += a * u.z;
        v.w += a * u.w;
        y[i] = v;
    }
}

extern "C" __global__ void gather(int n, const int *at, const float *x, float *y) {
    int i = INDEX;
    if (i < n)
        y[i] = x[at[i]];
}

extern "C" __global__ void scatter(int n, const int *at, const float *x, float *y) {
    int i = INDEX;
    if (i < n)
        y[at[i]] = x[i];
}

extern "C" __global__ void stencil2d(int width, int height, const float *x, float *y) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1)
        return;
    int at = j * width + i;
    y[at] = 0.5f * x[at] + 0.125f * (x[at - 1] + x[at + 1] + x[at - width] + x[at + width]);
}

extern "C" __global__ void stencil3d(int n, const float *x, float *y) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y, plane = n * n;
    if (i < 1 || j < 1 || i >= n - 1 || j >= n - 1)
        return;
    int at = j * n + i;
    float below = x[at], here = x[at + plane];
    for (int k = 1; k < n - 1; k++) {
        at += plane;
        float above = x[at + plane];
        y[at] = 0.4f * here +
                0.1f * (below + above + x[at - 1] + x[at + 1] + x[at - n] + x[at + n]);
        below = here;
        here = above;
    }
}

extern "C" __global__ void blur(int width, int height, const unsigned char *x, unsigned char *y) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y, sum = 0;
    if (i < 3 || j < 3 || i >= width - 3 || j >= height - 3)
        return;
    for (int v = -3; v <= 3; v++)
        for (int u = -3; u <= 3; u++)
            sum += x[(j + v) * width + i + u];
    y[j * width + i] = sum / 49;
}

extern "C" __global__ void scan(const int *x, int *y) {
    __shared__ int part[2][256];
    int t = threadIdx.x, now = 0;
    part[0][t] = x[INDEX];
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        part[1 - now][t] = part[now][t] + (t >= d ? part[now][t - d] : 0);
        now = 1 - now;
        __syncthreads();
    }
    y[INDEX] = part[now][t];
}

extern "C" __global__ void bitonic(int *x) {
    __shared__ int part[1024];
    int t = threadIdx.x;
    x += blockIdx.x * 1024;
    part[t] = x[t];
    part[t + 512] = x[t + 512];
    for (int size = 2; size <= 1024; size *= 2)
        for (int d = size / 2; d > 0; d /= 2) {
            __syncthreads();
            int low = 2 * t - (t & (d - 1)), high = low + d;
            bool up = (low & size) == 0;
            int a = part[low], b = part[high];
            if ((a > b) == up) {
                part[low] = b;
                part[high] = a;
            }
        }
    __syncthreads();
    x[t] = part[t];
    x[t + 512] = part[t + 512];
}

extern "C" __global__ void matmul(int n, const float *a, const float *b, float *c) {
    int column = INDEX, row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// 64 x 64 elements a block, 4 x 4 a thread.
extern "C" __global__ void matmul_tiled(int n, const float *a, const float *b, float *c) {
    __shared__ float left[16][68], right[16][64];
    int t = threadIdx.x, x = t % 16, y = t / 16;
    float sum[4][4] = {};
    a += blockIdx.y * 64 * n;
    b += blockIdx.x * 64;
    for (int k = 0; k < n; k += 16) {
        for (int i = t; i < 1024; i += 256) {
            left[i % 16][i / 16] = a[i / 16 * n + k + i % 16];
            right[i / 64][i % 64] = b[(k + i / 64) * n + i % 64];
        }
        __syncthreads();
        for (int m = 0; m < 16; m++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += left[m][y * 4 + i] * right[m][x + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(blockIdx.y * 64 + y * 4 + i) * n + blockIdx.x * 64 + x + 16 * j] = sum[i][j];
}

extern "C" __global__ void nbody(int n, const float4 *body, float4 *force) {
    __shared__ float4 tile[256];
    int i = INDEX;
    float4 me = body[i], sum = make_float4(0, 0, 0, 0);
    for (int from = 0; from < n; from += 256) {
        tile[threadIdx.x] = body[from + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float scale = tile[j].w * inverse * inverse * inverse;
            sum.x += dx * scale;
            sum.y += dy * scale;
            sum.z += dz * scale;
        }
        __syncthreads();
    }
    force[i] = sum;
}

extern "C" __global__ void mandelbrot(int width, int height, int most, int *steps) {
    int i = INDEX, j = blockIdx.y * blockDim.y + threadIdx.y;
    float cx = -2.0f + 3.0f * i / width, cy = -1.0f + 2.0f * j / height, x = 0, y = 0;
    int count = 0;
    while (count < most && x * x + y * y < 4.0f) {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        count++;
    }
    steps[j * width + i] = count;
}

extern "C" __global__ void special(int n, const float *x, float *y) {
    int i = INDEX;
    if (i < n) {
        float v = x[i];
        y[i] = expf(-v * v) + logf(1 + v) * sinf(v) + sqrtf(v) / (1 + v);
    }
}

extern "C" __global__ void polynomial(int n, const double *x, double *y) {
    int i = INDEX;
    if (i >= n)
        return;
    double v = x[i], sum = 1;
    for (int k = 0; k < 64; k++)
        sum = sum * v + 0.5;
    y[i] = sum;
}

extern "C" __global__ void chase(int steps, const int *next, int *end) {
    int at = INDEX;
    for (int k = 0; k < steps; k++)
        at = next[at];
    end[INDEX] = at;
}

// A few threads add many elements.
extern "C" __global__ void tiny(int n, const float *x, float *y) {
    float sum = 0;
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    y[INDEX] = sum;
}

extern "C" __global__ void spmv(int rows, const int *begin, const int *column, const float *value,
                                const float *x, float *y) {
    int row = INDEX;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = begin[row]; k < begin[row + 1]; k++)
        sum += value[k] * x[column[k]];
    y[row] = sum;
}

extern "C" __global__ void spmv_warps(int rows, const int *begin, const int *column,
                                      const float *value, const float *x, float *y) {
    int row = INDEX / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = begin[row] + lane; k < begin[row + 1]; k += 32)
        sum += value[k] * x[column[k]];
    for (int d = 16; d; d /= 2)
        sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0)
        y[row] = sum;
}

extern "C" __global__ void softmax(int width, const float *x, float *y) {
    __shared__ float part[256];
    int t = threadIdx.x;
    float most = -1e30f, sum = 0;
    x += blockIdx.x * width;
    y += blockIdx.x * width;
    for (int i = t; i < width; i += 256)
        most = fmaxf(most, x[i]);
    part[t] = most;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d)
            part[t] = fmaxf(part[t], part[t + d]);
    }
    __syncthreads();
    most = part[0];
    __syncthreads();
    for (int i = t; i < width; i += 256)
        sum += expf(x[i] - most);
    part[t] = sum;
    for (int d = 128; d; d /= 2) {
        __syncthreads();
        if (t < d)
            part[t] += part[t + d];
    }
    __syncthreads();
    for (int i = t; i < width; i += 256)
        y[i] = expf(x[i] - most) / part[0];
}

extern "C" __global__ void xorshift(int rounds, unsigned *state) {
    unsigned x = state[INDEX];
    for (int k = 0; k < rounds; k++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    state[INDEX] = x;
}
