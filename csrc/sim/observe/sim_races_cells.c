/* sim_races_cells.c: records who accessed each word of memory last, and tests every access against
 * that record.
 *
 * A word of global memory has one cell: its last writer or, until a write, its readers. A write
 * that is ordered after all reads replaces them: an access that races with them also races with the
 * write. Reads after a write go to separate pages, allocated when needed; a bound keeps all shadow
 * memory below four times the allocations, and reads beyond it go unnoticed. A word of shared
 * memory has one cell for its writer and one for its readers.
 *
 * A cell keeps the first or last of several readers, and that there are others. It distinguishes
 * bytes and halves that neighbouring lanes access; if threads share a word otherwise, it keeps the
 * later one. So it can miss races, and never invents one.
 *
 * Two stores of one value are no race where they are equal by construction (`done = 1`), or where
 * lanes of one warp make them at one source line: overlapping copies. Equal data of several warps
 * are no excuse, nor is any store against another thread's read.
 */
#include "sim_races.h"

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

/* How many threads store a write's value by construction. */
enum { SAME_BLOCK = 1, SAME_GRID = 2 };

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

/* Shared: bytes 4, unit 2, atomic or warps, many, lane 5, warp 5, pc 16, time 30. 0 is empty: times
 * begin at 1. A cell compares below every cell of a later time. */
#define S_BYTES 0xfull
#define S_UNIT (3ull << 4)
#define S_WARPS (1ull << 6)
#define S_MANY (1ull << 7)
#define S_FLAGS (S_WARPS | S_MANY)
#define S_LANE (31ull << 8)
#define S_WARP (31ull << 13)
#define S_TIME_SHIFT 34

static uint64_t pack_shared(const struct sim_race_cell *c) {
    const int warps = c->write ? c->atomic : c->warps, many = c->write ? c->same > 0 : c->many;
    return (uint64_t)c->bytes | (uint64_t)c->unit << 4 | (warps ? S_WARPS : 0) |
           (many ? S_MANY : 0) | (uint64_t)c->lane << 8 | (uint64_t)c->warp << 13 |
           (uint64_t)(c->pc < 0xffff ? c->pc : 0xffff) << 18 | (uint64_t)c->time << S_TIME_SHIFT;
}

static struct sim_race_cell unpack_shared(uint64_t u, int write) {
    const int warps = (u & S_WARPS) != 0;
    return (struct sim_race_cell){.bytes = u & 15,
                                  .unit = u >> 4 & 3,
                                  .write = write,
                                  .atomic = write && warps,
                                  .warps = !write && warps,
                                  .many = !write && (u & S_MANY),
                                  .same = write && (u & S_MANY),
                                  .lane = u >> 8 & 31,
                                  .warp = u >> 13 & 31,
                                  .pc = u >> 18 & 0xffff,
                                  .time = (uint32_t)(u >> S_TIME_SHIFT)};
}

/* ---- the current access ---- */

struct view {
    struct sim_worker *w;
    struct sim_warp *warp;
    const struct sim_access *a;
    struct sim_race_block *r;
    int atomic, writes;
    uint16_t pc;
    uint32_t same;        /* of a store: see struct sim_race_cell */
    uint64_t alone;       /* all ones: blocks of this kernel cannot synchronize */
    uint32_t launch;      /* tag of global cells */
    uint64_t mine;        /* packed cell of this access by lane 0, of a whole word */
    uint64_t before, own; /* shared: cells below are ordered before all; own warp's cells */
};

static int stored_there(const struct view *v, uint32_t lane, const uint8_t *mine) {
    const struct sim_access *a = v->a;
    const uint8_t *there = a->space == SIM_S_SHARED ? v->warp->block->shared + a->address[lane]
                           : a->region ? a->region->host + (a->address[lane] - a->region->base)
                                       : NULL;
    return there && memcmp(there, mine, a->bytes) == 0;
}

