/* sim_counters.c: the observer that counts. Per memory instruction: requests, sectors, wavefronts,
 * transactions, by Nsight Compute's definitions; at the end of a launch, sums by class, by source
 * line and in total. Changes nothing that runs.
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
    int first = 1;
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
    } else if (a->space == SIM_S_LOCAL) {
        c->local_requests++;
    } else if (a->space == SIM_S_GLOBAL && a->in->space != SIM_S_CONST) {
        struct touched t;
        find_touched(a, &t);
        const struct moved m = coalesce(a, p->coalescing, &t);
        c->requests++;
        c->bytes += t.elements * (uint64_t)a->bytes;
        c->sectors += t.all_sectors;
        c->lines += t.all_lines;
        c->transactions += m.transactions;
        c->moved += m.bytes;
        first_touches(w, a, &t);
        if (SIM_UNLIKELY(w->run->caches != NULL))
            record(w, a, &t);
    }
}

/* ---- the report ---- */

/* An instruction's class, and its floating-point operations per thread by precision (0 f16, 1 f32,
 * 2 f64). */
enum sim_class sim_class_of(const struct sim_kernel *k, uint32_t pc, unsigned *flops,
                            unsigned *precision) {
    const struct sim_insn *in = &k->code[pc];
    *flops = 0;
    *precision = 1;
    if ((in->op != SIM_OP_LANE && in->op != SIM_OP_MASK) || k->where[pc].lane_op == UINT16_MAX)
        return (enum sim_class)in->class;
    const struct sim_lane_op *row = &sim_lane_ops[k->where[pc].lane_op];
    const char *m = row->mnemonic;
    static const char *const special[] = {"rcp.", "sqrt.", "rsqrt.", "sin.",
                                          "cos.", "ex2.",  "lg2.",   "tanh."};
    static const char *const counted[] = {"add.", "sub.", "mul.", "div.", "fma.", "min.", "max."};
    enum sim_type type = (enum sim_type)row->types[1];
    int floating = sim_types[type].class == SIM_C_FLOAT || sim_types[type].class == SIM_C_HALF;
    if (strncmp(m, "cvt.", 4) == 0 || strncmp(m, "~r", 2) == 0)
        return SIM_CLASS_CONVERT;
    if (strncmp(m, "mov.", 4) == 0 || strncmp(m, "slct.", 5) == 0 || m[0] == '~')
        return SIM_CLASS_MOVE;
    if (floating) {
        *precision = type == SIM_T_F32 ? 1 : type == SIM_T_F64 ? 2 : 0;
        int packed = type == SIM_T_F16X2 || type == SIM_T_BF16X2;
        for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
            if (strncmp(m, special[i], strlen(special[i])) == 0) {
                *flops = packed ? 2 : 1;
                return SIM_CLASS_SPECIAL;
            }
        }
        for (size_t i = 0; i < sizeof counted / sizeof *counted - 2; i++)
            if (strncmp(m, counted[i], 4) == 0)
                *flops = (i == 4 ? 2u : 1u) * (packed ? 2u : 1u);
        return *precision == 1 ? SIM_CLASS_F32 : *precision == 2 ? SIM_CLASS_F64 : SIM_CLASS_F16;
    }
    if (strncmp(m, "div.", 4) == 0 || strncmp(m, "rem.", 4) == 0)
        return SIM_CLASS_DIVIDE;
    return strncmp(m, "mul", 3) == 0 || strncmp(m, "mad", 3) == 0 || strncmp(m, "dp", 2) == 0
               ? SIM_CLASS_MULTIPLY
               : SIM_CLASS_INTEGER;
}

/* Adds one instruction's work in each space: generic addresses may lie in any. An asynchronous copy
 * counts as a load from global memory or a store to it; its access to shared memory counts as no
 * instruction. */
