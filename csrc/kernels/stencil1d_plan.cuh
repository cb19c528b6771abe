/* stencil1d_plan.cuh: the contract between ops_stencil1d.c, which plans a stencil, and the kernels
 * of stencil1d.cu. C and CUDA; knows no device.
 */
#pragma once

/* What a kernel learns beside a stencil's numbers, in the upper half of the argument whose lower
 * half is the mode. Rung 2: whether it is the deck's case: one row, its radius, as many outputs as
 * inputs, and enough blocks that some have others on both sides; NEARLY: all but the block size or
 * the number of outputs. Rung 5: whether rows are shorter than the window,
 * or are columns, which the kernels with weights serve, all 1 if there are none; then the groups of
 * outputs of a thread follow from bit STENCIL1D_GROUPS on. */
enum { STENCIL1D_DECK_RADIUS = 3, STENCIL1D_DECK_BLOCK = 256 };
enum stencil1d_form {
    STENCIL1D_OTHER,
    STENCIL1D_DECK,
    STENCIL1D_NEARLY_DECK,
    STENCIL1D_SHORT_ROWS,
    STENCIL1D_COLUMNS
};
enum { STENCIL1D_GROUPS = 8, STENCIL1D_GROUP = 8 /* outputs of such a group */ };
