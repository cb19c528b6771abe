/*
 * sim_exec_warp.c: instructions in which the lanes of a warp see each other: shuffles, votes,
 * matches, reductions, the election of one, and warp barriers.
 */
#include "sim_run.h"

#include <string.h>

static SIM_NOINLINE void shuffle(struct sim_worker *w, const struct sim_insn *in, uint32_t mask,
                                 uint8_t *regs) {
    const sim_u32 *a = U32(in->a), *b = U32(in->b), *c = U32(in->c);
    sim_u32 *out = (sim_u32 *)(void *)w->scratch[0];
    uint32_t in_range = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        int by = (int)(b[lane] & 31), clamp = (int)(c[lane] & 31),
            segment = (int)(c[lane] >> 8 & 31);
        int most = (lane & segment) | (clamp & ~segment), least = lane & segment, from, ok;
        switch (in->sub) {
        case SIM_SHFL_UP:
            from = lane - by;
            ok = from >= most;
            break; /* for up, the clamp is the least */
        case SIM_SHFL_DOWN:
            from = lane + by;
            ok = from <= most;
            break;
        case SIM_SHFL_BFLY:
            from = lane ^ by;
            ok = from <= most;
            break;
        default:
            from = least | (by & ~segment);
            ok = from <= most;
            break;
        }
        if (!ok)
            from = lane;
        if (SIM_UNLIKELY(w->recorder != NULL))
            sim_trace_shuffle(w->recorder, (uint32_t)lane, (uint32_t)from);
        out[lane] = a[from];
        in_range |= (uint32_t)ok << lane;
    }
    sim_blend(regs + in->dst, w->scratch[0], mask, 4);
    if (in->dst2 != SIM_NO_SLOT)
        PRED(in->dst2) = (PRED(in->dst2) & ~mask) | in_range;
}

static SIM_NOINLINE void vote(const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    uint32_t yes = PRED(in->a) & mask;
    if (in->sub == SIM_VOTE_BALLOT) {
        for (uint32_t m = mask; m; m &= m - 1)
            U32(in->dst)[__builtin_ctz(m)] = yes;
        return;
    }
    int result = in->sub == SIM_VOTE_ALL   ? yes == mask
                 : in->sub == SIM_VOTE_ANY ? yes != 0
                                           : yes == mask || !yes;
    PRED(in->dst) = (PRED(in->dst) & ~mask) | (result ? mask : 0);
}

static SIM_NOINLINE void match(const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    uint32_t bytes = sim_types[in->type].bytes, results[SIM_LANES], all = 1;
    const uint8_t *a = regs + in->a;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        results[lane] = 0;
        for (uint32_t n = mask; n; n &= n - 1) {
            uint32_t other = (uint32_t)__builtin_ctz(n);
            if (memcmp(a + lane * bytes, a + other * bytes, bytes) == 0)
                results[lane] |= 1u << other;
        }
        all &= results[lane] == mask;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        U32(in->dst)[lane] = in->sub ? (all ? mask : 0) : results[lane];
    }
    if (in->dst2 != SIM_NO_SLOT)
        PRED(in->dst2) = (PRED(in->dst2) & ~mask) | (all ? mask : 0);
}

static SIM_NOINLINE void redux(const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    const sim_u32 *a = U32(in->a);
    uint32_t r = a[__builtin_ctz(mask)];
    for (uint32_t m = mask & (mask - 1); m; m &= m - 1) {
        uint32_t x = a[__builtin_ctz(m)];
        switch (in->sub) {
        case SIM_ATOM_ADD:
            r += x;
            break;
        case SIM_ATOM_MIN:
            r = in->type == SIM_T_S32 ? ((int32_t)x < (int32_t)r ? x : r) : (x < r ? x : r);
            break;
        case SIM_ATOM_MAX:
            r = in->type == SIM_T_S32 ? ((int32_t)x > (int32_t)r ? x : r) : (x > r ? x : r);
            break;
        case SIM_ATOM_AND:
            r &= x;
            break;
        case SIM_ATOM_OR:
            r |= x;
            break;
        default:
            r ^= x;
            break;
        }
    }
    for (uint32_t m = mask; m; m &= m - 1)
        U32(in->dst)[__builtin_ctz(m)] = r;
}

/* The member mask of the first active lane, and in *same the active lanes that name the same one:
   tiles of a warp each have their own. */
uint32_t sim_exec_members(const struct sim_insn *in, uint32_t mask, const uint8_t *regs,
                          uint32_t *same) {
    *same = mask;
    if (in->e == SIM_NO_SLOT)
        return mask;
    const sim_u32 *masks = (const sim_u32 *)(const void *)(regs + in->e);
    uint32_t members = masks[__builtin_ctz(mask)], differ = 0;
    for (int i = 0; i < SIM_LANES; i++)
        differ |= masks[i] ^ members;
    if (SIM_LIKELY(!differ))
        return members;
    for (uint32_t m = mask; m; m &= m - 1)
        if (masks[__builtin_ctz(m)] != members)
            *same &= ~(1u << __builtin_ctz(m));
    return members;
}

void sim_exec_warp_wide(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                        uint32_t mask, uint32_t members, uint8_t *regs) {
    switch (in->op) {
    case SIM_OP_SHFL:
        shuffle(w, in, mask, regs);
        break;
    case SIM_OP_VOTE:
        vote(in, mask, regs);
        break;
    case SIM_OP_MATCH:
        match(in, mask, regs);
        break;
    case SIM_OP_REDUX:
        redux(in, mask, regs);
        break;
    case SIM_OP_ELECT: {
        uint32_t leader = (uint32_t)__builtin_ctz(mask);
        for (uint32_t m = mask; m; m &= m - 1)
            U32(in->dst)[__builtin_ctz(m)] = leader;
        if (in->dst2 != SIM_NO_SLOT)
            PRED(in->dst2) = (PRED(in->dst2) & ~mask) | 1u << leader;
        break;
    }
    default:
        if (w->run->check_races)
            sim_races_warp_sync(w->run, warp, members);
        break;
    }
}
