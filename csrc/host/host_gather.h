/* host_gather.h: items with gaps between them, brought together in the widest vectors. */
#ifndef GPUOPT_HOST_GATHER_H
#define GPUOPT_HOST_GATHER_H

#include "host_isa.h"

/* The widest item. */
struct complex_double {
    double real, imag;
};

/* Items by their sizes, of whatever type; some are several side by side. */
typedef uint8_t __attribute__((may_alias)) raw_1;
typedef uint16_t __attribute__((may_alias, aligned(1))) raw_2;
typedef uint32_t __attribute__((may_alias, aligned(1))) raw_4;
typedef uint64_t __attribute__((may_alias, aligned(1))) raw_8;
typedef struct __attribute__((may_alias, packed)) {
    uint64_t halves[2];
} raw_16;

#define GATHER(size)                                                                            \
    HOST_INLINE void gather_by_##size(raw_##size *restrict to, const raw_##size *from,          \
                                      uint64_t rows, uint64_t columns, int64_t stride,          \
                                      int64_t step) {                                           \
        for (uint64_t r = 0; r < rows; r++, from += stride, to += columns)                      \
            for (uint64_t i = 0; i < columns; i++)                                              \
                to[i] = from[(int64_t)i * step];                                                \
    }                                                                                           \
    HOST_INLINE void gather_##size(void *to, const void *from, uint64_t rows, uint64_t columns, \
                                   int64_t stride, int64_t step) {                              \
        if (step == 2) /* of these two steps gcc makes vectors */                               \
            gather_by_##size(to, from, rows, columns, stride, 2);                               \
        else if (step == 3)                                                                     \
            gather_by_##size(to, from, rows, columns, stride, 3);                               \
        else                                                                                    \
            gather_by_##size(to, from, rows, columns, stride, step);                            \
    }
GATHER(1)
GATHER(2)
GATHER(4)
GATHER(8)
GATHER(16)

#define ISA_GATHER(isa, target, bytes, prefix, here, unused)                                \
    target static void gather_##isa(void *to, const void *from, size_t size, uint64_t rows, \
                                    uint64_t columns, int64_t stride, int64_t step) {       \
        switch (size) {                                                                     \
        case 1:                                                                             \
            gather_1(to, from, rows, columns, stride, step);                                \
            break;                                                                          \
        case 2:                                                                             \
            gather_2(to, from, rows, columns, stride, step);                                \
            break;                                                                          \
        case 4:                                                                             \
            gather_4(to, from, rows, columns, stride, step);                                \
            break;                                                                          \
        case 8:                                                                             \
            gather_8(to, from, rows, columns, stride, step);                                \
            break;                                                                          \
        default:                                                                            \
            gather_16(to, from, rows, columns, stride, step);                               \
        }                                                                                   \
    }
#define ISA_GATHER_NAME(isa, target, bytes, prefix, here, unused) gather_##isa,
HOST_ISAS(ISA_GATHER, unused)

/* Rows of columns that are `step` items apart, and rows `stride`, one after the other and without
 * gaps. */
static void gather(void *to, const void *from, size_t size, uint64_t rows, uint64_t columns,
                   int64_t stride, int64_t step) {
    static void (*const gathers[])(void *, const void *, size_t, uint64_t, uint64_t, int64_t,
                                   int64_t) = {HOST_ISAS(ISA_GATHER_NAME, unused)};
    gathers[host_isa()](to, from, size, rows, columns, stride, step);
}

/* The same of columns that are anywhere. */
#define GATHER_AT(size)                                                              \
    case size:                                                                       \
        for (uint64_t r = 0; r < rows; r++)                                          \
            for (uint64_t i = 0; i < columns; i++)                                   \
                ((raw_##size *)to)[r * columns + i] =                                \
                    ((const raw_##size *)from)[(int64_t)r * stride + columns_at[i]]; \
        break;
static void gather_at(void *to, const void *from, size_t size, uint64_t rows, uint64_t columns,
                      int64_t stride, const int64_t *columns_at) {
    switch (size) {
        GATHER_AT(1)
        GATHER_AT(2)
        GATHER_AT(4)
        GATHER_AT(8)
        GATHER_AT(16)
    }
}

#endif
