/* sim_caches.c: the observer that replays a launch's accesses through L1, the texture cache and L2.
 * While a block runs, its accesses to global memory and textures are recorded, warp by warp. As
 * many blocks as the GPU holds at once are a wave; waves are replayed in the order of their blocks,
 * each multiprocessor one request of one warp at a time, in turns. So hits depend only on the
 * program, never on the host's threads. Changes nothing that runs, and knows no time.
 *
 * L1 is empty before each launch, and so is L2, as under Nsight Compute. Misses of L2 on sectors
 * that the launch has not accessed before are counted apart: a warm L2 that held them had none.
 *
 * An L2 of two partitions (measured on an H200, sectors by source): a line is at home in one, that
 * of its memory. A multiprocessor asks its own one, which keeps copies of the other's lines. Stores
 * leave a copy, too, go on to the line's home, and end the copy of the other partition.
 *
 * Sources: M. Khairy et al., Accel-Sim, ISCA 2020 (sectors, write policies); H. Wong et al., ISPASS
 * 2010 (textures before Fermi); the CUDA programming guide (sizes, how L1 and shared memory share).
 */
#include "sim_cache_lines.h"
#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

enum { WHOLE = 15, WAYS = 16, FERMI_WAYS = 4, VOLTA = 70, AMPERE = 80 };
enum { LEAST_ENTRIES = 1024, L2_PARTS = 2, CHANCES = 16 };
/* Blocks in a row whose multiprocessors share a partition; chosen by an H100's hits of stencils. */
enum { NEIGHBOURS = 8 };
/* Stores of a multiprocessor to one sector that meet on their way to L2: of JOIN, all but one join
 * (an H200's sectors at L2 of five kernels whose warps store words of the same sectors). */
enum { JOIN = 4, STORES = 256 };
enum { SLICE_LINES = 4 }; /* lines that one slice of L2 serves (measured on an H100) */
#define LOG_BYTES                                                                  \
    (256ull << 20) /* of a wave's record; a warp that has more is recorded in part \
                    */
#define PCS (1u << 19)
#define LINES (UINT32_MAX - 1ull)

/* ---- a record of accesses ---- */

enum path { BY_L1, PAST_L1, STORE, ATOMIC, TEXTURE };

/* A line of 128 bytes of one request; `first` begins a request. */
struct cached_line {
    uint64_t line : 32, pc : 19, sectors : 4, path : 3, first : 1, warp : 5;
};

struct sim_log {
    struct cached_line *entries; /* in order of time; once the block has ended, warp by warp */
    uint32_t count, capacity;
    size_t ends[SIM_MAX_WARPS]; /* entries of a warp; once the block has ended, where they end */
    int lost;                   /* out of memory */
};

/* ---- a launch ---- */

struct cursor { /* a warp's entries that are left */
    const struct cached_line *at, *end;
};

struct stored { /* the sectors of a line + 1 that stores wrote, the last one in request `at` */
    uint32_t line, sectors, at;
};

struct multiprocessor {
    struct cache l1, texture;
    struct cursor *warps;
    struct stored *stores; /* STORES of them, by line */
    uint32_t live, turn;
    uint32_t begun, met; /* warps of the wave; stores that met another one */
    uint32_t now;        /* requests so far */
    uint32_t part;       /* its partition of L2 */
};

