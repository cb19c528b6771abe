/* sim_exec_async.c: asynchronous copies and mbarriers. A copy completes at once, in program order,
 * which is one of the orders that hardware may choose; a later wait finds it complete.
 */
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

/* ---- addresses ---- */

static void lane_addresses(const uint8_t *regs, uint32_t slot, uint32_t flags, uint64_t offset,
                           uint64_t *address) {
    for (int i = 0; i < SIM_LANES; i++) {
        if (slot == SIM_NO_SLOT)
            address[i] = offset;
        else if (flags & SIM_A_BASE32)
            address[i] =
                (uint32_t)(((const sim_u32 *)(const void *)(regs + slot))[i] + (uint32_t)offset);
        else
            address[i] = ((const sim_u64 *)(const void *)(regs + slot))[i] + offset;
    }
}

/* An address from the extra list, where second_address() of sim_decode_memory.c stored it. */
static void extra_addresses(const uint8_t *regs, const uint32_t *extra, uint64_t *address) {
    lane_addresses(regs, extra[0], extra[1], extra[2] | (uint64_t)extra[3] << 32, address);
}

/* ---- mbarrier: 1 phase bit, 20 bits of expected threads, 20 of pending arrivals, 23 of pending
 * bytes (biased) ---- */

#define BIAS (1u << 22)

struct mbarrier {
    uint32_t phase, expected, pending, bytes;
};

static struct mbarrier unpack(uint64_t u) {
    return (struct mbarrier){(uint32_t)(u >> 63), u >> 43 & 0xfffff, u >> 23 & 0xfffff,
                             u & 0x7fffff};
}

static uint64_t pack(struct mbarrier b) {
    if (b.pending == 0 && b.bytes == BIAS) { /* complete: the next phase begins */
        b.phase ^= 1;
        b.pending = b.expected;
    }
    return (uint64_t)(b.phase & 1) << 63 | (uint64_t)(b.expected & 0xfffff) << 43 |
           (uint64_t)(b.pending & 0xfffff) << 23 | (b.bytes & 0x7fffff);
}

/* Limits of the PTX manual: arrivals from 1, bytes of either sign. The field of 23 bits holds more
 * bytes than that, and would lose any excess. */
enum { MOST_ARRIVALS = (1 << 20) - 1, MOST_BYTES = (1 << 20) - 1 };

/* Adds bytes that are still to come. 0: done. Else what the finding answers, plus 1. */
static int add_bytes(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
                     struct mbarrier *b, int64_t bytes) {
    const int64_t pending = (int64_t)b->bytes - BIAS + bytes;
    if (pending < -MOST_BYTES || pending > MOST_BYTES)
        return 1 + sim_find(w, warp, pc, lane, SIM_FIND_BAD_BARRIER, 0, NULL,
                            "an mbarrier with %lld bytes pending gets %lld more, and it counts "
                            "from %d to %d; use several barriers or phases",
                            (long long)((int64_t)b->bytes - BIAS), (long long)bytes, -MOST_BYTES,
                            MOST_BYTES);
    b->bytes = (uint32_t)(pending + BIAS);
    return 0;
}

/* The same for a number of arrivals that an instruction states. */
static int check_arrivals(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc,
                          uint32_t lane, uint64_t count) {
    if (count >= 1 && count <= MOST_ARRIVALS)
        return 0;
    return 1 + sim_find(w, warp, pc, lane, SIM_FIND_BAD_BARRIER, 0, NULL,
                        "an mbarrier is given %llu arrivals; it counts from 1 to %d",
                        (unsigned long long)count, MOST_ARRIVALS);
}

