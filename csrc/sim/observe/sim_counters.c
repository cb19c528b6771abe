/* sim_counters.c: the observer that counts. Per memory instruction: requests, sectors, wavefronts,
 * transactions, by Nsight Compute's definitions. sim_count_report.c adds them up. Changes nothing
 * that runs.
 */
#include "sim_observe.h"

#include <stdlib.h>
#include <string.h>

/* ---- the sectors that an access touches ---- */

#define BITS_IN_FOUR(x) (uint32_t)(0x4332322132212110ull >> (x)*4 & 15)

/* Either ranges without gaps, in order of their beginnings, or lines of four sectors, each once. */
struct touched {
    uint32_t ranges, lines;
    uint32_t all_sectors, all_lines, elements; /* each once; elements have the access's size */
    uint64_t first[SIM_LANES * 2], last[SIM_LANES * 2]; /* sectors of the ranges; lines */
    uint8_t sectors[SIM_LANES * 2];                     /* of a line, one bit each */
};

static inline void add_range(struct touched *t, uint64_t from, uint64_t bytes) {
    const uint32_t i = t->ranges++;
    const uint64_t first = t->first[i] = from / SIM_SECTOR,
                   last = t->last[i] = (from + bytes - 1) / SIM_SECTOR;
    t->all_sectors += (uint32_t)(last - first) + 1;
    t->all_lines += (uint32_t)(last / 4 - first / 4) + 1;
    if (!i) /* else it may share its first sector and line with the range before */
        return;
    const uint64_t before = t->last[i - 1];
    if (before >= first)
        t->all_sectors -= (uint32_t)((before < last ? before : last) - first) + 1;
    if (before / 4 >= first / 4)
        t->all_lines -= (uint32_t)((before < last ? before : last) / 4 - first / 4) + 1;
}

/* Groups of lanes that touch every sector from their first to their last. */
static void touched_ranges(const struct sim_access *a, struct touched *t) {
    const uint64_t bytes = a->bytes, reach = a->most - a->least + bytes;
    uint32_t groups = SIM_LANES / a->group;
    int64_t step = a->step;
    uint64_t span = (uint64_t)(a->stride < 0 ? -a->stride : a->stride) * (a->group - 1) + bytes;
    if (step < 0)
        step = -step;
    if (groups > 1 && (!step || (uint64_t)step <= span)) { /* one group adjoins the next */
        groups = 1;
        span = reach;
    }
    for (uint32_t g = 0; g < groups; g++)
        add_range(t, a->least + (uint64_t)step * g, span);
}

/* The elements of lanes with a regular distance; 0: they may overlap, or the distance varies. */
static uint32_t regular_elements(const struct sim_access *a) {
    if (sim_linear(a))
        return a->stride ? sim_lanes_in(a->mask) : 1;
    if (!a->group || a->mask != SIM_FULL)
        return a->bytes > SIM_SECTOR ? sim_lanes_in(a->mask) : 0; /* bulk copies */
    const int64_t step = a->step < 0 ? -a->step : a->step, bytes = a->bytes,
                  stride = a->stride < 0 ? -a->stride : a->stride;
    const uint32_t groups = step ? SIM_LANES / a->group : 1, each = stride ? a->group : 1;
    const int apart = step >= stride * (each - 1) + bytes || /* one group after the other */
                      stride >= step * (groups - 1) + bytes; /* or all between two lanes */
    return groups == 1 || each == 1 || apart ? groups * each : 0;
}

/* Counts a bit once. */
static inline uint32_t take(uint64_t *taken, uint64_t bit) {
    const uint32_t fresh = !(taken[bit / 64] >> bit % 64 & 1);
    taken[bit / 64] |= 1ull << bit % 64;
    return fresh;
}

/* Sectors of few lines. */
static void touched_near(const struct sim_access *a, struct touched *t) {
    const int counts = !t->elements;
    enum { NEAR = 64 * SIM_SECTOR };
    const uint64_t base = a->least / SIM_SECTOR / 4, bytes = a->bytes;
    const unsigned shift = (unsigned)__builtin_ctz(a->bytes);
    uint64_t touched = 0, taken[NEAR / 64];
    uint32_t elements = 0;
    if (counts)
        memset(taken, 0, (((a->most - base * 4 * SIM_SECTOR) >> shift) / 64 + 1) * sizeof *taken);
    for (uint32_t m = a->mask; m; m &= m - 1) {
        const uint64_t at = a->address[__builtin_ctz(m)] - base * 4 * SIM_SECTOR,
                       from = at / SIM_SECTOR, to = (at + bytes - 1) / SIM_SECTOR;
        touched |= (2ull << to) - (1ull << from);
        elements += counts ? take(taken, at >> shift) : 0;
    }
    for (uint64_t line = base; touched; line++, touched >>= 4)
        if (touched & 15) {
            t->first[t->lines] = line;
            t->sectors[t->lines++] = touched & 15;
            t->all_sectors += BITS_IN_FOUR(touched & 15);
        }
    t->all_lines = t->lines;
    t->elements += elements;
}