struct sim_caches {
    pthread_mutex_t lock;
    struct multiprocessor *multiprocessors;
    struct cursor *cursors;
    struct stored *stores;
    uint32_t count; /* of multiprocessors */
    struct cache l2[L2_PARTS];
    uint32_t parts;
    uint8_t *seen; /* by line: sectors that each partition was asked for, shifted by 4 for each */
    uint8_t
        *once; /* by line: sectors that were read once, by the partition that is not their home */
    uint64_t base, lines;
    uint64_t wave, next; /* blocks of a wave; the first block that was not replayed */
    size_t most;         /* entries of a warp */
    int lines_only;      /* a miss in L1 fetches the whole line */
    int pairs;           /* DRAM sends 64 bytes */
    int stores_stay;     /* stores allocate lines in L1 */
    int moves;           /* the next launch's blocks may run on other multiprocessors */
    int lost;
    struct sim_log *logs; /* of blocks that have ended: of block b at b - next */
    uint8_t *ended;
    uint64_t capacity;
    uint8_t *paths; /* by pc */
    struct sim_cached *counts;
    uint64_t fills, first, write_backs, distinct; /* sectors; first: fills of a cold L2 alone */
    uint64_t held;    /* lines, with copies, that L2 had if it lost none */
    uint64_t *passes; /* of atomic operations, by SLICE_LINES lines; NULL: there are none */
};

/* Shared memory that the driver sets apart for the blocks that fit. */
static uint64_t shared_part(const struct sim_run *run) {
    static const uint16_t steps[] = {0, 8, 16, 32, 64, 96, 100, 132, 164, 196, 228, 256};
    const struct sim_preset *p = run->preset;
    const uint64_t each = run->shared_bytes + p->shared_reserved,
                   used = each * run->occupancy.blocks_per_sm;
    if (p->cc < VOLTA)
        return run->launch->flags & SIM_LAUNCH_PREFER_L1 ? 16384 : p->shared_per_sm;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i] * 1024ull >= used && steps[i] * 1024ull <= p->shared_per_sm)
            return steps[i] * 1024ull;
    return p->shared_per_sm;
}

/* How a statement's accesses go, by its mnemonic. */
static enum path path_of(const struct sim_run *run, uint32_t pc) {
    const struct sim_insn *in = &run->kernel->code[pc];
    const char *text = run->kernel->where[pc].text;
    char name[48] = "";
    for (size_t i = 0; text && i + 1 < sizeof name && text[i] > ' ' && text[i] != ';'; i++)
        name[i] = text[i], name[i + 1] = 0;
    if (in->op == SIM_OP_TEX)
        return TEXTURE;
    if (in->op == SIM_OP_ATOM)
        return ATOMIC;
    if (in->op == SIM_OP_ST || (in->op == SIM_OP_BULK && in->sub == SIM_BULK_OUT))
        return STORE;
    if (strstr(name, ".nc"))
        return run->preset->cc < VOLTA && run->preset->texture_bytes ? TEXTURE : BY_L1;
    if (in->op == SIM_OP_BULK || !run->preset->caches_loads)
        return PAST_L1;
    return strstr(name, ".cg") || strstr(name, ".cv") || strstr(name, ".volatile") ||
                   strstr(name, ".relaxed") || strstr(name, ".acquire")
               ? PAST_L1
               : BY_L1;
}

static int open_multiprocessors(struct sim_run *run, struct sim_caches *c) {
    const struct sim_preset *p = run->preset;
    const uint64_t part = p->l1_shares ? shared_part(run) : 0,
                   l1 = p->l1_bytes > part ? p->l1_bytes - part : 0;
    const uint32_t warps = run->occupancy.blocks_per_sm * run->warps_per_block;
    c->count = p->sm_count;
    c->multiprocessors = calloc(c->count, sizeof *c->multiprocessors);
    c->cursors = calloc((size_t)c->count * warps, sizeof *c->cursors);
    c->stores = calloc((size_t)c->count * STORES, sizeof *c->stores);
    if (!c->multiprocessors || !c->cursors || !c->stores)
        return 0;
    for (uint32_t i = 0; i < c->count; i++) {
        struct multiprocessor *m = &c->multiprocessors[i];
        m->warps = c->cursors + (size_t)i * warps;
        m->stores = c->stores + (size_t)i * STORES;
        m->part = i / NEIGHBOURS & (c->parts - 1);
        if (!cache_open(&m->l1, l1, p->cc < 30 ? FERMI_WAYS : WAYS, 1) ||
            !cache_open(&m->texture, p->texture_bytes, WAYS, 1))
            return 0;
    }
    for (uint32_t i = 0; i < c->parts; i++)
        if (!cache_open(&c->l2[i], p->l2_bytes / c->parts, WAYS, 0))
            return 0;
    return 1;
}