/* Copies of one store in an unrolled loop. */
static int same_line(const struct sim_kernel *k, uint32_t pc, uint32_t other) {
    return other < 0xffff && k->where[pc].line && k->where[pc].line == k->where[other].line &&
           k->where[pc].file == k->where[other].file;
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
              here = a->space == SIM_S_SHARED || c->block == (warp->block->linear & 0xffffff);
    const uint32_t wanted = here ? SAME_BLOCK : SAME_GRID;
    if (here && c->write && !c->atomic && c->warp == warp->index) {
        if (owner != lane && a->mask >> owner & 1 && a->address[owner] == a->address[lane] &&
            memcmp(a->value + (size_t)owner * a->bytes, mine, a->bytes) == 0)
            return 1;
        if (same_line(v->w->run->kernel, a->pc, c->pc) && stored_there(v, lane, mine))
            return 1;
    }
    if (!by_value && (!c->write || c->atomic || c->same < wanted || v->same < wanted))
        return 0;
    return stored_there(v, lane, mine);
}

/* Compares another cell's bytes with this access's: one finding for each pair of lanes. ordered(v,
 * c, owner, lane): the owner's access is ordered before the lane's. Returns 1 when the launch ends.
 */
typedef int (*ordered_fn)(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                          uint32_t lane);

static int conflicts(const struct view *v, const struct sim_race_cell *c,
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

/* The same access, to other bytes of the word. */
static int joins(const struct sim_race_cell *c, const struct sim_race_cell *mine) {
    return c->write == mine->write && c->atomic == mine->atomic && c->unit == mine->unit &&
           c->lane == mine->lane && c->warp == mine->warp && c->block == mine->block &&
           c->time == mine->time && !c->many && !c->warps && !c->blocks && mine->unit;
}

/* ---- several readers ---- */

/* Several warps read a word, one of this warp's lanes last. A barrier of all warps orders them
 * together. If only some warps met, the cell does not say which of them read: the reader that is
 * kept stands for all. */
static int readers_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
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

/* ---- shared memory ---- */

static int shared_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                          uint32_t lane) {
    const uint32_t x = v->warp->index;
    return c->warp != x ? c->time < v->r->known[x][c->warp]
           : c->warps
               ? readers_ordered(v, c, owner, lane)
               : sim_race_ordered_in_warp(v->r, x, c, owner, lane) ||
                     (v->r->stepping[x] && sim_race_volatile(v->w->run, v->a, c) &&
                      sim_race_ordered_by(v->r->stepped[x], v->r->step_lanes[x], c, owner, lane));
}

int sim_races_follows(const struct sim_warp *warp, uint32_t lane, uint32_t word) {
    const struct sim_race_block *r = warp->block->races;
    const struct sim_race_cell c = unpack_shared(r->writers[word], 1);
    return !r->writers[word] ||
           (c.warp == warp->index ? sim_race_ordered_in_warp(r, c.warp, &c, c.lane, lane)
                                  : c.time < r->known[warp->index][c.warp]);
}

/* A volatile word of shared memory that warps share, through which its writer has released with a
 * fence. Lanes of one warp share such words in code that relied on lockstep execution. */
static int is_flag(const struct view *v, const struct sim_race_cell *c) {
    const uint32_t x = v->warp->index;
    return v->a->in->order == SIM_ORDER_VOLATILE && c->warp != x &&
           v->r->fenced[c->write ? c->warp : x] && c->pc < 0xffff &&
           v->w->run->kernel->code[c->pc].order == SIM_ORDER_VOLATILE;
}

