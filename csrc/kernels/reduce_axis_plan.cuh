/* reduce_axis_plan.cuh: what ops_reduce_axis.c, which plans a reduction along an axis, and
 * reduce_axis.cu, which does it, both go by. C and CUDA.
 */
#pragma once

enum {
    AXIS_BLOCK = 256,      /* threads */
    AXIS_GROUP_ROWS = 4,   /* rows of a few packs that a group of lanes takes at once */
    AXIS_PACK_SHARED = 64, /* shared memory of a thread that has columns by packs, in bytes, */
    AXIS_ITEM_SHARED = 16, /* and by items */
};

/* Small slabs through shared memory; rows of a few packs of 16 bytes, and longer ones; columns by
 * packs; the rest by items. */
enum axis_shape { AXIS_STAGED, AXIS_GROUPS, AXIS_ROWS, AXIS_PACKS, AXIS_ITEMS };
