/* vector_plan.cuh: the contract between ops_vector.c, which fills a plan, and rung 8 of add and
 * saxpy, which receives it as last argument. C and CUDA; knows no device.
 */
#pragma once

#include <stdint.h>

enum { VECTOR_AXES = 8 };

/* Elements of a thread one by one; groups of 16 bytes of a thread. */
enum { VECTOR_ITEMS = 4, VECTOR_GROUPS = 2 };

/* Steps are elements. The first axis is the innermost; its extent and steps count groups. */
struct vector_axis {
    uint64_t extent;
    int64_t x, y, out;
};

struct vector_plan {
    uint64_t groups;             /* of the result: of one element, or of 16 bytes if packed */
    uint64_t x_number, y_number; /* bits of an operand that is a number: its address is 0 */
    uint32_t axis_count;
    uint32_t is_packed; /* adjacent elements in vectors of 16 bytes */
    uint32_t is_long;   /* 32 bits do not count the groups; not packed */
    uint32_t tail;      /* elements after the groups of a packed single axis */
    struct vector_axis axes[VECTOR_AXES];
};
