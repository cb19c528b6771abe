/* sim_undefined.c: the observer of undefined values: reads of unwritten memory and of registers
 * that were never assigned, shuffles from absent lanes, and quotients of a division by zero.
 * Compilers load and divide before the condition that uses the value, and copy structs with their
 * padding; so such a value is an error only when a branch, an address, an atomic or the result of
 * arithmetic in global memory depends on it, or when it is left in a field of an array that goes
 * back to the host.
 *
 * A warp without such values pays nothing. From its first one on it runs a copy of the code in
 * which SIM_OP_WATCH replaces every instruction, and keeps the undefined lanes of each register,
 * and the bytes that are missing where others are defined. Arithmetic and comparisons of a mixture
 * are errors; logic operations and shifts take values apart, byte by byte.
 */
#include "sim_undefined.h"

#include <stdlib.h>
#include <string.h>

#define ORIGINS_MOST 256u

void sim_undefined_free(struct sim_warp *warp) {
    if (!warp->undefined)
        return;
    free(warp->undefined->values);
    free(warp->undefined->origins);
    free(warp->undefined);
    warp->undefined = NULL;
}

static int out_of_memory(struct sim_worker *w) {
    w->status = sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for undefined values");
    return 1;
}

/* Makes the code of warps with undefined values, once for a launch. */
static int make_code(struct sim_run *run) {
    const struct sim_kernel *k = run->kernel;
    pthread_mutex_lock(&run->lock);
    if (!run->watched) {
        struct sim_insn *code = calloc(k->code_count + 1ull, sizeof *code);
        for (uint32_t pc = 0; code && pc < k->code_count; pc++)
            if (k->code[pc].op == SIM_OP_BLOCK)
                code[pc] = k->code[pc];
            else
                code[pc].op = SIM_OP_WATCH;
        run->watched = code;
    }
    pthread_mutex_unlock(&run->lock);
    return run->watched != NULL;
}

/* Makes room for the current frames. Returns 0 when out of memory. */
static int fit(struct sim_worker *w, struct sim_warp *warp) {
    if (!warp->undefined) {
        warp->undefined = make_code(w->run) ? calloc(1, sizeof *warp->undefined) : NULL;
        if (!warp->undefined)
            return 0;
    }
    struct sim_undefined *u = warp->undefined;
    const uint64_t wanted = warp->regs_bytes / 4 + 1;
    if (u->count >= wanted)
        return 1;
    struct sim_undefined_register *grown = realloc(u->values, wanted * sizeof *grown);
    if (!grown)
        return 0;
    memset(grown + u->count, 0, (wanted - u->count) * sizeof *grown);
    u->values = grown;
    u->count = wanted;
    return 1;
}

static struct sim_undefined_register *values_at(const struct sim_warp *warp, const uint8_t *regs) {
    return warp->undefined->values + (regs - warp->regs) / 4;
}

/* The origin of that pc and kind. UINT32_MAX: out of memory. */
static uint32_t origin_of(struct sim_undefined *u, uint32_t pc, enum sim_finding_kind kind) {
    for (uint32_t i = 0; i < u->origin_count; i++)
        if (u->origins[i].pc == pc && u->origins[i].kind == kind)
            return i;
    const struct sim_origin made = {.pc = pc, .kind = (uint8_t)kind};
    if (u->origin_count ==
        ORIGINS_MOST) { /* an older origin's values are then attributed to this one */
        u->origins[pc % ORIGINS_MOST] = made;
        return pc % ORIGINS_MOST;
    }
    struct sim_origin *origins =
        sim_grow(NULL, u->origins, &u->origin_capacity, u->origin_count + 1, sizeof *origins);
    if (!origins)
        return UINT32_MAX;
    u->origins = origins;
    u->origins[u->origin_count] = made;
    return u->origin_count++;
}

/* ---- origins ---- */

static int byte_is_valid(const struct sim_request *l, const struct sim_region *own, uint32_t lane,
                         uint32_t offset) {
    const uint64_t at = l->address[lane] + offset;
    return l->space == SIM_S_SHARED  ? sim_shared_is_valid(l->warp->block, at, 1)
           : l->space == SIM_S_LOCAL ? sim_local_is_valid(l->warp, lane, at, 1)
                                     : sim_memory_is_valid(own, at - own->base, 1);
}

