/* reduce_axis_plan.cuh: what ops_reduce_axis.c, which plans a reduction along an axis, and
 * reduce_axis.cu, which does it, both go by. C and CUDA.
 */
#pragma once

enum {
    AXIS_BLOCK = 256,          /* threads */
    AXIS_GROUP_ROWS = 8,       /* rows of a few packs that a group of lanes takes at once, */
    AXIS_WORD_ROWS = 8,        /* and a thread of rows that are one word */
    AXIS_STRIDED_ITEM = 8,     /* bytes: wider items that lie apart are as well read one by one, */
    AXIS_STRIDED_PLACED = 4,   /* and those whose places count */
    AXIS_SHIFTED_ITEM = 2,     /* bytes of the widest that are read by packs which begin anywhere */
    AXIS_PACK_SHARED = 64,     /* shared memory of a thread that has columns by packs, in bytes, */
    AXIS_ITEM_SHARED = 16,     /* and by items */
    AXIS_SHARE = 1 << 30,      /* items of a row that a block takes, at most: 32 bits are enough */
    AXIS_PLACES = 1 << 16,     /* of packs, that a place among them may have: more than they are */
    AXIS_BYTE_PACKS = 1 << 22, /* of a thread that sums bytes, four to a sum, in 32 bits */
};

/* A row of so many items of 1 or 2 bytes, or more, is read from shared memory by packs. */
#define AXIS_STAGED_PACKS(item) ((item) == 1 ? 8 : 32)

/* Small slabs through shared memory; rows of 2, 4 or 8 bytes, and of three items; rows of a few
 * packs of 16 bytes, and longer ones, also of every second or third item; slabs of few inner items;
 * columns by packs, also by such as begin anywhere; the rest by items. */
enum axis_shape {
    AXIS_STAGED,
    AXIS_WORDS,
    AXIS_TRIPLES,
    AXIS_GROUPS,
    AXIS_NARROW,
    AXIS_ROWS,
    AXIS_STRIDED,
    AXIS_PACKS,
    AXIS_SHIFTED,
    AXIS_ITEMS
};
