/* sim_exec_atomic.c: executes atomics, in lane order, and the checked access of instructions that
 * move more than registers.
 */
#include "sim_address.h"
#include "sim_async.h"
#include "sim_exec.h"
#include "../observe/sim_observe.h"

#include <string.h>

/* ---- atomics ---- */

/* Runs a lane operation of ops.def on one lane, for floating-point additions and comparisons. */
static uint64_t one_lane(struct sim_worker *w, const char *mnemonic, uint64_t a, uint64_t b,
                         uint32_t bytes) {
    int row = sim_row_find(mnemonic);
    uint64_t r = 0;
    if (row < 0)
        return 0;
    memset(w->scratch[1], 0, sizeof w->scratch[1]);
    memset(w->scratch[2], 0, sizeof w->scratch[2]);
    memcpy(w->scratch[1], &a, bytes);
    memcpy(w->scratch[2], &b, bytes);
    const struct sim_lane_op *op = &sim_lane_ops[row];
    (w->run->wide ? op->wide : op->plain)(w->scratch[3], w->scratch[1], w->scratch[2],
                                          w->scratch[1], w->scratch[1]);
    memcpy(&r, w->scratch[3], bytes);
    return r;
}

/* atom.add.f32 flushes subnormal numbers only in global memory (PTX ISA, atom). */
static uint32_t flushed(uint32_t x, int flushes) {
    return flushes && !(x & 0x7f800000u) ? x & 0x80000000u : x;
}

static uint64_t combine_float(struct sim_worker *w, const struct sim_insn *in, uint64_t old,
                              uint64_t value, uint32_t bytes, int is_global) {
    char mnemonic[16];
    const char *op = in->sub == SIM_ATOM_ADD   ? "add."
                     : in->sub == SIM_ATOM_MIN ? "min."
                                               : "max.",
               *type = sim_types[in->type].name;
    size_t n = strlen(op);
    if (in->sub == SIM_ATOM_ADD && in->type == SIM_T_F32) {
        float a, b;
        uint32_t r, x = flushed((uint32_t)old, is_global), y = flushed((uint32_t)value, is_global);
        memcpy(&a, &x, 4);
        memcpy(&b, &y, 4);
        a += b;
        memcpy(&r, &a, 4);
        return a != a ? 0x7fffffffu : flushed(r, is_global);
    }
    memcpy(mnemonic, op, n);
    memcpy(mnemonic + n, type, strlen(type) + 1);
    return one_lane(w, mnemonic, old, value, bytes);
}

uint64_t sim_atomic_combine(struct sim_worker *w, const struct sim_insn *in, uint64_t old,
                            uint64_t value, uint64_t compare, uint32_t bytes, int is_global) {
    int is_signed = sim_types[in->type].class == SIM_C_SINT, less;
    if ((sim_types[in->type].class == SIM_C_FLOAT || sim_types[in->type].class == SIM_C_HALF) &&
        in->sub <= SIM_ATOM_MAX)
        return combine_float(w, in, old, value, bytes, is_global);
    less = !is_signed   ? old < value
           : bytes == 4 ? (int32_t)old < (int32_t)value
                        : (int64_t)old < (int64_t)value;
    switch (in->sub) {
    case SIM_ATOM_ADD:
        return old + value;
    case SIM_ATOM_MIN:
        return less ? old : value;
    case SIM_ATOM_MAX:
        return less ? value : old;
    case SIM_ATOM_INC:
        return (uint32_t)old >= (uint32_t)value ? 0 : old + 1;
    case SIM_ATOM_DEC:
        return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)value ? value : old - 1;
    case SIM_ATOM_AND:
        return old & value;
    case SIM_ATOM_OR:
        return old | value;
    case SIM_ATOM_XOR:
        return old ^ value;
    case SIM_ATOM_EXCH:
        return value;
    default:
        return old == value ? compare
                            : old; /* cas: value is the expected value, compare its replacement */
    }
}

