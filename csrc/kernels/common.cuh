// common.cuh: shared by all kernel files: short names of CUDA's types, wrapping arithmetic, and
// dynamic shared memory as an array of any type. Contains no kernel.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Kernels whose source has no branch on __CUDA_ARCH__: their PTX for compute_75 also serves newer
// GPUs, so the pass that compiles PTX for newer GPUs skips them.
#ifdef GPUOPT_NEWER_ONLY
#define SAME_FOR_ALL_GPUS(...)
#else
#define SAME_FOR_ALL_GPUS(...) __VA_ARGS__
#endif

using int32 = int32_t;
using int64 = long long;
using uint64 = unsigned long long;
using float32 = float;
using float64 = double;
enum boolean : uint8_t {}; // NumPy's bool: a byte, true if nonzero

// Integers wrap, as NumPy's do: their arithmetic is unsigned, which C++ defines.
template <class T> struct wrapping { using type = T; };
template <> struct wrapping<int32> { using type = uint32_t; };
template <> struct wrapping<int64> { using type = uint64; };

// The lesser and the greater of two, for floats IEEE 754-2019's minimum and maximum, as on the cpu:
// a NaN wins, and -0 is less than +0. Integer instructions tell zeros of float64 apart, since few
// GPUs have as many units for float64. `|` makes no branches, unlike `||`.
template <class T> __device__ inline T lesser(T a, T b) { return a < b ? a : b; }
template <class T> __device__ inline T greater(T a, T b) { return a > b ? a : b; }
template <> __device__ inline float32 lesser(float32 a, float32 b) {
    return (a != a) | (b != b) ? __int_as_float(0x7fffffff) : fminf(a, b);
}
template <> __device__ inline float32 greater(float32 a, float32 b) {
    return (a != a) | (b != b) ? __int_as_float(0x7fffffff) : fmaxf(a, b);
}
__device__ inline bool are_zeros(float64 negative, float64 positive) { // of these signs
    const int64 first = __double_as_longlong(negative), other = __double_as_longlong(positive);
    return ((first ^ INT64_MIN) | other) == 0;
}
template <> __device__ inline float64 lesser(float64 a, float64 b) {
    return (a < b) | (a != a) | are_zeros(a, b) ? a : b;
}
template <> __device__ inline float64 greater(float64 a, float64 b) {
    return (a > b) | (a != a) | are_zeros(b, a) ? a : b;
}

// The block's dynamic shared memory.
template <class T> __device__ inline T *shared_memory() {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return reinterpret_cast<T *>(shared_bytes);
}

// Precedes every access of global memory in a kernel whose rung has RUNG_OVERLAPS. Its launch is
// prepared while the previous kernel of the stream runs, and its blocks wait here until that
// kernel's writes are visible, which shortens the gap between the two (programmatic dependent
// launch: PTX, griddepcontrol).
__device__ inline void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Opaque copy: makes the compiler recompute what depends on it instead of keeping registers live.
__device__ inline unsigned opaque_copy(unsigned value) {
    asm volatile("" : "+r"(value));
    return value;
}

// No streaming hints (".cs", __ldcs, __stcs): on H200 an evict-first line displaces only its like
// (TUNING.md V1). Exception: results that shall stay in L2, is_streamed in ops_reduce_axis.c.

// Loads 16 bytes while other loads are in flight, or returns zeros; a branch around the load would
// wait for them.
__device__ inline uint4 load_vector_if(bool there, const uint4 *from) {
    uint4 words = {0, 0, 0, 0};
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
                 : "l"(from),
                   "r"(static_cast<unsigned>(there))); // generic addresses are global ones
    return words;
}

// The 16 bytes that begin `skipped` bytes after the first of two adjacent vectors; `skipped` is a
// multiple of Item bytes.
template <unsigned Item>
__device__ inline uint4 cut_vector(const uint4 &low, const uint4 &high, unsigned skipped) {
    uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (unsigned i = 0; i < 6; i++)
        words[i] = skipped & 8 ? words[i + 2] : words[i];
    if (Item < 8)
#pragma unroll
        for (unsigned i = 0; i < 5; i++)
            words[i] = skipped & 4 ? words[i + 1] : words[i];
    if (Item < 4)
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            words[i] = __funnelshift_r(words[i], words[i + 1], skipped % 4 * 8);
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Stores 16 bytes at once. The compiler would merge a plain store with another branch's scalar
// stores of the same elements (TUNING.md V2).
__device__ inline void store_vector(uint4 *to, uint4 vector) {
    asm("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
        "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w)
        : "memory");
}

// This thread's index in the whole grid, and the number of threads in the grid. 64 bits: a grid may
// hold more than 2^31 threads.
__device__ inline uint64 global_thread() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 global_threads() { return static_cast<uint64>(gridDim.x) * blockDim.x; }
