/* cpu_axis_numbers.c: the cores of sums, products, counts and bits along an axis. Knows no shape.
 */
#include "cpu_axis.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES_OF(type) \
    (LANE_BYTES / (int)sizeof(type) < LANES ? LANES : LANE_BYTES / (int)sizeof(type))
#define ROW_LEAF LEAF
#define ROW_FEW FEW

/* --- sums; `key` masks an element when it is widened: all bits for unsigned, -1 for signed ones */

#define LOAD(x) ((NARROW)((NARROW)(x) & (NARROW)key))
#define COMBINE(a, b) ((NARROW)((a) + (b)))
#define APPLY(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))

#define NAME sum_int8
#define ITEM int8_t
#define NARROW int16_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"

#define NAME sum_int16
#define ITEM int16_t
#define NARROW int32_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"

#define NAME sum_int32
#define ITEM int32_t
#define NARROW int64_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"

#undef LOAD
#undef COMBINE
#define LOAD(x) (x)
#define COMBINE(a, b) APPLY(a, b)

#define NAME sum_int64
#define ITEM int64_t
#define NARROW int64_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#define IN_PLACE
#include "cpu_axis_template.h"

#undef APPLY
#define APPLY(a, b) ((a) + (b))

#if defined(__x86_64__)
/* Four rows by half vectors, which gcc would cut out of whole ones, and multiplications by 1, which
 * are exact: the units that add convert, too (TUNING.md C43). */
CPU_AVX2 static uint64_t add_fours(double *tile, const float *in, uint64_t columns, bool first,
                                   int64_t stride) {
    const __m256d one = _mm256_set1_pd(1);
    uint64_t k = 0;
    for (; k + 4 <= columns; k += 4) {
        __m256d sum = first ? _mm256_setzero_pd() : _mm256_loadu_pd(tile + k);
        for (int64_t r = 0; r < 4; r++)
            sum = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(in + r * stride + k)), one, sum);
        _mm256_storeu_pd(tile + k, sum);
    }
    return k;
}
#define ADDED(tile, in, columns, rows, first, stride) \
    (rows < 4 || cpu_isa() == CPU_ISA_baseline ? 0 : add_fours(tile, in, columns, first, stride))
#endif

#define NAME sum_float32
#define ITEM float
#define NARROW double
#define VALUE double
#define IDENTITY 0
#define MANY LANES
#define IN_PLACE
#include "cpu_axis_template.h"

#define NAME sum_float64
#define ITEM double
#define NARROW double
#define VALUE double
#define IDENTITY 0
#define MANY LANES
#define IN_PLACE
#include "cpu_axis_template.h"

#undef LOAD
/* (x >> 32) * 2^32 + the rest, which rounds once; `key` removes the sign extension of unsigned
 * elements. */
#define LOAD(x) \
    ((double)((x) >> 32 & (key | UINT32_MAX)) * 0x1p32 + (double)((x) & (int64_t)UINT32_MAX))

#define NAME sum_int64_float64
#define ITEM int64_t
#define NARROW double
#define VALUE double
#define IDENTITY 0
#define MANY LANES
#include "cpu_axis_template.h"

#undef LOAD
#define LOAD(x) (x)

/* --- products */

#undef APPLY
#define APPLY(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

#define NAME prod_int64
#define ITEM int64_t
#define NARROW int64_t
#define VALUE int64_t
#define IDENTITY 1
#define MANY LANES
#include "cpu_axis_template.h"

#undef APPLY
#define APPLY(a, b) ((a) * (b))

#define NAME prod_float32
#define ITEM float
#define NARROW double
#define VALUE double
#define IDENTITY 1
#define MANY LANES
#include "cpu_axis_template.h"

#define NAME prod_float64
#define ITEM double
#define NARROW double
#define VALUE double
#define IDENTITY 1
#define MANY LANES
#include "cpu_axis_template.h"

/* Columns of complex numbers, with separate real and imaginary parts: gcc does not vectorize
 * rounded_prod(), and does not fuse these parts. */
