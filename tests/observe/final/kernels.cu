// Twelve kernels as users write them, predicted after the model's last change and then measured.
// nvcc -ptx -arch=compute_75 -o kernels.ptx kernels.cu

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

struct particle {
    float x, y, z, charge, mass;
};

// An array of structures becomes five arrays.
extern "C" __global__ void structures(int n, const particle *in, float *out) {
    int i = INDEX;
    if (i >= n)
        return;
    particle p = in[i];
    out[i] = p.x;
    out[n + i] = p.y;
    out[2 * n + i] = p.z;
    out[3 * n + i] = p.charge;
    out[4 * n + i] = p.mass;
}

// The cosine transform of blocks of 8 x 8; a thread block has four of them.
extern "C" __global__ void dct(int width, const float *basis, const float *in, float *out) {
    __shared__ float c[8][8], part[4][8][8];
    int u = threadIdx.x, v = threadIdx.y, b = threadIdx.z;
    int at = (blockIdx.y * 8 + v) * width + (blockIdx.x * 4 + b) * 8 + u;
    if (b == 0)
        c[v][u] = basis[v * 8 + u];
    float (*p)[8] = part[b];
    p[v][u] = in[at];
    __syncthreads();
    float s = 0;
    for (int k = 0; k < 8; k++)
        s += p[v][k] * c[u][k];
    __syncthreads();
    p[v][u] = s;
    __syncthreads();
    s = 0;
    for (int k = 0; k < 8; k++)
        s += c[v][k] * p[k][u];
    out[at] = s;
}

// Smooths an image but for its edges: 5 x 5, weights by distance and by difference.
extern "C" __global__ void bilateral(int width, int height, float sharp, const float *in,
                                     float *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float c = in[y * width + x], sum = 0, weights = 0;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++) {
            int u = min(max(x + i, 0), width - 1), v = min(max(y + j, 0), height - 1);
            float o = in[v * width + u], d = o - c;
            float w = __expf(-0.125f * (i * i + j * j) - sharp * d * d);
            sum += w * o;
            weights += w;
        }
    out[y * width + x] = sum / weights;
}

// Keeps positive numbers: a block's begin at first[block].
extern "C" __global__ void compact(const int *in, const int *first, int *out) {
    __shared__ int before[32];
    int v = in[INDEX], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned kept = __ballot_sync(~0u, v > 0);
    if (lane == 0)
        before[warp] = __popc(kept);
    __syncthreads();
    int at = first[blockIdx.x];
    for (int w = 0; w < warp; w++)
        at += before[w];
    if (v > 0)
        out[at + __popc(kept & ((1u << lane) - 1))] = v;
}

// A sparse matrix of equal rows, stored by columns (ELLPACK).
extern "C" __global__ void ellpack(int rows, int width, const int *column, const float *value,
                                   const float *x, float *y) {
    int row = INDEX;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = 0; k < width; k++)
        sum += value[k * rows + row] * x[column[k * rows + row]];
    y[row] = sum;
}

// Shortest paths through one vertex more: the min-plus product of tiles.
extern "C" __global__ void min_plus(int n, const float *a, const float *b, float *c) {
    __shared__ float left[32][32], right[32][32];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 32 + tx, y = blockIdx.y * 32 + ty;
    float least[4] = {1e30f, 1e30f, 1e30f, 1e30f};
    for (int k = 0; k < n; k += 32) {
        for (int j = 0; j < 32; j += 8) {
            left[ty + j][tx] = a[(y + j) * n + k + tx];
            right[ty + j][tx] = b[(k + ty + j) * n + x];
        }
        __syncthreads();
        for (int m = 0; m < 32; m++)
            for (int j = 0; j < 4; j++)
                least[j] = fminf(least[j], left[ty + 8 * j][m] + right[m][tx]);
        __syncthreads();
    }
    for (int j = 0; j < 4; j++)
        c[(y + 8 * j) * n + x] = least[j];
}

