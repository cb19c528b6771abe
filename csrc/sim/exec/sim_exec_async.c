/* sim_exec_async.c: asynchronous copies: begins them, keeps them in flight, and lets them land when
 * they have been waited for. Knows no mbarrier's state.
 */
#include "sim_async.h"
#include "sim_address.h"
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPIES_MOST 4096u /* of a warp; then its oldest land, as they may at any time */

struct sim_flight {                   /* a warp's copies */
    uint32_t committed[2][SIM_LANES]; /* groups that each lane has closed; 1: of bulk copies */
    struct sim_copy *copies;
    uint32_t first, end, capacity;
};

/* ---- addresses ---- */

void sim_lane_addresses(const uint8_t *regs, uint32_t slot, uint32_t flags, uint64_t offset,
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
static uint64_t extra_offset(const uint32_t *extra) { return extra[2] | (uint64_t)extra[3] << 32; }

static void extra_addresses(const uint8_t *regs, const uint32_t *extra, uint64_t *address) {
    sim_lane_addresses(regs, extra[0], extra[1], extra_offset(extra), address);
}

/* ---- landing ---- */

static uint32_t *in_flight(struct sim_block *block, const struct sim_copy *c) {
    return c->kind == SIM_BULK_OUT ? &block->copies_out : &block->copies_in;
}

/* A value that the copy holds. */
static void put(struct sim_worker *w, struct sim_block *block, struct sim_copy *c, uint32_t lane) {
    uint8_t *to = block->shared + c->shared[lane];
    if (c->reduces) {
        uint64_t old = 0, value = 0;
        memcpy(&old, to, c->bytes);
        memcpy(&value, c->value[lane], c->bytes);
        value = sim_atomic_combine(w, &w->run->kernel->code[c->pc], old, value, 0, c->bytes, 0);
        memcpy(to, &value, c->bytes);
    } else {
        memcpy(to, c->value[lane], c->bytes);
    }
    memset(block->shared_valid + c->shared[lane] / 4, 15, c->bytes / 4);
}

static void move(struct sim_worker *w, struct sim_block *block, struct sim_copy *c,
                 uint32_t lanes) {
    if (c->kind == SIM_BULK_OUT) {
        for (uint32_t m = lanes & ~c->moved; m; m &= m - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(m);
            memcpy(c->host[lane], block->shared + c->shared[lane], c->bytes);
            w->writes++;
        }
        c->moved |= lanes;
        return;
    }
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m), to = c->shared[lane];
        if (!c->host[lane]) {
            put(w, block, c, lane);
            continue;
        }
        const uint32_t have = c->bulk ? c->bytes : c->present[lane];
        memcpy(block->shared + to, c->host[lane], have);
        memset(block->shared + to + have, 0, c->bytes - have);
        memset(block->shared_valid + to / 4, 15, c->bytes / 4);
    }
}

/* A wait does not order the bytes for other threads: for them they are written now. */
static int tell_races(struct sim_worker *w, struct sim_warp *warp, const struct sim_copy *c,
                      uint32_t lanes) {
    uint64_t address[SIM_LANES];
    const int out = c->kind == SIM_BULK_OUT;
    struct sim_access a = {.in = &w->run->kernel->code[c->pc],
                           .pc = c->pc,
                           .mask = lanes,
                           .bytes = c->bulk ? 16 : c->bytes,
                           .space = out ? SIM_S_GLOBAL : SIM_S_SHARED,
                           .kind = SIM_ACCESS_STORE,
                           .group = lanes == SIM_FULL ? c->lane_group : 0,
                           .stride = c->stride,
                           .step = c->step,
                           .address = address};
    if (!w->run->check_races || !lanes)
        return 0;
    for (uint32_t at = 0; at < c->bytes; at += a.bytes) {
        a.least = UINT64_MAX;
        a.most = 0;
        for (uint32_t i = 0; i < SIM_LANES; i++) {
            address[i] = (out ? c->address : c->shared[i]) + at;
            if (lanes >> i & 1) {
                a.least = address[i] < a.least ? address[i] : a.least;
                a.most = address[i] > a.most ? address[i] : a.most;
            }
        }
        a.region = out ? sim_memory_find(w->run->gpu, a.least) : NULL;
        if (sim_races_access(w, warp, &a))
            return 1;
    }
    return 0;
}