static int shared_word(const struct view *v, uint64_t word, const struct sim_race_cell *mine) {
    struct sim_race_block *r = v->r;
    uint64_t *writer = &r->writers[word], *reader = &r->readers[word];
    const uint32_t x = v->warp->index;
    struct sim_race_cell now = *mine;
    if (*writer) {
        struct sim_race_cell c = unpack_shared(*writer, 1);
        if (!is_flag(v, &c) && conflicts(v, &c, mine, shared_ordered))
            return 1;
        if (v->writes && joins(&c, mine))
            now.bytes |= c.bytes;
    }
    if (v->writes) {
        if (*reader) {
            struct sim_race_cell c = unpack_shared(*reader, 0);
            if (!is_flag(v, &c) && conflicts(v, &c, mine, shared_ordered))
                return 1;
        }
        *writer = pack_shared(&now);
        return 0;
    }
    if (v->atomic)
        return 0;
    if (*reader) {
        struct sim_race_cell c = unpack_shared(*reader, 0);
        const int ordered = c.warp == x ? c.time < r->known[x][x] : c.time < r->known[x][c.warp];
        if (!ordered && joins(&c, mine)) {
            now.bytes |= c.bytes;
        } else if (!ordered && (c.bytes & mine->bytes)) { /* these bytes have several readers */
            now.many |= c.many || c.warp != x || c.lane != mine->lane;
            now.warps = c.warps || c.warp != x;
            now.bytes &= c.bytes;
        }
    }
    *reader = pack_shared(&now);
    return 0;
}

/* All ones or zero, as a vector comparison gives. */
#define WHEN(condition) ((condition) ? ~0ull : 0ull)

/* The common case: words last accessed before an ordering event, or only by this thread. A read
 * also joins other readers. mine: a cell of all four bytes. Returns the word's new cell; *bad: all
 * ones if the case is not common. */
static inline uint64_t shared_usual(uint64_t writer, uint64_t reader, uint64_t mine, int writes,
                                    uint64_t before, uint64_t own, uint64_t *bad) {
    const uint64_t w = writer ^ mine, r = reader ^ mine, who = S_WARP | S_LANE | S_UNIT;
    const uint64_t early_w = WHEN((int64_t)writer < (int64_t)before) |
                             (WHEN((int64_t)writer < (int64_t)own) & WHEN(!(w & S_WARP))),
                   early_r = WHEN((int64_t)reader < (int64_t)before) |
                             (WHEN((int64_t)reader < (int64_t)own) & WHEN(!(r & S_WARP))),
                   ok_w = early_w | WHEN(!((w & who) | (writer & S_WARPS)));
    if (writes) {
        *bad = ~(ok_w & (early_r | WHEN(!((r & who) | (reader & S_FLAGS)))));
        return mine;
    }
    *bad = ~(ok_w & (early_r | WHEN((reader & (S_BYTES | S_UNIT)) == S_BYTES)));
    const uint64_t flags =
        (reader & S_FLAGS) | (S_FLAGS & WHEN(r & S_WARP)) | (S_MANY & WHEN(r & S_LANE));
    return mine | (flags & ~early_r);
}

/* Consecutive words that lanes access: the lane of word i is lane + (i << up >> down). */
struct row {
    uint64_t mine; /* the cell of lane 0 */
    uint32_t words, lane, up, down;
};

/* Returns the words that need the full test, one bit each. */
#define SHARED_ROW(name, target, writes)                                                           \
    static target uint32_t name(uint64_t *restrict writers, uint64_t *restrict readers,            \
                                struct row row, uint64_t before, uint64_t own) {                   \
        uint64_t bad[SIM_LANES], any = 0, *mark = (writes) ? writers : readers;                    \
        for (uint32_t i = 0; i < row.words; i++) {                                                 \
            const uint64_t mine =                                                                  \
                               row.mine + ((uint64_t)(row.lane + (i << row.up >> row.down)) << 8), \
                           made = shared_usual(writers[i], readers[i], mine, writes, before, own,  \
                                               &bad[i]);                                           \
            mark[i] = (mark[i] & bad[i]) | (made & ~bad[i]);                                       \
            any |= bad[i];                                                                         \
        }                                                                                          \
        uint32_t left = 0;                                                                         \
        for (uint32_t i = 0; any && i < row.words; i++)                                            \
            left |= (uint32_t)(bad[i] != 0) << i;                                                  \
        return left;                                                                               \
    }
