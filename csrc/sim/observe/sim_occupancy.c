/* sim_occupancy.c: achieved occupancy: active warps per multiprocessor, averaged over time. There
 * is no clock; time counts steps. In a step every warp that does not wait at a barrier executes one
 * instruction. A warp is active from its block's start to its own exit, waiting included; a block
 * lasts until its last warp exits. Blocks are placed by index: first one on each multiprocessor in
 * turn, later where room frees first. So the result depends only on the program and the preset.
 */
#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

/* Room for one block on a multiprocessor. */
struct block_slot {
    uint64_t free_at;
    uint64_t index; /* index / sm_count: slot on a multiprocessor; index % sm_count: the
                       multiprocessor */
};

static int earlier(const struct block_slot *a, const struct block_slot *b) {
    return a->free_at != b->free_at ? a->free_at < b->free_at : a->index < b->index;
}

static void sift_down(struct block_slot *heap, uint64_t count) {
    for (uint64_t i = 0, child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!earlier(&heap[child], &heap[i]))
            return;
        struct block_slot kept = heap[i];
        heap[i] = heap[child];
        heap[child] = kept;
    }
}

/* Records a finished block, under the launch's lock. Returns 0 when out of memory. */
int sim_occupancy_note(struct sim_run *run, const struct sim_block *block) {
    if (block->linear >= run->duration_capacity) {
        uint64_t wanted = run->duration_capacity * 2 + 256;
        wanted = wanted > block->linear ? wanted : block->linear + 1;
        uint64_t *grown = realloc(run->durations, (size_t)wanted * sizeof *grown);
        if (!grown)
            return 0;
        memset(grown + run->duration_capacity, 0,
               (size_t)(wanted - run->duration_capacity) * sizeof *grown);
        run->durations = grown;
        run->duration_capacity = wanted;
    }
    run->durations[block->linear] = block->duration;
    run->active_time += block->active_time;
    return 1;
}

/* Average of active warps over the maximum of a multiprocessor, for the time in which it has any; 0
 * where no block has ended. Fills the times of `spread`. Returns 0 when out of memory. */
int sim_occupancy_achieved(const struct sim_run *run, double *achieved, struct sim_spread *spread) {
    const uint64_t sms = run->preset->sm_count, places = run->occupancy.blocks_per_sm * sms,
                   blocks = run->total_blocks < run->duration_capacity ? run->total_blocks
                                                                       : run->duration_capacity,
                   count = places < blocks ? places : blocks;
    uint64_t busy = 0, last = 0, used = 0;
    struct block_slot *heap = calloc((size_t)count + 1, sizeof *heap);
    uint64_t *ends = calloc((size_t)sms, sizeof *ends);
    const int made = heap && ends;
    *achieved = 0;
    for (uint64_t i = 0; i < count && made; i++)
        heap[i].index = i;
    for (uint64_t i = 0; i < blocks && made; i++) {
        if (!run->durations[i])
            continue; /* it never ended */
        spread->steps += run->durations[i];
        if (run->durations[i] > spread->longest_steps) {
            spread->longest_steps = run->durations[i];
            spread->longest_block = i;
        }
        heap[0].free_at += run->durations[i];
        uint64_t *end = &ends[heap[0].index % sms];
        *end = *end > heap[0].free_at ? *end : heap[0].free_at;
        sift_down(heap, count);
    }
    for (uint64_t i = 0; i < sms && made; i++) {
        busy += ends[i];
        used += ends[i] > 0;
        last = last > ends[i] ? last : ends[i];
    }
    for (uint64_t i = 0; i < blocks && made; i++)
        spread->long_blocks += run->durations[i] * blocks * 4 > spread->steps * 5;
    spread->balance = last ? (double)busy / ((double)last * (double)used) : 1;
    if (busy)
        *achieved =
            (double)run->active_time / ((double)busy * (double)run->occupancy.max_warps_per_sm);
    free(heap);
    free(ends);
    return made;
}
