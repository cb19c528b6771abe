/* cpu_transpose_turn.h: tiles of the transpose's rung `simd`, turned in vector registers into a
 * buffer whose rows are TALL bytes apart. Knows no matrix.
 */
#pragma once

#include "cpu_isa.h"
#include "cpu_turn.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    WIDE = HOST_LINE, /* bytes of an input row in a tile: every line is read once */
    TALL = 256,       /* bytes of an output row in a tile */
};

/* patch_<bits>_<isa>: N columns of elements of 16 bytes together, with a vector's number of rows.
 * Register i holds rows i, i + N, i + 2 N... side by side, and log2(N) rounds of interleaving
 * register i with i + N / 2 turn them into columns. */
#if defined(__x86_64__)
typedef __m128i vector_16;
typedef __m256i vector_32;
typedef __m512i vector_64;
#define PIECE(at) _mm_loadu_si128((const __m128i *)(at))
#define GATHER_16(at, next) PIECE(at)
#define GATHER_32(at, next) \
    _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE(at)), PIECE((at) + (next)), 1)
#define GATHER_64(at, next)                                         \
    _mm512_inserti64x4(_mm512_castsi256_si512(GATHER_32(at, next)), \
                       GATHER_32((at) + 2 * (next), next), 1)
#define PATCH(isa, target, bytes, prefix, here, bits)                                  \
    target CPU_INLINE void patch_##bits##_##isa(const char *in, size_t row, char *out, \
                                                size_t out_row) {                      \
        enum { N = 128 / bits, ROUNDS = N == 16 ? 4 : N == 8 ? 3 : N == 4 ? 2 : 1 };   \
        vector_##bytes a[N], b[N];                                                     \
        for (int i = 0; i < N; i++)                                                    \
            a[i] = GATHER_##bytes(in + (size_t)i * row, N * row);                      \
        for (int round = 0; round < ROUNDS; round++) {                                 \
            for (int i = 0; i < N / 2; i++) {                                          \
                b[2 * i] = prefix##_unpacklo_epi##bits(a[i], a[i + N / 2]);            \
                b[2 * i + 1] = prefix##_unpackhi_epi##bits(a[i], a[i + N / 2]);        \
            }                                                                          \
            for (int i = 0; i < N; i++)                                                \
                a[i] = b[i];                                                           \
        }                                                                              \
        for (int i = 0; i < N; i++)                                                    \
            memcpy(out + i * out_row, &a[i], bytes);                                   \
    }
#else
#define PATCH(isa, target, bytes, prefix, here, bits)                                             \
    CPU_INLINE void patch_##bits##_##isa(const char *in, size_t row, char *out, size_t out_row) { \
        for (int i = 0; i < 128 / bits; i++)                                                      \
            for (int j = 0; j < 128 / bits; j++)                                                  \
                memcpy(out + i * out_row + j * (bits / 8), in + (size_t)j * row + i * (bits / 8), \
                       bits / 8);                                                                 \
    }
#endif

/* An element of 16 bytes is a patch by itself. */
#define PATCH_128(isa, target, bytes, prefix, here, unused)                       \
    target CPU_INLINE void patch_128_##isa(const char *in, size_t row, char *out, \
                                           size_t out_row) {                      \
        (void)out_row;                                                            \
        for (size_t i = 0; i < bytes / 16; i++)                                   \
            memcpy(out + 16 * i, in + i * row, 16);                               \
    }

/* turn_<bits>_<isa>: transposes a tile into its buffer by patches, the last of which overlap those
 * before; a narrow matrix element by element. */