/* Copies count for the mbarriers that track them. */
static int count(struct sim_worker *w, struct sim_warp *warp, struct sim_copy *c, uint32_t lanes) {
    for (uint32_t m = lanes & c->tracked & ~c->counted; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        c->counted |= m & -m;
        if ((c->bulk || c->arrives >> lane & 1) &&
            sim_mbarrier_count(w, warp, c->pc, lane, c->barrier[lane], c->bulk ? c->bytes : 0,
                               !c->bulk))
            return 1;
    }
    return 0;
}

static const struct sim_copy *copy_at(const struct sim_block *block, uint64_t at, uint32_t bytes,
                                      int out, const struct sim_warp **owner, uint32_t *lane);

/* Words that a reduction has left remain in flight for the others'. */
static void fly_on(struct sim_block *block, const struct sim_copy *c, uint32_t lanes) {
    const struct sim_warp *owner;
    uint32_t other;
    for (uint32_t m = lanes; m; m &= m - 1) {
        const uint32_t at = c->shared[__builtin_ctz(m)];
        if (copy_at(block, at, c->bytes, 0, &owner, &other))
            memset(block->shared_valid + at / 4, SIM_FLYING, c->bytes / 4);
    }
}

static int land(struct sim_worker *w, struct sim_warp *warp, struct sim_copy *c, uint32_t lanes) {
    if (!lanes)
        return 0;
    move(w, warp->block, c, lanes);
    const int ends = count(w, warp, c, lanes);
    c->mask &= ~lanes;
    c->tracked &= ~lanes;
    c->landed &= ~lanes;
    if (c->reduces)
        fly_on(warp->block, c, lanes);
    if (!c->mask)
        --*in_flight(warp->block, c);
    return ends;
}

static void drop_landed(struct sim_flight *f) {
    while (f->first < f->end && !f->copies[f->first].mask)
        f->first++;
    if (f->first == f->end)
        f->first = f->end = 0;
}

/* ---- beginning ---- */

/* Another copy of the warp; NULL when the launch ends. */
static struct sim_copy *begin(struct sim_worker *w, struct sim_warp *warp,
                              const struct sim_insn *in) {
    struct sim_flight *f = warp->flight;
    if (!f && !(f = warp->flight = calloc(1, sizeof *f)))
        goto fail;
    if (f->end - f->first == COPIES_MOST) {
        if (land(w, warp, &f->copies[f->first], f->copies[f->first].mask))
            return NULL;
        drop_landed(f);
    }
    if (f->end == f->capacity && f->first) {
        f->end -= f->first;
        memmove(f->copies, f->copies + f->first, f->end * sizeof *f->copies);
        f->first = 0;
    }
    struct sim_copy *copies = sim_grow(NULL, f->copies, &f->capacity, f->end + 1, sizeof *copies);
    if (!copies)
        goto fail;
    f->copies = copies;
    struct sim_copy *c = &f->copies[f->end++];
    const int bulk = in->op == SIM_OP_BULK;
    c->pc = (uint32_t)(in - w->run->kernel->code);
    c->mask = c->moved = c->tracked = c->arrives = c->counted = c->landed = 0;
    c->kind = bulk ? in->sub : SIM_BULK_IN;
    c->bulk = (uint8_t)bulk;
    c->lane_group = c->reduces = 0;
    c->low = c->high = NULL;
    memcpy(c->group, f->committed[bulk], sizeof c->group);
    return c;
fail:
    w->status = sim_fail(&w->error, SIM_NO_MEMORY, 0, 0, "out of memory for copies in flight");
    return NULL;
}

