// Typical users' kernels: arguments of several kinds, dynamic shared memory, and a race.

struct pair {
    float scale;
    int offset;
};

extern "C" __global__ void add(const float *a, const float *b, float *sum, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] = a[i] + b[i];
}

extern "C" __global__ void kinds(double *out, bool flag, signed char c, unsigned short s, int i,
                                 long long l, float f, double d, struct pair pair) {
    out[0] = flag;
    out[1] = c;
    out[2] = s;
    out[3] = i;
    out[4] = (double)l;
    out[5] = f;
    out[6] = d;
    out[7] = pair.scale;
    out[8] = pair.offset;
}

// Each block reverses its items; without `wait` it does not wait for them.
extern "C" __global__ void reverse(int *items, int wait) {
    extern __shared__ int tile[];
    int *mine = items + blockIdx.x * blockDim.x;
    tile[threadIdx.x] = mine[threadIdx.x];
    if (wait)
        __syncthreads();
    mine[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

// The place of every thread in a grid of three dimensions.
extern "C" __global__ void place(unsigned *out) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block << 16 | thread;
}

// buffer: a f32 100 iota
// buffer: b f32 100 1
// buffer: sum f32 100 none
// launch: add 2 64 0 a b sum u32:100
// expect: sum[0] 1 2 3
// expect: sum[99] 100
// buffer: items s32 128 iota
// launch: reverse 1 128 512 items s32:1
// expect: items[0] 127 126
// expect: items[127] 0
// launch: reverse 1 128 512 items s32:0
// finding: SHARED_RACE user.cu
// buffer: places u32 24 none
// launch: place 1,2,2 3,2,1 0 places
// expect: places[22] 0x30004 0x30005
