/* sim_barrier.c: the barriers of a block: which threads have arrived, are late, or will never
 * arrive. Lanes of a diverged warp may arrive one after another; a barrier is divergent when some
 * lanes go past it. Executes no instruction.
 */
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <stdlib.h>
#include <string.h>

#define LEAVING_MOST 256 /* instructions left before the exit of a lane that counts as leaving */

/* ---- releasing ---- */

static void release(struct sim_run *run, struct sim_block *block, uint32_t id) {
    struct sim_barrier *b = &block->barriers[id];
    uint32_t warps = b->waiting_warps;
    for (uint32_t i = 0; i < block->warp_count; i++) {
        struct sim_warp *warp = &block->warps[i];
        if (warp->late_ids >> id & 1) {
            if (b->expected) /* not all of its lanes are here yet: it counts at the next phase */
                continue;
            warp->late_ids &= ~(1u << id);
        }
        for (uint32_t s = 0; s < warp->split_count && !warp->done; s++) {
            struct sim_split *split = &warp->splits[s];
            if (split->state != SIM_SPLIT_BARRIER || split->barrier != id)
                continue;
            const struct sim_entry *top = &split->stack[split->depth - 1];
            const struct sim_insn *in = &run->kernel->code[top->pc - 1];
            uint8_t *regs = warp->regs + sim_split_frame(split)->base;
            split->state = SIM_SPLIT_READY;
            if (b->time > sim_warp_time(warp))
                warp->waited += b->time - sim_warp_time(warp);
            if (in->dst == SIM_NO_SLOT)
                continue;
            if (in->sub == SIM_BAR_POPC) {
                for (uint32_t m = top->mask; m; m &= m - 1)
                    ((sim_u32 *)(void *)(regs + in->dst))[__builtin_ctz(m)] = b->popc;
            } else {
                sim_u32 *p = (sim_u32 *)(void *)(regs + in->dst);
                int value = in->sub == SIM_BAR_AND ? b->all : b->any;
                *p = (*p & ~top->mask) | (value ? top->mask : 0);
            }
        }
        if (!warp->done && warp->split_count > 1)
            sim_warp_merge(warp);
    }
    if (run->check_races)
        sim_races_barrier(run, block, warps);
    memset(b, 0, sizeof *b);
    block->barriers_begun &= ~(1u << id);
}

static int complete(const struct sim_block *block, const struct sim_barrier *b) {
    return b->arrived && b->arrived >= (b->expected ? b->expected : block->live_threads);
}

void sim_barrier_check(struct sim_run *run, struct sim_block *block) {
    for (uint32_t m = block->barriers_begun; m; m &= m - 1)
        if (complete(block, &block->barriers[__builtin_ctz(m)]))
            release(run, block, (uint32_t)__builtin_ctz(m));
}

/* ---- lanes that leave ---- */

/* The first instructions after pc of lanes that leave the kernel: independent of other lanes and of
 * any condition. */
static int is_plain(const struct sim_insn *in) {
    switch (in->op) {
    case SIM_OP_BRX:
    case SIM_OP_CALL:
    case SIM_OP_RET:
    case SIM_OP_TRAP:
    case SIM_WARP_CASES:
    case SIM_OP_BAR:
    case SIM_OP_MBAR:
        return 0;
    default:
        return 1;
    }
}

/* Whether lanes go from pc straight to the kernel's end. reached: flags by block: there the lanes
 * may do no further work; NULL: no block is flagged. */
static int leads_out(const struct sim_kernel *k, uint32_t pc, int bare, const uint8_t *reached) {
    for (int n = 0; n < LEAVING_MOST; n++) {
        const struct sim_insn *in = &k->code[pc];
        if (in->op == SIM_OP_EXIT)
            return !(in->flags & SIM_F_GUARD);
        if (in->op == SIM_OP_BRA && in->flags & SIM_F_GUARD)
            return 0;
        if (in->op == SIM_OP_BLOCK)
            bare |= reached && reached[in->ext];
        else if (in->op != SIM_OP_BRA && (bare || !is_plain(in)))
            return 0;
        pc = in->op == SIM_OP_BRA ? in->ext : pc + 1;
    }
    return 0;
}

static uint32_t block_at(const struct sim_kernel *k, uint32_t pc) {
    while (k->code[pc].op != SIM_OP_BLOCK)
        pc--;
    return k->code[pc].ext;
}