/* A lane's copy has begun: flags its target in shared memory. */
static void fly(struct sim_block *block, struct sim_copy *c, uint32_t lane, uint8_t *host,
                uint8_t *shared) {
    c->host[lane] = host;
    c->shared[lane] = (uint32_t)(shared - block->shared);
    c->mask |= 1u << lane;
    if (c->kind != SIM_BULK_OUT)
        memset(block->shared_valid + c->shared[lane] / 4, SIM_FLYING, c->bytes / 4);
    if (c->kind != SIM_BULK_WITHIN) {
        c->low = !c->low || host < c->low ? host : c->low;
        c->high = !c->high || host + c->bytes > c->high ? host + c->bytes : c->high;
    }
}

/* ---- findings ---- */

/* The copy in flight whose bytes in shared memory overlap these. */
static const struct sim_copy *copy_at(const struct sim_block *block, uint64_t at, uint32_t bytes,
                                      int out, const struct sim_warp **owner, uint32_t *lane) {
    for (uint32_t i = 0; i < block->warp_count; i++) {
        const struct sim_flight *f = block->warps[i].flight;
        for (uint32_t n = f ? f->first : 0; f && n < f->end; n++) {
            const struct sim_copy *c = &f->copies[n];
            if ((c->kind == SIM_BULK_OUT) != out)
                continue;
            for (uint32_t m = c->mask & ~c->moved; m; m &= m - 1) {
                *lane = (uint32_t)__builtin_ctz(m);
                *owner = &block->warps[i];
                if (at < c->shared[*lane] + (uint64_t)c->bytes && c->shared[*lane] < at + bytes)
                    return c;
            }
        }
    }
    return NULL;
}

static void remedy(const struct sim_copy *c, const struct sim_warp *owner, uint32_t lane, int same,
                   int is_source, char *text, size_t bytes) {
    const uint32_t closed = owner->flight->committed[c->bulk][lane],
                   behind = closed > c->group[lane] ? closed - c->group[lane] - 1 : 0;
    const char *commit = closed == c->group[lane] ? "commit the copy and " : "";
    if (c->tracked >> lane & 1 || (c->bulk && c->kind != SIM_BULK_OUT))
        snprintf(text, bytes,
                 "wait for its mbarrier first: mbarrier.try_wait (barrier.wait(token)), for this "
                 "phase");
    else if (c->bulk)
        snprintf(text, bytes, "%swait first: cp.async.bulk.wait_group%s %u", commit,
                 is_source ? ".read" : "", behind);
    else
        snprintf(text, bytes,
                 "%swait first: cp.async.wait_group %u (__pipeline_wait_prior(%u), cg::wait, "
                 "consumer_wait())%s",
                 commit, behind, behind,
                 same ? "" : " in each thread that copies, then __syncthreads()");
}

/* An access, told as `done`, touches a copy that has not landed. */
static int told(const struct sim_request *l, uint32_t at_lane, const char *done,
                const struct sim_copy *c, const struct sim_warp *owner, uint32_t lane,
                int is_source) {
    const struct sim_run *run = l->w->run;
    const uint32_t *dim = run->launch->block, thread = owner->index * SIM_LANES + lane;
    struct sim_finding other = {
        .has_other = 1,
        .other_thread = {thread % dim[0], thread / dim[0] % dim[1], thread / dim[0] / dim[1]},
        .other_pc = c->pc,
        .space = sim_space_name(l->space),
        .access = done,
        .bytes = l->bytes,
        .other_access = is_source ? "read" : "write"};
    char where[140], place[200], fix[200];
    if (sim_is_muted(run, l->pc, SIM_FIND_IN_FLIGHT))
        return !run->collect;
    memcpy(other.other_block, owner->block->index, sizeof other.other_block);
    remedy(c, owner, lane, owner == l->warp && lane == at_lane, is_source, fix, sizeof fix);
    return sim_find(
        l->w, l->warp, l->pc, at_lane, SIM_FIND_IN_FLIGHT, l->address[at_lane], &other,
        "%s of %u bytes at %s, which the copy of block (%u, %u, %u) thread (%u, %u, %u) at %s "
        "still %s; %s",
        done, l->bytes,
        sim_place_text(run, l->pc, l->space, l->address[at_lane], place, sizeof place),
        owner->block->index[0], owner->block->index[1], owner->block->index[2],
        other.other_thread[0], other.other_thread[1], other.other_thread[2],
        sim_where_text(run->kernel, c->pc, where, sizeof where), is_source ? "reads" : "writes",
        fix);
}

