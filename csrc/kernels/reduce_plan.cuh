/* reduce_plan.cuh: what ops_reduce.c, which plans a reduction, and the kernels of reduce.cu both go
 * by. C and CUDA.
 */
#pragma once

enum {
    REDUCE_IN_FLIGHT = 8,     /* packs of 16 bytes that a thread loads at once */
    REDUCE_LONG_ROUNDS = 12,  /* of such loads by a block: a long array has as many, or more */
    REDUCE_RING_PLACES = 4,   /* parts of a share that are in shared memory at once, */
    REDUCE_RING_PACKS = 1024, /* and packs of a part: 64 KiB in all */
    REDUCE_DRAWS = 16,        /* pieces that a block may draw, if all draw equally many */
};
