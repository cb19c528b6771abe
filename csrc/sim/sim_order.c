/* sim_order.c: runs a launch's warps in an order that its delays give (see struct sim_delay), on
 * one host thread. Results depend on the delays alone.
 */
#include "sim_block.h"

#include "exec/sim_async.h"
#include "observe/sim_observe.h"

#include <stdlib.h>

#define BLOCKS_MOST 64u    /* resident; more only if those wait for others */
#define STALLED_TURNS 200u /* of every warp, without any progress */

enum sim_status sim_order_open(struct sim_run *run, struct sim_error *error) {
    run->schedule = calloc(1, sizeof *run->schedule);
    if (!run->schedule)
        return sim_fail(error, SIM_NO_MEMORY, 0, 0, "out of memory for an order");
    /* one of 2, 8, 32 or 128 accesses: few delays find what many hide */
    run->schedule->limit = run->launch->seed ? UINT64_MAX >> (1 + run->launch->seed % 4 * 2) : 0;
    return SIM_OK;
}

static void start(struct sim_run *run, uint64_t limit) {
    limit = limit < run->resident_limit ? limit : run->resident_limit;
    for (struct sim_block *b; (b = sim_launch_start(run, limit));) {
        b->has_token = 1;
        for (uint32_t i = 0; i < b->warp_count; i++) {
            b->warps[i].rank = ++run->schedule->last;
            b->warps[i].accesses = 0;
            b->warps[i].delayed = 0;
        }
    }
}

/* The runnable warp of the least rank; NULL: all wait at barriers. */
static struct sim_warp *first(const struct sim_run *run) {
    struct sim_warp *found = NULL;
    for (struct sim_block *b = run->ring; b; b = b->next)
        for (uint32_t i = 0; i < b->warp_count; i++) {
            struct sim_warp *warp = &b->warps[i];
            if (!warp->done && !sim_warp_blocked(warp) && (!found || warp->rank < found->rank))
                found = warp;
        }
    return found;
}

void sim_order_work(struct sim_worker *w) {
    struct sim_run *run = w->run;
    uint64_t idle = 0, limit = BLOCKS_MOST, writes = 0;
    while (!run->stop && (run->ring || run->next_block < run->total_blocks)) {
        start(run, limit);
        struct sim_warp *warp = run->stop ? NULL : first(run);
        if (!warp) {
            if (!run->stop)
                sim_block_stuck(w, run->ring);
            sim_launch_fail(run, w);
            return;
        }
        struct sim_block *block = warp->block;
        const enum sim_stop stop = sim_block_turn(w, warp);
        if (stop == SIM_STOP_ERROR) {
            sim_launch_fail(run, w);
            return;
        }
        if (stop == SIM_STOP_YIELD || stop == SIM_STOP_SLICE || stop == SIM_STOP_DELAY)
            warp->rank = ++run->schedule->last;
        if (stop == SIM_STOP_DONE && !block->live_threads) {
            sim_copies_end(w, block);
            if (run->caches)
                sim_caches_end(run, block);
            sim_launch_end(w, block);
            sim_launch_remove(run, block);
        }
        if (w->writes != writes || (stop != SIM_STOP_YIELD && stop != SIM_STOP_DELAY))
            idle = 0;
        idle += stop == SIM_STOP_YIELD;
        writes = w->writes;
        const uint64_t warps = run->ring_count * run->warps_per_block;
        if (idle <= 2 * warps)
            continue;
        if (block->copies_in && sim_copies_count(w, block, SIM_NO_SLOT)) {
            sim_launch_fail(run, w);
            return;
        }
        limit = run->resident_limit; /* they may wait for blocks that have not begun */
        if (idle > STALLED_TURNS * (warps + 1))
            sim_launch_stalled(w, block);
    }
    sim_run_poll(w, 0, 1);
}
