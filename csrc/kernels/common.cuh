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

// What is read or written only once is not loaded or stored so that the caches give it up first
// (".cs", __ldcs, __stcs): an H200's second-level cache gives up nothing else for such a line. What
// other kernels have left stays, and the lines displace each other in the rest. x + y of 2^26
// float32 took 185 us so after a run of its own and 195 after a kernel with other arrays, a
// transpose of 2^26 bytes 35.0 and 38.2, a sum of 2^28 float32 236.4 and 237.8; by plain loads and
// stores 185, 35.0 and 237.0 after either (November 2026). The exception is where results are to
// stay: is_streamed in ops_reduce_axis.c.

// Loads 16 bytes while other loads are in flight, or returns `words`: a branch around the load
// would wait for them.
__device__ inline uint4 load_pack_if(bool there, const uint4 *from, uint4 words = {0, 0, 0, 0}) {
    asm volatile("{ .reg .pred there;\n"
                 "setp.ne.u32 there, %5, 0;\n"
                 "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w)
                 : "l"(from),
                   "r"(static_cast<unsigned>(there))); // generic addresses are global ones
    return words;
}

// The 16 bytes that begin `skipped` bytes after the first of two packs that follow each other; what
// is skipped are items of so many bytes.
template <unsigned Item>
__device__ inline uint4 cut_pack(const uint4 &low, const uint4 &high, unsigned skipped) {
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

// Stores 16 bytes at once. (Where another branch stores the same items one by one, the compiler
// makes a plain store into theirs: 5000 x 7001 float32 took an H200 114 us to transpose so, not 71,
// November 2026.)
__device__ inline void store_pack(uint4 *to, uint4 pack) {
    asm("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(pack.x),
        "r"(pack.y), "r"(pack.z), "r"(pack.w)
        : "memory");
}

// This thread's number in the whole grid, and how many threads the grid has. 64 bits: a grid may
// hold more than 2^31 threads.
__device__ inline uint64 global_thread() {
    return static_cast<uint64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64 global_threads() { return static_cast<uint64>(gridDim.x) * blockDim.x; }
