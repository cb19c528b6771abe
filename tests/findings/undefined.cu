// Undefined values: padding that is moved about is none, bytes that nobody wrote are, once something
// depends on them or they go back to the host; so are values from lanes that take no part.
#define KERNEL extern "C" __global__
struct Record {
    char tag;
    int count;
    double weight;
    float value;
};
struct alignas(16) Point {
    float x, y, z;
};
struct Pixel {
    short id;
    float depth;
    unsigned char mask;
};
KERNEL void records(Record *out, const Record *in) {
    __shared__ Record s[64];
    int t = threadIdx.x;
    s[t].tag = in[t].tag;
    s[t].count = in[t].count;
    s[t].weight = in[t].weight;
    s[t].value = in[t].value;
    __syncthreads();
    out[t] = s[63 - t];
}
KERNEL void points(Point *out) {
    __shared__ Point s[64];
    s[threadIdx.x].x = 1;
    s[threadIdx.x].y = 2;
    s[threadIdx.x].z = 3;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; // bug
}
KERNEL void points_by_words(int *out) {
    __shared__ Point s[64];
    s[threadIdx.x].x = 1;
    s[threadIdx.x].y = 2;
    s[threadIdx.x].z = 3;
    __syncthreads();
    for (int k = threadIdx.x; k < 64 * 4; k += 64)
        out[k] = ((const int *)s)[k];
}
KERNEL void pixels(Pixel *out) {
    __shared__ Pixel s[64];
    s[threadIdx.x].id = 1;
    s[threadIdx.x].depth = 2;
    s[threadIdx.x].mask = 3;
    __syncthreads();
    Pixel p = s[threadIdx.x ^ 1];
    out[threadIdx.x] = p;
}
KERNEL void overwritten(volatile float *out) {
    __shared__ float s[64];
    out[threadIdx.x] = s[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = 1;
}
KERNEL void no_y(Point *out) {
    __shared__ Point s[64];
    s[threadIdx.x].x = 1;
    s[threadIdx.x].z = 3;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1]; // bug
}
KERNEL void edge(float *out, const float *x, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n)
        s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x]; // bug
}
KERNEL void edge_sum(float *out, const float *x, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n)
        s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x] + 1; // bug
}
KERNEL void copy(float *out, const float *x) { out[threadIdx.x] = x[threadIdx.x]; }

KERNEL void partial(int *out, int n) {
    int t = threadIdx.x, v = t + 1;
    if (t < n) {
        for (int k = 16; k; k >>= 1)
            v += __shfl_down_sync(~0u, v, k); // bug
        if (t == 0)
            *out = v;
    }
}
KERNEL void exited(int *out, int n) {
    int t = threadIdx.x, v = t + 1;
    if (t >= n)
        return;
    for (int k = 16; k; k >>= 1)
        v += __shfl_xor_sync(~0u, v, k); // bug
    out[t] = v;
}
KERNEL void broadcast_of_an_exited_lane(int *out, int n) {
    int t = threadIdx.x;
    if (t >= n)
        return;
    out[t] = __shfl_sync(~0u, t, 31); // bug
}
KERNEL void guarded(int *out, int n) {
    int t = threadIdx.x, v = t + 1;
    if (t >= n)
        return;
    unsigned here = __activemask();
    for (int k = 16; k; k >>= 1) {
        int other = __shfl_down_sync(here, v, k);
        if (t + k < n)
            v += other;
    }
    if (t == 0)
        *out = v;
}
KERNEL void scan(int *out) {
    int t = threadIdx.x, v = 1;
    for (int k = 1; k < 32; k *= 2) {
        int other = __shfl_up_sync(~0u, v, k);
        if ((t & 31) >= k)
            v += other;
    }
    out[t] = v;
}
KERNEL void half_warp(int *out) {
    int t = threadIdx.x, v = t;
    if (t < 16) {
        for (int k = 8; k; k >>= 1)
            v += __shfl_down_sync(0xffff, v, k, 16);
        out[t] = v;
    }
}
KERNEL void block_sum(float *out, const float *x, int n) {
    __shared__ float s[32];
    int t = threadIdx.x, warps = blockDim.x / 32;
    float v = t < n ? x[t] : 0;
    for (int k = 16; k; k >>= 1)
        v += __shfl_down_sync(~0u, v, k);
    if (t % 32 == 0)
        s[t / 32] = v;
    __syncthreads();
    if (t < warps) {
        v = s[t];
        for (int k = warps / 2; k; k >>= 1)
            v += __shfl_down_sync((1u << warps) - 1, v, k);
        if (t == 0)
            *out = v;
    }
}