int sim_undefined_load(struct sim_request *l, const struct sim_region *own, uint32_t lane) {
    const uint32_t one = l->in->dst, *slots = &one, each = sim_types[l->in->type].bytes;
    uint32_t origin = UINT32_MAX;
    if (l->in->vec != 1)
        slots = &l->w->run->kernel->extra[l->in->ext];
    for (uint32_t v = 0; v < l->in->vec; v++) {
        unsigned missing = 0;
        for (uint32_t i = 0; i < each && slots[v] != SIM_NO_SLOT; i++)
            missing |= (unsigned)!byte_is_valid(l, own, lane, v * each + i) << i;
        if (!missing)
            continue;
        if (origin == UINT32_MAX) {
            if (!fit(l->w, l->warp) || (origin = origin_of(l->warp->undefined, l->pc,
                                                           SIM_FIND_UNINITIALISED)) == UINT32_MAX)
                return out_of_memory(l->w);
            struct sim_origin *o = &l->warp->undefined->origins[origin];
            o->space = l->space;
            o->bytes = (uint8_t)l->bytes;
            o->address[lane] = l->address[lane];
        }
        struct sim_undefined_register *to = values_at(l->warp, l->regs) + slots[v] / 4;
        to->lanes &= ~(1u << lane);
        to->partly &= ~(1u << lane);
        to->computed &= ~(1u << lane);
        if (missing == sim_all_bytes(each) && sim_types[l->in->type].class == SIM_C_SINT)
            missing = sim_all_bytes(l->in->dsize); /* extended by its sign */
        sim_undefined_set(to, lane, missing, l->in->dsize);
        to->origin = origin;
    }
    return 0;
}

int sim_undefined_division(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                           uint32_t pc, uint32_t mask, const uint8_t *regs) {
    uint32_t zeros = 0, origin;
    if (in->dsize == 4) {
        const sim_u32 *b = (const sim_u32 *)(const void *)(regs + in->b);
        for (int i = 0; i < SIM_LANES; i++)
            zeros |= (uint32_t)(b[i] == 0) << i;
    } else if (in->dsize == 8) {
        const sim_u64 *b = (const sim_u64 *)(const void *)(regs + in->b);
        for (int i = 0; i < SIM_LANES; i++)
            zeros |= (uint32_t)(b[i] == 0) << i;
    } else {
        const sim_u16 *b = (const sim_u16 *)(const void *)(regs + in->b);
        for (int i = 0; i < SIM_LANES; i++)
            zeros |= (uint32_t)(b[i] == 0) << i;
    }
    if (SIM_LIKELY(!(zeros & mask)))
        return 0;
    if (!fit(w, warp) || (origin = origin_of(warp->undefined, pc, SIM_FIND_DIVISION)) == UINT32_MAX)
        return out_of_memory(w);
    struct sim_undefined_register *to = values_at(warp, regs) + in->dst / 4;
    to->lanes |= zeros & mask;
    to->partly &= ~(zeros & mask);
    to->computed |= zeros & mask;
    to->origin = origin;
    return 0;
}

/* ---- uses ---- */

/* The program depends on these lanes of a register. Returns 1 when the launch ends. */
static int use(const struct sim_watch *s, uint32_t slot, uint32_t lanes) {
    lanes &= sim_undefined_any(s, slot);
    if (SIM_LIKELY(!lanes))
        return 0;
    const struct sim_origin *o = &s->warp->undefined->origins[s->values[slot / 4].origin];
    const uint32_t lane = (uint32_t)__builtin_ctz(lanes);
    s->values[slot / 4].lanes &= ~lanes; /* reported once */
    s->values[slot / 4].partly &= ~lanes;
    s->values[slot / 4].computed &= ~lanes;
    if (o->kind == SIM_FIND_DIVISION)
        return sim_find(s->w, s->warp, o->pc, lane, SIM_FIND_DIVISION, 0, NULL,
                        "an integer is divided by zero; guard the division, or make sure that the "
                        "divisor cannot be 0");
    if (o->kind == SIM_FIND_SHUFFLE)
        return sim_find(
            s->w, s->warp, o->pc, lane, SIM_FIND_SHUFFLE, 0, NULL,
            "the shuffle reads lane %u, which has exited or takes no part, so the value "
            "is undefined; let every lane of the mask reach the shuffle",
            (unsigned)o->address[lane]);
    if (o->space == SIM_S_REG)
        return sim_find(s->w, s->warp, (uint32_t)(s->in - s->w->run->kernel->code), lane,
                        SIM_FIND_UNINITIALISED, 0, NULL,
                        "a variable is used that was never assigned on this path; initialize it");
    return sim_find_uninitialised(s->w, s->warp, o->pc, lane, o->space, o->bytes, o->address[lane]);
}

