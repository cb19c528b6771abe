/*
 * sim_races.h: what the race detector's two files share: the order of events (sim_races.c) and the
 * memory of who accessed each word last (sim_races_cells.c).
 */
#ifndef SIM_RACES_H
#define SIM_RACES_H

#include "sim_observe.h"

/* A cell, unpacked: who accessed some bytes of a word. */
struct sim_race_cell {
    uint32_t block, warp, lane, time, pc, bytes;
    uint32_t unit; /* bytes a lane; 0: all of them are `lane`'s. Byte b is lane + b / unit's */
    int write, atomic;
    int many, warps, blocks; /* readers: several lanes of the warp, several warps, several blocks */
};

static inline uint32_t sim_race_owner(const struct sim_race_cell *c, uint32_t byte) {
    return c->unit ? (c->lane + byte / c->unit) % SIM_LANES : c->lane;
}

#define SIM_GLOBAL_TIME_MOST 4095u /* of global cells: from there on nothing is known */
#define SIM_SYNC_WORDS 32u
#define SIM_SHARED_TIME_MOST 0x1fffffffu /* of shared cells: then everything is forgotten */

/* Times count what orders, over the whole block. An access is stamped with the time at which its
 * warp's present epoch began. */
struct sim_race_block {
    uint32_t time, now[SIM_MAX_WARPS];
    uint32_t met[SIM_MAX_WARPS]; /* when each warp last synchronised with others */
    /* [x][w]: what warp w did before then is ordered before what warp x does now; [x][x]: the same
     * for all lanes of x. floor[x]: the least of them, which is all that is needed mostly. */
    uint32_t known[SIM_MAX_WARPS][SIM_MAX_WARPS], floor[SIM_MAX_WARPS];
    uint32_t fence[SIM_MAX_WARPS][SIM_MAX_WARPS];
    uint8_t fenced[SIM_MAX_WARPS]; /* 1, or 2: within the block only */
    uint64_t acquired[SIM_MAX_WARPS];
    /* [w]: of a warp of which some lanes have synchronised without the others, 32 times for each
     * lane: what lane i did before time i is ordered before what the lane does now. Its own: when
     * it was last among such lanes. */
    uint32_t *lanes[SIM_MAX_WARPS];
    uint64_t *writers, *readers; /* a cell for each word of shared memory */
    uint64_t words;
    int released; /* something was, and then: through words of such a remainder, up to when */
    uint32_t sync[SIM_SYNC_WORDS][SIM_MAX_WARPS];
};

static inline int sim_race_ordered_in_warp(const struct sim_race_block *r, uint32_t w,
                                           const struct sim_race_cell *c, uint32_t from,
                                           uint32_t lane) {
    const uint32_t *known = r->lanes[w] ? r->lanes[w] + lane * SIM_LANES : NULL;
    if (c->time < r->known[w][w])
        return 1;
    /* of several readers the one that is kept stands for all that some lanes have ordered */
    if (c->many && !(known && known[lane] > r->known[w][w]))
        return 0;
    return from == lane || (known && c->time < known[from]);
}

/* A block's access was released, and this warp acquired after that. */
int sim_race_released(const struct sim_run *run, const struct sim_race_block *r,
                      const struct sim_race_cell *c, uint32_t w);
int sim_race_found(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a,
                   uint32_t lane, const struct sim_race_cell *c, int other_wrote);

#endif
