/* sim_races_global.c: the cells of global memory: each word has one, of its last write or of its
 * readers, and one in a page of its own for reads after a write. Threads that access different
 * bytes of a word give it such a pair for each byte.
 */
#include "sim_races_cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- packed cells: a change of the fields requires a change of the fast paths ---- */

/* Global: bytes 4, unit 3, write, atomic or warps, many, blocks, lane 5, warp 5, time 12, block 23,
 * launch 8. A cell of another launch is empty. A write has its sameness in place of many and
 * blocks. The instruction is kept beside the cells. Unit 7: the word's bytes have cells of their
 * own, and this one no further fields. */
#define G_BYTES 0xfull
#define G_UNIT (7ull << 4)
#define G_WRITE (1ull << 7)
#define G_WARPS (1ull << 8)
#define G_MANY (1ull << 9)
#define G_BLOCKS (1ull << 10)
#define G_SAME (G_MANY | G_BLOCKS)
#define G_FLAGS (G_WARPS | G_SAME)
#define G_LANE_SHIFT 11
#define G_LANE (31ull << G_LANE_SHIFT)
#define G_WARP (31ull << 16)
#define G_TIME (0xfffull << 21)
#define G_BLOCK ((uint64_t)SIM_RACE_BLOCKS << 33)
#define G_LAUNCH (0xffull << 56)
#define G_THREAD (G_LAUNCH | G_BLOCK | G_WARP | G_LANE | G_UNIT | G_BYTES)

static uint64_t pack_global(const struct sim_race_cell *c, uint32_t launch) {
    const int warps = c->write ? c->atomic : c->warps;
    const int many = c->write ? c->same >= SAME_BLOCK : c->many,
              blocks = c->write ? c->same >= SAME_GRID : c->blocks;
    return (uint64_t)c->bytes | (uint64_t)c->unit << 4 | (c->write ? G_WRITE : 0) |
           (warps ? G_WARPS : 0) | (many ? G_MANY : 0) | (blocks ? G_BLOCKS : 0) |
           (uint64_t)c->lane << G_LANE_SHIFT | (uint64_t)c->warp << 16 | (uint64_t)c->time << 21 |
           (uint64_t)(c->block & SIM_RACE_BLOCKS) << 33 | (uint64_t)launch << 56;
}

static struct sim_race_cell unpack_global(uint64_t u, uint32_t pc) {
    const int write = (u & G_WRITE) != 0, warps = (u & G_WARPS) != 0, many = (u & G_MANY) != 0,
              blocks = (u & G_BLOCKS) != 0;
    return (struct sim_race_cell){.bytes = u & 15,
                                  .unit = u >> 4 & 7,
                                  .write = write,
                                  .atomic = write && warps,
                                  .warps = !write && warps,
                                  .many = !write && many,
                                  .blocks = !write && blocks,
                                  .same = write ? (uint32_t)many + (uint32_t)blocks : 0,
                                  .lane = u >> G_LANE_SHIFT & 31,
                                  .warp = u >> 16 & 31,
                                  .time = u >> 21 & 0xfff,
                                  .block = u >> 33 & SIM_RACE_BLOCKS,
                                  .pc = pc};
}

/* ---- global memory ---- */

static int global_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                          uint32_t lane) {
    const struct sim_race_block *r = v->r;
    const uint32_t x = v->warp->index;
    const struct sim_run *run = v->w->run;
    const int same_block = c->block == (v->warp->block->linear & SIM_RACE_BLOCKS);
    /* only a synchronization between blocks orders readers of several blocks */
    if (c->blocks && (v->alone || !r->acquired[x] || same_block))
        return !v->alone && r->acquired[x];
    if (!same_block)
        return sim_race_released(run, r, c, x);
    if (c->time >= SIM_GLOBAL_TIME_MOST)
        return 1;
    if (c->warps && c->warp == x)
        return sim_race_readers_ordered(v, c, owner, lane);
    return c->warp == x ? sim_race_ordered_in_warp(r, x, c, owner, lane)
                        : c->time < r->known[x][c->warp] || sim_race_released(run, r, c, x);
}

