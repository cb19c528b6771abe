/* cpu_gather.h: gathers strided elements by the widest loads. Knows no operation and no thread. */
#ifndef GPUOPT_CPU_GATHER_H
#define GPUOPT_CPU_GATHER_H

#include "../../device.h"
#include "../../int_math.h"
#include "cpu_isa.h"

#include <string.h>

struct complex_single {
    float real, imag;
};
struct complex_double {
    double real, imag;
};
static inline struct complex_double complex_prod(struct complex_double a, struct complex_double b) {
    return (struct complex_double){rounded_prod(a.real, b.real) - rounded_prod(a.imag, b.imag),
                                   rounded_prod(a.real, b.imag) + rounded_prod(a.imag, b.real)};
}

/* Elements by size, of any type; some are several adjacent ones. */
typedef uint8_t __attribute__((may_alias)) raw_1;
typedef uint16_t __attribute__((may_alias, aligned(1))) raw_2;
typedef uint32_t __attribute__((may_alias, aligned(1))) raw_4;
typedef uint64_t __attribute__((may_alias, aligned(1))) raw_8;
typedef struct __attribute__((may_alias, packed)) {
    uint64_t halves[2];
} raw_16;

enum {
    STEPS_AHEAD = 64
}; /* that are prefetched, if each is in another cache line (TUNING.md C12) */

