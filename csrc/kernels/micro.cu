// micro.cu: the decks' experiments: small kernels, each of which shows one property of a GPU. Knows
// no ladder: the kernels of an experiment stand side by side, and gpuopt/experiments/ launches
// them.
//
// To add one: a row in the table, a template, and its name in the list at the end. Kernels in
// several sizes share one list for their rows and their instances.

#define MICRO_WIDTHS(X) X(1) X(2) X(4)
#define MICRO_CHAINS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
// words per access, accesses per thread
#define MICRO_COPIES_OF(X, words) \
    X(words, 1) X(words, 2) X(words, 4) X(words, 8) X(words, 16) X(words, 32)
#define MICRO_COPIES(X) MICRO_COPIES_OF(X, 1) MICRO_COPIES_OF(X, 2) MICRO_COPIES_OF(X, 4)
// function, its accurate form, its fast form, of x and a second operand y
#define MICRO_FUNCTIONS(X)                             \
    X(sin, sinf(x), __sinf(x))                         \
    X(cos, cosf(x), __cosf(x))                         \
    X(sincos, both_accurate(x), both_fast(x))          \
    X(exp, expf(x), __expf(x))                         \
    X(pow, powf(x, y), __powf(x, y))                   \
    X(reciprocal, 1.0f / x, reciprocal_approximate(x)) \
    X(sqrt, sqrtf(x), sqrt_approximate(x))
#define MICRO_CAPS(X) X(24) X(32) X(40) X(64)
#define MICRO_SPILLED(X) X(0) X(8) X(16) X(24) X(32)