/* Joins this read with another that is not ordered before it; otherwise keeps this read alone. */
static void join_readers(const struct view *v, const struct sim_race_cell *c,
                         struct sim_race_cell *now) {
    if (join(c, now) || !(c->bytes & now->bytes))
        return;
    const uint32_t known = v->r->known[now->warp][c->warp];
    const int same_thread = c->warp == now->warp && c->lane == now->lane && !c->many;
    if (c->block == now->block && !c->blocks && !c->warps && (same_thread || c->time < known))
        return;
    now->many |= c->many || c->block != now->block || c->warp != now->warp || c->lane != now->lane;
    now->warps = c->warps || c->block != now->block || c->warp != now->warp;
    now->blocks = c->blocks || c->block != now->block;
    now->bytes &= c->bytes;
}

/* A cell of a word or of a byte; NULL: no room. */
struct cell_slot {
    uint64_t *cell;
    uint16_t *pc;
};

static uint64_t get(struct cell_slot s) { return __atomic_load_n(s.cell, __ATOMIC_RELAXED); }

/* Blocks on other host threads may change a cell meanwhile: one of the two remains, as if they came
 * one after the other. */
static void put(struct cell_slot s, uint64_t cell, uint16_t pc) {
    __atomic_store_n(s.cell, cell, __ATOMIC_RELAXED);
    __atomic_store_n(s.pc, pc, __ATOMIC_RELAXED);
}

/* ---- cells in pages ---- */

/* Positions in the pages: a byte's cell, and its cell of reads after a write. Those of a word's
 * reads after a write come first. */
static uint64_t by_byte(const struct sim_region *region, uint64_t word, uint32_t byte) {
    return sim_pages_by_word(region) * SIM_CELLS_A_PAGE + word * 4 + byte;
}
static uint64_t after_byte(const struct sim_region *region, uint64_t word, uint32_t byte) {
    return sim_pages_by_word(region) * SIM_CELLS_A_PAGE * 5 + word * 4 + byte;
}