#define GATHER(size)                                                                              \
    CPU_INLINE void gather_by_##size(raw_##size *restrict to, const raw_##size *from,             \
                                     uint64_t rows, uint64_t columns, int64_t stride,             \
                                     const int64_t step) {                                        \
        for (uint64_t r = 0; r < rows; r++, from += stride, to += columns)                        \
            for (uint64_t i = 0; i < columns; i++)                                                \
                to[i] = from[(int64_t)i * step];                                                  \
    }                                                                                             \
    /* Four loads at a time: twice as fast as one and a jump (TUNING.md C21). */                  \
    CPU_INLINE void gather_fours_##size(raw_##size *restrict to, const raw_##size *from,          \
                                        uint64_t rows, uint64_t columns, int64_t stride,          \
                                        int64_t step, const bool ahead) {                         \
        const uintptr_t far = (uintptr_t)(STEPS_AHEAD * size * step);                             \
        for (uint64_t r = 0; r < rows; r++, from += stride, to += columns) {                      \
            uint64_t i = 0;                                                                       \
            for (; i + 4 <= columns; i += 4) {                                                    \
                const raw_##size *item = from + (int64_t)i * step;                                \
                const raw_##size a = item[0], b = item[step], c = item[2 * step],                 \
                                 d = item[3 * step];                                              \
                for (int64_t k = 0; k < 4 && ahead; k++)                                          \
                    __builtin_prefetch((const char *)((uintptr_t)(item + k * step) + far));       \
                to[i] = a;                                                                        \
                to[i + 1] = b;                                                                    \
                to[i + 2] = c;                                                                    \
                to[i + 3] = d;                                                                    \
            }                                                                                     \
            for (; i < columns; i++)                                                              \
                to[i] = from[(int64_t)i * step];                                                  \
        }                                                                                         \
    }                                                                                             \
    CPU_INLINE void gather_##size(void *to, const void *from, uint64_t rows, uint64_t columns,    \
                                  int64_t stride, int64_t step) {                                 \
        if (step == 2) /* gcc vectorizes these steps */                                           \
            gather_by_##size(to, from, rows, columns, stride, 2);                                 \
        else if (step == 3)                                                                       \
            gather_by_##size(to, from, rows, columns, stride, 3);                                 \
        else if (step == 0)                                                                       \
            gather_by_##size(to, from, rows, columns, stride, 0);                                 \
        else if (columns >= STEPS_AHEAD && (step >= CPU_LINE / size || -step >= CPU_LINE / size)) \
            gather_fours_##size(to, from, rows, columns, stride, step, true);                     \
        else                                                                                      \
            gather_fours_##size(to, from, rows, columns, stride, step, false);                    \
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
CPU_ISAS(ISA_GATHER, unused)

/* Copies rows of columns that are `step` elements apart, and rows `stride`, to contiguous memory.
 */
static inline void gather(void *to, const void *from, size_t size, uint64_t rows, uint64_t columns,
                          int64_t stride, int64_t step) {
    static void (*const gathers[])(void *, const void *, size_t, uint64_t, uint64_t, int64_t,
                                   int64_t) = {CPU_ISAS(ISA_GATHER_NAME, unused)};
    gathers[cpu_isa()](to, from, size, rows, columns, stride, step);
}

/* The same for columns at arbitrary addresses. */
#define GATHER_AT(size)                                                              \
    case size:                                                                       \
        for (uint64_t r = 0; r < rows; r++)                                          \
            for (uint64_t i = 0; i < columns; i++)                                   \
                ((raw_##size *)to)[r * columns + i] =                                \
                    ((const raw_##size *)from)[(int64_t)r * stride + columns_at[i]]; \
        break;
static inline void gather_at(void *to, const void *from, size_t size, uint64_t rows,
                             uint64_t columns, int64_t stride, const int64_t *columns_at) {
    switch (size) {
        GATHER_AT(1)
        GATHER_AT(2)
        GATHER_AT(4)
        GATHER_AT(8)
        GATHER_AT(16)
    }
}

/* Rows of at most `width` bytes, each by one load and one store: the surplus of a row is
 * overwritten by the next (TUNING.md C3). */
#define COPY_SHORT(width)                                                           \
    static inline void copy_short_##width(const char *in, uint64_t step, char *out, \
                                          uint64_t bytes, uint64_t rows) {          \
        for (uint64_t row = 0; row < rows; row++)                                   \
            memcpy(out + row * bytes, in + row * step, width);                      \
    }
COPY_SHORT(4)
COPY_SHORT(8)
COPY_SHORT(16)
COPY_SHORT(32)
COPY_SHORT(64)
COPY_SHORT(128)

/* Copies at most `rows` short rows, until a load would pass `in_end` or a store `out_end`; returns
 * how many. */
static inline uint64_t copy_short(const char *in, const char *in_end, uint64_t step, char *out,
                                  const char *out_end, uint64_t bytes, uint64_t rows) {
    static const struct {
        uint64_t width;
        void (*copy)(const char *in, uint64_t step, char *out, uint64_t bytes, uint64_t rows);
    } ways[] = {{4, copy_short_4},   {8, copy_short_8},   {16, copy_short_16},
                {32, copy_short_32}, {64, copy_short_64}, {128, copy_short_128}};
    size_t way = 0;
    while (way < sizeof ways / sizeof *ways && ways[way].width < bytes)
        way++;
    if (way == sizeof ways / sizeof *ways)
        return 0;
    const uint64_t width = ways[way].width;
    const uint64_t read = (uint64_t)(in_end - in), room = (uint64_t)(out_end - out);
    if (read < width || room < width)
        return 0;
    rows = min_u64(rows, (room - width) / bytes + 1);
    if (step)
        rows = min_u64(rows, (read - width) / step + 1);
    ways[way].copy(in, step, out, bytes, rows);
    return rows;
}

/* Brings rows of contiguous elements, which are `stride` elements apart, together in `room` bytes.
 */
static inline void pack_rows(char *to, size_t room, const char *from, size_t size, uint64_t rows,
                             uint64_t columns, int64_t stride) {
    const uint64_t bytes = columns * size;
    const int64_t step = stride * (int64_t)size;
    uint64_t done = 0;
    if (step > 0)
        done = copy_short(from, from + (int64_t)(rows - 1) * step + bytes, (uint64_t)step, to,
                          to + room, bytes, rows);
    gather(to + done * bytes, from + (int64_t)done * step, size, rows - done, columns, stride, 1);
}

/* Addresses of the elements from `index` on, run by run of the first axis. */
static inline void axes_at(const struct device_axes *axes, uint64_t index, uint64_t count,
                           int64_t *offsets) {
    uint64_t at[DEVICE_AXES] = {0}, run;
    const uint64_t length = axes->count ? axes->sizes[0] : count;
    const int64_t step = axes->count ? axes->steps[0] : 0;
    int64_t offset = 0;
    for (int k = 0; k < axes->count; k++, index /= axes->sizes[k - 1]) {
        at[k] = index % axes->sizes[k];
        offset += (int64_t)at[k] * axes->steps[k];
    }
    for (uint64_t done = 0; done < count; done += run) {
        for (int k = 0; at[k] == axes->sizes[k] && axes->count; k++) { /* to the next run */
            offset += axes->steps[k + 1] - (int64_t)at[k] * axes->steps[k];
            at[k] = 0;
            at[k + 1]++;
        }
        run = length - at[0] < count - done ? length - at[0] : count - done;
        for (uint64_t i = 0; i < run; i++, offset += step)
            offsets[done + i] = offset;
        at[0] += run;
    }
}

enum { RUN_BYTES = 8 }; /* bytes of a run, at least */

/* Copies a run of at least RUN_BYTES bytes; the last vector overlaps those before. */
static inline void copy_run(char *to, const char *from, size_t bytes) {
    enum { VECTOR = sizeof(raw_16) };
    if (bytes >= 2 * CPU_LINE) {
        memcpy(to, from, bytes);
    } else if (bytes < VECTOR) {
        memcpy(to, from, RUN_BYTES);
        memcpy(to + bytes - RUN_BYTES, from + bytes - RUN_BYTES, RUN_BYTES);
    } else {
        for (size_t at = 0; at + VECTOR <= bytes; at += VECTOR)
            memcpy(to + at, from + at, VECTOR);
        memcpy(to + bytes - VECTOR, from + bytes - VECTOR, VECTOR);
    }
}

/* Copies whole rows of a box's last axis, along the one before, to contiguous memory. */
static inline void gather_rows(char *to, const char *from, const struct device_axes *axes,
                               size_t size, uint64_t rows) {
    const size_t bytes = axes->sizes[0] * size;
    if (axes->steps[0] != 1 || bytes < RUN_BYTES) {
        gather(to, from, size, rows, axes->sizes[0], axes->steps[1], axes->steps[0]);
        return;
    }
    for (uint64_t row = 0; row < rows; row++, to += bytes, from += axes->steps[1] * (int64_t)size)
        copy_run(to, from, bytes);
}

/* Copies a box's elements from `index` on to contiguous memory: whole rows along the axis before
 * the last (TUNING.md C19), parts of long rows, others by each element's address, SHORT at a time.
 */
static inline void gather_box(char *to, const struct device_box *box, size_t size, uint64_t index,
                              uint64_t count) {
    enum { LONG = 64, SHORT = 512 };
    const struct device_axes *axes = &box->axes;
    const uint64_t last = axes->sizes[0], before = axes->count > 1 ? axes->sizes[1] : 1;
    for (uint64_t done = 0, next; done < count; done += next) {
        int64_t offsets[SHORT];
        const uint64_t at = (index + done) % last, left = count - done;
        const uint64_t row = (index + done) / last % before;
        const uint64_t rows = at ? 0 : min_u64(left / last, before - row);
        axes_at(axes, index + done, 1, offsets);
        const char *from = (const char *)box->first + offsets[0] * (int64_t)size;
        if (rows * last >= LONG) {
            next = rows * last;
            gather_rows(to + done * size, from, axes, size, rows);
        } else if (last >= LONG) {
            next = min_u64(last - at, left);
            if (axes->steps[0] == 1)
                memcpy(to + done * size, from, next * size);
            else
                gather(to + done * size, from, size, 1, next, 0, axes->steps[0]);
        } else {
            next = min_u64(left, last * before < LONG ? SHORT : at ? last - at : last);
            axes_at(axes, index + done, next, offsets);
            gather_at(to + done * size, box->first, size, 1, next, 0, offsets);
        }
    }
}

#endif