/* Flags the blocks that lanes may reach from there, in this function. */
static void mark_reached(const struct sim_kernel *k, uint32_t pc, uint8_t *reached,
                         uint32_t *stack) {
    uint32_t depth = 0, first = block_at(k, pc);
    if (!reached[first])
        stack[depth++] = first;
    reached[first] = 1;
    while (depth) {
        const uint32_t block = stack[--depth], end = block + 1 < k->block_count
                                                         ? k->blocks[block + 1].first
                                                         : k->code_count;
        const struct sim_insn *last = &k->code[end - 1];
        const int leaves = last->op == SIM_OP_EXIT || last->op == SIM_OP_RET ||
                           last->op == SIM_OP_TRAP || last->op == SIM_OP_BRA ||
                           last->op == SIM_OP_BRX;
        const uint32_t falls = !leaves || last->flags & SIM_F_GUARD,
                       count = last->op == SIM_OP_BRA   ? 1
                               : last->op == SIM_OP_BRX ? (uint32_t)last->imm
                                                        : 0;
        for (uint32_t i = 0; i < count + falls; i++) {
            const uint32_t to = i == count               ? end
                                : last->op == SIM_OP_BRA ? last->ext
                                                         : k->extra[last->ext + i];
            if (to < k->code_count && !reached[k->code[to].ext]) {
                reached[k->code[to].ext] = 1;
                stack[depth++] = k->code[to].ext;
            }
        }
    }
}

/* The subset of these lanes that go straight to the kernel's end, as after `if (i >= n) return;`:
 * no barrier waits for them. They may do work on the way if the lanes at the barrier do not have
 * the same work ahead. Returns 0 when out of memory. */
static int lanes_leaving(const struct sim_kernel *k, const struct sim_warp *warp,
                         const struct sim_split *at, uint32_t lanes, uint32_t *leaving) {
    const uint32_t here = sim_split_mask(at);
    uint8_t *reached = NULL;
    *leaving = 0;
    for (uint32_t s = 0; s < warp->split_count; s++) {
        const struct sim_split *split = &warp->splits[s];
        uint32_t above = 0; /* lanes that have yet to return to an entry */
        for (uint32_t i = split->depth; i-- > 0 && split->state != SIM_SPLIT_BARRIER;) {
            const struct sim_entry *entry = &split->stack[i];
            const uint32_t going = entry->mask & ~above & lanes;
            above |= entry->mask;
            if (!going || !leads_out(k, entry->pc, 0, NULL))
                continue;
            if (!leads_out(k, entry->pc, 1, NULL)) {
                if (!reached) {
                    uint32_t *stack = calloc(k->block_count, sizeof *stack);
                    reached = calloc(k->block_count, 1);
                    for (uint32_t e = 0; reached && stack && e < at->depth; e++)
                        if (at->stack[e].mask & here)
                            mark_reached(k, at->stack[e].pc, reached, stack);
                    free(stack);
                    if (!reached || !stack) {
                        free(reached);
                        return 0;
                    }
                }
                if (!leads_out(k, entry->pc, reached[block_at(k, entry->pc)], reached))
                    continue;
            }
            *leaving |= going;
        }
    }
    free(reached);
    return 1;
}

/* ---- lanes that are late ---- */

static int accuse(struct sim_worker *w, struct sim_warp *warp, uint32_t id) {
    const struct sim_late *late = &warp->late[id];
    warp->late_ids &= ~(1u << id);
    return sim_find(w, warp, late->pc, (uint32_t)__builtin_ctz(late->came),
                    SIM_FIND_DIVERGENT_BARRIER, 0, NULL,
                    "%d of the warp's %d threads reach this barrier without the others (lane %d is "
                    "elsewhere); move it out of the condition",
                    __builtin_popcount(late->came), __builtin_popcount(late->came | late->mask),
                    __builtin_ctz(late->mask));
}

int sim_barrier_passed(struct sim_worker *w, struct sim_warp *warp, uint32_t mask, uint32_t id,
                       uint32_t pc) {
    for (uint32_t m = warp->late_ids; m; m &= m - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(m);
        if (!(warp->late[i].mask & mask) || (i == id && warp->late[i].pc == pc))
            continue;
        if (accuse(w, warp, i))
            return 1;
        struct sim_barrier *b = &warp->block->barriers[i];
        if (b->expected) { /* the other lanes stand for the warp */
            b->arrived += SIM_LANES;
            b->waiting_warps |= 1u << warp->index;
        }
    }
    return 0;
}

int sim_barrier_overdue(struct sim_worker *w, struct sim_block *block) {
    for (uint32_t i = 0; i < block->warp_count; i++)
        while (block->warps[i].late_ids)
            if (accuse(w, &block->warps[i], (uint32_t)__builtin_ctz(block->warps[i].late_ids)))
                return 1;
    return 0;
}

