/* stencil1d_plan.cuh: the contract between ops_stencil1d.c, which plans a stencil, and the kernels
 * of stencil1d.cu. C and CUDA; knows no device.
 */
#pragma once

/* The form stands in the upper half of the argument whose lower half is the mode. For rung 2 it is
 * DECK if there is one row, of the deck's radius, with as many outputs as inputs and enough blocks
 * that some have others on both sides; NEARLY if only the block size or the number of outputs
 * differs. For rung 5 it tells whether tiles hold whole short rows, or rows are columns; kernels
 * with weights serve both, with weights of 1 if there are none. Columns have, from bit
 * STENCIL1D_GROUPS on, the groups of outputs of a thread, or an enum stencil1d_parts. From bit
 * STENCIL1D_NARROW on stands how elements in memory are narrower than those of the kernel, 0 if
 * they are not; gpuopt/families uses the same bits. */
enum { STENCIL1D_DECK_RADIUS = 3, STENCIL1D_DECK_BLOCK = 256 };
enum stencil1d_form {
    STENCIL1D_OTHER,
    STENCIL1D_DECK,
    STENCIL1D_NEARLY_DECK,
    STENCIL1D_SHORT_ROWS,
    STENCIL1D_COLUMNS,
    STENCIL1D_FEW_TILES /* a thread has STENCIL1D_FEW_GROUP outputs */
};
enum { STENCIL1D_WRAP = 4 /* of STENCIL1D_MODES */ };
enum { STENCIL1D_FEW_GROUP = 5, STENCIL1D_SHORT_SIDE = 4 /* outputs at once, of short rows */ };
enum { STENCIL1D_GROUP = 8 /* outputs of a group, and parts */ };
enum { STENCIL1D_GROUPS = 8, STENCIL1D_NARROW = 16 };
enum stencil1d_parts {
    STENCIL1D_ROW_PARTS = 32, /* a thread takes an output of each part of the rows */
    STENCIL1D_COLUMN_PARTS,
    STENCIL1D_OUTPUT_PARTS
};
enum stencil1d_narrow { /* integers, or float16 in kernels of float32 */
                        STENCIL1D_IS_NARROW = 1,
                        STENCIL1D_BYTE = 2, /* else two bytes */
                        STENCIL1D_SIGNED = 4
};
