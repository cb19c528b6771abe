/* sim_races.c: the observer that detects races: two accesses to the same bytes, at least one a
 * plain write, without an order between them. This file knows what creates order; sim_races_cells.c
 * remembers the accesses.
 *
 * Inside a block: each warp knows up to which time it has seen each other warp; barriers join these
 * times. A fence followed by an atomic, ordered or volatile write is a release; such a read of the
 * same word acquires it. Inside a warp: only warp-level synchronization orders lanes; each lane
 * remembers it for each other lane where only some take part. Before Volta the lanes of a warp ran
 * in step: there, volatile accesses to shared memory by different instructions are ordered, too,
 * except on two sides of a branch; and reads follow a store that all lanes have executed. Other
 * accesses are not ordered: compilers move them.
 *
 * Between blocks: releases in global memory; an acquire includes every earlier release. This rule
 * is coarser than the memory model: it can miss a race between blocks whose flags two other blocks
 * have set before, and never reports a false one.
 */
#include "sim_races.h"

#include <stdlib.h>
#include <string.h>

#define RELEASES_KEPT 64u
#define FLAGS 1024u
#define LANES_BYTES (SIM_LANES * SIM_LANES * sizeof(uint32_t))

struct release {
    uint64_t time;
    uint32_t known[]; /* times of the releasing block's warps */
};

struct block_releases {
    uint8_t *entries; /* struct release entries with warps_per_block times each */
    uint32_t count, capacity;
};

struct sim_release_log {
    struct block_releases *blocks; /* NULL if blocks of this kernel cannot synchronize */
    uint64_t time;
    uint64_t flags[FLAGS]; /* by hash of a word: time of the last release through such a word */
};

/* ---- state of a block and of a launch ---- */

int sim_races_init(struct sim_run *run, struct sim_block *block) {
    struct sim_race_block *r = calloc(1, sizeof *r);
    if (!r)
        return 0;
    block->races = r;
    r->words = run->shared_bytes / 4 + 2;
    r->writers = calloc(r->words, sizeof *r->writers);
    r->readers = calloc(r->words, sizeof *r->readers);
    return r->writers && r->readers;
}

void sim_races_free(struct sim_block *block) {
    if (!block->races)
        return;
    free(block->races->writers);
    free(block->races->readers);
    free(block->races->bytes);
    for (uint32_t w = 0; w < SIM_MAX_WARPS; w++) {
        free(block->races->lanes[w]);
        free(block->races->step_lanes[w]);
    }
    free(block->races);
    block->races = NULL;
}

/* Clears all knowledge, as of now. */
static void forget(struct sim_race_block *r, uint32_t warps, uint32_t time) {
    r->time = time;
    for (uint32_t x = 0; x < warps; x++) {
        r->now[x] = r->met[x] = r->floor[x] = time;
        for (uint32_t w = 0; w < warps; w++)
            r->known[x][w] = time;
        if (r->lanes[x])
            memset(r->lanes[x], 0, LANES_BYTES);
        if (r->step_lanes[x])
            memset(r->step_lanes[x], 0, LANES_BYTES);
        r->stepped[x] = r->together[x] = time;
        r->stepping[x] = 0;
    }
    if (r->released)
        memset(r->sync, 0, sizeof r->sync);
    r->released = 0;
    memset(r->fenced, 0, sizeof r->fenced);
    memset(r->writers, 0, r->words * sizeof *r->writers);
    memset(r->readers, 0, r->words * sizeof *r->readers);
}

void sim_races_start(struct sim_run *run, struct sim_block *block) {
    (void)run;
    memset(block->races->acquired, 0, sizeof block->races->acquired);
    forget(block->races, block->warp_count, 1);
}

int sim_races_open(struct sim_run *run) {
    run->releases = calloc(1, sizeof *run->releases);
    if (!run->releases)
        return 0;
    if (run->kernel->communicates) {
        run->releases->blocks = calloc(run->total_blocks, sizeof *run->releases->blocks);
        if (!run->releases->blocks)
            return 0;
    }
    /* the launch's tag in the cells wraps: clear old ones */
    for (size_t i = 0; run->launch_number % 255 == 0 && i < run->gpu->region_count; i++)
        sim_memory_forget_races(run->gpu, &run->gpu->regions[i]);
    for (size_t i = 0; i < run->gpu->region_count; i++) {
        struct sim_region *region = &run->gpu->regions[i];
        region->any_after = 0;
        if (region->read_only)
            continue;
        /* calloc: untouched pages cost nothing */
        if (!region->cells)
            region->cells = calloc(region->bytes / 4 + SIM_LANES, sizeof *region->cells);
        if (!region->pages)
            region->pages = calloc(sim_pages(region), sizeof *region->pages);
        if (!region->pcs)
            region->pcs = calloc(region->bytes / 4 + SIM_LANES, sizeof *region->pcs);
        if (!region->cells || !region->pages || !region->pcs)
            return 0;
    }
    return 1;
}