// A step of a lattice gas of nine directions, each a plane.
extern "C" __global__ void lattice(int width, int height, float relax, const float *in,
                                   float *out) {
    const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const float w[9] = {4 / 9.f,  1 / 9.f,  1 / 9.f,  1 / 9.f, 1 / 9.f,
                        1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, plane = width * height;
    float f[9], rho = 0, ux = 0, uy = 0;
    for (int k = 0; k < 9; k++) {
        int u = (x - ex[k] + width) % width, v = (y - ey[k] + height) % height;
        f[k] = in[k * plane + v * width + u];
        rho += f[k];
        ux += ex[k] * f[k];
        uy += ey[k] * f[k];
    }
    ux /= rho;
    uy /= rho;
    float square = 1.5f * (ux * ux + uy * uy);
    for (int k = 0; k < 9; k++) {
        float e = 3 * (ex[k] * ux + ey[k] * uy);
        float equal = w[k] * rho * (1 + e + 0.5f * e * e - square);
        out[k * plane + y * width + x] = f[k] + relax * (equal - f[k]);
    }
}

// A thread factorises a matrix of 6 x 6, stored interleaved.
extern "C" __global__ void factorise(int n, const double *in, double *out) {
    double a[6][6];
    int s = INDEX;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            a[i][j] = in[(i * 6 + j) * n + s];
    for (int k = 0; k < 6; k++)
        for (int i = k + 1; i < 6; i++) {
            a[i][k] /= a[k][k];
            for (int j = k + 1; j < 6; j++)
                a[i][j] -= a[i][k] * a[k][j];
        }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            out[(i * 6 + j) * n + s] = a[i][j];
}

// Adds to random counters in global memory.
extern "C" __global__ void scatter_add(const int *bin, const int *amount, int *counter) {
    atomicAdd(&counter[bin[INDEX]], amount[INDEX]);
}

// A query against all keys, with a running softmax; a block has 64 queries of 16 numbers.
extern "C" __global__ void attention(int n, const float4 *q, const float4 *k, const float4 *v,
                                     float4 *out) {
    __shared__ float4 keys[64][4], values[64][4];
    float4 mine[4], sum[4] = {};
    int row = INDEX, t = threadIdx.x;
    for (int i = 0; i < 4; i++)
        mine[i] = q[row * 4 + i];
    float most = -1e30f, weights = 0;
    for (int first = 0; first < n; first += 64) {
        for (int i = 0; i < 4; i++) {
            keys[0][i * 64 + t] = k[first * 4 + i * 64 + t];
            values[0][i * 64 + t] = v[first * 4 + i * 64 + t];
        }
        __syncthreads();
        for (int j = 0; j < 64; j++) {
            float s = 0;
            for (int i = 0; i < 4; i++) {
                float4 a = mine[i], b = keys[j][i];
                s += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
            }
            float larger = fmaxf(most, s), scale = __expf(most - larger), w = __expf(s - larger);
            most = larger;
            weights = weights * scale + w;
            for (int i = 0; i < 4; i++) {
                float4 b = values[j][i];
                sum[i].x = sum[i].x * scale + w * b.x;
                sum[i].y = sum[i].y * scale + w * b.y;
                sum[i].z = sum[i].z * scale + w * b.z;
                sum[i].w = sum[i].w * scale + w * b.w;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        out[row * 4 + i] = make_float4(sum[i].x / weights, sum[i].y / weights, sum[i].z / weights,
                                       sum[i].w / weights);
}

// Looks keys up in a table with linear probing.
extern "C" __global__ void probe(int mask, const uint2 *table, const unsigned *key,
                                 unsigned *value) {
    unsigned k = key[INDEX], at = k * 2654435761u >> 8 & mask, found = ~0u;
    for (;;) {
        uint2 e = table[at];
        if (e.x == k)
            found = e.y;
        if (e.x == k || e.x == 0)
            break;
        at = (at + 1) & mask;
    }
    value[INDEX] = found;
}

// Letters of a text, counted in shared memory by the whole block.
extern "C" __global__ void letters(int n, const unsigned char *text, unsigned *count) {
    __shared__ unsigned bin[256];
    bin[threadIdx.x] = 0;
    __syncthreads();
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bin[text[i]], 1);
    __syncthreads();
    atomicAdd(&count[threadIdx.x], bin[threadIdx.x]);
}