/* Integer atomics on single, written words of one memory. Returns 0 if they are other ones. */
static int atomic_words(const struct sim_request *l, struct sim_region *region) {
    const struct sim_insn *in = l->in;
    struct sim_block *block = l->warp->block;
    const int shared = l->space == SIM_S_SHARED,
              is_signed = sim_types[in->type].class == SIM_C_SINT;
    if (in->vec != 1 || l->bytes != 4 || in->dsize != 4 || in->sub == SIM_ATOM_CAS ||
        sim_types[in->type].class == SIM_C_FLOAT || sim_types[in->type].class == SIM_C_HALF ||
        (!shared && (!region || region->valid || region->read_only)))
        return 0;
    for (uint32_t m = shared ? l->mask : 0; m; m &= m - 1)
        if (block->shared_valid[l->address[__builtin_ctz(m)] / 4] != 15)
            return 0;
    const uintptr_t base =
        shared ? (uintptr_t)block->shared : (uintptr_t)region->host - (uintptr_t)region->base;
    const sim_u32 *values = (const sim_u32 *)(const void *)(l->regs + in->b);
    sim_u32 *olds = in->dst == SIM_NO_SLOT ? (sim_u32 *)(void *)l->w->scratch[0]
                                           : (sim_u32 *)(void *)(l->regs + in->dst);
    uint64_t writes = 0;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m), value = values[lane];
        sim_u32 *at = (sim_u32 *)(base + (uintptr_t)l->address[lane]);
        const uint32_t old = *at;
        const int less = is_signed ? (int32_t)old < (int32_t)value : old < value;
        uint32_t made = value;
        switch (in->sub) {
        case SIM_ATOM_ADD:
            made = old + value;
            break;
        case SIM_ATOM_MIN:
            made = less ? old : value;
            break;
        case SIM_ATOM_MAX:
            made = less ? value : old;
            break;
        case SIM_ATOM_EXCH:
            break;
        default:
            made = (uint32_t)sim_atomic_combine(l->w, in, old, value, 0, 4, !shared);
            break;
        }
        writes += made != old;
        *at = made;
        olds[lane] = old;
    }
    l->w->writes += shared ? 0 : writes;
    return 1;
}

static int atomic_lanes(struct sim_request *l, struct sim_region *region) {
    const struct sim_insn *in = l->in;
    if (atomic_words(l, region))
        return 0;
    uint32_t bytes = l->bytes;
    struct sim_block *block = l->warp->block;
    const uint32_t *sources = &in->b, *targets = &in->dst;
    if (in->vec != 1) {
        sources = &l->w->run->kernel->extra[in->e];
        targets = sources + (in->sub == SIM_ATOM_CAS ? 2 : 1) * in->vec;
    }
    for (uint32_t m = l->mask; m; m &= m - 1) { /* in lane order, for a deterministic result */
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        struct sim_region *own = l->space == SIM_S_SHARED ? NULL
                                 : region                 ? region
                                          : sim_request_region(l->w, l->address[lane], bytes);
        uint8_t *at =
            own ? own->host + (l->address[lane] - own->base) : block->shared + l->address[lane];
        if (own && own->read_only) {
            if (sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_READ_ONLY, l->address[lane], NULL,
                         "atomic on constant memory at 0x%llx",
                         (unsigned long long)l->address[lane]))
                return 1;
            continue;
        }
        int valid = own ? sim_memory_is_valid(own, l->address[lane] - own->base, bytes)
                        : sim_shared_is_valid(block, l->address[lane], bytes);
        if (!valid && l->w->run->check_uninit && in->sub != SIM_ATOM_EXCH &&
            sim_request_uninitialised(l, lane))
            return 1;
        const uint32_t each = bytes / in->vec;
        int equal = 1; /* a compare-and-swap compares all elements before it stores any */
        for (uint32_t v = 0; v < in->vec && in->sub == SIM_ATOM_CAS; v++)
            equal &= !memcmp(at + v * each, l->regs + sources[v] + (size_t)lane * in->dsize, each);
        for (uint32_t v = 0; v < in->vec; v++) {
            uint64_t old = 0, value = 0, compare = 0;
            memcpy(&old, at + v * each, each);
            memcpy(&value, l->regs + sources[v] + (size_t)lane * in->dsize, each);
            if (in->sub == SIM_ATOM_CAS)
                memcpy(&compare,
                       l->regs + (in->vec == 1 ? in->c : sources[in->vec + v]) +
                           (size_t)lane * in->dsize,
                       each);
            value = equal || in->sub != SIM_ATOM_CAS ? value : ~old;
            uint64_t made = sim_atomic_combine(l->w, in, old, value, compare, each, own != NULL);
            l->w->writes += own && made != old;
            memcpy(at + v * each, &made, each);
            if (in->dst != SIM_NO_SLOT)
                memcpy(l->regs + targets[v] + (size_t)lane * in->dsize, &old, in->dsize);
        }
        if (own && own->valid)
            sim_memory_mark(own, l->address[lane] - own->base, bytes);
        else if (!own && !sim_shared_is_flying(block, l->address[lane], bytes))
            sim_shared_mark(block, l->address[lane], bytes);
    }
    return 0;
}