int sim_caches_open(struct sim_run *run) {
    const struct sim_gpu *gpu = run->gpu;
    const struct sim_kernel *k = run->kernel;
    struct sim_caches *c = run->caches = calloc(1, sizeof *c);
    if (!c)
        return 0;
    pthread_mutex_init(&c->lock, NULL);
    if (gpu->region_count) {
        const struct sim_region *last = &gpu->regions[gpu->region_count - 1];
        c->base = gpu->regions[0].base / LINE;
        c->lines = (last->base + last->bytes) / LINE + 1 - c->base;
        c->lines = c->lines > LINES ? LINES : c->lines;
    }
    c->wave = (uint64_t)run->preset->sm_count * run->occupancy.blocks_per_sm;
    const uint64_t blocks = c->wave < run->total_blocks ? c->wave : run->total_blocks;
    c->most = (size_t)(LOG_BYTES / sizeof(struct cached_line) / (blocks * run->warps_per_block));
    c->most = c->most < LEAST_ENTRIES ? LEAST_ENTRIES : c->most;
    c->lines_only = run->preset->coalescing == SIM_COALESCE_LINES;
    c->pairs = run->preset->cc >= AMPERE;
    c->parts = run->preset->l2_parts;
    c->moves = run->total_blocks > c->wave;
    c->stores_stay = run->preset->cc >= VOLTA && run->preset->caches_loads;
    c->seen = calloc(c->lines + 1, 1);
    c->once = calloc(c->lines + 1, 1);
    c->paths = calloc(k->code_count + 1ull, 1);
    c->counts = calloc(k->code_count + 1ull, sizeof *c->counts);
    if (!c->seen || !c->once || !c->paths || !c->counts || !open_multiprocessors(run, c))
        return 0;
    int atomics = 0;
    for (uint32_t pc = 0; pc < k->code_count; pc++) {
        c->paths[pc] = (uint8_t)path_of(run, pc);
        atomics |= c->paths[pc] == ATOMIC;
    }
    if (atomics)
        c->passes = calloc(c->lines / SLICE_LINES + 1, sizeof *c->passes);
    return c->passes || !atomics;
}