/* Stores to global memory a value that was computed from undefined ones. An undefined value that
 * was only moved may be padding: its bytes are then marked unwritten by sim_undefined_store(), as
 * in shared and local memory, which could not describe a quotient. */
static int leaves(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    const uint32_t *slots = in->vec == 1 ? &in->b : &s->w->run->kernel->extra[in->ext];
    uint32_t global = in->space == SIM_S_GLOBAL || in->space == SIM_S_GENERIC ? s->mask : 0;
    if (in->space == SIM_S_GENERIC && in->a != SIM_NO_SLOT)
        for (uint32_t m = global; m; m &= m - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(m);
            const uint64_t base = in->dst2 & SIM_A_BASE32
                                      ? ((const sim_u32 *)(const void *)(s->regs + in->a))[lane]
                                      : ((const sim_u64 *)(const void *)(s->regs + in->a))[lane];
            if (base + (uint64_t)in->imm >= SIM_WINDOW_BASE)
                global &= ~(1u << lane);
        }
    for (uint32_t v = 0; v < in->vec; v++) {
        const struct sim_undefined_register *value = &s->values[slots[v] / 4];
        const int quotient = sim_undefined_lanes(s, slots[v]) &&
                             s->warp->undefined->origins[value->origin].kind == SIM_FIND_DIVISION;
        if (use(s, slots[v], quotient ? SIM_FULL : global & value->computed))
            return 1;
    }
    return 0;
}

static void loads(const struct sim_watch *s) {
    const uint32_t *slots = s->in->vec == 1 ? &s->in->dst : &s->w->run->kernel->extra[s->in->ext];
    for (uint32_t v = 0; v < s->in->vec; v++)
        sim_undefined_define(s, slots[v], 0, 0, 0);
}

static int atomics(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    const uint32_t *sources = &in->b, *targets = &in->dst;
    if (in->vec != 1) {
        sources = &s->w->run->kernel->extra[in->e];
        targets = sources + (in->sub == SIM_ATOM_CAS ? 2 : 1) * in->vec;
    }
    if (use(s, in->a, SIM_FULL))
        return 1;
    for (uint32_t v = 0; v < in->vec && in->sub == SIM_ATOM_CAS; v++)
        if (use(s, in->vec == 1 ? in->c : sources[in->vec + v], SIM_FULL))
            return 1;
    for (uint32_t v = 0; v < in->vec; v++) {
        if (use(s, sources[v], SIM_FULL))
            return 1;
        if (in->dst != SIM_NO_SLOT)
            sim_undefined_define(s, targets[v], 0, 0, 0);
    }
    return 0;
}

static int textures(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    const uint32_t *extra = s->w->run->kernel->extra;
    if (use(s, in->a, SIM_FULL))
        return 1;
    for (uint32_t i = 0; i < SIM_TEX_SLOTS && in->sub != SIM_TEX_QUERY; i++)
        if (use(s, extra[in->e + i], SIM_FULL))
            return 1;
    if (in->sub == SIM_TEX_SURED || (in->sub == SIM_TEX_SUST && in->imm & SIM_SURF_TEXELS)) {
        for (uint32_t v = 0; v < in->vec; v++)
            if (use(s, extra[in->ext + v], SIM_FULL))
                return 1;
        return 0;
    }
    if (in->sub == SIM_TEX_SUST)
        return leaves(s);
    if (in->sub == SIM_TEX_SULD) {
        loads(s);
        return 0;
    }
    for (uint32_t i = 0; i < 4; i++)
        sim_undefined_define(s, extra[in->ext + i], 0, 0, 0);
    sim_undefined_define(s, in->dst2, 0, 0, 0);
    sim_undefined_define(s, in->sub == SIM_TEX_QUERY ? in->dst : SIM_NO_SLOT, 0, 0, 0);
    return 0;
}

