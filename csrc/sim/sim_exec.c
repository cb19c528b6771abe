/*
 * sim_exec.c: runs a split of a warp until it has to stop. Knows no counter and no scheduler: it
 * counts how often basic blocks are entered, hands memory instructions on, and says why it stopped.
 * The invariant at every stop: the top entry's pc is where to go on.
 */
#include "sim_run.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#define U32(offset) ((sim_u32 *)(void *)(regs + (offset)))
#define U64(offset) ((sim_u64 *)(void *)(regs + (offset)))
#define PRED(offset) (*(sim_u32 *)(void *)(regs + (offset)))

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define LANE_LOOP _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < SIM_LANES; i++)
#else
#define LANE_LOOP _Pragma("GCC ivdep") for (int i = 0; i < SIM_LANES; i++)
#endif

/* Only the lanes of the mask. */
static void blend(uint8_t *to, const uint8_t *from, uint32_t mask, uint32_t bytes) {
    if (bytes == 4) {
        sim_u32 *d = (sim_u32 *)(void *)to;
        const sim_u32 *s = (const sim_u32 *)(const void *)from;
        for (uint32_t m = mask; m; m &= m - 1) {
            int i = __builtin_ctz(m);
            d[i] = s[i];
        }
    } else {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(m) * bytes;
            memcpy(to + i, from + i, bytes);
        }
    }
}

/* ---- modifiers: rounding, flushing and saturation around a lane operation ---- */

/* Whether .ftz concerns values of this type. Conversions flush single precision alone. */
static int flushes(const struct sim_lane_op *row, unsigned type) {
    return type == SIM_T_F32 ||
           ((type == SIM_T_F16 || type == SIM_T_F16X2) && memcmp(row->mnemonic, "cvt", 3) != 0);
}

static void flush(uint8_t *lanes, unsigned type) {
    for (int i = 0; i < SIM_LANES && type == SIM_T_F32; i++) {
        sim_u32 *u = (sim_u32 *)(void *)lanes + i;
        if (!(*u & 0x7f800000u))
            *u &= 0x80000000u;
    }
    const int halves = type == SIM_T_F16 ? 1 : type == SIM_T_F16X2 ? 2 : 0;
    for (int i = 0; i < SIM_LANES * halves; i++) {
        sim_u16 *u = (sim_u16 *)(void *)lanes + i;
        if (!(*u & 0x7c00u))
            *u &= 0x8000u;
    }
}

static void saturate(uint8_t *lanes, unsigned type) {
    for (int i = 0; i < SIM_LANES; i++) {
        if (type == SIM_T_F32) {
            float x;
            memcpy(&x, lanes + i * 4, 4);
            x = !(x > 0) ? 0 : x > 1 ? 1 : x; /* NaN too becomes +0 */
            memcpy(lanes + i * 4, &x, 4);
        } else if (type == SIM_T_F64) {
            double x;
            memcpy(&x, lanes + i * 8, 8);
            x = !(x > 0) ? 0 : x > 1 ? 1 : x;
            memcpy(lanes + i * 8, &x, 8);
        } else if (type == SIM_T_F16 || type == SIM_T_BF16 || type == SIM_T_F16X2 ||
                   type == SIM_T_BF16X2) {
            uint16_t one = type == SIM_T_F16 || type == SIM_T_F16X2 ? 0x3c00 : 0x3f80,
                     infinity = one == 0x3c00 ? 0x7c00 : 0x7f80;
            int halves = type == SIM_T_F16 || type == SIM_T_BF16 ? 1 : 2;
            for (int h = 0; h < halves; h++) {
                uint16_t x;
                memcpy(&x, lanes + (i * halves + h) * 2, 2);
                x = (x & 0x8000) || x > infinity ? 0 : x > one ? one : x;
                memcpy(lanes + (i * halves + h) * 2, &x, 2);
            }
        }
    }
}

static void relu(uint8_t *lanes, unsigned type) {
    int halves = type == SIM_T_F16 || type == SIM_T_BF16       ? 1
                 : type == SIM_T_F16X2 || type == SIM_T_BF16X2 ? 2
                                                               : 0;
    for (int i = 0; i < SIM_LANES * halves; i++) {
        uint16_t x;
        memcpy(&x, lanes + i * 2, 2);
        if ((x & 0x8000) &&
            (x & 0x7fff) <= (type == SIM_T_F16 || type == SIM_T_F16X2 ? 0x7c00 : 0x7f80))
            x = 0;
        memcpy(lanes + i * 2, &x, 2);
    }
}

/* Whether a result is too small for ftz is decided before it is rounded (an H200 does so): what
 * only rounding lifts to the least normal number is flushed as well. Rounded toward zero it stays
 * below. */
