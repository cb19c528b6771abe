/* sim_races_global.c: the cells of global memory: each word has one, of its last write or of its
 * readers, and one in a page of its own for reads after a write.
 */
#include "sim_races_cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- packed cells: a change of the fields requires a change of the fast paths ---- */

/* Global: bytes 4, unit 2, write, atomic or warps, many, blocks, lane 5, warp 5, time 12, block 24,
 * launch 8. A cell of another launch is empty. A write has its sameness in place of many and
 * blocks. The instruction is kept beside the cells. */
#define G_BYTES 0xfull
#define G_UNIT (3ull << 4)
#define G_WRITE (1ull << 6)
#define G_WARPS (1ull << 7)
#define G_MANY (1ull << 8)
#define G_BLOCKS (1ull << 9)
#define G_SAME (G_MANY | G_BLOCKS)
#define G_FLAGS (G_WARPS | G_SAME)
#define G_LANE (31ull << 10)
#define G_WARP (31ull << 15)
#define G_TIME (0xfffull << 20)
#define G_BLOCK (0xffffffull << 32)
#define G_LAUNCH (0xffull << 56)
#define G_THREAD (G_LAUNCH | G_BLOCK | G_WARP | G_LANE | G_UNIT | G_BYTES)

static uint64_t pack_global(const struct sim_race_cell *c, uint32_t launch) {
    const int warps = c->write ? c->atomic : c->warps;
    const int many = c->write ? c->same >= SAME_BLOCK : c->many,
              blocks = c->write ? c->same >= SAME_GRID : c->blocks;
    return (uint64_t)c->bytes | (uint64_t)c->unit << 4 | (c->write ? G_WRITE : 0) |
           (warps ? G_WARPS : 0) | (many ? G_MANY : 0) | (blocks ? G_BLOCKS : 0) |
           (uint64_t)c->lane << 10 | (uint64_t)c->warp << 15 | (uint64_t)c->time << 20 |
           (uint64_t)(c->block & 0xffffff) << 32 | (uint64_t)launch << 56;
}

static struct sim_race_cell unpack_global(uint64_t u, uint32_t pc) {
    const int write = (u & G_WRITE) != 0, warps = (u & G_WARPS) != 0, many = (u & G_MANY) != 0,
              blocks = (u & G_BLOCKS) != 0;
    return (struct sim_race_cell){.bytes = u & 15,
                                  .unit = u >> 4 & 3,
                                  .write = write,
                                  .atomic = write && warps,
                                  .warps = !write && warps,
                                  .many = !write && many,
                                  .blocks = !write && blocks,
                                  .same = write ? (uint32_t)many + (uint32_t)blocks : 0,
                                  .lane = u >> 10 & 31,
                                  .warp = u >> 15 & 31,
                                  .time = u >> 20 & 0xfff,
                                  .block = u >> 32 & 0xffffff,
                                  .pc = pc};
}

/* ---- global memory ---- */

static int global_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                          uint32_t lane) {
    const struct sim_race_block *r = v->r;
    const uint32_t x = v->warp->index;
    const struct sim_run *run = v->w->run;
    const int same_block = c->block == (v->warp->block->linear & 0xffffff);
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
    if (joins(c, now)) {
        now->bytes |= c->bytes;
        return;
    }
    if (!(c->bytes & now->bytes))
        return; /* other bytes of the word: keep the later reader */
    const uint32_t known = v->r->known[now->warp][c->warp];
    const int same_thread = c->warp == now->warp && c->lane == now->lane && !c->many;
    if (c->block == now->block && !c->blocks && !c->warps && (same_thread || c->time < known))
        return;
    now->many |= c->many || c->block != now->block || c->warp != now->warp || c->lane != now->lane;
    now->warps = c->warps || c->block != now->block || c->warp != now->warp;
    now->blocks = c->blocks || c->block != now->block;
    now->bytes &= c->bytes;
}

/* The cells of a word: of its last write or readers, or of reads after a write (NULL: no room). */
struct slot {
    uint64_t *cell;
    uint16_t *pc;
};

static uint64_t get(struct slot s) { return __atomic_load_n(s.cell, __ATOMIC_RELAXED); }

/* Blocks on other host threads may change a cell meanwhile: one of the two remains, as if they came
 * one after the other. */
static void put(struct slot s, uint64_t cell, uint16_t pc) {
    __atomic_store_n(s.cell, cell, __ATOMIC_RELAXED);
    __atomic_store_n(s.pc, pc, __ATOMIC_RELAXED);
}

