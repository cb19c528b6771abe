// One kind of mistake each, named with its line.
// buffer: x s32 100 iota
// buffer: y s32 100 none
// launch: past_end 1 128 0 x
// finding: OUT_OF_BOUNDS memory.cu:36
// launch: negative 1 32 0 x
// finding: OUT_OF_BOUNDS element -1 of argument 1 (s32)
// launch: odd 1 1 0 x
// finding: MISALIGNED memory.cu
// launch: unwritten 1 32 0 y x
// finding: UNINITIALISED memory.cu
// launch: shared_unwritten 1 32 0 x
// finding: UNINITIALISED memory.cu
// launch: local_unwritten 1 32 0 x s32:3
// finding: UNINITIALISED memory.cu
// launch: local_past 1 32 0 x s32:40
// finding: OUT_OF_BOUNDS local
// launch: shared_past 1 128 0 x
// finding: OUT_OF_BOUNDS shared
// launch: null 1 1 0 u64:0
// finding: OUT_OF_BOUNDS null
// launch: wild 1 32 0 x u64:0x7123456789abcde0
// finding: OUT_OF_BOUNDS memory.cu
// launch: divide 1 32 0 x s32:0
// finding: DIVISION memory.cu
// expect: x[0] -1
// launch: trapped 1 32 0
// finding: TRAP memory.cu
// launch: asserts 1 32 0 s32:0
// finding: ASSERT memory.cu
// launch: deep 1 32 0 x s32:1000000
// finding: STACK memory.cu
#include <assert.h>
extern "C" {
__global__ void past_end(int *x) {
    x[threadIdx.x] = 1;
}
__global__ void negative(int *x) { x[(int)threadIdx.x - 1] = 1; }
__global__ void odd(int *x) { *(int *)((char *)x + 2) = 1; }
__global__ void unwritten(const int *y, int *x) { x[threadIdx.x] = y[threadIdx.x]; }
__global__ void shared_unwritten(int *x) {
    __shared__ int s[32];
    if (threadIdx.x > 3)
        s[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = s[31 - threadIdx.x];
}
__global__ void local_unwritten(int *x, int n) {
    int a[16];
    for (int i = 0; i < n; i++)
        a[i * 2] = i;
    x[threadIdx.x] = a[(threadIdx.x * 2 + n) % 16];
}
__global__ void local_past(int *x, int n) {
    int a[16];
    for (int i = 0; i < 16; i++)
        a[i] = i;
    a[n] = 1;
    x[threadIdx.x] = a[(n + 1) % 16];
}
__global__ void shared_past(int *x) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x % 100];
    __syncthreads();
    x[0] = s[5];
}
__global__ void null(int *x) { *x = 1; }
__global__ void wild(int *x, int *y) { x[threadIdx.x] = y[threadIdx.x]; }
__global__ void divide(int *x, int d) { x[threadIdx.x] = (int)threadIdx.x / d; }
__global__ void trapped() { __trap(); }
__global__ void asserts(int x) { assert(x); }
__device__ __noinline__ int down(int n) { return n <= 0 ? 0 : (down(n - 1) ^ down(n - 2)) + n; }
__global__ void deep(int *x, int n) { x[threadIdx.x] = down(n); }
}
