/* sim_races.h: shared by the race detector's two files: the order of events (sim_races.c) and the
 * record of each word's last accesses (sim_races_cells.c).
 */
#ifndef SIM_RACES_H
#define SIM_RACES_H

#include "sim_observe.h"

/* A cell, unpacked: the access to some bytes of a word. */
struct sim_race_cell {
    uint32_t block, warp, lane, time, pc, bytes;
    uint32_t unit; /* which lane owns each byte: see SIM_RACE_OWNERS */
    int write, atomic;
    uint32_t same; /* a write's: 1: threads of the block store this by construction; 2: all do */
    int many, warps, blocks; /* readers: several lanes of the warp, several warps, several blocks */
};

/* By unit, what each byte's owner adds to `lane`, the first byte in the lowest bits: all bytes
 * belong to one lane; each to the next one; or those from byte 2, 3 or 1 on to the next one. */
static const uint32_t SIM_RACE_OWNERS[] = {0, 0x03020100, 0x01010000, 0x01000000, 0x01010100};
#define SIM_RACE_UNITS 5u
#define SIM_RACE_BLOCKS 0x7fffffu /* of global cells: blocks are numbered modulo this plus one */

/* The owners of all four bytes. */
static inline uint32_t sim_race_owners(const struct sim_race_cell *c) {
    return (c->lane * 0x01010101u + SIM_RACE_OWNERS[c->unit]) & 0x1f1f1f1fu;
}

static inline uint32_t sim_race_owner(const struct sim_race_cell *c, uint32_t byte) {
    return sim_race_owners(c) >> byte * 8 & 31;
}

#define SIM_GLOBAL_TIME_MOST 4095u /* of global cells: later accesses have no known order */
#define SIM_SYNC_WORDS 32u
#define SIM_SHARED_TIME_MOST 0x0fffffffu /* of shared cells: then all cells are cleared */

/* Times count ordering events over the whole block. An access carries the time at which its warp's
 * current epoch began. */
struct sim_race_block {
    uint32_t time, now[SIM_MAX_WARPS];
    uint32_t met[SIM_MAX_WARPS]; /* when each warp last synchronized with others */
    /* [x][w]: accesses of warp w before this time are ordered before those of warp x now; [x][x]:
     * likewise for all lanes of x. floor[x]: the minimum, which usually suffices. */
    uint32_t known[SIM_MAX_WARPS][SIM_MAX_WARPS], floor[SIM_MAX_WARPS];
    uint32_t fence[SIM_MAX_WARPS][SIM_MAX_WARPS];
    uint8_t fenced[SIM_MAX_WARPS]; /* 1, or 2: only within the block */
    uint64_t acquired[SIM_MAX_WARPS];
    /* [w]: set once some lanes of a warp have synchronized without the others: 32 times for each
     * lane. Accesses of lane i before time i are ordered before those of the lane now. Its own
     * entry: when it last took part. */
    uint32_t *lanes[SIM_MAX_WARPS];
    /* Lanes in step (see sim_races.c): as known[w][w] and lanes[w], for volatile accesses alone.
     * stepping: the warp has made one since its last barrier. */
    uint32_t stepped[SIM_MAX_WARPS], *step_lanes[SIM_MAX_WARPS];
    uint8_t stepping[SIM_MAX_WARPS];
    /* Lanes in step: reads follow plain stores before this time, that of the last store which all
     * lanes of the warp executed. */
    uint32_t together[SIM_MAX_WARPS];
    uint64_t *writers, *readers; /* one cell for each word of shared memory */
    uint64_t *bytes; /* four cells for each word's writers, and four for its readers, of single
                        bytes; NULL until needed */
    uint64_t words;
    int released; /* whether anything was released; then: the time, by remainder of the word's
                     address */
    uint32_t sync[SIM_SYNC_WORDS][SIM_MAX_WARPS];
};

/* before: accesses of all lanes before this time are ordered; lanes: the matrix of lanes, or NULL.
 */
static inline int sim_race_ordered_by(uint32_t before, const uint32_t *lanes,
                                      const struct sim_race_cell *c, uint32_t from, uint32_t lane) {
    const uint32_t *known = lanes ? lanes + lane * SIM_LANES : NULL;
    if (c->time < before)
        return 1;
    /* the one reader kept of several stands for all that some lanes have ordered */
    if (c->many && !(known && known[lane] > before))
        return 0;
    return from == lane || (known && c->time < known[from]);
}

static inline int sim_race_ordered_in_warp(const struct sim_race_block *r, uint32_t w,
                                           const struct sim_race_cell *c, uint32_t from,
                                           uint32_t lane) {
    return sim_race_ordered_by(r->known[w][w], r->lanes[w], c, from, lane);
}

/* Both accesses are volatile ones to shared memory. */
static inline int sim_race_volatile(const struct sim_run *run, const struct sim_access *a,
                                    const struct sim_race_cell *c) {
    return a->space == SIM_S_SHARED && a->in->order == SIM_ORDER_VOLATILE && c->pc < 0xffff &&
           run->kernel->code[c->pc].order == SIM_ORDER_VOLATILE;
}

/* A block's access was released, and this warp acquired afterwards. */
int sim_race_released(const struct sim_run *run, const struct sim_race_block *r,
                      const struct sim_race_cell *c, uint32_t w);
int sim_race_found(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a,
                   uint32_t lane, const struct sim_race_cell *c, int other_wrote);

#endif