SHARED_ROW(shared_read_plain, , 0)
SHARED_ROW(shared_write_plain, , 1)
#if defined(__x86_64__)
SHARED_ROW(shared_read_wide, __attribute__((target("avx2"))), 0)
SHARED_ROW(shared_write_wide, __attribute__((target("avx2"))), 1)
#else
#define shared_read_wide shared_read_plain
#define shared_write_wide shared_write_plain
#endif

/* ---- one cell for each access of a lane to a word ---- */

/* How a full warp's lanes divide into rows of consecutive words: one for each group of lanes. Sets
 * the row's shape; returns 0 if they do not, or access parts of one row's words twice. */
static int rows_of(const struct view *v, struct row *row) {
    const struct sim_access *a = v->a;
    const uint32_t bytes = a->bytes;
    if (a->mask != SIM_FULL || a->group < 4 || v->atomic || bytes > 16 ||
        (a->stride != (int64_t)bytes && (a->stride || v->writes || bytes < 4)))
        return 0;
    row->mine = v->mine;
    row->up = bytes == 1 ? 2 : bytes == 2 ? 1 : 0;
    row->down = bytes == 8 ? 1 : bytes == 16 ? 2 : 0;
    row->words = a->group * bytes / 4;
    if (bytes >= 4)
        return 1;
    row->mine |= (uint64_t)bytes << 4; /* the cells' unit */
    return row->words && !((a->least | (uint64_t)a->step) & 3);
}

/* A lane's access to a whole word. */
static struct sim_race_cell whole_cell(const struct view *v, uint32_t lane) {
    const uint32_t x = v->warp->index, time = v->r->now[x];
    const int shared = v->a->space == SIM_S_SHARED;
    return (struct sim_race_cell){
        .block = shared ? 0 : (uint32_t)(v->warp->block->linear & 0xffffff),
        .warp = x,
        .lane = lane,
        .time = !shared && time > SIM_GLOBAL_TIME_MOST ? SIM_GLOBAL_TIME_MOST : time,
        .pc = v->a->pc,
        .bytes = 15,
        .write = v->writes,
        .atomic = v->atomic && v->writes,
        .same = v->same};
}

/* bytes: size of the access; at: its offset in the word. */
static struct sim_race_cell cell_of(const struct view *v, uint32_t lane, uint32_t bytes,
                                    uint32_t at) {
    struct sim_race_cell c = whole_cell(v, lane);
    if (bytes < 4) {
        c.bytes = ((1u << bytes) - 1) << at;
        c.unit = bytes;
        c.lane =
            (lane - at / bytes) % SIM_LANES; /* the lane that would own the word's first byte */
    }
    return c;
}

/* The cell of a row's word. */
static struct sim_race_cell cell_in(const struct view *v, const struct row *row, uint32_t i) {
    struct sim_race_cell c = whole_cell(v, row->lane + (i << row->up >> row->down));
    c.unit = v->a->bytes < 4 ? v->a->bytes : 0;
    return c;
}

static int shared_row(const struct view *v, uint64_t word, struct row row) {
    struct sim_race_block *r = v->r;
    const int wide = v->w->run->wide;
    const uint32_t words = row.words, first = row.lane;
    for (uint32_t at = 0; at < words; at += SIM_LANES, word += SIM_LANES) {
        row.words = words - at < SIM_LANES ? words - at : SIM_LANES;
        row.lane = first + (at >> row.down);
        uint32_t left = (v->writes ? (wide ? shared_write_wide : shared_write_plain)
                                   : (wide ? shared_read_wide : shared_read_plain))(
            r->writers + word, r->readers + word, row, v->before, v->own);
        for (; left; left &= left - 1) {
            const uint32_t i = (uint32_t)__builtin_ctz(left);
            const struct sim_race_cell c = cell_in(v, &row, i);
            if (shared_word(v, word + i, &c))
                return 1;
        }
    }
    return 0;
}

