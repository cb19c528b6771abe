// roofline.cu: kernels that measure a GPU's ceilings, with which everything else is compared. Knows
// no ladder.
//
// All receive (from, to, n, repeats): n words of 4 bytes and an output. Their arithmetic is exact,
// on integers, so that every result has one correct value, which the Python side computes.
//
// To add a ceiling: a row in RUNGS, its kernel below, and its expected result in gpuopt/measure.

#define ROOFLINE_SIGNATURES(SIGNATURE) SIGNATURE(words, uint32, uint32)

#ifdef GPUOPT_RUNGS
// clang-format off
//   number, name, kernel, lesson, source,
//   threads per block (least, most, default), words of output per thread (0: a loop),
//   flags, the deck's time: it gives none
RUNG(0, "copy", "roofline_copy",
     "a plain copy: the bandwidth of a kernel that only reads and writes",
     "D1 compare with a copy", 32, 1024, 128, 4, RUNG_BEST, 0)
RUNG(-1, "read", "roofline_read",
     "sums all words, eight loads of 16 bytes in flight per thread; repeated, from the L2 cache",
     "D2 bandwidth", 256, 256, 256, 0, 0, 0)
RUNG(-1, "write", "roofline_write",
     "stores of 16 bytes, and no loads",
     "D2 bandwidth", 32, 1024, 64, 16, 0, 0)
RUNG(-1, "shared", "roofline_shared",
     "loads of 16 bytes from shared memory without bank conflicts",
     "D2 shared memory: 4 bytes a bank and clock", 256, 256, 256, 0, 0, 0)
RUNG(-1, "fma-float64", "roofline_fma_float64",
     "independent chains of fused multiply-adds, in registers",
     "D2 chains of a = a * b + c", 256, 256, 256, 16, 0, 0)
RUNG(-1, "fma-float32", "roofline_fma_float32",
     "independent chains of fused multiply-adds, in registers",
     "D2 chains of a = a * b + c", 256, 256, 256, 8, 0, 0)
RUNG(-1, "fma-float16", "roofline_fma_float16",
     "the same on pairs of half precision, two to a word",
     "D2 chains of a = a * b + c", 256, 256, 256, 8, 0, 0)
RUNG(-1, "mma-float16", "roofline_mma_float16",
     "tensor cores: products of 16 x 16 and 16 x 8 halves, added up in float32 (mma.sync)",
     "PTX ISA, mma", 256, 256, 256, 16, 0, 0)
// clang-format on
#else

#include "common.cuh"

namespace roofline {

// 16 bytes per thread; the last block copies the rest word by word (TUNING.md V3).
__device__ inline void copy(const uint32_t *from, uint32_t *to, uint64 n) {
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * 4;
    if (first + blockDim.x * 4 <= n) {
        const uint4 *from4 = reinterpret_cast<const uint4 *>(from + first);
        reinterpret_cast<uint4 *>(to + first)[threadIdx.x] = from4[threadIdx.x];
    } else {
        for (uint64 i = first + threadIdx.x; i < n; i += blockDim.x)
            to[i] = from[i];
    }
}

constexpr unsigned VECTORS = 4;

// Sets word i to from[0] + i.
__device__ inline void write(const uint32_t *from, uint32_t *to, uint64 n) {
    const uint32_t base = from[0];
    const uint64 first = static_cast<uint64>(blockIdx.x) * blockDim.x * VECTORS * 4;
    if (first + blockDim.x * VECTORS * 4 <= n) {
        uint4 *to4 = reinterpret_cast<uint4 *>(to + first);
#pragma unroll
        for (unsigned k = 0; k < VECTORS; k++) {
            const unsigned vector = k * blockDim.x + threadIdx.x;
            const uint32_t word = base + static_cast<uint32_t>(first) + 4 * vector;
            to4[vector] = make_uint4(word, word + 1, word + 2, word + 3);
        }
    } else {
        for (uint64 i = first + threadIdx.x; i < n; i += blockDim.x)
            to[i] = base + static_cast<uint32_t>(i);
    }
}

// Stores the sum of all threads' words, modulo 2^32, as the block's word.
__device__ inline void write_block_sum(uint32_t sum, uint32_t *to) {
    __shared__ uint32_t sums[32];
    for (unsigned step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned warp = 1; warp < blockDim.x / 32; warp++)
            sum += sums[warp];
        to[blockIdx.x] = sum;
    }
}