static void flush_before_rounding(struct sim_worker *w, const struct sim_insn *in, uint8_t *d,
                                  const uint8_t *const inputs[4]) {
    enum { LEAST_NORMAL = 0x00800000, MAGNITUDE = 0x7fffffff };
    uint32_t result[SIM_LANES], toward_zero[SIM_LANES], least = 0;
    memcpy(result, d, sizeof result);
    for (int i = 0; i < SIM_LANES; i++)
        least |= (result[i] & MAGNITUDE) == LEAST_NORMAL;
    if (!least)
        return;
    fesetround(FE_TOWARDZERO);
    __asm__ volatile("" ::: "memory");
    in->fn(w->scratch[0], inputs[0], inputs[1], inputs[2], inputs[3]);
    __asm__ volatile("" ::: "memory");
    fesetround(FE_TONEAREST);
    memcpy(toward_zero, w->scratch[0], sizeof toward_zero);
    for (int i = 0; i < SIM_LANES; i++)
        if ((result[i] & MAGNITUDE) == LEAST_NORMAL && (toward_zero[i] & MAGNITUDE) < LEAST_NORMAL)
            result[i] &= ~(uint32_t)MAGNITUDE;
    memcpy(d, result, sizeof result);
}

static SIM_NOINLINE void modified_lane(struct sim_worker *w, const struct sim_insn *in, uint8_t *d,
                                       const uint8_t *regs) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    const struct sim_lane_op *row = &sim_lane_ops[in->ext];
    const uint32_t slots[4] = {in->a, in->b, in->c, in->e};
    const uint8_t *inputs[4];
    for (int i = 0; i < 4; i++) {
        unsigned type = row->types[i + 1];
        inputs[i] = regs + slots[i];
        if ((in->mods & SIM_M_FTZ) && flushes(row, type)) {
            memcpy(w->scratch[i + 1], inputs[i], SIM_LANES * sim_types[type].bytes);
            flush(w->scratch[i + 1], type);
            inputs[i] = w->scratch[i + 1];
        }
    }
    if (in->mods & SIM_M_ROUND)
        fesetround(modes[in->mods & SIM_M_ROUND]);
    /* the operation reads and writes memory: it stays between the two changes of mode */
    __asm__ volatile("" ::: "memory");
    in->fn(d, inputs[0], inputs[1], inputs[2], inputs[3]);
    __asm__ volatile("" ::: "memory");
    if (in->mods & SIM_M_ROUND)
        fesetround(FE_TONEAREST);
    if (in->op == SIM_OP_MASK)
        return;
    if ((in->mods & SIM_M_FTZ) && in->type == SIM_T_F32 && row->types[1] == SIM_T_F32)
        flush_before_rounding(w, in, d, inputs);
    if ((in->mods & SIM_M_FTZ) && flushes(row, in->type))
        flush(d, in->type);
    if (in->mods & SIM_M_SAT)
        saturate(d, in->type);
    if (in->mods & SIM_M_RELU)
        relu(d, in->type);
}

static SIM_NOINLINE int check_division(struct sim_worker *w, struct sim_warp *warp,
                                       const struct sim_insn *in, uint32_t pc, uint32_t mask,
                                       const uint8_t *regs) {
    if (in->dsize == 4 || in->dsize == 8) { /* the usual answer first */
        uint32_t zeros = 0;
        if (in->dsize == 4) {
            const sim_u32 *b = (const sim_u32 *)(const void *)(regs + in->b);
            for (int i = 0; i < SIM_LANES; i++)
                zeros |= b[i] == 0;
        } else {
            const sim_u64 *b = (const sim_u64 *)(const void *)(regs + in->b);
            for (int i = 0; i < SIM_LANES; i++)
                zeros |= b[i] == 0;
        }
        if (!zeros)
            return 0;
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), zero = 1;
        for (uint32_t b = 0; b < in->dsize; b++)
            zero &= regs[in->b + lane * in->dsize + b] == 0;
        if (zero)
            return sim_find(w, warp, pc, lane, SIM_FIND_DIVISION, 0, NULL,
                            "an integer is divided by zero; guard the division, or make sure that "
                            "the divisor cannot be 0");
    }
    return 0;
}

/* ---- special registers ---- */

