/* sim_mbarrier.c: mbarriers. A phase is complete when its arrivals are here and the bytes of its
 * copies are accounted for; the copies themselves land when a thread has waited (sim_async.h).
 */
#include "sim_async.h"
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

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

static int is_complete(struct mbarrier b) { return b.pending == 0 && b.bytes == BIAS; }

static uint64_t pack(struct mbarrier b) {
    if (is_complete(b)) { /* the next phase begins */
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

static int arrive(struct sim_worker *w, const struct sim_warp *warp, uint32_t pc, uint32_t lane,
                  struct mbarrier *b, uint64_t count) {
    if (b->pending < count)
        return 1 + sim_find(w, warp, pc, lane, SIM_FIND_BAD_BARRIER, 0, NULL,
                            "an mbarrier with %u arrivals pending gets %llu; initialise it with "
                            "more",
                            b->pending, (unsigned long long)count);
    b->pending -= (uint32_t)count;
    return 0;
}

static void keep(struct sim_block *block, uint32_t at, struct mbarrier b) {
    const uint64_t state = pack(b);
    memcpy(block->shared + at, &state, 8);
    if (is_complete(b))
        sim_copies_phase(block, at);
}

static int arrives(unsigned sub) {
    return sub == SIM_MBAR_ARRIVE || sub == SIM_MBAR_ARRIVE_DROP || sub == SIM_MBAR_ARRIVE_EXPECT ||
           sub == SIM_MBAR_CPASYNC;
}

/* Applies a lane's operation to a barrier; returns 0, or 1 + the result of a check that failed. */
static int change(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t lane, uint32_t at, uint64_t value, struct mbarrier *b) {
    const uint32_t pc = (uint32_t)(in - w->run->kernel->code);
    int found = 0;
    switch (in->sub) {
    case SIM_MBAR_INIT:
        if (!(found = check_arrivals(w, warp, pc, lane, value)))
            *b = (struct mbarrier){0, (uint32_t)value, (uint32_t)value, BIAS};
        return found;
    case SIM_MBAR_INVAL:
        *b = (struct mbarrier){0, 0, 0, 0};
        return 0;
    case SIM_MBAR_LATER:
    case SIM_MBAR_EXPECT:
    case SIM_MBAR_COMPLETE:
        return add_bytes(w, warp, pc, lane, b,
                         in->sub == SIM_MBAR_EXPECT ? (int64_t)value : -(int64_t)value);
    case SIM_MBAR_ARRIVE_EXPECT:
        if ((found = add_bytes(w, warp, pc, lane, b, (int64_t)value)))
            return found;
        value = 1; /* fall through */
    case SIM_MBAR_ARRIVE_DROP:
    case SIM_MBAR_ARRIVE:
        if ((found = check_arrivals(w, warp, pc, lane, value)) ||
            (found = arrive(w, warp, pc, lane, b, value)))
            return found;
        if (in->sub == SIM_MBAR_ARRIVE_DROP)
            b->expected -= (uint32_t)value;
        return 0;
    case SIM_MBAR_CPASYNC: /* the copies in flight make the arrival; else this lane does */
        if (!sim_copies_track(warp, lane, at))
            return in->vec ? arrive(w, warp, pc, lane, b, 1) : 0;
        b->pending += !in->vec; /* without .noinc, it is expected in addition */
        return 0;
    default:
        return 0;
    }
}

static int mbarrier_lane(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                         uint32_t lane, uint8_t *regs, uint8_t *host, int *done) {
    uint64_t state, before, value = 1;
    const uint32_t at = (uint32_t)(host - warp->block->shared);
    int found = 0;
    memcpy(&state, host, 8);
    if (arrives(in->sub) && !unpack(state).pending) {
        /* of the next phase: the bytes of this one are here */
        if (sim_copies_count(w, warp->block, at))
            return 1;
        memcpy(&state, host, 8);
    }
    before = state;
    if (in->b != SIM_NO_SLOT)
        value = in->sub == SIM_MBAR_WAIT ? ((const sim_u64 *)(const void *)(regs + in->b))[lane]
                                         : ((const sim_u32 *)(const void *)(regs + in->b))[lane];
    struct mbarrier b = unpack(state);
    if (in->sub == SIM_MBAR_WAIT || in->sub == SIM_MBAR_WAIT_PARITY) {
        *done =
            (in->sub == SIM_MBAR_WAIT ? (uint32_t)(value >> 63) : (uint32_t)(value & 1)) != b.phase;
        return 0;
    }
    /* without a copy, a check has refused the lane's access */
    if (in->sub == SIM_MBAR_LATER && sim_copies_track_last(warp, lane, at))
        return 0;
    if ((found = change(w, warp, in, lane, at, value, &b)))
        return found - 1;
    if (in->sub == SIM_MBAR_INVAL)
        memset(host, 0, 8);
    else
        keep(warp->block, at, b);
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
    sim_lane_addresses(regs, in->a, in->dst2, (uint64_t)in->imm, address);
    if (run->check_races && !waiting && in->sub != SIM_MBAR_INIT)
        sim_races_order(run, warp, SIM_ORDER_RELEASE, &(struct sim_words){address, mask, 8, 1}, 1,
                        0);
    if (sim_access_lanes(w, warp, in, &mask, in->space,
                         in->sub == SIM_MBAR_INIT ? SIM_ACCESS_STORE : SIM_ACCESS_ATOMIC, address,
                         8, host))
        return 1;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint32_t at = (uint32_t)(host[lane] - warp->block->shared);
        int done = 0;
        if (mbarrier_lane(w, warp, in, lane, regs, host[lane], &done))
            return 1;
        if (waiting && warp->block->copies_in) {
            if (!done && (sim_copies_count(w, warp->block, at) ||
                          mbarrier_lane(w, warp, in, lane, regs, host[lane], &done)))
                return 1;
            if (done && sim_copies_land(w, warp->block, at))
                return 1;
        }
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

int sim_mbarrier_track(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                       uint32_t lane, const uint64_t *address, uint32_t *at) {
    uint8_t *host[SIM_LANES];
    uint32_t one = 1u << lane;
    *at = UINT32_MAX;
    if (w->run->check_races)
        sim_races_order(w->run, warp, SIM_ORDER_RELEASE, &(struct sim_words){address, one, 8, 1}, 1,
                        0);
    if (sim_access_lanes(w, warp, in, &one, SIM_S_SHARED, SIM_ACCESS_ATOMIC, address, 8, host))
        return 1;
    if (one)
        *at = (uint32_t)(host[lane] - warp->block->shared);
    return 0;
}

int sim_mbarrier_count(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t lane,
                       uint32_t at, uint32_t bytes, uint32_t arrivals) {
    uint64_t state;
    memcpy(&state, warp->block->shared + at, 8);
    struct mbarrier b = unpack(state);
    int found = bytes ? add_bytes(w, warp, pc, lane, &b, -(int64_t)bytes) : 0;
    if (!found && arrivals)
        found = arrive(w, warp, pc, lane, &b, arrivals);
    if (!found)
        keep(warp->block, at, b);
    return found > 1;
}
