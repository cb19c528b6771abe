/* transpose_plan.cuh: how ops_transpose.c and ops_transpose_packed.c tell the rungs that take any
 * axes what to do. C and CUDA: they fill the plan, a kernel gets it as its last argument.
 *
 * Steps are in items of what is moved, which may be wider than the caller's items.
 */
#pragma once

#include <stdint.h>

enum transpose_shape {
    TRANSPOSE_ALIGNED, /* tiles; every row of both arrays begins and ends at a pack of 16 bytes */
    TRANSPOSE_PHASED,  /* tiles; each row begins wherever it begins */
    TRANSPOSE_PACKED,  /* tiles over several axes, which are runs of memory on both sides */
    TRANSPOSE_ROWS     /* the innermost axis stays where it is: rows are copied */
};

/* TRANSPOSE_PACKED: how runs of the input are loaded: all begin at a pack of 16 bytes; or packs
 * are, wherever the runs begin, and these lie in shared memory as far after a pack's begin; or
 * packs are cut out of those. */
enum { TRANSPOSE_LOADS_PACKS, TRANSPOSE_LOADS_AROUND, TRANSPOSE_LOADS_CUT };

/* One axis: of the grid, with the steps in both arrays; of a tile, with those of a table. */
struct transpose_axis {
    uint64_t extent, in, out;
};

/* A tile takes `chunk` of the axis that grid axis `axis` counts the chunks of; of `extent` the last
 * chunk may have fewer. What it scales: the bits TRANSPOSE_LOAD_RUN and so on. */
struct transpose_cut {
    uint32_t axis, chunk, scales;
    uint64_t extent;
};

enum { TRANSPOSE_LOAD_RUN = 1, TRANSPOSE_LOAD_RUNS = 2, TRANSPOSE_RUN = 4, TRANSPOSE_RUNS = 8 };
enum { TRANSPOSE_AXES_MAX = 64, TRANSPOSE_CUTS = 2 };

/* TRANSPOSE_ALIGNED: the sides of a tile of items of so many bytes. */
#define TRANSPOSE_TILE_ROWS(item) ((item) <= 2 ? 128 : (item) <= 8 ? 64 : 32)
#define TRANSPOSE_TILE_COLUMNS(item) ((item) == 1 ? 128 : (item) <= 4 ? 64 : 32)

/* TRANSPOSE_ROWS: what a thread of a GPU moves: packs of 16 bytes, or narrower items. */
enum { TRANSPOSE_ROW_PACKS = 4, TRANSPOSE_ROW_ITEMS = 8 };

/* TRANSPOSE_PACKED: of what a block keeps about a tile, before the tables. */
enum { TRANSPOSE_PART_BYTES = 32 };

struct transpose_plan {
    uint32_t shape;               /* a transpose_shape */
    uint32_t in_place;            /* input and output are one square matrix, or a batch */
    uint64_t items;               /* of the whole array */
    uint64_t rows, columns;       /* of a matrix: the input's; rows are neighbours in the output */
    uint64_t in_pitch, out_pitch; /* from row to row of the input, of the output */
    uint32_t row_tiles, column_tiles; /* blocks of a strip of a matrix; the grid's y: which strip */
    uint32_t apart;     /* two columns of tiles so far from each other are taken in turns; 0: one */
    uint32_t grid_axes; /* axes[0] and on: the matrices, or the tiles */

    /* TRANSPOSE_PACKED: a tile is `load_runs` runs of `load_run` items in the input, and `runs`
     * runs of `run` items in the output; each without the axis that a cut scales it by. Of the
     * tables' axes, which follow the grid's, the first are those of the load's runs, then the
     * store's runs, then the items within such a run. */
    uint32_t block; /* its threads */
    uint32_t tiles, load_run, load_runs, run, runs;
    uint32_t load_run_most, load_runs_most, run_most, runs_most; /* of a tile that is not cut */
    uint32_t load_axes, run_axes, item_axes;
    uint32_t loads, stores_packs;     /* how; whether all runs begin at a pack of 16 bytes */
    uint32_t load_magic, store_magic; /* of the packs of a run that is not cut */
    /* In shared memory, all in bytes: the tables, and the tile behind them. Of the output's
     * innermost axis there are `pad` more after each 16 bytes of items. If it is in the load's
     * runs, these have `pad` more every 2^32 / `wrap_magic`; if not, the runs' places have
     * `run_pad`. */
    uint32_t table_bytes, tile_bytes, pad, run_pad, wrap_magic;
    /* Where item i of a store's run is: i * `item_step` after the first, and `item_jump` more for
     * each `item_extent`, which is 2^32 / `item_magic`. Or, `in_segments` of `item_extent`, of
     * which, if they are `segments_whole`, none ends within a pack: each segment `item_jump` after
     * the one before, or where a table of so many `segments` says. Or a table says where those of
     * one `item_extent` are, and a pack's worth more, a `period`; or, of so many `packs`, where
     * every item is. */
    uint32_t packs, in_segments, segments, segments_whole, period;
    uint32_t item_extent, item_step, item_magic, item_jump;
    struct transpose_cut cuts[TRANSPOSE_CUTS];
    struct transpose_axis axes[TRANSPOSE_AXES_MAX];
    uint32_t all_row_tiles; /* of all strips of a matrix */
};
