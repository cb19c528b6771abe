/* cpu_roofline.c: measures the limits of the CPU's caches, memory and arithmetic: the ceilings for
 * ladders. Arguments and results as in the kernels of roofline.cu, with one word of output for each
 * thread instead of each block. Knows no ladder.
 */

#define CPU_ROOFLINE_SIGNATURES(SIGNATURE) SIGNATURE(words, uint32, uint32)

#ifdef GPUOPT_RUNGS
/* clang-format off */
RUNG(-1, "memcpy", "cpu_roofline_memcpy",
     "all cores copy: the bandwidth of a kernel that only reads and writes",
     "D1 compare with a copy", 0, 0, 0, 0, RUNG_HOST | RUNG_BEST, 0)
RUNG(-1, "host-read", "cpu_roofline_read",
     "all cores sum words, each its own chunk; repeated, from a cache",
     "D2 bandwidth", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "host-write", "cpu_roofline_write",
     "all cores store words, each its own chunk; streaming stores in a single pass",
     "D2 bandwidth", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "host-fma-float32", "cpu_roofline_fma_float32",
     "all cores multiply and add, in vector registers",
     "D2 chains of a = a * b + c", 0, 0, 0, 0, RUNG_HOST, 0)
RUNG(-1, "host-fma-float64", "cpu_roofline_fma_float64",
     "all cores multiply and add, in vector registers",
     "D2 chains of a = a * b + c", 0, 0, 0, 0, RUNG_HOST, 0)
/* clang-format on */
#else

#include "../../float_state.h"
#include "cpu_kernels.h"
#include "cpu_machine.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    WORD = 4,
    PIECE = 1 << 24,       /* words of a thread between two polls */
    BATCH = 1 << 26,       /* the same, of words that stay in a cache */
    STEPS_A_POLL = 1 << 20 /* of multiply-add chains */
};

/* A thread's work on `count` words, `repeats` times. */
struct span {
    const uint32_t *from;
    uint32_t *to;
    uint64_t first, count; /* words, of the whole array */
    uint64_t repeats;
    uint32_t sum;
    bool streams; /* streaming stores */
};

/* --- memory: each as wide as the machine's vectors */

/* Hides from the compiler that repetitions are equal. */
#define BARRIER() __asm__ volatile("" ::: "memory")

/* Many sums (8 vectors): the additions must not wait for each other. */
#define READ_BODY                                                     \
    {                                                                 \
        uint32_t sums[128] = {0}, sum = 0;                            \
        const uint32_t *from = span->from + span->first;              \
        for (uint64_t repeat = 0; repeat < span->repeats; repeat++) { \
            uint64_t i = 0;                                           \
            for (; i + 128 <= span->count; i += 128)                  \
                for (int k = 0; k < 128; k++)                         \
                    sums[k] += from[i + (uint64_t)k];                 \
            for (; i < span->count; i++)                              \
                sum += from[i];                                       \
            BARRIER();                                                \
        }                                                             \
        for (int k = 0; k < 128; k++)                                 \
            sum += sums[k];                                           \
        span->sum += sum;                                             \
    }
/* A span has less than 2^32 words: compilers vectorize with a 32-bit counter. */
#define WRITE_BODY                                                    \
    {                                                                 \
        uint32_t *to = span->to + span->first;                        \
        const uint32_t base = span->from[0] + (uint32_t)span->first;  \
        const uint32_t count = (uint32_t)span->count;                 \
        for (uint64_t repeat = 0; repeat < span->repeats; repeat++) { \
            for (uint32_t i = 0; i < count; i++)                      \
                to[i] = base + i;                                     \
            BARRIER();                                                \
        }                                                             \
    }

static void read_any(struct span *span) READ_BODY
    static void write_any(struct span *span) WRITE_BODY

#if defined(__x86_64__)
    __attribute__((target("avx2"))) static void write_avx2(struct span *span) WRITE_BODY
    __attribute__((target("avx512f"))) static void write_avx512(struct span *span) WRITE_BODY