static uint32_t special_value(const struct sim_worker *w, const struct sim_warp *warp,
                              unsigned which, uint32_t lane) {
    const struct sim_block *block = warp->block;
    const struct sim_run *run = w->run;
    const struct sim_launch *launch = run->launch;
    switch (which) {
    case SIM_SPECIAL_TID_X:
        return warp->tid[0][lane];
    case SIM_SPECIAL_TID_Y:
        return warp->tid[1][lane];
    case SIM_SPECIAL_TID_Z:
        return warp->tid[2][lane];
    case SIM_SPECIAL_NTID_X:
        return launch->block[0];
    case SIM_SPECIAL_NTID_Y:
        return launch->block[1];
    case SIM_SPECIAL_NTID_Z:
        return launch->block[2];
    case SIM_SPECIAL_CTAID_X:
    case SIM_SPECIAL_CLUSTERID_X:
        return block->index[0];
    case SIM_SPECIAL_CTAID_Y:
    case SIM_SPECIAL_CLUSTERID_Y:
        return block->index[1];
    case SIM_SPECIAL_CTAID_Z:
    case SIM_SPECIAL_CLUSTERID_Z:
        return block->index[2];
    case SIM_SPECIAL_NCTAID_X:
    case SIM_SPECIAL_NCLUSTERID_X:
        return launch->grid[0];
    case SIM_SPECIAL_NCTAID_Y:
    case SIM_SPECIAL_NCLUSTERID_Y:
        return launch->grid[1];
    case SIM_SPECIAL_NCTAID_Z:
    case SIM_SPECIAL_NCLUSTERID_Z:
        return launch->grid[2];
    case SIM_SPECIAL_LANEID:
        return lane;
    case SIM_SPECIAL_WARPID:
        return warp->index;
    case SIM_SPECIAL_NWARPID:
        return run->preset->warps_per_sm;
    case SIM_SPECIAL_SMID:
        return (uint32_t)(block->linear % run->preset->sm_count);
    case SIM_SPECIAL_NSMID:
        return run->preset->sm_count;
    case SIM_SPECIAL_LANEMASK_EQ:
        return 1u << lane;
    case SIM_SPECIAL_LANEMASK_LE:
        return (uint32_t)((2ull << lane) - 1);
    case SIM_SPECIAL_LANEMASK_LT:
        return (1u << lane) - 1;
    case SIM_SPECIAL_LANEMASK_GE:
        return ~((1u << lane) - 1);
    case SIM_SPECIAL_LANEMASK_GT:
        return ~(uint32_t)((2ull << lane) - 1);
    case SIM_SPECIAL_DYN_SMEM:
        return launch->shared_bytes;
    case SIM_SPECIAL_TOTAL_SMEM:
    case SIM_SPECIAL_AGGR_SMEM:
        return (uint32_t)run->shared_bytes;
    case SIM_SPECIAL_CLUSTER_NCTAID_X:
    case SIM_SPECIAL_CLUSTER_NCTAID_Y:
    case SIM_SPECIAL_CLUSTER_NCTAID_Z:
    case SIM_SPECIAL_CLUSTER_NCTARANK:
        return 1;
    case SIM_SPECIAL_WARP_SZ:
        return SIM_LANES;
    default:
        return 0;
    }
}

static SIM_NOINLINE void special_register(struct sim_worker *w, const struct sim_warp *warp,
                                          const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    uint64_t clock = warp->block->steps + warp->steps, grid_sync = 0;
    /* cooperative groups find the grid's barrier through these two; it follows the parameters */
    if (in->sub == SIM_SPECIAL_ENVREG1 || in->sub == SIM_SPECIAL_ENVREG2)
        grid_sync = w->run->launch->flags & SIM_LAUNCH_COOPERATIVE ? w->run->gpu->grid_sync : 0;
    if (mask == SIM_FULL && in->dsize == 4) {
        sim_u32 *to = U32(in->dst);
        if (in->sub <= SIM_SPECIAL_TID_Z) {
            memcpy(to, warp->tid[in->sub - SIM_SPECIAL_TID_X], SIM_LANES * 4);
            return;
        }
        if (in->sub <= SIM_SPECIAL_NCTAID_Z) {
            uint32_t value = special_value(w, warp, in->sub, 0);
            for (int i = 0; i < SIM_LANES; i++)
                to[i] = value;
            return;
        }
    }
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        uint64_t value;
        switch (in->sub) {
        case SIM_SPECIAL_CLOCK:
        case SIM_SPECIAL_CLOCK64:
        case SIM_SPECIAL_GLOBALTIMER:
            value = clock;
            break;
        case SIM_SPECIAL_GLOBALTIMER_LO:
            value = (uint32_t)clock;
            break;
        case SIM_SPECIAL_CLOCK_HI:
        case SIM_SPECIAL_GLOBALTIMER_HI:
            value = clock >> 32;
            break;
        case SIM_SPECIAL_ENVREG1:
            value = grid_sync >> 32;
            break;
        case SIM_SPECIAL_ENVREG2:
            value = (uint32_t)grid_sync;
            break;
        default:
            value = special_value(w, warp, in->sub, lane);
            break;
        }
        memcpy(regs + in->dst + lane * in->dsize, &value, in->dsize);
    }
}

/* ---- carry chains ---- */