/* Lanes read the same words: one test, if there is no recent writer. Returns 0 if there is. */
static int shared_uniform(const struct view *v, uint64_t word, uint32_t last_lane) {
    struct sim_race_block *r = v->r;
    for (uint64_t end = word + v->a->bytes / 4; word < end; word++) {
        const uint64_t w = r->writers[word];
        uint64_t bad, made = shared_usual(0, r->readers[word], v->mine | (uint64_t)last_lane << 8,
                                          0, v->before, v->own, &bad);
        if (bad || !(w < v->before || (w < v->own && !((w ^ v->mine) & S_WARP))))
            return 0;
        r->readers[word] = made | S_MANY;
    }
    return 1;
}

static int shared_lanes(const struct view *v, uint32_t mask) {
    const struct sim_access *a = v->a;
    struct sim_race_block *r = v->r;
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint64_t address = a->address[lane];
        if (a->bytes < 4) {
            const struct sim_race_cell c = cell_of(v, lane, a->bytes, address & 3);
            if (shared_word(v, address / 4, &c))
                return 1;
            continue;
        }
        for (uint64_t word = address / 4; word < (address + a->bytes) / 4; word++) {
            uint64_t bad = 1, *mark = v->writes ? &r->writers[word] : &r->readers[word];
            const uint64_t writer = r->writers[word];
            if (r->readers[word] < v->before &&
                (writer < v->before || (v->atomic && writer & S_WARPS))) {
                /* not accessed since a barrier, or by atomics only */
                if (v->writes || !v->atomic)
                    *mark = v->mine + ((uint64_t)lane << 8);
                continue;
            }
            uint64_t made = v->atomic ? 0
                                      : shared_usual(r->writers[word], r->readers[word],
                                                     v->mine + ((uint64_t)lane << 8), v->writes,
                                                     v->before, v->own, &bad);
            if (SIM_LIKELY(!bad)) {
                *mark = made;
                continue;
            }
            const struct sim_race_cell c = cell_of(v, lane, 4, 0);
            if (shared_word(v, word, &c))
                return 1;
        }
    }
    return 0;
}

static uint32_t lanes_of_group(const struct sim_access *a, uint32_t lane) {
    return (uint32_t)((1ull << a->group) - 1) << lane;
}

static int shared_access(const struct view *v) {
    const struct sim_access *a = v->a;
    struct row row;
    if (!rows_of(v, &row))
        return shared_lanes(v, a->mask);
    for (row.lane = 0; row.lane < SIM_LANES; row.lane += a->group) {
        const uint64_t word = a->address[row.lane] / 4;
        if (a->stride ? shared_row(v, word, row)
                      : !shared_uniform(v, word, row.lane + a->group - 1) &&
                            shared_lanes(v, lanes_of_group(a, row.lane)))
            return 1;
    }
    return 0;
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
        return readers_ordered(v, c, owner, lane);
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
    if (old >> 56 == v->launch) {
        const struct sim_race_cell c = unpack_global(old, *cell.pc);
        const int joined = joins(&c, &mine);
        if ((v->writes || c.write) && !joined && conflicts(v, &c, &mine, global_ordered))
            return 1;
        if (v->writes && joined)
            mine.bytes |= c.bytes;
        if (v->writes && !c.write && (c.bytes & ~mine.bytes)) { /* reads of other bytes remain */
            after = reads_after(v, region, word, 1);
            if (after.cell)
                put(after, old, *cell.pc);
        } else if (v->writes && read) {
            if (conflicts(v, &reads, &mine, global_ordered))
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
    if (v->writes || !v->atomic)
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
    if (shared) {
        v.mine = pack_shared(&cell);
        v.before = (uint64_t)v.r->floor[x] << S_TIME_SHIFT;
        v.own = (uint64_t)v.r->known[x][x] << S_TIME_SHIFT;
        const int ends = shared_access(&v);
        if (steps)
            sim_races_step(run, warp);
        return ends;
    }
    v.mine = pack_global(&cell, v.launch);
    return global_access(&v);
}
