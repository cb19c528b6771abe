/*
 * sim_races.c: the observer that looks for races: two accesses to the same bytes, at least one a
 * plain write, with nothing that orders them.
 *
 * Order inside a block: every warp has a vector clock (what it knows of the others), joined at
 * barriers. Order inside a warp: ticks, one for each warp-level synchronisation; nothing else
 * orders lanes. Order between blocks: a fence followed by an atomic or ordered write is a release;
 * an atomic or ordered read acquires every release before it, wherever that was. The last rule is
 * coarser than the memory model: it can miss a race between blocks that synchronise through
 * different flags, and never reports one that is not there.
 *
 * Each word of memory has two cells, for its last writer and for its readers. Of several readers a
 * cell keeps the bytes that all of them read: races on single bytes can be missed, none is made up.
 * A write of the value that is there already is not reported.
 */
#include "sim_run.h"

#include <stdlib.h>
#include <string.h>

/* ---- cells ---- */

struct cell { /* unpacked */
    uint32_t launch, block, warp, lane, clock, tick, pc;
    uint32_t bytes; /* mask of the word's bytes */
    int atomic;     /* of a reader cell: several blocks, or several warps, read */
    int many;       /* several threads read */
};

#define CLOCK_MOST 1023u /* of global cells; at the most, nothing is known */
#define TICK_MOST 63u
#define SHARED_CLOCK_MOST 65535u
#define SHARED_TICK_MOST 32767u
#define RELEASES_KEPT 64u

struct sim_race_block {
    uint32_t clock[SIM_MAX_WARPS][SIM_MAX_WARPS];
    uint32_t sync[SIM_MAX_WARPS]; /* what releases through shared memory made known */
    uint32_t fence[SIM_MAX_WARPS][SIM_MAX_WARPS];
    uint8_t fenced[SIM_MAX_WARPS];
    uint64_t acquired[SIM_MAX_WARPS];
    uint32_t tick[SIM_MAX_WARPS], full_tick[SIM_MAX_WARPS];
    uint32_t lane_tick[SIM_MAX_WARPS][SIM_LANES], lane_mask[SIM_MAX_WARPS][SIM_LANES];
    int partial;                 /* some lanes synchronised without the others */
    uint64_t *writers, *readers; /* a cell for each word of shared memory */
    uint64_t words;
};

struct release {
    uint64_t time;
    uint32_t clock[]; /* of the releasing block's warps */
};

struct block_releases {
    uint8_t *entries; /* of struct release with warps_per_block clocks */
    uint32_t count, capacity;
};

struct sim_release_log {
    struct block_releases *blocks; /* NULL if blocks of this kernel cannot synchronise */
    uint64_t time;
};

/* Shared cells: bytes 4, atomic, many, lane 5, warp 5, clock 16, tick 15, pc 16, and one bit that
 * says it is used. */
static uint64_t pack_shared(const struct cell *c) {
    return 1ull | (uint64_t)c->bytes << 1 | (uint64_t)(c->atomic != 0) << 5 |
           (uint64_t)(c->many != 0) << 6 | (uint64_t)c->lane << 7 | (uint64_t)c->warp << 12 |
           (uint64_t)c->clock << 17 | (uint64_t)c->tick << 33 |
           (uint64_t)(c->pc < 0xffff ? c->pc : 0xffff) << 48;
}

static struct cell unpack_shared(uint64_t u) {
    return (struct cell){.bytes = u >> 1 & 15,
                         .atomic = u >> 5 & 1,
                         .many = u >> 6 & 1,
                         .lane = u >> 7 & 31,
                         .warp = u >> 12 & 31,
                         .clock = u >> 17 & 0xffff,
                         .tick = u >> 33 & 0x7fff,
                         .pc = u >> 48 & 0xffff};
}

/* Global cells: bytes 4, atomic, many, lane 5, warp 5, clock 10, tick 6, block 24, launch 8. */
static uint64_t pack_global(const struct cell *c) {
    return (uint64_t)c->bytes | (uint64_t)(c->atomic != 0) << 4 | (uint64_t)(c->many != 0) << 5 |
           (uint64_t)c->lane << 6 | (uint64_t)c->warp << 11 | (uint64_t)c->clock << 16 |
           (uint64_t)c->tick << 26 | (uint64_t)(c->block & 0xffffff) << 32 |
           (uint64_t)c->launch << 56;
}

