/* sim_call.c: calls of device functions: frames, arguments, results, and calls by address. */
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

/* ---- calls ---- */

/* The frame where another split keeps the registers of the same call from the same frame: with the
 * lanes of both in one frame they see each other in a warp-wide instruction, and may merge again.
 * SIM_NO_SLOT: there is none. */
static uint32_t shared_frame(const struct sim_warp *warp, const struct sim_split *split,
                             uint32_t function) {
    const uint32_t depth = split->frame_count;
    for (uint32_t s = 0; s < warp->split_count; s++) {
        const struct sim_split *other = &warp->splits[s];
        if (other != split && other->frame_count > depth &&
            other->frames[depth].function == function &&
            other->frames[depth - 1].base == split->frames[depth - 1].base)
            return other->frames[depth].base;
    }
    return SIM_NO_SLOT;
}

int sim_call(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split, uint32_t pc,
             uint32_t mask, uint32_t function) {
    const struct sim_kernel *k = w->run->kernel;
    const struct sim_insn *in = &k->code[pc];
    const uint32_t *extra = &k->extra[in->ext];
    const struct sim_code_function *callee = &k->functions[function];
    const struct sim_frame *top = sim_split_frame(split);
    uint64_t base = 0, local_base = top->local_base + k->functions[top->function].local_bytes;
    const uint32_t shared =
        warp->split_count > 1 ? shared_frame(warp, split, function) : SIM_NO_SLOT;
    for (uint32_t s = 0; s < warp->split_count; s++) { /* else above every frame in use */
        const struct sim_frame *f = sim_split_frame(&warp->splits[s]);
        uint64_t end = (uint64_t)f->base + k->functions[f->function].frame_bytes;
        base = end > base ? end : base;
    }
    if (shared != SIM_NO_SLOT)
        base = shared;
    if (split->frame_count >= w->run->gpu->limits.call_depth ||
        local_base + callee->local_bytes > w->run->gpu->limits.local_bytes ||
        base + callee->frame_bytes > (1u << 28))
        return sim_find(w, warp, pc, (uint32_t)__builtin_ctz(mask), SIM_FIND_STACK, 0, NULL,
                        "calls nest %u deep and need %llu bytes of stack; recursion has to end",
                        split->frame_count, (unsigned long long)local_base),
               1;
    if (!sim_warp_reserve(warp, base + callee->frame_bytes, local_base + callee->local_bytes) ||
        !sim_warp_push_frame(split, (struct sim_frame){function, (uint32_t)base,
                                                       (uint32_t)local_base, pc, split->depth}))
        return w->status =
                   sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for call frames"),
               1;
    if (warp->undefined && sim_undefined_frame(w, warp, base, callee->frame_bytes, mask))
        return 1;
    memcpy(warp->regs + base + callee->const_offset, callee->constants, callee->const_bytes);
    for (uint32_t p = 0; p < callee->param_count; p++) {
        for (uint32_t m = mask; m; m &= m - 1) {
            uint64_t lane = (uint64_t)__builtin_ctz(m) * warp->local_stride;
            sim_warp_copy_local(warp, lane + local_base + callee->param_offsets[p],
                                lane + split->frames[split->frame_count - 2].local_base +
                                    extra[1 + p],
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

void sim_call_return(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
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
            sim_warp_copy_local(warp, to, lane + callee.local_base + cf->return_offsets[r],
                                cf->return_sizes[r]);
        }
    }
    if (warp->split_count == 1)
        warp->local_top = callee.local_base;
    split->frame_count--;
    split->depth--;
}

/* ---- calls by address ---- */

/* The function at an address, or UINT32_MAX with a finding: none, or with other parameters. */
static uint32_t function_at(struct sim_worker *w, struct sim_warp *warp, uint32_t pc, uint32_t lane,
                            uint64_t address) {
    const struct sim_kernel *k = w->run->kernel;
    const uint32_t *extra = &k->extra[k->code[pc].ext];
    const uint32_t given = extra[0] & 0xffff, count = extra[0] >> 16;
    const uint32_t *sizes = &extra[1 + given + count];
    for (uint32_t f = 1; f < k->function_count; f++) {
        const struct sim_code_function *c = &k->functions[f];
        if (sim_function_address(c->function) != address)
            continue;
        int fits = c->param_count == given && c->return_count == count;
        for (uint32_t i = 0; fits && i < given + count; i++)
            fits = sizes[i] >= (i < given ? c->param_sizes[i] : c->return_sizes[i - given]);
        if (fits)
            return f;
        sim_find(w, warp, pc, lane, SIM_FIND_BAD_CALL, address, NULL,
                 "a call of %.120s through a pointer of another type: it takes %u arguments and "
                 "returns %u values of other sizes",
                 c->function->c_name, c->param_count, c->return_count);
        return UINT32_MAX;
    }
    sim_find(w, warp, pc, lane, SIM_FIND_BAD_CALL, address, NULL,
             "a call through 0x%llx, which is no function's address%s", (unsigned long long)address,
             address ? "; was the object made on the host?" : " (a null pointer)");
    return UINT32_MAX;
}

int sim_call_indirect(struct sim_worker *w, struct sim_warp *warp, struct sim_split *split,
                      uint32_t pc, uint32_t mask, uint8_t *regs) {
    const sim_u64 *target = U64(w->run->kernel->code[pc].a);
    struct sim_entry *top = &split->stack[split->depth - 1];
    const uint32_t lane = (uint32_t)__builtin_ctz(mask);
    uint32_t same = 0;
    for (uint32_t m = mask; m; m &= m - 1)
        if (target[__builtin_ctz(m)] == target[lane])
            same |= m & -m;
    if (same == top->mask) {
        const uint32_t function = function_at(w, warp, pc, lane, target[lane]);
        return function == UINT32_MAX || sim_call(w, warp, split, pc, mask, function);
    }
    w->pcs[pc].divergent++;
    if (top->reconverge == pc + 1)
        split->depth--; /* the entry below already waits there */
    else
        top->pc = pc + 1;
    if (mask & ~same && !sim_warp_push(split, pc, pc + 1, mask & ~same))
        return -1;
    return sim_warp_push(split, pc, pc + 1, same) ? 0 : -1;
}
