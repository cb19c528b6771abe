// buffer: in f32 1048577 random 7
// buffer: out f32 1048577 none
// launch: tile0 32,32 32,8 0 in out s32:1024
// counter: shared_load_wavefronts 1048576
// counter: shared_store_wavefronts 32768
// counter: global_load_sectors 131072
// counter: global_store_sectors 131072
// launch: tile1 32,32 32,8 0 in out s32:1024
// counter: shared_load_wavefronts 32768
// launch: naive 32,32 32,8 0 in out s32:1024
// counter: global_store_sectors 1048576
// launch: offset 64 256 0 in out s32:1
// counter: global_load_requests 512
// counter: global_load_sectors 2560
// launch: stride 16 256 0 in out s32:2
// counter: global_load_sectors 1024
// launch: stride 16 256 0 in out s32:8
// counter: global_load_sectors 4096
// launch: stride 16 256 0 in out s32:32
// counter: global_load_sectors 4096
// launch: vec 1 128 0 in out
// counter: shared_load_wavefronts 16
// counter: shared_store_wavefronts 16
// The counters that hardware gave on an H200, and the older GPUs' coalescing rules.
const int T = 32;
template <int PAD> __device__ void tile(const float *in, float *out, int n) {
    __shared__ float s[T][T + PAD];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    for (int j = 0; j < T; j += 8)
        s[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * T + threadIdx.x;
    y = blockIdx.x * T + threadIdx.y;
    for (int j = 0; j < T; j += 8)
        out[(size_t)(y + j) * n + x] = s[threadIdx.x][threadIdx.y + j];
}

extern "C" {
__global__ void tile0(const float *in, float *out, int n) { tile<0>(in, out, n); }
__global__ void tile1(const float *in, float *out, int n) { tile<1>(in, out, n); }
__global__ void naive(const float *in, float *out, int n) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    for (int j = 0; j < T; j += 8)
        out[(size_t)x * n + y + j] = in[(size_t)(y + j) * n + x];
}
__global__ void offset(const float *in, float *out, int o) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i + o] = in[i + o];
}
__global__ void stride(const float *in, float *out, int s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i * s] = in[i * s];
}
__global__ void vec(const float4 *in, float4 *out) {
    __shared__ float4 s[128];
    int i = threadIdx.x;
    s[i] = in[i];
    __syncthreads();
    out[i] = s[127 - i];
}
}

// Generic addresses count where they lead: half of them to shared memory, or all to local memory.
__device__ __noinline__ float read(const float *p, int i) { return p[i]; }
__device__ __noinline__ void write(float *p, int i, float value) { p[i] = value; }
extern "C" __global__ void generic_shared(float *out) {
    __shared__ float s[256];
    write(s, threadIdx.x * 8, 1.f);
    __syncthreads();
    out[threadIdx.x] = read(s, threadIdx.x * 8);
}
extern "C" __global__ void generic_local(float *out) {
    float s[40];
    for (int i = 0; i < 40; i++)
        s[i] = i;
    out[threadIdx.x] = read(s, threadIdx.x);
}
extern "C" __global__ void generic_both(float *out) {
    __shared__ float s[32];
    s[threadIdx.x] = 1;
    __syncwarp();
    out[threadIdx.x] = read(threadIdx.x & 1 ? out + 32 : s, threadIdx.x);
}
// buffer: places f32 64 zero
// launch: generic_shared 1 32 0 places
// counter: shared_load_requests 1
// counter: shared_load_wavefronts 8
// counter: shared_load_conflicts 7
// counter: shared_store_wavefronts 8
// counter: global_load_requests 0
// counter: global_store_requests 1
// launch: generic_local 1 32 0 places
// counter: local_load_requests 1
// counter: global_load_requests 0
// launch: generic_both 1 32 0 places
// counter: shared_load_requests 1
// counter: shared_load_wavefronts 1
// counter: global_load_requests 1
// counter: global_load_sectors 4
