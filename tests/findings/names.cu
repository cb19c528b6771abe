// Kernels with C++ names, one that waits for its grid, and text that a kernel prints.
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;
template <class T> __global__ void reduce0(const T *x, T *out) { out[threadIdx.x] = x[threadIdx.x]; }
template <class T, unsigned N> __global__ void tile(T *out) { out[threadIdx.x] = N; }
template __global__ void reduce0<float>(const float *, float *);
template __global__ void reduce0<double>(const double *, double *);
template __global__ void tile<int, 256>(int *);
namespace linear {
__global__ void scale(float *x, float a) { x[threadIdx.x] *= a; }
} // namespace linear
__global__ void plain(int *x, int n) { x[threadIdx.x + n] = 1; }

extern "C" __global__ void total(const int *x, int *sums, int *out) {
    cg::grid_group grid = cg::this_grid();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = x[blockIdx.x] * 2;
    grid.sync();
    if (grid.thread_rank() == 0) {
        int t = 0;
        for (int i = 0; i < gridDim.x; i++)
            t += sums[i];
        *out = t;
    }
}

__constant__ float filter[5];
__device__ int counts[4] = {1, 2, 3, 4};
__device__ unsigned long long calls;
extern "C" __global__ void weighted(const float *x, float *y) {
    float t = 0;
    for (int k = 0; k < 5; k++)
        t += filter[k] * x[threadIdx.x + k];
    y[threadIdx.x] = t;
    if (threadIdx.x < 4)
        counts[threadIdx.x] = 7;
    if (threadIdx.x == 0)
        calls++;
}
extern "C" __global__ void speaks(int n) {
    if (threadIdx.x < 2)
        printf("thread %d of %d\n", threadIdx.x, n);
    if (n < 0)
        __trap();
}
extern "C" __global__ void doubled(double *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void halves(float *x) { x[threadIdx.x] *= 0.5f; }
extern "C" __global__ void integers(int *x, int n) {
    if (threadIdx.x < n)
        x[threadIdx.x] += 1;
}
extern "C" __global__ void pairs(float2 *x) { x[threadIdx.x].x = x[threadIdx.x].y; }
