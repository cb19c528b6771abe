/* sim_warp.c: the state of a warp: registers, local memory, stacks of diverged lanes, and splits.
 * Invariant: every live lane is in exactly one split. Executes nothing.
 */
#include "sim_run.h"

#include <stdlib.h>
#include <string.h>

/* ---- stacks ---- */

int sim_warp_push(struct sim_split *split, uint32_t pc, uint32_t reconverge, uint32_t mask) {
    struct sim_entry *stack =
        sim_grow(NULL, split->stack, &split->capacity, split->depth + 1, sizeof *stack);
    if (!stack)
        return 0;
    split->stack = stack;
    split->stack[split->depth++] = (struct sim_entry){pc, reconverge, mask};
    return 1;
}

int sim_warp_push_frame(struct sim_split *split, struct sim_frame frame) {
    struct sim_frame *frames = sim_grow(NULL, split->frames, &split->frame_capacity,
                                        split->frame_count + 1, sizeof *frames);
    if (!frames)
        return 0;
    split->frames = frames;
    split->frames[split->frame_count++] = frame;
    return 1;
}

/* Makes room for frames and local memory; both only grow. */
int sim_warp_reserve(struct sim_warp *warp, uint64_t regs_bytes, uint64_t local_bytes) {
    if (regs_bytes > warp->regs_bytes) {
        uint64_t wanted = regs_bytes * 2;
        uint8_t *grown = aligned_alloc(64, (size_t)((wanted + 63) & ~63ull));
        if (!grown)
            return 0;
        memset(grown, 0, (size_t)wanted);
        if (warp->regs)
            memcpy(grown, warp->regs, warp->regs_bytes);
        free(warp->regs);
        warp->regs = grown;
        warp->regs_bytes = (uint32_t)wanted;
    }
    if (local_bytes > warp->local_stride) {
        uint32_t stride = (uint32_t)((local_bytes * 2 + 63) & ~63ull);
        uint8_t *grown = calloc(SIM_LANES, stride), *valid = calloc(SIM_LANES, stride / 8);
        if (!grown || !valid) {
            free(grown);
            free(valid);
            return 0;
        }
        for (uint32_t lane = 0; lane < SIM_LANES && warp->local_stride; lane++) {
            memcpy(grown + (size_t)lane * stride, warp->local + (size_t)lane * warp->local_stride,
                   warp->local_stride);
            memcpy(valid + (size_t)lane * (stride / 8),
                   warp->local_valid + (size_t)lane * (warp->local_stride / 8),
                   warp->local_stride / 8);
        }
        free(warp->local);
        free(warp->local_valid);
        warp->local = grown;
        warp->local_valid = valid;
        warp->local_stride = stride;
    }
    return 1;
}

/* Copies arguments and results of calls. Unwritten padding does not matter unless the warp has
 * undefined values, which may be among the copied ones. */
void sim_warp_copy_local(struct sim_warp *warp, uint64_t to, uint64_t from, uint32_t bytes) {
    memcpy(warp->local + to, warp->local + from, bytes);
    sim_warp_mark_local(warp, to, bytes);
    for (uint32_t i = 0; i < bytes && warp->undefined; i++)
        if (!(warp->local_valid[(from + i) / 8] >> ((from + i) & 7) & 1))
            warp->local_valid[(to + i) / 8] &= (uint8_t) ~(1u << ((to + i) & 7));
}

/* ---- splits ---- */

/* Drops the frames of calls that no lane of the stack is in any more. */
static void drop_frames(struct sim_split *split) {
    while (split->frame_count > 1 && sim_split_frame(split)->entry >= split->depth)
        split->frame_count--;
}

/* Keeps the top lanes in `split` and moves all its other lanes to a new split with the same stack.
 */
int sim_warp_split_off(struct sim_warp *warp, struct sim_split *split) {
    uint32_t top = sim_split_mask(split), all = 0;
    for (uint32_t i = 0; i < split->depth; i++)
        all |= split->stack[i].mask;
    if (!(all & ~top) || warp->split_count >= SIM_LANES)
        return 1;
    struct sim_split *rest = &warp->splits[warp->split_count];
    rest->depth = rest->frame_count = 0;
    for (uint32_t i = 0; i < split->depth; i++)
        if (!sim_warp_push(rest, split->stack[i].pc, split->stack[i].reconverge,
                           split->stack[i].mask & ~top))
            return 0;
    for (uint32_t i = 0; i < split->frame_count; i++)
        if (!sim_warp_push_frame(rest, split->frames[i]))
            return 0;
    while (rest->depth && !rest->stack[rest->depth - 1].mask)
        rest->depth--;
    drop_frames(rest);
    for (uint32_t i = 0; i < split->depth; i++)
        split->stack[i].mask &= top;
    rest->state = SIM_SPLIT_READY;
    rest->patience = 0;
    warp->split_count++;
    return 1;
}

/* Keeps `mask` of the top lanes in `split`; the other top lanes become a new split that continues
 * from there. */