static struct cell unpack_global(uint64_t u) {
    return (struct cell){.bytes = u & 15,
                         .atomic = u >> 4 & 1,
                         .many = u >> 5 & 1,
                         .lane = u >> 6 & 31,
                         .warp = u >> 11 & 31,
                         .clock = u >> 16 & 1023,
                         .tick = u >> 26 & 63,
                         .block = u >> 32 & 0xffffff,
                         .launch = (uint32_t)(u >> 56),
                         .pc = 0xffff};
}

/* ---- the state of a block and of a launch ---- */

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
    free(block->races);
    block->races = NULL;
}

void sim_races_start(struct sim_run *run, struct sim_block *block) {
    struct sim_race_block *r = block->races;
    (void)run;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        memset(r->clock[w], 0, sizeof r->clock[w]);
        if (r->partial) {
            memset(r->lane_tick[w], 0, sizeof r->lane_tick[w]);
            memset(r->lane_mask[w], 0, sizeof r->lane_mask[w]);
        }
    }
    memset(r->sync, 0, sizeof r->sync);
    memset(r->fenced, 0, sizeof r->fenced);
    memset(r->acquired, 0, sizeof r->acquired);
    r->partial = 0;
    memset(r->writers, 0, r->words * sizeof *r->writers);
    memset(r->readers, 0, r->words * sizeof *r->readers);
    for (uint32_t w = 0; w < block->warp_count; w++) {
        r->clock[w][w] = 1;
        r->tick[w] = r->full_tick[w] = 1;
    }
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
    if (run->launch_number % 255 ==
        0) { /* the launch's tag in the cells begins again: forget old ones */
        for (size_t i = 0; i < run->gpu->region_count; i++) {
            struct sim_region *region = &run->gpu->regions[i];
            for (uint64_t p = 0; region->cells && p < sim_cell_pages(region); p++) {
                free(region->cells[p]);
                region->cells[p] = NULL;
            }
        }
    }
    for (size_t i = 0; i < run->gpu->region_count; i++) {
        struct sim_region *region = &run->gpu->regions[i];
        if (!region->cells && !region->read_only)
            region->cells = calloc(sim_cell_pages(region), sizeof *region->cells);
        if (!region->cells && !region->read_only)
            return 0;
    }
    return 1;
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

/* ---- what orders ---- */

