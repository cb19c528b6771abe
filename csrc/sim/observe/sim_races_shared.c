/* sim_races_shared.c: the cells of shared memory: each word has one for its last writer and one for
 * its readers. Threads that access different bytes of a word give each byte such cells.
 */
#include "sim_races_cells.h"

#include <stdlib.h>
#include <string.h>

/* ---- packed cells: a change of the fields requires a change of the fast paths ---- */

/* Shared: bytes 4, unit 3, atomic or warps, many, lane 5, warp 5, pc 16, time 29. 0 is empty: times
 * begin at 1. A cell compares below every cell of a later time. Unit 7: the word's bytes have cells
 * of their own, and this one only the latest time of theirs. */
#define S_BYTES 0xfull
#define S_UNIT (7ull << 4)
#define S_WARPS (1ull << 7)
#define S_MANY (1ull << 8)
#define S_FLAGS (S_WARPS | S_MANY)
#define S_LANE_SHIFT 9
#define S_LANE (31ull << S_LANE_SHIFT)
#define S_WARP (31ull << 14)
#define S_TIME_SHIFT 35

static uint64_t pack_shared(const struct sim_race_cell *c) {
    const int warps = c->write ? c->atomic : c->warps, many = c->write ? c->same > 0 : c->many;
    return (uint64_t)c->bytes | (uint64_t)c->unit << 4 | (warps ? S_WARPS : 0) |
           (many ? S_MANY : 0) | (uint64_t)c->lane << S_LANE_SHIFT | (uint64_t)c->warp << 14 |
           (uint64_t)(c->pc < 0xffff ? c->pc : 0xffff) << 19 | (uint64_t)c->time << S_TIME_SHIFT;
}

static struct sim_race_cell unpack_shared(uint64_t u, int write) {
    const int warps = (u & S_WARPS) != 0;
    return (struct sim_race_cell){.bytes = u & 15,
                                  .unit = u >> 4 & 7,
                                  .write = write,
                                  .atomic = write && warps,
                                  .warps = !write && warps,
                                  .many = !write && (u & S_MANY),
                                  .same = write && (u & S_MANY),
                                  .lane = u >> S_LANE_SHIFT & 31,
                                  .warp = u >> 14 & 31,
                                  .pc = u >> 19 & 0xffff,
                                  .time = (uint32_t)(u >> S_TIME_SHIFT)};
}

/* ---- shared memory ---- */

static int is_split(uint64_t cell) { return (cell & S_UNIT) == S_UNIT; }

/* The cells of a word's bytes, of their writers or their readers. */
static uint64_t *bytes_of(const struct sim_race_block *r, uint64_t word, int writers) {
    return r->bytes + word * 8 + (writers ? 0 : 4);
}

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
    const uint64_t *writer = &r->writers[word];
    const int several = is_split(*writer);
    for (uint32_t b = 0; b < (several ? 4 : 1); b++) {
        const uint64_t cell = several ? bytes_of(r, word, 1)[b] : *writer;
        const struct sim_race_cell c = unpack_shared(cell, 1);
        if (cell && !(c.warp == warp->index ? sim_race_ordered_in_warp(r, c.warp, &c, c.lane, lane)
                                            : c.time < r->known[warp->index][c.warp]))
            return 0;
    }
    return 1;
}

/* A volatile word of shared memory that warps share, through which its writer has released with a
 * fence. Lanes of one warp share such words in code that relied on lockstep execution. */
static int is_flag(const struct view *v, const struct sim_race_cell *c) {
    const uint32_t x = v->warp->index;
    return v->a->in->order == SIM_ORDER_VOLATILE && c->warp != x &&
           v->r->fenced[c->write ? c->warp : x] && c->pc < 0xffff &&
           v->w->run->kernel->code[c->pc].order == SIM_ORDER_VOLATILE;
}

/* Tests an access against a word's writer or readers. */
static int shared_conflicts(const struct view *v, uint64_t word, int writers,
                            const struct sim_race_cell *mine) {
    const uint64_t cell = writers ? v->r->writers[word] : v->r->readers[word];
    if (!cell)
        return 0;
    if (!is_split(cell)) {
        const struct sim_race_cell c = unpack_shared(cell, writers);
        return !is_flag(v, &c) && sim_race_conflicts(v, &c, mine, shared_ordered);
    }
    for (uint32_t m = mine->bytes; m; m &= m - 1) {
        const uint32_t b = (uint32_t)__builtin_ctz(m);
        const uint64_t byte = bytes_of(v->r, word, writers)[b];
        const struct sim_race_cell c = unpack_shared(byte, writers), one = byte_cell(mine, b);
        if (byte && !is_flag(v, &c) && sim_race_conflicts(v, &c, &one, shared_ordered))
            return 1;
    }
    return 0;
}

/* Records a read in a cell. */
static uint64_t joined_reader(const struct view *v, uint64_t cell,
                              const struct sim_race_cell *mine) {
    const uint32_t x = v->warp->index;
    struct sim_race_cell now = *mine;
    if (cell) {
        const struct sim_race_cell c = unpack_shared(cell, 0);
        if (c.time >= v->r->known[x][c.warp] && !join(&c, &now) && (c.bytes & now.bytes)) {
            now.many |= c.many || c.warp != x || c.lane != mine->lane;
            now.warps = c.warps || c.warp != x;
            now.bytes &= c.bytes;
        }
    }
    return pack_shared(&now);
}

/* Whether one cell cannot hold this access beside those of other bytes, and the bytes have their
 * own. */
