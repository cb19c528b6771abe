/* stencil1d_plan.cuh: what ops_stencil1d.c, which plans a stencil, and the kernels of stencil1d.cu
 * both go by. C and CUDA.
 */
#pragma once

/* Whether a stencil of rung 2 is the deck's: one row, its radius, as many outputs as inputs, and
 * blocks enough that some have others on both sides; but for the block, or the outputs. In the
 * upper half of the argument that has the mode in the lower. */
enum { STENCIL1D_DECK_RADIUS = 3, STENCIL1D_DECK_BLOCK = 256 };
enum stencil1d_deck { STENCIL1D_OTHER, STENCIL1D_DECK, STENCIL1D_NEARLY_DECK };