/* Lanes that wait at the reconvergence point of these: they have bypassed the barrier. */
static uint32_t lanes_past(const struct sim_split *split, uint32_t mask) {
    uint32_t above = 0, past = 0;
    for (uint32_t i = split->depth; i-- > 0;) {
        const struct sim_entry *entry = &split->stack[i];
        past |= entry->mask & mask ? entry->mask & ~above : 0;
        above |= entry->mask;
    }
    return past;
}

/* Lanes arrive at a barrier that counts whole warps. Since Volta each lane waits for itself, so the
 * others may arrive later. Returns 1 when all are here, -1 when the launch ends. */
static int arrive(struct sim_worker *w, struct sim_warp *warp, const struct sim_split *split,
                  uint32_t id, uint32_t mask) {
    const uint32_t pc = split->stack[split->depth - 1].pc;
    struct sim_late *late = &warp->late[id];
    if (warp->late_ids && sim_barrier_passed(w, warp, mask, id, pc))
        return -1;
    if (warp->late_ids >> id & 1) {
        if (!(late->mask & mask)) /* these have arrived before */
            return accuse(w, warp, id) ? -1 : 1;
        late->came |= mask;
        late->mask &= ~mask;
        if (late->mask)
            return 0;
        warp->late_ids &= ~(1u << id);
        return 1;
    }
    uint32_t missing = warp->live & ~mask, leaving;
    for (uint32_t s = 0; s < warp->split_count; s++)
        if (warp->splits[s].state == SIM_SPLIT_BARRIER && warp->splits[s].barrier == id)
            missing &= ~sim_split_mask(&warp->splits[s]);
    if (!missing)
        return 1;
    if (!lanes_leaving(w->run->kernel, warp, split, missing, &leaving)) {
        w->status = sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for diverged warps");
        return -1;
    }
    missing &= ~leaving;
    if (!missing)
        return 1;
    *late = (struct sim_late){missing, mask, pc};
    warp->late_ids |= 1u << id;
    if (missing & lanes_past(split, mask))
        return accuse(w, warp, id) ? -1 : 1;
    return 0;
}

/* ---- arriving ---- */

/* Returns -1: the launch ends; 1: wait; 0: proceed; 2: the splits changed, select one again. */
int sim_warp_barrier(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                     const struct sim_insn *in, uint32_t mask, uint8_t *regs) {
    struct sim_block *block = warp->block;
    uint32_t pc = split->stack[split->depth - 1].pc, lane = (uint32_t)__builtin_ctz(mask);
    uint32_t id = ((const sim_u32 *)(const void *)(regs + in->a))[lane], threads = 0;
    if (id >= SIM_BARRIERS) {
        sim_find(w, warp, pc, lane, SIM_FIND_BAD_BARRIER, 0, NULL,
                 "barrier %u: there are 16, from 0 to 15", id);
        return -1;
    }
    if (in->b != SIM_NO_SLOT)
        threads = ((const sim_u32 *)(const void *)(regs + in->b))[lane];
    if (threads % SIM_LANES || threads > SIM_LANES * SIM_MAX_WARPS) {
        sim_find(w, warp, pc, lane, SIM_FIND_BAD_BARRIER, 0, NULL,
                 "barrier %u waits for %u threads, which is not a multiple of 32 up to 1024", id,
                 threads);
        return -1;
    }
    const int whole = in->vec ? arrive(w, warp, split, id, mask) : 1;
    if (whole < 0)
        return -1;
    struct sim_barrier *b = &block->barriers[id];
    w->pcs[pc].requests++;
    if (!(block->barriers_begun >> id & 1))
        b->all = 1;
    block->barriers_begun |= 1u << id;
    if (threads)
        b->expected = threads;
    /* with a count, whole warps arrive; without, threads do */
    if (!threads || whole) {
        b->arrived += threads ? SIM_LANES : (uint32_t)__builtin_popcount(mask);
        b->waiting_warps |= 1u << warp->index;
    }
    b->time = b->time > sim_warp_time(warp) ? b->time : sim_warp_time(warp);
    if (in->c != SIM_NO_SLOT) {
        uint32_t yes = *(const sim_u32 *)(const void *)(regs + in->c) & mask;
        b->popc += (uint32_t)__builtin_popcount(yes);
        b->all &= yes == mask;
        b->any |= yes != 0;
    }
    const int waits = in->sub != SIM_BAR_ARRIVE;
    if (waits && mask != warp->live && !sim_warp_split_off(warp, split)) {
        w->status = sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for diverged warps");
        return -1;
    }
    if (waits) {
        split->state = SIM_SPLIT_BARRIER;
        split->barrier = id;
    }
    split->stack[split->depth - 1].pc = pc + 1; /* a release resumes here */
    if (!complete(block, b))
        return waits;
    const int alone = warp->split_count == 1;
    release(w->run, block, id);
    return alone ? 0 : 2; /* splits may have merged, this one included */
}
