/* reduce_plan.cuh: the contract between ops_reduce.c, which plans a reduction, and the kernels of
 * reduce.cu. C and CUDA; knows no device.
 */
#pragma once

enum {
    REDUCE_IN_FLIGHT = 8,       /* vectors that a thread loads at once (TUNING.md R2) */
    REDUCE_LONG_ROUNDS = 12,    /* rounds of such loads by a block of a long array, at least */
    REDUCE_RING_STAGES = 4,     /* stages of the ring in shared memory */
    REDUCE_RING_VECTORS = 1024, /* vectors of a stage: the ring has 64 KiB */
    REDUCE_DRAWS = 16,          /* chunks that a block draws, if all draw equally many */
};
