// common.cuh: what every kernel file shares: the project's names for CUDA's types, arithmetic that
// wraps, and a kernel's dynamic shared memory as an array of any type. No kernel lives here.
#pragma once

#include <stddef.h>
#include <stdint.h>

using int32 = int32_t;
using int64 = long long;
using uint64 = unsigned long long;
using float32 = float;
using float64 = double;
enum boolean : uint8_t {}; // NumPy's bool: a byte, true when it is not zero

// Integers wrap, as NumPy's do: their arithmetic is done unsigned, where C++ defines it.
template <class T> struct wrapping { using type = T; };
template <> struct wrapping<int32> { using type = uint32_t; };
template <> struct wrapping<int64> { using type = uint64; };

// The block's dynamic shared memory.
template <class T> __device__ inline T *shared_memory() {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return reinterpret_cast<T *>(shared_bytes);
}

// First thing in a kernel whose rung has RUNG_OVERLAPS. Its launch is made ready while the kernel
// before it on the stream runs, and its blocks wait here until what that wrote is seen: the GPU is
// not empty for as long between the two. (Programmatic dependent launch: PTX, griddepcontrol.)
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A value that the compiler takes for another: what follows from it is worked out anew, and not
// kept in registers meanwhile.
__device__ inline unsigned anew(unsigned value) {
    asm volatile("" : "+r"(value));
    return value;
}

// This thread's number in the whole grid, and how many threads the grid has. 64 bits: a grid may
// hold more than 2^31 threads.
__device__ inline uint64 global_thread() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 global_threads() { return static_cast<uint64>(gridDim.x) * blockDim.x; }