int sim_warp_part(struct sim_warp *warp, struct sim_split *split, uint32_t lanes,
                  uint32_t others_pc) {
    const struct sim_entry top = split->stack[split->depth - 1];
    split->stack[split->depth - 1].pc = others_pc;
    if (!sim_warp_push(split, top.pc, top.reconverge, lanes) || !sim_warp_split_off(warp, split))
        return 0;
    split->depth--;
    split->stack[split->depth - 1].pc = top.pc;
    return 1;
}

void sim_warp_remove_split(struct sim_warp *warp, struct sim_split *split) {
    struct sim_split *last = &warp->splits[warp->split_count - 1];
    if (split != last) { /* its memory stays in use */
        const struct sim_split kept = *split;
        *split = *last;
        *last = kept;
    }
    warp->split_count--;
    warp->current = 0;
}

static int same_shape(const struct sim_split *a, const struct sim_split *b) {
    if (a->depth != b->depth || a->frame_count != b->frame_count)
        return 0;
    for (uint32_t i = 0; i < a->depth; i++)
        if (a->stack[i].pc != b->stack[i].pc || a->stack[i].reconverge != b->stack[i].reconverge)
            return 0;
    for (uint32_t i = 0; i < a->frame_count; i++)
        if (a->frames[i].base != b->frames[i].base || a->frames[i].entry != b->frames[i].entry ||
            a->frames[i].local_base != b->frames[i].local_base)
            return 0;
    return 1;
}

/* Merges splits that have arrived at the same pc. */
void sim_warp_merge(struct sim_warp *warp) {
    for (uint32_t i = 0; i < warp->split_count; i++) {
        for (uint32_t j = i + 1; j < warp->split_count;) {
            struct sim_split *a = &warp->splits[i], *b = &warp->splits[j];
            if (a->state != b->state ||
                (a->state != SIM_SPLIT_REJOIN && a->state != SIM_SPLIT_READY) ||
                !same_shape(a, b)) {
                j++;
                continue;
            }
            for (uint32_t n = 0; n < a->depth; n++)
                a->stack[n].mask |= b->stack[n].mask;
            sim_warp_remove_split(warp, b);
        }
    }
}

/* ---- exits ---- */

void sim_warp_exit(struct sim_warp *warp, struct sim_split *split, uint32_t mask) {
    for (uint32_t i = 0; i < split->depth; i++)
        split->stack[i].mask &= ~mask;
    while (split->depth && !split->stack[split->depth - 1].mask)
        split->depth--;
    drop_frames(split); /* the remaining lanes may be in a caller */
    warp->live &= ~mask;
    warp->block->live_threads -= (uint32_t)__builtin_popcount(mask);
    for (uint32_t s = 0; s < warp->split_count;
         s++) /* splits that wait for these lanes check again */
        if (warp->splits[s].state == SIM_SPLIT_SYNC)
            warp->splits[s].state = SIM_SPLIT_READY;
}

/* ---- warp-level synchronization: waits until all `members` are here. Returns 0 when they are, and
 * sets *mask to all of them ---- */

int sim_warp_sync(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split, uint32_t pc,
                  uint32_t *mask, uint32_t members) {
    const struct sim_insn *code = w->run->kernel->code;
    uint32_t wanted = members & warp->live, have = *mask;
    int free_place =
        code[pc].op == SIM_OP_WARPSYNC; /* bar.warp.sync may be reached at different pcs */
    if (*mask & ~members) {
        uint32_t lane = (uint32_t)__builtin_ctz(*mask & ~members);
        if (sim_find(w, warp, pc, lane, SIM_FIND_WARP_SYNC, 0, NULL,
                     "lane %u runs this instruction but is not in its member mask 0x%08x; name "
                     "exactly the lanes that get here",
                     lane, members))
            return -1;
        return 0;
    }
    if (have == wanted)
        return 0;
    for (uint32_t s = 0; s < warp->split_count; s++) {
        const struct sim_split *other = &warp->splits[s];
        if (other == split || other->state != SIM_SPLIT_SYNC || other->wait_mask != members)
            continue;
        uint32_t at = other->stack[other->depth - 1].pc;
        if (at == pc || (free_place && code[at].op == SIM_OP_WARPSYNC))
            have |= sim_split_mask(other);
    }
    if ((have & wanted) != wanted) { /* lanes whose guard is off do not wait */
        const int parts = sim_split_mask(split) != *mask;
        if ((parts && !sim_warp_part(warp, split, *mask, pc + 1)) ||
            !sim_warp_split_off(warp, split)) {
            w->status =
                sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for diverged warps");
            return -1;
        }
        split->state = SIM_SPLIT_SYNC;
        split->wait_mask = members;
        return 1;
    }
    for (uint32_t s = 0; s < warp->split_count;
         s++) { /* all proceed; this split executes for all */
        struct sim_split *other = &warp->splits[s];
        if (other == split || other->state != SIM_SPLIT_SYNC || other->wait_mask != members)
            continue;
        uint32_t at = other->stack[other->depth - 1].pc;
        if (at == pc || (free_place && code[at].op == SIM_OP_WARPSYNC)) {
            other->stack[other->depth - 1].pc++;
            other->state = SIM_SPLIT_READY;
        }
    }
    *mask = have;
    return 0;
}
