/* ops_transpose.h: what the two files share that plan a transpose of any axes. */
#pragma once

#include "ops.h"

#include "../kernels/transpose_plan.cuh"

enum {
    GRID_X = 0x7fffffff, /* blocks */
    AXES_MAX = 64,       /* NumPy's */
    PACK = 16,           /* bytes of the widest access */
    SECTOR = 32,         /* bytes */
    LINE = 256,          /* bytes; of memory, not of a cache */
    WORD = 4,            /* bytes of a bank of shared memory */
};

/* Axes in the input's order, C order both, and where in the output each of them is. */
struct axes {
    unsigned count;
    uint64_t extent[AXES_MAX];
    unsigned output[AXES_MAX]; /* the input axis at each place of the output */
    uint64_t in[AXES_MAX], out[AXES_MAX];
    uint64_t items;
    size_t item; /* bytes */
};

/* Whether the innermost axis stays where it is: rows are moved whole. */
static inline bool moves_rows(const struct axes *axes) {
    return axes->count && axes->output[axes->count - 1] == axes->count - 1;
}

/* Tiles of TRANSPOSE_PACKED, of arrays at these addresses, for so many multiprocessors. False if
 * none fit. */
bool ops_transpose_pack(const struct axes *axes, const uint64_t *arrays, unsigned multiprocessors,
                        struct transpose_plan *plan);