void sim_races_forget(struct sim_region *region, uint64_t offset, uint64_t bytes) {
    for (uint64_t word = offset / 4; word < (offset + bytes + 3) / 4; word++) {
        struct sim_cells *page =
            __atomic_load_n(&region->pages[word / SIM_CELLS_A_PAGE], __ATOMIC_ACQUIRE);
        __atomic_store_n(&region->cells[word], 0, __ATOMIC_RELAXED);
        if (page)
            __atomic_store_n(&page->cells[word % SIM_CELLS_A_PAGE], 0, __ATOMIC_RELAXED);
    }
}

void sim_races_close(struct sim_run *run) {
    if (!run->releases)
        return;
    for (uint64_t i = 0; run->releases->blocks && i < run->next_block; i++)
        free(run->releases->blocks[i].entries);
    free(run->releases->blocks);
    free(run->releases);
    run->releases = NULL;
}

/* ---- order ---- */

static void join(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

static uint32_t least(const uint32_t *from, uint32_t count) {
    uint32_t r = from[0];
    for (uint32_t i = 1; i < count; i++)
        r = from[i] < r ? from[i] : r;
    return r;
}

/* Advances the time for an event that orders. Global cells overflow long before this counter. */
static uint32_t tick(struct sim_block *block) {
    struct sim_race_block *r = block->races;
    if (SIM_UNLIKELY(r->time >= SIM_SHARED_TIME_MOST))
        forget(r, block->warp_count, SIM_GLOBAL_TIME_MOST + 1);
    return ++r->time;
}

void sim_races_barrier(struct sim_run *run, struct sim_block *block, uint32_t warps) {
    struct sim_race_block *r = block->races;
    uint32_t all[SIM_MAX_WARPS] = {0}, fence[SIM_MAX_WARPS] = {0}, n = block->warp_count,
             time = tick(block);
    uint64_t acquired = 0;
    int fenced = 0;
    (void)run;
    for (uint32_t m = warps; m; m &= m - 1) {
        uint32_t w = (uint32_t)__builtin_ctz(m);
        join(all, r->known[w], n);
        if (r->fenced[w]) {
            join(fence, r->fence[w], n);
            fenced = 1;
        }
        acquired = r->acquired[w] > acquired ? r->acquired[w] : acquired;
    }
    for (uint32_t m = warps; m; m &= m - 1)
        all[__builtin_ctz(m)] = time;
    uint32_t floor = least(all, n);
    for (uint32_t m = warps; m; m &= m - 1) {
        uint32_t w = (uint32_t)__builtin_ctz(m);
        memcpy(r->known[w], all, n * sizeof *all);
        r->now[w] = r->met[w] = time;
        r->floor[w] = floor;
        r->stepping[w] = 0;
        if (fenced) {
            memcpy(r->fence[w], fence, n * sizeof *fence);
            r->fenced[w] = 1;
        }
        r->acquired[w] = acquired;
    }
}

/* Orders what the lanes of the mask have done. Returns 1 when they are all of the warp's. */
static int meet_lanes(const struct sim_warp *warp, uint32_t **kept, uint32_t mask, uint32_t time) {
    uint32_t all[SIM_LANES] = {0}, *lanes;
    mask &= warp->live;
    if (mask != warp->live && !*kept)
        *kept = calloc(1, LANES_BYTES);
    lanes = *kept;
    if (mask == warp->live || !lanes) /* out of memory: may miss races */
        return 1;
    for (uint32_t m = mask; m; m &= m - 1)
        join(all, lanes + (uint32_t)__builtin_ctz(m) * SIM_LANES, SIM_LANES);
    for (uint32_t m = mask; m; m &= m - 1)
        all[__builtin_ctz(m)] = time;
    for (uint32_t m = mask; m; m &= m - 1)
        memcpy(lanes + (uint32_t)__builtin_ctz(m) * SIM_LANES, all, sizeof all);
    return 0;
}

void sim_races_warp_sync(struct sim_run *run, struct sim_warp *warp, uint32_t mask) {
    struct sim_race_block *r = warp->block->races;
    const uint32_t w = warp->index, time = r->now[w] = tick(warp->block);
    (void)run;
    if (!meet_lanes(warp, &r->lanes[w], mask, time))
        return;
    r->known[w][w] = time;
    r->floor[w] = least(r->known[w], warp->block->warp_count);
}

/* The running lanes are converged, on a GPU whose lanes run in step. */
void sim_races_step(struct sim_run *run, struct sim_warp *warp) {
    struct sim_race_block *r = warp->block->races;
    const uint32_t w = warp->index;
    (void)run;
    if (!r->stepping[w])
        return;
    const uint32_t time = r->now[w] = tick(warp->block);
    if (meet_lanes(warp, &r->step_lanes[w], sim_split_mask(&warp->splits[warp->current]), time))
        r->stepped[w] = time;
}

/* All lanes have stored by one instruction, on a GPU whose lanes run in step. */
void sim_races_stored(struct sim_warp *warp) {
    struct sim_race_block *r = warp->block->races;
    const uint32_t w = warp->index;
    r->together[w] = r->now[w] = tick(warp->block);
}

void sim_races_fence(struct sim_run *run, struct sim_warp *warp, unsigned scope) {
    struct sim_race_block *r = warp->block->races;
    uint32_t w = warp->index, n = warp->block->warp_count, time = tick(warp->block);
    (void)run;
    r->now[w] = r->met[w] = r->known[w][w] = time;
    r->floor[w] = least(r->known[w], n);
    memcpy(r->fence[w], r->known[w], n * sizeof(uint32_t));
    r->fenced[w] = scope == SIM_SCOPE_CTA ? (r->fenced[w] ? r->fenced[w] : 2) : 1;
}

static uint64_t *flag_of(struct sim_release_log *log, uint64_t word) {
    return &log->flags[(word * 0x9e3779b97f4a7c15u >> 32) % FLAGS];
}

/* The latest release through any of the words; first records one through all of them, if requested.
 */
static uint64_t last_release(struct sim_release_log *log, const struct sim_words *words,
                             uint64_t released) {
    uint64_t last = 0;
    for (uint32_t m = words->mask; m; m &= m - 1) {
        const uint64_t from = words->address[__builtin_ctz(m)], to = from + words->bytes - 1;
        for (uint64_t word = from / 4; word <= to / 4; word++) {
            uint64_t *flag = flag_of(log, word);
            *flag = released > *flag ? released : *flag;
            last = *flag > last ? *flag : last;
        }
    }
    return last;
}

static void note_release(struct sim_run *run, struct sim_block *block, const uint32_t *known,
                         const struct sim_words *words) {
    struct sim_release_log *log = run->releases;
    uint32_t warps = block->warp_count;
    size_t size = (sizeof(struct release) + warps * sizeof(uint32_t) + 7) & ~(size_t)7;
    if (!log || !log->blocks)
        return;
    struct block_releases *b = &log->blocks[block->linear];
    struct release *last =
        b->count ? (struct release *)(void *)(b->entries + (b->count - 1) * size) : NULL;
    uint64_t time = ++log->time;
    last_release(log, words, time);
    if (last && memcmp(last->known, known, warps * sizeof *known) == 0)
        return; /* nothing new to make known */
    if (last && b->count == RELEASES_KEPT) {
        join(last->known, known, warps); /* an earlier time may miss races, and never invents one */
        return;
    }
    if (b->count == b->capacity) {
        uint32_t capacity = b->capacity ? b->capacity * 2 : 2;
        uint8_t *grown = realloc(b->entries, capacity * size);
        if (!grown)
            return;
        b->entries = grown;
        b->capacity = capacity;
    }
    struct release *made = (struct release *)(void *)(b->entries + b->count++ * size);
    made->time = time;
    memcpy(made->known, known, warps * sizeof *known);
}

/* Acquires from all that any of the words made known to the block; first adds to it, if requested.
 */
static void meet(struct sim_race_block *r, const struct sim_words *words, const uint32_t *released,
                 uint32_t *known, uint32_t n) {
    for (uint32_t m = words->mask; m; m &= m - 1) {
        const uint64_t from = words->address[__builtin_ctz(m)], to = from + words->bytes - 1;
        for (uint64_t word = from / 4; word <= to / 4; word++) {
            if (released)
                join(r->sync[word % SIM_SYNC_WORDS], released, n);
            join(known, r->sync[word % SIM_SYNC_WORDS], n);
        }
    }
}

void sim_races_order(struct sim_run *run, struct sim_warp *warp, unsigned order,
                     const struct sim_words *words, int writes, int reads) {
    struct sim_block *block = warp->block;
    struct sim_race_block *r = block->races;
    uint32_t w = warp->index, n = block->warp_count, made_known[SIM_MAX_WARPS] = {0};
    const uint64_t last =
        reads && !words->shared && run->releases ? last_release(run->releases, words, 0) : 0;
    if (writes && (order == SIM_ORDER_RELEASE || order == SIM_ORDER_ACQ_REL))
        sim_races_fence(run, warp, SIM_SCOPE_GPU);
    r->released |= writes && r->fenced[w];
    if (r->released)
        meet(r, words, writes && r->fenced[w] ? r->fence[w] : NULL, made_known, n);
    if (writes && !words->shared && r->fenced[w] == 1)
        note_release(run, block, r->fence[w], words);
    if (reads) {
        int learnt = 0;
        for (uint32_t o = 0; o < n; o++)
            learnt |= o != w && made_known[o] > r->known[w][o];
        if (learnt) {
            uint32_t own = r->known[w][w];
            join(r->known[w], made_known, n);
            r->known[w][w] = own;
            r->floor[w] = least(r->known[w], n);
            r->now[w] = r->met[w] = tick(block);
        }
        if (last && last >= r->acquired[w])
            r->acquired[w] = last + 1;
    }
}

/* ---- test for order ---- */

int sim_race_released(const struct sim_run *run, const struct sim_race_block *r,
                      const struct sim_race_cell *c, uint32_t w) {
    const struct sim_release_log *log = run->releases;
    if (!log || !log->blocks || !r->acquired[w])
        return 0;
    uint32_t warps = run->warps_per_block;
    size_t size = (sizeof(struct release) + warps * sizeof(uint32_t) + 7) & ~(size_t)7;
    if (c->block >= run->total_blocks)
        return 1;
    const struct block_releases *b = &log->blocks[c->block];
    for (uint32_t i = 0; i < b->count; i++) {
        const struct release *e = (const struct release *)(const void *)(b->entries + i * size);
        if (e->time >= r->acquired[w])
            break;
        if (c->time < e->known[c->warp])
            return 1;
    }
    return 0;
}

/* ---- findings ---- */

/* The line reads and writes one element, as `c[i] += 1` does: both accesses form their address in
 * one way. */
static int is_update(const struct sim_kernel *k, uint32_t pc, uint32_t other) {
    if (other == UINT32_MAX)
        return 0;
    const struct sim_insn *a = &k->code[pc], *b = &k->code[other];
    return k->where[pc].line == k->where[other].line && a->a == b->a && a->imm == b->imm &&
           a->dst2 == b->dst2 && a->op != b->op;
}

/* Whether it is an asynchronous copy; 2: a bulk copy. */
static int copies(const struct sim_run *run, uint32_t pc) {
    const int op = pc < 0xffff ? run->kernel->code[pc].op : 0;
    return op == SIM_OP_BULK ? 2 : op == SIM_OP_CPASYNC;
}

static const char *remedy(const struct sim_run *run, const struct sim_warp *warp,
                          const struct sim_access *a, const struct sim_race_cell *c, uint32_t other,
                          int between_blocks, int both_write) {
    const int shared = a->space == SIM_S_SHARED, after = copies(run, c->pc);
    if (shared && (after || copies(run, a->pc)))
        return after == 2 || copies(run, a->pc) == 2
                   ? "wait for the mbarrier of the bulk copy before the bytes are read, and let "
                     "their readers arrive before the next copy"
                   : "each thread waits for its own copies: put __syncthreads() after that wait "
                     "(cp.async.wait_group), and another before the bytes are overwritten";
    if (is_update(run->kernel, a->pc, other))
        return "several threads update one element: use an atomic, as atomicAdd() or atomicMax()";
    if (both_write && (between_blocks || (c->warp != warp->index && a->pc == other)))
        return "several threads write one element: let one of them write it, or use an atomic";
    if (between_blocks)
        return "blocks of one launch run concurrently: use atomics, or a fence with a flag, or two "
               "launches";
    if (c->warp != warp->index)
        return "put __syncthreads() between";
    if (c->write && a->kind == SIM_ACCESS_STORE && c->pc == a->pc &&
        c->time == warp->block->races->now[warp->index])
        return "lanes write different values to one word at once, and either may remain: let one "
               "lane write, or use atomics";
    if (run->in_step && shared && sim_race_volatile(run, a, c))
        return "put __syncwarp() between: lanes run in step on this GPU, but the two sides of a "
               "branch have no order";
    if (run->in_step && shared)
        return "declare it volatile, or put __syncwarp() between: lanes run in step on this GPU, "
               "but a compiler keeps a plain value in a register";
    if (sim_race_volatile(run, a, c))
        return "put __syncwarp() between: since Volta (compute capability 7.0) lanes do not run in "
               "step; they do on earlier GPUs (try sim:k40)";
    return warp->block->warp_count > 1
               ? "put __syncthreads() between (__syncwarp() if only this warp shares it)"
               : "put __syncwarp() between: lanes of a warp do not run in step";
}

int sim_race_found(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a,
                   uint32_t lane, const struct sim_race_cell *c, int other_wrote) {
    const struct sim_run *run = w->run;
    const uint32_t *dim = run->launch->block, *grid = run->launch->grid;
    const int shared = a->space == SIM_S_SHARED;
    const enum sim_finding_kind kind = shared ? SIM_FIND_SHARED_RACE : SIM_FIND_GLOBAL_RACE;
    const uint32_t thread = c->warp * SIM_LANES + c->lane, known = c->pc < 0xffff;
    const uint64_t block = shared ? warp->block->linear : c->block;
    if (sim_is_muted(run, a->pc, kind))
        return !run->collect;
    struct sim_finding other = {
        .has_other = 1,
        .other_thread = {thread % dim[0], thread / dim[0] % dim[1], thread / dim[0] / dim[1]},
        .other_block = {(uint32_t)(block % grid[0]), (uint32_t)(block / grid[0] % grid[1]),
                        (uint32_t)(block / grid[0] / grid[1])},
        .other_pc = known ? c->pc : UINT32_MAX,
    };
    /* Described from the line that comes later: the order is missing there. */
    other.is_first = known && sim_line_of(run->kernel, c->pc) > sim_line_of(run->kernel, a->pc);
    const int load = a->kind == SIM_ACCESS_LOAD, told_write = other.is_first ? other_wrote : !load,
              other_write = other.is_first ? !load : other_wrote;
    const uint32_t me = warp->index * SIM_LANES + lane,
                   who = other.is_first ? me : thread; /* the one that is not told from */
    const uint64_t there = other.is_first ? warp->block->linear : block;
    const uint32_t at = other.is_first ? a->pc : c->pc;
    char where[140], place[200];
    other.space = sim_space_name(shared ? SIM_S_SHARED : SIM_S_GLOBAL);
    other.bytes = a->bytes;
    other.access = !told_write                                       ? "read"
                   : !other.is_first && a->kind >= SIM_ACCESS_ATOMIC ? "atomic"
                                                                     : "write";
    other.other_access = other_write ? "write" : "read";
    return sim_find(
        w, warp, a->pc, lane, kind, a->address[lane], &other,
        "%s of %u bytes at %s, which block (%u, %u, %u) thread (%u, %u, %u) %s%s%s, unordered; %s",
        other.access, a->bytes,
        sim_place_text(run, a->pc, shared ? SIM_S_SHARED : SIM_S_GLOBAL, a->address[lane], place,
                       sizeof place),
        (uint32_t)(there % grid[0]), (uint32_t)(there / grid[0] % grid[1]),
        (uint32_t)(there / grid[0] / grid[1]), who % dim[0], who / dim[0] % dim[1],
        who / dim[0] / dim[1],
        other_write                  ? "wrote"
        : c->many && !other.is_first ? "and others read"
                                     : "read",
        known ? " at " : "", known ? sim_where_text(run->kernel, at, where, sizeof where) : "",
        remedy(run, warp, a, c, other.other_pc, !shared && block != warp->block->linear,
               other_wrote && !load));
}