/* An access that the copy's beginning does not precede is a race, and told as one. */
static int races(const struct sim_request *l, uint32_t lane) {
    return l->w->run->check_races &&
           !sim_races_follows(l->warp, lane, (uint32_t)(l->address[lane] / 4));
}

int sim_copies_read(const struct sim_request *l, uint32_t lane) {
    const struct sim_warp *owner;
    uint32_t from;
    const struct sim_copy *c =
        copy_at(l->warp->block, l->address[lane], l->bytes, 0, &owner, &from);
    if (c && c->reduces && l->kind >= SIM_ACCESS_ATOMIC)
        return 0; /* both are atomic */
    return c && !races(l, lane)
               ? told(l, lane, l->kind >= SIM_ACCESS_ATOMIC ? "atomic" : "read", c, owner, from, 0)
               : 0;
}

static int shared_written(const struct sim_request *l) {
    const struct sim_block *block = l->warp->block;
    const struct sim_warp *owner;
    uint32_t from;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const uint64_t at = l->address[lane];
        const struct sim_copy *c = NULL;
        int out = 0;
        if (sim_shared_is_flying(block, at, l->bytes))
            c = copy_at(block, at, l->bytes, 0, &owner, &from);
        if (!c && block->copies_out)
            c = copy_at(block, at, l->bytes, out = 1, &owner, &from);
        if (c && (out || !races(l, lane)) && told(l, lane, "write", c, owner, from, out))
            return 1;
    }
    return 0;
}

/* An access to global memory; loads: only copies that write there matter. */
static int global_touched(const struct sim_request *l) {
    const struct sim_block *block = l->warp->block;
    const int loads = l->kind == SIM_ACCESS_LOAD;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        const struct sim_region *own = sim_request_region(l->w, l->address[lane], l->bytes);
        const uint8_t *host = own ? own->host + (l->address[lane] - own->base) : NULL;
        for (uint32_t i = 0; own && i < block->warp_count; i++) {
            const struct sim_flight *f = block->warps[i].flight;
            for (uint32_t n = f ? f->first : 0; f && n < f->end; n++) {
                const struct sim_copy *c = &f->copies[n];
                const int out = c->kind == SIM_BULK_OUT;
                if ((loads && !out) || host >= c->high || host + l->bytes <= c->low)
                    continue;
                for (uint32_t left = c->mask; left; left &= left - 1) {
                    const uint32_t o = (uint32_t)__builtin_ctz(left);
                    if (host < c->host[o] + c->bytes && host + l->bytes > c->host[o] &&
                        told(l, lane, loads ? "read" : "write", c, &block->warps[i], o, !out))
                        return 1;
                }
            }
        }
    }
    return 0;
}

int sim_copies_written(const struct sim_request *l) {
    return !l->w->run->check_races    ? 0
           : l->space == SIM_S_SHARED ? shared_written(l)
                                      : global_touched(l);
}

int sim_copies_loaded(const struct sim_request *l) {
    return l->w->run->check_races ? global_touched(l) : 0;
}

/* ---- the instructions ---- */

