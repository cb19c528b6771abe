/* transpose_plan.cuh: the contract between ops_transpose.c and ops_transpose_packed.c, which fill a
 * plan, and the rungs that support any axes, which receive it as last argument. C and CUDA; knows
 * no device.
 *
 * Steps count the elements that are moved, which may be wider than the caller's.
 */
#pragma once

#include <stdint.h>

enum transpose_shape {
    TRANSPOSE_ALIGNED, /* tiles; every row of both arrays begins and ends at a vector */
    TRANSPOSE_PHASED,  /* tiles; rows are unaligned */
    TRANSPOSE_PACKED,  /* tiles over several axes, runs of memory on both sides */
    TRANSPOSE_WIDE,    /* tiles over any axes, of elements of at least a word */
    TRANSPOSE_NARROW,  /* the same, of narrower elements */
    TRANSPOSE_ROWS     /* rows of the output are copied, or gathered element by element */
};

/* TRANSPOSE_PACKED: how runs of the input are loaded: all begin at a vector; or at any offset,
 * which they keep within a vector in shared memory; or vectors are cut out of those. */
enum { TRANSPOSE_LOADS_VECTORS, TRANSPOSE_LOADS_AROUND, TRANSPOSE_LOADS_CUT };

/* One axis: of the grid, with the steps in both arrays; of a tile, with those of a table. */
struct transpose_axis {
    uint64_t extent, in, out;
};

/* A tile has `chunk` of the axis of which grid axis `axis` counts the chunks; the last one may be
 * shorter, as the axis has `extent`. `scales`: bits TRANSPOSE_LOAD_RUN and so on. */
struct transpose_cut {
    uint32_t axis, chunk, scales;
    uint64_t extent;
};

enum { TRANSPOSE_LOAD_RUN = 1, TRANSPOSE_LOAD_RUNS = 2, TRANSPOSE_RUN = 4, TRANSPOSE_RUNS = 8 };
enum { TRANSPOSE_AXES_MAX = 64, TRANSPOSE_CUTS = 2 };

/* TRANSPOSE_ALIGNED: the sides of a tile for elements of `item` bytes. */
#define TRANSPOSE_TILE_ROWS(item) ((item) <= 2 ? 128 : (item) <= 8 ? 64 : 32)
#define TRANSPOSE_TILE_COLUMNS(item) ((item) == 1 ? 128 : (item) <= 4 ? 64 : 32)

/* TRANSPOSE_ROWS: vectors, or narrower elements, that a thread moves at most. */
enum { TRANSPOSE_ROW_VECTORS = 4, TRANSPOSE_ROW_ITEMS = 8 };

/* TRANSPOSE_PACKED: words of a row of a table of pairs, words of the next row that follow them once
 * more, and the odd distance of two rows. */
enum { TRANSPOSE_PAIRS = 32, TRANSPOSE_PAIRS_AGAIN = 14, TRANSPOSE_PAIRS_PITCH = 49 };

/* TRANSPOSE_PACKED: bytes of a block's data on a tile, before the tables. */
enum { TRANSPOSE_PART_BYTES = 32 };

struct transpose_plan {
    uint32_t shape;               /* a transpose_shape */
    uint32_t in_place;            /* input and output are one square matrix, or a batch */
    uint64_t items;               /* of the whole array */
    uint64_t reach;               /* elements from the input's first to its last, with gaps */
    uint64_t rows, columns;       /* of a matrix in the input */
    uint64_t in_pitch, out_pitch; /* between rows of the input, of the output */
    uint32_t row_tiles,
        column_tiles;   /* blocks of a strip of a matrix; the grid's y counts strips */
    uint32_t apart;     /* distance of two columns of tiles that alternate; 0: none */
    uint32_t grid_axes; /* axes[0] and on: the matrices, or the tiles */
    uint32_t near_axes; /* those of a matrix that precede columns of tiles in the grid */

    /* TRANSPOSE_PACKED: a tile is `load_runs` runs of `load_run` elements in the input, and `runs`
     * runs of `run` elements in the output; each excludes the axis by which a cut scales it. The
     * tables' axes follow the grid's: first those of the load's runs, then of the store's runs,
     * then of the elements within such a run. */
    uint32_t block; /* threads */
    uint32_t tiles, load_run, load_runs, run, runs;
    uint32_t load_run_most, load_runs_most, run_most, runs_most; /* of a tile that is not cut */
    uint32_t load_axes, run_axes, item_axes;
    /* The method, of TRANSPOSE_ROWS the elements that a thread moves; whether all runs begin at a
     * vector. */
    uint32_t loads, stores_vectors;
    uint32_t load_magic, store_magic; /* for the vectors of a run that is not cut */
    /* In shared memory, all in bytes: the tables, followed by the tile. Along the output's
     * innermost axis `pad` bytes follow each 16 bytes of elements; if that axis is not in the
     * load's runs, the offsets of runs have `run_pad`. The load's runs have `wrap_pad` more bytes
     * every 2^32 / `wrap_magic`; with `puts_vectors` all their vectors lie at vectors. A warp's
     * lanes store `streams` streams, each of `stream_lanes` adjacent vectors. */
    uint32_t table_bytes, tile_bytes, pad, run_pad, wrap_pad, wrap_magic, puts_vectors;
    uint32_t streams, stream_lanes;
    /* Offset of element i of a store's run: i * `item_step`, and `item_jump` more for each
     * `item_extent`, which is 2^32 / `item_magic`. Or `in_segments` of `item_extent`, none of which
     * ends within a vector if `segments_whole`: each segment lies `item_jump` after the previous
     * one, or at an offset in a table of `segments`. Or a table has the offsets of one
     * `item_extent` and a vector's elements more, a `period`, in pairs. */
    uint32_t in_segments, segments, segments_whole, period;
    uint32_t item_extent, item_step, item_magic, item_jump;
    /* TRANSPOSE_WIDE: a tile is `tile_rows` rows of `tile_columns`, with `whole` all rows. It loads
     * `lead` more rows. In shared memory rows are `tile_pitch` elements apart, with `pad` more
     * after those of a vector. Axes: the grid's, `load_axes` of the rows, `run_axes` of the
     * columns. */
    uint32_t tile_rows, tile_columns, whole, lead, tile_pitch;
    /* TRANSPOSE_NARROW: the same rows, columns and axes. A tile loads `tile_height` rows, in spans
     * of `span` columns. `slots` vectors begin in a column's rows, from the first multiple of
     * `align` bytes on; `lanes` lanes of a warp store adjacent ones. */
    uint32_t tile_height, span, slots, align, lanes;
    uint32_t unit_wide; /* bytes of a row that a warp copies and transposes at a time */
    struct transpose_cut cuts[TRANSPOSE_CUTS];
    struct transpose_axis axes[TRANSPOSE_AXES_MAX];
    uint32_t all_row_tiles; /* of all strips of a matrix */
    uint32_t sparse; /* loads fetch no bytes around their own: the input's runs are far apart */
};