#define TURN(isa, target, vector, prefix, here, bits)                                       \
    target static void turn_##bits##_##isa(const char *in, size_t row, size_t rows,         \
                                           size_t columns, char *out, size_t out_row) {     \
        enum { BYTES = bits / 8, HIGH = vector / BYTES, BROAD = PATCH_SIDE / BYTES };       \
        size_t r = 0;                                                                       \
        if (rows < BROAD || columns < BROAD) {                                              \
            for (size_t c = 0; c < columns; c++)                                            \
                for (r = 0; r < rows; r++)                                                  \
                    memcpy(out + c * out_row + r * BYTES, in + r * row + c * BYTES, BYTES); \
            return;                                                                         \
        }                                                                                   \
        for (; r + HIGH <= rows; r += HIGH)                                                 \
            for (size_t c = 0; c < columns; c += BROAD) {                                   \
                const size_t left = c + BROAD <= columns ? c : columns - BROAD;             \
                patch_##bits##_##isa(in + r * row + left * BYTES, row,                      \
                                     out + left * out_row + r * BYTES, out_row);            \
            }                                                                               \
        for (; r < rows; r += BROAD) {                                                      \
            const size_t top = r + BROAD <= rows ? r : rows - BROAD;                        \
            for (size_t c = 0; c < columns; c += BROAD) {                                   \
                const size_t left = c + BROAD <= columns ? c : columns - BROAD;             \
                patch_##bits##_baseline(in + top * row + left * BYTES, row,                 \
                                        out + left * out_row + top * BYTES, out_row);       \
            }                                                                               \
        }                                                                                   \
    }
#define PATCHES_AND_TURNS(bits) \
    CPU_ISAS(PATCH, bits)       \
    CPU_ISAS(TURN, bits)
PATCHES_AND_TURNS(8)
PATCHES_AND_TURNS(16)
PATCHES_AND_TURNS(32)
PATCHES_AND_TURNS(64)
CPU_ISAS(PATCH_128, unused)
CPU_ISAS(TURN, 128)

/* Narrow matrices: a few planes on one side, whose elements are contiguous on the other side. As
 * many 16-byte vectors as there are planes hold the same elements on both sides; each consists of
 * bytes of all those across. `deal` converts the single run to planes TALL apart, `mesh` converts
 * back from planes `row` apart; `units` vectors a plane, of which they return how many they have
 * done. */
enum { PLANES = 8 };

struct shuffles {
    uint8_t bytes[PLANES][PLANES][16]; /* of a vector, from one across; 128: none */
};

typedef size_t deal_function(const struct shuffles *shuffles, size_t planes, size_t units,
                             const char *in, char *out);
typedef size_t mesh_function(const struct shuffles *shuffles, size_t planes, size_t units,
                             const char *in, size_t row, char *out);

static void find_shuffles(struct shuffles *shuffles, size_t planes, size_t size, bool mesh) {
    memset(shuffles, 128, sizeof *shuffles);
    for (size_t plane = 0; plane < planes; plane++)
        for (size_t at = 0; at < 16; at++) { /* a byte of its vector */
            const size_t byte = (at / size * planes + plane) * size + at % size;
            if (mesh)
                shuffles->bytes[byte / 16][plane][byte % 16] = (uint8_t)at;
            else
                shuffles->bytes[plane][byte / 16][at] = (uint8_t)(byte % 16);
        }
}

#if defined(__x86_64__)
#define MASK_32(at) _mm256_broadcastsi128_si256(PIECE(at))
#define MASK_64(at) _mm512_broadcast_i32x4(PIECE(at))
#define PUT_16(at, a) _mm_storeu_si128((__m128i *)(at), a)
#define PUT_32(at, next, a) \
    PUT_16(at, _mm256_castsi256_si128(a)), PUT_16((at) + (next), _mm256_extracti128_si256(a, 1))
#define PUT_64(at, next, a)                      \
    PUT_32(at, next, _mm512_castsi512_si256(a)), \
        PUT_32((at) + 2 * (next), next, _mm512_extracti64x4_epi64(a, 1))