/* make: allocates the page if it is missing. */
static struct cell_slot in_pages(const struct view *v, struct sim_region *region, uint64_t at,
                                 int make) {
    struct sim_gpu *gpu = v->w->run->gpu;
    struct sim_cells **entry = &region->pages[at / SIM_CELLS_A_PAGE],
                     *page = __atomic_load_n(entry, __ATOMIC_ACQUIRE), *none = NULL;
    const uint64_t in_page = at % SIM_CELLS_A_PAGE, bytes = sizeof *page,
                   most = gpu->used_bytes / 4 * 3 + SIM_PAGES_ALWAYS;
    if (!page && make && __atomic_load_n(&gpu->page_bytes, __ATOMIC_RELAXED) + bytes <= most) {
        if (__atomic_add_fetch(&gpu->page_bytes, bytes, __ATOMIC_RELAXED) > most ||
            !(page = calloc(1, bytes))) {
            __atomic_sub_fetch(&gpu->page_bytes, bytes, __ATOMIC_RELAXED);
            return (struct cell_slot){NULL, NULL};
        }
        if (!__atomic_compare_exchange_n(entry, &none, page, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            free(page);
            __atomic_sub_fetch(&gpu->page_bytes, bytes, __ATOMIC_RELAXED);
            page = none;
        }
    }
    return page ? (struct cell_slot){page->cells + in_page, page->pcs + in_page}
                : (struct cell_slot){NULL, NULL};
}

static void put_after(const struct view *v, struct sim_region *region, uint64_t at, uint64_t cell,
                      uint16_t pc) {
    const struct cell_slot after = in_pages(v, region, at, cell != 0);
    if (!after.cell)
        return;
    put(after, cell, pc);
    if (cell)
        __atomic_store_n(&region->any_after, 1, __ATOMIC_RELAXED);
}

/* The launch's reads after a write: no bytes if there are none. */
static struct sim_race_cell reads_after(const struct view *v, struct sim_region *region,
                                        uint64_t at) {
    const struct cell_slot after = in_pages(v, region, at, 0);
    const uint64_t read = after.cell ? get(after) : 0;
    return read >> 56 == v->launch ? unpack_global(read, *after.pc) : (struct sim_race_cell){0};
}

/* ---- one access ---- */

/* To a word or a byte with its two cells. */
static int global_cell(const struct view *v, struct sim_region *region, struct cell_slot cell,
                       uint64_t after, struct sim_race_cell mine) {
    const uint64_t old = get(cell);
    const struct sim_race_cell reads = reads_after(v, region, after);
    int hidden = 0; /* an atomic must not hide a plain write that others do not follow yet */
    if (old >> 56 == v->launch) {
        const struct sim_race_cell c = unpack_global(old, *cell.pc), alone = mine;
        hidden = v->atomic && c.write && !c.atomic;
        const int joined = v->writes && join(&c, &mine);
        if ((v->writes || c.write) && !joined && sim_race_conflicts(v, &c, &alone, global_ordered))
            return 1;
        if (v->writes && reads.bytes) {
            if (sim_race_conflicts(v, &reads, &alone, global_ordered))
                return 1;
            put_after(v, region, after, 0, 0);
        } else if (!v->writes && !v->atomic && c.write) {
            /* a read by the writer at the time of its write adds nothing */
            if (!((old ^ pack_global(&mine, v->launch)) & (G_THREAD | G_TIME)) && !c.atomic)
                return 0;
            if (reads.bytes)
                join_readers(v, &reads, &mine);
            put_after(v, region, after, pack_global(&mine, v->launch), v->pc);
            return 0;
        } else if (!v->writes && !v->atomic) {
            join_readers(v, &c, &mine);
        }
    }
    if ((v->writes && !hidden) || !v->atomic)
        put(cell, pack_global(&mine, v->launch), v->pc);
    return 0;
}

/* Whether the word's cells cannot hold this access beside those of other bytes. */
static int exceeds(const struct view *v, const struct sim_race_cell *c,
                   const struct sim_race_cell *reads, const struct sim_race_cell *mine) {
    struct sim_race_cell both = *mine;
    const struct sim_race_cell *other = c->write ? reads : c;
    if (v->writes)
        return (reads->bytes & ~mine->bytes) || ((c->bytes & ~mine->bytes) && !join(c, &both));
    return !v->atomic && other->bytes &&
           (other->bytes != mine->bytes || other->unit != mine->unit) && !join(other, &both);
}

/* Gives each byte of a word cells of its own. Returns 0 if there is no room. */
static int split(const struct view *v, struct sim_region *region, uint64_t word,
                 const struct sim_race_cell *c, const struct sim_race_cell *reads) {
    for (uint32_t b = 0; b < 4; b++) {
        const struct cell_slot slot = in_pages(v, region, by_byte(region, word, b), 1);
        const struct sim_race_cell one = byte_cell(c, b), read = byte_cell(reads, b);
        if (!slot.cell)
            return 0;
        put(slot, c->bytes >> b & 1 ? pack_global(&one, v->launch) : 0, (uint16_t)c->pc);
        put_after(v, region, after_byte(region, word, b),
                  reads->bytes >> b & 1 ? pack_global(&read, v->launch) : 0, (uint16_t)reads->pc);
    }
    put_after(v, region, word, 0, 0);
    __atomic_store_n(&region->cells[word], (uint64_t)v->launch << 56 | G_UNIT, __ATOMIC_RELEASE);
    return 1;
}

static int global_usual_slot(const struct view *v, const struct sim_region *region,
                             struct cell_slot cell, uint32_t lane);

static int global_bytes(const struct view *v, struct sim_region *region, uint64_t word,
                        const struct sim_race_cell *mine) {
    for (uint32_t m = mine->bytes; m; m &= m - 1) {
        const uint32_t b = (uint32_t)__builtin_ctz(m);
        const struct cell_slot cell = in_pages(v, region, by_byte(region, word, b), 0);
        const struct sim_race_cell one = byte_cell(mine, b);
        if (cell.cell && !global_usual_slot(v, region, cell, one.lane) &&
            global_cell(v, region, cell, after_byte(region, word, b), one))
            return 1;
    }
    if (v->writes && !v->atomic && mine->bytes == 15) /* one cell suffices again */
        put((struct cell_slot){&region->cells[word], &region->pcs[word]},
            pack_global(mine, v->launch), v->pc);
    return 0;
}

static int global_word(const struct view *v, struct sim_region *region, uint64_t word,
                       const struct sim_race_cell *mine) {
    const struct cell_slot cell = {&region->cells[word], &region->pcs[word]};
    const uint64_t old = __atomic_load_n(cell.cell, __ATOMIC_ACQUIRE);
    if (old >> 56 == v->launch) {
        if ((old & G_UNIT) == G_UNIT)
            return global_bytes(v, region, word, mine);
        const struct sim_race_cell c = unpack_global(old, *cell.pc),
                                   reads = reads_after(v, region, word);
        if (exceeds(v, &c, &reads, mine) && split(v, region, word, &c, &reads))
            return global_bytes(v, region, word, mine);
    }
    return global_cell(v, region, cell, word, *mine);
}

/* The common case: words that are empty, or accessed only by this thread, or only read. Returns the
 * new cell; *bad: all ones if the case is not common. */
static inline uint64_t global_usual(uint64_t c, uint64_t mine, int writes, uint64_t alone,
                                    uint64_t *bad) {
    const uint64_t differ = c ^ mine, present = WHEN(!(differ & G_LAUNCH)),
                   read = WHEN(!(c & G_WRITE)),
                   thread = WHEN(!((differ & G_THREAD) | (c & (G_WARPS | (G_SAME & read)))));
    if (writes) {
        *bad = present & ~thread;
        return mine;
    }
    const uint64_t reader = WHEN((c & (G_WRITE | G_UNIT | G_BYTES)) == G_BYTES),
                   here = WHEN(!(differ & G_BLOCK)),
                   written = thread & WHEN(!(differ & G_TIME)) & ~read,
                   everybody = reader & alone & WHEN(c & G_BLOCKS), far = reader & alone & ~here,
                   near = reader & WHEN(!(differ & (G_BLOCK | G_WARP | G_TIME))),
                   again = thread & read, keep = present & (written | everybody);
    *bad = present & ~(again | written | everybody | far | near);
    const uint64_t flags =
        (near & ((c & G_FLAGS) | (G_MANY & WHEN(differ & G_LANE)))) | (far & G_FLAGS);
    return (c & keep) | ((mine | (flags & present & ~again)) & ~keep);
}

/* Returns the words that need the full test, one bit each. Words that this launch has not accessed
 * yet, usually all, need none. */
#define GLOBAL_ROW(name, target, writes)                                                           \
    static target uint32_t name(uint64_t *restrict cells, uint16_t *restrict pcs, uint16_t pc,     \
                                struct row row, uint64_t alone) {                                  \
        uint64_t bad[SIM_LANES], any = 0, first = row.mine + ((uint64_t)row.lane << G_LANE_SHIFT); \
        uint64_t kept[SIM_LANES], some = 0, every = ~0ull;                                         \
        for (uint32_t i = 0; i < row.words; i++)                                                   \
            any |= WHEN(!((cells[i] ^ first) & G_LAUNCH));                                         \
        if (!any) {                                                                                \
            for (uint32_t i = 0; i < row.words; i++)                                               \
                cells[i] = first + ((uint64_t)(i << row.up >> row.down) << G_LANE_SHIFT);          \
            for (uint32_t i = 0; i < row.words; i++)                                               \
                pcs[i] = pc;                                                                       \
            return 0;                                                                              \
        }                                                                                          \
        any = 0;                                                                                   \
        for (uint32_t i = 0; i < row.words; i++) {                                                 \
            const uint64_t old = cells[i],                                                         \
                           mine = first + ((uint64_t)(i << row.up >> row.down) << G_LANE_SHIFT),   \
                           made = global_usual(old, mine, writes, alone, &bad[i]);                 \
            kept[i] = bad[i] | WHEN(made == old);                                                  \
            cells[i] = (old & kept[i]) | (made & ~kept[i]);                                        \
            any |= bad[i];                                                                         \
            some |= kept[i];                                                                       \
            every &= kept[i];                                                                      \
        }                                                                                          \
        for (uint32_t i = 0; !some && i < row.words; i++)                                          \
            pcs[i] = pc;                                                                           \
        for (uint32_t i = 0; some && !every && i < row.words; i++)                                 \
            pcs[i] = kept[i] ? pcs[i] : pc;                                                        \
        uint32_t left = 0;                                                                         \
        for (uint32_t i = 0; any && i < row.words; i++)                                            \
            left |= (uint32_t)(bad[i] != 0) << i;                                                  \
        return left;                                                                               \
    }
GLOBAL_ROW(global_read_plain, , 0)
GLOBAL_ROW(global_write_plain, , 1)
#if defined(__x86_64__)
GLOBAL_ROW(global_read_wide, __attribute__((target("avx2"))), 0)
GLOBAL_ROW(global_write_wide, __attribute__((target("avx2"))), 1)
#else
#define global_read_wide global_read_plain
#define global_write_wide global_write_plain
#endif

/* Words from a row to the one whose cells are fetched meanwhile: the next warps' accesses mostly
 * follow this one's. */
#define AHEAD 256u

static int global_row(const struct view *v, struct sim_region *region, uint64_t word,
                      struct row row) {
    const int wide = v->w->run->wide;
    const uint32_t words = row.words, first = row.lane;
    for (uint32_t at = 0; at < words; at += SIM_LANES, word += SIM_LANES) {
        for (uint64_t i = word + AHEAD; i < word + AHEAD + SIM_LANES && i < region->bytes / 4;
             i += 8)
            __builtin_prefetch(region->cells + i, 1);
        row.words = words - at < SIM_LANES ? words - at : SIM_LANES;
        row.lane = first + (at >> row.down);
        uint32_t left = (v->writes ? (wide ? global_write_wide : global_write_plain)
                                   : (wide ? global_read_wide : global_read_plain))(
            region->cells + word, region->pcs + word, v->pc, row, v->alone);
        for (; left; left &= left - 1) {
            const uint32_t i = (uint32_t)__builtin_ctz(left);
            const struct sim_race_cell c = cell_in(v, &row, i);
            if (global_word(v, region, word + i, &c))
                return 1;
        }
    }
    return 0;
}

/* Lanes up to this one read the same words. Returns 1 when done. */
static int global_uniform(const struct view *v, struct sim_region *region, uint64_t word,
                          uint32_t last_lane) {
    for (uint64_t end = word + v->a->bytes / 4; word < end; word++) {
        const struct cell_slot cell = {&region->cells[word], &region->pcs[word]};
        uint64_t bad, old = get(cell), made;
        made = global_usual(old, v->mine | (uint64_t)last_lane << G_LANE_SHIFT | G_MANY, 0,
                            v->alone, &bad);
        if (bad || (made & G_WRITE))
            return 0;
        if (made != old)
            put(cell, made, v->pc);
    }
    return 1;
}

/* The common case of an access to a part of a word: the first one, or by neighbouring lanes at
 * once. Returns 0 if it is another. */
static int part_usual(const struct view *v, struct sim_region *region, uint64_t offset,
                      uint32_t lane) {
    const uint32_t bytes = v->a->bytes, at = offset & 3;
    const struct cell_slot cell = {&region->cells[offset / 4], &region->pcs[offset / 4]};
    const uint64_t old = get(cell);
    uint64_t mine = (v->mine & ~G_BYTES) | (uint64_t)((1u << bytes) - 1) << at |
                    (uint64_t)bytes << 4 |
                    (uint64_t)((lane - at / bytes) % SIM_LANES) << G_LANE_SHIFT;
    if (v->atomic || (v->writes && region->any_after))
        return 0;
    if (!((old ^ mine) & G_LAUNCH)) { /* else this launch's first access */
        const uint64_t differ = (old ^ mine) & ~G_BYTES;
        uint32_t unit, first;
        if (old & G_FLAGS || differ & ~(G_UNIT | G_LANE) || (old & G_UNIT) == G_UNIT)
            return 0;
        if (differ) { /* the same access, to other bytes by other lanes */
            const struct sim_race_cell c = unpack_global(old, 0), m = unpack_global(mine, 0);
            if (!owners_join(c.bytes, sim_race_owners(&c), m.bytes, sim_race_owners(&m), &unit,
                             &first))
                return 0;
            mine =
                (mine & ~(G_UNIT | G_LANE)) | (uint64_t)unit << 4 | (uint64_t)first << G_LANE_SHIFT;
        }
        mine |= old & G_BYTES;
    }
    put(cell, mine, v->pc);
    return 1;
}

/* The common case of one lane's access to a whole word, or to a byte with cells of its own. Returns
 * 0 if it is another. */
static inline int global_usual_slot(const struct view *v, const struct sim_region *region,
                                    struct cell_slot cell, uint32_t lane) {
    if (v->writes && region->any_after)
        return 0;
    const uint64_t old = get(cell), mine = v->mine + ((uint64_t)lane << G_LANE_SHIFT);
    if ((old ^ mine) & G_LAUNCH ||
        (v->atomic && (old & (G_WRITE | G_WARPS)) == (G_WRITE | G_WARPS))) {
        /* this launch's first access, or atomics only */
        if (v->writes || !v->atomic)
            put(cell, mine, v->pc);
        return 1;
    }
    uint64_t bad;
    const uint64_t made = global_usual(old, mine, v->writes, v->alone, &bad);
    if (bad || v->atomic)
        return 0;
    if (made != old)
        put(cell, made, v->pc);
    return 1;
}

static int global_lanes(const struct view *v, uint32_t mask) {
    const struct sim_access *a = v->a;
    for (uint32_t m = a->region && a->region->cells ? mask : 0; m; m &= m - 1) {
        const uint64_t word = (a->address[__builtin_ctz(m)] - a->region->base) / 4;
        __builtin_prefetch(&a->region->cells[word], 1);
        __builtin_prefetch(&a->region->pcs[word], 1);
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint64_t address = a->address[lane];
        struct sim_region *region =
            a->region ? a->region : sim_memory_find(v->w->run->gpu, address);
        if (!region || region->read_only)
            continue;
        const uint64_t offset = address - region->base;
        if (a->bytes < 4) {
            if (part_usual(v, region, offset, lane))
                continue;
            const struct sim_race_cell c = cell_of(v, lane, a->bytes, offset & 3);
            if (global_word(v, region, offset / 4, &c))
                return 1;
            continue;
        }
        for (uint64_t word = offset / 4; word < (offset + a->bytes) / 4; word++) {
            const struct cell_slot cell = {&region->cells[word], &region->pcs[word]};
            if (SIM_LIKELY(global_usual_slot(v, region, cell, lane)))
                continue;
            const struct sim_race_cell c = cell_of(v, lane, 4, 0);
            if (global_word(v, region, word, &c))
                return 1;
        }
    }
    return 0;
}

static int global_access(const struct view *v) {
    const struct sim_access *a = v->a;
    struct sim_region *region = a->region;
    struct row row;
    if (!region || region->read_only || (v->writes && region->any_after) || !rows_of(v, &row))
        return global_lanes(v, a->mask);
    for (row.lane = 0; row.lane < SIM_LANES; row.lane += a->group) {
        const uint64_t word = (a->address[row.lane] - region->base) / 4;
        if (a->stride ? global_row(v, region, word, row)
                      : !global_uniform(v, region, word, row.lane + a->group - 1) &&
                            global_lanes(v, lanes_of_group(a, row.lane)))
            return 1;
    }
    return 0;
}

int sim_races_global(struct view *v, const struct sim_race_cell *cell) {
    v->mine = pack_global(cell, v->launch);
    return global_access(v);
}