void sim_caches_close(struct sim_run *run) {
    struct sim_caches *c = run->caches;
    if (!c)
        return;
    for (uint32_t i = 0; i < c->count && c->multiprocessors; i++) {
        cache_close(&c->multiprocessors[i].l1);
        cache_close(&c->multiprocessors[i].texture);
    }
    for (uint64_t i = 0; i < c->capacity; i++)
        free(c->logs[i].entries);
    for (uint32_t i = 0; i < L2_PARTS; i++)
        cache_close(&c->l2[i]);
    free(c->multiprocessors);
    free(c->cursors);
    free(c->stores);
    free(c->seen);
    free(c->once);
    free(c->passes);
    free(c->logs);
    free(c->ended);
    free(c->paths);
    free(c->counts);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- recording ---- */

int sim_caches_start(struct sim_block *block) {
    if (!block->log)
        block->log = calloc(1, sizeof *block->log);
    else
        memset(block->log, 0, sizeof *block->log); /* its entries were handed over */
    return block->log != NULL;
}

void sim_caches_forget(struct sim_block *block) {
    if (block->log)
        free(block->log->entries);
    free(block->log);
}

void sim_caches_line(struct sim_worker *w, uint32_t warp, uint32_t pc, uint64_t line,
                     uint32_t sectors, int first) {
    struct sim_caches *c = w->run->caches;
    struct sim_log *log = w->block->log;
    line -= c->base;
    if (line >= c->lines || pc >= PCS || log->ends[warp] >= c->most)
        return;
    struct cached_line *entries =
        sim_grow(NULL, log->entries, &log->capacity, log->count + 1, sizeof *entries);
    if (!entries) {
        log->lost = 1;
        return;
    }
    log->entries = entries;
    log->entries[log->count++] = (struct cached_line){
        (uint32_t)line, pc & (PCS - 1), sectors & WHOLE, c->paths[pc] & 7, first != 0, warp & 31};
    log->ends[warp]++;
}

/* L2 carries out a warp's atomic operations sector by sector; those on one address take turns
 * (measured on an H100). The sums do not depend on the order of the blocks. */
void sim_caches_atomic(struct sim_worker *w, const struct sim_access *a) {
    struct sim_caches *c = w->run->caches;
    for (uint32_t left = a->mask; left && c->passes;) {
        const uint64_t sector = a->address[__builtin_ctz(left)] / SIM_SECTOR,
                       line = sector / (LINE / SIM_SECTOR) - c->base;
        uint32_t most = 0;
        for (uint32_t m = left; m; m &= m - 1) {
            const uint64_t address = a->address[__builtin_ctz(m)];
            uint32_t same = 0;
            if (address / SIM_SECTOR != sector)
                continue;
            for (uint32_t o = m; o; o &= o - 1)
                same += a->address[__builtin_ctz(o)] == address;
            most = same > most ? same : most;
        }
        for (uint32_t m = left; m; m &= m - 1)
            if (a->address[__builtin_ctz(m)] / SIM_SECTOR == sector)
                left &= ~(m & -m);
        if (line < c->lines)
            __atomic_fetch_add(&c->passes[line / SLICE_LINES], most, __ATOMIC_RELAXED);
    }
}

/* Orders a block's entries by warp, and in each by time. */
static int sort_by_warp(struct sim_log *log) {
    struct cached_line *sorted = malloc((log->count + 1) * sizeof *sorted);
    size_t at[SIM_MAX_WARPS], sum = 0;
    if (!sorted)
        return 0;
    for (uint32_t i = 0; i < SIM_MAX_WARPS; i++) {
        at[i] = sum;
        sum += log->ends[i];
        log->ends[i] = sum;
    }
    for (size_t i = 0; i < log->count; i++)
        sorted[at[log->entries[i].warp]++] = log->entries[i];
    free(log->entries);
    log->entries = sorted;
    return 1;
}

/* ---- replay ---- */

/* Where the slowest sector of a request comes from. FIRST: from DRAM, but L2 has it if it held the
 * launch's data before. */
enum level { IN_L1, IN_L2, IN_FIRST, IN_DRAM };

static enum level slower(enum level a, enum level b) { return a > b ? a : b; }

/* The sectors of 64 bytes, which pass together since Ampere. */
static uint32_t halves(const struct sim_caches *c, uint32_t sectors) {
    return c->pairs ? sectors | (sectors & 5) << 1 | (sectors & 10) >> 1 : sectors;
}

/* Sectors that L2 reads from DRAM, which sends 64 bytes (the programming guide, "L2 fetch
 * granularity"). Returns the sectors that are valid now. fresh: not accessed by the launch before.
 */
static uint32_t fill(struct sim_caches *c, uint32_t missed, uint32_t valid, uint32_t fresh) {
    const uint32_t sent = halves(c, missed) & ~valid;
    c->fills += sim_lanes_in(sent);
    c->first += missed & fresh ? sim_lanes_in(sent) : 0;
    return sent;
}

/* The partition that a line is at home in: half of the lines, whatever their distance. */
static uint32_t home_of(const struct sim_caches *c, uint32_t line) {
    return (line * 0x85ebca6bu >> 17 ^ line * 0xc2b2ae35u >> 29) & (c->parts - 1);
}

/* In the next launch of the kernel, blocks may run on multiprocessors of the other partition, which
 * has a copy if one of the `readers` of its 64 bytes ran there before: where they are not at home,
 * the first one misses its sectors with a chance of 1 / 2^readers. By half of a line: readers less
 * one, 3 at most; the sectors, shifted by 2. */
static void move(struct sim_caches *c, uint32_t line, uint32_t sectors, uint32_t by_near,
                 uint32_t by_any, int far, struct sim_cached *count) {
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t mine = sectors >> 2 * half & 3, note = c->once[line] >> 4 * half & WHOLE,
                       before = by_any >> 2 * half & 3 ? (note & 3) + 1 : 0,
                       readers = before < 4 ? before + 1 : 4;
        uint32_t first = note >> 2;
        if (!mine)
            continue;
        count->l2_moved -= (int64_t)(first * CHANCES >> before);
        if (far && !first && !(by_near >> 2 * half & 3))
            first = sim_lanes_in(mine);
        count->l2_moved += (int64_t)(first * CHANCES >> readers);
        c->once[line] = (uint8_t)((c->once[line] & ~(WHOLE << 4 * half)) |
                                  ((readers - 1) | first << 2) << 4 * half);
    }
}