static int warp_wide(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    if (in->op != SIM_OP_MATRIX && in->op != SIM_OP_MMA) {
        sim_undefined_define(s, in->dst2, 0, 0, 0);
        if (in->op != SIM_OP_SHFL) /* sim_undefined_shuffle() follows */
            sim_undefined_define(s, in->dst, 0, 0, 0);
        return 0;
    }
    const uint32_t *slots = &s->w->run->kernel->extra[in->ext];
    for (uint32_t i = 0; i < in->b; i++) /* their elements go to other lanes */
        if (use(s, slots[i], SIM_FULL))
            return 1;
    for (uint32_t i = in->b; i < in->c; i++)
        sim_undefined_define(s, slots[i], 0, 0, 0);
    return 0;
}

static int instruction(const struct sim_watch *s) {
    const struct sim_insn *in = s->in;
    switch (in->op) {
    case SIM_OP_LANE:
        sim_undefined_lane(s);
        return 0;
    case SIM_OP_MASK:
        sim_undefined_comparison(s);
        return 0;
    case SIM_OP_PAND:
    case SIM_OP_POR:
    case SIM_OP_PXOR:
        sim_undefined_predicates(s, in->op == SIM_OP_PAND ? 1 : in->op == SIM_OP_POR ? 2 : 3);
        return 0;
    case SIM_OP_PNOT:
    case SIM_OP_PMOV:
    case SIM_OP_CVTA:
    case SIM_OP_ISSPACEP:
        sim_undefined_move(s);
        return 0;
    case SIM_OP_SELP:
        sim_undefined_selection(s);
        return 0;
    case SIM_OP_ADDCC:
    case SIM_OP_SUBCC:
    case SIM_OP_MADCC:
        sim_undefined_carry(s);
        return 0;
    case SIM_OP_LD:
    case SIM_OP_LDPARAM:
        if (use(s, in->a, SIM_FULL))
            return 1;
        loads(s);
        return 0;
    case SIM_OP_ST:
        return use(s, in->a, SIM_FULL) || leaves(s);
    case SIM_OP_ATOM:
        return atomics(s);
    case SIM_OP_BRX:
    case SIM_OP_CPASYNC:
    case SIM_OP_BULK:
        return use(s, in->a, SIM_FULL);
    case SIM_OP_TEX:
        return textures(s);
    case SIM_WARP_CASES:
        return warp_wide(s);
    case SIM_OP_ACTIVEMASK:
    case SIM_OP_BAR:
    case SIM_OP_MBAR:
    case SIM_OP_SREG:
    case SIM_OP_LOCALADDR:
    case SIM_OP_PCONST:
        sim_undefined_define(s, in->dst, 0, 0, 0);
        return 0;
    default:
        return 0;
    }
}

int sim_undefined_watch(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t active,
                        uint8_t *regs) {
    const struct sim_insn *in = &w->run->kernel->code[pc];
    if (!fit(w, warp))
        return out_of_memory(w);
    struct sim_watch s = {w, warp, in, values_at(warp, regs), regs, active};
    if (in->flags & SIM_F_GUARD) {
        if (use(&s, in->guard, SIM_FULL))
            return 1;
        s.mask &= in->flags & SIM_F_GUARD_NOT ? ~PRED(in->guard) : PRED(in->guard);
    }
    return s.mask ? instruction(&s) : 0;
}

/* ---- memory that holds undefined values stays unwritten; calls ---- */

static void unmark(const struct sim_request *l, const struct sim_origin *o, uint32_t lane,
                   uint64_t at, uint32_t bytes) {
    if (l->space == SIM_S_SHARED) {
        sim_shared_unmark(l->warp->block, at, bytes);
    } else if (l->space == SIM_S_LOCAL) {
        sim_local_unmark(l->warp, lane, at, bytes);
    } else {
        struct sim_region *own = sim_request_own(l, lane);
        if (!own || own->read_only || !sim_memory_unmark(l->w->run, own, at - own->base, bytes))
            return;
        if (o->space != SIM_S_REG)
            sim_find_left(l->w, l->warp, o->pc, lane, &(struct sim_left){at, bytes, l->pc},
                          o->space, o->bytes, o->address[lane]);
        else
            sim_find_left(l->w, l->warp, l->pc, lane, &(struct sim_left){at, bytes, l->pc},
                          SIM_S_REG, 0, 0);
    }
}