#define TILE_OF_COMPLEX(name, type)                                                              \
    CPU_INLINE void tile_##name(const struct axis_functions *functions, const struct part *part, \
                                const void *from, struct complex_double *restrict values) {      \
        const uint64_t rows = part->end - part->first, columns = part->columns;                  \
        const uint64_t together = part->copies ? LEAF / columns : rows;                          \
        const int64_t stride = part->copies ? (int64_t)columns : part->stride;                   \
        double real[TILE], imag[TILE];                                                           \
        for (uint64_t i = 0; i < columns; i++) {                                                 \
            real[i] = 1;                                                                         \
            imag[i] = 0;                                                                         \
        }                                                                                        \
        for (uint64_t r = 0; r < rows; r += together) {                                          \
            const uint64_t count = least(rows - r, together);                                    \
            const type *in = from;                                                               \
            if (part->copies) {                                                                  \
                in = axis_columns(functions, part, from, count);                                 \
                from = items_after(functions, from, (int64_t)count * part->stride);              \
            }                                                                                    \
            for (uint64_t k = 0; k < count; k++, in += stride)                                   \
                for (uint64_t i = 0; i < columns; i++) {                                         \
                    const double x = real[i], y = imag[i];                                       \
                    const double next = in[i].real, after = in[i].imag;                          \
                    real[i] = x * next - y * after;                                              \
                    imag[i] = x * after + y * next;                                              \
                }                                                                                \
        }                                                                                        \
        for (uint64_t i = 0; i < columns; i++)                                                   \
            values[i] = (struct complex_double){real[i], imag[i]};                               \
    }
TILE_OF_COMPLEX(prod_complex64, struct complex_single)
TILE_OF_COMPLEX(prod_complex128, struct complex_double)

#undef LOAD
#undef APPLY
#define LOAD(x) ((struct complex_double){(x).real, (x).imag})
#define APPLY(a, b) complex_prod(a, b)

#define NAME prod_complex64
#define ITEM struct complex_single
#define NARROW struct complex_double
#define VALUE struct complex_double
#define IDENTITY ((struct complex_double){1, 0})
#define MANY LANES
#define OWN_TILE
#include "cpu_axis_template.h"

#define NAME prod_complex128
#define ITEM struct complex_double
#define NARROW struct complex_double
#define VALUE struct complex_double
#define IDENTITY ((struct complex_double){1, 0})
#define MANY LANES
#define OWN_TILE
#include "cpu_axis_template.h"

/* --- counts of elements that have bits of `key` */

static bool settled_count(const void *value, uint64_t n, uint64_t finish) {
    const int64_t count = *(const int64_t *)value;
    return finish == ANY ? count != 0 : finish == ALL && count != (int64_t)n;
}

#undef LOAD
#undef COMBINE
#undef APPLY
#define LOAD(x) (((x) & (ITEM)key) != 0)
#define COMBINE(a, b) ((NARROW)((a) + (b)))
#define APPLY(a, b) ((a) + (b))

#define NAME count_int8
#define ITEM int8_t
#define NARROW uint8_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#define SETTLED settled_count
#include "cpu_axis_template.h"

#define NAME count_int16
#define ITEM int16_t
#define NARROW uint16_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#define SETTLED settled_count
#include "cpu_axis_template.h"

#define NAME count_int32
#define ITEM int32_t
#define NARROW uint32_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#define SETTLED settled_count
#include "cpu_axis_template.h"

#define NAME count_int64
#define ITEM int64_t
#define NARROW uint64_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#define SETTLED settled_count
#include "cpu_axis_template.h"

/* --- bits: `or` where `mask` is -1, `xor` where it is 0; `and` is `or` of complements */

#undef LOAD
#undef COMBINE
#undef APPLY
#undef ROW_LEAF
#define LOAD(x) ((ITEM)((x) ^ (ITEM)key))
#define COMBINE(a, b) APPLY(a, b)
#define APPLY(a, b) ((VALUE)((a) ^ (b) ^ ((a) & (b) & (VALUE)mask)))
#undef ROW_FEW
#define ROW_LEAF LONG_LEAF
#define ROW_FEW (LANES - 1) /* a chain of bits is three times as long as one of sums */

#define NAME bits_int8
#define ITEM int8_t
#define NARROW int8_t
#define VALUE int8_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"

#define NAME bits_int16
#define ITEM int16_t
#define NARROW int16_t
#define VALUE int16_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"

#define NAME bits_int32
#define ITEM int32_t
#define NARROW int32_t
#define VALUE int32_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"

#define NAME bits_int64
#define ITEM int64_t
#define NARROW int64_t
#define VALUE int64_t
#define IDENTITY 0
#define MANY LANES_OF(NARROW)
#include "cpu_axis_template.h"
