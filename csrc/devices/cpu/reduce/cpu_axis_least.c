/* cpu_axis_least.c: the cores of min and argmin along an axis. `key` maps other orders to that of
 * signed elements: max is min of complements, unsigned elements have their first bit flipped,
 * floats their sign. Min ignores an integer's bits of `mask`. argmin finds the value first and then
 * its element. Knows no shape.
 */
#include "cpu_axis.h"
#include "cpu_keyed.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#define COMBINE(a, b) APPLY(a, b)
#define ROW_LEAF LONG_LEAF
#define ROW_FEW FEW

#define PASTED_(a, b) a##_##b
#define PASTED(a, b) PASTED_(a, b)

#define KEYED(x) ((ITEM)((x) ^ (ITEM)key))
#define LOAD(x) KEYED((x) & (ITEM)~mask)
#define LESSER(a, b) ((b) < (a) ? (b) : (a))
#define SIGN_OF(x) 0
#define LEAST(value, signs) (value)
#define IS_NAN(x) false
#define NOT_A_NUMBER 0
#define EITHER_NAN(x, y) false
#define EXACT true

/* The first byte of this value, or NULL; often among the first 16. Fewer are compared at once, too:
 * the first and the last 8 of them, which may overlap. */
static inline const void *find_byte(const void *in, int8_t value, uint64_t n) {
#if defined(__x86_64__)
    const char *items = in;
    if (n >= 8) {
        const __m128i first =
            n >= 16 ? _mm_loadu_si128(in)
                    : _mm_unpacklo_epi64(_mm_loadl_epi64(in),
                                         _mm_loadl_epi64((const __m128i *)(items + n - 8)));
        const int found = _mm_movemask_epi8(_mm_cmpeq_epi8(first, _mm_set1_epi8(value)));
        const int at = found ? __builtin_ctz((unsigned)found) : 0;
        if (found)
            return items + (n >= 16 || at < 8 ? (uint64_t)at : n - 16 + (uint64_t)at);
        if (n < 16)
            return NULL;
    }
#endif
    return memchr(in, (uint8_t)value, n);
}

enum { MANY_BYTES = 256 }; /* of a run's lanes together */
enum { FIRST_BYTES = 16 }; /* of a row that is copied, which are searched before the others are */

/* Lanes of a row that is searched in one pass, WIDER times as many if it is longer, and its
 * elements at most: their indices are as wide (TUNING.md C10). */
enum { WIDER = 2 };
#define WIDTH_OF(type) (sizeof(type) == 1 ? 16 : 128 / (int)sizeof(type))
#define SHORT_MOST(type) (sizeof(type) > 1 ? 16384 : INT8_MAX)

#define TYPE int8
#define ITEM_TYPE int8_t
#define INDEX int8_t
#define HIGHEST INT8_MAX
#define ENDS(x) ((x) == INT8_MIN)
#include "cpu_axis_least_template.h"

#define TYPE int16
#define ITEM_TYPE int16_t
#define INDEX int16_t
#define HIGHEST INT16_MAX
#define ENDS(x) ((x) == INT16_MIN)
#include "cpu_axis_least_template.h"

#define TYPE int32
#define ITEM_TYPE int32_t
#define INDEX int32_t
#define HIGHEST INT32_MAX
#define ENDS(x) ((x) == INT32_MIN)
#include "cpu_axis_least_template.h"

#define TYPE int64
#define ITEM_TYPE int64_t
#define INDEX int64_t
#define HIGHEST INT64_MAX
#define ENDS(x) ((x) == INT64_MIN)
#include "cpu_axis_least_template.h"

#undef KEYED
#undef LOAD
#undef LESSER
#undef SIGN_OF
#undef LEAST
#undef IS_NAN
#undef NOT_A_NUMBER
#undef EITHER_NAN
#undef EXACT
#define IS_NAN(x) ((x) != (x))
#define NOT_A_NUMBER __builtin_nanf("")
#define EITHER_NAN(x, y) __builtin_isunordered(x, y)
#define EXACT false
#define LOAD(x) KEYED(x)

#define KEYED(x) keyed_float32(x, key)
#define LESSER(a, b) lesser_float32(a, b)
#define SIGN_OF(x) bits_float32(x)
#define LEAST(value, signs) zero_float32(value, (uint32_t)(signs))
#define TYPE float32
#define ITEM_TYPE float
#define INDEX int32_t
#define HIGHEST __builtin_inff()
#define ENDS(x) IS_NAN(x)
#include "cpu_axis_least_template.h"

#undef KEYED
#undef LESSER
#undef SIGN_OF
#undef LEAST
#define KEYED(x) keyed_float64(x, key)
#define LESSER(a, b) lesser_float64(a, b)
#define SIGN_OF(x) bits_float64(x)
#define LEAST(value, signs) zero_float64(value, (uint64_t)(signs))
#define TYPE float64
#define ITEM_TYPE double
#define INDEX int64_t
#define HIGHEST __builtin_inf()
#define ENDS(x) IS_NAN(x)
#include "cpu_axis_least_template.h"
