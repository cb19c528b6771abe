// Accesses whose counts an H200's Nsight Compute has read: tests/sim/against_hardware.py compares them again.
// A matrix of 1024 x 1024 floats, blocks of 32 x 8 threads; copies of 2^20 floats.
enum { SIDE = 1024, TILE = 32 };

extern "C" __global__ void reading_naive(const float *in, float *out) {
    const int x = blockIdx.x * TILE + threadIdx.x;
    for (int y = blockIdx.y * TILE + threadIdx.y, end = y + TILE; y < end; y += blockDim.y)
        out[x * SIDE + y] = in[y * SIDE + x];
}

template <int Pitch> __device__ void tiled(const float *in, float *out) {
    __shared__ float tile[TILE][Pitch];
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE;
    for (int j = threadIdx.y; j < TILE; j += blockDim.y)
        tile[j][threadIdx.x] = in[(y + j) * SIDE + x];
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += blockDim.y)
        out[(blockIdx.x * TILE + j) * SIDE + y + threadIdx.x] = tile[threadIdx.x][j];
}
extern "C" __global__ void reading_tile_32(const float *in, float *out) { tiled<32>(in, out); }
extern "C" __global__ void reading_tile_33(const float *in, float *out) { tiled<33>(in, out); }

__device__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
extern "C" __global__ void reading_offset_1(const float *in, float *out) { out[thread()] = in[thread() + 1]; }
extern "C" __global__ void reading_stride_2(const float *in, float *out) { out[thread()] = in[thread() * 2]; }
extern "C" __global__ void reading_stride_8(const float *in, float *out) { out[thread()] = in[thread() * 8]; }
extern "C" __global__ void reading_stride_32(const float *in, float *out) { out[thread()] = in[thread() * 32]; }

// 16 bytes a thread through shared memory: four passes a warp, there and back.
extern "C" __global__ void reading_wide(const float4 *in, float4 *out) {
    __shared__ float4 items[256];
    items[threadIdx.x] = in[thread()];
    __syncthreads();
    out[thread()] = items[threadIdx.x ^ 1];
}

// buffer: in f32 1048640 random 1
// buffer: out f32 1048576 zero
// launch: reading_naive 32,32 32,8 0 in out
// counter: global_load_requests 32768
// counter: global_load_sectors 131072
// counter: global_store_sectors 1048576
// launch: reading_tile_32 32,32 32,8 0 in out
// counter: shared_load_wavefronts 1048576
// counter: shared_load_conflicts 1015808
// counter: shared_store_wavefronts 32768
// counter: global_store_sectors 131072
// launch: reading_tile_33 32,32 32,8 0 in out
// counter: shared_load_wavefronts 32768
// counter: shared_load_conflicts 0
// counter: global_store_sectors 131072
// launch: reading_offset_1 4096 256 0 in out
// counter: global_load_requests 32768
// counter: global_load_sectors 163840
// counter: global_store_sectors 131072
// launch: reading_stride_2 2048 256 0 in out
// counter: global_load_requests 16384
// counter: global_load_sectors 131072
// launch: reading_stride_8 512 256 0 in out
// counter: global_load_requests 4096
// counter: global_load_sectors 131072
// launch: reading_stride_32 128 256 0 in out
// counter: global_load_requests 1024
// counter: global_load_sectors 32768
// launch: reading_wide 1024 256 0 in out
// counter: shared_load_requests 8192
// counter: shared_load_wavefronts 32768
// counter: shared_store_wavefronts 32768
// counter: shared_load_conflicts 0