/* The loops of READ_BODY with their sums in registers, which not all compilers achieve. */
#define READ_X86(name, isa, vector, prefix, suffix)                                              \
    __attribute__((target(isa))) static void name(struct span *span) {                           \
        enum { LANES = sizeof(vector) / WORD };                                                  \
        vector sums[8];                                                                          \
        const uint32_t *from = span->from + span->first;                                         \
        uint32_t lanes[LANES], sum = 0;                                                          \
        for (int k = 0; k < 8; k++)                                                              \
            sums[k] = prefix##_setzero_##suffix();                                               \
        for (uint64_t repeat = 0; repeat < span->repeats; repeat++) {                            \
            uint64_t i = 0;                                                                      \
            for (; i + 8 * LANES <= span->count; i += 8 * LANES)                                 \
                for (int k = 0; k < 8; k++)                                                      \
                    sums[k] = prefix##_add_epi32(                                                \
                        sums[k], prefix##_loadu_##suffix((const void *)(from + i + k * LANES))); \
            for (; i < span->count; i++)                                                         \
                sum += from[i];                                                                  \
            BARRIER();                                                                           \
        }                                                                                        \
        for (int k = 0; k < 8; k++) {                                                            \
            prefix##_storeu_##suffix((void *)lanes, sums[k]);                                    \
            for (int lane = 0; lane < LANES; lane++)                                             \
                sum += lanes[lane];                                                              \
        }                                                                                        \
        span->sum += sum;                                                                        \
    }
    READ_X86(read_avx2, "avx2", __m256i, _mm256, si256)
        READ_X86(read_avx512, "avx512f", __m512i, _mm512, si512)

    /* Stores of 16 bytes that do not read the line first. */
    static void stream_write(struct span *span) {
    uint32_t *to = span->to + span->first;
    const uint32_t base = span->from[0] + (uint32_t)span->first;
    uint64_t i = 0;
    for (; i < span->count && (uintptr_t)(to + i) % 16; i++)
        to[i] = base + (uint32_t)i;
    const __m128i four = _mm_set1_epi32(4);
    const int word = (int)(base + (uint32_t)i);
    __m128i words = _mm_add_epi32(_mm_set1_epi32(word), _mm_setr_epi32(0, 1, 2, 3));
    for (; i + 4 <= span->count; i += 4) {
        _mm_stream_si128((__m128i *)(void *)(to + i), words);
        words = _mm_add_epi32(words, four);
    }
    for (; i < span->count; i++)
        to[i] = base + (uint32_t)i;
    _mm_sfence();
}

static void stream_copy(struct span *span) {
    const uint32_t *from = span->from + span->first;
    uint32_t *to = span->to + span->first;
    uint64_t i = 0;
    for (; i < span->count && (uintptr_t)(to + i) % 16; i++)
        to[i] = from[i];
    for (; i + 16 <= span->count; i += 16)
        for (uint64_t k = i; k < i + 16; k += 4)
            _mm_stream_si128((__m128i *)(void *)(to + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + k)));
    for (; i < span->count; i++)
        to[i] = from[i];
    _mm_sfence();
}
#endif

static void read_words(struct span *span) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        read_avx512(span);
    else if (__builtin_cpu_supports("avx2"))
        read_avx2(span);
    else
#endif
        read_any(span);
}

static void write_words(struct span *span) {
#if defined(__x86_64__)
    if (span->streams)
        stream_write(span);
    else if (__builtin_cpu_supports("avx512f"))
        write_avx512(span);
    else if (__builtin_cpu_supports("avx2"))
        write_avx2(span);
    else
#endif
        write_any(span);
}

static void copy_words(struct span *span) {
#if defined(__x86_64__)
    if (span->streams) {
        stream_copy(span);
        return;
    }
#endif
    for (uint64_t repeat = 0; repeat < span->repeats; repeat++) {
        memcpy(span->to + span->first, span->from + span->first, span->count * WORD);
        BARRIER();
    }
}