// n is a multiple of 4, and a power of two if it is read more than once. The loads bypass L1
// (ld.global.cg), so that repeated reads come from L2.
constexpr unsigned IN_FLIGHT = 8;

__device__ inline void read(const uint32_t *from, uint32_t *to, uint64 n, uint64 repeats) {
    const uint4 *from4 = reinterpret_cast<const uint4 *>(from);
    const uint64 vectors = n / 4 * repeats, mask = repeats > 1 ? n / 4 - 1 : ~0ull;
    const uint64 threads = global_threads();
    uint32_t even = 0, odd = 0;
    uint64 i = global_thread();
    for (; i + (IN_FLIGHT - 1) * threads < vectors; i += IN_FLIGHT * threads) {
        uint4 item[IN_FLIGHT];
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            item[k] = __ldcg(from4 + (i + k * threads & mask));
#pragma unroll
        for (unsigned k = 0; k < IN_FLIGHT; k++) {
            even += item[k].x + item[k].y;
            odd += item[k].z + item[k].w;
        }
    }
    for (; i < vectors; i += threads) {
        const uint4 item = __ldcg(from4 + (i & mask));
        even += item.x + item.y;
        odd += item.z + item.w;
    }
    write_block_sum(even + odd, to);
}

// A load that the compiler neither removes nor moves out of its loop.
__device__ inline uint4 load_shared(const uint4 *from) {
    uint4 item;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(item.x), "=r"(item.y), "=r"(item.z), "=r"(item.w)
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))));
    return item;
}

// Every block reads the same tile of n = 4,096 words, `repeats` times.
constexpr unsigned TILE = 1024; // 16 bytes each
constexpr unsigned THREADS = 256;

__device__ inline void shared(const uint32_t *from, uint32_t *to, uint64 repeats) {
    __shared__ uint4 tile[TILE];
    for (unsigned i = threadIdx.x; i < TILE; i += THREADS)
        tile[i] = reinterpret_cast<const uint4 *>(from)[i];
    __syncthreads();
    uint32_t even = 0, odd = 0;
#pragma unroll 4
    for (uint64 repeat = 0; repeat < repeats; repeat++) {
#pragma unroll
        for (unsigned i = 0; i < TILE; i += THREADS) {
            const uint4 item = load_shared(tile + i + threadIdx.x);
            even += item.x + item.y;
            odd += item.z + item.w;
        }
    }
    write_block_sum(even + odd, to);
}

struct pair_of_halves {
    uint32_t bits;
};

__device__ inline float fused(float x, float b, float c) { return fmaf(x, b, c); }
__device__ inline double fused(double x, double b, double c) { return fma(x, b, c); }
__device__ inline pair_of_halves fused(pair_of_halves x, pair_of_halves b, pair_of_halves c) {
    pair_of_halves y;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y.bits) : "r"(x.bits), "r"(b.bits), "r"(c.bits));
    return y;
}

// `from` begins with three numbers, of which b is the second; the rest are the chains' first
// values, repeated. An output element is a chain's value after `repeats` steps, an even number.
// Eight chains: twice the number that covers a latency of 4 cycles with one warp a scheduler. One
// register is factor and summand: the registers supply two float64 operands in a multiply-add's two
// cycles, and a third takes one more (TUNING.md M23).
constexpr unsigned CHAINS = 8;

