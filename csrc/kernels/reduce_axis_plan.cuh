/* reduce_axis_plan.cuh: what ops_reduce_axis.c, which plans a reduction along an axis, and those
 * who do it both go by: reduce_axis.cu and host_reduce_axis.c. C and CUDA.
 */
#pragma once

enum {
    AXIS_BLOCK = 256,   /* threads */
    AXIS_IN_FLIGHT = 8, /* loads of a thread that are under way at once */
};

/* Small slabs through shared memory; long rows; columns by packs of 16 bytes; the rest by items. */
enum axis_shape { AXIS_STAGED, AXIS_ROWS, AXIS_PACKS, AXIS_ITEMS };

/* What becomes of a result: raw for a second pass, else the caller's type. gpuopt/_axis.py numbers
 * them so. */
enum axis_finish {
    AXIS_RAW,
    AXIS_FLOAT64,
    AXIS_FLOAT32,
    AXIS_INT8,
    AXIS_INT16,
    AXIS_INT32,
    AXIS_INT64,
    AXIS_ANY,
    AXIS_ALL,
    AXIS_ODD,
    AXIS_FLOAT16,
    AXIS_BFLOAT16
};
