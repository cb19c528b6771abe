/* sim_races_cells.c: records who accessed each word of memory last, and tests every access against
 * that record.
 *
 * A word of global memory has one cell: its last writer or, until a write, its readers. A write
 * that is ordered after all reads replaces them: an access that races with them also races with the
 * write. Reads after a write go to a second cell. A word of shared memory has one cell for its
 * writer and one for its readers.
 *
 * A cell keeps the first or last of several readers, and that there are others. It distinguishes
 * bytes of neighbouring lanes; if threads share a word otherwise, its bytes get
 * cells of their own, and the word's cell only says so.
 *
 * Global memory's further cells lie in pages, allocated when needed. A bound keeps all shadow
 * memory below four times the allocations; beyond it a word keeps the later access and no reads
 * after a write. So the record can miss races, and never invents one.
 *
 * Two stores of one value are no race where they are equal by construction (`done = 1`), or where
 * lanes of one warp make them by one instruction. Equal data are no other excuse, nor is any store
 * against another thread's read.
 */
#include "sim_races_cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- equal stores ---- */

static int stored_there(const struct view *v, uint32_t lane, const uint8_t *mine) {
    const struct sim_access *a = v->a;
    const uint8_t *there = a->space == SIM_S_SHARED ? v->warp->block->shared + a->address[lane]
                           : a->region ? a->region->host + (a->address[lane] - a->region->base)
                                       : NULL;
    return there && memcmp(there, mine, a->bytes) == 0;
}

/* Both store one value, and not by chance: see above. */
static int stores_alike(const struct view *v, uint32_t lane, const struct sim_race_cell *c,
                        uint32_t owner) {
    const struct sim_access *a = v->a;
    const struct sim_warp *warp = v->warp;
    if (a->kind != SIM_ACCESS_STORE || !a->value)
        return 0;
    const uint8_t *mine = a->value + (size_t)lane * a->bytes;
    const int by_value = v->w->run->by_value,
              here =
                  a->space == SIM_S_SHARED || c->block == (warp->block->linear & SIM_RACE_BLOCKS);
    const uint32_t wanted = here ? SAME_BLOCK : SAME_GRID;
    if (here && c->write && !c->atomic && c->warp == warp->index && owner != lane &&
        a->mask >> owner & 1 && a->address[owner] == a->address[lane] &&
        memcmp(a->value + (size_t)owner * a->bytes, mine, a->bytes) == 0)
        return 1;
    if (!by_value && (!c->write || c->atomic || c->same < wanted || v->same < wanted))
        return 0;
    return stored_there(v, lane, mine);
}

int sim_race_conflicts(const struct view *v, const struct sim_race_cell *c,
                       const struct sim_race_cell *mine, ordered_fn ordered) {
    uint32_t last_owner = SIM_LANES, last_lane = SIM_LANES;
    if (c->write && c->atomic && v->atomic)
        return 0;
    for (uint32_t m = c->bytes & mine->bytes; m; m &= m - 1) {
        const uint32_t b = (uint32_t)__builtin_ctz(m), owner = sim_race_owner(c, b),
                       lane = sim_race_owner(mine, b);
        if (owner == last_owner && lane == last_lane)
            continue;
        last_owner = owner;
        last_lane = lane;
        if (ordered(v, c, owner, lane) || stores_alike(v, lane, c, owner))
            continue;
        struct sim_race_cell other = *c;
        other.lane = owner;
        if (sim_race_found(v->w, v->warp, v->a, lane, &other, c->write))
            return 1;
    }
    return 0;
}

int sim_race_readers_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                             uint32_t lane) {
    const struct sim_race_block *r = v->r;
    const uint32_t x = v->warp->index, n = v->warp->block->warp_count;
    struct sim_race_cell kept = *c;
    int uneven = 0;
    if (c->time < r->met[x])
        return 1;
    for (uint32_t w = 0; w < n; w++)
        uneven |= w != x && r->known[x][w] != r->known[x][x ? 0 : n - 1];
    kept.many = 0;
    return uneven && sim_race_ordered_in_warp(r, x, &kept, owner, lane);
}

/* ---- the event ---- */

int sim_races_access(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a) {
    struct sim_run *run = w->run;
    const int shared = a->space == SIM_S_SHARED, order = a->in->order;
    const uint32_t x = warp->index;
    struct view v;
    v.w = w;
    v.warp = warp;
    v.a = a;
    v.r = warp->block->races;
    v.writes = a->kind != SIM_ACCESS_LOAD;
    v.alone = run->kernel->communicates ? 0 : ~0ull;
    v.launch = run->launch_number % 255 + 1;
    v.pc = (uint16_t)(a->pc < 0xffff ? a->pc : 0xffff);
    v.same = a->kind != SIM_ACCESS_STORE ? 0 : SIM_VARIES - run->kernel->where[a->pc].same;
    v.atomic = a->kind >= SIM_ACCESS_ATOMIC || order >= SIM_ORDER_RELAXED ||
               (order == SIM_ORDER_VOLATILE && !shared) ||
               (a->in->op == SIM_OP_LD && a->in->sub == SIM_LD_COMPARED);
    const int steps = shared && run->in_step && order == SIM_ORDER_VOLATILE;
    if (steps) {
        v.r->stepping[x] = 1;
        sim_races_step(run, warp);
    }
    const struct sim_race_cell cell = whole_cell(&v, 0);
    if (!shared)
        return sim_races_global(&v, &cell);
    const int ends = sim_races_shared(&v, &cell);
    if (steps)
        sim_races_step(run, warp);
    else if (run->in_step && a->kind == SIM_ACCESS_STORE && !(warp->live & ~a->mask))
        sim_races_stored(warp);
    return ends;
}