template <class T>
__device__ inline void multiply_add(const uint32_t *from, uint32_t *to, uint64 n, uint64 repeats) {
    const T *values = reinterpret_cast<const T *>(from);
    const uint64 firsts = n * sizeof *from / sizeof(T) - 3;
    const T b = values[1];
    T x[CHAINS];
#pragma unroll
    for (unsigned k = 0; k < CHAINS; k++)
        x[k] = values[3 + (global_thread() + k * global_threads()) % firsts];
#pragma unroll 8
    for (uint64 step = 0; step < repeats / 2; step++) {
#pragma unroll
        for (unsigned k = 0; k < 2 * CHAINS; k++)
            x[k % CHAINS] = fused(x[k % CHAINS], b, b);
    }
#pragma unroll
    for (unsigned k = 0; k < CHAINS; k++)
        reinterpret_cast<T *>(to)[global_thread() + k * global_threads()] = x[k];
}

// d += a b: 16 x 16 halves times 16 x 8 halves into 16 x 8 floats, by one warp. PTX ISA, "Matrix
// Fragments for mma.m16n8k16"; on Turing it takes two instructions.
__device__ inline void multiply_matrices(float d[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
    for (unsigned half = 0; half < 2; half++)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

// `from`: a, row by row; b, column by column; then the sums' first values, repeated. The output is
// four matrices of 16 x 8 a warp, row by row: a b, added `repeats` times to their first values.
constexpr unsigned A_WORDS = 16 * 16 / 2, B_WORDS = 16 * 8 / 2, PRODUCTS = 4;

__device__ inline void multiply_tiles(const uint32_t *from, uint32_t *to, uint64 n,
                                      uint64 repeats) {
    const unsigned group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    const uint64 firsts = n - A_WORDS - B_WORDS;
    const uint32_t *b_words = from + A_WORDS;
    const float *first = reinterpret_cast<const float *>(b_words + B_WORDS);
    const uint32_t a[4] = {from[8 * group + member], from[8 * (group + 8) + member],
                           from[8 * group + member + 4], from[8 * (group + 8) + member + 4]};
    const uint32_t b[2] = {b_words[8 * group + member], b_words[8 * group + member + 4]};
    // Sum j of product k is in rows `group` and `group` + 8, two adjacent columns.
    const auto word_of = [&](unsigned k, unsigned j) {
        return (global_thread() / 32 * PRODUCTS + k) * 128 + (group + j / 2 * 8) * 8 + 2 * member +
               j % 2;
    };
    float d[PRODUCTS][4];
#pragma unroll
    for (unsigned k = 0; k < PRODUCTS; k++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            d[k][j] = first[word_of(k, j) % firsts];
#pragma unroll 8
    for (uint64 repeat = 0; repeat < repeats; repeat++)
#pragma unroll
        for (unsigned k = 0; k < PRODUCTS; k++)
            multiply_matrices(d[k], a, b);
#pragma unroll
    for (unsigned k = 0; k < PRODUCTS; k++)
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
            reinterpret_cast<float *>(to)[word_of(k, j)] = d[k][j];
}

#define CEILING(name, bound, ...)                                                              \
    extern "C" __global__ void __launch_bounds__(bound) roofline_##name##_words_uint32_uint32( \
        const uint32_t *from, uint32_t *to, uint64 n, uint64 repeats) {                        \
        __VA_ARGS__;                                                                           \
    }
CEILING(copy, 1024, copy(from, to, n))
CEILING(read, 256, read(from, to, n, repeats))
CEILING(write, 1024, write(from, to, n))
CEILING(shared, THREADS, shared(from, to, repeats))
CEILING(fma_float64, 256, multiply_add<double>(from, to, n, repeats))
CEILING(fma_float32, 256, multiply_add<float>(from, to, n, repeats))
CEILING(fma_float16, 256, multiply_add<pair_of_halves>(from, to, n, repeats))
CEILING(mma_float16, 256, multiply_tiles(from, to, n, repeats))
#undef CEILING

} // namespace roofline

#endif
