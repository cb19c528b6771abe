// Kernels whose warps rely on running in step, as they did before Volta: the decks' reductions 5, 6 and 7, and others.
// tests/presets/test_in_step.py runs them on every preset.
static __device__ volatile int *dynamic() {
    extern __shared__ int memory[];
    return memory;
}
extern "C" __global__ void reduce5(int *g_idata, int *g_odata) {
    int *sdata = (int *)dynamic();
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    sdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s)
            sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) {
        volatile int *smem = sdata;
        smem[tid] += smem[tid + 32];
        smem[tid] += smem[tid + 16];
        smem[tid] += smem[tid + 8];
        smem[tid] += smem[tid + 4];
        smem[tid] += smem[tid + 2];
        smem[tid] += smem[tid + 1];
    }
    if (tid == 0)
        g_odata[blockIdx.x] = sdata[0];
}
extern "C" __global__ void reduce5_plain(int *g_idata, int *g_odata) {
    int *sdata = (int *)dynamic();
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    sdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s)
            sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) {
        sdata[tid] += sdata[tid + 32];
        sdata[tid] += sdata[tid + 16];
        sdata[tid] += sdata[tid + 8];
        sdata[tid] += sdata[tid + 4];
        sdata[tid] += sdata[tid + 2];
        sdata[tid] += sdata[tid + 1];
    }
    if (tid == 0)
        g_odata[blockIdx.x] = sdata[0];
}
template <unsigned int blockSize> __device__ void reduce6(int *g_idata, int *g_odata) {
    volatile int *vdata = dynamic();
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    vdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
    __syncthreads();
    if (blockSize >= 512) {
        if (tid < 256) {
            vdata[tid] += vdata[tid + 256];
        }
        __syncthreads();
    }
    if (blockSize >= 256) {
        if (tid < 128) {
            vdata[tid] += vdata[tid + 128];
        }
        __syncthreads();
    }
    if (blockSize >= 128) {
        if (tid < 64) {
            vdata[tid] += vdata[tid + 64];
        }
        __syncthreads();
    }
    if (tid < 32) {
        if (blockSize >= 64)
            vdata[tid] += vdata[tid + 32];
        if (blockSize >= 32)
            vdata[tid] += vdata[tid + 16];
        if (blockSize >= 16)
            vdata[tid] += vdata[tid + 8];
        if (blockSize >= 8)
            vdata[tid] += vdata[tid + 4];
        if (blockSize >= 4)
            vdata[tid] += vdata[tid + 2];
        if (blockSize >= 2)
            vdata[tid] += vdata[tid + 1];
    }
    if (tid == 0)
        g_odata[blockIdx.x] = vdata[0];
}
#define R6(n) \
    extern "C" __global__ void reduce6_##n(int *a, int *b) { reduce6<n>(a, b); }
R6(512) R6(128) R6(64) R6(32) R6(8) R6(1) template <unsigned int blockSize>
__device__ void warpReduce(volatile int *sdata, unsigned int tid) {
    if (blockSize >= 64)
        sdata[tid] += sdata[tid + 32];
    if (blockSize >= 32)
        sdata[tid] += sdata[tid + 16];
    if (blockSize >= 16)
        sdata[tid] += sdata[tid + 8];
    if (blockSize >= 8)
        sdata[tid] += sdata[tid + 4];
    if (blockSize >= 4)
        sdata[tid] += sdata[tid + 2];
    if (blockSize >= 2)
        sdata[tid] += sdata[tid + 1];
}
template <unsigned int blockSize>
__device__ void reduce7(int *g_idata, int *g_odata, unsigned int n) {
    int *sdata = (int *)dynamic();
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockSize * 2) + tid;
    unsigned int gridSize = blockSize * 2 * gridDim.x;
    sdata[tid] = 0;
    do {
        sdata[tid] += g_idata[i] + g_idata[i + blockSize];
        i += gridSize;
    } while (i < n);
    __syncthreads();
    if (blockSize >= 512) {
        if (tid < 256) {
            sdata[tid] += sdata[tid + 256];
        }
        __syncthreads();
    }
    if (blockSize >= 256) {
        if (tid < 128) {
            sdata[tid] += sdata[tid + 128];
        }
        __syncthreads();
    }
    if (blockSize >= 128) {
        if (tid < 64) {
            sdata[tid] += sdata[tid + 64];
        }
        __syncthreads();
    }
    if (tid < 32)
        warpReduce<blockSize>(sdata, tid);
    if (tid == 0)
        g_odata[blockIdx.x] = sdata[0];
}
#define R7(n) \
    extern "C" __global__ void reduce7_##n(int *a, int *b, unsigned m) { reduce7<n>(a, b, m); }
R7(512) R7(128) R7(64) R7(32) R7(8) R7(1)
    // other warp-synchronous forms
    extern "C" __global__ void scan(const int *in, int *out) {
    __shared__ volatile int s[32];
    int i = threadIdx.x;
    s[i] = in[i];
    if (i >= 1)
        s[i] += s[i - 1];
    if (i >= 2)
        s[i] += s[i - 2];
    if (i >= 4)
        s[i] += s[i - 4];
    if (i >= 8)
        s[i] += s[i - 8];
    if (i >= 16)
        s[i] += s[i - 16];
    out[i] = s[i];
}
extern "C" __global__ void halves(const int *in, int *out) { // right: the branch joins between
    __shared__ volatile int s[32];
    int i = threadIdx.x;
    if (i >= 16)
        s[i] = in[i] * in[i];
    if (i < 16)
        out[i] = s[i + 16];
}
extern "C" __global__ void sides(const int *in, int *out) { // two sides: wrong
    __shared__ volatile int s[32];
    int i = threadIdx.x;
    s[i] = 0;
    if (i >= 16) {
        s[i] = in[i];
        out[i] = s[i] * in[i];
    } else {
        out[i] = s[i + 16] / (in[i] + 1);
    }
}
extern "C" __global__ void samecell(const int *in, int *out) { // one instruction, two lanes: wrong
    __shared__ volatile int s[32];
    int i = threadIdx.x;
    s[i / 2] = in[i];
    out[i] = s[i / 2];
}
extern "C" __global__ void loop(const int *in,
                                int *out) { // a loop that lanes leave at different times
    __shared__ volatile int s[64];
    int i = threadIdx.x;
    s[i] = in[i];
    s[i + 32] = 0;
    for (int k = 0; k < i; k++)
        s[i] += s[i + 1] & 1;
    out[i] = s[i];
}
extern "C" __global__ void twowarps(const int *in,
                                    int *out) { // another warp's data, no barrier: wrong
    __shared__ volatile int s[64];
    int i = threadIdx.x;
    s[i] = in[i];
    out[i] = s[63 - i];
}
extern "C" __global__ void descend(int *g_idata, int *g_odata) { // if (tid < 16), if (tid < 8)...
    volatile int *vdata = dynamic();
    unsigned tid = threadIdx.x;
    vdata[tid] = g_idata[blockIdx.x * blockDim.x + tid];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s)
            vdata[tid] += vdata[tid + s];
        if (s > 32)
            __syncthreads();
    }
    if (tid == 0)
        g_odata[blockIdx.x] = vdata[0];
}
