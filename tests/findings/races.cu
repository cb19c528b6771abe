// Races that equal data hide, and equal stores that are no race. The comment `bug` marks the line
// that test_findings.py expects.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__
KERNEL void increment(int *c) {
    c[0] += 1; // bug
}
KERNEL void maximum(int *m, const int *v) {
    int i = threadIdx.x;
    if (v[i] >= m[0])
        m[0] = v[i]; // bug
}
KERNEL void shift(int *a) {
    int i = threadIdx.x;
    a[i] = a[i + 1]; // bug
}
KERNEL void histogram(int *bins, const int *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bins[x[i] & 15]++; // bug
}
KERNEL void last_one(int *out, const int *x) {
    out[0] = x[threadIdx.x]; // bug
}
KERNEL void neighbour(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = x[(i + 1) % n];
    x[i] = v * 2; // bug
}
KERNEL void no_barrier(int *y, const int *x) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    y[t] = s[255 - t] + s[(t + 1) % 256] // bug
           + s[(t + 2) % 256];
}
KERNEL void halo(int *y, const int *x) {
    __shared__ int s[258];
    int t = threadIdx.x;
    s[t + 1] = x[t];
    if (t == 0)
        s[0] = 0;
    if (t == 255)
        s[257] = 0;
    y[t] = s[t] + s[t + 1] + s[t + 2]; // bug
}
KERNEL void tree(int *y, const int *x) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1)
        if (t < k)
            s[t] += s[t + k]; // bug
    if (t == 0)
        y[0] = s[0];
}
KERNEL void level_by_read(const int *next, int *dist) {
    int u = next[threadIdx.x];
    if (dist[u] < 0)
        dist[u] = 7; // bug
}

KERNEL void flag(int *found, const int *x) {
    if (x[blockIdx.x * blockDim.x + threadIdx.x] >= 0)
        *found = 1;
}
KERNEL void own_parameter(int *depth, int level) { *depth = level + 1; }
KERNEL void zeroed(int *out) {
    __shared__ int count;
    count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    __syncthreads();
    if (threadIdx.x == 0)
        out[blockIdx.x] = count;
}
KERNEL void butterfly(int *out, const int *x) {
    __shared__ int sums[32];
    int v = x[threadIdx.x];
    for (int k = 16; k; k >>= 1)
        v += __shfl_xor_sync(~0u, v, k);
    sums[threadIdx.x / 32] = v;
    __syncthreads();
    int total = 0;
    for (int i = 0; i < blockDim.x / 32; i++)
        total += sums[i];
    out[blockIdx.x] = total;
}
KERNEL void tiles(int *out, const int *x) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ int sums[32];
    int v = x[threadIdx.x];
    for (int k = warp.size() / 2; k; k /= 2)
        v += warp.shfl_xor(v, k);
    sums[warp.meta_group_rank()] = v;
    block.sync();
    int t = warp.thread_rank() < warp.meta_group_size() ? sums[warp.thread_rank()] : 0;
    for (int k = 16; k; k /= 2)
        t += warp.shfl_xor(t, k);
    if (block.thread_rank() == 0)
        out[0] = t;
}
KERNEL void one_word_for_all(int *out, const int *x, int factor) {
    __shared__ int mean;
    if (threadIdx.x == 0)
        mean = x[0];
    __syncthreads();
    out[blockIdx.x] = mean * factor;
}
KERNEL void votes(int *out, const int *x) {
    out[threadIdx.x / 32] = __ballot_sync(~0u, x[threadIdx.x] > 3);
}
KERNEL void rows(int *out) { out[threadIdx.x / 8] = threadIdx.x / 8; }
__device__ __noinline__ void set(int *p, int value) { *p = value; }
KERNEL void by_a_call(int *found, const int *x) {
    if (x[threadIdx.x] >= 0)
        set(found, 1);
}
KERNEL void own_element(int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 0;
    for (int k = 0; k < n; k++)
        y[i] += k;
}
KERNEL void exchange(int *out, const int *x) {
    __shared__ volatile int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    int v = s[t ^ 1];
    __syncwarp();
    s[t] = v;
    __syncwarp();
    out[t] = s[t ^ 3];
}