enum { LINE = 4 * SIM_SECTOR };

/* A walk down columns of whole lines: all lanes of a group touch the same sectors, each of a line
 * of its own, and further groups the same lines. Returns 0 for any other access. */
static int touched_columns(const struct sim_access *a, struct touched *t) {
    const uint32_t groups = a->group && a->step ? SIM_LANES / a->group : 1;
    const uint64_t offset = a->address[0] % LINE, step = (uint64_t)a->step;
    uint8_t sectors = 0;
    if (a->mask != SIM_FULL || !a->group || !a->stride || a->stride % LINE || a->step < 0 ||
        a->step > LINE || offset + step * (groups - 1) + a->bytes > LINE)
        return 0;
    for (uint32_t g = 0; g < groups; g++)
        for (uint64_t at = offset + step * g; at < offset + step * g + a->bytes; at += SIM_SECTOR)
            sectors |= (uint8_t)(1u << at / SIM_SECTOR);
    for (uint32_t i = 0; i < a->group; i++) {
        t->first[i] = a->address[i] / LINE;
        t->sectors[i] = sectors;
    }
    t->lines = t->all_lines = a->group;
    t->all_sectors = a->group * BITS_IN_FOUR(sectors);
    return 1;
}

static void touched_lines(const struct sim_access *a, struct touched *t) {
    enum { TABLE = 128 };
    uint8_t table[TABLE] = {0};
    uint64_t taken[SIM_LANES * 2][2]; /* elements of a line, one bit each */
    const int counts = !t->elements;
    uint32_t count = 0, sectors = 0, elements = 0;
    const unsigned shift = (unsigned)__builtin_ctz(a->bytes);
    for (uint32_t m = a->mask; m; m &= m - 1) {
        const uint64_t address = a->address[__builtin_ctz(m)], at = address / SIM_SECTOR,
                       end = (address + a->bytes - 1) / SIM_SECTOR;
        for (uint64_t sector = at; sector <= end; sector++) {
            const uint64_t line = sector / 4;
            const uint8_t bit = (uint8_t)(1u << (sector & 3));
            uint32_t slot = (uint32_t)(line * 0x9e3779b97f4a7c15ull >> 57);
            while (table[slot] && t->first[table[slot] - 1] != line)
                slot = (slot + 1) % TABLE;
            uint32_t place = table[slot];
            if (!place) {
                if (count == SIM_LANES * 2)
                    continue;
                if (counts)
                    taken[count][0] = taken[count][1] = 0;
                t->first[count] = line;
                t->sectors[count] = 0;
                table[slot] = (uint8_t)(place = ++count);
            }
            sectors += !(t->sectors[place - 1] & bit);
            t->sectors[place - 1] |= bit;
            elements += counts ? take(taken[place - 1], address % LINE >> shift) : 0;
        }
    }
    t->lines = t->all_lines = count;
    t->all_sectors = sectors;
    t->elements += elements;
}

/* Accesses are aligned to their size, so none spans two sectors, except those of bulk copies. */
static void find_touched(const struct sim_access *a, struct touched *t) {
    t->ranges = t->lines = t->all_sectors = t->all_lines = 0;
    t->elements = regular_elements(a);
    if (t->elements && a->most - a->least + a->bytes <= SIM_SECTOR)
        add_range(t, a->least, a->most - a->least + a->bytes);
    else if (t->elements && a->mask == SIM_FULL && a->group && a->stride >= -SIM_SECTOR &&
             a->stride <= SIM_SECTOR)
        touched_ranges(a, t);
    else if ((a->most + a->bytes - 1) / SIM_SECTOR - (a->least / SIM_SECTOR & ~3ull) < 64)
        touched_near(a, t);
    else if (!touched_columns(a, t))
        touched_lines(a, t);
}