/* One side of a copy; see sim_access_lanes(). */
static int side(struct sim_request *l, const uint8_t *const regs, uint32_t slot, uint32_t flags,
                uint64_t offset, uint32_t bytes, uint8_t **host) {
    l->regs = (uint8_t *)(uintptr_t)regs;
    l->bytes = bytes;
    sim_request_addresses(l, slot, flags, (int64_t)offset);
    return sim_request_access(l, host);
}

static int plain_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                      uint32_t mask, uint8_t *regs) {
    const uint32_t *extra = &w->run->kernel->extra[in->ext];
    const sim_u32 *sizes =
        extra[1] == SIM_NO_SLOT ? NULL : (const sim_u32 *)(void *)(regs + extra[1]);
    const uint32_t bytes = extra[0];
    uint8_t *source[SIM_LANES], *target[SIM_LANES];
    struct sim_block *block = warp->block;
    struct sim_request from, to;
    sim_request_begin(&from, w, warp, in, mask, regs, 0, SIM_ACCESS_LOAD);
    sim_request_begin(&to, w, warp, in, mask, regs, 0, SIM_ACCESS_STORE);
    from.space = SIM_S_GLOBAL;
    for (uint32_t m = mask; m && sizes; m &= m - 1) /* a source size of 0 reads nothing */
        if (!sizes[__builtin_ctz(m)])
            from.mask &= ~(1u << __builtin_ctz(m));
    if (from.mask && side(&from, regs, extra[2], extra[3], extra_offset(&extra[2]), bytes, source))
        return 1;
    if (side(&to, regs, in->a, in->dst2, (uint64_t)in->imm, bytes, target))
        return 1;
    if (block->copies_in + block->copies_out && sim_copies_written(&to))
        return 1;
    struct sim_copy *c = to.mask ? begin(w, warp, in) : NULL;
    if (!c)
        return to.mask != 0;
    c->bytes = bytes;
    if (to.mask == SIM_FULL) {
        c->lane_group = (uint8_t)to.span.group;
        c->stride = to.span.stride;
        c->step = to.span.step;
    }
    for (uint32_t m = to.mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m), some = sizes ? sizes[lane] : bytes;
        const int reads = from.mask >> lane & 1;
        c->present[lane] = (uint8_t)(!reads ? 0 : some < bytes ? some : bytes);
        fly(block, c, lane, reads ? source[lane] : target[lane], target[lane]);
    }
    block->copies_in++;
    return 0;
}

/* Begins one lane's bulk copy, whose bytes are accessed in pieces of 16; those that are outside of
 * memory end it. */
static int bulk_lane(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t lane, const uint64_t *to, const uint64_t *from, uint32_t bytes,
                     struct sim_copy *c) {
    struct sim_block *block = warp->block;
    uint8_t *host[SIM_LANES], *source = NULL, *target = NULL;
    struct sim_request l;
    for (uint32_t at = 0; at < bytes; at += 16) {
        for (int writes = 0; writes < 2; writes++) {
            sim_request_begin(&l, w, warp, in, 1u << lane, NULL, 0,
                              writes ? SIM_ACCESS_STORE : SIM_ACCESS_LOAD);
            l.bytes = 16;
            l.copied = at;
            l.moved = 1;
            l.space =
                in->sub == (writes ? SIM_BULK_OUT : SIM_BULK_IN) ? SIM_S_GLOBAL : SIM_S_SHARED;
            memcpy(l.address, writes ? to : from, sizeof l.address);
            l.address[lane] += at;
            if (sim_request_access(&l, host))
                return 1;
            if (!l.mask)
                goto begun;
            if (writes && block->copies_in + block->copies_out && sim_copies_written(&l))
                return 1;
            if (!at)
                *(writes ? &target : &source) = host[lane];
        }
        c->bytes = at + 16;
    }
begun:
    if (!c->bytes)
        return 0;
    const int out = in->sub == SIM_BULK_OUT;
    c->address = to[lane];
    fly(block, c, lane, out ? target : source, out ? source : target);
    ++*in_flight(block, c);
    return 0;
}

