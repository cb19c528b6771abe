// Kernels with one fault each: what gpuopt.check and compute-sanitizer have to find.
// tests/sim/against_sanitizer.py runs them one at a time on hardware.
__device__ int thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void broken_bounds(const int *in, int *out) { out[thread() + 64] = in[thread()]; }
extern "C" __global__ void broken_misaligned(const char *in, int *out) {
    out[thread()] = *reinterpret_cast<const int *>(in + 1);
}
extern "C" __global__ void broken_uninitialised(const int *in, int *out) { out[thread()] = in[thread()]; }
extern "C" __global__ void broken_race(const int *in, int *out) {
    __shared__ int items[64];
    items[threadIdx.x] = in[thread()];
    out[thread()] = items[63 - threadIdx.x];
}
extern "C" __global__ void broken_barrier(const int *in, int *out) {
    if (threadIdx.x < 16)
        __syncthreads();
    out[thread()] = in[thread()];
}

// buffer: in s32 64 iota
// buffer: never s32 64 none
// buffer: out s32 64 zero
// launch: broken_bounds 1 64 0 in out
// finding: OUT_OF_BOUNDS broken.cu:5
// launch: broken_misaligned 1 8 0 in out
// finding: MISALIGNED broken.cu:7
// launch: broken_uninitialised 1 64 0 never out
// finding: UNINITIALISED broken.cu:9
// launch: broken_race 1 64 0 in out
// finding: SHARED_RACE broken.cu:13
// launch: broken_barrier 1 32 0 in out
// finding: DIVERGENT_BARRIER broken.cu:17