/* ---- coalescing rules (transactions, and the bytes that they transfer) ---- */

struct moved {
    uint64_t transactions, bytes;
};

/* 1.0, 1.1: lane k of a half-warp accesses word k of one aligned region, or each lane costs one
 * transaction. */
static struct moved strict_rule(const struct sim_access *a, uint32_t half) {
    uint32_t lanes = a->mask & half, first = (uint32_t)__builtin_ctz(half);
    struct moved r = {0, 0};
    uint64_t base = 0;
    int ok = a->bytes == 4 || a->bytes == 8 || a->bytes == 16, have = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t start = a->address[lane] - (uint64_t)(lane - first) * a->bytes;
        if (have && start != base)
            ok = 0;
        base = start;
        have = 1;
    }
    if (have && ok && base % (16u * a->bytes) == 0) {
        r.transactions = a->bytes == 16 ? 2 : 1;
        r.bytes = 16ull * a->bytes;
    } else if (have) {
        r.transactions = (uint64_t)__builtin_popcount(lanes) * (a->bytes > 16 ? a->bytes / 16 : 1);
        r.bytes = (uint64_t)__builtin_popcount(lanes) *
                  (a->bytes < 32 ? 32 : a->bytes); /* a transaction transfers at least 32 bytes */
    }
    return r;
}

/* 1.2, 1.3: segments of 32, 64 or 128 bytes by word size, each halved while only one half is used.
 */
static struct moved segment_rule(const struct sim_access *a, uint32_t half) {
    struct moved r = {0, 0};
    uint32_t left = a->mask & half;
    uint64_t size = a->bytes == 1 ? 32 : a->bytes == 2 ? 64 : 128;
    while (left) {
        uint64_t base = a->address[__builtin_ctz(left)] / size * size, least = UINT64_MAX, most = 0,
                 from = base, span = size;
        for (uint32_t m = left; m; m &= m - 1) {
            uint64_t at = a->address[__builtin_ctz(m)];
            if (at / size * size != base)
                continue;
            left &= ~(1u << __builtin_ctz(m));
            least = at < least ? at : least;
            most = at + a->bytes - 1 > most ? at + a->bytes - 1 : most;
        }
        while (span > 32 && (most < from + span / 2 || least >= from + span / 2)) {
            from += least >= from + span / 2 ? span / 2 : 0;
            span /= 2;
        }
        r.transactions++;
        r.bytes += span;
    }
    return r;
}

static struct moved coalesce(const struct sim_access *a, enum sim_coalescing rule,
                             const struct touched *t) {
    const uint64_t sectors = t->all_sectors, lines = t->all_lines;
    if (rule == SIM_COALESCE_STRICT || rule == SIM_COALESCE_SEGMENTS) {
        struct moved low = rule == SIM_COALESCE_STRICT ? strict_rule(a, 0x0000ffffu)
                                                       : segment_rule(a, 0x0000ffffu);
        struct moved high = rule == SIM_COALESCE_STRICT ? strict_rule(a, 0xffff0000u)
                                                        : segment_rule(a, 0xffff0000u);
        return (struct moved){low.transactions + high.transactions, low.bytes + high.bytes};
    }
    if (rule == SIM_COALESCE_LINES) /* Fermi's loads fill lines of L1, its stores write sectors */
        return (struct moved){lines,
                              a->kind == SIM_ACCESS_LOAD ? lines * 128ull : sectors * SIM_SECTOR};
    return (struct moved){sectors, sectors * SIM_SECTOR};
}

/* ---- shared memory: passes through the banks ---- */

/* One pass broadcasts a word to every lane that reads it; two words in one bank need two passes.
 * pair: a bank has room for two words, `banks` words apart. */
static uint32_t bank_passes(const uint64_t *address, uint32_t mask, uint32_t words, uint32_t banks,
                            int pair) {
    uint64_t seen[SIM_LANES * 4];
    uint8_t before[SIM_LANES * 4]; /* the bank's word before this one; 0: none */
    uint8_t last[32] = {0}, load[32] = {0};
    uint32_t count = 0, most = 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t next = address[__builtin_ctz(m)] >> 2;
        for (uint32_t n = 0; n < words; n++, next++) {
            const uint64_t word = pair ? next & ~(uint64_t)banks : next;
            const uint32_t bank = (uint32_t)(word & (banks - 1));
            uint32_t i = last[bank];
            while (i && seen[i - 1] != word)
                i = before[i - 1];
            if (i)
                continue;
            seen[count] = word;
            before[count] = last[bank];
            last[bank] = (uint8_t)++count;
            load[bank]++;
            most = load[bank] > most ? load[bank] : most;
        }
    }
    return most;
}

