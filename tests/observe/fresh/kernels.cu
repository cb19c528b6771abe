// Twelve kernels as users write them, predicted before an H200 measured them.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// Sums of squares of windows that slide over a signal, by differences of running sums in registers.
extern "C" __global__ void moving_energy(int n, int window, const float *x, float *y) {
    int first = INDEX * 16;
    if (first + 16 + window > n)
        return;
    float sum = 0;
    for (int k = 0; k < window; k++)
        sum += x[first + k] * x[first + k];
    for (int k = 0; k < 16; k++) {
        y[first + k] = sum;
        float in = x[first + k + window], out = x[first + k];
        sum += in * in - out * out;
    }
}

// An integral image's rows: sums of each row's beginnings, a warp each row.
extern "C" __global__ void row_sums(int width, const float *in, float *out) {
    int row = INDEX / 32, lane = threadIdx.x % 32;
    float carried = 0;
    for (int x = lane; x < width; x += 32) {
        float v = in[row * width + x];
        for (int d = 1; d < 32; d *= 2) {
            float other = __shfl_up_sync(~0u, v, d);
            if (lane >= d)
                v += other;
        }
        v += carried;
        out[row * width + x] = v;
        carried = __shfl_sync(~0u, v, 31);
    }
}

// Cholesky's decomposition of 24 x 24 matrices in shared memory, a warp each.
extern "C" __global__ void cholesky24(const float *in, float *out) {
    __shared__ float tile[4][24][25];
    int lane = threadIdx.x % 32, one = threadIdx.x / 32;
    float(*a)[25] = tile[one];
    const float *from = in + (blockIdx.x * 4 + one) * 576;
    for (int i = lane; i < 576; i += 32)
        a[i / 24][i % 24] = from[i];
    __syncwarp();
    for (int k = 0; k < 24; k++) {
        float pivot = sqrtf(a[k][k]);
        __syncwarp();
        if (lane >= k && lane < 24)
            a[lane][k] = lane == k ? pivot : a[lane][k] / pivot;
        __syncwarp();
        if (lane > k && lane < 24)
            for (int j = k + 1; j <= lane; j++)
                a[lane][j] -= a[lane][k] * a[j][k];
        __syncwarp();
    }
    float *to = out + (blockIdx.x * 4 + one) * 576;
    for (int i = lane; i < 576; i += 32)
        to[i] = i % 24 <= i / 24 ? a[i / 24][i % 24] : 0;
}

// A tridiagonal matrix' eigenvalues below a bound, counted by Sturm's sequence, a bound each
// thread.
extern "C" __global__ void sturm(int n, const float *diagonal, const float *beside,
                                 const float *bound, int *count) {
    float at = bound[INDEX], q = 1;
    int found = 0;
    for (int i = 0; i < n; i++) {
        q = diagonal[i] - at - (i ? beside[i] * beside[i] / q : 0);
        found += q < 0;
    }
    count[INDEX] = found;
}

// The logistic map in double precision, each thread its own parameter.
extern "C" __global__ void logistic(int steps, double first, double step, double *out) {
    double r = first + step * INDEX, x = 0.5;
    for (int i = 0; i < steps; i++)
        x = r * x * (1 - x);
    out[INDEX] = x;
}

// A binary tree of 2^20 - 1 keys is searched from its root.
extern "C" __global__ void tree_find(int depth, const int *key, const int *wanted, int *place) {
    int node = 0, mine = wanted[INDEX];
    for (int d = 0; d < depth; d++)
        node = 2 * node + 1 + (key[node] < mine);
    place[INDEX] = node;
}

// Odd and even neighbours swap until a row of 256 is in order: a block each row.
extern "C" __global__ void odd_even(const float *in, float *out) {
    __shared__ float row[256];
    int t = threadIdx.x;
    row[t] = in[blockIdx.x * 256 + t];
    row[t + 128] = in[blockIdx.x * 256 + t + 128];
    for (int round = 0; round < 256; round++) {
        __syncthreads();
        int at = 2 * t + round % 2;
        if (at + 1 < 256 && row[at] > row[at + 1]) {
            float swap = row[at];
            row[at] = row[at + 1];
            row[at + 1] = swap;
        }
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = row[t];
    out[blockIdx.x * 256 + t + 128] = row[t + 128];
}

// A pixel's colour from hue, saturation and value; four bytes a pixel.
extern "C" __global__ void hsv_rgb(int n, const float4 *hsv, uchar4 *rgb) {
    int i = INDEX;
    if (i >= n)
        return;
    float4 p = hsv[i];
    float h = p.x * 6, c = p.z * p.y, m = p.z - c, x = c * (1 - fabsf(fmodf(h, 2) - 1));
    float r = 0, g = 0, b = 0;
    switch ((int)h) {
    case 0:
        r = c;
        g = x;
        break;
    case 1:
        r = x;
        g = c;
        break;
    case 2:
        g = c;
        b = x;
        break;
    case 3:
        g = x;
        b = c;
        break;
    case 4:
        r = x;
        b = c;
        break;
    default:
        r = c;
        b = x;
    }
    rgb[i] = make_uchar4((unsigned char)(255 * (r + m)), (unsigned char)(255 * (g + m)),
                         (unsigned char)(255 * (b + m)), 255);
}

// Waves on a grid in double precision: two fields, 5 points.
extern "C" __global__ void wave2d(int width, int height, double c, const double *before,
                                  const double *now, double *next) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, i = y * width + x;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1)
        return;
    next[i] = 2 * now[i] - before[i] +
              c * (now[i - 1] + now[i + 1] + now[i - width] + now[i + width] - 4 * now[i]);
}

// The least distance of two particles in a periodic box: pairs by shared memory, many registers.
extern "C" __global__ void closest(int n, const float4 *p, float *least) {
    __shared__ float4 tile[128];
    float4 me[4];
    float best[4];
    for (int k = 0; k < 4; k++) {
        me[k] = p[blockIdx.x * 512 + k * 128 + threadIdx.x];
        best[k] = 1e30f;
    }
    for (int from = 0; from < n; from += 128) {
        __syncthreads();
        tile[threadIdx.x] = p[from + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; j++) {
            float4 q = tile[j];
            for (int k = 0; k < 4; k++) {
                float x = fabsf(q.x - me[k].x), y = fabsf(q.y - me[k].y), z = fabsf(q.z - me[k].z);
                x = fminf(x, 1 - x), y = fminf(y, 1 - y), z = fminf(z, 1 - z);
                float d = x * x + y * y + z * z;
                best[k] = d > 0 ? fminf(best[k], d) : best[k];
            }
        }
    }
    for (int k = 0; k < 4; k++)
        least[blockIdx.x * 512 + k * 128 + threadIdx.x] = best[k];
}

// Runs of equal bytes: how far each position is from its run's end, at most 32, a byte each.
extern "C" __global__ void run_lengths(int n, const unsigned char *text, unsigned char *length) {
    int i = INDEX, k = 1;
    if (i >= n)
        return;
    unsigned char mine = text[i];
    while (k < 32 && i + k < n && text[i + k] == mine)
        k++;
    length[i] = k;
}

// A diagonal, banded matrix of 9 bands times a vector, the bands one after the other in memory.
extern "C" __global__ void banded9(int n, const float *band, const float *x, float *y) {
    int i = INDEX;
    if (i >= n)
        return;
    float sum = 0;
    for (int b = 0; b < 9; b++) {
        int column = i + (b - 4) * 64;
        if (column >= 0 && column < n)
            sum += band[b * n + i] * x[column];
    }
    y[i] = sum;
}