static int bulk_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t mask, uint8_t *regs) {
    const uint32_t *extra = &w->run->kernel->extra[in->ext];
    uint64_t to[SIM_LANES], from[SIM_LANES], barrier[SIM_LANES];
    uint32_t pc = (uint32_t)(in - w->run->kernel->code);
    sim_lane_addresses(regs, in->a, in->dst2, (uint64_t)in->imm, to);
    extra_addresses(regs, extra + 2, from);
    if (in->sub != SIM_BULK_OUT)
        extra_addresses(regs, extra + 6, barrier);
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
        struct sim_copy *c = begin(w, warp, in);
        if (!c)
            return 1;
        c->bytes = 0;
        if (bulk_lane(w, warp, in, lane, to, from, bytes, c))
            return 1;
        if (in->sub == SIM_BULK_OUT)
            continue;
        if (sim_mbarrier_track(w, warp, in, lane, barrier, &c->barrier[lane]))
            return 1;
        c->tracked = c->barrier[lane] == UINT32_MAX ? 0 : c->mask;
        if (c->bytes < bytes && c->barrier[lane] != UINT32_MAX && /* bytes that will never come */
            sim_mbarrier_count(w, warp, pc, lane, c->barrier[lane], bytes - c->bytes, 0))
            return 1;
    }
    return 0;
}

int sim_exec_later(struct sim_request *l) {
    const struct sim_insn *in = l->in;
    const uint32_t *slots = in->op == SIM_OP_ST ? &l->w->run->kernel->extra[in->ext] : &in->b;
    struct sim_block *block = l->warp->block;
    uint8_t *target[SIM_LANES];
    if (sim_request_access(l, target))
        return 1;
    if (in->op == SIM_OP_ST && block->copies_in + block->copies_out && sim_copies_written(l))
        return 1;
    struct sim_copy *c = l->mask ? begin(l->w, l->warp, in) : NULL;
    if (!c)
        return l->mask != 0;
    c->bytes = l->bytes;
    c->bulk = 1; /* it completes bytes of an mbarrier */
    c->kind = SIM_BULK_WITHIN;
    c->reduces = in->op == SIM_OP_ATOM;
    const uint32_t each = c->bytes / in->vec;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m);
        for (uint32_t v = 0; v < in->vec; v++)
            memcpy(c->value[lane] + v * each, l->regs + slots[v] + (size_t)lane * in->dsize, each);
        fly(block, c, lane, NULL, target[lane]);
    }
    block->copies_in++;
    return 0;
}

int sim_exec_copy(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask, uint8_t *regs) {
    return in->op == SIM_OP_BULK ? bulk_copy(w, warp, in, mask, regs)
                                 : plain_copy(w, warp, in, mask, regs);
}

int sim_exec_wait(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                  uint32_t mask) {
    struct sim_flight *f = warp->flight;
    const int bulk = in->vec;
    if (!f)
        return 0;
    for (uint32_t m = in->sub == SIM_WAIT_GROUP ? 0 : mask; m; m &= m - 1)
        f->committed[bulk][__builtin_ctz(m)]++;
    for (uint32_t n = f->first; n < f->end && in->sub != SIM_WAIT_COMMIT; n++) {
        struct sim_copy *c = &f->copies[n];
        uint32_t done = 0;
        if (c->bulk != bulk || (bulk && c->kind != SIM_BULK_OUT))
            continue;
        for (uint32_t i = 0; i < SIM_LANES; i++)
            done |= (uint32_t)(f->committed[bulk][i] - c->group[i] > (uint64_t)in->imm) << i;
        done &= c->mask & mask;
        if (in->scope) { /* .read */
            move(w, warp->block, c, done);
            continue;
        }
        if (land(w, warp, c, done) || tell_races(w, warp, c, done))
            return 1;
    }
    drop_landed(f);
    return 0;
}

