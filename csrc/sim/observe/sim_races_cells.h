/* sim_races_cells.h: shared by the files that record accesses: one of them, as they compare it with
 * a cell, and how its lanes divide into rows of words.
 */
#ifndef SIM_RACES_CELLS_H
#define SIM_RACES_CELLS_H

#include "sim_races.h"

/* How many threads store a write's value by construction. */
enum { SAME_BLOCK = 1, SAME_GRID = 2 };

/* The current access. */
struct view {
    struct sim_worker *w;
    struct sim_warp *warp;
    const struct sim_access *a;
    struct sim_race_block *r;
    int atomic, writes;
    uint16_t pc;
    uint32_t same;        /* of a store: see struct sim_race_cell */
    uint64_t alone;       /* all ones: blocks of this kernel cannot synchronize */
    uint32_t launch;      /* tag of global cells */
    uint64_t mine;        /* packed cell of this access by lane 0, of a whole word */
    uint64_t before, own; /* shared: cells below are ordered before all; own warp's cells */
};

/* All ones or zero, as a vector comparison gives. */
#define WHEN(condition) ((condition) ? ~0ull : 0ull)

/* Consecutive words that lanes access: the lane of word i is lane + (i << up >> down). */
struct row {
    uint64_t mine; /* the cell of lane 0 */
    uint32_t words, lane, up, down;
};

/* ---- one cell for each access of a lane to a word ---- */

/* How a full warp's lanes divide into rows of consecutive words: one for each group of lanes. Sets
 * the row's shape; returns 0 if they do not, or access parts of one row's words twice. */
static inline int rows_of(const struct view *v, struct row *row) {
    const struct sim_access *a = v->a;
    const uint32_t bytes = a->bytes;
    if (a->mask != SIM_FULL || a->group < 4 || v->atomic || bytes > 16 ||
        (a->stride != (int64_t)bytes && (a->stride || v->writes || bytes < 4)))
        return 0;
    row->mine = v->mine;
    row->up = bytes == 1 ? 2 : bytes == 2 ? 1 : 0;
    row->down = bytes == 8 ? 1 : bytes == 16 ? 2 : 0;
    row->words = a->group * bytes / 4;
    if (bytes >= 4)
        return 1;
    row->mine |= (uint64_t)bytes << 4; /* the cells' unit */
    return row->words && !((a->least | (uint64_t)a->step) & 3);
}

/* A lane's access to a whole word. */
static inline struct sim_race_cell whole_cell(const struct view *v, uint32_t lane) {
    const uint32_t x = v->warp->index, time = v->r->now[x];
    const int shared = v->a->space == SIM_S_SHARED;
    return (struct sim_race_cell){
        .block = shared ? 0 : (uint32_t)(v->warp->block->linear & SIM_RACE_BLOCKS),
        .warp = x,
        .lane = lane,
        .time = !shared && time > SIM_GLOBAL_TIME_MOST ? SIM_GLOBAL_TIME_MOST : time,
        .pc = v->a->pc,
        .bytes = 15,
        .write = v->writes,
        .atomic = v->atomic && v->writes,
        .same = v->same};
}

/* bytes: size of the access; at: its offset in the word. */
static inline struct sim_race_cell cell_of(const struct view *v, uint32_t lane, uint32_t bytes,
                                           uint32_t at) {
    struct sim_race_cell c = whole_cell(v, lane);
    if (bytes < 4) {
        c.bytes = ((1u << bytes) - 1) << at;
        c.unit = bytes;
        c.lane =
            (lane - at / bytes) % SIM_LANES; /* the lane that would own the word's first byte */
    }
    return c;
}

/* The cell of a row's word. */
static inline struct sim_race_cell cell_in(const struct view *v, const struct row *row,
                                           uint32_t i) {
    struct sim_race_cell c = whole_cell(v, row->lane + (i << row->up >> row->down));
    c.unit = v->a->bytes < 4 ? v->a->bytes : 0;
    return c;
}

static inline uint32_t lanes_of_group(const struct sim_access *a, uint32_t lane) {
    return (uint32_t)((1ull << a->group) - 1) << lane;
}

/* The pattern of two accesses' owners. Returns 0 if there is none. */
static inline int owners_join(uint32_t bytes, uint32_t owners, uint32_t more, uint32_t theirs,
                              uint32_t *unit, uint32_t *lane) {
    const uint32_t one = (bytes * 0x00204081u & 0x01010101u) * 0x1f, /* four bits to four bytes */
        other = (more * 0x00204081u & 0x01010101u) * 0x1f, both = one | other;
    const uint32_t all = (owners & one) | (theirs & other & ~one),
                   first = (uint32_t)__builtin_ctz(bytes | more) * 8;
    if ((owners ^ theirs) & one & other)
        return 0;
    for (uint32_t u = 0; u < SIM_RACE_UNITS; u++) {
        const uint32_t from = (all + 0x20202020u - SIM_RACE_OWNERS[u]) & both,
                       least = from >> first & 31;
        if (from == (least * 0x01010101u & both)) {
            *unit = u;
            *lane = least;
            return 1;
        }
    }
    return 0;
}

/* The same access, to other bytes of the word: `mine` becomes the cell of both, if their lanes have
 * a pattern. */
static inline int join(const struct sim_race_cell *c, struct sim_race_cell *mine) {
    if (c->write != mine->write || c->atomic != mine->atomic || c->warp != mine->warp ||
        c->block != mine->block || c->time != mine->time || c->same != mine->same || c->many ||
        c->warps || c->blocks)
        return 0;
    if ((c->unit != mine->unit || c->lane != mine->lane) &&
        !owners_join(c->bytes, sim_race_owners(c), mine->bytes, sim_race_owners(mine), &mine->unit,
                     &mine->lane))
        return 0;
    mine->bytes |= c->bytes;
    return 1;
}

/* One byte's part of a cell, as a cell of its own: all its four bytes stand for that byte. */
static inline struct sim_race_cell byte_cell(const struct sim_race_cell *c, uint32_t byte) {
    struct sim_race_cell one = *c;
    one.lane = sim_race_owner(c, byte);
    one.unit = 0;
    one.bytes = 15;
    return one;
}

/* Compares another cell's bytes with this access's: one finding for each pair of lanes. ordered(v,
 * c, owner, lane): the owner's access is ordered before the lane's. Returns 1 when the launch ends.
 */
typedef int (*ordered_fn)(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                          uint32_t lane);

int sim_race_conflicts(const struct view *v, const struct sim_race_cell *c,
                       const struct sim_race_cell *mine, ordered_fn ordered);
/* Several warps read a word, one of this warp's lanes last. A barrier of all warps orders them
 * together. If only some warps met, the cell does not say which of them read: the reader that is
 * kept stands for all. */
int sim_race_readers_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                             uint32_t lane);

/* ---- sim_races_shared.c, sim_races_global.c: an access to either memory; `cell`: lane 0's, of a
 * whole word. Returns 1 when the launch ends. ---- */
int sim_races_shared(struct view *v, const struct sim_race_cell *cell);
int sim_races_global(struct view *v, const struct sim_race_cell *cell);

#endif
