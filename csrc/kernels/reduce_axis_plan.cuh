/* reduce_axis_plan.cuh: the contract between ops_reduce_axis.c, which plans a reduction along an
 * axis, and reduce_axis.cu, which executes it. C and CUDA; knows no device.
 */
#pragma once

enum {
    AXIS_BLOCK = 256,         /* threads */
    AXIS_GROUP_ROWS = 8,      /* rows of a few vectors that a group of lanes reduces at once */
    AXIS_WORD_ROWS = 8,       /* the same for a thread, for rows of one word */
    AXIS_STRIDED_ITEM = 8,    /* bytes: strided elements wider than this are read one by one */
    AXIS_STRIDED_INDEXED = 4, /* the same for argmin */
    AXIS_SHIFTED_ITEM = 2,    /* bytes: rows of wider elements are not shifted */
    AXIS_VECTOR_SHARED = 64,  /* bytes of shared memory a thread, for columns by vectors */
    AXIS_ITEM_SHARED = 16,    /* the same where elements are loaded one by one */
    AXIS_CHUNK = 1 << 30,     /* elements of a row that a block reduces, at most: fits 32 bits */
    AXIS_POSITIONS = 1 << 16, /* upper bound of a vector's position among those of a thread */
    AXIS_BYTE_VECTORS =
        1 << 22, /* vectors of a thread that sums bytes in 32 bits, four bytes to a sum */
};

/* Elements of 1 or 2 bytes in the shortest row that is read from shared memory by vectors. */
#define AXIS_STAGED_VECTORS(item) ((item) == 1 ? 8 : 32)

/* Results of a thread that loads elements one by one, if they are many. */
#define AXIS_SIDE(item) ((item) == 8 ? 2 : 4)

/* Small slabs through shared memory; rows of 2, 4 or 8 bytes, or of one element; rows of three
 * elements; rows of a few vectors; longer rows; the same with every second or third element; slabs
 * of few inner elements; columns by vectors; the same unaligned, and shifted; all others, element
 * by element. */
enum axis_shape {
    AXIS_STAGED,
    AXIS_WORDS,
    AXIS_TRIPLES,
    AXIS_GROUPS,
    AXIS_NARROW,
    AXIS_ROWS,
    AXIS_STRIDED,
    AXIS_VECTORS,
    AXIS_UNALIGNED,
    AXIS_SHIFTED,
    AXIS_GATHER
};

/* How a kernel reads or combines elements, of those that serve several kinds: factors of a product;
 * float32 or float64; integers; float16, bfloat16; whether they are nonzero; bits (`or`, `xor`). A
 * kernel asks in this order. */
enum axis_kind {
    AXIS_PRODUCTS,
    AXIS_FLOATS,
    AXIS_INTEGERS,
    AXIS_HALVES,
    AXIS_BFLOATS,
    AXIS_TRUTHS,
    AXIS_BITS
};
