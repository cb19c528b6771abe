/* sim_exec.c: runs a split of a warp until it has to stop. It counts entries of basic blocks,
 * passes memory instructions on, and returns why it stopped. Invariant at every stop: the top
 * entry's pc is where execution resumes. Knows no counter and no scheduler.
 */
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

/* ---- branches ---- */

/* Splits the top entry: `taken` lanes continue at target, the others at `fall`. Returns 0 when out
 * of memory. */
static int diverge(struct sim_split *split, uint32_t taken, uint32_t target, uint32_t fall,
                   uint32_t meet) {
    struct sim_entry *top = &split->stack[split->depth - 1];
    uint32_t rest = top->mask & ~taken;
    if (meet == SIM_NO_PC)
        meet = top->reconverge; /* no path from here reaches the exit: the previous reconvergence
                                   point still holds */
    if (top->reconverge == meet)
        split->depth--; /* the entry below already waits there, with all these lanes */
    else
        top->pc = meet;
    return (fall == meet || sim_warp_push(split, fall, meet, rest)) &&
           (target == meet || sim_warp_push(split, target, meet, taken));
}

/* A branch with many targets: one entry for each target that some lane takes. */
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

/* A warp that reads the same value at the same instruction repeatedly waits for another: let others
 * run. */
static int spinning(struct sim_warp *warp, uint32_t pc, uint64_t value) {
    if (warp->spin_pc == pc && warp->spin_value == value) {
        if (++warp->spin_count >= 16) {
            warp->spin_count = 15;
            return 1;
        }
    } else {
        warp->spin_count = 0;
        warp->spin_pc = pc;
        warp->spin_value = value;
    }
    return 0;
}

/* Another worker may pass the token on at any time, and with it the writes of its block. */
static int has_token(const struct sim_block *block) {
    return __atomic_load_n(&block->has_token, __ATOMIC_ACQUIRE);
}

static int communicates(const struct sim_insn *in) {
    return in->space != SIM_S_SHARED && in->space != SIM_S_LOCAL;
}

/* In an order of warps: others run before this access. */
static int delays(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t pc, uint32_t off) {
    if ((in->space != SIM_S_GLOBAL && in->space != SIM_S_SHARED && in->space != SIM_S_GENERIC) ||
        !sim_order_delays(w->run, warp, pc))
        return 0;
    if (in->flags & SIM_F_GUARD) /* it comes again */
        w->pcs[pc].guard_off -= (uint64_t)__builtin_popcount(off);
    return 1;
}

/* The kernel uses the grid's barrier, which the launch lacks: grid.sync() then traps. */
static int wants_grid(const struct sim_run *run) {
    int asks = 0;
    for (uint32_t pc = 0; pc < run->kernel->code_count; pc++)
        asks |= run->kernel->code[pc].op == SIM_OP_SREG &&
                run->kernel->code[pc].sub == SIM_SPECIAL_ENVREG1;
    return asks && !(run->launch->flags & SIM_LAUNCH_COOPERATIVE);
}

/* Tiles of a warp, each with its own member mask. Returns 0 if not all their lanes are here; then
 * nothing is done. -1: out of memory. */
static int exec_tiles(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs) {
    uint32_t same = 0;
    for (uint32_t left = mask; left; left &= ~same)
        if ((sim_exec_members(in, left, regs, &same) & warp->live) != same)
            return 0;
    for (uint32_t left = mask; left; left &= ~same) {
        const uint32_t members = sim_exec_members(in, left, regs, &same);
        if (sim_exec_warp_wide(w, warp, in, same, members, regs))
            return -1;
    }
    return 1;
}