static int mbarrier_lane(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                         uint32_t lane, uint8_t *regs, uint8_t *host, int *done) {
    uint64_t state, before, value = 1;
    uint32_t pc = (uint32_t)(in - w->run->kernel->code);
    int found = 0;
    memcpy(&state, host, 8);
    before = state;
    if (in->b != SIM_NO_SLOT)
        value = in->sub == SIM_MBAR_WAIT ? ((const sim_u64 *)(const void *)(regs + in->b))[lane]
                                         : ((const sim_u32 *)(const void *)(regs + in->b))[lane];
    struct mbarrier b = unpack(state);
    switch (in->sub) {
    case SIM_MBAR_INIT:
        if ((found = check_arrivals(w, warp, pc, lane, value)))
            return found - 1;
        b = (struct mbarrier){0, (uint32_t)value, (uint32_t)value, BIAS};
        break;
    case SIM_MBAR_INVAL:
        b = (struct mbarrier){0, 0, 0, 0};
        break;
    case SIM_MBAR_EXPECT:
    case SIM_MBAR_COMPLETE:
        if ((found = add_bytes(w, warp, pc, lane, &b,
                               in->sub == SIM_MBAR_EXPECT ? (int64_t)value : -(int64_t)value)))
            return found - 1;
        break;
    case SIM_MBAR_ARRIVE_EXPECT:
        if ((found = add_bytes(w, warp, pc, lane, &b, (int64_t)value)))
            return found - 1;
        value = 1; /* fall through */
    case SIM_MBAR_CPASYNC:
    case SIM_MBAR_ARRIVE_DROP:
    case SIM_MBAR_ARRIVE:
        if (in->sub == SIM_MBAR_CPASYNC && !in->vec)
            break; /* one more arrival expected, and made */
        if ((found = check_arrivals(w, warp, pc, lane, value)))
            return found - 1;
        if (b.pending < value)
            return sim_find(
                w, warp, pc, lane, SIM_FIND_BAD_BARRIER, 0, NULL,
                "an mbarrier with %u arrivals pending gets %llu; initialise it with more",
                b.pending, (unsigned long long)value);
        b.pending -= (uint32_t)value;
        if (in->sub == SIM_MBAR_ARRIVE_DROP)
            b.expected -= (uint32_t)value;
        break;
    case SIM_MBAR_WAIT:
        *done = (int)(value >> 63 != b.phase);
        return 0;
    case SIM_MBAR_WAIT_PARITY:
        *done = (value & 1) != b.phase;
        return 0;
    default:
        break;
    }
    state = in->sub == SIM_MBAR_INVAL ? 0 : pack(b);
    memcpy(host, &state, 8);
    if (in->dst != SIM_NO_SLOT)
        ((sim_u64 *)(void *)(regs + in->dst))[lane] = before;
    return 0;
}

int sim_exec_mbarrier(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs, int *waits) {
    uint64_t address[SIM_LANES];
    uint8_t *host[SIM_LANES];
    struct sim_run *run = w->run;
    int waiting = in->sub == SIM_MBAR_WAIT || in->sub == SIM_MBAR_WAIT_PARITY;
    uint32_t yes = 0;
    if (in->sub == SIM_MBAR_PENDING) {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(m);
            ((sim_u32 *)(void *)(regs + in->dst))[lane] =
                unpack(((sim_u64 *)(void *)(regs + in->b))[lane]).pending;
        }
        return 0;
    }
    lane_addresses(regs, in->a, in->dst2, (uint64_t)in->imm, address);
    if (run->check_races && !waiting && in->sub != SIM_MBAR_INIT)
        sim_races_order(run, warp, SIM_ORDER_RELEASE, &(struct sim_words){address, mask, 8, 1}, 1,
                        0);
    if (sim_access_lanes(w, warp, in, &mask, in->space,
                         in->sub == SIM_MBAR_INIT ? SIM_ACCESS_STORE : SIM_ACCESS_ATOMIC, address,
                         8, host))
        return 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        int done = 0;
        if (mbarrier_lane(w, warp, in, lane, regs, host[lane], &done))
            return 1;
        yes |= (uint32_t)done << lane;
    }
    if (waiting) {
        if (in->dst != SIM_NO_SLOT) {
            sim_u32 *p = (sim_u32 *)(void *)(regs + in->dst);
            *p = (*p & ~mask) | yes;
        }
        *waits = yes != mask;
        if (yes && run->check_races)
            sim_races_order(run, warp, SIM_ORDER_ACQUIRE, &(struct sim_words){address, yes, 8, 1},
                            0, 1);
    }
    return 0;
}

/* ---- copies ---- */