#ifdef GPUOPT_RUNGS
// clang-format off
//   the kernel's symbol, its experiment, its action
PROBE("micro_index", "coalescing", "adds one to words that a permutation, a stride and an offset choose")
PROBE("micro_idle", "coalescing", "adds one to words; every fourth thread does nothing")
PROBE("micro_float3_direct", "coalescing", "a structure of three floats a thread: three loads of stride 3")
PROBE("micro_float3_shared", "coalescing", "the same through shared memory: loads and stores of stride 1")
PROBE("micro_structures", "coalescing", "an array of structures of four floats, field by field")
PROBE("micro_structures_8", "coalescing", "the same, aligned to 8 bytes: accesses of two words")
PROBE("micro_structures_16", "coalescing", "the same, aligned to 16 bytes: accesses of four words")
PROBE("micro_arrays", "coalescing", "the same as a structure of four arrays")
#define ROW(words) PROBE("micro_wide_" #words, "coalescing", "accesses of " #words " words")
MICRO_WIDTHS(ROW)
#undef ROW
PROBE("micro_banks", "banks", "reads shared memory where a pattern of 32 words says")
PROBE("micro_divergence", "divergence", "each thread takes the path that a table gives it")
#define ROW(chains) \
    PROBE("micro_ilp_fma_" #chains, "ilp", #chains " independent chains of a = a * b + c") \
    PROBE("micro_ilp_mul_" #chains, "ilp", #chains " independent chains of a = a * b")
MICRO_CHAINS(ROW)
#undef ROW
#define ROW(words, accesses) \
    PROBE("micro_copy_" #words "_" #accesses, "low_occupancy_copy", #accesses " accesses of " #words " words per thread")
MICRO_COPIES(ROW)
#undef ROW
#define ROW(name, accurate, fast) \
    PROBE("micro_" #name "_accurate", "intrinsics", #accurate) \
    PROBE("micro_" #name "_fast", "intrinsics", #fast)
MICRO_FUNCTIONS(ROW)
#undef ROW
PROBE("micro_literal_double", "double_literal", "2.5 * v * (1.0 - v): the literals make it double arithmetic")
PROBE("micro_literal_float", "double_literal", "2.5f * v * (1.0f - v): float arithmetic")
#define ROW(most) PROBE("micro_registers_cap_" #most, "register_pressure", "at most " #most " registers per thread")
MICRO_CAPS(ROW)
#undef ROW
#define ROW(spilled) PROBE("micro_registers_spilled_" #spilled, "register_pressure", #spilled " of 40 values in local memory")
MICRO_SPILLED(ROW)
#undef ROW
PROBE("micro_tree", "trees", "each thread adds `degree` adjacent numbers: a level of a tree")
PROBE("micro_grid_stride", "block_size", "a copy by any number of blocks of any size")
// clang-format on
#else

#include "common.cuh"

namespace micro {

// --- coalescing: read a word, add one, write it back. Only the addresses differ.

__device__ inline void add_one(const float *from, float *to, uint64 i) { to[i] = from[i] + 1.0f; }

// Thread k accesses word (k ^ mask) * stride + offset. Threads beyond n do nothing.
extern "C" __global__ void micro_index(const float *from, float *to, uint64 n, unsigned mask,
                                       unsigned stride, unsigned offset) {
    const uint64 k = global_thread();
    if (k < n)
        add_one(from, to, (k ^ mask) * stride + offset);
}

extern "C" __global__ void micro_idle(const float *from, float *to, uint64 n) {
    const uint64 k = global_thread();
    if (k < n && k % 4 != 3)
        add_one(from, to, k);
}

// Four bytes of alignment: the compiler may not merge three accesses into one.
struct triple {
    float x, y, z;
};
extern "C" __global__ void micro_float3_direct(const triple *from, triple *to, uint64 n) {
    const uint64 k = global_thread();
    if (k < n) {
        triple t = from[k];
        t.x += 1.0f;
        t.y += 1.0f;
        t.z += 1.0f;
        to[k] = t;
    }
}

// New: adjacent threads load and store adjacent words; the stride of 3 moves to shared memory,
// where it causes no bank conflicts. n is a multiple of the block.
extern "C" __global__ void micro_float3_shared(const float *from, float *to, uint64) {
    float *words = shared_memory<float>(); // 3 a thread
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * 3;
#pragma unroll
    for (unsigned j = 0; j < 3; j++)
        words[j * blockDim.x + threadIdx.x] = from[first + j * blockDim.x + threadIdx.x];
    __syncthreads();
    triple &t = reinterpret_cast<triple *>(words)[threadIdx.x];
    t.x += 1.0f;
    t.y += 1.0f;
    t.z += 1.0f;
    __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < 3; j++)
        to[first + j * blockDim.x + threadIdx.x] = words[j * blockDim.x + threadIdx.x];
}

struct particle { // four bytes of alignment again
    float x, y, z, w;
};
extern "C" __global__ void micro_structures(const particle *from, particle *to, uint64 n) {
    const uint64 k = global_thread();
    if (k < n) {
        to[k].x = from[k].x + 1.0f;
        to[k].y = from[k].y + 1.0f;
        to[k].z = from[k].z + 1.0f;
        to[k].w = from[k].w + 1.0f;
    }
}

// Aligned, the struct is loaded and stored whole, in as few accesses as its alignment allows.
template <unsigned Bytes> struct alignas(Bytes) aligned : particle {};
template <unsigned Bytes>
__device__ void structures(const aligned<Bytes> *from, aligned<Bytes> *to, uint64 n) {
    const uint64 k = global_thread();
    if (k >= n)
        return;
    aligned<Bytes> one = from[k];
    one.x += 1.0f;
    one.y += 1.0f;
    one.z += 1.0f;
    one.w += 1.0f;
    to[k] = one;
}
#define STRUCTURES(bytes)                                                               \
    extern "C" __global__ void micro_structures_##bytes(const aligned<bytes> *from,     \
                                                        aligned<bytes> *to, uint64 n) { \
        structures(from, to, n);                                                        \
    }
STRUCTURES(8)
STRUCTURES(16)

extern "C" __global__ void micro_arrays(const float *from, float *to, uint64 n) {
    const uint64 k = global_thread();
    if (k < n)
        for (unsigned field = 0; field < 4; field++)
            add_one(from, to, field * n + k);
}

template <unsigned Words> struct words;
template <> struct words<1> { using type = float; };
template <> struct words<2> { using type = float2; };
template <> struct words<4> { using type = float4; };

__device__ inline float plus_one(float v) { return v + 1.0f; }
__device__ inline float2 plus_one(float2 v) { return {v.x + 1.0f, v.y + 1.0f}; }
__device__ inline float4 plus_one(float4 v) {
    return {v.x + 1.0f, v.y + 1.0f, v.z + 1.0f, v.w + 1.0f};
}
template <class V> __device__ void wide(const V *from, V *to, uint64 n) {
    const uint64 k = global_thread();
    if (k < n)
        to[k] = plus_one(from[k]);
}

// --- banks: lane k of every warp reads word pattern[k], then the words after it: the banks advance
// together, so that each read has the same conflicts.

enum { BANK_WORDS = 32 * 33 + 32 };

extern "C" __global__ void micro_banks(const unsigned *pattern, float *to, unsigned rounds) {
    __shared__ float words[BANK_WORDS];
    for (unsigned k = threadIdx.x; k < BANK_WORDS; k += blockDim.x)
        words[k] = static_cast<float>(k);
    __syncthreads();
    const volatile float *at = words + pattern[threadIdx.x % 32]; // volatile: every read is made
    float sum = 0;
    for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
        for (unsigned k = 0; k < 32; k++)
            sum += at[k];
    }
    to[global_thread()] = sum;
}

// --- divergence: `ways` paths of equal cost; path[k] is thread k's. A warp whose lanes take
// several executes each of them.

extern "C" __global__ void micro_divergence(const float *from, float *to, const unsigned *path,
                                            unsigned ways, unsigned steps) {
    const unsigned mine = path[threadIdx.x];
    float v = from[global_thread()];
    for (unsigned way = 0; way < ways; way++) {
        if (way == mine) {
            const float add = 1.0f + static_cast<float>(way);
            for (unsigned k = 0; k < steps; k++)
                v = fmaf(v, 0.984375f, add);
        }
    }
    to[global_thread()] = v;
}

// --- ilp: each operation of a chain depends on the previous one; the chains are independent.

template <unsigned Chains, bool Fused>
__device__ void chains(const float *from, float *to, float b, float c, unsigned steps) {
    float a[Chains];
#pragma unroll
    for (unsigned j = 0; j < Chains; j++)
        a[j] = from[global_thread()] + static_cast<float>(j);
#pragma unroll 16
    for (unsigned k = 0; k < steps; k++) {
#pragma unroll
        for (unsigned j = 0; j < Chains; j++)
            a[j] = Fused ? fmaf(a[j], b, c) : __fmul_rn(a[j], b);
    }
    float sum = a[0];
#pragma unroll
    for (unsigned j = 1; j < Chains; j++)
        sum += a[j];
    to[global_thread()] = sum;
}

// --- low_occupancy_copy: all of a thread's loads are in flight before its first store.

template <unsigned Words, unsigned Accesses>
__device__ void copy(const typename words<Words>::type *from, typename words<Words>::type *to,
                     uint64 n) {
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * Accesses + threadIdx.x;
    typename words<Words>::type item[Accesses];
    if (first + static_cast<uint64>(blockDim.x) * (Accesses - 1) >= n)
        return; // n is a multiple of the elements that a block copies
#pragma unroll
    for (unsigned j = 0; j < Accesses; j++)
        item[j] = from[first + j * blockDim.x];
#pragma unroll
    for (unsigned j = 0; j < Accesses; j++)
        to[first + j * blockDim.x] = item[j];
}

// --- intrinsics: `steps` evaluations at close points, so that arithmetic dominates, not memory;
// one step is the function itself.

__device__ inline float both_accurate(float x) {
    float s, c;
    sincosf(x, &s, &c);
    return fabsf(s) + fabsf(c); // from 1 to 1.4: no cancellation
}
__device__ inline float both_fast(float x) {
    float s, c;
    __sincosf(x, &s, &c);
    return fabsf(s) + fabsf(c); // from 1 to 1.4: no cancellation
}
__device__ inline float reciprocal_approximate(float x) {
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ inline float sqrt_approximate(float x) {
    float y;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
template <class F>
__device__ void evaluate(const float *from, float *to, uint64 n, float y, float dx,
                         unsigned steps) {
    const uint64 i = global_thread();
    if (i >= n)
        return;
    const float x = from[i];
    float sum = F::of(x, y);
    for (unsigned k = 1; k < steps; k++)
        sum += F::of(fmaf(static_cast<float>(k), dx, x), y);
    to[i] = sum;
}

// --- double_literal: the logistic map, which tends to 0.6 from everywhere between 0 and 1.

struct literal_double { // each step converts to double and back
    static __device__ float step(float v) { return 2.5 * v * (1.0 - v); }
};
struct literal_float {
    static __device__ float step(float v) { return 2.5f * v * (1.0f - v); }
};
template <class Map>
__device__ void iterate(const float *from, float *to, uint64 n, unsigned steps) {
    const uint64 i = global_thread();
    if (i >= n)
        return;
    float v = from[i];
    for (unsigned k = 0; k < steps; k++)
        v = Map::step(v);
    to[i] = v;
}

// --- register_pressure: 40 values a thread, all live through the loop. With a register cap ptxas
// spills some to local memory. PTX has unlimited registers and never spills: for the simulator
// `Spilled` of the values stand in local memory explicitly, in an array that is opaque to
// compilers.

enum { VALUES = 40 };

template <unsigned Spilled>
__device__ void pressure(const float *from, float *to, uint64 n, unsigned steps) {
    constexpr unsigned Kept = VALUES - Spilled;
    const uint64 i = global_thread();
    if (i >= n)
        return;
    const float x = from[i];
    float kept[Kept], local[VALUES - Kept + 1];
    size_t at = __cvta_generic_to_local(local);
    if (Spilled)
        asm volatile("" : "+l"(at)); // some address
    float *spilled = static_cast<float *>(__cvta_local_to_generic(at));
#pragma unroll
    for (unsigned j = 0; j < Kept; j++)
        kept[j] = x + static_cast<float>(j);
#pragma unroll
    for (unsigned j = Kept; j < VALUES; j++)
        spilled[j - Kept] = x + static_cast<float>(j);
#pragma unroll 1
    for (unsigned k = 0; k < steps; k++) {
#pragma unroll
        for (unsigned j = 0; j < Kept; j++)
            kept[j] = fmaf(kept[j], 0.5f, x);
#pragma unroll
        for (unsigned j = Kept; j < VALUES; j++) {
            spilled[j - Kept] = fmaf(spilled[j - Kept], 0.5f, x);
            asm volatile("" ::: "memory"); // one by one, and from memory again in the next step
        }
    }
    float sum = 0;
#pragma unroll
    for (unsigned j = 0; j < Kept; j++)
        sum += kept[j];
#pragma unroll
    for (unsigned j = Kept; j < VALUES; j++) {
        sum += spilled[j - Kept];
        asm volatile("" ::: "memory");
    }
    to[i] = sum;
}

// --- trees: a level of a tree of any degree; with degree n, one thread adds all.

extern "C" __global__ void micro_tree(const unsigned *from, unsigned *to, uint64 n, uint64 degree) {
    const uint64 k = global_thread();
    if (k * degree >= n)
        return;
    const uint64 end = min((k + 1) * degree, n);
    unsigned sum = from[k * degree];
    for (uint64 i = k * degree + 1; i < end; i++)
        sum += from[i];
    to[k] = sum;
}

// --- block_size

extern "C" __global__ void micro_grid_stride(const float *from, float *to, uint64 n) {
    for (uint64 i = global_thread(); i < n; i += global_threads())
        to[i] = from[i];
}

// --- kernels in several forms

#define WIDE(width)                                                                   \
    extern "C" __global__ void micro_wide_##width(const words<width>::type *from,     \
                                                  words<width>::type *to, uint64 n) { \
        wide(from, to, n);                                                            \
    }
#define ILP(count)                                                                          \
    extern "C" __global__ void micro_ilp_fma_##count(const float *from, float *to, float b, \
                                                     float c, unsigned steps) {             \
        chains<count, true>(from, to, b, c, steps);                                         \
    }                                                                                       \
    extern "C" __global__ void micro_ilp_mul_##count(const float *from, float *to, float b, \
                                                     float c, unsigned steps) {             \
        chains<count, false>(from, to, b, c, steps);                                        \
    }
#define COPY(width, accesses)                                                                      \
    extern "C" __global__ void micro_copy_##width##_##accesses(const words<width>::type *from,     \
                                                               words<width>::type *to, uint64 n) { \
        copy<width, accesses>(from, to, n);                                                        \
    }
#define FUNCTION(name, accurate, fast)                                                         \
    struct name##_accurate {                                                                   \
        static __device__ float of(float x, float y) { return (void)y, accurate; }             \
    };                                                                                         \
    struct name##_fast {                                                                       \
        static __device__ float of(float x, float y) { return (void)y, fast; }                 \
    };                                                                                         \
    extern "C" __global__ void micro_##name##_accurate(const float *from, float *to, uint64 n, \
                                                       float y, float dx, unsigned steps) {    \
        evaluate<name##_accurate>(from, to, n, y, dx, steps);                                  \
    }                                                                                          \
    extern "C" __global__ void micro_##name##_fast(const float *from, float *to, uint64 n,     \
                                                   float y, float dx, unsigned steps) {        \
        evaluate<name##_fast>(from, to, n, y, dx, steps);                                      \
    }
#define LITERAL(map)                                                               \
    extern "C" __global__ void micro_##map(const float *from, float *to, uint64 n, \
                                           unsigned steps) {                       \
        iterate<map>(from, to, n, steps);                                          \
    }
#define CAP(most)                                                                            \
    extern "C" __global__ void __maxnreg__(most)                                             \
        micro_registers_cap_##most(const float *from, float *to, uint64 n, unsigned steps) { \
        pressure<0>(from, to, n, steps);                                                     \
    }
#define SPILLED(spilled)                                                                       \
    extern "C" __global__ void micro_registers_spilled_##spilled(const float *from, float *to, \
                                                                 uint64 n, unsigned steps) {   \
        pressure<spilled>(from, to, n, steps);                                                 \
    }

MICRO_WIDTHS(WIDE)
MICRO_CHAINS(ILP)
MICRO_COPIES(COPY)
MICRO_FUNCTIONS(FUNCTION)
LITERAL(literal_double)
LITERAL(literal_float)
MICRO_CAPS(CAP)
MICRO_SPILLED(SPILLED)

#undef WIDE
#undef ILP
#undef COPY
#undef FUNCTION
#undef LITERAL
#undef CAP
#undef SPILLED

} // namespace micro

#endif