/* Notes which partition was asked for sectors; returns those that none was asked for before. */
static uint32_t note(struct sim_caches *c, uint32_t line, uint32_t sectors, uint32_t near,
                     uint32_t home, struct sim_cached *count, int reads) {
    const uint8_t seen = c->seen[line];
    const uint32_t by_near = seen >> 4 * near & WHOLE, by_any = (seen | seen >> 4) & WHOLE;
    c->held += !seen + (near != home && !by_near);
    c->seen[line] |= (uint8_t)(sectors << 4 * near);
    if (c->moves && c->parts > 1 && (reads || sectors & ~by_any))
        move(c, line, sectors, by_near, by_any, reads && near != home, count);
    c->distinct += sim_lanes_in(sectors & ~by_any);
    return sectors & ~by_any;
}

/* The state of a line in a partition, which has it from now on. */
static uint8_t *l2_line(struct sim_caches *c, uint32_t part, uint32_t line) {
    uint32_t dirty;
    uint8_t *state = &c->l2[part].states[cache_take(&c->l2[part], line, &dirty)];
    c->write_backs += sim_lanes_in(dirty);
    return state;
}

/* Writes sectors. Atomic operations read them, too, and leave no copy. Returns those that miss. */
static uint32_t write_l2(struct sim_caches *c, const struct cached_line *e, uint32_t sectors,
                         uint32_t near, uint32_t home, uint32_t fresh) {
    uint8_t *state = l2_line(c, home, e->line);
    const uint32_t missed = e->path == STORE ? 0 : sectors & ~*state;
    *state |= (uint8_t)(fill(c, missed, *state & WHOLE, fresh) | sectors | sectors << 4);
    if (near != home && e->path == STORE) {
        *l2_line(c, near, e->line) |= (uint8_t)sectors;
    } else if (c->parts > 1) {
        const size_t at = cache_find(&c->l2[!home], e->line);
        if (at != SIZE_MAX)
            c->l2[!home].states[at] &= (uint8_t)~sectors;
    }
    return missed;
}

/* Sectors that arrive at L2. */
static enum level reach_l2(struct sim_caches *c, const struct multiprocessor *m,
                           const struct cached_line *e, uint32_t sectors) {
    struct sim_cached *count = &c->counts[e->pc];
    const int writes = e->path == STORE || e->path == ATOMIC;
    const uint32_t near = m->part, home = home_of(c, e->line),
                   fresh = note(c, e->line, sectors, near, home, count, !writes);
    uint32_t missed = sectors, from_dram = sectors;
    count->l2_sectors += sim_lanes_in(sectors);
    count->l2_halves += sim_lanes_in((sectors | sectors >> 1) & 5);
    if (!c->l2[0].sets) { /* no cache: all goes to DRAM */
        *(writes ? &c->write_backs : &c->fills) += sim_lanes_in(sectors);
        missed = from_dram = writes ? 0 : sectors;
    } else if (writes) {
        missed = from_dram = write_l2(c, e, sectors, near, home, fresh);
        count->l2_far += near != home ? sim_lanes_in(sectors) : 0;
    } else {
        uint8_t *state = l2_line(c, near, e->line);
        from_dram = missed = sectors & ~*state;
        if (near != home && missed) {
            count->l2_far += sim_lanes_in(missed);
            uint8_t *there = l2_line(c, home, e->line);
            from_dram = missed & ~*there;
            *there |= (uint8_t)fill(c, from_dram, *there & WHOLE, fresh);
            *state |= (uint8_t)(halves(c, missed) & *there);
        } else {
            *state |= (uint8_t)fill(c, missed, *state & WHOLE, fresh);
        }
    }
    count->l2_hits += sim_lanes_in(sectors & ~missed);
    count->l2_first += sim_lanes_in(from_dram & fresh);
    count->l2_again += sim_lanes_in(from_dram & ~fresh);
    return from_dram & ~fresh ? IN_DRAM : from_dram ? IN_FIRST : IN_L2;
}