void sim_undefined_store(const struct sim_request *l) {
    const struct sim_insn *in = l->in;
    const uint32_t *slots = in->vec == 1 ? &in->b : &l->w->run->kernel->extra[in->ext],
                   each = sim_types[in->type].bytes;
    const struct sim_undefined_register *values = values_at(l->warp, l->regs);
    for (uint32_t v = 0; v < in->vec; v++) {
        const struct sim_undefined_register *value = &values[slots[v] / 4];
        for (uint32_t m = l->mask & (value->lanes | value->partly); m; m &= m - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(m);
            const uint64_t at = l->address[lane] + (uint64_t)v * each;
            const unsigned missing = sim_undefined_bytes(value, lane);
            for (unsigned i = 0, end; i < each; i = end + 1) { /* runs of missing bytes */
                for (end = i; end < each && missing >> end & 1;)
                    end++;
                if (end > i)
                    unmark(l, &l->warp->undefined->origins[value->origin], lane, at + i, end - i);
            }
        }
    }
}

/* ---- shuffles ---- */

int sim_undefined_shuffle(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                          uint32_t mask, uint32_t absent, const uint8_t *from,
                          const uint8_t *regs) {
    const uint64_t at = (uint64_t)(regs - warp->regs);
    if (regs < warp->regs || at >= warp->regs_bytes) /* lanes in different frames */
        return 0;
    if (!fit(w, warp))
        return out_of_memory(w);
    const struct sim_undefined_register *source = values_at(warp, regs) + in->a / 4;
    struct sim_undefined_register *to = values_at(warp, regs) + in->dst / 4,
                                  made = {.origin = source->origin};
    for (uint32_t m = mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        made.computed |= (source->computed >> from[lane] & 1) << lane;
        sim_undefined_set(&made, lane, sim_undefined_bytes(source, from[lane]) & sim_all_bytes(4),
                          4);
    }
    if (absent) {
        const uint32_t pc = (uint32_t)(in - w->run->kernel->code);
        made.origin = origin_of(warp->undefined, pc, SIM_FIND_SHUFFLE);
        if (made.origin == UINT32_MAX)
            return out_of_memory(w);
        uint64_t *sources = warp->undefined->origins[made.origin].address;
        for (uint32_t i = 0; i < SIM_LANES;
             i++) /* a lane that receives the value later: the first */
            sources[i] = from[absent >> i & 1 ? i : (uint32_t)__builtin_ctz(absent)];
        made.lanes |= absent;
        made.partly &= ~absent;
        made.computed |= absent;
    }
    for (uint32_t m = made.partly & mask; m; m &= m - 1)
        to->missing[__builtin_ctz(m)] = made.missing[__builtin_ctz(m)];
    to->partly = (to->partly & ~mask) | (made.partly & mask);
    to->lanes = (to->lanes & ~mask) | (made.lanes & mask);
    to->computed = (to->computed & ~mask) | (made.computed & (made.lanes | made.partly) & mask);
    to->origin = made.lanes | made.partly ? made.origin : to->origin;
    return 0;
}

/* ---- registers that the kernel may read before it assigns them; calls ---- */

int sim_undefined_start(struct sim_worker *w, struct sim_warp *warp) {
    const struct sim_kernel *k = w->run->kernel;
    uint32_t origin;
    if (!fit(w, warp) ||
        (origin = origin_of(warp->undefined, UINT32_MAX, SIM_FIND_UNINITIALISED)) == UINT32_MAX)
        return out_of_memory(w);
    warp->undefined->origins[origin].space = SIM_S_REG;
    for (uint32_t i = 0; i < k->unassigned_count; i++)
        warp->undefined->values[k->unassigned[i] / 4] =
            (struct sim_undefined_register){.lanes = SIM_FULL, .origin = origin};
    return 0;
}

int sim_undefined_frame(struct sim_worker *w, struct sim_warp *warp, uint64_t base, uint64_t bytes,
                        uint32_t mask) {
    if (!fit(w, warp))
        return out_of_memory(w);
    struct sim_undefined_register *values = warp->undefined->values + base / 4;
    for (uint64_t i = 0; i < bytes / 4; i++) {
        values[i].lanes &= ~mask;
        values[i].partly &= ~mask;
        values[i].computed &= ~mask;
    }
    return 0;
}