#define DEAL_AND_MESH(isa, target, vector, prefix, bits)                                           \
    target CPU_INLINE vector_##vector across_##isa(const vector_##vector *a,                       \
                                                   const uint8_t(*masks)[16], size_t planes) {     \
        vector_##vector found = prefix##_shuffle_epi8(a[0], MASK_##vector(masks[0]));              \
        for (size_t k = 1; k < planes; k++)                                                        \
            found =                                                                                \
                prefix##_or_si##bits(found, prefix##_shuffle_epi8(a[k], MASK_##vector(masks[k]))); \
        return found;                                                                              \
    }                                                                                              \
    target CPU_INLINE size_t deal_planes_##isa(const struct shuffles *shuffles, size_t planes,     \
                                               size_t units, const char *in, char *out) {          \
        enum { LANES = vector / 16 };                                                              \
        size_t unit = 0;                                                                           \
        for (; unit + LANES <= units; unit += LANES) {                                             \
            vector_##vector a[PLANES];                                                             \
            for (size_t k = 0; k < planes; k++)                                                    \
                a[k] = GATHER_##vector(in + 16 * (unit * planes + k), 16 * planes);                \
            for (size_t k = 0; k < planes; k++) {                                                  \
                const vector_##vector found = across_##isa(a, shuffles->bytes[k], planes);         \
                memcpy(out + k * TALL + 16 * unit, &found, vector);                                \
            }                                                                                      \
        }                                                                                          \
        return unit;                                                                               \
    }                                                                                              \
    target CPU_INLINE size_t mesh_planes_##isa(const struct shuffles *shuffles, size_t planes,     \
                                               size_t units, const char *in, size_t row,           \
                                               char *out) {                                        \
        enum { LANES = vector / 16 };                                                              \
        size_t unit = 0;                                                                           \
        for (; unit + LANES <= units; unit += LANES) {                                             \
            vector_##vector a[PLANES];                                                             \
            for (size_t k = 0; k < planes; k++)                                                    \
                memcpy(&a[k], in + k * row + 16 * unit, vector);                                   \
            for (size_t k = 0; k < planes; k++) {                                                  \
                const vector_##vector found = across_##isa(a, shuffles->bytes[k], planes);         \
                PUT_##vector(out + 16 * (unit * planes + k), 16 * planes, found);                  \
            }                                                                                      \
        }                                                                                          \
        return unit;                                                                               \
    }                                                                                              \
    /* A constant number of planes is unrolled. */                                                 \
    target static size_t deal_##isa(const struct shuffles *shuffles, size_t planes, size_t units,  \
                                    const char *in, char *out) {                                   \
        return planes == 2   ? deal_planes_##isa(shuffles, 2, units, in, out)                      \
               : planes == 3 ? deal_planes_##isa(shuffles, 3, units, in, out)                      \
               : planes == 4 ? deal_planes_##isa(shuffles, 4, units, in, out)                      \
                             : deal_planes_##isa(shuffles, planes, units, in, out);                \
    }                                                                                              \
    target static size_t mesh_##isa(const struct shuffles *shuffles, size_t planes, size_t units,  \
                                    const char *in, size_t row, char *out) {                       \
        return planes == 2   ? mesh_planes_##isa(shuffles, 2, units, in, row, out)                 \
               : planes == 3 ? mesh_planes_##isa(shuffles, 3, units, in, row, out)                 \
               : planes == 4 ? mesh_planes_##isa(shuffles, 4, units, in, row, out)                 \
                             : mesh_planes_##isa(shuffles, planes, units, in, row, out);           \
    }
DEAL_AND_MESH(avx2, CPU_AVX2, 32, _mm256, 256)
DEAL_AND_MESH(avx512, CPU_AVX512, 64, _mm512, 512)
static deal_function *const deals[CPU_ISA_COUNT] = {
    [CPU_ISA_avx2] = deal_avx2, [CPU_ISA_avx512] = deal_avx512};
static mesh_function *const meshes[CPU_ISA_COUNT] = {
    [CPU_ISA_avx2] = mesh_avx2, [CPU_ISA_avx512] = mesh_avx512};
#else
static deal_function *const deals[CPU_ISA_COUNT] = {NULL};
static mesh_function *const meshes[CPU_ISA_COUNT] = {NULL};
#endif