/* The same for words a constant step apart: two lanes share a bank when their distance is a
 * multiple of `period` lanes. */
static uint32_t linear_passes(uint32_t mask, uint64_t step, uint32_t banks) {
    uint32_t shared = (uint32_t)__builtin_ctzll(step | banks), period = banks >> shared, most = 1;
    if (!step || period >= SIM_LANES)
        return 1;
    uint32_t lanes = 1;
    for (uint32_t at = period; at < SIM_LANES; at += period)
        lanes |= 1u << at;
    for (uint32_t i = 0; i < period; i++) {
        uint32_t meet = (uint32_t)__builtin_popcount(mask & lanes << i);
        most = meet > most ? meet : most;
    }
    return most;
}

/* The lanes that are served together. */
static uint32_t passes_of(const struct sim_access *a, uint32_t lanes, uint32_t words,
                          uint32_t banks, int pair) {
    const uint32_t mask = a->mask & lanes;
    uint32_t same = SIM_FULL; /* lanes that stand for all others */
    if ((a->most + a->bytes - 1) / 4 - a->least / 4 < banks)
        return 1; /* a bank has one of the words */
    if (words <= 4 && (a->group == SIM_LANES || a->group >= sim_lanes_in(lanes)) &&
        (!a->stride || a->stride == (int64_t)a->bytes))
        return 1; /* one word for all lanes, or one bank for each */
    if (a->group && a->group < SIM_LANES && !a->step && a->mask == SIM_FULL)
        same = (1u << a->group) - 1; /* the groups access the same words */
    if (!pair && a->bytes == 4 && (sim_linear(a) || same != SIM_FULL))
        return linear_passes(mask & same ? mask & same : same, (uint64_t)a->stride / 4, banks);
    return bank_passes(a->address, mask & same ? mask & same : mask, words > 4 ? 4 : words, banks,
                       pair);
}

/* The hardware serves wide accesses per half-warp (8 bytes) or quarter-warp (16 bytes); Kepler,
 * with banks of 8 bytes, per warp and half-warp. */
static uint32_t wavefronts(const struct sim_access *a, const struct sim_preset *p,
                           uint32_t *least) {
    const int pair = p->bank_bytes > 4;
    uint32_t words = (a->bytes + 3) / 4, each = words < 4 ? words : 4,
             group = p->bank_group / (pair ? (each + 1) / 2 : each), passes = 0;
    *least = 0;
    if (sim_contiguous(a) && words <= 4 && p->bank_group == SIM_LANES) {
        *least = a->bytes < 4 ? 1 : pair ? (words + 1) / 2 : words;
        return *least;
    }
    if (group == 0)
        group = 1;
    uint32_t lanes = group >= 32 ? SIM_FULL : (1u << group) - 1;
    for (uint32_t at = 0; at < SIM_LANES; at += group) {
        if (a->mask & (lanes << at)) {
            passes += passes_of(a, lanes << at, words, p->banks, pair);
            ++*least;
        }
    }
    return passes;
}

/* The most lanes on one bank, of one word or several: atomic operations take turns. */
static uint32_t turns(const struct sim_access *a, uint32_t banks) {
    uint8_t lanes[32] = {0}, most = 0;
    for (uint32_t m = a->mask; m; m &= m - 1) {
        const uint64_t bank = a->address[__builtin_ctz(m)] / 4 & (banks - 1);
        most = ++lanes[bank] > most ? lanes[bank] : most;
    }
    return most;
}

/* ---- the event ---- */

/* A sector's mark after a load (bit 0) or a store (bit 1); marks with another tag belong to other
 * launches. A load of a sector that was stored counts no fetch. */
static inline uint8_t touch(uint8_t old, uint8_t tag, uint8_t bit) {
    const uint8_t seen = (old & ~3) == tag ? old & 3 : 0;
    return (seen & bit) || (bit == 1 && seen & 2) ? old : (uint8_t)(tag | seen | bit);
}

/* Counts the fetches and write-backs of a cache of unlimited size: sectors touched for the first
 * time. Exact, although blocks on several host threads touch them. */
