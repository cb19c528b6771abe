/* cpu_axis_items.c: the steps before and after the cores of reductions along an axis: copying and
 * converting elements, storing results as their dtype. Knows no operation.
 */
#include "cpu_axis.h"
#include "../cpu_half.h"

#include <string.h>

/* --- conversions */

#define CONVERT(name, from_type, to_type, value)                                         \
    CPU_INLINE void convert_##name(to_type *restrict to, const from_type *restrict from, \
                                   uint64_t n, int64_t key) {                            \
        (void)key;                                                                       \
        for (uint64_t i = 0; i < n; i++)                                                 \
            to[i] = value;                                                               \
    }                                                                                    \
    CPU_ISAS(ISA_CONVERT, name)                                                          \
    axis_convert *const axis_##name[] = {CPU_ISAS(ISA_CONVERT_NAME, name)};
#define ISA_CONVERT(isa, target, bytes, prefix, here, name)                           \
    target static void convert_##name##_##isa(void *to, const void *from, uint64_t n, \
                                              int64_t key) {                          \
        convert_##name(to, from, n, key);                                             \
    }
#define ISA_CONVERT_NAME(isa, target, bytes, prefix, here, name) convert_##name##_##isa,

CONVERT(int8_to_int64, int8_t, int64_t, from[i] & key)
CONVERT(int16_to_int64, int16_t, int64_t, from[i] & key)
CONVERT(int32_to_int64, int32_t, int64_t, from[i] & key)
CONVERT(float16_to_float32, uint16_t, float, half_to_float(from[i]))
CONVERT(bfloat16_to_float32, uint16_t, float, bfloat_to_float(from[i]))
CONVERT(ordered_float16, uint16_t, float, half_to_float((uint16_t)(from[i] ^ (uint16_t)key)))
CONVERT(ordered_bfloat16, uint16_t, float, bfloat_to_float((uint16_t)(from[i] ^ (uint16_t)key)))

const void *axis_run(const struct axis_functions *functions, const struct part *part,
                     const void *from, uint64_t n) {
    const uint64_t kept = part->kept;
    if (part->stride != (int64_t)kept) {
        gather(part->gathered, from, functions->item_size * kept, 1, n / kept, 0,
               part->stride / (int64_t)kept);
        from = part->gathered;
    }
    if (!functions->convert)
        return from;
    functions->convert[cpu_isa()](part->converted, from, n, part->key);
    return part->converted;
}

/* Columns at arbitrary addresses, in runs. */
static void gather_runs(char *to, const char *from, size_t size, uint64_t rows,
                        const struct part *part) {
    const size_t bytes = part->run * size;
    for (uint64_t r = 0; r < rows; r++, from += part->stride * (int64_t)size)
        for (uint64_t i = 0; i < part->columns; i += part->run, to += bytes)
            copy_run(to, from + part->columns_at[i] * (int64_t)size, bytes);
}

static void gather_columns(void *to, const void *from, size_t size, uint64_t rows,
                           const struct part *part) {
    if (part->columns_at && part->run > 1)
        gather_runs(to, from, size, rows, part);
    else if (part->columns_at)
        gather_at(to, from, size, rows, part->columns, part->stride, part->columns_at);
    else
        gather(to, from, size * part->unit, rows, part->columns / part->unit,
               part->stride / (int64_t)part->unit, part->inner_stride / (int64_t)part->unit);
}

const void *axis_columns(const struct axis_functions *functions, const struct part *part,
                         const void *from, uint64_t rows) {
    const uint64_t columns = part->columns;
    const bool gathers = gathers_columns(part);
    char *to = part->converted;
    if (gathers)
        gather_columns(part->gathered, from, functions->item_size, rows, part);
    if (!functions->convert)
        return part->gathered;
    if (gathers || part->stride == (int64_t)columns) {
        functions->convert[cpu_isa()](to, gathers ? part->gathered : from, rows * columns,
                                      part->key);
        return to;
    }
    for (uint64_t r = 0; r < rows; r++) {
        functions->convert[cpu_isa()](to, from, columns, part->key);
        to += columns * functions->core->item_size;
        from = items_after(functions, from, part->stride);
    }
    return part->converted;
}

void axis_prefetch(const void *in, int rows, int64_t stride, uint64_t ahead) {
    for (uintptr_t at = (uintptr_t)in + ahead; rows > 0; rows--, at += (uintptr_t)stride)
        for (uintptr_t line = 0; line < PREFETCHED_BYTES; line += CPU_LINE)
            __builtin_prefetch((const char *)(at + line));
}

/* --- results */

/* Stores each of a run of results; `i` is its index. */
#define STORE_EACH(type, value)                        \
    do {                                               \
        type *restrict to = (type *)results->out + at; \
        for (uint64_t i = 0; i < count; i++)           \
            to[i] = (type)(value);                     \
    } while (0)

