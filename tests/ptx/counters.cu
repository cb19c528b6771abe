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