static SIM_NOINLINE void carry_chain(const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    __extension__ typedef unsigned __int128 u128;
    __extension__ typedef __int128 s128;
    uint32_t carry = PRED(in->e);
    unsigned bits = in->dsize * 8u;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m), cin = in->sub & 1 ? carry >> lane & 1 : 0, cout;
        uint64_t a = 0, b = 0, c = 0, r;
        memcpy(&a, regs + in->a + lane * in->dsize, in->dsize);
        memcpy(&b, regs + in->b + lane * in->dsize, in->dsize);
        if (in->op == SIM_OP_MADCC) {
            memcpy(&c, regs + in->c + lane * in->dsize, in->dsize);
            u128 product = (u128)a * b;
            if (in->sub & 8)
                product = bits == 32 ? (u128)(uint64_t)((int64_t)(int32_t)a * (int32_t)b)
                                     : (u128)((s128)(int64_t)a * (int64_t)b);
            a = in->sub & 4 ? (uint64_t)(product >> bits) : (uint64_t)product;
            b = c;
            if (bits == 32) {
                a = (uint32_t)a;
            }
        }
        u128 sum = in->op == SIM_OP_SUBCC ? (u128)a - b - cin : (u128)a + b + cin;
        r = (uint64_t)sum;
        cout = (uint32_t)(sum >> bits) & 1;
        memcpy(regs + in->dst + lane * in->dsize, &r, in->dsize);
        if (in->sub & 2)
            carry = (carry & ~(1u << lane)) | cout << lane;
    }
    PRED(in->e) = carry;
}

/* ---- warp-wide ---- */

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
    blend(regs + in->dst, w->scratch[0], mask, 4);
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
static uint32_t members_of(const struct sim_insn *in, uint32_t mask, const uint8_t *regs,
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

static void warp_wide(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
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

/* ---- calls ---- */

static int call(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split, uint32_t pc,
                uint32_t mask) {
    const struct sim_kernel *k = w->run->kernel;
    const struct sim_insn *in = &k->code[pc];
    const uint32_t *extra = &k->extra[in->ext];
    const struct sim_code_function *callee = &k->functions[extra[0]];
    const struct sim_frame *top = &split->frames[split->frame_count - 1];
    uint64_t base = 0, local_base = top->local_base + k->functions[top->function].local_bytes;
    for (uint32_t s = 0; s < warp->split_count; s++) { /* above every frame in use */
        const struct sim_frame *f = &warp->splits[s].frames[warp->splits[s].frame_count - 1];
        uint64_t end = (uint64_t)f->base + k->functions[f->function].frame_bytes;
        base = end > base ? end : base;
    }
    if (split->frame_count >= w->run->gpu->limits.call_depth ||
        local_base + callee->local_bytes > w->run->gpu->limits.local_bytes ||
        base + callee->frame_bytes > (1u << 28))
        return sim_find(w, warp, pc, (uint32_t)__builtin_ctz(mask), SIM_FIND_STACK, 0, NULL,
                        "calls nest %u deep and need %llu bytes of stack; recursion has to end",
                        split->frame_count, (unsigned long long)local_base),
               1;
    if (!sim_warp_reserve(warp, base + callee->frame_bytes, local_base + callee->local_bytes) ||
        !sim_warp_push_frame(
            split, (struct sim_frame){extra[0], (uint32_t)base, (uint32_t)local_base, pc}))
        return w->status =
                   sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for call frames"),
               1;
    memcpy(warp->regs + base + callee->const_offset, callee->constants, callee->const_bytes);
    for (uint32_t p = 0; p < callee->param_count; p++) {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint64_t lane = (uint64_t)__builtin_ctz(m) * warp->local_stride;
            memcpy(warp->local + lane + local_base + callee->param_offsets[p],
                   warp->local + lane + split->frames[split->frame_count - 2].local_base +
                       extra[1 + p],
                   callee->param_sizes[p]);
            sim_warp_mark_local(warp, lane + local_base + callee->param_offsets[p],
                                callee->param_sizes[p]);
        }
    }
    if (local_base + callee->local_bytes > warp->local_top)
        warp->local_top = (uint32_t)local_base + callee->local_bytes;
    split->stack[split->depth - 1].pc = pc + 1;
    if (!sim_warp_push(split, callee->entry_pc, SIM_NO_PC, mask))
        return w->status =
                   sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for call frames"),
               1;
    return 0;
}

static void return_from(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                        uint32_t mask) {
    const struct sim_kernel *k = w->run->kernel;
    const struct sim_frame callee = split->frames[split->frame_count - 1],
                           caller = split->frames[split->frame_count - 2];
    const uint32_t *extra = &k->extra[k->code[callee.call_pc].ext];
    const struct sim_code_function *cf = &k->functions[callee.function];
    for (uint32_t r = 0; r < cf->return_count; r++) {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint64_t lane = (uint64_t)__builtin_ctz(m) * warp->local_stride,
                     to = lane + caller.local_base + extra[1 + cf->param_count + r];
            memcpy(warp->local + to, warp->local + lane + callee.local_base + cf->return_offsets[r],
                   cf->return_sizes[r]);
            sim_warp_mark_local(warp, to, cf->return_sizes[r]);
        }
    }
    if (warp->split_count == 1)
        warp->local_top = callee.local_base;
    split->frame_count--;
    split->depth--;
}

/* ---- branches ---- */