/* A sum or a mean in the type of the result. */
#define STORE_WIDE(value)                                     \
    switch (results->finish) {                                \
    case FLOAT16:                                             \
        STORE_EACH(uint16_t, double_to_half((value) / by));   \
        break;                                                \
    case BFLOAT16:                                            \
        STORE_EACH(uint16_t, double_to_bfloat((value) / by)); \
        break;                                                \
    case FLOAT32:                                             \
        STORE_EACH(float, (value) / by);                      \
        break;                                                \
    default:                                                  \
        STORE_EACH(double, (value) / by);                     \
    }

/* axis_store_<name>, from a body that is compiled for each instruction set. */
#define ISA_STORE(isa, target, bytes, prefix, here, name)                                    \
    target static void store_##name##_##isa(const struct axis_results *results, uint64_t at, \
                                            uint64_t count, const void *from) {              \
        store_##name(results, at, count, from);                                              \
    }
#define ISA_STORE_NAME(isa, target, bytes, prefix, here, name) store_##name##_##isa,
#define STORE(name)                                                                         \
    CPU_ISAS(ISA_STORE, name)                                                               \
    void axis_store_##name(const struct axis_results *results, uint64_t at, uint64_t count, \
                           const void *from) {                                              \
        static axis_store *const stores[] = {CPU_ISAS(ISA_STORE_NAME, name)};               \
        stores[cpu_isa()](results, at, count, from);                                        \
    }

CPU_INLINE void store_float64(const struct axis_results *results, uint64_t at, uint64_t count,
                              const void *from) {
    const double *values = from;
    const double by = results->divisor != 0 ? results->divisor : 1;
    if (by == 1 && results->finish == FLOAT32) /* the common case, without a division */
        STORE_EACH(float, values[i]);
    else if (by == 1 && (results->finish == FLOAT64 || results->finish == RAW))
        STORE_EACH(double, values[i]);
    else
        STORE_WIDE(values[i])
}
STORE(float64)

CPU_INLINE void store_int64(const struct axis_results *results, uint64_t at, uint64_t count,
                            const void *from) {
    const int64_t *values = from;
    const double divisor = results->divisor, by = divisor != 0 ? divisor : 1;
    switch (results->finish) {
    case INT8:
        STORE_EACH(uint8_t, values[i]);
        break;
    case INT16:
        STORE_EACH(uint16_t, values[i]);
        break;
    case INT32:
        STORE_EACH(uint32_t, values[i]);
        break;
    case ANY:
        STORE_EACH(uint8_t, values[i] != 0);
        break;
    case ALL:
        STORE_EACH(uint8_t, values[i] == (int64_t)divisor);
        break;
    case ODD:
        STORE_EACH(uint8_t, values[i] & 1);
        break;
    case FLOAT64:
    case FLOAT32:
    case FLOAT16:
    case BFLOAT16:
        STORE_WIDE((double)values[i])
        break;
    default:
        STORE_EACH(int64_t, values[i]);
    }
}
STORE(int64)

void axis_store_complex128(const struct axis_results *results, uint64_t at, uint64_t count,
                           const void *from) {
    const struct complex_double *values = from;
    memcpy((struct complex_double *)results->out + at, values, count * sizeof *values);
}

/* Minima and bits: the key is undone; of truths, whether the element is not 0. */
#define STORE_KEYED(bits)                                                               \
    CPU_INLINE void store_keyed_##bits(const struct axis_results *results, uint64_t at, \
                                       uint64_t count, const void *from) {              \
        const uint##bits##_t __attribute__((may_alias)) *values = from;                 \
        const uint##bits##_t key = (uint##bits##_t)results->key;                        \
        if (results->finish == ANY || results->finish == ALL)                           \
            STORE_EACH(uint8_t, values[i] != key);                                      \
        else                                                                            \
            STORE_EACH(uint##bits##_t, values[i] ^ key);                                \
    }                                                                                   \
    STORE(keyed_##bits)
STORE_KEYED(8)
STORE_KEYED(16)
STORE_KEYED(32)
STORE_KEYED(64)

void axis_store_keyed_float16(const struct axis_results *results, uint64_t at, uint64_t count,
                              const void *from) {
    const float *values = from;
    const uint16_t key = (uint16_t)results->key;
    STORE_EACH(uint16_t, double_to_half(values[i]) ^ key);
}
void axis_store_keyed_bfloat16(const struct axis_results *results, uint64_t at, uint64_t count,
                               const void *from) {
    const float *values = from;
    const uint16_t key = (uint16_t)results->key;
    STORE_EACH(uint16_t, double_to_bfloat(values[i]) ^ key);
}

/* An index follows its element, which is ignored. */
CPU_INLINE void store_indices(const struct axis_results *results, uint64_t at, uint64_t count,
                              const void *from) {
    const struct { int64_t item, index; } *values = from;
    const int64_t base = (int64_t)results->divisor;
    STORE_EACH(int64_t, values[i].index + base);
}
STORE(indices)