/* A read by a cache of the multiprocessor: L2 gets what misses. */
static enum level read_cached(struct sim_caches *c, const struct multiprocessor *m,
                              struct cache *cache, const struct cached_line *e) {
    uint32_t dropped;
    if (!cache->sets)
        return reach_l2(c, m, e, e->sectors);
    const size_t at = cache_take(cache, e->line, &dropped);
    const uint32_t hits = e->sectors & cache->states[at],
                   missed = c->lines_only && !hits ? WHOLE : e->sectors & ~hits;
    c->counts[e->pc].l1_hits += sim_lanes_in(hits);
    if (missed) {
        const enum level level = reach_l2(c, m, e, missed);
        cache->states[at] |= (uint8_t)missed;
        cache->asked[at] = m->now << 2 | level;
        return level;
    }
    /* Another warp has asked for it in this turn, and it is still on its way. */
    const uint32_t since = (m->now << 2) - (cache->asked[at] & ~3u);
    return since >> 2 < m->live ? (enum level)(cache->asked[at] & 3) : IN_L1;
}

/* The sectors of a store that L2 gets: the others join stores since the warp's own last turn. */
static uint32_t unjoined(struct multiprocessor *m, const struct cached_line *e) {
    struct stored *s = &m->stores[(e->line ^ e->line >> 8) % STORES];
    uint32_t same = s->line == e->line + 1 && m->now - s->at <= m->begun ? s->sectors : 0;
    if (same & e->sectors && ++m->met % JOIN == 0)
        same = 0;
    *s = (struct stored){e->line + 1, same | e->sectors, m->now};
    return e->sectors & ~same;
}

/* Writes through. A line in L1 keeps its sectors, with the new values; Fermi evicts it. Since Volta
 * stores allocate lines, too. */
static void write_through(struct sim_caches *c, struct multiprocessor *m, struct cache *l1,
                          const struct cached_line *e) {
    size_t at = l1->sets ? cache_find(l1, e->line) : SIZE_MAX;
    if (at != SIZE_MAX && c->lines_only)
        l1->states[at] = 0;
    else if (at != SIZE_MAX)
        c->counts[e->pc].l1_hits += sim_lanes_in(e->sectors & l1->states[at]);
    if (l1->sets && c->stores_stay) {
        uint32_t dropped;
        if (at == SIZE_MAX) {
            at = cache_add(l1, e->line, &dropped);
            l1->asked[at] = (m->now - m->live) << 2; /* nothing is on its way */
        }
        l1->states[at] |= e->sectors;
    }
    const uint32_t sent = c->stores_stay ? unjoined(m, e) : e->sectors;
    if (sent)
        reach_l2(c, m, e, sent);
}

static enum level replay_line(struct sim_caches *c, struct multiprocessor *m,
                              const struct cached_line *e) {
    c->counts[e->pc].l1_sectors += sim_lanes_in(e->sectors);
    switch (e->path) {
    case BY_L1:
        return read_cached(c, m, &m->l1, e);
    case TEXTURE:
        return read_cached(c, m, m->texture.sets ? &m->texture : &m->l1, e);
    case STORE:
        write_through(c, m, &m->l1, e);
        return IN_L1;
    default:
        return reach_l2(c, m, e, e->sectors);
    }
}

