/* cpu_isa.h: the instruction sets that the rung `simd` is compiled for. Each has one source: a body
 * that is inlined into a function for every set, or a macro expanded for every set; the choice is
 * made once, when the first queue is opened. The number of lanes of a sum belongs to the family,
 * not to the set: every set returns the same bits.
 */
#ifndef GPUOPT_CPU_ISA_H
#define GPUOPT_CPU_ISA_H

#include "../../gpuopt.h"

/* ISA(name, the functions' attribute, bytes of a vector, prefix of its intrinsics, whether this CPU
 * has it, ...), the narrowest first; further arguments are passed on. CPU_ISAS_TO_32: those of
 * vectors up to 32 bytes. */
#if defined(__x86_64__)
#ifdef __clang__
#define CPU_WHOLE_VECTORS
#else
#define CPU_WHOLE_VECTORS ",prefer-vector-width=512"
#endif
#define CPU_AVX2 __attribute__((target("avx2,fma")))
#define CPU_AVX512 \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl" CPU_WHOLE_VECTORS)))
#define CPU_ISAS_TO_32(ISA, ...)                \
    ISA(baseline, , 16, _mm, true, __VA_ARGS__) \
    ISA(avx2, CPU_AVX2, 32, _mm256,             \
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), __VA_ARGS__)
#define CPU_ISAS(ISA, ...)                                                              \
    CPU_ISAS_TO_32(ISA, __VA_ARGS__)                                                    \
    ISA(avx512, CPU_AVX512, 64, _mm512,                                                 \
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&      \
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && \
            __builtin_cpu_supports("fma"),                                              \
        __VA_ARGS__)
#else
#define CPU_ISAS_TO_32(ISA, ...) ISA(baseline, , 16, , true, __VA_ARGS__)
#define CPU_ISAS CPU_ISAS_TO_32
#endif

#define CPU_INLINE static inline __attribute__((always_inline))
#define CPU_APART __attribute__((noinline)) /* not worth a copy for every set */

/* For strided elements: gcc would assemble vectors of them, which takes longer than one by one. */
#ifdef __clang__
#define CPU_SCALAR CPU_APART
#else
#define CPU_SCALAR __attribute__((noinline, optimize("no-tree-vectorize")))
#endif

enum { CPU_LINE = 64 }; /* bytes of a cache line */

/* A rounded product: gcc would fuse the four products of a complex one with their sum and
 * difference (vfmaddsub), even where -ffp-contract=off forbids it. */
static inline double rounded_prod(double a, double b) {
    double prod = a * b;
#if defined(__x86_64__)
    __asm__("" : "+x"(prod));
#endif
    return prod;
}

enum cpu_isa {
#define ISA(name, target, bytes, prefix, here, unused) CPU_ISA_##name,
    CPU_ISAS(ISA, unused)
#undef ISA
        CPU_ISA_COUNT
};

/* Chooses the set that GPUOPT_CPU_ISA names, else the widest that this CPU has; once. Fails if the
 * variable names an unknown or unsupported set. */
enum status cpu_isa_choose(void);
enum cpu_isa cpu_isa(void); /* after cpu_isa_choose() */
const char *cpu_isa_name(void);

#endif
