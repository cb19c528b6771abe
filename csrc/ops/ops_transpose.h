/* ops_transpose.h: shared by the two files that plan a transpose of any axes. Knows no queue. */
#pragma once

#include "ops.h"

#include "../kernels/transpose_plan.cuh"

enum {
    GRID_X = 0x7fffffff, /* blocks */
    AXES_MAX = 64,       /* NumPy's */
    VECTOR = 16,         /* bytes of the widest access: a vector */
    SECTOR = 32,         /* bytes */
    LINE = 256,          /* bytes that a load may fetch, not of a cache line */
    ATOM = 64,           /* bytes of a burst of DRAM */
    WORD = 4,            /* bytes of a bank of shared memory */
};

/* Axes in the input's order, C order both, and the position of each in the output. */
struct axes {
    unsigned count;
    uint64_t extent[AXES_MAX];
    unsigned output[AXES_MAX]; /* the input axis at each position of the output */
    uint64_t in[AXES_MAX], out[AXES_MAX];
    uint64_t items, reach; /* `reach`: elements from the input's first to its last */
    size_t item;           /* bytes of an element */
    uint64_t sparse;       /* bytes of the input's runs if they are far apart, else 0 */
};

/* Whether the innermost axis stays innermost: rows are copied whole. */
static inline bool moves_rows(const struct axes *axes) {
    return axes->count && axes->output[axes->count - 1] == axes->count - 1;
}

/* The step of the innermost axis. */
static inline uint64_t last_step(const struct axes *axes) {
    return axes->count ? axes->in[axes->count - 1] : 1;
}

/* Bytes of all columns in one piece, up to which packed tiles are better than wide ones. */
static inline uint64_t ops_transpose_few(const struct axes *axes) {
    return axes->item == WORD ? ops_fixed(transpose, few_words) : ops_fixed(transpose, few_columns);
}

/* Bytes between elements of an axis, up to which packed tiles load gaps with them. */
static inline uint64_t ops_transpose_gap(const struct axes *axes) {
    const bool cached = axes->items * axes->item < ops_fixed(transpose, gap_large);
    return cached ? ops_fixed(transpose, gap_short) : ops_fixed(transpose, gap_pitch);
}

/* Whether estimates choose between packed tiles and others. */
static inline bool ops_transpose_compares(const struct axes *axes) {
    return axes->item >= WORD && axes->item < VECTOR &&
           axes->items * axes->item >= ops_fixed(transpose, compared_least);
}

/* Plans tiles of TRANSPOSE_PACKED for arrays at these addresses; returns how much longer than a
 * copy they take by an estimate, in 1/65536 of it, UINT64_MAX if none fit. */
uint64_t ops_transpose_pack(const struct axes *axes, const uint64_t *arrays,
                            unsigned multiprocessors, struct transpose_plan *plan);

/* Whether wide tiles of this cost are better than packed ones, which move a few columns in one
 * piece faster, but words of small matrices, or in columns of a tile, slower (TUNING.md T35, T39,
 * T44). */
bool ops_transpose_wide_better(const struct axes *axes, const struct transpose_plan *wide,
                               uint64_t cost);

/* Plans tiles of TRANSPOSE_NARROW where the innermost axis does not stay, but for the grid's order;
 * returns false if rows or columns are too few. */
bool ops_transpose_narrow(const struct axes *axes, uint64_t address, unsigned multiprocessors,
                          struct transpose_plan *plan);

/* Whether narrow tiles are long runs of the output, of large matrices: those are faster than others
 * also for fewer rows (TUNING.md T36). */
bool ops_transpose_runs(const struct axes *axes, const struct transpose_plan *plan);

/* Plans tiles of TRANSPOSE_WIDE where the innermost axis does not stay, but for the grid's order;
 * returns how much longer than a copy they take by their estimate, in 1/65536 of it. */
uint64_t ops_transpose_wide(const struct axes *axes, const uint64_t *arrays,
                            unsigned multiprocessors, struct transpose_plan *plan);

/* The bytes of the input's runs if they are short and so far apart that the 256 bytes around a
 * load, which it may fetch, have too much of the gaps; else 0 (TUNING.md T43). */
uint64_t ops_transpose_sparse(const struct axes *axes);

/* Whether the output's order reads the input almost in order: whole sectors within a block's
 * elements, few lines at a time for a warp, and rows that a warp seldom counts anew: results of any
 * size are then moved one by one faster than by tiles (TUNING.md T44). */
bool ops_transpose_in_order(const struct axes *axes);

/* Whether adjacent elements of the input's innermost axis are near in the output, but few adjoin
 * there or in the input: results of a few MiB are then moved one by one faster than by tiles, as
 * smaller ones are that stay in L2 (TUNING.md T33, T38). */
bool ops_transpose_gathers(const struct axes *axes);

/* Whether rows that stay whole have at most these bytes, gaps included, and each is copied so long
 * after the one before it in memory that L2 has lost the bytes fetched with that one. */
bool ops_transpose_late(const struct axes *axes, uint64_t most);

/* Whether rows that stay whole are so short that packed tiles are faster, unless gaps that those do
 * not load follow each (TUNING.md T7, T15, T40, T44). */
bool ops_transpose_short_rows(const struct axes *axes);