enum sim_stop sim_exec(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                       uint64_t budget) {
    struct sim_run *run = w->run;
    const struct sim_kernel *k = run->kernel;
    const struct sim_insn *const plain = w->recorder ? sim_trace_code(w->recorder) : k->code,
                                 *code = warp->undefined ? run->watched : plain;
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
        if (active == SIM_FULL) { /* plain arithmetic of a whole warp: the fast path */
            for (; in->op == SIM_OP_LANE && !(in->flags & ~SIM_F_HELPER); in++)
                in->fn(regs + in->dst, regs + in->a, regs + in->b, regs + in->c, regs + in->e);
            pc = (uint32_t)(in - code);
        }
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
            if (in->flags & SIM_F_DIV) {
                if (sim_undefined_division(w, warp, in, pc, mask, regs))
                    goto failed;
                code = warp->undefined ? run->watched : plain;
            }
        }
        switch (in->op) {
        case SIM_OP_LANE: {
            uint8_t *to = mask == SIM_FULL ? regs + in->dst : w->scratch[0];
            if (SIM_UNLIKELY(in->flags & SIM_F_MODS))
                sim_exec_modified(w, in, pc, mask, to, regs);
            else
                in->fn(to, regs + in->a, regs + in->b, regs + in->c, regs + in->e);
            if (mask != SIM_FULL)
                sim_blend(run, regs + in->dst, to, mask, in->dsize);
            break;
        }
        case SIM_OP_MASK: {
            sim_u32 r;
            if (SIM_UNLIKELY(in->flags & SIM_F_MODS))
                sim_exec_modified(w, in, pc, mask, (uint8_t *)&r, regs);
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
                if (SIM_UNLIKELY(run->in_step))
                    sim_races_step(run, warp);
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
            if (in->sub == SIM_CALL_INDIRECT) {
                split->stack[split->depth - 1].pc = pc;
                const int r = sim_call_indirect(w, warp, split, pc, mask, regs);
                if (r > 0)
                    goto failed;
                if (r < 0)
                    goto out_of_memory;
            } else if (sim_call(w, warp, split, pc, mask, k->extra[in->ext])) {
                goto failed;
            }
            RELOAD();
            continue;
        case SIM_OP_RET:
            sim_call_return(w, warp, split, mask);
            while (split->depth && !split->stack[split->depth - 1].mask)
                split->depth--;
            if (!split->depth) {
                stop = SIM_STOP_DONE;
                goto left;
            }
            RELOAD();
            continue;
        case SIM_OP_EXIT:
            if (SIM_UNLIKELY(warp->late_ids) && sim_barrier_passed(w, warp, mask, SIM_BARRIERS, pc))
                goto failed;
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
                     "the kernel executed trap%s",
                     wants_grid(run)
                         ? "; its grid.sync() needs a cooperative launch: pass cooperative=True"
                         : "");
            goto failed;
        case SIM_OP_NOP:
        case SIM_OP_PREFETCH:
            break;
        case SIM_OP_CPWAIT:
            if (sim_exec_wait(w, warp, in, mask))
                goto failed;
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
            uint8_t *to = mask == SIM_FULL ? regs + in->dst : w->scratch[0];
            sim_select(run->wide, to, regs + in->a, regs + in->b, PRED(in->c), in->dsize);
            if (mask != SIM_FULL)
                sim_blend(run, regs + in->dst, to, mask, in->dsize);
            break;
        }
        case SIM_OP_SREG:
            sim_exec_special(w, warp, in, mask, regs);
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
            sim_exec_carry(in, mask, regs);
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
            if (SIM_UNLIKELY(run->schedule != NULL) && delays(w, warp, in, pc, active & ~mask)) {
                stop = SIM_STOP_DELAY;
                goto stopped;
            }
            if (SIM_UNLIKELY(in->order != SIM_ORDER_WEAK)) {
                if (!has_token(warp->block) && communicates(in)) {
                    stop = SIM_STOP_TOKEN;
                    goto stopped;
                }
                split->patience++;
                uint32_t lane = (uint32_t)__builtin_ctz(mask), bytes = in->dsize;
                uint64_t read = 0;
                if (in->op == SIM_OP_LD ? sim_exec_load(w, warp, in, mask, regs, local_base)
                                        : sim_exec_store(w, warp, in, mask, regs, local_base))
                    goto failed;
                code = warp->undefined ? run->watched : plain;
                if (in->op == SIM_OP_LD && in->dst != SIM_NO_SLOT)
                    memcpy(&read, regs + in->dst + lane * bytes, bytes);
                if (in->op == SIM_OP_LD && spinning(warp, pc, read)) {
                    pc++;
                    stop = SIM_STOP_YIELD;
                    goto stopped;
                }
                break;
            }
            if (in->op == SIM_OP_LD ? sim_exec_load(w, warp, in, mask, regs, local_base)
                                    : sim_exec_store(w, warp, in, mask, regs, local_base))
                goto failed;
            code = warp->undefined ? run->watched : plain;
            break;
        case SIM_OP_LDPARAM:
            split->stack[split->depth - 1].pc = pc;
            if (sim_load_param(w, warp, in, mask, regs))
                goto failed;
            break;
        case SIM_OP_ATOM: {
            split->stack[split->depth - 1].pc = pc;
            if (SIM_UNLIKELY(run->schedule != NULL) && delays(w, warp, in, pc, active & ~mask)) {
                stop = SIM_STOP_DELAY;
                goto stopped;
            }
            if (!has_token(warp->block) && communicates(in)) {
                stop = SIM_STOP_TOKEN;
                goto stopped;
            }
            split->patience++;
            uint32_t lane = (uint32_t)__builtin_ctz(mask);
            uint64_t read = 0;
            if (sim_exec_atomic(w, warp, in, mask, regs))
                goto failed;
            if (in->dst != SIM_NO_SLOT)
                memcpy(&read, regs + in->dst + lane * in->dsize, in->dsize);
            if (in->dst != SIM_NO_SLOT && spinning(warp, pc, read)) {
                pc++;
                stop = SIM_STOP_YIELD;
                goto stopped;
            }
            break;
        }
        case SIM_WARP_CASES: {
            uint32_t same, members = sim_exec_members(in, mask, regs, &same);
            split->stack[split->depth - 1].pc = pc;
            if (SIM_UNLIKELY(same != mask)) {
                const int done = exec_tiles(w, warp, in, mask, regs);
                if (done < 0)
                    goto failed;
                code = warp->undefined ? run->watched : plain;
                if (done)
                    break;
                if (mask != active && !sim_warp_part(warp, split, mask, pc + 1))
                    goto out_of_memory;
                if (!sim_warp_part(warp, split, same, pc))
                    goto out_of_memory;
                if (w->recorder)
                    sim_trace_undo(w->recorder);
                stop = SIM_STOP_SPLIT; /* the first tile and the others execute this instruction
                                          again */
                goto stopped;
            }
            if (SIM_UNLIKELY(members != mask)) {
                int r = sim_warp_sync(w, warp, split, pc, &mask, members);
                if (r < 0)
                    goto failed;
                if (r > 0) { /* other lanes must come first */
                    if (w->recorder)
                        sim_trace_undo(w->recorder);
                    stop = SIM_STOP_SPLIT;
                    goto stopped;
                }
                if (w->recorder)
                    sim_trace_members(w->recorder, mask);
            }
            if (mask & ~active ? sim_exec_joined(w, warp, split, pc, mask, members)
                               : sim_exec_warp_wide(w, warp, in, mask, members, regs))
                goto failed;
            code = warp->undefined ? run->watched : plain;
            break;
        }
        case SIM_OP_ACTIVEMASK:
            for (uint32_t m = mask; m; m &= m - 1)
                U32(in->dst)[__builtin_ctz(m)] = mask;
            break;
        case SIM_OP_BAR: {
            split->stack[split->depth - 1].pc = pc;
            warp->ahead = steps;
            int r = sim_warp_barrier(w, warp, split, in, mask, regs);
            if (r < 0)
                goto failed;
            if (r > 0) { /* the resume point is recorded */
                stop = r == 1 ? SIM_STOP_BARRIER : SIM_STOP_SPLIT;
                goto left;
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
            if (in->sub == SIM_CALL_MALLOC || in->sub == SIM_CALL_FREE) {
                if (!has_token(warp->block)) {
                    stop = SIM_STOP_TOKEN;
                    goto stopped;
                }
                if (sim_exec_heap(w, warp, in, pc, mask, local_base))
                    goto failed;
                break;
            }
            if (in->sub == SIM_CALL_ASSERT) {
                sim_assert_call(w, warp, in, pc, mask, local_base);
                goto failed;
            }
            if (sim_printf_call(w, warp, in, pc, mask, local_base))
                goto failed;
            break;
        case SIM_OP_TRACE:
            sim_trace_instruction(w, warp, pc, active, regs);
            in = &k->code[pc];
            goto recorded;
        case SIM_OP_WATCH:
            if (sim_undefined_watch(w, warp, pc, active, regs))
                goto failed;
            in = &plain[pc];
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
    if ((stop == SIM_STOP_TOKEN || stop == SIM_STOP_DELAY) && w->recorder)
        sim_trace_undo(w->recorder);
    if (split->depth)
        split->stack[split->depth - 1].pc = pc;
left:
    warp->steps += steps;
    warp->ahead = 0;
    warp->block->turn_left -= (int64_t)steps;
    return stop;
#undef RELOAD
}