static int shared_split(const struct view *v, uint64_t word, const struct sim_race_cell *mine) {
    struct sim_race_block *r = v->r;
    uint64_t *cell = v->writes ? &r->writers[word] : &r->readers[word], *bytes;
    struct sim_race_cell both = *mine;
    if (*cell < v->before)
        return 0;
    if (is_split(*cell))
        return 1;
    const struct sim_race_cell c = unpack_shared(*cell, v->writes);
    if ((v->writes ? !(c.bytes & ~mine->bytes) : c.bytes == mine->bytes && c.unit == mine->unit) ||
        join(&c, &both))
        return 0;
    if (!r->bytes) /* untouched pages cost nothing; without memory the later access remains */
        r->bytes = calloc(r->words * 8, sizeof *r->bytes);
    if (!r->bytes)
        return 0;
    bytes = bytes_of(r, word, v->writes);
    for (uint32_t b = 0; b < 4; b++) {
        const struct sim_race_cell one = byte_cell(&c, b);
        bytes[b] = c.bytes >> b & 1 ? pack_shared(&one) : 0;
    }
    *cell = (uint64_t)c.time << S_TIME_SHIFT | S_UNIT;
    return 1;
}

/* An atomic must not hide a plain write that others do not follow yet. */
static int hides(const struct view *v, uint64_t writer) {
    return v->atomic && writer >= v->before && !(writer & S_WARPS);
}

static int shared_word(const struct view *v, uint64_t word, const struct sim_race_cell *mine) {
    struct sim_race_block *r = v->r;
    uint64_t *cell = v->writes ? &r->writers[word] : &r->readers[word];
    const uint64_t writer = r->writers[word];
    const int hidden = hides(v, writer) && !is_split(writer);
    if (shared_conflicts(v, word, 1, mine) || (v->writes && shared_conflicts(v, word, 0, mine)))
        return 1;
    if (v->writes ? hidden : v->atomic)
        return 0;
    if (!(v->writes && mine->bytes == 15) && shared_split(v, word, mine)) {
        const uint64_t time = (uint64_t)mine->time << S_TIME_SHIFT | S_UNIT;
        uint64_t *bytes = bytes_of(r, word, v->writes);
        for (uint32_t m = mine->bytes; m; m &= m - 1) {
            const uint32_t b = (uint32_t)__builtin_ctz(m);
            const struct sim_race_cell one = byte_cell(mine, b);
            if (v->writes && hides(v, bytes[b]))
                continue;
            bytes[b] = v->writes ? pack_shared(&one) : joined_reader(v, bytes[b], &one);
        }
        *cell = time > *cell ? time : *cell;
    } else if (v->writes) {
        struct sim_race_cell now = *mine;
        const struct sim_race_cell c = unpack_shared(writer, 1);
        if (writer && !is_split(writer))
            join(&c, &now);
        *cell = pack_shared(&now);
    } else {
        *cell = joined_reader(v, is_split(*cell) ? 0 : *cell, mine);
    }
    return 0;
}

/* The common case: words last accessed before an ordering event, or only by this thread. A read
 * also joins other readers. mine: a cell of all four bytes. Returns the word's new cell; *bad: all
 * ones if the case is not common. */
static inline uint64_t shared_usual(uint64_t writer, uint64_t reader, uint64_t mine, int writes,
                                    uint64_t before, uint64_t own, uint64_t *bad) {
    const uint64_t w = writer ^ mine, r = reader ^ mine, who = S_WARP | S_LANE | S_UNIT;
    const uint64_t alike = S_WARP | S_UNIT, /* a split word's bytes may be of several warps */
        early_w = WHEN((int64_t)writer < (int64_t)before) |
                  (WHEN((int64_t)writer < (int64_t)own) & WHEN(!(w & alike))),
                   early_r = WHEN((int64_t)reader < (int64_t)before) |
                             (WHEN((int64_t)reader < (int64_t)own) & WHEN(!(r & alike))),
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
#define SHARED_ROW(name, target, writes)                                                          \
    static target uint32_t name(uint64_t *restrict writers, uint64_t *restrict readers,           \
                                struct row row, uint64_t before, uint64_t own) {                  \
        uint64_t bad[SIM_LANES], any = 0, *mark = (writes) ? writers : readers;                   \
        for (uint32_t i = 0; i < row.words; i++) {                                                \
            const uint64_t mine = row.mine + ((uint64_t)(row.lane + (i << row.up >> row.down))    \
                                              << S_LANE_SHIFT),                                   \
                           made = shared_usual(writers[i], readers[i], mine, writes, before, own, \
                                               &bad[i]);                                          \
            mark[i] = (mark[i] & bad[i]) | (made & ~bad[i]);                                      \
            any |= bad[i];                                                                        \
        }                                                                                         \
        uint32_t left = 0;                                                                        \
        for (uint32_t i = 0; any && i < row.words; i++)                                           \
            left |= (uint32_t)(bad[i] != 0) << i;                                                 \
        return left;                                                                              \
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
        uint64_t bad,
            made = shared_usual(0, r->readers[word], v->mine | (uint64_t)last_lane << S_LANE_SHIFT,
                                0, v->before, v->own, &bad);
        if (bad || !(w < v->before || (w < v->own && !((w ^ v->mine) & (S_WARP | S_UNIT)))))
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
                    *mark = v->mine + ((uint64_t)lane << S_LANE_SHIFT);
                continue;
            }
            uint64_t made = v->atomic ? 0
                                      : shared_usual(r->writers[word], r->readers[word],
                                                     v->mine + ((uint64_t)lane << S_LANE_SHIFT),
                                                     v->writes, v->before, v->own, &bad);
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