static int bulk_lane(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t lane, const uint64_t *to, const uint64_t *from, uint32_t bytes) {
    uint8_t *source[SIM_LANES], *target[SIM_LANES];
    uint64_t a[SIM_LANES], b[SIM_LANES];
    memcpy(a, from, sizeof a);
    memcpy(b, to, sizeof b);
    for (uint32_t at = 0; at < bytes; at += 16) {
        uint32_t mask = 1u << lane;
        a[lane] = from[lane] + at;
        b[lane] = to[lane] + at;
        if (sim_access_lanes(w, warp, in, &mask, in->sub ? SIM_S_SHARED : SIM_S_GLOBAL,
                             SIM_ACCESS_LOAD, a, 16, source))
            return 1;
        if (mask && sim_access_lanes(w, warp, in, &mask,
                                     in->sub == SIM_BULK_OUT ? SIM_S_GLOBAL : SIM_S_SHARED,
                                     SIM_ACCESS_STORE, b, 16, target))
            return 1;
        if (mask)
            memcpy(target[lane], source[lane], 16);
    }
    return 0;
}

static int bulk_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs) {
    const uint32_t *extra = &w->run->kernel->extra[in->ext];
    uint64_t to[SIM_LANES], from[SIM_LANES], barrier[SIM_LANES];
    uint8_t *host[SIM_LANES];
    uint32_t pc = (uint32_t)(in - w->run->kernel->code);
    lane_addresses(regs, in->a, in->dst2, (uint64_t)in->imm, to);
    extra_addresses(regs, extra + 2, from);
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m),
                 bytes = ((const sim_u32 *)(const void *)(regs + extra[1]))[lane];
        if (bytes % 16)
            return sim_find(w, warp, pc, lane, SIM_FIND_MISALIGNED, from[lane], NULL,
                            "a bulk copy of %u bytes, which is not a multiple of 16", bytes);
        if (bytes > w->run->shared_bytes)
            return sim_find(
                w, warp, pc, lane, SIM_FIND_OUT_OF_BOUNDS, from[lane], NULL,
                "a bulk copy of %u bytes, but the block has %llu bytes of shared memory", bytes,
                (unsigned long long)w->run->shared_bytes);
        if (bulk_lane(w, warp, in, lane, to, from, bytes))
            return 1;
        if (in->sub == SIM_BULK_OUT)
            continue;
        uint32_t one = 1u << lane;
        extra_addresses(regs, extra + 6, barrier);
        if (w->run->check_races)
            sim_races_order(w->run, warp, SIM_ORDER_RELEASE,
                            &(struct sim_words){barrier, one, 8, 1}, 1, 0);
        if (sim_access_lanes(w, warp, in, &one, SIM_S_SHARED, SIM_ACCESS_ATOMIC, barrier, 8, host))
            return 1;
        if (one) {
            uint64_t state;
            memcpy(&state, host[lane], 8);
            struct mbarrier b = unpack(state);
            const int found = add_bytes(w, warp, pc, lane, &b, -(int64_t)bytes);
            if (found > 1)
                return 1;
            state = pack(b);
            if (!found)
                memcpy(host[lane], &state, 8);
        }
    }
    return 0;
}

int sim_exec_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs) {
    const uint32_t *extra = &w->run->kernel->extra[in->ext];
    uint64_t to[SIM_LANES], from[SIM_LANES];
    uint8_t *source[SIM_LANES], *target[SIM_LANES];
    uint32_t bytes = extra[0], present = mask;
    if (in->op == SIM_OP_BULK)
        return bulk_copy(w, warp, in, mask, regs);
    lane_addresses(regs, in->a, in->dst2, (uint64_t)in->imm, to);
    extra_addresses(regs, extra + 2, from);
    for (uint32_t m = mask; m && extra[1] != SIM_NO_SLOT;
         m &= m - 1) /* a source size of 0 reads nothing */
        if (!((const sim_u32 *)(const void *)(regs + extra[1]))[__builtin_ctz(m)])
            present &= ~(1u << __builtin_ctz(m));
    if (present &&
        sim_access_lanes(w, warp, in, &present, SIM_S_GLOBAL, SIM_ACCESS_LOAD, from, bytes, source))
        return 1;
    if (sim_access_lanes(w, warp, in, &mask, SIM_S_SHARED, SIM_ACCESS_STORE, to, bytes, target))
        return 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), have = bytes;
        if (extra[1] != SIM_NO_SLOT &&
            ((const sim_u32 *)(const void *)(regs + extra[1]))[lane] < have)
            have = ((const sim_u32 *)(const void *)(regs + extra[1]))[lane];
        memset(target[lane], 0, bytes);
        if (present >> lane & 1)
            memcpy(target[lane], source[lane], have);
    }
    return 0;
}
