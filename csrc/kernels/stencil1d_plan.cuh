/* stencil1d_plan.cuh: the contract between ops_stencil1d.c, which plans a stencil, and the kernels
 * of stencil1d.cu. C and CUDA; knows no device.
 */
#pragma once

/* Whether a stencil of rung 2 is the deck's case: one row, its radius, as many outputs as inputs,
 * and enough blocks that some have others on both sides; NEARLY: all but the block size or the
 * number of outputs. Passed in the upper half of the argument whose lower half is the mode. */
enum { STENCIL1D_DECK_RADIUS = 3, STENCIL1D_DECK_BLOCK = 256 };
enum stencil1d_deck { STENCIL1D_OTHER, STENCIL1D_DECK, STENCIL1D_NEARLY_DECK };