struct roofline_loop {
    void (*work)(struct span *span);
    bool sums; /* the output has one word a thread; else it is as long as the array */
};

static uint64_t threads_with_room(uint64_t room) {
    const uint64_t threads = (uint64_t)cpu_threads();
    return threads < room ? threads : room;
}

/* Arguments: from, to, words, repetitions, words of `to`. Each thread has its own chunk of the
 * array and processes it in pieces, or one piece repeatedly. */
static enum status cpu_memory(struct device *device, const struct cpu_kernel *kernel,
                              void **arguments) {
    const struct roofline_loop *loops = kernel->data;
    const uint32_t *from = (const uint32_t *)(uintptr_t) * (const device_address *)arguments[0];
    uint32_t *to = (uint32_t *)(uintptr_t) * (const device_address *)arguments[1];
    const uint64_t n = *(const uint64_t *)arguments[2], repeats = *(const uint64_t *)arguments[3];
    const uint64_t parts = threads_with_room(*(const uint64_t *)arguments[4]);
    const uint64_t part_words = (n + parts - 1) / parts;
    const uint64_t piece = part_words < PIECE ? part_words : PIECE;
    const uint64_t batch = part_words <= PIECE ? BATCH / piece : 1;
    if (loops->sums)
        memset(to, 0, *(const uint64_t *)arguments[4] * WORD);
    for (uint64_t done = 0; done < repeats; done += batch)
        for (uint64_t at = 0; at < part_words; at += piece) {
#pragma omp parallel for num_threads((int)parts) if (parts > 1) schedule(static, 1)
            for (uint64_t part = 0; part < parts; part++) {
                const uint64_t begin = part * part_words + at, left = part_words - at;
                struct span span = {
                    .from = from, .to = to, .first = begin, .streams = repeats == 1};
                span.count = left < piece ? left : piece;
                span.repeats = repeats - done < batch ? repeats - done : batch;
                if (begin >= n)
                    continue;
                if (span.count > n - begin)
                    span.count = n - begin;
                const float_state before = float_state_enter();
                loops->work(&span);
                float_state_leave(before);
                if (loops->sums)
                    to[part] += span.sum;
            }
            const enum status status = device_poll(device);
            if (status)
                return status;
        }
    return STATUS_OK;
}

/* --- arithmetic */

/* A thread's chains, with an even number of `steps` each; their first and last values. */
enum { CHAIN_BYTES = 12 * 64 }; /* twelve vector registers, of the widest */
typedef void (*chains_function)(void *x, const void *constants, uint64_t steps);

/* The fallback: the compiler's own vectors, and a separately rounded product, which is exact in
 * these chains. */
#define CHAINS_ANY(type)                                                               \
    static void chains_##type##_any(void *x_, const void *constants, uint64_t steps) { \
        type *x = x_, y[CHAIN_BYTES / sizeof(type)];                                   \
        const type *c = constants;                                                     \
        memcpy(y, x, sizeof y);                                                        \
        for (uint64_t step = 0; step < steps; step++)                                  \
            for (unsigned k = 0; k < CHAIN_BYTES / sizeof(type); k++)                  \
                y[k] = y[k] * c[0] + c[1 + step % 2];                                  \
        memcpy(x, y, sizeof y);                                                        \
    }
CHAINS_ANY(float)
CHAINS_ANY(double)