static uint64_t first_touch(uint8_t *marks, uint64_t s, uint64_t last, uint8_t tag, uint8_t bit) {
    const uint32_t each = 0x01010101u; /* four sectors */
    uint64_t count = 0;
    for (; s + 3 <= last && s % 4 == 0; s += 4) { /* four equal marks at once */
        sim_u32 *four = (sim_u32 *)(void *)&marks[s];
        uint32_t was = __atomic_load_n(four, __ATOMIC_RELAXED);
        const uint8_t now = touch((uint8_t)was, tag, bit);
        if (was != each * (uint8_t)was)
            break;
        if (now == (uint8_t)was)
            continue;
        if (!__atomic_compare_exchange_n(four, &was, each * now, 0, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED))
            break;
        count += 4;
    }
    for (; s <= last; s++) {
        uint8_t old = __atomic_load_n(&marks[s], __ATOMIC_RELAXED), now;
        while ((now = touch(old, tag, bit)) != old &&
               !__atomic_compare_exchange_n(&marks[s], &old, now, 1, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            continue;
        count += now != old;
    }
    return count;
}

static void first_touches(struct sim_worker *w, const struct sim_access *a,
                          const struct touched *t) {
    struct sim_region *r = a->region;
    const uint8_t bit = a->kind == SIM_ACCESS_LOAD ? 1 : 2;
    if (!r || !r->touched)
        return;
    uint64_t *count = bit == 1 ? &w->dram_read : &w->dram_write;
    const uint8_t tag = (uint8_t)((w->run->launch_number % 63 + 1) << 2);
    const uint64_t base = r->base / SIM_SECTOR; /* allocations begin with a sector */
    for (uint32_t i = 0; i < t->ranges; i++)
        *count += first_touch(r->touched, t->first[i] - base, t->last[i] - base, tag, bit);
    for (uint32_t i = 0; i < t->lines; i++)
        for (uint32_t s = t->sectors[i]; s; s &= s - 1) {
            const uint64_t at = t->first[i] * 4 + (uint32_t)__builtin_ctz(s) - base;
            const uint8_t old = __atomic_load_n(&r->touched[at], __ATOMIC_RELAXED);
            if (touch(old, tag, bit) != old)
                *count += first_touch(r->touched, at, at, tag, bit);
        }
}

/* Records an access for the caches, line by line. */
static void record(struct sim_worker *w, const struct sim_access *a, const struct touched *t) {
    int first = !a->copied;
    for (uint32_t i = 0; i < t->ranges; i++)
        for (uint64_t s = t->first[i], end; s <= t->last[i]; s = end + 1) {
            end = (s | 3) < t->last[i] ? s | 3 : t->last[i];
            sim_caches_line(w, a->warp, a->pc, s / 4, (2u << (end & 3)) - (1u << (s & 3)), first);
            first = 0;
        }
    for (uint32_t i = 0; i < t->lines; i++, first = 0)
        sim_caches_line(w, a->warp, a->pc, t->first[i], t->sectors[i], first);
}

void sim_count_access(struct sim_worker *w, const struct sim_access *a) {
    struct sim_pc_count *c = &w->pcs[a->pc];
    const struct sim_preset *p = w->run->preset;
    if (a->space == SIM_S_SHARED) {
        uint32_t least, passes = wavefronts(a, p, &least);
        c->shared_requests++;
        c->wavefronts += passes;
        c->conflicts += passes - least;
        if (a->kind >= SIM_ACCESS_ATOMIC)
            c->turns += turns(a, p->banks);
    } else if (a->space == SIM_S_LOCAL) {
        c->local_requests++;
    } else if (a->space == SIM_S_GLOBAL && a->in->space != SIM_S_CONST) {
        /* A bulk copy is one request: of its pieces, the first of a sector and of a line count. */
        struct touched t;
        find_touched(a, &t);
        c->bytes += t.elements * (uint64_t)a->bytes;
        if (a->copied && a->least % SIM_SECTOR)
            return;
        const struct moved m = coalesce(a, p->coalescing, &t);
        c->requests += !a->copied;
        c->sectors += t.all_sectors;
        if (!a->copied || a->least % 128 == 0)
            c->lines += t.all_lines;
        c->transactions += m.transactions;
        c->moved += m.bytes;
        first_touches(w, a, &t);
        if (SIM_UNLIKELY(w->run->caches != NULL)) {
            record(w, a, &t);
            if (a->kind >= SIM_ACCESS_ATOMIC)
                sim_caches_atomic(w, a);
        }
    }
}
