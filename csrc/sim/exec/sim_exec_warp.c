/* sim_exec_warp.c: warp-wide instructions: shuffles, votes, matches, reductions, elect and warp
 * barriers. Invariant: all lanes of the member mask are present when one executes. Knows no memory.
 */
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

/* One execution of a warp-wide instruction. */
struct wide {
    struct sim_worker *w;
    const struct sim_insn *in;
    uint32_t mask;
    uint8_t *regs;
    struct sim_warp *warp;
    int *failed; /* set when out of memory */
};

/* A lane that has exited, or takes no part, gives no value: PTX leaves it undefined. */
static SIM_NOINLINE void wide_SHFL(const struct wide *x) {
    struct sim_worker *w = x->w;
    const struct sim_insn *in = x->in;
    const uint32_t mask = x->mask;
    uint8_t *regs = x->regs;
    const sim_u32 *a = U32(in->a), *b = U32(in->b), *c = U32(in->c);
    sim_u32 *out = (sim_u32 *)(void *)w->scratch[0];
    uint32_t in_range = 0, absent = 0;
    uint8_t source[SIM_LANES] = {0};
    for (uint32_t m = mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        int by = (int)(b[lane] & 31), clamp = (int)(c[lane] & 31),
            segment = (int)(c[lane] >> 8 & 31);
        int most = (lane & segment) | (clamp & ~segment), least = lane & segment, from, ok;
        switch (in->sub) {
        case SIM_SHFL_UP:
            from = lane - by;
            ok = from >= most;
            break; /* for up, the clamp is the minimum */
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
        const uint32_t present = mask >> from & 1;
        source[lane] = (uint8_t)from;
        out[lane] = present ? a[from] : 0;
        absent |= (present ^ 1) << lane;
        in_range |= (uint32_t)ok << lane;
    }
    sim_blend(w->run, regs + in->dst, w->scratch[0], mask, 4);
    if (in->dst2 != SIM_NO_SLOT)
        PRED(in->dst2) = (PRED(in->dst2) & ~mask) | in_range;
    if (w->run->check_uninit && SIM_UNLIKELY(absent || x->warp->undefined))
        *x->failed = sim_undefined_shuffle(w, x->warp, in, mask, absent, source, regs);
}

static SIM_NOINLINE void wide_VOTE(const struct wide *x) {
    const struct sim_insn *in = x->in;
    const uint32_t mask = x->mask;
    uint8_t *regs = x->regs;
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

static SIM_NOINLINE void wide_MATCH(const struct wide *x) {
    const struct sim_insn *in = x->in;
    const uint32_t mask = x->mask;
    uint8_t *regs = x->regs;
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

static SIM_NOINLINE void wide_REDUX(const struct wide *wide) {
    const struct sim_insn *in = wide->in;
    const uint32_t mask = wide->mask;
    uint8_t *regs = wide->regs;
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

static void wide_ELECT(const struct wide *x) {
    const struct sim_insn *in = x->in;
    const uint32_t mask = x->mask, leader = (uint32_t)__builtin_ctz(mask);
    uint8_t *regs = x->regs;
    for (uint32_t m = mask; m; m &= m - 1)
        U32(in->dst)[__builtin_ctz(m)] = leader;
    if (in->dst2 != SIM_NO_SLOT)
        PRED(in->dst2) = (PRED(in->dst2) & ~mask) | 1u << leader;
}

/* Transposes an 8 x 8 matrix of 16-bit elements: a lane holds two adjacent elements of row lane
 * / 4. */
static void wide_MOVMATRIX(const struct wide *x) {
    const struct sim_insn *in = x->in;
    uint8_t *regs = x->regs;
    sim_u32 from[SIM_LANES];
    memcpy(from, U32(in->a), sizeof from);
    for (uint32_t m = x->mask; m; m &= m - 1) {
        const int lane = __builtin_ctz(m), column = lane / 4;
        sim_u32 pair = 0;
        for (int k = 0; k < 2; k++) {
            const int row = lane % 4 * 2 + k;
            const sim_u32 held = from[row * 4 + column / 2];
            pair |= (held >> column % 2 * 16 & 0xffff) << 16 * k;
        }
        U32(in->dst)[lane] = pair;
    }
}

static void wide_MATRIX(const struct wide *x) {
    sim_exec_matrix(x->w->run, x->in, x->mask, x->regs);
}

static void wide_MMA(const struct wide *x) { sim_exec_mma(x->w->run, x->in, x->mask, x->regs); }

/* Returns the member mask of the first active lane; *same receives the active lanes that name the
 * same mask: each tile of a warp has its own. */
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

int sim_exec_warp_wide(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                       uint32_t mask, uint32_t members, uint8_t *regs) {
    int failed = 0;
    const struct wide wide = {w, in, mask, regs, warp, &failed};
    switch (in->op) {
#define SIM_X(id)         \
    case SIM_OP_##id:     \
        wide_##id(&wide); \
        break;
        SIM_WARP_OPS(SIM_X)
#undef SIM_X
    default:
        if (w->run->check_races)
            sim_races_warp_sync(w->run, warp, members);
        break;
    }
    return failed;
}

/* ---- lanes of several splits ---- */

enum { OPERANDS = 5, SOURCES = 3, OPERAND_BYTES = SIM_LANES * 8 }; /* a, b, c; dst, dst2 */

/* Copies sources of these lanes from their frames to the area, or results back. */
static void copy_operands(const struct sim_run *run, const struct sim_warp *warp,
                          const struct sim_insn *in, uint32_t mask, uint8_t *area, int back) {
    const uint32_t slots[OPERANDS] = {in->a, in->b, in->c, in->dst, in->dst2};
    for (uint32_t s = 0; s < warp->split_count; s++) {
        const uint32_t lanes = sim_split_mask(&warp->splits[s]) & mask;
        for (int i = back ? SOURCES : 0; i < (back ? OPERANDS : SOURCES); i++) {
            const uint32_t slot = slots[i];
            if (slot == SIM_NO_SLOT)
                continue;
            uint8_t *here = area + i * OPERAND_BYTES,
                    *there = warp->regs + sim_split_frame(&warp->splits[s])->base + slot,
                    *to = back ? there : here, *from = back ? here : there;
            if (i == 4 || (in->op == SIM_OP_VOTE && (i == 0 || in->sub != SIM_VOTE_BALLOT)))
                *(sim_u32 *)(void *)to =
                    (*(sim_u32 *)(void *)to & ~lanes) | (*(sim_u32 *)(void *)from & lanes);
            else
                sim_blend(run, to, from, lanes,
                          i == 0 && in->op == SIM_OP_MATCH ? sim_types[in->type].bytes : 4);
        }
    }
}

/* Executes for lanes of several splits, which sim_warp_sync() has brought together at this pc.
 * Lanes that called the function from elsewhere have their registers in other frames. */
int sim_exec_joined(struct sim_worker *w, struct sim_warp *warp, const struct sim_split *split,
                    uint32_t pc, uint32_t mask, uint32_t members) {
    const struct sim_insn *in = &w->run->kernel->code[pc];
    const uint32_t base = sim_split_frame(split)->base;
    _Alignas(64) uint8_t area[OPERANDS * OPERAND_BYTES] = {0};
    uint32_t apart = 0;
    for (uint32_t s = 0; s < warp->split_count; s++)
        if (sim_split_frame(&warp->splits[s])->base != base)
            apart |= sim_split_mask(&warp->splits[s]) & mask;
    /* The fragments of matrices have more operands than the area; .aligned admits one caller. */
    if (!apart || in->op == SIM_OP_WARPSYNC || in->op == SIM_OP_MATRIX || in->op == SIM_OP_MMA) {
        return sim_exec_warp_wide(w, warp, in, mask, members, warp->regs + base);
    }
    struct sim_insn here = *in;
    here.a = 0;
    here.b = OPERAND_BYTES;
    here.c = 2 * OPERAND_BYTES;
    here.dst = 3 * OPERAND_BYTES;
    here.dst2 = in->dst2 == SIM_NO_SLOT ? SIM_NO_SLOT : 4 * OPERAND_BYTES;
    copy_operands(w->run, warp, in, mask, area, 0);
    const int failed = sim_exec_warp_wide(w, warp, &here, mask, members, area);
    copy_operands(w->run, warp, in, mask, area, 1);
    return failed;
}