/* ---- mbarriers ---- */

int sim_copies_track(struct sim_warp *warp, uint32_t lane, uint32_t at) {
    struct sim_flight *f = warp->flight;
    struct sim_copy *last = NULL;
    for (uint32_t n = f ? f->first : 0; f && n < f->end; n++) {
        struct sim_copy *c = &f->copies[n];
        if (c->bulk || !((c->mask & ~c->tracked) >> lane & 1))
            continue;
        c->tracked |= 1u << lane;
        c->barrier[lane] = at;
        last = c;
    }
    if (last)
        last->arrives |= 1u << lane;
    return last != NULL;
}

int sim_copies_track_last(struct sim_warp *warp, uint32_t lane, uint32_t at) {
    struct sim_flight *f = warp->flight;
    struct sim_copy *c = f && f->end > f->first ? &f->copies[f->end - 1] : NULL;
    if (!c || c->kind != SIM_BULK_WITHIN || !((c->mask & ~c->tracked) >> lane & 1))
        return 0;
    c->tracked |= 1u << lane;
    c->barrier[lane] = at;
    return 1;
}

static uint32_t lanes_of(const struct sim_copy *c, uint32_t lanes, uint32_t at) {
    uint32_t found = 0;
    for (uint32_t m = lanes; m; m &= m - 1)
        if (c->barrier[__builtin_ctz(m)] == at)
            found |= m & -m;
    return found;
}

int sim_copies_count(struct sim_worker *w, struct sim_block *block, uint32_t at) {
    for (uint32_t i = 0; i < block->warp_count && block->copies_in; i++) {
        struct sim_flight *f = block->warps[i].flight;
        for (uint32_t n = f ? f->first : 0; f && n < f->end; n++)
            if (count(w, &block->warps[i], &f->copies[n],
                      at == SIM_NO_SLOT ? f->copies[n].tracked
                                        : lanes_of(&f->copies[n], f->copies[n].tracked, at)))
                return 1;
    }
    return 0;
}

void sim_copies_phase(struct sim_block *block, uint32_t at) {
    for (uint32_t i = 0; i < block->warp_count && block->copies_in; i++) {
        struct sim_flight *f = block->warps[i].flight;
        for (uint32_t n = f ? f->first : 0; f && n < f->end; n++)
            f->copies[n].landed |=
                lanes_of(&f->copies[n], f->copies[n].tracked & f->copies[n].counted, at);
    }
}

int sim_copies_land(struct sim_worker *w, struct sim_block *block, uint32_t at) {
    for (uint32_t i = 0; i < block->warp_count && block->copies_in; i++) {
        struct sim_flight *f = block->warps[i].flight;
        for (uint32_t n = f ? f->first : 0; f && n < f->end; n++)
            if (land(w, &block->warps[i], &f->copies[n],
                     lanes_of(&f->copies[n], f->copies[n].landed, at)))
                return 1;
        if (f)
            drop_landed(f);
    }
    return 0;
}

/* ---- a block's beginning and end ---- */

void sim_copies_reset(struct sim_block *block) {
    for (uint32_t i = 0; i < block->warp_count; i++)
        if (block->warps[i].flight)
            block->warps[i].flight->first = block->warps[i].flight->end = 0;
    block->copies_in = block->copies_out = 0;
}

void sim_copies_end(struct sim_worker *w, struct sim_block *block) {
    for (uint32_t i = 0; i < block->warp_count && block->copies_out; i++) {
        struct sim_flight *f = block->warps[i].flight;
        for (uint32_t n = f ? f->first : 0; f && n < f->end; n++)
            if (f->copies[n].kind == SIM_BULK_OUT)
                land(w, &block->warps[i], &f->copies[n], f->copies[n].mask);
    }
}

void sim_copies_free(struct sim_warp *warp) {
    if (warp->flight)
        free(warp->flight->copies);
    free(warp->flight);
    warp->flight = NULL;
}