/* make: allocates the page if it is missing. */
static struct slot reads_after(const struct view *v, struct sim_region *region, uint64_t word,
                               int make) {
    struct sim_gpu *gpu = v->w->run->gpu;
    struct sim_cells **at = &region->after[word / SIM_CELLS_A_PAGE],
                     *page = __atomic_load_n(at, __ATOMIC_ACQUIRE), *none = NULL;
    const uint64_t in_page = word % SIM_CELLS_A_PAGE, bytes = sizeof *page;
    if (!page && make) {
        if (__atomic_add_fetch(&gpu->after_bytes, bytes, __ATOMIC_RELAXED) >
                gpu->used_bytes / 4 * 3 + SIM_AFTER_ALWAYS ||
            !(page = calloc(1, bytes))) {
            __atomic_sub_fetch(&gpu->after_bytes, bytes, __ATOMIC_RELAXED);
            return (struct slot){NULL, NULL};
        }
        if (!__atomic_compare_exchange_n(at, &none, page, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            free(page);
            __atomic_sub_fetch(&gpu->after_bytes, bytes, __ATOMIC_RELAXED);
            page = none;
        }
    }
    if (make)
        __atomic_store_n(&region->any_after, 1, __ATOMIC_RELAXED);
    return page ? (struct slot){page->cells + in_page, page->pcs + in_page}
                : (struct slot){NULL, NULL};
}

static int global_word(const struct view *v, struct sim_region *region, uint64_t word,
                       struct sim_race_cell mine) {
    const struct slot cell = {&region->cells[word], &region->pcs[word]};
    struct slot after = reads_after(v, region, word, 0);
    const uint64_t old = get(cell);
    uint64_t read = after.cell ? get(after) : 0;
    if (read >> 56 != v->launch)
        read = 0;
    const struct sim_race_cell reads = unpack_global(read, read ? *after.pc : 0);
    int hidden = 0; /* an atomic must not hide a plain write that others do not follow yet */
    if (old >> 56 == v->launch) {
        const struct sim_race_cell c = unpack_global(old, *cell.pc);
        hidden = v->atomic && c.write && !c.atomic;
        const int joined = joins(&c, &mine);
        if ((v->writes || c.write) && !joined && sim_race_conflicts(v, &c, &mine, global_ordered))
            return 1;
        if (v->writes && joined)
            mine.bytes |= c.bytes;
        if (v->writes && !c.write && (c.bytes & ~mine.bytes)) { /* reads of other bytes remain */
            after = reads_after(v, region, word, 1);
            if (after.cell)
                put(after, old, *cell.pc);
        } else if (v->writes && read) {
            if (sim_race_conflicts(v, &reads, &mine, global_ordered))
                return 1;
            put(after, 0, 0);
        } else if (!v->writes && !v->atomic && c.write) {
            /* a read by the writer at the time of its write adds nothing */
            if (!((old ^ pack_global(&mine, v->launch)) & (G_THREAD | G_TIME)) && !c.atomic)
                return 0;
            if (read)
                join_readers(v, &reads, &mine);
            after = reads_after(v, region, word, 1);
            if (after.cell)
                put(after, pack_global(&mine, v->launch), v->pc);
            return 0;
        } else if (!v->writes && !v->atomic) {
            join_readers(v, &c, &mine);
        }
    }
    if ((v->writes && !hidden) || !v->atomic)
        put(cell, pack_global(&mine, v->launch), v->pc);
    return 0;
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
#define GLOBAL_ROW(name, target, writes)                                                       \
    static target uint32_t name(uint64_t *restrict cells, uint16_t *restrict pcs, uint16_t pc, \
                                struct row row, uint64_t alone) {                              \
        uint64_t bad[SIM_LANES], any = 0, first = row.mine + ((uint64_t)row.lane << 10);       \
        uint64_t kept[SIM_LANES], some = 0, every = ~0ull;                                     \
        for (uint32_t i = 0; i < row.words; i++)                                               \
            any |= WHEN(!((cells[i] ^ first) & G_LAUNCH));                                     \
        if (!any) {                                                                            \
            for (uint32_t i = 0; i < row.words; i++)                                           \
                cells[i] = first + ((uint64_t)(i << row.up >> row.down) << 10);                \
            for (uint32_t i = 0; i < row.words; i++)                                           \
                pcs[i] = pc;                                                                   \
            return 0;                                                                          \
        }                                                                                      \
        any = 0;                                                                               \
        for (uint32_t i = 0; i < row.words; i++) {                                             \
            const uint64_t old = cells[i],                                                     \
                           mine = first + ((uint64_t)(i << row.up >> row.down) << 10),         \
                           made = global_usual(old, mine, writes, alone, &bad[i]);             \
            kept[i] = bad[i] | WHEN(made == old);                                              \
            cells[i] = (old & kept[i]) | (made & ~kept[i]);                                    \
            any |= bad[i];                                                                     \
            some |= kept[i];                                                                   \
            every &= kept[i];                                                                  \
        }                                                                                      \
        for (uint32_t i = 0; !some && i < row.words; i++)                                      \
            pcs[i] = pc;                                                                       \
        for (uint32_t i = 0; some && !every && i < row.words; i++)                             \
            pcs[i] = kept[i] ? pcs[i] : pc;                                                    \
        uint32_t left = 0;                                                                     \
        for (uint32_t i = 0; any && i < row.words; i++)                                        \
            left |= (uint32_t)(bad[i] != 0) << i;                                              \
        return left;                                                                           \
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

static int global_row(const struct view *v, struct sim_region *region, uint64_t word,
                      struct row row) {
    const int wide = v->w->run->wide;
    const uint32_t words = row.words, first = row.lane;
    for (uint32_t at = 0; at < words; at += SIM_LANES, word += SIM_LANES) {
        row.words = words - at < SIM_LANES ? words - at : SIM_LANES;
        row.lane = first + (at >> row.down);
        uint32_t left = (v->writes ? (wide ? global_write_wide : global_write_plain)
                                   : (wide ? global_read_wide : global_read_plain))(
            region->cells + word, region->pcs + word, v->pc, row, v->alone);
        for (; left; left &= left - 1) {
            const uint32_t i = (uint32_t)__builtin_ctz(left);
            if (global_word(v, region, word + i, cell_in(v, &row, i)))
                return 1;
        }
    }
    return 0;
}

/* Lanes up to this one read the same words. Returns 1 when done. */
static int global_uniform(const struct view *v, struct sim_region *region, uint64_t word,
                          uint32_t last_lane) {
    for (uint64_t end = word + v->a->bytes / 4; word < end; word++) {
        const struct slot cell = {&region->cells[word], &region->pcs[word]};
        uint64_t bad, old = get(cell), made;
        made = global_usual(old, v->mine | (uint64_t)last_lane << 10 | G_MANY, 0, v->alone, &bad);
        if (bad || (made & G_WRITE))
            return 0;
        if (made != old)
            put(cell, made, v->pc);
    }
    return 1;
}

/* The common case of an access to a part of a word, which no other thread accesses or writes.
 * Returns 0 if it is another. */
static int part_usual(const struct view *v, struct sim_region *region, uint64_t offset,
                      uint32_t lane) {
    const uint32_t bytes = v->a->bytes, at = offset & 3;
    uint64_t *cell = &region->cells[offset / 4], old = __atomic_load_n(cell, __ATOMIC_RELAXED);
    uint64_t mine = (v->mine & ~G_BYTES) | (uint64_t)((1u << bytes) - 1) << at |
                    (uint64_t)bytes << 4 | (uint64_t)((lane - at / bytes) % SIM_LANES) << 10;
    if (v->atomic || (v->writes && region->any_after))
        return 0;
    if (!((old ^ mine) & G_LAUNCH)) { /* else this launch's first access */
        if (!((old ^ mine) & ~G_BYTES) && !(old & G_FLAGS))
            mine |= old & G_BYTES; /* the same access, to other bytes */
        else if (v->writes || (old & G_WRITE) || (old & mine & G_BYTES))
            return 0;
    }
    __atomic_store_n(cell, mine, __ATOMIC_RELAXED);
    return 1;
}

static int global_lanes(const struct view *v, uint32_t mask) {
    const struct sim_access *a = v->a;
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint64_t address = a->address[lane];
        struct sim_region *region =
            a->region ? a->region : sim_memory_find(v->w->run->gpu, address);
        if (!region || region->read_only)
            continue;
        const uint64_t offset = address - region->base;
        if (a->bytes < 4) {
            if (!part_usual(v, region, offset, lane) &&
                global_word(v, region, offset / 4, cell_of(v, lane, a->bytes, offset & 3)))
                return 1;
            continue;
        }
        for (uint64_t word = offset / 4; word < (offset + a->bytes) / 4; word++) {
            const struct slot cell = {&region->cells[word], &region->pcs[word]};
            uint64_t bad = 1;
            if (!(v->writes && region->any_after)) {
                const uint64_t old = get(cell), mine = v->mine + ((uint64_t)lane << 10);
                if ((old ^ mine) & G_LAUNCH ||
                    (v->atomic && (old & (G_WRITE | G_WARPS)) == (G_WRITE | G_WARPS))) {
                    /* this launch's first access, or atomics only */
                    if (v->writes || !v->atomic)
                        put(cell, mine, v->pc);
                    continue;
                }
                const uint64_t made = global_usual(old, mine, v->writes, v->alone, &bad);
                if (SIM_LIKELY(!bad && !v->atomic)) {
                    if (made != old)
                        put(cell, made, v->pc);
                    continue;
                }
            }
            if (global_word(v, region, word, cell_of(v, lane, 4, 0)))
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
