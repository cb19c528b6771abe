/* vector_plan.cuh: the contract between ops_vector.c, which fills a plan, and rung 8 of add and
 * saxpy, which receives it as last argument. C and CUDA; knows no device.
 */
#pragma once

#include <stdint.h>

enum { VECTOR_AXES = 8 };

/* Elements of a thread one by one, if indices have 32 bits, half as many of 8 bytes; or it has one
 * group of 16 bytes. */
enum { VECTOR_ITEMS = 4 };

/* Bytes of an element, at least, of which operands are turned in tiles. */
enum { VECTOR_TILED = 4 };

/* How the elements of an operand in a group of the result are found. */
enum vector_layout {
    VECTOR_LINEAR,   /* as the result's: one vector load */
    VECTOR_NUMBER,   /* no array */
    VECTOR_PACKED,   /* adjacent and aligned along the innermost axis */
    VECTOR_SEPARATE, /* anywhere */
};

/* Steps are elements. The first axis is the innermost. An index below 2^31 is divided by the extent
 * as (umulhi(index, magic) + index) >> shift. */
struct vector_axis {
    uint64_t extent;
    uint32_t magic, shift;
    uint32_t tiles, tile, tile_magic; /* in tiles: their number, places and 2^32 / places */
    int64_t x, y, out;
};

struct vector_plan {
    uint64_t n;                  /* elements of the result */
    uint64_t x_number, y_number; /* bits of an operand that is a number: its address is 0 */
    uint32_t axis_count;
    uint32_t is_grouped;         /* the result in vectors of 16 bytes, which are adjacent */
    uint32_t is_long;            /* indices may exceed 31 bits; not grouped */
    uint32_t turns_x, turns_y;   /* tiles: whether an operand is read along the second axis, and
                                    turned in shared memory; neither: no tiles */
    uint32_t x_layout, y_layout; /* of groups */
    uint32_t row_ends;           /* bit i: a row ends with element i of a run of short rows */
    int64_t x_low, x_high;       /* the range of an operand's offsets, in elements */
    int64_t y_low, y_high;
    struct vector_axis axes[VECTOR_AXES];
};
