/* sim_races_shared.c: the cells of shared memory: each word has one for its last writer and one for
 * its readers.
 */
#include "sim_races_cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- packed cells: a change of the fields requires a change of the fast paths ---- */

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

/* ---- shared memory ---- */

static int shared_ordered(const struct view *v, const struct sim_race_cell *c, uint32_t owner,
                          uint32_t lane) {
    const uint32_t x = v->warp->index;
    return c->warp != x ? c->time < v->r->known[x][c->warp]
           : c->warps
               ? sim_race_readers_ordered(v, c, owner, lane)
               : (c->write && !v->writes && c->time < v->r->together[x]) ||
                     sim_race_ordered_in_warp(v->r, x, c, owner, lane) ||
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
    int hidden = 0; /* an atomic must not hide a plain write that others do not follow yet */
    if (*writer) {
        struct sim_race_cell c = unpack_shared(*writer, 1);
        hidden = v->atomic && !c.atomic && *writer >= v->before;
        if (!is_flag(v, &c) && sim_race_conflicts(v, &c, mine, shared_ordered))
            return 1;
        if (v->writes && joins(&c, mine))
            now.bytes |= c.bytes;
    }
    if (v->writes) {
        if (*reader) {
            struct sim_race_cell c = unpack_shared(*reader, 0);
            if (!is_flag(v, &c) && sim_race_conflicts(v, &c, mine, shared_ordered))
                return 1;
        }
        if (!hidden)
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

int sim_races_shared(struct view *v, const struct sim_race_cell *cell) {
    const uint32_t x = v->warp->index;
    v->mine = pack_shared(cell);
    v->before = (uint64_t)v->r->floor[x] << S_TIME_SHIFT;
    v->own = (uint64_t)v->r->known[x][x] << S_TIME_SHIFT;
    return shared_access(v);
}
