/* matmul_plan.cuh: the contract between ops_matmul.c, which fills a plan, and the rungs of
 * matmul.cu for any product, which receive it as last argument. C and CUDA; knows no device.
 */
#pragma once

#include <stdint.h>

enum { MATMUL_AXES = 6 }; /* of a stack of products, merged */

/* A launch of rung 13 has one of these modes. */
enum matmul_mode {
    MATMUL_DOTS,
    MATMUL_QUADS,
    MATMUL_COLUMNS,
    MATMUL_ROWS,
    MATMUL_OUTER,
    MATMUL_JOIN
};
/* MATMUL_QUADS: rows and columns of a group of threads. */
enum { MATMUL_QUAD = 4 };
/* MATMUL_COLUMNS: columns of a block, where there are several, their steps of k in shared memory,
 * and elements between the sums of two columns. */
#define MATMUL_COLUMNS_OF(item_bytes) ((item_bytes) == 2 ? 4 : 8)
enum { MATMUL_COLUMNS_STEPS = 256, MATMUL_COLUMNS_PADDING = 4 };
/* MATMUL_ROWS: rows of a thread. */
enum { MATMUL_ROWS_OF_THREAD = 8 };
/* MATMUL_OUTER: steps of k at most, and a block's tile. */
enum { MATMUL_OUTER_BITS = 5, MATMUL_OUTER_ROWS = 64, MATMUL_OUTER_COLUMNS = 128 };

enum { MATMUL_THREADS = 256 }; /* of a block of rung 13 */
/* Rung 12: threads of a block, rows and columns of their outputs for sums of 4 and of 8 bytes,
 * stages of its ring of layers, and blocks that must fit a multiprocessor. */
#define MATMUL_PATCHES(PATCH)    \
    PATCH(128, 8, 4, 8, 4, 4, 4) \
    PATCH(256, 4, 4, 4, 4, 3, 4)
/* Steps of k of a team in a layer, for sums of this many bytes. */
#define MATMUL_STEPS(sum_bytes) ((sum_bytes) == 8 ? 4 : 8)

/* Steps are elements. A stack's axis, the last first. */
struct matmul_axis {
    uint64_t extent;
    int64_t a, b;
};

/* With `is_swapped` the kernels compute the transpose: a, rows, m stand for b, columns, n. */
struct matmul_plan {
    uint64_t m, n, k;
    int64_t a_row, a_k, b_k, b_column, c_row, c_column;
    uint64_t outputs;       /* of all products */
    uint64_t chunk;         /* steps of k of a slice */
    uint64_t tiles, across; /* tiles of outputs of a product; in a row of them */
    uint32_t slices;        /* of k; more than one: their sums go to the partial sums */
    uint32_t is_swapped;
    uint32_t down_bits, across_bits; /* logarithms of a tile's patches */
    uint32_t team_bits;              /* of its teams, or of the teams of a block of columns */
    uint32_t run_bits;               /* logarithm of the adjacent steps of k that a warp loads */
    uint32_t lane_bits, join_bits; /* of a dot product's threads, of the groups that join slices */
    uint32_t a_along_k, b_along_k; /* the axis along which threads load */
    uint32_t width;                /* columns of a tile of rows */
    uint32_t axis_count;
    struct matmul_axis axes[MATMUL_AXES];
};