/* Lanes part: `taken` go to target, the rest on at `fall`. Returns 0 when out of memory. */
static int diverge(struct sim_split *split, uint32_t taken, uint32_t target, uint32_t fall,
                   uint32_t meet) {
    struct sim_entry *top = &split->stack[split->depth - 1];
    uint32_t rest = top->mask & ~taken;
    if (meet == SIM_NO_PC)
        meet = top->reconverge; /* the exit is never reached from here: what was expected before
                                   still holds */
    if (top->reconverge == meet)
        split->depth--; /* the entry below already waits there, with all these lanes */
    else
        top->pc = meet;
    return (fall == meet || sim_warp_push(split, fall, meet, rest)) &&
           (target == meet || sim_warp_push(split, target, meet, taken));
}

/* A branch of many targets: one entry for each that some lane takes. */
static int branch_indexed(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                          const struct sim_insn *in, uint32_t pc, uint32_t mask,
                          const uint8_t *regs) {
    const struct sim_kernel *k = w->run->kernel;
    const sim_u32 *index = (const sim_u32 *)(const void *)(regs + in->a);
    struct sim_entry *top = &split->stack[split->depth - 1];
    uint32_t meet = in->c, left = mask, rest = top->mask & ~mask,
             first = k->extra[in->ext + (index[__builtin_ctz(mask)] < (uint64_t)in->imm
                                             ? index[__builtin_ctz(mask)]
                                             : 0)];
    uint32_t same = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (index[lane] >= (uint64_t)in->imm) {
            sim_find(w, warp, pc, lane, SIM_FIND_BAD_CALL, 0, NULL,
                     "brx.idx with index %u of %lld targets", index[lane], (long long)in->imm);
            return 1;
        }
        same += k->extra[in->ext + index[lane]] == first;
    }
    if (!rest && same == (uint32_t)__builtin_popcount(mask)) {
        top->pc = first;
        return 0;
    }
    w->pcs[pc].divergent++;
    if (meet == SIM_NO_PC)
        meet = top->reconverge;
    if (top->reconverge == meet)
        split->depth--;
    else
        top->pc = meet;
    if (rest && pc + 1 != meet && !sim_warp_push(split, pc + 1, meet, rest))
        return -1;
    while (left) {
        uint32_t target = k->extra[in->ext + index[__builtin_ctz(left)]], group = 0;
        for (uint32_t m = left; m; m &= m - 1)
            if (k->extra[in->ext + index[__builtin_ctz(m)]] == target)
                group |= 1u << __builtin_ctz(m);
        left &= ~group;
        if (target != meet && !sim_warp_push(split, target, meet, group))
            return -1;
    }
    return 0;
}

/* ---- the loop ---- */

/* A warp that sees the same value at the same instruction again and again waits for somebody: let
 * others run. */
static int spinning(struct sim_warp *warp, uint32_t pc, int unchanged) {
    if (warp->spin_pc == pc && unchanged) {
        if (++warp->spin_count >= 16) {
            warp->spin_count = 15;
            return 1;
        }
    } else {
        warp->spin_count = 0;
        warp->spin_pc = pc;
    }
    return 0;
}

/* Another worker may hand the token over at any time, and with it what its block wrote. */
static int has_token(const struct sim_block *block) {
    return __atomic_load_n(&block->has_token, __ATOMIC_ACQUIRE);
}

static int communicates(const struct sim_insn *in) {
    return in->space != SIM_S_SHARED && in->space != SIM_S_LOCAL;
}