static void join(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* Clocks and ticks of shared cells have few bits: before they wrap, everything is forgotten. */
static void keep_in_range(struct sim_block *block) {
    struct sim_race_block *r = block->races;
    int full = 0;
    for (uint32_t w = 0; w < block->warp_count; w++)
        full |= r->clock[w][w] >= SHARED_CLOCK_MOST - 4 || r->tick[w] >= SHARED_TICK_MOST - 4;
    if (full) {
        struct sim_race_block kept = *r;
        memset(r, 0, offsetof(struct sim_race_block, writers));
        memcpy(r->acquired, kept.acquired, sizeof r->acquired);
        memset(r->writers, 0, r->words * sizeof *r->writers);
        memset(r->readers, 0, r->words * sizeof *r->readers);
        for (uint32_t w = 0; w < block->warp_count; w++) {
            /* global cells have saturated long ago: they stay that way */
            r->clock[w][w] = CLOCK_MOST + 1;
            r->tick[w] = r->full_tick[w] = TICK_MOST + 1;
        }
    }
}

void sim_races_barrier(struct sim_run *run, struct sim_block *block, uint32_t warps) {
    struct sim_race_block *r = block->races;
    uint32_t all[SIM_MAX_WARPS] = {0}, fence[SIM_MAX_WARPS] = {0}, n = block->warp_count;
    uint64_t acquired = 0;
    int fenced = 0;
    (void)run;
    for (uint32_t m = warps; m; m &= m - 1) {
        uint32_t w = (uint32_t)__builtin_ctz(m);
        join(all, r->clock[w], n);
        if (r->fenced[w]) {
            join(fence, r->fence[w], n);
            fenced = 1;
        }
        acquired = r->acquired[w] > acquired ? r->acquired[w] : acquired;
    }
    for (uint32_t m = warps; m; m &= m - 1) {
        uint32_t w = (uint32_t)__builtin_ctz(m);
        memcpy(r->clock[w], all, n * sizeof *all);
        if (fenced) {
            memcpy(r->fence[w], fence, n * sizeof *fence);
            r->fenced[w] = 1;
        }
        r->acquired[w] = acquired;
        r->full_tick[w] = ++r->tick[w];
    }
    /* what a warp does from here on is not known to the others */
    for (uint32_t m = warps; m; m &= m - 1) {
        uint32_t w = (uint32_t)__builtin_ctz(m);
        uint32_t next = all[w] + 1;
        for (uint32_t o = warps; o; o &= o - 1)
            r->clock[__builtin_ctz(o)][w] = next;
        /* a cell's clock is ordered before when it is less than what is known: the new epoch is
         * `next` */
    }
    keep_in_range(block);
}

void sim_races_warp_sync(struct sim_run *run, struct sim_warp *warp, uint32_t mask) {
    struct sim_race_block *r = warp->block->races;
    uint32_t w = warp->index;
    (void)run;
    r->tick[w]++;
    if ((mask & warp->live) == warp->live) {
        r->full_tick[w] = r->tick[w];
    } else {
        r->partial = 1;
        for (uint32_t m = mask & warp->live; m; m &= m - 1) {
            r->lane_tick[w][__builtin_ctz(m)] = r->tick[w];
            r->lane_mask[w][__builtin_ctz(m)] = mask;
        }
    }
    keep_in_range(warp->block);
}

static void new_epoch(struct sim_race_block *r, uint32_t w) {
    r->clock[w][w]++;
    r->full_tick[w] = ++r->tick[w];
}

void sim_races_fence(struct sim_run *run, struct sim_warp *warp, unsigned scope) {
    struct sim_race_block *r = warp->block->races;
    uint32_t w = warp->index;
    (void)run;
    new_epoch(r, w);
    memcpy(r->fence[w], r->clock[w], warp->block->warp_count * sizeof(uint32_t));
    r->fenced[w] = scope == SIM_SCOPE_CTA ? (r->fenced[w] ? r->fenced[w] : 2)
                                          : 1; /* 2: within the block only */
    keep_in_range(warp->block);
}

static void note_release(struct sim_run *run, struct sim_block *block, const uint32_t *clock) {
    struct sim_release_log *log = run->releases;
    uint32_t warps = block->warp_count;
    size_t size = (sizeof(struct release) + warps * sizeof(uint32_t) + 7) & ~(size_t)7;
    if (!log || !log->blocks)
        return;
    struct block_releases *b = &log->blocks[block->linear];
    struct release *last =
        b->count ? (struct release *)(void *)(b->entries + (b->count - 1) * size) : NULL;
    uint64_t time = ++log->time;
    if (last && memcmp(last->clock, clock, warps * sizeof *clock) == 0)
        return; /* nothing new to make known */
    if (last && b->count == RELEASES_KEPT) {
        join(last->clock, clock,
             warps); /* earlier than it was: races may be missed, none made up */
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
    memcpy(made->clock, clock, warps * sizeof *clock);
}

void sim_races_order(struct sim_run *run, struct sim_warp *warp, unsigned order, int shared,
                     int writes, int reads) {
    struct sim_block *block = warp->block;
    struct sim_race_block *r = block->races;
    uint32_t w = warp->index, n = block->warp_count;
    if (shared && order == SIM_ORDER_VOLATILE)
        return;
    if (writes && (order == SIM_ORDER_RELEASE || order == SIM_ORDER_ACQ_REL))
        sim_races_fence(run, warp, SIM_SCOPE_GPU);
    if (writes && r->fenced[w]) {
        join(r->sync, r->fence[w], n);
        if (!shared && r->fenced[w] == 1)
            note_release(run, block, r->fence[w]);
    }
    if (reads) {
        uint32_t own = r->clock[w][w];
        join(r->clock[w], r->sync, n);
        r->clock[w][w] = own;
        if (!shared && run->releases)
            r->acquired[w] = ++run->releases->time;
    }
}

/* ---- is it ordered? ---- */

static int ordered_in_warp(const struct sim_race_block *r, uint32_t w, uint32_t from, uint32_t tick,
                           uint32_t lane) {
    return from == lane || tick < r->full_tick[w] ||
           (from < SIM_LANES && (r->lane_mask[w][lane] >> from & 1) &&
            tick < r->lane_tick[w][lane]);
}

static int released(const struct sim_run *run, const struct sim_race_block *r, const struct cell *c,
                    uint32_t w) {
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
        if (c->clock < e->clock[c->warp])
            return 1;
    }
    return 0;
}

/* ---- findings ---- */

static int found(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a,
                 uint32_t lane, const struct cell *c, int other_wrote) {
    const struct sim_run *run = w->run;
    const uint32_t *dim = run->launch->block, *grid = run->launch->grid;
    int shared = a->space == SIM_S_SHARED;
    struct sim_finding other = {0};
    uint32_t thread = c->warp * SIM_LANES + c->lane;
    uint64_t block = shared ? warp->block->linear : c->block;
    char where[140] = "", place[120];
    other.has_other = 1;
    other.other_thread[0] = thread % dim[0];
    other.other_thread[1] = thread / dim[0] % dim[1];
    other.other_thread[2] = thread / dim[0] / dim[1];
    other.other_block[0] = (uint32_t)(block % grid[0]);
    other.other_block[1] = (uint32_t)(block / grid[0] % grid[1]);
    other.other_block[2] = (uint32_t)(block / grid[0] / grid[1]);
    if (c->pc < 0xffff) {
        other.other_line = run->kernel->where[c->pc].line;
        where[0] = ' ';
        memcpy(where + 1, "at ", 4);
        sim_where_text(run->kernel, c->pc, place, sizeof place);
        memcpy(where + 4, place, strlen(place) + 1);
    }
    const char *fix =
        !shared && block != warp->block->linear ? "blocks of one launch run concurrently: use "
                                                  "atomics, or a fence with a flag, or two launches"
        : c->warp == warp->index ? "put __syncwarp() between: lanes of a warp do not run in step"
                                 : "put __syncthreads() between";
    return sim_find(w, warp, a->pc, lane, shared ? SIM_FIND_SHARED_RACE : SIM_FIND_GLOBAL_RACE,
                    a->address[lane], &other,
                    "%s of %u bytes at %s address 0x%llx, which block (%u, %u, %u) thread (%u, %u, "
                    "%u) %s%s, unordered; %s",
                    a->kind == SIM_ACCESS_LOAD    ? "read"
                    : a->kind == SIM_ACCESS_STORE ? "write"
                                                  : "atomic",
                    a->bytes, shared ? "shared" : "global", (unsigned long long)a->address[lane],
                    other.other_block[0], other.other_block[1], other.other_block[2],
                    other.other_thread[0], other.other_thread[1], other.other_thread[2],
                    other_wrote ? "wrote" : "read", where, fix);
}

/* The store changes nothing: the bytes are there already, or another lane of this very instruction
 * puts the same there. */
static int same_value(const struct sim_access *a, const struct sim_warp *warp, uint32_t lane,
                      const struct cell *c) {
    if (a->kind != SIM_ACCESS_STORE || !a->value)
        return 0;
    const uint8_t *mine = a->value + (size_t)lane * a->bytes;
    /* A shared cell of several readers names one of them: that it is this very lane says nothing of
     * the others. */
    const int itself = c->many && c->lane == lane && a->space == SIM_S_SHARED;
    if (c->warp == warp->index && !itself && a->mask >> c->lane & 1 &&
        a->address[c->lane] == a->address[lane] &&
        memcmp(a->value + (size_t)c->lane * a->bytes, mine, a->bytes) == 0)
        return 1;
    const uint8_t *there = a->space == SIM_S_SHARED ? warp->block->shared + a->address[lane]
                           : a->region ? a->region->host + (a->address[lane] - a->region->base)
                                       : NULL;
    return there && memcmp(there, mine, a->bytes) == 0;
}

/* ---- one lane's word ---- */

struct view { /* who looks */
    struct sim_worker *w;
    struct sim_warp *warp;
    const struct sim_access *a;
    struct sim_race_block *r;
    uint32_t lane;
    int atomic, writes;
    uint64_t mine; /* a shared cell of this warp's, but for lane and bytes */
};

/* The usual word: last written before a barrier or by this thread, and read by nobody else since.
   1: done. Works on packed cells: see pack_shared() for where the fields are. */
static inline int shared_quick(const struct view *v, uint64_t word, uint32_t bytes) {
    struct sim_race_block *r = v->r;
    uint32_t x = v->warp->index, lane = v->lane;
    uint64_t cells[2] = {r->writers[word], r->readers[word]};
    for (int i = 0; i < 2; i++) {
        uint64_t c = cells[i];
        uint32_t warp = c >> 12 & 31;
        if (!c)
            continue;
        int before =
            warp == x ? (c >> 33 & 0x7fff) < r->full_tick[x] && (c >> 17 & 0xffff) < r->clock[x][x]
                      : (c >> 17 & 0xffff) < r->clock[x][warp];
        if (!before && !(warp == x && (c >> 7 & 31) == lane && !(c >> 5 & 3)))
            return 0;
    }
    uint64_t mine = v->mine | (uint64_t)bytes << 1 | (uint64_t)lane << 7;
    *(v->writes ? &r->writers[word] : &r->readers[word]) = mine;
    return 1;
}

static int shared_word(const struct view *v, uint64_t word, uint32_t bytes) {
    struct sim_race_block *r = v->r;
    uint32_t x = v->warp->index, lane = v->lane;
    uint64_t *writer = &r->writers[word], *reader = &r->readers[word];
    struct cell now = {.warp = x,
                       .lane = lane,
                       .clock = r->clock[x][x],
                       .tick = r->tick[x],
                       .pc = v->a->pc,
                       .bytes = bytes,
                       .atomic = v->atomic};
    if (*writer) {
        struct cell c = unpack_shared(*writer);
        int ordered = c.warp == x ? ordered_in_warp(r, x, c.lane, c.tick, lane)
                                  : c.clock < r->clock[x][c.warp];
        if (!ordered && (c.bytes & bytes) && !(c.atomic && v->atomic) &&
            !same_value(v->a, v->warp, lane, &c) && found(v->w, v->warp, v->a, lane, &c, 1))
            return 1;
    }
    if (v->writes) {
        if (*reader) {
            struct cell c = unpack_shared(*reader);
            int ordered = c.warp == x ? ordered_in_warp(r, x, c.many ? 32 : c.lane, c.tick, lane)
                                      : c.clock < r->clock[x][c.warp];
            if (c.atomic && c.warp == x) /* other warps read in that epoch too */
                ordered = c.clock < r->clock[x][x];
            if (!ordered && (c.bytes & bytes) && !same_value(v->a, v->warp, lane, &c) &&
                found(v->w, v->warp, v->a, lane, &c, 0))
                return 1;
        }
        *writer = pack_shared(&now);
        return 0;
    }
    if (v->atomic)
        return 0;
    now.atomic = now.many = 0;
    if (*reader) {
        struct cell c = unpack_shared(*reader);
        int ordered = c.warp == x ? c.tick < r->full_tick[x] : c.clock < r->clock[x][c.warp];
        if (!ordered &&
            (c.bytes & bytes)) { /* at the same time: there are several of these bytes */
            now.many = c.many || c.warp != x || c.lane != lane;
            now.atomic = c.atomic || c.warp != x;
            now.bytes &= c.bytes;
        }
    }
    *reader = pack_shared(&now);
    return 0;
}

/* The cells of a word of global memory. Writers and readers have pages of their own, made when
   first needed: most memory is only read, or only written, by one launch. */
struct word_cells {
    uint64_t *writer, *reader;
};

static uint64_t *cell_page(uint64_t **page, int make) {
    /* stands in for a page that was never made; read only */
    static const uint64_t untouched[SIM_CELL_PAGE / 4];
    uint64_t *cells = __atomic_load_n(page, __ATOMIC_ACQUIRE), *none = NULL;
    if (SIM_UNLIKELY(!cells && make)) {
        cells = calloc(SIM_CELL_PAGE / 4, sizeof *cells);
        if (cells && !__atomic_compare_exchange_n(page, &none, cells, 0, __ATOMIC_ACQ_REL,
                                                  __ATOMIC_ACQUIRE)) {
            free(cells);
            cells = none;
        }
        return cells;
    }
    return cells ? cells : (uint64_t *)(uintptr_t)untouched;
}

/* 0: no memory, and the access goes unchecked. */
static int global_cells(const struct view *v, struct sim_region *region, uint64_t offset,
                        struct word_cells *word) {
    uint64_t **pages = &region->cells[offset / SIM_CELL_PAGE * 2];
    uint64_t *writers = cell_page(&pages[0], v->writes);
    uint64_t *readers = cell_page(&pages[1], !v->writes && !v->atomic);
    if (!writers || !readers)
        return 0;
    word->writer = writers + offset % SIM_CELL_PAGE / 4;
    word->reader = readers + offset % SIM_CELL_PAGE / 4;
    return 1;
}

static int global_ordered(const struct view *v, const struct cell *c) {
    const struct sim_race_block *r = v->r;
    uint32_t x = v->warp->index;
    if (c->block != (v->warp->block->linear & 0xffffff))
        return released(v->w->run, r, c, x);
    if (c->warp == x)
        return c->tick >= TICK_MOST ||
               ordered_in_warp(r, x, c->many ? 32 : c->lane, c->tick, v->lane);
    return c->clock >= CLOCK_MOST || c->clock < r->clock[x][c->warp] ||
           released(v->w->run, r, c, x);
}

static int global_word(const struct view *v, struct word_cells at, uint32_t launch,
                       uint32_t bytes) {
    const struct sim_race_block *r = v->r;
    uint32_t x = v->warp->index, lane = v->lane, clock = r->clock[x][x], tick = r->tick[x];
    uint64_t wrote = __atomic_load_n(at.writer, __ATOMIC_RELAXED),
             read = __atomic_load_n(at.reader, __ATOMIC_RELAXED);
    struct cell now = {.launch = launch,
                       .block = (uint32_t)(v->warp->block->linear & 0xffffff),
                       .warp = x,
                       .lane = lane,
                       .clock = clock < CLOCK_MOST ? clock : CLOCK_MOST,
                       .tick = tick < TICK_MOST ? tick : TICK_MOST,
                       .bytes = bytes,
                       .atomic = v->atomic};
    if (wrote >> 56 == launch) {
        struct cell c = unpack_global(wrote);
        c.many = 0;
        if ((c.bytes & bytes) && !(c.atomic && v->atomic) && !global_ordered(v, &c) &&
            !same_value(v->a, v->warp, lane, &c) && found(v->w, v->warp, v->a, lane, &c, 1))
            return 1;
    }
    if (v->writes) {
        if (read >> 56 == launch) {
            struct cell c = unpack_global(read);
            int ordered = global_ordered(v, &c);
            if (c.atomic && ordered) /* other blocks read too; only a synchronisation between blocks
                                        can order them */
                ordered = v->w->run->kernel->communicates && r->acquired[x];
            if ((c.bytes & bytes) && !ordered && !same_value(v->a, v->warp, lane, &c) &&
                found(v->w, v->warp, v->a, lane, &c, 0))
                return 1;
        }
        __atomic_store_n(at.writer, pack_global(&now), __ATOMIC_RELAXED);
        return 0;
    }
    if (v->atomic)
        return 0;
    now.atomic = 0;
    if (read >> 56 == launch) {
        struct cell c = unpack_global(read);
        if (!(c.bytes & bytes)) {
            /* other bytes of the word: the later reader is kept */
        } else if (c.block != now.block) {
            now.atomic = 1;
            now.many = 1;
            now.bytes &= c.bytes;
        } else if (c.atomic || c.warp != x || (c.lane != lane && c.tick >= r->full_tick[x])) {
            now.atomic = c.atomic;
            now.many = c.many || (c.warp == x && c.lane != lane);
            now.bytes &= c.bytes;
        }
    }
    __atomic_store_n(at.reader, pack_global(&now), __ATOMIC_RELAXED);
    return 0;
}

/* ---- the event ---- */

/* Who a global cell is about, leaving out when: launch, block, warp, lane and the two flags. */
#define GLOBAL_WHO 0xffffffff0000fff0ull

/* A whole warp at 32 words in a row, the usual case: lanes whose word nobody else touched in this
   launch are done at once. Returns the other lanes. */
static uint32_t global_row(const struct view *v, struct word_cells at, uint32_t launch) {
    const struct sim_race_block *r = v->r;
    uint32_t x = v->warp->index, clock = r->clock[x][x], tick = r->tick[x], left = 0;
    struct cell now = {.launch = launch,
                       .block = (uint32_t)(v->warp->block->linear & 0xffffff),
                       .warp = x,
                       .clock = clock < CLOCK_MOST ? clock : CLOCK_MOST,
                       .tick = tick < TICK_MOST ? tick : TICK_MOST,
                       .bytes = 15};
    uint64_t mine = pack_global(&now);
    uint64_t *mark = v->writes ? at.writer : at.reader;
    for (uint32_t lane = 0; lane < SIM_LANES; lane++, mine += 1u << 6) {
        uint64_t wrote = __atomic_load_n(&at.writer[lane], __ATOMIC_RELAXED);
        uint64_t read = __atomic_load_n(&at.reader[lane], __ATOMIC_RELAXED);
        int others = (wrote >> 56 == launch && ((wrote ^ mine) & GLOBAL_WHO)) ||
                     (read >> 56 == launch && ((read ^ mine) & GLOBAL_WHO));
        if (SIM_UNLIKELY(others))
            left |= 1u << lane;
        else
            __atomic_store_n(&mark[lane], mine, __ATOMIC_RELAXED);
    }
    return left;
}

int sim_races_access(struct sim_worker *w, struct sim_warp *warp, const struct sim_access *a) {
    struct sim_run *run = w->run;
    int shared = a->space == SIM_S_SHARED, order = a->in->order;
    struct view v = {w, warp, a, warp->block->races, 0, 0, a->kind != SIM_ACCESS_LOAD, 0};
    uint32_t launch = run->launch_number % 255 + 1;
    v.atomic = a->kind >= SIM_ACCESS_ATOMIC || order >= SIM_ORDER_RELAXED ||
               (order == SIM_ORDER_VOLATILE && !shared);
    uint32_t mask = a->mask, x = warp->index;
    struct cell now = {.warp = x, .clock = v.r->clock[x][x], .tick = v.r->tick[x], .pc = a->pc};
    v.mine = pack_shared(&now);
    if (!shared && a->contiguous && a->bytes == 4 && a->region && !v.atomic) {
        uint64_t offset = a->address[0] - a->region->base;
        if (a->region->read_only)
            return 0;
        if (offset % SIM_CELL_PAGE <= SIM_CELL_PAGE - SIM_LANES * 4) {
            struct word_cells cells;
            mask = global_cells(&v, a->region, offset, &cells) ? global_row(&v, cells, launch) : 0;
        }
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        v.lane = (uint32_t)__builtin_ctz(m);
        uint64_t address = a->address[v.lane];
        uint32_t bytes = a->bytes >= 4 ? 15 : ((1u << a->bytes) - 1) << (address & 3);
        struct sim_region *region = NULL;
        if (!shared) {
            region = a->region ? a->region : sim_memory_find(run->gpu, address);
            if (!region || region->read_only)
                continue;
            address -= region->base;
        }
        for (uint32_t at = 0; at < a->bytes; at += 4) {
            if (shared) {
                if ((v.atomic || !shared_quick(&v, (address + at) / 4, bytes)) &&
                    shared_word(&v, (address + at) / 4, bytes))
                    return 1;
            } else {
                struct word_cells cells;
                if (global_cells(&v, region, address + at, &cells) &&
                    global_word(&v, cells, launch, bytes))
                    return 1;
            }
        }
    }
    return 0;
}