static void add_memory(struct sim_counters *c, const struct sim_insn *in,
                       const struct sim_pc_count *n, const struct sim_cached *cached) {
    const int copy = in->op == SIM_OP_CPASYNC || in->op == SIM_OP_BULK,
              to_global = in->op == SIM_OP_BULK && in->sub == SIM_BULK_OUT;
    if (in->op == SIM_OP_TEX) {
        c->texture_requests += n->requests;
        c->texture_sectors += n->sectors;
        c->texture_hits += cached->l1_hits;
    }
    c->l2_sectors += cached->l2_sectors;
    c->l2_halves += cached->l2_halves;
    c->l2_hits += cached->l2_hits;
    c->l2_first_misses += cached->l2_first;
    c->tag_passes += cached->tag_passes;
    c->waits += cached->waits;
    c->first_waits += cached->first_waits;
    c->dram_waits += cached->dram_waits;
    if (in->op == SIM_OP_BAR)
        c->barriers += n->requests;
    if (in->op == SIM_OP_LD) {
        c->shared_load_requests += n->shared_requests;
        c->shared_load_wavefronts += n->wavefronts;
        c->shared_load_conflicts += n->conflicts;
        c->local_load_requests += n->local_requests;
    } else if (in->op == SIM_OP_ST) {
        c->shared_store_requests += n->shared_requests;
        c->shared_store_wavefronts += n->wavefronts;
        c->shared_store_conflicts += n->conflicts;
        c->local_store_requests += n->local_requests;
    } else if (in->op == SIM_OP_ATOM) {
        c->shared_atomics += n->shared_requests;
        c->global_atomics += n->requests;
    }
    if (in->op == SIM_OP_LD || (copy && !to_global)) {
        c->global_load_requests += n->requests;
        c->global_load_sectors += n->sectors;
        c->global_load_transactions += n->transactions;
        c->global_load_bytes_moved += n->moved;
        c->global_load_bytes += n->bytes;
        c->l1_load_hits += cached->l1_hits;
    } else if (in->op == SIM_OP_ST || to_global) {
        c->global_store_requests += n->requests;
        c->global_store_sectors += n->sectors;
        c->global_store_transactions += n->transactions;
        c->global_store_bytes_moved += n->moved;
        c->global_store_bytes += n->bytes;
        c->l1_store_hits += cached->l1_hits;
    }
    c->global_bytes_moved += n->moved;
    c->global_transactions += n->transactions;
    c->global_lines += n->lines;
}

static void add_class(struct sim_counters *c, enum sim_class class, uint64_t warps) {
    switch (class) {
#define SIM_X(id, field)                                          \
    case SIM_CLASS_##id:                                          \
        c->field += SIM_CLASS_##id == SIM_CLASS_NONE ? 0 : warps; \
        break;
        SIM_CLASSES(SIM_X)
#undef SIM_X
    default:
        break;
    }
}

/* Adds one instruction's counts from all workers to a set of counters. */
static void add_instruction(const struct sim_kernel *k, uint32_t pc,
                            const struct sim_block_count *b, const struct sim_pc_count *n,
                            const struct sim_cached *cached, struct sim_counters *c) {
    const struct sim_insn *in = &k->code[pc];
    unsigned flops, precision;
    enum sim_class class = sim_class_of(k, pc, &flops, &precision);
    uint64_t on = b->threads - (n->guard_off < b->threads ? n->guard_off : b->threads);
    c->warp_instructions += b->warps;
    c->thread_instructions += b->threads;
    c->predicated_on_threads += on;
    add_class(c, class, b->warps);
    *(precision == 0   ? &c->flops_f16
      : precision == 1 ? &c->flops_f32
                       : &c->flops_f64) += flops * on;
    if (in->op == SIM_OP_BRA || in->op == SIM_OP_BRX) {
        c->branches += b->warps;
        c->divergent_branches += n->divergent;
    }
    add_memory(c, in, n, cached);
}

static int same_line(const struct sim_line *line, const char *file, unsigned number, unsigned ptx) {
    return line->file == file && line->line == number && (file || line->ptx_line == ptx);
}

/* Appends a row to an array of `count`; NULL when out of memory. */
static struct sim_line *add_line(struct sim_line **lines, size_t *count, uint32_t *capacity,
                                 const char *file, unsigned number, unsigned ptx) {
    struct sim_line *grown = sim_grow(NULL, *lines, capacity, (uint32_t)*count + 1, sizeof *grown);
    if (!grown)
        return NULL;
    *lines = grown;
    grown[*count] = (struct sim_line){.file = file, .line = number, .ptx_line = ptx};
    return &grown[(*count)++];
}

static struct sim_line *line_of(struct sim_report *report, uint32_t *capacity, const char *file,
                                unsigned number, unsigned ptx) {
    for (size_t i = report->line_count; i-- > 0;)
        if (same_line(&report->lines[i], file, number, ptx))
            return &report->lines[i];
    return add_line(&report->lines, &report->line_count, capacity, file, number, ptx);
}

static int by_place(const void *a, const void *b) {
    const struct sim_line *x = a, *y = b;
    int files =
        !x->file || !y->file ? (x->file != NULL) - (y->file != NULL) : strcmp(x->file, y->file);
    return files                ? files
           : x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                                : (x->ptx_line > y->ptx_line) - (x->ptx_line < y->ptx_line);
}

/* The row of an executed statement, whose instructions are adjacent; NULL: there are too many, or
 * no memory. */