/* Fetches what the request after the next one needs of L2: the host waits for it otherwise. */
static void expect(const struct sim_caches *c, const struct multiprocessor *m) {
    const uint32_t next = (m->turn + 1) % m->live;
    for (uint32_t part = 0; part < c->parts && m->warps[next].at < m->warps[next].end; part++)
        cache_expect(&c->l2[part], m->warps[next].at->line);
}

/* One request of the multiprocessor's next warp. */
static void step(struct sim_caches *c, struct multiprocessor *m) {
    struct cursor *warp = &m->warps[m->turn];
    struct sim_cached *count = &c->counts[warp->at->pc];
    enum level level = IN_L1;
    uint32_t banks[4] = {0}, most = 0;
    m->now++;
    expect(c, m);
    do {
        const uint32_t lines = ++banks[(warp->at->line + c->base) & 3];
        most = lines > most ? lines : most;
        level = slower(level, replay_line(c, m, warp->at++));
    } while (warp->at < warp->end && !warp->at->first);
    count->tag_passes += most;
    count->waits += level > IN_L1;
    count->first_waits += level == IN_FIRST;
    count->dram_waits += level == IN_DRAM;
    if (warp->at == warp->end) { /* the order of the others stays */
        m->live--;
        memmove(warp, warp + 1, (m->live - m->turn) * sizeof *warp);
    } else {
        m->turn++;
    }
    if (m->turn >= m->live)
        m->turn = 0;
}

static void replay_wave(struct sim_caches *c, uint64_t blocks) {
    int busy = 1;
    for (uint64_t b = 0; b < blocks; b++) {
        struct multiprocessor *m = &c->multiprocessors[b % c->count];
        const struct sim_log *log = &c->logs[b];
        for (uint32_t i = 0; i < SIM_MAX_WARPS; i++) {
            const size_t from = i ? log->ends[i - 1] : 0;
            if (from < log->ends[i])
                m->warps[m->live++] =
                    (struct cursor){log->entries + from, log->entries + log->ends[i]};
        }
        m->begun = m->live;
    }
    while (busy) {
        busy = 0;
        for (uint32_t i = 0; i < c->count; i++)
            if (c->multiprocessors[i].live) {
                step(c, &c->multiprocessors[i]);
                busy = 1;
            }
    }
}

static int reserve(struct sim_caches *c, uint64_t blocks) {
    uint64_t capacity = c->capacity ? c->capacity : 64;
    while (capacity < blocks)
        capacity *= 2;
    struct sim_log *logs = realloc(c->logs, capacity * sizeof *logs);
    c->logs = logs ? logs : c->logs;
    uint8_t *ended = realloc(c->ended, capacity);
    c->ended = ended ? ended : c->ended;
    if (!logs || !ended)
        return 0;
    memset(c->logs + c->capacity, 0, (capacity - c->capacity) * sizeof *logs);
    memset(c->ended + c->capacity, 0, capacity - c->capacity);
    c->capacity = capacity;
    return 1;
}

/* Replays waves all of whose blocks have ended. */
static void replay_ended(struct sim_run *run) {
    struct sim_caches *c = run->caches;
    for (;;) {
        const uint64_t left = run->total_blocks - c->next, blocks = left < c->wave ? left : c->wave;
        if (!blocks || c->capacity < blocks || memchr(c->ended, 0, blocks))
            return;
        replay_wave(c, blocks);
        for (uint64_t i = 0; i < blocks; i++)
            free(c->logs[i].entries);
        memmove(c->logs, c->logs + blocks, (c->capacity - blocks) * sizeof *c->logs);
        memmove(c->ended, c->ended + blocks, c->capacity - blocks);
        memset(c->logs + c->capacity - blocks, 0, blocks * sizeof *c->logs);
        memset(c->ended + c->capacity - blocks, 0, blocks);
        c->next += blocks;
    }
}