#if defined(__x86_64__)
#define CHAINS_X86(name, isa, type, vector, prefix, suffix)                               \
    __attribute__((target(isa))) static void name(void *x_, const void *constants,        \
                                                  uint64_t steps) {                       \
        enum { LANES = sizeof(vector) / sizeof(type), CHAINS = 12 };                      \
        const type *c = constants;                                                        \
        const vector b = prefix##_set1_##suffix(c[0]), c0 = prefix##_set1_##suffix(c[1]), \
                     c1 = prefix##_set1_##suffix(c[2]);                                   \
        for (unsigned part = 0; part < CHAIN_BYTES / sizeof(vector) / CHAINS; part++) {   \
            type *x = (type *)x_ + part * CHAINS * LANES;                                 \
            vector y[CHAINS];                                                             \
            for (int k = 0; k < CHAINS; k++)                                              \
                y[k] = prefix##_loadu_##suffix(x + k * LANES);                            \
            for (uint64_t step = 0; step < steps; step += 2) {                            \
                for (int k = 0; k < CHAINS; k++)                                          \
                    y[k] = prefix##_fmadd_##suffix(y[k], b, c0);                          \
                for (int k = 0; k < CHAINS; k++)                                          \
                    y[k] = prefix##_fmadd_##suffix(y[k], b, c1);                          \
            }                                                                             \
            for (int k = 0; k < CHAINS; k++)                                              \
                prefix##_storeu_##suffix(x + k * LANES, y[k]);                            \
        }                                                                                 \
    }
CHAINS_X86(chains_float_avx2, "avx2,fma", float, __m256, _mm256, ps)
CHAINS_X86(chains_double_avx2, "avx2,fma", double, __m256d, _mm256, pd)
CHAINS_X86(chains_float_avx512, "avx512f", float, __m512, _mm512, ps)
CHAINS_X86(chains_double_avx512, "avx512f", double, __m512d, _mm512, pd)
#endif

static chains_function chains(size_t size) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return size == sizeof(float) ? chains_float_avx512 : chains_double_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return size == sizeof(float) ? chains_float_avx2 : chains_double_avx2;
#endif
    return size == sizeof(float) ? chains_float_any : chains_double_any;
}

/* Arguments: from (b, two c, and the chains' first values), to (a multiple of CHAIN_BYTES), words
 * of `from`, steps. */
static enum status cpu_chains(struct device *device, const struct cpu_kernel *kernel,
                              void **arguments) {
    const size_t size = *(const size_t *)kernel->data;
    const char *from = (const char *)(uintptr_t) * (const device_address *)arguments[0];
    char *to = (char *)(uintptr_t) * (const device_address *)arguments[1];
    const uint64_t n = *(const uint64_t *)arguments[2], steps = *(const uint64_t *)arguments[3];
    const uint64_t firsts = n * WORD / size - 3, items = CHAIN_BYTES / size;
    const uint64_t parts = threads_with_room(*(const uint64_t *)arguments[4] * WORD / CHAIN_BYTES);
    for (uint64_t item = 0; item < parts * items; item++)
        memcpy(to + item * size, from + (3 + item % firsts) * size, size);
    for (uint64_t done = 0; done < steps; done += STEPS_A_POLL) {
        const uint64_t now = steps - done < STEPS_A_POLL ? steps - done : STEPS_A_POLL;
#pragma omp parallel for num_threads((int)parts) if (parts > 1) schedule(static, 1)
        for (uint64_t part = 0; part < parts; part++)
            chains(size)(to + part * CHAIN_BYTES, from, now);
        const enum status status = device_poll(device);
        if (status)
            return status;
    }
    return STATUS_OK;
}

static const struct roofline_loop copier = {copy_words, false}, reader = {read_words, true},
                                  writer = {write_words, false};
static const size_t float32_size = sizeof(float), float64_size = sizeof(double);

const struct cpu_kernel cpu_roofline_kernels[] = {
    {"cpu_roofline_memcpy_words_uint32_uint32", cpu_memory, &copier, true},
    {"cpu_roofline_read_words_uint32_uint32", cpu_memory, &reader, true},
    {"cpu_roofline_write_words_uint32_uint32", cpu_memory, &writer, true},
    {"cpu_roofline_fma_float32_words_uint32_uint32", cpu_chains, &float32_size, true},
    {"cpu_roofline_fma_float64_words_uint32_uint32", cpu_chains, &float64_size, true},
};
const size_t cpu_roofline_kernel_count = sizeof cpu_roofline_kernels / sizeof *cpu_roofline_kernels;

#endif