static struct sim_line *statement_of(const struct sim_kernel *k, uint32_t pc, const char *file,
                                     struct sim_report *report, uint32_t *capacity) {
    enum { MOST = 1 << 16 };
    const char *text = k->where[pc].text;
    struct sim_line *last = report->statements + report->statement_count;
    if (report->statement_count && last[-1].text == text)
        return last - 1;
    if (report->statement_count == MOST)
        return NULL;
    struct sim_line *made = add_line(&report->statements, &report->statement_count, capacity, file,
                                     file ? k->where[pc].line : 0, k->where[pc].ptx_line);
    if (made)
        made->text = text; /* of the module, until all are known */
    return made;
}

/* Gives the statements texts of their own: the module may go before the report. */
static int copy_statements(const struct sim_kernel *k, struct sim_report *report) {
    size_t at = 0;
    if (!report->statement_count)
        return 1;
    report->statement_texts = malloc(report->statement_count * SIM_STATEMENT_BYTES);
    for (size_t i = 0; i < report->statement_count && report->statement_texts; i++) {
        char *to = report->statement_texts + at;
        at += sim_trace_statement(k->module, report->statements[i].text, to);
        report->statements[i].text = to;
    }
    return report->statement_texts != NULL;
}

/* Sectors that this launch has read without touching the other sector of their 64 bytes, which DRAM
 * delivers together. */
static uint64_t lone_sectors(const struct sim_run *run) {
    const uint8_t tag = (uint8_t)((run->launch_number % 63 + 1) << 2);
    uint64_t count = 0;
    for (size_t i = 0; i < run->gpu->region_count; i++) {
        const struct sim_region *r = &run->gpu->regions[i];
        for (uint64_t s = 0; r->touched && s <= r->bytes / SIM_SECTOR; s += 2) {
            const uint8_t one = r->touched[s], two = r->touched[s + 1];
            const int first = (one & ~3) == tag, second = (two & ~3) == tag;
            count += first != second && ((first ? one : two) & 1);
        }
    }
    return count;
}

int sim_count_report(struct sim_run *run, struct sim_worker *workers, unsigned count,
                     struct sim_report *report) {
    const struct sim_kernel *k = run->kernel;
    uint32_t capacity = 0, statements = 0;
    if (run->caches && sim_caches_lost(run))
        return 0;
    report->spread.lone_sectors = lone_sectors(run);
    struct sim_block_count block = {0, 0};
    for (uint32_t pc = 0; pc < k->code_count; pc++) {
        struct sim_pc_count sum = {0};
        struct sim_cached cached = {0};
        if (k->code[pc].op == SIM_OP_BLOCK) {
            block = (struct sim_block_count){0, 0};
            for (unsigned i = 0; i < count; i++) {
                block.warps += workers[i].blocks[k->code[pc].ext].warps;
                block.threads += workers[i].blocks[k->code[pc].ext].threads;
            }
            continue;
        }
        if ((k->code[pc].flags & SIM_F_HELPER) || !block.warps)
            continue;
        for (unsigned i = 0; i < count; i++) {
            const struct sim_pc_count *n = &workers[i].pcs[pc];
            sum.requests += n->requests;
            sum.shared_requests += n->shared_requests;
            sum.local_requests += n->local_requests;
            sum.wavefronts += n->wavefronts;
            sum.sectors += n->sectors;
            sum.lines += n->lines;
            sum.bytes += n->bytes;
            sum.moved += n->moved;
            sum.transactions += n->transactions;
            sum.conflicts += n->conflicts;
            sum.guard_off += n->guard_off;
            sum.divergent += n->divergent;
        }
        if (run->caches)
            cached = sim_caches_of(run, pc, sum.sectors);
        int system;
        const char *file = sim_module_file(k->module, k->where[pc].file, &system);
        struct sim_line *line =
            line_of(report, &capacity, file, file ? k->where[pc].line : 0, k->where[pc].ptx_line);
        add_instruction(k, pc, &block, &sum, &cached, &report->total);
        if (!line)
            return 0;
        add_instruction(k, pc, &block, &sum, &cached, &line->counters);
        struct sim_line *statement = run->launch->flags & SIM_LAUNCH_STATEMENTS && k->where[pc].text
                                         ? statement_of(k, pc, file, report, &statements)
                                         : NULL;
        if (statement)
            add_instruction(k, pc, &block, &sum, &cached, &statement->counters);
    }
    if (!copy_statements(k, report))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        report->total.blocks += workers[i].blocks_done;
        report->total.warps += workers[i].warps_done;
        report->total.dram_read_bytes += workers[i].dram_read * SIM_SECTOR;
        report->total.dram_write_bytes += workers[i].dram_write * SIM_SECTOR;
    }
    if (run->caches)
        sim_caches_traffic(run, &report->total);
    if (report->line_count)
        qsort(report->lines, report->line_count, sizeof *report->lines, by_place);
    return 1;
}