void sim_caches_end(struct sim_run *run, struct sim_block *block) {
    struct sim_caches *c = run->caches;
    struct sim_log *log = block->log;
    const int sorted = sort_by_warp(log);
    pthread_mutex_lock(&c->lock);
    const uint64_t at = block->linear - c->next;
    c->lost |= log->lost || !sorted || (at >= c->capacity && !reserve(c, at + 1));
    if (!c->lost) {
        c->logs[at] = *log;
        c->ended[at] = 1;
        log->entries = NULL;
        replay_ended(run);
    }
    pthread_mutex_unlock(&c->lock);
    free(log->entries);
    log->entries = NULL;
}

/* ---- the report ---- */

int sim_caches_lost(const struct sim_run *run) { return run->caches->lost; }

/* The part of a launch's data that L2 has lost before the next launch of the same kernel: measured
 * on an H200, by the lines and copies that it reads again and again, over L2's size. */
static double lost_part(const struct sim_run *run) {
    static const double from[] = {0.80, 0.93, 1.00, 1.07, 1.40}, lost[] = {0, 0.07, 0.23, 0.75, 1};
    const double held = (double)run->caches->held * LINE, size = run->preset->l2_bytes;
    const double used = size > 0 ? held / size : 2;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        if (used <= from[i])
            return i ? lost[i - 1] +
                           (lost[i] - lost[i - 1]) * (used - from[i - 1]) / (from[i] - from[i - 1])
                     : 0;
    return 1;
}

static uint64_t scaled(uint64_t count, double by) { return (uint64_t)((double)count * by + 0.5); }

struct sim_cached sim_caches_of(const struct sim_run *run, uint32_t pc, uint64_t sectors) {
    const struct sim_caches *c = run->caches;
    const struct sim_cached n = c->counts[pc];
    const double by = n.l1_sectors ? (double)sectors / (double)n.l1_sectors : 0;
    const double lost = lost_part(run), cold = (double)(n.l2_sectors - n.l2_hits),
                 moved = n.l2_moved > 0 ? (double)n.l2_moved / CHANCES : 0,
                 warm = lost * cold + (1 - lost) * ((double)n.l2_again + moved);
    return (struct sim_cached){.l1_sectors = sectors,
                               .l1_hits = scaled(n.l1_hits, by),
                               .l2_sectors = scaled(n.l2_sectors, by),
                               .l2_halves = scaled(n.l2_halves, by),
                               .l2_hits = scaled(n.l2_hits, by),
                               .l2_first = scaled(n.l2_first, by),
                               .l2_far = scaled(n.l2_far, by),
                               .l2_warm = (uint64_t)(warm * by + 0.5),
                               .tag_passes = scaled(n.tag_passes, by),
                               .waits = scaled(n.waits, by),
                               .first_waits = scaled(n.first_waits, by),
                               .dram_waits = scaled(n.dram_waits, by)};
}

void sim_caches_traffic(const struct sim_run *run, struct sim_counters *total) {
    const struct sim_caches *c = run->caches;
    total->l2_distinct_bytes = c->distinct * SIM_SECTOR;
    total->l2_held_bytes = c->held * LINE;
    const double lost = lost_part(run),
                 kept = (1 - lost) * (double)(c->first < c->fills ? c->first : c->fills),
                 written = (double)c->write_backs * SIM_SECTOR > (double)total->dram_write_bytes
                               ? (double)c->write_backs * SIM_SECTOR
                               : (double)total->dram_write_bytes;
    total->l2_warm_dram_bytes =
        (uint64_t)(((double)c->fills - kept) * SIM_SECTOR + lost * written + 0.5);
    total->l2_fill_bytes = c->fills * SIM_SECTOR;
    total->l2_write_back_bytes = c->write_backs * SIM_SECTOR;
    for (uint64_t i = 0; c->passes && i <= c->lines / SLICE_LINES; i++) {
        total->atomic_passes += c->passes[i];
        if (c->passes[i] > total->atomic_hot_passes)
            total->atomic_hot_passes = c->passes[i];
    }
}