enum sim_stop sim_exec(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                       uint64_t budget) {
    struct sim_run *run = w->run;
    const struct sim_kernel *k = run->kernel;
    const struct sim_insn *code = w->recorder ? sim_trace_code(w->recorder) : k->code;
    struct sim_block_count *counts = w->blocks;
    uint64_t steps = 0;
    uint32_t pc, active, local_base;
    uint8_t *regs;
    enum sim_stop stop = SIM_STOP_SLICE;

#define RELOAD()                                                                 \
    do {                                                                         \
        const struct sim_entry *top_ = &split->stack[split->depth - 1];          \
        const struct sim_frame *frame_ = &split->frames[split->frame_count - 1]; \
        pc = top_->pc;                                                           \
        active = top_->mask;                                                     \
        regs = warp->regs + frame_->base;                                        \
        local_base = frame_->local_base;                                         \
    } while (0)
    if (!split->depth)
        return SIM_STOP_DONE;
    RELOAD();
    for (;;) {
        const struct sim_insn *in = &code[pc];
    recorded:;
        uint32_t mask = active;
        if (SIM_UNLIKELY(in->flags & (SIM_F_GUARD | SIM_F_DIV))) {
            if (in->flags & SIM_F_GUARD) {
                uint32_t p = PRED(in->guard);
                mask &= in->flags & SIM_F_GUARD_NOT ? ~p : p;
                if (in->op != SIM_OP_BRA) {
                    w->pcs[pc].guard_off += (uint64_t)__builtin_popcount(active & ~mask);
                    if (!mask) {
                        pc++;
                        continue;
                    }
                }
            }
            if ((in->flags & SIM_F_DIV) && check_division(w, warp, in, pc, mask, regs))
                goto failed;
        }
        switch (in->op) {
        case SIM_OP_LANE: {
            uint8_t *to = mask == SIM_FULL ? regs + in->dst : w->scratch[0];
            if (SIM_UNLIKELY(in->flags & SIM_F_MODS))
                modified_lane(w, in, to, regs);
            else
                in->fn(to, regs + in->a, regs + in->b, regs + in->c, regs + in->e);
            if (mask != SIM_FULL)
                blend(regs + in->dst, to, mask, in->dsize);
            break;
        }
        case SIM_OP_MASK: {
            sim_u32 r;
            if (SIM_UNLIKELY(in->flags & SIM_F_MODS))
                modified_lane(w, in, (uint8_t *)&r, regs);
            else
                in->fn(&r, regs + in->a, regs + in->b, NULL, NULL);
            uint32_t p = r, q = ~p;
            if (in->sub) {
                uint32_t other = PRED(in->e);
                p = in->sub == 1 ? p & other : in->sub == 2 ? p | other : p ^ other;
                q = in->sub == 1 ? q & other : in->sub == 2 ? q | other : q ^ other;
            }
            PRED(in->dst) = (PRED(in->dst) & ~mask) | (p & mask);
            if (in->dst2 != SIM_NO_SLOT)
                PRED(in->dst2) = (PRED(in->dst2) & ~mask) | (q & mask);
            break;
        }
        case SIM_OP_BLOCK: {
            const struct sim_entry *top = &split->stack[split->depth - 1];
            if (SIM_UNLIKELY(pc == top->reconverge)) {
                split->depth--;
                split->patience = 0;
                while (split->depth && !split->stack[split->depth - 1].mask)
                    split->depth--;
                RELOAD();
                if (warp->split_count > 1) {
                    split->state = SIM_SPLIT_REJOIN;
                    stop = SIM_STOP_SPLIT;
                    goto stopped;
                }
                continue;
            }
            if (SIM_UNLIKELY(steps >= budget))
                goto stopped;
            counts[in->ext].warps++;
            counts[in->ext].threads += sim_lanes_in(active);
            steps += k->blocks[in->ext].count + 1;
            break;
        }
        case SIM_OP_BRA: {
            if (mask == active) {
                pc = in->ext;
                continue;
            }
            if (!mask)
                break;
            w->pcs[pc].divergent++;
            if (!diverge(split, mask, in->ext, pc + 1, in->c))
                goto out_of_memory;
            while (!split->stack[split->depth - 1].mask)
                split->depth--;
            RELOAD();
            continue;
        }
        case SIM_OP_BRX: {
            split->stack[split->depth - 1].pc = pc;
            int r = branch_indexed(w, warp, split, in, pc, mask, regs);
            if (r > 0)
                goto failed;
            if (r < 0)
                goto out_of_memory;
            RELOAD();
            continue;
        }
        case SIM_OP_CALL:
            if (call(w, warp, split, pc, mask))
                goto failed;
            RELOAD();
            continue;
        case SIM_OP_RET:
            return_from(w, warp, split, mask);
            while (split->depth && !split->stack[split->depth - 1].mask)
                split->depth--;
            if (!split->depth) {
                stop = SIM_STOP_DONE;
                goto left;
            }
            RELOAD();
            continue;
        case SIM_OP_EXIT:
            if (mask != active)
                split->stack[split->depth - 1].pc = pc + 1;
            sim_warp_exit(warp, split, mask);
            if (!split->depth) {
                stop = SIM_STOP_DONE;
                goto left;
            }
            RELOAD();
            continue;
        case SIM_OP_TRAP:
            sim_find(w, warp, pc, (uint32_t)__builtin_ctz(mask), SIM_FIND_TRAP, 0, NULL,
                     "the kernel executed trap");
            goto failed;
        case SIM_OP_NOP:
        case SIM_OP_PREFETCH:
        case SIM_OP_CPWAIT:
            break;
        case SIM_OP_PAND:
            PRED(in->dst) = (PRED(in->dst) & ~mask) | (PRED(in->a) & PRED(in->b) & mask);
            break;
        case SIM_OP_POR:
            PRED(in->dst) = (PRED(in->dst) & ~mask) | ((PRED(in->a) | PRED(in->b)) & mask);
            break;
        case SIM_OP_PXOR:
            PRED(in->dst) = (PRED(in->dst) & ~mask) | ((PRED(in->a) ^ PRED(in->b)) & mask);
            break;
        case SIM_OP_PNOT:
            PRED(in->dst) = (PRED(in->dst) & ~mask) | (~PRED(in->a) & mask);
            break;
        case SIM_OP_PMOV:
            PRED(in->dst) = (PRED(in->dst) & ~mask) | (PRED(in->a) & mask);
            break;
        case SIM_OP_PCONST:
            PRED(in->dst) = (PRED(in->dst) & ~mask) | (in->imm ? mask : 0);
            break;
        case SIM_OP_SELP: {
            uint32_t p = PRED(in->c);
            uint8_t *to = mask == SIM_FULL ? regs + in->dst : w->scratch[0];
            if (in->dsize == 4) {
                const sim_u32 *a = U32(in->a), *b = U32(in->b);
                sim_u32 *d = (sim_u32 *)(void *)to;
                LANE_LOOP d[i] = p >> i & 1 ? a[i] : b[i];
            } else if (in->dsize == 8) {
                const sim_u64 *a = U64(in->a), *b = U64(in->b);
                sim_u64 *d = (sim_u64 *)(void *)to;
                LANE_LOOP d[i] = p >> i & 1 ? a[i] : b[i];
            } else {
                const sim_u16 *a = (sim_u16 *)(void *)(regs + in->a),
                              *b = (sim_u16 *)(void *)(regs + in->b);
                sim_u16 *d = (sim_u16 *)(void *)to;
                LANE_LOOP d[i] = p >> i & 1 ? a[i] : b[i];
            }
            if (mask != SIM_FULL)
                blend(regs + in->dst, to, mask, in->dsize);
            break;
        }
        case SIM_OP_SREG:
            special_register(w, warp, in, mask, regs);
            break;
        case SIM_OP_LOCALADDR:
            for (uint32_t m = mask; m; m &= m - 1) {
                uint64_t address = (uint64_t)in->imm + local_base;
                memcpy(regs + in->dst + (uint32_t)__builtin_ctz(m) * in->dsize, &address,
                       in->dsize);
            }
            break;
        case SIM_OP_ADDCC:
        case SIM_OP_SUBCC:
        case SIM_OP_MADCC:
            carry_chain(in, mask, regs);
            break;
        case SIM_OP_CVTA:
            for (uint32_t m = mask; m; m &= m - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(m);
                uint64_t value = 0;
                memcpy(&value, regs + in->a + lane * in->dsize, in->dsize);
                value += (uint64_t)in->imm;
                memcpy(regs + in->dst + lane * in->dsize, &value, in->dsize);
            }
            break;
        case SIM_OP_ISSPACEP: {
            uint32_t yes = 0;
            uint64_t window = in->space == SIM_S_SHARED  ? SIM_SHARED_WINDOW
                              : in->space == SIM_S_LOCAL ? SIM_LOCAL_WINDOW
                                                         : SIM_PARAM_WINDOW;
            for (uint32_t m = mask; m; m &= m - 1) {
                int lane = __builtin_ctz(m);
                uint64_t address = U64(in->a)[lane];
                int is = in->space == SIM_S_GLOBAL || in->space == SIM_S_CONST
                             ? address < SIM_WINDOW_BASE
                             : address - window < SIM_WINDOW_BYTES;
                yes |= (uint32_t)is << lane;
            }
            PRED(in->dst) = (PRED(in->dst) & ~mask) | yes;
            break;
        }
        case SIM_OP_LD:
        case SIM_OP_ST:
            split->stack[split->depth - 1].pc = pc;
            if (SIM_UNLIKELY(in->order != SIM_ORDER_WEAK)) {
                if (!has_token(warp->block) && communicates(in)) {
                    stop = SIM_STOP_TOKEN;
                    goto stopped;
                }
                split->patience++;
                uint32_t lane = (uint32_t)__builtin_ctz(mask), bytes = in->dsize;
                uint64_t before = 0, after = 0;
                if (in->op == SIM_OP_LD && in->dst != SIM_NO_SLOT)
                    memcpy(&before, regs + in->dst + lane * bytes, bytes);
                if (in->op == SIM_OP_LD ? sim_exec_load(w, warp, in, mask, regs, local_base)
                                        : sim_exec_store(w, warp, in, mask, regs, local_base))
                    goto failed;
                if (in->op == SIM_OP_LD && in->dst != SIM_NO_SLOT)
                    memcpy(&after, regs + in->dst + lane * bytes, bytes);
                if (in->op == SIM_OP_LD && spinning(warp, pc, before == after)) {
                    pc++;
                    stop = SIM_STOP_YIELD;
                    goto stopped;
                }
                break;
            }
            if (in->op == SIM_OP_LD ? sim_exec_load(w, warp, in, mask, regs, local_base)
                                    : sim_exec_store(w, warp, in, mask, regs, local_base))
                goto failed;
            break;
        case SIM_OP_LDPARAM:
            split->stack[split->depth - 1].pc = pc;
            if (sim_load_param(w, warp, in, mask, regs))
                goto failed;
            break;
        case SIM_OP_ATOM: {
            split->stack[split->depth - 1].pc = pc;
            if (!has_token(warp->block) && communicates(in)) {
                stop = SIM_STOP_TOKEN;
                goto stopped;
            }
            split->patience++;
            uint32_t lane = (uint32_t)__builtin_ctz(mask);
            uint64_t before = 0, after = 1;
            if (in->dst != SIM_NO_SLOT)
                memcpy(&before, regs + in->dst + lane * in->dsize, in->dsize);
            if (sim_exec_atomic(w, warp, in, mask, regs))
                goto failed;
            if (in->dst != SIM_NO_SLOT && (after = 0, 1))
                memcpy(&after, regs + in->dst + lane * in->dsize, in->dsize);
            if (spinning(warp, pc, before == after)) {
                pc++;
                stop = SIM_STOP_YIELD;
                goto stopped;
            }
            break;
        }
        case SIM_OP_SHFL:
        case SIM_OP_VOTE:
        case SIM_OP_MATCH:
        case SIM_OP_REDUX:
        case SIM_OP_ELECT:
        case SIM_OP_WARPSYNC: {
            uint32_t same, members = members_of(in, mask, regs, &same);
            split->stack[split->depth - 1].pc = pc;
            for (uint32_t left = mask & ~same; left; left &= ~same) { /* other tiles, if complete */
                uint32_t others = members_of(in, left, regs, &same);
                if (same != (others & warp->live)) {
                    sim_find(w, warp, pc, (uint32_t)__builtin_ctz(same), SIM_FIND_WARP_SYNC, 0,
                             NULL,
                             "lanes 0x%08x arrive with member mask 0x%08x while others of the warp "
                             "name another mask, and some of its lanes are elsewhere",
                             same, others);
                    goto failed;
                }
                warp_wide(w, warp, in, same, others, regs);
                mask &= ~same;
            }
            if (SIM_UNLIKELY(members != mask)) {
                int r = sim_warp_sync(w, warp, split, pc, &mask, members);
                if (r < 0)
                    goto failed;
                if (r > 0) { /* others have to come first */
                    if (w->recorder)
                        sim_trace_undo(w->recorder);
                    stop = SIM_STOP_SPLIT;
                    goto stopped;
                }
                if (w->recorder)
                    sim_trace_members(w->recorder, mask);
            }
            warp_wide(w, warp, in, mask, members, regs);
            break;
        }
        case SIM_OP_ACTIVEMASK:
            for (uint32_t m = mask; m; m &= m - 1)
                U32(in->dst)[__builtin_ctz(m)] = mask;
            break;
        case SIM_OP_BAR: {
            split->stack[split->depth - 1].pc = pc;
            int r = sim_warp_barrier(w, warp, split, in, mask, regs);
            if (r < 0)
                goto failed;
            if (r > 0) {
                pc++;
                stop = r == 1 ? SIM_STOP_BARRIER : SIM_STOP_SPLIT;
                goto stopped;
            }
            break;
        }
        case SIM_OP_FENCE:
            if (run->check_races)
                sim_races_fence(run, warp, in->scope);
            break;
        case SIM_OP_NANOSLEEP:
            pc++;
            stop = SIM_STOP_YIELD;
            goto stopped;
        case SIM_OP_CPASYNC:
        case SIM_OP_BULK:
            split->stack[split->depth - 1].pc = pc;
            if (sim_exec_copy(w, warp, in, mask, regs))
                goto failed;
            break;
        case SIM_OP_MBAR: {
            int waits = 0;
            split->stack[split->depth - 1].pc = pc;
            if (sim_exec_mbarrier(w, warp, in, mask, regs, &waits))
                goto failed;
            if (waits) {
                split->patience++;
                pc++;
                stop = SIM_STOP_YIELD;
                goto stopped;
            }
            break;
        }
        case SIM_OP_TEX:
            split->stack[split->depth - 1].pc = pc;
            if (sim_exec_texture(w, warp, in, mask, regs))
                goto failed;
            break;
        case SIM_OP_SYSCALL:
            split->stack[split->depth - 1].pc = pc;
            if (in->sub == SIM_CALL_ASSERT) {
                sim_find(w, warp, pc, (uint32_t)__builtin_ctz(mask), SIM_FIND_ASSERT, 0, NULL,
                         "an assertion of the kernel failed");
                goto failed;
            }
            for (uint32_t m = mask; m && in->b != SIM_NO_SLOT;
                 m &= m - 1) { /* printf prints nothing here */
                uint64_t at = (uint64_t)__builtin_ctz(m) * warp->local_stride + local_base + in->b;
                memset(warp->local + at, 0, 4);
                sim_warp_mark_local(warp, at, 4);
            }
            break;
        case SIM_OP_TRACE:
            sim_trace_instruction(w, warp, pc, active, regs);
            in = &k->code[pc];
            goto recorded;
        default:
            break;
        }
        pc++;
    }
out_of_memory:
    w->status = sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for diverged warps");
failed:
    stop = SIM_STOP_ERROR;
stopped:
    if (stop == SIM_STOP_TOKEN && w->recorder)
        sim_trace_undo(w->recorder);
    if (split->depth)
        split->stack[split->depth - 1].pc = pc;
left:
    warp->steps += steps;
    warp->block->turn_left -= (int64_t)steps;
    return stop;
#undef RELOAD
}