static int atomic_global(struct sim_request *l) {
    sim_request_measure(l);
    struct sim_region *region;
    if (sim_request_check_alignment(l) || sim_request_regions(l, &region) < 0)
        return 1;
    return l->mask ? sim_request_event(l, region, NULL) || atomic_lanes(l, region) : 0;
}

static int atomic_shared(struct sim_request *l) {
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || sim_request_check_limit(l, l->warp->block->shared_bytes))
        return 1;
    return l->mask ? sim_request_event(l, NULL, NULL) || atomic_lanes(l, NULL) : 0;
}

int sim_exec_atomic(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                    uint32_t mask, uint8_t *regs) {
    struct sim_request l;
    sim_request_begin(&l, w, warp, in, mask, regs, 0,
                      in->dst == SIM_NO_SLOT ? SIM_ACCESS_REDUCE : SIM_ACCESS_ATOMIC);
    sim_request_addresses(&l, in->a, in->ext, in->imm);
    if (w->run->check_races)
        sim_races_order(w->run, warp, in->order,
                        &(struct sim_words){l.address, l.mask, l.bytes, in->space == SIM_S_SHARED},
                        1, 1);
    if (SIM_UNLIKELY(in->flags & SIM_F_LATER))
        return sim_exec_later(&l);
    return in->space == SIM_S_SHARED ? atomic_shared(&l)
           : in->space == SIM_S_GLOBAL
               ? atomic_global(&l)
               : sim_request_by_window(&l, atomic_global, atomic_shared, NULL, NULL);
}

/* ---- for instructions that move more than registers ---- */

int sim_request_access(struct sim_request *l, uint8_t **host) {
    struct sim_region *region = NULL;
    struct sim_block *b = l->warp->block;
    const int shared = l->space == SIM_S_SHARED, copies = l->in->op != SIM_OP_MBAR,
              loads = l->kind == SIM_ACCESS_LOAD, stores = l->kind == SIM_ACCESS_STORE;
    sim_request_measure(l);
    if (sim_request_check_alignment(l) || (shared ? sim_request_check_limit(l, b->shared_bytes)
                                                  : sim_request_regions(l, &region) < 0))
        return 1;
    if (l->mask && sim_request_event(l, region, NULL))
        return 1;
    for (uint32_t m = l->mask; m; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(m), bytes = l->bytes;
        const uint64_t at = l->address[lane];
        struct sim_region *own = shared   ? NULL
                                 : region ? region
                                          : sim_request_region(l->w, at, bytes);
        host[lane] = own ? own->host + (at - own->base) : b->shared + at;
        int valid = stores || (own ? sim_memory_is_valid(own, at - own->base, bytes)
                                   : sim_shared_is_valid(b, at, bytes));
        for (uint32_t i = 0; i < bytes && !valid && loads; i++)
            valid = own ? sim_memory_is_valid(own, at - own->base + i,
                                              1) /* a copy may include padding */
                        : sim_shared_is_valid(b, at + i, 1);
        if (!valid && l->w->run->check_uninit && sim_request_uninitialised(l, lane))
            return 1;
        if (!loads && own && own->read_only)
            return sim_find(l->w, l->warp, l->pc, lane, SIM_FIND_READ_ONLY, at, NULL,
                            "write to constant memory at 0x%llx", (unsigned long long)at),
                   1;
        if (!loads && own)
            sim_memory_mark(own, at - own->base, bytes);
        else if (!loads && !copies) /* copies mark their bytes when they land */
            sim_shared_mark(b, at, bytes);
    }
    return 0;
}

int sim_access_lanes(struct sim_worker *w, struct sim_warp *warp, const struct sim_insn *in,
                     uint32_t *mask, unsigned space, unsigned kind, const uint64_t *address,
                     uint32_t bytes, uint8_t **host) {
    struct sim_request l;
    sim_request_begin(&l, w, warp, in, *mask, NULL, 0, (uint8_t)kind);
    l.bytes = bytes;
    l.moved = 1;
    memcpy(l.address, address, sizeof l.address);
    if (space == SIM_S_GENERIC) { /* these instructions require all lanes in one space */
        uint64_t a = address[__builtin_ctz(*mask)];
        space = a - SIM_SHARED_WINDOW < SIM_WINDOW_BYTES ? SIM_S_SHARED : SIM_S_GLOBAL;
        for (int i = 0; i < SIM_LANES && space == SIM_S_SHARED; i++)
            l.address[i] -= SIM_SHARED_WINDOW;
    }
    l.space = (uint8_t)space;
    const int ends = sim_request_access(&l, host);
    *mask = l.mask;
    return ends;
}
