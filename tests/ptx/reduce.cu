// Reductions as a user writes them: grid-stride loop, shared memory, shuffles, templates, several types.
// buffer: f f32 1000000 iota
// buffer: fo f32 8 none
// launch: sum_f32 8 128 0 f fo s64:1000
// expect: fo[0] 8128 24512 40896
// buffer: i s32 2097152 iota
// buffer: io s32 8 none
// launch: sum_s32 8 128 0 i io s64:2097152
// expect: io[0] -117571584 -84017152 -50462720 -16908288 16646144 50200576 83755008 117309440
// buffer: d f64 1000 iota
// buffer: do f64 8 none
// launch: sum_f64 8 128 0 d do s64:1000
// expect: do[0] 8128 24512 40896
// buffer: h f16 256 0x3c00 0x4000
// buffer: ho f32 1 none
// launch: sum_f16 1 128 0 h ho s64:256
// expect: ho[0] 384
#include <cuda_fp16.h>
template <class T, class A, int B> __device__ void sum(const T *x, A *out, long long n) {
    __shared__ A s[B];
    A a = 0;
    for (long long i = blockIdx.x * (long long)B + threadIdx.x; i < n; i += (long long)gridDim.x * B)
        a += (A)x[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = B / 2; k >= 32; k >>= 1) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        A v = s[threadIdx.x];
        for (int o = 16; o; o >>= 1)
            v += __shfl_down_sync(~0u, v, o);
        if (!threadIdx.x)
            out[blockIdx.x] = v;
    }
}
extern "C" {
__global__ void sum_f32(const float *x, float *out, long long n) { sum<float, float, 128>(x, out, n); }
__global__ void sum_s32(const int *x, int *out, long long n) { sum<int, int, 128>(x, out, n); }
__global__ void sum_f64(const double *x, double *out, long long n) { sum<double, double, 128>(x, out, n); }
__global__ void sum_f16(const __half *x, float *out, long long n) { sum<__half, float, 128>(x, out, n); }
}
